/*
** lane/policy.c: what a lane says of its claims and its jobs.
**
**     SELECT claimq_policy('mail', 'max_active', 3, 'max_attempts', 5);  -- 1
**     SELECT claimq_policy('mail', 'paused', 1);                         -- 1
**     SELECT claimq_policy(NULL, 'lease_ms', 60000);    -- 1: of every lane
**     SELECT claimq_policy('mail', 'lease_ms', 5000);   -- 1: but of this one
**     SELECT claimq_policy('mail', 'lease_ms', NULL);   -- 1: as every lane
**
** A policy is one row of claimq_policy, and claimq_policy() writes nothing but
** that row, whatever the lane holds.  Nothing is copied into jobs (their
** columns stay NULL), so a policy also holds for jobs that are there already.
** The code that needs a policy asks claimqPolicyOf(), once for each call: the
** lane's own row, else the row for every lane, whose lane is NULL, else what is
** built in.  A claim reads its limits by the same lookup.
**
** A database in which claimq_policy() was never called does not look, and its
** claims do not look where no policy ever said anything that concerns them
** (CQ_SET_CLAIMS): one that only says how long jobs are kept, or how often they
** are tried, costs them nothing.  The shortest statements read nothing before
** they write, so they must know of some options: strict and max_runtime_ms
** concern renew and complete, reclaim and admission a submit.  The settings of
** the database tell whether any policy ever had these: CQ_SET_STRICT,
** CQ_SET_RUNTIME, CQ_SET_COMING.
**
** What limits do is in lane/limit.c.
*/
#include "lane.h"

/**************************************************************************
** What holds for a lane
*/

/*
** What is built in.
*/
CQ_PRIV void claimqPolicyNone(CqPolicy *pPolicy){
  static const CqPolicy none = { {
    [CQ_POLICY_ATTEMPTS] = 20, [CQ_POLICY_BACKOFF] = 1000,
    [CQ_POLICY_FACTOR] = 2, [CQ_POLICY_BACKOFF_MAX] = 60000,
    [CQ_POLICY_RECLAIMS] = 5, [CQ_POLICY_RUNTIME] = CQ_I64_MAX,
    [CQ_POLICY_LEASE] = 30000, [CQ_POLICY_KEEP] = CQ_KEEP_MS,
    [CQ_POLICY_KEEP_FAILED] = CQ_KEEP_FAILED_MS, [CQ_POLICY_EVENTS] = 1,
  } };
  *pPolicy = none;
}

/*
** What pS, POLICY_ROW, says, over what is built in.
*/
CQ_PRIV void claimqPolicyRead(const CqStmt *pS, CqPolicy *pPolicy){
  int i;
  assert( (int)CQ_COL_POLICY_ROW_paused==(int)CQ_POLICY_PAUSED );
  assert( (int)CQ_COL_POLICY_ROW_admission==(int)CQ_POLICY_ADMISSION );
  for(i=CQ_POLICY_PAUSED; i<CQ_POLICY_NOW; i++){
    if( claimqColType(pS, i)!=SQLITE_NULL ) pPolicy->a[i] = claimqColInt(pS, i);
  }
}

/*
** What holds for a lane, in *pPolicy; after an error what is built in.
*/
CQ_PRIV void claimqPolicyOf(CqOp *p, CqText lane, CqPolicy *pPolicy){
  CqStmt s;
  claimqPolicyNone(pPolicy);
  if( (claimqSettings(p) & CQ_SET_LIMITS)==0 ) return;
  s = claimqStmt(p, CQ_SQL_POLICY_ROW);
  claimqBindText(p, &s, CQ_POLICY_ROW_lane, lane);
  if( claimqStep(p, &s) ) claimqPolicyRead(&s, pPolicy);
  claimqStmtDone(p, &s);
}

/**************************************************************************
** claimq_policy(lane [, option, value]...) -> 1
*/
typedef struct CqPolicyCall CqPolicyCall;
struct CqPolicyCall {
  CqTask task;                    /* First */
  CqText lane;                    /* z==0: every lane */
  const CqVal *aOpt;
  i64 a[CQ_POLICY_NOW];           /* As it will be; or CQ_UNSAID */
  u8 bAny;                        /* Something is said, or left */
  u8 bGroups;                     /* The lane keeps groups */
  u8 bCounted;                    /* ... all that is held has a slot */
};

