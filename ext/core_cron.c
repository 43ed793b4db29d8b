/*
** core_cron.c: when a schedule is due.
**
**     SELECT claimq_cron_next('30 6 * * MON-FRI', 0);     -- 23400000
**     SELECT claimq_cron_next('0 0 29 2 *', 0);           -- 68169600000
**     SELECT claimq_cron_next('@daily', 0, 60);           -- 82800000
**     SELECT claimq_cron_next('every 90 s', 100000);      -- 180000
**     SELECT claimq_cron_next('0 0 30 2 *', 0);           -- NULL
**
** A schedule is one of
**
**     five fields     minute 0-59, hour 0-23, day of month 1-31,
**                     month 1-12 or JAN-DEC, day of week 0-7 or SUN-SAT
**                     (0 and 7 are Sunday), separated by blanks or tabs
**     a word          @hourly @daily @midnight @weekly @monthly @yearly
**                     @annually
**     a period        every N UNIT, where UNIT is ms, s, m, h or d: the
**                     multiples of the period since 1970
**
** Letters may be capital or small.  A field is a list of elements, with commas
** between them:
**
**     *        all values
**     3        one value
**     1-5      a range; 22-3 and FRI-MON wrap around, 5-5 is 5 alone
**     1-5/2    every second value of a range, counted on across a wrap: the
**              hours 22-3/2 are 22, 0 and 2.  An asterisk may have a step as
**              well: its values are counted from the field's smallest on
**     5/15     from 5 to the field's largest value, as if it were 5-59/15
**
** A day is due if its month, its day of month and its day of week are all in
** their fields.  But if neither of the two day fields is `*`, one of them is
** enough: `0 0 13 * FRI` is due on every 13th and on every Friday.  A field is
** `*` if one of its elements is a bare `*`; an asterisk with a step is a list
** of values like any other.  (Vixie's cron takes every field that begins with
** an asterisk for `*`; croniter decides as this file does.)
**
** Fields are read in local time, which is UTC plus an offset in minutes that
** never changes: there is no summer time.  A period is not moved by it.
**
** How it works
**
** A field becomes a mask with a bit for each of its values.  Which days are
** due is asked for a whole month at once: cqCronDays() makes a mask of them,
** and everything else walks from month to month.  The longest way to the next
** day that is due leads from one 29 February to the next across a year such
** as 1900: eight years.  What was not found by then never comes.
**
** How often a schedule was due is counted in the same way, by the month, and
** beyond 400 years by the cycle after which the calendar repeats itself: dates
** and days of the week, for its 146097 days are whole weeks.
*/
#include "claimq_core.h"

#define CQ_CRON_MS     60000      /* Milliseconds of a minute */
#define CQ_CRON_DAY    1440       /* Minutes of a day */
#define CQ_CRON_CYCLE  146097     /* Days of 400 years */
#define CQ_CRON_MONTHS 97         /* From a February to that 8 years later */

/**************************************************************************
** Reading a schedule
*/

/*
** What field iField (CQ_CRON_MINUTE .. CQ_CRON_WEEKDAY) is called and what it
** may hold.
*/
CQ_PRIV const CqCronField *claimqCronField(int iField){
  static const CqCronField aField[CQ_CRON_NFIELD] = {
    { "minute",       0, 0, 59, 59 },
    { "hour",         0, 0, 23, 23 },
    { "day of month", 0, 1, 31, 31 },
    { "month", "janfebmaraprmayjunjulaugsepoctnovdec", 1, 12, 12 },
    { "day of week",  "sunmontuewedthufrisat", 0, 6, 7 },
  };
  assert( iField>=0 && iField<CQ_CRON_NFIELD );
  return &aField[iField];
}

/* White space, as in C. */
static int cqCronBlank(char c){
  return c==' ' || (c>='\t' && c<='\r');
}

/* Drop the first n bytes. */
static void cqCronSkip(CqText *p, int n){
  assert( n<=p->n );
  p->z += n;
  p->n -= n;
}

static void cqCronSkipBlanks(CqText *p){
  while( p->n>0 && cqCronBlank(p->z[0]) ) cqCronSkip(p, 1);
}

/* Drop the first byte if it is c: 1 if it was. */
static int cqCronEat(CqText *p, char c){
  if( p->n==0 || p->z[0]!=c ) return 0;
  cqCronSkip(p, 1);
  return 1;
}

