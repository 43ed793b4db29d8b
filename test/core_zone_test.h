/*
** core_zone_test.h: the part of core_test.c that proves core/zone.c, and what
** core/cron.c makes of a zone.
**
** Known answers are those of Python's zoneinfo (vectors/mkzone.py).  Zones by
** chance are held against clocks that are watched from second to second.  Files
** are cut at every byte, and damaged at every byte.
*/

/* A zoneinfo file under construction. */
typedef struct CqTzif CqTzif;
struct CqTzif {
  u8 a[8000];
  int n;
};

static void cqTzifInt(CqTzif *p, i64 v, int n){
  int i;
  for(i=n-1; i>=0; i--) p->a[p->n++] = (u8)((u64)v>>(8*i));
}

/* Append a header and a block with these moments, each of which begins type
** aType[i], of nType types with the offsets aOffset[]. */
static void cqTzifBlock(
  CqTzif *p, int cVersion, int szMoment, const i64 *aMoment, const u8 *aType,
  int nMoment, const int *aOffset, int nType
){
  int i;
  memcpy(&p->a[p->n], "TZif", 4);
  p->n += 4;
  p->a[p->n++] = (u8)cVersion;
  for(i=0; i<15; i++) p->a[p->n++] = 0;
  cqTzifInt(p, nType, 4);                       /* Flags */
  cqTzifInt(p, nType, 4);
  cqTzifInt(p, 0, 4);                           /* Leap seconds */
  cqTzifInt(p, nMoment, 4);
  cqTzifInt(p, nType, 4);
  cqTzifInt(p, 4, 4);                           /* Names */
  for(i=0; i<nMoment; i++) cqTzifInt(p, aMoment[i], szMoment);
  for(i=0; i<nMoment; i++) p->a[p->n++] = aType[i];
  for(i=0; i<nType; i++){
    cqTzifInt(p, aOffset[i], 4);
    cqTzifInt(p, 0, 2);
  }
  memcpy(&p->a[p->n], "XXX", 4);
  p->n += 4;
  for(i=0; i<2*nType; i++) p->a[p->n++] = 0;
}

/* A whole file, of version 1 if there is no rule. */
static void cqTzifMake(
  CqTzif *p, const i64 *aMoment, const u8 *aType, int nMoment,
  const int *aOffset, int nType, const char *zRule
){
  static const int nZero = 0;
  p->n = 0;
  if( zRule==0 ){
    cqTzifBlock(p, 0, 4, aMoment, aType, nMoment, aOffset, nType);
    return;
  }
  cqTzifBlock(p, '2', 4, 0, 0, 0, &nZero, 1);
  cqTzifBlock(p, '2', 8, aMoment, aType, nMoment, aOffset, nType);
  p->a[p->n++] = '\n';
  memcpy(&p->a[p->n], zRule, strlen(zRule));
  p->n += (int)strlen(zRule);
  p->a[p->n++] = '\n';
}

/* Parse a file in a block of exactly its size, which *pBlock is; the caller
** frees it. */
static int cqTzifParse(const u8 *a, int n, CqZone *pZone, CqText *pBlock){
  *pBlock = cqTight((const char*)a, n);
  return claimqZoneParse((const u8*)pBlock->z, n, pZone);
}

/* 1 if a file with nothing but this rule can be read. */
static int cqZoneRuleOk(const char *zRule){
  static const int nZero = 0;
  CqTzif f;
  CqZone zone;
  CqText block;
  int b;
  cqTzifMake(&f, 0, 0, 0, &nZero, 1, zRule);
  b = cqTzifParse(f.a, f.n, &zone, &block);
  cqTightFree(block);
  return b;
}

