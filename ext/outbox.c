/*
** outbox.c: the outbox discipline.  Messages of a partition are delivered in
** order, behind a cursor that one worker at a time has leased.
**
**     SELECT claimq_queue('orders', 4);
**     SELECT claimq_publish('orders', '{"id":7}', 'key', 'customer-1');
**     -- 1
**     SELECT partition, seq, payload, claim_id
**       FROM claimq_outbox('orders', 'worker-a');
**     -- 2|1|{"id":7}|qpc:3:1
**     SELECT claimq_complete('qpc:3:1', :lease_token);
**     -- 1
**
** The head row of a claim is the partition, not a message: a claim stamps one
** row of claimq_partition, however many messages it delivers, and a verb moves
** the cursor of that row.  What a verb does to cursor and attempts is decided
** by claimqProgress() of core_outbox.c, and one UPDATE writes it.  Only if
** messages become dead letters is there more to write: these letters, before
** the cursor moves.
**
** A partition whose claims make no progress delivers half as many messages
** each time, until the one that breaks its handler is alone.
**
** Any partition will do: the free ones that have messages stand in an index by
** how long they wait.  Those whose lease expired or whose delay passed since
** are a second stream (see "Due" in sql/schema.sql); the longer waiting of the
** two heads is taken.
*/
#include "claimq_int.h"
#include <stdlib.h>

/* Result columns of its own: the first columns of OUTBOX_MESSAGES. */
#define CQ_OUTBOX_COLS \
  "queue_name:t partition:i seq:i payload:b payload_type:t " \
  "created_at_ms:i"
#define CQ_OUTBOX_NCOL 6

/* Due partitions a claim may leave unpromoted: sorting so few is cheap. */
#define CQ_OUTBOX_DUE_FEW 16

/* QUEUE/PARTITION, the scope of a lease. */
#define CQ_SCOPE_SZ (CQ_QUEUE_NAME_MAX+32)

#define CQ_ARG_QUEUE { CQ_ARG(TEXT, "queue"), \
  .mFlag = CQ_A_REQUIRED|CQ_A_NAME, \
  .iMin = 1, .iMax = CQ_QUEUE_NAME_MAX, .eRole = CQ_ROLE_SCOPE, \
  .zDoc = "the name of the queue" }

/**************************************************************************
** Queues
*/

/*
** Raise bad_argument unless a queue may have this name.
*/
static void cqQueueCheck(CqOp *p, CqText queue){
  if( p->rc || claimqQueueNameOk(queue) ) return;
  claimqFail(p, CQ_BAD_ARGUMENT, "queue must be of letters, digits, '.', '_' "
      "and '-', the first and last a letter or digit, got TEXT '%.*s'",
      claimqShown(queue), queue.z);
}

/*
** By OUTBOX_COUNT the number of partitions of a queue, by OUTBOX_THERE how many
** of them are there; 0 if it is not registered, or op has an error.
*/
static i64 cqQueueSize(CqOp *p, CqText queue, int eStmt){
  CqStmt s = claimqStmt(p, eStmt);
  i64 n = 0;
  claimqBindText(p, &s, CQ_OUTBOX_COUNT_queue, queue);
  if( claimqStep(p, &s) ) n = claimqColInt(&s, CQ_COL_OUTBOX_COUNT_n);
  claimqStmtDone(p, &s);
  return n;
}

