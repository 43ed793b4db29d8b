/*
** stmt.c: prepared statements.
**
** Preparing costs several times more than running, so each connection keeps
** the statements of sql/ it has used.  Two things make that less simple than
** it sounds:
**
**   * sqlite3_close() refuses while a statement is unfinalized, and runs the
**      destructors of functions only after it has looked.  But first it
**      disconnects virtual tables.  So the cache belongs to one of these: the
**      eponymous table claimq_stmt of conn.c, whose xDisconnect empties it.  It
**      is connected before the first statement is cached.
**
**   *  A statement in use must not be used again (a trigger of the user may
**      call functions that call claimq).  So claimqStmt() takes the statement
**      out of its slot, and claimqStmtDone() puts it back.
**
** No cached statement may read claimq_stmt: it would keep its owner alive.
**
** A statement may name tables of a feature that is not there yet.  SQLite then
** finds the empty tables of vtab/absent.c instead, and once the real ones are
** there it prepares the statement again, as always, and finds them.  Meanwhile
** the indexes that the statement names are left out, and it is not kept.
*/
#include "claimq_int.h"

#define CQ_RUN_LOOK 200           /* Statements that cqRunFind() looks at */

/*
** A statement was prepared, or prepared again by SQLite: main may have other
** settings than before, and even be another file (sqlite3_deserialize()).
*/
CQ_PRIV void claimqConnDoubt(CqConn *p){
  p->bSettings = 0;
  p->bUtf8 = 0;
  p->bWritable = 0;
  p->pVfs = 0;
}

/*
** Finalize a statement that came from the cache; pStmt may be 0.  If a run
** begins or ends at it, that run is forgotten, with all others.
*/
CQ_PRIV void claimqStmtFree(CqConn *p, sqlite3_stmt *pStmt){
  p->bRun = 0;
  sqlite3_finalize(pStmt);
}

/*
** Finalize all idle statements.
*/
CQ_PRIV void claimqStmtEmpty(CqConn *p){
  int i;
  p->bRun = 0;
  for(i=0; i<CQ_NSTMT; i++){
    sqlite3_finalize(p->apStmt[i]);
    p->apStmt[i] = 0;
  }
  p->bChecked = 0;
}

/**************************************************************************
** Taking, binding, stepping, giving back
*/

/*
** A statement failed.  "No such table" is worth a better word; what a function
** of claimq's own has said is not.
*/
static void cqStmtFail(CqOp *p, const char *zSql, int rc){
  assert( p->rc==SQLITE_OK );
  p->mMissing |= p->pConn->mMissing;
  p->pConn->mMissing = 0;
  if( (rc & 0xff)==SQLITE_ERROR
   && strncmp(sqlite3_errmsg(p->db), "claimq: ", 8)!=0
  ){
    claimqSchemaDiagnose(p, zSql);
  }
  claimqFailRc(p, rc);
}

/*
** Is a statement, some of whose tables are not there (mAbsent), an UPSERT?
** What stands in for them takes none.
*/
static int cqStmtUpserts(const char *zSql, int mAbsent){
  return mAbsent && strstr(zSql, "ON CONFLICT")!=0;
}

/*
** Prepare one of our statements.  0 if op has an error or gets one here.
** *pbLoose becomes 1 if it must not be kept: it is not to the letter what it
** should be, or it names indexes that may go when the user rolls back.
*/
static sqlite3_stmt *cqPrepare(
  CqOp *p, int eStmt, unsigned int mFlag, u8 *pbLoose
){
  const char *zSql = claimqSql[eStmt].zSql;
  sqlite3_stmt *pStmt = 0;
  char *zLoose = 0;
  int rc, mAbsent = 0;
  const CqSql *pOuter = p->pConn->pStep;
  if( p->rc ) return 0;
  if( claimqSql[eStmt].mFeature && strstr(zSql, "INDEXED BY") ){
    if( p->bOwnTxn || sqlite3_get_autocommit(p->db) ) p->pConn->bMade = 0;
    *pbLoose = p->pConn->bMade;
  }
  if( claimqSql[eStmt].mFeature ){
    mAbsent = claimqSchemaAbsent(p, claimqSql[eStmt].mFeature);
    if( p->rc ) return 0;
  }
  if( cqStmtUpserts(zSql, mAbsent) ){
    claimqFailMissing(p, mAbsent);
    return 0;
  }
  if( mAbsent && strstr(zSql, "INDEXED BY") ){
    zLoose = claimqSchemaLoose(p, zSql, mAbsent);
    if( zLoose==0 ) return 0;
    *pbLoose = 1;
  }
  p->pConn->pStep = &claimqSql[eStmt];
  rc = sqlite3_prepare_v3(p->db, zLoose ? zLoose : zSql, -1, mFlag, &pStmt, 0);
  p->pConn->pStep = pOuter;
  sqlite3_free(zLoose);
  if( rc ) cqStmtFail(p, zSql, rc);
  return pStmt;
}

