/*
** bench_extra.c: what limits, turns, schedules and dependencies cost.
**
**     lane.max_active    claim+complete in a lane with max_active 100
**     lane.rate          ... with a rate, 1,000 in 10 ms
**     lane.groups        ... each of 10,000 groups one at a time
**     lane.fair          ... and they take turns
**     lane.all           ... with all these limits and a rate for each group
**     lane.full          ... behind 10,000 groups that are at their limit
**     lane.full.idle     an idle claim there
**     lane.scheduled     claim+complete in a lane with a schedule to come
**     lane.schedule      a claim that puts the job of a schedule, and complete
**     lane.after         ten jobs, one that waits for them: their whole life
**     submit.group       a submit with a group_key where groups are kept
**     session.any        claim+complete of a session, with any_session
**     session.next       the same of any session
**     lane.keep          claim+complete, when for each job that ends one goes,
**                        beside a lane in which nothing is old enough
**     lane.vacuum        ... beside one that keeps all, with claimq_vacuum()
**                        after each hundredth job
**     lane.gone          claim+complete in a lane that keeps no job, by
**                        keep_ms 0, beside the floor, which keeps none either
**     lane.step          a step, beside a guard and an INSERT by hand
**     session.held       complete+claim, when 15 others always hold what is in
**                        front, beside the same when nobody does
**     lane.held          the same in a lane
**
** What is beside it, in the place of the floor, is a lane of claimq without
** that: the same jobs, the same calls, in a database that never had a limit, a
** schedule or a dependency.  So a ratio tells what the feature costs those who
** use it.  (That those who do not pay nothing is for the other groups to tell.)
*/
#include "bench.h"
#include <stdio.h>
#include <string.h>

#define BN_GROUPS 10000
#define BN_PARTS  10              /* Jobs that one waits for */

typedef struct BnExtra BnExtra;
struct BnExtra {
  BnWork work;
  const char *zAfter;             /* Run on both sides once jobs are there */
  int nDepth;                     /* Jobs that wait while we measure */
  int nFirst;                     /* Operations before we count; 0: do not */
};

/* A side: what makes it, what fills it, the claim, another statement, and
** whether rows carry jobs to tick off. */
#define BN_LANE(SETUP, FILL, TAKE, MORE, NONE) { \
    .zName = "lane", .bClaimq = 1, .bEach = 1, .bNoPayload = NONE, \
    .zSchema = "SELECT claimq_init();" SETUP, \
    .azSql = { \
      [BN_PUT] = "SELECT claimq_submit(?1,?2)", \
      [BN_FILL] = "INSERT INTO claimq_job(lane,priority,payload,group_key)" \
        BN_NUMBERS "SELECT " BN_SCOPE ",i%10," BN_PAYLOAD "," FILL " FROM c", \
      [BN_TAKE] = "SELECT claim_id, lease_token, payload FROM " TAKE, \
      [BN_DONE] = "SELECT claimq_complete(?1,?2)", \
      [BN_MORE] = MORE, \
      [BN_REST] = NONE ? "SELECT count(*) FROM claimq_job" \
                         " WHERE terminal_at_ms IS NULL" \
        : "SELECT payload FROM claimq_job WHERE terminal_at_ms IS NULL", \
    }, \
    .xTake = benchTakeClaimq, \
  }
#define BN_CLAIM   "claimq_lane(?1,'worker-1',?2,?3)"
#define BN_KEYLESS "NULL"
#define BN_KEYS    "'g'||(i%10000)"
#define BN_PLAIN(FILL) BN_LANE("", FILL, BN_CLAIM, 0, 0)
#define BN_LIMITED(LIMIT, FILL) \
  BN_LANE("SELECT claimq_policy('s'," LIMIT ")", FILL, BN_CLAIM, 0, 0)

