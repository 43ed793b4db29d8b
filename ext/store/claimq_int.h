/*
** claimq_int.h: what the files of claimq know of each other.
**
** One boxed section per .c file, from the bottom up.  Dependencies point one
** way only:
**
**     main -> vtab -> disciplines -> engine -> store -> core (claimq_core.h)
**
** The engine calls a discipline through its descriptor, CqDiscipline: a table
** of small functions.  The life of every call:
**
**     CqOp op;  claimqOpInit(&op, pConn);    one sticky error, one clock
**     read the arguments                     claimqRead...(), by tables
**     claimqRun(&op, &task)                  load -> decide -> apply
**     hand over the result or op's error     claimqOpResult(), claimqOpVtab()
**
** All helpers take the CqOp first and do nothing once op.rc is set, so that
** operations read as straight lines and every fault ends in the same place.
*/
#ifndef CLAIMQ_INT_H
#define CLAIMQ_INT_H

#include "claimq.h"
#include "sqlite3ext.h"           /* Knows about SQLITE_CORE */
#ifndef CLAIMQ_AMALGAMATION
SQLITE_EXTENSION_INIT3
#endif
#include "claimq_core.h"
#include "claimq_sql.h"
#include <stdarg.h>

#if SQLITE_VERSION_NUMBER<CLAIMQ_MIN_SQLITE
# error "claimq needs the headers of SQLite 3.39 or newer"
#endif

typedef struct CqConn CqConn;             /* One database connection */
typedef struct CqOp CqOp;                 /* One operation in progress */
typedef struct CqArgDef CqArgDef;         /* An argument or an option */
typedef struct CqVal CqVal;               /* Its value in one call */
typedef struct CqRows CqRows;             /* Buffered result rows */
typedef struct CqCell CqCell;             /* One value in such a row */
typedef struct CqIds CqIds;               /* A list of integer keys */
typedef struct CqStmt CqStmt;             /* A statement taken from the cache */
typedef struct CqTask CqTask;             /* Load and apply of an operation */
typedef struct CqLease CqLease;           /* A lease about to be given */
typedef struct CqWhy CqWhy;               /* Reasons being added up */
typedef struct CqClaim CqClaim;           /* One call of a claim table */
typedef struct CqVerb CqVerb;             /* One call of one of the verbs */
typedef struct CqPut CqPut;               /* New work on its way in */
typedef struct CqVacuum CqVacuum;         /* One call of claimq_vacuum() */
typedef struct CqTableDef CqTableDef;     /* A claim table */
typedef struct CqFuncDef CqFuncDef;       /* A scalar function */
typedef struct CqCall CqCall;             /* One call of it */
typedef struct CqDiscipline CqDiscipline; /* A way to queue */
#include "gate.h"
/**************************************************************************
** Interface to op.c: sticky error, memory, clock.
*/
struct CqOp {
  CqConn *pConn;
  sqlite3 *db;
  int rc;                         /* Sticky: SQLITE_OK or what went wrong */
  char *zErr;                     /* Message, by sqlite3_malloc; may be 0 */
  i64 iNow;                       /* The call's one reading of the clock */
  u8 bNow;                        /* iNow is set */
  u8 bClock;                      /* ... by the clock, and nobody asked yet
                                  ** whether the database allows that */
  u8 bWrite;                      /* It may write: take the lock before main
                                  ** is read inside the user's transaction */
  u8 bFilter;                     /* Called from xFilter of a claim table */
  u8 bOwnTxn;                     /* The transaction is the operation's own */
  u8 bWrote;                      /* A task has written something */
  int mMissing;                   /* It failed because of these features (CQ_M_
                                  ** *): their tables are not there */
  struct CqRequest *pReq;         /* The call is to be remembered; else 0 */
  sqlite3_stmt *pClock;           /* For its first claimq__clock(); or 0 */
  int mUnless;                    /* That one refuses the statement if the
                                  ** database has one of these CQ_SET_* */
  u8 bUnless;                     /* ... and has done so */
};

/* The CODEs of error messages: ext/doc/reference.md, "Errors". */
#define CQ_BAD_ARGUMENT    "bad_argument"
#define CQ_NOT_INITIALISED "not_initialised"
#define CQ_SCHEMA_MISMATCH "schema_mismatch"
#define CQ_CLAIM_LOST      "claim_lost"
#define CQ_NOT_FOUND       "not_found"
#define CQ_CONFLICT        "conflict"
#define CQ_NO_SLOT         "no_slot"
#define CQ_REQUEST_REUSED  "request_reused"
#define CQ_NOT_RECLAIMABLE "not_reclaimable"
#define CQ_TOO_LARGE       "too_large"
#define CQ_READ_ONLY       "read_only"
#define CQ_UNSAFE_PLAN     "unsafe_plan"
#define CQ_NESTED_WRITE    "nested_write"
#define CQ_IN_TRANSACTION  "in_transaction"
#define CQ_CLOCK_REQUIRED  "clock_required"
#define CQ_UNSUPPORTED     "unsupported"

CQ_PRIV void claimqOpInit(CqOp*, CqConn*);
CQ_PRIV void claimqOpClear(CqOp*);        /* Frees the message */
CQ_PRIV void claimqOpReset(CqOp*);        /* Forget the error, to try again */

/* Set the error "claimq: CODE: detail" unless there is one already. */
CQ_PRIV void claimqFail(CqOp*, const char *zCode, const char *zFmt, ...);
/* The same for SQLite's own faults: code and message stay SQLite's. */
CQ_PRIV void claimqFailRc(CqOp*, int rc);
/* Hand the error over and free it: to a function, to a virtual table. */
CQ_PRIV void claimqOpResult(CqOp*, sqlite3_context*);
CQ_PRIV int claimqOpVtab(CqOp*, sqlite3_vtab*);

CQ_PRIV void *claimqMalloc(CqOp*, i64 nByte);             /* zeroed, or 0 */
CQ_PRIV void *claimqRealloc(CqOp*, void*, i64 nByte);     /* p kept on fault */
CQ_PRIV i64 claimqSystemClock(CqConn*);   /* What the VFS says now */
CQ_PRIV i64 claimqClock(CqOp*);   /* op.iNow, read from the VFS at most once */
CQ_PRIV void claimqClockForget(CqOp*);    /* Let it be read again */
CQ_PRIV void claimqFailClock(CqOp*);      /* clock_required */

CQ_PRIV CqText claimqStr(const char*);    /* A NUL-terminated string */
/* The bytes of a TEXT value, as UTF-8 and without a zero at their end. */
CQ_PRIV CqText claimqValueText(CqOp*, sqlite3_value*);
CQ_PRIV CqText claimqTextOrNull(CqOp*, sqlite3_value*);   /* z==0 if NULL */
CQ_PRIV char *claimqTextDup(CqOp*, CqText);  /* To be freed; 0: out of memory */
CQ_PRIV char *claimqStrFinish(CqOp*, sqlite3_str*);       /* The same */
/* How much of a text an error message shows: "%.*s", claimqShown(t), t.z */
CQ_PRIV int claimqShown(CqText);

/**************************************************************************
** Interface to args.c: arguments of claim tables and functions, options.
*/

/* What an argument may be. */
#define CQ_T_ANY   0              /* Any SQLite value */
#define CQ_T_TEXT  1              /* TEXT in valid UTF-8 */
#define CQ_T_INT   2              /* INTEGER, a REAL or a TEXT that is one */
#define CQ_T_WORD  3              /* One of the words of xWords() */
#define CQ_T_JSON  4              /* TEXT; its content is read later */

struct CqArgDef {
  const char *zName;
  u8 eType;                       /* CQ_T_* */
  u8 mFlag;                       /* CQ_A_* */
  u8 mVerb;                       /* Options of verbs: 1<<CQ_RENEW ... */
  u8 eRole;                       /* CQ_ROLE_*: what the engine does with it */
  u8 bDefault;                    /* INT: 0 is a default, not "not given" */
  u8 bNoDefault;                  /* WORD: not given means something else */
  i64 iDefault;                   /* For INT and WORD */
  const char *zDefault;           /* For TEXT and JSON; 0 is NULL */
  i64 iMin, iMax;                 /* Range of INT; of TEXT in bytes (what is
                                  ** too short is found by who looks at it) */
  const char *const *(*xWords)(void);
  const char *zDoc;               /* For claimq_help: a few words, or 0 */
};
#define CQ_A_REQUIRED 0x01        /* Must be given, and not as NULL */
#define CQ_A_NULL     0x02        /* Must be given; NULL has a meaning */
#define CQ_A_NAME     0x04        /* The scope of claimq_wait() and its like */
#define CQ_A_LOOK     0x08        /* One of their options */

