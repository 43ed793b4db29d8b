/*
** core/text.c: comparing and sorting texts, UTF-8, integers as text and back,
** sums that do not overflow.
*/
#include "claimq_core.h"

/*
** 1 if two texts are equal, byte for byte, or both are no value.
*/
CQ_PRIV int claimqTextEq(CqText a, CqText b){
  if( a.z==0 || b.z==0 ) return a.z==b.z;
  return a.n==b.n && memcmp(a.z, b.z, (size_t)a.n)==0;
}

/*
** <0, 0, >0 as a sorts before, with or after b: by bytes, no value first.
*/
CQ_PRIV int claimqTextCompare(CqText a, CqText b){
  int n = a.n<b.n ? a.n : b.n;
  int c = n ? memcmp(a.z, b.z, (size_t)n) : 0;
  if( c ) return c;
  return a.n!=b.n ? a.n-b.n : (a.z!=0)-(b.z!=0);
}

/*
** a[iTop] may be smaller than its children in the heap a[0..n-1]: let it sink.
*/
static void cqTextSink(CqText *a, int iTop, int n){
  CqText x = a[iTop];
  int i;
  assert( iTop>=0 && iTop<n );
  while( (i = 2*iTop+1)<n ){
    if( i+1<n && claimqTextCompare(a[i], a[i+1])<0 ) i++;
    if( claimqTextCompare(x, a[i])>=0 ) break;
    a[iTop] = a[i];
    iTop = i;
  }
  a[iTop] = x;
}

/*
** Sort n texts.  By a heap: O(n log n) whatever the order they come in, no
** memory, no recursion.
*/
CQ_PRIV void claimqTextSort(CqText *a, int n){
  int i;
  for(i=n/2-1; i>=0; i--) cqTextSink(a, i, n);
  for(i=n-1; i>0; i--){
    CqText x = a[0];
    a[0] = a[i];
    a[i] = x;
    assert( i==n-1 || claimqTextCompare(x, a[i+1])<=0 );
    cqTextSink(a, 0, i);
  }
}

/*
** Decode the code point that (z,n) begins with.  Returns its length in bytes
** and sets *pCode; returns 0 if there is none: overlong, surrogate, above
** U+10FFFF, cut short, or n is 0.
*/
CQ_PRIV int claimqUtf8Decode(const char *z, int n, u32 *pCode){
  static const u32 aMin[5] = { 0, 0, 0x80, 0x800, 0x10000 };
  const u8 *a = (const u8*)z;
  int nByte, i;
  u32 c;
  if( n<=0 ) return 0;
  c = a[0];
  if( c<0x80 ){
    *pCode = c;
    return 1;
  }
  nByte = c<0xe0 ? 2 : c<0xf0 ? 3 : 4;
  if( c<0xc0 || c>0xf7 || nByte>n ) return 0;
  c &= 0x7fu >> nByte;
  for(i=1; i<nByte; i++){
    if( (a[i] & 0xc0)!=0x80 ) return 0;
    c = (c<<6) | (a[i] & 0x3fu);
  }
  if( c<aMin[nByte] || c>0x10ffff || (c>=0xd800 && c<=0xdfff) ) return 0;
  *pCode = c;
  return nByte;
}

/* 1 if all n bytes are valid UTF-8, else 0.  NUL is a character like any. */
CQ_PRIV int claimqUtf8Valid(const char *z, int n){
  int i = 0;
  u32 c;
  while( i<n ){
    u64 aByte = 0;
    if( n-i>=8 ) memcpy(&aByte, &z[i], 8);
    if( n-i>=8 && (aByte & 0x8080808080808080)==0 ){
      i += 8;                     /* Nearly all: need not be decoded */
    }else if( (z[i] & 0x80)==0 ){
      i++;
    }else{
      int nByte = claimqUtf8Decode(&z[i], n-i, &c);
      if( nByte==0 ) return 0;
      i += nByte;
      assert( i<=n );
    }
  }
  return 1;
}

/* Write v in decimal and a NUL.  Returns the length, at most 20. */
CQ_PRIV int claimqI64Text(i64 v, char zOut[21]){
  u64 u = v<0 ? 0 - (u64)v : (u64)v;
  char zRev[20];
  int n = 0, i;
  do{
    zRev[n++] = (char)('0' + u%10);
    u /= 10;
  }while( u );
  if( v<0 ) zRev[n++] = '-';
  assert( n<=(int)sizeof(zRev) );
  for(i=0; i<n; i++) zOut[i] = zRev[n-1-i];
  zOut[n] = 0;
  return n;
}

/*
** The inverse of claimqI64Text().  Returns 1 and sets *pOut if x is exactly
** what it writes for some integer.  "", "-0", "007", "+1" and what does not
** fit are 0 and leave *pOut alone.
*/
CQ_PRIV int claimqI64Parse(CqText x, i64 *pOut){
  int bNeg = x.n>0 && x.z[0]=='-';
  u64 nLimit = (u64)CQ_I64_MAX + (u64)bNeg;
  u64 v = 0;
  int i;
  if( bNeg>=x.n || (x.z[bNeg]=='0' && x.n>1) ) return 0;
  for(i=bNeg; i<x.n; i++){
    u64 iDigit = (u64)(u8)x.z[i] - '0';
    if( iDigit>9 || v>(nLimit-iDigit)/10 ) return 0;
    v = v*10 + iDigit;
  }
  assert( v>0 || !bNeg );
  *pOut = bNeg ? -(i64)(v-1) - 1 : (i64)v;
  return 1;
}

/* a+b for b>=0; 2^63-1 if that is too much. */
CQ_PRIV i64 claimqAddSat(i64 a, i64 b){
  assert( b>=0 );
  return a>CQ_I64_MAX-b ? CQ_I64_MAX : a+b;
}
