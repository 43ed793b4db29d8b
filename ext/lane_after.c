/*
** lane_after.c: jobs that wait for other jobs.
**
**     SELECT claimq_submit('build', 'compile', 'flow_id', 'r7');        -- 1
**     SELECT claimq_submit('build', 'lint', 'flow_id', 'r7');           -- 2
**     SELECT claimq_submit('build', 'link', 'flow_id', 'r7',
**       'after', '[1,2]');                                              -- 3
**     SELECT claimq_submit('mail', 'report', 'flow_id', 'r7',
**       'after', '[3]', 'on_failure', 'run');                           -- 4
**     SELECT state, waits_for FROM claimq_job WHERE job_id=3;
**     -- blocked|2
**     SELECT claimq_cancel(2);                                  -- cancelled
**     SELECT job_id, state FROM claimq_job WHERE job_id>2;
**     -- 3|cancelled, 4|ready
**     SELECT claimq_cancel_flow('r7');           -- 2: jobs 1 and 4 as well
**
** This file reads the option after, and writes its rows into claimq_after.  All
** that follows from a row, and from the end of a job that others wait for, is
** done by the triggers of sql/schema.sql: so whatever ends a job, a verb, a
** claim that meets one reclaimed too often, or a plain UPDATE, has the same
** effect, and belongs to the statement that did it.
*/
#include "lane.h"

/*
** A job id, as a number or in quotes, as some bindings write integers; others
** write 17.0.  Returns 0 if it is none.
*/
static int cqAfterId(int e, CqText tok, i64 *piJob){
  int n = tok.n;
  if( e==CQ_JSON_NUMBER ){
    while( n>0 && tok.z[n-1]=='0' ) n--;
    if( n>0 && tok.z[n-1]=='.' ) tok.n = n-1;
  }
  return claimqJsonInt(tok, piJob);
}

/*
** Read option after.  Raises bad_argument unless it is a JSON array of job ids.
*/
CQ_PRIV void claimqLaneAfterRead(CqOp *p, CqText json, CqIds *pIds){
  CqJson r;
  int e;
  if( p->rc ) return;
  claimqJsonInit(&r, json);
  e = claimqJsonNext(&r)==CQ_JSON_ARRAY ? claimqJsonNext(&r) : CQ_JSON_ERROR;
  while( p->rc==SQLITE_OK && (e==CQ_JSON_NUMBER || e==CQ_JSON_STRING) ){
    i64 iJob;
    if( !cqAfterId(e, r.tok, &iJob) ) break;
    claimqIdsAdd(p, pIds, iJob);
    e = claimqJsonNext(&r);
  }
  if( p->rc==SQLITE_OK
   && (e!=CQ_JSON_CLOSE || claimqJsonNext(&r)!=CQ_JSON_END)
  ){
    claimqFail(p, CQ_BAD_ARGUMENT,
        "after must be a JSON array of job ids, such as [17,18]");
  }
}

/*
** Raise not_found unless all jobs of the list exist.
*/
CQ_PRIV void claimqLaneAfterFind(CqOp *p, const CqIds *pIds){
  CqStmt s = claimqStmt(p, CQ_SQL_AFTER_MISSING);
  claimqBindIds(p, &s, CQ_AFTER_MISSING_ids, pIds);
  if( claimqStep(p, &s) ){
    claimqFail(p, CQ_NOT_FOUND, "after: there is no job %lld (any more): a job "
        "can only wait for jobs that exist",
        claimqColInt(&s, CQ_COL_AFTER_MISSING_id));
  }
  claimqStmtDone(p, &s);
}

/*
** Write down that job iJob, which is new, waits for those of the list.
*/
CQ_PRIV void claimqLaneAfterWrite(CqOp *p, i64 iJob, const CqIds *pIds){
  CqStmt s;
  if( p->rc ) return;
  s = claimqStmt(p, CQ_SQL_AFTER_INSERT);
  claimqBindInt(p, &s, CQ_AFTER_INSERT_job, iJob);
  claimqBindIds(p, &s, CQ_AFTER_INSERT_ids, pIds);
  claimqExec(p, &s);
}

