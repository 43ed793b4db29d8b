/*
** lane.c: the lane discipline.  Jobs are claimed by priority, by workers that
** have the capabilities they require; they are tried, retried, reclaimed from
** workers that vanished, and end with exactly one event.
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
** The discipline is in several files.  This one has what a user sees of it, the
** arguments, options and functions, and what the others share.
**
**     lane_claim.c    how a claim chooses jobs, and stamps them
**     lane_submit.c   new jobs
**     lane_after.c    jobs that wait for others
**     lane_change.c   changing a job that waits
**     lane_verb.c     how a claim ends: the verbs; cancel
**     lane_grant.c    reclaiming a job by permission
**     lane_schedule.c jobs that are added at certain times
**     lane_limit.c    limits of a lane, groups that take turns
**     core_lane.c     the rules, without SQLite
**
** How a job changes
**
** Always by one UPDATE of its row, even if it was reclaimed too often and the
** claim that meets it makes it failed.  History, event, dead letter and the end
** of a grant are written by triggers in sql/schema.sql.  A claim of several
** jobs is all or nothing, also inside INSERT ... SELECT (see ext/txn.c).
*/
#include "lane.h"

/**************************************************************************
** Arguments and options
*/

static const CqArgDef cqLaneArg[] = {
  [CQ_LANE_LANE] =
  { CQ_ARG(TEXT, "lane"), .mFlag = CQ_A_REQUIRED|CQ_A_NAME,
    .eRole = CQ_ROLE_SCOPE, .zDoc = "whose jobs" },
  CQ_ARG_OWNER,
  CQ_ARG_TTL,
  { CQ_ARG(INT, "max_jobs"), .iDefault = 1, .eRole = CQ_ROLE_MAX,
    .zDoc = "take at most so many" },
  CQ_ARG_INCARNATION,
  [CQ_LANE_CAPS] =
  { CQ_ARG(JSON, "capabilities"), .zDefault = "[]", .mFlag = CQ_A_LOOK,
    .zDoc = "what the worker can do, a JSON array of strings" },
  [CQ_LANE_PARTITION] =
  { CQ_ARG(INT, "partition"), .iMin = CQ_I64_MIN, .mFlag = CQ_A_LOOK,
    .bDefault = 1, .zDoc = "only jobs with this partition_key" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

static const CqArgDef cqReclaimArg[] = {
  [CQ_RECLAIM_JOB] =
  { CQ_ARG(INT, "job"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN,
    .eRole = CQ_ROLE_SCOPE, .zDoc = "the job that a grant allows to reclaim" },
  CQ_ARG_OWNER,
  CQ_ARG_TTL,
  CQ_ARG_INCARNATION,
  [CQ_RECLAIM_MAX] =
  { CQ_ARG(INT, "max_reclaims"),
    .zDoc = "fail a job that was reclaimed so often; the job's own if not "
            "given" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

static const char *const *cqReclaimWords(void){
  static const char *const az[] = { "auto", "grant", 0 };
  return az;
}

static const char *const *cqFailureWords(void){
  static const char *const az[] = { "cancel", "run", 0 };
  return az;
}

static const CqArgDef cqSubmitArg[] = {
  { CQ_ARG(TEXT, "lane"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the queue that the job stands in" },
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
    .zDoc = "one job of the lane with this key until it has ended" },
  [CQ_SUBMIT_AT] =
  { CQ_ARG(INT, "available_at_ms"), .zDoc = "nobody gets it before" },
  [CQ_SUBMIT_DELAY] =
  { CQ_ARG(INT, "delay_ms"), .zDoc = "nobody gets it before so long" },
  [CQ_SUBMIT_ATTEMPTS] =
  { CQ_ARG(INT, "max_attempts"), .iDefault = 20,
    .zDoc = "after so many attempts a retry fails the job" },
  [CQ_SUBMIT_BACKOFF] =
  { CQ_ARG(INT, "backoff_ms"), .iDefault = 1000,
    .zDoc = "how long the first retry waits" },
  [CQ_SUBMIT_FACTOR] =
  { CQ_ARG(INT, "backoff_factor"), .iDefault = 2,
    .zDoc = "each retry waits so many times longer" },
  [CQ_SUBMIT_BACKOFF_MAX] =
  { CQ_ARG(INT, "backoff_max_ms"), .iDefault = 60000,
    .zDoc = "but no longer than this" },
  [CQ_SUBMIT_RECLAIMS] =
  { CQ_ARG(INT, "max_reclaims"), .iDefault = 1000,
    .zDoc = "after so many expired leases the job fails" },
  [CQ_SUBMIT_RECLAIM] =
  { CQ_ARG(WORD, "reclaim"), .xWords = cqReclaimWords,
    .zDoc = "how the job is claimed again when a lease has expired" },
  [CQ_SUBMIT_PARTITION] =
  { CQ_ARG(INT, "partition_key"), .iMin = CQ_I64_MIN, .bDefault = 1,
    .zDoc = "the part of the lane; a claim takes from one" },
  [CQ_SUBMIT_GROUP] =
  { CQ_ARG(TEXT, "group_key"),
    .zDoc = "the tenant that the job belongs to, for limits of the lane" },
  [CQ_SUBMIT_FLOW] =
  { CQ_ARG(TEXT, "flow_id"), .zDoc = "kept with job and event" },
  [CQ_SUBMIT_NAMESPACE] =
  { CQ_ARG(TEXT, "namespace"), .zDoc = "kept with job and event" },
  [CQ_SUBMIT_TAG] =
  { CQ_ARG(TEXT, "instance_tag"), .zDoc = "kept with job and event" },
  [CQ_SUBMIT_AFTER] =
  { CQ_ARG(JSON, "after"), .zDefault = "[]",
    .zDoc = "blocked until these jobs are completed, a JSON array of job ids" },
  [CQ_SUBMIT_ON_FAILURE] =
  { CQ_ARG(WORD, "on_failure"), .xWords = cqFailureWords,
    .zDoc = "what becomes of it if one of them fails or is cancelled" },
  [CQ_SUBMIT_UNIQUE] =
  { CQ_ARG(INT, "unique_for_ms"),
    .zDoc = "source_key stays taken so long, also if the job ends before" },
  [CQ_SUBMIT_NOW] = CQ_ARG_NOW,
  [CQ_SUBMIT_REQUEST] = CQ_ARG_REQUEST,
  [CQ_SCHEDULE_OFFSET] =
  { CQ_ARG(INT, "offset_minutes"), .iMin = -CQ_CRON_OFFSET_MAX,
    .iMax = CQ_CRON_OFFSET_MAX, .bDefault = 1,
    .zDoc = "local time, in minutes east of UTC" },
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
    .zDoc = "the queue that its jobs stand in" },
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
    .zDoc = "an active job whose lease is not live" },
  [CQ_GRANT_OWNER] =
  { CQ_ARG(TEXT, "owner_id"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "who may reclaim it" },
  [CQ_GRANT_TTL] =
  { CQ_ARG(INT, "ttl_ms"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "how long the grant is good" },
};
static const CqArgDef cqGrantOpt[CQ_GRANT_N] = {
  [CQ_GRANT_INCARNATION] =
  { CQ_ARG(TEXT, "incarnation_id"), .zDefault = "", .zDoc = "only kept" },
  [CQ_GRANT_LANE] =
  { CQ_ARG(TEXT, "lane_id"), .zDoc = "must be the job's, if it is given" },
  [CQ_GRANT_HASH] =
  { CQ_ARG(TEXT, "capability_hash"), .zDoc = "only kept" },
  [CQ_GRANT_CAPS] =
  { CQ_ARG(JSON, "worker_capabilities"),
    .zDoc = "only kept, a JSON array of strings" },
  [CQ_GRANT_ROUTE] =
  { CQ_ARG(JSON, "route_snapshot_json"), .zDoc = "only kept, any JSON" },
  [CQ_GRANT_ADMISSION] =
  { CQ_ARG(TEXT, "admission_summary"), .zDoc = "only kept" },
  [CQ_GRANT_NOW] = CQ_ARG_NOW,
  [CQ_GRANT_REQUEST] = CQ_ARG_REQUEST,
};

static const CqArgDef cqChangeArg[] = {
  { CQ_ARG(INT, "job_id"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN,
    .zDoc = "a job that has not ended" },
};
static const CqArgDef cqChangeOpt[CQ_CHANGE_N] = {
  [CQ_CHANGE_LANE] =
  { CQ_ARG(TEXT, "lane"), .zDoc = "the queue that the job stands in" },
  [CQ_CHANGE_PRIORITY] =
  { CQ_ARG(INT, "priority"), .iMin = CQ_I64_MIN,
    .zDoc = "larger ones are claimed first" },
  [CQ_CHANGE_CAPS] =
  { CQ_ARG(JSON, "capabilities"),
    .zDoc = "what a worker must be able to do, a JSON array of strings" },
  [CQ_CHANGE_PAYLOAD] =
  { CQ_ARG(ANY, "payload"), .zDoc = "what is to be done, any value" },
  [CQ_CHANGE_AT] =
  { CQ_ARG(INT, "available_at_ms"), .zDoc = "nobody gets it before" },
  [CQ_CHANGE_DELAY] =
  { CQ_ARG(INT, "delay_ms"), .zDoc = "nobody gets it before so long" },
  [CQ_CHANGE_ATTEMPTS] =
  { CQ_ARG(INT, "max_attempts"),
    .zDoc = "after so many attempts a retry fails the job" },
  [CQ_CHANGE_RECLAIMS] =
  { CQ_ARG(INT, "max_reclaims"),
    .zDoc = "after so many expired leases the job fails" },
  [CQ_CHANGE_PARTITION] =
  { CQ_ARG(INT, "partition_key"), .iMin = CQ_I64_MIN,
    .zDoc = "the part of the lane; a claim takes from one" },
  [CQ_CHANGE_GROUP] =
  { CQ_ARG(TEXT, "group_key"),
    .zDoc = "the tenant that the job belongs to, for limits of the lane" },
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
  [CQ_CANCEL_FLOW_NOW] = CQ_ARG_NOW,
  [CQ_CANCEL_FLOW_REQUEST] = CQ_ARG_REQUEST,
};

static const CqArgDef cqLimitArg[] = {
  { CQ_ARG(TEXT, "lane"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the queue that the limits are for" },
};
static const CqArgDef cqLimitOpt[CQ_LIMIT_N] = {
  [CQ_LIMIT_MAX] =
  { CQ_ARG(INT, "max_active"),
    .zDoc = "at most so many live leases at a time; 0 pauses the lane" },
  [CQ_LIMIT_NRATE] =
  { CQ_ARG(INT, "rate"), .iMax = CQ_RATE_MAX,
    .zDoc = "at most so many claims begin in any per_ms" },
  [CQ_LIMIT_PER] =
  { CQ_ARG(INT, "per_ms"), .iMin = 1,
    .zDoc = "how long the window of rate is" },
  [CQ_LIMIT_GROUP_MAX] =
  { CQ_ARG(INT, "group_max_active"),
    .zDoc = "at most so many live leases of each group at a time" },
  [CQ_LIMIT_GROUP_NRATE] =
  { CQ_ARG(INT, "group_rate"), .iMax = CQ_RATE_MAX,
    .zDoc = "at most so many claims of each group begin in any group_per_ms" },
  [CQ_LIMIT_GROUP_PER] =
  { CQ_ARG(INT, "group_per_ms"), .iMin = 1,
    .zDoc = "how long the window of group_rate is" },
  [CQ_LIMIT_FAIR] =
  { CQ_ARG(INT, "fair"), .iMax = 1, .zDoc = "1: groups take turns" },
  [CQ_LIMIT_NOW] = CQ_ARG_NOW,
  [CQ_LIMIT_REQUEST] = CQ_ARG_REQUEST,
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
    pState->nReclaim = claimqColInt(&s, CQ_COL_LANE_STATE_reclaim_count);
    pState->nMaxReclaim = claimqColInt(&s, CQ_COL_LANE_STATE_max_reclaims);
  }
  claimqStmtDone(p, &s);
  return bFound;
}

/*
** For claimq_check.
*/
static const int cqLaneCheck[] = {
  CQ_SQL_LANE_CHECK, CQ_SQL_LANE_CHECK_PAST, CQ_SQL_LANE_CHECK_SETS,
  CQ_SQL_LANE_CHECK_EVENTS, CQ_SQL_LANE_CHECK_ONE_EVENT,
  CQ_SQL_LANE_CHECK_GRANTS, CQ_SQL_SCHEDULE_CHECK,
  CQ_SQL_AFTER_CHECK, CQ_SQL_AFTER_CHECK_JOB, CQ_SQL_AFTER_CHECK_UNIQUE,
  CQ_SQL_AFTER_CHECK_TIED, CQ_SQL_AFTER_CHECK_FLOW,
  CQ_SQL_LIMIT_CHECK, CQ_SQL_LIMIT_CHECK_STARTS,
  CQ_SQL_LIMIT_CHECK_SLOTS, CQ_SQL_LIMIT_CHECK_JOBS,
  CQ_SQL_LIMIT_CHECK_GROUPS, CQ_SQL_LIMIT_CHECK_HEADS,
};

/**************************************************************************
** The descriptor
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
      .xRows = claimqReclaimRows },
  };
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_submit", .zDoc = "add a job to a lane",
      .eKind = CQ_F_INSERT, .nMin = 2,
      .aArg = cqSubmitArg, .nArg = CQ_ARRAYSIZE(cqSubmitArg),
      .aOpt = cqSubmitOpt, .nOpt = CQ_SUBMIT_N, .xFunc = claimqPutRun },
    { .zName = "claimq_grant", .zDoc = "allow an owner to reclaim a job",
      .eKind = CQ_F_WRITE, .nMin = 3,
      .aArg = cqGrantArg, .nArg = CQ_ARRAYSIZE(cqGrantArg),
      .aOpt = cqGrantOpt, .nOpt = CQ_GRANT_N, .xFunc = claimqLaneGrant },
    { .zName = "claimq_change", .zDoc = "change a job that nobody holds",
      .eKind = CQ_F_WRITE, .nMin = 1,
      .aArg = cqChangeArg, .nArg = CQ_ARRAYSIZE(cqChangeArg),
      .aOpt = cqChangeOpt, .nOpt = CQ_CHANGE_N, .xFunc = claimqLaneChange },
    { .zName = "claimq_schedule", .zDoc = "put a job at certain times",
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
    { .zName = "claimq_limit", .zDoc = "limit what a lane gives at a time",
      .eKind = CQ_F_WRITE, .nMin = 1,
      .aArg = cqLimitArg, .nArg = CQ_ARRAYSIZE(cqLimitArg),
      .aOpt = cqLimitOpt, .nOpt = CQ_LIMIT_N, .xFunc = claimqLaneLimit },
    { .zName = "claimq_judge", .zDoc = "for statements of claimq's own",
      .eKind = CQ_F_READ, .nMin = 0, .bRest = 1, .xFunc = claimqLaneJudge },
  };
  static const CqVacuumDef aVacuum[] = {
    { .eSelect = CQ_SQL_LANE_OLD_GRANTS,
      .eDelete = CQ_SQL_LANE_OLD_GRANTS_DELETE, .aFirst = {-1, -1} },
    { .eSelect = CQ_SQL_LANE_OLD_JOBS, .bOld = 1,
      .eDelete = CQ_SQL_LANE_OLD_JOBS_DELETE,
      .aFirst = {CQ_SQL_LANE_OLD_JOBS_PAST, CQ_SQL_LANE_OLD_JOBS_ATTEMPT,
                 CQ_SQL_AFTER_OLD} },
    { .eSelect = CQ_SQL_LIMIT_OLD_HEADS,
      .eDelete = CQ_SQL_LIMIT_OLD_HEADS_DELETE, .aFirst = {-1, -1} },
    { .eSelect = CQ_SQL_LIMIT_OLD_GROUPS, .bOld = 1,
      .eDelete = CQ_SQL_LIMIT_OLD_GROUPS_DELETE,
      .aFirst = {CQ_SQL_LIMIT_OLD_GROUPS_START, -1} },
    { .eSelect = CQ_SQL_LANE_OLD_SETS,
      .eDelete = CQ_SQL_LANE_OLD_SETS_DELETE, .aFirst = {-1, -1} },
    { .eSelect = CQ_SQL_LANE_OLD_EVENTS, .bOld = 1,
      .eDelete = CQ_SQL_LANE_OLD_EVENTS_DELETE, .aFirst = {-1, -1} },
  };
  static const int aStats[] = {CQ_SQL_LANE_STATS, CQ_SQL_LANE_STATS_OF};
  static const CqDiscipline lane = {
    .zName = "lane", .zPrefix = "qjc",
    .aStats = aStats,
    .aCheck = cqLaneCheck, .nCheck = CQ_ARRAYSIZE(cqLaneCheck),
    .aTable = aTable, .nTable = CQ_ARRAYSIZE(aTable),
    .aFunc = aFunc, .nFunc = CQ_ARRAYSIZE(aFunc),
    .aOpt = cqLaneOpt, .nOpt = CQ_ARRAYSIZE(cqLaneOpt),
    .eHold = CQ_SQL_LANE_HOLD,
    .aSettle = CQ_VERBS(CQ_SQL_LANE_RENEW, CQ_SQL_LANE_COMPLETE,
        CQ_SQL_LANE_RELEASE, CQ_SQL_LANE_RETRY, CQ_SQL_LANE_FAIL,
        CQ_SQL_LANE_REVOKE),
    .aFast = CQ_VERBS(CQ_SQL_LANE_RENEW_READY, CQ_SQL_LANE_COMPLETE_ALONE,
        -1, -1, -1, -1),
    .xVerbCheck = claimqLaneCheck,
    .xLost = claimqLaneLost,
    .xDecide = claimqLaneDecide,
    .xBind = claimqLaneBind,
    .eCancel = CQ_T_INT, .xCancel = claimqLaneCancel,
    .pPut = &aFunc[0],
    .xPutCheck = claimqLanePutCheck,
    .xPutWrite = claimqLanePutWrite,
    .xPutDone = claimqLanePutDone,
    .aVacuum = aVacuum, .nVacuum = CQ_ARRAYSIZE(aVacuum),
  };
  return &lane;
}
