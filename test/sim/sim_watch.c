/*
** sim_watch.c: the observer.  It stands outside, hears every answer that a
** connection got, and knows only these.
**
**   *  A row, a serial session, a subject and a partition have one live lease
**      at a time, and a lane and its groups no more than their limits.  A lease
**      counts from the time at which its claim was made to its last known end,
**      or to the beginning of the call that settles it.
**   *  No answer shows a time before that of the transaction in front of it.
**   *  Fencing tokens rise, those of all contests together.
**   *  A lease that was given is kept, unless somebody revoked it.
**   *  What was put with an answer is there once; what was completed with an
**      answer stays so, and never comes again.  A job that waits for another
**      one comes after its end.  Of calls whose answer was lost
**      the observer accepts both ends.
**   *  What was stored for a step stays; sim_step.c, sim_grant.c, sim_letter.c,
**      sim_policy.c, sim_flow.c, sim_change.c, sim_request.c and sim_wait.c say
**      what else must hold.
**   *  A power cut loses nothing that was answered; where the mode allows it
**      (SimMode.bSure), only what was answered after the last sync.
*/
#include <stdio.h>
#include <string.h>
#include "sim.h"

#define SIM_NCLAIM 600

SimRule simRule;
static SimClaim aClaim[SIM_NCLAIM];
static int nClaim;
static SimWork aWork[SIM_NWORK];
static int nWork;
static int bNoRepeat;             /* claimq_restored() was called */

static const char *const azKind[] = {
  "job", "batch", "message", "subject", "letter"
};

void watchClear(void){
  nClaim = nWork = 0;
  bNoRepeat = 0;
  stepClear();
  grantClear();
  letterClear();
  policyClear();
  flowClear();
  changeClear();
  requestClear();
  waitClear();
  memset(&simRule, 0, sizeof(simRule));
}

/* A number for an answer, which becomes part of the history. */
i64 watchAnswer(i64 a, i64 b){
  sum.nAnswer++;
  sim.hash = (sim.hash ^ (u32)a)*16777619u;
  sim.hash = (sim.hash ^ (u32)b)*16777619u;
  sim.hash = (sim.hash ^ (u32)sim.iNow)*16777619u;
  return ++sim.nOrder;
}

/* A number is given out a second time.  May it be? */
void watchAgain(int bLost, const char *zWhat, const char *zKind, i64 i){
  if( bLost && !bNoRepeat ) sum.nAgain++;
  else simFail("%s %lld of a %s was given twice", zWhat, i, zKind);
}

/**************************************************************************
** Work that is put
*/

/* Somebody begins to put work.  Returns its payload. */
int watchPut(int eKind, int iScope){
  SimWork *p;
  if( nWork>=SIM_NWORK ) return -1;
  p = &aWork[nWork];
  memset(p, 0, sizeof(*p));
  p->eKind = eKind;
  p->iScope = iScope;
  p->iAfter = -1;
  return nWork++;
}

/* The work with this payload; 0 if nobody put it. */
SimWork *watchWork(int iWork){
  return iWork>=0 && iWork<nWork ? &aWork[iWork] : 0;
}

/* Some job whose id is known: its payload; -1 if there is none. */
int watchJob(void){
  int i = nWork ? simPick(nWork) : 0;
  return i<nWork && aWork[i].eKind==SIM_LANE && aWork[i].iId ? i : -1;
}

/* The claim after p, the first if p is 0; 0 after the last one. */
const SimClaim *watchNext(const SimClaim *p){
  p = p ? p+1 : aClaim;
  return p<&aClaim[nClaim] ? p : 0;
}

/* A job for iWork to wait for: its id; 0 if there is none. */
i64 watchAfter(int iWork){
  int i = iWork ? simPick(iWork) : 0;
  const SimWork *p = &aWork[i];
  if( i==iWork || p->eKind!=SIM_LANE || p->iId==0 || p->bLost ) return 0;
  aWork[iWork].iAfter = i;
  return p->iId;
}

