/*
** txn.c: taking the lock inside a statement; all or nothing.
**
** Every operation that may write is a CqTask: xLoad reads and decides, xApply
** writes.  What must hold, whatever statement claimq is called from:
**
**   *  what xLoad saw is still true when xApply writes;
**   *  in autocommit the write lock is waited for, by the user's own busy
**      handler;
**   *  an operation that finds nothing to write takes no write lock;
**   *  a fault leaves nothing behind.
**
** SQLite waits for a lock only when a transaction starts, never when a reader
** becomes a writer.  But a reader that does become a writer is known to have
** read the newest state.  So the first try is optimistic: read, then write in
** the same transaction.  If that meets SQLITE_BUSY, the read transaction is
** given up, the lock is taken first, waiting, and the task loads again.
**
** How "the same transaction" is had, and how it is given up, depends on where
** the call stands; main is the state of the main database at entry:
**
**   autocommit  main     called from    what is done
**   ----------  -------  -------------  ----------------------------------
**   no          unread   anything       lock first: it waits only now
**   no          read     anything       load, apply; BUSY goes to the caller
**   yes         read     anything       the same: an outer statement reads
**                                       main and cannot be made to let go
**   yes         unread   xFilter        load: the outer SELECT keeps main in
**                                       that read transaction; apply.  BUSY:
**                                       return SQLITE_SCHEMA, and
**                                       sqlite3_step() starts the statement
**                                       over; the second time lock first
**   yes         unread   a function     SAVEPOINT, load, apply, RELEASE; BUSY:
**                                       roll back, and again with lock first
**
** A task of one write needs no savepoint where a transaction is open anyway:
** a statement is atomic.  Inside a writing statement no savepoint can be had
** (SAVEPOINT answers SQLITE_BUSY); there a task of several writes is refused
** as nested_write before it has written.  A write that is only upkeep is left
** out instead: xApply looks at op.bAlone.
**
** The lock is taken by an UPDATE with WHERE 0, not by BEGIN IMMEDIATE, which
** would lock attached databases as well.
*/
#include "claimq_int.h"

static int cqIsBusy(const CqOp *p){
  return (p->rc & 0xff)==SQLITE_BUSY;
}

static void cqTxnStmt(CqOp *p, int eStmt){
  claimqExec(p, eStmt, claimqStmt(p, eStmt));
}

/*
** Before SQLite 3.39 every sqlite3_step() is refused once an allocation has
** failed, until the outermost statement ends: also that of ROLLBACK.  But a
** statement that is under way and reads then makes SQLite roll back by itself
** when it is reset.  So one is kept under way.  It reads temp: to have read
** main would forbid to wait for the lock.
*/
static void cqTxnGuard(CqOp *p){
  if( sqlite3_libversion_number()>=3039000 ) return;
  p->pGuard = claimqStmt(p, CQ_SQL_TXN_GUARD);
  claimqStep(p, p->pGuard);
}

static void cqTxnUnguard(CqOp *p, int bStrike){
  if( p->pGuard && bStrike ) sqlite3_step(p->pGuard);
  claimqStmtDone(p, CQ_SQL_TXN_GUARD, p->pGuard);
  p->pGuard = 0;
}

/*
** Undo what happened since SAVEPOINT, keeping op's error.
**
** After sqlite3_interrupt() no statement runs until the outer one ends, so
** ROLLBACK TO fails.  But an interrupted *write* makes SQLite roll the whole
** transaction back; the lock statement is one.  That is what is wanted when
** the savepoint is the transaction (bWhole), and all that can be done when it
** is not.
*/
static void cqTxnUndo(CqOp *p, int bWhole){
  CqOp undo;
  claimqOpInit(&undo, p->pConn);
  cqTxnStmt(&undo, CQ_SQL_TXN_ROLLBACK);
  cqTxnStmt(&undo, CQ_SQL_TXN_RELEASE);
  cqTxnUnguard(p, undo.rc==SQLITE_NOMEM);
  if( undo.rc==SQLITE_INTERRUPT || (bWhole && !sqlite3_get_autocommit(p->db)) ){
    claimqOpReset(&undo);
    cqTxnStmt(&undo, p->bInit ? CQ_SQL_INIT_LOCK : CQ_SQL_TXN_LOCK);
    if( bWhole && !sqlite3_get_autocommit(p->db) ){
      claimqOpReset(&undo);
      cqTxnStmt(&undo, CQ_SQL_TXN_ABANDON);
    }
  }
  claimqOpClear(&undo);
}

/*
** Have statements prepared anew?  SQLite marks all of a connection as expired
** at once (an index was made, an authorizer set, ...), and prepares each again
** when it is next run: so one that does nothing tells it of all.
*/
static int cqTxnExpired(CqOp *p){
  int bNew = p->pConn->apStmt[CQ_SQL_TXN_PROBE]==0;
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_TXN_PROBE);
  claimqStep(p, pStmt);
  if( pStmt && sqlite3_stmt_status(pStmt, SQLITE_STMTSTATUS_REPREPARE, 1) ){
    bNew = 1;
  }
  claimqStmtDone(p, CQ_SQL_TXN_PROBE, pStmt);
  return bNew;
}

