/*
** outbox/verb.c: how the claim of a partition ends: how far its cursor gets,
** and which of the delivered messages become dead letters.
*/
#include "outbox.h"
#include <stdlib.h>

typedef struct CqRejected CqRejected;     /* One entry of option rejected */
struct CqRejected {
  i64 iSeq;
  CqText reason;
};

typedef struct CqOutboxVerb CqOutboxVerb;         /* CqVerb.own */
struct CqOutboxVerb {
  CqDelivery delivery;
  CqProgress progress;
  u8 bDead;                       /* A retry too many: the first message goes */
  CqRejected *aRejected;          /* Sorted by seq; by sqlite3_malloc */
  int nRejected;
  char *zReason;                  /* Bytes of their reasons; likewise */
};
CQ_CHECK(OutboxVerb, sizeof(CqOutboxVerb)<=sizeof(CqOwn));

/*
** xVerbDone: free what was rejected.  May be called twice.
*/
CQ_PRIV void claimqOutboxVerbDone(CqVerb *pV){
  CqOutboxVerb *pOwn = (CqOutboxVerb*)&pV->own;
  assert( pOwn->aRejected || pOwn->nRejected==0 );
  sqlite3_free(pOwn->aRejected);
  sqlite3_free(pOwn->zReason);
  pOwn->aRejected = 0;
  pOwn->nRejected = 0;
  pOwn->zReason = 0;
}

/*
** What the claim has delivered.  Nothing of a row that somebody corrupted may
** move the cursor back.
*/
static void cqOutboxDelivery(const CqStmt *pHead, CqDelivery *pD){
  pD->iCursor = claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_processed_seq);
  pD->nMsg = claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_delivered_count);
  pD->iLast = claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_delivered_seq);
  pD->nAttempt = claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_attempts);
  if( pD->iCursor<0 ) pD->iCursor = 0;
  if( pD->iLast<pD->iCursor ) pD->iLast = pD->iCursor;
  if( pD->nMsg>pD->iLast-pD->iCursor ) pD->nMsg = pD->iLast-pD->iCursor;
  if( pD->nMsg<0 ) pD->nMsg = 0;
}

/*
** Read one {"seq":N,"reason":"..."}: 1, and *pOut with the raw reason; else 0.
*/
static int cqRejectedEntry(CqJson *pJ, CqRejected *pOut){
  int bSeq = 0, bReason = 0, e;
  while( (e = claimqJsonNext(pJ))==CQ_JSON_KEY ){
    if( claimqJsonEq(pJ->tok, claimqStr("seq")) && !bSeq ){
      bSeq = claimqJsonNext(pJ)==CQ_JSON_NUMBER
          && claimqJsonInt(pJ->tok, &pOut->iSeq);
      if( !bSeq ) return 0;
    }else if( claimqJsonEq(pJ->tok, claimqStr("reason")) && !bReason ){
      bReason = claimqJsonNext(pJ)==CQ_JSON_STRING
          && claimqJsonText(pJ->tok, 0)>=0;
      if( !bReason ) return 0;
      pOut->reason = pJ->tok;
    }else{
      return 0;
    }
  }
  return e==CQ_JSON_CLOSE && bSeq && bReason;
}

/*
** Read the entries of list into aRejected[], their reasons unescaped into
** zReason.  Returns 0 if the list is malformed, or op has an error.
*/
static int cqRejectedList(CqOp *p, CqOutboxVerb *pOwn, CqText list){
  CqJson j;
  char *z = pOwn->zReason = claimqMalloc(p, (i64)list.n+1);
  int e = CQ_JSON_ERROR, nAlloc = 0;
  assert( pOwn->aRejected==0 && pOwn->nRejected==0 );
  claimqJsonInit(&j, list);
  if( p->rc || claimqJsonNext(&j)!=CQ_JSON_ARRAY ) return 0;
  while( (e = claimqJsonNext(&j))==CQ_JSON_OBJECT ){
    CqRejected *pNew;
    if( !claimqGrow(p, (void**)&pOwn->aRejected, pOwn->nRejected, &nAlloc,
                    sizeof(*pNew)) ){
      return 0;
    }
    pNew = &pOwn->aRejected[pOwn->nRejected];
    if( !cqRejectedEntry(&j, pNew) ) return 0;
    pNew->reason.n = claimqJsonText(pNew->reason, z);
    pNew->reason.z = z;
    z += pNew->reason.n;
    assert( z<=&pOwn->zReason[list.n] );
    pOwn->nRejected++;
  }
  return e==CQ_JSON_CLOSE && claimqJsonNext(&j)==CQ_JSON_END;
}

