/*
** bench_depth.c: the same claim, with more and more standing in the queue.
**
**     session.ready, 1k 10k 100k 1M      jobs that wait behind the head
**     session.held, 1k 10k 100k          jobs in front that others hold
**     lane.unrunnable, 1k 10k 100k       jobs in front for other workers
**
** For each shape and size: the time of a claim+complete and of an idle claim
** beside the floor's, and the steps of SQLite's machine that they take.  Steps
** do not depend on the machine: what they grow by from the smallest size on is
** what the queue's length costs.  By hand, what is in front is held by a lease
** that ends late, or stands in another lane: it is not in the index either.
**
** The shapes are made with claimq's own calls, a claim of 100,000 rows for
** instance, so that nothing here depends on the format of its tables.
*/
#include "bench.h"
#include <stdio.h>

#define BN_WORK   1000            /* Jobs behind what is in front */
#define BN_NSTEP   200            /* Operations whose steps are counted */
#define BN_NSIZE     4

typedef struct BnShape BnShape;
struct BnShape {
  const char *zKey;               /* "session.held" */
  const char *zName;              /* "held in front" */
  const BnQueue *aQueue;
  int bScopes;                    /* As many scopes as jobs, or partitions */
  const char *azFill[BN_NSIDE];   /* Instead of the queue's own; or 0 */
  const char *azAfter[BN_NSIDE];  /* Then, ?1 is the number of jobs; contest:
                                  ** for each number up to that */
  int bGone;                      /* After that claimq counts them as over */
  int nGroup;
  int aSize[BN_NSIZE];            /* The first is what others are held to */
};

#define BN_FAR "9000000000000"    /* A time that does not come */
#define BN_JOB_FAR \
  "INSERT INTO job(session,payload,until)" BN_NUMBERS \
  "SELECT " BN_SCOPE "," BN_PAYLOAD "," BN_FAR " FROM c"
#define BN_LANE_FAR \
  "INSERT INTO job(lane,priority,created,payload,until)" BN_NUMBERS \
  "SELECT " BN_SCOPE ",99,?5," BN_PAYLOAD "," BN_FAR " FROM c"
#define BN_LANE_FRONT(COL, VAL) \
  "INSERT INTO claimq_job(lane,priority,payload" COL ")" BN_NUMBERS \
  "SELECT " BN_SCOPE ",99," BN_PAYLOAD VAL " FROM c"

static const BnShape aShape[] = {
  {"session.ready", "ready", benchSession, 0,
    {0, 0}, {0, 0}, 0, 1, {1000, 10000, 100000, 1000000}},
  {"session.held", "held in front", benchSession, 0,
    {BN_JOB_FAR, 0},
    {0, "SELECT count(*) FROM claimq('s','holder',86400000,?1)"},
    0, 1, {1000, 10000, 100000}},
  {"session.delayed", "delayed in front",
    benchSession, 0,
    {BN_JOB_FAR,
     "INSERT INTO claimq_batch(session,payload,available_at_ms)" BN_NUMBERS
     "SELECT " BN_SCOPE "," BN_PAYLOAD ",?5+86400000+i FROM c"},
    {0, 0}, 0, 1, {1000, 10000, 100000}},
  {"session.dead", "dead letters kept",
    benchSession, 0, {BN_JOB_FAR, 0},
    {0, "SELECT claimq_reject(claim_id,lease_token,'x') FROM ("
        "SELECT DISTINCT claim_id, lease_token"
        " FROM claimq('s','holder',86400000,?1))"},
    1, 1, {1000, 10000, 100000}},
  {"session.sessions", "this many sessions",
    benchSession, 1, {0, 0}, {0, 0}, 0, 1, {1000, 10000, 100000}},
  {"lane.ready", "ready", benchLane, 0,
    {0, 0}, {0, 0}, 0, 1, {1000, 10000, 100000, 1000000}},
  {"lane.held", "held in front", benchLane, 0,
    {BN_LANE_FAR, BN_LANE_FRONT("","")},
    {0, "SELECT count(*) FROM claimq_lane('s','holder',86400000,?1)"},
    0, 1, {1000, 10000, 100000}},
  {"lane.delayed", "delayed in front", benchLane, 0,
    {BN_LANE_FAR, BN_LANE_FRONT(",available_at_ms", ",?5+86400000+i")},
    {0, 0}, 0, 1, {1000, 10000, 100000}},
  {"lane.dead", "failed jobs kept", benchLane, 0,
    {BN_LANE_FAR, BN_LANE_FRONT("","")},
    {0, "SELECT sum(claimq_reject(claim_id,lease_token,'x'))"
        " FROM claimq_lane('s','holder',86400000,?1)"},
    1, 1, {1000, 10000, 100000}},
  {"lane.unrunnable", "unrunnable in front",
    benchLane, 0,
    {"INSERT INTO job(lane,priority,created,payload)" BN_NUMBERS
     "SELECT 'gpu',99,?5," BN_PAYLOAD " FROM c",
     BN_LANE_FRONT(",capabilities", ",'[\"gpu\"]'")},
    {0, 0}, 0, 1, {1000, 10000, 100000}},
  {"outbox.partitions", "any of this many partitions",
    benchOutbox, 1,
    {0, 0}, {0, 0}, 0, 10, {4, 64, 1024}},
  {"contest.held", "held subjects", benchContest, 0,
    {0, 0},
    {"INSERT INTO holder VALUES(0,'h'||?1,'holder'," BN_FAR ")",
     "SELECT outcome FROM claimq_contest('h'||?1,'holder',86400000)"},
    0, 1, {1000, 10000, 100000}},
};
#define BN_NSHAPE ((int)(sizeof(aShape)/sizeof(aShape[0])))

