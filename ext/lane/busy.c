/*
** lane/busy.c: which groups of a lane are closed, for whoever looks at all of
** its jobs.
**
** A claim asks each group that it meets how many claims may begin: three or
** four statements.  claimq_stats and claimq_why look at every job of a lane,
** which may have as many groups as jobs.  But a group can only be closed by
** live leases and by claims that began lately, and those are few: they are read
** once, and kept by group_key in a hash, at most half full.  A group that is
** not among them has used up nothing.
**
** core/limit.c decides, as it does for claims.
*/
#include "lane.h"

/* A time in a list, in the order in which core/limit.c counts them. */
typedef struct CqBusyTime CqBusyTime;
struct CqBusyTime {
  i64 iAt;
  int iNext;                      /* Its number in aTime, from 1; 0: none */
};
typedef struct CqBusyGroup CqBusyGroup;
struct CqBusyGroup {
  CqText key;                     /* z==0: free.  A copy */
  int aiTime[2], aiLast[2], an[2]; /* Its lists: CQ_BUSY_END, CQ_BUSY_START */
  u8 bRoom;                       /* room is known */
  CqRoom room;
};
#define CQ_BUSY_END   0           /* Leases, by their ends */
#define CQ_BUSY_START 1           /* Starts, the latest first */

struct CqBusy {
  CqBusyGroup *a;                 /* The hash */
  int n, nSlot;
  CqBusyTime *aTime;              /* Number k is aTime[k-1] */
  int nTime, nTimeAlloc;
  CqRoom idle;                    /* Of a group that is not here */
};

/* Whose: for the callbacks of CqUse. */
typedef struct CqBusyUse CqBusyUse;
struct CqBusyUse {
  const CqBusy *pBusy;
  const CqBusyGroup *pGroup;
};

/*
** The group that has the key, or the free place where it belongs.
*/
static CqBusyGroup *cqBusySlot(const CqBusy *pB, CqText key){
  u32 h = 2166136261u;
  int i;
  assert( pB->n<pB->nSlot );
  for(i=0; i<key.n; i++) h = (h ^ (u8)key.z[i])*16777619u;
  for(h ^= h>>15; ; h++){
    CqBusyGroup *pG = &pB->a[h & (u32)(pB->nSlot-1)];
    if( pG->key.z==0 || claimqTextEq(pG->key, key) ) return pG;
  }
}

/*
** The group of a key, which is added if it is not there.  0 if op has an error
** or gets one here.
*/
static CqBusyGroup *cqBusyAdd(CqOp *p, CqBusy *pB, CqText key){
  CqBusyGroup *pG;
  if( p->rc ) return 0;
  if( (pB->n+1)*2>pB->nSlot ){
    CqBusyGroup *aOld = pB->a;
    int i, nOld = pB->nSlot, nNew = nOld ? nOld*4 : 16;
    CqBusyGroup *aNew = claimqMalloc(p, nNew*(i64)sizeof(*aNew));
    if( aNew==0 ) return 0;
    pB->a = aNew;
    pB->nSlot = nNew;
    for(i=0; i<nOld; i++){
      if( aOld[i].key.z ) *cqBusySlot(pB, aOld[i].key) = aOld[i];
    }
    sqlite3_free(aOld);
  }
  pG = cqBusySlot(pB, key);
  if( pG->key.z==0 ){
    pG->key.z = claimqTextDup(p, key);
    pG->key.n = key.n;
    if( pG->key.z==0 ) return 0;
    pB->n++;
  }
  return pG;
}

/*
** Read one of the lists, by a statement like LIMIT_BUSY; iFrom is its :from.
*/
static void cqBusyRead(
  CqOp *p, CqBusy *pB, CqText lane, int eStmt, int eList, i64 iFrom
){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_LIMIT_BUSY_lane, lane);
  claimqBindInt(p, &s, CQ_LIMIT_BUSY_from, iFrom);
  while( claimqStep(p, &s) ){
    CqBusyGroup *pG = cqBusyAdd(p, pB,
        claimqColText(p, &s, CQ_COL_LIMIT_BUSY_group_key));
    CqBusyTime *pT;
    if( pG==0 || !claimqGrow(p, (void**)&pB->aTime, pB->nTime,
                             &pB->nTimeAlloc, sizeof(CqBusyTime)) ){
      break;
    }
    pT = &pB->aTime[pB->nTime++];
    pT->iAt = claimqColInt(&s, CQ_COL_LIMIT_BUSY_at_ms);
    pT->iNext = 0;
    if( pG->an[eList]++ ) pB->aTime[pG->aiLast[eList]-1].iNext = pB->nTime;
    else pG->aiTime[eList] = pB->nTime;
    pG->aiLast[eList] = pB->nTime;
  }
  claimqStmtDone(p, &s);
}

