/*
** claimq_main.c: the entry point.
**
**     sqlite> .load ./claimq
**
** Loading registers functions and claim tables with this one connection and
** writes nothing to the database.  It also creates the claim tables in the
** connection's temp schema, where they can wait for a lock (see claim_vtab.c);
** if that cannot be done now, it is done later.
*/
#include "claimq_int.h"
#ifndef CLAIMQ_AMALGAMATION
SQLITE_EXTENSION_INIT1
#endif

/*
** The disciplines.  Another one is another line here.
*/
CQ_PRIV const CqDiscipline *claimqDiscipline(int i){
  switch( i ){
    case 0: return claimqSessionDiscipline();
    case 1: return claimqLaneDiscipline();
    case 2: return claimqOutboxDiscipline();
    case 3: return claimqContestDiscipline();
    case 4: return claimqLetterDiscipline();
  }
  return 0;
}

/*
** Functions come first.  SQLITE_BUSY then means that they are there already
** and that a statement is running (SELECT load_extension() itself, say): the
** extension was loaded before, and need not be loaded again.
*/
static int cqRegister(sqlite3 *db){
  CqConn *pConn = claimqConnNew(db);
  int rc;
  if( pConn==0 ) return SQLITE_NOMEM;
  rc = claimqFuncRegister(pConn);
  if( rc==SQLITE_BUSY ){
    claimqConnUnref(pConn);
    return SQLITE_OK;
  }
  if( rc==SQLITE_OK ) rc = claimqCacheRegister(pConn);
  if( rc==SQLITE_OK ) rc = claimqIdListRegister(pConn);
  if( rc==SQLITE_OK ) rc = claimqVtabRegister(pConn);
  if( rc==SQLITE_OK && !claimqVtabAttach(pConn) ){
    /* For an automatic extension sqlite3_open() returns what it finds in
    ** sqlite3_errcode().  This sets it to SQLITE_OK. */
    sqlite3_exec(db, "", 0, 0, 0);
  }
  claimqConnUnref(pConn);
  return rc;
}

int sqlite3_claimq_init(
  struct sqlite3 *db, char **pzErrMsg,
  const struct sqlite3_api_routines *pApi
){
  SQLITE_EXTENSION_INIT2(pApi);
  (void)pApi;
  if( sqlite3_libversion_number()<CLAIMQ_MIN_SQLITE ){
    *pzErrMsg = sqlite3_mprintf(
        "claimq %s needs SQLite 3.39.0 or newer, this is %s",
        CLAIMQ_VERSION, sqlite3_libversion());
    return SQLITE_ERROR;
  }
  return cqRegister(db);
}
