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
** sql/schema.sql).  Each row is judged here, by claimqBatchWhy(): where it
** stands is only a hint.  Those that are claimable are offered to the selection
** of core_session.c until that has enough.  They are materialised with the
** lease they will get, and one UPDATE stamps them, if they are still claimable.
**
** Rows that a claim had to pass over on its way, or found due, are counted, and
** if they are many the claim also moves them to the other place.
**
** A claim of any session does this twice: first with the streams of all
** sessions, to find the first one that has something to give, then with those
** of that session.
**
** A serial claim also asks what the rest of the session does: is a batch of it
** held, and is there one that waits for its retry, behind which nothing may be
** delivered?
*/
#include "session.h"

/* The columns of the claim table that are its own: the first of SESSION_READY,
** where the last of them has another name. */
#define CQ_S_COLS \
  "enqueue_seq:i batch_id:t session_id:t source_key:t " \
  "work_class:t delivery_policy:t slot_policy:t merge_key:t " \
  "payload:b enqueued_at_ms:i available_at_ms:i " \
  "batch_fencing_token:i"
#define CQ_S_FENCE CQ_COL_SESSION_READY_fencing_token
#define CQ_S_NCOL  (CQ_S_FENCE+1)

/* The columns that are read of a batch. */
#define CQ_S(NAME) CQ_COL_SESSION_READY_##NAME
#define CQ_S_NREAD (CQ_S(last_error)+1)
CQ_CHECK(SessionCols, CQ_S(enqueue_seq)==0 && CQ_S_NCOL==12
                   && (int)CQ_COL_SESSION_ROWS_fencing_token==(int)CQ_S_FENCE);

/**************************************************************************
** A batch as it was read
*/
typedef struct CqBatch CqBatch;
struct CqBatch {
  const CqStmt *pStmt;            /* The statement that stands on its row */
  sqlite3_value *apCol[CQ_S_NREAD];
  i64 iSeq;
  CqCand cand;                    /* Words and merge key if it is claimable */
  int eWhy;                       /* CQ_WHY_*: claimable, or why it is not */
  const char *zBad;               /* CQ_WHY_UNKNOWN: the column at fault */
};

/*
** The name of a column that is not of its type, or 0.  Such a row cannot be
** written back, so nothing can be done with it.
*/
static const char *cqBatchUnsound(const CqBatch *pB){
  static const struct {
    u8 iCol, eType, bNull;
    const char *zName;
  } aCol[] = {
    { CQ_S(batch_id),        SQLITE_TEXT,    0, "batch_id" },
    { CQ_S(source_key),      SQLITE_TEXT,    1, "source_key" },
    { CQ_S(enqueued_at_ms),  SQLITE_INTEGER, 0, "enqueued_at_ms" },
    { CQ_S(available_at_ms), SQLITE_INTEGER, 0, "available_at_ms" },
    { CQ_S(fencing_token),   SQLITE_INTEGER, 0, "fencing_token" },
    { CQ_S(claim_id),        SQLITE_TEXT,    1, "claim_id" },
    { CQ_S(attempts),        SQLITE_INTEGER, 0, "attempts" },
    { CQ_S(last_error),      SQLITE_TEXT,    1, "last_error" },
  };
  int i;
  for(i=0; i<CQ_ARRAYSIZE(aCol); i++){
    int eType = sqlite3_value_type(pB->apCol[aCol[i].iCol]);
    if( eType!=aCol[i].eType && !(aCol[i].bNull && eType==SQLITE_NULL) ){
      return aCol[i].zName;
    }
  }
  return 0;
}

/*
** The number of the word in a column, -1 if it is none of them.
*/
static int cqBatchWord(
  CqOp *p, const CqBatch *pB, int iCol, const char *const *azWord
){
  return claimqWord(azWord, claimqTextOrNull(p, pB->apCol[iCol]));
}

/*
** Read what selection looks at.  Returns the name of a column that has a value
** nobody may write, or 0.
*/
static const char *cqBatchWords(CqOp *p, CqBatch *pB){
  int eWork = cqBatchWord(p, pB, CQ_S(work_class), claimqWorkWords());
  int eDelivery = cqBatchWord(p, pB, CQ_S(delivery_policy),
                              claimqDeliveryWords());
  int eSlot = cqBatchWord(p, pB, CQ_S(slot_policy), claimqSlotWords());
  pB->cand.eWork = (u8)eWork;
  pB->cand.eDelivery = (u8)eDelivery;
  pB->cand.eSlot = (u8)eSlot;
  pB->cand.merge = claimqTextOrNull(p, pB->apCol[CQ_S(merge_key)]);
  return eWork<0 ? "work_class"
       : eDelivery<0 ? "delivery_policy"
       : eSlot<0 ? "slot_policy"
       : !claimqMergeKeyOk(pB->cand.merge) ? "merge_key" : 0;
}

/*
** Until when a claim that is written in the row holds it.  0 if somebody put
** something else there: then zBad is set.
*/
static i64 cqBatchExpires(CqBatch *pB){
  sqlite3_value *pVal = claimqColValue(pB->pStmt, CQ_S(expires_at_ms));
  int eType = sqlite3_value_type(pVal);
  if( eType!=SQLITE_INTEGER && eType!=SQLITE_NULL ) pB->zBad = "expires_at_ms";
  return pB->zBad ? 0 : sqlite3_value_int64(pVal);
}

/*
** Read the row that pStmt stands on, and judge it.  1 if the stream must stop
** at it: it is claimable, or somebody corrupted it.
*/
static int cqBatchRead(CqOp *p, const CqStmt *pStmt, CqBatch *pB){
  static const u8 aiCol[] = {
    CQ_S(enqueue_seq), CQ_S(batch_id), CQ_S(source_key), CQ_S(work_class),
    CQ_S(delivery_policy), CQ_S(slot_policy), CQ_S(merge_key),
    CQ_S(enqueued_at_ms), CQ_S(available_at_ms), CQ_S(fencing_token),
    CQ_S(claim_id), CQ_S(attempts), CQ_S(last_error)
  };
  int i;
  assert( sqlite3_data_count(pStmt->pStmt)>CQ_S_NREAD );
  pB->pStmt = pStmt;
  pB->zBad = 0;
  for(i=0; i<CQ_ARRAYSIZE(aiCol); i++){
    pB->apCol[aiCol[i]] = claimqColValue(pStmt, aiCol[i]);
  }
  pB->iSeq = sqlite3_value_int64(pB->apCol[CQ_S(enqueue_seq)]);
  pB->cand.iAvailable = sqlite3_value_int64(pB->apCol[CQ_S(available_at_ms)]);
  pB->cand.bClaimed =
      sqlite3_value_type(pB->apCol[CQ_S(claim_id)])!=SQLITE_NULL;
  pB->cand.iExpires = pB->cand.bClaimed ? cqBatchExpires(pB) : 0;
  pB->eWhy = claimqBatchWhy(&pB->cand, claimqNow(p));
  if( pB->eWhy==CQ_WHY_CLAIMABLE ){
    if( pB->zBad==0 ) pB->zBad = cqBatchWords(p, pB);
    if( pB->zBad==0 ) pB->zBad = cqBatchUnsound(pB);
    if( pB->zBad ) pB->eWhy = CQ_WHY_UNKNOWN;
  }
  return pB->eWhy==CQ_WHY_CLAIMABLE || pB->eWhy==CQ_WHY_UNKNOWN;
}

