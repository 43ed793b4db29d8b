/*
** vacuum.c: removing what is over, after a while.
**
**     SELECT claimq_vacuum();                      -- 1500 rows removed
**     SELECT claimq_vacuum('max', 100);            -- at most this many
**     SELECT claimq_vacuum('older_than_ms', 0);    -- also what has just ended
**
** Jobs that have ended are kept for a while, and so are their attempts and
** events, messages that are processed, letters that are settled: 7 days, and
** failed jobs 30, unless the policy of a lane says otherwise.  Then the calls
** that end other work remove them, a few at a time, in their own transaction:
** nobody has to do anything, and what the tables hold stays in proportion to
** what must be kept.  The number of the work that a call ends decides whether
** it removes anything, and the time of the call decides what: so replicas that
** make the same calls hold the same rows.
**
** claimq_vacuum() removes more at once, for whoever does not want to wait for
** that, or wants to keep less.  It removes at most 10,000 rows: call it until
** it answers 0.
**
** Never removed are messages that wait, letters that are open and the jobs they
** are about, jobs that have not ended and those that these wait for, keys that
** are still taken, partitions, and fencing tokens.
**
** Each discipline says which of its rows may be removed: by a table of
** statements (CqVacuumDef) where a key and one time decide, else by a function.
*/
#include "claimq_int.h"

/* Rows that are looked up at once, to bound memory. */
#define CQ_VACUUM_CHUNK 1000
#define CQ_VACUUM_QUIET 10000     /* The same of those that are not counted */

