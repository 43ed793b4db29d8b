/*
** fuzz_ops.c: any history.
**
** An input is a list of up to 150 operations over all disciplines: work is
** added, claimed, renewed, settled with right and wrong tokens, cancelled,
** revoked, reclaimed, requeued, vacuumed; transactions and savepoints begin
** and end in both ways; the clock jumps forwards and backwards.  Jobs wait for
** others, have steps, are completed from outside, and schedules put jobs.
** Names are few, so that everything meets everything.
**
** After each step:
**   *  no item is under two live claims, and claims that count are in the
**      tables, with the expiry they were given; no others are
**   *  work is conserved: every item is exactly where the model says, once
**   *  a claim that is displaced or settled, or a wrong token, is refused, and
**      one that is neither is not
**   *  fencing tokens do not go back, except by rollback
**   *  no job runs before all that it waits for have ended, well unless it does
**      not mind; what failed takes those with it that wait for it; a job that
**      has ended never comes back
**   *  a step has the value that was stored first, and work that waits has all
**      its steps
**   *  a schedule puts one job for each of its times, and those times that it
**      should, whoever claims
**   *  a lane keeps what it says, for as long as it says, and ends it with an
**      event or without; no lease is longer than it allows, none that has ended
**      counts where it is strict, and nothing runs that needs a grant and has
**      none
**   *  a call that raised has changed nothing, and raised what it may raise
** At the end the database is sound.
*/
#include "fuzz_model.h"

#define FZ_NLEVEL 4

static FzImage fzImage;
static FzDb fzDb;
static FzIn fzI;
static FzModel fzSaved[FZ_NLEVEL];  /* Copies at BEGIN, SAVEPOINT */
static int fzLevel;
static sqlite3_stmt *fzReader;    /* A statement left open, or 0 */

static const char *const fzKey[] = { "k0", "k1" };
static const char *const fzOwner[] = { "o0", "o1" };
static const char *const fzVerbName[] = {
  "renew", "complete", "release", "retry", "reject", "guard"
};
static const char *const fzCapsText[] = {
  "[]", "[\"a\"]", "[\"b\"]", "[\"a\",\"b\"]"
};

static int fzChoose(int n){
  return fzBelow(&fzI, n);
}

/* A short time, sometimes none, sometimes for ever. */
static i64 fzTtl(void){
  static const i64 a[] = { 0, 1, 10, 10, 50, 100, 1000, FZ_I64_MAX };
  return a[fzChoose(8)];
}

/**************************************************************************
** Calls
*/
static FzVal fzArg[32];
static int fzNArg;

static void fzBeginArgs(void){ fzNArg = 0; }
static void fzAdd(FzVal v){ fzArg[fzNArg++] = v; }
static void fzOpt(const char *zName, FzVal v){
  fzAdd(fzText(zName));
  fzAdd(v);
}

/* The first column of a function's result. */
typedef struct FzAnswer FzAnswer;
struct FzAnswer {
  int eType;
  i64 i;
  char z[80];
};
static FzAnswer fzA;

static int fzAnswerRow(void *pArg, sqlite3_stmt *pStmt){
  const char *z = (const char*)sqlite3_column_text(pStmt, 0);
  (void)pArg;
  fzA.eType = sqlite3_column_type(pStmt, 0);
  fzA.i = sqlite3_column_int64(pStmt, 0);
  snprintf(fzA.z, sizeof(fzA.z), "%s", z ? z : "");
  return 1;
}

static char *fzCallSql(const char *zHead, const char *zName){
  sqlite3_str *pSql = sqlite3_str_new(0);
  int i;
  sqlite3_str_appendf(pSql, "%s%s(", zHead, zName);
  for(i=0; i<fzNArg; i++) sqlite3_str_appendf(pSql, "%s?%d", i ? "," : "", i+1);
  sqlite3_str_appendall(pSql, ")");
  return sqlite3_str_finish(pSql);
}

/*
** Run a statement of claimq's with fzArg[].  An error must be one of zAllowed,
** codes between blanks; it must have changed nothing.  Returns the code, 0 if
** all went well.
*/
static const char *fzGuarded(
  const char *zSql, const char *zAllowed, FzRowFunc xRow, void *pArg
){
  static FzMark mark;
  int bAuto = sqlite3_get_autocommit(fzDb.db);
  const char *zCode;
  char zWord[40];
  int rc;
  if( bAuto ) fzMark(&fzDb, &mark);
  rc = fzRun(&fzDb, zSql, fzNArg, fzArg, xRow, pArg);
  if( bAuto!=sqlite3_get_autocommit(fzDb.db) ) fzDie("%s: transaction", zSql);
  if( rc==SQLITE_OK ) return 0;
  zCode = fzCode(&fzDb);
  snprintf(zWord, sizeof(zWord), " %s ", zCode ? zCode : "?");
  if( strstr(zAllowed, zWord)==0 ) fzDie("%s: %d %s", zSql, rc, fzDb.zErr);
  if( bAuto && !fzSame(&fzDb, &mark) ) fzDie("%s raised and changed", zSql);
  return zCode;
}

/* SELECT zName(...): the answer is in fzA. */
static const char *fzFunc(const char *zName, const char *zAllowed){
  char *zSql = fzCallSql("SELECT ", zName);
  const char *zCode;
  memset(&fzA, 0, sizeof(fzA));
  zCode = fzGuarded(zSql, zAllowed, fzAnswerRow, 0);
  if( zCode==0 && fzDb.nRow!=1 ) fzDie("%s: no row", zSql);
  sqlite3_free(zSql);
  return zCode;
}

static int fzCountRow(void *pArg, sqlite3_stmt *pStmt){
  *(i64*)pArg = sqlite3_column_int64(pStmt, 0);
  return 1;
}

/* The number that a statement of the target's own gives.  (One text for all
** values: preparing takes longer.) */
static i64 fzCount(const char *zSql, int nArg, const FzVal *aArg){
  u8 bQuiet = fzDb.bQuiet;
  i64 n = 0;
  fzDb.bQuiet = 1;
  if( fzRun(&fzDb, zSql, nArg, aArg, fzCountRow, &n) ){
    fzDie("%s: %s", zSql, fzDb.zErr);
  }
  fzDb.bQuiet = bQuiet;
  return n;
}

static void fzExpect(i64 iWant){
  if( fzA.i!=iWant ) fzDie("answer %lld, not %lld", fzA.i, iWant);
}

/*
** SELECT zCols FROM zName(...), or through INSERT ... SELECT: writing
** statements allow claimq no savepoint of its own.
*/
static void fzClaimRows(const char *zCols, const char *zName, FzRowFunc xRow){
  static const char *const zMine = "INSERT INTO mine ";
  int bInsert = fzChoose(4)==3;
  char *zHead = sqlite3_mprintf("%sSELECT %s FROM ", bInsert ? zMine : "",
                                zCols);
  char *zSql = fzCallSql(zHead, zName);
  fzGuarded(zSql, "", bInsert ? 0 : xRow, 0);
  if( bInsert ){
    fzNArg = 0;
    fzRun(&fzDb, "SELECT * FROM mine ORDER BY rowid", 0, 0, xRow, 0);
    fzMust(&fzDb, "DELETE FROM mine");
  }
  sqlite3_free(zSql);
  sqlite3_free(zHead);
}

static const char *fzColText(sqlite3_stmt *pStmt, int i){
  const char *z = (const char*)sqlite3_column_text(pStmt, i);
  return z ? z : "";
}

/**************************************************************************
** New work
*/
static int fzKeyTaken(int eKind, int iScope, int iKey){
  int i;
  for(i=0; i<fzM.nItem && iKey>=0; i++){
    const FzItem *p = &fzM.aItem[i];
    if( p->eKind==eKind && p->iScope==iScope && p->iKey==iKey
     && p->eState==FZ_WAIT
    ){
      return i;
    }
  }
  return -1;
}

/* Options that enqueue and submit share; returns the source key or -1. */
static int fzWorkOptions(void){
  int iKey = fzChoose(6)-4;
  if( iKey>=0 ) fzOpt("source_key", fzText(fzKey[iKey]));
  if( fzChoose(4)==3 ) fzOpt("delay_ms", fzInt(fzTtl()));
  fzOpt("now_ms", fzInt(fzNow));
  return iKey<0 ? -1 : iKey;
}

static const char *const fzSession[] = { "s0", "s1" };
static const char *const fzLane[] = { "l0", "l1" };
static const char *const fzGroup[] = { "g0", "g1" };

static void fzEnqueue(void){
  int iScope = fzChoose(2), iKey, iOld;
  if( fzM.nItem>=FZ_NITEM ) return;
  fzBeginArgs();
  fzAdd(fzText(fzSession[iScope]));
  fzAdd(fzInt(fzM.nItem));
  iKey = fzWorkOptions();
  if( fzChoose(4) ) fzOpt("slot_policy", fzText("join"));
  if( fzChoose(16)==15 ) fzOpt("work_class", fzText("session_command"));
  if( fzChoose(16)==15 ) fzOpt("merge_key", fzText("group:g"));
  if( fzChoose(16)==15 ){
    fzOpt("delivery_policy", fzText("after_current_turn_commit"));
  }
  fzFunc("claimq_enqueue", "");
  iOld = fzKeyTaken(FZ_SESSION, iScope, iKey);
  if( iOld>=0 ){
    if( strcmp(fzM.aItem[iOld].zBatch, fzA.z) ) fzDie("enqueue: not the same");
  }else{
    FzItem *p = fzNewItem(FZ_SESSION, iScope, iKey);
    snprintf(p->zBatch, sizeof(p->zBatch), "%s", fzA.z);
  }
}