/**************************************************************************
** Candidates: two streams, each in the order of enqueue_seq
*/
typedef struct CqStreams CqStreams;
struct CqStreams {
  CqStmt ready, due, row;         /* row reads what due only names */
  u8 bReady, bDue;                /* The stream stands on a row, */
  CqBatch readyBatch, dueBatch;   /* this one */
  u8 bFound;                      /* A claimable one was met */
  CqIds *pPassed;                 /* OUT: ready rows before it that are not */
  CqIds *pDue;                    /* OUT: rows of the due stream */
};

/*
** List a row for upkeep, which moves so many at most.  pIds may be 0.
*/
static void cqStreamsList(CqOp *p, CqIds *pIds, i64 iSeq){
  if( pIds && pIds->n<CQ_DUE_MOST ) claimqIdsAdd(p, pIds, iSeq);
}

/*
** Go on with the ready stream.  bRow: its statement stands on a row that was
** not looked at yet.
*/
static void cqStreamsReady(CqOp *p, CqStreams *pS, int bRow){
  assert( !bRow || p->rc==SQLITE_OK );
  pS->bReady = 0;
  while( bRow && claimqColInt(&pS->ready, CQ_S(due))<0 ){
    if( cqBatchRead(p, &pS->ready, &pS->readyBatch) ){
      pS->bReady = 1;
      pS->bFound |= pS->readyBatch.eWhy==CQ_WHY_CLAIMABLE;
      return;
    }
    if( !pS->bFound ) cqStreamsList(p, pS->pPassed, pS->readyBatch.iSeq);
    bRow = claimqStep(p, &pS->ready);
  }
}

/*
** Go on with the due stream.
*/
static void cqStreamsDue(CqOp *p, CqStreams *pS){
  pS->bDue = (u8)claimqStep(p, &pS->due);
  if( pS->bDue ){
    pS->dueBatch.iSeq = claimqColInt(&pS->due, CQ_COL_SESSION_DUE_enqueue_seq);
    cqStreamsList(p, pS->pDue, pS->dueBatch.iSeq);
  }
}

/*
** Open the streams of a session; of all sessions if session.z==0.  What is met
** on the way is added to the two lists, unless these are 0.  The caller closes,
** also after errors.
*/
static void cqStreamsOpen(
  CqOp *p, CqStreams *pS, CqText session, CqIds *pPassed, CqIds *pDue
){
  int bAny = session.z==0;
  int bRow, bWaited = bAny;
  memset(pS, 0, sizeof(*pS));
  pS->pPassed = pPassed;
  pS->pDue = pDue;
  pS->ready = claimqStmt(p, bAny ? CQ_SQL_SESSION_ANY_READY
                                 : CQ_SQL_SESSION_READY);
  if( !bAny ) claimqBindText(p, &pS->ready, CQ_SESSION_READY_session, session);
  claimqBindCommonInt(p, &pS->ready, CQ_P_now, claimqNow(p));
  bRow = claimqStep(p, &pS->ready);
  if( bRow ) bWaited = claimqColInt(&pS->ready, CQ_S(waited))!=0;
  cqStreamsReady(p, pS, bRow);
  if( bWaited ){
    pS->due = claimqStmt(p, bAny ? CQ_SQL_SESSION_ANY_DUE
                                 : CQ_SQL_SESSION_DUE);
    if( !bAny ) claimqBindText(p, &pS->due, CQ_SESSION_DUE_session, session);
    claimqBindCommonInt(p, &pS->due, CQ_P_now, claimqNow(p));
    cqStreamsDue(p, pS);
  }
}

/*
** Give back the statements of the streams, also of those that op had an error
** for when they were opened.  What was read of their rows is gone.
*/
static void cqStreamsClose(CqOp *p, CqStreams *pS){
  claimqStmtDone(p, &pS->ready);
  claimqStmtDone(p, &pS->due);
  claimqStmtDone(p, &pS->row);
}

/*
** Read the row that the due stream stands on.  0 if it is not claimable:
** somebody may have put it off while it was claimed.
*/
static int cqStreamsRow(CqOp *p, CqStreams *pS){
  assert( pS->bDue );
  if( pS->row.pStmt==0 ) pS->row = claimqStmt(p, CQ_SQL_SESSION_BY_SEQ);
  claimqStmtReset(&pS->row);
  claimqBindInt(p, &pS->row, CQ_SESSION_READY_seq, pS->dueBatch.iSeq);
  return claimqStep(p, &pS->row) && cqBatchRead(p, &pS->row, &pS->dueBatch);
}

/*
** The earlier of the two heads, 0 at the end of both or if op has an error.
*/
static const CqBatch *cqStreamsHead(CqOp *p, CqStreams *pS){
  while( p->rc==SQLITE_OK && pS->bDue
      && !(pS->bReady && pS->readyBatch.iSeq<pS->dueBatch.iSeq)
  ){
    if( cqStreamsRow(p, pS) ) return &pS->dueBatch;
    cqStreamsDue(p, pS);
  }
  return p->rc==SQLITE_OK && pS->bReady ? &pS->readyBatch : 0;
}

/*
** Step over the head.
*/
static void cqStreamsNext(CqOp *p, CqStreams *pS, const CqBatch *pHead){
  assert( pHead==&pS->dueBatch ? pS->bDue : pS->bReady );
  if( pHead==&pS->dueBatch ) cqStreamsDue(p, pS);
  else cqStreamsReady(p, pS, claimqStep(p, &pS->ready));
}

/*
** Something is claimed: go on listing due rows, for upkeep.
*/
static void cqStreamsRest(CqOp *p, CqStreams *pS){
  while( pS->pDue && pS->bDue && pS->pDue->n<CQ_DUE_MOST ) cqStreamsDue(p, pS);
}

/**************************************************************************
** Claim and peek
*/
typedef struct CqSession CqSession;       /* CqClaim.own */
struct CqSession {
  CqText session;                 /* As given, or zSession */
  char *zSession;                 /* Any session: the one that was chosen */
  u8 bAny;                        /* No session was given */
  int eBoundary, eTake;
  int bSerial;                    /* -1: as the database's setting says */
  i64 iKept;                      /* Serial: batches behind this one wait */
  u8 bLease;                      /* The claim is serial, and remembers it */
  u8 bMove;                       /* The rows leave their place in the index */
  CqSelect sel;
  CqIds passed, due;              /* For upkeep: see CqStreams */
  CqNames wrong;                  /* For upkeep: see cqKnownWrong() */
};
CQ_CHECK(Session, sizeof(CqSession)<=sizeof(CqOwn));

#define CQ_ARG_SESSION { CQ_ARG(TEXT, "session"), .eRole = CQ_ROLE_SCOPE, \
  .mFlag = CQ_A_NULL|CQ_A_NAME, \
  .zDoc = "which session; NULL: any" }
