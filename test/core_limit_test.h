/*
** core_limit_test.h: the part of core_test.c that proves core/limit.c.
**
** Every history of a few steps is gone through (claims of two groups and of
** none, ends of leases, time that passes and goes back, a limit that is
** lowered), under many pairs of limits.  At each step every question is asked
** of core/limit.c, which knows no more than it may know (the last n starts),
** and of a model that remembers everything: it tries whether a window would
** hold too much, and to find the next time it looks at one time after the
** other.
*/
#define CQ_LIM_MAX 12             /* Claims of a history */

typedef struct CqLimHist CqLimHist;
struct CqLimHist {
  i64 iNow;
  int n;                          /* Claims so far */
  struct { i64 iStart, iEnd; int iGroup; } a[CQ_LIM_MAX];
  CqLimit aLimit[2];              /* Of the lane, of each group */
  u8 bSteady;                     /* No time went back, no limit changed */
};

/* One of the questions: the lane's (iGroup<0) or a group's. */
typedef struct CqLimAsk CqLimAsk;
struct CqLimAsk {
  const CqLimHist *p;
  int iGroup;
  int nRate;                      /* Starts that it may know of */
};

static int cqLimIn(const CqLimAsk *q, int i){
  return q->iGroup<0 || q->p->a[i].iGroup==q->iGroup;
}

/* The i-th of the live leases to end, by counting those before each. */
static i64 cqLimEnd(void *pCtx, i64 i){
  CqLimAsk *q = (CqLimAsk*)pCtx;
  const CqLimHist *p = q->p;
  int j, k;
  for(j=0; j<p->n; j++){
    int nBefore = 0;
    if( !cqLimIn(q, j) || p->a[j].iEnd<=p->iNow ) continue;
    for(k=0; k<p->n; k++){
      if( !cqLimIn(q, k) || p->a[k].iEnd<=p->iNow ) continue;
      nBefore += p->a[k].iEnd<p->a[j].iEnd
              || (p->a[k].iEnd==p->a[j].iEnd && k<j);
    }
    if( nBefore==i-1 ) return p->a[j].iEnd;
  }
  cqCheck(0, "limit: no live lease %lld", i);
  return 0;
}

static i64 cqLimStart(void *pCtx, i64 i){
  CqLimAsk *q = (CqLimAsk*)pCtx;
  int j;
  cqCheck(i>=1 && i<=q->nRate, "limit: start %lld was asked for", i);
  for(j=q->p->n-1; j>=0; j--){
    if( cqLimIn(q, j) && --i==0 ) return q->p->a[j].iStart;
  }
  cqCheck(0, "limit: no such start");
  return 0;
}

static void cqLimRoom(const CqLimHist *p, int iGroup, i64 nWant, CqRoom *pOut){
  const CqLimit *pLimit = &p->aLimit[iGroup>=0];
  CqLimAsk ask;
  CqUse use;
  int i;
  memset(&use, 0, sizeof(use));
  ask.p = p;
  ask.iGroup = iGroup;
  ask.nRate = pLimit->nRate<0 ? 0 : (int)pLimit->nRate;
  for(i=0; i<p->n; i++){
    if( !cqLimIn(&ask, i) ) continue;
    use.nLive += p->a[i].iEnd>p->iNow;
    use.nStart += use.nStart<ask.nRate;
  }
  use.xEnd = cqLimEnd;
  use.xStart = cqLimStart;
  use.pCtx = &ask;
  claimqLimitRoom(pLimit, &use, nWant, p->iNow, pOut);
}

