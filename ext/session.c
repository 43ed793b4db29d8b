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
** A claim loads candidates one by one, as two ordered streams: rows that are
** ready, and rows that became due since (see sql/schema.sql).  Each is offered
** to the pure selection of core_session.c until that has enough.  The rows are
** materialised with the lease they will get, and one UPDATE stamps them.
*/
#include "claimq_int.h"

/* Columns of the fragments SESSION_ROW_A and _B, with the payload between
** them.  The first twelve are the result's. */
#define CQ_S_SEQ       0
#define CQ_S_BATCH_ID  1
#define CQ_S_SESSION   2
#define CQ_S_KEY       3
#define CQ_S_WORK      4
#define CQ_S_DELIVERY  5
#define CQ_S_SLOT      6
#define CQ_S_MERGE     7
#define CQ_S_ENQUEUED  9
#define CQ_S_AVAILABLE 10
#define CQ_S_FENCE    11
#define CQ_S_NCOL     12
#define CQ_S_CLAIM    12
#define CQ_S_ATTEMPTS 13
#define CQ_S_ERROR    14
#define CQ_S_DUE      15
#define CQ_S_WAITED   16

#define CQ_S_COLS "enqueue_seq:i batch_id:t session_id:t source_key:t " \
  "work_class:t delivery_policy:t slot_policy:t merge_key:t payload:b " \
  "enqueued_at_ms:i available_at_ms:i batch_fencing_token:i"

/**************************************************************************
** Candidates
*/

/* What a claim noticed that should be put in order (see sql/schema.sql). */
typedef struct CqUpkeep CqUpkeep;
struct CqUpkeep {
  int nDue;                       /* Waiting rows that are due, up to FEW */
  i64 iPark;                      /* Many unready rows stand before this one */
  u8 bScan;                       /* It had to scan the table to see that */
};

typedef struct CqSessionClaim CqSessionClaim;
struct CqSessionClaim {
  CqText session;                 /* As given, or zSession */
  char *zSession;                 /* Any session: the one that was chosen */
  u8 bAny;                        /* The session was not given */
  u8 bPeek;
  i64 iTtl, nMax;
  int eBoundary, eTake;
  CqText owner, incarnation;
  CqSelect sel;
  CqLease lease;
  CqIds ids;                      /* Rows taken */
  CqRows *pRows;                  /* The same, for the caller */
  u8 bCareful;                    /* Look at every column of a row */
  u8 bLean;                       /* Some were taken without that */
  u8 bMove;                       /* They leave their place in the index */
  CqUpkeep keep;
};

/* Two streams of candidates, each in the order of enqueue_seq. */
typedef struct CqStreams CqStreams;
struct CqStreams {
  sqlite3_stmt *pReady, *pDue;
  sqlite3_stmt *pRow;             /* The row of pDue, read when it is needed */
  u8 bReady, bDue;                /* The stream stands on a row */
  u8 bAny;                        /* Of all sessions */
  u8 bLean;                       /* pReady has only columns that are needed */
  CqUpkeep keep;                  /* What was met on the way */
};

/*
** The name of one of the first nCol columns here that is not of its type, or 0.
** Such a row cannot be written back, so nothing can be done with it.
*/
#define CQ_S_NLEAN  2             /* Those that a lean row has, too */
#define CQ_S_NSOUND 8
static const char *cqSessionUnsound(sqlite3_value **apCol, int nCol){
  static const struct {
    u8 iCol, eType, bNull;
    const char *zName;
  } aCol[CQ_S_NSOUND] = {
    { CQ_S_BATCH_ID,  SQLITE_TEXT,    0, "batch_id" },
    { CQ_S_KEY,       SQLITE_TEXT,    1, "source_key" },
    { CQ_S_SESSION,   SQLITE_TEXT,    0, "session_id" },
    { CQ_S_ENQUEUED,  SQLITE_INTEGER, 0, "enqueued_at_ms" },
    { CQ_S_AVAILABLE, SQLITE_INTEGER, 0, "available_at_ms" },
    { CQ_S_FENCE,     SQLITE_INTEGER, 0, "fencing_token" },
    { CQ_S_ATTEMPTS,  SQLITE_INTEGER, 0, "attempts" },
    { CQ_S_ERROR,     SQLITE_INTEGER, 0, "last_error" },
  };
  int i;
  for(i=0; i<nCol; i++){
    int eType = sqlite3_value_type(apCol[aCol[i].iCol]);
    if( eType!=aCol[i].eType && !(aCol[i].bNull && eType==SQLITE_NULL) ){
      return aCol[i].zName;
    }
  }
  return 0;
}

/*
** Read what selection needs from a candidate's row, and keep its columns in
** apCol[].  Returns 0 and names the culprit in *pzBad if somebody corrupted the
** row, as far as its columns tell: a lean row has only some.
*/
static int cqSessionParse(
  CqOp *p, sqlite3_stmt *pRow, int bLean, sqlite3_value **apCol,
  CqCand *pCand, const char **pzBad
){
  static const u8 aiLean[] = {
    CQ_S_SEQ, CQ_S_WORK, CQ_S_DELIVERY, CQ_S_SLOT, CQ_S_MERGE, CQ_S_FENCE,
    CQ_S_CLAIM, CQ_S_ATTEMPTS, CQ_S_BATCH_ID, CQ_S_KEY
  };
  int eWork, eDelivery, eSlot, i;
  if( bLean ){
    for(i=0; i<(int)sizeof(aiLean); i++){
      apCol[aiLean[i]] = sqlite3_column_value(pRow, aiLean[i]);
    }
  }else{
    for(i=0; i<=CQ_S_ERROR; i++) apCol[i] = sqlite3_column_value(pRow, i);
  }
  eWork = claimqWord(claimqWorkWords(),
                     claimqTextOrNull(p, apCol[CQ_S_WORK]));
  eDelivery = claimqWord(claimqDeliveryWords(),
                         claimqTextOrNull(p, apCol[CQ_S_DELIVERY]));
  eSlot = claimqWord(claimqSlotWords(),
                     claimqTextOrNull(p, apCol[CQ_S_SLOT]));
  pCand->eWork = (u8)eWork;
  pCand->eDelivery = (u8)eDelivery;
  pCand->eSlot = (u8)eSlot;
  pCand->merge = claimqTextOrNull(p, apCol[CQ_S_MERGE]);
  *pzBad = eWork<0 ? "work_class"
         : eDelivery<0 ? "delivery_policy"
         : eSlot<0 ? "slot_policy"
         : !claimqMergeKeyOk(pCand->merge) ? "merge_key"
         : cqSessionUnsound(apCol, bLean ? CQ_S_NLEAN : CQ_S_NSOUND);
  return *pzBad==0;
}

