/*
** contest.c: the contest discipline, and the fence of a protected resource.
** Many contend for a named subject, one becomes its holder for a while: leader
** election, named locks.
**
**     SELECT outcome, mine, owner_id, fencing_token, claim_id
**       FROM claimq_contest(0, 'leader', 'node-a');
**     -- claimed|1|node-a|1|qsc:1:1
**     SELECT outcome, mine, owner_id, fencing_token, claim_id
**       FROM claimq_contest(0, 'leader', 'node-b');
**     -- yield|0|node-a|1|qsc:1:1
**     SELECT claimq_renew('qsc:1:1', :lease_token, 30000);
**
** A subject is a kind (a small number) and a label.  A contest always answers
** with one row: the caller won (`claimed`), or the row tells who is live
** (`yield`).  A yield writes nothing, not even for the holder itself
** (`mine`=1), who extends its claim with claimq_renew().
**
** What the rules of SPEC section 9 leave open is decided so:
**
**   *  ttl_ms 0 holds nothing and writes nothing.  If somebody is live, the
**      row describes that holder as any yield does: a way to look.  If nobody
**      is, `mine` is 1, owner and incarnation are the caller's, claimed_at_ms
**      and expires_at_ms are now, and there is no claim_id.
**   *  attempts counts the claims that were lost to expiry since the subject
**      was last released: how often a holder died on it.
**   *  release with delay_ms keeps the subject back: until then contests are a
**      yield in which nobody holds it (claim_id is NULL, expires_at_ms is the
**      end).
**   *  complete and retry are release (retry returns 'retry').  reject is
**      refused: a contest holds no work that could become a dead letter.
**
** The fence is the other half.  A holder may be stopped, lose its claim to
** another, and wake up without knowing.  So whatever it writes to must refuse
** it, and can: tokens of later winners are greater.
**
**     SELECT claimq_fence('printer', 2);      -- 1, and 2 is remembered
**     SELECT claimq_fence('printer', 1);      -- 0: too late
*/
#include "claimq_int.h"

#define CQ_LABEL_MAX 65535        /* Bytes of a label or an owner */

/* Columns of CONTEST_HOLDER; the claim columns stand at 1..9. */
#define CQ_CH_ID       0
#define CQ_CH_CLAIM    1
#define CQ_CH_OWNER    4
#define CQ_CH_INC      5
#define CQ_CH_EXPIRES  7
#define CQ_CH_ATTEMPTS 10

/* Columns of the claim table that are its own. */
#define CQ_CON_OUTCOME 0
#define CQ_CON_MINE    1
#define CQ_CON_KIND    2
#define CQ_CON_LABEL   3
#define CQ_CON_NCOL    4
#define CQ_CON_COLS "outcome:t mine:i subject_kind:i subject_label:t"

/**************************************************************************
** The contest
*/
typedef struct CqContest CqContest;
struct CqContest {
  i64 iKind, iTtl;
  CqText label, owner, incarnation;
  u8 bNew;                        /* The subject has no row yet */
  CqLease lease;
  CqRows *pRows;                  /* One row, for the caller */
};

/*
** Begin the one row of the answer.  Returns its cells, 0 on error.
*/
static CqCell *cqContestRow(
  CqOp *p, CqContest *pC, const char *zOutcome, int bMine
){
  CqCell *a = claimqRowsAdd(p, pC->pRows);
  if( a==0 ) return 0;
  claimqCellText(p, pC->pRows, &a[CQ_CON_OUTCOME], claimqStr(zOutcome));
  claimqCellInt(&a[CQ_CON_MINE], bMine);
  claimqCellInt(&a[CQ_CON_KIND], pC->iKind);
  claimqCellText(p, pC->pRows, &a[CQ_CON_LABEL], pC->label);
  return p->rc ? 0 : a;
}

