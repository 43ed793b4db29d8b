/*
** claimq_func.c: the scalar functions.
**
** A function is a CqFuncDef: a name, its number of arguments, what it may do,
** and the code.  Disciplines and verbs bring their own; the pure ones of SPEC
** section 5 are here:
**
**     SELECT claimq_claim_id(7, 3);           -- qwc:7:3
**     SELECT claimq_sha256('abc');            -- ba7816bf...
**     SELECT claimq_capable('["gpu"]', '["cpu","gpu"]');    -- 1
**
** Every call passes through cqFuncCall(), so that argument counts, read-only
** databases, last_insert_rowid() and errors are treated the same.
*/
#include "claimq_int.h"

typedef struct CqFunc CqFunc;     /* User data of a registered function */
struct CqFunc {
  CqConn *pConn;
  const CqFuncDef *pDef;
};

static void cqFuncFree(void *pArg){
  CqFunc *p = (CqFunc*)pArg;
  claimqConnUnref(p->pConn);
  sqlite3_free(p);
}

static void cqFuncCall(
  sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  CqFunc *pFunc = (CqFunc*)sqlite3_user_data(pCtx);
  const CqFuncDef *pDef = pFunc->pDef;
  sqlite3_int64 iLast = 0;
  CqOp op;
  claimqOpInit(&op, pFunc->pConn);
  if( nVal<pDef->nMin || (pDef->nMax>=0 && nVal>pDef->nMax) ){
    claimqFail(&op, CQ_BAD_ARGUMENT, "wrong number of arguments: %s%s",
               pDef->zName, pDef->zUsage);
  }else{
    int bKeep = pDef->eKind==CQ_F_WRITE || pDef->eKind==CQ_F_INIT;
    if( bKeep ) iLast = sqlite3_last_insert_rowid(op.db);
    if( pDef->eKind==CQ_F_WRITE || pDef->eKind==CQ_F_INSERT ){
      claimqCheckWritable(&op);
    }
    if( op.rc==SQLITE_OK ) pDef->xFunc(&op, pCtx, nVal, apVal);
    if( bKeep ) sqlite3_set_last_insert_rowid(op.db, iLast);
  }
  claimqOpResult(&op, pCtx);
  claimqOpClear(&op);
}

static int cqFuncAdd(CqConn *pConn, const CqFuncDef *pDef){
  int mFlag = SQLITE_UTF8;
  CqFunc *p = sqlite3_malloc(sizeof(*p));
  if( p==0 ) return SQLITE_NOMEM;
  p->pConn = pConn;
  p->pDef = pDef;
  claimqConnRef(pConn);
  if( pDef->eKind==CQ_F_PURE ) mFlag |= SQLITE_DETERMINISTIC|SQLITE_INNOCUOUS;
  if( pDef->eKind>=CQ_F_WRITE ) mFlag |= SQLITE_DIRECTONLY;
  return sqlite3_create_function_v2(pConn->db, pDef->zName, -1, mFlag, p,
                                    cqFuncCall, 0, 0, cqFuncFree);
}

/**************************************************************************
** The pure functions
*/

/* Readers for their arguments. */
static CqText cqFuncText(
  CqOp *p, const char *zName, sqlite3_value *pVal, int mFlag
){
  CqArgDef def = { 0, CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 };
  CqVal v;
  def.zName = zName;
  def.mFlag = (u8)mFlag;
  claimqRead(p, &def, pVal, &v);
  return v.t;
}

static i64 cqFuncInt(CqOp *p, const char *zName, sqlite3_value *pVal){
  CqArgDef def = { 0, CQ_T_INT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0 };
  CqVal v;
  def.zName = zName;
  claimqRead(p, &def, pVal, &v);
  return v.i;
}

static void cqVersionFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  (void)p; (void)nVal; (void)apVal;
  sqlite3_result_text(pCtx, CLAIMQ_VERSION, -1, SQLITE_STATIC);
}

/*
** Text and blobs by their bytes, numbers by their text; NULL gives NULL.
*/
static void cqSha256Func(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  int eType = sqlite3_value_type(apVal[0]);
  char zHex[65];
  CqSha256 sha;
  const void *z;
  int n;
  (void)nVal;
  if( eType==SQLITE_NULL ) return;
  z = eType==SQLITE_BLOB ? sqlite3_value_blob(apVal[0])
                         : (const void*)sqlite3_value_text(apVal[0]);
  n = sqlite3_value_bytes(apVal[0]);
  if( z==0 && (n>0 || eType!=SQLITE_BLOB) ){
    p->rc = SQLITE_NOMEM;
    return;
  }
  claimqSha256Init(&sha);
  claimqSha256Update(&sha, z, (size_t)n);
  claimqSha256Hex(&sha, zHex);
  sqlite3_result_text(pCtx, zHex, 64, SQLITE_TRANSIENT);
}

