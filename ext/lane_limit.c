/*
** lane_limit.c: limits of a lane, and groups that take turns.
**
**     SELECT claimq_limit('mail', 'max_active', 3);                     -- 1
**     SELECT claimq_limit('mail', 'group_rate', 10, 'group_per_ms', 1000,
**       'fair', 1);                                                     -- 1
**     SELECT claimq_submit('mail', 'hello', 'group_key', 'customer-7');
**     SELECT claimq_limit('mail', 'max_active', NULL);      -- 1: no limit
**
** A lease is the slot.  Each claim counts how many are live, of a lane or of a
** group, in an index of the jobs that are held; there is no separate counter
** that could be wrong when a worker dies.  claimq_start records when claims
** began, the last n of them for a limit of n.  core_limit.c decides how many
** claims may begin.  If the clock has gone back, the first claim or reclaim
** rewrites starts that lie in the future as starts of now.
**
** Where only the lane is limited, that is all: a claim takes fewer jobs.  A
** lane in which groups are limited or take turns keeps a row for each group, in
** claimq_group, and for each group, partition and set of capabilities one in
** claimq_head, which names the first job there and from when on it may be
** taken.  Triggers write them (see sql/limit.sql).  A claim reads the heads of
** the sets that its worker satisfies:
**
**     LIMIT_OPEN    those that may be taken from, in order, as many as the
**                   claim wants jobs
**     LIMIT_LATE    those of which something has fallen due: all of them, and
**                   if they are many they are moved to the open ones
**
** Groups that are at their limit, and jobs behind the first of theirs, are not
** looked at, however many they are.  Of each head that it reads a claim asks
** the group what it lets begin, and its jobs for the best; claimqLimitPick()
** decides which of them are taken.
**
** Jobs without a group_key stay in the set that their capabilities say, as in
** every lane.  The claim reads these sets, too, as if each were a head of a
** group that has no limits.
*/
#include "lane.h"

typedef struct CqGroupUse CqGroupUse;
struct CqGroupUse {
  i64 iGroup;                     /* 0: the jobs without a group */
  CqRoom room;
};
typedef struct CqHeadUse CqHeadUse;
struct CqHeadUse {
  i64 iSet;                       /* As in claimq_job.cap_id */
  int iGroup;                     /* In aGroup */
  i64 iTurn;
  i64 nAsked;                     /* So many jobs were asked for */
  int nGot;
};

/**************************************************************************
** How much of a limit is used up
*/

/* Whose: for the callbacks of CqUse. */
typedef struct CqLimitUse CqLimitUse;
struct CqLimitUse {
  CqOp *p;
  CqText lane;
  i64 iGroup;
  i64 iLast;                      /* Number of the last claim that began */
};

/*
** Run one of the statements like LIMIT_LANE_LIVE: its number, or iElse if there
** is none.
*/
static i64 cqLimitAsk(
  const CqLimitUse *pUse, int eStmt, i64 iNth, i64 iElse
){
  CqOp *p = pUse->p;
  CqStmt s = claimqStmt(p, eStmt);
  i64 n = iElse;
  int bLane = eStmt==CQ_SQL_LIMIT_LANE_LIVE || eStmt==CQ_SQL_LIMIT_LANE_END;
  int bGroup = eStmt==CQ_SQL_LIMIT_GROUP_LIVE || eStmt==CQ_SQL_LIMIT_GROUP_END;
  if( !bGroup ) claimqBindText(p, &s, CQ_LIMIT_LANE_LIVE_lane, pUse->lane);
  if( !bLane ) claimqBindInt(p, &s, CQ_LIMIT_LANE_LIVE_group, pUse->iGroup);
  if( iNth ) claimqBindInt(p, &s, CQ_LIMIT_LANE_LIVE_nth, iNth);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  if( claimqStep(p, &s)
   && claimqColType(&s, CQ_COL_LIMIT_LANE_LIVE_n)!=SQLITE_NULL
  ){
    n = claimqColInt(&s, CQ_COL_LIMIT_LANE_LIVE_n);
  }
  claimqStmtDone(p, &s);
  return n;
}

static i64 cqLimitEnd(void *pCtx, i64 i){
  const CqLimitUse *pUse = (const CqLimitUse*)pCtx;
  return cqLimitAsk(pUse, pUse->iGroup ? CQ_SQL_LIMIT_GROUP_END
                                       : CQ_SQL_LIMIT_LANE_END, i, CQ_I64_MAX);
}

