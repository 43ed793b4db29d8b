/*
** bench_contend.c: 1 to 16 processes on one file, each in a loop of claim and
** complete in autocommit, for a fixed time; or (.next) of complete and claim in
** one transaction.  Some do nothing else; the others sleep for half a
** millisecond between the two, as somebody does who works.
**
** Rounds of the floor and of claimq take turns.  Reported are jobs per second
** of all processes together, how long a claim takes (the median, the 99th
** percentile, and what one of a thousand exceeds), and fairness: the jobs of
** the process that got least, divided by those of the one that got most.
** Whoever meets a lock waits (busy_timeout); SQLITE_BUSY must never come back.
**
** Every process ticks off what it completed in memory that all share, so that
** the check at the end sees what was done twice, by whomever.
*/
#define _GNU_SOURCE
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BN_NPROC     16
#define BN_NLATENCY  200000       /* Jobs one process can do in a round */
#define BN_PER_S     150000       /* More than all can do in a second */

/* How many processes, and how long each works on a job, in microseconds. */
typedef struct BnShape BnShape;
struct BnShape { int nProc; int usWork; int bNext; };

/* What the processes of a round share. */
typedef struct BnCrowd BnCrowd;
struct BnCrowd {
  volatile int nReady;
  volatile int bGo;
  volatile double rStart;
  int anDone[BN_NPROC];           /* In time */
  int anLate[BN_NPROC];           /* After the end of the round */
  float aLatency[BN_NPROC][BN_NLATENCY];
};

/* The results of one side. */
typedef struct BnSum BnSum;
struct BnSum {
  double aPerS[BN_NROUND_MAX];
  double aFair[BN_NROUND_MAX];
  float *aLatency;                /* Of all rounds */
  int nLatency;
};

/**************************************************************************
** A process
*/
static void bnWorker(
  BnSide *p, BnCrowd *pCrowd, int iProc, const BnShape *pShape, double rLength
){
  double rEnd, r0, r1, rTake;
  benchConnect(p);
  benchStmt(p, BN_TAKE);
  benchStmt(p, BN_DONE);
  __sync_fetch_and_add(&pCrowd->nReady, 1);
  while( !pCrowd->bGo ) usleep(100);
  rEnd = pCrowd->rStart + rLength;
  if( pShape->bNext ) benchTake(p, 1);
  for(r0=benchClock(0); r0<rEnd; r0=r1){
    if( (pShape->bNext ? benchNext(p) : benchTake(p, 1))!=1 ){
      benchDie("the queue ran dry");
    }
    rTake = benchClock(0) - r0;
    if( pShape->usWork ) usleep((useconds_t)pShape->usWork);
    if( !pShape->bNext ) benchDone(p);
    r1 = benchClock(0);
    if( r1>rEnd || pCrowd->anDone[iProc]==BN_NLATENCY ){
      pCrowd->anLate[iProc]++;
    }else{
      pCrowd->aLatency[iProc][pCrowd->anDone[iProc]++] = (float)rTake;
    }
  }
  if( pShape->bNext ){
    benchDone(p);
    pCrowd->anLate[iProc]++;
  }
  benchDisconnect(p);
  _exit(0);
}

/*
** A round.  A connection must not be taken through fork(), so the parent
** closes its own.
*/
static void bnCrowd(
  BnSide *p, BnCrowd *pCrowd, const BnShape *pShape, double rLength
){
  int i, iStatus, nProc = pShape->nProc;
  memset(pCrowd, 0, sizeof(*pCrowd));
  benchDisconnect(p);
  for(i=0; i<nProc; i++){
    pid_t pid = fork();
    if( pid<0 ) benchDie("fork");
    if( pid==0 ) bnWorker(p, pCrowd, i, pShape, rLength);
  }
  while( pCrowd->nReady<nProc && waitpid(-1, &iStatus, WNOHANG)==0 ){
    usleep(100);
  }
  pCrowd->rStart = benchClock(0);
  pCrowd->bGo = 1;
  for(i=0; i<nProc; i++){
    if( wait(&iStatus)<0 || iStatus!=0 ) benchDie("a process failed");
  }
  benchConnect(p);
}

/**************************************************************************
** Results
*/
static int bnCompareFloat(const void *a, const void *b){
  float x = *(const float*)a, y = *(const float*)b;
  return x<y ? -1 : x>y;
}

/*
** Microseconds; aLatency is sorted.
*/
static double bnPercentile(const BnSum *p, double rPercent){
  return p->aLatency[(i64)((p->nLatency-1)*rPercent/100)] * 1e6;
}

/*
** Add the round iRound to the sum.  Returns the number of jobs done.
*/
static int bnCollect(
  BnSum *pSum, const BnCrowd *pCrowd, int iRound, int nProc, double rLength
){
  int nAll = 0, nLate = 0, nMin = pCrowd->anDone[0], nMax = nMin, i;
  for(i=0; i<nProc; i++){
    int n = pCrowd->anDone[i];
    pSum->aLatency = realloc(pSum->aLatency,
        sizeof(float)*(size_t)(pSum->nLatency+n+1));
    if( pSum->aLatency==0 ) benchDie("no memory");
    memcpy(&pSum->aLatency[pSum->nLatency], pCrowd->aLatency[i],
           sizeof(float)*(size_t)n);
    pSum->nLatency += n;
    nAll += n;
    nLate += pCrowd->anLate[i];
    if( n<nMin ) nMin = n;
    if( n>nMax ) nMax = n;
  }
  pSum->aPerS[iRound] = nAll/rLength;
  pSum->aFair[iRound] = nMax ? (double)nMin/nMax : 0;
  return nAll + nLate;
}

