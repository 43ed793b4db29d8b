/*
** claim.c: the claim engine, the same for every claim table.
**
**     SELECT job_id, payload, claim_id FROM claimq_lane('mail', 'worker-a');
**
** The life of a claim.  The virtual table has read the arguments by the table's
** definitions.  Here those that every claim table has (owner, incarnation,
** lease_ms, max) are taken out by their roles, and the rest is left to the
** table's own functions:
**
**     xArgs    reads the table's own arguments
**     xNext    loads what comes next and decides how much of it is taken; the
**              rows are materialised with the lease they will get
**     xTidy    puts the indexes in order, if xNext asked for it
**     xStamp   writes the lease to the rows, in one statement
**     xDone    frees
**
** The claims given as `done` are completed first, in the same transaction.
**
** claimqRun() of txn.c decides when and under which lock xNext and xStamp run,
** and runs both again if somebody was faster.
*/
#include "claimq_int.h"

/*
** xNext, or xNone if the claim may take nothing.
*/
static void cqClaimNext(CqOp *p, CqClaim *pC){
  void (*xNext)(CqOp*, CqClaim*) = pC->nMax>0 ? pC->pDef->xNext
                                              : pC->pDef->xNone;
  if( xNext ) xNext(p, pC);
}

/*
** What the claim would take.  A table that looks at the time looks again if the
** settings of the database turn out to have changed while it was read.  Raises
** clock_required; else op has the error of xNext, and the caller throws pRows
** away.
*/
static void cqClaimLoad(CqOp *p, CqTask *pTask){
  CqClaim *pC = (CqClaim*)pTask;
  int mSettings;
  if( !pC->bTime ){
    pC->pDef->xNext(p, pC);
    return;
  }
  do{
    pC->pRows->nRow = 0;
    pC->ids.n = 0;
    pC->bUpkeep = pC->bTidy = 0;
    pTask->eNeed = CQ_NEED_NOTHING;
    claimqNow(p);
    mSettings = p->pConn->mSettings;
    if( p->rc==SQLITE_OK ) cqClaimNext(p, pC);
    claimqNow(p);
    /* The settings were changed meanwhile: look again. */
  }while( p->rc==SQLITE_OK && claimqSettings(p)!=mSettings );
  pTask->bNoKeep = pC->bUpkeep || pC->pRows->nRow==0;
}

/*
** xApply: upkeep, unless only one write is possible here, and then the lease.
** Whatever fails is undone with the task.
*/
static void cqClaimApply(CqOp *p, CqTask *pTask){
  CqClaim *pC = (CqClaim*)pTask;
  assert( pC->pDef->bWrites && pC->pDef->xStamp );
  assert( pTask->eNeed!=CQ_NEED_NOTHING && p->rc==SQLITE_OK );
  if( (pTask->eNeed==CQ_NEED_TIDY || pC->bTidy) && !pTask->bAlone ){
    pC->pDef->xTidy(p, pC);
  }
  pC->pDef->xStamp(p, pC);
  pTask->bNoKeep = pC->bUpkeep || pC->pRows->nRow==0;
}

/*
** xLoad of a claim that completes others first: it may take what those free.
** So everything is done in xApply.
*/
static void cqClaimDoneLoad(CqOp *p, CqTask *pTask){
  (void)p;
  pTask->eNeed = ((CqClaim*)pTask)->eDone;
}

/*
** xApply of the same: complete, load, apply.
*/
static void cqClaimDoneApply(CqOp *p, CqTask *pTask){
  CqClaim *pC = (CqClaim*)pTask;
  claimqDoneRun(p, pTask, pC->done);
  pTask->bLocked = sqlite3_txn_state(p->db, CQ_SCHEMA)==SQLITE_TXN_WRITE;
  pTask->eNeed = CQ_NEED_NOTHING;
  if( p->rc==SQLITE_OK ) cqClaimLoad(p, pTask);
  if( p->rc==SQLITE_OK && pTask->eNeed ) cqClaimApply(p, pTask);
  assert( pTask->eNeed!=CQ_NEED_MANY );
  pTask->bNoKeep = 0;             /* Also if nothing was taken */
}