/*
** Drop the n bytes of z, which are small letters and the like, if the text
** begins with them in capital or small letters: 1 if it did.
*/
static int cqCronEatWord(CqText *p, const char *z, int n){
  int i;
  if( p->n<n ) return 0;
  for(i=0; i<n; i++){
    char c = p->z[i];
    if( c>='A' && c<='Z' ) c = (char)(c+('a'-'A'));
    if( c!=z[i] ) return 0;
  }
  cqCronSkip(p, n);
  return 1;
}

/* 1 if the text is the word z and nothing else. */
static int cqCronIs(CqText t, const char *z){
  return cqCronEatWord(&t, z, (int)strlen(z)) && t.n==0;
}

/* Drop the digits in front and return them. */
static CqText cqCronDigits(CqText *p){
  CqText t = *p;
  for(t.n=0; t.n<p->n && p->z[t.n]>='0' && p->z[t.n]<='9'; t.n++){}
  cqCronSkip(p, t.n);
  return t;
}

/* Drop the next word, as blanks separate them, and return it; empty at the
** end of the text. */
static CqText cqCronWord(CqText *p){
  CqText t;
  cqCronSkipBlanks(p);
  t = *p;
  for(t.n=0; t.n<p->n && !cqCronBlank(p->z[t.n]); t.n++){}
  cqCronSkip(p, t.n);
  return t;
}

/* Drop the number in front: 1, or 0 if there is none (*pn is 0 then).  Whatever
** is above a million is a million: no field goes so far. */
static int cqCronNumber(CqText *p, int *pn){
  CqText t = cqCronDigits(p);
  int i, v = 0;
  for(i=0; i<t.n; i++){
    v = v*10 + (t.z[i]-'0');
    if( v>1000000 ) v = 1000000;
  }
  *pn = v;
  return t.n>0;
}

/*
** Drop the value in front, a number or a name.  Returns CQ_CRON_OK, or what is
** wrong with it.
*/
static int cqCronValue(const CqCronField *pField, CqText *p, int *pn){
  const char *z = pField->zNames;
  int i;
  for(i=0; z && z[i]; i+=3){
    if( cqCronEatWord(p, &z[i], 3) ){
      *pn = pField->iMin + i/3;
      return CQ_CRON_OK;
    }
  }
  if( !cqCronNumber(p, pn) ) return CQ_CRON_SYNTAX;
  return *pn<pField->iMin || *pn>pField->iTop ? CQ_CRON_RANGE : CQ_CRON_OK;
}

/*
** Read one element of a field's list and add its values to *pMask.  Returns
** CQ_CRON_OK, or what is wrong with it.  *pbStar becomes 1 for a bare `*`.
**
** A range that wraps is one that ends in the next round: 22-3 are the hours 22
** to 27, of which 24 and up are taken modulo 24.  Sunday as 7 comes out right
** by the same rule, at either end of a range.
*/
static int cqCronElement(
  const CqCronField *pField, CqText t, u64 *pMask, int *pbStar
){
  int nValue = pField->iMax - pField->iMin + 1;
  int iFrom = pField->iMin, iTo = pField->iMax, nStep = 1, i, e;
  int bStar = cqCronEat(&t, '*');
  if( !bStar ){
    e = cqCronValue(pField, &t, &iFrom);
    if( e ) return e;
    if( cqCronEat(&t, '-') ){
      e = cqCronValue(pField, &t, &iTo);
      if( e ) return e;
    }else if( t.n==0 || t.z[0]!='/' ){
      iTo = iFrom;
    }
  }
  if( cqCronEat(&t, '/') ){
    cqCronNumber(&t, &nStep);
    if( nStep==0 ) return CQ_CRON_STEP;         /* Also if there is none */
    bStar = 0;
  }
  if( t.n>0 ) return CQ_CRON_SYNTAX;
  if( iTo<iFrom ) iTo += nValue;
  assert( iFrom>=pField->iMin && iTo>=iFrom && iTo-iFrom<=nValue );
  for(i=iFrom; i<=iTo; i+=nStep){
    *pMask |= (u64)1 << (pField->iMin + (i-pField->iMin)%nValue);
  }
  if( bStar ) *pbStar = 1;
  return CQ_CRON_OK;
}

