/*
** sim_request.c: calls that are repeated with their request.
**
** Puts, claims, claims with `done`, renewals, settlements, lists of claims that
** are completed together, cancels and changes are made with a request.  If a
** connection is killed before it hears the answer, another one makes the call
** again.  Calls whose answers were heard are repeated, too:
**
**   *  their answer is the same, whatever has happened since; of a claim, the
**      same rows and tokens as long as it holds, and never another claim;
**   *  whatever was not heard is done once: sim_watch.c knows if it is there
**      twice, or completed twice.
*/
#include <stdio.h>
#include <string.h>
#include "sim.h"
#include "sim_op.h"

#define NCALL  400
#define PUT    0
#define CLAIM  1
#define SETTLE 2
#define CANCEL 3
#define CHANGE 4
#define RENEW  5
#define LIST   6

typedef struct Call Call;
struct Call {
  u8 eCall;
  u8 bBusy;                       /* Under way */
  u8 bOver;                       /* Not repeated any more */
  u8 bAgain;                      /* It was made before, without an answer */
  u8 bForce;                      /* CANCEL */
  u8 bPartial;                    /* LIST */
  int iWork;                      /* PUT, CANCEL, CHANGE */
  int iChange;                    /* CHANGE: which one */
  int eHow;                       /* SETTLE */
  int nLease;                     /* CLAIM, RENEW */
  SimClaim ask;                   /* CLAIM: kind, scope and owner */
  SimClaim *pDone;                /* CLAIM: what is completed first */
  SimClaim *pOther;               /* LIST: the second claim */
  SimClaim *pC;                   /* SETTLE, RENEW, LIST; CLAIM: what was got */
  i64 iBegin;                     /* By nOrder */
  i64 iHeard;                     /* The answer, by nOrder; 0: none */
  i64 iAnswer;
};
static Call aCall[NCALL];
static int nCall;

void requestClear(void){ nCall = 0; }

/*
** What was answered after the last sync may be gone.  So may a job that
** somebody meant by its id, which another one has then.
*/
void requestPower(void){
  int i;
  for(i=0; i<nCall; i++){
    Call *p = &aCall[i];
    if( p->iHeard>sim.iSure ) p->bOver = 1;
    if( p->iHeard==0 && simRule.bFlow ) p->bOver = 1;
  }
}

/* A new call; 0 if there is no room. */
static Call *callNew(int eCall){
  Call *p = &aCall[nCall];
  if( nCall>=NCALL ) return 0;
  memset(p, 0, sizeof(*p));
  p->eCall = (u8)eCall;
  p->iBegin = sim.nOrder+1;
  nCall++;
  sum.nRequest++;
  return p;
}

/* Its request. */
static void callName(const Call *pX, char *z, int n){
  sqlite3_snprintf(n, z, "q%d", (int)(pX-aCall));
}

/* An integer or a word was answered.  1 if that is new. */
static int callHeard(Call *pX, int rc, i64 i){
  if( pX->iHeard && (rc!=OP_OK || i!=pX->iAnswer) ){
    simFail("request q%d was answered by %lld, and then by %lld (%d)",
            (int)(pX-aCall), pX->iAnswer, i, rc);
  }
  if( pX->iHeard ) return 0;
  pX->iAnswer = i;
  if( rc!=OP_OK ) pX->bOver = 1;
  return rc==OP_OK;
}

/**************************************************************************
** Puts and cancels
*/

static int callPut(SimCo *p, Call *pX){
  static const char *const azSql[] = {
    "SELECT claimq_submit('a', ?1, 'partition', ?2, 'request', ?3)",
    "SELECT claimq_enqueue('s'||?2, ?1, 'slot_policy', 'join', 'request', ?3)",
    "SELECT claimq_publish('q', ?1, 'partition', ?2, 'request', ?3)",
  };
  const SimWork *pW = watchWork(pX->iWork);
  char zRequest[16];
  i64 iId = 0;
  int rc;
  callName(pX, zRequest, sizeof(zRequest));
  if( pW->eKind==SIM_LANE && simRule.bFlow ){
    rc = flowSubmit(p, pX->iWork, zRequest, &iId);
  }else{
    rc = opRun(p, opBind(p, azSql[pW->eKind], "iit", pX->iWork, pW->iScope,
                         zRequest), &iId);
  }
  if( rc==OP_DEAD || !callHeard(pX, rc, iId) ) return rc;
  watchPutDone(pX->iWork, iId);
  pX->iHeard = sim.nOrder;
  return rc;
}