/*
** The i-th of a list, from 1 on.  core/limit.c asks for none that is not there.
*/
static i64 cqBusyNth(void *pCtx, int eList, i64 i){
  const CqBusyUse *pUse = (const CqBusyUse*)pCtx;
  int k = pUse->pGroup->aiTime[eList];
  assert( i>0 && i<=pUse->pGroup->an[eList] );
  while( --i>0 ) k = pUse->pBusy->aTime[k-1].iNext;
  return pUse->pBusy->aTime[k-1].iAt;
}

static i64 cqBusyEnd(void *pCtx, i64 i){
  return cqBusyNth(pCtx, CQ_BUSY_END, i);
}

static i64 cqBusyStart(void *pCtx, i64 i){
  return cqBusyNth(pCtx, CQ_BUSY_START, i);
}

/*
** What a group lets begin; pG==0: one that has nothing used up.
*/
static void cqBusyRoom(
  CqOp *p, const CqLaneLimit *pL, const CqBusyGroup *pG, CqRoom *pRoom
){
  CqBusyUse user;
  CqUse use;
  user.pBusy = pL->pBusy;
  user.pGroup = pG;
  use.nLive = pG ? pG->an[CQ_BUSY_END] : 0;
  use.nStart = pG ? pG->an[CQ_BUSY_START] : 0;
  use.xEnd = cqBusyEnd;
  use.xStart = cqBusyStart;
  use.pCtx = &user;
  claimqLimitRoom(&pL->group, &use, 1, claimqNow(p), pRoom);
}

/*
** Read what the groups of a lane have used up.
*/
static void cqBusyLoad(CqOp *p, CqLaneLimit *pL){
  CqBusy *pB = pL->pBusy = claimqMalloc(p, sizeof(*pB));
  i64 iNow = claimqNow(p);
  if( pB==0 ) return;
  if( pL->group.nActive>0 ){
    cqBusyRead(p, pB, pL->lane, pL->bCounted ? CQ_SQL_LIMIT_BUSY
        : CQ_SQL_LIMIT_BUSY_ALL, CQ_BUSY_END, iNow);
  }
  if( pL->group.nRate>0 ){
    cqBusyRead(p, pB, pL->lane, CQ_SQL_LIMIT_BUSY_STARTS, CQ_BUSY_START,
               iNow-pL->group.nPer);
  }
  cqBusyRoom(p, pL, 0, &pB->idle);
}

/*
** What the lane and the group of a job let begin; key.z==0: it has no group.
** Nothing if op has an error or gets one here.
*/
CQ_PRIV void claimqLimitSee(
  CqOp *p, CqLaneLimit *pL, CqText key, CqRoom *pRoom
){
  CqBusyGroup *pG;
  *pRoom = pL->room;
  if( key.z==0 || (pL->group.nActive<0 && pL->group.nRate<0) ) return;
  if( pL->pBusy==0 ) cqBusyLoad(p, pL);
  if( p->rc ) return;
  pG = pL->pBusy->n ? cqBusySlot(pL->pBusy, key) : 0;
  if( pG==0 || pG->key.z==0 ){
    claimqLimitBoth(&pL->room, &pL->pBusy->idle, pRoom);
    return;
  }
  if( !pG->bRoom ) cqBusyRoom(p, pL, pG, &pG->room);
  pG->bRoom = 1;
  claimqLimitBoth(&pL->room, &pG->room, pRoom);
}

/*
** Free what was read; pB may be 0.
*/
CQ_PRIV void claimqBusyFree(CqBusy *pB){
  int i;
  if( pB==0 ) return;
  for(i=0; i<pB->nSlot; i++) sqlite3_free((char*)pB->a[i].key.z);
  sqlite3_free(pB->a);
  sqlite3_free(pB->aTime);
  sqlite3_free(pB);
}
