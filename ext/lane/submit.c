/*
** lane/submit.c: new jobs.
**
**     SELECT claimq_submit('mail', '{"to":"ann"}', 'priority', 5);       -- 1
**     SELECT claimq_submit('mail', 'x', 'source_key', 'order-7');        -- 2
**     SELECT claimq_submit('mail', 'x', 'source_key', 'order-7');        -- 2
**     SELECT claimq_submit('mail', 'y', 'source_key', 'order-7',
**                          'on_duplicate', 'replace');      -- 2, now with y
**
** A submit without a source key or a group is one INSERT, and looks up nothing
** before.  The list of required capabilities is written in a canonical form, so
** that equal sets are equal texts.
*/
#include "lane.h"

#define CQ_DUPLICATE_REPLACE 1    /* Words of on_duplicate; 0: keep */
#define CQ_DUPLICATE_REFUSE  2

typedef struct CqSubmit CqSubmit;
struct CqSubmit {
  CqText caps;                    /* The one way to write the set */
  CqCaps list;
  CqAfter after;                  /* The jobs that it waits for */
  u8 bNoKey;                      /* The source key is taken: leave it out */
  i64 iKeep;                      /* ... it stays taken until then; or 0 */
  i64 iHead;                      /* The head it stands with; 0: none yet */
  i64 iReplace;                   /* The job that is changed instead; 0: none */
  u8 bFirst;                      /* It goes before the first one there */
  u8 bKnown;                      /* It is known when that may be taken */
  u8 bPolicy;                     /* The policy of the lane was asked ... */
  u8 bGrant;                      /* ... and says that it is reclaimed by one,
                                  ** or, next, that it is admitted by one */
  u8 bAdmit;
};
typedef char CqCheckSubmit[sizeof(CqSubmit)<=sizeof(CqPutOwn) ? 1 : -1];

/*
** A job of the lane that has the source key and is not terminal, or that keeps
** it beyond its end (unique_for_ms), is the answer: 1.  (To work that is put
** back it is none: that goes without the key, if a job has it that is not
** terminal.)
*/
static int cqSubmitTaken(CqOp *p, CqPut *pPut){
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_BY_KEY);
  int bTaken;
  assert( pPut->aOpt[CQ_SUBMIT_KEY].bGiven );
  claimqBindText(p, &s, CQ_LANE_BY_KEY_lane, pPut->scope);
  claimqBindText(p, &s, CQ_LANE_BY_KEY_source_key,
                 pPut->aOpt[CQ_SUBMIT_KEY].t);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  bTaken = claimqStep(p, &s);
  if( bTaken && pPut->bSourceKeyFree ){
    CqSubmit *pS = (CqSubmit*)&pPut->own;
    pS->bNoKey = claimqColInt(&s, CQ_COL_LANE_BY_KEY_ended)==0;
    if( !pS->bNoKey ){
      pS->iKeep = claimqColInt(&s, CQ_COL_LANE_BY_KEY_unique_until_ms);
    }
    bTaken = 0;
  }else if( bTaken ){
    pPut->task.iAnswer = claimqColInt(&s, CQ_COL_LANE_BY_KEY_job_id);
  }
  claimqStmtDone(p, &s);
  return bTaken;
}

/*
** The source key is taken, by the job that is the answer: what on_duplicate
** says.  One that is held or has ended stays as it is.
*/
static void cqSubmitAgain(CqOp *p, CqPut *pPut){
  CqSubmit *pS = (CqSubmit*)&pPut->own;
  CqText key = pPut->aOpt[CQ_SUBMIT_KEY].t;
  CqLaneState state;
  if( pPut->aOpt[CQ_SUBMIT_DUPLICATE].i==CQ_DUPLICATE_REFUSE ){
    claimqFail(p, CQ_CONFLICT, "source_key '%.*s' is taken by job %lld of lane "
        "'%.*s'", claimqShown(key), key.z, pPut->task.iAnswer,
        claimqShown(pPut->scope), pPut->scope.z);
  }else if( pPut->aOpt[CQ_SUBMIT_DUPLICATE].i==CQ_DUPLICATE_REPLACE
   && claimqLaneState(p, pPut->task.iAnswer, &state)
   && !state.bTerminal && !state.bLive
  ){
    pS->iReplace = pPut->task.iAnswer;
    pPut->task.eNeed = claimqSettings(p) & CQ_SET_LIMITS ? CQ_NEED_UNDO
                                                         : CQ_NEED_ONE;
  }
}

