/*
** outbox/number.c: messages that came by a plain INSERT.
**
**     INSERT INTO claimq_message(queue, payload) VALUES('orders', '{}');
**     SELECT seq FROM claimq_message;
**     -- NULL
**
** Any program can write them, even one that has never heard of claimq: they
** have no number.  They stand behind all messages of their partition that have
** one, in the order of message_id, so that everybody knows which numbers they
** will get.  Calls that only look, and claims while they look, read them as
** they are (claim.c).  They are numbered when a claim delivers one of them, it
** and those that follow, CQ_NUMBER_MOST in all or as many as are delivered; and
** when claimq_publish() is to write one behind them, CQ_PUBLISH_MOST of its
** partition.  So each message pays once, and what a call costs has a bound.
**
** A message for a partition that its queue does not have becomes a dead letter
** when a claim of the whole queue meets it, CQ_NUMBER_MOST of them at a time.
** One for a queue that is not registered waits until it is.
*/
#include "outbox.h"

/* Messages that a claim numbers, or buries, beyond what it delivers. */
#define CQ_NUMBER_MOST 1000

/*
** Take a statement about a partition.
*/
static CqStmt cqNumberStmt(CqOp *p, int eStmt, CqText queue, i64 iPartition){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_OUTBOX_UNNUMBERED_queue, queue);
  claimqBindInt(p, &s, CQ_OUTBOX_UNNUMBERED_partition, iPartition);
  return s;
}

/*
** What a partition knows of its messages is found anew.  Returns 0 if that
** cannot be written: there is no such partition, or op has an error.
*/
static int cqNumberLook(CqOp *p, CqText queue, i64 iPartition){
  CqStmt s = cqNumberStmt(p, CQ_SQL_OUTBOX_NUMBERED, queue, iPartition);
  return claimqExec(p, &s)>0;
}

/*
** Number at most nMost messages of a partition that is there.  Returns how
** many; op has an error, or gets one here, if that is -1.
*/
static i64 cqNumberSome(
  CqOp *p, const CqTask *pTask, CqText queue, i64 iPartition, i64 nMost
){
  CqStmt s = cqNumberStmt(p, CQ_SQL_OUTBOX_UNNUMBERED, queue, iPartition);
  CqIds ids, turns;
  i64 n;
  memset(&ids, 0, sizeof(ids));
  memset(&turns, 0, sizeof(turns));
  claimqBindInt(p, &s, CQ_OUTBOX_UNNUMBERED_limit, nMost);
  while( claimqStep(p, &s) ){
    claimqIdsAdd(p, &ids,
                 claimqColInt(&s, CQ_COL_OUTBOX_UNNUMBERED_message_id));
    claimqIdsAdd(p, &turns, claimqAddSat(
        claimqColInt(&s, CQ_COL_OUTBOX_UNNUMBERED_last_seq), ids.n));
  }
  claimqStmtDone(p, &s);
  ids.aTurn = turns.a;
  ids.nTurn = turns.n;
  s = claimqStmt(p, CQ_SQL_OUTBOX_NUMBER);
  claimqBindIds(p, &s, CQ_OUTBOX_NUMBER_ids, &ids);
  n = claimqExec(p, &s);
  if( n!=ids.n ) claimqStale(p, pTask);
  claimqIdsClear(&ids);
  claimqIdsClear(&turns);
  return p->rc ? -1 : n;
}

/*
** Part of a task that can be undone: number the messages of a partition, nNeed
** of them or CQ_NUMBER_MOST if that is more; CQ_PUBLISH_MOST: or all that are
** there.  Returns 0 if there is no such partition, also if op has an error or
** gets one here.
*/
CQ_PRIV int claimqOutboxNumber(
  CqOp *p, const CqTask *pTask, CqText queue, i64 iPartition, i64 nNeed
){
  i64 nDone = 0, n;
  assert( nNeed>0 );
  if( !cqNumberLook(p, queue, iPartition) ) return 0;
  do{
    n = cqNumberSome(p, pTask, queue, iPartition, CQ_NUMBER_MOST);
    nDone += n;
    cqNumberLook(p, queue, iPartition);
  }while( n==CQ_NUMBER_MOST && nDone<nNeed );
  if( nDone<nNeed && nNeed!=CQ_PUBLISH_MOST ) claimqStale(p, pTask);
  return p->rc==SQLITE_OK;
}

