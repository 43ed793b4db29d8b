/*
** session/any.c: a claim of any session chooses one.
**
** It takes the first session that has something to give, in the order of their
** first claimable batches.  As a rule it reads the streams of all sessions; in
** a database that keeps a row for each session (sql/schema/session.sql) it
** reads these rows.
*/
#include "session.h"

/*
** Any session: 1 if the session gives something to the claim.  pB is its first
** claimable batch.  A batch that keeps a serial claim away is listed as passed
** over, so that what is known of the session can say so.
*/
static int cqSessionGives(
  CqOp *p, CqClaim *pC, CqText session, const CqBatch *pB, int bSerial
){
  CqSession *pOwn = (CqSession*)&pC->own;
  CqSelect sel;
  claimqSelectInit(&sel, pOwn->eBoundary, pOwn->eTake, 1);
  if( !claimqSelectOffer(&sel, &pB->cand) ) return 0;
  if( !bSerial ) return 1;
  if( claimqSessionBusy(p, session, &pOwn->iKept, 0) ){
    if( pOwn->bKept && pC->pDef->bWrites ){
      claimqIdsNote(p, &pOwn->passed, pOwn->iKept);
    }
    return 0;
  }
  return pB->iSeq<pOwn->iKept;
}

/**************************************************************************
** By the rows that the database keeps for its sessions
*/
#define CQ_KNOWN_ANY     0        /* claimq_session.state */
#define CQ_KNOWN_COMMAND 1
#define CQ_KNOWN_TURN    2
#define CQ_KNOWN_LATE    3
#define CQ_KNOWN_BUSY    4        /* is added */
#define CQ_NKNOWN        8

typedef struct CqBest CqBest;     /* The best session so far */
struct CqBest {
  i64 iSeq;                       /* Its first batch; CQ_I64_MAX: none */
  i64 iKept;                      /* As CqSession.iKept */
  char *zSession;
  int nSession;
  int bSerial;                    /* The claim is serial */
  int iPassed, nPassed;           /* What was passed over there, in the list */
  int bBad;                       /* ... and a row that was corrupted */
};

/*
** 1 if the claim may take from sessions in this state.
*/
static int cqKnownFits(const CqClaim *pC, int eState, int bSerial){
  const CqSession *pOwn = (const CqSession*)&pC->own;
  assert( eState>=0 && eState<CQ_NKNOWN );
  if( eState>=CQ_KNOWN_BUSY && bSerial ) return 0;
  switch( eState & ~CQ_KNOWN_BUSY ){
    case CQ_KNOWN_ANY:
      return 1;
    case CQ_KNOWN_COMMAND:
      return pOwn->eTake!=CQ_TAKE_TURN;
    case CQ_KNOWN_TURN:
      return pOwn->eTake!=CQ_TAKE_COMMAND;
    default:
      assert( (eState & ~CQ_KNOWN_BUSY)==CQ_KNOWN_LATE );
      return pOwn->eTake!=CQ_TAKE_COMMAND && pOwn->eBoundary==CQ_BOUNDARY_IDLE;
  }
}

/*
** What is known of the session is wrong: have it repaired, if the claim writes.
** Returns 1 if it will be.
*/
static int cqKnownWrong(CqOp *p, CqClaim *pC, CqText session){
  CqSession *pOwn = (CqSession*)&pC->own;
  if( !pC->pDef->bWrites ) return 0;
  if( claimqNamesHas(&pOwn->wrong, session) ) return 1;
  if( pOwn->wrong.n>=CQ_DUE_MOST ) return 0;
  claimqNamesAdd(p, &pOwn->wrong, session);
  return 1;
}

/*
** The same of a session whose first batch is iFirst.  If nothing was passed
** over on the way there (bPassed), one such session need not be looked at:
** mostly it is the one that the claim before this took from.
*/
static void cqKnownLate(
  CqOp *p, CqClaim *pC, CqText session, i64 iFirst, int bPassed
){
  CqSession *pOwn = (CqSession*)&pC->own;
  if( bPassed || pOwn->passed.n>=CQ_DUE_MOST || pOwn->iLate
   || !pC->pDef->bWrites
   || claimqNamesHas(&pOwn->wrong, session)
  ){
    cqKnownWrong(p, pC, session);
    return;
  }
  pOwn->late.z = claimqTextDup(p, session);
  pOwn->late.n = session.n;
  if( pOwn->late.z ) pOwn->iLate = iFirst;
}

/*
** The session is the best one now.  Of the one that was nothing is taken, so
** what is known of it is wrong: it gives something, but later than that.
*/
static void cqKnownBest(
  CqOp *p, CqClaim *pC, CqText session, CqBest *pBest, int nPassed
){
  CqSession *pOwn = (CqSession*)&pC->own;
  if( pBest->zSession ){
    CqText was = {pBest->zSession, pBest->nSession};
    cqKnownLate(p, pC, was, pBest->iSeq, pBest->nPassed>0 || pBest->bBad);
    sqlite3_free(pBest->zSession);
  }
  pBest->zSession = claimqTextDup(p, session);
  pBest->nSession = session.n;
  pBest->iKept = pOwn->iKept;
  pBest->iPassed = nPassed;
  pBest->nPassed = pOwn->passed.n-nPassed;
}

