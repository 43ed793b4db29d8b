/*
** func.c: the scalar functions.
**
** A function is a CqFuncDef: a name, its arguments and options, what it may do,
** and the code.  Engine and disciplines bring their own; the pure ones, for
** tests and for other implementations of the same rules, are here:
**
**     SELECT claimq_claim_id(7, 3);           -- qwc:7:3
**     SELECT claimq_sha256('abc');            -- ba7816bf...
**     SELECT claimq_capable('["gpu"]', '["cpu","gpu"]');    -- 1
**
** Every call passes through cqFuncCall(), so that arguments, databases that
** cannot be written, last_insert_rowid() and errors are treated the same.
*/
#include "claimq_int.h"

typedef struct CqFunc CqFunc;     /* User data of a registered function */
struct CqFunc {
  CqConn *pConn;
  const CqFuncDef *pDef;
  CqVal aDefault[1];              /* Of pDef->aOpt[]; there are pDef->nOpt */
};

static void cqFuncFree(void *pArg){
  CqFunc *p = (CqFunc*)pArg;
  claimqConnUnref(p->pConn);
  sqlite3_free(p);
}

/*
** How the function is called: "(lane, payload [, option, value]...)".  The
** caller frees; 0 if there is no memory.
*/
static char *cqFuncUsage(const CqFuncDef *pDef){
  int bPairs = pDef->nOpt>0 || pDef->bRest;
  char *z = sqlite3_mprintf("(");
  int i;
  assert( pDef->nMin>0 || pDef->nArg==0 );
  for(i=0; i<pDef->nArg && z; i++){
    z = sqlite3_mprintf("%z%s%s%s", z, i==pDef->nMin ? " [" : "",
        i ? ", " : "", pDef->aArg[i].zName);
  }
  if( z && pDef->nArg>pDef->nMin ) z = sqlite3_mprintf("%z]", z);
  if( z && bPairs ){
    z = sqlite3_mprintf("%z%s", z, pDef->nArg ? " [, option, value]..."
                                             : "[option, value]...");
  }
  return z ? sqlite3_mprintf("%z)", z) : 0;
}

/*
** Count the arguments and read them by their definitions.  Raises bad_argument
** or too_large.  (That the defaults are known already saves 1 % of a submit.)
*/
static void cqFuncRead(CqOp *p, const CqFunc *pFunc, CqCall *pCall){
  const CqFuncDef *pDef = pCall->pDef;
  int i, nPos = pCall->nVal<pDef->nArg ? pCall->nVal : pDef->nArg;
  if( pDef->nOpt && !pDef->bRest && nPos>pDef->nMin
   && (pCall->nVal-pDef->nMin)%2==0
   && sqlite3_value_type(pCall->apVal[pDef->nMin])==SQLITE_TEXT
  ){
    nPos = pDef->nMin;            /* Only pairs follow */
  }
  if( pCall->nVal<pDef->nMin
   || (pCall->nVal>pDef->nArg && pDef->nOpt==0 && !pDef->bRest)
  ){
    char *zUsage = cqFuncUsage(pDef);
    if( zUsage==0 ) p->rc = SQLITE_NOMEM;
    claimqFail(p, CQ_BAD_ARGUMENT, "wrong number of arguments: %s%s",
               pDef->zName, zUsage);
    sqlite3_free(zUsage);
  }
  for(i=0; i<pDef->nArg && p->rc==SQLITE_OK; i++){
    claimqRead(p, &pDef->aArg[i], i<nPos ? pCall->apVal[i] : 0,
               &pCall->aArg[i]);
  }
  if( pDef->nOpt && !pDef->bRest ){
    assert( pFunc->pDef==pDef && pDef->nOpt<=CQ_MAX_OPT );
    pCall->aOpt = pFunc->aDefault;
    if( pCall->nVal>nPos ){
      memcpy(pCall->aGiven, pFunc->aDefault, (size_t)pDef->nOpt*sizeof(CqVal));
      claimqReadOptions(p, pDef->aOpt, pDef->nOpt, 0, pCall->nVal-nPos,
                        &pCall->apVal[nPos], pCall->aGiven);
      pCall->aOpt = pCall->aGiven;
    }
  }
}

