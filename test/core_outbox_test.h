/*
** core_outbox_test.h: the part of core_test.c that proves core_outbox.c and
** core_caps.c.
**
** Names are tried byte by byte against lists of what is allowed.  Progress is
** tried for every verb over all small deliveries, whole ones and such as a
** corrupted row may claim, against the table of core_outbox.c read another
** way: by walking along the messages.
*/

/* Names of one, two and three characters, the third from a choice. */
static void cqTestNames(void){
  static const char zAlnum[] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  static const char zThird[] = "0a.-/ ";
  char z[3];
  int i, j, k;
  for(i=0; i<256; i++) for(j=-1; j<256; j++) for(k=-1; k<6; k++){
    int n = j<0 ? 1 : k<0 ? 2 : 3, m, bName, bType = 1;
    CqText x;
    if( j<0 && k>=0 ) break;
    z[0] = (char)i;
    z[1] = (char)j;
    z[2] = k<0 ? 0 : zThird[k];
    x = cqSlice(z, n);
    bName = z[0] && strchr(zAlnum, z[0]) && z[n-1] && strchr(zAlnum, z[n-1]);
    for(m=0; m<n; m++){
      int c = (u8)z[m];
      if( c==0 || (!strchr(zAlnum, c) && !strchr("._-", c)) ) bName = 0;
      if( c<32 || c>126 ) bType = 0;
    }
    if( claimqQueueNameOk(x)!=bName || claimqPayloadTypeOk(x)!=bType ){
      cqCheck(0, "names: bytes %d %d %d", i, j, k);
    }
  }
  cqCheck(1, "names");
}

static void cqTestNameLengths(void){
  char *z = cqAlloc(1025);
  int n;
  memset(z, 'a', 1025);
  for(n=0; n<=1025; n++){
    int bOk = n>=1 && n<=1024;
    cqCheck(claimqQueueNameOk(cqSlice(z, n))==bOk, "queue name of %d", n);
    cqCheck(claimqPayloadTypeOk(cqSlice(z, n))==bOk, "payload type of %d", n);
  }
  free(z);
}

/* The sum's first 16 hex digits, modulo n, by long division. */
static void cqTestKeyPartition(void){
  char zKey[12], c;
  int i, j, n;
  for(i=0; i<40; i++){
    const char *zSum;
    int nKey = sprintf(zKey, "key-%d", i*i*i);
    zSum = cqSum(zKey, (size_t)nKey);
    for(n=1; n<=1024; n+=1+n/7){
      int iRest = 0;
      for(j=0; j<16; j++){
        c = zSum[j];
        iRest = (iRest*16 + (c<='9' ? c-'0' : c-'a'+10)) % n;
      }
      cqCheck(claimqKeyPartition(cqSlice(zKey, nKey), n)==iRest,
              "partition of %s among %d", zKey, n);
    }
  }
}

/* Over edge values: the order is strict and total. */
static void cqTestWaits(void){
  static const i64 aVal[] = { CQ_I64_MIN, -1, 0, 1, CQ_I64_MAX };
  CqWaiting a[25];
  int i, j;
  for(i=0; i<25; i++){
    a[i].iSince = aVal[i/5];
    a[i].iPartition = aVal[i%5];
  }
  for(i=0; i<25; i++) for(j=0; j<25; j++){
    cqCheck(claimqWaitsLonger(&a[i], &a[j])==(i<j), "waiting %d, %d", i, j);
  }
}

/* The number of the k-th message of a delivery; all of them is all of them. */
static i64 cqMessage(const CqDelivery *p, i64 k){
  i64 i = p->iCursor;
  if( k>0 && k==p->nMsg ) return p->iLast;
  for(; k>0 && i<p->iLast; k--) i++;
  return i;
}

