/*
** lane/group.c: groups of a lane that are limited, or take turns.
**
**     SELECT claimq_policy('mail', 'group_max_active', 1, 'fair', 1);    -- 1
**     SELECT claimq_submit('mail', 'a1', 'group_key', 'a');             -- 1
**     SELECT claimq_submit('mail', 'a2', 'group_key', 'a');             -- 2
**     SELECT claimq_submit('mail', 'b1', 'group_key', 'b');             -- 3
**     SELECT payload FROM claimq_lane('mail', 'w', 30000, 10);      -- a1, b1
**
** A lane in which groups are limited or take turns keeps a row for each group,
** in claimq_group, and for each group, partition and set of capabilities one in
** claimq_head, which names the first job there and when it may be taken.  A
** claim reads the heads of the sets that its worker satisfies:
**
**     LIMIT_OPEN    those that may be taken from, in order, as many as the
**                   claim wants jobs
**     LIMIT_LATE    those of which something has fallen due: all of them, and
**                   if they are many they are moved to the open ones
**
** It does not look at groups that are at their limit, nor at the jobs behind
** their first ones, however many there are.  For each head that it reads, a
** claim asks the group how many claims may begin, and reads its best jobs;
** claimqLimitPick() decides which of them are taken.
**
** Jobs without a group_key stay in the set that their capabilities say, as in
** every lane.  The claim reads these sets, too, as if each were a head of a
** group that has no limits.
**
** A job comes into the table without a head: any program may have put it there,
** and the lane may have got its limits later.  The next claim that finds such
** jobs gives them their heads, at most CQ_PLACE_MOST; if more are left it reads
** them one by one (LIMIT_UNPLACED), so that the answer is the same.
**
** A head is a hint, updated by whatever changes the facts behind it: a claim, a
** verb, a submit.  After a change of the limits all groups are looked at again,
** some by each claim; until that is done, groups that seem to be closed are
** asked, too.
*/
#include "lane.h"

typedef struct CqGroupUse CqGroupUse;
struct CqGroupUse {
  i64 iGroup;                     /* 0: the jobs without a group; negative:
                                  ** not in claimq_group yet */
  CqRoom room;
  i64 nLoose;                     /* Jobs offered that have no head */
};
typedef struct CqHeadUse CqHeadUse;
struct CqHeadUse {
  CqSet set;
  int iGroup;                     /* In aGroup */
  i64 iTurn;
  i64 nAsked;                     /* Jobs that were asked for */
  int nGot;
};
typedef struct CqNewGroup CqNewGroup;
struct CqNewGroup {
  CqText key;
  u32 h;                          /* Its hash */
  i64 iGroup;                     /* The number it was given; 0: free */
};

/**************************************************************************
** Groups that were looked at
*/

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
static int cqLimitGroup(
  CqOp *p, CqLaneLimit *pL, i64 iGroup, CqText key, i64 nWant
){
  CqGroupUse *pG;
  int *piPlace;
  if( p->rc || !cqLimitRehash(p, pL)
   || !claimqGrow(p, (void**)&pL->aGroup, pL->nGroup, &pL->nGroupAlloc,
                   sizeof(CqGroupUse)) ){
    return -1;
  }
  piPlace = cqLimitSlot(pL, iGroup);
  if( *piPlace==0 ){
    pG = &pL->aGroup[pL->nGroup];
    memset(pG, 0, sizeof(*pG));
    pG->iGroup = iGroup;
    pG->room.nRoom = nWant;
    if( iGroup ) claimqLimitRoomOf(p, pL, iGroup, key, nWant, &pG->room);
    *piPlace = ++pL->nGroup;
  }
  assert( *piPlace>0 && pL->aGroup[*piPlace-1].iGroup==iGroup );
  return p->rc ? -1 : *piPlace-1;
}

/*
** A number for a group that is not in claimq_group yet: each group_key has one,
** which is negative.  0 if there is no memory.
*/
static i64 cqLimitNewGroup(CqOp *p, CqLaneLimit *pL, CqText key){
  u32 h = 2166136261u;
  int i, nNew;
  for(i=0; i<key.n; i++) h = (h ^ (u8)key.z[i])*16777619u;
  if( pL->nNew*2>=pL->nNewHash ){
    CqNewGroup *aNew;
    int nHash = pL->nNewHash ? pL->nNewHash*4 : 64;
    aNew = claimqMalloc(p, nHash*(i64)sizeof(*aNew));
    if( aNew==0 ) return 0;
    for(i=0; i<pL->nNewHash; i++){
      u32 k = pL->aNew[i].h;
      if( pL->aNew[i].iGroup==0 ) continue;
      while( aNew[k & (u32)(nHash-1)].iGroup ) k++;
      aNew[k & (u32)(nHash-1)] = pL->aNew[i];
    }
    sqlite3_free(pL->aNew);
    pL->aNew = aNew;
    pL->nNewHash = nHash;
  }
  nNew = pL->nNewHash-1;
  for(i=(int)(h & (u32)nNew); pL->aNew[i].iGroup; i=(i+1)&nNew){
    if( pL->aNew[i].h==h && claimqTextEq(pL->aNew[i].key, key) ){
      return pL->aNew[i].iGroup;
    }
  }
  pL->aNew[i].key.z = claimqTextDup(p, key);
  if( pL->aNew[i].key.z==0 ) return 0;
  pL->aNew[i].key.n = key.n;
  pL->aNew[i].h = h;
  pL->aNew[i].iGroup = -++pL->nNew;
  return -pL->nNew;
}