#define CQ_ARG_BATCHES { CQ_ARG(INT, "max_batches"), .iDefault = 32, \
  .eRole = CQ_ROLE_MAX, .zDoc = "at most so many batches" }
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
#define CQ_SC_SERIAL   8
static const CqArgDef cqSessionArg[] = {
  CQ_ARG_SESSION, CQ_ARG_OWNER, CQ_ARG_TTL, CQ_ARG_BATCHES, CQ_ARG_INCARNATION,
  CQ_ARG_BOUNDARY, CQ_ARG_TAKE, CQ_ARG_NOW, CQ_ARG_SERIAL, CQ_ARG_REQUEST,
};

/* Arguments of claimq_peek(...). */
#define CQ_PC_SESSION  0
#define CQ_PC_BOUNDARY 2
#define CQ_PC_TAKE     3
#define CQ_PC_SERIAL   5
static const CqArgDef cqPeekArg[] = {
  CQ_ARG_SESSION, CQ_ARG_BATCHES, CQ_ARG_BOUNDARY, CQ_ARG_TAKE, CQ_ARG_NOW,
  CQ_ARG_SERIAL,
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

/*
** Add the batch that was just selected to the rows for the caller.  The first
** one is the head: the lease comes from it, and its merge key is kept for the
** batches to come.
*/
static void cqSessionTake(CqOp *p, CqClaim *pC, const CqBatch *pB){
  CqSession *pOwn = (CqSession*)&pC->own;
  CqCell *a = claimqRowsAdd(p, pC->pRows);
  i64 iFence = sqlite3_value_int64(pB->apCol[CQ_S(fencing_token)]);
  CqText previous = claimqTextOrNull(p, pB->apCol[CQ_S(claim_id)]);
  i64 nAttempt = sqlite3_value_int64(pB->apCol[CQ_S(attempts)]);
  assert( pB->eWhy==CQ_WHY_CLAIMABLE && pOwn->session.z );
  claimqCellColumns(p, pC->pRows, a, pB->pStmt, CQ_S_NCOL);
  if( a && (pC->pRows->mSkip>>CQ_S(session_id) & 1)==0 ){
    claimqCellText(p, pC->pRows, &a[CQ_S(session_id)], pOwn->session);
  }
  claimqIdsAdd(p, &pC->ids, pB->iSeq);
  if( p->rc ) return;
  assert( pC->ids.n==pC->pRows->nRow );
  if( pC->ids.n==1 ){
    CqCell merge;
    claimqCellValue(p, pC->pRows, &merge, pB->apCol[CQ_S(merge_key)]);
    if( p->rc ) return;
    pOwn->sel.head.merge = claimqCellGetText(&merge);
    if( pC->pDef->bWrites ){
      claimqLeaseMake(p, &pC->lease, pC, pB->iSeq, iFence, pOwn->session);
    }
  }
  if( pC->pDef->bWrites ){
    claimqCellInt(&a[CQ_S_FENCE], claimqAddSat(iFence, 1));
    claimqLeaseCells(p, pC->pRows, &a[CQ_S_NCOL], &pC->lease, previous,
                     nAttempt);
  }else{
    claimqCellText(p, pC->pRows, &a[CQ_S_NCOL], previous);
    claimqCellInt(&a[CQ_S_NCOL+1], nAttempt);
  }
}

/*
** A corrupted batch at the head of a session that was asked for is an error;
** when any session will do it is passed over, with a word in the error log.
*/
static void cqSessionBad(CqOp *p, const CqClaim *pC, const CqBatch *pB){
  const char *zBad = pB->zBad ? pB->zBad : "session_id";
  if( p->rc ) return;
  assert( pB->eWhy==CQ_WHY_UNKNOWN || pB->eWhy==CQ_WHY_CLAIMABLE );
  if( ((const CqSession*)&pC->own)->bAny ){
    sqlite3_log(SQLITE_CORRUPT, "claimq: claimq_batch row %lld has a bad %s "
                "and is passed over", pB->iSeq, zBad);
  }else{
    claimqFail(p, CQ_SCHEMA_MISMATCH, "row %lld of claimq_batch has a bad %s: "
               "repair or delete it", pB->iSeq, zBad);
  }
}

/*
** 1 if the claim is a serial one: it says so, or the database does.
*/
static int cqSessionSerial(CqOp *p, const CqClaim *pC){
  const CqSession *pOwn = (const CqSession*)&pC->own;
  return pOwn->bSerial>=0 ? pOwn->bSerial
                          : (claimqSettings(p) & CQ_SET_SERIAL)!=0;
}

/*
** 1 if a live claim holds a batch of the session.  If none does, *piKept is the
** first batch of it that was claimed before and waits for its retry,
** CQ_I64_MAX if there is none.  piUntil, which may be 0: until when that will
** be so.
*/
static int cqSessionBusy(
  CqOp *p, CqText session, i64 *piKept, i64 *piUntil
){
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_BUSY);
  i64 iHeld = 0, iWaits = 0;
  int bBusy = 0;
  claimqBindText(p, &s, CQ_SESSION_BUSY_session, session);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  *piKept = CQ_I64_MAX;
  while( (piUntil || !bBusy) && claimqStep(p, &s) ){
    i64 iSeq = claimqColInt(&s, CQ_COL_SESSION_BUSY_enqueue_seq);
    i64 iExpires = claimqColInt(&s, CQ_COL_SESSION_BUSY_expires_at_ms);
    if( claimqColInt(&s, CQ_COL_SESSION_BUSY_held) ){
      bBusy = 1;
      if( iExpires>iHeld ) iHeld = iExpires;
    }
    if( claimqColInt(&s, CQ_COL_SESSION_BUSY_waits) && iSeq<*piKept ){
      *piKept = iSeq;
      iWaits = claimqColInt(&s, CQ_COL_SESSION_BUSY_available_at_ms);
    }
  }
  claimqStmtDone(p, &s);
  if( piUntil ) *piUntil = bBusy ? iHeld : iWaits;
  return bBusy;
}

/*
** Any session: 1 if the session gives something to the claim.  pB is its first
** claimable batch.
*/
static int cqSessionGives(
  CqOp *p, CqClaim *pC, CqText session, const CqBatch *pB, int bSerial
){
  CqSession *pOwn = (CqSession*)&pC->own;
  CqSelect sel;
  claimqSelectInit(&sel, pOwn->eBoundary, pOwn->eTake, 1);
  if( !claimqSelectOffer(&sel, &pB->cand) ) return 0;
  if( !bSerial ) return 1;
  return !cqSessionBusy(p, session, &pOwn->iKept, 0)
      && pB->iSeq<pOwn->iKept;
}

/**************************************************************************
** Any session, where the database keeps a row for each: see sql/schema.sql
*/
#define CQ_KNOWN_COMMAND 1        /* claimq_session.state */
#define CQ_KNOWN_TURN    2
#define CQ_KNOWN_LATE    3
#define CQ_KNOWN_BUSY    4        /* is added */
#define CQ_NKNOWN        8

typedef struct CqBest CqBest;     /* The best session so far */
struct CqBest {
  i64 iSeq;                       /* Its first batch; CQ_I64_MAX: none */
  i64 iKept;                      /* As CqSession.iKept */
  char *zSession;
  int nSession;
  int bSerial;                    /* The claim is serial */
};

