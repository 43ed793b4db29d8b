/*
** sha256.c: SHA-256, written from FIPS 180-4.
**
** Lease tokens and batch ids are SHA-256 sums (core/id.c), and the SQL
** function claimq_sha256() shows the plain sum:
**
**     sqlite> SELECT claimq_sha256('abc');
**     ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
**
** How it works
**
** The message is cut into blocks of 64 bytes.  Eight 32-bit words hold the
** state; each block stirs it in 64 rounds, each with one constant and one
** word of the schedule.  The first 16 words of the schedule are the block
** itself, each later one is made from four earlier ones.  So only 16 words
** need to be kept: each is renewed in place just before it is used again.
**
** The last block is filled with one bit 1, zeros, and the length of the
** message in bits, 64 bits wide.
**
** A token costs two or three blocks and one is made for every claim, so the
** rounds are unrolled by 16 (no moving of words from one variable to the
** next) and whole blocks are hashed where they lie.  Only the unfinished
** block at the end of an update is copied.
*/
#include "claimq_core.h"

/* FIPS 180-4, 4.2.2: fractions of the cube roots of the first 64 primes. */
static const u32 cqShaK[64] = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5,
  0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
  0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
  0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
  0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
  0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
  0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5,
  0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
  0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

/* FIPS 180-4, 4.1.2: the functions on words.  The sums of x turned by 2, 13 and
** 22, and by 6, 11 and 25, are nested, which needs fewer registers. */
static u32 cqShaRotr(u32 x, int n){ return (x>>n) | (x<<(32-n)); }
static u32 cqShaSum0(u32 x){
  return cqShaRotr(x ^ cqShaRotr(x ^ cqShaRotr(x, 9), 11), 2);
}
static u32 cqShaSum1(u32 x){
  return cqShaRotr(x ^ cqShaRotr(x ^ cqShaRotr(x, 14), 5), 6);
}
static u32 cqShaMix0(u32 x){
  return cqShaRotr(x, 7) ^ cqShaRotr(x, 18) ^ (x>>3);
}
static u32 cqShaMix1(u32 x){
  return cqShaRotr(x, 17) ^ cqShaRotr(x, 19) ^ (x>>10);
}

/* Load and store a big-endian word. */
static u32 cqShaLoad(const u8 *a){
  return ((u32)a[0]<<24) | ((u32)a[1]<<16) | ((u32)a[2]<<8) | a[3];
}
static void cqShaStore(u8 *a, u32 v){
  a[0] = (u8)(v>>24);
  a[1] = (u8)(v>>16);
  a[2] = (u8)(v>>8);
  a[3] = (u8)v;
}

/* Word j of the schedule as it is; and renewed: the word 16 places later
** takes its place. */
#define CQ_SHA_HERE(j) w[j]
#define CQ_SHA_NEXT(j) \
  (w[j] += cqShaMix1(w[((j)+14)&15]) + w[((j)+9)&15] + cqShaMix0(w[((j)+1)&15]))

/* One round with the word that W(j) gives.  Instead of moving the eight
** words of the state along, the next round names them one place further.  The
** majority of a, b and c is b, unless a and c agree against it: it needs a ^ b,
** which was b ^ c of the round to come, and is kept in t for it. */
#define CQ_SHA_ROUND(W,a,b,c,d,e,f,g,h,j) \
  h += cqShaSum1(e) + (g ^ (e & (f ^ g))) + aK[j] + W(j); \
  d += h; \
  h += cqShaSum0(a) + (b ^ (t & (a ^ b))); \
  t = a ^ b

/* Eight rounds bring the names back to where they were. */
#define CQ_SHA_ROUND8(W,j) \
  CQ_SHA_ROUND(W,a,b,c,d,e,f,g,h,(j)); \
  CQ_SHA_ROUND(W,h,a,b,c,d,e,f,g,(j)+1); \
  CQ_SHA_ROUND(W,g,h,a,b,c,d,e,f,(j)+2); \
  CQ_SHA_ROUND(W,f,g,h,a,b,c,d,e,(j)+3); \
  CQ_SHA_ROUND(W,e,f,g,h,a,b,c,d,(j)+4); \
  CQ_SHA_ROUND(W,d,e,f,g,h,a,b,c,(j)+5); \
  CQ_SHA_ROUND(W,c,d,e,f,g,h,a,b,(j)+6); \
  CQ_SHA_ROUND(W,b,c,d,e,f,g,h,a,(j)+7)

