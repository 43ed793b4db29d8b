/*
** letter.c: dead letters, the second chance for what failed.
**
**     SELECT claimq_reject(:claim_id, :lease_token, 'no such user');
**     SELECT letter_id, source, scope, payload, reason, claim_id
**       FROM claimq_dead_letter('session', NULL, 'admin');
**     -- 1|session|chat-1|hi|no such user|qdc:1:1
**     SELECT claimq_complete('qdc:1:1', :lease_token);   -- seen to: resolved
**     SELECT claimq_requeue(2);                          -- try it once more
**     -- qwb:9f3c...
**
** Letters are claimed like everything else: oldest first, one claim for the
** whole call.  complete resolves them, reject discards them, release and retry
** make them pending again.  Resolved and discarded letters stay as a record
** until claimq_vacuum() removes them.
**
** The column `attempts` of a claimed letter is the letter's own: the attempts
** of the work that failed, plus one for every retry of the letter.
**
** claimq_requeue() makes new work of a letter, with fresh attempts, and
** resolves the letter.  A letter that nobody has live can be requeued by
** anyone.  Who holds it says so with the options claim_id and lease_token; the
** claim then goes on with the letters that are left.  A source key is kept if
** it is free, else the new work has none.
*/
#include "claimq_int.h"

/* Columns of LETTER_BY_ID.  The first nine are the result's. */
#define CQ_DL_ID        0
#define CQ_DL_NCOL      9
#define CQ_DL_ATTEMPTS  9
#define CQ_DL_FENCE    10
#define CQ_DL_CLAIM    11
#define CQ_DL_COLS "letter_id:i source:t scope:t ref:b payload:b " \
  "payload_type:t created_at_ms:i failed_at_ms:i reason:t"

static const char *const *cqLetterWords(void){
  static const char *const az[] = { "session", "lane", "outbox", 0 };
  return az;
}

/**************************************************************************
** Claim
*/
typedef struct CqLetterClaim CqLetterClaim;
struct CqLetterClaim {
  CqText source, scope;           /* z==0: all */
  CqText owner, incarnation;
  i64 iTtl, nMax;
  CqLease lease;
  CqIds ids;                      /* Letters taken */
  CqRows *pRows;                  /* The same, for the caller */
};

/* Statements for all scopes, and for one. */
static const int cqLetterScan[] = {
  CQ_SQL_LETTER_ANY, CQ_SQL_LETTER_IN_SCOPE
};
static const int cqLetterDue[] = {
  CQ_SQL_LETTER_ANY_DUE, CQ_SQL_LETTER_IN_SCOPE_DUE
};
static const int cqLetterPromote[] = {
  CQ_SQL_LETTER_ANY_PROMOTE, CQ_SQL_LETTER_IN_SCOPE_PROMOTE
};

/*
** Take one of the statements above, bound; 0 if op has an error.
*/
static sqlite3_stmt *cqLetterStmt(
  CqOp *p, const CqLetterClaim *pC, const int *aStmt, i64 nMax, int *peStmt
){
  sqlite3_stmt *pStmt;
  *peStmt = aStmt[pC->scope.z!=0];
  pStmt = claimqStmt(p, *peStmt);
  claimqBindText(p, pStmt, 1, pC->source);
  claimqBindInt(p, pStmt, 2, claimqNow(p));
  if( pC->scope.z ) claimqBindText(p, pStmt, 3, pC->scope);
  claimqBindInt(p, pStmt, 4, nMax);
  return pStmt;
}

