/*
** lane.c: the lane discipline.  Jobs are claimed by priority, by workers that
** have the capabilities they require; they are tried, retried, reclaimed from
** workers that vanished, and end with exactly one event.
**
**     SELECT claimq_submit('render', 'frame 1', 'capabilities', '["gpu"]');
**     -- 1
**     SELECT job_id, payload, attempt_index, claim_id FROM claimq_lane
**      WHERE lane='render' AND owner='worker-a' AND capabilities='["gpu"]';
**     -- 1|frame 1|0|qjc:1:1
**     SELECT claimq_retry('qjc:1:1', :lease_token, 'driver crashed');
**     -- retry
**     SELECT outcome, error FROM claimq_attempt WHERE job_id=1;
**     -- retry|driver crashed
**
** How a claim chooses
**
** Jobs stand in one index by (lane, partition, set of required capabilities,
** due), and within the ready ones (due = -1) in claim order.  A claim looks at
** the sets of its lane, keeps those its worker satisfies, and reads the head
** of each, keeping the best max_jobs keys seen so far.  A set is left at the
** first ready job that is no better than all of these, so a set costs one
** seek, and jobs of sets that the worker does not satisfy cost nothing,
** however many they are.  Jobs that became due but were not promoted yet (see
** sql/schema.sql) are in no order: all of them are looked at, and promoted if
** they are many.
**
** What the sets cost: a claim of one job takes about 150 steps of SQLite's
** machine, 5 more for each set of the lane and partition if its worker has any
** capabilities, and 69 more for each set that it satisfies (24 if the set is
** empty; test/lane_cost.test holds it to that).  5000 sets
** were 1 ms when none fitted, 32 ms when all did.  So thousands of sets are
** fine, but a set for every job is not: give such jobs lanes or partitions.
**
** How a job changes
**
** By one UPDATE of its row, always: a claim of several jobs too, and also if
** some of the jobs it met were reclaimed too often and become failed.  History,
** event, dead letter and the end of a grant are written by triggers in
** sql/schema.sql.  So every operation here works inside INSERT ... SELECT.
**
** The rule of repetition: the job row remembers how its last claim was
** settled.  complete, retry and reject with that claim and token give the same
** answer again and write nothing, until the job is claimed again: then there
** is a current claim, and the old one is displaced.
*/
#include "claimq_int.h"

/* Columns of the fragment LANE_ROW, and what LANE_HEAD adds.  The first ten
** are the result's. */
#define CQ_L_JOB       0
#define CQ_L_LANE      1
#define CQ_L_ATTEMPT   6
#define CQ_L_RECLAIMS  7
#define CQ_L_NCOL     10
#define CQ_L_FENCE    10
#define CQ_L_CLAIM    11
#define CQ_L_ATTEMPTS 12
#define CQ_L_ACTIVE   13
#define CQ_L_DUE      14
#define CQ_L_CAP      15
#define CQ_L_WAITED   16

/* Columns of the fragment LANE_KEY, and what LANE_READY adds. */
#define CQ_LK_JOB      0
#define CQ_LK_PRIORITY 1
#define CQ_LK_CREATED  2
#define CQ_LK_SPENT    3
#define CQ_LK_DUE      4
#define CQ_LK_SET      5
#define CQ_LK_WAITED   6

#define CQ_L_COLS "job_id:i lane_id:t partition_key:i priority:i payload:b " \
  "required_capabilities:t attempt_index:i reclaim_count:i created_at_ms:i " \
  "available_at_ms:i"

#define CQ_I64_MIN     (-CQ_I64_MAX-1)

/* Who claims, and for how long. */
typedef struct CqLaneWorker CqLaneWorker;
struct CqLaneWorker {
  CqText owner, incarnation;
  i64 iTtl;
};

/* A list of capabilities, taken apart. */
typedef struct CqCaps CqCaps;
struct CqCaps {
  CqText *a;                      /* Sorted; the texts stand behind them */
  int n;
  char *zOut;                     /* Room to join them again */
};

/*
** Raise bad_argument unless json is a list of capabilities.  Returns the
** number of its elements.
*/
static int cqCapsCheck(CqOp *p, const char *zName, CqText json){
  int n = p->rc ? 0 : claimqCapsCheck(json);
  if( n<0 ){
    claimqFail(p, CQ_BAD_ARGUMENT,
        "%s must be a JSON array of non-empty strings", zName);
    n = 0;
  }
  return n;
}

/*
** Check and take apart argument "capabilities".  The caller frees pCaps->a,
** also after an error.
*/
static void cqCapsRead(CqOp *p, CqText json, CqCaps *pCaps){
  int n = cqCapsCheck(p, "capabilities", json);
  char *zText;
  memset(pCaps, 0, sizeof(*pCaps));
  if( n==0 ) return;
  pCaps->a = claimqMalloc(p, n*(i64)sizeof(CqText) + 4*(i64)json.n);
  if( pCaps->a==0 ) return;
  zText = (char*)&pCaps->a[n];
  pCaps->zOut = &zText[json.n];
  pCaps->n = claimqCapsSplit(json, pCaps->a, zText);
}

/*
** One more; unless somebody corrupted the row, this is an integer.
*/
static void cqLaneOneMore(CqCell *pCell){
  if( pCell->eType==SQLITE_INTEGER ) pCell->u.i = claimqAddSat(pCell->u.i, 1);
}

/*
** Write the cells of the job of the fragment LANE_ROW that pRow stands on from
** a[0] on as they will be once it is claimed, under *pLease.  Returns 1 if the
** job is new: nobody holds it, and it stands among the ready ones.
*/
static int cqLaneCells(
  CqOp *p, CqRows *pRows, CqCell *a, sqlite3_stmt *pRow,
  const CqLaneWorker *pW, CqLease *pLease
){
  int bActive = sqlite3_column_int(pRow, CQ_L_ACTIVE);
  i64 iJob = sqlite3_column_int64(pRow, CQ_L_JOB);
  claimqCellColumns(p, pRows, a, pRow, CQ_L_NCOL);
  claimqCellInt(&a[CQ_L_JOB], iJob);          /* For cqLaneIds() */
  if( bActive && p->rc==SQLITE_OK ){
    cqLaneOneMore(&a[CQ_L_ATTEMPT]);
    cqLaneOneMore(&a[CQ_L_RECLAIMS]);
  }
  claimqLeaseMake(pLease, "qjc", iJob, sqlite3_column_int64(pRow, CQ_L_FENCE),
      claimqColumnText(p, pRow, CQ_L_LANE),
      pW->owner, pW->incarnation, claimqNow(p), pW->iTtl);
  claimqLeaseCells(p, pRows, &a[CQ_L_NCOL], pLease,
      claimqColumnText(p, pRow, CQ_L_CLAIM),
      sqlite3_column_int64(pRow, CQ_L_ATTEMPTS));
  return !bActive && sqlite3_column_int64(pRow, CQ_L_DUE)<0;
}

