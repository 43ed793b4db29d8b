/*
** outbox/claim.c: how a claim of the outbox chooses a partition, delivers its
** messages, and stamps it; and when a claim could succeed, or why it cannot.
**
** Messages that came by a plain INSERT have no numbers yet (see number.c).  An
** empty index says that there are none, which is the usual case.  Otherwise the
** claim looks, one by one, at the partitions that have only such messages: the
** first of each waits in line with the other partitions.
*/
#include "outbox.h"

/* Due partitions a claim may leave unpromoted: sorting so few is cheap. */
#define CQ_OUTBOX_DUE_FEW 16

/* QUEUE/PARTITION, the scope of a lease. */
#define CQ_SCOPE_SZ (CQ_QUEUE_NAME_MAX+32)

typedef struct CqOutboxClaim CqOutboxClaim;       /* CqClaim.own */
struct CqOutboxClaim {
  i64 iCursor, iFence;            /* Of the partition, when it was read */
  i64 iLast;                      /* Last message delivered */
  i64 iPartition, iGiven;         /* The partition, and its last number */
  i64 nNew;                       /* Messages delivered that have no number */
  int nDue;                       /* Unpromoted partitions met, up to FEW */
  u8 bFresh;                      /* Some of the queue may have none */
  u8 bBad;                        /* Some are for partitions it has not */
};
CQ_CHECK(OutboxClaim, sizeof(CqOutboxClaim)<=sizeof(CqOwn));

/*
** Write QUEUE/PARTITION, return it as a text.
*/
static CqText cqOutboxScope(CqText queue, i64 iPartition, char *zBuf){
  CqText t;
  assert( queue.z && queue.n<=CQ_QUEUE_NAME_MAX );
  memcpy(zBuf, queue.z, (size_t)queue.n);
  zBuf[queue.n] = '/';
  t.z = zBuf;
  t.n = queue.n + 1 + claimqI64Text(iPartition, &zBuf[queue.n+1]);
  return t;
}

/*
** Add the message that pMsg stands on, of the partition that pPart stands on,
** to the rows for the caller.  If it has no number yet, it gets the next.  What
** all messages of a claim have in common is written once, and copied from there
** to the others: that saves 7 % of a batch.
*/
static void cqOutboxTake(
  CqOp *p, CqClaim *pC, const CqStmt *pPart, const CqStmt *pMsg
){
  CqOutboxClaim *pOwn = (CqOutboxClaim*)&pC->own;
  CqCell *a = claimqRowsAdd(p, pC->pRows);
  CqCell *aFirst;
  claimqCellColumns(p, pC->pRows, a, pMsg, CQ_OUTBOX_NCOL);
  if( p->rc ) return;
  aFirst = claimqRow(pC->pRows, 0);
  if( pMsg->eStmt==CQ_SQL_OUTBOX_NEW_MESSAGES ){
    pOwn->iLast = claimqAddSat(pOwn->iGiven, ++pOwn->nNew);
    claimqCellInt(&a[CQ_COL_OUTBOX_MESSAGES_seq], pOwn->iLast);
  }else{
    pOwn->iLast = claimqColInt(pMsg, CQ_COL_OUTBOX_MESSAGES_seq);
  }
  if( a==aFirst ){
    claimqCellText(p, pC->pRows, &a[CQ_COL_OUTBOX_MESSAGES_queue],
                   pC->aArg[CQ_OUTBOX_QUEUE].t);
    claimqCellInt(&a[CQ_COL_OUTBOX_MESSAGES_partition], pOwn->iPartition);
    claimqLeaseCells(p, pC->pRows, &a[CQ_OUTBOX_NCOL], &pC->lease,
                     claimqColText(p, pPart, CQ_COL_OUTBOX_READY_claim_id),
                     claimqColInt(pPart, CQ_COL_OUTBOX_READY_attempts));
  }else{
    int nOwn = CQ_OUTBOX_NCOL;
    a[CQ_COL_OUTBOX_MESSAGES_queue] = aFirst[CQ_COL_OUTBOX_MESSAGES_queue];
    a[CQ_COL_OUTBOX_MESSAGES_partition] =
        aFirst[CQ_COL_OUTBOX_MESSAGES_partition];
    memcpy(&a[nOwn], &aFirst[nOwn],
           sizeof(*a)*(size_t)(pC->pRows->nCol-nOwn));
  }
}

