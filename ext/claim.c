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

/*
** What the claim would take.  A table that looks at the time looks again if
** the settings of the database turn out to have changed while it was read. 
** Raises clock_required; else op has the error of xNext, and pRows is to be
** thrown away.
*/
static void cqClaimLoad(CqOp *p, CqTask *pTask){
  CqClaim *pC = (CqClaim*)pTask;
  int mSettings;
  if( !pC->bTime ){
    if( pC->nMax>0 ) pC->pDef->xNext(p, pC);
    return;
  }
  do{
    pC->pRows->nRow = 0;
    pC->ids.n = 0;
    pTask->eNeed = CQ_NEED_NOTHING;
    claimqNow(p);
    mSettings = p->pConn->mSettings;
    if( p->rc==SQLITE_OK && pC->nMax>0 ) pC->pDef->xNext(p, pC);
    claimqNow(p);
    /* The settings were changed meanwhile: look again. */
  }while( p->rc==SQLITE_OK && claimqSettings(p)!=mSettings );
  pTask->bNoKeep = pC->pRows->nRow==0;    /* It may still write: upkeep */
}

static void cqClaimApply(CqOp *p, CqTask *pTask){
  CqClaim *pC = (CqClaim*)pTask;
  assert( pC->pDef->bWrites && pC->pDef->xStamp );
  if( pTask->eNeed==CQ_NEED_TIDY && !pTask->bAlone && pC->pDef->xTidy ){
    pC->pDef->xTidy(p, pC);
  }
  pC->pDef->xStamp(p, pC);
}

/**************************************************************************
** Requests: what a claim remembers, and how it is repeated
*/

/*
** The scope of the call: its scope arguments, joined by slashes.  The caller
** frees; 0 if all of them are NULL, or there is no memory.
*/
static char *cqClaimScope(CqOp *p, const CqClaim *pC){
  char *z = 0;
  int i, bAny = 0;
  for(i=0; i<pC->pDef->nArg && p->rc==SQLITE_OK; i++){
    const CqVal *pVal = &pC->aArg[i];
    const char *zSep = bAny ? "/" : "";
    if( pC->pDef->aArg[i].eRole!=CQ_ROLE_SCOPE ) continue;
    if( !pVal->bGiven ){
      z = sqlite3_mprintf("%z%s", z, zSep);
    }else if( pC->pDef->aArg[i].eType==CQ_T_INT ){
      z = sqlite3_mprintf("%z%s%lld", z, zSep, pVal->i);
    }else{
      z = sqlite3_mprintf("%z%s%.*s", z, zSep, pVal->t.n, pVal->t.z);
    }
    if( z==0 ) p->rc = SQLITE_NOMEM;
    bAny = 1;
  }
  if( z && z[0]==0 ){
    sqlite3_free(z);
    z = 0;
  }
  return z;
}

/*
** The call has a request: say what it is for.
*/
static void cqClaimRequest(CqOp *p, const CqClaim *pC){
  char *z;
  if( p->pReq==0 ) return;
  assert( pC->pDef->bWrites && pC->pDef->xRows );
  z = cqClaimScope(p, pC);
  claimqRequestFor(p, pC->pDef->zName, claimqStr(z), pC->owner);
  sqlite3_free(z);
}

/*
** What a claim remembers: a JSON array of its claim ids.  A row without a claim
** id (a reclaim that ended the job) is remembered by its outcome, which stands
** in its first column.
*/
static void cqClaimAnswer(CqOp *p, CqTask *pTask){
  CqClaim *pC = (CqClaim*)pTask;
  int iClaim = pC->pRows->nCol-CQ_NCLAIMCOL;
  CqText last = {0, 0};
  char *z = sqlite3_mprintf("[");
  int i;
  for(i=0; z && i<pC->pRows->nRow; i++){
    CqCell *a = claimqRow(pC->pRows, i);
    CqText id = claimqCellGetText(&a[iClaim]);
    if( id.z==0 ) id = claimqCellGetText(&a[0]);
    if( claimqTextEq(id, last) ) continue;
    z = sqlite3_mprintf("%z%s\"%.*s\"", z, last.z ? "," : "", id.n, id.z);
    last = id;
  }
  if( z ) z = sqlite3_mprintf("%z]", z);
  if( z==0 ) p->rc = SQLITE_NOMEM;
  claimqRequestAnswer(p, claimqStr(z), 0);
  sqlite3_free(z);
}

/*
** The claim was made before: the rows that it still holds.
*/
static void cqClaimReplay(CqOp *p, CqTask *pTask){
  CqClaim *pC = (CqClaim*)pTask;
  CqText json;
  CqJson j;
  pC->pRows->nRow = 0;
  json.z = p->pReq->zAnswer;
  json.n = p->pReq->nAnswer;
  claimqJsonInit(&j, json);
  if( claimqJsonNext(&j)!=CQ_JSON_ARRAY ) return;
  while( p->rc==SQLITE_OK && claimqJsonNext(&j)==CQ_JSON_STRING ){
    if( memchr(j.tok.z, ':', (size_t)j.tok.n) ){
      pC->pDef->xRows(p, pC, j.tok);
    }else{
      CqCell *a = claimqRowsAdd(p, pC->pRows);
      if( a ) claimqCellText(p, pC->pRows, &a[0], j.tok);
    }
  }
}

/**************************************************************************
** One call
*/

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
  c.task.xAnswer = cqClaimAnswer;
  c.task.xReplay = cqClaimReplay;
  c.task.zWhat = pDef->zName;
  c.pDef = pDef;
  c.aArg = aArg;
  c.pRows = pRows;
  cqClaimArgs(&c, nLimit);
  if( pDef->xArgs ) pDef->xArgs(p, &c);
  cqClaimRequest(p, &c);
  if( pDef->bWrites ) claimqRun(p, &c.task);
  else if( p->rc==SQLITE_OK ) cqClaimLoad(p, &c.task);
  if( pDef->xDone ) pDef->xDone(&c);
  claimqIdsClear(&c.ids);
  claimqRequestEnd(p);
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
  i64 n;
  assert( nRow>0 );
  n = claimqExec(p, pStmt);
  if( p->rc==SQLITE_OK && n!=nRow ) claimqStale(p, &pC->task);
}
