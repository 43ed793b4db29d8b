/*
** core_json_test.h: the part of core_test.c that proves core/json.c.
**
** Lists of documents, and two readers against each other: the one under test
** and a recursive one written from the grammar.  They must agree on whole
** documents, damaged documents and noise, made by chance from a fixed seed.
*/

/* 1 if the slice of a token is what its kind needs. */
static int cqTokenOk(const CqJson *p, int e){
  CqText in = p->in, tok = p->tok;
  if( e<CQ_JSON_KEY ) return e==CQ_JSON_ERROR || (tok.z==0 && tok.n==0);
  if( tok.z<in.z || tok.n<0 || tok.z+tok.n>in.z+in.n ) return 0;
  return tok.n>0 || e==CQ_JSON_STRING || e==CQ_JSON_KEY;
}

/*
** Read a document to its end; one letter per token into zOut.  ERROR is '!'
** and END is '.', and both must repeat.  '?' is a token that cannot be.
*/
static const char *cqTrace(CqText in, char *zOut, int nOut){
  static const char zLetter[] = "!.[{]ksnw";
  CqJson r;
  int i = 0, e;
  claimqJsonInit(&r, in);
  do{
    e = claimqJsonNext(&r);
    if( i+2>nOut ) cqFatal("overflow", "trace");
    zOut[i++] = cqTokenOk(&r, e) ? zLetter[e] : '?';
  }while( e>CQ_JSON_END );
  if( claimqJsonNext(&r)!=e ) zOut[i-1] = '?';
  zOut[i] = 0;
  return zOut;
}

/* 1 if the reader accepts these bytes. */
static int cqAcceptsHere(const char *z, int n){
  char zTrace[1000];
  const char *zGot = cqTrace(cqSlice(z, n), zTrace, sizeof(zTrace));
  if( strchr(zGot, '?') ) cqCheck(0, "json %.*s: tokens %s", n, z, zGot);
  return zGot[strlen(zGot)-1]=='.';
}

/* 1 if it accepts a copy of exactly these bytes. */
static int cqAccepts(const char *z, int n){
  CqText in = cqTight(z, n);
  int bOk = cqAcceptsHere(in.z, n);
  cqTightFree(in);
  return bOk;
}

/* Valid documents, their tokens; all that is cut short is refused. */
static void cqTestJsonValid(void){
  static const struct { const char *z; const char *zTrace; } a[] = {
    { "[]", "[]." },                     { "{}", "{]." },
    { "\"\"", "s." },                    { "true", "w." },
    { "false", "w." },                   { "null", "w." },
    { " \t\r\n[ ]", "[]." },             { "[[],{}]", "[[]{]]." },
    { "[1,-2,3.5,-0,0.25,1e9,1E+2,2.5e-3]", "[nnnnnnnn]." },
    { "[\"a\",\"\\\"\",\"\\u00e9\\n\"]", "[sss]." },
    { "{\"a\":1,\"b\":[true,null],\"c\":{\"d\":\"e\"}}", "{knk[ww]k{ks]]." },
    { " { \"a\" : [ 1 , 2 ] , \"\" : \"\" }", "{k[nn]ks]." },
    { "[\"]\",\"}\",\"{\\\"\"]", "[sss]." },
    { "[\"\xc3\xa4\x7f\"]", "[s]." },    { "\"\\ud800\"", "s." },
    { "{\"a\":0,\"a\":0}", "{knkn]." },  { "[0,10,100]", "[nnn]." },
  };
  char zTrace[100];
  int i, n;
  for(i=0; i<CQ_COUNT(a); i++){
    const char *zGot = cqTrace(cqStr(a[i].z), zTrace, sizeof(zTrace));
    cqCheck(!strcmp(zGot, a[i].zTrace), "json %s gives %s", a[i].z, zGot);
    for(n=0; n<(int)strlen(a[i].z); n++){
      cqCheck(!cqAccepts(a[i].z, n), "json %.*s is cut short", n, a[i].z);
    }
  }
  cqCheck(cqAccepts("7", 1) && cqAccepts(" -0.5e1 ", 8), "json number alone");
  cqCheck(!cqAccepts("[1\0]", 4) && !cqAccepts("[]\0", 3), "json with NUL");
}

