/*
** core_cron_test.h: the part of core_test.c that proves core/cron.c.
**
** Known answers are those of croniter (vectors/mkcron.py).  Every range of
** every field with every step is held against a set that is made by walking.
** Schedules by chance are held against a calendar that is made by going from
** day to day, from 1880 to 2130, and against itself 400 years and more away.
*/

/* Parse what must be right. */
static CqCron cqCronOf(const char *z){
  CqText x = cqTight(z, (int)strlen(z));
  CqCronFault f;
  CqCron c;
  int e = claimqCronParse(x, &c, &f);
  cqCheck(e==CQ_CRON_OK, "schedule '%s' is refused: %d", z, e);
  cqTightFree(x);
  return c;
}

/* The first time after t, or -1. */
static i64 cqCronNextOf(const char *z, int nOffset, i64 t){
  CqCron c = cqCronOf(z);
  i64 i = -7;
  return claimqCronNext(&c, nOffset, t, &i) ? i : -1;
}

/* What a schedule says around a time must agree with itself: next is the first
** after it, last the last up to it, and nothing lies between them. */
static int cqCronAgrees(
  const CqCron *p, int nOffset, i64 t, int bNext, i64 iNext, int bLast,
  i64 iLast
){
  i64 i = -7;
  if( claimqCronNext(p, nOffset, t, &i)!=bNext ) return 0;
  if( bNext && i!=iNext ) return 0;
  if( bNext && claimqCronDue(p, nOffset, t, iNext-1, &i)!=0 ) return 0;
  if( bNext && (claimqCronDue(p, nOffset, t, iNext, &i)!=1 || i!=iNext) ){
    return 0;
  }
  if( !bLast ) return claimqCronDue(p, nOffset, CQ_I64_MIN, t, &i)==0;
  if( claimqCronDue(p, nOffset, iLast-1, t, &i)!=1 || i!=iLast ) return 0;
  return claimqCronDue(p, nOffset, iLast, t, &i)==0;
}

/**************************************************************************
** Known answers
*/
static void cqTestCronVectors(const char *zDir){
  static CqTsv tsv;
  char zSpec[2000];
  int nRow = 0, nNever = 0;
  cqTsvOpen(&tsv, zDir, "cron.tsv");
  while( cqTsvNext(&tsv) ){
    int bNoNext, bNoLast;
    i64 t = cqCellInt(&tsv, "after_ms", 0);
    int nOffset = (int)cqCellInt(&tsv, "offset_minutes", 0);
    i64 iNext = cqCellInt(&tsv, "next_ms", &bNoNext);
    i64 iLast = cqCellInt(&tsv, "last_ms", &bNoLast);
    CqCron c;
    cqCell(&tsv, "spec", zSpec);
    c = cqCronOf(zSpec);
    cqCheck(cqCronAgrees(&c, nOffset, t, !bNoNext, iNext, !bNoLast, iLast),
            "cron.tsv: '%s' at %lld, offset %d: %lld", zSpec, t, nOffset,
            cqCronNextOf(zSpec, nOffset, t));
    nRow++;
    nNever += bNoNext;
  }
  cqCheck(nRow>5000 && nNever>50, "cron.tsv: %d rows, %d never", nRow, nNever);
}

/**************************************************************************
** Reading
*/

/* The values of FROM-TO/STEP in a field that goes from iMin to iMax, by going
** from one to the next and beginning anew after the last. */
static u64 cqCronWalk(int iField, int iFrom, int iTo, int nStep){
  static const int aMin[] = { 0, 0, 1, 1, 0 };
  static const int aMax[] = { 59, 23, 31, 12, 6 };
  u64 m = 0;
  int n = 0, bMore = 1;
  if( iField==4 && iFrom==7 && iTo!=7 ) iFrom = 0;
  if( iField==4 && iTo==7 && iFrom!=7 && iFrom!=0 ) iTo = 0;
  if( iField==4 && iFrom==7 ) iFrom = iTo = 0;
  if( iField==4 && iTo==7 ) iTo = 6;          /* 0-7: the week */
  while( bMore ){
    if( n%nStep==0 ) m |= (u64)1 << iFrom;
    bMore = iFrom!=iTo;
    iFrom = iFrom==aMax[iField] ? aMin[iField] : iFrom+1;
    n++;
  }
  return m;
}

/* 1 if the text in field iField gives the mask. */
static int cqCronGives(int iField, const char *zText, u64 m){
  char z[200];
  CqCron c;
  int i, n = 0;
  for(i=0; i<5; i++){
    n += sprintf(&z[n], "%s%s", i ? " " : "", i==iField ? zText : "*");
  }
  c = cqCronOf(z);
  return c.aMask[iField]==m && c.nEvery==0 && c.bEither==0;
}

