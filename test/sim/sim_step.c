/*
** sim_step.c: durable steps.
**
** Every value is stored by one call only, so the observer knows whose it is:
**
**   *  the first value wins: all answers for a step of a piece of work are
**      equal, whoever asks, also if the work was a dead letter meanwhile;
**   *  what is answered was offered for this step, by somebody who was not told
**      that the claim is lost, and whose transaction was not taken back;
**   *  what was answered is there in the end.
*/
#include <stdio.h>
#include <string.h>
#include "sim.h"
#include "sim_op.h"

#define NNAME  2                  /* Steps of a piece of work */
#define NVALUE 2000

typedef struct Step Step;
struct Step {
  int iWork, iName;
  u8 bNever;                      /* It cannot have been stored */
};
static Step aValue[NVALUE];
static int nValue;

/* What was answered for a step: its value and when, by nOrder; 0: nothing. */
static struct {
  int iValue;
  i64 iOrder;
} aKnown[SIM_NWORK][NNAME];

void stepClear(void){
  nValue = 1;
  memset(aKnown, 0, sizeof(aKnown));
}

/* What was answered after the last sync may be gone. */
void stepPower(void){
  int i, j;
  for(i=0; i<SIM_NWORK; i++){
    for(j=0; j<NNAME; j++){
      if( aKnown[i][j].iOrder>sim.iSure ) aKnown[i][j].iOrder = 0;
    }
  }
}

/* May this value be stored for the step? */
static void stepValue(int iWork, int iName, i64 iValue){
  const Step *p = &aValue[iValue];
  if( iValue<1 || iValue>=nValue || p->iWork!=iWork || p->iName!=iName ){
    simFail("step %d of %d: %lld is of another one", iName, iWork, iValue);
  }else if( p->bNever ){
    simFail("step %d of %d: %lld was refused or taken back", iName, iWork,
            iValue);
  }
}

/* The answer of a step. */
static void stepDone(int iWork, int iName, i64 iValue){
  i64 iOrder = watchAnswer(iWork*NNAME+iName, iValue);
  sum.nStep++;
  simLog("step %d of %d: %lld", iName, iWork, iValue);
  stepValue(iWork, iName, iValue);
  if( aKnown[iWork][iName].iOrder==0 ){
    aKnown[iWork][iName].iValue = (int)iValue;
    aKnown[iWork][iName].iOrder = iOrder;
  }else if( aKnown[iWork][iName].iValue!=iValue ){
    simFail("step %d of %d was %d, and is %lld", iName, iWork,
            aKnown[iWork][iName].iValue, iValue);
  }
}

/*
** Store a step, now and then in a transaction that is taken back.  1 if the
** claim is still there.
*/
int opStep(SimCo *p, SimClaim *pC, int nLease){
  int iWork = pC->aRow[0].iWork;
  int iName = simPick(NNAME);
  int bBack = simOdds(4);
  int bLease = !bBack && simOdds(2);
  i64 iBegin = simMs();
  i64 iGot = 0;
  Step *pS = &aValue[nValue];
  int rc, rc2 = OP_OK;
  if( iWork<0 || nValue>=NVALUE ) return 1;
  nValue++;
  pS->iWork = iWork;
  pS->iName = iName;
  pS->bNever = 0;
  if( bBack && opPlain(p, "BEGIN IMMEDIATE")!=OP_OK ) return 0;
  rc = opRun(p, opBind(p,
    "SELECT claimq_step(?1, ?2, 's'||?3, ?4, 'lease_ms', nullif(?5, 0))",
    "ttiii", pC->zId, pC->zToken, iName, (int)(pS-aValue),
    bLease ? nLease : 0), &iGot);
  if( bBack ) rc2 = opPlain(p, "ROLLBACK");
  if( rc==OP_LOST || bBack ) pS->bNever = 1;
  if( rc==OP_LOST ) watchLost(pC, simMs());
  if( rc==OP_OK && rc2==OP_OK && !(bBack && iGot==pS-aValue) ){
    stepDone(iWork, iName, iGot);
  }
  if( rc==OP_OK && bLease ) watchStretched(pC, iBegin, nLease);
  return rc==OP_OK && rc2==OP_OK;
}

/* What was answered is there, for jobs; and nothing else that was not put. */
void stepEnd(sqlite3 *db){
  sqlite3_stmt *pStmt = 0;
  static u8 aThere[SIM_NWORK][NNAME];
  int i, j;
  memset(aThere, 0, sizeof(aThere));
  sqlite3_prepare_v2(db,
    "SELECT payload, substr(name, 2)+0, value FROM claimq_steps"
    " JOIN claimq_job USING(job_id)", -1, &pStmt, 0);
  while( sqlite3_step(pStmt)==SQLITE_ROW && !sim.bStop ){
    i = sqlite3_column_int(pStmt, 0);
    j = sqlite3_column_int(pStmt, 1);
    stepValue(i, j, sqlite3_column_int(pStmt, 2));
    aThere[i][j] = 1;
    if( aKnown[i][j].iOrder
     && aKnown[i][j].iValue!=sqlite3_column_int(pStmt, 2) ){
      simFail("step %d of %d has another value in the end", j, i);
    }
  }
  if( sqlite3_finalize(pStmt) ) simFail("steps: %s", sqlite3_errmsg(db));
  for(i=0; i<SIM_NWORK && !simRule.bGone; i++){
    const SimWork *p = watchWork(i);
    for(j=0; j<NNAME && p && p->eKind==SIM_LANE; j++){
      if( aKnown[i][j].iOrder && !aThere[i][j] && p->bFound ){
        simFail("step %d of %d is gone", j, i);
      }
    }
  }
}
