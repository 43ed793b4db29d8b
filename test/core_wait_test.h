/*
** core_wait_test.h: the part of core_test.c that proves core/wait.c.
**
** The naps are compared with lists.  Then whole waits are run in a world of
** their own, where time passes only while somebody sleeps, writes and commits
** happen when the test says, and the clock is set when the test says:
**
**     CqNight n;
**     cqNightInit(&n, 5000, 1);            wait for 5 s, with notification
**     cqNightWrite(&n, 700000, 700030);    written, and 30 us later committed
**     cqNightRun(&n);
**
** After it n tells when everything was done.  What is true of every wait is
** checked in each: no nap is too long, pulses come in time, the wait ends when
** it should, a commit is seen soon after it can be.
*/
#define CQ_NIGHT_MAX   20000      /* Writes of one wait */
#define CQ_NIGHT_CLOCK 1000000000LL     /* What the clock says at the start */

typedef struct CqNight CqNight;   /* A wait, and the world it is in */
struct CqNight {
  i64 msTimeout;
  int bListen;                    /* The operating system tells of writes */
  int bTold;                      /* It reported one before */
  i64 usNow;                      /* True time */
  i64 usSlow;                     /* Every nap takes so much longer */
  i64 usSet, msSet;               /* The clock is set by so much, then */
  int bFrozen;                    /* The clock stands still */
  i64 msNextAt;                   /* What every look says; CQ_I64_MAX */
  int bSoon;                      /* ... or always: in a millisecond */
  i64 usLock, usUnlock;           /* The database is locked meanwhile */
  i64 usSignal;                   /* Every such time a signal ends a nap; 0 */
  int nWrite, iTold, iSeen;       /* Writes; reported; seen */
  i64 aWrite[CQ_NIGHT_MAX], aCommit[CQ_NIGHT_MAX];
  i64 aSeen[CQ_NIGHT_MAX];        /* OUT: when */
  int nNap, nProbe, nLook, nPulse, nAim;        /* OUT */
  i64 usPulse, usPulseGap;        /* OUT: the last pulse; the longest gap */
  i64 usDueLook;                  /* OUT: the first look after msNextAt; -1 */
  int nBad;                       /* OUT: naps that were too long */
};

static CqNight *cqNightInit(i64 msTimeout, int bListen){
  static CqNight n;
  memset(&n, 0, sizeof(n));
  n.msTimeout = msTimeout;
  n.bListen = bListen;
  n.msNextAt = CQ_I64_MAX;
  n.usDueLook = -1;
  n.usSet = n.usLock = CQ_I64_MAX;
  return &n;
}

static void cqNightWrite(CqNight *p, i64 usWrite, i64 usCommit){
  p->aWrite[p->nWrite] = usWrite;
  p->aCommit[p->nWrite] = usCommit;
  p->aSeen[p->nWrite++] = -1;
}

static i64 cqNightClock(const CqNight *p){
  i64 ms = CQ_NIGHT_CLOCK;
  if( !p->bFrozen ) ms += p->usNow/1000;
  if( p->usNow>=p->usSet ) ms += p->msSet;
  return ms;
}

/*
** Sleep as claimqWatchSleep() does: what hears of ends a nap that is not
** deaf, and is counted in milliseconds.  Returns CQ_WOKE_*.
*/
static int cqNightSleep(CqNight *p, i64 us, int bDeaf){
  int mWoke = CQ_WOKE_FULL;
  i64 usEnd;
  if( !bDeaf && p->bListen ) us = (us+999)/1000*1000;
  usEnd = p->usNow + us + p->usSlow;
  if( p->usSignal && p->usNow/p->usSignal!=usEnd/p->usSignal ){
    usEnd = (p->usNow/p->usSignal + 1)*p->usSignal;
    mWoke = 0;
  }
  if( p->bListen && p->iTold<p->nWrite && p->aWrite[p->iTold]<=usEnd ){
    if( !bDeaf ){
      mWoke = 0;
      if( p->aWrite[p->iTold]>p->usNow ) usEnd = p->aWrite[p->iTold];
      else usEnd = p->usNow;
    }
    mWoke |= CQ_WOKE_TOLD;
  }
  p->usNow = usEnd;
  while( p->iTold<p->nWrite && p->aWrite[p->iTold]<=usEnd ) p->iTold++;
  return mWoke;
}

