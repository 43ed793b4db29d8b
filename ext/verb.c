/*
** verb.c: the verb engine: the five verbs and guard, and cancel.
**
**     SELECT claimq_complete('qwc:7:3', :token, 'batch_ids', '["qwb:..."]');
**
** The life of a verb, the same for every discipline:
**
**     1.  Read the arguments, find the discipline by the prefix of the claim
**         id, read the options that this verb has there.
**     2.  The usual case in one step: renew and complete of a claim of one row
**         that is there are one UPDATE or DELETE that names key, claim id and
**         token (CqDiscipline.aFast).  It brings 7 % of a claim and its
**         complete.  If it changes nothing, the rest decides, and says why.
**     3.  Load: find the head row, and the others of a claim of several rows;
**         judge what the claim holds; let the discipline decide what the verb
**         writes (xDecide).
**     4.  Apply: the discipline's statement for the verb, bound by name.
**
** A verb acts on all rows of its claim or on none.  It writes to a claim of
** several rows without having counted them, and is undone if one was missing.
*/
#include "claimq_int.h"

static const CqArgDef cqVerbArg[] = {
  { CQ_ARG(TEXT, "claim_id"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "as the claim gave it" },
  { CQ_ARG(TEXT, "lease_token"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "as the claim gave it" },
};
static const CqArgDef cqRenewArg[] = {
  { CQ_ARG(TEXT, "claim_id"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "as the claim gave it" },
  { CQ_ARG(TEXT, "lease_token"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "as the claim gave it" },
  { CQ_ARG(INT, "ttl_ms"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "how long the lease lasts from now on" },
};
static const CqArgDef cqReasonArg[] = {
  { CQ_ARG(TEXT, "claim_id"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "as the claim gave it" },
  { CQ_ARG(TEXT, "lease_token"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "as the claim gave it" },
  { CQ_ARG(TEXT, "reason"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "why it failed" },
};

/* Options that verbs have in every discipline; its own follow. */
#define CQ_VO_NOW   0
#define CQ_VO_DELAY 1
#define CQ_VO_N     3
static const CqArgDef cqVerbOpt[CQ_VO_N] = {
  { CQ_ARG(INT, "now_ms"), .eRole = CQ_ROLE_NOW,
    .mVerb = 1<<CQ_RENEW|1<<CQ_COMPLETE|1<<CQ_RELEASE|1<<CQ_RETRY|1<<CQ_REJECT,
    .zDoc = "the time of the call; the clock if not given" },
  { CQ_ARG(INT, "delay_ms"), .mVerb = 1<<CQ_RELEASE|1<<CQ_RETRY,
    .zDoc = "nobody gets the work before so long" },
  { CQ_ARG(TEXT, "request"), .iMin = 1, .iMax = 255, .eRole = CQ_ROLE_REQUEST,
    .mVerb = 1<<CQ_RENEW|1<<CQ_COMPLETE|1<<CQ_RELEASE|1<<CQ_RETRY|1<<CQ_REJECT,
    .zDoc = "makes the call safe to repeat" },
};

/*
** The options of verbs in every discipline (i==-1), or of discipline i alone;
** their number is *pnOpt.  0 past the last discipline.
*/
CQ_PRIV const CqArgDef *claimqVerbOptions(int i, int *pnOpt){
  static const CqArgDef none[1];
  const CqDiscipline *pD;
  *pnOpt = CQ_VO_N;
  if( i<0 ) return cqVerbOpt;
  pD = claimqDiscipline(i);
  if( pD==0 ) return 0;
  *pnOpt = pD->nOpt;
  return pD->nOpt ? pD->aOpt : none;
}

/**************************************************************************
** Arguments
*/

/*
** The discipline whose claim ids begin as id does; 0 with an error if there is
** none.  A malformed rest is not an error here: no such claim can exist, and
** that is what the verb will say.
*/
static const CqDiscipline *cqVerbDiscipline(CqOp *p, CqVerb *pV){
  const CqDiscipline *pD;
  int i;
  if( p->rc ) return 0;
  for(i=0; (pD = claimqDiscipline(i))!=0; i++){
    int n = (int)strlen(pD->zPrefix);
    if( pV->claimId.n>n && memcmp(pV->claimId.z, pD->zPrefix, (size_t)n)==0
     && pV->claimId.z[n]==':'
    ){
      if( !claimqClaimIdParse(pV->claimId, pD->zPrefix, &pV->iHead,
                              &pV->iFence) ){
        pV->iHead = pV->iFence = -1;
      }
      return pD;
    }
  }
  claimqFail(p, CQ_BAD_ARGUMENT, "claim_id must be the id of a claim, such as "
             "'qwc:7:1', got TEXT '%.*s'", claimqShown(pV->claimId),
             pV->claimId.z);
  return 0;
}

/*
** Read the options of this verb in this discipline into aOpt[]: the common
** ones first, then the discipline's own.
*/
static void cqVerbOptions(
  CqOp *p, CqVerb *pV, int nVal, sqlite3_value **apVal, CqVal *aOpt
){
  const CqDiscipline *pD = pV->pD;
  CqArgDef aDef[CQ_MAX_OPT];
  if( p->rc ) return;
  assert( CQ_VO_N+pD->nOpt<=CQ_MAX_OPT );
  claimqOptionDefaults(cqVerbOpt, CQ_VO_N, aOpt);
  claimqOptionDefaults(pD->aOpt, pD->nOpt, &aOpt[CQ_VO_N]);
  if( nVal>0 ){
    memcpy(aDef, cqVerbOpt, sizeof(cqVerbOpt));
    if( pD->nOpt ){
      memcpy(&aDef[CQ_VO_N], pD->aOpt, (size_t)pD->nOpt*sizeof(aDef[0]));
    }
    claimqReadOptions(p, aDef, CQ_VO_N+pD->nOpt, 1<<pV->eVerb, nVal, apVal,
                      aOpt);
  }
  pV->iDelay = aOpt[CQ_VO_DELAY].bGiven ? aOpt[CQ_VO_DELAY].i : -1;
  pV->aOpt = &aOpt[CQ_VO_N];
}

/*
** What follows the arguments by position.  claimq_renew() takes now_ms by
** position, too (bNow): with an even number of values the fourth is now_ms, and
** pairs follow it.
*/
static void cqVerbRest(CqOp *p, CqVerb *pV, CqCall *pCall, CqVal *aOpt){
  int iOpt = pCall->pDef->nArg;
  CqVal now;
  if( pCall->pDef->bNow && pCall->nVal%2==0 ) iOpt++;
  cqVerbOptions(p, pV, pCall->nVal-iOpt, &pCall->apVal[iOpt], aOpt);
  if( iOpt>pCall->pDef->nArg ){
    if( aOpt[CQ_VO_NOW].pVal ){
      claimqFail(p, CQ_BAD_ARGUMENT, "now_ms is given twice");
    }
    claimqRead(p, &cqVerbOpt[CQ_VO_NOW], pCall->apVal[iOpt-1], &now);
  }
  claimqRequestCall(p, pCall);
}

/**************************************************************************
** Load
*/

/*
** Judge what the claim of a verb holds.  pHead stands on the head row
** afterwards, if there is one; the caller gives it back.  Returns a CQ_HOLD_*
** verdict and raises claim_lost unless that is OK, or the verb is release, for
** which it is no error, or the discipline says that it is none.
*/
CQ_PRIV int claimqVerbHold(CqOp *p, CqVerb *pV, CqStmt *pHead){
  const CqDiscipline *pD = pV->pD;
  CqHold *pHold = &pV->hold;
  CqText other = {0, 0};
  int eVerdict;
  assert( pV->claimId.z && (pV->token.z || pV->eVerb==CQ_GUARD) );
  memset(pHold, 0, sizeof(*pHold));
  pHold->nSize = 1;
  *pHead = claimqStmt(p, pD->eHold);
  claimqBindCommonInt(p, pHead, CQ_P_head, pV->iHead);
  claimqBindCommonText(p, pHead, CQ_P_claim, pV->claimId);
  if( claimqStep(p, pHead) ){
    pHold->bHead = 1;
    pHold->nSize = claimqColInt(pHead, CQ_COL_HOLD_claim_size);
    pHold->iFence = pV->iFence;
    pHold->iLast = claimqColInt(pHead, CQ_COL_HOLD_fencing_token);
    other = claimqColText(p, pHead, CQ_COL_HOLD_claim_id);
    pHold->nRow = claimqTextEq(other, pV->claimId);
    pHold->nToken = pHold->nRow && claimqTextEq(
        claimqColText(p, pHead, CQ_COL_HOLD_lease_token), pV->token);
    if( pD->xMembers ) pD->xMembers(p, pV, pHead);
  }
  eVerdict = p->rc ? CQ_HOLD_UNKNOWN : claimqHoldVerdict(pHold);
  if( p->rc==SQLITE_OK && eVerdict!=CQ_HOLD_OK ){
    pV->task.iAnswer = 0;
    if( pV->eVerb!=CQ_REVOKE
     && (pV->eVerb!=CQ_RELEASE || eVerdict==CQ_HOLD_TOKEN)
     && !(pD->xLost && pD->xLost(p, pV, eVerdict, pHead))
    ){
      claimqLeaseLost(p, eVerdict, pV->claimId, other);
    }
  }
  return eVerdict;
}

/*
** What is usual, before the discipline decides: renew extends the lease, retry
** and release give the rows back, after a delay if one was given, and all rows
** must be there.
*/
static void cqVerbUsual(CqOp *p, CqVerb *pV){
  pV->eStmt = pV->pD->aSettle[pV->eVerb];
  pV->iUntil = -1;
  pV->task.iAnswer = pV->nExpect = pV->hold.nSize;
  pV->task.zWord = pV->eVerb==CQ_RETRY ? "retry"
              : pV->eVerb==CQ_REVOKE ? "revoked" : 0;
  if( pV->eVerb==CQ_RENEW ){
    pV->iUntil = pV->task.iAnswer = claimqAddSat(claimqClock(p), pV->iTtl);
  }else if( pV->iDelay>=0 ){
    pV->iUntil = claimqAddSat(claimqClock(p), pV->iDelay);
  }
}

/*
** revoke: find the claim that holds row iHead, and take its id and its token
** from there.  Returns 0 if there is none, or it is not the one that was named.
*/
static int cqRevokeFind(CqOp *p, CqVerb *pV){
  CqStmt head = claimqStmt(p, pV->pD->eHold);
  CqText id = {0, 0}, token = {0, 0};
  int bHead;
  claimqBindCommonInt(p, &head, CQ_P_head, pV->iHead);
  claimqBindCommonText(p, &head, CQ_P_claim, pV->claimId);
  bHead = claimqStep(p, &head);
  if( bHead ){
    id = claimqColText(p, &head, CQ_COL_HOLD_claim_id);
    token = claimqColText(p, &head, CQ_COL_HOLD_lease_token);
  }else if( p->rc==SQLITE_OK && pV->claimId.z==0 ){
    claimqFail(p, CQ_NOT_FOUND, "there is no job %lld", pV->iHead);
  }
  if( p->rc || id.z==0 || token.z==0
   || (pV->claimId.z && !claimqTextEq(id, pV->claimId))
  ){
    claimqStmtDone(p, &head);
    return 0;
  }
  assert( pV->eVerb==CQ_REVOKE );
  sqlite3_free(pV->zRevoked);
  pV->zRevoked = claimqMalloc(p, (i64)id.n+token.n+1);
  if( pV->zRevoked ){
    memcpy(pV->zRevoked, id.z, (size_t)id.n);
    memcpy(&pV->zRevoked[id.n], token.z, (size_t)token.n);
    pV->claimId.z = pV->zRevoked;
    pV->claimId.n = id.n;
    pV->token.z = &pV->zRevoked[id.n];
    pV->token.n = token.n;
  }
  claimqStmtDone(p, &head);
  return p->rc==SQLITE_OK;
}

/*
** Judge what the claim holds, and decide what the verb writes.  Raises
** claim_lost (see claimqVerbHold()), clock_required, and what the discipline's
** xDecide does.
*/
static void cqVerbLoad(CqOp *p, CqTask *pTask){
  CqVerb *pV = (CqVerb*)pTask;
  CqStmt head;
  if( pV->eVerb!=CQ_GUARD ) claimqNow(p);
  if( pV->eVerb==CQ_REVOKE ){
    pV->task.zWord = "no_active_lease";
    if( !cqRevokeFind(p, pV) ) return;
  }
  if( claimqVerbHold(p, pV, &head)==CQ_HOLD_OK && p->rc==SQLITE_OK ){
    cqVerbUsual(p, pV);
    pTask->eNeed = pV->eVerb==CQ_GUARD ? CQ_NEED_NOTHING
                 : pV->pD->xSettle ? CQ_NEED_MANY
                 : pV->hold.nSize>1 ? CQ_NEED_UNDO : CQ_NEED_ONE;
    if( pV->eVerb==CQ_GUARD ) pV->task.iAnswer = 1;
    if( pV->pD->xDecide ) pV->pD->xDecide(p, pV, &head);
  }
  claimqStmtDone(p, &head);
  if( pV->eVerb!=CQ_GUARD ) claimqNow(p);   /* The settings may be new ones */
}

/*
** Forget what was loaded; the arguments stay.  (revoke of a job: the claim id
** was loaded.)
*/
static void cqVerbForget(CqTask *pTask){
  CqVerb *pV = (CqVerb*)pTask;
  if( pV->pD->xVerbDone ) pV->pD->xVerbDone(pV);
  memset(&pV->own, 0, sizeof(pV->own));
  if( pV->bByKey ) pV->claimId.z = 0;
}

/**************************************************************************
** Apply
*/

/*
** Bind the common parameters of a verb's statement, those it has.
*/
CQ_PRIV void claimqVerbBind(CqOp *p, const CqVerb *pV, CqStmt *pStmt){
  int iUntil = claimqSql[pStmt->eStmt].aCommon[CQ_P_until];
  claimqBindCommonInt(p, pStmt, CQ_P_head, pV->iHead);
  claimqBindCommonText(p, pStmt, CQ_P_claim, pV->claimId);
  claimqBindCommonText(p, pStmt, CQ_P_token, pV->token);
  claimqBindNow(p, pStmt);
  claimqBindCommonText(p, pStmt, CQ_P_reason, pV->reason);
  if( iUntil && pV->iUntil>=0 ) claimqBindInt(p, pStmt, iUntil, pV->iUntil);
  else if( iUntil ) claimqBindNull(p, pStmt, iUntil);
}

/*
** Write what was decided.  Too few rows: one of the claim was displaced since
** it was loaded, or a trigger left it out.
*/
static void cqVerbApply(CqOp *p, CqTask *pTask){
  CqVerb *pV = (CqVerb*)pTask;
  CqStmt s;
  i64 n;
  if( pV->pD->xSettle && (pTask->eNeed==CQ_NEED_MANY || pV->eStmt<0) ){
    pV->pD->xSettle(p, pV);
    return;
  }
  assert( pV->eStmt>=0 && pV->hold.bHead && pV->eVerb!=CQ_GUARD );
  s = claimqStmt(p, pV->eStmt);
  claimqVerbBind(p, pV, &s);
  if( pV->pD->xBind ) pV->pD->xBind(p, pV, &s);
  n = claimqExec(p, &s);
  if( pV->nExpect>=0 && n!=pV->nExpect ) claimqStale(p, pTask);
}

/*
** The usual case in one step: 1 if it changed a row.  0 if it did not, if the
** verb has no such statement, and if op has an error.
*/
static int cqVerbFast(CqOp *p, CqVerb *pV){
  int eStmt = pV->pD->aFast[pV->eVerb];
  CqStmt s;
  assert( pV->eVerb>=0 && pV->eVerb<CQ_NVERB );
  if( p->rc || eStmt<0 || pV->bNoFast || p->pReq ) return 0;
  pV->hold.nSize = 1;
  cqVerbUsual(p, pV);
  s = claimqStmt(p, eStmt);
  claimqVerbBind(p, pV, &s);
  if( pV->pD->xBind ) pV->pD->xBind(p, pV, &s);
  return claimqExec(p, &s)>0;
}

/*
** All the verbs; pDef->iData says which.  guard only loads: it takes no lock.
*/
static void cqVerbFunc(CqOp *p, CqCall *pCall){
  CqVerb v;
  CqVal aOpt[CQ_MAX_OPT];
  memset(&v, 0, sizeof(v));
  v.task.xLoad = cqVerbLoad;
  v.task.xApply = cqVerbApply;
  v.task.xForget = cqVerbForget;
  v.task.zWhat = pCall->pDef->zName;
  v.eVerb = pCall->pDef->iData;
  v.claimId = pCall->aArg[0].t;
  v.token = pCall->aArg[1].t;
  if( v.eVerb==CQ_RENEW ) v.iTtl = pCall->aArg[2].i;
  if( v.eVerb==CQ_RETRY || v.eVerb==CQ_REJECT ) v.reason = pCall->aArg[2].t;
  v.pD = cqVerbDiscipline(p, &v);
  if( v.pD==0 ) return;
  cqVerbRest(p, &v, pCall, aOpt);
  if( v.pD->xVerbCheck ) v.pD->xVerbCheck(p, &v);
  if( !cqVerbFast(p, &v) && p->rc==SQLITE_OK ){
    if( v.eVerb==CQ_GUARD ) cqVerbLoad(p, &v.task);
    else claimqRun(p, &v.task);
  }
  if( v.pD->xVerbDone ) v.pD->xVerbDone(&v);
  claimqTaskResult(p, &v.task, pCall->pCtx);
}

/*
** 1 if the key of a revoke or cancel is a number, that is a job id; bindings
** that bind everything as TEXT write it as a decimal text.
*/
static int cqKeyIsInt(CqOp *p, sqlite3_value *pKey){
  int eKey = sqlite3_value_type(pKey);
  i64 iKey;
  return eKey==SQLITE_INTEGER || eKey==SQLITE_FLOAT
      || (eKey==SQLITE_TEXT && claimqI64Parse(claimqValueText(p, pKey), &iKey));
}

/*
** claimq_revoke(claim_id | job_id [, option, value]...): an operator displaces
** a holder now, without its token -> 'revoked', or 'no_active_lease'.
*/
static void cqRevokeFunc(CqOp *p, CqCall *pCall){
  static const CqArgDef claim = {
    CQ_ARG(TEXT, "claim_id"), .mFlag = CQ_A_REQUIRED
  };
  static const CqArgDef job = {
    CQ_ARG(INT, "job_id"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN
  };
  CqVal key;
  CqVerb v;
  int i;
  memset(&v, 0, sizeof(v));
  v.task.xLoad = cqVerbLoad;
  v.task.xApply = cqVerbApply;
  v.task.xForget = cqVerbForget;
  v.task.zWhat = pCall->pDef->zName;
  v.eVerb = CQ_REVOKE;
  v.iDelay = -1;
  v.bByKey = (u8)cqKeyIsInt(p, pCall->apVal[0]);
  claimqRead(p, v.bByKey ? &job : &claim, pCall->apVal[0], &key);
  if( v.bByKey ){
    v.iHead = key.i;
    for(i=0; (v.pD = claimqDiscipline(i))!=0; i++){
      if( v.pD->eCancel==CQ_T_INT ) break;
    }
  }else{
    v.claimId = key.t;
    v.pD = cqVerbDiscipline(p, &v);
  }
  if( v.pD==0 ) return;
  claimqRun(p, &v.task);
  if( v.pD->xVerbDone ) v.pD->xVerbDone(&v);
  sqlite3_free(v.zRevoked);
  claimqTaskResult(p, &v.task, pCall->pCtx);
}

/**************************************************************************
** claimq_cancel(key [, option, value]...): the type of the key says what is
** to be cancelled.
*/
#define CQ_CO_TEXT 1              /* mVerb of options, by type of the key */
#define CQ_CO_INT  2

static const CqArgDef cqCancelOpt[] = {
  { CQ_ARG(INT, "now_ms"), .eRole = CQ_ROLE_NOW,
    .mVerb = CQ_CO_TEXT|CQ_CO_INT,
    .zDoc = "the time of the call; the clock if not given" },
  { CQ_ARG(INT, "force"), .mVerb = CQ_CO_INT, .iMax = 1, .bDefault = 1,
    .zDoc = "1: cancel a job although a live claim holds it" },
  { CQ_ARG(TEXT, "request"), .iMin = 1, .iMax = 255, .eRole = CQ_ROLE_REQUEST,
    .mVerb = CQ_CO_TEXT|CQ_CO_INT,
    .zDoc = "makes the call safe to repeat" },
};
#define CQ_CO_FORCE 1

/*
** Ask the discipline whose work has keys of this type; it says what became of
** it.  Raises bad_argument for options that the type does not have.
*/
static void cqCancelFunc(CqOp *p, CqCall *pCall){
  static const CqArgDef batch = {
    CQ_ARG(TEXT, "batch_id"), .mFlag = CQ_A_REQUIRED
  };
  static const CqArgDef job = {
    CQ_ARG(INT, "job_id"), .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN
  };
  sqlite3_value *pKey = pCall->apVal[0];
  int bInt = cqKeyIsInt(p, pKey);
  const CqDiscipline *pD;
  CqVal key, aOpt[CQ_ARRAYSIZE(cqCancelOpt)];
  int i;
  claimqRead(p, bInt ? &job : &batch, pKey, &key);
  claimqOptionDefaults(cqCancelOpt, CQ_ARRAYSIZE(cqCancelOpt), aOpt);
  claimqReadOptions(p, cqCancelOpt, CQ_ARRAYSIZE(cqCancelOpt),
                    bInt ? CQ_CO_INT : CQ_CO_TEXT,
                    pCall->nVal-1, &pCall->apVal[1], aOpt);
  claimqRequestCall(p, pCall);
  for(i=0; p->rc==SQLITE_OK && (pD = claimqDiscipline(i))!=0; i++){
    if( pD->xCancel && pD->eCancel==(bInt ? CQ_T_INT : CQ_T_TEXT) ){
      pD->xCancel(p, &key, (int)aOpt[CQ_CO_FORCE].i, pCall->pCtx);
    }
  }
}

CQ_PRIV int claimqIsVerb(const CqFuncDef *pDef){
  return pDef->xFunc==cqVerbFunc;
}

#define CQ_VERB(NAME, ARGS, N, KIND, VERB, DOC) \
  { .zName = NAME, .zDoc = DOC, .eKind = KIND, .nMin = N, .bRest = 1, \
    .aArg = ARGS, .nArg = N, .xFunc = cqVerbFunc, .iData = VERB }

/*
** The definitions of the verbs, of claimq_revoke() and claimq_cancel().
*/
CQ_PRIV const CqFuncDef *claimqVerbFuncs(int *pnFunc){
  static const CqArgDef revokeArg[] = {
    { CQ_ARG(ANY, "key"), .zDoc = "a claim id, or the id of a job" },
  };
  static const CqArgDef revokeOpt[] = { CQ_ARG_NOW, CQ_ARG_REQUEST };
  static const CqArgDef cancelArg[] = {
    { CQ_ARG(ANY, "key"), .zDoc = "a batch id or a job id" },
  };
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_renew", .zDoc = "extend the lease",
      .eKind = CQ_F_WRITE, .nMin = 3, .bRest = 1, .bNow = 1,
      .aArg = cqRenewArg, .nArg = 3, .xFunc = cqVerbFunc, .iData = CQ_RENEW },
    CQ_VERB("claimq_complete", cqVerbArg, 2, CQ_F_WRITE, CQ_COMPLETE,
            "the work is done"),
    CQ_VERB("claimq_release", cqVerbArg, 2, CQ_F_WRITE, CQ_RELEASE,
            "give the work back unharmed"),
    CQ_VERB("claimq_retry", cqReasonArg, 3, CQ_F_WRITE, CQ_RETRY,
            "the attempt failed: try again"),
    CQ_VERB("claimq_reject", cqReasonArg, 3, CQ_F_WRITE, CQ_REJECT,
            "the work is bad: move it to the dead letters"),
    { .zName = "claimq_guard",
      .zDoc = "raise claim_lost unless the claim holds",
      .eKind = CQ_F_READ, .nMin = 2, .aArg = cqVerbArg, .nArg = 2,
      .xFunc = cqVerbFunc, .iData = CQ_GUARD },
    { .zName = "claimq_revoke", .zDoc = "displace a holder now",
      .eKind = CQ_F_WRITE, .nMin = 1, .aArg = revokeArg, .nArg = 1,
      .aOpt = revokeOpt, .nOpt = 2, .xFunc = cqRevokeFunc },
    { .zName = "claimq_cancel", .zDoc = "take work out of its queue",
      .eKind = CQ_F_WRITE, .nMin = 1, .bRest = 1, .aArg = cancelArg, .nArg = 1,
      .aOpt = cqCancelOpt, .nOpt = CQ_ARRAYSIZE(cqCancelOpt),
      .xFunc = cqCancelFunc },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
