/*
** wait.c: claimq_wait(), and claimq_next_at().
**
** A worker that finds nothing sleeps until there is something:
**
**     SELECT claimq_wait(30000, 'lane', 'mail');     -- 1: claim now
**                                                    -- 0: 30 s have passed
**     SELECT claimq_wait(30000, 'event', 17);        -- 1: there is event 18
**     SELECT claimq_wait(30000);                     -- 1: somebody committed
**     SELECT claimq_next_at('lane', 'mail');         -- when, in ms; or NULL
**
** How it works
**
** SELECT claimq_wait(...) without FROM reads nothing itself, so the statements
** that are run in here end their own transactions: the function can look,
** sleep, and look again, and sees each time what is there by then.  While it
** sleeps it holds no lock and no snapshot.  Where that is not so, in BEGIN, in
** a statement that reads tables, or while another statement of the connection
** is not finished, it would never see anything new: in_transaction.
**
** When to look is decided by core_wait.c, sleeping is done by watch.c.  A look
** has two parts.  The probe asks PRAGMA data_version whether any other
** connection has committed; the connection's own commits cannot happen
** meanwhile.  Only if one has, or if a row falls due, the question itself is
** asked again.
**
** A database that is locked (another process commits with a rollback journal,
** or has an exclusive lock) is one in which nothing is seen yet: that is no
** error.  It must not be waited for by the user's busy timeout, either, which
** no interrupt ends; so the timeout is put aside for as long as this function
** runs.  (A busy handler that the user wrote cannot be.)  With timeout 0 this
** is one look like any other: it waits for the lock, and may fail for it.
**
** sqlite3_interrupt() does not wake anybody.  It is noticed by the pulse, a
** statement that does nothing, eleven times in a second.
*/
#include "claimq_int.h"

typedef struct CqWait CqWait;     /* One call of claimq_wait() */
struct CqWait {
  /* The question: op.iNow if it is answered, else when it may be. */
  i64 (*xLook)(CqOp*, CqWait*);
  const CqNextDef *pDef;          /* For cqWaitNextAt() */
  CqVal aArg[CQ_MAX_ARG];
  i64 iEvent;                     /* For cqWaitEvent() */
  i64 msTimeout;
  i64 msNextAt;                   /* The last answer */
  int eSeen;                      /* CQ_SEEN_*, of the last look */
  u8 bVersion;                    /* iVersion is set */
  i64 iVersion;                   /* PRAGMA data_version */
  CqPace pace;
};

/**************************************************************************
** Looking
*/

/*
** A statement that needs no table of claimq's.  As claimqStmt().
*/
static sqlite3_stmt *cqWaitStmt(CqOp *p, int eStmt){
  u8 bChecked = p->pConn->bChecked;
  sqlite3_stmt *pStmt;
  p->pConn->bChecked = 1;
  pStmt = claimqStmt(p, eStmt);
  p->pConn->bChecked = bChecked;
  return pStmt;
}

/*
** Is op's error only that the database is locked?  Then forget it, unless
** there is no time to wait.
*/
static int cqWaitLocked(CqOp *p, const CqWait *pWait){
  if( pWait->msTimeout==0
   || ((p->rc & 0xff)!=SQLITE_BUSY && p->rc!=SQLITE_LOCKED_SHAREDCACHE)
  ){
    return 0;
  }
  claimqOpReset(p);
  return 1;
}

/*
** Has another connection committed since the last probe?  The first one says
** yes.  Returns CQ_SEEN_*.
*/
static int cqWaitProbe(CqOp *p, CqWait *pWait){
  sqlite3_stmt *pStmt = cqWaitStmt(p, CQ_SQL_WAIT_VERSION);
  i64 iVersion = 0;
  if( claimqStep(p, pStmt) ) iVersion = sqlite3_column_int64(pStmt, 0);
  claimqStmtDone(p, CQ_SQL_WAIT_VERSION, pStmt);
  if( cqWaitLocked(p, pWait) ) return CQ_SEEN_BUSY;
  if( p->rc ) return CQ_SEEN_SAME;
  if( pWait->bVersion && pWait->iVersion==iVersion ) return CQ_SEEN_SAME;
  pWait->iVersion = iVersion;
  pWait->bVersion = 1;
  return CQ_SEEN_COMMIT;
}

