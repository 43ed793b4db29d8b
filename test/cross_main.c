/*
** cross_main.c: claimq on another platform, tried out.
**
**     zig cc -target aarch64-linux-gnu cross_main.c sqlite3.c -o host
**     qemu-aarch64 ./host ./claimq.so test.db
**
** A small program with a SQLite of its own that loads the library and lives
** through a short story: jobs are put, two connections take turns until none
** is left, a lease runs out, the worker that had it is refused, what is
** rolled back never happened, and a wait ends when a job falls due.  With
** "-" instead of a library claimq is linked in (-DCROSS_STATIC), as it must be
** where nothing can be loaded.  Prints "N passed, M failed".
*/
#include <stdio.h>
#include <string.h>
#include "sqlite3.h"
#ifdef CROSS_STATIC
# include "claimq.h"
#endif

#define N_JOB 200

static int nPass = 0;
static int nFail = 0;

static void check(const char *zWhat, const char *zGot, const char *zWant){
  if( strcmp(zGot, zWant)==0 ){
    nPass++;
  }else{
    nFail++;
    printf("FAILED %s\n  expected: %s\n  got:      %s\n", zWhat, zWant, zGot);
  }
}

/* All values of all rows as text, with blanks between them, in zOut (n bytes);
** the message if there is an error. */
static void query(sqlite3 *db, const char *zSql, char *zOut, int n){
  sqlite3_stmt *pStmt = 0;
  int i, nUsed = 0;
  zOut[0] = 0;
  if( sqlite3_prepare_v2(db, zSql, -1, &pStmt, 0)==SQLITE_OK ){
    while( sqlite3_step(pStmt)==SQLITE_ROW ){
      for(i=0; i<sqlite3_column_count(pStmt); i++){
        const char *z = (const char*)sqlite3_column_text(pStmt, i);
        sqlite3_snprintf(n-nUsed, &zOut[nUsed], "%s%s", nUsed ? " " : "",
                         z ? z : "NULL");
        nUsed += (int)strlen(&zOut[nUsed]);
      }
    }
  }
  if( sqlite3_finalize(pStmt)!=SQLITE_OK || pStmt==0 ){
    sqlite3_snprintf(n, zOut, "%s", sqlite3_errmsg(db));
  }
}

static void checkQuery(sqlite3 *db, const char *zSql, const char *zWant){
  char zGot[1000];
  query(db, zSql, zGot, sizeof(zGot));
  check(zSql, zGot, zWant);
}

/* A connection with claimq, or NULL; what went wrong is printed. */
static sqlite3 *openDb(const char *zFile, const char *zLibrary){
  sqlite3 *db = 0;
  char *zErr = 0;
  int rc = sqlite3_open(zFile, &db);
#ifndef CROSS_STATIC
  if( rc==SQLITE_OK ){
    rc = sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, 0);
  }
  if( rc==SQLITE_OK ) rc = sqlite3_load_extension(db, zLibrary, 0, &zErr);
#else
  (void)zLibrary;
#endif
  if( rc!=SQLITE_OK ){
    printf("%s\n", zErr ? zErr : sqlite3_errmsg(db));
    sqlite3_free(zErr);
    sqlite3_close(db);
    return 0;
  }
  sqlite3_busy_timeout(db, 10000);
  return db;
}

/* Take a job and complete it.  Returns 1 if there was one. */
static int work(sqlite3 *db, const char *zOwner){
  char zArgs[300];
  char zSql[400];
  sqlite3_snprintf(sizeof(zSql), zSql,
    "SELECT quote(claim_id) || ',' || quote(lease_token)"
    "  FROM claimq_lane('l', %Q)", zOwner);
  query(db, zSql, zArgs, sizeof(zArgs));
  if( zArgs[0]==0 ) return 0;
  sqlite3_snprintf(sizeof(zSql), zSql, "SELECT claimq_complete(%s)", zArgs);
  checkQuery(db, zSql, "1");
  return 1;
}