/* Spans must meet, and each moment of one gives the same. */
static void cqZoneSpansMeet(const CqZone *p, const char *zWhat, int nMost){
  CqSpan s, t;
  int n = 0, bOk = 1;
  claimqZoneSpan(p, -CQ_ZONE_EVER+1, &s);
  if( !p->bRule || p->nMoment>0 ) bOk = s.iFrom==-CQ_ZONE_EVER;
  while( bOk && n++<nMost && s.iTo<CQ_ZONE_EVER ){
    claimqZoneSpan(p, s.iTo-1, &t);
    bOk = memcmp(&s.iFrom, &t.iFrom, sizeof(i64))==0 && s.iTo==t.iTo
       && s.nOffset==t.nOffset && s.iTo>s.iFrom;
    claimqZoneSpan(p, s.iTo, &t);
    bOk = bOk && t.iFrom==s.iTo;
    s = t;
  }
  cqCheck(bOk, "spans of %s", zWhat);
}

/**************************************************************************
** Known answers
*/

/* The bytes of a file in test/vectors/zoneinfo; their number. */
static int cqZoneFile(const char *zDir, const char *zZone, u8 *a, int n){
  char zPath[2000];
  FILE *pFile;
  snprintf(zPath, sizeof(zPath), "%s/zoneinfo/%s", zDir, zZone);
  pFile = fopen(zPath, "rb");
  if( pFile==0 ) cqFatal("cannot open", zPath);
  n = (int)fread(a, 1, (size_t)n, pFile);
  fclose(pFile);
  return n;
}

/* What a schedule says around a time, as cqCronAgrees(). */
static int cqCronAgreesIn(
  const CqCron *p, const CqZone *pZone, i64 t, i64 iNext, i64 iLast
){
  i64 i = -7;
  if( !claimqCronNextIn(p, pZone, t, &i) || i!=iNext ) return 0;
  if( claimqCronDueIn(p, pZone, t, iNext-1, &i)!=0 ) return 0;
  if( claimqCronDueIn(p, pZone, t, iNext, &i)!=1 || i!=iNext ) return 0;
  if( claimqCronDueIn(p, pZone, iLast-1, t, &i)!=1 || i!=iLast ) return 0;
  if( claimqCronDueIn(p, pZone, iLast, t, &i)!=0 ) return 0;
  /* Of many the last is found in another way. */
  return claimqCronDueIn(p, pZone, t-86400000*(i64)1500*366, t, &i)<1000
      || i==iLast;
}

static void cqTestZoneVectors(const char *zDir){
  static CqTsv tsv;
  static u8 aFile[8000];
  char zSpec[200], zZone[200], zOld[200] = "";
  CqText block = { 0, 0 };
  CqZone zone;
  int nRow = 0, nZone = 0;
  memset(&zone, 0, sizeof(zone));
  cqTsvOpen(&tsv, zDir, "zone.tsv");
  while( cqTsvNext(&tsv) ){
    i64 t = cqCellInt(&tsv, "after_ms", 0);
    i64 iNext = cqCellInt(&tsv, "next_ms", 0);
    i64 iLast = cqCellInt(&tsv, "last_ms", 0), iGot = -1;
    CqSpan s;
    CqCron c;
    cqCell(&tsv, "zone", zZone);
    cqCell(&tsv, "spec", zSpec);
    if( strcmp(zZone, zOld)!=0 ){
      int n = cqZoneFile(zDir, zZone, aFile, sizeof(aFile));
      cqTightFree(block);
      cqCheck(cqTzifParse(aFile, n, &zone, &block), "%s is refused", zZone);
      cqZoneSpansMeet(&zone, zZone, 2000);
      strcpy(zOld, zZone);
      nZone++;
    }
    claimqZoneSpan(&zone, t/1000, &s);
    cqCheck(s.nOffset==cqCellInt(&tsv, "offset_s", 0),
            "%s: offset %d at %lld", zZone, s.nOffset, t);
    c = cqCronOf(zSpec);
    claimqCronNextIn(&c, &zone, t, &iGot);
    cqCheck(cqCronAgreesIn(&c, &zone, t, iNext, iLast),
            "zone.tsv: %s, '%s' after %lld: %lld, not %lld, or the last is not"
            " %lld", zZone, zSpec, t, iGot, iNext, iLast);
    nRow++;
  }
  cqTightFree(block);
  cqCheck(nRow>3000 && nZone>12, "zone.tsv: %d rows, %d zones", nRow, nZone);
}

