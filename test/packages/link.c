/*
** link.c: claimq linked into a program whose SQLite cannot load extensions.
**
**     cc -DSQLITE_CORE link.c claimq.c sqlite3.o
**
** Prints claimq's version, or why a connection cannot be opened.
*/
#include <stdio.h>
#include "sqlite3.h"
#include "claimq.h"

int main(void){
  sqlite3 *db;
  sqlite3_stmt *pStmt;
  int rc;

  sqlite3_auto_extension((void(*)(void))sqlite3_claimq_init);
  rc = sqlite3_open(":memory:", &db);
  if( rc!=SQLITE_OK ){
    printf("open: %d %s\n", rc, sqlite3_errmsg(db));
  }else{
    sqlite3_prepare_v2(db, "SELECT claimq_version()", -1, &pStmt, 0);
    sqlite3_step(pStmt);
    printf("version %s\n", (const char*)sqlite3_column_text(pStmt, 0));
    sqlite3_finalize(pStmt);
  }
  sqlite3_close(db);
  return 0;
}