/*
** Give the job that waits what was submitted this time.
*/
static void cqSubmitReplace(CqOp *p, CqPut *pPut){
  const CqSubmit *pOwn = (const CqSubmit*)&pPut->own;
  const CqVal *aOpt = pPut->aOpt;
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_REPLACE);
  claimqPutPayload(p, pPut, &s, CQ_LANE_REPLACE_payload);
  claimqBindText(p, &s, CQ_LANE_REPLACE_headers, aOpt[CQ_SUBMIT_HEADERS].t);
  claimqBindInt(p, &s, CQ_LANE_REPLACE_available,
      claimqDueAt(p, &aOpt[CQ_SUBMIT_AT], &aOpt[CQ_SUBMIT_DELAY]));
  claimqBindInt(p, &s, CQ_LANE_REPLACE_job, pOwn->iReplace);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  claimqLaneChanged(p, &pPut->task, pOwn->iReplace, &s);
}

/*
** In a lane that keeps groups: does the job's stand there already?  Then the
** job is put with it; else the next claim does that.
*/
static void cqSubmitGroup(CqOp *p, CqPut *pPut){
  const CqVal *aOpt = pPut->aOpt;
  CqSubmit *pS = (CqSubmit*)&pPut->own;
  CqStmt s;
  if( !aOpt[CQ_SUBMIT_GROUP].bGiven || aOpt[CQ_SUBMIT_ADMISSION].i!=0
   || (!aOpt[CQ_SUBMIT_ADMISSION].bGiven && pS->bAdmit)
   || (claimqSettings(p) & CQ_SET_LIMITS)==0 ) return;
  s = claimqStmt(p, CQ_SQL_LIMIT_HEAD_OF);
  claimqBindText(p, &s, CQ_LIMIT_HEAD_OF_lane, pPut->scope);
  claimqBindText(p, &s, CQ_LIMIT_HEAD_OF_group_key, aOpt[CQ_SUBMIT_GROUP].t);
  claimqBindInt(p, &s, CQ_LIMIT_HEAD_OF_partition,
                aOpt[CQ_SUBMIT_PARTITION].i);
  claimqBindText(p, &s, CQ_LIMIT_HEAD_OF_capabilities, pS->caps);
  if( claimqStep(p, &s) ){
    i64 iPriority = claimqColInt(&s, CQ_COL_LIMIT_HEAD_OF_priority);
    pS->iHead = claimqColInt(&s, CQ_COL_LIMIT_HEAD_OF_head_id);
    pS->bKnown = (u8)claimqColInt(&s, CQ_COL_LIMIT_HEAD_OF_known);
    pS->bFirst = claimqColType(&s, CQ_COL_LIMIT_HEAD_OF_job_id)==SQLITE_NULL
        || aOpt[CQ_SUBMIT_PRIORITY].i>iPriority
        || (aOpt[CQ_SUBMIT_PRIORITY].i==iPriority && claimqNow(p)<
            claimqColInt(&s, CQ_COL_LIMIT_HEAD_OF_created_at_ms));
  }
  claimqStmtDone(p, &s);
}

/*
** What the policy of the lane says of jobs that come now.
*/
static void cqSubmitPolicy(CqOp *p, CqPut *pPut){
  CqSubmit *pS = (CqSubmit*)&pPut->own;
  CqPolicy policy;
  claimqPolicyOf(p, pPut->scope, &policy);
  pS->bGrant = policy.a[CQ_POLICY_RECLAIM]==1;
  pS->bAdmit = policy.a[CQ_POLICY_ADMISSION]==1;
  pS->bPolicy = 1;
}

