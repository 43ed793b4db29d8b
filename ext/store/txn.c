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
** The clock is read when the operation has its place among all others: after
** main was read, if nobody can have written since; else after the lock was
** taken.  See cqTxnRead(), and {{NOW}} of sql/lease.sql for the operations that
** are a single statement.
**
** What "the same transaction" is, and how it is given up, depends on where the
** call is made; main is the state of the main database at entry:
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
**                                       over; the second time lock first.
**                                       A task that is sure to write (bSure)
**                                       begins with the lock
**   yes         unread   a function     SAVEPOINT, load, apply, RELEASE; BUSY:
**                                       roll back, and again with lock first
**
** A task says what it needs in order to write what it has loaded (CQ_NEED_*).
** One write needs no savepoint where a transaction is open anyway: a statement
** is atomic.  Inside a writing statement there can be no savepoint (SAVEPOINT
** answers SQLITE_BUSY).  There a task of several writes is refused as
** nested_write before it has written; upkeep is left out; and a write that may
** have to be undone is made, because raising an error then undoes the whole
** outer statement.  That is not so inside the user's own transaction, where
** SQLite keeps no journal for a statement that writes one row: there
** claimqCheckNested() refuses functions that write in the first place, and a
** claim writes inside a statement of claimq's own that has a journal: see
** cqTxnAlone().
**
** The lock is taken by an UPDATE with WHERE 0, not by BEGIN IMMEDIATE, which
** would lock attached databases as well.
**
** A put may find that its tables are not there (CqOp.mMissing).  Then what it
** has done is undone, and it begins again in a savepoint, with their creation:
** see cqTxnMake().
*/
#include "claimq_int.h"

/* See cqTxnWriting(). */
#define CQ_FEW_STMT  16           /* Statements that are looked at */
#define CQ_MANY_WAIT 100          /* Savepoints before the next look */

/* See claimqTxnCheckpoint(): pages until it asks again whether it is to. */
#define CQ_CHECKPOINT 1000

static int cqIsBusy(const CqOp *p){
  return (p->rc & 0xff)==SQLITE_BUSY;
}

/*
** Run one of the statements that have no parameters.
*/
static void cqTxnStmt(CqOp *p, int eStmt){
  CqStmt s = claimqStmt(p, eStmt);
  claimqExec(p, &s);
}

static int cqTxnLockStmt(const CqTask *pTask){
  return pTask->bInit ? CQ_SQL_TXN_INIT_LOCK : CQ_SQL_TXN_LOCK;
}

/*
** Run a statement of a few steps that a progress handler keeps stopping.  At
** which step SQLite asks the handler depends on the steps that the statement
** has taken so far: each try gets further, until it is done.
*/
static void cqTxnInsist(CqOp *p, int eStmt){
  int i;
  for(i=0; i<20; i++){
    cqTxnStmt(p, eStmt);
    if( p->rc!=SQLITE_INTERRUPT ) return;
    claimqOpReset(p);
  }
  cqTxnStmt(p, eStmt);
}

/*
** Undo what happened since SAVEPOINT, keeping op's error.
**
** After sqlite3_interrupt() no statement runs until the outer one ends, so
** ROLLBACK TO fails.  But an interrupted *write*, such as the lock statement,
** makes SQLite roll the whole transaction back.  That is what is wanted when
** the savepoint is the transaction (bWhole), and all that can be done when it
** is not.
*/
static void cqTxnUndo(CqOp *p, const CqTask *pTask, int bWhole){
  CqOp undo;
  claimqOpInit(&undo, p->pConn);
  cqTxnInsist(&undo, CQ_SQL_TXN_ROLLBACK);
  cqTxnStmt(&undo, CQ_SQL_TXN_RELEASE);
  if( undo.rc==SQLITE_INTERRUPT || (bWhole && !sqlite3_get_autocommit(p->db)) ){
    claimqOpReset(&undo);
    cqTxnStmt(&undo, cqTxnLockStmt(pTask));
    if( bWhole && !sqlite3_get_autocommit(p->db) ){
      claimqOpReset(&undo);
      cqTxnStmt(&undo, CQ_SQL_TXN_ABANDON);
    }
  }
  claimqOpClear(&undo);
}

/*
** Must statements be prepared anew?  SQLite marks all statements of a
** connection as expired at once (an index was made, an authorizer set, ...),
** and prepares each again when it is next run: so one statement that does
** nothing tells about all of them.
*/
static int cqTxnExpired(CqOp *p){
  int bNew = p->pConn->apStmt[CQ_SQL_TXN_PROBE]==0;
  CqStmt s = claimqStmt(p, CQ_SQL_TXN_PROBE);
  claimqStep(p, &s);
  if( s.pStmt && sqlite3_stmt_status(s.pStmt, SQLITE_STMTSTATUS_REPREPARE, 1) ){
    bNew = 1;
  }
  claimqStmtDone(p, &s);
  return bNew;
}