/*
** A start that is not there (the rate was raised) was long ago.  After an error
** it counts as one that is still to come: nothing may begin.
*/
static i64 cqLimitStart(void *pCtx, i64 i){
  const CqLimitUse *pUse = (const CqLimitUse*)pCtx;
  i64 n = cqLimitAsk(pUse, CQ_SQL_LIMIT_START, pUse->iLast-i+1, -CQ_I64_MAX);
  return pUse->p->rc ? CQ_I64_MAX : n;
}

static i64 cqLimitLive(const CqLimitUse *pUse){
  return cqLimitAsk(pUse, pUse->iGroup ? CQ_SQL_LIMIT_GROUP_LIVE
                                       : CQ_SQL_LIMIT_LANE_LIVE, 0, 0);
}

/*
** What the lane (iGroup==0) or one of its groups lets begin, of nWant claims;
** nothing if op has an error or gets one here.
*/
static void cqLimitRoomOf(
  CqOp *p, const CqLaneLimit *pL, i64 iGroup, i64 nWant, CqRoom *pRoom
){
  const CqLimit *pLimit = iGroup ? &pL->group : &pL->own;
  CqLimitUse user;
  CqUse use;
  memset(pRoom, 0, sizeof(*pRoom));
  if( p->rc ) return;
  user.p = p;
  user.lane = pL->lane;
  user.iGroup = iGroup;
  user.iLast = pLimit->nRate>0 ? cqLimitAsk(&user, CQ_SQL_LIMIT_LAST, 0, 0) : 0;
  use.nLive = pLimit->nActive>0 ? cqLimitLive(&user) : 0;
  use.nStart = user.iLast;
  use.xEnd = cqLimitEnd;
  use.xStart = cqLimitStart;
  use.pCtx = &user;
  if( p->rc==SQLITE_OK ){
    claimqLimitRoom(pLimit, &use, nWant, claimqNow(p), pRoom);
  }
}

/*
** A column of claimq_limit, -1 if it is NULL.
*/
static i64 cqLimitCol(const CqStmt *pS, int iCol){
  return claimqColType(pS, iCol)==SQLITE_NULL ? -1 : claimqColInt(pS, iCol);
}

/*
** The limits of a lane; 0 if it has none, or op has an error.  Databases in
** which claimq_limit() was never called are not asked.  The caller frees with
** claimqLimitFree().
*/
static CqLaneLimit *cqLimitOfLane(CqOp *p, CqText lane){
  CqLaneLimit *pL = 0;
  CqStmt s;
  if( (claimqSettings(p) & CQ_SET_LIMITS)==0 ) return 0;
  s = claimqStmt(p, CQ_SQL_LIMIT_ROW);
  claimqBindText(p, &s, CQ_LIMIT_ROW_lane, lane);
  if( claimqStep(p, &s) && (pL = claimqMalloc(p, sizeof(*pL)))!=0 ){
    pL->lane = lane;
    pL->iOpens = CQ_NO_TIME;
    pL->own.nActive = cqLimitCol(&s, CQ_COL_LIMIT_ROW_max_active);
    pL->own.nRate = cqLimitCol(&s, CQ_COL_LIMIT_ROW_rate);
    pL->own.nPer = claimqColInt(&s, CQ_COL_LIMIT_ROW_per_ms);
    pL->group.nActive = cqLimitCol(&s, CQ_COL_LIMIT_ROW_group_max_active);
    pL->group.nRate = cqLimitCol(&s, CQ_COL_LIMIT_ROW_group_rate);
    pL->group.nPer = claimqColInt(&s, CQ_COL_LIMIT_ROW_group_per_ms);
    pL->bFair = (u8)claimqColInt(&s, CQ_COL_LIMIT_ROW_fair);
    pL->bGroups = (u8)claimqColInt(&s, CQ_COL_LIMIT_ROW_groups);
    pL->nBegun = claimqColInt(&s, CQ_COL_LIMIT_ROW_begun);
    pL->iLast = claimqColInt(&s, CQ_COL_LIMIT_ROW_last_ms);
    pL->iTurn = claimqColInt(&s, CQ_COL_LIMIT_ROW_turn);
    pL->iKeyless = claimqColInt(&s, CQ_COL_LIMIT_ROW_keyless_turn);
  }
  claimqStmtDone(p, &s);
  return pL;
}

/*
** The limits were read, so that a snapshot of the database is there: read the
** clock again.  What another process commits later cannot be seen here, and is
** later than now, so times do not go back from one claim to the next.  If the
** clock has gone back all the same, starts may seem to be still to come.
*/
static void cqLimitClock(CqOp *p, CqLaneLimit *pL){
  if( p->bClock ) p->iNow = claimqSystemClock(p->pConn);
  pL->bBack = (pL->own.nRate>0 || pL->group.nRate>0) && pL->iLast>claimqNow(p);
}