/* Every range of every field, with every step and without, with a zero in front
** and without. */
static void cqTestCronRanges(void){
  static const int aMin[] = { 0, 0, 1, 1, 0 };
  static const int aTop[] = { 59, 23, 31, 12, 7 };
  static const int aMax[] = { 59, 23, 31, 12, 6 };
  char z[100];
  int f, a, b, s;
  for(f=0; f<5; f++) for(a=aMin[f]; a<=aTop[f]; a++){
    int nBad = 0;
    sprintf(z, "%d", a);
    nBad += !cqCronGives(f, z, cqCronWalk(f, a, a, 1));
    sprintf(z, "%03d,%d", a, aMin[f]);
    nBad += !cqCronGives(f, z, cqCronWalk(f, a, a, 1)|(u64)1<<aMin[f]);
    for(b=aMin[f]; b<=aTop[f]; b++){
      sprintf(z, "%d-%02d", a, b);
      nBad += !cqCronGives(f, z, cqCronWalk(f, a, b, 1));
      for(s=1; s<=aTop[f]+2; s+=f==0 && s>9 ? 7 : 1){
        sprintf(z, "%d-%d/%d", a, b, s);
        nBad += !cqCronGives(f, z, cqCronWalk(f, a, b, s));
      }
    }
    for(s=1; s<=aTop[f]+2; s++){
      sprintf(z, "%d/%d", a, s);
      nBad += !cqCronGives(f, z, cqCronWalk(f, a%(aMax[f]+1), aMax[f], s));
      sprintf(z, "*/%d", s);
      nBad += !cqCronGives(f, z, cqCronWalk(f, aMin[f], aMax[f], s));
    }
    cqCheck(nBad==0, "field %d, from %d: %d ranges are wrong", f, a, nBad);
  }
  cqCheck(cqCronGives(0, "*/99999999999999999999", 1)
       && cqCronGives(2, "*/1000001", 2), "a step of any length");
}

static void cqTestCronNames(void){
  static const char *const azMonth[] = { "jan", "feb", "mar", "apr", "may",
    "jun", "jul", "aug", "sep", "oct", "nov", "dec" };
  static const char *const azDay[] = { "sun", "mon", "tue", "wed", "thu",
    "fri", "sat" };
  char z[100], zOne[4], zTwo[4];
  int f, i, j, k, m;
  for(f=3; f<5; f++) for(i=0; i<(f==3 ? 12 : 7); i++){
    for(j=0; j<(f==3 ? 12 : 7); j++) for(m=0; m<8; m++){
      const char *zA = f==3 ? azMonth[i] : azDay[i];
      const char *zB = f==3 ? azMonth[j] : azDay[j];
      for(k=0; k<3; k++){
        zOne[k] = (char)(m>>k & 1 ? zA[k]-32 : zA[k]);
        zTwo[k] = (char)(m>>(2-k) & 1 ? zB[k]-32 : zB[k]);
      }
      zOne[3] = zTwo[3] = 0;
      sprintf(z, "%s-%s", zOne, zTwo);
      cqCheck(cqCronGives(f, z, cqCronWalk(f, i+(f==3), j+(f==3), 1)),
              "field %d: %s", f, z);
      sprintf(z, "%s-%d/2,%s", zOne, j+(f==3), zTwo);
      cqCheck(cqCronGives(f, z, cqCronWalk(f, i+(f==3), j+(f==3), 2)
                | (u64)1<<(j+(f==3))), "field %d: %s", f, z);
    }
  }
}

/* One day field is enough if neither has a bare asterisk among its elements. */
static void cqTestCronEither(void){
  static const struct { const char *z; int bStar; } a[] = {
    { "*", 1 }, { "3,*", 1 }, { "*,3", 1 }, { "*/2,*", 1 }, { "*/1", 0 },
    { "*/2", 0 }, { "1-6", 0 }, { "3", 0 }, { "3/1", 0 }, { "1-7", 0 },
  };
  char z[100];
  int i, j;
  for(i=0; i<CQ_COUNT(a); i++) for(j=0; j<CQ_COUNT(a); j++){
    CqCron c;
    sprintf(z, "* * %s * %s", a[i].z, a[j].z);
    c = cqCronOf(z);
    cqCheck(c.bEither==(!a[i].bStar && !a[j].bStar), "'%s': either day", z);
  }
}

