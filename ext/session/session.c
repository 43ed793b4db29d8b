/*
** session.c: the session discipline.  Batches of one session are claimed in
** the order they were enqueued, by the delivery, slot and merge rules.
**
**     SELECT claimq_enqueue('chat-1', 'hi',  'slot_policy', 'join');
**     SELECT claimq_enqueue('chat-1', 'you', 'slot_policy', 'join');
**     SELECT payload, claim_id FROM claimq('chat-1', 'worker-a');
**     -- hi|qwc:1:1
**     -- you|qwc:1:1
**     SELECT claimq_complete('qwc:1:1', :lease_token);
**     -- 2
**
** How a claim works.  Batches are read one by one, as two ordered streams: rows
** that stand among the ready ones, and rows that waited and are due by now (see
** sql/schema/meta.sql).  Each row is judged by claimqBatchWhy(): where it
** stands is only a hint.  Those that are claimable are offered to the selection
** of core/session.c until that has enough.  They are materialised with the
** lease they will get, and one UPDATE stamps them, if they are still claimable.
**
** Rows that a claim had to pass over on its way, or found due, are counted, and
** if they are many the claim also moves them to the other place.
**
** A claim of any session does this twice: first with the streams of all
** sessions, to find the first one that has something to give, then with those
** of that session.
**
** A serial claim also asks about the rest of the session: is one of its batches
** held, and is there one that waits for its retry, behind which nothing may be
** delivered?
**
**     batch.c     a batch as it was read
**     streams.c   the two streams of candidates
**     any.c       which session, if any will do
**     serial.c    whether a session is busy, for serial claims
**     claim.c     taking batches, and stamping them
**     verb.c      how a claim ends
**     put.c       new batches; cancel
**     look.c      what is known of a session, if the database keeps that
**     names.c     a set of session ids
*/
#include "session.h"

/**************************************************************************
** Arguments and options
*/
#define CQ_ARG_SESSION { CQ_ARG(TEXT, "session"), .eRole = CQ_ROLE_SCOPE, \
  .mFlag = CQ_A_NULL|CQ_A_NAME, \
  .zDoc = "which session; NULL: any" }
#define CQ_ARG_BATCHES { CQ_ARG(INT, "max"), .iDefault = 32, \
  .eRole = CQ_ROLE_MAX, .zDoc = "at most this many batches" }
#define CQ_ARG_BOUNDARY { CQ_ARG(WORD, "boundary"), .mFlag = CQ_A_LOOK, \
  .xWords = claimqBoundaryWords, .zDoc = "where the session's turn stands" }
#define CQ_ARG_TAKE { CQ_ARG(WORD, "take"), .xWords = claimqTakeWords, \
  .mFlag = CQ_A_LOOK, \
  .zDoc = "turn work, a command, or whichever comes first" }
#define CQ_ARG_SERIAL { CQ_ARG(INT, "serial"), .iMax = 1, \
  .mFlag = CQ_A_LOOK, \
  .zDoc = "1: nothing while a batch of the session is held" }

/* Arguments of claimq(...). */
#define CQ_SC_SESSION  0
#define CQ_SC_BOUNDARY 5
#define CQ_SC_TAKE     6
#define CQ_SC_SERIAL   7
static const CqArgDef cqSessionArg[] = {
  CQ_ARG_SESSION, CQ_ARG_OWNER, CQ_ARG_LEASE, CQ_ARG_BATCHES,
  CQ_ARG_INCARNATION, CQ_ARG_BOUNDARY, CQ_ARG_TAKE, CQ_ARG_SERIAL, CQ_ARG_NOW,
  CQ_ARG_REQUEST,
  CQ_ARG_DONE,
};

/* Arguments of claimq_peek(...). */
#define CQ_PC_SESSION  0
#define CQ_PC_BOUNDARY 2
#define CQ_PC_TAKE     3
#define CQ_PC_SERIAL   4
static const CqArgDef cqPeekArg[] = {
  CQ_ARG_SESSION, CQ_ARG_BATCHES, CQ_ARG_BOUNDARY, CQ_ARG_TAKE, CQ_ARG_SERIAL,
  CQ_ARG_NOW,
};

