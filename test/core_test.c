/*
** core_test.c: proof of the pure core, without SQLite.
**
**     core_test test/vectors
**     ...
**     1234567 passed, 0 failed
**
** It links sha256.c, rust_debug.c and the core files alone: that it builds
** shows that they need nothing of SQLite.  The argument is the directory of
** the known answers; the name of a file after it (core_json) has the tests of
** that file run first.  The exit status is 1 if a check failed.  With
** CLAIMQ_FIRST in the environment the first failure ends it.
**
** Three kinds of proof are used, the strongest that is cheap enough:
**
**   * known answers: NIST, test/vectors, lists of cases;
**   * everything: every code point, every string of three bytes, every list
**     of up to four candidates, every short history of claims, each compared
**     with a rule that is written down a second time, in another way;
**   * chance, from a fixed seed: JSON documents, whole and damaged.
**
** Input is handed over in blocks of exactly its size, without a NUL at the
** end, so that the address sanitizer sees every byte read too many.
*/
#include "claimq_core.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CQ_SHOW_MAX 100           /* Failures beyond this are only counted */
#define CQ_COUNT(a) ((int)(sizeof(a)/sizeof((a)[0])))

static long nPass = 0;
static long nFail = 0;

/* Count a check; if it failed, say which. */
static void cqCheck(int bOk, const char *zFmt, ...){
  va_list ap;
  if( bOk ){
    nPass++;
    return;
  }
  if( nFail++>=CQ_SHOW_MAX ) return;
  printf("FAILED: ");
  va_start(ap, zFmt);
  vprintf(zFmt, ap);
  va_end(ap);
  printf("\n");
  if( getenv("CLAIMQ_FIRST") ) exit(1);
}

/* A failure that leaves nothing to test. */
static void cqFatal(const char *zWhat, const char *zName){
  printf("FAILED: %s: %s\n", zWhat, zName);
  exit(1);
}

/* A block of memory; ends the program if there is none. */
static void *cqAlloc(size_t n){
  void *p = malloc(n ? n : 1);
  if( p==0 ) cqFatal("out of memory", "malloc");
  return p;
}

/* Slices of a NUL-terminated string, and of bytes. */
static CqText cqSlice(const char *z, int n){
  CqText x;
  x.z = z;
  x.n = n;
  return x;
}
static CqText cqStr(const char *z){
  return cqSlice(z, (int)strlen(z));
}

/* A copy in a block of exactly the size.  The caller frees z. */
static CqText cqTight(const char *z, int n){
  char *zCopy = cqAlloc((size_t)n);
  memcpy(zCopy, z, (size_t)n);
  return cqSlice(zCopy, n);
}
static void cqTightFree(CqText x){
  free((void*)x.z);
}

/* Numbers by chance, the same in every run (xorshift64). */
static u64 iSeed = 88172645463325252ULL;
static u32 cqRandom(u32 nBelow){
  iSeed ^= iSeed << 13;
  iSeed ^= iSeed >> 7;
  iSeed ^= iSeed << 17;
  return (u32)(iSeed >> 20) % nBelow;
}

/* UTF-8 by the book, surrogates too; returns the length. */
static int cqEncode(u32 c, char *z){
  if( c<0x80 ){
    z[0] = (char)c;
    return 1;
  }
  if( c<0x800 ){
    z[0] = (char)(0xc0|c>>6);
    z[1] = (char)(0x80|(c&63));
    return 2;
  }
  if( c<0x10000 ){
    z[0] = (char)(0xe0|c>>12);
    z[1] = (char)(0x80|(c>>6&63));
    z[2] = (char)(0x80|(c&63));
    return 3;
  }
  z[0] = (char)(0xf0|c>>18);
  z[1] = (char)(0x80|(c>>12&63));
  z[2] = (char)(0x80|(c>>6&63));
  z[3] = (char)(0x80|(c&63));
  return 4;
}
static int cqSurrogate(u32 c){ return c>=0xd800 && c<0xe000; }

/**************************************************************************
** sha256.c
*/

/* The hex sum of n bytes, in a static buffer. */
static const char *cqSum(const void *p, size_t n){
  static char zHex[65];
  CqSha256 sha;
  claimqSha256Init(&sha);
  claimqSha256Update(&sha, p, n);
  claimqSha256Hex(&sha, zHex);
  return zHex;
}