/*
** Raise not_found if the queue is not registered; else return its size.
*/
static i64 cqQueueNeed(CqOp *p, CqText queue){
  i64 n = cqQueueSize(p, queue, CQ_SQL_OUTBOX_COUNT);
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
static void cqQueueMissing(CqOp *p, CqText queue, i64 iPartition){
  i64 n = cqQueueNeed(p, queue);
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
  const CqVal *pDegrade;
  u8 bMissing;                    /* Partitions are to be written */
  u8 bDegrade;                    /* The option of others is */
};

static const CqArgDef cqQueueArg[] = {
  CQ_ARG_QUEUE,
  { CQ_ARG(INT, "partitions"), .mFlag = CQ_A_REQUIRED, .iMin = 1,
    .iMax = CQ_PARTITION_MAX, .zDoc = "how many can be worked on at a time" },
};
#define CQ_QO_DEGRADE 0
static const CqArgDef cqQueueOpt[] = {
  { CQ_ARG(INT, "degrade"), .iDefault = 1, .iMax = 1,
    .zDoc = "1: a partition that failed gets smaller batches" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

/*
** Take a statement about option degrade.
*/
static CqStmt cqQueueDegrade(CqOp *p, const CqRegister *pR, int eStmt){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_OUTBOX_DEGRADES_queue, pR->queue);
  claimqBindInt(p, &s, CQ_OUTBOX_DEGRADES_degrade, pR->pDegrade->i);
  return s;
}

/*
** Is the queue there, and as it is to be?  A queue keeps the number of
** partitions it was registered with: another one raises conflict.
*/
static void cqQueueLoad(CqOp *p, CqTask *pTask){
  CqRegister *pR = (CqRegister*)pTask;
  i64 n = cqQueueSize(p, pR->queue, CQ_SQL_OUTBOX_COUNT);
  pR->bMissing = cqQueueSize(p, pR->queue, CQ_SQL_OUTBOX_THERE)<pR->nPartition;
  pR->bDegrade = 0;
  if( n!=0 && n!=pR->nPartition ){
    claimqFail(p, CQ_CONFLICT, "queue '%.*s' is registered with %lld "
        "partitions, not %lld", pR->queue.n, pR->queue.z, n, pR->nPartition);
  }else if( pR->pDegrade->bGiven ){
    CqStmt s = cqQueueDegrade(p, pR, CQ_SQL_OUTBOX_DEGRADES);
    pR->bDegrade = (u8)claimqStep(p, &s);
    claimqStmtDone(p, &s);
  }
  pTask->eNeed = pR->bMissing && pR->bDegrade ? CQ_NEED_MANY
               : pR->bMissing || pR->bDegrade ? CQ_NEED_ONE : CQ_NEED_NOTHING;
}

/*
** Register the queue, or what is missing of it, and change its one option.
*/
static void cqQueueApply(CqOp *p, CqTask *pTask){
  CqRegister *pR = (CqRegister*)pTask;
  const CqVal *pDegrade = pR->pDegrade;
  CqStmt s;
  assert( pR->nPartition>0 && pR->nPartition<=CQ_PARTITION_MAX );
  assert( pR->bMissing || pR->bDegrade );
  if( pR->bMissing ){
    s = claimqStmt(p, CQ_SQL_OUTBOX_REGISTER);
    claimqBindText(p, &s, CQ_OUTBOX_REGISTER_queue, pR->queue);
    claimqBindInt(p, &s, CQ_OUTBOX_REGISTER_partitions, pR->nPartition);
    if( pDegrade->bGiven ){
      claimqBindInt(p, &s, CQ_OUTBOX_REGISTER_degrade, pDegrade->i);
    }else{
      claimqBindNull(p, &s, CQ_OUTBOX_REGISTER_degrade);
    }
    claimqExec(p, &s);
  }
  if( pR->bDegrade ){
    s = cqQueueDegrade(p, pR, CQ_SQL_OUTBOX_DEGRADE);
    claimqExec(p, &s);
  }
}

/*
** claimq_queue(queue, partitions [, option, value]...) -> partitions.
*/
static void cqQueueFunc(CqOp *p, CqCall *pCall){
  CqRegister r;
  memset(&r, 0, sizeof(r));
  r.task.xLoad = cqQueueLoad;
  r.task.xApply = cqQueueApply;
  r.task.zWhat = "claimq_queue()";
  r.queue = pCall->aArg[0].t;
  r.nPartition = r.task.iAnswer = pCall->aArg[1].i;
  r.pDegrade = &pCall->aOpt[CQ_QO_DEGRADE];
  cqQueueCheck(p, r.queue);
  claimqRun(p, &r.task);
  claimqTaskResult(p, &r.task, pCall->pCtx);
}

/**************************************************************************
** Publish: claimq_publish(queue, payload [, option, value]...) -> seq
*/
static const CqArgDef cqPublishArg[] = {
  CQ_ARG_QUEUE,
  { CQ_ARG(ANY, "payload"), .zDoc = "any value; it comes back as it is" },
};

#define CQ_PUB_PARTITION 0
#define CQ_PUB_KEY       1
#define CQ_PUB_TYPE      2
#define CQ_PUB_SOURCE    3
static const CqArgDef cqPublishOpt[] = {
  { CQ_ARG(INT, "partition"), .iMax = CQ_PARTITION_MAX-1,
    .zDoc = "which partition; 0 if neither this nor key is given" },
  { CQ_ARG(ANY, "key"), .zDoc = "equal keys go to the same partition" },
  { CQ_ARG(TEXT, "payload_type"), .zDefault = "application/json",
    .iMin = 1, .iMax = CQ_PAYLOAD_TYPE_MAX,
    .zDoc = "what the payload is, for readers" },
  { CQ_ARG(TEXT, "source_key"),
    .zDoc = "a message of the queue that has it already is the answer" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

typedef struct CqPublish CqPublish;       /* CqPut.own */
struct CqPublish {
  CqText key;                     /* z==0: none was given */
  char zKey[24];                  /* A key that is a number, as text */
  CqText sourceKey;               /* z==0: none */
  i64 iPartition;
};
CQ_CHECK(Publish, sizeof(CqPublish)<=sizeof(CqOwn));

/*
** A key is text; a whole number will do, and means its decimal digits.  Raises
** bad_argument for anything else, and if a partition is given as well.
*/
static void cqPublishKey(CqOp *p, CqPut *pPut){
  static const CqArgDef text = { CQ_ARG(TEXT, "key") };
  static const CqArgDef number = { CQ_ARG(INT, "key"), .iMin = CQ_I64_MIN };
  CqPublish *pOwn = (CqPublish*)&pPut->own;
  const CqVal *pOpt = &pPut->aOpt[CQ_PUB_KEY];
  CqVal v;
  int eType;
  assert( pOwn->key.z==0 );
  if( p->rc || !pOpt->bGiven ) return;
  eType = pOpt->pVal ? sqlite3_value_type(pOpt->pVal) : SQLITE_NULL;
  if( eType==SQLITE_NULL ){
    pOwn->key = pOpt->t;          /* From a letter that somebody edited */
  }else if( eType==SQLITE_INTEGER || eType==SQLITE_FLOAT ){
    claimqRead(p, &number, pOpt->pVal, &v);
    pOwn->key.n = claimqI64Text(v.i, pOwn->zKey);
    pOwn->key.z = pOwn->zKey;
  }else{
    claimqRead(p, &text, pOpt->pVal, &v);
    pOwn->key = v.t;
  }
  if( pPut->aOpt[CQ_PUB_PARTITION].bGiven ){
    claimqFail(p, CQ_BAD_ARGUMENT, "give partition or key, not both");
  }
}

/*
** xPutBack: the scope of a letter is QUEUE/PARTITION, and the payload's type is
** the letter's.
*/
static void cqPublishBack(
  CqOp *p, CqPut *pPut, CqVal *aOpt, CqText payloadType
){
  CqText *pScope = &pPut->scope;
  CqText number;
  int n = pScope->n;
  if( p->rc ) return;
  while( n>0 && pScope->z[n-1]!='/' ) n--;
  if( n>0 ){
    number.z = &pScope->z[n];
    number.n = pScope->n-n;
    pScope->n = n-1;
    if( !aOpt[CQ_PUB_PARTITION].bGiven && !aOpt[CQ_PUB_KEY].bGiven ){
      claimqI64Parse(number, &aOpt[CQ_PUB_PARTITION].i);
    }
  }
  if( payloadType.z ) aOpt[CQ_PUB_TYPE].t = payloadType;
}

/*
** Is the source key taken?  1: by message pPut->task.iAnswer.
*/
static int cqPublishStored(CqOp *p, CqPut *pPut){
  CqPublish *pOwn = (CqPublish*)&pPut->own;
  CqStmt s = claimqStmt(p, CQ_SQL_OUTBOX_STORED);
  int bStored;
  assert( pOwn->sourceKey.z );
  claimqBindText(p, &s, CQ_OUTBOX_STORED_queue, pPut->scope);
  claimqBindText(p, &s, CQ_OUTBOX_STORED_source_key, pOwn->sourceKey);
  bStored = claimqStep(p, &s);
  if( bStored ) pPut->task.iAnswer = claimqColInt(&s, CQ_COL_OUTBOX_STORED_seq);
  claimqStmtDone(p, &s);
  return bStored;
}

/*
** xLoad of a message with a key or a source key.  If the source key is taken
** its message is the answer; work that comes back from a letter goes without.
*/
static void cqPublishLoad(CqOp *p, CqTask *pTask){
  CqPut *pPut = (CqPut*)pTask;
  CqPublish *pOwn = (CqPublish*)&pPut->own;
  pOwn->sourceKey = pPut->aOpt[CQ_PUB_SOURCE].t;
  if( pOwn->sourceKey.z && cqPublishStored(p, pPut) ){
    if( !pPut->bSourceKeyFree ) return;
    pOwn->sourceKey.z = 0;
  }
  if( pOwn->key.z ){
    i64 n = cqQueueNeed(p, pPut->scope);
    if( p->rc ) return;
    pOwn->iPartition = claimqKeyPartition(pOwn->key, n);
    assert( pOwn->iPartition>=0 && pOwn->iPartition<n );
  }
  pTask->eNeed = CQ_NEED_ONE;
}

/*
** xPutCheck: only keys must be looked up.  Raises bad_argument.
*/
static void cqPublishCheck(CqOp *p, CqPut *pPut){
  CqPublish *pOwn = (CqPublish*)&pPut->own;
  CqText type = pPut->aOpt[CQ_PUB_TYPE].t;
  cqQueueCheck(p, pPut->scope);
  cqPublishKey(p, pPut);
  if( p->rc==SQLITE_OK && !claimqPayloadTypeOk(type) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "payload_type must be of printable ASCII "
        "characters, got TEXT '%.*s'", claimqShown(type), type.z);
  }
  pOwn->iPartition = pPut->aOpt[CQ_PUB_PARTITION].i;
  if( pOwn->key.z || pPut->aOpt[CQ_PUB_SOURCE].bGiven ){
    pPut->task.xLoad = cqPublishLoad;
  }
}

/*
** xPutWrite.  A trigger of the table refuses a message for a partition that
** does not exist: here it can be said in better words.  Then the statement
** has noted 0 for the next number of the partition; any other error leaves -1,
** or a number.
*/
static void cqPublishWrite(CqOp *p, CqPut *pPut){
  CqPublish *pOwn = (CqPublish*)&pPut->own;
  CqStmt s = claimqStmt(p, CQ_SQL_OUTBOX_PUBLISH);
  pPut->task.iAnswer = -1;
  claimqBindText(p, &s, CQ_OUTBOX_PUBLISH_queue, pPut->scope);
  claimqBindInt(p, &s, CQ_OUTBOX_PUBLISH_partition, pOwn->iPartition);
  claimqPutPayload(p, pPut, &s, CQ_OUTBOX_PUBLISH_payload);
  claimqBindText(p, &s, CQ_OUTBOX_PUBLISH_type, pPut->aOpt[CQ_PUB_TYPE].t);
  claimqBindText(p, &s, CQ_OUTBOX_PUBLISH_source_key, pOwn->sourceKey);
  claimqBindNow(p, &s);
  claimqBindPointer(p, &s, CQ_OUTBOX_PUBLISH_seq, &pPut->task.iAnswer,
      CQ_NOTE_TYPE);
  if( claimqExec(p, &s)==0 ){
    claimqFail(p, CQ_CONFLICT, "a trigger on claimq_message left the row out");
  }
  if( p->rc==SQLITE_ERROR && pPut->task.iAnswer==0 ){
    claimqOpReset(p);
    cqQueueMissing(p, pPut->scope, pOwn->iPartition);
  }
}

/**************************************************************************
** Claim
*/
#define CQ_OUTBOX_QUEUE     0     /* Arguments */
#define CQ_OUTBOX_MAX       3
#define CQ_OUTBOX_PARTITION 5
static const CqArgDef cqOutboxArg[] = {
  CQ_ARG_QUEUE,
  CQ_ARG_OWNER,
  CQ_ARG_TTL,
  { CQ_ARG(INT, "max_messages"), .iDefault = 100, .eRole = CQ_ROLE_MAX,
    .zDoc = "deliver at most so many messages" },
  CQ_ARG_INCARNATION,
  { CQ_ARG(INT, "partition"), .iMax = CQ_PARTITION_MAX-1, .mFlag = CQ_A_LOOK,
    .zDoc = "only this partition; any if not given" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

typedef struct CqOutboxClaim CqOutboxClaim;       /* CqClaim.own */
struct CqOutboxClaim {
  i64 iCursor, iFence;            /* Of the partition, when it was read */
  i64 iLast;                      /* Last message delivered */
  int nDue;                       /* Unpromoted partitions met, up to FEW */
};
CQ_CHECK(OutboxClaim, sizeof(CqOutboxClaim)<=sizeof(CqOwn));

/*
** Write QUEUE/PARTITION, return it as a text.
*/
static CqText cqOutboxScope(CqText queue, i64 iPartition, char *zBuf){
  CqText t;
  assert( queue.z && queue.n<=CQ_QUEUE_NAME_MAX );
  memcpy(zBuf, queue.z, (size_t)queue.n);
  zBuf[queue.n] = '/';
  t.z = zBuf;
  t.n = queue.n + 1 + claimqI64Text(iPartition, &zBuf[queue.n+1]);
  return t;
}

/*
** Add the message that pMsg stands on, of the partition that pPart stands on,
** to the rows for the caller.
*/
static void cqOutboxTake(
  CqOp *p, CqClaim *pC, const CqStmt *pPart, const CqStmt *pMsg
){
  CqOutboxClaim *pOwn = (CqOutboxClaim*)&pC->own;
  CqCell *a = claimqRowsAdd(p, pC->pRows);
  claimqCellColumns(p, pC->pRows, a, pMsg, CQ_OUTBOX_NCOL);
  if( p->rc ) return;
  pOwn->iLast = claimqColInt(pMsg, CQ_COL_OUTBOX_MESSAGES_seq);
  claimqLeaseCells(p, pC->pRows, &a[CQ_OUTBOX_NCOL], &pC->lease,
                   claimqColText(p, pPart, CQ_COL_OUTBOX_READY_claim_id),
                   claimqColInt(pPart, CQ_COL_OUTBOX_READY_attempts));
}

/*
** At most so many messages of the partition that pPart stands on.
*/
static i64 cqOutboxMost(const CqClaim *pC, const CqStmt *pPart){
  i64 n = pC->aArg[CQ_OUTBOX_MAX].i;
  if( claimqColInt(pPart, CQ_COL_OUTBOX_READY_degrade) ){
    n = claimqDegrade(n, claimqColInt(pPart, CQ_COL_OUTBOX_READY_attempts));
  }
  return n<pC->nMax ? n : pC->nMax;
}

/*
** Take the statement that gives the first nMax messages of the partition that
** pPart stands on.
*/
static CqStmt cqOutboxMessages(
  CqOp *p, const CqClaim *pC, const CqStmt *pPart, i64 nMax
){
  CqStmt s = claimqStmt(p, CQ_SQL_OUTBOX_MESSAGES);
  claimqBindText(p, &s, CQ_OUTBOX_MESSAGES_queue, pC->aArg[CQ_OUTBOX_QUEUE].t);
  claimqBindInt(p, &s, CQ_OUTBOX_MESSAGES_partition,
                claimqColInt(pPart, CQ_COL_OUTBOX_READY_partition));
  claimqBindInt(p, &s, CQ_OUTBOX_MESSAGES_cursor,
                claimqColInt(pPart, CQ_COL_OUTBOX_READY_processed_seq));
  claimqBindInt(p, &s, CQ_OUTBOX_MESSAGES_last,
                claimqColInt(pPart, CQ_COL_OUTBOX_READY_last_seq));
  claimqBindInt(p, &s, CQ_OUTBOX_MESSAGES_limit, nMax);
  return s;
}

/*
** The first message of the partition that pPart stands on, if bMsg the one that
** pMsg stands on: is that what waiting_since_ms says?  If not, the partition is
** listed for repair.  (INSERT OR REPLACE fires no trigger for a message that is
** replaced.)
*/
static int cqOutboxKnown(
  CqOp *p, CqClaim *pC, const CqStmt *pPart, const CqStmt *pMsg, int bMsg
){
  int bSince = claimqColType(pPart, CQ_COL_OUTBOX_READY_waiting_since_ms)
               !=SQLITE_NULL;
  if( p->rc
   || (bMsg==bSince && (!bMsg
        || claimqColInt(pMsg, CQ_COL_OUTBOX_MESSAGES_created_at_ms)
           ==claimqColInt(pPart, CQ_COL_OUTBOX_READY_waiting_since_ms)))
  ){
    return 1;
  }
  claimqIdsAdd(p, &pC->ids,
               claimqColInt(pPart, CQ_COL_OUTBOX_READY_partition_id));
  return 0;
}

/*
** Deliver messages of the partition that pPart stands on: 1 if there are any,
** or op has an error.  With pBest it was taken for how long it waits, and
** delivers nothing if that is not true: then it is the best so far if it waits
** longer than the one that is.
*/
static int cqOutboxDeliver(
  CqOp *p, CqClaim *pC, const CqStmt *pPart, CqWaiting *pBest
){
  CqOutboxClaim *pOwn = (CqOutboxClaim*)&pC->own;
  CqStmt s = cqOutboxMessages(p, pC, pPart, cqOutboxMost(pC, pPart));
  int bMsg = claimqStep(p, &s);
  char zScope[CQ_SCOPE_SZ];
  if( !cqOutboxKnown(p, pC, pPart, &s, bMsg) && bMsg && pBest ){
    CqWaiting w;
    w.iPartition = claimqColInt(pPart, CQ_COL_OUTBOX_READY_partition);
    w.iSince = claimqColInt(&s, CQ_COL_OUTBOX_MESSAGES_created_at_ms);
    if( pBest->iPartition<0 || claimqWaitsLonger(&w, pBest) ) *pBest = w;
    bMsg = 0;
  }
  if( !bMsg ){
    claimqStmtDone(p, &s);
    return p->rc!=SQLITE_OK;
  }
  assert( pC->pRows->nRow==0 );   /* A claim is of one partition */
  pOwn->iCursor = claimqColInt(pPart, CQ_COL_OUTBOX_READY_processed_seq);
  pOwn->iFence = claimqColInt(pPart, CQ_COL_OUTBOX_READY_fencing_token);
  claimqLeaseMake(p, &pC->lease, pC,
      claimqColInt(pPart, CQ_COL_OUTBOX_READY_partition_id), pOwn->iFence,
      cqOutboxScope(pC->aArg[CQ_OUTBOX_QUEUE].t,
          claimqColInt(pPart, CQ_COL_OUTBOX_READY_partition), zScope));
  do{
    cqOutboxTake(p, pC, pPart, &s);
  }while( claimqStep(p, &s) );
  claimqStmtDone(p, &s);
  return 1;
}

/*
** Why a claim does not take the partition that pPart stands on: a CQ_WHY_*
** reason.  An index cannot know, because time may go back.
*/
static int cqOutboxWhy(CqOp *p, const CqStmt *pPart){
  return claimqRowWhy(
      claimqColInt(pPart, CQ_COL_OUTBOX_READY_available_at_ms),
      claimqColType(pPart, CQ_COL_OUTBOX_READY_claim_id)!=SQLITE_NULL,
      claimqColInt(pPart, CQ_COL_OUTBOX_READY_expires_at_ms), claimqNow(p));
}

/*
** Find a partition of the queue.  *pS stands on it: 1.  If it is not there op
** has an error: 0.  The caller gives *pS back.
*/
static int cqOutboxFind(
  CqOp *p, const CqClaim *pC, i64 iPartition, CqStmt *pS
){
  CqText queue = pC->aArg[CQ_OUTBOX_QUEUE].t;
  *pS = claimqStmt(p, CQ_SQL_OUTBOX_FIND);
  claimqBindText(p, pS, CQ_OUTBOX_READY_queue, queue);
  claimqBindInt(p, pS, CQ_OUTBOX_READY_partition, iPartition);
  if( claimqStep(p, pS) ) return 1;
  if( p->rc==SQLITE_OK ) cqQueueMissing(p, queue, iPartition);
  return 0;
}

/*
** This partition, if it is free and has messages: 1, or op has an error.
*/
static int cqOutboxOne(CqOp *p, CqClaim *pC, i64 iPartition){
  int bDone = 0;
  CqStmt s;
  if( cqOutboxFind(p, pC, iPartition, &s)
   && cqOutboxWhy(p, &s)==CQ_WHY_CLAIMABLE
  ){
    bDone = cqOutboxDeliver(p, pC, &s, 0);
  }
  claimqStmtDone(p, &s);
  return bDone;
}

/*
** Take one of the statements that look at all partitions of the queue that are
** free by iNow.
*/
static CqStmt cqOutboxStream(CqOp *p, const CqClaim *pC, int eStmt, i64 iNow){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_OUTBOX_READY_queue, pC->aArg[CQ_OUTBOX_QUEUE].t);
  claimqBindCommonInt(p, &s, CQ_P_now, iNow);
  return s;
}

#define CQ_AT_END   0
#define CQ_AT_READY 1
#define CQ_AT_DUE   2

/*
** Move pReady on to the next partition that is ready and free, CQ_AT_READY.
** If there is none: CQ_AT_DUE if others have become due, else CQ_AT_END, also
** if op has an error.
*/
static int cqOutboxNextReady(CqOp *p, CqStmt *pReady){
  while( claimqStep(p, pReady) ){
    if( claimqColInt(pReady, CQ_COL_OUTBOX_READY_due)>=0 ) return CQ_AT_DUE;
    if( cqOutboxWhy(p, pReady)==CQ_WHY_CLAIMABLE ) return CQ_AT_READY;
  }
  return CQ_AT_END;
}

/*
** How long the partition that pStmt stands on has waited, for comparison.
*/
static CqWaiting cqOutboxWaiting(const CqStmt *pStmt){
  CqWaiting w;
  w.iSince = claimqColInt(pStmt, CQ_COL_OUTBOX_READY_waiting_since_ms);
  w.iPartition = claimqColInt(pStmt, CQ_COL_OUTBOX_READY_partition);
  return w;
}

/*
** 1 if the head of pDue goes before the head of pReady.
*/
static int cqOutboxDueFirst(const CqStmt *pReady, const CqStmt *pDue){
  CqWaiting ready = cqOutboxWaiting(pReady);
  CqWaiting due = cqOutboxWaiting(pDue);
  return claimqWaitsLonger(&due, &ready);
}

/*
** Any partition, the longest waiting first.  The one that is thought to be that
** is taken at once if it is; else the best of those that were found to wait
** less goes in line with those that come next.  Raises not_found if there is
** nothing to deliver because there is no such queue.
*/
static void cqOutboxAny(CqOp *p, CqClaim *pC){
  CqOutboxClaim *pOwn = (CqOutboxClaim*)&pC->own;
  i64 iNow = claimqNow(p);
  CqStmt ready = cqOutboxStream(p, pC, CQ_SQL_OUTBOX_READY, iNow);
  int eReady = cqOutboxNextReady(p, &ready);
  int bDue = 0, bDone = 0;
  CqWaiting best = {0, -1};
  CqStmt due;
  memset(&due, 0, sizeof(due));
  if( eReady!=CQ_AT_END ){
    due = cqOutboxStream(p, pC, CQ_SQL_OUTBOX_DUE, iNow);
    bDue = claimqStep(p, &due);
  }
  pOwn->nDue = bDue;
  while( !bDone && (eReady==CQ_AT_READY || bDue) && p->rc==SQLITE_OK ){
    int bTakeDue = bDue
        && (eReady!=CQ_AT_READY || cqOutboxDueFirst(&ready, &due));
    const CqStmt *pPart = bTakeDue ? &due : &ready;
    CqWaiting next = cqOutboxWaiting(pPart);
    if( best.iPartition>=0 && claimqWaitsLonger(&best, &next) ) break;
    bDone = cqOutboxDeliver(p, pC, pPart, &best);
    if( bTakeDue ) pOwn->nDue += (bDue = claimqStep(p, &due));
    else if( !bDone ) eReady = cqOutboxNextReady(p, &ready);
  }
  if( !bDone && best.iPartition>=0 ){
    bDone = cqOutboxOne(p, pC, best.iPartition);
  }
  while( bDone && bDue && pOwn->nDue<CQ_OUTBOX_DUE_FEW ){
    pOwn->nDue += (bDue = claimqStep(p, &due));
  }
  claimqStmtDone(p, &ready);
  claimqStmtDone(p, &due);
  assert( p->rc || bDone==(pC->pRows->nRow>0) );
  if( !bDone ) cqQueueNeed(p, pC->aArg[CQ_OUTBOX_QUEUE].t);
}

/*
** xArgs.  A claim that may take nothing is told of a wrong queue or partition
** all the same: bad_argument, not_found.
*/
static void cqOutboxArgs(CqOp *p, CqClaim *pC){
  CqText queue = pC->aArg[CQ_OUTBOX_QUEUE].t;
  CqStmt s;
  cqQueueCheck(p, queue);
  if( pC->nMax>0 || p->rc ) return;
  if( pC->aArg[CQ_OUTBOX_PARTITION].bGiven ){
    cqOutboxFind(p, pC, pC->aArg[CQ_OUTBOX_PARTITION].i, &s);
    claimqStmtDone(p, &s);
  }else{
    cqQueueNeed(p, queue);
  }
}

/*
** xNext.  One row is written, however many messages are delivered; if many
** partitions have become free meanwhile they are put in line first, and what is
** wrongly known of others is repaired.
*/
static void cqOutboxNext(CqOp *p, CqClaim *pC){
  CqOutboxClaim *pOwn = (CqOutboxClaim*)&pC->own;
  const CqVal *pPartition = &pC->aArg[CQ_OUTBOX_PARTITION];
  pOwn->nDue = 0;
  if( pPartition->bGiven ) cqOutboxOne(p, pC, pPartition->i);
  else cqOutboxAny(p, pC);
  if( pC->pRows->nRow==0 ) return;
  pC->task.eNeed = pOwn->nDue>=CQ_OUTBOX_DUE_FEW || pC->ids.n
                 ? CQ_NEED_TIDY : CQ_NEED_ONE;
}

/*
** When the partition that pPart stands on could be claimed; CQ_NO_TIME if it
** has nothing to deliver.
*/
static i64 cqOutboxFreeAt(CqOp *p, const CqClaim *pC, const CqStmt *pPart){
  i64 iAt = claimqColInt(pPart, CQ_COL_OUTBOX_READY_available_at_ms);
  i64 iExpires = claimqColInt(pPart, CQ_COL_OUTBOX_READY_expires_at_ms);
  CqStmt s = cqOutboxMessages(p, pC, pPart, 1);
  if( iAt<iExpires ) iAt = iExpires;
  if( cqOutboxWhy(p, pPart)==CQ_WHY_CLAIMABLE ) iAt = claimqNow(p);
  if( !claimqStep(p, &s) ) iAt = CQ_NO_TIME;
  claimqStmtDone(p, &s);
  return iAt;
}

/*
** xNextAt.  The partitions come by the time at which they are free, but for
** those that are thought to be ready and are not, because time went back.
*/
static i64 cqOutboxNextAt(CqOp *p, CqClaim *pC){
  i64 iAt = CQ_NO_TIME;
  CqStmt s;
  if( pC->aArg[CQ_OUTBOX_PARTITION].bGiven ){
    if( cqOutboxFind(p, pC, pC->aArg[CQ_OUTBOX_PARTITION].i, &s) ){
      iAt = cqOutboxFreeAt(p, pC, &s);
    }
    claimqStmtDone(p, &s);
    return iAt;
  }
  s = cqOutboxStream(p, pC, CQ_SQL_OUTBOX_READY, CQ_I64_MAX);
  while( iAt!=claimqNow(p) && claimqStep(p, &s)
      && (iAt==CQ_NO_TIME || claimqColInt(&s, CQ_COL_OUTBOX_READY_due)<iAt) ){
    iAt = claimqSooner(iAt, cqOutboxFreeAt(p, pC, &s));
  }
  claimqStmtDone(p, &s);
  if( iAt==CQ_NO_TIME ) cqQueueNeed(p, pC->aArg[CQ_OUTBOX_QUEUE].t);
  return iAt;
}

/*
** xWhy: partitions that have something to deliver.
*/
static void cqOutboxWhyAll(CqOp *p, CqClaim *pC, CqWhy *pWhy){
  const CqVal *pPartition = &pC->aArg[CQ_OUTBOX_PARTITION];
  CqStmt s;
  cqQueueNeed(p, pC->aArg[CQ_OUTBOX_QUEUE].t);
  if( pPartition->bGiven ){
    cqOutboxFind(p, pC, pPartition->i, &s);
    claimqStmtDone(p, &s);
  }
  s = claimqStmt(p, CQ_SQL_OUTBOX_WHY);
  claimqBindText(p, &s, CQ_OUTBOX_READY_queue, pC->aArg[CQ_OUTBOX_QUEUE].t);
  while( claimqStep(p, &s) ){
    i64 iPartition = claimqColInt(&s, CQ_COL_OUTBOX_READY_partition);
    int eWhy = cqOutboxWhy(p, &s);
    i64 iUntil = claimqWhyUntil(eWhy,
        claimqColInt(&s, CQ_COL_OUTBOX_READY_available_at_ms),
        claimqColInt(&s, CQ_COL_OUTBOX_READY_expires_at_ms));
    CqStmt msg = cqOutboxMessages(p, pC, &s, 1);
    int bAny = claimqStep(p, &msg);
    claimqStmtDone(p, &msg);
    if( !bAny ) continue;
    if( pPartition->bGiven && iPartition!=pPartition->i ){
      eWhy = CQ_WHY_PARTITION;
      iUntil = CQ_NO_TIME;
    }
    claimqWhyAdd(p, pWhy, eWhy, 0, iPartition, iUntil);
  }
  claimqStmtDone(p, &s);
}

/*
** xRows: the messages of a claim that was made before, if it holds.
*/
static void cqOutboxRows(CqOp *p, CqClaim *pC, CqText claimId){
  i64 iHead, iFence;
  CqStmt s;
  if( !claimqClaimIdParse(claimId, pC->pDef->zPrefix, &iHead, &iFence) ) return;
  s = claimqStmt(p, CQ_SQL_OUTBOX_ROWS);
  claimqBindCommonInt(p, &s, CQ_P_head, iHead);
  claimqBindCommonText(p, &s, CQ_P_claim, claimId);
  while( claimqStep(p, &s) ){
    CqCell *a = claimqRowsAdd(p, pC->pRows);
    claimqCellColumns(p, pC->pRows, a, &s, CQ_OUTBOX_NCOL);
    claimqLeaseKept(p, pC->pRows, a ? &a[CQ_OUTBOX_NCOL] : 0, &s,
        CQ_COL_OUTBOX_ROWS_claim_id, iFence,
        claimqColInt(&s, CQ_COL_OUTBOX_ROWS_attempts)-1);
  }
  claimqStmtDone(p, &s);
}

/*
** xTidy: partitions that have become free are put in line with those that are,
** and partitions that do not wait as long as was thought are repaired.
*/
static void cqOutboxTidy(CqOp *p, CqClaim *pC){
  CqStmt s;
  if( ((CqOutboxClaim*)&pC->own)->nDue>=CQ_OUTBOX_DUE_FEW ){
    s = claimqStmt(p, CQ_SQL_OUTBOX_PROMOTE);
    claimqBindText(p, &s, CQ_OUTBOX_PROMOTE_queue,
                   pC->aArg[CQ_OUTBOX_QUEUE].t);
    claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
    claimqExec(p, &s);
  }
  if( pC->ids.n ){
    s = claimqStmt(p, CQ_SQL_OUTBOX_REPAIR);
    claimqBindText(p, &s, CQ_OUTBOX_REPAIR_queue, pC->aArg[CQ_OUTBOX_QUEUE].t);
    claimqBindIds(p, &s, CQ_OUTBOX_REPAIR_ids, &pC->ids);
    claimqExec(p, &s);
  }
}

/*
** Write the lease to the partition, with what is delivered.  The messages are
** not touched.
*/
static void cqOutboxStamp(CqOp *p, CqClaim *pC){
  const CqOutboxClaim *pOwn = (const CqOutboxClaim*)&pC->own;
  CqStmt s = claimqStmt(p, CQ_SQL_OUTBOX_STAMP);
  assert( pC->pRows->nRow>0 && pC->lease.bCells );
  assert( pC->lease.iFence==claimqAddSat(pOwn->iFence, 1) );
  claimqLeaseBind(p, &s, &pC->lease);
  claimqBindInt(p, &s, CQ_OUTBOX_STAMP_size, pC->pRows->nRow);
  claimqBindInt(p, &s, CQ_OUTBOX_STAMP_delivered, pOwn->iLast);
  claimqBindInt(p, &s, CQ_OUTBOX_STAMP_fence, pOwn->iFence);
  claimqBindInt(p, &s, CQ_OUTBOX_STAMP_cursor, pOwn->iCursor);
  claimqClaimStamp(p, pC, &s, 1);
}

/**************************************************************************
** The verbs
*/
#define CQ_OV_PROCESSED 0         /* Options */
#define CQ_OV_REJECTED  1
static const CqArgDef cqOutboxOpt[] = {
  { CQ_ARG(INT, "processed"),
    .mVerb = 1<<CQ_COMPLETE|1<<CQ_RETRY|1<<CQ_REJECT,
    .zDoc = "how many of the messages are done, from the first" },
  { CQ_ARG(JSON, "rejected"),
    .mVerb = 1<<CQ_COMPLETE|1<<CQ_RETRY|1<<CQ_REJECT,
    .zDoc = "of these the ones that become dead letters: "
            "[{\"seq\":N,\"reason\":\"...\"}]" },
};

typedef struct CqRejected CqRejected;     /* One entry of option rejected */
struct CqRejected {
  i64 iSeq;
  CqText reason;
};

typedef struct CqOutboxVerb CqOutboxVerb;         /* CqVerb.own */
struct CqOutboxVerb {
  CqDelivery delivery;
  CqProgress progress;
  CqRejected *aRejected;          /* Sorted by seq; by sqlite3_malloc */
  int nRejected;
  char *zReason;                  /* Bytes of their reasons; likewise */
};
CQ_CHECK(OutboxVerb, sizeof(CqOutboxVerb)<=sizeof(CqOwn));

/*
** xVerbDone: free what was rejected.  May be called twice.
*/
static void cqOutboxVerbDone(CqVerb *pV){
  CqOutboxVerb *pOwn = (CqOutboxVerb*)&pV->own;
  assert( pOwn->aRejected || pOwn->nRejected==0 );
  sqlite3_free(pOwn->aRejected);
  sqlite3_free(pOwn->zReason);
  pOwn->aRejected = 0;
  pOwn->nRejected = 0;
  pOwn->zReason = 0;
}

/*
** What the claim has delivered.  Nothing of a row that somebody corrupted may
** move the cursor back.
*/
static void cqOutboxDelivery(const CqStmt *pHead, CqDelivery *pD){
  pD->iCursor = claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_processed_seq);
  pD->nMsg = claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_delivered_count);
  pD->iLast = claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_delivered_seq);
  pD->nAttempt = claimqColInt(pHead, CQ_COL_OUTBOX_HOLD_attempts);
  if( pD->iCursor<0 ) pD->iCursor = 0;
  if( pD->iLast<pD->iCursor ) pD->iLast = pD->iCursor;
  if( pD->nMsg>pD->iLast-pD->iCursor ) pD->nMsg = pD->iLast-pD->iCursor;
  if( pD->nMsg<0 ) pD->nMsg = 0;
}

/*
** Read one {"seq":N,"reason":"..."}: 1, and *pOut with the raw reason; else 0.
*/
static int cqRejectedEntry(CqJson *pJ, CqRejected *pOut){
  int bSeq = 0, bReason = 0, e;
  while( (e = claimqJsonNext(pJ))==CQ_JSON_KEY ){
    if( claimqJsonEq(pJ->tok, claimqStr("seq")) && !bSeq ){
      bSeq = claimqJsonNext(pJ)==CQ_JSON_NUMBER
          && claimqJsonInt(pJ->tok, &pOut->iSeq);
      if( !bSeq ) return 0;
    }else if( claimqJsonEq(pJ->tok, claimqStr("reason")) && !bReason ){
      bReason = claimqJsonNext(pJ)==CQ_JSON_STRING
          && claimqJsonText(pJ->tok, 0)>=0;
      if( !bReason ) return 0;
      pOut->reason = pJ->tok;
    }else{
      return 0;
    }
  }
  return e==CQ_JSON_CLOSE && bSeq && bReason;
}

/*
** Read the entries of list into aRejected[], their reasons unescaped into
** zReason.  Returns 0 if the list is malformed, or op has an error.
*/
static int cqRejectedList(CqOp *p, CqOutboxVerb *pOwn, CqText list){
  CqJson j;
  char *z = pOwn->zReason = claimqMalloc(p, (i64)list.n+1);
  int e = CQ_JSON_ERROR, nAlloc = 0;
  assert( pOwn->aRejected==0 && pOwn->nRejected==0 );
  claimqJsonInit(&j, list);
  if( p->rc || claimqJsonNext(&j)!=CQ_JSON_ARRAY ) return 0;
  while( (e = claimqJsonNext(&j))==CQ_JSON_OBJECT ){
    CqRejected *pNew;
    if( pOwn->nRejected>=nAlloc ){
      nAlloc = nAlloc ? nAlloc*2 : 8;
      pNew = claimqRealloc(p, pOwn->aRejected, nAlloc*(i64)sizeof(*pNew));
      if( pNew==0 ) return 0;
      pOwn->aRejected = pNew;
    }
    pNew = &pOwn->aRejected[pOwn->nRejected];
    if( !cqRejectedEntry(&j, pNew) ) return 0;
    pNew->reason.n = claimqJsonText(pNew->reason, z);
    pNew->reason.z = z;
    z += pNew->reason.n;
    assert( z<=&pOwn->zReason[list.n] );
    pOwn->nRejected++;
  }
  return e==CQ_JSON_CLOSE && claimqJsonNext(&j)==CQ_JSON_END;
}

static int cqRejectedCompare(const void *pA, const void *pB){
  i64 a = ((const CqRejected*)pA)->iSeq, b = ((const CqRejected*)pB)->iSeq;
  return (a>b) - (a<b);
}

/*
** Option rejected: each must be a message that was processed, and named once.
** Else raises bad_argument.  aRejected[] is sorted afterwards.
*/
static void cqOutboxRejected(CqOp *p, CqOutboxVerb *pOwn, CqText list){
  int i;
  if( p->rc ) return;
  if( !cqRejectedList(p, pOwn, list) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "rejected must be a JSON array of "
               "{\"seq\":N,\"reason\":\"...\"}");
  }
  if( p->rc || pOwn->nRejected==0 ) return;
  qsort(pOwn->aRejected, (size_t)pOwn->nRejected, sizeof(CqRejected),
        cqRejectedCompare);
  for(i=0; i<pOwn->nRejected; i++){
    i64 iSeq = pOwn->aRejected[i].iSeq;
    if( iSeq<=pOwn->delivery.iCursor || iSeq>pOwn->progress.iDone ){
      claimqFail(p, CQ_BAD_ARGUMENT, "rejected: seq %lld is not among the %lld "
          "messages that are processed", iSeq, pOwn->progress.nDone);
    }else if( i>0 && iSeq==pOwn->aRejected[i-1].iSeq ){
      claimqFail(p, CQ_BAD_ARGUMENT, "rejected: seq %lld is named twice", iSeq);
    }
  }
}