/**************************************************************************
** Making a shape
*/

/*
** A queue of n partitions.  All messages that will be claimed are there from
** the start, the same number in each, so that no claim finds a remainder.
*/
static void bnPartitions(BnSide *p, const BnWork *pWork, int n){
  i64 nJob = benchDemand(pWork, p->pOpt) + 2*BN_NSTEP*pWork->nGroup;
  i64 nTurn = (i64)n*pWork->nGroup;
  char z[200];
  sqlite3_snprintf(sizeof(z), z, p->eSide==BN_CLAIMQ
    ? "SELECT claimq_queue('p',%d)"
    : "INSERT OR IGNORE INTO part WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL"
      " SELECT i+1 FROM c WHERE i<%d-1) SELECT i,0,0 FROM c", n);
  benchExec(p, z);
  p->zScope = "p";
  p->nScope = n;
  benchFill(p, (nJob/nTurn + 2)*nTurn);
}

static void bnAfter(BnSide *p, const char *zSql, int n){
  sqlite3_stmt *pStmt = benchPrepare(p, zSql);
  int i;
  benchRun(p, BN_BEGIN);
  for(i=p->pQueue->bNoPayload ? 1 : n; i<=n; i++){
    sqlite3_bind_int(pStmt, 1, i);
    while( benchStep(p, pStmt) ){}
    benchReset(p, pStmt);
  }
  sqlite3_finalize(pStmt);
  benchRun(p, BN_COMMIT);
}

/*
** What stands in front, or behind.
*/
static void bnShape(
  BnSide *p, const BnShape *pShape, const BnWork *pWork, int n
){
  const char *zFill = pShape->azFill[p->eSide];
  const char *zAfter = pShape->azAfter[p->eSide];
  i64 i;
  if( pShape->aQueue==benchOutbox ){
    bnPartitions(p, pWork, n);
    return;
  }
  if( pShape->bScopes ) p->nScope = n;
  if( zFill ) benchFillBy(p, zFill, n); else benchFill(p, n);
  if( zAfter ) bnAfter(p, zAfter, n);
  if( pShape->bGone && p->eSide==BN_CLAIMQ ){
    for(i=0; i<p->nSerial; i++) benchTick(p, i);
  }
  benchExec(p, "PRAGMA wal_checkpoint(TRUNCATE)");
}

/**************************************************************************
** Measuring
*/

/*
** Steps per job.  The first operations are not counted: upkeep of what a claim
** meets for the first time is paid once.
*/
static double bnSteps(const BnWork *pWork, BnSide *p){
  i64 n;
  if( pWork->eDo==BN_DO_CLAIM && !pWork->bStocked ){
    benchFill(p, 2*BN_NSTEP*pWork->nGroup);
  }
  benchCounted(pWork, p, BN_NSTEP);
  n = benchSteps(p);
  benchCounted(pWork, p, BN_NSTEP);
  return (double)(benchSteps(p) - n) / (BN_NSTEP*pWork->nGroup);
}

static void bnReportSteps(
  const BnOptions *pOpt, const BnWork *pWork, const char *zParam,
  const double *aStep, double rFirst, int bFirst
){
  double rGrowth = aStep[BN_CLAIMQ] / rFirst;
  if( pOpt->bJson ){
    printf("{\"group\":\"steps\",\"key\":\"%s\",\"name\":\"%s\","
      "\"place\":\"%s\",\"param\":{%s},\"floor_steps\":%.1f,"
      "\"claimq_steps\":%.1f,\"first_steps\":%.1f,\"ratio\":%.3f,"
      "%s\"unit\":\"VM steps per job\"}\n",
      pWork->zKey, pWork->zName, pOpt->zPlace, zParam, aStep[BN_FLOOR],
      aStep[BN_CLAIMQ], rFirst, rGrowth, bFirst ? "" : "\"target\":1.15,");
  }else{
    printf("%-46s {%s}  floor %.1f steps  claimq %.1f steps  growth %.3f%s\n",
      pWork->zName, zParam, aStep[BN_FLOOR], aStep[BN_CLAIMQ], rGrowth,
      rGrowth>1.15 ? " MISSED" : "");
  }
  fflush(stdout);
}

