/*
** lane/grant.c: reclaiming a job by permission.
**
**     SELECT claimq_submit('deploy', 'v7', 'reclaim', 'grant');         -- 1
**     -- worker-a claims job 1 and vanishes; its lease expires
**     SELECT claimq_grant(1, 'worker-b', 60000);                        -- 1
**     SELECT outcome, claim_id FROM claimq_reclaim(1, 'worker-b');
**     -- claimed|qjc:1:2
**
** A job whose `reclaim` is 'grant' is never handed to the next worker without
** permission: somebody has to find out what happened to the first.  The newest
** grant of a job counts.  A job whose `admission` is 'grant' needs a grant even
** for its first claim, which claimq_reclaim makes as well.  A reclaim always
** answers with one row, whose outcome says what happened; only `claimed` fills
** the columns of job and claim.
*/
#include "lane.h"

/**************************************************************************
** claimq_grant(job_id, owner, ttl_ms [, option, value]...) -> grant_id
*/
typedef struct CqGrant CqGrant;
struct CqGrant {
  CqTask task;                    /* First; its answer: the id of the grant */
  const CqVal *aArg, *aOpt;
  u8 bAdmit;                      /* The job does not say yet that it needs a
                                  ** grant: the policy of its lane does */
};

/*
** Raise bad_argument unless the lane of the grant is the job's: the two were
** mixed up.
*/
static void cqGrantLane(CqOp *p, const CqGrant *pG){
  CqText lane = pG->aOpt[CQ_GRANT_LANE].t;
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_OF);
  claimqBindInt(p, &s, CQ_LANE_OF_job, pG->aArg[CQ_GRANT_JOB].i);
  if( claimqStep(p, &s) ){
    CqText own = claimqColText(p, &s, CQ_COL_LANE_OF_lane);
    if( !claimqTextEq(own, lane) ){
      claimqFail(p, CQ_BAD_ARGUMENT, "lane is '%.*s', but job %lld is in "
          "lane '%.*s'", claimqShown(lane), lane.z, pG->aArg[CQ_GRANT_JOB].i,
          claimqShown(own), own.z);
    }
  }
  claimqStmtDone(p, &s);
}

/* Grants that have expired: each new one removes two of them. */
static const CqVacuumDef cqGrantOld = {
  .eSelect = CQ_SQL_LANE_OLD_GRANTS,
  .eDelete = CQ_SQL_LANE_OLD_GRANTS_DELETE, .eFirst = -1
};

/*
** Say why a grant for job iJob would be of no use, if it would: raises
** not_reclaimable.
*/
static void cqGrantNeeded(CqOp *p, i64 iJob, const CqLaneState *pS){
  if( pS->bTerminal ){
    claimqFail(p, CQ_NOT_RECLAIMABLE, "job %lld has ended", iJob);
  }else if( pS->bBlocked ){
    claimqFail(p, CQ_NOT_RECLAIMABLE,
        "job %lld is blocked: it waits for other jobs", iJob);
  }else if( pS->bLive ){
    claimqFail(p, CQ_NOT_RECLAIMABLE,
        "job %lld is held by a live claim: wait for its end, or revoke it",
        iJob);
  }else if( !pS->bActive && !pS->bWaits ){
    claimqFail(p, CQ_NOT_RECLAIMABLE, "job %lld is not active, and any worker "
        "may take it: a grant would protect nothing; submit such jobs with "
        "'admission', 'grant'", iJob);
  }else if( pS->bActive && pS->bAuto ){
    claimqFail(p, CQ_NOT_RECLAIMABLE, "job %lld has expired, and any worker "
        "may take it: a grant would protect nothing; submit such jobs with "
        "'reclaim', 'grant'", iJob);
  }
}

