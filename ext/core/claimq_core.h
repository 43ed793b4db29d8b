/*
** claimq_core.h: the pure rules.
**
** Everything declared here is a function of its arguments: no sqlite3, no
** malloc, no clock, no randomness, no globals that change.  A program that
** links these files alone (test/core_test.c does) can run the rules
** exhaustively, and another implementation can be held against them.
**
** One boxed section per .c file.
*/
#ifndef CLAIMQ_CORE_H
#define CLAIMQ_CORE_H

/* What ext/store/gate.c asks of Linux is not in ISO C. */
#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
# define _DEFAULT_SOURCE 1
#endif

/* assert() is for builds with -DCLAIMQ_DEBUG, as it is in SQLite. */
#if !defined(NDEBUG) && !defined(CLAIMQ_DEBUG)
# define NDEBUG 1
#endif

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* For conditions that are always or never true, as far as anybody knows, and
** are looked at all the same (as ALWAYS() and NEVER() in SQLite).  In a build
** that counts what is reached they are constants, so that the other branch is
** not there to be missed; with CLAIMQ_DEBUG it is an error to meet it. */
#if defined(CLAIMQ_COVERAGE_TEST)
# define CQ_ALWAYS(X) (sizeof(X)!=0)
# define CQ_NEVER(X)  (sizeof(X)==0)
#elif !defined(NDEBUG)
# define CQ_ALWAYS(X) ((X) ? 1 : (assert(0), 0))
# define CQ_NEVER(X)  ((X) ? (assert(0), 1) : 0)
#else
# define CQ_ALWAYS(X) (X)
# define CQ_NEVER(X)  (X)
#endif

/* What a discipline may have and all of these here do.  It is no branch in a
** build that counts what is reached, because none of claimq's own tests can
** take the other one: test/fifth.test does, with a discipline that has none. */
#ifdef CLAIMQ_COVERAGE_TEST
# define CQ_HOOK(X) (sizeof(X)!=0)
#else
# define CQ_HOOK(X) ((X)!=0)
#endif

#ifndef SQLITE_AMALGAMATION
typedef unsigned char u8;
typedef unsigned int u32;
typedef long long int i64;
typedef unsigned long long int u64;
#endif

/* Cross-file names are static in the amalgamation, hidden elsewhere. */
#ifdef CLAIMQ_AMALGAMATION
# define CQ_PRIV static
#else
# define CQ_PRIV
#endif

/* A condition that the compiler can check, as a declaration of its own. */
#define CQ_CHECK(NAME, X) typedef char CqCheck##NAME[(X) ? 1 : -1]
#define CQ_ARRAYSIZE(A) ((int)(sizeof(A)/sizeof(A[0])))

#define CQ_I64_MAX ((i64)0x7fffffffffffffffLL)
#define CQ_I64_MIN (-CQ_I64_MAX-1)
#define CQ_NO_TIME ((i64)-1)      /* Never: times to come are >=0 */

/* A slice of UTF-8 text.  z==0 means "no value" (SQL NULL). */
typedef struct CqText CqText;
struct CqText {
  const char *z;
  int n;
};

/**************************************************************************
** Interface to sha256.c: FIPS 180-4, self-contained.
*/
typedef struct CqSha256 CqSha256;
struct CqSha256 {
  u32 aH[8];
  u64 nByte;                      /* Bytes hashed so far */
  u8 aBuf[64];                    /* The unfinished block */
};
CQ_PRIV void claimqSha256Init(CqSha256*);
CQ_PRIV void claimqSha256Update(CqSha256*, const void*, size_t);
CQ_PRIV void claimqSha256Final(CqSha256*, u8 aOut[32]);
CQ_PRIV void claimqSha256Hex(CqSha256*, char zOut[65]);  /* Final, as hex+NUL */

/**************************************************************************
** Interface to rust_debug.c: Rust's {:?} escaping of str.
*/
/* Feed the escaped form of (z,n), without the quotes, to xOut. */
CQ_PRIV void claimqRustDebug(
  const char *z, int n, void (*xOut)(void*, const void*, size_t), void *pCtx
);

