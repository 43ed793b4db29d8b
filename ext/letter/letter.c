/*
** letter.c: dead letters, the second chance for what failed.
**
**     SELECT claimq_reject(:claim_id, :lease_token, 'no such user');
**     SELECT letter_id, source, scope, payload, reason, claim_id
**       FROM claimq_dead_letter(NULL, 'admin') WHERE source='session';
**     -- 1|session|chat-1|hi|no such user|qdc:1:1
**     SELECT claimq_complete('qdc:1:1', :lease_token);   -- seen to: resolved
**     SELECT claimq_requeue(2);                          -- try it once more
**     -- qwb:9f3c...
**
** Letters are claimed like everything else: oldest first, one claim for the
** whole call.  complete resolves them, reject discards them, release and retry
** make them pending again.  Resolved and discarded letters stay as a record for
** a while (keep_ms).
**
** The column `attempts` of a claimed letter is the letter's own: the attempts
** of the work that failed, plus one for every retry of the letter.
**
** claimq_requeue() makes new work of a letter, with fresh attempts, and
** resolves the letter.  A letter that no live claim holds can be requeued by
** anyone.  The holder of a letter proves it with the options claim_id and
** lease_token; its claim then goes on with the letters that are left.  A source
** key is kept if it is free, else the new work has none.
*/
#include "claimq_int.h"

/* The result's columns, the first ones of LETTER_ROW. */
#define CQ_DL_COLS \
  "letter_id:i source:t scope:t ref:b payload:b headers:t payload_type:t " \
  "created_at_ms:i failed_at_ms:i reason:t"
#define CQ_DL_NCOL 10
CQ_CHECK(LetterColumns, CQ_COL_LETTER_ROW_reason==CQ_DL_NCOL-1);
CQ_CHECK(LetterLease,     /* For claimqLeaseKept() */
    CQ_COL_LETTER_ROW_lease_token==CQ_COL_LETTER_ROW_claim_id+1
 && CQ_COL_LETTER_ROW_expires_at_ms==CQ_COL_LETTER_ROW_claim_id+5);

static const char *const *cqLetterWords(void){
  static const char *const az[] = { "session", "lane", "outbox", 0 };
  return az;
}