/* Arguments that mean the same everywhere. */
#define CQ_ROLE_NONE        0     /* The discipline's own */
#define CQ_ROLE_NOW         1     /* now_ms: it sets op.iNow */
#define CQ_ROLE_OWNER       2
#define CQ_ROLE_INCARNATION 3
#define CQ_ROLE_LEASE       4
#define CQ_ROLE_MAX         5     /* At most this many rows; LIMIT lowers it */
#define CQ_ROLE_REQUEST     6     /* It sets op.pReq */
#define CQ_ROLE_SCOPE       7     /* What a request of a claim is about */
#define CQ_ROLE_HEADERS     8     /* A JSON object, kept as it is */
#define CQ_ROLE_DONE        9     /* Claims that a claim completes first */

/* How a definition begins:  { CQ_ARG(INT, "priority"), .iMin = CQ_I64_MIN } */
#define CQ_ARG(TYPE, NAME) .zName = NAME, .eType = CQ_T_##TYPE

/* How the names of functions begin that only claimq's own statements call. */
#define CQ_INTERNAL "claimq__"

/* The definitions that many tables share. */
#define CQ_ARG_NOW { CQ_ARG(INT, "now_ms"), .eRole = CQ_ROLE_NOW, \
  .zDoc = "the time of the call; the clock if not given" }
#define CQ_ARG_OWNER { CQ_ARG(TEXT, "owner"), .mFlag = CQ_A_REQUIRED, \
  .eRole = CQ_ROLE_OWNER, .zDoc = "who claims" }
#define CQ_ARG_INCARNATION { CQ_ARG(TEXT, "incarnation"), .zDefault = "", \
  .eRole = CQ_ROLE_INCARNATION, .zDoc = "which run of the owner" }
#define CQ_ARG_LEASE { CQ_ARG(INT, "lease_ms"), .iDefault = 30000, \
  .eRole = CQ_ROLE_LEASE, .zDoc = "how long the lease lasts, in ms" }

#define CQ_ARG_HEADERS { CQ_ARG(JSON, "headers"), .eRole = CQ_ROLE_HEADERS, \
  .zDoc = "handed to whoever claims it, a JSON object" }
#define CQ_ARG_REQUEST { CQ_ARG(TEXT, "request"), .iMin = 1, .iMax = 255, \
  .eRole = CQ_ROLE_REQUEST, .zDoc = "makes the call safe to repeat" }
#define CQ_ARG_DONE { CQ_ARG(JSON, "done"), .eRole = CQ_ROLE_DONE, \
  .zDoc = "claims to complete first, in the same transaction: a JSON array " \
          "of claim id, lease token and result, or an array of these" }

struct CqVal {
  u8 bGiven;                      /* Given, and not NULL */
  CqText t;                       /* TEXT, JSON, WORD as given or by default */
  i64 i;                          /* INT; number of a WORD */
  sqlite3_value *pVal;            /* As given; 0 if it was not */
};

/* Read one value by its definition; pVal==0 is "not given". */
CQ_PRIV void claimqRead(CqOp*, const CqArgDef*, sqlite3_value *pVal, CqVal*);
/* The same for a value that is not SQLite's: a text (bInt==0) or an integer.
** The bytes are not copied. */
CQ_PRIV void claimqReadPlain(CqOp*, const CqArgDef*, int bInt, CqText, i64,
                             CqVal*);
/* Read trailing name, value pairs into aOut[], one per definition, which holds
** the defaults.  Only definitions with a bit of mVerb count (mVerb==0: all of
** them). */
CQ_PRIV void claimqOptionDefaults(const CqArgDef *aDef, int nDef, CqVal *aOut);
CQ_PRIV void claimqReadOptions(
  CqOp*, const CqArgDef *aDef, int nDef, int mVerb,
  int nVal, sqlite3_value **apVal, CqVal *aOut
);
/* now + delay_ms, or available_at_ms: the two are alternatives. */
CQ_PRIV void claimqDueCheck(CqOp*, const CqVal *pAt, const CqVal *pDelay);
CQ_PRIV i64 claimqDueAt(CqOp*, const CqVal *pAt, const CqVal *pDelay);

/**************************************************************************
** Interface to watch.c: being woken when a file is written.
*/
typedef struct CqWatch CqWatch;
CQ_PRIV CqWatch *claimqWatchNew(const char *zDb);         /* 0 on OOM */
/* Watch the -wal if it is there, else the database: 1 if that is new. */
CQ_PRIV int claimqWatchAim(CqWatch*, const char *zDb, const char *zWal);
CQ_PRIV int claimqWatchListens(const CqWatch*);   /* 0: there is only polling */
CQ_PRIV int claimqWatchSleep(CqWatch*, i64 us, int bDeaf);    /* CQ_WOKE_* */
CQ_PRIV void claimqWatchFree(CqWatch*);

/**************************************************************************
** Interface to store/zoneinfo.c: the zoneinfo files of this system.
*/
/* The bytes of a zone's file, which *pOut points into; sqlite3_free() them.  0
** if op has an error, or gets one here: bad_argument. */
CQ_PRIV u8 *claimqZoneRead(CqOp*, CqText name, CqZone *pOut);

/**************************************************************************
** Interface to rows.c: result rows, materialised before anything is written.
*/
struct CqCell {
  u8 eType;                       /* SQLITE_NULL, INTEGER, FLOAT, TEXT, BLOB */
  int n;                          /* Bytes of TEXT and BLOB */
  union { i64 i; double r; const char *z; } u;
};
struct CqRows {
  CqCell *aCell;                  /* nRow*nCol cells */
  int nCol, nRow, nAlloc;
  u32 mSkip;                      /* Bit i: nobody will read column i */
  i64 iRowid;                     /* rowid of the first row */
  struct CqChunk *pChunk;         /* Where the bytes live */
};
CQ_PRIV void claimqRowsInit(CqRows*, int nCol);
CQ_PRIV void claimqRowsClear(CqRows*);                /* Half-built is fine */
CQ_PRIV void claimqRowsReuse(CqRows*, int nCol);  /* Empty it, keep memory */
CQ_PRIV CqCell *claimqRowsAdd(CqOp*, CqRows*);        /* nCol NULLs, or 0 */
CQ_PRIV CqCell *claimqRow(const CqRows*, int iRow);
CQ_PRIV void claimqCellInt(CqCell*, i64);
CQ_PRIV void claimqCellText(CqOp*, CqRows*, CqCell*, CqText);
CQ_PRIV void claimqCellValue(CqOp*, CqRows*, CqCell*, sqlite3_value*);
/* The first n columns of the statement's current row, as far as somebody will
** read them; or one, type and bytes as is. */
CQ_PRIV void claimqCellColumns(CqOp*, CqRows*, CqCell*, const CqStmt*, int n);
CQ_PRIV void claimqCellColumn(CqOp*, CqRows*, CqCell*, const CqStmt*, int iCol);
CQ_PRIV void claimqCellResult(const CqCell*, sqlite3_context*);
CQ_PRIV CqText claimqCellGetText(const CqCell*);      /* z==0 unless TEXT */

/**************************************************************************
** Interface to ids.c: a list of keys; and to vtab/id_list.c: claimq__ids(?),
** the rows of a bound CqIds.
*/
/* Room for one more element of nByte bytes in an array of n: 0 on OOM. */
CQ_PRIV int claimqGrow(
  CqOp*, void **ppArray, int n, int *pnAlloc, size_t nByte);
struct CqIds {
  i64 *a;
  int n, nAlloc;
  const CqRows *pRows;            /* The rows of the first keys, or 0 */
  int iLease;                     /* Where their claim columns begin */
  const i64 *aTurn;               /* Turns of the first nTurn keys, or 0 */
  int nTurn;
};
#define CQ_IDS_TYPE   "claimq-ids"  /* For sqlite3_bind_pointer() */
#define CQ_IDS_MODULE "claimq__ids"
CQ_PRIV void claimqIdsAdd(CqOp*, CqIds*, i64);
CQ_PRIV void claimqIdsNote(CqOp*, CqIds*, i64);     /* For upkeep */
CQ_PRIV void claimqIdsClear(CqIds*);
CQ_PRIV int claimqIdListRegister(CqConn*);
/* The methods of its cursors; without a list they have no rows. */
CQ_PRIV int claimqIdListOpen(sqlite3_vtab*, sqlite3_vtab_cursor**);
CQ_PRIV int claimqIdListClose(sqlite3_vtab_cursor*);
CQ_PRIV int claimqIdListFilter(
  sqlite3_vtab_cursor*, int, const char*, int, sqlite3_value**);
