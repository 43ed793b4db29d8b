/*
** util.c: sticky error, argument readers, memory, clock.
**
** An operation has one CqOp.  Whatever goes wrong is put there once, by
**
**     claimqFail(p, CQ_BAD_ARGUMENT, "%s is required", zName);
**     claimqFailRc(p, rc);              SQLite's own faults, unchanged
**
** and everything after it is a no-op.  At the end claimqOpResult() or
** claimqOpVtab() hands the error to SQLite.
**
** Arguments of claim tables and options of functions are described by the
** same struct, CqArgDef, and read by the same function, claimqRead(), so that
** a wrong type is told in the same words everywhere:
**
**     claimq: bad_argument: ttl_ms must be an integer >= 0, got TEXT 'x'
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

CQ_PRIV void claimqOpClear(CqOp *p){
  sqlite3_free(p->zErr);
  p->zErr = 0;
}

CQ_PRIV void claimqOpReset(CqOp *p){
  claimqOpClear(p);
  p->rc = SQLITE_OK;
  p->nWrite = 0;
}

CQ_PRIV void claimqFail(CqOp *p, const char *zCode, const char *zFmt, ...){
  va_list ap;
  char *zDetail;
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
** refusal to write is told in claimq's own words, as SPEC section 2 wants, and
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

CQ_PRIV void claimqOpResult(CqOp *p, sqlite3_context *pCtx){
  if( p->rc==SQLITE_OK ) return;
  if( p->rc==SQLITE_NOMEM ){
    sqlite3_result_error_nomem(pCtx);
  }else{
    if( CQ_ALWAYS(p->zErr) ) sqlite3_result_error(pCtx, p->zErr, -1);
    sqlite3_result_error_code(pCtx, p->rc);
  }
  claimqOpClear(p);
}

CQ_PRIV int claimqOpVtab(CqOp *p, sqlite3_vtab *pVtab){
  if( p->rc && p->zErr ){
    sqlite3_free(pVtab->zErrMsg);
    pVtab->zErrMsg = p->zErr;
    p->zErr = 0;
  }
  claimqOpClear(p);
  return p->rc;
}

CQ_PRIV void *claimqMalloc(CqOp *p, i64 nByte){
  void *pNew = 0;
  if( p->rc==SQLITE_OK ){
    pNew = sqlite3_malloc64((sqlite3_uint64)nByte);
    if( pNew ) memset(pNew, 0, (size_t)nByte);
    else p->rc = SQLITE_NOMEM;
  }
  return pNew;
}

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
CQ_PRIV i64 claimqClock(sqlite3 *db){
  sqlite3_vfs *pVfs = 0;
  sqlite3_int64 iJulian = 0;
  sqlite3_file_control(db, "main", SQLITE_FCNTL_VFS_POINTER, &pVfs);
  if( CQ_NEVER(pVfs==0) ) return 0;
  if( pVfs->iVersion>=2 && pVfs->xCurrentTimeInt64 ){
    pVfs->xCurrentTimeInt64(pVfs, &iJulian);
  }else{
    double r = 0.0;
    pVfs->xCurrentTime(pVfs, &r);
    iJulian = (sqlite3_int64)(r*86400000.0 + 0.5);
  }
  iJulian -= 210866760000000LL;            /* 1970-01-01 */
  return iJulian<0 ? 0 : iJulian;
}

CQ_PRIV i64 claimqNow(CqOp *p){
  if( !p->bNow ){
    p->iNow = claimqClock(p->db);
    p->bNow = 1;
  }
  return p->iNow;
}

CQ_PRIV CqText claimqStr(const char *z){
  CqText t;
  t.z = z;
  t.n = z ? (int)strlen(z) : 0;
  return t;
}

CQ_PRIV int claimqTextEq(CqText a, CqText b){
  if( a.z==0 || b.z==0 ) return a.z==b.z;
  return a.n==b.n && memcmp(a.z, b.z, (size_t)a.n)==0;
}

/**************************************************************************
** Arguments
*/

/*
** Describe a value that is not NULL for an error message: "TEXT 'abc'", "5".
** The caller frees; 0 on OOM.
*/
static char *cqDescribe(sqlite3_value *pVal){
  switch( sqlite3_value_type(pVal) ){
    case SQLITE_BLOB:    return sqlite3_mprintf("a BLOB");
    case SQLITE_INTEGER: return sqlite3_mprintf("%lld",
                                  sqlite3_value_int64(pVal));
    case SQLITE_FLOAT:   return sqlite3_mprintf("%!.15g",
                                  sqlite3_value_double(pVal));
  }
  return sqlite3_mprintf("TEXT '%.40s'", sqlite3_value_text(pVal));
}

/*
** Raise bad_argument: "NAME must be WHAT, got VALUE".
*/
static void cqWrong(
  CqOp *p, const CqArgDef *pDef, const char *zWhat, sqlite3_value *pVal
){
  char *zGot = cqDescribe(pVal);
  if( zGot==0 ) p->rc = SQLITE_NOMEM;
  claimqFail(p, CQ_BAD_ARGUMENT, "%s must be %s, got %s",
             pDef->zName, zWhat, zGot);
  sqlite3_free(zGot);
}

