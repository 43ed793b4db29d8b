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
** by claimqProgress() of core/outbox.c, and one UPDATE writes it.  Only if
** messages become dead letters is there more to write: these letters, before
** the cursor moves.
**
** A partition whose claims make no progress delivers half as many messages
** each time, until the one that breaks its handler is alone.
**
** Any partition will do: the free ones that have messages stand in an index by
** how long they wait.  Those whose lease expired or whose delay passed since
** are a second stream (see "Due" in sql/schema/meta.sql); the longer waiting of
** the two heads is taken.
**
**     queue.c     queues, claimq_queue()
**     publish.c   new messages
**     number.c    messages that came by a plain INSERT
**     claim.c     which partition, and what it delivers
**     verb.c      how a claim ends
**     vacuum.c    removing what is done
*/
#include "outbox.h"

/* Result columns of its own: the first columns of OUTBOX_MESSAGES. */
#define CQ_OUTBOX_COLS \
  "queue:t partition:i seq:i payload:b headers:t payload_type:t " \
  "created_at_ms:i"

#define CQ_ARG_QUEUE { CQ_ARG(TEXT, "queue"), \
  .mFlag = CQ_A_REQUIRED|CQ_A_NAME, \
  .iMin = 1, .iMax = CQ_QUEUE_NAME_MAX, .eRole = CQ_ROLE_SCOPE, \
  .zDoc = "the name of the queue" }

