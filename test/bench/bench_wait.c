/*
** bench_wait.c: how soon a worker is woken, and what it costs to wait.
**
** Two ways to wait are compared: claimq_wait(), and what one would write by
** hand, PRAGMA data_version every millisecond.  Each waiter is a process of
** its own; this one commits.
**
**   *  Latency: from the moment COMMIT returned to the writer to the moment the
**      waiter has its answer, over some hundred commits, 3 to 7 ms apart; with
**      1 and 8 waiters, with a write-ahead log and with a rollback journal.  It
**      may be less than nothing: a waiter can see a commit before the writer
**      hears that it is done.  A commit that woke a waiter only together
**      with the next one counts until then.
**   *  Idle: processor time of a waiter while nothing happens.
**   *  Crowd: processor time of a waiter while 1,000 commits a second concern
**      somebody else.  (By hand nothing is asked of the queue: the figure is
**      for data_version alone.)
*/
#define _GNU_SOURCE
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BN_NWAITER 8
#define BN_NCOMMIT 500            /* Commits of one measurement at most */
#define BN_WAIT_MS 60000

/* What the processes share. */
typedef struct BnWatch BnWatch;
struct BnWatch {
  volatile int nReady;
  volatile int bStop;
  int nCommit;
  double aBegin[BN_NCOMMIT+1];    /* When COMMIT was called */
  double aEnd[BN_NCOMMIT];        /* ... and when it returned */
  volatile int anWake[BN_NWAITER];
  double aWake[BN_NWAITER][BN_NCOMMIT*2];
};

/* One measurement. */
typedef struct BnWaitJob BnWaitJob;
struct BnWaitJob {
  const BnOptions *pOpt;
  const char *zJournal;           /* "wal" or "delete" */
  int eSide;                      /* BN_FLOOR: by hand */
  int nWaiter;
  int bLane;                      /* Wait for a job of lane 'mine' */
  char zFile[300];
  pid_t aPid[BN_NWAITER];
  BnWatch *p;
};

/**************************************************************************
** Connections
*/
static void bnExec(sqlite3 *db, const char *zSql){
  if( sqlite3_exec(db, zSql, 0, 0, 0) ){
    benchDie("%s: %s", zSql, sqlite3_errmsg(db));
  }
}

static sqlite3 *bnConnect(const BnWaitJob *pJob){
  sqlite3 *db = 0;
  char zSql[100];
  if( sqlite3_open(pJob->zFile, &db) ) benchDie("open %s", pJob->zFile);
  sqlite3_busy_timeout(db, BN_BUSY_MS);
  sqlite3_snprintf(sizeof(zSql), zSql,
      "PRAGMA journal_mode=%s; PRAGMA synchronous=NORMAL", pJob->zJournal);
  bnExec(db, zSql);
  sqlite3_enable_load_extension(db, 1);
  if( sqlite3_load_extension(db, pJob->pOpt->zSo, 0, 0) ){
    benchDie("cannot load %s", pJob->pOpt->zSo);
  }
  return db;
}

static sqlite3_stmt *bnStatement(sqlite3 *db, const char *zSql){
  sqlite3_stmt *pStmt = 0;
  if( sqlite3_prepare_v2(db, zSql, -1, &pStmt, 0) ){
    benchDie("%s: %s", zSql, sqlite3_errmsg(db));
  }
  return pStmt;
}

/*
** Run a statement; returns its one integer, or 0.
*/
static i64 bnValue(sqlite3 *db, sqlite3_stmt *pStmt){
  i64 v = 0;
  if( sqlite3_step(pStmt)==SQLITE_ROW ) v = sqlite3_column_int64(pStmt, 0);
  if( sqlite3_reset(pStmt) ){
    benchDie("%s: %s", sqlite3_sql(pStmt), sqlite3_errmsg(db));
  }
  return v;
}

static void bnRemove(const BnWaitJob *pJob){
  static const char *const azEnd[] = {"", "-wal", "-shm", "-journal"};
  char z[320];
  int i;
  for(i=0; i<4; i++){
    sqlite3_snprintf(sizeof(z), z, "%s%s", pJob->zFile, azEnd[i]);
    unlink(z);
  }
}

/**************************************************************************
** A waiter
*/
/*
** By hand: until data_version changes or there is nothing more to wait for.
*/
static void bnPoll(BnWatch *p, sqlite3 *db, sqlite3_stmt *pStmt, i64 *piLast){
  i64 i;
  while( (i = bnValue(db, pStmt))==*piLast && !p->bStop ) usleep(1000);
  *piLast = i;
}