/*
** 1 if the claim may take from sessions in this state.
*/
static int cqKnownFits(const CqClaim *pC, int eState, int bSerial){
  const CqSession *pOwn = (const CqSession*)&pC->own;
  assert( eState>=0 && eState<CQ_NKNOWN );
  if( eState>=CQ_KNOWN_BUSY && bSerial ) return 0;
  switch( eState & ~CQ_KNOWN_BUSY ){
    case CQ_KNOWN_COMMAND:
      return pOwn->eTake!=CQ_TAKE_TURN;
    case CQ_KNOWN_TURN:
      return pOwn->eTake!=CQ_TAKE_COMMAND;
    case CQ_KNOWN_LATE:
      return pOwn->eTake!=CQ_TAKE_COMMAND && pOwn->eBoundary==CQ_BOUNDARY_IDLE;
  }
  return 0;
}

/*
** Look at a session: if it gives something, and that comes before what the best
** one gives, it is the best now.  Returns its first claimable batch, 0 if there
** is none.
*/
static i64 cqKnownLook(CqOp *p, CqClaim *pC, CqText session, CqBest *pBest){
  CqSession *pOwn = (CqSession*)&pC->own;
  int bWrites = pC->pDef->bWrites;
  i64 iKept = pOwn->iKept, iFirst = 0;
  const CqBatch *pB;
  CqStreams s;
  cqStreamsOpen(p, &s, session, bWrites ? &pOwn->passed : 0,
                bWrites ? &pOwn->due : 0);
  while( (pB = cqStreamsHead(p, &s))!=0 && pB->eWhy!=CQ_WHY_CLAIMABLE ){
    cqSessionBad(p, pC, pB);
    cqStreamsNext(p, &s, pB);
  }
  if( pB ){
    iFirst = pB->iSeq;
    if( iFirst<pBest->iSeq
     && cqSessionGives(p, pC, session, pB, pBest->bSerial)
    ){
      sqlite3_free(pBest->zSession);
      pBest->zSession = claimqTextDup(p, session);
      pBest->nSession = session.n;
      pBest->iSeq = iFirst;
      pBest->iKept = pOwn->iKept;
    }
    cqStreamsRest(p, &s);
  }
  cqStreamsClose(p, &s);
  pOwn->iKept = iKept;
  return iFirst;
}

/*
** What is known of the session is wrong: have it repaired, if the claim writes.
*/
static void cqKnownWrong(CqOp *p, CqClaim *pC, CqText session){
  CqSession *pOwn = (CqSession*)&pC->own;
  if( pC->pDef->bWrites && pOwn->wrong.n<CQ_DUE_MOST
   && !claimqNamesHas(&pOwn->wrong, session)
  ){
    claimqNamesAdd(p, &pOwn->wrong, session);
  }
}

/*
** The first session in a state whose head comes after iAfter: its head,
** CQ_I64_MAX if there is none.  With pBest it is also looked at.
*/
static i64 cqKnownNext(
  CqOp *p, CqClaim *pC, int eState, i64 iAfter, CqBest *pBest
){
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_KNOWN);
  i64 iHead = CQ_I64_MAX;
  claimqBindInt(p, &s, CQ_SESSION_KNOWN_state, eState);
  claimqBindInt(p, &s, CQ_SESSION_KNOWN_after, iAfter);
  if( claimqStep(p, &s) ){
    iHead = claimqColInt(&s, CQ_COL_SESSION_KNOWN_head);
    if( pBest ){
      CqText session = claimqColText(p, &s, CQ_COL_SESSION_KNOWN_session_id);
      i64 iFirst = cqKnownLook(p, pC, session, pBest);
      if( iFirst==0 || iFirst>iHead ) cqKnownWrong(p, pC, session);
    }
  }
  claimqStmtDone(p, &s);
  return iHead;
}

/*
** Look at the sessions whose state may be another by now, and at those whose
** head lies ahead of the clock: all of them.
*/
static void cqKnownDue(CqOp *p, CqClaim *pC, CqBest *pBest){
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_KNOWN_DUE);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  while( claimqStep(p, &s) ){
    CqText session = claimqColText(p, &s, CQ_COL_SESSION_KNOWN_DUE_session_id);
    cqKnownLook(p, pC, session, pBest);
    if( claimqColInt(&s, CQ_COL_SESSION_KNOWN_DUE_due)<0 ){
      cqKnownWrong(p, pC, session);
    }
  }
  claimqStmtDone(p, &s);
}

/*
** As cqSessionChoose(): the sessions in states that fit, in the order of their
** heads, until one comes after the best.
*/
static int cqKnownChoose(CqOp *p, CqClaim *pC, int bSerial){
  CqSession *pOwn = (CqSession*)&pC->own;
  i64 aHead[CQ_NKNOWN];
  CqBest best;
  int i;
  memset(&best, 0, sizeof(best));
  best.iSeq = CQ_I64_MAX;
  best.bSerial = bSerial;
  cqKnownDue(p, pC, &best);
  for(i=0; i<CQ_NKNOWN; i++){
    aHead[i] = cqKnownFits(pC, i, bSerial) ? cqKnownNext(p, pC, i, 0, 0)
                                           : CQ_I64_MAX;
  }
  while( p->rc==SQLITE_OK ){
    int iMin = 0;
    for(i=1; i<CQ_NKNOWN; i++) if( aHead[i]<aHead[iMin] ) iMin = i;
    if( aHead[iMin]>=best.iSeq ) break;
    cqKnownNext(p, pC, iMin, aHead[iMin]-1, &best);
    if( best.iSeq==aHead[iMin] ) break;   /* No other head is before it */
    aHead[iMin] = cqKnownNext(p, pC, iMin, aHead[iMin], 0);
  }
  sqlite3_free(pOwn->zSession);
  pOwn->zSession = best.zSession;
  pOwn->session.z = best.zSession;
  pOwn->session.n = best.nSession;
  pOwn->iKept = best.iKept;
  assert( p->rc || (best.zSession!=0)==(best.iSeq<CQ_I64_MAX) );
  return p->rc==SQLITE_OK && best.zSession!=0;
}

/*
** Any session: choose the first that has something to give, in the order of
** their first claimable batches.  0 if there is none or op has an error, else
** pOwn->session is set, and xDone frees it.
*/
static int cqSessionChoose(CqOp *p, CqClaim *pC, int bSerial){
  CqSession *pOwn = (CqSession*)&pC->own;
  int bWrites = pC->pDef->bWrites;
  CqText any = {0, 0};
  CqNames past = {0, 0, 0};
  const CqBatch *pB;
  CqStreams s;
  assert( pOwn->bAny );
  cqStreamsOpen(p, &s, any, bWrites ? &pOwn->passed : 0,
                bWrites ? &pOwn->due : 0);
  while( (pB = cqStreamsHead(p, &s))!=0 ){
    if( pB->eWhy==CQ_WHY_CLAIMABLE
     && claimqColType(pB->pStmt, CQ_S(session_id))==SQLITE_TEXT
    ){
      CqText session = claimqColText(p, pB->pStmt, CQ_S(session_id));
      if( !claimqNamesHas(&past, session) ){
        if( cqSessionGives(p, pC, session, pB, bSerial) ){
          sqlite3_free(pOwn->zSession);
          pOwn->zSession = claimqTextDup(p, session);
          pOwn->session.z = pOwn->zSession;
          pOwn->session.n = session.n;
          cqStreamsRest(p, &s);
          break;
        }
        claimqNamesAdd(p, &past, session);
      }
    }else{
      cqSessionBad(p, pC, pB);
    }
    cqStreamsNext(p, &s, pB);
  }
  cqStreamsClose(p, &s);
  claimqNamesClear(&past);
  return p->rc==SQLITE_OK && pB!=0;
}

