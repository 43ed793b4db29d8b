/*
** lane/stats.c: claimq_stats of lanes.
**
**     SELECT scope, partition, ready, held FROM claimq_stats
**      WHERE discipline='lane';
**     -- mail|0|120|4
**     -- mail|1|7|0
**
** All jobs are read once, in the order of the table, and each is added to the
** row of its lane and partition.  The rows stand in the result at once; a hash
** finds them, at most half full.  Beside them the hash has the lanes, with what
** was found out about their limits.
*/
#include "lane.h"

typedef struct CqSumLane CqSumLane;
struct CqSumLane {
  CqText lane;                    /* Lives in the rows */
  CqLaneLimit *pLimit;            /* 0: none */
  u8 bGrant;                      /* Jobs that say nothing need a grant */
};
typedef struct CqSums CqSums;
struct CqSums {
  CqRows *pRows;
  int iFirst;                     /* The first row of lanes */
  int iLast;                      /* The row that was found last; or -1 */
  int *aHash, nHash;              /* 0: free; n>0: row n-1; n<0: lane -n-1 */
  CqSumLane *aLane;
  int nLane, nLaneAlloc;
  int *aiLane, nRowAlloc;         /* The lane of each row */
};

/*
** 1 if row iRow is that of a lane and a partition.
*/
static int cqSumIs(const CqSums *pS, int iRow, CqText lane, i64 iPartition){
  const CqCell *a = claimqRow(pS->pRows, iRow);
  return a[CQ_STATS_PARTITION].u.i==iPartition
      && claimqTextEq(claimqCellGetText(&a[CQ_STATS_SCOPE]), lane);
}

/*
** Where a lane (bLane) stands in the hash, or its row of a partition; or is to
** stand.
*/
static int *cqSumSlot(const CqSums *pS, CqText lane, i64 iPartition, int bLane){
  u32 h = 2166136261u + (u32)iPartition*2654435761u + (u32)bLane;
  int i;
  assert( pS->nHash>0 && (pS->nHash & (pS->nHash-1))==0 );
  for(i=0; i<lane.n; i++) h = (h ^ (u8)lane.z[i])*16777619u;
  for(h ^= h>>15; ; h++){
    int *pi = &pS->aHash[h & (u32)(pS->nHash-1)];
    if( *pi==0 ) return pi;
    if( bLane ? *pi<0 && claimqTextEq(pS->aLane[-*pi-1].lane, lane)
              : *pi>0 && cqSumIs(pS, *pi-1, lane, iPartition) ){
      return pi;
    }
  }
}

/*
** Have room for one more row and one more lane.  Returns 0 if there is no
** memory.
*/
static int cqSumGrow(CqOp *p, CqSums *pS){
  int nRow = pS->pRows->nRow - pS->iFirst;
  int i, nNew = pS->nHash ? pS->nHash*4 : 64;
  int *aNew;
  if( !claimqGrow(p, (void**)&pS->aiLane, nRow, &pS->nRowAlloc, sizeof(int))
   || !claimqGrow(p, (void**)&pS->aLane, pS->nLane, &pS->nLaneAlloc,
                  sizeof(CqSumLane)) ){
    return 0;
  }
  if( (nRow+pS->nLane+2)*2<=pS->nHash ) return 1;
  aNew = claimqMalloc(p, nNew*(i64)sizeof(int));
  if( aNew==0 ) return 0;
  sqlite3_free(pS->aHash);
  pS->aHash = aNew;
  pS->nHash = nNew;
  for(i=0; i<pS->nLane; i++){
    *cqSumSlot(pS, pS->aLane[i].lane, 0, 1) = -i-1;
  }
  for(i=pS->iFirst; i<pS->pRows->nRow; i++){
    const CqCell *a = claimqRow(pS->pRows, i);
    *cqSumSlot(pS, claimqCellGetText(&a[CQ_STATS_SCOPE]),
               a[CQ_STATS_PARTITION].u.i, 0) = i+1;
  }
  return 1;
}

/*
** The number of a lane; lane lives in its first row.
*/
static int cqSumLane(CqOp *p, CqSums *pS, CqText lane){
  int *pi = cqSumSlot(pS, lane, 0, 1);
  if( *pi==0 ){
    CqSumLane *pLane = &pS->aLane[pS->nLane];
    CqPolicy policy;
    pLane->lane = lane;
    pLane->pLimit = claimqLimitOfLane(p, lane, &policy);
    pLane->bGrant = policy.a[CQ_POLICY_ADMISSION]==1;
    if( pLane->pLimit ){
      claimqLimitRoomOf(p, pLane->pLimit, 0, claimqStr(0), 1,
                        &pLane->pLimit->room);
    }
    *pi = - ++pS->nLane;
  }
  return -*pi-1;
}

