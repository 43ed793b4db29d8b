/*
** outbox/queue.c: queues, and claimq_queue(), which registers one.
**
**     SELECT claimq_queue('orders', 4);
**     -- 4
**
** A queue is as many rows of claimq_partition as it has partitions.
*/
#include "outbox.h"

/*
** Raise bad_argument unless a queue may have this name.
*/
CQ_PRIV void claimqQueueCheck(CqOp *p, CqText queue){
  if( p->rc || claimqQueueNameOk(queue) ) return;
  claimqFail(p, CQ_BAD_ARGUMENT, "queue must be of letters, digits, '.', '_' "
      "and '-', the first and last a letter or digit, got TEXT '%.*s'",
      claimqShown(queue), queue.z);
}

/*
** By OUTBOX_COUNT the number of partitions of a queue, by OUTBOX_THERE how many
** of them are there; 0 if it is not registered, or op has an error.  *pbFresh,
** if pbFresh is not 0: may it have messages without a number?
*/
static i64 cqQueueSize(CqOp *p, CqText queue, int eStmt, u8 *pbFresh){
  CqStmt s = claimqStmt(p, eStmt);
  i64 n = 0;
  claimqBindText(p, &s, CQ_OUTBOX_COUNT_queue, queue);
  if( claimqStep(p, &s) ){
    n = claimqColInt(&s, CQ_COL_OUTBOX_COUNT_n);
    if( pbFresh ) *pbFresh = claimqColInt(&s, CQ_COL_OUTBOX_COUNT_fresh)!=0;
  }
  claimqStmtDone(p, &s);
  return n;
}

/*
** Raise not_found if the queue is not registered; else return its size.
*/
CQ_PRIV i64 claimqQueueNeed(CqOp *p, CqText queue){
  u8 bFresh;
  return claimqQueueLook(p, queue, &bFresh);
}

/*
** The same, and *pbFresh: may it have messages without a number?
*/
CQ_PRIV i64 claimqQueueLook(CqOp *p, CqText queue, u8 *pbFresh){
  i64 n = cqQueueSize(p, queue, CQ_SQL_OUTBOX_COUNT, pbFresh);
  assert( p->rc==SQLITE_OK || n==0 );
  if( p->rc==SQLITE_OK && n<=0 ){
    claimqFail(p, CQ_NOT_FOUND, "queue '%.*s' is not registered: SELECT "
        "claimq_queue('%.*s', partitions)",
        queue.n, queue.z, queue.n, queue.z);
  }
  return n;
}

/*
** A partition was not found: say why.  Raises not_found or bad_argument.
*/
CQ_PRIV void claimqQueueMissing(CqOp *p, CqText queue, i64 iPartition){
  i64 n = claimqQueueNeed(p, queue);
  if( iPartition<n ){
    claimqFail(p, CQ_NOT_FOUND, "partition %lld of queue '%.*s' is missing: "
        "its row of claimq_partition was deleted: SELECT claimq_queue('%.*s', "
        "%lld)", iPartition, queue.n, queue.z, queue.n, queue.z, n);
  }
  claimqFail(p, CQ_BAD_ARGUMENT, "partition must be an integer from 0 to %lld "
      "for queue '%.*s', got %lld", n-1, queue.n, queue.z, iPartition);
}

/*
** claimq_queue(queue, partitions [, option, value]...) -> partitions.  Options
** of a queue that is registered already are changed if they are given, and
** partitions whose rows were deleted come back.
*/
typedef struct CqRegister CqRegister;
struct CqRegister {
  CqTask task;                    /* First */
  CqText queue;
  i64 nPartition;
  const CqVal *aOpt;
  int mSet;                       /* Bit i: option i is given, maybe as NULL */
  u8 bMissing;                    /* Partitions are to be written */
  u8 bDiffers;                    /* Options of others are */
};