/* The model.  1 if the limit of the lane or group refuses k more claims at a
** time, by its number of leases (bRate 0) or by its rate. */
static int cqLimRefuses(
  const CqLimHist *p, int iGroup, int bRate, i64 k, i64 iAt
){
  const CqLimit *pL = &p->aLimit[iGroup>=0];
  CqLimAsk ask;
  i64 w, n = k;
  int i;
  ask.p = p;
  ask.iGroup = iGroup;
  if( !bRate ){
    for(i=0; i<p->n; i++) n += cqLimIn(&ask, i) && p->a[i].iEnd>iAt;
    return pL->nActive>=0 && n>pL->nActive;
  }
  if( pL->nRate<0 ) return 0;
  for(w=iAt-pL->nPer+1; w<=iAt; w++){           /* Windows with iAt in them */
    n = k;
    for(i=0; i<p->n; i++){
      i64 iStart = p->a[i].iStart<p->iNow ? p->a[i].iStart : p->iNow;
      n += cqLimIn(&ask, i) && iStart>=w && iStart<w+pL->nPer;
    }
    if( n>pL->nRate ) return 1;
  }
  return 0;
}

/* The first limit in the way of k claims, in the order in which they are named:
** 0 if there is none, else CQ_LIMIT_*, plus 10 for the group's. */
static int cqLimReason(const CqLimHist *p, int iGroup, i64 k, i64 iAt){
  int i, b;
  for(i=0; i<2; i++){
    const CqLimit *pL = &p->aLimit[i];
    int iWho = i ? iGroup : -1;
    if( i && iGroup<0 ) break;
    if( pL->nActive==0 || pL->nRate==0 ) return 10*i + CQ_LIMIT_PAUSED;
    for(b=0; b<2; b++){
      if( cqLimRefuses(p, iWho, b, k, iAt) ){
        return 10*i + (b ? CQ_LIMIT_RATE : CQ_LIMIT_ACTIVE);
      }
    }
  }
  return 0;
}

/* Ask everything about a job of a group (or of none, -1) and compare.  Returns
** how many of nWant may begin. */
static i64 cqLimCompare(const CqLimHist *p, int iGroup, i64 nWant){
  CqRoom lane, group, both;
  i64 nRoom = 0, iNext = p->iNow;
  int eWhy = 0, eGot;
  cqLimRoom(p, -1, nWant, &lane);
  both = lane;
  if( iGroup>=0 ){
    cqLimRoom(p, iGroup, nWant, &group);
    claimqLimitBoth(&lane, &group, &both);
  }
  while( nRoom<nWant && cqLimReason(p, iGroup, nRoom+1, p->iNow)==0 ) nRoom++;
  /* All leases and windows are over after 60 ms. */
  while( iNext<p->iNow+60 && cqLimReason(p, iGroup, 1, iNext)!=0 ) iNext++;
  if( iNext>p->iNow ) eWhy = cqLimReason(p, iGroup, 1, iNext-1);
  if( iNext==p->iNow+60 ) iNext = CQ_LIMIT_NEVER;
  eGot = both.eWhy + 10*both.bGroup;
  cqCheck(both.nRoom==nRoom && both.iNext==iNext && eGot==eWhy,
      "limit: group %d, %lld wanted, at %lld: %lld may begin, next %lld, why %d"
      "; not %lld, %lld, %d", iGroup, nWant, p->iNow, both.nRoom, both.iNext,
      eGot, nRoom, iNext, eWhy);
  return both.nRoom;
}

/* In no window do more claims begin than allowed, nor are more leases live. */
static void cqLimInvariant(const CqLimHist *p){
  int iGroup, i, j;
  for(iGroup=-1; iGroup<2; iGroup++){
    const CqLimit *pL = &p->aLimit[iGroup>=0];
    CqLimAsk ask;
    int nLive = 0;
    ask.p = p;
    ask.iGroup = iGroup;
    for(i=0; i<p->n; i++){
      int n = 0;
      if( !cqLimIn(&ask, i) ) continue;
      nLive += p->a[i].iEnd>p->iNow;
      for(j=0; j<p->n; j++){
        n += cqLimIn(&ask, j) && p->a[j].iStart>=p->a[i].iStart
          && p->a[j].iStart<p->a[i].iStart+pL->nPer;
      }
      cqCheck(pL->nRate<0 || n<=pL->nRate, "limit: %d in a window", n);
    }
    cqCheck(pL->nActive<0 || nLive<=pL->nActive, "limit: %d live", nLive);
  }
}