/*
** 1 if the policy of the job's lane says that a grant admits it.
*/
static int cqGrantAdmits(CqOp *p, i64 iJob){
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_OF);
  CqPolicy policy;
  claimqPolicyNone(&policy);
  claimqBindInt(p, &s, CQ_LANE_OF_job, iJob);
  if( claimqStep(p, &s) ){
    claimqPolicyOf(p, claimqColText(p, &s, CQ_COL_LANE_OF_lane), &policy);
  }
  claimqStmtDone(p, &s);
  return policy.a[CQ_POLICY_ADMISSION]==1;
}

/*
** May the job be granted?  Raises not_found if it does not exist,
** not_reclaimable unless only a grant lets somebody take it, and bad_argument
** if it is in another lane than the caller thinks.
*/
static void cqGrantLoad(CqOp *p, CqTask *pTask){
  CqGrant *pG = (CqGrant*)pTask;
  i64 iJob = pG->aArg[CQ_GRANT_JOB].i;
  CqLaneState s;
  if( !claimqLaneState(p, iJob, &s) ){
    claimqFail(p, CQ_NOT_FOUND, "there is no job %lld", iJob);
  }else{
    pG->bAdmit = s.bUnsaid && !s.bActive && cqGrantAdmits(p, iJob);
    s.bWaits |= pG->bAdmit;
    cqGrantNeeded(p, iJob, &s);
  }
  if( pG->aOpt[CQ_GRANT_LANE].bGiven ) cqGrantLane(p, pG);
  pTask->eNeed = pG->bAdmit || claimqVacuumSome(p, &cqGrantOld, 0)
               ? CQ_NEED_UNDO : CQ_NEED_ONE;
}

/*
** Write the grant; its id is the answer.
*/
static void cqGrantApply(CqOp *p, CqTask *pTask){
  CqGrant *pG = (CqGrant*)pTask;
  const CqVal *aOpt = pG->aOpt;
  CqStmt s;
  assert( pG->aArg[CQ_GRANT_TTL].i>=0 && pG->aArg[CQ_GRANT_OWNER].t.z!=0 );
  if( pTask->eNeed==CQ_NEED_UNDO ) claimqVacuumSome(p, &cqGrantOld, 2);
  if( pG->bAdmit ){
    i64 iJob = pG->aArg[CQ_GRANT_JOB].i;
    CqIds one = claimqLaneOne(&iJob);
    claimqLimitList(p, CQ_SQL_LANE_ADMIT, &one);
    claimqGroupSee(p, &one);
  }
  s = claimqStmt(p, CQ_SQL_LANE_GRANT);
  claimqBindInt(p, &s, CQ_LANE_GRANT_job, pG->aArg[CQ_GRANT_JOB].i);
  claimqBindCommonText(p, &s, CQ_P_owner, pG->aArg[CQ_GRANT_OWNER].t);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  claimqBindCommonInt(p, &s, CQ_P_expires,
      claimqAddSat(claimqNow(p), pG->aArg[CQ_GRANT_TTL].i));
  claimqBindCommonText(p, &s, CQ_P_incarnation, aOpt[CQ_GRANT_INCARNATION].t);
  claimqBindText(p, &s, CQ_LANE_GRANT_lane, aOpt[CQ_GRANT_LANE].t);
  claimqBindText(p, &s, CQ_LANE_GRANT_capability_hash, aOpt[CQ_GRANT_HASH].t);
  claimqBindText(p, &s, CQ_LANE_GRANT_worker_capabilities,
                 aOpt[CQ_GRANT_CAPS].t);
  claimqBindText(p, &s, CQ_LANE_GRANT_route_snapshot_json,
                 aOpt[CQ_GRANT_ROUTE].t);
  claimqBindText(p, &s, CQ_LANE_GRANT_admission_summary,
                 aOpt[CQ_GRANT_ADMISSION].t);
  if( claimqExec(p, &s)!=1 ) claimqStale(p, pTask);
  pTask->iAnswer = sqlite3_last_insert_rowid(p->db);
}