/*
** Free limits and all that was found out about their groups; pL may be 0.
*/
CQ_PRIV void claimqLimitFree(CqLaneLimit *pL){
  if( pL==0 ) return;
  sqlite3_free(pL->aGroup);
  sqlite3_free(pL->aHash);
  sqlite3_free(pL->aHead);
  sqlite3_free(pL->aOffer);
  sqlite3_free(pL->aTurn);
  claimqIdsClear(&pL->late);
  claimqIdsClear(&pL->wrong);
  claimqIdsClear(&pL->empty);
  sqlite3_free(pL);
}

/**************************************************************************
** Groups that were looked at
*/

/*
** Make room for one more element in an array of elements of nByte bytes.
** Returns 0 if there is no memory.
*/
static int cqLimitGrow(
  CqOp *p, void **ppArray, int n, int *pnAlloc, size_t nByte
){
  int nNew = *pnAlloc ? *pnAlloc*2 : 16;
  void *pNew;
  assert( n>=0 && n<=*pnAlloc );
  if( n<*pnAlloc ) return 1;
  pNew = claimqRealloc(p, *ppArray, nNew*(i64)nByte);
  if( pNew==0 ) return 0;
  *ppArray = pNew;
  *pnAlloc = nNew;
  return 1;
}

/*
** Where group iGroup stands in the hash, or is to stand.
*/
static int *cqLimitSlot(CqLaneLimit *pL, i64 iGroup){
  u32 i = (u32)((unsigned long long)iGroup*2654435761u);
  int *p;
  assert( pL->nHash>pL->nGroup && (pL->nHash & (pL->nHash-1))==0 );
  do{
    p = &pL->aHash[i++ & (u32)(pL->nHash-1)];
  }while( *p && pL->aGroup[*p-1].iGroup!=iGroup );
  return p;
}

/*
** Have more than twice as many places as there are groups.  Returns 0, and
** leaves all as it is, if there is no memory.
*/
static int cqLimitRehash(CqOp *p, CqLaneLimit *pL){
  int nNew = pL->nHash ? pL->nHash*4 : 32;
  int *aNew, i;
  if( pL->nGroup*2<pL->nHash ) return 1;
  aNew = claimqMalloc(p, nNew*(i64)sizeof(int));
  if( aNew==0 ) return 0;
  sqlite3_free(pL->aHash);
  pL->aHash = aNew;
  pL->nHash = nNew;
  for(i=0; i<pL->nGroup; i++){
    *cqLimitSlot(pL, pL->aGroup[i].iGroup) = i+1;
  }
  return 1;
}

/*
** The number of group iGroup, of which nWant jobs are wanted; -1 after an
** error.  What it lets begin is asked once.
*/
static int cqLimitGroup(CqOp *p, CqLaneLimit *pL, i64 iGroup, i64 nWant){
  CqGroupUse *pG;
  int *piPlace;
  if( p->rc || !cqLimitRehash(p, pL)
   || !cqLimitGrow(p, (void**)&pL->aGroup, pL->nGroup, &pL->nGroupAlloc,
                   sizeof(CqGroupUse)) ){
    return -1;
  }
  piPlace = cqLimitSlot(pL, iGroup);
  if( *piPlace==0 ){
    pG = &pL->aGroup[pL->nGroup];
    memset(pG, 0, sizeof(*pG));
    pG->iGroup = iGroup;
    pG->room.nRoom = nWant;
    if( iGroup ) cqLimitRoomOf(p, pL, iGroup, nWant, &pG->room);
    *piPlace = ++pL->nGroup;
  }
  assert( *piPlace>0 && pL->aGroup[*piPlace-1].iGroup==iGroup );
  return p->rc ? -1 : *piPlace-1;
}

/*
** What lane and group together let begin of a job of group iGroup; nothing if
** op has an error or gets one here.
*/
CQ_PRIV void claimqLimitJob(
  CqOp *p, CqLaneLimit *pL, i64 iGroup, CqRoom *pRoom
){
  int i = cqLimitGroup(p, pL, iGroup, 1);
  if( i<0 ) memset(pRoom, 0, sizeof(*pRoom));
  else claimqLimitBoth(&pL->room, &pL->aGroup[i].room, pRoom);
}