/* By the table of core_outbox.c.  pN is 0 if processed was not given. */
static void cqNaiveProgress(
  const CqDelivery *p, int eVerb, const i64 *pN, CqProgress *pOut
){
  i64 n = pN && *pN>0 ? *pN : 0;
  int bBack;                      /* Given back: nothing was done */
  if( pN==0 && eVerb==CQ_PROGRESS_COMPLETE ) n = p->nMsg;
  if( eVerb==CQ_PROGRESS_RELEASE ) n = 0;
  while( n>p->nMsg ) n = n>p->nMsg+9 ? p->nMsg+9 : n-1;
  bBack = n==0
       && (eVerb==CQ_PROGRESS_RELEASE || eVerb==CQ_PROGRESS_COMPLETE);
  pOut->nDone = n;
  pOut->iDone = cqMessage(p, n);
  pOut->iCursor = eVerb==CQ_PROGRESS_REJECT ? p->iLast : pOut->iDone;
  pOut->nAttempt = pOut->iCursor!=p->iCursor ? 0
                 : bBack && p->nAttempt>0 ? p->nAttempt-1 : p->nAttempt;
  pOut->eError = eVerb==CQ_PROGRESS_RETRY ? CQ_ERROR_REASON
               : bBack ? CQ_ERROR_KEEP : CQ_ERROR_CLEAR;
}

static void cqTestProgressOne(const CqDelivery *p, int eVerb, const i64 *pN){
  CqProgress a, b;
  claimqProgress(p, eVerb, pN, &a);
  cqNaiveProgress(p, eVerb, pN, &b);
  cqCheck(a.nDone==b.nDone && a.iDone==b.iDone && a.iCursor==b.iCursor
       && a.nAttempt==b.nAttempt && a.eError==b.eError
       && a.iCursor>=p->iCursor && a.iCursor<=p->iLast,
      "progress: verb %d, processed %lld, cursor %lld, %lld to %lld, "
      "attempt %lld", eVerb, pN ? *pN : -99, p->iCursor, p->nMsg, p->iLast,
      p->nAttempt);
}

/* nOdd: so much further on, or nearer, than the messages need is the last. */
static void cqTestProgress(void){
  static const i64 aCursor[] = { 0, 4, CQ_I64_MAX-3, CQ_I64_MAX };
  static const i64 aN[] = {
    -1, 0, 1, 2, 3, 4, 5, CQ_I64_MAX, CQ_I64_MIN
  };
  CqDelivery d;
  int i, iN, iVerb, nOdd;
  for(i=0; i<CQ_COUNT(aCursor); i++) for(d.nMsg=0; d.nMsg<=4; d.nMsg++){
    for(nOdd=-2; nOdd<=2; nOdd++) for(d.nAttempt=0; d.nAttempt<3; d.nAttempt++){
      d.iCursor = aCursor[i];
      if( nOdd<0 && d.nMsg+nOdd<0 ) continue;
      d.iLast = claimqAddSat(d.iCursor, d.nMsg+nOdd);
      for(iVerb=0; iVerb<4; iVerb++){
        cqTestProgressOne(&d, iVerb, 0);
        for(iN=0; iN<CQ_COUNT(aN); iN++) cqTestProgressOne(&d, iVerb, &aN[iN]);
      }
    }
  }
}

/**************************************************************************
** core_caps.c
*/

/* The set of the bits, sorted by bytes and written in the one way. */
static CqText cqCapsPlain(int mSet, char *z){
  static const struct { int iBit; const char *z; } a[] = {
    { 2, "\"A\"" }, { 0, "\"a\"" }, { 4, "\"a\\u0000\"" }, { 3, "\"ab\"" },
    { 1, "\"b\"" }, { 5, "\"\xc3\xa9\"" }
  };
  int n = 0, i;
  z[n++] = '[';
  for(i=0; i<CQ_COUNT(a); i++){
    if( (mSet>>a[i].iBit & 1)==0 ) continue;
    n += sprintf(&z[n], "%s%s", n>1 ? "," : "", a[i].z);
  }
  z[n++] = ']';
  return cqSlice(z, n);
}

static int cqBits(int m){
  int n = 0;
  for(; m; m>>=1) n += m&1;
  return n;
}

