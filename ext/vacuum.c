/*
** vacuum.c: claimq_vacuum() removes what nobody needs any more.
**
**     SELECT claimq_vacuum();                          -- 1500 rows removed
**     SELECT claimq_vacuum('limit', 1000);             -- at most so many
**     SELECT claimq_vacuum('older_than_ms', 86400000);
**     -- also jobs that ended a day ago or before, their attempts, and events
**
** What it removes: messages of the outbox that are processed, grants that have
** expired, dead letters that are resolved or discarded, and with older_than_ms
** jobs that ended so long ago, with their attempts, and events as old.  What
** it never removes: messages that wait, letters that are pending or claimed,
** jobs that are not terminal and their attempts, partitions, fencing tokens.
**
** The work of a call is bounded by its limit, because everything that may go
** is found through an index of its own (or stands first in its table), and
** what stays is not looked at.  Without a limit all goes in one transaction;
** in a busy database several calls with a limit let others write in between.
** If there is nothing to remove no lock is taken.
*/
#include "claimq_int.h"

/* Rows that are looked up at once, to bound memory. */
#define CQ_VACUUM_CHUNK 1000

/*
** A kind of row that goes by its key.  eSelect gives at most ?1 rows of key and
** time, the oldest first; those whose time is not after the deadline go.
** eDelete removes at most ?2 rows of the list ?1; aFirst[], if there are any,
** run before and remove at most ?2 of the rows that depend on them; eMake, if
** there is one, makes the index that eSelect misses.
*/
typedef struct CqVacuumDef CqVacuumDef;
struct CqVacuumDef {
  int eSelect, eDelete, aFirst[2], eMake;
  u8 bOld;                        /* Only with older_than_ms, by that time */
};
static const CqVacuumDef cqVacuumDef[] = {
  { CQ_SQL_VACUUM_GRANTS,  CQ_SQL_VACUUM_GRANTS_DELETE,
    {-1, -1}, -1, 0 },
  { CQ_SQL_VACUUM_LETTERS, CQ_SQL_VACUUM_LETTERS_DELETE,
    {-1, -1}, -1, 0 },
  { CQ_SQL_VACUUM_JOBS,    CQ_SQL_VACUUM_JOBS_DELETE,
    {CQ_SQL_VACUUM_PAST_DELETE, CQ_SQL_VACUUM_ATTEMPTS_DELETE},
    CQ_SQL_VACUUM_MAKE_BY_END, 1 },
  { CQ_SQL_VACUUM_EVENTS,  CQ_SQL_VACUUM_EVENTS_DELETE,
    {-1, -1}, -1, 1 },
};
#define CQ_NVACUUM ((int)(sizeof(cqVacuumDef)/sizeof(cqVacuumDef[0])))

#define CQ_VAC_OLDER 0
#define CQ_VAC_LIMIT 1
#define CQ_VAC_NOW 2
#define CQ_VAC_N 3
static const CqArgDef cqVacuumOpt[CQ_VAC_N] = {
  { "older_than_ms", CQ_T_INT, 0, 0, 0, 0, 0, 0, 0 },
  { "limit",         CQ_T_INT, 0, 0, CQ_I64_MAX, 0, 0, 0, 0 },
  { "now_ms",        CQ_T_INT, CQ_A_NOW, 0, 0, 0, 0, 0, 0 },
};

typedef struct CqVacuum CqVacuum;
struct CqVacuum {
  CqVal aOpt[CQ_VAC_N];
  i64 nLeft;                      /* Rows that may still be removed */
  i64 nRemoved;                   /* OUT */
};

/*
** 1 if this kind of row is to be looked at; *piUntil is its deadline.
*/
static int cqVacuumWants(
  CqOp *p, const CqVacuum *pV, const CqVacuumDef *pDef, i64 *piUntil
){
  *piUntil = claimqNow(p);
  if( !pDef->bOld ) return 1;
  *piUntil -= pV->aOpt[CQ_VAC_OLDER].i;
  return pV->aOpt[CQ_VAC_OLDER].bGiven;
}

/*
** Collect the keys of at most nMax rows that go.  Returns the number of rows
** that had to be scanned because an index is missing.
*/
static int cqVacuumSelect(
  CqOp *p, const CqVacuumDef *pDef, i64 iUntil, i64 nMax, CqIds *pIds
){
  sqlite3_stmt *pStmt = claimqStmt(p, pDef->eSelect);
  int nScan = claimqStmtScanned(pStmt);
  claimqBindInt(p, pStmt, 1, nMax);
  while( claimqStep(p, pStmt) && sqlite3_column_int64(pStmt, 1)<=iUntil ){
    claimqIdsAdd(p, pIds, sqlite3_column_int64(pStmt, 0));
  }
  nScan = claimqStmtScanned(pStmt) - nScan;
  claimqStmtDone(p, pDef->eSelect, pStmt);
  return nScan;
}

/*
** Run one DELETE over a list; what it removed is counted.
*/
static i64 cqVacuumDelete(CqOp *p, CqVacuum *pV, int eStmt, const CqIds *pIds){
  sqlite3_stmt *pStmt = claimqStmt(p, eStmt);
  i64 n;
  claimqBindIds(p, pStmt, 1, pIds);
  claimqBindInt(p, pStmt, 2, pV->nLeft);
  n = claimqExec(p, eStmt, pStmt);
  pV->nLeft -= n;
  pV->nRemoved += n;
  return n;
}