/* The statements of the two streams, for one session and for any. */
static const int cqStreamReady[] = {
  CQ_SQL_SESSION_READY, CQ_SQL_SESSION_ANY_READY, CQ_SQL_SESSION_READY_LEAN
};
#define CQ_READY_LEAN 2
static const int cqStreamDue[] = {
  CQ_SQL_SESSION_DUE, CQ_SQL_SESSION_ANY_DUE
};

/*
** Step to the next ready row.
*/
static void cqStreamsNextReady(CqOp *p, CqStreams *pS){
  pS->bReady = claimqStep(p, pS->pReady)
            && sqlite3_column_int64(pS->pReady, CQ_S_DUE)<0;
}

static void cqStreamsNextDue(CqOp *p, CqStreams *pS){
  pS->bDue = (u8)claimqStep(p, pS->pDue);
  pS->keep.nDue += pS->bDue;
}

/*
** Step to the first ready row, and see how far it was.  Returns 1 if there are
** due rows as well, or may be.
*/
static int cqStreamsFirst(CqOp *p, CqStreams *pS){
  int nStep = claimqStmtSteps(pS->pReady);
  int nScan = claimqStmtScanned(pS->pReady);
  if( !claimqStep(p, pS->pReady) ) return pS->bAny;
  pS->bReady = sqlite3_column_int64(pS->pReady, CQ_S_DUE)<0;
  if( claimqStmtSteps(pS->pReady)-nStep>CQ_STEPS_FEW ){
    pS->keep.iPark = pS->bReady ? sqlite3_column_int64(pS->pReady, CQ_S_SEQ)
                                : CQ_I64_MAX;
    pS->keep.bScan = claimqStmtScanned(pS->pReady)-nScan>CQ_DUE_FEW;
  }
  return sqlite3_column_int(pS->pReady, CQ_S_WAITED);
}

static sqlite3_stmt *cqStreamsStmt(CqOp *p, int eStmt, CqText session){
  sqlite3_stmt *pStmt = claimqStmt(p, eStmt);
  claimqBindText(p, pStmt, 1, session);
  claimqBindInt(p, pStmt, 2, claimqNow(p));
  return pStmt;
}

static int cqStreamsReady(const CqStreams *pS){
  return cqStreamReady[pS->bLean ? CQ_READY_LEAN : pS->bAny];
}

/*
** Open the streams of a session; of all sessions if session.z==0.
*/
static void cqStreamsOpen(CqOp *p, CqStreams *pS, CqText session, int bLean){
  memset(pS, 0, sizeof(*pS));
  pS->bAny = session.z==0;
  pS->bLean = (u8)bLean;
  pS->pReady = cqStreamsStmt(p, cqStreamsReady(pS), session);
  if( cqStreamsFirst(p, pS) ){
    pS->pDue = cqStreamsStmt(p, cqStreamDue[pS->bAny], session);
    cqStreamsNextDue(p, pS);
  }
}

static void cqStreamsClose(CqOp *p, CqStreams *pS){
  claimqStmtDone(p, cqStreamsReady(pS), pS->pReady);
  claimqStmtDone(p, cqStreamDue[pS->bAny], pS->pDue);
  claimqStmtDone(p, CQ_SQL_SESSION_BY_SEQ, pS->pRow);
}

/*
** Read the row that the due stream stands on.  0 if it is not claimable.
*/
static int cqStreamsRow(CqOp *p, CqStreams *pS){
  if( pS->pRow==0 ) pS->pRow = claimqStmt(p, CQ_SQL_SESSION_BY_SEQ);
  sqlite3_reset(pS->pRow);
  claimqBindInt(p, pS->pRow, 1, sqlite3_column_int64(pS->pDue, 0));
  claimqBindInt(p, pS->pRow, 2, claimqNow(p));
  return claimqStep(p, pS->pRow);
}

/*
** The statement that stands on the earlier of the two heads, or 0 at the end.
** *pbDue tells which stream it came from, for cqStreamsNext().
*/
static sqlite3_stmt *cqStreamsHead(CqOp *p, CqStreams *pS, int *pbDue){
  *pbDue = 0;
  while( p->rc==SQLITE_OK && pS->bDue ){
    if( pS->bReady && sqlite3_column_int64(pS->pReady, CQ_S_SEQ)
                      <sqlite3_column_int64(pS->pDue, 0) ) break;
    if( cqStreamsRow(p, pS) ){
      *pbDue = 1;
      return pS->pRow;
    }
    cqStreamsNextDue(p, pS);
  }
  return p->rc==SQLITE_OK && pS->bReady ? pS->pReady : 0;
}

/*
** Go on counting due rows, until it is clear whether they are many.
*/
static void cqStreamsCountDue(CqOp *p, CqStreams *pS){
  while( pS->bDue && pS->keep.nDue<CQ_DUE_FEW ) cqStreamsNextDue(p, pS);
}