static int fzJobStored(i64 iJob){
  FzVal v = fzInt(iJob);
  return fzCount("SELECT count(*) FROM claimq_job WHERE job_id=?1", 1, &v)>0;
}

/*
** Options of a job that waits for others, mostly for some of the last.  aAfter
** gets which, *pbGone whether one of them is not stored any more.  Returns
** their number.  zList is for the option's text.
*/
static int fzAfterOptions(
  short *aAfter, char *zList, int nList, int *pbRun, int *pbGone
){
  int i, j, nAfter = 0, n = 1, nWant = fzChoose(8)-4;
  *pbRun = *pbGone = 0;
  if( nWant<=0 || fzM.nJob==0 ) return 0;
  snprintf(zList, (size_t)nList, "[");
  for(i=0; i<nWant; i++){
    int iJob = fzM.nJob-1 - fzChoose(fzM.nJob<12 ? fzM.nJob : 12);
    for(j=0; j<nAfter && aAfter[j]!=iJob; j++){}
    n += snprintf(&zList[n], (size_t)(nList-n), "%s%lld", i ? "," : "",
                  fzM.aJob[iJob].iJob);
    if( j<nAfter ) continue;
    aAfter[nAfter++] = (short)iJob;
    *pbGone |= !fzJobStored(fzM.aJob[iJob].iJob);
  }
  snprintf(&zList[n], (size_t)(nList-n), "]");
  fzOpt("after", fzText(zList));
  *pbRun = fzChoose(3)==2;
  if( *pbRun ) fzOpt("on_failure", fzText("run"));
  return nAfter;
}

/* The new job waits; or one it waits for has failed, and so it is cancelled. */
static void fzWaits(FzJob *p, const short *aAfter, int nAfter, int bRun){
  p->nAfter = (u8)nAfter;
  memcpy(p->aAfter, aAfter, (size_t)nAfter*sizeof(aAfter[0]));
  p->bRun = (u8)bRun;
  fzCascade();
}

static void fzSubmit(void){
  int iScope = fzChoose(2), iKey, iOld, iCaps = fzChoose(4), bGrant, iGroup;
  int nAfter, bRun, bGone, bFlow, eAdmit, iRuntime;
  short aAfter[FZ_NAFTER];
  char zList[100];
  const char *zCode;
  if( fzM.nItem>=FZ_NITEM ) return;
  fzBeginArgs();
  fzAdd(fzText(fzLane[iScope]));
  fzAdd(fzInt(fzM.nItem));
  iKey = fzWorkOptions();
  fzOpt("capabilities", fzText(fzCapsText[iCaps]));
  fzOpt("priority", fzInt(fzChoose(3)));
  bGrant = fzChoose(4)==3;
  if( bGrant ) fzOpt("reclaim", fzText("grant"));
  if( fzChoose(4)==3 ) fzOpt("max_reclaims", fzInt(fzChoose(2)));
  if( fzChoose(4)==3 ) fzOpt("max_attempts", fzInt(fzChoose(3)));
  iGroup = fzChoose(4);
  if( iGroup>1 ) fzOpt("group_key", fzText(fzGroup[iGroup-2]));
  nAfter = fzAfterOptions(aAfter, zList, sizeof(zList), &bRun, &bGone);
  bFlow = fzChoose(4)==3;
  if( bFlow ) fzOpt("flow_id", fzText("f"));
  eAdmit = fzChoose(16)-13;
  if( eAdmit<0 ) eAdmit = FZ_UNSAID;
  if( eAdmit ) fzOpt("admission", fzText(eAdmit==FZ_AUTO ? "auto" : "grant"));
  iRuntime = fzChoose(8)-5;
  if( iRuntime>0 ) fzOpt("max_runtime_ms", fzInt(iRuntime*iRuntime*20));
  iOld = fzKeyTaken(FZ_LANE, iScope, iKey);
  zCode = fzFunc("claimq_submit", bGone ? " not_found " : "");
  if( iOld>=0 ){
    if( zCode || fzM.aItem[iOld].iRow!=fzA.i ) fzDie("submit: not the same");
  }else if( zCode==0 ){
    FzItem *p = fzNewItem(FZ_LANE, iScope, iKey);
    FzJob *pJob = fzNewJob(fzM.nItem-1, fzA.i);
    if( bGone ) fzDie("submit: after a job that is gone");
    p->mCaps = (u8)iCaps;
    p->bGrant = (u8)bGrant;
    p->eAdmit = (u8)eAdmit;
    fzAdmission(p);
    if( iRuntime>0 ) p->iRuntime = iRuntime*iRuntime*20;
    pJob->bFlow = (u8)bFlow;
    fzWaits(pJob, aAfter, nAfter, bRun);
  }
}

/* Message numbers have no gaps. */
static void fzPublished(int iPart, i64 iSeq, FzItem *p){
  if( iSeq!=++fzM.aPart[iPart].iLast ) fzDie("seq %lld: a gap", iSeq);
  p->iRow = iSeq;
}

static void fzPublish(void){
  int iPart = fzChoose(FZ_NPART);
  if( fzM.nItem>=FZ_NITEM ) return;
  fzBeginArgs();
  fzAdd(fzText("q"));
  fzAdd(fzInt(fzM.nItem));
  fzOpt("partition", fzInt(iPart));
  fzOpt("now_ms", fzInt(fzNow));
  fzFunc("claimq_publish", "");
  fzPublished(iPart, fzA.i, fzNewItem(FZ_OUTBOX, iPart, -1));
}

/* The id that a batch inserted plainly gets as soon as claimq writes it. */
#define FZ_BATCH_ID \
  "claimq__batch_id(session, source_key, enqueued_at_ms, enqueue_seq)"

/* Plain INSERT: defaults, and the calls that look next, do the rest. */
static void fzInsert(void){
  int iScope = fzChoose(2);
  FzItem *p;
  if( fzM.nItem>=FZ_NITEM ) return;
  fzBeginArgs();
  fzAdd(fzInt(fzM.nItem));
  fzAdd(fzInt(iScope));
  fzAdd(fzInt(fzNow));
  switch( fzChoose(3) ){
    case 0:
      fzGuarded("INSERT INTO claimq_batch(session, payload, enqueued_at_ms)"
          " VALUES('s'||?2, ?1, ?3)", "", 0, 0);
      p = fzNewItem(FZ_SESSION, iScope, -1);
      fzNArg = 0;
      fzGuarded("SELECT " FZ_BATCH_ID " FROM claimq_batch"
          " ORDER BY enqueue_seq DESC LIMIT 1", "", fzAnswerRow, 0);
      snprintf(p->zBatch, sizeof(p->zBatch), "%s", fzA.z);
      break;
    case 1:
      fzGuarded("INSERT INTO claimq_job(lane, payload, created_at_ms,"
          " available_at_ms) VALUES('l'||?2, ?1, ?3, ?3+5)", "", 0, 0);
      fzNewItem(FZ_LANE, iScope, -1);
      fzNewJob(fzM.nItem-1, sqlite3_last_insert_rowid(fzDb.db));
      break;
    default:
      fzGuarded("INSERT INTO claimq_message(queue, partition, payload,"
          " created_at_ms) VALUES('q', ?2, ?1, ?3)", "", 0, 0);
      fzPublished(iScope, fzM.aPart[iScope].iLast+1,
                  fzNewItem(FZ_OUTBOX, iScope, -1));
  }
}

static int fzBulkRow(void *pArg, sqlite3_stmt *pStmt){
  int iItem = sqlite3_column_int(pStmt, 0);
  FzItem *p = &fzM.aItem[iItem];
  (void)pArg;
  if( p->eKind==FZ_LANE ) fzNewJob(iItem, sqlite3_column_int64(pStmt, 1));
  else snprintf(p->zBatch, sizeof(p->zBatch), "%s", fzColText(pStmt, 1));
  return 1;
}

/* Enough that fall due at once for claims to have to promote them. */
static void fzBulk(void){
  int i, eKind = fzChoose(2) ? FZ_LANE : FZ_SESSION;
  int iFirst = fzM.nItem;
  if( fzM.nItem+70>FZ_NITEM ) return;
  fzBeginArgs();
  fzAdd(fzInt(iFirst));
  fzAdd(fzInt(iFirst+69));
  fzAdd(fzInt(fzNow));
  for(i=0; i<70; i++) fzNewItem(eKind, 0, -1);
  if( eKind==FZ_SESSION ){
    fzGuarded("WITH c(i) AS (SELECT ?1 UNION ALL SELECT i+1 FROM c WHERE i<?2)"
        " INSERT INTO claimq_batch(session, payload, enqueued_at_ms,"
        " available_at_ms) SELECT 's0', i, ?3, ?3+10 FROM c", "", 0, 0);
    fzNArg = 1;
    fzGuarded("SELECT payload, " FZ_BATCH_ID " FROM claimq_batch"
        " WHERE payload>=?1", "", fzBulkRow, 0);
  }else{
    fzGuarded("WITH c(i) AS (SELECT ?1 UNION ALL SELECT i+1 FROM c WHERE i<?2)"
        " INSERT INTO claimq_job(lane, payload, created_at_ms,"
        " available_at_ms) SELECT 'l0', i, ?3, ?3+10 FROM c", "", 0, 0);
    fzNArg = 1;
    fzGuarded("SELECT payload, job_id FROM claimq_job WHERE payload>=?1"
        " ORDER BY job_id", "", fzBulkRow, 0);
  }
}

