/*
** core_outbox_test.h: the part of core_test.c that proves core/outbox.c and
** core/caps.c.
**
** Names are tried byte by byte against lists of what is allowed.  Progress is
** tried for every verb over all small deliveries, with all gaps between their
** messages and as a corrupted row may claim them, against the table of
** core/outbox.c read another way: by walking along the messages.
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

/* Half as many for each attempt, one by one. */
static void cqTestDegrade(void){
  static const i64 aMax[] = {
    0, 1, 2, 3, 4, 5, 7, 8, 100, 1000000, CQ_I64_MAX-1, CQ_I64_MAX
  };
  static const i64 aAttempt[] = { CQ_I64_MIN, -1, 64, 70, CQ_I64_MAX };
  int i, j;
  for(i=0; i<CQ_COUNT(aMax); i++){
    i64 n = aMax[i];
    for(j=0; j<=70; j++){
      cqCheck(claimqDegrade(aMax[i], j)==n, "%lld after %d attempts", aMax[i],
              j);
      n = n>1 ? n/2 : n;
    }
    for(j=0; j<CQ_COUNT(aAttempt); j++){
      cqCheck(claimqDegrade(aMax[i], aAttempt[j])
              ==(aAttempt[j]<0 ? aMax[i] : aMax[i]>0),
              "%lld after %lld attempts", aMax[i], aAttempt[j]);
    }
  }
}

/*
** A delivery, its messages one by one.  The k-th message is cursor+k, unless
** gaps (bit k-1 of mGap: a gap before message k) move it.
*/
#define CQ_NMSG 4
static void cqMessages(CqDelivery *p, int mGap, i64 aSeq[CQ_NMSG]){
  i64 iSeq = p->iCursor;
  int i;
  for(i=0; i<p->nMsg; i++){
    iSeq += 1 + (mGap>>i & 1)*10;
    aSeq[i] = iSeq;
  }
  p->iLast = iSeq;
}

/* What may be given as processed, by walking along the messages. */
static void cqTestProcessed(void){
  static const i64 aN[] = { CQ_I64_MIN, -1, 0, 1, 2, 3, 4, 5, CQ_I64_MAX };
  CqDelivery d;
  int iVerb, i;
  memset(&d, 0, sizeof(d));
  for(d.nMsg=0; d.nMsg<=CQ_NMSG; d.nMsg++) for(iVerb=0; iVerb<4; iVerb++){
    cqCheck(claimqProcessed(&d, iVerb, 0)
            ==(iVerb==CQ_PROGRESS_COMPLETE ? d.nMsg : 0),
            "verb %d of %lld, processed not given", iVerb, d.nMsg);
    for(i=0; i<CQ_COUNT(aN); i++){
      i64 k, nWant = -1;
      for(k=0; k<=d.nMsg; k++) if( k==aN[i] ) nWant = k;
      if( iVerb==CQ_PROGRESS_RELEASE ) nWant = 0;
      cqCheck(claimqProcessed(&d, iVerb, &aN[i])==nWant,
              "verb %d of %lld, processed %lld", iVerb, d.nMsg, aN[i]);
    }
  }
}

/* The last that is done: among the messages as they were delivered. */
static void cqTestDoneSeq(void){
  CqDelivery d;
  i64 aSeq[CQ_NMSG], n;
  int mGap;
  memset(&d, 0, sizeof(d));
  for(d.iCursor=0; d.iCursor<3; d.iCursor++){
    for(d.nMsg=0; d.nMsg<=CQ_NMSG; d.nMsg++){
      for(mGap=0; mGap<1<<d.nMsg; mGap++){
        cqMessages(&d, mGap, aSeq);
        for(n=0; n<=d.nMsg; n++){
          i64 iWant = n==0 ? d.iCursor : aSeq[n-1];
          if( mGap && n>0 && n<d.nMsg ) iWant = -1;
          cqCheck(claimqDoneSeq(&d, n)==iWant,
                  "%lld of %lld from %lld, gaps %d", n, d.nMsg, d.iCursor,
                  mGap);
        }
      }
    }
  }
}

/* What a corrupted row may say: the number stays between cursor and last. */
static void cqTestDoneBad(void){
  static const i64 aCursor[] = { 0, 4, CQ_I64_MAX-3, CQ_I64_MAX };
  CqDelivery d;
  i64 n, nOdd;
  int i;
  memset(&d, 0, sizeof(d));
  for(i=0; i<CQ_COUNT(aCursor); i++) for(d.nMsg=0; d.nMsg<=4; d.nMsg++){
    for(nOdd=0; nOdd<=6; nOdd++) for(n=0; n<=d.nMsg; n++){
      i64 iDone;
      d.iCursor = aCursor[i];
      d.iLast = claimqAddSat(d.iCursor, nOdd);
      iDone = claimqDoneSeq(&d, n);
      cqCheck(iDone==-1 || (iDone>=d.iCursor && iDone<=d.iLast),
              "%lld of %lld from %lld to %lld: %lld", n, d.nMsg, d.iCursor,
              d.iLast, iDone);
    }
  }
}