/*
** Read field iField, a list of elements.  Returns CQ_CRON_OK, or what is wrong;
** then pFault says where.  *pbStar: as for cqCronElement().
*/
static int cqCronList(
  int iField, CqText t, u64 *pMask, int *pbStar, CqCronFault *pFault
){
  const CqCronField *pField = claimqCronField(iField);
  CqText rest = t;
  int e;
  do{
    CqText part = rest;
    for(part.n=0; part.n<rest.n && rest.z[part.n]!=','; part.n++){}
    cqCronSkip(&rest, part.n);
    e = cqCronElement(pField, part, pMask, pbStar);
    if( e ){
      pFault->iField = (u8)iField;
      pFault->part = part.n>0 ? part : t;
    }
  }while( e==CQ_CRON_OK && cqCronEat(&rest, ',') );
  return e;
}

/* The five fields.  Returns and leaves in pFault the same as its caller. */
static int cqCronFields(CqText spec, CqCron *pOut, CqCronFault *pFault){
  CqText aField[CQ_CRON_NFIELD], rest = spec;
  int abStar[CQ_CRON_NFIELD] = { 0, 0, 0, 0, 0 };
  int i, e = CQ_CRON_OK;
  for(i=0; i<CQ_CRON_NFIELD; i++) aField[i] = cqCronWord(&rest);
  if( aField[CQ_CRON_NFIELD-1].n==0 || cqCronWord(&rest).n>0 ){
    return CQ_CRON_FIELDS;
  }
  for(i=0; i<CQ_CRON_NFIELD && e==CQ_CRON_OK; i++){
    e = cqCronList(i, aField[i], &pOut->aMask[i], &abStar[i], pFault);
  }
  pOut->bEither = !abStar[CQ_CRON_MONTHDAY] && !abStar[CQ_CRON_WEEKDAY];
  return e;
}

/* What follows `every`: a number and a unit, with or without blanks between
** them.  CQ_CRON_OK or CQ_CRON_PERIOD. */
static int cqCronPeriod(CqText rest, CqCron *pOut){
  static const struct { const char *z; i64 nMs; } aUnit[] = {
    { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 },
    { "d", 86400000 },
  };
  CqText number, unit;
  i64 n;
  int i;
  cqCronSkipBlanks(&rest);
  number = cqCronDigits(&rest);
  unit = cqCronWord(&rest);
  cqCronSkipBlanks(&rest);
  if( rest.n>0 || !claimqI64Parse(number, &n) || n==0 ) return CQ_CRON_PERIOD;
  for(i=0; i<CQ_ARRAYSIZE(aUnit); i++){
    if( cqCronIs(unit, aUnit[i].z) && n<=CQ_I64_MAX/aUnit[i].nMs ){
      pOut->nEvery = n*aUnit[i].nMs;
      return CQ_CRON_OK;
    }
  }
  return CQ_CRON_PERIOD;
}

/*
** Read a schedule.  Returns CQ_CRON_OK and fills *pOut, or another of CQ_CRON_*
** and fills *pFault, whose texts are slices of spec.
*/
CQ_PRIV int claimqCronParse(CqText spec, CqCron *pOut, CqCronFault *pFault){
  static const struct { const char *zWord, *zSpec; } aWord[] = {
    { "@hourly", "0 * * * *" },   { "@daily",    "0 0 * * *" },
    { "@weekly", "0 0 * * 0" },   { "@midnight", "0 0 * * *" },
    { "@monthly", "0 0 1 * *" },  { "@yearly",   "0 0 1 1 *" },
    { "@annually", "0 0 1 1 *" },
  };
  CqText rest = spec, word = cqCronWord(&rest);
  int i, e;
  memset(pOut, 0, sizeof(*pOut));
  memset(pFault, 0, sizeof(*pFault));
  pFault->part = spec;
  cqCronSkipBlanks(&rest);
  if( word.n>0 && word.z[0]=='@' ){
    e = CQ_CRON_WORD;
    for(i=0; rest.n==0 && i<CQ_ARRAYSIZE(aWord); i++){
      if( cqCronIs(word, aWord[i].zWord) ){
        CqText t;
        t.z = aWord[i].zSpec;
        t.n = (int)strlen(t.z);
        e = cqCronFields(t, pOut, pFault);
      }
    }
  }else if( cqCronIs(word, "every") ){
    e = cqCronPeriod(rest, pOut);
  }else{
    e = cqCronFields(spec, pOut, pFault);
  }
  pFault->eWhy = (u8)e;
  return e;
}