CQ_PRIV int claimqIdListNext(sqlite3_vtab_cursor*);
CQ_PRIV int claimqIdListEof(sqlite3_vtab_cursor*);
CQ_PRIV int claimqIdListColumn(sqlite3_vtab_cursor*, sqlite3_context*, int);
CQ_PRIV int claimqIdListRowid(sqlite3_vtab_cursor*, sqlite3_int64*);

/**************************************************************************
** Interface to conn.c: a connection, which owns its statements; and to stmt.c:
** prepared statements.
*/
/* One prepare of a statement that uses claim tables; see replay.c. */
typedef struct CqPrep CqPrep;
struct CqPrep {
  i64 iPrep;                      /* Its number */
  sqlite3_stmt *pStmt, *pBelow;   /* What was being compiled: to compare only */
  u32 mUsed;                      /* Result columns that its cursors read */
  int nAvoid;                     /* Tables that have no plan but one that
                                  ** xFilter will refuse */
  u8 bAvoid;                      /* ... among them the one asked for last */
  const struct CqTableDef *pAvoid;/* ... and this is one of them */
  u8 bMade;                       /* It has created tables in temp, which its
                                  ** statement does not know */
  u8 bLate;                       /* It returns rows before it claims */
};
#define CQ_NPREP 16               /* How many of the latest are remembered */

typedef struct CqReplay CqReplay; /* One execution of a statement */
struct CqReplay {
  CqReplay *pNext;
  i64 iPrep;                      /* Number of its prepare */
  int nUser;                      /* Cursors that point here */
  i64 iLast;                      /* If none does: cursors that were opened up
                                  ** to this one may still */
  u8 bLinked;                     /* In CqClaims.pReplay */
  struct CqAnswer *pAnswer;       /* All answers, the latest first */
  struct CqAnswer *pRoot;         /* The same as a tree, to find them */
};
typedef struct CqUser CqUser;     /* A cursor, as far as replay.c knows it */
struct CqUser {
  CqReplay *pReplay;              /* The execution it belongs to; or 0 */
  i64 iOpen;                      /* It was opened as the iOpen-th */
  u8 bFresh;                      /* ... and was not yet filtered */
  CqUser *pNext;                  /* The next one of which this is true */
};

/* What the claim tables of a connection know of its statements. */
typedef struct CqClaims CqClaims;
struct CqClaims {
  i64 iPrep;                      /* Number of the latest prepare */
  i64 iSeen;                      /* The latest one when a cursor was opened */
  CqPrep aPrep[CQ_NPREP];         /* At their number modulo CQ_NPREP */
  CqReplay *pReplay;              /* Executions that are under way */
  CqReplay first;                 /* One of them, mostly the only one */
  CqUser *pFresh;                 /* Cursors that were not yet filtered */
  struct CqAnswer *pSpare;        /* Forgotten, and kept for the next; or 0 */
  i64 iOpen;                      /* Cursors opened so far */
  u8 bOpened;                     /* The last call was xOpen */
  int nTemp;                      /* Connections to tables of temp so far */
};

/* A part of SQLite's list of all statements that need not be looked at: what
** follows pFirst, up to a statement of the cache, or to the end of the list
** (pLast is 0). */
#define CQ_NRUN 4
typedef struct CqRun CqRun;
struct CqRun {
  sqlite3_stmt *pFirst, *pLast;
};

struct CqConn {
  sqlite3 *db;
  int nRef;                       /* Functions and modules that point here */
  u8 bOwned;                      /* A virtual table will empty the cache */
  u8 bChecked;                    /* The schema version was looked at */
  u8 bLockFirst;                  /* The next claim is a restarted one */
  u8 bSettings;                   /* mSettings is what the database has */
  int mSettings;                  /* CQ_SET_*, as last read */
  u8 bUtf8;                       /* main is known to be in UTF-8 */
  u8 bWritable;                   /* main is known not to be read-only and of
                                  ** our format; triggers and views were on */
  sqlite3_vfs *pVfs;              /* Of main; 0: not asked yet */
  u8 nManyStmt;                   /* Calls that look at no statements */
  int nWritten;                   /* Pages, at the last claimqTxnCheckpoint() */
  int nCheckpoint;                /* ... and how many until the next is due */
  int nTaken;                     /* Statements that are not in their slots */
  const CqSql *pStep;             /* Ours that is being run, the innermost */
  u8 bQuiet;                      /* Who deletes rows looks by himself; 2: and
                                  ** their steps stay */
  u8 bIdle;                       /* The last lane that was looked at had no
                                  ** jobs */
  u8 bLimited;                    /* The job of the last verb counted for
                                  ** limits: so may that of the next */
  u8 bMade;                       /* Tables were made in a transaction of the
                                  ** user's, who may roll it back */
  int mMissing;                   /* For CqOp.mMissing, by vtab/absent.c */
  u8 bRun, nRun;                  /* aRun[] was made after the last prepare */
  CqRun aRun[CQ_NRUN];            /* See claimqStmtWriting() */
  CqGate gate;
  i64 iNextRowid;                 /* For the rows that claim tables deliver */
  CqClaims claims;                /* See replay.c */
  CqWatch *pWatch;                /* Made by the first wait that sleeps; or 0 */
  i64 iVersion;                   /* As the last claimq_wait(timeout_ms) saw */
  u8 bVersion;                    /* ... if there was one */
  sqlite3_stmt *apStmt[CQ_NSTMT]; /* Idle statements, reset and unbound */
};
CQ_PRIV CqConn *claimqConnNew(sqlite3*);              /* 0 on OOM; one ref */
CQ_PRIV void claimqConnRef(CqConn*);
CQ_PRIV int claimqDeclare(sqlite3*, const char*, char**);  /* In xConnect */
CQ_PRIV int claimqBusyTimeout(CqOp*);     /* ms; 0: none, or own handler */
CQ_PRIV void claimqConnDoubt(CqConn*);    /* Forget what is known of main */
CQ_PRIV void claimqStmtEmpty(CqConn*);    /* Finalize all that are idle */
CQ_PRIV void claimqLockFirst(CqOp*);      /* Before op reads, if it writes */
CQ_PRIV void claimqConnUnref(void*);                  /* Also a destructor */
CQ_PRIV int claimqConnUnread(CqConn*);    /* Autocommit, and main unread? */
CQ_PRIV int claimqStmtRegister(CqConn*);              /* module claimq_stmt */

/* A statement that was taken from the cache, and which one it is. */
struct CqStmt {
  sqlite3_stmt *pStmt;            /* 0: op had an error when it was taken */
  int eStmt;                      /* CQ_SQL_* */
  u8 bAgain;                      /* It was reset: parameters may be bound */
  u8 bLoose;                      /* Not to be kept: see cqPrepare() */
#ifndef NDEBUG
  u32 mBound;                     /* Bit i: parameter i+1 was bound */
#endif
};
/* Take statement eStmt (CQ_SQL_*), ready to bind.  Give it back with
** claimqStmtDone(), which does nothing for one that was never taken. */
CQ_PRIV CqStmt claimqStmt(CqOp*, int eStmt);
CQ_PRIV void claimqStmtDone(CqOp*, CqStmt*);
CQ_PRIV void claimqStmtDoubt(CqConn*, const CqStmt*);  /* Prepared again? */
CQ_PRIV void claimqStmtReset(CqStmt*);    /* To run it again; bindings stay */
/* Finalize a statement that came from the cache. */
CQ_PRIV void claimqStmtFree(CqConn*, sqlite3_stmt*);
/* Is a writing statement under way?  -1: nMost statements do not tell. */
CQ_PRIV int claimqStmtWriting(CqConn*, int nMost);
/* i: the statement's constant for the parameter, CQ_STATEMENT_name.  Bytes and
** lists must stay until the statement is given back.  A text with z==0 and a
** value of 0 are NULL. */
CQ_PRIV void claimqBindInt(CqOp*, CqStmt*, int i, i64);
CQ_PRIV void claimqBindText(CqOp*, CqStmt*, int i, CqText);
CQ_PRIV void claimqBindValue(CqOp*, CqStmt*, int i, sqlite3_value*);
CQ_PRIV void claimqBindNull(CqOp*, CqStmt*, int i);
CQ_PRIV void claimqBindPointer(CqOp*, CqStmt*, int i, void*, const char *zType);
CQ_PRIV void claimqBindIds(CqOp*, CqStmt*, int i, const CqIds*);
/* A common parameter (CQ_P_*), if the statement has it. */
CQ_PRIV void claimqBindCommonInt(CqOp*, CqStmt*, int eCommon, i64);
CQ_PRIV void claimqBindCommonText(CqOp*, CqStmt*, int eCommon, CqText);
CQ_PRIV void claimqBindNow(CqOp*, CqStmt*);     /* :now and :clock */
CQ_PRIV int claimqStep(CqOp*, CqStmt*);   /* 1: a row; 0: done or error */
/* For triggers: 1 unless a statement of claimq's own is what is being run. */
CQ_PRIV void claimqOutside(CqOp*, CqCall*);
CQ_PRIV int claimqOwnDelete(const CqConn*);     /* 1 if such a one deletes */
/* Columns of the current row; iCol: the constant CQ_COL_STATEMENT_name. */
CQ_PRIV i64 claimqColInt(const CqStmt*, int iCol);
CQ_PRIV int claimqColType(const CqStmt*, int iCol);
CQ_PRIV CqText claimqColText(CqOp*, const CqStmt*, int iCol);
CQ_PRIV sqlite3_value *claimqColValue(const CqStmt*, int iCol);
/* Step to the end, give back, and return the number of rows changed. */
CQ_PRIV i64 claimqExec(CqOp*, CqStmt*);
/* Run statement text that is not cached (schema, claim tables in temp). */
CQ_PRIV void claimqExecSql(CqOp*, const char *zSql);

