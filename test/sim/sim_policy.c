/*
** sim_policy.c: policies that are changed while others work.
**
** Which value counted when a claim was made is known from the order of the
** answers, but for changes that were under way at that time, or that were
** killed: of these the observer allows both.  Then:
**
**   *  a claim begins, or goes on after its end, only if fewer leases than
**      max_active are live: "Lowering a limit ends no lease";
**   *  none begins in a lane that is paused;
**   *  no window sees more claims begin than rate says, of those that began
**      since the rate was raised;
**   *  keep_ms removes nothing that has not ended (sim_watch.c), and no number
**      is given twice because its row is gone.
*/
#include <string.h>
#include "sim.h"
#include "sim_op.h"

#define NPOLICY    200
#define NEVER      0x7fffffffffffffffLL
#define MAX_ACTIVE 0              /* What is changed */
#define RATE       1
#define PAUSED     2
#define KEEP       3
#define PER_MS     50             /* Of the rate */

typedef struct Change Change;
struct Change {
  int eWhat;
  int iValue;
  i64 iBegin, iEnd;               /* By nOrder; NEVER: under way */
  u8 bSure;                       /* It was answered, and is on the disk */
};
static Change aChange[NPOLICY];
static int nChange;

/* As the lane's policy is in the beginning. */
void policyClear(void){
  static const Change aFirst[] = {
    { MAX_ACTIVE, 2, 0, 0, 1 }, { RATE, 4, 0, 0, 1 }, { PAUSED, 0, 0, 0, 1 },
  };
  memcpy(aChange, aFirst, sizeof(aFirst));
  nChange = 3;
}

/* What was answered after the last sync may be gone. */
void policyPower(void){
  int i;
  for(i=0; i<nChange; i++){
    if( aChange[i].iEnd>sim.iSure ) aChange[i].bSure = 0;
  }
}

/* Was p surely changed again before iBegin? */
static int changeOver(const Change *p, i64 iBegin){
  int i;
  for(i=0; i<nChange; i++){
    const Change *q = &aChange[i];
    if( q->eWhat==p->eWhat && q->bSure && q->iBegin>p->iEnd
     && q->iEnd<iBegin ) return 1;
  }
  return 0;
}

/* The largest value that may have counted for a call since iBegin, or least. */
static int policyValue(int eWhat, i64 iBegin, int bLeast){
  int i, iValue = -1;
  for(i=0; i<nChange; i++){
    const Change *p = &aChange[i];
    if( p->eWhat!=eWhat || changeOver(p, iBegin) ) continue;
    if( iValue<0 || (bLeast ? p->iValue<iValue : p->iValue>iValue) ){
      iValue = p->iValue;
    }
  }
  return iValue;
}

/* Did q begin before the call of p, which began at iBegin, at the time iMs? */
static int claimBefore(const SimClaim *q, i64 iFrom, i64 iBegin, i64 iMs){
  return iFrom<iMs || (iFrom==iMs && q->iEnd<iBegin);
}

/* A lease begins at the time iMs. */
void policyStart(const SimClaim *p, i64 iBegin, i64 iMs){
  int nMax = policyValue(MAX_ACTIVE, iBegin, 0);
  const SimClaim *q = 0;
  int n = 0;
  if( !simRule.bPolicy || p->eKind!=SIM_LANE ) return;
  while( (q = watchNext(q))!=0 ){
    n += q!=p && !q->bLost && q->eKind==SIM_LANE && iMs<q->iUntil
      && claimBefore(q, q->iFrom, iBegin, iMs);
  }
  if( n>=nMax ){
    simFail("%s: %d were live at %lld, max_active was %d", p->zId, n, iMs,
            nMax);
  }
}

/* Do those who began since the rate was raised leave room for p? */
static void policyRate(const SimClaim *p){
  int nMax = policyValue(RATE, p->iBegin, 0);
  i64 iRaised = 0;
  const SimClaim *q = 0;
  int i, n = 0;
  for(i=0; i<nChange; i++){
    const Change *pC = &aChange[i];
    if( pC->eWhat==RATE && pC->iValue>2 && pC->iEnd>iRaised ){
      iRaised = pC->iEnd;
    }
  }
  while( (q = watchNext(q))!=0 ){
    n += q->eKind==SIM_LANE && !q->bLost && q->iBegin>iRaised
      && q->iClaimed>p->iClaimed-PER_MS
      && claimBefore(q, q->iClaimed, p->iBegin, p->iClaimed);
  }
  if( n>=nMax ){
    simFail("%s: %d began in the %d ms up to %lld, the rate was %d", p->zId,
            n+1, PER_MS, p->iClaimed, nMax);
  }
}

/* A claim was made. */
void policyClaim(const SimClaim *p){
  if( !simRule.bPolicy || p->eKind!=SIM_LANE ) return;
  policyStart(p, p->iBegin, p->iClaimed);
  policyRate(p);
  if( policyValue(PAUSED, p->iBegin, 1)==1 ){
    simFail("%s began while the lane was paused", p->zId);
  }
}

/* Change one thing. */
static void policySet(SimCo *p, int eWhat, int iValue){
  static const char *const azSql[] = {
    "SELECT claimq_policy('a', 'max_active', nullif(?1, 1000))",
    "SELECT claimq_policy('a', 'rate', ?1)",
    "SELECT claimq_policy('a', 'paused', ?1)",
    "SELECT claimq_policy('a', 'keep_ms', ?1)",
  };
  Change *pC = &aChange[nChange];
  sqlite3_stmt *pStmt;
  int rc;
  if( nChange>=NPOLICY ) return;
  nChange++;
  pStmt = opBind(p, azSql[eWhat], "i", iValue);
  pC->eWhat = eWhat;
  pC->iValue = iValue;
  pC->iBegin = sim.nOrder;
  pC->iEnd = NEVER;
  pC->bSure = 0;
  rc = opRun(p, pStmt, 0);
  simLog("policy %d is %d: %s", eWhat, iValue, rc==OP_OK ? "ok" : "?");
  pC->iEnd = watchAnswer(eWhat, iValue);
  pC->bSure = rc==OP_OK;
  sum.nPolicy += rc==OP_OK;
}

/* Somebody changes the policy. */
void opPolicy(SimCo *p){
  static const int aActive[] = {0, 1, 2, 3, 1000};
  static const int aKeep[] = {-1, 0, 30, 1000000};
  switch( simPick(4) ){
    case 0: policySet(p, MAX_ACTIVE, aActive[simPick(5)]); break;
    case 1: policySet(p, RATE, simOdds(2) ? 2 : 4); break;
    case 2: policySet(p, PAUSED, simOdds(3)); break;
    default: policySet(p, KEEP, aKeep[simPick(4)]); break;
  }
}

/* As it must be for everything to be done. */
void opPolicyOpen(SimCo *p){
  nChange = nChange>NPOLICY-3 ? NPOLICY-3 : nChange;
  policySet(p, MAX_ACTIVE, 1000);
  policySet(p, RATE, 4);
  policySet(p, PAUSED, 0);
}