/*
** Any session: choose one, by what the database keeps for that if it does.
*/
static int cqSessionAny(CqOp *p, CqClaim *pC, int bSerial){
  return claimqSettings(p) & (CQ_SET_ANY_SESSION|CQ_SET_SERIAL)
       ? cqKnownChoose(p, pC, bSerial) : cqSessionChoose(p, pC, bSerial);
}

/*
** Offer the batches of the session to selection, until that is over.
*/
static void cqSessionSelect(CqOp *p, CqClaim *pC, CqStreams *pS){
  CqSession *pOwn = (CqSession*)&pC->own;
  const CqBatch *pB;
  while( !pOwn->sel.bDone && (pB = cqStreamsHead(p, pS))!=0 ){
    if( pB->iSeq>pOwn->iKept ) break;
    if( pB->eWhy==CQ_WHY_CLAIMABLE ){
      if( !claimqSelectOffer(&pOwn->sel, &pB->cand) ) break;
      cqSessionTake(p, pC, pB);
      pOwn->bMove |= pB==&pS->dueBatch;
    }else{
      if( pC->ids.n ) break;
      cqSessionBad(p, pC, pB);
    }
    if( !pOwn->sel.bDone ) cqStreamsNext(p, pS, pB);
  }
}

/*
** Load and decide.  What a claim of any session met is listed by its choice:
** what it then meets in the session was met there, and so was looked at what a
** serial claim must know.
*/
static void cqSessionNext(CqOp *p, CqClaim *pC){
  CqSession *pOwn = (CqSession*)&pC->own;
  int bList = pC->pDef->bWrites && !pOwn->bAny;
  int bBusy = 0;
  CqStreams s;
  pOwn->passed.n = pOwn->due.n = 0;
  claimqNamesClear(&pOwn->wrong);
  pOwn->bMove = (claimqSettings(p) & (CQ_SET_ANY_SESSION|CQ_SET_SERIAL))!=0;
  pOwn->iKept = CQ_I64_MAX;
  if( pOwn->bAny ){
    pOwn->bLease = (u8)cqSessionSerial(p, pC);
    if( !cqSessionAny(p, pC, pOwn->bLease) ) return;
  }
  claimqSelectInit(&pOwn->sel, pOwn->eBoundary, pOwn->eTake, pC->nMax);
  cqStreamsOpen(p, &s, pOwn->session, bList ? &pOwn->passed : 0,
                bList ? &pOwn->due : 0);
  if( !pOwn->bAny && (s.bReady || s.bDue) ){
    pOwn->bLease = (u8)cqSessionSerial(p, pC);
    if( pOwn->bLease ){
      bBusy = cqSessionBusy(p, pOwn->session, &pOwn->iKept, 0);
    }
  }
  if( !bBusy ) cqSessionSelect(p, pC, &s);
  if( pC->ids.n ) cqStreamsRest(p, &s);
  cqStreamsClose(p, &s);
  if( pC->pDef->bWrites ){
    claimqClaimNeed(pC, pOwn->passed.n>CQ_PASS_FEW || pOwn->due.n>=CQ_DUE_FEW
                     || pOwn->wrong.n>0);
  }
}

/*
** Move the listed rows to the other place.
*/
static void cqSessionPlace(CqOp *p, int eStmt, const CqIds *pIds){
  CqStmt s = claimqStmt(p, eStmt);
  i64 iFirst = pIds->a[0], iLast = pIds->a[0];
  int i;
  assert( pIds->n>0 && pIds->n<=CQ_DUE_MOST );
  for(i=1; i<pIds->n; i++){
    if( pIds->a[i]<iFirst ) iFirst = pIds->a[i];
    if( pIds->a[i]>iLast ) iLast = pIds->a[i];
  }
  claimqBindIds(p, &s, CQ_SESSION_PARK_ids, pIds);
  claimqBindInt(p, &s, CQ_SESSION_PARK_first, iFirst);
  claimqBindInt(p, &s, CQ_SESSION_PARK_last, iLast);
  claimqExec(p, &s);
}

/*
** Put the indexes in order, so that the next claim finds its rows at once, and
** repair what is known of sessions.
*/
static void cqSessionTidy(CqOp *p, CqClaim *pC){
  const CqSession *pOwn = (const CqSession*)&pC->own;
  int i;
  if( pOwn->passed.n>CQ_PASS_FEW ){
    cqSessionPlace(p, CQ_SQL_SESSION_PARK, &pOwn->passed);
  }
  if( pOwn->due.n>=CQ_DUE_FEW ){
    cqSessionPlace(p, CQ_SQL_SESSION_PROMOTE, &pOwn->due);
  }
  for(i=0; i<pOwn->wrong.nSlot; i++){
    if( pOwn->wrong.a[i].z ){
      CqStmt s = claimqStmt(p, CQ_SQL_SESSION_LOOK);
      claimqBindText(p, &s, CQ_SESSION_LOOK_session, pOwn->wrong.a[i]);
      claimqExec(p, &s);
    }
  }
}

/*
** Stamp the rows.  Those that waited get a new time to wait for, and rows so
** many that the next claim had to look past them do not stay where they are.
*/
static void cqSessionStamp(CqOp *p, CqClaim *pC){
  const CqSession *pOwn = (const CqSession*)&pC->own;
  int n = pC->ids.n;
  int bMove = pOwn->bMove || n>CQ_STAY_MOST;
  int eStmt = bMove ? (n>1 ? CQ_SQL_SESSION_MOVE : CQ_SQL_SESSION_MOVE_ONE)
                    : (n>1 ? CQ_SQL_SESSION_STAMP : CQ_SQL_SESSION_STAMP_ONE);
  CqStmt s = claimqStmt(p, eStmt);
  assert( n>0 && n==pC->pRows->nRow );
  assert( pC->lease.iHead==pC->ids.a[0] && pC->lease.bCells );
  claimqLeaseBind(p, &s, &pC->lease);
  if( eStmt==CQ_SQL_SESSION_MOVE ){
    claimqBindIds(p, &s, CQ_SESSION_STAMP_ids, &pC->ids);
  }else if( eStmt==CQ_SQL_SESSION_STAMP ){
    claimqBindText(p, &s, CQ_SESSION_STAMP_session, pOwn->session);
  }
  claimqBindInt(p, &s, CQ_SESSION_STAMP_size, n);
  claimqBindInt(p, &s, CQ_SESSION_STAMP_last, pC->ids.a[n-1]);
  if( pOwn->bLease ) claimqBindInt(p, &s, CQ_SESSION_STAMP_serial, 1);
  else claimqBindNull(p, &s, CQ_SESSION_STAMP_serial);
  claimqClaimStamp(p, pC, &s, n);
}