/*
** Look at a session: if it gives something, and that comes before what the best
** one gives, it is the best now.  If not, what is known of it is wrong, or it
** would not have been looked at; and so that there is something to be known,
** the rows that are held are moved out of the way.
*/
static void cqKnownLook(CqOp *p, CqClaim *pC, CqText session, CqBest *pBest){
  CqSession *pOwn = (CqSession*)&pC->own;
  int bWrites = pC->pDef->bWrites;
  i64 iKept = pOwn->iKept;
  int nPassed = pOwn->passed.n, bBad = 0;
  const CqBatch *pB;
  CqStreams s;
  claimqStreamsOpen(p, &s, session, bWrites ? &pOwn->passed : 0,
                bWrites ? &pOwn->due : 0);
  while( (pB = claimqStreamsHead(p, &s))!=0 && pB->eWhy!=CQ_WHY_CLAIMABLE ){
    claimqBatchBad(p, pC, pB);
    claimqStreamsNext(p, &s, pB);
    bBad = 1;
  }
  if( pB && pB->iSeq<pBest->iSeq
   && cqSessionGives(p, pC, session, pB, pBest->bSerial)
  ){
    cqKnownBest(p, pC, session, pBest, nPassed);
    pBest->iSeq = pB->iSeq;
    pBest->bBad = bBad;
  }else if( pB && pB->iSeq>=pBest->iSeq && pOwn->passed.n==nPassed ){
    cqKnownLate(p, pC, session, pB->iSeq, bBad);
  }else if( !cqKnownWrong(p, pC, session) ){
    pOwn->passed.n = nPassed;
  }
  if( pB ) claimqStreamsRest(p, &s);
  claimqStreamsClose(p, &s);
  pOwn->iKept = iKept;
}

/*
** The best session is chosen.  What was passed over there stays where it is,
** unless that is much.
*/
static void cqKnownChosen(CqOp *p, CqClaim *pC, const CqBest *pBest){
  CqIds *pIds = &((CqSession*)&pC->own)->passed;
  CqText session = {pBest->zSession, pBest->nSession};
  int iEnd = pBest->iPassed+pBest->nPassed;
  if( session.z==0 || pBest->nPassed==0 ) return;
  if( pBest->nPassed>CQ_PASS_FEW ){
    cqKnownWrong(p, pC, session);
  }else{
    memmove(&pIds->a[pBest->iPassed], &pIds->a[iEnd],
            (size_t)(pIds->n-iEnd)*sizeof(pIds->a[0]));
    pIds->n -= pBest->nPassed;
  }
}

/*
** The session that comes next after this state and head.  Returns its state,
** CQ_NKNOWN if there is none, and its head; with pBest it is also looked at.
*/
static int cqKnownNext(
  CqOp *p, CqClaim *pC, int eState, i64 *piHead, CqBest *pBest
){
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_KNOWN);
  i64 iState = CQ_NKNOWN;
  claimqBindInt(p, &s, CQ_SESSION_KNOWN_state, eState);
  claimqBindInt(p, &s, CQ_SESSION_KNOWN_after, *piHead);
  if( claimqStep(p, &s) ){
    iState = claimqColInt(&s, CQ_COL_SESSION_KNOWN_state);
    *piHead = claimqColInt(&s, CQ_COL_SESSION_KNOWN_head);
    if( pBest ){
      cqKnownLook(p, pC, claimqColText(p, &s, CQ_COL_SESSION_KNOWN_session),
                  pBest);
    }
  }
  claimqStmtDone(p, &s);
  return iState<CQ_NKNOWN ? (int)iState : CQ_NKNOWN;
}

/*
** The first head of each state that fits; CQ_I64_MAX: none.
*/
static void cqKnownHeads(CqOp *p, CqClaim *pC, int bSerial, i64 *aHead){
  int i, e;
  for(i=0; i<CQ_NKNOWN; i=e+1){
    i64 iHead = 0;
    e = cqKnownNext(p, pC, i, &iHead, 0);
    for(; i<e; i++) aHead[i] = CQ_I64_MAX;
    if( e<CQ_NKNOWN ){
      aHead[e] = cqKnownFits(pC, e, bSerial) ? iHead : CQ_I64_MAX;
    }
  }
}

/*
** Look at the sessions whose state may be another by now, and at those whose
** head lies ahead of the clock: all of them.
*/
static void cqKnownDue(CqOp *p, CqClaim *pC, CqBest *pBest){
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_KNOWN_DUE);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  while( claimqStep(p, &s) ){
    CqText session = claimqColText(p, &s, CQ_COL_SESSION_KNOWN_DUE_session);
    cqKnownLook(p, pC, session, pBest);
    cqKnownWrong(p, pC, session);
  }
  claimqStmtDone(p, &s);
}

