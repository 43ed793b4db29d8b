/*
** sim_op.c: the calls.  Each reports to the observer before it begins, where
** that matters, and when it has its answer.  A call that is killed has none.
*/
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "claimq.h"
#include "sim.h"
#include "sim_op.h"

/* A put that is repeated with the same request when its answer was lost. */
static struct {
  int iWork;                      /* -1: none */
  int iGroup;
} aPending[SIM_NCO];

/* Which put had which group, for the claims. */
void opClear(void){
  int i;
  for(i=0; i<SIM_NCO; i++) aPending[i].iWork = -1;
}

/**************************************************************************
** Statements
*/

/* Open a connection, with the extension or without. */
void opOpen(SimCo *p, int bPlain){
  int rc = sqlite3_open("sim.db", &p->db);
  if( rc==SQLITE_OK ) sqlite3_busy_timeout(p->db, 100*1000);
  if( rc==SQLITE_OK && !bPlain ) rc = sqlite3_claimq_init(p->db, 0, 0);
  if( rc==SQLITE_OK ) rc = sqlite3_exec(p->db, sim.pMode->zPragma, 0, 0, 0);
  if( rc==SQLITE_OK && sim.pMode->bWal ){
    rc = sqlite3_exec(p->db, "PRAGMA wal_autocheckpoint=12", 0, 0, 0);
  }
  if( rc && !p->bDead ) simFail("open: %s", sqlite3_errmsg(p->db));
}

void opClose(SimCo *p){
  int i;
  for(i=0; i<SIM_NSTMT; i++){
    sqlite3_finalize(p->aStmt[i].pStmt);
    p->aStmt[i].pStmt = 0;
    p->aStmt[i].zSql = 0;
  }
  if( sqlite3_close(p->db) ) simFail("close: %s", sqlite3_errmsg(p->db));
  p->db = 0;
}

/* zSql, which is always at the same place, prepared; 0 if that fails. */
static sqlite3_stmt *opPrepare(SimCo *p, const char *zSql){
  int i;
  for(i=0; p->aStmt[i].zSql && p->aStmt[i].zSql!=zSql; i++){}
  if( p->aStmt[i].zSql==0
   && sqlite3_prepare_v3(p->db, zSql, -1, SQLITE_PREPARE_PERSISTENT,
                         &p->aStmt[i].pStmt, 0)==SQLITE_OK ){
    p->aStmt[i].zSql = zSql;
  }
  return p->aStmt[i].pStmt;
}

/* The same with its parameters: i an int, l an i64, t a text (0: NULL). */
sqlite3_stmt *opBind(SimCo *p, const char *zSql, const char *zType, ...){
  sqlite3_stmt *pStmt = opPrepare(p, zSql);
  va_list ap;
  int i;
  p->iAfter = 0;
  sim.nOrder++;
  va_start(ap, zType);
  for(i=0; pStmt && zType[i]; i++){
    if( zType[i]=='i' ){
      sqlite3_bind_int(pStmt, i+1, va_arg(ap, int));
    }else if( zType[i]=='l' ){
      sqlite3_bind_int64(pStmt, i+1, va_arg(ap, i64));
    }else{
      sqlite3_bind_text(pStmt, i+1, va_arg(ap, const char*), -1,
                        SQLITE_TRANSIENT);
    }
  }
  va_end(ap);
  return pStmt;
}

/* How did it end?  The statement is reset. */
int opEnd(SimCo *p, sqlite3_stmt *pStmt){
  int rc = pStmt ? sqlite3_reset(pStmt) : sqlite3_errcode(p->db);
  const char *z = sqlite3_errmsg(p->db);
  if( p->bDead ) return OP_DEAD;
  if( rc==SQLITE_OK ) return OP_OK;
  if( strstr(z, "claimq: claim_lost: ") ) return OP_LOST;
  if( strstr(z, "claimq: no_slot: ") ) return OP_SLOT;
  if( strstr(z, "claimq: conflict: ") || strstr(z, "claimq: not_found: ")
   || strstr(z, "claimq: not_reclaimable: ")
   || strstr(z, "claimq: bad_argument: after: a job cannot wait for itself") ){
    return OP_REFUSED;
  }
  simFail("%s (%d) at %lld", z, rc, simMs());
  return OP_DEAD;
}