/*
** Add the letter that pRow stands on to the rows for the caller.  The first
** one is the head: the lease comes from it.
*/
static void cqLetterTake(CqOp *p, CqLetterClaim *pC, sqlite3_stmt *pRow){
  CqCell *a = claimqRowsAdd(p, pC->pRows);
  i64 iLetter = sqlite3_column_int64(pRow, CQ_DL_ID);
  claimqCellColumns(p, pC->pRows, a, pRow, CQ_DL_NCOL);
  claimqIdsAdd(p, &pC->ids, iLetter);
  if( p->rc ) return;
  if( pC->ids.n==1 ){
    claimqLeaseMake(&pC->lease, "qdc", iLetter,
        sqlite3_column_int64(pRow, CQ_DL_FENCE), claimqStr("dead_letter"),
        pC->owner, pC->incarnation, claimqNow(p), pC->iTtl);
  }
  claimqLeaseCells(p, pC->pRows, &a[CQ_DL_NCOL], &pC->lease,
      claimqColumnText(p, pRow, CQ_DL_CLAIM),
      sqlite3_column_int64(pRow, CQ_DL_ATTEMPTS));
}

/*
** 1 if so many letters have become due that they should be promoted.
*/
static int cqLetterDueMany(CqOp *p, const CqLetterClaim *pC){
  int eStmt, bMany;
  sqlite3_stmt *pStmt = cqLetterStmt(p, pC, cqLetterDue, CQ_DUE_FEW, &eStmt);
  bMany = claimqStep(p, pStmt) && sqlite3_column_int(pStmt, 0)>=CQ_DUE_FEW;
  claimqStmtDone(p, eStmt, pStmt);
  return bMany;
}

static void cqLetterLoad(CqOp *p, void *pCtx){
  CqLetterClaim *pC = (CqLetterClaim*)pCtx;
  sqlite3_stmt *pScan, *pRow;
  int eScan;
  if( pC->nMax==0 ) return;
  pScan = cqLetterStmt(p, pC, cqLetterScan, pC->nMax, &eScan);
  pRow = claimqStmt(p, CQ_SQL_LETTER_BY_ID);
  while( claimqStep(p, pScan) ){
    claimqBindInt(p, pRow, 1, sqlite3_column_int64(pScan, 0));
    if( claimqStep(p, pRow) ) cqLetterTake(p, pC, pRow);
    sqlite3_reset(pRow);
  }
  claimqStmtDone(p, CQ_SQL_LETTER_BY_ID, pRow);
  claimqStmtDone(p, eScan, pScan);
  if( pC->ids.n ) p->nWrite = 1 + cqLetterDueMany(p, pC);
}

/*
** Stamp the letters.  Promoting is upkeep, left out where only one write can
** be had.
*/
static void cqLetterApply(CqOp *p, void *pCtx){
  CqLetterClaim *pC = (CqLetterClaim*)pCtx;
  sqlite3_stmt *pStmt;
  int eStmt;
  if( p->nWrite>1 && !p->bAlone ){
    pStmt = cqLetterStmt(p, pC, cqLetterPromote, CQ_DUE_MOST, &eStmt);
    claimqExec(p, eStmt, pStmt);
  }
  pStmt = claimqStmt(p, CQ_SQL_LETTER_STAMP);
  claimqBindIds(p, pStmt, 1, &pC->ids);
  claimqLeaseBind(p, pStmt, 2, &pC->lease);
  claimqBindInt(p, pStmt, 8, pC->ids.n);
  claimqBindInt(p, pStmt, 9, pC->lease.iHead);
  claimqExec(p, CQ_SQL_LETTER_STAMP, pStmt);
}