/**************************************************************************
** Interface to schema.c: what main has of claimq's tables, and what is wrong
** when SQL fails.
*/
#define CQ_META_NONE   -1         /* Version: there is no claimq_meta, */
#define CQ_META_ALIEN  -2         /* ... or there is one, but not ours */
/* Is a version that of an older release?  The first has none before it. */
#define CQ_OLDER(V) \
  (CLAIMQ_SCHEMA_VERSION>1 && (V)>0 && (V)<CLAIMQ_SCHEMA_VERSION)
/* What main has under the name of one of our objects. */
#define CQ_OBJ_NONE    0          /* Nothing */
#define CQ_OBJ_OURS    1          /* What claimq_init() makes, to the letter */
#define CQ_OBJ_LIKE    2          /* That, but for white space, and for columns
                                  ** that users have added to a table */
#define CQ_OBJ_CHANGED 3          /* That, but somebody has changed it */
#define CQ_OBJ_ALIEN   4          /* Something else */
typedef struct CqSchemaSeen CqSchemaSeen;
struct CqSchemaSeen {
  u8 ae[CQ_NSCHEMA];              /* CQ_OBJ_*, as claimqSchema[] has them */
  u8 abGiven[CQ_NSCHEMA];         /* A table whose times must be given */
};
/* The text of an object, in a database with the setting CQ_SET_CLOCK (bGiven)
** or without.  To be freed. */
CQ_PRIV char *claimqSchemaText(CqOp*, const CqSchemaObj*, int bGiven);
CQ_PRIV int claimqSchemaTimed(const CqSchemaObj*);  /* It has a default time */
CQ_PRIV void claimqSchemaLook(CqOp*, CqSchemaSeen*);
CQ_PRIV void claimqSchemaCheck(CqOp*);    /* Once per connection: version */
/* Features (CQ_M_*) that a database has, as it was looked at; and those of
** mFeature that SQLite knows no table of. */
CQ_PRIV int claimqSchemaPresent(const CqSchemaSeen*);
CQ_PRIV int claimqSchemaAbsent(CqOp*, int mFeature);
CQ_PRIV int claimqSchemaHas(CqOp*, const char *zTable);   /* As SQLite knows */
/* A statement without the INDEXED BY of these features; to be freed. */
CQ_PRIV char *claimqSchemaLoose(CqOp*, const char *zSql, int mFeature);
/* "claimq_init('sessions', 1)": the call that makes them; to be freed, or 0. */
CQ_PRIV char *claimqSchemaCall(int mFeature);
CQ_PRIV void claimqFailMissing(CqOp*, int mFeature);      /* not_initialised */
/* Turn "no such table" and the like into not_initialised, schema_mismatch. */
CQ_PRIV void claimqSchemaDiagnose(CqOp*, const char *zSql);
CQ_PRIV void claimqCheckConfig(CqOp*);    /* Triggers and views are on */
/* For claimq_init(); described there. */
CQ_PRIV int claimqSchemaRow(CqOp*, sqlite3_stmt*);
CQ_PRIV int claimqSchemaIs(const CqSchemaObj*, const char *zType);
/* The object that a row of sqlite_schema is about, or -1; begin at iGuess. */
CQ_PRIV int claimqSchemaFind(const char *zType, const char *zName, int iGuess);
CQ_PRIV int claimqSqlNames(const char *zSql, const char *zTable);
CQ_PRIV i64 claimqSchemaVersion(CqOp*, const CqSchemaSeen*);
CQ_PRIV void claimqFailAlien(CqOp*, const CqSchemaObj*);
CQ_PRIV void claimqSchemaFree(CqOp*, const CqSchemaSeen*);
CQ_PRIV void claimqSchemaVerdict(CqOp*, const CqSchemaSeen*, i64 iVersion);
CQ_PRIV int claimqSchemaUnfit(const char*);
CQ_PRIV void claimqSchemaFits(CqOp*, const char *zSql);

/**************************************************************************
** Interface to settings.c: the settings of the database.
*/
/* Settings of the database, a bit each in the row settings of claimq_meta. */
#define CQ_SET_ANY_SESSION 0x01
#define CQ_SET_SERIAL      0x02
#define CQ_SET_CLOCK       0x04   /* clock 'explicit' */
/* A policy says, or said, keep_ms 0 or events 0. */
#define CQ_SET_BRIEF       0x08
/* Not options: claimq_schedule(), claimq_step() and claimq_policy() set
** them. */
#define CQ_SET_SCHEDULES   0x10
#define CQ_SET_STEPS       0x20   /* Batches have, or had, steps */
#define CQ_SET_LIMITS      0x40
#define CQ_SET_STRICT      0x100  /* A policy has said strict, */
#define CQ_SET_RUNTIME     0x200  /* ... max_runtime_ms, */
#define CQ_SET_COMING      0x400  /* ... reclaim or admission, */
#define CQ_SET_CLAIMS      0x800  /* ... or anything that concerns claims */
CQ_PRIV int claimqSettings(CqOp*);        /* CQ_SET_*, as the cache has them */
CQ_PRIV void claimqFailRules(CqOp*, i64 iRules);
CQ_PRIV i64 claimqNow(CqOp*);     /* claimqClock(), if that is allowed */

/**************************************************************************
** Interface to init.c: claimq_init().
*/
CQ_PRIV const CqFuncDef *claimqSchemaFuncs(int *pnFunc);
/* The task creates the tables of these features (CQ_M_*) where they are not
** there yet: it is a put. */
CQ_PRIV void claimqMakes(CqOp*, CqTask*, int mFeature);
/* Add a setting, unless it is there, as part of a task. */
CQ_PRIV void claimqSettingsSet(CqOp*, CqTask*, int mSetting);
/* What is wrong with the i-th object of the schema, for claimq_check; or 0. */
CQ_PRIV const char *claimqSchemaProblem(CqOp*, const CqSchemaSeen*, int i);

/**************************************************************************
** Interface to request.c: calls that can be repeated.
*/
typedef struct CqRequest CqRequest;
struct CqRequest {
  CqText request;                 /* As given */
  const char *zFunc;              /* What it is for */
  char *zScope;
  int nScope;
  char zKey[21];                  /* Room for a scope that is a number */
  CqText owner;
  u8 bReplay;                     /* It was made before: the task has the
                                  ** answer */
};
CQ_PRIV void claimqRequestBegin(CqOp*, CqText);
CQ_PRIV void claimqRequestFor(CqOp*, const char *zFunc, CqText scope,
                              CqText owner);
/* The same for a function; an xFunc that reads its options itself calls it. */
CQ_PRIV void claimqRequestCall(CqOp*, const CqCall*);
/* The answer of the request that op has: from the database into the task, and
** back. */
CQ_PRIV int claimqRequestFind(CqOp*, CqTask*);
CQ_PRIV void claimqRequestKeep(CqOp*, const CqTask*);
CQ_PRIV void claimqRequestEnd(CqOp*);
/* Answers older than a day: forget at most nMax (-> how many); any? */
CQ_PRIV i64 claimqRequestForget(CqOp*, i64 nMax);
CQ_PRIV int claimqRequestOld(CqOp*);

/**************************************************************************
** Interface to txn.c: taking the lock, all or nothing.
*/
/* What a task needs to write what it has loaded. */
#define CQ_NEED_NOTHING 0         /* There is nothing to write */
#define CQ_NEED_ONE     1         /* One write: a statement is atomic */
#define CQ_NEED_TIDY    2         /* The same, and upkeep that can be left out
                                  ** where only one write is possible */
