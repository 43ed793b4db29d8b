/*
** op.c: one operation: its sticky error, its memory, its clock.
**
** An operation has one CqOp.  Whatever goes wrong is put there once, by
**
**     claimqFail(p, CQ_BAD_ARGUMENT, "%s is required", zName);
**     claimqFailRc(p, rc);              SQLite's own faults, unchanged
**
** and everything after it is a no-op.  At the end claimqOpResult() or
** claimqOpVtab() hands the error to SQLite.
*/
#include "claimq_int.h"

/*
** Begin an operation.
*/
CQ_PRIV void claimqOpInit(CqOp *p, CqConn *pConn){
  memset(p, 0, sizeof(*p));
  p->pConn = pConn;
  p->db = pConn->db;
}

/*
** Free the message; the code stays.
*/
CQ_PRIV void claimqOpClear(CqOp *p){
  sqlite3_free(p->zErr);
  p->zErr = 0;
}

CQ_PRIV void claimqOpReset(CqOp *p){
  claimqOpClear(p);
  p->rc = SQLITE_OK;
}

/*
** Set the error "claimq: CODE: detail", unless there is one already.  When
** there is no memory for the message the error is SQLITE_NOMEM.
*/
CQ_PRIV void claimqFail(CqOp *p, const char *zCode, const char *zFmt, ...){
  va_list ap;
  char *zDetail;
  assert( p->rc || p->zErr==0 );
  if( p->rc ) return;
  va_start(ap, zFmt);
  zDetail = sqlite3_vmprintf(zFmt, ap);
  va_end(ap);
  p->zErr = zDetail ? sqlite3_mprintf("claimq: %s: %s", zCode, zDetail) : 0;
  p->rc = p->zErr ? SQLITE_ERROR : SQLITE_NOMEM;
  sqlite3_free(zDetail);
}

/*
** The message is taken from the connection when it belongs to this rc.  A
** refusal to write is reported in claimq's own words, and
** what a trigger of claimq's raises is an error like any other of claimq's.
*/
CQ_PRIV void claimqFailRc(CqOp *p, int rc){
  int rcExt;
  if( p->rc || rc==SQLITE_OK ) return;
  if( (rc & 0xff)==SQLITE_READONLY ){
    claimqFail(p, CQ_READ_ONLY, "the database cannot be written: %s",
               sqlite3_errmsg(p->db));
    return;
  }
  p->rc = rc;
  if( rc==SQLITE_NOMEM ) return;
  rcExt = sqlite3_extended_errcode(p->db);
  if( CQ_NEVER((rcExt & 0xff)!=(rc & 0xff)) ) return;
  p->rc = rcExt;
  /* A statement that fails and is interrupted on its way out keeps the
  ** message of the failure. */
  p->zErr = sqlite3_mprintf("%s", rc==SQLITE_INTERRUPT
     ? sqlite3_errstr(rc) : sqlite3_errmsg(p->db));
  if( p->zErr==0 ){
    p->rc = SQLITE_NOMEM;
  }else if( rcExt==SQLITE_CONSTRAINT_TRIGGER
         && strncmp(p->zErr, "claimq: ", 8)==0
  ){
    p->rc = SQLITE_ERROR;
  }
}

/*
** Hand op's error, if it has one, to the function that pCtx belongs to.  A code
** without a message gets SQLite's; that of claimq__alone() stays in the task's
** own op.
*/
CQ_PRIV void claimqOpResult(CqOp *p, sqlite3_context *pCtx){
  if( p->rc==SQLITE_OK ) return;
  if( p->rc==SQLITE_NOMEM ){
    sqlite3_result_error_nomem(pCtx);
  }else{
    if( p->zErr ) sqlite3_result_error(pCtx, p->zErr, -1);
    sqlite3_result_error_code(pCtx, p->rc);
  }
  claimqOpClear(p);
}

/*
** Hand op's error, if it has one, to a virtual table.  Returns the code.
*/
CQ_PRIV int claimqOpVtab(CqOp *p, sqlite3_vtab *pVtab){
  /* SQLite starts the statement over.  It shows a message only if the progress
  ** handler stops it at this moment: the code is SQLITE_INTERRUPT then. */
  if( p->rc==SQLITE_SCHEMA && CQ_ALWAYS(p->zErr==0) ){
    p->zErr = sqlite3_mprintf("interrupted");
  }
  if( p->rc && p->zErr ){
    sqlite3_free(pVtab->zErrMsg);
    pVtab->zErrMsg = p->zErr;
    p->zErr = 0;
  }
  claimqOpClear(p);
  return p->rc;
}

/*
** Zeroed memory, which the caller frees with sqlite3_free().  0 if op has an
** error or gets one here.
*/
CQ_PRIV void *claimqMalloc(CqOp *p, i64 nByte){
  void *pNew = 0;
  assert( nByte>0 );
  if( p->rc==SQLITE_OK ){
    pNew = sqlite3_malloc64((sqlite3_uint64)nByte);
    if( pNew ) memset(pNew, 0, (size_t)nByte);
    else p->rc = SQLITE_NOMEM;
  }
  return pNew;
}