/*
** The cells of a lane and a partition, 0 if op has an error or gets one here.
** They are good until others are asked for.
*/
static CqCell *cqSumRow(CqOp *p, CqSums *pS, CqText lane, i64 iPartition){
  int *pi, i;
  CqCell *a;
  if( p->rc ) return 0;
  if( pS->iLast>=0 && cqSumIs(pS, pS->iLast, lane, iPartition) ){
    return claimqRow(pS->pRows, pS->iLast);
  }
  if( !cqSumGrow(p, pS) ) return 0;
  pi = cqSumSlot(pS, lane, iPartition, 0);
  if( *pi==0 ){
    a = claimqRowsAdd(p, pS->pRows);
    if( a==0 ) return 0;
    claimqCellText(p, pS->pRows, &a[CQ_STATS_DISCIPLINE], claimqStr("lane"));
    claimqCellText(p, pS->pRows, &a[CQ_STATS_SCOPE], lane);
    claimqCellInt(&a[CQ_STATS_PARTITION], iPartition);
    for(i=CQ_STATS_READY; i<=CQ_STATS_DEAD; i++) claimqCellInt(&a[i], 0);
    if( p->rc ) return 0;
    *pi = pS->pRows->nRow;
    pS->aiLane[*pi-1-pS->iFirst] =
        cqSumLane(p, pS, claimqCellGetText(&a[CQ_STATS_SCOPE]));
  }
  pS->iLast = *pi-1;
  return p->rc ? 0 : claimqRow(pS->pRows, pS->iLast);
}

/*
** The earliest time counts.
*/
static void cqSumTime(CqCell *pCell, i64 iAt){
  if( pCell->eType==SQLITE_NULL || iAt<pCell->u.i ) claimqCellInt(pCell, iAt);
}

/*
** The lane of the row that was found last.
*/
static const CqSumLane *cqSumOf(const CqSums *pS){
  return &pS->aLane[pS->aiLane[pS->iLast-pS->iFirst]];
}

/*
** 1 if a job is limited that would be ready: its lane, which row iLast is of,
** or its group lets none begin.
*/
static int cqSumLimited(CqOp *p, const CqSums *pS, const CqStmt *pJob){
  CqLaneLimit *pL = cqSumOf(pS)->pLimit;
  CqRoom room;
  if( pL==0 ) return 0;
  claimqLimitSee(p, pL, claimqColText(p, pJob, CQ_COL_LANE_STATS_group_key),
                 &room);
  return room.eWhy!=CQ_LIMIT_NONE;
}

/*
** Count the job that pJob, LANE_STATS, stands on.
*/
static void cqSumJob(CqOp *p, CqSums *pS, CqText lane, const CqStmt *pJob){
  CqCell *a = cqSumRow(p, pS, lane,
                       claimqColInt(pJob, CQ_COL_LANE_STATS_partition));
  int eKind = (int)claimqColInt(pJob, CQ_COL_LANE_STATS_kind), eCol;
  i64 iAvailable, iExpires;
  if( a==0 || eKind==CQ_KIND_ENDED ) return;
  iAvailable = claimqColInt(pJob, CQ_COL_LANE_STATS_available_at_ms);
  iExpires = claimqColInt(pJob, CQ_COL_LANE_STATS_expires_at_ms);
  if( eKind==CQ_KIND_BLOCKED
   || (eKind==CQ_KIND_UNSAID && cqSumOf(pS)->bGrant)
  ){
    eCol = CQ_STATS_BLOCKED;
  }else{
    int eWhy = claimqRowWhy(iAvailable, eKind==CQ_KIND_ACTIVE, iExpires,
                            claimqNow(p));
    eCol = eWhy==CQ_WHY_HELD ? CQ_STATS_HELD
         : eWhy==CQ_WHY_DELAYED ? CQ_STATS_DELAYED
         : eKind==CQ_KIND_ACTIVE ? CQ_STATS_EXPIRED
         : cqSumLimited(p, pS, pJob) ? CQ_STATS_LIMITED : CQ_STATS_READY;
    if( eCol==CQ_STATS_READY ) cqSumTime(&a[CQ_STATS_OLDEST], iAvailable);
    if( eCol==CQ_STATS_DELAYED || eCol==CQ_STATS_HELD ){
      cqSumTime(&a[CQ_STATS_NEXT], claimqWhyUntil(eWhy, iAvailable, iExpires));
    }
  }
  a[eCol].u.i++;
}