/*
** The limits of the lane that job iJob is in, and in *pRoom what they let
** begin; 0 if it has none, or op has an error.  The caller frees with
** claimqLimitFree().
*/
CQ_PRIV CqLaneLimit *claimqLimitOfJob(CqOp *p, i64 iJob, CqRoom *pRoom){
  CqLaneLimit *pL = 0;
  CqStmt s;
  if( (claimqSettings(p) & CQ_SET_LIMITS)==0 ) return 0;
  s = claimqStmt(p, CQ_SQL_LIMIT_OF_JOB);
  claimqBindInt(p, &s, CQ_LIMIT_OF_JOB_job, iJob);
  if( claimqStep(p, &s) ){
    pL = cqLimitOfLane(p, claimqColText(p, &s, CQ_COL_LIMIT_OF_JOB_lane_id));
  }
  if( pL ){
    cqLimitClock(p, pL);
    cqLimitRoomOf(p, pL, 0, 1, &pL->room);
    claimqLimitJob(p, pL, claimqColInt(&s, CQ_COL_LIMIT_OF_JOB_group_id),
                   pRoom);
    pL->lane = claimqStr(0);
  }
  claimqStmtDone(p, &s);
  return pL;
}

/*
** An expired claim of job iJob is to be renewed, and needs a slot for it.
** Raises conflict if the lane or its group has no room for one more lease.
*/
CQ_PRIV void claimqLimitRenew(CqOp *p, i64 iJob){
  CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_OF_JOB);
  CqLaneLimit *pL = 0;
  CqLimitUse user;
  const char *zFull = 0;
  memset(&user, 0, sizeof(user));
  user.p = p;
  claimqBindInt(p, &s, CQ_LIMIT_OF_JOB_job, iJob);
  if( claimqStep(p, &s) ){
    user.lane = claimqColText(p, &s, CQ_COL_LIMIT_OF_JOB_lane_id);
    pL = cqLimitOfLane(p, user.lane);
  }
  if( pL ){
    if( !claimqLimitSlot(&pL->own, cqLimitLive(&user)) ) zFull = "max_active";
    user.iGroup = claimqColInt(&s, CQ_COL_LIMIT_OF_JOB_group_id);
    if( user.iGroup && !claimqLimitSlot(&pL->group, cqLimitLive(&user)) ){
      zFull = "group_max_active";
    }
  }
  if( zFull ){
    claimqFail(p, CQ_CONFLICT, "the lease has expired and its slot is taken: "
        "%s of lane '%.*s' allows no more; the claim may still be settled",
        zFull, claimqShown(user.lane), user.lane.z);
  }
  claimqLimitFree(pL);
  claimqStmtDone(p, &s);
}

/**************************************************************************
** Choosing jobs
*/

/*
** What the lane lets begin bounds the claim.
*/
CQ_PRIV void claimqLimitBegin(CqOp *p, CqClaim *pC){
  CqLane *pLane = (CqLane*)&pC->own;
  CqLaneLimit *pL;
  claimqLimitFree(pLane->pLimit);
  pLane->pLimit = pL = cqLimitOfLane(p, pC->aArg[CQ_LANE_LANE].t);
  if( pL==0 ) return;
  cqLimitClock(p, pL);
  pLane->iNow = claimqNow(p);
  cqLimitRoomOf(p, pL, 0, pC->nMax, &pL->room);
  if( pL->room.nRoom<pC->nMax && !pLane->bFree ) pC->nMax = pL->room.nRoom;
}

/*
** Ask a head for its best jobs, nAsked of them, and offer these.
*/
static void cqLimitRead(CqOp *p, CqClaim *pC, int iHead){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  CqHeadUse *pH = &pL->aHead[iHead];
  const CqJobKey *a;
  int n = claimqLaneBest(p, pC, pH->iSet, pH->nAsked, &a);
  int i;
  assert( n<=pH->nAsked && pH->nAsked<=pC->nMax );
  pH->nGot = 0;
  for(i=0; i<n && cqLimitGrow(p, (void**)&pL->aOffer, pL->nOffer,
      &pL->nOfferAlloc, sizeof(CqOffer)); i++){
    CqOffer *pO = &pL->aOffer[pL->nOffer++];
    memset(pO, 0, sizeof(*pO));
    pO->key = a[i];
    pO->iGroup = pH->iGroup;
    pO->nRoom = pL->aGroup[pH->iGroup].room.nRoom;
    pO->iTurn = pH->iTurn;
    pO->iHead = iHead;
    pO->iPos = i;
    pH->nGot++;
  }
}

#define CQ_ASK_FIRST 4            /* So many jobs of a head to begin with */