#include "fuzz_schedule.h"

/**************************************************************************
** Claims.  All ask for these columns: the payload first.
*/
#define FZ_CLAIM_COLS "claim_id, lease_token, fencing_token, expires_at_ms"
#define FZ_COLS "payload, " FZ_CLAIM_COLS ", 0, 0"

static int fzClaimKind;           /* What is being claimed */
static i64 fzClaimTtl;
static int fzClaimScope;          /* Session, lane, partition; -1: any */
static int fzClaimCaps;
static i64 fzClaimMax;
static int fzClaimRow;            /* Rows so far */

/* The claim of a row, a new one if it is not the one before.  p: its job, or
** 0. */
static void fzRowClaim(int iScope, sqlite3_stmt *pStmt, const FzItem *p){
  const char *zId = fzColText(pStmt, 1);
  i64 iExpires = sqlite3_column_int64(pStmt, 4);
  int bNew = fzClaimRow==0 || fzClaimKind==FZ_LANE;
  if( iExpires!=fzEnds(p, fzNow, fzClaimTtl) ) fzDie("%s: expiry", zId);
  if( fzClaimRow>=fzClaimMax ) fzDie("%s: more rows than asked for", zId);
  if( bNew ){
    fzNewClaim(fzClaimKind, iScope, zId, fzColText(pStmt, 2), iExpires);
  }else if( strcmp(zId, fzM.aClaim[fzM.nClaim-1].zId) ){
    fzDie("%s: one claim expected", zId);
  }
  fzClaimRow++;
}

/* A row of claimq, claimq_lane or claimq_dead_letter. */
static int fzItemRow(void *pArg, sqlite3_stmt *pStmt){
  i64 i = sqlite3_column_int64(pStmt, 0);
  FzItem *p;
  (void)pArg;
  if( fzClaimKind==FZ_LANE && i>=FZ_SCHEDULED ){
    fzTicksSeen(fzClaimScope);
    i = fzJobOf(sqlite3_column_int64(pStmt, 5))->iItem;
  }
  if( i<0 || i>=fzM.nItem ) fzDie("unknown item %lld", i);
  p = &fzM.aItem[i];
  fzRowClaim(0, pStmt, fzClaimKind==FZ_LANE ? p : 0);
  if( fzClaimKind==FZ_LETTER ){
    if( p->eState!=FZ_DEAD ) fzDie("item %lld is no dead letter", i);
  }else if( p->eState!=FZ_WAIT || p->eKind!=fzClaimKind
         || (fzClaimScope>=0 && p->iScope!=fzClaimScope)
  ){
    fzDie("item %lld does not wait there", i);
  }
  fzTake((int)i, fzNow);
  if( fzClaimKind==FZ_LANE ){
    const FzJob *pJob = fzJobOf(p->iRow);
    if( p->mCaps & ~fzClaimCaps ) fzDie("item %lld: not capable", i);
    if( pJob->eEnd!=FZ_OPEN ) fzDie("job %lld has ended", p->iRow);
    if( fzBlocked(pJob) ) fzDie("job %lld runs before others", p->iRow);
    if( fzDoomed(pJob) ) fzDie("job %lld runs after a failure", p->iRow);
    if( fzNeedsGrant(p) ) fzDie("job %lld needs a grant", p->iRow);
    fzForgetSettled(p->iRow);
    fzM.aClaim[fzM.nClaim-1].iJob = p->iRow;
    p->bActive = p->bAdmitted = 1;
  }
  return 1;
}

static int fzRoomForClaims(void){
  return fzM.nClaim+FZ_NMEMBER<FZ_NCLAIM;
}

/* Begin the arguments of a claim with these; ttl and maximum follow. */
static void fzClaimArgs(int eKind){
  static const u8 aMax[] = { 1, 1, 1, 2, 2, 3, 4, FZ_NMEMBER, FZ_NMEMBER, 0 };
  fzClaimKind = eKind;
  fzClaimRow = 0;
  fzClaimTtl = fzTtl();
  fzClaimMax = aMax[fzChoose(10)];
  fzAdd(fzText(fzOwner[fzChoose(2)]));
  fzAdd(fzInt(fzClaimTtl));
  fzAdd(fzInt(fzClaimMax));
  fzAdd(fzNull());
}

static void fzClaimSession(void){
  static const char *const azTake[] = {
    "any", "any", "any", "turn_work", "session_command"
  };
  if( !fzRoomForClaims() ) return;
  fzBeginArgs();
  fzClaimScope = fzChoose(3)-1;
  fzAdd(fzClaimScope<0 ? fzNull() : fzText(fzSession[fzClaimScope]));
  fzClaimArgs(FZ_SESSION);
  fzAdd(fzText(fzChoose(8)==7 ? "active_turn_checkpoint" : "idle"));
  fzAdd(fzText(azTake[fzChoose(5)]));
  fzAdd(fzNull());
  fzAdd(fzInt(fzNow));
  fzClaimRows(FZ_COLS, "claimq", fzItemRow);
}

static int fzSpentRow(void *pArg, sqlite3_stmt *pStmt){
  FzItem *p = &fzM.aItem[sqlite3_column_int64(pStmt, 0)];
  (void)pArg;
  if( p->eState!=FZ_WAIT || p->iRow!=sqlite3_column_int64(pStmt, 1) ) return 1;
  if( p->iClaim<0 || fzLive(p->iClaim, fzNow) ) fzDie("failed while live");
  fzForgetSettled(p->iRow);
  fzOver(p->iClaim);
  p->eState = FZ_DEAD;
  p->bActive = 0;
  fzEndJob(p->iRow, FZ_FAILED);
  return 1;
}

/* No claim that was just made is one too many. */
static void fzCheckLimits(void){
  int i;
  for(i=fzM.nClaim-fzClaimRow; i<fzM.nClaim; i++){
    FzVal a[2];
    a[0] = fzText(fzM.aClaim[i].zId);
    a[1] = fzInt(fzNow);
    if( fzCount("SELECT count(*) FROM claimq_policy AS l, ("
        "SELECT lane, group_key, count(*) AS n FROM claimq_job"
        " WHERE expires_at_ms>?2 GROUP BY lane, group_key"
        " UNION ALL SELECT lane, NULL, count(*) FROM claimq_job"
        " WHERE expires_at_ms>?2 GROUP BY lane) AS u, claimq_job AS j"
        " WHERE j.claim_id=?1 AND j.expires_at_ms>?2"
        " AND l.lane=j.lane AND u.lane=j.lane"
        " AND (l.paused OR u.group_key IS NULL AND u.n>l.max_active"
        "   OR u.group_key=j.group_key AND u.n>l.group_max_active)", 2, a) ){
      fzDie("claim %s is one too many", fzM.aClaim[i].zId);
    }
  }
}

/* claimq_next_at() for the claim in progress; -1: never. */
static i64 fzLaneNextAt(void){
  FzVal a[3];
  a[0] = fzText(fzLane[fzClaimScope]);
  a[1] = fzText(fzCapsText[fzClaimCaps]);
  a[2] = fzInt(fzNow);
  return fzCount("SELECT ifnull(claimq_next_at('lane', ?1, 'capabilities', ?2,"
                 " 'now_ms', ?3), -1)", 3, a);
}

/*
** A lane claim may find expired jobs that were reclaimed too often, and puts
** those of the lane's schedule first.
*/
static void fzClaimLane(void){
  i64 iNext;
  if( !fzRoomForClaims() || fzM.nItem+FZ_NTICK>FZ_NITEM ) return;
  fzBeginArgs();
  fzClaimScope = fzChoose(2);
  fzAdd(fzText(fzLane[fzClaimScope]));
  fzClaimArgs(FZ_LANE);
  fzClaimCaps = fzChoose(8);
  if( fzClaimCaps>3 ) fzClaimCaps = 3;
  fzAdd(fzText(fzCapsText[fzClaimCaps]));
  fzAdd(fzInt(0));
  fzAdd(fzInt(fzNow));
  fzTicksDue(fzClaimScope, fzClaimMax>0);
  iNext = fzLaneNextAt();
  fzClaimRows("payload, " FZ_CLAIM_COLS ", job_id, 0", "claimq_lane",
              fzItemRow);
  fzTicksPut(fzClaimScope);
  if( fzClaimRow>0 && iNext!=fzNow ) fzDie("next_at %lld, but now", iNext);
  if( fzClaimMax>0 && fzClaimRow==0 && iNext==fzNow && fzNTick<0 ){
    fzDie("next_at is now, but nothing came");
  }
  fzNArg = 0;
  fzGuarded("SELECT payload, job_id FROM claimq_job"
      " WHERE state='failed' AND settled_by='reclaim_cap'", "", fzSpentRow, 0);
  fzCheckLimits();
}

/* A lane says what is not a limit: n is 0 for what holds without a policy. */
static FzVal fzPolicyWord(FzPolicy *p, int e, int n){
  static const i64 aRuntime[] = { 0, 1, 30, 400 };
  static const i64 aKeep[] = { 7*FZ_DAY, 0, 60, -1 };
  static const i64 aKeepFailed[] = { 30*FZ_DAY, 0, 60, -1 };
  FzVal v = fzInt(n & 1);
  switch( e ){
    case 9:  p->bStrict = n & 1;                                break;
    case 10: p->iRuntime = aRuntime[n];  v = fzInt(aRuntime[n]);  break;
    case 11: p->iKeep = aKeep[n];        v = fzInt(aKeep[n]);     break;
    case 12: p->iKeepFailed = aKeepFailed[n];
             v = fzInt(aKeepFailed[n]);                         break;
    case 13: p->bQuiet = n==2;                                  break;
    default: p->bAdmission = n & 1;
             v = fzText(n & 1 ? "grant" : "auto");              break;
  }
  return n ? v : fzNull();
}