static const BnQueue bnMaxActive[BN_NSIDE] = {
  BN_PLAIN(BN_KEYLESS), BN_LIMITED("'max_active',100", BN_KEYLESS)
};
static const BnQueue bnRate[BN_NSIDE] = {
  BN_PLAIN(BN_KEYLESS), BN_LIMITED("'rate',1000,'per_ms',10", BN_KEYLESS)
};
static const BnQueue bnGroups[BN_NSIDE] = {
  BN_PLAIN(BN_KEYLESS), BN_LIMITED("'group_max_active',1", BN_KEYS)
};
static const BnQueue bnFair[BN_NSIDE] = {
  BN_PLAIN(BN_KEYLESS), BN_LIMITED("'group_max_active',1,'fair',1", BN_KEYS)
};

/* Those of the groups in front were made first: BN_GROUPS of them. */
#define BN_BEHIND "iif(i<10000,'g','free')||(i%10000)"
static const BnQueue bnFull[BN_NSIDE] = {
  BN_PLAIN(BN_BEHIND), BN_LIMITED("'group_max_active',1", BN_BEHIND)
};

static const BnQueue bnAll[BN_NSIDE] = {
  BN_PLAIN(BN_KEYLESS),
  BN_LIMITED("'max_active',100,'rate',1000,'per_ms',10,'group_max_active',1,"
             "'group_rate',1000,'group_per_ms',10,'fair',1", BN_KEYS)
};

static const BnQueue bnScheduled[BN_NSIDE] = {
  BN_PLAIN(BN_KEYLESS),
  BN_LANE("SELECT claimq_schedule('n','@yearly','s','x')", BN_KEYLESS,
          BN_CLAIM, 0, 0)
};

/* The clock of the claim is the time of the schedule. */
static const BnQueue bnSchedule[BN_NSIDE] = {
  BN_LANE("", BN_KEYLESS, BN_CLAIM, "SELECT claimq_submit('s','x')", 1),
  BN_LANE("SELECT claimq_schedule('n','every 1 h','s','x')", BN_KEYLESS,
      "claimq_lane WHERE lane=?1 AND owner='worker-1' AND lease_ms=?2"
      " AND max=?3 AND now_ms=("
      "SELECT next_at_ms FROM claimq_schedule WHERE name='n')", 0, 1)
};

static const BnQueue bnAfter[BN_NSIDE] = {
  BN_LANE("", BN_KEYLESS, BN_CLAIM, "SELECT claimq_submit(?1,?2)", 0),
  BN_LANE("", BN_KEYLESS, BN_CLAIM, "SELECT claimq_submit(?1,?2,'after',?3)", 0)
};

static const BnQueue bnSubmitGroup[BN_NSIDE] = {
  BN_PLAIN(BN_KEYLESS), {
    .zName = "lane", .bClaimq = 1,
    .zSchema = "SELECT claimq_init();"
      "SELECT claimq_policy('s','group_max_active',1)",
    .azSql = {
      [BN_PUT] = "SELECT claimq_submit(?1,?2,'group_key','g7')",
      [BN_FILL] = "INSERT INTO claimq_job(lane,priority,payload,group_key)"
        BN_NUMBERS "SELECT " BN_SCOPE ",i%10," BN_PAYLOAD "," BN_KEYS " FROM c",
      [BN_REST] = "SELECT payload FROM claimq_job WHERE terminal_at_ms IS NULL",
    }
  }
};

#define BN_SESSION(SETTING, SCOPE, OF) { \
    .zName = "session", .bClaimq = 1, \
    .zSchema = "SELECT claimq_init('sessions',1" SETTING ")", \
    .azSql = { \
      [BN_FILL] = BN_NUMBERS "SELECT count(claimq_enqueue(" SCOPE "," \
        BN_PAYLOAD ",'slot_policy','join')) FROM c", \
      [BN_TAKE] = "SELECT claim_id, lease_token, payload" \
        " FROM claimq(" OF ",'worker-1',?2,?3)", \
      [BN_DONE] = "SELECT claimq_complete(?1,?2)", \
      [BN_REST] = "SELECT payload FROM claimq_batch", \
    }, \
    .xTake = benchTakeClaimq, \
  }
static const BnQueue bnSessionAny[BN_NSIDE] = {
  BN_SESSION("", BN_SCOPE, "?1"),
  BN_SESSION(",'any_session',1", BN_SCOPE, "?1")
};
/* One session after the other, whichever has the first batch. */
static const BnQueue bnSessionNext[BN_NSIDE] = {
  BN_SESSION("", BN_SCOPE, "?1"),
  BN_SESSION(",'any_session',1", BN_SCOPE "||(i%100)", "nullif(?1,?1)")
};

