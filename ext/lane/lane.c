/*
** lane.c: the lane discipline.  Jobs are claimed by priority, by workers that
** have the capabilities they require; they are tried, retried, reclaimed from
** workers that vanished, and end with exactly one event, if the lane has any.
**
**     SELECT claimq_submit('render', 'frame 1', 'capabilities', '["gpu"]');
**     -- 1
**     SELECT job_id, payload, attempt_index, claim_id FROM claimq_lane
**      WHERE lane='render' AND owner='worker-a' AND capabilities='["gpu"]';
**     -- 1|frame 1|0|qjc:1:1
**     SELECT claimq_retry('qjc:1:1', :lease_token, 'driver crashed');
**     -- retry
**     SELECT outcome, error FROM claimq_attempt WHERE job_id=1;
**     -- retry|driver crashed
**
** The discipline is in several files.  This one has what users see, the
** arguments, options and functions, and what the other files share.
**
**     lane/claim.c    how a claim chooses jobs, and stamps them
**     lane/submit.c   new jobs
**     lane/after.c    jobs that wait for others
**     lane/change.c   changing a job that waits
**     lane/verb.c     how a claim ends: the verbs; cancel
**     lane/resolve.c  completing a job from outside
**     lane/grant.c    reclaiming a job by permission
**     lane/schedule.c jobs that are added at certain times
**     lane/policy.c   what a lane says of its claims and jobs
**     lane/limit.c    limits of a lane, groups that take turns
**     lane/keep.c     how long jobs that have ended are kept
**     core/lane.c     the rules, without SQLite
**
** How a job changes
**
** A job always changes by one UPDATE of its row, even if it was reclaimed too
** often and the claim that meets it makes it failed.  A trigger in
** sql/schema/lane.sql writes the event of its end, lane/end.c and lane/grant.c
** the rest.  A claim of several jobs is all or nothing, even inside INSERT ...
** SELECT (see ext/store/txn.c).
*/
#include "lane.h"

/**************************************************************************
** Arguments and options
*/

