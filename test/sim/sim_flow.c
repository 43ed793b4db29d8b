/*
** sim_flow.c: jobs that wait for others, flows, and cancelling.
**
**   *  a job that waits is not claimed before those it waits for have ended, or
**      have been completed, if the failure of one cancels it;
**   *  what was cancelled is never claimed again, and its holder can do nothing
**      with it any more;
**   *  a cancel is refused only if somebody may hold the job, or may have ended
**      it, and does not take it from a holder unless by force;
**   *  a flow that is cancelled by force has ended as a whole, and the number
**      that is answered is possible;
**   *  in the end no job is blocked (see drain() in sim_work.c), none was
**      cancelled without a reason, and none was completed after the failure of
**      one whose success it needed.
**
** Of calls that are under way or were killed the observer allows both ends.
*/
#include <string.h>
#include "sim.h"
#include "sim_op.h"

#define NAFTER 3                  /* Jobs that one waits for */
#define NFLOW  3

/* Of a job, by its payload. */
typedef struct Flow Flow;
struct Flow {
  int aAfter[NAFTER];             /* Payloads of those it waits for */
  int nAfter;
  int iFlow;                      /* -1: none */
  int nDelay;
  u8 bMade;
  u8 bRun;                        /* However those end */
  u8 bForced;                     /* Somebody began to cancel it by force */
  int nCancel;                    /* Calls that may have cancelled it */
  i64 iParked;                    /* The answer since which it waits; 0: put */
  i64 iOver;                      /* The answer since which it has ended */
  i64 iCancelled;                 /* The answer that cancelled it */
};
static Flow aFlow[SIM_NWORK];
static int aUnder[NFLOW][2];      /* Cancels of a flow under way; by force */

void flowClear(void){
  int i;
  memset(aFlow, 0, sizeof(aFlow));
  memset(aUnder, 0, sizeof(aUnder));
  for(i=0; i<SIM_NWORK; i++) aFlow[i].iFlow = -1;
}

/* What was answered after the last sync may be gone. */
void flowPower(void){
  int i;
  for(i=0; i<SIM_NWORK; i++){
    Flow *p = &aFlow[i];
    if( p->iOver>sim.iSure ) p->iOver = 0;
    if( p->iCancelled>sim.iSure ) p->iCancelled = 0;
    if( p->iParked>sim.iSure ) p->nAfter = 0;
  }
}

/**************************************************************************
** What may be
*/

/*
** May the job have failed, or have been cancelled?  nOwn calls do not count.
** (Only jobs before a job can cancel it: see bRun.)
*/
static int flowMayFail(int iWork, int nOwn){
  static u8 aMay[SIM_NWORK];
  int i, j;
  for(i=0; i<=iWork; i++){
    const Flow *p = &aFlow[i];
    aMay[i] = watchWork(i)->bFails || p->nCancel>(i==iWork ? nOwn : 0);
    for(j=0; j<p->nAfter && !p->bRun; j++) aMay[i] |= aMay[p->aAfter[j]];
  }
  return aMay[iWork];
}

/* May the job have ended? */
int flowMayEnd(int iWork, int nOwn){
  const SimWork *pW = watchWork(iWork);
  return pW->bEnds || pW->bLost || flowMayFail(iWork, nOwn);
}

/* The answer since which it has ended, by nOrder; 0 if there is none. */
i64 flowOver(int iWork){
  i64 iOver = aFlow[iWork].iOver;
  i64 iDone = watchWork(iWork)->iDone;
  return iOver && (iDone==0 || iOver<iDone) ? iOver : iDone;
}

/* May what the job waits for have ended, when pC was claimed? */
int flowOpen(int iWork, const SimClaim *pC){
  const Flow *p = &aFlow[iWork];
  int i;
  if( p->iParked && pC->iBegin<p->iParked ) return 1;
  for(i=0; i<p->nAfter; i++){
    int iAfter = p->aAfter[i];
    const SimWork *q = watchWork(iAfter);
    i64 iCancelled = aFlow[iAfter].iCancelled;
    if( q->bLost ) continue;
    if( p->bRun ? !flowMayEnd(iAfter, 0) : !q->bDoes ) return 0;
    if( !p->bRun && iCancelled && iCancelled<pC->iBegin ) return 0;
  }
  return 1;
}

/* Does the claim have the job?  A job has one row. */
static int flowHas(const SimClaim *q, int iWork){
  return q->eKind==SIM_LANE && q->aRow[0].iWork==iWork;
}

