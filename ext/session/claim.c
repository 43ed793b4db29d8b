/*
** session/claim.c: how a claim of a session, or a peek, takes batches; how they
** are stamped; and when a claim could succeed, or why it cannot.
*/
#include "session.h"

/*
** Add the batch that was just selected to the rows for the caller.  The first
** one is the head: the lease comes from it, and its merge key is kept for the
** batches to come.
*/
static void cqSessionTake(CqOp *p, CqClaim *pC, const CqBatch *pB){
  CqSession *pOwn = (CqSession*)&pC->own;
  CqCell *a = claimqRowsAdd(p, pC->pRows);
  i64 iFence = sqlite3_value_int64(pB->apCol[CQ_S(fencing_token)]);
  CqText previous = claimqTextOrNull(p, pB->apCol[CQ_S(claim_id)]);
  i64 nAttempt = sqlite3_value_int64(pB->apCol[CQ_S(attempts)]);
  assert( pB->eWhy==CQ_WHY_CLAIMABLE && pOwn->session.z );
  claimqCellColumns(p, pC->pRows, a, pB->pStmt, CQ_S_NCOL);
  if( a && (pC->pRows->mSkip>>CQ_S(session) & 1)==0 ){
    claimqCellText(p, pC->pRows, &a[CQ_S(session)], pOwn->session);
  }
  claimqIdsAdd(p, &pC->ids, pB->iSeq);
  if( p->rc ) return;
  if( claimqColInt(pB->pStmt, CQ_S(new)) ){
    CqText id = claimqValueText(p, pB->apCol[CQ_S(batch_id)]);
    if( p->rc ) return;
    if( CQ_ALWAYS(id.n<CQ_BATCH_ID_SZ) ){
      memcpy(pOwn->zId, id.z, (size_t)id.n+1);
    }
    pOwn->bNew = 1;
  }
  assert( pC->ids.n==pC->pRows->nRow );
  if( pC->ids.n==1 ){
    CqCell merge;
    claimqCellValue(p, pC->pRows, &merge, pB->apCol[CQ_S(merge_key)]);
    if( p->rc ) return;
    pOwn->sel.head.merge = claimqCellGetText(&merge);
    if( pC->pDef->bWrites ){
      claimqLeaseMake(p, &pC->lease, pC, pB->iSeq, iFence, pOwn->session);
    }
  }
  if( pC->pDef->bWrites ){
    claimqCellInt(&a[CQ_S_FENCE], claimqAddSat(iFence, 1));
    claimqLeaseCells(p, pC->pRows, &a[CQ_S_NCOL], &pC->lease, previous,
                     nAttempt);
  }else{
    claimqCellText(p, pC->pRows, &a[CQ_S_NCOL], previous);
    claimqCellInt(&a[CQ_S_NCOL+1], nAttempt);
  }
}

/*
** Offer the batches of the session to selection, until that is over.
*/
static void cqSessionSelect(CqOp *p, CqClaim *pC, CqStreams *pS){
  CqSession *pOwn = (CqSession*)&pC->own;
  const CqBatch *pB;
  while( !pOwn->sel.bDone && (pB = claimqStreamsHead(p, pS))!=0 ){
    if( pB->iSeq>pOwn->iKept ) break;
    if( pB->eWhy==CQ_WHY_CLAIMABLE ){
      if( !claimqSelectOffer(&pOwn->sel, &pB->cand) ) break;
      cqSessionTake(p, pC, pB);
      pOwn->bMove |= pB==&pS->dueBatch;
    }else{
      if( pC->ids.n ) break;
      claimqBatchBad(p, pC, pB);
    }
    if( !pOwn->sel.bDone ) claimqStreamsNext(p, pS, pB);
  }
}

/*
** Forget which session gives less than is known.
*/
static void cqSessionNotLate(CqSession *pOwn){
  sqlite3_free((char*)pOwn->late.z);
  pOwn->late.z = 0;
  pOwn->iLate = 0;
}

