/*
** replay.c: one claim per statement.
**
** However SQLite plans a statement, equal arguments are one claim in it:
**
**     WITH k AS (SELECT * FROM claimq('s','w'))
**     SELECT (SELECT payload FROM k), claim_id FROM k;
**
**     SELECT u.x, c.payload
**     FROM (SELECT x FROM a UNION ALL SELECT x FROM b) AS u
**     JOIN claimq('s','w') AS c;
**
** SQLite 3.41 and later run k twice, on two cursors; all versions turn the
** second statement into two joins, of a and of b.  And xFilter of any cursor is
** called as often as the plan likes.  So what a list of arguments has given is
** an answer (CqAnswer) that is replayed when they come again, from whichever
** cursor, as long as this execution of the statement lasts (CqReplay).  A
** statement that is run again claims again, and of two statements that are
** open at the same time each has its own.
**
** SQLite does not tell a virtual table which statement a cursor belongs to.
** But when xBestIndex is called, the statement being compiled can be seen: it
** is the first in sqlite3_next_stmt() that has no text yet.  Each prepare gets
** a number (CqPrep), and the number travels with the plan to xFilter.
**
** Two calls of xBestIndex belong to the same prepare if they see the same
** pointer and no cursor was opened in between.  The pointer is good for nothing
** else: SQLite uses the addresses of old statements for new ones, and when it
** prepares a statement again, it compiles at an address of its own and swaps.
** So a number can be given twice, but only to a statement that took the place
** of one that is gone; or of one that was prepared again, came to its end
** without opening a claim table, and is still there.  Those two have one claim
** if they are later open at the same time.
**
** An execution lasts as long as a cursor is open that was filtered in it, for
** SQLite closes cursors when a statement ends.  Until 3.51 it also opens them
** anew for each run of a correlated subquery: xOpen of the new cursor is
** followed at once by xClose of the old one, for one after the other, and only
** then is the first of the new ones filtered.  So if an xClose that follows an
** xOpen leaves no cursor, then the execution goes on as long as there are
** cursors that were not yet filtered, and one of those can take it up, if it is
** filtered by the same prepare.  These cursors may belong to another statement,
** and the execution may have ended (an application's function has
** closed a statement in between).  That does no harm: when the statement is run
** again, its cursors are newer.
**
** The statements of a trigger in the temp schema are compiled together and
** have a number of their own, and its cursors are closed each time it has
** fired: so each firing claims, once for equal arguments.
*/
#include "claimq_int.h"

/**************************************************************************
** Prepares
*/

/*
** The statement that is being compiled.  Statements that another virtual table
** has prepared meanwhile may stand in front of it.
*/
static sqlite3_stmt *cqPrepStmt(sqlite3 *db){
  sqlite3_stmt *p = sqlite3_next_stmt(db, 0);
  while( CQ_ALWAYS(p) && sqlite3_sql(p) ) p = sqlite3_next_stmt(db, p);
  return p;
}

/*
** The prepare that xBestIndex is called for.  A trigger is compiled in a
** statement of its own, while the one that fires it is: then that is next in
** the list, and has no text either.
*/
CQ_PRIV CqPrep *claimqPrepNow(CqConn *pConn){
  CqClaims *p = &pConn->claims;
  sqlite3_stmt *pStmt = cqPrepStmt(pConn->db);
  sqlite3_stmt *pBelow = sqlite3_next_stmt(pConn->db, pStmt);
  CqPrep *pPrep;
  i64 i;
  if( pBelow && sqlite3_sql(pBelow) ) pBelow = 0;
  for(i=p->iPrep; i>p->iSeen && i>p->iPrep-CQ_NPREP; i--){
    pPrep = &p->aPrep[i%CQ_NPREP];
    if( pPrep->pStmt==pStmt && pPrep->pBelow==pBelow ) return pPrep;
  }
  assert( p->iSeen<=p->iPrep );
  pPrep = &p->aPrep[++p->iPrep%CQ_NPREP];
  memset(pPrep, 0, sizeof(*pPrep));
  pPrep->iPrep = p->iPrep;
  pPrep->pStmt = pStmt;
  pPrep->pBelow = pBelow;
  return pPrep;
}

