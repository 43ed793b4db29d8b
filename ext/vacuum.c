/*
** vacuum.c: claimq_vacuum() removes what nobody needs any more.
**
**     SELECT claimq_vacuum();                          -- 1500 rows removed
**     SELECT claimq_vacuum('limit', 1000);             -- at most so many
**     SELECT claimq_vacuum('older_than_ms', 86400000);
**     -- also jobs that ended a day ago or before, their attempts, and events
**
** What it removes: messages of the outbox that are processed, grants that have
** expired, sets of capabilities that no job needs any more, dead letters that
** are resolved or discarded; and with older_than_ms jobs that ended so long
** ago, with their attempts, and events as old.  What it never removes: messages
** that wait, letters that are pending or claimed, jobs that are not terminal
** and their attempts, partitions, fencing tokens.
** Each discipline says which rows of its own may go: rows that go by their key
** by a table of statements (CqVacuumDef), others by functions.
**
** Most rows that may go are found through an index (or stand first in their
** table), and those that stay are not looked at.  Jobs that ended, and sets
** that no job needs, are only found that way under the setting `vacuum`;
** without it all jobs are read.  Without a limit everything goes in one
** transaction; in a busy database several calls with a limit let others write
** in between.  If there is nothing to remove no lock is taken.
*/
#include "claimq_int.h"

/* Rows that are looked up at once, to bound memory. */
#define CQ_VACUUM_CHUNK 1000

#define CQ_VAC_OLDER 0
#define CQ_VAC_LIMIT 1
static const CqArgDef cqVacuumOpt[] = {
  { CQ_ARG(INT, "older_than_ms"),
    .zDoc = "also jobs and events that ended so long ago" },
  { CQ_ARG(INT, "limit"), .iDefault = CQ_I64_MAX,
    .zDoc = "remove at most so many rows" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

/*
** 1 if this kind of row is to be looked at; *piUntil is its deadline.
*/
static int cqVacuumWants(
  CqOp *p, const CqVacuum *pV, const CqVacuumDef *pDef, i64 *piUntil
){
  *piUntil = claimqNow(p);
  if( !pDef->bOld ) return 1;
  *piUntil -= pV->aOpt[CQ_VAC_OLDER].i;
  return pV->aOpt[CQ_VAC_OLDER].bGiven;
}

/*
** Collect the keys of at most nMax rows that go, up to the first one that
** stays.  (The statement gives the oldest first; events by their numbers, so
** that one with a later time keeps those behind it.)
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
** Run one DELETE over a list.  Returns how many rows it removed, which are
** counted.
*/
static i64 cqVacuumDelete(CqOp *p, CqVacuum *pV, int eStmt, const CqIds *pIds){
  CqStmt s = claimqStmt(p, eStmt);
  i64 n;
  claimqBindIds(p, &s, CQ_VACUUM_DELETE_ids, pIds);
  claimqBindInt(p, &s, CQ_VACUUM_DELETE_limit, pV->nLeft);
  n = claimqExec(p, &s);
  pV->nLeft -= n;
  pV->task.iAnswer += n;
  assert( pV->nLeft>=0 );
  return n;
}

/*
** Remove one kind of row, as many as may go.
*/
static void cqVacuumRows(CqOp *p, CqVacuum *pV, const CqVacuumDef *pDef){
  CqIds ids;
  i64 iUntil, n = 1;
  if( !cqVacuumWants(p, pV, pDef, &iUntil) ) return;
  memset(&ids, 0, sizeof(ids));
  while( n>0 && pV->nLeft>0 && p->rc==SQLITE_OK ){
    i64 nMax = pV->nLeft<CQ_VACUUM_CHUNK ? pV->nLeft : CQ_VACUUM_CHUNK;
    int i;
    ids.n = 0;
    cqVacuumSelect(p, pDef, iUntil, nMax, &ids);
    if( ids.n==0 ) break;
    n = 0;
    for(i=0; i<CQ_ARRAYSIZE(pDef->aFirst) && pDef->aFirst[i]>=0; i++){
      n += cqVacuumDelete(p, pV, pDef->aFirst[i], &ids);
    }
    n += cqVacuumDelete(p, pV, pDef->eDelete, &ids);
  }
  claimqIdsClear(&ids);
}

/*
** Is there anything to remove?  Of each kind one row is looked for, until there
** is one.
*/
static void cqVacuumLoad(CqOp *p, CqTask *pTask){
  CqVacuum *pV = (CqVacuum*)pTask;
  const CqDiscipline *pD;
  CqIds ids;
  i64 iUntil;
  int i, j, bAny = 0;
  pV->nLeft = pV->aOpt[CQ_VAC_LIMIT].i;
  pTask->iAnswer = 0;
  if( pV->nLeft==0 ) return;
  memset(&ids, 0, sizeof(ids));
  for(i=0; !bAny && p->rc==SQLITE_OK && (pD = claimqDiscipline(i))!=0; i++){
    bAny = pD->xVacuumAny && pD->xVacuumAny(p);
    for(j=0; j<pD->nVacuum && !bAny; j++){
      if( cqVacuumWants(p, pV, &pD->aVacuum[j], &iUntil) ){
        cqVacuumSelect(p, &pD->aVacuum[j], iUntil, 1, &ids);
      }
      bAny = ids.n>0;
    }
  }
  claimqIdsClear(&ids);
  if( bAny ) pTask->eNeed = CQ_NEED_MANY;
}

/*
** Remove what may go, discipline by discipline, until the limit is reached.
*/
static void cqVacuumApply(CqOp *p, CqTask *pTask){
  CqVacuum *pV = (CqVacuum*)pTask;
  const CqDiscipline *pD;
  int i, j;
  for(i=0; (pD = claimqDiscipline(i))!=0; i++){
    if( pD->xVacuum ) pD->xVacuum(p, pV);
    for(j=0; j<pD->nVacuum; j++) cqVacuumRows(p, pV, &pD->aVacuum[j]);
  }
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
  v.aOpt = pCall->aOpt;
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
      .zDoc = "remove what nobody needs any more" },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