/*
** The claim has a list of what is done.
*/
static void cqClaimDone(CqOp *p, CqClaim *pC){
  pC->eDone = (u8)claimqDoneNeed(p, pC->done, "done");
  if( pC->eDone==CQ_NEED_NOTHING ) return;
  pC->task.xLoad = cqClaimDoneLoad;
  pC->task.xApply = cqClaimDoneApply;
  pC->task.bSure = 1;
}

/**************************************************************************
** Requests: what a claim remembers, and how it is repeated
*/

/*
** The scope of the call: its scope arguments from the last to the first, joined
** by slashes, without those at the end that are NULL: `s`, `0/leader`, `lane`,
** `lane/mail`, `/mail`.  (The first can have slashes itself.)  A NULL and an
** empty text are two scopes.  The caller frees z, which is 0 if all of the
** arguments are NULL, or there is no memory.
*/
static CqText cqClaimScope(CqOp *p, const CqClaim *pC){
  sqlite3_str *pStr = sqlite3_str_new(p->db);
  CqText t = {0, 0};
  int i, nSlash = 0, bAny = 0;
  for(i=pC->pDef->nArg-1; i>=0; i--){
    const CqVal *pVal = &pC->aArg[i];
    if( pC->pDef->aArg[i].eRole!=CQ_ROLE_SCOPE ) continue;
    if( pVal->bGiven || pC->pDef->aArg[i].bDefault ){
      bAny = 1;
      sqlite3_str_appendchar(pStr, nSlash, '/');
      nSlash = 0;
      if( pC->pDef->aArg[i].eType==CQ_T_INT ){
        sqlite3_str_appendf(pStr, "%lld", pVal->i);
      }else{
        sqlite3_str_append(pStr, pVal->t.z, pVal->t.n);
      }
    }
    nSlash++;
  }
  t.n = sqlite3_str_length(pStr);
  t.z = claimqStrFinish(p, pStr);
  if( !bAny ){
    sqlite3_free((char*)t.z);
    t.z = 0;
  }
  return t;
}

/*
** The call has a request: say what it is for.
*/
static void cqClaimRequest(CqOp *p, const CqClaim *pC){
  CqText scope;
  if( p->pReq==0 || p->rc ) return;
  assert( pC->pDef->bWrites && pC->pDef->xRows );
  scope = cqClaimScope(p, pC);
  claimqRequestFor(p, pC->pDef->zName, scope, pC->owner);
  sqlite3_free((char*)scope.z);
}

/*
** The claim that row i displaced; z==0 if none.  (If a damaged row has
** something else than a claim id, that is not remembered.)
*/
static CqText cqClaimPrevious(const CqClaim *pC, int i){
  int iClaim = pC->pRows->nCol-CQ_NCLAIMCOL;
  CqCell *a = claimqRow(pC->pRows, i);
  CqText t = claimqCellGetText(&a[iClaim+CQ_CLAIM_PREVIOUS]);
  i64 iHead, iFence;
  if( t.z && !claimqClaimIdParse(t, pC->pDef->zPrefix, &iHead, &iFence) ){
    t.z = 0;
  }
  return t;
}

/*
** The claims that rows iFirst up to iEnd displaced, as a JSON array.  Its last
** element stands for the rows that remain; if there are none, there is no
** array.
*/
static void cqClaimAnswerPrevious(
  const CqClaim *pC, sqlite3_str *pStr, int iFirst, int iEnd
){
  int i, n = iEnd-1;
  while( n>iFirst
      && claimqTextEq(cqClaimPrevious(pC, n), cqClaimPrevious(pC, n-1)) ) n--;
  if( n==iFirst && cqClaimPrevious(pC, n).z==0 ) return;
  for(i=iFirst; i<=n; i++){
    CqText t = cqClaimPrevious(pC, i);
    sqlite3_str_appendall(pStr, i==iFirst ? ",[" : ",");
    if( t.z ) sqlite3_str_appendf(pStr, "\"%.*s\"", t.n, t.z);
    else sqlite3_str_appendall(pStr, "null");
  }
  sqlite3_str_appendall(pStr, "]");
}