/*
** The same for job iJob.
*/
static int cqLaneCellsById(
  CqOp *p, CqRows *pRows, CqCell *a, i64 iJob, const CqLaneWorker *pW,
  CqLease *pLease
){
  sqlite3_stmt *pRow = claimqStmt(p, CQ_SQL_LANE_BY_ID);
  int bNew = 0;
  claimqBindInt(p, pRow, 1, iJob);
  if( claimqStep(p, pRow) ) bNew = cqLaneCells(p, pRows, a, pRow, pW, pLease);
  claimqStmtDone(p, CQ_SQL_LANE_BY_ID, pRow);
  return bNew;
}

/*
** Bind what the fragment LANE_LEASE needs: ?2 .. ?5.
*/
static void cqLaneBindWorker(
  CqOp *p, sqlite3_stmt *pStmt, const CqLaneWorker *pW
){
  claimqBindText(p, pStmt, 2, pW->owner);
  claimqBindText(p, pStmt, 3, pW->incarnation);
  claimqBindInt(p, pStmt, 4, claimqNow(p));
  claimqBindInt(p, pStmt, 5, claimqAddSat(claimqNow(p), pW->iTtl));
}

/**************************************************************************
** Choosing jobs
*/
typedef struct CqLaneClaim CqLaneClaim;
struct CqLaneClaim {
  CqText lane;
  CqCaps offered;                 /* The worker's capabilities */
  i64 iPartition;
  i64 nMax;
  CqLaneWorker worker;
  CqIds sets;                     /* Sets that the worker satisfies; empty: 0 */
  CqIds late;                     /* Those with many that waited and are due */
  CqIds full;                     /* Those with many held among the ready */
  i64 nFull;                      /* At most so many in front of a ready one */
  CqJobKey *aPick;                /* The best so far, in order */
  int nPick, nPickAlloc;
  CqIds spent;                    /* Met, and reclaimed too often */
  CqIds ids;                      /* All that will be written, if !bOne */
  CqRows *pRows;                  /* What was picked, for the caller */
  CqLease lease;                  /* Of the last one */
  u8 bNew;                        /* All are new (see cqLaneCells()) */
  u8 bOne;                        /* That is one job */
};

/*
** The place of a key among the picks: before all that go after it.
*/
static int cqLanePlace(const CqLaneClaim *pC, const CqJobKey *pKey){
  int iLow = 0, iHigh = pC->nPick;
  if( iHigh && claimqJobCompare(&pC->aPick[iHigh-1], pKey)<0 ) return iHigh;
  while( iLow<iHigh ){
    int iMid = (iLow + iHigh)/2;
    if( claimqJobCompare(&pC->aPick[iMid], pKey)<0 ) iLow = iMid+1;
    else iHigh = iMid;
  }
  return iLow;
}

/*
** Put a key at its place; the last one falls out if there are enough.
*/
static void cqLanePick(CqOp *p, CqLaneClaim *pC, int i, const CqJobKey *pKey){
  if( pC->nPick>=pC->nMax ){
    pC->nPick--;
  }else if( pC->nPick>=pC->nPickAlloc ){
    int nNew = pC->nPickAlloc ? pC->nPickAlloc*2 : 16;
    CqJobKey *aNew = claimqRealloc(p, pC->aPick, nNew*(i64)sizeof(*aNew));
    if( aNew==0 ) return;
    pC->aPick = aNew;
    pC->nPickAlloc = nNew;
  }
  memmove(&pC->aPick[i+1], &pC->aPick[i],
          (size_t)(pC->nPick-i)*sizeof(*pKey));
  pC->aPick[i] = *pKey;
  pC->nPick++;
}

/*
** Offer the job of the fragment LANE_KEY that pStmt stands on.  Returns 0 if
** there is no room for one that goes after it.  A job that is spent takes
** nobody's place.
*/
static int cqLaneOffer(CqOp *p, CqLaneClaim *pC, sqlite3_stmt *pStmt){
  CqJobKey key;
  int i;
  key.iJob = sqlite3_column_int64(pStmt, CQ_LK_JOB);
  key.iPriority = sqlite3_column_int64(pStmt, CQ_LK_PRIORITY);
  key.iCreated = sqlite3_column_int64(pStmt, CQ_LK_CREATED);
  i = cqLanePlace(pC, &key);
  if( i>=pC->nMax ) return 0;
  if( !sqlite3_column_int(pStmt, CQ_LK_SPENT) ){
    cqLanePick(p, pC, i, &key);
    return i+1<pC->nMax;
  }else if( pC->spent.n<CQ_DUE_MOST ){
    claimqIdsAdd(p, &pC->spent, key.iJob);
  }
  return 1;
}

/*
** The sets that the worker satisfies; 0 is the one that requires nothing.  A
** set that somebody corrupted is satisfied by nobody.
*/
static void cqLaneSets(CqOp *p, CqLaneClaim *pC){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_LANE_SETS);
  claimqIdsAdd(p, &pC->sets, 0);
  claimqBindText(p, pStmt, 1, pC->lane);
  claimqBindInt(p, pStmt, 2, pC->iPartition);
  while( claimqStep(p, pStmt) ){
    CqText required = claimqColumnText(p, pStmt, 1);
    if( claimqCapsMeet(required, pC->offered.a, pC->offered.n) ){
      claimqIdsAdd(p, &pC->sets, sqlite3_column_int64(pStmt, 0));
    }
  }
  claimqStmtDone(p, CQ_SQL_LANE_SETS, pStmt);
}

/*
** A statement that reads or promotes the jobs of one set after the other.
*/
static sqlite3_stmt *cqLaneStmt(CqOp *p, const CqLaneClaim *pC, int eStmt){
  sqlite3_stmt *pStmt = claimqStmt(p, eStmt);
  claimqBindText(p, pStmt, 1, pC->lane);
  claimqBindInt(p, pStmt, 2, pC->iPartition);
  claimqBindInt(p, pStmt, 4, claimqNow(p));
  return pStmt;
}

/*
** Offer the jobs of a set that waited and became due; pStmt stands on the
** first of them, or before it.  Returns their number.
*/
static int cqLaneOfferDue(CqOp *p, CqLaneClaim *pC, sqlite3_stmt *pStmt){
  int n = 0;
  do{
    cqLaneOffer(p, pC, pStmt);
    n++;
  }while( claimqStep(p, pStmt) );
  return n;
}