/*
** Prepare the statements that end a savepoint: once it is open, neither lack of
** memory nor an interrupt may keep them from being prepared.
*/
static void cqTxnReady(CqOp *p, const CqTask *pTask){
  const int aStmt[] = {
    CQ_SQL_TXN_RELEASE, CQ_SQL_TXN_ROLLBACK, CQ_SQL_TXN_ABANDON,
    cqTxnLockStmt(pTask)
  };
  const int eOther = pTask->bInit ? CQ_SQL_TXN_LOCK : CQ_SQL_TXN_INIT_LOCK;
  sqlite3_stmt **apStmt = p->pConn->apStmt;
  int i, bNew;
  if( p->rc ) return;
  bNew = cqTxnExpired(p);
  if( bNew ){                     /* Nobody will learn that it has expired */
    claimqStmtFree(p->pConn, apStmt[eOther]);
    apStmt[eOther] = 0;
  }
  for(i=0; i<CQ_ARRAYSIZE(aStmt); i++){
    sqlite3_stmt *pOld = apStmt[aStmt[i]];
    CqStmt s;
    if( pOld && !bNew ) continue;
    apStmt[aStmt[i]] = 0;
    s = claimqStmt(p, aStmt[i]);
    claimqStmtDone(p, &s);
    if( apStmt[aStmt[i]] ){
      claimqStmtFree(p->pConn, pOld);
    }else{
      apStmt[aStmt[i]] = pOld;    /* SQLite may prepare it when it is run */
    }
  }
}

/*
** CREATE INDEX makes all prepared statements expire, and after an interrupt, or
** when memory ran out inside a statement, SQLite prepares none until the
** outermost one ends: then nothing could undo the savepoint.  But a *write*
** that is under way when this happens makes SQLite roll back everything.  So
** keep a write under way: *pS, whose pStmt is 0 if op has an error or gets one
** here.
*/
CQ_PRIV void claimqTxnGuard(CqOp *p, CqStmt *pS){
  *pS = claimqStmt(p, CQ_SQL_TXN_INIT_GUARD);
  if( !claimqStep(p, pS) ) claimqStmtDone(p, pS);
}

/*
** End the guard, when the statements that end a savepoint are ready again.
*/
CQ_PRIV void claimqTxnUnguard(CqOp *p, CqTask *pTask, CqStmt *pS){
  cqTxnReady(p, pTask);
  if( pS->pStmt==0 ) return;
  claimqFailRc(p, sqlite3_step(pS->pStmt)==SQLITE_DONE ? SQLITE_OK
                  : sqlite3_errcode(p->db));
  claimqStmtDone(p, pS);
}

/*
** Open a savepoint: 1.  Returns 0 if there can be none (a writing statement is
** under way) or op has an error.
*/
static int cqTxnOpen(CqOp *p, const CqTask *pTask){
  int bAuto = sqlite3_get_autocommit(p->db);
  assert( !p->bOwnTxn || pTask->bInit );
  cqTxnReady(p, pTask);
  if( p->rc ) return 0;           /* Perhaps also SQLITE_BUSY: of the schema */
  cqTxnStmt(p, CQ_SQL_TXN_SAVEPOINT);
  if( cqIsBusy(p) ){
    claimqOpReset(p);
    return 0;
  }
  /* A progress handler may stop the statement after it has done its work. */
  if( p->rc && bAuto && !sqlite3_get_autocommit(p->db) ){
    cqTxnUndo(p, pTask, 1);
  }
  return p->rc==SQLITE_OK;
}

/*
** Release the savepoint, or undo it if op has an error or gets one here.  An
** interrupt that strikes when the commit is done changes nothing any more: an
** interrupted RELEASE that did not commit leaves the transaction open.
*/
static void cqTxnClose(CqOp *p, const CqTask *pTask, int bWhole){
  int bGood = p->rc==SQLITE_OK;
  cqTxnStmt(p, CQ_SQL_TXN_RELEASE);
  if( bGood && bWhole && p->rc==SQLITE_INTERRUPT
   && sqlite3_get_autocommit(p->db)
  ){
    claimqOpReset(p);
  }
  if( p->rc ) cqTxnUndo(p, pTask, bWhole);
}

/*
** Take the write lock of main, waiting if that is possible.  claimq_init()
** cannot rely on any table being there: it makes one and drops it again, in a
** savepoint, or a fault in between would leave it there.
*/
static void cqTxnLock(CqOp *p, const CqTask *pTask){
  if( !pTask->bInit ){
    cqTxnStmt(p, CQ_SQL_TXN_LOCK);
  }else if( cqTxnOpen(p, pTask) ){
    cqTxnStmt(p, CQ_SQL_TXN_INIT_LOCK);
    cqTxnStmt(p, CQ_SQL_TXN_INIT_UNLOCK);
    cqTxnClose(p, pTask, 0);
  }
}

