/*
** sim.h: many connections at once in one process, repeatable by a number.
**
** Each connection is a coroutine.  Their files are in memory (sim_vfs.c), and
** every lock, read, write, sync and sleep is a point at which another
** coroutine may go on, a connection may be killed, or the power may fail: the
** seed decides (sim_co.c).  The clock is a number that these points move on.
** The coroutines work with queues (sim_work.c, sim_op.c); an observer outside
** hears every answer and knows what must not be (sim_watch.c).  Steps, grants,
** letters, policies, jobs that wait for others or are cancelled (sim_flow.c),
** changes, requests and waits have a file each, with their calls and with what
** the observer knows of them.  sim_main.c runs one seed after the other.
*/
#ifndef SIM_H
#define SIM_H

#include <ucontext.h>
#include <sqlite3.h>

typedef sqlite3_int64 i64;
typedef unsigned char u8;
typedef unsigned int u32;

#define SIM_NCO    5              /* Coroutines; the first is main() itself */
#define SIM_NSTMT  64             /* Statements that a connection keeps */

/* How what was written reaches the disk. */
typedef struct SimMode SimMode;
struct SimMode {
  const char *zName;
  const char *zPragma;
  u8 bWal;
  u8 bSure;                       /* What is answered survives a power cut */
};

/* One connection. */
typedef struct SimCo SimCo;
struct SimCo {
  ucontext_t ctx;
  char *aStack;
  void (*xRun)(SimCo*);
  int iCo;
  i64 iWake;                      /* Sleeps until then, in us */
  i64 iAfter;                     /* When the one before it wrote last, in us;
                                  ** 0: it was itself */
  u8 bDone;
  u8 bDead;                       /* Killed: nothing reaches its files */
  sqlite3 *db;
  struct {
    const char *zSql;
    sqlite3_stmt *pStmt;
  } aStmt[SIM_NSTMT];
};

/* The whole of it. */
typedef struct Sim Sim;
struct Sim {
  i64 iSeed;
  u8 bVerbose;
  u8 bSwitch;                     /* Points may switch, kill and crash */
  u8 bCrash;                      /* Everything dies now */
  u8 bStop;                       /* Something is wrong: end this seed */
  const SimMode *pMode;
  i64 iNow;                       /* The clock, in us since 1970 */
  int nTick;                      /* A point takes up to this long, in us */
  int nSwitch;                    /* One point in this many switches */
  int nStall;                     /* One switch in this many lasts longer */
  int nUntil;                     /* Points until the next death; 0: none */
  i64 iWrote;                     /* When the last one to have the write lock */
  SimCo *pWrote;                  /* wrote last, and who it was */
  i64 nPoint;                     /* Points so far */
  i64 nOrder;                     /* Numbers answers and syncs */
  i64 iSure;                      /* Answers before this one are on the disk */
  int nUnheard;                   /* Claims and renewals without an answer */
  u32 hash;                       /* Of all answers, with their times */
  SimCo aCo[SIM_NCO];
  SimCo *pCo;                     /* The one that runs */
  ucontext_t ctx;                 /* The scheduler */
  u32 aRandom[2];
};
extern Sim sim;

/* Sums over all seeds, for the last lines of the output. */
typedef struct SimSum SimSum;
struct SimSum {
  i64 nSeed, nPoint, nAnswer, nClaim, nKill, nCrash, nPower;
  i64 nLost;                      /* Power cuts that lost answers */
  i64 nAgain;                     /* Numbers given again, after that */
  i64 nRestored;                  /* Power cuts followed by claimq_restored() */
  i64 nStep;                      /* Answers of claimq_step() */
  i64 nGrant, nGranted;           /* Grants; claims that used one */
  i64 nRequeue, nResolve;         /* Letters put back; jobs resolved */
  i64 nVacuum, nPolicy;           /* Rows removed; policies changed */
  i64 nAfter, nPark;              /* Jobs that wait: new ones; given back */
  i64 nCancel, nChange;           /* Jobs cancelled; payloads changed */
  i64 nRequest;                   /* Calls with a request */
  i64 nRepeat, nSame;             /* Repeated: unheard; heard */
  i64 nDone, nList;               /* Claims with `done`; lists completed */
  i64 nWait;                      /* Answers of waits */
};
extern SimSum sum;

/* sim_co.c */
u32 simRandom(void);
int simPick(int n);
int simOdds(int n);
void simSeed(i64 iSeed);
i64 simMs(void);
void simPoint(void);
void simSleep(i64 us);
void simRun(void);
void simStart(int iCo, void (*xRun)(SimCo*));
void simCrash(void);
void simFail(const char *zFormat, ...);
void simLog(const char *zFormat, ...);

/* sim_vfs.c */
void simVfsRegister(void);
void simVfsClear(void);
void simVfsLoad(const void *a, i64 n);
void *simVfsImage(i64 *pn);
void simVfsKill(SimCo*);
void simVfsBuried(SimCo*);
void simVfsRestart(int bPower);

/* sim_watch.c: the observer */
#define SIM_LANE     0
#define SIM_SESSION  1
#define SIM_OUTBOX   2
#define SIM_CONTEST  3
#define SIM_LETTER   4
#define SIM_NKIND    5
#define SIM_NROW     4            /* Rows of a claim, at most */
#define SIM_NWORK    600          /* Pieces of work, at most */
#define SIM_FAILS    1            /* How a settlement ends the work */
#define SIM_DOES     2