/**************************************************************************
** The calendar.  Days are counted from 1970-01-01, which is day 0.
*/
typedef struct CqMonth CqMonth;
struct CqMonth {
  i64 iYear;
  int iMonth;                     /* 1..12 */
  int nDay;                       /* Days that it has */
  i64 iFirst;                     /* Its first day */
};

/* a/b rounded down, also for negative a; b>0. */
static i64 cqCronDiv(i64 a, i64 b){
  return a/b - (a%b<0);
}

/* Set the number of days from year and month. */
static void cqCronMonthSize(CqMonth *p){
  static const u8 aDay[] = { 31,28,31,30,31,30,31,31,30,31,30,31 };
  i64 y = p->iYear;
  assert( p->iMonth>=1 && p->iMonth<=12 );
  p->nDay = aDay[p->iMonth-1];
  if( p->iMonth==2 && y%4==0 && (y%100!=0 || y%400==0) ) p->nDay = 29;
}

/*
** The month that a day is in.
**
** Years are counted from March on, so that the day that some of them have more
** is their last one.  2000-03-01, day 11017, begins a cycle of 400 years, in
** which the fourth century is one day longer than the others, as is each fourth
** year of a century (but its last, unless the century is that fourth one).
*/
static void cqCronMonthOf(i64 iDay, CqMonth *p){
  static const u8 aDay[] = { 31,30,31,30,31,31,30,31,30,31,31,29 };
  i64 nCycle = cqCronDiv(iDay-11017, CQ_CRON_CYCLE);
  int n = (int)(iDay-11017 - nCycle*CQ_CRON_CYCLE);
  int nCentury = n/36524, nFour, nYear, i;
  if( nCentury>3 ) nCentury = 3;
  n -= nCentury*36524;
  nFour = n/1461;
  n -= nFour*1461;
  nYear = n/365;
  if( nYear>3 ) nYear = 3;
  n -= nYear*365;
  for(i=0; n>=aDay[i]; i++) n -= aDay[i];
  p->iYear = 2000 + 400*nCycle + 100*nCentury + 4*nFour + nYear + (i>=10);
  p->iMonth = i<10 ? i+3 : i-9;
  p->iFirst = iDay - n;
  cqCronMonthSize(p);
  assert( iDay>=p->iFirst && iDay<p->iFirst+p->nDay );
}

/*
** Go on to the month after.
*/
static void cqCronMonthNext(CqMonth *p){
  p->iFirst += p->nDay;
  if( ++p->iMonth>12 ){
    p->iMonth = 1;
    p->iYear++;
  }
  cqCronMonthSize(p);
}

/*
** Go back to the month before.
*/
static void cqCronMonthPrevious(CqMonth *p){
  if( --p->iMonth<1 ){
    p->iMonth = 12;
    p->iYear--;
  }
  cqCronMonthSize(p);
  p->iFirst -= p->nDay;
}

/**************************************************************************
** Masks
*/

/* Bit i of a mask, as 0 or 1. */
static int cqCronHas(u64 m, int i){
  assert( i>=0 && i<64 );
  return (int)(m>>i & 1);
}

/* The lowest bit from i on, -1 if there is none. */
static int cqCronFrom(u64 m, int i){
  for(; i<64; i++){
    if( cqCronHas(m, i) ) return i;
  }
  return -1;
}

/* The highest bit down from i, -1 if there is none. */
static int cqCronUpTo(u64 m, int i){
  for(; i>=0 && !cqCronHas(m, i); i--){}
  return i;
}

/* The number of bits below i. */
static int cqCronBits(u64 m, int i){
  int n = 0;
  while( i-- > 0 ) n += cqCronHas(m, i);
  return n;
}

/*
** The days of a month that are due: bits 1..31.
**
** The days of the week are turned so that bit 0 is the first day of the month;
** repeated five times they cover the month.  1970-01-01 was a Thursday.
*/
static u64 cqCronDays(const CqCron *p, const CqMonth *pMonth){
  u64 mAll = (((u64)1 << pMonth->nDay) - 1) << 1;
  u64 mMonthday = p->aMask[CQ_CRON_MONTHDAY];
  u64 mWeek = p->aMask[CQ_CRON_WEEKDAY];
  i64 iDay = pMonth->iFirst + 4;
  int i, iFirst = (int)(iDay - 7*cqCronDiv(iDay, 7));
  if( !cqCronHas(p->aMask[CQ_CRON_MONTH], pMonth->iMonth) ) return 0;
  mWeek = ((mWeek | mWeek<<7) >> iFirst & 0x7f) << 1;
  for(i=0; i<4; i++) mWeek |= mWeek<<7;
  return mAll & (p->bEither ? mMonthday | mWeek : mMonthday & mWeek);
}