/* Arguments of claimq_dead_letter(...), in this order. */
static const CqArgDef cqLetterArg[] = {
  { "source",      CQ_T_WORD, 0, 0, 0, 0, 0, 0, cqLetterWords },
  { "scope",       CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 },
  { "owner",       CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0 },
  { "ttl_ms",      CQ_T_INT,  0, 0, 30000, 0, 0, 0, 0 },
  { "max_letters", CQ_T_INT,  0, 0, 1, 0, 0, 0, 0 },
  { "incarnation", CQ_T_TEXT, 0, 0, 0, "", 0, 0, 0 },
  { "now_ms",      CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};

static void cqLetterFill(
  CqOp *p, const CqVal *aArg, i64 nLimit, CqRows *pRows
){
  static const CqTask task = { cqLetterLoad, cqLetterApply, 0 };
  CqLetterClaim c;
  memset(&c, 0, sizeof(c));
  if( aArg[0].bGiven ) c.source = aArg[0].t;
  c.scope = aArg[1].t;
  c.owner = aArg[2].t;
  c.iTtl = aArg[3].i;
  c.nMax = aArg[4].i<nLimit ? aArg[4].i : nLimit;
  c.incarnation = aArg[5].t;
  c.pRows = pRows;
  claimqRun(p, &task, &c);
  claimqIdsClear(&c.ids);
}

/**************************************************************************
** The verbs
*/
typedef struct CqLetterVerb CqLetterVerb;
struct CqLetterVerb {
  CqVerb *pVerb;
  CqIds ids;                      /* The claim's letters */
};

/*
** Count and collect the letters of the claim.
*/
static void cqLetterMembers(CqOp *p, CqLetterVerb *pV, CqHold *pHold){
  CqVerb *pVerb = pV->pVerb;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_LETTER_MEMBERS);
  claimqBindInt(p, pStmt, 1, pVerb->iHead);
  claimqBindText(p, pStmt, 2, pVerb->claimId);
  while( claimqStep(p, pStmt) ){
    CqText token = claimqColumnText(p, pStmt, 1);
    pHold->nSize = sqlite3_column_int64(pStmt, 2);
    pHold->nRow++;
    pHold->nToken += claimqTextEq(token, pVerb->token);
    claimqIdsAdd(p, &pV->ids, sqlite3_column_int64(pStmt, 0));
  }
  claimqStmtDone(p, CQ_SQL_LETTER_MEMBERS, pStmt);
}

/*
** What does the claim hold?  Returns a CQ_HOLD_* verdict and raises claim_lost
** unless it is OK, or the verb is release, for which that is no error.
*/
static int cqLetterHold(CqOp *p, CqLetterVerb *pV){
  CqVerb *pVerb = pV->pVerb;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_LETTER_HEAD);
  CqText other = {0, 0};
  CqHold hold;
  int eVerdict;
  memset(&hold, 0, sizeof(hold));
  cqLetterMembers(p, pV, &hold);
  claimqBindInt(p, pStmt, 1, pVerb->iHead);
  if( claimqStep(p, pStmt) ){
    hold.bHead = 1;
    other = claimqColumnText(p, pStmt, 0);
  }
  eVerdict = claimqLeaseVerdict(p, pVerb, &hold, other);
  claimqStmtDone(p, CQ_SQL_LETTER_HEAD, pStmt);
  return eVerdict;
}

static void cqLetterVerbLoad(CqOp *p, void *pCtx){
  CqLetterVerb *pV = (CqLetterVerb*)pCtx;
  int bOk = cqLetterHold(p, pV)==CQ_HOLD_OK;
  pV->pVerb->iResult = bOk ? pV->ids.n : 0;
  p->nWrite = bOk;
}

static void cqLetterVerbApply(CqOp *p, void *pCtx){
  static const int aStmt[] = {
    CQ_SQL_LETTER_RENEW, CQ_SQL_LETTER_RESOLVE, CQ_SQL_LETTER_RELEASE,
    CQ_SQL_LETTER_RETRY, CQ_SQL_LETTER_DISCARD
  };
  CqLetterVerb *pV = (CqLetterVerb*)pCtx;
  CqVerb *pVerb = pV->pVerb;
  sqlite3_stmt *pStmt = claimqStmt(p, aStmt[pVerb->eVerb]);
  claimqBindIds(p, pStmt, 1, &pV->ids);
  if( pVerb->eVerb==CQ_RENEW ){
    pVerb->iResult = claimqAddSat(claimqNow(p), pVerb->iTtl);
    claimqBindInt(p, pStmt, 2, pVerb->iResult);
  }else if( pVerb->iDelay>=0 ){
    claimqBindInt(p, pStmt, 2, claimqAddSat(claimqNow(p), pVerb->iDelay));
  }
  if( pVerb->reason.z ) claimqBindText(p, pStmt, 3, pVerb->reason);
  if( pVerb->eVerb==CQ_RETRY ) pVerb->zResult = "retry";
  claimqExec(p, aStmt[pVerb->eVerb], pStmt);
}