/**************************************************************************
** Interface to core/text.c: texts, UTF-8, integers as text.
*/
CQ_PRIV int claimqTextEq(CqText, CqText);
CQ_PRIV int claimqTextCompare(CqText, CqText);  /* <0, 0, >0, by bytes */
CQ_PRIV void claimqTextSort(CqText*, int n);    /* O(n log n), in place */
CQ_PRIV int claimqUtf8Valid(const char *z, int n);      /* 1 or 0 */
/* Bytes of the one code point that (z,n) begins with, 0 if it is invalid. */
CQ_PRIV int claimqUtf8Decode(const char *z, int n, u32 *pCode);
CQ_PRIV int claimqI64Text(i64 v, char zOut[21]);  /* length; always NUL-ended */
/* Inverse: 1 if the text is exactly what claimqI64Text() writes, else 0. */
CQ_PRIV int claimqI64Parse(CqText, i64*);
CQ_PRIV i64 claimqAddSat(i64 a, i64 b);  /* a+b, b>=0, saturating at 2^63-1 */

/**************************************************************************
** Interface to core/id.c: claim ids, lease tokens, batch ids.
*/
#define CQ_CLAIM_ID_SZ  48        /* "qwc:" + two 64-bit integers + NUL */
#define CQ_TOKEN_SZ     65        /* 64 hex digits + NUL */
#define CQ_BATCH_ID_SZ  69        /* "qwb:" + 64 hex digits + NUL */
CQ_CHECK(IdSizes, CQ_CLAIM_ID_SZ>=4+2*20+2 && CQ_BATCH_ID_SZ==4+CQ_TOKEN_SZ);

/* Write PREFIX:HEAD:FENCE, return its length.  zPrefix is "qwc" etc. */
CQ_PRIV int claimqClaimId(const char *zPrefix, i64 iHead, i64 iFence, char*);

/* Inverse: 1 and *piHead,*piFence when id is exactly what claimqClaimId()
** writes for this prefix (no leading zeros, signs, overflow), else 0. */
CQ_PRIV int claimqClaimIdParse(CqText id, const char *zPrefix, i64*, i64*);

CQ_PRIV void claimqLeaseToken(
  CqText scope, CqText owner, CqText incarnation, CqText claimId, i64 iNow,
  char zOut[CQ_TOKEN_SZ]
);
/* key.z==0 is None.  pNonce==0: no nonce. */
CQ_PRIV void claimqBatchId(
  CqText session, CqText key, i64 iNow, const i64 *pNonce,
  char zOut[CQ_BATCH_ID_SZ]
);

/**************************************************************************
** Interface to core/json.c: a pull reader for the little JSON that options
** carry.  No memory is taken: strings are slices of the input, unescaped on
** request.
*/
typedef struct CqJson CqJson;
struct CqJson {
  CqText in;
  int i;                          /* Next byte to read */
  int nDepth;                     /* Open arrays and objects */
  u8 eState;                      /* What may come next (core/json.c) */
  u8 aKind[32];                   /* '[' or '{' per level: 32 levels at most */
  CqText tok;                     /* Raw token: strings without the quotes */
};
#define CQ_JSON_ERROR  0          /* Malformed, or nested too deep */
#define CQ_JSON_END    1          /* The one top-level value is complete */
#define CQ_JSON_ARRAY  2          /* '[' */
#define CQ_JSON_OBJECT 3          /* '{' */
#define CQ_JSON_CLOSE  4          /* ']' or '}' */
#define CQ_JSON_KEY    5          /* A member name; its value follows */
#define CQ_JSON_STRING 6
#define CQ_JSON_NUMBER 7
#define CQ_JSON_WORD   8          /* true, false, null */

CQ_PRIV void claimqJsonInit(CqJson*, CqText);
CQ_PRIV int claimqJsonNext(CqJson*);               /* one of CQ_JSON_* */
CQ_PRIV int claimqJsonObject(CqText);  /* 1: the text is one */
CQ_PRIV int claimqJsonSkip(CqJson*);  /* skip the value that comes next: 1 ok */
/* Unescape a raw string slice into zOut (at least raw.n bytes; UTF-8, \u0000
** gives one NUL byte, surrogate pairs are joined, a lone surrogate is -1).
** Returns the length.  zOut==0 only measures. */
CQ_PRIV int claimqJsonText(CqText raw, char *zOut);
/* 1 if the unescaped raw slice equals x, byte for byte. */
CQ_PRIV int claimqJsonEq(CqText raw, CqText x);
/* The integer of a number token (3; 3.0 is refused): 1 ok */
CQ_PRIV int claimqJsonInt(CqText tok, i64 *pOut);
/* Write t as a JSON string, at most 6*t.n+2 bytes.  Returns the end. */
CQ_PRIV char *claimqJsonWrite(CqText t, char *z);

