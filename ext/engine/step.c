/*
** step.c: claimq_step(), the durable steps of a piece of work.
**
**     SELECT claimq_step('qjc:1:1', :token, 'charge', 'receipt 17');
**     -- receipt 17
**     SELECT claimq_step('qjc:1:2', :token2, 'charge', 'receipt 18');
**     -- receipt 17: the first value wins, and stays through all attempts
**     SELECT name, value FROM claimq_steps WHERE job_id=1;
**     -- charge|receipt 17
**
** A worker that dies half-way leaves its finished steps behind, and the next
** one passes over them.  Each is a row of (job, name) or (batch, name), written
** under the fence: only the holder of the work can add one, if it likes in the
** same transaction as rows of its own, and with lease_ms the same call extends
** the lease.
**
** The usual step, which is new, is one INSERT that names key, claim id and
** token.  If that writes nothing, the claim is judged as by claimq_guard(), or
** by claimq_renew() if a lease_ms was given, and what is stored is the answer.
**
** Steps are removed with their job, or when their batch is done: the batch's
** trigger for DELETE does that by its function claimqSessionDeleted().  A
** database in which no batch ever had a step does not have the setting
** CQ_SET_STEPS, and looks for none.
*/
#include "claimq_int.h"

#define CQ_STEP_NAME  2           /* Arguments */
#define CQ_STEP_VALUE 3
static const CqArgDef cqStepArg[] = {
  { CQ_ARG(TEXT, "claim_id"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "as the claim gave it" },
  { CQ_ARG(TEXT, "lease_token"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "as the claim gave it" },
  [CQ_STEP_NAME] =
  { CQ_ARG(TEXT, "name"), .mFlag = CQ_A_REQUIRED, .iMin = 1, .iMax = 255,
    .zDoc = "which step of the work it is" },
  [CQ_STEP_VALUE] =
  { CQ_ARG(ANY, "value"),
    .zDoc = "what the step gave, any value; kept if it is the first" },
};
#define CQ_STEP_LEASE 0           /* Options */
static const CqArgDef cqStepOpt[] = {
  { CQ_ARG(INT, "lease_ms"), .zDoc = "extends the lease, as claimq_renew()" },
  CQ_ARG_NOW,
};

typedef struct CqStepCall CqStepCall;
struct CqStepCall {
  CqVerb v;                       /* First: guard or renew */
  CqText name;
  sqlite3_value *pValue;          /* As given */
  sqlite3_value *pStored;         /* As stored, a copy; 0: there was none */
  u8 bFirst;                      /* The first step of any batch */
};

/*
** Take one of the discipline's statements that know :head and :name.
*/
static CqStmt cqStepStmt(CqOp *p, const CqStepCall *pC, int eStep){
  int eStmt = pC->v.pD->aStep[eStep];
  CqStmt s = claimqStmt(p, eStmt);
  claimqVerbBind(p, &pC->v, &s);
  claimqBindText(p, &s, CQ_STEP_FIND_name, pC->name);
  if( eStep!=CQ_STEP_FIND ){
    claimqBindValue(p, &s, CQ_STEP_FIND_value, pC->pValue);
  }
  return s;
}

/*
** What is stored under the name: a copy into pStored.
*/
static void cqStepFind(CqOp *p, CqStepCall *pC){
  CqStmt s = cqStepStmt(p, pC, CQ_STEP_FIND);
  assert( pC->pStored==0 );
  if( claimqStep(p, &s) ){
    pC->pStored = sqlite3_value_dup(claimqColValue(&s, CQ_COL_STEP_FIND_value));
    if( pC->pStored==0 ) claimqFailRc(p, SQLITE_NOMEM);
  }
  claimqStmtDone(p, &s);
}

/*
** Judge the claim, and see what is stored.
*/
static void cqStepLoad(CqOp *p, CqTask *pTask){
  CqStepCall *pC = (CqStepCall*)pTask;
  claimqNow(p);
  claimqVerbLoad(p, pTask);
  if( p->rc ) return;
  cqStepFind(p, pC);
  if( p->rc || pC->pStored ) return;
  pC->bFirst = pC->v.pD->bStepSetting
            && (claimqSettings(p) & CQ_SET_STEPS)==0;
  if( pTask->eNeed==CQ_NEED_NOTHING ) pTask->eNeed = CQ_NEED_ONE;
  else if( pTask->eNeed==CQ_NEED_ONE ) pTask->eNeed = CQ_NEED_UNDO;
  if( pC->bFirst ) pTask->eNeed = CQ_NEED_MANY;
}

/*
** Forget what was loaded.
*/
static void cqStepForget(CqTask *pTask){
  CqStepCall *pC = (CqStepCall*)pTask;
  sqlite3_value_free(pC->pStored);
  pC->pStored = 0;
  claimqVerbForget(pTask);
}

/*
** Renew, if that was asked for, and add the step.
*/
static void cqStepApply(CqOp *p, CqTask *pTask){
  CqStepCall *pC = (CqStepCall*)pTask;
  u8 eNeed = pTask->eNeed;
  CqStmt s;
  if( pC->bFirst ) claimqSettingsSet(p, pTask, CQ_SET_STEPS);
  if( pC->v.eVerb==CQ_RENEW ){
    if( pC->bFirst ) pTask->eNeed = CQ_NEED_UNDO;   /* As it was decided */
    claimqVerbApply(p, pTask);
    pTask->eNeed = eNeed;
  }
  if( pC->pStored ) return;
  s = cqStepStmt(p, pC, CQ_STEP_PUT);
  if( claimqExec(p, &s)!=1 ) claimqStale(p, pTask);
}

/*
** The usual case in one statement: 1 if it wrote the step.  (If the step is the
** first of any batch, a setting must be written, too; if tables are missing,
** the task that follows creates them.)
*/
static int cqStepFast(CqOp *p, const CqStepCall *pC){
  CqStmt s;
  i64 n;
  assert( p->rc==SQLITE_OK );
  if( pC->v.eVerb==CQ_RENEW
   || (p->pConn->mSettings & CQ_SET_STRICT)
  ){
    return 0;
  }
  if( pC->v.pD->bStepSetting && (claimqSettings(p) & CQ_SET_STEPS)==0 ){
    return 0;
  }
  s = cqStepStmt(p, pC, CQ_STEP_FAST);
  p->mUnless = CQ_SET_STRICT;
  n = claimqExec(p, &s);
  p->mUnless = 0;
  if( n>0 ) return 1;
  if( p->bUnless ){                   /* The lane may be strict */
    claimqOpReset(p);
    p->bUnless = 0;
  }
  return 0;
}

/*
** claimq_step(claim_id, lease_token, name, value [, option, value]...) -> what
** is stored.
*/
static void cqStepFunc(CqOp *p, CqCall *pCall){
  const CqVal *pLease = &pCall->aOpt[CQ_STEP_LEASE];
  CqVal aOpt[CQ_MAX_OPT];
  CqStepCall c;
  memset(&c, 0, sizeof(c));
  c.v.task.xLoad = cqStepLoad;
  c.v.task.xApply = cqStepApply;
  c.v.task.xForget = cqStepForget;
  c.v.task.zWhat = "claimq_step()";
  c.v.eVerb = pLease->bGiven ? CQ_RENEW : CQ_GUARD;
  c.v.iLease = pLease->i;
  c.v.iDelay = -1;
  c.name = pCall->aArg[CQ_STEP_NAME].t;
  c.pValue = pCall->aArg[CQ_STEP_VALUE].pVal;
  if( c.name.n==0 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "name must have 1 to 255 bytes");
  }
  claimqVerbBegin(p, &c.v, pCall);
  if( p->rc ) return;
  if( c.v.pD->aStep==0 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "only jobs and batches have steps: claim_id "
        "must be of a lane or a session, got TEXT '%.*s'",
        claimqShown(c.v.claimId), c.v.claimId.z);
    return;
  }
  claimqOptionDefaults(c.v.pD->aOpt, c.v.pD->nOpt, aOpt);
  c.v.aOpt = aOpt;
  if( !cqStepFast(p, &c) ){
    claimqMakes(c.v.pD->bStepSetting ? p : 0, &c.v.task, CQ_M_STEPS);
    claimqRun(p, &c.v.task);
  }
  if( CQ_HOOK(c.v.pD->xVerbDone) ) c.v.pD->xVerbDone(&c.v);
  if( p->rc==SQLITE_OK ){
    sqlite3_result_value(pCall->pCtx, c.pStored ? c.pStored : c.pValue);
  }
  sqlite3_value_free(c.pStored);
}

/*
** The work of a dead letter was put back as the row iKey: its steps go with it.
*/
CQ_PRIV void claimqStepsMove(
  CqOp *p, const CqDiscipline *pD, i64 iLetter, i64 iKey
){
  CqStmt s;
  if( p->rc || pD->aStep==0 ) return;
  if( pD->bStepSetting && (claimqSettings(p) & CQ_SET_STEPS)==0 ) return;
  s = claimqStmt(p, pD->aStep[CQ_STEP_MOVE]);
  claimqBindInt(p, &s, CQ_STEP_MOVE_letter, iLetter);
  claimqBindInt(p, &s, CQ_STEP_MOVE_key, iKey);
  claimqExec(p, &s);
}

/*
** The definition of claimq_step().
*/
CQ_PRIV const CqFuncDef *claimqStepFuncs(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_step", .eKind = CQ_F_WRITE, .nMin = 4,
      .aArg = cqStepArg, .nArg = CQ_ARRAYSIZE(cqStepArg), .aOpt = cqStepOpt,
      .nOpt = CQ_ARRAYSIZE(cqStepOpt), .xFunc = cqStepFunc,
      .zDoc = "store the value of a step, once for all attempts" },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