static void cqTestJsonInvalid(void){
  static const char *const az[] = {
    "", " ", "[", "]", "{", "}", ",", ":", "[,]", "[1,]", "[,1]", "[1 2]",
    "[1}", "{]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}", "{a:1}",
    "{\"a\":1 \"b\":2}", "{\"a\",1}", "{1:2}", "{\"a\"::1}", "[1:2]",
    "{\"a\":1:2}", "[]]", "[] []", "[]x", "1 2", "nul", "nulls", "True",
    "truefalse", "'a'", "\"a", "a\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"",
    "\"\\u 123\"", "\"\\\"", "\"\\", "\"a\nb\"", "\"\x01\"", "\"\x1f\"",
    "01", "-", "-a", "+1", ".5", "1.", "1.e5", "1e", "1e+", "0x1", "1_000",
    "--1", "- 1", "1e5.5", "NaN", "Infinity", "-Infinity", "00", "-01",
    "[1]//c", "/**/[]", "\xef\xbb\xbf[]", "\v[]", "\f[]", "[\"a\" \"b\"]",
    "\"\\u-123\"", "\"\\U0041\"", "[tru]", "[truee]", "\"\t\"", "{null:1}"
  };
  int i;
  for(i=0; i<CQ_COUNT(az); i++){
    cqCheck(!cqAccepts(az[i], (int)strlen(az[i])), "json %s", az[i]);
  }
}

/* 32 levels are read, 33 are refused; arrays, objects, and mixed. */
static void cqTestJsonDepth(void){
  int n, i, m;
  for(m=0; m<4; m++) for(n=30; n<=35; n++){
    char z[400];
    int k = 0;
    for(i=0; i<n; i++){
      int bObject = (m>>(i&1))&1;
      k += sprintf(&z[k], "%s", bObject ? "{\"k\":" : "[");
    }
    z[k++] = '1';
    for(i=n-1; i>=0; i--) z[k++] = (m>>(i&1))&1 ? '}' : ']';
    cqCheck(cqAccepts(z, k)==(n<=32), "json %d levels deep, kind %d", n, m);
  }
}

/*
** A second reader, recursive and written from the grammar.  Returns the
** position after the value at i, or -1.
*/
static int cqNaiveSpace(const char *z, int n, int i){
  while( i<n && z[i] && strchr(" \t\r\n", z[i]) ) i++;
  return i;
}
static int cqNaiveString(const char *z, int n, int i){
  if( i>=n || z[i++]!='"' ) return -1;
  for(;;){
    if( i>=n || (u8)z[i]<0x20 ) return -1;
    if( z[i]=='"' ) return i+1;
    if( z[i++]!='\\' ) continue;
    if( i>=n || z[i]==0 || !strchr("\"\\/bfnrtu", z[i]) ) return -1;
    if( z[i++]=='u' ){
      int k = 0;
      for(; k<4; k++, i++){
        if( i>=n || z[i]==0 || !strchr("0123456789abcdefABCDEF", z[i]) ){
          return -1;
        }
      }
    }
  }
}
/* Numbers: a table of what each state does with a class of byte. */
static int cqNaiveNumber(const char *z, int n, int i){
  /*                       -  0  1  .  e  +  */
  static const int a[8][6] = {
    /* 0 begin        */ { 1, 2, 3, 8, 8, 8 },
    /* 1 after minus  */ { 8, 2, 3, 8, 8, 8 },
    /* 2 zero         */ { 8, 8, 8, 4, 6, 8 },
    /* 3 integer      */ { 8, 3, 3, 4, 6, 8 },
    /* 4 point        */ { 8, 5, 5, 8, 8, 8 },
    /* 5 fraction     */ { 8, 5, 5, 8, 6, 8 },
    /* 6 e            */ { 9, 7, 7, 8, 8, 9 },
    /* 7 exponent     */ { 8, 7, 7, 8, 8, 8 }
  };
  int s = 0;
  for(; i<n; i++){
    int c = z[i]=='-' ? 0 : z[i]=='0' ? 1 : z[i]>='1' && z[i]<='9' ? 2
          : z[i]=='.' ? 3 : z[i]=='e' || z[i]=='E' ? 4 : z[i]=='+' ? 5 : -1;
    int sNext = c<0 ? 8 : s==9 ? (c==1 || c==2 ? 7 : 8) : a[s][c];
    if( sNext==8 ) break;
    s = sNext;
  }
  return s==2 || s==3 || s==5 || s==7 ? i : -1;
}
static int cqNaiveValue(const char *z, int n, int i, int nDepth);
static int cqNaiveList(const char *z, int n, int i, int nDepth){
  char cEnd = z[i]=='[' ? ']' : '}';
  int bFirst = 1;
  if( nDepth>32 ) return -1;
  for(i++; ; bFirst=0){
    i = cqNaiveSpace(z, n, i);
    if( i<n && z[i]==cEnd ) return i+1;
    if( !bFirst ){
      if( i>=n || z[i]!=',' ) return -1;
      i = cqNaiveSpace(z, n, i+1);
      if( i<n && z[i]==cEnd ) return -1;
    }
    if( cEnd=='}' ){
      i = cqNaiveString(z, n, i);
      if( i<0 ) return -1;
      i = cqNaiveSpace(z, n, i);
      if( i>=n || z[i++]!=':' ) return -1;
    }
    i = cqNaiveValue(z, n, i, nDepth);
    if( i<0 ) return -1;
  }
}
static int cqNaiveValue(const char *z, int n, int i, int nDepth){
  i = cqNaiveSpace(z, n, i);
  if( i>=n ) return -1;
  if( z[i]=='[' || z[i]=='{' ) return cqNaiveList(z, n, i, nDepth+1);
  if( z[i]=='"' ) return cqNaiveString(z, n, i);
  if( n-i>=4 && !memcmp(&z[i], "true", 4) ) return i+4;
  if( n-i>=4 && !memcmp(&z[i], "null", 4) ) return i+4;
  if( n-i>=5 && !memcmp(&z[i], "false", 5) ) return i+5;
  return cqNaiveNumber(z, n, i);
}
static int cqNaiveAccepts(const char *z, int n){
  int i = cqNaiveValue(z, n, 0, 0);
  return i>=0 && cqNaiveSpace(z, n, i)==n;
}

