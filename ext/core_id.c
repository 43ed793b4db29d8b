/*
** core_id.c: claim ids, lease tokens and batch ids (SPEC section 5).
**
**     qwc:7:3                        a claim: head row 7, its fence is now 3
**     1f1c63a8...c7c48e              its lease token
**     qwb:9388582ae2...18e4071f      a batch
**
** Every one is a pure function of what it names, so that a replica which
** runs the same statements finds the same ids, and another program can check
** them:
**
**     claim id     PREFIX:HEAD:FENCE
**     lease token  sha256(SCOPE:OWNER:INCARNATION:CLAIM_ID:NOW)
**     batch id     qwb: + sha256(SESSION:KEY:NOW) or sha256(... :NOW:NONCE)
**
** The parts are fed to the hash where they lie; nothing is joined in memory
** first.  A claim id is unique because the fence of a row only grows, and it
** leads back to its row: a verb parses HEAD out of it and needs no index.
*/
#include "claimq_core.h"

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
    if( (z[i] & 0x80)==0 ){       /* Nearly all: need not be decoded */
      i++;
    }else{
      int nByte = claimqUtf8Decode(&z[i], n-i, &c);
      if( nByte==0 ) return 0;
      i += nByte;
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

/*
** Write PREFIX:HEAD:FENCE and a NUL into zOut, which has CQ_CLAIM_ID_SZ
** bytes.  Returns the length.
*/
CQ_PRIV int claimqClaimId(
  const char *zPrefix, i64 iHead, i64 iFence, char *zOut
){
  int n = (int)strlen(zPrefix);
  assert( n+43<=CQ_CLAIM_ID_SZ );       /* two colons, two integers, NUL */
  memcpy(zOut, zPrefix, (size_t)n);
  zOut[n++] = ':';
  n += claimqI64Text(iHead, &zOut[n]);
  zOut[n++] = ':';
  n += claimqI64Text(iFence, &zOut[n]);
  return n;
}

/*
** The inverse of claimqClaimId(), for keys and fences that are not negative.
** Returns 0 and leaves the outputs alone if id is anything else than an id
** with this prefix.
*/
CQ_PRIV int claimqClaimIdParse(
  CqText id, const char *zPrefix, i64 *piHead, i64 *piFence
){
  int nPrefix = (int)strlen(zPrefix);
  const char *zColon;
  CqText head, fence;
  i64 iHead, iFence;
  if( id.n<=nPrefix || memcmp(id.z, zPrefix, (size_t)nPrefix)!=0 ) return 0;
  if( id.z[nPrefix]!=':' ) return 0;
  head.z = &id.z[nPrefix+1];
  zColon = memchr(head.z, ':', (size_t)(id.n-nPrefix-1));
  if( zColon==0 ) return 0;
  head.n = (int)(zColon-head.z);
  fence.z = zColon+1;
  fence.n = id.n - (int)(fence.z-id.z);
  if( !claimqI64Parse(head, &iHead) || iHead<0 ) return 0;
  if( !claimqI64Parse(fence, &iFence) || iFence<0 ) return 0;
  *piHead = iHead;
  *piFence = iFence;
  return 1;
}

/* Hash a text and the colon after it. */
static void cqIdPart(CqSha256 *p, CqText x){
  claimqSha256Update(p, x.z, (size_t)x.n);
  claimqSha256Update(p, ":", 1);
}

/* Hash an integer in decimal. */
static void cqIdInt(CqSha256 *p, i64 v){
  char zInt[21];
  claimqSha256Update(p, zInt, (size_t)claimqI64Text(v, zInt));
}

/* The lease token: 64 hex digits and a NUL.  Cannot fail. */
CQ_PRIV void claimqLeaseToken(
  CqText scope, CqText owner, CqText incarnation, CqText claimId, i64 iNow,
  char zOut[CQ_TOKEN_SZ]
){
  CqSha256 sha;
  claimqSha256Init(&sha);
  cqIdPart(&sha, scope);
  cqIdPart(&sha, owner);
  cqIdPart(&sha, incarnation);
  cqIdPart(&sha, claimId);
  cqIdInt(&sha, iNow);
  claimqSha256Hex(&sha, zOut);
}

/* claimqSha256Update() as an output of claimqRustDebug(). */
static void cqIdHash(void *pSha, const void *p, size_t n){
  claimqSha256Update((CqSha256*)pSha, p, n);
}

/* Hash KEY as Rust prints an Option<String> with {:?}. */
static void cqIdKey(CqSha256 *p, CqText key){
  if( key.z==0 ){
    claimqSha256Update(p, "None", 4);
    return;
  }
  claimqSha256Update(p, "Some(\"", 6);
  claimqRustDebug(key.z, key.n, cqIdHash, p);
  claimqSha256Update(p, "\")", 2);
}

/*
** The batch id, "qwb:" and 64 hex digits, and a NUL.  key.z==0 is a batch
** without source key; pNonce==0 leaves the nonce out.  Cannot fail.
*/
CQ_PRIV void claimqBatchId(
  CqText session, CqText key, i64 iNow, const i64 *pNonce,
  char zOut[CQ_BATCH_ID_SZ]
){
  CqSha256 sha;
  claimqSha256Init(&sha);
  cqIdPart(&sha, session);
  cqIdKey(&sha, key);
  claimqSha256Update(&sha, ":", 1);
  cqIdInt(&sha, iNow);
  if( pNonce ){
    claimqSha256Update(&sha, ":", 1);
    cqIdInt(&sha, *pNonce);
  }
  memcpy(zOut, "qwb:", 4);
  claimqSha256Hex(&sha, &zOut[4]);
}
