/*
** schema.c: claimq_init(), and what is wrong when SQL fails.
**
**     SELECT claimq_init();      -- 1, the schema version
**
** The objects of sql/schema.sql are created one by one, those that are
** missing, in one transaction.  A database is ours if it has the table
** claimq_meta with a schema version; other tables of our names without it are
** somebody else's, and nothing is touched.
*/
#include "claimq_int.h"

#define CQ_META_NONE   -1         /* There is no claimq_meta */
#define CQ_META_ALIEN  -2         /* There is one, but not ours */

/*
** 1 if main has an object of this name.  Used when the cache cannot be.
*/
static int cqSchemaHas(CqOp *p, const char *zName){
  sqlite3_stmt *pStmt = 0;
  int bHas = 0;
  int rc;
  if( p->rc ) return 0;
  rc = sqlite3_prepare_v2(p->db, claimqSql[CQ_SQL_SCHEMA_HAS].zSql, -1,
                          &pStmt, 0);
  if( rc==SQLITE_OK ){
    sqlite3_bind_text(pStmt, CQ_SCHEMA_HAS_name, zName, -1, SQLITE_STATIC);
    bHas = sqlite3_step(pStmt)==SQLITE_ROW;
    rc = sqlite3_finalize(pStmt);
  }
  claimqFailRc(p, rc);
  return bHas;
}

/*
** The schema version in the database, or CQ_META_*.
*/
static i64 cqSchemaVersion(CqOp *p){
  sqlite3_stmt *pStmt = 0;
  i64 iVersion = CQ_META_ALIEN;
  int rc;
  if( !cqSchemaHas(p, "claimq_meta") ) return CQ_META_NONE;
  rc = sqlite3_prepare_v2(p->db, claimqSql[CQ_SQL_META_VERSION].zSql, -1,
                          &pStmt, 0);
  if( rc==SQLITE_ERROR ) return CQ_META_ALIEN;
  if( rc==SQLITE_OK ){
    if( sqlite3_step(pStmt)==SQLITE_ROW
     && sqlite3_column_type(pStmt, CQ_COL_META_VERSION_value)==SQLITE_INTEGER
    ){
      iVersion = sqlite3_column_int64(pStmt, CQ_COL_META_VERSION_value);
    }
    rc = sqlite3_finalize(pStmt);
  }
  claimqFailRc(p, rc);
  return iVersion;
}

/*
** The first of our objects that is there (bThere) or missing (!bThere), 0 if
** there is none.  Views and triggers do not count as being there: views and
** theirs stay behind when somebody drops all the tables.
*/
static const char *cqSchemaFind(CqOp *p, int bThere){
  int i;
  for(i=0; i<CQ_NSCHEMA && p->rc==SQLITE_OK; i++){
    const char *zType = claimqSchema[i].zType;
    if( bThere && (strcmp(zType, "view")==0 || strcmp(zType, "trigger")==0) ){
      continue;
    }
    if( cqSchemaHas(p, claimqSchema[i].zName)==bThere ){
      return p->rc ? 0 : claimqSchema[i].zName;
    }
  }
  return 0;
}

/*
** Raise what a version other than ours means.
*/
static void cqSchemaVerdict(CqOp *p, i64 iVersion){
  const char *zAlien;
  if( p->rc || iVersion==CLAIMQ_SCHEMA_VERSION ) return;
  if( iVersion==CQ_META_NONE ){
    zAlien = cqSchemaFind(p, 1);
    if( zAlien ){
      claimqFail(p, CQ_SCHEMA_MISMATCH,
          "main has a %s that is not claimq's: rename it", zAlien);
    }else{
      claimqFail(p, CQ_NOT_INITIALISED,
          "the tables are not there: SELECT claimq_init()");
    }
  }else if( iVersion==CQ_META_ALIEN ){
    claimqFail(p, CQ_SCHEMA_MISMATCH,
        "main has a claimq_meta that is not claimq's: rename it");
  }else{
    claimqFail(p, CQ_SCHEMA_MISMATCH, "the tables are of schema version %lld, "
        "this claimq %s knows version %d: use the release that made them",
        iVersion, CLAIMQ_VERSION, CLAIMQ_SCHEMA_VERSION);
  }
}

/*
** Once per connection, before the first statement is prepared.  To read the
** version inside the user's transaction would be to begin it as a reader, who
** cannot wait for the lock any more: an operation that will write locks first.
*/
CQ_PRIV void claimqSchemaCheck(CqOp *p){
  if( p->rc || p->pConn->bChecked ) return;
  if( p->bWrite && !sqlite3_get_autocommit(p->db)
   && sqlite3_txn_state(p->db, CQ_SCHEMA)==SQLITE_TXN_NONE
  ){
    CqStmt lock = claimqStmt(p, CQ_SQL_TXN_LOCK);
    claimqExec(p, &lock);
  }
  cqSchemaVerdict(p, cqSchemaVersion(p));
  if( p->rc==SQLITE_OK ) p->pConn->bChecked = 1;
}