static void bnWaiter(const BnWaitJob *pJob, int iMe){
  BnWatch *p = pJob->p;
  sqlite3 *db = bnConnect(pJob);
  sqlite3_stmt *pStmt = bnStatement(db,
      pJob->eSide==BN_FLOOR ? "PRAGMA data_version"
      : pJob->bLane ? "SELECT claimq_wait(?1, 'lane', 'mine')"
      : "SELECT claimq_wait(?1)");
  i64 iLast = 0;
  int n = 0;
  if( pJob->eSide==BN_FLOOR ){
    iLast = bnValue(db, pStmt);
  }else{
    sqlite3_bind_int(pStmt, 1, pJob->bLane ? 1 : BN_WAIT_MS);
    bnValue(db, pStmt);           /* The first returns at once */
    sqlite3_bind_int(pStmt, 1, BN_WAIT_MS);
  }
  __sync_fetch_and_add(&p->nReady, 1);
  while( !p->bStop ){
    if( pJob->eSide==BN_FLOOR ) bnPoll(p, db, pStmt, &iLast);
    else bnValue(db, pStmt);
    p->aWake[iMe][n] = benchClock(0);
    if( n<BN_NCOMMIT*2-1 ) n++;
    p->anWake[iMe] = n;
  }
  sqlite3_finalize(pStmt);
  if( sqlite3_close(db) ) benchDie("close");
  _exit(0);
}

/**************************************************************************
** The writer
*/
static void bnStart(BnWaitJob *pJob, const char *zName){
  sqlite3 *db;
  int i;
  sqlite3_snprintf(sizeof(pJob->zFile), pJob->zFile, "%s/claimq-wait-%d.db",
                   pJob->pOpt->zDir, (int)getpid());
  bnRemove(pJob);
  db = bnConnect(pJob);
  bnExec(db, "SELECT claimq_init()");
  if( sqlite3_close(db) ) benchDie("close");
  memset(pJob->p, 0, sizeof(*pJob->p));
  fflush(stdout);
  for(i=0; i<pJob->nWaiter; i++){
    pJob->aPid[i] = fork();
    if( pJob->aPid[i]<0 ) benchDie("%s: fork", zName);
    if( pJob->aPid[i]==0 ) bnWaiter(pJob, i);
  }
  while( pJob->p->nReady<pJob->nWaiter ) usleep(1000);
  usleep(200000);                 /* Let them fall asleep */
}

/*
** One more commit, so that all of them see that it is over.
*/
static void bnStop(BnWaitJob *pJob, sqlite3 *db){
  int i, iStatus;
  pJob->p->bStop = 1;
  bnExec(db, "SELECT claimq_submit('mine', 'the end')");
  for(i=0; i<pJob->nWaiter; i++){
    if( wait(&iStatus)<0 || iStatus!=0 ) benchDie("a waiter failed");
  }
  if( sqlite3_close(db) ) benchDie("close");
  bnRemove(pJob);
}

/*
** nCommit commits of a job for lane 'other', usLeast to usMost apart.
*/
static void bnCommits(
  BnWaitJob *pJob, sqlite3 *db, int nCommit, int usLeast, int usMost
){
  BnWatch *p = pJob->p;
  sqlite3_stmt *pPut = bnStatement(db, "SELECT claimq_submit('other', 'x')");
  sqlite3_stmt *pBegin = bnStatement(db, "BEGIN IMMEDIATE");
  sqlite3_stmt *pCommit = bnStatement(db, "COMMIT");
  unsigned int iSeed = 12345;
  int i;
  for(i=0; i<nCommit; i++){
    iSeed = iSeed*1103515245u + 12345u;
    usleep((useconds_t)usLeast + (iSeed>>16)%(unsigned)(usMost-usLeast+1));
    bnValue(db, pBegin);
    bnValue(db, pPut);
    p->aBegin[i%BN_NCOMMIT] = benchClock(0);
    bnValue(db, pCommit);
    p->aEnd[i%BN_NCOMMIT] = benchClock(0);
  }
  p->nCommit = nCommit<BN_NCOMMIT ? nCommit : BN_NCOMMIT;
  sqlite3_finalize(pPut);
  sqlite3_finalize(pBegin);
  sqlite3_finalize(pCommit);
}

/**************************************************************************
** Results
*/
static int bnCompareDouble(const void *a, const void *b){
  double x = *(const double*)a, y = *(const double*)b;
  return x<y ? -1 : x>y;
}

/*
** The latencies of all waiters, sorted; returns how many.
*/
static int bnLatencies(const BnWaitJob *pJob, double *aOut){
  const BnWatch *p = pJob->p;
  int n = 0, i, j, k;
  for(i=0; i<pJob->nWaiter; i++){
    for(j=k=0; j<p->nCommit; j++){
      while( k<p->anWake[i] && p->aWake[i][k]<p->aBegin[j] ) k++;
      if( k<p->anWake[i] ) aOut[n++] = 1e6*(p->aWake[i][k]-p->aEnd[j]);
    }
  }
  qsort(aOut, (size_t)n, sizeof(double), bnCompareDouble);
  return n;
}

static const char *bnWay(const BnWaitJob *pJob){
  return pJob->eSide==BN_FLOOR ? "by hand, 1 ms" : "claimq_wait";
}

