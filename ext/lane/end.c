/*
** lane/end.c: what follows when the claim of a job ends, or the job itself.
**
**     SELECT claimq_retry('qjc:1:1', :token, 'no answer');          -- retry
**     SELECT outcome, error FROM claimq_attempt WHERE job_id=1;
**     -- retry|no answer
**     SELECT claimq_reject('qjc:2:1', :token, 'no such user');          -- 1
**     SELECT ref, reason FROM claimq_letter;             -- 2|no such user
**     SELECT job_id, state FROM claimq_job WHERE job_id=3;
**     -- 3|cancelled: it waited for job 2
**
** A job changes by one UPDATE of its row.  A trigger writes the event of its
** end, because that is cheaper than a second statement and every job has one.
** Everything else is rarer, and is written here, by whoever ends a claim or a
** job, in the same task:
**
**     before the job is written   claimqLaneAttempt()   who held it, and how
**                                                       that ended
**     afterwards                  claimqLaneEnded()     its dead letter, and
**                                                       those who wait for it
**
** A verb knows from the row that it has read whether there is anything to do.
** If not, none of this runs.
*/
#include "lane.h"

/*
** A list of one job, which lives as long as *piJob.
*/
CQ_PRIV CqIds claimqLaneOne(i64 *piJob){
  CqIds ids;
  memset(&ids, 0, sizeof(ids));
  ids.a = piJob;
  ids.n = ids.nAlloc = 1;
  return ids;
}

/*
** Run a statement that writes what belongs to the jobs of a list.  Returns how
** many rows it wrote.
*/
static i64 cqEndExec(CqOp *p, int eStmt, const CqIds *pIds){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindIds(p, &s, CQ_END_ATTEMPT_ids, pIds);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  return claimqExec(p, &s);
}

/*
** Before the jobs of the list are written: write the attempts of those who hold
** them, which end with zOutcome.
*/
CQ_PRIV void claimqLaneAttempt(
  CqOp *p, const CqIds *pIds, const char *zOutcome, CqText error, CqText eClass
){
  CqStmt s = claimqStmt(p, CQ_SQL_END_ATTEMPT);
  claimqBindIds(p, &s, CQ_END_ATTEMPT_ids, pIds);
  claimqBindText(p, &s, CQ_END_ATTEMPT_outcome, claimqStr(zOutcome));
  claimqBindText(p, &s, CQ_END_ATTEMPT_error, error);
  claimqBindText(p, &s, CQ_END_ATTEMPT_error_class, eClass);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  claimqExec(p, &s);
}

/*
** The same for a claim that takes the jobs of the list from others, and for
** those among them that are spent.
*/
CQ_PRIV void claimqLaneDisplaced(CqOp *p, const CqIds *pIds){
  cqEndExec(p, CQ_SQL_END_DISPLACED, pIds);
}

/*
** Jobs end that nobody holds: what was released last becomes one of their
** attempts.
*/
CQ_PRIV void claimqLaneReleased(CqOp *p, const CqIds *pIds){
  cqEndExec(p, CQ_SQL_END_RELEASED, pIds);
}

/*
** The same for jobs that are cancelled: also what was released.
*/
CQ_PRIV void claimqLaneCancelling(CqOp *p, const CqIds *pIds){
  CqText none = {0, 0};
  claimqLaneAttempt(p, pIds, "cancelled", none, none);
  claimqLaneReleased(p, pIds);
}

/*
** Add the ids that a statement gives, whose only column is id, to a list.
*/
static void cqEndCollect(CqOp *p, int eStmt, const CqIds *pIds, CqIds *pOut){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindIds(p, &s, CQ_END_AWAITED_ids, pIds);
  while( claimqStep(p, &s) ){
    claimqIdsAdd(p, pOut, claimqColInt(&s, CQ_COL_END_AWAITED_id));
  }
  claimqStmtDone(p, &s);
}

/*
** Before the jobs of the list are written: those that others wait for.  The
** caller clears *pOut.
*/
CQ_PRIV void claimqLaneAwaited(CqOp *p, const CqIds *pIds, CqIds *pOut){
  cqEndCollect(p, CQ_SQL_END_AWAITED, pIds, pOut);
}

/*
** Jobs that failed get their dead letters.  Raises conflict if one is gone: a
** trigger of the user's may delete jobs when they end.
*/
CQ_PRIV void claimqLaneLetters(CqOp *p, const CqIds *pIds){
  if( cqEndExec(p, CQ_SQL_END_LETTER, pIds)<pIds->n && p->rc==SQLITE_OK ){
    claimqFail(p, CQ_CONFLICT, "a trigger deleted a job that failed before its "
        "dead letter was written");
  }
}

/*
** Cancel the jobs of the list because of another, as of iAt.
*/
CQ_PRIV void claimqLaneCancelAfter(CqOp *p, const CqIds *pIds, i64 iAt){
  CqStmt s;
  if( p->rc || pIds->n==0 ) return;
  cqEndExec(p, CQ_SQL_END_RELEASED, pIds);
  s = claimqStmt(p, CQ_SQL_END_CANCEL);
  claimqBindIds(p, &s, CQ_END_ATTEMPT_ids, pIds);
  claimqBindCommonInt(p, &s, CQ_P_now, iAt);
  claimqExec(p, &s);
}