/*
** At most this many messages of the partition that pPart stands on: what the
** claim says, or else its queue.
*/
static i64 cqOutboxMost(const CqClaim *pC, const CqStmt *pPart){
  i64 n = pC->aArg[CQ_OUTBOX_MAX].i;
  if( !pC->aArg[CQ_OUTBOX_MAX].bGiven
   && claimqColType(pPart, CQ_COL_OUTBOX_READY_max)!=SQLITE_NULL
  ){
    n = claimqColInt(pPart, CQ_COL_OUTBOX_READY_max);
    if( n<1 ) n = 1;
  }
  if( claimqColInt(pPart, CQ_COL_OUTBOX_READY_degrade) ){
    n = claimqDegrade(n, claimqColInt(pPart, CQ_COL_OUTBOX_READY_attempts));
  }
  return n<pC->nLimit ? n : pC->nLimit;
}

/*
** Take the statement that gives the first nMax messages of the partition that
** pPart stands on: those that have a number, or (eStmt) those that have none.
*/
static CqStmt cqOutboxMessages(
  CqOp *p, const CqClaim *pC, const CqStmt *pPart, int eStmt, i64 nMax
){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_OUTBOX_MESSAGES_queue, pC->aArg[CQ_OUTBOX_QUEUE].t);
  claimqBindInt(p, &s, CQ_OUTBOX_MESSAGES_partition,
                claimqColInt(pPart, CQ_COL_OUTBOX_READY_partition));
  claimqBindInt(p, &s, CQ_OUTBOX_MESSAGES_limit, nMax);
  if( eStmt==CQ_SQL_OUTBOX_NEW_MESSAGES ) return s;
  claimqBindInt(p, &s, CQ_OUTBOX_MESSAGES_cursor,
                claimqColInt(pPart, CQ_COL_OUTBOX_READY_processed_seq));
  claimqBindInt(p, &s, CQ_OUTBOX_MESSAGES_last,
                claimqColInt(pPart, CQ_COL_OUTBOX_READY_last_seq));
  return s;
}

/*
** Let *pS stand on the first message that the partition that pPart stands on
** has to deliver: 1.  If it has none, or op has an error: 0.  The caller gives
** *pS back.
*/
static int cqOutboxFirst(
  CqOp *p, const CqClaim *pC, const CqStmt *pPart, i64 nMax, CqStmt *pS
){
  *pS = cqOutboxMessages(p, pC, pPart, CQ_SQL_OUTBOX_MESSAGES, nMax);
  if( claimqStep(p, pS) ) return 1;
  if( !((const CqOutboxClaim*)&pC->own)->bFresh ) return 0;
  claimqStmtDone(p, pS);
  *pS = cqOutboxMessages(p, pC, pPart, CQ_SQL_OUTBOX_NEW_MESSAGES, nMax);
  return claimqStep(p, pS);
}

/*
** The first message with a number of the partition that pPart stands on, if
** bMsg the one that pMsg stands on: is that what waiting_since_ms says?  If
** not, the partition is listed for repair.  (INSERT OR REPLACE fires no trigger
** for a message that is replaced.)
*/
static int cqOutboxKnown(
  CqOp *p, CqClaim *pC, const CqStmt *pPart, const CqStmt *pMsg, int bMsg
){
  int bSince = claimqColType(pPart, CQ_COL_OUTBOX_READY_waiting_since_ms)
               !=SQLITE_NULL;
  if( p->rc
   || (bMsg==bSince && (!bMsg
        || claimqColInt(pMsg, CQ_COL_OUTBOX_MESSAGES_created_at_ms)
           ==claimqColInt(pPart, CQ_COL_OUTBOX_READY_waiting_since_ms)))
  ){
    return 1;
  }
  claimqIdsAdd(p, &pC->ids,
               claimqColInt(pPart, CQ_COL_OUTBOX_READY_partition_id));
  return 0;
}

