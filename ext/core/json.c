/*
** core/json.c: a pull reader for JSON (RFC 8259).
**
** Capabilities, batch ids and rejected messages come as JSON.  SQLite could
** take it apart with json_each(), but the rules that look at it must be pure,
** and SQLite can be built without JSON.  The reader needs no memory.
** The caller pulls one token after the other:
**
**     {"seq": 7, "why": ["a\u0062"]}
**
**     OBJECT  KEY seq  NUMBER 7  KEY why  ARRAY  STRING a\u0062
**     CLOSE  CLOSE  END
**
**     claimqJsonInit(&json, text);
**     while( (e = claimqJsonNext(&json))>CQ_JSON_END ){ ... json.tok ... }
**     if( e==CQ_JSON_ERROR ) ...
**
** How it works
**
** The state says what may come next; aKind[] remembers for each open level
** whether it is an array or an object.  A document is well-formed if END is
** reached, and only then: a caller that acts on tokens must pull to the end
** first, or be able to take back what it did.  ERROR and END repeat for ever.
**
** The token of a string is the slice between the quotes as it stands in the
** input.  claimqJsonText() unescapes it, claimqJsonEq() compares it with a text
** without unescaping it into memory.  A lone surrogate (\ud800 without its
** partner) is well-formed JSON but no text: the reader lets it pass, and these
** two refuse it.  The input is valid UTF-8 when it gets here; bytes
** above 0x7f are not looked at.
*/
#include "claimq_core.h"

#define CQ_JS_VALUE 0             /* A value must come */
#define CQ_JS_FIRST 1             /* After '[' or '{': an entry or the end */
#define CQ_JS_KEY   2             /* A member name must come */
#define CQ_JS_AFTER 3             /* A value is complete */
#define CQ_JS_FAIL  4             /* Malformed */

/* Begin to read.  Nothing to free at the end. */
CQ_PRIV void claimqJsonInit(CqJson *p, CqText in){
  memset(p, 0, sizeof(*p));
  p->in = in;
  p->eState = CQ_JS_VALUE;
}

/* Make the error stick.  Returns CQ_JSON_ERROR. */
static int cqJsonFail(CqJson *p){
  p->eState = CQ_JS_FAIL;
  return CQ_JSON_ERROR;
}

/* Skip white space.  Returns the byte that is next, -1 at the end. */
static int cqJsonPeek(CqJson *p){
  while( p->i<p->in.n ){
    int c = (u8)p->in.z[p->i];
    if( c!=' ' && c!='\t' && c!='\n' && c!='\r' ) return c;
    p->i++;
  }
  return -1;
}

/* The token is what lies between here and iEnd; go there. */
static void cqJsonToken(CqJson *p, int iEnd){
  assert( iEnd>=p->i && iEnd<=p->in.n );
  p->tok.z = &p->in.z[p->i];
  p->tok.n = iEnd - p->i;
  p->i = iEnd;
}

/* The value of four hex digits, or -1. */
static int cqJsonHex4(const char *z){
  int v = 0, i;
  for(i=0; i<4; i++){
    int c = (u8)z[i];
    int iDigit = c>='0' && c<='9' ? c-'0'
               : c>='a' && c<='f' ? c-'a'+10
               : c>='A' && c<='F' ? c-'A'+10 : -1;
    if( iDigit<0 ) return -1;
    v = v*16 + iDigit;
  }
  return v;
}

/*
** Decode the escape that (z,n) begins with.  Returns its length and sets
** *pCode to the code unit, which may be half of a surrogate pair.  Returns 0
** if there is no well-formed escape.
*/
static int cqJsonEscape(const char *z, int n, u32 *pCode){
  static const char zFrom[] = "\"\\/bfnrt";
  static const char zTo[]   = "\"\\/\b\f\n\r\t";
  const char *zAt;
  int v;
  if( n<2 || z[0]!='\\' ) return 0;
  if( z[1]=='u' ){
    v = n<6 ? -1 : cqJsonHex4(&z[2]);
    *pCode = (u32)v;
    return v<0 ? 0 : 6;
  }
  zAt = z[1] ? strchr(zFrom, z[1]) : 0;
  if( zAt==0 ) return 0;
  *pCode = (u32)zTo[zAt-zFrom];
  return 2;
}

/* Read a string, from quote to quote.  Returns 1, or 0 if malformed. */
static int cqJsonString(CqJson *p){
  const char *z = p->in.z;
  int n = p->in.n;
  int i = ++p->i;
  assert( i<=n && z[i-1]=='"' );
  while( i<n && z[i]!='"' ){
    u32 c;
    int nByte = z[i]=='\\' ? cqJsonEscape(&z[i], n-i, &c) : (u8)z[i]>=0x20;
    if( nByte==0 ) return 0;
    i += nByte;
  }
  if( i>=n ) return 0;
  cqJsonToken(p, i);
  p->i++;
  return 1;
}

