/*
** fuzz_schedule.h: schedules (a part of fuzz_ops.c).
**
** Number i puts jobs into lane i, with FZ_SCHEDULED+i as payload.  They become
** items when a claim has put them, and get their number like others.  All
** schedules here are of multiples of a period, so that it is known which jobs
** a claim has to put: these, and no others.
*/
#define FZ_SCHEDULED 1000

static const char *const fzSchedName[] = { "n0", "n1" };
static const struct { const char *zSpec; i64 nMs; } fzSpec[] = {
  { "every 10 ms", 10 }, { "every 70 ms", 70 }, { "every 1 s", 1000 },
  { "* * * * *", 60000 }, { "@hourly", 3600000 },
};

/* The first time of a schedule after iTime, -1 if there is none. */
static i64 fzTickAfter(const FzSched *p, i64 iTime){
  i64 n = fzSpec[p->iSpec].nMs;
  i64 iNext = (iTime/n+1)*n;
  return !p->bEnabled || iNext>p->iUntil ? -1 : iNext;
}

/* Define one, or define it anew.  The times of catch_up `all` are few. */
static void fzSchedule(void){
  static const char *const azCatchUp[] = { "one", "all", "none" };
  int i = fzChoose(FZ_NSCHED), iSpec = fzChoose(5), iCaps = fzChoose(4);
  int bGroup = fzChoose(2), nMore = fzChoose(6);
  FzSched *p = &fzM.aSched[i], old = *p;
  p->iSpec = iSpec;
  p->eCatchUp = (u8)fzChoose(3);
  p->mCaps = (u8)iCaps;
  p->bGrant = fzChoose(4)==3;
  p->bEnabled = fzChoose(6)!=5;
  p->iUntil = p->eCatchUp==1 || nMore==5
            ? fzAddSat(fzNow, nMore*fzSpec[iSpec].nMs) : FZ_I64_MAX;
  /* With the same spec its next time is kept. */
  p->iFrom = old.iSpec==iSpec && old.iNext>=0 && p->bEnabled
           ? old.iFrom : fzNow;
  /* What has come does not come again, by whatever spec and clock. */
  p->iLast = old.iSpec>=0 && old.bEnabled ? old.iLast : -1;
  if( p->iFrom<p->iLast ) p->iFrom = p->iLast;
  if( p->eCatchUp==1 && p->iFrom<fzNow ){
    p->iUntil = fzAddSat(p->iFrom, nMore*fzSpec[iSpec].nMs);
  }
  p->iNext = fzTickAfter(p, p->iFrom);
  fzBeginArgs();
  fzAdd(fzText(fzSchedName[i]));
  fzAdd(fzText(fzSpec[iSpec].zSpec));
  fzAdd(fzText(fzLane[i]));
  fzAdd(fzInt(FZ_SCHEDULED+i));
  fzOpt("catch_up", fzText(azCatchUp[p->eCatchUp]));
  fzOpt("capabilities", fzText(fzCapsText[iCaps]));
  if( bGroup ) fzOpt("group_key", fzText(fzGroup[0]));
  if( p->bGrant ) fzOpt("reclaim", fzText("grant"));
  if( !p->bEnabled ) fzOpt("enabled", fzInt(0));
  if( p->iUntil<FZ_I64_MAX ) fzOpt("until_at_ms", fzInt(p->iUntil));
  fzOpt("now_ms", fzInt(fzNow));
  fzFunc("claimq_schedule", "");
  if( p->iNext<0 ){
    if( fzA.eType!=SQLITE_NULL ) fzDie("schedule: %lld, not never", fzA.i);
  }else{
    fzExpect(p->iNext);
  }
}

static void fzUnschedule(void){
  int i = fzChoose(FZ_NSCHED);
  fzBeginArgs();
  fzAdd(fzText(fzSchedName[i]));
  fzOpt("now_ms", fzInt(fzNow));
  fzFunc("claimq_unschedule", "");
  fzExpect(fzM.aSched[i].iSpec>=0);
  fzM.aSched[i].iSpec = -1;
}

/* The times for which the claim in progress must put a job, and the jobs; -1:
** the schedule is not due. */
static int fzNTick;
static i64 fzTick[FZ_NTICK];
static int fzTicksRead;           /* The jobs are known */
static i64 fzTickFirst;           /* They have ids greater than this */