/* Begin a claim now.  Starts that are later than now become now. */
static void cqLimBegin(CqLimHist *p, int iGroup, i64 nTtl){
  int i;
  for(i=0; i<p->n; i++){
    if( p->a[i].iStart>p->iNow ) p->a[i].iStart = p->iNow;
  }
  p->a[p->n].iStart = p->iNow;
  p->a[p->n].iEnd = p->iNow+nTtl;
  p->a[p->n].iGroup = iGroup;
  p->n++;
}

/* The steps.  0 if this one does not apply. */
static int cqLimStep(CqLimHist *p, int iStep){
  int i;
  switch( iStep ){
    case 0: case 1: case 2:                     /* Claim: no group, 0, 1 */
      if( cqLimCompare(p, iStep-1, 1)==0 ) return 0;
      cqLimBegin(p, iStep-1, 1+iStep);
      return 1;
    case 3:                                     /* Two of group 0 at once */
      i = (int)cqLimCompare(p, 0, 2);
      if( i==0 ) return 0;
      while( i-- > 0 ) cqLimBegin(p, 0, 3);
      return 1;
    case 4: p->iNow++; return 1;
    case 5: p->iNow += 2; return 1;
    case 6:
      p->iNow--;
      p->bSteady = 0;
      return 1;
    case 7:                                     /* The first live one is done */
      for(i=0; i<p->n && p->a[i].iEnd<=p->iNow; i++){}
      if( i<p->n ) p->a[i].iEnd = p->iNow;
      return i<p->n;
    case 8:                                     /* All limits but 0 fall to 1 */
      p->bSteady = 0;
      for(i=0; i<2; i++){
        if( p->aLimit[i].nActive>1 ) p->aLimit[i].nActive = 1;
        if( p->aLimit[i].nRate>1 ) p->aLimit[i].nRate = 1;
      }
      return 1;
  }
  return 0;
}

static void cqLimExplore(const CqLimHist *p, int nDepth){
  int i;
  for(i=-1; i<2; i++){
    cqLimCompare(p, i, 1);
    cqLimCompare(p, i, 3);
  }
  if( p->bSteady ) cqLimInvariant(p);
  for(i=0; i<9 && nDepth>0; i++){
    CqLimHist next = *p;
    if( cqLimStep(&next, i) ) cqLimExplore(&next, nDepth-1);
  }
}

/* active, rate, per: of the lane and of groups. */
static const int aLim[][3] = {
  { -1, -1, 1 }, { 0, -1, 1 }, { 1, -1, 1 }, { 2, -1, 1 }, { -1, 1, 2 },
  { -1, 2, 3 }, { 2, 2, 2 }, { 1, 3, 4 }, { -1, 0, 5 }, { 3, 1, 1 },
};
static void cqLimSetup(CqLimHist *p, int iLane, int iGroup){
  int i;
  memset(p, 0, sizeof(*p));
  p->iNow = 1000;
  p->bSteady = 1;
  for(i=0; i<2; i++){
    const int *a = aLim[i ? iGroup : iLane];
    p->aLimit[i].nActive = a[0];
    p->aLimit[i].nRate = a[1];
    p->aLimit[i].nPer = a[2];
  }
}

static void cqTestLimitHistories(void){
  CqLimHist h;
  int i, j;
  for(i=0; i<CQ_COUNT(aLim); i++) for(j=0; j<CQ_COUNT(aLim); j++){
    cqLimSetup(&h, i, j);
    cqLimExplore(&h, 3);
  }
  cqLimSetup(&h, 6, 5);
  cqLimExplore(&h, 5);
  cqLimSetup(&h, 5, 2);
  cqLimExplore(&h, 5);
}