/*
** May the function write, here and now?  Raises read_only, unsupported or
** nested_write if not.
*/
static void cqFuncWrite(CqOp *p, const CqFuncDef *pDef){
  assert( pDef->eKind>=CQ_F_WRITE && !p->bFilter );
  p->bWrite = 1;
  if( pDef->eKind==CQ_F_INIT ) return;
  claimqCheckWritable(p);
  if( pDef->eKind!=CQ_F_FENCE ) claimqCheckNested(p, pDef->zName);
}

/*
** Is it the call of a list: JSON, and options in pairs after it?  (What such
** functions have else is a claim id, which begins with a letter, a token, and
** pairs.)
*/
static int cqFuncIsList(int nVal, sqlite3_value **apVal){
  const char *z = 0;
  if( nVal%2 && sqlite3_value_type(apVal[0])==SQLITE_TEXT ){
    z = (const char*)sqlite3_value_text(apVal[0]);
  }
  return z && z[strspn(z, " \t\n\r")]=='[';
}

/*
** xFunc of every function.
*/
static void cqFuncCall(
  sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  CqFunc *pFunc = (CqFunc*)sqlite3_user_data(pCtx);
  const CqFuncDef *pDef = pFunc->pDef;
  int bWrite = pDef->eKind>=CQ_F_WRITE && pDef->eKind!=CQ_F_GUARD;
  int bKeep = bWrite && pDef->eKind!=CQ_F_INSERT;
  sqlite3_int64 iLast = 0;
  CqCall call;
  CqOp op;
  claimqOpInit(&op, pFunc->pConn);
  if( pDef->pList && cqFuncIsList(nVal, apVal) ) pDef = pDef->pList;
  call.pDef = pDef;
  call.pCtx = pCtx;
  call.nVal = nVal;
  call.apVal = apVal;
  cqFuncRead(&op, pFunc, &call);
  if( bKeep ) iLast = sqlite3_last_insert_rowid(op.db);
  if( bWrite ) cqFuncWrite(&op, pDef);
  claimqRequestCall(&op, &call);
  if( op.rc==SQLITE_OK ){
    int bGate = bWrite && pDef->eKind!=CQ_F_INIT && claimqGateEnter(op.pConn);
    pDef->xFunc(&op, &call);
    if( bGate ) claimqGateLeave(op.pConn, CQ_CALL_OTHER);
  }
  claimqRequestEnd(&op);
  if( bKeep && sqlite3_last_insert_rowid(op.db)!=iLast ){
    sqlite3_set_last_insert_rowid(op.db, iLast);
  }
  claimqOpResult(&op, pCtx);
  claimqOpClear(&op);
}

/*
** xFunc of the functions that stand in statements of claimq's own, and take
** what they are given as it is (bPlain).  That they do without the rest saves
** 1 % of an enqueue for each.
*/
static void cqFuncPlain(
  sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  CqFunc *pFunc = (CqFunc*)sqlite3_user_data(pCtx);
  CqCall call;
  CqOp op;
  if( nVal!=pFunc->pDef->nArg ){
    cqFuncCall(pCtx, nVal, apVal);        /* Raises bad_argument */
    return;
  }
  assert( pFunc->pDef->nOpt==0 && (pFunc->pDef->eKind==CQ_F_READ
       || pFunc->pDef->eKind==CQ_F_GUARD) );
  claimqOpInit(&op, pFunc->pConn);
  call.pDef = pFunc->pDef;
  call.pCtx = pCtx;
  call.nVal = nVal;
  call.apVal = apVal;
  call.pDef->xFunc(&op, &call);
  claimqOpResult(&op, pCtx);
  claimqOpClear(&op);
}

/*
** Register one function for nArg arguments, -1: any number.  Returns an SQLite
** code.
*/
static int cqFuncAddFor(CqConn *pConn, const CqFuncDef *pDef, int nArg){
  int mFlag = SQLITE_UTF8;
  CqFunc *p = sqlite3_malloc64(sizeof(*p)
                               + (size_t)pDef->nOpt*sizeof(p->aDefault[0]));
  if( p==0 ) return SQLITE_NOMEM;
  claimqOptionDefaults(pDef->aOpt, pDef->nOpt, p->aDefault);
  assert( pDef->nArg<=CQ_MAX_ARG && pDef->nMin<=pDef->nArg+pDef->bRest*99 );
  p->pConn = pConn;
  p->pDef = pDef;
  claimqConnRef(pConn);
  if( pDef->eKind==CQ_F_PURE ){
    mFlag |= SQLITE_INNOCUOUS;
    if( pDef->nPure==0 || pDef->nPure==nArg ) mFlag |= SQLITE_DETERMINISTIC;
  }
  if( pDef->eKind==CQ_F_GUARD ) mFlag |= SQLITE_INNOCUOUS;
  else if( pDef->eKind>=CQ_F_WAIT ) mFlag |= SQLITE_DIRECTONLY;
  return sqlite3_create_function_v2(pConn->db, pDef->zName, nArg, mFlag, p,
      pDef->xSql ? pDef->xSql : pDef->bPlain ? cqFuncPlain : cqFuncCall, 0, 0,
      cqFuncFree);
}

