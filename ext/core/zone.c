/*
** core/zone.c: the clocks of a place, as its zoneinfo file has them.
**
** A zoneinfo file (TZif, RFC 8536) is a table of the moments at which the
** clocks of a place were changed, and a rule for the times after the last of
** them.  This file reads one that is in memory, and answers one question: by
** how many seconds were clocks ahead of UTC at some moment, and from when until
** when did they stay so?
**
**     CqZone zone;
**     CqSpan span;
**     if( claimqZoneParse(aFile, nFile, &zone) ){      -- Europe/Berlin
**       claimqZoneSpan(&zone, 1700000000, &span);
**       -- span.nOffset is 3600, from 1698541200 until 1711846800
**     }
**
** All times here are seconds since 1970.
**
** The format
**
** A header of 44 bytes has "TZif", a version and six counts; what it counts
** follows:
**
**     moments         each 4 bytes, or 8 in the second block
**     types           for each moment the number of the type that begins then
**     type records    6 bytes each: seconds ahead of UTC, and two more bytes
**     names, leap seconds, and two lists of flags, which are of no use here
**
** From version 2 on there is a second header with a second block, whose moments
** have 8 bytes, and then the rule, between two line feeds:
**
**     CET-1CEST,M3.5.0,M10.5.0/3
**
** Before the first moment type 0 holds.  After the last one the rule does; if
** there is none, the type of the last moment does.
**
** The rule is what POSIX lets the variable TZ be.  Standard time is named CET
** and 1 hour *ahead* of UTC (the sign says what to add to get UTC), and summer
** time CEST, which is one hour more if nothing else is said.  It begins on the
** fifth (which means the last) Sunday (0) of March, at 2 o'clock if nothing
** else is said, and ends on the last of October at 3 o'clock of summer time.
** A day may also be J1 .. J365, where 29 February has no number, or 0 .. 365,
** where it has.  Names that are not letters are in <>.  A time may be negative
** or more than a day, up to 167 hours.  Summer time may be behind standard time
** (in Dublin it is winter that is the exception), and either may come first in
** a year.
**
** A file that is not so in any point is refused as a whole: nothing of what
** claimqZoneSpan() reads is outside of the file.  Files that count leap seconds
** (those in the folder `right`) are refused as well: the clocks of computers
** do not count them.
*/
#include "claimq_core.h"

#define CQ_ZONE_HEAD   44         /* Bytes of a header */
#define CQ_ZONE_DAY    86400      /* Seconds of a day */
#define CQ_ZONE_CYCLE  146097     /* Days of 400 years */
#define CQ_ZONE_YEARS  5          /* See cqZoneRuleSpan() */
#define CQ_ZONE_EVENTS (2*CQ_ZONE_YEARS)

/* An offset is within these, by the RFC: so two of them differ by less than
** CQ_ZONE_NEAR. */
#define CQ_ZONE_WEST (-89999)
#define CQ_ZONE_EAST 93599
CQ_CHECK(ZoneNear, CQ_ZONE_EAST-CQ_ZONE_WEST<CQ_ZONE_NEAR);

/**************************************************************************
** Reading the rule.  Behind it there is a line feed, at which all reading ends,
** because nothing that is looked for is one.
*/

/* Drop the first byte if it is c: 1 if it was. */
static int cqZoneEat(const char **pz, char c){
  if( (*pz)[0]!=c ) return 0;
  (*pz)++;
  return 1;
}

/* Drop a number of up to three digits: 1 and *pn if there is one, and it is
** within iMin..iMax; else 0. */
static int cqZoneNumber(const char **pz, int iMin, int iMax, int *pn){
  const char *z = *pz;
  int n = 0, i;
  for(i=0; i<3 && z[i]>='0' && z[i]<='9'; i++) n = n*10 + (z[i]-'0');
  *pz += i;
  *pn = n;
  return i>0 && n>=iMin && n<=iMax;
}

/* Drop a name, of three letters or more, or of whatever in <>: 1, or 0 if there
** is none. */
static int cqZoneName(const char **pz){
  int bQuoted = cqZoneEat(pz, '<');
  const char *z = *pz;
  for(; 1; z++){
    int bLetter = (*z>='A' && *z<='Z') || (*z>='a' && *z<='z');
    int bMore = (*z>='0' && *z<='9') || *z=='+' || *z=='-';
    if( !bLetter && (!bQuoted || !bMore) ) break;
  }
  if( z-*pz<3 ) return 0;
  *pz = z;
  return !bQuoted || cqZoneEat(pz, '>');
}

