/*
** core/session.c: what one claim of a session may take (ext/doc/tour.md,
** "Sessions").
**
** A session is a line of batches.  Claims take from the front and never skip.
** Each batch carries words that say how it wants to be delivered:
**
**     work             delivery        slot       merge
**     turn_work        earliest_...    join       group:a    \ taken
**     turn_work        earliest_...    join       group:a    / together
**     turn_work        earliest_...    exclusive  never      left for later
**     session_command  earliest_...    exclusive  never      left for later
**
**     claimqSelectInit(&sel, CQ_BOUNDARY_IDLE, CQ_TAKE_TURN, 32);
**     while( !sel.bDone && (next candidate) ){
**       if( !claimqSelectOffer(&sel, &cand) ) break;
**     }
**     the first sel.nTaken candidates are the claim
**
** How it works
**
** The candidates are offered one by one, in order, so that no more of them
** need to be read than are taken, and one.  The first decides alone whether
** anything is taken: it must be of the class that the claim asks for, and
** turn work at a checkpoint must want the earliest safe boundary.  (Commands
** are not bound to a boundary.)  A command, or an exclusive batch, is taken
** alone.  A joining batch takes with it those that follow for as long as they
** are of its kind.
*/
#include "claimq_core.h"

/* Each list is in the order of the CQ_ numbers of claimq_core.h. */
static const char *const cqWorkWord[] = { "turn_work", "session_command", 0 };
static const char *const cqDeliveryWord[] = {
  "earliest_safe_boundary", "after_current_turn_commit", 0
};
static const char *const cqSlotWord[] = { "exclusive", "join", 0 };
static const char *const cqBoundaryWord[] = {
  "idle", "active_turn_checkpoint", 0
};
static const char *const cqTakeWord[] = {
  "turn_work", "session_command", "any", 0
};
CQ_CHECK(WorkWords, CQ_ARRAYSIZE(cqWorkWord)==CQ_WORK_COMMAND+2);
CQ_CHECK(DeliveryWords, CQ_ARRAYSIZE(cqDeliveryWord)==CQ_DELIVER_COMMIT+2);
CQ_CHECK(SlotWords, CQ_ARRAYSIZE(cqSlotWord)==CQ_SLOT_JOIN+2);
CQ_CHECK(BoundaryWords,
         CQ_ARRAYSIZE(cqBoundaryWord)==CQ_BOUNDARY_CHECKPOINT+2);
CQ_CHECK(TakeWords, CQ_ARRAYSIZE(cqTakeWord)==CQ_TAKE_ANY+2);

CQ_PRIV const char *const *claimqWorkWords(void){ return cqWorkWord; }
CQ_PRIV const char *const *claimqDeliveryWords(void){ return cqDeliveryWord; }
CQ_PRIV const char *const *claimqSlotWords(void){ return cqSlotWord; }
CQ_PRIV const char *const *claimqBoundaryWords(void){ return cqBoundaryWord; }
CQ_PRIV const char *const *claimqTakeWords(void){ return cqTakeWord; }

/* The number of a word in its list; -1 if it is not there. */
CQ_PRIV int claimqWord(const char *const *azWord, CqText x){
  int i;
  if( x.z==0 ) return -1;
  for(i=0; azWord[i]; i++){
    size_t n = strlen(azWord[i]);
    if( (size_t)x.n==n && memcmp(x.z, azWord[i], n)==0 ) return i;
  }
  return -1;
}

/* 1 for "never", "payload_default" and "group:LABEL", else 0. */
CQ_PRIV int claimqMergeKeyOk(CqText x){
  static const char *const azFixed[] = { "never", "payload_default", 0 };
  if( claimqWord(azFixed, x)>=0 ) return 1;
  return x.z && x.n>=6 && memcmp(x.z, "group:", 6)==0;
}

/*
** Why the batch is no candidate at time iNow, CQ_WHY_CLAIMABLE if it is one.
** SESSION_NOW of sql/session.sql is the same rule.
*/
CQ_PRIV int claimqBatchWhy(const CqCand *p, i64 iNow){
  return claimqRowWhy(p->iAvailable, p->bClaimed, p->iExpires, iNow);
}

/* Begin a selection that takes at most nMax candidates. */
CQ_PRIV void claimqSelectInit(
  CqSelect *p, int eBoundary, int eTake, i64 nMax
){
  assert( eBoundary>=0 && eBoundary<=CQ_BOUNDARY_CHECKPOINT );
  assert( eTake>=0 && eTake<=CQ_TAKE_ANY );
  memset(p, 0, sizeof(*p));
  p->eBoundary = (u8)eBoundary;
  p->eTake = (u8)eTake;
  p->nMax = nMax;
  p->bDone = nMax<=0;
}