static void drain(sqlite3 *a, sqlite3 *b){
  char zCount[20];
  int nDone = 0;
  checkQuery(a,
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 200)"
    "INSERT INTO claimq_job(lane, payload) SELECT 'l', i FROM n", "");
  while( work(nDone%2 ? a : b, nDone%2 ? "a" : "b") && nDone<=N_JOB ) nDone++;
  sqlite3_snprintf(sizeof(zCount), zCount, "%d", nDone);
  check("jobs done", zCount, "200");
  checkQuery(b,
    "SELECT state, count(*) FROM claimq_job WHERE lane='l' GROUP BY state",
    "completed 200");
}

/* Worker a has the job until 2000; at 2000 it is b's. */
static void stale(sqlite3 *a, sqlite3 *b){
  char zArgs[300];
  char zSql[400];
  checkQuery(a, "SELECT claimq_submit('s','x','now_ms',1000)>0", "1");
  query(a,
    "SELECT quote(claim_id) || ',' || quote(lease_token)"
    "  FROM claimq_lane('s','a',1000) WHERE now_ms=1000", zArgs, sizeof(zArgs));
  checkQuery(b,
    "SELECT payload FROM claimq_lane('s','b',1000) WHERE now_ms=1999", "");
  checkQuery(b,
    "SELECT payload FROM claimq_lane('s','b',1000) WHERE now_ms=2000", "x");
  sqlite3_snprintf(sizeof(zSql), zSql, "SELECT claimq_complete(%s)", zArgs);
  query(a, zSql, zArgs, sizeof(zArgs));
  zArgs[strlen("claimq: claim_lost: ")] = 0;
  check("the stale worker", zArgs, "claimq: claim_lost: ");
}

static void rollback(sqlite3 *a, sqlite3 *b){
  checkQuery(a, "BEGIN IMMEDIATE", "");
  checkQuery(a, "SELECT claimq_submit('r','x')>0", "1");
  checkQuery(a, "SELECT payload FROM claimq_lane('r','a')", "x");
  checkQuery(a, "ROLLBACK", "");
  checkQuery(b, "SELECT count(*) FROM claimq_job WHERE lane='r'", "0");
}

/* The file system's notices are different on each platform: what is due now,
** what falls due while it waits, what another connection commits, and nothing
** at all. */
static void waiting(sqlite3 *a, sqlite3 *b){
  checkQuery(a, "SELECT claimq_wait(0, 'lane', 'w')", "0");
  checkQuery(a, "SELECT claimq_wait(300, 'lane', 'w')", "0");
  checkQuery(a, "SELECT claimq_wait(0), claimq_wait(0)", "1 0");
  checkQuery(b, "SELECT claimq_submit('w', 'x', 'delay_ms', 300)>0", "1");
  checkQuery(a, "SELECT claimq_wait(0)", "1");
  checkQuery(a, "SELECT claimq_wait(60000, 'lane', 'w')", "1");
  checkQuery(b, "SELECT payload FROM claimq_lane('w', 'b')", "x");
  checkQuery(a, "SELECT claimq_wait(0, 'lane', 'w')", "0");
}

int main(int argc, char **argv){
  sqlite3 *a, *b;
  if( argc<3 ){
    printf("usage: %s LIBRARY DATABASE\n", argv[0]);
    return 2;
  }
#ifdef CROSS_STATIC
  sqlite3_auto_extension((void(*)(void))sqlite3_claimq_init);
#endif
  a = openDb(argv[2], argv[1]);
  b = openDb(argv[2], argv[1]);
  if( a==0 || b==0 ){
    printf("0 passed, 1 failed\n");
    return 1;
  }
  checkQuery(a, "SELECT claimq_init()", "1");
  drain(a, b);
  stale(a, b);
  rollback(a, b);
  waiting(a, b);
  checkQuery(b, "PRAGMA integrity_check", "ok");
  check("close", sqlite3_close(a)==SQLITE_OK ? "ok" : "refused", "ok");
  check("close", sqlite3_close(b)==SQLITE_OK ? "ok" : "refused", "ok");
  printf("%d passed, %d failed\n", nPass, nFail);
  return nFail>0;
}