/* The answer of a put.  iId is 0 if it has none (a plain INSERT). */
void watchPutDone(int iWork, i64 iId){
  SimWork *p = &aWork[iWork];
  int i;
  p->iPut = p->iKeyed = watchAnswer(iWork, iId);
  p->iPutAt = simMs();
  p->bLost = p->bKeyLost = 0;
  simLog("put %d: %s %lld", iWork, azKind[p->eKind], iId);
  for(i=0; i<nWork && iId; i++){
    SimWork *q = &aWork[i];
    if( q!=p && q->iId==iId && q->eKind==p->eKind && q->iScope==p->iScope ){
      watchAgain(q->bLost || q->bKeyLost, "the id", azKind[p->eKind], iId);
    }
  }
  if( p->iId && p->iId!=iId ) simFail("a repeated request got another id");
  p->iId = iId;
}

/**************************************************************************
** Claims
*/

/* Do the claims share a row? */
static int claimShares(const SimClaim *a, const SimClaim *b){
  int i, j;
  if( a->eKind!=b->eKind ) return 0;
  if( a->eKind==SIM_CONTEST ) return a->iScope==b->iScope;
  for(i=0; i<a->nRow; i++){
    for(j=0; j<b->nRow; j++){
      if( a->aRow[i].iRow==b->aRow[j].iRow ) return 1;
    }
  }
  return 0;
}

/* At the time iMs p is live.  Who else is? */
static void claimOverlap(const SimClaim *p, i64 iMs){
  int i, nLane = 0, nGroup = 0;
  for(i=0; i<nClaim && !sim.bStop; i++){
    const SimClaim *q = &aClaim[i];
    if( q==p || q->bLost || q->eKind!=p->eKind ) continue;
    if( iMs<q->iFrom || iMs>=q->iUntil ) continue;
    if( claimShares(p, q) ){
      simFail("%s and %s are live at %lld", p->zId, q->zId, iMs);
    }
    if( p->iScope!=q->iScope ) continue;
    if( p->eKind==SIM_SESSION && simRule.bSerial ){
      simFail("%s and %s of a serial session are live at %lld", p->zId, q->zId,
              iMs);
    }
    if( p->eKind!=SIM_LANE ) continue;
    nLane++;
    nGroup += p->iGroup>=0 && p->iGroup==q->iGroup;
  }
  if( simRule.bPolicy ) return;   /* See policyStart() */
  if( simRule.nActive && nLane>=simRule.nActive ){
    simFail("%s: %d are live at %lld, max_active is %d", p->zId, nLane+1, iMs,
            simRule.nActive);
  }
  if( simRule.nGroup && nGroup>=simRule.nGroup ){
    simFail("%s: %d of the group are live at %lld", p->zId, nGroup+1, iMs);
  }
}

/* Are the fencing tokens of a and b in the order of their calls? */
static void claimFences(const SimClaim *a, const SimClaim *b){
  int i, j;
  if( a->eKind!=b->eKind ) return;
  for(i=0; i<a->nRow; i++){
    for(j=0; j<b->nRow; j++){
      const SimRow *r = &a->aRow[i], *s = &b->aRow[j];
      if( r->iRow!=s->iRow || r->iFence==0 || s->iFence==0 ) continue;
      if( r->iFence==s->iFence ){
        watchAgain(a->bLost, "the token", azKind[b->eKind], s->iFence);
        return;
      }
      if( a->bLost && !bNoRepeat ) continue;
      if( a->iEnd<b->iBegin && r->iFence>s->iFence ){
        simFail("the token of %s is less than that of %s", b->zId, a->zId);
      }
      if( a->bCompleted && a->eKind<=SIM_SESSION && a->iEnd<b->iBegin ){
        simFail("%s is claimed after %s was completed", b->zId, a->zId);
      }
    }
  }
}

/* Can what the work waits for have ended? */
static int workOpen(const SimWork *p){
  const SimWork *q = &aWork[p->iAfter<0 ? 0 : p->iAfter];
  return p->iAfter<0 || q->bEnds || q->bLost;
}