/**************************************************************************
** Interface to core/session.c: what one claim of a session may take.
*/
#define CQ_WORK_TURN           0  /* work_class */
#define CQ_WORK_COMMAND        1
#define CQ_DELIVER_EARLIEST    0  /* delivery_policy */
#define CQ_DELIVER_COMMIT      1
#define CQ_SLOT_EXCLUSIVE      0  /* slot_policy */
#define CQ_SLOT_JOIN           1
#define CQ_BOUNDARY_IDLE       0  /* boundary */
#define CQ_BOUNDARY_CHECKPOINT 1
#define CQ_TAKE_TURN           0  /* take */
#define CQ_TAKE_COMMAND        1
#define CQ_TAKE_ANY            2

/* Zero-terminated lists of the words above, in the order of their numbers. */
CQ_PRIV const char *const *claimqWorkWords(void);
CQ_PRIV const char *const *claimqDeliveryWords(void);
CQ_PRIV const char *const *claimqSlotWords(void);
CQ_PRIV const char *const *claimqBoundaryWords(void);
CQ_PRIV const char *const *claimqTakeWords(void);
CQ_PRIV int claimqWord(const char *const *azWord, CqText); /* number, or -1 */
CQ_PRIV int claimqMergeKeyOk(CqText);  /* never, payload_default, group:LABEL */

typedef struct CqCand CqCand;     /* What a claim looks at in a batch */
struct CqCand {
  u8 eWork, eDelivery, eSlot;
  CqText merge;
  u8 bClaimed;                    /* A claim is written in it, */
  i64 iExpires;                   /* which ends then */
  i64 iAvailable;
};
/* Why the batch is not claimed now: CQ_WHY_CLAIMABLE, HELD, DELAYED. */
CQ_PRIV int claimqBatchWhy(const CqCand*, i64 iNow);
CQ_PRIV int claimqHeadWhy(int eBoundary, int eTake, const CqCand*);
/* Option batch_ids, a JSON array of strings: their number, -1 if it is none. */
CQ_PRIV int claimqBatchIdsCount(CqText json);
/* 1 if the array, which was counted, names exactly the n batches of aHeld.
** aHeld is sorted; room: aItem for as many as were counted, zText for json.n
** bytes. */
CQ_PRIV int claimqBatchIdsNamed(
  CqText json, CqText *aHeld, int n, CqText *aItem, char *zText
);
typedef struct CqSelect CqSelect; /* One selection in progress */
struct CqSelect {
  u8 eBoundary, eTake;
  i64 nMax;                       /* Take no more than this */
  i64 nTaken;
  u8 bDone;                       /* Nothing further can be taken */
  CqCand head;                    /* The first one taken */
};
CQ_PRIV void claimqSelectInit(CqSelect*, int eBoundary, int eTake, i64 nMax);
/* Offer the next candidate in order: 1 taken, 0 not taken and selection over.
** After a taken candidate bDone tells whether offering more is useful.
** pCand->merge must stay valid while the selection lasts. */
CQ_PRIV int claimqSelectOffer(CqSelect*, const CqCand*);
CQ_PRIV i64 claimqScanLimit(i64 nMax);  /* nMax+32, saturating */

/**************************************************************************
** Interface to core/lease.c: the lease, the same for every discipline.
*/
CQ_PRIV int claimqLeaseLive(i64 iExpires, i64 iNow);   /* iExpires > iNow */
CQ_PRIV i64 claimqSooner(i64, i64);       /* Of two times, or CQ_NO_TIME */

