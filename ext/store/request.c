/*
** request.c: calls that can be repeated.
**
** An answer can be lost: to a timeout on the way, or with a process that is
** killed just after its COMMIT.  A caller that gives a call a
** `request`, a text of its own choice, can make the call again and gets the
** same answer; nothing is done twice.
**
**     SELECT claimq_submit('mail', 'hello', 'request', 'r-1');     -- 7
**     SELECT claimq_submit('mail', 'hello', 'request', 'r-1');     -- 7 again
**
** The first call remembers its answer in claimq_request, in the transaction in
** which it acts.  For a claim it remembers the claim ids, and a repeat gives
** the rows that these claims still hold.  A claim that took nothing is not
** remembered, nor is a call that raised an error.
**
** A request belongs to one call: the function, its first argument (the scope;
** for a verb the claim id) and the owner, if there is one.  Using it for
** another call raises request_reused.  Answers are kept for at least a day:
** each call that adds one removes up to two that are older.
**
** claimqRun() calls claimqRequestFind() before a task loads and
** claimqRequestKeep() after it has written.  A call without a request is not
** touched by any of this.
*/
#include "claimq_int.h"

#define CQ_REQUEST_MS ((i64)24*3600*1000)

/*
** The call has the request t.  Raises bad_argument if that is empty.
*/
CQ_PRIV void claimqRequestBegin(CqOp *p, CqText t){
  if( t.n==0 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "request must be a text of 1 to 255 bytes");
  }
  assert( p->pReq==0 || p->pReq->zScope==0 );
  sqlite3_free(p->pReq);
  p->pReq = claimqMalloc(p, sizeof(CqRequest));
  if( p->pReq ) p->pReq->request = t;
}

/*
** Free what is known of the request.
*/
CQ_PRIV void claimqRequestEnd(CqOp *p){
  if( p->pReq ){
    sqlite3_free(p->pReq->zScope);
    sqlite3_free(p->pReq);
    p->pReq = 0;
  }
}

/*
** What the request is for: a function or claim table, its scope, the owner.
*/
CQ_PRIV void claimqRequestFor(
  CqOp *p, const char *zFunc, CqText scope, CqText owner
){
  CqRequest *pReq = p->pReq;
  if( p->rc ) return;
  pReq->zFunc = zFunc;
  pReq->owner = owner;
  sqlite3_free(pReq->zScope);
  pReq->zScope = 0;
  if( scope.z ) pReq->zScope = claimqTextDup(p, scope);
  pReq->nScope = scope.n;
}

/*
** The call has a request: say what it is for.  The first argument, if it has
** one, is its scope.  (Only integers may be given as REAL: 7.0 is the key 7.)
*/
CQ_PRIV void claimqRequestCall(CqOp *p, const CqCall *pCall){
  CqText scope = {0, 0}, none = {0, 0};
  if( p->pReq==0 || p->rc ) return;
  if( pCall->pDef->nArg>0 ){
    sqlite3_value *pKey = pCall->apVal[0];
    if( sqlite3_value_type(pKey)==SQLITE_FLOAT ){
      scope.n = claimqI64Text(sqlite3_value_int64(pKey), p->pReq->zKey);
      scope.z = p->pReq->zKey;
    }else{
      scope = claimqTextOrNull(p, pKey);
    }
  }
  claimqRequestFor(p, pCall->pDef->zName, scope, none);
}

static CqText cqRequestScope(const CqRequest *pReq){
  CqText t;
  t.z = pReq->zScope;
  t.n = pReq->nScope;
  return t;
}

/*
** The answer that pS stands on becomes that of the task.
*/
static void cqRequestAnswer(CqOp *p, const CqStmt *pS, CqTask *pTask){
  int eType = claimqColType(pS, CQ_COL_REQUEST_FIND_answer);
  sqlite3_free(pTask->zAnswer);
  pTask->zAnswer = 0;
  pTask->zWord = 0;
  pTask->bNull = eType==SQLITE_NULL;
  pTask->iAnswer = claimqColInt(pS, CQ_COL_REQUEST_FIND_answer);
  if( eType==SQLITE_TEXT ){
    pTask->zAnswer = claimqTextDup(p,
        claimqColText(p, pS, CQ_COL_REQUEST_FIND_answer));
  }
}