/*
** How row i compares with row j: by lane, then by partition.
*/
static int cqSumCompare(const CqRows *p, int i, int j){
  const CqCell *a = claimqRow(p, i), *b = claimqRow(p, j);
  CqText s = claimqCellGetText(&a[CQ_STATS_SCOPE]);
  CqText t = claimqCellGetText(&b[CQ_STATS_SCOPE]);
  int c = memcmp(s.z, t.z, (size_t)(s.n<t.n ? s.n : t.n));
  if( c==0 ) c = s.n - t.n;
  if( c ) return c;
  return a[CQ_STATS_PARTITION].u.i<b[CQ_STATS_PARTITION].u.i ? -1 : 1;
}

/*
** Rows i and j change places.
*/
static void cqSumSwap(const CqRows *p, int i, int j){
  CqCell *a = claimqRow(p, i), *b = claimqRow(p, j);
  int k;
  for(k=0; k<p->nCol; k++){
    CqCell t = a[k];
    a[k] = b[k];
    b[k] = t;
  }
}

/*
** Sort the n rows from iFirst on: a heap, as in core/limit.c.
*/
static void cqSumSort(const CqRows *p, int iFirst, int n){
  int i, iTop, iKid, nHeap = n;
  for(i=n/2-1; nHeap>1; ){
    if( i>=0 ){
      iTop = i--;
    }else{
      iTop = 0;
      cqSumSwap(p, iFirst, iFirst + --nHeap);
    }
    while( (iKid = 2*iTop+1)<nHeap ){
      if( iKid+1<nHeap && cqSumCompare(p, iFirst+iKid, iFirst+iKid+1)<0 ){
        iKid++;
      }
      if( cqSumCompare(p, iFirst+iTop, iFirst+iKid)>=0 ) break;
      cqSumSwap(p, iFirst+iTop, iFirst+iKid);
      iTop = iKid;
    }
  }
}

/*
** Add dead letters, and when schedules are due.
*/
static void cqSumMore(CqOp *p, CqSums *pS, CqText scope){
  CqStmt s = claimqStmt(p, scope.z ? CQ_SQL_LANE_STATS_MORE_OF
                                   : CQ_SQL_LANE_STATS_MORE);
  if( scope.z ) claimqBindText(p, &s, CQ_LANE_STATS_MORE_scope, scope);
  while( claimqStep(p, &s) ){
    CqCell *a = cqSumRow(p, pS,
        claimqColText(p, &s, CQ_COL_LANE_STATS_MORE_scope),
        claimqColInt(&s, CQ_COL_LANE_STATS_MORE_partition));
    if( a==0 ) break;
    a[CQ_STATS_DEAD].u.i += claimqColInt(&s, CQ_COL_LANE_STATS_MORE_dead);
    if( claimqColType(&s, CQ_COL_LANE_STATS_MORE_next_at_ms)!=SQLITE_NULL ){
      cqSumTime(&a[CQ_STATS_NEXT],
                claimqColInt(&s, CQ_COL_LANE_STATS_MORE_next_at_ms));
    }
  }
  claimqStmtDone(p, &s);
}

/*
** xStats: the rows of all lanes, or of one.
*/
CQ_PRIV void claimqLaneStats(CqOp *p, CqText scope, CqRows *pRows){
  CqSums sums;
  CqStmt s;
  int i;
  assert( pRows->nCol==CQ_STATS_NCOL );
  memset(&sums, 0, sizeof(sums));
  sums.pRows = pRows;
  sums.iFirst = pRows->nRow;
  sums.iLast = -1;
  claimqNow(p);
  s = claimqStmt(p, scope.z ? CQ_SQL_LANE_STATS_OF : CQ_SQL_LANE_STATS);
  if( scope.z ) claimqBindText(p, &s, CQ_LANE_STATS_scope, scope);
  while( claimqStep(p, &s) ){
    cqSumJob(p, &sums, scope.z ? scope
        : claimqColText(p, &s, CQ_COL_LANE_STATS_scope), &s);
    if( p->rc ) break;
  }
  claimqStmtDone(p, &s);
  cqSumMore(p, &sums, scope);
  for(i=0; i<sums.nLane; i++) claimqLimitFree(sums.aLane[i].pLimit);
  sqlite3_free(sums.aLane);
  sqlite3_free(sums.aiLane);
  sqlite3_free(sums.aHash);
  if( p->rc ) return;
  cqSumSort(pRows, sums.iFirst, pRows->nRow-sums.iFirst);
}