/*
** Offer what is ready, as far as needed, and all that is due.  Returns the
** number of the latter.
*/
static int cqLaneOfferSet(CqOp *p, CqLaneClaim *pC, sqlite3_stmt *pReady){
  sqlite3_stmt *pDue;
  int nDue = 0;
  do{
    if( sqlite3_column_int64(pReady, CQ_LK_DUE)>=0 ){
      return cqLaneOfferDue(p, pC, pReady);
    }
    if( !cqLaneOffer(p, pC, pReady) ){
      if( !sqlite3_column_int(pReady, CQ_LK_WAITED) ) return 0;
      pDue = cqLaneStmt(p, pC, CQ_SQL_LANE_DUE);
      claimqBindInt(p, pDue, 3, sqlite3_column_int64(pReady, CQ_LK_SET));
      if( claimqStep(p, pDue) ) nDue = cqLaneOfferDue(p, pC, pDue);
      claimqStmtDone(p, CQ_SQL_LANE_DUE, pDue);
      return nDue;
    }
  }while( claimqStep(p, pReady) );
  return 0;
}

/*
** Was the way to the first ready job of a set long?  Note that.
*/
static void cqLaneFull(CqOp *p, CqLaneClaim *pC, i64 iSet, int nStep){
  if( nStep<=CQ_STEPS_FEW ) return;
  claimqIdsAdd(p, &pC->full, iSet);
  if( nStep>pC->nFull ) pC->nFull = nStep;
}

/*
** Offer all that is claimable, set by set, and note what upkeep a set needs.
*/
static void cqLaneChoose(CqOp *p, CqLaneClaim *pC){
  sqlite3_stmt *pReady = cqLaneStmt(p, pC, CQ_SQL_LANE_READY);
  int i;
  for(i=0; i<pC->sets.n && p->rc==SQLITE_OK; i++){
    int nStep = claimqStmtSteps(pReady);
    claimqBindInt(p, pReady, 3, pC->sets.a[i]);
    if( claimqStep(p, pReady) ){
      cqLaneFull(p, pC, pC->sets.a[i], claimqStmtSteps(pReady) - nStep);
      if( cqLaneOfferSet(p, pC, pReady)>=CQ_DUE_FEW ){
        claimqIdsAdd(p, &pC->late, pC->sets.a[i]);
      }
    }
    sqlite3_reset(pReady);
  }
  claimqStmtDone(p, CQ_SQL_LANE_READY, pReady);
}

/*
** 1 if the job that LANE_HEAD stands on is spent: the fragment LANE_SPENT.
*/
static int cqLaneSpent(sqlite3_stmt *pHead){
  return sqlite3_column_int(pHead, CQ_L_ACTIVE)
      && sqlite3_column_int64(pHead, CQ_L_RECLAIMS)
         >=sqlite3_column_int64(pHead, CQ_L_CAP);
}

/*
** The usual case: the worker satisfies set 0 alone, and no job waited.  Then
** the jobs that are ready are all, come in order, and one statement is enough.
** Returns 0 if some waited; then nothing is done.
*/
static int cqLaneStraight(CqOp *p, CqLaneClaim *pC){
  sqlite3_stmt *pHead = cqLaneStmt(p, pC, CQ_SQL_LANE_HEAD);
  int nStep = claimqStmtSteps(pHead);
  int bStraight = 1;
  while( pC->pRows->nRow<pC->nMax && claimqStep(p, pHead) ){
    if( pC->pRows->nRow==0 && pC->spent.n==0 ){
      bStraight = !sqlite3_column_int(pHead, CQ_L_WAITED);
      if( !bStraight ) break;
      cqLaneFull(p, pC, 0, claimqStmtSteps(pHead) - nStep);
    }
    if( !cqLaneSpent(pHead) ){
      CqCell *a = claimqRowsAdd(p, pC->pRows);
      if( a ){
        pC->bNew &= (u8)cqLaneCells(p, pC->pRows, a, pHead, &pC->worker,
                                    &pC->lease);
      }
    }else if( pC->spent.n<CQ_DUE_MOST ){
      claimqIdsAdd(p, &pC->spent, sqlite3_column_int64(pHead, CQ_L_JOB));
    }
  }
  claimqStmtDone(p, CQ_SQL_LANE_HEAD, pHead);
  return bStraight;
}

/**************************************************************************
** The claim
*/

/*
** The rows of what was picked, in order.
*/
static void cqLaneRows(CqOp *p, CqLaneClaim *pC){
  int i;
  for(i=0; i<pC->nPick && p->rc==SQLITE_OK; i++){
    CqCell *a = claimqRowsAdd(p, pC->pRows);
    if( a ){
      pC->bNew &= (u8)cqLaneCellsById(p, pC->pRows, a, pC->aPick[i].iJob,
                                      &pC->worker, &pC->lease);
    }
  }
}

/*
** The list of all that will be written.
*/
static void cqLaneIds(CqOp *p, CqLaneClaim *pC){
  int i;
  for(i=0; i<pC->pRows->nRow && p->rc==SQLITE_OK; i++){
    claimqIdsAdd(p, &pC->ids, claimqRow(pC->pRows, i)[CQ_L_JOB].u.i);
  }
  for(i=0; i<pC->spent.n; i++) claimqIdsAdd(p, &pC->ids, pC->spent.a[i]);
  pC->ids.pRows = pC->pRows;
  pC->ids.iLease = CQ_L_NCOL;
}

static void cqLaneLoad(CqOp *p, void *pCtx){
  CqLaneClaim *pC = (CqLaneClaim*)pCtx;
  int nJob;
  if( pC->nMax==0 ) return;
  pC->bNew = 1;
  if( pC->offered.n ) cqLaneSets(p, pC);
  if( pC->sets.n>1 || !cqLaneStraight(p, pC) ){
    if( pC->sets.n==0 ) claimqIdsAdd(p, &pC->sets, 0);
    cqLaneChoose(p, pC);
    cqLaneRows(p, pC);
  }
  nJob = pC->pRows->nRow + pC->spent.n;
  if( pC->spent.n || nJob>CQ_STAY_MOST ) pC->bNew = 0;
  pC->bOne = nJob==1 && pC->bNew;
  if( !pC->bOne ) cqLaneIds(p, pC);
  p->nWrite = nJob ? 1 + (pC->late.n>0 || pC->full.n>0) : 0;
}

static void cqLaneFree(CqLaneClaim *pC){
  claimqIdsClear(&pC->sets);
  claimqIdsClear(&pC->late);
  claimqIdsClear(&pC->full);
  claimqIdsClear(&pC->spent);
  claimqIdsClear(&pC->ids);
  sqlite3_free(pC->aPick);
  sqlite3_free(pC->offered.a);
}