/*
** Connect claimq_stmt, so that somebody empties the cache at close.
*/
static void cqCacheOwn(CqOp *p){
  u8 bLoose;
  if( !p->pConn->bOwned ){
    sqlite3_finalize(cqPrepare(p, CQ_SQL_CACHE_OWN, 0, &bLoose));
  }
}

/*
** Statements that take the lock or begin and end transactions run before
** anything is known of the tables.
*/
static int cqStmtBare(int eStmt){
  return strncmp(claimqSql[eStmt].zName, "TXN_", 4)==0;
}

/*
** Take a statement, ready to bind.  Its pStmt is 0 if op has an error or gets
** one here; all that takes a CqStmt is a no-op then.
*/
CQ_PRIV CqStmt claimqStmt(CqOp *p, int eStmt){
  CqConn *pConn = p->pConn;
  CqStmt s;
  assert( eStmt>=0 && eStmt<CQ_NSTMT );
  memset(&s, 0, sizeof(s));
  s.eStmt = eStmt;
  if( p->rc ) return s;
  s.pStmt = pConn->apStmt[eStmt];
  if( s.pStmt ){
    assert( !sqlite3_stmt_busy(s.pStmt) );
    pConn->apStmt[eStmt] = 0;
    pConn->nTaken++;
    return s;
  }
  cqCacheOwn(p);
  if( !cqStmtBare(eStmt) && !pConn->bChecked ){
    claimqLockFirst(p);
    claimqSchemaCheck(p);
  }
  if( eStmt!=CQ_SQL_META_SETTINGS ) claimqConnDoubt(pConn);
  s.pStmt = cqPrepare(p, eStmt, SQLITE_PREPARE_PERSISTENT, &s.bLoose);
  if( s.pStmt ){
    pConn->nTaken++;
    pConn->bRun = 0;
  }
  return s;
}

/*
** Before main is read by an operation that will write, inside the user's
** transaction: take the lock, because later it could not be waited for.  (To
** read would be to begin the transaction as a reader.)
*/
CQ_PRIV void claimqLockFirst(CqOp *p){
  if( p->bWrite && !p->bOwnTxn && !sqlite3_get_autocommit(p->db)
   && sqlite3_txn_state(p->db, CQ_SCHEMA)==SQLITE_TXN_NONE
  ){
    CqStmt lock = claimqStmt(p, CQ_SQL_TXN_LOCK);
    claimqExec(p, &lock);
  }
}

/*
** claimqConnDoubt(), if SQLite has prepared the statement again.  Whoever reads
** the settings while the statement stands on a row, to decide by both, says
** this first; else claimqStmtDone() does.
*/
CQ_PRIV void claimqStmtDoubt(CqConn *p, const CqStmt *pS){
  if( sqlite3_stmt_status(pS->pStmt, SQLITE_STMTSTATUS_REPREPARE, 1)
   && pS->eStmt!=CQ_SQL_META_SETTINGS
  ){
    claimqConnDoubt(p);
  }
}

/*
** Give a statement back to its slot, reset and unbound.  If the slot is taken
** (the statement was in use when it was needed a second time) or nobody would
** empty the cache, it is finalized.
*/
CQ_PRIV void claimqStmtDone(CqOp *p, CqStmt *pS){
  CqConn *pConn = p->pConn;
  sqlite3_stmt *pStmt = pS->pStmt;
  int rc;
  if( pStmt==0 ) return;
  assert( pS->bLoose
       || strcmp(sqlite3_sql(pStmt), claimqSql[pS->eStmt].zSql)==0 );
  assert( pConn->nTaken>0 && pConn->apStmt[pS->eStmt]!=pStmt );
  pConn->nTaken--;
  claimqStmtDoubt(pConn, pS);
  rc = sqlite3_reset(pStmt);
  /* What it says now was reported when it was stepped. */
  if( CQ_NEVER(rc && p->rc==SQLITE_OK) ) claimqFailRc(p, rc);
  if( pConn->apStmt[pS->eStmt]==0 && CQ_ALWAYS(pConn->bOwned) && !pS->bLoose ){
    if( claimqSql[pS->eStmt].nParam ) sqlite3_clear_bindings(pStmt);
    pConn->apStmt[pS->eStmt] = pStmt;
  }else{
    claimqStmtFree(pConn, pStmt);
  }
  pS->pStmt = 0;
}

