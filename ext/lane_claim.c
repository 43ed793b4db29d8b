/*
** lane_claim.c: how a claim of a lane chooses jobs, and stamps them.
**
** Jobs stand in one index by (lane, partition, set of required capabilities,
** due), and within the ready ones (due = -1) in claim order.  A claim looks at
** the sets of its lane, keeps those its worker satisfies, and reads the head
** of each, keeping the best max_jobs keys seen so far.  A set is left at the
** first ready job that is no better than all of these, so a set costs one
** seek, and jobs of sets that the worker does not satisfy cost nothing,
** however many they are.  Jobs that became due but were not promoted yet (see
** sql/schema.sql) are in no order: all of them are looked at, and promoted if
** they are many.  Jobs among the ready ones that are not claimable, mostly
** because others hold them, are passed over, and moved out of the way if they
** are many.
**
** What the sets cost: test/lane_cost.test holds a claim to less than 200 steps
** of SQLite's machine, 6 more for each set of the lane and partition if its
** worker has any capabilities, and 75 more for each set that it satisfies.  So
** thousands of sets are fine, but a set for every job is not: give such jobs
** lanes or partitions.
**
** Each job is a claim of its own, with a lease of its own, which is derived
** here and nowhere else.  New jobs are stamped one by one; a statement that
** stamps several others reads the leases from the list of jobs (see
** vtab/id_list.c).
*/
#include "lane.h"

typedef char CqCheckLane[sizeof(CqLane)<=sizeof(CqOwn) ? 1 : -1];

static CqLane *cqLaneOwn(CqClaim *pC){
  return (CqLane*)&pC->own;
}

CQ_PRIV void claimqLaneArgs(CqOp *p, CqClaim *pC){
  const CqVal *pCaps = &pC->aArg[CQ_LANE_CAPS];
  if( pCaps->bGiven ) claimqLaneCaps(p, pCaps->t, &cqLaneOwn(pC)->offered);
}

/*
** xDone: free what the claim has collected.
*/
CQ_PRIV void claimqLaneDone(CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  claimqIdsClear(&pL->sets);
  claimqIdsClear(&pL->spent);
  claimqIdsClear(&pL->passed);
  claimqIdsClear(&pL->late);
  claimqLimitFree(pL->pLimit);
  sqlite3_free(pL->aPick);
  sqlite3_free(pL->offered.a);
}

/**************************************************************************
** Choosing jobs
*/

/*
** The place of a key among the picks: before all that go after it.
*/
static int cqLanePlace(const CqLane *pL, const CqJobKey *pKey){
  int iLow = 0, iHigh = pL->nPick;
  if( iHigh && claimqJobCompare(&pL->aPick[iHigh-1], pKey)<0 ) return iHigh;
  while( iLow<iHigh ){
    int iMid = (iLow + iHigh)/2;
    if( claimqJobCompare(&pL->aPick[iMid], pKey)<0 ) iLow = iMid+1;
    else iHigh = iMid;
  }
  return iLow;
}

/*
** Put a key at place i; the last one falls out if there are nMax.  Changes
** nothing if there is no memory.
*/
static void cqLanePick(
  CqOp *p, CqLane *pL, i64 nMax, int i, const CqJobKey *pKey
){
  assert( p->rc || (i>=0 && i<=pL->nPick && i<nMax) );
  if( pL->nPick>=nMax ){
    pL->nPick--;
  }else if( pL->nPick>=pL->nPickAlloc ){
    int nNew = pL->nPickAlloc ? pL->nPickAlloc*2 : 16;
    CqJobKey *aNew = claimqRealloc(p, pL->aPick, nNew*(i64)sizeof(*aNew));
    if( aNew==0 ) return;
    pL->aPick = aNew;
    pL->nPickAlloc = nNew;
  }
  memmove(&pL->aPick[i+1], &pL->aPick[i],
          (size_t)(pL->nPick-i)*sizeof(*pKey));
  pL->aPick[i] = *pKey;
  pL->nPick++;
}

/* For sqlite3_bind_pointer(): the CqLane of the claim in progress. */
#define CQ_LANE_TYPE "claimq-lane"