/*
** What is known of a prepare; 0 if too many came after it to remember it.
*/
CQ_PRIV CqPrep *claimqPrepFind(CqConn *pConn, i64 iPrep){
  CqPrep *pPrep = &pConn->claims.aPrep[iPrep%CQ_NPREP];
  assert( iPrep>=0 && iPrep<=pConn->claims.iPrep );
  return pPrep->iPrep==iPrep ? pPrep : 0;
}

/*
** The statement of a prepare, if it is under way.  0 if it cannot be found
** because it was prepared again.
*/
static sqlite3_stmt *cqPrepRunning(sqlite3 *db, const CqPrep *pPrep){
  sqlite3_stmt *p = sqlite3_next_stmt(db, 0);
  while( p && p!=pPrep->pStmt ) p = sqlite3_next_stmt(db, p);
  return p && sqlite3_stmt_busy(p) ? p : 0;
}

/*
** 0 if the statement returns rows before it claims.  SQLite counts its steps
** when sqlite3_step() returns: so if there are any in the first run, a row was
** returned.  1 if that is not known, because the statement cannot be found or
** its first run claimed nothing: nearly all claim first.
*/
CQ_PRIV int claimqPrepFresh(CqConn *pConn, CqPrep *pPrep){
  sqlite3_stmt *p = pPrep ? cqPrepRunning(pConn->db, pPrep) : 0;
  if( p && sqlite3_stmt_status(p, SQLITE_STMTSTATUS_RUN, 0)==1
   && sqlite3_stmt_status(p, SQLITE_STMTSTATUS_VM_STEP, 0)>0
  ){
    pPrep->bLate = 1;
  }
  return p==0 || !pPrep->bLate;
}

/*
** The only statement that is under way; 0 if there are several.
*/
static sqlite3_stmt *cqPrepOnly(sqlite3 *db){
  sqlite3_stmt *p, *pBusy = 0;
  for(p=sqlite3_next_stmt(db, 0); p; p=sqlite3_next_stmt(db, p)){
    if( !sqlite3_stmt_busy(p) ) continue;
    if( pBusy ) return 0;
    pBusy = p;
  }
  return pBusy;
}

/*
** A table of the statement seemed to have no plan but one that xFilter refuses.
** That may have been said of an earlier statement, which was never run, at the
** same address.  So ask SQLite for the program: 1 if there is such a plan in
** it.  0 if not, which is remembered, or if the statement cannot be found
** because it was prepared again, and is not the only one that is under way, or
** if op gets an error here.
*/
CQ_PRIV int claimqPrepRefused(CqOp *pOp, CqPrep *pPrep){
  sqlite3_stmt *p = cqPrepRunning(pOp->db, pPrep);
  sqlite3_stmt *pProgram = 0;
  char *zSql;
  int rc, bFound = 0;
  assert( pOp->rc==SQLITE_OK );
  if( p==0 ) p = cqPrepOnly(pOp->db);
  if( p==0 ) return 0;
  zSql = sqlite3_mprintf(claimqSql[CQ_SQL_CLAIM_EXPLAIN].zSql, sqlite3_sql(p));
  rc = zSql ? sqlite3_prepare_v2(pOp->db, zSql, -1, &pProgram, 0)
            : SQLITE_NOMEM;
  while( rc==SQLITE_OK && !bFound
      && (rc = sqlite3_step(pProgram))==SQLITE_ROW
  ){
    const char *zOp = (const char*)sqlite3_column_text(pProgram, 1);
    const char *zP4 = (const char*)sqlite3_column_text(pProgram, 5);
    bFound = CQ_ALWAYS(zOp) && zP4 && strcmp(zOp, "VFilter")==0
          && claimqPlanBad(zP4);
    rc = SQLITE_OK;
  }
  if( rc==SQLITE_DONE ) rc = SQLITE_OK;
  claimqFailRc(pOp, rc);
  if( rc==SQLITE_OK && !bFound ) pPrep->nAvoid = 0;
  sqlite3_finalize(pProgram);
  sqlite3_free(zSql);
  return bFound;
}

