/*
** lane/keep.c: removing what has ended, after a while: jobs, events, groups.
**
**     SELECT claimq_policy('mail', 'keep_ms', 3600000);      -- for an hour
**     SELECT claimq_complete('qjc:17:1', :token);  -- and some older ones go
**
** Each lane says how long its jobs are kept: so jobs are removed in no fixed
** order, and an index by the time of the end, which every claim and complete
** would pay for, would not help.  Instead the jobs are looked at one after the
** other, in the order of their numbers, and those whose time is over are
** removed.  A position in claimq_meta says how far that got; at the end it
** begins anew.
**
** One end of a job in 32 (claimqKeepTurn()) looks at CQ_KEEP_LOOK jobs and as
** many events: four for each job that ends.  A round that looks at n jobs takes
** as long as n/4 jobs need to end.  So the table holds at most a third more
** than must be kept.
**
** Jobs come in the order of their numbers, and cannot have ended before they
** were created.  So a job that was created after the least time for which
** anything is kept ends the round: those behind it are younger still.  A lane
** whose jobs are all done soon looks at each job about once, when it removes
** it.  (A job from the future does not end a round: somebody has set its time.)
**
** A job stays, however old, while another that has not ended waits for it,
** while its source key is taken, and while its dead letter is open.
**
** Groups are looked at in the same way, but only twice a day, because most are
** used again and again: those that were not in use for CQ_KEEP_MS are removed.
** Only when the time of a group is over is it asked whether it is in use; if it
** is, its time begins anew.
*/
#include "lane.h"

#define CQ_KEEP_LOOK 128          /* Rows of each kind an ordinary call sees */
#define CQ_KEEP_MOST 1024         /* Rows it removes at most, in each kind */
#define CQ_KEEP_GROUPS "kept_group" /* In claimq_meta, see cqKeepGroups() */
#define CQ_KEEP_PAUSE 43200000    /* Between two rounds of groups: 12 hours */
#define CQ_KEEP_GROUP 256         /* Groups an ordinary call sees then */
#define CQ_KEEP_CHUNK 1000        /* Rows that claimq_vacuum() sees at once */
#define CQ_KEEP_WALK 100000       /* ... and in one call, if it has the lock */

/* One of the two kinds, and what the statements about it are called. */
typedef struct CqKeepKind CqKeepKind;
struct CqKeepKind {
  const char *zCursor;            /* In claimq_meta */
  int iCursor;                    /* Its column of KEEP_CURSORS, ... */
  int iFirst;                     /* ... and that of the time of its first */
  int eSelect, eDelete;
  u8 bJob;
};
static const CqKeepKind cqKeepKind[] = {
  { "kept_job", CQ_COL_KEEP_CURSORS_job, CQ_COL_KEEP_CURSORS_job_ms,
    CQ_SQL_KEEP_JOBS, CQ_SQL_KEEP_JOBS_DELETE, 1 },
  { "kept_event", CQ_COL_KEEP_CURSORS_event, CQ_COL_KEEP_CURSORS_event_ms,
    CQ_SQL_KEEP_EVENTS, CQ_SQL_KEEP_EVENTS_DELETE, 0 },
};

/* A walk over one kind. */
typedef struct CqWalk CqWalk;
struct CqWalk {
  const CqKeepKind *pKind;
  i64 iNow, iOlder;               /* iOlder: older_than_ms, or -1 */
  i64 iYoung;                     /* What is not older ends a round; or
                                  ** CQ_I64_MAX: nothing does */
  i64 iAt;                        /* Rows after this one come next */
  i64 nSeen;
  u8 bEnd;                        /* There are none, or younger ones */
  u8 bAfter;                      /* Jobs may be waited for */
  u8 bSteps;                      /* ... or have steps */
  char *zLane;                    /* keep is that of this lane */
  int nLane;
  CqPolicy keep;
  CqIds runs;                     /* Rows that go: first and last of each run
                                  ** without another between them */
  i64 nRun;                       /* ... this many */
  CqIds more;                     /* Jobs that go with rows of other tables */
};