/*
** claimq_judge(who, job_id, due, available_at_ms, active, auto, expires_at_ms,
** reclaim_count, max_reclaims): 1 if the job is claimable.  Others are noted if
** that is useful: those that are spent, to fail; those that were passed over
** before anything was found, to be moved.  claimq_judge(who): a schedule of the
** lane is due.  Called by anybody else the function does nothing.
**
** The statements that look for jobs ask here, and do not hand over every job:
** so one that is passed over costs a third less.
*/
CQ_PRIV void claimqLaneJudge(CqOp *p, CqCall *pCall){
  sqlite3_value **ap = pCall->apVal;
  CqLane *pL;
  CqJobState job;
  CqIds *pIds = 0;
  int eWhy, bDue;
  if( pCall->nVal!=9 && pCall->nVal!=1 ) return;
  pL = (CqLane*)sqlite3_value_pointer(ap[0], CQ_LANE_TYPE);
  if( pL==0 ) return;
  if( pCall->nVal==1 ){
    pL->bScheduled = 1;
    return;
  }
  bDue = sqlite3_value_int64(ap[2])>=0;
  job.iAvailable = sqlite3_value_int64(ap[3]);
  job.bActive = (u8)sqlite3_value_int(ap[4]);
  job.bAuto = (u8)sqlite3_value_int(ap[5]);
  job.iExpires = sqlite3_value_int64(ap[6]);
  job.nReclaim = sqlite3_value_int64(ap[7]);
  job.nMaxReclaim = sqlite3_value_int64(ap[8]);
  eWhy = claimqJobWhy(&job, pL->iNow);
  sqlite3_result_int(pCall->pCtx, eWhy==CQ_WHY_CLAIMABLE);
  if( eWhy==CQ_WHY_CLAIMABLE ) return;
  if( bDue ) pL->nDue++;
  if( eWhy==CQ_WHY_RECLAIMS ) pIds = &pL->spent;
  else if( !bDue && !pL->bFound ) pIds = &pL->passed;
  if( pIds && pIds->n<CQ_DUE_MOST ){
    claimqIdsAdd(p, pIds, sqlite3_value_int64(ap[1]));
  }
}

/*
** Pick the job that pJob, LANE_READY or LANE_DUE, stands on, if there is room.
** Returns 0 if there is none for one that goes after it.
*/
static int cqLaneOffer(CqOp *p, CqClaim *pC, const CqStmt *pJob){
  CqLane *pL = cqLaneOwn(pC);
  CqJobKey key;
  int i;
  assert( pJob->eStmt==CQ_SQL_LANE_READY || pJob->eStmt==CQ_SQL_LANE_DUE );
  pL->bFound = 1;
  if( claimqColInt(pJob, CQ_COL_LANE_READY_due)>=0 ) pL->nDue++;
  key.iJob = claimqColInt(pJob, CQ_COL_LANE_READY_job_id);
  key.iPriority = claimqColInt(pJob, CQ_COL_LANE_READY_priority);
  key.iCreated = claimqColInt(pJob, CQ_COL_LANE_READY_created_at_ms);
  i = cqLanePlace(pL, &key);
  if( i>=pC->nMax ) return 0;
  cqLanePick(p, pL, pC->nMax, i, &key);
  return i+1<pC->nMax;
}

/*
** Add the sets that the worker satisfies.  A set that somebody corrupted is
** satisfied by nobody.
*/
static void cqLaneSets(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  CqStmt s = claimqStmt(p, pL->bGate ? CQ_SQL_LANE_SETS_GATED
                                     : CQ_SQL_LANE_SETS);
  claimqBindText(p, &s, CQ_LANE_SETS_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_SETS_partition, pC->aArg[CQ_LANE_PARTITION].i);
  if( pL->bGate ){
    claimqBindPointer(p, &s, CQ_LANE_SETS_who, pL, CQ_LANE_TYPE);
    claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
    pL->bGate = 0;
  }
  while( claimqStep(p, &s) ){
    CqText required = claimqColText(p, &s, CQ_COL_LANE_SETS_required);
    if( claimqCapsMeet(required, pL->offered.a, pL->offered.n) ){
      claimqIdsAdd(p, &pL->sets, claimqColInt(&s, CQ_COL_LANE_SETS_cap_id));
    }
  }
  claimqStmtDone(p, &s);
}

/*
** Take LANE_READY or LANE_DUE, for the sets of the claim's lane; its set is not
** bound yet.  The caller gives it back.
*/
static CqStmt cqLaneStmt(CqOp *p, CqClaim *pC, int eStmt){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_LANE_READY_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_READY_partition, pC->aArg[CQ_LANE_PARTITION].i);
  claimqBindPointer(p, &s, CQ_LANE_READY_who, cqLaneOwn(pC), CQ_LANE_TYPE);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  return s;
}