/*
** 1 if pStmt is idle in the cache.
*/
static int cqStmtIdle(const CqConn *p, const sqlite3_stmt *pStmt){
  int i;
  for(i=0; i<CQ_NSTMT; i++){
    if( p->apStmt[i]==pStmt ) return 1;
  }
  return 0;
}

/*
** 1 if pStmt never writes while a function is called or a row is read: it
** reads only, or it is BEGIN IMMEDIATE.  (An EXPLAIN may be changed into what
** it explains.)
*/
static int cqStmtHarmless(sqlite3_stmt *pStmt){
  return (sqlite3_stmt_readonly(pStmt) && !sqlite3_stmt_isexplain(pStmt))
      || sqlite3_strnicmp(sqlite3_sql(pStmt), "begin", 5)==0;
}

/*
** Note that what stands behind pFirst, up to pLast, need not be looked at.
*/
static void cqRunAdd(CqConn *p, sqlite3_stmt *pFirst, sqlite3_stmt *pLast){
  CqRun *pRun = &p->aRun[p->nRun++];
  assert( p->nRun<=CQ_NRUN && pFirst!=0 );
  assert( p->nRun>1 || cqStmtIdle(p, pFirst) );
  pRun->pFirst = pFirst;
  pRun->pLast = pLast;
}

/*
** Find out which statements need not be looked at: see claimqStmtWriting().
*/
static void cqRunFind(CqConn *p){
  sqlite3_stmt *pStmt = 0;        /* Of the list */
  sqlite3_stmt *pFirst = 0;       /* Where a run may begin; or 0 */
  sqlite3_stmt *pLast = 0;        /* How far it reaches by now; or 0 */
  int i;
  assert( p->nTaken==0 );         /* All statements of the cache are idle */
  p->nRun = 0;
  p->bRun = 1;
  for(i=0; i<CQ_RUN_LOOK && p->nRun<CQ_NRUN; i++){
    pStmt = sqlite3_next_stmt(p->db, pStmt);
    if( pStmt==0 ){
      if( pFirst ) cqRunAdd(p, pFirst, 0);
      break;
    }
    if( cqStmtIdle(p, pStmt) ){
      if( pFirst==0 ) pFirst = pStmt;
      pLast = pStmt;
    }else if( pFirst && !cqStmtHarmless(pStmt) ){
      if( pLast ) cqRunAdd(p, pFirst, pLast);
      pFirst = pStmt;
      pLast = 0;
    }
  }
}

/*
** Is a writing statement of this connection under way?  1 if so, 0 if not, -1
** if there are too many statements for nMost to tell.
**
** SQLite puts a new statement in front of its list, and one that is prepared
** again stays where it is.  So behind a statement of the cache there is never
** anything that was not there before, as long as that statement lives.  If one
** that was seen there is met there again, it is the same, and what follows it
** is what followed then, or less.  A run leads from such a statement to one of
** the cache, or to the end of the list, past statements of the cache (idle
** while none is taken) and such as never write.  The first run begins at a
** statement of the cache.  Runs save 3 % of a submit in a transaction.
*/
CQ_PRIV int claimqStmtWriting(CqConn *p, int nMost){
  sqlite3_stmt *pStmt = 0;
  const CqRun *pRun, *pEnd;
  int i;
  if( p->nTaken==0 && !p->bRun ) cqRunFind(p);
  pRun = p->aRun;
  pEnd = p->nTaken==0 ? &p->aRun[p->nRun] : pRun;
  for(i=0; i<nMost; i++){
    pStmt = sqlite3_next_stmt(p->db, pStmt);
    if( pStmt==0 ) break;
    if( sqlite3_stmt_busy(pStmt) && !sqlite3_stmt_readonly(pStmt) ) return 1;
    if( pRun<pEnd && pStmt==pRun->pFirst ){
      pStmt = pRun++->pLast;
      if( pStmt==0 ) return 0;
    }
  }
  if( pStmt ) return -1;
  /* A run that was not met began at a statement that is no more. */
  if( pRun<pEnd ) p->bRun = 0;
  return 0;
}

/*
** Make ready to run again, with other values for some parameters.
*/
CQ_PRIV void claimqStmtReset(CqStmt *pS){
  if( pS->pStmt ) sqlite3_reset(pS->pStmt);
  pS->bAgain = 1;
}

