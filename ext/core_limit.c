/*
** core_limit.c: how many claims of a lane may begin now, and when the next.
**
** `max_active` 3, `rate` 2 with `per_ms` 1000, one lease live until 7000 and
** the last two claims begun at 5100 and 5900:
**
**     now    may begin   next    reason
**     5900           0   6100    rate: two began since 4901
**     6100           1   6100    the one of 5100 is no longer in the window
**     6900           2   6900    two more leases would fit, and two more claims
**
** and with `max_active` 1:
**
**     6100           0   7000    active: one lease is live
**     7000           1   7000    it has ended, although nobody settled it
**
** How it works
**
** A lease is the slot: whoever holds a live one takes up one of `max_active`,
** and nothing has to be given back when a worker dies.  As long as there are
** more live leases than allowed (the limit was lowered), several must end
** before one more may begin.
**
** A window of p ms holds p points in time, so two claims that began p ms apart
** are never in the same one.  At most n claims begin in every window exactly if
** the n-th last claim began at least p ms before the next one does.  So nothing
** is known of the past but when the last n claims began, and for one claim only
** the n-th last is looked at; for k of them at once it is the one that is k-1
** later, and how many fit is found by halving: about log2(k) looks.
**
** If the clock went back, claims may have begun later than now.  They count as
** begun now: the caller rewrites them when it records a new start, so that the
** records stay in order, and this file looks at them as if that were done.
**
** While nothing else happens leases only end and windows only pass.  So if
** several limits are in the way, the time at which one more claim may begin is
** the latest of theirs, and the reason is the limit that it belongs to; among
** equals the lane's comes before the group's, and pause, active, rate in this
** order.
*/
#include "claimq_core.h"

/* 1 if the rate lets k claims begin now, k<=nRate.  (A start after now is in
** the window as one at now is.) */
static int cqLimitRateLets(
  const CqLimit *p, const CqUse *pUse, i64 k, i64 iNow
){
  i64 i = p->nRate - k + 1;
  return i>pUse->nStart || pUse->xStart(pUse->pCtx, i)<=iNow-p->nPer;
}

/* How many of nWant claims the rate lets begin now. */
static i64 cqLimitRate(
  const CqLimit *p, const CqUse *pUse, i64 nWant, i64 iNow
){
  i64 nYes = 0, nNo = (nWant<p->nRate ? nWant : p->nRate) + 1;
  i64 k = 1;                      /* Mostly one is wanted, or none is let */
  do{
    if( cqLimitRateLets(p, pUse, k, iNow) ) nYes = k;
    else nNo = k;
    k = nYes + (nNo-nYes)/2;
  }while( nNo-nYes>1 );
  return nYes;
}

/*
** How many claims may begin under one limit, and when.  nWant>0: so many are
** asked for.  iNow>=0.
*/
CQ_PRIV void claimqLimitRoom(
  const CqLimit *p, const CqUse *pUse, i64 nWant, i64 iNow, CqRoom *pOut
){
  assert( nWant>0 && iNow>=0 && pUse->nLive>=0 && pUse->nStart>=0 );
  memset(pOut, 0, sizeof(*pOut));
  pOut->iNext = iNow;
  if( p->nActive==0 || p->nRate==0 ){
    pOut->iNext = CQ_LIMIT_NEVER;
    pOut->eWhy = CQ_LIMIT_PAUSED;
    return;
  }
  pOut->nRoom = nWant;
  if( p->nActive>0 ){
    i64 nFree = p->nActive - pUse->nLive;
    if( nFree<nWant ) pOut->nRoom = nFree>0 ? nFree : 0;
    if( nFree<=0 ){
      pOut->iNext = pUse->xEnd(pUse->pCtx, 1-nFree);
      pOut->eWhy = CQ_LIMIT_ACTIVE;
    }
  }
  if( p->nRate>0 ){
    i64 nLet;
    assert( p->nPer>0 );
    nLet = cqLimitRate(p, pUse, nWant, iNow);
    if( nLet<pOut->nRoom ) pOut->nRoom = nLet;
    if( nLet==0 ){
      i64 iStart = pUse->xStart(pUse->pCtx, p->nRate);
      i64 iNext = claimqAddSat(iStart<iNow ? iStart : iNow, p->nPer);
      if( pOut->eWhy==CQ_LIMIT_NONE || iNext>pOut->iNext ){
        pOut->iNext = iNext;
        pOut->eWhy = CQ_LIMIT_RATE;
      }
    }
  }
}

/*
** The same for a job that is under the limits of its lane and of its group.
** Of a job that has no group there is only the lane's.
*/
CQ_PRIV void claimqLimitBoth(
  const CqRoom *pLane, const CqRoom *pGroup, CqRoom *pOut
){
  CqRoom room = *pLane;
  if( pGroup->eWhy!=CQ_LIMIT_NONE
   && (pLane->eWhy==CQ_LIMIT_NONE || pGroup->iNext>pLane->iNext)
  ){
    room = *pGroup;
    room.bGroup = 1;
  }
  room.nRoom = pLane->nRoom<pGroup->nRoom ? pLane->nRoom : pGroup->nRoom;
  *pOut = room;
}

/*
** 1 if one more lease may be live beside nLive others: what the renewal of an
** expired claim needs.  It does not begin, so that the rate is not asked.
*/
CQ_PRIV int claimqLimitSlot(const CqLimit *p, i64 nLive){
  return p->nActive<0 || nLive<p->nActive;
}
