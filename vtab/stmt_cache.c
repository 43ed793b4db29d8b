/*
** stmt_cache.c: prepared statements and who owns them.
**
** Preparing costs several times more than running, so each connection keeps
** the statements of sql/ it has used.  Two things make that less simple than
** it sounds:
**
**   *  sqlite3_close() refuses while a statement is unfinalized, and runs the
**      destructors of functions only after it has looked.  What it does first
**      is to disconnect virtual tables.  So the cache belongs to one: the
**      eponymous table claimq_stmt, whose xDisconnect empties it.  It is
**      connected before the first statement is cached.
**
**   *  A statement in use must not be used again (a trigger of the user may
**      call functions that call claimq).  So claimqStmt() takes the statement
**      out of its slot, and claimqStmtDone() puts it back.
**
** The owner is worth reading, too; operators and tests see what runs:
**
**     SELECT name, runs, vm_steps FROM claimq_stmt WHERE runs>0;
**
** No cached statement may read claimq_stmt: it would keep its owner alive.
*/
#include "claimq_int.h"

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
  p->nRef++;
}

static void cqCacheEmpty(CqConn *p){
  int i;
  for(i=0; i<CQ_NSTMT; i++){
    sqlite3_finalize(p->apStmt[i]);
    p->apStmt[i] = 0;
  }
  p->bChecked = 0;
}

CQ_PRIV void claimqConnUnref(void *pArg){
  CqConn *p = (CqConn*)pArg;
  assert( p->nRef>0 );
  if( --p->nRef==0 ){
    cqCacheEmpty(p);
    claimqWatchFree(p->pWatch);
    sqlite3_free(p);
  }
}

/**************************************************************************
** Taking, binding, stepping, giving back
*/

/*
** A statement failed.  "No such table" is worth a better word.
*/
static void cqStmtFail(CqOp *p, const char *zSql, int rc){
  if( p->rc ) return;
  if( (rc & 0xff)==SQLITE_ERROR ) claimqSchemaDiagnose(p, zSql);
  claimqFailRc(p, rc);
}

static sqlite3_stmt *cqPrepare(CqOp *p, int eStmt, unsigned int mFlag){
  sqlite3_stmt *pStmt = 0;
  int rc;
  if( p->rc ) return 0;
  rc = sqlite3_prepare_v3(p->db, claimqSql[eStmt].zSql, -1, mFlag, &pStmt, 0);
  if( rc ) cqStmtFail(p, claimqSql[eStmt].zSql, rc);
  return pStmt;
}

/*
** Connect claimq_stmt, so that somebody empties the cache at close.
*/
static void cqCacheOwn(CqOp *p){
  if( !p->pConn->bOwned ){
    sqlite3_finalize(cqPrepare(p, CQ_SQL_CACHE_OWN, 0));
  }
}

CQ_PRIV sqlite3_stmt *claimqStmt(CqOp *p, int eStmt){
  CqConn *pConn = p->pConn;
  sqlite3_stmt *pStmt;
  if( p->rc ) return 0;
  pStmt = pConn->apStmt[eStmt];
  if( pStmt ){
    pConn->apStmt[eStmt] = 0;
    return pStmt;
  }
  cqCacheOwn(p);
  claimqSchemaCheck(p);
  return cqPrepare(p, eStmt, SQLITE_PREPARE_PERSISTENT);
}

CQ_PRIV void claimqStmtDone(CqOp *p, int eStmt, sqlite3_stmt *pStmt){
  CqConn *pConn = p->pConn;
  int rc;
  if( pStmt==0 ) return;
  rc = sqlite3_reset(pStmt);
  /* What it says now was told when it was stepped. */
  if( CQ_NEVER(rc && p->rc==SQLITE_OK) ) claimqFailRc(p, rc);
  if( pConn->apStmt[eStmt]==0 && pConn->bOwned ){
    sqlite3_clear_bindings(pStmt);
    pConn->apStmt[eStmt] = pStmt;
  }else{
    sqlite3_finalize(pStmt);
  }
}

CQ_PRIV void claimqBindInt(CqOp *p, sqlite3_stmt *pStmt, int i, i64 v){
  if( p->rc==SQLITE_OK ) claimqFailRc(p, sqlite3_bind_int64(pStmt, i, v));
}