/* Is the delivered work what was put, and not done yet? */
static void claimWork(const SimClaim *p){
  int i;
  for(i=0; i<p->nRow; i++){
    const SimRow *r = &p->aRow[i];
    SimWork *pW;
    if( r->iWork<0 ) continue;
    pW = &aWork[r->iWork];
    if( r->iWork>=nWork
     || (pW->eKind!=p->eKind && p->eKind!=SIM_LETTER) ){
      simFail("%s delivers what nobody put", p->zId);
    }else if( pW->iDone && pW->iDone<p->iBegin ){
      simFail("%s delivers %d, which was completed", p->zId, r->iWork);
    }else if( !workOpen(pW) || (simRule.bFlow && !flowOpen(r->iWork, p)) ){
      simFail("%s delivers %d, which waits for others", p->zId, r->iWork);
    }
    if( i>0 && p->eKind==SIM_OUTBOX && r->iSeq<=p->aRow[i-1].iSeq ){
      simFail("%s delivers messages in disorder", p->zId);
    }
  }
}

/* No time of an answer is older than what was written before. */
static void watchClock(const char *zId, i64 iMs){
  i64 iAfter = sim.pCo->iAfter/1000;
  if( iMs>simMs() ) simFail("%s is of a time to come", zId);
  if( iMs<iAfter ){
    simFail("%s: its time was read %lld ms before another one wrote", zId,
            iAfter-iMs);
  }
}

/* The answer of a claim.  Returns the observer's own, 0 if there is no room. */
SimClaim *watchClaim(const SimClaim *pNew){
  SimClaim *p = &aClaim[nClaim];
  int i;
  if( nClaim>=SIM_NCLAIM ){
    sim.nUnheard++;
    return 0;
  }
  *p = *pNew;
  sum.nClaim++;
  p->iEnd = watchAnswer(p->aRow[0].iRow, p->aRow[0].iFence);
  simLog("claim %s scope %d, %lld to %lld", p->zId, p->iScope, p->iClaimed,
         p->iExpires);
  p->iFrom = p->iClaimed;
  flowHeard(p);
  claimOverlap(p, p->iClaimed);
  if( simMs()<p->iUntil ) claimOverlap(p, simMs());
  for(i=0; i<nClaim && !sim.bStop; i++) claimFences(&aClaim[i], p);
  claimWork(p);
  letterClaim(p);
  grantClaim(p);
  policyClaim(p);
  changeClaim(p);
  watchClock(p->zId, p->iClaimed);
  nClaim++;
  return p;
}

/* The answer of a renewal, which began at iBegin. */
void watchRenewed(SimClaim *p, i64 iBegin, i64 iExpires, int nLease){
  i64 iMs = iExpires-nLease;
  int bStart = p->iExpires>0 && iMs>=p->iUntil;
  watchAnswer(iExpires, 0);
  simLog("renewed %s from %lld to %lld", p->zId, iMs, iExpires);
  if( p->bRevoked ) return;       /* It may be gone again */
  if( iMs>=p->iUntil ) p->iFrom = iMs;
  p->iUntil = p->iExpires = iExpires;
  claimOverlap(p, iMs);
  if( simMs()<iExpires ) claimOverlap(p, simMs());
  if( bStart ) policyStart(p, iBegin, iMs);
  watchClock(p->zId, iMs);
}

/*
** A step may have renewed it, at some time after iBegin: its end is not before
** iBegin+nLease.
*/
void watchStretched(SimClaim *p, i64 iBegin, int nLease){
  if( p->bRevoked ) return;
  if( iBegin>=p->iUntil ) p->iFrom = simMs();
  p->iUntil = p->iExpires = iBegin+nLease;
  if( simMs()<p->iUntil ) claimOverlap(p, simMs());
}

/* Did it surely hold its rows during a call since iBegin, at the time iMs? */
int watchHolds(const SimClaim *p, i64 iBegin, i64 iMs){
  return !p->bLost && p->iEnd<iBegin && p->iFrom<=iMs && p->iUntil>simMs();
}

/* Somebody begins to settle or revoke it.  eEnds: SIM_FAILS and SIM_DOES end
** the work, 0 does not. */
void watchSettle(SimClaim *p, int eEnds){
  int i;
  if( p->iUntil>simMs() ) p->iUntil = simMs();
  for(i=0; i<p->nRow && eEnds && p->eKind!=SIM_LETTER; i++){
    SimWork *pW = watchWork(p->aRow[i].iWork);
    if( pW==0 ) continue;
    pW->bEnds = 1;
    if( eEnds==SIM_DOES ) pW->bDoes = 1;
    else pW->bFails = 1;
  }
}