/*
** Upkeep: move jobs of these sets from one place of the index to the other,
** at most nMost in all.
*/
static void cqLaneUpkeep(
  CqOp *p, CqLaneClaim *pC, int eStmt, const CqIds *pSets, i64 nMost
){
  int i;
  for(i=0; i<pSets->n && nMost>0; i++){
    sqlite3_stmt *pStmt = cqLaneStmt(p, pC, eStmt);
    claimqBindInt(p, pStmt, 3, pSets->a[i]);
    claimqBindInt(p, pStmt, 5, nMost);
    nMost -= claimqExec(p, eStmt, pStmt);
  }
}

/*
** Stamp the jobs.  The usual ones stay where they are in the index.
*/
static void cqLaneApply(CqOp *p, void *pCtx){
  CqLaneClaim *pC = (CqLaneClaim*)pCtx;
  int eStmt = pC->bOne ? CQ_SQL_LANE_STAMP_NEW
            : pC->bNew ? CQ_SQL_LANE_STAMP_NEWS
            : pC->spent.n ? CQ_SQL_LANE_STAMP_MIXED : CQ_SQL_LANE_STAMP;
  sqlite3_stmt *pStmt;
  if( !p->bAlone ){
    cqLaneUpkeep(p, pC, CQ_SQL_LANE_PARK, &pC->full, pC->nFull);
    cqLaneUpkeep(p, pC, CQ_SQL_LANE_PROMOTE, &pC->late, CQ_DUE_MOST);
  }
  pStmt = claimqStmt(p, eStmt);
  if( pC->bOne ){
    claimqBindInt(p, pStmt, 1, pC->lease.iHead);
    claimqLeaseBind(p, pStmt, 2, &pC->lease);
  }else{
    claimqBindIds(p, pStmt, 1, &pC->ids);
    cqLaneBindWorker(p, pStmt, &pC->worker);
  }
  claimqExec(p, eStmt, pStmt);
}

/* Arguments of claimq_lane(...), in this order. */
static const CqArgDef cqLaneArg[] = {
  { "lane",         CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0 },
  { "owner",        CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0 },
  { "ttl_ms",       CQ_T_INT,  0, 0, 30000, 0, 0, 0, 0 },
  { "max_jobs",     CQ_T_INT,  0, 0, 1, 0, 0, 0, 0 },
  { "incarnation",  CQ_T_TEXT, 0, 0, 0, "", 0, 0, 0 },
  { "capabilities", CQ_T_JSON, 0, 0, 0, "[]", 0, 0, 0 },
  { "partition",    CQ_T_INT,  0, 0, 0, 0, CQ_I64_MIN, 0, 0 },
  { "now_ms",       CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};

static void cqLaneFill(CqOp *p, const CqVal *aArg, i64 nLimit, CqRows *pRows){
  static const CqTask task = { cqLaneLoad, cqLaneApply, 0 };
  CqLaneClaim c;
  memset(&c, 0, sizeof(c));
  c.lane = aArg[0].t;
  c.worker.owner = aArg[1].t;
  c.worker.iTtl = aArg[2].i;
  c.nMax = aArg[3].i<nLimit ? aArg[3].i : nLimit;
  c.worker.incarnation = aArg[4].t;
  c.iPartition = aArg[6].i;
  c.pRows = pRows;
  if( aArg[5].bGiven ) cqCapsRead(p, aArg[5].t, &c.offered);
  claimqRun(p, &task, &c);
  cqLaneFree(&c);
}

/**************************************************************************
** Submit
*/
static const char *const *cqReclaimWords(void){
  static const char *const az[] = { "auto", "grant", 0 };
  return az;
}

/* Options of claimq_submit(), in the order of LANE_INSERT. */
#define CQ_SUB_CAPS  1
#define CQ_SUB_KEY   2
#define CQ_SUB_AT    3
#define CQ_SUB_DELAY 4
#define CQ_SUB_NOW  15
#define CQ_SUB_N    16
static const CqArgDef cqSubmitOpt[CQ_SUB_N] = {
  { "priority",        CQ_T_INT,  0, 0, 0, 0, CQ_I64_MIN, 0, 0 },
  { "capabilities",    CQ_T_JSON, 0, 0, 0, "[]", 0, 0, 0 },
  { "source_key",      CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 },
  { "available_at_ms", CQ_T_INT,  0, 0, 0, 0, 0, 0, 0 },
  { "delay_ms",        CQ_T_INT,  0, 0, 0, 0, 0, 0, 0 },
  { "max_attempts",    CQ_T_INT,  0, 0, 20, 0, 0, 0, 0 },
  { "backoff_ms",      CQ_T_INT,  0, 0, 1000, 0, 0, 0, 0 },
  { "backoff_factor",  CQ_T_INT,  0, 0, 2, 0, 0, 0, 0 },
  { "backoff_max_ms",  CQ_T_INT,  0, 0, 60000, 0, 0, 0, 0 },
  { "max_reclaims",    CQ_T_INT,  0, 0, 1000, 0, 0, 0, 0 },
  { "reclaim",         CQ_T_WORD, 0, 0, 0, 0, 0, 0, cqReclaimWords },
  { "partition_key",   CQ_T_INT,  0, 0, 0, 0, CQ_I64_MIN, 0, 0 },
  { "flow_id",         CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 },
  { "namespace",       CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 },
  { "instance_tag",    CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 },
  { "now_ms",          CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};
static const CqArgDef cqSubmitLane = {
  "lane", CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0
};

typedef struct CqSubmit CqSubmit;
struct CqSubmit {
  CqText lane;
  sqlite3_value *pPayload;
  u8 bPlain;                      /* No options; the next three are not set */
  CqVal aOpt[CQ_SUB_N];
  i64 iAvailable;
  CqCaps caps;
  i64 iJob;                       /* OUT */
};

/*
** Replace the capabilities by the one way to write their set.
*/
static void cqSubmitCaps(CqOp *p, CqSubmit *pS){
  CqText *pText = &pS->aOpt[CQ_SUB_CAPS].t;
  cqCapsRead(p, *pText, &pS->caps);
  *pText = claimqStr("[]");
  if( pS->caps.n ){
    pText->z = pS->caps.zOut;
    pText->n = claimqCapsJoin(pS->caps.a, pS->caps.n, pS->caps.zOut);
  }
}

/*
** A job of the lane that has the source key and is not terminal is the answer.
*/
static void cqSubmitLoad(CqOp *p, void *pCtx){
  CqSubmit *pS = (CqSubmit*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_LANE_BY_KEY);
  claimqBindText(p, pStmt, 1, pS->lane);
  claimqBindText(p, pStmt, 2, pS->aOpt[CQ_SUB_KEY].t);
  p->nWrite = !claimqStep(p, pStmt);
  if( p->nWrite==0 ) pS->iJob = sqlite3_column_int64(pStmt, 0);
  claimqStmtDone(p, CQ_SQL_LANE_BY_KEY, pStmt);
}

/*
** Bind what options say.
*/
static void cqSubmitBind(CqOp *p, CqSubmit *pS, sqlite3_stmt *pStmt){
  int i;
  for(i=0; i<CQ_SUB_N; i++){
    if( cqSubmitOpt[i].eType==CQ_T_INT ){
      claimqBindInt(p, pStmt, 3+i, pS->aOpt[i].i);
    }else{
      claimqBindText(p, pStmt, 3+i, pS->aOpt[i].t);
    }
  }
  claimqBindInt(p, pStmt, 3+CQ_SUB_AT, pS->iAvailable);
  claimqBindInt(p, pStmt, 3+CQ_SUB_NOW, claimqNow(p));
}

static void cqSubmitApply(CqOp *p, void *pCtx){
  CqSubmit *pS = (CqSubmit*)pCtx;
  int eStmt = pS->bPlain ? CQ_SQL_LANE_INSERT_PLAIN : CQ_SQL_LANE_INSERT;
  sqlite3_stmt *pStmt = claimqStmt(p, eStmt);
  claimqBindText(p, pStmt, 1, pS->lane);
  claimqBindValue(p, pStmt, 2, pS->pPayload);
  if( pS->bPlain ) claimqBindInt(p, pStmt, 3, claimqNow(p));
  else cqSubmitBind(p, pS, pStmt);
  claimqExec(p, eStmt, pStmt);
  if( p->rc==SQLITE_OK ) pS->iJob = sqlite3_last_insert_rowid(p->db);
}

/*
** Read the options.
*/
static void cqSubmitOptions(
  CqOp *p, CqSubmit *pS, int nVal, sqlite3_value **apVal
){
  claimqReadOptions(p, cqSubmitOpt, CQ_SUB_N, 0, nVal, apVal, pS->aOpt);
  cqSubmitCaps(p, pS);
  pS->iAvailable = claimqDueAt(p, &pS->aOpt[CQ_SUB_AT],
                               &pS->aOpt[CQ_SUB_DELAY]);
}

/*
** claimq_submit(lane, payload [, option, value]...) -> job_id
*/
static void cqSubmitFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqTask task = { cqSubmitLoad, cqSubmitApply, 0 };
  CqSubmit s;
  CqVal lane;
  memset(&s, 0, sizeof(s));
  claimqRead(p, &cqSubmitLane, apVal[0], &lane);
  s.lane = lane.t;
  s.pPayload = apVal[1];
  s.bPlain = nVal==2;
  if( !s.bPlain ) cqSubmitOptions(p, &s, nVal-2, &apVal[2]);
  if( s.aOpt[CQ_SUB_KEY].bGiven ) claimqRun(p, &task, &s);
  else if( p->rc==SQLITE_OK ) cqSubmitApply(p, &s);
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCtx, s.iJob);
  sqlite3_free(s.caps.a);
}