/*
** xDone: free what the claim has collected.
*/
static void cqSessionDone(CqClaim *pC){
  CqSession *pOwn = (CqSession*)&pC->own;
  claimqIdsClear(&pOwn->passed);
  claimqIdsClear(&pOwn->due);
  claimqNamesClear(&pOwn->wrong);
  sqlite3_free(pOwn->zSession);
}

/*
** When a claim could succeed: now, or when a row falls due or a lease ends.
*/
static i64 cqSessionNextAt(CqOp *p, CqClaim *pC){
  CqText session = ((CqSession*)&pC->own)->session;
  int bSerial = cqSessionSerial(p, pC);
  CqStmt s;
  if( claimqLookTakes(p, pC) ) return claimqNow(p);
  s = claimqStmt(p, session.z ? CQ_SQL_SESSION_LATER
                              : CQ_SQL_SESSION_ANY_LATER);
  if( session.z ) claimqBindText(p, &s, CQ_SESSION_LATER_session, session);
  claimqBindInt(p, &s, CQ_SESSION_LATER_now, claimqNow(p));
  claimqBindInt(p, &s, CQ_SESSION_LATER_serial, bSerial);
  claimqBindInt(p, &s, CQ_SESSION_LATER_limit, CQ_LOOK_ROWS);
  return claimqLookLater(p, &s);
}

/*
** One session as xWhy sees it: what the first of its batches that cannot be
** taken is kept by, keeps all behind it.
*/
typedef struct CqFront CqFront;
struct CqFront {
  char *zSession;                 /* 0: no batch of it was met */
  CqText session;
  int eFront;                     /* CQ_WHY_*: what keeps the rest */
  int bSerial, bBusy;
  i64 iKept;                      /* As CqSession.iKept */
  i64 iUntil;                     /* Until when it is busy, or keeps the rest */
};

/*
** Begin with a session, unless it is the same as before.
*/
static void cqFrontEnter(CqOp *p, CqFront *pF, CqText session){
  if( p->rc || (pF->zSession && claimqTextEq(pF->session, session)) ) return;
  sqlite3_free(pF->zSession);
  pF->zSession = claimqTextDup(p, session);
  pF->session.z = pF->zSession;
  pF->session.n = session.n;
  pF->eFront = CQ_WHY_CLAIMABLE;
  pF->bBusy = 0;
  pF->iKept = CQ_I64_MAX;
  if( pF->bSerial && p->rc==SQLITE_OK ){
    pF->bBusy = cqSessionBusy(p, pF->session, &pF->iKept, &pF->iUntil);
  }
}

/*
** The reason of a batch that is claimable by itself.
*/
static int cqFrontWhy(CqFront *pF, const CqSession *pOwn, const CqBatch *pB){
  if( pF->eFront==CQ_WHY_CLAIMABLE ){
    pF->eFront = pF->bBusy ? CQ_WHY_BUSY
        : pB->iSeq>pF->iKept ? CQ_WHY_KEPT_BACK
        : claimqHeadWhy(pOwn->eBoundary, pOwn->eTake, &pB->cand);
  }
  return pF->eFront;
}

/*
** xWhy.  A claim of any session is asked of the session that it would choose;
** if it would choose none, of all.
*/
static void cqSessionWhy(CqOp *p, CqClaim *pC, CqWhy *pWhy){
  CqSession *pOwn = (CqSession*)&pC->own;
  CqFront front;
  CqBatch b;
  CqStmt s;
  int bAll;
  memset(&front, 0, sizeof(front));
  pOwn->iKept = CQ_I64_MAX;
  front.bSerial = cqSessionSerial(p, pC);
  bAll = pOwn->bAny && !cqSessionAny(p, pC, front.bSerial);
  s = claimqStmt(p, bAll ? CQ_SQL_SESSION_ANY_WHY : CQ_SQL_SESSION_WHY);
  if( !bAll ) claimqBindText(p, &s, CQ_SESSION_READY_session, pOwn->session);
  while( claimqStep(p, &s) ){
    CqCell *pDetail;
    i64 iUntil;
    int eWhy;
    cqFrontEnter(p, &front, claimqColText(p, &s, CQ_S(session_id)));
    cqBatchRead(p, &s, &b);
    eWhy = b.eWhy;
    if( eWhy==CQ_WHY_CLAIMABLE ) eWhy = cqFrontWhy(&front, pOwn, &b);
    if( eWhy==CQ_WHY_UNKNOWN && !pOwn->bAny ) front.eFront = CQ_WHY_UNKNOWN;
    iUntil = eWhy==CQ_WHY_BUSY || eWhy==CQ_WHY_KEPT_BACK ? front.iUntil
           : claimqWhyUntil(eWhy, b.cand.iAvailable, b.cand.iExpires);
    pDetail = claimqWhyAdd(p, pWhy, eWhy, b.apCol[CQ_S(batch_id)], 0, iUntil);
    if( pDetail && b.zBad ){
      claimqCellText(p, pWhy->pRows, pDetail, claimqStr(b.zBad));
    }
  }
  claimqStmtDone(p, &s);
  sqlite3_free(front.zSession);
}

/*
** xRows: the batches of a claim that was made before, if it holds.
*/
static void cqSessionRows(CqOp *p, CqClaim *pC, CqText claimId){
  int nBefore = pC->pRows->nRow;
  i64 iHead, iFence, nSize = 0;
  CqStmt s;
  if( !claimqClaimIdParse(claimId, pC->pDef->zPrefix, &iHead, &iFence) ) return;
  s = claimqStmt(p, CQ_SQL_SESSION_ROWS);
  claimqBindCommonInt(p, &s, CQ_P_head, iHead);
  claimqBindCommonText(p, &s, CQ_P_claim, claimId);
  while( claimqStep(p, &s) ){
    CqCell *a = claimqRowsAdd(p, pC->pRows);
    nSize = claimqColInt(&s, CQ_COL_SESSION_ROWS_claim_size);
    claimqCellColumns(p, pC->pRows, a, &s, CQ_S_NCOL);
    claimqLeaseKept(p, pC->pRows, a ? &a[CQ_S_NCOL] : 0, &s,
        CQ_COL_SESSION_ROWS_claim_id, iFence,
        claimqColInt(&s, CQ_COL_SESSION_ROWS_attempts)-1);
  }
  claimqStmtDone(p, &s);
  if( pC->pRows->nRow-nBefore!=nSize ) pC->pRows->nRow = nBefore;
}