/*
** Look up the source key, then the jobs to wait for.
*/
static void cqSubmitLoad(CqOp *p, CqTask *pTask){
  CqPut *pPut = (CqPut*)pTask;
  CqSubmit *pS = (CqSubmit*)&pPut->own;
  pS->iReplace = 0;
  if( pPut->aOpt[CQ_SUBMIT_KEY].bGiven && cqSubmitTaken(p, pPut) ){
    cqSubmitAgain(p, pPut);
    return;
  }
  if( pS->after.ids.n ) claimqLaneAfterFind(p, &pS->after);
  if( claimqSettings(p) & CQ_SET_COMING ) cqSubmitPolicy(p, pPut);
  pS->iHead = 0;
  cqSubmitGroup(p, pPut);
  pTask->eNeed = pS->after.ids.n || pS->iHead ? CQ_NEED_UNDO : CQ_NEED_ONE;
}

/*
** Check what the options say together, and whether something must be looked up
** before the job is written.  What it allocates claimqLanePutDone() frees, also
** after an error.
*/
CQ_PRIV void claimqLanePutCheck(CqOp *p, CqPut *pPut){
  CqSubmit *pS = (CqSubmit*)&pPut->own;
  const CqVal *aOpt = pPut->aOpt;
  int bComing = p->pConn->mSettings & CQ_SET_COMING;
  claimqMakes(0, &pPut->task, 0);
  if( pPut->bPlain && !bComing ) return;
  pPut->bPlain = 0;
  if( aOpt[CQ_SUBMIT_AFTER].bGiven || aOpt[CQ_SUBMIT_FLOW].bGiven ){
    claimqMakes(p, &pPut->task, CQ_M_FLOWS);
  }
  pS->caps = claimqLaneCapsText(p, aOpt[CQ_SUBMIT_CAPS].t, &pS->list);
  claimqDueCheck(p, &aOpt[CQ_SUBMIT_AT], &aOpt[CQ_SUBMIT_DELAY]);
  if( aOpt[CQ_SUBMIT_AFTER].bGiven ){
    claimqLaneAfterRead(p, aOpt[CQ_SUBMIT_AFTER].t, &pS->after.ids);
  }
  if( aOpt[CQ_SUBMIT_KEY].bGiven || pS->after.ids.n
   || aOpt[CQ_SUBMIT_GROUP].bGiven
   || bComing
  ){
    pPut->task.xLoad = cqSubmitLoad;
  }
}

CQ_PRIV void claimqLanePutDone(CqPut *pPut){
  CqSubmit *pS = (CqSubmit*)&pPut->own;
  if( pPut->bPlain ) return;      /* claimqLanePutCheck() did nothing */
  sqlite3_free(pS->list.a);
  claimqIdsClear(&pS->after.ids);
}

