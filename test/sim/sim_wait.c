/*
** sim_wait.c: claimq_wait().
**
** In these files nobody reports writes, so that claimq_wait() sleeps with
** select() and looks now and then.  This program has a select() of its own,
** which lets the clock of the simulation go on.
**
**   *  no wait ends with 0 before its time;
**   *  a wait for a lane does not end with 0, nor sleep on, if somebody has put
**      a job that nothing keeps from being claimed;
**   *  a wait for a job ends with 1 only if the job may have ended, and neither
**      ends with 0 nor sleeps on if it was completed;
**   *  a wait for a claim does not end with 1 while it surely holds.
*/
#include <sys/select.h>
#include <sys/time.h>
#include "sim.h"
#include "sim_op.h"

#define NNAP 60

static i64 nDeath;                /* Connections that died before this seed */
static struct {                   /* When a wait began to sleep, by nOrder */
  i64 a[NNAP];
  int n;
} aNap[SIM_NCO];

void waitClear(void){ nDeath = sum.nKill+sum.nCrash; }

/* Sleep, as vfsSleep() does; nobody here waits for descriptors. */
int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *p){
  int iCo = sim.pCo->iCo;
  i64 us = (i64)p->tv_sec*1000000 + p->tv_usec;
  (void)n; (void)r; (void)w; (void)e;
  if( us>0 && aNap[iCo].n<NNAP ) aNap[iCo].a[aNap[iCo].n++] = sim.nOrder;
  simPoint();
  simSleep(us);
  return 0;
}

/* Begin to wait. */
static i64 waitBegin(SimCo *p){
  aNap[p->iCo].n = 0;
  return simMs();
}

/*
** The answer of a wait that began at iMs.  1 if it must have seen what was
** written: a lock can keep it from seeing anything, if there is a rollback
** journal, or a dead connection has left its work to others.
*/
static int waitOver(i64 iMs, int nTimeout, i64 i){
  watchAnswer(nTimeout, i);
  sum.nWait++;
  if( i==0 && simMs()<iMs+nTimeout ){
    simFail("a wait of %d ms ended after %lld", nTimeout, simMs()-iMs);
  }
  return sim.pMode->bWal && sum.nKill+sum.nCrash==nDeath;
}

/*
** What ends the wait was answered to somebody as iOrder, at the time iAt.  Did
** the wait that began at iMs not see it?  It may have looked just before.
*/
static int waitBlind(SimCo *p, i64 iMs, int nTimeout, i64 n, i64 iOrder,
                     i64 iAt){
  int i, nAfter = 0;
  if( iOrder==0 ) return 0;
  for(i=0; i<aNap[p->iCo].n; i++) nAfter += aNap[p->iCo].a[i]>iOrder;
  return nAfter>1 || (n==0 && iAt<iMs+nTimeout);
}

/* Wait for something to claim. */
void opWaitLane(SimCo *p){
  int i, nTimeout = 20+simPick(80);
  i64 iMs = waitBegin(p), n = 0;
  if( opRun(p, opBind(p, "SELECT claimq_wait(?1, 'lane', 'a')", "i", nTimeout),
            &n)!=OP_OK ) return;
  simLog("wait for the lane: %lld", n);
  if( !waitOver(iMs, nTimeout, n) || simRule.nActive ) return;
  for(i=0; watchWork(i); i++){
    const SimWork *pW = watchWork(i);
    if( pW->eKind==SIM_LANE && flowFree(i)
     && waitBlind(p, iMs, nTimeout, n, pW->iPut, pW->iPutAt) ){
      simFail("a wait did not see that %d was put", i);
    }
  }
}

/* Wait for the end of a job. */
static void waitJob(SimCo *p){
  int iWork = watchJob();
  const SimWork *pW = watchWork(iWork);
  int nTimeout = 20+simPick(80);
  i64 iMs = waitBegin(p), n = 0;
  if( pW==0 || pW->bLost ) return;
  if( opRun(p, opBind(p, "SELECT claimq_wait(?1, 'job', ?2)", "il", nTimeout,
                      pW->iId), &n)!=OP_OK ) return;
  simLog("wait for job %d: %lld", iWork, n);
  if( n && !flowMayEnd(iWork, 0) ){
    simFail("a wait says that job %d has ended", iWork);
  }
  if( waitOver(iMs, nTimeout, n)
   && waitBlind(p, iMs, nTimeout, n, pW->iDone, pW->iDoneAt) ){
    simFail("a wait did not see that job %d was completed", iWork);
  }
}

/* Wait for the end of a claim. */
static void waitClaim(SimCo *p){
  const SimClaim *pC = watchAny();
  int nTimeout = 20+simPick(80);
  i64 iMs = waitBegin(p), n = 0;
  if( pC==0 ) return;
  if( opRun(p, opBind(p, "SELECT claimq_wait(?1, 'claim', ?2)", "it", nTimeout,
                      pC->zId), &n)!=OP_OK ) return;
  simLog("wait for %s: %lld", pC->zId, n);
  waitOver(iMs, nTimeout, n);
  if( n && !pC->bLost && !pC->bRevoked && pC->iUntil>simMs() ){
    simFail("a wait says that %s holds no more", pC->zId);
  }
}

void opWait(SimCo *p){
  switch( simPick(3) ){
    case 0: opWaitLane(p); break;
    case 1: waitJob(p); break;
    default: waitClaim(p); break;
  }
}