/**************************************************************************
** Reading
*/

/* Rules that are none, and such as are. */
static void cqTestZoneRules(void){
  static const char *const azGood[] = {
    "", "UTC0", "CET-1", "<+03>-3", "<-0330>+3:30",
    "<+00>0<+02>-2,M3.5.0/1,M10.5.0/3",
    "CET-1CEST,M3.5.0,M10.5.0/3", "EST5EDT,M3.2.0,M11.1.0",
    "IST-1GMT0,M10.5.0,M3.5.0/1", "EET-2EEST,M3.4.4/50,M10.4.4/50",
    "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "AAA24:59:59BBB,J1,J365",
    "AAA+5BBB4:30:15,0/0,365/23:59:59", "XXX3EDT4,0/0,J365/23",
    "AAA0BBB,M1.1.0/-167,M12.5.6/167:59:59", "ABCDEFGHIJ-14:00",
  };
  static const char *const azBad[] = {
    "U0", "UT0", "CET", "CET-", "CET1x", "1", "<+03-3", "<+3>3", "<a b>1",
    "CET25", "CET-1:60", "CET-1:00:60", "CET-1:", "CET-1:00:", "CET-1CEST",
    "CET-1CEST,", "CET-1CEST,M3.5.0", "CET-1CEST,M3.5.0,", "CET-1CE,0,1",
    "CET-1CEST,M3.5.0,M10.5.0/", "CET-1CEST,M3.5.0,M10.5.0/3 ",
    "CET-1CEST,M0.5.0,M10.5.0", "CET-1CEST,M13.5.0,M10.5.0",
    "CET-1CEST,M3.0.0,M10.5.0", "CET-1CEST,M3.6.0,M10.5.0",
    "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,M3.5,M10.5.0",
    "CET-1CEST,M3,M10.5.0", "CET-1CEST,J0,J365", "CET-1CEST,J1,J366",
    "CET-1CEST,0,366", "CET-1CEST,1000,3", "CET-1CEST,0/168,3",
    "CET-1CEST,0/-168,3", "CET-1CEST,0/1:60,3", "CET-1CEST25,0,3",
    "CET-1CEST,0,3,", "CET--1", "CET-+1", "CET+-1", "CET-1CEST;0;3",
    ":Europe/Berlin", "<+03", "<>3", "C3T1", "CET-0001", "CET-1CEST,J0001,J9",
    "CET_-1", "CET-1<CEST,J1,J9", "CET-1CEST,J1J9", "CET-1CEST,M0035.0,M10.5.0",
    "CET-1CEST,M3.0050,M10.5.0", "CET-1,J1,J9",
  };
  int i;
  for(i=0; i<CQ_COUNT(azGood); i++){
    cqCheck(cqZoneRuleOk(azGood[i]), "rule '%s' is refused", azGood[i]);
  }
  for(i=0; i<CQ_COUNT(azBad); i++){
    cqCheck(!cqZoneRuleOk(azBad[i]), "rule '%s' is taken", azBad[i]);
  }
}

