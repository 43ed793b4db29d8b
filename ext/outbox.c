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
** by claimqProgress() of core_outbox.c; one UPDATE writes it, and a trigger of
** the schema turns rejected messages into dead letters.
**
** Any partition will do: the free ones that have messages stand in an index by
** how long they wait.  Those whose lease expired or whose delay passed since
** are a second stream (see "Due" in sql/schema.sql); the longer waiting of the
** two heads is taken.
*/
#include "claimq_int.h"
#include <stdlib.h>

/* Columns of OUTBOX_PARTITION. */
#define CQ_P_QUEUE      0
#define CQ_P_PARTITION  1
#define CQ_P_CURSOR     2
#define CQ_P_LAST       3
#define CQ_P_FENCE      4
#define CQ_P_ATTEMPTS   5
#define CQ_P_CLAIM      6
#define CQ_P_TOKEN      7
#define CQ_P_SIZE       8
#define CQ_P_DELIVERED  9

/* Columns of OUTBOX_MESSAGES: the result's. */
#define CQ_M_COLS "queue_name:t partition:i seq:i payload:b payload_type:t " \
  "created_at_ms:i"
#define CQ_M_SEQ        2
#define CQ_M_NCOL       6

/* Due partitions a claim may leave unpromoted: scanning so few is cheap. */
#define CQ_P_DUE_FEW   16

/* QUEUE/PARTITION, the scope of a lease. */
#define CQ_SCOPE_SZ (CQ_QUEUE_NAME_MAX+32)

static const CqArgDef cqOutboxQueue = {
  "queue", CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, CQ_QUEUE_NAME_MAX, 0
};

/**************************************************************************
** Queues
*/
static void cqQueueCheck(CqOp *p, CqText queue){
  if( p->rc || claimqQueueNameOk(queue) ) return;
  claimqFail(p, CQ_BAD_ARGUMENT, "queue must be of letters, digits, '.', '_' "
      "and '-', the first and last a letter or digit, got TEXT '%.*s'",
      claimqShown(queue), queue.z);
}

/*
** The number of partitions of a queue, 0 if it is not registered.
*/
static i64 cqQueueSize(CqOp *p, CqText queue){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_OUTBOX_COUNT);
  i64 n = 0;
  claimqBindText(p, pStmt, 1, queue);
  if( claimqStep(p, pStmt) ) n = sqlite3_column_int64(pStmt, 0);
  claimqStmtDone(p, CQ_SQL_OUTBOX_COUNT, pStmt);
  return n;
}

/*
** Raise not_found if the queue is not registered; else return its size.
*/
static i64 cqQueueNeed(CqOp *p, CqText queue){
  i64 n = cqQueueSize(p, queue);
  if( p->rc==SQLITE_OK && n<=0 ){
    claimqFail(p, CQ_NOT_FOUND, "queue '%.*s' is not registered: SELECT "
        "claimq_queue('%.*s', partitions)",
        queue.n, queue.z, queue.n, queue.z);
  }
  return n;
}

/*
** A partition was not found: say why.
*/
static void cqQueueMissing(CqOp *p, CqText queue, i64 iPartition){
  i64 n = cqQueueNeed(p, queue);
  claimqFail(p, CQ_BAD_ARGUMENT, "partition must be an integer from 0 to %lld "
      "for queue '%.*s', got %lld", n-1, queue.n, queue.z, iPartition);
}

typedef struct CqRegister CqRegister;
struct CqRegister {
  CqText queue;
  i64 nPartition;
};

static void cqQueueLoad(CqOp *p, void *pCtx){
  CqRegister *pR = (CqRegister*)pCtx;
  i64 n = cqQueueSize(p, pR->queue);
  if( p->rc ) return;
  if( n==0 ){
    p->nWrite = 1;
  }else if( n!=pR->nPartition ){
    claimqFail(p, CQ_CONFLICT, "queue '%.*s' is registered with %lld "
        "partitions, not %lld", pR->queue.n, pR->queue.z, n, pR->nPartition);
  }
}

static void cqQueueApply(CqOp *p, void *pCtx){
  CqRegister *pR = (CqRegister*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_OUTBOX_REGISTER);
  claimqBindText(p, pStmt, 1, pR->queue);
  claimqBindInt(p, pStmt, 2, pR->nPartition);
  claimqExec(p, CQ_SQL_OUTBOX_REGISTER, pStmt);
}

/* For tasks whose xLoad overwrites all that it loaded before. */
static void cqOutboxForget(void *pCtx){
  (void)pCtx;
}