/*
** Offer the jobs of a set that belongs to a group.  Returns 1 if it has any; if
** it has none, note what tells when it will.
*/
static int cqLimitHead(
  CqOp *p, CqClaim *pC, i64 iSet, i64 iGroup, i64 iTurn
){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  CqHeadUse *pH;
  i64 nRoom;
  int i = cqLimitGroup(p, pL, iGroup, pC->nMax);
  if( i<0 ) return 0;
  nRoom = pL->aGroup[i].room.nRoom;
  if( nRoom==0 && pL->aGroup[i].room.eWhy!=CQ_LIMIT_PAUSED ){
    pL->iOpens = claimqSooner(pL->iOpens, pL->aGroup[i].room.iNext);
  }
  if( nRoom==0 || !cqLimitGrow(p, (void**)&pL->aHead, pL->nHead,
                               &pL->nHeadAlloc, sizeof(CqHeadUse)) ){
    return 0;
  }
  if( nRoom>pC->nMax ) nRoom = pC->nMax;
  pH = &pL->aHead[pL->nHead];
  memset(pH, 0, sizeof(*pH));
  pH->iSet = iSet;
  pH->iGroup = i;
  pH->iTurn = iTurn;
  pH->nAsked = nRoom<CQ_ASK_FIRST ? nRoom : CQ_ASK_FIRST;
  cqLimitRead(p, pC, pL->nHead);
  if( pH->nGot==0 ){
    if( iGroup ) claimqIdsAdd(p, &pL->empty, iSet);
    return 0;
  }
  pL->nHead++;
  return 1;
}

/*
** Take LIMIT_OPEN or a statement like it.
*/
static CqStmt cqLimitStmt(CqOp *p, CqClaim *pC, int eStmt, i64 iSet){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_LIMIT_OPEN_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LIMIT_OPEN_partition, pC->aArg[CQ_LANE_PARTITION].i);
  claimqBindInt(p, &s, CQ_LIMIT_OPEN_set, iSet);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  return s;
}

/*
** 1 if a head is among the first n of a list.
*/
static int cqLimitAmong(const CqIds *pIds, int iFrom, i64 iHead){
  int i;
  for(i=iFrom; i<pIds->n && pIds->a[i]!=iHead; i++){}
  return i<pIds->n;
}

/*
** 1 if the head that was read last gives what pS, LIMIT_OPEN, says that it has,
** or better: then no head behind it has anything that goes before it.  It may
** give something worse if the clock went back.
*/
static int cqLimitKept(const CqLaneLimit *pL, const CqStmt *pS){
  CqJobKey key;
  assert( pS->eStmt==CQ_SQL_LIMIT_OPEN );
  assert( pL->nHead>0 && pL->nOffer>=pL->aHead[pL->nHead-1].nGot );
  memset(&key, 0, sizeof(key));
  key.iPriority = claimqColInt(pS, CQ_COL_LIMIT_OPEN_priority);
  key.iCreated = claimqColInt(pS, CQ_COL_LIMIT_OPEN_created_at_ms);
  key.iJob = claimqColInt(pS, CQ_COL_LIMIT_OPEN_job_id);
  return claimqJobCompare(
      &pL->aOffer[pL->nOffer-pL->aHead[pL->nHead-1].nGot].key, &key)<=0;
}

/*
** Offer the jobs of the head that pS, LIMIT_OPEN or LIMIT_LATE, stands on, at
** the turn of its group.  Returns 1 if it has any, and stands where its turn
** puts it.  A head of another turn, whose group is closed, or that is empty, is
** wrong: it is looked at again when something is written.
*/
static int cqLimitOffer(CqOp *p, CqClaim *pC, const CqStmt *pS){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  i64 iHead = claimqColInt(pS, CQ_COL_LIMIT_OPEN_head_id);
  i64 iTurn = pL->bFair ? claimqColInt(pS, CQ_COL_LIMIT_OPEN_group_turn) : 0;
  int bRight = cqLimitHead(p, pC, -iHead,
                   claimqColInt(pS, CQ_COL_LIMIT_OPEN_group_id), iTurn)
            && claimqColInt(pS, CQ_COL_LIMIT_OPEN_turn)==iTurn;
  if( !bRight ) claimqIdsAdd(p, &pL->wrong, iHead);
  return bRight;
}

