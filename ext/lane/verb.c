/*
** lane/verb.c: how the claim of a job ends.
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
** What a job that is given back shall wait for, into *pIds, which the caller
** clears.
*/
static void cqLaneAfter(CqOp *p, const CqVerb *pV, CqIds *pIds){
  if( pV->eVerb==CQ_RELEASE && pV->aOpt[CQ_LANE_AFTER].bGiven ){
    claimqLaneAfterRead(p, pV->aOpt[CQ_LANE_AFTER].t, pIds);
  }
}

/*
** What holds for the lane of the job that pHead, LANE_HOLD, stands on: looked
** up once for each verb.
*/
static const CqPolicy *cqLanePolicy(CqOp *p, CqVerb *pV, const CqStmt *pHead){
  CqLaneVerb *pL = (CqLaneVerb*)&pV->own;
  if( !pL->bPolicy ){
    claimqPolicyOf(p, claimqColText(p, pHead, CQ_COL_LANE_HOLD_lane),
                   &pL->policy);
    pL->bPolicy = 1;
  }
  return &pL->policy;
}

/*
** What the job says, or else its lane.
*/
static i64 cqLaneSays(
  CqOp *p, CqVerb *pV, const CqStmt *pHead, int iCol, int ePolicy
){
  return claimqColType(pHead, iCol)!=SQLITE_NULL ? claimqColInt(pHead, iCol)
       : cqLanePolicy(p, pV, pHead)->a[ePolicy];
}

/*
** 1 if to complete the job may be more than one write, because it has the turn
** to remove what may go.  Whether there is anything is looked at before, unless
** that would keep us from waiting for the lock: inside the user's transaction,
** before anything was read.
*/
static int cqLaneTurn(CqOp *p, i64 iJob){
  int bTurn = claimqKeepTurn(iJob, 1);
  if( bTurn && (sqlite3_get_autocommit(p->db)
             || sqlite3_txn_state(p->db, CQ_SCHEMA)!=SQLITE_TXN_NONE) ){
    bTurn = claimqLaneForgets(p, iJob);
    claimqClockForget(p);
  }
  return bTurn;
}

