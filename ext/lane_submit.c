/*
** lane_submit.c: new jobs.
**
**     SELECT claimq_submit('mail', '{"to":"ann"}', 'priority', 5);       -- 1
**     SELECT claimq_submit('mail', 'x', 'source_key', 'order-7');        -- 2
**     SELECT claimq_submit('mail', 'x', 'source_key', 'order-7');        -- 2
**
** A submit without a source key is one INSERT, and looks up nothing before.
** The list of required capabilities is written in the one way there is to
** write that set, and jobs of a set that the lane does not know yet are
** completed by a trigger (see claimq_job_insert in sql/schema.sql).
*/
#include "lane.h"

typedef struct CqSubmit CqSubmit;
struct CqSubmit {
  i64 iAvailable;
  CqText caps;                    /* The one way to write the set */
  CqCaps list;
  CqIds after;                    /* The jobs that it waits for */
  u8 bNoKey;                      /* The source key is taken: leave it out */
};
typedef char CqCheckSubmit[sizeof(CqSubmit)<=sizeof(CqOwn) ? 1 : -1];

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
    ((CqSubmit*)&pPut->own)->bNoKey =
        claimqColInt(&s, CQ_COL_LANE_BY_KEY_ended)==0;
    bTaken = 0;
  }else if( bTaken ){
    pPut->task.iAnswer = claimqColInt(&s, CQ_COL_LANE_BY_KEY_job_id);
  }
  claimqStmtDone(p, &s);
  return bTaken;
}

/*
** Look up the source key, then the jobs to wait for.
*/
static void cqSubmitLoad(CqOp *p, CqTask *pTask){
  CqPut *pPut = (CqPut*)pTask;
  const CqSubmit *pS = (const CqSubmit*)&pPut->own;
  if( pPut->aOpt[CQ_SUBMIT_KEY].bGiven && cqSubmitTaken(p, pPut) ) return;
  if( pS->after.n ) claimqLaneAfterFind(p, &pS->after);
  pTask->eNeed = pS->after.n || pPut->aOpt[CQ_SUBMIT_UNIQUE].bGiven
               ? CQ_NEED_UNDO : CQ_NEED_ONE;
}

/*
** Check what the options say together, and whether something must be looked up
** before the job is written.  What it allocates claimqLanePutDone() frees, also
** after an error.
*/
CQ_PRIV void claimqLanePutCheck(CqOp *p, CqPut *pPut){
  CqSubmit *pS = (CqSubmit*)&pPut->own;
  const CqVal *aOpt = pPut->aOpt;
  if( pPut->bPlain ) return;
  pS->caps = claimqLaneCapsText(p, aOpt[CQ_SUBMIT_CAPS].t, &pS->list);
  pS->iAvailable = claimqDueAt(p, &aOpt[CQ_SUBMIT_AT], &aOpt[CQ_SUBMIT_DELAY]);
  if( aOpt[CQ_SUBMIT_AFTER].bGiven ){
    claimqLaneAfterRead(p, aOpt[CQ_SUBMIT_AFTER].t, &pS->after);
  }
  if( aOpt[CQ_SUBMIT_KEY].bGiven || pS->after.n ){
    pPut->task.xLoad = cqSubmitLoad;
  }
}

CQ_PRIV void claimqLanePutDone(CqPut *pPut){
  CqSubmit *pS = (CqSubmit*)&pPut->own;
  sqlite3_free(pS->list.a);
  claimqIdsClear(&pS->after);
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
    [CQ_SUBMIT_RECLAIM]     = CQ_LANE_INSERT_reclaim,
    [CQ_SUBMIT_PARTITION]   = CQ_LANE_INSERT_partition_key,
    [CQ_SUBMIT_GROUP]       = CQ_LANE_INSERT_group_key,
    [CQ_SUBMIT_FLOW]        = CQ_LANE_INSERT_flow_id,
    [CQ_SUBMIT_NAMESPACE]   = CQ_LANE_INSERT_namespace,
    [CQ_SUBMIT_TAG]         = CQ_LANE_INSERT_instance_tag,
  };
  const CqArgDef *aDef = pPut->pD->pPut->aOpt;
  const CqVal *aOpt = pPut->aOpt;
  const CqSubmit *pOwn = (const CqSubmit*)&pPut->own;
  CqText none = {0, 0};
  int i;
  assert( pOwn->caps.z!=0 && pOwn->iAvailable>=0 );   /* xPutCheck() */
  for(i=0; i<CQ_SUBMIT_N; i++){
    if( aParam[i]==0 ) continue;
    if( aDef[i].eType==CQ_T_INT ) claimqBindInt(p, pS, aParam[i], aOpt[i].i);
    else claimqBindText(p, pS, aParam[i], aOpt[i].t);
  }
  claimqBindText(p, pS, CQ_LANE_INSERT_capabilities, pOwn->caps);
  claimqBindText(p, pS, CQ_LANE_INSERT_source_key,
                 pOwn->bNoKey ? none : aOpt[CQ_SUBMIT_KEY].t);
  claimqBindInt(p, pS, CQ_LANE_INSERT_available, pOwn->iAvailable);
  claimqBindText(p, pS, CQ_LANE_INSERT_on_failure,
      pOwn->after.n || aOpt[CQ_SUBMIT_ON_FAILURE].bGiven
      ? aOpt[CQ_SUBMIT_ON_FAILURE].t : none);
}

/*
** Write what the job waits for, and how long its source key is taken.  Does
** nothing after an error.
*/
static void cqSubmitRest(CqOp *p, CqPut *pPut){
  const CqSubmit *pOwn = (const CqSubmit*)&pPut->own;
  const CqVal *aOpt = pPut->aOpt;
  if( pOwn->after.n ) claimqLaneAfterWrite(p, pPut->task.iAnswer, &pOwn->after);
  if( aOpt[CQ_SUBMIT_UNIQUE].bGiven && aOpt[CQ_SUBMIT_KEY].bGiven
   && !pOwn->bNoKey
  ){
    claimqLaneAfterUnique(p, pPut->task.iAnswer, pPut->scope,
        aOpt[CQ_SUBMIT_KEY].t,
        claimqAddSat(claimqNow(p), aOpt[CQ_SUBMIT_UNIQUE].i));
  }
}

/*
** Write the job, then what does not stand in its row.  Without options a
** statement of fewer columns does it, and saves 7 %.
*/
CQ_PRIV void claimqLanePutWrite(CqOp *p, CqPut *pPut){
  CqStmt s;
  assert( pPut->pD==claimqLaneDiscipline() && pPut->scope.z!=0 );
  if( pPut->bPlain ){
    s = claimqStmt(p, CQ_SQL_LANE_INSERT_PLAIN);
    claimqBindText(p, &s, CQ_LANE_INSERT_PLAIN_lane, pPut->scope);
    claimqPutPayload(p, pPut, &s, CQ_LANE_INSERT_PLAIN_payload);
  }else{
    s = claimqStmt(p, CQ_SQL_LANE_INSERT);
    claimqBindText(p, &s, CQ_LANE_INSERT_lane, pPut->scope);
    claimqPutPayload(p, pPut, &s, CQ_LANE_INSERT_payload);
    cqSubmitBind(p, pPut, &s);
  }
  claimqBindNow(p, &s);
  claimqExec(p, &s);
  if( p->rc==SQLITE_OK ) pPut->task.iAnswer = sqlite3_last_insert_rowid(p->db);
  if( !pPut->bPlain ) cqSubmitRest(p, pPut);
}