/*
** With journal_mode=OFF SQLite undoes nothing, and a rollback leaves the file
** undefined.  So only a single write is allowed there.
**
** If a journal of either kind is open, the mode is not OFF.  Ask for the mode
** only where none is open: SQLite prepares a PRAGMA again each time it is run,
** which takes half as long as a claim.
*/
static void cqTxnJournal(CqOp *p){
  sqlite3_file *pFile = 0;
  CqStmt s;
  if( p->rc ) return;
  sqlite3_file_control(p->db, CQ_SCHEMA, SQLITE_FCNTL_JOURNAL_POINTER, &pFile);
  if( CQ_ALWAYS(pFile) && pFile->pMethods ) return;
  s = claimqStmt(p, CQ_SQL_TXN_JOURNAL);
  if( claimqStep(p, &s)
   && claimqTextEq(claimqColText(p, &s, CQ_COL_TXN_JOURNAL_journal_mode),
                   claimqStr("off"))
  ){
    claimqFail(p, CQ_UNSUPPORTED, "journal_mode=OFF cannot undo a write, and "
        "this operation may have to: PRAGMA journal_mode=DELETE, or WAL");
  }
  claimqStmtDone(p, &s);
}

/*
** What is needed in all: remembering the answer is one more write, which must
** not stay if the others are undone.
*/
static int cqTxnNeed(const CqTask *pTask){
  if( !pTask->bKeep || pTask->bNoKeep ) return pTask->eNeed;
  return pTask->eNeed>CQ_NEED_UNDO ? pTask->eNeed : CQ_NEED_UNDO;
}

/*
** Write what was loaded, where a savepoint is open or none is needed.
*/
static void cqTxnWrite(CqOp *p, CqTask *pTask){
  int eNeed = cqTxnNeed(pTask);
  if( p->rc || eNeed==CQ_NEED_NOTHING ) return;
  if( !p->pConn->bWritable && (!pTask->bInit || pTask->xMake) ){
    if( pTask->xLoad ) claimqCheckSure(p);
    else claimqCheckWritable(p);
  }
  if( eNeed>=CQ_NEED_UNDO ) cqTxnJournal(p);
  if( p->rc ) return;
  p->bWrote = 1;
  if( pTask->eNeed ) pTask->xApply(p, pTask);
  if( pTask->bKeep && !pTask->bNoKeep ){
    if( pTask->xAnswer ) pTask->xAnswer(p, pTask);
    claimqRequestKeep(p, pTask);
  }
}

/* For sqlite3_bind_pointer(): a task to be written by claimq__alone(). */
#define CQ_ALONE_TYPE "claimq-alone"
typedef struct CqAlone CqAlone;
struct CqAlone {
  CqOp *p;
  CqTask *pTask;
  u8 bDone;
};

/*
** claimq__alone(task) -> 0: write the task, as part of the statement
** TXN_ALONE.  If that fails so does the statement, and SQLite undoes what both
** have done; the error stays in the task's own op.  If anybody else calls it,
** the function does nothing.
*/
static void cqAloneFunc(CqOp *p, CqCall *pCall){
  CqAlone *pA = (CqAlone*)sqlite3_value_pointer(pCall->apVal[0], CQ_ALONE_TYPE);
  if( pA==0 || CQ_NEVER(pA->bDone) ) return;
  assert( pA->p->pConn==p->pConn && pA->pTask->bAlone );
  pA->bDone = 1;
  cqTxnWrite(pA->p, pA->pTask);
  p->rc = pA->p->rc;
  sqlite3_result_int(pCall->pCtx, 0);
}

static const CqArgDef cqAloneArg[] = {
  { CQ_ARG(ANY, "task") },
};

/*
** claimq__gate(enter) -> is the connection inside?  See gate.c.
*/
static void cqGateFunc(CqOp *p, CqCall *pCall){
  sqlite3_result_int(pCall->pCtx,
                     claimqGateTurn(p->pConn, pCall->aArg[0].i!=0));
}

static const CqArgDef cqGateArg[] = {
  { CQ_ARG(INT, "enter"), .mFlag = CQ_A_REQUIRED, .iMax = 1,
    .zDoc = "1: before a transaction; 0: after it" },
};

/*
** The definitions of claimq__alone() and claimq__gate().
*/
CQ_PRIV const CqFuncDef *claimqTxnFuncs(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq__alone", .zDoc = "for statements of claimq's own",
      .eKind = CQ_F_READ, .nMin = 1, .aArg = cqAloneArg,
      .nArg = CQ_ARRAYSIZE(cqAloneArg), .xFunc = cqAloneFunc },
    { .zName = "claimq__gate", .zDoc = "for the packages of claimq",
      .eKind = CQ_F_WAIT, .nMin = 1, .aArg = cqGateArg,
      .nArg = CQ_ARRAYSIZE(cqGateArg), .xFunc = cqGateFunc },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}

