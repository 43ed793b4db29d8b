/*
** core/cron.c: when a schedule is due.
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
** Fields are read in local time: UTC plus an offset in minutes that never
** changes, or the clocks of a place (core/zone.c), which are changed now and
** then.  A period knows neither.
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
**
** Where clocks are changed
**
** A time that is skipped comes at the first moment after the gap.  One that the
** clocks show twice comes once, the first time; but if the hour is `*` or has a
** step, it comes whenever they show it:
**
**     30 2 * * *    comes at 3:00 on the day on which 2:00 becomes 3:00, and
**                   once on the day on which 3:00 becomes 2:00
**     30 * * * *    comes at 1:30, 3:00 (for 2:30) and 3:30 on the first of
**                   these days, and twice at 2:30 on the other
**
** A zone is a row of spans, in each of which local time is UTC plus a constant.
** Three numbers decide what is due in one of them: the local time at which it
** begins and ends, and the highest that any earlier span has reached.  If the
** span begins above that, what is between was skipped, and comes at its
** beginning.  If it begins below, what is between is shown again.
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

#define CQ_CRON_STAR  0x01        /* What a field has among its elements */
#define CQ_CRON_STEPS 0x02

/*
** Read one element of a field's list and add its values to *pMask.  Returns
** CQ_CRON_OK, or what is wrong with it.  *pmSeen gets CQ_CRON_STAR for a bare
** `*`, and CQ_CRON_STEPS for a step.
**
** A range that wraps is one that ends in the next round: 22-3 are the hours 22
** to 27, of which 24 and up are taken modulo 24.  Sunday as 7 comes out right
** by the same rule, at either end of a range.
*/
static int cqCronElement(
  const CqCronField *pField, CqText t, u64 *pMask, int *pmSeen
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
    *pmSeen |= CQ_CRON_STEPS;
    bStar = 0;
  }
  if( t.n>0 ) return CQ_CRON_SYNTAX;
  if( iTo<iFrom ) iTo += nValue;
  assert( iFrom>=pField->iMin && iTo>=iFrom && iTo-iFrom<=nValue );
  for(i=iFrom; i<=iTo; i+=nStep){
    *pMask |= (u64)1 << (pField->iMin + (i-pField->iMin)%nValue);
  }
  if( bStar ) *pmSeen |= CQ_CRON_STAR;
  return CQ_CRON_OK;
}

