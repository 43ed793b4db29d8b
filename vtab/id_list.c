/*
** id_list.c: claimq__ids(?), the rows of a list of integer keys.
**
** A claim is stamped by one UPDATE, however many rows it takes:
**
**     UPDATE ... WHERE enqueue_seq IN (SELECT id FROM claimq__ids(?1))
**
** where ?1 is bound with sqlite3_bind_pointer() to a CqIds.  Called with
** anything else (from the shell, say) the table is empty.  If each of the rows
** is a claim of its own, the list brings the leases, too:
**
**     UPDATE ... SET claim_id=claimq__ids.claim_id, ... FROM claimq__ids(?1)
**
** These are the leases that the caller will get, and so are not computed again.
** A list may be longer than the rows it brings: the keys after them have no
** lease, and its columns are NULL.
**
** absent.c has tables without rows, whose cursors are those of this one,
** without a list.
*/
#include "claimq_int.h"

typedef struct CqIdCursor CqIdCursor;
struct CqIdCursor {
  sqlite3_vtab_cursor base;
  const CqIds *pIds;              /* Bound by the running statement; or 0 */
  int i;
};

/*
** xConnect: the table has no state.  Returns an SQLite code.
*/
static int cqIdConnect(
  sqlite3 *db, void *pAux, int argc, const char *const *argv,
  sqlite3_vtab **ppVtab, char **pzErr
){
  int rc = claimqDeclare(db, claimqSql[CQ_SQL_IDS_DECLARE].zSql, pzErr);
  (void)pAux; (void)argc; (void)argv;
  if( rc ) return rc;
  *ppVtab = sqlite3_malloc(sizeof(sqlite3_vtab));
  if( *ppVtab==0 ) return SQLITE_NOMEM;
  memset(*ppVtab, 0, sizeof(sqlite3_vtab));
  return SQLITE_OK;
}

static int cqIdDisconnect(sqlite3_vtab *pVtab){
  sqlite3_free(pVtab);
  return SQLITE_OK;
}

/*
** Column 1 is the hidden argument.  idxNum 1: it is given.
*/
static int cqIdBestIndex(sqlite3_vtab *pVtab, sqlite3_index_info *pInfo){
  int i;
  (void)pVtab;
  pInfo->estimatedCost = 1000.0;
  for(i=0; i<pInfo->nConstraint; i++){
    if( pInfo->aConstraint[i].iColumn==1
     && pInfo->aConstraint[i].op==SQLITE_INDEX_CONSTRAINT_EQ
     && pInfo->aConstraint[i].usable
    ){
      pInfo->aConstraintUsage[i].argvIndex = 1;
      pInfo->aConstraintUsage[i].omit = 1;
      pInfo->idxNum = 1;
      pInfo->estimatedCost = 1.0;
      pInfo->estimatedRows = 1;   /* Few: the tables are to be searched */
      break;
    }
  }
  return SQLITE_OK;
}

/*
** xOpen.  Returns an SQLite code.
*/
CQ_PRIV int claimqIdListOpen(sqlite3_vtab *pVtab, sqlite3_vtab_cursor **ppCsr){
  CqIdCursor *pNew = sqlite3_malloc(sizeof(*pNew));
  (void)pVtab;
  if( pNew==0 ) return SQLITE_NOMEM;
  memset(pNew, 0, sizeof(*pNew));
  *ppCsr = &pNew->base;
  return SQLITE_OK;
}

CQ_PRIV int claimqIdListClose(sqlite3_vtab_cursor *pCsr){
  sqlite3_free(pCsr);
  return SQLITE_OK;
}

/*
** xFilter: the list that is bound, none if it is anything else.
*/
CQ_PRIV int claimqIdListFilter(
  sqlite3_vtab_cursor *pCsr, int idxNum, const char *idxStr,
  int argc, sqlite3_value **argv
){
  CqIdCursor *p = (CqIdCursor*)pCsr;
  (void)idxStr; (void)argc;
  assert( argc==idxNum );
  p->pIds = 0;
  if( idxNum==1 ) p->pIds = sqlite3_value_pointer(argv[0], CQ_IDS_TYPE);
  p->i = 0;
  return SQLITE_OK;
}

CQ_PRIV int claimqIdListNext(sqlite3_vtab_cursor *pCsr){
  ((CqIdCursor*)pCsr)->i++;
  return SQLITE_OK;
}

CQ_PRIV int claimqIdListEof(sqlite3_vtab_cursor *pCsr){
  CqIdCursor *p = (CqIdCursor*)pCsr;
  return p->pIds==0 || p->i>=p->pIds->n;
}

/*
** The key, or a column of the lease that its row is about to get.
*/
CQ_PRIV int claimqIdListColumn(
  sqlite3_vtab_cursor *pCsr, sqlite3_context *pCtx, int iCol
){
  CqIdCursor *p = (CqIdCursor*)pCsr;
  const CqIds *pIds = p->pIds;
  assert( p->i<pIds->n && pIds->nTurn<=pIds->n );
  assert( iCol>=0 && iCol<3+CQ_NCLAIMCOL );
  if( iCol==0 ){
    sqlite3_result_int64(pCtx, pIds->a[p->i]);
  }else if( iCol==2 ){
    if( CQ_ALWAYS(p->i<pIds->nTurn) ){
      sqlite3_result_int64(pCtx, pIds->aTurn[p->i]);
    }
  }else if( iCol>2 && CQ_ALWAYS(pIds->pRows) && p->i<pIds->pRows->nRow ){
    const CqCell *a = &claimqRow(pIds->pRows, p->i)[pIds->iLease];
    claimqCellResult(&a[iCol-3], pCtx);
  }
  return SQLITE_OK;
}

CQ_PRIV int claimqIdListRowid(
  sqlite3_vtab_cursor *pCsr, sqlite3_int64 *piRowid
){
  *piRowid = ((CqIdCursor*)pCsr)->i;
  return SQLITE_OK;
}

/*
** Register the table claimq__ids.  Returns an SQLite code.
*/
CQ_PRIV int claimqIdListRegister(CqConn *pConn){
  static const sqlite3_module module = {
    .xConnect    = cqIdConnect,
    .xBestIndex  = cqIdBestIndex,
    .xDisconnect = cqIdDisconnect,
    .xOpen       = claimqIdListOpen,
    .xClose      = claimqIdListClose,
    .xFilter     = claimqIdListFilter,
    .xNext       = claimqIdListNext,
    .xEof        = claimqIdListEof,
    .xColumn     = claimqIdListColumn,
    .xRowid      = claimqIdListRowid,
  };
  return sqlite3_create_module_v2(pConn->db, CQ_IDS_MODULE, &module, 0, 0);
}
