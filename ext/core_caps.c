/*
** core_caps.c: one way to write a set of capabilities.
**
**     ["linux", "gpu","\u0067pu"]   ->   ["gpu","linux"]
**
** Jobs that require the same capabilities must share a set, or a lane would
** have more sets than its claims can look at (see claimq_capset in
** sql/schema.sql).  So claimq_submit() sorts them by their bytes, leaves out
** repetitions, and writes each in one way: only what JSON demands is escaped,
** control characters as \u00XX.
**
** Memory comes from the caller, who knows what the text can grow to: an escape
** of two bytes becomes one of six at most.
*/
#include "claimq_core.h"
#include <assert.h>

/* <0, 0, >0 as a sorts before, with or after b. */
static int cqCapsCompare(CqText a, CqText b){
  int n = a.n<b.n ? a.n : b.n;
  int c = n ? memcmp(a.z, b.z, (size_t)n) : 0;
  return c ? c : a.n-b.n;
}

/* Shell's sort: short, no recursion, good enough for long lists. */
static void cqCapsSort(CqText *a, int n){
  int nGap, i, j;
  for(nGap=n/2; nGap>0; nGap=nGap==2 ? 1 : nGap*5/11){
    for(i=nGap; i<n; i++){
      CqText x = a[i];
      for(j=i; j>=nGap && cqCapsCompare(a[j-nGap], x)>0; j-=nGap){
        a[j] = a[j-nGap];
      }
      a[j] = x;
    }
  }
}

/* Write t as a JSON string at z.  Returns the end. */
static char *cqCapsWrite(CqText t, char *z){
  static const char zHex[] = "0123456789abcdef";
  int i;
  *z++ = '"';
  for(i=0; i<t.n; i++){
    u8 c = (u8)t.z[i];
    if( c<0x20 ){
      memcpy(z, "\\u00", 4);
      z[4] = zHex[c>>4];
      z[5] = zHex[c&15];
      z += 6;
    }else{
      if( c=='"' || c=='\\' ) *z++ = '\\';
      *z++ = (char)c;
    }
  }
  *z++ = '"';
  return z;
}

/*
** Write the set.  json passed claimqCapsCheck(), which said how many elements
** there are: aItem has room for so many, zText for json.n bytes, zOut for
** 3*json.n.  Returns the length of what is in zOut; no NUL is added.
*/
CQ_PRIV int claimqCapsCanon(
  CqText json, CqText *aItem, char *zText, char *zOut
){
  CqJson r;
  int n = 0, i;
  char *z = zOut;
  claimqJsonInit(&r, json);
  claimqJsonNext(&r);
  while( claimqJsonNext(&r)==CQ_JSON_STRING ){
    aItem[n].z = zText;
    aItem[n].n = claimqJsonText(r.tok, zText);
    assert( aItem[n].n>0 );
    zText += aItem[n].n;
    n++;
  }
  cqCapsSort(aItem, n);
  *z++ = '[';
  for(i=0; i<n; i++){
    if( i>0 && cqCapsCompare(aItem[i-1], aItem[i])==0 ) continue;
    if( i>0 ) *z++ = ',';
    z = cqCapsWrite(aItem[i], z);
  }
  *z++ = ']';
  return (int)(z - zOut);
}