/*
** The claim is of the partition that pPart stands on: remember it as it is, and
** make the lease.
*/
static void cqOutboxBegin(CqOp *p, CqClaim *pC, const CqStmt *pPart){
  CqOutboxClaim *pOwn = (CqOutboxClaim*)&pC->own;
  char zScope[CQ_SCOPE_SZ];
  assert( pC->pRows->nRow==0 );   /* A claim is of one partition */
  pOwn->iCursor = claimqColInt(pPart, CQ_COL_OUTBOX_READY_processed_seq);
  pOwn->iFence = claimqColInt(pPart, CQ_COL_OUTBOX_READY_fencing_token);
  pOwn->iPartition = claimqColInt(pPart, CQ_COL_OUTBOX_READY_partition);
  pOwn->iGiven = claimqColInt(pPart, CQ_COL_OUTBOX_READY_last_seq);
  pOwn->nNew = 0;
  if( !pC->aArg[CQ_OUTBOX_LEASE].bGiven
   && claimqColType(pPart, CQ_COL_OUTBOX_READY_lease_ms)!=SQLITE_NULL
  ){
    i64 iLease = claimqColInt(pPart, CQ_COL_OUTBOX_READY_lease_ms);
    pC->iLease = iLease<0 ? 0 : iLease;
  }
  claimqLeaseMake(p, &pC->lease, pC,
      claimqColInt(pPart, CQ_COL_OUTBOX_READY_partition_id), pOwn->iFence,
      cqOutboxScope(pC->aArg[CQ_OUTBOX_QUEUE].t, pOwn->iPartition, zScope));
}

/*
** Deliver messages of the partition that pPart stands on: 1 if there are any,
** or op has an error.  With pBest it was taken for how long it waits, and
** delivers nothing if that is not true: then it is the best so far if it waits
** longer than the one that is.
*/
static int cqOutboxDeliver(
  CqOp *p, CqClaim *pC, const CqStmt *pPart, CqWaiting *pBest
){
  i64 nMost = cqOutboxMost(pC, pPart);
  CqStmt s;
  int bMsg = cqOutboxFirst(p, pC, pPart, nMost, &s);
  int bOld = bMsg && s.eStmt==CQ_SQL_OUTBOX_MESSAGES;
  if( !cqOutboxKnown(p, pC, pPart, &s, bOld) && bMsg && pBest ){
    CqWaiting w;
    w.iPartition = claimqColInt(pPart, CQ_COL_OUTBOX_READY_partition);
    w.iSince = claimqColInt(&s, CQ_COL_OUTBOX_MESSAGES_created_at_ms);
    if( pBest->iPartition<0 || claimqWaitsLonger(&w, pBest) ) *pBest = w;
    bMsg = 0;
  }
  if( !bMsg ){
    claimqStmtDone(p, &s);
    return p->rc!=SQLITE_OK;
  }
  cqOutboxBegin(p, pC, pPart);
  do{
    cqOutboxTake(p, pC, pPart, &s);
  }while( claimqStep(p, &s) );
  claimqStmtDone(p, &s);
  nMost -= pC->pRows->nRow;
  if( bOld && nMost>0 && ((CqOutboxClaim*)&pC->own)->bFresh ){
    s = cqOutboxMessages(p, pC, pPart, CQ_SQL_OUTBOX_NEW_MESSAGES, nMost);
    while( claimqStep(p, &s) ) cqOutboxTake(p, pC, pPart, &s);
    claimqStmtDone(p, &s);
  }
  return 1;
}