static void bnReportWait(
  const BnWaitJob *pJob, const char *zName, const char *zUnit, double rP50,
  double rP99, double rTarget
){
  if( pJob->pOpt->bJson ){
    printf("{\"group\":\"wait\",\"name\":\"%s\",\"place\":\"%s\","
      "\"param\":{\"way\":\"%s\",\"journal\":\"%s\",\"waiters\":%d},"
      "\"p50\":%.2f,\"p99\":%.2f,", zName, pJob->pOpt->zPlace, bnWay(pJob),
      pJob->zJournal, pJob->nWaiter, rP50, rP99);
    if( rTarget>0 && pJob->eSide==BN_CLAIMQ ){
      printf("\"ratio\":%.2f,\"target\":%.2f,", rP50, rTarget);
    }
    printf("\"unit\":\"%s\"}\n", zUnit);
  }else{
    printf("%-24s %-5s %-6s %d waiters  %-14s %9.2f %9.2f %s\n", zName,
      pJob->pOpt->zPlace, pJob->zJournal, pJob->nWaiter, bnWay(pJob), rP50,
      rP99, zUnit);
  }
  fflush(stdout);
}

static void bnLatency(BnWaitJob *pJob){
  double *a = malloc(sizeof(double)*BN_NWAITER*BN_NCOMMIT);
  int n;
  sqlite3 *db;
  if( a==0 ) benchDie("no memory");
  bnStart(pJob, "latency");
  db = bnConnect(pJob);
  bnExec(db, "SELECT claimq_submit('other', 'warm up')");
  usleep(100000);
  bnCommits(pJob, db, pJob->pOpt->bQuick ? 200 : BN_NCOMMIT, 3000, 7000);
  usleep(100000);
  bnStop(pJob, db);
  n = bnLatencies(pJob, a);
  if( n==0 ) benchDie("nobody was woken");
  bnReportWait(pJob, "commit to awake", "us", a[n/2],
      a[(int)((i64)n*99/100)], pJob->nWaiter>1 ? 0
      : strcmp(pJob->zJournal, "wal")==0 ? 200 : 1000);
  free(a);
}

/*
** Processor time that the first waiter has used so far, in ms.  Linux tells it
** in nanoseconds; elsewhere there is no such file, and the figure is 0.
*/
static double bnCpu(const BnWaitJob *pJob){
  char zFile[60];
  double r = 0;
  FILE *f;
  sqlite3_snprintf(sizeof(zFile), zFile, "/proc/%d/schedstat",
                   (int)pJob->aPid[0]);
  f = fopen(zFile, "r");
  if( f==0 ) return 0;
  if( fscanf(f, "%lf", &r)!=1 ) r = 0;
  fclose(f);
  return r/1e6;
}

static void bnIdle(BnWaitJob *pJob){
  double rTime, rCpu;
  bnStart(pJob, "idle");
  rCpu = bnCpu(pJob);
  rTime = benchClock(0);
  sleep(pJob->pOpt->bQuick ? 2 : 6);
  rTime = benchClock(0) - rTime;
  rCpu = bnCpu(pJob) - rCpu;
  bnStop(pJob, bnConnect(pJob));
  bnReportWait(pJob, "idle", "ms/s", rCpu/rTime, rCpu/rTime, 1);
}

static void bnAround(BnWaitJob *pJob){
  int nCommit = pJob->pOpt->bQuick ? 1000 : 3000;
  double rTime, rCpu;
  sqlite3 *db;
  pJob->bLane = 1;
  bnStart(pJob, "crowd");
  db = bnConnect(pJob);
  rCpu = bnCpu(pJob);
  rTime = benchClock(0);
  bnCommits(pJob, db, nCommit, 700, 1100);
  rTime = benchClock(0) - rTime;
  rCpu = bnCpu(pJob) - rCpu;
  bnStop(pJob, db);
  pJob->bLane = 0;
  bnReportWait(pJob, "1,000 commits/s", "ms/s", rCpu/rTime, 0, 50);
}

int benchWait(const BnOptions *pOpt){
  static const char *const azJournal[] = {"wal", "delete"};
  BnWaitJob job;
  int i, eSide, nWaiter;
  memset(&job, 0, sizeof(job));
  job.pOpt = pOpt;
  job.p = benchShared(sizeof(BnWatch));
  for(i=0; i<2; i++){
    job.zJournal = azJournal[i];
    for(eSide=0; eSide<BN_NSIDE; eSide++){
      job.eSide = eSide;
      for(nWaiter=1; nWaiter<=BN_NWAITER; nWaiter+=BN_NWAITER-1){
        job.nWaiter = nWaiter;
        bnLatency(&job);
      }
      job.nWaiter = 1;
      bnIdle(&job);
      bnAround(&job);
    }
  }
  munmap(job.p, sizeof(BnWatch));
  return 0;
}
