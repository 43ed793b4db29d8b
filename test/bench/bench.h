/*
** bench.h: what the files of the benchmark share.
**
** Two sides do the same work: *claimq*, and the *floor*, the least SQL that a
** careful person would write by hand for the same guarantee of one holder.
** Each side has a database file and a connection of its own, with the same
** settings.  What is reported is the ratio of their times.
**
**     bench.c          main(): options, and which groups run
**     bench_db.c       a side: file, connection, statements, what was done
**     bench_queue.c    the SQL of each queue, on both sides
**     bench_work.c     workloads, and the rounds that time them
**     bench_depth.c    the same claim with more and more in the queue
**     bench_contend.c  several processes on one file
**     bench_extra.c    limits, schedules, dependencies, beside a plain lane
**     bench_space.c    bytes written, size of the files
**     bench_open.c     opening, loading, first calls
**     bench_wait.c     being woken by a commit
**
** This is a program for one purpose, not a library: what goes wrong ends it,
** with a message and exit code 2 (benchDie).  So functions here do not fail.
*/
#ifndef CLAIMQ_BENCH_H
#define CLAIMQ_BENCH_H
#include <stddef.h>
#include <sqlite3.h>

typedef sqlite3_int64 i64;
typedef struct BnOptions BnOptions;
typedef struct BnQueue BnQueue;
typedef struct BnSide BnSide;
typedef struct BnClaim BnClaim;
typedef struct BnWork BnWork;
typedef struct BnTimes BnTimes;
typedef struct BnStat BnStat;

#define BN_FLOOR   0
#define BN_CLAIMQ  1
#define BN_NSIDE   2

#define BN_NSERIAL 6000000        /* Jobs that one side can tell apart */
#define BN_NPAYLOAD 50            /* Bytes of a payload */
#define BN_NCLAIM  128            /* Most rows of one claim */
#define BN_LEASE_MS 600000        /* No lease ends while we measure */
#define BN_BUSY_MS  60000
#define BN_NROUND_MAX 50

struct BnOptions {
  const char *zSo;                /* The extension to load */
  const char *zPlace;             /* "tmpfs" or "disk" */
  const char *zDir;               /* Where its database files are */
  const char *zOnly;              /* Workloads to run: a glob */
  int nRound;
  int bQuick;
  int bCpu;                       /* Count processor time, not real time */
  int bJson;
  int bCount;                     /* For callgrind: see bench_steady.c */
  int nScale;                     /* Operations of a block, in percent */
  int nMax;                       /* No depth above this; 0: all */
};

/**************************************************************************
** bench_db.c: a side.
*/

/* The statements of a queue. */
enum {
  BN_PUT,                         /* Add one: ?1 scope, ?2 payload, ?3 now */
  BN_FILL,                        /* Add many: BN_NUMBERS and so on, below */
  BN_TAKE,                        /* Claim: ?1 scope, ?2 ttl, ?3 at most;
                                  ** by hand: the lease of ?1 until ?2 */
  BN_LOOK,                        /* By hand: the head of ?1, at most ?2 */
  BN_HEAD, BN_READ,               /* Outbox by hand: cursor, messages */
  BN_DONE,                        /* Complete: ?1 key, ?2 proof */
  BN_DONES,                       /* claimq: a list of them, ?1 */
  BN_NEXT,                        /* claimq: BN_TAKE, and ?4 is done */
  BN_REST,                        /* The payloads that are left */
  BN_MORE,                        /* Another one; bench_extra.c says which */
  BN_BEGIN, BN_COMMIT,
  BN_NSTMT
};

struct BnQueue {
  const char *zName;              /* "session", ... */
  const char *zSchema;            /* Makes the tables */
  const char *azSql[BN_NSTMT];
  int bEach;                      /* Each row of a claim is completed alone */
  int bParts;                     /* Scopes are partitions of one queue */
  int bNoPayload;                 /* Rows carry no job: nothing to tick off */
  int bClaimq;                    /* claimq, also on the floor's side */
  int (*xTake)(BnSide*, int nMax);
};

