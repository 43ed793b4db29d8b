/*
** session/verb.c: how the claim of a session ends.
**
** A claim of one batch is settled by one statement, as the engine has it.  The
** rows of a claim of several stand in two places of the index, and all of them
** must be found there, or the claim is lost as a whole.
*/
#include "session.h"

typedef struct CqSessionVerb CqSessionVerb;       /* CqVerb.own */
struct CqSessionVerb {
  CqText session;                 /* Where the rows of several are: session, */
  char *zSession;                 /* (its bytes,) */
  i64 iLast, iDue;                /* last key, the other place than -1 */
  CqRows batch;                   /* Their batch ids, if these were given */
};
CQ_CHECK(SessionVerb, sizeof(CqSessionVerb)<=sizeof(CqOwn));

static int cqSessionIdsGiven(const CqVerb *pV){
  return pV->aOpt && pV->aOpt[CQ_SV_BATCH_IDS].bGiven;
}

/*
** With batch_ids the rows must be looked at.
*/
CQ_PRIV void claimqSessionCheck(CqOp *p, CqVerb *pV){
  (void)p;
  pV->bNoFast = (u8)cqSessionIdsGiven(pV);
}

/*
** Keep a batch id of the claim, to compare it with option batch_ids.
*/
static void cqSessionKeepId(
  CqOp *p, CqVerb *pV, const CqStmt *pStmt, int iCol
){
  CqSessionVerb *pOwn = (CqSessionVerb*)&pV->own;
  CqCell *pCell = claimqRowsAdd(p, &pOwn->batch);
  assert( pOwn->batch.nCol==1 && cqSessionIdsGiven(pV) );
  if( pCell ) claimqCellColumn(p, &pOwn->batch, pCell, pStmt, iCol);
}

/*
** Look at each row of a claim of several: how many are there, and how many
** have the token?
*/
static void cqSessionCount(CqOp *p, CqVerb *pV){
  const CqSessionVerb *pOwn = (const CqSessionVerb*)&pV->own;
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_MEMBERS);
  claimqVerbBind(p, pV, &s);
  claimqBindText(p, &s, CQ_SESSION_MEMBERS_session, pOwn->session);
  claimqBindInt(p, &s, CQ_SESSION_MEMBERS_due, pOwn->iDue);
  claimqBindInt(p, &s, CQ_SESSION_MEMBERS_last, pOwn->iLast);
  assert( pV->hold.nSize>1 && pOwn->session.z==pOwn->zSession );
  pV->hold.nRow = pV->hold.nToken = 0;
  while( claimqStep(p, &s) ){
    pV->hold.nRow++;
    pV->hold.nToken += claimqTextEq(pV->token,
        claimqColText(p, &s, CQ_COL_SESSION_MEMBERS_lease_token));
    if( cqSessionIdsGiven(pV) ){
      cqSessionKeepId(p, pV, &s, CQ_COL_SESSION_MEMBERS_batch_id);
    }
  }
  claimqStmtDone(p, &s);
}

/*
** The rows of a claim, whose first pHead stands on.  Most verbs need not look
** at the others: they write, and see whether all were there.  But release and
** revoke are no error when one is not, nor is a complete whose caller says so
** (bLook), and guard does not write.
*/
CQ_PRIV void claimqSessionMembers(CqOp *p, CqVerb *pV, CqStmt *pHead){
  CqSessionVerb *pOwn = (CqSessionVerb*)&pV->own;
  CqHold *pHold = &pV->hold;
  int bLook = pV->eVerb==CQ_RELEASE || pV->eVerb==CQ_REVOKE
           || pV->eVerb==CQ_GUARD || cqSessionIdsGiven(pV)
           || pV->bLook || pHold->nToken==0;
  assert( pHold->bHead && pHold->nRow<=1 && pOwn->zSession==0 );
  if( pHold->nRow==0 ) return;
  claimqRowsInit(&pOwn->batch, 1);
  if( pHold->nSize<=1 ){
    if( cqSessionIdsGiven(pV) ){
      cqSessionKeepId(p, pV, pHead, CQ_COL_SESSION_HOLD_batch_id);
    }
    return;
  }
  pOwn->session = claimqColText(p, pHead, CQ_COL_SESSION_HOLD_session);
  pOwn->session.z = pOwn->zSession = claimqTextDup(p, pOwn->session);
  pOwn->iLast = claimqColInt(pHead, CQ_COL_SESSION_HOLD_claim_last);
  pOwn->iDue = claimqColInt(pHead, CQ_COL_SESSION_HOLD_expires_at_ms);
  if( bLook ) cqSessionCount(p, pV);
  else pHold->nRow = pHold->nToken = pHold->nSize;
}