/*
** Write inside a writing statement, where there is no savepoint.  In autocommit
** an error undoes that statement, and with it what is written here.  In the
** user's transaction it may not: SQLite keeps a journal only for statements
** that it thinks may fail half-way.  So there the write is made inside a
** statement of claimq's own that has one.
*/
static void cqTxnAlone(CqOp *p, CqTask *pTask, int bWhole){
  CqAlone alone;
  CqOp op;
  CqStmt s;
  assert( p->rc==SQLITE_OK && cqTxnNeed(pTask)!=CQ_NEED_MANY );
  pTask->bAlone = 1;
  if( bWhole || cqTxnNeed(pTask)<CQ_NEED_UNDO ){
    cqTxnWrite(p, pTask);
    return;
  }
  memset(&alone, 0, sizeof(alone));
  alone.p = p;
  alone.pTask = pTask;
  claimqOpInit(&op, p->pConn);
  s = claimqStmt(&op, CQ_SQL_TXN_ALONE);
  claimqBindPointer(&op, &s, CQ_TXN_ALONE_task, &alone, CQ_ALONE_TYPE);
  claimqExec(&op, &s);
  if( p->rc==SQLITE_OK ){
    p->rc = op.rc;
    p->zErr = op.zErr;
    op.zErr = 0;
  }
  claimqOpClear(&op);
}

/*
** Write what was loaded, in the transaction that read it.  In autocommit that
** is a read transaction which an outer statement keeps open: there a savepoint
** of ours is the whole of the writing one.
*/
static void cqTxnApply(CqOp *p, CqTask *pTask){
  int bWhole = sqlite3_get_autocommit(p->db);
  int eNeed = cqTxnNeed(pTask);
  if( p->rc || eNeed<=CQ_NEED_ONE ){
    cqTxnWrite(p, pTask);
  }else if( cqTxnOpen(p, pTask) ){
    cqTxnWrite(p, pTask);
    cqTxnClose(p, pTask, bWhole);
  }else if( p->rc==SQLITE_OK && eNeed==CQ_NEED_MANY ){
    claimqFail(p, CQ_NESTED_WRITE, "%s needs several writes and was called "
       "inside a writing statement: call it in a statement of its own (or "
       "fetch all rows of the statement that is not finished, or reset it)",
       pTask->zWhat);
  }else if( p->rc==SQLITE_OK ){
    cqTxnAlone(p, pTask, bWhole);
  }
}

/*
** Load, unless the call is a repeated one.  The answer of a function is always
** remembered, that of a claim only if it took something.
*/
static void cqTxnLoad(CqOp *p, CqTask *pTask){
  if( p->rc ) return;
  claimqClockForget(p);
  pTask->eNeed = CQ_NEED_NOTHING;
  pTask->bKeep = 0;
  assert( pTask->bInit || pTask->bLocked
       == (sqlite3_txn_state(p->db, CQ_SCHEMA)==SQLITE_TXN_WRITE) );
  if( p->pReq && claimqRequestFind(p, pTask) ){
    if( pTask->xReplay ) pTask->xReplay(p, pTask);
  }else if( pTask->xLoad ){
    pTask->xLoad(p, pTask);
  }else{
    pTask->eNeed = CQ_NEED_ONE;
  }
  pTask->bKeep = p->pReq && !p->pReq->bReplay && p->rc==SQLITE_OK
              && (pTask->eNeed || !p->bFilter);
  assert( !pTask->bKeep || !p->bFilter || pTask->xAnswer );
}

/*
** Load where main was not read before.  The clock may have been read before
** main was, and reading main may have waited for another writer.  If the clock
** has moved on, load again: nobody can have changed what was read, and a job
** that came in between is found.
*/
static void cqTxnRead(CqOp *p, CqTask *pTask){
  cqTxnLoad(p, pTask);
  if( p->bClock && p->rc==SQLITE_OK
   && claimqSystemClock(p->pConn)!=p->iNow
  ){
    if( pTask->xForget ) pTask->xForget(pTask);
    cqTxnLoad(p, pTask);
  }
}

static void cqTxnInside(CqOp *p, CqTask *pTask){
  cqTxnLoad(p, pTask);
  cqTxnApply(p, pTask);
}