/* By the table of core/outbox.c. */
static void cqNaiveProgress(
  const CqDelivery *p, int eVerb, i64 n, i64 iDone, CqProgress *pOut
){
  int bBack = n==0         /* Given back: nothing was done */
       && (eVerb==CQ_PROGRESS_RELEASE || eVerb==CQ_PROGRESS_COMPLETE);
  pOut->nDone = n;
  pOut->iDone = iDone;
  pOut->iCursor = eVerb==CQ_PROGRESS_REJECT ? p->iLast : iDone;
  pOut->nAttempt = pOut->iCursor!=p->iCursor ? 0
                 : bBack && p->nAttempt>0 ? p->nAttempt-1 : p->nAttempt;
  pOut->eError = eVerb==CQ_PROGRESS_RETRY ? CQ_ERROR_REASON
               : bBack ? CQ_ERROR_KEEP : CQ_ERROR_CLEAR;
}

/* Every verb, all small deliveries with all gaps, every number processed. */
static void cqTestProgress(void){
  CqDelivery d;
  CqProgress a, b;
  i64 aSeq[CQ_NMSG], n;
  int iVerb, mGap;
  for(d.nMsg=0; d.nMsg<=CQ_NMSG; d.nMsg++) for(mGap=0; mGap<1<<d.nMsg; mGap++){
    for(d.nAttempt=-1; d.nAttempt<3; d.nAttempt++) for(n=0; n<=d.nMsg; n++){
      d.iCursor = 4;
      cqMessages(&d, mGap, aSeq);
      for(iVerb=0; iVerb<4; iVerb++){
        i64 iDone;
        if( iVerb==CQ_PROGRESS_RELEASE && n>0 ) continue;
        iDone = n==0 ? d.iCursor : aSeq[n-1];
        claimqProgress(&d, iVerb, n, iDone, &a);
        cqNaiveProgress(&d, iVerb, n, iDone, &b);
        cqCheck(a.nDone==b.nDone && a.iDone==b.iDone && a.iCursor==b.iCursor
             && a.nAttempt==b.nAttempt && a.eError==b.eError
             && a.iCursor>=d.iCursor && a.iCursor<=d.iLast,
            "progress: verb %d, processed %lld of %lld, gaps %d, attempt %lld",
            iVerb, n, d.nMsg, mGap, d.nAttempt);
      }
    }
  }
}

/**************************************************************************
** core/caps.c
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

/* What the n offered capabilities lack of need is the set m. */
static void cqCapsMissing(CqText need, const CqText *aItem, int n, int m){
  CqText aLack[24];
  char zLack[202], zText[200], zPlain[200], zOut[600];
  CqText plain = cqCapsPlain(m, zPlain);
  int nLack = claimqCapsMissing(need, aItem, n, zLack);
  int nOut = claimqCapsJoin(aLack,
      claimqCapsSplit(cqSlice(zLack, nLack), aLack, zText), zOut);
  cqCheck(nOut==plain.n && !memcmp(zOut, plain.z, (size_t)nOut),
          "%.*s lacks %.*s", need.n, need.z, nLack, zLack);
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
      cqCapsMissing(need, aItem, n, j>>1 & ~i);
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

/* What a row may hold that somebody wrote by hand: satisfied by nobody.  Where
** there are texts and then the end of a list, something is lacking. */
static void cqTestCapsBad(void){
  static const struct { const char *z; int bLack; } aBad[] = {
    { "", 0 },           { "x", 0 },            { "[", 0 },
    { "[\"a\"", 0 },     { "[\"a\",", 0 },      { "{}", 0 },
    { "\"a\"", 0 },      { "null", 0 },         { "[1]", 0 },
    { "[null]", 0 },     { "[[]]", 0 },         { "[\"a\"]]", 1 },
    { "[\"a\"] x", 1 },  { "[\"a\",1]", 0 },    { "[\"\"]", 1 },
    { "[\"c\"]", 1 },    { "[\"\\u0063\"]", 1 }, { "{\"a\":\"b\"}", 0 },
    { "[\"\\ud800\"]", 1 },
  };
  CqText a[2];
  char z[8], zLack[40];
  int i;
  a[0] = cqStr("a");
  a[1] = cqStr("b");
  for(i=0; i<CQ_COUNT(aBad); i++){
    CqText x = cqTight(aBad[i].z, (int)strlen(aBad[i].z));
    cqCheck(claimqCapsMeet(x, a, 2)==0, "capabilities %s are met", aBad[i].z);
    cqCheck((claimqCapsMissing(x, a, 2, zLack)>0)==aBad[i].bLack,
            "what %s lacks", aBad[i].z);
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