/* Run a statement that answers with at most one integer or text. */
int opRun(SimCo *p, sqlite3_stmt *pStmt, i64 *pi){
  i64 i = 0;
  if( pStmt && sqlite3_step(pStmt)==SQLITE_ROW ){
    if( sqlite3_column_type(pStmt, 0)==SQLITE_TEXT ){
      const u8 *z = sqlite3_column_text(pStmt, 0);
      for(; *z; z++) i = (i*31 + *z) & 0x7fffffffffffLL;
    }else{
      i = sqlite3_column_int64(pStmt, 0);
    }
    while( sqlite3_step(pStmt)==SQLITE_ROW ){}
  }
  if( pi ) *pi = i;
  return opEnd(p, pStmt);
}

/* Run a statement that answers with one of the words OP_DID ... */
int opWord(SimCo *p, sqlite3_stmt *pStmt, int *peWord){
  *peWord = OP_DID;
  if( pStmt && sqlite3_step(pStmt)==SQLITE_ROW ){
    const char *z = (const char*)sqlite3_column_text(pStmt, 0);
    if( strcmp(z, "claimed")==0 ) *peWord = OP_CLAIMED;
    if( strcmp(z, "missing")==0 ) *peWord = OP_MISSING;
    while( sqlite3_step(pStmt)==SQLITE_ROW ){}
  }
  return opEnd(p, pStmt);
}

/* Run a statement without parameters. */
int opPlain(SimCo *p, const char *zSql){
  return opRun(p, opBind(p, zSql, ""), 0);
}

/**************************************************************************
** Puts
*/

/* A job, with a request that makes it safe to repeat, or without. */
static int opSubmit(SimCo *p, int iWork, int iGroup, int bRequest, i64 *pi){
  const char *zReclaim = grantReclaim(iWork) ? "grant" : 0;
  const char *zAdmission = grantAdmission(iWork) ? "grant" : 0;
  char zRequest[20], zGroup[8];
  sqlite3_snprintf(sizeof(zRequest), zRequest, "r%d", iWork);
  sqlite3_snprintf(sizeof(zGroup), zGroup, "%d", iGroup);
  return opRun(p, opBind(p,
    "SELECT claimq_submit('a', ?1, 'priority', ?1*7%5, 'group_key', ?2,"
    "  'request', ?3, 'reclaim', ?4, 'admission', ?5)", "itttt", iWork,
    iGroup<0 ? 0 : zGroup, bRequest ? zRequest : 0, zReclaim, zAdmission), pi);
}

/* A job that waits for another one. */
static int opSubmitAfter(SimCo *p, int iWork, i64 iAfter, i64 *pi){
  char zAfter[24];
  sqlite3_snprintf(sizeof(zAfter), zAfter, "[%lld]", iAfter);
  return opRun(p, opBind(p,
    "SELECT claimq_submit('a', ?1, 'after', ?2, 'on_failure', 'run')", "it",
    iWork, zAfter), pi);
}

/* The put that was killed, again. */
static void opAgain(SimCo *p){
  int iWork = aPending[p->iCo].iWork;
  i64 iId;
  if( opSubmit(p, iWork, aPending[p->iCo].iGroup, 1, &iId)==OP_OK ){
    aPending[p->iCo].iWork = -1;
    watchPutDone(iWork, iId);
  }
}

/* Put work by an INSERT. */
static int opInsert(SimCo *p, int eKind, int iWork, int iScope, int iGroup){
  static const char *const azSql[] = {
    "INSERT INTO claimq_job(lane, payload, priority, group_key, reclaim,"
    "  admission) VALUES('a', ?1, ?1*7%5, nullif(?3, -1)||'', ?4, ?5)",
    "INSERT INTO claimq_batch(session, payload, slot_policy)"
    " VALUES('s'||?2, ?1, 'join')",
    "INSERT INTO claimq_message(queue, payload, partition)"
    " VALUES('q', ?1, ?2)",
  };
  return opRun(p, opBind(p, azSql[eKind], eKind==SIM_LANE ? "iiitt" : "ii",
                         iWork, iScope, iGroup,
                         grantReclaim(iWork) ? "grant" : 0,
                         grantAdmission(iWork) ? "grant" : 0), 0);
}