/* Limits and other words of a policy come, change and go. */
static void fzLimit(void){
  static const char *const azName[] = {
    "max_active", "group_max_active", "fair", "rate", "group_rate",
    "paused", "max_attempts", "max_reclaims", "backoff_ms",
    "strict", "max_runtime_ms", "keep_ms", "keep_failed_ms", "events",
    "admission"
  };
  int e = fzChoose(15), n = fzChoose(4), iLane = fzChoose(2);
  fzBeginArgs();
  fzAdd(fzText(fzLane[iLane]));
  if( e>8 ) fzOpt(azName[e], fzPolicyWord(&fzM.aPolicy[iLane], e, n));
  else fzOpt(azName[e], n ? fzInt(e==2 || e==5 ? n & 1 : n-1) : fzNull());
  if( e==3 || e==4 ){
    fzOpt(e==3 ? "per_ms" : "group_per_ms",
          n ? fzInt(1+fzChoose(200)) : fzNull());
  }
  fzOpt("now_ms", fzInt(fzNow));
  fzFunc("claimq_policy", "");
}

/* A row of claimq_outbox: in order, after the cursor. */
static int fzMessageRow(void *pArg, sqlite3_stmt *pStmt){
  int iPart = sqlite3_column_int(pStmt, 5);
  i64 iSeq = sqlite3_column_int64(pStmt, 6);
  int bNew = fzClaimRow==0;
  FzClaim *p;
  (void)pArg;
  if( iPart<0 || iPart>=FZ_NPART ) fzDie("partition %d", iPart);
  if( fzClaimScope>=0 && iPart!=fzClaimScope ) fzDie("not that partition");
  fzRowClaim(iPart, pStmt, 0);
  p = &fzM.aClaim[fzM.nClaim-1];
  if( bNew ){
    if( fzLive(fzM.aPart[iPart].iClaim, fzNow) ) fzDie("two holders");
    fzOver(fzM.aPart[iPart].iClaim);
    fzM.aPart[iPart].iClaim = (short)(fzM.nClaim-1);
    p->iFirst = fzM.aPart[iPart].iCursor+1;
  }
  if( iSeq!=p->iFirst+p->nMsg ) fzDie("message %lld out of order", iSeq);
  p->nMsg++;
  return 1;
}

static void fzClaimOutbox(void){
  if( !fzRoomForClaims() ) return;
  fzBeginArgs();
  fzClaimScope = fzChoose(FZ_NPART+1)-1;
  fzAdd(fzText("q"));
  fzClaimArgs(FZ_OUTBOX);
  fzAdd(fzClaimScope<0 ? fzNull() : fzInt(fzClaimScope));
  fzAdd(fzInt(fzNow));
  fzClaimRows("payload, " FZ_CLAIM_COLS ", partition, seq", "claimq_outbox",
              fzMessageRow);
}

static void fzClaimLetter(void){
  static const char *const azSource[] = {
    0, 0, 0, "session", "lane", "outbox"
  };
  const char *zSource;
  if( !fzRoomForClaims() ) return;
  fzBeginArgs();
  zSource = azSource[fzChoose(6)];
  fzAdd(fzNull());
  fzClaimArgs(FZ_LETTER);
  fzAdd(fzText(zSource));
  fzAdd(fzInt(fzNow));
  fzClaimRows(FZ_COLS, "claimq_dead_letter", fzItemRow);
}

/* The one row of claimq_contest. */
static int fzContestRow(void *pArg, sqlite3_stmt *pStmt){
  int i = fzClaimScope;
  i64 iFence = sqlite3_column_int64(pStmt, 3);
  (void)pArg;
  if( strcmp(fzColText(pStmt, 0), "claimed")==0 ){
    if( fzLive(fzM.aSubj[i].iClaim, fzNow) ) fzDie("two holders");
    if( fzM.aSubj[i].iKeep>fzNow ) fzDie("claimed, though kept back");
    if( iFence<=fzM.iFence ) fzDie("contest: token %lld again", iFence);
    fzOver(fzM.aSubj[i].iClaim);
    fzRowClaim(i, pStmt, 0);
    fzM.iFence = iFence;
    fzM.aSubj[i].iClaim = (short)(fzM.nClaim-1);
    fzM.aSubj[i].iKeep = 0;
  }else if( fzClaimTtl>0 && !fzLive(fzM.aSubj[i].iClaim, fzNow)
         && fzM.aSubj[i].iKeep<=fzNow
  ){
    fzDie("yield, but to whom?");
  }
  return 1;
}

static void fzContest(void){
  if( !fzRoomForClaims() ) return;
  fzBeginArgs();
  fzClaimScope = fzChoose(FZ_NSUBJ);
  fzClaimKind = FZ_CONTEST;
  fzClaimTtl = fzTtl();
  fzClaimMax = 1;
  fzClaimRow = 0;
  fzAdd(fzText("label"));
  fzAdd(fzText(fzOwner[fzChoose(2)]));
  fzAdd(fzInt(fzClaimTtl));
  fzAdd(fzNull());
  fzAdd(fzInt(fzClaimScope));
  fzAdd(fzInt(fzNow));
  fzClaimRows("outcome, " FZ_CLAIM_COLS ", 0, 0", "claimq_contest",
              fzContestRow);
}

/**************************************************************************
** The verbs
*/
/* One of the last claims, -1 if there is none. */
static int fzLastClaim(int n){
  int i = fzM.nClaim-1-fzChoose(n);
  return i<0 && fzM.nClaim>0 ? 0 : i;
}

/* Options that cannot be (a count of processed messages, a job that waits for
** itself): bad_argument. */
static int fzBadCount;

/* The items of claim p go to this state, and nobody has them. */
static void fzSettle(FzClaim *p, int eState){
  int i;
  for(i=0; i<p->nItem; i++){
    FzItem *pItem = &fzM.aItem[p->aItem[i]];
    pItem->bActive = 0;
    if( eState>=0 ) pItem->eState = (u8)eState;
  }
  fzOver((int)(p-fzM.aClaim));
}

/* Sessions and letters: one claim of several rows. */
static void fzSettleMany(FzClaim *p, int eVerb){
  int bLetter = p->eKind==FZ_LETTER;
  if( eVerb!=FZ_RETRY ) fzExpect(p->nItem);
  else if( strcmp(fzA.z, "retry") ) fzDie("retry: %s", fzA.z);
  switch( eVerb ){
    case FZ_COMPLETE: fzSettle(p, FZ_DONE);                       break;
    case FZ_REJECT:   fzSettle(p, bLetter ? FZ_DONE : FZ_DEAD);   break;
    default:          fzSettle(p, bLetter ? FZ_DEAD : FZ_WAIT);   break;
  }
}

/*
** Option after of a release: jobs, of which some may be younger.  fzBadCount:
** one of them waits for this job, or is it.
*/
static short fzPark[FZ_NAFTER];
static int fzNPark;

static int fzWaitsFor(int iJob, int iFor, int nDeep){
  const FzJob *p = &fzM.aJob[iJob];
  int i;
  if( iJob==iFor ) return 1;
  if( p->eEnd!=FZ_OPEN || !fzBlocked(p) || nDeep>FZ_NJOB ) return 0;
  for(i=0; i<p->nAfter; i++){
    if( fzWaitsFor(p->aAfter[i], iFor, nDeep+1) ) return 1;
  }
  return 0;
}

static void fzParkOption(const FzClaim *p, char *zList, int nList){
  int i, n = 1, nWant = 1+fzChoose(FZ_NAFTER);
  int iSelf = (int)(fzJobOf(p->iJob)-fzM.aJob);
  snprintf(zList, (size_t)nList, "[");
  for(i=0; i<nWant; i++){
    int iJob = fzM.nJob-1 - fzChoose(fzM.nJob<12 ? fzM.nJob : 12);
    n += snprintf(&zList[n], (size_t)(nList-n), "%s%lld", i ? "," : "",
                  fzM.aJob[iJob].iJob);
    fzBadCount |= fzWaitsFor(iJob, iSelf, 0);
    if( fzM.aJob[iJob].eEnd==FZ_OPEN ) fzPark[fzNPark++] = (short)iJob;
  }
  snprintf(&zList[n], (size_t)(nList-n), "]");
  fzOpt("after", fzText(zList));
}

static void fzSettleLane(FzClaim *p, int eVerb){
  p->eSettled = (u8)(eVerb==FZ_RELEASE ? 0 : eVerb+1);
  if( eVerb==FZ_RETRY ){
    p->bDead = strcmp(fzA.z, "dead")==0;
    if( !p->bDead && strcmp(fzA.z, "retry") ) fzDie("retry: %s", fzA.z);
    fzSettle(p, p->bDead ? FZ_DEAD : FZ_WAIT);
    if( p->bDead ) fzEndJob(p->iJob, FZ_FAILED);
    return;
  }
  fzExpect(1);
  fzSettle(p, eVerb==FZ_COMPLETE ? FZ_DONE
            : eVerb==FZ_REJECT ? FZ_DEAD : FZ_WAIT);
  if( eVerb==FZ_COMPLETE ){
    fzEndJob(p->iJob, FZ_COMPLETED);
    if( fzM.aPolicy[fzM.aItem[p->aItem[0]].iScope].iKeep==0
     && fzJobStored(p->iJob)
    ){
      fzDie("job %lld is kept", p->iJob);
    }
  }
  if( eVerb==FZ_REJECT ) fzEndJob(p->iJob, FZ_FAILED);
  if( eVerb==FZ_RELEASE && fzNPark ){
    FzJob *pJob = fzJobOf(p->iJob);
    memcpy(pJob->aAfter, fzPark, sizeof(fzPark));
    pJob->nAfter = (u8)fzNPark;
    pJob->bRun = 1;
  }
}