/**************************************************************************
** The verbs
*/
#define CQ_LV_RESULT 0
static const CqArgDef cqLaneOpt[] = {
  { "result", CQ_T_ANY, 0, 1<<CQ_COMPLETE, 0, 0, 0, 0, 0 },
};

/* Columns of LANE_HOLD. */
#define CQ_LH_CLAIM         0
#define CQ_LH_TOKEN         1
#define CQ_LH_SETTLED_BY    2
#define CQ_LH_SETTLED_CLAIM 3
#define CQ_LH_SETTLED_TOKEN 4
#define CQ_LH_ATTEMPT       5
#define CQ_LH_MAX_ATTEMPTS  6
#define CQ_LH_RETRIES       7
#define CQ_LH_BACKOFF       8
#define CQ_LH_FACTOR        9
#define CQ_LH_BACKOFF_MAX  10

typedef struct CqLaneVerb CqLaneVerb;
struct CqLaneVerb {
  CqVerb *pVerb;
  i64 iBack;                      /* release, retry: due time; -1: as it was */
  const char *zFail;              /* What LANE_FAIL is to note, or 0 */
};

/*
** What retry does: back to the queue after a while, or to the dead letters if
** the attempts are used up.
*/
static void cqLaneRetry(CqOp *p, CqLaneVerb *pV, sqlite3_stmt *pStmt){
  i64 nUsed = claimqAddSat(sqlite3_column_int64(pStmt, CQ_LH_ATTEMPT), 1);
  i64 iDelay = pV->pVerb->iDelay;
  if( nUsed>=sqlite3_column_int64(pStmt, CQ_LH_MAX_ATTEMPTS) ){
    pV->zFail = pV->pVerb->zResult = "dead";
    return;
  }
  if( iDelay<0 ){
    iDelay = claimqBackoff(sqlite3_column_int64(pStmt, CQ_LH_BACKOFF),
        sqlite3_column_int64(pStmt, CQ_LH_FACTOR),
        sqlite3_column_int64(pStmt, CQ_LH_RETRIES),
        sqlite3_column_int64(pStmt, CQ_LH_BACKOFF_MAX));
  }
  pV->iBack = claimqAddSat(claimqNow(p), iDelay);
  pV->pVerb->zResult = "retry";
}

/*
** The claim is the job's: decide what the verb writes and what it returns.
*/
static void cqLaneDecide(CqOp *p, CqLaneVerb *pV, sqlite3_stmt *pStmt){
  CqVerb *pVerb = pV->pVerb;
  pVerb->iResult = 1;
  switch( pVerb->eVerb ){
    case CQ_RENEW:
      pVerb->iResult = claimqAddSat(claimqNow(p), pVerb->iTtl);
      break;
    case CQ_RELEASE:
      if( pVerb->iDelay>=0 ){
        pV->iBack = claimqAddSat(claimqNow(p), pVerb->iDelay);
      }
      break;
    case CQ_RETRY:
      cqLaneRetry(p, pV, pStmt);
      break;
    case CQ_REJECT:
      pV->zFail = "reject";
      break;
  }
  p->nWrite = pVerb->eVerb!=CQ_GUARD;
}

/*
** The claim is over.  If this very verb settled it and nobody claimed the job
** since, the answer is the same again, and 1 is returned; else 0.
*/
static int cqLaneRepeated(CqVerb *pVerb, CqText settledBy){
  static const char *const azWord[] = { 0, "complete", 0, "retry", "reject" };
  const char *zWord = pVerb->eVerb==CQ_GUARD ? 0 : azWord[pVerb->eVerb];
  pVerb->iResult = 1;
  if( pVerb->eVerb==CQ_RETRY ){
    if( claimqTextEq(settledBy, claimqStr("dead")) ) zWord = "dead";
    pVerb->zResult = zWord;
  }
  return zWord && claimqTextEq(settledBy, claimqStr(zWord));
}