/*
** The first time of a day from minute i (0..1440) on, -1 if there is none.
*/
static int cqCronTimeFrom(const CqCron *p, int i){
  u64 mHour = p->aMask[CQ_CRON_HOUR], mMinute = p->aMask[CQ_CRON_MINUTE];
  int iHour = i/60;
  assert( i>=0 && i<=CQ_CRON_DAY && mMinute!=0 );
  int iMinute = cqCronHas(mHour, iHour) ? cqCronFrom(mMinute, i%60) : -1;
  if( iMinute>=0 ) return iHour*60 + iMinute;
  iHour = cqCronFrom(mHour, iHour+1);
  return iHour<0 ? -1 : iHour*60 + cqCronFrom(mMinute, 0);
}

/*
** The last time of a day up to minute i (0..1439), -1 if there is none.
*/
static int cqCronTimeUpTo(const CqCron *p, int i){
  u64 mHour = p->aMask[CQ_CRON_HOUR], mMinute = p->aMask[CQ_CRON_MINUTE];
  int iHour = i/60;
  assert( i>=0 && i<CQ_CRON_DAY && mMinute!=0 );
  int iMinute = cqCronHas(mHour, iHour) ? cqCronUpTo(mMinute, i%60) : -1;
  if( iMinute>=0 ) return iHour*60 + iMinute;
  iHour = cqCronUpTo(mHour, iHour-1);
  return iHour<0 ? -1 : iHour*60 + cqCronUpTo(mMinute, 59);
}

/* The number of times of a day up to minute i (0..1439). */
static int cqCronTimes(const CqCron *p, int i){
  u64 mHour = p->aMask[CQ_CRON_HOUR], mMinute = p->aMask[CQ_CRON_MINUTE];
  return cqCronBits(mHour, i/60)*cqCronBits(mMinute, 60)
       + cqCronHas(mHour, i/60)*cqCronBits(mMinute, i%60+1);
}

/**************************************************************************
** When
*/

/* A minute as a day and a minute of it. */
typedef struct CqMinute CqMinute;
struct CqMinute {
  i64 iDay;
  int iTime;                      /* 0..1439 */
};

/* The local minute that a time is in. */
static CqMinute cqCronMinute(i64 iMs, int nOffset){
  i64 i = cqCronDiv(iMs, CQ_CRON_MS) + nOffset;
  CqMinute t;
  t.iDay = cqCronDiv(i, CQ_CRON_DAY);
  t.iTime = (int)(i - t.iDay*CQ_CRON_DAY);
  assert( t.iTime>=0 && t.iTime<CQ_CRON_DAY );
  return t;
}

/* When a local minute begins: 1 and *piMs, or 0 if that is 2^63 or later.  All
** callers come from a time that 64 bits hold: it is never too early. */
static int cqCronMs(i64 iDay, int iTime, int nOffset, i64 *piMs){
  i64 i = iDay*CQ_CRON_DAY + iTime - nOffset;
  assert( i>=-(CQ_I64_MAX/CQ_CRON_MS) );
  if( i>CQ_I64_MAX/CQ_CRON_MS ) return 0;
  *piMs = i*CQ_CRON_MS;
  return 1;
}

/*
** The first time after iAfter at which the schedule is due: 1, or 0 if there is
** none before 2^63.  nOffset: local time minus UTC, in minutes.
*/
CQ_PRIV int claimqCronNext(
  const CqCron *p, int nOffset, i64 iAfter, i64 *piNext
){
  CqMinute t;
  CqMonth m;
  u64 mDay;
  int i, iDay, iTime;
  assert( nOffset>=-CQ_CRON_OFFSET_MAX && nOffset<=CQ_CRON_OFFSET_MAX );
  if( p->nEvery ){
    i64 n = cqCronDiv(iAfter, p->nEvery);
    if( n>=CQ_I64_MAX/p->nEvery ) return 0;
    *piNext = (n+1)*p->nEvery;
    return 1;
  }
  t = cqCronMinute(iAfter, nOffset);
  cqCronMonthOf(t.iDay, &m);
  mDay = cqCronDays(p, &m);
  iDay = (int)(t.iDay - m.iFirst) + 1;
  iTime = cqCronHas(mDay, iDay) ? cqCronTimeFrom(p, t.iTime+1) : -1;
  if( iTime>=0 ) return cqCronMs(t.iDay, iTime, nOffset, piNext);
  for(i=0; i<CQ_CRON_MONTHS; i++){
    iDay = cqCronFrom(mDay, iDay+1);
    if( iDay>0 ){
      return cqCronMs(m.iFirst+iDay-1, cqCronTimeFrom(p, 0), nOffset, piNext);
    }
    cqCronMonthNext(&m);
    mDay = cqCronDays(p, &m);
    iDay = 0;
  }
  return 0;
}

