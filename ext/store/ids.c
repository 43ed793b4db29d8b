/*
** ids.c: a list of integer keys; and arrays that grow.
**
** What a claim takes, promotes or removes is collected here, and handed to one
** statement, which reads it as the table claimq__ids (vtab/id_list.c).
*/
#include "claimq_int.h"

/*
** Make room for one more element in an array of elements of nByte bytes.
** Returns 0 if there is no memory.
*/
CQ_PRIV int claimqGrow(
  CqOp *p, void **ppArray, int n, int *pnAlloc, size_t nByte
){
  int nNew = *pnAlloc ? *pnAlloc*2 : 16;
  void *pNew;
  assert( n>=0 && n<=*pnAlloc );
  if( n<*pnAlloc ) return 1;
  pNew = claimqRealloc(p, *ppArray, nNew*(i64)nByte);
  if( pNew==0 ) return 0;
  *ppArray = pNew;
  *pnAlloc = nNew;
  return 1;
}

/*
** Add a key; nothing happens if op has an error, or gets one here.
*/
CQ_PRIV void claimqIdsAdd(CqOp *p, CqIds *pIds, i64 iId){
  if( p->rc || !claimqGrow(p, (void**)&pIds->a, pIds->n, &pIds->nAlloc,
                           sizeof(i64)) ){
    return;
  }
  pIds->a[pIds->n++] = iId;
}

/*
** Note a row for upkeep, which moves a bounded number.  pIds may be 0.
*/
CQ_PRIV void claimqIdsNote(CqOp *p, CqIds *pIds, i64 iId){
  if( pIds && pIds->n<CQ_DUE_MOST ) claimqIdsAdd(p, pIds, iId);
}

/*
** Free the list and make it empty.
*/
CQ_PRIV void claimqIdsClear(CqIds *pIds){
  sqlite3_free(pIds->a);
  memset(pIds, 0, sizeof(*pIds));
}