static void cqTestShaNist(void){
  static const struct { const char *zIn; const char *zSum; } a[] = {
    { "",
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    { "abc",
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    { "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
      "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
  };
  char *zMillion = cqAlloc(1000000);
  int i;
  for(i=0; i<CQ_COUNT(a); i++){
    const char *zGot = cqSum(a[i].zIn, strlen(a[i].zIn));
    cqCheck(!strcmp(zGot, a[i].zSum), "sha256(%s) = %s", a[i].zIn, zGot);
  }
  memset(zMillion, 'a', 1000000);
  cqCheck(!strcmp(cqSum(zMillion, 1000000),
    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
    "sha256 of a million a");
  free(zMillion);
  cqCheck(!strcmp(cqSum(0, 0), a[0].zSum), "sha256 of nothing at all");
}

/*
** The length in the last block has 64 bits.  Instead of hashing gigabytes,
** begin with the count of a long message, and give the same last block by
** hand to another sum.
*/
static void cqTestShaLong(void){
  CqSha256 sha, hand;
  u8 aBlock[64], aGot[32];
  int i, nShift;
  for(nShift=6; nShift<61; nShift++){
    int bOk = 1;
    claimqSha256Init(&sha);
    claimqSha256Init(&hand);
    sha.nByte = (u64)1 << nShift;
    memset(aBlock, 0, sizeof(aBlock));
    aBlock[0] = 0x80;
    aBlock[63 - (nShift+3)/8] = (u8)(1 << (nShift+3)%8);
    claimqSha256Update(&hand, aBlock, 64);
    claimqSha256Final(&sha, aGot);
    for(i=0; i<32; i++) bOk = bOk && aGot[i]==(u8)(hand.aH[i/4]>>(24-i%4*8));
    cqCheck(bOk, "sha256 of a message of 2^%d bytes", nShift);
  }
}

/*
** Every length up to 300, in one piece and cut in two at every place.  The
** sum of all these sums is known (from another implementation), so that the
** one-piece results are held against something, too.
*/
static void cqTestShaLengths(void){
  CqSha256 all, sha;
  u8 aIn[300], aOne[32], aTwo[32];
  char zHex[65];
  int n, i;
  for(i=0; i<300; i++) aIn[i] = (u8)(i*7+1);
  claimqSha256Init(&all);
  for(n=0; n<=300; n++){
    CqText in = cqTight((const char*)aIn, n);
    claimqSha256Init(&sha);
    claimqSha256Update(&sha, in.z, (size_t)n);
    claimqSha256Final(&sha, aOne);
    claimqSha256Update(&all, aOne, 32);
    for(i=0; i<=n; i++){
      claimqSha256Init(&sha);
      claimqSha256Update(&sha, in.z, (size_t)i);
      claimqSha256Update(&sha, &in.z[i], (size_t)(n-i));
      claimqSha256Final(&sha, aTwo);
      cqCheck(!memcmp(aOne, aTwo, 32), "sha256 of %d bytes cut at %d", n, i);
    }
    cqTightFree(in);
  }
  claimqSha256Hex(&all, zHex);
  cqCheck(!strcmp(zHex,
    "bb7d6d0d6592ab7edb752459c835ecac860ed253b337ce29b780d8e0bb3a76d5"),
    "sha256 of all sums: %s", zHex);
}

/* Byte by byte, and in pieces by chance, over many blocks. */
static void cqTestShaPieces(void){
  u8 aIn[2000];
  char zWhole[65], zPieces[65];
  int iTrial, i, n;
  for(i=0; i<2000; i++) aIn[i] = (u8)cqRandom(256);
  strcpy(zWhole, cqSum(aIn, 2000));
  for(iTrial=0; iTrial<200; iTrial++){
    CqSha256 sha;
    claimqSha256Init(&sha);
    for(i=0; i<2000; i+=n){
      n = iTrial ? (int)cqRandom(200) : 1;
      if( n>2000-i ) n = 2000-i;
      claimqSha256Update(&sha, &aIn[i], (size_t)n);
    }
    claimqSha256Hex(&sha, zPieces);
    cqCheck(!strcmp(zWhole, zPieces), "sha256 in pieces, trial %d", iTrial);
  }
}

/**************************************************************************
** core/id.c: UTF-8, integers, claim ids
*/

/* Every code point is accepted and decoded; its cut forms are refused. */
static void cqTestUtf8Points(void){
  u32 c;
  for(c=0; c<0x110000; c++){
    char z[4];
    int n = cqEncode(c, z), nCut, bOk = 1;
    u32 cGot = 0xffffffff;
    if( cqSurrogate(c) ){
      bOk = claimqUtf8Decode(z, n, &cGot)==0 && !claimqUtf8Valid(z, n);
    }else{
      bOk = claimqUtf8Decode(z, n, &cGot)==n && cGot==c;
      bOk = bOk && claimqUtf8Valid(z, n);
    }
    for(nCut=1; nCut<n; nCut++) bOk = bOk && !claimqUtf8Valid(z, nCut);
    if( !bOk || (c&0xff)==0xff ) cqCheck(bOk, "utf8 of U+%04X", c);
  }
}

/*
** Count the valid ones among all strings of n bytes, n<=3.  All valid ones
** are accepted (above), so if the number is right nothing else is.
*/
static void cqTestUtf8Count(void){
  /* One byte 128 ways, two 1920, three 61440 (without the surrogates) */
  static const long aWant[] = {
    0, 128, 128L*128 + 1920, 128L*128*128 + 2*128L*1920 + 61440
  };
  int n;
  for(n=1; n<=3; n++){
    long nGot = 0, i;
    for(i=0; i<(1L<<(8*n)); i++){
      char z[3];
      z[0] = (char)i;
      z[1] = (char)(i>>8);
      z[2] = (char)(i>>16);
      nGot += claimqUtf8Valid(z, n);
    }
    cqCheck(nGot==aWant[n], "%ld strings of %d bytes are utf8", nGot, n);
  }
}

/* Four bytes: every lead, every second, the edges for the rest. */
static void cqTestUtf8Four(void){
  static const u8 aEdge[] = { 0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff };
  int iLead, i, j, k;
  for(iLead=0xf0; iLead<256; iLead++) for(i=0; i<256; i++){
    int nGot = 0;
    int bWant = (iLead==0xf0 && i>=0x90 && i<0xc0)
             || (iLead>0xf0 && iLead<0xf4 && i>=0x80 && i<0xc0)
             || (iLead==0xf4 && i>=0x80 && i<0x90);
    for(j=0; j<6; j++) for(k=0; k<6; k++){
      char z[4];
      z[0] = (char)iLead;
      z[1] = (char)i;
      z[2] = (char)aEdge[j];
      z[3] = (char)aEdge[k];
      nGot += claimqUtf8Valid(z, 4);
    }
    cqCheck(nGot==4*bWant, "utf8 %02x %02x: %d", iLead, i, nGot);
  }
}

static void cqTestUtf8List(void){
  static const struct { const char *z; int n; int bValid; } a[] = {
    { "", 0, 1 },                          { "a\0b", 3, 1 },
    { "\xc3\xa4", 2, 1 },                  { "\xc0\x80", 2, 0 },
    { "\xc1\xbf", 2, 0 },                  { "\xe0\x80\x80", 3, 0 },
    { "\xe0\x9f\xbf", 3, 0 },              { "\xe0\xa0\x80", 3, 1 },
    { "\xed\x9f\xbf", 3, 1 },              { "\xed\xa0\x80", 3, 0 },
    { "\xed\xbf\xbf", 3, 0 },              { "\xee\x80\x80", 3, 1 },
    { "\xf0\x80\x80\x80", 4, 0 },          { "\xf0\x8f\xbf\xbf", 4, 0 },
    { "\xf0\x90\x80\x80", 4, 1 },          { "\xf4\x8f\xbf\xbf", 4, 1 },
    { "\xf4\x90\x80\x80", 4, 0 },          { "\xf5\x80\x80\x80", 4, 0 },
    { "\xf8\x88\x80\x80\x80", 5, 0 },      { "\xff", 1, 0 },
    { "\x80", 1, 0 },                      { "\xbf", 1, 0 },
    { "abc\xe2\x82", 5, 0 },               { "abc\xf0\x9f\x91", 6, 0 },
    { "\xe2\x82\xac" "x", 4, 1 },          { "\xe2\x82" "xx", 4, 0 },
    { "\xed\xa0\xbd\xed\xb1\x8d", 6, 0 },  { "0123456789ab\xf0", 13, 0 },
  };
  u32 c;
  int i;
  for(i=0; i<CQ_COUNT(a); i++){
    CqText x = cqTight(a[i].z, a[i].n);
    cqCheck(claimqUtf8Valid(x.z, x.n)==a[i].bValid, "utf8 case %d", i);
    cqTightFree(x);
  }
  cqCheck(claimqUtf8Decode("a", 0, &c)==0, "utf8: decode nothing");
}

/* Integers around every power of ten and of two, both signs. */
#define CQ_NINT 300
static int cqIntegers(i64 *a){
  u64 v;
  int n = 0, i, iBase;
  for(iBase=2; iBase<=10; iBase+=8){
    for(v=1; v<=(u64)CQ_I64_MAX/(u64)iBase; v*=(u64)iBase){
      for(i=-1; i<=1 && n+6<CQ_NINT; i++){
        a[n] = (i64)v+i;
        n++;
        if( iBase==10 ){ a[n] = -a[n-1]; n++; }
      }
    }
  }
  a[n++] = CQ_I64_MAX;
  a[n++] = CQ_I64_MAX-1;
  a[n++] = CQ_I64_MIN;
  a[n++] = CQ_I64_MIN+1;
  return n;
}

static void cqTestIntText(void){
  static const char *const azBad[] = {
    "", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1a", "a", "0x1",
    "9223372036854775808", "-9223372036854775809", "18446744073709551616",
    "9999999999999999999", "99999999999999999999", "--1", "1-", "1.0", "/",
    ":", "92233720368547758070"
  };
  i64 a[CQ_NINT], v;
  char zGot[21], zWant[32];
  int n = cqIntegers(a), i;
  for(i=0; i<n; i++){
    int nGot = claimqI64Text(a[i], zGot);
    sprintf(zWant, "%lld", a[i]);
    cqCheck(!strcmp(zGot, zWant) && nGot==(int)strlen(zWant),
            "text of %s: %s", zWant, zGot);
    cqCheck(claimqI64Parse(cqStr(zWant), &v)==1 && v==a[i], "parse %s",
            zWant);
  }
  for(i=0; i<CQ_COUNT(azBad); i++){
    CqText x = cqTight(azBad[i], (int)strlen(azBad[i]));
    v = 77;
    cqCheck(!claimqI64Parse(x, &v) && v==77, "parse \"%s\"", azBad[i]);
    cqTightFree(x);
  }
  cqCheck(!claimqI64Parse(cqSlice(0, 0), &v), "parse no value");
}

/* Sums, against unsigned arithmetic that cannot overflow for these. */
static void cqTestAddSat(void){
  i64 a[CQ_NINT];
  int n = cqIntegers(a), i, j;
  for(i=0; i<n; i++) for(j=0; j<n; j++){
    i64 x = a[i], y = a[j], iWant;
    if( y<0 ) continue;
    if( x>=0 && (u64)x+(u64)y>(u64)CQ_I64_MAX ){
      iWant = CQ_I64_MAX;
    }else{
      iWant = x+y;
    }
    cqCheck(claimqAddSat(x, y)==iWant, "%lld + %lld = %lld", x, y,
            claimqAddSat(x, y));
  }
}

/* Whatever parses must be exactly what is written for the same numbers. */
static int cqIdHonest(CqText x, const char *zPrefix){
  char zId[CQ_CLAIM_ID_SZ];
  i64 iHead = -5, iFence = -5;
  if( !claimqClaimIdParse(x, zPrefix, &iHead, &iFence) ){
    return iHead==-5 && iFence==-5;
  }
  return iHead>=0 && iFence>=0
      && claimqClaimId(zPrefix, iHead, iFence, zId)==x.n
      && !memcmp(zId, x.z, (size_t)x.n);
}

/* Write and parse; cut and damage the result in every place. */
static void cqTestIdOne(const char *zPrefix, i64 iHead, i64 iFence){
  static const char zTry[] = "019:-+ qz/";
  char zId[CQ_CLAIM_ID_SZ];
  i64 iH = -1, iF = -1;
  int n = claimqClaimId(zPrefix, iHead, iFence, zId), i, j;
  int bOk = n==(int)strlen(zId);
  bOk = bOk && claimqClaimIdParse(cqSlice(zId, n), zPrefix, &iH, &iF)==1;
  bOk = bOk && iH==iHead && iF==iFence;
  bOk = bOk && !claimqClaimIdParse(cqSlice(zId, n+1), zPrefix, &iH, &iF);
  for(i=0; i<=n; i++){
    CqText x = cqTight(zId, i);
    bOk = bOk && cqIdHonest(x, zPrefix);
    for(j=0; i<n && j<(int)sizeof(zTry); j++){
      char cOld = zId[i];
      zId[i] = zTry[j];
      bOk = bOk && cqIdHonest(cqSlice(zId, n), zPrefix);
      zId[i] = cOld;
    }
    cqTightFree(x);
  }
  cqCheck(bOk, "claim id %s", zId);
}

static void cqTestClaimId(void){
  static const char *const azPrefix[] = { "qwc", "qjc", "qpc", "qsc", "qdc" };
  static const char *const azBad[] = {
    "", "q", "qwc", "qwc:", "qwc::", "qwc:1", "qwc:1:", "qwc::1", "qwc:1:2:",
    "qwc:1:2:3", "qwc:01:2", "qwc:1:02", "qwc:+1:2", "qwc:-1:2", "qwc:1:-2",
    "qwc:-0:1", "qwc:1:00", "qwc: 1:2", "qwc:1 :2", "qwc:1:2 ", " qwc:1:2",
    "qjc:1:2", "QWC:1:2", "qwc1:2", "qwcx:1:2", "qwcx1:2", "qwc11:2",
    "qwc:1:2a",
    "qwc:0x1:2",
    "qwc:9223372036854775808:1", "qwc:1:9223372036854775808",
    "qwc:99999999999999999999:1", "qwc:1:18446744073709551617", "qwc:1.0:2"
  };
  i64 a[CQ_NINT], iH = -5, iF = -5;
  char zId[CQ_CLAIM_ID_SZ];
  int n = cqIntegers(a), i, j;
  for(i=0; i<n; i++) for(j=i%7; j<n; j+=7){
    if( a[i]>=0 && a[j]>=0 ) cqTestIdOne(azPrefix[(i+j)%5], a[i], a[j]);
  }
  for(i=0; i<CQ_COUNT(azBad); i++){
    CqText x = cqTight(azBad[i], (int)strlen(azBad[i]));
    cqCheck(!claimqClaimIdParse(x, "qwc", &iH, &iF) && iH==-5 && iF==-5,
            "bad claim id \"%s\"", azBad[i]);
    cqTightFree(x);
  }
  cqCheck(!claimqClaimIdParse(cqSlice(0, 0), "qwc", &iH, &iF), "no claim id");
  cqCheck(claimqClaimId("qwc", CQ_I64_MIN, CQ_I64_MIN, zId)==45,
          "longest claim id");
  cqCheck(!strcmp(zId, "qwc:-9223372036854775808:-9223372036854775808"),
          "longest claim id: %s", zId);
}

/**************************************************************************
** rust_debug.c
*/
typedef struct CqBuf CqBuf;       /* Gathers the output */
struct CqBuf {
  char z[256];
  int n;
};
static void cqBufOut(void *p, const void *a, size_t n){
  CqBuf *pBuf = (CqBuf*)p;
  if( pBuf->n+(int)n>(int)sizeof(pBuf->z) ) cqFatal("overflow", "CqBuf");
  memcpy(&pBuf->z[pBuf->n], a, n);
  pBuf->n += (int)n;
}
static void cqShaOut(void *p, const void *a, size_t n){
  claimqSha256Update((CqSha256*)p, a, n);
}

/* All of Unicode: one by one, and as one text. */
static void cqTestRustAll(void){
  static const char zWant[] =
    "1791c906ce6b5afb870262984442022a7c174d1d0e7b97104840de457d91272a";
  char *zAll = cqAlloc(4*0x110000);
  char zHex[65];
  CqSha256 sha;
  int n = 0;
  u32 c;
  claimqSha256Init(&sha);
  for(c=0; c<0x110000; c++){
    int nByte = cqEncode(c, &zAll[n]);
    if( cqSurrogate(c) ) continue;
    claimqRustDebug(&zAll[n], nByte, cqShaOut, &sha);
    n += nByte;
  }
  claimqSha256Hex(&sha, zHex);
  cqCheck(!strcmp(zHex, zWant), "escapes of all Unicode: %s", zHex);
  claimqSha256Init(&sha);
  claimqRustDebug(zAll, n, cqShaOut, &sha);
  claimqSha256Hex(&sha, zHex);
  cqCheck(!strcmp(zHex, zWant), "escape of all Unicode at once: %s", zHex);
  free(zAll);
}

static void cqTestRustList(void){
  static const struct { const char *z; int n; const char *zWant; } a[] = {
    { "", 0, "" },                   { "plain key", 9, "plain key" },
    { "it's", 4, "it's" },           { "\"", 1, "\\\"" },
    { "a\\b", 3, "a\\\\b" },         { "a\0b", 3, "a\\0b" },
    { "\t\n\r", 3, "\\t\\n\\r" },    { "\b\v\f", 3, "\\u{8}\\u{b}\\u{c}" },
    { "\x1b[0m", 4, "\\u{1b}[0m" },  { "\x7f", 1, "\\u{7f}" },
    { "{}", 2, "{}" },               { "\xc3\xa4", 2, "\xc3\xa4" },
    { "\xc2\xa0x", 3, "\\u{a0}x" },  { "e\xcc\x81", 3, "e\\u{301}" },
    { "\xf4\x8f\xbf\xbf", 4, "\\u{10ffff}" },
    { "\xff\xc3", 2, "\xff\xc3" },   { "a\xe2\x82", 3, "a\xe2\x82" },
    { "\x80\n", 2, "\x80\\n" },      { "\xed\xa0\x80", 3, "\xed\xa0\x80" },
  };
  int i;
  for(i=0; i<CQ_COUNT(a); i++){
    CqText x = cqTight(a[i].z, a[i].n);
    CqBuf buf;
    buf.n = 0;
    claimqRustDebug(x.z, x.n, cqBufOut, &buf);
    cqCheck(buf.n==(int)strlen(a[i].zWant) && !memcmp(buf.z, a[i].zWant,
            (size_t)buf.n), "escape case %d: %.*s", i, buf.n, buf.z);
    cqTightFree(x);
  }
}

/**************************************************************************
** core/json.c and core/lease.c: files of their own, for their length
*/
#include "core_json_test.h"
#include "core_lease_test.h"

/**************************************************************************
** core/session.c
*/
static void cqTestWords(void){
  static const struct {
    const char *const *(*xWords)(void);
    const char *azWant[4];
  } a[] = {
    { claimqWorkWords, { "turn_work", "session_command", 0, 0 } },
    { claimqDeliveryWords,
      { "earliest_safe_boundary", "after_current_turn_commit", 0, 0 } },
    { claimqSlotWords, { "exclusive", "join", 0, 0 } },
    { claimqBoundaryWords, { "idle", "active_turn_checkpoint", 0, 0 } },
    { claimqTakeWords, { "turn_work", "session_command", "any", 0 } },
  };
  int i, j;
  for(i=0; i<CQ_COUNT(a); i++){
    const char *const *azWord = a[i].xWords();
    for(j=0; a[i].azWant[j]; j++){
      CqText x = cqTight(a[i].azWant[j], (int)strlen(a[i].azWant[j]));
      cqCheck(claimqWord(azWord, x)==j, "word %s", a[i].azWant[j]);
      x.n--;
      cqCheck(claimqWord(azWord, x)<0, "word %.*s", x.n, x.z);
      cqTightFree(x);
      x = cqSlice(a[i].azWant[j], (int)strlen(a[i].azWant[j])+1);
      cqCheck(claimqWord(azWord, x)<0, "word %s and NUL", x.z);
    }
    cqCheck(azWord[j]==0, "words of list %d", i);
    cqCheck(claimqWord(azWord, cqStr(""))<0, "empty word, list %d", i);
    cqCheck(claimqWord(azWord, cqSlice(0, 0))<0, "no word, list %d", i);
    cqCheck(claimqWord(azWord, cqStr("TURN_WORK"))<0, "case, list %d", i);
  }
}

static void cqTestMergeKey(void){
  static const struct { const char *z; int n; int bOk; } a[] = {
    { "never", 5, 1 },      { "payload_default", 15, 1 }, { "group:a", 7, 1 },
    { "group: ", 7, 1 },    { "group:\0", 7, 1 },         { "group::", 7, 1 },
    { "group:never", 11, 1 }, { "group:", 6, 1 },         { "group", 5, 0 },
    { "Group:a", 7, 0 },    { "", 0, 0 },                 { "never ", 6, 0 },
    { "never\0", 6, 0 },    { "neve", 4, 0 },             { "grou", 4, 0 },
    { "groupXa", 7, 0 },    { "payload_default:a", 17, 0 },
  };
  int i;
  for(i=0; i<CQ_COUNT(a); i++){
    CqText x = cqTight(a[i].z, a[i].n);
    cqCheck(claimqMergeKeyOk(x)==a[i].bOk, "merge key %s", a[i].z);
    cqTightFree(x);
  }
  cqCheck(!claimqMergeKeyOk(cqSlice(0, 0)), "no merge key");
}

/*
** When is a batch a candidate?  Every case of a short time line.
*/
static void cqTestBatchWhy(void){
  CqCand c;
  i64 iNow;
  memset(&c, 0, sizeof(c));
  for(iNow=0; iNow<4; iNow++)
  for(c.iAvailable=0; c.iAvailable<4; c.iAvailable++)
  for(c.iExpires=0; c.iExpires<4; c.iExpires++)
  for(c.bClaimed=0; c.bClaimed<2; c.bClaimed++){
    int bHeld = c.bClaimed && c.iExpires>iNow;
    int eWant = bHeld ? CQ_WHY_HELD
              : c.iAvailable>iNow ? CQ_WHY_DELAYED : CQ_WHY_CLAIMABLE;
    cqCheck(claimqBatchWhy(&c, iNow)==eWant, "batch at %lld", iNow);
  }
}

/*
** Texts of few letters, so that many are equal and some begin as others do,
** in three orders.  Sorted they are in order, and the same.
*/
static void cqTestTextSort(void){
  static const char zLetters[] = "abcabacabbcabcaabbccab";
  CqText a[200], b[200];
  int n, eOrder, i, j;
  for(n=0; n<=CQ_COUNT(a); n++) for(eOrder=0; eOrder<3; eOrder++){
    int bOrder = 1, bSame = 1;
    for(i=0; i<n; i++){
      int k = eOrder==0 ? i : eOrder==1 ? n-i : (i*7919)%n;
      a[i] = cqSlice(&zLetters[k%19], k%3);
      if( k%17==0 ) a[i].z = 0, a[i].n = 0;
    }
    memcpy(b, a, sizeof(a));
    claimqTextSort(a, n);
    for(i=1; i<n; i++) bOrder &= claimqTextCompare(a[i-1], a[i])<=0;
    for(i=0; i<n; i++){
      int nA = 0, nB = 0;
      for(j=0; j<n; j++){
        nA += claimqTextEq(a[j], b[i]);
        nB += claimqTextEq(b[j], b[i]);
      }
      bSame &= nA==nB;
    }
    cqCheck(bOrder && bSame, "%d texts, order %d", n, eOrder);
  }
}

/*
** Option batch_ids: which lists name a, b and c?
*/
static void cqTestBatchIds(void){
  static const struct { const char *z; int nWant; int bNamed; } aCase[] = {
    { "[\"a\",\"b\",\"c\"]", 3, 1 },   { "[\"c\",\"a\",\"b\"]", 3, 1 },
    { " [ \"\\u0061\" , \"b\",\"c\" ] ", 3, 1 },
    { "[\"a\",\"b\"]", 2, 0 },         { "[\"a\",\"b\",\"b\"]", 3, 0 },
    { "[\"a\",\"b\",\"d\"]", 3, 0 },   { "[\"a\",\"b\",\"c\",\"c\"]", 4, 0 },
    { "[\"a\",\"b\",\"\"]", 3, 0 },    { "[]", 0, 0 },
    { "[\"a\",\"b\",1]", -1, 0 },      { "[\"a\",[\"b\"],\"c\"]", -1, 0 },
    { "{\"a\":\"b\"}", -1, 0 },        { "\"a\"", -1, 0 },
    { "", -1, 0 }, { "[", -1, 0 }, { "[\"a\"", -1, 0 }, { "[\"a\"]]", -1, 0 },
    { "[\"\\ud800\",\"b\",\"c\"]", -1, 0 },
  };
  int i;
  for(i=0; i<CQ_COUNT(aCase); i++){
    CqText json = cqTight(aCase[i].z, (int)strlen(aCase[i].z));
    CqText aHeld[3], aItem[4];
    char zText[64];
    int n = claimqBatchIdsCount(json);
    aHeld[0] = cqStr("b");
    aHeld[1] = cqStr("c");
    aHeld[2] = cqStr("a");
    cqCheck(n==aCase[i].nWant, "batch_ids %s: %d", aCase[i].z, n);
    if( n>=0 ){
      cqCheck(claimqBatchIdsNamed(json, aHeld, 3, aItem, zText)
              ==aCase[i].bNamed, "batch_ids %s", aCase[i].z);
    }
    cqTightFree(json);
  }
}

/*
** The selection rules a second time, as a predicate: may a claim be just
** these n candidates?  The claim is the longest prefix that may.
*/
typedef struct CqAsk CqAsk;       /* What a claim asks for */
struct CqAsk {
  int eBoundary, eTake;
  i64 nMax;
};
static int cqMergeIs(CqText a, CqText b){
  return a.n==b.n && !memcmp(a.z, b.z, (size_t)a.n);
}
static int cqLegal(const CqAsk *pAsk, const CqCand *a, int n){
  int i, nCommand = 0, nExclusive = 0, nOther = 0;
  if( n==0 ) return 1;
  if( n>pAsk->nMax ) return 0;
  for(i=0; i<n; i++){
    nCommand += a[i].eWork==CQ_WORK_COMMAND;
    nExclusive += a[i].eSlot==CQ_SLOT_EXCLUSIVE;
    nOther += a[i].eDelivery!=a[0].eDelivery
           || !cqMergeIs(a[i].merge, a[0].merge);
  }
  if( nCommand ) return n==1 && pAsk->eTake!=CQ_TAKE_TURN;
  if( pAsk->eTake==CQ_TAKE_COMMAND ) return 0;
  if( pAsk->eBoundary==CQ_BOUNDARY_CHECKPOINT
   && a[0].eDelivery!=CQ_DELIVER_EARLIEST ) return 0;
  return n==1 || (nExclusive==0 && nOther==0);
}
static int cqNaiveSelect(const CqAsk *pAsk, const CqCand *a, int n){
  while( !cqLegal(pAsk, a, n) ) n--;
  return n;
}

/*
** Run the real selection on n candidates.  Returns what it took, or -1 if
** what it says of itself is not so: the count, bDone, the end of the line.
*/
static int cqSelected(const CqAsk *pAsk, const CqCand *a, int n){
  CqSelect sel;
  int nTaken = 0, i, bOver = 0;
  claimqSelectInit(&sel, pAsk->eBoundary, pAsk->eTake, pAsk->nMax);
  if( sel.nTaken!=0 || sel.bDone!=(pAsk->nMax==0) ) return -1;
  for(i=0; i<n; i++){
    int bDone = sel.bDone;
    int bTaken = claimqSelectOffer(&sel, &a[i]);
    if( bTaken && (bDone || bOver) ) return -1;   /* Went on after the end */
    if( !bTaken && !sel.bDone ) return -1;
    if( !bTaken ) bOver = 1;
    nTaken += bTaken;
    if( sel.nTaken!=nTaken ) return -1;
  }
  return nTaken;
}

/* What the manual (Sessions) says of every claim, in words of its own. */
static const char *cqBroken(const CqAsk *pAsk, const CqCand *a, int n, int k){
  int i;
  if( k>pAsk->nMax ) return "more than the maximum";
  if( k==0 ){
    if( n==0 || pAsk->nMax==0 ) return 0;
    if( pAsk->eTake==CQ_TAKE_ANY && pAsk->eBoundary==CQ_BOUNDARY_IDLE ){
      return "idle, any, and yet nothing taken";
    }
    return 0;
  }
  if( a[0].eWork==CQ_WORK_COMMAND ){
    if( pAsk->eTake==CQ_TAKE_TURN ) return "turn work skipped a command";
    if( k!=1 ) return "a command was not alone";
    return 0;
  }
  if( pAsk->eTake==CQ_TAKE_COMMAND ) return "turn work taken for a command";
  if( a[0].eSlot==CQ_SLOT_EXCLUSIVE && k!=1 ) return "exclusive not alone";
  for(i=0; i<k; i++){
    if( a[i].eWork!=CQ_WORK_TURN ) return "a command in a group";
    if( k>1 && a[i].eSlot!=CQ_SLOT_JOIN ) return "exclusive in a group";
    if( a[i].eDelivery!=a[0].eDelivery ) return "delivery differs";
    if( !cqMergeIs(a[i].merge, a[0].merge) ) return "merge key differs";
    if( pAsk->eBoundary==CQ_BOUNDARY_CHECKPOINT
     && a[i].eDelivery!=CQ_DELIVER_EARLIEST ) return "too early";
  }
  return 0;
}

/* One list of candidates, all questions.  0, or what is wrong. */
static const char *cqListBroken(const CqCand *a, int n, CqAsk *pAsk){
  for(pAsk->eBoundary=0; pAsk->eBoundary<2; pAsk->eBoundary++){
    for(pAsk->eTake=0; pAsk->eTake<3; pAsk->eTake++){
      int kAll = -1;
      for(pAsk->nMax=5; pAsk->nMax>=0; pAsk->nMax--){
        int k = cqSelected(pAsk, a, n);
        const char *zWhy;
        if( k<0 ) return "the selection contradicts itself";
        if( k!=cqNaiveSelect(pAsk, a, n) ) return "not what naive takes";
        zWhy = cqBroken(pAsk, a, n, k);
        if( zWhy ) return zWhy;
        if( kAll<0 ) kAll = k;
        if( k!=(kAll<pAsk->nMax ? kAll : pAsk->nMax) ) return "not a prefix";
      }
    }
  }
  return 0;
}

/* Every list of up to four candidates, over all words.  One check a list. */
static void cqTestSelectAll(void){
  static const char *const azMerge[] = {
    "never", "payload_default", "group:a"
  };
  CqCand aKind[24], a[4];
  int i, n, nList = 1;
  for(i=0; i<24; i++){
    aKind[i].eWork = (u8)(i&1);
    aKind[i].eDelivery = (u8)(i>>1&1);
    aKind[i].eSlot = (u8)(i>>2&1);
    aKind[i].merge = cqStr(azMerge[i/8]);
  }
  for(n=0; n<=4; n++, nList*=24){
    int iList;
    for(iList=0; iList<nList; iList++){
      CqAsk ask;
      const char *zWhy;
      int iRest = iList;
      for(i=0; i<n; i++, iRest/=24) a[i] = aKind[iRest%24];
      zWhy = cqListBroken(a, n, &ask);
      cqCheck(zWhy==0, "select list %d of %d candidates, boundary %d, take %d, "
              "max %d: %s", iList, n, ask.eBoundary, ask.eTake, (int)ask.nMax,
              zWhy);
    }
  }
}

/* Merge keys join only if they are the same bytes. */
static void cqTestSelectMerge(void){
  static const struct { const char *z; int n; } a[] = {
    { "group:a", 7 }, { "group:A", 7 }, { "group:ab", 8 }, { "group:a\0", 8 },
    { "group:a\0b", 9 }, { "group:a\0c", 9 }, { "never", 5 },
    { "group:never", 11 }, { "payload_default", 15 }, { "", 0 },
  };
  CqAsk ask = { CQ_BOUNDARY_IDLE, CQ_TAKE_TURN, CQ_I64_MAX };
  CqCand aCand[2];
  int i, j;
  memset(aCand, 0, sizeof(aCand));
  aCand[0].eSlot = aCand[1].eSlot = CQ_SLOT_JOIN;
  for(i=0; i<CQ_COUNT(a); i++) for(j=0; j<CQ_COUNT(a); j++){
    aCand[0].merge = cqTight(a[i].z, a[i].n);
    aCand[1].merge = cqTight(a[j].z, a[j].n);
    cqCheck(cqSelected(&ask, aCand, 2)==1+(i==j), "merge %s, %s", a[i].z,
            a[j].z);
    cqTightFree(aCand[0].merge);
    cqTightFree(aCand[1].merge);
  }
  for(i=0; i<4; i++){             /* None is no key, not even like none or '' */
    aCand[0].merge = cqSlice(i&1 ? "" : 0, 0);
    aCand[1].merge = cqSlice(i&2 ? "" : 0, 0);
    cqCheck(cqSelected(&ask, aCand, 2)==1+(i==3), "merge of none, %d", i);
  }
  cqCheck(claimqScanLimit(0)==32, "scan limit of 0");
  cqCheck(claimqScanLimit(8)==40, "scan limit of 8");
  cqCheck(claimqScanLimit(CQ_I64_MAX-32)==CQ_I64_MAX, "scan limit, exact");
  cqCheck(claimqScanLimit(CQ_I64_MAX-31)==CQ_I64_MAX, "scan limit, above");
  cqCheck(claimqScanLimit(CQ_I64_MAX)==CQ_I64_MAX, "scan limit of the most");
}

/**************************************************************************
** core/lane.c
*/

/* Keys over edge values: the order is the specified one, strict and total. */
static void cqTestJobOrder(void){
  static const i64 aVal[] = { CQ_I64_MIN, -1, 0, CQ_I64_MAX };
  CqJobKey a[64];
  int i, j, k;
  for(i=0; i<64; i++){
    a[i].iPriority = aVal[3-(i>>4)];      /* So a[] is sorted by design */
    a[i].iCreated = aVal[i>>2&3];
    a[i].iJob = aVal[i&3];
  }
  for(i=0; i<64; i++) for(j=0; j<64; j++){
    int c = claimqJobCompare(&a[i], &a[j]);
    int bTransitive = 1;
    cqCheck((c<0)==(i<j) && (c>0)==(i>j), "job order %d, %d: %d", i, j, c);
    cqCheck((c<0)==(claimqJobCompare(&a[j], &a[i])>0), "antisymmetry %d, %d",
            i, j);
    for(k=0; c<0 && k<64; k++){
      if( claimqJobCompare(&a[j], &a[k])<0
       && claimqJobCompare(&a[i], &a[k])>=0 ) bTransitive = 0;
    }
    cqCheck(bTransitive, "transitivity from %d, %d", i, j);
  }
}

static void cqTestCapsCheck(void){
  static const struct { const char *z; int n; } a[] = {
    { "[]", 0 },                  { " [ ] ", 0 },      { "[\"a\"]", 1 },
    { "[\"a\",\"b\"]", 2 },       { "[\"a\",\"a\"]", 2 },
    { "[\"\\u0000\"]", 1 },       { "[\" \"]", 1 },    { "[\"\"]", -2 },
    { "[\"a\",\"\"]", -2 },       { "[1]", -2 },       { "[null]", -2 },
    { "[[]]", -2 },               { "[[\"a\"]]", -2 }, { "[{}]", -2 },
    { "[{\"a\":\"b\"}]", -2 },    { "[\"a\",true]", -2 },
    { "", -1 },                   { "[", -1 },         { "[\"a\"", -1 },
    { "[\"a\",]", -1 },           { "[\"\",]", -1 },   { "[1", -1 },
    { "{}", -1 },                 { "\"a\"", -1 },     { "null", -1 },
    { "1", -1 },                  { "[] []", -1 },     { "[\"a\"]x", -1 },
    { "{\"a\":[\"b\"]}", -1 },    { "[\"\\ud800\"]", -1 }, { "[a]", -1 },
    { "[\"\xff\"]", -1 },
  };
  int i;
  for(i=0; i<CQ_COUNT(a); i++){
    CqText x = cqTight(a[i].z, (int)strlen(a[i].z));
    int n = claimqCapsCheck(x);
    cqCheck(n==a[i].n, "capabilities %s: %d", a[i].z, n);
    cqTightFree(x);
  }
  cqCheck(claimqCapsCheck(cqSlice(0, 0))==-1, "no capabilities");
}

/* The set of the bits as a list, in one of two spellings and orders. */
static CqText cqCapsList(int mSet, int bOther, char *z){
  static const char *const az[2][6] = {
    { "a", "b", "A", "ab", "a\\u0000", "\xc3\xa9" },
    { "\\u0061", "b", "\\u0041", "\\u0061b", "a\\u0000", "\\u00e9" }
  };
  int n = 0, i;
  z[n++] = '[';
  for(i=0; i<6; i++){
    int iCap = bOther ? 5-i : i;
    if( (mSet>>iCap & 1)==0 ) continue;
    n += sprintf(&z[n], "%s\"%s\"", n>1 ? ", " : "", az[bOther][iCap]);
    if( bOther ) n += sprintf(&z[n], ",\"%s\"", az[0][iCap]);   /* Twice */
  }
  z[n++] = ']';
  return cqSlice(z, n);
}

/* All pairs of subsets of six capabilities, as sets of bits. */
static void cqTestCapable(void){
  char z1[200], z2[200];
  int i, j, k;
  for(i=0; i<64; i++) for(j=0; j<64; j++) for(k=0; k<4; k++){
    CqText need = cqCapsList(i, k&1, z1);
    CqText have = cqCapsList(j, k>>1, z2);
    CqText aItem[16];
    char zText[200];
    int n = claimqCapsCheck(have);
    cqCheck(n>=0 && n<=16 && claimqCapsCheck(need)>=0, "lists");
    n = claimqCapsSplit(have, aItem, zText);
    cqCheck(claimqCapsMeet(need, aItem, n)==((i&~j)==0), "%.*s in %.*s",
            need.n, need.z, have.n, have.z);
  }
}

/* a*b by adding b times. */
static i64 cqSlowTimes(i64 a, int b){
  i64 v = 0;
  for(; b>0; b--) v = claimqAddSat(v, a);
  return v;
}

static void cqTestBackoff(void){
  static const i64 aBase[] = { 0, 1, 2, 3, 7, 1000, 60000, CQ_I64_MAX/2,
    CQ_I64_MAX/2+1, CQ_I64_MAX-1, CQ_I64_MAX };
  static const i64 aMax[] = { 0, 1, 2, 999, 1000, 60000, CQ_I64_MAX-1,
    CQ_I64_MAX };
  int iBase, iFactor, iMax, n;
  for(iBase=0; iBase<CQ_COUNT(aBase); iBase++)
  for(iMax=0; iMax<CQ_COUNT(aMax); iMax++)
  for(iFactor=0; iFactor<=10; iFactor++){
    i64 v = aBase[iBase], m = aMax[iMax];
    for(n=0; n<70; n++, v=cqSlowTimes(v, iFactor)){
      i64 iGot = claimqBackoff(aBase[iBase], iFactor, n, m);
      cqCheck(iGot==(v<m ? v : m), "backoff %lld * %d^%d, max %lld: %lld",
              aBase[iBase], iFactor, n, m, iGot);
    }
  }
  n = claimqBackoff(1000, 2, 5, 60000)==32000
   && claimqBackoff(1000, 2, 6, 60000)==60000;
  cqCheck(n, "backoff of the defaults");
  cqCheck(claimqBackoff(5, 1, CQ_I64_MAX, 9)==5, "backoff, factor 1, for ever");
  cqCheck(claimqBackoff(5, 0, CQ_I64_MAX, 9)==0, "backoff, factor 0, for ever");
  cqCheck(claimqBackoff(0, 2, CQ_I64_MAX, 9)==0, "backoff, base 0, for ever");
  cqCheck(claimqBackoff(1, 2, CQ_I64_MAX, 9)==9, "backoff, factor 2, for ever");
  cqCheck(claimqBackoff(1, CQ_I64_MAX, 2, CQ_I64_MAX)==CQ_I64_MAX,
          "backoff, largest factor");
}

/*
** Every state of a job around now, against the rules one by one.
*/
static void cqTestJobWhy(void){
  int i;
  for(i=0; i<2*2*3*3*3; i++){
    CqJobState job;
    int eWant, eGot;
    job.bActive = i%2;
    job.bAuto = i/2%2;
    job.iAvailable = 999 + i/4%3;
    job.iExpires = 999 + i/12%3;
    job.nReclaim = 4 + i/36%3;
    job.nMaxReclaim = 5;
    if( job.bActive && job.iExpires>1000 ) eWant = CQ_WHY_HELD;
    else if( job.iAvailable>1000 ) eWant = CQ_WHY_DELAYED;
    else if( !job.bActive ) eWant = CQ_WHY_CLAIMABLE;
    else if( !job.bAuto ) eWant = CQ_WHY_GRANT;
    else eWant = job.nReclaim<5 ? CQ_WHY_CLAIMABLE : CQ_WHY_RECLAIMS;
    eGot = claimqJobWhy(&job, 1000);
    cqCheck(eGot==eWant, "why of job state %d: %d, not %d", i, eGot, eWant);
  }
}

/**************************************************************************
** Known answers: tab-separated files, a heading, JSON texts or null in cells
*/
#define CQ_NCELL 32
typedef struct CqTsv CqTsv;
struct CqTsv {
  FILE *pFile;
  const char *zFile;
  int nCell;                      /* Columns */
  char zHead[4096], zLine[65536];
  char *azHead[CQ_NCELL], *azCell[CQ_NCELL];
};

/* Read a line and cut it at the tabs.  The number of cells, 0 at the end.  A
** line that begins with # is a comment. */
static int cqTsvLine(CqTsv *p, char *zBuf, int nBuf, char **azOut){
  int n = 0;
  char *z = zBuf;
  do{
    if( fgets(zBuf, nBuf, p->pFile)==0 ) return 0;
  }while( zBuf[0]=='#' );
  z[strcspn(z, "\r\n")] = 0;
  while( z ){
    if( n==CQ_NCELL ) cqFatal("too many columns", p->zFile);
    azOut[n++] = z;
    z = strchr(z, '\t');
    if( z ) *z++ = 0;
  }
  return n;
}
static void cqTsvOpen(CqTsv *p, const char *zDir, const char *zFile){
  char zPath[2000];
  snprintf(zPath, sizeof(zPath), "%s/%s", zDir, zFile);
  p->zFile = zFile;
  p->pFile = fopen(zPath, "rb");
  if( p->pFile==0 ) cqFatal("cannot open", zPath);
  p->nCell = cqTsvLine(p, p->zHead, sizeof(p->zHead), p->azHead);
}
static int cqTsvNext(CqTsv *p){
  int n = cqTsvLine(p, p->zLine, sizeof(p->zLine), p->azCell);
  if( n && n!=p->nCell ) cqFatal("wrong number of columns", p->zFile);
  if( n==0 ) fclose(p->pFile);
  return n>0;
}

/* A cell unescaped into zOut, NUL-terminated.  Its length; -1 for null. */
static int cqCell(CqTsv *p, const char *zName, char *zOut){
  CqJson r;
  int i, e, n;
  for(i=0; i<p->nCell && strcmp(p->azHead[i], zName); i++){}
  if( i==p->nCell ) cqFatal("no such column", zName);
  claimqJsonInit(&r, cqStr(p->azCell[i]));
  e = claimqJsonNext(&r);
  if( e==CQ_JSON_WORD ) return -1;
  n = e==CQ_JSON_STRING ? claimqJsonText(r.tok, zOut) : -1;
  if( n<0 || claimqJsonNext(&r)!=CQ_JSON_END ) cqFatal("bad cell", zName);
  zOut[n] = 0;
  return n;
}

/* An integer cell; *pbNull tells null. */
static i64 cqCellInt(CqTsv *p, const char *zName, int *pbNull){
  char z[2000];
  i64 v = 0;
  int n = cqCell(p, zName, z);
  if( pbNull ) *pbNull = n<0;
  if( n>=0 && !claimqI64Parse(cqSlice(z, n), &v) ) cqFatal("bad number", z);
  return v;
}

/* A cell of hex digits as bytes; z==0 for null. */
static CqText cqCellHex(CqTsv *p, const char *zName, char *zOut){
  char z[8000];
  int n = cqCell(p, zName, z), i;
  if( n<0 ) return cqSlice(0, 0);
  for(i=0; i<n/2; i++){
    unsigned v;
    if( sscanf(&z[2*i], "%2x", &v)!=1 ) cqFatal("bad hex", z);
    zOut[i] = (char)v;
  }
  return cqSlice(zOut, n/2);
}

static void cqVectorLease(CqTsv *p, const char *zCase){
  char zScope[2000], zOwner[2000], zInc[2000], z[2000];
  char zId[CQ_CLAIM_ID_SZ], zToken[CQ_TOKEN_SZ];
  i64 iNow = cqCellInt(p, "now_ms", 0);
  i64 iFence = claimqAddSat(cqCellInt(p, "prev_fencing_token", 0), 1);
  i64 iExpires = claimqAddSat(iNow, cqCellInt(p, "lease_ms", 0));
  int n = claimqClaimId("qwc", cqCellInt(p, "enqueue_seq", 0), iFence, zId);
  cqCell(p, "claim_id", z);
  cqCheck(!strcmp(z, zId), "vector %s: claim id %s", zCase, zId);
  cqCheck(iFence==cqCellInt(p, "fencing_token", 0), "vector %s: fence", zCase);
  cqCheck(iExpires==cqCellInt(p, "expires_at_ms", 0), "vector %s: expiry",
          zCase);
  claimqLeaseToken(cqCellHex(p, "session_hex", zScope),
    cqCellHex(p, "owner_hex", zOwner), cqCellHex(p, "incarnation_hex", zInc),
    cqSlice(zId, n), iNow, zToken);
  cqCell(p, "result", z);
  cqCheck(!strcmp(z, zToken), "vector %s: token %s", zCase, zToken);
}

static void cqVectorBatch(CqTsv *p, const char *zCase){
  char zSession[2000], zKey[2000], z[2000], zId[CQ_BATCH_ID_SZ];
  int bNull;
  i64 iNonce = cqCellInt(p, "nonce", &bNull);
  claimqBatchId(cqCellHex(p, "session_hex", zSession),
    cqCellHex(p, "source_key_hex", zKey), cqCellInt(p, "now_ms", 0),
    bNull ? 0 : &iNonce, zId);
  cqCell(p, "result", z);
  cqCheck(!strcmp(z, zId), "vector %s: batch id %s", zCase, zId);
}

/* The same text in two columns: as JSON and in hex. */
static void cqVectorPair(CqTsv *p, const char *zName, const char *zHexName){
  char z[4000], zHex[4000];
  int n = cqCell(p, zName, z);
  CqText x = cqCellHex(p, zHexName, zHex);
  cqCheck(n<0 ? x.z==0 : x.n==n && !memcmp(x.z, z, (size_t)n),
          "vector %s differs from %s", zName, zHexName);
}

static void cqTestDerivation(const char *zDir){
  static CqTsv tsv;
  char zCase[2000], zFn[2000], z[4000], zFits[2000];
  int nRow = 0, nSkip = 0;
  cqTsvOpen(&tsv, zDir, "derivation.tsv");
  while( cqTsvNext(&tsv) ){
    CqText pre = cqCellHex(&tsv, "preimage_hex", z);
    const char *zSum = cqSum(pre.z, (size_t)pre.n);
    cqCell(&tsv, "case", zCase);
    cqCell(&tsv, "fn", zFn);
    cqCell(&tsv, "all_inputs_and_outputs_fit_i64", zFits);
    cqVectorPair(&tsv, "session", "session_hex");
    cqVectorPair(&tsv, "owner", "owner_hex");
    cqVectorPair(&tsv, "incarnation", "incarnation_hex");
    cqVectorPair(&tsv, "source_key", "source_key_hex");
    cqVectorPair(&tsv, "preimage", "preimage_hex");
    cqCell(&tsv, "result", z);
    cqCheck(strlen(z)>=64 && !strcmp(&z[strlen(z)-64], zSum),
            "vector %s: sum of the preimage %s", zCase, zSum);
    nRow++;
    if( strcmp(zFits, "1") ){
      nSkip++;
    }else if( !strcmp(zFn, "lease_token") ){
      cqVectorLease(&tsv, zCase);
    }else if( !strcmp(zFn, "derive_batch_id") ){
      cqVectorBatch(&tsv, zCase);
    }else{
      cqCheck(0, "vector %s: unknown function %s", zCase, zFn);
    }
  }
  cqCheck(nRow>nSkip, "derivation.tsv has rows");
  if( nSkip ){
    printf("SKIPPED %d of %d rows of derivation.tsv: unsigned 64-bit values "
           "(their hash was checked)\n", nSkip, nRow);
  }
}

/* Cut "work|delivery|slot|merge,..." into candidates.  Their number. */
static int cqVectorCands(char *z, CqCand *a, int nMax){
  int n = 0;
  while( z && *z ){
    char *azWord[4], *zNext = strchr(z, ',');
    int i;
    if( zNext ) *zNext++ = 0;
    for(i=0; i<4; i++){
      azWord[i] = z;
      z = z ? strchr(z, '|') : 0;
      if( z ) *z++ = 0;
    }
    if( azWord[3]==0 || n==nMax ) cqFatal("bad candidates", "selection.tsv");
    a[n].eWork = (u8)claimqWord(claimqWorkWords(), cqStr(azWord[0]));
    a[n].eDelivery = (u8)claimqWord(claimqDeliveryWords(), cqStr(azWord[1]));
    a[n].eSlot = (u8)claimqWord(claimqSlotWords(), cqStr(azWord[2]));
    a[n].merge = cqStr(azWord[3]);
    cqCheck(a[n].eWork<2 && a[n].eDelivery<2 && a[n].eSlot<2
         && claimqMergeKeyOk(a[n].merge), "words of a candidate");
    n++;
    z = zNext;
  }
  return n;
}

static void cqTestSelection(const char *zDir){
  static CqTsv tsv;
  char zCase[2000], z[8000], zBoundary[2000];
  int nRow = 0;
  cqTsvOpen(&tsv, zDir, "selection.tsv");
  while( cqTsvNext(&tsv) ){
    CqCand a[64];
    CqAsk ask;
    i64 nMax = cqCellInt(&tsv, "max", 0);
    int n, k;
    cqCell(&tsv, "case", zCase);
    cqCell(&tsv, "candidates", z);
    n = cqVectorCands(z, a, 64);
    cqCell(&tsv, "boundary", zBoundary);
    ask.eBoundary = claimqWord(claimqBoundaryWords(), cqStr(zBoundary));
    ask.eTake = CQ_TAKE_TURN;
    ask.nMax = nMax;
    k = cqSelected(&ask, a, n);
    cqCheck(ask.eBoundary>=0 && k==cqCellInt(&tsv, "turn_prefix", 0),
            "vector %s: turn prefix %d", zCase, k);
    ask.eTake = CQ_TAKE_COMMAND;
    ask.nMax = 1;
    k = cqSelected(&ask, a, n);
    cqCheck(k==cqCellInt(&tsv, "leading_command", 0),
            "vector %s: leading command %d", zCase, k);
    cqCheck(claimqScanLimit(nMax)==cqCellInt(&tsv, "scan_limit", 0),
            "vector %s: scan limit", zCase);
    nRow++;
  }
  cqCheck(nRow>0, "selection.tsv has rows");
}

#include "core_outbox_test.h"
#include "core_plan_test.h"
#include "core_cron_test.h"
#include "core_zone_test.h"
#include "core_limit_test.h"
#include "core_wait_test.h"

/**************************************************************************
** The whole
*/
typedef struct CqPart CqPart;     /* The tests of one file */
struct CqPart {
  const char *zName;
  void (*axTest[16])(void);
};
static const CqPart aPart[] = {
  { "sha256", { cqTestShaNist, cqTestShaLong, cqTestShaLengths,
      cqTestShaPieces } },
  { "id", { cqTestUtf8Points, cqTestUtf8Count, cqTestUtf8Four,
      cqTestUtf8List, cqTestIntText, cqTestAddSat, cqTestClaimId } },
  { "rust_debug", { cqTestRustAll, cqTestRustList } },
  { "json", { cqTestJsonValid, cqTestJsonInvalid, cqTestJsonDepth,
      cqTestJsonSkip, cqTestJsonText, cqTestJsonInt, cqTestJsonCut,
      cqTestJsonBytes, cqTestJsonFuzz, cqTestJsonNoise, cqTestJsonPoints } },
  { "session", { cqTestWords, cqTestMergeKey, cqTestBatchWhy,
      cqTestTextSort, cqTestBatchIds, cqTestSelectAll, cqTestSelectMerge } },
  { "lease", { cqTestLive, cqTestSooner, cqTestVerdict,
      cqTestHistories } },
  { "lane", { cqTestJobOrder, cqTestCapsCheck, cqTestCapable,
      cqTestJobWhy, cqTestBackoff } },
  { "caps", { cqTestCapsSets, cqTestCapsLong, cqTestCapsBad } },
  { "outbox", { cqTestNames, cqTestNameLengths, cqTestKeyPartition,
      cqTestWaits, cqTestDegrade, cqTestProcessed, cqTestDoneSeq,
      cqTestDoneBad, cqTestProgress } },
  { "claim_plan", { cqTestPlan } },
  { "cron", { cqTestCronRanges, cqTestCronNames, cqTestCronEither,
      cqTestCronFaults, cqTestCronNul, cqTestCronWords, cqTestCronCalendar,
      cqTestCronCycles, cqTestCronEdges, cqTestCronEvery, cqTestCronNoise } },
  { "zone", { cqTestZoneRules, cqTestZoneRuleTimes, cqTestZoneTables,
      cqTestZoneDamage, cqTestZoneSize, cqTestZoneCut, cqTestZoneLeap,
      cqTestZoneWatch, cqTestZoneEdges, cqTestZoneBoth } },
  { "limit", { cqTestLimitHistories, cqTestLimitLong, cqTestLimitMany,
      cqTestLimitExample, cqTestLimitEdges, cqTestLimitPick } },
  { "wait", { cqTestPaceAgain, cqTestPaceTold, cqTestPacePoll,
      cqTestPaceBefore, cqTestPaceBusy, cqTestPaceCrowd, cqTestNightIdle,
      cqTestNightSignal, cqTestNightCommit, cqTestNightMissed,
      cqTestNightCrowd, cqTestNightDue, cqTestNightSoon, cqTestNightBusy,
      cqTestPaceEnds, cqTestPaceFar } },
};

static void cqRunPart(const CqPart *p){
  int i;
  for(i=0; i<CQ_COUNT(p->axTest) && p->axTest[i]; i++) p->axTest[i]();
}

int main(int argc, char **argv){
  int i, iFirst = -1;
  if( argc<2 ) cqFatal("usage: core_test VECTORS ?FILE?", "one directory");
  for(i=0; i<CQ_COUNT(aPart) && argc>2; i++){
    if( strcmp(aPart[i].zName, argv[2])==0 ) iFirst = i;
  }
  if( iFirst>=0 ) cqRunPart(&aPart[iFirst]);
  for(i=0; i<CQ_COUNT(aPart); i++){
    if( i!=iFirst ) cqRunPart(&aPart[i]);
  }
  cqTestDerivation(argv[1]);
  cqTestSelection(argv[1]);
  cqTestCronVectors(argv[1]);
  cqTestZoneVectors(argv[1]);
  if( nFail>CQ_SHOW_MAX ) printf("... and %ld more\n", nFail-CQ_SHOW_MAX);
  printf("%ld passed, %ld failed\n", nPass, nFail);
  return nFail>0;
}
