/*
** outbox/publish.c: claimq_publish(queue, payload [, option, value]...) -> seq.
**
** A key decides the partition, and the message gets the next number there.
** Messages of plain INSERTs in that partition get theirs first: see number.c.
** If there are very many, the new message stands behind them without a number,
** too, and the answer is the number that it will get.
*/
#include "outbox.h"

typedef struct CqPublish CqPublish;       /* CqPut.own */
struct CqPublish {
  CqText key;                     /* z==0: none was given */
  char zKey[24];                  /* A key that is a number, as text */
  CqText sourceKey;               /* z==0: none */
  i64 iPartition;
  i64 iMessage;                   /* The message that has it; see bStored */
  u8 bStored;                     /* It is that of a message of iPartition that
                                  ** has no number yet */
};
CQ_CHECK(Publish, sizeof(CqPublish)<=sizeof(CqPutOwn));

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
CQ_PRIV void claimqPublishBack(
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
** Is the source key taken?  1: by message pPut->task.iAnswer; 2: by one of
** partition iAnswer that has no number yet.
*/
static int cqPublishStored(CqOp *p, CqPut *pPut){
  CqPublish *pOwn = (CqPublish*)&pPut->own;
  CqStmt s = claimqStmt(p, CQ_SQL_OUTBOX_STORED);
  int bStored;
  assert( pOwn->sourceKey.z );
  claimqBindText(p, &s, CQ_OUTBOX_STORED_queue, pPut->scope);
  claimqBindText(p, &s, CQ_OUTBOX_STORED_source_key, pOwn->sourceKey);
  bStored = claimqStep(p, &s);
  if( bStored ){
    int bNew = claimqColType(&s, CQ_COL_OUTBOX_STORED_seq)==SQLITE_NULL;
    bStored += bNew;
    pOwn->iMessage = claimqColInt(&s, CQ_COL_OUTBOX_STORED_message_id);
    pPut->task.iAnswer = claimqColInt(&s, bNew ? CQ_COL_OUTBOX_STORED_partition
                                               : CQ_COL_OUTBOX_STORED_seq);
  }
  claimqStmtDone(p, &s);
  return bStored;
}

/*
** xLoad.  If the source key is taken its message is the answer, which may have
** to be numbered; work that comes back from a letter goes without.
*/
static void cqPublishLoad(CqOp *p, CqTask *pTask){
  CqPut *pPut = (CqPut*)pTask;
  CqPublish *pOwn = (CqPublish*)&pPut->own;
  int eStored = 0;
  pOwn->sourceKey = pPut->aOpt[CQ_PUB_SOURCE].t;
  if( pOwn->sourceKey.z ) eStored = cqPublishStored(p, pPut);
  if( eStored && pPut->bSourceKeyFree ){
    pOwn->sourceKey.z = 0;
    eStored = 0;
  }
  pOwn->bStored = eStored==2;
  if( pOwn->bStored ){
    pOwn->iPartition = pTask->iAnswer;
  }else if( eStored ){
    return;
  }else if( pOwn->key.z ){
    i64 n = claimqQueueNeed(p, pPut->scope);
    if( p->rc ) return;
    pOwn->iPartition = claimqKeyPartition(pOwn->key, n);
    assert( pOwn->iPartition>=0 && pOwn->iPartition<n );
  }
  pTask->eNeed = CQ_NEED_UNDO;
}

/*
** xPutCheck.  Raises bad_argument.
*/
CQ_PRIV void claimqPublishCheck(CqOp *p, CqPut *pPut){
  CqPublish *pOwn = (CqPublish*)&pPut->own;
  CqText type = pPut->aOpt[CQ_PUB_TYPE].t;
  claimqQueueCheck(p, pPut->scope);
  cqPublishKey(p, pPut);
  if( p->rc==SQLITE_OK && !claimqPayloadTypeOk(type) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "payload_type must be of printable ASCII "
        "characters, got TEXT '%.*s'", claimqShown(type), type.z);
  }
  pOwn->iPartition = pPut->aOpt[CQ_PUB_PARTITION].i;
  pPut->task.xLoad = cqPublishLoad;
}