/* What a rule says: the offset at a time, and when it ends. */
static void cqTestZoneRuleTimes(void){
  static const struct { const char *z; i64 iAt; int nOffset; i64 iTo; } a[] = {
    { "UTC0", 0, 0, CQ_ZONE_EVER },
    { "<+0545>-5:45", 1, 20700, CQ_ZONE_EVER },
    { "LMT-1:02:03", 1, 3723, CQ_ZONE_EVER },
    { "CET-1CEST,M3.5.0,M10.5.0/3", 1711846799, 3600, 1711846800 },
    { "CET-1CEST,M3.5.0,M10.5.0/3", 1711846800, 7200, 1729990800 },
    { "CET-1CEST,M3.5.0,M10.5.0/3", 1729990800, 3600, 1743296400 },
    /* The week 1, and 4 where there is a fifth; a Saturday. */
    { "AAA0BBB,M2.4.4/0,M2.1.6/0", 0, 3600, 3193200 },
    { "AAA0BBB,M2.4.4/0,M2.1.6/0", 3193200, 0, 4838400 },
    /* The last day of February: the 29th in 2000 and 2024, not in 2023, in
    ** which the Wednesday after is one of March, and not in 2100. */
    { "AAA0BBB,M2.5.2/0,M10.1.0/0", 951782399, 0, 951782400 },
    { "AAA0BBB,M2.5.4/0,M10.1.0/0", 1709164799, 0, 1709164800 },
    { "AAA0BBB,M2.5.3/0,M10.1.0/0", 1677023999, 0, 1677024000 },
    { "AAA0BBB,M2.5.1/0,M10.1.0/0", 4106937599, 0, 4106937600 },
    /* The second Monday of January. */
    { "AAA0BBB,M1.2.1/0,M3.1.1/0", 1704671999, 0, 1704672000 },
    /* 29 February: J60 is 1 March in any year, 59 the day after 28 February. */
    { "AAA0BBB,J60/0,J100/0", 951868799, 0, 951868800 },
    { "AAA0BBB,59/0,J100/0", 951782399, 0, 951782400 },
    { "AAA0BBB,J59/0,J100/0", 951695999, 0, 951696000 },
    { "AAA0BBB,J60/0,J100/0", 983404799, 0, 983404800 },
    { "AAA0BBB,59/0,J100/0", 983404799, 0, 983404800 },
    /* 1 January, 48 hours early: the change is in the year before. */
    { "AAA0BBB,0/-48,J180/0", 946511999, 0, 946512000 },
    { "AAA0BBB,0/-48,J180/0", 946512000, 3600, 962233200 },
    /* 31 December, 100 hours late: in the year after. */
    { "AAA0BBB,J180/0,J365/100", 946954799, 3600, 946954800 },
    /* A week early and a week late, so that a summer ends after the next one
    ** has begun: what comes last counts. */
    { "AAA0BBB,J1/-167,J365/167", 978818400, 0, 1009242000 },
    { "AAA0BBB,J1/-167,J365/167", 977706000, 3600, 978818400 },
    /* Summer time all year: a span for each year, of one offset. */
    { "XXX3EDT4,0/0,J365/23", 946695600, -14400, 978318000 },
    { "XXX3EDT4,0/0,J365/23", 946695599, -14400, 946695600 },
    /* 1900 had no 29 February, 2400 will. */
    { "AAA0BBB,J1/0,J60/0", -2203894801, 3600, -2203894800 },
    { "AAA0BBB,J1/0,59/0", 13574559599, 3600, 13574559600 },
  };
  static const int nZero = 0;
  int i;
  for(i=0; i<CQ_COUNT(a); i++){
    CqTzif f;
    CqZone zone;
    CqText block;
    CqSpan s;
    cqTzifMake(&f, 0, 0, 0, &nZero, 1, a[i].z);
    cqCheck(cqTzifParse(f.a, f.n, &zone, &block), "rule '%s'", a[i].z);
    claimqZoneSpan(&zone, a[i].iAt, &s);
    cqCheck(s.nOffset==a[i].nOffset && s.iTo==a[i].iTo,
            "rule '%s' at %lld: %d until %lld", a[i].z, a[i].iAt, s.nOffset,
            s.iTo);
    cqTightFree(block);
  }
}

