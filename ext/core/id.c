/*
** core/id.c: claim ids, lease tokens and batch ids.
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
** Write PREFIX:HEAD:FENCE and a NUL into zOut, which has CQ_CLAIM_ID_SZ
** bytes.  Returns the length.
*/
CQ_PRIV int claimqClaimId(
  const char *zPrefix, i64 iHead, i64 iFence, char *zOut
){
  int n = (int)strlen(zPrefix);
  assert( n+43<=CQ_CLAIM_ID_SZ );       /* two colons, two integers, NUL */
  assert( n>0 && strchr(zPrefix, ':')==0 );
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
  assert( id.n<CQ_CLAIM_ID_SZ );
  *piHead = iHead;
  *piFence = iFence;
  return 1;
}

/* Hash a text and the colon after it. */
static void cqIdPart(CqSha256 *p, CqText x){
  assert( x.z || x.n==0 );
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