/*
** In a debug build a statement knows which parameters were bound, and asserts
** at its first step that none was forgotten.
*/
#ifndef NDEBUG
static void cqStmtBound(CqStmt *pS, int i){
  assert( i>=1 && i<=claimqSql[pS->eStmt].nParam );
  assert( claimqSql[pS->eStmt].nParam<=32 );
  assert( sqlite3_bind_parameter_name(pS->pStmt, i)!=0 );
  pS->mBound |= (u32)1<<(i-1);
}

/*
** 1 if every parameter of the statement was bound.
*/
static int cqStmtAllBound(const CqStmt *pS){
  int i;
  for(i=1; i<=claimqSql[pS->eStmt].nParam; i++){
    if( sqlite3_bind_parameter_name(pS->pStmt, i)
     && (pS->mBound>>(i-1) & 1)==0
    ){
      return 0;
    }
  }
  return 1;
}
#else
# define cqStmtBound(S, I) (void)0
#endif

/*
** What a bind returned.  There are many of them, and few fail: that these are
** distinguished here, without a call, saves 0.2 % of a submit.
*/
static void cqBindRc(CqOp *p, int rc){
  if( rc ) claimqFailRc(p, rc);
}

CQ_PRIV void claimqBindInt(CqOp *p, CqStmt *pS, int i, i64 v){
  if( p->rc ) return;
  cqStmtBound(pS, i);
  cqBindRc(p, sqlite3_bind_int64(pS->pStmt, i, v));
}

/*
** The bytes must stay until the statement is given back.
*/
CQ_PRIV void claimqBindText(CqOp *p, CqStmt *pS, int i, CqText t){
  if( p->rc ) return;
  cqStmtBound(pS, i);
  if( t.z==0 ) claimqBindNull(p, pS, i);
  else cqBindRc(p, sqlite3_bind_text(pS->pStmt, i, t.z, t.n,
                                     SQLITE_STATIC));
}

/*
** Bind a value of the caller's, NULL if pVal is 0.
*/
CQ_PRIV void claimqBindValue(
  CqOp *p, CqStmt *pS, int i, sqlite3_value *pVal
){
  if( p->rc ) return;
  cqStmtBound(pS, i);
  if( pVal==0 ) claimqBindNull(p, pS, i);
  else cqBindRc(p, sqlite3_bind_value(pS->pStmt, i, pVal));
}

/*
** A statement comes unbound from the cache, that is with NULLs, but may be run
** several times.
*/
CQ_PRIV void claimqBindNull(CqOp *p, CqStmt *pS, int i){
  if( p->rc ) return;
  cqStmtBound(pS, i);
  if( CQ_NEVER(pS->bAgain) ) cqBindRc(p, sqlite3_bind_null(pS->pStmt, i));
}

/*
** Bind a pointer for a function or table that knows zType, which must be a
** constant.  What it points to must stay until the statement is given back.
*/
CQ_PRIV void claimqBindPointer(
  CqOp *p, CqStmt *pS, int i, void *pPtr, const char *zType
){
  if( p->rc ) return;
  cqStmtBound(pS, i);
  cqBindRc(p, sqlite3_bind_pointer(pS->pStmt, i, pPtr, zType, 0));
}

CQ_PRIV void claimqBindIds(CqOp *p, CqStmt *pS, int i, const CqIds *pIds){
  claimqBindPointer(p, pS, i, (void*)pIds, CQ_IDS_TYPE);
}

/*
** A common parameter, if the statement has it.
*/
CQ_PRIV void claimqBindCommonInt(CqOp *p, CqStmt *pS, int eCommon, i64 v){
  int i = claimqSql[pS->eStmt].aCommon[eCommon];
  if( i ) claimqBindInt(p, pS, i, v);
}
CQ_PRIV void claimqBindCommonText(CqOp *p, CqStmt *pS, int eCommon, CqText t){
  int i = claimqSql[pS->eStmt].aCommon[eCommon];
  if( i ) claimqBindText(p, pS, i, t);
}

/*
** :now and :clock, if the statement has them.  With :clock claimq__clock()
** reads the clock when the statement has its lock, and learns which statement
** it stands in.
*/
CQ_PRIV void claimqBindNow(CqOp *p, CqStmt *pS){
  const unsigned char *aCommon = claimqSql[pS->eStmt].aCommon;
  if( aCommon[CQ_P_now] ){
    claimqBindInt(p, pS, aCommon[CQ_P_now], claimqClock(p));
  }
  if( aCommon[CQ_P_clock] ){
    claimqBindPointer(p, pS, aCommon[CQ_P_clock], p, CQ_CLOCK_TYPE);
    p->pClock = pS->pStmt;
  }
}

