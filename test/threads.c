/*
** threads.c: claimq in a program with many threads.
**
**     cc -fsanitize=thread -DSQLITE_CORE -Iext threads.c build/claimq.c \
**        -lsqlite3 -lpthread
**     ./threads_test 10              about ten seconds
**
** claimq has no global variables and takes no locks of its own: what belongs
** to a connection is protected by the connection's mutex.  This program is the
** proof, together with ThreadSanitizer, which ends it with an error when two
** threads touch the same memory without a lock between them.
**
** Threads work on queues of all disciplines, round after round:
**
**   own        each thread has a connection of its own to one file; others
**              open and close connections all the time
**   shared     all threads use one connection, in serialized mode
**   interrupt  as own, and one thread interrupts the others
**   wait       a hundred threads with connections of their own wait for work;
**              then it comes, and all are woken; then all are interrupted
**
** In the first three all work is done exactly once: a piece of work is a row of
** the table done, written in the transaction that completes it (shared: where
** no thread can have a transaction, what complete returns is counted).  Prints
** "N passed, M failed".
*/
#define _GNU_SOURCE               /* usleep() under -std=c99 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sqlite3.h>
#include "claimq.h"

#define NTHREAD   4               /* Threads that work */
#define NWAITER   100             /* Threads that wait */
#define NKIND     4               /* Sessions, lanes, outbox, letters */
#define NROW      3               /* Most rows that a claim brings */
#define NCOL      3               /* Columns that a query brings */

static int nPass = 0;             /* These two: by the main thread only */
static int nFail = 0;

/*
** What ThreadSanitizer need not report when SQLite itself is built for it: the
** header of the wal-index, shared memory which SQLite reads without a lock and
** checks afterwards.  (It marks the first two itself, for clang only.  The
** third sets read marks under file locks, of which no sanitizer knows.)
*/
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void){
  return "race:^walIndexWriteHdr$\n"
         "race:^walIndexTryHdr$\n"
         "race:^walRestartHdr$\n";
}

static void check(const char *zRound, const char *zWhat, int bOk){
  if( bOk ){
    nPass++;
  }else{
    nFail++;
    printf("FAILED threads: %s: %s\n", zRound, zWhat);
  }
}

/**************************************************************************
** Queries
*/
typedef struct Rows Rows;
struct Rows {
  int n;                          /* Rows; those beyond NROW are not kept */
  char az[NROW][NCOL][100];
};

/*
** Run one statement with one parameter (z may be 0).  Returns SQLite's code;
** rows go to pRows, which may be 0.
*/
static int query(sqlite3 *db, Rows *pRows, const char *zSql, const char *z){
  sqlite3_stmt *pStmt = 0;
  int i, rc;
  if( pRows ) pRows->n = 0;
  rc = sqlite3_prepare_v2(db, zSql, -1, &pStmt, 0);
  if( rc ) return rc;
  sqlite3_bind_text(pStmt, 1, z, -1, SQLITE_TRANSIENT);
  while( sqlite3_step(pStmt)==SQLITE_ROW ){
    if( pRows && pRows->n<NROW ){
      for(i=0; i<NCOL && i<sqlite3_column_count(pStmt); i++){
        const char *zCol = (const char*)sqlite3_column_text(pStmt, i);
        sqlite3_snprintf(100, pRows->az[pRows->n][i], "%s", zCol ? zCol : "");
      }
    }
    if( pRows ) pRows->n++;
  }
  return sqlite3_finalize(pStmt);
}

/* The one value of a query; -1 if it fails. */
static int number(sqlite3 *db, const char *zSql){
  Rows rows;
  if( query(db, &rows, zSql, 0) || rows.n!=1 ) return -1;
  return atoi(rows.az[0][0]);
}

/**************************************************************************
** A round: what the threads share
*/
typedef struct Round Round;
typedef struct Worker Worker;

struct Round {
  const char *zName;
  const char *zFile;
  int nEach;                      /* Pieces of work of each kind */
  int bShared;                    /* One connection for all */
  int msTtl;                      /* Lease; short if claims may get lost */
  int bStop;                      /* By setStop() and isStopped() only */
};
struct Worker {
  Round *pRound;
  sqlite3 *db;
  int iMe;
  unsigned int iSeed;
  int nDone;                      /* Pieces that this thread completed */
  int nInterrupt;
  char zErr[200];                 /* What went wrong, or "" */
  pthread_t id;
};

static void setStop(Round *p){
  __atomic_store_n(&p->bStop, 1, __ATOMIC_SEQ_CST);
}
static int isStopped(Round *p){
  return __atomic_load_n(&p->bStop, __ATOMIC_SEQ_CST);
}