/* The answer of a settlement; nRow rows are completed. */
void watchSettled(SimClaim *p, int bCompleted, int nRow){
  i64 iOrder = watchAnswer(bCompleted, nRow);
  int i;
  simLog("%s %s", bCompleted ? "completed" : "given back", p->zId);
  p->bCompleted = (u8)bCompleted;
  if( p->eKind==SIM_LETTER ){
    if( bCompleted ) letterSettled(p, iOrder);
    return;
  }
  for(i=0; i<nRow && bCompleted; i++){
    SimWork *pW;
    if( p->aRow[i].iWork<0 ) continue;
    pW = &aWork[p->aRow[i].iWork];
    if( pW->iDone ) simFail("%s completes again what was completed", p->zId);
    pW->iDone = iOrder;
    pW->iDoneAt = simMs();
  }
}

/* The answer is claim_lost. */
void watchLost(SimClaim *p, i64 iMs){
  watchAnswer(-1, iMs);
  simLog("lost %s", p->zId);
  if( iMs<p->iExpires && !p->bRevoked && !p->bLost ){
    simFail("%s was lost at %lld, before its end at %lld", p->zId, iMs,
            p->iExpires);
  }
}

/* Killed within a completion: it may have been done. */
void watchMaybe(SimClaim *p){
  int i;
  for(i=0; i<p->nRow && p->eKind!=SIM_LETTER; i++){
    if( p->aRow[i].iWork>=0 ) aWork[p->aRow[i].iWork].bMaybeDone = 1;
  }
}

/* Some claim, 0 if there is none.  One that was lost may have an id that was
** given again. */
SimClaim *watchAny(void){
  int n = nClaim<6 ? nClaim : 6;
  SimClaim *p = n ? &aClaim[nClaim-1-simPick(n)] : 0;
  return p && !p->bLost ? p : 0;
}

/**************************************************************************
** The power fails
*/

/* What was answered after the last sync may be gone. */
void watchPower(void){
  i64 nLost = 0;
  int i;
  if( sim.pMode->bSure ) return;
  bNoRepeat = 0;
  for(i=0; i<nClaim; i++){
    SimClaim *p = &aClaim[i];
    p->bLost |= p->iEnd>sim.iSure;
    p->bCompleted = 0;
    nLost += p->bLost;
  }
  for(i=0; i<nWork; i++){
    SimWork *p = &aWork[i];
    if( p->iPut>sim.iSure ) p->bLost = 1;
    if( p->iKeyed>sim.iSure ) p->bKeyLost = 1;
    if( p->iDone>sim.iSure ){
      p->iDone = 0;
      p->bMaybeDone = 1;
    }
    nLost += p->bLost;
  }
  /* A renewal may be gone, and a settlement; the claim itself is not. */
  for(i=0; i<nClaim; i++){
    aClaim[i].iUntil = aClaim[i].iExpires = 0;
  }
  stepPower();
  grantPower();
  letterPower();
  policyPower();
  flowPower();
  changePower();
  requestPower();
  sum.nLost += nLost>0;
}

/* claimq_restored(): from now on nothing is given a second time. */
void watchRestored(void){
  bNoRepeat = 1;
  sum.nRestored++;
}

/**************************************************************************
** The end
*/

/* No window of nPer ms may see more than nRate claims of a lane begin. */
static void endRate(void){
  int i, j;
  for(i=0; i<nClaim && simRule.nRate; i++){
    const SimClaim *p = &aClaim[i];
    int n = 0;
    if( p->eKind!=SIM_LANE || p->bLost ) continue;
    for(j=0; j<nClaim; j++){
      const SimClaim *q = &aClaim[j];
      n += q->eKind==SIM_LANE && !q->bLost && q->iClaimed<=p->iClaimed
        && q->iClaimed>p->iClaimed-simRule.nPer;
    }
    if( n>simRule.nRate ){
      simFail("%d claims in the %d ms up to %lld", n, simRule.nPer,
              p->iClaimed);
    }
  }
}

