/*
** claim.c: the claim engine, the same for every claim table.
**
**     SELECT job_id, payload, claim_id FROM claimq_lane('mail', 'worker-a');
**
** The life of a claim.  The virtual table has read the arguments by the table's
** definitions.  Here those that every claim table has (owner, incarnation,
** ttl_ms, a maximum) are taken out by their roles, and the rest is left to the
** table's own functions:
**
**     xArgs    reads the table's own arguments
**     xNext    loads what comes next and decides how much of it is taken; the
**              rows are materialised with the lease they will get
**     xTidy    puts the indexes in order, if xNext asked for it
**     xStamp   writes the lease to the rows, in one statement
**     xDone    frees
**
** claimqRun() of txn.c decides when and under which lock xNext and xStamp run,
** and runs both again if somebody was faster.
*/
#include "claimq_int.h"

static void cqClaimLoad(CqOp *p, CqTask *pTask){
  CqClaim *pC = (CqClaim*)pTask;
  pC->pRows->nRow = 0;
  pC->ids.n = 0;
  if( pC->bTime ) claimqNow(p);
  if( p->rc==SQLITE_OK && pC->nMax>0 ) pC->pDef->xNext(p, pC);
}

static void cqClaimApply(CqOp *p, CqTask *pTask){
  CqClaim *pC = (CqClaim*)pTask;
  if( pTask->eNeed==CQ_NEED_TIDY && !pTask->bAlone && pC->pDef->xTidy ){
    pC->pDef->xTidy(p, pC);
  }
  pC->pDef->xStamp(p, pC);
}

/*
** Take out the arguments that have the same meaning in all claim tables.
*/
static void cqClaimArgs(CqClaim *pC, i64 nLimit){
  int i;
  pC->nMax = nLimit;
  for(i=0; i<pC->pDef->nArg; i++){
    const CqVal *pVal = &pC->aArg[i];
    switch( pC->pDef->aArg[i].eRole ){
      case CQ_ROLE_NOW:         pC->bTime = 1;              break;
      case CQ_ROLE_OWNER:       pC->owner = pVal->t;        break;
      case CQ_ROLE_INCARNATION: pC->incarnation = pVal->t;  break;
      case CQ_ROLE_TTL:         pC->iTtl = pVal->i;         break;
      case CQ_ROLE_MAX:
        if( pVal->i<nLimit ) pC->nMax = pVal->i;
        break;
    }
  }
}

/*
** One call of a claim table.  The rows are in pRows afterwards; op has the
** error if there is one.  A table that only looks runs xNext and no more.
*/
CQ_PRIV void claimqClaim(
  CqOp *p, const CqTableDef *pDef, const CqVal *aArg, i64 nLimit, CqRows *pRows
){
  CqClaim c;
  if( p->rc ) return;
  memset(&c, 0, sizeof(c));
  c.task.xLoad = cqClaimLoad;
  c.task.xApply = cqClaimApply;
  c.task.zWhat = pDef->zName;
  c.pDef = pDef;
  c.aArg = aArg;
  c.pRows = pRows;
  cqClaimArgs(&c, nLimit);
  if( pDef->xArgs ) pDef->xArgs(p, &c);
  if( pDef->bWrites ) claimqRun(p, &c.task);
  else if( p->rc==SQLITE_OK ) cqClaimLoad(p, &c.task);
  if( pDef->xDone ) pDef->xDone(&c);
  claimqIdsClear(&c.ids);
}

/*
** For xNext: what the claim needs, now that pRows holds what it takes.  To
** stamp several rows may have to be undone, if one of them turns out to be
** gone.
*/
CQ_PRIV void claimqClaimNeed(CqClaim *pC, int bTidy){
  int n = pC->pRows->nRow;
  pC->task.eNeed = n==0 ? CQ_NEED_NOTHING
                 : bTidy ? CQ_NEED_TIDY
                 : n==1 ? CQ_NEED_ONE : CQ_NEED_UNDO;
}

/*
** For xStamp: run the stamping statement, which must change nRow rows.
*/
CQ_PRIV void claimqClaimStamp(CqOp *p, CqClaim *pC, CqStmt *pStmt, i64 nRow){
  i64 n = claimqExec(p, pStmt);
  if( p->rc==SQLITE_OK && n!=nRow ) claimqStale(p, &pC->task);
}