#define CQ_NEED_UNDO    3         /* One write that may have to be undone */
#define CQ_NEED_MANY    4         /* Several writes, all or none of them */
struct CqTask {
  /* Load rows, decide, materialise the result; set eNeed.  May be called twice
  ** (see xForget).  0: there is nothing to load, and eNeed is CQ_NEED_ONE. */
  void (*xLoad)(CqOp*, CqTask*);
  /* Write.  Nothing may fail after the last write. */
  void (*xApply)(CqOp*, CqTask*);
  /* Forget what was loaded: xLoad will be called again.  May be 0; is never
  ** called for claim tables, whose statement starts over instead. */
  void (*xForget)(CqTask*);
  /* The answer is not there yet when all is written: make it, for a request.
  ** Only claims have it, whose answer is rows; else 0. */
  void (*xAnswer)(CqOp*, CqTask*);
  /* Instead of xLoad, if the request was made before and its answer has been
  ** found; 0: that is all. */
  void (*xReplay)(CqOp*, CqTask*);
  /* Tables were not there: create those of mMake, before xLoad is called
  ** again.  0: the task creates nothing.  See claimqMakes(). */
  void (*xMake)(CqOp*, CqTask*);
  int mMake;
  u8 bLacks;                      /* It is known that they are not there */
  const char *zWhat;              /* For messages: "claimq_vacuum()" */
  /* The answer of a function, set before claimqRun() or by xLoad and xApply:
  ** the first of these that is not 0, else the number. */
  char *zAnswer;                  /* A text, which claimqTaskResult() frees */
  const char *zWord;              /* A word, which is a constant */
  u8 bNull;                       /* NULL */
  i64 iAnswer;
  u8 eNeed;                       /* CQ_NEED_*, by xLoad */
  u8 bInit;                       /* claimq_init(): no table can be relied on */
  u8 bLocked;                     /* The write lock was held by xLoad */
  u8 bKeep;                       /* The answer is to be remembered */
  u8 bNoKeep;                     /* By xLoad, xApply: none is worth it */
  u8 bAlone;                      /* For xApply: no savepoint could be had */
  u8 bSure;                       /* It will write, whatever xLoad finds: the
                                  ** lock may be taken first */
};
/* Run a task that is the first member of the caller's own struct. */
CQ_PRIV void claimqRun(CqOp*, CqTask*);
CQ_PRIV const CqFuncDef *claimqTxnFuncs(int *pnFunc);
/* Hand the answer, unless op has an error, to a function; free it. */
CQ_PRIV void claimqTaskResult(const CqOp*, CqTask*, sqlite3_context*);
/* A function that removes a row by its key, the first argument. */
CQ_PRIV void claimqRemove(CqOp*, CqCall*, int eStmt, int iKey, const char*);
/* For xApply: a write did not find the rows that xLoad has read.  The task is
** undone, and begins again with the lock if it did not have it. */
CQ_PRIV void claimqStale(CqOp*, const CqTask*);
/* Before anything is written: read_only, unsupported, schema_mismatch. */
CQ_PRIV void claimqCheckWritable(CqOp*);  /* ... and main can be written */
CQ_PRIV void claimqCheckSure(CqOp*);      /* ... and has our format */
/* The same while a statement writes, for claimq__clock(). */
CQ_PRIV int claimqCheckClock(CqOp*, sqlite3_context*);
/* In the user's transaction: nested_write inside a writing statement. */
CQ_PRIV void claimqCheckNested(CqOp*, const char *zWhat);
CQ_PRIV void claimqCheckDeleted(CqOp*, CqStmt*, const char *zWhat, i64 iKey);
/* Around what makes indexes inside a savepoint: then a fault can be undone. */
CQ_PRIV void claimqTxnGuard(CqOp*, CqStmt*);
CQ_PRIV void claimqTxnUnguard(CqOp*, CqTask*, CqStmt*);
CQ_PRIV void claimqTxnCheckpoint(CqConn*);        /* Where SQLite makes none */

/**************************************************************************
** Interface to lease.c: giving and judging a lease, the same for all.
*/
/* The claim's columns, after its own columns in every claim table's rows. */
#define CQ_CLAIM_COLS "claim_id:t lease_token:t fencing_token:i owner:t " \
  "incarnation:t claimed_at_ms:i expires_at_ms:i previous_claim_id:t " \
  "attempts:i"
#define CQ_CLAIM_ID          0    /* Places among these columns */
#define CQ_CLAIM_TOKEN       1
#define CQ_CLAIM_FENCE       2
#define CQ_CLAIM_OWNER       3
#define CQ_CLAIM_INCARNATION 4
#define CQ_CLAIM_CLAIMED     5
#define CQ_CLAIM_EXPIRES     6
#define CQ_CLAIM_PREVIOUS    7
#define CQ_NCLAIMCOL         9
struct CqLease {
  char zClaim[CQ_CLAIM_ID_SZ];
  char zToken[CQ_TOKEN_SZ];
  i64 iHead, iFence, iNow, iExpires;
  CqText owner, incarnation;
  u8 bCells;                      /* aCell is filled */
  CqCell aCell[7];                /* Its cells, the same in all rows */
};
/* Derive claim id, token and expiry of the claim pClaim makes from head row
** iHead, whose fencing token was iOldFence.  The texts are kept, not copied. */
CQ_PRIV void claimqLeaseMake(
  CqOp*, CqLease*, const CqClaim*, i64 iHead, i64 iOldFence, CqText scope
);
/* Fill the nine claim columns at a[0..8]. */
CQ_PRIV void claimqLeaseCells(
  CqOp*, CqRows*, CqCell *a, CqLease*, CqText previous, i64 nAttempt
);
/* The same from a row that a claim holds already, whose columns claim_id,
** lease_token, owner, incarnation, claimed_at_ms, expires_at_ms stand
** together from iCol on. */
CQ_PRIV void claimqLeaseKept(
  CqOp*, CqRows*, CqCell *a, const CqStmt*, int iCol, i64 iFence, i64 nAttempt
);
/* Bind :head :claim :token :owner :incarnation :now :expires, those that the
** statement has. */
CQ_PRIV void claimqLeaseBind(CqOp*, CqStmt*, const CqLease*);
/* Raise claim_lost for a verdict (CQ_HOLD_*).  other: the claim that has the
** head row now, z==0 if none. */
CQ_PRIV void claimqLeaseLost(CqOp*, int eVerdict, CqText claimId, CqText other);

/**************************************************************************
** What a discipline is: session.c and its sisters.
*/
/* Rows that fell due (see sql/schema/meta.sql).  A claim may leave CQ_DUE_FEW
** of them unpromoted, because scanning so few is cheap, and promotes
** CQ_DUE_MOST at most, to bound its cost.  If it passes over more than
** CQ_PASS_FEW rows that are not claimable on its way to the first that is, it
** moves them out of the way.  A claim of more than CQ_STAY_MOST rows moves its
** own rows at once, because an idle claim that comes next cannot. */
#define CQ_DUE_FEW   64
#define CQ_DUE_MOST  10000
#define CQ_PASS_FEW  30
#define CQ_STAY_MOST 256

#define CQ_OWN_SZ    512          /* Bytes for a discipline's own state */
typedef union CqOwn CqOwn;
union CqOwn { i64 i; void *p; u8 a[CQ_OWN_SZ]; };
/* Of a put, which is short: to zero more would be seen. */
typedef union CqPutOwn CqPutOwn;
union CqPutOwn { i64 i; void *p; u8 a[192]; };

/* One call of a claim table: the engine fills it and runs it as a task. */
struct CqClaim {
  CqTask task;                    /* First */
  const CqTableDef *pDef;
  const CqVal *aArg;              /* All arguments, in the table's order */
  CqText owner, incarnation;
  i64 iLease;
  i64 nMax;                       /* At most this many rows */
  i64 nLimit;                     /* SQL's LIMIT alone */
  u8 bTime;                       /* The table looks at the time */
  u8 bUpkeep;                     /* It writes, but claims nothing */
  u8 bTidy;                       /* There is upkeep, whatever eNeed says */
  u8 eDone;                       /* CQ_NEED_*: to complete what is done */
  CqText done;                    /* Claims to complete first; z==0: none */
  CqLease lease;                  /* Of the claim; of the last, if several */
  CqIds ids;                      /* Keys of the rows taken, in order */
  CqRows *pRows;                  /* The same rows, for the caller */
  CqOwn own;                      /* The discipline's own state, zeroed */
};

