/*
** schedule.c: schedules, as far as SQL sees them.
**
**     SELECT claimq_cron_next('0 9 * * MON-FRI', 0);         -- 32400000
**     SELECT claimq_cron_next('0 9 * * MON-FRI', 0, 120);    -- 25200000
**     SELECT claimq_cron_next('every 90 s', 100000);         -- 180000
**     SELECT claimq_cron_next('0 0 30 2 *', 0);              -- NULL
**
** claimq_cron_next(spec, after_ms [, offset_minutes]) is the first time after
** after_ms at which the schedule is due, NULL if there is none.  Fields are in
** local time, offset_minutes east of UTC.  It reads no clock and no table.
**
** How it works
**
** core_cron.c has the rules; this file reads the arguments and finds the words
** for what is wrong with a schedule: which field, and what it may hold.
*/
#include "claimq_int.h"

/* "SUN-SAT" for the names of a field: the first and the last of them. */
static void cqScheduleNames(const CqCronField *pField, char zOut[8]){
  const char *z = pField->zNames;
  int i, n = (int)strlen(z);
  for(i=0; i<3; i++){
    zOut[i] = (char)(z[i]-'a'+'A');
    zOut[i+4] = (char)(z[n-3+i]-'a'+'A');
  }
  zOut[3] = '-';
  zOut[7] = 0;
}

/*
** Raise bad_argument for a field that is at fault.
*/
static void cqScheduleBadField(CqOp *p, const CqCronFault *pFault){
  const CqCronField *pField = claimqCronField(pFault->iField);
  int n = claimqShown(pFault->part);
  char zNames[8] = "";
  if( pFault->eWhy==CQ_CRON_STEP ){
    claimqFail(p, CQ_BAD_ARGUMENT, "spec: %s '%.*s': a step must be a number "
        "above 0, as in */2", pField->zName, n, pFault->part.z);
    return;
  }
  if( pField->zNames ) cqScheduleNames(pField, zNames);
  claimqFail(p, CQ_BAD_ARGUMENT, pFault->eWhy==CQ_CRON_RANGE
      ? "spec: %s '%.*s' is not within %d-%d%s%s"
      : "spec: %s '%.*s' must be *, a value (%d-%d%s%s), a range such as 2-5 "
        "or a step such as */2",
      pField->zName, n, pFault->part.z, pField->iMin, pField->iTop,
      zNames[0] ? " or " : "", zNames);
}

/*
** Read a schedule, or raise bad_argument with what is wrong with it.
*/
static void cqScheduleParse(CqOp *p, CqText spec, CqCron *pCron){
  CqCronFault fault;
  int n = claimqShown(spec);
  if( p->rc ) return;
  switch( claimqCronParse(spec, pCron, &fault) ){
    case CQ_CRON_OK:
      break;
    case CQ_CRON_FIELDS:
      claimqFail(p, CQ_BAD_ARGUMENT, "spec must have five fields (minute, "
          "hour, day of month, month, day of week), or be a word such as "
          "@daily or a period such as 'every 90 s', got '%.*s'", n, spec.z);
      break;
    case CQ_CRON_WORD:
      claimqFail(p, CQ_BAD_ARGUMENT, "spec: there is no '%.*s', only @hourly, "
          "@daily, @midnight, @weekly, @monthly, @yearly and @annually", n,
          spec.z);
      break;
    case CQ_CRON_PERIOD:
      claimqFail(p, CQ_BAD_ARGUMENT, "spec: '%.*s' must be 'every N UNIT': N "
          "from 1 on, UNIT ms, s, m, h or d, and no more than 2^63-1 ms", n,
          spec.z);
      break;
    default:
      cqScheduleBadField(p, &fault);
      break;
  }
}

/*
** claimq_cron_next(spec, after_ms [, offset_minutes])
*/
static const CqArgDef cqCronNextArg[] = {
  { CQ_ARG(TEXT, "spec"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "five cron fields, a word such as @daily, or 'every 90 s'" },
  { CQ_ARG(INT, "after_ms"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN,
    .zDoc = "the time after which it is wanted" },
  { CQ_ARG(INT, "offset_minutes"), .iMin = -CQ_CRON_OFFSET_MAX,
    .iMax = CQ_CRON_OFFSET_MAX, .bDefault = 1,
    .zDoc = "local time, in minutes east of UTC" },
};

static void cqCronNextFunc(CqOp *p, CqCall *pCall){
  const CqVal *a = pCall->aArg;
  CqCron cron;
  i64 iNext;
  cqScheduleParse(p, a[0].t, &cron);
  if( p->rc==SQLITE_OK
   && claimqCronNext(&cron, (int)a[2].i, a[1].i, &iNext)
  ){
    sqlite3_result_int64(pCall->pCtx, iNext);
  }
}

CQ_PRIV const CqFuncDef *claimqScheduleFuncs(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_cron_next", .eKind = CQ_F_PURE, .nMin = 2,
      .aArg = cqCronNextArg, .nArg = CQ_ARRAYSIZE(cqCronNextArg),
      .xFunc = cqCronNextFunc, .zDoc = "when a schedule is due next" },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