/* A document by chance, with the trace that reading it must give. */
typedef struct CqDoc CqDoc;
struct CqDoc {
  char z[4000];
  char zTrace[1000];
  int n, nTrace;
};
static void cqDocAdd(CqDoc *p, const char *z){
  if( cqRandom(12)==0 ) p->z[p->n++] = " \t\r\n"[cqRandom(4)];
  strcpy(&p->z[p->n], z);
  p->n += (int)strlen(z);
}
static void cqDocString(CqDoc *p){
  static const char *const az[] = {
    "a", "\\n", "\\u0061", "\\ud83d\\udc4d", "\xc3\xa9", "\\\\", "\\\"",
    "]", ",", ":", "{", "\\/", "\\uFFFF", "\\u0000", " ", "\x7f"
  };
  int n = (int)cqRandom(4);
  cqDocAdd(p, "\"");
  for(; n>0; n--){
    const char *z = az[cqRandom(CQ_COUNT(az))];
    strcpy(&p->z[p->n], z);
    p->n += (int)strlen(z);
  }
  p->z[p->n++] = '"';
}
static void cqDocValue(CqDoc *p, int nDepth){
  static const char *const azNumber[] = {
    "0", "-1", "3.5", "1e5", "-0.0E-2", "12345678901234567890", "7", "10E+1"
  };
  static const char *const azWord[] = { "true", "false", "null" };
  int bObject = (int)cqRandom(2), n = (int)cqRandom(4), i;
  u32 e = nDepth>4 || p->n>300 ? 2+cqRandom(3) : cqRandom(5);
  if( e==2 ){
    cqDocString(p);
    p->zTrace[p->nTrace++] = 's';
  }else if( e==3 ){
    cqDocAdd(p, azNumber[cqRandom(CQ_COUNT(azNumber))]);
    p->zTrace[p->nTrace++] = 'n';
  }else if( e==4 ){
    cqDocAdd(p, azWord[cqRandom(3)]);
    p->zTrace[p->nTrace++] = 'w';
  }else{
    cqDocAdd(p, bObject ? "{" : "[");
    p->zTrace[p->nTrace++] = bObject ? '{' : '[';
    for(i=0; i<n; i++){
      if( i ) cqDocAdd(p, ",");
      if( bObject ){
        cqDocString(p);
        cqDocAdd(p, ":");
        p->zTrace[p->nTrace++] = 'k';
      }
      cqDocValue(p, nDepth+1);
    }
    cqDocAdd(p, bObject ? "}" : "]");
    p->zTrace[p->nTrace++] = ']';
  }
}

