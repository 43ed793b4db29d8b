/*
** bench_space.c: what a job costs in bytes.
**
**   *  Bytes written: how much the WAL grows, without checkpoints, when jobs
**      are put, claimed and completed one at a time in autocommit.
**   *  Size: the database and its WAL after many jobs went through a queue of
**      1,000, one at a time, a hundred in a transaction, with SQLite's own
**      checkpoints.  A session forgets completed jobs, as the floor does; a
**      lane keeps jobs, attempts and events.
*/
#include "bench.h"
#include <stdio.h>
#include <sys/stat.h>

#define BN_NWRITE 2000            /* Jobs whose bytes are counted */
#define BN_QUEUE  1000            /* Jobs that wait */
#define BN_NTXN    100            /* Jobs in one transaction */

static double bnFileSize(const BnSide *p, const char *zEnd){
  char z[320];
  struct stat st;
  sqlite3_snprintf(sizeof(z), z, "%s%s", p->zFile, zEnd);
  return stat(z, &st) ? 0 : (double)st.st_size;
}

/*
** One line: the same thing on both sides.
*/
static void bnReportSpace(
  const BnOptions *pOpt, const BnWork *pWork, i64 nJob, const double *aByte
){
  if( pOpt->bJson ){
    benchJsonHead(pOpt, "space", pWork);
    printf("\"param\":{\"jobs\":%lld},\"floor_bytes\":%.0f,"
      "\"claimq_bytes\":%.0f,\"ratio\":%.3f,\"unit\":\"bytes\"}\n", nJob,
      aByte[BN_FLOOR], aByte[BN_CLAIMQ], aByte[BN_CLAIMQ]/aByte[BN_FLOOR]);
  }else{
    printf("%-46s %-6s %8lld jobs  floor %.0f  claimq %.0f  ratio %.2f\n",
      pWork->zName, pOpt->zPlace, nJob, aByte[BN_FLOOR], aByte[BN_CLAIMQ],
      aByte[BN_CLAIMQ]/aByte[BN_FLOOR]);
  }
  fflush(stdout);
}

static void bnOne(BnSide *p){
  if( benchTake(p, 1)!=1 ) benchDie("the queue ran dry");
  benchDone(p);
}

/* aOut[0]: bytes per put, aOut[1]: per claim and complete. */
static void bnWritten(BnSide *p, double *aOut){
  double rBefore;
  int i;
  benchFill(p, BN_QUEUE);
  benchExec(p, "PRAGMA wal_autocheckpoint=0;"
               "PRAGMA wal_checkpoint(TRUNCATE)");
  for(i=0; i<BN_NWRITE; i++) benchPut(p);
  rBefore = bnFileSize(p, "-wal");
  aOut[0] = rBefore / BN_NWRITE;
  for(i=0; i<BN_NWRITE; i++) bnOne(p);
  aOut[1] = (bnFileSize(p, "-wal") - rBefore) / BN_NWRITE;
  benchExec(p, "PRAGMA wal_autocheckpoint=1000;"
               "PRAGMA wal_checkpoint(TRUNCATE)");
}

/* aOut[0]: the database, aOut[1]: the WAL. */
static void bnThrough(BnSide *p, i64 nJob, double *aOut){
  i64 i;
  int k;
  for(i=0; i<nJob; i+=BN_NTXN){
    benchRun(p, BN_BEGIN);
    for(k=0; k<BN_NTXN; k++) benchPut(p);
    benchRun(p, BN_COMMIT);
    benchRun(p, BN_BEGIN);
    for(k=0; k<BN_NTXN; k++) bnOne(p);
    benchRun(p, BN_COMMIT);
  }
  aOut[0] = bnFileSize(p, "");
  aOut[1] = bnFileSize(p, "-wal");
}

static int bnQueueSpace(const BnOptions *pOpt, const BnQueue *aQueue){
  static const char *const azWhat[] = {
    "bytes written per job put", "bytes written per claim+complete",
    "database after this many jobs", "WAL after this many jobs"
  };
  i64 nJob = pOpt->bQuick ? 50000 : 1000000;
  double aByte[BN_NSIDE][4];
  char zKey[30], zName[80];
  BnWork work = {zKey, zName, 0, 0, 1, 0, 0, 0, 0, 0};
  int nFail = 0, i;
  for(i=0; i<BN_NSIDE; i++){
    BnSide *p = benchOpen(pOpt, aQueue, i);
    bnWritten(p, &aByte[i][0]);
    bnThrough(p, nJob, &aByte[i][2]);
    nFail += benchCheck(p);
    benchClose(p);
  }
  for(i=0; i<4; i++){
    double a[BN_NSIDE];
    a[BN_FLOOR] = aByte[BN_FLOOR][i];
    a[BN_CLAIMQ] = aByte[BN_CLAIMQ][i];
    sqlite3_snprintf(sizeof(zKey), zKey, "%s.space%d", aQueue->zName, i);
    sqlite3_snprintf(sizeof(zName), zName, "%s %s", aQueue->zName, azWhat[i]);
    bnReportSpace(pOpt, &work, i<2 ? BN_NWRITE : nJob, a);
  }
  return nFail;
}

int benchSpace(const BnOptions *pOpt){
  int nFail = 0;
  if( pOpt->zOnly==0 || sqlite3_strglob(pOpt->zOnly, "session")==0 ){
    nFail += bnQueueSpace(pOpt, benchSession);
  }
  if( pOpt->zOnly==0 || sqlite3_strglob(pOpt->zOnly, "lane")==0 ){
    nFail += bnQueueSpace(pOpt, benchLane);
  }
  return nFail;
}