static const CqArgDef cqLaneArg[] = {
  [CQ_LANE_LANE] =
  { CQ_ARG(TEXT, "lane"), .mFlag = CQ_A_REQUIRED|CQ_A_NAME,
    .eRole = CQ_ROLE_SCOPE, .zDoc = "the lane to take from" },
  CQ_ARG_OWNER,
  CQ_ARG_LEASE,
  { CQ_ARG(INT, "max"), .iDefault = 1, .eRole = CQ_ROLE_MAX,
    .zDoc = "take at most this many" },
  CQ_ARG_INCARNATION,
  [CQ_LANE_CAPS] =
  { CQ_ARG(JSON, "capabilities"), .zDefault = "[]", .mFlag = CQ_A_LOOK,
    .zDoc = "what the worker can do, a JSON array of strings" },
  [CQ_LANE_PARTITION] =
  { CQ_ARG(ANY, "partition"), .mFlag = CQ_A_LOOK,
    .zDoc = "only jobs of this partition, or of these: a JSON array of "
            "integers; of all partitions if not given" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
  CQ_ARG_DONE,
};

static const CqArgDef cqReclaimArg[] = {
  [CQ_RECLAIM_JOB] =
  { CQ_ARG(INT, "job_id"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN,
    .eRole = CQ_ROLE_SCOPE, .zDoc = "the job that a grant is for" },
  CQ_ARG_OWNER,
  CQ_ARG_LEASE,
  CQ_ARG_INCARNATION,
  [CQ_RECLAIM_MAX] =
  { CQ_ARG(INT, "max_reclaims"),
    .zDoc = "fail a job reclaimed this many times; the job's own if not "
            "given" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
  CQ_ARG_DONE,
};

static const char *const *cqReclaimWords(void){
  static const char *const az[] = { "auto", "grant", 0 };
  return az;
}

static const char *const *cqFailureWords(void){
  static const char *const az[] = { "cancel", "run", 0 };
  return az;
}

static const char *const *cqDuplicateWords(void){
  static const char *const az[] = { "keep", "replace", "refuse", 0 };
  return az;
}

static const CqArgDef cqSubmitArg[] = {
  { CQ_ARG(TEXT, "lane"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the lane that the job is in" },
  { CQ_ARG(ANY, "payload"), .zDoc = "what is to be done, any value" },
};
static const CqArgDef cqSubmitOpt[CQ_SCHEDULE_END] = {
  [CQ_SUBMIT_PRIORITY] =
  { CQ_ARG(INT, "priority"), .iMin = CQ_I64_MIN, .bDefault = 1,
    .zDoc = "larger ones are claimed first" },
  [CQ_SUBMIT_CAPS] =
  { CQ_ARG(JSON, "capabilities"), .zDefault = "[]",
    .zDoc = "what a worker must be able to do, a JSON array of strings" },
  [CQ_SUBMIT_KEY] =
  { CQ_ARG(TEXT, "source_key"),
    .zDoc = "the lane has one job with this key until that has ended" },
  [CQ_SUBMIT_AT] =
  { CQ_ARG(INT, "available_at_ms"),
    .zDoc = "the job cannot be claimed before this time" },
  [CQ_SUBMIT_DELAY] =
  { CQ_ARG(INT, "delay_ms"),
    .zDoc = "delay before the job can be claimed, in ms" },
  [CQ_SUBMIT_ATTEMPTS] =
  { CQ_ARG(INT, "max_attempts"),
    .zDoc = "a retry fails the job after this many attempts; the policy's if "
            "not given" },
  [CQ_SUBMIT_BACKOFF] =
  { CQ_ARG(INT, "backoff_ms"),
    .zDoc = "how long the first retry waits; the policy's if not given" },
  [CQ_SUBMIT_FACTOR] =
  { CQ_ARG(INT, "backoff_factor"),
    .zDoc = "each further retry waits this many times longer; the policy's if "
            "not given" },
  [CQ_SUBMIT_BACKOFF_MAX] =
  { CQ_ARG(INT, "backoff_max_ms"),
    .zDoc = "no retry waits longer than this; the policy's if not given" },
  [CQ_SUBMIT_RECLAIMS] =
  { CQ_ARG(INT, "max_reclaims"),
    .zDoc = "fail the job after this many expired leases; the policy's if "
            "not given" },
  [CQ_SUBMIT_RUNTIME] =
  { CQ_ARG(INT, "max_runtime_ms"), .iMin = 1,
    .zDoc = "no lease ends later than this after its claim; the policy's if "
            "not given" },
  [CQ_SUBMIT_RECLAIM] =
  { CQ_ARG(WORD, "reclaim"), .xWords = cqReclaimWords, .bNoDefault = 1,
    .zDoc = "who may claim the job again when a lease has expired; the "
            "policy's if not given" },
  [CQ_SUBMIT_ADMISSION] =
  { CQ_ARG(WORD, "admission"), .xWords = cqReclaimWords, .bNoDefault = 1,
    .zDoc = "grant: the first claim needs a grant, too; the policy's if not "
            "given" },
  [CQ_SUBMIT_PARTITION] =
  { CQ_ARG(INT, "partition"), .iMin = CQ_I64_MIN, .bDefault = 1,
    .zDoc = "part of the lane; claims may name one, several or none" },
  [CQ_SUBMIT_GROUP] =
  { CQ_ARG(TEXT, "group_key"),
    .zDoc = "the tenant that the job belongs to, for limits of the lane" },
  [CQ_SUBMIT_FLOW] =
  { CQ_ARG(TEXT, "flow_id"), .zDoc = "stored with job and event" },
  [CQ_SUBMIT_NAMESPACE] =
  { CQ_ARG(TEXT, "namespace"), .zDoc = "stored with job and event" },
  [CQ_SUBMIT_TAG] =
  { CQ_ARG(TEXT, "instance_tag"), .zDoc = "stored with job and event" },
  [CQ_SUBMIT_HEADERS] = CQ_ARG_HEADERS,
  [CQ_SUBMIT_AFTER] =
  { CQ_ARG(JSON, "after"), .zDefault = "[]",
    .zDoc = "blocked until these jobs are completed, a JSON array of job ids" },
  [CQ_SUBMIT_ON_FAILURE] =
  { CQ_ARG(WORD, "on_failure"), .xWords = cqFailureWords,
    .zDoc = "what happens to the job if one in after fails or is cancelled" },
  [CQ_SUBMIT_UNIQUE] =
  { CQ_ARG(INT, "unique_for_ms"),
    .zDoc = "how long source_key stays taken, even after the job has ended" },
  [CQ_SUBMIT_DUPLICATE] =
  { CQ_ARG(WORD, "on_duplicate"), .xWords = cqDuplicateWords,
    .zDoc = "what becomes of the call if source_key is taken" },
  [CQ_SUBMIT_NOW] = CQ_ARG_NOW,
  [CQ_SUBMIT_REQUEST] = CQ_ARG_REQUEST,
  [CQ_SCHEDULE_OFFSET] =
  { CQ_ARG(INT, "offset_minutes"), .iMin = -CQ_CRON_OFFSET_MAX,
    .iMax = CQ_CRON_OFFSET_MAX, .bDefault = 1,
    .zDoc = "local time, in minutes east of UTC" },
  [CQ_SCHEDULE_ZONE] =
  { CQ_ARG(TEXT, "timezone"),
    .zDoc = "the place whose clocks it goes by, such as Europe/Berlin" },
  [CQ_SCHEDULE_CATCH_UP] =
  { CQ_ARG(WORD, "catch_up"), .xWords = claimqCatchUpWords,
    .zDoc = "which of several times that have come get a job" },
  [CQ_SCHEDULE_UNTIL] =
  { CQ_ARG(INT, "until_at_ms"), .zDoc = "no job for a time after this" },
  [CQ_SCHEDULE_ENABLED] =
  { CQ_ARG(INT, "enabled"), .iMax = 1, .iDefault = 1,
    .zDoc = "0: no jobs for now" },
};

static const CqArgDef cqScheduleArg[] = {
  [CQ_SCHEDULE_NAME] =
  { CQ_ARG(TEXT, "name"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the schedule; one of the same name is replaced" },
  [CQ_SCHEDULE_SPEC] =
  { CQ_ARG(TEXT, "spec"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "five cron fields, a word such as @daily, or 'every 90 s'" },
  [CQ_SCHEDULE_LANE] =
  { CQ_ARG(TEXT, "lane"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the lane that its jobs are put in" },
  [CQ_SCHEDULE_PAYLOAD] =
  { CQ_ARG(ANY, "payload"), .zDoc = "what is to be done, any value" },
};
static const CqArgDef cqUnscheduleArg[] = {
  { CQ_ARG(TEXT, "name"), .mFlag = CQ_A_REQUIRED, .zDoc = "the schedule" },
};
static const CqArgDef cqUnscheduleOpt[] = {
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

static const CqArgDef cqGrantArg[] = {
  [CQ_GRANT_JOB] =
  { CQ_ARG(INT, "job_id"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN,
    .zDoc = "a job that nobody may take without a grant" },
  [CQ_GRANT_OWNER] =
  { CQ_ARG(TEXT, "owner"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "who may claim it" },
  [CQ_GRANT_TTL] =
  { CQ_ARG(INT, "ttl_ms"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "how long the grant is valid, in ms" },
};
static const CqArgDef cqGrantOpt[CQ_GRANT_N] = {
  [CQ_GRANT_INCARNATION] =
  { CQ_ARG(TEXT, "incarnation"), .zDefault = "", .zDoc = "stored, not read" },
  [CQ_GRANT_LANE] =
  { CQ_ARG(TEXT, "lane"), .zDoc = "must be the job's, if it is given" },
  [CQ_GRANT_HASH] =
  { CQ_ARG(TEXT, "capability_hash"), .zDoc = "stored, not read" },
  [CQ_GRANT_CAPS] =
  { CQ_ARG(JSON, "worker_capabilities"),
    .zDoc = "stored, not read: a JSON array of strings" },
  [CQ_GRANT_ROUTE] =
  { CQ_ARG(JSON, "route_snapshot_json"),
    .zDoc = "stored, not read: any JSON" },
  [CQ_GRANT_ADMISSION] =
  { CQ_ARG(TEXT, "admission_summary"), .zDoc = "stored, not read" },
  [CQ_GRANT_NOW] = CQ_ARG_NOW,
  [CQ_GRANT_REQUEST] = CQ_ARG_REQUEST,
};

static const CqArgDef cqUngrantArg[] = {
  { CQ_ARG(INT, "grant_id"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN,
    .zDoc = "as claimq_grant() gave it" },
};

static const CqArgDef cqChangeArg[] = {
  { CQ_ARG(INT, "job_id"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN,
    .zDoc = "a job that has not ended" },
};
static const CqArgDef cqChangeOpt[CQ_CHANGE_N] = {
  [CQ_CHANGE_LANE] =
  { CQ_ARG(TEXT, "lane"), .zDoc = "the lane that the job is in" },
  [CQ_CHANGE_PRIORITY] =
  { CQ_ARG(INT, "priority"), .iMin = CQ_I64_MIN,
    .zDoc = "larger ones are claimed first" },
  [CQ_CHANGE_CAPS] =
  { CQ_ARG(JSON, "capabilities"),
    .zDoc = "what a worker must be able to do, a JSON array of strings" },
  [CQ_CHANGE_PAYLOAD] =
  { CQ_ARG(ANY, "payload"), .zDoc = "what is to be done, any value" },
  [CQ_CHANGE_AT] =
  { CQ_ARG(INT, "available_at_ms"),
    .zDoc = "the job cannot be claimed before this time" },
  [CQ_CHANGE_DELAY] =
  { CQ_ARG(INT, "delay_ms"),
    .zDoc = "delay before the job can be claimed, in ms" },
  [CQ_CHANGE_ATTEMPTS] =
  { CQ_ARG(INT, "max_attempts"),
    .zDoc = "a retry fails the job after this many attempts" },
  [CQ_CHANGE_RECLAIMS] =
  { CQ_ARG(INT, "max_reclaims"),
    .zDoc = "fail the job after this many expired leases" },
  [CQ_CHANGE_RUNTIME] =
  { CQ_ARG(INT, "max_runtime_ms"), .iMin = 1,
    .zDoc = "no lease ends later than this after its claim" },
  [CQ_CHANGE_PARTITION] =
  { CQ_ARG(INT, "partition"), .iMin = CQ_I64_MIN,
    .zDoc = "part of the lane; claims may name one, several or none" },
  [CQ_CHANGE_GROUP] =
  { CQ_ARG(TEXT, "group_key"),
    .zDoc = "the tenant that the job belongs to, for limits of the lane" },
  [CQ_CHANGE_HEADERS] = CQ_ARG_HEADERS,
  [CQ_CHANGE_NOW] = CQ_ARG_NOW,
  [CQ_CHANGE_REQUEST] = CQ_ARG_REQUEST,
};

static const CqArgDef cqCancelFlowArg[] = {
  { CQ_ARG(TEXT, "flow_id"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the flow_id of the jobs" },
};
static const CqArgDef cqCancelFlowOpt[CQ_CANCEL_FLOW_N] = {
  [CQ_CANCEL_FLOW_FORCE] =
  { CQ_ARG(INT, "force"), .iMax = 1, .bDefault = 1,
    .zDoc = "1: also jobs that a live claim holds" },
  [CQ_CANCEL_FLOW_MAX] =
  { CQ_ARG(INT, "max"), .iDefault = 10000, .bDefault = 1,
    .zDoc = "cancel at most this many jobs: call again until it answers 0" },
  [CQ_CANCEL_FLOW_NOW] = CQ_ARG_NOW,
  [CQ_CANCEL_FLOW_REQUEST] = CQ_ARG_REQUEST,
};

static const CqArgDef cqResolveArg[] = {
  { CQ_ARG(INT, "job_id"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN,
    .zDoc = "a job that nobody holds" },
  { CQ_ARG(ANY, "result"), .zDoc = "kept in claimq_job.result, any value" },
};
static const CqArgDef cqResolveOpt[] = { CQ_ARG_NOW, CQ_ARG_REQUEST };

static const CqArgDef cqPolicyArg[] = {
  { CQ_ARG(TEXT, "lane"), .mFlag = CQ_A_NULL,
    .zDoc = "the lane; NULL: every lane whose own policy says nothing else" },
};
static const CqArgDef cqPolicyOpt[CQ_POLICY_N] = {
  [CQ_LIMIT_MAX] =
  { CQ_ARG(INT, "max_active"),
    .zDoc = "at most this many live leases at a time; 0 pauses the lane" },
  [CQ_LIMIT_NRATE] =
  { CQ_ARG(INT, "rate"), .iMax = CQ_RATE_MAX,
    .zDoc = "at most this many claims begin in any per_ms" },
  [CQ_LIMIT_PER] =
  { CQ_ARG(INT, "per_ms"), .iMin = 1,
    .zDoc = "how long the window of rate is" },
  [CQ_LIMIT_GROUP_MAX] =
  { CQ_ARG(INT, "group_max_active"),
    .zDoc = "at most this many live leases of each group at a time" },
  [CQ_LIMIT_GROUP_NRATE] =
  { CQ_ARG(INT, "group_rate"), .iMax = CQ_RATE_MAX,
    .zDoc = "at most this many claims of a group begin in any group_per_ms" },
  [CQ_LIMIT_GROUP_PER] =
  { CQ_ARG(INT, "group_per_ms"), .iMin = 1,
    .zDoc = "how long the window of group_rate is" },
  [CQ_LIMIT_FAIR] =
  { CQ_ARG(INT, "fair"), .iMax = 1, .zDoc = "1: groups take turns" },
  [CQ_POLICY_PAUSED] =
  { CQ_ARG(INT, "paused"), .iMax = 1, .zDoc = "1: no claim begins" },
  [CQ_POLICY_ATTEMPTS] =
  { CQ_ARG(INT, "max_attempts"),
    .zDoc = "for jobs that do not set it: attempts after which a retry "
            "fails them; 20 if not set" },
  [CQ_POLICY_BACKOFF] =
  { CQ_ARG(INT, "backoff_ms"),
    .zDoc = "for such jobs: how long the first retry waits; 1000" },
  [CQ_POLICY_FACTOR] =
  { CQ_ARG(INT, "backoff_factor"),
    .zDoc = "each retry waits this many times longer; 2" },
  [CQ_POLICY_BACKOFF_MAX] =
  { CQ_ARG(INT, "backoff_max_ms"),
    .zDoc = "but no longer than this; 60000" },
  [CQ_POLICY_RECLAIMS] =
  { CQ_ARG(INT, "max_reclaims"),
    .zDoc = "for such jobs: expired leases after which they fail; 5" },
  [CQ_POLICY_RUNTIME] =
  { CQ_ARG(INT, "max_runtime_ms"), .iMin = 1,
    .zDoc = "for such jobs: no lease ends later than this after its claim" },
  [CQ_POLICY_LEASE] =
  { CQ_ARG(INT, "lease_ms"),
    .zDoc = "for claims that give none: how long the lease lasts; 30000" },
  [CQ_POLICY_STRICT] =
  { CQ_ARG(INT, "strict"), .iMax = 1,
    .zDoc = "1: a claim whose lease has expired is lost" },
  [CQ_POLICY_KEEP] =
  { CQ_ARG(INT, "keep_ms"), .iMin = -1,
    .zDoc = "how long ended jobs are kept; -1: for ever" },
  [CQ_POLICY_KEEP_FAILED] =
  { CQ_ARG(INT, "keep_failed_ms"), .iMin = -1,
    .zDoc = "how long failed jobs are kept; -1: for ever" },
  [CQ_POLICY_EVENTS] =
  { CQ_ARG(INT, "events"), .iMax = 1, .zDoc = "0: jobs end without an event" },
  [CQ_POLICY_RECLAIM] =
  { CQ_ARG(WORD, "reclaim"), .xWords = cqReclaimWords, .bNoDefault = 1,
    .zDoc = "for new jobs that do not give it" },
  [CQ_POLICY_ADMISSION] =
  { CQ_ARG(WORD, "admission"), .xWords = cqReclaimWords, .bNoDefault = 1,
    .zDoc = "for new jobs that do not give it" },
  [CQ_POLICY_NOW] = CQ_ARG_NOW,
  [CQ_POLICY_REQUEST] = CQ_ARG_REQUEST,
};

static const CqArgDef cqOpensArg[] = {
  { CQ_ARG(ANY, "lane") }, { CQ_ARG(ANY, "group_id") },
  { CQ_ARG(ANY, "now_ms") }, { CQ_ARG(ANY, "group_key") },
};
static const CqArgDef cqDeletedArg[] = {
  { CQ_ARG(ANY, "job_id") }, { CQ_ARG(ANY, "lane") },
  { CQ_ARG(ANY, "claim_id") }, { CQ_ARG(ANY, "awaited") },
  { CQ_ARG(ANY, "head_id") },
};

static const CqArgDef cqLaneOpt[] = {
  [CQ_LANE_RESULT] =
  { CQ_ARG(ANY, "result"), .mVerb = 1<<CQ_COMPLETE,
    .zDoc = "kept in claimq_job.result, any value" },
  [CQ_LANE_PROGRESS] =
  { CQ_ARG(ANY, "progress"), .mVerb = 1<<CQ_RENEW|1<<CQ_RELEASE|1<<CQ_RETRY,
    .zDoc = "kept in claimq_job.progress for the next attempt, any value" },
  [CQ_LANE_CLASS] =
  { CQ_ARG(TEXT, "error_class"), .mVerb = 1<<CQ_RETRY|1<<CQ_REJECT,
    .iMax = 64, .zDoc = "what kind of failure it was, a word of yours" },
  [CQ_LANE_AFTER] =
  { CQ_ARG(JSON, "after"), .mVerb = 1<<CQ_RELEASE,
    .zDoc = "blocked until these jobs have ended, a JSON array of job ids" },
};

/**************************************************************************
** What the other files share
*/

/*
** Raise bad_argument unless json, which zName gave, is a list of capabilities.
** Returns the number of its elements, 0 on error.
*/
CQ_PRIV int claimqLaneCapsCheck(CqOp *p, const char *zName, CqText json){
  int n = p->rc ? 0 : claimqCapsCheck(json);
  if( n<0 ){
    claimqFail(p, CQ_BAD_ARGUMENT,
        "%s must be a JSON array of non-empty strings", zName);
    n = 0;
  }
  return n;
}

/*
** Check and take apart argument capabilities: sorted, each one once.  The
** caller frees pCaps->a, also after an error.
*/
CQ_PRIV void claimqLaneCaps(CqOp *p, CqText json, CqCaps *pCaps){
  int n = claimqLaneCapsCheck(p, "capabilities", json);
  char *zText;
  memset(pCaps, 0, sizeof(*pCaps));
  if( n==0 ) return;
  pCaps->a = claimqMalloc(p, n*(i64)sizeof(CqText) + 4*(i64)json.n);
  if( pCaps->a==0 ) return;
  zText = (char*)&pCaps->a[n];
  pCaps->zOut = &zText[json.n];
  pCaps->n = claimqCapsSplit(json, pCaps->a, zText);
  assert( pCaps->n>0 && pCaps->n<=n );  /* Repetitions are gone */
}

/*
** The same, and the one way to write the set, which stays as long as pCaps->a.
*/
CQ_PRIV CqText claimqLaneCapsText(CqOp *p, CqText json, CqCaps *pCaps){
  CqText t = claimqStr("[]");
  claimqLaneCaps(p, json, pCaps);
  if( pCaps->n ){
    t.z = pCaps->zOut;
    t.n = claimqCapsJoin(pCaps->a, pCaps->n, pCaps->zOut);
  }
  return t;
}

/*
** 1 if job iJob exists, and what state it is in; 0 if it does not, or op has an
** error or gets one here.
*/
CQ_PRIV int claimqLaneState(CqOp *p, i64 iJob, CqLaneState *pState){
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_STATE);
  int bFound;
  memset(pState, 0, sizeof(*pState));
  claimqBindInt(p, &s, CQ_LANE_STATE_job, iJob);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  bFound = claimqStep(p, &s);
  if( bFound ){
    pState->bTerminal = (u8)claimqColInt(&s, CQ_COL_LANE_STATE_terminal);
    pState->bActive = (u8)claimqColInt(&s, CQ_COL_LANE_STATE_active);
    pState->bLive = (u8)claimqColInt(&s, CQ_COL_LANE_STATE_live);
    pState->bAuto = (u8)claimqColInt(&s, CQ_COL_LANE_STATE_auto);
    pState->bWaits = (u8)claimqColInt(&s, CQ_COL_LANE_STATE_waits);
    pState->bBlocked = (u8)claimqColInt(&s, CQ_COL_LANE_STATE_blocked);
    pState->bLate = (u8)claimqColInt(&s, CQ_COL_LANE_STATE_late);
    pState->bUnsaid = (u8)claimqColInt(&s, CQ_COL_LANE_STATE_unsaid);
    pState->nReclaim = claimqColInt(&s, CQ_COL_LANE_STATE_reclaim_count);
    pState->nMaxReclaim = CQ_UNSAID;
    if( claimqColType(&s, CQ_COL_LANE_STATE_max_reclaims)!=SQLITE_NULL ){
      pState->nMaxReclaim = claimqColInt(&s, CQ_COL_LANE_STATE_max_reclaims);
    }
  }
  claimqStmtDone(p, &s);
  return bFound;
}

/*
** For claimq_check.
*/
static const int cqLaneCheck[] = {
  CQ_SQL_LANE_CHECK, CQ_SQL_LANE_CHECK_PAST, CQ_SQL_LANE_CHECK_EVENTS,
  CQ_SQL_LANE_CHECK_ONE_EVENT,
  CQ_SQL_LANE_CHECK_GRANTS, CQ_SQL_SCHEDULE_CHECK,
  CQ_SQL_AFTER_CHECK, CQ_SQL_AFTER_CHECK_JOB, CQ_SQL_STEP_CHECK,
  CQ_SQL_POLICY_CHECK, CQ_SQL_LIMIT_CHECK_STARTS,
  CQ_SQL_LIMIT_CHECK_SLOTS, CQ_SQL_LIMIT_CHECK_JOBS,
  CQ_SQL_LIMIT_CHECK_GROUPS, CQ_SQL_LIMIT_CHECK_HEADS,
};

/**************************************************************************
** The descriptor
*/
static const CqFuncDef cqLaneFunc[] = {
  { .zName = "claimq_submit", .zDoc = "add a job to a lane",
    .eKind = CQ_F_INSERT, .nMin = 2,
    .aArg = cqSubmitArg, .nArg = CQ_ARRAYSIZE(cqSubmitArg),
    .aOpt = cqSubmitOpt, .nOpt = CQ_SUBMIT_N, .xFunc = claimqPutRun },
  { .zName = "claimq_grant", .zDoc = "allow an owner to claim a job",
    .eKind = CQ_F_WRITE, .nMin = 3,
    .aArg = cqGrantArg, .nArg = CQ_ARRAYSIZE(cqGrantArg),
    .aOpt = cqGrantOpt, .nOpt = CQ_GRANT_N, .xFunc = claimqLaneGrant },
  { .zName = "claimq_ungrant", .zDoc = "take a grant back",
    .eKind = CQ_F_WRITE, .nMin = 1,
    .aArg = cqUngrantArg, .nArg = CQ_ARRAYSIZE(cqUngrantArg),
    .aOpt = cqUnscheduleOpt, .nOpt = CQ_ARRAYSIZE(cqUnscheduleOpt),
    .xFunc = claimqLaneUngrant },
  { .zName = "claimq_change", .zDoc = "change a job that nobody holds",
    .eKind = CQ_F_WRITE, .nMin = 1,
    .aArg = cqChangeArg, .nArg = CQ_ARRAYSIZE(cqChangeArg),
    .aOpt = cqChangeOpt, .nOpt = CQ_CHANGE_N, .xFunc = claimqLaneChange },
  { .zName = "claimq_schedule", .zDoc = "add jobs to a lane at certain times",
    .eKind = CQ_F_WRITE, .nMin = 4,
    .aArg = cqScheduleArg, .nArg = CQ_ARRAYSIZE(cqScheduleArg),
    .aOpt = &cqSubmitOpt[CQ_SCHEDULE_FIRST],
    .nOpt = CQ_SCHEDULE_END-CQ_SCHEDULE_FIRST, .xFunc = claimqSchedule },
  { .zName = "claimq_unschedule", .zDoc = "end a schedule",
    .eKind = CQ_F_WRITE, .nMin = 1,
    .aArg = cqUnscheduleArg, .nArg = CQ_ARRAYSIZE(cqUnscheduleArg),
    .aOpt = cqUnscheduleOpt, .nOpt = CQ_ARRAYSIZE(cqUnscheduleOpt),
    .xFunc = claimqUnschedule },
  { .zName = "claimq_cancel_flow",
    .zDoc = "cancel the jobs of a flow that have not ended",
    .eKind = CQ_F_WRITE, .nMin = 1,
    .aArg = cqCancelFlowArg, .nArg = CQ_ARRAYSIZE(cqCancelFlowArg),
    .aOpt = cqCancelFlowOpt, .nOpt = CQ_CANCEL_FLOW_N,
    .xFunc = claimqLaneCancelFlow },
  { .zName = "claimq_resolve",
    .zDoc = "complete a job that nobody holds, from outside",
    .eKind = CQ_F_WRITE, .nMin = 2,
    .aArg = cqResolveArg, .nArg = CQ_ARRAYSIZE(cqResolveArg),
    .aOpt = cqResolveOpt, .nOpt = CQ_ARRAYSIZE(cqResolveOpt),
    .xFunc = claimqLaneResolve },
  { .zName = "claimq_policy",
    .zDoc = "set the limits and defaults of a lane",
    .eKind = CQ_F_WRITE, .nMin = 1,
    .aArg = cqPolicyArg, .nArg = CQ_ARRAYSIZE(cqPolicyArg),
    .aOpt = cqPolicyOpt, .nOpt = CQ_POLICY_N, .xFunc = claimqLanePolicy },
  { .zName = "claimq__judge", .zDoc = "for statements of claimq's own",
    .eKind = CQ_F_READ, .nMin = 0, .bRest = 1, .xFunc = claimqLaneJudge },
  { .zName = "claimq__opens", .zDoc = "for statements of claimq's own",
    .eKind = CQ_F_READ, .nMin = 4, .aArg = cqOpensArg,
    .nArg = CQ_ARRAYSIZE(cqOpensArg), .xFunc = claimqLimitOpens },
  { .zName = "claimq: load the extension and use claimq_change() to change "
             "a job", .eKind = CQ_F_GUARD, .xFunc = claimqOutside },
  { .zName = "claimq: load the extension and use claimq_schedule()",
    .eKind = CQ_F_GUARD, .xFunc = claimqOutside },
  { .zName = "claimq: load the extension and use claimq_policy()",
    .eKind = CQ_F_GUARD, .xFunc = claimqOutside },
  { .zName = "claimq: load the extension and use claimq_submit() with after",
    .eKind = CQ_F_GUARD, .xFunc = claimqOutside },
  { .zName = "claimq: load the extension to delete a job",
    .eKind = CQ_F_GUARD, .nMin = 5, .bRest = 1, .aArg = cqDeletedArg,
    .nArg = CQ_ARRAYSIZE(cqDeletedArg), .xFunc = claimqLaneDeleted },
};

/*
** The lane discipline.
*/
CQ_PRIV const CqDiscipline *claimqLaneDiscipline(void){
  static const CqTableDef aTable[] = {
    { .zName = "claimq_lane", .zDoc = "claim jobs of a lane",
      .zCols = CQ_LANE_COLS, .zOrder = "-priority created_at_ms job_id",
      .aArg = cqLaneArg, .nArg = CQ_ARRAYSIZE(cqLaneArg),
      .bWrites = 1, .bClaimCols = 1, .zPrefix = "qjc",
      .xArgs = claimqLaneArgs, .xNext = claimqLaneNext,
      .xTidy = claimqLaneTidy, .xStamp = claimqLaneStamp,
      .xDone = claimqLaneDone, .xNextAt = claimqLaneNextAt,
      .xRows = claimqLaneRows, .xWhy = claimqLaneWhy },
    { .zName = "claimq_reclaim", .zDoc = "claim a job again, by a grant",
      .zCols = "outcome:t " CQ_LANE_COLS, .zOrder = "outcome",
      .aArg = cqReclaimArg, .nArg = CQ_ARRAYSIZE(cqReclaimArg),
      .bWrites = 1, .bClaimCols = 1, .zPrefix = "qjc",
      .xNext = claimqReclaimNext, .xStamp = claimqReclaimStamp,
      .xDone = claimqReclaimDone, .xRows = claimqReclaimRows },
  };
  static const CqVacuumDef aVacuum[] = {
    { .eSelect = CQ_SQL_LANE_OLD_GRANTS,
      .eDelete = CQ_SQL_LANE_OLD_GRANTS_DELETE, .eFirst = -1 },
    { .eSelect = CQ_SQL_LIMIT_OLD_HEADS,
      .eDelete = CQ_SQL_LIMIT_OLD_HEADS_DELETE, .eFirst = -1,
      .bQuiet = 1 },
    { .eSelect = CQ_SQL_LIMIT_OLD_GROUPS, .bKept = 1, .bQuiet = 1,
      .eDelete = CQ_SQL_LIMIT_OLD_GROUPS_DELETE,
      .eFirst = CQ_SQL_LIMIT_OLD_GROUPS_START },
  };
  static const int eLeases = CQ_SQL_LANE_LEASES;
  static const int aStep[] = {
    CQ_SQL_STEP_FIND, CQ_SQL_STEP_FAST, CQ_SQL_STEP_PUT, CQ_SQL_STEP_MOVE
  };
  static const CqDiscipline lane = {
    .zName = "lane", .zPrefix = "qjc",
    .pLeases = &eLeases,
    .xStats = claimqLaneStats,
    .aCheck = cqLaneCheck, .nCheck = CQ_ARRAYSIZE(cqLaneCheck),
    .aTable = aTable, .nTable = CQ_ARRAYSIZE(aTable),
    .aFunc = cqLaneFunc, .nFunc = CQ_ARRAYSIZE(cqLaneFunc),
    .aOpt = cqLaneOpt, .nOpt = CQ_ARRAYSIZE(cqLaneOpt),
    .aStep = aStep,
    .eHold = CQ_SQL_LANE_HOLD,
    .aSettle = CQ_VERBS(CQ_SQL_LANE_RENEW, CQ_SQL_LANE_COMPLETE,
        CQ_SQL_LANE_RELEASE, CQ_SQL_LANE_RETRY, CQ_SQL_LANE_FAIL,
        CQ_SQL_LANE_REVOKE),
    .aFast = CQ_VERBS(CQ_SQL_LANE_RENEW_READY, CQ_SQL_LANE_COMPLETE_ALONE,
        -1, -1, -1, -1),
    .xVerbCheck = claimqLaneCheck,
    .xVerbDone = claimqLaneVerbDone,
    .xSettling = claimqLaneSettling,
    .xSettled = claimqLaneSettled,
    .xLost = claimqLaneLost,
    .xExpired = claimqLaneExpired,
    .xDecide = claimqLaneDecide,
    .xBind = claimqLaneBind,
    .eCancel = CQ_T_INT, .xCancel = claimqLaneCancel,
    .pPut = &cqLaneFunc[0],
    .xPutCheck = claimqLanePutCheck,
    .xPutWrite = claimqLanePutWrite,
    .xPutDone = claimqLanePutDone,
    .aVacuum = aVacuum, .nVacuum = CQ_ARRAYSIZE(aVacuum),
    .xVacuum = claimqLaneVacuum,
  };
  return &lane;
}