/*
** Bind the options that are columns as they are, then the others.
*/
static void cqSubmitBind(CqOp *p, CqPut *pPut, CqStmt *pS){
  static const int aParam[CQ_SUBMIT_N] = {
    [CQ_SUBMIT_PRIORITY]    = CQ_LANE_INSERT_priority,
    [CQ_SUBMIT_ATTEMPTS]    = CQ_LANE_INSERT_max_attempts,
    [CQ_SUBMIT_BACKOFF]     = CQ_LANE_INSERT_backoff_ms,
    [CQ_SUBMIT_FACTOR]      = CQ_LANE_INSERT_backoff_factor,
    [CQ_SUBMIT_BACKOFF_MAX] = CQ_LANE_INSERT_backoff_max_ms,
    [CQ_SUBMIT_RECLAIMS]    = CQ_LANE_INSERT_max_reclaims,
    [CQ_SUBMIT_RUNTIME]     = CQ_LANE_INSERT_max_runtime_ms,
    [CQ_SUBMIT_PARTITION]   = CQ_LANE_INSERT_partition,
    [CQ_SUBMIT_GROUP]       = CQ_LANE_INSERT_group_key,
    [CQ_SUBMIT_FLOW]        = CQ_LANE_INSERT_flow_id,
    [CQ_SUBMIT_NAMESPACE]   = CQ_LANE_INSERT_namespace,
    [CQ_SUBMIT_TAG]         = CQ_LANE_INSERT_instance_tag,
    [CQ_SUBMIT_HEADERS]     = CQ_LANE_INSERT_headers,
  };
  const CqArgDef *aDef = pPut->pD->pPut->aOpt;
  const CqVal *aOpt = pPut->aOpt;
  const CqSubmit *pOwn = (const CqSubmit*)&pPut->own;
  int bReclaim = !aOpt[CQ_SUBMIT_RECLAIM].bGiven && pOwn->bGrant;
  int bAdmit = !aOpt[CQ_SUBMIT_ADMISSION].bGiven && pOwn->bAdmit;
  int bFails = pOwn->after.ids.n>0 || aOpt[CQ_SUBMIT_ON_FAILURE].bGiven;
  CqText none = {0, 0};
  int i;
  assert( pOwn->caps.z!=0 );      /* xPutCheck() */
  for(i=0; i<CQ_SUBMIT_N; i++){
    if( aParam[i]==0 ) continue;
    if( aDef[i].eType!=CQ_T_INT ){
      claimqBindText(p, pS, aParam[i], aOpt[i].t);
    }else if( aOpt[i].bGiven || aDef[i].bDefault ){
      claimqBindInt(p, pS, aParam[i], aOpt[i].i);
    }else{
      claimqBindNull(p, pS, aParam[i]);
    }
  }
  claimqBindText(p, pS, CQ_LANE_INSERT_reclaim,
      bReclaim ? claimqStr("grant") : aOpt[CQ_SUBMIT_RECLAIM].t);
  claimqBindText(p, pS, CQ_LANE_INSERT_admission,
      bAdmit ? claimqStr("grant") : aOpt[CQ_SUBMIT_ADMISSION].t);
  claimqBindInt(p, pS, CQ_LANE_INSERT_said, (aOpt[CQ_SUBMIT_RECLAIM].bGiven!=0)
      + 2*(aOpt[CQ_SUBMIT_ADMISSION].bGiven!=0));
  claimqBindText(p, pS, CQ_LANE_INSERT_capabilities, pOwn->caps);
  claimqBindText(p, pS, CQ_LANE_INSERT_source_key,
                 pOwn->bNoKey ? none : aOpt[CQ_SUBMIT_KEY].t);
  claimqPutDue(p, &aOpt[CQ_SUBMIT_AT], &aOpt[CQ_SUBMIT_DELAY], pS);
  claimqBindText(p, pS, CQ_LANE_INSERT_on_failure,
      bFails ? aOpt[CQ_SUBMIT_ON_FAILURE].t : none);
  if( pOwn->after.iWaits ){
    claimqBindInt(p, pS, CQ_LANE_INSERT_waits_for, pOwn->after.iWaits);
  }else{
    claimqBindNull(p, pS, CQ_LANE_INSERT_waits_for);
  }
  if( aOpt[CQ_SUBMIT_UNIQUE].bGiven && aOpt[CQ_SUBMIT_KEY].bGiven ){
    claimqBindInt(p, pS, CQ_LANE_INSERT_unique_until_ms,
        claimqAddSat(claimqNow(p), aOpt[CQ_SUBMIT_UNIQUE].i));
  }else if( pOwn->iKeep ){
    claimqBindInt(p, pS, CQ_LANE_INSERT_unique_until_ms, pOwn->iKeep);
  }else{
    claimqBindNull(p, pS, CQ_LANE_INSERT_unique_until_ms);
  }
}

