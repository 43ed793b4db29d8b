/*
** outbox/vacuum.c: removing processed messages.
**
** A message is kept for keep_ms after it was published, and until it is
** processed; until then its source key is taken.  Those of a partition are
** removed in the order of their numbers, and vacuumed_seq says how far that
** got.  The calls that complete a claim of the partition remove them, some at a
** time.
*/
#include "outbox.h"

/* Messages that an ordinary call removes, at least, if there are that many;
** else twice as many as it has processed. */
#define CQ_DONE_FEW 64

typedef struct CqDone CqDone;             /* A partition, and what may go */
struct CqDone {
  i64 iId;
  CqText queue;
  i64 iPartition;
  i64 iFrom, iTo;                 /* Messages after iFrom, up to iTo */
  i64 iUntil;                     /* ... if they are not younger than this */
};

/*
** Bind what the statements about the messages of a partition want.
*/
static CqStmt cqDoneStmt(CqOp *p, const CqDone *pD, int eStmt){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_VACUUM_OLD_queue, pD->queue);
  claimqBindInt(p, &s, CQ_VACUUM_OLD_partition, pD->iPartition);
  claimqBindInt(p, &s, CQ_VACUUM_OLD_after, pD->iFrom);
  claimqBindInt(p, &s, CQ_VACUUM_OLD_last, pD->iTo);
  return s;
}

/*
** What may go of the partition that pPart stands on, at most nMax messages:
** 1, or 0 if there is nothing.  Where messages are missing iFrom jumps to the
** next one that is there.  Its cursor must be able to move: a row that somebody
** corrupted is an error.
*/
static int cqDoneLook(CqOp *p, CqStmt *pPart, i64 nMax, CqDone *pD){
  i64 iOld = claimqColInt(pPart, CQ_COL_VACUUM_PARTITION_vacuumed_seq);
  i64 iFirst = claimqColInt(pPart, CQ_COL_VACUUM_PARTITION_first_seq);
  int bAny;
  CqStmt s;
  pD->iId = claimqColInt(pPart, CQ_COL_VACUUM_PARTITION_partition_id);
  pD->queue = claimqColText(p, pPart, CQ_COL_VACUUM_PARTITION_queue);
  pD->iPartition = claimqColInt(pPart, CQ_COL_VACUUM_PARTITION_partition);
  pD->iTo = claimqColInt(pPart, CQ_COL_VACUUM_PARTITION_processed_seq);
  if( pD->iTo<=iOld ){
    claimqFail(p, CQ_SCHEMA_MISMATCH, "row %lld of claimq_partition has a bad "
               "processed_seq: repair or delete it", pD->iId);
    return 0;
  }
  pD->iFrom = iFirst>iOld && iFirst<=pD->iTo ? iFirst-1 : pD->iTo;
  if( pD->iFrom<0 ) pD->iFrom = 0;
  if( pD->iTo-pD->iFrom>nMax ) pD->iTo = pD->iFrom + nMax;
  if( pD->iTo==pD->iFrom ) return p->rc==SQLITE_OK;
  s = cqDoneStmt(p, pD, CQ_SQL_VACUUM_OLD);
  claimqBindInt(p, &s, CQ_VACUUM_OLD_until, pD->iUntil);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  bAny = claimqStep(p, &s);
  if( bAny ) pD->iTo = claimqColInt(&s, CQ_COL_VACUUM_OLD_seq);
  claimqStmtDone(p, &s);
  return bAny;
}

/*
** Remove them, and move the cursor.  Returns how many there were.
*/
static i64 cqDoneRemove(CqOp *p, const CqDone *pD, CqStmt *pPart){
  CqStmt s = cqDoneStmt(p, pD, CQ_SQL_VACUUM_MESSAGES);
  i64 n = claimqExec(p, &s);
  claimqStmtReset(pPart);
  s = claimqStmt(p, CQ_SQL_VACUUM_CURSOR);
  claimqBindCommonInt(p, &s, CQ_P_head, pD->iId);
  claimqBindInt(p, &s, CQ_VACUUM_CURSOR_seq, pD->iTo);
  if( claimqExec(p, &s)==0 ){
    claimqFail(p, CQ_CONFLICT,
               "a trigger on claimq_partition left the row out");
  }
  return n;
}

/*
** xVacuum: partition after partition, and each until nothing may be removed.
*/
CQ_PRIV void claimqOutboxVacuum(CqOp *p, CqVacuum *pV){
  CqStmt s = claimqStmt(p, CQ_SQL_VACUUM_PARTITION);
  CqDone done;
  memset(&done, 0, sizeof(done));
  done.iUntil = claimqKeepUntil(p, pV->iOlder);
  claimqBindInt(p, &s, CQ_VACUUM_PARTITION_id, 0);
  while( pV->nLeft>0 && !pV->bAny && claimqStep(p, &s) ){
    int bAny = cqDoneLook(p, &s, pV->nLeft, &done);
    if( pV->bLook ) pV->bAny = (u8)bAny;
    else if( bAny ) claimqVacuumed(pV, cqDoneRemove(p, &done, &s));
    claimqStmtReset(&s);
    claimqBindInt(p, &s, CQ_VACUUM_PARTITION_id, done.iId-bAny);
  }
  claimqStmtDone(p, &s);
}

/*
** Most messages that a claim removes that has processed nDone of them.
*/
static i64 cqDoneMost(i64 nDone){
  return nDone<CQ_DONE_FEW/2 ? CQ_DONE_FEW : 2*nDone;
}

/*
** 1 if a complete that gets to iSeq, and has processed nDone messages, is to
** remove some of partition iId; 0 if not, or none is old enough.
*/
CQ_PRIV int claimqOutboxForgets(CqOp *p, i64 iId, i64 iSeq, i64 nDone){
  CqDone done;
  CqStmt s;
  int bAny;
  if( p->rc || !claimqKeepTurn(iSeq, nDone) ) return 0;
  s = claimqStmt(p, CQ_SQL_VACUUM_PARTITION_OF);
  memset(&done, 0, sizeof(done));
  done.iUntil = claimqKeepUntil(p, -1);
  claimqBindInt(p, &s, CQ_VACUUM_PARTITION_id, iId);
  bAny = claimqStep(p, &s) && cqDoneLook(p, &s, 1, &done);
  claimqStmtDone(p, &s);
  return bAny;
}

/*
** Remove them.
*/
CQ_PRIV void claimqOutboxForget(CqOp *p, i64 iId, i64 nDone){
  CqStmt s = claimqStmt(p, CQ_SQL_VACUUM_PARTITION_OF);
  CqDone done;
  memset(&done, 0, sizeof(done));
  done.iUntil = claimqKeepUntil(p, -1);
  claimqBindInt(p, &s, CQ_VACUUM_PARTITION_id, iId);
  if( claimqStep(p, &s) && cqDoneLook(p, &s, cqDoneMost(nDone), &done) ){
    cqDoneRemove(p, &done, &s);
  }
  claimqStmtDone(p, &s);
}