/*
** Offer what a set of capabilities has: jobs without a group, what has fallen
** due, and of the open heads the first nMax that keep what they promise.
*/
static void cqLimitSet(CqOp *p, CqClaim *pC, i64 iSet){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  int nLate = pL->late.n;
  i64 nGood = 0;
  CqStmt s;
  cqLimitHead(p, pC, iSet, 0, pL->bFair ? pL->iKeyless : 0);
  s = cqLimitStmt(p, pC, CQ_SQL_LIMIT_LATE, iSet);
  while( claimqStep(p, &s) ){
    i64 iHead = claimqColInt(&s, CQ_COL_LIMIT_OPEN_head_id);
    claimqIdsAdd(p, &pL->late, iHead);
    cqLimitOffer(p, pC, &s);
  }
  claimqStmtDone(p, &s);
  s = cqLimitStmt(p, pC, CQ_SQL_LIMIT_OPEN, iSet);
  while( nGood<pC->nMax && claimqStep(p, &s) ){
    i64 iHead = claimqColInt(&s, CQ_COL_LIMIT_OPEN_head_id);
    if( cqLimitAmong(&pL->late, nLate, iHead) ) continue;
    if( cqLimitOffer(p, pC, &s) ) nGood += cqLimitKept(pL, &s);
  }
  claimqStmtDone(p, &s);
}

/*
** Of the nTake jobs that would be taken, the last that some head was asked for
** is one: ask it for more.  Returns 1 if there was such a head.
*/
static int cqLimitMore(CqOp *p, CqClaim *pC, int nTake){
  CqLane *pLane = (CqLane*)&pC->own;
  CqLaneLimit *pL = pLane->pLimit;
  int i, j, iHead = -1;
  assert( nTake<=pL->nOffer && nTake<=pC->nMax );
  for(i=0; i<nTake && iHead<0; i++){
    const CqOffer *pO = &pL->aOffer[i];
    const CqHeadUse *pH = &pL->aHead[pO->iHead];
    if( pO->iPos==pH->nAsked-1 && pH->nAsked<pO->nRoom
     && pH->nAsked<pC->nMax
    ){
      iHead = pO->iHead;
    }
  }
  if( iHead<0 || p->rc ) return 0;
  for(i=j=0; i<pL->nOffer; i++){
    if( pL->aOffer[i].iHead!=iHead ) pL->aOffer[j++] = pL->aOffer[i];
  }
  pL->nOffer = j;
  pL->aHead[iHead].nAsked *= 4;
  if( pL->aHead[iHead].nAsked>pC->nMax ) pL->aHead[iHead].nAsked = pC->nMax;
  j = pLane->spent.n;
  cqLimitRead(p, pC, iHead);
  pLane->spent.n = j;             /* They were met before */
  return 1;
}

/*
** The turns of the jobs that were picked: aOffer stands in the order in which
** they are taken, and is put into the order of the rows.
*/
static void cqLimitTurns(CqOp *p, CqClaim *pC, int nTake){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  int i;
  assert( nTake<=pL->nOffer && pL->aTurn==0 );
  for(i=0; i<nTake; i++) pL->aOffer[i].iTurn = claimqAddSat(pL->iTurn, i+1);
  claimqOfferSort(pL->aOffer, nTake);
  claimqLanePicks(p, pC, pL->aOffer, nTake);
  if( !pL->bFair || nTake==0 ) return;
  pL->aTurn = claimqMalloc(p, nTake*(i64)sizeof(i64));
  for(i=0; i<nTake && pL->aTurn; i++) pL->aTurn[i] = pL->aOffer[i].iTurn;
  pC->ids.aTurn = pL->aTurn;
  pC->ids.nTurn = pL->aTurn ? nTake : 0;
}

/*
** Pick jobs in a lane that keeps groups: collect what the heads of each set
** offer, and let core_limit.c choose.
*/
CQ_PRIV void claimqLimitChoose(CqOp *p, CqClaim *pC){
  CqLane *pLane = (CqLane*)&pC->own;
  CqLaneLimit *pL = pLane->pLimit;
  int i, nTake;
  assert( pL!=0 && pL->bGroups && pL->nOffer==0 && pC->nMax>0 );
  cqLimitSet(p, pC, 0);
  for(i=0; i<pLane->sets.n && p->rc==SQLITE_OK; i++){
    cqLimitSet(p, pC, pLane->sets.a[i]);
  }
  do{
    nTake = claimqLimitPick(pL->aOffer, pL->nOffer, pC->nMax, pL->bFair);
  }while( cqLimitMore(p, pC, nTake) );
  cqLimitTurns(p, pC, nTake);
  if( pL->late.n<CQ_DUE_FEW ) pL->late.n = 0;
}

/*
** When the heads that were met, and promised more than they have, will have
** something: their group opens, or one of their jobs falls due.
*/
static i64 cqLimitMet(CqOp *p, CqClaim *pC){
  const CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  i64 iAt = pL->iOpens;
  int i;
  for(i=0; i<pL->empty.n && p->rc==SQLITE_OK; i++){
    iAt = claimqSooner(iAt, claimqLaneLater(p, pC, pL->empty.a[i]));
  }
  return iAt;
}