/*
** Look at all jobs of a set that waited and became due.
*/
static void cqLaneOfferDue(CqOp *p, CqClaim *pC, i64 iSet){
  CqStmt due = cqLaneStmt(p, pC, CQ_SQL_LANE_DUE);
  claimqBindInt(p, &due, CQ_LANE_READY_set, iSet);
  while( claimqStep(p, &due) ) cqLaneOffer(p, pC, &due);
  claimqStmtDone(p, &due);
}

/*
** Look at the ready jobs of a set, as far as needed, and at all that are due;
** note what upkeep it needs.  pReady is LANE_READY.
*/
static void cqLaneOfferSet(CqOp *p, CqClaim *pC, CqStmt *pReady, i64 iSet){
  CqLane *pL = cqLaneOwn(pC);
  int nPassed = pL->passed.n;
  assert( p->rc || pReady->eStmt==CQ_SQL_LANE_READY );
  pL->bFound = 0;
  pL->nDue = 0;
  claimqBindInt(p, pReady, CQ_LANE_READY_set, iSet);
  while( claimqStep(p, pReady) ){
    if( !cqLaneOffer(p, pC, pReady)
     && claimqColInt(pReady, CQ_COL_LANE_READY_due)<0
    ){
      if( claimqColInt(pReady, CQ_COL_LANE_READY_waited) ){
        cqLaneOfferDue(p, pC, iSet);
      }
      break;
    }
  }
  claimqStmtReset(pReady);
  if( pL->passed.n<=nPassed+CQ_PASS_FEW ) pL->passed.n = nPassed;
  if( pL->nDue>=CQ_DUE_FEW ) claimqIdsAdd(p, &pL->late, iSet);
}

/*
** The usual case: the worker satisfies set 0 alone, and no job waited.  Then
** the jobs come in the order in which it gets them, and are taken as they come.
** (To pick them first and to read them again makes a claim and its complete
** 4 % longer.)  Returns 0 if some waited: then nothing is taken.
*/
static int cqLaneStraight(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  CqStmt s = claimqStmt(p, pL->bGate ? CQ_SQL_LANE_HEAD_GATED
                                     : CQ_SQL_LANE_HEAD);
  int bStraight = 1;
  claimqBindText(p, &s, CQ_LANE_HEAD_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_HEAD_partition, pC->aArg[CQ_LANE_PARTITION].i);
  claimqBindPointer(p, &s, CQ_LANE_HEAD_who, pL, CQ_LANE_TYPE);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  pL->bFound = 0;
  while( bStraight && pC->pRows->nRow<pC->nMax && claimqStep(p, &s) ){
    pL->bFound = 1;
    bStraight = !claimqColInt(&s, CQ_COL_LANE_HEAD_waited);
    if( bStraight ){
      CqCell *a = claimqRowsAdd(p, pC->pRows);
      if( a ) pL->bNew &= (u8)claimqLaneRow(p, pC, &s, a);
    }
  }
  claimqStmtDone(p, &s);
  pL->bGate = 0;
  if( !bStraight ) pL->passed.n = pL->spent.n = 0;
  if( pL->passed.n<=CQ_PASS_FEW ) pL->passed.n = 0;
  return bStraight;
}

/*
** Pick the best jobs of all sets that the worker satisfies.
*/
static void cqLaneChoose(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  CqStmt ready = cqLaneStmt(p, pC, CQ_SQL_LANE_READY);
  int i;
  cqLaneOfferSet(p, pC, &ready, 0);
  for(i=0; i<pL->sets.n && p->rc==SQLITE_OK; i++){
    cqLaneOfferSet(p, pC, &ready, pL->sets.a[i]);
  }
  claimqStmtDone(p, &ready);
}

/*
** The best jobs of one set, for a lane that keeps groups.  0 after an error.
*/
CQ_PRIV int claimqLaneBest(
  CqOp *p, CqClaim *pC, i64 iSet, i64 nMax, const CqJobKey **pa
){
  CqLane *pL = cqLaneOwn(pC);
  CqStmt ready = cqLaneStmt(p, pC, CQ_SQL_LANE_READY);
  i64 nSaved = pC->nMax;
  assert( nMax>0 && pL->pLimit!=0 );
  pL->nPick = 0;
  pC->nMax = nMax;
  cqLaneOfferSet(p, pC, &ready, iSet);
  claimqStmtDone(p, &ready);
  pC->nMax = nSaved;
  *pa = pL->aPick;
  return pL->nPick;
}

/*
** Pick these jobs instead of those picked before.
*/
CQ_PRIV void claimqLanePicks(CqOp *p, CqClaim *pC, const CqOffer *a, int n){
  CqLane *pL = cqLaneOwn(pC);
  int i;
  pL->nPick = 0;
  for(i=0; i<n; i++) cqLanePick(p, pL, n, i, &a[i].key);
}