/*
** The job stands with its group: tell the head, if it is the first there, or
** waits for its time, or may have ended already because of one that it was to
** follow.
*/
static void cqSubmitHead(CqOp *p, CqPut *pPut){
  CqSubmit *pS = (CqSubmit*)&pPut->own;
  CqStmt s;
  if( p->rc || pS->after.iWaits ) return;
  if( pS->after.ids.n || claimqDueAt(p, &pPut->aOpt[CQ_SUBMIT_AT],
          &pPut->aOpt[CQ_SUBMIT_DELAY])>claimqNow(p)
   || !pS->bKnown
  ){
    CqIds one = claimqLaneOne(&pS->iHead);
    claimqHeadsSee(p, 0, &one);
  }else if( pS->bFirst ){
    s = claimqStmt(p, CQ_SQL_LIMIT_HEAD_FIRST);
    claimqBindInt(p, &s, CQ_LIMIT_HEAD_FIRST_priority,
                  pPut->aOpt[CQ_SUBMIT_PRIORITY].i);
    claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
    claimqBindInt(p, &s, CQ_LIMIT_HEAD_FIRST_job, pPut->task.iAnswer);
    claimqBindInt(p, &s, CQ_LIMIT_HEAD_FIRST_head_id, pS->iHead);
    claimqExec(p, &s);
  }
}

/*
** Write the row of the job.  Without options a statement of fewer columns does
** it, and saves 7 %.  It is refused if a policy has a word in this that was not
** asked.
*/
static void cqSubmitInsert(CqOp *p, CqPut *pPut){
  const CqSubmit *pOwn = (const CqSubmit*)&pPut->own;
  CqStmt s;
  assert( pPut->pD==claimqLaneDiscipline() && pPut->scope.z!=0 );
  if( pOwn->iReplace ){
    cqSubmitReplace(p, pPut);
    return;
  }
  if( pPut->bPlain ){
    s = claimqStmt(p, CQ_SQL_LANE_INSERT_PLAIN);
    claimqBindText(p, &s, CQ_LANE_INSERT_PLAIN_lane, pPut->scope);
    claimqPutPayload(p, pPut, &s, CQ_LANE_INSERT_PLAIN_payload);
  }else{
    s = claimqStmt(p, CQ_SQL_LANE_INSERT);
    claimqBindText(p, &s, CQ_LANE_INSERT_lane, pPut->scope);
    claimqPutPayload(p, pPut, &s, CQ_LANE_INSERT_payload);
    cqSubmitBind(p, pPut, &s);
    if( pOwn->iHead ) claimqBindInt(p, &s, CQ_LANE_INSERT_head_id, pOwn->iHead);
    else claimqBindNull(p, &s, CQ_LANE_INSERT_head_id);
  }
  claimqBindNow(p, &s);
  p->mUnless = pPut->bPlain || !pOwn->bPolicy ? CQ_SET_COMING : 0;
  if( claimqExec(p, &s)==0 ){
    claimqFail(p, CQ_CONFLICT, "a trigger on claimq_job left a row out");
  }
  p->mUnless = 0;
}

/*
** Write the job, then what does not stand in its row.
*/
CQ_PRIV void claimqLanePutWrite(CqOp *p, CqPut *pPut){
  CqSubmit *pOwn = (CqSubmit*)&pPut->own;
  cqSubmitInsert(p, pPut);
  if( p->bUnless ){
    claimqOpReset(p);
    p->bUnless = 0;
    if( pPut->bPlain ){
      pPut->bPlain = 0;
      pOwn->caps = claimqStr("[]");
    }
    cqSubmitPolicy(p, pPut);
    cqSubmitInsert(p, pPut);
  }
  if( p->rc || pOwn->iReplace ) return;
  pPut->task.iAnswer = sqlite3_last_insert_rowid(p->db);
  if( pOwn->after.ids.n ){
    claimqLaneAfterWrite(p, pPut->task.iAnswer, &pOwn->after,
                         pPut->aOpt[CQ_SUBMIT_ON_FAILURE].i==1);
  }
  if( pOwn->iHead ) cqSubmitHead(p, pPut);
}