/* What is refused, why, and which part of it is at fault. */
static void cqTestCronFaults(void){
  static const struct { const char *z; int eWhy, iField; const char *zPart; }
  a[] = {
    { "", CQ_CRON_FIELDS, 0, "" },
    { " \t ", CQ_CRON_FIELDS, 0, " \t " },
    { "*", CQ_CRON_FIELDS, 0, "*" },
    { "* * * *", CQ_CRON_FIELDS, 0, "* * * *" },
    { "* * * * ", CQ_CRON_FIELDS, 0, "* * * * " },
    { "* * * * * *", CQ_CRON_FIELDS, 0, "* * * * * *" },
    { "every90s", CQ_CRON_FIELDS, 0, "every90s" },
    { "ever 90 s", CQ_CRON_FIELDS, 0, "ever 90 s" },
    { "@", CQ_CRON_WORD, 0, "@" },
    { "@dail", CQ_CRON_WORD, 0, "@dail" },
    { "@dailyx", CQ_CRON_WORD, 0, "@dailyx" },
    { "@reboot", CQ_CRON_WORD, 0, "@reboot" },
    { "@daily *", CQ_CRON_WORD, 0, "@daily *" },
    { "@ daily", CQ_CRON_WORD, 0, "@ daily" },
    { "every", CQ_CRON_PERIOD, 0, "every" },
    { "every 90", CQ_CRON_PERIOD, 0, "every 90" },
    { "every s", CQ_CRON_PERIOD, 0, "every s" },
    { "every 0 s", CQ_CRON_PERIOD, 0, "every 0 s" },
    { "every -1 s", CQ_CRON_PERIOD, 0, "every -1 s" },
    { "every +1 s", CQ_CRON_PERIOD, 0, "every +1 s" },
    { "every 090 s", CQ_CRON_PERIOD, 0, "every 090 s" },
    { "every 1.5 s", CQ_CRON_PERIOD, 0, "every 1.5 s" },
    { "every 90 sec", CQ_CRON_PERIOD, 0, "every 90 sec" },
    { "every 90 w", CQ_CRON_PERIOD, 0, "every 90 w" },
    { "every 90 s s", CQ_CRON_PERIOD, 0, "every 90 s s" },
    { "every 90 m s", CQ_CRON_PERIOD, 0, "every 90 m s" },
    { "every 9223372036854775808 ms", CQ_CRON_PERIOD, 0,
      "every 9223372036854775808 ms" },
    { "every 9223372036854776 s", CQ_CRON_PERIOD, 0,
      "every 9223372036854776 s" },
    { "every 106751991168 d", CQ_CRON_PERIOD, 0, "every 106751991168 d" },
    { "60 * * * *", CQ_CRON_RANGE, 0, "60" },
    { "* 24 * * *", CQ_CRON_RANGE, 1, "24" },
    { "* * 0 * *", CQ_CRON_RANGE, 2, "0" },
    { "* * 32 * *", CQ_CRON_RANGE, 2, "32" },
    { "* * * 0 *", CQ_CRON_RANGE, 3, "0" },
    { "* * * 13 *", CQ_CRON_RANGE, 3, "13" },
    { "* * * * 8", CQ_CRON_RANGE, 4, "8" },
    { "1,2,3-60 * * * *", CQ_CRON_RANGE, 0, "3-60" },
    { "* 24-3 * * *", CQ_CRON_RANGE, 1, "24-3" },
    { "* 4294967296 * * *", CQ_CRON_RANGE, 1, "4294967296" },
    { "* 18446744073709551617 * * *", CQ_CRON_RANGE, 1,
      "18446744073709551617" },
    { "* * 0/2 * *", CQ_CRON_RANGE, 2, "0/2" },
    { "*/0 * * * *", CQ_CRON_STEP, 0, "*/0" },
    { "* */ * * *", CQ_CRON_STEP, 1, "*/" },
    { "* * 5/00 * *", CQ_CRON_STEP, 2, "5/00" },
    { "* * * */x *", CQ_CRON_STEP, 3, "*/x" },
    { "* * * * 1-5/-1", CQ_CRON_STEP, 4, "1-5/-1" },
    { "* * * * 1/mon", CQ_CRON_STEP, 4, "1/mon" },
    { "x * * * *", CQ_CRON_SYNTAX, 0, "x" },
    { "-1 * * * *", CQ_CRON_SYNTAX, 0, "-1" },
    { "+1 * * * *", CQ_CRON_SYNTAX, 0, "+1" },
    { "1- * * * *", CQ_CRON_SYNTAX, 0, "1-" },
    { "1-2-3 * * * *", CQ_CRON_SYNTAX, 0, "1-2-3" },
    { "1/2/3 * * * *", CQ_CRON_SYNTAX, 0, "1/2/3" },
    { "/2 * * * *", CQ_CRON_SYNTAX, 0, "/2" },
    { "** * * * *", CQ_CRON_SYNTAX, 0, "**" },
    { "*-5 * * * *", CQ_CRON_SYNTAX, 0, "*-5" },
    { "*5 * * * *", CQ_CRON_SYNTAX, 0, "*5" },
    { "5* * * * *", CQ_CRON_SYNTAX, 0, "5*" },
    { "1.5 * * * *", CQ_CRON_SYNTAX, 0, "1.5" },
    { "* , * * *", CQ_CRON_SYNTAX, 1, "," },
    { "* 1, * * *", CQ_CRON_SYNTAX, 1, "1," },
    { "* ,1 * * *", CQ_CRON_SYNTAX, 1, ",1" },
    { "* 1,,2 * * *", CQ_CRON_SYNTAX, 1, "1,,2" },
    { "* mon * * *", CQ_CRON_SYNTAX, 1, "mon" },
    { "* * ? * *", CQ_CRON_SYNTAX, 2, "?" },
    { "* * L * *", CQ_CRON_SYNTAX, 2, "L" },
    { "* * 15W * *", CQ_CRON_SYNTAX, 2, "15W" },
    { "* * * mon *", CQ_CRON_SYNTAX, 3, "mon" },
    { "* * * january *", CQ_CRON_SYNTAX, 3, "january" },
    { "* * * ja *", CQ_CRON_SYNTAX, 3, "ja" },
    { "* * * a *", CQ_CRON_SYNTAX, 3, "a" },
    { "* * * j@n *", CQ_CRON_SYNTAX, 3, "j@n" },
    { "* * * * jan", CQ_CRON_SYNTAX, 4, "jan" },
    { "* * * * mon-", CQ_CRON_SYNTAX, 4, "mon-" },
    { "* * * * mon-x", CQ_CRON_SYNTAX, 4, "mon-x" },
    { "* * * * 1#2", CQ_CRON_SYNTAX, 4, "1#2" },
    { "* * * * *\b", CQ_CRON_SYNTAX, 4, "*\b" },
    { "* * * * *\x0e", CQ_CRON_SYNTAX, 4, "*\x0e" },
    { "* * * * \xc3\xa4", CQ_CRON_SYNTAX, 4, "\xc3\xa4" },
  };
  int i;
  for(i=0; i<CQ_COUNT(a); i++){
    CqText x = cqTight(a[i].z, (int)strlen(a[i].z));
    CqCronFault f;
    CqCron c;
    int e = claimqCronParse(x, &c, &f);
    int n = (int)strlen(a[i].zPart);
    cqCheck(e==a[i].eWhy && f.eWhy==e && f.iField==a[i].iField
         && f.part.n==n && memcmp(f.part.z, a[i].zPart, (size_t)n)==0,
         "'%s' is refused by %d of field %d: '%.*s'", a[i].z, e, f.iField,
         f.part.n, f.part.z);
    cqTightFree(x);
  }
}

