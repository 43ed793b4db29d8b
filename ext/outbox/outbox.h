/*
** outbox.h: what outbox.c and its sisters know of each other.
*/
#ifndef CLAIMQ_OUTBOX_H
#define CLAIMQ_OUTBOX_H
#include "claimq_int.h"

/* Result columns of its own: the first columns of OUTBOX_MESSAGES. */
#define CQ_OUTBOX_NCOL 7

/* Places of arguments of claimq_outbox(...). */
#define CQ_OUTBOX_QUEUE     0
#define CQ_OUTBOX_LEASE     2
#define CQ_OUTBOX_MAX       3
#define CQ_OUTBOX_PARTITION 5

/* Places of options: of claimq_queue(), of claimq_publish(), of the verbs. */
#define CQ_QO_DEGRADE     0        /* A bit of :set for each, in this order */
#define CQ_QO_LEASE       1
#define CQ_QO_MAX         2
#define CQ_QO_BACKOFF     3
#define CQ_QO_FACTOR      4
#define CQ_QO_BACKOFF_MAX 5
#define CQ_QO_ATTEMPTS    6
#define CQ_QO_N           7        /* now_ms and request follow */
#define CQ_PUB_PARTITION 0
#define CQ_PUB_KEY       1
#define CQ_PUB_TYPE      2
#define CQ_PUB_SOURCE    3
#define CQ_PUB_HEADERS   4
#define CQ_OV_PROCESSED 0
#define CQ_OV_REJECTED  1

/**************************************************************************
** Interface to outbox/queue.c: queues.
*/
CQ_PRIV void claimqQueueCheck(CqOp*, CqText queue);         /* Its name */
/* How many partitions it has; raises not_found if there is no such queue. */
CQ_PRIV i64 claimqQueueNeed(CqOp*, CqText queue);
CQ_PRIV i64 claimqQueueLook(CqOp*, CqText queue, u8 *pbFresh);
/* A partition was not found: say why. */
CQ_PRIV void claimqQueueMissing(CqOp*, CqText queue, i64 iPartition);
CQ_PRIV void claimqQueueFunc(CqOp*, CqCall*);

/**************************************************************************
** Interface to outbox/publish.c: new messages.
*/
CQ_PRIV void claimqPublishBack(CqOp*, CqPut*, CqVal *aOpt, CqText payloadType);
CQ_PRIV void claimqPublishCheck(CqOp*, CqPut*);
CQ_PRIV void claimqPublishWrite(CqOp*, CqPut*);

/**************************************************************************
** Interface to outbox/number.c: messages that came by a plain INSERT.
*/
#define CQ_PUBLISH_MOST 10000
CQ_PRIV int claimqOutboxNumber(
  CqOp*, const CqTask*, CqText queue, i64 iPartition, i64 nNeed
);
CQ_PRIV void claimqOutboxBuryBad(CqOp*, const CqTask*, CqText queue);
CQ_PRIV void claimqOutboxDeleted(CqOp*, CqCall*);

/**************************************************************************
** Interface to outbox/claim.c, for the descriptor.
*/
CQ_PRIV void claimqOutboxArgs(CqOp*, CqClaim*);
CQ_PRIV void claimqOutboxNone(CqOp*, CqClaim*);
CQ_PRIV void claimqOutboxNext(CqOp*, CqClaim*);
CQ_PRIV i64 claimqOutboxNextAt(CqOp*, CqClaim*);
CQ_PRIV void claimqOutboxWhy(CqOp*, CqClaim*, CqWhy*);
CQ_PRIV void claimqOutboxRows(CqOp*, CqClaim*, CqText claimId);
CQ_PRIV void claimqOutboxTidy(CqOp*, CqClaim*);
CQ_PRIV void claimqOutboxStamp(CqOp*, CqClaim*);

/**************************************************************************
** Interface to outbox/verb.c, for the descriptor.
*/
CQ_PRIV void claimqOutboxDecide(CqOp*, CqVerb*, CqStmt *pHead);
CQ_PRIV void claimqOutboxBind(CqOp*, CqVerb*, CqStmt*);
CQ_PRIV void claimqOutboxSettle(CqOp*, CqVerb*);
CQ_PRIV void claimqOutboxSettled(CqOp*, CqVerb*);
CQ_PRIV void claimqOutboxVerbDone(CqVerb*);

/**************************************************************************
** Interface to outbox/vacuum.c: processed messages.
*/
CQ_PRIV void claimqOutboxVacuum(CqOp*, CqVacuum*);
/* Does a complete that processes nDone messages up to iSeq remove old ones of
** the partition?  Then it calls the other, when it has written. */
CQ_PRIV int claimqOutboxForgets(CqOp*, i64 iId, i64 iSeq, i64 nDone);
CQ_PRIV void claimqOutboxForget(CqOp*, i64 iId, i64 nDone);

#endif /* CLAIMQ_OUTBOX_H */