/* What was refused is not remembered. */
static int callCancel(SimCo *p, Call *pX){
  char zRequest[16];
  int rc, eWord;
  callName(pX, zRequest, sizeof(zRequest));
  if( pX->iHeard ){
    rc = opWord(p, opBind(p,
      "SELECT claimq_cancel(?1, 'force', ?2, 'request', ?3)", "lit",
      watchWork(pX->iWork)->iId, pX->bForce, zRequest), &eWord);
  }else{
    rc = flowCancel(p, pX->iWork, pX->bForce, zRequest, &eWord);
  }
  if( rc==OP_DEAD || !callHeard(pX, rc, eWord) ) return rc;
  if( eWord==OP_DID ) pX->iHeard = sim.nOrder;
  else pX->bOver = 1;
  return rc;
}

static int callChange(SimCo *p, Call *pX){
  char zRequest[16];
  int rc, eWord;
  callName(pX, zRequest, sizeof(zRequest));
  rc = changeCall(p, pX->iChange, zRequest, &eWord);
  if( rc==OP_DEAD || !callHeard(pX, rc, eWord) ) return rc;
  changeHeard(pX->iChange, eWord);
  if( eWord==OP_DID ) pX->iHeard = sim.nOrder;
  else pX->bOver = 1;
  return rc;
}

/**************************************************************************
** Claims
*/

static const char *const azClaim[] = {
  "SELECT job_id, payload, group_key, claim_id, lease_token, fencing_token,"
  " claimed_at_ms, expires_at_ms FROM claimq_lane('a', ?1, ?2)"
  " WHERE request=?4 AND done=?5",
  "SELECT enqueue_seq, payload, NULL, claim_id, lease_token,"
  " batch_fencing_token, claimed_at_ms, expires_at_ms"
  " FROM claimq('s'||?3, ?1, ?2, 3) WHERE request=?4 AND done=?5",
  "SELECT seq, payload, partition, claim_id, lease_token, fencing_token,"
  " claimed_at_ms, expires_at_ms FROM claimq_outbox('q', ?1, ?2, 3)"
  " WHERE request=?4 AND done=?5",
  "SELECT 0, NULL, outcome, claim_id, lease_token, fencing_token,"
  " claimed_at_ms, expires_at_ms FROM claimq_contest('c'||?3, ?1, ?2)"
  " WHERE request=?4 AND done=?5",
};

/* Does the repeated claim pC have what the first one got? */
static void claimSame(const Call *pX, const SimClaim *pC){
  const SimClaim *q = pX->pC;
  int i;
  if( pC->nRow==0 ){
    if( q && !q->bLost && !q->bRevoked && q->iUntil>simMs() ){
      simFail("%s was asked for again, and was not there", q->zId);
    }
    return;
  }
  if( q==0 || strcmp(q->zId, pC->zId) || strcmp(q->zToken, pC->zToken)
   || q->nRow!=pC->nRow ){
    simFail("%s is what a request got that had %s before", pC->zId,
            q ? q->zId : "nothing");
    return;
  }
  for(i=0; i<q->nRow; i++){
    if( q->aRow[i].iRow!=pC->aRow[i].iRow
     || q->aRow[i].iWork!=pC->aRow[i].iWork ){
      simFail("%s was asked for again, and has other rows", q->zId);
    }
  }
}