static void cqStreamsNext(CqOp *p, CqStreams *pS, int bDue){
  if( bDue ) cqStreamsNextDue(p, pS);
  else cqStreamsNextReady(p, pS);
}

/**************************************************************************
** Claim and peek
*/

/*
** Add the candidate that was just selected to the rows for the caller.  The
** first one is the head: the lease comes from it, and its merge key is kept
** for the rows to come.
*/
static void cqSessionTake(
  CqOp *p, CqSessionClaim *pC, sqlite3_stmt *pRow, sqlite3_value **apCol
){
  CqCell *a = claimqRowsAdd(p, pC->pRows);
  i64 iSeq = sqlite3_value_int64(apCol[CQ_S_SEQ]);
  i64 iFence = sqlite3_value_int64(apCol[CQ_S_FENCE]);
  CqText previous = claimqTextOrNull(p, apCol[CQ_S_CLAIM]);
  i64 nAttempt = sqlite3_value_int64(apCol[CQ_S_ATTEMPTS]);
  claimqCellColumns(p, pC->pRows, a, pRow, CQ_S_NCOL);
  claimqIdsAdd(p, &pC->ids, iSeq);
  if( p->rc ) return;
  if( pC->ids.n==1 ){
    CqCell merge;
    claimqCellValue(p, pC->pRows, &merge, apCol[CQ_S_MERGE]);
    if( p->rc ) return;
    pC->sel.head.merge = claimqCellGetText(&merge);
    if( !pC->bPeek ){
      claimqLeaseMake(&pC->lease, "qwc", iSeq, iFence, pC->session,
                      pC->owner, pC->incarnation, claimqNow(p), pC->iTtl);
    }
  }
  if( pC->bPeek ){
    claimqCellText(p, pC->pRows, &a[CQ_S_NCOL], previous);
    claimqCellInt(&a[CQ_S_NCOL+1], nAttempt);
  }else{
    claimqCellInt(&a[CQ_S_FENCE], claimqAddSat(iFence, 1));
    claimqLeaseCells(p, pC->pRows, &a[CQ_S_NCOL], &pC->lease, previous,
                     nAttempt);
  }
}

/*
** A corrupted row at the head of a session that was asked for is an error;
** when any session will do it is passed over, with a word in the error log.
*/
static void cqSessionBad(
  CqOp *p, CqSessionClaim *pC, sqlite3_stmt *pRow, const char *zCol
){
  i64 iSeq = sqlite3_column_int64(pRow, CQ_S_SEQ);
  if( p->rc ) return;
  if( pC->bAny ){
    sqlite3_log(SQLITE_CORRUPT, "claimq: claimq_batch row %lld has a bad %s "
                "and is passed over", iSeq, zCol);
  }else{
    claimqFail(p, CQ_SCHEMA_MISMATCH, "row %lld of claimq_batch has a bad %s: "
               "repair or delete it", iSeq, zCol);
  }
}

/*
** Offer candidates until selection is over.
*/
static void cqSessionSelect(CqOp *p, CqSessionClaim *pC, CqStreams *pS){
  sqlite3_stmt *pRow;
  int bDue;
  while( !pC->sel.bDone && (pRow = cqStreamsHead(p, pS, &bDue))!=0 ){
    sqlite3_value *apCol[CQ_S_ERROR+1];
    CqCand cand;
    const char *zBad;
    int bLean = pS->bLean && !bDue;
    if( cqSessionParse(p, pRow, bLean, apCol, &cand, &zBad) ){
      if( !claimqSelectOffer(&pC->sel, &cand) ) break;
      cqSessionTake(p, pC, pRow, apCol);
      pC->bMove |= (u8)bDue;
      pC->bLean |= (u8)bLean;
    }else{
      if( pC->ids.n ) break;
      cqSessionBad(p, pC, pRow, zBad);
    }
    if( !pC->sel.bDone || bDue ) cqStreamsNext(p, pS, bDue);
  }
  cqStreamsCountDue(p, pS);
}

/*
** Any session: the one of the earliest candidate of all.  0 if there is none
** (or op has an error), else pC->session is set.
*/
static int cqSessionChoose(CqOp *p, CqSessionClaim *pC){
  CqStreams s;
  CqText any = {0, 0};
  int bDue;
  sqlite3_stmt *pHead;
  cqStreamsOpen(p, &s, any, 0);
  while( (pHead = cqStreamsHead(p, &s, &bDue))!=0 ){
    sqlite3_value *apCol[CQ_S_ERROR+1];
    CqCand cand;
    const char *zBad;
    if( cqSessionParse(p, pHead, 0, apCol, &cand, &zBad) ){
      pC->session = claimqTextOrNull(p, apCol[CQ_S_SESSION]);
      sqlite3_free(pC->zSession);
      pC->session.z = pC->zSession = claimqTextDup(p, pC->session);
      break;
    }
    cqSessionBad(p, pC, pHead, zBad);
    cqStreamsNext(p, &s, bDue);
  }
  cqStreamsCountDue(p, &s);
  pC->keep = s.keep;
  cqStreamsClose(p, &s);
  return p->rc==SQLITE_OK && pC->session.z!=0;
}

/*
** 1 if lean rows will do: the caller asked for none of the other columns, and
** the write will tell if one of those is corrupted.
*/
static int cqSessionLean(const CqSessionClaim *pC){
  static const u32 mRest = 1<<CQ_S_SESSION | 1<<CQ_S_ENQUEUED
                         | 1<<CQ_S_AVAILABLE;
  return !pC->bPeek && !pC->bCareful && (pC->pRows->mSkip & mRest)==mRest;
}