/*
** Whether group iGroup lets a claim begin; 0 after an error.  One that is not
** in claimq_group (-1) has a number for its key.
*/
CQ_PRIV const CqRoom *claimqGroupRoom(
  CqOp *p, CqLaneLimit *pL, i64 iGroup, CqText key
){
  int i;
  if( iGroup<0 ) iGroup = cqLimitNewGroup(p, pL, key);
  i = cqLimitGroup(p, pL, iGroup, key, 1);
  return i<0 ? 0 : &pL->aGroup[i].room;
}

/*
** Free what was found out about groups.
*/
CQ_PRIV void claimqGroupFree(CqLaneLimit *pL){
  int i;
  for(i=0; i<pL->nNewHash; i++) sqlite3_free((char*)pL->aNew[i].key.z);
  sqlite3_free(pL->aNew);
  sqlite3_free(pL->aGroup);
  sqlite3_free(pL->aHash);
  sqlite3_free(pL->aHead);
  sqlite3_free(pL->aOffer);
  sqlite3_free(pL->aTurn);
  claimqIdsClear(&pL->late);
  claimqIdsClear(&pL->wrong);
  claimqIdsClear(&pL->loose);
  sqlite3_free(pL->empty.a);
}

/**************************************************************************
** Choosing jobs
*/

