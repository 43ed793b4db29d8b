/*
** claimq_verb.c: the five verbs, guard and cancel.
**
**     SELECT claimq_complete('qwc:7:3', :token, 'batch_ids', '["qwb:..."]');
**
** A verb is the same for every discipline as far as this file goes: read the
** arguments, find the discipline by the prefix of the claim id, read the
** options that this verb has there, and let the discipline settle.
*/
#include "claimq_int.h"

static const CqArgDef cqVerbClaim = {
  "claim_id", CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0
};
static const CqArgDef cqVerbToken = {
  "lease_token", CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0
};
static const CqArgDef cqVerbTtl = {
  "ttl_ms", CQ_T_INT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0
};
static const CqArgDef cqVerbNow = {
  "now_ms", CQ_T_INT, CQ_A_NOW, 0, 0, 0, 0, 0, 0
};
static const CqArgDef cqVerbReason = {
  "reason", CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0
};

/* Options that verbs have in every discipline; its own follow. */
#define CQ_VO_NOW   0
#define CQ_VO_DELAY 1
#define CQ_VO_N     2
#define CQ_MAX_OPT  8
static const CqArgDef cqVerbOpt[CQ_VO_N] = {
  { "now_ms",   CQ_T_INT, CQ_A_NOW,
    1<<CQ_COMPLETE|1<<CQ_RELEASE|1<<CQ_RETRY|1<<CQ_REJECT, 0, 0, 0, 0, 0 },
  { "delay_ms", CQ_T_INT, 0, 1<<CQ_RELEASE|1<<CQ_RETRY, 0, 0, 0, 0, 0 },
};

/*
** The discipline whose claim ids begin as id does; 0 with an error if there is
** none.  A malformed rest is not an error here: no such claim can exist, and
** that is what the discipline will say.
*/
static const CqDiscipline *cqVerbDiscipline(CqOp *p, CqVerb *pVerb){
  const CqDiscipline *pD;
  int i;
  if( p->rc ) return 0;
  for(i=0; (pD = claimqDiscipline(i))!=0; i++){
    int n = (int)strlen(pD->zPrefix);
    if( pVerb->claimId.n>n && memcmp(pVerb->claimId.z, pD->zPrefix, n)==0
     && pVerb->claimId.z[n]==':'
    ){
      if( !claimqClaimIdParse(pVerb->claimId, pD->zPrefix, &pVerb->iHead,
                              &pVerb->iFence) ){
        pVerb->iHead = pVerb->iFence = -1;
      }
      return pD;
    }
  }
  claimqFail(p, CQ_BAD_ARGUMENT, "claim_id must be the id of a claim, such as "
             "'qwc:7:1', got TEXT '%.*s'", claimqShown(pVerb->claimId),
             pVerb->claimId.z);
  return 0;
}

/*
** Read the options of this verb in this discipline into aOpt[]: the common
** ones first, then the discipline's own.
*/
static void cqVerbOptions(
  CqOp *p, const CqDiscipline *pD, CqVerb *pVerb,
  int nVal, sqlite3_value **apVal, CqVal *aOpt
){
  CqArgDef aDef[CQ_MAX_OPT];
  assert( p->rc==SQLITE_OK );
  assert( CQ_VO_N+pD->nOpt<=CQ_MAX_OPT );
  memcpy(aDef, cqVerbOpt, sizeof(cqVerbOpt));
  if( pD->nOpt ){
    memcpy(&aDef[CQ_VO_N], pD->aOpt, (size_t)pD->nOpt*sizeof(aDef[0]));
  }
  claimqReadOptions(p, aDef, CQ_VO_N+pD->nOpt, 1<<pVerb->eVerb, nVal, apVal,
                    aOpt);
  pVerb->iDelay = aOpt[CQ_VO_DELAY].bGiven ? aOpt[CQ_VO_DELAY].i : -1;
  pVerb->aOpt = &aOpt[CQ_VO_N];
}

static CqText cqVerbText(CqOp *p, const CqArgDef *pDef, sqlite3_value *pVal){
  CqVal v;
  claimqRead(p, pDef, pVal, &v);
  return v.t;
}