struct CqTableDef {
  const char *zName;              /* As in FROM zName(...) */
  const char *zDoc;               /* One line, for claimq_help */
  /* Own result columns, separated by blanks, each with its declared type: i
  ** INTEGER, t TEXT, b BLOB, which is any value as it is.  "seq:i payload:b" */
  const char *zCols;
  const char *zOrder;             /* Columns it delivers rows by; '-' desc */
  const CqArgDef *aArg;           /* Arguments: hidden columns */
  int nArg;
  u8 bWrites;                     /* 0: only looks (claimq_peek) */
  u8 bClaimCols;                  /* Followed by the claim's columns */
  u8 bShows;                      /* Unless column 0 is claimed: of another */
  const char *zPrefix;            /* Of the claim ids it gives */
  /* Read the discipline's own arguments into own; may be 0.  Reads nothing of
  ** main: a transaction that has read before it takes the lock cannot wait. */
  void (*xArgs)(CqOp*, CqClaim*);
  /* In place of xNext, if it may take nothing: raise the same; may be 0. */
  void (*xNone)(CqOp*, CqClaim*);
  /* Load and decide: add the rows it takes to pRows, their keys to ids, make
  ** the lease; set task.eNeed. */
  void (*xNext)(CqOp*, CqClaim*);
  /* Write the lease to the rows: one statement. */
  void (*xStamp)(CqOp*, CqClaim*);
  /* Upkeep of the indexes, before the rows are stamped; may be 0. */
  void (*xTidy)(CqOp*, CqClaim*);
  /* Free what own points to; may be 0. */
  void (*xDone)(CqClaim*);
  /* The earliest time at which such a claim could succeed if nothing else
  ** happens: now if it would succeed now, and only then; or CQ_NO_TIME.
  ** Never later than the true time.  Reads only. */
  i64 (*xNextAt)(CqOp*, CqClaim*);
  /* claimq_why: add every row of the scope with the reason why the claim takes
  ** it or not, by the same functions that xNext asks.  Reads only.  A table has
  ** both xNextAt and xWhy, or neither. */
  void (*xWhy)(CqOp*, CqClaim*, CqWhy*);
  /* Add the rows of claim claimId, with the lease they have, to pRows:
  ** all that the claim gave if it still holds, else none. */
  void (*xRows)(CqOp*, CqClaim*, CqText claimId);
};
#define CQ_MAX_ARG 14             /* At most this many arguments */

/* The verbs.  For CqDiscipline.aSettle and aFast, in this order: */
#define CQ_VERBS(RENEW, COMPLETE, RELEASE, RETRY, REJECT, REVOKE) \
  { RENEW, COMPLETE, RELEASE, RETRY, REJECT, -1, REVOKE }
#define CQ_RENEW    0
#define CQ_COMPLETE 1
#define CQ_RELEASE  2
#define CQ_RETRY    3
#define CQ_REJECT   4
#define CQ_GUARD    5
#define CQ_REVOKE   6             /* An operator's: it needs no token */
#define CQ_NVERB    7

/* One call of a verb: the engine fills it and runs it as a task. */
struct CqVerb {
  CqTask task;                    /* First; xDecide may change its answer */
  const CqDiscipline *pD;
  int eVerb;                      /* CQ_RENEW ... CQ_REVOKE */
  CqText claimId, token;
  u8 bByKey;                      /* revoke: the row was named, not the claim */
  u8 bLook;                       /* Count its rows before any is written */
  u8 bNoFast;                     /* By xVerbCheck: not in one step (aFast) */
  u8 bFast;                       /* ... or in one step by this statement: */
  int eFast;
  int mUnless;                    /* ... unless one of these CQ_SET_* is set */
  char *zRevoked;                 /* revoke: both as the row has them */
  i64 iHead, iFence;              /* Parsed from claimId; -1 if malformed */
  i64 iExpires;                   /* Of the head row's lease; by the engine */
  i64 iLease;                       /* renew */
  CqText reason;                  /* retry, reject */
  i64 iDelay;                     /* release, retry: delay_ms; -1 not given */
  const CqVal *aOpt;              /* The discipline's own options */
  CqHold hold;                    /* What the claim holds; by the engine */
  /* What xDecide decides; the engine has filled in what is usual. */
  int eStmt;                      /* The statement that settles */
  i64 iUntil;                     /* :until: new expiry, due time; -1: NULL */
  i64 nExpect;                    /* Rows it must change */
  u8 bMore;                       /* ... and xSettling, xSettled write more */
  CqOwn own;                      /* The discipline's own state, zeroed */
};

/* New work: the engine fills it and runs it as a task. */
struct CqPut {
  CqTask task;                    /* First; its answer is the key of the work */
  const CqDiscipline *pD;
  CqText scope;                   /* Session, lane, queue */
  sqlite3_value *pPayload;
  const CqVal *aOpt;              /* One per definition of pD->pPut->aOpt */
  u8 bPlain;                      /* No option was given */
  u8 bArg;                        /* pPayload is an argument of the function */
  u8 bSourceKeyFree;              /* A source key that is taken is left out */
  CqPutOwn own;                   /* The discipline's own state, zeroed */
};
#define CQ_MAX_OPT 32             /* Options of any function, at most */

/* A kind of row that goes by its key and its time alone.  eSelect gives at
** most :limit rows of id and at_ms, the oldest first; those whose time is past,
** or was that long ago, go.  eDelete removes at most :limit rows of the list
** :ids; eFirst, if it is not -1, runs before it and removes at most :limit of
** the rows that depend on them. */
typedef struct CqVacuumDef CqVacuumDef;
struct CqVacuumDef {
  int eSelect, eDelete, eFirst;
  u8 bKept;                       /* They are kept for keep_ms */
  u8 bQuiet;                      /* Rows that users do not know: not counted */
};

/* For CqDiscipline.aStep: */
#define CQ_STEP_FIND 0
#define CQ_STEP_FAST 1             /* Add it, if the claim holds */
#define CQ_STEP_PUT  2
#define CQ_STEP_MOVE 3

struct CqDiscipline {
  const char *zName;
  const char *zPrefix;            /* Of its claim ids, without the colon */
  const CqTableDef *aTable;       /* Its claim tables */
  int nTable;
  const CqFuncDef *aFunc;         /* Scalar functions of its own */
  int nFunc;

  /* The verbs.  eHold finds the head row :head; its first columns are
  ** claim_id, lease_token and claim_size. */
  const CqArgDef *aOpt;           /* Options of its verbs (mVerb) */
  int nOpt;
  int eHold;
  /* For each verb the statement that settles it, -1 if xDecide chooses; and
  ** the one that does it in one step for a claim of one row that is there
  ** (parameters :head :claim :token :now :until), -1 if there is none. */
  int aSettle[CQ_NVERB];
  int aFast[CQ_NVERB];
  /* Refuse a verb by its arguments alone; may be 0. */
  void (*xVerbCheck)(CqOp*, CqVerb*);
  /* A claim of several rows, whose head pHead stands on: count them into
  ** hold.  0: its claims are of one row. */
  void (*xMembers)(CqOp*, CqVerb*, CqStmt *pHead);
  /* The claim does not hold its rows (verdict CQ_HOLD_*).  1: that is no error,
  ** and the result is set.  May be 0. */
  int (*xLost)(CqOp*, CqVerb*, int eVerdict, CqStmt *pHead);
  /* The claim holds its rows: 1 if its lease has expired and that is a loss
  ** all the same.  May be 0. */
  int (*xExpired)(CqOp*, CqVerb*, CqStmt *pHead);
  /* The claim holds: decide what the verb writes and returns.  May be 0. */
  void (*xDecide)(CqOp*, CqVerb*, CqStmt *pHead);
  /* Bind the settling statement's parameters that are not common; may be 0. */
  void (*xBind)(CqOp*, CqVerb*, CqStmt*);
  /* Settle by statements of its own, if the task needs CQ_NEED_MANY or eStmt
  ** is -1; 0: by the one statement eStmt, always. */
  void (*xSettle)(CqOp*, CqVerb*);
  /* If xDecide has set bMore: what else is to be written, before the settling
  ** statement runs and afterwards; may be 0. */
  void (*xSettling)(CqOp*, CqVerb*);
  void (*xSettled)(CqOp*, CqVerb*);
  void (*xVerbDone)(CqVerb*);     /* Free what own points to; may be 0 */

  /* claimq_cancel(): of what type its keys are (0: nothing to cancel), and the
  ** task, whose answer goes to the context. */
  u8 eCancel;
  void (*xCancel)(CqOp*, const CqVal *pKey, int bForce, sqlite3_context*);

  /* New work: the function that puts it (0: there is none), whose arguments
  ** are the scope and the payload, and whose options are the work's. */
  const CqFuncDef *pPut;
  /* Work comes back from a dead letter: make the put's scope of the letter's,
  ** and add to the options what they do not say.  May be 0. */
  void (*xPutBack)(CqOp*, CqPut*, CqVal *aOpt, CqText payloadType);
  /* Check scope and options; set task.xLoad if something must be looked up
  ** before the work can be written. */
  void (*xPutCheck)(CqOp*, CqPut*);
  void (*xPutWrite)(CqOp*, CqPut*);       /* Write it: one statement */
  void (*xPutDone)(CqPut*);               /* May be 0 */

