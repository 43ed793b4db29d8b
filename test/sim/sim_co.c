/*
** sim_co.c: coroutines, the clock, and chance.
*/
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "sim.h"

#define SIM_STACK (512*1024)

Sim sim;
SimSum sum;

/**************************************************************************
** Chance
*/

/* xorshift64*, its upper half. */
u32 simRandom(void){
  unsigned long long x = ((unsigned long long)sim.aRandom[0]<<32)
                       | sim.aRandom[1];
  x ^= x>>12;
  x ^= x<<25;
  x ^= x>>27;
  sim.aRandom[0] = (u32)(x>>32);
  sim.aRandom[1] = (u32)x;
  return (u32)((x*2685821657736338717ULL)>>32);
}

/* 0 to n-1. */
int simPick(int n){ return (int)(simRandom() % (u32)n); }

/* 1 in n times. */
int simOdds(int n){ return simPick(n)==0; }

/* Begin again, with another history. */
void simSeed(i64 iSeed){
  int i;
  sim.aRandom[0] = (u32)iSeed*2654435761u + 12345u;
  sim.aRandom[1] = (u32)(iSeed>>16) ^ 0x9e3779b9u ^ (u32)iSeed;
  for(i=0; i<8; i++) simRandom();
  sqlite3_randomness(0, 0);
}

/**************************************************************************
** Words
*/

/* What happened, in the history that is shown with -v. */
void simLog(const char *zFormat, ...){
  va_list ap;
  if( !sim.bVerbose ) return;
  va_start(ap, zFormat);
  printf("%lld.%03d %d  ", simMs()%10000000, (int)(sim.iNow%1000),
         sim.pCo->iCo);
  vprintf(zFormat, ap);
  printf("\n");
  va_end(ap);
}

/* Something is wrong.  The first of a seed is reported. */
void simFail(const char *zFormat, ...){
  va_list ap;
  if( sim.bStop ) return;
  sim.bStop = 1;
  va_start(ap, zFormat);
  printf("FAILED sim: seed %lld, %s: ", sim.iSeed, sim.pMode->zName);
  vprintf(zFormat, ap);
  printf("\n");
  fflush(stdout);
  va_end(ap);
}

/**************************************************************************
** Coroutines
*/

i64 simMs(void){ return sim.iNow/1000; }

/* Where a coroutine begins. */
static void coEntry(void){
  SimCo *p = sim.pCo;
  p->xRun(p);
  p->bDone = 1;
  swapcontext(&p->ctx, &sim.ctx);
}

/* Make a coroutine; it runs when simRun() picks it. */
void simStart(int iCo, void (*xRun)(SimCo*)){
  SimCo *p = &sim.aCo[iCo];
  if( p->aStack==0 ) p->aStack = malloc(SIM_STACK);
  getcontext(&p->ctx);
  p->ctx.uc_stack.ss_sp = p->aStack;
  p->ctx.uc_stack.ss_size = SIM_STACK;
  p->ctx.uc_link = 0;
  p->xRun = xRun;
  p->iCo = iCo;
  p->iWake = 0;
  p->bDone = p->bDead = 0;
  makecontext(&p->ctx, coEntry, 0);
}

/* Let p go on until it comes back. */
static void coResume(SimCo *p){
  sim.pCo = p;
  swapcontext(&sim.ctx, &p->ctx);
  sim.pCo = &sim.aCo[0];
}

/* Let another one go on. */
static void coYield(void){
  SimCo *p = sim.pCo;
  swapcontext(&p->ctx, &sim.ctx);
}

/*
** A place at which anything may happen between two connections.  Afterwards the
** caller may be dead.
*/
void simPoint(void){
  SimCo *p = sim.pCo;
  if( p->iCo==0 || p->bDead || !sim.bSwitch ) return;
  sim.nPoint++;
  sim.iNow += simPick(sim.nTick);
  if( sim.nUntil>0 && --sim.nUntil==0 ){
    if( simOdds(2) ){
      sim.bCrash = 1;
    }else{
      simLog("killed");
      sum.nKill++;
      simVfsKill(p);
      if( simOdds(2) ) sim.nUntil = 1 + simPick(2000);
      return;
    }
  }else if( !simOdds(sim.nSwitch) ){
    return;
  }
  if( simOdds(sim.nStall) ){
    simLog("stopped");
    p->iWake = sim.iNow + simPick(300*1000);
  }
  coYield();
}

/* xSleep: the others go on. */
void simSleep(i64 us){
  SimCo *p = sim.pCo;
  if( p->bDead ) return;
  if( p->iCo==0 ){
    sim.iNow += us;
    return;
  }
  p->iWake = sim.iNow + us;
  coYield();
}

/* Run all coroutines to their end, or until everything dies. */
void simRun(void){
  sim.bSwitch = 1;
  while( !sim.bCrash && !sim.bStop ){
    SimCo *ap[SIM_NCO];
    i64 iFirst = -1;
    int i, n = 0;
    for(i=1; i<SIM_NCO; i++){
      SimCo *p = &sim.aCo[i];
      if( p->bDone ) continue;
      if( p->iWake<=sim.iNow ) ap[n++] = p;
      if( iFirst<0 || p->iWake<iFirst ) iFirst = p->iWake;
    }
    if( iFirst<0 ) break;
    if( n==0 ) sim.iNow = iFirst;
    else coResume(ap[simPick(n)]);
  }
  sim.bSwitch = 0;
}

/*
** All connections die.  Each goes on alone until it has given back its memory;
** nothing of that reaches the files.
*/
void simCrash(void){
  int i;
  for(i=1; i<SIM_NCO; i++){
    SimCo *p = &sim.aCo[i];
    if( p->bDone ) continue;
    simVfsKill(p);
    coResume(p);
  }
}