/**************************************************************************
** The rows
*/

/*
** One more; unless somebody corrupted the row, this is an integer.
*/
static void cqLaneOneMore(CqCell *pCell){
  if( pCell->eType==SQLITE_INTEGER ) pCell->u.i = claimqAddSat(pCell->u.i, 1);
}

/*
** Make the lease of the job that pJob stands on (LANE_HEAD or LANE_JOB), and
** write from a[0] on the job's columns, as they will be once it is claimed, and
** the claim's.  Returns 1 if the job is new: nobody holds it, and it stands
** among the ready ones.
*/
CQ_PRIV int claimqLaneRow(CqOp *p, CqClaim *pC, const CqStmt *pJob, CqCell *a){
  i64 iJob = claimqColInt(pJob, CQ_COL_LANE_HEAD_job_id);
  int bNew = claimqColInt(pJob, CQ_COL_LANE_HEAD_place)<0;
  int bActive = !bNew
      && claimqColType(pJob, CQ_COL_LANE_HEAD_place)==SQLITE_NULL;
  CqText none = {0, 0};
  assert( pJob->eStmt==CQ_SQL_LANE_HEAD || pJob->eStmt==CQ_SQL_LANE_JOB
       || pJob->eStmt==CQ_SQL_LANE_HEAD_GATED );
  assert( a!=0 );
  claimqCellColumns(p, pC->pRows, a, pJob, CQ_LANE_NCOL);
  claimqCellInt(&a[CQ_COL_LANE_HEAD_job_id], iJob);      /* For cqLaneIds() */
  if( bActive && p->rc==SQLITE_OK ){
    cqLaneOneMore(&a[CQ_COL_LANE_HEAD_attempt_index]);
    cqLaneOneMore(&a[CQ_COL_LANE_HEAD_reclaim_count]);
  }
  claimqLeaseMake(p, &pC->lease, pC, iJob,
      claimqColInt(pJob, CQ_COL_LANE_HEAD_fencing_token),
      pJob->eStmt!=CQ_SQL_LANE_JOB ? pC->aArg[CQ_LANE_LANE].t
      : claimqColText(p, pJob, CQ_COL_LANE_HEAD_lane_id));
  claimqLeaseCells(p, pC->pRows, &a[CQ_LANE_NCOL], &pC->lease,
      bActive ? claimqColText(p, pJob, CQ_COL_LANE_HEAD_claim_id) : none,
      claimqColInt(pJob, CQ_COL_LANE_HEAD_attempts));
  return bNew;
}

/*
** If the job is gone, somebody was faster: the claim is stale.
*/
CQ_PRIV int claimqLaneRowOf(
  CqOp *p, CqClaim *pC, CqStmt *pJob, CqCell *a, i64 iJob
){
  int bNew = 0;
  claimqBindInt(p, pJob, CQ_LANE_HEAD_job, iJob);
  if( claimqStep(p, pJob) ) bNew = claimqLaneRow(p, pC, pJob, a);
  else claimqStale(p, &pC->task);
  claimqStmtReset(pJob);
  return bNew;
}

/*
** The columns of the claim are those of the first answer, but expires_at_ms,
** which is the present one.
*/
CQ_PRIV CqCell *claimqLaneKept(
  CqOp *p, CqClaim *pC, CqText claimId, int iCol
){
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_KEPT);
  i64 iHead = -1, iFence = -1;
  CqCell *a = 0;
  claimqClaimIdParse(claimId, pC->pDef->zPrefix, &iHead, &iFence);
  claimqBindCommonInt(p, &s, CQ_P_head, iHead);
  claimqBindCommonText(p, &s, CQ_P_claim, claimId);
  if( claimqStep(p, &s) && (a = claimqRowsAdd(p, pC->pRows))!=0 ){
    CqCell *aClaim = &a[iCol+CQ_LANE_NCOL];
    int i;
    for(i=0; i<CQ_LANE_NCOL; i++){
      claimqCellColumn(p, pC->pRows, &a[iCol+i], &s, i);
    }
    claimqLeaseKept(p, pC->pRows, aClaim, &s, CQ_COL_LANE_KEPT_claim_id, iFence,
        claimqColInt(&s, CQ_COL_LANE_KEPT_attempts)-1);
    claimqCellColumn(p, pC->pRows, &aClaim[CQ_CLAIM_PREVIOUS], &s,
                     CQ_COL_LANE_KEPT_previous_claim_id);
  }
  claimqStmtDone(p, &s);
  return a;
}

