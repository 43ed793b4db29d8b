/*
** lane/limit.c: limits of a lane, and groups that take turns.
**
**     SELECT claimq_policy('mail', 'max_active', 3);                     -- 1
**     SELECT claimq_policy('mail', 'group_rate', 10, 'group_per_ms', 1000,
**       'fair', 1);                                                     -- 1
**     SELECT claimq_submit('mail', 'hello', 'group_key', 'customer-7');
**     SELECT claimq_policy('mail', 'max_active', NULL);      -- 1: no limit
**
** A lease is the slot.  Each claim counts how many are live, of a lane or of a
** group, among those that are held; there is no separate counter that could be
** wrong when a worker dies.  claimq_start records when claims began, the last n
** of them for a limit of n.  core/limit.c decides how many claims may begin.
** If the clock has gone back, the first claim or reclaim rewrites starts that
** lie in the future as starts of now.
**
** claimq_policy() writes one row (lane/policy.c).  Jobs that were held before
** the lane had a limit on them have no slot: as long as that may be so (counted
** is 0) leases are counted in claimq_job itself, and the next claim that looks
** gives each of them a slot.
**
** Where only the lane is limited, that is all: a claim takes fewer jobs.  What
** groups need is in lane/group.c.
*/
#include "lane.h"

/**************************************************************************
** How much of a limit is used up
*/