/* Drop a time, [+-]HH[:MM[:SS]] with at most nHour hours: 1 and *pn, its
** seconds, or 0 if there is none. */
static int cqZoneTime(const char **pz, int nHour, int *pn){
  int bMinus = cqZoneEat(pz, '-');
  int nMinute = 0, nSecond = 0, n;
  if( !bMinus ) cqZoneEat(pz, '+');
  if( !cqZoneNumber(pz, 0, nHour, &n) ) return 0;
  if( cqZoneEat(pz, ':') ){
    if( !cqZoneNumber(pz, 0, 59, &nMinute) ) return 0;
    if( cqZoneEat(pz, ':') && !cqZoneNumber(pz, 0, 59, &nSecond) ) return 0;
  }
  n = n*3600 + nMinute*60 + nSecond;
  *pn = bMinus ? -n : n;
  return 1;
}

/* Drop a day of the year and the time on it: 1, or 0 if there is none. */
static int cqZoneDay(const char **pz, CqZoneDay *pOut){
  int b;
  if( !cqZoneEat(pz, ',') ) return 0;
  if( cqZoneEat(pz, 'M') ){
    pOut->eForm = CQ_ZONE_WEEKDAY;
    b = cqZoneNumber(pz, 1, 12, &pOut->iMonth) && cqZoneEat(pz, '.')
     && cqZoneNumber(pz, 1, 5, &pOut->iWeek) && cqZoneEat(pz, '.')
     && cqZoneNumber(pz, 0, 6, &pOut->iDay);
  }else if( cqZoneEat(pz, 'J') ){
    pOut->eForm = CQ_ZONE_JULIAN;
    b = cqZoneNumber(pz, 1, 365, &pOut->iDay);
  }else{
    pOut->eForm = CQ_ZONE_YEARDAY;
    b = cqZoneNumber(pz, 0, 365, &pOut->iDay);
  }
  pOut->iTime = 7200;
  return b && (!cqZoneEat(pz, '/') || cqZoneTime(pz, 167, &pOut->iTime));
}

/* Read the rule, all of the line: 1, or 0 if it is none. */
static int cqZoneRule(const char *z, CqZoneRule *pOut){
  int n;
  if( !cqZoneName(&z) || !cqZoneTime(&z, 24, &n) ) return 0;
  pOut->nStandard = -n;
  pOut->bSummer = z[0]!='\n';
  if( !pOut->bSummer ) return 1;
  if( !cqZoneName(&z) ) return 0;
  pOut->nSummer = pOut->nStandard + 3600;
  if( z[0]!=',' ){
    if( !cqZoneTime(&z, 24, &n) ) return 0;
    pOut->nSummer = -n;
  }
  return cqZoneDay(&z, &pOut->begin) && cqZoneDay(&z, &pOut->end) && z[0]=='\n';
}

/**************************************************************************
** Reading the table
*/

/* A number of n bytes, the highest first, in two's complement. */
static i64 cqZoneInt(const u8 *a, int n){
  u64 v = a[0] & 0x80 ? ~(u64)0 : 0;
  int i;
  for(i=0; i<n; i++) v = v<<8 | a[i];
  return (i64)v;
}

/* When clocks were changed for the i-th time. */
static i64 cqZoneMoment(const CqZone *p, int i){
  assert( i>=0 && i<p->nMoment );
  return cqZoneInt(&p->aMoment[i*p->szMoment], p->szMoment);
}

/* The offset of type record i. */
static int cqZoneOffset(const CqZone *p, int i){
  assert( i>=0 && i<p->nType );
  return (int)cqZoneInt(&p->aRecord[i*6], 4);
}

