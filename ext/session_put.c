/*
** session_put.c: batches on their way into a session, and out of it before
** anybody has claimed them.
**
**     SELECT claimq_enqueue('chat-1', 'hi', 'source_key', 'm-7');  -- qwb:5d...
**     SELECT claimq_enqueue('chat-1', 'hi', 'source_key', 'm-7');  -- the same
**     SELECT claimq_cancel('qwb:5d...');                           -- cancelled
**
** An enqueue without a source key is one INSERT, and looks up nothing before.
*/
#include "session.h"

typedef struct CqEnqueue CqEnqueue;       /* CqPut.own */
struct CqEnqueue {
  CqMaker maker;                  /* First: makes the batch id */
  CqText session;
  CqText key;                     /* The source key, z==0: none */
  i64 iNow, iAvailable;
  char zId[CQ_BATCH_ID_SZ];       /* The batch id; empty: not made yet */
};
CQ_CHECK(Enqueue, sizeof(CqEnqueue)<=sizeof(CqOwn));

/*
** The batch id of the batch with key iSeq.  Making it here, and not by
** claimq_batch_id() in the statement, brings 4 % of an enqueue.
*/
static const char *cqEnqueueId(CqMaker *pMaker, i64 iSeq){
  CqEnqueue *pE = (CqEnqueue*)pMaker;
  assert( iSeq>0 && pE->session.z );
  claimqBatchId(pE->session, pE->key, pE->iNow, &iSeq, pE->zId);
  return pE->zId;
}

/*
** The source key: a stored batch that has it is the answer, unless the key may
** be left out.  The text of the answer never gets shorter than a batch id: if
** the task begins again, it may be needed for one.
*/
static void cqEnqueueLoad(CqOp *p, CqTask *pTask){
  CqPut *pPut = (CqPut*)pTask;
  CqEnqueue *pE = (CqEnqueue*)&pPut->own;
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_BY_KEY);
  claimqBindText(p, &s, CQ_SESSION_BY_KEY_session, pPut->scope);
  claimqBindText(p, &s, CQ_SESSION_BY_KEY_source_key, pE->key);
  pTask->eNeed = CQ_NEED_ONE;
  if( claimqStep(p, &s) ){
    CqText id = claimqColText(p, &s, CQ_COL_SESSION_BY_KEY_batch_id);
    if( pPut->bSourceKeyFree ){
      pE->key.z = 0;
    }else{
      if( id.n>=CQ_BATCH_ID_SZ ){
        sqlite3_free(pTask->zAnswer);
        pTask->zAnswer = claimqTextDup(p, id);
      }else if( p->rc==SQLITE_OK ){
        if( id.n ) memcpy(pTask->zAnswer, id.z, (size_t)id.n);
        pTask->zAnswer[id.n] = 0;
      }
      pTask->eNeed = CQ_NEED_NOTHING;
    }
  }
  claimqStmtDone(p, &s);
}

/*
** Check the options.  The room for the answer is had before anything is
** written.
*/
CQ_PRIV void claimqEnqueueCheck(CqOp *p, CqPut *pPut){
  CqEnqueue *pE = (CqEnqueue*)&pPut->own;
  CqText merge = pPut->aOpt[CQ_E_MERGE].t;
  if( !claimqMergeKeyOk(merge) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "merge_key must be 'never', "
        "'payload_default' or 'group:LABEL', got TEXT '%.*s'",
        claimqShown(merge), merge.z);
  }
  pE->maker.xMake = cqEnqueueId;
  pE->session = pPut->scope;
  pE->key = pPut->aOpt[CQ_E_SOURCE_KEY].t;
  pE->iNow = claimqClock(p);
  pE->iAvailable = claimqDueAt(p, &pPut->aOpt[CQ_E_AT],
                               &pPut->aOpt[CQ_E_DELAY]);
  pPut->task.zAnswer = claimqMalloc(p, CQ_BATCH_ID_SZ);
  if( pE->key.z ) pPut->task.xLoad = cqEnqueueLoad;
}