/* The answer of a claim that was not heard before. */
static void claimHeard(SimCo *p, Call *pX, const SimClaim *pC){
  if( pX->pDone ){
    watchSettled(pX->pDone, 1, pX->pDone->nRow);
    sum.nDone++;
  }
  if( pC->nRow ){
    if( pC->iExpires!=pC->iClaimed+pX->nLease ){
      simFail("%s has another lease", pC->zId);
    }
    if( pX->bAgain ) p->iAfter = 0;      /* The answer may be an old one */
    pX->pC = watchClaim(pC);
  }
  if( pX->pC==0 && (pX->pDone==0 || pC->nRow) ){
    pX->bOver = 1;                /* What took nothing is not remembered */
  }else{
    pX->iHeard = sim.nOrder;
  }
}

static int callClaim(SimCo *p, Call *pX){
  SimClaim c = pX->ask;
  char zOwner[16], zRequest[16], zDone[160];
  sqlite3_stmt *pStmt;
  int rc;
  callName(pX, zRequest, sizeof(zRequest));
  sqlite3_snprintf(sizeof(zOwner), zOwner, "w%d", c.iOwner);
  sqlite3_snprintf(sizeof(zDone), zDone, "[]");
  if( pX->pDone ){
    sqlite3_snprintf(sizeof(zDone), zDone, "[[\"%s\",\"%s\"]]", pX->pDone->zId,
                     pX->pDone->zToken);
    if( pX->iHeard==0 ) watchSettle(pX->pDone, SIM_DOES);
  }
  pStmt = opBind(p, azClaim[c.eKind], "tiitt", zOwner, pX->nLease, c.iScope,
                 zRequest, zDone);
  c.iBegin = pX->iBegin;
  if( !pX->bAgain ) sim.nUnheard++;
  while( pStmt && sqlite3_step(pStmt)==SQLITE_ROW ) opClaimRow(&c, pStmt);
  rc = opEnd(p, pStmt);
  if( rc==OP_DEAD ){
    if( pX->pDone && pX->iHeard==0 ) watchMaybe(pX->pDone);
    return rc;
  }
  if( pX->iHeard ){
    if( rc!=OP_OK ) simFail("a claim that was answered is refused");
    else claimSame(pX, &c);
    return rc;
  }
  sim.nUnheard--;
  if( rc==OP_LOST ) watchLost(pX->pDone, simMs());
  if( rc==OP_OK ) claimHeard(p, pX, &c);
  else pX->bOver = 1;
  return rc;
}

/**************************************************************************
** Settlements and renewals
*/

static int callSettle(SimCo *p, Call *pX){
  static const char *const azSql[] = {
    "SELECT claimq_complete(?1, ?2, 'request', ?3)",
    "SELECT claimq_retry(?1, ?2, 'why', 'delay_ms', 10, 'request', ?3)",
    "SELECT claimq_release(?1, ?2, 'request', ?3)",
    "SELECT claimq_reject(?1, ?2, 'why', 'request', ?3)",
  };
  SimClaim *pC = pX->pC;
  char zRequest[16];
  i64 i = 0;
  int rc;
  callName(pX, zRequest, sizeof(zRequest));
  if( pX->iHeard==0 ){
    watchSettle(pC, pX->eHow==OP_COMPLETE ? SIM_DOES
                  : pX->eHow==OP_REJECT ? SIM_FAILS : 0);
    pC->bGiven = 1;
  }
  rc = opRun(p, opBind(p, azSql[pX->eHow], "ttt", pC->zId, pC->zToken,
                       zRequest), &i);
  if( rc==OP_DEAD ){
    if( pX->iHeard==0 && pX->eHow==OP_COMPLETE ) watchMaybe(pC);
    return rc;
  }
  if( rc==OP_LOST && pX->iHeard==0 ) watchLost(pC, simMs());
  if( !callHeard(pX, rc, i) ) return rc;
  if( i ) flowKept(pC, pX->iBegin);
  watchSettled(pC, pX->eHow==OP_COMPLETE, pC->nRow);
  pX->iHeard = sim.nOrder;
  return rc;
}