/*
** Somebody is live, or the subject is kept back: describe that.  The lease
** token is shown to the holder alone.
*/
static void cqContestYield(CqOp *p, CqContest *pC, sqlite3_stmt *pHolder){
  int bMine = claimqTextEq(claimqColumnText(p, pHolder, CQ_CH_OWNER), pC->owner)
      && claimqTextEq(claimqColumnText(p, pHolder, CQ_CH_INC), pC->incarnation);
  CqCell *a = cqContestRow(p, pC, "yield", bMine);
  int i;
  for(i=0; i<CQ_NCLAIMCOL && p->rc==SQLITE_OK; i++){
    if( i==1 && !bMine ) continue;
    claimqCellColumn(p, pC->pRows, &a[CQ_CON_NCOL+i], pHolder, CQ_CH_CLAIM+i);
  }
}

/*
** ttl_ms 0, and nobody is live.
*/
static void cqContestNothing(CqOp *p, CqContest *pC){
  CqCell *a = cqContestRow(p, pC, "yield", 1);
  if( a==0 ) return;
  a += CQ_CON_NCOL;
  claimqCellText(p, pC->pRows, &a[3], pC->owner);
  claimqCellText(p, pC->pRows, &a[4], pC->incarnation);
  claimqCellInt(&a[5], claimqNow(p));
  claimqCellInt(&a[6], claimqNow(p));
}

/*
** SCOPE of the lease token: KIND/LABEL.  The caller frees; z==0 on OOM.
*/
static CqText cqContestScope(CqOp *p, const CqContest *pC){
  CqText t = {0, 0};
  char *z = claimqMalloc(p, (i64)pC->label.n+21);
  if( z ){
    t.n = claimqI64Text(pC->iKind, z);
    z[t.n++] = '/';
    memcpy(&z[t.n], pC->label.z, (size_t)pC->label.n);
    t.n += pC->label.n;
    t.z = z;
  }
  return t;
}

/*
** Nobody is live: the caller wins.  iHolder is the subject's row, or 0.
*/
static void cqContestWin(
  CqOp *p, CqContest *pC, i64 iHolder, CqText previous, i64 nAttempt
){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_CONTEST_COUNTER);
  CqText scope = cqContestScope(p, pC);
  CqCell *a;
  if( claimqStep(p, pStmt) ){
    i64 iNew = sqlite3_column_int64(pStmt, 1);
    claimqLeaseMake(&pC->lease, "qsc", pC->bNew ? iNew : iHolder,
        sqlite3_column_int64(pStmt, 0), scope, pC->owner, pC->incarnation,
        claimqNow(p), pC->iTtl);
    a = cqContestRow(p, pC, "claimed", 1);
    if( a ){
      claimqLeaseCells(p, pC->pRows, &a[CQ_CON_NCOL], &pC->lease, previous,
                       nAttempt);
    }
    p->nWrite = 1;
  }else{
    claimqFail(p, CQ_SCHEMA_MISMATCH, "the row contest_fence of claimq_meta is "
        "missing: insert it with a value above all tokens ever given");
  }
  claimqStmtDone(p, CQ_SQL_CONTEST_COUNTER, pStmt);
  sqlite3_free((char*)scope.z);
}

static void cqContestLoad(CqOp *p, void *pCtx){
  CqContest *pC = (CqContest*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_CONTEST_HOLDER);
  CqText none = {0, 0};
  claimqBindInt(p, pStmt, 1, pC->iKind);
  claimqBindText(p, pStmt, 2, pC->label);
  pC->bNew = !claimqStep(p, pStmt);
  if( p->rc==SQLITE_OK && !pC->bNew
   && claimqLeaseLive(sqlite3_column_int64(pStmt, CQ_CH_EXPIRES), claimqNow(p))
  ){
    cqContestYield(p, pC, pStmt);
  }else if( pC->iTtl==0 ){
    cqContestNothing(p, pC);
  }else if( pC->bNew ){
    cqContestWin(p, pC, 0, none, 0);
  }else{
    cqContestWin(p, pC, sqlite3_column_int64(pStmt, CQ_CH_ID),
                 claimqColumnText(p, pStmt, CQ_CH_CLAIM),
                 sqlite3_column_int64(pStmt, CQ_CH_ATTEMPTS));
  }
  claimqStmtDone(p, CQ_SQL_CONTEST_HOLDER, pStmt);
}

