/*
** wait.c: claimq_wait(), and claimq_next_at().
**
** A worker that finds nothing sleeps until there is something:
**
**     SELECT claimq_wait(30000, 'lane', 'mail');     -- 1: claim now
**                                                    -- 0: 30 s have passed
**     SELECT claimq_wait(30000, 'event', 17);        -- 1: there is event 18
**     SELECT claimq_wait(30000, 'lanes', '["mail","push"]');   -- any of them
**     SELECT claimq_wait(30000, 'job', 17);          -- 1: job 17 has ended
**     SELECT claimq_wait(30000, 'claim', 'qjc:17:1');  -- 1: it is lost or over
**     SELECT claimq_wait(30000, 'claims', '["qjc:17:1","qjc:18:1"]');  -- any
**     SELECT claimq_wait(30000);                     -- 1: somebody committed
**     SELECT claimq_next_at('lane', 'mail');         -- when, in ms; or NULL
**
** How it works
**
** SELECT claimq_wait(...) without FROM reads nothing itself, so the statements
** that the function runs end their own transactions: it can look, sleep, and
** look again, and each time it sees the present state.  While it sleeps it
** holds no lock and no snapshot.  In BEGIN, in a statement that reads tables,
** or while another statement of the connection is not finished, it would never
** see anything new, so there it raises in_transaction.
**
** core/wait.c decides when to look, and watch.c sleeps.  A look has two parts.
** The probe asks PRAGMA data_version whether any other connection has
** committed; the connection's own commits cannot happen meanwhile.  Only if one
** has, or if a row falls due, is the question itself asked again.
**
** If the database is locked (another process commits with a rollback journal,
** or has an exclusive lock), nothing is seen yet, and that is not an error.
** Nor may the user's busy timeout wait for the lock, because no interrupt ends
** that; so the timeout is put aside while this function runs.  (A busy handler
** that the user wrote cannot be.)  With timeout 0 this is one look like any
** other: it waits for the lock, and may fail if it does not get it.
**
** sqlite3_interrupt() does not end a sleep.  It is noticed by the pulse, a
** statement that does nothing and is run eleven times in a second.
*/
#include "claimq_int.h"

typedef struct CqWait CqWait;     /* One call of claimq_wait() */
struct CqWait {
  /* The question: op.iNow if it is answered, else when it may be. */
  i64 (*xLook)(CqOp*, CqWait*);
  CqLook look;                    /* For cqWaitNextAt() */
  i64 iKey;                       /* For cqWaitEvent(), cqWaitJob() */
  CqText claimId;                 /* For cqWaitClaim() */
  CqText *aClaim;                 /* For cqWaitClaims() */
  int nClaim;
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
  CqStmt s = claimqStmt(p, CQ_SQL_TXN_WAIT_VERSION);
  i64 iVersion = 0;
  if( claimqStep(p, &s) ){
    iVersion = claimqColInt(&s, CQ_COL_TXN_WAIT_VERSION_data_version);
  }
  claimqStmtDone(p, &s);
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
  p->iNow = claimqSystemClock(p->pConn);
  p->bNow = 1;
  msNextAt = pWait->xLook(p, pWait);
  assert( p->rc || msNextAt>=p->iNow );
  if( cqWaitLocked(p, pWait) ){
    pWait->bVersion = 0;
    pWait->eSeen = CQ_SEEN_BUSY;
    return 0;
  }
  pWait->msNextAt = msNextAt;
  return p->rc==SQLITE_OK && msNextAt<=p->iNow;
}

/*
** Watch the right files.  1 if one was not watched before: then it may have
** been written to without our notice.
*/
static int cqWaitAim(CqOp *p){
  const char *zDb = sqlite3_db_filename(p->db, CQ_SCHEMA);
  const char *zWal = 0;
  int bMoved = 0;
  if( p->rc ) return 0;
  if( p->pConn->pWatch==0 ) p->pConn->pWatch = claimqWatchNew(zDb);
  if( p->pConn->pWatch==0 ){
    p->rc = SQLITE_NOMEM;
    return 0;
  }
  if( CQ_ALWAYS(zDb) && zDb[0] ) zWal = sqlite3_filename_wal(zDb);
  sqlite3_file_control(p->db, CQ_SCHEMA, SQLITE_FCNTL_HAS_MOVED, &bMoved);
  return claimqWatchAim(p->pConn->pWatch, bMoved ? 0 : zDb, zWal ? zWal : "");
}