/* Somebody who holds it may settle it before: then the answer is claim_lost. */
static int callRenew(SimCo *p, Call *pX){
  SimClaim *pC = pX->pC;
  char zRequest[16];
  i64 iExpires;
  int rc;
  callName(pX, zRequest, sizeof(zRequest));
  if( pX->iHeard==0 && !pX->bAgain ) sim.nUnheard++;
  rc = opRun(p, opBind(p, "SELECT claimq_renew(?1, ?2, ?3, 'request', ?4)",
                       "ttit", pC->zId, pC->zToken, pX->nLease, zRequest),
             &iExpires);
  if( rc==OP_DEAD ) return rc;
  if( pX->iHeard==0 ) sim.nUnheard--;
  if( rc==OP_LOST && pX->iHeard==0 ) watchLost(pC, simMs());
  if( !callHeard(pX, rc, iExpires) ) return rc;
  flowKept(pC, pX->iBegin);
  if( pX->bAgain ) p->iAfter = 0;
  watchRenewed(pC, pX->iBegin, iExpires, pX->nLease);
  pX->iHeard = sim.nOrder;
  return rc;
}

/*
** Complete a claim of one's own and one of somebody else, who then has lost it:
** both, or each that still holds.
*/
static int callList(SimCo *p, Call *pX){
  SimClaim *ap[2];
  char zList[300], zRequest[16];
  int i, rc, an[2] = {0, 0};
  sqlite3_stmt *pStmt;
  ap[0] = pX->pC;
  ap[1] = pX->pOther;
  for(i=0; i<2 && pX->iHeard==0; i++) watchSettle(ap[i], SIM_DOES);
  pX->pOther->bRevoked = 1;
  callName(pX, zRequest, sizeof(zRequest));
  sqlite3_snprintf(sizeof(zList), zList, "[[\"%s\",\"%s\"],[\"%s\",\"%s\"]]",
                   ap[0]->zId, ap[0]->zToken, ap[1]->zId, ap[1]->zToken);
  pStmt = opBind(p, "SELECT claimq_complete(?1, 'partial', ?2, 'request', ?3)",
                 "tit", zList, pX->bPartial, zRequest);
  if( pStmt && sqlite3_step(pStmt)==SQLITE_ROW ){
    sscanf((const char*)sqlite3_column_text(pStmt, 0), "[%d,%d]", &an[0],
           &an[1]);
    while( sqlite3_step(pStmt)==SQLITE_ROW ){}
  }
  rc = opEnd(p, pStmt);
  for(i=0; i<2 && rc==OP_DEAD && pX->iHeard==0; i++) watchMaybe(ap[i]);
  if( rc==OP_DEAD || !callHeard(pX, rc, an[0]*10+an[1]) ) return rc;
  for(i=0; i<2; i++){
    if( an[i] ) watchSettled(ap[i], 1, ap[i]->nRow);
    else watchLost(ap[i], simMs());
    if( an[i]==0 && !pX->bPartial ) simFail("a list was completed in part");
  }
  pX->iHeard = sim.nOrder;
  sum.nList++;
  return rc;
}

/**************************************************************************
** The calls, and who makes them again
*/

/* Make a call, for the first time or again. */
static void callRun(SimCo *p, Call *pX){
  static int (*const ax[])(SimCo*, Call*) = {
    callPut, callClaim, callSettle, callCancel, callChange, callRenew,
    callList
  };
  pX->bBusy = 1;
  ax[pX->eCall](p, pX);
  pX->bBusy = 0;
  if( p->bDead ) pX->bAgain = 1;
}

void requestPut(SimCo *p, int eKind, int iScope){
  int iWork = watchPut(eKind, iScope);
  Call *pX = iWork<0 ? 0 : callNew(PUT);
  if( pX==0 ) return;
  pX->iWork = iWork;
  callRun(p, pX);
}

void requestCancel(SimCo *p, int iWork, int bForce){
  Call *pX = callNew(CANCEL);
  if( pX==0 ) return;
  pX->iWork = iWork;
  pX->bForce = (u8)bForce;
  callRun(p, pX);
}