/*
** claimq_queue(queue, partitions) -> partitions
*/
static void cqQueueFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqTask task = { cqQueueLoad, cqQueueApply, cqOutboxForget };
  static const CqArgDef partitions = {
    "partitions", CQ_T_INT, CQ_A_REQUIRED, 0, 0, 0, 1, CQ_PARTITION_MAX, 0
  };
  CqRegister r;
  CqVal queue, n;
  (void)nVal;
  claimqRead(p, &cqOutboxQueue, apVal[0], &queue);
  claimqRead(p, &partitions, apVal[1], &n);
  cqQueueCheck(p, queue.t);
  r.queue = queue.t;
  r.nPartition = n.i;
  claimqRun(p, &task, &r);
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCtx, r.nPartition);
}

/**************************************************************************
** Publish
*/
#define CQ_PO_PARTITION 0
#define CQ_PO_KEY       1
#define CQ_PO_TYPE      2
#define CQ_PO_NOW       3
#define CQ_PO_N         4
static const CqArgDef cqPublishOpt[CQ_PO_N] = {
  { "partition",    CQ_T_INT,  0, 0, 0, 0, 0, CQ_PARTITION_MAX-1, 0 },
  { "key",          CQ_T_ANY,  0, 0, 0, 0, 0, 0, 0 },
  { "payload_type", CQ_T_TEXT, 0, 0, 0, "application/json", 0,
    CQ_PAYLOAD_TYPE_MAX, 0 },
  { "now_ms",       CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};

typedef struct CqPublish CqPublish;
struct CqPublish {
  CqText queue;
  sqlite3_value *pPayload;
  CqVal aOpt[CQ_PO_N];
  CqText key;                     /* z==0: none was given */
  char zKey[24];                  /* A key that is a number, as text */
  i64 iPartition;
  i64 iSeq;                       /* OUT */
};

/*
** claimq_note(where, value) -> value: a statement of claimq's tells so what it
** computed.  Where is a pointer to an i64; from anybody else, it is not.
*/
#define CQ_NOTE_TYPE "claimq-note"
static void cqNoteFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  i64 *pi = (i64*)sqlite3_value_pointer(apVal[0], CQ_NOTE_TYPE);
  (void)p; (void)nVal;
  if( pi ) *pi = sqlite3_value_int64(apVal[1]);
  sqlite3_result_value(pCtx, apVal[1]);
}

/*
** A key is text; a whole number will do, and means its decimal digits.
*/
static void cqPublishKey(CqOp *p, CqPublish *pP){
  static const CqArgDef text = { "key", CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 };
  static const CqArgDef number = {
    "key", CQ_T_INT, 0, 0, 0, 0, -CQ_I64_MAX-1, 0, 0
  };
  CqVal *pOpt = &pP->aOpt[CQ_PO_KEY];
  CqVal v;
  int eType;
  if( p->rc || !pOpt->bGiven ) return;
  eType = sqlite3_value_type(pOpt->pVal);
  if( eType==SQLITE_INTEGER || eType==SQLITE_FLOAT ){
    claimqRead(p, &number, pOpt->pVal, &v);
    pP->key.n = claimqI64Text(v.i, pP->zKey);
    pP->key.z = pP->zKey;
  }else{
    claimqRead(p, &text, pOpt->pVal, &v);
    pP->key = v.t;
  }
  if( pP->aOpt[CQ_PO_PARTITION].bGiven ){
    claimqFail(p, CQ_BAD_ARGUMENT, "give partition or key, not both");
  }
}

/*
** The partition of a key.
*/
static void cqPublishLoad(CqOp *p, void *pCtx){
  CqPublish *pP = (CqPublish*)pCtx;
  i64 n = cqQueueNeed(p, pP->queue);
  if( p->rc ) return;
  pP->iPartition = claimqKeyPartition(pP->key, n);
  p->nWrite = 1;
}