/*
** The words of a list as "a, b or c".  The caller frees; 0 on OOM.
*/
static char *cqWordList(const char *const *azWord){
  char *z = 0;
  int i;
  for(i=0; azWord[i]; i++){
    const char *zSep = i==0 ? "" : azWord[i+1] ? ", " : " or ";
    z = sqlite3_mprintf("%z%s'%s'", z, zSep, azWord[i]);
    if( z==0 ) break;
  }
  return z;
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
    if( t.z==0 ) p->rc = SQLITE_NOMEM;
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

CQ_PRIV int claimqShown(CqText t){
  return t.n<40 ? t.n : 40;
}

/*
** TEXT, JSON and WORD: the bytes.
*/
static void cqReadText(
  CqOp *p, const CqArgDef *pDef, sqlite3_value *pVal, CqVal *pOut
){
  if( sqlite3_value_type(pVal)!=SQLITE_TEXT ){
    cqWrong(p, pDef, pDef->eType==CQ_T_JSON ? "JSON text" : "text", pVal);
    return;
  }
  pOut->t = claimqValueText(p, pVal);
  if( p->rc ) return;
  if( !claimqUtf8Valid(pOut->t.z, pOut->t.n) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "%s is not valid UTF-8", pDef->zName);
  }else if( pDef->eType==CQ_T_TEXT && pDef->iMax && pOut->t.n>pDef->iMax ){
    claimqFail(p, CQ_TOO_LARGE, "%s has %d bytes, the limit is %lld",
               pDef->zName, pOut->t.n, pDef->iMax);
  }
}

static void cqReadWord(
  CqOp *p, const CqArgDef *pDef, sqlite3_value *pVal, CqVal *pOut
){
  cqReadText(p, pDef, pVal, pOut);
  if( p->rc ) return;
  pOut->i = claimqWord(pDef->xWords(), pOut->t);
  if( pOut->i<0 ){
    char *zList = cqWordList(pDef->xWords());
    if( zList==0 ) p->rc = SQLITE_NOMEM;
    else cqWrong(p, pDef, zList, pVal);
    sqlite3_free(zList);
  }
}

/*
** An INTEGER, or a REAL with an integral value: 1 and *pi, else 0.  2^63 is
** the first REAL that does not fit.
*/
static int cqIntegral(sqlite3_value *pVal, i64 *pi){
  int eType = sqlite3_value_type(pVal);
  if( eType==SQLITE_INTEGER ){
    *pi = sqlite3_value_int64(pVal);
    return 1;
  }
  if( eType==SQLITE_FLOAT ){
    double r = sqlite3_value_double(pVal);
    if( r>=-9223372036854775808.0 && r<9223372036854775808.0
     && (double)(i64)r==r
    ){
      *pi = (i64)r;
      return 1;
    }
  }
  return 0;
}

static void cqReadInt(
  CqOp *p, const CqArgDef *pDef, sqlite3_value *pVal, CqVal *pOut
){
  i64 iMax = pDef->iMax ? pDef->iMax : CQ_I64_MAX;
  char *zWant;
  if( cqIntegral(pVal, &pOut->i) && pOut->i>=pDef->iMin && pOut->i<=iMax ){
    return;
  }
  if( pDef->iMin<0 ){
    zWant = sqlite3_mprintf("an integer");
  }else if( pDef->iMax ){
    zWant = sqlite3_mprintf("an integer from %lld to %lld", pDef->iMin, iMax);
  }else{
    zWant = sqlite3_mprintf("an integer >= %lld", pDef->iMin);
  }
  if( zWant==0 ) p->rc = SQLITE_NOMEM;
  else cqWrong(p, pDef, zWant, pVal);
  sqlite3_free(zWant);
}

/*
** The value of an argument that was not given, or given as NULL.
*/
static void cqReadDefault(CqOp *p, const CqArgDef *pDef, CqVal *pOut){
  if( pDef->mFlag & CQ_A_REQUIRED ){
    claimqFail(p, CQ_BAD_ARGUMENT, "%s is required and may not be NULL",
               pDef->zName);
    return;
  }
  pOut->i = pDef->iDefault;
  if( pDef->eType==CQ_T_WORD ){
    pOut->t = claimqStr(pDef->xWords()[pDef->iDefault]);
  }else if( pDef->eType!=CQ_T_INT ){
    pOut->t = claimqStr(pDef->zDefault);
  }
}