/* Long histories by chance, each under one pair of limits. */
static void cqTestLimitLong(void){
  CqLimHist h;
  int i, k;
  for(i=0; i<2000; i++){
    cqLimSetup(&h, (int)cqRandom(CQ_COUNT(aLim)),
               (int)cqRandom(CQ_COUNT(aLim)));
    for(k=0; k<40 && h.n<CQ_LIM_MAX-2; k++){
      cqLimStep(&h, (int)cqRandom(k<20 ? 6 : 9));
      cqLimCompare(&h, (int)cqRandom(3)-1, 1+cqRandom(4));
      if( h.bSteady ) cqLimInvariant(&h);
    }
  }
}

/**************************************************************************
** Many starts, and the edges of time
*/
typedef struct CqLimMany CqLimMany;
struct CqLimMany {
  i64 iLast, nGap;                /* The last start, and what is between two */
  int nLook;
};
static i64 cqLimManyStart(void *pCtx, i64 i){
  CqLimMany *p = (CqLimMany*)pCtx;
  p->nLook++;
  return p->iLast - (i-1)*p->nGap;
}
static i64 cqLimManyEnd(void *pCtx, i64 i){
  (void)pCtx;
  return i;
}

/* 10,000 claims, one each 3 ms: counted, and in how many looks. */
static void cqTestLimitMany(void){
  static const i64 aRate[] = { 1, 2, 3, 100, 4095, 4096, 9999, CQ_RATE_MAX };
  static const i64 aWant[] = { 1, 2, 7, 1000, 10000, 1000000 };
  CqLimit limit = { -1, 0, 0 };
  CqLimMany many = { 1000000, 3, 0 };
  CqUse use;
  CqRoom room;
  int i, j;
  memset(&use, 0, sizeof(use));
  use.xStart = cqLimManyStart;
  use.xEnd = cqLimManyEnd;
  use.pCtx = &many;
  for(i=0; i<CQ_COUNT(aRate); i++) for(j=0; j<CQ_COUNT(aWant); j++){
    i64 iNow;
    limit.nRate = use.nStart = aRate[i];
    limit.nPer = 3*aRate[i]+1;    /* One start each 3 ms is just in time */
    for(iNow=999990; iNow<1000000+4*aRate[i]; iNow+=1+aRate[i]/3){
      i64 iAt, n = 0;
      many.nLook = 0;
      claimqLimitRoom(&limit, &use, aWant[j], iNow, &room);
      for(iAt=0; iAt<aRate[i]; iAt++){
        i64 t = 1000000-3*iAt<iNow ? 1000000-3*iAt : iNow;
        n += t>iNow-limit.nPer;
      }
      n = aRate[i]-n<aWant[j] ? aRate[i]-n : aWant[j];
      cqCheck(room.nRoom==n, "rate %lld: %lld of %lld at %lld, not %lld",
              aRate[i], room.nRoom, aWant[j], iNow, n);
      cqCheck(many.nLook<=(aWant[j]==1 ? 2 : 17), "rate %lld: %d looks",
              aRate[i], many.nLook);
    }
  }
}

/* The example of core/limit.c. */
static void cqTestLimitExample(void){
  static const struct { i64 nActive, iNow, nRoom, iNext; int eWhy; } a[] = {
    { 3, 5900, 0, 6100, CQ_LIMIT_RATE }, { 3, 6100, 1, 6100, CQ_LIMIT_NONE },
    { 3, 6900, 2, 6900, CQ_LIMIT_NONE }, { 1, 6100, 0, 7000, CQ_LIMIT_ACTIVE },
    { 1, 7000, 1, 7000, CQ_LIMIT_NONE }, { 0, 7000, 0, CQ_LIMIT_NEVER,
      CQ_LIMIT_PAUSED },
  };
  int i;
  for(i=0; i<CQ_COUNT(a); i++){
    CqLimHist h;
    CqRoom room;
    memset(&h, 0, sizeof(h));
    h.iNow = a[i].iNow;
    h.n = 2;
    h.a[0].iStart = h.a[0].iEnd = 5100;
    h.a[1].iStart = 5900;
    h.a[1].iEnd = 7000;
    h.aLimit[0].nActive = a[i].nActive;
    h.aLimit[0].nRate = 2;
    h.aLimit[0].nPer = 1000;
    cqLimRoom(&h, -1, 9, &room);
    cqCheck(room.nRoom==a[i].nRoom && room.iNext==a[i].iNext
         && room.eWhy==a[i].eWhy && room.bGroup==0, "limit: example %d", i);
  }
}

