/*
** lease.c: what all disciplines share in giving and checking a lease.
**
** A lease is given in three steps: claimqLeaseMake() derives claim id, token
** and expiry from the head row; claimqLeaseCells() writes them into the rows
** that the caller will see; claimqLeaseBind() binds them for the one UPDATE
** that stamps the rows.
*/
#include "claimq_int.h"

CQ_PRIV void claimqLeaseMake(
  CqLease *p, const char *zPrefix, i64 iHead, i64 iOldFence, CqText scope,
  CqText owner, CqText incarnation, i64 iNow, i64 iTtl
){
  p->iHead = iHead;
  p->iFence = claimqAddSat(iOldFence, 1);
  p->iNow = iNow;
  p->iExpires = claimqAddSat(iNow, iTtl);
  p->owner = owner;
  p->incarnation = incarnation;
  p->bCells = 0;
  claimqClaimId(zPrefix, iHead, p->iFence, p->zClaim);
  claimqLeaseToken(scope, owner, incarnation, claimqStr(p->zClaim), iNow,
                   p->zToken);
}

CQ_PRIV void claimqLeaseCells(
  CqOp *pOp, CqRows *pRows, CqCell *a, CqLease *p,
  CqText previous, i64 nAttempt
){
  if( !p->bCells ){
    claimqCellText(pOp, pRows, &p->aCell[0], claimqStr(p->zClaim));
    claimqCellText(pOp, pRows, &p->aCell[1], claimqStr(p->zToken));
    claimqCellInt(&p->aCell[2], p->iFence);
    claimqCellText(pOp, pRows, &p->aCell[3], p->owner);
    claimqCellText(pOp, pRows, &p->aCell[4], p->incarnation);
    claimqCellInt(&p->aCell[5], p->iNow);
    claimqCellInt(&p->aCell[6], p->iExpires);
    p->bCells = 1;
  }
  memcpy(a, p->aCell, sizeof(p->aCell));
  claimqCellText(pOp, pRows, &a[7], previous);
  claimqCellInt(&a[8], nAttempt);
}

CQ_PRIV void claimqLeaseBind(
  CqOp *pOp, sqlite3_stmt *pStmt, int iFirst, const CqLease *p
){
  claimqBindText(pOp, pStmt, iFirst, claimqStr(p->zClaim));
  claimqBindText(pOp, pStmt, iFirst+1, claimqStr(p->zToken));
  claimqBindText(pOp, pStmt, iFirst+2, p->owner);
  claimqBindText(pOp, pStmt, iFirst+3, p->incarnation);
  claimqBindInt(pOp, pStmt, iFirst+4, p->iNow);
  claimqBindInt(pOp, pStmt, iFirst+5, p->iExpires);
}

CQ_PRIV void claimqLeaseLost(
  CqOp *p, int eVerdict, CqText claimId, CqText other
){
  const char *zId = claimId.z;
  int n = claimId.n;
  switch( eVerdict ){
    case CQ_HOLD_OK:
      break;
    case CQ_HOLD_UNKNOWN:
      claimqFail(p, CQ_CLAIM_LOST,
          "claim %.*s is unknown, or its work is settled", n, zId);
      break;
    case CQ_HOLD_TOKEN:
      claimqFail(p, CQ_CLAIM_LOST,
          "the lease token is not that of claim %.*s", n, zId);
      break;
    default:
      if( other.z && !claimqTextEq(other, claimId) ){
        claimqFail(p, CQ_CLAIM_LOST, "claim %.*s was displaced by claim %.*s",
                   n, zId, other.n, other.z);
      }else{
        claimqFail(p, CQ_CLAIM_LOST, "claim %.*s was displaced: work of it "
                   "was taken, given back, cancelled or settled", n, zId);
      }
  }
}

CQ_PRIV int claimqLeaseVerdict(
  CqOp *p, const CqVerb *pVerb, const CqHold *pHold, CqText other
){
  int eVerdict = claimqHoldVerdict(pHold);
  if( pVerb->eVerb!=CQ_RELEASE || eVerdict==CQ_HOLD_TOKEN ){
    claimqLeaseLost(p, eVerdict, pVerb->claimId, other);
  }
  return eVerdict;
}

CQ_PRIV void claimqVerbRun(
  CqOp *p, CqVerb *pVerb, const CqTask *pTask, void *pCtx
){
  if( pVerb->eVerb==CQ_GUARD ){
    pTask->xLoad(p, pCtx);
    pVerb->iResult = 1;
  }else{
    claimqRun(p, pTask, pCtx);
  }
}

CQ_PRIV int claimqVerbFast(
  CqOp *p, CqVerb *pVerb, int eRenew, int eComplete, sqlite3_value *pVal
){
  int eStmt = pVerb->eVerb==CQ_RENEW ? eRenew : eComplete;
  sqlite3_stmt *pStmt;
  if( pVerb->eVerb!=CQ_RENEW && pVerb->eVerb!=CQ_COMPLETE ) return 0;
  pVerb->iResult = pVerb->eVerb==CQ_COMPLETE ? 1
                 : claimqAddSat(claimqNow(p), pVerb->iTtl);
  pStmt = claimqStmt(p, eStmt);
  claimqBindInt(p, pStmt, 1, pVerb->iHead);
  claimqBindText(p, pStmt, 2, pVerb->claimId);
  claimqBindText(p, pStmt, 3, pVerb->token);
  if( pStmt && sqlite3_bind_parameter_count(pStmt)>3 ){
    claimqBindInt(p, pStmt, 4, pVerb->eVerb==CQ_COMPLETE ? claimqNow(p)
                                                         : pVerb->iResult);
  }
  claimqBindValue(p, pStmt, 5, pVal);
  return claimqExec(p, eStmt, pStmt)>0;
}