/* Stir one block of 64 bytes into the state.  Cannot fail. */
static void cqShaBlock(u32 aH[8], const u8 *aBlock){
  u32 a = aH[0], b = aH[1], c = aH[2], d = aH[3];
  u32 e = aH[4], f = aH[5], g = aH[6], h = aH[7];
  u32 t = b ^ c;
  const u32 *aK = cqShaK;
  u32 w[16];
  int i;
  for(i=0; i<16; i++) w[i] = cqShaLoad(&aBlock[4*i]);
  CQ_SHA_ROUND8(CQ_SHA_HERE, 0);
  CQ_SHA_ROUND8(CQ_SHA_HERE, 8);
  for(aK=&cqShaK[16]; aK<&cqShaK[64]; aK+=16){
    CQ_SHA_ROUND8(CQ_SHA_NEXT, 0);
    CQ_SHA_ROUND8(CQ_SHA_NEXT, 8);
  }
  aH[0] += a; aH[1] += b; aH[2] += c; aH[3] += d;
  aH[4] += e; aH[5] += f; aH[6] += g; aH[7] += h;
}

#undef CQ_SHA_HERE
#undef CQ_SHA_NEXT
#undef CQ_SHA_ROUND
#undef CQ_SHA_ROUND8

/* Begin.  Nothing to free at the end. */
CQ_PRIV void claimqSha256Init(CqSha256 *p){
  /* FIPS 180-4, 5.3.3: fractions of the roots of the first 8 primes. */
  static const u32 aStart[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19
  };
  memcpy(p->aH, aStart, sizeof(aStart));
  p->nByte = 0;
}

/* Hash n more bytes.  pIn may be 0 if n is 0.  Cannot fail. */
CQ_PRIV void claimqSha256Update(CqSha256 *p, const void *pIn, size_t n){
  const u8 *a = (const u8*)pIn;
  size_t nHave = (size_t)(p->nByte & 63);
  if( n==0 ) return;
  assert( a!=0 );
  p->nByte += n;
  if( nHave ){
    size_t nFill = 64 - nHave;
    if( nFill>n ) nFill = n;
    memcpy(&p->aBuf[nHave], a, nFill);
    if( nHave+nFill<64 ) return;
    cqShaBlock(p->aH, p->aBuf);
    a += nFill;
    n -= nFill;
  }
  for(; n>=64; a+=64, n-=64) cqShaBlock(p->aH, a);
  assert( n==(size_t)(p->nByte & 63) );
  if( n ) memcpy(p->aBuf, a, n);
}

/* Finish: the sum as 32 bytes.  *p must be begun anew after this. */
CQ_PRIV void claimqSha256Final(CqSha256 *p, u8 aOut[32]){
  static const u8 aPad[64] = { 0x80 };
  u64 nBit = p->nByte * 8;
  u8 aLen[8];
  int i;
  cqShaStore(&aLen[0], (u32)(nBit>>32));
  cqShaStore(&aLen[4], (u32)nBit);
  /* 1..64 bytes, so that the length ends a block */
  claimqSha256Update(p, aPad, 1 + (size_t)((55 - p->nByte) & 63));
  claimqSha256Update(p, aLen, 8);
  assert( (p->nByte & 63)==0 );
  for(i=0; i<8; i++) cqShaStore(&aOut[4*i], p->aH[i]);
}

/* Finish: the sum as 64 lower-case hex digits and a NUL. */
CQ_PRIV void claimqSha256Hex(CqSha256 *p, char zOut[65]){
  static const char zDigit[] = "0123456789abcdef";
  u8 aSum[32];
  int i;
  claimqSha256Final(p, aSum);
  for(i=0; i<32; i++){
    zOut[2*i] = zDigit[aSum[i]>>4];
    zOut[2*i+1] = zDigit[aSum[i]&15];
  }
  zOut[64] = 0;
}