/*
** Does the row show a claim that this call did not make?
*/
static int cqClaimShows(const CqClaim *pC, const CqCell *a){
  return pC->pDef->bShows
      && !claimqTextEq(claimqCellGetText(&a[0]), claimqStr("claimed"));
}

/*
** What a claim remembers: a JSON array of its claim ids, each with the claims
** that its rows displaced, if any: ["qwc:4:2",["qwc:4:1",null],"qwc:9:1"].  A
** row without a claim id (a reclaim that ended the job) is remembered by its
** outcome, which stands in its first column; so is one that shows the claim of
** another (a contest).
*/
static void cqClaimAnswer(CqOp *p, CqTask *pTask){
  CqClaim *pC = (CqClaim*)pTask;
  int iClaim = pC->pRows->nCol-CQ_NCLAIMCOL;
  sqlite3_str *pStr;
  int i, iEnd;
  if( p->rc ) return;
  pStr = sqlite3_str_new(p->db);
  sqlite3_str_appendall(pStr, "[");
  for(i=0; i<pC->pRows->nRow; i=iEnd){
    CqCell *a = claimqRow(pC->pRows, i);
    CqText id = claimqCellGetText(&a[iClaim]);
    for(iEnd=i+1; id.z && iEnd<pC->pRows->nRow; iEnd++){
      a = claimqRow(pC->pRows, iEnd);
      if( !claimqTextEq(id, claimqCellGetText(&a[iClaim])) ) break;
    }
    a = claimqRow(pC->pRows, i);
    if( id.z==0 || cqClaimShows(pC, a) ) id = claimqCellGetText(&a[0]);
    sqlite3_str_appendf(pStr, "%s\"%.*s\"", i==0 ? "" : ",", id.n, id.z);
    cqClaimAnswerPrevious(pC, pStr, i, iEnd);
  }
  sqlite3_str_appendall(pStr, "]");
  sqlite3_free(pTask->zAnswer);
  pTask->zAnswer = claimqStrFinish(p, pStr);
}

/*
** The rows from iFirst on are those of the claim id, and its array of displaced
** claims comes next in the answer: fill them in.  (A contest whose claim is
** gone shows the claim of another.)
*/
static void cqClaimReplayPrevious(
  CqOp *p, CqClaim *pC, CqJson *pJ, CqText id, int iFirst
){
  int iClaim = pC->pRows->nCol-CQ_NCLAIMCOL;
  int i, bMore = 1;
  CqText last = {0, 0};
  for(i=iFirst; i<pC->pRows->nRow || bMore; i++){
    if( bMore ){
      int e = claimqJsonNext(pJ);
      bMore = e>CQ_JSON_CLOSE;
      if( bMore ) last = pJ->tok;
      if( e==CQ_JSON_WORD ) last.z = 0;
    }
    if( i<pC->pRows->nRow ){
      CqCell *a = &claimqRow(pC->pRows, i)[iClaim];
      if( !claimqTextEq(id, claimqCellGetText(a)) ) continue;
      claimqCellText(p, pC->pRows, &a[CQ_CLAIM_PREVIOUS], last);
    }
  }
}