/* Has nobody had the job in hand? */
static int flowUntouched(int iWork){
  const SimClaim *q = 0;
  if( sim.nUnheard ) return 0;
  while( (q = watchNext(q))!=0 ) if( flowHas(q, iWork) ) return 0;
  return 1;
}

/* Is there nothing that keeps a claim from this job? */
int flowFree(int iWork){
  const Flow *p = &aFlow[iWork];
  return p->nAfter==0 && p->iParked==0 && p->nDelay==0 && !changeAny(iWork)
      && !flowMayEnd(iWork, 0) && flowUntouched(iWork);
}

/* The answer of a claim: what it took may be cancelled by now. */
void flowHeard(SimClaim *p){
  int iWork = p->aRow[0].iWork;
  if( !simRule.bFlow || p->eKind!=SIM_LANE || iWork<0 ) return;
  if( aFlow[iWork].bForced ){
    p->bRevoked = 1;
    p->iUntil = p->iFrom;
  }
  if( aFlow[iWork].iOver && aFlow[iWork].iOver<p->iBegin ){
    simFail("%s delivers %d, which was cancelled", p->zId, iWork);
  }
}

/* A verb that began after iBegin did something with the claim. */
void flowKept(const SimClaim *p, i64 iBegin){
  int iWork = p->aRow[0].iWork;
  if( !simRule.bFlow || p->eKind!=SIM_LANE || iWork<0 ) return;
  if( aFlow[iWork].iCancelled && aFlow[iWork].iCancelled<iBegin ){
    simFail("%s still holds %d, which was cancelled", p->zId, iWork);
  }
}

/**************************************************************************
** Jobs that wait
*/

/* Some job before iBefore whose id is known; -1 if there is none. */
static int flowTarget(int iBefore, int nBack){
  int i = iBefore-1-simPick(nBack);
  const SimWork *pW = watchWork(i);
  return pW && pW->eKind==SIM_LANE && pW->iId && !pW->bLost ? i : -1;
}

/* How many pieces of work there are. */
static int flowCount(void){
  int n = 0;
  while( watchWork(n) ) n++;
  return n;
}

/* The same, with more patience. */
static int flowRecent(int iBefore){
  int i, iWork = -1;
  for(i=0; i<4 && iWork<0; i++) iWork = flowTarget(iBefore, 6);
  return iWork;
}

/* Add it to those that a job waits for. */
static void flowAdd(Flow *p, int iAfter){
  int i;
  for(i=0; i<p->nAfter && p->aAfter[i]!=iAfter; i++){}
  if( iAfter<0 || i<p->nAfter ) return;
  p->aAfter[p->nAfter++] = iAfter;
}

/* Those that a job waits for, as JSON. */
static void flowText(const Flow *p, char *z, int n){
  int i;
  sqlite3_snprintf(n, z, "[");
  for(i=0; i<p->nAfter; i++){
    int m = (int)strlen(z);
    sqlite3_snprintf(n-m, &z[m], "%s%lld", i ? "," : "",
                     watchWork(p->aAfter[i])->iId);
  }
  sqlite3_snprintf(n-(int)strlen(z), &z[strlen(z)], "]");
}

/* What the new job waits for, and where it belongs.  Its flow may be cancelled
** just now. */
static void flowMake(Flow *p, int iWork){
  int i, n = simPick(NAFTER+1);
  for(i=0; i<n; i++) flowAdd(p, flowRecent(iWork));
  p->iFlow = simPick(NFLOW+1)-1;
  p->bRun = (u8)simOdds(3);
  p->nDelay = simOdds(5) ? 20 : 0;
  p->bMade = 1;
  if( p->iFlow<0 ) return;
  p->nCancel = aUnder[p->iFlow][0] + aUnder[p->iFlow][1];
  p->bForced = aUnder[p->iFlow][1]>0;
}

/* Submit a job, which waits for others; the same again if it was before. */
int flowSubmit(SimCo *p, int iWork, const char *zRequest, i64 *pi){
  Flow *pF = &aFlow[iWork];
  char zAfter[80], zFlow[8];
  int rc;
  if( !pF->bMade ) flowMake(pF, iWork);
  flowText(pF, zAfter, sizeof(zAfter));
  sqlite3_snprintf(sizeof(zFlow), zFlow, "f%d", pF->iFlow);
  rc = opRun(p, opBind(p,
    "SELECT claimq_submit('a', ?1, 'priority', ?1*7%5, 'after', ?2, 'flow_id',"
    "  ?3, 'on_failure', ?4, 'delay_ms', ?5, 'request', ?6)", "itttit", iWork,
    zAfter, pF->iFlow<0 ? 0 : zFlow, pF->bRun ? "run" : "cancel", pF->nDelay,
    zRequest), pi);
  if( rc==OP_OK ) sum.nAfter += pF->nAfter>0;
  simLog("submit %d after %s, flow %d, %s", iWork, zAfter, pF->iFlow,
         pF->bRun ? "run" : "cancel");
  return rc;
}