/*
** A foreign table under one of our names shows when a statement of ours does
** not fit it: schema_mismatch.
*/
static void cqSchemaFits(CqOp *p, const char *zSql){
  sqlite3_stmt *pStmt = 0;
  int rc;
  if( p->rc ) return;
  rc = sqlite3_prepare_v2(p->db, zSql, -1, &pStmt, 0);
  sqlite3_finalize(pStmt);
  if( rc==SQLITE_ERROR ){
    claimqFail(p, CQ_SCHEMA_MISMATCH,
        "a table of claimq's name is not claimq's: %s", sqlite3_errmsg(p->db));
  }
  claimqFailRc(p, rc);
}

/*
** The same for all statements.
*/
static void cqSchemaProve(CqOp *p){
  int i;
  for(i=0; i<CQ_NSTMT && p->rc==SQLITE_OK; i++){
    const char *zSql = claimqSql[i].zSql;
    if( strchr(zSql, '%')                    /* A template */
     || i==CQ_SQL_CACHE_DECLARE              /* For sqlite3_declare_vtab() */
     || i==CQ_SQL_IDS_DECLARE
    ){
      continue;
    }
    cqSchemaFits(p, zSql);
  }
}

/*
** Statement zSql failed with SQLITE_ERROR.  If the tables are there, complete
** and ours, the fault is elsewhere and SQLite's own message will do.
*/
CQ_PRIV void claimqSchemaDiagnose(CqOp *p, const char *zSql){
  char *zMsg = sqlite3_mprintf("%s", sqlite3_errmsg(p->db));
  const char *zMissing;
  p->pConn->bChecked = 0;
  cqSchemaVerdict(p, cqSchemaVersion(p));
  zMissing = cqSchemaFind(p, 0);
  if( zMissing ){
    claimqFail(p, CQ_SCHEMA_MISMATCH,
        "%s is missing: SELECT claimq_init() makes it again", zMissing);
  }
  cqSchemaFits(p, zSql);
  if( p->rc==SQLITE_OK ){
    p->rc = zMsg ? SQLITE_ERROR : SQLITE_NOMEM;
    p->zErr = zMsg;
    zMsg = 0;
  }
  sqlite3_free(zMsg);
}

/**************************************************************************
** claimq_init()
*/

/*
** What is missing.  A version is written only with a new claimq_meta.  If there
** is all, is it ours?  (Some milliseconds, once in the life of a worker.)
*/
static void cqSchemaLoad(CqOp *p, CqTask *pTask){
  i64 iVersion = cqSchemaVersion(p);
  if( iVersion==CQ_META_NONE ){
    if( cqSchemaFind(p, 1) ) cqSchemaVerdict(p, iVersion);
  }else{
    cqSchemaVerdict(p, iVersion);
  }
  if( p->rc==SQLITE_OK && cqSchemaFind(p, 0) ) pTask->eNeed = CQ_NEED_MANY;
  else cqSchemaProve(p);
}

/*
** Create one object.  It does not fit: what it belongs to is not ours.
*/
static void cqSchemaCreate(CqOp *p, const CqSchemaObj *pObj){
  claimqExecSql(p, pObj->zSql);
  if( p->rc==SQLITE_ERROR && p->zErr && strncmp(p->zErr, "claimq:", 7)!=0 ){
    char *zWhy = p->zErr;
    p->zErr = 0;
    p->rc = SQLITE_OK;
    claimqFail(p, CQ_SCHEMA_MISMATCH,
        "a table of claimq's name is not claimq's: %s", zWhy);
    sqlite3_free(zWhy);
  }
}

/*
** Create what is missing.  The version is written with a new claimq_meta only.
*/
static void cqSchemaApply(CqOp *p, CqTask *pTask){
  int bFresh = !cqSchemaHas(p, "claimq_meta");
  CqStmt guard;
  int i;
  memset(&guard, 0, sizeof(guard));
  for(i=0; i<CQ_NSCHEMA; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    int bData = strcmp(pObj->zType, "insert")==0;
    if( guard.pStmt==0 && strcmp(pObj->zType, "index")==0 ){
      claimqTxnGuard(p, &guard);
    }
    if( bData ? bFresh : !cqSchemaHas(p, pObj->zName) ){
      cqSchemaCreate(p, pObj);
    }
  }
  cqSchemaProve(p);
  claimqTxnUnguard(p, pTask, &guard);
}

/*
** claimq_init().  bChecked keeps the cache from asking for the version
** meanwhile.
*/
CQ_PRIV void claimqSchemaInit(CqOp *p){
  CqTask task;
  memset(&task, 0, sizeof(task));
  task.xLoad = cqSchemaLoad;
  task.xApply = cqSchemaApply;
  task.zWhat = "claimq_init()";
  task.bInit = 1;
  p->pConn->bChecked = 1;
  claimqRun(p, &task);
  p->pConn->bChecked = 0;
}