/* Fail with each row that zSql finds. */
void watchQuery(sqlite3 *db, const char *zWhat, const char *zSql){
  sqlite3_stmt *pStmt = 0;
  int rc = sqlite3_prepare_v2(db, zSql, -1, &pStmt, 0);
  while( rc==SQLITE_OK && sqlite3_step(pStmt)==SQLITE_ROW ){
    simFail("%s: %s", zWhat, (const char*)sqlite3_column_text(pStmt, 0));
  }
  if( sqlite3_finalize(pStmt) ) simFail("%s: %s", zWhat, sqlite3_errmsg(db));
}

/*
** The jobs that are there at the end: payload, job_id, state, letters.  What
** was requeued is another job now.
*/
static void endJobs(sqlite3 *db){
  sqlite3_stmt *pStmt = 0;
  sqlite3_prepare_v2(db,
    "SELECT payload, job_id, state, (SELECT count(*) FROM claimq_letter"
    "  WHERE source='lane' AND ref=job_id) FROM claimq_job"
    " WHERE typeof(payload)='integer' AND NOT EXISTS (SELECT 1"
    "  FROM claimq_letter WHERE source='lane' AND ref=job_id"
    "   AND requeued_as IS NOT NULL)", -1, &pStmt, 0);
  while( sqlite3_step(pStmt)==SQLITE_ROW ){
    int i = sqlite3_column_int(pStmt, 0)%1000;
    const char *zState = (const char*)sqlite3_column_text(pStmt, 2);
    int bDone = strcmp(zState, "completed")==0;
    SimWork *p = &aWork[i];
    if( simRule.bGone && !bDone && p->bLetter ) continue;
    if( i>=nWork || p->bFound ){
      simFail("job %d is there twice, or nobody put it", i);
      break;
    }
    p->bFound = 1;
    if( p->iId && !p->bLost && !p->bMoved
     && p->iId!=sqlite3_column_int64(pStmt, 1) ){
      simFail("job %d has another id", i);
    }
    if( p->iDone && !bDone ) simFail("job %d is not completed any more", i);
    if( !p->iDone && !p->bMaybeDone && bDone ){
      simFail("nobody completed job %d", i);
    }
    if( sqlite3_column_int(pStmt, 3)!=(strcmp(zState, "failed")==0) ){
      simFail("job %d has %d letters", i, sqlite3_column_int(pStmt, 3));
    }
  }
  if( sqlite3_finalize(pStmt) ) simFail("jobs: %s", sqlite3_errmsg(db));
}

/* May the work be gone? */
static int endGone(const SimWork *p){
  int bOver = p->iDone || p->bMaybeDone || p->bLetter;
  if( p->iPut==0 || p->bLost ) return 1;
  if( p->eKind==SIM_LANE && !simRule.bGone ) return 0;
  return bOver || (p->eKind==SIM_LANE && p->bEnds)
      || (simRule.bFlow && flowMayEnd((int)(p-aWork), 0));
}

/* All is done, and everything is looked at. */
void watchEnd(sqlite3 *db){
  int i;
  endRate();
  watchQuery(db, "integrity", "SELECT * FROM pragma_integrity_check"
    " WHERE integrity_check<>'ok'");
  if( sim.iSeed%7==0 ) watchQuery(db, "claimq_check",
    "SELECT table_name||' '||row_key||' '||problem"
    " FROM claimq_check");
  watchQuery(db, "a time of a schedule came twice",
    "SELECT source_key FROM claimq_job WHERE source_key LIKE 'schedule:%'"
    " GROUP BY source_key HAVING count(*)>1");
  endJobs(db);
  if( simRule.bStep ) stepEnd(db);
  if( simRule.bLetter ) letterEnd(db);
  if( simRule.bFlow ) flowEnd(db);
  for(i=0; i<nWork && !sim.bStop; i++){
    SimWork *p = &aWork[i];
    if( !p->bFound && !endGone(p) ){
      simFail("%s %d (%lld) was put and is gone", azKind[p->eKind], i, p->iId);
    }
  }
}