/*
** What else a claim that has taken batches needs, where a row is kept for each
** session.  If all batches of this one are of the usual kind, and these stay
** where they are, the row stays true: see sql/schema/session.sql.
*/
static void cqSessionLookNeed(CqOp *p, CqClaim *pC){
  CqSession *pOwn = (CqSession*)&pC->own;
  if( !pOwn->bKept || pC->ids.n==0 ) return;
  pOwn->bLook = pOwn->bMove || pOwn->bNew
      || (pC->bTidy
          && (!pOwn->bAny || claimqNamesHas(&pOwn->wrong, pOwn->session)))
      || claimqSessionMixed(p, pOwn->session);
  pOwn->bMove = pOwn->bLook;
}

/*
** Load and decide.  What a claim of any session met is listed by its choice:
** what it then meets in the session was met there, and so was looked at what a
** serial claim must know.
*/
CQ_PRIV void claimqSessionNext(CqOp *p, CqClaim *pC){
  CqSession *pOwn = (CqSession*)&pC->own;
  int bList = pC->pDef->bWrites && !pOwn->bAny;
  int bBusy = 0;
  CqStreams s;
  pOwn->passed.n = pOwn->due.n = pOwn->fresh.n = 0;
  pOwn->bNew = 0;
  claimqNamesClear(&pOwn->wrong);
  cqSessionNotLate(pOwn);
  pOwn->bKept = (u8)claimqSessionKept(p);
  pOwn->bMove = pOwn->bLook = 0;
  pOwn->iKept = CQ_I64_MAX;
  if( pOwn->bAny ){
    pOwn->bLease = (u8)claimqSessionSerial(p, pC);
    if( !claimqSessionAny(p, pC, pOwn->bLease) ){
      if( pOwn->fresh.n || pOwn->wrong.n>CQ_WRONG_FEW ){
        pC->task.eNeed = CQ_NEED_TIDY;
        pC->bUpkeep = 1;
      }
      return;
    }
  }
  claimqSelectInit(&pOwn->sel, pOwn->eBoundary, pOwn->eTake, pC->nMax);
  claimqStreamsOpen(p, &s, pOwn->session, bList ? &pOwn->passed : 0,
                bList ? &pOwn->due : 0);
  if( !pOwn->bAny && (s.bReady || s.bDue) ){
    pOwn->bLease = (u8)claimqSessionSerial(p, pC);
    if( pOwn->bLease ){
      bBusy = claimqSessionBusy(p, pOwn->session, &pOwn->iKept, 0);
    }
  }
  if( !bBusy ) cqSessionSelect(p, pC, &s);
  if( pC->ids.n ) claimqStreamsRest(p, &s);
  claimqStreamsClose(p, &s);
  if( pC->pDef->bWrites ){
    claimqClaimNeed(pC, pOwn->passed.n>CQ_PASS_FEW || pOwn->due.n>=CQ_DUE_FEW
                     || pOwn->wrong.n>0 || pOwn->iLate);
    if( pC->ids.n>CQ_STAY_MOST ) pOwn->bMove = 1;
    cqSessionLookNeed(p, pC);
    if( pOwn->bLook || (pOwn->bNew && pOwn->bMove) ){
      assert( p->rc || pC->ids.n>0 );
      pC->task.eNeed = CQ_NEED_UNDO;
    }
  }
}

/*
** Move the listed rows to the other place.
*/
static void cqSessionPlace(CqOp *p, int eStmt, const CqIds *pIds){
  CqStmt s = claimqStmt(p, eStmt);
  i64 iFirst = pIds->a[0], iLast = pIds->a[0];
  int i;
  assert( pIds->n>0 && pIds->n<=CQ_DUE_MOST );
  for(i=1; i<pIds->n; i++){
    if( pIds->a[i]<iFirst ) iFirst = pIds->a[i];
    if( pIds->a[i]>iLast ) iLast = pIds->a[i];
  }
  claimqBindIds(p, &s, CQ_SESSION_PARK_ids, pIds);
  claimqBindInt(p, &s, CQ_SESSION_PARK_first, iFirst);
  claimqBindInt(p, &s, CQ_SESSION_PARK_last, iLast);
  claimqExec(p, &s);
}