/**************************************************************************
** claimq_enqueue(session, payload [, option, value]...): session_put.c
*/
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
    .zDoc = "joined batches of one claim have the same" },
  { CQ_ARG(INT, "available_at_ms"), .zDoc = "nobody gets it before" },
  { CQ_ARG(INT, "delay_ms"), .zDoc = "the same, from now" },
  CQ_ARG_NOW,
  CQ_ARG_REQUEST,
};
static const CqArgDef cqEnqueueArg[] = {
  { CQ_ARG(TEXT, "session"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "which session" },
  { CQ_ARG(ANY, "payload"), .zDoc = "any value" },
};

/**************************************************************************
** The verbs
*/
#define CQ_SV_BATCH_IDS 0
static const CqArgDef cqSessionOpt[] = {
  { CQ_ARG(JSON, "batch_ids"), .mVerb = 1<<CQ_COMPLETE,
    .zDoc = "an array that names exactly the batches of the claim" },
};

typedef struct CqSessionVerb CqSessionVerb;       /* CqVerb.own */
struct CqSessionVerb {
  CqText session;                 /* Where the rows of several are: session, */
  char *zSession;                 /* (its bytes,) */
  i64 iLast, iDue;                /* last key, the other place than -1 */
  CqRows batch;                   /* Their batch ids, if these were given */
};
CQ_CHECK(SessionVerb, sizeof(CqSessionVerb)<=sizeof(CqOwn));

static int cqSessionIdsGiven(const CqVerb *pV){
  return pV->aOpt && pV->aOpt[CQ_SV_BATCH_IDS].bGiven;
}

/*
** With batch_ids the rows must be looked at.
*/
static void cqSessionCheck(CqOp *p, CqVerb *pV){
  (void)p;
  pV->bNoFast = (u8)cqSessionIdsGiven(pV);
}

/*
** Keep a batch id of the claim, to compare it with option batch_ids.
*/
static void cqSessionKeepId(
  CqOp *p, CqVerb *pV, const CqStmt *pStmt, int iCol
){
  CqSessionVerb *pOwn = (CqSessionVerb*)&pV->own;
  CqCell *pCell = claimqRowsAdd(p, &pOwn->batch);
  assert( pOwn->batch.nCol==1 && cqSessionIdsGiven(pV) );
  if( pCell ) claimqCellColumn(p, &pOwn->batch, pCell, pStmt, iCol);
}

/*
** Look at each row of a claim of several: how many are there, and how many
** have the token?
*/
static void cqSessionCount(CqOp *p, CqVerb *pV){
  const CqSessionVerb *pOwn = (const CqSessionVerb*)&pV->own;
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_MEMBERS);
  claimqVerbBind(p, pV, &s);
  claimqBindText(p, &s, CQ_SESSION_MEMBERS_session, pOwn->session);
  claimqBindInt(p, &s, CQ_SESSION_MEMBERS_due, pOwn->iDue);
  claimqBindInt(p, &s, CQ_SESSION_MEMBERS_last, pOwn->iLast);
  assert( pV->hold.nSize>1 && pOwn->session.z==pOwn->zSession );
  pV->hold.nRow = pV->hold.nToken = 0;
  while( claimqStep(p, &s) ){
    pV->hold.nRow++;
    pV->hold.nToken += claimqTextEq(pV->token,
        claimqColText(p, &s, CQ_COL_SESSION_MEMBERS_lease_token));
    if( cqSessionIdsGiven(pV) ){
      cqSessionKeepId(p, pV, &s, CQ_COL_SESSION_MEMBERS_batch_id);
    }
  }
  claimqStmtDone(p, &s);
}

/*
** The rows of a claim, whose first pHead stands on.  Most verbs need not look
** at the others: they write, and see whether all were there.  But release and
** revoke are no error when one is not, and guard does not write.
*/
static void cqSessionMembers(CqOp *p, CqVerb *pV, CqStmt *pHead){
  CqSessionVerb *pOwn = (CqSessionVerb*)&pV->own;
  CqHold *pHold = &pV->hold;
  int bLook = pV->eVerb==CQ_RELEASE || pV->eVerb==CQ_REVOKE
           || pV->eVerb==CQ_GUARD || cqSessionIdsGiven(pV)
           || pHold->nToken==0;
  assert( pHold->bHead && pHold->nRow<=1 && pOwn->zSession==0 );
  if( pHold->nRow==0 ) return;
  claimqRowsInit(&pOwn->batch, 1);
  if( pHold->nSize<=1 ){
    if( cqSessionIdsGiven(pV) ){
      cqSessionKeepId(p, pV, pHead, CQ_COL_SESSION_HOLD_batch_id);
    }
    return;
  }
  pOwn->session = claimqColText(p, pHead, CQ_COL_SESSION_HOLD_session_id);
  pOwn->session.z = pOwn->zSession = claimqTextDup(p, pOwn->session);
  pOwn->iLast = claimqColInt(pHead, CQ_COL_SESSION_HOLD_claim_last);
  pOwn->iDue = claimqColInt(pHead, CQ_COL_SESSION_HOLD_expires_at_ms);
  if( bLook ) cqSessionCount(p, pV);
  else pHold->nRow = pHold->nToken = pHold->nSize;
}

/*
** Option batch_ids of complete: exactly the claim's batches, or bad_argument is
** raised.
*/
static void cqSessionCheckIds(CqOp *p, const CqVerb *pV){
  const CqSessionVerb *pOwn = (const CqSessionVerb*)&pV->own;
  CqText json = pV->aOpt[CQ_SV_BATCH_IDS].t;
  int n = claimqBatchIdsCount(json);
  int nHeld = pOwn->batch.nRow, i;
  CqText *aHeld;
  if( n<0 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "batch_ids must be a JSON array of strings");
    return;
  }
  aHeld = claimqMalloc(p, ((i64)nHeld+n)*(i64)sizeof(CqText) + json.n);
  if( aHeld==0 ) return;
  for(i=0; i<nHeld; i++){
    aHeld[i] = claimqCellGetText(claimqRow(&pOwn->batch, i));
  }
  if( !claimqBatchIdsNamed(json, aHeld, nHeld, &aHeld[nHeld],
                           (char*)&aHeld[nHeld+n]) ){
    claimqFail(p, CQ_BAD_ARGUMENT,
        "batch_ids must name exactly the %d batches of claim %.*s",
        nHeld, pV->claimId.n, pV->claimId.z);
  }
  sqlite3_free(aHeld);
}

/*
** The lease of a serial claim is the session's only slot.  Once it has expired,
** to renew it needs the slot again; conflict if another claim has it.
*/
static void cqSessionSlot(CqOp *p, const CqVerb *pV, const CqStmt *pHead){
  i64 iKept;
  if( claimqColInt(pHead, CQ_COL_SESSION_HOLD_claim_serial)
   && claimqColInt(pHead, CQ_COL_SESSION_HOLD_expires_at_ms)<=claimqNow(p)
   && cqSessionBusy(p, claimqColText(p, pHead,
                    CQ_COL_SESSION_HOLD_session_id), &iKept, 0)
  ){
    claimqFail(p, CQ_CONFLICT, "claim %.*s is serial and has expired, and "
        "another claim holds a batch of its session now: settle it, or let it "
        "go", pV->claimId.n, pV->claimId.z);
  }
}

/*
** What is usual will do for a claim of one row, but for reject, which writes
** twice.  A claim of several is settled by cqSessionSettle().
*/
static void cqSessionDecide(CqOp *p, CqVerb *pV, CqStmt *pHead){
  assert( p->rc || (pV->hold.bHead && pV->hold.nToken>0) );
  if( pV->eVerb==CQ_GUARD ) return;
  if( pV->eVerb==CQ_RENEW ) cqSessionSlot(p, pV, pHead);
  if( cqSessionIdsGiven(pV) ) cqSessionCheckIds(p, pV);
  if( pV->eVerb==CQ_REJECT ) return;
  pV->task.eNeed = CQ_NEED_ONE;
  if( pV->hold.nSize>1 ){
    pV->task.eNeed = CQ_NEED_UNDO;
    pV->eStmt = -1;
  }
}