/*
** Look at the sessions of batches that came by plain INSERTs, until one comes
** after the best: what is known of sessions does not say anything of them.  The
** first CQ_NEW_MOST are listed for upkeep.
*/
static void cqKnownNew(CqOp *p, CqClaim *pC, CqBest *pBest){
  CqSession *pOwn = (CqSession*)&pC->own;
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_NEW);
  CqNames met = {0, 0, 0};
  while( claimqStep(p, &s) ){
    i64 iSeq = claimqColInt(&s, CQ_COL_SESSION_NEW_enqueue_seq);
    int bList = pC->pDef->bWrites && pOwn->fresh.n<CQ_NEW_MOST;
    CqText session;
    if( !bList && iSeq>=pBest->iSeq ) break;
    if( claimqColType(&s, CQ_COL_SESSION_NEW_session)!=SQLITE_TEXT ){
      continue;
    }
    session = claimqColText(p, &s, CQ_COL_SESSION_NEW_session);
    if( bList ) claimqIdsAdd(p, &pOwn->fresh, iSeq);
    if( bList && !claimqNamesHas(&pOwn->wrong, session) ){
      claimqNamesAdd(p, &pOwn->wrong, session);
    }
    if( iSeq<pBest->iSeq && !claimqNamesHas(&met, session) ){
      claimqNamesAdd(p, &met, session);
      cqKnownLook(p, pC, session, pBest);
    }
  }
  claimqStmtDone(p, &s);
  claimqNamesClear(&met);
}

/*
** As cqSessionChoose(): the sessions in states that fit, in the order of their
** heads, until one comes after the best.
*/
static int cqKnownChoose(CqOp *p, CqClaim *pC, int bSerial){
  CqSession *pOwn = (CqSession*)&pC->own;
  i64 aHead[CQ_NKNOWN];
  CqBest best;
  int i;
  memset(&best, 0, sizeof(best));
  best.iSeq = CQ_I64_MAX;
  best.bSerial = bSerial;
  cqKnownDue(p, pC, &best);
  cqKnownHeads(p, pC, bSerial, aHead);
  while( p->rc==SQLITE_OK ){
    int iMin = 0;
    i64 iHead;
    for(i=1; i<CQ_NKNOWN; i++) if( aHead[i]<aHead[iMin] ) iMin = i;
    if( aHead[iMin]>=best.iSeq ) break;
    iHead = aHead[iMin]-1;
    cqKnownNext(p, pC, iMin, &iHead, &best);
    if( best.iSeq==aHead[iMin] ) break;   /* No other head is before it */
    if( cqKnownNext(p, pC, iMin, &iHead, 0)!=iMin ) iHead = CQ_I64_MAX;
    aHead[iMin] = iHead;
  }
  cqKnownNew(p, pC, &best);
  cqKnownChosen(p, pC, &best);
  sqlite3_free(pOwn->zSession);
  pOwn->zSession = best.zSession;
  pOwn->session.z = best.zSession;
  pOwn->session.n = best.nSession;
  pOwn->iKept = best.iKept;
  assert( p->rc || (best.zSession!=0)==(best.iSeq<CQ_I64_MAX) );
  return p->rc==SQLITE_OK && best.zSession!=0;
}

/**************************************************************************
** By the batches themselves
*/

/*
** Any session: choose the first that has something to give, in the order of
** their first claimable batches.  0 if there is none or op has an error, else
** pOwn->session is set, and xDone frees it.
*/
static int cqSessionChoose(CqOp *p, CqClaim *pC, int bSerial){
  CqSession *pOwn = (CqSession*)&pC->own;
  int bWrites = pC->pDef->bWrites;
  CqText any = {0, 0};
  CqNames past = {0, 0, 0};
  const CqBatch *pB;
  CqStreams s;
  assert( pOwn->bAny );
  claimqStreamsOpen(p, &s, any, bWrites ? &pOwn->passed : 0,
                bWrites ? &pOwn->due : 0);
  while( (pB = claimqStreamsHead(p, &s))!=0 ){
    if( pB->eWhy==CQ_WHY_CLAIMABLE
     && claimqColType(pB->pStmt, CQ_S(session))==SQLITE_TEXT
    ){
      CqText session = claimqColText(p, pB->pStmt, CQ_S(session));
      if( !claimqNamesHas(&past, session) ){
        if( cqSessionGives(p, pC, session, pB, bSerial) ){
          sqlite3_free(pOwn->zSession);
          pOwn->zSession = claimqTextDup(p, session);
          pOwn->session.z = pOwn->zSession;
          pOwn->session.n = session.n;
          claimqStreamsRest(p, &s);
          break;
        }
        claimqNamesAdd(p, &past, session);
      }
    }else{
      claimqBatchBad(p, pC, pB);
    }
    claimqStreamsNext(p, &s, pB);
  }
  claimqStreamsClose(p, &s);
  claimqNamesClear(&past);
  return p->rc==SQLITE_OK && pB!=0;
}

/*
** Any session: choose one, by what the database keeps for that if it does.
*/
CQ_PRIV int claimqSessionAny(CqOp *p, CqClaim *pC, int bSerial){
  return claimqSessionKept(p)
       ? cqKnownChoose(p, pC, bSerial) : cqSessionChoose(p, pC, bSerial);
}
