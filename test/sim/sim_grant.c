/*
** sim_grant.c: jobs that nobody may take without a grant.
**
** Every other job of such a world is taken over by a grant only, and every
** third needs one to be claimed at all.  The observer counts:
**
**   *  a job with `admission` grant comes by claimq_reclaim() first;
**   *  a job with `reclaim` grant whose holder has not given it back comes by
**      claimq_reclaim() only;
**   *  a grant is used once, by its owner, before its end, and not after it was
**      taken back; its number is never given again.
*/
#include <string.h>
#include "sim.h"
#include "sim_op.h"

#define NGRANT 400

typedef struct Grant Grant;
struct Grant {
  int iWork;
  int iOwner;
  i64 iId;                        /* By the answer; 0: none */
  i64 iUntil;                     /* Over by then, in ms; 0: under way */
  i64 iEnd, iBack;                /* Answers, by nOrder; 0: none */
  u8 bLost;                       /* By a power cut, perhaps */
};
static Grant aGrant[NGRANT];
static int nGrant;

void grantClear(void){ nGrant = 0; }

/* What was answered after the last sync may be gone. */
void grantPower(void){
  int i;
  for(i=0; i<nGrant; i++){
    if( aGrant[i].iEnd>sim.iSure ) aGrant[i].bLost = 1;
    if( aGrant[i].iBack>sim.iSure ) aGrant[i].iBack = 0;
  }
}

/* What a job of this payload needs: see opSubmit(). */
int grantReclaim(int iWork){ return simRule.bGrant && iWork%2==0; }
int grantAdmission(int iWork){ return simRule.bGrant && iWork%3==0; }

/* p used a grant.  Was there one? */
static void grantUsed(const SimClaim *p, int iWork){
  const SimClaim *q = 0;
  int iOwner = p->iOwner;
  int i, nAll = 0, nLive = 0, nUsed = 1;
  for(i=0; i<nGrant; i++){
    const Grant *pG = &aGrant[i];
    if( pG->iWork!=iWork || pG->iOwner!=iOwner ) continue;
    if( pG->iBack && pG->iBack<p->iBegin ) continue;
    nAll++;
    nLive += pG->iUntil==0 || pG->iUntil>p->iClaimed;
  }
  while( (q = watchNext(q))!=0 ){
    nUsed += q->bGranted && !q->bLost && q->aRow[0].iWork==iWork
          && q->iOwner==iOwner;
  }
  if( nUsed>nAll ){
    simFail("%s: %d claims of w%d by %d grants", p->zId, nUsed, iOwner, nAll);
  }else if( nLive==0 ){
    simFail("%s: the grant was over at %lld", p->zId, p->iClaimed);
  }
}

/* A job was claimed. */
void grantClaim(const SimClaim *p){
  int iWork = p->aRow[0].iWork;
  const SimWork *pW = watchWork(iWork);
  const SimClaim *q = 0;
  if( !simRule.bGrant || p->eKind!=SIM_LANE || pW==0 ) return;
  if( p->bGranted ){
    sum.nGranted++;
    grantUsed(p, iWork);
    return;
  }
  if( grantAdmission(iWork) && pW->nAdmit==0 ){
    simFail("%s: job %d was claimed, and nobody admitted it", p->zId, iWork);
  }
  while( grantReclaim(iWork) && (q = watchNext(q))!=0 ){
    if( q->eKind==SIM_LANE && q->aRow[0].iWork==iWork && !q->bLost
     && q->aRow[0].iFence==p->aRow[0].iFence-1 && !q->bGiven ){
      simFail("%s: job %d was taken over from %s without a grant", p->zId,
              iWork, q->zId);
    }
  }
}

/* Let somebody have a job. */
void grantMake(SimCo *p, int iWork, int iOwner, int nTtl){
  Grant *pG = &aGrant[nGrant];
  char zOwner[16];
  i64 iId = 0;
  int i, rc;
  if( nGrant>=NGRANT ) return;
  nGrant++;
  memset(pG, 0, sizeof(*pG));
  pG->iWork = iWork;
  pG->iOwner = iOwner;
  sqlite3_snprintf(sizeof(zOwner), zOwner, "w%d", iOwner);
  rc = opRun(p, opBind(p, "SELECT claimq_grant(?1, ?2, ?3)", "lti",
                       watchWork(iWork)->iId, zOwner, nTtl), &iId);
  pG->iUntil = simMs()+nTtl;
  if( rc==OP_REFUSED ) pG->iUntil = 1;
  if( rc!=OP_OK ) return;
  sum.nGrant++;
  pG->iEnd = watchAnswer(iWork, iId);
  simLog("grant %lld: job %d to %s", iId, iWork, zOwner);
  for(i=0; i<nGrant-1; i++){
    if( aGrant[i].iId==iId ){
      watchAgain(aGrant[i].bLost, "the number", "grant", iId);
    }
  }
  pG->iId = iId;
}

void opGrant(SimCo *p){
  int iWork = watchJob();
  if( iWork>=0 ) grantMake(p, iWork, 1+simPick(SIM_NCO-1), 20+simPick(800));
}

/* Take a grant back. */
void opUngrant(SimCo *p){
  Grant *pG = &aGrant[nGrant ? simPick(nGrant) : 0];
  i64 n = 0;
  if( nGrant==0 || pG->iId==0 ) return;
  if( opRun(p, opBind(p, "SELECT claimq_ungrant(?1)", "l", pG->iId), &n)==OP_OK
   && n==1 && !pG->bLost ){
    pG->iBack = watchAnswer(n, pG->iId);
    simLog("grant %lld taken back", pG->iId);
  }
}

/* Claim a job for which there was a grant, for this one or for another. */
SimClaim *opReclaim(SimCo *p, int nLease){
  const Grant *pG = &aGrant[nGrant ? nGrant-1-simPick(nGrant<5 ? nGrant : 5)
                                   : 0];
  if( nGrant==0 ) return 0;
  return opClaimGranted(p, pG->iWork, nLease);
}

/* In the end: admit and finish whatever waits for a grant. */
int opGrantAll(SimCo *p){
  sqlite3_stmt *pStmt = opBind(p,
    "SELECT job_id, payload FROM claimq_job WHERE typeof(payload)='integer'"
    " AND state NOT IN ('completed', 'failed')", "");
  int aLeft[SIM_NWORK];
  int i, n = 0, nLeft = 0;
  while( pStmt && sqlite3_step(pStmt)==SQLITE_ROW && nLeft<SIM_NWORK ){
    aLeft[nLeft] = sqlite3_column_int(pStmt, 1);
    watchWork(aLeft[nLeft++])->iId = sqlite3_column_int64(pStmt, 0);
  }
  opEnd(p, pStmt);
  for(i=0; i<nLeft && !sim.bStop; i++){
    SimClaim *pC;
    nGrant = nGrant<NGRANT ? nGrant : NGRANT-1;
    grantMake(p, aLeft[i], 0, 1000);
    pC = opClaimGranted(p, aLeft[i], 1000);
    if( pC ) opSettle(p, pC, OP_COMPLETE);
    n += pC!=0;
  }
  return n;
}
