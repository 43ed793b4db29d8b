/*
** bench_work.c: workloads, and the rounds that time them.
**
** A round is some blocks of the floor and some of claimq, in turn, so that
** whatever else the machine does meets both.  Its result is the ratio of the
** median blocks, so that one block that met a pause does not count; a block is
** long enough to hold several checkpoints.  The ratio of a workload is the
** median of its rounds, shown with the least and the greatest.  What a block
** needs (jobs to claim) is made before its clock starts.
**
** On tmpfs nothing waits for a disk, so what is counted there is processor
** time, in the program and in the kernel for it.  On an idle machine that is
** real time; on a busy one it is what the real time would be, nearly.
*/
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Outside valgrind, and where its header is missing, these do nothing. */
#ifdef __has_include
# if __has_include(<valgrind/callgrind.h>)
#  include <valgrind/callgrind.h>
# endif
#endif
#ifndef CALLGRIND_START_INSTRUMENTATION
# define CALLGRIND_START_INSTRUMENTATION
# define CALLGRIND_STOP_INSTRUMENTATION
# define CALLGRIND_TOGGLE_COLLECT
#endif

#define BN_NBLOCK 8               /* Blocks of each side in a round */
#define BN_DEPTH  1000            /* Jobs that wait while we measure */

static const BnWork aWork[] = {
  {"session.enqueue", "session enqueue",
    benchSession, BN_DO_PUT, 1, 0, 500, 1.5, 0, 0},
  {"session.enqueue100", "session enqueue, 100 in a transaction",
    benchSession, BN_DO_PUT, 1, 100, 2000, 1.5, 0, 0},
  {"lane.submit", "lane submit", benchLane, BN_DO_PUT, 1, 0, 500, 0, 0, 0},
  {"lane.submit100", "lane submit, 100 in a transaction",
    benchLane, BN_DO_PUT, 1, 100, 2000, 0, 0, 0},
  {"outbox.publish", "outbox publish",
    benchOutbox, BN_DO_PUT, 1, 0, 500, 0, 0, 0},
  {"outbox.publish100", "outbox publish, 100 in a transaction",
    benchOutbox, BN_DO_PUT, 1, 100, 2000, 0, 0, 0},
  {"session.claim", "session claim+complete",
    benchSession, BN_DO_CLAIM, 1, 0, 500, 1.4, 0, 0},
  {"session.claim.txn1", "session claim+complete in a transaction",
    benchSession, BN_DO_CLAIM, 1, 1, 500, 1.4, 0, 0},
  {"session.claim.txn100", "session claim+complete, 100 in a transaction",
    benchSession, BN_DO_CLAIM, 1, 100, 1000, 1.4, 0, 0},
  {"lane.claim", "lane claim+complete",
    benchLane, BN_DO_CLAIM, 1, 0, 500, 2.2, 0, 0},
  {"lane.claim.txn1", "lane claim+complete in a transaction",
    benchLane, BN_DO_CLAIM, 1, 1, 500, 2.2, 0, 0},
  {"lane.claim.txn100", "lane claim+complete, 100 in a transaction",
    benchLane, BN_DO_CLAIM, 1, 100, 1000, 2.2, 0, 0},
  {"session.group8", "session joined group of 8",
    benchSession, BN_DO_CLAIM, 8, 0, 100, 0, 0, 0},
  {"session.group32", "session joined group of 32",
    benchSession, BN_DO_CLAIM, 32, 0, 50, 0, 0, 0},
  {"session.group128", "session joined group of 128",
    benchSession, BN_DO_CLAIM, 128, 0, 20, 1.3, 0, 0},
  {"lane.max8", "lane max 8", benchLane, BN_DO_CLAIM, 8, 0, 100, 0, 0, 0},
  {"lane.max32", "lane max 32",
    benchLane, BN_DO_CLAIM, 32, 0, 50, 0, 0, 0},
  {"lane.max128", "lane max 128",
    benchLane, BN_DO_CLAIM, 128, 0, 20, 0, 0, 0},
  {"outbox.batch100", "outbox batch of 100",
    benchOutbox, BN_DO_CLAIM, 100, 0, 100, 0, 0, 0},
  {"contest.claim", "contest claim+release",
    benchContest, BN_DO_CLAIM, 1, 0, 500, 0, 0, 0},
  {"session.idle", "session idle claim",
    benchSession, BN_DO_IDLE, 1, 0, 3000, 1.2, 0, 0},
  {"lane.idle", "lane idle claim",
    benchLane, BN_DO_IDLE, 1, 0, 3000, 1.2, 0, 0},
  {"outbox.idle", "outbox idle claim",
    benchOutbox, BN_DO_IDLE, 1, 0, 3000, 1.2, 0, 0},
};
#define BN_NWORK ((int)(sizeof(aWork)/sizeof(aWork[0])))

