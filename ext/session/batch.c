/*
** session/batch.c: a batch as it was read, and why it is or is not claimable.
**
** Users may have written to the table, so each column that a claim relies on is
** looked at before the batch is believed.
*/
#include "session.h"

/*
** The name of a column that is not of its type, or 0.  Such a row cannot be
** written back, so nothing can be done with it.
*/
static const char *cqBatchUnsound(const CqBatch *pB){
  static const struct {
    u8 iCol, eType, bNull;
    const char *zName;
  } aCol[] = {
    { CQ_S(batch_id),        SQLITE_TEXT,    0, "batch_id" },
    { CQ_S(source_key),      SQLITE_TEXT,    1, "source_key" },
    { CQ_S(enqueued_at_ms),  SQLITE_INTEGER, 0, "enqueued_at_ms" },
    { CQ_S(available_at_ms), SQLITE_INTEGER, 0, "available_at_ms" },
    { CQ_S(fencing_token),   SQLITE_INTEGER, 0, "fencing_token" },
    { CQ_S(claim_id),        SQLITE_TEXT,    1, "claim_id" },
    { CQ_S(attempts),        SQLITE_INTEGER, 0, "attempts" },
    { CQ_S(last_error),      SQLITE_TEXT,    1, "last_error" },
    { CQ_S(headers),         SQLITE_TEXT,    1, "headers" },
  };
  int i;
  for(i=0; i<CQ_ARRAYSIZE(aCol); i++){
    int eType = sqlite3_value_type(pB->apCol[aCol[i].iCol]);
    if( eType!=aCol[i].eType && (!aCol[i].bNull || eType!=SQLITE_NULL) ){
      return aCol[i].zName;
    }
  }
  return 0;
}

/*
** The number of the word in a column, -1 if it is none of them.
*/
static int cqBatchWord(
  CqOp *p, const CqBatch *pB, int iCol, const char *const *azWord
){
  return claimqWord(azWord, claimqTextOrNull(p, pB->apCol[iCol]));
}

/*
** Read what selection looks at.  Returns the name of a column that has a value
** nobody may write, or 0.
*/
static const char *cqBatchWords(CqOp *p, CqBatch *pB){
  int eWork = cqBatchWord(p, pB, CQ_S(work_class), claimqWorkWords());
  int eDelivery = cqBatchWord(p, pB, CQ_S(delivery_policy),
                              claimqDeliveryWords());
  int eSlot = cqBatchWord(p, pB, CQ_S(slot_policy), claimqSlotWords());
  pB->cand.eWork = (u8)eWork;
  pB->cand.eDelivery = (u8)eDelivery;
  pB->cand.eSlot = (u8)eSlot;
  pB->cand.merge = claimqTextOrNull(p, pB->apCol[CQ_S(merge_key)]);
  return eWork<0 ? "work_class"
       : eDelivery<0 ? "delivery_policy"
       : eSlot<0 ? "slot_policy"
       : !claimqMergeKeyOk(pB->cand.merge) ? "merge_key" : 0;
}

/*
** Until when a claim that is written in the row holds it.  0 if somebody put
** something else there: then zBad is set.
*/
static i64 cqBatchExpires(CqBatch *pB){
  sqlite3_value *pVal = claimqColValue(pB->pStmt, CQ_S(expires_at_ms));
  int eType = sqlite3_value_type(pVal);
  if( eType!=SQLITE_INTEGER && eType!=SQLITE_NULL ) pB->zBad = "expires_at_ms";
  return pB->zBad ? 0 : sqlite3_value_int64(pVal);
}

/*
** Read the row that pStmt stands on, and judge it.  1 if the stream must stop
** at it: it is claimable, or somebody corrupted it.
*/
CQ_PRIV int claimqBatchRead(CqOp *p, const CqStmt *pStmt, CqBatch *pB){
  static const u8 aiCol[] = {
    CQ_S(enqueue_seq), CQ_S(batch_id), CQ_S(source_key), CQ_S(work_class),
    CQ_S(delivery_policy), CQ_S(slot_policy), CQ_S(merge_key),
    CQ_S(enqueued_at_ms), CQ_S(available_at_ms), CQ_S(fencing_token),
    CQ_S(claim_id), CQ_S(attempts), CQ_S(last_error), CQ_S(headers)
  };
  int i;
  assert( sqlite3_data_count(pStmt->pStmt)>CQ_S_NREAD );
  pB->pStmt = pStmt;
  pB->zBad = 0;
  for(i=0; i<CQ_ARRAYSIZE(aiCol); i++){
    pB->apCol[aiCol[i]] = claimqColValue(pStmt, aiCol[i]);
  }
  pB->iSeq = sqlite3_value_int64(pB->apCol[CQ_S(enqueue_seq)]);
  pB->cand.iAvailable = sqlite3_value_int64(pB->apCol[CQ_S(available_at_ms)]);
  pB->cand.bClaimed =
      sqlite3_value_type(pB->apCol[CQ_S(claim_id)])!=SQLITE_NULL;
  pB->cand.iExpires = pB->cand.bClaimed ? cqBatchExpires(pB) : 0;
  pB->eWhy = claimqBatchWhy(&pB->cand, claimqNow(p));
  if( pB->eWhy==CQ_WHY_CLAIMABLE ){
    if( pB->zBad==0 ) pB->zBad = cqBatchWords(p, pB);
    if( pB->zBad==0 ) pB->zBad = cqBatchUnsound(pB);
    if( pB->zBad ) pB->eWhy = CQ_WHY_UNKNOWN;
  }
  return pB->eWhy==CQ_WHY_CLAIMABLE || pB->eWhy==CQ_WHY_UNKNOWN;
}

/*
** A corrupted batch at the head of a session that was asked for is an error;
** when any session will do it is passed over, with a word in the error log.
*/
CQ_PRIV void claimqBatchBad(CqOp *p, const CqClaim *pC, const CqBatch *pB){
  const char *zBad = pB->zBad ? pB->zBad : "session";
  assert( p->rc==SQLITE_OK );
  assert( pB->eWhy==CQ_WHY_UNKNOWN || pB->eWhy==CQ_WHY_CLAIMABLE );
  if( ((const CqSession*)&pC->own)->bAny ){
    sqlite3_log(SQLITE_CORRUPT, "claimq: claimq_batch row %lld has a bad %s "
                "and is passed over", pB->iSeq, zBad);
  }else{
    claimqFail(p, CQ_SCHEMA_MISMATCH, "row %lld of claimq_batch has a bad %s: "
               "repair or delete it", pB->iSeq, zBad);
  }
}