/*
** There are gaps among the delivered messages, of which the first nDone are
** processed: find the last of these.
*/
static i64 cqOutboxLookUp(CqOp *p, CqVerb *pV, i64 nDone){
  const CqDelivery *pD = &((CqOutboxVerb*)&pV->own)->delivery;
  CqStmt s = claimqStmt(p, CQ_SQL_OUTBOX_BACK);
  i64 iDone = pD->iCursor;
  assert( nDone>=0 && nDone<pD->nMsg && pD->iLast>=pD->iCursor );
  claimqVerbBind(p, pV, &s);
  claimqBindInt(p, &s, CQ_OUTBOX_BACK_after, pD->iCursor);
  claimqBindInt(p, &s, CQ_OUTBOX_BACK_last, pD->iLast);
  claimqBindInt(p, &s, CQ_OUTBOX_BACK_skip, pD->nMsg-nDone-1);
  if( claimqStep(p, &s) ) iDone = claimqColInt(&s, CQ_COL_OUTBOX_BACK_before);
  claimqStmtDone(p, &s);
  return iDone;
}

/*
** How far the verb gets, into own.progress.  Raises bad_argument if option
** processed cannot be.
*/
static void cqOutboxProgress(CqOp *p, CqVerb *pV){
  static const int aProgress[CQ_NVERB] = CQ_VERBS(0, CQ_PROGRESS_COMPLETE,
      CQ_PROGRESS_RELEASE, CQ_PROGRESS_RETRY, CQ_PROGRESS_REJECT,
      CQ_PROGRESS_RELEASE);
  CqOutboxVerb *pOwn = (CqOutboxVerb*)&pV->own;
  const CqVal *pOpt = pV->aOpt ? &pV->aOpt[CQ_OV_PROCESSED] : 0;
  int eVerb = aProgress[pV->eVerb];
  i64 nDone = claimqProcessed(&pOwn->delivery, eVerb,
                              pOpt && pOpt->bGiven ? &pOpt->i : 0);
  i64 iDone;
  assert( pV->eVerb!=CQ_RENEW && pV->eVerb!=CQ_GUARD );
  if( nDone<0 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "processed must be an integer from 0 to "
        "%lld, as many messages as claim %.*s has delivered, got %lld",
        pOwn->delivery.nMsg, pV->claimId.n, pV->claimId.z, pOpt->i);
    return;
  }
  iDone = claimqDoneSeq(&pOwn->delivery, nDone);
  if( iDone<0 ) iDone = cqOutboxLookUp(p, pV, nDone);
  claimqProgress(&pOwn->delivery, eVerb, nDone, iDone, &pOwn->progress);
}

