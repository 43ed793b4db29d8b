/*
** session/serial.c: serial claims.  A session has one of these at a time.
**
** Such a claim asks about the rest of the session: is one of its batches held,
** and is there one that waits for its retry, behind which nothing may be
** delivered?
*/
#include "session.h"

/*
** 1 if the claim is a serial one: it says so, or the database does.
*/
CQ_PRIV int claimqSessionSerial(CqOp *p, const CqClaim *pC){
  const CqSession *pOwn = (const CqSession*)&pC->own;
  return pOwn->bSerial>=0 ? pOwn->bSerial
                          : (claimqSettings(p) & CQ_SET_SERIAL)!=0;
}

/*
** 1 if a live claim holds a batch of the session; *piKept is that batch then,
** if piUntil is 0.  If none does, *piKept is the first batch of it that was
** claimed before and waits for its retry, CQ_I64_MAX if there is none.
** piUntil, which may be 0: until when that will be so.
*/
CQ_PRIV int claimqSessionBusy(
  CqOp *p, CqText session, i64 *piKept, i64 *piUntil
){
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_BUSY);
  i64 iHeld = 0, iWaits = 0;
  int bBusy = 0;
  claimqBindText(p, &s, CQ_SESSION_BUSY_session, session);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  *piKept = CQ_I64_MAX;
  while( (piUntil || !bBusy) && claimqStep(p, &s) ){
    i64 iSeq = claimqColInt(&s, CQ_COL_SESSION_BUSY_enqueue_seq);
    i64 iExpires = claimqColInt(&s, CQ_COL_SESSION_BUSY_expires_at_ms);
    if( claimqColInt(&s, CQ_COL_SESSION_BUSY_held) ){
      bBusy = 1;
      if( iExpires>iHeld ) iHeld = iExpires;
      if( piUntil==0 ) *piKept = iSeq;
    }else if( claimqColInt(&s, CQ_COL_SESSION_BUSY_waits) && iSeq<*piKept ){
      *piKept = iSeq;
      iWaits = claimqColInt(&s, CQ_COL_SESSION_BUSY_available_at_ms);
    }
  }
  claimqStmtDone(p, &s);
  if( piUntil ) *piUntil = bBusy ? iHeld : iWaits;
  return bBusy;
}