/*
** Probe, as wait.c does.  Returns CQ_SEEN_*.  Commits happen in their order.
*/
static int cqNightProbe(CqNight *p){
  int eSeen = CQ_SEEN_SAME;
  p->nProbe++;
  if( p->usNow>=p->usLock && p->usNow<p->usUnlock ) return CQ_SEEN_BUSY;
  while( p->iSeen<p->nWrite && p->aCommit[p->iSeen]<=p->usNow ){
    p->aSeen[p->iSeen++] = p->usNow;
    eSeen = CQ_SEEN_COMMIT;
  }
  return eSeen;
}

static i64 cqNightNextAt(const CqNight *p){
  return p->bSoon ? cqNightClock(p)+1 : p->msNextAt;
}

/*
** A whole wait, which finds nothing.  Every wait has to satisfy what is checked
** here.  Returns how long it took.
*/
static i64 cqNightRun(CqNight *p){
  CqPace pace;
  int mDo = 0, eSeen = CQ_SEEN_SAME, bDeaf, mWoke;
  claimqPaceInit(&pace, p->msTimeout, cqNightClock(p), p->bTold);
  while( (mDo & CQ_PACE_OVER)==0 && p->nNap<4000000 ){
    i64 msBefore = cqNightClock(p), us;
    claimqPaceSeen(&pace, eSeen, cqNightNextAt(p));
    us = claimqPaceNap(&pace, p->bListen, &bDeaf);
    if( us<1 || us>90000 || (bDeaf && us>5000) )p->nBad++;
    if( !p->bSoon && p->msNextAt>msBefore && p->msNextAt<msBefore+90
     && us>(p->msNextAt-msBefore)*1000
    ){
      p->nBad++;
    }
    mWoke = cqNightSleep(p, us, bDeaf);
    mDo = claimqPaceWake(&pace, mWoke, cqNightClock(p));
    p->nNap++;
    if( mDo & CQ_PACE_PULSE ){
      if( p->usNow-p->usPulse>p->usPulseGap ){
        p->usPulseGap = p->usNow-p->usPulse;
      }
      p->usPulse = p->usNow;
      p->nPulse++;
    }
    if( mDo & CQ_PACE_AIM ) p->nAim++;
    eSeen = CQ_SEEN_SAME;
    if( mDo & (CQ_PACE_PROBE|CQ_PACE_LOOK) ){
      eSeen = cqNightProbe(p);
      if( eSeen==CQ_SEEN_COMMIT || (mDo & CQ_PACE_LOOK) ) p->nLook++;
    }
    if( (mDo & CQ_PACE_LOOK) && cqNightClock(p)>=p->msNextAt
     && p->usDueLook<0
    ){
      p->usDueLook = p->usNow;
      p->msNextAt = CQ_I64_MAX;
    }
  }
  cqCheck(p->nBad==0, "night: %d bad naps", p->nBad);
  cqCheck((mDo & (CQ_PACE_LOOK|CQ_PACE_OVER))==(CQ_PACE_LOOK|CQ_PACE_OVER),
          "night: ends with a look");
  return p->usNow;
}

/**************************************************************************
** Naps one by one
*/