/* A statement that adds jobs binds ?1 first number, ?2 how many, ?3 scope,
** ?4 number of scopes, ?5 now.  The numbers, and what number i looks like: */
#define BN_NUMBERS \
  " WITH RECURSIVE c(i) AS (SELECT ?1 UNION ALL" \
  " SELECT i+1 FROM c WHERE i<?1+?2-1) "
#define BN_PAYLOAD "printf('%010d%.40c',i,'x')"
#define BN_SCOPE   "iif(?4=1,?3,?3||(i%?4))"

/* What a side holds between claim and complete. */
struct BnClaim {
  i64 iSerial;                    /* Number of the job, in its payload */
  i64 iKey;                       /* By hand: id of the row */
  int nKey, nProof;               /* claimq: claim_id and lease_token */
  char zKey[64], zProof[72];
};

struct BnSide {
  int eSide;                      /* BN_FLOOR or BN_CLAIMQ */
  const BnQueue *pQueue;
  const BnOptions *pOpt;
  sqlite3 *db;
  char zFile[300];
  sqlite3_stmt *apStmt[BN_NSTMT];
  const char *zScope;             /* Session, lane or queue in use */
  int nScope;                     /* 1, or in turn: zScope0, zScope1, ... */
  i64 iScope;                     /* The next of them */
  char zScopeBuf[40];
  i64 iUntil;                     /* By hand: the lease of this claim */
  int nClaim;                     /* Rows held now */
  BnClaim aClaim[BN_NCLAIM];
  i64 nSerial;                    /* Jobs made so far */
  unsigned char *aDone;           /* How often each was done; shared memory */
  i64 *pnBusy;                    /* SQLITE_BUSY seen; shared memory */
};

void benchDie(const char *zFmt, ...);
i64 benchNowMs(void);
double benchClock(int bCpu);
void *benchShared(size_t n);      /* Zeroed memory that processes share */

/* Open a new file with tables and nothing in them; close and delete it. */
BnSide *benchOpen(const BnOptions *pOpt, const BnQueue *aQueue, int eSide);
void benchClose(BnSide *p);

/* Close or reopen the connection alone: a process needs its own. */
void benchDisconnect(BnSide *p);
void benchConnect(BnSide *p);
void benchLoad(BnSide *p);        /* claimq into the connection */

void benchExec(BnSide *p, const char *zSql);
sqlite3_stmt *benchPrepare(BnSide *p, const char *zSql);
i64 benchInt(BnSide *p, const char *zSql);

/* A statement, ready to be bound; 1 if a step gave a row; end it. */
sqlite3_stmt *benchStmt(BnSide *p, int eStmt);
int benchStep(BnSide *p, sqlite3_stmt *pStmt);
void benchReset(BnSide *p, sqlite3_stmt *pStmt);
void benchRun(BnSide *p, int eStmt);

/* Steps of SQLite's machine so far, nested statements of claimq included. */
i64 benchSteps(BnSide *p);

/* Number of a job in its payload, and the other way. */
i64 benchSerial(const unsigned char *zPayload, int n);
void benchPayload(i64 iSerial, char *z);

/* A job is done. */
void benchTick(BnSide *p, i64 iSerial);

/* 0 if all jobs were done once or are still there; else says what is wrong. */
int benchCheck(BnSide *p);

/**************************************************************************
** bench_queue.c: what a worker does.
*/
extern const BnQueue benchSession[BN_NSIDE];
extern const BnQueue benchLane[BN_NSIDE];
extern const BnQueue benchOutbox[BN_NSIDE];
extern const BnQueue benchContest[BN_NSIDE];
extern const BnQueue benchGone[BN_NSIDE];       /* A lane that keeps nothing */

/* 1 if the side is claimq's. */
int benchIsClaimq(const BnSide *p);
int benchTakeClaimq(BnSide *p, int nMax);