/*
** Take the next number of the partition, which becomes the answer.  Returns 0
** if there is no such partition, or messages in it that have no number yet.
*/
static int cqPublishNext(CqOp *p, CqPut *pPut){
  const CqPublish *pOwn = (const CqPublish*)&pPut->own;
  CqStmt s = claimqStmt(p, CQ_SQL_OUTBOX_NEXT);
  claimqBindText(p, &s, CQ_OUTBOX_NEXT_queue, pPut->scope);
  claimqBindInt(p, &s, CQ_OUTBOX_NEXT_partition, pOwn->iPartition);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqClock(p));
  claimqBindPointer(p, &s, CQ_OUTBOX_NEXT_seq, &pPut->task.iAnswer,
                    CQ_NOTE_TYPE);
  return claimqExec(p, &s)>0;
}

/*
** Number the messages that are in the partition.  Raises what
** claimqQueueMissing() does if there is no such partition.
*/
static void cqPublishNumber(CqOp *p, CqPut *pPut){
  const CqPublish *pOwn = (const CqPublish*)&pPut->own;
  if( !claimqOutboxNumber(p, &pPut->task, pPut->scope, pOwn->iPartition,
                          CQ_PUBLISH_MOST) && p->rc==SQLITE_OK ){
    claimqQueueMissing(p, pPut->scope, pOwn->iPartition);
  }
}

/*
** The answer: the number that message iMessage, which has none, will get.
*/
static void cqPublishWill(CqOp *p, CqPut *pPut, i64 iMessage){
  const CqPublish *pOwn = (const CqPublish*)&pPut->own;
  CqStmt s = claimqStmt(p, CQ_SQL_OUTBOX_WILL_BE);
  claimqBindText(p, &s, CQ_OUTBOX_WILL_BE_queue, pPut->scope);
  claimqBindInt(p, &s, CQ_OUTBOX_WILL_BE_partition, pOwn->iPartition);
  claimqBindInt(p, &s, CQ_OUTBOX_WILL_BE_message, iMessage);
  if( claimqStep(p, &s) ){
    pPut->task.iAnswer = claimqColInt(&s, CQ_COL_OUTBOX_WILL_BE_seq);
  }
  claimqStmtDone(p, &s);
}

/*
** xPutWrite: the partition, and the message.
*/
CQ_PRIV void claimqPublishWrite(CqOp *p, CqPut *pPut){
  CqPublish *pOwn = (CqPublish*)&pPut->own;
  int eStored, bLater = 0;
  CqStmt s;
  if( pOwn->bStored ){
    cqPublishNumber(p, pPut);
    eStored = cqPublishStored(p, pPut);
    if( eStored==0 ) claimqStale(p, &pPut->task);
    if( eStored==2 ) cqPublishWill(p, pPut, pOwn->iMessage);
    return;
  }
  if( !cqPublishNext(p, pPut) ){
    cqPublishNumber(p, pPut);
    bLater = !cqPublishNext(p, pPut);
  }
  s = claimqStmt(p, CQ_SQL_OUTBOX_PUBLISH);
  claimqBindText(p, &s, CQ_OUTBOX_PUBLISH_queue, pPut->scope);
  claimqBindInt(p, &s, CQ_OUTBOX_PUBLISH_partition, pOwn->iPartition);
  if( bLater ) claimqBindNull(p, &s, CQ_OUTBOX_PUBLISH_seq);
  else claimqBindInt(p, &s, CQ_OUTBOX_PUBLISH_seq, pPut->task.iAnswer);
  claimqPutPayload(p, pPut, &s, CQ_OUTBOX_PUBLISH_payload);
  claimqBindText(p, &s, CQ_OUTBOX_PUBLISH_type, pPut->aOpt[CQ_PUB_TYPE].t);
  claimqBindText(p, &s, CQ_OUTBOX_PUBLISH_source_key, pOwn->sourceKey);
  claimqBindText(p, &s, CQ_OUTBOX_PUBLISH_headers,
                 pPut->aOpt[CQ_PUB_HEADERS].t);
  claimqBindNow(p, &s);
  if( claimqExec(p, &s)==0 ){
    claimqFail(p, CQ_CONFLICT, "a trigger on claimq_message left the row out");
  }
  if( bLater ) cqPublishWill(p, pPut, sqlite3_last_insert_rowid(p->db));
}
