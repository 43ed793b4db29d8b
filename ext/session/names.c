/*
** session/names.c: a set of session ids: those that a claim of any session has
** passed over, or that it will repair.
**
** A hash table that keeps copies, at most half full.  A set that is zeroed is
** an empty one.
*/
#include "session.h"

/*
** The slot that has the name, or the free one where it belongs.
*/
static CqText *cqNamesSlot(const CqNames *pN, CqText t){
  u32 h = 2166136261u;
  int i;
  assert( pN->n<pN->nSlot );
  for(i=0; i<t.n; i++) h = (h ^ (u8)t.z[i])*16777619u;
  h ^= h>>15;
  for(;; h++){
    CqText *pSlot = &pN->a[h & (u32)(pN->nSlot-1)];
    if( pSlot->z==0 || claimqTextEq(*pSlot, t) ) return pSlot;
  }
}

CQ_PRIV int claimqNamesHas(const CqNames *pN, CqText t){
  return pN->n>0 && cqNamesSlot(pN, t)->z!=0;
}

/*
** Add a copy of a name that is not there yet.
*/
CQ_PRIV void claimqNamesAdd(CqOp *p, CqNames *pN, CqText t){
  CqText *pSlot;
  if( pN->n*2>=pN->nSlot ){
    CqNames big = {0, 0, 0};
    int i;
    big.nSlot = pN->nSlot ? pN->nSlot*2 : 16;
    big.a = claimqMalloc(p, (i64)big.nSlot*(i64)sizeof(CqText));
    if( big.a==0 ) return;
    for(i=0; i<pN->nSlot; i++){
      if( pN->a[i].z==0 ) continue;
      *cqNamesSlot(&big, pN->a[i]) = pN->a[i];
      big.n++;
    }
    sqlite3_free(pN->a);
    *pN = big;
  }
  pSlot = cqNamesSlot(pN, t);
  assert( pSlot->z==0 );
  pSlot->z = claimqTextDup(p, t);
  pSlot->n = t.n;
  if( pSlot->z ) pN->n++;
}

/*
** Free the names and make the set empty.
*/
CQ_PRIV void claimqNamesClear(CqNames *pN){
  int i;
  for(i=0; i<pN->nSlot; i++) sqlite3_free((char*)pN->a[i].z);
  sqlite3_free(pN->a);
  memset(pN, 0, sizeof(*pN));
}