/* claimq_queue() */
static const CqArgDef cqQueueArg[] = {
  CQ_ARG_QUEUE,
  { CQ_ARG(INT, "partitions"), .mFlag = CQ_A_REQUIRED, .iMin = 1,
    .iMax = CQ_PARTITION_MAX, .zDoc = "how many can be worked on at a time" },
};
static const CqArgDef cqQueueOpt[] = {
  [CQ_QO_DEGRADE] =
  { CQ_ARG(INT, "degrade"), .iDefault = 1, .iMax = 1,
    .zDoc = "1: a partition that failed gets smaller batches" },
  [CQ_QO_LEASE] =
  { CQ_ARG(INT, "lease_ms"), .iDefault = 30000,
    .zDoc = "the lease of claims that give none" },
  [CQ_QO_MAX] =
  { CQ_ARG(INT, "max"), .iMin = 1, .iDefault = 100,
    .zDoc = "the max of claims that give none" },
  [CQ_QO_BACKOFF] =
  { CQ_ARG(INT, "backoff_ms"), .iDefault = 1000,
    .zDoc = "how long a partition pauses after its first retry" },
  [CQ_QO_FACTOR] =
  { CQ_ARG(INT, "backoff_factor"), .iDefault = 2,
    .zDoc = "each further retry pauses it this many times longer" },
  [CQ_QO_BACKOFF_MAX] =
  { CQ_ARG(INT, "backoff_max_ms"), .iDefault = 60000,
    .zDoc = "but no longer than this" },
  [CQ_QO_ATTEMPTS] =
  { CQ_ARG(INT, "max_attempts"),
    .zDoc = "after this many retries in one place the first message becomes "
            "a dead letter; never if not given" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

/* claimq_publish() */
static const CqArgDef cqPublishArg[] = {
  CQ_ARG_QUEUE,
  { CQ_ARG(ANY, "payload"), .zDoc = "any value; it comes back as it is" },
};
static const CqArgDef cqPublishOpt[] = {
  { CQ_ARG(INT, "partition"), .iMax = CQ_PARTITION_MAX-1,
    .zDoc = "which partition; 0 if neither this nor key is given" },
  { CQ_ARG(ANY, "key"), .zDoc = "equal keys go to the same partition" },
  { CQ_ARG(TEXT, "payload_type"), .zDefault = "application/json",
    .iMin = 1, .iMax = CQ_PAYLOAD_TYPE_MAX,
    .zDoc = "what the payload is, for readers" },
  { CQ_ARG(TEXT, "source_key"),
    .zDoc = "unique in the queue; the same key is the same message" },
  CQ_ARG_HEADERS,
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};

/* claimq_outbox(...) */
static const CqArgDef cqOutboxArg[] = {
  CQ_ARG_QUEUE,
  CQ_ARG_OWNER,
  CQ_ARG_LEASE,
  { CQ_ARG(INT, "max"), .iDefault = 100, .eRole = CQ_ROLE_MAX,
    .zDoc = "deliver at most this many messages" },
  CQ_ARG_INCARNATION,
  { CQ_ARG(INT, "partition"), .iMax = CQ_PARTITION_MAX-1, .mFlag = CQ_A_LOOK,
    .zDoc = "only this partition; any if not given" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
  CQ_ARG_DONE,
};

/* Options of the verbs. */
static const CqArgDef cqOutboxOpt[] = {
  { CQ_ARG(INT, "processed"),
    .mVerb = 1<<CQ_COMPLETE|1<<CQ_RETRY|1<<CQ_REJECT,
    .zDoc = "how many of the messages are done, from the first" },
  { CQ_ARG(JSON, "rejected"),
    .mVerb = 1<<CQ_COMPLETE|1<<CQ_RETRY|1<<CQ_REJECT,
    .zDoc = "which of these become dead letters: "
            "[{\"seq\":N,\"reason\":\"...\"}]" },
};

/* Of the trigger that a plain DELETE fires. */
static const CqArgDef cqMessageDeletedArg[] = {
  { CQ_ARG(ANY, "queue") }, { CQ_ARG(ANY, "partition") },
  { CQ_ARG(ANY, "seq") },
};

/**************************************************************************
** The descriptor
*/
CQ_PRIV const CqDiscipline *claimqOutboxDiscipline(void){
  static const CqTableDef aTable[] = {
    { .zName = "claimq_outbox", .zDoc = "take messages of a partition",
      .zCols = CQ_OUTBOX_COLS, .zOrder = "seq",
      .aArg = cqOutboxArg, .nArg = CQ_ARRAYSIZE(cqOutboxArg),
      .bWrites = 1, .bClaimCols = 1, .zPrefix = "qpc",
      .xArgs = claimqOutboxArgs, .xNone = claimqOutboxNone,
      .xNext = claimqOutboxNext,
      .xStamp = claimqOutboxStamp, .xTidy = claimqOutboxTidy,
      .xWhy = claimqOutboxWhy, .xNextAt = claimqOutboxNextAt,
      .xRows = claimqOutboxRows },
  };
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_publish", .zDoc = "put a message into a queue",
      .eKind = CQ_F_INSERT, .nMin = 2, .aArg = cqPublishArg,
      .nArg = CQ_ARRAYSIZE(cqPublishArg), .aOpt = cqPublishOpt,
      .nOpt = CQ_ARRAYSIZE(cqPublishOpt), .xFunc = claimqPutRun },
    { .zName = "claimq_queue", .zDoc = "register a queue",
      .eKind = CQ_F_WRITE, .nMin = 2, .aArg = cqQueueArg,
      .nArg = CQ_ARRAYSIZE(cqQueueArg), .aOpt = cqQueueOpt,
      .nOpt = CQ_ARRAYSIZE(cqQueueOpt), .xFunc = claimqQueueFunc },
    { .zName = "claimq: of a message only payload and headers can be changed",
      .eKind = CQ_F_GUARD, .xFunc = claimqOutside },
    { .zName = "claimq: load the extension to delete a message",
      .eKind = CQ_F_GUARD, .nMin = 3, .aArg = cqMessageDeletedArg,
      .nArg = CQ_ARRAYSIZE(cqMessageDeletedArg), .xFunc = claimqOutboxDeleted },
  };
  static const int eLeases = CQ_SQL_OUTBOX_LEASES;
  static const int aStats[] = {CQ_SQL_OUTBOX_STATS, CQ_SQL_OUTBOX_STATS_OF};
  static const int aCheck[] = {
    CQ_SQL_OUTBOX_CHECK, CQ_SQL_OUTBOX_CHECK_OPTIONS,
    CQ_SQL_OUTBOX_CHECK_QUEUES,
    CQ_SQL_OUTBOX_CHECK_MESSAGES
  };
  static const CqDiscipline outbox = {
    .zName = "outbox", .zPrefix = "qpc",
    .pLeases = &eLeases,
    .aStats = aStats, .aCheck = aCheck, .nCheck = CQ_ARRAYSIZE(aCheck),
    .aTable = aTable, .nTable = CQ_ARRAYSIZE(aTable),
    .aFunc = aFunc, .nFunc = CQ_ARRAYSIZE(aFunc),
    .aOpt = cqOutboxOpt, .nOpt = CQ_ARRAYSIZE(cqOutboxOpt),
    .eHold = CQ_SQL_OUTBOX_HOLD,
    .aSettle = CQ_VERBS(CQ_SQL_OUTBOX_RENEW, CQ_SQL_OUTBOX_SETTLE,
        CQ_SQL_OUTBOX_SETTLE, CQ_SQL_OUTBOX_SETTLE, CQ_SQL_OUTBOX_SETTLE,
        CQ_SQL_OUTBOX_SETTLE),
    .aFast = CQ_VERBS(CQ_SQL_OUTBOX_RENEW, -1, -1, -1, -1, -1),
    .xDecide = claimqOutboxDecide,
    .xBind = claimqOutboxBind,
    .xSettle = claimqOutboxSettle,
    .xSettled = claimqOutboxSettled,
    .xVerbDone = claimqOutboxVerbDone,
    .pPut = &aFunc[0],
    .xPutBack = claimqPublishBack,
    .xPutCheck = claimqPublishCheck,
    .xPutWrite = claimqPublishWrite,
    .xVacuum = claimqOutboxVacuum,
  };
  return &outbox;
}