/*
** A trigger of the table refuses a message for a partition that does not exist:
** here it can be said in better words.
*/
static void cqPublishApply(CqOp *p, void *pCtx){
  CqPublish *pP = (CqPublish*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_OUTBOX_PUBLISH);
  claimqBindText(p, pStmt, 1, pP->queue);
  claimqBindInt(p, pStmt, 2, pP->iPartition);
  claimqBindValue(p, pStmt, 3, pP->pPayload);
  claimqBindText(p, pStmt, 4, pP->aOpt[CQ_PO_TYPE].t);
  claimqBindInt(p, pStmt, 5, claimqNow(p));
  claimqBindPointer(p, pStmt, 6, &pP->iSeq, CQ_NOTE_TYPE);
  if( claimqExec(p, CQ_SQL_OUTBOX_PUBLISH, pStmt)==0 ){
    claimqFail(p, CQ_CONFLICT, "a trigger on claimq_message left the row out");
  }
  if( p->rc==SQLITE_ERROR && pP->iSeq==0 ){
    claimqOpReset(p);
    cqQueueMissing(p, pP->queue, pP->iPartition);
  }
}

/*
** claimq_publish(queue, payload [, option, value]...) -> seq
*/
static void cqPublishFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqTask task = { cqPublishLoad, cqPublishApply, cqOutboxForget };
  CqPublish pub;
  CqVal queue;
  memset(&pub, 0, sizeof(pub));
  claimqRead(p, &cqOutboxQueue, apVal[0], &queue);
  claimqReadOptions(p, cqPublishOpt, CQ_PO_N, 0, nVal-2, &apVal[2], pub.aOpt);
  cqQueueCheck(p, queue.t);
  cqPublishKey(p, &pub);
  if( p->rc==SQLITE_OK && !claimqPayloadTypeOk(pub.aOpt[CQ_PO_TYPE].t) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "payload_type must be of printable ASCII "
        "characters, got TEXT '%.*s'", claimqShown(pub.aOpt[CQ_PO_TYPE].t),
        pub.aOpt[CQ_PO_TYPE].t.z);
  }
  pub.queue = queue.t;
  pub.pPayload = apVal[1];
  pub.iPartition = pub.aOpt[CQ_PO_PARTITION].i;
  if( pub.key.z ) claimqRun(p, &task, &pub);
  else if( p->rc==SQLITE_OK ) cqPublishApply(p, &pub);
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCtx, pub.iSeq);
}

/**************************************************************************
** Claim
*/
typedef struct CqOutboxClaim CqOutboxClaim;
struct CqOutboxClaim {
  CqText queue, owner, incarnation;
  i64 iTtl, nMax;
  i64 iPartition;                 /* The one asked for; -1: any */
  CqLease lease;
  i64 iLast;                      /* Last message delivered */
  CqRows *pRows;
  int nDue;                       /* Unpromoted partitions met, up to FEW */
};

/*
** Write QUEUE/PARTITION, return it as a text.
*/
static CqText cqOutboxScope(CqText queue, i64 iPartition, char *zBuf){
  CqText t;
  int n = queue.n<=CQ_QUEUE_NAME_MAX ? queue.n : CQ_QUEUE_NAME_MAX;
  memcpy(zBuf, queue.z, (size_t)n);
  zBuf[n] = '/';
  t.z = zBuf;
  t.n = n + 1 + claimqI64Text(iPartition, &zBuf[n+1]);
  return t;
}

/*
** Add the statement's current message to the rows for the caller.
*/
static void cqOutboxTake(
  CqOp *p, CqOutboxClaim *pC, sqlite3_stmt *pPart, sqlite3_stmt *pMsg
){
  CqCell *a = claimqRowsAdd(p, pC->pRows);
  claimqCellColumns(p, pC->pRows, a, pMsg, CQ_M_NCOL);
  if( p->rc ) return;
  pC->iLast = sqlite3_column_int64(pMsg, CQ_M_SEQ);
  claimqLeaseCells(p, pC->pRows, &a[CQ_M_NCOL], &pC->lease,
                   claimqColumnText(p, pPart, CQ_P_CLAIM),
                   sqlite3_column_int64(pPart, CQ_P_ATTEMPTS));
}

/*
** Deliver the messages of the partition that pPart stands on.
*/
static void cqOutboxDeliver(
  CqOp *p, CqOutboxClaim *pC, i64 iId, sqlite3_stmt *pPart
){
  sqlite3_stmt *pMsg = claimqStmt(p, CQ_SQL_OUTBOX_MESSAGES);
  i64 iPartition = sqlite3_column_int64(pPart, CQ_P_PARTITION);
  char zScope[CQ_SCOPE_SZ];
  claimqBindText(p, pMsg, 1, pC->queue);
  claimqBindInt(p, pMsg, 2, iPartition);
  claimqBindInt(p, pMsg, 3, sqlite3_column_int64(pPart, CQ_P_CURSOR));
  claimqBindInt(p, pMsg, 4, sqlite3_column_int64(pPart, CQ_P_LAST));
  claimqBindInt(p, pMsg, 5, pC->nMax);
  claimqLeaseMake(&pC->lease, "qpc", iId,
      sqlite3_column_int64(pPart, CQ_P_FENCE),
      cqOutboxScope(pC->queue, iPartition, zScope),
      pC->owner, pC->incarnation, claimqNow(p), pC->iTtl);
  while( claimqStep(p, pMsg) ) cqOutboxTake(p, pC, pPart, pMsg);
  claimqStmtDone(p, CQ_SQL_OUTBOX_MESSAGES, pMsg);
}