/* A NUL is a byte like any other; no text at all is an empty one. */
static void cqTestCronNul(void){
  CqCronFault f;
  CqCron c;
  cqCheck(claimqCronParse(cqSlice("* * *\0* *", 9), &c, &f)==CQ_CRON_FIELDS,
          "NUL between fields");
  cqCheck(claimqCronParse(cqSlice("* * * * *\0", 10), &c, &f)==CQ_CRON_SYNTAX
       && f.part.n==2, "NUL behind a field");
  cqCheck(claimqCronParse(cqSlice("@daily\0", 7), &c, &f)==CQ_CRON_WORD,
          "NUL behind a word");
  cqCheck(claimqCronParse(cqSlice("every 1 s\0", 10), &c, &f)==CQ_CRON_PERIOD,
          "NUL behind a unit");
  cqCheck(claimqCronParse(cqSlice(0, 0), &c, &f)==CQ_CRON_FIELDS, "no text");
}

static void cqTestCronWords(void){
  static const struct { const char *z; const char *zSame; } a[] = {
    { "@hourly", "0 * * * *" },        { "@daily", "0 0 * * *" },
    { "@midnight", "0 0 * * *" },      { "@weekly", "0 0 * * 0" },
    { "@monthly", "0 0 1 * *" },       { "@yearly", "0 0 1 1 *" },
    { "@annually", "0 0 1 1 *" },      { " @DAILY\t", "0 0 * * *" },
    { " \t1  2\t3\t \t4 5 ", "1 2 3 4 5" },
    { "\r\n1\n2\v3\f4\r5\r\n", "1 2 3 4 5" },
    { "EVERY 90 S", "every 90 s" },    { "every 90s", "every 90 s" },
    { "\tevery  90\ts ", "every 90000 ms" }, { "every 3 m", "every 180s" },
    { "every 2 h", "every 120 m" },    { "every 2 d", "every 48 h" },
    { "every 9223372036854775 s", "every 9223372036854775000 ms" },
  };
  int i;
  for(i=0; i<CQ_COUNT(a); i++){
    CqCron x = cqCronOf(a[i].z), y = cqCronOf(a[i].zSame);
    cqCheck(x.nEvery==y.nEvery && x.bEither==y.bEither
         && memcmp(x.aMask, y.aMask, sizeof(x.aMask))==0,
         "'%s' is not '%s'", a[i].z, a[i].zSame);
  }
  cqCheck(cqCronOf("every 90 s").nEvery==90000
       && cqCronOf("every 1 ms").nEvery==1
       && cqCronOf("every 9223372036854775807 ms").nEvery==CQ_I64_MAX
       && cqCronOf("every 106751991167 d").nEvery==106751991167LL*86400000,
       "periods in ms");
  for(i=0; i<CQ_CRON_NFIELD; i++){
    const CqCronField *p = claimqCronField(i);
    cqCheck(p->iTop==p->iMax+(i==CQ_CRON_WEEKDAY) && p->zName[0]
         && (p->zNames==0 || (int)strlen(p->zNames)==3*(p->iMax-p->iMin+1)),
         "field %d", i);
  }
}