i64 benchNewSerials(BnSide *p, i64 n);
void benchPut(BnSide *p);
void benchFill(BnSide *p, i64 n);
void benchFillBy(BnSide *p, const char *zSql, i64 n);
int benchTake(BnSide *p, int nMax);
void benchDone(BnSide *p);
int benchNext(BnSide *p);         /* Complete and take one in a transaction */
int benchLook(BnSide *p);

/**************************************************************************
** bench_work.c: workloads.
*/
enum { BN_DO_PUT, BN_DO_CLAIM, BN_DO_IDLE, BN_DO_OWN };

struct BnWork {
  const char *zKey;               /* "session.claim": for -only */
  const char *zName;              /* For the table */
  const BnQueue *aQueue;          /* The two sides of it */
  int eDo;
  int nGroup;                     /* Rows in one claim */
  int nTxn;                       /* Operations in one transaction; 0: none */
  int nOp;                        /* Operations in one block */
  double rTarget;                 /* Largest ratio wanted; 0: none */
  int bStocked;                   /* Jobs enough are there from the start */
  void (*xOwn)(BnSide*);          /* One operation, for BN_DO_OWN */
};

struct BnTimes {
  int nRound;
  double aUs[BN_NSIDE][BN_NROUND_MAX];    /* Microseconds per job */
};

/* Operations of a workload, one after the other.  This is what is timed and
** profiled: valgrind --toggle-collect=benchCounted */
void benchCounted(const BnWork *pWork, BnSide *p, int nOp);

/* Jobs that benchRounds() claims on one side, if pWork claims. */
i64 benchDemand(const BnWork *pWork, const BnOptions *pOpt);

/* Time both sides.  aSide: open, filled as the workload needs. */
void benchRounds(const BnWork *pWork, BnSide **aSide, BnTimes *pOut);
double benchMedian(const double *a, int n);

/* Median, least and greatest of n ratios aNum[i]/aDen[i]. */
struct BnStat { double rMedian, rMin, rMax; };
BnStat benchStat(const double *aNum, const double *aDen, int n);

/* Beginning and end of a result as JSON. */
void benchJsonHead(
  const BnOptions *pOpt, const char *zGroup, const BnWork *pWork
);
void benchJsonTail(const BnStat *p, const char *zUnit, int nRound);

/* One line of the results.  zParam: the inside of a JSON object. */
void benchReport(
  const BnOptions *pOpt, const char *zGroup, const BnWork *pWork,
  const char *zParam, const BnTimes *pTimes
);

/* All workloads that -only selects.  Returns how many checks failed. */
int benchWorkloads(const BnOptions *pOpt);

/* For callgrind: prints of each shape its key and how many operations are
** counted, of one side after some that are not. */
int benchCount(const BnOptions *pOpt);
void benchCountSide(
  const BnWork *pWork, BnSide *p, int nFirst, const char *zSuffix
);

/* What follows in an operation is not counted, or is again; and how many
** seconds of processor time that took so far. */
void benchAside(void);
double benchAsideTime(void);

/**************************************************************************
** bench_steady.c
*/
void benchSteady(void);           /* Before anything else is called of SQLite */
void benchLater(void);            /* Another operation begins */
void benchPass(i64 nMs);          /* Time passes */

/* One side alone, n operations, for a profiler.  Returns failed checks. */
int benchProfile(const BnOptions *pOpt, int eSide, int n);

/**************************************************************************
** The other groups.  Each returns how many checks failed.
*/
int benchDepth(const BnOptions *pOpt);          /* bench_depth.c */
int benchContention(const BnOptions *pOpt);     /* bench_contend.c */
int benchSpace(const BnOptions *pOpt);          /* bench_space.c */
int benchWait(const BnOptions *pOpt);           /* bench_wait.c */
int benchExtra(const BnOptions *pOpt);          /* bench_extra.c */
int benchOpening(const BnOptions *pOpt);        /* bench_open.c */

#endif