/*
** Have the statements ready that end a savepoint: once it is open, neither
** running out of memory nor an interrupt must keep them from being prepared.
*/
static void cqTxnReady(CqOp *p){
  const int aStmt[] = {
    CQ_SQL_TXN_RELEASE, CQ_SQL_TXN_ROLLBACK, CQ_SQL_TXN_ABANDON,
    p->bInit ? CQ_SQL_INIT_LOCK : CQ_SQL_TXN_LOCK
  };
  const int nStmt = (int)(sizeof(aStmt)/sizeof(aStmt[0]));
  sqlite3_stmt **apStmt = p->pConn->apStmt;
  int i, bNew;
  if( p->rc ) return;
  bNew = cqTxnExpired(p);
  for(i=0; i<nStmt; i++){
    sqlite3_stmt *pOld = apStmt[aStmt[i]];
    if( pOld && !bNew ) continue;
    apStmt[aStmt[i]] = 0;
    claimqStmtDone(p, aStmt[i], claimqStmt(p, aStmt[i]));
    if( apStmt[aStmt[i]] ){
      sqlite3_finalize(pOld);
    }else{
      apStmt[aStmt[i]] = pOld;    /* SQLite may prepare it when it is run */
    }
  }
}

/*
** CREATE INDEX makes all prepared statements expire, and after an interrupt,
** or when memory ran out inside a statement, SQLite prepares none until the
** outermost one ends: then nothing could undo the savepoint.  But a *write*
** that is under way when this happens makes SQLite roll back everything.  So
** one is kept under way.  Returns it, 0 if op has an error or gets one here.
*/
CQ_PRIV sqlite3_stmt *claimqTxnGuard(CqOp *p){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_INIT_GUARD);
  if( claimqStep(p, pStmt) ) return pStmt;
  claimqStmtDone(p, CQ_SQL_INIT_GUARD, pStmt);
  return 0;
}

/*
** End the guard, when the statements that end a savepoint are ready again.
*/
CQ_PRIV void claimqTxnUnguard(CqOp *p, sqlite3_stmt *pStmt){
  int rc;
  cqTxnReady(p);
  if( pStmt==0 ) return;
  rc = sqlite3_step(pStmt);
  if( rc!=SQLITE_DONE ) claimqFailRc(p, rc);
  claimqStmtDone(p, CQ_SQL_INIT_GUARD, pStmt);
}

/*
** Without the index things go on, only slower: an authorizer that forbids to
** change the schema is no reason to fail.
*/
CQ_PRIV void claimqMakeIndex(CqOp *p, int eStmt){
  int nWrite = p->nWrite;
  sqlite3_stmt *pGuard = claimqTxnGuard(p);
  claimqExecSql(p, claimqSql[eStmt].zSql);
  if( p->rc==SQLITE_AUTH ){
    claimqOpReset(p);
    p->nWrite = nWrite;
  }
  claimqTxnUnguard(p, pGuard);
}

/*
** Open a savepoint: 1.  0 if there can be none (a writing statement is under
** way) or op has an error.
*/
static int cqTxnOpen(CqOp *p){
  int bAuto = sqlite3_get_autocommit(p->db);
  int nWrite = p->nWrite;
  cqTxnReady(p);
  if( p->rc ) return 0;
  cqTxnGuard(p);
  cqTxnStmt(p, CQ_SQL_TXN_SAVEPOINT);
  if( cqIsBusy(p) ){
    cqTxnUnguard(p, 0);
    claimqOpReset(p);
    p->nWrite = nWrite;
    return 0;
  }
  /* A progress handler may stop the statement after it has done its work. */
  if( p->rc && bAuto && !sqlite3_get_autocommit(p->db) ) cqTxnUndo(p, 1);
  if( p->rc ) cqTxnUnguard(p, 0);
  return p->rc==SQLITE_OK;
}

/*
** Release the savepoint, or undo it if op has an error or gets one here.  An
** interrupt that strikes when the commit is done changes nothing any more: an
** interrupted RELEASE that did not commit leaves the transaction open.
*/
static void cqTxnClose(CqOp *p, int bWhole){
  int bGood = p->rc==SQLITE_OK;
  cqTxnStmt(p, CQ_SQL_TXN_RELEASE);
  if( bGood && bWhole && p->rc==SQLITE_INTERRUPT
   && sqlite3_get_autocommit(p->db)
  ){
    claimqOpReset(p);
  }
  if( p->rc ) cqTxnUndo(p, bWhole);
  cqTxnUnguard(p, 0);
}