/* What is kept for ever needs a policy that says so. */
#define BN_WEEK 604800000
static const BnQueue bnKeep[BN_NSIDE] = {
  BN_PLAIN(BN_KEYLESS), BN_PLAIN(BN_KEYLESS)
};
static const BnQueue bnVacuum[BN_NSIDE] = {
  BN_LANE("SELECT claimq_policy(NULL,'keep_ms',-1,'keep_failed_ms',-1)",
          BN_KEYLESS, BN_CLAIM,
          "SELECT claimq_vacuum('older_than_ms',604800000)", 0),
  BN_PLAIN(BN_KEYLESS)
};

/* claimq_step() of claim ?1, token ?2, step ?3; and by hand. */
static const BnQueue bnStep[BN_NSIDE] = {
  BN_LANE("CREATE TABLE step(job INTEGER NOT NULL, name TEXT NOT NULL, value,"
          " at INTEGER NOT NULL, PRIMARY KEY(job,name)) WITHOUT ROWID",
          BN_KEYLESS, BN_CLAIM,
          "INSERT INTO step SELECT 1,?3,'done',?4"
          " WHERE claimq_guard(?1,?2) IS NOT NULL", 0),
  BN_LANE("SELECT claimq_init('steps',1)", BN_KEYLESS, BN_CLAIM,
          "SELECT claimq_step(?1,?2,?3,'done') WHERE ?4", 0)
};

#define BN_CROWD 16
static const BnQueue bnSessionHeld[BN_NSIDE] = {
  BN_SESSION("", BN_SCOPE, "?1"), BN_SESSION("", BN_SCOPE, "?1")
};
static const BnQueue bnLaneHeld[BN_NSIDE] = {
  BN_PLAIN(BN_KEYLESS), BN_PLAIN(BN_KEYLESS)
};

/*
** Claim one job and complete it.
*/
static void bnWorkOne(BnSide *p){
  if( benchTake(p, 1)!=1 ) benchDie("%s: nothing to claim", p->pQueue->zName);
  benchDone(p);
}

/*
** A job that a schedule puts when it is claimed; beside it, one that is
** submitted before.
*/
static void bnScheduleOp(BnSide *p){
  if( p->pQueue->azSql[BN_MORE] ) benchRun(p, BN_MORE);
  bnWorkOne(p);
}

/*
** Submit a job.  Returns its id.
*/
static i64 bnSubmit(BnSide *p, int eStmt, const char *zAfter){
  sqlite3_stmt *pStmt = benchStmt(p, eStmt);
  char z[BN_NPAYLOAD];
  i64 iJob = 0;
  benchPayload(benchNewSerials(p, 1), z);
  sqlite3_bind_text(pStmt, 1, p->zScope, -1, SQLITE_STATIC);
  sqlite3_bind_text(pStmt, 2, z, BN_NPAYLOAD, SQLITE_STATIC);
  if( zAfter && sqlite3_bind_parameter_count(pStmt)>2 ){
    sqlite3_bind_text(pStmt, 3, zAfter, -1, SQLITE_STATIC);
  }
  while( benchStep(p, pStmt) ) iJob = sqlite3_column_int64(pStmt, 0);
  benchReset(p, pStmt);
  return iJob;
}

/*
** BN_PARTS jobs, and one that waits for them, or does not, submitted in one
** transaction; then all of them are done, one by one.
*/
static void bnAfterOp(BnSide *p){
  char zAfter[BN_PARTS*21+2] = "[";
  size_t n = 1;
  int i;
  benchRun(p, BN_BEGIN);
  for(i=0; i<BN_PARTS; i++){
    sqlite3_snprintf((int)(sizeof(zAfter)-n), &zAfter[n], "%lld%s",
        bnSubmit(p, BN_PUT, 0), i<BN_PARTS-1 ? "," : "]");
    n += strlen(&zAfter[n]);
  }
  bnSubmit(p, BN_MORE, zAfter);
  benchRun(p, BN_COMMIT);
  for(i=0; i<=BN_PARTS; i++) bnWorkOne(p);
}