static void cqLetterVerbForget(void *pCtx){
  claimqIdsClear(&((CqLetterVerb*)pCtx)->ids);
}

static void cqLetterVerb(CqOp *p, CqVerb *pVerb){
  static const CqTask task = {
    cqLetterVerbLoad, cqLetterVerbApply, cqLetterVerbForget
  };
  CqLetterVerb v;
  memset(&v, 0, sizeof(v));
  v.pVerb = pVerb;
  claimqVerbRun(p, pVerb, &task, &v);
  cqLetterVerbForget(&v);
}

/**************************************************************************
** claimq_requeue(letter_id [, option, value]...) -> the key of the new work
*/

/* Where letters go back to, by source. */
typedef struct CqReturn CqReturn;
struct CqReturn {
  const char *zSource;
  int eStmt;                      /* Makes the work; returns its key */
  int eKey;                       /* ... or the rowid, for this one; -1 none */
  const char *azOrigin[20];       /* Members of origin, for ?3, ?4 ... */
};
static const CqReturn cqReturn[] = {
  { "session", CQ_SQL_LETTER_TO_SESSION, -1,
    { "source_key", "work_class", "delivery_policy", "slot_policy",
      "merge_key", 0 } },
  { "lane", CQ_SQL_LETTER_TO_LANE, -1,
    { "priority", "capabilities", "source_key", "max_attempts", "backoff_ms",
      "backoff_factor", "backoff_max_ms", "max_reclaims", "reclaim",
      "partition_key", "flow_id", "namespace", "instance_tag", 0 } },
  { "outbox", CQ_SQL_LETTER_TO_OUTBOX, CQ_SQL_LETTER_OUTBOX_SEQ,
    { "queue_name", "partition", 0 } },
};