  /* claimq_step(): statements that find, add and move steps, CQ_STEP_*; 0: the
  ** work has none.  bStepSetting: only if the setting CQ_SET_STEPS is there. */
  const int *aStep;
  u8 bStepSetting;

  /* claimq_stats: two statements, for all scopes and for one; may be 0.  Or a
  ** function that adds the rows, of one scope unless scope.z is 0. */
  const int *aStats;
  void (*xStats)(CqOp*, CqText scope, CqRows*);
  /* claimq_leases: the statement that gives the rows that are held, for one
  ** :owner or (NULL) all of them; may be 0. */
  const int *pLeases;
  /* claimq_check: statements that give the rows that are bad. */
  const int *aCheck;
  int mLastCheck;                 /* Settings that the last needs; 0: none */
  int nCheck;

  /* claimq_vacuum(): rows that go by their keys, and others: xVacuum removes
  ** at most nLeft of them, or looks whether there are any (bLook). */
  const CqVacuumDef *aVacuum;
  int nVacuum;
  void (*xVacuum)(CqOp*, CqVacuum*);
};
CQ_PRIV const CqDiscipline *claimqDiscipline(int i);  /* 0 past the last */

/**************************************************************************
** Columns of claimq_stats, in the order of the table.
*/
#define CQ_STATS_DISCIPLINE 0
#define CQ_STATS_SCOPE      1
#define CQ_STATS_PARTITION  2     /* NULL, unless they have any */
#define CQ_STATS_READY      3     /* Counts, to CQ_STATS_DEAD */
#define CQ_STATS_DELAYED    4
#define CQ_STATS_HELD       5
#define CQ_STATS_EXPIRED    6
#define CQ_STATS_BLOCKED    7
#define CQ_STATS_LIMITED    8
#define CQ_STATS_DEAD       9
#define CQ_STATS_OLDEST     10
#define CQ_STATS_NEXT       11
#define CQ_STATS_NCOL       12

/**************************************************************************
** Interface to func.c: the scalar functions.
*/
/* The wrapper in func.c counts the arguments, reads them by their definitions,
** refuses a database that cannot be written if the function writes, and
** reports op's error. */
struct CqFuncDef {
  const char *zName;
  const char *zDoc;               /* One line, for claimq_help */
  u8 eKind;                       /* CQ_F_* */
  u8 nMin;                        /* How many arguments must be given */
  u8 nPure;                       /* Of CQ_F_PURE: deterministic only with just
                                  ** this many; 0: with any */
  u8 bRest;                       /* More values may follow: xFunc reads them;
                                  ** aOpt[], if any, is for claimq_help */
  u8 eLook;                       /* They are the options of claimqLookArgs():
                                  ** 1 without now_ms, 2 with it */
  u8 bPlain;                      /* xFunc looks at apVal[] alone, which has
                                  ** nArg values */
  const CqArgDef *aArg;           /* Arguments by position */
  int nArg;
  const CqArgDef *aOpt;           /* Options: name, value pairs after them */
  int nOpt;
  void (*xFunc)(CqOp*, CqCall*);
  /* What SQLite calls, if not the wrapper. */
  void (*xSql)(sqlite3_context*, int, sqlite3_value**);
  int iData;                      /* For xFunc: which verb, which discipline */
  const CqFuncDef *pList;         /* The same of a list, see cqFuncIsList() */
};
#define CQ_F_PURE   0             /* Deterministic and innocuous; see nPure */
#define CQ_F_GUARD  7             /* Called by triggers of claimq's own */
#define CQ_F_READ   1             /* Looks at the database or the world */
#define CQ_F_WAIT   2             /* The same, and DIRECTONLY */
#define CQ_F_WRITE  3             /* Changes it: DIRECTONLY */
#define CQ_F_INSERT 4             /* ... and may set last_insert_rowid() */
#define CQ_F_INIT   5             /* Decides itself whether it must write */
#define CQ_F_FENCE  6             /* As WRITE, and may stand in WHERE clauses
                                  ** of writing statements */
struct CqCall {
  const CqFuncDef *pDef;
  sqlite3_context *pCtx;          /* For the result */
  int nVal;                       /* All values that were given */
  sqlite3_value **apVal;
  CqVal aArg[CQ_MAX_ARG];         /* One for each of pDef->aArg */
  const CqVal *aOpt;              /* One for each of pDef->aOpt */
  CqVal aGiven[CQ_MAX_OPT];       /* The same, if an option was given */
};
CQ_PRIV int claimqFuncRegister(CqConn*);
/* The i-th list of functions, 0 past the last. */
CQ_PRIV const CqFuncDef *claimqFuncList(int i, int *pnFunc);
/**************************************************************************
** The engine: claim.c, verb.c, put.c, vacuum.c.  Each runs what all
** disciplines do the same way, and calls the discipline for the rest.
*/
/* claim.c: one call of a claim table, rows into pRows.  nLimit: SQL's LIMIT. */
CQ_PRIV void claimqClaim(
  CqOp*, const CqTableDef*, const CqVal *aArg, i64 nLimit, CqRows*
);
/* For xNext: rows were taken.  bTidy: there is upkeep. */
CQ_PRIV void claimqClaimNeed(CqClaim*, int bTidy);
/* For xStamp: run a stamping statement; it must change n rows. */
CQ_PRIV void claimqClaimStamp(CqOp*, CqClaim*, CqStmt*, i64 n);

/* look.c: a claim that is only looked at. */
typedef struct CqLook CqLook;
struct CqLook {
  CqClaim c;
  CqVal aArg[CQ_MAX_ARG];
  u8 bMany;                       /* Of any of several scopes: these */
  CqText *aScope;
  int nScope;
};
#define CQ_LOOK_SCOPES 1024       /* This many at most */
CQ_PRIV void claimqLookDone(CqLook*);
CQ_PRIV int claimqLookList(
  CqOp*, const char *zName, const char *zOf, sqlite3_value*, CqText **paText
);
CQ_PRIV void claimqLookBegin(CqOp*, CqLook*, CqText name, const char *zMore);
CQ_PRIV void claimqLookArgs(CqOp*, CqLook*, int bNow, int, sqlite3_value**);
CQ_PRIV int claimqLookIsOption(const CqTableDef*, int i, int bNow);
CQ_PRIV void claimqLookNamed(
  CqOp*, CqLook*, const CqArgDef *aDef, const CqVal *aVal, int nDef,
  sqlite3_value *pScope
);
CQ_PRIV i64 claimqLookNextAt(CqOp*, CqLook*);
/* The same for claimq_why: its rows into pRows. */
CQ_PRIV void claimqLookWhy(CqOp*, CqLook*, CqRows *pRows);
struct CqWhy {
  CqRows *pRows;
  int aiRow[CQ_WHY_UNKNOWN+1];    /* Row of each reason, counted from 1 */
};
/* For xWhy: one more row has this reason.  pExample (0: iKey) is its key,
** iUntil when the reason ends (CQ_NO_TIME: nobody knows).  Returns the cell for
** the detail if it is the first one, else 0. */
CQ_PRIV CqCell *claimqWhyAdd(
  CqOp*, CqWhy*, int eWhy, sqlite3_value *pExample, i64 iKey, i64 iUntil
);
/* When a reason of claimqRowWhy() ends. */
CQ_PRIV i64 claimqWhyUntil(int eWhy, i64 iAvailable, i64 iExpires);
/* For xNextAt: would xNext take something? and the times of a *_LATER. */
#define CQ_LOOK_COLS 32           /* More than any claim table has */
#define CQ_LOOK_ROWS 1000         /* Rows that are read at most */
CQ_PRIV int claimqLookTakes(CqOp*, CqClaim*);
CQ_PRIV i64 claimqLookLater(CqOp*, CqStmt*);
CQ_PRIV i64 claimqColTime(const CqStmt*, int iCol);       /* NULL: CQ_NO_TIME */

/* wait.c: claimq_wait(), claimq_next_at(). */
CQ_PRIV const CqFuncDef *claimqWaitFuncs(int *pnFunc);

/* verb.c */
CQ_PRIV const CqFuncDef *claimqVerbFuncs(int *pnFunc);
CQ_PRIV int claimqVerbHolds(CqOp*, CqText claimId);     /* Its rows: 1 or 0 */
/* Judge the claim of a verb: CQ_HOLD_*.  Raises claim_lost unless it is OK, or
** the verb is release.  pHead is on the head row; the caller gives it back. */
CQ_PRIV int claimqVerbHold(CqOp*, CqVerb*, CqStmt *pHead);
/* Bind :head :claim :token :now :until :reason, those the statement has. */
CQ_PRIV void claimqVerbBind(CqOp*, const CqVerb*, CqStmt*);