/*
** The claim does not hold the job.  Raise claim_lost, unless the verb is a
** repetition, or release, for which that is no error.
*/
static void cqLaneLost(
  CqOp *p, CqVerb *pVerb, int eVerdict, CqText current, sqlite3_stmt *pStmt
){
  if( p->rc ) return;
  if( pVerb->eVerb==CQ_RELEASE && eVerdict!=CQ_HOLD_TOKEN ){
    pVerb->iResult = 0;
    return;
  }
  if( eVerdict==CQ_HOLD_DISPLACED && current.z==0 ){
    CqText claim = claimqColumnText(p, pStmt, CQ_LH_SETTLED_CLAIM);
    CqText token = claimqColumnText(p, pStmt, CQ_LH_SETTLED_TOKEN);
    CqText by = claimqColumnText(p, pStmt, CQ_LH_SETTLED_BY);
    if( claimqTextEq(claim, pVerb->claimId) ){
      if( !claimqTextEq(token, pVerb->token) ) eVerdict = CQ_HOLD_TOKEN;
      else if( cqLaneRepeated(pVerb, by) ) return;
    }
  }
  claimqLeaseLost(p, eVerdict, pVerb->claimId, current);
}

static void cqLaneVerbForget(void *pCtx){
  CqLaneVerb *pV = (CqLaneVerb*)pCtx;
  pV->iBack = -1;
  pV->zFail = 0;
  pV->pVerb->zResult = 0;
}

static void cqLaneVerbLoad(CqOp *p, void *pCtx){
  CqLaneVerb *pV = (CqLaneVerb*)pCtx;
  CqVerb *pVerb = pV->pVerb;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_LANE_HOLD);
  CqText current = {0, 0};
  CqHold hold;
  int eVerdict;
  memset(&hold, 0, sizeof(hold));
  hold.nSize = 1;
  p->nWrite = 0;
  claimqBindInt(p, pStmt, 1, pVerb->iHead);
  if( claimqStep(p, pStmt) ){
    hold.bHead = 1;
    current = claimqColumnText(p, pStmt, CQ_LH_CLAIM);
    if( claimqTextEq(current, pVerb->claimId) ){
      hold.nRow = 1;
      hold.nToken = claimqTextEq(claimqColumnText(p, pStmt, CQ_LH_TOKEN),
                                 pVerb->token);
    }
  }
  eVerdict = claimqHoldVerdict(&hold);
  if( p->rc==SQLITE_OK && eVerdict==CQ_HOLD_OK ) cqLaneDecide(p, pV, pStmt);
  else cqLaneLost(p, pVerb, eVerdict, current, pStmt);
  claimqStmtDone(p, CQ_SQL_LANE_HOLD, pStmt);
}

static void cqLaneVerbApply(CqOp *p, void *pCtx){
  static const int aStmt[] = {
    CQ_SQL_LANE_RENEW, CQ_SQL_LANE_COMPLETE, CQ_SQL_LANE_RELEASE,
    CQ_SQL_LANE_RETRY
  };
  CqLaneVerb *pV = (CqLaneVerb*)pCtx;
  CqVerb *pVerb = pV->pVerb;
  int eStmt = pV->zFail ? CQ_SQL_LANE_FAIL : aStmt[pVerb->eVerb];
  sqlite3_stmt *pStmt = claimqStmt(p, eStmt);
  claimqBindInt(p, pStmt, 1, pVerb->iHead);
  claimqBindInt(p, pStmt, 2, pVerb->eVerb==CQ_RENEW ? pVerb->iResult
                                                    : claimqNow(p));
  switch( eStmt ){
    case CQ_SQL_LANE_COMPLETE:    /* A trigger kept claimqVerbFast() from it */
      claimqBindValue(p, pStmt, 3, pVerb->aOpt[CQ_LV_RESULT].pVal);
      break;
    case CQ_SQL_LANE_RELEASE:
      if( pV->iBack>=0 ) claimqBindInt(p, pStmt, 3, pV->iBack);
      break;
    case CQ_SQL_LANE_RETRY:
      claimqBindText(p, pStmt, 3, pVerb->reason);
      claimqBindInt(p, pStmt, 4, pV->iBack);
      break;
    case CQ_SQL_LANE_FAIL:
      claimqBindText(p, pStmt, 3, pVerb->reason);
      claimqBindText(p, pStmt, 4, claimqStr(pV->zFail));
      break;
  }
  claimqExec(p, eStmt, pStmt);
}

static void cqLaneVerbRun(CqOp *p, CqVerb *pVerb){
  static const CqTask task = {
    cqLaneVerbLoad, cqLaneVerbApply, cqLaneVerbForget
  };
  CqLaneVerb v;
  if( claimqVerbFast(p, pVerb, CQ_SQL_LANE_RENEW_FAST,
                     CQ_SQL_LANE_COMPLETE_FAST, pVerb->aOpt[CQ_LV_RESULT].pVal)
  ){
    return;
  }
  v.pVerb = pVerb;
  cqLaneVerbForget(&v);
  claimqVerbRun(p, pVerb, &task, &v);
}

/**************************************************************************
** Cancel and revoke
*/
typedef struct CqLaneState CqLaneState;
struct CqLaneState {              /* Columns of LANE_STATE */
  u8 bTerminal, bActive, bHeld, bLive;
  i64 nReclaim, nMaxReclaim;
};

/*
** 1 if the job exists, and what it is; else 0, and no job is nothing at all.
*/
static int cqLaneStateLoad(CqOp *p, i64 iJob, CqLaneState *pState){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_LANE_STATE);
  int bFound;
  memset(pState, 0, sizeof(*pState));
  claimqBindInt(p, pStmt, 1, iJob);
  claimqBindInt(p, pStmt, 2, claimqNow(p));
  bFound = claimqStep(p, pStmt);
  if( bFound ){
    pState->bTerminal = (u8)sqlite3_column_int(pStmt, 0);
    pState->bActive = (u8)sqlite3_column_int(pStmt, 1);
    pState->bHeld = (u8)sqlite3_column_int(pStmt, 2);
    pState->bLive = (u8)sqlite3_column_int(pStmt, 3);
    pState->nReclaim = sqlite3_column_int64(pStmt, 4);
    pState->nMaxReclaim = sqlite3_column_int64(pStmt, 5);
  }
  claimqStmtDone(p, CQ_SQL_LANE_STATE, pStmt);
  return bFound;
}

static void cqLaneNotFound(CqOp *p, i64 iJob){
  claimqFail(p, CQ_NOT_FOUND, "there is no job %lld", iJob);
}

typedef struct CqLaneEnd CqLaneEnd;
struct CqLaneEnd {
  i64 iJob;
  int eStmt;                      /* LANE_CANCEL or LANE_REVOKE */
  int bForce;
  const char *zResult;
};