/*
** The answer to a repeated request: the job of one of the claims, if it holds.
*/
CQ_PRIV void claimqLaneRows(CqOp *p, CqClaim *pC, CqText claimId){
  claimqLaneKept(p, pC, claimId, 0);
}

/*
** The rows of what was picked, in order.
*/
static void cqLaneRows(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  CqStmt job;
  int i;
  assert( pC->pRows->nRow==0 || p->rc );
  if( pL->nPick==0 ) return;
  job = claimqStmt(p, CQ_SQL_LANE_JOB);
  for(i=0; i<pL->nPick && p->rc==SQLITE_OK; i++){
    CqCell *a = claimqRowsAdd(p, pC->pRows);
    if( a ){
      pL->bNew &= (u8)claimqLaneRowOf(p, pC, &job, a, pL->aPick[i].iJob);
    }
  }
  claimqStmtDone(p, &job);
}

/*
** The list of all that will be written: the rows with their leases, then what
** is spent, without.
*/
static void cqLaneIds(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  int i;
  assert( pC->ids.n==0 );
  for(i=0; i<pC->pRows->nRow && p->rc==SQLITE_OK; i++){
    claimqIdsAdd(p, &pC->ids,
                 claimqRow(pC->pRows, i)[CQ_COL_LANE_HEAD_job_id].u.i);
  }
  for(i=0; i<pL->spent.n; i++) claimqIdsAdd(p, &pC->ids, pL->spent.a[i]);
  pC->ids.pRows = pC->pRows;
  pC->ids.iLease = CQ_LANE_NCOL;
}

/*
** Is a schedule of the lane due?  A lane with limits is asked in a statement of
** its own, because the limits may let nothing else be read.  In every other the
** first statement that reads the lane also tells this, by bScheduled: to look
** for schedules costs lanes that have none one seek and no statement.
*/
static void cqLaneGate(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  pL->bScheduled = 0;
  pL->bGate = !pL->bPut && (claimqSettings(p) & CQ_SET_SCHEDULES)!=0;
  if( pL->bGate && pL->pLimit ){
    pL->bGate = 0;
    pL->bScheduled = (u8)claimqScheduleDue(p, pC->aArg[CQ_LANE_LANE].t);
  }
}

/*
** Choose, and build the rows.  Jobs that stay in their place must not be very
** many (CQ_STAY_MOST), and those that are spent do not stay.  If a schedule is
** due nothing is chosen yet: claimqLaneStamp() puts its job first.
*/
CQ_PRIV void claimqLaneNext(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  i64 nMax = pC->nMax;
  int nJob, bTidy;
  pL->nPick = pL->sets.n = pL->spent.n = pL->passed.n = pL->late.n = 0;
  pL->bNew = 1;
  pL->bBack = 0;
  pL->iNow = claimqNow(p);
  claimqLimitBegin(p, pC);
  cqLaneGate(p, pC);
  if( pL->offered.n && !pL->bScheduled ) cqLaneSets(p, pC);
  if( pC->nMax>0 && !pL->bScheduled ){
    if( pL->pLimit && pL->pLimit->bGroups ){
      claimqLimitChoose(p, pC);
      cqLaneRows(p, pC);
    }else if( pL->sets.n || !cqLaneStraight(p, pC) ){
      cqLaneChoose(p, pC);
      cqLaneRows(p, pC);
    }
  }
  if( pL->bScheduled ){
    assert( pC->pRows->nRow==0 && pL->spent.n==0 );
    pC->task.eNeed = CQ_NEED_UNDO;
    pC->nMax = nMax;
    return;
  }
  assert( p->rc || !pL->bGate );
  assert( p->rc || pC->pRows->nRow==0 || pC->pRows->nRow<=pC->nMax );
  nJob = pC->pRows->nRow + pL->spent.n;
  if( pL->spent.n || nJob>CQ_STAY_MOST || pL->pLimit ) pL->bNew = 0;
  if( !pL->bNew ) cqLaneIds(p, pC);
  bTidy = pL->passed.n || pL->late.n
       || (pL->pLimit && (pL->pLimit->late.n || pL->pLimit->wrong.n));
  pL->bBack = nMax>0 && pL->pLimit && pL->pLimit->bBack;
  pC->task.eNeed = nJob==0 ? (pL->bBack ? CQ_NEED_ONE : CQ_NEED_NOTHING)
                 : pL->bBack ? CQ_NEED_UNDO
                 : bTidy ? CQ_NEED_TIDY
                 : nJob==1 ? CQ_NEED_ONE : CQ_NEED_UNDO;
  pC->nMax = nMax;
}