/* nDone messages are processed (bit i of mLetter: number i is rejected); those
** after them wait, or are dead letters. */
static void fzSettleOutbox(FzClaim *p, int eVerb, i64 nDone, int mLetter){
  i64 iDone = p->iFirst+nDone-1, iLast = p->iFirst+p->nMsg-1;
  int i;
  for(i=0; i<fzM.nItem; i++){
    FzItem *pItem = &fzM.aItem[i];
    i64 iSeq = pItem->iRow;
    if( pItem->eKind!=FZ_OUTBOX || pItem->iScope!=p->iScope
     || pItem->eState!=FZ_WAIT || iSeq<p->iFirst || iSeq>iLast
    ){
      continue;
    }
    if( iSeq<=iDone ){
      pItem->eState = (mLetter>>(iSeq-p->iFirst))&1 ? FZ_DEAD : FZ_DONE;
    }else if( eVerb==FZ_REJECT ){
      pItem->eState = FZ_DEAD;
    }
  }
  if( eVerb==FZ_COMPLETE ) fzExpect(nDone);
  if( eVerb==FZ_RELEASE ) fzExpect(p->nMsg);
  if( eVerb==FZ_REJECT ) fzExpect(p->nMsg-nDone);
  fzM.aPart[p->iScope].iCursor = eVerb==FZ_REJECT ? iLast : iDone;
  fzOver((int)(p-fzM.aClaim));
}

static void fzSettleContest(FzClaim *p, int eVerb, i64 nKeep){
  int i = p->iScope;
  if( eVerb!=FZ_RETRY ) fzExpect(1);
  fzOver((int)(p-fzM.aClaim));
  if( nKeep>0 ) fzM.aSubj[i].iKeep = fzAddSat(fzNow, nKeep);
}

/*
** Options of the outbox: how many are processed, and which of them are
** rejected.
*/
static i64 fzOutboxOptions(
  const FzClaim *p, int eVerb, int *pmLetter, char *zList, int nList
){
  i64 nDone = eVerb==FZ_COMPLETE ? p->nMsg : 0;
  int i, n = 0;
  *pmLetter = 0;
  if( eVerb!=FZ_COMPLETE && eVerb!=FZ_RETRY && eVerb!=FZ_REJECT ) return 0;
  if( fzChoose(2) ){
    nDone = fzChoose(10)-1;
    fzOpt("processed", fzInt(nDone));
    fzBadCount = nDone<0 || nDone>p->nMsg;
    if( nDone<0 ) nDone = 0;
    if( nDone>p->nMsg ) nDone = p->nMsg;
  }
  if( eVerb==FZ_COMPLETE && fzChoose(3)==2 ){
    *pmLetter = fzByte(&fzI) & ((1<<nDone)-1);
    n += snprintf(zList, (size_t)nList, "[");
    for(i=0; i<nDone; i++){
      if( ((*pmLetter>>i)&1)==0 ) continue;
      n += snprintf(&zList[n], (size_t)(nList-n),
          "%s{\"seq\":%lld,\"reason\":\"r\"}", n>1 ? "," : "", p->iFirst+i);
    }
    snprintf(&zList[n], (size_t)(nList-n), "]");
    fzOpt("rejected", fzText(zList));
  }
  return nDone;
}

/* The job is there yet, so that a settlement can be repeated. */
static int fzRepeats(const FzClaim *p, int eVerb){
  return p->eKind==FZ_LANE && p->eSettled==eVerb+1 && fzJobStored(p->iJob);
}

/* The claim counts and the verb was done. */
static void fzVerbDone(FzClaim *p, int eVerb, i64 nDone, int mLetter,
                       i64 nKeep){
  if( eVerb==FZ_GUARD ){
    fzExpect(1);
    return;
  }
  switch( p->eKind ){
    case FZ_SESSION:
    case FZ_LETTER:  fzSettleMany(p, eVerb); break;
    case FZ_LANE:    fzSettleLane(p, eVerb); break;
    case FZ_OUTBOX:  fzSettleOutbox(p, eVerb, nDone, mLetter); break;
    default:         fzSettleContest(p, eVerb, nKeep); break;
  }
}

/* The verb was refused or not: is that right? */
static void fzVerbCheck(
  const FzClaim *p, int eVerb, int bRight, const char *zCode
){
  int bLost = zCode && strcmp(zCode, "claim_lost")==0;
  if( p->eKind==FZ_CONTEST && eVerb==FZ_REJECT ){
    if( zCode==0 || bLost ) fzDie("a contest was rejected");
  }else if( fzBadCount && zCode && strcmp(zCode, "bad_argument")==0 ){
    /* Refused, and nothing is settled. */
  }else if( zCode && strcmp(zCode, "no_slot")==0 ){
    /* It has expired, and the slot is taken. */
    if( p->eKind!=FZ_LANE || eVerb!=FZ_RENEW || !bRight || fzLost(p)
     || p->iExpires>fzNow
    ){
      fzDie("%s of claim %s: %s", fzVerbName[eVerb], p->zId, fzDb.zErr);
    }
  }else if( !bRight ){
    /* A release of what is over has nothing to do, whatever the token. */
    if( !bLost && !(eVerb==FZ_RELEASE && fzLost(p) && fzA.i==0) ){
      fzDie("a wrong token was accepted for %s", p->zId);
    }
  }else if( !fzLost(p) ){
    if( fzBadCount ) fzDie("claim %s took a count that cannot be", p->zId);
    if( zCode ) fzDie("claim %s counts, but: %s", p->zId, fzDb.zErr);
  }else if( eVerb==FZ_RELEASE ){
    if( zCode || fzA.i!=0 ) fzDie("release of %s, which is over", p->zId);
  }else if( fzRepeats(p, eVerb) ){
    if( zCode ) fzDie("%s: a settlement could not be repeated", p->zId);
    if( eVerb==FZ_RETRY && p->bDead!=(strcmp(fzA.z, "dead")==0) ){
      fzDie("%s: repeated, and %s", p->zId, fzA.z);
    }
  }else if( !bLost ){
    fzDie("claim %s is over, and was accepted", p->zId);
  }
}

/* The item of a claim of a job; 0 of another. */
static const FzItem *fzRuns(const FzClaim *p){
  return p->eKind==FZ_LANE ? &fzM.aItem[p->aItem[0]] : 0;
}

static void fzVerb(void){
  int eVerb = fzChoose(6), bRight, mLetter = 0;
  i64 nDone = 0, nKeep = 0, iTtl = fzTtl();
  char zList[400], zName[40];
  const char *zCode;
  FzClaim *p;
  if( fzM.nClaim==0 ) return;
  p = &fzM.aClaim[fzLastClaim(12)];
  fzBadCount = 0;
  fzNPark = 0;
  bRight = fzChoose(8)!=7;
  fzBeginArgs();
  fzAdd(fzText(p->zId));
  fzAdd(fzText(bRight ? p->zToken : fzM.aClaim[fzChoose(fzM.nClaim)].zToken));
  bRight = strcmp(fzArg[1].z, p->zToken)==0;
  if( eVerb==FZ_RETRY || eVerb==FZ_REJECT ) fzAdd(fzText("reason"));
  if( eVerb==FZ_RENEW ) fzAdd(fzInt(iTtl));
  fzOpt("now_ms", fzInt(fzNow));
  if( eVerb!=FZ_RENEW && eVerb!=FZ_GUARD ){
    if( (eVerb==FZ_RELEASE || eVerb==FZ_RETRY) && fzChoose(3)==2 ){
      fzOpt("delay_ms", fzInt(iTtl));
      nKeep = iTtl;
    }
    if( p->eKind==FZ_OUTBOX ){
      nDone = fzOutboxOptions(p, eVerb, &mLetter, zList, sizeof(zList));
    }
    if( p->eKind==FZ_LANE && eVerb==FZ_RELEASE && fzChoose(2) ){
      fzParkOption(p, zList, sizeof(zList));
    }
  }
  snprintf(zName, sizeof(zName), "claimq_%s", fzVerbName[eVerb]);
  zCode = fzFunc(zName, " claim_lost bad_argument no_slot ");
  fzVerbCheck(p, eVerb, bRight, zCode);
  if( zCode || fzLost(p) ) return;
  if( eVerb==FZ_RENEW ){
    fzExpect(fzEnds(fzRuns(p), p->iBegan, iTtl));
    p->iExpires = fzA.i;
  }else{
    fzVerbDone(p, eVerb, nDone, mLetter, nKeep);
  }
}

/**************************************************************************
** Cancel, revoke, grant, reclaim, requeue, vacuum, fence
*/