/*
** Try the partition with this id: 1 if it delivered something, or op has an
** error.
*/
static int cqOutboxTry(CqOp *p, CqOutboxClaim *pC, i64 iId){
  sqlite3_stmt *pPart = claimqStmt(p, CQ_SQL_OUTBOX_PARTITION);
  claimqBindInt(p, pPart, 1, iId);
  if( claimqStep(p, pPart) ) cqOutboxDeliver(p, pC, iId, pPart);
  claimqStmtDone(p, CQ_SQL_OUTBOX_PARTITION, pPart);
  return p->rc || pC->pRows->nRow>0;
}

/*
** The partition that was asked for, if it is free.
*/
static void cqOutboxOne(CqOp *p, CqOutboxClaim *pC){
  sqlite3_stmt *pFind = claimqStmt(p, CQ_SQL_OUTBOX_FIND);
  claimqBindText(p, pFind, 1, pC->queue);
  claimqBindInt(p, pFind, 2, claimqNow(p));
  claimqBindInt(p, pFind, 3, pC->iPartition);
  if( !claimqStep(p, pFind) ){
    if( p->rc==SQLITE_OK ) cqQueueMissing(p, pC->queue, pC->iPartition);
  }else if( sqlite3_column_int(pFind, 1) ){
    cqOutboxTry(p, pC, sqlite3_column_int64(pFind, 0));
  }
  claimqStmtDone(p, CQ_SQL_OUTBOX_FIND, pFind);
}

static sqlite3_stmt *cqOutboxStream(CqOp *p, CqOutboxClaim *pC, int eStmt){
  sqlite3_stmt *pStmt = claimqStmt(p, eStmt);
  claimqBindText(p, pStmt, 1, pC->queue);
  claimqBindInt(p, pStmt, 2, claimqNow(p));
  return pStmt;
}

static CqWaiting cqOutboxWaiting(sqlite3_stmt *pStmt){
  CqWaiting w;
  w.iSince = sqlite3_column_int64(pStmt, 1);
  w.iPartition = sqlite3_column_int64(pStmt, 2);
  return w;
}

/*
** 1 if the head of pDue goes before the head of pReady.
*/
static int cqOutboxDueFirst(sqlite3_stmt *pReady, sqlite3_stmt *pDue){
  CqWaiting ready = cqOutboxWaiting(pReady);
  CqWaiting due = cqOutboxWaiting(pDue);
  return claimqWaitsLonger(&due, &ready);
}

static int cqOutboxNextReady(CqOp *p, sqlite3_stmt *pReady){
  return claimqStep(p, pReady) && sqlite3_column_int64(pReady, 3)<0;
}

/*
** Any partition, the longest waiting first.  One whose messages were all
** deleted by hand delivers nothing and is passed over.
*/
static void cqOutboxAny(CqOp *p, CqOutboxClaim *pC){
  sqlite3_stmt *pReady = cqOutboxStream(p, pC, CQ_SQL_OUTBOX_READY);
  sqlite3_stmt *pDue = 0;
  int bReady = 0, bDue = 0, bDone = 0;
  if( claimqStep(p, pReady) ){
    bReady = sqlite3_column_int64(pReady, 3)<0;
    pDue = cqOutboxStream(p, pC, CQ_SQL_OUTBOX_DUE);
    bDue = claimqStep(p, pDue);
  }
  pC->nDue = bDue;
  while( !bDone && (bReady || bDue) && p->rc==SQLITE_OK ){
    int bTakeDue = bDue && (!bReady || cqOutboxDueFirst(pReady, pDue));
    sqlite3_stmt *pHead = bTakeDue ? pDue : pReady;
    bDone = cqOutboxTry(p, pC, sqlite3_column_int64(pHead, 0));
    if( bTakeDue ) pC->nDue += (bDue = claimqStep(p, pDue));
    else if( !bDone ) bReady = cqOutboxNextReady(p, pReady);
  }
  while( bDone && bDue && pC->nDue<CQ_P_DUE_FEW ){
    pC->nDue += (bDue = claimqStep(p, pDue));
  }
  claimqStmtDone(p, CQ_SQL_OUTBOX_READY, pReady);
  claimqStmtDone(p, CQ_SQL_OUTBOX_DUE, pDue);
  if( !bDone ) cqQueueNeed(p, pC->queue);
}