/*
** Why a claim does not take the partition that pPart stands on: a CQ_WHY_*
** reason.  An index cannot know, because time may go back.
*/
static int cqOutboxWhy(CqOp *p, const CqStmt *pPart){
  return claimqRowWhy(
      claimqColInt(pPart, CQ_COL_OUTBOX_READY_available_at_ms),
      claimqColType(pPart, CQ_COL_OUTBOX_READY_claim_id)!=SQLITE_NULL,
      claimqColInt(pPart, CQ_COL_OUTBOX_READY_expires_at_ms), claimqNow(p));
}

/*
** What column fresh of the row that pPart stands on says.
*/
static u8 cqOutboxIsFresh(const CqStmt *pPart){
  return claimqColInt(pPart, CQ_COL_OUTBOX_READY_fresh)!=0;
}

/*
** Find a partition of the queue.  *pS stands on it: 1.  If it is not there op
** has an error: 0.  The caller gives *pS back.
*/
static int cqOutboxFind(
  CqOp *p, const CqClaim *pC, i64 iPartition, CqStmt *pS
){
  CqText queue = pC->aArg[CQ_OUTBOX_QUEUE].t;
  *pS = claimqStmt(p, CQ_SQL_OUTBOX_FIND);
  claimqBindText(p, pS, CQ_OUTBOX_READY_queue, queue);
  claimqBindInt(p, pS, CQ_OUTBOX_READY_partition, iPartition);
  if( claimqStep(p, pS) ) return 1;
  if( p->rc==SQLITE_OK ) claimqQueueMissing(p, queue, iPartition);
  return 0;
}

/*
** This partition, if it is free and has messages: 1, or op has an error.
*/
static int cqOutboxOne(CqOp *p, CqClaim *pC, i64 iPartition){
  int bDone = 0;
  CqStmt s;
  if( cqOutboxFind(p, pC, iPartition, &s)
   && cqOutboxWhy(p, &s)==CQ_WHY_CLAIMABLE
  ){
    ((CqOutboxClaim*)&pC->own)->bFresh = cqOutboxIsFresh(&s);
    bDone = cqOutboxDeliver(p, pC, &s, 0);
  }
  claimqStmtDone(p, &s);
  return bDone;
}

/*
** Take one of the statements that look at all partitions of the queue that are
** free by iNow.
*/
static CqStmt cqOutboxStream(CqOp *p, const CqClaim *pC, int eStmt, i64 iNow){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_OUTBOX_READY_queue, pC->aArg[CQ_OUTBOX_QUEUE].t);
  claimqBindCommonInt(p, &s, CQ_P_now, iNow);
  return s;
}

/*
** Let *pS stand on the first partition from *piFrom on that has messages
** without a number, and none that have one: 1.  *piFrom is the one after it
** then.  If there is none, or op has an error: 0.  The caller gives *pS back,
** which was taken by cqOutboxStream(..., CQ_SQL_OUTBOX_FRESH_PART, ...).
**
** What is for partitions that the queue does not have is noted.  A partition
** whose row somebody has deleted gets it back by claimq_queue(): its messages
** wait.
*/
static int cqOutboxNextFresh(
  CqOp *p, CqClaim *pC, CqStmt *pS, i64 *piFrom
){
  for(;;){
    i64 iPartition;
    claimqStmtReset(pS);
    claimqBindInt(p, pS, CQ_OUTBOX_READY_from, *piFrom);
    if( !claimqStep(p, pS) ) return 0;
    iPartition = claimqColInt(pS, CQ_COL_OUTBOX_READY_partition);
    *piFrom = iPartition<0 ? 0 : claimqAddSat(iPartition, 1);
    if( claimqColType(pS, CQ_COL_OUTBOX_READY_partition_id)==SQLITE_NULL ){
      int bBad = iPartition<0
              || iPartition>=claimqQueueNeed(p, pC->aArg[CQ_OUTBOX_QUEUE].t);
      if( bBad ) ((CqOutboxClaim*)&pC->own)->bBad = 1;
      if( bBad && iPartition>=0 ) return 0;
    }else if( claimqColType(pS, CQ_COL_OUTBOX_READY_waiting_since_ms)
              ==SQLITE_NULL ){
      return 1;
    }
  }
}