/*
** Raise bad_argument unless the text, if there is one, is one JSON value.
*/
static void cqGrantJson(CqOp *p, const char *zName, CqText json){
  CqJson r;
  int e;
  if( json.z==0 ) return;
  claimqJsonInit(&r, json);
  while( (e = claimqJsonNext(&r))>CQ_JSON_END ){}
  if( e==CQ_JSON_ERROR ){
    claimqFail(p, CQ_BAD_ARGUMENT, "%s is not well-formed JSON", zName);
  }
}

/*
** claimq_grant(job_id, owner, ttl_ms [, option, value]...) -> grant_id.
*/
CQ_PRIV void claimqLaneGrant(CqOp *p, CqCall *pCall){
  const CqVal *aOpt = pCall->aOpt;
  CqGrant g;
  memset(&g, 0, sizeof(g));
  g.task.xLoad = cqGrantLoad;
  g.task.xApply = cqGrantApply;
  g.task.zWhat = "claimq_grant()";
  claimqMakes(p, &g.task, CQ_M_GRANTS);
  g.aArg = pCall->aArg;
  g.aOpt = aOpt;
  if( aOpt[CQ_GRANT_CAPS].bGiven ){
    claimqLaneCapsCheck(p, "worker_capabilities", aOpt[CQ_GRANT_CAPS].t);
  }
  cqGrantJson(p, "route_snapshot_json", aOpt[CQ_GRANT_ROUTE].t);
  if( p->pReq ) p->pReq->owner = pCall->aArg[CQ_GRANT_OWNER].t;
  claimqRun(p, &g.task);
  claimqTaskResult(p, &g.task, pCall->pCtx);
}

/*
** claimq_ungrant(grant_id [, option, value]...) -> 1, or 0 if there is none.
*/
CQ_PRIV void claimqLaneUngrant(CqOp *p, CqCall *pCall){
  claimqRemove(p, pCall, CQ_SQL_LANE_GRANT_DELETE, CQ_LANE_GRANT_DELETE_grant,
               "claimq_ungrant()");
}

/**************************************************************************
** claimq_reclaim(job_id, owner, ...)
*/
typedef struct CqReclaim CqReclaim;
struct CqReclaim {
  i64 iGrant;                     /* The newest grant */
  CqLaneLimit *pLimit;            /* The limits of the lane; or 0 */
  i64 iTurn;                      /* In a fair lane: of this claim */
  int eStmt;                      /* What is to be written, if anything is */
  u8 bBack;                       /* Starts that seem to come are to be now */
  u8 bSpent;                      /* It was reclaimed too often */
  CqPolicy policy;                /* Of the lane */
};
typedef char CqCheckReclaim[sizeof(CqReclaim)<=sizeof(CqOwn) ? 1 : -1];

/*
** Judge the newest grant.  Returns the outcome if that settles it, else 0.  A
** grant that has expired is deleted.
*/
static const char *cqReclaimGrant(CqOp *p, CqClaim *pC){
  CqReclaim *pR = (CqReclaim*)&pC->own;
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_GRANT_NEWEST);
  const char *zOutcome = 0;
  claimqBindInt(p, &s, CQ_LANE_GRANT_NEWEST_job, pC->aArg[CQ_RECLAIM_JOB].i);
  if( !claimqStep(p, &s) ){
    zOutcome = "grant_not_found";
  }else{
    pR->iGrant = claimqColInt(&s, CQ_COL_LANE_GRANT_NEWEST_grant_id);
    if( !claimqLeaseLive(
          claimqColInt(&s, CQ_COL_LANE_GRANT_NEWEST_expires_at_ms),
          claimqNow(p)) ){
      zOutcome = "grant_not_found";
      pR->eStmt = CQ_SQL_LANE_GRANT_DELETE;
      pC->task.eNeed = CQ_NEED_ONE;
    }else if( !claimqTextEq(pC->owner,
          claimqColText(p, &s, CQ_COL_LANE_GRANT_NEWEST_owner)) ){
      zOutcome = "wrong_owner";
    }else if( !claimqColInt(&s, CQ_COL_LANE_GRANT_NEWEST_same) ){
      zOutcome = "grant_not_found";
    }
  }
  claimqStmtDone(p, &s);
  return zOutcome;
}