/*
** Ask a head for its best jobs, nAsked of them, and offer these.
*/
static void cqLimitRead(CqOp *p, CqClaim *pC, int iHead){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  CqHeadUse *pH = &pL->aHead[iHead];
  const CqJobKey *a;
  int n, i;
  n = claimqLaneBest(p, pC, &pH->set, pH->nAsked, &a);
  assert( n<=pH->nAsked && pH->nAsked<=pC->nMax );
  pH->nGot = 0;
  for(i=0; i<n && claimqGrow(p, (void**)&pL->aOffer, pL->nOffer,
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

#define CQ_ASK_FIRST 4            /* Jobs of a head to begin with */

/*
** Offer the jobs of a set that belongs to a group.  Returns 1 if it has any; if
** it has none, note what tells when it will.
*/
static int cqLimitHead(
  CqOp *p, CqClaim *pC, const CqSet *pSet, i64 iGroup, i64 iTurn
){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  CqHeadUse *pH;
  i64 nRoom;
  CqText none = {0, 0};
  int i = cqLimitGroup(p, pL, iGroup, none, pC->nMax);
  if( i<0 ) return 0;
  nRoom = pL->aGroup[i].room.nRoom;
  if( nRoom==0 && pL->aGroup[i].room.eWhy!=CQ_LIMIT_PAUSED ){
    pL->iOpens = claimqSooner(pL->iOpens, pL->aGroup[i].room.iNext);
  }
  if( nRoom==0 || !claimqGrow(p, (void**)&pL->aHead, pL->nHead,
                               &pL->nHeadAlloc, sizeof(CqHeadUse)) ){
    return 0;
  }
  assert( nRoom<=pC->nMax );
  pH = &pL->aHead[pL->nHead];
  memset(pH, 0, sizeof(*pH));
  pH->set = *pSet;
  pH->iGroup = i;
  pH->iTurn = iTurn;
  pH->nAsked = nRoom<CQ_ASK_FIRST ? nRoom : CQ_ASK_FIRST;
  cqLimitRead(p, pC, pL->nHead);
  if( pH->nGot==0 ){
    if( iGroup ) claimqSetsAdd(p, &pL->empty, pSet);
    return 0;
  }
  pL->nHead++;
  return 1;
}

/*
** Turns up to this one do not count.
*/
static i64 cqLimitForgotten(const CqLaneLimit *pL){
  return pL->bFair ? pL->iFairFrom : CQ_I64_MAX;
}

/*
** Take LIMIT_OPEN or a statement like it.
*/
static CqStmt cqLimitStmt(CqOp *p, CqClaim *pC, int eStmt, const CqSet *pSet){
  const CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_LIMIT_OPEN_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LIMIT_OPEN_partition, pSet->iPartition);
  claimqBindText(p, &s, CQ_LIMIT_OPEN_capabilities, pSet->bucket);
  claimqBindInt(p, &s, CQ_LIMIT_OPEN_fair_from, cqLimitForgotten(pL));
  if( eStmt==CQ_SQL_LIMIT_CLOSED ){
    claimqBindText(p, &s, CQ_LIMIT_OPEN_from, pL->from);
  }
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
static int cqLimitOffer(
  CqOp *p, CqClaim *pC, const CqStmt *pS, i64 iPartition
){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  i64 iTurn = pL->bFair ? claimqColInt(pS, CQ_COL_LIMIT_OPEN_group_turn) : 0;
  CqSet set;
  int bRight;
  memset(&set, 0, sizeof(set));
  set.iPartition = iPartition;
  set.iHead = claimqColInt(pS, CQ_COL_LIMIT_OPEN_head_id);
  bRight = cqLimitHead(p, pC, &set,
               claimqColInt(pS, CQ_COL_LIMIT_OPEN_group_id), iTurn)
        && claimqColInt(pS, CQ_COL_LIMIT_OPEN_turn)==iTurn;
  if( !bRight ) claimqIdsAdd(p, &pL->wrong, set.iHead);
  return bRight;
}

/*
** Offer what heads of a set have that a statement brings: all of them.
*/
static void cqLimitEach(CqOp *p, CqClaim *pC, int eStmt, const CqSet *pSet){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  CqStmt s = cqLimitStmt(p, pC, eStmt, pSet);
  while( claimqStep(p, &s) ){
    claimqIdsAdd(p, &pL->late, claimqColInt(&s, CQ_COL_LIMIT_OPEN_head_id));
    cqLimitOffer(p, pC, &s, pSet->iPartition);
  }
  claimqStmtDone(p, &s);
}

/*
** Offer what the heads of a set of capabilities have: what has fallen due, and
** of the open ones the first nMax that keep what they promise.  If the limits
** have changed, also those that seem to be closed, or stand at a turn that does
** not count any more.
*/
static void cqLimitHeads(CqOp *p, CqClaim *pC, const CqSet *pSet){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  int nLate = pL->late.n;
  i64 nGood = 0;
  CqStmt s;
  cqLimitEach(p, pC, CQ_SQL_LIMIT_LATE, pSet);
  if( pL->from.z ){
    cqLimitEach(p, pC, CQ_SQL_LIMIT_CLOSED, pSet);
    cqLimitEach(p, pC, CQ_SQL_LIMIT_BEHIND, pSet);
  }
  s = cqLimitStmt(p, pC, CQ_SQL_LIMIT_OPEN, pSet);
  while( nGood<pC->nMax && claimqStep(p, &s) ){
    i64 iHead = claimqColInt(&s, CQ_COL_LIMIT_OPEN_head_id);
    i64 iTurn = claimqColInt(&s, CQ_COL_LIMIT_OPEN_turn);
    if( pL->from.z && iTurn>0 && iTurn<=cqLimitForgotten(pL) ) continue;
    if( cqLimitAmong(&pL->late, nLate, iHead) ) continue;
    if( cqLimitOffer(p, pC, &s, pSet->iPartition) ){
      nGood += cqLimitKept(pL, &s);
    }
  }
  claimqStmtDone(p, &s);
}

/**************************************************************************
** Jobs that do not stand with their group yet
*/

/*
** Offer the job that pS, LIMIT_UNPLACED, stands on.  Returns 1 if nothing
** behind it can go before it.
*/
static int cqLimitLoose(CqOp *p, CqClaim *pC, const CqStmt *pS){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  i64 iGroup = claimqColInt(pS, CQ_COL_LIMIT_UNPLACED_group_id);
  i64 iTurn = pL->bFair ? claimqColInt(pS, CQ_COL_LIMIT_UNPLACED_turn) : 0;
  CqText key = claimqColText(p, pS, CQ_COL_LIMIT_UNPLACED_group_key);
  CqGroupUse *pG;
  CqOffer *pO;
  int i;
  if( iGroup==0 ){
    iGroup = cqLimitNewGroup(p, pL, key);
  }
  if( p->rc || (i = cqLimitGroup(p, pL, iGroup, key, pC->nMax))<0 ) return 0;
  pG = &pL->aGroup[i];
  if( pG->room.nRoom==0 && pG->room.eWhy!=CQ_LIMIT_PAUSED ){
    pL->iOpens = claimqSooner(pL->iOpens, pG->room.iNext);
  }
  assert( pG->room.nRoom<=pC->nMax );
  if( pG->nLoose>=pG->room.nRoom
   || !claimqGrow(p, (void**)&pL->aOffer, pL->nOffer, &pL->nOfferAlloc,
                  sizeof(CqOffer))
  ){
    return 0;
  }
  pO = &pL->aOffer[pL->nOffer++];
  memset(pO, 0, sizeof(*pO));
  pO->key.iJob = claimqColInt(pS, CQ_COL_LIMIT_UNPLACED_job_id);
  pO->key.iPriority = claimqColInt(pS, CQ_COL_LIMIT_UNPLACED_priority);
  pO->key.iCreated = claimqColInt(pS, CQ_COL_LIMIT_UNPLACED_created_at_ms);
  pO->iGroup = i;
  pO->nRoom = pG->room.nRoom;
  pO->iTurn = iTurn;
  pO->iHead = -1;
  return pG->nLoose++==0 ? iTurn==0 : !pL->bFair;
}

/*
** Offer the jobs of a set that have a group and do not stand with it yet.  They
** are read in order, until enough are found that none behind them can matter.
*/
static void cqLimitUnplaced(CqOp *p, CqClaim *pC, const CqSet *pSet){
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_UNPLACED);
  i64 nSure = 0;
  int bDue = 0;
  claimqBindText(p, &s, CQ_LIMIT_UNPLACED_lane, pC->aArg[CQ_LANE_LANE].t);
  claimqBindInt(p, &s, CQ_LIMIT_UNPLACED_partition, pSet->iPartition);
  claimqBindText(p, &s, CQ_LIMIT_UNPLACED_set, pSet->bucket);
  claimqBindInt(p, &s, CQ_LIMIT_UNPLACED_fair_from, pL->iFairFrom);
  claimqBindPointer(p, &s, CQ_LIMIT_UNPLACED_who, &pC->own, CQ_LANE_TYPE);
  claimqBindInt(p, &s, CQ_LIMIT_UNPLACED_open, claimqLaneOpen(pC));
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  while( claimqStep(p, &s) ){
    if( claimqColInt(&s, CQ_COL_LIMIT_UNPLACED_due)>=0 ) bDue = 1;
    else if( nSure>=pC->nMax ) continue;
    nSure += cqLimitLoose(p, pC, &s);
    if( !bDue && nSure>=pC->nMax && !claimqLaneWaited(p, pC, pSet) ) break;
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
    const CqHeadUse *pH = pO->iHead<0 ? 0 : &pL->aHead[pO->iHead];
    assert( pO->nRoom<=pC->nMax );
    if( pH && pO->iPos==pH->nAsked-1 && pH->nAsked<pO->nRoom ){
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
  pC->ids.nTurn = nTake;
}

/*
** Where the i-th of the jobs that were chosen stands: its group, or 0; and its
** head, or 0.
*/
CQ_PRIV i64 claimqGroupPicked(const CqLaneLimit *pL, int i, i64 *piHead){
  const CqOffer *pO;
  *piHead = 0;
  if( i>=pL->nPicked ) return 0;
  pO = &pL->aOffer[i];
  assert( pO->iHead>=0 );
  *piHead = pL->aHead[pO->iHead].set.iHead;
  return pL->aGroup[pO->iGroup].iGroup;
}

/*
** Pick jobs in a lane that keeps groups: collect what the sets offer, and let
** core/limit.c choose.
*/
CQ_PRIV void claimqLimitChoose(CqOp *p, CqClaim *pC){
  CqLane *pLane = (CqLane*)&pC->own;
  CqLaneLimit *pL = pLane->pLimit;
  int i, nTake;
  assert( pL!=0 && pL->bGroups && pL->nOffer==0 && pC->nMax>0 );
  for(i=0; i<pLane->sets.n && p->rc==SQLITE_OK; i++){
    const CqSet *pSet = &pLane->sets.a[i];
    if( pSet->eKind==CQ_SET_HEADS ) cqLimitHeads(p, pC, pSet);
    else if( pSet->eKind==CQ_SET_LOOSE ) cqLimitUnplaced(p, pC, pSet);
    else cqLimitHead(p, pC, pSet, 0, pL->bFair ? pL->iKeyless : 0);
  }
  do{
    nTake = claimqLimitPick(pL->aOffer, pL->nOffer, pC->nMax, pL->bFair);
  }while( cqLimitMore(p, pC, nTake) );
  for(i=0; i<nTake; i++){
    if( pL->aOffer[i].iHead<0 ){
      claimqIdsAdd(p, &pL->loose, pL->aOffer[i].key.iJob);
    }
  }
  cqLimitTurns(p, pC, nTake);
  pL->nPicked = pL->loose.n ? 0 : nTake;
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
    iAt = claimqSooner(iAt, claimqLaneLater(p, pC, &pL->empty.a[i]));
  }
  return iAt;
}

/*
** When a claim of a lane that keeps groups will find something that it does not
** find now; CQ_NO_TIME if time alone does not help.
*/
CQ_PRIV i64 claimqLimitLater(CqOp *p, CqClaim *pC){
  CqLane *pLane = (CqLane*)&pC->own;
  CqLaneLimit *pL = pLane->pLimit;
  i64 iAt = CQ_NO_TIME;
  int i;
  if( p->rc || pL==0 || !pL->bGroups ) return iAt;
  iAt = cqLimitMet(p, pC);
  if( pL->bBack && pL->group.nRate>0 ){
    iAt = claimqSooner(iAt, claimqAddSat(claimqNow(p), pL->group.nPer));
  }
  for(i=0; i<pLane->sets.n && p->rc==SQLITE_OK; i++){
    const CqSet *pSet = &pLane->sets.a[i];
    CqStmt s;
    if( pSet->eKind!=CQ_SET_HEADS ) continue;
    s = claimqStmt(p, CQ_SQL_LIMIT_WHEN);
    claimqBindText(p, &s, CQ_LIMIT_WHEN_lane, pC->aArg[CQ_LANE_LANE].t);
    claimqBindInt(p, &s, CQ_LIMIT_WHEN_partition, pSet->iPartition);
    claimqBindText(p, &s, CQ_LIMIT_WHEN_capabilities, pSet->bucket);
    claimqBindText(p, &s, CQ_LIMIT_WHEN_from, pL->from);
    claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
    if( claimqStep(p, &s) ){
      i64 iWhen = claimqColTime(&s, CQ_COL_LIMIT_WHEN_at_ms);
      if( iWhen==CQ_I64_MAX ) iWhen = CQ_NO_TIME;   /* A group at its limit 0 */
      iAt = claimqSooner(iAt, iWhen);
    }
    claimqStmtDone(p, &s);
  }
  return iAt;
}

/**************************************************************************
** Upkeep
*/

/*
** From when on the limits of a group, or of the lane (0), let one more claim
** begin; -1: now.
*/
CQ_PRIV i64 claimqGroupOpens(
  CqOp *p, const CqLaneLimit *pL, i64 iGroup, CqText key
){
  CqRoom room;
  claimqLimitRoomOf(p, pL, iGroup, key, 1, &room);
  return room.eWhy==CQ_LIMIT_NONE ? -1 : room.iNext;
}

/* What heads are looked at with. */
typedef struct CqSight CqSight;
struct CqSight {
  CqLaneLimit *pL;                /* Limits of the lane, if they are known */
  CqLaneLimit *pOwn;              /* They were read here */
  i64 iGroup;                     /* The group that was asked last; or 0 */
  i64 iOpens;                     /* What it said */
};

static void cqSightDone(CqSight *pS){
  if( pS->pOwn ) sqlite3_free((char*)pS->pOwn->lane.z);
  claimqLimitFree(pS->pOwn);
  pS->pOwn = pS->pL = 0;
}

/*
** When the group of the head that pSeen, LIMIT_SEEN, stands on lets a claim
** begin; -1: now, or op has an error.  Where nobody has counted yet what is
** held, the next claim will find out.  All heads are of one lane.
*/
static i64 cqSightOpens(CqOp *p, CqSight *pS, const CqStmt *pSeen){
  i64 iGroup = claimqColInt(pSeen, CQ_COL_LIMIT_SEEN_group_id);
  if( pS->pL==0 ){
    CqText lane = claimqColText(p, pSeen, CQ_COL_LIMIT_SEEN_lane);
    CqPolicy policy;
    pS->pL = pS->pOwn = claimqLimitOfLane(p, lane, &policy);
    if( pS->pL ) pS->pL->lane.z = claimqTextDup(p, lane);
  }
  if( pS->pL==0 ) return -1;
  if( iGroup!=pS->iGroup ){
    pS->iGroup = iGroup;
    pS->iOpens = pS->pL->group.nActive>0 && !pS->pL->bCounted ? -1
        : claimqGroupOpens(p, pS->pL, iGroup, claimqStr(0));
  }
  return pS->iOpens;
}

#define CQ_HINT_PLACE    0        /* What a head tells */
#define CQ_HINT_DUE      1
#define CQ_HINT_TURN     2
#define CQ_HINT_JOB      3
#define CQ_HINT_PRIORITY 4
#define CQ_HINT_CREATED  5
#define CQ_NHINT         6
typedef struct CqHint CqHint;
struct CqHint {
  i64 a[CQ_NHINT];
  u8 aHas[CQ_NHINT];              /* 0: NULL */
};

static void cqHintSet(CqHint *pHint, int i, i64 iVal){
  pHint->a[i] = iVal;
  pHint->aHas[i] = 1;
}

/*
** What the head that pSeen, LIMIT_SEEN, stands on is to tell, into *pHint.
*/
static void cqHeadHint(
  CqOp *p, CqSight *pS, const CqStmt *pSeen, CqHint *pHint
){
  i64 iTurn = claimqColInt(pSeen, CQ_COL_LIMIT_SEEN_turn);
  memset(pHint, 0, sizeof(*pHint));
  if( claimqColType(pSeen, CQ_COL_LIMIT_SEEN_first_due)!=SQLITE_NULL ){
    i64 iFirst = claimqColInt(pSeen, CQ_COL_LIMIT_SEEN_first_due);
    i64 iOpens = cqSightOpens(p, pS, pSeen);
    i64 iWait = claimqColTime(pSeen, CQ_COL_LIMIT_SEEN_wait);
    cqHintSet(pHint, CQ_HINT_PLACE, iFirst>iOpens ? iFirst : iOpens);
    if( iFirst<0 ){
      if( iOpens<0 && iWait!=CQ_NO_TIME ){
        cqHintSet(pHint, CQ_HINT_DUE, iWait);
      }
      cqHintSet(pHint, CQ_HINT_JOB,
                claimqColInt(pSeen, CQ_COL_LIMIT_SEEN_first_id));
      cqHintSet(pHint, CQ_HINT_PRIORITY,
                claimqColInt(pSeen, CQ_COL_LIMIT_SEEN_first_priority));
      cqHintSet(pHint, CQ_HINT_CREATED,
                claimqColInt(pSeen, CQ_COL_LIMIT_SEEN_first_created));
    }
  }
  if( pS->pL ){
    iTurn = claimqColInt(pSeen, CQ_COL_LIMIT_SEEN_group_turn);
    if( !pS->pL->bFair || iTurn<=pS->pL->iFairFrom ) iTurn = 0;
  }
  cqHintSet(pHint, CQ_HINT_TURN, iTurn);
}

/*
** Look at a head again, and write down what was seen if that is not what it
** tells.
*/
static void cqHeadSee(CqOp *p, CqSight *pS, i64 iHead){
  static const struct { int iCol, iParam; } a[CQ_NHINT] = {
    { CQ_COL_LIMIT_SEEN_place, CQ_LIMIT_SEE_place },
    { CQ_COL_LIMIT_SEEN_due, CQ_LIMIT_SEE_due },
    { CQ_COL_LIMIT_SEEN_turn, CQ_LIMIT_SEE_turn },
    { CQ_COL_LIMIT_SEEN_job_id, CQ_LIMIT_SEE_job },
    { CQ_COL_LIMIT_SEEN_priority, CQ_LIMIT_SEE_priority },
    { CQ_COL_LIMIT_SEEN_created_at_ms, CQ_LIMIT_SEE_created_at_ms },
  };
  CqStmt seen = claimqStmt(p, CQ_SQL_LIMIT_SEEN), s;
  CqHint hint;
  int i, bWrite = 0;
  claimqBindInt(p, &seen, CQ_LIMIT_SEEN_head_id, iHead);
  if( claimqStep(p, &seen) ){
    cqHeadHint(p, pS, &seen, &hint);
    for(i=0; i<CQ_NHINT; i++){
      bWrite |= claimqColInt(&seen, a[i].iCol)!=hint.a[i]
             || (claimqColType(&seen, a[i].iCol)!=SQLITE_NULL)!=hint.aHas[i];
    }
  }
  claimqStmtDone(p, &seen);
  if( p->rc || !bWrite ) return;
  s = claimqStmt(p, CQ_SQL_LIMIT_SEE);
  claimqBindInt(p, &s, CQ_LIMIT_SEE_head_id, iHead);
  for(i=0; i<CQ_NHINT; i++){
    if( hint.aHas[i] ) claimqBindInt(p, &s, a[i].iParam, hint.a[i]);
    else claimqBindNull(p, &s, a[i].iParam);
  }
  claimqExec(p, &s);
}

/*
** Look at the heads of a list again.
*/
CQ_PRIV void claimqHeadsSee(CqOp *p, CqLaneLimit *pL, const CqIds *pIds){
  CqSight sight;
  int i;
  memset(&sight, 0, sizeof(sight));
  sight.pL = pL;
  for(i=0; i<pIds->n && p->rc==SQLITE_OK; i++) cqHeadSee(p, &sight, pIds->a[i]);
  cqSightDone(&sight);
}

/*
** Look at groups again: at all of their heads.
*/
CQ_PRIV void claimqGroupsLook(CqOp *p, CqLaneLimit *pL, const CqIds *pIds){
  CqIds heads;
  int i;
  memset(&heads, 0, sizeof(heads));
  for(i=0; i<pIds->n && p->rc==SQLITE_OK; i++){
    CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_HEADS_OF);
    claimqBindInt(p, &s, CQ_LIMIT_HEADS_OF_group, pIds->a[i]);
    while( claimqStep(p, &s) ){
      claimqIdsAdd(p, &heads, claimqColInt(&s, CQ_COL_LIMIT_HEADS_OF_head_id));
    }
    claimqStmtDone(p, &s);
  }
  claimqHeadsSee(p, pL, &heads);
  claimqIdsClear(&heads);
}

/*
** A job of a group was taken at turn iTurn (bTook), or failed.  If the group is
** closed now, or takes turns, all of its heads are to be looked at: it is added
** to *pGroups; else only the head of the job.
*/
CQ_PRIV void claimqGroupTook(
  CqOp *p, CqLaneLimit *pL, i64 iGroup, i64 iHead, i64 iTurn, int bTook,
  CqIds *pGroups, CqIds *pHeads
){
  CqStmt s;
  int i;
  if( bTook && (pL->bFair || pL->group.nRate>0) ){
    s = claimqStmt(p, CQ_SQL_LIMIT_GROUP_BEGUN);
    claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
    claimqBindInt(p, &s, CQ_LIMIT_GROUP_BEGUN_turn, iTurn);
    claimqBindInt(p, &s, CQ_LIMIT_GROUP_BEGUN_group, iGroup);
    claimqExec(p, &s);
  }
  for(i=0; i<pGroups->n && pGroups->a[i]!=iGroup; i++){}
  if( i<pGroups->n ) return;
  if( pL->bFair || pL->group.nActive>=0 || pL->group.nRate>=0 || !bTook ){
    claimqIdsAdd(p, pGroups, iGroup);
  }else if( CQ_ALWAYS(iHead) ){
    claimqIdsAdd(p, pHeads, iHead);
  }
}

/*
** Something happened to a job that stands with a group, or to its lease.  If it
** waited for a grant, its head may have gone meanwhile (claimqLaneForget()):
** the next claim gives it another.
*/
CQ_PRIV void claimqGroupChanged(CqOp *p, const CqSlotUse *pU){
  i64 iGroup = pU->iGroup;
  CqIds one = claimqLaneOne(&iGroup);
  if( iGroup==0 ){
    CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_GROUP_OF);
    claimqBindInt(p, &s, CQ_LIMIT_GROUP_OF_head_id, pU->iHead);
    if( claimqStep(p, &s) ){
      iGroup = claimqColInt(&s, CQ_COL_LIMIT_GROUP_OF_group_id);
    }
    claimqStmtDone(p, &s);
    if( iGroup==0 && p->rc==SQLITE_OK ){
      s = claimqStmt(p, CQ_SQL_LIMIT_HEADLESS);
      claimqBindInt(p, &s, CQ_LIMIT_HEADLESS_job, pU->iJob);
      claimqExec(p, &s);
    }
  }
  claimqGroupsLook(p, 0, &one);
}

/*
** Look again at the heads that the jobs of a list stand with.
*/
CQ_PRIV void claimqGroupSee(CqOp *p, const CqIds *pIds){
  CqIds heads;
  CqStmt s = claimqStmt(p, CQ_SQL_LIMIT_PLACED);
  memset(&heads, 0, sizeof(heads));
  claimqBindIds(p, &s, CQ_LIMIT_PLACED_ids, pIds);
  while( claimqStep(p, &s) ){
    claimqIdsAdd(p, &heads, claimqColInt(&s, CQ_COL_LIMIT_PLACED_head_id));
  }
  claimqStmtDone(p, &s);
  claimqHeadsSee(p, 0, &heads);
  claimqIdsClear(&heads);
}

/*
** Let the jobs of a list stand with their groups.
*/
CQ_PRIV void claimqGroupStand(CqOp *p, const CqIds *pIds){
  claimqLimitList(p, CQ_SQL_LIMIT_PLACE_GROUPS, pIds);
  claimqLimitList(p, CQ_SQL_LIMIT_PLACE_HEADS, pIds);
  claimqLimitList(p, CQ_SQL_LIMIT_PLACE_JOBS, pIds);
}

/*
** The same; then look at their heads.
*/
CQ_PRIV void claimqGroupPlace(CqOp *p, const CqIds *pIds){
  if( p->rc || pIds->n==0 ) return;
  claimqGroupStand(p, pIds);
  claimqGroupSee(p, pIds);
}

/*
** Let jobs that the claim has found stand with their groups, CQ_PLACE_MOST at
** most.
*/
CQ_PRIV void claimqGroupPlaceSome(CqOp *p, CqClaim *pC){
  CqLane *pLane = (CqLane*)&pC->own;
  CqIds ids;
  int i;
  memset(&ids, 0, sizeof(ids));
  for(i=0; i<pLane->sets.n && ids.n<CQ_PLACE_MOST && p->rc==SQLITE_OK; i++){
    const CqSet *pSet = &pLane->sets.a[i];
    CqStmt s;
    if( pSet->eKind!=CQ_SET_LOOSE ) continue;
    s = claimqStmt(p, CQ_SQL_LIMIT_TO_PLACE);
    claimqBindText(p, &s, CQ_LIMIT_TO_PLACE_lane, pC->aArg[CQ_LANE_LANE].t);
    claimqBindInt(p, &s, CQ_LIMIT_TO_PLACE_partition, pSet->iPartition);
    claimqBindText(p, &s, CQ_LIMIT_TO_PLACE_set, pSet->bucket);
    claimqBindInt(p, &s, CQ_LIMIT_TO_PLACE_limit, CQ_PLACE_MOST-ids.n);
    while( claimqStep(p, &s) ){
      claimqIdsAdd(p, &ids, claimqColInt(&s, CQ_COL_LIMIT_TO_PLACE_job_id));
    }
    claimqStmtDone(p, &s);
  }
  claimqGroupPlace(p, &ids);
  claimqIdsClear(&ids);
}

/*
** The limits have changed: look at some of the groups again that nobody has
** looked at since.
*/
CQ_PRIV void claimqGroupLookSome(CqOp *p, CqLaneLimit *pL){
  CqText last = {0, 0};
  CqIds ids;
  CqStmt s;
  int bLast = 0;
  if( p->rc || pL->from.z==0 ) return;
  memset(&ids, 0, sizeof(ids));
  s = claimqStmt(p, CQ_SQL_LIMIT_GROUPS_FROM);
  claimqBindText(p, &s, CQ_LIMIT_GROUPS_FROM_lane, pL->lane);
  claimqBindText(p, &s, CQ_LIMIT_GROUPS_FROM_from, pL->from);
  claimqBindInt(p, &s, CQ_LIMIT_GROUPS_FROM_limit, CQ_PLACE_MOST);
  while( claimqStep(p, &s) ){
    claimqIdsAdd(p, &ids, claimqColInt(&s, CQ_COL_LIMIT_GROUPS_FROM_group_id));
    if( ids.n==CQ_PLACE_MOST ){
      last = claimqColText(p, &s, CQ_COL_LIMIT_GROUPS_FROM_group_key);
      last.z = claimqTextDup(p, last);
      bLast = 1;
    }
  }
  claimqStmtDone(p, &s);
  claimqGroupsLook(p, pL, &ids);
  s = claimqStmt(p, CQ_SQL_LIMIT_LOOKED);
  claimqBindText(p, &s, CQ_LIMIT_LOOKED_lane, pL->lane);
  if( bLast ) claimqBindText(p, &s, CQ_LIMIT_LOOKED_from, last);
  else claimqBindNull(p, &s, CQ_LIMIT_LOOKED_from);
  claimqExec(p, &s);
  sqlite3_free((char*)last.z);
  claimqIdsClear(&ids);
}

/*
** Upkeep: many heads of which something has fallen due; heads of which many
** jobs have, which claimqLaneTidy() has moved; heads that promised what they
** have not.
*/
CQ_PRIV void claimqLimitTidy(CqOp *p, CqClaim *pC){
  const CqSets *pMoved = &((CqLane*)&pC->own)->late;
  CqLaneLimit *pL = ((CqLane*)&pC->own)->pLimit;
  i64 nMost = CQ_DUE_MOST;
  CqIds groups;
  CqStmt s;
  int i;
  if( pL==0 ) return;
  memset(&groups, 0, sizeof(groups));
  if( pL->late.n>CQ_DUE_MOST ) pL->late.n = CQ_DUE_MOST;
  for(i=0; i<pL->late.n && nMost>0; i++){
    nMost -= claimqHeadPromote(p, pC, pL->late.a[i], nMost);
  }
  /* Of those that promised too much some will do; not of those that moved. */
  if( pL->wrong.n>CQ_PLACE_MOST ) pL->wrong.n = CQ_PLACE_MOST;
  for(i=0; i<pL->late.n; i++) claimqIdsAdd(p, &pL->wrong, pL->late.a[i]);
  for(i=0; i<pMoved->n; i++){
    if( pMoved->a[i].iHead ) claimqIdsAdd(p, &pL->wrong, pMoved->a[i].iHead);
  }
  if( pL->wrong.n ){
    s = claimqStmt(p, CQ_SQL_LIMIT_GROUPS_OF);
    claimqBindIds(p, &s, CQ_LIMIT_PLACED_ids, &pL->wrong);
    while( claimqStep(p, &s) ){
      claimqIdsAdd(p, &groups, claimqColInt(&s, CQ_COL_LIMIT_PLACED_head_id));
    }
    claimqStmtDone(p, &s);
    claimqGroupsLook(p, pL, &groups);
  }
  claimqIdsClear(&groups);
}
