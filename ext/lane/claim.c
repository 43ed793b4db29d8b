/*
** lane/claim.c: how a claim of a lane chooses jobs, and stamps them.
**
** Jobs stand in one index by (lane, partition, bucket, due), and within the
** ready ones (due = -1) in claim order.  A bucket is a set of jobs that require
** the same capabilities.  A claim looks at the sets of its lane, in all
** partitions or those it names, keeps those its worker satisfies, and reads the
** head of each, keeping the best max keys seen so far.  It leaves a set at the
** first ready job that is no better than all of these, so a set costs one seek,
** and jobs of sets that the worker does not satisfy cost nothing, however many
** there are.  Jobs that became due but were not promoted yet (see
** sql/schema/lane.sql) are in no order: a claim looks at all of them, and
** promotes them if there are many.  It passes over jobs among the ready ones
** that are not claimable, mostly because others hold them, and moves them out
** of the way if there are many.
**
** What the sets cost: test/lane_cost.test holds a claim to less than 300 steps
** of SQLite's machine, 25 more for each set of the lane and partition if its
** worker has any capabilities, and 60 more for each set that it satisfies.  So
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

/*
** Add a partition to those asked for, in order, each one once.
*/
static void cqLanePartition(CqOp *p, CqIds *pIds, i64 iPartition){
  int i = pIds->n;
  claimqIdsAdd(p, pIds, iPartition);
  if( p->rc ) return;
  for(; i>0 && pIds->a[i-1]>iPartition; i--) pIds->a[i] = pIds->a[i-1];
  pIds->a[i] = iPartition;
  if( i>0 && pIds->a[i-1]==iPartition ){
    memmove(&pIds->a[i], &pIds->a[i+1], (size_t)(pIds->n-i-1)*sizeof(i64));
    pIds->n--;
  }
}

/*
** Read argument partition: an integer, or TEXT that is a JSON array of 1 to
** CQ_MAX_PARTITION of them.  Raises bad_argument.
*/
static void cqLanePartitions(CqOp *p, const CqVal *pVal, CqIds *pIds){
  static const CqArgDef def = {
    CQ_ARG(INT, "partition"), .iMin = CQ_I64_MIN
  };
  CqText t = {0, 0};
  CqJson r;
  CqVal one;
  int e = CQ_JSON_ERROR, n = 0;
  i64 i;
  if( p->rc || !pVal->bGiven ) return;
  if( sqlite3_value_type(pVal->pVal)==SQLITE_TEXT ){
    t = claimqValueText(p, pVal->pVal);
  }
  claimqJsonInit(&r, t);
  if( t.z==0 || claimqJsonNext(&r)!=CQ_JSON_ARRAY ){
    claimqRead(p, &def, pVal->pVal, &one);
    if( p->rc==SQLITE_OK ) claimqIdsAdd(p, pIds, one.i);
    return;
  }
  while( p->rc==SQLITE_OK && (e = claimqJsonNext(&r))==CQ_JSON_NUMBER
      && claimqJsonInt(r.tok, &i) && n++<=CQ_MAX_PARTITION
  ){
    cqLanePartition(p, pIds, i);
  }
  if( p->rc==SQLITE_OK && (e!=CQ_JSON_CLOSE || claimqJsonNext(&r)!=CQ_JSON_END
   || n<1 || n>CQ_MAX_PARTITION)
  ){
    claimqFail(p, CQ_BAD_ARGUMENT, "partition must be an integer, or a JSON "
        "array of 1 to %d integers, such as [0,3]", CQ_MAX_PARTITION);
  }
}

CQ_PRIV void claimqLaneArgs(CqOp *p, CqClaim *pC){
  const CqVal *pCaps = &pC->aArg[CQ_LANE_CAPS];
  CqLane *pL = cqLaneOwn(pC);
  if( pCaps->bGiven ) claimqLaneCaps(p, pCaps->t, &pL->offered);
  cqLanePartitions(p, &pC->aArg[CQ_LANE_PARTITION], &pL->partitions);
}

/*
** Forget the sets.
*/
static void cqLaneNoSets(CqLane *pL){
  int i;
  for(i=0; i<pL->nText; i++) sqlite3_free(pL->azText[i]);
  pL->nText = pL->sets.n = pL->late.n = 0;
  pL->bSets = 0;
}