/* Position after the digits that begin at i; i itself if there are none. */
static int cqJsonDigits(const CqJson *p, int i){
  while( i<p->in.n && p->in.z[i]>='0' && p->in.z[i]<='9' ) i++;
  return i;
}

/* 1 if the byte at i is a or b. */
static int cqJsonIs(const CqJson *p, int i, char a, char b){
  return i<p->in.n && (p->in.z[i]==a || p->in.z[i]==b);
}

/* Read a number.  Returns 1, or 0 if malformed. */
static int cqJsonNumber(CqJson *p){
  int i = p->i;
  int iEnd;
  if( cqJsonIs(p, i, '-', '-') ) i++;
  /* A leading zero stands alone: "01" is 0 and then an unexpected 1. */
  iEnd = cqJsonIs(p, i, '0', '0') ? i+1 : cqJsonDigits(p, i);
  if( iEnd==i ) return 0;
  if( cqJsonIs(p, iEnd, '.', '.') ){
    i = iEnd+1;
    iEnd = cqJsonDigits(p, i);
    if( iEnd==i ) return 0;
  }
  if( cqJsonIs(p, iEnd, 'e', 'E') ){
    i = iEnd+1;
    if( cqJsonIs(p, i, '+', '-') ) i++;
    iEnd = cqJsonDigits(p, i);
    if( iEnd==i ) return 0;
  }
  cqJsonToken(p, iEnd);
  return 1;
}

/* Read true, false or null.  Returns 1, or 0 if it is none of them. */
static int cqJsonWord(CqJson *p){
  static const char *const azWord[] = { "true", "false", "null" };
  int i;
  for(i=0; i<3; i++){
    int n = (int)strlen(azWord[i]);
    if( p->in.n-p->i>=n && memcmp(&p->in.z[p->i], azWord[i], (size_t)n)==0 ){
      cqJsonToken(p, p->i+n);
      return 1;
    }
  }
  return 0;
}

/* Open an array or object.  Returns its token, or ERROR if too deep. */
static int cqJsonOpen(CqJson *p, int c){
  assert( c=='[' || c=='{' );
  if( p->nDepth>=(int)sizeof(p->aKind) ) return cqJsonFail(p);
  p->aKind[p->nDepth++] = (u8)c;
  p->i++;
  p->eState = CQ_JS_FIRST;
  return c=='[' ? CQ_JSON_ARRAY : CQ_JSON_OBJECT;
}

/* Read what must be the end of the innermost level.  CLOSE or ERROR. */
static int cqJsonClose(CqJson *p, int c){
  int cWant;
  assert( p->nDepth>0 );
  cWant = p->aKind[p->nDepth-1]=='[' ? ']' : '}';
  if( c!=cWant ) return cqJsonFail(p);
  p->nDepth--;
  p->i++;
  p->eState = CQ_JS_AFTER;
  return CQ_JSON_CLOSE;
}

/* Read a member name and its colon.  KEY or ERROR. */
static int cqJsonKey(CqJson *p, int c){
  if( c!='"' || !cqJsonString(p) ) return cqJsonFail(p);
  if( cqJsonPeek(p)!=':' ) return cqJsonFail(p);
  p->i++;
  p->eState = CQ_JS_VALUE;
  return CQ_JSON_KEY;
}

/* Read a value, or the beginning of an array or object. */
static int cqJsonValue(CqJson *p, int c){
  int eTok, bOk;
  if( c=='[' || c=='{' ) return cqJsonOpen(p, c);
  if( c=='"' ){
    eTok = CQ_JSON_STRING;
    bOk = cqJsonString(p);
  }else if( c=='-' || (c>='0' && c<='9') ){
    eTok = CQ_JSON_NUMBER;
    bOk = cqJsonNumber(p);
  }else{
    eTok = CQ_JSON_WORD;
    bOk = c>=0 && cqJsonWord(p);
  }
  if( !bOk ) return cqJsonFail(p);
  p->eState = CQ_JS_AFTER;
  return eTok;
}

/* What an entry of the innermost level begins with: a key or a value. */
static u8 cqJsonEntry(const CqJson *p){
  assert( p->nDepth>0 );
  return p->aKind[p->nDepth-1]=='{' ? CQ_JS_KEY : CQ_JS_VALUE;
}

/*
** Read the next token.  Returns one of CQ_JSON_*; strings, keys, numbers and
** words are in p->tok, which points into the input.
*/
CQ_PRIV int claimqJsonNext(CqJson *p){
  int c;
  p->tok.z = 0;
  p->tok.n = 0;
  if( p->eState==CQ_JS_FAIL ) return CQ_JSON_ERROR;
  c = cqJsonPeek(p);
  if( p->eState==CQ_JS_AFTER ){
    if( p->nDepth==0 ) return c<0 ? CQ_JSON_END : cqJsonFail(p);
    if( c!=',' ) return cqJsonClose(p, c);
    p->i++;
    p->eState = cqJsonEntry(p);
    c = cqJsonPeek(p);
  }else if( p->eState==CQ_JS_FIRST ){
    if( c==']' || c=='}' ) return cqJsonClose(p, c);
    p->eState = cqJsonEntry(p);
  }
  return p->eState==CQ_JS_KEY ? cqJsonKey(p, c) : cqJsonValue(p, c);
}