static void cqSessionLoad(CqOp *p, void *pCtx){
  CqSessionClaim *pC = (CqSessionClaim*)pCtx;
  CqStreams s;
  if( pC->nMax==0 || (pC->bAny && !cqSessionChoose(p, pC)) ) return;
  claimqSelectInit(&pC->sel, pC->eBoundary, pC->eTake, pC->nMax);
  cqStreamsOpen(p, &s, pC->session, cqSessionLean(pC));
  cqSessionSelect(p, pC, &s);
  cqStreamsClose(p, &s);
  if( !pC->bAny ) pC->keep = s.keep;
  if( pC->ids.n && !pC->bPeek ){
    p->nWrite = 1 + (pC->keep.nDue>=CQ_DUE_FEW || pC->keep.iPark);
  }
}

/*
** Move rows from one place of the index to the other.  aStmt: for one session,
** for any.
*/
static void cqSessionUpkeep(CqOp *p, CqSessionClaim *pC, const int *aStmt){
  int eStmt = aStmt[pC->bAny];
  sqlite3_stmt *pStmt = claimqStmt(p, eStmt);
  if( !pC->bAny ) claimqBindText(p, pStmt, 1, pC->session);
  claimqBindInt(p, pStmt, 2, claimqNow(p));
  claimqBindInt(p, pStmt, 3, CQ_DUE_MOST);
  if( pC->keep.iPark ) claimqBindInt(p, pStmt, 4, pC->keep.iPark);
  claimqExec(p, eStmt, pStmt);
}

/*
** Put the indexes in order, so that the next claim finds its rows at once.
*/
static void cqSessionTidy(CqOp *p, CqSessionClaim *pC){
  static const int aPromote[] = {
    CQ_SQL_SESSION_PROMOTE, CQ_SQL_SESSION_ANY_PROMOTE
  };
  static const int aPark[] = { CQ_SQL_SESSION_PARK, CQ_SQL_SESSION_ANY_PARK };
  if( pC->keep.bScan ) claimqMakeIndex(p, CQ_SQL_SESSION_MAKE_BY_READY);
  if( pC->keep.iPark ) cqSessionUpkeep(p, pC, aPark);
  pC->keep.iPark = 0;
  if( pC->keep.nDue>=CQ_DUE_FEW ) cqSessionUpkeep(p, pC, aPromote);
}

/*
** Stamp the rows.  Those that waited get a new time to wait for, and rows so
** many that the next claim had to look past them do not stay where they are.
*/
static void cqSessionStamp(CqOp *p, CqSessionClaim *pC){
  static const int aStmt[2][2] = {
    { CQ_SQL_SESSION_STAMP_ONE, CQ_SQL_SESSION_STAMP },
    { CQ_SQL_SESSION_MOVE_ONE, CQ_SQL_SESSION_MOVE },
  };
  i64 iLast = pC->ids.a[pC->ids.n-1];
  int bMove = pC->bMove || pC->ids.n>CQ_STAY_MOST;
  int eStmt = aStmt[bMove][pC->ids.n>1];
  sqlite3_stmt *pStmt = claimqStmt(p, eStmt);
  if( eStmt==CQ_SQL_SESSION_MOVE ) claimqBindIds(p, pStmt, 1, &pC->ids);
  if( eStmt==CQ_SQL_SESSION_STAMP ) claimqBindText(p, pStmt, 1, pC->session);
  claimqLeaseBind(p, pStmt, 2, &pC->lease);
  claimqBindInt(p, pStmt, 8, pC->ids.n);
  if( pC->ids.n>1 ) claimqBindInt(p, pStmt, 9, pC->lease.iHead);
  claimqBindInt(p, pStmt, 10, iLast);
  claimqExec(p, eStmt, pStmt);
}

/*
** Somebody corrupted a row that was taken.  Forget what was loaded, and load
** again, looking more closely.
*/
static void cqSessionAgain(CqOp *p, CqSessionClaim *pC){
  claimqOpReset(p);
  pC->pRows->nRow = 0;
  pC->ids.n = 0;
  pC->bMove = pC->bLean = 0;
  pC->bCareful = 1;
  cqSessionLoad(p, pC);
  if( p->rc==SQLITE_OK && pC->ids.n ) cqSessionStamp(p, pC);
}

/*
** Upkeep is left out where only one write can be had.
*/
static void cqSessionApply(CqOp *p, void *pCtx){
  CqSessionClaim *pC = (CqSessionClaim*)pCtx;
  if( p->nWrite>1 && !p->bAlone ) cqSessionTidy(p, pC);
  cqSessionStamp(p, pC);
  if( pC->bLean && (p->rc & 0xff)==SQLITE_CONSTRAINT ) cqSessionAgain(p, pC);
}

static const CqTask cqSessionTask = { cqSessionLoad, cqSessionApply, 0 };

static void cqSessionDone(CqSessionClaim *pC){
  claimqIdsClear(&pC->ids);
  sqlite3_free(pC->zSession);
}