static void cqClaimIdFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  char zId[CQ_CLAIM_ID_SZ];
  i64 iSeq = cqFuncInt(p, "seq", apVal[0]);
  i64 iFence = cqFuncInt(p, "fence", apVal[1]);
  (void)nVal;
  if( p->rc ) return;
  claimqClaimId("qwc", iSeq, iFence, zId);
  sqlite3_result_text(pCtx, zId, -1, SQLITE_TRANSIENT);
}

static void cqLeaseTokenFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  char zToken[CQ_TOKEN_SZ];
  CqText scope = cqFuncText(p, "scope", apVal[0], CQ_A_REQUIRED);
  CqText owner = cqFuncText(p, "owner", apVal[1], CQ_A_REQUIRED);
  CqText inc = cqFuncText(p, "incarnation", apVal[2], CQ_A_REQUIRED);
  CqText claim = cqFuncText(p, "claim_id", apVal[3], CQ_A_REQUIRED);
  i64 iNow = cqFuncInt(p, "now_ms", apVal[4]);
  (void)nVal;
  if( p->rc ) return;
  claimqLeaseToken(scope, owner, inc, claim, iNow, zToken);
  sqlite3_result_text(pCtx, zToken, -1, SQLITE_TRANSIENT);
}

static void cqBatchIdFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  char zId[CQ_BATCH_ID_SZ];
  CqText session = cqFuncText(p, "session", apVal[0], CQ_A_REQUIRED);
  CqText key = cqFuncText(p, "source_key", apVal[1], 0);
  i64 iNow = cqFuncInt(p, "now_ms", apVal[2]);
  int bNonce = nVal>3 && sqlite3_value_type(apVal[3])!=SQLITE_NULL;
  i64 iNonce = bNonce ? cqFuncInt(p, "nonce", apVal[3]) : 0;
  if( p->rc ) return;
  claimqBatchId(session, key, iNow, bNonce ? &iNonce : 0, zId);
  sqlite3_result_text(pCtx, zId, -1, SQLITE_TRANSIENT);
}

static void cqScanLimitFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  i64 nMax = cqFuncInt(p, "max", apVal[0]);
  (void)nVal;
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCtx, claimqScanLimit(nMax));
}

static void cqCapableFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const char *const azName[] = { "required", "offered" };
  CqText a[2];
  int i;
  (void)nVal;
  for(i=0; i<2; i++){
    a[i] = cqFuncText(p, azName[i], apVal[i], CQ_A_REQUIRED);
    if( p->rc==SQLITE_OK && claimqCapsCheck(a[i])<0 ){
      claimqFail(p, CQ_BAD_ARGUMENT,
          "%s must be a JSON array of non-empty strings", azName[i]);
    }
  }
  if( p->rc==SQLITE_OK ) sqlite3_result_int(pCtx, claimqCapable(a[0], a[1]));
}

/*
** NAME-XXXXXX.  36 does not divide 256, but 252 = 7*36 does: bytes above are
** drawn again, so that all letters are equally likely.
*/
static void cqOwnerIdFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const char zLetter[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  CqText name = cqFuncText(p, "name", apVal[0], CQ_A_REQUIRED);
  char *z = claimqMalloc(p, (i64)name.n+8);
  int i;
  (void)nVal;
  if( z==0 ) return;
  memcpy(z, name.z, (size_t)name.n);
  z[name.n] = '-';
  for(i=0; i<6; ){
    u8 c;
    sqlite3_randomness(1, &c);
    if( c<252 ) z[name.n + 1 + i++] = zLetter[c%36];
  }
  sqlite3_result_text(pCtx, z, name.n+7, sqlite3_free);
}

/**************************************************************************
** claimq_select(candidates, boundary, max), claimq_select_command(candidates)
*/

/* Read one member "name": "word" into *pTarget. */
static void cqSelectWord(
  CqOp *p, const char *zName, CqText raw, const char *const *azWord, u8 *pe
){
  int i;
  for(i=0; azWord[i]; i++){
    if( claimqJsonEq(raw, claimqStr(azWord[i])) ){
      *pe = (u8)i;
      return;
    }
  }
  claimqFail(p, CQ_BAD_ARGUMENT, "candidates: unknown %s '%.*s'", zName,
             raw.n, raw.z);
}

