/*
** verb.c: the verb engine: the five verbs, guard and remaining, and cancel.
**
**     SELECT claimq_complete('qwc:7:3', :token, 'batch_ids', '["qwb:..."]');
**
** The life of a verb, the same for every discipline:
**
**     1.  Read the arguments, find the discipline by the prefix of the claim
**         id, read the options that this verb has there.
**     2.  The usual case in one step: a renew or complete of a claim of one row
**         is one UPDATE or DELETE that names key, claim id and token
**         (CqDiscipline.aFast).  This saves 7 % of a claim and its complete.
**         If it changes nothing, the following steps decide, and say why.
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
  { CQ_ARG(INT, "lease_ms"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "how long the lease lasts from now on, in ms" },
};
static const CqArgDef cqRemainingArg[] = {
  { CQ_ARG(TEXT, "claim_id"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "as the claim gave it" },
  { CQ_ARG(TEXT, "lease_token"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "as the claim gave it" },
  { CQ_ARG(INT, "headroom_ms"), .bDefault = 1,
    .zDoc = "time to keep in reserve, in ms" },
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
#define CQ_VO_DELAY 1
#define CQ_VO_N     3
static const CqArgDef cqVerbOpt[CQ_VO_N] = {
  { CQ_ARG(INT, "now_ms"), .eRole = CQ_ROLE_NOW,
    .mVerb = 1<<CQ_RENEW|1<<CQ_COMPLETE|1<<CQ_RELEASE|1<<CQ_RETRY|1<<CQ_REJECT
           |1<<CQ_GUARD,
    .zDoc = "the time of the call; the clock if not given" },
  { CQ_ARG(INT, "delay_ms"), .mVerb = 1<<CQ_RELEASE|1<<CQ_RETRY,
    .zDoc = "delay before the work can be claimed again, in ms" },
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
CQ_PRIV const CqDiscipline *claimqVerbDiscipline(CqOp *p, CqVerb *pV){
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
** The first two arguments of a verb, and the discipline of the claim: pD is 0
** with an error if it has none.
*/
CQ_PRIV void claimqVerbBegin(CqOp *p, CqVerb *pV, CqCall *pCall){
  pV->claimId = pCall->aArg[0].t;
  pV->token = pCall->aArg[1].t;
  pV->pD = claimqVerbDiscipline(p, pV);
}

/*
** Read the options of this verb in this discipline into aOpt[]: the common
** ones first, then the discipline's own.
*/
static void cqVerbOptions(CqOp *p, CqVerb *pV, CqCall *pCall, CqVal *aOpt){
  const CqDiscipline *pD = pV->pD;
  int nArg = pCall->pDef->nArg;
  CqArgDef aDef[CQ_MAX_OPT];
  assert( p->rc==SQLITE_OK );
  assert( CQ_VO_N+pD->nOpt<=CQ_MAX_OPT );
  claimqOptionDefaults(cqVerbOpt, CQ_VO_N, aOpt);
  claimqOptionDefaults(pD->aOpt, pD->nOpt, &aOpt[CQ_VO_N]);
  if( pCall->nVal>nArg ){
    memcpy(aDef, cqVerbOpt, sizeof(cqVerbOpt));
    if( pD->nOpt ){
      memcpy(&aDef[CQ_VO_N], pD->aOpt, (size_t)pD->nOpt*sizeof(aDef[0]));
    }
    claimqReadOptions(p, aDef, CQ_VO_N+pD->nOpt, 1<<pV->eVerb,
                      pCall->nVal-nArg, &pCall->apVal[nArg], aOpt);
  }
  pV->iDelay = aOpt[CQ_VO_DELAY].bGiven ? aOpt[CQ_VO_DELAY].i : -1;
  pV->aOpt = &aOpt[CQ_VO_N];
}

/**************************************************************************
** Load
*/

