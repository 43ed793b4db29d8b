/*
** bench_db.c: a side of the benchmark: its file, its connection, its prepared
** statements, and the list of what it has done.
**
** Every job has a number, written in the first ten bytes of its payload, which
** the worker reads when it claims the job and ticks off when it has completed
** it.  At the end each job must have been ticked off once, or be still there.
** The list is in shared memory, so that processes can tick off together.
*/
#define _GNU_SOURCE
#include "bench.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

void benchDie(const char *zFmt, ...){
  va_list ap;
  va_start(ap, zFmt);
  fprintf(stderr, "bench: ");
  vfprintf(stderr, zFmt, ap);
  fprintf(stderr, "\n");
  va_end(ap);
  exit(2);
}

i64 benchNowMs(void){
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (i64)t.tv_sec*1000 + t.tv_nsec/1000000;
}

/*
** Seconds, to be subtracted.
*/
double benchClock(int bCpu){
  struct timespec t;
  clock_gettime(bCpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec/1e9;
}

void *benchShared(size_t n){
  void *p = mmap(0, n, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANONYMOUS, -1, 0);
  if( p==MAP_FAILED ) benchDie("no memory");
  return p;
}

/**************************************************************************
** Statements
*/
static void bnFail(BnSide *p, const char *zWhat){
  benchDie("%s %s: %s: %s", p->eSide==BN_CLAIMQ ? "claimq" : "floor",
           p->pQueue->zName, zWhat, sqlite3_errmsg(p->db));
}

void benchExec(BnSide *p, const char *zSql){
  if( sqlite3_exec(p->db, zSql, 0, 0, 0) ) bnFail(p, zSql);
}

sqlite3_stmt *benchPrepare(BnSide *p, const char *zSql){
  sqlite3_stmt *pStmt = 0;
  if( sqlite3_prepare_v3(p->db, zSql, -1, SQLITE_PREPARE_PERSISTENT, &pStmt, 0)
  ){
    bnFail(p, zSql);
  }
  return pStmt;
}

i64 benchInt(BnSide *p, const char *zSql){
  sqlite3_stmt *pStmt = benchPrepare(p, zSql);
  i64 n = 0;
  if( benchStep(p, pStmt) ) n = sqlite3_column_int64(pStmt, 0);
  sqlite3_finalize(pStmt);
  return n;
}

sqlite3_stmt *benchStmt(BnSide *p, int eStmt){
  if( p->apStmt[eStmt]==0 ){
    const char *zSql = p->pQueue->azSql[eStmt];
    if( eStmt==BN_BEGIN ) zSql = "BEGIN IMMEDIATE";
    if( eStmt==BN_COMMIT ) zSql = "COMMIT";
    p->apStmt[eStmt] = benchPrepare(p, zSql);
  }
  return p->apStmt[eStmt];
}

/*
** SQLITE_BUSY must not come back to a worker that waits.  It is counted, and
** tried again.
*/
int benchStep(BnSide *p, sqlite3_stmt *pStmt){
  int rc;
  while( (rc = sqlite3_step(pStmt))!=SQLITE_ROW && rc!=SQLITE_DONE ){
    if( (rc & 0xff)!=SQLITE_BUSY ) bnFail(p, sqlite3_sql(pStmt));
    __sync_fetch_and_add(p->pnBusy, 1);
    sqlite3_reset(pStmt);
  }
  return rc==SQLITE_ROW;
}

/*
** Run to the end (a RETURNING clause is done only then) and reset.
*/
void benchReset(BnSide *p, sqlite3_stmt *pStmt){
  if( sqlite3_reset(pStmt) ) bnFail(p, sqlite3_sql(pStmt));
}

void benchRun(BnSide *p, int eStmt){
  sqlite3_stmt *pStmt = benchStmt(p, eStmt);
  while( benchStep(p, pStmt) ){}
  benchReset(p, pStmt);
}

int benchIsClaimq(const BnSide *p){
  return p->eSide==BN_CLAIMQ || p->pQueue->bClaimq;
}

i64 benchSteps(BnSide *p){
  i64 n = 0;
  int i;
  for(i=0; i<BN_NSTMT; i++){
    if( p->apStmt[i]==0 ) continue;
    n += sqlite3_stmt_status(p->apStmt[i], SQLITE_STMTSTATUS_VM_STEP, 0);
  }
  if( benchIsClaimq(p) ){
    n += benchInt(p, "SELECT sum(vm_steps) FROM claimq_stmt");
  }
  return n;
}

/**************************************************************************
** Connection and file
*/
void benchLoad(BnSide *p){
  char *zErr = 0;
  sqlite3_enable_load_extension(p->db, 1);
  if( sqlite3_load_extension(p->db, p->pOpt->zSo, 0, &zErr) ){
    benchDie("cannot load %s: %s", p->pOpt->zSo, zErr);
  }
  sqlite3_enable_load_extension(p->db, 0);
}

void benchConnect(BnSide *p){
  if( sqlite3_open(p->zFile, &p->db) ) bnFail(p, p->zFile);
  sqlite3_busy_timeout(p->db, BN_BUSY_MS);
  benchExec(p, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
  if( p->pOpt->bCount ) benchExec(p, "PRAGMA wal_autocheckpoint=0");
  if( benchIsClaimq(p) ) benchLoad(p);
}

void benchDisconnect(BnSide *p){
  int i;
  for(i=0; i<BN_NSTMT; i++){
    sqlite3_finalize(p->apStmt[i]);
    p->apStmt[i] = 0;
  }
  if( sqlite3_close(p->db) ) bnFail(p, "close");
  p->db = 0;
}

/*
** Files of sides that are open, so that nothing is left behind, however we
** end: they may be large, and tmpfs is memory.
*/
static char azFile[BN_NSIDE][300];
static pid_t iOwner = 0;

static void bnUnlink(const char *zFile){
  static const char *const azEnd[] = {"", "-wal", "-shm", "-journal"};
  char z[320];
  int i;
  for(i=0; i<4; i++){
    strcpy(z, zFile);
    strcat(z, azEnd[i]);
    unlink(z);
  }
}

static void bnAtExit(void){
  int i;
  if( getpid()!=iOwner ) return;
  for(i=0; i<BN_NSIDE; i++){
    if( azFile[i][0] ) bnUnlink(azFile[i]);
  }
}

static void bnSignal(int iSignal){
  bnAtExit();
  _exit(128+iSignal);
}

static void bnOwn(const BnSide *p){
  if( iOwner==0 ){
    iOwner = getpid();
    atexit(bnAtExit);
    signal(SIGINT, bnSignal);
    signal(SIGTERM, bnSignal);
  }
  strcpy(azFile[p->eSide], p->zFile);
}

BnSide *benchOpen(const BnOptions *pOpt, const BnQueue *aQueue, int eSide){
  BnSide *p = calloc(1, sizeof(*p));
  if( p==0 ) benchDie("no memory");
  p->eSide = eSide;
  p->pQueue = &aQueue[eSide];
  p->pOpt = pOpt;
  p->zScope = "s";
  p->nScope = 1;
  p->aDone = benchShared(BN_NSERIAL);
  p->pnBusy = benchShared(sizeof(i64));
  sqlite3_snprintf(sizeof(p->zFile), p->zFile, "%s/claimq-bench-%d-%s.db",
      pOpt->zDir, (int)getpid(), eSide==BN_CLAIMQ ? "claimq" : "floor");
  bnOwn(p);
  bnUnlink(p->zFile);
  benchConnect(p);
  benchExec(p, p->pQueue->zSchema);
  return p;
}

void benchClose(BnSide *p){
  benchDisconnect(p);
  bnUnlink(p->zFile);
  azFile[p->eSide][0] = 0;
  munmap(p->aDone, BN_NSERIAL);
  munmap(p->pnBusy, sizeof(i64));
  free(p);
}

/**************************************************************************
** Who did what
*/
i64 benchSerial(const unsigned char *zPayload, int n){
  i64 i = 0;
  int k;
  if( n!=BN_NPAYLOAD ) benchDie("a payload came back with %d bytes", n);
  for(k=0; k<10; k++) i = i*10 + (zPayload[k]-'0');
  return i;
}

void benchPayload(i64 iSerial, char *z){
  int k;
  memset(z, 'x', BN_NPAYLOAD);
  for(k=9; k>=0; k--){
    z[k] = (char)('0' + iSerial%10);
    iSerial /= 10;
  }
}

/*
** A job was done.  Many times is no more than twice.
*/
void benchTick(BnSide *p, i64 iSerial){
  if( iSerial<0 || iSerial>=p->nSerial ){
    benchDie("a job that nobody made: %lld", iSerial);
  }
  if( p->aDone[iSerial]<2 ) __sync_fetch_and_add(&p->aDone[iSerial], 1);
}

/*
** Tick off what is still in the tables, too.
*/
static void bnTickRest(BnSide *p){
  sqlite3_stmt *pStmt = benchStmt(p, BN_REST);
  while( benchStep(p, pStmt) ){
    i64 i = benchSerial(sqlite3_column_text(pStmt, 0),
                        sqlite3_column_bytes(pStmt, 0));
    benchTick(p, i);
  }
  benchReset(p, pStmt);
}

int benchCheck(BnSide *p){
  i64 nLost = 0, nTwice = 0, i;
  if( p->pQueue->bNoPayload ){
    nTwice = benchInt(p, p->pQueue->azSql[BN_REST]);
  }else{
    bnTickRest(p);
  }
  for(i=0; i<p->nSerial; i++){
    nLost += p->aDone[i]==0;
    nTwice += p->aDone[i]>1;
  }
  if( nLost || nTwice || *p->pnBusy ){
    fprintf(stderr, "FAILED: %s %s: of %lld jobs %lld lost, %lld done more than"
            " once; SQLITE_BUSY %lld times\n", p->pQueue->zName,
            benchIsClaimq(p) ? "claimq" : "floor",
            p->nSerial, nLost, nTwice, *p->pnBusy);
    return 1;
  }
  return 0;
}