/*
** Give rows of plain INSERTs their ids.
*/
static void cqSessionName(CqOp *p, const CqIds *pIds){
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_NAME);
  claimqBindIds(p, &s, CQ_SESSION_NAME_ids, pIds);
  claimqExec(p, &s);
}

/*
** Put the indexes in order, so that the next claim finds its rows at once, and
** give rows of plain INSERTs their ids.  (Where a row is kept for each session,
** those that a claim of any session passed over are of sessions that are looked
** at next: cqKnownLook().)
*/
CQ_PRIV void claimqSessionTidy(CqOp *p, CqClaim *pC){
  const CqSession *pOwn = (const CqSession*)&pC->own;
  if( pOwn->fresh.n ) cqSessionName(p, &pOwn->fresh);
  if( pOwn->passed.n>(pOwn->bAny && pOwn->bKept ? 0 : CQ_PASS_FEW) ){
    cqSessionPlace(p, CQ_SQL_SESSION_PARK, &pOwn->passed);
  }
  if( pOwn->due.n>=CQ_DUE_FEW ){
    cqSessionPlace(p, CQ_SQL_SESSION_PROMOTE, &pOwn->due);
  }
}

/*
** Rows were stamped, or moved: look at their sessions.  (What was only met on
** the way is left alone where upkeep is.)  claimq_session has been wrong about
** those that were met.
*/
static void cqSessionLooks(CqOp *p, CqClaim *pC){
  const CqSession *pOwn = (const CqSession*)&pC->own;
  int i;
  if( pOwn->bLook ) claimqSessionLook(p, pOwn->session);
  for(i=0; i<pOwn->wrong.nSlot && !pC->task.bAlone; i++){
    CqText name = pOwn->wrong.a[i];
    if( name.z && (pC->ids.n==0 || !claimqTextEq(name, pOwn->session)) ){
      claimqSessionLeft(p, name);
    }
  }
  if( pOwn->iLate && !pC->task.bAlone
   && !claimqNamesHas(&pOwn->wrong, pOwn->late)
  ){
    claimqSessionRaise(p, pOwn->late, pOwn->iLate);
  }
}

/*
** The statement that stamps n rows.
*/
static int cqSessionStampBy(const CqSession *pOwn, int n){
  static const int aStmt[3][2] = {
    { CQ_SQL_SESSION_STAMP_ONE,     CQ_SQL_SESSION_STAMP },
    { CQ_SQL_SESSION_STAMP_NEW_ONE, CQ_SQL_SESSION_STAMP_NEW },
    { CQ_SQL_SESSION_MOVE_ONE,      CQ_SQL_SESSION_MOVE },
  };
  return aStmt[pOwn->bMove ? 2 : pOwn->bNew][n>1];
}