static void cqTestLimitEdges(void){
  CqLimit limit = { -1, 1, CQ_I64_MAX };
  CqLimMany many = { CQ_I64_MAX, 0, 0 };
  CqUse use;
  CqRoom room, lane;
  int i;
  memset(&use, 0, sizeof(use));
  use.xStart = cqLimManyStart;
  use.xEnd = cqLimManyEnd;
  use.pCtx = &many;
  claimqLimitRoom(&limit, &use, 1, 0, &room);
  cqCheck(room.nRoom==1 && room.iNext==0, "limit: nothing has begun");
  use.nStart = 1;
  for(i=0; i<3; i++){
    static const i64 aNow[] = { 0, CQ_I64_MAX-1, CQ_I64_MAX };
    claimqLimitRoom(&limit, &use, 1, aNow[i], &room);
    cqCheck(room.nRoom==0 && room.iNext==CQ_I64_MAX
         && room.eWhy==CQ_LIMIT_RATE, "limit: a window of 2^63-1 ms, %d", i);
  }
  many.iLast = 0;
  claimqLimitRoom(&limit, &use, 5, CQ_I64_MAX, &room);
  cqCheck(room.nRoom==1 && room.iNext==CQ_I64_MAX && room.eWhy==0,
          "limit: the end of the longest window");
  many.iLast = 5;
  claimqLimitRoom(&limit, &use, 5, CQ_I64_MAX, &room);
  lane = room;
  lane.nRoom = 3;
  lane.eWhy = CQ_LIMIT_NONE;
  claimqLimitBoth(&lane, &room, &room);
  cqCheck(room.nRoom==0 && room.eWhy==CQ_LIMIT_RATE && room.bGroup
       && room.iNext==CQ_I64_MAX, "limit: of the group, at the end of time");
  limit.nRate = -1;
  limit.nActive = CQ_I64_MAX;
  use.nLive = CQ_I64_MAX;
  claimqLimitRoom(&limit, &use, CQ_I64_MAX, 7, &room);
  cqCheck(room.nRoom==0 && room.iNext==1, "limit: 2^63-1 are live");
  use.nLive = 0;
  claimqLimitRoom(&limit, &use, CQ_I64_MAX, 7, &room);
  cqCheck(room.nRoom==CQ_I64_MAX && room.iNext==7, "limit: none is live");
  limit.nActive = 2;
  cqCheck(claimqLimitSlot(&limit, 0) && claimqLimitSlot(&limit, 1)
       && !claimqLimitSlot(&limit, 2) && !claimqLimitSlot(&limit, 3),
       "limit: slots of two");
  limit.nActive = 0;
  cqCheck(!claimqLimitSlot(&limit, 0), "limit: slots of a pause");
  limit.nActive = -1;
  cqCheck(claimqLimitSlot(&limit, CQ_I64_MAX), "limit: slots without end");
}

/**************************************************************************
** claimqLimitPick(): every set of up to CQ_PICK_MAX jobs of three groups, with
** every room, turn and maximum, against a model that takes one job after the
** other as the rule says.
*/
#define CQ_PICK_MAX 5

typedef struct CqPickCase CqPickCase;
struct CqPickCase {
  int n;
  int aGroup[CQ_PICK_MAX];        /* Of job i, which goes before job i+1 */
  int aRoom[3], aTurn[3];
  int nMax, bFair;
};