/*
** A job comes, and is done; only that is counted.  A week passes in a hundred
** operations; on the side beside lane.keep no time passes, and nothing goes.
** (With bench -count: otherwise the clock is that of the machine, and nothing
** goes on either.)
*/
static void bnKeepOp(BnSide *p){
  benchAside();
  if( p->pQueue!=&bnKeep[BN_FLOOR] ) benchPass(BN_WEEK/100);
  benchPut(p);
  benchAside();
  bnWorkOne(p);
  if( p->pQueue->azSql[BN_MORE] && ++p->iScope%100==0 ) benchRun(p, BN_MORE);
}

/*
** The first operation claims a job, and each one stores a step of it.
*/
static void bnStepOp(BnSide *p){
  sqlite3_stmt *pStmt;
  BnClaim *pClaim = &p->aClaim[0];
  char zName[30];
  if( p->nClaim==0 ){
    benchPut(p);
    benchTake(p, 1);
  }
  sqlite3_snprintf(sizeof(zName), zName, "step-%lld", p->iScope++);
  pStmt = benchStmt(p, BN_MORE);
  sqlite3_bind_text(pStmt, 1, pClaim->zKey, pClaim->nKey, SQLITE_STATIC);
  sqlite3_bind_text(pStmt, 2, pClaim->zProof, pClaim->nProof, SQLITE_STATIC);
  sqlite3_bind_text(pStmt, 3, zName, -1, SQLITE_STATIC);
  sqlite3_bind_int64(pStmt, 4, benchNowMs());
  while( benchStep(p, pStmt) ){}
  benchReset(p, pStmt);
}

/*
** Complete what is held longest, and take the next: as each of 16 workers does
** in turn.  What they hold stands in p->aClaim[1] and behind it.
*/
static void bnHeldOp(BnSide *p){
  int bAlone = p->pQueue==&bnSessionHeld[BN_FLOOR]
            || p->pQueue==&bnLaneHeld[BN_FLOOR];
  BnClaim *pHeld = &p->aClaim[1 + p->iScope++ % (bAlone ? 1 : BN_CROWD)];
  if( pHeld->nKey ){
    p->aClaim[0] = *pHeld;
    p->nClaim = 1;
    benchDone(p);
  }
  if( benchTake(p, 1)!=1 ) benchDie("%s: nothing to claim", p->pQueue->zName);
  *pHeld = p->aClaim[0];
}

#define BN_HOLD "SELECT count(*) FROM claimq_lane('s','holder',86400000,10000)"

