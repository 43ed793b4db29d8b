/*
** static_main.c: claimq linked into a program.
**
**     cc -DSQLITE_CORE -Iext static_main.c build/claimq.c -lsqlite3
**
** A whole life through the public C interface: every connection gets claimq
** by sqlite3_auto_extension(), one of them enqueues, another claims and
** completes, and both can be closed.  Prints "N passed, M failed".
*/
#include <stdio.h>
#include <string.h>
#include <sqlite3.h>
#include "claimq.h"

static int nPass = 0;
static int nFail = 0;

static void check(const char *zWhat, int bOk){
  if( bOk ){
    nPass++;
  }else{
    nFail++;
    printf("FAILED static: %s\n", zWhat);
  }
}

/* The first column of the first row as text in zOut (n bytes); the error
** message if there is one; "" if there is no row.  Returns SQLite's code. */
static int query(sqlite3 *db, const char *zSql, char *zOut, int n){
  sqlite3_stmt *pStmt = 0;
  const char *z = "";
  int rc = sqlite3_prepare_v2(db, zSql, -1, &pStmt, 0);
  if( rc==SQLITE_OK && sqlite3_step(pStmt)==SQLITE_ROW ){
    z = (const char*)sqlite3_column_text(pStmt, 0);
  }
  sqlite3_snprintf(n, zOut, "%s", z ? z : "NULL");
  if( rc==SQLITE_OK ){
    rc = sqlite3_finalize(pStmt);
  }
  if( rc!=SQLITE_OK ) sqlite3_snprintf(n, zOut, "%s", sqlite3_errmsg(db));
  return rc;
}

static void checkQuery(sqlite3 *db, const char *zSql, const char *zWant){
  char zGot[500];
  query(db, zSql, zGot, sizeof(zGot));
  check(zSql, strcmp(zGot, zWant)==0);
  if( strcmp(zGot, zWant) ) printf("  got: %s\n", zGot);
}

/* Claim what chat-1 has and complete it with the claim's own id and token. */
static void checkClaim(sqlite3 *db){
  char zArgs[300];
  char zSql[400];
  query(db,
    "SELECT quote(claim_id) || ',' || quote(lease_token)"
    "  FROM claimq('chat-1', 'worker-a')", zArgs, sizeof(zArgs));
  check("the first claim", strncmp(zArgs, "'qwc:1:1',", 10)==0);
  checkQuery(db, "SELECT count(*) FROM claimq('chat-1', 'worker-b')", "0");
  sqlite3_snprintf(sizeof(zSql), zSql, "SELECT claimq_complete(%s)", zArgs);
  checkQuery(db, zSql, "1");
  checkQuery(db, "SELECT count(*) FROM claimq_batch", "0");
}

/* A connection can be opened while another one locks everything: what the
** entry point could not do must not become the result of sqlite3_open(). */
static void checkLocked(sqlite3 *db, const char *zFile){
  sqlite3 *db2 = 0;
  checkQuery(db, "BEGIN EXCLUSIVE", "");
  check("open a locked database", sqlite3_open(zFile, &db2)==SQLITE_OK);
  checkQuery(db, "COMMIT", "");
  checkQuery(db2, "SELECT count(*) FROM claimq('chat-1', 'worker-a')", "0");
  check("close after a lock", sqlite3_close(db2)==SQLITE_OK);
}

int main(void){
  const char *zFile = "build/static_test.db";
  sqlite3 *db1 = 0;
  sqlite3 *db2 = 0;
  int rc;

  remove(zFile);
  rc = sqlite3_auto_extension((void(*)(void))sqlite3_claimq_init);
  check("sqlite3_auto_extension", rc==SQLITE_OK);
  check("open 1", sqlite3_open(zFile, &db1)==SQLITE_OK);
  checkQuery(db1, "SELECT claimq_version()", CLAIMQ_VERSION);
  checkQuery(db1, "SELECT claimq_init()", "1");
  checkQuery(db1, "SELECT claimq_enqueue('chat-1', 'hello') LIKE 'qwb:%'", "1");
  check("open 2", sqlite3_open(zFile, &db2)==SQLITE_OK);
  checkClaim(db2);
  checkLocked(db1, zFile);
  check("close 1", sqlite3_close(db1)==SQLITE_OK);
  check("close 2", sqlite3_close(db2)==SQLITE_OK);
  remove(zFile);
  printf("%d passed, %d failed\n", nPass, nFail);
  return nFail>0;
}