/*
** Ask the question, at the present time.  1 if it is answered.  If the
** database is locked it is asked again with the next probe.
*/
static int cqWaitAsk(CqOp *p, CqWait *pWait){
  i64 msNextAt;
  if( p->rc ) return 0;
  p->iNow = claimqClock(p->db);
  p->bNow = 1;
  msNextAt = pWait->xLook(p, pWait);
  if( cqWaitLocked(p, pWait) ){
    pWait->bVersion = 0;
    pWait->eSeen = CQ_SEEN_BUSY;
    return 0;
  }
  pWait->msNextAt = msNextAt;
  return p->rc==SQLITE_OK && msNextAt<=p->iNow;
}

/*
** See to it that the right files are watched.  1 if one was not before: then
** it may have been written to, and we were not told.
*/
static int cqWaitAim(CqOp *p){
  const char *zDb = sqlite3_db_filename(p->db, "main");
  const char *zWal = 0;
  int bMoved = 0;
  if( p->rc ) return 0;
  if( p->pConn->pWatch==0 ) p->pConn->pWatch = claimqWatchNew(zDb);
  if( p->pConn->pWatch==0 ){
    p->rc = SQLITE_NOMEM;
    return 0;
  }
  if( zDb && zDb[0] ) zWal = sqlite3_filename_wal(zDb);
  sqlite3_file_control(p->db, "main", SQLITE_FCNTL_HAS_MOVED, &bMoved);
  return claimqWatchAim(p->pConn->pWatch, bMoved ? 0 : zDb, zWal ? zWal : "");
}

/*
** Probe, and ask if somebody has committed, or anyhow (bAsk).  1 if the
** question is answered.  A commit may have been the one that put the database
** into WAL mode.
*/
static int cqWaitLook(CqOp *p, CqWait *pWait, int bAsk){
  do{
    pWait->eSeen = cqWaitProbe(p, pWait);
    if( pWait->eSeen==CQ_SEEN_COMMIT
     || (bAsk && pWait->eSeen==CQ_SEEN_SAME)
    ){
      if( cqWaitAsk(p, pWait) ) return 1;
    }
  }while( pWait->eSeen==CQ_SEEN_COMMIT && p->pConn->pWatch && cqWaitAim(p) );
  return 0;
}

/**************************************************************************
** Waiting
*/

/*
** Raise in_transaction if changes of others could not be seen.
*/
static void cqWaitAlone(CqOp *p){
  if( p->rc ) return;
  if( !sqlite3_get_autocommit(p->db)
   || sqlite3_txn_state(p->db, "main")!=SQLITE_TXN_NONE
  ){
    claimqFail(p, CQ_IN_TRANSACTION, "claimq_wait() would not see the changes "
       "of others: end the transaction, finish the other statements of this "
       "connection, and call it in a SELECT without FROM");
  }
}

/*
** Take note of an interrupt, and give the progress handler its steps.  Of a
** database that was locked from the beginning the cache knows nothing yet, and
** cannot keep the statement.
*/
static void cqWaitPulse(CqOp *p, const CqWait *pWait){
  sqlite3_stmt *pStmt = cqWaitStmt(p, CQ_SQL_WAIT_PULSE);
  if( cqWaitLocked(p, pWait) ){
    claimqExecSql(p, claimqSql[CQ_SQL_WAIT_PULSE].zSql);
    return;
  }
  claimqStep(p, pStmt);
  claimqStmtDone(p, CQ_SQL_WAIT_PULSE, pStmt);
}

/*
** Begin to listen.  1 if the question is answered by now.  What was told of
** before the first look need not be told again; what was not may have been
** missed by it.
*/
static int cqWaitBegin(CqOp *p, CqWait *pWait){
  int bTold = cqWaitAim(p);
  if( p->rc ) return 0;
  if( claimqWatchSleep(p->pConn->pWatch, 0, 1) & CQ_WOKE_TOLD ) bTold = 1;
  claimqPaceInit(&pWait->pace, pWait->msTimeout, claimqClock(p->db), bTold);
  if( pWait->eSeen==CQ_SEEN_COMMIT ) pWait->eSeen = CQ_SEEN_SAME;
  return bTold && cqWaitLook(p, pWait, 0);
}