/**************************************************************************
** When, against a calendar that goes from day to day
*/
#define CQ_CAL_FIRST (-32872)     /* 1880-01-01 */
#define CQ_CAL_N     91311        /* Days up to 2129-12-31 */
typedef struct CqCalDay CqCalDay;
struct CqCalDay {
  short iYear;
  u8 iMonth, iDay, iWeekday;
};
static CqCalDay aCal[CQ_CAL_N];

/* Fill it; 1880-01-01 was a Thursday. */
static void cqCalFill(void){
  CqCalDay d = { 1880, 1, 1, 4 };
  int i;
  for(i=0; i<CQ_CAL_N; i++){
    int bLeap = d.iYear%4==0 && d.iYear!=1900 && d.iYear!=2100;
    int nDay = d.iMonth==2 ? 28+bLeap
             : d.iMonth==4 || d.iMonth==6 || d.iMonth==9 || d.iMonth==11 ? 30
             : 31;
    aCal[i] = d;
    d.iWeekday = (u8)((d.iWeekday+1)%7);
    if( ++d.iDay>nDay ){
      d.iDay = 1;
      if( ++d.iMonth>12 ){
        d.iMonth = 1;
        d.iYear++;
      }
    }
  }
  cqCheck(aCal[-CQ_CAL_FIRST].iYear==1970 && aCal[-CQ_CAL_FIRST].iMonth==1
       && aCal[-CQ_CAL_FIRST].iDay==1 && aCal[-CQ_CAL_FIRST].iWeekday==4
       && d.iYear==2130 && d.iMonth==1 && d.iDay==1, "the calendar");
}

/* 1 if the i-th day of the calendar is due. */
static int cqCalDue(const CqCron *p, int i){
  const CqCalDay *d = &aCal[i];
  int bMonthday = (int)(p->aMask[2]>>d->iDay & 1);
  int bWeekday = (int)(p->aMask[4]>>d->iWeekday & 1);
  if( (p->aMask[3]>>d->iMonth & 1)==0 ) return 0;
  return p->bEither ? bMonthday || bWeekday : bMonthday && bWeekday;
}

/* All local times of a day that are due, by minute: their number. */
static int cqCalTimes(const CqCron *p, short *aTime){
  int i, n = 0;
  for(i=0; i<1440; i++){
    if( (p->aMask[1]>>(i/60) & 1) && (p->aMask[0]>>(i%60) & 1) ){
      aTime[n++] = (short)i;
    }
  }
  return n;
}

