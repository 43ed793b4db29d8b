/*
** sim_change.c: jobs that are changed while they wait.
**
** Each change gives a job another payload: its number, and 1000 for each change
** before.  Which ones a claim may show is known from the order of the answers,
** but for changes that were under way or were killed.  Then:
**
**   *  a claim shows what was put last, and so does the row in the end;
**   *  a job that somebody holds, or that has ended, is not changed, and any
**      other is;
**   *  one that is put off is not claimed before its time.
*/
#include <string.h>
#include "sim.h"
#include "sim_op.h"

#define NCHANGE 400

typedef struct Change Change;
struct Change {
  int iWork, iVersion;
  int nPriority, nDelay;          /* -1: no delay */
  int nDue;                       /* See aDue */
  i64 iMs;                        /* When it began */
  i64 iBegin, iEnd;               /* By nOrder; 0: no answer */
  u8 bSure;                       /* It was answered, and is on the disk */
  u8 bNever;                      /* It was refused */
};
static Change aChange[NCHANGE];
static int nChange;

/* Until when a job was put off that nobody has claimed yet. */
static struct {
  int nChange;                    /* Calls that put it off, or did so again */
  i64 iOrder;                     /* The answer; 0: none */
  i64 iDue;                       /* In ms */
} aDue[SIM_NWORK];

void changeClear(void){
  nChange = 0;
  memset(aDue, 0, sizeof(aDue));
}

/* What was answered after the last sync may be gone. */
void changePower(void){
  int i;
  for(i=0; i<nChange; i++){
    if( aChange[i].iEnd>sim.iSure ) aChange[i].bSure = 0;
  }
  for(i=0; i<SIM_NWORK; i++) aDue[i].iOrder = 0;
}

/* Did anybody begin to change it? */
int changeAny(int iWork){ return aDue[iWork].nChange>0; }

/* May a call that began at iBegin show this payload? */
void changeShown(int iWork, int iVersion, i64 iBegin){
  i64 iEnd = 0;
  int i, bMade = iVersion==0;
  if( !simRule.bFlow ) return;
  for(i=0; i<nChange; i++){
    const Change *p = &aChange[i];
    if( p->iWork!=iWork || p->iVersion!=iVersion ) continue;
    bMade = !p->bNever;
    iEnd = p->iEnd ? p->iEnd : iBegin;
  }
  if( !bMade ) simFail("job %d has payload %d, which was refused", iWork,
                       iVersion);
  for(i=0; i<nChange; i++){
    const Change *p = &aChange[i];
    if( p->iWork==iWork && p->iVersion!=iVersion && p->bSure
     && p->iBegin>iEnd && p->iEnd<iBegin ){
      simFail("job %d has payload %d, and not %d, which came later", iWork,
              iVersion, p->iVersion);
    }
  }
}

/* A job was claimed. */
void changeClaim(const SimClaim *p){
  const SimRow *r = &p->aRow[0];
  if( !simRule.bFlow || p->eKind!=SIM_LANE || r->iWork<0 ) return;
  changeShown(r->iWork, r->iVersion, p->iBegin);
  if( r->iFence==1 && aDue[r->iWork].iOrder
   && aDue[r->iWork].iOrder<p->iBegin && p->iClaimed<aDue[r->iWork].iDue ){
    simFail("%s: job %d was put off until %lld", p->zId, r->iWork,
            aDue[r->iWork].iDue);
  }
}

/* The next payload of a job. */
static int changeNext(int iWork){
  int i, n = 1;
  for(i=0; i<nChange; i++) n += aChange[i].iWork==iWork;
  return n;
}

/* The call alone. */
int changeCall(SimCo *p, int k, const char *zRequest, int *pe){
  const Change *pC = &aChange[k];
  return opWord(p, opBind(p,
    "SELECT claimq_change(?1, 'payload', ?2, 'priority', ?3, 'delay_ms',"
    "  nullif(?4, -1), 'request', ?5)", "liiit", watchWork(pC->iWork)->iId,
    pC->iWork+1000*pC->iVersion, pC->nPriority, pC->nDelay, zRequest), pe);
}

/* Its answer. */
void changeHeard(int k, int eWord){
  Change *pC = &aChange[k];
  int iWork = pC->iWork;
  pC->iEnd = watchAnswer(iWork, eWord);
  pC->bSure = eWord==OP_DID;
  pC->bNever = eWord!=OP_DID;
  simLog("change %d to %d: %s", iWork, pC->iVersion, eWord==OP_DID ? "changed"
         : eWord==OP_CLAIMED ? "claimed" : "missing");
  flowWord(iWork, eWord, pC->iBegin, pC->iMs, 0);
  if( eWord==OP_MISSING && !flowMayEnd(iWork, 0) ){
    simFail("job %d could not be changed, and nobody ended it", iWork);
  }
  if( eWord!=OP_DID ) return;
  sum.nChange++;
  if( pC->nDelay<0 || aDue[iWork].nChange!=pC->nDue ) return;
  aDue[iWork].iOrder = pC->iEnd;
  aDue[iWork].iDue = pC->iMs+pC->nDelay;
}

/* Change the payload of a job, its priority, and perhaps put it off. */
void opChange(SimCo *p){
  int iWork = watchJob();
  int k = nChange, eWord;
  SimWork *pW = watchWork(iWork);
  Change *pC = &aChange[k];
  if( pW==0 || pW->bLost || nChange>=NCHANGE ) return;
  memset(pC, 0, sizeof(*pC));
  pC->iVersion = changeNext(iWork);
  pC->iWork = iWork;
  pC->nPriority = simPick(5);
  pC->nDelay = simOdds(2) ? 5+simPick(60) : -1;
  pC->iMs = simMs();
  pC->iBegin = sim.nOrder+1;
  nChange++;
  aDue[iWork].iOrder = 0;
  pC->nDue = ++aDue[iWork].nChange;
  if( simRule.bRequest && simOdds(2) ) requestChange(p, iWork, k);
  else if( changeCall(p, k, 0, &eWord)==OP_OK ) changeHeard(k, eWord);
}