/*
** The partition that waits longest of those that are free and whose messages
** have no numbers, into *pBest; iPartition stays -1 if there is none.
*/
static void cqOutboxBestFresh(CqOp *p, CqClaim *pC, CqWaiting *pBest){
  CqStmt s = cqOutboxStream(p, pC, CQ_SQL_OUTBOX_FRESH_PART, 0);
  i64 iFrom = CQ_I64_MIN;
  while( cqOutboxNextFresh(p, pC, &s, &iFrom) ){
    CqWaiting w;
    w.iPartition = claimqColInt(&s, CQ_COL_OUTBOX_READY_partition);
    w.iSince = claimqColInt(&s, CQ_COL_OUTBOX_READY_fresh);
    if( cqOutboxWhy(p, &s)==CQ_WHY_CLAIMABLE
     && (pBest->iPartition<0 || claimqWaitsLonger(&w, pBest))
    ){
      *pBest = w;
    }
  }
  claimqStmtDone(p, &s);
}

#define CQ_AT_END   0
#define CQ_AT_READY 1
#define CQ_AT_DUE   2

/*
** Move pReady on to the next partition that is ready and free, CQ_AT_READY.
** If there is none: CQ_AT_DUE if others have become due, else CQ_AT_END, also
** if op has an error.
*/
static int cqOutboxNextReady(CqOp *p, CqStmt *pReady){
  while( claimqStep(p, pReady) ){
    if( claimqColInt(pReady, CQ_COL_OUTBOX_READY_due)>=0 ) return CQ_AT_DUE;
    if( cqOutboxWhy(p, pReady)==CQ_WHY_CLAIMABLE ) return CQ_AT_READY;
  }
  return CQ_AT_END;
}

/*
** How long the partition that pStmt stands on has waited, for comparison.
*/
static CqWaiting cqOutboxWaiting(const CqStmt *pStmt){
  CqWaiting w;
  w.iSince = claimqColInt(pStmt, CQ_COL_OUTBOX_READY_waiting_since_ms);
  w.iPartition = claimqColInt(pStmt, CQ_COL_OUTBOX_READY_partition);
  return w;
}

/*
** 1 if the head of pDue goes before the head of pReady.
*/
static int cqOutboxDueFirst(const CqStmt *pReady, const CqStmt *pDue){
  CqWaiting ready = cqOutboxWaiting(pReady);
  CqWaiting due = cqOutboxWaiting(pDue);
  return claimqWaitsLonger(&due, &ready);
}

/*
** Any partition, the longest waiting first.  The one that is thought to be that
** is taken at once if it is; else the best of those that were found to wait
** less goes in line with those that come next, and so does the best of those
** whose messages have no numbers.  Raises not_found if there is nothing to
** deliver because there is no such queue.
*/
static void cqOutboxAny(CqOp *p, CqClaim *pC){
  CqOutboxClaim *pOwn = (CqOutboxClaim*)&pC->own;
  i64 iNow = claimqNow(p);
  CqStmt ready = cqOutboxStream(p, pC, CQ_SQL_OUTBOX_READY, iNow);
  int eReady = cqOutboxNextReady(p, &ready);
  int bDue = 0, bDone = 0;
  CqWaiting best = {0, -1};
  CqStmt due;
  memset(&due, 0, sizeof(due));
  if( eReady!=CQ_AT_END ) pOwn->bFresh = cqOutboxIsFresh(&ready);
  else claimqQueueLook(p, pC->aArg[CQ_OUTBOX_QUEUE].t, &pOwn->bFresh);
  if( pOwn->bFresh ) cqOutboxBestFresh(p, pC, &best);
  if( eReady!=CQ_AT_END ){
    due = cqOutboxStream(p, pC, CQ_SQL_OUTBOX_DUE, iNow);
    bDue = claimqStep(p, &due);
  }
  pOwn->nDue = bDue;
  while( !bDone && (eReady==CQ_AT_READY || bDue) && p->rc==SQLITE_OK ){
    int bTakeDue = bDue
        && (eReady!=CQ_AT_READY || cqOutboxDueFirst(&ready, &due));
    const CqStmt *pPart = bTakeDue ? &due : &ready;
    CqWaiting next = cqOutboxWaiting(pPart);
    if( best.iPartition>=0 && claimqWaitsLonger(&best, &next) ) break;
    bDone = cqOutboxDeliver(p, pC, pPart, &best);
    if( bTakeDue ) pOwn->nDue += (bDue = claimqStep(p, &due));
    else if( !bDone ) eReady = cqOutboxNextReady(p, &ready);
  }
  if( !bDone && best.iPartition>=0 ){
    bDone = cqOutboxOne(p, pC, best.iPartition);
  }
  while( bDone && bDue && pOwn->nDue<CQ_OUTBOX_DUE_FEW ){
    pOwn->nDue += (bDue = claimqStep(p, &due));
  }
  claimqStmtDone(p, &ready);
  claimqStmtDone(p, &due);
  assert( p->rc || bDone==(pC->pRows->nRow>0) );
}