/*
** Judge what the claim of a verb holds.  pHead stands on the head row
** afterwards, if there is one; the caller gives it back.  Returns a CQ_HOLD_*
** verdict and raises claim_lost unless that is OK, or the verb is release, for
** which a lost claim is not an error, or the discipline says so.
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
    claimqStmtDoubt(p->pConn, pHead);
    pHold->bHead = 1;
    pHold->nSize = claimqColInt(pHead, CQ_COL_HOLD_claim_size);
    pHold->iFence = pV->iFence;
    pV->iExpires = claimqColInt(pHead, CQ_COL_HOLD_expires_at_ms);
    pHold->iLast = claimqColInt(pHead, CQ_COL_HOLD_fencing_token);
    other = claimqColText(p, pHead, CQ_COL_HOLD_claim_id);
    pHold->nRow = claimqTextEq(other, pV->claimId);
    pHold->nToken = pHold->nRow && claimqTextEq(
        claimqColText(p, pHead, CQ_COL_HOLD_lease_token), pV->token);
    if( pD->xMembers ) pD->xMembers(p, pV, pHead);
  }
  eVerdict = p->rc ? CQ_HOLD_UNKNOWN : claimqHoldVerdict(pHold);
  if( eVerdict==CQ_HOLD_OK && pV->eVerb!=CQ_REVOKE && pD->xExpired
   && pD->xExpired(p, pV, pHead)
  ){
    eVerdict = CQ_HOLD_EXPIRED;
  }
  if( p->rc==SQLITE_OK && eVerdict!=CQ_HOLD_OK ){
    pV->task.iAnswer = 0;
    if( pV->eVerb!=CQ_REVOKE
     && (pV->eVerb!=CQ_RELEASE || eVerdict==CQ_HOLD_TOKEN)
     && (pD->xLost==0 || !pD->xLost(p, pV, eVerdict, pHead))
    ){
      claimqLeaseLost(p, eVerdict, pV->claimId, other);
    }
  }
  return eVerdict;
}

/*
** What is usual, before the discipline decides: all rows must be there.
*/
static void cqVerbUsual(CqVerb *pV){
  pV->eStmt = pV->pD->aSettle[pV->eVerb];
  pV->iUntil = -1;
  pV->task.iAnswer = pV->nExpect = pV->hold.nSize;
  pV->task.zWord = pV->eVerb==CQ_RETRY ? "retry"
              : pV->eVerb==CQ_REVOKE ? "revoked" : 0;
}