/*
** Sleep and look, sleep and look.  1 when the question is answered, 0 when the
** time is over or op has an error.
*/
static int cqWaitSleep(CqOp *p, CqWait *pWait){
  CqPace *pPace = &pWait->pace;
  int bFound = cqWaitBegin(p, pWait), mDo = 0;
  while( p->rc==SQLITE_OK && !bFound && (mDo & CQ_PACE_OVER)==0 ){
    CqWatch *pWatch = p->pConn->pWatch;
    int bDeaf, mWoke;
    i64 us;
    claimqPaceSeen(pPace, pWait->eSeen, pWait->msNextAt);
    us = claimqPaceNap(pPace, claimqWatchListens(pWatch), &bDeaf);
    mWoke = claimqWatchSleep(pWatch, us, bDeaf);
    mDo = claimqPaceWake(pPace, mWoke, claimqClock(p->db));
    if( mDo & CQ_PACE_PULSE ) cqWaitPulse(p, pWait);
    if( mDo & CQ_PACE_AIM ) cqWaitAim(p);
    pWait->eSeen = CQ_SEEN_SAME;
    if( p->rc==SQLITE_OK && (mDo & (CQ_PACE_PROBE|CQ_PACE_LOOK)) ){
      bFound = cqWaitLook(p, pWait, mDo & CQ_PACE_LOOK);
    }
  }
  return bFound;
}

/*
** The timeout of SQLite's own busy handler in ms, 0 if there is none, or one
** that the user wrote.
*/
static int cqWaitBusyTimeout(CqOp *p){
  sqlite3_stmt *pStmt = 0;
  int ms = 0, rc;
  if( p->rc ) return 0;
  rc = sqlite3_prepare_v2(p->db, claimqSql[CQ_SQL_WAIT_BUSY_TIMEOUT].zSql, -1,
                          &pStmt, 0);
  claimqFailRc(p, rc);
  if( claimqStep(p, pStmt) ) ms = sqlite3_column_int(pStmt, 0);
  sqlite3_finalize(pStmt);
  return ms;
}

/*
** All of a wait: 1 or 0, 0 also if op has an error.
*/
static int cqWaitRun(CqOp *p, CqWait *pWait){
  int bFound = 0, msBusy = 0;
  cqWaitAlone(p);
  if( pWait->msTimeout>0 ) msBusy = cqWaitBusyTimeout(p);
  if( msBusy>0 ) sqlite3_busy_timeout(p->db, 0);
  if( p->rc==SQLITE_OK ) bFound = cqWaitLook(p, pWait, 0);
  cqWaitAlone(p);
  if( p->rc==SQLITE_OK && !bFound && pWait->msTimeout>0 ){
    bFound = cqWaitSleep(p, pWait);
  }
  if( msBusy>0 ) sqlite3_busy_timeout(p->db, msBusy);
  return p->rc==SQLITE_OK && bFound;
}

/**************************************************************************
** What is waited for
*/

/*
** Any commit of another connection since the last such call.
*/
static i64 cqWaitAny(CqOp *p, CqWait *pWait){
  CqConn *pConn = p->pConn;
  if( pConn->bVersion && pConn->iVersion==pWait->iVersion ) return CQ_I64_MAX;
  return p->iNow;
}

/*
** An event after the last one that the caller knows.
*/
static i64 cqWaitEvent(CqOp *p, CqWait *pWait){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_WAIT_EVENT);
  int bThere;
  claimqBindInt(p, pStmt, 1, pWait->iEvent);
  bThere = claimqStep(p, pStmt);
  claimqStmtDone(p, CQ_SQL_WAIT_EVENT, pStmt);
  return bThere ? p->iNow : CQ_I64_MAX;
}

/*
** Something that a claim would take.
*/
static i64 cqWaitNextAt(CqOp *p, CqWait *pWait){
  return pWait->pDef->xNextAt(p, pWait->aArg);
}

/**************************************************************************
** The functions
*/

/*
** The definition of a discipline by its name, or 0 and an error that lists
** all of them.  bEvent: 'event' is one too, with a definition of nothing.
*/
static const CqNextDef *cqWaitDiscipline(
  CqOp *p, sqlite3_value *pVal, int bEvent
){
  static const CqNextDef event = { "event", 0, 0, 0 };
  static const CqArgDef arg = {
    "discipline", CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0
  };
  const CqNextDef *pDef;
  char *zList;
  CqVal v;
  int i;
  claimqRead(p, &arg, pVal, &v);
  if( p->rc ) return 0;
  for(i=0; (pDef = claimqNextDef(i))!=0; i++){
    if( claimqTextEq(v.t, claimqStr(pDef->zName)) ) return pDef;
  }
  if( bEvent && claimqTextEq(v.t, claimqStr("event")) ) return &event;
  zList = sqlite3_mprintf("%s", bEvent ? "'event'" : "");
  for(i=0; zList && (pDef = claimqNextDef(i))!=0; i++){
    zList = sqlite3_mprintf("%z%s'%s'", zList, zList[0] ? ", " : "",
                            pDef->zName);
  }
  if( zList==0 ) p->rc = SQLITE_NOMEM;
  claimqFail(p, CQ_BAD_ARGUMENT, "discipline must be one of %s, got '%.*s'",
             zList, claimqShown(v.t), v.t.z);
  sqlite3_free(zList);
  return 0;
}

