/*
** sim_work.c: worlds, and those who work in them.
**
** A world is a database with some kind of work.  Its connections put, claim,
** renew and settle at random, are killed and begin again, until each has made
** its calls.  In the end one connection that nothing disturbs finishes
** everything, which must be possible, and the observer looks at what is there.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim.h"
#include "sim_op.h"

static const SimMode aMode[] = {
  { "WAL FULL", "PRAGMA synchronous=full", 1, 1 },
  { "WAL NORMAL", "PRAGMA synchronous=normal", 1, 0 },
  { "DELETE FULL", "PRAGMA synchronous=full", 0, 0 },
  { "DELETE EXTRA", "PRAGMA synchronous=extra", 0, 1 },
  { "TRUNCATE FULL",
    "PRAGMA journal_mode=truncate; PRAGMA synchronous=full", 0, 1 },
  { "PERSIST FULL",
    "PRAGMA journal_mode=persist; PRAGMA synchronous=full", 0, 1 },
};
#define SIM_NMODE ((int)(sizeof(aMode)/sizeof(aMode[0])))

typedef struct World World;
struct World {
  const char *zName;
  const char *zSetup;
  int mKind;                      /* Bits of SIM_LANE ... */
  SimRule rule;
  u8 bSchedule;
  struct {                        /* Made once, for WAL and without */
    void *a;
    i64 n;
  } aImage[2];
};

#define LANE    (1<<SIM_LANE)
#define SESSION (1<<SIM_SESSION)
#define OUTBOX  (1<<SIM_OUTBOX)
#define CONTEST (1<<SIM_CONTEST)
#define LETTER  (1<<SIM_LETTER)

static World aWorld[] = {
  { .zName = "lane", .mKind = LANE, .zSetup = "SELECT claimq_init()" },
  { .zName = "lane with max_active 1", .mKind = LANE, .rule = {.nActive = 1},
    .zSetup = "SELECT claimq_policy('a', 'max_active', 1)" },
  { .zName = "lane with max_active 2 and a rate", .mKind = LANE,
    .rule = {.nActive = 2, .nRate = 3, .nPer = 50},
    .zSetup = "SELECT claimq_policy('a', 'max_active', 2, 'rate', 3,"
              "  'per_ms', 50)" },
  { .zName = "lane with groups", .mKind = LANE, .rule = {.nGroup = 1},
    .zSetup = "SELECT claimq_policy('a', 'group_max_active', 1, 'fair', 1)" },
  { .zName = "schedule", .mKind = LANE, .bSchedule = 1,
    .zSetup = "SELECT claimq_schedule('s', 'every 40 ms', 'a', NULL)" },
  { .zName = "serial sessions", .mKind = SESSION, .rule = {.bSerial = 1},
    .zSetup = "SELECT claimq_init('sessions', 1, 'serial', 1)" },
  { .zName = "sessions", .mKind = SESSION,
    .zSetup = "SELECT claimq_init('sessions', 1)" },
  { .zName = "outbox", .mKind = OUTBOX,
    .zSetup = "SELECT claimq_queue('q', 2, 'backoff_ms', 20)" },
  { .zName = "contests", .mKind = CONTEST, .zSetup = "SELECT claimq_init()" },
  { .zName = "all", .mKind = LANE|SESSION|OUTBOX|CONTEST,
    .rule = {.nActive = 2, .bSerial = 1, .bAfter = 1},
    .zSetup = "SELECT claimq_init('all', 1, 'serial', 1);"
              "SELECT claimq_queue('q', 2, 'backoff_ms', 20);"
              "SELECT claimq_policy('a', 'max_active', 2, 'max_reclaims',"
              "  1000)" },
  { .zName = "steps", .mKind = LANE|SESSION, .rule = {.bStep = 1},
    .zSetup = "SELECT claimq_init('sessions', 1, 'steps', 1)" },
  { .zName = "grants", .mKind = LANE, .rule = {.bGrant = 1},
    .zSetup = "SELECT claimq_init('grants', 1)" },
  { .zName = "letters", .mKind = LANE|LETTER,
    .rule = {.bLetter = 1, .bStep = 1},
    .zSetup = "SELECT claimq_init('steps', 1);"
              "SELECT claimq_policy('a', 'max_reclaims', 1)" },
  { .zName = "a policy that changes", .mKind = LANE,
    .rule = {.bPolicy = 1, .bGone = 1},
    .zSetup = "SELECT claimq_policy('a', 'max_active', 2, 'rate', 4,"
              "  'per_ms', 50)" },
  { .zName = "all that ends", .mKind = LANE|SESSION|OUTBOX|LETTER,
    .rule = {.bLetter = 1, .bStep = 1, .bAfter = 1, .bGone = 1},
    .zSetup = "SELECT claimq_init('all', 1);"
              "SELECT claimq_queue('q', 2, 'backoff_ms', 20);"
              "SELECT claimq_policy('a', 'max_reclaims', 2)" },
  { .zName = "flows", .mKind = LANE, .rule = {.bFlow = 1, .bWait = 1},
    .zSetup = "SELECT claimq_init('flows', 1);"
              "SELECT claimq_policy('a', 'max_reclaims', 1000, 'max_attempts',"
              "  1000)" },
  { .zName = "requests", .mKind = LANE|SESSION|OUTBOX|CONTEST,
    .rule = {.bRequest = 1, .bSerial = 1},
    .zSetup = "SELECT claimq_init('all', 1, 'serial', 1);"
              "SELECT claimq_queue('q', 2, 'backoff_ms', 20);"
              "SELECT claimq_policy('a', 'max_reclaims', 1000)" },
  { .zName = "flows and requests", .mKind = LANE,
    .rule = {.bFlow = 1, .bRequest = 1, .bWait = 1, .bGone = 1, .nActive = 3},
    .zSetup = "SELECT claimq_init('flows', 1);"
              "SELECT claimq_policy('a', 'max_active', 3, 'max_reclaims',"
              "  1000, 'max_attempts', 1000)" },
};
#define SIM_NWORLD ((int)(sizeof(aWorld)/sizeof(aWorld[0])))