#define CQ_HOLD_OK        0       /* The claim holds all its rows */
#define CQ_HOLD_UNKNOWN   1       /* No trace of it: unknown or settled */
#define CQ_HOLD_TOKEN     2       /* The claim is there, the token is not its */
#define CQ_HOLD_DISPLACED 3       /* Another claim took a row, or it is gone */
#define CQ_HOLD_NEVER     4       /* The row is there and never had it */
#define CQ_HOLD_EXPIRED   5       /* Its lease is over, where that is a loss */
typedef struct CqHold CqHold;
struct CqHold {
  i64 nSize;                      /* Rows it was given */
  i64 nRow;                       /* Rows that still carry its claim id */
  i64 nToken;                     /* ... and its lease token */
  i64 iFence;                     /* The fencing token it was given */
  i64 iLast;                      /* The last one of the head row */
  u8 bHead;                       /* The head row exists (whoever holds it) */
};
CQ_PRIV int claimqHoldVerdict(const CqHold*);

/* Why a row is not claimed: the reasons of claimq_why, in their order.  One
** function of each discipline gives the reason for one row; claims take the
** rows for which it is CQ_WHY_CLAIMABLE. */
#define CQ_WHY_CLAIMABLE  0
#define CQ_WHY_HELD       1       /* By a live claim */
#define CQ_WHY_DELAYED    2       /* Not yet available */
#define CQ_WHY_CAPABILITY 3       /* The worker lacks one */
#define CQ_WHY_PARTITION  4       /* In another partition */
#define CQ_WHY_COMMAND    5       /* Behind a command */
#define CQ_WHY_BOUNDARY   6       /* Not deliverable at this boundary */
#define CQ_WHY_BUSY       7       /* Serial, and its session is busy */
#define CQ_WHY_KEPT_BACK  8       /* Behind one that waits for its retry */
#define CQ_WHY_GRANT      9       /* Needs a grant */
#define CQ_WHY_RECLAIMS  10       /* Reclaimed as often as it may be */
#define CQ_WHY_BLOCKED   11       /* Waits for other jobs */
#define CQ_WHY_LIMIT     12
#define CQ_WHY_RATE      13
#define CQ_WHY_PAUSED    14
#define CQ_WHY_ZONE      15       /* Nobody knows its clocks here */
#define CQ_WHY_UNKNOWN   16       /* Somebody corrupted it */
CQ_PRIV const char *const *claimqWhyWords(void);
/* What every row has: not available yet, held by a live claim, or claimable.
** bClaimed: a claim is written in it. */
CQ_PRIV int claimqRowWhy(i64 iAvailable, int bClaimed, i64 iExpires, i64 iNow);

/**************************************************************************
** Interface to core/lane.c: order, reasons and backoff of jobs.
*/
typedef struct CqJobKey CqJobKey;
struct CqJobKey {
  i64 iPriority, iCreated, iJob;
};
/* <0 if a goes before b: priority descending, created, id. */
CQ_PRIV int claimqJobCompare(const CqJobKey *a, const CqJobKey *b);

typedef struct CqJobState CqJobState;     /* What decides about a job */
struct CqJobState {
  i64 iAvailable;
  u8 bActive;                     /* Claimed, by a live claim or an expired */
  u8 bAuto;                       /* An expired one is claimable again */
  i64 iExpires;
  i64 nReclaim, nMaxReclaim;
};
CQ_PRIV int claimqJobWhy(const CqJobState*, i64 iNow);    /* CQ_WHY_* */

/* min(iBase * iFactor^nRetry, iMax), saturating, all arguments >= 0. */
CQ_PRIV i64 claimqBackoff(i64 iBase, i64 iFactor, i64 nRetry, i64 iMax);

/**************************************************************************
** Interface to core/outbox.c: names, partitions and progress of the outbox.
*/
#define CQ_PARTITION_MAX    1024  /* Partitions of a queue */
#define CQ_QUEUE_NAME_MAX   1024  /* Bytes */
#define CQ_PAYLOAD_TYPE_MAX 1024
CQ_PRIV int claimqQueueNameOk(CqText);    /* 1 or 0 */
CQ_PRIV int claimqPayloadTypeOk(CqText);  /* 1 or 0 */
CQ_PRIV i64 claimqKeyPartition(CqText key, i64 nPartition);

typedef struct CqWaiting CqWaiting;       /* A partition in line */
struct CqWaiting {
  i64 iSince, iPartition;
};
CQ_PRIV int claimqWaitsLonger(const CqWaiting *a, const CqWaiting *b);