/*
** A rate and its window: one of them alone means nothing.
*/
static void cqPolicyPair(CqOp *p, CqPolicyCall *pE, int iRate){
  const CqVal *pRate = &pE->aOpt[iRate], *pPer = &pE->aOpt[iRate+1];
  const char *zGroup = iRate==CQ_LIMIT_NRATE ? "" : "group_";
  i64 *a = &pE->a[iRate];
  assert( iRate==CQ_LIMIT_NRATE || iRate==CQ_LIMIT_GROUP_NRATE );
  if( !pRate->bGiven && !pPer->bGiven && (pRate->pVal || pPer->pVal) ){
    a[0] = a[1] = CQ_UNSAID;
  }
  if( (a[0]<0)!=(a[1]<0) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "%srate and %sper_ms belong together: give "
        "both, or NULL for both", zGroup, zGroup);
  }
}

/*
** Raise bad_argument if a limit is to be that of every lane.
*/
static void cqPolicyEvery(
  CqOp *p, const CqPolicyCall *pE, const CqArgDef *aDef
){
  int i;
  for(i=0; i<CQ_POLICY_PAUSED && pE->lane.z==0; i++){
    if( pE->aOpt[i].pVal ){
      claimqFail(p, CQ_BAD_ARGUMENT, "%s belongs to one lane: name it",
                 aDef[i].zName);
    }
  }
}

/*
** 1 if something is left of the groups of the lane, or of when claims began.
*/
static int cqPolicyKeeps(CqOp *p, CqText lane){
  CqStmt s = claimqStmt(p, CQ_SQL_POLICY_KEEPS);
  int bKeeps;
  claimqBindText(p, &s, CQ_POLICY_KEEPS_lane, lane);
  bKeeps = claimqStep(p, &s) && claimqColInt(&s, CQ_COL_POLICY_KEEPS_groups);
  claimqStmtDone(p, &s);
  return bKeeps;
}

/*
** What the lane says, and what it will say: what is named changes.
*/
static void cqPolicyMerge(CqOp *p, CqPolicyCall *pE){
  CqStmt s = claimqStmt(p, CQ_SQL_POLICY_OWN);
  int bRow, bGroupMax, i;
  claimqBindText(p, &s, CQ_POLICY_OWN_lane, pE->lane);
  bRow = claimqStep(p, &s);
  pE->bAny = 0;
  bGroupMax = bRow && claimqColType(&s,
      CQ_COL_POLICY_OWN_group_max_active)!=SQLITE_NULL;
  pE->bCounted = bRow && claimqColInt(&s, CQ_COL_POLICY_OWN_counted);
  assert( (int)CQ_COL_POLICY_OWN_max_active==(int)CQ_LIMIT_MAX );
  assert( (int)CQ_COL_POLICY_OWN_admission==(int)CQ_POLICY_ADMISSION );
  for(i=0; i<CQ_POLICY_NOW; i++){
    const CqVal *pVal = &pE->aOpt[i];
    pE->a[i] = CQ_UNSAID;
    if( pVal->bGiven ){
      pE->a[i] = pVal->i;
    }else if( bRow && pVal->pVal==0
           && claimqColType(&s, i)!=SQLITE_NULL ){
      pE->a[i] = claimqColInt(&s, i);
    }
  }
  claimqStmtDone(p, &s);
  if( pE->a[CQ_LIMIT_FAIR]==0 ) pE->a[CQ_LIMIT_FAIR] = CQ_UNSAID;
  if( pE->a[CQ_LIMIT_GROUP_MAX]>=0 && !bGroupMax ) pE->bCounted = 0;
}

/*
** Groups are kept from now on if a limit asks for it, and as long as anything
** is left of them.  What was closed may be open afterwards: all groups are to
** be looked at again.
*/
static void cqPolicyLoad(CqOp *p, CqTask *pTask){
  CqPolicyCall *pE = (CqPolicyCall*)pTask;
  int i;
  cqPolicyMerge(p, pE);
  cqPolicyPair(p, pE, CQ_LIMIT_NRATE);
  cqPolicyPair(p, pE, CQ_LIMIT_GROUP_NRATE);
  for(i=0; i<CQ_POLICY_NOW; i++){
    if( pE->a[i]!=CQ_UNSAID ) pE->bAny = 1;
  }
  pE->bGroups = pE->a[CQ_LIMIT_GROUP_MAX]>=0 || pE->a[CQ_LIMIT_GROUP_NRATE]>=0
             || pE->a[CQ_LIMIT_FAIR]>0
             || (pE->lane.z && cqPolicyKeeps(p, pE->lane));
  if( pE->bGroups ) pE->bAny = 1;
  if( pE->a[CQ_LIMIT_MAX]<0 && pE->a[CQ_LIMIT_GROUP_MAX]<0 ) pE->bCounted = 0;
  pTask->eNeed = CQ_NEED_MANY;
}