/*
** 1 if there is a row; 0 at the end, and if op has an error or gets one here.
*/
CQ_PRIV int claimqStep(CqOp *p, CqStmt *pS){
  const CqSql *pOuter = p->pConn->pStep;
  int rc;
  if( p->rc ) return 0;
  assert( pS->pStmt && cqStmtAllBound(pS) );
  p->pConn->pStep = &claimqSql[pS->eStmt];
  rc = sqlite3_step(pS->pStmt);
  p->pConn->pStep = pOuter;
  if( rc==SQLITE_ROW ) return 1;
  if( rc!=SQLITE_DONE ) cqStmtFail(p, claimqSql[pS->eStmt].zSql, rc);
  if( p->mMissing ) pS->bLoose = 1;
  return 0;
}

/*
** For triggers of claimq's own, which guard columns against plain UPDATEs: 0
** while a statement of claimq's is being run, else 1.
*/
CQ_PRIV void claimqOutside(CqOp *p, CqCall *pCall){
  sqlite3_result_int(pCall->pCtx, p->pConn->pStep==0);
}

/*
** For triggers of claimq's own that guard rows against a plain DELETE: 1 if a
** statement of claimq's deletes the row.  (A trigger of the user's may delete
** rows while another statement of claimq's is being run: that is plain, too.)
*/
CQ_PRIV int claimqOwnDelete(const CqConn *p){
  return p->pStep && p->pStep->bDelete;
}

/*
** Columns are read through sqlite3_column_value(): each call of
** sqlite3_column_*() locks the connection.  Such a value is safe to look at,
** because the sqlite3_step() that called claimq holds that lock.
*/
CQ_PRIV sqlite3_value *claimqColValue(const CqStmt *pS, int iCol){
  assert( iCol>=0 && iCol<sqlite3_column_count(pS->pStmt) );
  return sqlite3_column_value(pS->pStmt, iCol);
}
CQ_PRIV i64 claimqColInt(const CqStmt *pS, int iCol){
  assert( iCol>=0 && iCol<sqlite3_column_count(pS->pStmt) );
  return sqlite3_column_int64(pS->pStmt, iCol);
}
CQ_PRIV int claimqColType(const CqStmt *pS, int iCol){
  return sqlite3_column_type(pS->pStmt, iCol);
}
CQ_PRIV CqText claimqColText(CqOp *p, const CqStmt *pS, int iCol){
  CqText none = {0, 0};
  if( p->rc ) return none;
  return claimqTextOrNull(p, sqlite3_column_value(pS->pStmt, iCol));
}

/*
** A statement wrote fewer rows than it should have: raise conflict, with the
** name of the table.
*/
static void cqExecLeft(CqOp *p, const char *zSql){
  const char *z = strstr(zSql, CQ_SCHEMA ".");
  int n;
  assert( z!=0 );
  z += sizeof(CQ_SCHEMA);
  n = (int)strspn(z, "abcdefghijklmnopqrstuvwxyz_");
  claimqFail(p, CQ_CONFLICT, "a trigger on %.*s left a row out", n, z);
}

/*
** Run a write to its end and give it back.  Returns the number of rows it
** changed, 0 after an error.  (PRAGMA count_changes makes writes return a row:
** step until the end.)  Raises conflict if it counts its rows, by {{WROTE}},
** and did not write them all.
*/
CQ_PRIV i64 claimqExec(CqOp *p, CqStmt *pS){
  int iWrote = claimqSql[pS->eStmt].aCommon[CQ_P_wrote];
  i64 nChange = 0, nWrote = 0;
  if( iWrote ) claimqBindPointer(p, pS, iWrote, &nWrote, CQ_WROTE_TYPE);
  while( claimqStep(p, pS) ){}
  if( p->rc==SQLITE_OK ) nChange = sqlite3_changes(p->db);
  claimqStmtDone(p, pS);
  if( p->rc==SQLITE_OK && nChange<nWrote ){
    cqExecLeft(p, claimqSql[pS->eStmt].zSql);
    nChange = 0;
  }
  return nChange;
}

/*
** Run a statement that is not kept: one that changes the schema.
*/
CQ_PRIV void claimqExecSql(CqOp *p, const char *zSql){
  sqlite3_stmt *pStmt = 0;
  int rc;
  if( p->rc ) return;
  rc = sqlite3_prepare_v2(p->db, zSql, -1, &pStmt, 0);
  if( rc==SQLITE_OK ){
    while( (rc = sqlite3_step(pStmt))==SQLITE_ROW ){}
    if( rc==SQLITE_DONE ) rc = SQLITE_OK;
    else cqStmtFail(p, zSql, rc);
  }
  claimqFailRc(p, rc);
  sqlite3_finalize(pStmt);
}