#define CQ_RO_NOW   0
#define CQ_RO_CLAIM 1
#define CQ_RO_TOKEN 2
#define CQ_RO_N     3
static const CqArgDef cqRequeueOpt[CQ_RO_N] = {
  { "now_ms",      CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
  { "claim_id",    CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 },
  { "lease_token", CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 },
};

typedef struct CqRequeue CqRequeue;
struct CqRequeue {
  i64 iLetter;
  CqVerb claim;                   /* The caller's claim; claimId.z==0: none */
  const CqReturn *pReturn;
  char *zOrigin;                  /* The letter's origin; 0: it has none */
  int nOrigin;
  char *zKey;                     /* OUT: key of the new work, if text */
  i64 iKey;                       /* ... if not */
};

/*
** A copy of a text column, which the caller frees; 0 for NULL and on error.
*/
static char *cqLetterCopy(CqOp *p, sqlite3_stmt *pStmt, int iCol, int *pn){
  CqText t = claimqColumnText(p, pStmt, iCol);
  char *z = t.z ? claimqMalloc(p, (i64)t.n+1) : 0;
  if( z ) memcpy(z, t.z, (size_t)t.n);
  *pn = t.n;
  return z;
}

/*
** The caller says that it holds the letter: claim_lost if not.
*/
static void cqRequeueProve(CqOp *p, CqRequeue *pR){
  CqLetterVerb v;
  int i, bMine = 0;
  memset(&v, 0, sizeof(v));
  v.pVerb = &pR->claim;
  cqLetterHold(p, &v);
  for(i=0; i<v.ids.n; i++) bMine |= v.ids.a[i]==pR->iLetter;
  if( !bMine ){
    claimqFail(p, CQ_CLAIM_LOST, "claim %.*s does not hold letter %lld",
        pR->claim.claimId.n, pR->claim.claimId.z, pR->iLetter);
  }
  cqLetterVerbForget(&v);
}

/*
** May the letter be requeued?  Raises conflict or claim_lost if not.  pStmt
** stands on the row of LETTER_STATE.
*/
static void cqRequeueCheck(CqOp *p, CqRequeue *pR, sqlite3_stmt *pStmt){
  CqText status = claimqColumnText(p, pStmt, 1);
  CqText holder = claimqColumnText(p, pStmt, 3);
  if( p->rc ) return;
  if( claimqTextEq(status, claimqStr("resolved"))
   || claimqTextEq(status, claimqStr("discarded"))
  ){
    claimqFail(p, CQ_CONFLICT, "letter %lld is %.*s already", pR->iLetter,
               status.n, status.z);
  }else if( pR->claim.claimId.z ){
    cqRequeueProve(p, pR);
  }else if( sqlite3_column_int(pStmt, 4) ){
    claimqFail(p, CQ_CONFLICT, "letter %lld is held by claim %.*s until %lld: "
        "give its claim_id and lease_token, or wait", pR->iLetter, holder.n,
        holder.z, sqlite3_column_int64(pStmt, 5));
  }
}

static void cqRequeueLoad(CqOp *p, void *pCtx){
  CqRequeue *pR = (CqRequeue*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_LETTER_STATE);
  claimqBindInt(p, pStmt, 1, pR->iLetter);
  claimqBindInt(p, pStmt, 2, claimqNow(p));
  if( claimqStep(p, pStmt) ){
    CqText source = claimqColumnText(p, pStmt, 0);
    int i;
    cqRequeueCheck(p, pR, pStmt);
    pR->zOrigin = cqLetterCopy(p, pStmt, 2, &pR->nOrigin);
    for(i=0; i<(int)(sizeof(cqReturn)/sizeof(cqReturn[0])); i++){
      if( claimqTextEq(source, claimqStr(cqReturn[i].zSource)) ){
        pR->pReturn = &cqReturn[i];
      }
    }
    p->nWrite = 2;
    if( pR->pReturn==0 ){
      claimqFail(p, CQ_SCHEMA_MISMATCH, "letter %lld has a bad source: repair "
          "or delete it", pR->iLetter);
    }
  }else{
    claimqFail(p, CQ_NOT_FOUND, "there is no letter %lld", pR->iLetter);
  }
  claimqStmtDone(p, CQ_SQL_LETTER_STATE, pStmt);
}

static void cqRequeueForget(void *pCtx){
  CqRequeue *pR = (CqRequeue*)pCtx;
  sqlite3_free(pR->zOrigin);
  sqlite3_free(pR->zKey);
  pR->zOrigin = pR->zKey = 0;
}

/*
** The text of the array that pJ has just begun to read; z==0 if malformed.
*/
static CqText cqOriginArray(CqJson *pJ){
  CqText t;
  int iStart = pJ->i-1, nDepth = pJ->nDepth;
  t.z = &pJ->in.z[iStart];
  while( t.z && pJ->nDepth>=nDepth ){
    if( claimqJsonNext(pJ)==CQ_JSON_ERROR ) t.z = 0;
  }
  t.n = pJ->i-iStart;
  return t;
}

/*
** Bind one member of origin by its JSON type; arrays are bound as text.  pJ
** stands on the value; zBuf has room for any string in it.  Returns the bytes
** of zBuf used, or -1 for a value that no member can have.
*/
static int cqOriginBind(
  CqOp *p, sqlite3_stmt *pStmt, int i, CqJson *pJ, int eJson, char *zBuf
){
  CqText t = pJ->tok;
  i64 iVal;
  if( eJson==CQ_JSON_STRING ){
    t.n = claimqJsonText(pJ->tok, zBuf);
    t.z = zBuf;
    if( t.n<0 ) return -1;
    claimqBindText(p, pStmt, i, t);
    return t.n;
  }
  if( eJson==CQ_JSON_NUMBER ){
    if( !claimqJsonInt(pJ->tok, &iVal) ) return -1;
    claimqBindInt(p, pStmt, i, iVal);
    return 0;
  }
  if( eJson==CQ_JSON_ARRAY ){
    t = cqOriginArray(pJ);
    claimqBindText(p, pStmt, i, t);
    return t.z ? 0 : -1;
  }
  return eJson==CQ_JSON_WORD && claimqTextEq(t, claimqStr("null")) ? 0 : -1;
}

/*
** Which parameter is the origin's member `key`?  0 if none.
*/
static int cqOriginParam(const CqReturn *pReturn, CqText key){
  int i;
  for(i=0; pReturn->azOrigin[i]; i++){
    if( claimqJsonEq(key, claimqStr(pReturn->azOrigin[i])) ) return i+3;
  }
  return 0;
}

/*
** Bind what origin, a flat JSON object, says.  (Not json_extract(), which in
** older SQLite ends a string at its first NUL.)  zBuf has as many bytes as the
** origin and must stay until the statement is given back.  0 if malformed.
*/
static int cqOriginBindAll(
  CqOp *p, sqlite3_stmt *pStmt, const CqRequeue *pR, char *zBuf
){
  CqText origin;
  CqJson j;
  int e = CQ_JSON_ERROR, n = 0;
  origin.z = pR->zOrigin;
  origin.n = pR->nOrigin;
  if( origin.z==0 ) return 1;
  claimqJsonInit(&j, origin);
  if( claimqJsonNext(&j)!=CQ_JSON_OBJECT ) return 0;
  while( p->rc==SQLITE_OK && (e = claimqJsonNext(&j))==CQ_JSON_KEY ){
    int iParam = cqOriginParam(pR->pReturn, j.tok);
    if( iParam==0 ){
      if( !claimqJsonSkip(&j) ) return 0;
    }else{
      e = claimqJsonNext(&j);
      e = cqOriginBind(p, pStmt, iParam, &j, e, &zBuf[n]);
      if( e<0 ) return 0;
      n += e;
    }
  }
  return p->rc || (e==CQ_JSON_CLOSE && claimqJsonNext(&j)==CQ_JSON_END);
}

/*
** Run a statement whose first column is the key of the new work.  The key is
** copied now: when the work is committed nothing may fail any more.
*/
static void cqRequeueKey(
  CqOp *p, CqRequeue *pR, int eStmt, sqlite3_stmt *pStmt
){
  if( claimqStep(p, pStmt) ){
    int n;
    if( sqlite3_column_type(pStmt, 0)==SQLITE_TEXT ){
      pR->zKey = cqLetterCopy(p, pStmt, 0, &n);
    }else{
      pR->iKey = sqlite3_column_int64(pStmt, 0);
    }
  }
  claimqExec(p, eStmt, pStmt);
}

/*
** Make the new work.
*/
static void cqRequeueMake(CqOp *p, CqRequeue *pR){
  const CqReturn *pReturn = pR->pReturn;
  sqlite3_stmt *pStmt = claimqStmt(p, pReturn->eStmt);
  char *zBuf = claimqMalloc(p, (i64)pR->nOrigin+1);
  claimqBindInt(p, pStmt, 1, pR->iLetter);
  claimqBindInt(p, pStmt, 2, claimqNow(p));
  if( p->rc==SQLITE_OK && !cqOriginBindAll(p, pStmt, pR, zBuf) ){
    claimqFail(p, CQ_SCHEMA_MISMATCH, "the origin of letter %lld is not a "
        "JSON object of claimq's: repair it", pR->iLetter);
  }
  cqRequeueKey(p, pR, pReturn->eStmt, pStmt);
  sqlite3_free(zBuf);
  if( pReturn->eKey>=0 ){
    pStmt = claimqStmt(p, pReturn->eKey);
    claimqBindInt(p, pStmt, 1, pR->iKey);
    cqRequeueKey(p, pR, pReturn->eKey, pStmt);
  }
}

/*
** Work first, then the letter, then the rest of the claim, if the caller has
** one.
*/
static void cqRequeueApply(CqOp *p, void *pCtx){
  CqRequeue *pR = (CqRequeue*)pCtx;
  sqlite3_stmt *pStmt;
  claimqNeedScope(p, "claimq_requeue()");
  cqRequeueMake(p, pR);
  pStmt = claimqStmt(p, CQ_SQL_LETTER_REQUEUED);
  claimqBindInt(p, pStmt, 1, pR->iLetter);
  if( pR->zKey ) claimqBindText(p, pStmt, 2, claimqStr(pR->zKey));
  else claimqBindInt(p, pStmt, 2, pR->iKey);
  claimqExec(p, CQ_SQL_LETTER_REQUEUED, pStmt);
  if( pR->claim.claimId.z ){
    pStmt = claimqStmt(p, CQ_SQL_LETTER_SHRINK);
    claimqBindInt(p, pStmt, 1, pR->claim.iHead);
    claimqBindText(p, pStmt, 2, pR->claim.claimId);
    claimqExec(p, CQ_SQL_LETTER_SHRINK, pStmt);
  }
}

/*
** Options claim_id and lease_token, into pR->claim.
*/
static void cqRequeueClaim(CqOp *p, CqRequeue *pR, const CqVal *aOpt){
  CqVerb *pVerb = &pR->claim;
  if( p->rc ) return;
  pVerb->eVerb = CQ_GUARD;
  pVerb->claimId = aOpt[CQ_RO_CLAIM].t;
  pVerb->token = aOpt[CQ_RO_TOKEN].t;
  if( aOpt[CQ_RO_CLAIM].bGiven!=aOpt[CQ_RO_TOKEN].bGiven ){
    claimqFail(p, CQ_BAD_ARGUMENT, "give claim_id and lease_token together");
  }else if( pVerb->claimId.z
         && !claimqClaimIdParse(pVerb->claimId, "qdc", &pVerb->iHead,
                                &pVerb->iFence) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "claim_id must be the id of a claim of dead "
        "letters, such as 'qdc:7:1', got TEXT '%.*s'",
        claimqShown(pVerb->claimId), pVerb->claimId.z);
  }
}