/*
** xArgs.
*/
CQ_PRIV void claimqOutboxArgs(CqOp *p, CqClaim *pC){
  claimqQueueCheck(p, pC->aArg[CQ_OUTBOX_QUEUE].t);
}

/*
** xNone.  A wrong queue or partition is not_found here, too.
*/
CQ_PRIV void claimqOutboxNone(CqOp *p, CqClaim *pC){
  const CqVal *pPartition = &pC->aArg[CQ_OUTBOX_PARTITION];
  CqStmt s;
  if( pPartition->bGiven ){
    cqOutboxFind(p, pC, pPartition->i, &s);
    claimqStmtDone(p, &s);
  }else{
    claimqQueueNeed(p, pC->aArg[CQ_OUTBOX_QUEUE].t);
  }
}

/*
** xNext.  One row is written, however many messages are delivered; if many
** partitions have become free meanwhile they are put in line first, and what is
** wrongly known of others is repaired.  Messages without a number are numbered,
** or buried, in the same task.
*/
CQ_PRIV void claimqOutboxNext(CqOp *p, CqClaim *pC){
  CqOutboxClaim *pOwn = (CqOutboxClaim*)&pC->own;
  const CqVal *pPartition = &pC->aArg[CQ_OUTBOX_PARTITION];
  memset(pOwn, 0, sizeof(*pOwn));
  if( pPartition->bGiven ) cqOutboxOne(p, pC, pPartition->i);
  else cqOutboxAny(p, pC);
  pC->bTidy = pOwn->bBad || pOwn->nDue>=CQ_OUTBOX_DUE_FEW || pC->ids.n;
  pC->bUpkeep = pOwn->bBad && pC->pRows->nRow==0;
  if( pC->pRows->nRow>0 || pC->bUpkeep ){
    pC->task.eNeed = pOwn->bBad || pOwn->nNew ? CQ_NEED_UNDO
                   : pC->bTidy ? CQ_NEED_TIDY : CQ_NEED_ONE;
  }
}

/*
** When the partition that pPart stands on could be claimed; CQ_NO_TIME if it
** has nothing to deliver.
*/
static i64 cqOutboxFreeAt(CqOp *p, const CqClaim *pC, const CqStmt *pPart){
  i64 iAt = claimqColInt(pPart, CQ_COL_OUTBOX_READY_available_at_ms);
  i64 iExpires = claimqColInt(pPart, CQ_COL_OUTBOX_READY_expires_at_ms);
  CqStmt s;
  if( iAt<iExpires ) iAt = iExpires;
  if( cqOutboxWhy(p, pPart)==CQ_WHY_CLAIMABLE ) iAt = claimqNow(p);
  if( !cqOutboxFirst(p, pC, pPart, 1, &s) ) iAt = CQ_NO_TIME;
  claimqStmtDone(p, &s);
  return iAt;
}