/*
** Give a job back until others have ended, which may be younger.  1 if the
** claim is still there: one of them waits for this one.
*/
int opPark(SimCo *p, SimClaim *pC){
  int iWork = pC->aRow[0].iWork;
  int nWork = flowCount();
  char zAfter[80];
  Flow f;
  i64 i = 0;
  int rc;
  if( iWork<0 ) return 1;
  memset(&f, 0, sizeof(f));
  flowAdd(&f, flowRecent(nWork));
  flowAdd(&f, flowTarget(nWork, nWork));
  if( f.nAfter==0 ) return 1;
  flowText(&f, zAfter, sizeof(zAfter));
  watchSettle(pC, 0);
  pC->bGiven = 1;
  simLog("park %d: %s", iWork, zAfter);
  rc = opRun(p, opBind(p, "SELECT claimq_release(?1, ?2, 'after', ?3)", "ttt",
                       pC->zId, pC->zToken, zAfter), &i);
  if( rc==OP_REFUSED ) return 1;
  if( rc!=OP_OK || i==0 ) return 0;
  watchSettled(pC, 0, 1);
  memcpy(aFlow[iWork].aAfter, f.aAfter, sizeof(f.aAfter));
  aFlow[iWork].nAfter = f.nAfter;
  aFlow[iWork].bRun = 1;
  aFlow[iWork].iParked = sim.nOrder;
  sum.nPark++;
  return 0;
}

/**************************************************************************
** Cancelling
*/

/* Somebody begins to take the job from its holders. */
static void flowForce(int iWork){
  const SimClaim *q = 0;
  aFlow[iWork].bForced = 1;
  while( (q = watchNext(q))!=0 ){
    SimClaim *pC = (SimClaim*)q;
    if( !flowHas(pC, iWork) ) continue;
    watchSettle(pC, 0);
    pC->bRevoked = 1;
  }
}

/*
** A call on the job that began at iBegin, at the time iMs, has answered with
** eWord.  bForce: it does not mind who holds the job.
*/
void flowWord(int iWork, int eWord, i64 iBegin, i64 iMs, int bForce){
  const SimClaim *q = 0;
  int bHolds = 0, bMay = sim.nUnheard>0;
  while( (q = watchNext(q))!=0 ){
    if( !flowHas(q, iWork) ) continue;
    bMay |= q->iExpires>iMs || q->bLost || q->iExpires==0;
    bHolds |= watchHolds(q, iBegin, iMs);
  }
  if( eWord==OP_DID && bHolds && !bForce ){
    simFail("job %d was cancelled or changed, and somebody held it", iWork);
  }
  if( eWord==OP_DID && flowOver(iWork) && flowOver(iWork)<iBegin ){
    simFail("job %d was cancelled or changed, and had ended", iWork);
  }
  if( eWord==OP_CLAIMED && (bForce || !bMay) ){
    simFail("job %d was not touched, and nobody held it", iWork);
  }
}

/* Cancel a job, by force or not. */
int flowCancel(SimCo *p, int iWork, int bForce, const char *zRequest, int *pe){
  SimWork *pW = watchWork(iWork);
  Flow *pF = &aFlow[iWork];
  i64 iBegin = sim.nOrder+1, iMs = simMs(), iOrder;
  int rc;
  pF->nCancel++;
  if( bForce ) flowForce(iWork);
  rc = opWord(p, opBind(p,
    "SELECT claimq_cancel(?1, 'force', ?2, 'request', ?3)", "lit", pW->iId,
    bForce, zRequest), pe);
  if( rc!=OP_OK ) return rc;
  iOrder = watchAnswer(iWork, *pe);
  simLog("cancel %d: %s", iWork, *pe==OP_DID ? "cancelled"
         : *pe==OP_CLAIMED ? "claimed" : "missing");
  flowWord(iWork, *pe, iBegin, iMs, bForce);
  if( *pe==OP_MISSING && !flowMayEnd(iWork, 1) && !pF->iOver ){
    simFail("job %d could not be cancelled, and nobody ended it", iWork);
  }
  if( *pe!=OP_DID ){
    pF->nCancel--;
    return rc;
  }
  if( pW->iDone ) simFail("job %d was cancelled, and completed", iWork);
  sum.nCancel++;
  pF->iOver = pF->iCancelled = iOrder;
  return rc;
}