#define CQ_PROGRESS_COMPLETE 0
#define CQ_PROGRESS_RELEASE  1
#define CQ_PROGRESS_RETRY    2
#define CQ_PROGRESS_REJECT   3
typedef struct CqDelivery CqDelivery;     /* What a claim has delivered */
struct CqDelivery {
  i64 iCursor;                    /* processed_seq */
  i64 nMsg, iLast;                /* Messages, and the last of them */
  i64 nAttempt;                   /* This claim included */
};
typedef struct CqProgress CqProgress;     /* What a verb makes of it */
struct CqProgress {
  i64 nDone, iDone;               /* Messages processed, the last of them */
  i64 iCursor;                    /* The new processed_seq */
  i64 nAttempt;
  u8 eError;                      /* CQ_ERROR_*: what becomes of last_error */
};
#define CQ_ERROR_CLEAR  0
#define CQ_ERROR_KEEP   1
#define CQ_ERROR_REASON 2
/* Option `processed` (0: not given) -> how many messages; -1: refused. */
CQ_PRIV i64 claimqProcessed(const CqDelivery*, int eVerb, const i64*);
CQ_PRIV i64 claimqDoneSeq(const CqDelivery*, i64 nDone);  /* -1: look it up */
CQ_PRIV void claimqProgress(
  const CqDelivery*, int eVerb, i64 nDone, i64 iDone, CqProgress*
);
CQ_PRIV i64 claimqDegrade(i64 nMax, i64 nAttempt);

/**************************************************************************
** Interface to core/caps.c: sets of capabilities, many of them.
*/
/* A JSON array of non-empty strings: number of elements, -1 if malformed,
** -2 if an element is empty or not a string. */
CQ_PRIV int claimqCapsCheck(CqText json);
/* Take apart a list that was checked before, sorted, each element once.  Room:
** aItem for all elements, zText for json.n bytes.  Returns their number. */
CQ_PRIV int claimqCapsSplit(CqText json, CqText *aItem, char *zText);
/* The one way to write them: returns the length.  zOut: 3 * json.n bytes. */
CQ_PRIV int claimqCapsJoin(const CqText *aItem, int n, char *zOut);
/* 1 if required (not checked before) is a list of some of these. */
CQ_PRIV int claimqCapsMeet(CqText required, const CqText *aItem, int n);
/* Write those that are missing as a list; zOut has room for required.n+2 bytes.
** Returns the length, 0 if the required list is malformed. */
CQ_PRIV int claimqCapsMissing(CqText required, const CqText *aItem, int n,
                              char *zOut);

/**************************************************************************
** Interface to core/zone.c: the clocks of a place.  Times are seconds.
*/
#define CQ_ZONE_MAX  65536        /* Bytes of a zoneinfo file */
#define CQ_ZONE_EVER ((i64)1<<60) /* No time is before -EVER, or so late */
#define CQ_ZONE_NEAR 183600       /* Two offsets differ by less than this */
#define CQ_ZONE_WEEKDAY 0         /* Forms of a day: M3.5.0, */
#define CQ_ZONE_JULIAN  1         /*   J60, which is 1 March in any year, */
#define CQ_ZONE_YEARDAY 2         /*   59 */
typedef struct CqZoneDay CqZoneDay;       /* When a year changes its clocks */
struct CqZoneDay {
  u8 eForm;
  int iMonth, iWeek;              /* Of CQ_ZONE_WEEKDAY: 1..12, 1..5 */
  int iDay;                       /* 0..6, 1..365, 0..365 */
  int iTime;                      /* Seconds since midnight, by these clocks */
};
typedef struct CqZoneRule CqZoneRule;
struct CqZoneRule {
  int nStandard, nSummer;         /* Seconds ahead of UTC */
  u8 bSummer;                     /* There is a summer time */
  CqZoneDay begin, end;           /* ... which is between these */
};
typedef struct CqZone CqZone;     /* A zoneinfo file; the bytes are its own */
struct CqZone {
  const u8 *aMoment;              /* When the clocks were changed, */
  const u8 *aType;                /*   and to which of the types */
  const u8 *aRecord;              /* The types, 6 bytes each */
  int nMoment, szMoment, nType;
  int nLeap;                      /* Leap seconds; 0 in a file that is used */
  u8 bRule;                       /* After the last moment: */
  CqZoneRule rule;
};
typedef struct CqSpan CqSpan;     /* While clocks are as they are */
struct CqSpan {
  i64 iFrom, iTo;                 /* -EVER: always were; EVER: always will be */
  int nOffset;                    /* Seconds ahead of UTC */
};
/* 1, or 0 if it is no zoneinfo file that can be used. */
CQ_PRIV int claimqZoneParse(const u8 *aFile, int nFile, CqZone*);
CQ_PRIV void claimqZoneSpan(const CqZone*, i64 iAt, CqSpan*);