static World *pWorld;

int workKinds(void){ return SIM_NWORLD; }
const char *workName(int i){ return aWorld[i].zName; }

/**************************************************************************
** Those who work
*/

/* Something to put. */
static void stepPut(SimCo *p, int bPlain){
  static const int aTurn[] = {SIM_LANE, SIM_SESSION, SIM_OUTBOX};
  int e = aTurn[simPick(3)];
  while( !(pWorld->mKind & (1<<e)) ){
    if( pWorld->mKind==CONTEST ) return;
    e = aTurn[simPick(3)];
  }
  opPut(p, e, bPlain || simOdds(4));
}

/* May what was claimed be rejected? */
static int mayReject(const SimClaim *pC){
  if( simRule.bLetter ) return pC->eKind!=SIM_CONTEST;
  return pC->eKind==SIM_LANE && simOdds(4);
}

/* Some kind of this world. */
static int pickKind(void){
  int e = simPick(SIM_NKIND);
  while( !(pWorld->mKind & (1<<e)) ) e = simPick(SIM_NKIND);
  return e;
}

/* What is done with a claim of this world alone.  1: with this one. */
static int stepOther(SimCo *p, SimClaim **ppC, int nLease){
  SimClaim *pC = *ppC;
  int bStay;
  if( pC->eKind==SIM_LETTER && simOdds(3) ){
    bStay = opRequeueHeld(p, pC);
  }else if( simRule.bStep && pC->eKind<=SIM_SESSION && simOdds(2) ){
    bStay = opStep(p, pC, nLease);
  }else if( simRule.bLetter && pC->eKind!=SIM_LETTER && simOdds(6) ){
    opSettle(p, pC, OP_REJECT);
    bStay = 0;
  }else if( simRule.bFlow && pC->eKind==SIM_LANE && simOdds(5) ){
    bStay = simOdds(2) && opPark(p, pC);
    if( !bStay && !pC->bGiven ) opSettle(p, pC, OP_REJECT);
  }else if( simRule.bRequest && simOdds(3) ){
    *ppC = requestClaim(p, pickKind(), nLease, pC);
    return 1;
  }else{
    return 0;
  }
  if( !bStay ) *ppC = 0;
  return 1;
}

/* Settle a claim, some with a request. */
static void stepSettle(SimCo *p, SimClaim *pC, int eHow){
  if( simRule.bRequest && eHow==OP_COMPLETE && simOdds(3) ) requestList(p, pC);
  else if( simRule.bRequest && simOdds(2) ) requestSettle(p, pC, eHow);
  else opSettle(p, pC, eHow);
}