/**************************************************************************
** Executions and their cursors
*/

/*
** A new execution; 0 if op has an error or gets one here.
*/
static CqReplay *cqReplayNew(CqOp *pOp, i64 iPrep){
  CqClaims *pClaims = &pOp->pConn->claims;
  CqReplay *p = &pClaims->first;
  if( p->bLinked && (p = claimqMalloc(pOp, sizeof(*p)))==0 ) return 0;
  assert( p->nUser==0 && p->pAnswer==0 && p->pRoot==0 );
  p->iPrep = iPrep;
  p->bLinked = 1;
  p->pNext = pClaims->pReplay;
  pClaims->pReplay = p;
  return p;
}

/*
** The execution of prepare iPrep that a cursor opened as the iOpen-th may take
** part in; 0 if there is none.
*/
static CqReplay *cqReplaySearch(CqClaims *pClaims, i64 iPrep, i64 iOpen){
  CqReplay *p = pClaims->pReplay;
  while( p && (p->iPrep!=iPrep || (p->nUser==0 && iOpen>p->iLast)) ){
    p = p->pNext;
  }
  return p;
}

/*
** Is there a cursor that can still take up an execution without cursors?
*/
static int cqReplayAwaited(const CqClaims *pClaims, const CqReplay *p){
  const CqUser *pUser = pClaims->pFresh;
  while( pUser && pUser->iOpen>p->iLast ) pUser = pUser->pNext;
  return pUser!=0;
}

/*
** Free the executions that have no cursor and will get none.
*/
static void cqReplaySweep(CqClaims *pClaims){
  CqReplay **pp = &pClaims->pReplay;
  while( *pp ){
    CqReplay *p = *pp;
    if( p->nUser>0 || cqReplayAwaited(pClaims, p) ){
      pp = &p->pNext;
      continue;
    }
    *pp = p->pNext;
    while( p->pAnswer ) claimqReplayForget(pClaims, p);
    assert( p->pRoot==0 );
    p->bLinked = 0;
    if( p!=&pClaims->first ) sqlite3_free(p);
  }
}

/*
** A cursor is not fresh any more.
*/
static void cqUserUsed(CqClaims *pClaims, CqUser *pUser){
  CqUser **pp = &pClaims->pFresh;
  if( !pUser->bFresh ) return;
  while( *pp!=pUser ){
    assert( *pp!=0 && (*pp)->bFresh );
    pp = &(*pp)->pNext;
  }
  *pp = pUser->pNext;
  pUser->bFresh = 0;
}

/*
** xOpen.  What is compiled from now on is another statement.
*/
CQ_PRIV void claimqUserOpen(CqConn *pConn, CqUser *pUser){
  CqClaims *pClaims = &pConn->claims;
  pClaims->iSeen = pClaims->iPrep;
  memset(pUser, 0, sizeof(*pUser));
  pUser->iOpen = ++pClaims->iOpen;
  pClaims->bOpened = 1;
  pUser->bFresh = 1;
  pUser->pNext = pClaims->pFresh;
  pClaims->pFresh = pUser;
}

/*
** xFilter: the cursor takes part in an execution of prepare iPrep.  If op has
** an error or gets one here, pUser->pReplay may be 0.
*/
CQ_PRIV void claimqUserEnter(CqOp *pOp, CqUser *pUser, i64 iPrep){
  CqClaims *pClaims = &pOp->pConn->claims;
  pClaims->bOpened = 0;
  if( pUser->pReplay==0 ){
    CqReplay *p = cqReplaySearch(pClaims, iPrep, pUser->iOpen);
    if( p==0 ) p = cqReplayNew(pOp, iPrep);
    if( p ) p->nUser++;
    pUser->pReplay = p;
    cqUserUsed(pClaims, pUser);
    cqReplaySweep(pClaims);
  }
  assert( pOp->rc || pUser->pReplay->iPrep==iPrep );
}