/*
** When the heads of a set will have something to give that they do not have
** now; CQ_NO_TIME if time alone does not help, or if the lane keeps no groups.
** Those that were met belong to several sets, and are asked with set 0.
*/
CQ_PRIV i64 claimqLimitLater(CqOp *p, CqClaim *pC, i64 iSet){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  i64 iAt = CQ_NO_TIME;
  CqStmt s;
  if( p->rc || pL==0 || !pL->bGroups ) return iAt;
  if( iSet==0 ) iAt = cqLimitMet(p, pC);
  if( pL->bBack && pL->group.nRate>0 ){
    iAt = claimqSooner(iAt, claimqAddSat(claimqNow(p), pL->group.nPer));
  }
  s = claimqStmt(p, CQ_SQL_LIMIT_WHEN);
  claimqBindText(p, &s, CQ_LIMIT_WHEN_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LIMIT_WHEN_partition, pC->aArg[CQ_LANE_PARTITION].i);
  claimqBindInt(p, &s, CQ_LIMIT_WHEN_set, iSet);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  if( claimqStep(p, &s) ){
    i64 iWhen = claimqColTime(&s, CQ_COL_LIMIT_WHEN_at_ms);
    if( iWhen==CQ_I64_MAX ) iWhen = CQ_NO_TIME;   /* A group at its limit 0 */
    iAt = claimqSooner(iAt, iWhen);
  }
  claimqStmtDone(p, &s);
  return iAt;
}

/*
** Upkeep: many heads of which something has fallen due; heads of which many
** jobs have, which claimqLaneTidy() has moved; heads that promised what they
** have not.
*/
CQ_PRIV void claimqLimitTidy(CqOp *p, CqClaim *pC){
  const CqIds *pMoved = &((CqLane*)&pC->own)->late;
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  i64 nMost = CQ_DUE_MOST;
  CqStmt s;
  int i;
  if( pL==0 ) return;
  if( pL->late.n>CQ_DUE_MOST ) pL->late.n = CQ_DUE_MOST;
  for(i=0; i<pL->late.n && nMost>0; i++){
    nMost -= claimqLanePromote(p, pC, -pL->late.a[i], nMost);
  }
  for(i=0; i<pL->late.n; i++) claimqIdsAdd(p, &pL->wrong, pL->late.a[i]);
  for(i=0; i<pMoved->n; i++){
    if( pMoved->a[i]<0 ) claimqIdsAdd(p, &pL->wrong, -pMoved->a[i]);
  }
  if( pL->wrong.n==0 ) return;
  s = claimqStmt(p, CQ_SQL_LIMIT_LOOK);
  claimqBindIds(p, &s, CQ_LIMIT_LOOK_ids, &pL->wrong);
  claimqExec(p, &s);
  s = claimqStmt(p, CQ_SQL_LIMIT_OPENED);
  claimqBindIds(p, &s, CQ_LIMIT_OPENED_ids, &pL->late);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  claimqExec(p, &s);
}

/*
** Write that what seems to have begun later than now began now.
*/
CQ_PRIV void claimqLimitBack(CqOp *p, CqClaim *pC){
  CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_BACK);
  claimqBindText(p, &s, CQ_LIMIT_BACK_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  claimqExec(p, &s);
}

/*
** The same for the lane that job iJob is in.
*/
CQ_PRIV void claimqLimitBackOfJob(CqOp *p, i64 iJob){
  CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_BACK_OF_JOB);
  claimqBindInt(p, &s, CQ_LIMIT_BACK_job, iJob);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  claimqExec(p, &s);
}

/**************************************************************************
** claimq_limit(lane [, option, value]...) -> 1
*/
typedef struct CqLimitCall CqLimitCall;
struct CqLimitCall {
  CqTask task;                    /* First */
  CqText lane;
  const CqVal *aOpt;
  i64 a[CQ_LIMIT_NOW];            /* The limits as they will be; -1: none */
  u8 bAny;                        /* There is one */
};

/*
** A rate and its window: one of them alone means nothing.
*/
static void cqLimitPair(CqOp *p, CqLimitCall *pE, int iRate){
  const CqVal *pRate = &pE->aOpt[iRate], *pPer = &pE->aOpt[iRate+1];
  const char *zGroup = iRate==CQ_LIMIT_NRATE ? "" : "group_";
  i64 *a = &pE->a[iRate];
  assert( iRate==CQ_LIMIT_NRATE || iRate==CQ_LIMIT_GROUP_NRATE );
  if( (pRate->pVal && !pRate->bGiven && !pPer->bGiven)
   || (pPer->pVal && !pPer->bGiven && !pRate->bGiven)
  ){
    a[0] = a[1] = -1;
  }
  if( (a[0]<0)!=(a[1]<0) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "%srate and %sper_ms belong together: give "
        "both, or NULL for both", zGroup, zGroup);
  }
}