/**************************************************************************
** Interface to core/cron.c: when a schedule is due.
*/
#define CQ_CRON_MINUTE   0        /* The five fields */
#define CQ_CRON_HOUR     1
#define CQ_CRON_MONTHDAY 2
#define CQ_CRON_MONTH    3
#define CQ_CRON_WEEKDAY  4
#define CQ_CRON_NFIELD   5
typedef struct CqCronField CqCronField;
struct CqCronField {
  const char *zName;              /* "day of week" */
  const char *zNames;             /* Its values, "sunmontue..."; 0: none */
  int iMin, iMax;                 /* What `*` stands for */
  int iTop;                       /* Greatest number allowed; 7 is Sunday */
};
CQ_PRIV const CqCronField *claimqCronField(int iField);

typedef struct CqCron CqCron;     /* A schedule */
struct CqCron {
  i64 nEvery;                     /* A period in ms; 0: the fields decide */
  u64 aMask[CQ_CRON_NFIELD];      /* Bit i: the field has the value i */
  u8 bEither;                     /* One of the two day fields is enough */
  u8 bBoth;                       /* Hours that come twice count twice */
};
#define CQ_CRON_OK     0
#define CQ_CRON_FIELDS 1          /* Not five of them, nor a word, nor every */
#define CQ_CRON_WORD   2          /* No such word, or something follows it */
#define CQ_CRON_PERIOD 3          /* No number or unit, none, or too long */
#define CQ_CRON_SYNTAX 4          /* An element of field iField is malformed, */
#define CQ_CRON_RANGE  5          /*   has a value that the field has not, */
#define CQ_CRON_STEP   6          /*   or a step that is no number above 0 */
typedef struct CqCronFault CqCronFault;
struct CqCronFault {
  u8 eWhy;                        /* CQ_CRON_FIELDS .. CQ_CRON_STEP */
  u8 iField;                      /* For the last three of them */
  CqText part;                    /* What is at fault: a slice of the spec */
};
/* CQ_CRON_OK and *pOut, or another of them and *pFault. */
CQ_PRIV int claimqCronParse(CqText spec, CqCron *pOut, CqCronFault *pFault);

/* nOffset is local time minus UTC in minutes, -MAX..MAX. */
#define CQ_CRON_OFFSET_MAX 1439
/* The first time after iAfter: 1 and *piNext, or 0: never. */
CQ_PRIV int claimqCronNext(
  const CqCron*, int nOffset, i64 iAfter, i64 *piNext
);
/* How many times lie after iAfter and up to iNow; if any, *piLast is the last
** of them. */
CQ_PRIV i64 claimqCronDue(
  const CqCron*, int nOffset, i64 iAfter, i64 iNow, i64 *piLast
);
/* The same by the clocks of a place.  Above CQ_CRON_MANY is not counted. */
#define CQ_CRON_MANY 1000
CQ_PRIV int claimqCronNextIn(
  const CqCron*, const CqZone*, i64 iAfter, i64 *piNext
);
CQ_PRIV i64 claimqCronDueIn(
  const CqCron*, const CqZone*, i64 iAfter, i64 iNow, i64 *piLast
);

