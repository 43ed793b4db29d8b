/*
** bench_steady.c: what makes instructions comparable (bench -count).
**
** The same calls take more or fewer instructions for reasons that are not
** claimq's: malloc() searches, by what it was asked for before; the file -wal
** is written back now and then; jobs are made in the same millisecond or not.
** Here
**
**     memory comes from lists of free blocks, one for each size, so that each
**     call takes the same
**     the clock is a counter: each operation is a millisecond later
**     the file -wal is not written back while we count (see benchConnect() and
**     benchCount())
**
** Then the count of a shape is the same in each run, but for a few.
*/
#include "bench.h"
#include <stdlib.h>
#include <string.h>

/**************************************************************************
** Memory.  A block of class k has 64 << k bytes, of which the first 16 tell the
** class.
*/
#define BN_NCLASS 24

typedef struct BnBlock BnBlock;
struct BnBlock {
  int iClass;
  BnBlock *pNext;                 /* While it is free */
};
static BnBlock *apFree[BN_NCLASS];

static BnBlock *bnBlock(void *p){
  return (BnBlock*)((char*)p - 16);
}

static void *bnMalloc(int n){
  BnBlock *p;
  int k = 0;
  while( k<BN_NCLASS-1 && (64<<k)-16<n ) k++;
  p = apFree[k];
  if( p ){
    apFree[k] = p->pNext;
  }else{
    p = malloc((size_t)64<<k);
    if( p==0 ) return 0;
    p->iClass = k;
  }
  return (char*)p + 16;
}

static void bnFree(void *p){
  BnBlock *pBlock = bnBlock(p);
  pBlock->pNext = apFree[pBlock->iClass];
  apFree[pBlock->iClass] = pBlock;
}

static int bnSize(void *p){
  return p ? (64 << bnBlock(p)->iClass) - 16 : 0;
}

static void *bnRealloc(void *p, int n){
  void *pNew;
  if( bnSize(p)>=n ) return p;
  pNew = bnMalloc(n);
  if( pNew==0 ) return 0;
  memcpy(pNew, p, (size_t)bnSize(p));
  bnFree(p);
  return pNew;
}

static int bnRoundup(int n){
  return (n+7) & ~7;
}

static int bnInit(void *p){
  (void)p;
  return SQLITE_OK;
}

static void bnShutdown(void *p){
  (void)p;
}

/**************************************************************************
** Time
*/
static sqlite3_int64 bnNow = 212589360000000LL;       /* Some day of 2024 */

static int bnTime(sqlite3_vfs *pVfs, sqlite3_int64 *piNow){
  (void)pVfs;
  *piNow = bnNow;
  return SQLITE_OK;
}

void benchLater(void){
  bnNow++;
}

void benchPass(i64 nMs){
  bnNow += nMs;
}

void benchSteady(void){
  static const sqlite3_mem_methods mem = {
    bnMalloc, bnFree, bnRealloc, bnSize, bnRoundup, bnInit, bnShutdown, 0
  };
  static sqlite3_vfs vfs;
  if( sqlite3_config(SQLITE_CONFIG_MALLOC, &mem) || sqlite3_initialize() ){
    benchDie("cannot set SQLite's malloc()");
  }
  vfs = *sqlite3_vfs_find(0);
  vfs.zName = "steady";
  vfs.xCurrentTimeInt64 = bnTime;
  sqlite3_vfs_register(&vfs, 1);
}