typedef struct SimRow SimRow;
struct SimRow {
  i64 iRow;                       /* Its key */
  i64 iFence;
  int iWork;                      /* Its payload; -1: nobody put it */
  int iVersion;                   /* Which one: see sim_change.c */
  i64 iSeq;                       /* Of a message */
};

typedef struct SimClaim SimClaim;
struct SimClaim {
  int eKind;
  int iScope;                     /* Which lane, session, queue or subject */
  int iGroup;                     /* Which group of the lane; -1: none */
  int iOwner;
  char zId[48];
  char zToken[72];
  int nRow;
  SimRow aRow[SIM_NROW];
  i64 iBegin, iEnd;               /* The call, by nOrder */
  i64 iClaimed, iExpires;         /* By the answer, in ms */
  i64 iFrom;                      /* Live from then on, in ms */
  i64 iUntil;                     /* Surely live until then, in ms */
  u8 bCompleted;
  u8 bRevoked;
  u8 bGranted;                    /* By claimq_reclaim() */
  u8 bGiven;                      /* Somebody began to give it back */
  u8 bLost;                       /* By a power cut, perhaps */
};

/* Work that somebody put. */
typedef struct SimWork SimWork;
struct SimWork {
  int eKind;
  int iScope;
  i64 iId;                        /* Its key, by the answer */
  i64 iPut, iDone;                /* Answers, by nOrder; 0: none */
  i64 iPutAt, iDoneAt;            /* Their times, in ms */
  i64 iKeyed;                     /* The answer that gave the key: of the put,
                                  ** or of the last that requeued it */
  u8 bLost;                       /* The put may have been lost */
  u8 bKeyLost;                    /* So may the key, which then comes again */
  u8 bMaybeDone;                  /* A completion without an answer, or lost */
  u8 bMoved;                      /* It may have another id: it was requeued */
  u8 bLetter;                     /* Somebody has seen its letter */
  u8 bFound;
  u8 bEnds;                       /* Somebody began to end it, */
  u8 bDoes, bFails;               /* ... to complete it, to reject it */
  int nAdmit;                     /* Reclaims that may have had it */
  int iAfter;                     /* It waits for this one; -1: for none */
};

/* What holds in a world, besides that rows are held once. */
typedef struct SimRule SimRule;
struct SimRule {
  int nActive;                    /* Of a lane; 0: no limit */
  int nGroup;                     /* Of a group; 0: no limit */
  int nRate;                      /* Claims of a lane in nPer ms; 0: no limit */
  int nPer;
  u8 bSerial;                     /* Sessions are */
  u8 bAfter;                      /* Some jobs wait for others */
  u8 bStep;                       /* Workers store steps */
  u8 bGrant;                      /* Some jobs need grants */
  u8 bLetter;                     /* Letters are claimed and requeued */
  u8 bPolicy;                     /* The policy changes: see sim_policy.c */
  u8 bGone;                       /* What has ended may be removed */
  u8 bFlow;                       /* Jobs wait, are cancelled, changed */
  u8 bRequest;                    /* Calls are repeated with a request */
  u8 bWait;                       /* Workers wait with claimq_wait() */
};
extern SimRule simRule;

void watchClear(void);
i64 watchAnswer(i64 a, i64 b);
void watchAgain(int bLost, const char *zWhat, const char *zKind, i64 i);
SimWork *watchWork(int iWork);
int watchJob(void);
const SimClaim *watchNext(const SimClaim*);
int watchPut(int eKind, int iScope);
i64 watchAfter(int iWork);
void watchPutDone(int iWork, i64 iId);
SimClaim *watchClaim(const SimClaim*);
void watchRenewed(SimClaim*, i64 iBegin, i64 iExpires, int nLease);
void watchStretched(SimClaim*, i64 iBegin, int nLease);
int watchHolds(const SimClaim*, i64 iBegin, i64 iMs);
void watchSettle(SimClaim*, int eEnds);
void watchSettled(SimClaim*, int bCompleted, int nRow);
void watchLost(SimClaim*, i64 iMs);
void watchMaybe(SimClaim*);
SimClaim *watchAny(void);
void watchPower(void);
void watchRestored(void);
void watchQuery(sqlite3*, const char *zWhat, const char *zSql);
void watchEnd(sqlite3*);

/* What the observer knows of steps, grants, letters and policies. */
void stepClear(void);
void stepPower(void);
void stepEnd(sqlite3*);
void grantClear(void);
void grantPower(void);
void grantClaim(const SimClaim*);
void letterClear(void);
void letterPower(void);
void letterClaim(const SimClaim*);
void letterSettled(const SimClaim*, i64 iOrder);
void letterEnd(sqlite3*);
void policyClear(void);
void policyPower(void);
void policyStart(const SimClaim*, i64 iBegin, i64 iMs);
void policyClaim(const SimClaim*);

/* Of jobs that wait or are cancelled, of changes, requests and waits. */
void flowClear(void);
void flowPower(void);
void flowHeard(SimClaim*);
int flowOpen(int iWork, const SimClaim*);
int flowMayEnd(int iWork, int nOwn);
void flowWord(int iWork, int eWord, i64 iBegin, i64 iMs, int bForce);
i64 flowOver(int iWork);
void flowKept(const SimClaim*, i64 iBegin);
int flowFree(int iWork);
void flowEnd(sqlite3*);
void changeClear(void);
int changeAny(int iWork);
void changePower(void);
void changeShown(int iWork, int iVersion, i64 iBegin);
void changeClaim(const SimClaim*);
void requestClear(void);
void requestPower(void);
void waitClear(void);

/* sim_work.c, sim_op.c */
void workRun(void);
int workKinds(void);
const char *workName(int);

#endif