/*
** To store progress is more than the usual renew; and so is a complete that
** removes what may go.  And renew and complete are not what they usually are
** where a policy is strict, limits how long a job may run, or keeps no job or
** event.  Option after is checked also where the claim does not hold any more.
*/
CQ_PRIV void claimqLaneCheck(CqOp *p, CqVerb *pV){
  CqIds ids;
  pV->mUnless = pV->eVerb==CQ_RENEW ? CQ_SET_STRICT|CQ_SET_RUNTIME
                                    : CQ_SET_STRICT;
  memset(&ids, 0, sizeof(ids));
  cqLaneAfter(p, pV, &ids);
  if( ids.n ) claimqMakes(0, &pV->task, CQ_M_FLOWS);
  claimqIdsClear(&ids);
  if( p->rc==SQLITE_OK && pV->eVerb==CQ_RENEW
   && pV->aOpt[CQ_LANE_PROGRESS].bGiven
  ){
    pV->bNoFast = 1;
  }
  if( p->pConn->bLimited ) pV->bNoFast = 1;
  if( p->rc || pV->eVerb!=CQ_COMPLETE ) return;
  if( cqLaneTurn(p, pV->iHead) ){
    pV->bNoFast = 1;
  }else if( claimqSettings(p) & CQ_SET_BRIEF ){
    pV->bFast = 1;
    pV->eFast = CQ_SQL_LANE_GONE_ALONE;
    if( pV->aOpt[CQ_LANE_RESULT].pVal ) pV->bNoFast = 1;
  }else{
    pV->mUnless |= CQ_SET_BRIEF;
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
** of a claim that was settled may turn out to be wrong.
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
** xExpired: in a lane that is strict a claim is lost when its lease is over.
*/
CQ_PRIV int claimqLaneExpired(CqOp *p, CqVerb *pV, CqStmt *pHead){
  assert( pHead->eStmt==CQ_SQL_LANE_HOLD );
  return (claimqSettings(p) & CQ_SET_STRICT)!=0
      && cqLanePolicy(p, pV, pHead)->a[CQ_POLICY_STRICT]
      && !claimqLeaseLive(claimqColInt(pHead, CQ_COL_LANE_HOLD_expires_at_ms),
                          claimqNow(p))
      && p->rc==SQLITE_OK;
}

/*
** No lease of a job ends later than max_runtime_ms after its claim: a renewal
** that would go beyond ends, and answers, then.
*/
static void cqLaneRenew(CqOp *p, CqVerb *pV, CqStmt *pHead){
  i64 iEnd = CQ_I64_MAX;
  if( claimqColType(pHead, CQ_COL_LANE_HOLD_max_runtime_ms)!=SQLITE_NULL
   || (claimqSettings(p) & CQ_SET_RUNTIME)
  ){
    iEnd = claimqAddSat(
        claimqColInt(pHead, CQ_COL_LANE_HOLD_claimed_at_ms),
        cqLaneSays(p, pV, pHead, CQ_COL_LANE_HOLD_max_runtime_ms,
                   CQ_POLICY_RUNTIME));
  }
  if( pV->iUntil>iEnd ) pV->iUntil = pV->task.iAnswer = iEnd;
}

/*
** A retry of a job that pHead stands on: back to the queue after a while, or to
** the dead letters if the attempts are used up.  Returns the verb whose
** statement does that.
*/
static int cqLaneRetry(CqOp *p, CqVerb *pV, CqStmt *pHead){
  i64 nUsed = claimqAddSat(
      claimqColInt(pHead, CQ_COL_LANE_HOLD_attempt_index), 1);
  if( nUsed>=cqLaneSays(p, pV, pHead, CQ_COL_LANE_HOLD_max_attempts,
                        CQ_POLICY_ATTEMPTS) ){
    pV->task.zWord = "dead";
    return CQ_REJECT;
  }
  if( pV->iDelay<0 ){
    pV->iUntil = claimqAddSat(claimqNow(p), claimqBackoff(
        cqLaneSays(p, pV, pHead, CQ_COL_LANE_HOLD_backoff_ms,
                   CQ_POLICY_BACKOFF),
        cqLaneSays(p, pV, pHead, CQ_COL_LANE_HOLD_backoff_factor,
                   CQ_POLICY_FACTOR),
        claimqColInt(pHead, CQ_COL_LANE_HOLD_retry_count),
        cqLaneSays(p, pV, pHead, CQ_COL_LANE_HOLD_backoff_max_ms,
                   CQ_POLICY_BACKOFF_MAX)));
  }
  return CQ_RETRY;
}

/*
** The job that pHead stands on ends, in a database in which a lane wants no
** events, or keeps no jobs that are completed: is this such a lane?  Then the
** job goes at once, unless its key is still taken.  Raises bad_argument if
** there is a result, which nobody could read.
*/
static void cqLaneBrief(CqOp *p, CqVerb *pV, CqStmt *pHead){
  CqLaneVerb *pL = (CqLaneVerb*)&pV->own;
  CqPolicy policy;
  pL->iEvent = claimqLaneLastEvent(p);
  pV->bMore = 1;
  if( pL->eVerb!=CQ_COMPLETE ) return;
  claimqPolicyOf(p, claimqColText(p, pHead, CQ_COL_LANE_HOLD_lane), &policy);
  if( policy.a[CQ_POLICY_KEEP]!=0 ) return;
  if( pV->aOpt[CQ_LANE_RESULT].bGiven ){
    claimqFail(p, CQ_BAD_ARGUMENT, "result would be lost: the lane keeps no "
        "job that is completed (keep_ms 0)");
  }
  if( claimqColInt(pHead, CQ_COL_LANE_HOLD_unique_until_ms)<=claimqNow(p) ){
    pL->bGone = 1;
    pV->eStmt = CQ_SQL_LANE_GONE;
  }
}

/*
** The claim holds: choose the statement that settles it, and whether more is to
** be written.  Who renews a claim too late where leases are counted needs a
** free slot: if there is none this raises no_slot.
*/
CQ_PRIV void claimqLaneDecide(CqOp *p, CqVerb *pV, CqStmt *pHead){
  CqLaneVerb *pL = (CqLaneVerb*)&pV->own;
  int eVerb = pV->eVerb;
  assert( pHead->eStmt==CQ_SQL_LANE_HOLD );
  if( eVerb==CQ_RENEW ) cqLaneRenew(p, pV, pHead);
  if( eVerb==CQ_RENEW && (claimqSettings(p) & CQ_SET_CLAIMS)
   && !claimqLeaseLive(
        claimqColInt(pHead, CQ_COL_LANE_HOLD_expires_at_ms), claimqNow(p))
  ){
    claimqLimitRenew(p, pV->iHead);
  }
  if( eVerb==CQ_RETRY ) eVerb = cqLaneRetry(p, pV, pHead);
  pV->eStmt = pV->pD->aSettle[eVerb];
  pL->eVerb = eVerb;
  cqLaneAfter(p, pV, &pL->after.ids);
  if( pL->after.ids.n ) claimqLaneParkFind(p, pV->iHead, &pL->after);
  if( pL->after.iWaits ){
    pV->eStmt = CQ_SQL_LANE_RELEASE_AFTER;
    pV->bMore = 1;
  }
  pL->bAwaited = (u8)claimqColInt(pHead, CQ_COL_LANE_HOLD_awaited);
  pL->slot.iJob = pV->iHead;
  pL->slot.bSlot = claimqColType(pHead, CQ_COL_LANE_HOLD_slot)!=SQLITE_NULL;
  pL->slot.iGroup = claimqColInt(pHead, CQ_COL_LANE_HOLD_slot);
  pL->slot.iHead = claimqColInt(pHead, CQ_COL_LANE_HOLD_head_id);
  pL->slot.iExpires = claimqColInt(pHead, CQ_COL_LANE_HOLD_expires_at_ms);
  p->pConn->bLimited = pL->slot.bSlot || pL->slot.iHead;
  if( p->pConn->bLimited ){
    pL->slot.lane = claimqColText(p, pHead, CQ_COL_LANE_HOLD_lane);
    pL->slot.lane.z = claimqTextDup(p, pL->slot.lane);
    pV->bMore = 1;
  }
  if( eVerb==CQ_RETRY || eVerb==CQ_REJECT || eVerb==CQ_REVOKE
   || (eVerb==CQ_COMPLETE && pL->bAwaited)
  ){
    pV->bMore = 1;
  }
  if( (eVerb==CQ_COMPLETE || eVerb==CQ_REJECT)
   && claimqLaneForgets(p, pV->iHead)
  ){
    pL->bForgets = pV->bMore = 1;
  }
  pL->iEvent = -1;
  if( (eVerb==CQ_COMPLETE || eVerb==CQ_REJECT)
   && (claimqSettings(p) & CQ_SET_BRIEF)
  ){
    cqLaneBrief(p, pV, pHead);
  }
}

/*
** xVerbDone
*/
CQ_PRIV void claimqLaneVerbDone(CqVerb *pV){
  CqLaneVerb *pL = (CqLaneVerb*)&pV->own;
  sqlite3_free((char*)pL->slot.lane.z);
  pL->slot.lane.z = 0;
  claimqIdsClear(&pL->after.ids);
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
      claimqBindValue(p, pS, CQ_LANE_RENEW_progress, pProgress);
      break;
    case CQ_SQL_LANE_COMPLETE:
    case CQ_SQL_LANE_COMPLETE_ALONE:
      claimqBindValue(p, pS, CQ_LANE_COMPLETE_result,
                      aOpt[CQ_LANE_RESULT].pVal);
      break;
    case CQ_SQL_LANE_RELEASE:
      claimqBindValue(p, pS, CQ_LANE_RELEASE_progress, pProgress);
      break;
    case CQ_SQL_LANE_RELEASE_AFTER:
      claimqBindValue(p, pS, CQ_LANE_RELEASE_AFTER_progress, pProgress);
      claimqBindInt(p, pS, CQ_LANE_RELEASE_AFTER_waits_for,
                    ((const CqLaneVerb*)&pV->own)->after.iWaits);
      break;
    case CQ_SQL_LANE_RETRY:
      claimqBindValue(p, pS, CQ_LANE_RETRY_progress, pProgress);
      claimqBindText(p, pS, CQ_LANE_RETRY_error_class, aOpt[CQ_LANE_CLASS].t);
      break;
    case CQ_SQL_LANE_FAIL:
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
    pTask->eNeed = CQ_NEED_UNDO;
  }
}

/*
** Cancel the jobs of a list, which have not ended, and what follows from that.
** Returns how many there were; 0 after an error.
*/
CQ_PRIV i64 claimqLaneCancelAll(CqOp *p, const CqIds *pIds){
  CqIds awaited;
  CqSlots slots;
  CqStmt s;
  i64 n, iEvent = claimqLaneLastEvent(p);
  memset(&awaited, 0, sizeof(awaited));
  claimqSlotsOf(p, pIds, &slots);
  claimqLaneAwaited(p, pIds, &awaited);
  claimqLaneCancelling(p, pIds);
  s = claimqStmt(p, CQ_SQL_LANE_CANCEL);
  claimqBindIds(p, &s, CQ_LANE_CANCEL_ids, pIds);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  n = claimqExec(p, &s);
  claimqSlotsChanged(p, &slots);
  claimqLaneOver(p, &awaited, 1);
  claimqLaneNoEvents(p, iEvent);
  claimqSlotsFree(&slots);
  claimqIdsClear(&awaited);
  return n;
}

/*
** Cancel the job, unless it has ended meanwhile: then the task begins again.
*/
static void cqLaneCancelApply(CqOp *p, CqTask *pTask){
  CqLaneCancel *pE = (CqLaneCancel*)pTask;
  CqIds one = claimqLaneOne(&pE->iJob);
  if( claimqLaneCancelAll(p, &one)!=1 ) claimqStale(p, pTask);
  claimqLaneForgetAfter(p, pTask, &one);
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