/*
** Register one function.  Returns an SQLite code.
*/
static int cqFuncAdd(CqConn *pConn, const CqFuncDef *pDef){
  int rc = cqFuncAddFor(pConn, pDef, -1);
  if( rc==SQLITE_OK && pDef->nPure ){
    rc = cqFuncAddFor(pConn, pDef, pDef->nPure);
  }
  return rc;
}

/**************************************************************************
** The pure functions
*/
static void cqVersionFunc(CqOp *p, CqCall *pCall){
  (void)p;
  sqlite3_result_text(pCall->pCtx, CLAIMQ_VERSION, -1, SQLITE_STATIC);
}

/*
** Text and blobs by their bytes, numbers by their text; NULL gives NULL.
*/
static void cqSha256Func(CqOp *p, CqCall *pCall){
  sqlite3_value *pVal = pCall->apVal[0];
  int eType = sqlite3_value_type(pVal);
  char zHex[65];
  CqSha256 sha;
  const void *z;
  int n;
  if( eType==SQLITE_NULL ) return;
  z = eType==SQLITE_BLOB ? sqlite3_value_blob(pVal)
                         : (const void*)sqlite3_value_text(pVal);
  n = sqlite3_value_bytes(pVal);
  if( z==0 && eType!=SQLITE_BLOB ){
    p->rc = SQLITE_NOMEM;
    return;
  }
  claimqSha256Init(&sha);
  claimqSha256Update(&sha, z, (size_t)n);
  claimqSha256Hex(&sha, zHex);
  sqlite3_result_text(pCall->pCtx, zHex, 64, SQLITE_TRANSIENT);
}
static const CqArgDef cqSha256Arg[] = {
  { CQ_ARG(ANY, "value"),
    .zDoc = "a text or a BLOB" },
};

