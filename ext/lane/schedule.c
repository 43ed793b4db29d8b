/*
** lane/schedule.c: schedules: jobs that are added to a lane at certain times.
**
**     SELECT claimq_schedule('nightly', '30 2 * * *', 'reports', 'all');
**     -- 1700101800000, the next time
**     SELECT payload, created_at_ms FROM claimq_lane('reports', 'worker-a');
**     -- all|1700101800000, for the first worker who asks after half past two
**     SELECT claimq_unschedule('nightly');                   -- 1
**
**     SELECT claimq_cron_next('0 9 * * MON-FRI', 0);         -- 32400000
**     SELECT claimq_cron_next('0 9 * * MON-FRI', 0, 120);    -- 25200000
**     SELECT claimq_cron_next('every 90 s', 100000);         -- 180000
**     SELECT claimq_cron_next('0 0 30 2 *', 0);              -- NULL
**
**     SELECT claimq_cron_next('30 2 * * *', 1711762200000, 'Europe/Berlin');
**     -- 1711846800000, 3:00: that night there was no half past two
**
** claimq_cron_next(spec, after_ms [, timezone]) is the first time after
** after_ms at which the schedule is due, NULL if there is none.  Fields are in
** local time: an offset in minutes east of UTC, or the clocks of a place.  It
** reads no clock and no table; for a place it reads a file of the system.
**
** How it works
**
** No process watches the clock.  The first statement of a claim of a lane also
** looks, by one seek, whether a schedule of the lane is due: see cqLaneGate().
** If so the claim writes, in its own transaction: claimqSchedulePut() moves the
** schedule on, by an UPDATE that finds the row only if nobody else was faster,
** and adds the job through claimq_submit()'s own functions.  So each time gets
** one job, however many workers claim then, and a worker that dies in between
** has done nothing.  (The first schedule that a database gets sets a bit among
** its settings, which every connection has in memory: without it claims do not
** even look.)
**
** A schedule remembers the last of its times that came (last_at_ms), and
** next_at_ms follows from that: see SCHEDULE_NEXT in sql/schedule.sql.  It
** never goes back, whatever the clock does.  The options of its jobs are kept
** as JSON under the names they have in claimq_submit(), as a dead letter keeps
** them.
**
** If the file of its timezone is missing, a schedule that is due stays due, and
** claims ignore it: it must not stop the lane.  claimq_why and claimq_check say
** so, and the first claim after the file is back goes on.  If the file has
** changed, or somebody has written next_at_ms by hand, next_at_ms may no longer
** be one of its times; so a claim that finds it due counts from the last time
** that came.
**
** core/cron.c has the rules of time; this file finds the words for what is
** wrong with a schedule: which field, and what it may hold.
*/
#include "lane.h"

/**************************************************************************
** Reading a schedule
*/