/*
** The same of the partitions whose messages have no numbers, the soonest of
** them; not all are looked at if one of them could be claimed now.
*/
static i64 cqOutboxFreshAt(CqOp *p, CqClaim *pC){
  CqStmt s = cqOutboxStream(p, pC, CQ_SQL_OUTBOX_FRESH_PART, 0);
  i64 iFrom = CQ_I64_MIN, iAt = CQ_NO_TIME;
  while( iAt!=claimqNow(p) && cqOutboxNextFresh(p, pC, &s, &iFrom) ){
    iAt = claimqSooner(iAt, cqOutboxFreeAt(p, pC, &s));
  }
  claimqStmtDone(p, &s);
  return iAt;
}

/*
** xNextAt.  The partitions come by the time at which they are free, but for
** those that are thought to be ready and are not, because time went back.
*/
CQ_PRIV i64 claimqOutboxNextAt(CqOp *p, CqClaim *pC){
  CqOutboxClaim *pOwn = (CqOutboxClaim*)&pC->own;
  i64 iAt = CQ_NO_TIME;
  CqStmt s;
  if( pC->aArg[CQ_OUTBOX_PARTITION].bGiven ){
    if( cqOutboxFind(p, pC, pC->aArg[CQ_OUTBOX_PARTITION].i, &s) ){
      pOwn->bFresh = cqOutboxIsFresh(&s);
      iAt = cqOutboxFreeAt(p, pC, &s);
    }
    claimqStmtDone(p, &s);
    return iAt;
  }
  claimqQueueLook(p, pC->aArg[CQ_OUTBOX_QUEUE].t, &pOwn->bFresh);
  if( pOwn->bFresh ) iAt = cqOutboxFreshAt(p, pC);
  s = cqOutboxStream(p, pC, CQ_SQL_OUTBOX_READY, CQ_I64_MAX);
  while( iAt!=claimqNow(p) && claimqStep(p, &s)
      && (iAt==CQ_NO_TIME || claimqColInt(&s, CQ_COL_OUTBOX_READY_due)<iAt) ){
    iAt = claimqSooner(iAt, cqOutboxFreeAt(p, pC, &s));
  }
  claimqStmtDone(p, &s);
  return iAt;
}

/*
** xWhy: partitions that have something to deliver.
*/
CQ_PRIV void claimqOutboxWhy(CqOp *p, CqClaim *pC, CqWhy *pWhy){
  const CqVal *pPartition = &pC->aArg[CQ_OUTBOX_PARTITION];
  CqStmt s;
  claimqQueueNeed(p, pC->aArg[CQ_OUTBOX_QUEUE].t);
  if( pPartition->bGiven ){
    cqOutboxFind(p, pC, pPartition->i, &s);
    claimqStmtDone(p, &s);
  }
  s = claimqStmt(p, CQ_SQL_OUTBOX_WHY);
  claimqBindText(p, &s, CQ_OUTBOX_READY_queue, pC->aArg[CQ_OUTBOX_QUEUE].t);
  while( claimqStep(p, &s) ){
    i64 iPartition = claimqColInt(&s, CQ_COL_OUTBOX_READY_partition);
    int eWhy = cqOutboxWhy(p, &s);
    i64 iUntil = claimqWhyUntil(eWhy,
        claimqColInt(&s, CQ_COL_OUTBOX_READY_available_at_ms),
        claimqColInt(&s, CQ_COL_OUTBOX_READY_expires_at_ms));
    CqStmt msg;
    int bAny;
    ((CqOutboxClaim*)&pC->own)->bFresh = cqOutboxIsFresh(&s);
    bAny = cqOutboxFirst(p, pC, &s, 1, &msg);
    claimqStmtDone(p, &msg);
    if( !bAny ) continue;
    if( pPartition->bGiven && iPartition!=pPartition->i ){
      eWhy = CQ_WHY_PARTITION;
      iUntil = CQ_NO_TIME;
    }
    claimqWhyAdd(p, pWhy, eWhy, 0, iPartition, iUntil);
  }
  claimqStmtDone(p, &s);
}