static void cqRequeueFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqTask task = { cqRequeueLoad, cqRequeueApply, cqRequeueForget };
  static const CqArgDef letter = {
    "letter_id", CQ_T_INT, CQ_A_REQUIRED, 0, 0, 0, -CQ_I64_MAX, 0, 0
  };
  CqVal aOpt[CQ_RO_N], v;
  CqRequeue r;
  memset(&r, 0, sizeof(r));
  claimqRead(p, &letter, apVal[0], &v);
  claimqReadOptions(p, cqRequeueOpt, CQ_RO_N, 0, nVal-1, &apVal[1], aOpt);
  r.iLetter = v.i;
  cqRequeueClaim(p, &r, aOpt);
  claimqRun(p, &task, &r);
  if( p->rc==SQLITE_OK && r.zKey ){
    sqlite3_result_text(pCtx, r.zKey, -1, sqlite3_free);
    r.zKey = 0;
  }else if( p->rc==SQLITE_OK ){
    sqlite3_result_int64(pCtx, r.iKey);
  }
  cqRequeueForget(&r);
}

/**************************************************************************
** The descriptor
*/
CQ_PRIV const CqDiscipline *claimqLetterDiscipline(void){
  static const CqTableDef aTable[] = {
    { "claimq_dead_letter", CQ_DL_COLS, "letter_id", cqLetterArg,
      sizeof(cqLetterArg)/sizeof(cqLetterArg[0]), 1, 1, cqLetterFill },
  };
  static const CqFuncDef aFunc[] = {
    { "claimq_requeue", "(letter_id [, option, value]...)", 1, -1,
      CQ_F_WRITE, cqRequeueFunc },
  };
  static const CqDiscipline letter = {
    "letter", "qdc", aTable, sizeof(aTable)/sizeof(aTable[0]), 0, 0,
    aFunc, sizeof(aFunc)/sizeof(aFunc[0]), cqLetterVerb, 0, 0
  };
  return &letter;
}