/*
** Copy an unescaped merge key into *pzBuf, which the caller frees.
*/
static void cqSelectMerge(CqOp *p, CqText raw, CqCand *pCand, char **pzBuf){
  sqlite3_free(*pzBuf);
  *pzBuf = claimqMalloc(p, (i64)raw.n+1);
  if( *pzBuf==0 ) return;
  pCand->merge.n = claimqJsonText(raw, *pzBuf);
  pCand->merge.z = *pzBuf;
  if( !claimqMergeKeyOk(pCand->merge) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "candidates: unknown merge_key '%.*s'",
               raw.n, raw.z);
  }
}

/*
** Read one candidate object; members that are not given have their defaults.
*/
static void cqSelectCand(CqOp *p, CqJson *pJ, CqCand *pCand, char **pzBuf){
  int e;
  memset(pCand, 0, sizeof(*pCand));
  pCand->merge = claimqStr("never");
  while( p->rc==SQLITE_OK && (e = claimqJsonNext(pJ))==CQ_JSON_KEY ){
    CqText key = pJ->tok;
    if( claimqJsonNext(pJ)!=CQ_JSON_STRING ){
      claimqFail(p, CQ_BAD_ARGUMENT, "candidates: %.*s must be a string",
                 key.n, key.z);
    }else if( claimqJsonEq(key, claimqStr("work_class")) ){
      cqSelectWord(p, "work_class", pJ->tok, claimqWorkWords(), &pCand->eWork);
    }else if( claimqJsonEq(key, claimqStr("delivery_policy")) ){
      cqSelectWord(p, "delivery_policy", pJ->tok, claimqDeliveryWords(),
                   &pCand->eDelivery);
    }else if( claimqJsonEq(key, claimqStr("slot_policy")) ){
      cqSelectWord(p, "slot_policy", pJ->tok, claimqSlotWords(),
                   &pCand->eSlot);
    }else if( claimqJsonEq(key, claimqStr("merge_key")) ){
      cqSelectMerge(p, pJ->tok, pCand, pzBuf);
    }
  }
}

/*
** Offer all candidates of the array to pSel.  The whole array is read, so that
** a malformed one is told however little of it is taken.
*/
static void cqSelectRun(CqOp *p, CqText json, CqSelect *pSel){
  CqJson j;
  char *zHead = 0, *zBuf = 0;
  int e = CQ_JSON_ERROR, bOver = 0;
  claimqJsonInit(&j, json);
  if( claimqJsonNext(&j)==CQ_JSON_ARRAY ){
    while( p->rc==SQLITE_OK && (e = claimqJsonNext(&j))==CQ_JSON_OBJECT ){
      CqCand cand;
      cqSelectCand(p, &j, &cand, pSel->nTaken ? &zBuf : &zHead);
      if( p->rc==SQLITE_OK && !bOver ){
        bOver = !claimqSelectOffer(pSel, &cand) || pSel->bDone;
      }
    }
  }
  if( p->rc==SQLITE_OK
   && (e!=CQ_JSON_CLOSE || claimqJsonNext(&j)!=CQ_JSON_END)
  ){
    claimqFail(p, CQ_BAD_ARGUMENT,
               "candidates must be a JSON array of objects");
  }
  sqlite3_free(zHead);
  sqlite3_free(zBuf);
}

static void cqSelectFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqArgDef boundary = {
    "boundary", CQ_T_WORD, CQ_A_REQUIRED, 0, 0, 0, 0, 0, claimqBoundaryWords
  };
  CqSelect sel;
  CqVal v;
  CqText json = cqFuncText(p, "candidates", apVal[0], CQ_A_REQUIRED);
  i64 nMax;
  (void)nVal;
  claimqRead(p, &boundary, apVal[1], &v);
  nMax = cqFuncInt(p, "max", apVal[2]);
  claimqSelectInit(&sel, (int)v.i, CQ_TAKE_TURN, nMax);
  if( p->rc==SQLITE_OK ) cqSelectRun(p, json, &sel);
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCtx, sel.nTaken);
}

static void cqSelectCommandFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  CqSelect sel;
  CqText json = cqFuncText(p, "candidates", apVal[0], CQ_A_REQUIRED);
  (void)nVal;
  claimqSelectInit(&sel, CQ_BOUNDARY_IDLE, CQ_TAKE_COMMAND, 1);
  if( p->rc==SQLITE_OK ) cqSelectRun(p, json, &sel);
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCtx, sel.nTaken);
}

/**************************************************************************
** The origin of dead letters
*/