/* Write an element of field iField by chance; returns its length. */
static int cqCronRandomField(int iField, char *z){
  static const int aMin[] = { 0, 0, 1, 1, 0 };
  static const int aTop[] = { 59, 23, 31, 12, 7 };
  int nSpan = aTop[iField]-aMin[iField]+1;
  int a = aMin[iField]+(int)cqRandom((u32)nSpan);
  int b = aMin[iField]+(int)cqRandom((u32)nSpan);
  switch( cqRandom(8) ){
    case 0: case 1: case 2: return sprintf(z, "*");
    case 3:  return sprintf(z, "*/%d", 1+b);
    case 4:  return sprintf(z, "%d-%d", a, b);
    case 5:  return sprintf(z, "%d-%d/%d", a, b, 1+(int)cqRandom(9));
    case 6:  return sprintf(z, "%d,%d", a, b);
  }
  return sprintf(z, "%d", a);
}

static void cqCronRandom(char *z){
  int i;
  for(i=0; i<5; i++){
    z += cqCronRandomField(i, z);
    *z++ = i<4 ? ' ' : 0;
  }
}

/* Times up to local minute m of day i of the calendar, since its beginning:
** aDays[i] of the days before i are due, aTime[] are the times of a due day. */
static i64 cqCalCount(
  const int *aDays, const short *aTime, int nTime, int i, int m
){
  i64 n = (i64)aDays[i]*nTime;
  int k;
  for(k=0; k<nTime && aDays[i+1]>aDays[i] && aTime[k]<=m; k++) n++;
  return n;
}

/* One schedule, at times by chance: the next time, the last one, and how many
** there are between two times. */
static void cqTestCronOne(const char *z){
  static int aDays[CQ_CAL_N+1];
  static short aTime[1440];
  CqCron c = cqCronOf(z);
  int nTime = cqCalTimes(&c, aTime), i, k;
  i64 t0 = 0, n0 = 0;
  int nOffset = (int)cqRandom(2879)-1439;
  for(i=0; i<CQ_CAL_N; i++) aDays[i+1] = aDays[i] + cqCalDue(&c, i);
  for(k=0; k<12; k++){
    int iDay = 3700+(int)cqRandom(CQ_CAL_N-7400);
    int iMin = (int)cqRandom(1440), j;
    i64 t = ((CQ_CAL_FIRST+(i64)iDay)*1440 + iMin - nOffset)*60000
          + (k&1 ? (i64)cqRandom(60000) : 0);
    i64 iNext = -1, iLast = -1, n, nGot, iGot = -9;
    int bNext = 0, bLast = 0;
    /* Where the next and the last are: in this day, or in the nearest. */
    for(i=iDay; i<CQ_CAL_N && !bNext; i++){
      if( aDays[i+1]==aDays[i] ) continue;
      for(j=0; j<nTime && !bNext; j++){
        if( i>iDay || aTime[j]>iMin ){
          iNext = ((CQ_CAL_FIRST+(i64)i)*1440 + aTime[j] - nOffset)*60000;
          bNext = 1;
        }
      }
    }
    for(i=iDay; i>=0 && !bLast; i--){
      if( aDays[i+1]==aDays[i] ) continue;
      for(j=nTime-1; j>=0 && !bLast; j--){
        if( i<iDay || aTime[j]<=iMin ){
          iLast = ((CQ_CAL_FIRST+(i64)i)*1440 + aTime[j] - nOffset)*60000;
          bLast = 1;
        }
      }
    }
    cqCheck(cqCronAgrees(&c, nOffset, t, bNext, iNext, bLast, iLast),
        "'%s' after %lld, offset %d: not %lld", z, t, nOffset, iNext);
    n = cqCalCount(aDays, aTime, nTime, iDay, iMin);
    if( k>0 ){
      nGot = claimqCronDue(&c, nOffset, t0, t, &iGot);
      cqCheck(nGot==(t>t0 ? n-n0 : 0) && (nGot==0 || iGot==iLast),
          "'%s' from %lld to %lld, offset %d: due %lld times, not %lld", z,
          t0, t, nOffset, nGot, n-n0);
    }
    t0 = t;
    n0 = n;
  }
}

static void cqTestCronCalendar(void){
  static const char *const az[] = {
    "* * * * *", "0 0 29 2 *", "59 23 31 12 *", "0 0 30 2 *", "0 0 30 2 1",
    "0 0 31 4,6,9,11 *", "0 0 29 2 1", "0 0 1 1 *", "*/7 */7 */7 */7 */7"
  };
  char z[200];
  int i;
  cqCalFill();
  for(i=0; i<CQ_COUNT(az); i++) cqTestCronOne(az[i]);
  for(i=0; i<1500; i++){
    cqCronRandom(z);
    cqTestCronOne(z);
  }
}

/**************************************************************************
** Far away, and at the edges
*/
#define CQ_CYCLE_MS (146097*(i64)86400000)