/* Where a round is. */
typedef struct CqRound CqRound;
struct CqRound {
  i64 aiAt[CQ_ARRAYSIZE(cqKeepKind)];  /* What the last one has looked at */
  i64 iYoung;                     /* Since when something is too young to go,
                                  ** whatever its lane says: that ends a round
                                  ** of ordinary calls */
  i64 iGroup;                     /* The cursor of groups */
  u8 bGroups;                     /* Groups are to be looked at */
  u8 bAny;                        /* There is something to look at */
};

/*
** 1 if a statement that is asked about a job gives a row.
*/
static int cqKeepAsk(CqOp *p, int eStmt, int iParam, i64 iJob){
  CqStmt s = claimqStmt(p, eStmt);
  int bRow;
  if( iParam ) claimqBindInt(p, &s, iParam, iJob);
  bRow = claimqStep(p, &s);
  claimqStmtDone(p, &s);
  return bRow;
}

/*
** 1 if it is time to look at groups.  iGroup is positive while a round is under
** way: the last group that was seen.  Negative: when the next one begins.  0:
** none ever has.  (If the clock went back, a round begins early.)
*/
static int cqKeepGroupsDue(i64 iGroup, i64 iNow){
  i64 iPast = iGroup<0 ? iNow+iGroup : 0;         /* Since it is to begin */
  return iNow>CQ_KEEP_MS && (iPast>=0 || iPast<-CQ_KEEP_PAUSE);
}

/*
** Where the two kinds stand.  There is something to look at if a round is under
** way, or if the first row is not too young.
*/
static void cqKeepRound(CqOp *p, CqRound *pR){
  CqStmt s = claimqStmt(p, CQ_SQL_KEEP_CURSORS);
  i64 iNow = claimqNow(p), iLeast = CQ_KEEP_MS;
  int i, bRow = claimqStep(p, &s);
  memset(pR, 0, sizeof(*pR));
  if( bRow && claimqColType(&s, CQ_COL_KEEP_CURSORS_least)!=SQLITE_NULL
   && claimqColInt(&s, CQ_COL_KEEP_CURSORS_least)<iLeast
   && claimqColInt(&s, CQ_COL_KEEP_CURSORS_least)>=0
  ){
    iLeast = claimqColInt(&s, CQ_COL_KEEP_CURSORS_least);
  }
  pR->iYoung = iNow-iLeast;
  for(i=0; i<CQ_ARRAYSIZE(cqKeepKind) && bRow; i++){
    i64 iFirst = claimqColInt(&s, cqKeepKind[i].iFirst);
    pR->aiAt[i] = claimqColInt(&s, cqKeepKind[i].iCursor);
    if( pR->aiAt[i]>0
     || (claimqColType(&s, cqKeepKind[i].iFirst)!=SQLITE_NULL
         && (iFirst<pR->iYoung || iFirst>iNow))
    ){
      pR->bAny = 1;
    }
  }
  if( bRow ) pR->iGroup = claimqColInt(&s, CQ_COL_KEEP_CURSORS_grp);
  claimqStmtDone(p, &s);
  pR->bGroups = (claimqSettings(p) & CQ_SET_LIMITS)
             && cqKeepGroupsDue(pR->iGroup, iNow)
             && cqKeepAsk(p, CQ_SQL_KEEP_GROUP_ANY, 0, 0);
}

/*
** claimq_policy() says how long something is kept.  The least of all is
** remembered.  (It does not rise again: then rounds are longer than they would
** have to be.)
*/
CQ_PRIV void claimqLaneKeeps(CqOp *p, CqTask *pTask, const i64 *a){
  i64 aiKeep[2];
  int i;
  aiKeep[0] = a[CQ_POLICY_KEEP];
  aiKeep[1] = a[CQ_POLICY_KEEP_FAILED];
  for(i=0; i<2; i++){
    if( aiKeep[i]>0 && aiKeep[i]<CQ_KEEP_MS && p->rc==SQLITE_OK ){
      CqStmt s = claimqStmt(p, CQ_SQL_KEEP_LEAST);
      claimqBindInt(p, &s, CQ_KEEP_LEAST_value, aiKeep[i]);
      claimqExec(p, &s);
    }
  }
  if( a[CQ_POLICY_KEEP]==0 || a[CQ_POLICY_EVENTS]==0 ){
    claimqSettingsSet(p, pTask, CQ_SET_BRIEF);
  }
}