/*
** The transaction is ours alone: begin, [lock,] load, apply, commit.  Inside a
** statement that writes to another database there is no savepoint; then the
** lock comes first, and the outer statement commits.  (claimq_init() will be
** refused there if it has anything to do.)
*/
static void cqTxnWhole(CqOp *p, CqTask *pTask, int bLock){
  assert( sqlite3_get_autocommit(p->db) && !p->bOwnTxn );
  if( cqTxnOpen(p, pTask) ){
    p->bOwnTxn = 1;
    if( bLock ) cqTxnLock(p, pTask);
    pTask->bLocked = (u8)bLock;
    if( bLock ) cqTxnLoad(p, pTask);
    else cqTxnRead(p, pTask);
    cqTxnWrite(p, pTask);
    cqTxnClose(p, pTask, 1);
    p->bOwnTxn = 0;
  }else if( p->rc==SQLITE_OK ){
    if( !pTask->bInit ) cqTxnLock(p, pTask);
    pTask->bLocked = !pTask->bInit;
    cqTxnInside(p, pTask);
  }
}

/*
** Is a checkpoint due, every n pages, for a connection that has written nOwn
** pages since it last asked?  (A checkpoint that others keep from ending is not
** tried again at once; nor need the length of the WAL be looked up before
** that.)
*/
static int cqCheckpointDue(CqConn *pConn, int nOwn, int n){
  return nOwn>=n || (nOwn>=n/16 && claimqGateFrames(pConn)>=n);
}

/*
** SQLite checkpoints the WAL after a commit, but not after one inside another
** statement, which still reads main.  A worker that completes each job in its
** next claim makes no other commits: so before such a claim, while main is
** unread, look how long the WAL is, and do as SQLite would.  (SQLite looks a
** page up in the WAL among all its versions there, so a long one makes each
** call slower: twice, with 16 connections that each looked at its own pages
** alone.)  If the length is not known, count what this connection has written
** since.  An error here does not fail the claim.
*/
CQ_PRIV void claimqTxnCheckpoint(CqConn *pConn){
  int nPage = 0, nHigh = 0, n = 0, nOwn;
  CqStmt s;
  CqOp op;
  if( !claimqConnUnread(pConn) ) return;
  sqlite3_db_status(pConn->db, SQLITE_DBSTATUS_CACHE_WRITE, &nPage, &nHigh, 0);
  if( nPage<pConn->nWritten ) pConn->nWritten = 0;  /* The user has reset it */
  nOwn = nPage-pConn->nWritten;
  if( !cqCheckpointDue(pConn, nOwn, pConn->nCheckpoint) ) return;
  claimqOpInit(&op, pConn);
  s = claimqStmt(&op, CQ_SQL_TXN_CHECKPOINT);
  if( claimqStep(&op, &s) ){
    n = (int)claimqColInt(&s, CQ_COL_TXN_CHECKPOINT_wal_autocheckpoint);
  }
  claimqStmtDone(&op, &s);
  claimqOpClear(&op);
  pConn->nCheckpoint = n>0 ? n : CQ_CHECKPOINT;
  if( !cqCheckpointDue(pConn, nOwn, pConn->nCheckpoint) ) return;
  pConn->nWritten = nPage;
  if( n>0 ){
    sqlite3_wal_checkpoint_v2(pConn->db, CQ_SCHEMA, SQLITE_CHECKPOINT_PASSIVE,
                              0, 0);
  }
}