/*
** The claim holds: decide what the verb does, and what it returns.  Several
** writes are needed only if messages become dead letters.  A delay of 0 is
** none.
*/
static void cqOutboxDecide(CqOp *p, CqVerb *pV, CqStmt *pHead){
  CqOutboxVerb *pOwn = (CqOutboxVerb*)&pV->own;
  const CqProgress *pP = &pOwn->progress;
  assert( pV->hold.bHead && pOwn->nRejected==0 );
  if( pV->eVerb==CQ_GUARD ) return;
  pV->task.eNeed = CQ_NEED_ONE;
  if( pV->eVerb==CQ_RENEW ) return;
  cqOutboxDelivery(pHead, &pOwn->delivery);
  cqOutboxProgress(p, pV);
  if( pV->aOpt && pV->aOpt[CQ_OV_REJECTED].bGiven ){
    cqOutboxRejected(p, pOwn, pV->aOpt[CQ_OV_REJECTED].t);
  }
  if( pV->iDelay<=0 ) pV->iUntil = -1;
  pV->task.iAnswer = pV->eVerb==CQ_COMPLETE ? pP->nDone
              : pV->eVerb==CQ_RELEASE ? pOwn->delivery.nMsg : 0;
  if( pOwn->nRejected>0 || (pV->eVerb==CQ_REJECT && pP->iCursor>pP->iDone) ){
    pV->task.eNeed = CQ_NEED_MANY;
  }
}