/* Some item of a kind, 0 if there is none.  Often one that a claim has. */
static FzItem *fzSomeItem(int eKind){
  int i, n = fzM.nItem ? fzByte(&fzI) % fzM.nItem : 0;
  int iClaim = fzLastClaim(8);
  if( iClaim>=0 && fzM.aClaim[iClaim].nItem>0 ){
    const FzClaim *p = &fzM.aClaim[iClaim];
    n = p->aItem[n % p->nItem];
  }
  for(i=0; i<fzM.nItem; i++){
    FzItem *p = &fzM.aItem[(n+i)%fzM.nItem];
    if( p->eKind==eKind ) return p;
  }
  return 0;
}

/* The work is gone, and the claim that has it is lost.  If none has it, how the
** last one was settled can still be said again. */
static void fzGone(FzItem *p, int eState){
  if( p->eKind==FZ_LANE && p->iClaim>=0 ) fzForgetSettled(p->iRow);
  fzDisplace(p);
  p->eState = (u8)eState;
  p->bActive = 0;
}

static void fzCancel(void){
  int eKind = fzChoose(2) ? FZ_LANE : FZ_SESSION, bForce = 0;
  FzItem *p = fzSomeItem(eKind);
  const char *zWant = "missing";
  if( p==0 ) return;
  fzBeginArgs();
  fzAdd(eKind==FZ_LANE ? fzInt(p->iRow) : fzText(p->zBatch));
  fzOpt("now_ms", fzInt(fzNow));
  if( eKind==FZ_LANE && fzChoose(3)==2 ){
    bForce = 1;
    fzOpt("force", fzInt(1));
  }
  fzFunc("claimq_cancel", "");
  if( p->eState==FZ_WAIT ){
    zWant = fzLive(p->iClaim, fzNow) && !bForce ? "claimed" : "cancelled";
  }
  if( strcmp(fzA.z, zWant) ) fzDie("cancel: %s, not %s", fzA.z, zWant);
  if( strcmp(zWant, "cancelled")==0 ){
    fzGone(p, FZ_DONE);
    if( eKind==FZ_LANE ) fzEndJob(p->iRow, FZ_CANCELLED);
  }
}

/* All jobs of the flow that nobody holds, or also those; and what waits for
** them. */
static void fzCancelFlow(void){
  int i, n = 0, bForce = fzChoose(2);
  short aJob[FZ_NJOB];
  fzBeginArgs();
  fzAdd(fzText("f"));
  fzOpt("force", fzInt(bForce));
  fzOpt("now_ms", fzInt(fzNow));
  fzFunc("claimq_cancel_flow", "");
  for(i=0; i<fzM.nJob; i++){
    const FzJob *p = &fzM.aJob[i];
    if( p->bFlow && p->eEnd==FZ_OPEN
     && (bForce || !fzLive(fzM.aItem[p->iItem].iClaim, fzNow))
    ){
      aJob[n++] = (short)i;
    }
  }
  fzExpect(n);
  for(i=0; i<n; i++){
    const FzJob *p = &fzM.aJob[aJob[i]];
    if( p->eEnd!=FZ_OPEN ) continue;
    fzGone(&fzM.aItem[p->iItem], FZ_DONE);
    fzEndJob(p->iJob, FZ_CANCELLED);
  }
}

static void fzRevoke(void){
  FzItem *p = fzSomeItem(FZ_LANE);
  int bHeld;
  if( p==0 ) return;
  fzBeginArgs();
  fzAdd(fzInt(p->iRow));
  fzOpt("now_ms", fzInt(fzNow));
  if( fzFunc("claimq_revoke", p->eState==FZ_WAIT ? "" : " not_found ") ) return;
  bHeld = p->eState==FZ_WAIT && p->iClaim>=0;
  if( strcmp(fzA.z, bHeld ? "revoked" : "no_active_lease") ){
    fzDie("revoke: %s", fzA.z);
  }
  if( !bHeld ) return;
  fzForgetSettled(p->iRow);
  fzOver(p->iClaim);
  p->bActive = p->bGrant;
}

static void fzGrant(void){
  FzItem *p = fzSomeItem(FZ_LANE);
  int bOk, bFirst, bGiven;
  if( p==0 ) return;
  fzBeginArgs();
  fzAdd(fzInt(p->iRow));
  fzAdd(fzText(fzOwner[fzChoose(2)]));
  fzAdd(fzInt(fzTtl()));
  fzOpt("now_ms", fzInt(fzNow));
  bFirst = p->eState==FZ_WAIT && fzNeedsGrant(p)
        && !fzBlocked(fzJobOf(p->iRow));
  bOk = bFirst || (p->eState==FZ_WAIT && p->bActive && p->bGrant
     && !fzLive(p->iClaim, fzNow));
  bGiven = fzFunc("claimq_grant", " not_found not_reclaimable ")==0;
  if( bGiven!=bOk && p->eAdmit!=FZ_UNKNOWN ){
    fzDie("grant of job %lld: %s", p->iRow, fzDb.zErr);
  }
  if( bGiven && bFirst ) p->eAdmit = FZ_GRANT;
}

static FzItem *fzReclaimed;

static int fzReclaimRow(void *pArg, sqlite3_stmt *pStmt){
  const char *zOutcome = fzColText(pStmt, 0);
  FzItem *p = fzReclaimed;
  (void)pArg;
  if( strcmp(zOutcome, "claimed")==0 ){
    if( p->eState!=FZ_WAIT
     || (!p->bActive && !fzNeedsGrant(p) && p->eAdmit!=FZ_UNKNOWN)
    ){
      fzDie("reclaimed: not active");
    }
    fzRowClaim(0, pStmt, p);
    p->bActive = p->bAdmitted = 1;
    fzTake((int)(p-fzM.aItem), fzNow);
    fzForgetSettled(p->iRow);
    fzM.aClaim[fzM.nClaim-1].iJob = p->iRow;
  }else if( strcmp(zOutcome, "reclaim_cap_exceeded")==0 ){
    if( fzLive(p->iClaim, fzNow) ) fzDie("failed while live");
    fzGone(p, FZ_DEAD);
    fzEndJob(p->iRow, FZ_FAILED);
  }
  return 1;
}

static void fzReclaim(void){
  FzItem *p = fzSomeItem(FZ_LANE);
  if( p==0 || !fzRoomForClaims() ) return;
  fzReclaimed = p;
  fzBeginArgs();
  fzClaimKind = FZ_LANE;
  fzClaimTtl = fzTtl();
  fzClaimMax = 1;
  fzClaimRow = 0;
  fzAdd(fzInt(p->iRow));
  fzAdd(fzText(fzOwner[fzChoose(2)]));
  fzAdd(fzInt(fzClaimTtl));
  fzAdd(fzNull());
  fzAdd(fzChoose(4)==3 ? fzInt(fzChoose(3)) : fzNull());
  fzAdd(fzInt(fzNow));
  fzClaimRows("outcome, " FZ_CLAIM_COLS ", 0, 0", "claimq_reclaim",
              fzReclaimRow);
}

/* A letter: its id, and its item. */
typedef struct FzLetterRef FzLetterRef;
struct FzLetterRef {
  i64 iLetter;
  FzItem *pItem;
};

static int fzLetterRow(void *pArg, sqlite3_stmt *pStmt){
  FzLetterRef *p = (FzLetterRef*)pArg;
  p->iLetter = sqlite3_column_int64(pStmt, 0);
  p->pItem = &fzM.aItem[sqlite3_column_int64(pStmt, 1)];
  return 0;
}

/* The letter became work again. */
static void fzRequeued(FzItem *p, int bProof){
  u8 bFlow = p->eKind==FZ_LANE ? fzJobOf(p->iRow)->bFlow : 0;
  if( bProof ) fzShrink(p);
  else fzDisplace(p);
  if( fzKeyTaken(p->eKind, p->iScope, p->iKey)>=0 ) p->iKey = -1;
  p->eState = FZ_WAIT;
  p->bActive = p->bAdmitted = 0;
  p->eAdmit = FZ_UNKNOWN;
  switch( p->eKind ){
    case FZ_SESSION: snprintf(p->zBatch, sizeof(p->zBatch), "%s", fzA.z); break;
    case FZ_LANE:    fzNewJob((int)(p-fzM.aItem), fzA.i)->bFlow = bFlow; break;
    default:         fzPublished(p->iScope, fzA.i, p); break;
  }
}

static void fzRequeue(void){
  FzLetterRef r = { 0, 0 };
  int bProof;
  const char *zCode, *zWant = 0;
  fzBeginArgs();
  fzAdd(fzInt(fzChoose(8)));
  fzGuarded("SELECT letter_id, payload FROM claimq_letter"
      " WHERE status IN ('pending','reprocessing') ORDER BY letter_id"
      " LIMIT 1 OFFSET ?1", "", fzLetterRow, &r);
  if( r.pItem==0 ) return;
  if( r.pItem->eState!=FZ_DEAD ) fzDie("letter %lld is not dead", r.iLetter);
  bProof = r.pItem->iClaim>=0 && fzChoose(2);
  if( bProof ){
    if( fzM.aClaim[r.pItem->iClaim].bOver ) zWant = "claim_lost";
  }else if( fzLive(r.pItem->iClaim, fzNow) ){
    zWant = "conflict";
  }
  fzBeginArgs();
  fzAdd(fzInt(r.iLetter));
  fzOpt("now_ms", fzInt(fzNow));
  if( bProof ){
    fzOpt("claim_id", fzText(fzM.aClaim[r.pItem->iClaim].zId));
    fzOpt("lease_token", fzText(fzM.aClaim[r.pItem->iClaim].zToken));
  }
  zCode = fzFunc("claimq_requeue", " conflict claim_lost ");
  if( zCode!=zWant && (zCode==0 || zWant==0 || strcmp(zCode, zWant)) ){
    fzDie("requeue: %s", fzDb.zErr);
  }
  if( zCode==0 ) fzRequeued(r.pItem, bProof);
}