/*
** Take a statement about the options.
*/
static CqStmt cqQueueOptions(CqOp *p, const CqRegister *pR, int eStmt){
  static const int aParam[CQ_QO_N] = {
    [CQ_QO_DEGRADE]     = CQ_OUTBOX_DIFFERS_degrade,
    [CQ_QO_LEASE]       = CQ_OUTBOX_DIFFERS_lease_ms,
    [CQ_QO_MAX]         = CQ_OUTBOX_DIFFERS_max,
    [CQ_QO_BACKOFF]     = CQ_OUTBOX_DIFFERS_backoff_ms,
    [CQ_QO_FACTOR]      = CQ_OUTBOX_DIFFERS_backoff_factor,
    [CQ_QO_BACKOFF_MAX] = CQ_OUTBOX_DIFFERS_backoff_max_ms,
    [CQ_QO_ATTEMPTS]    = CQ_OUTBOX_DIFFERS_max_attempts,
  };
  CqStmt s = claimqStmt(p, eStmt);
  int i;
  claimqBindText(p, &s, CQ_OUTBOX_DIFFERS_queue, pR->queue);
  for(i=0; i<CQ_QO_N; i++){
    const CqVal *pVal = &pR->aOpt[i];
    if( pVal->bGiven ) claimqBindInt(p, &s, aParam[i], pVal->i);
    else claimqBindNull(p, &s, aParam[i]);
  }
  if( eStmt!=CQ_SQL_OUTBOX_REGISTER ){
    claimqBindInt(p, &s, CQ_OUTBOX_DIFFERS_set, pR->mSet);
  }
  return s;
}

/*
** Is the queue there, and as it is to be?  A queue keeps the number of
** partitions it was registered with: another one raises conflict.
*/
static void cqQueueLoad(CqOp *p, CqTask *pTask){
  CqRegister *pR = (CqRegister*)pTask;
  i64 n = cqQueueSize(p, pR->queue, CQ_SQL_OUTBOX_COUNT, 0);
  i64 nThere = cqQueueSize(p, pR->queue, CQ_SQL_OUTBOX_THERE, 0);
  pR->bMissing = nThere<pR->nPartition;
  pR->bDiffers = 0;
  if( n!=0 && n!=pR->nPartition ){
    claimqFail(p, CQ_CONFLICT, "queue '%.*s' is registered with %lld "
        "partitions, not %lld", pR->queue.n, pR->queue.z, n, pR->nPartition);
  }else if( pR->mSet ){
    CqStmt s = cqQueueOptions(p, pR, CQ_SQL_OUTBOX_DIFFERS);
    pR->bDiffers = (u8)claimqStep(p, &s);
    claimqStmtDone(p, &s);
  }
  pTask->eNeed = pR->bMissing && pR->bDiffers ? CQ_NEED_MANY
               : pR->bMissing || pR->bDiffers ? CQ_NEED_ONE : CQ_NEED_NOTHING;
}

/*
** Register the queue, or what is missing of it, and change its options.
*/
static void cqQueueApply(CqOp *p, CqTask *pTask){
  CqRegister *pR = (CqRegister*)pTask;
  CqStmt s;
  assert( pR->nPartition>0 && pR->nPartition<=CQ_PARTITION_MAX );
  assert( pR->bMissing || pR->bDiffers );
  if( pR->bMissing ){
    s = cqQueueOptions(p, pR, CQ_SQL_OUTBOX_REGISTER);
    claimqBindInt(p, &s, CQ_OUTBOX_DIFFERS_partitions, pR->nPartition);
    claimqExec(p, &s);
  }
  if( pR->bDiffers ){
    s = cqQueueOptions(p, pR, CQ_SQL_OUTBOX_SET);
    claimqExec(p, &s);
  }
}

/*
** claimq_queue(queue, partitions [, option, value]...) -> partitions.
*/
CQ_PRIV void claimqQueueFunc(CqOp *p, CqCall *pCall){
  CqRegister r;
  int i;
  memset(&r, 0, sizeof(r));
  r.task.xLoad = cqQueueLoad;
  r.task.xApply = cqQueueApply;
  r.task.zWhat = "claimq_queue()";
  claimqMakes(p, &r.task, CQ_M_OUTBOX);
  r.queue = pCall->aArg[0].t;
  r.nPartition = r.task.iAnswer = pCall->aArg[1].i;
  r.aOpt = pCall->aOpt;
  for(i=0; i<CQ_QO_N; i++){
    if( r.aOpt[i].bGiven || (r.aOpt[i].pVal && i!=CQ_QO_DEGRADE) ){
      r.mSet |= 1<<i;
    }
  }
  claimqQueueCheck(p, r.queue);
  claimqRun(p, &r.task);
  claimqTaskResult(p, &r.task, pCall->pCtx);
}