/*
** pOld with room for nByte bytes.  0 if op has an error or gets one here; then
** pOld is as it was, and still the caller's.
*/
CQ_PRIV void *claimqRealloc(CqOp *p, void *pOld, i64 nByte){
  void *pNew = 0;
  if( p->rc==SQLITE_OK ){
    pNew = sqlite3_realloc64(pOld, (sqlite3_uint64)nByte);
    if( pNew==0 ) p->rc = SQLITE_NOMEM;
  }
  return pNew;
}

/*
** Milliseconds since 1970 by the clock of main's own VFS, which every
** connection has.  VFSes older than version 2 tell the time as a Julian day
** number.
*/
CQ_PRIV i64 claimqSystemClock(CqConn *pConn){
  static const sqlite3_int64 iUnixEpoch = 210866760000000LL; /* 1970-01-01 */
  sqlite3_vfs *pVfs = pConn->pVfs;
  sqlite3_int64 iJulian = 0;
  if( pVfs==0 ){
    sqlite3_file_control(pConn->db, CQ_SCHEMA, SQLITE_FCNTL_VFS_POINTER, &pVfs);
    if( CQ_NEVER(pVfs==0) ) return 0;
    pConn->pVfs = pVfs;
  }
  if( pVfs->iVersion>=2 && pVfs->xCurrentTimeInt64 ){
    pVfs->xCurrentTimeInt64(pVfs, &iJulian);
  }else{
    double r = 0.0;
    pVfs->xCurrentTime(pVfs, &r);
    iJulian = (sqlite3_int64)(r*86400000.0 + 0.5);
  }
  return iJulian>iUnixEpoch ? iJulian-iUnixEpoch : 0;
}

/*
** The time of the call: as given by now_ms, else read from the clock, once.  To
** be called when the call has its place among all others: main is read, or
** written.  Before that it may have to wait for a lock, and what the clock said
** then is of no use.
**
** Whether the database lets its callers use the clock is not looked at: that is
** for a statement that does it itself, by {{NOW}} of sql/lease.sql.
*/
CQ_PRIV i64 claimqClock(CqOp *p){
  if( !p->bNow ){
    p->iNow = claimqSystemClock(p->pConn);
    p->bNow = p->bClock = 1;
  }
  return p->iNow;
}

/*
** What the clock said is too old: another transaction begins.
*/
CQ_PRIV void claimqClockForget(CqOp *p){
  if( p->bClock ) p->bNow = p->bClock = 0;
}

/*
** Raise clock_required.
*/
CQ_PRIV void claimqFailClock(CqOp *p){
  claimqFail(p, CQ_CLOCK_REQUIRED, "this database takes the time from its "
      "callers, as claimq_init('clock','explicit') has it: give now_ms");
}

/*
** A text that ends with a zero; 0 is no text.
*/
CQ_PRIV CqText claimqStr(const char *z){
  CqText t;
  t.z = z;
  t.n = z ? (int)strlen(z) : 0;
  return t;
}

/*
** sqlite3_value_text() would copy a text that has no zero behind it, and most
** that are bound have none.  sqlite3_value_bytes() turns the value into UTF-8
** if it is not yet; its bytes can then be had as they are.  No bytes: the text
** is empty, or there was no memory to turn it.
*/
CQ_PRIV CqText claimqValueText(CqOp *p, sqlite3_value *pVal){
  CqText t;
  t.n = sqlite3_value_bytes(pVal);
  t.z = t.n>0 ? (const char*)sqlite3_value_blob(pVal) : 0;
  if( t.z==0 ){
    t.z = (const char*)sqlite3_value_text(pVal);
    t.n = sqlite3_value_bytes(pVal);
    if( t.z==0 ){
      p->rc = SQLITE_NOMEM;
      t.n = 0;
    }
  }
  return t;
}

CQ_PRIV CqText claimqTextOrNull(CqOp *p, sqlite3_value *pVal){
  CqText t = {0, 0};
  if( p->rc || sqlite3_value_type(pVal)==SQLITE_NULL ) return t;
  return claimqValueText(p, pVal);
}

CQ_PRIV char *claimqTextDup(CqOp *p, CqText t){
  char *z = claimqMalloc(p, (i64)t.n+1);
  if( z && t.n ) memcpy(z, t.z, (size_t)t.n);
  return z;
}

/*
** The text that was put together, never 0 unless op gets an error.  The caller
** frees it.
*/
CQ_PRIV char *claimqStrFinish(CqOp *p, sqlite3_str *pStr){
  int rc = sqlite3_str_errcode(pStr);
  int n = sqlite3_str_length(pStr);
  char *z = sqlite3_str_finish(pStr);
  if( z==0 && n>0 ) rc = SQLITE_NOMEM;
  if( rc ){
    sqlite3_free(z);
    p->rc = rc;
    return 0;
  }
  return z ? z : claimqTextDup(p, claimqStr(""));
}

CQ_PRIV int claimqShown(CqText t){
  return t.n<40 ? t.n : 40;
}
