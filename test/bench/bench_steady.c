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
**     the clock is a counter: each look at it is a millisecond later
**     the file -wal is not written back (see benchConnect())
**
** Then the count of a shape is the same in each run, to a few in 10,000.
*/
#include "bench.h"
#include <stdlib.h>
#include <string.h>

/**************************************************************************
** Time
*/
static int bnTime(sqlite3_vfs *pVfs, sqlite3_int64 *piNow){
  static sqlite3_int64 iNow = 212589360000000LL;      /* Some day of 2024 */
  (void)pVfs;
  *piNow = iNow++;
  return SQLITE_OK;
}

void benchSteady(void){
  static sqlite3_vfs vfs;
  sqlite3_initialize();
  vfs = *sqlite3_vfs_find(0);
  vfs.zName = "steady";
  vfs.xCurrentTimeInt64 = bnTime;
  sqlite3_vfs_register(&vfs, 1);
}
