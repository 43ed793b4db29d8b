/*
** core_outbox.c: names, partitions and progress of the outbox (SPEC section
** 8).
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
**
** How it works
**
** The number of processed messages is held within 0..delivered, so the cursor
** never moves back and never passes what was delivered.  Sequences have no
** gaps: the n-th message delivered is cursor+n.  Somebody may have deleted
** messages by hand all the same; then the n-th one is further on, and a
** message is delivered twice rather than never.  All of them is all of them.
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
** What a verb does to a partition.  pProcessed is the option, 0 if it was not
** given.
*/
CQ_PRIV void claimqProgress(
  const CqDelivery *p, int eVerb, const i64 *pProcessed, CqProgress *pOut
){
  int bAll = eVerb==CQ_PROGRESS_COMPLETE && pProcessed==0;
  i64 n = bAll ? p->nMsg : pProcessed ? *pProcessed : 0;
  assert( p->nMsg>=0 && p->iLast>=p->iCursor );
  if( eVerb==CQ_PROGRESS_RELEASE || n<0 ) n = 0;
  if( n>p->nMsg ) n = p->nMsg;
  pOut->nDone = n;
  pOut->iDone = n>0 && n==p->nMsg ? p->iLast
                                       : claimqAddSat(p->iCursor, n);
  if( pOut->iDone>p->iLast ) pOut->iDone = p->iLast;
  pOut->iCursor = eVerb==CQ_PROGRESS_REJECT ? p->iLast : pOut->iDone;
  pOut->nAttempt = pOut->iCursor>p->iCursor ? 0 : p->nAttempt;
  pOut->eError = CQ_ERROR_CLEAR;
  if( eVerb==CQ_PROGRESS_RETRY ){
    pOut->eError = CQ_ERROR_REASON;
  }else if( eVerb==CQ_PROGRESS_RELEASE
         || (eVerb==CQ_PROGRESS_COMPLETE && n==0) ){
    pOut->eError = CQ_ERROR_KEEP;
    if( pOut->nAttempt>0 ) pOut->nAttempt--;
  }
}