/* The naps after a write was reported that is never committed. */
static void cqTestPaceAgain(void){
  static const i64 aSlow[] = { 1280, 2560, 5120, 10240, 20480, 40960, 90000 };
  CqPace p;
  i64 us, usSum = 0;
  int i, bDeaf, mDo;
  claimqPaceInit(&p, 1000000, 5, 0);
  us = claimqPaceNap(&p, 1, &bDeaf);
  cqCheck(us==90000 && !bDeaf, "pace: the first nap %lld", us);
  mDo = claimqPaceWake(&p, CQ_WOKE_TOLD, 5);
  cqCheck(mDo==CQ_PACE_PROBE, "pace: a write is answered at once, %d", mDo);
  for(i=0; i<35; i++){
    i64 usWant = i<5 ? 20<<i : 640;
    claimqPaceSeen(&p, CQ_SEEN_SAME, CQ_I64_MAX);
    us = claimqPaceNap(&p, 1, &bDeaf);
    cqCheck(us==usWant && bDeaf, "pace: nap %d is %lld", i, us);
    mDo = claimqPaceWake(&p, CQ_WOKE_FULL, 5);
    cqCheck(mDo==CQ_PACE_PROBE, "pace: a probe after nap %d", i);
    usSum += us;
  }
  cqCheck(usSum>=19000 && usSum<=21000, "pace: 20 ms of them, %lld", usSum);
  for(i=0; i<CQ_COUNT(aSlow); i++){
    i64 usWant = aSlow[i]<90000-usSum ? aSlow[i] : 90000-usSum;
    int bAgain = i<CQ_COUNT(aSlow)-1;
    if( usWant<=0 ) break;
    claimqPaceSeen(&p, CQ_SEEN_SAME, CQ_I64_MAX);
    us = claimqPaceNap(&p, 1, &bDeaf);
    cqCheck(us==usWant && !bDeaf, "pace: slow nap %d is %lld, not %lld", i, us,
            usWant);
    mDo = claimqPaceWake(&p, CQ_WOKE_FULL, 5);
    cqCheck(((mDo & CQ_PACE_PROBE)!=0)==bAgain, "pace: after slow nap %d: %d",
            i, mDo);
    usSum += us;
  }
}

/* A further write in the middle of the row: where does it go on? */
static void cqTestPaceTold(void){
  int nBefore, bDeaf;
  for(nBefore=0; nBefore<44; nBefore++){
    CqPace p;
    i64 us, usLast = 0;
    int i;
    claimqPaceInit(&p, 1000000, 5, 0);
    claimqPaceNap(&p, 1, &bDeaf);
    claimqPaceWake(&p, CQ_WOKE_TOLD, 5);
    for(i=0; i<nBefore; i++){
      claimqPaceSeen(&p, CQ_SEEN_SAME, CQ_I64_MAX);
      usLast = claimqPaceNap(&p, 1, &bDeaf);
      claimqPaceWake(&p, i==nBefore-1 ? CQ_WOKE_FULL|CQ_WOKE_TOLD
                                      : CQ_WOKE_FULL, 5);
    }
    claimqPaceSeen(&p, CQ_SEEN_SAME, CQ_I64_MAX);
    us = claimqPaceNap(&p, 1, &bDeaf);
    if( nBefore>=35 ){
      cqCheck(us==20, "reported after nap %d: %lld", nBefore, us);
    }else if( nBefore>=6 ){
      cqCheck(us==640, "reported after nap %d: %lld", nBefore, us);
    }else if( nBefore>0 ){
      cqCheck(us==2*usLast, "reported after nap %d: %lld", nBefore, us);
    }
    /* A commit that is seen ends the row. */
    claimqPaceWake(&p, CQ_WOKE_FULL, 5);
    claimqPaceSeen(&p, CQ_SEEN_COMMIT, CQ_I64_MAX);
    us = claimqPaceNap(&p, 1, &bDeaf);
    cqCheck(us>1280 && !bDeaf, "seen after nap %d: %lld", nBefore, us);
  }
}

/* Where nobody tells of writes. */
static void cqTestPacePoll(void){
  static const i64 aWant[] = {1, 2, 4, 8, 16, 32, 27, 40, 40, 10, 40, 40, 10};
  CqPace p;
  int i, j, bDeaf;
  claimqPaceInit(&p, 1000000, 5, 0);
  for(j=0; j<2; j++){
    for(i=0; i<CQ_COUNT(aWant); i++){
      i64 us;
      int mDo;
      if( i>0 ) claimqPaceSeen(&p, CQ_SEEN_SAME, CQ_I64_MAX);
      us = claimqPaceNap(&p, 0, &bDeaf);
      cqCheck(us==aWant[i]*1000, "poll: nap %d is %lld", i, us);
      mDo = claimqPaceWake(&p, CQ_WOKE_FULL, 5);
      cqCheck((mDo & CQ_PACE_PROBE)!=0, "poll: a probe after each");
      cqCheck(((mDo & CQ_PACE_PULSE)!=0)==(i==6 || i==9 || i==12),
              "poll: pulse after nap %d: %d", i, mDo);
    }
    claimqPaceSeen(&p, CQ_SEEN_COMMIT, CQ_I64_MAX);
  }
}