/*
** Option batch_ids of complete: exactly the claim's batches, or bad_argument is
** raised.
*/
static void cqSessionCheckIds(CqOp *p, const CqVerb *pV){
  const CqSessionVerb *pOwn = (const CqSessionVerb*)&pV->own;
  CqText json = pV->aOpt[CQ_SV_BATCH_IDS].t;
  int n = claimqBatchIdsCount(json);
  int nHeld = pOwn->batch.nRow, i;
  CqText *aHeld;
  if( n<0 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "batch_ids must be a JSON array of strings");
    return;
  }
  aHeld = claimqMalloc(p, ((i64)nHeld+n)*(i64)sizeof(CqText) + json.n);
  if( aHeld==0 ) return;
  for(i=0; i<nHeld; i++){
    aHeld[i] = claimqCellGetText(claimqRow(&pOwn->batch, i));
  }
  if( !claimqBatchIdsNamed(json, aHeld, nHeld, &aHeld[nHeld],
                           (char*)&aHeld[nHeld+n]) ){
    claimqFail(p, CQ_BAD_ARGUMENT,
        "batch_ids must name exactly the %d batches of claim %.*s",
        nHeld, pV->claimId.n, pV->claimId.z);
  }
  sqlite3_free(aHeld);
}

/*
** The lease of a serial claim is the session's only slot.  Once it has expired,
** to renew it needs the slot again; conflict if another claim has it.
*/
static void cqSessionSlot(CqOp *p, const CqVerb *pV, const CqStmt *pHead){
  i64 iKept;
  if( claimqColInt(pHead, CQ_COL_SESSION_HOLD_claim_serial)
   && claimqColInt(pHead, CQ_COL_SESSION_HOLD_expires_at_ms)<=claimqNow(p)
   && claimqSessionBusy(p, claimqColText(p, pHead,
                    CQ_COL_SESSION_HOLD_session), &iKept, 0)
  ){
    claimqFail(p, CQ_NO_SLOT, "claim %.*s is serial and has expired, and "
        "another claim holds a batch of its session now: settle it, or let it "
        "go", pV->claimId.n, pV->claimId.z);
  }
}

/*
** What is usual will do for a claim of one row, but for reject, which writes
** twice.  A claim of several is settled by claimqSessionSettle().
*/
CQ_PRIV void claimqSessionDecide(CqOp *p, CqVerb *pV, CqStmt *pHead){
  CqSessionVerb *pOwn = (CqSessionVerb*)&pV->own;
  assert( p->rc || (pV->hold.bHead && pV->hold.nToken>0) );
  if( pV->eVerb==CQ_GUARD ) return;
  if( pV->eVerb==CQ_RENEW ) cqSessionSlot(p, pV, pHead);
  if( cqSessionIdsGiven(pV) ) cqSessionCheckIds(p, pV);
  if( claimqSessionKept(p) && (pV->eVerb!=CQ_RENEW || pV->iUntil
        <claimqColInt(pHead, CQ_COL_SESSION_HOLD_expires_at_ms)) ){
    pV->bMore = 1;
    if( pOwn->zSession==0 ){
      pOwn->session = claimqColText(p, pHead, CQ_COL_SESSION_HOLD_session);
      pOwn->session.z = pOwn->zSession = claimqTextDup(p, pOwn->session);
    }
  }
  if( pV->eVerb==CQ_REJECT ) return;
  pV->task.eNeed = CQ_NEED_ONE;
  if( pV->hold.nSize>1 ){
    pV->task.eNeed = CQ_NEED_UNDO;
    pV->eStmt = -1;
  }
}

