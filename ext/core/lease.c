/*
** core/lease.c: the lease, the same for every discipline (ext/doc/tour.md,
** "The one rule of loss").
**
** The one rule of loss: expiry makes a claim takeable; only being displaced
** makes it lost.
**
**     now    a's claim of row 7, which expires at 1250
**     1249   live: nobody else gets the row
**     1250   expired: another claim may take the row, but a may still renew
**            and complete as long as none did
**     1300   b claims row 7: a is displaced and can do nothing any more
**
** How it works
**
** Nothing is written when a lease expires; being live is a comparison with
** the clock.  Nothing is written to a claim when it is displaced either: the
** row now carries the new claim's id, and that is how the old one is found
** lost.  So a verb counts the rows that still carry its claim id, and asks
** here.  It never asks for the time: a late owner that nobody displaced is
** still the owner.
*/
#include "claimq_core.h"

/* 1 if a lease that ends at iExpires is live, 0 if it is expired. */
CQ_PRIV int claimqLeaseLive(i64 iExpires, i64 iNow){
  return iExpires>iNow;
}

/*
** The earlier of two times to come; CQ_NO_TIME is later than any.
*/
CQ_PRIV i64 claimqSooner(i64 a, i64 b){
  assert( a>=CQ_NO_TIME && b>=CQ_NO_TIME );
  return (u64)a<(u64)b ? a : b;
}

/*
** Judge a claim by what is left of it.  Returns one of CQ_HOLD_*.
**
** A wrong token is reported before displacement, so that a caller who mixes up
** tokens hears of it even when the claim has lost a row; but a claim of which
** no row is left cannot tell whether the token was right.  Fencing tokens begin
** at 1 and only grow: a claim whose token its row has not reached was not
** displaced, but never was.
*/
CQ_PRIV int claimqHoldVerdict(const CqHold *p){
  assert( p->nRow>=0 && p->nToken>=0 && p->nToken<=p->nRow );
  if( p->nRow==0 ){
    if( !p->bHead ) return CQ_HOLD_UNKNOWN;
    return p->iFence<1 || p->iFence>p->iLast ? CQ_HOLD_NEVER
                                             : CQ_HOLD_DISPLACED;
  }
  if( p->nToken==0 ) return CQ_HOLD_TOKEN;
  if( p->nRow!=p->nSize || p->nToken!=p->nRow ) return CQ_HOLD_DISPLACED;
  return CQ_HOLD_OK;
}

/* The words of CQ_WHY_*, for claimq_why. */
static const char *const cqWhyWord[] = {
  "claimable", "held", "delayed", "capability", "partition",
  "command_in_front", "boundary", "busy", "kept_back", "grant_needed",
  "reclaims_used_up", "blocked", "limit", "rate", "paused", "timezone",
  "unknown", 0
};
CQ_CHECK(WhyWords, CQ_ARRAYSIZE(cqWhyWord)==CQ_WHY_UNKNOWN+2);
CQ_PRIV const char *const *claimqWhyWords(void){ return cqWhyWord; }

/*
** The reason that every row can have.  A row that a live claim holds is held,
** whatever its time.
*/
CQ_PRIV int claimqRowWhy(
  i64 iAvailable, int bClaimed, i64 iExpires, i64 iNow
){
  if( bClaimed && claimqLeaseLive(iExpires, iNow) ) return CQ_WHY_HELD;
  return iAvailable>iNow ? CQ_WHY_DELAYED : CQ_WHY_CLAIMABLE;
}