/*
** One write; a trigger advances the counter.
*/
static void cqContestApply(CqOp *p, void *pCtx){
  CqContest *pC = (CqContest*)pCtx;
  int eStmt = pC->bNew ? CQ_SQL_CONTEST_ENTER : CQ_SQL_CONTEST_TAKE;
  sqlite3_stmt *pStmt = claimqStmt(p, eStmt);
  claimqBindInt(p, pStmt, 1, pC->lease.iHead);
  claimqLeaseBind(p, pStmt, 2, &pC->lease);
  if( pC->bNew ){
    claimqBindInt(p, pStmt, 8, pC->iKind);
    claimqBindText(p, pStmt, 9, pC->label);
    claimqBindInt(p, pStmt, 10, pC->lease.iFence);
  }else{
    claimqBindInt(p, pStmt, 8, pC->lease.iFence);
  }
  claimqExec(p, eStmt, pStmt);
}

/* Arguments of claimq_contest(...), in this order. */
static const CqArgDef cqContestArg[] = {
  { "kind",        CQ_T_INT,  CQ_A_REQUIRED, 0, 0, 0, 0, 255, 0 },
  { "label",       CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, CQ_LABEL_MAX, 0 },
  { "owner",       CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, CQ_LABEL_MAX, 0 },
  { "ttl_ms",      CQ_T_INT,  0, 0, 30000, 0, 0, 0, 0 },
  { "incarnation", CQ_T_TEXT, 0, 0, 0, "", 0, 0, 0 },
  { "now_ms",      CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};

static void cqContestFill(
  CqOp *p, const CqVal *aArg, i64 nLimit, CqRows *pRows
){
  static const CqTask task = { cqContestLoad, cqContestApply, 0 };
  CqContest c;
  if( CQ_NEVER(nLimit==0) ) return;   /* SQLite runs nothing for LIMIT 0 */
  memset(&c, 0, sizeof(c));
  c.iKind = aArg[0].i;
  c.label = aArg[1].t;
  c.owner = aArg[2].t;
  c.iTtl = aArg[3].i;
  c.incarnation = aArg[4].t;
  c.pRows = pRows;
  claimqRun(p, &task, &c);
}

/**************************************************************************
** The verbs
*/

/*
** Raises claim_lost unless the claim has its row, or the verb is release, for
** which that is no error.
*/
static void cqContestVerbLoad(CqOp *p, void *pCtx){
  CqVerb *pVerb = (CqVerb*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_CONTEST_BY_ID);
  CqText other = {0, 0};
  CqHold hold;
  int eVerdict;
  memset(&hold, 0, sizeof(hold));
  hold.nSize = 1;
  claimqBindInt(p, pStmt, 1, pVerb->iHead);
  if( claimqStep(p, pStmt) ){
    hold.bHead = 1;
    other = claimqColumnText(p, pStmt, 0);
    hold.nRow = claimqTextEq(other, pVerb->claimId);
    hold.nToken = hold.nRow
        && claimqTextEq(claimqColumnText(p, pStmt, 1), pVerb->token);
  }
  eVerdict = claimqLeaseVerdict(p, pVerb, &hold, other);
  claimqStmtDone(p, CQ_SQL_CONTEST_BY_ID, pStmt);
  pVerb->iResult = eVerdict==CQ_HOLD_OK;
  p->nWrite = eVerdict==CQ_HOLD_OK && pVerb->eVerb!=CQ_GUARD;
}

static void cqContestVerbApply(CqOp *p, void *pCtx){
  CqVerb *pVerb = (CqVerb*)pCtx;
  int bRenew = pVerb->eVerb==CQ_RENEW;
  i64 nKeep = bRenew ? pVerb->iTtl : pVerb->iDelay;
  int eStmt = bRenew ? CQ_SQL_CONTEST_RENEW
            : nKeep>0 ? CQ_SQL_CONTEST_KEEP_BACK : CQ_SQL_CONTEST_RELEASE;
  sqlite3_stmt *pStmt = claimqStmt(p, eStmt);
  claimqBindInt(p, pStmt, 1, pVerb->iHead);
  if( eStmt!=CQ_SQL_CONTEST_RELEASE ){
    i64 iUntil = claimqAddSat(claimqNow(p), nKeep);
    claimqBindInt(p, pStmt, 2, iUntil);
    if( bRenew ) pVerb->iResult = iUntil;
  }
  if( pVerb->eVerb==CQ_RETRY ) pVerb->zResult = "retry";
  claimqExec(p, eStmt, pStmt);
}

static void cqContestVerb(CqOp *p, CqVerb *pVerb){
  static const CqTask task = { cqContestVerbLoad, cqContestVerbApply, 0 };
  if( pVerb->eVerb==CQ_REJECT ){
    claimqFail(p, CQ_BAD_ARGUMENT, "a contest holds no work that could be "
        "rejected: use claimq_release()");
  }else{
    claimqVerbRun(p, pVerb, &task, pVerb);
  }
}

/**************************************************************************
** claimq_fence(resource, token) -> 1, or 0 if a higher token was seen
*/
typedef struct CqFence CqFence;
struct CqFence {
  CqText resource;
  i64 iToken;
  int bOk;                        /* OUT: the result */
};

static void cqFenceLoad(CqOp *p, void *pCtx){
  CqFence *pF = (CqFence*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_FENCE_TOKEN);
  claimqBindText(p, pStmt, 1, pF->resource);
  pF->bOk = 1;
  p->nWrite = 1;
  if( claimqStep(p, pStmt) ){
    i64 iSeen = sqlite3_column_int64(pStmt, 0);
    pF->bOk = pF->iToken>=iSeen;
    p->nWrite = pF->iToken>iSeen;
  }
  claimqStmtDone(p, CQ_SQL_FENCE_TOKEN, pStmt);
}

static void cqFenceApply(CqOp *p, void *pCtx){
  CqFence *pF = (CqFence*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_FENCE_RAISE);
  claimqBindText(p, pStmt, 1, pF->resource);
  claimqBindInt(p, pStmt, 2, pF->iToken);
  claimqExec(p, CQ_SQL_FENCE_RAISE, pStmt);
}

static void cqFenceFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqTask task = { cqFenceLoad, cqFenceApply, 0 };
  static const CqArgDef resource = {
    "resource", CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0
  };
  static const CqArgDef token = {
    "token", CQ_T_INT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0
  };
  CqFence f;
  CqVal v;
  (void)nVal;
  memset(&f, 0, sizeof(f));
  claimqRead(p, &resource, apVal[0], &v);
  f.resource = v.t;
  claimqRead(p, &token, apVal[1], &v);
  f.iToken = v.i;
  claimqRun(p, &task, &f);
  if( p->rc==SQLITE_OK ) sqlite3_result_int(pCtx, f.bOk);
}

/**************************************************************************
** The descriptor
*/
CQ_PRIV const CqDiscipline *claimqContestDiscipline(void){
  static const CqTableDef aTable[] = {
    { "claimq_contest", CQ_CON_COLS, "subject_kind subject_label", cqContestArg,
      sizeof(cqContestArg)/sizeof(cqContestArg[0]), 1, 1, cqContestFill },
  };
  static const CqFuncDef aFunc[] = {
    { "claimq_fence", "(resource, token)", 2, 2, CQ_F_WRITE, cqFenceFunc },
  };
  static const CqDiscipline contest = {
    "contest", "qsc", aTable, sizeof(aTable)/sizeof(aTable[0]), 0, 0,
    aFunc, sizeof(aFunc)/sizeof(aFunc[0]), cqContestVerb, 0, 0
  };
  return &contest;
}