static int cqRejectedCompare(const void *pA, const void *pB){
  i64 a = ((const CqRejected*)pA)->iSeq, b = ((const CqRejected*)pB)->iSeq;
  return (a>b) - (a<b);
}

/*
** Option rejected: each must be a message that was processed, and named once.
** Else raises bad_argument.  aRejected[] is sorted afterwards.
*/
static void cqOutboxRejected(CqOp *p, CqOutboxVerb *pOwn, CqText list){
  int i;
  if( p->rc ) return;
  if( !cqRejectedList(p, pOwn, list) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "rejected must be a JSON array of "
               "{\"seq\":N,\"reason\":\"...\"}");
  }
  if( p->rc || pOwn->nRejected==0 ) return;
  qsort(pOwn->aRejected, (size_t)pOwn->nRejected, sizeof(CqRejected),
        cqRejectedCompare);
  for(i=0; i<pOwn->nRejected; i++){
    i64 iSeq = pOwn->aRejected[i].iSeq;
    if( iSeq<=pOwn->delivery.iCursor || iSeq>pOwn->progress.iDone ){
      claimqFail(p, CQ_BAD_ARGUMENT, "rejected: seq %lld is not among the %lld "
          "messages that are processed", iSeq, pOwn->progress.nDone);
    }else if( i>0 && iSeq==pOwn->aRejected[i-1].iSeq ){
      claimqFail(p, CQ_BAD_ARGUMENT, "rejected: seq %lld is named twice", iSeq);
    }
  }
}

/*
** There are gaps among the delivered messages, of which the first nDone are
** processed: find the last of these.
*/
static i64 cqOutboxLookUp(CqOp *p, CqVerb *pV, i64 nDone){
  const CqDelivery *pD = &((CqOutboxVerb*)&pV->own)->delivery;
  CqStmt s = claimqStmt(p, CQ_SQL_OUTBOX_BACK);
  i64 iDone = pD->iCursor;
  assert( nDone>=0 && nDone<pD->nMsg && pD->iLast>=pD->iCursor );
  claimqVerbBind(p, pV, &s);
  claimqBindInt(p, &s, CQ_OUTBOX_BACK_after, pD->iCursor);
  claimqBindInt(p, &s, CQ_OUTBOX_BACK_last, pD->iLast);
  claimqBindInt(p, &s, CQ_OUTBOX_BACK_skip, pD->nMsg-nDone-1);
  if( claimqStep(p, &s) ) iDone = claimqColInt(&s, CQ_COL_OUTBOX_BACK_before);
  claimqStmtDone(p, &s);
  return iDone;
}

/*
** How far the verb gets, into own.progress.  Raises bad_argument if option
** processed cannot be.
*/
static void cqOutboxProgress(CqOp *p, CqVerb *pV){
  static const int aProgress[CQ_NVERB] = CQ_VERBS(0, CQ_PROGRESS_COMPLETE,
      CQ_PROGRESS_RELEASE, CQ_PROGRESS_RETRY, CQ_PROGRESS_REJECT,
      CQ_PROGRESS_RELEASE);
  CqOutboxVerb *pOwn = (CqOutboxVerb*)&pV->own;
  const CqVal *pOpt = pV->aOpt ? &pV->aOpt[CQ_OV_PROCESSED] : 0;
  int eVerb = aProgress[pV->eVerb];
  i64 nDone = claimqProcessed(&pOwn->delivery, eVerb,
                              pOpt && pOpt->bGiven ? &pOpt->i : 0);
  i64 iDone;
  assert( pV->eVerb!=CQ_RENEW && pV->eVerb!=CQ_GUARD );
  if( nDone<0 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "processed must be an integer from 0 to "
        "%lld, as many messages as claim %.*s has delivered, got %lld",
        pOwn->delivery.nMsg, pV->claimId.n, pV->claimId.z, pOpt->i);
    return;
  }
  iDone = claimqDoneSeq(&pOwn->delivery, nDone);
  if( iDone<0 ) iDone = cqOutboxLookUp(p, pV, nDone);
  claimqProgress(&pOwn->delivery, eVerb, nDone, iDone, &pOwn->progress);
}

