/*
** lane_verb.c: how the claim of a job ends.
**
**     SELECT claimq_complete('qjc:1:1', :token, 'result', 'sent');      -- 1
**     SELECT claimq_complete('qjc:1:1', :token);           -- 1, once more
**     SELECT claimq_renew('qjc:2:1', :token, 30000, 'progress', 'page 7');
**     SELECT claimq_retry('qjc:2:1', :token, 'no answer',
**       'error_class', 'timeout');         -- retry, or dead
**     SELECT claimq_cancel(3);             -- cancelled, claimed or missing
**
** The rule of repetition: the job row remembers how its last claim was
** settled.  complete, retry and reject with that claim and token give the same
** answer again and write nothing, until the job is claimed again: then there
** is a current claim, and the old one is displaced.
**
** Progress is written by the statement that renews or settles, and so under the
** fence: a displaced worker cannot overwrite what the next one stored.
*/
#include "lane.h"

/**************************************************************************
** The verbs
*/

/*
** To store progress is more than the usual renew.
*/
CQ_PRIV void claimqLaneCheck(CqOp *p, CqVerb *pV){
  if( p->rc==SQLITE_OK && pV->eVerb==CQ_RENEW
   && pV->aOpt[CQ_LANE_PROGRESS].bGiven
  ){
    pV->bNoFast = 1;
  }
}

/*
** The claim is over, and settledBy says how.  If this very verb settled it the
** answer is the same again: set it and return 1; else 0.
*/
static int cqLaneRepeated(CqVerb *pV, CqText settledBy){
  switch( pV->eVerb ){
    case CQ_COMPLETE:
      pV->task.iAnswer = 1;
      return claimqTextEq(settledBy, claimqStr("complete"));
    case CQ_REJECT:
      pV->task.iAnswer = 1;
      return claimqTextEq(settledBy, claimqStr("reject"));
    case CQ_RETRY:
      pV->task.zWord = "dead";
      if( claimqTextEq(settledBy, claimqStr("dead")) ) return 1;
      pV->task.zWord = "retry";
      return claimqTextEq(settledBy, claimqStr("retry"));
  }
  return 0;
}

/*
** The claim does not hold the job.  1 if the verb is a repetition.  The token
** of a claim that was settled can be told to be wrong.
*/
CQ_PRIV int claimqLaneLost(CqOp *p, CqVerb *pV, int eVerdict, CqStmt *pHead){
  assert( eVerdict!=CQ_HOLD_OK && pHead->eStmt==CQ_SQL_LANE_HOLD );
  if( eVerdict==CQ_HOLD_UNKNOWN || eVerdict==CQ_HOLD_TOKEN
   || claimqColType(pHead, CQ_COL_LANE_HOLD_claim_id)!=SQLITE_NULL
   || !claimqTextEq(pV->claimId,
          claimqColText(p, pHead, CQ_COL_LANE_HOLD_settled_claim_id))
  ){
    return 0;
  }
  if( !claimqTextEq(pV->token,
          claimqColText(p, pHead, CQ_COL_LANE_HOLD_settled_token)) ){
    CqText none = {0, 0};
    claimqLeaseLost(p, CQ_HOLD_TOKEN, pV->claimId, none);
    return 0;
  }
  return cqLaneRepeated(pV,
      claimqColText(p, pHead, CQ_COL_LANE_HOLD_settled_by));
}

/*
** A retry of a job that pHead stands on: back to the queue after a while, or to
** the dead letters if the attempts are used up.  Returns the verb whose
** statement does that.
*/
static int cqLaneRetry(CqOp *p, CqVerb *pV, CqStmt *pHead){
  i64 nUsed = claimqAddSat(
      claimqColInt(pHead, CQ_COL_LANE_HOLD_attempt_index), 1);
  if( nUsed>=claimqColInt(pHead, CQ_COL_LANE_HOLD_max_attempts) ){
    pV->task.zWord = "dead";
    return CQ_REJECT;
  }
  if( pV->iDelay<0 ){
    pV->iUntil = claimqAddSat(claimqNow(p), claimqBackoff(
        claimqColInt(pHead, CQ_COL_LANE_HOLD_backoff_ms),
        claimqColInt(pHead, CQ_COL_LANE_HOLD_backoff_factor),
        claimqColInt(pHead, CQ_COL_LANE_HOLD_retry_count),
        claimqColInt(pHead, CQ_COL_LANE_HOLD_backoff_max_ms)));
  }
  return CQ_RETRY;
}