/*
** xBind: for OUTBOX_SETTLE.
*/
static void cqOutboxBind(CqOp *p, CqVerb *pV, CqStmt *pStmt){
  const CqProgress *pP = &((const CqOutboxVerb*)&pV->own)->progress;
  CqText none = {0, 0};
  if( pStmt->eStmt!=CQ_SQL_OUTBOX_SETTLE ) return;
  claimqBindInt(p, pStmt, CQ_OUTBOX_SETTLE_cursor, pP->iCursor);
  claimqBindInt(p, pStmt, CQ_OUTBOX_SETTLE_attempts, pP->nAttempt);
  claimqBindInt(p, pStmt, CQ_OUTBOX_SETTLE_keep, pP->eError==CQ_ERROR_KEEP);
  claimqBindText(p, pStmt, CQ_OUTBOX_SETTLE_error,
                 pP->eError==CQ_ERROR_REASON ? pV->reason : none);
}

/*
** Take a statement that looks at the claim's messages after iAfter, up to
** iLast.
*/
static CqStmt cqOutboxRange(
  CqOp *p, const CqVerb *pV, int eStmt, i64 iAfter, i64 iLast
){
  CqStmt s = claimqStmt(p, eStmt);
  claimqVerbBind(p, pV, &s);
  claimqBindInt(p, &s, CQ_OUTBOX_PRESENT_after, iAfter);
  claimqBindInt(p, &s, CQ_OUTBOX_PRESENT_last, iLast);
  return s;
}

