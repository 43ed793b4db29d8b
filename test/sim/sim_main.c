/*
** sim_main.c: run simulations (see sim.h).
**
**     sim_test [-v] [-from SEED] [-n COUNT] [-step K] [-seconds S] [SEED]
**
** COUNT seeds from SEED on, or as many as fit in S seconds, from a fresh one;
** each K more than the one before (a seed modulo 18 says which world it is).
** With -v every answer is shown.  Every hundredth seed is run twice, and must
** give the same answers at the same times.  Prints "N passed, M failed".
*/
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "sim.h"

static int nPass = 0;
static int nFail = 0;

/* One seed. */
static void runSeed(i64 iSeed){
  u32 hash;
  sim.iSeed = iSeed;
  workRun();
  sum.nSeed++;
  hash = sim.hash;
  if( !sim.bStop && iSeed%100==0 ){
    workRun();
    if( sim.hash!=hash ) simFail("the same seed gives another history");
  }
  if( sim.bStop ) nFail++;
  else nPass++;
}

int main(int argc, char **argv){
  i64 iFrom = 1, n = 2400, nStep = 1, nSecond = 0, i;
  time_t iBegin = time(0);
  for(i=1; i<argc; i++){
    const char *z = argv[i];
    i64 iValue = i+1<argc ? atoll(argv[i+1]) : 0;
    if( strcmp(z, "-v")==0 ){ sim.bVerbose = 1; continue; }
    if( z[0]!='-' ){ iFrom = atoll(z); n = 1; continue; }
    if( strcmp(z, "-from")==0 ) iFrom = iValue;
    if( strcmp(z, "-n")==0 ) n = iValue;
    if( strcmp(z, "-step")==0 ) nStep = iValue;
    if( strcmp(z, "-seconds")==0 ){
      nSecond = iValue;
      iFrom = (i64)iBegin*1000;
    }
    i++;
  }
  sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  simVfsRegister();
  for(i=iFrom; nSecond ? time(0)<iBegin+nSecond : i<iFrom+n*nStep; i+=nStep){
    runSeed(i);
    if( nFail>=10 ) break;
  }
  printf("seeds %lld from %lld, points %lld, answers %lld, claims %lld\n",
         sum.nSeed, iFrom, sim.nPoint, sum.nAnswer, sum.nClaim);
  printf("connections killed %lld, all at once %lld, power cuts %lld; answers "
         "lost after %lld of these, %lld numbers given again; "
         "claimq_restored() after %lld\n", sum.nKill, sum.nCrash, sum.nPower,
         sum.nLost, sum.nAgain, sum.nRestored);
  printf("steps %lld, grants %lld and claims by them %lld, letters requeued "
         "%lld, jobs resolved %lld, rows removed %lld, policies changed %lld\n",
         sum.nStep, sum.nGrant, sum.nGranted, sum.nRequeue, sum.nResolve,
         sum.nVacuum, sum.nPolicy);
  printf("jobs that wait %lld, given back until others end %lld, cancelled "
         "%lld, changed %lld; waits %lld; calls with a request %lld, claims "
         "with done %lld, lists completed %lld, calls repeated that nobody "
         "heard %lld, that somebody heard %lld\n", sum.nAfter, sum.nPark,
         sum.nCancel, sum.nChange, sum.nWait, sum.nRequest, sum.nDone,
         sum.nList, sum.nRepeat, sum.nSame);
  printf("%d passed, %d failed\n", nPass, nFail);
  return nFail>0;
}