/*
** Time and steps of one workload.  *prFirst is the number of steps at the
** first size; set here if it is 0.
*/
static void bnMeasure(
  const BnWork *pWork, BnSide **aSide, const char *zParam, double *prFirst
){
  BnTimes times;
  double aStep[BN_NSIDE];
  int bFirst = *prFirst==0, i;
  benchRounds(pWork, aSide, &times);
  benchReport(aSide[0]->pOpt, "depth", pWork, zParam, &times);
  for(i=0; i<BN_NSIDE; i++) aStep[i] = bnSteps(pWork, aSide[i]);
  if( bFirst ) *prFirst = aStep[BN_CLAIMQ];
  bnReportSteps(aSide[0]->pOpt, pWork, zParam, aStep, *prFirst, bFirst);
}

/*
** "lane claim+complete, held in front".
*/
static void bnName(char *z, int n, const BnShape *pShape, const char *zWhat){
  if( zWhat==0 ){
    zWhat = pShape->aQueue==benchOutbox ? "batch of 10"
          : pShape->aQueue==benchContest ? "claim+release" : "claim+complete";
  }
  sqlite3_snprintf(n, z, "%s %s, %s", pShape->aQueue->zName, zWhat,
                   pShape->zName);
}

/*
** An idle claim: in the scope that has the shape if nothing in it is free,
** else in another.
*/
static void bnIdle(
  const BnShape *pShape, BnSide **aSide, const char *zParam, double *prFirst
){
  int bFree = pShape->azFill[BN_FLOOR]==0;
  char zKey[60], zName[100];
  BnWork work = {zKey, zName, 0, BN_DO_IDLE, 1, 0, 1000, 0, 0, 0};
  int i;
  if( pShape->aQueue==benchOutbox || pShape->aQueue==benchContest ) return;
  sqlite3_snprintf(sizeof(zKey), zKey, "%s.idle", pShape->zKey);
  bnName(zName, sizeof(zName), pShape, "idle claim");
  work.aQueue = pShape->aQueue;
  for(i=0; i<BN_NSIDE; i++){
    if( bFree ) aSide[i]->zScope = "nothing";
  }
  bnMeasure(&work, aSide, zParam, prFirst);
  for(i=0; i<BN_NSIDE; i++) aSide[i]->zScope = "s";
}

/*
** One size of one shape.  Returns how many checks failed.
*/
static int bnSize(
  const BnOptions *pOpt, const BnShape *pShape, int n, double *aFirst
){
  char zParam[60], zName[100];
  BnWork work = {pShape->zKey, zName, 0, BN_DO_CLAIM, 1, 0, 200, 0, 0, 0};
  BnSide *aSide[BN_NSIDE];
  int nFail = 0, i;
  work.aQueue = pShape->aQueue;
  work.nGroup = pShape->nGroup;
  work.bStocked = pShape->aQueue==benchOutbox;
  bnName(zName, sizeof(zName), pShape, 0);
  sqlite3_snprintf(sizeof(zParam), zParam, "\"%s\":%d",
      pShape->aQueue==benchOutbox ? "partitions" : "depth", n);
  for(i=0; i<BN_NSIDE; i++){
    aSide[i] = benchOpen(pOpt, pShape->aQueue, i);
    bnShape(aSide[i], pShape, &work, n);
  }
  bnIdle(pShape, aSide, zParam, &aFirst[0]);
  for(i=0; i<BN_NSIDE; i++){
    if( pShape->azFill[BN_FLOOR] ) benchFill(aSide[i], BN_WORK);
  }
  bnMeasure(&work, aSide, zParam, &aFirst[1]);
  for(i=0; i<BN_NSIDE; i++){
    nFail += benchCheck(aSide[i]);
    benchClose(aSide[i]);
  }
  return nFail;
}

int benchDepth(const BnOptions *pOpt){
  int nFail = 0, i, k;
  for(i=0; i<BN_NSHAPE; i++){
    double aFirst[2] = {0, 0};
    if( pOpt->zOnly && sqlite3_strglob(pOpt->zOnly, aShape[i].zKey) ) continue;
    for(k=0; k<BN_NSIZE && aShape[i].aSize[k]; k++){
      if( pOpt->nMax && aShape[i].aSize[k]>pOpt->nMax ) continue;
      nFail += bnSize(pOpt, &aShape[i], aShape[i].aSize[k], aFirst);
    }
  }
  return nFail;
}