static int random4(Worker *p){
  p->iSeed = p->iSeed*1103515245u + 12345u;
  return (int)(p->iSeed>>16) & 3;
}

/* Note an error that nothing excuses. */
static void complain(Worker *p, int rc, const char *zWhat){
  if( p->zErr[0] ) return;
  sqlite3_snprintf(sizeof(p->zErr), p->zErr, "%s: %d, %s", zWhat, rc,
                   sqlite3_errmsg(p->db));
}

/* 1 if rc is what an interrupt or the loss of a claim gives. */
static int isExcused(Worker *p, int rc){
  if( rc==SQLITE_INTERRUPT ){
    p->nInterrupt++;
    return 1;
  }
  return rc==SQLITE_ERROR
      && strstr(sqlite3_errmsg(p->db), "claim_lost")!=0;
}

static int openDb(const char *zFile, sqlite3 **pDb){
  int rc = sqlite3_open_v2(zFile, pDb,
      SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE|SQLITE_OPEN_FULLMUTEX, 0);
  sqlite3_busy_timeout(*pDb, 60000);
  return rc;
}

/**************************************************************************
** Work
*/

/*
** Claim work of one kind: payload, claim id and lease token of each row.
*/
static int claim(Worker *p, int eKind, Rows *pRows){
  static const char *const azSql[NKIND] = {
    "SELECT payload, claim_id, lease_token FROM claimq(NULL, ?1, %d, 3)",
    "SELECT payload, claim_id, lease_token FROM claimq_lane('l', ?1, %d, 1)",
    "SELECT payload, claim_id, lease_token FROM claimq_outbox('q', ?1, %d, 3)",
    "SELECT payload, claim_id, lease_token"
    "  FROM claimq_dead_letter(NULL, ?1, %d, 3)",
  };
  char zSql[200];
  char zOwner[20];
  sqlite3_snprintf(sizeof(zOwner), zOwner, "w%d", p->iMe);
  sqlite3_snprintf(sizeof(zSql), zSql, azSql[eKind], p->pRound->msTtl);
  return query(p->db, pRows, zSql, zOwner);
}

/*
** Settle a claim: complete it, or (one of four, and not letters) reject it, so
** that it becomes a letter.  *pbDone: it was completed.
*/
static int settle(Worker *p, int eKind, const Rows *pRows, int *pbDone){
  char zSql[300];
  Rows result;
  int bReject = eKind!=3 && random4(p)==0;
  int rc;
  sqlite3_snprintf(sizeof(zSql), zSql,
      bReject ? "SELECT claimq_reject(%Q, %Q, 'no')"
              : "SELECT claimq_complete(%Q, %Q)",
      pRows->az[0][1], pRows->az[0][2]);
  rc = query(p->db, &result, zSql, 0);
  *pbDone = rc==SQLITE_OK && !bReject;
  return rc;
}

/*
** End a transaction: commit if rc is SQLITE_OK, else roll back and note the
** error, unless it is excused.  1 if it was committed.  An interrupt can come
** when the work is done already: what counts is what is in the table then.
*/
static int endTransaction(Worker *p, int rc, const char *zWhat){
  if( rc==SQLITE_OK ) rc = query(p->db, 0, "COMMIT", 0);
  if( rc==SQLITE_OK ) return 1;
  if( !isExcused(p, rc) ) complain(p, rc, zWhat);
  while( !sqlite3_get_autocommit(p->db)
      && query(p->db, 0, "ROLLBACK", 0)==SQLITE_INTERRUPT ){}
  return 0;
}

/*
** In a transaction: the rows of done, and the settlement.
*/
static void settleWhole(Worker *p, int eKind, const Rows *pRows){
  int i, bDone = 0;
  int rc = query(p->db, 0, "BEGIN IMMEDIATE", 0);
  if( rc==SQLITE_OK ) rc = settle(p, eKind, pRows, &bDone);
  for(i=0; rc==SQLITE_OK && bDone && i<pRows->n; i++){
    rc = query(p->db, 0, "INSERT INTO done VALUES(?1)", pRows->az[i][0]);
  }
  if( endTransaction(p, rc, "settle") && bDone ) p->nDone += pRows->n;
}

/*
** Claim and settle work of some kind.
*/
static void workOnce(Worker *p){
  int eKind = random4(p);
  int bDone = 0;
  Rows rows;
  int rc = claim(p, eKind, &rows);
  if( rc ){
    if( !isExcused(p, rc) ) complain(p, rc, "claim");
  }else if( rows.n==0 ){
    usleep(1000);
  }else if( p->pRound->bShared ){
    rc = settle(p, eKind, &rows, &bDone);
    if( rc ) complain(p, rc, "settle");
    if( bDone ) p->nDone += rows.n;
  }else{
    settleWhole(p, eKind, &rows);
  }
}