/*
** Find the parts of the block whose header *pa points to; moments have szMoment
** bytes.  1, and *pa is behind the block; or 0 if it is not all there.
*/
static int cqZoneBlock(const u8 **pa, int *pn, int szMoment, CqZone *pOut){
  const u8 *a = *pa;
  i64 aCount[6], nAll;            /* Two lists of flags, leap seconds,
                                  ** moments, types, bytes of names */
  int i;
  if( *pn<CQ_ZONE_HEAD || memcmp(a, "TZif", 4)!=0 ) return 0;
  for(i=0; i<6; i++){
    aCount[i] = cqZoneInt(&a[20+4*i], 4);
    if( aCount[i]<0 || aCount[i]>CQ_ZONE_MAX ) return 0;
  }
  nAll = CQ_ZONE_HEAD + aCount[3]*(szMoment+1) + aCount[4]*6 + aCount[5]
       + aCount[2]*(szMoment+4) + aCount[1] + aCount[0];
  if( nAll>*pn ) return 0;
  memset(pOut, 0, sizeof(*pOut));
  pOut->szMoment = szMoment;
  pOut->nMoment = (int)aCount[3];
  pOut->nType = (int)aCount[4];
  pOut->nLeap = (int)aCount[2];
  pOut->aMoment = &a[CQ_ZONE_HEAD];
  pOut->aType = &pOut->aMoment[pOut->nMoment*szMoment];
  pOut->aRecord = &pOut->aType[pOut->nMoment];
  *pa += nAll;
  *pn -= (int)nAll;
  return 1;
}

/*
** Is the table one that can be used?  Moments go up, types are there, and no
** offset is so large that it cannot be one.
*/
static int cqZoneSound(const CqZone *p){
  i64 iBefore = -CQ_ZONE_EVER;
  int i;
  if( p->nType==0 || p->nLeap>0 ) return 0;
  for(i=0; i<p->nType; i++){
    int n = cqZoneOffset(p, i);
    if( n<CQ_ZONE_WEST || n>CQ_ZONE_EAST ) return 0;
  }
  for(i=0; i<p->nMoment; i++){
    i64 t = cqZoneMoment(p, i);
    if( t<=iBefore || t>=CQ_ZONE_EVER || p->aType[i]>=p->nType ) return 0;
    iBefore = t;
  }
  return 1;
}

/*
** Read a zoneinfo file, whose bytes must stay where they are as long as *pOut
** is used.  1, or 0 if it is none.
*/
CQ_PRIV int claimqZoneParse(const u8 *aFile, int nFile, CqZone *pOut){
  const u8 *a = aFile;
  int n = nFile;
  if( n>CQ_ZONE_MAX || !cqZoneBlock(&a, &n, 4, pOut) ) return 0;
  if( aFile[4]==0 ) return cqZoneSound(pOut);           /* Version 1 */
  if( aFile[4]<'2' || !cqZoneBlock(&a, &n, 8, pOut) ) return 0;
  if( n<2 || a[0]!='\n' || memchr(&a[1], '\n', (size_t)n-1)==0 ) return 0;
  pOut->bRule = a[1]!='\n';
  return cqZoneSound(pOut)
      && (!pOut->bRule || cqZoneRule((const char*)&a[1], &pOut->rule));
}

/**************************************************************************
** The rule, year by year.  Days are counted from 1970-01-01, which is day 0.
*/

/* a/b rounded down, also for negative a; b>0. */
static i64 cqZoneDiv(i64 a, i64 b){
  return a/b - (a%b<0);
}

static int cqZoneLeap(i64 y){
  return y%4==0 && (y%100!=0 || y%400==0);
}

/* The first day of a year: there are 477 leap years from the year 1 to 1969. */
static i64 cqZoneNewYear(i64 y){
  i64 n = y-1;
  return 365*(y-1970) + cqZoneDiv(n, 4) - cqZoneDiv(n, 100) + cqZoneDiv(n, 400)
       - 477;
}

/* The year that a day is in, or the one beside it: the mean year errs by a day
** or two. */
static i64 cqZoneYear(i64 iDay){
  return 1970 + cqZoneDiv(iDay*400, CQ_ZONE_CYCLE);
}

/* The iWeek-th weekday of a month, as a day of year y counted from 0. */
static int cqZoneWeekday(const CqZoneDay *p, i64 y){
  static const u8 aDay[] = { 31,28,31,30,31,30,31,31,30,31,30,31 };
  int nDay = aDay[p->iMonth-1], iFirst = 0, i;
  i64 iWeekday;
  if( p->iMonth==2 && cqZoneLeap(y) ) nDay = 29;
  for(i=1; i<p->iMonth; i++) iFirst += aDay[i-1];
  if( p->iMonth>2 && cqZoneLeap(y) ) iFirst++;
  iWeekday = cqZoneNewYear(y) + iFirst + 4;      /* Day 0 was a Thursday */
  i = p->iDay - (int)(iWeekday - 7*cqZoneDiv(iWeekday, 7));
  if( i<0 ) i += 7;
  i += (p->iWeek-1)*7;
  return iFirst + (i>=nDay ? i-7 : i);
}