static void fzLook(const char *zSql, FzRowFunc xRow){
  if( fzRun(&fzDb, zSql, 0, 0, xRow, 0) ) fzDie("%s: %s", zSql, fzDb.zErr);
}

#include "fuzz_step.h"

static void fzVacuum(void){
  int i;
  fzBeginArgs();
  if( fzChoose(2) ) fzOpt("max", fzInt(fzChoose(5)));
  if( fzChoose(2) ){
    fzOpt("older_than_ms", fzInt(fzTtl()));
    for(i=0; i<fzM.nJob; i++) fzM.aJob[i].bMayGo |= fzM.aJob[i].eEnd!=FZ_OPEN;
  }
  fzOpt("now_ms", fzInt(fzNow));
  fzFunc("claimq_vacuum", "");
  if( fzA.i<0 ) fzDie("vacuum: %lld", fzA.i);
}

static void fzFence(void){
  int i = fzChoose(FZ_NRES);
  i64 iToken = fzChoose(20);
  fzBeginArgs();
  fzAdd(fzText(i ? "r1" : "r0"));
  fzAdd(fzInt(iToken));
  fzFunc("claimq_fence", "");
  fzExpect(iToken>=fzM.aSeen[i]);
  if( iToken>fzM.aSeen[i] ) fzM.aSeen[i] = iToken;
}

/**************************************************************************
** Transactions and time
*/
static void fzBeginTxn(void){
  static const char *const azSave[] = {
    "SAVEPOINT p0", "SAVEPOINT p1", "SAVEPOINT p2", "SAVEPOINT p3"
  };
  static const char *const azBegin[] = { "BEGIN", "BEGIN IMMEDIATE" };
  int e = fzChoose(3);
  if( fzLevel>=FZ_NLEVEL ) return;
  fzMust(&fzDb, fzLevel==0 && e<2 ? azBegin[e] : azSave[fzLevel]);
  fzSaved[fzLevel++] = fzM;
}

/* 0: ROLLBACK TO, 1: RELEASE, 2: ROLLBACK, 3: COMMIT. */
static void fzEndTxn(int e){
  char zSql[40];
  if( fzLevel==0 ) return;
  if( e<2 && fzLevel>1 ){
    fzLevel--;
    if( e==0 ){
      fzM = fzSaved[fzLevel];
      snprintf(zSql, sizeof(zSql), "ROLLBACK TO p%d", fzLevel);
      fzMust(&fzDb, zSql);
    }
    snprintf(zSql, sizeof(zSql), "RELEASE p%d", fzLevel);
    fzMust(&fzDb, zSql);
    return;
  }
  fzMust(&fzDb, e==0 || e==2 ? "ROLLBACK" : "COMMIT");
  if( e==0 || e==2 ) fzM = fzSaved[0];
  fzLevel = 0;
}

/* When the claim ends; now if it does not. */
static i64 fzClaimEnd(int iClaim){
  if( iClaim<0 || fzM.aClaim[iClaim].iExpires>FZ_I64_MAX/2 ) return fzNow;
  return fzM.aClaim[iClaim].iExpires;
}

/* When a schedule is due; now if none is. */
static i64 fzNextTick(int i){
  const FzSched *p = &fzM.aSched[i];
  return p->iSpec<0 || p->iNext<0 ? fzNow : p->iNext;
}

/* The clock jumps; often to where a claim is just live, or just not, or to when
** a schedule is due. */
static void fzJump(void){
  static const i64 a[] = { 1, 10, 50, 100, 1000, 60000, -1, -10, -100, -60000 };
  int i = fzChoose(24), iClaim = fzLastClaim(8);
  if( i==10 ) fzNow = fzNow>1000 ? 1000 : 0;
  else if( i==11 ) fzNow = fzNow>1000000 ? 1000 : FZ_I64_MAX/2;
  else if( i>19 ) fzNow = fzNextTick(i%FZ_NSCHED);
  else if( i>11 ) fzNow = fzClaimEnd(iClaim) + i%3-1;
  else fzNow = fzAddSat(fzNow, a[i]>0 ? a[i] : 0) + (a[i]<0 ? a[i] : 0);
  if( fzNow<0 ) fzNow = 0;
  if( fzTracing() ) fprintf(stderr, "-- now %lld\n", fzNow);
}

/* A statement of the user's that reads meanwhile. */
static void fzReaderToggle(void){
  if( fzReader ){
    sqlite3_finalize(fzReader);
    fzReader = 0;
  }else{
    sqlite3_prepare_v2(fzDb.db, "SELECT * FROM claimq_meta, claimq_batch", -1,
                       &fzReader, 0);
    sqlite3_step(fzReader);
  }
  if( fzTracing() ) fprintf(stderr, "-- reader %s\n", fzReader ? "on" : "off");
}

/**************************************************************************
** Invariants, by looking into the tables
*/
static u8 fzPlace[FZ_NITEM][4];   /* Times seen waiting in its kind, dead */
static int fzHeld[FZ_NKIND];      /* Rows that carry a claim */

/* A row carries claim zClaim; the model says iClaim. */
static void fzCheckClaim(int eKind, const char *zClaim, int iClaim, i64 iEnd){
  if( iClaim<0 || strcmp(zClaim, fzM.aClaim[iClaim].zId) ){
    fzDie("%s has a row that is not its own", zClaim);
  }
  if( fzM.aClaim[iClaim].iExpires!=iEnd ) fzDie("%s: wrong end", zClaim);
  fzHeld[eKind]++;
}

/* kind, key, fencing_token, payload, waits, claim_id, expires_at_ms */
static int fzCheckRow(void *pArg, sqlite3_stmt *pStmt){
  int eKind = sqlite3_column_int(pStmt, 0);
  i64 iKey = sqlite3_column_int64(pStmt, 1);
  i64 iFence = sqlite3_column_int64(pStmt, 2);
  i64 iItem = sqlite3_column_int64(pStmt, 3);
  const char *zClaim = (const char*)sqlite3_column_text(pStmt, 5);
  int iClaim = -1;
  (void)pArg;
  if( iKey<FZ_NROW ){
    if( iFence<fzM.aRowFence[eKind][iKey] ) fzDie("a token went back");
    fzM.aRowFence[eKind][iKey] = iFence;
  }
  if( eKind==FZ_OUTBOX ){
    iClaim = fzM.aPart[iKey-1].iClaim;
  }else if( eKind==FZ_CONTEST ){
    iClaim = fzM.aSubj[iItem].iClaim;
  }else{
    if( iItem<0 || iItem>=fzM.nItem ) fzDie("unknown item %lld", iItem);
    if( sqlite3_column_int(pStmt, 4) ){
      fzPlace[iItem][eKind]++;
      iClaim = fzM.aItem[iItem].iClaim;
    }
  }
  if( zClaim ) fzCheckClaim(eKind, zClaim, iClaim,
                            sqlite3_column_int64(pStmt, 6));
  return 1;
}

static int fzMessageSeen(void *pArg, sqlite3_stmt *pStmt){
  i64 iItem = sqlite3_column_int64(pStmt, 0);
  (void)pArg;
  if( iItem<0 || iItem>=fzM.nItem ) fzDie("unknown item %lld", iItem);
  fzPlace[iItem][FZ_OUTBOX]++;
  return 1;
}

/* job_id, state, events */
static int fzJobRow(void *pArg, sqlite3_stmt *pStmt){
  static const char *const azEnd[] = { 0, "completed", "failed", "cancelled" };
  FzJob *p = fzJobOf(sqlite3_column_int64(pStmt, 0));
  const char *zState = fzColText(pStmt, 1);
  i64 nEvent = sqlite3_column_int64(pStmt, 2);
  (void)pArg;
  p->bSeen = 1;
  if( nEvent!=(p->eEnd!=FZ_OPEN && p->bEvent) && !(p->bMayGo && nEvent==0) ){
    fzDie("job %lld has %lld events", p->iJob, nEvent);
  }
  if( p->eEnd!=FZ_OPEN ){
    if( strcmp(zState, azEnd[p->eEnd]) ){
      fzDie("job %lld is %s, not %s", p->iJob, zState, azEnd[p->eEnd]);
    }
  }else if( fzBlocked(p)!=(strcmp(zState, "blocked")==0) ){
    fzDie("job %lld is %s", p->iJob, zState);
  }
  return 1;
}

/* 1 if the lane of the job says that it need not be kept any longer. */
static int fzMayGo(const FzJob *p){
  const FzPolicy *pP = &fzM.aPolicy[fzM.aItem[p->iItem].iScope];
  i64 iKeep = p->eEnd==FZ_FAILED ? pP->iKeepFailed : pP->iKeep;
  return p->eEnd!=FZ_OPEN && iKeep>=0 && fzAddSat(p->iEnd, iKeep)<=fzNow;
}

/* What others wait for is kept, and what is not old enough. */
static void fzCheckJobs(void){
  int i, j;
  for(i=0; i<fzM.nJob; i++){
    const FzJob *p = &fzM.aJob[i];
    if( !p->bSeen && !p->bMayGo ) fzDie("job %lld went too early", p->iJob);
    if( p->eEnd==FZ_OPEN && !p->bSeen ) fzDie("job %lld is lost", p->iJob);
    for(j=0; p->eEnd==FZ_OPEN && fzBlocked(p) && j<p->nAfter; j++){
      if( !fzM.aJob[p->aAfter[j]].bSeen ){
        fzDie("job %lld waits for one that is gone", p->iJob);
      }
    }
  }
}

