/*
** contest.c: the contest discipline, and the fence of a protected resource.
** Many callers contend for a named subject, and one of them becomes its holder
** for a while: leader election, named locks.
**
**     SELECT outcome, mine, owner, fencing_token, claim_id
**       FROM claimq_contest('leader', 'node-a');
**     -- claimed|1|node-a|1|qsc:1:1
**     SELECT outcome, mine, owner, fencing_token, claim_id
**       FROM claimq_contest('leader', 'node-b');
**     -- yield|0|node-a|1|qsc:1:1
**     SELECT claimq_renew('qsc:1:1', :lease_token, 30000);
**
** A subject is a kind (a small number) and a label.  A contest always answers
** with one row: the caller won (`claimed`), or the row describes the live
** holder (`yield`).  A yield writes nothing, not even for the holder itself
** (`mine`=1), who extends its claim with claimq_renew().
**
** Some cases that are easy to overlook:
**
**   *  lease_ms 0 holds nothing and writes nothing.  If somebody is live, the
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
** another, and wake up without knowing.  So the resource that it writes to must
** refuse it, and can: the tokens of later winners are greater.
**
**     SELECT claimq_fence('printer', 2);      -- 1, and 2 is remembered
**     SELECT claimq_fence('printer', 1);      -- 0: too late
*/
#include "claimq_int.h"

#define CQ_LABEL_MAX 65535        /* Bytes of a label or an owner */

/* Columns of the claim table that are its own. */
#define CQ_CON_OUTCOME 0
#define CQ_CON_MINE    1
#define CQ_CON_KIND    2
#define CQ_CON_LABEL   3
#define CQ_CON_NCOL    4
#define CQ_CON_COLS \
  "outcome:t mine:i kind:i label:t"

