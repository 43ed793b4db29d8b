/*
** core/caps.c: sets of capabilities, and whether a worker has what is required.
**
**     ["linux", "gpu","\u0067pu"]   ->   gpu linux   ->   ["gpu","linux"]
**
** Jobs that require the same capabilities must share a set, or a lane would
** have more sets than its claims can look at (see claimq_capset in
** sql/schema/lane.sql).  So claimq_submit() takes the list apart, sorted by
** bytes and without repetitions, and joins it in one way: only what JSON
** demands is escaped, control characters as \u00XX.
**
** A claim compares its worker's list with every set of the lane.  It takes the
** list apart once; then a set costs one reading and a binary search for each
** of its elements.
**
** Memory comes from the caller, who knows what the text can grow to: an escape
** of two bytes becomes one of six at most.
*/
#include "claimq_core.h"

#ifndef NDEBUG
/* 1 if the list is what claimqCapsSplit() gives: sorted, each element once. */
static int cqCapsIsSet(const CqText *aItem, int n){
  int i;
  for(i=1; i<n && claimqTextCompare(aItem[i-1], aItem[i])<0; i++){}
  return n>=0 && i>=n;
}
#endif

/*
** Check a list of capabilities.  Returns the number of elements (twice the
** same counts twice), -1 if this is no JSON array in valid UTF-8, -2 if it is
** one but an element is empty or not a string.
*/
CQ_PRIV int claimqCapsCheck(CqText json){
  CqJson r;
  int n = 0, bBad = 0, eTok;
  claimqJsonInit(&r, json);
  if( !claimqUtf8Valid(json.z, json.n) ) return -1;
  if( claimqJsonNext(&r)!=CQ_JSON_ARRAY ) return -1;
  while( (eTok = claimqJsonNext(&r))>CQ_JSON_END ){
    if( eTok==CQ_JSON_STRING ){
      int nText = claimqJsonText(r.tok, 0);
      if( nText<0 ) return -1;
      if( nText==0 ) bBad = 1;
      n++;
    }else if( eTok!=CQ_JSON_CLOSE ){
      bBad = 1;                   /* What opens inside is bad already */
    }
  }
  if( eTok==CQ_JSON_ERROR ) return -1;
  return bBad ? -2 : n;
}

/*
** Take the list apart.  json passed claimqCapsCheck(), which said how many
** elements there are: aItem has room for that many, zText for json.n bytes.
** Returns the number of elements, sorted, each one once.
*/
CQ_PRIV int claimqCapsSplit(CqText json, CqText *aItem, char *zText){
  CqJson r;
  int n = 0, nOnce = 0, i;
  assert( claimqCapsCheck(json)>=0 );
  claimqJsonInit(&r, json);
  claimqJsonNext(&r);
  while( claimqJsonNext(&r)==CQ_JSON_STRING ){
    aItem[n].z = zText;
    aItem[n].n = claimqJsonText(r.tok, zText);
    assert( aItem[n].n>0 );
    zText += aItem[n].n;
    n++;
  }
  claimqTextSort(aItem, n);
  for(i=0; i<n; i++){
    if( i==0 || claimqTextCompare(aItem[nOnce-1], aItem[i])!=0 ){
      aItem[nOnce++] = aItem[i];
    }
  }
  assert( cqCapsIsSet(aItem, nOnce) );
  return nOnce;
}

/*
** Write what claimqCapsSplit() gave.  zOut has room for three times the bytes
** of the list it came from.  Returns the length; no NUL is added.
*/
CQ_PRIV int claimqCapsJoin(const CqText *aItem, int n, char *zOut){
  char *z = zOut;
  int i;
  assert( cqCapsIsSet(aItem, n) );
  *z++ = '[';
  for(i=0; i<n; i++){
    if( i>0 ) *z++ = ',';
    z = claimqJsonWrite(aItem[i], z);
  }
  *z++ = ']';
  return (int)(z - zOut);
}

/*
** 1 if the sorted list has the capability that raw, a slice of JSON, stands
** for.  With an escape in it raw does not sort as what it stands for does, so
** all are tried; that is rare.
*/
static int cqCapsFind(CqText raw, const CqText *aItem, int n){
  int iLow = 0, iHigh = n;
  if( memchr(raw.z, '\\', (size_t)raw.n) ){
    while( iLow<n && !claimqJsonEq(raw, aItem[iLow]) ) iLow++;
    return iLow<n;
  }
  while( iLow<iHigh ){
    int iMid = (iLow + iHigh)/2;
    int c = claimqTextCompare(aItem[iMid], raw);
    if( c==0 ) return 1;
    if( c<0 ) iLow = iMid+1;
    else iHigh = iMid;
  }
  return 0;
}

/*
** 1 if every required capability is among the n offered ones, which
** claimqCapsSplit() gave.  A required list that is malformed is satisfied by
** nobody.
*/
CQ_PRIV int claimqCapsMeet(CqText required, const CqText *aItem, int n){
  CqJson r;
  int e;
  assert( cqCapsIsSet(aItem, n) );
  claimqJsonInit(&r, required);
  if( claimqJsonNext(&r)!=CQ_JSON_ARRAY ) return 0;
  while( (e = claimqJsonNext(&r))==CQ_JSON_STRING ){
    if( !cqCapsFind(r.tok, aItem, n) ) return 0;
  }
  return e==CQ_JSON_CLOSE && claimqJsonNext(&r)==CQ_JSON_END;
}

/*
** Write the required capabilities that are not among the n offered ones, as
** they stand in the required list, into zOut, which has room for required.n+2
** bytes.  Returns the length, 0 if the required list is malformed.
*/
CQ_PRIV int claimqCapsMissing(
  CqText required, const CqText *aItem, int n, char *zOut
){
  char *z = zOut;
  CqJson r;
  int e;
  claimqJsonInit(&r, required);
  if( claimqJsonNext(&r)!=CQ_JSON_ARRAY ) return 0;
  *z++ = '[';
  while( (e = claimqJsonNext(&r))==CQ_JSON_STRING ){
    if( cqCapsFind(r.tok, aItem, n) ) continue;
    if( z>&zOut[1] ) *z++ = ',';
    *z++ = '"';
    memcpy(z, r.tok.z, (size_t)r.tok.n);
    z += r.tok.n;
    *z++ = '"';
  }
  *z++ = ']';
  assert( z-zOut<=required.n+2 );
  return e==CQ_JSON_CLOSE ? (int)(z - zOut) : 0;
}