/* What was reported before the wait began. */
static void cqTestPaceBefore(void){
  CqPace p;
  int bDeaf;
  i64 us;
  claimqPaceInit(&p, 1000000, 5, 1);
  claimqPaceSeen(&p, CQ_SEEN_SAME, CQ_I64_MAX);
  us = claimqPaceNap(&p, 1, &bDeaf);
  cqCheck(us==1280 && !bDeaf, "before: %lld", us);
  cqCheck(claimqPaceWake(&p, CQ_WOKE_FULL, 6)==CQ_PACE_PROBE, "before: probe");
  us = claimqPaceNap(&p, 1, &bDeaf);
  cqCheck(us==2560 && !bDeaf, "before: then %lld", us);
}

/* A nap that ends in one way, and what was seen then: the next nap. */
static i64 cqPaceStep(CqPace *p, int bListen, int mWoke, i64 ms, int eSeen){
  int bDeaf;
  i64 us;
  claimqPaceWake(p, mWoke, ms);
  claimqPaceSeen(p, eSeen, CQ_I64_MAX);
  us = claimqPaceNap(p, bListen, &bDeaf);
  return bDeaf ? us : -us;
}

/* A locked database is tried again soon, but not for ever. */
static void cqTestPaceBusy(void){
  CqPace p;
  int bDeaf, i;
  i64 us;
  claimqPaceInit(&p, 1000000, 5, 0);
  claimqPaceSeen(&p, CQ_SEEN_BUSY, CQ_I64_MAX);
  us = claimqPaceNap(&p, 1, &bDeaf);
  cqCheck(us==20 && bDeaf, "busy: at the first look, %lld", us);
  us = cqPaceStep(&p, 1, CQ_WOKE_FULL, 5, CQ_SEEN_BUSY);
  cqCheck(us==40, "busy: then %lld", us);
  for(i=2; i<60 && p.nAgain>0; i++){
    us = cqPaceStep(&p, 1, CQ_WOKE_FULL, 5, CQ_SEEN_BUSY);
  }
  cqCheck(i==43 && us<0, "busy: listening after %d, %lld", i, us);
  us = cqPaceStep(&p, 1, CQ_WOKE_FULL, 5, CQ_SEEN_SAME);
  cqCheck(us==-90000, "busy: no more, %lld", us);
  us = cqPaceStep(&p, 1, CQ_WOKE_FULL, 5, CQ_SEEN_BUSY);
  cqCheck(us==20, "busy: again, %lld", us);
  claimqPaceInit(&p, 1000000, 5, 0);
  claimqPaceNap(&p, 0, &bDeaf);
  us = cqPaceStep(&p, 0, CQ_WOKE_FULL, 5, CQ_SEEN_BUSY);
  cqCheck(us==-2000, "busy: polling, %lld", us);
}

/* Keep a distance after each commit of a crowd, then listen.  bFast: commits
** are seen whenever the distance was kept. */
static void cqTestPaceCrowd(void){
  static const i64 aWant[] = {0, 125, 250, 500, 1000, 2000, 4000, 5000, 5000};
  CqPace p;
  int bDeaf, bFast, i;
  i64 us;
  for(bFast=0; bFast<2; bFast++){
    int mWoke = CQ_WOKE_TOLD;
    claimqPaceInit(&p, 1000000, 50, 0);
    claimqPaceNap(&p, 1, &bDeaf);
    for(i=0; i<(bFast ? CQ_COUNT(aWant) : 7); i++){
      us = cqPaceStep(&p, 1, mWoke, 50, CQ_SEEN_COMMIT);
      cqCheck(i==0 ? us==-90000 : us==aWant[i], "crowd %d: commit %d: %lld",
              bFast, i, us);
      if( bFast ){
        mWoke = i==0 ? CQ_WOKE_TOLD : CQ_WOKE_TOLD|CQ_WOKE_FULL;
      }else if( i>0 ){
        us = cqPaceStep(&p, 1, CQ_WOKE_FULL, 50, CQ_SEEN_SAME);
        cqCheck(us<-50000, "crowd: listening, %lld", us);
      }
    }
    if( bFast ){
      us = cqPaceStep(&p, 1, CQ_WOKE_FULL, 50, CQ_SEEN_SAME);
      cqCheck(us<-50000, "crowd: it is over, %lld", us);
    }
    us = cqPaceStep(&p, 1, CQ_WOKE_TOLD, 50, CQ_SEEN_COMMIT);
    cqCheck(us<-50000, "crowd: a commit after 4 ms, %lld", us);
  }
}