/*
** When a job of a set will be claimable that is not now.  CQ_NO_TIME also after
** an error.
*/
CQ_PRIV i64 claimqLaneLater(CqOp *p, CqClaim *pC, i64 iSet){
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_LATER);
  claimqBindText(p, &s, CQ_LANE_LATER_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_LATER_partition, pC->aArg[CQ_LANE_PARTITION].i);
  claimqBindInt(p, &s, CQ_LANE_LATER_set, iSet);
  claimqBindInt(p, &s, CQ_LANE_LATER_now, claimqNow(p));
  claimqBindInt(p, &s, CQ_LANE_LATER_limit, CQ_LOOK_ROWS);
  return claimqLookLater(p, &s);
}

/*
** When a claim could succeed: now, or when a job of a set that the worker
** satisfies falls due or a lease ends, or a schedule is due: to put its job is
** work for any worker of the lane.
*/
CQ_PRIV i64 claimqLaneNextAt(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  i64 iAt = CQ_NO_TIME, iOpens = 0, iPut;
  int i;
  if( claimqLookTakes(p, pC) ) return claimqNow(p);
  iPut = claimqScheduleNext(p, pC->aArg[CQ_LANE_LANE].t);
  if( iPut!=CQ_NO_TIME && iPut<=claimqNow(p) ) return claimqNow(p);
  if( pL->pLimit && pL->pLimit->room.nRoom==0 ){
    if( pL->pLimit->room.eWhy==CQ_LIMIT_PAUSED ) return iPut;
    iOpens = pL->pLimit->room.iNext;
    pL->bFree = 1;
    if( claimqLookTakes(p, pC) ) return claimqSooner(iPut, iOpens);
  }
  for(i=-1; i<pL->sets.n && p->rc==SQLITE_OK; i++){
    i64 iSet = i<0 ? 0 : pL->sets.a[i];
    iAt = claimqSooner(iAt, claimqLaneLater(p, pC, iSet));
    iAt = claimqSooner(iAt, claimqLimitLater(p, pC, iSet));
  }
  if( iAt!=CQ_NO_TIME && iAt<iOpens ) iAt = iOpens;
  return claimqSooner(iPut, iAt);
}

/*
** 1 if the worker satisfies set iSet.
*/
static int cqLaneHasSet(const CqLane *pL, i64 iSet){
  int i;
  for(i=0; i<pL->sets.n && pL->sets.a[i]!=iSet; i++){}
  return iSet==0 || i<pL->sets.n;
}

/*
** The detail of reason capability: what the worker lacks for this job.
*/
static void cqLaneLacks(
  CqOp *p, const CqLane *pL, CqRows *pRows, CqCell *pCell, CqText required
){
  char *z = claimqMalloc(p, (i64)required.n+2);
  CqText t;
  if( z==0 ) return;
  t.z = z;
  t.n = claimqCapsMissing(required, pL->offered.a, pL->offered.n, z);
  if( t.n ) claimqCellText(p, pRows, pCell, t);
  sqlite3_free(z);
}

/*
** Why the job that pJob, LANE_WHY, stands on is not claimed, and until when
** that will be so at least; CQ_NO_TIME if time alone does not change it.
*/
static int cqLaneWhyJob(CqOp *p, CqClaim *pC, const CqStmt *pJob, i64 *piUntil){
  CqJobState job;
  int eWhy;
  *piUntil = CQ_NO_TIME;
  if( claimqColInt(pJob, CQ_COL_LANE_WHY_partition_key)
      !=pC->aArg[CQ_LANE_PARTITION].i ){
    return CQ_WHY_PARTITION;
  }
  if( !cqLaneHasSet(cqLaneOwn(pC), claimqColInt(pJob,
          CQ_COL_LANE_WHY_cap_id)) ){
    return CQ_WHY_CAPABILITY;
  }
  if( claimqColInt(pJob, CQ_COL_LANE_WHY_blocked) ) return CQ_WHY_BLOCKED;
  job.iAvailable = claimqColInt(pJob, CQ_COL_LANE_WHY_available_at_ms);
  job.bActive = (u8)claimqColInt(pJob, CQ_COL_LANE_WHY_active);
  job.bAuto = (u8)claimqColInt(pJob, CQ_COL_LANE_WHY_auto);
  job.iExpires = claimqColInt(pJob, CQ_COL_LANE_WHY_expires_at_ms);
  job.nReclaim = claimqColInt(pJob, CQ_COL_LANE_WHY_reclaim_count);
  job.nMaxReclaim = claimqColInt(pJob, CQ_COL_LANE_WHY_max_reclaims);
  eWhy = claimqJobWhy(&job, claimqNow(p));
  *piUntil = claimqWhyUntil(eWhy, job.iAvailable, job.iExpires);
  return eWhy;
}

