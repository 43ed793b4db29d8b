/*
** bench.c: how fast claimq is, beside the least that one would write by hand.
**
**     bench -so ./claimq.so                       all workloads, on tmpfs
**     bench -so ./claimq.so -only 'session.*'     some of them
**     bench -only session.claim -rounds 15        one, for somebody who tunes
**     valgrind --tool=callgrind --toggle-collect=benchCounted \
**       bench -only session.claim -profile claimq -n 1000
**                                                 instructions of one side
**
** Options
**     -so FILE          the extension (./claimq.so)
**     -place tmpfs|disk and -dir DIR: where the database files are made
**                       (tmpfs in /dev/shm, disk in the current directory)
**     -group NAME       workload (default), extra, open, depth, contention,
**                       space or wait
**     -only GLOB        workloads, shapes or queues by their key, which -json
**                       shows
**     -rounds N         rounds, of several blocks of each side (5)
**     -scale PERCENT    longer or shorter blocks (100)
**     -max N            no depth above N; contention: N processes only
**     -quick            shorter rounds, fewer jobs
**     -clock cpu|real   what is counted; tmpfs: processor time, disk: real time
**     -version          print SQLite's version, and nothing else
**     -json             one JSON object per line instead of a table
**     -profile floor|claimq, -n N
**                       run one side alone, N operations, without a clock
**     -count            what test/bench_count.test counts
**
** Exit code: 0, also if a target is missed; 1 if work was lost or done twice,
** or SQLITE_BUSY came back; 2 if something failed.
*/
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the command line says, besides BnOptions. */
typedef struct BnMain BnMain;
struct BnMain {
  BnOptions opt;
  const char *zGroup;
  const char *zProfile;
  const char *zClock;
  int nOp;
};

static int bnNumber(const char *zName, const char *z){
  int n = atoi(z);
  if( n<=0 ) benchDie("%s: not a number: %s", zName, z);
  return n;
}

/*
** An option with a value.  Returns 0 if there is none of that name.
*/
static int bnOption(BnMain *p, const char *zName, const char *zVal){
  if( strcmp(zName, "-so")==0 ) p->opt.zSo = zVal;
  else if( strcmp(zName, "-place")==0 ) p->opt.zPlace = zVal;
  else if( strcmp(zName, "-dir")==0 ) p->opt.zDir = zVal;
  else if( strcmp(zName, "-only")==0 ) p->opt.zOnly = zVal;
  else if( strcmp(zName, "-rounds")==0 ) p->opt.nRound = bnNumber(zName, zVal);
  else if( strcmp(zName, "-scale")==0 ) p->opt.nScale = bnNumber(zName, zVal);
  else if( strcmp(zName, "-max")==0 ) p->opt.nMax = bnNumber(zName, zVal);
  else if( strcmp(zName, "-group")==0 ) p->zGroup = zVal;
  else if( strcmp(zName, "-profile")==0 ) p->zProfile = zVal;
  else if( strcmp(zName, "-clock")==0 ) p->zClock = zVal;
  else if( strcmp(zName, "-n")==0 ) p->nOp = bnNumber(zName, zVal);
  else return 0;
  return 1;
}

static void bnVersion(void){
  printf("%s\n", sqlite3_libversion());
  exit(0);
}

static void bnParse(BnMain *p, int argc, char **argv){
  int i;
  for(i=1; i<argc; i++){
    if( strcmp(argv[i], "-json")==0 ) p->opt.bJson = 1;
    else if( strcmp(argv[i], "-quick")==0 ) p->opt.bQuick = 1;
    else if( strcmp(argv[i], "-count")==0 ) p->opt.bCount = 1;
    else if( strcmp(argv[i], "-version")==0 ) bnVersion();
    else if( i+1<argc && bnOption(p, argv[i], argv[i+1]) ) i++;
    else benchDie("what is %s?  See the head of test/bench/bench.c", argv[i]);
  }
  if( p->opt.nRound>BN_NROUND_MAX ) benchDie("too many rounds");
}

/*
** /dev/shm is tmpfs where it exists.
*/
static void bnPlace(BnOptions *p){
  if( p->zDir ) return;
  p->zDir = strcmp(p->zPlace, "tmpfs")==0 ? "/dev/shm" : ".";
  if( access(p->zDir, W_OK) ){
    printf("SKIPPED: %s: cannot write to %s\n", p->zPlace, p->zDir);
    exit(0);
  }
}

static int bnGroup(const BnMain *p){
  static const struct { const char *zName; int (*x)(const BnOptions*); } a[] = {
    {"workload", benchWorkloads}, {"depth", benchDepth},
    {"contention", benchContention}, {"space", benchSpace},
    {"wait", benchWait}, {"extra", benchExtra}, {"open", benchOpening}
  };
  size_t i;
  for(i=0; i<sizeof(a)/sizeof(a[0]); i++){
    if( strcmp(a[i].zName, p->zGroup)==0 ) return a[i].x(&p->opt);
  }
  benchDie("no group %s", p->zGroup);
  return 1;
}

int main(int argc, char **argv){
  BnMain m;
  memset(&m, 0, sizeof(m));
  m.opt.zSo = "./claimq.so";
  m.opt.zPlace = "tmpfs";
  m.opt.nRound = 5;
  m.opt.nScale = 100;
  m.nOp = 1000;
  m.zGroup = "workload";
  bnParse(&m, argc, argv);
  if( m.opt.bCount ) benchSteady();
  bnPlace(&m.opt);
  m.opt.bCpu = strcmp(m.zClock ? m.zClock : m.opt.zPlace, "tmpfs")==0
            || (m.zClock && strcmp(m.zClock, "cpu")==0);
  if( m.opt.bCount ) return benchCount(&m.opt)>0;
  if( m.zProfile ){
    int eSide = strcmp(m.zProfile, "floor")==0 ? BN_FLOOR : BN_CLAIMQ;
    return benchProfile(&m.opt, eSide, m.nOp)>0;
  }
  return bnGroup(&m)>0;
}
