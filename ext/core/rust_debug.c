/*
** rust_debug.c: text as Rust's {:?} prints a str.
**
** The batch id of a batch with a source key hashes the key in this form, so
** that the ids are those of the Rust program which first had them:
**
**     key       escaped
**     a"b       a\"b
**     line<LF>  line\n
**     it's      it's            a single quote stays, unlike in a char
**     <U+00AD>  \u{ad}          soft hyphen: not printable
**     <U+1F44D> as it is        thumbs up: printable
**
** How it works
**
** Six characters have a short form: NUL, tab, newline, carriage return, the
** double quote and the backslash.  What Rust holds for unprintable, or for a
** mark that clings to the character before it, becomes \u{hex}.  Which these
** are depends on Rust's Unicode tables; claimq must not change its ids when
** those do, so the ranges are fixed in a data file, and mkrust.tcl makes the
** array from it.  It is sorted and is searched by halving.
**
** Most keys need no escape at all.  They leave in one piece: verbatim bytes
** are only counted, and handed out as one run when an escape or the end is
** met.
*/
#include "claimq_core.h"
#include "rust_debug_table.h"

#define CQ_RUST_ESC_SZ 10         /* "\u{10ffff}" */

/* 1 if the code point lies in a range of the table, else 0. */
static int cqRustUnprintable(u32 c){
  int iLo = 0;
  int iHi = CQ_ARRAYSIZE(cqRustRange);
  if( c>=0x20 && c<0x7f ) return 0;     /* Most are: do not search */
  while( iLo<iHi ){
    int iMid = (iLo+iHi)/2;
    assert( cqRustRange[iMid].iFirst<=cqRustRange[iMid].iLast );
    assert( iMid==0 || cqRustRange[iMid-1].iLast<cqRustRange[iMid].iFirst );
    if( c>cqRustRange[iMid].iLast ){
      iLo = iMid+1;
    }else if( c<cqRustRange[iMid].iFirst ){
      iHi = iMid;
    }else{
      return 1;
    }
  }
  return 0;
}

/* The letter of a short escape, or 0 if the code point has none. */
static char cqRustShort(u32 c){
  switch( c ){
    case 0:    return '0';
    case '\t': return 't';
    case '\n': return 'n';
    case '\r': return 'r';
    case '"':  return '"';
    case '\\': return '\\';
    default:   return 0;
  }
}

/* Write \u{hex}, lower-case and unpadded.  Returns the length. */
static int cqRustHex(u32 c, char zOut[CQ_RUST_ESC_SZ]){
  int n = 3, nShift = 20;
  memcpy(zOut, "\\u{", 3);
  while( nShift>0 && (c>>nShift)==0 ) nShift -= 4;
  for(; nShift>=0; nShift-=4) zOut[n++] = "0123456789abcdef"[(c>>nShift)&15];
  zOut[n++] = '}';
  assert( n<=CQ_RUST_ESC_SZ );
  return n;
}

/* Write the escape of one code point.  Returns its length, 0 for verbatim. */
static int cqRustEscape(u32 c, char zOut[CQ_RUST_ESC_SZ]){
  char cShort = cqRustShort(c);
  if( cShort ){
    zOut[0] = '\\';
    zOut[1] = cShort;
    return 2;
  }
  return cqRustUnprintable(c) ? cqRustHex(c, zOut) : 0;
}

/*
** Feed the escaped form of (z,n), without the quotes around it, to xOut.
** Cannot fail: a byte that is not UTF-8 passes verbatim (SQL never gets here
** with one, Rust has no such str).
*/
CQ_PRIV void claimqRustDebug(
  const char *z, int n, void (*xOut)(void*, const void*, size_t), void *pCtx
){
  int iRun = 0;                   /* Verbatim bytes since here wait */
  int i = 0;
  while( i<n ){
    char zEsc[CQ_RUST_ESC_SZ];
    u32 c = 'x';
    int nByte = claimqUtf8Decode(&z[i], n-i, &c);
    int nEsc = nByte ? cqRustEscape(c, zEsc) : 0;
    if( nEsc ){
      if( i>iRun ) xOut(pCtx, &z[iRun], (size_t)(i-iRun));
      xOut(pCtx, zEsc, (size_t)nEsc);
      iRun = i+nByte;
    }
    i += nByte ? nByte : 1;
  }
  if( n>iRun ) xOut(pCtx, &z[iRun], (size_t)(n-iRun));
}
