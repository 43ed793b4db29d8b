/*
** lane/resolve.c: claimq_resolve(), which completes a job that nobody holds.
**
**     SELECT claimq_submit('approval', 'order 7');                       -- 1
**     SELECT claimq_submit('ship', 'order 7', 'after', '[1]');           -- 2
**     SELECT claimq_resolve(1, 'yes, says Ann');        -- 1: job 2 is ready
**     SELECT claimq_resolve(1, 'no, says Bob');         -- 0: it has ended
**     SELECT result FROM claimq_job WHERE job_id=1;     -- yes, says Ann
**
** A signal, a webhook, somebody's approval is such a job: it is in a lane that
** no worker claims from, others wait for it, and it does not matter whether it
** is resolved before they begin to wait or later.  The consequences are the
** same as when a worker completes a job: the event, and the jobs that wait go
** on.
*/
#include "lane.h"

typedef struct CqResolve CqResolve;
struct CqResolve {
  CqTask task;                    /* First; its answer: 1, or 0 if it is over */
  i64 iJob;
  sqlite3_value *pResult;
};

/*
** Raises not_found, or conflict while a live claim holds the job: whoever has
** it will say what became of it.
*/
static void cqResolveLoad(CqOp *p, CqTask *pTask){
  CqResolve *pE = (CqResolve*)pTask;
  CqLaneState s;
  pTask->iAnswer = 0;
  if( !claimqLaneState(p, pE->iJob, &s) ){
    claimqFail(p, CQ_NOT_FOUND, "there is no job %lld", pE->iJob);
  }else if( s.bLive ){
    claimqFail(p, CQ_CONFLICT, "job %lld is held by a worker: wait for its "
        "end, or revoke it first", pE->iJob);
  }else if( !s.bTerminal ){
    pTask->iAnswer = 1;
    pTask->eNeed = CQ_NEED_UNDO;
  }
}

/*
** Who held it until his lease expired has lost it; what was released last is
** one of the attempts.
*/
static void cqResolveApply(CqOp *p, CqTask *pTask){
  CqResolve *pE = (CqResolve*)pTask;
  CqIds one = claimqLaneOne(&pE->iJob), awaited;
  CqText none = {0, 0};
  CqSlots slots;
  CqStmt s;
  i64 iEvent = claimqLaneLastEvent(p);
  memset(&awaited, 0, sizeof(awaited));
  claimqSlotsOf(p, &one, &slots);
  claimqLaneAwaited(p, &one, &awaited);
  claimqLaneAttempt(p, &one, "interrupted_reclaimed", none, none);
  claimqLaneReleased(p, &one);
  s = claimqStmt(p, CQ_SQL_LANE_RESOLVE);
  claimqBindInt(p, &s, CQ_LANE_RESOLVE_job, pE->iJob);
  claimqBindValue(p, &s, CQ_LANE_RESOLVE_result, pE->pResult);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  if( claimqExec(p, &s)!=1 ) claimqStale(p, pTask);
  claimqSlotsChanged(p, &slots);
  claimqLaneOver(p, &awaited, 0);
  claimqLaneNoEvents(p, iEvent);
  claimqLaneForgetAfter(p, pTask, &one);
  claimqSlotsFree(&slots);
  claimqIdsClear(&awaited);
}

/*
** claimq_resolve(job_id, result [, option, value]...) -> 1; 0 if the job has
** ended
*/
CQ_PRIV void claimqLaneResolve(CqOp *p, CqCall *pCall){
  CqResolve e;
  memset(&e, 0, sizeof(e));
  e.task.xLoad = cqResolveLoad;
  e.task.xApply = cqResolveApply;
  e.task.zWhat = "claimq_resolve()";
  e.iJob = pCall->aArg[0].i;
  e.pResult = pCall->aArg[1].pVal;
  claimqRun(p, &e.task);
  claimqTaskResult(p, &e.task, pCall->pCtx);
}