/*
** Stamp the rows.  Those that waited get a new time to wait for, and if
** there are enough rows to slow the next claim down, they are moved out of its
** way.
*/
CQ_PRIV void claimqSessionStamp(CqOp *p, CqClaim *pC){
  const CqSession *pOwn = (const CqSession*)&pC->own;
  int n = pC->ids.n;
  int eStmt = cqSessionStampBy(pOwn, n);
  CqStmt s;
  if( n==0 ){
    cqSessionLooks(p, pC);
    return;
  }
  if( pOwn->bNew && pOwn->bMove ) cqSessionName(p, &pC->ids);
  s = claimqStmt(p, eStmt);
  assert( n>0 && n==pC->pRows->nRow );
  assert( pC->lease.iHead==pC->ids.a[0] && pC->lease.bCells );
  claimqLeaseBind(p, &s, &pC->lease);
  if( eStmt==CQ_SQL_SESSION_MOVE ){
    claimqBindIds(p, &s, CQ_SESSION_STAMP_ids, &pC->ids);
  }else if( eStmt==CQ_SQL_SESSION_STAMP || eStmt==CQ_SQL_SESSION_STAMP_NEW ){
    claimqBindText(p, &s, CQ_SESSION_STAMP_session, pOwn->session);
  }else if( eStmt==CQ_SQL_SESSION_STAMP_NEW_ONE ){
    claimqBindText(p, &s, CQ_SESSION_STAMP_batch_id, claimqStr(pOwn->zId));
  }
  claimqBindInt(p, &s, CQ_SESSION_STAMP_size, n);
  claimqBindInt(p, &s, CQ_SESSION_STAMP_last, pC->ids.a[n-1]);
  if( pOwn->bLease ) claimqBindInt(p, &s, CQ_SESSION_STAMP_serial, 1);
  else claimqBindNull(p, &s, CQ_SESSION_STAMP_serial);
  claimqClaimStamp(p, pC, &s, n);
  if( pOwn->bKept ) cqSessionLooks(p, pC);
}

/*
** xDone: free what the claim has collected.
*/
CQ_PRIV void claimqSessionDone(CqClaim *pC){
  CqSession *pOwn = (CqSession*)&pC->own;
  claimqIdsClear(&pOwn->passed);
  claimqIdsClear(&pOwn->due);
  claimqIdsClear(&pOwn->fresh);
  claimqNamesClear(&pOwn->wrong);
  cqSessionNotLate(pOwn);
  sqlite3_free(pOwn->zSession);
}

/*
** When a claim could succeed: now, or when a row falls due or a lease ends.
*/
CQ_PRIV i64 claimqSessionNextAt(CqOp *p, CqClaim *pC){
  CqText session = ((CqSession*)&pC->own)->session;
  int bSerial = claimqSessionSerial(p, pC);
  CqStmt s;
  if( claimqLookTakes(p, pC) ) return claimqNow(p);
  s = claimqStmt(p, session.z ? CQ_SQL_SESSION_LATER
                              : CQ_SQL_SESSION_ANY_LATER);
  if( session.z ) claimqBindText(p, &s, CQ_SESSION_LATER_session, session);
  claimqBindInt(p, &s, CQ_SESSION_LATER_now, claimqNow(p));
  claimqBindInt(p, &s, CQ_SESSION_LATER_serial, bSerial);
  claimqBindInt(p, &s, CQ_SESSION_LATER_limit, CQ_LOOK_ROWS);
  return claimqLookLater(p, &s);
}

/*
** One session as xWhy sees it: what the first of its batches that cannot be
** taken is kept by, keeps all behind it.
*/
typedef struct CqFront CqFront;
struct CqFront {
  char *zSession;                 /* 0: no batch of it was met */
  CqText session;
  int eFront;                     /* CQ_WHY_*: what keeps the rest */
  int bSerial, bBusy;
  i64 iKept;                      /* As CqSession.iKept */
  i64 iUntil;                     /* Until when it is busy, or keeps the rest */
};

/*
** Begin with a session, unless it is the same as before.
*/
static void cqFrontEnter(CqOp *p, CqFront *pF, CqText session){
  if( p->rc || (pF->zSession && claimqTextEq(pF->session, session)) ) return;
  sqlite3_free(pF->zSession);
  pF->zSession = claimqTextDup(p, session);
  pF->session.z = pF->zSession;
  pF->session.n = session.n;
  pF->eFront = CQ_WHY_CLAIMABLE;
  pF->bBusy = 0;
  pF->iKept = CQ_I64_MAX;
  if( pF->bSerial && p->rc==SQLITE_OK ){
    pF->bBusy = claimqSessionBusy(p, pF->session, &pF->iKept, &pF->iUntil);
  }
}