/*
** The job is claimable, but for the limits of its lane and its group.  Returns
** the reason; *pzDetail names the limit.
*/
static int cqLaneWhyLimit(
  CqOp *p, CqLane *pL, const CqStmt *pJob, i64 *piUntil, const char **pzDetail
){
  static const char *const az[][2] = {
    { 0, 0 },
    { 0, 0 },
    { "max_active", "group_max_active" },
    { "rate", "group_rate" },
  };
  static const int aWhy[] = {
    CQ_WHY_CLAIMABLE, CQ_WHY_PAUSED, CQ_WHY_LIMIT, CQ_WHY_RATE
  };
  CqRoom room;
  if( pL->pLimit==0 ) return CQ_WHY_CLAIMABLE;
  claimqLimitJob(p, pL->pLimit, claimqColInt(pJob, CQ_COL_LANE_WHY_group_id),
                 &room);
  if( p->rc ) return CQ_WHY_CLAIMABLE;
  assert( room.eWhy<CQ_ARRAYSIZE(aWhy) );
  if( room.eWhy!=CQ_LIMIT_NONE && room.eWhy!=CQ_LIMIT_PAUSED ){
    *piUntil = room.iNext;
  }
  *pzDetail = az[room.eWhy][room.bGroup];
  if( room.eWhy==CQ_LIMIT_PAUSED ){
    const CqLimit *pLimit = room.bGroup ? &pL->pLimit->group : &pL->pLimit->own;
    *pzDetail = az[pLimit->nActive==0 ? CQ_LIMIT_ACTIVE
                                      : CQ_LIMIT_RATE][room.bGroup];
  }
  return aWhy[room.eWhy];
}

/*
** xWhy: each job of the lane that has not ended counts under its reason.
*/
CQ_PRIV void claimqLaneWhy(CqOp *p, CqClaim *pC, CqWhy *pWhy){
  CqLane *pL = cqLaneOwn(pC);
  CqStmt s;
  claimqLimitBegin(p, pC);
  if( pL->offered.n ) cqLaneSets(p, pC);
  s = claimqStmt(p, CQ_SQL_LANE_WHY);
  claimqBindText(p, &s, CQ_LANE_WHY_lane, pC->aArg[CQ_LANE_LANE].t);
  while( claimqStep(p, &s) ){
    i64 iUntil;
    const char *zDetail = 0;
    int eWhy = cqLaneWhyJob(p, pC, &s, &iUntil);
    CqCell *pDetail;
    if( eWhy==CQ_WHY_CLAIMABLE ){
      eWhy = cqLaneWhyLimit(p, pL, &s, &iUntil, &zDetail);
    }
    pDetail = claimqWhyAdd(p, pWhy, eWhy, 0,
        claimqColInt(&s, CQ_COL_LANE_WHY_job_id), iUntil);
    if( pDetail && zDetail ){
      claimqCellText(p, pWhy->pRows, pDetail, claimqStr(zDetail));
    }
    if( pDetail && eWhy==CQ_WHY_CAPABILITY ){
      cqLaneLacks(p, pL, pWhy->pRows, pDetail,
          claimqColText(p, &s, CQ_COL_LANE_WHY_required_capabilities));
    }else if( pDetail && eWhy==CQ_WHY_BLOCKED ){
      claimqLaneAfterWhy(p, pWhy->pRows, pDetail,
                         claimqColInt(&s, CQ_COL_LANE_WHY_job_id));
    }
  }
  claimqStmtDone(p, &s);
  claimqScheduleWhy(p, pC->aArg[CQ_LANE_LANE].t, pWhy);
}

/**************************************************************************
** Writing
*/

/*
** Jobs of a set that waited become ready, nMost at most.  Returns their number.
*/
CQ_PRIV i64 claimqLanePromote(CqOp *p, CqClaim *pC, i64 iSet, i64 nMost){
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_PROMOTE);
  assert( nMost>0 );
  claimqBindText(p, &s, CQ_LANE_PROMOTE_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_PROMOTE_partition,
                pC->aArg[CQ_LANE_PARTITION].i);
  claimqBindInt(p, &s, CQ_LANE_PROMOTE_set, iSet);
  claimqBindInt(p, &s, CQ_LANE_PROMOTE_limit, nMost);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  return claimqExec(p, &s);
}