/*
** xRows: the messages of a claim that was made before, if it holds.
*/
CQ_PRIV void claimqOutboxRows(CqOp *p, CqClaim *pC, CqText claimId){
  i64 iHead, iFence;
  CqStmt s;
  if( !claimqClaimIdParse(claimId, pC->pDef->zPrefix, &iHead, &iFence) ) return;
  s = claimqStmt(p, CQ_SQL_OUTBOX_ROWS);
  claimqBindCommonInt(p, &s, CQ_P_head, iHead);
  claimqBindCommonText(p, &s, CQ_P_claim, claimId);
  while( claimqStep(p, &s) ){
    CqCell *a = claimqRowsAdd(p, pC->pRows);
    claimqCellColumns(p, pC->pRows, a, &s, CQ_OUTBOX_NCOL);
    claimqLeaseKept(p, pC->pRows, a ? &a[CQ_OUTBOX_NCOL] : 0, &s,
        CQ_COL_OUTBOX_ROWS_claim_id, iFence,
        claimqColInt(&s, CQ_COL_OUTBOX_ROWS_attempts)-1);
  }
  claimqStmtDone(p, &s);
}

/*
** xTidy: partitions that have become free are put in line with those that are,
** partitions that do not wait as long as was thought are repaired, and messages
** for partitions that are not there become dead letters.
*/
CQ_PRIV void claimqOutboxTidy(CqOp *p, CqClaim *pC){
  const CqOutboxClaim *pOwn = (const CqOutboxClaim*)&pC->own;
  CqStmt s;
  if( pOwn->bBad ){
    claimqOutboxBuryBad(p, &pC->task, pC->aArg[CQ_OUTBOX_QUEUE].t);
  }
  if( pOwn->nDue>=CQ_OUTBOX_DUE_FEW ){
    s = claimqStmt(p, CQ_SQL_OUTBOX_PROMOTE);
    claimqBindText(p, &s, CQ_OUTBOX_PROMOTE_queue,
                   pC->aArg[CQ_OUTBOX_QUEUE].t);
    claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
    claimqExec(p, &s);
  }
  if( pC->ids.n ){
    s = claimqStmt(p, CQ_SQL_OUTBOX_REPAIR);
    claimqBindText(p, &s, CQ_OUTBOX_REPAIR_queue, pC->aArg[CQ_OUTBOX_QUEUE].t);
    claimqBindIds(p, &s, CQ_OUTBOX_REPAIR_ids, &pC->ids);
    claimqExec(p, &s);
  }
}

/*
** Write the lease to the partition, with what is delivered.  The messages are
** not touched, but for those that get their numbers.
*/
CQ_PRIV void claimqOutboxStamp(CqOp *p, CqClaim *pC){
  const CqOutboxClaim *pOwn = (const CqOutboxClaim*)&pC->own;
  CqStmt s;
  if( pC->bUpkeep ) return;
  assert( pC->pRows->nRow>0 && pC->lease.bCells );
  if( pOwn->nNew>0
   && !claimqOutboxNumber(p, &pC->task, pC->aArg[CQ_OUTBOX_QUEUE].t,
                          pOwn->iPartition, pOwn->nNew)
  ){
    claimqStale(p, &pC->task);
  }
  s = claimqStmt(p, CQ_SQL_OUTBOX_STAMP);
  assert( pC->lease.iFence==claimqAddSat(pOwn->iFence, 1) );
  claimqLeaseBind(p, &s, &pC->lease);
  claimqBindInt(p, &s, CQ_OUTBOX_STAMP_size, pC->pRows->nRow);
  claimqBindInt(p, &s, CQ_OUTBOX_STAMP_delivered, pOwn->iLast);
  claimqBindInt(p, &s, CQ_OUTBOX_STAMP_fence, pOwn->iFence);
  claimqBindInt(p, &s, CQ_OUTBOX_STAMP_cursor, pOwn->iCursor);
  claimqClaimStamp(p, pC, &s, 1);
}