/* Renew it: 1 if it is still there. */
static int stepRenew(SimCo *p, SimClaim *pC, int nLease){
  if( simRule.bRequest && simOdds(3) ) return requestRenew(p, pC, nLease);
  return opRenew(p, pC, nLease);
}

/* Do what workers do with a claim. */
static void stepHold(SimCo *p, SimClaim *pC, int nLease){
  while( pC && !p->bDead && !sim.bStop ){
    simSleep(simPick(nLease*(simOdds(4) ? 1500 : 700)));
    if( stepOther(p, &pC, nLease) ) continue;
    switch( simPick(8) ){
      case 0: case 1: case 2:
        if( stepRenew(p, pC, nLease) ) continue;
        break;
      case 3:
        stepSettle(p, pC, OP_RETRY);
        break;
      case 4:
        stepSettle(p, pC, simOdds(2) ? OP_RELEASE
                        : mayReject(pC) ? OP_REJECT : OP_FORGET);
        break;
      case 5:
        if( opTogether(p, pC) ) continue;
        break;
      default:
        stepSettle(p, pC, OP_COMPLETE);
        break;
    }
    break;
  }
}

/* Claim something. */
static void stepClaim(SimCo *p){
  int nLease = 15 + simPick(100);
  int e = pickKind();
  if( e==SIM_LANE && simRule.bGrant && simOdds(2) ){
    stepHold(p, opReclaim(p, nLease), nLease);
  }else if( e==SIM_LANE && simOdds(pWorld->bSchedule ? 2 : 8) ){
    opWithin(p);
  }else{
    SimClaim *pC = simRule.bRequest && simOdds(2)
                 ? requestClaim(p, e, nLease, 0) : opClaim(p, e, nLease);
    if( pC==0 && simRule.bWait && e==SIM_LANE && !p->bDead && simOdds(2) ){
      opWaitLane(p);
    }
    stepHold(p, pC, nLease);
  }
}

/* What operators do with jobs that wait.  1: something. */
static int stepFlow(SimCo *p){
  switch( simPick(8) ){
    case 0: opCancel(p); break;
    case 1: if( simOdds(3) ) opCancelFlow(p); else opChange(p); break;
    case 2: if( simRule.bWait ) opWait(p); break;
    default: return 0;
  }
  return 1;
}

/* What operators do in this world.  1: something. */
static int stepOperate(SimCo *p){
  if( simRule.bGrant && simOdds(3) ){
    if( simOdds(5) ) opUngrant(p); else opGrant(p);
  }else if( simRule.bLetter && simOdds(6) ){
    if( simOdds(2) ) opRequeue(p); else opResolve(p);
  }else if( simRule.bPolicy && simOdds(4) ){
    opPolicy(p);
  }else if( simRule.bGone && simOdds(10) ){
    opVacuum(p);
  }else if( simRule.bRequest && simOdds(4) ){
    int nLease = 0;
    SimClaim *pC = opRepeat(p, &nLease);
    stepHold(p, pC, nLease);
  }else if( simRule.bFlow ){
    return stepFlow(p);
  }else{
    return 0;
  }
  return 1;
}

/* One thing that a connection does. */
static void step(SimCo *p, int bPlain){
  simSleep(simPick(20*1000));
  if( bPlain ){
    stepPut(p, 1);
  }else if( pWorld->bSchedule && simOdds(3) ){
    opSchedule(p);
  }else if( stepOperate(p) ){
  }else if( simOdds(pWorld->bSchedule ? 12 : simRule.bFlow ? 2 : 3) ){
    stepPut(p, 0);
  }else if( simOdds(20) ){
    opRevoke(p);
  }else{
    stepClaim(p);
  }
}

/* A connection: it works, is killed, and begins again. */
static void worker(SimCo *p){
  int nCall = 6 + simPick(8);
  int bPlain = p->iCo==SIM_NCO-1 && !pWorld->bSchedule;
  while( nCall>0 && !sim.bStop ){
    opOpen(p, bPlain);
    while( nCall>0 && !p->bDead && !sim.bStop ){
      nCall--;
      step(p, bPlain);
    }
    opClose(p);
    if( p->bDead ) simVfsBuried(p);
    if( sim.bCrash || sim.bStop ) return;
  }
}