/*
** xDone: free what the claim has collected.
*/
CQ_PRIV void claimqLaneDone(CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  cqLaneNoSets(pL);
  sqlite3_free(pL->sets.a);
  sqlite3_free(pL->late.a);
  sqlite3_free(pL->azText);
  claimqIdsClear(&pL->partitions);
  claimqIdsClear(&pL->spent);
  claimqIdsClear(&pL->passed);
  claimqIdsClear(&pL->unsaid);
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

/*
** 1 if a job of the lane that does not say it itself may be taken without a
** grant.
*/
CQ_PRIV int claimqLaneOpen(CqClaim *pC){
  return cqLaneOwn(pC)->policy.a[CQ_POLICY_ADMISSION]!=1;
}

/*
** A job is passed over: one that is ready, and comes before anything was found,
** is noted, to be moved.
*/
static void cqLanePassed(CqOp *p, CqLane *pL, i64 iJob, int bDue){
  if( bDue ) pL->nDue++;
  else if( !pL->bFound ) claimqIdsNote(p, &pL->passed, iJob);
}

/*
** claimq__judge(who, job_id, due [, available_at_ms, active, auto,
** expires_at_ms, reclaim_count, max_reclaims]): 1 if the job is claimable.  One
** that nobody holds and that is due comes here only if a grant admits it; of
** one whose lease has not expired only the first three are given.  Those that
** are spent are noted, to fail, and those that a grant admits, to say so.
** Called by anybody else the function does nothing.
**
** The statements that look for jobs ask here, and do not hand over every job:
** so one that is passed over costs half.
*/
CQ_PRIV void claimqLaneJudge(CqOp *p, CqCall *pCall){
  sqlite3_value **ap = pCall->apVal;
  CqLane *pL;
  CqJobState job;
  i64 iJob;
  int eWhy, bDue, bTake;
  if( pCall->nVal!=9 && pCall->nVal!=3 ) return;
  pL = (CqLane*)sqlite3_value_pointer(ap[0], CQ_LANE_TYPE);
  if( pL==0 ) return;
  iJob = sqlite3_value_int64(ap[1]);
  bDue = sqlite3_value_int64(ap[2])>=0;
  if( pCall->nVal==3 ){
    cqLanePassed(p, pL, iJob, bDue);
    return;
  }
  job.iAvailable = sqlite3_value_int64(ap[3]);
  job.bActive = (u8)sqlite3_value_int(ap[4]);
  job.bAuto = (u8)sqlite3_value_int(ap[5]);
  job.iExpires = sqlite3_value_int64(ap[6]);
  job.nReclaim = sqlite3_value_int64(ap[7]);
  job.nMaxReclaim = sqlite3_value_type(ap[8])==SQLITE_NULL
      ? pL->policy.a[CQ_POLICY_RECLAIMS] : sqlite3_value_int64(ap[8]);
  eWhy = claimqJobWhy(&job, pL->iNow);
  bTake = eWhy==CQ_WHY_CLAIMABLE && job.bActive;
  sqlite3_result_int(pCall->pCtx, bTake);
  if( bTake ) return;
  if( eWhy==CQ_WHY_CLAIMABLE || eWhy==CQ_WHY_RECLAIMS ){
    if( bDue ) pL->nDue++;
    claimqIdsNote(p, eWhy==CQ_WHY_RECLAIMS ? &pL->spent : &pL->unsaid, iJob);
  }else{
    cqLanePassed(p, pL, iJob, bDue);
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

/**************************************************************************
** Sets: where a claim has to look
*/

/*
** Add a copy of a set to a list of them.  Changes nothing if there is no
** memory.
*/
CQ_PRIV void claimqSetsAdd(CqOp *p, CqSets *pSets, const CqSet *pSet){
  if( p->rc || !claimqGrow(p, (void**)&pSets->a, pSets->n, &pSets->nAlloc,
                           sizeof(CqSet)) ){
    return;
  }
  pSets->a[pSets->n++] = *pSet;
}

/*
** Add a set of kind eKind.  The text is copied, unless it is a constant.
*/
static void cqLaneAddSet(
  CqOp *p, CqLane *pL, i64 iPartition, int eKind, CqText bucket, int bConstant
){
  CqSet set;
  memset(&set, 0, sizeof(set));
  set.iPartition = iPartition;
  set.eKind = (u8)eKind;
  set.bucket = bucket;
  if( !bConstant ){
    char **azNew = claimqRealloc(p, pL->azText,
                                 (pL->nText+1)*(i64)sizeof(char*));
    if( azNew==0 ) return;
    pL->azText = azNew;
    set.bucket.z = azNew[pL->nText] = claimqTextDup(p, bucket);
    if( set.bucket.z ) pL->nText++;
  }
  claimqSetsAdd(p, &pL->sets, &set);
}

/*
** The next text after *pLast that a partition of the lane has: a bucket
** (LANE_NEXT_SET), or the capabilities of a head (LIMIT_NEXT_CAPS).  Returns 0
** if there is none.  The caller frees *pLast.
*/
static int cqLaneNextText(
  CqOp *p, CqClaim *pC, int eStmt, i64 iPartition, CqText *pLast
){
  CqStmt s = claimqStmt(p, eStmt);
  CqText t = {0, 0};
  int bMore = 0;
  claimqBindText(p, &s, CQ_LANE_NEXT_SET_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_NEXT_SET_partition, iPartition);
  claimqBindText(p, &s, CQ_LANE_NEXT_SET_set, *pLast);
  if( claimqStep(p, &s) ) t = claimqColText(p, &s, 0);
  if( t.z ){
    char *z = claimqTextDup(p, t);
    bMore = z!=0;
    sqlite3_free((char*)pLast->z);
    pLast->z = z;
    pLast->n = z ? t.n : 0;
  }
  claimqStmtDone(p, &s);
  return bMore;
}

/*
** The jobs of a set which is no list of capabilities (a plain INSERT wrote it):
** nobody can ever take them.  They fail, some at a time.
*/
static void cqLaneInvalid(
  CqOp *p, CqClaim *pC, i64 iPartition, CqText bucket
){
  CqLane *pL = cqLaneOwn(pC);
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_INVALID);
  claimqBindText(p, &s, CQ_LANE_INVALID_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_INVALID_partition, iPartition);
  claimqBindText(p, &s, CQ_LANE_INVALID_set, bucket);
  claimqBindInt(p, &s, CQ_LANE_INVALID_limit, CQ_INVALID_MOST-pL->spent.n);
  while( claimqStep(p, &s) ){
    claimqIdsAdd(p, &pL->spent, claimqColInt(&s, CQ_COL_LANE_INVALID_id));
  }
  claimqStmtDone(p, &s);
}

/*
** Add those sets of a partition that the worker satisfies, of the ones that
** stand in the index.
*/
static void cqLaneScan(CqOp *p, CqClaim *pC, i64 iPartition, int eStmt){
  CqLane *pL = cqLaneOwn(pC);
  int bGroups = pL->pLimit && pL->pLimit->bGroups;
  CqText t = {0, 0};
  t.z = claimqTextDup(p, claimqStr(""));
  while( p->rc==SQLITE_OK && cqLaneNextText(p, pC, eStmt, iPartition, &t) ){
    int bGroup = eStmt==CQ_SQL_LANE_NEXT_SET && t.z[0]=='g';
    CqText caps = t;
    caps.z += bGroup;
    caps.n -= bGroup;
    if( claimqCapsMeet(caps, pL->offered.a, pL->offered.n) ){
      cqLaneAddSet(p, pL, iPartition,
          eStmt!=CQ_SQL_LANE_NEXT_SET ? CQ_SET_HEADS
          : bGroup && bGroups ? CQ_SET_LOOSE : CQ_SET_JOBS, t, 0);
    }else if( eStmt==CQ_SQL_LANE_NEXT_SET && pL->spent.n<CQ_INVALID_MOST
           && claimqCapsCheck(caps)<0 ){
      cqLaneInvalid(p, pC, iPartition, t);
    }
  }
  sqlite3_free((char*)t.z);
}

/*
** 1 if a bucket of a partition has anything.
*/
static int cqLaneHas(CqOp *p, CqClaim *pC, i64 iPartition, const char *zBucket){
  CqSet set;
  CqStmt s;
  int bHas;
  memset(&set, 0, sizeof(set));
  set.iPartition = iPartition;
  set.bucket = claimqStr(zBucket);
  s = claimqStmt(p, CQ_SQL_LANE_ANY);
  claimqBindText(p, &s, CQ_LANE_ANY_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_ANY_partition, iPartition);
  claimqBindText(p, &s, CQ_LANE_ANY_set, set.bucket);
  bHas = claimqStep(p, &s);
  claimqStmtDone(p, &s);
  return bHas;
}

/*
** The sets of a partition that the worker satisfies.  One without capabilities
** needs not look which there are.
*/
static void cqLaneSetsOf(CqOp *p, CqClaim *pC, i64 iPartition){
  CqLane *pL = cqLaneOwn(pC);
  int bGroups = pL->pLimit && pL->pLimit->bGroups;
  if( pL->offered.n ){
    cqLaneScan(p, pC, iPartition, CQ_SQL_LANE_NEXT_SET);
    if( bGroups ) cqLaneScan(p, pC, iPartition, CQ_SQL_LIMIT_NEXT_CAPS);
    return;
  }
  cqLaneAddSet(p, pL, iPartition, CQ_SET_JOBS, claimqStr("[]"), 1);
  if( cqLaneHas(p, pC, iPartition, "g[]") ){
    cqLaneAddSet(p, pL, iPartition, bGroups ? CQ_SET_LOOSE : CQ_SET_JOBS,
                 claimqStr("g[]"), 1);
  }
  if( bGroups ){
    cqLaneAddSet(p, pL, iPartition, CQ_SET_HEADS, claimqStr("[]"), 1);
  }
}

/*
** The first partition of the lane from *piPartition on that has jobs, into
** *piPartition; 0 if there is none.
*/
static int cqLaneNextPartition(CqOp *p, CqClaim *pC, i64 *piPartition){
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_PARTITION);
  int bMore;
  claimqBindText(p, &s, CQ_LANE_PARTITION_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_PARTITION_partition, *piPartition);
  bMore = claimqStep(p, &s)
      && claimqColType(&s, CQ_COL_LANE_PARTITION_partition)!=SQLITE_NULL;
  if( bMore ){
    *piPartition = claimqColInt(&s, CQ_COL_LANE_PARTITION_partition);
  }
  claimqStmtDone(p, &s);
  return bMore;
}

/*
** The usual case in a lane that keeps groups: the worker has no capabilities,
** there is one partition, and all jobs stand with their groups.  Then there is
** one set: add it, and return 1.
*/
static int cqLaneHeads(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  CqStmt s;
  int bHeads;
  if( !pL->pLimit || !pL->pLimit->bGroups || pL->offered.n
   || pL->partitions.n
  ){
    return 0;
  }
  s = claimqStmt(p, CQ_SQL_LANE_LAST);
  claimqBindText(p, &s, CQ_LANE_LAST_lane, pC->aArg[CQ_LANE_LANE].t);
  bHeads = claimqStep(p, &s) && claimqColInt(&s, CQ_COL_LANE_LAST_heads);
  if( bHeads ){
    cqLaneAddSet(p, pL, claimqColInt(&s, CQ_COL_LANE_LAST_partition),
                 CQ_SET_HEADS, claimqStr("[]"), 1);
  }
  claimqStmtDone(p, &s);
  return bHeads;
}

/*
** Find all sets that the worker may take from, in the partitions that the claim
** asks for.
*/
static void cqLaneSets(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  i64 iPartition = CQ_I64_MIN;
  int i;
  if( pL->bSets ) return;
  pL->bSets = 1;
  if( cqLaneHeads(p, pC) ) return;
  for(i=0; i<pL->partitions.n && p->rc==SQLITE_OK; i++){
    cqLaneSetsOf(p, pC, pL->partitions.a[i]);
  }
  while( pL->partitions.n==0 && p->rc==SQLITE_OK ){
    if( !cqLaneNextPartition(p, pC, &iPartition) ){
      p->pConn->bIdle = iPartition==CQ_I64_MIN;
      break;
    }
    cqLaneSetsOf(p, pC, iPartition);
    if( iPartition==CQ_I64_MAX ) break;
    iPartition++;
  }
}

/*
** 1 if the lane has nothing.  That is asked only of a connection that found
** nothing when it last looked: a worker that polls.  Then it is all that there
** is to be asked, and makes an idle claim a third shorter.
*/
static int cqLaneEmpty(CqOp *p, CqClaim *pC){
  i64 iPartition = CQ_I64_MIN;
  if( !p->pConn->bIdle || cqLaneOwn(pC)->partitions.n ) return 0;
  p->pConn->bIdle = !cqLaneNextPartition(p, pC, &iPartition);
  return p->pConn->bIdle;
}

/*
** Bind the set of a statement like LANE_READY.
*/
static void cqLaneBindSet(CqOp *p, CqStmt *pS, const CqSet *pSet){
  claimqBindInt(p, pS, CQ_LANE_READY_partition, pSet->iPartition);
  if( pSet->iHead ) claimqBindInt(p, pS, CQ_LANE_READY_set, pSet->iHead);
  else claimqBindText(p, pS, CQ_LANE_READY_set, pSet->bucket);
}

/*
** Take LANE_READY or LANE_DUE, for the sets of the claim's lane; its set is not
** bound yet.  The caller gives it back.
*/
static CqStmt cqLaneStmt(CqOp *p, CqClaim *pC, int eStmt){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_LANE_READY_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindPointer(p, &s, CQ_LANE_READY_who, cqLaneOwn(pC), CQ_LANE_TYPE);
  claimqBindInt(p, &s, CQ_LANE_READY_open, claimqLaneOpen(pC));
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  return s;
}

/*
** The same for one set.
*/
static CqStmt cqLaneSetStmt(
  CqOp *p, CqClaim *pC, int eStmt, const CqSet *pSet
){
  CqStmt s = cqLaneStmt(p, pC, eStmt);
  cqLaneBindSet(p, &s, pSet);
  return s;
}

/**************************************************************************
** Looking at sets
*/

/*
** 1 if jobs of the set waited and became due.
*/
CQ_PRIV int claimqLaneWaited(CqOp *p, CqClaim *pC, const CqSet *pSet){
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_WAITED);
  int bWaited;
  claimqBindText(p, &s, CQ_LANE_READY_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  cqLaneBindSet(p, &s, pSet);
  bWaited = claimqStep(p, &s);
  claimqStmtDone(p, &s);
  return bWaited;
}

/*
** Look at all jobs of a set that waited and became due.
*/
static void cqLaneOfferDue(CqOp *p, CqClaim *pC, const CqSet *pSet){
  CqStmt due = cqLaneSetStmt(p, pC, CQ_SQL_LANE_DUE, pSet);
  while( claimqStep(p, &due) ) cqLaneOffer(p, pC, &due);
  claimqStmtDone(p, &due);
}

/*
** Look at the ready jobs of a set, as far as needed, and at all that are due;
** note what upkeep it needs.  pReady is LANE_READY.
*/
static void cqLaneOfferSet(
  CqOp *p, CqClaim *pC, CqStmt *pReady, const CqSet *pSet
){
  CqLane *pL = cqLaneOwn(pC);
  int nPassed = pL->passed.n;
  assert( p->rc || pReady->eStmt==CQ_SQL_LANE_READY );
  pL->bFound = 0;
  pL->nDue = 0;
  cqLaneBindSet(p, pReady, pSet);
  while( claimqStep(p, pReady) ){
    if( !cqLaneOffer(p, pC, pReady)
     && claimqColInt(pReady, CQ_COL_LANE_READY_due)<0
    ){
      if( claimqColInt(pReady, CQ_COL_LANE_READY_waited) ){
        cqLaneOfferDue(p, pC, pSet);
      }
      break;
    }
  }
  claimqStmtReset(pReady);
  if( pL->passed.n<=nPassed+CQ_PASS_FEW ) pL->passed.n = nPassed;
  if( pL->nDue>=CQ_DUE_FEW ) claimqSetsAdd(p, &pL->late, pSet);
}

/*
** The usual case: the worker has no capabilities, the lane has one partition
** and no groups, and no job waited.  Then the jobs come in the order in which
** it gets them, and are taken as they come.  (To pick them first and to read
** them again makes a claim and its complete 4 % longer.)  Returns 0 if that is
** not so, or if there is no job where these are looked for: then nothing is
** taken.
*/
static int cqLaneStraight(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  int bAll = pL->partitions.n==0, bStraight = 1;
  CqStmt s;
  if( pL->offered.n || pL->partitions.n>1 ) return 0;
  s = claimqStmt(p, CQ_SQL_LANE_HEAD);
  claimqBindText(p, &s, CQ_LANE_HEAD_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_HEAD_partition,
                bAll ? 0 : pL->partitions.a[0]);
  claimqBindText(p, &s, CQ_LANE_HEAD_set, claimqStr("[]"));
  claimqBindInt(p, &s, CQ_LANE_HEAD_all, bAll);
  claimqBindInt(p, &s, CQ_LANE_HEAD_upto,
                bAll ? CQ_I64_MAX : pL->partitions.a[0]);
  claimqBindPointer(p, &s, CQ_LANE_HEAD_who, pL, CQ_LANE_TYPE);
  claimqBindInt(p, &s, CQ_LANE_HEAD_open, claimqLaneOpen(pC));
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  pL->bFound = 0;
  while( bStraight && pC->pRows->nRow<pC->nMax && claimqStep(p, &s) ){
    pL->bFound = 1;
    bStraight = !claimqColInt(&s, CQ_COL_LANE_HEAD_waited);
    if( bStraight ){
      CqCell *a = claimqRowsAdd(p, pC->pRows);
      if( a ) pL->bNew &= (u8)claimqLaneRow(p, pC, &pL->policy, &s, a);
    }
  }
  claimqStmtDone(p, &s);
  if( !bStraight || !pL->bFound ){
    pL->passed.n = pL->spent.n = pL->unsaid.n = 0;
  }
  if( pL->passed.n<=CQ_PASS_FEW ) pL->passed.n = 0;
  return bStraight && pL->bFound;
}

/*
** Pick the best jobs of all sets that the worker satisfies.
*/
static void cqLaneChoose(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  CqStmt ready;
  int i;
  if( p->rc || pL->sets.n==0 ) return;
  ready = cqLaneStmt(p, pC, CQ_SQL_LANE_READY);
  for(i=0; i<pL->sets.n && p->rc==SQLITE_OK; i++){
    cqLaneOfferSet(p, pC, &ready, &pL->sets.a[i]);
  }
  claimqStmtDone(p, &ready);
}

/*
** The best jobs of one set, for a lane that keeps groups.  0 after an error.
*/
CQ_PRIV int claimqLaneBest(
  CqOp *p, CqClaim *pC, const CqSet *pSet, i64 nMax, const CqJobKey **pa
){
  CqLane *pL = cqLaneOwn(pC);
  CqStmt ready = cqLaneStmt(p, pC, CQ_SQL_LANE_READY);
  i64 nSaved = pC->nMax;
  assert( nMax>0 && pL->pLimit!=0 );
  pL->nPick = 0;
  pC->nMax = nMax;
  cqLaneOfferSet(p, pC, &ready, pSet);
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
** the claim's.  No lease ends later than the job, or else the policy of its
** lane, lets it run.  Returns 1 if the job is new: nobody holds it, and it
** stands among the ready ones.
*/
CQ_PRIV int claimqLaneRow(
  CqOp *p, CqClaim *pC, const CqPolicy *pPolicy, const CqStmt *pJob, CqCell *a
){
  i64 iJob = claimqColInt(pJob, CQ_COL_LANE_HEAD_job_id);
  int bNew = claimqColInt(pJob, CQ_COL_LANE_HEAD_place)<0;
  int bActive = !bNew
      && claimqColType(pJob, CQ_COL_LANE_HEAD_place)==SQLITE_NULL;
  i64 iEnd = pPolicy->a[CQ_POLICY_RUNTIME];
  CqText none = {0, 0};
  assert( pJob->eStmt==CQ_SQL_LANE_HEAD || pJob->eStmt==CQ_SQL_LANE_JOB );
  assert( a!=0 );
  claimqCellColumns(p, pC->pRows, a, pJob, CQ_LANE_NCOL);
  claimqCellInt(&a[CQ_COL_LANE_HEAD_job_id], iJob);      /* For cqLaneIds() */
  if( bActive && p->rc==SQLITE_OK ){
    cqLaneOneMore(&a[CQ_COL_LANE_HEAD_attempt_index]);
    cqLaneOneMore(&a[CQ_COL_LANE_HEAD_reclaim_count]);
  }
  claimqLeaseMake(p, &pC->lease, pC, iJob,
      claimqColInt(pJob, CQ_COL_LANE_HEAD_fencing_token),
      claimqColText(p, pJob, CQ_COL_LANE_HEAD_lane));
  if( claimqColType(pJob, CQ_COL_LANE_HEAD_max_runtime_ms)!=SQLITE_NULL ){
    iEnd = claimqColInt(pJob, CQ_COL_LANE_HEAD_max_runtime_ms);
  }
  if( iEnd<pC->iLease ){
    pC->lease.iExpires = claimqAddSat(pC->lease.iNow, iEnd);
  }
  claimqLeaseCells(p, pC->pRows, &a[CQ_LANE_NCOL], &pC->lease,
      bActive ? claimqColText(p, pJob, CQ_COL_LANE_HEAD_claim_id) : none,
      claimqColInt(pJob, CQ_COL_LANE_HEAD_attempts));
  return bNew;
}

/*
** If the job is gone, somebody was faster: the claim is stale.
*/
CQ_PRIV int claimqLaneRowOf(
  CqOp *p, CqClaim *pC, const CqPolicy *pPolicy, CqStmt *pJob, CqCell *a,
  i64 iJob
){
  int bNew = 0;
  claimqBindInt(p, pJob, CQ_LANE_HEAD_job, iJob);
  if( claimqStep(p, pJob) ) bNew = claimqLaneRow(p, pC, pPolicy, pJob, a);
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
      pL->bNew &= (u8)claimqLaneRowOf(p, pC, &pL->policy, &job, a,
                                      pL->aPick[i].iJob);
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
** Are there jobs to be put or placed before any is taken, or leases to be
** counted?  (To ask each group for those that have no slot would read all jobs
** for each.)
*/
static int cqLaneFirst(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  int i;
  pL->bScheduled = !pL->bPut && (claimqSettings(p) & CQ_SET_SCHEDULES)!=0
      && claimqScheduleDue(p, pC->aArg[CQ_LANE_LANE].t);
  pL->bPlace = 0;
  if( pL->pLimit && pL->pLimit->bGroups && pC->nMax>0 && !pL->bScheduled ){
    cqLaneSets(p, pC);
    for(i=0; i<pL->sets.n && !pL->bPlaced && !pL->bLook; i++){
      if( pL->sets.a[i].eKind==CQ_SET_LOOSE ) pL->bPlace = 1;
    }
  }
  pL->bCount = pL->pLimit && pL->pLimit->bGroups && pL->pLimit->bSlots
            && !pL->pLimit->bCounted && !pL->bScheduled && !pL->bLook
            && pL->sets.n>0;
  return pL->bScheduled || pL->bPlace || pL->bCount;
}

/*
** What is to be written, now that the jobs are chosen.
*/
static void cqLaneNeed(CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  CqLaneLimit *pLimit = pL->pLimit;
  int nJob = pC->pRows->nRow + pL->spent.n;
  int bUpkeep = pL->bBack || pL->unsaid.n
             || (pC->pRows->nRow && pL->policy.a[CQ_POLICY_RECLAIM]==1)
             || (pLimit && pLimit->bSlots && !pLimit->bCounted
                              && pLimit->room.nRoom<pC->nMax);
  int bTidy = pL->passed.n || pL->late.n
           || (pLimit && (pLimit->late.n || pLimit->wrong.n));
  pC->bTidy = (u8)bTidy;
  pC->task.eNeed = bUpkeep || (nJob && (pLimit || !pL->bNew)) ? CQ_NEED_UNDO
                 : nJob==0 ? CQ_NEED_NOTHING
                 : nJob>1 ? CQ_NEED_UNDO
                 : bTidy ? CQ_NEED_TIDY : CQ_NEED_ONE;
}

/*
** Choose, and build the rows.  Jobs that stay in their place must not be very
** many (CQ_STAY_MOST), and those that are spent do not stay.  If a schedule is
** due, or jobs are to be placed with their groups, nothing is chosen yet:
** claimqLaneStamp() does that first.
*/
CQ_PRIV void claimqLaneNext(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  i64 nMax = pC->nMax;
  pL->nPick = pL->spent.n = pL->passed.n = pL->unsaid.n = 0;
  cqLaneNoSets(pL);
  pL->bNew = 1;
  pL->bBack = 0;
  pL->iNow = claimqNow(p);
  claimqLimitBegin(p, pC);
  if( cqLaneFirst(p, pC) ){
    pC->task.eNeed = CQ_NEED_UNDO;
    pC->nMax = nMax;
    return;
  }
  if( pC->nMax>0 ){
    if( pL->pLimit && pL->pLimit->bGroups ){
      claimqLimitChoose(p, pC);
      cqLaneRows(p, pC);
    }else if( !cqLaneEmpty(p, pC) && !cqLaneStraight(p, pC) ){
      cqLaneSets(p, pC);
      cqLaneChoose(p, pC);
      cqLaneRows(p, pC);
    }
  }
  assert( p->rc || pC->pRows->nRow==0 || pC->pRows->nRow<=pC->nMax );
  if( pL->spent.n || pC->pRows->nRow+pL->spent.n>CQ_STAY_MOST
   || (pL->pLimit && pL->pLimit->loose.n)
  ){
    pL->bNew = 0;
  }
  if( !pL->bNew || pL->pLimit || pL->policy.a[CQ_POLICY_RECLAIM]==1 ){
    cqLaneIds(p, pC);
  }
  pL->bBack = pL->pLimit && pL->pLimit->bBack;
  pC->nMax = nMax;
  cqLaneNeed(pC);
}

/*
** When a job of a set will be claimable that is not now.  CQ_NO_TIME also after
** an error.
*/
CQ_PRIV i64 claimqLaneLater(CqOp *p, CqClaim *pC, const CqSet *pSet){
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_LATER);
  claimqBindText(p, &s, CQ_LANE_LATER_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_LATER_partition, pSet->iPartition);
  if( pSet->iHead ) claimqBindInt(p, &s, CQ_LANE_LATER_set, pSet->iHead);
  else claimqBindText(p, &s, CQ_LANE_LATER_set, pSet->bucket);
  claimqBindInt(p, &s, CQ_LANE_LATER_now, claimqNow(p));
  claimqBindInt(p, &s, CQ_LANE_LATER_open, claimqLaneOpen(pC));
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
  pL->bLook = pL->bPut = 1;
  if( claimqLookTakes(p, pC) ) return claimqNow(p);
  iPut = claimqScheduleNext(p, pC->aArg[CQ_LANE_LANE].t);
  if( iPut!=CQ_NO_TIME && iPut<=claimqNow(p) ) return claimqNow(p);
  if( pL->pLimit && pL->pLimit->room.nRoom==0 ){
    if( pL->pLimit->room.eWhy==CQ_LIMIT_PAUSED ) return iPut;
    iOpens = pL->pLimit->room.iNext;
    pL->bFree = 1;
    if( claimqLookTakes(p, pC) ) return claimqSooner(iPut, iOpens);
  }
  cqLaneSets(p, pC);
  for(i=0; i<pL->sets.n && p->rc==SQLITE_OK; i++){
    if( pL->sets.a[i].eKind!=CQ_SET_HEADS ){
      iAt = claimqSooner(iAt, claimqLaneLater(p, pC, &pL->sets.a[i]));
    }
  }
  iAt = claimqSooner(iAt, claimqLimitLater(p, pC));
  if( iAt!=CQ_NO_TIME && iAt<iOpens ) iAt = iOpens;
  return claimqSooner(iPut, iAt);
}

/**************************************************************************
** Writing
*/

/*
** Jobs of a set that waited become ready, nMost at most.  Returns their number.
*/
static i64 cqLanePromote(CqOp *p, CqClaim *pC, const CqSet *pSet, i64 nMost){
  CqStmt s = claimqStmt(p, CQ_SQL_LANE_PROMOTE);
  assert( nMost>0 );
  claimqBindText(p, &s, CQ_LANE_PROMOTE_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LANE_PROMOTE_partition, pSet->iPartition);
  if( pSet->iHead ) claimqBindInt(p, &s, CQ_LANE_PROMOTE_set, pSet->iHead);
  else claimqBindText(p, &s, CQ_LANE_PROMOTE_set, pSet->bucket);
  claimqBindInt(p, &s, CQ_LANE_PROMOTE_limit, nMost);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  return claimqExec(p, &s);
}

/*
** The same for a head.
*/
CQ_PRIV i64 claimqHeadPromote(CqOp *p, CqClaim *pC, i64 iHead, i64 nMost){
  CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_HEAD_PARTITION);
  CqSet set;
  memset(&set, 0, sizeof(set));
  set.iHead = iHead;
  claimqBindInt(p, &s, CQ_LIMIT_HEAD_PARTITION_head_id, iHead);
  if( claimqStep(p, &s) ){
    set.iPartition = claimqColInt(&s,
        CQ_COL_LIMIT_HEAD_PARTITION_partition);
  }
  claimqStmtDone(p, &s);
  return cqLanePromote(p, pC, &set, nMost);
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
    nMost -= cqLanePromote(p, pC, &pL->late.a[i], nMost);
  }
  claimqLimitTidy(p, pC);
}