/*
** Hold a lock with a name for a moment.
*/
static void contestOnce(Worker *p){
  char zOwner[20];
  char zSql[300];
  Rows rows;
  int rc;
  sqlite3_snprintf(sizeof(zOwner), zOwner, "w%d", p->iMe);
  rc = query(p->db, &rows, "SELECT outcome, claim_id, lease_token"
             "  FROM claimq_contest('one', ?1, 60000, NULL, 1)", zOwner);
  if( rc==SQLITE_OK && strcmp(rows.az[0][0], "claimed")==0 ){
    sqlite3_snprintf(sizeof(zSql), zSql,
        "SELECT claimq_guard(%Q, %Q) + claimq_release(%Q, %Q)",
        rows.az[0][1], rows.az[0][2], rows.az[0][1], rows.az[0][2]);
    rc = query(p->db, &rows, zSql, 0);
  }
  if( rc && !isExcused(p, rc) ) complain(p, rc, "contest");
}

/*
** Bring new work: one piece of each kind but letters.
*/
static int enqueue(Worker *p, const char *zPiece){
  static const char *const azSql[] = {
    "SELECT claimq_enqueue('s'||(?1%3), 's.'||?1, 'slot_policy', 'join')",
    "SELECT claimq_submit('l', 'l.'||?1, 'priority', ?1%5)",
    "SELECT claimq_publish('q', 'o.'||?1, 'key', ?1)",
  };
  int i, rc = SQLITE_OK;
  for(i=0; i<3 && rc==SQLITE_OK; i++) rc = query(p->db, 0, azSql[i], zPiece);
  return rc;
}

/*
** The same in a transaction, until it has happened: then a row of sent says
** so.
*/
static void enqueueWhole(Worker *p, const char *zPiece){
  Rows rows;
  int rc;
  do{
    rc = query(p->db, 0, "BEGIN IMMEDIATE", 0);
    if( rc==SQLITE_OK ) rc = enqueue(p, zPiece);
    if( rc==SQLITE_OK ){
      rc = query(p->db, 0, "INSERT INTO sent VALUES(?1)", zPiece);
    }
    if( endTransaction(p, rc, "enqueue") || p->zErr[0] ) return;
    while( query(p->db, &rows, "SELECT 1 FROM sent WHERE piece=?1", zPiece) ){}
  }while( rows.n==0 );
}

static void enqueueOnce(Worker *p, int iPiece){
  char zPiece[20];
  int rc;
  sqlite3_snprintf(sizeof(zPiece), zPiece, "%d", iPiece);
  if( p->pRound->bShared ){
    rc = enqueue(p, zPiece);
    if( rc ) complain(p, rc, "enqueue");
  }else{
    enqueueWhole(p, zPiece);
  }
}

/*
** A thread that works: brings its share, then works until it is stopped.
*/
static void *work(void *pArg){
  Worker *p = (Worker*)pArg;
  Round *pRound = p->pRound;
  int i;
  for(i=p->iMe; i<pRound->nEach && p->zErr[0]==0; i+=NTHREAD){
    enqueueOnce(p, i);
    workOnce(p);
    if( i%8==0 ) contestOnce(p);
  }
  while( !isStopped(pRound) && p->zErr[0]==0 ) workOnce(p);
  return 0;
}

/*
** A thread that opens and closes connections, with a look at the queue.
*/
static void *openAndClose(void *pArg){
  Worker *p = (Worker*)pArg;
  while( !isStopped(p->pRound) && p->zErr[0]==0 ){
    int rc = openDb(p->pRound->zFile, &p->db);
    if( rc==SQLITE_OK ){
      rc = query(p->db, 0, "SELECT * FROM claimq_peek('x')", 0);
    }
    if( rc ) complain(p, rc, "open");
    if( sqlite3_close(p->db) ) complain(p, SQLITE_BUSY, "close");
    usleep(10000);
  }
  return 0;
}

/*
** A thread that interrupts the others: pArg is an array of NTHREAD workers.
*/
static void *interrupt(void *pArg){
  Worker *a = (Worker*)pArg;
  unsigned int i = 0;
  while( !isStopped(a[0].pRound) ){
    sqlite3_interrupt(a[i++ % NTHREAD].db);
    usleep(2000 + i%7*4000);
  }
  return 0;
}

/**************************************************************************
** Rounds
*/