/**************************************************************************
** Lanes that want no events
*/

/*
** Before jobs end: the last event, if any lane wants none; else -1.
*/
CQ_PRIV i64 claimqLaneLastEvent(CqOp *p){
  i64 iLast = -1;
  CqStmt s;
  if( p->rc || (claimqSettings(p) & CQ_SET_BRIEF)==0 ) return -1;
  s = claimqStmt(p, CQ_SQL_KEEP_LAST_EVENT);
  if( claimqStep(p, &s) ){
    iLast = claimqColInt(&s, CQ_COL_KEEP_LAST_EVENT_event_id);
  }
  claimqStmtDone(p, &s);
  return iLast;
}

/*
** Afterwards: the events that a trigger has written since, and nobody wants.
*/
CQ_PRIV void claimqLaneNoEvents(CqOp *p, i64 iLast){
  CqStmt s;
  if( p->rc || iLast<0 ) return;
  s = claimqStmt(p, CQ_SQL_KEEP_NO_EVENTS);
  claimqBindInt(p, &s, CQ_KEEP_NO_EVENTS_event, iLast);
  claimqExec(p, &s);
}

/**************************************************************************
** A walk
*/

/*
** A walk was at iOld, and has got to iAt.
*/
static void cqKeepCursorSet(
  CqOp *p, const char *zCursor, i64 iAt, i64 iOld
){
  CqStmt s;
  if( p->rc || iAt==iOld ) return;
  s = claimqStmt(p, CQ_SQL_KEEP_CURSOR_SET);
  claimqBindText(p, &s, CQ_KEEP_CURSOR_SET_name, claimqStr(zCursor));
  claimqBindInt(p, &s, CQ_KEEP_CURSOR_SET_value, iAt);
  claimqExec(p, &s);
}

/*
** A walk over kind i that begins after row iAt.
*/
static void cqWalkInit(CqOp *p, CqWalk *pW, int i, i64 iOlder, i64 iAt){
  memset(pW, 0, sizeof(*pW));
  pW->pKind = &cqKeepKind[i];
  pW->iNow = claimqNow(p);
  pW->iOlder = iOlder;
  pW->iYoung = CQ_I64_MAX;
  pW->iAt = iAt;
  pW->bAfter = pW->pKind->bJob
            && (u8)cqKeepAsk(p, CQ_SQL_KEEP_AWAITED, 0, 0);
  pW->bSteps = pW->pKind->bJob && (u8)cqKeepAsk(p, CQ_SQL_STEP_ANY, 0, 0);
}

static void cqWalkClear(CqWalk *pW){
  sqlite3_free(pW->zLane);
  claimqIdsClear(&pW->runs);
  claimqIdsClear(&pW->more);
}

/*
** How long the row that pS stands on is kept.
*/
static i64 cqWalkKeep(CqOp *p, CqWalk *pW, const CqStmt *pS){
  CqText lane, last;
  if( pW->iOlder>=0 ) return pW->iOlder;
  lane = claimqColText(p, pS, CQ_COL_KEEP_JOBS_lane);
  last.z = pW->zLane;
  last.n = pW->nLane;
  if( !claimqTextEq(lane, last) ){
    sqlite3_free(pW->zLane);
    pW->zLane = claimqTextDup(p, lane);
    pW->nLane = lane.n;
    claimqPolicyOf(p, lane, &pW->keep);
  }
  return pW->keep.a[claimqColInt(pS, CQ_COL_KEEP_JOBS_failed)
                    ? CQ_POLICY_KEEP_FAILED : CQ_POLICY_KEEP];
}

/*
** 1 if the row that pS stands on may go.
*/
static int cqWalkGoes(CqOp *p, CqWalk *pW, const CqStmt *pS){
  i64 iId = claimqColInt(pS, CQ_COL_KEEP_JOBS_id);
  if( claimqColType(pS, CQ_COL_KEEP_JOBS_end_ms)!=SQLITE_INTEGER
   || !claimqKeepOver(claimqColInt(pS, CQ_COL_KEEP_JOBS_end_ms),
                      cqWalkKeep(p, pW, pS), pW->iNow)
  ){
    return 0;
  }
  if( !pW->pKind->bJob ) return 1;
  if( claimqColType(pS, CQ_COL_KEEP_JOBS_unique_until_ms)!=SQLITE_NULL
   && claimqColInt(pS, CQ_COL_KEEP_JOBS_unique_until_ms)>pW->iNow
  ){
    return 0;
  }
  if( pW->bAfter && cqKeepAsk(p, CQ_SQL_END_BLOCKED, CQ_END_BLOCKED_job, iId) ){
    return 0;
  }
  return !claimqColInt(pS, CQ_COL_KEEP_JOBS_failed)
      || !cqKeepAsk(p, CQ_SQL_KEEP_LETTER, CQ_KEEP_LETTER_job, iId);
}