/*
** Messages without a number for the partitions from iFrom to iTo, which the
** queue does not have: list some of them.
*/
static void cqNumberBad(
  CqOp *p, CqText queue, i64 iFrom, i64 iTo, CqIds *pIds
){
  CqStmt s = claimqStmt(p, CQ_SQL_OUTBOX_BAD);
  claimqBindText(p, &s, CQ_OUTBOX_BAD_queue, queue);
  claimqBindInt(p, &s, CQ_OUTBOX_BAD_from, iFrom);
  claimqBindInt(p, &s, CQ_OUTBOX_BAD_to, iTo);
  claimqBindInt(p, &s, CQ_OUTBOX_BAD_limit, CQ_NUMBER_MOST-pIds->n);
  while( claimqStep(p, &s) ){
    claimqIdsAdd(p, pIds, claimqColInt(&s, CQ_COL_OUTBOX_BAD_message_id));
  }
  claimqStmtDone(p, &s);
}

/*
** Part of a task that can be undone: messages of a queue for partitions that it
** does not have become dead letters.
*/
CQ_PRIV void claimqOutboxBuryBad(CqOp *p, const CqTask *pTask, CqText queue){
  i64 nPartition = claimqQueueNeed(p, queue);
  CqIds ids;
  CqStmt s;
  i64 n, nGone = 0;
  int i;
  memset(&ids, 0, sizeof(ids));
  cqNumberBad(p, queue, CQ_I64_MIN, -1, &ids);
  cqNumberBad(p, queue, nPartition, CQ_I64_MAX, &ids);
  s = claimqStmt(p, CQ_SQL_OUTBOX_BURY_BAD);
  claimqBindIds(p, &s, CQ_OUTBOX_BURY_BAD_ids, &ids);
  claimqBindInt(p, &s, CQ_OUTBOX_BURY_BAD_partitions, nPartition);
  claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
  n = claimqExec(p, &s);
  for(i=0; i<ids.n; i++){
    s = claimqStmt(p, CQ_SQL_OUTBOX_DROP_BAD);
    claimqBindInt(p, &s, CQ_OUTBOX_DROP_BAD_message, ids.a[i]);
    nGone += claimqExec(p, &s);
  }
  if( n!=ids.n || nGone!=ids.n ) claimqStale(p, pTask);
  claimqIdsClear(&ids);
}

/*
** For the trigger of claimq_message: a message, of this queue, partition and
** number, was deleted by a statement that is not claimq's.  Raises conflict if
** a claim has delivered it.
*/
CQ_PRIV void claimqOutboxDeleted(CqOp *p, CqCall *pCall){
  sqlite3_value **ap = pCall->apVal;
  CqText queue, other;
  i64 iPartition = sqlite3_value_int64(ap[1]);
  int bTodo = 0;
  CqStmt s;
  if( claimqOwnDelete(p->pConn) || sqlite3_value_type(ap[2])==SQLITE_NULL ){
    return;
  }
  queue = claimqTextOrNull(p, ap[0]);
  s = claimqStmt(p, CQ_SQL_OUTBOX_UNDELETED);
  claimqBindText(p, &s, CQ_OUTBOX_UNDELETED_queue, queue);
  claimqBindInt(p, &s, CQ_OUTBOX_UNDELETED_partition, iPartition);
  claimqBindInt(p, &s, CQ_OUTBOX_UNDELETED_seq, sqlite3_value_int64(ap[2]));
  claimqCheckDeleted(p, &s, "message", sqlite3_value_int64(ap[2]));
  s = claimqStmt(p, CQ_SQL_OUTBOX_HELD);
  claimqBindText(p, &s, CQ_OUTBOX_HELD_queue, queue);
  claimqBindInt(p, &s, CQ_OUTBOX_HELD_partition, iPartition);
  claimqBindInt(p, &s, CQ_OUTBOX_HELD_seq, sqlite3_value_int64(ap[2]));
  if( claimqStep(p, &s) ){
    bTodo = (int)claimqColInt(&s, CQ_COL_OUTBOX_HELD_todo);
    other = claimqColText(p, &s, CQ_COL_OUTBOX_HELD_claim_id);
    if( other.z ){
      claimqFail(p, CQ_CONFLICT, "message %lld of partition %lld of queue "
          "'%.*s' is held by claim %.*s: revoke it before you delete the "
          "message", sqlite3_value_int64(ap[2]), iPartition, claimqShown(queue),
          queue.z, claimqShown(other), other.z);
    }
  }
  claimqStmtDone(p, &s);
  if( bTodo ) cqNumberLook(p, queue, iPartition);
}