/* Tables of both versions: before, between, after; with a rule and without. */
static void cqTestZoneTables(void){
  static const i64 aMoment[] = { -1000, 500000, 2000000000 };
  static const u8 aType[] = { 1, 2, 1 };
  static const int aOffset[] = { -1234, 3600, 7200 };
  static const char *const azRule[] = { 0, "", "CET-1", "CET-2" };
  int i;
  for(i=0; i<CQ_COUNT(azRule); i++){
    static const struct { i64 iAt, iFrom, iTo; int nOffset; } a[] = {
      { -1001, -CQ_ZONE_EVER, -1000, -1234 },
      { -1000, -1000, 500000, 3600 },
      { 499999, -1000, 500000, 3600 },
      { 500000, 500000, 2000000000, 7200 },
      { 1999999999, 500000, 2000000000, 7200 },
      { 2000000000, 2000000000, CQ_ZONE_EVER, 3600 },
      { 9000000000000000LL, 2000000000, CQ_ZONE_EVER, 3600 },
    };
    CqTzif f;
    CqZone zone;
    CqText block;
    int k;
    cqTzifMake(&f, aMoment, aType, 3, aOffset, 3, azRule[i]);
    cqCheck(cqTzifParse(f.a, f.n, &zone, &block), "table %d", i);
    for(k=0; k<CQ_COUNT(a); k++){
      CqSpan s;
      int nOffset = i==3 && k>=5 ? 7200 : a[k].nOffset;
      claimqZoneSpan(&zone, a[k].iAt, &s);
      cqCheck(s.iFrom==a[k].iFrom && s.iTo==a[k].iTo && s.nOffset==nOffset,
              "table %d at %lld: %lld, %lld, %d", i, a[k].iAt, s.iFrom, s.iTo,
              s.nOffset);
    }
    cqTightFree(block);
  }
}

/**************************************************************************
** Damage
*/

/* Spans and times of a zone by chance: they end, and go forward. */
static void cqZoneUse(const CqZone *p, const char *zWhat){
  static const char *const az[] = { "* * * * *", "30 2 * * *", "0 0 29 2 *" };
  int i;
  for(i=0; i<6; i++){
    CqCron c = cqCronOf(az[i%3]);
    i64 t = (i64)(cqRandom(1u<<31)-(1u<<30))*4000, iNext = t, iLast = 0;
    int b = claimqCronNextIn(&c, p, t, &iNext);
    cqCheck(b && iNext>t && claimqCronDueIn(&c, p, t, iNext, &iLast)==1
         && iLast==iNext, "%s: '%s' after %lld: %lld", zWhat, az[i%3], t,
         iNext);
  }
}

/* Cut a file at every byte, and change every byte. */
static void cqZoneDamage(const u8 *aFile, int nFile, const char *zWhat){
  CqText block;
  CqZone zone;
  int i, nCut = 0;
  u8 aCopy[8000];
  for(i=0; i<nFile; i++){
    nCut += cqTzifParse(aFile, i, &zone, &block);
    cqTightFree(block);
  }
  cqCheck(nCut==0, "%s: %d files that were cut are taken", zWhat, nCut);
  memcpy(aCopy, aFile, (size_t)nFile);
  for(i=0; i<nFile; i++){
    static const u8 aNew[] = { 0, 1, 0x7f, 0x80, 0xff, '\n', '9', ',' };
    int k;
    for(k=0; k<=CQ_COUNT(aNew); k++){
      aCopy[i] = k<CQ_COUNT(aNew) ? aNew[k] : (u8)cqRandom(256);
      if( cqTzifParse(aCopy, nFile, &zone, &block) && (i<300 || k%4==0) ){
        cqZoneUse(&zone, zWhat);
      }
      cqTightFree(block);
    }
    aCopy[i] = aFile[i];
  }
}