/*
** Take the write lock of main, waiting if that is possible.  claimq_init()
** cannot rely on any table being there: it makes one and drops it again, in a
** savepoint, or a fault in between would leave it there.  (SQLite refuses the
** DROP while something reads, so there is no guard then.)
*/
static void cqTxnLock(CqOp *p){
  if( !p->bInit ){
    cqTxnStmt(p, CQ_SQL_TXN_LOCK);
    return;
  }
  cqTxnUnguard(p, 0);
  if( cqTxnOpen(p) ){
    cqTxnUnguard(p, 0);
    cqTxnStmt(p, CQ_SQL_INIT_LOCK);
    cqTxnStmt(p, CQ_SQL_INIT_UNLOCK);
    cqTxnClose(p, 0);
  }
}

/*
** Write what was loaded, in the transaction that read it.  In autocommit that
** is a read transaction which an outer statement keeps open: there a savepoint
** of ours is the whole of the writing one.
*/
static void cqTxnApply(CqOp *p, const CqTask *pTask, void *pCtx){
  int bWhole = sqlite3_get_autocommit(p->db);
  if( p->rc || p->nWrite==0 ) return;
  if( p->nWrite==1 ){
    pTask->xApply(p, pCtx);
  }else if( cqTxnOpen(p) ){
    pTask->xApply(p, pCtx);
    cqTxnClose(p, bWhole);
  }else if( p->rc==SQLITE_OK ){
    p->bAlone = 1;
    pTask->xApply(p, pCtx);
  }
}

static void cqTxnLoad(CqOp *p, const CqTask *pTask, void *pCtx){
  if( p->rc ) return;
  p->nWrite = 0;
  pTask->xLoad(p, pCtx);
}

static void cqTxnInside(CqOp *p, const CqTask *pTask, void *pCtx){
  cqTxnLoad(p, pTask, pCtx);
  cqTxnApply(p, pTask, pCtx);
}

/*
** The transaction is ours alone: begin, [lock,] load, apply, commit.  Inside a
** statement that writes to another database there is no savepoint; then the
** lock comes first, and the outer statement commits.  (claimq_init() will be
** refused there if it has anything to do.)
*/
static void cqTxnWhole(CqOp *p, const CqTask *pTask, void *pCtx, int bLock){
  if( cqTxnOpen(p) ){
    if( bLock ) cqTxnLock(p);
    cqTxnLoad(p, pTask, pCtx);
    if( p->rc==SQLITE_OK && p->nWrite ) pTask->xApply(p, pCtx);
    cqTxnClose(p, 1);
  }else if( p->rc==SQLITE_OK ){
    if( !p->bInit ) cqTxnLock(p);
    cqTxnInside(p, pTask, pCtx);
  }
}

/*
** From xFilter in autocommit, main unread.
*/
static void cqTxnFilter(CqOp *p, const CqTask *pTask, void *pCtx){
  if( p->pConn->bLockFirst ){
    p->pConn->bLockFirst = 0;
    cqTxnWhole(p, pTask, pCtx, 1);
    return;
  }
  cqTxnLoad(p, pTask, pCtx);
  if( p->rc || p->nWrite==0 ) return;
  if( CQ_ALWAYS(sqlite3_txn_state(p->db, "main")!=SQLITE_TXN_NONE) ){
    cqTxnApply(p, pTask, pCtx);
  }else{
    p->rc = SQLITE_BUSY;          /* What was loaded may have changed */
  }
  if( cqIsBusy(p) ){
    claimqOpReset(p);
    p->pConn->bLockFirst = 1;
    p->rc = SQLITE_SCHEMA;
  }
}

/*
** From a function in autocommit, main unread.
*/
static void cqTxnFunction(CqOp *p, const CqTask *pTask, void *pCtx){
  cqTxnWhole(p, pTask, pCtx, 0);
  if( cqIsBusy(p) && sqlite3_txn_state(p->db, "main")==SQLITE_TXN_NONE ){
    claimqOpReset(p);
    if( pTask->xForget ) pTask->xForget(pCtx);
    cqTxnWhole(p, pTask, pCtx, 1);
  }
}

CQ_PRIV void claimqRun(CqOp *p, const CqTask *pTask, void *pCtx){
  int eMain;
  if( p->rc ) return;
  claimqNow(p);
  eMain = sqlite3_txn_state(p->db, "main");
  if( eMain!=SQLITE_TXN_NONE ){
    cqTxnInside(p, pTask, pCtx);
  }else if( !sqlite3_get_autocommit(p->db) ){
    cqTxnLock(p);
    cqTxnInside(p, pTask, pCtx);
  }else if( p->bFilter ){
    cqTxnFilter(p, pTask, pCtx);
  }else{
    cqTxnFunction(p, pTask, pCtx);
  }
}

/*
** An xApply of several writes calls this first: nested_write if it stands in
** a writing statement.
*/
CQ_PRIV void claimqNeedScope(CqOp *p, const char *zWhat){
  if( p->bAlone ){
    claimqFail(p, CQ_NESTED_WRITE, "%s needs several writes and was called "
       "inside a writing statement: call it in a SELECT of its own", zWhat);
  }
}
