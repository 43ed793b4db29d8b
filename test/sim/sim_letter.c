/*
** sim_letter.c: dead letters, what is ended from outside, and vacuum.
**
**   *  a letter is settled once: by its holder, or by whoever requeues it, and
**      never seen again;
**   *  requeuing gives a new number, and never work that was completed;
**   *  claimq_resolve() ends a job once, and none that a live claim holds;
**   *  vacuum removes nothing that has not ended (sim_watch.c);
**   *  in the end no letter is open, and each that was requeued has its job.
*/
#include <string.h>
#include "sim.h"
#include "sim_op.h"

static struct {
  i64 iLetter;
  i64 iOrder;                     /* The answer that ended it; 0: none */
} aEnded[SIM_NWORK];
static int nEnded;

void letterClear(void){ nEnded = 0; }

/* What was answered after the last sync may be gone. */
void letterPower(void){
  int i;
  for(i=0; i<nEnded; i++){
    if( aEnded[i].iOrder>sim.iSure ) aEnded[i].iOrder = 0;
  }
}

/* The answer that ended a letter, by nOrder; 0 if there is none. */
static i64 letterOver(i64 iLetter){
  int i;
  for(i=0; i<nEnded; i++){
    if( aEnded[i].iLetter==iLetter && aEnded[i].iOrder ){
      return aEnded[i].iOrder;
    }
  }
  return 0;
}

/* A letter was claimed. */
void letterClaim(const SimClaim *p){
  int i;
  for(i=0; i<p->nRow && p->eKind==SIM_LETTER; i++){
    const SimRow *r = &p->aRow[i];
    SimWork *pW = watchWork(r->iWork);
    i64 iOver = letterOver(r->iRow);
    if( iOver && iOver<p->iBegin ){
      simFail("%s: the letter %lld was settled before", p->zId, r->iRow);
    }
    if( pW ) pW->bLetter = 1;
  }
}

/* A letter has ended, by the answer iOrder. */
static void letterEnded(i64 iLetter, i64 iOrder){
  if( letterOver(iLetter) ){
    simFail("the letter %lld was settled twice", iLetter);
  }
  if( nEnded>=SIM_NWORK ) return;
  aEnded[nEnded].iLetter = iLetter;
  aEnded[nEnded++].iOrder = iOrder;
}

/* The letters of a claim were resolved or discarded. */
void letterSettled(const SimClaim *p, i64 iOrder){
  int i;
  for(i=0; i<p->nRow; i++) letterEnded(p->aRow[i].iRow, iOrder);
}

/* Put a letter's work back; pC, if it is not 0, holds the letter. */
static int letterRequeue(SimCo *p, i64 iLetter, int iWork, SimClaim *pC){
  SimWork *pW = watchWork(iWork);
  sqlite3_stmt *pStmt;
  i64 iBegin, iId = 0;
  int rc;
  if( pW==0 ) return 0;
  pW->bLetter = 1;
  pStmt = opBind(p,
    "SELECT claimq_requeue(?1, 'claim_id', ?2, 'lease_token', ?3)", "ltt",
    iLetter, pC ? pC->zId : 0, pC ? pC->zToken : 0);
  iBegin = sim.nOrder;
  rc = opRun(p, pStmt, &iId);
  if( rc==OP_DEAD ) pW->bMoved = 1;
  if( rc==OP_LOST && pC ) watchLost(pC, simMs());
  if( rc!=OP_OK ) return rc==OP_REFUSED;
  sum.nRequeue++;
  simLog("requeued letter %lld: work %d is %lld", iLetter, iWork, iId);
  pW->iKeyed = watchAnswer(iLetter, iId);
  letterEnded(iLetter, pW->iKeyed);
  if( pW->iDone && pW->iDone<iBegin ){
    simFail("work %d was completed, and is requeued", iWork);
  }
  if( pW->iId==iId && !pW->bLost && !pW->bKeyLost ){
    simFail("work %d was requeued with its old number", iWork);
  }
  pW->bKeyLost = 0;
  pW->bMoved = 1;
  pW->iId = iId;
  return 1;
}