static void cqTestZoneDamage(void){
  static const i64 aMoment[] = { -1000, 500000, 2000000000 };
  static const u8 aType[] = { 1, 2, 1 };
  static const int aOffset[] = { -1234, 3600, 7200 };
  CqTzif f;
  CqText block;
  CqZone zone;
  int i;
  cqTzifMake(&f, aMoment, aType, 3, aOffset, 3, 0);
  cqZoneDamage(f.a, f.n, "version 1");
  cqTzifMake(&f, aMoment, aType, 3, aOffset, 3, "");
  cqZoneDamage(f.a, f.n, "version 2 without a rule");
  cqTzifMake(&f, aMoment, aType, 3, aOffset, 3, "CET-1CEST,M3.5.0,M10.5.0/3");
  cqZoneDamage(f.a, f.n, "version 2");
  /* What is only wrong in one point. */
  for(i=0; i<11; i++){
    static const i64 aFar[] = { -((i64)1<<60), 0, 1 };
    static const i64 aLate[] = { 0, 1, (i64)1<<60 };
    static const i64 aBack[] = { 5, 5, 6 };
    static const u8 aWrong[] = { 1, 3, 1 };
    static const int aWest[] = { -90000, 0, 0 }, aEast[] = { 0, 0, 93600 };
    cqTzifMake(&f, i==0 ? aFar : i==1 ? aBack : i==9 ? aLate : aMoment,
               i==2 ? aWrong : aType, 3,
               i==3 ? aWest : i==4 ? aEast : aOffset, 3, "");
    if( i==5 ) f.a[4] = '1';
    if( i==6 ) f.a[f.n-2] = ' ';                /* No line feed, or one */
    if( i==7 ) f.n--;
    if( i==8 ) f.n = 0;
    if( i==10 ) f.a[0] = 't';
    cqCheck(!cqTzifParse(f.a, f.n, &zone, &block), "damage %d is taken", i);
    cqTightFree(block);
  }
}

/* A file may have CQ_ZONE_MAX bytes, and not one more. */
static void cqTestZoneSize(void){
  static u8 a[CQ_ZONE_MAX+1];
  static const int nZero = 0;
  CqTzif f;
  CqZone zone;
  f.n = 0;
  cqTzifBlock(&f, 0, 4, 0, 0, 0, &nZero, 1);
  memcpy(a, f.a, (size_t)f.n);
  cqCheck(claimqZoneParse(a, CQ_ZONE_MAX, &zone), "the largest file");
  cqCheck(!claimqZoneParse(a, CQ_ZONE_MAX+1, &zone), "a larger one");
}

/* Blocks that are not all there, where what was read before would do. */
static void cqTestZoneCut(void){
  static const int nZero = 0;
  CqTzif f;
  CqText whole, cut;
  CqZone zone;
  f.n = 0;
  cqTzifBlock(&f, 0, 4, 0, 0, 0, &nZero, 1);
  cqCheck(cqTzifParse(f.a, f.n, &zone, &whole), "a block");
  cqCheck(!cqTzifParse(f.a, f.n-1, &zone, &cut), "a block that is cut");
  cqTightFree(whole);
  cqTightFree(cut);
  f.a[4] = '2';
  f.a[f.n++] = '\n';
  f.a[f.n++] = '\n';
  cqCheck(!cqTzifParse(f.a, f.n, &zone, &cut), "no second block");
  cqTightFree(cut);
}

/* No table without a type, and none with leap seconds. */
static void cqTestZoneLeap(void){
  static const int nZero = 0;
  CqTzif f;
  CqText block;
  CqZone zone;
  f.n = 0;
  cqTzifBlock(&f, 0, 4, 0, 0, 0, &nZero, 0);
  cqCheck(!cqTzifParse(f.a, f.n, &zone, &block), "no type");
  cqTightFree(block);
  f.n = 0;
  cqTzifBlock(&f, 0, 4, 0, 0, 0, &nZero, 1);
  cqCheck(cqTzifParse(f.a, f.n, &zone, &block), "one type");
  cqTightFree(block);
  f.a[31] = 1;
  memset(&f.a[f.n], 0, 8);
  f.n += 8;
  cqCheck(!cqTzifParse(f.a, f.n, &zone, &block), "leap seconds");
  cqTightFree(block);
}