/* Skip must pass over exactly one value, wherever it stands. */
static int cqSkips(const CqDoc *p){
  char z[4100];
  CqJson r;
  int n = sprintf(z, "[8,%s,9]", p->z);
  claimqJsonInit(&r, cqSlice(p->z, p->n));
  if( !claimqJsonSkip(&r) || claimqJsonNext(&r)!=CQ_JSON_END ) return 0;
  claimqJsonInit(&r, cqSlice(z, n));
  if( claimqJsonNext(&r)!=CQ_JSON_ARRAY || !claimqJsonSkip(&r) ) return 0;
  if( !claimqJsonSkip(&r) || claimqJsonNext(&r)!=CQ_JSON_NUMBER ) return 0;
  return r.tok.n==1 && r.tok.z[0]=='9' && claimqJsonSkip(&r)==0;
}

/* ... and fail where there is none, or where it is not whole. */
static void cqTestJsonSkip(void){
  static const char *const azBad[] = {
    "", "[", "[1", "[[1,2]", "{\"a\":", "{\"a\"", "[1,]", "nul", "]", "[}"
  };
  CqJson r;
  int i;
  for(i=0; i<CQ_COUNT(azBad); i++){
    claimqJsonInit(&r, cqStr(azBad[i]));
    cqCheck(claimqJsonSkip(&r)==0, "skip json %s", azBad[i]);
  }
  claimqJsonInit(&r, cqStr("{}"));
  cqCheck(claimqJsonSkip(&r)==1, "skip json {}");
  cqCheck(claimqJsonSkip(&r)==0, "skip json at the end");
  cqCheck(claimqJsonObject(cqStr(" {\"a\":[1]} ")), "a json object");
  cqCheck(!claimqJsonObject(cqStr("[{}]")), "a json array is no object");
  cqCheck(!claimqJsonObject(cqStr("{} {}")), "json after an object");
  cqCheck(!claimqJsonObject(cqStr("{\"a\"}")), "a json object with an error");
  claimqJsonInit(&r, cqStr("{\"a\":[1]}"));
  cqCheck(claimqJsonNext(&r)==CQ_JSON_OBJECT && claimqJsonSkip(&r)==0,
          "skip json at a key");
}

/* Change one to three bytes: another, one more, one less. */
static int cqDamage(char *z, int n){
  static const char zByte[] = "[]{},:\"\\ 019.-+eEutrflsna/x\t\n\x01\x80";
  int nTimes = 1 + (int)cqRandom(3);
  for(; nTimes>0 && n>0; nTimes--){
    int i = (int)cqRandom((u32)n);
    char c = zByte[cqRandom(sizeof(zByte))];
    switch( cqRandom(3) ){
      case 0:
        z[i] = c;
        break;
      case 1:
        memmove(&z[i+1], &z[i], (size_t)(n-i));
        z[i] = c;
        n++;
        break;
      default:
        memmove(&z[i], &z[i+1], (size_t)(n-i-1));
        n--;
    }
  }
  return n;
}

static void cqTestJsonFuzz(void){
  static CqDoc doc;
  char zTrace[1000], zBad[4100];
  int iTrial, i, nBad = 0;
  for(iTrial=0; iTrial<4000; iTrial++){
    doc.n = doc.nTrace = 0;
    cqDocValue(&doc, 0);
    doc.z[doc.n] = 0;
    strcpy(&doc.zTrace[doc.nTrace], ".");
    cqTrace(cqSlice(doc.z, doc.n), zTrace, sizeof(zTrace));
    cqCheck(!strcmp(zTrace, doc.zTrace), "json %s: %s", doc.z, zTrace);
    cqCheck(cqNaiveAccepts(doc.z, doc.n), "naive: json %s", doc.z);
    cqCheck(cqSkips(&doc), "skip json %s", doc.z);
    for(i=0; i<10; i++){
      int n, bNaive;
      memcpy(zBad, doc.z, (size_t)doc.n);
      n = cqDamage(zBad, doc.n);
      bNaive = cqNaiveAccepts(zBad, n);
      nBad += !bNaive;
      cqCheck(cqAccepts(zBad, n)==bNaive, "json %.*s: %d", n, zBad, !bNaive);
    }
  }
  cqCheck(nBad>10000 && nBad<39000, "%d damaged documents", nBad);
}