/*
** Keep the arguments that the two tables have in different places.
*/
static void cqSessionKeep(
  CqClaim *pC, int iSession, int iBoundary, int iTake, int iSerial
){
  CqSession *pOwn = (CqSession*)&pC->own;
  assert( iSerial<pC->pDef->nArg );
  pOwn->session = pC->aArg[iSession].t;
  pOwn->bAny = pOwn->session.z==0;
  pOwn->eBoundary = (int)pC->aArg[iBoundary].i;
  pOwn->eTake = (int)pC->aArg[iTake].i;
  pOwn->bSerial = pC->aArg[iSerial].bGiven ? (int)pC->aArg[iSerial].i : -1;
}
static void cqSessionArgs(CqOp *p, CqClaim *pC){
  assert( pC->pDef->aArg==cqSessionArg );
  (void)p;
  cqSessionKeep(pC, CQ_SC_SESSION, CQ_SC_BOUNDARY, CQ_SC_TAKE, CQ_SC_SERIAL);
}
static void cqPeekArgs(CqOp *p, CqClaim *pC){
  assert( pC->pDef->aArg==cqPeekArg );
  (void)p;
  cqSessionKeep(pC, CQ_PC_SESSION, CQ_PC_BOUNDARY, CQ_PC_TAKE, CQ_PC_SERIAL);
}