/* Arguments of claimq(...), in this order. */
static const CqArgDef cqSessionArg[] = {
  { "session",     CQ_T_TEXT, CQ_A_NULL,     0, 0, 0, 0, 0, 0 },
  { "owner",       CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0 },
  { "ttl_ms",      CQ_T_INT,  0, 0, 30000, 0, 0, 0, 0 },
  { "max_batches", CQ_T_INT,  0, 0, 32, 0, 0, 0, 0 },
  { "incarnation", CQ_T_TEXT, 0, 0, 0, "", 0, 0, 0 },
  { "boundary",    CQ_T_WORD, 0, 0, 0, 0, 0, 0, claimqBoundaryWords },
  { "take",        CQ_T_WORD, 0, 0, 0, 0, 0, 0, claimqTakeWords },
  { "now_ms",      CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};
static const CqArgDef cqPeekArg[] = {
  { "session",     CQ_T_TEXT, CQ_A_NULL, 0, 0, 0, 0, 0, 0 },
  { "max_batches", CQ_T_INT,  0, 0, 32, 0, 0, 0, 0 },
  { "boundary",    CQ_T_WORD, 0, 0, 0, 0, 0, 0, claimqBoundaryWords },
  { "take",        CQ_T_WORD, 0, 0, 0, 0, 0, 0, claimqTakeWords },
  { "now_ms",      CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};

static void cqSessionFill(
  CqOp *p, const CqVal *aArg, i64 nLimit, CqRows *pRows
){
  CqSessionClaim c;
  memset(&c, 0, sizeof(c));
  c.session = aArg[0].t;
  c.bAny = (c.session.z==0);
  c.owner = aArg[1].t;
  c.iTtl = aArg[2].i;
  c.nMax = aArg[3].i<nLimit ? aArg[3].i : nLimit;
  c.incarnation = aArg[4].t;
  c.eBoundary = (int)aArg[5].i;
  c.eTake = (int)aArg[6].i;
  c.pRows = pRows;
  claimqRun(p, &cqSessionTask, &c);
  cqSessionDone(&c);
}

static void cqPeekFill(CqOp *p, const CqVal *aArg, i64 nLimit, CqRows *pRows){
  CqSessionClaim c;
  memset(&c, 0, sizeof(c));
  c.session = aArg[0].t;
  c.bAny = (c.session.z==0);
  c.nMax = aArg[1].i<nLimit ? aArg[1].i : nLimit;
  c.eBoundary = (int)aArg[2].i;
  c.eTake = (int)aArg[3].i;
  c.bPeek = 1;
  c.pRows = pRows;
  cqSessionLoad(p, &c);
  cqSessionDone(&c);
}

/**************************************************************************
** Enqueue
*/
#define CQ_E_SOURCE_KEY 0
#define CQ_E_WORK       1
#define CQ_E_DELIVERY   2
#define CQ_E_SLOT       3
#define CQ_E_MERGE      4
#define CQ_E_AT         5
#define CQ_E_DELAY      6
#define CQ_E_NOW        7
#define CQ_E_N          8
static const CqArgDef cqEnqueueOpt[CQ_E_N] = {
  { "source_key",      CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 },
  { "work_class",      CQ_T_WORD, 0, 0, 0, 0, 0, 0, claimqWorkWords },
  { "delivery_policy", CQ_T_WORD, 0, 0, 0, 0, 0, 0, claimqDeliveryWords },
  { "slot_policy",     CQ_T_WORD, 0, 0, 0, 0, 0, 0, claimqSlotWords },
  { "merge_key",       CQ_T_TEXT, 0, 0, 0, "never", 0, 0, 0 },
  { "available_at_ms", CQ_T_INT,  0, 0, 0, 0, 0, 0, 0 },
  { "delay_ms",        CQ_T_INT,  0, 0, 0, 0, 0, 0, 0 },
  { "now_ms",          CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};
static const CqArgDef cqEnqueueSession = {
  "session", CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0
};

typedef struct CqEnqueue CqEnqueue;
struct CqEnqueue {
  CqText session;
  sqlite3_value *pPayload;
  CqVal aOpt[CQ_E_N];
  i64 iNow, iAvailable;
  i64 iSeq;                       /* The key, once it is known */
  char *zId;                      /* OUT: the batch id; had before any write */
};
#define CQ_ENQUEUE_TYPE "claimq-enqueue"

static void cqEnqueueId(CqEnqueue *pE, i64 iSeq){
  pE->iSeq = iSeq;
  claimqBatchId(pE->session, pE->aOpt[CQ_E_SOURCE_KEY].t, pE->iNow,
                &pE->iSeq, pE->zId);
}

/*
** For SESSION_INSERT: claimq_next_batch(E, key) -> the batch id, which is kept
** in E; claimq_next_batch(E) -> the key it was made of, NULL if none was yet.
** (SQLite evaluates the key last.  Did it not, the key would be chosen by
** AUTOINCREMENT, and be the same.)
*/
static void cqNextBatchFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  CqEnqueue *pE = sqlite3_value_pointer(apVal[0], CQ_ENQUEUE_TYPE);
  (void)p;
  if( pE==0 ) return;
  if( nVal>1 ){
    cqEnqueueId(pE, sqlite3_value_int64(apVal[1]));
    sqlite3_result_text(pCtx, pE->zId, -1, SQLITE_STATIC);
  }else if( pE->iSeq ){
    sqlite3_result_int64(pCtx, pE->iSeq);
  }
}

/*
** A stored batch that has the source key is the answer.
*/
static void cqEnqueueLoad(CqOp *p, void *pCtx){
  CqEnqueue *pE = (CqEnqueue*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_SESSION_BY_KEY);
  claimqBindText(p, pStmt, 1, pE->session);
  claimqBindText(p, pStmt, 2, pE->aOpt[CQ_E_SOURCE_KEY].t);
  if( claimqStep(p, pStmt) ){
    CqText id = claimqColumnText(p, pStmt, 0);
    char *zNew = claimqRealloc(p, pE->zId, (i64)id.n+CQ_BATCH_ID_SZ);
    if( zNew ){
      pE->zId = zNew;
      if( id.z ) memcpy(zNew, id.z, (size_t)id.n);
      zNew[id.n] = 0;
    }
  }else{
    p->nWrite = 1;
  }
  claimqStmtDone(p, CQ_SQL_SESSION_BY_KEY, pStmt);
}

static void cqEnqueueApply(CqOp *p, void *pCtx){
  CqEnqueue *pE = (CqEnqueue*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_SESSION_INSERT);
  int i;
  claimqBindText(p, pStmt, 1, pE->session);
  claimqBindValue(p, pStmt, 2, pE->pPayload);
  for(i=CQ_E_SOURCE_KEY; i<=CQ_E_MERGE; i++){
    claimqBindText(p, pStmt, 3+i, pE->aOpt[i].t);
  }
  claimqBindInt(p, pStmt, 8, pE->iNow);
  claimqBindInt(p, pStmt, 9, pE->iAvailable);
  claimqBindPointer(p, pStmt, 10, pE, CQ_ENQUEUE_TYPE);
  if( claimqExec(p, CQ_SQL_SESSION_INSERT, pStmt)==0 ){
    claimqFail(p, CQ_CONFLICT, "a trigger on claimq_batch left the row out");
  }
  if( p->rc==SQLITE_OK && pE->iSeq==0 ){        /* The first row ever */
    cqEnqueueId(pE, sqlite3_last_insert_rowid(p->db));
  }
}

/*
** claimq_enqueue(session, payload [, option, value]...) -> batch_id
*/
static void cqEnqueueFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqTask task = { cqEnqueueLoad, cqEnqueueApply, 0 };
  CqEnqueue e;
  CqVal session;
  memset(&e, 0, sizeof(e));
  claimqRead(p, &cqEnqueueSession, apVal[0], &session);
  claimqReadOptions(p, cqEnqueueOpt, CQ_E_N, 0, nVal-2, &apVal[2], e.aOpt);
  if( p->rc==SQLITE_OK && !claimqMergeKeyOk(e.aOpt[CQ_E_MERGE].t) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "merge_key must be 'never', "
        "'payload_default' or 'group:LABEL', got TEXT '%.*s'",
        claimqShown(e.aOpt[CQ_E_MERGE].t), e.aOpt[CQ_E_MERGE].t.z);
  }
  e.session = session.t;
  e.pPayload = apVal[1];
  e.iNow = claimqNow(p);
  e.iAvailable = claimqDueAt(p, &e.aOpt[CQ_E_AT], &e.aOpt[CQ_E_DELAY]);
  e.zId = claimqMalloc(p, CQ_BATCH_ID_SZ);
  if( e.aOpt[CQ_E_SOURCE_KEY].bGiven ) claimqRun(p, &task, &e);
  else if( p->rc==SQLITE_OK ) cqEnqueueApply(p, &e);
  if( p->rc==SQLITE_OK ) sqlite3_result_text(pCtx, e.zId, -1, sqlite3_free);
  else sqlite3_free(e.zId);
}