/*
** Until when: renew extends the lease, retry and release give the rows back,
** after a delay if one was given.
*/
static void cqVerbUntil(CqOp *p, CqVerb *pV){
  if( pV->eVerb==CQ_RENEW ){
    pV->iUntil = pV->task.iAnswer = claimqAddSat(claimqClock(p), pV->iLease);
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
** 1 if the claim holds all its rows.  The caller need not give its token.
** Raises bad_argument if the id cannot be that of a claim.
*/
CQ_PRIV int claimqVerbHolds(CqOp *p, CqText claimId){
  CqStmt head;
  int bHolds = 0;
  CqVerb v;
  memset(&v, 0, sizeof(v));
  v.eVerb = CQ_REVOKE;
  v.claimId = claimId;
  v.pD = claimqVerbDiscipline(p, &v);
  if( v.pD==0 ) return 0;
  if( cqRevokeFind(p, &v) ){
    bHolds = claimqVerbHold(p, &v, &head)==CQ_HOLD_OK;
    claimqStmtDone(p, &head);
  }
  if( v.pD->xVerbDone ) v.pD->xVerbDone(&v);
  sqlite3_free(v.zRevoked);
  return bHolds;
}

/*
** Judge what the claim holds, and decide what the verb writes.  Raises
** claim_lost (see claimqVerbHold()), clock_required, and what the discipline's
** xDecide does.
*/
CQ_PRIV void claimqVerbLoad(CqOp *p, CqTask *pTask){
  CqVerb *pV = (CqVerb*)pTask;
  CqStmt head;
  if( pV->eVerb!=CQ_GUARD ) claimqNow(p);
  if( pV->eVerb==CQ_REVOKE ){
    pV->task.zWord = "no_active_lease";
    if( !cqRevokeFind(p, pV) ) return;
  }
  if( claimqVerbHold(p, pV, &head)==CQ_HOLD_OK && p->rc==SQLITE_OK ){
    cqVerbUsual(pV);
    cqVerbUntil(p, pV);
    pTask->eNeed = pV->eVerb==CQ_GUARD ? CQ_NEED_NOTHING
                 : pV->pD->xSettle ? CQ_NEED_MANY
                 : pV->hold.nSize>1 ? CQ_NEED_UNDO : CQ_NEED_ONE;
    if( pV->eVerb==CQ_GUARD ) pV->task.iAnswer = 1;
    if( CQ_HOOK(pV->pD->xDecide) ) pV->pD->xDecide(p, pV, &head);
    if( pV->bMore && pTask->eNeed==CQ_NEED_ONE ) pTask->eNeed = CQ_NEED_UNDO;
  }
  claimqStmtDone(p, &head);
  if( pV->eVerb!=CQ_GUARD ) claimqNow(p);   /* The settings may be new ones */
}

/*
** Forget what was loaded; the arguments stay.  (revoke of a job: the claim id
** was loaded.)
*/
CQ_PRIV void claimqVerbForget(CqTask *pTask){
  CqVerb *pV = (CqVerb*)pTask;
  if( pV->pD->xVerbDone ) pV->pD->xVerbDone(pV);
  memset(&pV->own, 0, sizeof(pV->own));
  pV->bMore = 0;
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
  claimqBindCommonInt(p, pStmt, CQ_P_lease, pV->iLease);
  claimqBindCommonText(p, pStmt, CQ_P_reason, pV->reason);
  if( iUntil && pV->iUntil>=0 ) claimqBindInt(p, pStmt, iUntil, pV->iUntil);
  else if( iUntil ) claimqBindNull(p, pStmt, iUntil);
}

/*
** Write what was decided.  If that changes too few rows, one row of the claim
** was displaced since it was loaded, or a trigger left it out.
*/
CQ_PRIV void claimqVerbApply(CqOp *p, CqTask *pTask){
  CqVerb *pV = (CqVerb*)pTask;
  CqStmt s;
  i64 n;
  if( pV->pD->xSettle && (pTask->eNeed==CQ_NEED_MANY || pV->eStmt<0) ){
    pV->pD->xSettle(p, pV);
    return;
  }
  assert( pV->eStmt>=0 && pV->hold.bHead && pV->eVerb!=CQ_GUARD );
  if( pV->bMore && pV->pD->xSettling ) pV->pD->xSettling(p, pV);
  s = claimqStmt(p, pV->eStmt);
  claimqVerbBind(p, pV, &s);
  if( pV->pD->xBind ) pV->pD->xBind(p, pV, &s);
  n = claimqExec(p, &s);
  if( n!=pV->nExpect ) claimqStale(p, pTask);
  if( pV->bMore && CQ_HOOK(pV->pD->xSettled) ) pV->pD->xSettled(p, pV);
}

/*
** The usual case in one step: 1 if it changed a row.  0 if it did not, if the
** verb has no such statement, and if op has an error.  The statement may wait
** for its lock, so it reads the clock itself, by {{NOW}}, and notices there if
** a setting does not fit it.
*/
static int cqVerbFast(CqOp *p, CqVerb *pV){
  int eStmt = pV->bFast ? pV->eFast : pV->pD->aFast[pV->eVerb];
  CqStmt s;
  i64 n;
  assert( pV->eVerb>=0 && pV->eVerb<CQ_NVERB );
  if( p->rc || eStmt<0 || pV->bNoFast || p->pReq
   || (p->pConn->mSettings & pV->mUnless)
  ){
    return 0;
  }
  pV->hold.nSize = 1;
  cqVerbUsual(pV);
  s = claimqStmt(p, eStmt);
  assert( p->rc || claimqSql[eStmt].aCommon[CQ_P_now]==0 );
  claimqVerbBind(p, pV, &s);
  if( pV->pD->xBind ) pV->pD->xBind(p, pV, &s);
  p->mUnless = pV->mUnless;
  n = claimqExec(p, &s);
  p->mUnless = 0;
  if( p->bUnless ) claimqOpReset(p);
  p->bUnless = 0;
  if( n==0 ) return 0;
  cqVerbUntil(p, pV);
  return 1;
}

/*
** Load and apply a verb, as part of another task.  Returns 1 if it has written.
*/
static int cqVerbInside(CqOp *p, CqVerb *pV){
  int bWrites;
  claimqVerbLoad(p, &pV->task);
  bWrites = p->rc==SQLITE_OK && pV->task.eNeed!=CQ_NEED_NOTHING;
  if( bWrites ) claimqVerbApply(p, &pV->task);
  return bWrites;
}

/*
** The option of complete that takes a result, or -1.
*/
CQ_PRIV int claimqVerbResult(const CqDiscipline *pD){
  int i;
  for(i=pD->nOpt-1; i>=0; i--){
    if( (pD->aOpt[i].mVerb & 1<<CQ_COMPLETE)
     && strcmp(pD->aOpt[i].zName, "result")==0
    ){
      break;
    }
  }
  return i;
}

/*
** Complete the claim that pV names (claimId, token, bLook; the rest is zero) as
** part of a task.  pResult is 0 unless the discipline has results.  Returns and
** raises what claimq_complete() does; with bLook nothing of the claim was
** written when it raises claim_lost.
*/
CQ_PRIV i64 claimqVerbComplete(
  CqOp *p, const CqTask *pTask, CqVerb *pV, sqlite3_value *pResult
){
  CqVal aOpt[CQ_MAX_OPT];
  pV->task.zWhat = pTask->zWhat;
  pV->task.bLocked = pTask->bLocked;
  pV->task.bAlone = pTask->bAlone;
  pV->eVerb = CQ_COMPLETE;
  pV->iDelay = -1;
  pV->pD = claimqVerbDiscipline(p, pV);
  if( CQ_NEVER(pV->pD==0) ) return 0;     /* claimqDoneNeed() has looked */
  claimqOptionDefaults(pV->pD->aOpt, pV->pD->nOpt, aOpt);
  pV->aOpt = aOpt;
  if( pResult ){
    CqVal *pVal = &aOpt[claimqVerbResult(pV->pD)];
    pVal->pVal = pResult;
    pVal->bGiven = 1;
  }
  if( pV->pD->xVerbCheck ) pV->pD->xVerbCheck(p, pV);
  if( !cqVerbFast(p, pV) && p->rc==SQLITE_OK ) cqVerbInside(p, pV);
  if( pV->pD->xVerbDone ) pV->pD->xVerbDone(pV);
  return pV->task.iAnswer;
}

/*
** All the verbs; pDef->iData says which.  guard only loads: it takes no lock.
*/
static void cqVerbFunc(CqOp *p, CqCall *pCall){
  CqVerb v;
  CqVal aOpt[CQ_MAX_OPT];
  memset(&v, 0, sizeof(v));
  v.task.xLoad = claimqVerbLoad;
  v.task.xApply = claimqVerbApply;
  v.task.xForget = claimqVerbForget;
  v.task.zWhat = pCall->pDef->zName;
  v.eVerb = pCall->pDef->iData;
  if( v.eVerb==CQ_RENEW ) v.iLease = pCall->aArg[2].i;
  if( v.eVerb==CQ_RETRY || v.eVerb==CQ_REJECT ) v.reason = pCall->aArg[2].t;
  claimqVerbBegin(p, &v, pCall);
  if( v.pD==0 ) return;
  cqVerbOptions(p, &v, pCall, aOpt);
  claimqRequestCall(p, pCall);
  if( v.pD->xVerbCheck ) v.pD->xVerbCheck(p, &v);
  if( !cqVerbFast(p, &v) && p->rc==SQLITE_OK ){
    if( v.eVerb==CQ_GUARD ) claimqVerbLoad(p, &v.task);
    else claimqRun(p, &v.task);
  }
  if( v.pD->xVerbDone ) v.pD->xVerbDone(&v);
  claimqTaskResult(p, &v.task, pCall->pCtx);
}

/*
** claimq_remaining(claim_id, lease_token [, headroom_ms]): what is left of the
** lease, less the headroom, and at least 0.  It is guard with another answer:
** it raises claim_lost where guard does, and takes no lock.
*/
static void cqRemainingFunc(CqOp *p, CqCall *pCall){
  CqVerb v;
  CqVal aOpt[CQ_MAX_OPT];
  i64 nLeft;
  memset(&v, 0, sizeof(v));
  v.task.zWhat = pCall->pDef->zName;
  v.eVerb = CQ_GUARD;
  v.iDelay = -1;
  v.claimId = pCall->aArg[0].t;
  v.token = pCall->aArg[1].t;
  v.pD = claimqVerbDiscipline(p, &v);
  if( v.pD==0 ) return;
  claimqOptionDefaults(v.pD->aOpt, v.pD->nOpt, aOpt);
  v.aOpt = aOpt;
  claimqVerbLoad(p, &v.task);
  if( v.pD->xVerbDone ) v.pD->xVerbDone(&v);
  nLeft = v.iExpires>claimqNow(p) ? v.iExpires-claimqNow(p) : 0;
  nLeft = nLeft>pCall->aArg[2].i ? nLeft-pCall->aArg[2].i : 0;
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCall->pCtx, nLeft);
}

/*
** 1 if the key of a revoke or cancel is a number, that is, a job id; drivers
** that bind everything as TEXT pass it as a decimal text.
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
  v.task.xLoad = claimqVerbLoad;
  v.task.xApply = claimqVerbApply;
  v.task.xForget = claimqVerbForget;
  v.task.zWhat = pCall->pDef->zName;
  v.eVerb = CQ_REVOKE;
  v.iDelay = -1;
  v.bByKey = (u8)cqKeyIsInt(p, pCall->apVal[0]);
  claimqRead(p, v.bByKey ? &job : &claim, pCall->apVal[0], &key);
  if( v.bByKey ){
    v.iHead = key.i;
    for(i=0; (v.pD = claimqDiscipline(i))->eCancel!=CQ_T_INT; i++){}
  }else{
    v.claimId = key.t;
    v.pD = claimqVerbDiscipline(p, &v);
  }
  if( v.pD==0 ) return;
  claimqRun(p, &v.task);
  if( v.pD->xVerbDone ) v.pD->xVerbDone(&v);
  sqlite3_free(v.zRevoked);
  claimqTaskResult(p, &v.task, pCall->pCtx);
}

/**************************************************************************
** claimq_revoke_owner(owner [, option, value]...): a worker that starts again
** frees what its earlier runs hold, in every discipline -> how many claims.
*/
#define CQ_RO_EXCEPT 0
#define CQ_RO_N      3
static const CqArgDef cqRevokeOwnerOpt[CQ_RO_N] = {
  [CQ_RO_EXCEPT] =
  { CQ_ARG(TEXT, "except"), .zDoc = "the incarnation whose claims stay" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

typedef struct CqRevokeOwner CqRevokeOwner;
struct CqRevokeOwner {
  CqTask task;                    /* First; its answer: how many claims */
  CqText owner;
  const CqVal *pExcept;           /* An incarnation, if it is given */
  CqRows rows;                    /* Claim ids, of several rows repeatedly */
};

/*
** Find what the owner holds.  No index leads there, so all rows are read,
** mostly before the lock is taken.
*/
static void cqRevokeOwnerLoad(CqOp *p, CqTask *pTask){
  CqRevokeOwner *pR = (CqRevokeOwner*)pTask;
  const CqDiscipline *pD;
  int i;
  claimqNow(p);
  for(i=0; (pD = claimqDiscipline(i))!=0 && p->rc==SQLITE_OK; i++){
    CqStmt s;
    if( !CQ_HOOK(pD->pLeases) ) continue;
    s = claimqStmt(p, *pD->pLeases);
    claimqBindCommonText(p, &s, CQ_P_owner, pR->owner);
    while( claimqStep(p, &s) ){
      CqText run = claimqColText(p, &s, CQ_COL_LEASES_incarnation);
      if( !pR->pExcept->bGiven || !claimqTextEq(run, pR->pExcept->t) ){
        CqCell *a = claimqRowsAdd(p, &pR->rows);
        claimqCellColumn(p, &pR->rows, a, &s, CQ_COL_LEASES_claim_id);
      }
    }
    claimqStmtDone(p, &s);
  }
  pTask->eNeed = pR->rows.nRow ? CQ_NEED_MANY : CQ_NEED_NOTHING;
}

static void cqRevokeOwnerForget(CqTask *pTask){
  claimqRowsReuse(&((CqRevokeOwner*)pTask)->rows, 1);
}

/*
** Revoke one claim as part of the task.  Returns 0 if it was revoked before,
** for another row of the claim.
*/
static int cqRevokeInside(CqOp *p, const CqTask *pTask, CqText claimId){
  CqVerb v;
  int bRevoked;
  memset(&v, 0, sizeof(v));
  v.task.zWhat = pTask->zWhat;
  v.task.bLocked = pTask->bLocked;
  v.eVerb = CQ_REVOKE;
  v.iDelay = -1;
  v.claimId = claimId;
  v.pD = claimqVerbDiscipline(p, &v);
  if( v.pD==0 ) return 0;
  bRevoked = cqVerbInside(p, &v);
  if( v.pD->xVerbDone ) v.pD->xVerbDone(&v);
  sqlite3_free(v.zRevoked);
  return bRevoked;
}

/*
** Revoke what was found, and count the claims.
*/
static void cqRevokeOwnerApply(CqOp *p, CqTask *pTask){
  CqRevokeOwner *pR = (CqRevokeOwner*)pTask;
  int i;
  pTask->iAnswer = 0;
  for(i=0; i<pR->rows.nRow && p->rc==SQLITE_OK; i++){
    pTask->iAnswer += cqRevokeInside(p, pTask,
        claimqCellGetText(claimqRow(&pR->rows, i)));
  }
}

/*
** claimq_revoke_owner(owner [, option, value]...) -> how many claims.
*/
static void cqRevokeOwnerFunc(CqOp *p, CqCall *pCall){
  CqRevokeOwner r;
  memset(&r, 0, sizeof(r));
  r.task.xLoad = cqRevokeOwnerLoad;
  r.task.xApply = cqRevokeOwnerApply;
  r.task.xForget = cqRevokeOwnerForget;
  r.task.zWhat = pCall->pDef->zName;
  r.owner = pCall->aArg[0].t;
  r.pExcept = &pCall->aOpt[CQ_RO_EXCEPT];
  claimqRowsInit(&r.rows, 1);
  claimqRun(p, &r.task);
  claimqRowsClear(&r.rows);
  claimqTaskResult(p, &r.task, pCall->pCtx);
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
** Ask the discipline whose work has keys of this type; it says what happened to
** the work.  Raises bad_argument for options that the type does not have.
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
  static const CqArgDef nowOpt[] = { CQ_ARG_NOW };
  static const CqArgDef ownerArg[] = {
    { CQ_ARG(TEXT, "owner"), .mFlag = CQ_A_REQUIRED,
      .zDoc = "the owner to displace" },
  };
  static const CqArgDef cancelArg[] = {
    { CQ_ARG(ANY, "key"), .zDoc = "a batch id or a job id" },
  };
  static const CqArgDef listArg[] = {
    { CQ_ARG(TEXT, "claims"), .mFlag = CQ_A_REQUIRED,
      .zDoc = "a JSON array of claim id, lease token and perhaps a result, or "
              "an array of these" },
  };
  static const CqArgDef listOpt[] = {
    { CQ_ARG(INT, "partial"), .iMax = 1, .bDefault = 1,
      .zDoc = "1: complete those that still hold; the others are answered 0" },
    CQ_ARG_NOW,
    CQ_ARG_REQUEST,
  };
  static const CqFuncDef list = {
    .zName = "claimq_complete", .zDoc = "complete a list of claims",
    .eKind = CQ_F_WRITE, .nMin = 1, .bRest = 1, .aArg = listArg, .nArg = 1,
    .aOpt = listOpt, .nOpt = CQ_ARRAYSIZE(listOpt), .xFunc = claimqDoneFunc,
  };
  static const CqFuncDef aFunc[] = {
    CQ_VERB("claimq_renew", cqRenewArg, 3, CQ_F_WRITE, CQ_RENEW,
            "extend the lease"),
    { .zName = "claimq_complete", .zDoc = "the work is done",
      .eKind = CQ_F_WRITE, .nMin = 2, .bRest = 1, .aArg = cqVerbArg, .nArg = 2,
      .xFunc = cqVerbFunc, .iData = CQ_COMPLETE, .pList = &list },
    CQ_VERB("claimq_release", cqVerbArg, 2, CQ_F_WRITE, CQ_RELEASE,
            "give the work back: no attempt is used"),
    CQ_VERB("claimq_retry", cqReasonArg, 3, CQ_F_WRITE, CQ_RETRY,
            "the attempt failed: try again"),
    CQ_VERB("claimq_reject", cqReasonArg, 3, CQ_F_WRITE, CQ_REJECT,
            "the work is bad: move it to the dead letters"),
    CQ_VERB("claimq_guard", cqVerbArg, 2, CQ_F_READ, CQ_GUARD,
            "raise claim_lost unless the claim holds"),
    { .zName = "claimq_remaining",
      .zDoc = "ms left of the lease, less the headroom; at least 0",
      .eKind = CQ_F_READ, .nMin = 2, .aArg = cqRemainingArg, .nArg = 3,
      .aOpt = nowOpt, .nOpt = 1, .xFunc = cqRemainingFunc },
    { .zName = "claimq_revoke", .zDoc = "displace a holder now",
      .eKind = CQ_F_WRITE, .nMin = 1, .aArg = revokeArg, .nArg = 1,
      .aOpt = revokeOpt, .nOpt = 2, .xFunc = cqRevokeFunc },
    { .zName = "claimq_revoke_owner",
      .zDoc = "displace an owner everywhere, now",
      .eKind = CQ_F_WRITE, .nMin = 1, .aArg = ownerArg, .nArg = 1,
      .aOpt = cqRevokeOwnerOpt, .nOpt = CQ_RO_N,
      .xFunc = cqRevokeOwnerFunc },
    { .zName = "claimq_cancel", .zDoc = "take work out of its queue",
      .eKind = CQ_F_WRITE, .nMin = 1, .bRest = 1, .aArg = cancelArg, .nArg = 1,
      .aOpt = cqCancelOpt, .nOpt = CQ_ARRAYSIZE(cqCancelOpt),
      .xFunc = cqCancelFunc },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