/* 400 years later everything is the same, up to the end of time. */
static void cqTestCronCycles(void){
  static const i64 aCycle[] = { 1, -1, 2, 5, -5, 1000, -1000, 730690, -730690 };
  char z[200];
  int i, k;
  for(i=0; i<400; i++){
    CqCron c;
    int nOffset = (int)cqRandom(2879)-1439;
    i64 t = (i64)cqRandom(100000)*86400000/2 + cqRandom(86400000);
    i64 iNext = 0, iLast = 0, iFar = 0, n, nCycle;
    int bNext;
    cqCronRandom(z);
    c = cqCronOf(z);
    bNext = claimqCronNext(&c, nOffset, t, &iNext);
    n = claimqCronDue(&c, nOffset, t-1000000000000, t, &iLast);
    nCycle = claimqCronDue(&c, nOffset, t-CQ_CYCLE_MS, t, &iFar);
    for(k=0; k<CQ_COUNT(aCycle); k++){
      i64 d = aCycle[k]*CQ_CYCLE_MS, iThere = 0;
      cqCheck(claimqCronNext(&c, nOffset, t+d, &iThere)==bNext
           && (bNext==0 || iThere==iNext+d), "'%s': %lld cycles on", z,
           aCycle[k]);
      cqCheck(claimqCronDue(&c, nOffset, t+d-1000000000000, t+d, &iThere)==n
           && (n==0 || iThere==iLast+d), "'%s': due, %lld cycles on", z,
           aCycle[k]);
      if( aCycle[k]>0 ){
        cqCheck(claimqCronDue(&c, nOffset, t-1000000000000, t+d, &iThere)
                ==n+aCycle[k]*nCycle, "'%s': due in %lld cycles", z, aCycle[k]);
      }
    }
  }
}

/* The last minute that 64 bits hold begins at 9223372036854720000, the first
** one at -9223372036854720000. */
static void cqTestCronEdges(void){
  static const i64 iTop = 9223372036854720000LL;
  CqCron c = cqCronOf("* * * * *");
  i64 i = 0;
  cqCheck(claimqCronNext(&c, 0, iTop-1, &i) && i==iTop, "the last minute");
  cqCheck(!claimqCronNext(&c, 0, iTop, &i), "after the last minute");
  cqCheck(!claimqCronNext(&c, 0, CQ_I64_MAX, &i), "after the end");
  cqCheck(!claimqCronNext(&c, 1439, CQ_I64_MAX, &i), "after the end, east");
  cqCheck(!claimqCronNext(&c, -1439, CQ_I64_MAX, &i), "after the end, west");
  cqCheck(claimqCronNext(&c, 0, CQ_I64_MIN, &i) && i==-iTop, "the first");
  cqCheck(claimqCronNext(&c, 1439, CQ_I64_MIN, &i) && i==-iTop, "first, east");
  cqCheck(claimqCronNext(&c, -1439, CQ_I64_MIN, &i) && i==-iTop, "first, west");
  cqCheck(claimqCronDue(&c, 0, CQ_I64_MIN, CQ_I64_MAX, &i)==2*(iTop/60000)+1
       && i==iTop, "all minutes");
  cqCheck(claimqCronDue(&c, 0, iTop, CQ_I64_MAX, &i)==0, "none at the end");
  cqCheck(claimqCronDue(&c, 0, CQ_I64_MIN, -iTop-1, &i)==0, "none before");
  cqCheck(claimqCronDue(&c, 0, CQ_I64_MIN, -iTop, &i)==1 && i==-iTop, "one");
  cqCheck(claimqCronDue(&c, 0, 60000, 60000, &i)==0
       && claimqCronDue(&c, 0, 120000, 0, &i)==0
       && claimqCronDue(&c, 0, CQ_I64_MAX, CQ_I64_MIN, &i)==0, "backwards");
  c = cqCronOf("0 0 1 1 *");
  cqCheck(!claimqCronNext(&c, 0, CQ_I64_MAX, &i)
       && !claimqCronNext(&c, 0, iTop-86400000, &i), "the year after the last");
  c = cqCronOf("0 0 30 2 *");
  cqCheck(!claimqCronNext(&c, 0, 0, &i)
       && !claimqCronNext(&c, 0, CQ_I64_MIN, &i)
       && claimqCronDue(&c, 0, CQ_I64_MIN, CQ_I64_MAX, &i)==0, "30 February");
  c = cqCronOf("0 0 29 2 *");
  cqCheck(claimqCronDue(&c, 0, 0, CQ_CYCLE_MS, &i)==97, "97 leap years");
  /* Across 1900 and 2100: from the end of one 29 February to the next. */
  cqCheck(cqCronNextOf("0 0 29 2 *", 0, -2330121600001LL)==-2330121600000LL
       && cqCronNextOf("0 0 29 2 *", 0, -2330121600000LL)==-2077747200000LL
       && cqCronNextOf("0 0 29 2 *", 0, 3981312000000LL)==4233686400000LL,
       "eight years without a leap day");
  cqCheck(claimqCronDue(&c, 0, -2330121600000LL, -2077747200001LL, &i)==0
       && claimqCronDue(&c, 0, -2330121600001LL, -2077747200001LL, &i)==1
       && i==-2330121600000LL, "the last leap day, eight years ago");
}

