/*
** claimq_main.c: the entry point.
**
**     sqlite> .load ./claimq
**
** Loading registers functions and claim tables with this one connection, and
** creates nothing: neither in the database nor in the connection's temp schema,
** where a claim table comes when it is first used (see claim_vtab.c).  Loading
** again, from whichever copy of the file, changes nothing.
*/
#include "claimq_int.h"
#ifndef CLAIMQ_AMALGAMATION
SQLITE_EXTENSION_INIT1
#endif

/*
** The disciplines.  Another one is another line here.
*/
#define CQ_DISCIPLINES(X) \
  X(Session) \
  X(Lane) \
  X(Outbox) \
  X(Contest) \
  X(Letter)

#define CQ_DECLARE(NAME) \
  CQ_PRIV const CqDiscipline *claimq##NAME##Discipline(void);
CQ_DISCIPLINES(CQ_DECLARE)

/*
** The i-th of them, 0 past the last.
*/
CQ_PRIV const CqDiscipline *claimqDiscipline(int i){
#define CQ_ENTRY(NAME) claimq##NAME##Discipline,
  static const CqDiscipline *(*const ax[])(void) = {
    CQ_DISCIPLINES(CQ_ENTRY)
  };
  assert( i>=0 );
  return i<CQ_ARRAYSIZE(ax) ? ax[i]() : 0;
}

/*
** Was the extension loaded into this connection before?  Then the module that
** is registered last is there.  The list of modules is had without a look at
** the database, which may be locked, and without an error, which SQLite would
** write to the application's log.  Returns SQLite's code; if the pragma is
** refused by an authorizer, say, nothing is known, and the answer is no.
*/
static int cqLoaded(sqlite3 *db, int *pbLoaded){
  sqlite3_stmt *pStmt = 0;
  int rc = sqlite3_prepare_v2(db, claimqSql[CQ_SQL_LOAD_MODULES].zSql, -1,
                              &pStmt, 0);
  while( rc==SQLITE_OK && !*pbLoaded && sqlite3_step(pStmt)==SQLITE_ROW ){
    const char *zName = (const char*)
        sqlite3_column_text(pStmt, CQ_COL_LOAD_MODULES_module_list);
    *pbLoaded = zName && sqlite3_stricmp(zName, CQ_IDS_MODULE)==0;
  }
  if( rc==SQLITE_OK ) rc = sqlite3_reset(pStmt);
  sqlite3_finalize(pStmt);
  if( rc==SQLITE_OK || rc==SQLITE_NOMEM ) return rc;
  /* For an automatic extension sqlite3_open() returns what it finds in
  ** sqlite3_errcode().  This sets it to SQLITE_OK. */
  sqlite3_exec(db, "", 0, 0, 0);
  return SQLITE_OK;
}

/*
** Register everything, the module that cqLoaded() looks for last.
*/
static int cqRegister(sqlite3 *db){
  CqConn *pConn;
  int bLoaded = 0;
  int rc = cqLoaded(db, &bLoaded);
  if( rc || bLoaded ) return rc;
  pConn = claimqConnNew(db);
  if( pConn==0 ) return SQLITE_NOMEM;
  rc = claimqFuncRegister(pConn);
  if( rc==SQLITE_OK ) rc = claimqStmtRegister(pConn);
  if( rc==SQLITE_OK ) rc = claimqVtabRegister(pConn);
  if( rc==SQLITE_OK ) rc = claimqAbsentRegister(pConn);
  if( rc==SQLITE_OK ) rc = claimqIdListRegister(pConn);
  claimqConnUnref(pConn);
  return rc;
}

/*
** An SQLite that was built without sqlite3_load_extension() has no list of its
** routines to give to a program's own extensions: these must be compiled with
** -DSQLITE_CORE.  Without the list not even a message can be made.
**
** A process may have two SQLites, a program's own and that of a library.  The
** list of the first must not be replaced by that of the second: connections
** and memory of the one would get into the hands of the other.
*/
int sqlite3_claimq_init(
  struct sqlite3 *db, char **pzErrMsg,
  const struct sqlite3_api_routines *pApi
){
#ifndef SQLITE_CORE
  if( pApi==0 ) return SQLITE_ERROR;
  if( sqlite3_api!=0 && sqlite3_api!=pApi ){
    *pzErrMsg = pApi->mprintf("claimq: unsupported: another SQLite in this "
        "process has loaded this file: load a copy of it from another place");
    return SQLITE_ERROR;
  }
#endif
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