/**************************************************************************
** Whole waits
*/

/* Nothing happens: how long, how many naps, whatever the clock does. */
static void cqTestNightIdle(void){
  static const i64 aTimeout[] = {1, 2, 89, 90, 91, 1000, 5000, 60000};
  static const i64 aSet[] = {0, -1, -1000, -86400000LL, -CQ_NIGHT_CLOCK,
                             30, 86400000LL};
  int i, j, k, bListen;
  for(i=0; i<CQ_COUNT(aTimeout); i++)
  for(j=0; j<CQ_COUNT(aSet); j++)
  for(k=0; k<4; k++)
  for(bListen=0; bListen<2; bListen++){
    CqNight *p = cqNightInit(aTimeout[i], bListen);
    i64 usTotal = aTimeout[i]*1000, us;
    p->usSet = k<2 ? usTotal*k/3 : CQ_I64_MAX;
    p->msSet = aSet[j];
    p->bFrozen = k==3;
    p->usSlow = k==2 ? 70 : 0;
    us = cqNightRun(p);
    if( p->usSet<CQ_I64_MAX && aSet[j]>0 ){
      cqCheck(us<=usTotal+1000, "idle: set forward, %lld of %lld", us, usTotal);
    }else{
      cqCheck(us>=usTotal-1000 && us<=usTotal+2000,
              "idle: timeout %lld, set by %lld: %lld us", aTimeout[i], aSet[j],
              us);
    }
    cqCheck(p->usPulseGap<=92000, "idle: pulse after %lld", p->usPulseGap);
    cqCheck(p->nPulse>=us/100000, "idle: %d pulses", p->nPulse);
    cqCheck(p->nNap<=us/1000/(bListen ? 80 : 20)+10, "idle: %d naps in %lld",
            p->nNap, us);
    cqCheck(p->nAim>=us/1100000 && p->nAim<=us/1000000+1,
            "idle: %d backstops", p->nAim);
    if( bListen ) cqCheck(p->nProbe<=p->nAim+1, "idle: %d probes", p->nProbe);
  }
}

/* Signals end naps early, and do not end the wait early. */
static void cqTestNightSignal(void){
  int bListen;
  for(bListen=0; bListen<2; bListen++){
    CqNight *p = cqNightInit(3000, bListen);
    i64 us;
    p->usSignal = 1000;
    us = cqNightRun(p);
    cqCheck(us>=2999000 && us<=3001000, "signals: %lld", us);
    cqCheck(p->usPulseGap<=92000 && p->nPulse>=30, "signals: %d", p->nPulse);
    p = cqNightInit(3000, bListen);     /* ... and the clock is set back */
    p->usSignal = 1000;
    p->usSet = 1500000;
    p->msSet = -3600000;
    us = cqNightRun(p);
    cqCheck(us>=2999000 && us<=3003000, "signals, set back: %lld", us);
  }
}

/* One commit, reported, and visible some time later. */
static void cqTestNightCommit(void){
  static const i64 aLater[] = {0, 1, 19, 30, 100, 600, 1200, 5000, 19000, 25000,
                               60000, 99000};
  static const i64 aAt[] = {0, 1, 70000, 89999, 90000, 500000, 999000};
  int i, j, k;
  for(i=0; i<CQ_COUNT(aLater); i++)
  for(j=0; j<CQ_COUNT(aAt); j++)
  for(k=0; k<3; k++){
    i64 usLate, usMost = aLater[i]<19000 ? 640 : aLater[i]+1000;
    CqNight *p = cqNightInit(3000, k!=1);
    p->bTold = k==2;
    if( k==1 ) usMost = 41000;
    if( aLater[i]<620 && k!=1 ) usMost = aLater[i]+20;
    cqNightWrite(p, aAt[j], aAt[j]+aLater[i]);
    cqNightRun(p);
    usLate = p->aSeen[0] - p->aCommit[0];
    cqCheck(p->aSeen[0]>=0 && usLate<=usMost,
            "commit at %lld, visible after %lld: late by %lld", aAt[j],
            aLater[i], usLate);
    if( k!=1 ) cqCheck(p->nProbe<60, "commit: %d probes", p->nProbe);
  }
}