/*
** Run a statement for the rows in place iDue.  Returns how many it found.
*/
static i64 cqSessionWrite(CqOp *p, CqVerb *pV, int eStmt, i64 iDue){
  const CqSessionVerb *pOwn = (const CqSessionVerb*)&pV->own;
  CqStmt s = claimqStmt(p, eStmt);
  claimqVerbBind(p, pV, &s);
  if( pV->hold.nSize>1 ){
    claimqBindText(p, &s, CQ_SESSION_SETTLE_session, pOwn->session);
    claimqBindInt(p, &s, CQ_SESSION_SETTLE_due, iDue);
    claimqBindInt(p, &s, CQ_SESSION_SETTLE_last, pOwn->iLast);
  }
  return claimqExec(p, &s);
}

/*
** All rows of the claim must have been found, or claim_lost is raised.  But if
** those that were not are still of the claim, only a trigger can have left them
** out: claimqStale().  bHeld: those that were found are, too.
*/
static void cqSessionAll(CqOp *p, const CqVerb *pV, i64 n, int bHeld){
  CqText none = {0, 0};
  i64 nLeft = 0;
  CqStmt s;
  if( p->rc || n==pV->nExpect ) return;
  s = claimqStmt(p, CQ_SQL_SESSION_LEFT);
  claimqVerbBind(p, pV, &s);
  claimqBindInt(p, &s, CQ_SESSION_LEFT_last, pV->hold.nSize>1
      ? ((const CqSessionVerb*)&pV->own)->iLast : pV->iHead);
  if( claimqStep(p, &s) ) nLeft = claimqColInt(&s, CQ_COL_SESSION_LEFT_n);
  claimqStmtDone(p, &s);
  if( nLeft + (bHeld ? 0 : n)==pV->nExpect ){
    claimqStale(p, &pV->task);
  }else{
    claimqLeaseLost(p, CQ_HOLD_DISPLACED, pV->claimId, none);
  }
}

/*
** Settle a claim of several rows, or reject one.  reject writes dead letters
** first, and then deletes as complete does.
*/
static void cqSessionSettle(CqOp *p, CqVerb *pV){
  static const int aSeveral[CQ_NVERB] = CQ_VERBS(CQ_SQL_SESSION_RENEW,
      CQ_SQL_SESSION_COMPLETE, CQ_SQL_SESSION_RELEASE, CQ_SQL_SESSION_RETRY,
      CQ_SQL_SESSION_COMPLETE, CQ_SQL_SESSION_REVOKE);
  const CqSessionVerb *pOwn = (const CqSessionVerb*)&pV->own;
  int bOne = pV->hold.nSize<=1;
  i64 n;
  if( pV->eVerb==CQ_REJECT ){
    n = cqSessionWrite(p, pV, bOne ? CQ_SQL_SESSION_LETTER
                                   : CQ_SQL_SESSION_LETTERS, pOwn->iDue);
    cqSessionAll(p, pV, n, 1);
  }
  assert( !bOne || pV->eVerb==CQ_REJECT );
  n = cqSessionWrite(p, pV, bOne ? CQ_SQL_SESSION_COMPLETE_ONE
                                 : aSeveral[pV->eVerb], -1);
  if( n<pV->nExpect && !bOne ){
    n += cqSessionWrite(p, pV, aSeveral[pV->eVerb], pOwn->iDue);
  }
  cqSessionAll(p, pV, n, pV->eVerb==CQ_RENEW);
}

/*
** xVerbDone: free the session's name and the batch ids.
*/
static void cqSessionVerbDone(CqVerb *pV){
  CqSessionVerb *pOwn = (CqSessionVerb*)&pV->own;
  claimqRowsClear(&pOwn->batch);
  sqlite3_free(pOwn->zSession);
}

/**************************************************************************
** The descriptor
*/
CQ_PRIV const CqDiscipline *claimqSessionDiscipline(void){
  static const CqTableDef aTable[] = {
    { .zName = "claimq", .zDoc = "claim batches of a session",
      .zCols = CQ_S_COLS, .zOrder = "enqueue_seq",
      .aArg = cqSessionArg, .nArg = CQ_ARRAYSIZE(cqSessionArg),
      .bWrites = 1, .bClaimCols = 1, .zPrefix = "qwc",
      .xArgs = cqSessionArgs, .xNext = cqSessionNext,
      .xStamp = cqSessionStamp, .xTidy = cqSessionTidy,
      .xDone = cqSessionDone, .xNextAt = cqSessionNextAt,
      .xRows = cqSessionRows, .xWhy = cqSessionWhy },
    { .zName = "claimq_peek", .zDoc = "what a claim of a session would take",
      .zCols = CQ_S_COLS " previous_claim_id:t attempts:i",
      .zOrder = "enqueue_seq",
      .aArg = cqPeekArg, .nArg = CQ_ARRAYSIZE(cqPeekArg),
      .xArgs = cqPeekArgs, .xNext = cqSessionNext, .xDone = cqSessionDone },
  };
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_enqueue", .zDoc = "put a batch into a session",
      .eKind = CQ_F_INSERT, .nMin = 2,
      .aArg = cqEnqueueArg, .nArg = CQ_ARRAYSIZE(cqEnqueueArg),
      .aOpt = cqEnqueueOpt, .nOpt = CQ_ARRAYSIZE(cqEnqueueOpt),
      .xFunc = claimqPutRun },
  };
  static const int aStats[] = {CQ_SQL_SESSION_STATS, CQ_SQL_SESSION_STATS_OF};
  static const int aCheck[] = {
    CQ_SQL_SESSION_CHECK, CQ_SQL_SESSION_CHECK_CLAIMS,
    CQ_SQL_SESSION_CHECK_KNOWN
  };
  static const CqDiscipline session = {
    .zName = "session", .zPrefix = "qwc",
    .aStats = aStats, .aCheck = aCheck, .nCheck = CQ_ARRAYSIZE(aCheck),
    .aTable = aTable, .nTable = CQ_ARRAYSIZE(aTable),
    .aFunc = aFunc, .nFunc = CQ_ARRAYSIZE(aFunc),
    .aOpt = cqSessionOpt, .nOpt = CQ_ARRAYSIZE(cqSessionOpt),
    .eHold = CQ_SQL_SESSION_HOLD,
    .aSettle = CQ_VERBS(CQ_SQL_SESSION_RENEW_ONE,
        CQ_SQL_SESSION_COMPLETE_ONE, CQ_SQL_SESSION_RELEASE_ONE,
        CQ_SQL_SESSION_RETRY_ONE, -1, CQ_SQL_SESSION_REVOKE_ONE),
    .aFast = CQ_VERBS(CQ_SQL_SESSION_RENEW_FAST,
        CQ_SQL_SESSION_COMPLETE_ONE, -1, -1, -1, -1),
    .xVerbCheck = cqSessionCheck,
    .xMembers = cqSessionMembers,
    .xDecide = cqSessionDecide,
    .xSettle = cqSessionSettle,
    .xVerbDone = cqSessionVerbDone,
    .eCancel = CQ_T_TEXT, .xCancel = claimqSessionCancel,
    .pPut = &aFunc[0],
    .xPutCheck = claimqEnqueueCheck,
    .xPutWrite = claimqEnqueueWrite,
  };
  return &session;
}