/*
** xDone: free the limits.
*/
CQ_PRIV void claimqReclaimDone(CqClaim *pC){
  CqReclaim *pR = (CqReclaim*)&pC->own;
  if( pR->pLimit ) sqlite3_free((char*)pR->pLimit->lane.z);
  claimqLimitFree(pR->pLimit);
  pR->pLimit = 0;
}

/*
** The grant is good and the job can be taken: do the limits of its lane let one
** more claim begin?  1 or 0; of no meaning if op has an error.  Sets what the
** claim will write if the lane has limits: also, if the clock has gone back,
** that what seems to begin later began now.
*/
static int cqReclaimFits(CqOp *p, CqClaim *pC){
  CqReclaim *pR = (CqReclaim*)&pC->own;
  CqLaneLimit *pLimit;
  CqRoom room;
  int bFits = 1;
  assert( pR->eStmt==CQ_SQL_LANE_RECLAIM );
  claimqReclaimDone(pC);
  pR->pLimit = pLimit = claimqLimitOfJob(p, pC->aArg[CQ_RECLAIM_JOB].i, &room,
                                         &pR->policy);
  if( !pC->aArg[CQ_LANE_LEASE].bGiven ){
    pC->iLease = pR->policy.a[CQ_POLICY_LEASE];
  }
  if( pLimit ) bFits = room.nRoom>0;
  if( pLimit && !pLimit->bLimits ){
    claimqReclaimDone(pC);        /* Nothing to count: it is only paused */
  }else if( pLimit ){
    pR->eStmt = CQ_SQL_LIMIT_RECLAIM;
    pR->bBack = pLimit->bBack;
    if( pLimit->bFair ) pR->iTurn = claimqAddSat(pLimit->iTurn, 1);
  }
  return bFits;
}

/*
** The grant is good: is the job to be had?  Returns the outcome, which is of no
** meaning if op has an error.
*/
static const char *cqReclaimJob(CqOp *p, CqClaim *pC){
  const CqVal *pMax = &pC->aArg[CQ_RECLAIM_MAX];
  CqReclaim *pR = (CqReclaim*)&pC->own;
  CqLaneState s;
  int bSpent, bFits;
  pR->bBack = 0;
  claimqLaneState(p, pC->aArg[CQ_RECLAIM_JOB].i, &s);
  if( s.bLive || (!s.bActive && (!s.bWaits || s.bLate)) ){
    return "not_reclaimable";
  }
  pR->eStmt = CQ_SQL_LANE_RECLAIM;
  bFits = cqReclaimFits(p, pC);
  bSpent = s.bActive && s.nReclaim>=(pMax->bGiven ? pMax->i
         : s.nMaxReclaim!=CQ_UNSAID ? s.nMaxReclaim
         : pR->policy.a[CQ_POLICY_RECLAIMS]);
  if( !bSpent && !bFits ){
    if( pR->bBack ){
      pR->eStmt = CQ_SQL_LIMIT_BACK_ROW;
      pC->task.eNeed = CQ_NEED_UNDO;
      pC->bUpkeep = 1;
    }
    return "limited";
  }
  pC->task.eNeed = CQ_NEED_UNDO;
  pR->bSpent = (u8)bSpent;
  return bSpent ? "reclaim_cap_exceeded" : "claimed";
}

