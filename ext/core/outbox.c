/*
** core/outbox.c: names, partitions and progress of the outbox.
**
** Messages 5..8 of a partition were delivered, its cursor stands at 4, and
** this was the third claim since the last progress:
**
**     verb      processed   cursor   attempts   dead letters   last error
**     complete  not given        8          0   -              cleared
**     complete  2                6          0   -              cleared
**     complete  0                4          2   -              kept
**     release   -                4          2   -              kept
**     retry     not given, 0     4          3   -              the reason
**     retry     2                6          0   -              the reason
**     reject    not given, 0     8          0   5 6 7 8        cleared
**     reject    2                8          0   7 8            cleared
**     any       -1, 5            refused
**
** How it works
**
** A verb is decided in three steps.  claimqProcessed() says how many messages
** are processed; a number that is not within 0..delivered is refused, because
** whoever gives one has lost count, and would lose messages next.
** claimqDoneSeq() finds the last of them.  As a rule sequences have no gaps,
** and the n-th message delivered is cursor+n; but claimq_restored() makes the
** numbers jump, and somebody may delete messages by hand.  Then it must be
** looked up, counted from the end, so that a message that was deleted since
** makes another be delivered twice rather than never.  claimqProgress() says
** what becomes of the partition.
*/
#include "claimq_core.h"

static int cqIsAlnum(char c){
  return (c>='0' && c<='9') || (c>='A' && c<='Z') || (c>='a' && c<='z');
}

/*
** 1 if a queue may have this name: letters, digits, '.', '_' and '-', the
** first and the last a letter or digit, at most CQ_QUEUE_NAME_MAX bytes.
*/
CQ_PRIV int claimqQueueNameOk(CqText t){
  int i;
  if( t.n<1 || t.n>CQ_QUEUE_NAME_MAX ) return 0;
  for(i=0; i<t.n; i++){
    char c = t.z[i];
    if( !cqIsAlnum(c) && c!='.' && c!='_' && c!='-' ) return 0;
  }
  return cqIsAlnum(t.z[0]) && cqIsAlnum(t.z[t.n-1]);
}

/*
** 1 if a payload type is 1..CQ_PAYLOAD_TYPE_MAX printable ASCII characters.
*/
CQ_PRIV int claimqPayloadTypeOk(CqText t){
  int i;
  for(i=0; i<t.n; i++){
    if( t.z[i]<' ' || t.z[i]>'~' ) return 0;
  }
  return t.n>=1 && t.n<=CQ_PAYLOAD_TYPE_MAX;
}

/*
** The partition of a key: the first eight bytes of its SHA-256, as a big-endian
** number, modulo the number of partitions.
*/
CQ_PRIV i64 claimqKeyPartition(CqText key, i64 nPartition){
  CqSha256 sha;
  u8 a[32];
  u64 v = 0;
  int i;
  assert( nPartition>0 );
  claimqSha256Init(&sha);
  claimqSha256Update(&sha, key.z, (size_t)key.n);
  claimqSha256Final(&sha, a);
  for(i=0; i<8; i++) v = (v<<8) | a[i];
  return (i64)(v % (u64)nPartition);
}

/* 1 if partition a has waited longer than b; the numbers of two that wait
** equally long decide. */
CQ_PRIV int claimqWaitsLonger(const CqWaiting *a, const CqWaiting *b){
  if( a->iSince!=b->iSince ) return a->iSince<b->iSince;
  return a->iPartition<b->iPartition;
}

/*
** How many messages a claim of nMax delivers from a partition of which nAttempt
** claims in a row have made no progress: half as many for each, but one, so
** that a message that breaks its handler is soon alone.
*/
CQ_PRIV i64 claimqDegrade(i64 nMax, i64 nAttempt){
  i64 n = nAttempt<=0 ? nMax : nAttempt>62 ? 0 : nMax>>nAttempt;
  assert( nMax>=0 );
  return n>0 || nMax==0 ? n : 1;
}

/*
** How many of the delivered messages a verb says are processed.  pProcessed is
** the option, 0 if it was not given.  -1 if that cannot be.
*/
CQ_PRIV i64 claimqProcessed(
  const CqDelivery *p, int eVerb, const i64 *pProcessed
){
  assert( p->nMsg>=0 );
  if( eVerb==CQ_PROGRESS_RELEASE ) return 0;
  if( pProcessed==0 ) return eVerb==CQ_PROGRESS_COMPLETE ? p->nMsg : 0;
  return *pProcessed>=0 && *pProcessed<=p->nMsg ? *pProcessed : -1;
}

/*
** The number of the last of nDone processed messages; the cursor if there are
** none.  -1 if there are gaps among the delivered ones, and it must be looked
** up: then it is the number before the (nMsg-nDone)-th message from the end.
*/
CQ_PRIV i64 claimqDoneSeq(const CqDelivery *p, i64 nDone){
  assert( nDone>=0 && nDone<=p->nMsg && p->iLast>=p->iCursor );
  if( nDone==0 ) return p->iCursor;
  if( nDone==p->nMsg ) return p->iLast;
  if( claimqAddSat(p->iCursor, p->nMsg)!=p->iLast ) return -1;
  return claimqAddSat(p->iCursor, nDone);
}

/*
** What a verb does to a partition, of which nDone messages are processed, the
** last of them iDone.
*/
CQ_PRIV void claimqProgress(
  const CqDelivery *p, int eVerb, i64 nDone, i64 iDone, CqProgress *pOut
){
  assert( nDone>=0 && nDone<=p->nMsg );
  assert( iDone>=p->iCursor && iDone<=p->iLast );
  pOut->nDone = nDone;
  pOut->iDone = iDone;
  pOut->iCursor = eVerb==CQ_PROGRESS_REJECT ? p->iLast : iDone;
  pOut->nAttempt = pOut->iCursor>p->iCursor ? 0 : p->nAttempt;
  pOut->eError = CQ_ERROR_CLEAR;
  if( eVerb==CQ_PROGRESS_RETRY ){
    pOut->eError = CQ_ERROR_REASON;
  }else if( eVerb==CQ_PROGRESS_RELEASE
         || (eVerb==CQ_PROGRESS_COMPLETE && nDone==0) ){
    pOut->eError = CQ_ERROR_KEEP;
    if( pOut->nAttempt>0 ) pOut->nAttempt--;
  }
}