/*
** xClose: the cursor leaves its execution, which ends with the last one unless
** a fresh cursor may still take it up.
*/
CQ_PRIV void claimqUserClose(CqConn *pConn, CqUser *pUser){
  CqClaims *pClaims = &pConn->claims;
  CqReplay *p = pUser->pReplay;
  cqUserUsed(pClaims, pUser);
  assert( p==0 || p->nUser>0 );
  if( p && --p->nUser==0 ) p->iLast = pClaims->bOpened ? pClaims->iOpen : 0;
  pClaims->bOpened = 0;
  cqReplaySweep(pClaims);
}

/**************************************************************************
** Answers
*/

/*
** The type of an argument: one that is not given is NULL, and a REAL counts as
** INTEGER, because a binding may bind every number as REAL.
*/
static int cqArgType(sqlite3_value *pVal){
  int eType = pVal ? sqlite3_value_type(pVal) : SQLITE_NULL;
  return eType==SQLITE_FLOAT ? SQLITE_INTEGER : eType;
}

/*
** 1 if a value equals what was copied before, as SQLite compares: 1 is 1.0, and
** not '1'.  (A REAL that is no integer is refused before there is an answer.)
*/
static int cqValueSame(const CqCell *pCell, sqlite3_value *pVal){
  int eType = cqArgType(pVal);
  if( pCell->eType==SQLITE_FLOAT ){
    return eType==SQLITE_INTEGER && sqlite3_value_double(pVal)==pCell->u.r
        && sqlite3_value_int64(pVal)==(i64)pCell->u.r;
  }
  if( eType!=pCell->eType ) return 0;
  switch( eType ){
    case SQLITE_NULL:
      return 1;
    case SQLITE_INTEGER:
      return sqlite3_value_int64(pVal)==pCell->u.i
          && sqlite3_value_double(pVal)==(double)pCell->u.i;
    default: {
      int n = sqlite3_value_bytes(pVal);
      const void *z = sqlite3_value_blob(pVal);
      return n==pCell->n
          && (n==0 || (CQ_ALWAYS(z) && memcmp(z, pCell->u.z, (size_t)n)==0));
    }
  }
}

/*
** 1 if the answer is that of table pDef to these arguments.
*/
static int cqAnswerFits(
  const CqAnswer *p, const CqTableDef *pDef, sqlite3_value **apArg
){
  int i;
  if( p->pDef!=pDef ) return 0;
  for(i=0; i<pDef->nArg; i++){
    if( !cqValueSame(&p->aArg[i], apArg[i]) ) return 0;
  }
  return 1;
}

/*
** A hash of the arguments: the way through the tree.
*/
static u32 cqArgsHash(int nArg, sqlite3_value **apArg){
  u32 h = 0;
  int i, j;
  for(i=0; i<nArg; i++){
    int eType = cqArgType(apArg[i]);
    h = h*31 + (u32)eType;
    if( eType==SQLITE_INTEGER ){
      h = h*31 + (u32)sqlite3_value_int64(apArg[i]);
    }else if( eType==SQLITE_TEXT ){
      int n = sqlite3_value_bytes(apArg[i]);
      const unsigned char *z = sqlite3_value_blob(apArg[i]);
      for(j=0; z && j<n; j++) h = h*31 + z[j];
    }
  }
  return h;
}

/*
** The place in the tree where the answer to these arguments is, or would be.
** There may be many answers (a join claims once for each row of another
** table), so they are not looked through one by one.
*/
static CqAnswer **cqReplaySlot(
  CqReplay *p, const CqTableDef *pDef, sqlite3_value **apArg
){
  CqAnswer **pp = &p->pRoot;
  u32 h = *pp ? cqArgsHash(pDef->nArg, apArg) : 0;
  while( *pp && !cqAnswerFits(*pp, pDef, apArg) ){
    pp = &(*pp)->apKid[h & 1];
    h = (h>>1) | (h<<31);
  }
  return pp;
}