/* Nobody tells of a commit although he should have. */
static void cqTestNightMissed(void){
  i64 usAt;
  for(usAt=0; usAt<3000000; usAt+=123457){
    CqNight *p = cqNightInit(5000, 1);
    cqNightWrite(p, usAt, usAt);
    p->iTold = 1;
    cqNightRun(p);
    cqCheck(p->aSeen[0]>=0 && p->aSeen[0]-usAt<=1100000,
            "missed: seen after %lld", p->aSeen[0]-usAt);
  }
}

/* Commits of others, more and more of them a second. */
static void cqTestNightCrowd(void){
  static const i64 aGap[] = {100, 333, 1000, 3000, 4500, 10000, 100000};
  int i, j, bListen;
  for(i=0; i<CQ_COUNT(aGap); i++)
  for(bListen=0; bListen<2; bListen++){
    int n = (int)(2000000/aGap[i]);
    i64 usWorst = 0;
    CqNight *p = cqNightInit(2500, bListen);
    if( n>CQ_NIGHT_MAX ) n = CQ_NIGHT_MAX;
    for(j=0; j<n; j++) cqNightWrite(p, (j+1)*aGap[i], (j+1)*aGap[i]+30);
    cqNightRun(p);
    for(j=0; j<n; j++){
      if( p->aSeen[j]-p->aCommit[j]>usWorst ){
        usWorst = p->aSeen[j]-p->aCommit[j];
      }
      cqCheck(p->aSeen[j]>=0, "crowd: %d of %d never seen", j, n);
    }
    if( aGap[i]<4000 ){
      cqCheck(p->nLook<=600, "crowd: %d looks, gap %lld", p->nLook, aGap[i]);
      cqCheck(p->nProbe<=1200, "crowd: %d probes", p->nProbe);
    }else{
      cqCheck(p->nLook<=n+4, "crowd: %d looks, gap %lld", p->nLook, aGap[i]);
    }
    cqCheck(usWorst<=(!bListen ? 41000 : aGap[i]<4000 ? 6000 : 640),
            "crowd: gap %lld, late by %lld", aGap[i], usWorst);
  }
}

/* A row that falls due. */
static void cqTestNightDue(void){
  i64 ms;
  int k;
  for(ms=0; ms<400; ms+=7)
  for(k=0; k<4; k++){
    CqNight *p = cqNightInit(1000, k!=1);
    p->msNextAt = CQ_NIGHT_CLOCK+ms;
    if( k==2 ){                   /* The clock is set over it */
      p->usSet = 150000;
      p->msSet = 500;
    }
    if( k==3 ) cqNightWrite(p, 100000, 200000);
    cqNightRun(p);
    cqCheck(p->usDueLook>=0, "due: after %lld", ms);
    if( k==2 && ms>150 ){
      cqCheck(p->usDueLook<=245000, "due: clock set, %lld", p->usDueLook);
    }else{
      cqCheck(p->usDueLook>=ms*1000 && p->usDueLook<=ms*1000+1000,
              "due: after %lld, seen at %lld", ms, p->usDueLook);
    }
  }
}

/* Somebody who always says: in a millisecond. */
static void cqTestNightSoon(void){
  CqNight *p = cqNightInit(10000, 1);
  p->bSoon = 1;
  cqNightRun(p);
  cqCheck(p->nLook>=300 && p->nLook<=350, "soon: %d looks", p->nLook);
  cqCheck(p->usPulseGap<=92000, "soon: pulse after %lld", p->usPulseGap);
  p = cqNightInit(10000, 1);      /* A commit makes it worth asking again */
  p->bSoon = 1;
  cqNightWrite(p, 5000000, 5000000);
  cqNightRun(p);
  cqCheck(p->nLook>=305 && p->nLook<=360, "soon, a commit: %d", p->nLook);
}

