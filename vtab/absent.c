/*
** absent.c: what stands for the tables of a feature that is not there yet.
**
** The tables of sessions, say, come with the first claimq_enqueue() (see
** store/init.c).  Until then
**
**     SELECT count(*) FROM claimq_batch;                           -- 0
**     INSERT INTO claimq_batch(session) VALUES('s');
**     -- claimq: not_initialised: ... SELECT claimq_init('sessions', 1)
**
** because for each of these tables there is a module of its name, an eponymous
** virtual table, which is empty: its cursors are those of a list without keys
** (id_list.c).  SQLite takes it only where no table has the name, and prepares
** its statements anew when there is one: so none of them, of claimq's or of
** anybody else's, needs to know which tables are there.
**
** In a database without claimq, and where only one of a feature's tables is
** missing, the answer is "no such table".
*/
#include "claimq_int.h"

typedef struct CqAbsent CqAbsent;
struct CqAbsent {
  sqlite3_vtab base;              /* First */
  CqConn *pConn;                  /* Lives as long as the module */
  const CqSchemaObj *pObj;        /* The table */
};

/*
** xConnect: the name of the module is that of the table.  Returns an SQLite
** code.
*/
static int cqAbsentConnect(
  sqlite3 *db, void *pAux, int argc, const char *const *argv,
  sqlite3_vtab **ppVtab, char **pzErr
){
  CqAbsent *pNew;
  char *zSql;
  int i, rc;
  (void)argc;
  for(i=0; strcmp(claimqSchema[i].zName, argv[0])!=0; i++){
    assert( i+1<CQ_NSCHEMA );
  }
  zSql = sqlite3_mprintf(claimqSql[CQ_SQL_CLAIM_DECLARE].zSql,
                         claimqSchema[i].zCols);
  if( zSql==0 ) return SQLITE_NOMEM;
  rc = claimqDeclare(db, zSql, pzErr);
  sqlite3_free(zSql);
  if( rc ) return rc;
  sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
  pNew = sqlite3_malloc(sizeof(*pNew));
  if( pNew==0 ) return SQLITE_NOMEM;
  memset(pNew, 0, sizeof(*pNew));
  pNew->pConn = (CqConn*)pAux;
  pNew->pObj = &claimqSchema[i];
  *ppVtab = &pNew->base;
  return SQLITE_OK;
}

static int cqAbsentDisconnect(sqlite3_vtab *pVtab){
  sqlite3_free(pVtab);
  return SQLITE_OK;
}

/*
** Set a message, unless there is no memory.  Returns the SQLite code.
*/
static int cqAbsentFail(sqlite3_vtab *pVtab, char *zMsg){
  sqlite3_free(pVtab->zErrMsg);
  pVtab->zErrMsg = zMsg;
  return zMsg ? SQLITE_ERROR : SQLITE_NOMEM;
}

/*
** xBestIndex: there is nothing to choose.  Fails where it is no such table.
*/
static int cqAbsentBestIndex(sqlite3_vtab *pVtab, sqlite3_index_info *pInfo){
  CqAbsent *p = (CqAbsent*)pVtab;
  CqOp op;
  claimqOpInit(&op, p->pConn);
  if( !claimqSchemaHas(&op, claimqSchema[0].zName)
   || !claimqSchemaAbsent(&op, 1<<p->pObj->eFeature)
  ){
    return cqAbsentFail(pVtab, sqlite3_mprintf("no such table: %s",
                                               p->pObj->zName));
  }
  pInfo->estimatedCost = 1.0;
  pInfo->estimatedRows = 1;
  return SQLITE_OK;
}

/*
** xUpdate: a row is to be inserted (there is none to be updated or deleted).  A
** put of claimq's learns what is missing, and makes it.
*/
static int cqAbsentUpdate(
  sqlite3_vtab *pVtab, int argc, sqlite3_value **argv, sqlite3_int64 *piRowid
){
  CqAbsent *p = (CqAbsent*)pVtab;
  int mBit = 1<<p->pObj->eFeature;
  CqOp op;
  (void)argc; (void)argv; (void)piRowid;
  claimqOpInit(&op, p->pConn);
  claimqFailMissing(&op, mBit);
  if( p->pConn->pStep ) p->pConn->mMissing |= mBit;
  return claimqOpVtab(&op, pVtab);
}

/*
** Register a module for each table of a feature.  Returns an SQLite code.
*/
CQ_PRIV int claimqAbsentRegister(CqConn *pConn){
  static const sqlite3_module module = {
    .iVersion = 1, .xConnect = cqAbsentConnect,
    .xBestIndex = cqAbsentBestIndex, .xDisconnect = cqAbsentDisconnect,
    .xOpen = claimqIdListOpen, .xClose = claimqIdListClose,
    .xFilter = claimqIdListFilter, .xNext = claimqIdListNext,
    .xEof = claimqIdListEof, .xColumn = claimqIdListColumn,
    .xRowid = claimqIdListRowid, .xUpdate = cqAbsentUpdate,
  };
  int i, rc = SQLITE_OK;
  for(i=0; i<CQ_NSCHEMA && rc==SQLITE_OK; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    if( pObj->eFeature==CQ_FEAT_LANES || pObj->zCols[0]==0
     || pObj->zOption[0]
    ){
      continue;
    }
    claimqConnRef(pConn);
    rc = sqlite3_create_module_v2(pConn->db, pObj->zName, &module, pConn,
                                  claimqConnUnref);
  }
  return rc;
}