static void removeFile(const char *zFile){
  static const char *const azEnd[] = { "", "-journal", "-wal", "-shm" };
  char z[200];
  int i;
  for(i=0; i<4; i++){
    sqlite3_snprintf(sizeof(z), z, "%s%s", zFile, azEnd[i]);
    remove(z);
  }
}

/* A fresh database; returns a connection to it. */
static sqlite3 *setUp(Round *p){
  sqlite3 *db = 0;
  removeFile(p->zFile);
  check(p->zName, "open", openDb(p->zFile, &db)==SQLITE_OK);
  check(p->zName, "wal", query(db, 0, "PRAGMA journal_mode=wal", 0)==0);
  query(db, 0, "PRAGMA synchronous=off", 0);
  query(db, 0, "CREATE TABLE done(key TEXT PRIMARY KEY)", 0);
  query(db, 0, "CREATE TABLE sent(piece TEXT PRIMARY KEY)", 0);
  check(p->zName, "init", number(db, "SELECT claimq_init()")==1);
  check(p->zName, "queue", number(db, "SELECT claimq_queue('q', 3)")==3);
  return db;
}

/* Wait until nothing is left to do; at most a minute. */
static void waitForEnd(Round *p, sqlite3 *db){
  const char *zLeft =
    "SELECT (SELECT count(*) FROM claimq_batch)"
    " + (SELECT count(*) FROM claimq_job WHERE terminal_at_ms IS NULL)"
    " + (SELECT sum(last_seq-processed_seq) FROM claimq_partition)"
    " + (SELECT count(*) FROM claimq_letter"
    "     WHERE status IN ('pending','reprocessing'))"
    " + %d - (SELECT ifnull(max(seq),0) FROM sqlite_sequence"
    "          WHERE name='claimq_batch')"
    " + %d - (SELECT count(*) FROM claimq_job)"
    " + %d - (SELECT sum(last_seq) FROM claimq_partition)";
  char zSql[1000];
  int i;
  sqlite3_snprintf(sizeof(zSql), zSql, zLeft, p->nEach, p->nEach, p->nEach);
  for(i=0; i<6000 && number(db, zSql)!=0; i++) usleep(10000);
  check(p->zName, "all work gets done", number(db, zSql)==0);
}

/*
** Everything is done once: nDone is what the threads counted, exactly if
** nobody was interrupted.
*/
static void checkRound(Round *p, sqlite3 *db, int nDone, int bExact){
  Rows rows;
  check(p->zName, "count",
        bExact ? nDone==3*p->nEach : nDone<=3*p->nEach);
  if( !p->bShared ){
    check(p->zName, "rows of done",
          number(db, "SELECT count(*) FROM done")==3*p->nEach);
  }
  check(p->zName, "integrity",
        query(db, &rows, "PRAGMA integrity_check", 0)==SQLITE_OK
        && strcmp(rows.az[0][0], "ok")==0);
  check(p->zName, "one event for each job", number(db,
        "SELECT count(*) FROM claimq_event")==p->nEach);
}

/*
** Start the threads, wait until all is done, stop and join them.
*/
static void runRound(Round *p, int bInterrupt){
  Worker aWork[NTHREAD+2];
  pthread_t idInterrupt;
  sqlite3 *db = setUp(p);
  int i, nDone = 0, nInterrupt = 0;
  memset(aWork, 0, sizeof(aWork));
  for(i=0; i<NTHREAD+2; i++){
    aWork[i].pRound = p;
    aWork[i].iMe = i;
    aWork[i].iSeed = (unsigned int)(i+1)*7919u;
    if( i<NTHREAD && p->bShared ) aWork[i].db = db;
    if( i<NTHREAD && !p->bShared ) openDb(p->zFile, &aWork[i].db);
  }
  for(i=0; i<NTHREAD+2; i++){
    /* With one connection for all no other may be in the way. */
    if( i>=NTHREAD && p->bShared ) break;
    pthread_create(&aWork[i].id, 0, i<NTHREAD ? work : openAndClose, &aWork[i]);
  }
  if( bInterrupt ) pthread_create(&idInterrupt, 0, interrupt, aWork);
  waitForEnd(p, db);
  setStop(p);
  if( bInterrupt ) pthread_join(idInterrupt, 0);
  for(i=0; i<NTHREAD+2; i++){
    if( i>=NTHREAD && p->bShared ) break;
    pthread_join(aWork[i].id, 0);
    check(p->zName, aWork[i].zErr, aWork[i].zErr[0]==0);
    nDone += aWork[i].nDone;
    nInterrupt += aWork[i].nInterrupt;
    if( i<NTHREAD && !p->bShared ){
      check(p->zName, "close", sqlite3_close(aWork[i].db)==SQLITE_OK);
    }
  }
  checkRound(p, db, nDone, !bInterrupt);
  check(p->zName, "interrupts", bInterrupt ? nInterrupt>0 : nInterrupt==0);
  check(p->zName, "close", sqlite3_close(db)==SQLITE_OK);
  removeFile(p->zFile);
}