/* Options and arguments of claimq_enqueue(). */
static const CqArgDef cqEnqueueOpt[] = {
  { CQ_ARG(TEXT, "source_key"),
    .zDoc = "unique in the session; the same key is the same batch" },
  { CQ_ARG(WORD, "work_class"), .xWords = claimqWorkWords,
    .zDoc = "turn work, or a command, which is never passed over" },
  { CQ_ARG(WORD, "delivery_policy"), .xWords = claimqDeliveryWords,
    .zDoc = "at which boundary it may be delivered" },
  { CQ_ARG(WORD, "slot_policy"), .xWords = claimqSlotWords,
    .zDoc = "claimed alone, or together with those that follow" },
  { CQ_ARG(TEXT, "merge_key"), .zDefault = "never",
    .zDoc = "batches that are joined in one claim have the same" },
  { CQ_ARG(INT, "available_at_ms"),
    .zDoc = "the batch cannot be claimed before this time" },
  { CQ_ARG(INT, "delay_ms"),
    .zDoc = "delay before the batch can be claimed, in ms" },
  CQ_ARG_HEADERS,
  { CQ_ARG(INT, "unique_for_ms"),
    .zDoc = "source_key stays taken for this long, also if the batch is done "
            "before" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};
static const CqArgDef cqEnqueueArg[] = {
  { CQ_ARG(TEXT, "session"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "which session" },
  { CQ_ARG(ANY, "payload"), .zDoc = "any value" },
};

/* Options of the verbs. */
static const CqArgDef cqSessionOpt[] = {
  { CQ_ARG(JSON, "batch_ids"), .mVerb = 1<<CQ_COMPLETE,
    .zDoc = "an array that names exactly the batches of the claim" },
};

/* Arguments of functions that triggers and statements of claimq's own call. */
static const CqArgDef cqBatchDeletedArg[] = {
  { CQ_ARG(ANY, "session") }, { CQ_ARG(ANY, "claim_id") },
  { CQ_ARG(ANY, "enqueue_seq") }, { CQ_ARG(ANY, "place") },
};
static const CqArgDef cqBatchPassedArg[] = {
  { CQ_ARG(ANY, "who") }, { CQ_ARG(ANY, "enqueue_seq") },
  { CQ_ARG(ANY, "available_at_ms") }, { CQ_ARG(ANY, "expires_at_ms") },
};
static const CqArgDef cqBatchIdArgs[] = {
  { CQ_ARG(ANY, "session") }, { CQ_ARG(ANY, "source_key") },
  { CQ_ARG(ANY, "enqueued_at_ms") }, { CQ_ARG(ANY, "enqueue_seq") },
};

/**************************************************************************
** The descriptor
*/
CQ_PRIV const CqDiscipline *claimqSessionDiscipline(void){
  static const CqTableDef aTable[] = {
    { .zName = "claimq", .zDoc = "claim batches of a session",
      .zCols = CQ_S_COLS, .zOrder = "enqueue_seq",
      .aArg = cqSessionArg, .nArg = CQ_ARRAYSIZE(cqSessionArg),
      .bWrites = 1, .bClaimCols = 1, .zPrefix = "qwc",
      .xArgs = cqSessionArgs, .xNext = claimqSessionNext,
      .xStamp = claimqSessionStamp, .xTidy = claimqSessionTidy,
      .xDone = claimqSessionDone, .xNextAt = claimqSessionNextAt,
      .xRows = claimqSessionRows, .xWhy = claimqSessionWhy },
    { .zName = "claimq_peek", .zDoc = "what a claim of a session would take",
      .zCols = CQ_S_COLS " previous_claim_id:t attempts:i",
      .zOrder = "enqueue_seq",
      .aArg = cqPeekArg, .nArg = CQ_ARRAYSIZE(cqPeekArg),
      .xArgs = cqPeekArgs, .xNext = claimqSessionNext,
      .xDone = claimqSessionDone },
  };
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_enqueue", .zDoc = "put a batch into a session",
      .eKind = CQ_F_INSERT, .nMin = 2,
      .aArg = cqEnqueueArg, .nArg = CQ_ARRAYSIZE(cqEnqueueArg),
      .aOpt = cqEnqueueOpt, .nOpt = CQ_ARRAYSIZE(cqEnqueueOpt),
      .xFunc = claimqPutRun },
    { .zName = "claimq: load the extension and use its functions to change a "
               "batch", .eKind = CQ_F_GUARD, .xFunc = claimqOutside },
    { .zName = "claimq: load the extension to delete a batch",
      .eKind = CQ_F_GUARD, .bPlain = 1, .nMin = 4, .aArg = cqBatchDeletedArg,
      .nArg = CQ_ARRAYSIZE(cqBatchDeletedArg), .xFunc = claimqSessionDeleted },
    { .zName = "claimq__batch_passed", .zDoc = "for statements of claimq's own",
      .eKind = CQ_F_READ, .bPlain = 1, .nMin = 4, .aArg = cqBatchPassedArg,
      .nArg = CQ_ARRAYSIZE(cqBatchPassedArg), .xFunc = claimqStreamsPassed },
    { .zName = "claimq__batch_id", .zDoc = "for statements of claimq's own",
      .eKind = CQ_F_READ, .bPlain = 1, .nMin = 4, .aArg = cqBatchIdArgs,
      .nArg = CQ_ARRAYSIZE(cqBatchIdArgs), .xFunc = claimqSessionBatchId },
  };
  static const int eLeases = CQ_SQL_SESSION_LEASES;
  static const int aStats[] = {CQ_SQL_SESSION_STATS, CQ_SQL_SESSION_STATS_OF};
  static const int aCheck[] = {
    CQ_SQL_SESSION_CHECK, CQ_SQL_SESSION_CHECK_CLAIMS,
    CQ_SQL_STEP_CHECK_BATCH,
    CQ_SQL_SESSION_CHECK_KNOWN
  };
  static const int aStep[] = {
    CQ_SQL_STEP_FIND_BATCH, CQ_SQL_STEP_FAST_BATCH, CQ_SQL_STEP_PUT_BATCH,
    CQ_SQL_STEP_MOVE_BATCH
  };
  static const CqDiscipline session = {
    .zName = "session", .zPrefix = "qwc",
    .pLeases = &eLeases,
    .aStats = aStats, .aCheck = aCheck, .nCheck = CQ_ARRAYSIZE(aCheck),
    .mLastCheck = CQ_SET_ANY_SESSION|CQ_SET_SERIAL,
    .aTable = aTable, .nTable = CQ_ARRAYSIZE(aTable),
    .aFunc = aFunc, .nFunc = CQ_ARRAYSIZE(aFunc),
    .aOpt = cqSessionOpt, .nOpt = CQ_ARRAYSIZE(cqSessionOpt),
    .aStep = aStep, .bStepSetting = 1,
    .eHold = CQ_SQL_SESSION_HOLD,
    .aSettle = CQ_VERBS(CQ_SQL_SESSION_RENEW_ONE,
        CQ_SQL_SESSION_COMPLETE_ONE, CQ_SQL_SESSION_RELEASE_ONE,
        CQ_SQL_SESSION_RETRY_ONE, -1, CQ_SQL_SESSION_REVOKE_ONE),
    .aFast = CQ_VERBS(CQ_SQL_SESSION_RENEW_FAST,
        CQ_SQL_SESSION_COMPLETE_ONE, -1, -1, -1, -1),
    .xVerbCheck = claimqSessionCheck,
    .xMembers = claimqSessionMembers,
    .xDecide = claimqSessionDecide,
    .xSettle = claimqSessionSettle,
    .xSettled = claimqSessionSettled,
    .xVerbDone = claimqSessionVerbDone,
    .eCancel = CQ_T_TEXT, .xCancel = claimqSessionCancel,
    .pPut = &aFunc[0],
    .xPutCheck = claimqEnqueueCheck,
    .xPutWrite = claimqEnqueueWrite,
  };
  return &session;
}