/*
** Why a claim may not begin with this candidate, CQ_WHY_CLAIMABLE if it may.
** Nothing behind it can be taken then either.
*/
CQ_PRIV int claimqHeadWhy(int eBoundary, int eTake, const CqCand *pCand){
  if( pCand->eWork==CQ_WORK_COMMAND ){
    return eTake==CQ_TAKE_TURN ? CQ_WHY_COMMAND : CQ_WHY_CLAIMABLE;
  }
  if( eTake==CQ_TAKE_COMMAND ) return CQ_WHY_BOUNDARY;
  return eBoundary==CQ_BOUNDARY_IDLE || pCand->eDelivery==CQ_DELIVER_EARLIEST
       ? CQ_WHY_CLAIMABLE : CQ_WHY_BOUNDARY;
}

/* 1 if the claim may begin with this candidate. */
static int cqSelectHead(const CqSelect *p, const CqCand *pCand){
  return claimqHeadWhy(p->eBoundary, p->eTake, pCand)==CQ_WHY_CLAIMABLE;
}

/*
** 1 if the candidate joins the claim that p->head began.  No merge key is like
** none.
*/
static int cqSelectJoins(const CqSelect *p, const CqCand *pCand){
  return pCand->eWork==CQ_WORK_TURN
      && pCand->eSlot==CQ_SLOT_JOIN
      && pCand->eDelivery==p->head.eDelivery
      && pCand->merge.z!=0
      && claimqTextEq(pCand->merge, p->head.merge);
}

/*
** Offer the next candidate in order.  Returns 1 if it is taken, 0 if it is
** not and the selection is over.
*/
CQ_PRIV int claimqSelectOffer(CqSelect *p, const CqCand *pCand){
  if( p->bDone ) return 0;
  assert( p->nTaken<p->nMax );
  assert( p->nTaken==0 || p->head.eSlot==CQ_SLOT_JOIN );
  if( p->nTaken ? !cqSelectJoins(p, pCand) : !cqSelectHead(p, pCand) ){
    p->bDone = 1;
    return 0;
  }
  if( p->nTaken==0 ) p->head = *pCand;
  p->nTaken++;
  p->bDone = p->nTaken==p->nMax
          || p->head.eWork==CQ_WORK_COMMAND
          || p->head.eSlot==CQ_SLOT_EXCLUSIVE;
  return 1;
}

/* nMax+32, saturating: how many candidates are worth reading. */
CQ_PRIV i64 claimqScanLimit(i64 nMax){
  return claimqAddSat(nMax, 32);
}

/*
** The number of strings in option batch_ids of claimq_complete(), -1 if that
** is no JSON array of strings.
*/
CQ_PRIV int claimqBatchIdsCount(CqText json){
  CqJson r;
  int n = 0, e;
  claimqJsonInit(&r, json);
  if( claimqJsonNext(&r)!=CQ_JSON_ARRAY ) return -1;
  while( (e = claimqJsonNext(&r))==CQ_JSON_STRING ){
    if( claimqJsonText(r.tok, 0)<0 ) return -1;
    n++;
  }
  return e==CQ_JSON_CLOSE && claimqJsonNext(&r)==CQ_JSON_END ? n : -1;
}

/*
** 1 if the array names the n batches of aHeld and no others, each once.  Both
** lists are sorted, and so compared in O(n log n).
*/
CQ_PRIV int claimqBatchIdsNamed(
  CqText json, CqText *aHeld, int n, CqText *aItem, char *zText
){
  CqJson r;
  int nItem = 0, i;
  claimqJsonInit(&r, json);
  claimqJsonNext(&r);
  while( claimqJsonNext(&r)==CQ_JSON_STRING ){
    aItem[nItem].z = zText;
    aItem[nItem].n = claimqJsonText(r.tok, zText);
    assert( aItem[nItem].n>=0 );
    zText += aItem[nItem++].n;
  }
  assert( nItem==claimqBatchIdsCount(json) );
  if( nItem!=n ) return 0;
  claimqTextSort(aItem, n);
  claimqTextSort(aHeld, n);
  for(i=0; i<n && claimqTextEq(aItem[i], aHeld[i]); i++){}
  return i==n;
}