/*
** Skip the value that comes next, with all that is in it.  Returns 1, or 0
** if it is malformed or no value comes next.
*/
CQ_PRIV int claimqJsonSkip(CqJson *p){
  int nDepth = p->nDepth;
  int eTok = claimqJsonNext(p);
  if( eTok<=CQ_JSON_END || eTok==CQ_JSON_CLOSE || eTok==CQ_JSON_KEY ) return 0;
  while( p->nDepth>nDepth ){
    if( claimqJsonNext(p)==CQ_JSON_ERROR ) return 0;
  }
  return 1;
}

/* 1 if the text is a JSON object and nothing else. */
CQ_PRIV int claimqJsonObject(CqText t){
  CqJson j;
  claimqJsonInit(&j, t);
  return cqJsonPeek(&j)=='{' && claimqJsonSkip(&j)
      && claimqJsonNext(&j)==CQ_JSON_END;
}

/* Write a code point as UTF-8.  Returns the number of bytes. */
static int cqJsonEncode(u32 c, char zOut[4]){
  static const u8 aLead[5] = { 0, 0, 0xc0, 0xe0, 0xf0 };
  int n = c<0x80 ? 1 : c<0x800 ? 2 : c<0x10000 ? 3 : 4;
  int i;
  assert( c<=0x10ffff && (c<0xd800 || c>0xdfff) );
  for(i=n-1; i>0; i--){
    zOut[i] = (char)(0x80 | (c & 0x3f));
    c >>= 6;
  }
  zOut[0] = (char)(aLead[n] | c);
  return n;
}

/*
** Take one character off the front of *pRaw, which is not empty: a byte, an
** escape, or a surrogate pair of two.  Returns the number of bytes in zOut,
** or -1 for a lone surrogate or a malformed escape.
*/
static int cqJsonChar(CqText *pRaw, char zOut[4]){
  u32 c, cLow;
  int n = 1;
  assert( pRaw->n>0 );
  if( pRaw->z[0]=='\\' ){
    n = cqJsonEscape(pRaw->z, pRaw->n, &c);
    if( n==0 || (c>=0xdc00 && c<=0xdfff) ) return -1;
  }else{
    c = (u8)pRaw->z[0];
  }
  pRaw->z += n;
  pRaw->n -= n;
  if( n==1 ){
    zOut[0] = (char)c;
    return 1;
  }
  if( c>=0xd800 && c<=0xdbff ){
    n = cqJsonEscape(pRaw->z, pRaw->n, &cLow);
    if( n==0 || cLow<0xdc00 || cLow>0xdfff ) return -1;
    pRaw->z += n;
    pRaw->n -= n;
    c = 0x10000 + ((c-0xd800)<<10) + (cLow-0xdc00);
  }
  return cqJsonEncode(c, zOut);
}

/*
** Unescape a raw string into zOut, which has room for raw.n bytes; no NUL is
** added.  zOut==0 only measures.  Returns the length, or -1 if it is no text
** (then zOut may have been written to).
*/
CQ_PRIV int claimqJsonText(CqText raw, char *zOut){
  int n = 0;
  while( raw.n>0 ){
    char zChar[4];
    int nChar = cqJsonChar(&raw, zChar);
    if( nChar<0 ) return -1;
    assert( nChar>0 && nChar<=4 );
    if( zOut ) memcpy(&zOut[n], zChar, (size_t)nChar);
    n += nChar;
  }
  return n;
}

/* 1 if the raw slice unescapes to x, byte for byte, else 0. */
CQ_PRIV int claimqJsonEq(CqText raw, CqText x){
  while( raw.n>0 ){
    char zChar[4];
    int n = cqJsonChar(&raw, zChar);
    if( n<0 || n>x.n || memcmp(zChar, x.z, (size_t)n)!=0 ) return 0;
    x.z += n;
    x.n -= n;
  }
  return x.n==0;
}

/*
** The integer of a number token.  Returns 1 and sets *pOut; returns 0 for
** fractions, exponents (also 3.0 and 1e2) and what does not fit 64 bits.
*/
CQ_PRIV int claimqJsonInt(CqText tok, i64 *pOut){
  if( tok.n==2 && memcmp(tok.z, "-0", 2)==0 ){
    *pOut = 0;
    return 1;
  }
  return claimqI64Parse(tok, pOut);
}

/*
** Write t as a JSON string at z, which has room for 6*t.n+2 bytes.  Returns
** the end.
*/
CQ_PRIV char *claimqJsonWrite(CqText t, char *z){
  static const char zHex[] = "0123456789abcdef";
  int i;
  assert( t.z || t.n==0 );
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