static void cqOutboxLoad(CqOp *p, void *pCtx){
  CqOutboxClaim *pC = (CqOutboxClaim*)pCtx;
  pC->nDue = 0;
  if( pC->iPartition>=0 ) cqOutboxOne(p, pC);
  else if( pC->nMax==0 ) cqQueueNeed(p, pC->queue);
  else cqOutboxAny(p, pC);
  if( pC->pRows->nRow>0 ) p->nWrite = 1 + (pC->nDue>=CQ_P_DUE_FEW);
}

/*
** Stamp the partition.  If many partitions have become free meanwhile, put
** them in line first: upkeep, left out where only one write can be had.
*/
static void cqOutboxApply(CqOp *p, void *pCtx){
  CqOutboxClaim *pC = (CqOutboxClaim*)pCtx;
  sqlite3_stmt *pStmt;
  if( p->nWrite>1 && !p->bAlone ){
    pStmt = cqOutboxStream(p, pC, CQ_SQL_OUTBOX_PROMOTE);
    claimqExec(p, CQ_SQL_OUTBOX_PROMOTE, pStmt);
  }
  pStmt = claimqStmt(p, CQ_SQL_OUTBOX_STAMP);
  claimqBindInt(p, pStmt, 1, pC->lease.iHead);
  claimqLeaseBind(p, pStmt, 2, &pC->lease);
  claimqBindInt(p, pStmt, 8, pC->pRows->nRow);
  claimqBindInt(p, pStmt, 9, pC->iLast);
  claimqExec(p, CQ_SQL_OUTBOX_STAMP, pStmt);
}