#define CQ_VAC_OLDER 0
#define CQ_VAC_LIMIT 1
static const CqArgDef cqVacuumOpt[] = {
  { CQ_ARG(INT, "older_than_ms"),
    .zDoc = "what ended at least this long ago, instead of keep_ms" },
  { CQ_ARG(INT, "max"), .iDefault = 10000,
    .zDoc = "remove at most this many rows" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

/**************************************************************************
** How long something is kept
*/

/*
** Messages and letters are kept for keep_ms of the policy for every lane.
*/
CQ_PRIV i64 claimqKeepUntil(CqOp *p, i64 iOlder){
  i64 iKeep = iOlder<0 ? CQ_KEEP_MS : iOlder;
  if( iOlder<0 && (claimqSettings(p) & CQ_SET_LIMITS) ){
    CqStmt s = claimqStmt(p, CQ_SQL_KEEP_DEFAULT);
    if( claimqStep(p, &s)
     && claimqColType(&s, CQ_COL_KEEP_DEFAULT_keep_ms)!=SQLITE_NULL
    ){
      iKeep = claimqColInt(&s, CQ_COL_KEEP_DEFAULT_keep_ms);
    }
    claimqStmtDone(p, &s);
  }
  return iKeep<0 ? CQ_I64_MIN : claimqNow(p)-iKeep;
}

/*
** 1 if what ended at iEnd, and is kept for iKeep, may go.
*/
CQ_PRIV int claimqKeepOver(i64 iEnd, i64 iKeep, i64 iNow){
  return iKeep>=0 && claimqAddSat(iEnd<0 ? 0 : iEnd, iKeep)<=iNow;
}

/*
** One key in CQ_KEEP_EVERY has the turn: that costs the other calls nothing,
** and is the same on every replica.  The keys are not the multiples of a
** number, because work may come in a pattern, and the work with such keys may
** never end.  They are the keys whose product with the golden ratio is just
** above an integer: at least one of any 55 consecutive keys.
*/
CQ_PRIV int claimqKeepTurn(i64 iLast, i64 n){
  i64 i;
  if( n>64 ) n = 64;
  for(i=iLast; i>0 && i>iLast-n; i--){
    sqlite3_uint64 x = (sqlite3_uint64)i*0x9E3779B97F4A7C15u;
    if( x<~(sqlite3_uint64)0/CQ_KEEP_EVERY ) return 1;
  }
  return 0;
}

CQ_PRIV void claimqVacuumed(CqVacuum *pV, i64 n){
  assert( n>=0 && !pV->bLook );
  pV->nLeft -= n;
  pV->task.iAnswer += n;
}

/**************************************************************************
** Rows that go by their key and their time
*/

/*
** Rows of this kind that are older than this are removed.
*/
static i64 cqVacuumUntil(CqOp *p, const CqVacuum *pV, const CqVacuumDef *pDef){
  return pDef->bKept ? claimqKeepUntil(p, pV->iOlder) : claimqNow(p);
}

/*
** Collect the keys of at most nMax rows that go, up to the first one that
** stays: the statement gives the oldest first.
*/
static void cqVacuumSelect(
  CqOp *p, const CqVacuumDef *pDef, i64 iUntil, i64 nMax, CqIds *pIds
){
  CqStmt s = claimqStmt(p, pDef->eSelect);
  assert( nMax>0 && pIds->n==0 );
  claimqBindInt(p, &s, CQ_VACUUM_ROWS_limit, nMax);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  while( claimqStep(p, &s)
      && claimqColInt(&s, CQ_COL_VACUUM_ROWS_at_ms)<=iUntil ){
    claimqIdsAdd(p, pIds, claimqColInt(&s, CQ_COL_VACUUM_ROWS_id));
  }
  claimqStmtDone(p, &s);
}

/*
** Run one DELETE over a list, of nMax rows at most.  Returns how many it
** removed.
*/
CQ_PRIV i64 claimqVacuumList(CqOp *p, int eStmt, const CqIds *pIds, i64 nMax){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindIds(p, &s, CQ_VACUUM_DELETE_ids, pIds);
  claimqBindInt(p, &s, CQ_VACUUM_DELETE_limit, nMax);
  return claimqExec(p, &s);
}

/*
** The same for a vacuum: at most as many rows as it has left, and they count.
*/
static i64 cqVacuumDelete(
  CqOp *p, CqVacuum *pV, int eStmt, const CqIds *pIds
){
  i64 n = claimqVacuumList(p, eStmt, pIds, pV->nLeft);
  claimqVacuumed(pV, n);
  return n;
}

/*
** Remove rows that users do not know and that are not counted.  To find them
** all jobs are read: so there is only one look in a call.
*/
static void cqVacuumQuiet(CqOp *p, CqVacuum *pV, const CqVacuumDef *pDef){
  CqVacuum quiet = *pV;
  CqIds ids;
  memset(&ids, 0, sizeof(ids));
  quiet.nLeft = CQ_VACUUM_QUIET;
  cqVacuumSelect(p, pDef, cqVacuumUntil(p, pV, pDef),
                 pV->bLook ? 1 : quiet.nLeft, &ids);
  if( pV->bLook ){
    pV->bAny = pV->bAny || ids.n>0;
  }else if( ids.n>0 ){
    if( pDef->eFirst>=0 ) cqVacuumDelete(p, &quiet, pDef->eFirst, &ids);
    cqVacuumDelete(p, &quiet, pDef->eDelete, &ids);
  }
  claimqIdsClear(&ids);
}

/*
** Remove one kind of row, as many as may go, or look whether there are any.
*/
static void cqVacuumRows(CqOp *p, CqVacuum *pV, const CqVacuumDef *pDef){
  CqIds ids;
  i64 iUntil, n = 1;
  if( pDef->bQuiet ){
    cqVacuumQuiet(p, pV, pDef);
    return;
  }
  iUntil = cqVacuumUntil(p, pV, pDef);
  memset(&ids, 0, sizeof(ids));
  while( n>0 && pV->nLeft>0 && !pV->bAny && p->rc==SQLITE_OK ){
    i64 nMax = pV->nLeft<CQ_VACUUM_CHUNK ? pV->nLeft : CQ_VACUUM_CHUNK;
    ids.n = 0;
    cqVacuumSelect(p, pDef, iUntil, pV->bLook ? 1 : nMax, &ids);
    if( ids.n==0 ) break;
    if( pV->bLook ){
      pV->bAny = 1;
      break;
    }
    n = pDef->eFirst<0 ? 0 : cqVacuumDelete(p, pV, pDef->eFirst, &ids);
    n += cqVacuumDelete(p, pV, pDef->eDelete, &ids);
  }
  claimqIdsClear(&ids);
}

/*
** The same for an ordinary call: remove nMax rows at most; or, if that is 0,
** answer 1 if there are any.
*/
CQ_PRIV int claimqVacuumSome(CqOp *p, const CqVacuumDef *pDef, i64 nMax){
  CqVacuum v;
  memset(&v, 0, sizeof(v));
  v.iOlder = -1;
  v.bLook = nMax==0;
  v.nLeft = v.bLook ? 1 : nMax;
  if( p->rc==SQLITE_OK ) cqVacuumRows(p, &v, pDef);
  return v.bAny;
}

/**************************************************************************
** claimq_vacuum()
*/

/*
** Remove the answers of requests after their day is over.
*/
static void cqVacuumRequests(CqOp *p, CqVacuum *pV){
  assert( !pV->bAny && pV->nLeft>0 );
  if( pV->bLook ) pV->bAny = (u8)claimqRequestOld(p);
  else claimqVacuumed(pV, claimqRequestForget(p, pV->nLeft));
}

/*
** Discipline by discipline, until the limit is reached, or something is found.
*/
static void cqVacuumAll(CqOp *p, CqVacuum *pV){
  const CqDiscipline *pD;
  int i, j;
  cqVacuumRequests(p, pV);
  for(i=0; (pD = claimqDiscipline(i))!=0; i++){
    if( p->rc || pV->nLeft<=0 || pV->bAny ) return;
    if( pD->xVacuum ) pD->xVacuum(p, pV);
    for(j=0; j<pD->nVacuum; j++) cqVacuumRows(p, pV, &pD->aVacuum[j]);
  }
}

/*
** Is there anything to remove?  If not, no lock is taken.  (Rows that an
** earlier try removed are there again.)
*/
static void cqVacuumLoad(CqOp *p, CqTask *pTask){
  CqVacuum *pV = (CqVacuum*)pTask;
  pTask->iAnswer = 0;
  pV->nLeft = pV->nLimit;
  pV->bLook = 1;
  pV->bAny = 0;
  if( pV->nLeft>0 ) cqVacuumAll(p, pV);
  if( pV->bAny ) pTask->eNeed = CQ_NEED_MANY;
}

static void cqVacuumApply(CqOp *p, CqTask *pTask){
  CqVacuum *pV = (CqVacuum*)pTask;
  pV->bLook = pV->bAny = 0;
  cqVacuumAll(p, pV);
}

/*
** claimq_vacuum([option, value]...) -> rows removed
*/
static void cqVacuumFunc(CqOp *p, CqCall *pCall){
  CqVacuum v;
  memset(&v, 0, sizeof(v));
  v.task.xLoad = cqVacuumLoad;
  v.task.xApply = cqVacuumApply;
  v.task.zWhat = "claimq_vacuum()";
  v.iOlder = pCall->aOpt[CQ_VAC_OLDER].bGiven ? pCall->aOpt[CQ_VAC_OLDER].i
                                              : -1;
  v.nLimit = pCall->aOpt[CQ_VAC_LIMIT].i;
  claimqRun(p, &v.task);
  claimqTaskResult(p, &v.task, pCall->pCtx);
}

/*
** The definition of claimq_vacuum().
*/
CQ_PRIV const CqFuncDef *claimqVacuumFuncs(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_vacuum", .eKind = CQ_F_WRITE, .aOpt = cqVacuumOpt,
      .nOpt = CQ_ARRAYSIZE(cqVacuumOpt), .xFunc = cqVacuumFunc,
      .zDoc = "remove what need not be kept any longer" },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