/**************************************************************************
** Cancel
*/
typedef struct CqSessionCancel CqSessionCancel;
struct CqSessionCancel {
  CqText batchId;
  i64 iSeq;
  u8 bDelete;
  u8 bScan;                       /* An index is missed */
  const char *zResult;
};

static void cqSessionCancelLoad(CqOp *p, void *pCtx){
  CqSessionCancel *pC = (CqSessionCancel*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_SESSION_BY_BATCH_ID);
  int nScan = claimqStmtScanned(pStmt);
  pC->zResult = "missing";
  pC->bDelete = 0;
  claimqBindText(p, pStmt, 1, pC->batchId);
  claimqBindInt(p, pStmt, 2, claimqNow(p));
  if( claimqStep(p, pStmt) ){
    pC->iSeq = sqlite3_column_int64(pStmt, 0);
    pC->bDelete = sqlite3_column_int(pStmt, 1)==0;
    pC->zResult = pC->bDelete ? "cancelled" : "claimed";
  }
  pC->bScan = claimqStmtScanned(pStmt)-nScan>CQ_SCAN_FEW;
  claimqStmtDone(p, CQ_SQL_SESSION_BY_BATCH_ID, pStmt);
  p->nWrite = pC->bScan ? 2 : pC->bDelete;
}

static void cqSessionCancelApply(CqOp *p, void *pCtx){
  CqSessionCancel *pC = (CqSessionCancel*)pCtx;
  sqlite3_stmt *pStmt;
  if( pC->bScan && !p->bAlone ) claimqMakeIndex(p, CQ_SQL_SESSION_MAKE_BY_ID);
  if( !pC->bDelete ) return;
  pStmt = claimqStmt(p, CQ_SQL_SESSION_DELETE_ONE);
  claimqBindInt(p, pStmt, 1, pC->iSeq);
  claimqExec(p, CQ_SQL_SESSION_DELETE_ONE, pStmt);
}

static const char *cqSessionCancel(CqOp *p, const CqVal *pRef, int bForce){
  static const CqTask task = {
    cqSessionCancelLoad, cqSessionCancelApply, 0
  };
  CqSessionCancel c;
  memset(&c, 0, sizeof(c));
  (void)bForce;
  c.batchId = pRef->t;
  claimqRun(p, &task, &c);
  return c.zResult;
}

/**************************************************************************
** The verbs
*/
#define CQ_SV_BATCH_IDS 0
static const CqArgDef cqSessionOpt[] = {
  { "batch_ids", CQ_T_JSON, 0, 1<<CQ_COMPLETE, 0, 0, 0, 0, 0 },
};

typedef struct CqSessionVerb CqSessionVerb;
struct CqSessionVerb {
  CqVerb *pVerb;
  CqHold hold;
  char *zSession;                 /* A claim of several rows: where they are */
  CqText session;
  i64 iLast, iExpires;
  u8 bTrust;                      /* They were not counted yet */
  CqRows batch;                   /* Their batch ids, if these were given */
};

static void cqSessionMember(
  CqOp *p, CqSessionVerb *pV, CqText token, sqlite3_stmt *pStmt, int iCol
){
  CqCell *pCell;
  pV->hold.nRow++;
  pV->hold.nToken += claimqTextEq(token, pV->pVerb->token);
  if( pV->pVerb->aOpt[CQ_SV_BATCH_IDS].bGiven ){
    pCell = claimqRowsAdd(p, &pV->batch);
    if( pCell ) claimqCellColumn(p, &pV->batch, pCell, pStmt, iCol);
  }
}