/* Arguments of claimq_outbox(...), in this order. */
static const CqArgDef cqOutboxArg[] = {
  { "queue",        CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0,
    CQ_QUEUE_NAME_MAX, 0 },
  { "owner",        CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0 },
  { "ttl_ms",       CQ_T_INT,  0, 0, 30000, 0, 0, 0, 0 },
  { "max_messages", CQ_T_INT,  0, 0, 100, 0, 0, 0, 0 },
  { "incarnation",  CQ_T_TEXT, 0, 0, 0, "", 0, 0, 0 },
  { "partition",    CQ_T_INT,  0, 0, 0, 0, 0, CQ_PARTITION_MAX-1, 0 },
  { "now_ms",       CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};

static void cqOutboxFill(
  CqOp *p, const CqVal *aArg, i64 nLimit, CqRows *pRows
){
  static const CqTask task = { cqOutboxLoad, cqOutboxApply, 0 };
  CqOutboxClaim c;
  memset(&c, 0, sizeof(c));
  c.queue = aArg[0].t;
  c.owner = aArg[1].t;
  c.iTtl = aArg[2].i;
  c.nMax = aArg[3].i<nLimit ? aArg[3].i : nLimit;
  c.incarnation = aArg[4].t;
  c.iPartition = aArg[5].bGiven ? aArg[5].i : -1;
  c.pRows = pRows;
  cqQueueCheck(p, c.queue);
  claimqRun(p, &task, &c);
}

/**************************************************************************
** The verbs
*/
#define CQ_OV_PROCESSED 0
#define CQ_OV_REJECTED  1
static const CqArgDef cqOutboxOpt[] = {
  { "processed", CQ_T_INT,  0, 1<<CQ_COMPLETE|1<<CQ_RETRY|1<<CQ_REJECT,
    0, 0, -CQ_I64_MAX-1, 0, 0 },
  { "rejected",  CQ_T_JSON, 0, 1<<CQ_COMPLETE, 0, 0, 0, 0, 0 },
};

typedef struct CqOutboxVerb CqOutboxVerb;
struct CqOutboxVerb {
  CqVerb *pVerb;
  CqDelivery delivery;
  CqProgress progress;
  i64 nLetter;                    /* Messages that become dead letters */
};

/*
** What the claim has delivered.  Nothing of a row that somebody corrupted may
** move the cursor back.
*/
static void cqOutboxDelivery(sqlite3_stmt *pPart, CqDelivery *pD){
  pD->iCursor = sqlite3_column_int64(pPart, CQ_P_CURSOR);
  pD->nMsg = sqlite3_column_int64(pPart, CQ_P_SIZE);
  pD->iLast = sqlite3_column_int64(pPart, CQ_P_DELIVERED);
  pD->nAttempt = sqlite3_column_int64(pPart, CQ_P_ATTEMPTS);
  if( pD->nMsg<0 ) pD->nMsg = 0;
  if( pD->iLast<pD->iCursor ) pD->iLast = pD->iCursor;
}

/*
** What does the claim hold?  Reads pV->delivery and returns a CQ_HOLD_*
** verdict; raises claim_lost unless it is OK, or the verb is release, for
** which that is no error.
*/
static int cqOutboxHold(CqOp *p, CqOutboxVerb *pV, sqlite3_stmt *pPart){
  CqVerb *pVerb = pV->pVerb;
  CqHold hold;
  CqText other = {0, 0};
  int eVerdict;
  memset(&hold, 0, sizeof(hold));
  claimqBindInt(p, pPart, 1, pVerb->iHead);
  if( claimqStep(p, pPart) ){
    hold.bHead = 1;
    hold.nSize = 1;
    other = claimqColumnText(p, pPart, CQ_P_CLAIM);
    hold.nRow = claimqTextEq(other, pVerb->claimId);
    hold.nToken = hold.nRow
        && claimqTextEq(claimqColumnText(p, pPart, CQ_P_TOKEN), pVerb->token);
    cqOutboxDelivery(pPart, &pV->delivery);
  }
  eVerdict = claimqLeaseVerdict(p, pVerb, &hold, other);
  return eVerdict;
}

/*
** Read one {"seq":N,"reason":"..."}: 1, *piSeq and the raw reason, else 0.
*/
static int cqRejectedRead(CqJson *pJ, i64 *piSeq, CqText *pReason){
  int bSeq = 0, bReason = 0, e;
  while( (e = claimqJsonNext(pJ))==CQ_JSON_KEY ){
    if( claimqJsonEq(pJ->tok, claimqStr("seq")) && !bSeq ){
      bSeq = claimqJsonNext(pJ)==CQ_JSON_NUMBER
          && claimqJsonInt(pJ->tok, piSeq);
      if( !bSeq ) return 0;
    }else if( claimqJsonEq(pJ->tok, claimqStr("reason")) && !bReason ){
      bReason = claimqJsonNext(pJ)==CQ_JSON_STRING
          && claimqJsonText(pJ->tok, 0)>=0;
      if( !bReason ) return 0;
      *pReason = pJ->tok;
    }else{
      return 0;
    }
  }
  return e==CQ_JSON_CLOSE && bSeq && bReason;
}

/*
** claimq_reject_reason(list, seq) -> the reason that the option rejected gives
** for message seq, NULL if it does not name it.  For a trigger of the schema.
*/
static void cqRejectReasonFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  i64 iWant = sqlite3_value_int64(apVal[1]);
  CqText reason, list;
  CqJson j;
  i64 iSeq;
  (void)nVal;
  list.z = (const char*)sqlite3_value_text(apVal[0]);
  list.n = sqlite3_value_bytes(apVal[0]);
  if( list.z==0 ) return;
  claimqJsonInit(&j, list);
  if( claimqJsonNext(&j)!=CQ_JSON_ARRAY ) return;
  while( claimqJsonNext(&j)==CQ_JSON_OBJECT
      && cqRejectedRead(&j, &iSeq, &reason)
  ){
    if( iSeq==iWant ){
      char *z = claimqMalloc(p, (i64)reason.n+1);
      if( z==0 ) return;
      sqlite3_result_text(pCtx, z, claimqJsonText(reason, z), sqlite3_free);
      return;
    }
  }
}

static int cqSeqCompare(const void *pA, const void *pB){
  i64 a = *(const i64*)pA, b = *(const i64*)pB;
  return (a>b) - (a<b);
}