/*
** What the limits will be: those that are named change.
*/
static void cqLimitMerge(CqOp *p, CqLimitCall *pE){
  CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_ROW);
  int bRow, i;
  claimqBindText(p, &s, CQ_LIMIT_ROW_lane, pE->lane);
  bRow = claimqStep(p, &s);
  pE->bAny = 0;
  assert( (int)CQ_COL_LIMIT_ROW_max_active==(int)CQ_LIMIT_MAX );
  assert( (int)CQ_COL_LIMIT_ROW_fair==(int)CQ_LIMIT_FAIR );
  for(i=0; i<CQ_LIMIT_NOW; i++){
    const CqVal *pVal = &pE->aOpt[i];
    pE->a[i] = bRow ? cqLimitCol(&s, i) : -1;
    if( pVal->pVal ) pE->a[i] = pVal->bGiven ? pVal->i : -1;
  }
  claimqStmtDone(p, &s);
  if( pE->a[CQ_LIMIT_FAIR]==0 ) pE->a[CQ_LIMIT_FAIR] = -1;
  cqLimitPair(p, pE, CQ_LIMIT_NRATE);
  cqLimitPair(p, pE, CQ_LIMIT_GROUP_NRATE);
  for(i=0; i<CQ_LIMIT_NOW; i++){
    if( pE->a[i]>=0 ) pE->bAny = 1;
  }
}

/*
** What the limits are and will be.
*/
static void cqLimitLoad(CqOp *p, CqTask *pTask){
  CqLimitCall *pE = (CqLimitCall*)pTask;
  cqLimitMerge(p, pE);
  pTask->eNeed = CQ_NEED_MANY;
}

/*
** Write the row of the lane, or delete it if no limit is left.
*/
static void cqLimitWrite(CqOp *p, const CqLimitCall *pE){
  static const int aParam[CQ_LIMIT_NOW] = {
    CQ_LIMIT_SET_max_active, CQ_LIMIT_SET_rate, CQ_LIMIT_SET_per_ms,
    CQ_LIMIT_SET_group_max_active, CQ_LIMIT_SET_group_rate,
    CQ_LIMIT_SET_group_per_ms, CQ_LIMIT_SET_fair
  };
  CqStmt s;
  int i;
  if( !pE->bAny ){
    s = claimqStmt(p, CQ_SQL_LIMIT_UNSET);
    claimqBindText(p, &s, CQ_LIMIT_UNSET_lane, pE->lane);
    claimqExec(p, &s);
    return;
  }
  s = claimqStmt(p, CQ_SQL_LIMIT_SET);
  claimqBindText(p, &s, CQ_LIMIT_SET_lane, pE->lane);
  for(i=0; i<CQ_LIMIT_FAIR; i++){
    if( pE->a[i]<0 ) claimqBindNull(p, &s, aParam[i]);
    else claimqBindInt(p, &s, aParam[i], pE->a[i]);
  }
  claimqBindInt(p, &s, aParam[CQ_LIMIT_FAIR], pE->a[CQ_LIMIT_FAIR]>0);
  claimqExec(p, &s);
}

/*
** Write the limits.  The triggers of claimq_limit bring groups, heads and slots
** to what they want: that looks at all jobs of the lane that have a group or
** are held.  The first limit makes claims look for limits: of all connections,
** at their next call.
*/
static void cqLimitApply(CqOp *p, CqTask *pTask){
  CqLimitCall *pE = (CqLimitCall*)pTask;
  if( pE->bAny ) claimqSettingsSet(p, pTask, CQ_SET_LIMITS);
  cqLimitWrite(p, pE);
}

/*
** claimq_limit(lane [, option, value]...) -> 1.
*/
CQ_PRIV void claimqLaneLimit(CqOp *p, CqCall *pCall){
  CqLimitCall e;
  memset(&e, 0, sizeof(e));
  e.task.xLoad = cqLimitLoad;
  e.task.xApply = cqLimitApply;
  e.task.iAnswer = 1;
  e.task.zWhat = "claimq_limit()";
  e.lane = pCall->aArg[0].t;
  e.aOpt = pCall->aOpt;
  claimqRun(p, &e.task);
  claimqTaskResult(p, &e.task, pCall->pCtx);
}