/* Put work. */
void opPut(SimCo *p, int eKind, int bPlain){
  int iScope = eKind==SIM_LANE ? 0 : simPick(2);
  int iGroup = simPick(3)-1;
  int bRequest = simOdds(2);
  i64 iId = 0, iAfter;
  int iWork, rc;
  if( aPending[p->iCo].iWork>=0 && !bPlain ) opAgain(p);
  if( simRule.bRequest && !bPlain && simOdds(2) ){
    requestPut(p, eKind, iScope);
    return;
  }
  if( p->bDead || (iWork = watchPut(eKind, iScope))<0 ) return;
  if( bPlain ){
    rc = opInsert(p, eKind, iWork, iScope, iGroup);
  }else if( eKind==SIM_LANE && simRule.bAfter && simOdds(2)
         && (iAfter = watchAfter(iWork))>0 ){
    rc = opSubmitAfter(p, iWork, iAfter, &iId);
  }else if( eKind==SIM_LANE && simRule.bFlow ){
    rc = flowSubmit(p, iWork, 0, &iId);
  }else if( eKind==SIM_LANE ){
    rc = opSubmit(p, iWork, iGroup, bRequest, &iId);
    if( p->bDead && bRequest ){
      aPending[p->iCo].iWork = iWork;
      aPending[p->iCo].iGroup = iGroup;
    }
  }else if( eKind==SIM_SESSION ){
    rc = opRun(p, opBind(p, "SELECT claimq_enqueue('s'||?2, ?1, 'slot_policy',"
                            "  'join')", "ii", iWork, iScope), &iId);
  }else{
    rc = opRun(p, opBind(p, "SELECT claimq_publish('q', ?1, 'partition', ?2)",
                         "ii", iWork, iScope), &iId);
  }
  if( rc==OP_OK ) watchPutDone(iWork, iId);
}

/**************************************************************************
** Claims
*/

/* Column 0: key; 1: payload; 2: group, outcome or partition; 3 to 7: claim. */
static const char *const azClaim[] = {
  "SELECT job_id, payload, group_key, claim_id, lease_token, fencing_token,"
  " claimed_at_ms, expires_at_ms FROM claimq_lane('a', ?1, ?2)",
  "SELECT enqueue_seq, payload, NULL, claim_id, lease_token,"
  " batch_fencing_token, claimed_at_ms, expires_at_ms"
  " FROM claimq('s'||?3, ?1, ?2, 3)",
  "SELECT seq, payload, partition, claim_id, lease_token, fencing_token,"
  " claimed_at_ms, expires_at_ms FROM claimq_outbox('q', ?1, ?2, 3)",
  "SELECT 0, NULL, outcome, claim_id, lease_token, fencing_token,"
  " claimed_at_ms, expires_at_ms FROM claimq_contest('c'||?3, ?1, ?2)",
  "SELECT letter_id, payload, NULL, claim_id, lease_token, fencing_token,"
  " claimed_at_ms, expires_at_ms FROM claimq_dead_letter(NULL, ?1, ?2, 2)",
};

/* One row of a claim. */
void opClaimRow(SimClaim *pC, sqlite3_stmt *pStmt){
  const char *z2 = (const char*)sqlite3_column_text(pStmt, 2);
  SimRow *pR = &pC->aRow[pC->nRow];
  if( pC->eKind==SIM_CONTEST && strcmp(z2, "claimed") ) return;
  if( pC->nRow>=SIM_NROW || sqlite3_column_type(pStmt, 3)==SQLITE_NULL ){
    return;
  }
  pR->iRow = sqlite3_column_int64(pStmt, 0);
  pR->iSeq = pR->iRow;
  pR->iWork = sqlite3_column_type(pStmt, 1)==SQLITE_INTEGER
            ? sqlite3_column_int(pStmt, 1)%1000 : -1;
  pR->iVersion = sqlite3_column_int(pStmt, 1)/1000;
  pR->iFence = sqlite3_column_int64(pStmt, 5);
  if( pC->eKind==SIM_LETTER && pC->nRow ) pR->iFence = 0;   /* Not told */
  if( pC->eKind==SIM_LANE ) pC->iGroup = z2 ? z2[0]-'0' : -1;
  if( pC->eKind==SIM_OUTBOX ) pR->iRow = pC->iScope = z2[0]-'0';
  sqlite3_snprintf(sizeof(pC->zId), pC->zId, "%s",
                   sqlite3_column_text(pStmt, 3));
  sqlite3_snprintf(sizeof(pC->zToken), pC->zToken, "%s",
                   sqlite3_column_text(pStmt, 4));
  pC->iClaimed = sqlite3_column_int64(pStmt, 6);
  pC->iExpires = sqlite3_column_int64(pStmt, 7);
  pC->iUntil = pC->iExpires;
  pC->nRow++;
}

/* A claim that holds nothing yet. */
void opClaimEmpty(SimCo *p, int eKind, SimClaim *pC){
  memset(pC, 0, sizeof(*pC));
  pC->eKind = eKind;
  pC->iScope = eKind==SIM_LANE || eKind==SIM_LETTER ? 0 : simPick(2);
  pC->iGroup = -1;
  pC->iOwner = p->iCo;
}