/*
** Each rejected message must be one that was processed, and named once.
*/
static void cqRejectedRange(CqOp *p, const CqOutboxVerb *pV, CqIds *pSeq){
  i64 iFirst = pV->delivery.iCursor+1;
  i64 iLast = pV->progress.iDone;
  int i;
  if( p->rc || pSeq->n==0 ) return;
  qsort(pSeq->a, (size_t)pSeq->n, sizeof(pSeq->a[0]), cqSeqCompare);
  for(i=0; i<pSeq->n; i++){
    i64 iSeq = pSeq->a[i];
    if( iSeq<iFirst || iSeq>iLast ){
      claimqFail(p, CQ_BAD_ARGUMENT, "rejected: seq %lld is not among the %lld "
          "messages that are processed", iSeq, pV->progress.nDone);
    }else if( i>0 && iSeq==pSeq->a[i-1] ){
      claimqFail(p, CQ_BAD_ARGUMENT, "rejected: seq %lld is named twice", iSeq);
    }
  }
}

/*
** Option rejected of complete.
*/
static void cqOutboxRejected(CqOp *p, CqOutboxVerb *pV){
  CqJson j;
  CqIds seq;
  CqText reason;
  i64 iSeq;
  int e = CQ_JSON_ERROR;
  memset(&seq, 0, sizeof(seq));
  claimqJsonInit(&j, pV->pVerb->aOpt[CQ_OV_REJECTED].t);
  if( claimqJsonNext(&j)==CQ_JSON_ARRAY ){
    while( p->rc==SQLITE_OK && (e = claimqJsonNext(&j))==CQ_JSON_OBJECT ){
      if( !cqRejectedRead(&j, &iSeq, &reason) ) break;
      claimqIdsAdd(p, &seq, iSeq);
    }
  }
  if( p->rc==SQLITE_OK
   && (e!=CQ_JSON_CLOSE || claimqJsonNext(&j)!=CQ_JSON_END)
  ){
    claimqFail(p, CQ_BAD_ARGUMENT, "rejected must be a JSON array of "
               "{\"seq\":N,\"reason\":\"...\"}");
  }
  cqRejectedRange(p, pV, &seq);
  pV->nLetter = seq.n;
  claimqIdsClear(&seq);
}

/*
** reject: how many messages are after the processed ones?
*/
static void cqOutboxTail(CqOp *p, CqOutboxVerb *pV, sqlite3_stmt *pPart){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_OUTBOX_TAIL);
  claimqBindText(p, pStmt, 1, claimqColumnText(p, pPart, CQ_P_QUEUE));
  claimqBindInt(p, pStmt, 2, sqlite3_column_int64(pPart, CQ_P_PARTITION));
  claimqBindInt(p, pStmt, 3, pV->progress.iDone);
  claimqBindInt(p, pStmt, 4, pV->progress.iCursor);
  if( claimqStep(p, pStmt) ) pV->nLetter = sqlite3_column_int64(pStmt, 0);
  claimqStmtDone(p, CQ_SQL_OUTBOX_TAIL, pStmt);
}

/*
** The claim holds: decide what the verb does, and what it returns.
*/
static void cqOutboxDecide(CqOp *p, CqOutboxVerb *pV, sqlite3_stmt *pPart){
  static const u8 aProgress[] = {
    0, CQ_PROGRESS_COMPLETE, CQ_PROGRESS_RELEASE, CQ_PROGRESS_RETRY,
    CQ_PROGRESS_REJECT
  };
  CqVerb *pVerb = pV->pVerb;
  const CqVal *pProcessed = &pVerb->aOpt[CQ_OV_PROCESSED];
  p->nWrite = 1;
  if( pVerb->eVerb==CQ_RENEW ){
    pVerb->iResult = claimqAddSat(claimqNow(p), pVerb->iTtl);
    return;
  }
  claimqProgress(&pV->delivery, aProgress[pVerb->eVerb],
                 pProcessed->bGiven ? &pProcessed->i : 0, &pV->progress);
  switch( pVerb->eVerb ){
    case CQ_COMPLETE:
      pVerb->iResult = pV->progress.nDone;
      if( pVerb->aOpt[CQ_OV_REJECTED].bGiven ) cqOutboxRejected(p, pV);
      break;
    case CQ_RELEASE:
      pVerb->iResult = pV->delivery.nMsg;
      break;
    case CQ_RETRY:
      pVerb->zResult = "retry";
      break;
    case CQ_REJECT:
      cqOutboxTail(p, pV, pPart);
      pVerb->iResult = pV->nLetter;
      break;
  }
}

static void cqOutboxVerbLoad(CqOp *p, void *pCtx){
  CqOutboxVerb *pV = (CqOutboxVerb*)pCtx;
  sqlite3_stmt *pPart = claimqStmt(p, CQ_SQL_OUTBOX_PARTITION);
  int eVerdict = cqOutboxHold(p, pV, pPart);
  pV->pVerb->iResult = 0;
  pV->nLetter = 0;
  if( p->rc==SQLITE_OK && eVerdict==CQ_HOLD_OK && pV->pVerb->eVerb!=CQ_GUARD ){
    cqOutboxDecide(p, pV, pPart);
  }
  claimqStmtDone(p, CQ_SQL_OUTBOX_PARTITION, pPart);
}