/**************************************************************************
** A block
*/

/*
** One operation.  Completing row by row is put in a transaction of its own,
** as anybody would, unless it is in one already.  (claimq has one call for
** it.)
*/
static void bnOperation(const BnWork *pWork, BnSide *p){
  int bTxn = p->pQueue->bEach && pWork->nGroup>1 && pWork->nTxn==0
          && p->pQueue->azSql[BN_DONES]==0;
  if( pWork->eDo==BN_DO_OWN ){
    pWork->xOwn(p);
  }else if( pWork->eDo==BN_DO_PUT ){
    benchPut(p);
  }else if( pWork->eDo==BN_DO_IDLE ){
    if( benchLook(p) ) benchDie("%s: there is something", pWork->zKey);
  }else{
    if( benchTake(p, pWork->nGroup)!=pWork->nGroup ){
      benchDie("%s: got %d rows", pWork->zKey, p->nClaim);
    }
    if( bTxn ) benchRun(p, BN_BEGIN);
    benchDone(p);
    if( bTxn ) benchRun(p, BN_COMMIT);
  }
}

static void bnOperations(const BnWork *pWork, BnSide *p, int nOp){
  int i;
  for(i=0; i<nOp; i++){
    if( pWork->nTxn && i%pWork->nTxn==0 ) benchRun(p, BN_BEGIN);
    benchLater();
    bnOperation(pWork, p);
    if( pWork->nTxn && (i%pWork->nTxn==pWork->nTxn-1 || i==nOp-1) ){
      benchRun(p, BN_COMMIT);
    }
  }
}

__attribute__((noinline))
void benchCounted(const BnWork *pWork, BnSide *p, int nOp){
  bnOperations(pWork, p, nOp);
}

static int bnBlockSize(const BnWork *pWork, const BnOptions *pOpt){
  int nOp = pWork->nOp * pOpt->nScale / 100;
  return nOp>0 ? nOp : 1;
}

static double bnBlock(const BnWork *pWork, BnSide *p){
  int nOp = bnBlockSize(pWork, p->pOpt);
  double r;
  if( pWork->eDo==BN_DO_CLAIM && !pWork->bStocked ){
    benchFill(p, (i64)nOp*pWork->nGroup);
  }
  r = benchClock(p->pOpt->bCpu);
  benchCounted(pWork, p, nOp);
  return (benchClock(p->pOpt->bCpu) - r) * 1e6 / ((double)nOp*pWork->nGroup);
}

/**************************************************************************
** Rounds
*/
static int bnCompare(const void *a, const void *b){
  double x = *(const double*)a, y = *(const double*)b;
  return x<y ? -1 : x>y;
}

double benchMedian(const double *a, int n){
  double aSort[BN_NROUND_MAX];
  memcpy(aSort, a, sizeof(double)*(size_t)n);
  qsort(aSort, (size_t)n, sizeof(double), bnCompare);
  return n%2 ? aSort[n/2] : (aSort[n/2-1] + aSort[n/2])/2;
}

i64 benchDemand(const BnWork *pWork, const BnOptions *pOpt){
  return (i64)bnBlockSize(pWork, pOpt) * pWork->nGroup
         * (1 + pOpt->nRound*BN_NBLOCK);
}