/**************************************************************************
** Clocks that are watched from second to second
*/
#define CQ_WATCH_N (4*86400)

/* Is the schedule due when clocks show the second iLocal? */
static int cqZoneShows(const CqCron *p, i64 iLocal){
  int m = (int)(iLocal/60%1440);
  return iLocal%60==0 && (p->aMask[1]>>(m/60) & 1) && (p->aMask[0]>>(m%60) & 1)
      && cqCalDue(p, (int)(iLocal/86400-CQ_CAL_FIRST));
}

/* The last time up to t, among more than are counted. */
static i64 cqZoneLastOf(const CqCron *p, const CqZone *pZone, i64 t){
  i64 iLast = -1;
  claimqCronDueIn(p, pZone, t-(i64)86400000*1500, t, &iLast);
  return iLast;
}

/* A schedule in a zone whose clocks are changed a few times within four days,
** against all moments of these at which it is due.  bMany: they are put forth
** and back every ten minutes. */
static void cqTestZoneOne(const char *zSpec, int bMany){
  static u8 abDue[CQ_WATCH_N];
  static const i64 iStart = 1711756800;         /* 2024-03-30 */
  i64 aMoment[60], iShown, t, iLast = 0;
  int aOffset[61], n = bMany ? 60 : 1+(int)cqRandom(6), i, nWrong = 0;
  u8 aType[60];
  CqCron c = cqCronOf(zSpec);
  CqTzif f;
  CqText block;
  CqZone zone;
  int iZone = 0, bFirst = 1;
  t = iStart + 3600;
  for(i=0; i<n; i++){
    t += 1 + (cqRandom(4) ? 1800*(1+(i64)cqRandom(30)) : (i64)cqRandom(9000));
    if( bMany ) t = iStart + 80000 + i*600;
    aMoment[i] = t;
    aType[i] = (u8)(i+1);
  }
  for(i=0; i<=n; i++){
    aOffset[i] = bMany ? i%2*1800 : cqRandom(4) ? ((int)cqRandom(9)-4)*1800
                             : (int)cqRandom(100000)-50000;
  }
  cqTzifMake(&f, aMoment, aType, n, aOffset, n+1, cqRandom(2) ? 0 : "");
  cqCheck(cqTzifParse(f.a, f.n, &zone, &block), "a zone by chance");
  iShown = iStart + aOffset[0];
  for(i=0; i<CQ_WATCH_N; i++){
    i64 iLocal, k;
    while( iZone<n && aMoment[iZone]<=iStart+i ) iZone++;
    iLocal = iStart + i + aOffset[iZone];
    /* Due now: what was skipped, and this second if it is not shown again. */
    abDue[i] = (u8)(c.bBoth && iLocal<iShown && cqZoneShows(&c, iLocal));
    for(k=iShown; k<=iLocal; k++) abDue[i] |= (u8)cqZoneShows(&c, k);
    if( iLocal+1>iShown ) iShown = iLocal+1;
  }
  /* All times, one after the other. */
  t = iStart*1000;
  for(i=1; i<CQ_WATCH_N && nWrong==0; i++){
    i64 iNext = -1;
    if( !abDue[i] ) continue;
    if( !claimqCronNextIn(&c, &zone, t, &iNext)
     || iNext!=(iStart+i)*1000
     || claimqCronDueIn(&c, &zone, t, iNext, &iLast)!=1 || iLast!=iNext
     || (i%7==0 && (cqZoneLastOf(&c, &zone, iNext)!=iNext
           || (bFirst==0 && cqZoneLastOf(&c, &zone, iNext-1)!=t)))
    ){
      nWrong = i;
    }
    t = iNext;
    bFirst = 0;
  }
  cqCheck(nWrong==0, "zone by chance: '%s' is wrong at second %d", zSpec,
          nWrong);
  cqTightFree(block);
}