/*
** A job that has ended is as good as gone: there is nothing to cancel.
*/
static void cqLaneCancelLoad(CqOp *p, void *pCtx){
  CqLaneEnd *pE = (CqLaneEnd*)pCtx;
  CqLaneState s;
  p->nWrite = 0;
  if( !cqLaneStateLoad(p, pE->iJob, &s) || s.bTerminal ){
    pE->zResult = "missing";
  }else if( s.bLive && !pE->bForce ){
    pE->zResult = "claimed";
  }else{
    pE->zResult = "cancelled";
    p->nWrite = 1;
  }
}

/*
** A claim that has expired is still its owner's until somebody displaces it;
** that is what is asked for here.
*/
static void cqLaneRevokeLoad(CqOp *p, void *pCtx){
  CqLaneEnd *pE = (CqLaneEnd*)pCtx;
  CqLaneState s;
  if( !cqLaneStateLoad(p, pE->iJob, &s) ) cqLaneNotFound(p, pE->iJob);
  pE->zResult = s.bHeld ? "revoked" : "no_active_lease";
  p->nWrite = s.bHeld;
}

static void cqLaneEndApply(CqOp *p, void *pCtx){
  CqLaneEnd *pE = (CqLaneEnd*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, pE->eStmt);
  claimqBindInt(p, pStmt, 1, pE->iJob);
  claimqBindInt(p, pStmt, 2, claimqNow(p));
  claimqExec(p, pE->eStmt, pStmt);
}

static const char *cqLaneCancel(CqOp *p, const CqVal *pKey, int bForce){
  static const CqTask task = { cqLaneCancelLoad, cqLaneEndApply, 0 };
  CqLaneEnd e = { 0, CQ_SQL_LANE_CANCEL, 0, 0 };
  e.iJob = pKey->i;
  e.bForce = bForce;
  claimqRun(p, &task, &e);
  return e.zResult;
}

static const CqArgDef cqLaneJob = {
  "job_id", CQ_T_INT, CQ_A_REQUIRED, 0, 0, 0, CQ_I64_MIN, 0, 0
};

/*
** claimq_revoke(job_id [, option, value]...) -> 'revoked', 'no_active_lease'
*/
static void cqRevokeFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqTask task = { cqLaneRevokeLoad, cqLaneEndApply, 0 };
  static const CqArgDef opt = {
    "now_ms", CQ_T_INT, CQ_A_NOW, 0, 0, 0, 0, 0, 0
  };
  CqLaneEnd e = { 0, CQ_SQL_LANE_REVOKE, 0, 0 };
  CqVal job, now;
  claimqRead(p, &cqLaneJob, apVal[0], &job);
  claimqReadOptions(p, &opt, 1, 0, nVal-1, &apVal[1], &now);
  e.iJob = job.i;
  claimqRun(p, &task, &e);
  if( p->rc==SQLITE_OK ){
    sqlite3_result_text(pCtx, e.zResult, -1, SQLITE_STATIC);
  }
}

/**************************************************************************
** Grants
*/
/* Options of claimq_grant(), in the order of LANE_GRANT from ?5 on. */
#define CQ_G_CAPS  3
#define CQ_G_ROUTE 4
#define CQ_G_N     7
static const CqArgDef cqGrantOpt[CQ_G_N] = {
  { "incarnation_id",      CQ_T_TEXT, 0, 0, 0, "", 0, 0, 0 },
  { "lane_id",             CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 },
  { "capability_hash",     CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 },
  { "worker_capabilities", CQ_T_JSON, 0, 0, 0, 0, 0, 0, 0 },
  { "route_snapshot_json", CQ_T_JSON, 0, 0, 0, 0, 0, 0, 0 },
  { "admission_summary",   CQ_T_TEXT, 0, 0, 0, 0, 0, 0, 0 },
  { "now_ms",              CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};
static const CqArgDef cqGrantArg[] = {
  { "owner_id", CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0 },
  { "ttl_ms",   CQ_T_INT,  CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0 },
};

typedef struct CqGrant CqGrant;
struct CqGrant {
  CqVal job, owner, ttl;
  CqVal aOpt[CQ_G_N];
  i64 iGrant;                     /* OUT */
};

static void cqGrantLoad(CqOp *p, void *pCtx){
  CqGrant *pG = (CqGrant*)pCtx;
  CqLaneState s;
  if( !cqLaneStateLoad(p, pG->job.i, &s) ){
    cqLaneNotFound(p, pG->job.i);
  }else if( !s.bActive ){
    claimqFail(p, CQ_NOT_RECLAIMABLE, "job %lld is not active", pG->job.i);
  }else if( s.bLive ){
    claimqFail(p, CQ_NOT_RECLAIMABLE,
        "job %lld is held by a live claim: wait for its end, or revoke it",
        pG->job.i);
  }
  p->nWrite = 1;
}

static void cqGrantApply(CqOp *p, void *pCtx){
  CqGrant *pG = (CqGrant*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_LANE_GRANT);
  int i;
  claimqBindInt(p, pStmt, 1, pG->job.i);
  claimqBindText(p, pStmt, 2, pG->owner.t);
  claimqBindInt(p, pStmt, 3, claimqNow(p));
  claimqBindInt(p, pStmt, 4, claimqAddSat(claimqNow(p), pG->ttl.i));
  for(i=0; i<CQ_G_N-1; i++) claimqBindText(p, pStmt, 5+i, pG->aOpt[i].t);
  claimqExec(p, CQ_SQL_LANE_GRANT, pStmt);
  pG->iGrant = sqlite3_last_insert_rowid(p->db);
}

/*
** Raise bad_argument unless the text is one JSON value.
*/
static void cqGrantJson(CqOp *p, const char *zName, CqText json){
  CqJson r;
  int e;
  if( p->rc || json.z==0 ) return;
  claimqJsonInit(&r, json);
  while( (e = claimqJsonNext(&r))>CQ_JSON_END ){}
  if( e==CQ_JSON_ERROR ){
    claimqFail(p, CQ_BAD_ARGUMENT, "%s is not well-formed JSON", zName);
  }
}

/*
** claimq_grant(job_id, owner_id, ttl_ms [, option, value]...) -> grant_id
*/
static void cqGrantFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqTask task = { cqGrantLoad, cqGrantApply, 0 };
  CqGrant g;
  memset(&g, 0, sizeof(g));
  claimqRead(p, &cqLaneJob, apVal[0], &g.job);
  claimqRead(p, &cqGrantArg[0], apVal[1], &g.owner);
  claimqRead(p, &cqGrantArg[1], apVal[2], &g.ttl);
  claimqReadOptions(p, cqGrantOpt, CQ_G_N, 0, nVal-3, &apVal[3], g.aOpt);
  if( g.aOpt[CQ_G_CAPS].bGiven ){
    cqCapsCheck(p, "worker_capabilities", g.aOpt[CQ_G_CAPS].t);
  }
  cqGrantJson(p, "route_snapshot_json", g.aOpt[CQ_G_ROUTE].t);
  claimqRun(p, &task, &g);
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCtx, g.iGrant);
}