/*
** A row goes.  bNext: so does the one before it.
*/
static void cqWalkAdd(CqOp *p, CqWalk *pW, const CqStmt *pS, int bNext){
  i64 iId = claimqColInt(pS, CQ_COL_KEEP_JOBS_id);
  if( pW->pKind->bJob && (claimqColInt(pS, CQ_COL_KEEP_JOBS_more)
   || (pW->bSteps && cqKeepAsk(p, CQ_SQL_STEP_OF, CQ_STEP_OF_job, iId)))
  ){
    claimqIdsAdd(p, &pW->more, iId);
    return;
  }
  pW->nRun++;
  assert( !bNext || pW->runs.n>0 );
  if( bNext ){
    pW->runs.a[pW->runs.n-1] = iId;
  }else{
    claimqIdsAdd(p, &pW->runs, iId);
    claimqIdsAdd(p, &pW->runs, iId);
  }
}

/*
** Look at nLook rows at most, and collect those that may go, nMost at most.
*/
static void cqWalkOn(CqOp *p, CqWalk *pW, i64 nLook, i64 nMost){
  CqStmt s = claimqStmt(p, pW->pKind->eSelect);
  i64 n = 0, nGo = 0;
  int bLast = 0;                  /* The row before goes, and is in runs */
  assert( pW->runs.n==0 && pW->more.n==0 && nLook>0 && nMost>0 );
  claimqBindInt(p, &s, CQ_KEEP_JOBS_from, pW->iAt);
  claimqBindInt(p, &s, CQ_KEEP_JOBS_limit, nLook);
  while( nGo<nMost && claimqStep(p, &s) ){
    i64 iSince = claimqColInt(&s, CQ_COL_KEEP_JOBS_since_ms);
    int nMore = pW->more.n;
    n++;
    if( iSince>=pW->iYoung && iSince<=pW->iNow ){
      n = 0;
      break;
    }
    pW->iAt = claimqColInt(&s, CQ_COL_KEEP_JOBS_id);
    if( cqWalkGoes(p, pW, &s) ){
      nGo++;
      cqWalkAdd(p, pW, &s, bLast);
      bLast = nMore==pW->more.n;
    }else{
      bLast = 0;
    }
  }
  claimqStmtDone(p, &s);
  pW->nSeen += n;
  if( n<nLook && nGo<nMost ) pW->bEnd = 1;
}

/*
** Remove what was collected, nMax rows at most.  Returns how many.  If there
** are more attempts and steps than may be removed at once, the walk goes on
** there.  (What a trigger keeps waits for the next round.)
*/
static i64 cqWalkRemove(CqOp *p, CqWalk *pW, i64 nMax){
  i64 n = 0;
  int i;
  assert( pW->nRun<=nMax );
  for(i=0; i<pW->runs.n && p->rc==SQLITE_OK; i+=2){
    CqStmt s = claimqStmt(p, pW->pKind->eDelete);
    claimqBindInt(p, &s, CQ_KEEP_JOBS_DELETE_first, pW->runs.a[i]);
    claimqBindInt(p, &s, CQ_KEEP_JOBS_DELETE_last, pW->runs.a[i+1]);
    n += claimqExec(p, &s);
  }
  if( pW->more.n && CQ_ALWAYS(n<nMax) ){
    if( pW->bSteps ){
      n += claimqVacuumList(p, CQ_SQL_STEP_OLD, &pW->more, nMax-n);
    }
    n += claimqVacuumList(p, CQ_SQL_KEEP_PAST, &pW->more, nMax-n);
    if( pW->bAfter && n<nMax ){
      n += claimqVacuumList(p, CQ_SQL_KEEP_AFTER, &pW->more, nMax-n);
    }
    if( n<nMax ) n += claimqVacuumList(p, CQ_SQL_KEEP_REST, &pW->more, nMax-n);
  }
  if( pW->more.n && n>=nMax ){
    pW->iAt = pW->more.a[0]-1;
    pW->bEnd = 0;
  }
  pW->runs.n = pW->more.n = 0;
  pW->nRun = 0;
  return n;
}