/*
** From xFilter in autocommit, main unread.  SQLITE_SCHEMA makes
** sqlite3_step() start the statement over, with main unlocked.
*/
static void cqTxnFilter(CqOp *p, CqTask *pTask){
  assert( p->bFilter && sqlite3_get_autocommit(p->db) );
  if( p->pConn->bLockFirst || pTask->bSure ){
    p->pConn->bLockFirst = 0;
    cqTxnWhole(p, pTask, 1);
    return;
  }
  pTask->bLocked = 0;
  cqTxnRead(p, pTask);
  if( p->rc || cqTxnNeed(pTask)==CQ_NEED_NOTHING ) return;
  if( CQ_ALWAYS(sqlite3_txn_state(p->db, CQ_SCHEMA)!=SQLITE_TXN_NONE) ){
    cqTxnApply(p, pTask);
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
** Is there nothing to do for claimq_init(), as is usual?  Then it need not be
** allowed to make a table, as it does to take the lock.  An error found here
** does not count, because somebody else may have been at work between two
** looks; but an error after which SQLite ends a statement around this one does.
*/
static int cqTxnIdle(CqOp *p, CqTask *pTask){
  int rc;
  cqTxnLoad(p, pTask);
  rc = p->rc & 0xff;
  if( rc==SQLITE_IOERR || rc==SQLITE_NOMEM || rc==SQLITE_FULL ) return 1;
  if( p->rc==SQLITE_OK && pTask->eNeed==CQ_NEED_NOTHING ) return 1;
  claimqOpReset(p);
  return 0;
}

/*
** From a function in autocommit, main unread.
*/
static void cqTxnFunction(CqOp *p, CqTask *pTask){
  assert( !p->bFilter && sqlite3_get_autocommit(p->db) );
  if( pTask->bInit && cqTxnIdle(p, pTask) ) return;
  cqTxnWhole(p, pTask, 0);
  if( cqIsBusy(p) ){
    claimqOpReset(p);
    if( pTask->xForget ) pTask->xForget(pTask);
    cqTxnWhole(p, pTask, 1);
  }
}

/*
** Raise the error of a put that lacks tables and cannot create them: inside a
** writing statement (rc is SQLITE_OK), or because an authorizer forbids it.
*/
static void cqTxnMakeFails(CqOp *p, const CqTask *pTask){
  int bAuth = (p->rc & 0xff)==SQLITE_AUTH;
  char *zCall;
  if( p->rc && !bAuth ) return;
  claimqOpReset(p);
  zCall = claimqSchemaCall(pTask->mMake);
  if( zCall==0 ){
    p->rc = SQLITE_NOMEM;
  }else if( bAuth ){
    claimqFail(p, CQ_NOT_INITIALISED, "%s needs tables that are not there, and "
        "this connection may not create them: SELECT %s on one that may",
        pTask->zWhat, zCall);
  }else{
    claimqFail(p, CQ_NESTED_WRITE, "%s needs tables that are not there, and "
        "inside a writing statement it cannot create them: SELECT %s first",
        pTask->zWhat, zCall);
  }
  sqlite3_free(zCall);
}

/*
** In a savepoint: [lock,] create the tables, load, apply.
*/
static void cqTxnMakeAll(CqOp *p, CqTask *pTask, int bLock){
  int bWhole = sqlite3_get_autocommit(p->db);
  int bMade = 0;
  assert( !p->bOwnTxn );
  if( cqTxnOpen(p, pTask) ){
    p->bOwnTxn = (u8)bWhole;
    if( bLock ) cqTxnLock(p, pTask);
    if( p->rc==SQLITE_OK ) pTask->xMake(p, pTask);
    bMade = p->rc==SQLITE_OK;
    pTask->bLocked = sqlite3_txn_state(p->db, CQ_SCHEMA)==SQLITE_TXN_WRITE;
    cqTxnLoad(p, pTask);
    cqTxnWrite(p, pTask);
    cqTxnClose(p, pTask, bWhole);
    p->bOwnTxn = 0;
  }
  if( !bMade ) cqTxnMakeFails(p, pTask);
}

/*
** Tables of a put were missing, and it has changed nothing: create them, and
** begin again, all or nothing.
*/
static void cqTxnMake(CqOp *p, CqTask *pTask){
  claimqOpReset(p);
  p->mMissing = 0;
  if( pTask->xForget ) pTask->xForget(pTask);
  pTask->bInit = 1;
  if( !sqlite3_get_autocommit(p->db)
   && sqlite3_txn_state(p->db, CQ_SCHEMA)==SQLITE_TXN_NONE
  ){
    cqTxnLock(p, pTask);
    if( p->rc ) cqTxnMakeFails(p, pTask);
  }
  if( p->rc==SQLITE_OK ) cqTxnMakeAll(p, pTask, 0);
  if( cqIsBusy(p) && claimqConnUnread(p->pConn) ){
    claimqOpReset(p);
    if( pTask->xForget ) pTask->xForget(pTask);
    cqTxnMakeAll(p, pTask, 1);
  }
}

/*
** Is it known at once that tables are missing?  Or is this a put in the user's
** transaction, which has not read main yet, and there are no tables at all?
** After finding that out by reading, the call could no longer wait for the
** lock.
*/
static int cqTxnBare(CqOp *p, const CqTask *pTask){
  if( pTask->bLacks ) return 1;
  return pTask->xMake && !p->pConn->bChecked
      && !sqlite3_get_autocommit(p->db)
      && sqlite3_txn_state(p->db, CQ_SCHEMA)==SQLITE_TXN_NONE
      && !claimqSchemaHas(p, claimqSchema[0].zName)
      && p->rc==SQLITE_OK;
}

static void cqTxnTry(CqOp*, CqTask*);

/*
** Run a task: its answer is in the task; op has its error.
*/
CQ_PRIV void claimqRun(CqOp *p, CqTask *pTask){
  int bAuto = pTask->xMake && sqlite3_get_autocommit(p->db);
  int bBare = p->rc==SQLITE_OK && cqTxnBare(p, pTask);
  if( !bBare ) cqTxnTry(p, pTask);
  if( !bBare && (p->mMissing==0 || pTask->xMake==0) ) return;
  if( CQ_NEVER(sqlite3_get_autocommit(p->db)!=bAuto) ){
    claimqOpReset(p);             /* SQLite has ended the user's transaction */
    p->rc = SQLITE_ABORT_ROLLBACK;
    return;
  }
  cqTxnMake(p, pTask);
}

/*
** Run a task whose tables are there.  One that has nothing to load is its one
** write, wherever it stands.
*/
static void cqTxnTry(CqOp *p, CqTask *pTask){
  int eState;
  assert( pTask->xApply && pTask->zWhat );
  if( p->rc ) return;
  if( pTask->xLoad==0 && p->pReq==0 ){
    pTask->eNeed = CQ_NEED_ONE;
    cqTxnWrite(p, pTask);
    return;
  }
  eState = sqlite3_txn_state(p->db, CQ_SCHEMA);
  if( eState!=SQLITE_TXN_NONE ){
    pTask->bLocked = eState==SQLITE_TXN_WRITE;
    cqTxnInside(p, pTask);
  }else if( !sqlite3_get_autocommit(p->db) ){
    cqTxnLock(p, pTask);
    pTask->bLocked = 1;
    cqTxnInside(p, pTask);
  }else if( p->bFilter ){
    cqTxnFilter(p, pTask);
  }else{
    cqTxnFunction(p, pTask);
  }
}

/*
** Make the answer of a task the result of the function, unless op has an
** error.  A text is handed over or freed: the task has none afterwards.
*/
CQ_PRIV void claimqTaskResult(
  const CqOp *p, CqTask *pTask, sqlite3_context *pCtx
){
  assert( pTask->zAnswer==0 || pTask->zWord==0 );
  if( p->rc ){
    sqlite3_free(pTask->zAnswer);
  }else if( pTask->zAnswer ){
    sqlite3_result_text(pCtx, pTask->zAnswer, -1, sqlite3_free);
  }else if( pTask->zWord ){
    sqlite3_result_text(pCtx, pTask->zWord, -1, SQLITE_STATIC);
  }else if( !pTask->bNull ){
    sqlite3_result_int64(pCtx, pTask->iAnswer);
  }
  pTask->zAnswer = 0;
}

/* A row that is removed by its key. */
typedef struct CqRemove CqRemove;
struct CqRemove {
  CqTask task;                    /* First */
  int eStmt;                      /* The DELETE */
  int iKey;                       /* Its parameter */
  sqlite3_value *pKey;
};

/*
** xLoad: there is nothing to read; but the format is looked at again, because
** another release may have raised it.
*/
static void cqRemoveLoad(CqOp *p, CqTask *pTask){
  claimqConnDoubt(p->pConn);
  pTask->eNeed = CQ_NEED_ONE;
}

static void cqRemoveApply(CqOp *p, CqTask *pTask){
  CqRemove *pR = (CqRemove*)pTask;
  CqStmt s = claimqStmt(p, pR->eStmt);
  claimqBindValue(p, &s, pR->iKey, pR->pKey);
  pTask->iAnswer = claimqExec(p, &s);
}

/*
** A function zWhat whose first argument is the key of a row: the statement
** eStmt, a DELETE that has it as its parameter iKey.  Its result is 1, or 0 if
** there is no such row.
*/
CQ_PRIV void claimqRemove(
  CqOp *p, CqCall *pCall, int eStmt, int iKey, const char *zWhat
){
  CqRemove r;
  memset(&r, 0, sizeof(r));
  r.task.xLoad = cqRemoveLoad;
  r.task.xApply = cqRemoveApply;
  r.task.zWhat = zWhat;
  r.eStmt = eStmt;
  r.iKey = iKey;
  r.pKey = pCall->aArg[0].pVal;
  claimqRun(p, &r.task);
  claimqTaskResult(p, &r.task, pCall->pCtx);
}

/*
** A write did not find the rows that were loaded.  If the lock was not held
** when they were read, somebody else was faster (two connections of a shared
** cache with read_uncommitted see each other's unfinished work): SQLITE_BUSY,
** and the task begins again with the lock.  If it was held, only a trigger can
** have done that.
*/
CQ_PRIV void claimqStale(CqOp *p, const CqTask *pTask){
  if( p->rc ) return;
  if( pTask->bLocked ){
    claimqFail(p, CQ_CONFLICT, "%s could not write the rows that it has read: "
        "a trigger on their table left them out", pTask->zWhat);
  }else{
    p->rc = SQLITE_BUSY;          /* Its message is SQLite's */
  }
}

/*
** May this connection write?  Raises read_only or unsupported if not.
*/
CQ_PRIV void claimqCheckWritable(CqOp *p){
  if( p->rc || p->pConn->bWritable ) return;
  if( sqlite3_db_readonly(p->db, CQ_SCHEMA)==1 ){
    claimqFail(p, CQ_READ_ONLY,
        "the database is open read-only: claims and verbs need to write");
  }
  claimqCheckConfig(p);
}

/*
** The same, when main was read or is being written: it must also have our
** format.  A database that was open for writing stays so.  Triggers and views
** can be switched off at any time, and another release may bring the tables to
** its own format; but then SQLite prepares all statements anew.  A task that
** has read something before it writes learns this from claimqConnDoubt(); one
** that has not finds out while it writes: see claimqCheckClock().
*/
CQ_PRIV void claimqCheckSure(CqOp *p){
  claimqCheckWritable(p);
  claimqSettings(p);
  p->pConn->bWritable = p->rc==SQLITE_OK;
}

/*
** The same for the first claimq__clock() of the statement that pOp->pClock
** names, and read the clock.  If SQLite had to prepare that statement again,
** settings and format may have changed, and are read again, and triggers or
** views may be switched off.  (Looking at all this each time would take 4 % of
** an enqueue.)  Raises schema_mismatch, unsupported, or clock_required if the
** settings do not allow reading the clock, and then returns 0.  It also returns
** 0 if a setting does not fit the statement: then the caller takes another one.
*/
CQ_PRIV int claimqCheckClock(CqOp *pOp, sqlite3_context *pCtx){
  CqConn *pConn = pOp->pConn;
  CqOp op;
  claimqClock(pOp);
  assert( sqlite3_stmt_busy(pOp->pClock) );
  if( sqlite3_stmt_status(pOp->pClock, SQLITE_STMTSTATUS_REPREPARE, 0) ){
    claimqConnDoubt(pConn);
  }
  if( !pConn->bWritable || CQ_NEVER(!pConn->bSettings)
   || (pOp->bClock && (pConn->mSettings & CQ_SET_CLOCK))
  ){
    claimqOpInit(&op, pConn);
    op.bWrote = 1;
    if( !pConn->bWritable ) claimqCheckSure(&op);
    if( pOp->bClock && (claimqSettings(&op) & CQ_SET_CLOCK) ){
      claimqFailClock(&op);
    }
    if( pOp->mUnless ) claimqSettings(&op);
    claimqOpResult(&op, pCtx);
    if( op.rc ) return 0;
  }
  if( pConn->mSettings & pOp->mUnless ){
    pOp->bUnless = 1;
    sqlite3_result_error(pCtx, "claimq: the settings have changed", -1);
    return 0;
  }
  pOp->pClock = 0;
  return 1;
}

/*
** Is a writing statement of this connection under way?  Returns 1 if so; 0
** if not, or if op gets an error here.
**
** SQLite counts them and tells nobody, but refuses a savepoint while there are
** any.  It counts the statements for which sqlite3_stmt_busy() is true and
** sqlite3_stmt_readonly() is not, whether they call us or are half read.  Most
** connections have few statements, and looking at each takes less than a
** savepoint; one that has many is looked through again now and then.
*/
static int cqTxnWriting(CqOp *p){
  CqConn *pConn = p->pConn;
  assert( p->rc==SQLITE_OK );
  if( pConn->nManyStmt>0 ){
    pConn->nManyStmt--;
  }else{
    int bWriting = claimqStmtWriting(pConn, CQ_FEW_STMT);
    if( bWriting>=0 ) return bWriting;
    pConn->nManyStmt = CQ_MANY_WAIT;
  }
  cqTxnStmt(p, CQ_SQL_TXN_SAVEPOINT);
  if( cqIsBusy(p) ){
    claimqOpReset(p);
    return 1;
  }
  cqTxnStmt(p, CQ_SQL_TXN_RELEASE);
  return 0;
}

/*
** A row was deleted by a statement that is not claimq's, and its trigger does
** not know of which database it was.  If not of main, then main may have a row
** with the same key, and what belongs to that must stay.  pS looks for it, and
** is given back.  Raises unsupported if the row was not one of main: then main
** is not being written, or has it still.
*/
CQ_PRIV void claimqCheckDeleted(
  CqOp *p, CqStmt *pS, const char *zWhat, i64 iKey
){
  int bOther = sqlite3_txn_state(p->db, CQ_SCHEMA)!=SQLITE_TXN_WRITE;
  if( bOther ) claimqOpReset(p);  /* Main may have no such tables */
  else bOther = claimqStep(p, pS);
  claimqStmtDone(p, pS);
  if( bOther ){
    claimqFail(p, CQ_UNSUPPORTED, "%s %lld is in an attached database: open "
        "its file as main to delete it", zWhat, iKey);
  }
}

/*
** zWhat is a function that writes.  Inside the user's transaction it must not
** be called in a writing statement: if that statement fails later, SQLite
** undoes what it wrote itself, and keeps what the function wrote.  Raises
** nested_write there.
*/
CQ_PRIV void claimqCheckNested(CqOp *p, const char *zWhat){
  if( p->rc || sqlite3_get_autocommit(p->db) ) return;
  if( cqTxnWriting(p) ){
    claimqFail(p, CQ_NESTED_WRITE, "%s was called inside a writing statement "
        "and a transaction, where SQLite might not undo it: call it in a "
        "statement of its own (or fetch all rows of the statement that is not "
        "finished, or reset it)", zWhat);
  }
}
