/*
** conn.c: what claimq knows of a connection, and the table claimq_stmt, which
** owns its prepared statements (see stmt.c).
**
** The owner is worth reading, too; operators and tests see what runs:
**
**     SELECT name, runs, vm_steps FROM claimq_stmt WHERE runs>0;
*/
#include "claimq_int.h"

/*
** What claimq knows of a connection, with one reference, which is the caller's.
** 0 if there is no memory.
*/
CQ_PRIV CqConn *claimqConnNew(sqlite3 *db){
  CqConn *p = sqlite3_malloc(sizeof(CqConn));
  if( p ){
    memset(p, 0, sizeof(*p));
    p->db = db;
    p->nRef = 1;
    p->iNextRowid = 1;
  }
  return p;
}

CQ_PRIV void claimqConnRef(CqConn *p){
  assert( p->nRef>0 );
  p->nRef++;
}

/*
** Drop a reference; the last one frees.
*/
CQ_PRIV void claimqConnUnref(void *pArg){
  CqConn *p = (CqConn*)pArg;
  assert( p->nRef>0 );
  if( --p->nRef==0 ){
    assert( p->nTaken==0 );
    claimqStmtEmpty(p);
    claimqWatchFree(p->pWatch);
    if( p->claims.pSpare ) claimqRowsClear(&p->claims.pSpare->rows);
    sqlite3_free(p->claims.pSpare);
    sqlite3_free(p);
  }
}

/*
** The timeout of SQLite's own busy handler in ms, 0 if there is none, or one
** that the user wrote.
*/
CQ_PRIV int claimqBusyTimeout(CqOp *p){
  sqlite3_stmt *pStmt = 0;
  int ms = 0, rc;
  if( p->rc ) return 0;
  rc = sqlite3_prepare_v2(p->db,
      claimqSql[CQ_SQL_TXN_BUSY_TIMEOUT].zSql, -1, &pStmt, 0);
  if( rc==SQLITE_OK && (rc = sqlite3_step(pStmt))==SQLITE_ROW ){
    ms = sqlite3_column_int(pStmt, CQ_COL_TXN_BUSY_TIMEOUT_busy_timeout);
    rc = SQLITE_OK;
  }
  assert( rc!=SQLITE_DONE );
  claimqFailRc(p, rc);
  sqlite3_finalize(pStmt);
  return ms;
}

/**************************************************************************
** The owner: eponymous table claimq_stmt(name, sql, runs, vm_steps)
*/
typedef struct CqCacheVtab CqCacheVtab;
struct CqCacheVtab {
  sqlite3_vtab base;
  CqConn *pConn;
};
typedef struct CqCacheCursor CqCacheCursor;
struct CqCacheCursor {
  sqlite3_vtab_cursor base;
  int i;                          /* Statement number */
};

/*
** Declare a virtual table, from xConnect.  sqlite3_interrupt() of another
** thread can come while SQLite parses the declaration; SQLite then calls it an
** error like any other, and an older one forgets the code of an eponymous
** table's xConnect altogether.  So try again: where nothing runs, SQLite takes
** the interrupt for one that came before the statement; where something does,
** it stays, and is what is returned.  Returns an SQLite code; the message in
** *pzErr is SQLite's to free.
*/
CQ_PRIV int claimqDeclare(sqlite3 *db, const char *zSql, char **pzErr){
  int rc, n = 0;
  do{
    rc = sqlite3_declare_vtab(db, zSql);
    if( rc==SQLITE_ERROR
     && strcmp(sqlite3_errmsg(db), sqlite3_errstr(SQLITE_INTERRUPT))==0
    ){
      rc = SQLITE_INTERRUPT;
    }
  }while( rc==SQLITE_INTERRUPT && ++n<3 );
  if( rc ) *pzErr = sqlite3_mprintf("%s", sqlite3_errmsg(db));
  return rc;
}

/*
** xConnect of claimq_stmt: from now on the cache has an owner.  Returns an
** SQLite code; the message in *pzErr is SQLite's to free.
*/
static int cqCacheConnect(
  sqlite3 *db, void *pAux, int argc, const char *const *argv,
  sqlite3_vtab **ppVtab, char **pzErr
){
  CqCacheVtab *pNew;
  int rc = claimqDeclare(db, claimqSql[CQ_SQL_CACHE_DECLARE].zSql, pzErr);
  (void)argc; (void)argv;
  if( rc==SQLITE_OK ) rc = sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
  if( rc ) return rc;
  pNew = sqlite3_malloc(sizeof(*pNew));
  if( pNew==0 ) return SQLITE_NOMEM;
  memset(pNew, 0, sizeof(*pNew));
  pNew->pConn = (CqConn*)pAux;
  claimqConnRef(pNew->pConn);
  pNew->pConn->bOwned = 1;
  *ppVtab = &pNew->base;
  return SQLITE_OK;
}