/*
** Scope and options: apVal[0] is the scope.
*/
static void cqWaitArgs(
  CqOp *p, const CqNextDef *pDef, int mVerb, int nVal, sqlite3_value **apVal,
  CqVal *aArg
){
  if( pDef==0 || p->rc ) return;
  assert( pDef->nArg<=CQ_MAX_ARG );
  claimqRead(p, &pDef->aArg[0], nVal>0 ? apVal[0] : 0, &aArg[0]);
  claimqReadOptions(p, &pDef->aArg[1], pDef->nArg-1, mVerb,
                    nVal>1 ? nVal-1 : 0, nVal>1 ? &apVal[1] : 0, &aArg[1]);
}

/*
** claimq_wait(timeout_ms, 'event', last_event_id)
*/
static void cqWaitEventArg(
  CqOp *p, CqWait *pWait, int nVal, sqlite3_value **apVal
){
  static const CqArgDef arg = {
    "last_event_id", CQ_T_INT, CQ_A_REQUIRED, 0, 0, 0, -CQ_I64_MAX-1, 0, 0
  };
  CqVal v;
  claimqRead(p, &arg, nVal>0 ? apVal[0] : 0, &v);
  if( nVal>1 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "'event' takes no options");
  }
  pWait->iEvent = v.i;
  pWait->xLook = cqWaitEvent;
}

static void cqWaitFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  static const CqArgDef timeout = {
    "timeout_ms", CQ_T_INT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0
  };
  CqWait wait;
  CqVal v;
  int bFound;
  memset(&wait, 0, sizeof(wait));
  wait.xLook = cqWaitAny;
  wait.msNextAt = CQ_I64_MAX;
  claimqRead(p, &timeout, apVal[0], &v);
  wait.msTimeout = v.i;
  if( nVal>1 ){
    wait.pDef = cqWaitDiscipline(p, apVal[1], 1);
    if( wait.pDef && wait.pDef->xNextAt==0 ){
      cqWaitEventArg(p, &wait, nVal-2, &apVal[2]);
    }else{
      wait.xLook = cqWaitNextAt;
      cqWaitArgs(p, wait.pDef, CQ_NEXT_WAIT, nVal-2, &apVal[2], wait.aArg);
    }
  }
  bFound = cqWaitRun(p, &wait);
  if( p->rc ) return;
  if( nVal==1 && bFound ){
    p->pConn->iVersion = wait.iVersion;
    p->pConn->bVersion = 1;
  }
  sqlite3_result_int(pCtx, bFound);
}

static void cqNextAtFunc(
  CqOp *p, sqlite3_context *pCtx, int nVal, sqlite3_value **apVal
){
  const CqNextDef *pDef = cqWaitDiscipline(p, apVal[0], 0);
  CqVal aArg[CQ_MAX_ARG];
  i64 iNext;
  memset(aArg, 0, sizeof(aArg));
  cqWaitArgs(p, pDef, CQ_NEXT_AT, nVal-1, &apVal[1], aArg);
  if( p->rc ) return;
  claimqNow(p);
  iNext = pDef->xNextAt(p, aArg);
  if( p->rc==SQLITE_OK && iNext<CQ_I64_MAX ){
    sqlite3_result_int64(pCtx, iNext);
  }
}

CQ_PRIV const CqFuncDef *claimqWaitFuncs(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { "claimq_wait",
      "(timeout_ms [, discipline, scope [, option, value]...])", 1, -1,
      CQ_F_WAIT, cqWaitFunc },
    { "claimq_next_at", "(discipline, scope [, option, value]...)", 2, -1,
      CQ_F_READ, cqNextAtFunc },
  };
  *pnFunc = (int)(sizeof(aFunc)/sizeof(aFunc[0]));
  return aFunc;
}