/*
** Write one value as JSON at z.  Returns the end.
*/
static char *cqOriginValue(CqOp *p, sqlite3_value *pVal, char *z){
  switch( sqlite3_value_type(pVal) ){
    case SQLITE_INTEGER:
      return z + claimqI64Text(sqlite3_value_int64(pVal), z);
    case SQLITE_TEXT:
      return claimqJsonWrite(claimqValueText(p, pVal), z);
    case SQLITE_NULL:
      memcpy(z, "null", 4);
      return z+4;
  }
  claimqFail(p, CQ_BAD_ARGUMENT, "an origin has integers and texts only");
  return z;
}

/*
** claimq_origin(name, value, ...) -> {"name":value, ...}, for triggers.  As
** json_object(), which older SQLites do not let a trigger call where
** trusted_schema is off.
*/
static void cqOriginFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  i64 nByte = 2;
  char *zOut, *z;
  int i;
  if( nVal%2 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "every name needs a value");
  }
  for(i=0; i<nVal; i++){
    nByte += 24;
    if( sqlite3_value_type(apVal[i])==SQLITE_TEXT ){
      nByte += 6*(i64)claimqValueText(p, apVal[i]).n;
    }
  }
  z = zOut = claimqMalloc(p, nByte);
  if( zOut==0 ) return;
  *z++ = '{';
  for(i=0; i<nVal; i++){
    z = cqOriginValue(p, apVal[i], z);
    *z++ = i%2==0 ? ':' : i+1<nVal ? ',' : '}';
  }
  if( p->rc ) sqlite3_free(zOut);
  else sqlite3_result_text64(pCtx, zOut, (sqlite3_uint64)(z-zOut),
                             sqlite3_free, SQLITE_UTF8);
}

/*
** claimq_init() -> schema version.  Also a good moment to create the claim
** tables in temp, if that was not possible when the extension was loaded.
*/
static void cqInitFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  (void)nVal; (void)apVal;
  claimqSchemaInit(p);
  if( p->rc ) return;
  sqlite3_result_int(pCtx, CLAIMQ_SCHEMA_VERSION);
}

static int cqFuncAddAll(CqConn *pConn, const CqFuncDef *aDef, int nDef){
  int i, rc = SQLITE_OK;
  for(i=0; i<nDef && rc==SQLITE_OK; i++){
    rc = cqFuncAdd(pConn, &aDef[i]);
  }
  return rc;
}

CQ_PRIV int claimqFuncRegister(CqConn *pConn){
  static const CqFuncDef aFunc[] = {
    { "claimq_version", "()", 0, 0, CQ_F_PURE, cqVersionFunc },
    { "claimq_init", "()", 0, 0, CQ_F_INIT, cqInitFunc },
    { "claimq_sha256", "(value)", 1, 1, CQ_F_PURE, cqSha256Func },
    { "claimq_claim_id", "(seq, fence)", 2, 2, CQ_F_PURE, cqClaimIdFunc },
    { "claimq_lease_token",
      "(scope, owner, incarnation, claim_id, now_ms)", 5, 5,
      CQ_F_PURE, cqLeaseTokenFunc },
    { "claimq_batch_id", "(session, source_key, now_ms [, nonce])", 3, 4,
      CQ_F_PURE, cqBatchIdFunc },
    { "claimq_scan_limit", "(max)", 1, 1, CQ_F_PURE, cqScanLimitFunc },
    { "claimq_select", "(candidates, boundary, max)", 3, 3,
      CQ_F_PURE, cqSelectFunc },
    { "claimq_select_command", "(candidates)", 1, 1,
      CQ_F_PURE, cqSelectCommandFunc },
    { "claimq_capable", "(required, offered)", 2, 2,
      CQ_F_PURE, cqCapableFunc },
    { "claimq_origin", "(name, value, ...)", 2, -1, CQ_F_PURE, cqOriginFunc },
    { "claimq_owner_id", "(name)", 1, 1, CQ_F_READ, cqOwnerIdFunc },
    { "claimq_vacuum", "([option, value]...)", 0, -1,
      CQ_F_WRITE, claimqVacuumFunc },
  };
  const CqFuncDef *aVerb;
  const CqDiscipline *pD;
  int i, n, rc;
  rc = cqFuncAddAll(pConn, aFunc, (int)(sizeof(aFunc)/sizeof(aFunc[0])));
  aVerb = claimqVerbFuncs(&n);
  if( rc==SQLITE_OK ) rc = cqFuncAddAll(pConn, aVerb, n);
  aVerb = claimqWaitFuncs(&n);
  if( rc==SQLITE_OK ) rc = cqFuncAddAll(pConn, aVerb, n);
  for(i=0; rc==SQLITE_OK && (pD = claimqDiscipline(i))!=0; i++){
    rc = cqFuncAddAll(pConn, pD->aFunc, pD->nFunc);
  }
  return rc;
}
