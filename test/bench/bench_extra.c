/*
** bench_extra.c: what limits, turns, schedules and dependencies cost.
**
**     lane.max_active    claim+complete in a lane with max_active 100
**     lane.rate          ... with a rate, 1,000 in 10 ms
**     lane.groups        ... each of 10,000 groups one at a time
**     lane.fair          ... and they take turns
**     lane.full          ... behind 10,000 groups that are at their limit
**     lane.full.idle     an idle claim there
**     lane.scheduled     claim+complete in a lane with a schedule to come
**     lane.schedule      a claim that puts the job of a schedule, and complete
**     lane.after         ten jobs, one that waits for them: their whole life
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
  BN_PLAIN(BN_KEYS), BN_LIMITED("'group_max_active',1", BN_KEYS)
};
static const BnQueue bnFair[BN_NSIDE] = {
  BN_PLAIN(BN_KEYS), BN_LIMITED("'group_max_active',1,'fair',1", BN_KEYS)
};

/* Those of the groups in front were made first: BN_GROUPS of them. */
#define BN_BEHIND "iif(i<10000,'g','free')||(i%10000)"
static const BnQueue bnFull[BN_NSIDE] = {
  BN_PLAIN(BN_BEHIND), BN_LIMITED("'group_max_active',1", BN_BEHIND)
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

#define BN_HOLD "SELECT count(*) FROM claimq_lane('s','holder',86400000,10000)"

static const BnExtra aExtra[] = {
  {{"lane.max_active", "claim+complete, max_active 100",
    bnMaxActive, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, 1000},
  {{"lane.rate", "claim+complete, rate 1,000 in 10 ms",
    bnRate, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, 1000},
  {{"lane.groups", "claim+complete, 10,000 groups, one each",
    bnGroups, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, BN_GROUPS},
  {{"lane.fair", "claim+complete, 10,000 groups that take turns",
    bnFair, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, BN_GROUPS},
  {{"lane.full", "claim+complete, 10,000 full groups in front",
    bnFull, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, BN_HOLD, BN_GROUPS},
  {{"lane.full.idle", "idle claim, 10,000 full groups",
    bnFull, BN_DO_IDLE, 1, 0, 3000, 0, 0, 0}, BN_HOLD, BN_GROUPS},
  {{"lane.scheduled", "claim+complete, a schedule to come",
    bnScheduled, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0}, 0, 1000},
  {{"lane.schedule", "claim that puts a schedule's job, +complete",
    bnSchedule, BN_DO_OWN, 1, 0, 500, 0, 0, bnScheduleOp}, 0, 0},
  {{"lane.after", "submit+claim+complete, one after ten",
    bnAfter, BN_DO_OWN, BN_PARTS+1, 0, 50, 0, 0, bnAfterOp}, 0, 0},
};
#define BN_NEXTRA ((int)(sizeof(aExtra)/sizeof(aExtra[0])))

/*
** One line.  Returns how many checks failed.
*/
static int bnExtra(const BnOptions *pOpt, const BnExtra *pExtra){
  BnSide *aSide[BN_NSIDE];
  BnTimes times;
  char zParam[40];
  int nFail = 0, i;
  for(i=0; i<BN_NSIDE; i++){
    aSide[i] = benchOpen(pOpt, pExtra->work.aQueue, i);
    benchFill(aSide[i], pExtra->nDepth);
    if( pExtra->zAfter
     && benchInt(aSide[i], pExtra->zAfter)!=pExtra->nDepth
    ){
      benchDie("%s: not all of them are held", pExtra->work.zKey);
    }
    benchExec(aSide[i], "PRAGMA wal_checkpoint(TRUNCATE)");
  }
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
