/*
** lane/why.c: why the jobs of a lane are not claimed.
**
**     SELECT reason, n, detail FROM claimq_why('lane', 'mail');
**     -- delayed|3|
**     -- limit|12|max_active
**
** Each job of the lane that has not ended counts under one reason, the first of
** those that keep a worker with these capabilities and partitions from it.
*/
#include "lane.h"

/*
** 1 if the claim looks at a partition.
*/
static int cqLaneAsks(const CqLane *pL, i64 iPartition){
  int i;
  for(i=0; i<pL->partitions.n && pL->partitions.a[i]!=iPartition; i++){}
  return pL->partitions.n==0 || i<pL->partitions.n;
}

/*
** The detail of reason capability: what the worker lacks for this job.
*/
static void cqLaneLacks(
  CqOp *p, const CqLane *pL, CqRows *pRows, CqCell *pCell, CqText required
){
  char *z = claimqMalloc(p, (i64)required.n+2);
  CqText t;
  if( z==0 ) return;
  t.z = z;
  t.n = claimqCapsMissing(required, pL->offered.a, pL->offered.n, z);
  if( t.n ) claimqCellText(p, pRows, pCell, t);
  sqlite3_free(z);
}

/*
** Why the job that pJob, LANE_WHY, stands on is not claimed, and until when
** that will be so at least; CQ_NO_TIME if time alone does not change it.
*/
static int cqLaneWhyJob(CqOp *p, CqClaim *pC, const CqStmt *pJob, i64 *piUntil){
  const CqLane *pL = (const CqLane*)&pC->own;
  int eKind = (int)claimqColInt(pJob, CQ_COL_LANE_WHY_kind), eWhy;
  CqJobState job;
  *piUntil = CQ_NO_TIME;
  if( !cqLaneAsks(pL,
          claimqColInt(pJob, CQ_COL_LANE_WHY_partition)) ){
    return CQ_WHY_PARTITION;
  }
  if( !claimqCapsMeet(claimqColText(p, pJob,
          CQ_COL_LANE_WHY_capabilities),
          pL->offered.a, pL->offered.n) ){
    return CQ_WHY_CAPABILITY;
  }
  if( eKind==CQ_KIND_BLOCKED ) return CQ_WHY_BLOCKED;
  job.iAvailable = claimqColInt(pJob, CQ_COL_LANE_WHY_available_at_ms);
  job.bActive = eKind==CQ_KIND_ACTIVE;
  job.bAuto = job.bActive && claimqColInt(pJob, CQ_COL_LANE_WHY_auto);
  job.iExpires = claimqColInt(pJob, CQ_COL_LANE_WHY_expires_at_ms);
  job.nReclaim = claimqColInt(pJob, CQ_COL_LANE_WHY_reclaim_count);
  job.nMaxReclaim
      = claimqColType(pJob, CQ_COL_LANE_WHY_max_reclaims)==SQLITE_NULL
      ? pL->policy.a[CQ_POLICY_RECLAIMS]
      : claimqColInt(pJob, CQ_COL_LANE_WHY_max_reclaims);
  eWhy = claimqJobWhy(&job, claimqNow(p));
  if( eWhy==CQ_WHY_CLAIMABLE && (eKind==CQ_KIND_GRANT
   || (eKind==CQ_KIND_UNSAID && pL->policy.a[CQ_POLICY_ADMISSION]==1))
  ){
    eWhy = CQ_WHY_GRANT;
  }
  *piUntil = claimqWhyUntil(eWhy, job.iAvailable, job.iExpires);
  return eWhy;
}

/*
** The job is claimable, but for the limits of its lane and its group.  Returns
** the reason; *pzDetail names the limit.
*/
static int cqLaneWhyLimit(
  CqOp *p, CqLane *pL, const CqStmt *pJob, i64 *piUntil, const char **pzDetail
){
  static const char *const az[][2] = {
    { 0, 0 },
    { 0, 0 },
    { "max_active", "group_max_active" },
    { "rate", "group_rate" },
  };
  static const int aWhy[] = {
    CQ_WHY_CLAIMABLE, CQ_WHY_PAUSED, CQ_WHY_LIMIT, CQ_WHY_RATE
  };
  CqRoom room;
  if( pL->pLimit==0 ) return CQ_WHY_CLAIMABLE;
  claimqLimitSee(p, pL->pLimit,
                 claimqColText(p, pJob, CQ_COL_LANE_WHY_group_key), &room);
  if( p->rc ) return CQ_WHY_CLAIMABLE;
  assert( room.eWhy<CQ_ARRAYSIZE(aWhy) );
  if( room.eWhy!=CQ_LIMIT_NONE && room.eWhy!=CQ_LIMIT_PAUSED ){
    *piUntil = room.iNext;
  }
  *pzDetail = az[room.eWhy][room.bGroup];
  if( room.eWhy==CQ_LIMIT_PAUSED ){
    const CqLimit *pLimit = room.bGroup ? &pL->pLimit->group : &pL->pLimit->own;
    *pzDetail = az[pLimit->nActive==0 ? CQ_LIMIT_ACTIVE
                                      : CQ_LIMIT_RATE][room.bGroup];
    if( pL->pLimit->bPaused ) *pzDetail = "paused";
  }
  return aWhy[room.eWhy];
}

/*
** xWhy: each job of the lane that has not ended counts under its reason.
*/
CQ_PRIV void claimqLaneWhy(CqOp *p, CqClaim *pC, CqWhy *pWhy){
  CqLane *pL = (CqLane*)&pC->own;
  CqStmt s;
  claimqLimitBegin(p, pC);
  s = claimqStmt(p, CQ_SQL_LANE_WHY);
  claimqBindText(p, &s, CQ_LANE_WHY_lane, pC->aArg[CQ_LANE_LANE].t);
  while( claimqStep(p, &s) ){
    i64 iUntil;
    const char *zDetail = 0;
    int eWhy = cqLaneWhyJob(p, pC, &s, &iUntil);
    CqCell *pDetail;
    if( eWhy==CQ_WHY_CLAIMABLE ){
      eWhy = cqLaneWhyLimit(p, pL, &s, &iUntil, &zDetail);
    }
    pDetail = claimqWhyAdd(p, pWhy, eWhy, 0,
        claimqColInt(&s, CQ_COL_LANE_WHY_job_id), iUntil);
    if( pDetail && zDetail ){
      claimqCellText(p, pWhy->pRows, pDetail, claimqStr(zDetail));
    }
    if( pDetail && eWhy==CQ_WHY_CAPABILITY ){
      cqLaneLacks(p, pL, pWhy->pRows, pDetail,
          claimqColText(p, &s, CQ_COL_LANE_WHY_capabilities));
    }else if( pDetail && eWhy==CQ_WHY_BLOCKED ){
      claimqLaneAfterWhy(p, pWhy->pRows, pDetail,
                         claimqColInt(&s, CQ_COL_LANE_WHY_job_id));
    }
  }
  claimqStmtDone(p, &s);
  claimqScheduleWhy(p, pC->aArg[CQ_LANE_LANE].t, pWhy);
}