/*
** The messages after iAfter, up to iLast, become dead letters.  Returns how
** many.  There may be fewer than their numbers say, if somebody deleted some;
** but no trigger may keep a letter from being written.
*/
static i64 cqOutboxBury(
  CqOp *p, CqVerb *pV, i64 iAfter, i64 iLast, CqText why
){
  CqStmt s = cqOutboxRange(p, pV, CQ_SQL_OUTBOX_BURY, iAfter, iLast);
  i64 n;
  assert( iAfter<=iLast );
  claimqBindText(p, &s, CQ_OUTBOX_PRESENT_why, why);
  n = claimqExec(p, &s);
  if( p->rc==SQLITE_OK && n!=iLast-iAfter ){
    i64 nPresent = 0;
    s = cqOutboxRange(p, pV, CQ_SQL_OUTBOX_PRESENT, iAfter, iLast);
    if( claimqStep(p, &s) ){
      nPresent = claimqColInt(&s, CQ_COL_OUTBOX_PRESENT_n);
    }
    claimqStmtDone(p, &s);
    if( n!=nPresent ) claimqStale(p, &pV->task);
  }
  return n;
}

/*
** The messages of option rejected become dead letters.  Returns how many.  A
** number in a gap is none of a message: raises bad_argument.
*/
static i64 cqOutboxBuryRejected(CqOp *p, CqVerb *pV){
  const CqOutboxVerb *pOwn = (const CqOutboxVerb*)&pV->own;
  int i;
  for(i=0; i<pOwn->nRejected && p->rc==SQLITE_OK; i++){
    const CqRejected *pR = &pOwn->aRejected[i];
    assert( i==0 || pR[-1].iSeq<pR->iSeq );
    if( cqOutboxBury(p, pV, pR->iSeq-1, pR->iSeq, pR->reason)==0 ){
      claimqFail(p, CQ_BAD_ARGUMENT, "rejected: there is no message with seq "
          "%lld in the partition: leave it out", pR->iSeq);
    }
  }
  return pOwn->nRejected;
}