/* The holder of letters puts one back, and keeps the rest.  1: there is one. */
int opRequeueHeld(SimCo *p, SimClaim *pC){
  SimRow *r = &pC->aRow[pC->nRow-1];
  i64 iLetter = r->iRow;
  if( !letterRequeue(p, iLetter, r->iWork, pC) || p->bDead ) return 0;
  if( letterOver(iLetter) ) pC->nRow--;
  return pC->nRow>0;
}

/* An operator looks for a letter, and puts it back. */
void opRequeue(SimCo *p){
  sqlite3_stmt *pStmt = opBind(p,
    "SELECT letter_id, payload FROM claimq_letter WHERE status<>'resolved'"
    "  AND status<>'discarded' ORDER BY letter_id DESC LIMIT 1", "");
  i64 iLetter = 0;
  int iWork = -1;
  if( pStmt && sqlite3_step(pStmt)==SQLITE_ROW ){
    iLetter = sqlite3_column_int64(pStmt, 0);
    iWork = sqlite3_column_type(pStmt, 1)==SQLITE_INTEGER
          ? sqlite3_column_int(pStmt, 1) : -1;
  }
  if( opEnd(p, pStmt)==OP_OK && iLetter ) letterRequeue(p, iLetter, iWork, 0);
}

/* Somebody outside says that a job is done, which may be held. */
void opResolve(SimCo *p){
  const SimClaim *q = watchAny();
  int bClaim = q && q->eKind==SIM_LANE && simOdds(2);
  int iWork = bClaim ? q->aRow[0].iWork : watchJob();
  SimWork *pW = watchWork(iWork);
  sqlite3_stmt *pStmt;
  i64 iBegin, iMs = simMs(), iId, n = 0;
  int rc;
  if( pW==0 ) return;
  iId = bClaim ? q->aRow[0].iRow : pW->iId;
  q = 0;
  pW->bEnds = 1;
  pStmt = opBind(p, "SELECT claimq_resolve(?1, NULL)", "l", iId);
  iBegin = sim.nOrder;
  rc = opRun(p, pStmt, &n);
  if( rc==OP_DEAD ) pW->bMaybeDone = 1;
  if( rc!=OP_OK || n==0 ) return;
  sum.nResolve++;
  simLog("resolved job %d (%lld)", iWork, iId);
  if( pW->iDone ) simFail("job %d was resolved, and is completed", iWork);
  while( (q = watchNext(q))!=0 ){
    if( q->eKind==SIM_LANE && q->aRow[0].iRow==iId
     && watchHolds(q, iBegin, iMs) ){
      simFail("job %d was resolved, and %s held it", iWork, q->zId);
    }
  }
  pW->iDone = watchAnswer(iWork, n);
}

void opVacuum(SimCo *p){
  i64 n = 0;
  if( opRun(p, opBind(p, "SELECT claimq_vacuum('older_than_ms', ?1, 'max', 20)",
                      "i", simPick(2)*40), &n)==OP_OK ){
    sum.nVacuum += n;
    simLog("vacuum: %lld", n);
  }
}

/* No letter is open, and each that was requeued has its job. */
void letterEnd(sqlite3 *db){
  watchQuery(db, "a letter is open",
    "SELECT letter_id FROM claimq_letter WHERE status NOT IN ('resolved',"
    "  'discarded')");
  if( simRule.bGone ) return;
  watchQuery(db, "a letter was requeued, and its job is not there",
    "SELECT letter_id FROM claimq_letter l WHERE source='lane'"
    " AND requeued_as IS NOT NULL AND NOT EXISTS (SELECT 1 FROM claimq_job"
    "  WHERE job_id=requeued_as AND payload IS l.payload)");
}