/* The group that is served next: -1 if none can be. */
static int cqPickNext(const CqPickCase *p, const u8 *aTaken, const int *aLeft,
                      const int *aTurn){
  int i, iBest = -1, abHas[3] = { 0, 0, 0 }, aFirst[3];
  for(i=p->n-1; i>=0; i--){
    if( !aTaken[i] ){
      abHas[p->aGroup[i]] = 1;
      aFirst[p->aGroup[i]] = i;
    }
  }
  for(i=0; i<3; i++){
    if( !abHas[i] || aLeft[i]==0 ) continue;
    if( iBest<0 || (p->bFair && aTurn[i]!=aTurn[iBest]
                    ? aTurn[i]<aTurn[iBest] : aFirst[i]<aFirst[iBest]) ){
      iBest = i;
    }
  }
  return iBest;
}

static void cqPickCheck(const CqPickCase *p){
  CqOffer a[CQ_PICK_MAX+1];
  u8 aTaken[CQ_PICK_MAX];
  int aLeft[3], aTurn[3];
  int i, nTake, nModel = 0, iTurn = 10;
  memset(aTaken, 0, sizeof(aTaken));
  memcpy(aLeft, p->aRoom, sizeof(aLeft));
  memcpy(aTurn, p->aTurn, sizeof(aTurn));
  memset(a, 0, sizeof(a));
  for(i=0; i<p->n; i++){
    CqOffer *pO = &a[(i*3+1)%p->n];       /* In any order, all of them */
    if( p->n==3 ) pO = &a[i];
    pO->key.iPriority = -i/2;
    pO->key.iCreated = i;
    pO->key.iJob = 100-i;
    pO->iGroup = p->aGroup[i];
    pO->nRoom = p->aRoom[p->aGroup[i]];
    pO->iTurn = p->aTurn[p->aGroup[i]];
    pO->iPos = i;
  }
  a[p->n].nRoom = 9;                      /* It is not on offer */
  nTake = claimqLimitPick(a, p->n, p->nMax, p->bFair);
  while( nModel<p->nMax ){
    int iGroup = cqPickNext(p, aTaken, aLeft, aTurn);
    if( iGroup<0 ) break;
    for(i=0; aTaken[i] || p->aGroup[i]!=iGroup; i++){}
    cqCheck(nModel<nTake && a[nModel].iPos==i, "pick: job %d comes as number "
            "%d of %d", i, nModel, nTake);
    aTaken[i] = 1;
    aLeft[iGroup]--;
    aTurn[iGroup] = iTurn++;
    nModel++;
  }
  cqCheck(nModel==nTake, "pick: %d jobs, not %d", nTake, nModel);
  claimqOfferSort(a, nTake);
  for(i=1; i<nTake; i++){
    cqCheck(a[i-1].iPos<a[i].iPos, "pick: sorted by the lane's order");
  }
}

static void cqTestLimitPick(void){
  CqPickCase c;
  int i, iGroups, iRooms, iTurns, nGroups = 1;
  for(c.n=0; c.n<=CQ_PICK_MAX; c.n++, nGroups*=3){
    for(iGroups=0; iGroups<nGroups; iGroups++){
      int m = iGroups;
      for(i=0; i<c.n; i++, m/=3) c.aGroup[i] = m%3;
      for(iRooms=0; iRooms<27; iRooms++){
        c.aRoom[0] = iRooms%3;
        c.aRoom[1] = iRooms/3%3;
        c.aRoom[2] = iRooms/9*2;
        for(iTurns=0; iTurns<8; iTurns++){
          c.aTurn[0] = iTurns&1 ? 3 : 0;
          c.aTurn[1] = iTurns&2 ? 2 : 0;
          c.aTurn[2] = iTurns&4 ? 1 : 0;
          for(c.nMax=0; c.nMax<=CQ_PICK_MAX; c.nMax++){
            for(c.bFair=0; c.bFair<2; c.bFair++) cqPickCheck(&c);
          }
        }
      }
    }
  }
}