/**************************************************************************
** The contest
*/
#define CQ_CONTEST_LABEL 0        /* Arguments */
#define CQ_CONTEST_KIND  4
static const CqArgDef cqContestArg[] = {
  { CQ_ARG(TEXT, "label"), .mFlag = CQ_A_REQUIRED|CQ_A_NAME,
    .iMax = CQ_LABEL_MAX,
    .eRole = CQ_ROLE_SCOPE,
    .zDoc = "the name of the subject" },
  { CQ_ARG(TEXT, "owner"), .mFlag = CQ_A_REQUIRED, .iMax = CQ_LABEL_MAX,
    .eRole = CQ_ROLE_OWNER, .zDoc = "who contends" },
  CQ_ARG_LEASE,
  CQ_ARG_INCARNATION,
  { CQ_ARG(INT, "kind"), .mFlag = CQ_A_LOOK, .iMax = 255, .bDefault = 1,
    .eRole = CQ_ROLE_SCOPE,
    .zDoc = "a small number that tells kinds of subjects apart" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
  CQ_ARG_DONE,
};

typedef struct CqContest CqContest;
struct CqContest {
  u8 bNew;                        /* The subject has no row yet */
};
CQ_CHECK(Contest, sizeof(CqContest)<=sizeof(CqOwn));
/* cqContestShow() copies the claim columns as they stand together. */
CQ_CHECK(ContestHolder,
    CQ_COL_CONTEST_HOLDER_lease_token==CQ_COL_CONTEST_HOLDER_claim_id+1
 && CQ_COL_CONTEST_HOLDER_owner==CQ_COL_CONTEST_HOLDER_claim_id
                                    + CQ_CLAIM_OWNER
 && CQ_COL_CONTEST_HOLDER_expires_at_ms==CQ_COL_CONTEST_HOLDER_claim_id
                                         + CQ_CLAIM_EXPIRES
 && CQ_COL_CONTEST_HOLDER_earlier_attempts==CQ_COL_CONTEST_HOLDER_claim_id
                                            + CQ_NCLAIMCOL-1);

/*
** Begin the one row of the answer.  Returns its cells, 0 on error.
*/
static CqCell *cqContestRow(
  CqOp *p, CqClaim *pC, const char *zOutcome, int bMine
){
  CqCell *a = claimqRowsAdd(p, pC->pRows);
  if( a==0 ) return 0;
  assert( pC->pRows->nRow==1 );
  assert( pC->pRows->nCol==CQ_CON_NCOL+CQ_NCLAIMCOL );
  claimqCellText(p, pC->pRows, &a[CQ_CON_OUTCOME], claimqStr(zOutcome));
  claimqCellInt(&a[CQ_CON_MINE], bMine);
  claimqCellInt(&a[CQ_CON_KIND], pC->aArg[CQ_CONTEST_KIND].i);
  claimqCellText(p, pC->pRows, &a[CQ_CON_LABEL], pC->aArg[CQ_CONTEST_LABEL].t);
  return p->rc ? 0 : a;
}

/*
** Somebody is live, or the subject is kept back: describe that.  The lease
** token is shown to the holder alone, and to whoever repeats the call that
** claimed it (bAgain), with whatever arguments.
*/
static void cqContestShow(
  CqOp *p, CqClaim *pC, const CqStmt *pHolder, int bAgain
){
  const int iClaim = CQ_COL_CONTEST_HOLDER_claim_id;
  int bMine = bAgain || (claimqTextEq(pC->owner,
          claimqColText(p, pHolder, CQ_COL_CONTEST_HOLDER_owner))
      && claimqTextEq(pC->incarnation,
          claimqColText(p, pHolder, CQ_COL_CONTEST_HOLDER_incarnation)));
  CqCell *a = cqContestRow(p, pC, bAgain ? "claimed" : "yield", bMine);
  int i;
  for(i=0; i<CQ_NCLAIMCOL && p->rc==SQLITE_OK; i++){
    if( iClaim+i==CQ_COL_CONTEST_HOLDER_lease_token && !bMine ) continue;
    claimqCellColumn(p, pC->pRows, &a[CQ_CON_NCOL+i], pHolder, iClaim+i);
  }
}

/*
** lease_ms 0, and nobody is live.
*/
static void cqContestNothing(CqOp *p, CqClaim *pC){
  CqCell *a = cqContestRow(p, pC, "yield", 1);
  if( a==0 ) return;
  a += CQ_CON_NCOL;
  claimqCellText(p, pC->pRows, &a[CQ_CLAIM_OWNER], pC->owner);
  claimqCellText(p, pC->pRows, &a[CQ_CLAIM_INCARNATION], pC->incarnation);
  claimqCellInt(&a[CQ_CLAIM_CLAIMED], claimqNow(p));
  claimqCellInt(&a[CQ_CLAIM_EXPIRES], claimqNow(p));
}

/*
** SCOPE of the lease token: KIND/LABEL.  The caller frees; z==0 if there is no
** memory.
*/
static CqText cqContestScope(CqOp *p, const CqClaim *pC){
  CqText label = pC->aArg[CQ_CONTEST_LABEL].t;
  CqText t = {0, 0};
  char *z = claimqMalloc(p, (i64)label.n+21);
  if( z ){
    t.n = claimqI64Text(pC->aArg[CQ_CONTEST_KIND].i, z);
    z[t.n++] = '/';
    memcpy(&z[t.n], label.z, (size_t)label.n);
    t.n += label.n;
    t.z = z;
  }
  return t;
}

/*
** Nobody is live: the caller wins.  pHolder stands on the subject's row if it
** has one.
*/
static void cqContestWin(CqOp *p, CqClaim *pC, const CqStmt *pHolder){
  int bNew = ((CqContest*)&pC->own)->bNew;
  CqStmt s = claimqStmt(p, CQ_SQL_CONTEST_COUNTER);
  CqText scope = cqContestScope(p, pC);
  CqText previous = {0, 0};
  i64 iHolder, nAttempt = 0;
  CqCell *a;
  assert( pC->iLease>0 );
  if( claimqStep(p, &s) ){
    iHolder = claimqColInt(&s, CQ_COL_CONTEST_COUNTER_new_id);
    if( !bNew ){
      iHolder = claimqColInt(pHolder, CQ_COL_CONTEST_HOLDER_holder_id);
      previous = claimqColText(p, pHolder, CQ_COL_CONTEST_HOLDER_claim_id);
      nAttempt = claimqColInt(pHolder, CQ_COL_CONTEST_HOLDER_attempts);
    }
    claimqLeaseMake(p, &pC->lease, pC, iHolder,
        claimqColInt(&s, CQ_COL_CONTEST_COUNTER_last_token), scope);
    a = cqContestRow(p, pC, "claimed", 1);
    claimqLeaseCells(p, pC->pRows, a ? &a[CQ_CON_NCOL] : 0, &pC->lease,
                     previous, nAttempt);
    claimqClaimNeed(pC, 0);
  }else{
    claimqFail(p, CQ_SCHEMA_MISMATCH, "the row contest_fence of claimq_meta is "
        "missing: insert it with a value above all tokens ever given");
  }
  claimqStmtDone(p, &s);
  sqlite3_free((char*)scope.z);
}

/*
** Take CONTEST_HOLDER, bound.
*/
static CqStmt cqContestHolder(CqOp *p, const CqClaim *pC){
  CqStmt s = claimqStmt(p, CQ_SQL_CONTEST_HOLDER);
  claimqBindInt(p, &s, CQ_CONTEST_HOLDER_kind, pC->aArg[CQ_CONTEST_KIND].i);
  claimqBindText(p, &s, CQ_CONTEST_HOLDER_label, pC->aArg[CQ_CONTEST_LABEL].t);
  return s;
}

/*
** The answer to a repeated request: the claim if it is still there, else a
** yield that shows the present holder, or nobody.
*/
static void cqContestRows(CqOp *p, CqClaim *pC, CqText claimId){
  CqStmt s = cqContestHolder(p, pC);
  if( claimqStep(p, &s) ){
    cqContestShow(p, pC, &s, claimqTextEq(claimId,
        claimqColText(p, &s, CQ_COL_CONTEST_HOLDER_claim_id)));
  }else{
    cqContestRow(p, pC, "yield", 0);
  }
  claimqStmtDone(p, &s);
}

/*
** When the subject is free: at once, or when the present claim ends.
*/
static i64 cqContestNextAt(CqOp *p, CqClaim *pC){
  CqStmt s = cqContestHolder(p, pC);
  i64 iAt = claimqNow(p);
  if( claimqStep(p, &s) ){
    i64 iExpires = claimqColInt(&s, CQ_COL_CONTEST_HOLDER_expires_at_ms);
    if( claimqLeaseLive(iExpires, iAt) ) iAt = iExpires;
  }
  claimqStmtDone(p, &s);
  return iAt;
}

/*
** A subject is one thing, whether it has a row or not.
*/
static void cqContestWhy(CqOp *p, CqClaim *pC, CqWhy *pWhy){
  CqStmt s = cqContestHolder(p, pC);
  int eWhy = CQ_WHY_CLAIMABLE;
  i64 iUntil = CQ_NO_TIME;
  if( claimqStep(p, &s) ){
    i64 iExpires = claimqColInt(&s, CQ_COL_CONTEST_HOLDER_expires_at_ms);
    int bClaimed =
        claimqColType(&s, CQ_COL_CONTEST_HOLDER_claim_id)!=SQLITE_NULL;
    if( claimqLeaseLive(iExpires, claimqNow(p)) ){
      eWhy = bClaimed ? CQ_WHY_HELD : CQ_WHY_KEPT_BACK;
      iUntil = iExpires;
    }
  }
  claimqStmtDone(p, &s);
  claimqWhyAdd(p, pWhy, eWhy, pC->aArg[CQ_CONTEST_LABEL].pVal, 0, iUntil);
}

/*
** Who holds the subject?  A live claim is shown (yield), else a new one is
** made, unless lease_ms is 0: then nothing is claimed, and the row says so.
*/
static void cqContestNext(CqOp *p, CqClaim *pC){
  CqContest *pOwn = (CqContest*)&pC->own;
  CqStmt s = cqContestHolder(p, pC);
  pOwn->bNew = !claimqStep(p, &s);
  if( p->rc==SQLITE_OK && !pOwn->bNew && claimqLeaseLive(
        claimqColInt(&s, CQ_COL_CONTEST_HOLDER_expires_at_ms), claimqNow(p)) ){
    cqContestShow(p, pC, &s, 0);
  }else if( pC->iLease==0 ){
    cqContestNothing(p, pC);
  }else{
    cqContestWin(p, pC, &s);
  }
  claimqStmtDone(p, &s);
}

/*
** Write the claim, of a subject that has a row or of one that gets one.  It is
** one write; a trigger advances the counter.  Stale if somebody else was faster
** or has advanced it.
*/
static void cqContestStamp(CqOp *p, CqClaim *pC){
  assert( pC->pRows->nRow==1 && pC->lease.iExpires>=pC->lease.iNow );
  if( ((CqContest*)&pC->own)->bNew ){
    CqStmt s = claimqStmt(p, CQ_SQL_CONTEST_ENTER);
    i64 iNext = pC->lease.iFence;
    claimqLeaseBind(p, &s, &pC->lease);
    claimqBindInt(p, &s, CQ_CONTEST_ENTER_kind, pC->aArg[CQ_CONTEST_KIND].i);
    claimqBindText(p, &s, CQ_CONTEST_ENTER_label,
                   pC->aArg[CQ_CONTEST_LABEL].t);
    claimqBindInt(p, &s, CQ_CONTEST_ENTER_fence, pC->lease.iFence);
    claimqBindPointer(p, &s, CQ_CONTEST_ENTER_next, &iNext, CQ_NOTE_TYPE);
    claimqClaimStamp(p, pC, &s, 1);
    if( p->rc==SQLITE_CONSTRAINT_NOTNULL && iNext!=pC->lease.iFence ){
      claimqOpReset(p);
      claimqStale(p, &pC->task);
    }
  }else{
    CqStmt s = claimqStmt(p, CQ_SQL_CONTEST_TAKE);
    claimqLeaseBind(p, &s, &pC->lease);
    claimqBindInt(p, &s, CQ_CONTEST_TAKE_fence, pC->lease.iFence);
    claimqClaimStamp(p, pC, &s, 1);
  }
}

/**************************************************************************
** The verbs
*/

/*
** xVerbCheck: a contest has nothing to reject.  A delay is more than the usual
** release.
*/
static void cqContestCheck(CqOp *p, CqVerb *pV){
  if( pV->eVerb==CQ_REJECT ){
    claimqFail(p, CQ_BAD_ARGUMENT, "a contest holds no work that could be "
        "rejected: use claimq_release()");
  }
  pV->bNoFast = pV->iDelay>0;
}

/*
** Released with a delay the subject keeps its row.
*/
static void cqContestDecide(CqOp *p, CqVerb *pV, CqStmt *pHead){
  (void)p; (void)pHead;
  assert( pV->eVerb!=CQ_REJECT );
  if( pV->eVerb!=CQ_RENEW && pV->iDelay>0 ){
    pV->eStmt = CQ_SQL_CONTEST_KEEP_BACK;
  }
}

/**************************************************************************
** claimq_fence(resource, token) -> 1, or 0 if a higher token was seen
*/
typedef struct CqFence CqFence;
struct CqFence {
  CqTask task;                    /* First */
  CqText resource;
  i64 iToken;
};

/*
** Is the token as high as any before?  Only a higher one must be written.
*/
static void cqFenceLoad(CqOp *p, CqTask *pTask){
  CqFence *pF = (CqFence*)pTask;
  CqStmt s = claimqStmt(p, CQ_SQL_FENCE_TOKEN);
  claimqBindText(p, &s, CQ_FENCE_TOKEN_resource, pF->resource);
  pTask->iAnswer = 1;
  pTask->eNeed = CQ_NEED_ONE;
  if( claimqStep(p, &s) ){
    i64 iSeen = claimqColInt(&s, CQ_COL_FENCE_TOKEN_token);
    pTask->iAnswer = pF->iToken>=iSeen;
    if( pF->iToken<=iSeen ) pTask->eNeed = CQ_NEED_NOTHING;
  }
  claimqStmtDone(p, &s);
}

/*
** Remember the token as the highest, unless a higher one got there before.
*/
static void cqFenceApply(CqOp *p, CqTask *pTask){
  CqFence *pF = (CqFence*)pTask;
  CqStmt s = claimqStmt(p, CQ_SQL_FENCE_RAISE);
  assert( pTask->iAnswer==1 );
  claimqBindText(p, &s, CQ_FENCE_RAISE_resource, pF->resource);
  claimqBindInt(p, &s, CQ_FENCE_RAISE_seen, pF->iToken);
  claimqExec(p, &s);
}

static const CqArgDef cqFenceArg[] = {
  { CQ_ARG(TEXT, "resource"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "what is protected" },
  { CQ_ARG(INT, "token"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the fencing token of a contest's winner" },
};

/*
** claimq_fence(): see above.  In a WHERE clause it runs for every row, and
** mostly only reads.
*/
static void cqFenceFunc(CqOp *p, CqCall *pCall){
  CqFence f;
  memset(&f, 0, sizeof(f));
  f.task.xLoad = cqFenceLoad;
  f.task.xApply = cqFenceApply;
  f.task.zWhat = "claimq_fence()";
  f.resource = pCall->aArg[0].t;
  f.iToken = pCall->aArg[1].i;
  claimqRun(p, &f.task);
  claimqTaskResult(p, &f.task, pCall->pCtx);
}

/**************************************************************************
** The descriptor
*/
CQ_PRIV const CqDiscipline *claimqContestDiscipline(void){
  static const CqTableDef aTable[] = {
    { .zName = "claimq_contest", .zDoc = "become the holder of a subject",
      .zCols = CQ_CON_COLS, .zOrder = "kind label",
      .aArg = cqContestArg, .nArg = CQ_ARRAYSIZE(cqContestArg),
      .bWrites = 1, .bClaimCols = 1, .bShows = 1, .zPrefix = "qsc",
      .xNext = cqContestNext, .xStamp = cqContestStamp,
      .xNextAt = cqContestNextAt, .xWhy = cqContestWhy,
      .xRows = cqContestRows },
  };
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_fence",
      .zDoc = "1 if no greater token was seen; remember it",
      .eKind = CQ_F_FENCE, .nMin = 2, .aArg = cqFenceArg,
      .nArg = CQ_ARRAYSIZE(cqFenceArg), .xFunc = cqFenceFunc },
  };
  static const int eLeases = CQ_SQL_CONTEST_LEASES;
  static const int aStats[] = {CQ_SQL_CONTEST_STATS, CQ_SQL_CONTEST_STATS_OF};
  static const int aCheck[] = {
    CQ_SQL_CONTEST_CHECK, CQ_SQL_CONTEST_CHECK_FENCE
  };
  static const CqDiscipline contest = {
    .zName = "contest", .zPrefix = "qsc",
    .pLeases = &eLeases,
    .aStats = aStats, .aCheck = aCheck, .nCheck = CQ_ARRAYSIZE(aCheck),
    .aTable = aTable, .nTable = CQ_ARRAYSIZE(aTable),
    .aFunc = aFunc, .nFunc = CQ_ARRAYSIZE(aFunc),
    .eHold = CQ_SQL_CONTEST_HOLD,
    .aSettle = CQ_VERBS(CQ_SQL_CONTEST_RENEW, CQ_SQL_CONTEST_RELEASE,
        CQ_SQL_CONTEST_RELEASE, CQ_SQL_CONTEST_RELEASE, -1,
        CQ_SQL_CONTEST_RELEASE),
    .aFast = CQ_VERBS(CQ_SQL_CONTEST_RENEW, CQ_SQL_CONTEST_RELEASE,
                      CQ_SQL_CONTEST_RELEASE, -1, -1, -1),
    .xVerbCheck = cqContestCheck,
    .xDecide = cqContestDecide,
  };
  return &contest;
}