/*
** All the verbs.  iOpt is the number of arguments before the options.
*/
static void cqVerb(
  CqOp *p, sqlite3_context *pCtx, int eVerb, int iOpt,
  int nVal, sqlite3_value **apVal
){
  CqVerb v;
  CqVal aOpt[CQ_MAX_OPT];
  CqVal val;
  const CqDiscipline *pD;
  memset(&v, 0, sizeof(v));
  v.eVerb = eVerb;
  v.claimId = cqVerbText(p, &cqVerbClaim, apVal[0]);
  v.token = cqVerbText(p, &cqVerbToken, apVal[1]);
  if( eVerb==CQ_RENEW ){
    claimqRead(p, &cqVerbTtl, apVal[2], &val);
    v.iTtl = val.i;
    claimqRead(p, &cqVerbNow, nVal>3 ? apVal[3] : 0, &val);
    iOpt = nVal;
  }else if( eVerb==CQ_RETRY || eVerb==CQ_REJECT ){
    v.reason = cqVerbText(p, &cqVerbReason, apVal[2]);
  }
  pD = cqVerbDiscipline(p, &v);
  if( pD ) cqVerbOptions(p, pD, &v, nVal-iOpt, &apVal[iOpt], aOpt);
  if( p->rc==SQLITE_OK ) pD->xVerb(p, &v);
  if( p->rc==SQLITE_OK ){
    if( v.zResult ) sqlite3_result_text(pCtx, v.zResult, -1, SQLITE_STATIC);
    else sqlite3_result_int64(pCtx, v.iResult);
  }
}

static void cqRenewFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  cqVerb(p, pCtx, CQ_RENEW, 3, nVal, apVal);
}
static void cqCompleteFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  cqVerb(p, pCtx, CQ_COMPLETE, 2, nVal, apVal);
}
static void cqReleaseFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  cqVerb(p, pCtx, CQ_RELEASE, 2, nVal, apVal);
}
static void cqRetryFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  cqVerb(p, pCtx, CQ_RETRY, 3, nVal, apVal);
}
static void cqRejectFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  cqVerb(p, pCtx, CQ_REJECT, 3, nVal, apVal);
}
static void cqGuardFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  cqVerb(p, pCtx, CQ_GUARD, 2, nVal, apVal);
}

/**************************************************************************
** claimq_cancel(key [, option, value]...): the type of the key says what is
** to be cancelled.
*/
#define CQ_CO_TEXT 1              /* mVerb of options, by type of the key */
#define CQ_CO_INT  2

static void cqCancelFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqArgDef aDef[] = {
    { "now_ms", CQ_T_INT, CQ_A_NOW, CQ_CO_TEXT|CQ_CO_INT, 0, 0, 0, 0, 0 },
    { "force",  CQ_T_INT, 0, CQ_CO_INT, 0, 0, 0, 1, 0 },
  };
  static const CqArgDef batch = {
    "batch_id", CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0
  };
  static const CqArgDef job = {
    "job_id", CQ_T_INT, CQ_A_REQUIRED, 0, 0, 0, -CQ_I64_MAX, 0, 0
  };
  int eKey = sqlite3_value_type(apVal[0]);
  int bInt = eKey==SQLITE_INTEGER || eKey==SQLITE_FLOAT;
  const CqDiscipline *pD;
  const char *zResult = "missing";
  CqVal key, aOpt[2];
  int i;
  claimqRead(p, bInt ? &job : &batch, apVal[0], &key);
  claimqReadOptions(p, aDef, 2, bInt ? CQ_CO_INT : CQ_CO_TEXT, nVal-1,
                    &apVal[1], aOpt);
  for(i=0; p->rc==SQLITE_OK && (pD = claimqDiscipline(i))!=0; i++){
    if( pD->xCancel && pD->eCancel==(bInt ? CQ_T_INT : CQ_T_TEXT) ){
      zResult = pD->xCancel(p, &key, (int)aOpt[1].i);
    }
  }
  if( p->rc==SQLITE_OK ){
    sqlite3_result_text(pCtx, zResult, -1, SQLITE_STATIC);
  }
}

CQ_PRIV const CqFuncDef *claimqVerbFuncs(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { "claimq_renew", "(claim_id, lease_token, ttl_ms [, now_ms])", 3, 4,
      CQ_F_WRITE, cqRenewFunc },
    { "claimq_complete", "(claim_id, lease_token [, option, value]...)", 2, -1,
      CQ_F_WRITE, cqCompleteFunc },
    { "claimq_release", "(claim_id, lease_token [, option, value]...)", 2, -1,
      CQ_F_WRITE, cqReleaseFunc },
    { "claimq_retry", "(claim_id, lease_token, reason [, option, value]...)",
      3, -1, CQ_F_WRITE, cqRetryFunc },
    { "claimq_reject", "(claim_id, lease_token, reason [, option, value]...)",
      3, -1, CQ_F_WRITE, cqRejectFunc },
    { "claimq_guard", "(claim_id, lease_token)", 2, 2,
      CQ_F_READ, cqGuardFunc },
    { "claimq_cancel", "(batch_id | job_id [, option, value]...)", 1, -1,
      CQ_F_WRITE, cqCancelFunc },
  };
  *pnFunc = (int)(sizeof(aFunc)/sizeof(aFunc[0]));
  return aFunc;
}