/*
** The parameters of the fragment SESSION_MANY_ROWS, or _ANY.
*/
static void cqSessionBindMany(
  CqOp *p, const CqSessionVerb *pV, sqlite3_stmt *pStmt, int bToken
){
  claimqBindInt(p, pStmt, 1, pV->pVerb->iHead);
  claimqBindText(p, pStmt, 4, pV->pVerb->claimId);
  claimqBindText(p, pStmt, 5, pV->session);
  claimqBindInt(p, pStmt, 6, pV->iLast);
  claimqBindInt(p, pStmt, 7, pV->iExpires);
  if( bToken ) claimqBindText(p, pStmt, 8, pV->pVerb->token);
}

/*
** Count the rows of a claim of several that have the token.
*/
static void cqSessionCount(CqOp *p, CqSessionVerb *pV){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_SESSION_COUNT);
  cqSessionBindMany(p, pV, pStmt, 1);
  if( claimqStep(p, pStmt) ){
    pV->hold.nRow = pV->hold.nToken = sqlite3_column_int64(pStmt, 0);
  }
  claimqStmtDone(p, CQ_SQL_SESSION_COUNT, pStmt);
}

/*
** Look at each row of a claim of several.
*/
static void cqSessionMembers(CqOp *p, CqSessionVerb *pV){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_SESSION_MEMBERS);
  pV->hold.nRow = pV->hold.nToken = 0;
  cqSessionBindMany(p, pV, pStmt, 0);
  while( claimqStep(p, pStmt) ){
    cqSessionMember(p, pV, claimqColumnText(p, pStmt, 0), pStmt, 1);
  }
  claimqStmtDone(p, CQ_SQL_SESSION_MEMBERS, pStmt);
}

/*
** The rows of a claim of several, whose first pHead stands on.  Most verbs need
** not look at them: they write, and see whether all were there.  But release is
** no error when one is not, so that must be known before.
*/
static void cqSessionMany(CqOp *p, CqSessionVerb *pV, sqlite3_stmt *pHead){
  int eVerb = pV->pVerb->eVerb;
  pV->session = claimqColumnText(p, pHead, 4);
  pV->session.z = pV->zSession = claimqTextDup(p, pV->session);
  pV->iLast = sqlite3_column_int64(pHead, 5);
  pV->iExpires = sqlite3_column_int64(pHead, 6);
  if( !pV->pVerb->aOpt[CQ_SV_BATCH_IDS].bGiven ){
    pV->bTrust = eVerb!=CQ_RELEASE && eVerb!=CQ_GUARD
        && claimqTextEq(claimqColumnText(p, pHead, 1), pV->pVerb->token);
    if( pV->bTrust ) pV->hold.nRow = pV->hold.nToken = pV->hold.nSize;
    else cqSessionCount(p, pV);
  }
  if( pV->hold.nToken!=pV->hold.nSize ) cqSessionMembers(p, pV);
}

/*
** n rows of a claim of several were found.
*/
static void cqSessionAll(CqOp *p, const CqSessionVerb *pV, i64 n){
  CqText none = {0, 0};
  if( p->rc==SQLITE_OK && n!=pV->hold.nSize ){
    claimqLeaseLost(p, CQ_HOLD_DISPLACED, pV->pVerb->claimId, none);
  }
}

/*
** What does the claim hold?  Returns a CQ_HOLD_* verdict and raises claim_lost
** unless it is OK, or the verb is release, for which that is no error.
*/
static int cqSessionHold(CqOp *p, CqSessionVerb *pV){
  CqVerb *pVerb = pV->pVerb;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_SESSION_HEAD);
  CqHold *pHold = &pV->hold;
  CqText other = {0, 0};
  int eVerdict;
  claimqBindInt(p, pStmt, 1, pVerb->iHead);
  if( claimqStep(p, pStmt) ){
    pHold->bHead = 1;
    pHold->nSize = sqlite3_column_int64(pStmt, 2);
    other = claimqColumnText(p, pStmt, 0);
    if( claimqTextEq(other, pVerb->claimId) ){
      if( pHold->nSize>1 ){
        cqSessionMany(p, pV, pStmt);
      }else{
        cqSessionMember(p, pV, claimqColumnText(p, pStmt, 1), pStmt, 3);
      }
    }
  }
  eVerdict = claimqLeaseVerdict(p, pVerb, pHold, other);
  claimqStmtDone(p, CQ_SQL_SESSION_HEAD, pStmt);
  return eVerdict;
}

/*
** 1 if the JSON array names batch id t.
*/
static int cqJsonNames(CqText json, CqText t){
  CqJson r;
  int e;
  claimqJsonInit(&r, json);
  while( (e = claimqJsonNext(&r))>CQ_JSON_END ){
    if( e==CQ_JSON_STRING && claimqJsonEq(r.tok, t) ) return 1;
  }
  return 0;
}

/*
** Option batch_ids of complete: exactly the claim's batches.
*/
static void cqSessionCheckIds(CqOp *p, CqSessionVerb *pV){
  CqText json = pV->pVerb->aOpt[CQ_SV_BATCH_IDS].t;
  CqJson r;
  int e, n = 0, i, bOk;
  if( p->rc ) return;
  claimqJsonInit(&r, json);
  bOk = claimqJsonNext(&r)==CQ_JSON_ARRAY;
  while( bOk && (e = claimqJsonNext(&r))!=CQ_JSON_CLOSE ){
    bOk = e==CQ_JSON_STRING;
    n++;
  }
  if( !bOk || claimqJsonNext(&r)!=CQ_JSON_END ){
    claimqFail(p, CQ_BAD_ARGUMENT, "batch_ids must be a JSON array of strings");
    return;
  }
  for(i=0; i<pV->batch.nRow && bOk; i++){
    bOk = cqJsonNames(json, claimqCellGetText(claimqRow(&pV->batch, i)));
  }
  if( !bOk || n!=pV->batch.nRow ){
    claimqFail(p, CQ_BAD_ARGUMENT,
        "batch_ids must name exactly the %d batches of claim %.*s",
        pV->batch.nRow, pV->pVerb->claimId.n, pV->pVerb->claimId.z);
  }
}

