/*
** next_at.c: when could a claim succeed?
**
**     SELECT claimq_next_at('lane', 'mail');     -- 1755000000000, or NULL
**
** Each discipline answers for itself, by a function that claimq_next_at() and
** claimq_wait() call through claimqNextDef().  Two of them are here: lanes, and
** sessions by name.  They ask the same indexes as the claims do, in two steps:
** is there anything now?  If not, what is the first time at which a row falls
** due or a lease ends?  Claimed rows may stand among the ready ones, in no
** order of time; of these only so many are read, and if there are more the
** answer is "soon", which is never too late.
*/
#include "claimq_int.h"

#define CQ_NEXT_ROWS 1000         /* Rows that are read at most */

/* Bits of CqArgDef.mVerb: claimq_wait() has its own clock. */
#define CQ_N_BOTH (CQ_NEXT_WAIT|CQ_NEXT_AT)

/*
** The earlier of two times; what a statement says of times is NULL if there is
** none.
*/
static i64 cqNextMin(sqlite3_stmt *pStmt, int iCol, i64 iOther){
  i64 i = sqlite3_column_int64(pStmt, iCol);
  if( sqlite3_column_type(pStmt, iCol)==SQLITE_NULL ) return iOther;
  return i<iOther ? i : iOther;
}

/*
** Read the rows of a statement whose columns are a time, a number of rows that
** were read, and another time.  Gives the statement back, and returns the
** earliest time.
*/
static i64 cqNextLater(CqOp *p, int eStmt, sqlite3_stmt *pStmt){
  i64 iNext = CQ_I64_MAX;
  while( claimqStep(p, pStmt) ){
    iNext = cqNextMin(pStmt, 0, iNext);
    iNext = cqNextMin(pStmt, 2, iNext);
    if( sqlite3_column_int64(pStmt, 1)>=CQ_NEXT_ROWS ){
      i64 iSoon = claimqAddSat(claimqNow(p), 1);
      if( iNext>iSoon ) iNext = iSoon;
    }
  }
  claimqStmtDone(p, eStmt, pStmt);
  return iNext;
}

/**************************************************************************
** Sessions
*/
enum { CQ_NS_SESSION, CQ_NS_BOUNDARY, CQ_NS_TAKE, CQ_NS_NOW, CQ_NS_N };
static const CqArgDef cqNextSessionArg[CQ_NS_N] = {
  { "session",  CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0 },
  { "boundary", CQ_T_WORD, 0, CQ_N_BOTH, 0, 0, 0, 0, claimqBoundaryWords },
  { "take",     CQ_T_WORD, 0, CQ_N_BOTH, 0, 0, 0, 0, claimqTakeWords },
  { "now_ms",   CQ_T_INT,  CQ_A_NOW, CQ_NEXT_AT, 0, 0, 0, 0, 0 },
};

/*
** Would a claim take the first candidate?
*/
static int cqNextSessionHead(CqOp *p, const CqVal *aArg){
  sqlite3_stmt *pStmt = claimqStmt(p, CQ_SQL_NEXT_SESSION_HEAD);
  int bTaken = 0;
  claimqBindText(p, pStmt, 1, aArg[CQ_NS_SESSION].t);
  claimqBindInt(p, pStmt, 2, claimqNow(p));
  if( claimqStep(p, pStmt) ){
    CqText work = claimqColumnText(p, pStmt, 0);
    CqText delivery = claimqColumnText(p, pStmt, 1);
    CqSelect sel;
    CqCand cand;
    memset(&cand, 0, sizeof(cand));
    cand.eWork = (u8)claimqWord(claimqWorkWords(), work);
    cand.eDelivery = (u8)claimqWord(claimqDeliveryWords(), delivery);
    cand.merge = claimqStr("never");
    claimqSelectInit(&sel, (int)aArg[CQ_NS_BOUNDARY].i,
                     (int)aArg[CQ_NS_TAKE].i, 1);
    bTaken = p->rc==SQLITE_OK && claimqSelectOffer(&sel, &cand);
  }
  claimqStmtDone(p, CQ_SQL_NEXT_SESSION_HEAD, pStmt);
  return bTaken;
}