/*
** A retry of the partition that pHead stands on: it pauses for a while, unless
** the caller says how long; or, if it was retried too often in one place, the
** first message goes to the dead letters, and the cursor passes it.
*/
static void cqOutboxRetry(CqOp *p, CqVerb *pV, CqStmt *pHead){
  CqOutboxVerb *pOwn = (CqOutboxVerb*)&pV->own;
  i64 nRetry = claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_retry_count);
  int bMoved = pOwn->progress.iCursor>pOwn->delivery.iCursor;
  if( p->rc ) return;
  if( !bMoved && pOwn->delivery.nMsg>0
   && claimqColType(pHead, CQ_COL_OUTBOX_HOLD_max_attempts)!=SQLITE_NULL
   && claimqAddSat(nRetry, 1)
      >=claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_max_attempts)
  ){
    i64 iFirst = claimqDoneSeq(&pOwn->delivery, 1);
    if( iFirst<0 ) iFirst = cqOutboxLookUp(p, pV, 1);
    claimqProgress(&pOwn->delivery, CQ_PROGRESS_RETRY, 1, iFirst,
                   &pOwn->progress);
    pOwn->bDead = 1;
    pV->task.zWord = "dead";
  }else if( pV->iDelay<0 ){
    i64 nPause = claimqBackoff(
        claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_backoff_ms),
        claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_backoff_factor),
        bMoved ? 0 : nRetry,
        claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_backoff_max_ms));
    pV->iUntil = nPause>0 ? claimqAddSat(claimqNow(p), nPause) : -1;
  }
}

/*
** The claim holds: decide what the verb does, and what it returns.  Several
** writes are needed only if messages become dead letters.  A delay of 0 is
** none.
*/
CQ_PRIV void claimqOutboxDecide(CqOp *p, CqVerb *pV, CqStmt *pHead){
  CqOutboxVerb *pOwn = (CqOutboxVerb*)&pV->own;
  const CqProgress *pP = &pOwn->progress;
  assert( pV->hold.bHead && pOwn->nRejected==0 );
  if( pV->eVerb==CQ_GUARD ) return;
  pV->task.eNeed = CQ_NEED_ONE;
  if( pV->eVerb==CQ_RENEW ) return;
  cqOutboxDelivery(pHead, &pOwn->delivery);
  cqOutboxProgress(p, pV);
  if( pV->aOpt && pV->aOpt[CQ_OV_REJECTED].bGiven ){
    cqOutboxRejected(p, pOwn, pV->aOpt[CQ_OV_REJECTED].t);
  }
  if( pV->iDelay<=0 ) pV->iUntil = -1;
  if( pV->eVerb==CQ_RETRY ) cqOutboxRetry(p, pV, pHead);
  pV->task.iAnswer = pV->eVerb==CQ_COMPLETE ? pP->nDone
              : pV->eVerb==CQ_RELEASE ? pOwn->delivery.nMsg : 0;
  if( pOwn->nRejected>0 || pOwn->bDead
   || (pV->eVerb==CQ_REJECT && pP->iCursor>pP->iDone)
  ){
    pV->task.eNeed = CQ_NEED_MANY;
  }
  if( pV->eVerb==CQ_COMPLETE
   && claimqOutboxForgets(p, pV->iHead, pP->iCursor, pP->nDone)
  ){
    pV->bMore = 1;
  }
}

/*
** xSettled: the claim is complete, and removes what earlier ones have left.
*/
CQ_PRIV void claimqOutboxSettled(CqOp *p, CqVerb *pV){
  const CqOutboxVerb *pOwn = (const CqOutboxVerb*)&pV->own;
  if( !pV->task.bAlone ) claimqOutboxForget(p, pV->iHead, pOwn->progress.nDone);
}