void benchRounds(const BnWork *pWork, BnSide **aSide, BnTimes *pOut){
  double aBlock[BN_NSIDE][BN_NBLOCK];
  int iRound, iBlock, i;
  memset(pOut, 0, sizeof(*pOut));
  pOut->nRound = aSide[0]->pOpt->nRound;
  for(i=0; i<BN_NSIDE; i++) bnBlock(pWork, aSide[i]);     /* Warm up */
  for(iRound=0; iRound<pOut->nRound; iRound++){
    for(iBlock=0; iBlock<BN_NBLOCK; iBlock++){
      for(i=0; i<BN_NSIDE; i++){
        int k = (iBlock & 1) ? BN_NSIDE-1-i : i;
        aBlock[k][iBlock] = bnBlock(pWork, aSide[k]);
      }
    }
    for(i=0; i<BN_NSIDE; i++){
      pOut->aUs[i][iRound] = benchMedian(aBlock[i], BN_NBLOCK);
    }
  }
}

BnStat benchStat(const double *aNum, const double *aDen, int n){
  double aRatio[BN_NROUND_MAX];
  BnStat stat = {0, 1e99, 0};
  int i;
  for(i=0; i<n; i++){
    aRatio[i] = aNum[i] / aDen[i];
    if( aRatio[i]<stat.rMin ) stat.rMin = aRatio[i];
    if( aRatio[i]>stat.rMax ) stat.rMax = aRatio[i];
  }
  stat.rMedian = benchMedian(aRatio, n);
  return stat;
}

void benchJsonHead(
  const BnOptions *pOpt, const char *zGroup, const BnWork *pWork
){
  printf("{\"group\":\"%s\",\"key\":\"%s\",\"name\":\"%s\","
    "\"place\":\"%s\",", zGroup, pWork->zKey, pWork->zName, pOpt->zPlace);
}

void benchJsonTail(const BnStat *p, const char *zUnit, int nRound){
  printf("\"ratio\":%.3f,\"ratio_min\":%.3f,\"ratio_max\":%.3f,"
    "\"unit\":\"%s\",\"rounds\":%d}\n", p->rMedian, p->rMin, p->rMax,
    zUnit, nRound);
}

void benchReport(
  const BnOptions *pOpt, const char *zGroup, const BnWork *pWork,
  const char *zParam, const BnTimes *pTimes
){
  int n = pTimes->nRound;
  double rFloor = benchMedian(pTimes->aUs[BN_FLOOR], n);
  double rClaimq = benchMedian(pTimes->aUs[BN_CLAIMQ], n);
  BnStat stat = benchStat(pTimes->aUs[BN_CLAIMQ], pTimes->aUs[BN_FLOOR], n);
  if( pOpt->bJson ){
    benchJsonHead(pOpt, zGroup, pWork);
    printf("\"param\":{%s},\"clock\":\"%s\",\"floor_us\":%.4g,"
      "\"claimq_us\":%.4g,", zParam, pOpt->bCpu ? "cpu" : "real", rFloor,
      rClaimq);
    if( pWork->rTarget>0 ) printf("\"target\":%.2f,", pWork->rTarget);
    benchJsonTail(&stat, "us per job", n);
  }else{
    printf("%-46s %-6s {%s}  floor %8.2f us  claimq %8.2f us  ratio %5.2f"
      " (%.2f..%.2f)", pWork->zName, pOpt->zPlace, zParam, rFloor, rClaimq,
      stat.rMedian, stat.rMin, stat.rMax);
    if( pWork->rTarget>0 ){
      printf("  target %.1f%s", pWork->rTarget,
             stat.rMedian>pWork->rTarget ? " MISSED" : "");
    }
    printf("\n");
  }
  fflush(stdout);
}

/**************************************************************************
** All workloads
*/

/*
** Jobs that wait while we measure: none in the scope that an idle claim looks
** at, but some elsewhere.
*/
static void bnDepth(const BnWork *pWork, BnSide *p, i64 nDepth){
  if( pWork->eDo==BN_DO_IDLE && pWork->aQueue!=benchOutbox ){
    p->zScope = "other";
    benchFill(p, nDepth);
    p->zScope = "s";
  }else if( pWork->eDo!=BN_DO_IDLE ){
    benchFill(p, nDepth);
  }
}