/* a*b by looking at every time, for small periods. */
static void cqTestCronEvery(void){
  char z[60];
  i64 i, t, t2, n;
  int p, k;
  for(p=1; p<=7; p++){
    CqCron c;
    sprintf(z, "every %d ms", p);
    c = cqCronOf(z);
    for(t=-20; t<=20; t++){
      for(n=t+1; n%p!=0; n++){}
      cqCheck(claimqCronNext(&c, (int)t*71, t, &i) && i==n,
              "'%s' after %lld", z, t);
      for(t2=-20; t2<=20; t2++){
        i64 iGot = -99, iLast = -99, nDue = 0;
        for(i=t+1; i<=t2; i++){
          if( i%p==0 ){
            iLast = i;
            nDue++;
          }
        }
        cqCheck(claimqCronDue(&c, (int)t*71, t, t2, &iGot)==nDue
             && iGot==iLast, "'%s' from %lld to %lld", z, t, t2);
      }
    }
  }
  for(k=0; k<2; k++){
    CqCron c = cqCronOf(k ? "every 1 ms" : "every 9223372036854775807 ms");
    cqCheck(!claimqCronNext(&c, 0, CQ_I64_MAX, &i), "period %d: the end", k);
    cqCheck(claimqCronNext(&c, 0, CQ_I64_MAX-1, &i) && i==CQ_I64_MAX,
            "period %d: the last time", k);
    cqCheck(claimqCronNext(&c, 0, CQ_I64_MIN, &i) && i==CQ_I64_MIN+1,
            "period %d: the first time", k);
    cqCheck(claimqCronDue(&c, 0, CQ_I64_MIN, CQ_I64_MAX, &i)
            ==(k ? CQ_I64_MAX : 3) && i==CQ_I64_MAX, "period %d: all", k);
  }
  cqCheck(cqCronNextOf("every 90 s", 0, 100000)==180000
       && cqCronNextOf("every 1 d", 300, 0)==86400000
       && cqCronNextOf("every 1 d", 0, -1)==0, "periods");
}

/* Bytes by chance, and good schedules with damage: none reads what is not
** there, and what is accepted is due after a time only later than it. */
static void cqTestCronNoise(void){
  static const char zByte[] = "0123456789 ,-/*@ \tevryadilmonsjbu\n\xc3\x00#LW";
  char z[200];
  int i, j, nGood = 0;
  for(i=0; i<60000; i++){
    int n, nCut = (int)cqRandom(3);
    CqText x;
    CqCronFault f;
    CqCron c;
    if( i%3==0 ){
      n = (int)cqRandom(20);
      for(j=0; j<n; j++) z[j] = zByte[cqRandom(sizeof(zByte))];
    }else{
      cqCronRandom(z);
      n = (int)strlen(z);
      while( nCut-- > 0 ) z[cqRandom((u32)n)] = zByte[cqRandom(sizeof(zByte))];
    }
    x = cqTight(z, n);
    if( claimqCronParse(x, &c, &f)==CQ_CRON_OK ){
      i64 t = (i64)(cqRandom(1u<<31)-(1u<<30))*1000, iNext = t+1, iLast = t;
      int bNext = claimqCronNext(&c, 0, t, &iNext);
      nGood++;
      cqCheck(iNext>t && (!bNext
           || (claimqCronDue(&c, 0, t, iNext, &iLast)==1 && iLast==iNext)),
           "noise: '%.*s' after %lld", n, z, t);
    }else{
      cqCheck(f.eWhy>=CQ_CRON_FIELDS && f.eWhy<=CQ_CRON_STEP
           && f.part.z>=x.z && f.part.z+f.part.n<=x.z+x.n
           && f.iField<CQ_CRON_NFIELD, "noise: the fault of '%.*s'", n, z);
    }
    cqTightFree(x);
  }
  cqCheck(nGood>10000, "noise: %d schedules are good", nGood);
}