static void bnReportSide(
  const BnOptions *pOpt, const char *zSide, const BnSum *p, int nRound
){
  printf(pOpt->bJson
    ? "\"%s_per_s\":%.0f,\"%s_p50_us\":%.1f,\"%s_p99_us\":%.1f,"
      "\"%s_p999_us\":%.1f,\"%s_fairness\":%.3f,"
    : "  %s %.0f/s, claim: %s p50 %.1f us %s p99 %.1f us %s p99.9 %.1f us, "
      "%s fairness %.2f\n",
    zSide, benchMedian(p->aPerS, nRound), zSide, bnPercentile(p, 50),
    zSide, bnPercentile(p, 99), zSide, bnPercentile(p, 99.9),
    zSide, benchMedian(p->aFair, nRound));
}

/*
** The ratio is that of the throughputs: 1 is as good as the floor, less is
** slower.
*/
static void bnReportCrowd(
  const BnOptions *pOpt, const BnWork *pWork, const BnShape *pShape,
  BnSum *aSum, i64 nBusy
){
  BnStat stat = benchStat(aSum[BN_CLAIMQ].aPerS, aSum[BN_FLOOR].aPerS,
                          pOpt->nRound);
  int i;
  for(i=0; i<BN_NSIDE; i++){
    if( aSum[i].nLatency==0 ) benchDie("nothing done in a round");
    qsort(aSum[i].aLatency, (size_t)aSum[i].nLatency, sizeof(float),
          bnCompareFloat);
  }
  if( pOpt->bJson ){
    benchJsonHead(pOpt, "contention", pWork);
    printf("\"param\":{\"processes\":%d,\"work_us\":%d},", pShape->nProc,
           pShape->usWork);
  }else{
    printf("%s, %d processes, %d us of work, on %s: "
      "throughput ratio %.2f (%.2f..%.2f)\n",
      pWork->zName, pShape->nProc, pShape->usWork, pOpt->zPlace,
      stat.rMedian, stat.rMin, stat.rMax);
  }
  bnReportSide(pOpt, "floor", &aSum[BN_FLOOR], pOpt->nRound);
  bnReportSide(pOpt, "claimq", &aSum[BN_CLAIMQ], pOpt->nRound);
  if( pOpt->bJson ){
    if( pWork->rTarget>0 && pShape->nProc==4 ){
      printf("\"target\":%.2f,\"sense\":\"at least\",", pWork->rTarget);
    }
    printf("\"busy\":%lld,", nBusy);
    benchJsonTail(&stat, "jobs per second", pOpt->nRound);
  }
  fflush(stdout);
}

/**************************************************************************
** All numbers of processes
*/
static int bnProcesses(
  const BnOptions *pOpt, const BnWork *pWork, BnCrowd *pCrowd,
  const BnShape *pShape
){
  double rLength = pOpt->bQuick ? 0.25 : 1.0;
  BnSide *aSide[BN_NSIDE];
  BnSum aSum[BN_NSIDE];
  int nFail = 0, iRound, i;
  memset(aSum, 0, sizeof(aSum));
  for(i=0; i<BN_NSIDE; i++){
    aSide[i] = benchOpen(pOpt, pWork->aQueue, i);
    benchFill(aSide[i], (i64)(BN_PER_S*rLength));
  }
  for(iRound=0; iRound<pOpt->nRound; iRound++){
    for(i=0; i<BN_NSIDE; i++){
      bnCrowd(aSide[i], pCrowd, pShape, rLength);
      benchFill(aSide[i],
                bnCollect(&aSum[i], pCrowd, iRound, pShape->nProc, rLength));
    }
  }
  bnReportCrowd(pOpt, pWork, pShape, aSum,
                *aSide[0]->pnBusy+*aSide[1]->pnBusy);
  for(i=0; i<BN_NSIDE; i++){
    nFail += benchCheck(aSide[i]);
    benchClose(aSide[i]);
    free(aSum[i].aLatency);
  }
  return nFail;
}

int benchContention(const BnOptions *pOpt){
  static const BnWork aWork[] = {
    {"session", "session claim+complete", benchSession, 0, 1, 0, 0, 0.8, 0, 0},
    {"lane", "lane claim+complete", benchLane, 0, 1, 0, 0, 0, 0, 0},
    {"session.next", "session complete+claim", benchSession, 0, 1, 0, 0, 0, 0,
     0},
    {"lane.next", "lane complete+claim", benchLane, 0, 1, 0, 0, 0, 0, 0},
  };
  static const BnShape aShape[] = {
    {1, 0, 0}, {2, 0, 0}, {4, 0, 0}, {8, 0, 0}, {16, 500, 0}
  };
  BnCrowd *pCrowd = benchShared(sizeof(BnCrowd));
  int nFail = 0, i;
  size_t j;
  for(i=0; i<4; i++){
    if( pOpt->zOnly && sqlite3_strglob(pOpt->zOnly, aWork[i].zKey) ) continue;
    for(j=0; j<sizeof(aShape)/sizeof(aShape[0]); j++){
      BnShape shape = aShape[j];
      if( pOpt->nMax && shape.nProc!=pOpt->nMax ) continue;
      shape.bNext = i>=2;
      nFail += bnProcesses(pOpt, &aWork[i], pCrowd, &shape);
    }
  }
  munmap(pCrowd, sizeof(BnCrowd));
  return nFail;
}