/* When the clocks, which are nOffset seconds ahead of UTC, show day and time of
** *p in year y. */
static i64 cqZoneWhen(const CqZoneDay *p, i64 y, int nOffset){
  int i = p->iDay;
  if( p->eForm==CQ_ZONE_WEEKDAY ) i = cqZoneWeekday(p, y);
  else if( p->eForm==CQ_ZONE_JULIAN ) i += (cqZoneLeap(y) && i>=60) - 1;
  return (cqZoneNewYear(y)+i)*CQ_ZONE_DAY + p->iTime - nOffset;
}

/* A moment at which the clocks are changed, to this offset. */
typedef struct CqClockTurn CqClockTurn;
struct CqClockTurn {
  i64 iAt;
  int nOffset;
};

/*
** Fill a[] with the two changes of each of the years from y on, in their order.
** If two are at one moment the second counts: there, summer time that ends with
** the year and begins with the next is never interrupted.  (Both changes of a
** year are before the same ones of the next: so the first of a year may come
** before the last of the year before, and before nothing else.)
*/
static void cqZoneChanges(
  const CqZoneRule *p, i64 y, CqClockTurn a[CQ_ZONE_EVENTS]
){
  int i;
  for(i=0; i<CQ_ZONE_EVENTS; i+=2, y++){
    CqClockTurn begin, end;
    int bLate;
    begin.iAt = cqZoneWhen(&p->begin, y, p->nStandard);
    begin.nOffset = p->nSummer;
    end.iAt = cqZoneWhen(&p->end, y, p->nSummer);
    end.nOffset = p->nStandard;
    bLate = begin.iAt>end.iAt;
    a[i] = bLate ? end : begin;
    a[i+1] = bLate ? begin : end;
  }
  for(i=2; i<CQ_ZONE_EVENTS; i+=2){
    if( a[i-1].iAt>a[i].iAt ){
      CqClockTurn c = a[i];
      a[i] = a[i-1];
      a[i-1] = c;
    }
  }
}

/*
** The span around iAt by the rule.  A change may be a week before its year or
** after it, and the year is not exact on the days around New Year: so the two
** years before and the two after are looked at as well.
*/
static void cqZoneRuleSpan(const CqZoneRule *p, i64 iAt, CqSpan *pOut){
  CqClockTurn a[CQ_ZONE_EVENTS];
  int i;
  pOut->iFrom = -CQ_ZONE_EVER;
  pOut->iTo = CQ_ZONE_EVER;
  pOut->nOffset = p->nStandard;
  if( !p->bSummer ) return;
  cqZoneChanges(p, cqZoneYear(cqZoneDiv(iAt, CQ_ZONE_DAY))-2, a);
  assert( a[0].iAt<=iAt && a[CQ_ZONE_EVENTS-1].iAt>iAt );
  for(i=1; a[i].iAt<=iAt; i++){}
  pOut->iFrom = a[i-1].iAt;
  pOut->iTo = a[i].iAt;
  pOut->nOffset = a[i-1].nOffset;
}

/*
** The span around a moment: from when until when the clocks stay as they are,
** and how far ahead of UTC.  Spans that follow each other may have the same
** offset.
*/
CQ_PRIV void claimqZoneSpan(const CqZone *p, i64 iAt, CqSpan *pOut){
  int iLow = 0, iHigh = p->nMoment;       /* Moments below iLow have come, */
  assert( iAt>-CQ_ZONE_EVER && iAt<CQ_ZONE_EVER );
  while( iLow<iHigh ){                    /* from iHigh on they have not */
    int i = (iLow+iHigh)/2;
    if( cqZoneMoment(p, i)<=iAt ) iLow = i+1;
    else iHigh = i;
  }
  if( iLow==p->nMoment && p->bRule ){
    cqZoneRuleSpan(&p->rule, iAt, pOut);
    if( iLow>0 && cqZoneMoment(p, iLow-1)>pOut->iFrom ){
      pOut->iFrom = cqZoneMoment(p, iLow-1);
    }
  }else{
    pOut->iFrom = iLow>0 ? cqZoneMoment(p, iLow-1) : -CQ_ZONE_EVER;
    pOut->iTo = iLow<p->nMoment ? cqZoneMoment(p, iLow) : CQ_ZONE_EVER;
    pOut->nOffset = cqZoneOffset(p, iLow>0 ? p->aType[iLow-1] : 0);
  }
  assert( pOut->iFrom<=iAt && pOut->iTo>iAt );
}