/**************************************************************************
** Ordinary calls
*/

/*
** 1 if the call that ends job iJob is to remove what may go.  Reads only.
*/
CQ_PRIV int claimqLaneForgets(CqOp *p, i64 iJob){
  CqRound r;
  if( p->rc || !claimqKeepTurn(iJob, 1) ) return 0;
  cqKeepRound(p, &r);
  return r.bAny || r.bGroups;
}

/*
** Groups that nobody has used for CQ_KEEP_MS go, with their heads and starts;
** what is left of one if these are many goes in a later round.  The first round
** begins CQ_KEEP_PAUSE after the first look, as each does after the one before.
*/
static void cqKeepGroups(CqOp *p, i64 iStart){
  i64 iNext = -claimqAddSat(claimqNow(p), CQ_KEEP_PAUSE), iAt = 0, n = 0;
  CqIds used, gone;
  CqStmt s;
  if( iStart==0 ){
    cqKeepCursorSet(p, CQ_KEEP_GROUPS, iNext, 0);
    return;
  }
  s = claimqStmt(p, CQ_SQL_KEEP_GROUPS);
  memset(&used, 0, sizeof(used));
  memset(&gone, 0, sizeof(gone));
  claimqBindInt(p, &s, CQ_KEEP_GROUPS_from, iStart>0 ? iStart : 0);
  claimqBindInt(p, &s, CQ_KEEP_GROUPS_limit, CQ_KEEP_GROUP);
  claimqBindInt(p, &s, CQ_KEEP_GROUPS_now, claimqNow(p));
  claimqBindInt(p, &s, CQ_KEEP_GROUPS_old, claimqNow(p)-CQ_KEEP_MS);
  while( claimqStep(p, &s) ){
    iAt = claimqColInt(&s, CQ_COL_KEEP_GROUPS_id);
    n++;
    if( claimqColType(&s, CQ_COL_KEEP_GROUPS_used)==SQLITE_NULL ) continue;
    claimqIdsAdd(p, claimqColInt(&s, CQ_COL_KEEP_GROUPS_used) ? &used : &gone,
                 iAt);
  }
  claimqStmtDone(p, &s);
  if( used.n && p->rc==SQLITE_OK ){
    s = claimqStmt(p, CQ_SQL_KEEP_GROUPS_USED);
    claimqBindIds(p, &s, CQ_KEEP_GROUPS_USED_ids, &used);
    claimqBindInt(p, &s, CQ_KEEP_GROUPS_USED_now, claimqNow(p));
    claimqExec(p, &s);
  }
  if( gone.n && p->rc==SQLITE_OK ){
    claimqVacuumList(p, CQ_SQL_LIMIT_OLD_GROUPS_START, &gone, CQ_KEEP_MOST);
    claimqVacuumList(p, CQ_SQL_KEEP_GROUPS_HEADS, &gone, CQ_KEEP_MOST);
    claimqVacuumList(p, CQ_SQL_LIMIT_OLD_GROUPS_DELETE, &gone, CQ_KEEP_MOST);
  }
  cqKeepCursorSet(p, CQ_KEEP_GROUPS, n<CQ_KEEP_GROUP ? iNext : iAt, iStart);
  claimqIdsClear(&used);
  claimqIdsClear(&gone);
}

/*
** Do it.
*/
CQ_PRIV void claimqLaneForget(CqOp *p){
  CqRound r;
  int i;
  cqKeepRound(p, &r);
  for(i=0; i<CQ_ARRAYSIZE(cqKeepKind); i++){
    CqWalk w;
    cqWalkInit(p, &w, i, -1, r.aiAt[i]);
    w.iYoung = r.iYoung;
    if( p->rc==SQLITE_OK ) cqWalkOn(p, &w, CQ_KEEP_LOOK, CQ_KEEP_LOOK);
    cqWalkRemove(p, &w, CQ_KEEP_MOST);
    if( w.bEnd ) w.iAt = 0;
    cqKeepCursorSet(p, w.pKind->zCursor, w.iAt, r.aiAt[i]);
    cqWalkClear(&w);
  }
  if( r.bGroups && p->rc==SQLITE_OK ) cqKeepGroups(p, r.iGroup);
}