/* Bytes of no form at all: nothing may be read beyond them. */
static void cqTestJsonNoise(void){
  static const char zByte[] = "[]{},:\"\"\\u0d8 1-.etrufalsn";
  int iTrial, i;
  for(iTrial=0; iTrial<100000; iTrial++){
    char z[12];
    int n = (int)cqRandom(13);
    for(i=0; i<n; i++) z[i] = zByte[cqRandom(sizeof(zByte)-1)];
    cqCheck(cqAccepts(z, n)==cqNaiveAccepts(z, n), "json %.*s", n, z);
  }
}

/* Every code point as an escape, against itself. */
static void cqTestJsonPoints(void){
  u32 c;
  for(c=0; c<0x110000; c++){
    const char *zFmt = c&1 ? "\\u%04x" : "\\u%04X";
    char zRaw[16], zOut[16], z[4];
    int nRaw, n = cqEncode(c, z), bOk;
    CqText raw;
    if( c<0x10000 ){
      nRaw = sprintf(zRaw, zFmt, c);
    }else{
      nRaw = sprintf(zRaw, zFmt, 0xd800 + ((c-0x10000)>>10));
      nRaw += sprintf(&zRaw[nRaw], zFmt, 0xdc00 + (c&0x3ff));
    }
    raw = cqSlice(zRaw, nRaw);
    if( cqSurrogate(c) ){
      bOk = claimqJsonText(raw, zOut)==-1 && claimqJsonText(raw, 0)==-1
         && !claimqJsonEq(raw, cqSlice(z, n));
    }else{
      bOk = claimqJsonText(raw, zOut)==n && !memcmp(zOut, z, (size_t)n)
         && claimqJsonText(raw, 0)==n && claimqJsonEq(raw, cqSlice(z, n));
    }
    if( !bOk || (c&0xff)==0xff ) cqCheck(bOk, "json escape of U+%04X", c);
  }
}

static void cqTestJsonText(void){
  static const struct { const char *zRaw; const char *z; int n; } a[] = {
    { "", "", 0 },                       { "abc", "abc", 3 },
    { "\\\"\\\\\\/", "\"\\/", 3 },       { "\\b\\f\\n\\r\\t", "\b\f\n\r\t", 5 },
    { "a\\u0000b", "a\0b", 3 },           { "a\\u0000c", "a\0c", 3 },
    { "\\u00e9\\u00E9", "\xc3\xa9\xc3\xa9", 4 },
    { "x\\ud83d\\udc4dy", "x\xf0\x9f\x91\x8dy", 6 },
    { "\\ud83d", 0, -1 },                { "\\udc4d", 0, -1 },
    { "\\ud83dx", 0, -1 },               { "\\ud83d\\n", 0, -1 },
    { "\\ud83d\\ud83d", 0, -1 },         { "\\udc4d\\ud83d", 0, -1 },
    { "\\ud83d\\u0041", 0, -1 },         { "\\ud83d\\ue000", 0, -1 },
    { "\\udbff\\udfff", "\xf4\x8f\xbf\xbf", 4 },
    { "\\ud83d\\udc4", 0, -1 },          { "\\q", 0, -1 }, { "\\", 0, -1 },
    { "\\ud83dXudc4d", 0, -1 },          { "\\ud83d\\q", 0, -1 },
    { "\\u12", 0, -1 },                  { "\\u12g4", 0, -1 },
    { "\\u1g23", 0, -1 },                { "\\u123g", 0, -1 },
    { "\\u1/23", 0, -1 },                { "\\u1:23", 0, -1 },
    { "\\u1@23", 0, -1 },                { "\\u1G23", 0, -1 },
    { "\\u1`23", 0, -1 },                { "\\u1AfF", "\xe1\xab\xbf", 3 },
    { "\\ud83d\\udc4d\\ud83dx", 0, -1 }, { "aa\\q", 0, -1 },
    { "\xc3\xa9", "\xc3\xa9", 2 },
  };
  int i, j;
  for(i=0; i<CQ_COUNT(a); i++){
    CqText raw = cqTight(a[i].zRaw, (int)strlen(a[i].zRaw));
    char *zOut = cqAlloc((size_t)raw.n);
    int n = claimqJsonText(raw, zOut);
    cqCheck(n==a[i].n && (n<=0 || !memcmp(zOut, a[i].z, (size_t)n)),
            "text of %s: %d", a[i].zRaw, n);
    cqCheck(claimqJsonText(raw, 0)==n, "measure of %s", a[i].zRaw);
    for(j=0; j<CQ_COUNT(a); j++){
      int bSame = a[i].n>=0 && a[j].n==a[i].n
               && !memcmp(a[i].z, a[j].z, (size_t)a[i].n);
      if( a[j].n<0 ) continue;
      cqCheck(claimqJsonEq(raw, cqSlice(a[j].z, a[j].n))==bSame,
              "%s equals text %d", a[i].zRaw, j);
    }
    free(zOut);
    cqTightFree(raw);
  }
}