/* The parts of a verb, for claimq_step(): find the discipline of its first two
** arguments; judge and decide; forget that; write. */
CQ_PRIV void claimqVerbBegin(CqOp*, CqVerb*, CqCall*);
CQ_PRIV void claimqVerbLoad(CqOp*, CqTask*);
CQ_PRIV void claimqVerbForget(CqTask*);
CQ_PRIV void claimqVerbApply(CqOp*, CqTask*);

/* The discipline of the verb's claim id; 0 with an error if there is none. */
CQ_PRIV const CqDiscipline *claimqVerbDiscipline(CqOp*, CqVerb*);
/* Its option result of claimq_complete(), or -1. */
CQ_PRIV int claimqVerbResult(const CqDiscipline*);
/* claimq_complete() as part of another task -> its answer. */
CQ_PRIV i64 claimqVerbComplete(CqOp*, const CqTask*, CqVerb*, sqlite3_value*);

CQ_PRIV int claimqIsVerb(const CqFuncDef*);
/* Options of verbs: of all disciplines (i==-1), of discipline i; or 0. */
CQ_PRIV const CqArgDef *claimqVerbOptions(int i, int *pnOpt);

/* done.c: what it needs (CQ_NEED_*) to complete a list of claims; do it; the
** same as claimq_complete(claims). */
CQ_PRIV int claimqDoneNeed(CqOp*, CqText done, const char *zWhat);
CQ_PRIV void claimqDoneRun(CqOp*, const CqTask*, CqText done);
CQ_PRIV void claimqDoneFunc(CqOp*, CqCall*);

/* step.c: claimq_step(). */
CQ_PRIV const CqFuncDef *claimqStepFuncs(int *pnFunc);
/* The work of a dead letter was put back: its steps become those of iKey. */
CQ_PRIV void claimqStepsMove(
  CqOp*, const CqDiscipline*, i64 iLetter, i64 iKey
);

/* put.c */
CQ_PRIV void claimqPutRun(CqOp*, CqCall*);   /* xFunc of CqDiscipline.pPut */
/* Put new work as part of another task, which needs CQ_NEED_MANY: look up what
** must be, and write.  The caller calls claimqPutDone(), also after errors. */
CQ_PRIV void claimqPutInside(CqOp*, CqPut*);
CQ_PRIV void claimqPutDone(CqPut*);
/* For xPutWrite: bind the payload to parameter i. */
/* For xPutWrite: bind :at and :delay of the fragment AVAILABLE. */
CQ_PRIV void claimqPutDue(CqOp*, const CqVal *pAt, const CqVal *pDelay,
                          CqStmt*);
CQ_PRIV void claimqPutPayload(CqOp*, const CqPut*, CqStmt*, int i);
/* The way to hand a number out of an INSERT, claimq__note(:where, value): the
** types of a pointer to an i64, and to a CqMaker, which also makes a text of
** the number.  The text must stay until the statement has ended. */
#define CQ_CLOCK_TYPE "claimq-clock"
#define CQ_NOTE_TYPE  "claimq-note"
#define CQ_MAKER_TYPE "claimq-maker"
#define CQ_WROTE_TYPE "claimq-wrote"      /* An i64 that counts the calls */
typedef struct CqMaker CqMaker;
struct CqMaker {
  const char *(*xMake)(CqMaker*, i64);
};

/* origin.c: what a dead letter remembers of the work that failed. */
CQ_PRIV const CqFuncDef *claimqOriginFuncs(int *pnFunc);
CQ_PRIV int claimqOriginRead(
  CqOp*, CqText origin, const CqArgDef *aDef, int nDef, char *zBuf, CqVal *aOut
);
/* The inverse: *pOut is the text, which the caller frees; 0 on error. */
CQ_PRIV char *claimqOriginWrite(
  CqOp*, const CqArgDef *aDef, int nDef, const CqVal *aVal, CqText *pOut
);

/* vacuum.c */
struct CqVacuum {
  CqTask task;                    /* First; its answer: rows removed */
  i64 iOlder;                     /* older_than_ms; -1: as policies say */
  i64 nLimit;                     /* Rows that the call may remove */
  i64 nLeft;                      /* ... and may still */
  u8 bLook;                       /* Only look whether there are any ... */
  u8 bAny;                        /* ... there are */
};
/* How long what has ended is kept, if nothing else is said. */
#define CQ_KEEP_MS        ((i64)7*24*3600*1000)
#define CQ_KEEP_FAILED_MS ((i64)30*24*3600*1000)
/* Until when what belongs to no lane goes; iOlder: older_than_ms, or -1. */
CQ_PRIV i64 claimqKeepUntil(CqOp*, i64 iOlder);
/* 1 if what ended at iEnd and is kept for iKeep may go now. */
CQ_PRIV int claimqKeepOver(i64 iEnd, i64 iKeep, i64 iNow);
/* One end of work in this many removes what earlier ones have left: 1 if one of
** these does, n of them up to iLast. */
#define CQ_KEEP_EVERY 32
CQ_PRIV int claimqKeepTurn(i64 iLast, i64 n);
CQ_PRIV void claimqVacuumed(CqVacuum*, i64 n);        /* n rows are removed */
/* Run a statement like VACUUM_DELETE; how many rows it removed. */
CQ_PRIV i64 claimqVacuumList(CqOp*, int eStmt, const CqIds*, i64 nMax);
/* Remove at most nMax rows of a kind.  0: are there any? */
CQ_PRIV int claimqVacuumSome(CqOp*, const CqVacuumDef*, i64 nMax);
CQ_PRIV const CqFuncDef *claimqVacuumFuncs(int *pnFunc);

/**************************************************************************
** Functions and tables that are of no discipline.
*/
/* lane/schedule.c: claimq_cron_next(); restore.c: claimq_restored(). */
CQ_PRIV const CqFuncDef *claimqScheduleFuncs(int *pnFunc);
CQ_PRIV const CqFuncDef *claimqRestoreFuncs(int *pnFunc);

/* absent.c: what stands for the tables of features that are not there. */
CQ_PRIV int claimqAbsentRegister(CqConn*);

/* help.c: the table claimq_help; see.c: claimq_stats and its sisters. */
CQ_PRIV const CqTableDef *claimqHelpTable(int *pnTable);
CQ_PRIV const CqTableDef *claimqSeeTables(int *pnTable);
CQ_PRIV const CqFuncDef *claimqSeeFuncs(int *pnFunc);

/**************************************************************************
** Interface to vtab/replay.c: one claim per statement.
*/
typedef struct CqAnswer CqAnswer; /* What one list of arguments gave */
struct CqAnswer {
  CqAnswer *pNext;                /* The one before */
  CqAnswer *apKid[2];             /* In the tree, by the next bit of the hash */
  CqAnswer **ppSlot;              /* What points here in the tree */
  const CqTableDef *pDef;         /* The table that gave it */
  u8 bActed;                      /* It stands for more than its rows */
  CqRows rows;
  CqCell aArg[CQ_MAX_ARG];        /* Arguments, copied; the bytes are in rows */
};
CQ_PRIV CqPrep *claimqPrepNow(CqConn*);               /* From xBestIndex */
CQ_PRIV CqPrep *claimqPrepFind(CqConn*, i64 iPrep);   /* 0: long ago */
CQ_PRIV int claimqPrepRefused(CqOp*, CqPrep*);        /* From xFilter */
CQ_PRIV int claimqPrepFresh(CqConn*, CqPrep*);        /* From xFilter */
CQ_PRIV void claimqUserOpen(CqConn*, CqUser*);
CQ_PRIV void claimqUserEnter(CqOp*, CqUser*, i64 iPrep);
CQ_PRIV void claimqUserClose(CqConn*, CqUser*);
CQ_PRIV CqAnswer *claimqReplayFind(
  CqReplay*, const CqTableDef*, sqlite3_value **apArg
);
CQ_PRIV int claimqReplayActed(const CqReplay*);
CQ_PRIV CqAnswer *claimqReplayBegin(
  CqOp*, CqReplay*, const CqTableDef*, int nCol, sqlite3_value **apArg
);
CQ_PRIV void claimqReplayForget(CqClaims*, CqReplay*);

/**************************************************************************
** Interface to vtab/claim_vtab.c: the one claim module.
*/
CQ_PRIV int claimqVtabRegister(CqConn*);
CQ_PRIV const CqTableDef *claimqTableList(int i, int *pnTable);  /* The i-th */

#endif /* CLAIMQ_INT_H */