static void cqSessionVerbLoad(CqOp *p, void *pCtx){
  CqSessionVerb *pV = (CqSessionVerb*)pCtx;
  int eVerdict = cqSessionHold(p, pV);
  if( p->rc==SQLITE_OK && eVerdict==CQ_HOLD_OK ){
    if( pV->pVerb->aOpt[CQ_SV_BATCH_IDS].bGiven ) cqSessionCheckIds(p, pV);
    pV->pVerb->iResult = pV->hold.nRow;
    if( pV->pVerb->eVerb!=CQ_GUARD ) p->nWrite = 1 + pV->bTrust;
  }else{
    pV->pVerb->iResult = 0;
  }
}

/* The statement of each verb, for a claim of one row and of several. */
static const int cqSessionVerbStmt[][2] = {
  { CQ_SQL_SESSION_RENEW_ONE,   CQ_SQL_SESSION_RENEW },
  { CQ_SQL_SESSION_DELETE_ONE,  CQ_SQL_SESSION_DELETE },
  { CQ_SQL_SESSION_RELEASE_ONE, CQ_SQL_SESSION_RELEASE },
  { CQ_SQL_SESSION_RETRY_ONE,   CQ_SQL_SESSION_RETRY },
  { CQ_SQL_SESSION_REJECT_ONE,  CQ_SQL_SESSION_REJECT },
};

/*
** ?1 head, ?2 a time, ?3 the reason; each as far as the verb has it.  A write
** that finds too few rows is undone; where it could not be, they are counted
** first.
*/
static void cqSessionVerbApply(CqOp *p, void *pCtx){
  CqSessionVerb *pV = (CqSessionVerb*)pCtx;
  CqVerb *pVerb = pV->pVerb;
  int bMany = pV->hold.nRow>1;
  int eStmt = cqSessionVerbStmt[pVerb->eVerb][bMany];
  sqlite3_stmt *pStmt;
  i64 nChange;
  if( pV->bTrust && p->bAlone ){
    cqSessionCount(p, pV);
    cqSessionAll(p, pV, pV->hold.nRow);
  }
  pStmt = claimqStmt(p, eStmt);
  if( bMany ) cqSessionBindMany(p, pV, pStmt, 1);
  else claimqBindInt(p, pStmt, 1, pVerb->iHead);
  switch( pVerb->eVerb ){
    case CQ_RENEW:
      pVerb->iResult = claimqAddSat(claimqNow(p), pVerb->iTtl);
      claimqBindInt(p, pStmt, 2, pVerb->iResult);
      break;
    case CQ_RELEASE:
    case CQ_RETRY:
      if( pVerb->iDelay>=0 ){
        claimqBindInt(p, pStmt, 2, claimqAddSat(claimqNow(p), pVerb->iDelay));
      }
      break;
    case CQ_REJECT:
      claimqBindInt(p, pStmt, 2, claimqNow(p));
      break;
  }
  claimqBindText(p, pStmt, 3, pVerb->reason);
  if( pVerb->eVerb==CQ_RETRY ) pVerb->zResult = "retry";
  nChange = claimqExec(p, eStmt, pStmt);
  if( pV->bTrust ) cqSessionAll(p, pV, nChange);
}

static void cqSessionVerbForget(void *pCtx){
  CqSessionVerb *pV = (CqSessionVerb*)pCtx;
  claimqRowsClear(&pV->batch);
  sqlite3_free(pV->zSession);
  pV->zSession = 0;
  pV->bTrust = 0;
  memset(&pV->hold, 0, sizeof(pV->hold));
}

static void cqSessionVerbRun(CqOp *p, CqVerb *pVerb){
  static const CqTask task = {
    cqSessionVerbLoad, cqSessionVerbApply, cqSessionVerbForget
  };
  CqSessionVerb v;
  if( !pVerb->aOpt[CQ_SV_BATCH_IDS].bGiven
   && claimqVerbFast(p, pVerb, CQ_SQL_SESSION_RENEW_FAST,
                     CQ_SQL_SESSION_COMPLETE_FAST, 0)
  ){
    return;
  }
  memset(&v, 0, sizeof(v));
  claimqRowsInit(&v.batch, 1);
  v.pVerb = pVerb;
  claimqVerbRun(p, pVerb, &task, &v);
  cqSessionVerbForget(&v);
}

/**************************************************************************
** The descriptor
*/
CQ_PRIV const CqDiscipline *claimqSessionDiscipline(void){
  static const CqTableDef aTable[] = {
    { "claimq", CQ_S_COLS, "enqueue_seq", cqSessionArg,
      sizeof(cqSessionArg)/sizeof(cqSessionArg[0]), 1, 1, cqSessionFill },
    { "claimq_peek", CQ_S_COLS " previous_claim_id:t attempts:i",
      "enqueue_seq", cqPeekArg, sizeof(cqPeekArg)/sizeof(cqPeekArg[0]), 0, 0,
      cqPeekFill },
  };
  static const CqFuncDef aFunc[] = {
    { "claimq_enqueue", "(session, payload [, option, value]...)", 2, -1,
      CQ_F_INSERT, cqEnqueueFunc },
    { "claimq_next_batch", "(enqueue [, seq])", 1, 2, CQ_F_READ,
      cqNextBatchFunc },
  };
  static const CqDiscipline session = {
    "session", "qwc", aTable, sizeof(aTable)/sizeof(aTable[0]),
    cqSessionOpt, sizeof(cqSessionOpt)/sizeof(cqSessionOpt[0]),
    aFunc, sizeof(aFunc)/sizeof(aFunc[0]), cqSessionVerbRun,
    CQ_T_TEXT, cqSessionCancel
  };
  return &session;
}