static const BnExtra aExtra[] = {
  {{"lane.max_active", "claim+complete, max_active 100",
    bnMaxActive, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, 1000, 10},
  {{"lane.rate", "claim+complete, rate 1,000 in 10 ms",
    bnRate, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, 1000, 10},
  {{"lane.groups", "claim+complete, 10,000 groups, one each",
    bnGroups, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, BN_GROUPS, 50},
  {{"lane.fair", "claim+complete, 10,000 groups that take turns",
    bnFair, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, BN_GROUPS, 0},
  {{"lane.all", "claim+complete, all limits at once",
    bnAll, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, BN_GROUPS, 50},
  {{"lane.full", "claim+complete, 10,000 full groups in front",
    bnFull, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, BN_HOLD, BN_GROUPS, 0},
  {{"lane.full.idle", "idle claim, 10,000 full groups",
    bnFull, BN_DO_IDLE, 1, 0, 3000, 0, 0, 0}, BN_HOLD, BN_GROUPS, 0},
  {{"lane.scheduled", "claim+complete, a schedule to come",
    bnScheduled, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, 1000, 0},
  {{"lane.schedule", "claim that puts a schedule's job, +complete",
    bnSchedule, BN_DO_OWN, 1, 0, 500, 0, 0, bnScheduleOp}, 0, 0, 0},
  {{"lane.after", "submit+claim+complete, one after ten",
    bnAfter, BN_DO_OWN, BN_PARTS+1, 0, 50, 0, 0, bnAfterOp}, 0, 0, 0},
  {{"submit.group", "submit with a group_key",
    bnSubmitGroup, BN_DO_PUT, 1, 0, 500, 0, 0, 0}, 0, 1000, 10},
  {{"session.any", "session claim+complete, any_session",
    bnSessionAny, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, 1000, 10},
  {{"session.next", "... of any of 100 sessions, each time another",
    bnSessionNext, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, 1000, 10},
  {{"lane.gone", "claim+complete, keep_ms 0, beside the floor",
    benchGone, BN_DO_CLAIM, 1, 0, 500, 1.25, 0, 0}, 0, 1000, 10},
  {{"lane.keep", "claim+complete, as many go as end",
    bnKeep, BN_DO_OWN, 1, 0, 500, 0, 0, bnKeepOp}, 0, 0, 320},
  {{"lane.vacuum", "... beside claimq_vacuum()",
    bnVacuum, BN_DO_OWN, 1, 0, 500, 0, 0, bnKeepOp}, 0, 0, 320},
  {{"lane.step", "step, beside guard and INSERT",
    bnStep, BN_DO_OWN, 1, 0, 500, 1.3, 0, bnStepOp}, 0, 0, 20},
  {{"session.held", "session complete+claim, 15 held in front",
    bnSessionHeld, BN_DO_OWN, 1, 0, 500, 1.2, 0, bnHeldOp}, 0, 1000, 20},
  {{"lane.held", "lane complete+claim, 15 held in front",
    bnLaneHeld, BN_DO_OWN, 1, 0, 500, 1.2, 0, bnHeldOp}, 0, 1000, 20},
};
#define BN_NEXTRA ((int)(sizeof(aExtra)/sizeof(aExtra[0])))

static BnSide *bnExtraOpen(
  const BnOptions *pOpt, const BnExtra *pExtra, int eSide
){
  BnSide *p = benchOpen(pOpt, pExtra->work.aQueue, eSide);
  benchFill(p, pExtra->nDepth);
  if( pExtra->zAfter && benchInt(p, pExtra->zAfter)!=pExtra->nDepth ){
    benchDie("%s: not all of them are held", pExtra->work.zKey);
  }
  benchExec(p, "PRAGMA wal_checkpoint(TRUNCATE)");
  return p;
}

/*
** For callgrind: the side that is beside it has ".beside" after its key.
*/
static int bnExtraCount(const BnOptions *pOpt, const BnExtra *pExtra){
  int nFail = 0, i;
  for(i=0; i<BN_NSIDE && pExtra->nFirst; i++){
    BnSide *p = bnExtraOpen(pOpt, pExtra, i);
    benchCountSide(&pExtra->work, p, pExtra->nFirst, i ? "" : ".beside");
    nFail += benchCheck(p);
    benchClose(p);
  }
  return nFail;
}

/*
** One line.  Returns how many checks failed.
*/
static int bnExtra(const BnOptions *pOpt, const BnExtra *pExtra){
  BnSide *aSide[BN_NSIDE];
  BnTimes times;
  char zParam[40];
  int nFail = 0, i;
  if( pOpt->bCount ) return bnExtraCount(pOpt, pExtra);
  for(i=0; i<BN_NSIDE; i++) aSide[i] = bnExtraOpen(pOpt, pExtra, i);
  benchRounds(&pExtra->work, aSide, &times);
  sqlite3_snprintf(sizeof(zParam), zParam, "\"depth\":%d", pExtra->nDepth);
  benchReport(pOpt, "extra", &pExtra->work, zParam, &times);
  for(i=0; i<BN_NSIDE; i++){
    nFail += benchCheck(aSide[i]);
    benchClose(aSide[i]);
  }
  return nFail;
}

int benchExtra(const BnOptions *pOpt){
  int nFail = 0, i;
  for(i=0; i<BN_NEXTRA; i++){
    const BnExtra *pExtra = &aExtra[i];
    if( pOpt->zOnly && sqlite3_strglob(pOpt->zOnly, pExtra->work.zKey) ){
      continue;
    }
    nFail += bnExtra(pOpt, pExtra);
  }
  return nFail;
}