/*
** The task has ended the jobs of a list, other than by a verb: do it if one of
** them has the turn.
*/
CQ_PRIV void claimqLaneForgetAfter(
  CqOp *p, const CqTask *pTask, const CqIds *pIds
){
  i64 i;
  if( pTask->bAlone ) return;
  for(i=0; i<pIds->n && p->rc==SQLITE_OK; i++){
    if( claimqLaneForgets(p, pIds->a[i]) ){
      claimqLaneForget(p);
      return;
    }
  }
}

/**************************************************************************
** claimq_vacuum()
*/

/*
** Look at all rows once, from where the last walk ended on, until something is
** found (bLook) or as much is removed as may be.  So to remove everything takes
** one round in all, however many calls.
*/
static void cqKeepVacuum(CqOp *p, CqVacuum *pV, int i, i64 iStart){
  CqWalk w;
  i64 nMost;
  int bAgain = iStart>0;          /* From the beginning up to iStart */
  cqWalkInit(p, &w, i, pV->iOlder, iStart);
  while( p->rc==SQLITE_OK && pV->nLeft>0 && !pV->bAny ){
    nMost = pV->bLook ? 1 : pV->nLeft<CQ_KEEP_CHUNK ? pV->nLeft : CQ_KEEP_CHUNK;
    cqWalkOn(p, &w, CQ_KEEP_CHUNK, nMost);
    if( pV->bLook ) pV->bAny = w.nRun>0 || w.more.n>0;
    else claimqVacuumed(pV, cqWalkRemove(p, &w, pV->nLeft));
    if( w.bEnd ){
      w.bEnd = 0;
      w.iAt = 0;
      if( !bAgain ) break;
      bAgain = 0;
    }else if( !bAgain && iStart>0 && w.iAt>=iStart ){
      break;
    }
    if( !pV->bLook && w.nSeen>=CQ_KEEP_WALK ) break;
  }
  if( !pV->bLook ) cqKeepCursorSet(p, w.pKind->zCursor, w.iAt, iStart);
  cqWalkClear(&w);
}

/*
** Jobs that wait for one which is not there go on as if it had been cancelled.
** They are not counted.
*/
static void cqKeepStray(CqOp *p, CqVacuum *pV){
  CqIds ids;
  CqStmt s;
  i64 iEvent;
  if( !cqKeepAsk(p, CQ_SQL_KEEP_AWAITED, 0, 0) ) return;
  memset(&ids, 0, sizeof(ids));
  s = claimqStmt(p, CQ_SQL_KEEP_STRAY);
  claimqBindInt(p, &s, CQ_KEEP_STRAY_limit, pV->bLook ? 1 : CQ_KEEP_CHUNK);
  while( claimqStep(p, &s) ){
    i64 iId = claimqColInt(&s, CQ_COL_KEEP_STRAY_id);
    if( ids.n==0 || ids.a[ids.n-1]!=iId ) claimqIdsAdd(p, &ids, iId);
  }
  claimqStmtDone(p, &s);
  if( pV->bLook ){
    pV->bAny = ids.n>0;
  }else if( ids.n>0 ){
    iEvent = claimqLaneLastEvent(p);
    claimqLaneOver(p, &ids, 1);
    claimqLaneNoEvents(p, iEvent);
  }
  claimqIdsClear(&ids);
}

/*
** xVacuum: jobs, then events.
*/
CQ_PRIV void claimqLaneVacuum(CqOp *p, CqVacuum *pV){
  CqRound r;
  int i;
  cqKeepStray(p, pV);
  cqKeepRound(p, &r);
  for(i=0; i<CQ_ARRAYSIZE(cqKeepKind); i++){
    if( pV->nLeft>0 && !pV->bAny ) cqKeepVacuum(p, pV, i, r.aiAt[i]);
  }
}