/*
** Put the jobs of schedules that are due, and place jobs with their groups;
** then choose.
*/
static void cqLaneFirstly(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  assert( pC->pRows->nRow==0 );
  while( p->rc==SQLITE_OK && (pL->bScheduled || pL->bPlace || pL->bCount) ){
    if( pL->bCount ){
      claimqLimitCount(p, pL->pLimit);
    }else if( pL->bScheduled ){
      claimqSchedulePut(p, &pC->task, pC->aArg[CQ_LANE_LANE].t);
      pL->bPut = 1;
    }else{
      claimqGroupPlaceSome(p, pC);
      pL->bPlaced = 1;
    }
    if( p->rc==SQLITE_OK ) claimqLaneNext(p, pC);
  }
  if( pC->bTidy && !pC->task.bAlone ) claimqLaneTidy(p, pC);
}

/*
** Stamp jobs that are all new, each with the lease that is in its row.  They
** stay where they are in the index: that is why they have a statement of their
** own.  (LANE_STAMP makes a claim of one and its complete half as long again.)
** If one of them was not as it was read the claim is stale, and what was
** stamped is undone.
*/
static void cqLaneStampNew(CqOp *p, CqClaim *pC){
  const CqLaneLimit *pL = cqLaneOwn(pC)->pLimit;
  CqStmt s = claimqStmt(p, pL==0 ? CQ_SQL_LANE_STAMP_NEW
                         : pL->bGroups ? CQ_SQL_LIMIT_STAMP_NEW
                         : CQ_SQL_LIMIT_STAMP_STAY);
  int i, bAll = 1;
  i64 iHead;
  assert( pC->pRows->nRow>0 );
  if( pL ) claimqBindNull(p, &s, CQ_LANE_STAMP_NEW_slot);
  claimqBindCommonText(p, &s, CQ_P_owner, pC->owner);
  claimqBindCommonText(p, &s, CQ_P_incarnation, pC->incarnation);
  claimqBindCommonInt(p, &s, CQ_P_now, pC->lease.iNow);
  for(i=0; i<pC->pRows->nRow && p->rc==SQLITE_OK && bAll; i++){
    const CqCell *a = claimqRow(pC->pRows, i);
    const CqCell *aLease = &a[CQ_LANE_NCOL];
    assert( claimqCellGetText(&aLease[CQ_CLAIM_ID]).z!=0 );
    if( i>0 ) claimqStmtReset(&s);
    if( pL && pL->bSlots ){
      claimqBindInt(p, &s, CQ_LANE_STAMP_NEW_slot,
                    claimqGroupPicked(pL, i, &iHead));
    }
    claimqBindCommonInt(p, &s, CQ_P_head, a[CQ_COL_LANE_HEAD_job_id].u.i);
    claimqBindCommonText(p, &s, CQ_P_claim,
                         claimqCellGetText(&aLease[CQ_CLAIM_ID]));
    claimqBindCommonText(p, &s, CQ_P_token,
                         claimqCellGetText(&aLease[CQ_CLAIM_TOKEN]));
    claimqBindInt(p, &s, CQ_LANE_STAMP_NEW_fence, aLease[CQ_CLAIM_FENCE].u.i);
    claimqBindCommonInt(p, &s, CQ_P_expires, aLease[CQ_CLAIM_EXPIRES].u.i);
    while( claimqStep(p, &s) ){}
    bAll = sqlite3_changes(p->db)==1;
  }
  claimqStmtDone(p, &s);
  if( p->rc==SQLITE_OK && !bAll ) claimqStale(p, &pC->task);
}