/* Claim; pDone, if it is not 0, is completed first.  0: there is nothing. */
SimClaim *requestClaim(SimCo *p, int eKind, int nLease, SimClaim *pDone){
  Call *pX = eKind<SIM_LETTER ? callNew(CLAIM) : 0;
  if( pX==0 ) return 0;
  opClaimEmpty(p, eKind, &pX->ask);
  pX->nLease = nLease;
  pX->pDone = pDone;
  callRun(p, pX);
  return pX->pC;
}

/* Settle a claim. */
void requestSettle(SimCo *p, SimClaim *pC, int eHow){
  Call *pX = eHow==OP_FORGET ? 0 : callNew(SETTLE);
  if( pX==0 ) return;
  pX->pC = pC;
  pX->eHow = eHow;
  callRun(p, pX);
}

void requestChange(SimCo *p, int iWork, int iChange){
  Call *pX = callNew(CHANGE);
  if( pX==0 ) return;
  pX->iWork = iWork;
  pX->iChange = iChange;
  callRun(p, pX);
}

/* 1 if the claim is still there. */
int requestRenew(SimCo *p, SimClaim *pC, int nLease){
  Call *pX = callNew(RENEW);
  if( pX==0 ) return 0;
  pX->pC = pC;
  pX->nLease = nLease;
  callRun(p, pX);
  return pX->iHeard!=0;
}

/*
** Complete it together with a claim of another, if there is one, which may be
** over.  (Of a job two may hear that they completed it.)
*/
void requestList(SimCo *p, SimClaim *pC){
  SimClaim *pOther = 0;
  Call *pX;
  int i;
  for(i=0; i<6 && pOther==0; i++){
    pOther = watchAny();
    if( pOther && (pOther==pC || pOther->eKind==SIM_LANE
     || pOther->eKind==SIM_LETTER
     || (pOther->iUntil<=simMs() && simOdds(2))) ) pOther = 0;
  }
  if( pOther==0 ){
    requestSettle(p, pC, OP_COMPLETE);
    return;
  }
  pX = callNew(LIST);
  if( pX==0 ) return;
  pX->pC = pC;
  pX->pOther = pOther;
  pX->bPartial = (u8)simOdds(2);
  callRun(p, pX);
}

/* Make an earlier call again.  The claim that it got, if nobody knew of it. */
static SimClaim *callAgain(SimCo *p, Call *pX){
  int bHeard = pX->iHeard!=0;
  if( pX->bBusy || pX->bOver ) return 0;
  if( bHeard ) sum.nSame++;
  else sum.nRepeat++;
  simLog("q%d again, which was %s", (int)(pX-aCall),
         bHeard ? "heard" : "not heard");
  callRun(p, pX);
  return bHeard || pX->eCall!=CLAIM ? 0 : pX->pC;
}

/*
** Make one of the earlier calls again, of the latest more often; if there is
** one that was not heard, that one.  The claim that it got, and its lease; 0:
** none.
*/
SimClaim *opRepeat(SimCo *p, int *pnLease){
  int n = nCall>8 && simOdds(2) ? 8 : nCall;
  Call *pX = n ? &aCall[nCall-1-simPick(n)] : 0;
  int i;
  for(i=0; i<nCall; i++){
    const Call *q = &aCall[i];
    if( q->iHeard==0 && !q->bOver && !q->bBusy ) pX = &aCall[i];
  }
  if( pX==0 ) return 0;
  *pnLease = pX->nLease;
  return callAgain(p, pX);
}

/* In the end: whatever was not heard, and some of what was. */
void opRepeatAll(SimCo *p){
  int i;
  for(i=0; i<nCall && !sim.bStop; i++){
    Call *pX = &aCall[i];
    SimClaim *pC;
    if( pX->iHeard && !simOdds(4) ) continue;
    pC = callAgain(p, pX);
    if( pC && pC->eKind!=SIM_CONTEST ) opSettle(p, pC, OP_COMPLETE);
  }
}