void opCancel(SimCo *p){
  int nWork = flowCount();
  int iWork = nWork ? flowTarget(nWork, nWork<20 ? nWork : 20) : -1;
  int bForce = simOdds(2), eWord;
  if( iWork<0 ) return;
  if( simRule.bRequest && simOdds(2) ) requestCancel(p, iWork, bForce);
  else flowCancel(p, iWork, bForce, 0, &eWord);
}

/* Is the number of cancelled jobs possible? */
static void flowNumber(int iFlow, int bForce, i64 iBegin, i64 n){
  int i, nLeast = 0, nMost = 0;
  for(i=0; watchWork(i); i++){
    const SimWork *pW = watchWork(i);
    if( aFlow[i].iFlow!=iFlow ) continue;
    nMost++;
    if( pW->iPut==0 || pW->iPut>iBegin || flowMayEnd(i, 1) ) continue;
    nLeast += bForce || flowUntouched(i);
  }
  if( n<nLeast || n>nMost ){
    simFail("%lld jobs of flow %d were cancelled, of %d to %d", n, iFlow,
            nLeast, nMost);
  }
}

/* Cancel a flow. */
void opCancelFlow(SimCo *p){
  int iFlow = simPick(NFLOW);
  int bForce = simOdds(2);
  int i, rc, nWork = flowCount();
  char zFlow[8];
  i64 iBegin = sim.nOrder+1, n = 0;
  for(i=0; i<nWork; i++){
    if( aFlow[i].iFlow!=iFlow ) continue;
    aFlow[i].nCancel++;
    if( bForce ) flowForce(i);
  }
  sqlite3_snprintf(sizeof(zFlow), zFlow, "f%d", iFlow);
  aUnder[iFlow][bForce]++;
  rc = opRun(p, opBind(p, "SELECT claimq_cancel_flow(?1, 'force', ?2)", "ti",
                       zFlow, bForce), &n);
  aUnder[iFlow][bForce]--;
  if( rc!=OP_OK ) return;
  watchAnswer(iFlow, n);
  simLog("cancel flow %d%s: %lld", iFlow, bForce ? " by force" : "", n);
  sum.nCancel += n;
  flowNumber(iFlow, bForce, iBegin, n);
  for(i=0; i<nWork && bForce; i++){
    const SimWork *pW = watchWork(i);
    Flow *pF = &aFlow[i];
    if( pF->iFlow!=iFlow || pW->iPut==0 || pW->iPut>iBegin || pW->bLost
     || pF->iOver ) continue;
    pF->iOver = sim.nOrder;
    if( !pW->bEnds ) pF->iCancelled = sim.nOrder;
  }
}

/**************************************************************************
** The end
*/

/* Does the end of this job fit those of the jobs that it waited for? */
static void endOne(int i, const u8 *aState){
  const Flow *p = &aFlow[i];
  int j;
  if( aState[i]=='x' && !flowMayFail(i, 0) ){
    simFail("nobody cancelled job %d", i);
  }
  if( aState[i]=='c' && p->iCancelled ){
    simFail("job %d was cancelled, and is completed", i);
  }
  for(j=0; j<p->nAfter && !p->bRun && aState[i]=='c'; j++){
    u8 e = aState[p->aAfter[j]];
    if( (e=='f' || e=='x') && !watchWork(p->aAfter[j])->bLost ){
      simFail("job %d is completed, and %d, which it needed, is not", i,
              p->aAfter[j]);
    }
  }
}

/* All jobs have ended: do their ends fit? */
void flowEnd(sqlite3 *db){
  static u8 aState[SIM_NWORK];
  sqlite3_stmt *pStmt = 0;
  int i;
  memset(aState, 0, sizeof(aState));
  sqlite3_prepare_v2(db,
    "SELECT payload, state FROM claimq_job WHERE typeof(payload)='integer'",
    -1, &pStmt, 0);
  while( sqlite3_step(pStmt)==SQLITE_ROW && !sim.bStop ){
    const char *z = (const char*)sqlite3_column_text(pStmt, 1);
    i = sqlite3_column_int(pStmt, 0);
    changeShown(i%1000, i/1000, sim.nOrder+1);
    aState[i%1000] = (u8)(strcmp(z, "cancelled") ? z[0] : 'x');
  }
  if( sqlite3_finalize(pStmt) ) simFail("flows: %s", sqlite3_errmsg(db));
  for(i=0; watchWork(i) && !sim.bStop; i++) endOne(i, aState);
}