/*
** The claim was made before: the rows that it still holds.
*/
static void cqClaimReplay(CqOp *p, CqTask *pTask){
  CqClaim *pC = (CqClaim*)pTask;
  CqText id = {0, 0};
  CqJson j;
  int e, iFirst = 0;
  assert( p->pReq && pC->pDef->xRows );
  pC->pRows->nRow = 0;
  if( pTask->zAnswer==0 ) return;
  claimqJsonInit(&j, claimqStr(pTask->zAnswer));
  if( claimqJsonNext(&j)!=CQ_JSON_ARRAY ) return;
  while( p->rc==SQLITE_OK ){
    e = claimqJsonNext(&j);
    if( e==CQ_JSON_ARRAY ){
      cqClaimReplayPrevious(p, pC, &j, id, iFirst);
      continue;
    }
    if( e!=CQ_JSON_STRING ) break;
    iFirst = pC->pRows->nRow;
    id = j.tok;
    if( pC->pDef->bShows || memchr(id.z, ':', (size_t)id.n) ){
      pC->pDef->xRows(p, pC, id);
    }else{
      CqCell *a = claimqRowsAdd(p, pC->pRows);
      if( a ) claimqCellText(p, pC->pRows, &a[0], id);
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
  pC->nMax = pC->nLimit = nLimit;
  for(i=0; i<pC->pDef->nArg; i++){
    const CqVal *pVal = &pC->aArg[i];
    switch( pC->pDef->aArg[i].eRole ){
      case CQ_ROLE_NOW:         pC->bTime = 1;              break;
      case CQ_ROLE_OWNER:       pC->owner = pVal->t;        break;
      case CQ_ROLE_INCARNATION: pC->incarnation = pVal->t;  break;
      case CQ_ROLE_LEASE:       pC->iLease = pVal->i;       break;
      case CQ_ROLE_DONE:        pC->done = pVal->t;         break;
      case CQ_ROLE_MAX:
        if( pVal->i<nLimit ) pC->nMax = pVal->i;
        break;
    }
  }
}

/*
** Run the claim.  It goes through the gate unless the last claim found nothing:
** then this one may find nothing either, and needs no lock.
*/
static void cqClaimRun(CqOp *p, CqClaim *pC){
  CqConn *pConn = p->pConn;
  int bGate = pC->task.bSure || pConn->bLockFirst || pConn->gate.bTook;
  bGate = bGate && claimqGateEnter(pConn);
  if( pC->task.bSure ) claimqTxnCheckpoint(pConn);
  claimqRun(p, &pC->task);
  if( bGate ) claimqGateLeave(pConn, CQ_CALL_CLAIM);
  pConn->gate.bTook = pC->pRows->nRow>0;
}

/*
** One call of a claim table.  The rows are in pRows afterwards; op has the
** error if there is one.  A table that only looks runs xNext and no more.
*/
CQ_PRIV void claimqClaim(
  CqOp *p, const CqTableDef *pDef, const CqVal *aArg, i64 nLimit, CqRows *pRows
){
  CqClaim c;
  assert( p->rc==SQLITE_OK );
  assert( nLimit>=0 && pRows->nRow==0 && pRows->nCol>0 );
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
  if( c.done.z ) cqClaimDone(p, &c);
  cqClaimRequest(p, &c);
  if( pDef->bWrites ) cqClaimRun(p, &c);
  else cqClaimLoad(p, &c.task);
  if( pDef->xDone ) pDef->xDone(&c);
  claimqIdsClear(&c.ids);
  sqlite3_free(c.task.zAnswer);
}

/*
** For xNext: what the claim needs, now that pRows holds what it takes.
** Stamping several rows may have to be undone, if one of them turns out to be
** gone: also where there is upkeep.
*/
CQ_PRIV void claimqClaimNeed(CqClaim *pC, int bTidy){
  int n = pC->pRows->nRow;
  pC->bTidy = (u8)bTidy;
  pC->task.eNeed = n==0 ? CQ_NEED_NOTHING
                 : n>1 ? CQ_NEED_UNDO
                 : bTidy ? CQ_NEED_TIDY : CQ_NEED_ONE;
}

/*
** For xStamp: run the stamping statement, which must change nRow rows, and give
** it back.  Raises what claimqStale() does if it changes fewer.
*/
CQ_PRIV void claimqClaimStamp(CqOp *p, CqClaim *pC, CqStmt *pStmt, i64 nRow){
  i64 n;
  assert( nRow>0 && pC->pDef->bWrites );
  n = claimqExec(p, pStmt);
  if( p->rc==SQLITE_OK && n!=nRow ) claimqStale(p, &pC->task);
}