/**************************************************************************
** Interface to core/limit.c: how many claims may begin now, and when the next.
*/
#define CQ_RATE_MAX    10000      /* Claims in a window */
#define CQ_LIMIT_NEVER CQ_I64_MAX /* Not unless something else happens */
#define CQ_LIMIT_NONE   0         /* Why none may begin: one may */
#define CQ_LIMIT_PAUSED 1         /* A limit is 0 */
#define CQ_LIMIT_ACTIVE 2         /* All leases it allows are live */
#define CQ_LIMIT_RATE   3         /* All claims it allows have begun */
typedef struct CqLimit CqLimit;   /* Of a lane, or of each group in it */
struct CqLimit {
  i64 nActive;                    /* Live leases at a time; -1: any number */
  i64 nRate;                      /* Claims that begin in a window; -1: any */
  i64 nPer;                       /* Milliseconds of a window, above 0 */
};
typedef struct CqUse CqUse;       /* What is going on in it */
struct CqUse {
  i64 nLive;                      /* Live leases */
  i64 nStart;                     /* Starts recorded: the last nRate will do */
  i64 (*xEnd)(void*, i64 i);      /* When the i-th of the live leases ends */
  i64 (*xStart)(void*, i64 i);    /* When the i-th last claim began */
  void *pCtx;                     /* For both; i is 1..nLive, 1..nStart */
};
typedef struct CqRoom CqRoom;
struct CqRoom {
  i64 nRoom;                      /* How many claims may begin now */
  i64 iNext;                      /* When one may: now, later, or NEVER */
  u8 eWhy;                        /* CQ_LIMIT_*: NONE if nRoom>0 */
  u8 bGroup;                      /* ... and that is a limit of the group */
};
CQ_PRIV void claimqLimitRoom(
  const CqLimit*, const CqUse*, i64 nWant, i64 iNow, CqRoom*
);
CQ_PRIV void claimqLimitBoth(
  const CqRoom *pLane, const CqRoom *pGroup, CqRoom*
);
/* 1 if an expired claim may be renewed while nLive others are live. */
CQ_PRIV int claimqLimitSlot(const CqLimit*, i64 nLive);

/* Which jobs of which groups are taken: a job that could be. */
typedef struct CqOffer CqOffer;
struct CqOffer {
  CqJobKey key;
  int iGroup;                     /* Of which group, by any number */
  i64 nRoom;                      /* How many of the group may be taken */
  i64 iTurn;                      /* When it was served last; 0: never */
  int iHead, iPos;                /* The caller's own */
  i64 nRank;                      /* OUT: its place in the group */
  CqJobKey first;                 /* OUT: the first of the group */
};
/* Put those that are taken in front, in the order in which they are: at most
** nMax.  Returns their number. */
CQ_PRIV int claimqLimitPick(CqOffer*, int n, i64 nMax, int bFair);
/* Sort offers by the lane's order. */
CQ_PRIV void claimqOfferSort(CqOffer*, int n);

/**************************************************************************
** Interface to core/wait.c: how long to sleep before looking again.  Times
** called ms are by the system clock, us are microseconds since the beginning.
*/
typedef struct CqPace CqPace;     /* One wait in progress */
struct CqPace {
  i64 usTotal;                    /* The wait is over then */
  i64 msNow, msRef;               /* The clock, now and when usNaps was 0 */
  i64 usNaps, usBefore;           /* All naps since msRef; the time before */
  i64 msNextAt;                   /* Something falls due; or CQ_I64_MAX */
  i64 usPulse;                    /* When the last pulse was */
  i64 usBackstop;                 /* When a probe is due in any case */
  i64 usChange;                   /* When a commit was last seen; -1 */
  i64 usNap;                      /* The nap in progress */
  u8 eNap;                        /* ... and what it is for: core/wait.c */
  u8 bListen;                     /* A write would end it, or show then */
  u8 bHold;                       /* A commit was just seen, and was not ours */
  u8 bDue;                        /* A look is under way because of msNextAt */
  int nAgain;                     /* Which nap since a write was reported; 0 */
  int nPoll, nCrowd, nEarly;      /* See claimqPaceNap() */
};
/* How a nap ended. */
#define CQ_WOKE_TOLD   0x01       /* Something was written meanwhile */
#define CQ_WOKE_FULL   0x02       /* It was slept to its end */
/* What to do then. */
#define CQ_PACE_PULSE  0x01       /* Notice an interrupt */
#define CQ_PACE_AIM    0x02       /* Are the right files watched? */
#define CQ_PACE_PROBE  0x04       /* Has anybody committed? */
#define CQ_PACE_LOOK   0x08       /* Look, whether or not */
#define CQ_PACE_OVER   0x10       /* ... and then give up: the time is over */
/* What was seen. */
#define CQ_SEEN_SAME   0          /* Nobody has committed */
#define CQ_SEEN_COMMIT 1          /* Somebody has */
#define CQ_SEEN_BUSY   2          /* The database is locked: nothing is seen */