/**************************************************************************
** Claim
*/
#define CQ_LETTER_SCOPE  0        /* Arguments */
#define CQ_LETTER_SOURCE 5
static const CqArgDef cqLetterArg[] = {
  { CQ_ARG(TEXT, "scope"), .mFlag = CQ_A_NAME, .eRole = CQ_ROLE_SCOPE,
    .zDoc = "session, lane or QUEUE/PARTITION; NULL: all" },
  CQ_ARG_OWNER,
  CQ_ARG_LEASE,
  { CQ_ARG(INT, "max"), .iDefault = 1, .eRole = CQ_ROLE_MAX,
    .zDoc = "at most this many letters" },
  CQ_ARG_INCARNATION,
  { CQ_ARG(WORD, "source"), .xWords = cqLetterWords, .bNoDefault = 1,
    .mFlag = CQ_A_LOOK,
    .eRole = CQ_ROLE_SCOPE,
    .zDoc = "the discipline that the letters come from; NULL: all" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
  CQ_ARG_DONE,
};

/*
** The source that was asked for; z==0: all.
*/
static CqText cqLetterSource(const CqClaim *pC){
  CqText none = {0, 0};
  const CqVal *pVal = &pC->aArg[CQ_LETTER_SOURCE];
  return pVal->bGiven ? pVal->t : none;
}

/*
** Add the letter that pRow stands on to the rows for the caller.  The first
** one is the head: the lease comes from it.
*/
static void cqLetterTake(CqOp *p, CqClaim *pC, const CqStmt *pRow){
  CqCell *a = claimqRowsAdd(p, pC->pRows);
  i64 iLetter = claimqColInt(pRow, CQ_COL_LETTER_ROW_letter_id);
  claimqCellColumns(p, pC->pRows, a, pRow, CQ_DL_NCOL);
  claimqIdsAdd(p, &pC->ids, iLetter);
  if( p->rc ) return;
  assert( pC->ids.n==pC->pRows->nRow );
  if( pC->ids.n==1 ){
    claimqLeaseMake(p, &pC->lease, pC, iLetter,
        claimqColInt(pRow, CQ_COL_LETTER_ROW_fencing_token),
        claimqStr("dead_letter"));
  }
  claimqLeaseCells(p, pC->pRows, &a[CQ_DL_NCOL], &pC->lease,
      claimqColText(p, pRow, CQ_COL_LETTER_ROW_claim_id),
      claimqColInt(pRow, CQ_COL_LETTER_ROW_attempts));
}

/*
** The next source that the claim is about, with a statement about it that is
** bound: eAll for all scopes, eIn for one.  *pi counts the sources, from 0 on.
** Returns 0 after the last one, or if op has an error; else the caller gives
** the statement back.
*/
static int cqLetterEach(
  CqOp *p, const CqClaim *pC, int eAll, int eIn, int *pi, CqStmt *pS
){
  CqText scope = pC->aArg[CQ_LETTER_SCOPE].t;
  CqText source = cqLetterSource(pC);
  const char *const *az = cqLetterWords();
  while( az[*pi] && p->rc==SQLITE_OK ){
    CqText word = claimqStr(az[(*pi)++]);
    if( source.z && !claimqTextEq(source, word) ) continue;
    *pS = claimqStmt(p, scope.z ? eIn : eAll);
    claimqBindText(p, pS, CQ_LETTER_LATE_source, word);
    claimqBindInt(p, pS, CQ_LETTER_LATE_now, claimqNow(p));
    if( scope.z ) claimqBindText(p, pS, CQ_LETTER_LATE_scope, scope);
    return 1;
  }
  return 0;
}

/*
** Run x for each source, with a statement that is about at most :limit late
** letters, until x has returned nMax in all.  Returns the sum of what x
** returns.
*/
static i64 cqLetterLate(
  CqOp *p, const CqClaim *pC, int eAll, int eIn, i64 nMax,
  i64 (*x)(CqOp*, CqStmt*)
){
  CqStmt s;
  i64 n = 0;
  int i = 0;
  while( n<nMax && cqLetterEach(p, pC, eAll, eIn, &i, &s) ){
    claimqBindInt(p, &s, CQ_LETTER_LATE_limit, nMax-n);
    n += x(p, &s);
    assert( n<=nMax );
  }
  return n;
}

/*
** How many late letters there are, at most :limit; 0 on error.
*/
static i64 cqLetterCountLate(CqOp *p, CqStmt *pS){
  i64 n = claimqStep(p, pS) ? claimqColInt(pS, CQ_COL_LETTER_LATE_n) : 0;
  claimqStmtDone(p, pS);
  return n;
}

/*
** Take the oldest letters that can be taken, at most as many as asked for, and
** ask for upkeep if many wait that are due.
*/
static void cqLetterNext(CqOp *p, CqClaim *pC){
  CqText scope = pC->aArg[CQ_LETTER_SCOPE].t;
  CqStmt scan = claimqStmt(p,
      scope.z ? CQ_SQL_LETTER_ANY_IN : CQ_SQL_LETTER_ANY);
  CqStmt row = claimqStmt(p, CQ_SQL_LETTER_ROW);
  i64 nLate = 0;
  claimqBindText(p, &scan, CQ_LETTER_ANY_source, cqLetterSource(pC));
  claimqBindInt(p, &scan, CQ_LETTER_ANY_now, claimqNow(p));
  if( scope.z ) claimqBindText(p, &scan, CQ_LETTER_ANY_scope, scope);
  claimqBindInt(p, &scan, CQ_LETTER_ANY_limit, pC->nMax);
  while( claimqStep(p, &scan) ){
    claimqBindInt(p, &row, CQ_LETTER_ROW_id,
                  claimqColInt(&scan, CQ_COL_LETTER_ANY_letter_id));
    if( claimqStep(p, &row) ) cqLetterTake(p, pC, &row);
    claimqStmtReset(&row);
  }
  claimqStmtDone(p, &row);
  claimqStmtDone(p, &scan);
  if( pC->ids.n ){
    nLate = cqLetterLate(p, pC, CQ_SQL_LETTER_LATE, CQ_SQL_LETTER_LATE_IN,
                         CQ_DUE_FEW, cqLetterCountLate);
  }
  claimqClaimNeed(pC, nLate>=CQ_DUE_FEW);
}

/*
** The letters of a claim that was made before, if it still has all of them.
*/
static void cqLetterRows(CqOp *p, CqClaim *pC, CqText claimId){
  int nBefore = pC->pRows->nRow;
  i64 nSize = 0;
  CqVerb v;
  CqStmt s, row;
  memset(&v, 0, sizeof(v));
  v.claimId = claimId;
  if( !claimqClaimIdParse(claimId, "qdc", &v.iHead, &v.iFence) ) return;
  s = claimqStmt(p, CQ_SQL_LETTER_MEMBERS);
  row = claimqStmt(p, CQ_SQL_LETTER_ROW);
  claimqVerbBind(p, &v, &s);
  while( claimqStep(p, &s) ){
    nSize = claimqColInt(&s, CQ_COL_LETTER_MEMBERS_claim_size);
    claimqBindInt(p, &row, CQ_LETTER_ROW_id,
                  claimqColInt(&s, CQ_COL_LETTER_MEMBERS_letter_id));
    if( claimqStep(p, &row) ){
      CqCell *a = claimqRowsAdd(p, pC->pRows);
      claimqCellColumns(p, pC->pRows, a, &row, CQ_DL_NCOL);
      claimqLeaseKept(p, pC->pRows, a ? &a[CQ_DL_NCOL] : 0, &row,
          CQ_COL_LETTER_ROW_claim_id, v.iFence,
          claimqColInt(&row, CQ_COL_LETTER_ROW_attempts));
    }
    claimqStmtReset(&row);
  }
  claimqStmtDone(p, &row);
  claimqStmtDone(p, &s);
  if( pC->pRows->nRow-nBefore!=nSize ) pC->pRows->nRow = nBefore;
}

/*
** When the first letter of the statement's list is free; CQ_NO_TIME if there
** is none, or op has an error.  Gives the statement back.
*/
static i64 cqLetterFirstDue(CqOp *p, CqStmt *pS){
  i64 iDue = CQ_NO_TIME;
  if( claimqStep(p, pS)
   && claimqColType(pS, CQ_COL_LETTER_LATE_n)!=SQLITE_NULL
  ){
    iDue = claimqColInt(pS, CQ_COL_LETTER_LATE_n);
    if( iDue<claimqNow(p) ) iDue = claimqNow(p);
  }
  claimqStmtDone(p, pS);
  return iDue;
}

/*
** When a letter can be taken: now if one can, else when the first falls due.
*/
static i64 cqLetterNextAt(CqOp *p, CqClaim *pC){
  CqStmt s;
  i64 iAt = CQ_NO_TIME;
  int i = 0;
  while( cqLetterEach(p, pC, CQ_SQL_LETTER_FIRST, CQ_SQL_LETTER_FIRST_IN, &i,
                      &s) ){
    iAt = claimqSooner(iAt, cqLetterFirstDue(p, &s));
  }
  return iAt;
}

/*
** Each letter that is not settled is one row with its reason.
*/
static void cqLetterWhy(CqOp *p, CqClaim *pC, CqWhy *pWhy){
  CqStmt s = claimqStmt(p, CQ_SQL_LETTER_WHY);
  claimqBindText(p, &s, CQ_LETTER_WHY_source, cqLetterSource(pC));
  claimqBindText(p, &s, CQ_LETTER_WHY_scope, pC->aArg[CQ_LETTER_SCOPE].t);
  while( claimqStep(p, &s) ){
    i64 iAvailable = claimqColInt(&s, CQ_COL_LETTER_WHY_available_at_ms);
    i64 iExpires = claimqColInt(&s, CQ_COL_LETTER_WHY_expires_at_ms);
    int eWhy = claimqRowWhy(iAvailable,
        claimqColType(&s, CQ_COL_LETTER_WHY_claim_id)!=SQLITE_NULL, iExpires,
        claimqNow(p));
    claimqWhyAdd(p, pWhy, eWhy, 0,
                 claimqColInt(&s, CQ_COL_LETTER_WHY_letter_id),
                 claimqWhyUntil(eWhy, iAvailable, iExpires));
  }
  claimqStmtDone(p, &s);
}

/*
** xTidy: put letters that fell due among the ready ones.
*/
static void cqLetterTidy(CqOp *p, CqClaim *pC){
  cqLetterLate(p, pC, CQ_SQL_LETTER_PROMOTE, CQ_SQL_LETTER_PROMOTE_IN,
               CQ_DUE_MOST, claimqExec);
}

/*
** xStamp: the letters that were taken get the lease.
*/
static void cqLetterStamp(CqOp *p, CqClaim *pC){
  CqStmt s = claimqStmt(p, CQ_SQL_LETTER_STAMP);
  assert( pC->ids.n>0 && pC->ids.n==pC->pRows->nRow );
  claimqLeaseBind(p, &s, &pC->lease);
  claimqBindInt(p, &s, CQ_LETTER_STAMP_size, pC->ids.n);
  claimqBindIds(p, &s, CQ_LETTER_STAMP_ids, &pC->ids);
  claimqClaimStamp(p, pC, &s, pC->ids.n);
}

/**************************************************************************
** The verbs
*/

/*
** Count the letters of the claim.
*/
static void cqLetterMembers(CqOp *p, CqVerb *pV, CqStmt *pHead){
  CqStmt s = claimqStmt(p, CQ_SQL_LETTER_COUNT);
  (void)pHead;
  claimqVerbBind(p, pV, &s);
  if( claimqStep(p, &s) ){
    pV->hold.nRow = claimqColInt(&s, CQ_COL_LETTER_COUNT_n);
    pV->hold.nToken = claimqColInt(&s, CQ_COL_LETTER_COUNT_n_token);
  }
  claimqStmtDone(p, &s);
}

/**************************************************************************
** claimq_requeue(letter_id [, option, value]...) -> the key of the new work
*/
static const CqArgDef cqRequeueArg[] = {
  { CQ_ARG(INT, "letter_id"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN,
    .zDoc = "the letter to put back" },
};
#define CQ_RO_CLAIM 0
#define CQ_RO_TOKEN 1
static const CqArgDef cqRequeueOpt[] = {
  { CQ_ARG(TEXT, "claim_id"), .zDoc = "of the caller's claim of the letter" },
  { CQ_ARG(TEXT, "lease_token"), .zDoc = "of that claim" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

typedef struct CqRequeue CqRequeue;
struct CqRequeue {
  CqTask task;                    /* First; its answer: key of the new work */
  i64 iLetter;
  CqVerb claim;                   /* The caller's claim; claimId.z==0: none */
  const CqDiscipline *pD;         /* Where the letter came from */
};

/*
** The caller says that it holds the letter: claim_lost if not.
*/
static void cqRequeueProve(CqOp *p, CqRequeue *pR){
  CqVerb *pV = &pR->claim;
  int bMine = 0;
  CqStmt s;
  assert( pV->claimId.z && pV->token.z && pV->eVerb==CQ_GUARD );
  claimqVerbHold(p, pV, &s);
  claimqStmtDone(p, &s);
  s = claimqStmt(p, CQ_SQL_LETTER_MEMBERS);
  claimqVerbBind(p, pV, &s);
  while( claimqStep(p, &s) ){
    bMine |= claimqColInt(&s, CQ_COL_LETTER_MEMBERS_letter_id)==pR->iLetter;
  }
  claimqStmtDone(p, &s);
  if( !bMine ){
    claimqFail(p, CQ_CLAIM_LOST, "claim %.*s does not hold letter %lld",
        pV->claimId.n, pV->claimId.z, pR->iLetter);
  }
}

/*
** May the letter that pS stands on be requeued?  Raises conflict or claim_lost
** if not.
*/
static void cqRequeueCheck(CqOp *p, CqRequeue *pR, const CqStmt *pS){
  CqText status = claimqColText(p, pS, CQ_COL_LETTER_STATE_status);
  CqText holder = claimqColText(p, pS, CQ_COL_LETTER_STATE_claim_id);
  if( p->rc ) return;
  if( claimqTextEq(status, claimqStr("resolved"))
   || claimqTextEq(status, claimqStr("discarded"))
  ){
    claimqFail(p, CQ_CONFLICT, "letter %lld is %.*s already", pR->iLetter,
               status.n, status.z);
  }else if( pR->claim.claimId.z ){
    cqRequeueProve(p, pR);
  }else if( claimqColInt(pS, CQ_COL_LETTER_STATE_held) ){
    claimqFail(p, CQ_CONFLICT, "letter %lld is held by claim %.*s until %lld: "
        "give its claim_id and lease_token, or wait", pR->iLetter, holder.n,
        holder.z, claimqColInt(pS, CQ_COL_LETTER_STATE_expires_at_ms));
  }
}

/*
** Take LETTER_STATE, bound.
*/
static CqStmt cqRequeueState(CqOp *p, const CqRequeue *pR){
  CqStmt s = claimqStmt(p, CQ_SQL_LETTER_STATE);
  claimqBindInt(p, &s, CQ_LETTER_STATE_id, pR->iLetter);
  claimqBindInt(p, &s, CQ_LETTER_STATE_now, claimqNow(p));
  return s;
}

/*
** The discipline that a letter came from, 0 if none has the name.
*/
static const CqDiscipline *cqLetterOrigin(CqText source){
  const CqDiscipline *pD;
  int i;
  for(i=0; (pD = claimqDiscipline(i))!=0; i++){
    if( pD->pPut && claimqTextEq(source, claimqStr(pD->zName)) ) break;
  }
  return pD;
}

/*
** May the letter be put back, and to whom does it go?  Raises not_found,
** conflict, claim_lost, or schema_mismatch if its source is none.
*/
static void cqRequeueLoad(CqOp *p, CqTask *pTask){
  CqRequeue *pR = (CqRequeue*)pTask;
  CqStmt s = cqRequeueState(p, pR);
  if( claimqStep(p, &s) ){
    cqRequeueCheck(p, pR, &s);
    pR->pD = cqLetterOrigin(claimqColText(p, &s, CQ_COL_LETTER_STATE_source));
    pTask->eNeed = CQ_NEED_MANY;
    if( pR->pD==0 ){
      claimqFail(p, CQ_SCHEMA_MISMATCH, "letter %lld has a bad source: repair "
          "or delete it", pR->iLetter);
    }
  }else{
    claimqFail(p, CQ_NOT_FOUND, "there is no letter %lld", pR->iLetter);
  }
  claimqStmtDone(p, &s);
}

/*
** xForget: the key of work that was put and is undone.
*/
static void cqRequeueForget(CqTask *pTask){
  sqlite3_free(pTask->zAnswer);
  pTask->zAnswer = 0;
}

/*
** The headers of a letter are those of its work, as they are.  (Nobody asks
** whether they were given: none are NULL.)
*/
static void cqRequeueHeaders(
  CqOp *p, const CqFuncDef *pPut, const CqStmt *pLetter, CqVal *aOpt
){
  int i;
  for(i=0; i<pPut->nOpt && p->rc==SQLITE_OK; i++){
    if( pPut->aOpt[i].eRole!=CQ_ROLE_HEADERS ) continue;
    aOpt[i].t = claimqColText(p, pLetter, CQ_COL_LETTER_STATE_headers);
  }
}

/*
** Put the work back through its discipline, as new work with the options that
** the letter remembers.  The key is kept in pR.
*/
static void cqRequeuePut(CqOp *p, CqRequeue *pR, const CqStmt *pLetter){
  const CqFuncDef *pPut = pR->pD->pPut;
  CqText origin = claimqColText(p, pLetter, CQ_COL_LETTER_STATE_origin);
  char *zBuf = claimqMalloc(p, (i64)origin.n+1);
  CqVal aOpt[CQ_MAX_OPT];
  CqPut put;
  assert( pPut->nOpt<=CQ_MAX_OPT && pR->task.zAnswer==0 );
  memset(&put, 0, sizeof(put));
  put.pD = pR->pD;
  put.scope = claimqColText(p, pLetter, CQ_COL_LETTER_STATE_scope);
  put.pPayload = claimqColValue(pLetter, CQ_COL_LETTER_STATE_payload);
  put.aOpt = aOpt;
  put.bSourceKeyFree = 1;
  if( p->rc==SQLITE_OK
   && !claimqOriginRead(p, origin, pPut->aOpt, pPut->nOpt, zBuf, aOpt)
  ){
    claimqFail(p, CQ_SCHEMA_MISMATCH, "the origin of letter %lld is not a "
        "JSON object of claimq's: repair it", pR->iLetter);
  }
  cqRequeueHeaders(p, pPut, pLetter, aOpt);
  if( pR->pD->xPutBack ){
    pR->pD->xPutBack(p, &put, aOpt,
        claimqColText(p, pLetter, CQ_COL_LETTER_STATE_payload_type));
  }
  claimqPutInside(p, &put);
  pR->task.iAnswer = put.task.iAnswer;
  pR->task.zAnswer = put.task.zAnswer;
  put.task.zAnswer = 0;
  claimqPutDone(&put);
  sqlite3_free(zBuf);
}

/* Letters that are settled: they are forgotten after a while, this many at
** a time. */
#define CQ_LETTER_MOST 64
static const CqVacuumDef cqLetterOld[] = {
  { .eSelect = CQ_SQL_LETTER_VACUUM,
    .eDelete = CQ_SQL_LETTER_VACUUM_DELETE, .eFirst = CQ_SQL_STEP_OLD_LETTER,
    .bKept = 1 },
};

/*
** Put the work back first, then resolve the letter, then let the steps of the
** work follow it, then shorten the caller's claim, if it has one, to the
** letters that are left.  (The answer of a batch is its id, not its key.)
*/
static void cqRequeueApply(CqOp *p, CqTask *pTask){
  CqRequeue *pR = (CqRequeue*)pTask;
  CqStmt s = cqRequeueState(p, pR);
  i64 iKey;
  if( claimqStep(p, &s) ) cqRequeuePut(p, pR, &s);
  iKey = pTask->zAnswer ? sqlite3_last_insert_rowid(p->db) : pTask->iAnswer;
  claimqStmtDone(p, &s);
  s = claimqStmt(p, CQ_SQL_LETTER_REQUEUED);
  claimqBindInt(p, &s, CQ_LETTER_REQUEUED_id, pR->iLetter);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  if( pTask->zAnswer ){
    claimqBindText(p, &s, CQ_LETTER_REQUEUED_key, claimqStr(pTask->zAnswer));
  }else{
    claimqBindInt(p, &s, CQ_LETTER_REQUEUED_key, pTask->iAnswer);
  }
  claimqExec(p, &s);
  claimqStepsMove(p, pR->pD, pR->iLetter, iKey);
  if( pR->claim.claimId.z ){
    s = claimqStmt(p, CQ_SQL_LETTER_SHRINK);
    claimqVerbBind(p, &pR->claim, &s);
    claimqExec(p, &s);
  }
  if( claimqKeepTurn(pR->iLetter, 1) ){
    claimqVacuumSome(p, cqLetterOld, CQ_LETTER_MOST);
  }
}

CQ_PRIV const CqDiscipline *claimqLetterDiscipline(void);

/*
** Options claim_id and lease_token, into pR->claim.  Raises bad_argument if one
** is given without the other, or if no claim of letters has such an id.
*/
static void cqRequeueClaim(CqOp *p, CqRequeue *pR, const CqVal *aOpt){
  CqVerb *pV = &pR->claim;
  pV->eVerb = CQ_GUARD;
  pV->pD = claimqLetterDiscipline();
  pV->claimId = aOpt[CQ_RO_CLAIM].t;
  pV->token = aOpt[CQ_RO_TOKEN].t;
  if( aOpt[CQ_RO_CLAIM].bGiven!=aOpt[CQ_RO_TOKEN].bGiven ){
    claimqFail(p, CQ_BAD_ARGUMENT, "give claim_id and lease_token together");
  }else if( pV->claimId.z
         && !claimqClaimIdParse(pV->claimId, "qdc", &pV->iHead, &pV->iFence) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "claim_id must be the id of a claim of dead "
        "letters, such as 'qdc:7:1', got TEXT '%.*s'",
        claimqShown(pV->claimId), pV->claimId.z);
  }
}

/*
** claimq_requeue(letter_id [, option, value]...) -> the key of the new work.
*/
static void cqRequeueFunc(CqOp *p, CqCall *pCall){
  CqRequeue r;
  memset(&r, 0, sizeof(r));
  r.task.xLoad = cqRequeueLoad;
  r.task.xApply = cqRequeueApply;
  r.task.xForget = cqRequeueForget;
  r.task.zWhat = "claimq_requeue()";
  r.iLetter = pCall->aArg[0].i;
  cqRequeueClaim(p, &r, pCall->aOpt);
  claimqRun(p, &r.task);
  claimqTaskResult(p, &r.task, pCall->pCtx);
}

/**************************************************************************
** The verbs
*/
/*
** xDecide: whoever settles letters removes some of those that need not be kept.
*/
static void cqLetterDecide(CqOp *p, CqVerb *pV, CqStmt *pHead){
  (void)pHead;
  i64 n = pV->hold.nSize;
  if( (pV->eVerb==CQ_COMPLETE || pV->eVerb==CQ_REJECT)
   && claimqKeepTurn(claimqAddSat(pV->iHead, n-1), n)
  ){
    pV->bMore = (u8)claimqVacuumSome(p, cqLetterOld, 0);
  }
}

/*
** xSettled
*/
static void cqLetterSettled(CqOp *p, CqVerb *pV){
  if( !pV->task.bAlone ){
    claimqVacuumSome(p, cqLetterOld,
                     claimqAddSat(pV->hold.nSize, CQ_LETTER_MOST));
  }
}

/**************************************************************************
** The descriptor
*/
CQ_PRIV const CqDiscipline *claimqLetterDiscipline(void){
  static const CqTableDef aTable[] = {
    { .zName = "claimq_dead_letter", .zDoc = "claim dead letters, oldest first",
      .zCols = CQ_DL_COLS, .zOrder = "letter_id", .aArg = cqLetterArg,
      .nArg = CQ_ARRAYSIZE(cqLetterArg), .bWrites = 1, .bClaimCols = 1,
      .zPrefix = "qdc", .xNext = cqLetterNext, .xStamp = cqLetterStamp,
      .xTidy = cqLetterTidy, .xRows = cqLetterRows,
      .xWhy = cqLetterWhy,
      .xNextAt = cqLetterNextAt },
  };
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_requeue", .zDoc = "put the work of a letter back",
      .eKind = CQ_F_WRITE, .nMin = 1, .aArg = cqRequeueArg,
      .nArg = CQ_ARRAYSIZE(cqRequeueArg), .aOpt = cqRequeueOpt,
      .nOpt = CQ_ARRAYSIZE(cqRequeueOpt), .xFunc = cqRequeueFunc },
  };
  static const int eLeases = CQ_SQL_LETTER_LEASES;
  static const int aStats[] = {CQ_SQL_LETTER_STATS, CQ_SQL_LETTER_STATS_OF};
  static const int aCheck[] = {CQ_SQL_LETTER_CHECK, CQ_SQL_LETTER_CHECK_CLAIMS};
  static const CqDiscipline letter = {
    .zName = "dead_letter", .zPrefix = "qdc",
    .pLeases = &eLeases,
    .aStats = aStats, .aCheck = aCheck, .nCheck = CQ_ARRAYSIZE(aCheck),
    .aTable = aTable, .nTable = CQ_ARRAYSIZE(aTable),
    .aFunc = aFunc, .nFunc = CQ_ARRAYSIZE(aFunc),
    .eHold = CQ_SQL_LETTER_HOLD,
    .aSettle = CQ_VERBS(CQ_SQL_LETTER_RENEW, CQ_SQL_LETTER_RESOLVE,
        CQ_SQL_LETTER_RELEASE, CQ_SQL_LETTER_RETRY, CQ_SQL_LETTER_DISCARD,
        CQ_SQL_LETTER_RELEASE),
    .aFast = CQ_VERBS(-1, -1, -1, -1, -1, -1),
    .xMembers = cqLetterMembers,
    .xDecide = cqLetterDecide, .xSettled = cqLetterSettled,
    .aVacuum = cqLetterOld, .nVacuum = CQ_ARRAYSIZE(cqLetterOld),
  };
  return &letter;
}