/*
** xDisconnect: the owner goes, and with it all statements of the cache.
*/
static int cqCacheDisconnect(sqlite3_vtab *pVtab){
  CqCacheVtab *p = (CqCacheVtab*)pVtab;
  assert( p->pConn->bOwned );
  p->pConn->bOwned = 0;
  claimqStmtEmpty(p->pConn);
  claimqConnUnref(p->pConn);
  sqlite3_free(p);
  return SQLITE_OK;
}

static int cqCacheBestIndex(sqlite3_vtab *pVtab, sqlite3_index_info *pInfo){
  (void)pVtab;
  pInfo->estimatedCost = CQ_NSTMT;
  pInfo->estimatedRows = CQ_NSTMT;
  return SQLITE_OK;
}

/*
** xOpen.  Returns an SQLite code.
*/
static int cqCacheOpen(sqlite3_vtab *pVtab, sqlite3_vtab_cursor **ppCsr){
  CqCacheCursor *pNew = sqlite3_malloc(sizeof(*pNew));
  (void)pVtab;
  if( pNew==0 ) return SQLITE_NOMEM;
  memset(pNew, 0, sizeof(*pNew));
  *ppCsr = &pNew->base;
  return SQLITE_OK;
}

static int cqCacheClose(sqlite3_vtab_cursor *pCsr){
  sqlite3_free(pCsr);
  return SQLITE_OK;
}

/*
** xFilter: from the first statement on.
*/
static int cqCacheFilter(
  sqlite3_vtab_cursor *pCsr, int idxNum, const char *idxStr,
  int argc, sqlite3_value **argv
){
  (void)idxNum; (void)idxStr; (void)argc; (void)argv;
  ((CqCacheCursor*)pCsr)->i = 0;
  return SQLITE_OK;
}

static int cqCacheNext(sqlite3_vtab_cursor *pCsr){
  ((CqCacheCursor*)pCsr)->i++;
  return SQLITE_OK;
}

static int cqCacheEof(sqlite3_vtab_cursor *pCsr){
  return ((CqCacheCursor*)pCsr)->i>=CQ_NSTMT;
}

/*
** A statement in use is not in its slot, and shows no figures.
*/
static int cqCacheColumn(
  sqlite3_vtab_cursor *pCsr, sqlite3_context *pCtx, int iCol
){
  int i = ((CqCacheCursor*)pCsr)->i;
  sqlite3_stmt *pStmt = ((CqCacheVtab*)pCsr->pVtab)->pConn->apStmt[i];
  if( iCol<2 ){
    const char *z = iCol==0 ? claimqSql[i].zName : claimqSql[i].zSql;
    sqlite3_result_text(pCtx, z, -1, SQLITE_STATIC);
  }else if( pStmt ){
    int eStat = iCol==2 ? SQLITE_STMTSTATUS_RUN : SQLITE_STMTSTATUS_VM_STEP;
    sqlite3_result_int(pCtx, sqlite3_stmt_status(pStmt, eStat, 0));
  }else{
    sqlite3_result_int(pCtx, 0);
  }
  return SQLITE_OK;
}

static int cqCacheRowid(sqlite3_vtab_cursor *pCsr, sqlite3_int64 *piRowid){
  *piRowid = ((CqCacheCursor*)pCsr)->i + 1;
  return SQLITE_OK;
}

/*
** Register the table claimq_stmt.  Returns an SQLite code.
*/
CQ_PRIV int claimqStmtRegister(CqConn *pConn){
  static const sqlite3_module module = {
    .xConnect    = cqCacheConnect,
    .xBestIndex  = cqCacheBestIndex,
    .xDisconnect = cqCacheDisconnect,
    .xOpen       = cqCacheOpen,
    .xClose      = cqCacheClose,
    .xFilter     = cqCacheFilter,
    .xNext       = cqCacheNext,
    .xEof        = cqCacheEof,
    .xColumn     = cqCacheColumn,
    .xRowid      = cqCacheRowid,
  };
  claimqConnRef(pConn);
  return sqlite3_create_module_v2(pConn->db, "claimq_stmt", &module, pConn,
                                  claimqConnUnref);
}

/*
** Is main unread, in autocommit?  Then the connection holds neither lock nor
** snapshot, and what takes the lock next waits for it.
*/
CQ_PRIV int claimqConnUnread(CqConn *pConn){
  return sqlite3_get_autocommit(pConn->db)
      && sqlite3_txn_state(pConn->db, CQ_SCHEMA)==SQLITE_TXN_NONE;
}
