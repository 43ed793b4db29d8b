/*
** lane_change.c: changing a job that waits.
**
**     SELECT claimq_submit('mail', 'hello', 'delay_ms', 60000);         -- 1
**     SELECT claimq_change(1, 'priority', 9, 'delay_ms', 0);      -- changed
**     SELECT claimq_change(1, 'lane', 'mail-slow');               -- changed
**     -- worker-a claims job 1
**     SELECT claimq_change(1, 'priority', 0);       -- claimed: left as it is
**
** A job that a live claim holds is left alone, because its holder has already
** read it.  One whose claim has expired can be changed: it stays `active`, and
** its late owner may still settle it.
**
** The change is one UPDATE of the job.  What follows from it, the set of
** capabilities and the place in the index, is left to the trigger
** claimq_job_place of sql/schema.sql, so that a plain UPDATE of the same
** columns has the same effect.
*/
#include "lane.h"

typedef struct CqChange CqChange;
struct CqChange {
  CqTask task;                    /* First */
  i64 iJob;
  const CqVal *aOpt;
  CqCaps list;
  CqText caps;                    /* The one way to write the set; z==0: none */
  i64 iAvailable;                 /* -1: not given */
};

/*
** Raise conflict if another job of the new lane has the job's source key, or
** has ended and keeps it (unique_for_ms).
*/
static void cqChangeKey(CqOp *p, const CqChange *pE){
  CqText lane = pE->aOpt[CQ_CHANGE_LANE].t;
  CqStmt s;
  if( p->rc || !pE->aOpt[CQ_CHANGE_LANE].bGiven ) return;
  s = claimqStmt(p, CQ_SQL_LANE_CHANGE_KEY);
  claimqBindInt(p, &s, CQ_LANE_CHANGE_KEY_job, pE->iJob);
  claimqBindText(p, &s, CQ_LANE_CHANGE_KEY_lane, lane);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  if( claimqStep(p, &s) ){
    int bEnded = (int)claimqColInt(&s, CQ_COL_LANE_CHANGE_KEY_ended);
    claimqFail(p, CQ_CONFLICT, "job %lld of lane '%.*s' has the same source "
        "key%s", claimqColInt(&s, CQ_COL_LANE_CHANGE_KEY_job_id),
        claimqShown(lane), lane.z,
        bEnded ? ", which stays taken: see unique_for_ms"
               : ": cancel one of the two");
  }
  claimqStmtDone(p, &s);
}

/*
** May the job be changed?  Not if it has ended, or a live claim holds it.
** Raises conflict if its source key is taken in the new lane.
*/
static void cqChangeLoad(CqOp *p, CqTask *pTask){
  CqChange *pE = (CqChange*)pTask;
  CqLaneState s;
  if( !claimqLaneState(p, pE->iJob, &s) || s.bTerminal ){
    pTask->zWord = "missing";
  }else if( s.bLive ){
    pTask->zWord = "claimed";
  }else{
    cqChangeKey(p, pE);
    pTask->zWord = "changed";
    pTask->eNeed = CQ_NEED_ONE;
  }
}

/*
** Bind an option, NULL if it was not given.
*/
static void cqChangeBind(CqOp *p, CqStmt *pS, int iParam, const CqVal *pVal){
  if( pVal->bGiven ) claimqBindInt(p, pS, iParam, pVal->i);
  else claimqBindNull(p, pS, iParam);
}

/*
** Write what was given; what was not stays as it is.
*/
static void cqChangeApply(CqOp *p, CqTask *pTask){
  CqChange *pE = (CqChange*)pTask;
  const CqVal *aOpt = pE->aOpt;
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_CHANGE);
  assert( (pE->caps.z!=0)==aOpt[CQ_CHANGE_CAPS].bGiven );
  assert( pE->iAvailable>=0 || !aOpt[CQ_CHANGE_AT].bGiven );
  claimqBindInt(p, &s, CQ_LANE_CHANGE_job, pE->iJob);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  claimqBindText(p, &s, CQ_LANE_CHANGE_lane, aOpt[CQ_CHANGE_LANE].t);
  claimqBindText(p, &s, CQ_LANE_CHANGE_capabilities, pE->caps);
  claimqBindText(p, &s, CQ_LANE_CHANGE_group_key, aOpt[CQ_CHANGE_GROUP].t);
  claimqBindValue(p, &s, CQ_LANE_CHANGE_payload, aOpt[CQ_CHANGE_PAYLOAD].pVal);
  cqChangeBind(p, &s, CQ_LANE_CHANGE_priority, &aOpt[CQ_CHANGE_PRIORITY]);
  cqChangeBind(p, &s, CQ_LANE_CHANGE_max_attempts, &aOpt[CQ_CHANGE_ATTEMPTS]);
  cqChangeBind(p, &s, CQ_LANE_CHANGE_max_reclaims, &aOpt[CQ_CHANGE_RECLAIMS]);
  cqChangeBind(p, &s, CQ_LANE_CHANGE_partition_key,
               &aOpt[CQ_CHANGE_PARTITION]);
  if( pE->iAvailable<0 ) claimqBindNull(p, &s, CQ_LANE_CHANGE_available);
  else claimqBindInt(p, &s, CQ_LANE_CHANGE_available, pE->iAvailable);
  if( claimqExec(p, &s)!=1 ) claimqStale(p, pTask);
}

/*
** claimq_change(job_id [, option, value]...) -> 'changed', 'claimed' or
** 'missing'
*/
CQ_PRIV void claimqLaneChange(CqOp *p, CqCall *pCall){
  const CqVal *aOpt = pCall->aOpt;
  const CqVal *pCaps = &aOpt[CQ_CHANGE_CAPS];
  CqChange e;
  memset(&e, 0, sizeof(e));
  e.task.xLoad = cqChangeLoad;
  e.task.xApply = cqChangeApply;
  e.task.zWhat = "claimq_change()";
  e.iJob = pCall->aArg[0].i;
  e.aOpt = aOpt;
  e.iAvailable = -1;
  if( aOpt[CQ_CHANGE_AT].bGiven || aOpt[CQ_CHANGE_DELAY].bGiven ){
    e.iAvailable = claimqDueAt(p, &aOpt[CQ_CHANGE_AT], &aOpt[CQ_CHANGE_DELAY]);
  }
  if( pCaps->bGiven ) e.caps = claimqLaneCapsText(p, pCaps->t, &e.list);
  claimqRun(p, &e.task);
  sqlite3_free(e.list.a);
  claimqTaskResult(p, &e.task, pCall->pCtx);
}