static void cqTestZoneWatch(void){
  static const char *const az[] = {
    "* * * * *", "30 2 * * *", "30 * * * *", "*/20 1-3 * * *", "7 */2 * * *",
    "0 0 * * *", "15,45 22-3 * * *", "0 12 31 * *", "59 23 * * 0",
  };
  char z[200];
  int i;
  cqCalFill();
  for(i=0; i<27; i++) cqTestZoneOne(az[i%CQ_COUNT(az)], i>=18);
  for(i=0; i<60; i++){
    do cqCronRandom(z); while( strstr(z, "*/") && cqRandom(2) );
    cqTestZoneOne(z, 0);
  }
}

/* The ends of time, far years, and what never comes. */
static void cqTestZoneEdges(void){
  static const i64 iTop = 9223372036854720000LL;
  static const i64 nCycle = 146097*(i64)86400000;
  static const int nZero = 0;
  CqTzif f;
  CqText block;
  CqZone zone;
  CqCron c = cqCronOf("* * * * *");
  i64 i = 0, iNear = 0, k;
  cqTzifMake(&f, 0, 0, 0, &nZero, 1, "CET-1CEST,M3.5.0,M10.5.0/3");
  cqCheck(cqTzifParse(f.a, f.n, &zone, &block), "the edges");
  cqCheck(claimqCronNextIn(&c, &zone, iTop-1, &i) && i==iTop, "last minute");
  cqCheck(!claimqCronNextIn(&c, &zone, iTop, &i), "after the last minute");
  cqCheck(!claimqCronNextIn(&c, &zone, CQ_I64_MAX, &i), "after the end");
  cqCheck(claimqCronNextIn(&c, &zone, CQ_I64_MIN, &i) && i==-iTop, "first");
  cqCheck(claimqCronDueIn(&c, &zone, CQ_I64_MIN, CQ_I64_MAX, &i)==CQ_CRON_MANY
       && i==iTop, "all minutes");
  cqCheck(claimqCronDueIn(&c, &zone, 0, 0, &i)==0
       && claimqCronDueIn(&c, &zone, 60000, 0, &i)==0, "backwards");
  c = cqCronOf("30 2 * 3 *");
  claimqCronNextIn(&c, &zone, 1711839600000, &iNear);
  cqCheck(iNear==1711846800000, "the gap of 2024: %lld", iNear);
  for(k=-1000; k<=1000; k+=125){
    cqCheck(claimqCronNextIn(&c, &zone, 1711839600000+k*nCycle, &i)
         && i==iNear+k*nCycle, "%lld cycles on", k);
  }
  c = cqCronOf("0 0 30 2 *");
  cqCheck(!claimqCronNextIn(&c, &zone, 0, &i)
       && !claimqCronNextIn(&c, &zone, iNear, &i)       /* Just after a gap */
       && claimqCronDueIn(&c, &zone, 0, CQ_I64_MAX, &i)==0, "30 February");
  c = cqCronOf("every 90 s");
  cqCheck(claimqCronNextIn(&c, &zone, 100000, &i) && i==180000
       && claimqCronDueIn(&c, &zone, 0, 900000, &i)==10 && i==900000,
       "a period knows no zone");
  cqTightFree(block);
}

/* Whether hours that come twice count twice: `*`, or a step. */
static void cqTestZoneBoth(void){
  static const struct { const char *z; int bBoth; } a[] = {
    { "0 * * * *", 1 }, { "0 */2 * * *", 1 }, { "0 1-5/2 * * *", 1 },
    { "0 5/6 * * *", 1 }, { "0 1,*/3 * * *", 1 }, { "0 *,1 * * *", 1 },
    { "0 0-23 * * *", 0 }, { "* 2 * * *", 0 }, { "*/5 1,2,3 */2 * *", 0 },
    { "@hourly", 1 }, { "@daily", 0 },
  };
  int i;
  for(i=0; i<CQ_COUNT(a); i++){
    cqCheck(cqCronOf(a[i].z).bBoth==a[i].bBoth, "'%s': both hours", a[i].z);
  }
}