/*
** xBind: for OUTBOX_SETTLE.
*/
CQ_PRIV void claimqOutboxBind(CqOp *p, CqVerb *pV, CqStmt *pStmt){
  const CqProgress *pP = &((const CqOutboxVerb*)&pV->own)->progress;
  CqText none = {0, 0};
  if( pStmt->eStmt!=CQ_SQL_OUTBOX_SETTLE ) return;
  claimqBindInt(p, pStmt, CQ_OUTBOX_SETTLE_cursor, pP->iCursor);
  claimqBindInt(p, pStmt, CQ_OUTBOX_SETTLE_attempts, pP->nAttempt);
  claimqBindInt(p, pStmt, CQ_OUTBOX_SETTLE_retried, pV->eVerb==CQ_RETRY);
  claimqBindInt(p, pStmt, CQ_OUTBOX_SETTLE_keep, pP->eError==CQ_ERROR_KEEP);
  claimqBindText(p, pStmt, CQ_OUTBOX_SETTLE_error,
                 pP->eError==CQ_ERROR_REASON ? pV->reason : none);
}

/*
** Take a statement that looks at the claim's messages after iAfter, up to
** iLast.
*/
static CqStmt cqOutboxRange(
  CqOp *p, const CqVerb *pV, int eStmt, i64 iAfter, i64 iLast
){
  CqStmt s = claimqStmt(p, eStmt);
  claimqVerbBind(p, pV, &s);
  claimqBindInt(p, &s, CQ_OUTBOX_PRESENT_after, iAfter);
  claimqBindInt(p, &s, CQ_OUTBOX_PRESENT_last, iLast);
  return s;
}

/*
** The messages after iAfter, up to iLast, become dead letters.  Returns how
** many.  There may be fewer than their numbers say, if somebody deleted some;
** but no trigger may keep a letter from being written.
*/
static i64 cqOutboxBury(
  CqOp *p, CqVerb *pV, i64 iAfter, i64 iLast, CqText why
){
  CqStmt s = cqOutboxRange(p, pV, CQ_SQL_OUTBOX_BURY, iAfter, iLast);
  i64 n;
  assert( iAfter<=iLast );
  claimqBindText(p, &s, CQ_OUTBOX_PRESENT_why, why);
  n = claimqExec(p, &s);
  if( p->rc==SQLITE_OK && n!=iLast-iAfter ){
    i64 nPresent = 0;
    s = cqOutboxRange(p, pV, CQ_SQL_OUTBOX_PRESENT, iAfter, iLast);
    if( claimqStep(p, &s) ){
      nPresent = claimqColInt(&s, CQ_COL_OUTBOX_PRESENT_n);
    }
    claimqStmtDone(p, &s);
    if( n!=nPresent ) claimqStale(p, &pV->task);
  }
  return n;
}

/*
** The messages of option rejected become dead letters.  Returns how many.  A
** number in a gap is none of a message: raises bad_argument.
*/
static i64 cqOutboxBuryRejected(CqOp *p, CqVerb *pV){
  const CqOutboxVerb *pOwn = (const CqOutboxVerb*)&pV->own;
  int i;
  for(i=0; i<pOwn->nRejected && p->rc==SQLITE_OK; i++){
    const CqRejected *pR = &pOwn->aRejected[i];
    assert( i==0 || pR[-1].iSeq<pR->iSeq );
    if( cqOutboxBury(p, pV, pR->iSeq-1, pR->iSeq, pR->reason)==0 ){
      claimqFail(p, CQ_BAD_ARGUMENT, "rejected: there is no message with seq "
          "%lld in the partition: leave it out", pR->iSeq);
    }
  }
  return pOwn->nRejected;
}

/*
** xSettle, if there are dead letters to write: these, and then the cursor.
*/
CQ_PRIV void claimqOutboxSettle(CqOp *p, CqVerb *pV){
  CqOutboxVerb *pOwn = (CqOutboxVerb*)&pV->own;
  i64 nLetter;
  CqStmt s;
  assert( pV->task.eNeed==CQ_NEED_MANY );
  nLetter = cqOutboxBuryRejected(p, pV);
  if( pV->eVerb==CQ_REJECT ){
    nLetter += cqOutboxBury(p, pV, pOwn->progress.iDone,
                            pOwn->progress.iCursor, pV->reason);
    pV->task.iAnswer = nLetter;
  }
  if( pOwn->bDead ){
    cqOutboxBury(p, pV, pOwn->delivery.iCursor, pOwn->progress.iCursor,
                 pV->reason);
  }
  s = claimqStmt(p, CQ_SQL_OUTBOX_SETTLE);
  claimqVerbBind(p, pV, &s);
  claimqOutboxBind(p, pV, &s);
  if( claimqExec(p, &s)!=1 ) claimqStale(p, &pV->task);
  if( pV->bMore ) claimqOutboxSettled(p, pV);
}
