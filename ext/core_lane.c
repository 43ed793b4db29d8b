/*
** core_lane.c: order and backoff of jobs (ext/README.md, "Lanes").
**
**     priority  created_at_ms  job_id
**           9             50      12     first
**           0             40      10
**           0             40      11
**           0             60       3     last
**
**     SELECT claimq_capable('["gpu"]', '["gpu","linux"]');    -- 1
**     SELECT claimq_capable('["gpu"]', '["linux"]');          -- 0
**     SELECT claimq_capable('[]', '[]');                      -- 1
**
**     backoff_ms 1000, factor 2, at most 60000:
**     1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, ...
**
** How it works
**
** The order is total: no two jobs have the same id.
**
** Capability lists are JSON arrays that stand for sets.  Every required one
** is looked for in the offered list by reading that list again: no memory,
** and the lists are short.  (A claim does this once per set of capabilities
** that the lane knows, not once per job.)
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
  return c;
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
  return v;
}