/*
** The source key of new job iJob stays taken until then, whatever becomes of
** the job.
*/
CQ_PRIV void claimqLaneAfterUnique(
  CqOp *p, i64 iJob, CqText lane, CqText key, i64 iUntil
){
  CqStmt s;
  if( p->rc ) return;
  s = claimqStmt(p, CQ_SQL_AFTER_UNIQUE);
  claimqBindInt(p, &s, CQ_AFTER_UNIQUE_job, iJob);
  claimqBindText(p, &s, CQ_AFTER_UNIQUE_lane, lane);
  claimqBindText(p, &s, CQ_AFTER_UNIQUE_source_key, key);
  claimqBindCommonInt(p, &s, CQ_P_until, iUntil);
  claimqExec(p, &s);
}

/*
** The detail of reason blocked: the jobs that this one still waits for, as a
** JSON array; of very many the first hundred.
*/
CQ_PRIV void claimqLaneAfterWhy(
  CqOp *p, CqRows *pRows, CqCell *pCell, i64 iJob
){
  CqStmt s = claimqStmt(p, CQ_SQL_AFTER_OPEN);
  claimqBindInt(p, &s, CQ_AFTER_OPEN_job, iJob);
  if( claimqStep(p, &s) ){
    claimqCellColumn(p, pRows, pCell, &s, CQ_COL_AFTER_OPEN_list);
  }
  claimqStmtDone(p, &s);
}

/**************************************************************************
** claimq_cancel_flow(flow_id [, option, value]...) -> how many jobs
*/
typedef struct CqCancelFlow CqCancelFlow;
struct CqCancelFlow {
  CqTask task;                    /* First; its answer: so many jobs */
  CqText flow;
  i64 bForce;
};

/*
** Bind AFTER_FLOW or AFTER_CANCEL_FLOW.
*/
static CqStmt cqCancelFlowStmt(CqOp *p, const CqCancelFlow *pE, int eStmt){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_AFTER_FLOW_flow, pE->flow);
  claimqBindInt(p, &s, CQ_AFTER_FLOW_force, pE->bForce);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  return s;
}

/*
** Has the flow a job that can be cancelled?  If not, nothing is written.
*/
static void cqCancelFlowLoad(CqOp *p, CqTask *pTask){
  CqCancelFlow *pE = (CqCancelFlow*)pTask;
  CqStmt s = cqCancelFlowStmt(p, pE, CQ_SQL_AFTER_FLOW);
  pTask->iAnswer = 0;
  if( claimqStep(p, &s) && claimqColInt(&s, CQ_COL_AFTER_FLOW_any_job) ){
    pTask->eNeed = CQ_NEED_ONE;
  }
  claimqStmtDone(p, &s);
}

/*
** One UPDATE.  A job that waits for one before it is cancelled with that one by
** trigger, and counted when its own turn comes.
*/
static void cqCancelFlowApply(CqOp *p, CqTask *pTask){
  CqCancelFlow *pE = (CqCancelFlow*)pTask;
  CqStmt s = cqCancelFlowStmt(p, pE, CQ_SQL_AFTER_CANCEL_FLOW);
  pTask->iAnswer = claimqExec(p, &s);
  if( p->rc==SQLITE_OK && pTask->iAnswer==0 ) claimqStale(p, pTask);
}

/*
** claimq_cancel_flow(flow_id [, option, value]...) -> how many jobs were
** cancelled.
*/
CQ_PRIV void claimqLaneCancelFlow(CqOp *p, CqCall *pCall){
  CqCancelFlow e;
  memset(&e, 0, sizeof(e));
  e.task.xLoad = cqCancelFlowLoad;
  e.task.xApply = cqCancelFlowApply;
  e.task.zWhat = "claimq_cancel_flow()";
  e.flow = pCall->aArg[0].t;
  e.bForce = pCall->aOpt[CQ_CANCEL_FLOW_FORCE].i;
  claimqRun(p, &e.task);
  claimqTaskResult(p, &e.task, pCall->pCtx);
}
