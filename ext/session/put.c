/*
** session/put.c: batches on their way into a session, and out of it before
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
  CqOp *p;                        /* Knows the time, once the lock is taken */
  char zId[CQ_BATCH_ID_SZ];       /* The batch id; empty: not made yet */
};
CQ_CHECK(Enqueue, sizeof(CqEnqueue)<=sizeof(CqPutOwn));

/*
** The batch id of the batch with key iSeq.  Making it here, and not by
** claimq_batch_id() in the statement, brings 4 % of an enqueue.
*/
static const char *cqEnqueueId(CqMaker *pMaker, i64 iSeq){
  CqEnqueue *pE = (CqEnqueue*)pMaker;
  assert( iSeq>0 && pE->session.z );
  claimqBatchId(pE->session, pE->key, claimqClock(pE->p), &iSeq, pE->zId);
  return pE->zId;
}

/*
** What the table of requests calls a source key that stays taken.
*/
static CqText cqEnqueueKept(const CqEnqueue *pE, char zOut[CQ_BATCH_ID_SZ]){
  claimqBatchId(pE->session, pE->key, 0, 0, zOut);
  memcpy(zOut, "key:", 4);
  return claimqStr(zOut);
}

/*
** The batch of a source key: a stored one, or one that is done and keeps it
** (unique_for_ms).  1 if *pS stands on its id.
*/
static int cqEnqueueTaken(CqOp *p, const CqPut *pPut, CqStmt *pS){
  const CqEnqueue *pE = (const CqEnqueue*)&pPut->own;
  char zKept[CQ_BATCH_ID_SZ];
  *pS = claimqStmt(p, CQ_SQL_SESSION_BY_KEY);
  claimqBindText(p, pS, CQ_SESSION_BY_KEY_session, pPut->scope);
  claimqBindText(p, pS, CQ_SESSION_BY_KEY_source_key, pE->key);
  if( claimqStep(p, pS) ) return 1;
  if( pPut->bSourceKeyFree ) return 0;
  claimqStmtDone(p, pS);
  *pS = claimqStmt(p, CQ_SQL_SESSION_KEPT);
  claimqBindText(p, pS, CQ_SESSION_KEPT_request, cqEnqueueKept(pE, zKept));
  claimqBindCommonInt(p, pS, CQ_P_now, claimqNow(p));
  return claimqStep(p, pS);
}
CQ_CHECK(EnqueueTaken, (int)CQ_COL_SESSION_BY_KEY_batch_id
                       ==(int)CQ_COL_SESSION_KEPT_batch_id);

/*
** The key stays taken: remember whose it is.
*/
static void cqEnqueueKeep(CqOp *p, const CqPut *pPut){
  const CqEnqueue *pE = (const CqEnqueue*)&pPut->own;
  char zKept[CQ_BATCH_ID_SZ];
  CqStmt s;
  if( pE->key.z==0 || !pPut->aOpt[CQ_E_UNIQUE].bGiven ) return;
  s = claimqStmt(p, CQ_SQL_SESSION_KEEP);
  claimqBindText(p, &s, CQ_SESSION_KEEP_request, cqEnqueueKept(pE, zKept));
  claimqBindText(p, &s, CQ_SESSION_KEEP_session, pE->session);
  claimqBindText(p, &s, CQ_SESSION_KEEP_source_key, pE->key);
  claimqBindText(p, &s, CQ_SESSION_KEEP_batch_id, claimqStr(pE->zId));
  claimqBindCommonInt(p, &s, CQ_P_until,
      claimqAddSat(claimqNow(p), pPut->aOpt[CQ_E_UNIQUE].i));
  if( claimqExec(p, &s)==0 ){
    claimqFail(p, CQ_CONFLICT, "a trigger on claimq_request left the row out");
  }
  claimqRequestForget(p, 2);
}

/*
** The source key: a batch that has it is the answer, unless the key may be left
** out.  The text of the answer never gets shorter than a batch id: if
** the task begins again, it may be needed for one.
*/
static void cqEnqueueLoad(CqOp *p, CqTask *pTask){
  CqPut *pPut = (CqPut*)pTask;
  CqEnqueue *pE = (CqEnqueue*)&pPut->own;
  CqStmt s;
  pTask->eNeed = claimqSessionKept(p) || pPut->aOpt[CQ_E_UNIQUE].bGiven
               ? CQ_NEED_UNDO : CQ_NEED_ONE;
  if( cqEnqueueTaken(p, pPut, &s) ){
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
** Nothing to look up, but two writes.
*/
static void cqEnqueueTwice(CqOp *p, CqTask *pTask){
  (void)p;
  pTask->eNeed = CQ_NEED_UNDO;
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
  claimqMakes(p->pConn->bChecked ? 0 : p, &pPut->task, CQ_M_SESSIONS);
  pE->maker.xMake = cqEnqueueId;
  pE->session = pPut->scope;
  pE->key = pPut->aOpt[CQ_E_SOURCE_KEY].t;
  pE->p = p;
  claimqDueCheck(p, &pPut->aOpt[CQ_E_AT], &pPut->aOpt[CQ_E_DELAY]);
  pPut->task.zAnswer = claimqMalloc(p, CQ_BATCH_ID_SZ);
  if( pE->key.z ) pPut->task.xLoad = cqEnqueueLoad;
  else if( pPut->task.bLacks || claimqSessionKept(p) ){
    pPut->task.xLoad = cqEnqueueTwice;
  }
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
    assert( pE->key.z==0 );
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
    claimqBindText(p, &s, CQ_SESSION_INSERT_headers, aOpt[CQ_E_HEADERS].t);
    claimqPutDue(p, &aOpt[CQ_E_AT], &aOpt[CQ_E_DELAY], &s);
  }
  claimqBindNow(p, &s);
  return s;
}

/*
** 1 for a batch as claimq_session thinks of most: see sql/schema/session.sql.
*/
static int cqEnqueueUsual(const CqPut *pPut){
  const CqVal *aOpt = pPut->aOpt;
  return aOpt[CQ_E_WORK].i==CQ_WORK_TURN
      && aOpt[CQ_E_DELIVERY].i==CQ_DELIVER_EARLIEST
      && !aOpt[CQ_E_AT].bGiven && !aOpt[CQ_E_DELAY].bGiven;
}

/*
** Write the batch.  The INSERT makes the batch id.
*/
CQ_PRIV void claimqEnqueueWrite(CqOp *p, CqPut *pPut){
  CqEnqueue *pE = (CqEnqueue*)&pPut->own;
  CqStmt s = cqEnqueueStmt(p, pPut);
  if( claimqExec(p, &s)==0 ){
    claimqFail(p, CQ_CONFLICT, "a trigger on claimq_batch left the row out");
  }
  /* If the settings have changed meanwhile, claimq__clock() knows. */
  if( p->pConn->mSettings & (CQ_SET_ANY_SESSION|CQ_SET_SERIAL) ){
    claimqSessionCame(p, pE->session, pPut->bPlain || cqEnqueueUsual(pPut));
  }
  cqEnqueueKeep(p, pPut);
  if( p->rc ) return;
  assert( pE->zId[0] );
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