static void fzScan(void){
  int i;
  for(i=0; i<fzM.nJob; i++){
    fzM.aJob[i].bSeen = 0;
    fzM.aJob[i].bMayGo |= fzMayGo(&fzM.aJob[i]);
  }
  memset(fzPlace, 0, sizeof(fzPlace));
  memset(fzHeld, 0, sizeof(fzHeld));
  fzLook("SELECT 0, enqueue_seq, fencing_token, payload, 1, claim_id,"
      " expires_at_ms FROM claimq_batch", fzCheckRow);
  fzLook("SELECT 1, job_id, fencing_token, payload, terminal_at_ms IS NULL,"
      " claim_id, expires_at_ms FROM claimq_job", fzCheckRow);
  fzLook("SELECT 2, partition_id, fencing_token, 0, 0, claim_id,"
      " expires_at_ms FROM claimq_partition", fzCheckRow);
  fzLook("SELECT 3, letter_id, fencing_token, payload,"
      " status IN ('pending','reprocessing'), claim_id, expires_at_ms"
      " FROM claimq_letter", fzCheckRow);
  fzLook("SELECT 4, holder_id, fencing_token, kind, 0, claim_id,"
      " expires_at_ms FROM claimq_holder", fzCheckRow);
  fzLook("SELECT m.payload FROM claimq_message AS m, claimq_partition AS p"
      " WHERE p.queue=m.queue AND p.partition=m.partition"
      " AND (m.seq IS NULL OR m.seq>p.processed_seq)", fzMessageSeen);
  fzLook("SELECT job_id, state, (SELECT count(*) FROM claimq_event AS e"
      " WHERE e.job_id=j.job_id) FROM claimq_job AS j", fzJobRow);
  fzCheckJobs();
}

static void fzCheckItem(int i){
  const FzItem *p = &fzM.aItem[i];
  int j;
  for(j=0; j<4; j++){
    int nWant = p->eState==FZ_WAIT ? j==p->eKind
              : p->eState==FZ_DEAD ? j==FZ_LETTER : 0;
    if( fzPlace[i][j]!=nWant ){
      fzDie("item %d (kind %d, state %d): %d times in place %d", i, p->eKind,
            p->eState, fzPlace[i][j], j);
    }
  }
}

static void fzCheck(void){
  int aWant[FZ_NKIND], i;
  memset(aWant, 0, sizeof(aWant));
  fzDb.bQuiet = 1;
  fzScan();
  fzCheckSteps();
  for(i=0; i<fzM.nItem; i++){
    const FzItem *p = &fzM.aItem[i];
    fzCheckItem(i);
    if( p->iClaim>=0 ) aWant[p->eState==FZ_DEAD ? FZ_LETTER : p->eKind]++;
  }
  for(i=0; i<FZ_NPART; i++) aWant[FZ_OUTBOX] += fzM.aPart[i].iClaim>=0;
  for(i=0; i<FZ_NSUBJ; i++) aWant[FZ_CONTEST] += fzM.aSubj[i].iClaim>=0;
  for(i=0; i<FZ_NKIND; i++){
    if( fzHeld[i]!=aWant[i] ){
      fzDie("kind %d: %d rows are held, not %d", i, fzHeld[i], aWant[i]);
    }
  }
  i = (int)fzOne(&fzDb, "SELECT count(*) FROM claimq_attempt"
                        " WHERE outcome IS NULL");
  if( i!=aWant[FZ_LANE] ) fzDie("%d attempts run, not %d", i, aWant[FZ_LANE]);
  fzDb.bQuiet = 0;
}

/**************************************************************************
** Histories
*/
static int fzProblem(void *pArg, sqlite3_stmt *pStmt){
  (void)pArg;
  fzDie("claimq_check finds %s", fzColText(pStmt, 0));
  return 0;
}

static void fzStep(void){
  switch( fzChoose(54) ){
    case 0: case 1: case 2:            fzEnqueue(); break;
    case 3: case 4: case 5:            fzSubmit(); break;
    case 6: case 7:                    fzPublish(); break;
    case 8: case 9: case 10:           fzClaimSession(); break;
    case 11: case 12: case 13:         fzClaimLane(); break;
    case 14: case 15:                  fzClaimOutbox(); break;
    case 16:                           fzContest(); break;
    case 17: case 18:                  fzClaimLetter(); break;
    case 19: case 20: case 21: case 22:
    case 23: case 24: case 25:         fzVerb(); break;
    case 26: case 27:                  fzCancel(); break;
    case 28:                           fzRevoke(); break;
    case 29:                           fzGrant(); break;
    case 30:                           fzReclaim(); break;
    case 31: case 32:                  fzRequeue(); break;
    case 33:                           fzVacuum(); break;
    case 34:                           fzFence(); break;
    case 35:                           fzBeginTxn(); break;
    case 36:                           fzEndTxn(fzChoose(4)); break;
    case 37: case 38: case 39:         fzJump(); break;
    case 40:                           fzInsert(); break;
    case 41:                           fzReaderToggle(); break;
    case 42: case 43:                  fzLimit(); break;
    case 44: case 45: case 46:         fzSchedule(); break;
    case 47:                           fzUnschedule(); break;
    case 48:                           fzCancelFlow(); break;
    case 49: case 50:                  fzWorkStep(); break;
    case 51: case 52:                  fzResolve(); break;
    default:                           fzBulk(); break;
  }
}

/* Do something n times as these bytes say. */
static void fzPlay(int n, void (*xStep)(void), const char *zBytes, int nByte){
  FzIn saved = fzI;
  while( n-- > 0 ){
    fzI.a = (const uint8_t*)zBytes;
    fzI.n = (size_t)nByte;
    fzI.i = 0;
    xStep();
  }
  fzI = saved;
}

/* How a history begins: with nothing, with work, with dead letters as well,
** with schedules and jobs that wait for others. */
static void fzPrologue(int e){
  if( e==0 ) return;
  if( e==3 ){
    fzPlay(1, fzSchedule, "\0\0\0\0\4\1", 6);
    fzPlay(1, fzSchedule, "\1", 1);
    fzPlay(3, fzSubmit, "\0\0\0\0\0\0\0\0\0\5\0\0\3", 13);
    fzPlay(2, fzSubmit, "\0\0\0\0\0\0\0\0\0\6\1\2\2", 13);
    fzCheck();
    return;
  }
  fzPlay(5, fzEnqueue, "\0\0\0\1", 4);
  fzPlay(2, fzEnqueue, "\1\0\0\1", 4);
  fzPlay(4, fzSubmit, "\0", 1);
  fzPlay(4, fzPublish, "\0", 1);
  if( e==2 ){
    fzPlay(1, fzClaimSession, "\1\5\7", 3);
    fzPlay(1, fzVerb, "\4", 1);
    fzPlay(1, fzClaimLane, "\0\5\3\0\3", 5);
    fzPlay(1, fzVerb, "\4", 1);
    fzPlay(1, fzVerb, "\4\0\1", 3);
    fzPlay(1, fzClaimOutbox, "\1\5\4", 3);
    fzPlay(1, fzVerb, "\4", 1);
  }
  fzCheck();
}

static void fzBeginOps(void){
  FzDb db;
  fzSetup();
  memset(&db, 0, sizeof(db));
  if( sqlite3_open(":memory:", &db.db) ) fzDie("open");
  fzMust(&db, "PRAGMA page_size=512");
  if( sqlite3_claimq_init(db.db, 0, 0) ) fzDie("loading failed");
  fzMust(&db, "SELECT claimq_init('all', 1)");
  fzMust(&db, "SELECT claimq_queue('q', 3)");
  fzMust(&db, "SELECT claimq_policy('other', 'max_active', 1)");
  fzMust(&db, "CREATE TABLE mine(a,b,c,d,e,f,g)");
  fzImage = fzSave(&db);
  fzClose(&db);
}

int LLVMFuzzerTestOneInput(const uint8_t *aData, size_t nData){
  int i;
  if( fzImage.a==0 ) fzBeginOps();
  memset(&fzM, 0, sizeof(fzM));
  for(i=0; i<FZ_NPART; i++) fzM.aPart[i].iClaim = -1;
  for(i=0; i<FZ_NSUBJ; i++) fzM.aSubj[i].iClaim = -1;
  for(i=0; i<FZ_NSCHED; i++) fzM.aSched[i].iSpec = -1;
  for(i=0; i<2; i++){
    fzM.aPolicy[i].iKeep = 7*FZ_DAY;
    fzM.aPolicy[i].iKeepFailed = 30*FZ_DAY;
  }
  fzI.a = aData;
  fzI.n = nData;
  fzI.i = 0;
  fzNow = 1000;
  fzLevel = 0;
  fzReader = 0;
  fzBorrow(&fzDb, &fzImage);
  fzPrologue(fzChoose(4));
  for(i=0; i<150 && fzMore(&fzI); i++){
    fzStep();
    fzCheck();
  }
  if( fzReader ) sqlite3_finalize(fzReader);
  fzEndTxn(fzByte(&fzI) & 1 ? 3 : 2);
  fzCheck();
  fzDb.bQuiet = 1;
  fzLook("SELECT table_name||' '||row_key||': '||problem FROM claimq_check",
         fzProblem);
  fzDb.bQuiet = 0;
  fzIntegrity(&fzDb);
  fzReturn(&fzDb);
  return 0;
}
