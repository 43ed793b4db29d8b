/*
** put.c: the put engine: new work is written the same way in every discipline.
**
**     SELECT claimq_submit('mail', '{"to":"ann"}', 'priority', 5);    -- 1
**
** The life of a put.  func.c has read scope, payload and options by the
** definitions of the discipline's put function.  Then
**
**     xPutCheck   checks them, and sets task.xLoad if something must be looked
**                 up before the work can be written: the source key, say
**     xLoad       looks; if the work is there already it sets the key, and
**                 there is nothing to write
**     xPutWrite   writes the work, in one statement, and sets the key
**     xPutDone    frees
**
** claimq_requeue() puts work back through the same functions: it fills in the
** options from what the dead letter remembers (see letter.c).
*/
#include "claimq_int.h"

static void cqPutApply(CqOp *p, CqTask *pTask){
  CqPut *pPut = (CqPut*)pTask;
  pPut->pD->xPutWrite(p, pPut);
}

/*
** Prepare *pPut, whose pD, scope, pPayload and aOpt are set.
*/
static void cqPutBegin(CqOp *p, CqPut *pPut){
  pPut->task.xApply = cqPutApply;
  pPut->task.zWhat = pPut->pD->pPut->zName;
  assert( pPut->pD->xPutCheck && pPut->pD->xPutWrite );
  assert( pPut->pD->pPut->nOpt<=CQ_MAX_OPT && pPut->aOpt && pPut->pPayload );
  if( p->rc==SQLITE_OK ) pPut->pD->xPutCheck(p, pPut);
}

/*
** For xPutWrite: bind the payload.  A text that the function was called with
** stays where it is until that returns, and need not be copied, which saves 1 %
** of a submit.  (A text in UTF-16 would be turned into UTF-8, and might not be
** the same when it comes back.)
*/
CQ_PRIV void claimqPutPayload(CqOp *p, const CqPut *pPut, CqStmt *pS, int i){
  sqlite3_value *pVal = pPut->pPayload;
  if( pPut->bArg && p->pConn->bUtf8
   && sqlite3_value_type(pVal)==SQLITE_TEXT
  ){
    claimqBindText(p, pS, i, claimqValueText(p, pVal));
  }else{
    claimqBindValue(p, pS, i, pVal);
  }
}

/*
** For xPutWrite: bind the parameters of the fragment AVAILABLE.  If the time of
** the call is not known yet the statement adds the delay to it.
*/
CQ_PRIV void claimqPutDue(
  CqOp *p, const CqVal *pAt, const CqVal *pDelay, CqStmt *pS
){
  const unsigned char *aCommon = claimqSql[pS->eStmt].aCommon;
  if( p->bNow || pAt->bGiven ){
    claimqBindInt(p, pS, aCommon[CQ_P_at], claimqDueAt(p, pAt, pDelay));
  }else{
    claimqBindNull(p, pS, aCommon[CQ_P_at]);
  }
  claimqBindInt(p, pS, aCommon[CQ_P_delay], pDelay->bGiven ? pDelay->i : 0);
}

/*
** Put new work as part of another task, which is writing already.  The key is
** the put's answer.  The caller calls claimqPutDone(), even after an error.
*/
CQ_PRIV void claimqPutInside(CqOp *p, CqPut *pPut){
  assert( p->rc || p->bWrote );
  cqPutBegin(p, pPut);
  pPut->task.eNeed = CQ_NEED_ONE;
  if( p->rc==SQLITE_OK && pPut->task.xLoad ){
    pPut->task.eNeed = CQ_NEED_NOTHING;
    pPut->task.xLoad(p, &pPut->task);
  }
  if( p->rc==SQLITE_OK && pPut->task.eNeed ) cqPutApply(p, &pPut->task);
}

/*
** Free what a put holds, even a half-built one.
*/
CQ_PRIV void claimqPutDone(CqPut *pPut){
  if( pPut->pD->xPutDone ) pPut->pD->xPutDone(pPut);
  sqlite3_free(pPut->task.zAnswer);
  pPut->task.zAnswer = 0;
}

/*
** The put function of each discipline: (scope, payload [, option, value]...)
** -> the key of the work.
*/
CQ_PRIV void claimqPutRun(CqOp *p, CqCall *pCall){
  CqPut put;
  int i;
  memset(&put, 0, sizeof(put));
  for(i=0; (put.pD = claimqDiscipline(i))->pPut!=pCall->pDef; i++){
    assert( claimqDiscipline(i+1) );
  }
  put.scope = pCall->aArg[0].t;
  put.pPayload = pCall->apVal[1];
  put.bArg = 1;
  put.aOpt = pCall->aOpt;
  put.bPlain = pCall->nVal==2;
  cqPutBegin(p, &put);
  claimqRun(p, &put.task);
  claimqTaskResult(p, &put.task, pCall->pCtx);
  claimqPutDone(&put);
}