/*
** The last time up to iNow at which the schedule was due.  The caller knows
** that there is one, and that 64 bits hold it.
*/
static i64 cqCronLast(const CqCron *p, int nOffset, i64 iNow){
  CqMinute t = cqCronMinute(iNow, nOffset);
  CqMonth m;
  u64 mDay;
  i64 iLast = 0;
  int iDay, iTime;
  cqCronMonthOf(t.iDay, &m);
  mDay = cqCronDays(p, &m);
  iDay = (int)(t.iDay - m.iFirst) + 1;
  iTime = cqCronHas(mDay, iDay) ? cqCronTimeUpTo(p, t.iTime) : -1;
  if( iTime<0 ){
    iTime = cqCronTimeUpTo(p, CQ_CRON_DAY-1);
    while( (iDay = cqCronUpTo(mDay, iDay-1))<0 ){
      cqCronMonthPrevious(&m);
      mDay = cqCronDays(p, &m);
      iDay = 32;
    }
  }
  cqCronMs(m.iFirst+iDay-1, iTime, nOffset, &iLast);
  assert( iLast<=iNow );
  return iLast;
}

/* The number of days that are due, from iFrom on and before iTo. */
static i64 cqCronDayRun(const CqCron *p, i64 iFrom, i64 iTo){
  CqMonth m;
  i64 n = 0;
  for(cqCronMonthOf(iFrom, &m); m.iFirst<iTo; cqCronMonthNext(&m)){
    u64 mDay = cqCronDays(p, &m);
    i64 nEnd = iTo - m.iFirst + 1;              /* Days below this one */
    n += cqCronBits(mDay, nEnd<32 ? (int)nEnd : 32);
    if( m.iFirst<iFrom ) n -= cqCronBits(mDay, (int)(iFrom-m.iFirst)+1);
  }
  return n;
}

/* The same, for any number of years. */
static i64 cqCronDayCount(const CqCron *p, i64 iFrom, i64 iTo){
  i64 nCycle = (iTo-iFrom)/CQ_CRON_CYCLE;
  i64 n = cqCronDayRun(p, iFrom + nCycle*CQ_CRON_CYCLE, iTo);
  if( nCycle>0 ) n += nCycle*cqCronDayRun(p, iFrom, iFrom+CQ_CRON_CYCLE);
  return n;
}

/*
** How often the schedule was due after iAfter and up to iNow (at most 2^63-1
** times), and in *piLast the last of these times, if it was due at all.
*/
CQ_PRIV i64 claimqCronDue(
  const CqCron *p, int nOffset, i64 iAfter, i64 iNow, i64 *piLast
){
  CqMinute a, b;
  i64 n;
  assert( nOffset>=-CQ_CRON_OFFSET_MAX && nOffset<=CQ_CRON_OFFSET_MAX );
  if( iNow<=iAfter ) return 0;
  if( p->nEvery ){
    i64 iLast = cqCronDiv(iNow, p->nEvery);
    u64 nDue = (u64)iLast - (u64)cqCronDiv(iAfter, p->nEvery);
    if( nDue>0 ) *piLast = iLast*p->nEvery;
    return nDue>(u64)CQ_I64_MAX ? CQ_I64_MAX : (i64)nDue;
  }
  a = cqCronMinute(iAfter, nOffset);
  b = cqCronMinute(iNow, nOffset);
  n = cqCronTimes(p, CQ_CRON_DAY-1)*cqCronDayCount(p, a.iDay, b.iDay);
  if( cqCronDayRun(p, a.iDay, a.iDay+1) ) n -= cqCronTimes(p, a.iTime);
  if( cqCronDayRun(p, b.iDay, b.iDay+1) ) n += cqCronTimes(p, b.iTime);
  assert( n>=0 );
  if( n>0 ) *piLast = cqCronLast(p, nOffset, iNow);
  return n;
}