CQ_PRIV void claimqPaceInit(CqPace*, i64 msTimeout, i64 msNow, int bTold);
CQ_PRIV i64 claimqPaceNap(CqPace*, int bListen, int *pbDeaf);
CQ_PRIV int claimqPaceWake(CqPace*, int mWoke, i64 msNow);
CQ_PRIV void claimqPaceSeen(CqPace*, int eSeen, i64 msNextAt);
CQ_PRIV int claimqPaceIsFar(u32 iType);

/**************************************************************************
** Interface to vtab/claim_plan.c: which constraints of a WHERE clause are the
** arguments of a claim table, and which plans are refused.
*/
#define CQ_OP_EQ     0            /* = or IS */
#define CQ_OP_LIMIT  1
#define CQ_OP_OFFSET 2
#define CQ_OP_OTHER  3            /* Any other comparison */
typedef struct CqTerm CqTerm;     /* One constraint that SQLite offers */
struct CqTerm {
  int iCol;                       /* Column; of no meaning for LIMIT, OFFSET */
  u8 eOp;                         /* CQ_OP_* */
  u8 bUsable;
  u8 bConst;                      /* Compared with a literal, IN, IS NULL; of
                                  ** OFFSET: a literal greater than 0 */
};
typedef struct CqShape CqShape;   /* What the planner knows of a table */
struct CqShape {
  int nArg;
  u32 mRequired;                  /* Bit i: argument i must be given */
  u32 mRead;                      /* Bit i: the statement names its column */
  u32 mShown;                     /* Bit i: it reads that of the same name */
  const int *aiCol;               /* Column of each argument */
  const int *aiAlias;             /* Result column of the same name, or -1 */
};
#define CQ_PLAN_MAX   16          /* Arguments + LIMIT + OFFSET */
typedef struct CqPlan CqPlan;
struct CqPlan {
  int nTerm;                      /* Terms used */
  int aiTerm[CQ_PLAN_MAX];        /* Which one is argv[i] of xFilter */
  char zPlan[CQ_PLAN_MAX+1];      /* What argv[i] means: see claim_plan.c */
  int iBad;                       /* The term or argument that is at fault */
};
#define CQ_PLAN_OK       0
#define CQ_PLAN_RETRY    1        /* Not this way; SQLite may have another */
#define CQ_PLAN_MISSING  2        /* Required argument iBad is not there */
#define CQ_PLAN_TWICE    3        /* Argument iBad is given twice */
#define CQ_PLAN_ARG_OP   4        /* Argument iBad takes = only */
#define CQ_PLAN_FILTER   5        /* Term iBad filters claimed rows */
#define CQ_PLAN_LIMIT    6        /* LIMIT would throw claimed rows away */
#define CQ_PLAN_OFFSET   7        /* So would OFFSET */
#define CQ_PLAN_HIDDEN   8        /* Argument iBad is not shown by SQLite */
#define CQ_PLAN_AVOID    9        /* A plan, but one that xFilter refuses */

/* bOrder: there is an ORDER BY that the table does not deliver. */
CQ_PRIV int claimqPlan(
  const CqShape*, const CqTerm *aTerm, int nTerm, int bOrder, CqPlan*
);
/* What argv[i] of a plan means: an argument's number, or one of these. */
#define CQ_PLAN_ARGV_LIMIT  -1
#define CQ_PLAN_ARGV_OFFSET -2
#define CQ_PLAN_ARGV_AVOID  -3
CQ_PRIV int claimqPlanArgv(const char *zPlan, int i);
/* The number that follows a plan of nVal letters. */
CQ_PRIV i64 claimqPlanPrep(const char *zPlan, int nVal);
/* 1 if a text is a plan that xFilter refuses, with the number. */
CQ_PRIV int claimqPlanBad(const char *zPlan);

#endif /* CLAIMQ_CORE_H */