/*
** The one row.  Unless the job is claimed, all but the outcome is NULL: a job
** that was reclaimed too often goes into the list without a lease, and fails.
*/
CQ_PRIV void claimqReclaimNext(CqOp *p, CqClaim *pC){
  const char *zOutcome = cqReclaimGrant(p, pC);
  i64 iJob = pC->aArg[CQ_RECLAIM_JOB].i;
  CqCell *a = claimqRowsAdd(p, pC->pRows);
  if( p->rc==SQLITE_OK && zOutcome==0 ) zOutcome = cqReclaimJob(p, pC);
  if( p->rc ) return;
  assert( a!=0 && zOutcome!=0 && pC->ids.n==0 );
  claimqCellText(p, pC->pRows, &a[0], claimqStr(zOutcome));
  claimqIdsAdd(p, &pC->ids, iJob);
  pC->ids.pRows = pC->pRows;
  pC->ids.iLease = 1+CQ_LANE_NCOL;
  if( claimqTextEq(claimqStr(zOutcome), claimqStr("claimed")) ){
    CqStmt job = claimqStmt(p, CQ_SQL_LANE_JOB);
    claimqLaneRowOf(p, pC, &((CqReclaim*)&pC->own)->policy, &job, &a[1], iJob);
    claimqStmtDone(p, &job);
  }
}

/*
** The answer to a repeated request, if that claimed the job.
*/
CQ_PRIV void claimqReclaimRows(CqOp *p, CqClaim *pC, CqText claimId){
  CqCell *a = claimqLaneKept(p, pC, claimId, 1);
  if( a ) claimqCellText(p, pC->pRows, &a[0], claimqStr("claimed"));
}

/*
** Write the lease to the job, or its end; and count, in a lane with limits.
** One that is admitted does not stand with its group yet.
*/
static void cqReclaimStamp(CqOp *p, CqClaim *pC){
  CqReclaim *pR = (CqReclaim*)&pC->own;
  CqLaneLimit *pLimit = pR->pLimit;
  CqSlots slots;
  CqIds none;
  CqStmt s;
  memset(&none, 0, sizeof(none));
  memset(&slots, 0, sizeof(slots));
  if( pLimit ) claimqLimitCount(p, pLimit);
  if( pLimit && pLimit->bGroups ) claimqGroupPlace(p, &pC->ids);
  if( pR->policy.a[CQ_POLICY_RECLAIM]==1 ){
    claimqLimitList(p, CQ_SQL_LANE_BY_GRANT, &pC->ids);
  }
  claimqSlotsOf(p, &pC->ids, &slots);
  s = claimqStmt(p, pR->eStmt);
  if( pLimit ) claimqLimitStampBind(p, &s, pLimit);
  claimqLaneStampList(p, pC, pR->bSpent ? &pC->ids : &none, &s);
  claimqSlotsGone(p, &slots);
  if( pLimit ){
    claimqLimitTaken(p, &pC->task, pLimit, &pC->ids, !pR->bSpent,
        pLimit->bFair ? &pR->iTurn : 0);
  }
  claimqSlotsFree(&slots);
}

/*
** xStamp: claim the job by the grant, unless that has expired, and delete the
** grant; a job that was reclaimed too often ends instead.  Before that, or
** instead if the lane is at its limit, write that the clock has gone back.
*/
CQ_PRIV void claimqReclaimStamp(CqOp *p, CqClaim *pC){
  CqReclaim *pR = (CqReclaim*)&pC->own;
  CqStmt s;
  assert( pC->ids.n==1 );
  if( pR->bBack ) claimqLimitBack(p, pR->pLimit, pR->pLimit->lane);
  if( pR->eStmt==CQ_SQL_LIMIT_BACK_ROW ) return;        /* It is limited */
  if( pR->eStmt!=CQ_SQL_LANE_GRANT_DELETE ){
    assert( pR->eStmt==CQ_SQL_LANE_RECLAIM
         || pR->eStmt==CQ_SQL_LIMIT_RECLAIM );
    cqReclaimStamp(p, pC);
  }
  s = claimqStmt(p, CQ_SQL_LANE_GRANT_DELETE);
  claimqBindInt(p, &s, CQ_LANE_GRANT_DELETE_grant, pR->iGrant);
  claimqClaimStamp(p, pC, &s, 1);
}