/**************************************************************************
** Reclaim by grant
*/
static const CqArgDef cqReclaimArg[] = {
  { "job",          CQ_T_INT,  CQ_A_REQUIRED, 0, 0, 0, CQ_I64_MIN, 0, 0 },
  { "owner",        CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0 },
  { "ttl_ms",       CQ_T_INT,  0, 0, 30000, 0, 0, 0, 0 },
  { "incarnation",  CQ_T_TEXT, 0, 0, 0, "", 0, 0, 0 },
  { "max_reclaims", CQ_T_INT,  0, 0, 0, 0, 0, 0, 0 },
  { "now_ms",       CQ_T_INT,  CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};

typedef struct CqReclaim CqReclaim;
struct CqReclaim {
  i64 iJob;
  CqLaneWorker worker;
  const CqVal *pMax;              /* max_reclaims, if given */
  CqRows *pRows;
  i64 iGrant;                     /* The newest grant */
  int eStmt;                      /* What is to be written; op.nWrite says if */
};

/*
** Judge the newest grant.  Returns the outcome if that settles it, else 0.
*/
static const char *cqReclaimGrant(CqOp *p, CqReclaim *pR){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_LANE_GRANT_NEWEST);
  const char *zOutcome = 0;
  p->nWrite = 0;
  claimqBindInt(p, pStmt, 1, pR->iJob);
  if( !claimqStep(p, pStmt) ){
    zOutcome = "grant_not_found";
  }else{
    pR->iGrant = sqlite3_column_int64(pStmt, 0);
    if( !claimqLeaseLive(sqlite3_column_int64(pStmt, 2), claimqNow(p)) ){
      zOutcome = "grant_not_found";
      pR->eStmt = CQ_SQL_LANE_GRANT_DELETE;
      p->nWrite = 1;
    }else if( !claimqTextEq(claimqColumnText(p, pStmt, 1),
                            pR->worker.owner) ){
      zOutcome = "wrong_owner";
    }
  }
  claimqStmtDone(p, CQ_SQL_LANE_GRANT_NEWEST, pStmt);
  return zOutcome;
}

/*
** The grant is good: is the job to be had?  Returns the outcome.
*/
static const char *cqReclaimJob(CqOp *p, CqReclaim *pR){
  CqLaneState s;
  i64 nMax;
  cqLaneStateLoad(p, pR->iJob, &s);
  if( !s.bActive || s.bLive ) return "not_reclaimable";
  nMax = pR->pMax->bGiven ? pR->pMax->i : s.nMaxReclaim;
  p->nWrite = 1;
  if( s.nReclaim>=nMax ){
    pR->eStmt = CQ_SQL_LANE_RECLAIM_CAP;
    return "reclaim_cap_exceeded";
  }
  pR->eStmt = CQ_SQL_LANE_RECLAIM;
  return "claimed";
}

static void cqReclaimLoad(CqOp *p, void *pCtx){
  CqReclaim *pR = (CqReclaim*)pCtx;
  const char *zOutcome = cqReclaimGrant(p, pR);
  CqCell *a = claimqRowsAdd(p, pR->pRows);
  if( p->rc==SQLITE_OK && zOutcome==0 ) zOutcome = cqReclaimJob(p, pR);
  if( p->rc ) return;
  claimqCellText(p, pR->pRows, &a[0], claimqStr(zOutcome));
  if( p->nWrite && pR->eStmt==CQ_SQL_LANE_RECLAIM ){
    CqLease lease;
    cqLaneCellsById(p, pR->pRows, &a[1], pR->iJob, &pR->worker, &lease);
  }
}

static void cqReclaimApply(CqOp *p, void *pCtx){
  CqReclaim *pR = (CqReclaim*)pCtx;
  sqlite3_stmt *pStmt = claimqStmt(p, pR->eStmt);
  if( pR->eStmt==CQ_SQL_LANE_GRANT_DELETE ){
    claimqBindInt(p, pStmt, 1, pR->iGrant);
  }else{
    claimqBindInt(p, pStmt, 1, pR->iJob);
    cqLaneBindWorker(p, pStmt, &pR->worker);
    claimqBindInt(p, pStmt, 6, pR->iGrant);
  }
  claimqExec(p, pR->eStmt, pStmt);
}

static void cqReclaimFill(
  CqOp *p, const CqVal *aArg, i64 nLimit, CqRows *pRows
){
  static const CqTask task = { cqReclaimLoad, cqReclaimApply, 0 };
  CqReclaim r;
  if( CQ_NEVER(nLimit==0) ) return;   /* SQLite runs nothing for LIMIT 0 */
  memset(&r, 0, sizeof(r));
  r.iJob = aArg[0].i;
  r.worker.owner = aArg[1].t;
  r.worker.iTtl = aArg[2].i;
  r.worker.incarnation = aArg[3].t;
  r.pMax = &aArg[4];
  r.pRows = pRows;
  claimqRun(p, &task, &r);
}

/**************************************************************************
** The descriptor
*/
CQ_PRIV const CqDiscipline *claimqLaneDiscipline(void){
  static const CqTableDef aTable[] = {
    { "claimq_lane", CQ_L_COLS, "-priority created_at_ms job_id", cqLaneArg,
      sizeof(cqLaneArg)/sizeof(cqLaneArg[0]), 1, 1, cqLaneFill },
    { "claimq_reclaim", "outcome:t " CQ_L_COLS, "outcome", cqReclaimArg,
      sizeof(cqReclaimArg)/sizeof(cqReclaimArg[0]), 1, 1, cqReclaimFill },
  };
  static const CqFuncDef aFunc[] = {
    { "claimq_submit", "(lane, payload [, option, value]...)", 2, -1,
      CQ_F_INSERT, cqSubmitFunc },
    { "claimq_revoke", "(job_id [, option, value]...)", 1, -1,
      CQ_F_WRITE, cqRevokeFunc },
    { "claimq_grant", "(job_id, owner_id, ttl_ms [, option, value]...)", 3, -1,
      CQ_F_WRITE, cqGrantFunc },
  };
  static const CqDiscipline lane = {
    "lane", "qjc", aTable, sizeof(aTable)/sizeof(aTable[0]),
    cqLaneOpt, sizeof(cqLaneOpt)/sizeof(cqLaneOpt[0]),
    aFunc, sizeof(aFunc)/sizeof(aFunc[0]), cqLaneVerbRun,
    CQ_T_INT, cqLaneCancel
  };
  return &lane;
}