/*
** Upkeep: jobs that were passed over go where they wait, and jobs that waited
** become ready, CQ_DUE_MOST of each at most.
*/
CQ_PRIV void claimqLaneTidy(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  i64 nMost = CQ_DUE_MOST;
  CqStmt s;
  int i;
  if( pL->passed.n ){
    s = claimqStmt(p, CQ_SQL_LANE_PARK);
    claimqBindIds(p, &s, CQ_LANE_PARK_ids, &pL->passed);
    claimqExec(p, &s);
  }
  for(i=0; i<pL->late.n && nMost>0; i++){
    nMost -= claimqLanePromote(p, pC, pL->late.a[i], nMost);
  }
  claimqLimitTidy(p, pC);
}

/*
** Put the jobs of schedules that are due, then choose.  The worker gets one of
** them if it comes first, and is one that the worker can run.
*/
static void cqLaneScheduled(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  assert( !pL->bPut && pC->pRows->nRow==0 );
  claimqSchedulePut(p, &pC->task, pC->aArg[CQ_LANE_LANE].t);
  if( p->rc ) return;
  pL->bPut = 1;
  claimqLaneNext(p, pC);
  if( pC->task.eNeed==CQ_NEED_TIDY && !pC->task.bAlone ) claimqLaneTidy(p, pC);
}

/*
** Stamp jobs that are all new, each with the lease that is in its row.  They
** stay where they are in the index: that is why they have a statement of their
** own.  (LANE_STAMP makes a claim of one and its complete half as long again.)
** If one of them was not as it was read the claim is stale, and what was
** stamped is undone.
*/
static void cqLaneStampNew(CqOp *p, CqClaim *pC){
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_STAMP_NEW);
  int i, bAll = 1;
  assert( pC->pRows->nRow>0 && pC->ids.n==0 );
  claimqBindCommonText(p, &s, CQ_P_owner, pC->owner);
  claimqBindCommonText(p, &s, CQ_P_incarnation, pC->incarnation);
  claimqBindCommonInt(p, &s, CQ_P_now, pC->lease.iNow);
  claimqBindCommonInt(p, &s, CQ_P_expires, pC->lease.iExpires);
  for(i=0; i<pC->pRows->nRow && p->rc==SQLITE_OK && bAll; i++){
    const CqCell *a = claimqRow(pC->pRows, i);
    const CqCell *aLease = &a[CQ_LANE_NCOL];
    assert( claimqCellGetText(&aLease[CQ_CLAIM_ID]).z!=0 );
    if( i>0 ) claimqStmtReset(&s);
    claimqBindCommonInt(p, &s, CQ_P_head, a[CQ_COL_LANE_HEAD_job_id].u.i);
    claimqBindCommonText(p, &s, CQ_P_claim,
                         claimqCellGetText(&aLease[CQ_CLAIM_ID]));
    claimqBindCommonText(p, &s, CQ_P_token,
                         claimqCellGetText(&aLease[CQ_CLAIM_TOKEN]));
    claimqBindInt(p, &s, CQ_LANE_STAMP_NEW_fence, aLease[CQ_CLAIM_FENCE].u.i);
    while( claimqStep(p, &s) ){}
    bAll = sqlite3_changes(p->db)==1;
  }
  claimqStmtDone(p, &s);
  if( p->rc==SQLITE_OK && !bAll ) claimqStale(p, &pC->task);
}

/*
** Stamp the jobs, after those of schedules that are due were put, and after it
** was written that the clock has gone back, if it has (bBack).
*/
CQ_PRIV void claimqLaneStamp(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  CqStmt s;
  if( pL->bScheduled ) cqLaneScheduled(p, pC);
  if( pL->bBack ) claimqLimitBack(p, pC);
  if( p->rc || pC->pRows->nRow+pL->spent.n==0 ) return;
  assert( pL->bNew || pC->ids.n==pC->pRows->nRow+pL->spent.n );
  if( pL->bNew ){
    cqLaneStampNew(p, pC);
    return;
  }
  if( pL->pLimit ){
    s = claimqStmt(p, CQ_SQL_LIMIT_STAMP);
    claimqBindInt(p, &s, CQ_LANE_STAMP_begun, pL->pLimit->nBegun);
  }else{
    s = claimqStmt(p, pL->spent.n ? CQ_SQL_LANE_STAMP_SPENT
                                  : CQ_SQL_LANE_STAMP);
  }
  claimqBindIds(p, &s, CQ_LANE_STAMP_ids, &pC->ids);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  claimqClaimStamp(p, pC, &s, pC->ids.n);
}