/*
** xSettle, if there are dead letters to write: these, and then the cursor.
*/
static void cqOutboxSettle(CqOp *p, CqVerb *pV){
  CqOutboxVerb *pOwn = (CqOutboxVerb*)&pV->own;
  i64 nLetter;
  CqStmt s;
  assert( pV->task.eNeed==CQ_NEED_MANY );
  nLetter = cqOutboxBuryRejected(p, pV);
  if( pV->eVerb==CQ_REJECT ){
    nLetter += cqOutboxBury(p, pV, pOwn->progress.iDone,
                            pOwn->progress.iCursor, pV->reason);
    pV->task.iAnswer = nLetter;
  }
  s = claimqStmt(p, CQ_SQL_OUTBOX_SETTLE);
  claimqVerbBind(p, pV, &s);
  cqOutboxBind(p, pV, &s);
  if( claimqExec(p, &s)!=1 ) claimqStale(p, &pV->task);
}

/**************************************************************************
** claimq_vacuum(): processed messages
*/

/*
** 1 if there are any.
*/
static int cqOutboxVacuumAny(CqOp *p){
  CqStmt s = claimqStmt(p, CQ_SQL_VACUUM_PARTITION);
  int bAny = claimqStep(p, &s);
  claimqStmtDone(p, &s);
  return bAny;
}