/* Make a claim; the observer does not hear of it yet. */
static int claimMake(SimCo *p, int eKind, int nLease, SimClaim *pC){
  char zOwner[16];
  sqlite3_stmt *pStmt;
  int rc;
  opClaimEmpty(p, eKind, pC);
  sqlite3_snprintf(sizeof(zOwner), zOwner, "w%d", p->iCo);
  pStmt = opBind(p, azClaim[eKind], (eKind & 1) ? "tii" : "ti", zOwner, nLease,
                 pC->iScope);
  pC->iBegin = sim.nOrder;
  sim.nUnheard++;
  while( pStmt && sqlite3_step(pStmt)==SQLITE_ROW ) opClaimRow(pC, pStmt);
  rc = opEnd(p, pStmt);
  if( rc!=OP_DEAD ) sim.nUnheard--;
  return rc;
}

/*
** Claim; 0 if there is nothing.  Some do it in a transaction, which takes its
** time.
*/
SimClaim *opClaim(SimCo *p, int eKind, int nLease){
  int bLong = p->iCo>0 && simOdds(6);
  SimClaim c;
  if( bLong ){
    if( opPlain(p, "BEGIN IMMEDIATE")!=OP_OK ) return 0;
    simSleep(simPick(60*1000));
    sim.nUnheard++;
  }
  if( claimMake(p, eKind, nLease, &c)!=OP_OK ) return 0;
  if( bLong && opPlain(p, "COMMIT")!=OP_OK ) return 0;
  sim.nUnheard -= bLong;
  if( c.nRow==0 ) return 0;
  if( c.iExpires!=c.iClaimed+nLease ) simFail("%s has another lease", c.zId);
  return watchClaim(&c);
}

/* Claim a job by a grant; 0 if there is none. */
SimClaim *opClaimGranted(SimCo *p, int iWork, int nLease){
  SimWork *pW = watchWork(iWork);
  char zOwner[16];
  sqlite3_stmt *pStmt;
  SimClaim c;
  int rc;
  opClaimEmpty(p, SIM_LANE, &c);
  c.bGranted = 1;
  pW->nAdmit++;
  sqlite3_snprintf(sizeof(zOwner), zOwner, "w%d", p->iCo);
  pStmt = opBind(p,
    "SELECT job_id, payload, group_key, claim_id, lease_token, fencing_token,"
    " claimed_at_ms, expires_at_ms FROM claimq_reclaim(?1, ?2, ?3)", "lti",
    pW->iId, zOwner, nLease);
  c.iBegin = sim.nOrder;
  while( pStmt && sqlite3_step(pStmt)==SQLITE_ROW ) opClaimRow(&c, pStmt);
  rc = opEnd(p, pStmt);
  if( rc==OP_OK && c.nRow==0 ) pW->nAdmit--;
  return rc==OP_OK && c.nRow ? watchClaim(&c) : 0;
}

/* 1 if the claim is still there. */
int opRenew(SimCo *p, SimClaim *pC, int nLease){
  sqlite3_stmt *pStmt = opBind(p, "SELECT claimq_renew(?1, ?2, ?3)", "tti",
                               pC->zId, pC->zToken, nLease);
  i64 iBegin = sim.nOrder;
  i64 iExpires;
  int rc;
  sim.nUnheard++;
  rc = opRun(p, pStmt, &iExpires);
  if( rc!=OP_DEAD ) sim.nUnheard--;
  if( rc==OP_LOST ) watchLost(pC, simMs());
  if( rc==OP_OK ) flowKept(pC, iBegin);
  if( rc==OP_OK ) watchRenewed(pC, iBegin, iExpires, nLease);
  return rc==OP_OK || rc==OP_SLOT;
}

/* Settle it in one of these ways. */
void opSettle(SimCo *p, SimClaim *pC, int eHow){
  static const char *const azSql[] = {
    "SELECT claimq_complete(?1, ?2)",
    "SELECT claimq_retry(?1, ?2, 'why', 'delay_ms', 10)",
    "SELECT claimq_release(?1, ?2)",
    "SELECT claimq_reject(?1, ?2, 'why')",
  };
  i64 i = 0, iBegin = sim.nOrder;
  int rc;
  if( eHow==OP_FORGET ) return;
  watchSettle(pC, eHow==OP_COMPLETE ? SIM_DOES
                : eHow==OP_REJECT ? SIM_FAILS : 0);
  if( eHow==OP_RETRY || eHow==OP_RELEASE ) pC->bGiven = 1;
  rc = opRun(p, opBind(p, azSql[eHow], "tt", pC->zId, pC->zToken), &i);
  if( rc==OP_LOST ) watchLost(pC, simMs());
  if( rc==OP_OK && i ) flowKept(pC, iBegin);
  if( rc==OP_OK ) watchSettled(pC, eHow==OP_COMPLETE
                    || (eHow==OP_REJECT && pC->eKind==SIM_LETTER), pC->nRow);
  if( rc==OP_DEAD && eHow==OP_COMPLETE ) watchMaybe(pC);
}

