/*
** lease.c: giving and judging a lease, the same for all disciplines.
**
** A lease is given in three steps: claimqLeaseMake() derives claim id, token
** and expiry from the head row; claimqLeaseCells() writes them into the rows
** that the caller will see; claimqLeaseBind() binds them for the one statement
** that stamps the rows.
*/
#include "claimq_int.h"

/*
** Derive the lease that pC gives on head row iHead, whose fencing token was
** iOldFence.  scope is hashed now; owner and incarnation are kept, not copied.
*/
CQ_PRIV void claimqLeaseMake(
  CqOp *p, CqLease *pLease, const CqClaim *pC, i64 iHead, i64 iOldFence,
  CqText scope
){
  assert( pC->iLease>=0 && pC->pDef->zPrefix );
  pLease->iHead = iHead;
  pLease->iFence = claimqAddSat(iOldFence, 1);
  pLease->iNow = claimqNow(p);
  pLease->iExpires = claimqAddSat(pLease->iNow, pC->iLease);
  pLease->owner = pC->owner;
  pLease->incarnation = pC->incarnation;
  pLease->bCells = 0;
  claimqClaimId(pC->pDef->zPrefix, iHead, pLease->iFence, pLease->zClaim);
  claimqLeaseToken(scope, pC->owner, pC->incarnation,
                   claimqStr(pLease->zClaim), pLease->iNow, pLease->zToken);
}

/*
** Fill the nine claim columns at a[0..8].  Rows of one lease share the bytes
** of its cells, which are copied into pRows once.
*/
CQ_PRIV void claimqLeaseCells(
  CqOp *p, CqRows *pRows, CqCell *a, CqLease *pLease,
  CqText previous, i64 nAttempt
){
  if( p->rc ) return;
  assert( a!=0 );
  if( !pLease->bCells ){
    CqCell *c = pLease->aCell;
    claimqCellText(p, pRows, &c[0], claimqStr(pLease->zClaim));
    claimqCellText(p, pRows, &c[1], claimqStr(pLease->zToken));
    claimqCellInt(&c[2], pLease->iFence);
    claimqCellText(p, pRows, &c[3], pLease->owner);
    claimqCellText(p, pRows, &c[4], pLease->incarnation);
    claimqCellInt(&c[5], pLease->iNow);
    claimqCellInt(&c[6], pLease->iExpires);
    pLease->bCells = 1;
  }
  memcpy(a, pLease->aCell, sizeof(pLease->aCell));
  claimqCellText(p, pRows, &a[7], previous);
  claimqCellInt(&a[8], nAttempt);
}

/*
** Fill the nine claim columns at a[0..8] from a row that a claim holds: iCol is
** the first of the row's columns claim_id, lease_token, owner,
** incarnation, claimed_at_ms, expires_at_ms, which stand together.  Which
** claim was displaced the row does not tell; the answer of a request does.
*/
CQ_PRIV void claimqLeaseKept(
  CqOp *p, CqRows *pRows, CqCell *a, const CqStmt *pRow, int iCol, i64 iFence,
  i64 nAttempt
){
  int i;
  if( p->rc ) return;
  assert( a!=0 );
  for(i=0; i<2; i++) claimqCellColumn(p, pRows, &a[i], pRow, iCol+i);
  claimqCellInt(&a[2], iFence);
  for(i=2; i<6; i++) claimqCellColumn(p, pRows, &a[i+1], pRow, iCol+i);
  claimqCellInt(&a[8], nAttempt);
}

/*
** Bind the lease for the statement that stamps the rows.
*/
CQ_PRIV void claimqLeaseBind(CqOp *p, CqStmt *pStmt, const CqLease *pLease){
  assert( p->rc || pLease->zToken[CQ_TOKEN_SZ-2] );   /* claimqLeaseMake() */
  claimqBindCommonInt(p, pStmt, CQ_P_head, pLease->iHead);
  claimqBindCommonText(p, pStmt, CQ_P_claim, claimqStr(pLease->zClaim));
  claimqBindCommonText(p, pStmt, CQ_P_token, claimqStr(pLease->zToken));
  claimqBindCommonText(p, pStmt, CQ_P_owner, pLease->owner);
  claimqBindCommonText(p, pStmt, CQ_P_incarnation, pLease->incarnation);
  claimqBindCommonInt(p, pStmt, CQ_P_now, pLease->iNow);
  claimqBindCommonInt(p, pStmt, CQ_P_expires, pLease->iExpires);
}

/*
** Raise claim_lost for a verdict other than CQ_HOLD_OK, in words that say
** which of the five ways to be lost it is.
*/
CQ_PRIV void claimqLeaseLost(
  CqOp *p, int eVerdict, CqText claimId, CqText other
){
  const char *zId = claimId.z;
  int n = claimId.n;
  assert( eVerdict>CQ_HOLD_OK && eVerdict<=CQ_HOLD_EXPIRED );
  switch( eVerdict ){
    case CQ_HOLD_UNKNOWN:
      claimqFail(p, CQ_CLAIM_LOST,
          "claim %.*s is unknown, or its work is settled", n, zId);
      break;
    case CQ_HOLD_NEVER:
      claimqFail(p, CQ_CLAIM_LOST,
          "claim %.*s is unknown: it was never made, or rolled back", n, zId);
      break;
    case CQ_HOLD_EXPIRED:
      claimqFail(p, CQ_CLAIM_LOST, "the lease of claim %.*s has expired, and "
          "the policy of its lane is strict", n, zId);
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