/*
** The statement that writes the batch, bound.  Without options it is one of
** fewer parameters, which saves 3 %.
*/
static CqStmt cqEnqueueStmt(CqOp *p, CqPut *pPut){
  CqEnqueue *pE = (CqEnqueue*)&pPut->own;
  const CqVal *aOpt = pPut->aOpt;
  CqStmt s;
  if( pPut->bPlain ){
    assert( pE->key.z==0 && pE->iAvailable==pE->iNow );
    s = claimqStmt(p, CQ_SQL_SESSION_INSERT_PLAIN);
    claimqBindPointer(p, &s, CQ_SESSION_INSERT_PLAIN_maker, pE, CQ_MAKER_TYPE);
    claimqBindText(p, &s, CQ_SESSION_INSERT_PLAIN_session, pE->session);
    claimqPutPayload(p, pPut, &s, CQ_SESSION_INSERT_PLAIN_payload);
  }else{
    s = claimqStmt(p, CQ_SQL_SESSION_INSERT);
    claimqBindPointer(p, &s, CQ_SESSION_INSERT_maker, pE, CQ_MAKER_TYPE);
    claimqBindText(p, &s, CQ_SESSION_INSERT_session, pE->session);
    claimqPutPayload(p, pPut, &s, CQ_SESSION_INSERT_payload);
    claimqBindText(p, &s, CQ_SESSION_INSERT_source_key, pE->key);
    claimqBindText(p, &s, CQ_SESSION_INSERT_work_class, aOpt[CQ_E_WORK].t);
    claimqBindText(p, &s, CQ_SESSION_INSERT_delivery_policy,
                   aOpt[CQ_E_DELIVERY].t);
    claimqBindText(p, &s, CQ_SESSION_INSERT_slot_policy, aOpt[CQ_E_SLOT].t);
    claimqBindText(p, &s, CQ_SESSION_INSERT_merge_key, aOpt[CQ_E_MERGE].t);
    claimqBindInt(p, &s, CQ_SESSION_INSERT_available, pE->iAvailable);
    claimqBindInt(p, &s, CQ_SESSION_INSERT_due,
                  pE->iAvailable<=pE->iNow ? -1 : pE->iAvailable);
  }
  claimqBindNow(p, &s);
  return s;
}

/*
** Write the batch.  The INSERT makes the batch id, unless this is the first
** batch ever, whose id a trigger makes.
*/
CQ_PRIV void claimqEnqueueWrite(CqOp *p, CqPut *pPut){
  CqEnqueue *pE = (CqEnqueue*)&pPut->own;
  CqStmt s = cqEnqueueStmt(p, pPut);
  if( claimqExec(p, &s)==0 ){
    claimqFail(p, CQ_CONFLICT, "a trigger on claimq_batch left the row out");
  }
  if( p->rc ) return;
  if( pE->zId[0]==0 ){
    cqEnqueueId(&pE->maker, sqlite3_last_insert_rowid(p->db));
  }
  memcpy(pPut->task.zAnswer, pE->zId, CQ_BATCH_ID_SZ);
}

/**************************************************************************
** claimq_cancel(batch_id)
*/
typedef struct CqSessionCancel CqSessionCancel;
struct CqSessionCancel {
  CqTask task;                    /* First */
  CqText batchId;
  i64 iSeq;
};

/*
** May the batch be taken out?  Not while a live claim holds it.
*/
static void cqCancelLoad(CqOp *p, CqTask *pTask){
  CqSessionCancel *pC = (CqSessionCancel*)pTask;
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_BY_BATCH_ID);
  claimqBindText(p, &s, CQ_SESSION_BY_BATCH_ID_batch_id, pC->batchId);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  pTask->zWord = "missing";
  if( claimqStep(p, &s) ){
    pC->iSeq = claimqColInt(&s, CQ_COL_SESSION_BY_BATCH_ID_enqueue_seq);
    pTask->zWord = "claimed";
    if( !claimqColInt(&s, CQ_COL_SESSION_BY_BATCH_ID_held) ){
      pTask->zWord = "cancelled";
      pTask->eNeed = CQ_NEED_ONE;
    }
  }
  claimqStmtDone(p, &s);
}

/*
** Take the batch out, unless a live claim has got it meanwhile: then the task
** begins again.
*/
static void cqCancelApply(CqOp *p, CqTask *pTask){
  CqSessionCancel *pC = (CqSessionCancel*)pTask;
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_CANCEL);
  assert( pTask->eNeed==CQ_NEED_ONE && pC->batchId.z );
  claimqBindInt(p, &s, CQ_SESSION_CANCEL_seq, pC->iSeq);
  claimqBindText(p, &s, CQ_SESSION_CANCEL_batch_id, pC->batchId);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  if( claimqExec(p, &s)!=1 ) claimqStale(p, pTask);
}

/*
** xCancel: the result is 'cancelled', 'claimed' or 'missing'.
*/
CQ_PRIV void claimqSessionCancel(
  CqOp *p, const CqVal *pKey, int bForce, sqlite3_context *pCtx
){
  CqSessionCancel c;
  memset(&c, 0, sizeof(c));
  (void)bForce;
  c.task.xLoad = cqCancelLoad;
  c.task.xApply = cqCancelApply;
  c.task.zWhat = "claimq_cancel()";
  c.batchId = pKey->t;
  claimqRun(p, &c.task);
  claimqTaskResult(p, &c.task, pCtx);
}