/*
** The reason of a batch that is claimable by itself.
*/
static int cqFrontWhy(CqFront *pF, const CqSession *pOwn, const CqBatch *pB){
  if( pF->eFront==CQ_WHY_CLAIMABLE ){
    pF->eFront = pF->bBusy ? CQ_WHY_BUSY
        : pB->iSeq>pF->iKept ? CQ_WHY_KEPT_BACK
        : claimqHeadWhy(pOwn->eBoundary, pOwn->eTake, &pB->cand);
  }
  return pF->eFront;
}

/*
** xWhy.  A claim of any session is asked of the session that it would choose;
** if it would choose none, of all.
*/
CQ_PRIV void claimqSessionWhy(CqOp *p, CqClaim *pC, CqWhy *pWhy){
  CqSession *pOwn = (CqSession*)&pC->own;
  CqFront front;
  CqBatch b;
  CqStmt s;
  int bAll;
  memset(&front, 0, sizeof(front));
  pOwn->iKept = CQ_I64_MAX;
  front.bSerial = claimqSessionSerial(p, pC);
  bAll = pOwn->bAny && !claimqSessionAny(p, pC, front.bSerial);
  s = claimqStmt(p, bAll ? CQ_SQL_SESSION_ANY_WHY : CQ_SQL_SESSION_WHY);
  if( !bAll ) claimqBindText(p, &s, CQ_SESSION_READY_session, pOwn->session);
  while( claimqStep(p, &s) ){
    CqCell *pDetail;
    i64 iUntil;
    int eWhy;
    cqFrontEnter(p, &front, claimqColText(p, &s, CQ_S(session)));
    claimqBatchRead(p, &s, &b);
    eWhy = b.eWhy;
    if( eWhy==CQ_WHY_CLAIMABLE ) eWhy = cqFrontWhy(&front, pOwn, &b);
    if( eWhy==CQ_WHY_UNKNOWN && !pOwn->bAny ) front.eFront = CQ_WHY_UNKNOWN;
    iUntil = eWhy==CQ_WHY_BUSY || eWhy==CQ_WHY_KEPT_BACK ? front.iUntil
           : claimqWhyUntil(eWhy, b.cand.iAvailable, b.cand.iExpires);
    pDetail = claimqWhyAdd(p, pWhy, eWhy, b.apCol[CQ_S(batch_id)], 0, iUntil);
    if( pDetail && b.zBad ){
      claimqCellText(p, pWhy->pRows, pDetail, claimqStr(b.zBad));
    }
  }
  claimqStmtDone(p, &s);
  sqlite3_free(front.zSession);
}

/*
** xRows: the batches of a claim that was made before, if it holds.
*/
CQ_PRIV void claimqSessionRows(CqOp *p, CqClaim *pC, CqText claimId){
  int nBefore = pC->pRows->nRow;
  i64 iHead, iFence, nSize = 0;
  CqStmt s;
  if( !claimqClaimIdParse(claimId, pC->pDef->zPrefix, &iHead, &iFence) ) return;
  s = claimqStmt(p, CQ_SQL_SESSION_ROWS);
  claimqBindCommonInt(p, &s, CQ_P_head, iHead);
  claimqBindCommonText(p, &s, CQ_P_claim, claimId);
  while( claimqStep(p, &s) ){
    CqCell *a = claimqRowsAdd(p, pC->pRows);
    nSize = claimqColInt(&s, CQ_COL_SESSION_ROWS_claim_size);
    claimqCellColumns(p, pC->pRows, a, &s, CQ_S_NCOL);
    claimqLeaseKept(p, pC->pRows, a ? &a[CQ_S_NCOL] : 0, &s,
        CQ_COL_SESSION_ROWS_claim_id, iFence,
        claimqColInt(&s, CQ_COL_SESSION_ROWS_attempts)-1);
  }
  claimqStmtDone(p, &s);
  if( pC->pRows->nRow-nBefore!=nSize ) pC->pRows->nRow = nBefore;
}