/* Whose: for the callbacks of CqUse. */
typedef struct CqLimitUse CqLimitUse;
struct CqLimitUse {
  CqOp *p;
  CqText lane;
  i64 iGroup;
  CqText key;                     /* Of a group that has no row yet; or z==0 */
  i64 iLast;                      /* Number of the last claim that began */
  u8 bAll;                        /* Not all that is held has a slot */
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
  int bLane = eStmt==CQ_SQL_LIMIT_LANE_LIVE || eStmt==CQ_SQL_LIMIT_LANE_END
           || eStmt==CQ_SQL_LIMIT_LANE_ALL || eStmt==CQ_SQL_LIMIT_LANE_ALL_END;
  claimqBindText(p, &s, CQ_LIMIT_LANE_LIVE_lane, pUse->lane);
  if( !bLane ) claimqBindInt(p, &s, CQ_LIMIT_LANE_LIVE_group, pUse->iGroup);
  if( eStmt==CQ_SQL_LIMIT_GROUP_ALL || eStmt==CQ_SQL_LIMIT_GROUP_ALL_END ){
    claimqBindText(p, &s, CQ_LIMIT_LANE_LIVE_key, pUse->key);
  }
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

/*
** When the i-th of the live leases ends.
*/
static i64 cqLimitEnd(void *pCtx, i64 i){
  static const int aStmt[] = {
    CQ_SQL_LIMIT_LANE_END, CQ_SQL_LIMIT_GROUP_END,
    CQ_SQL_LIMIT_LANE_ALL_END, CQ_SQL_LIMIT_GROUP_ALL_END
  };
  const CqLimitUse *pUse = (const CqLimitUse*)pCtx;
  return cqLimitAsk(pUse, aStmt[(pUse->iGroup!=0) + 2*pUse->bAll], i,
                    CQ_I64_MAX);
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

/*
** How many leases are live.
*/
static i64 cqLimitLive(const CqLimitUse *pUse){
  static const int aStmt[] = {
    CQ_SQL_LIMIT_LANE_LIVE, CQ_SQL_LIMIT_GROUP_LIVE,
    CQ_SQL_LIMIT_LANE_ALL, CQ_SQL_LIMIT_GROUP_ALL
  };
  return cqLimitAsk(pUse, aStmt[(pUse->iGroup!=0) + 2*pUse->bAll], 0, 0);
}

/*
** 1 if a limit allows one more lease to be live.
*/
static int cqLimitFree(const CqLimit *pLimit, const CqLimitUse *pUse){
  return claimqLimitSlot(pLimit, pLimit->nActive>0 ? cqLimitLive(pUse) : 0);
}

/*
** What the lane (iGroup==0) or one of its groups lets begin, of nWant claims;
** nothing if op has an error or gets one here.
*/
CQ_PRIV void claimqLimitRoomOf(
  CqOp *p, const CqLaneLimit *pL, i64 iGroup, CqText key, i64 nWant,
  CqRoom *pRoom
){
  const CqLimit *pLimit = iGroup ? &pL->group : &pL->own;
  CqLimitUse user;
  CqUse use;
  memset(pRoom, 0, sizeof(*pRoom));
  if( p->rc ) return;
  if( iGroup==0 && pL->bPaused ){
    pRoom->iNext = CQ_LIMIT_NEVER;
    pRoom->eWhy = CQ_LIMIT_PAUSED;
    return;
  }
  user.p = p;
  user.lane = pL->lane;
  user.iGroup = iGroup;
  user.key = key;
  user.bAll = !pL->bCounted;
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
** A column of claimq_policy, -1 if it is NULL.
*/
static i64 cqLimitCol(const CqStmt *pS, int iCol){
  return claimqColType(pS, iCol)==SQLITE_NULL ? -1 : claimqColInt(pS, iCol);
}

/*
** The limits of a lane, which pS, POLICY_ROW, has; 0 if op has an error or gets
** one here.
*/
static CqLaneLimit *cqLimitTake(CqOp *p, const CqStmt *pS, CqText lane){
  CqLaneLimit *pL = claimqMalloc(p, sizeof(*pL));
  if( pL==0 ) return 0;
  pL->lane = lane;
  pL->iOpens = CQ_NO_TIME;
  pL->own.nActive = cqLimitCol(pS, CQ_COL_POLICY_ROW_max_active);
  pL->own.nRate = cqLimitCol(pS, CQ_COL_POLICY_ROW_rate);
  pL->own.nPer = claimqColInt(pS, CQ_COL_POLICY_ROW_per_ms);
  pL->group.nActive = cqLimitCol(pS, CQ_COL_POLICY_ROW_group_max_active);
  pL->group.nRate = cqLimitCol(pS, CQ_COL_POLICY_ROW_group_rate);
  pL->group.nPer = claimqColInt(pS, CQ_COL_POLICY_ROW_group_per_ms);
  pL->bFair = (u8)claimqColInt(pS, CQ_COL_POLICY_ROW_fair);
  pL->bGroups = (u8)claimqColInt(pS, CQ_COL_POLICY_ROW_groups);
  pL->nBegun = claimqColInt(pS, CQ_COL_POLICY_ROW_begun);
  pL->iLast = claimqColInt(pS, CQ_COL_POLICY_ROW_last_ms);
  pL->iTurn = claimqColInt(pS, CQ_COL_POLICY_ROW_turn);
  pL->iKeyless = claimqColInt(pS, CQ_COL_POLICY_ROW_keyless_turn);
  pL->iFairFrom = claimqColInt(pS, CQ_COL_POLICY_ROW_fair_from);
  pL->bSlots = pL->own.nActive>=0 || pL->group.nActive>=0;
  pL->bCounted = (u8)claimqColInt(pS, CQ_COL_POLICY_ROW_counted);
  pL->from = claimqColText(p, pS, CQ_COL_POLICY_ROW_look_from);
  if( pL->from.z ) pL->from.z = claimqTextDup(p, pL->from);
  return pL;
}

/*
** 1 if the row of claimq_policy that pS, POLICY_ROW, has limits anything.
*/
static int cqLimitAny(const CqStmt *pS){
  return claimqColInt(pS, CQ_COL_POLICY_ROW_groups)
      || claimqColType(pS, CQ_COL_POLICY_ROW_max_active)!=SQLITE_NULL
      || claimqColType(pS, CQ_COL_POLICY_ROW_rate)!=SQLITE_NULL;
}

/*
** The policy of a lane into *pPolicy, and its limits, of which it is one to be
** paused; 0 if it has none, or op has an error.  What does not concern claims
** is not always there: databases in which no policy ever said more are not
** asked.  The caller frees with claimqLimitFree().
*/
CQ_PRIV CqLaneLimit *claimqLimitOfLane(
  CqOp *p, CqText lane, CqPolicy *pPolicy
){
  CqLaneLimit *pL = 0;
  CqStmt s;
  claimqPolicyNone(pPolicy);
  if( (claimqSettings(p) & CQ_SET_CLAIMS)==0 ) return 0;
  s = claimqStmt(p, CQ_SQL_POLICY_ROW);
  claimqBindText(p, &s, CQ_POLICY_ROW_lane, lane);
  if( claimqStep(p, &s) ){
    claimqPolicyRead(&s, pPolicy);
    if( cqLimitAny(&s) || pPolicy->a[CQ_POLICY_PAUSED] ){
      pL = cqLimitTake(p, &s, lane);
    }
    if( pL ){
      pL->bLimits = (u8)cqLimitAny(&s);
      pL->bPaused = pPolicy->a[CQ_POLICY_PAUSED]!=0;
    }
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
CQ_PRIV void claimqLimitClock(CqOp *p, CqLaneLimit *pL){
  if( p->bClock ) p->iNow = claimqSystemClock(p->pConn);
  pL->bBack = (pL->own.nRate>0 || pL->group.nRate>0) && pL->iLast>claimqNow(p);
}

/*
** Free limits and all that was found out about their groups; pL may be 0.
*/
CQ_PRIV void claimqLimitFree(CqLaneLimit *pL){
  if( pL==0 ) return;
  claimqGroupFree(pL);
  claimqBusyFree(pL->pBusy);
  sqlite3_free((char*)pL->from.z);
  sqlite3_free(pL);
}

/**************************************************************************
** One job
*/

/*
** What lane and group together let begin of a job of group iGroup; nothing if
** op has an error or gets one here.
*/
CQ_PRIV void claimqLimitJob(
  CqOp *p, CqLaneLimit *pL, i64 iGroup, CqText key, CqRoom *pRoom
){
  const CqRoom *pGroup = claimqGroupRoom(p, pL, iGroup, key);
  if( pGroup==0 ) memset(pRoom, 0, sizeof(*pRoom));
  else claimqLimitBoth(&pL->room, pGroup, pRoom);
}

/*
** The limits of the lane that job iJob is in, and in *pRoom what they let
** begin; 0 if it has none, or op has an error.  Also, in *pPolicy, the policy
** of the lane.  The caller frees lane.z, and the rest with claimqLimitFree().
*/
CQ_PRIV CqLaneLimit *claimqLimitOfJob(
  CqOp *p, i64 iJob, CqRoom *pRoom, CqPolicy *pPolicy
){
  CqLaneLimit *pL = 0;
  CqStmt s;
  claimqPolicyNone(pPolicy);
  if( (claimqSettings(p) & CQ_SET_LIMITS)==0 ) return 0;
  s = claimqStmt(p, CQ_SQL_LIMIT_OF_JOB);
  claimqBindInt(p, &s, CQ_LIMIT_OF_JOB_job, iJob);
  if( claimqStep(p, &s) ){
    pL = claimqLimitOfLane(p, claimqColText(p, &s, CQ_COL_LIMIT_OF_JOB_lane),
                           pPolicy);
  }
  if( pL ){
    claimqLimitClock(p, pL);
    claimqLimitRoomOf(p, pL, 0, claimqStr(0), 1, &pL->room);
    claimqLimitJob(p, pL, claimqColInt(&s, CQ_COL_LIMIT_OF_JOB_group_id),
                   claimqColText(p, &s, CQ_COL_LIMIT_OF_JOB_group_key), pRoom);
    pL->lane.z = claimqTextDup(p, pL->lane);
  }
  claimqStmtDone(p, &s);
  return pL;
}

/*
** An expired claim of job iJob is to be renewed, and needs a slot for it.
** Raises no_slot if the lane or its group has no room for one more lease.
*/
CQ_PRIV void claimqLimitRenew(CqOp *p, i64 iJob){
  CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_OF_JOB);
  CqLaneLimit *pL = 0;
  CqPolicy policy;
  CqLimitUse user;
  const char *zFull = 0;
  memset(&user, 0, sizeof(user));
  user.p = p;
  claimqBindInt(p, &s, CQ_LIMIT_OF_JOB_job, iJob);
  if( claimqStep(p, &s) ){
    user.lane = claimqColText(p, &s, CQ_COL_LIMIT_OF_JOB_lane);
    pL = claimqLimitOfLane(p, user.lane, &policy);
  }
  if( pL ){
    user.bAll = !pL->bCounted;
    if( !cqLimitFree(&pL->own, &user) ) zFull = "max_active";
    user.iGroup = claimqColInt(&s, CQ_COL_LIMIT_OF_JOB_group_id);
    user.key = claimqColText(p, &s, CQ_COL_LIMIT_OF_JOB_group_key);
    if( user.iGroup && !cqLimitFree(&pL->group, &user) ){
      zFull = "group_max_active";
    }
  }
  if( zFull ){
    claimqFail(p, CQ_NO_SLOT, "the lease has expired and its slot is taken: "
        "%s of lane '%.*s' allows no more; the claim may still be settled",
        zFull, claimqShown(user.lane), user.lane.z);
  }
  claimqLimitFree(pL);
  claimqStmtDone(p, &s);
}

/**************************************************************************
** Claims
*/

/*
** What the lane lets begin bounds the claim.
*/
CQ_PRIV void claimqLimitBegin(CqOp *p, CqClaim *pC){
  CqLane *pLane = (CqLane*)&pC->own;
  CqLaneLimit *pL;
  claimqLimitFree(pLane->pLimit);
  pLane->pLimit = pL = claimqLimitOfLane(p, pC->aArg[CQ_LANE_LANE].t,
                                         &pLane->policy);
  if( !pC->aArg[CQ_LANE_LEASE].bGiven ){
    pC->iLease = pLane->policy.a[CQ_POLICY_LEASE];
  }
  if( pL==0 ) return;
  claimqLimitClock(p, pL);
  pLane->iNow = claimqNow(p);
  claimqLimitRoomOf(p, pL, 0, claimqStr(0), pC->nMax, &pL->room);
  if( pL->room.nRoom<pC->nMax && !pLane->bFree ) pC->nMax = pL->room.nRoom;
}

/*
** Run a statement whose parameters are the lane and the time.
*/
static void cqLimitExec(CqOp *p, int eStmt, CqText lane){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_LIMIT_BACK_ROW_lane, lane);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  claimqExec(p, &s);
}

/*
** Write that what seems to have begun later than now began now.
*/
CQ_PRIV void claimqLimitBack(CqOp *p, CqLaneLimit *pL, CqText lane){
  CqIds groups;
  CqStmt s;
  memset(&groups, 0, sizeof(groups));
  pL->lane = lane;
  cqLimitExec(p, CQ_SQL_LIMIT_BACK_ROW, lane);
  cqLimitExec(p, CQ_SQL_LIMIT_BACK_STARTS, lane);
  s = claimqStmt(p, CQ_SQL_LIMIT_BACK_WHICH);
  claimqBindText(p, &s, CQ_LIMIT_BACK_WHICH_lane, lane);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  while( claimqStep(p, &s) ){
    claimqIdsAdd(p, &groups,
                 claimqColInt(&s, CQ_COL_LIMIT_BACK_WHICH_group_id));
  }
  claimqStmtDone(p, &s);
  cqLimitExec(p, CQ_SQL_LIMIT_BACK_GROUPS, lane);
  claimqGroupsLook(p, pL, &groups);
  claimqIdsClear(&groups);
}

/*
** Give everything that is held a slot, if the lane counts leases and that is
** not sure yet.  It stands with its group then, which opens when it ends.
*/
CQ_PRIV void claimqLimitCount(CqOp *p, CqLaneLimit *pL){
  CqIds held;
  CqStmt s;
  if( p->rc || !pL->bSlots || pL->bCounted ) return;
  memset(&held, 0, sizeof(held));
  s = claimqStmt(p, CQ_SQL_LIMIT_UNCOUNTED);
  claimqBindText(p, &s, CQ_LIMIT_UNCOUNTED_lane, pL->lane);
  while( claimqStep(p, &s) ){
    claimqIdsAdd(p, &held, claimqColInt(&s, CQ_COL_LIMIT_UNCOUNTED_job_id));
  }
  claimqStmtDone(p, &s);
  s = claimqStmt(p, CQ_SQL_LIMIT_COUNT_NONE);
  claimqBindText(p, &s, CQ_LIMIT_COUNT_NONE_lane, pL->lane);
  claimqExec(p, &s);
  if( held.n ){
    if( pL->bGroups ) claimqGroupStand(p, &held);
    claimqLimitList(p, CQ_SQL_LIMIT_COUNT_JOBS, &held);
    claimqLimitList(p, CQ_SQL_LIMIT_COUNT_SLOTS, &held);
  }
  s = claimqStmt(p, CQ_SQL_LIMIT_COUNTED);
  claimqBindText(p, &s, CQ_LIMIT_COUNTED_lane, pL->lane);
  claimqExec(p, &s);
  pL->bCounted = 1;
  if( pL->bGroups ) claimqGroupSee(p, &held);
  claimqIdsClear(&held);
}

/*
** Run one of the statements like LIMIT_PLACE_GROUPS.
*/
CQ_PRIV void claimqLimitList(CqOp *p, int eStmt, const CqIds *pIds){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindIds(p, &s, CQ_LIMIT_PLACE_GROUPS_ids, pIds);
  claimqExec(p, &s);
}

/*
** A claim begins: write it down, and forget the one that no limit asks for any
** more.
*/
static void cqLimitStarted(
  CqOp *p, const CqLaneLimit *pL, i64 iGroup, i64 iSeq, i64 nRate
){
  CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_START_ADD);
  claimqBindText(p, &s, CQ_LIMIT_START_ADD_lane, pL->lane);
  claimqBindInt(p, &s, CQ_LIMIT_START_ADD_group, iGroup);
  claimqBindInt(p, &s, CQ_LIMIT_START_ADD_seq, iSeq);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  claimqExec(p, &s);
  if( iSeq<=nRate ) return;
  s = claimqStmt(p, CQ_SQL_LIMIT_START_TRIM);
  claimqBindText(p, &s, CQ_LIMIT_START_TRIM_lane, pL->lane);
  claimqBindInt(p, &s, CQ_LIMIT_START_TRIM_group, iGroup);
  claimqBindInt(p, &s, CQ_LIMIT_START_TRIM_seq, iSeq-nRate);
  claimqExec(p, &s);
}

/*
** A claim of the lane (0) or of a group begins now, if there is a rate that
** asks for it.
*/
static void cqLimitStart1(CqOp *p, const CqLaneLimit *pL, i64 iGroup){
  const CqLimit *pLimit = iGroup ? &pL->group : &pL->own;
  CqLimitUse user;
  if( pLimit->nRate<=0 ) return;
  memset(&user, 0, sizeof(user));
  user.p = p;
  user.lane = pL->lane;
  user.iGroup = iGroup;
  cqLimitStarted(p, pL, iGroup,
      1+cqLimitAsk(&user, CQ_SQL_LIMIT_LAST, 0, 0), pLimit->nRate);
}

/*
** One job was taken: its lease counts from now on, and its start.
*/
static void cqLimitTook(
  CqOp *p, CqLaneLimit *pL, i64 iJob, i64 iGroup, i64 iExpires
){
  CqStmt s;
  if( pL->bSlots ){
    s = claimqStmt(p, CQ_SQL_LIMIT_SLOT_ADD);
    claimqBindText(p, &s, CQ_LIMIT_SLOT_ADD_lane, pL->lane);
    claimqBindInt(p, &s, CQ_LIMIT_SLOT_ADD_job, iJob);
    claimqBindInt(p, &s, CQ_LIMIT_SLOT_ADD_group, iGroup);
    claimqBindCommonInt(p, &s, CQ_P_expires, iExpires);
    claimqExec(p, &s);
  }
  cqLimitStart1(p, pL, 0);
  if( iGroup ) cqLimitStart1(p, pL, iGroup);
}

/*
** The jobs of a list were taken, in a lane with limits.  aTurn: their turns, 0
** where groups do not take any; nSpent of the list, the last ones, failed.
** Counts, and looks at the groups again.
*/
CQ_PRIV void claimqLimitTaken(
  CqOp *p, CqTask *pTask, CqLaneLimit *pL, const CqIds *pIds, int nTaken,
  const i64 *aTurn
){
  i64 iTurn = 0, iKeyless = 0;
  CqIds groups, heads;
  CqStmt s;
  int i;
  memset(&groups, 0, sizeof(groups));
  memset(&heads, 0, sizeof(heads));
  for(i=0; i<pIds->n && p->rc==SQLITE_OK; i++){
    i64 iJob = pIds->a[i], iGroup = 0, iHead = 0;
    i64 iMine = aTurn && i<nTaken ? aTurn[i] : 0;
    if( pL->bGroups && i<pL->nPicked ){
      iGroup = claimqGroupPicked(pL, i, &iHead);
    }else if( pL->bGroups ){
      s = claimqStmt(p, CQ_SQL_LIMIT_TAKEN);
      claimqBindInt(p, &s, CQ_LIMIT_TAKEN_job, iJob);
      if( claimqStep(p, &s) ){
        iGroup = claimqColInt(&s, CQ_COL_LIMIT_TAKEN_group_id);
        iHead = claimqColInt(&s, CQ_COL_LIMIT_TAKEN_head_id);
      }
      claimqStmtDone(p, &s);
    }
    if( i<nTaken ){
      cqLimitTook(p, pL, iJob, iGroup,
          claimqRow(pIds->pRows, i)[pIds->iLease+CQ_CLAIM_EXPIRES].u.i);
      if( iMine>iTurn ) iTurn = iMine;
      if( iGroup==0 && iMine>iKeyless ) iKeyless = iMine;
    }
    if( iGroup ) claimqGroupTook(p, pL, iGroup, iHead, iMine, i<nTaken,
                                 &groups, &heads);
  }
  claimqGroupsLook(p, pL, &groups);
  claimqHeadsSee(p, pL, &heads);
  if( nTaken ){
    s = claimqStmt(p, CQ_SQL_LIMIT_BEGUN);
    claimqBindInt(p, &s, CQ_LIMIT_BEGUN_n, nTaken);
    claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
    claimqBindInt(p, &s, CQ_LIMIT_BEGUN_turn, iTurn);
    claimqBindInt(p, &s, CQ_LIMIT_BEGUN_keyless, iKeyless);
    claimqBindText(p, &s, CQ_LIMIT_BEGUN_lane, pL->lane);
    claimqBindInt(p, &s, CQ_LIMIT_BEGUN_begun, pL->nBegun);
    if( claimqExec(p, &s)!=1 ) claimqStale(p, pTask);
  }
  claimqIdsClear(&groups);
  claimqIdsClear(&heads);
}

/**************************************************************************
** Jobs that are given back, renewed, or end
*/

/*
** A job whose lease counts (bSlot), or that stands with a group (iHead), is
** given back or has ended; or its lease now ends at iUntil, if that is not -1.
*/
CQ_PRIV void claimqLimitChanged(CqOp *p, const CqSlotUse *pU, i64 iUntil){
  CqStmt s;
  if( pU->bSlot ){
    s = claimqStmt(p, iUntil<0 ? CQ_SQL_LIMIT_SLOT_FREE
                               : CQ_SQL_LIMIT_SLOT_RENEW);
    claimqBindText(p, &s, CQ_LIMIT_SLOT_FREE_lane, pU->lane);
    claimqBindInt(p, &s, CQ_LIMIT_SLOT_FREE_group, pU->iGroup);
    claimqBindInt(p, &s, CQ_LIMIT_SLOT_FREE_job, pU->iJob);
    claimqBindCommonInt(p, &s, CQ_P_expires, pU->iExpires);
    if( iUntil>=0 ) claimqBindCommonInt(p, &s, CQ_P_until, iUntil);
    claimqExec(p, &s);
  }
  if( pU->iHead && p->rc==SQLITE_OK ) claimqGroupChanged(p, pU);
}

/*
** Before the jobs of a list are written, which end or are given back: which of
** them have a slot or a head.  They are noted in *pList, which the caller frees
** with claimqSlotsFree().
*/
CQ_PRIV void claimqSlotsOf(CqOp *p, const CqIds *pIds, CqSlots *pList){
  CqStmt s;
  memset(pList, 0, sizeof(*pList));
  if( (claimqSettings(p) & CQ_SET_LIMITS)==0 ) return;
  s = claimqStmt(p, CQ_SQL_LIMIT_SLOTS_OF);
  claimqBindIds(p, &s, CQ_LIMIT_SLOTS_OF_ids, pIds);
  while( claimqStep(p, &s) ){
    CqSlotUse *a = pList->a;
    if( (pList->n & (pList->n-1))==0 ){
      a = claimqRealloc(p, a, (pList->n ? pList->n*2 : 1)*(i64)sizeof(*a));
      if( a==0 ) break;
      pList->a = a;
    }
    a += pList->n;
    memset(a, 0, sizeof(*a));
    a->iJob = claimqColInt(&s, CQ_COL_LIMIT_SLOTS_OF_job_id);
    a->bSlot = claimqColType(&s, CQ_COL_LIMIT_SLOTS_OF_slot)!=SQLITE_NULL;
    a->iGroup = claimqColInt(&s, CQ_COL_LIMIT_SLOTS_OF_slot);
    a->iExpires = claimqColInt(&s, CQ_COL_LIMIT_SLOTS_OF_expires_at_ms);
    a->iHead = claimqColInt(&s, CQ_COL_LIMIT_SLOTS_OF_head_id);
    a->lane = claimqColText(p, &s, CQ_COL_LIMIT_SLOTS_OF_lane);
    a->lane.z = claimqTextDup(p, a->lane);
    pList->n++;
  }
  claimqStmtDone(p, &s);
}

/*
** Afterwards, of a claim that took them: the leases they had do not count.
*/
CQ_PRIV void claimqSlotsGone(CqOp *p, CqSlots *pList){
  int i;
  for(i=0; i<pList->n && p->rc==SQLITE_OK; i++){
    pList->a[i].iHead = 0;
    claimqLimitChanged(p, &pList->a[i], -1);
  }
}

/*
** What LIMIT_STAMP and LIMIT_RECLAIM need to know.
*/
CQ_PRIV void claimqLimitStampBind(CqOp *p, CqStmt *pS, const CqLaneLimit *pL){
  claimqBindInt(p, pS, CQ_LANE_STAMP_begun, pL->nBegun);
  if( pL->bSlots ) claimqBindInt(p, pS, CQ_LANE_STAMP_slot, pL->bGroups);
  else claimqBindNull(p, pS, CQ_LANE_STAMP_slot);
}

/*
** Afterwards: they have none any more.
*/
CQ_PRIV void claimqSlotsChanged(CqOp *p, CqSlots *pList){
  int i;
  for(i=0; i<pList->n && p->rc==SQLITE_OK; i++){
    claimqLimitChanged(p, &pList->a[i], -1);
  }
}

CQ_PRIV void claimqSlotsFree(CqSlots *pList){
  int i;
  for(i=0; i<pList->n; i++) sqlite3_free((char*)pList->a[i].lane.z);
  sqlite3_free(pList->a);
}

/**************************************************************************
** claimq__opens(lane, group_id, now_ms, group_key): from when on the limits of
** a lane (group_id 0) or of a group let one more claim begin; -1: at any time.
** For statements of claimq's own: claimq_check asks here, so that the rule is
** stated once.
*/
CQ_PRIV void claimqLimitOpens(CqOp *p, CqCall *pCall){
  CqPolicy policy;
  CqLaneLimit *pL = claimqLimitOfLane(p,
      claimqTextOrNull(p, pCall->apVal[0]), &policy);
  i64 iOpens = -1;
  if( pL ){
    p->iNow = sqlite3_value_int64(pCall->apVal[2]);
    p->bNow = 1;
    p->bClock = 0;
    iOpens = claimqGroupOpens(p, pL, sqlite3_value_int64(pCall->apVal[1]),
        claimqTextOrNull(p, pCall->apVal[3]));
  }
  claimqLimitFree(pL);
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCall->pCtx, iOpens);
}