/*
** Write the row of the lane, or delete it if it says nothing.
*/
static void cqPolicyWrite(CqOp *p, const CqPolicyCall *pE){
  static const int aParam[CQ_POLICY_NOW] = {
    CQ_POLICY_SET_max_active, CQ_POLICY_SET_rate, CQ_POLICY_SET_per_ms,
    CQ_POLICY_SET_group_max_active, CQ_POLICY_SET_group_rate,
    CQ_POLICY_SET_group_per_ms, CQ_POLICY_SET_fair, CQ_POLICY_SET_paused,
    CQ_POLICY_SET_max_attempts, CQ_POLICY_SET_backoff_ms,
    CQ_POLICY_SET_backoff_factor, CQ_POLICY_SET_backoff_max_ms,
    CQ_POLICY_SET_max_reclaims, CQ_POLICY_SET_max_runtime_ms,
    CQ_POLICY_SET_lease_ms, CQ_POLICY_SET_strict, CQ_POLICY_SET_keep_ms,
    CQ_POLICY_SET_keep_failed_ms, CQ_POLICY_SET_events, CQ_POLICY_SET_reclaim,
    CQ_POLICY_SET_admission
  };
  CqStmt s;
  int i;
  if( !pE->bAny ){
    s = claimqStmt(p, CQ_SQL_POLICY_UNSET);
    claimqBindText(p, &s, CQ_POLICY_UNSET_lane, pE->lane);
    claimqExec(p, &s);
    return;
  }
  s = claimqStmt(p, CQ_SQL_POLICY_SET);
  claimqBindText(p, &s, CQ_POLICY_SET_lane, pE->lane);
  for(i=0; i<CQ_POLICY_NOW; i++){
    if( i==CQ_LIMIT_FAIR ) claimqBindInt(p, &s, aParam[i], pE->a[i]>0);
    else if( pE->a[i]==CQ_UNSAID ) claimqBindNull(p, &s, aParam[i]);
    else claimqBindInt(p, &s, aParam[i], pE->a[i]);
  }
  claimqBindInt(p, &s, CQ_POLICY_SET_groups, pE->bGroups);
  claimqBindInt(p, &s, CQ_POLICY_SET_counted, pE->bCounted);
  if( pE->bGroups ) claimqBindText(p, &s, CQ_POLICY_SET_from, claimqStr(""));
  else claimqBindNull(p, &s, CQ_POLICY_SET_from);
  claimqExec(p, &s);
}

/*
** 1 if the policy says something that a claim must know.
*/
static int cqPolicyClaims(const CqPolicyCall *pE){
  static const u8 aOpt[] = {
    CQ_POLICY_PAUSED, CQ_POLICY_RECLAIMS, CQ_POLICY_RUNTIME, CQ_POLICY_LEASE,
    CQ_POLICY_RECLAIM, CQ_POLICY_ADMISSION
  };
  int i;
  for(i=0; i<CQ_POLICY_PAUSED; i++){
    if( pE->a[i]!=CQ_UNSAID ) return 1;
  }
  for(i=0; i<CQ_ARRAYSIZE(aOpt); i++){
    if( pE->a[aOpt[i]]!=CQ_UNSAID ) return 1;
  }
  return pE->bGroups;
}

/*
** Write the policy: one row, whatever the lane holds.  The first one makes
** calls look for policies: of all connections, from their next one on.
*/
static void cqPolicyApply(CqOp *p, CqTask *pTask){
  CqPolicyCall *pE = (CqPolicyCall*)pTask;
  int m = CQ_SET_LIMITS;
  if( cqPolicyClaims(pE) ) m |= CQ_SET_CLAIMS;
  if( pE->a[CQ_POLICY_STRICT]>0 ) m |= CQ_SET_STRICT;
  if( pE->a[CQ_POLICY_RUNTIME]!=CQ_UNSAID ) m |= CQ_SET_RUNTIME;
  if( pE->a[CQ_POLICY_RECLAIM]>0 || pE->a[CQ_POLICY_ADMISSION]>0 ){
    m |= CQ_SET_COMING;
  }
  if( pE->bAny ) claimqSettingsSet(p, pTask, m);
  cqPolicyWrite(p, pE);
  claimqLaneKeeps(p, pTask, pE->a);
}

/*
** claimq_policy(lane [, option, value]...) -> 1.
*/
CQ_PRIV void claimqLanePolicy(CqOp *p, CqCall *pCall){
  CqPolicyCall e;
  memset(&e, 0, sizeof(e));
  e.task.xLoad = cqPolicyLoad;
  e.task.xApply = cqPolicyApply;
  e.task.iAnswer = 1;
  e.task.zWhat = "claimq_policy()";
  claimqMakes(p, &e.task, CQ_M_POLICIES);
  e.lane = pCall->aArg[0].t;
  e.aOpt = pCall->aOpt;
  cqPolicyEvery(p, &e, pCall->pDef->aOpt);
  claimqRun(p, &e.task);
  claimqTaskResult(p, &e.task, pCall->pCtx);
}