/* Every pair of sets, in every spelling: taken apart, joined, compared. */
static void cqTestCapsSets(void){
  CqText aItem[12];
  char z1[200], z2[200], zText[200], zOut[600];
  int i, j, k;
  for(i=0; i<64; i++) for(k=0; k<3; k++){
    CqText have = k==2 ? cqCapsPlain(i, z1) : cqCapsList(i, k, z1);
    int n = claimqCapsSplit(have, aItem, zText);
    CqText plain = cqCapsPlain(i, z2);
    int nOut = claimqCapsJoin(aItem, n, zOut);
    cqCheck(n==cqBits(i), "%.*s: %d elements", have.n, have.z, n);
    cqCheck(nOut==plain.n && !memcmp(zOut, plain.z, (size_t)nOut),
            "%.*s is joined as %.*s", have.n, have.z, nOut, zOut);
    for(j=0; j<128; j++){
      CqText need = cqCapsList(j>>1, j&1, z2);
      cqCheck(claimqCapsMeet(need, aItem, n)==((j>>1 & ~i)==0),
              "%.*s meets %.*s", have.n, have.z, need.n, need.z);
    }
  }
}

/* Long lists come out sorted, too: numbers of all lengths, shuffled. */
static void cqTestCapsLong(void){
  static CqText aItem[400];
  static char zIn[4000], zText[4000];
  int n, i, k;
  for(n=0; n<=400; n+=1+n/9) for(k=0; k<2; k++){
    int nIn = 0, nOut, bOk = 1;
    zIn[nIn++] = '[';
    for(i=0; i<n; i++){
      nIn += sprintf(&zIn[nIn], "%s\"%d\"", i ? "," : "",
                     k ? n-i : (i*1237+11)%(n+7));
    }
    zIn[nIn++] = ']';
    nOut = claimqCapsSplit(cqSlice(zIn, nIn), aItem, zText);
    for(i=1; i<nOut; i++){
      char zA[12], zB[12];
      sprintf(zA, "%.*s", aItem[i-1].n, aItem[i-1].z);
      sprintf(zB, "%.*s", aItem[i].n, aItem[i].z);
      if( strcmp(zA, zB)>=0 ) bOk = 0;
    }
    cqCheck(bOk && (k==0 || nOut==n), "%d capabilities, sorted", n);
    cqCheck(claimqCapsMeet(cqSlice(zIn, nIn), aItem, nOut), "%d of them", n);
  }
}

/* What a row may hold that somebody wrote by hand: satisfied by nobody. */
static void cqTestCapsBad(void){
  static const char *const az[] = {
    "", "x", "[", "[\"a\"", "[\"a\",", "{}", "\"a\"", "null", "[1]", "[null]",
    "[[]]", "[\"a\"]]", "[\"a\"] x", "[\"a\",1]", "[\"\"]", "[\"c\"]",
    "[\"\\u0063\"]", "{\"a\":\"b\"}", "[\"\\ud800\"]"
  };
  CqText a[2];
  char z[8];
  int i;
  a[0] = cqStr("a");
  a[1] = cqStr("b");
  for(i=0; i<CQ_COUNT(az); i++){
    CqText x = cqTight(az[i], (int)strlen(az[i]));
    cqCheck(claimqCapsMeet(x, a, 2)==0, "capabilities %s are met", az[i]);
    cqTightFree(x);
  }
  cqCheck(claimqCapsMeet(cqSlice(0, 0), a, 2)==0, "no list is met");
  cqCheck(claimqCapsMeet(cqStr("[]"), a, 0)==1, "an empty list is not met");
  cqCheck(claimqJsonWrite(cqSlice("x", 0), z)==&z[2] && !memcmp(z, "\"\"", 2),
          "an empty text as JSON");
  for(i=0; i<256; i++){
    char c = (char)i, zBack[8];
    int n = (int)(claimqJsonWrite(cqSlice(&c, 1), z)-z);
    int nBack = n>2 ? claimqJsonText(cqSlice(&z[1], n-2), zBack) : -1;
    cqCheck(z[0]=='"' && z[n-1]=='"' && nBack==1 && zBack[0]==c
         && n==(i<32 ? 8 : i=='"' || i=='\\' ? 4 : 3), "byte %d as JSON", i);
  }
}