/*
** Probe, and ask the question if somebody has committed, or in any case (bAsk).
** 1 if the question is answered.  A commit may have been the one that put the
** database into WAL mode.
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
  if( !claimqConnUnread(p->pConn) ){
    claimqFail(p, CQ_IN_TRANSACTION, "claimq_wait() would not see the changes "
       "of others: end the transaction, finish the other statements of this "
       "connection, and call it in a SELECT without FROM");
  }
}

/*
** Notice an interrupt, and give the progress handler its steps.  If the
** database was locked from the beginning, the cache knows nothing of it yet,
** and cannot keep the statement.
*/
static void cqWaitPulse(CqOp *p, const CqWait *pWait){
  CqStmt s = claimqStmt(p, CQ_SQL_TXN_WAIT_PULSE);
  if( cqWaitLocked(p, pWait) ){
    claimqExecSql(p, claimqSql[CQ_SQL_TXN_WAIT_PULSE].zSql);
    return;
  }
  claimqStep(p, &s);
  claimqStmtDone(p, &s);
}

/*
** Begin to listen. 1 if the question is answered by now.  Changes that were
** reported before the first look need not be reported again; that look may have
** missed the others.
*/
static int cqWaitBegin(CqOp *p, CqWait *pWait){
  int bTold = cqWaitAim(p);
  assert( pWait->msTimeout>0 );
  if( p->rc ) return 0;
  if( claimqWatchSleep(p->pConn->pWatch, 0, 1) & CQ_WOKE_TOLD ) bTold = 1;
  claimqPaceInit(&pWait->pace, pWait->msTimeout, claimqSystemClock(p->pConn),
                 bTold);
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
    assert( us>0 && claimqConnUnread(p->pConn) );
    mWoke = claimqWatchSleep(pWatch, us, bDeaf);
    mDo = claimqPaceWake(pPace, mWoke, claimqSystemClock(p->pConn));
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
** All of a wait: 1 or 0; also 0 if op has an error.
*/
static int cqWaitRun(CqOp *p, CqWait *pWait){
  int bFound = 0, msBusy = 0;
  assert( p->rc || pWait->xLook );
  cqWaitAlone(p);
  if( pWait->msTimeout>0 ) msBusy = claimqBusyTimeout(p);
  if( msBusy>0 ) sqlite3_busy_timeout(p->db, 0);
  if( p->rc==SQLITE_OK ) bFound = cqWaitLook(p, pWait, 0);
  cqWaitAlone(p);
  if( p->rc==SQLITE_OK && !bFound && pWait->msTimeout>0 ){
    bFound = cqWaitSleep(p, pWait);
  }
  if( msBusy>0 ) sqlite3_busy_timeout(p->db, msBusy);
  assert( p->rc || claimqConnUnread(p->pConn) );
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
  assert( pWait->bVersion );
  if( pConn->bVersion && pConn->iVersion==pWait->iVersion ) return CQ_I64_MAX;
  return p->iNow;
}

/*
** An event after the last one that the caller knows.
*/
static i64 cqWaitEvent(CqOp *p, CqWait *pWait){
  CqStmt s = claimqStmt(p, CQ_SQL_WAIT_EVENT);
  int bThere;
  claimqBindInt(p, &s, CQ_WAIT_EVENT_event, pWait->iKey);
  bThere = claimqStep(p, &s);
  claimqStmtDone(p, &s);
  return bThere ? p->iNow : CQ_I64_MAX;
}

/*
** The end of a job.  Raises not_found if there never was such a job.
*/
static i64 cqWaitJob(CqOp *p, CqWait *pWait){
  CqStmt s = claimqStmt(p, CQ_SQL_WAIT_JOB);
  int bEnded = 0;
  claimqBindInt(p, &s, CQ_WAIT_JOB_job, pWait->iKey);
  if( claimqStep(p, &s) ){
    bEnded = (int)claimqColInt(&s, CQ_COL_WAIT_JOB_ended);
    if( claimqColType(&s, CQ_COL_WAIT_JOB_ended)==SQLITE_NULL ){
      claimqFail(p, CQ_NOT_FOUND, "there is no job %lld", pWait->iKey);
    }
  }
  claimqStmtDone(p, &s);
  return bEnded ? p->iNow : CQ_I64_MAX;
}

/*
** The end of a claim, in whatever way.  If nobody ends it, it goes on; in a
** strict lane it ends with its lease.
*/
static i64 cqWaitClaim(CqOp *p, CqWait *pWait){
  i64 iHead, iFence, iAt = CQ_I64_MAX;
  CqStmt s;
  if( !claimqVerbHolds(p, pWait->claimId) ) return p->rc ? iAt : p->iNow;
  if( !claimqClaimIdParse(pWait->claimId, "qjc", &iHead, &iFence) ) return iAt;
  s = claimqStmt(p, CQ_SQL_WAIT_STRICT);
  claimqBindCommonInt(p, &s, CQ_P_head, iHead);
  claimqBindCommonText(p, &s, CQ_P_claim, pWait->claimId);
  if( claimqStep(p, &s) ){
    iAt = claimqColInt(&s, CQ_COL_WAIT_STRICT_expires_at_ms);
    if( iAt<p->iNow ) iAt = p->iNow;
  }
  claimqStmtDone(p, &s);
  return iAt;
}

/*
** The end of any of several claims.
*/
static i64 cqWaitClaims(CqOp *p, CqWait *pWait){
  i64 iAt = CQ_I64_MAX;
  int i;
  for(i=0; i<pWait->nClaim && iAt>p->iNow && p->rc==SQLITE_OK; i++){
    i64 iEnd;
    pWait->claimId = pWait->aClaim[i];
    iEnd = cqWaitClaim(p, pWait);
    if( iEnd<iAt ) iAt = iEnd;
  }
  return iAt;
}

/*
** Something that a claim would take.
*/
static i64 cqWaitNextAt(CqOp *p, CqWait *pWait){
  i64 iAt = claimqLookNextAt(p, &pWait->look);
  return iAt==CQ_NO_TIME ? CQ_I64_MAX : iAt;
}

/**************************************************************************
** The functions
*/
static const CqArgDef cqWaitArg[] = {
  { CQ_ARG(INT, "timeout_ms"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "wait no longer than this; 0: look once" },
  { CQ_ARG(TEXT, "discipline"),
    .zDoc = "a discipline, or 'event', 'job', 'claim', 'claims', "
            "'lanes'; any commit if not given" },
  { CQ_ARG(ANY, "scope"),
    .zDoc = "the first argument of the claim table; for 'event' the last "
            "event_id that you know" },
};

/* What can be waited for beside claims. */
typedef struct CqWaitFor CqWaitFor;
struct CqWaitFor {
  const char *zName;
  i64 (*xLook)(CqOp*, CqWait*);
  CqArgDef arg;
};
static const CqWaitFor cqWaitFor[] = {
  { "event", cqWaitEvent, { CQ_ARG(INT, "last_event_id"),
    .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN } },
  { "job", cqWaitJob, { CQ_ARG(INT, "job_id"),
    .mFlag = CQ_A_REQUIRED, .iMin = CQ_I64_MIN } },
  { "claim", cqWaitClaim, { CQ_ARG(TEXT, "claim_id"),
    .mFlag = CQ_A_REQUIRED } },
  { "claims", cqWaitClaims, { CQ_ARG(ANY, "claims") } },
};

/*
** claimq_wait(timeout_ms, 'event', last_event_id) and its like: 1 if the name
** is one of them.
*/
static int cqWaitForArg(CqOp *p, CqWait *pWait, const CqCall *pCall){
  const CqWaitFor *pFor = cqWaitFor;
  CqVal v;
  while( !claimqTextEq(pCall->aArg[1].t, claimqStr(pFor->zName)) ){
    if( ++pFor==&cqWaitFor[CQ_ARRAYSIZE(cqWaitFor)] ) return 0;
  }
  if( pFor->xLook==cqWaitClaims ){
    pWait->nClaim = claimqLookList(p, pFor->zName, "ids of claims",
        pCall->nVal>2 ? pCall->apVal[2] : 0, &pWait->aClaim);
  }
  claimqRead(p, &pFor->arg, pCall->nVal>2 ? pCall->apVal[2] : 0, &v);
  if( pCall->nVal>3 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "'%s' takes no options", pFor->zName);
  }
  pWait->iKey = v.i;
  pWait->claimId = v.t;
  pWait->xLook = pFor->xLook;
  return 1;
}

/*
** claimq_wait(timeout_ms [, discipline, scope, ...]) -> 1 if there is
** something, 0 if the time is up.  Raises in_transaction and bad_argument.
*/
static void cqWaitFunc(CqOp *p, CqCall *pCall){
  CqText discipline = pCall->aArg[1].t;
  CqWait wait;
  int bFound;
  memset(&wait, 0, sizeof(wait));
  wait.msNextAt = CQ_I64_MAX;
  wait.msTimeout = pCall->aArg[0].i;
  if( pCall->nVal==1 ){
    wait.xLook = cqWaitAny;
  }else if( discipline.z==0 ){
    claimqFail(p, CQ_BAD_ARGUMENT,
               "discipline is required and may not be NULL");
  }else if( !cqWaitForArg(p, &wait, pCall) ){
    wait.xLook = cqWaitNextAt;
    claimqLookBegin(p, &wait.look, discipline,
                    "'event', 'job', 'claim', 'claims', 'lanes'");
    claimqLookArgs(p, &wait.look, 0, pCall->nVal-2, &pCall->apVal[2]);
    if( pCall->nVal==2 ){
      claimqFail(p, CQ_BAD_ARGUMENT, "scope is required: claimq_wait("
          "timeout_ms, discipline, scope [, option, value]...); NULL is any");
    }
  }
  bFound = cqWaitRun(p, &wait);
  claimqLookDone(&wait.look);
  sqlite3_free(wait.aClaim);
  if( p->rc ) return;
  if( pCall->nVal==1 && bFound ){
    p->pConn->iVersion = wait.iVersion;
    p->pConn->bVersion = 1;
  }
  sqlite3_result_int(pCall->pCtx, bFound);
}

static const CqArgDef cqNextAtArg[] = {
  { CQ_ARG(TEXT, "discipline"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "session, lane, outbox, contest, dead_letter; or 'lanes'" },
  { CQ_ARG(ANY, "scope"), .zDoc = "as the first argument of the claim table" },
};

/*
** claimq_next_at(discipline, scope, ...) -> when a claim could succeed; NULL
** if nobody knows.
*/
static void cqNextAtFunc(CqOp *p, CqCall *pCall){
  CqLook look;
  i64 iNext;
  claimqLookBegin(p, &look, pCall->aArg[0].t, "'lanes'");
  claimqLookArgs(p, &look, 1, pCall->nVal-1, &pCall->apVal[1]);
  iNext = claimqLookNextAt(p, &look);
  claimqLookDone(&look);
  if( p->rc==SQLITE_OK && iNext!=CQ_NO_TIME ){
    sqlite3_result_int64(pCall->pCtx, iNext);
  }
}

/*
** The definitions of both.
*/
CQ_PRIV const CqFuncDef *claimqWaitFuncs(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_wait", .zDoc = "sleep until there is something to claim",
      .eKind = CQ_F_WAIT, .nMin = 1, .bRest = 1, .eLook = 1, .aArg = cqWaitArg,
      .nArg = CQ_ARRAYSIZE(cqWaitArg), .xFunc = cqWaitFunc },
    { .zName = "claimq_next_at", .zDoc = "when a claim could succeed",
      .eKind = CQ_F_READ, .nMin = 2, .bRest = 1, .eLook = 2,
      .aArg = cqNextAtArg, .nArg = CQ_ARRAYSIZE(cqNextAtArg),
      .xFunc = cqNextAtFunc },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