/**************************************************************************
** One seed
*/

/* The database of a world as it is in the beginning. */
static void worldLoad(World *p, int bWal){
  SimCo *pCo = &sim.aCo[0];
  if( p->aImage[bWal].a==0 ){
    i64 iNow = sim.iNow;
    sim.iNow = 1700000000000LL*1000;
    simVfsClear();
    simSeed(1);
    opOpen(pCo, 0);
    if( sqlite3_exec(pCo->db, p->zSetup, 0, 0, 0) ){
      simFail("setup of %s: %s", p->zName, sqlite3_errmsg(pCo->db));
    }
    sqlite3_exec(pCo->db, bWal ? "PRAGMA journal_mode=wal"
                               : "PRAGMA journal_mode=delete", 0, 0, 0);
    opClose(pCo);
    p->aImage[bWal].a = simVfsImage(&p->aImage[bWal].n);
    sim.iNow = iNow;
  }
  simVfsLoad(p->aImage[bWal].a, p->aImage[bWal].n);
}

/* Everything died: the machine starts again. */
static void restart(void){
  int bPower = !simOdds(3);
  simLog(bPower ? "the power fails" : "all are killed");
  sim.bCrash = 0;
  simVfsRestart(bPower);
  sum.nCrash++;
  sum.nPower += bPower;
  if( bPower ){
    watchPower();
    if( !sim.pMode->bSure && simOdds(2) ){
      opOpen(&sim.aCo[0], 0);
      opRestored(&sim.aCo[0]);
      opClose(&sim.aCo[0]);
    }
  }
  sim.nUntil = simOdds(2) ? 1 + simPick(3000) : 0;
}

/* Whoever is left does everything that is left. */
static void drain(void){
  SimCo *p = &sim.aCo[0];
  int i, e;
  opOpen(p, 0);
  if( pWorld->bSchedule ) opUnschedule(p);
  if( simRule.bPolicy ) opPolicyOpen(p);
  if( simRule.bRequest ) opRepeatAll(p);
  for(i=0; i<1500 && !sim.bStop; i++){
    int n = 0;
    for(e=0; e<SIM_NKIND; e++){
      if( e!=SIM_CONTEST && pWorld->mKind & (1<<e) ) n += opFinish(p, e);
    }
    if( n==0 && simRule.bGrant ) n = opGrantAll(p);
    if( n==0 && !opLeft(p) ) break;
    if( n==0 ) simSleep(50*1000);
  }
  if( i==1500 ) simFail("it does not come to an end");
  if( !sim.bStop ) watchEnd(p->db);
  opClose(p);
}

/* The history of sim.iSeed. */
void workRun(void){
  int i, nWorker, nEpoch = 0;
  pWorld = &aWorld[sim.iSeed % SIM_NWORLD];
  sim.pMode = &aMode[(sim.iSeed/SIM_NWORLD) % SIM_NMODE];
  sim.pCo = &sim.aCo[0];
  sim.bStop = sim.bCrash = sim.bSwitch = 0;
  sim.hash = 2166136261u;
  sim.nOrder = sim.iSure = sim.iWrote = 0;
  sim.nUnheard = 0;
  watchClear();
  worldLoad(pWorld, sim.pMode->bWal);
  simSeed(sim.iSeed);
  opClear();
  simRule = pWorld->rule;
  sim.iNow = 1700000001000LL*1000;
  sim.nTick = 20 << simPick(6);
  sim.nSwitch = 1 << simPick(6);
  sim.nStall = 100 << simPick(5);
  sim.nUntil = simOdds(3) ? 0 : 1 + simPick(2000);
  nWorker = 2 + simPick(SIM_NCO-2);
  do{
    for(i=1; i<SIM_NCO; i++) sim.aCo[i].bDone = 1;
    for(i=1; i<=nWorker; i++) simStart(i, worker);
    simRun();
    if( sim.bCrash || sim.bStop ) simCrash();
    if( !sim.bCrash ) break;
    restart();
  }while( ++nEpoch<4 && !sim.bStop );
  sim.nUntil = 0;
  if( !sim.bStop ) drain();
  if( sim.bStop ) printf("  (%s; again with -v %lld)\n", pWorld->zName,
                         sim.iSeed);
}