/*
** Complete and put the next job in one transaction, or take both back.
** 1 if the claim is still there.
*/
int opTogether(SimCo *p, SimClaim *pC){
  int bCommit = simOdds(2);
  int iWork = -1;
  i64 iId = 0;
  int rc = opPlain(p, "BEGIN IMMEDIATE");
  if( rc!=OP_OK ) return 0;
  if( bCommit ) watchSettle(pC, SIM_DOES);
  rc = opRun(p, opBind(p, "SELECT claimq_complete(?1, ?2)", "tt", pC->zId,
                       pC->zToken), 0);
  if( rc==OP_LOST ) watchLost(pC, simMs());
  if( rc==OP_OK && pC->eKind==SIM_LANE
   && (iWork = watchPut(SIM_LANE, 0))>=0 ){
    rc = opSubmit(p, iWork, -1, 0, &iId);
  }
  if( rc==OP_OK && bCommit ){
    rc = opPlain(p, "COMMIT");
    if( rc==OP_DEAD ) watchMaybe(pC);
    if( rc!=OP_OK ) return 0;
    watchSettled(pC, 1, pC->nRow);
    if( iWork>=0 ) watchPutDone(iWork, iId);
    return 0;
  }
  return opPlain(p, "ROLLBACK")==OP_OK && rc==OP_OK;
}

/* Claim and complete a job within one transaction, which takes its time. */
void opWithin(SimCo *p){
  SimClaim c;
  SimClaim *pC;
  int rc;
  if( opPlain(p, "BEGIN IMMEDIATE")!=OP_OK ) return;
  simSleep(simPick(50*1000));
  rc = claimMake(p, SIM_LANE, 1000, &c);
  if( rc==OP_OK && c.nRow ){
    watchSettle(&c, SIM_DOES);
    rc = opRun(p, opBind(p, "SELECT claimq_complete(?1, ?2)", "tt", c.zId,
                         c.zToken), 0);
  }
  if( rc==OP_OK ) rc = opPlain(p, "COMMIT");
  if( rc==OP_DEAD && c.nRow ) watchMaybe(&c);
  if( rc!=OP_OK || c.nRow==0 ) return;
  c.iUntil = c.iClaimed;
  p->iAfter = 0;
  pC = watchClaim(&c);
  if( pC ) watchSettled(pC, 1, pC->nRow);
}

/* An operator takes somebody's claim away. */
void opRevoke(SimCo *p){
  SimClaim *pC = watchAny();
  if( pC==0 ) return;
  watchSettle(pC, 0);
  pC->bRevoked = 1;
  simLog("revoke %s", pC->zId);
  opRun(p, opBind(p, "SELECT claimq_revoke(?1)", "t", pC->zId), 0);
}

/* Somebody changes the schedule's spec. */
void opSchedule(SimCo *p){
  static const char *const azSpec[] = {
    "every 40 ms", "every 20 ms", "every 60 ms"
  };
  const char *z = azSpec[simPick(3)];
  i64 iNext;
  simLog("schedule %s", z);
  opRun(p, opBind(p, "SELECT claimq_schedule('s', ?1, 'a', NULL)", "t", z),
        &iNext);
  simLog("schedule %s: next at %lld", z, iNext);
}

void opUnschedule(SimCo *p){
  opPlain(p, "SELECT claimq_unschedule('s')");
}

/* After a power cut that may have lost something. */
void opRestored(SimCo *p){
  if( opPlain(p, "SELECT claimq_restored()")==OP_OK ) watchRestored();
}

/**************************************************************************
** The end
*/

/* Claim and complete; 0 if there was nothing. */
int opFinish(SimCo *p, int eKind){
  SimClaim *pC = opClaim(p, eKind, 1000);
  if( pC ) opSettle(p, pC, OP_COMPLETE);
  return pC!=0;
}

/* Is there work left? */
int opLeft(SimCo *p){
  i64 n = 0;
  opRun(p, opBind(p, "SELECT sum(ready+delayed+held+expired+blocked+limited)"
      " FROM claimq_stats WHERE discipline IN ('lane', 'session', 'outbox')"
      "  OR (discipline='dead_letter' AND ?1)", "i", simRule.bLetter), &n);
  return n>0;
}