static i64 cqNextSession(CqOp *p, const CqVal *aArg){
  sqlite3_stmt *pStmt;
  if( cqNextSessionHead(p, aArg) ) return claimqNow(p);
  pStmt = claimqStmt(p, CQ_SQL_NEXT_SESSION_LATER);
  claimqBindText(p, pStmt, 1, aArg[CQ_NS_SESSION].t);
  claimqBindInt(p, pStmt, 2, claimqNow(p));
  claimqBindInt(p, pStmt, 3, CQ_NEXT_ROWS);
  return cqNextLater(p, CQ_SQL_NEXT_SESSION_LATER, pStmt);
}

/**************************************************************************
** Lanes
*/
enum { CQ_NL_LANE, CQ_NL_CAPS, CQ_NL_PARTITION, CQ_NL_NOW, CQ_NL_N };
static const CqArgDef cqNextLaneArg[CQ_NL_N] = {
  { "lane",         CQ_T_TEXT, CQ_A_REQUIRED, 0, 0, 0, 0, 0, 0 },
  { "capabilities", CQ_T_JSON, 0, CQ_N_BOTH, 0, "[]", 0, 0, 0 },
  { "partition",    CQ_T_INT,  0, CQ_N_BOTH, 0, 0, -CQ_I64_MAX-1, 0, 0 },
  { "now_ms",       CQ_T_INT,  CQ_A_NOW, CQ_NEXT_AT, 0, 0, 0, 0, 0 },
};

/*
** The statement eStmt with its parameters, or 0 if op has an error.
*/
static sqlite3_stmt *cqNextLaneStmt(CqOp *p, const CqVal *aArg, int eStmt){
  sqlite3_stmt *pStmt = claimqStmt(p, eStmt);
  claimqBindText(p, pStmt, 1, aArg[CQ_NL_LANE].t);
  claimqBindInt(p, pStmt, 2, aArg[CQ_NL_PARTITION].i);
  claimqBindInt(p, pStmt, 4, claimqNow(p));
  claimqBindText(p, pStmt, 5, aArg[CQ_NL_CAPS].t);
  return pStmt;
}

static i64 cqNextLane(CqOp *p, const CqVal *aArg){
  sqlite3_stmt *pStmt;
  int bNow;
  if( p->rc==SQLITE_OK && claimqCapsCheck(aArg[CQ_NL_CAPS].t)<0 ){
    claimqFail(p, CQ_BAD_ARGUMENT,
               "capabilities must be a JSON array of non-empty strings");
  }
  pStmt = cqNextLaneStmt(p, aArg, CQ_SQL_NEXT_LANE_NOW);
  bNow = claimqStep(p, pStmt);
  claimqStmtDone(p, CQ_SQL_NEXT_LANE_NOW, pStmt);
  if( bNow ) return claimqNow(p);
  pStmt = cqNextLaneStmt(p, aArg, CQ_SQL_NEXT_LANE_LATER);
  claimqBindInt(p, pStmt, 3, CQ_NEXT_ROWS);
  return cqNextLater(p, CQ_SQL_NEXT_LANE_LATER, pStmt);
}

/**************************************************************************
** All of them
*/

/*
** The i-th discipline that can be waited for; 0 past the last.
*/
CQ_PRIV const CqNextDef *claimqNextDef(int i){
  static const CqNextDef aDef[] = {
    { "session", cqNextSessionArg, CQ_NS_N, cqNextSession },
    { "lane", cqNextLaneArg, CQ_NL_N, cqNextLane },
  };
  return i<(int)(sizeof(aDef)/sizeof(aDef[0])) ? &aDef[i] : 0;
}