/*
** The claim holds: choose the statement that settles it, the shorter one if the
** job has no slot and nobody waits for it.  Who renews the claim of a job with
** a slot too late needs a free one: if there is none this raises conflict.
*/
CQ_PRIV void claimqLaneDecide(CqOp *p, CqVerb *pV, CqStmt *pHead){
  static const int aAlone[CQ_NVERB] = CQ_VERBS(CQ_SQL_LANE_RENEW_ALONE,
      CQ_SQL_LANE_COMPLETE_ALONE, CQ_SQL_LANE_RELEASE_ALONE,
      CQ_SQL_LANE_RETRY_ALONE, CQ_SQL_LANE_FAIL_ALONE,
      CQ_SQL_LANE_REVOKE_ALONE);
  int eVerb = pV->eVerb;
  assert( pHead->eStmt==CQ_SQL_LANE_HOLD );
  if( claimqColType(pHead, CQ_COL_LANE_HOLD_slot)!=SQLITE_NULL
   && eVerb==CQ_RENEW && !claimqLeaseLive(
        claimqColInt(pHead, CQ_COL_LANE_HOLD_expires_at_ms), claimqNow(p))
  ){
    claimqLimitRenew(p, pV->iHead);
  }
  if( eVerb==CQ_RETRY ) eVerb = cqLaneRetry(p, pV, pHead);
  pV->eStmt = pV->pD->aSettle[eVerb];
  if( claimqColInt(pHead, CQ_COL_LANE_HOLD_alone)
   && (eVerb!=CQ_RELEASE || pV->iUntil<0)         /* Without a delay */
  ){
    pV->eStmt = aAlone[eVerb];
  }
}

/*
** Parameters that only some of the settling statements have.  aOpt is 0 for a
** verb without options.
*/
CQ_PRIV void claimqLaneBind(CqOp *p, CqVerb *pV, CqStmt *pS){
  const CqVal *aOpt = pV->aOpt;
  sqlite3_value *pProgress = aOpt ? aOpt[CQ_LANE_PROGRESS].pVal : 0;
  assert( aOpt!=0 || pV->eVerb==CQ_REVOKE );
  switch( pS->eStmt ){
    case CQ_SQL_LANE_RENEW:
    case CQ_SQL_LANE_RENEW_ALONE:
      claimqBindValue(p, pS, CQ_LANE_RENEW_progress, pProgress);
      break;
    case CQ_SQL_LANE_COMPLETE:
    case CQ_SQL_LANE_COMPLETE_ALONE:
      claimqBindValue(p, pS, CQ_LANE_COMPLETE_result,
                      aOpt[CQ_LANE_RESULT].pVal);
      break;
    case CQ_SQL_LANE_RELEASE:
    case CQ_SQL_LANE_RELEASE_ALONE:
      claimqBindValue(p, pS, CQ_LANE_RELEASE_progress, pProgress);
      break;
    case CQ_SQL_LANE_RETRY:
    case CQ_SQL_LANE_RETRY_ALONE:
      claimqBindValue(p, pS, CQ_LANE_RETRY_progress, pProgress);
      claimqBindText(p, pS, CQ_LANE_RETRY_error_class, aOpt[CQ_LANE_CLASS].t);
      break;
    case CQ_SQL_LANE_FAIL:
    case CQ_SQL_LANE_FAIL_ALONE:
      claimqBindValue(p, pS, CQ_LANE_FAIL_progress, pProgress);
      claimqBindText(p, pS, CQ_LANE_FAIL_error_class, aOpt[CQ_LANE_CLASS].t);
      claimqBindText(p, pS, CQ_LANE_FAIL_by,
                     claimqStr(pV->eVerb==CQ_RETRY ? "dead" : "reject"));
      break;
  }
}

/**************************************************************************
** claimq_cancel(job_id [, 'force', 1])
*/
typedef struct CqLaneCancel CqLaneCancel;
struct CqLaneCancel {
  CqTask task;                    /* First */
  i64 iJob;
  int bForce;
};

/*
** A job that has ended is as good as gone: there is nothing to cancel.
*/
static void cqLaneCancelLoad(CqOp *p, CqTask *pTask){
  CqLaneCancel *pE = (CqLaneCancel*)pTask;
  CqLaneState s;
  if( !claimqLaneState(p, pE->iJob, &s) || s.bTerminal ){
    pTask->zWord = "missing";
  }else if( s.bLive && !pE->bForce ){
    pTask->zWord = "claimed";
  }else{
    pTask->zWord = "cancelled";
    pTask->eNeed = CQ_NEED_ONE;
  }
}

/*
** Cancel the job, unless it has ended or a claim has got it meanwhile: then the
** task begins again.
*/
static void cqLaneCancelApply(CqOp *p, CqTask *pTask){
  CqLaneCancel *pE = (CqLaneCancel*)pTask;
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_CANCEL);
  claimqBindInt(p, &s, CQ_LANE_CANCEL_job, pE->iJob);
  claimqBindInt(p, &s, CQ_LANE_CANCEL_force, pE->bForce);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  if( claimqExec(p, &s)!=1 ) claimqStale(p, pTask);
}

/*
** xCancel: the result is 'cancelled', 'claimed' or 'missing'.
*/
CQ_PRIV void claimqLaneCancel(
  CqOp *p, const CqVal *pKey, int bForce, sqlite3_context *pCtx
){
  CqLaneCancel e;
  memset(&e, 0, sizeof(e));
  e.task.xLoad = cqLaneCancelLoad;
  e.task.xApply = cqLaneCancelApply;
  e.task.zWhat = "claimq_cancel()";
  e.iJob = pKey->i;
  e.bForce = bForce;
  claimqRun(p, &e.task);
  claimqTaskResult(p, &e.task, pCtx);
}