/*
** Remove processed messages of the partition that pPart stands on, which is
** reset.  Its cursor must move, or it would be found again for ever: a row that
** somebody corrupted and a trigger that keeps it from being written are
** errors.  Where messages are missing it jumps to the next one that is there.
*/
static void cqOutboxVacuumOne(CqOp *p, CqVacuum *pV, CqStmt *pPart){
  i64 iId = claimqColInt(pPart, CQ_COL_VACUUM_PARTITION_partition_id);
  i64 iFrom = claimqColInt(pPart, CQ_COL_VACUUM_PARTITION_vacuumed_seq);
  i64 iTo = claimqColInt(pPart, CQ_COL_VACUUM_PARTITION_processed_seq);
  i64 iFirst = claimqColInt(pPart, CQ_COL_VACUUM_PARTITION_first_seq);
  CqStmt s = claimqStmt(p, CQ_SQL_VACUUM_MESSAGES);
  i64 n;
  assert( pV->nLeft>0 );
  if( iTo<=iFrom ){
    claimqFail(p, CQ_SCHEMA_MISMATCH, "row %lld of claimq_partition has a bad "
               "processed_seq: repair or delete it", iId);
  }
  iFrom = iFirst>iFrom && iFirst<=iTo ? iFirst-1 : iTo;
  if( iFrom<0 ) iFrom = 0;
  if( iTo-iFrom>pV->nLeft ) iTo = iFrom + pV->nLeft;
  claimqBindText(p, &s, CQ_VACUUM_MESSAGES_queue,
                 claimqColText(p, pPart, CQ_COL_VACUUM_PARTITION_queue_name));
  claimqBindInt(p, &s, CQ_VACUUM_MESSAGES_partition,
                claimqColInt(pPart, CQ_COL_VACUUM_PARTITION_partition));
  claimqBindInt(p, &s, CQ_VACUUM_MESSAGES_after, iFrom);
  claimqBindInt(p, &s, CQ_VACUUM_MESSAGES_last, iTo);
  n = claimqExec(p, &s);
  pV->nLeft -= n;
  pV->task.iAnswer += n;
  claimqStmtReset(pPart);
  s = claimqStmt(p, CQ_SQL_VACUUM_CURSOR);
  claimqBindCommonInt(p, &s, CQ_P_head, iId);
  claimqBindInt(p, &s, CQ_VACUUM_CURSOR_seq, iTo);
  if( claimqExec(p, &s)==0 ){
    claimqFail(p, CQ_CONFLICT,
               "a trigger on claimq_partition left the row out");
  }
}

/*
** xVacuum: partition after partition, as long as something may be removed.
*/
static void cqOutboxVacuum(CqOp *p, CqVacuum *pV){
  CqStmt s = claimqStmt(p, CQ_SQL_VACUUM_PARTITION);
  while( pV->nLeft>0 && claimqStep(p, &s) ) cqOutboxVacuumOne(p, pV, &s);
  claimqStmtDone(p, &s);
}

/**************************************************************************
** The descriptor
*/
CQ_PRIV const CqDiscipline *claimqOutboxDiscipline(void){
  static const CqTableDef aTable[] = {
    { .zName = "claimq_outbox", .zDoc = "take messages of a partition",
      .zCols = CQ_OUTBOX_COLS, .zOrder = "seq",
      .aArg = cqOutboxArg, .nArg = CQ_ARRAYSIZE(cqOutboxArg),
      .bWrites = 1, .bClaimCols = 1, .zPrefix = "qpc",
      .xArgs = cqOutboxArgs, .xNext = cqOutboxNext, .xStamp = cqOutboxStamp,
      .xTidy = cqOutboxTidy, .xWhy = cqOutboxWhyAll,
      .xNextAt = cqOutboxNextAt, .xRows = cqOutboxRows },
  };
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_publish", .zDoc = "put a message into a queue",
      .eKind = CQ_F_INSERT, .nMin = 2, .aArg = cqPublishArg,
      .nArg = CQ_ARRAYSIZE(cqPublishArg), .aOpt = cqPublishOpt,
      .nOpt = CQ_ARRAYSIZE(cqPublishOpt), .xFunc = claimqPutRun },
    { .zName = "claimq_queue", .zDoc = "register a queue",
      .eKind = CQ_F_WRITE, .nMin = 2, .aArg = cqQueueArg,
      .nArg = CQ_ARRAYSIZE(cqQueueArg), .aOpt = cqQueueOpt,
      .nOpt = CQ_ARRAYSIZE(cqQueueOpt), .xFunc = cqQueueFunc },
  };
  static const int aStats[] = {CQ_SQL_OUTBOX_STATS, CQ_SQL_OUTBOX_STATS_OF};
  static const int aCheck[] = {
    CQ_SQL_OUTBOX_CHECK, CQ_SQL_OUTBOX_CHECK_QUEUES,
    CQ_SQL_OUTBOX_CHECK_MESSAGES
  };
  static const CqDiscipline outbox = {
    .zName = "outbox", .zPrefix = "qpc",
    .aStats = aStats, .aCheck = aCheck, .nCheck = CQ_ARRAYSIZE(aCheck),
    .aTable = aTable, .nTable = CQ_ARRAYSIZE(aTable),
    .aFunc = aFunc, .nFunc = CQ_ARRAYSIZE(aFunc),
    .aOpt = cqOutboxOpt, .nOpt = CQ_ARRAYSIZE(cqOutboxOpt),
    .eHold = CQ_SQL_OUTBOX_HOLD,
    .aSettle = CQ_VERBS(CQ_SQL_OUTBOX_RENEW, CQ_SQL_OUTBOX_SETTLE,
        CQ_SQL_OUTBOX_SETTLE, CQ_SQL_OUTBOX_SETTLE, CQ_SQL_OUTBOX_SETTLE,
        CQ_SQL_OUTBOX_SETTLE),
    .aFast = CQ_VERBS(CQ_SQL_OUTBOX_RENEW, -1, -1, -1, -1, -1),
    .xDecide = cqOutboxDecide,
    .xBind = cqOutboxBind,
    .xSettle = cqOutboxSettle,
    .xVerbDone = cqOutboxVerbDone,
    .pPut = &aFunc[0],
    .xPutBack = cqPublishBack,
    .xPutCheck = cqPublishCheck,
    .xPutWrite = cqPublishWrite,
    .xVacuumAny = cqOutboxVacuumAny,
    .xVacuum = cqOutboxVacuum,
  };
  return &outbox;
}