/*
** The jobs of the list, which others waited for, have ended: those that
** on_failure cancels are cancelled, if they failed; the others wait for the
** next, or may run.
*/
CQ_PRIV void claimqLaneOver(CqOp *p, const CqIds *pIds, int bFailed){
  CqIds gone, woken;
  int i;
  if( p->rc || pIds->n==0 ) return;
  memset(&gone, 0, sizeof(gone));
  if( bFailed ){
    cqEndCollect(p, CQ_SQL_END_GONE, pIds, &gone);
    claimqLaneCancelAfter(p, &gone, claimqNow(p));
  }
  for(i=0; i<pIds->n; i++) claimqIdsAdd(p, &gone, pIds->a[i]);
  memset(&woken, 0, sizeof(woken));
  if( claimqSettings(p) & CQ_SET_LIMITS ){
    cqEndCollect(p, CQ_SQL_END_WOKEN, &gone, &woken);
  }
  cqEndExec(p, CQ_SQL_END_NEXT, &gone);
  claimqHeadsSee(p, 0, &woken);
  claimqIdsClear(&woken);
  claimqIdsClear(&gone);
}

/**************************************************************************
** The verbs
*/
typedef char CqCheckLaneVerb[sizeof(CqLaneVerb)<=sizeof(CqOwn) ? 1 : -1];

/*
** Before a verb is written: the attempt, unless the row itself tells of it.
*/
CQ_PRIV void claimqLaneSettling(CqOp *p, CqVerb *pV){
  CqText none = {0, 0}, eClass = {0, 0};
  CqIds one = claimqLaneOne(&pV->iHead);
  if( pV->eVerb!=CQ_REVOKE ) eClass = pV->aOpt[CQ_LANE_CLASS].t;
  switch( ((CqLaneVerb*)&pV->own)->eVerb ){
    case CQ_RETRY:
      claimqLaneAttempt(p, &one, "retry", pV->reason, eClass);
      break;
    case CQ_REJECT:
      claimqLaneAttempt(p, &one, "failed", pV->reason, eClass);
      break;
    case CQ_REVOKE:
      claimqLaneAttempt(p, &one, "revoked", none, none);
      break;
  }
}

/*
** When it is written: the dead letter, and those who wait for the job.
*/
CQ_PRIV void claimqLaneSettled(CqOp *p, CqVerb *pV){
  const CqLaneVerb *pL = (const CqLaneVerb*)&pV->own;
  CqIds one = claimqLaneOne(&pV->iHead);
  int bFailed = pL->eVerb==CQ_REJECT;
  claimqLimitChanged(p, &pL->slot, pL->eVerb==CQ_RENEW ? pV->iUntil : -1);
  if( pL->after.iWaits ) claimqLaneParkWrite(p, pV->iHead, &pL->after);
  if( bFailed ) claimqLaneLetters(p, &one);
  if( pL->bAwaited && (bFailed || pL->eVerb==CQ_COMPLETE) ){
    claimqLaneOver(p, &one, bFailed);
  }
  if( pL->bGone ){
    cqEndExec(p, CQ_SQL_END_PAST_GONE, &one);
    cqEndExec(p, CQ_SQL_END_AFTER_GONE, &one);
    cqEndExec(p, CQ_SQL_STEP_GONE, &one);
  }
  claimqLaneNoEvents(p, pL->iEvent);
  if( pL->bForgets && !pV->task.bAlone ) claimqLaneForget(p);
}

/**************************************************************************
** A plain DELETE
*/

/*
** A job was deleted, by a statement that is not claimq's: what belongs to it
** goes, too.  Raises conflict if somebody holds the job, or others wait for it.
*/
CQ_PRIV void claimqLaneDeleted(CqOp *p, CqCall *pCall){
  sqlite3_value **ap = pCall->apVal;
  i64 iJob = sqlite3_value_int64(ap[0]);
  i64 iHead = sqlite3_value_int64(ap[4]);
  CqIds one = claimqLaneOne(&iJob);
  CqStmt there;
  if( claimqOwnDelete(p->pConn) ) return;
  there = claimqStmt(p, CQ_SQL_END_UNDELETED);
  claimqBindInt(p, &there, CQ_END_UNDELETED_job, iJob);
  claimqCheckDeleted(p, &there, "job", iJob);
  if( sqlite3_value_type(ap[2])!=SQLITE_NULL ){
    claimqFail(p, CQ_CONFLICT, "job %lld is claimed: cancel or revoke it "
        "before you delete it", iJob);
  }
  if( sqlite3_value_type(ap[3])!=SQLITE_NULL ){
    CqStmt s = claimqStmt(p, CQ_SQL_END_BLOCKED);
    claimqBindInt(p, &s, CQ_END_BLOCKED_job, iJob);
    if( claimqStep(p, &s) ){
      claimqFail(p, CQ_CONFLICT, "other jobs wait for job %lld: cancel it "
          "before you delete it", iJob);
    }
    claimqStmtDone(p, &s);
  }
  if( p->rc ) return;
  cqEndExec(p, CQ_SQL_END_PAST_GONE, &one);
  cqEndExec(p, CQ_SQL_END_AFTER_GONE, &one);
  cqEndExec(p, CQ_SQL_STEP_GONE, &one);
  if( iHead ){
    CqIds head = claimqLaneOne(&iHead);
    claimqHeadsSee(p, 0, &head);
  }
}