/*
** The bytes must stay until the statement is given back.
*/
CQ_PRIV void claimqBindText(CqOp *p, sqlite3_stmt *pStmt, int i, CqText t){
  if( p->rc || t.z==0 ) return;
  claimqFailRc(p, sqlite3_bind_text(pStmt, i, t.z, t.n, SQLITE_STATIC));
}

CQ_PRIV void claimqBindValue(
  CqOp *p, sqlite3_stmt *pStmt, int i, sqlite3_value *pVal
){
  if( p->rc || pVal==0 ) return;
  claimqFailRc(p, sqlite3_bind_value(pStmt, i, pVal));
}

CQ_PRIV void claimqBindPointer(
  CqOp *p, sqlite3_stmt *pStmt, int i, void *pPtr, const char *zType
){
  if( p->rc ) return;
  claimqFailRc(p, sqlite3_bind_pointer(pStmt, i, pPtr, zType, 0));
}

CQ_PRIV void claimqBindIds(
  CqOp *p, sqlite3_stmt *pStmt, int i, const CqIds *pIds
){
  claimqBindPointer(p, pStmt, i, (void*)pIds, CQ_IDS_TYPE);
}

CQ_PRIV int claimqStep(CqOp *p, sqlite3_stmt *pStmt){
  int rc;
  if( p->rc ) return 0;
  rc = sqlite3_step(pStmt);
  if( rc==SQLITE_ROW ) return 1;
  if( rc!=SQLITE_DONE ) cqStmtFail(p, sqlite3_sql(pStmt), rc);
  return 0;
}

/*
** Columns are read through sqlite3_column_value(): each call of
** sqlite3_column_*() locks the connection.  Such a value is safe to look at,
** because the sqlite3_step() that called claimq holds that lock.
*/
CQ_PRIV CqText claimqColumnText(CqOp *p, sqlite3_stmt *pStmt, int iCol){
  return claimqTextOrNull(p, sqlite3_column_value(pStmt, iCol));
}

/*
** PRAGMA count_changes makes writes return a row: step until the end.
*/
CQ_PRIV i64 claimqExec(CqOp *p, int eStmt, sqlite3_stmt *pStmt){
  i64 nChange = 0;
  while( claimqStep(p, pStmt) ){}
  if( p->rc==SQLITE_OK ) nChange = sqlite3_changes(p->db);
  claimqStmtDone(p, eStmt, pStmt);
  return nChange;
}

CQ_PRIV void claimqExecSql(CqOp *p, const char *zSql){
  sqlite3_stmt *pStmt = 0;
  if( p->rc ) return;
  claimqFailRc(p, sqlite3_prepare_v2(p->db, zSql, -1, &pStmt, 0));
  while( claimqStep(p, pStmt) ){}
  sqlite3_finalize(pStmt);
}

CQ_PRIV int claimqStmtSteps(sqlite3_stmt *pStmt){
  return pStmt ? sqlite3_stmt_status(pStmt, SQLITE_STMTSTATUS_VM_STEP, 0) : 0;
}

CQ_PRIV int claimqStmtScanned(sqlite3_stmt *pStmt){
  return pStmt==0 ? 0
       : sqlite3_stmt_status(pStmt, SQLITE_STMTSTATUS_FULLSCAN_STEP, 0);
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

static int cqCacheConnect(
  sqlite3 *db, void *pAux, int argc, const char *const *argv,
  sqlite3_vtab **ppVtab, char **pzErr
){
  CqCacheVtab *pNew;
  int rc = sqlite3_declare_vtab(db, claimqSql[CQ_SQL_CACHE_DECLARE].zSql);
  (void)argc; (void)argv;
  if( rc ){
    *pzErr = sqlite3_mprintf("%s", sqlite3_errmsg(db));
    return rc;
  }
  pNew = sqlite3_malloc(sizeof(*pNew));
  if( pNew==0 ) return SQLITE_NOMEM;
  memset(pNew, 0, sizeof(*pNew));
  pNew->pConn = (CqConn*)pAux;
  claimqConnRef(pNew->pConn);
  pNew->pConn->bOwned = 1;
  *ppVtab = &pNew->base;
  return SQLITE_OK;
}

static int cqCacheDisconnect(sqlite3_vtab *pVtab){
  CqCacheVtab *p = (CqCacheVtab*)pVtab;
  p->pConn->bOwned = 0;
  cqCacheEmpty(p->pConn);
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

CQ_PRIV int claimqCacheRegister(CqConn *pConn){
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