/*
** claimq_claim_id(seq, fence)
*/
static void cqClaimIdFunc(CqOp *p, CqCall *pCall){
  char zId[CQ_CLAIM_ID_SZ];
  (void)p;
  claimqClaimId("qwc", pCall->aArg[0].i, pCall->aArg[1].i, zId);
  sqlite3_result_text(pCall->pCtx, zId, -1, SQLITE_TRANSIENT);
}
static const CqArgDef cqClaimIdArg[] = {
  { CQ_ARG(INT, "seq"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the enqueue_seq of the first batch" },
  { CQ_ARG(INT, "fence"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the fencing token of the claim" },
};

/*
** claimq_lease_token(scope, owner, incarnation, claim_id, now_ms)
*/
static void cqLeaseTokenFunc(CqOp *p, CqCall *pCall){
  const CqVal *a = pCall->aArg;
  char zToken[CQ_TOKEN_SZ];
  (void)p;
  claimqLeaseToken(a[0].t, a[1].t, a[2].t, a[3].t, a[4].i, zToken);
  sqlite3_result_text(pCall->pCtx, zToken, -1, SQLITE_TRANSIENT);
}
static const CqArgDef cqLeaseTokenArg[] = {
  { CQ_ARG(TEXT, "scope"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "session, lane, queue or label" },
  { CQ_ARG(TEXT, "owner"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "who claims" },
  { CQ_ARG(TEXT, "incarnation"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "which run of the owner" },
  { CQ_ARG(TEXT, "claim_id"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the id of the claim" },
  { CQ_ARG(INT, "now_ms"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the time of the claim" },
};

/*
** claimq_batch_id(session, source_key, now_ms [, nonce])
*/
static void cqBatchIdFunc(CqOp *p, CqCall *pCall){
  const CqVal *a = pCall->aArg;
  char zId[CQ_BATCH_ID_SZ];
  (void)p;
  claimqBatchId(a[0].t, a[1].t, a[2].i, a[3].bGiven ? &a[3].i : 0, zId);
  sqlite3_result_text(pCall->pCtx, zId, -1, SQLITE_TRANSIENT);
}
static const CqArgDef cqBatchIdArg[] = {
  { CQ_ARG(TEXT, "session"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "which session" },
  { CQ_ARG(TEXT, "source_key"),
    .zDoc = "the source key of the batch, if it has one" },
  { CQ_ARG(INT, "now_ms"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the time at which it is enqueued" },
  { CQ_ARG(INT, "nonce"),
    .zDoc = "a number that tells batches of one time apart" },
};

static void cqScanLimitFunc(CqOp *p, CqCall *pCall){
  (void)p;
  sqlite3_result_int64(pCall->pCtx, claimqScanLimit(pCall->aArg[0].i));
}
static const CqArgDef cqScanLimitArg[] = {
  { CQ_ARG(INT, "max"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the max of a claim" },
};

/*
** Both lists are checked; the offered one is taken apart, and the required one
** held against it.
*/
static void cqCapableFunc(CqOp *p, CqCall *pCall){
  CqText offered = pCall->aArg[1].t;
  CqText *aItem;
  int i, n = 0;
  for(i=0; i<2; i++){
    n = claimqCapsCheck(pCall->aArg[i].t);
    if( n<0 ){
      claimqFail(p, CQ_BAD_ARGUMENT,
          "%s must be a JSON array of non-empty strings",
          pCall->pDef->aArg[i].zName);
      return;
    }
  }
  aItem = claimqMalloc(p, (n+1)*(i64)sizeof(CqText) + offered.n);
  if( aItem==0 ) return;
  n = claimqCapsSplit(offered, aItem, (char*)&aItem[n+1]);
  sqlite3_result_int(pCall->pCtx,
                     claimqCapsMeet(pCall->aArg[0].t, aItem, n));
  sqlite3_free(aItem);
}
static const CqArgDef cqCapableArg[] = {
  { CQ_ARG(TEXT, "required"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "what the job requires, a JSON array of strings" },
  { CQ_ARG(TEXT, "offered"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "what the worker can do, a JSON array of strings" },
};

/*
** NAME-XXXXXX.  36 does not divide 256, but 252 = 7*36 does: bytes above are
** drawn again, so that all letters are equally likely.
*/
static void cqOwnerIdFunc(CqOp *p, CqCall *pCall){
  static const char zLetter[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  CqText name = pCall->aArg[0].t;
  char *z = claimqMalloc(p, (i64)name.n+8);
  int i;
  if( z==0 ) return;
  memcpy(z, name.z, (size_t)name.n);
  z[name.n] = '-';
  for(i=0; i<6; ){
    u8 c;
    sqlite3_randomness(1, &c);
    if( c<252 ) z[name.n + 1 + i++] = zLetter[c%36];
  }
  sqlite3_result_text(pCall->pCtx, z, name.n+7, sqlite3_free);
}
static const CqArgDef cqOwnerIdArg[] = {
  { CQ_ARG(TEXT, "name"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "what the name begins with" },
};

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
** A member that plays no part: a whole number that is not negative, or a key
** that no candidate has, which raises bad_argument.
*/
static void cqSelectOther(CqOp *p, CqText key, CqText value, int eToken){
  i64 i;
  if( claimqJsonEq(key, claimqStr("enqueue_seq"))
   || claimqJsonEq(key, claimqStr("claim_fencing_token"))
  ){
    if( eToken!=CQ_JSON_NUMBER || !claimqJsonInt(value, &i) || i<0 ){
      claimqFail(p, CQ_BAD_ARGUMENT, "candidates: %.*s must be an integer "
                 ">= 0", key.n, key.z);
    }
  }else{
    claimqFail(p, CQ_BAD_ARGUMENT, "candidates: unknown key '%.*s'; valid keys "
        "are: enqueue_seq, work_class, delivery_policy, slot_policy, "
        "merge_key, claim_fencing_token", claimqShown(key), key.z);
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
    int bWord = claimqJsonEq(key, claimqStr("work_class"))
             || claimqJsonEq(key, claimqStr("delivery_policy"))
             || claimqJsonEq(key, claimqStr("slot_policy"))
             || claimqJsonEq(key, claimqStr("merge_key"));
    e = claimqJsonNext(pJ);
    if( !bWord ){
      cqSelectOther(p, key, pJ->tok, e);
    }else if( e!=CQ_JSON_STRING ){
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
    }else{
      cqSelectMerge(p, pJ->tok, pCand, pzBuf);
    }
  }
}

/*
** Offer all candidates of the array to pSel.  The whole array is read, so that
** a malformed one is refused however little of it is taken.
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

/*
** claimq_select(candidates, boundary, max) -> how many of them one claim takes.
*/
static void cqSelectFunc(CqOp *p, CqCall *pCall){
  const CqVal *a = pCall->aArg;
  CqSelect sel;
  claimqSelectInit(&sel, (int)a[1].i, CQ_TAKE_TURN, a[2].i);
  cqSelectRun(p, a[0].t, &sel);
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCall->pCtx, sel.nTaken);
}
static const CqArgDef cqSelectArg[] = {
  { CQ_ARG(TEXT, "candidates"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "the batches of a session in order, a JSON array" },
  { CQ_ARG(WORD, "boundary"), .mFlag = CQ_A_REQUIRED,
    .xWords = claimqBoundaryWords,
    .zDoc = "where the session's turn stands" },
  { CQ_ARG(INT, "max"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "at most this many batches" },
};

/*
** The same of a claim of commands: one, if a command comes first; else none.
*/
static void cqSelectCommandFunc(CqOp *p, CqCall *pCall){
  CqSelect sel;
  claimqSelectInit(&sel, CQ_BOUNDARY_IDLE, CQ_TAKE_COMMAND, 1);
  cqSelectRun(p, pCall->aArg[0].t, &sel);
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCall->pCtx, sel.nTaken);
}

/**************************************************************************
** Help for statements of claimq's own
*/

/*
** claimq__note(where, value) -> value: hands a value out of an INSERT, where
** RETURNING would take longer than all the rest.  where is a pointer that
** claimq has bound, to an i64, which gets the value or counts the calls; or to
** a CqMaker, which makes a text of the value, and that is the result.  Called
** by anybody else the function does nothing.
*/
static void cqNoteFunc(CqOp *p, CqCall *pCall){
  sqlite3_value *pVal = pCall->apVal[1];
  i64 *pi = (i64*)sqlite3_value_pointer(pCall->apVal[0], CQ_NOTE_TYPE);
  CqMaker *pMaker = pi ? 0
      : (CqMaker*)sqlite3_value_pointer(pCall->apVal[0], CQ_MAKER_TYPE);
  (void)p;
  if( pi ){
    *pi = sqlite3_value_int64(pVal);
  }else if( pMaker==0 ){
    pi = (i64*)sqlite3_value_pointer(pCall->apVal[0], CQ_WROTE_TYPE);
    if( pi ) ++*pi;
  }
  if( pMaker ){
    const char *z = pMaker->xMake(pMaker, sqlite3_value_int64(pVal));
    assert( z && z[0] );
    sqlite3_result_text(pCall->pCtx, z, -1, SQLITE_STATIC);
  }else{
    sqlite3_result_value(pCall->pCtx, pVal);
  }
}
static const CqArgDef cqNoteArg[] = {
  { CQ_ARG(ANY, "where") },
  { CQ_ARG(ANY, "value") },
};

/*
** claimq__clock(op [, ms]) -> the time of op, and ms more.  It stands in
** statements that write without having read anything before: when SQLite calls
** it the statement has waited for its lock, and the clock is read after that,
** once for all that the call writes.
**
** The first one in a statement raises what claimqCheckClock() does.
*/
static void cqClockSql(
  sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  CqOp *pOp = nVal<1 ? 0
            : (CqOp*)sqlite3_value_pointer(apVal[0], CQ_CLOCK_TYPE);
  if( pOp==0 ){
    cqFuncCall(pCtx, nVal, apVal);        /* Somebody else's statement */
  }else if( pOp->pClock==0 || claimqCheckClock(pOp, pCtx) ){
    sqlite3_result_int64(pCtx, nVal==1 ? pOp->iNow
        : claimqAddSat(pOp->iNow, sqlite3_value_int64(apVal[1])));
  }
}

/*
** Called by anybody else it answers with its first argument.
*/
static void cqClockFunc(CqOp *p, CqCall *pCall){
  (void)p;
  sqlite3_result_value(pCall->pCtx, pCall->apVal[0]);
}
static const CqArgDef cqClockArg[] = {
  { CQ_ARG(ANY, "op") },
  { CQ_ARG(ANY, "ms") },
};

/**************************************************************************
** Registration
*/

/* A function with nMin arguments that must be given. */
#define CQ_FUNC(NAME, KIND, NMIN, ARGS, FUNC, DOC) \
  { .zName = NAME, .zDoc = DOC, .eKind = KIND, .nMin = NMIN, .aArg = ARGS, \
    .nArg = CQ_ARRAYSIZE(ARGS), .xFunc = FUNC }

/*
** The functions of this file.
*/
static const CqFuncDef *cqFuncOwn(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_version", .eKind = CQ_F_PURE, .xFunc = cqVersionFunc,
      .zDoc = "the release of claimq" },
    CQ_FUNC("claimq_sha256", CQ_F_PURE, 1, cqSha256Arg, cqSha256Func,
            "SHA-256 in hex"),
    CQ_FUNC("claimq_claim_id", CQ_F_PURE, 2, cqClaimIdArg, cqClaimIdFunc,
            "the id of a session's claim"),
    CQ_FUNC("claimq_lease_token", CQ_F_PURE, 5, cqLeaseTokenArg,
            cqLeaseTokenFunc, "the token of a lease"),
    CQ_FUNC("claimq_batch_id", CQ_F_PURE, 3, cqBatchIdArg, cqBatchIdFunc,
            "the id of a batch"),
    CQ_FUNC("claimq_scan_limit", CQ_F_PURE, 1, cqScanLimitArg,
            cqScanLimitFunc, "max + 32"),
    CQ_FUNC("claimq_select", CQ_F_PURE, 3, cqSelectArg, cqSelectFunc,
            "how many candidates a claim of turn work takes"),
    { .zName = "claimq_select_command", .eKind = CQ_F_PURE, .nMin = 1,
      .aArg = cqSelectArg, .nArg = 1, .xFunc = cqSelectCommandFunc,
      .zDoc = "how many candidates a claim of a command takes" },
    CQ_FUNC("claimq_capable", CQ_F_PURE, 2, cqCapableArg, cqCapableFunc,
            "are all required capabilities offered?"),
    CQ_FUNC("claimq_owner_id", CQ_F_READ, 1, cqOwnerIdArg, cqOwnerIdFunc,
            "a name that nobody else has"),
    { .zName = "claimq__clock", .zDoc = "for statements of claimq's own",
      .eKind = CQ_F_READ, .nMin = 1, .aArg = cqClockArg,
      .nArg = 2, .xFunc = cqClockFunc, .xSql = cqClockSql },
    { .zName = "claimq__note", .zDoc = "for statements of claimq's own",
      .eKind = CQ_F_READ, .bPlain = 1, .nMin = 2, .aArg = cqNoteArg,
      .nArg = 2, .xFunc = cqNoteFunc },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}

/*
** The i-th list of functions: those of this file, of the engine, of each
** discipline.  0 past the last.
*/
CQ_PRIV const CqFuncDef *claimqFuncList(int i, int *pnFunc){
  const CqDiscipline *pD;
  switch( i ){
    case 0: return cqFuncOwn(pnFunc);
    case 1: return claimqVerbFuncs(pnFunc);
    case 2: return claimqVacuumFuncs(pnFunc);
    case 3: return claimqOriginFuncs(pnFunc);
    case 4: return claimqSchemaFuncs(pnFunc);
    case 5: return claimqScheduleFuncs(pnFunc);
    case 6: return claimqRestoreFuncs(pnFunc);
    case 7: return claimqWaitFuncs(pnFunc);
    case 8: return claimqSeeFuncs(pnFunc);
    case 9: return claimqTxnFuncs(pnFunc);
    case 10: return claimqStepFuncs(pnFunc);
  }
  pD = claimqDiscipline(i-11);
  if( pD==0 ) return 0;
  *pnFunc = pD->nFunc;
  return pD->aFunc;
}

/*
** Register all functions with a connection.  Returns an SQLite code.
*/
CQ_PRIV int claimqFuncRegister(CqConn *pConn){
  const CqFuncDef *aDef;
  int i, j, n, rc = SQLITE_OK;
  for(i=0; rc==SQLITE_OK && (aDef = claimqFuncList(i, &n))!=0; i++){
    for(j=0; j<n && rc==SQLITE_OK; j++) rc = cqFuncAdd(pConn, &aDef[j]);
  }
  return rc;
}
