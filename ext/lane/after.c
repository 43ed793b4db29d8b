/*
** lane/after.c: jobs that wait for other jobs.
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
**     SELECT claimq_release('qjc:5:1', :token, 'after', '[6,7]');
**     -- 1: job 5 comes back when jobs 6 and 7, its children, have ended
**
** A new job can only wait for older ones, so there are no cycles.  A job that
** is given back can wait for any: there the code looks for a cycle.
**
** This file reads the option after, and writes its rows into claimq_after.
** lane/end.c has what happens when a job ends that others wait for.
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
  assert( pIds->n==0 );
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
** What the jobs of the list are, of which the latest that has not ended is the
** one to wait for.
*/
static void cqAfterState(CqOp *p, CqAfter *pA){
  CqStmt s = claimqStmt(p, CQ_SQL_AFTER_STATE);
  pA->iWaits = 0;
  pA->iFailed = CQ_NO_TIME;
  claimqBindIds(p, &s, CQ_AFTER_STATE_ids, &pA->ids);
  if( claimqStep(p, &s) ){
    pA->iWaits = claimqColInt(&s, CQ_COL_AFTER_STATE_waits_for);
    pA->iFailed = claimqColTime(&s, CQ_COL_AFTER_STATE_failed_at_ms);
  }
  claimqStmtDone(p, &s);
}

/*
** Raise not_found unless all jobs of the list exist; else see what they are.
*/
CQ_PRIV void claimqLaneAfterFind(CqOp *p, CqAfter *pA){
  CqStmt s = claimqStmt(p, CQ_SQL_AFTER_MISSING);
  assert( pA->ids.n>0 );
  claimqBindIds(p, &s, CQ_AFTER_MISSING_ids, &pA->ids);
  if( claimqStep(p, &s) ){
    claimqFail(p, CQ_NOT_FOUND, "after: there is no job %lld (any more): a job "
        "can only wait for jobs that exist",
        claimqColInt(&s, CQ_COL_AFTER_MISSING_id));
  }
  claimqStmtDone(p, &s);
  if( p->rc==SQLITE_OK ) cqAfterState(p, pA);
}

/*
** Write down that job iJob waits for those of the list, and that these are
** awaited.  If one of them has failed already the job is cancelled at
** once, unless it is to run all the same (bRun).
*/
CQ_PRIV void claimqLaneAfterWrite(
  CqOp *p, i64 iJob, const CqAfter *pA, int bRun
){
  CqStmt s;
  if( p->rc ) return;
  assert( iJob>0 && pA->ids.n>0 );
  s = claimqStmt(p, CQ_SQL_AFTER_INSERT);
  claimqBindInt(p, &s, CQ_AFTER_INSERT_job, iJob);
  claimqBindIds(p, &s, CQ_AFTER_INSERT_ids, &pA->ids);
  claimqExec(p, &s);
  if( pA->iWaits ){
    s = claimqStmt(p, CQ_SQL_AFTER_AWAITED);
    claimqBindIds(p, &s, CQ_AFTER_AWAITED_ids, &pA->ids);
    claimqExec(p, &s);
  }
  if( !bRun && pA->iFailed!=CQ_NO_TIME ){
    CqIds one = claimqLaneOne(&iJob);
    i64 iEvent = claimqLaneLastEvent(p);
    claimqLaneCancelAfter(p, &one,
        pA->iFailed>claimqNow(p) ? pA->iFailed : claimqNow(p));
    claimqLaneNoEvents(p, iEvent);
  }
}

/*
** Job iJob, which exists, is to wait for those of the list, however they end.
** Raises not_found if one never was a job, and bad_argument if one waits for
** iJob itself, or for another that does.  Those that have been removed have
** ended.
*/
CQ_PRIV void claimqLaneParkFind(CqOp *p, i64 iJob, CqAfter *pA){
  CqStmt s = claimqStmt(p, CQ_SQL_AFTER_NEVER);
  assert( pA->ids.n>0 );
  claimqBindIds(p, &s, CQ_AFTER_MISSING_ids, &pA->ids);
  if( claimqStep(p, &s) ){
    claimqFail(p, CQ_NOT_FOUND, "after: there never was a job %lld",
        claimqColInt(&s, CQ_COL_AFTER_MISSING_id));
  }
  claimqStmtDone(p, &s);
  s = claimqStmt(p, CQ_SQL_AFTER_CYCLE);
  claimqBindIds(p, &s, CQ_AFTER_CYCLE_ids, &pA->ids);
  claimqBindInt(p, &s, CQ_AFTER_CYCLE_job, iJob);
  if( claimqStep(p, &s) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "after: a job cannot wait for itself, nor "
        "for one that waits for it: none of them would ever run");
  }
  claimqStmtDone(p, &s);
  if( p->rc==SQLITE_OK ) cqAfterState(p, pA);
}

/*
** Job iJob is blocked: write down by what.  What it waited for before is over.
*/
CQ_PRIV void claimqLaneParkWrite(CqOp *p, i64 iJob, const CqAfter *pA){
  CqIds one = claimqLaneOne(&iJob);
  CqStmt s = claimqStmt(p, CQ_SQL_END_AFTER_GONE);
  assert( pA->iWaits>0 );
  claimqBindIds(p, &s, CQ_END_ATTEMPT_ids, &one);
  claimqExec(p, &s);
  claimqLaneAfterWrite(p, iJob, pA, 1);
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
  CqTask task;                    /* First; its answer: how many jobs */
  CqText flow;
  i64 bForce;
  i64 nMax;
  CqIds ids;                      /* The jobs to cancel */
};

/*
** Which jobs of the flow can be cancelled?  If there are none, nothing is
** written.  Of too many those that nobody waits for come first, so that none of
** the flow is cancelled because of another.
*/
static void cqCancelFlowLoad(CqOp *p, CqTask *pTask){
  CqCancelFlow *pE = (CqCancelFlow*)pTask;
  CqStmt s = claimqStmt(p, CQ_SQL_AFTER_FLOW);
  int i;
  claimqBindText(p, &s, CQ_AFTER_FLOW_flow, pE->flow);
  claimqBindInt(p, &s, CQ_AFTER_FLOW_force, pE->bForce);
  claimqBindInt(p, &s, CQ_AFTER_FLOW_limit, pE->nMax);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  pE->ids.n = 0;
  while( claimqStep(p, &s) ){
    claimqIdsAdd(p, &pE->ids, claimqColInt(&s, CQ_COL_AFTER_FLOW_job_id));
  }
  claimqStmtDone(p, &s);
  for(i=0; i<pE->ids.n/2; i++){
    i64 iJob = pE->ids.a[i];
    pE->ids.a[i] = pE->ids.a[pE->ids.n-1-i];
    pE->ids.a[pE->ids.n-1-i] = iJob;
  }
  pTask->iAnswer = pE->ids.n;
  if( pE->ids.n ) pTask->eNeed = CQ_NEED_UNDO;
}

/*
** If one is not there any more, somebody was faster: the task is stale.
*/
static void cqCancelFlowApply(CqOp *p, CqTask *pTask){
  CqCancelFlow *pE = (CqCancelFlow*)pTask;
  if( claimqLaneCancelAll(p, &pE->ids)!=pE->ids.n ) claimqStale(p, pTask);
  claimqLaneForgetAfter(p, pTask, &pE->ids);
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
  e.nMax = pCall->aOpt[CQ_CANCEL_FLOW_MAX].i;
  claimqRun(p, &e.task);
  claimqIdsClear(&e.ids);
  claimqTaskResult(p, &e.task, pCall->pCtx);
}
