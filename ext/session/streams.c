/*
** session/streams.c: the candidates of a claim, as two streams, each in the
** order of enqueue_seq: rows that stand among the ready ones, and rows that
** waited and are due by now.  The head is the earlier of the two.
*/
#include "session.h"

/*
** claimq__batch_passed(who, enqueue_seq, available_at_ms, expires_at_ms): asked
** for a row that is not claimable.  1 if it is to be looked at all the same,
** because somebody corrupted it.  Else it is passed over, and noted for upkeep
** if nothing that is claimable was met before it.  Called by anybody else the
** function does nothing.
**
** The statements that read the ready rows ask here, and do not hand over those
** that others hold: so one that is passed over costs a third.
*/
CQ_PRIV void claimqStreamsPassed(CqOp *p, CqCall *pCall){
  sqlite3_value **ap = pCall->apVal;
  CqStreams *pS = (CqStreams*)sqlite3_value_pointer(ap[0], CQ_STREAMS_TYPE);
  int eExpires = sqlite3_value_type(ap[3]);
  int bBad;
  if( pS==0 ) return;
  bBad = sqlite3_value_type(ap[2])!=SQLITE_INTEGER
      || (eExpires!=SQLITE_INTEGER && eExpires!=SQLITE_NULL);
  sqlite3_result_int(pCall->pCtx, bBad);
  if( !bBad && !pS->bFound ){
    claimqIdsNote(p, pS->pPassed, sqlite3_value_int64(ap[1]));
  }
}

/*
** Go on with the ready stream.  bRow: its statement stands on a row that was
** not looked at yet.
*/
static void cqStreamsReady(CqOp *p, CqStreams *pS, int bRow){
  assert( !bRow || p->rc==SQLITE_OK );
  pS->bReady = 0;
  while( bRow && claimqColInt(&pS->ready, CQ_S(due))<0 && !pS->bReady ){
    pS->bReady = (u8)claimqBatchRead(p, &pS->ready, &pS->readyBatch);
    pS->bFound |= pS->readyBatch.eWhy==CQ_WHY_CLAIMABLE;
    if( !pS->bReady ) bRow = claimqStep(p, &pS->ready);
  }
}

/*
** Go on with the due stream.
*/
static void cqStreamsDue(CqOp *p, CqStreams *pS){
  pS->bDue = (u8)claimqStep(p, &pS->due);
  if( pS->bDue ){
    pS->dueBatch.iSeq = claimqColInt(&pS->due, CQ_COL_SESSION_DUE_enqueue_seq);
    claimqIdsNote(p, pS->pDue, pS->dueBatch.iSeq);
  }
}

/*
** Open the streams of a session; of all sessions if session.z==0.  What is met
** on the way is added to the two lists, unless these are 0.  The caller closes,
** also after errors.
*/
CQ_PRIV void claimqStreamsOpen(
  CqOp *p, CqStreams *pS, CqText session, CqIds *pPassed, CqIds *pDue
){
  int bAny = session.z==0;
  int bRow, bWaited = bAny;
  memset(pS, 0, sizeof(*pS));
  pS->pPassed = pPassed;
  pS->pDue = pDue;
  pS->ready = claimqStmt(p, bAny ? CQ_SQL_SESSION_ANY_READY
                                 : CQ_SQL_SESSION_READY);
  if( !bAny ) claimqBindText(p, &pS->ready, CQ_SESSION_READY_session, session);
  claimqBindPointer(p, &pS->ready, CQ_SESSION_READY_who, pS, CQ_STREAMS_TYPE);
  claimqBindCommonInt(p, &pS->ready, CQ_P_now, claimqNow(p));
  bRow = claimqStep(p, &pS->ready);
  if( bRow ) bWaited = claimqColInt(&pS->ready, CQ_S(waited))!=0;
  cqStreamsReady(p, pS, bRow);
  if( bWaited ){
    pS->due = claimqStmt(p, bAny ? CQ_SQL_SESSION_ANY_DUE
                                 : CQ_SQL_SESSION_DUE);
    if( !bAny ) claimqBindText(p, &pS->due, CQ_SESSION_DUE_session, session);
    claimqBindCommonInt(p, &pS->due, CQ_P_now, claimqNow(p));
    cqStreamsDue(p, pS);
  }
}

/*
** Give back the statements of the streams, also of those that op had an error
** for when they were opened.  What was read of their rows is gone.
*/
CQ_PRIV void claimqStreamsClose(CqOp *p, CqStreams *pS){
  claimqStmtDone(p, &pS->ready);
  claimqStmtDone(p, &pS->due);
  claimqStmtDone(p, &pS->row);
}

/*
** Read the row that the due stream stands on.  0 if op has an error, or if the
** row is not claimable: somebody may have put it off while it was claimed.
*/
static int cqStreamsRow(CqOp *p, CqStreams *pS){
  assert( pS->bDue );
  if( pS->row.pStmt==0 ) pS->row = claimqStmt(p, CQ_SQL_SESSION_BY_SEQ);
  claimqStmtReset(&pS->row);
  claimqBindInt(p, &pS->row, CQ_SESSION_READY_seq, pS->dueBatch.iSeq);
  return claimqStep(p, &pS->row) && claimqBatchRead(p, &pS->row, &pS->dueBatch)
      && p->rc==SQLITE_OK;
}

/*
** The earlier of the two heads, 0 at the end of both or if op has an error.
*/
CQ_PRIV const CqBatch *claimqStreamsHead(CqOp *p, CqStreams *pS){
  while( p->rc==SQLITE_OK && pS->bDue
      && (!pS->bReady || pS->dueBatch.iSeq<=pS->readyBatch.iSeq)
  ){
    if( cqStreamsRow(p, pS) ) return &pS->dueBatch;
    cqStreamsDue(p, pS);
  }
  return p->rc==SQLITE_OK && pS->bReady ? &pS->readyBatch : 0;
}

/*
** Step over the head.
*/
CQ_PRIV void claimqStreamsNext(CqOp *p, CqStreams *pS, const CqBatch *pHead){
  assert( pHead==&pS->dueBatch ? pS->bDue : pS->bReady );
  if( pHead==&pS->dueBatch ) cqStreamsDue(p, pS);
  else cqStreamsReady(p, pS, claimqStep(p, &pS->ready));
}

/*
** Something is claimed: go on listing due rows, for upkeep.
*/
CQ_PRIV void claimqStreamsRest(CqOp *p, CqStreams *pS){
  while( pS->pDue && pS->bDue && pS->pDue->n<CQ_DUE_MOST ) cqStreamsDue(p, pS);
}