/*
** Run a statement for the rows in place iDue.  Returns how many it found.
*/
static i64 cqSessionWrite(CqOp *p, CqVerb *pV, int eStmt, i64 iDue){
  const CqSessionVerb *pOwn = (const CqSessionVerb*)&pV->own;
  CqStmt s = claimqStmt(p, eStmt);
  claimqVerbBind(p, pV, &s);
  if( pV->hold.nSize>1 ){
    claimqBindText(p, &s, CQ_SESSION_SETTLE_session, pOwn->session);
    claimqBindInt(p, &s, CQ_SESSION_SETTLE_due, iDue);
    claimqBindInt(p, &s, CQ_SESSION_SETTLE_last, pOwn->iLast);
  }
  return claimqExec(p, &s);
}

/*
** All rows of the claim must have been found, or claim_lost is raised.  But if
** those that were not are still of the claim, only a trigger can have left them
** out: claimqStale().  bHeld: those that were found are, too.
*/
static void cqSessionAll(CqOp *p, const CqVerb *pV, i64 n, int bHeld){
  CqText none = {0, 0};
  i64 nLeft = 0;
  CqStmt s;
  if( p->rc || n==pV->nExpect ) return;
  s = claimqStmt(p, CQ_SQL_SESSION_LEFT);
  claimqVerbBind(p, pV, &s);
  claimqBindInt(p, &s, CQ_SESSION_LEFT_last, pV->hold.nSize>1
      ? ((const CqSessionVerb*)&pV->own)->iLast : pV->iHead);
  if( claimqStep(p, &s) ) nLeft = claimqColInt(&s, CQ_COL_SESSION_LEFT_n);
  claimqStmtDone(p, &s);
  if( nLeft + (bHeld ? 0 : n)==pV->nExpect ){
    claimqStale(p, &pV->task);
  }else{
    claimqLeaseLost(p, CQ_HOLD_DISPLACED, pV->claimId, none);
  }
}

/*
** xSettled: look at the session.
*/
CQ_PRIV void claimqSessionSettled(CqOp *p, CqVerb *pV){
  if( pV->bMore && p->rc==SQLITE_OK ){
    claimqSessionLeft(p, ((const CqSessionVerb*)&pV->own)->session);
  }
}

/*
** Settle a claim of several rows, or reject one.  reject writes dead letters
** first, and then deletes as complete does.  (Of rows that were completed where
** they stood among the ready ones claimq_session knows enough.)
*/
CQ_PRIV void claimqSessionSettle(CqOp *p, CqVerb *pV){
  static const int aSeveral[CQ_NVERB] = CQ_VERBS(CQ_SQL_SESSION_RENEW,
      CQ_SQL_SESSION_COMPLETE, CQ_SQL_SESSION_RELEASE, CQ_SQL_SESSION_RETRY,
      CQ_SQL_SESSION_COMPLETE, CQ_SQL_SESSION_REVOKE);
  const CqSessionVerb *pOwn = (const CqSessionVerb*)&pV->own;
  int bOne = pV->hold.nSize<=1, bStayed;
  i64 n;
  p->pConn->bQuiet = pV->eVerb==CQ_REJECT ? 2 : 1;
  if( pV->eVerb==CQ_REJECT ){
    n = cqSessionWrite(p, pV, bOne ? CQ_SQL_SESSION_LETTER
                                   : CQ_SQL_SESSION_LETTERS, pOwn->iDue);
    cqSessionAll(p, pV, n, 1);
  }
  assert( !bOne || pV->eVerb==CQ_REJECT );
  n = cqSessionWrite(p, pV, bOne ? CQ_SQL_SESSION_COMPLETE_ONE
                                 : aSeveral[pV->eVerb], -1);
  bStayed = n==pV->nExpect && pV->eVerb==CQ_COMPLETE;
  if( n<pV->nExpect && !bOne ){
    n += cqSessionWrite(p, pV, aSeveral[pV->eVerb], pOwn->iDue);
  }
  p->pConn->bQuiet = 0;
  cqSessionAll(p, pV, n, pV->eVerb==CQ_RENEW);
  if( !bStayed ) claimqSessionSettled(p, pV);
  else if( pV->bMore ) claimqSessionGone(p, pOwn->session);
}

/*
** xVerbDone: free the session's name and the batch ids.
*/
CQ_PRIV void claimqSessionVerbDone(CqVerb *pV){
  CqSessionVerb *pOwn = (CqSessionVerb*)&pV->own;
  claimqRowsClear(&pOwn->batch);
  sqlite3_free(pOwn->zSession);
}