/* 1 if the job of a time was put before, and has not ended. */
static int fzTickOpen(int i, i64 iTime){
  FzVal a[3];
  a[0] = fzText(fzLane[i]);
  a[1] = fzText(fzSchedName[i]);
  a[2] = fzInt(iTime);
  return fzCount("SELECT count(*) FROM claimq_job WHERE lane=?1"
      " AND source_key='schedule:'||?2||':'||?3"
      " AND terminal_at_ms IS NULL", 3, a)>0;
}

/* Which jobs does a claim of lane i have to put?  None if it wants none. */
static void fzTicksDue(int i, int bWant){
  const FzSched *p = &fzM.aSched[i];
  i64 nMs, iTo, iLast, iTime;
  fzTicksRead = 0;
  fzTickFirst = fzM.nJob ? fzM.aJob[fzM.nJob-1].iJob : 0;
  fzNTick = -1;
  if( !bWant || p->iSpec<0 || p->iNext<0 || p->iNext>fzNow ) return;
  fzNTick = 0;
  nMs = fzSpec[p->iSpec].nMs;
  iTo = p->iUntil<fzNow ? p->iUntil : fzNow;
  iLast = iTo/nMs*nMs;
  if( p->eCatchUp==2 && iLast>p->iNext ) return;
  for(iTime = p->eCatchUp==1 ? p->iNext : iLast; iTime<=iLast; iTime += nMs){
    if( fzNTick>=FZ_NTICK ) fzDie("the model has no room for times");
    if( !fzTickOpen(i, iTime) ) fzTick[fzNTick++] = iTime;
  }
}

/* job_id, payload, created_at_ms, source_key: of a job that was put. */
static int fzTickRow(void *pArg, sqlite3_stmt *pStmt){
  int *pn = (int*)pArg;
  i64 iJob = sqlite3_column_int64(pStmt, 0);
  int i = sqlite3_column_int(pStmt, 1)-FZ_SCHEDULED;
  FzItem *p;
  char zKey[60];
  if( *pn>=fzNTick || sqlite3_column_int64(pStmt, 2)!=fzTick[*pn] ){
    fzDie("schedule n%d put job %lld, which it should not", i, iJob);
  }
  snprintf(zKey, sizeof(zKey), "schedule:n%d:%lld", i, fzTick[(*pn)++]);
  if( strcmp(zKey, fzColText(pStmt, 3)) ) fzDie("the key of %s", zKey);
  p = fzNewItem(FZ_LANE, i, -1);
  if( p==0 ) fzDie("the model has no room for jobs");
  p->mCaps = fzM.aSched[i].mCaps;
  p->bGrant = fzM.aSched[i].bGrant;
  fzAdmission(p);
  fzNewJob(fzM.nItem-1, iJob);
  return 1;
}

/* The claim of lane i has put what it should. */
static void fzTicksSeen(int i){
  FzVal v = fzInt(fzTickFirst);
  int n = 0;
  if( fzTicksRead ) return;
  fzTicksRead = 1;
  fzRun(&fzDb, "SELECT job_id, payload, created_at_ms, source_key"
      " FROM claimq_job WHERE job_id>?1 ORDER BY job_id", 1, &v, fzTickRow, &n);
  if( n<fzNTick ) fzDie("schedule n%d put %d jobs, not %d", i, n, fzNTick);
}

/* The jobs get their numbers, and the schedule goes on. */
static void fzTicksPut(int i){
  FzSched *p = &fzM.aSched[i];
  int j;
  fzTicksSeen(i);
  for(j=0; j<fzM.nJob; j++){
    if( fzM.aJob[j].iJob<=fzTickFirst ) continue;
    fzBeginArgs();
    fzAdd(fzInt(fzM.aJob[j].iItem));
    fzAdd(fzInt(fzM.aJob[j].iJob));
    fzGuarded("UPDATE claimq_job SET payload=?1 WHERE job_id=?2", "", 0, 0);
  }
  if( fzNTick<0 ) return;
  p->iFrom = p->iUntil<fzNow ? p->iUntil : fzNow;
  p->iFrom = p->iFrom/fzSpec[p->iSpec].nMs*fzSpec[p->iSpec].nMs;
  p->iLast = p->iFrom;
  p->iNext = fzTickAfter(p, p->iFrom);
}