static void cqVacuumRows(CqOp *p, CqVacuum *pV, const CqVacuumDef *pDef){
  CqIds ids;
  i64 iUntil, n = 1;
  if( !cqVacuumWants(p, pV, pDef, &iUntil) ) return;
  memset(&ids, 0, sizeof(ids));
  while( n>0 && pV->nLeft>0 && p->rc==SQLITE_OK ){
    i64 nMax = pV->nLeft<CQ_VACUUM_CHUNK ? pV->nLeft : CQ_VACUUM_CHUNK;
    int nScan, i;
    ids.n = 0;
    nScan = cqVacuumSelect(p, pDef, iUntil, nMax, &ids);
    if( ids.n==0 ) break;
    if( pDef->eMake>=0 && nScan>CQ_SCAN_FEW ) claimqMakeIndex(p, pDef->eMake);
    n = 0;
    for(i=0; i<2 && pDef->aFirst[i]>=0; i++){
      n += cqVacuumDelete(p, pV, pDef->aFirst[i], &ids);
    }
    n += cqVacuumDelete(p, pV, pDef->eDelete, &ids);
  }
  claimqIdsClear(&ids);
}

/*
** Remove processed messages of the partition that pPart stands on.  Its cursor
** must move, or it would be found again for ever: a row that somebody corrupted
** and a trigger that keeps it from being written are errors.  Where messages
** are missing it jumps to the next one that is there.
*/
static void cqVacuumPartition(CqOp *p, CqVacuum *pV, sqlite3_stmt *pPart){
  i64 iId = sqlite3_column_int64(pPart, 0);
  i64 iFrom = sqlite3_column_int64(pPart, 3);
  i64 iTo = sqlite3_column_int64(pPart, 4);
  i64 iFirst = sqlite3_column_int64(pPart, 5);
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_VACUUM_MESSAGES);
  i64 n;
  if( iTo<=iFrom ){
    claimqFail(p, CQ_SCHEMA_MISMATCH, "row %lld of claimq_partition has a bad "
               "processed_seq: repair or delete it", iId);
  }
  iFrom = iFirst>iFrom && iFirst<=iTo ? iFirst-1 : iTo;
  if( iFrom<0 ) iFrom = 0;
  if( iTo-iFrom>pV->nLeft ) iTo = iFrom + pV->nLeft;
  claimqBindText(p, pStmt, 1, claimqColumnText(p, pPart, 1));
  claimqBindInt(p, pStmt, 2, sqlite3_column_int64(pPart, 2));
  claimqBindInt(p, pStmt, 3, iFrom);
  claimqBindInt(p, pStmt, 4, iTo);
  n = claimqExec(p, CQ_SQL_VACUUM_MESSAGES, pStmt);
  pV->nLeft -= n;
  pV->nRemoved += n;
  sqlite3_reset(pPart);
  pStmt = claimqStmt(p, CQ_SQL_VACUUM_CURSOR);
  claimqBindInt(p, pStmt, 1, iId);
  claimqBindInt(p, pStmt, 2, iTo);
  if( claimqExec(p, CQ_SQL_VACUUM_CURSOR, pStmt)==0 ){
    claimqFail(p, CQ_CONFLICT,
               "a trigger on claimq_partition left the row out");
  }
}

static void cqVacuumMessages(CqOp *p, CqVacuum *pV){
  sqlite3_stmt *pPart = claimqStmt(p, CQ_SQL_VACUUM_PARTITION);
  while( pV->nLeft>0 && claimqStep(p, pPart) ){
    cqVacuumPartition(p, pV, pPart);
  }
  claimqStmtDone(p, CQ_SQL_VACUUM_PARTITION, pPart);
}

/*
** Is there anything to remove?
*/
static void cqVacuumLoad(CqOp *p, void *pCtx){
  CqVacuum *pV = (CqVacuum*)pCtx;
  sqlite3_stmt *pPart;
  CqIds ids;
  i64 iUntil;
  int i;
  pV->nLeft = pV->aOpt[CQ_VAC_LIMIT].i;
  pV->nRemoved = 0;
  if( pV->nLeft==0 ) return;
  memset(&ids, 0, sizeof(ids));
  pPart = claimqStmt(p, CQ_SQL_VACUUM_PARTITION);
  if( claimqStep(p, pPart) ) p->nWrite = 2;
  claimqStmtDone(p, CQ_SQL_VACUUM_PARTITION, pPart);
  for(i=0; i<CQ_NVACUUM && p->nWrite==0 && p->rc==SQLITE_OK; i++){
    if( cqVacuumWants(p, pV, &cqVacuumDef[i], &iUntil) ){
      cqVacuumSelect(p, &cqVacuumDef[i], iUntil, 1, &ids);
    }
    if( ids.n ) p->nWrite = 2;
  }
  claimqIdsClear(&ids);
}

static void cqVacuumApply(CqOp *p, void *pCtx){
  CqVacuum *pV = (CqVacuum*)pCtx;
  int i;
  claimqNeedScope(p, "claimq_vacuum()");
  cqVacuumMessages(p, pV);
  for(i=0; i<CQ_NVACUUM; i++) cqVacuumRows(p, pV, &cqVacuumDef[i]);
}

/*
** claimq_vacuum([option, value]...) -> rows removed
*/
CQ_PRIV void claimqVacuumFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqTask task = { cqVacuumLoad, cqVacuumApply, 0 };
  CqVacuum v;
  memset(&v, 0, sizeof(v));
  claimqReadOptions(p, cqVacuumOpt, CQ_VAC_N, 0, nVal, apVal, v.aOpt);
  claimqRun(p, &task, &v);
  if( p->rc==SQLITE_OK ) sqlite3_result_int64(pCtx, v.nRemoved);
}