/*
** Stamp the jobs of the list, which were taken from others, or waited, or are
** spent or invalid; and write what follows from that: attempts that end, and of
** those that are spent the dead letters, and who waits for them.
*/
CQ_PRIV void claimqLaneStampList(
  CqOp *p, CqClaim *pC, const CqIds *pSpent, CqStmt *pS
){
  CqIds awaited;
  i64 iEvent = pSpent->n ? claimqLaneLastEvent(p) : -1;
  memset(&awaited, 0, sizeof(awaited));
  claimqLaneDisplaced(p, &pC->ids);
  if( pSpent->n ) claimqLaneAwaited(p, pSpent, &awaited);
  claimqBindIds(p, pS, CQ_LANE_STAMP_ids, &pC->ids);
  claimqBindCommonInt(p, pS, CQ_P_now, claimqNow(p));
  claimqClaimStamp(p, pC, pS, pC->ids.n);
  if( pSpent->n ){
    claimqLaneLetters(p, pSpent);
    claimqLaneOver(p, &awaited, 1);
    claimqLaneNoEvents(p, iEvent);
  }
  claimqIdsClear(&awaited);
}

/*
** What limits need before the jobs are stamped: all that is held has a slot;
** what seems to have begun later began now; some groups are looked at again,
** if the limits have changed; jobs that are taken stand with their groups.
*/
static void cqLaneLimited(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  if( pL->bBack ) claimqLimitBack(p, pL->pLimit, pC->aArg[CQ_LANE_LANE].t);
  claimqLimitCount(p, pL->pLimit);
  claimqGroupPlace(p, &pL->pLimit->loose);
  claimqGroupLookSome(p, pL->pLimit);
}