/*
** Read field iField, a list of elements.  Returns CQ_CRON_OK, or what is wrong;
** then pFault says where.  *pmSeen: as for cqCronElement().
*/
static int cqCronList(
  int iField, CqText t, u64 *pMask, int *pmSeen, CqCronFault *pFault
){
  const CqCronField *pField = claimqCronField(iField);
  CqText rest = t;
  int e;
  do{
    CqText part = rest;
    for(part.n=0; part.n<rest.n && rest.z[part.n]!=','; part.n++){}
    cqCronSkip(&rest, part.n);
    e = cqCronElement(pField, part, pMask, pmSeen);
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
  int amSeen[CQ_CRON_NFIELD] = { 0, 0, 0, 0, 0 };
  int i, e = CQ_CRON_OK;
  for(i=0; i<CQ_CRON_NFIELD; i++) aField[i] = cqCronWord(&rest);
  if( aField[CQ_CRON_NFIELD-1].n==0 || cqCronWord(&rest).n>0 ){
    return CQ_CRON_FIELDS;
  }
  for(i=0; i<CQ_CRON_NFIELD && e==CQ_CRON_OK; i++){
    e = cqCronList(i, aField[i], &pOut->aMask[i], &amSeen[i], pFault);
  }
  pOut->bEither = (amSeen[CQ_CRON_MONTHDAY] & CQ_CRON_STAR)==0
               && (amSeen[CQ_CRON_WEEKDAY] & CQ_CRON_STAR)==0;
  pOut->bBoth = amSeen[CQ_CRON_HOUR]!=0;
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
** When, in local minutes since 1970
*/

/* A minute as a day and a minute of it. */
typedef struct CqMinute CqMinute;
struct CqMinute {
  i64 iDay;
  int iTime;                      /* 0..1439 */
};

/* Which day, and which minute of it. */
static CqMinute cqCronMinute(i64 i){
  CqMinute t;
  t.iDay = cqCronDiv(i, CQ_CRON_DAY);
  t.iTime = (int)(i - t.iDay*CQ_CRON_DAY);
  assert( t.iTime>=0 && t.iTime<CQ_CRON_DAY );
  return t;
}

/*
** The first minute after iAfter at which the fields are due: 1, or 0 if there
** is none.
*/
static int cqCronAfter(const CqCron *p, i64 iAfter, i64 *piNext){
  CqMinute t = cqCronMinute(iAfter);
  CqMonth m;
  u64 mDay;
  int i, iDay, iTime;
  cqCronMonthOf(t.iDay, &m);
  mDay = cqCronDays(p, &m);
  iDay = (int)(t.iDay - m.iFirst) + 1;
  iTime = cqCronHas(mDay, iDay) ? cqCronTimeFrom(p, t.iTime+1) : -1;
  if( iTime>=0 ){
    *piNext = t.iDay*CQ_CRON_DAY + iTime;
    return 1;
  }
  for(i=0; i<CQ_CRON_MONTHS; i++){
    iDay = cqCronFrom(mDay, iDay+1);
    if( iDay>0 ){
      *piNext = (m.iFirst+iDay-1)*CQ_CRON_DAY + cqCronTimeFrom(p, 0);
      return 1;
    }
    cqCronMonthNext(&m);
    mDay = cqCronDays(p, &m);
    iDay = 0;
  }
  return 0;
}

/*
** The last minute up to iNow at which the fields were due.  The caller knows
** that they are due at some time, and so were before.
*/
static i64 cqCronUntil(const CqCron *p, i64 iNow){
  CqMinute t = cqCronMinute(iNow);
  CqMonth m;
  u64 mDay;
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
  return (m.iFirst+iDay-1)*CQ_CRON_DAY + iTime;
}

/**************************************************************************
** When, with an offset that never changes
*/

/* The first multiple of the period after iAfter: 1, or 0 if it is 2^63 or
** later. */
static int cqCronEvery(const CqCron *p, i64 iAfter, i64 *piNext){
  i64 n = cqCronDiv(iAfter, p->nEvery);
  if( n>=CQ_I64_MAX/p->nEvery ) return 0;
  *piNext = (n+1)*p->nEvery;
  return 1;
}

/*
** The first time after iAfter at which the schedule is due: 1, or 0 if there is
** none before 2^63.  nOffset: local time minus UTC, in minutes.
*/
CQ_PRIV int claimqCronNext(
  const CqCron *p, int nOffset, i64 iAfter, i64 *piNext
){
  i64 i;
  assert( nOffset>=-CQ_CRON_OFFSET_MAX && nOffset<=CQ_CRON_OFFSET_MAX );
  if( p->nEvery ) return cqCronEvery(p, iAfter, piNext);
  if( !cqCronAfter(p, cqCronDiv(iAfter, CQ_CRON_MS)+nOffset, &i) ) return 0;
  i -= nOffset;
  if( i>CQ_I64_MAX/CQ_CRON_MS ) return 0;
  *piNext = i*CQ_CRON_MS;
  return 1;
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
  i64 n, iMinute;
  assert( nOffset>=-CQ_CRON_OFFSET_MAX && nOffset<=CQ_CRON_OFFSET_MAX );
  if( iNow<=iAfter ) return 0;
  if( p->nEvery ){
    i64 iLast = cqCronDiv(iNow, p->nEvery);
    u64 nDue = (u64)iLast - (u64)cqCronDiv(iAfter, p->nEvery);
    if( nDue>0 ) *piLast = iLast*p->nEvery;
    return nDue>(u64)CQ_I64_MAX ? CQ_I64_MAX : (i64)nDue;
  }
  iMinute = cqCronDiv(iNow, CQ_CRON_MS) + nOffset;
  a = cqCronMinute(cqCronDiv(iAfter, CQ_CRON_MS) + nOffset);
  b = cqCronMinute(iMinute);
  n = cqCronTimes(p, CQ_CRON_DAY-1)*cqCronDayCount(p, a.iDay, b.iDay);
  if( cqCronDayRun(p, a.iDay, a.iDay+1) ) n -= cqCronTimes(p, a.iTime);
  if( cqCronDayRun(p, b.iDay, b.iDay+1) ) n += cqCronTimes(p, b.iTime);
  assert( n>=0 );
  if( n>0 ) *piLast = (cqCronUntil(p, iMinute)-nOffset)*CQ_CRON_MS;
  return n;
}

/**************************************************************************
** When, by the clocks of a place.  All but iAfter, iNow and the answers are
** seconds.
*/
#define CQ_CRON_BACK 16           /* Spans that can matter, and far more */

/*
** The highest local time that clocks have shown before a span.  Only the spans
** that end shortly before can have reached beyond where it begins.
*/
static i64 cqCronShown(const CqZone *pZone, const CqSpan *p){
  i64 iShown = -2*CQ_ZONE_EVER;
  CqSpan s = *p;
  int i;
  for(i=0; i<CQ_CRON_BACK && s.iFrom>-CQ_ZONE_EVER
        && s.iFrom>p->iFrom-CQ_ZONE_NEAR; i++){
    claimqZoneSpan(pZone, s.iFrom-1, &s);
    if( s.iTo+s.nOffset>iShown ) iShown = s.iTo+s.nOffset;
  }
  return iShown;
}

/* A span, and what decides what is due in it. */
typedef struct CqCronSpan CqCronSpan;
struct CqCronSpan {
  CqSpan s;
  i64 iLow;                       /* No local time below this one is due */
  u8 bGap;                        /* Its beginning is due: see above */
};

/* The span around iAt. */
static void cqCronSpan(
  const CqCron *p, const CqZone *pZone, i64 iAt, CqCronSpan *pOut
){
  i64 iShown, iLocal;
  claimqZoneSpan(pZone, iAt, &pOut->s);
  iShown = cqCronShown(pZone, &pOut->s);
  pOut->iLow = pOut->s.iFrom + pOut->s.nOffset;
  pOut->bGap = iShown>-CQ_ZONE_EVER && iShown<pOut->iLow
            && cqCronAfter(p, cqCronDiv(iShown-1, 60), &iLocal)
            && iLocal*60<pOut->iLow;
  if( !p->bBoth && iShown>pOut->iLow ) pOut->iLow = iShown;
}

/*
** The first time after iAfter at which the schedule is due by the clocks of
** pZone: 1, or 0 if there is none before 2^63.
*/
CQ_PRIV int claimqCronNextIn(
  const CqCron *p, const CqZone *pZone, i64 iAfter, i64 *piNext
){
  i64 iFrom = cqCronDiv(iAfter, 1000) + 1, i;
  CqCronSpan c;
  if( p->nEvery ) return cqCronEvery(p, iAfter, piNext);
  for(cqCronSpan(p, pZone, iFrom, &c); 1; cqCronSpan(p, pZone, c.s.iTo, &c)){
    if( c.bGap && c.s.iFrom>=iFrom ){
      i = c.s.iFrom;
      break;
    }
    i = iFrom + c.s.nOffset;
    if( !cqCronAfter(p, cqCronDiv((i>c.iLow ? i : c.iLow)-1, 60), &i) ){
      return 0;
    }
    i = i*60 - c.s.nOffset;
    if( i<c.s.iTo ) break;
  }
  assert( i>=iFrom );
  if( i>CQ_I64_MAX/1000 ) return 0;
  *piNext = i*1000;
  return 1;
}

/* The last time up to iNow at which the schedule was due.  The caller knows
** that there is one. */
static i64 cqCronLastIn(const CqCron *p, const CqZone *pZone, i64 iNow){
  i64 iTo = cqCronDiv(iNow, 1000), i;
  CqCronSpan c;
  cqCronSpan(p, pZone, iTo, &c);
  while( 1 ){
    i = cqCronUntil(p, cqCronDiv(iTo+c.s.nOffset, 60))*60;
    if( i>=c.iLow ) return (i-c.s.nOffset)*1000;
    if( c.bGap ) return c.s.iFrom*1000;
    iTo = c.s.iFrom - 1;
    cqCronSpan(p, pZone, iTo, &c);
  }
}

/*
** How often the schedule was due after iAfter and up to iNow by the clocks of
** pZone, at most CQ_CRON_MANY times; and in *piLast the last of all these
** times, if it was due at all.
*/
CQ_PRIV i64 claimqCronDueIn(
  const CqCron *p, const CqZone *pZone, i64 iAfter, i64 iNow, i64 *piLast
){
  i64 n, iAt = iAfter;
  if( p->nEvery ) return claimqCronDue(p, 0, iAfter, iNow, piLast);
  for(n=0; n<CQ_CRON_MANY; n++){
    if( !claimqCronNextIn(p, pZone, iAt, &iAt) || iAt>iNow ) break;
    *piLast = iAt;
  }
  if( n==CQ_CRON_MANY ) *piLast = cqCronLastIn(p, pZone, iNow);
  return n;
}