/*
** 1 if the request was made before: the task has the answer then.  0 if it was
** not, or op gets an error: request_reused if it was made for something else.
*/
CQ_PRIV int claimqRequestFind(CqOp *p, CqTask *pTask){
  CqRequest *pReq = p->pReq;
  CqStmt s;
  assert( p->rc==SQLITE_OK );
  assert( pReq->zFunc && pReq->request.n>0 );
  s = claimqStmt(p, CQ_SQL_REQUEST_FIND);
  claimqBindText(p, &s, CQ_REQUEST_FIND_request, pReq->request);
  if( claimqStep(p, &s) ){
    CqText func = claimqColText(p, &s, CQ_COL_REQUEST_FIND_func);
    if( !claimqTextEq(func, claimqStr(pReq->zFunc))
     || !claimqTextEq(claimqColText(p, &s, CQ_COL_REQUEST_FIND_scope),
                      cqRequestScope(pReq))
     || !claimqTextEq(claimqColText(p, &s, CQ_COL_REQUEST_FIND_owner),
                      pReq->owner)
    ){
      claimqFail(p, CQ_REQUEST_REUSED, "request '%.*s' was used for another "
          "call, of %.*s: give each call a request of its own",
          claimqShown(pReq->request), pReq->request.z, func.n, func.z);
    }else{
      cqRequestAnswer(p, &s, pTask);
      pReq->bReplay = p->rc==SQLITE_OK;
    }
  }
  claimqStmtDone(p, &s);
  return pReq->bReplay;
}

/*
** Forget at most nMax answers that are older than a day.  Returns how many.
*/
CQ_PRIV i64 claimqRequestForget(CqOp *p, i64 nMax){
  CqStmt s = claimqStmt(p, CQ_SQL_REQUEST_FORGET);
  claimqBindInt(p, &s, CQ_REQUEST_FORGET_before, claimqNow(p)-CQ_REQUEST_MS);
  claimqBindInt(p, &s, CQ_REQUEST_FORGET_limit, nMax);
  return claimqExec(p, &s);
}

/*
** 1 if there are any.
*/
CQ_PRIV int claimqRequestOld(CqOp *p){
  CqStmt s = claimqStmt(p, CQ_SQL_REQUEST_OLD);
  int bAny;
  claimqBindInt(p, &s, CQ_REQUEST_OLD_before, claimqNow(p)-CQ_REQUEST_MS);
  bAny = claimqStep(p, &s);
  claimqStmtDone(p, &s);
  return bAny;
}

/*
** Remember the task's answer, in the transaction in which the call has acted.
*/
CQ_PRIV void claimqRequestKeep(CqOp *p, const CqTask *pTask){
  CqRequest *pReq = p->pReq;
  const char *zText = pTask->zAnswer ? pTask->zAnswer : pTask->zWord;
  CqStmt s;
  if( p->rc ) return;
  assert( !pReq->bReplay && p->bWrote );
  assert( pTask->zAnswer==0 || pTask->zWord==0 );
  s = claimqStmt(p, CQ_SQL_REQUEST_KEEP);
  claimqBindText(p, &s, CQ_REQUEST_KEEP_request, pReq->request);
  claimqBindText(p, &s, CQ_REQUEST_KEEP_func, claimqStr(pReq->zFunc));
  claimqBindText(p, &s, CQ_REQUEST_KEEP_scope, cqRequestScope(pReq));
  claimqBindText(p, &s, CQ_REQUEST_KEEP_owner, pReq->owner);
  claimqBindInt(p, &s, CQ_REQUEST_KEEP_now, claimqNow(p));
  if( zText || pTask->bNull ){
    claimqBindText(p, &s, CQ_REQUEST_KEEP_answer, claimqStr(zText));
  }else{
    claimqBindInt(p, &s, CQ_REQUEST_KEEP_answer, pTask->iAnswer);
  }
  claimqExec(p, &s);
  claimqRequestForget(p, 2);
}