static int bnWorkload(const BnOptions *pOpt, const BnWork *pWork){
  BnSide *aSide[BN_NSIDE];
  BnTimes times;
  int nFail = 0, i;
  for(i=0; i<BN_NSIDE; i++){
    aSide[i] = benchOpen(pOpt, pWork->aQueue, i);
    bnDepth(pWork, aSide[i], BN_DEPTH);
  }
  benchRounds(pWork, aSide, &times);
  benchReport(pOpt, "workload", pWork, "\"depth\":1000", &times);
  for(i=0; i<BN_NSIDE; i++){
    nFail += benchCheck(aSide[i]);
    benchClose(aSide[i]);
  }
  return nFail;
}

static int bnSelected(const BnOptions *pOpt, const BnWork *pWork){
  return pOpt->zOnly==0 || sqlite3_strglob(pOpt->zOnly, pWork->zKey)==0;
}

int benchWorkloads(const BnOptions *pOpt){
  int nFail = 0, i;
  for(i=0; i<BN_NWORK; i++){
    if( bnSelected(pOpt, &aWork[i]) ) nFail += bnWorkload(pOpt, &aWork[i]);
  }
  return nFail;
}

int benchProfile(const BnOptions *pOpt, int eSide, int n){
  int nFail = 0, i;
  for(i=0; i<BN_NWORK; i++){
    const BnWork *pWork = &aWork[i];
    BnSide *p;
    if( !bnSelected(pOpt, pWork) ) continue;
    p = benchOpen(pOpt, pWork->aQueue, eSide);
    bnDepth(pWork, p, BN_DEPTH);
    if( pWork->eDo==BN_DO_CLAIM ) benchFill(p, (i64)n*pWork->nGroup);
    benchCounted(pWork, p, n);
    printf("%s: %d operations, %lld steps\n", pWork->zKey, n, benchSteps(p));
    nFail += benchCheck(p);
    benchClose(p);
  }
  return nFail;
}

/*
** How many operations of a shape are counted: whole transactions; few of those
** that take many jobs, or long; and no more than the file -wal is small after.
*/
static int bnCountSize(const BnWork *pWork){
  if( pWork->nTxn>1 ) return 200;
  if( pWork->nOp<50 && pWork->nGroup==1 ) return 5;
  return pWork->nGroup>1 ? 4 + 100/pWork->nGroup : 100;
}

static int bnCounting = 0;        /* callgrind counts */
static int bnAside = 0;           /* ... not, at the moment */
static double rAside = 0, rAsideFrom = 0;

void benchAside(void){
  if( bnCounting ) CALLGRIND_TOGGLE_COLLECT;
  bnAside = !bnAside;
  if( bnAside ) rAsideFrom = benchClock(1);
  else rAside += benchClock(1) - rAsideFrom;
}

double benchAsideTime(void){
  return rAside;
}

/*
** valgrind follows each instruction only while we count: what comes before
** takes most of the time.
*/
void benchCountSide(
  const BnWork *pWork, BnSide *p, int nFirst, const char *zSuffix
){
  int nOp = bnCountSize(pWork);
  if( pWork->eDo==BN_DO_CLAIM ){
    benchFill(p, (i64)(nFirst+nOp)*pWork->nGroup);
  }
  bnCounting = 0;
  bnOperations(pWork, p, nFirst);
  benchExec(p, "PRAGMA wal_checkpoint(TRUNCATE)");
  bnCounting = 1;
  CALLGRIND_START_INSTRUMENTATION;
  benchCounted(pWork, p, nOp);
  CALLGRIND_STOP_INSTRUMENTATION;
  bnCounting = 0;
  printf("%s%s %d\n", pWork->zKey, zSuffix, nOp);
}

int benchCount(const BnOptions *pOpt){
  int nFail = 0, i;
  CALLGRIND_STOP_INSTRUMENTATION;
  for(i=0; i<BN_NWORK; i++){
    const BnWork *pWork = &aWork[i];
    BnSide *p;
    if( !bnSelected(pOpt, pWork) ) continue;
    p = benchOpen(pOpt, pWork->aQueue, BN_CLAIMQ);
    bnDepth(pWork, p, BN_DEPTH);
    benchCountSide(pWork, p, pWork->nTxn>1 ? 100 : 10, "");
    nFail += benchCheck(p);
    benchClose(p);
  }
  return nFail + benchExtra(pOpt) + benchOpening(pOpt);
}