/* Nothing after the end is looked at: what is cut off would complete it. */
static void cqTestJsonCut(void){
  static const char *const azDoc[] = {
    "\"\"", "\"a\"", "\"\\u0041\"", "\"\\n\"", "[1,2]", "{\"a\":\"b\"}",
    "true", "null", "-12", "1.5e+3", " [ ] ", "[[],{}]", "{\"a\":{\"b\":[]}}",
    "0.5", "1E5", "[\"a\",\"b\"]"
  };
  static const char zRaw[] = "a\\u0041\\ud83d\\udc4d\\n\\\\";
  static const char aLen[] = {      /* What k bytes of zRaw unescape to */
    0, 1, -1, -1, -1, -1, -1, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 6,
    -1, 7, -1, 8
  };
  char zOut[32];
  int i, k;
  for(i=0; i<CQ_COUNT(azDoc); i++){
    for(k=0; k<=(int)strlen(azDoc[i]); k++){
      cqCheck(cqAcceptsHere(azDoc[i], k)==cqNaiveAccepts(azDoc[i], k),
              "%d bytes of %s", k, azDoc[i]);
    }
  }
  for(k=0; k<CQ_COUNT(aLen); k++){
    cqCheck(claimqJsonText(cqSlice(zRaw, k), zOut)==(signed char)aLen[k],
            "%d bytes of %s", k, zRaw);
  }
}

/* Every byte in every place of a short document. */
static void cqTestJsonBytes(void){
  static const char *const azDoc[] = {
    "1", " 1", "1 ", "11", "[]", "[1]", "[ 1]", "[1 ]", "{}", "\"a\"", "true",
    "{\"a\":1}", "[1,2]", "\"\\n\"", "\"\\u00e9\"", "1.5", "1e5", "-1"
  };
  char z[16];
  int i, j, c;
  for(i=0; i<CQ_COUNT(azDoc); i++){
    int n = (int)strlen(azDoc[i]), bOk = 1;
    for(j=0; j<n; j++) for(c=0; c<256; c++){
      memcpy(z, azDoc[i], (size_t)n);
      z[j] = (char)c;
      if( cqAccepts(z, n)!=cqNaiveAccepts(z, n) ) bOk = 0;
    }
    cqCheck(bOk, "every byte in %s", azDoc[i]);
  }
}

static void cqTestJsonInt(void){
  static const char *const azBad[] = {
    "1.0", "1e2", "1E2", "-1.5", "9223372036854775808", "0.0", "-0.0",
    "-9223372036854775809", "123456789012345678901234567890"
  };
  i64 a[CQ_NINT], v;
  char z[32];
  int n = cqIntegers(a), i;
  for(i=0; i<n; i++){
    sprintf(z, "%lld", a[i]);
    cqCheck(claimqJsonInt(cqStr(z), &v) && v==a[i], "json integer %s", z);
  }
  v = 5;
  cqCheck(claimqJsonInt(cqStr("-0"), &v) && v==0, "json integer -0");
  for(i=0; i<CQ_COUNT(azBad); i++){
    cqCheck(!claimqJsonInt(cqStr(azBad[i]), &v), "json integer %s", azBad[i]);
  }
}
