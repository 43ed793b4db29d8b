/*
** core/limit.c: how many claims of a lane may begin now, and when the next.
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
  assert( k>=1 && k<=p->nRate );
  return i>pUse->nStart || pUse->xStart(pUse->pCtx, i)<=iNow-p->nPer;
}

/* How many of nWant claims the rate lets begin now. */
static i64 cqLimitRate(
  const CqLimit *p, const CqUse *pUse, i64 nWant, i64 iNow
){
  i64 nYes = 0, nNo = (nWant<p->nRate ? nWant : p->nRate) + 1;
  i64 k = 1;                      /* Mostly one is wanted, or none is let */
  do{
    assert( nYes<k && k<nNo );
    if( cqLimitRateLets(p, pUse, k, iNow) ) nYes = k;
    else nNo = k;
    k = nYes + (nNo-nYes)/2;
  }while( nNo-nYes>1 );
  return nYes;
}

#ifndef NDEBUG
/* 1 if an answer agrees with itself: there is a reason exactly if there is no
** room. */
static int cqLimitSound(const CqRoom *p){
  return p->nRoom>=0 && (p->nRoom==0)==(p->eWhy!=CQ_LIMIT_NONE);
}
#endif

/*
** How many claims may begin under one limit, and when.  nWant>0: that many are
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
  assert( cqLimitSound(pOut) && pOut->nRoom<=nWant );
  assert( pOut->eWhy!=CQ_LIMIT_NONE || pOut->iNext==iNow );
  assert( pOut->eWhy!=CQ_LIMIT_RATE || pOut->iNext>iNow
       || pOut->iNext==CQ_LIMIT_NEVER );
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
  assert( cqLimitSound(&room) );
  *pOut = room;
}

/**************************************************************************
** Which jobs are taken, if groups are limited or take turns
*/

/* How offers are compared: <0 if the first goes before the second. */
typedef int CqOfferOrder(const CqOffer*, const CqOffer*);

static int cqOfferByKey(const CqOffer *a, const CqOffer *b){
  return claimqJobCompare(&a->key, &b->key);
}

static int cqOfferByGroup(const CqOffer *a, const CqOffer *b){
  if( a->iGroup!=b->iGroup ) return a->iGroup<b->iGroup ? -1 : 1;
  return cqOfferByKey(a, b);
}

/* What does not fit comes last. */
static int cqOfferOut(const CqOffer *p){
  return p->nRank>=p->nRoom;
}

static int cqOfferByOrder(const CqOffer *a, const CqOffer *b){
  if( cqOfferOut(a)!=cqOfferOut(b) ) return cqOfferOut(a) - cqOfferOut(b);
  return cqOfferByKey(a, b);
}

/* Every group gives its first job before one gives its second, and so on; the
** group that was served least recently begins. */
static int cqOfferByTurn(const CqOffer *a, const CqOffer *b){
  if( cqOfferOut(a)!=cqOfferOut(b) ) return cqOfferOut(a) - cqOfferOut(b);
  if( a->nRank!=b->nRank ) return a->nRank<b->nRank ? -1 : 1;
  if( a->iTurn!=b->iTurn ) return a->iTurn<b->iTurn ? -1 : 1;
  return claimqJobCompare(&a->first, &b->first);
}

/* Let a[i] sink to its place in a heap of n whose greatest is on top. */
static void cqOfferSink(CqOffer *a, int n, int i, CqOfferOrder *xOrder){
  int iKid;
  while( (iKid = 2*i+1)<n ){
    CqOffer t;
    if( iKid+1<n && xOrder(&a[iKid], &a[iKid+1])<0 ) iKid++;
    if( xOrder(&a[i], &a[iKid])>=0 ) return;
    t = a[i];
    a[i] = a[iKid];
    a[iKid] = t;
    i = iKid;
  }
}

/* Sort in place, n log n whatever the order was. */
static void cqOfferSort(CqOffer *a, int n, CqOfferOrder *xOrder){
  int i;
  for(i=n/2-1; i>=0; i--) cqOfferSink(a, n, i, xOrder);
  for(i=n-1; i>0; i--){
    CqOffer t = a[0];
    a[0] = a[i];
    a[i] = t;
    assert( i==n-1 || xOrder(&t, &a[i+1])<=0 );
    cqOfferSink(a, i, 0, xOrder);
  }
}

CQ_PRIV void claimqOfferSort(CqOffer *a, int n){
  cqOfferSort(a, n, cqOfferByKey);
}

/*
** Put the jobs that are taken in front, at most nMax of the n, and return their
** number.  Without turns the jobs are taken in the lane's order, and one whose
** group has no room left is passed over.  With turns they are taken in rounds.
*/
CQ_PRIV int claimqLimitPick(CqOffer *a, int n, i64 nMax, int bFair){
  int i, nTake = 0;
  cqOfferSort(a, n, cqOfferByGroup);
  for(i=0; i<n; i++){
    int bSame = i>0 && a[i].iGroup==a[i-1].iGroup;
    a[i].nRank = bSame ? a[i-1].nRank+1 : 0;
    a[i].first = bSame ? a[i-1].first : a[i].key;
    assert( !bSame || (a[i].nRoom==a[i-1].nRoom && a[i].iTurn==a[i-1].iTurn) );
  }
  cqOfferSort(a, n, bFair ? cqOfferByTurn : cqOfferByOrder);
  while( nTake<n && nTake<nMax && !cqOfferOut(&a[nTake]) ) nTake++;
  return nTake;
}

/*
** 1 if one more lease may be live beside nLive others: what the renewal of an
** expired claim needs.  It does not begin, so that the rate is not asked.
*/
CQ_PRIV int claimqLimitSlot(const CqLimit *p, i64 nLive){
  return p->nActive<0 || nLive<p->nActive;
}