/* "SUN-SAT" for the names of a field: the first and the last of them. */
static void cqScheduleNames(const CqCronField *pField, char zOut[8]){
  const char *z = pField->zNames;
  int i, n = (int)strlen(z);
  assert( n>=6 );
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

/**************************************************************************
** Local time
*/
typedef struct CqPlace CqPlace;   /* Where, or how far east of UTC */
struct CqPlace {
  int nOffset;                    /* Minutes, if there is no zone */
  u8 *aFile;                      /* The bytes of the zone; 0: there is none */
  CqZone zone;
};

/*
** Read the clocks of a place; an empty name is none, and nOffset counts.
** Raises bad_argument.  cqPlaceDone() frees.
*/
static void cqPlaceRead(CqOp *p, CqText name, int nOffset, CqPlace *pOut){
  pOut->nOffset = nOffset;
  pOut->aFile = name.z ? claimqZoneRead(p, name, &pOut->zone) : 0;
}

static void cqPlaceDone(CqPlace *p){
  sqlite3_free(p->aFile);
  p->aFile = 0;
}

/* claimqCronNext() there. */
static int cqPlaceNext(
  const CqPlace *p, const CqCron *pCron, i64 iAfter, i64 *piNext
){
  return p->aFile ? claimqCronNextIn(pCron, &p->zone, iAfter, piNext)
                  : claimqCronNext(pCron, p->nOffset, iAfter, piNext);
}

/* claimqCronDue() there. */
static i64 cqPlaceDue(
  const CqPlace *p, const CqCron *pCron, i64 iAfter, i64 iNow, i64 *piLast
){
  return p->aFile ? claimqCronDueIn(pCron, &p->zone, iAfter, iNow, piLast)
                  : claimqCronDue(pCron, p->nOffset, iAfter, iNow, piLast);
}

/*
** claimq__zone_fault(timezone, explicit): NULL if the clocks of this place can
** be read here; else why not.  They are not read where the database takes its
** times from its callers.
*/
static const CqArgDef cqZoneFaultArg[] = {
  { CQ_ARG(ANY, "timezone") },
  { CQ_ARG(ANY, "explicit") },
};

/*
** claimq__zone_fault(timezone, explicit) -> NULL, or what is wrong.
*/
static void cqZoneFaultFunc(CqOp *p, CqCall *pCall){
  static const char zCode[] = "claimq: " CQ_BAD_ARGUMENT ": ";
  CqText name = claimqTextOrNull(p, pCall->apVal[0]);
  CqZone zone;
  if( p->rc==SQLITE_OK && sqlite3_value_int(pCall->apVal[1]) ){
    sqlite3_result_text(pCall->pCtx, "timezone is not supported with an "
        "explicit clock", -1, SQLITE_STATIC);
    return;
  }
  if( name.z==0 ) return;
  sqlite3_free(claimqZoneRead(p, name, &zone));
  if( p->rc!=SQLITE_ERROR ) return;
  assert( strncmp(p->zErr, zCode, sizeof(zCode)-1)==0 );
  sqlite3_result_text(pCall->pCtx, &p->zErr[sizeof(zCode)-1], -1,
                      SQLITE_TRANSIENT);
  claimqOpReset(p);
}

/*
** claimq_cron_next(spec, after_ms [, timezone])
*/
static const CqArgDef cqCronNextArg[] = {
  { CQ_ARG(TEXT, "spec"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "five cron fields, a word such as @daily, or 'every 90 s'" },
  { CQ_ARG(INT, "after_ms"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN,
    .zDoc = "find the first time after this one" },
  { CQ_ARG(ANY, "timezone"),
    .zDoc = "local time: minutes east of UTC, or a place: Europe/Berlin" },
};

/*
** The last argument of claimq_cron_next(): an integer, or what binds as one, is
** an offset; other text is a place.  Raises bad_argument.
*/
static void cqPlaceArg(CqOp *p, sqlite3_value *pVal, CqPlace *pOut){
  const CqArgDef *aDef = claimqLaneDiscipline()->pPut->aOpt;
  CqText t = {0, 0};
  CqVal val;
  i64 i;
  int bText = pVal && sqlite3_value_type(pVal)==SQLITE_TEXT;
  if( bText ) t = claimqValueText(p, pVal);
  if( bText && p->rc==SQLITE_OK && !claimqI64Parse(t, &i) ){
    claimqRead(p, &aDef[CQ_SCHEDULE_ZONE], pVal, &val);
    cqPlaceRead(p, val.t, 0, pOut);
  }else{
    claimqRead(p, &aDef[CQ_SCHEDULE_OFFSET], pVal, &val);
    t.z = 0;
    cqPlaceRead(p, t, (int)val.i, pOut);
  }
}

/*
** claimq_cron_next(spec, after_ms [, timezone]) -> the next time; NULL if there
** is none.  Raises bad_argument.
*/
static void cqCronNextFunc(CqOp *p, CqCall *pCall){
  const CqVal *a = pCall->aArg;
  CqPlace place;
  CqCron cron;
  i64 iNext;
  cqPlaceArg(p, a[2].pVal, &place);
  cqScheduleParse(p, a[0].t, &cron);
  if( p->rc==SQLITE_OK && cqPlaceNext(&place, &cron, a[1].i, &iNext) ){
    sqlite3_result_int64(pCall->pCtx, iNext);
  }
  cqPlaceDone(&place);
}

/*
** Are these options that the jobs of a schedule can have?  Names that are no
** such options are not.  aOpt[] gets one value for each option of
** claimq_submit(); zBuf is as for claimqOriginRead().  1 or 0, 0 also if op
** gets an error.
*/
static int cqScheduleOptions(CqOp *p, CqText options, char *zBuf, CqVal *aOpt){
  const CqFuncDef *pPut = claimqLaneDiscipline()->pPut;
  const CqArgDef *aDef = &pPut->aOpt[CQ_SCHEDULE_FIRST];
  CqJson j;
  int e, i;
  claimqJsonInit(&j, options);
  if( claimqJsonNext(&j)!=CQ_JSON_OBJECT ) return 0;
  while( (e = claimqJsonNext(&j))==CQ_JSON_KEY ){
    for(i=0; i<CQ_SCHEDULE_NJOB; i++){
      if( claimqJsonEq(j.tok, claimqStr(aDef[i].zName)) ) break;
    }
    if( i==CQ_SCHEDULE_NJOB || !claimqJsonSkip(&j) ) return 0;
  }
  if( !claimqOriginRead(p, options, pPut->aOpt, pPut->nOpt, zBuf, aOpt) ){
    return 0;
  }
  if( p->rc==SQLITE_ERROR ) claimqOpReset(p);     /* A value out of range */
  else return p->rc==SQLITE_OK && claimqCapsCheck(aOpt[CQ_SUBMIT_CAPS].t)>=0;
  return 0;
}

/*
** claimq__schedule_sound(spec, options): 1 if both are as claimq_schedule()
** writes them, else 0.  For triggers and claimq_check.
*/
static const CqArgDef cqSoundArg[] = {
  { CQ_ARG(ANY, "spec") },
  { CQ_ARG(ANY, "options") },
};

/*
** claimq__schedule_sound(spec, options) -> 1 if claimq_schedule() would take
** both, else 0.
*/
static void cqScheduleSoundFunc(CqOp *p, CqCall *pCall){
  CqText spec = claimqTextOrNull(p, pCall->apVal[0]);
  CqText options = claimqTextOrNull(p, pCall->apVal[1]);
  CqVal aOpt[CQ_MAX_OPT];
  CqCronFault fault;
  CqCron cron;
  char *zBuf = claimqMalloc(p, (i64)options.n+1);
  int bSound = zBuf && spec.z && options.z
            && claimqCronParse(spec, &cron, &fault)==CQ_CRON_OK
            && cqScheduleOptions(p, options, zBuf, aOpt);
  sqlite3_free(zBuf);
  if( p->rc==SQLITE_OK ) sqlite3_result_int(pCall->pCtx, bSound);
}

/**************************************************************************
** claimq_schedule(name, spec, lane, payload [, option, value]...) -> next time
*/
#define CQ_CATCH_UP_ONE  0
#define CQ_CATCH_UP_ALL  1
#define CQ_CATCH_UP_NONE 2
CQ_PRIV const char *const *claimqCatchUpWords(void){
  static const char *const az[] = { "one", "all", "none", 0 };
  return az;
}

typedef struct CqSchedule CqSchedule;     /* One call of claimq_schedule() */
struct CqSchedule {
  CqTask task;                    /* First */
  const CqVal *aArg;
  const CqVal *aOpt;              /* At the numbers CQ_SUBMIT_*, _SCHEDULE_* */
  CqCron cron;
  CqPlace place;
  CqText options;                 /* Those of its jobs, as JSON */
  i64 iCreated;                   /* It begins after this */
  i64 iLast;                      /* The last time that came, of any spec */
  i64 iNext;
  u8 bLast, bNext;                /* There is one */
};

/*
** Check the options of the jobs as claimq_submit() does: now, and not when the
** first of them is put.
*/
static void cqScheduleCheck(CqOp *p, const CqVal *aOpt){
  CqPut put;
  if( p->rc ) return;
  memset(&put, 0, sizeof(put));
  put.pD = claimqLaneDiscipline();
  put.aOpt = aOpt;
  put.pD->xPutCheck(p, &put);
  claimqPutDone(&put);
}

/*
** Is the schedule that pS stands on this one, but for what becomes of it at its
** times?  Then its next time is kept.
*/
static int cqScheduleSame(CqOp *p, const CqSchedule *pN, const CqStmt *pS){
  return pN->aOpt[CQ_SCHEDULE_ENABLED].i
      && claimqColType(pS, CQ_COL_SCHEDULE_OLD_next_at_ms)!=SQLITE_NULL
      && claimqTextEq(claimqColText(p, pS, CQ_COL_SCHEDULE_OLD_spec),
                      pN->aArg[CQ_SCHEDULE_SPEC].t)
      && claimqColInt(pS, CQ_COL_SCHEDULE_OLD_offset_minutes)
         ==pN->aOpt[CQ_SCHEDULE_OFFSET].i
      && claimqTextEq(claimqColText(p, pS, CQ_COL_SCHEDULE_OLD_timezone),
                      pN->aOpt[CQ_SCHEDULE_ZONE].t);
}

/*
** Read the clocks that it goes by.  Raises bad_argument, or unsupported: nodes
** that get the same calls may have different zoneinfo.
*/
static void cqSchedulePlace(CqOp *p, CqSchedule *pN){
  const CqVal *pZone = &pN->aOpt[CQ_SCHEDULE_ZONE];
  if( pZone->bGiven && pN->aOpt[CQ_SCHEDULE_OFFSET].bGiven ){
    claimqFail(p, CQ_BAD_ARGUMENT, "give timezone or offset_minutes, not both");
  }
  cqPlaceRead(p, pZone->t, (int)pN->aOpt[CQ_SCHEDULE_OFFSET].i, &pN->place);
}

/*
** From where on it counts, and what comes next: the rule that the triggers of
** claimq_schedule have, too.  A time that has come does not come again, with
** another spec either, and also if the clock has gone back.  Only one that was
** not enabled has forgotten its times.
*/
static void cqScheduleLoad(CqOp *p, CqTask *pTask){
  CqSchedule *pN = (CqSchedule*)pTask;
  const CqVal *pUntil = &pN->aOpt[CQ_SCHEDULE_UNTIL];
  CqStmt s = claimqStmt(p, CQ_SQL_SCHEDULE_OLD);
  i64 iAfter;
  pN->iCreated = claimqNow(p);
  pN->bLast = 0;
  claimqBindText(p, &s, CQ_SCHEDULE_OLD_name, pN->aArg[CQ_SCHEDULE_NAME].t);
  if( claimqStep(p, &s) ){
    pN->iLast = claimqColInt(&s, CQ_COL_SCHEDULE_OLD_last_at_ms);
    pN->bLast =
        claimqColType(&s, CQ_COL_SCHEDULE_OLD_last_at_ms)!=SQLITE_NULL;
    if( cqScheduleSame(p, pN, &s) ){
      pN->iCreated = claimqColInt(&s, CQ_COL_SCHEDULE_OLD_created_at_ms);
    }
  }
  claimqStmtDone(p, &s);
  if( pN->place.aFile && (claimqSettings(p) & CQ_SET_CLOCK) ){
    claimqFail(p, CQ_UNSUPPORTED, "the zoneinfo of those who give this database"
        " its times may differ: give offset_minutes, not timezone");
  }
  iAfter = pN->bLast && pN->iLast>pN->iCreated ? pN->iLast : pN->iCreated;
  pN->bNext = pN->aOpt[CQ_SCHEDULE_ENABLED].i
      && cqPlaceNext(&pN->place, &pN->cron, iAfter, &pN->iNext)
      && (!pUntil->bGiven || pN->iNext<=pUntil->i);
  pTask->iAnswer = pN->iNext;
  pTask->bNull = !pN->bNext;
  pTask->eNeed = claimqSettings(p) & CQ_SET_SCHEDULES ? CQ_NEED_ONE
                                                      : CQ_NEED_MANY;
}

/*
** Write the row of the schedule, a new one or in place of the old.
*/
static void cqScheduleWrite(CqOp *p, const CqSchedule *pN){
  const CqVal *aArg = pN->aArg, *aOpt = pN->aOpt;
  CqStmt s = claimqStmt(p, CQ_SQL_SCHEDULE_SET);
  claimqBindText(p, &s, CQ_SCHEDULE_SET_name, aArg[CQ_SCHEDULE_NAME].t);
  claimqBindText(p, &s, CQ_SCHEDULE_SET_spec, aArg[CQ_SCHEDULE_SPEC].t);
  claimqBindText(p, &s, CQ_SCHEDULE_SET_lane, aArg[CQ_SCHEDULE_LANE].t);
  claimqBindValue(p, &s, CQ_SCHEDULE_SET_payload,
                  aArg[CQ_SCHEDULE_PAYLOAD].pVal);
  claimqBindInt(p, &s, CQ_SCHEDULE_SET_created, pN->iCreated);
  if( pN->bLast ) claimqBindInt(p, &s, CQ_SCHEDULE_SET_last, pN->iLast);
  else claimqBindNull(p, &s, CQ_SCHEDULE_SET_last);
  if( pN->bNext ) claimqBindInt(p, &s, CQ_SCHEDULE_SET_next, pN->iNext);
  else claimqBindNull(p, &s, CQ_SCHEDULE_SET_next);
  claimqBindInt(p, &s, CQ_SCHEDULE_SET_offset, aOpt[CQ_SCHEDULE_OFFSET].i);
  claimqBindText(p, &s, CQ_SCHEDULE_SET_timezone, aOpt[CQ_SCHEDULE_ZONE].t);
  claimqBindText(p, &s, CQ_SCHEDULE_SET_catch_up,
                 aOpt[CQ_SCHEDULE_CATCH_UP].t);
  if( aOpt[CQ_SCHEDULE_UNTIL].bGiven ){
    claimqBindInt(p, &s, CQ_SCHEDULE_SET_until_at, aOpt[CQ_SCHEDULE_UNTIL].i);
  }else{
    claimqBindNull(p, &s, CQ_SCHEDULE_SET_until_at);
  }
  claimqBindInt(p, &s, CQ_SCHEDULE_SET_enabled, aOpt[CQ_SCHEDULE_ENABLED].i);
  claimqBindText(p, &s, CQ_SCHEDULE_SET_options, pN->options);
  claimqExec(p, &s);
}

/*
** The first schedule makes claims look for schedules: of all connections, at
** their next call.
*/
static void cqScheduleApply(CqOp *p, CqTask *pTask){
  claimqSettingsSet(p, pTask, CQ_SET_SCHEDULES);
  cqScheduleWrite(p, (CqSchedule*)pTask);
}

/*
** claimq_schedule(name, spec, lane, payload [, option, value]...) -> when it is
** due next; NULL if it is not.
*/
CQ_PRIV void claimqSchedule(CqOp *p, CqCall *pCall){
  const CqArgDef *aDef = claimqLaneDiscipline()->pPut->aOpt;
  CqVal aOpt[CQ_MAX_OPT];
  CqSchedule n;
  char *zOptions;
  int i;
  memset(&n, 0, sizeof(n));
  n.task.xLoad = cqScheduleLoad;
  n.task.xApply = cqScheduleApply;
  n.task.zWhat = "claimq_schedule()";
  claimqMakes(p, &n.task, CQ_M_SCHEDULES);
  n.aArg = pCall->aArg;
  n.aOpt = aOpt;
  for(i=0; i<CQ_SCHEDULE_FIRST; i++) claimqRead(p, &aDef[i], 0, &aOpt[i]);
  memcpy(&aOpt[i], pCall->aOpt, (CQ_SCHEDULE_END-i)*sizeof(aOpt[0]));
  cqScheduleParse(p, n.aArg[CQ_SCHEDULE_SPEC].t, &n.cron);
  cqScheduleCheck(p, aOpt);
  cqSchedulePlace(p, &n);
  zOptions = claimqOriginWrite(p, &aDef[i], CQ_SCHEDULE_NJOB, pCall->aOpt,
                               &n.options);
  claimqRun(p, &n.task);
  claimqTaskResult(p, &n.task, pCall->pCtx);
  cqPlaceDone(&n.place);
  sqlite3_free(zOptions);
}

/*
** claimq_unschedule(name [, option, value]...) -> 1, or 0 if there was none.
*/
CQ_PRIV void claimqUnschedule(CqOp *p, CqCall *pCall){
  claimqRemove(p, pCall, CQ_SQL_SCHEDULE_DELETE, CQ_SCHEDULE_DELETE_name,
               "claimq_unschedule()");
}

/**************************************************************************
** What a claim of the lane does
*/
#define CQ_SCHEDULE_MOST 1000     /* Jobs that one claim puts */

/* The schedule that is due, as SCHEDULE_FIRST stands on it. */
typedef struct CqDue CqDue;
struct CqDue {
  CqStmt s;
  CqText name;
  CqCron cron;
  CqPlace place;
  i64 iStored;                    /* Its next_at_ms */
  i64 iNext;                      /* The first of its times that has come */
  i64 iTo;                        /* None after this one has come, or counts */
  i64 iUntil;                     /* None after this one counts */
  int nMost;                      /* How many jobs may still be put */
};

/*
** 0 also after an error.
*/
CQ_PRIV int claimqScheduleDue(CqOp *p, CqText lane){
  CqStmt s = claimqStmt(p, CQ_SQL_SCHEDULE_ANY);
  int bDue;
  claimqBindText(p, &s, CQ_SCHEDULE_ANY_lane, lane);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  bDue = claimqStep(p, &s);
  claimqStmtDone(p, &s);
  return bDue;
}

/*
** When a schedule of the lane is due next; CQ_NO_TIME if there is none, or op
** has an error.
*/
CQ_PRIV i64 claimqScheduleNext(CqOp *p, CqText lane){
  i64 iAt = CQ_NO_TIME;
  CqStmt s;
  if( (claimqSettings(p) & CQ_SET_SCHEDULES)==0 ) return iAt;
  s = claimqStmt(p, CQ_SQL_SCHEDULE_COMING);
  claimqBindText(p, &s, CQ_SCHEDULE_COMING_lane, lane);
  if( claimqStep(p, &s) ) iAt = claimqColTime(&s, CQ_COL_SCHEDULE_COMING_at_ms);
  claimqStmtDone(p, &s);
  return iAt;
}

/*
** claimq_why: a job that is to come is delayed until then; if it is due, any
** claim puts it.  If its clocks cannot be read none does: the detail says why.
*/
CQ_PRIV void claimqScheduleWhy(CqOp *p, CqText lane, CqWhy *pWhy){
  CqStmt s = claimqStmt(p, CQ_SQL_SCHEDULE_WHY);
  claimqBindText(p, &s, CQ_SCHEDULE_WHY_lane, lane);
  while( claimqStep(p, &s) ){
    i64 iNext = claimqColInt(&s, CQ_COL_SCHEDULE_WHY_next_at_ms);
    CqText fault = claimqColText(p, &s, CQ_COL_SCHEDULE_WHY_fault);
    int bDue = iNext<=claimqNow(p);
    CqCell *pDetail = claimqWhyAdd(p, pWhy, fault.z ? CQ_WHY_ZONE
        : bDue ? CQ_WHY_CLAIMABLE : CQ_WHY_DELAYED,
        claimqColValue(&s, CQ_COL_SCHEDULE_WHY_source_key), 0,
        bDue || fault.z ? CQ_NO_TIME : iNext);
    if( fault.z && pDetail ){
      claimqCellText(p, pWhy->pRows, pDetail, fault);
    }
  }
  claimqStmtDone(p, &s);
}

/*
** Raise schema_mismatch: somebody has written what claimq_schedule() would not.
*/
static void cqScheduleBad(CqOp *p, CqText name, const char *zWhat){
  claimqFail(p, CQ_SCHEMA_MISMATCH, "schedule '%.*s' has a bad %s: repair it "
      "with claimq_schedule(), or remove it with claimq_unschedule()",
      claimqShown(name), name.z, zWhat);
}

/*
** Put the job of time iAt into the lane, as claimq_submit() would have done it
** then, but with a source key that names schedule and time.
*/
static void cqSchedulePutOne(
  CqOp *p, CqDue *pD, CqText lane, CqVal *aOpt, i64 iAt
){
  static const char zBegin[] = "schedule:";
  CqVal *pKey = &aOpt[CQ_SUBMIT_KEY];
  int n = (int)sizeof(zBegin)-1;
  i64 iNow = claimqNow(p);
  char *zKey = claimqMalloc(p, (i64)n+pD->name.n+22);
  CqPut put;
  if( zKey==0 ) return;
  assert( iAt>=pD->iNext && iAt<=iNow );
  memcpy(zKey, zBegin, (size_t)n);
  memcpy(&zKey[n], pD->name.z, (size_t)pD->name.n);
  n += pD->name.n;
  zKey[n++] = ':';
  n += claimqI64Text(iAt, &zKey[n]);
  pKey->bGiven = 1;
  pKey->t.z = zKey;
  pKey->t.n = n;
  memset(&put, 0, sizeof(put));
  put.pD = claimqLaneDiscipline();
  put.scope = lane;
  put.pPayload = claimqColValue(&pD->s, CQ_COL_SCHEDULE_FIRST_payload);
  put.aOpt = aOpt;
  p->iNow = iAt;
  claimqPutInside(p, &put);
  p->iNow = iNow;
  claimqPutDone(&put);
  sqlite3_free(zKey);
}

/*
** Put the jobs of pD: for iLast, or for all times up to it (bAll).  Raises
** schema_mismatch if its options are no options.
*/
static void cqSchedulePutJobs(
  CqOp *p, CqDue *pD, CqText lane, i64 iLast, int bAll
){
  CqText options = claimqColText(p, &pD->s, CQ_COL_SCHEDULE_FIRST_options);
  char *zBuf = claimqMalloc(p, (i64)options.n+1);
  CqVal aOpt[CQ_MAX_OPT];
  i64 iAt = bAll ? pD->iNext : iLast;
  int bNext;
  assert( iLast>=pD->iNext );
  if( zBuf && !cqScheduleOptions(p, options, zBuf, aOpt) ){
    cqScheduleBad(p, pD->name, "list of options");
  }
  while( p->rc==SQLITE_OK ){
    cqSchedulePutOne(p, pD, lane, aOpt, iAt);
    if( iAt>=iLast ) break;
    bNext = cqPlaceNext(&pD->place, &pD->cron, iAt, &iAt);
    if( CQ_NEVER(!bNext) ) break;            /* iLast is one of its times */
  }
  sqlite3_free(zBuf);
}

/*
** The last of the times that have come for which a job may be put now; all of
** them, but for CQ_SCHEDULE_MOST.
*/
static i64 cqScheduleLast(const CqDue *pD, i64 iLast){
  i64 iAt = pD->iNext;
  int n, bNext;
  assert( pD->nMost>0 && iAt<=iLast );
  for(n=1; n<pD->nMost && iAt<iLast; n++){
    bNext = cqPlaceNext(&pD->place, &pD->cron, iAt, &iAt);
    if( CQ_NEVER(!bNext) ) break;            /* iLast is one of its times */
  }
  return iAt;
}

/*
** The schedule pD is due: move it on, and put what it asks for.  Returns the
** number of jobs, at least 1.  (If next_at_ms is none of its times, because its
** zone has changed or somebody has written it by hand, it is moved on.)
*/
static int cqScheduleRun(CqOp *p, CqDue *pD, const CqTask *pTask, CqText lane){
  CqText word = claimqColText(p, &pD->s, CQ_COL_SCHEDULE_FIRST_catch_up);
  int eCatchUp = claimqWord(claimqCatchUpWords(), word);
  i64 iLast = pD->iStored;
  i64 n = cqPlaceDue(&pD->place, &pD->cron, pD->iNext-1, pD->iTo, &iLast);
  i64 iComing;
  CqStmt s;
  assert( p->rc || (pD->nMost>0 && (n==0 || iLast>=pD->iNext)) );
  if( eCatchUp==CQ_CATCH_UP_ALL && n>1 ) iLast = cqScheduleLast(pD, iLast);
  s = claimqStmt(p, CQ_SQL_SCHEDULE_CAME);
  claimqBindText(p, &s, CQ_SCHEDULE_CAME_name, pD->name);
  claimqBindInt(p, &s, CQ_SCHEDULE_CAME_next, pD->iStored);
  claimqBindInt(p, &s, CQ_SCHEDULE_CAME_last, iLast);
  if( cqPlaceNext(&pD->place, &pD->cron, iLast, &iComing)
   && iComing<=pD->iUntil
  ){
    claimqBindInt(p, &s, CQ_SCHEDULE_CAME_coming, iComing);
  }else{
    claimqBindNull(p, &s, CQ_SCHEDULE_CAME_coming);
  }
  if( claimqExec(p, &s)!=1 ) claimqStale(p, pTask);
  if( n==0 || (eCatchUp==CQ_CATCH_UP_NONE && n>1) ) return 1;
  if( eCatchUp!=CQ_CATCH_UP_ALL ) n = 1;
  cqSchedulePutJobs(p, pD, lane, iLast, eCatchUp==CQ_CATCH_UP_ALL);
  return n<pD->nMost ? (int)n : pD->nMost;
}

/*
** Read the schedule that pD->s stands on, into the rest of *pD.  Raises
** schema_mismatch if somebody has spoilt it by hand.
*/
static void cqScheduleRead(CqOp *p, CqDue *pD){
  CqCronFault fault;
  i64 nOffset = claimqColInt(&pD->s, CQ_COL_SCHEDULE_FIRST_offset_minutes);
  i64 iSince = claimqColInt(&pD->s, CQ_COL_SCHEDULE_FIRST_since_ms);
  CqText spec = claimqColText(p, &pD->s, CQ_COL_SCHEDULE_FIRST_spec);
  pD->name = claimqColText(p, &pD->s, CQ_COL_SCHEDULE_FIRST_name);
  pD->iStored = claimqColInt(&pD->s, CQ_COL_SCHEDULE_FIRST_next_at_ms);
  pD->iTo = claimqNow(p);
  pD->iUntil = CQ_I64_MAX;
  if( claimqColType(&pD->s, CQ_COL_SCHEDULE_FIRST_until_at_ms)!=SQLITE_NULL ){
    pD->iUntil = claimqColInt(&pD->s, CQ_COL_SCHEDULE_FIRST_until_at_ms);
    if( pD->iUntil<pD->iTo ) pD->iTo = pD->iUntil;
  }
  if( p->rc ) return;
  if( nOffset<-CQ_CRON_OFFSET_MAX || nOffset>CQ_CRON_OFFSET_MAX ){
    cqScheduleBad(p, pD->name, "offset_minutes");
  }else if( pD->iStored<0 ){
    cqScheduleBad(p, pD->name, "next_at_ms");
  }else if( iSince<0 ){
    cqScheduleBad(p, pD->name, "created_at_ms");
  }else if( claimqCronParse(spec, &pD->cron, &fault)!=CQ_CRON_OK ){
    cqScheduleBad(p, pD->name, "spec");
  }
  cqPlaceRead(p, claimqColText(p, &pD->s, CQ_COL_SCHEDULE_FIRST_timezone),
              (int)nOffset, &pD->place);
  if( p->rc==SQLITE_OK
   && !cqPlaceNext(&pD->place, &pD->cron, iSince, &pD->iNext)
  ){
    pD->iNext = CQ_I64_MAX;
  }
}

/*
** Put the jobs of all schedules of the lane that are due, the earliest first,
** but no more than CQ_SCHEDULE_MOST: the next claim puts the rest.
*/
CQ_PRIV void claimqSchedulePut(CqOp *p, const CqTask *pTask, CqText lane){
  CqDue due;
  int bMore = 1;
  memset(&due, 0, sizeof(due));
  due.nMost = CQ_SCHEDULE_MOST;
  while( bMore && due.nMost>0 ){
    due.s = claimqStmt(p, CQ_SQL_SCHEDULE_FIRST);
    claimqBindText(p, &due.s, CQ_SCHEDULE_FIRST_lane, lane);
    claimqBindCommonInt(p, &due.s, CQ_P_now, claimqNow(p));
    bMore = claimqStep(p, &due.s);
    if( bMore ) cqScheduleRead(p, &due);
    if( bMore && p->rc==SQLITE_OK ){
      due.nMost -= cqScheduleRun(p, &due, pTask, lane);
    }
    cqPlaceDone(&due.place);
    claimqStmtDone(p, &due.s);
    if( p->rc ) break;
  }
}

/*
** The functions that triggers and users call.
*/
CQ_PRIV const CqFuncDef *claimqScheduleFuncs(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_cron_next", .eKind = CQ_F_PURE, .nMin = 2, .nPure = 2,
      .aArg = cqCronNextArg, .nArg = CQ_ARRAYSIZE(cqCronNextArg),
      .xFunc = cqCronNextFunc, .zDoc = "when a schedule is due next" },
    { .zName = "claimq__schedule_sound", .eKind = CQ_F_PURE, .nMin = 2,
      .aArg = cqSoundArg, .nArg = CQ_ARRAYSIZE(cqSoundArg),
      .xFunc = cqScheduleSoundFunc, .zDoc = "for triggers of claimq's own" },
    { .zName = "claimq__zone_fault", .zDoc = "for statements of claimq's own",
      .eKind = CQ_F_READ, .bPlain = 1, .nMin = 2, .aArg = cqZoneFaultArg,
      .nArg = CQ_ARRAYSIZE(cqZoneFaultArg), .xFunc = cqZoneFaultFunc },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