/* A database that is locked from the beginning, or for a long time. */
static void cqTestNightBusy(void){
  int bListen, i;
  for(i=0; i<40; i++)
  for(bListen=0; bListen<2; bListen++){
    CqNight *p = cqNightInit(10000, bListen);
    i64 usLate;
    p->usLock = i<20 ? 0 : 3000000;
    p->usUnlock = p->usLock + (1<<i%20);
    cqNightWrite(p, p->usUnlock-(i%20<12 ? 0 : 3000), p->usUnlock);
    cqNightRun(p);
    usLate = p->aSeen[0] - p->usUnlock;
    cqCheck(p->aSeen[0]>=0 && usLate<=(bListen ? 700 : 41000),
            "busy for %d: late by %lld", 1<<i%20, usLate);
    cqCheck(p->nProbe<(bListen ? 150 : 400), "busy: %d probes", p->nProbe);
  }
}

/* Numbers at their ends. */
static void cqTestPaceEnds(void){
  static const i64 aEnd[] = {0, 1, CQ_I64_MAX/1000, CQ_I64_MAX/1000+1,
                             CQ_I64_MAX-1, CQ_I64_MAX};
  int i, j, k, m;
  for(i=0; i<CQ_COUNT(aEnd); i++)       /* The timeout */
  for(j=0; j<CQ_COUNT(aEnd); j++)       /* The clock, before */
  for(k=0; k<CQ_COUNT(aEnd); k++)       /* ... and after */
  for(m=0; m<CQ_COUNT(aEnd); m++){      /* When something falls due */
    CqPace p;
    int bDeaf, n, mDo = 0;
    claimqPaceInit(&p, aEnd[i], aEnd[j], 0);
    for(n=0; n<3 && (mDo & CQ_PACE_OVER)==0; n++){
      i64 us;
      claimqPaceSeen(&p, n, aEnd[m]);
      us = claimqPaceNap(&p, 1, &bDeaf);
      cqCheck(us>=1 && us<=90000, "ends: nap %lld", us);
      mDo = claimqPaceWake(&p, CQ_WOKE_FULL, aEnd[k]);
      cqCheck(((mDo & CQ_PACE_LOOK)!=0) ==
              (aEnd[k]>=aEnd[m] || (mDo & CQ_PACE_OVER)!=0), "ends: look");
    }
    if( aEnd[i]==0 ) cqCheck((mDo & CQ_PACE_OVER)!=0, "ends: 0 is over");
    if( aEnd[i]==CQ_I64_MAX && aEnd[k]<=aEnd[j] ){
      cqCheck((mDo & CQ_PACE_OVER)==0, "ends: for ever");
    }
  }
}

/* Which file systems other machines can write to; by statfs(2), and one more or
** less is another one. */
static void cqTestPaceFar(void){
  static const u32 aFar[] = {0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x65735546,
      0x01021997, 0x00c36400, 0x5346414f, 0x6b414653, 0x73757245, 0x01161970,
      0x7461636f, 0x0bd00bd0, 0x786f4256, 0x564c};
  static const u32 aNear[] = {0, 0xef53 /* ext4 */, 0x01021994 /* tmpfs */,
      0x9123683e /* btrfs */, 0x58465342 /* XFS */, 0x794c7630 /* overlay */,
      0x2fc12fc1 /* ZFS */, 0xf2f52010 /* F2FS */, 0xffffffff};
  int i;
  for(i=0; i<CQ_COUNT(aFar); i++){
    cqCheck(claimqPaceIsFar(aFar[i]), "%x is far", aFar[i]);
    cqCheck(!claimqPaceIsFar(aFar[i]-1) && !claimqPaceIsFar(aFar[i]+1),
            "beside %x", aFar[i]);
  }
  for(i=0; i<CQ_COUNT(aNear); i++){
    cqCheck(!claimqPaceIsFar(aNear[i]), "%x is near", aNear[i]);
  }
}