CQ_PRIV void claimqRead(
  CqOp *p, const CqArgDef *pDef, sqlite3_value *pVal, CqVal *pOut
){
  memset(pOut, 0, sizeof(*pOut));
  if( p->rc ) return;
  pOut->pVal = pVal;
  if( pVal==0 || (sqlite3_value_type(pVal)==SQLITE_NULL) ){
    cqReadDefault(p, pDef, pOut);
    return;
  }
  pOut->bGiven = 1;
  switch( pDef->eType ){
    case CQ_T_TEXT:
    case CQ_T_JSON: cqReadText(p, pDef, pVal, pOut); break;
    case CQ_T_WORD: cqReadWord(p, pDef, pVal, pOut); break;
    case CQ_T_INT:  cqReadInt(p, pDef, pVal, pOut);  break;
    default:        break;
  }
  if( (pDef->mFlag & CQ_A_NOW) && p->rc==SQLITE_OK ){
    p->iNow = pOut->i;
    p->bNow = 1;
  }
}

/**************************************************************************
** Options: trailing name, value pairs
*/

static int cqOptionCounts(const CqArgDef *pDef, int mVerb){
  return mVerb==0 || (pDef->mVerb & mVerb)!=0;
}

/*
** Raise bad_argument with the list of valid option names.
*/
static void cqBadOption(
  CqOp *p, const CqArgDef *aDef, int nDef, int mVerb, const char *zWhat
){
  char *zList = sqlite3_mprintf("");
  int i;
  for(i=0; i<nDef && zList; i++){
    if( cqOptionCounts(&aDef[i], mVerb) ){
      zList = sqlite3_mprintf("%z%s%s", zList, zList[0] ? ", " : "",
                              aDef[i].zName);
    }
  }
  if( zList==0 ) p->rc = SQLITE_NOMEM;
  claimqFail(p, CQ_BAD_ARGUMENT, "%s; valid options are: %s", zWhat, zList);
  sqlite3_free(zList);
}

/*
** The definition that the option name pName means, or -1 with an error.
*/
static int cqFindOption(
  CqOp *p, const CqArgDef *aDef, int nDef, int mVerb, sqlite3_value *pName
){
  int i;
  CqText name = {0, 0};
  char *zWhat;
  if( sqlite3_value_type(pName)==SQLITE_TEXT ){
    name = claimqValueText(p, pName);
  }
  for(i=0; i<nDef && name.z; i++){
    if( cqOptionCounts(&aDef[i], mVerb)
     && claimqTextEq(claimqStr(aDef[i].zName), name)
    ){
      return i;
    }
  }
  zWhat = name.z
     ? sqlite3_mprintf("unknown option '%.*s'", claimqShown(name), name.z)
     : sqlite3_mprintf("an option's name must be text");
  if( zWhat==0 ) p->rc = SQLITE_NOMEM;
  cqBadOption(p, aDef, nDef, mVerb, zWhat);
  sqlite3_free(zWhat);
  return -1;
}

CQ_PRIV void claimqReadOptions(
  CqOp *p, const CqArgDef *aDef, int nDef, int mVerb,
  int nVal, sqlite3_value **apVal, CqVal *aOut
){
  int i;
  for(i=0; i<nDef; i++){
    claimqRead(p, &aDef[i], 0, &aOut[i]);
  }
  for(i=0; i<nVal && p->rc==SQLITE_OK; i+=2){
    int iDef = cqFindOption(p, aDef, nDef, mVerb, apVal[i]);
    if( iDef<0 ) break;
    if( i+1>=nVal ){
      cqBadOption(p, aDef, nDef, mVerb, "the last option has no value");
    }else if( aOut[iDef].pVal ){
      claimqFail(p, CQ_BAD_ARGUMENT, "option %s is given twice",
                 aDef[iDef].zName);
    }else{
      claimqRead(p, &aDef[iDef], apVal[i+1], &aOut[iDef]);
    }
  }
}

CQ_PRIV i64 claimqDueAt(CqOp *p, const CqVal *pAt, const CqVal *pDelay){
  if( pAt->bGiven && pDelay->bGiven ){
    claimqFail(p, CQ_BAD_ARGUMENT,
               "give available_at_ms or delay_ms, not both");
    return 0;
  }
  if( p->rc ) return 0;           /* The values may be wrong ones */
  if( pAt->bGiven ) return pAt->i;
  return claimqAddSat(claimqNow(p), pDelay->bGiven ? pDelay->i : 0);
}

/**************************************************************************
** Lists of keys
*/

CQ_PRIV void claimqIdsAdd(CqOp *p, CqIds *pIds, i64 iId){
  if( p->rc ) return;
  if( pIds->n>=pIds->nAlloc ){
    int nNew = pIds->nAlloc ? pIds->nAlloc*2 : 16;
    i64 *aNew = claimqRealloc(p, pIds->a, nNew*(i64)sizeof(i64));
    if( aNew==0 ) return;
    pIds->a = aNew;
    pIds->nAlloc = nNew;
  }
  pIds->a[pIds->n++] = iId;
}

CQ_PRIV void claimqIdsClear(CqIds *pIds){
  sqlite3_free(pIds->a);
  memset(pIds, 0, sizeof(*pIds));
}