/*
** Jobs that do not say it themselves, because a plain INSERT has put them, get
** what the policy says: those that were met and need a grant, and those that
** will be taken, which are the first of the list.
*/
static void cqLaneSaid(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  int nId = pC->ids.n;
  if( pL->unsaid.n ){
    claimqLimitList(p, CQ_SQL_LANE_ADMIT, &pL->unsaid);
    claimqGroupSee(p, &pL->unsaid);
  }
  if( pC->pRows->nRow && pL->policy.a[CQ_POLICY_RECLAIM]==1 ){
    assert( nId>=pC->pRows->nRow );
    pC->ids.n = pC->pRows->nRow;
    claimqLimitList(p, CQ_SQL_LANE_BY_GRANT, &pC->ids);
    pC->ids.n = nId;
  }
}

/*
** Stamp the jobs, after what is to come first.
*/
CQ_PRIV void claimqLaneStamp(CqOp *p, CqClaim *pC){
  CqLane *pL = cqLaneOwn(pC);
  CqLaneLimit *pLimit;
  CqSlots slots;
  int nTaken;
  if( pL->bScheduled || pL->bPlace || pL->bCount ) cqLaneFirstly(p, pC);
  pLimit = pL->pLimit;
  nTaken = pC->pRows->nRow;
  if( p->rc==SQLITE_OK ) cqLaneSaid(p, pC);
  if( p->rc==SQLITE_OK && pLimit ) cqLaneLimited(p, pC);
  if( p->rc || nTaken+pL->spent.n==0 ) return;
  assert( pL->bNew || pC->ids.n==nTaken+pL->spent.n );
  memset(&slots, 0, sizeof(slots));
  if( pL->bNew ){
    cqLaneStampNew(p, pC);
  }else{
    CqStmt s;
    claimqSlotsOf(p, &pC->ids, &slots);
    s = claimqStmt(p, pLimit ? CQ_SQL_LIMIT_STAMP : CQ_SQL_LANE_STAMP);
    if( pLimit ) claimqLimitStampBind(p, &s, pLimit);
    claimqLaneStampList(p, pC, &pL->spent, &s);
  }
  claimqSlotsGone(p, &slots);
  if( pLimit ){
    claimqLimitTaken(p, &pC->task, pLimit, &pC->ids, nTaken, pLimit->aTurn);
  }
  claimqSlotsFree(&slots);
}
