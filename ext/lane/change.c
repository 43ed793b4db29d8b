/*
** lane/change.c: changing a job that waits.
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
** The change is one UPDATE of the job.  A job in a group leaves that group: the
** next claim places it again.
*/
#include "lane.h"

typedef struct CqChange CqChange;
struct CqChange {
  CqTask task;                    /* First */
  i64 iJob;
  const CqVal *aOpt;
  CqCaps list;
  CqText caps;                    /* The one way to write the set; z==0: none */
};

/*
** Raise conflict if another job of the new lane has the job's source key, or
** has ended and keeps it (unique_for_ms).
*/
static void cqChangeKey(CqOp *p, const CqChange *pE){
  CqText lane = pE->aOpt[CQ_CHANGE_LANE].t;
  CqStmt s;
  if( !pE->aOpt[CQ_CHANGE_LANE].bGiven ) return;
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
    pTask->eNeed = claimqSettings(p) & CQ_SET_LIMITS ? CQ_NEED_UNDO
                                                     : CQ_NEED_ONE;
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
** Run the statement that changes the job, bound: it leaves its group, and what
** its lease takes of the limits is counted again.
*/
CQ_PRIV void claimqLaneChanged(
  CqOp *p, CqTask *pTask, i64 iJob, CqStmt *pS
){
  CqIds one = claimqLaneOne(&iJob);
  CqSlots slots;
  claimqSlotsOf(p, &one, &slots);
  if( claimqExec(p, pS)!=1 ) claimqStale(p, pTask);
  claimqSlotsChanged(p, &slots);
  claimqSlotsFree(&slots);
  if( claimqSettings(p) & CQ_SET_LIMITS ){
    CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_RECOUNT);
    claimqBindInt(p, &s, CQ_LIMIT_RECOUNT_job, iJob);
    claimqExec(p, &s);
  }
}

/*
** Write what was given; what was not stays as it is.
*/
static void cqChangeApply(CqOp *p, CqTask *pTask){
  CqChange *pE = (CqChange*)pTask;
  const CqVal *aOpt = pE->aOpt;
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_CHANGE);
  assert( (pE->caps.z!=0)==aOpt[CQ_CHANGE_CAPS].bGiven );
  claimqBindInt(p, &s, CQ_LANE_CHANGE_job, pE->iJob);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  claimqBindText(p, &s, CQ_LANE_CHANGE_lane, aOpt[CQ_CHANGE_LANE].t);
  claimqBindText(p, &s, CQ_LANE_CHANGE_capabilities, pE->caps);
  claimqBindText(p, &s, CQ_LANE_CHANGE_group_key, aOpt[CQ_CHANGE_GROUP].t);
  claimqBindText(p, &s, CQ_LANE_CHANGE_headers, aOpt[CQ_CHANGE_HEADERS].t);
  claimqBindValue(p, &s, CQ_LANE_CHANGE_payload, aOpt[CQ_CHANGE_PAYLOAD].pVal);
  cqChangeBind(p, &s, CQ_LANE_CHANGE_priority, &aOpt[CQ_CHANGE_PRIORITY]);
  cqChangeBind(p, &s, CQ_LANE_CHANGE_max_attempts, &aOpt[CQ_CHANGE_ATTEMPTS]);
  cqChangeBind(p, &s, CQ_LANE_CHANGE_max_reclaims, &aOpt[CQ_CHANGE_RECLAIMS]);
  cqChangeBind(p, &s, CQ_LANE_CHANGE_max_runtime_ms,
               &aOpt[CQ_CHANGE_RUNTIME]);
  cqChangeBind(p, &s, CQ_LANE_CHANGE_partition,
               &aOpt[CQ_CHANGE_PARTITION]);
  if( aOpt[CQ_CHANGE_AT].bGiven || aOpt[CQ_CHANGE_DELAY].bGiven ){
    claimqBindInt(p, &s, CQ_LANE_CHANGE_available,
        claimqDueAt(p, &aOpt[CQ_CHANGE_AT], &aOpt[CQ_CHANGE_DELAY]));
  }else{
    claimqBindNull(p, &s, CQ_LANE_CHANGE_available);
  }
  claimqLaneChanged(p, pTask, pE->iJob, &s);
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
  claimqDueCheck(p, &aOpt[CQ_CHANGE_AT], &aOpt[CQ_CHANGE_DELAY]);
  if( pCaps->bGiven ) e.caps = claimqLaneCapsText(p, pCaps->t, &e.list);
  claimqRun(p, &e.task);
  sqlite3_free(e.list.a);
  claimqTaskResult(p, &e.task, pCall->pCtx);
}