/*
** What table pDef has given for these arguments (nArg of them, 0 if not given);
** 0 if nothing was asked yet, or if there was nothing to do.
*/
CQ_PRIV CqAnswer *claimqReplayFind(
  CqReplay *p, const CqTableDef *pDef, sqlite3_value **apArg
){
  return *cqReplaySlot(p, pDef, apArg);
}

/*
** An empty answer of nCol columns: the one that was forgotten last, or a new
** one.  0 if op has an error or gets one here.  To keep it, with its memory,
** saves 7 % of an idle claim.
*/
static CqAnswer *cqAnswerNew(CqOp *pOp, int nCol){
  CqClaims *pClaims = &pOp->pConn->claims;
  CqAnswer *p = pClaims->pSpare;
  if( pOp->rc ) return 0;
  if( p ){
    pClaims->pSpare = 0;
    claimqRowsReuse(&p->rows, nCol);
  }else{
    p = claimqMalloc(pOp, sizeof(*p));
    if( p ) claimqRowsInit(&p->rows, nCol);
  }
  return p;
}

/*
** Free the answer that is kept.
*/
static void cqAnswerFree(CqClaims *pClaims){
  if( pClaims->pSpare==0 ) return;
  claimqRowsClear(&pClaims->pSpare->rows);
  sqlite3_free(pClaims->pSpare);
  pClaims->pSpare = 0;
}

/*
** Did the latest answer claim something, or complete what was done?
*/
CQ_PRIV int claimqReplayActed(const CqReplay *p){
  return p->pAnswer && (p->pAnswer->rows.nRow>0 || p->pAnswer->bActed);
}

/*
** Begin an answer, before anything is written: remember the arguments.  It is
** the latest from now on; 0 if op has an error or gets one here.  Only answers
** that changed something are kept for good, so that a join over many idle
** sessions stays small: one without rows must not be kept by anybody.
*/
CQ_PRIV CqAnswer *claimqReplayBegin(
  CqOp *pOp, CqReplay *p, const CqTableDef *pDef, int nCol,
  sqlite3_value **apArg
){
  CqClaims *pClaims = &pOp->pConn->claims;
  CqAnswer *pNew;
  int i;
  assert( pDef->nArg<=CQ_MAX_ARG && p->nUser>0 );
  if( p->pAnswer && !claimqReplayActed(p) ){
    claimqReplayForget(pClaims, p);
  }
  pNew = cqAnswerNew(pOp, nCol);
  if( pNew==0 ) return 0;
  pNew->pNext = p->pAnswer;
  p->pAnswer = pNew;
  pNew->ppSlot = cqReplaySlot(p, pDef, apArg);
  assert( *pNew->ppSlot==0 );     /* Or it would have been replayed */
  *pNew->ppSlot = pNew;
  pNew->pDef = pDef;
  pNew->bActed = 0;
  for(i=0; i<pDef->nArg; i++){
    pNew->aArg[i].eType = SQLITE_NULL;
    if( apArg[i] ) claimqCellValue(pOp, &pNew->rows, &pNew->aArg[i], apArg[i]);
  }
  return pNew;
}

/*
** Forget the latest answer.  It is kept, to be used for the next.
*/
CQ_PRIV void claimqReplayForget(CqClaims *pClaims, CqReplay *p){
  CqAnswer *pOld = p->pAnswer;
  assert( pOld->apKid[0]==0 && pOld->apKid[1]==0 );
  assert( *pOld->ppSlot==pOld );
  *pOld->ppSlot = 0;
  p->pAnswer = pOld->pNext;
  cqAnswerFree(pClaims);
  pClaims->pSpare = pOld;
}
