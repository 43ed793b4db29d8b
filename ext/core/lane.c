/*
** core/lane.c: order, reasons and backoff of jobs.
**
**     priority  created_at_ms  job_id
**           9             50      12     first
**           0             40      10
**           0             40      11
**           0             60       3     last
**
**     a job at 1250                               why it is not claimed
**     ready, available at 1000                    (claimable)
**     delayed, available at 1300                  delayed
**     active, its lease ends at 1251              held
**     active, its lease ended at 1250             (claimable: a reclaim)
**     the same, reclaimed as often as it may be   reclaims_used_up
**     the same, with reclaim 'grant'              grant_needed
**
**     backoff_ms 1000, factor 2, at most 60000:
**     1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, ...
**
** How it works
**
** The order is total: no two jobs have the same id.
**
** Whether a job can be claimed is asked here alone, for one job at a time.  An
** index only brings the jobs for which it is worth asking, and the clock may
** have gone back since it was written.
**
** Backoff multiplies until the maximum is reached, so at most 63 times, and
** never overflows, because it looks before it multiplies.
*/
#include "claimq_core.h"

/* <0, 0, >0 as a<b, a==b, a>b; a difference could overflow. */
static int cqLaneCompare(i64 a, i64 b){
  return (a>b) - (a<b);
}

/* <0 if job a goes before b, >0 if after, 0 if they are the same. */
CQ_PRIV int claimqJobCompare(const CqJobKey *a, const CqJobKey *b){
  int c = cqLaneCompare(b->iPriority, a->iPriority);
  if( c==0 ) c = cqLaneCompare(a->iCreated, b->iCreated);
  if( c==0 ) c = cqLaneCompare(a->iJob, b->iJob);
  assert( c || memcmp(a, b, sizeof(*a))==0 );
  return c;
}

/*
** Why is the job not claimed?  One of CQ_WHY_*.  CQ_WHY_RECLAIMS means that it
** is not handed out any more, and that whoever meets it lets it fail.
*/
CQ_PRIV int claimqJobWhy(const CqJobState *p, i64 iNow){
  int e = claimqRowWhy(p->iAvailable, p->bActive, p->iExpires, iNow);
  if( e!=CQ_WHY_CLAIMABLE || !p->bActive ) return e;
  if( !p->bAuto ) return CQ_WHY_GRANT;
  return p->nReclaim>=p->nMaxReclaim ? CQ_WHY_RECLAIMS : CQ_WHY_CLAIMABLE;
}

/* min(iBase * iFactor^nRetry, iMax) for arguments that are not negative. */
CQ_PRIV i64 claimqBackoff(i64 iBase, i64 iFactor, i64 nRetry, i64 iMax){
  i64 v = iBase<iMax ? iBase : iMax;
  assert( iBase>=0 && iFactor>=0 && nRetry>=0 && iMax>=0 );
  if( iFactor==0 && nRetry>0 ) return 0;
  if( iFactor<=1 ) return v;
  for(; nRetry>0 && v>0 && v<iMax; nRetry--){
    v = v>iMax/iFactor ? iMax : v*iFactor;
  }
  assert( v>=0 && v<=iMax );
  return v;
}