static void cqOutboxRenew(CqOp *p, CqVerb *pVerb){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_OUTBOX_RENEW);
  claimqBindInt(p, pStmt, 1, pVerb->iHead);
  claimqBindInt(p, pStmt, 2, pVerb->iResult);
  claimqExec(p, CQ_SQL_OUTBOX_RENEW, pStmt);
}

/*
** Messages become dead letters: ?7 says when, and either ?10 is the list of
** complete, or ?8 and ?9 are the range and the reason of reject.
*/
static void cqOutboxLetters(CqOp *p, CqOutboxVerb *pV, sqlite3_stmt *pStmt){
  if( pV->nLetter==0 ) return;
  claimqBindInt(p, pStmt, 7, claimqNow(p));
  if( pV->pVerb->eVerb==CQ_REJECT ){
    claimqBindInt(p, pStmt, 8, pV->progress.iDone);
    claimqBindText(p, pStmt, 9, pV->pVerb->reason);
  }else{
    claimqBindText(p, pStmt, 10, pV->pVerb->aOpt[CQ_OV_REJECTED].t);
  }
}

static void cqOutboxVerbApply(CqOp *p, void *pCtx){
  CqOutboxVerb *pV = (CqOutboxVerb*)pCtx;
  CqVerb *pVerb = pV->pVerb;
  const CqProgress *pP = &pV->progress;
  sqlite3_stmt *pStmt;
  if( pVerb->eVerb==CQ_RENEW ){
    cqOutboxRenew(p, pVerb);
    return;
  }
  pStmt = claimqStmt(p, CQ_SQL_OUTBOX_SETTLE);
  claimqBindInt(p, pStmt, 1, pVerb->iHead);
  claimqBindInt(p, pStmt, 2, pP->iCursor);
  claimqBindInt(p, pStmt, 3, pP->nAttempt);
  if( pP->eError==CQ_ERROR_REASON ) claimqBindText(p, pStmt, 4, pVerb->reason);
  claimqBindInt(p, pStmt, 5, pP->eError==CQ_ERROR_KEEP);
  claimqBindInt(p, pStmt, 6, pVerb->iDelay<=0 ? 0
                              : claimqAddSat(claimqNow(p), pVerb->iDelay));
  cqOutboxLetters(p, pV, pStmt);
  claimqExec(p, CQ_SQL_OUTBOX_SETTLE, pStmt);
}

static void cqOutboxVerbRun(CqOp *p, CqVerb *pVerb){
  static const CqTask task = {
    cqOutboxVerbLoad, cqOutboxVerbApply, cqOutboxForget
  };
  CqOutboxVerb v;
  memset(&v, 0, sizeof(v));
  v.pVerb = pVerb;
  claimqVerbRun(p, pVerb, &task, &v);
}

/**************************************************************************
** The descriptor
*/
CQ_PRIV const CqDiscipline *claimqOutboxDiscipline(void){
  static const CqTableDef aTable[] = {
    { "claimq_outbox", CQ_M_COLS, "seq", cqOutboxArg,
      sizeof(cqOutboxArg)/sizeof(cqOutboxArg[0]), 1, 1, cqOutboxFill },
  };
  static const CqFuncDef aFunc[] = {
    { "claimq_queue", "(queue, partitions)", 2, 2, CQ_F_WRITE, cqQueueFunc },
    { "claimq_publish", "(queue, payload [, option, value]...)", 2, -1,
      CQ_F_INSERT, cqPublishFunc },
    { "claimq_note", "(where, value)", 2, 2, CQ_F_READ, cqNoteFunc },
    { "claimq_reject_reason", "(list, seq)", 2, 2,
      CQ_F_PURE, cqRejectReasonFunc },
  };
  static const CqDiscipline outbox = {
    "outbox", "qpc", aTable, sizeof(aTable)/sizeof(aTable[0]),
    cqOutboxOpt, sizeof(cqOutboxOpt)/sizeof(cqOutboxOpt[0]),
    aFunc, sizeof(aFunc)/sizeof(aFunc[0]), cqOutboxVerbRun, 0, 0
  };
  return &outbox;
}