/**************************************************************************
** Waiting
*/
typedef struct Waiter Waiter;
struct Waiter {
  sqlite3 *db;
  const char *zSql;
  int nTick;                      /* Calls of the progress handler; atomic */
  int rc;                         /* What came of it */
  Rows rows;
  pthread_t id;
};

static int onTick(void *pArg){
  __atomic_add_fetch(&((Waiter*)pArg)->nTick, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static void *waitOnce(void *pArg){
  Waiter *p = (Waiter*)pArg;
  p->rc = query(p->db, &p->rows, p->zSql, 0);
  return 0;
}

/* Start all, and come back when each of them has slept for a while. */
static void startWaiters(Waiter *a, const char *zSql){
  int i, n;
  for(i=0; i<NWAITER; i++){
    a[i].zSql = zSql;
    a[i].nTick = 0;
    pthread_create(&a[i].id, 0, waitOnce, &a[i]);
  }
  for(i=0; i<NWAITER; i++){
    for(n=0; n<6000; n++){
      if( __atomic_load_n(&a[i].nTick, __ATOMIC_SEQ_CST)>1 ) break;
      usleep(10000);
    }
    check("wait", "asleep", n<6000);
  }
}

/* The number of those that got rc, and zResult. */
static int joinWaiters(Waiter *a, int rc, const char *zResult){
  int i, n = 0;
  for(i=0; i<NWAITER; i++){
    pthread_join(a[i].id, 0);
    n += a[i].rc==rc && (zResult==0 || strcmp(a[i].rows.az[0][0], zResult)==0);
  }
  return n;
}

static void runWait(const char *zFile){
  static Waiter a[NWAITER];
  Round round = { "wait", zFile, 0, 0, 0, 0 };
  sqlite3 *db = setUp(&round);
  int i;
  for(i=0; i<NWAITER; i++){
    check("wait", "open", openDb(zFile, &a[i].db)==SQLITE_OK);
    sqlite3_progress_handler(a[i].db, 1000, onTick, &a[i]);
  }
  startWaiters(a, "SELECT claimq_wait(600000, 'lane', 'w')");
  check("wait", "submit", number(db, "SELECT claimq_submit('w', 'x')")==1);
  check("wait", "all are woken", joinWaiters(a, SQLITE_OK, "1")==NWAITER);
  startWaiters(a, "SELECT claimq_wait(600000, 'lane', 'never')");
  for(i=0; i<NWAITER; i++) sqlite3_interrupt(a[i].db);
  check("wait", "all are interrupted",
        joinWaiters(a, SQLITE_INTERRUPT, 0)==NWAITER);
  for(i=0; i<NWAITER; i++){
    check("wait", "close", sqlite3_close(a[i].db)==SQLITE_OK);
  }
  check("wait", "close", sqlite3_close(db)==SQLITE_OK);
  removeFile(zFile);
}

/*
** Seconds for all rounds; environment CLAIMQ_SQLITE: this must be the version
** of SQLite (see tcl/build/versions.tcl).
*/
int main(int argc, char **argv){
  const char *zFile = "build/threads_test.db";
  const char *zWanted = getenv("CLAIMQ_SQLITE");
  time_t iEnd = time(0) + (argc>1 ? atoi(argv[1]) : 5);
  int n = (int)strlen(sqlite3_libversion());
  if( zWanted ){
    check("SQLite", sqlite3_libversion(),
          strncmp(zWanted, sqlite3_libversion(), (size_t)n)==0
          && (zWanted[n]==0 || zWanted[n]=='-'));
  }
  check("all", "threadsafe", sqlite3_threadsafe()==1);
  check("all", "auto_extension", SQLITE_OK==
        sqlite3_auto_extension((void(*)(void))sqlite3_claimq_init));
  do{
    Round own = { "own", zFile, 100, 0, 60000, 0 };
    Round shared = { "shared", zFile, 100, 1, 60000, 0 };
    Round inter = { "interrupt", zFile, 40, 0, 300, 0 };
    runRound(&own, 0);
    runRound(&shared, 0);
    runRound(&inter, 1);
    runWait(zFile);
  }while( time(0)<iEnd && nFail==0 );
  printf("%d passed, %d failed\n", nPass, nFail);
  return nFail>0;
}
