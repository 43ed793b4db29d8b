/*
** claimq_int.h: what the files of claimq know of each other.
**
** One boxed section per .c file, from the bottom up.  Dependencies point one
** way only:
**
**     main -> func, verb, vtab -> disciplines -> txn, stmt_cache -> util
**                                            \-> core (claimq_core.h)
**
** The life of every call, whether a scalar function or xFilter:
**
**     CqOp op;  claimqOpInit(&op, pConn);    one sticky error, one clock
**     read the arguments                     claimqRead...()
**     claimqRun(&op, &task, pCtx)            load -> decide -> apply
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
typedef struct CqTask CqTask;             /* Load and apply of an operation */
typedef struct CqTableDef CqTableDef;     /* A claim table */
typedef struct CqVerb CqVerb;             /* One call of one of the verbs */
typedef struct CqFuncDef CqFuncDef;       /* A scalar function */
typedef struct CqDiscipline CqDiscipline; /* A way to queue */

/**************************************************************************
** Interface to util.c: sticky error, argument readers, memory, clock.
*/
struct CqOp {
  CqConn *pConn;
  sqlite3 *db;
  int rc;                         /* Sticky: SQLITE_OK or what went wrong */
  char *zErr;                     /* Message, by sqlite3_malloc; may be 0 */
  i64 iNow;                       /* The call's one reading of the clock */
  u8 bNow;                        /* iNow is set */
  u8 bInit;                       /* claimq_init(): no table can be relied on */
  u8 bFilter;                     /* Called from xFilter of a claim table */
  u8 bAlone;                      /* No savepoint can be had: one write only */
  int nWrite;                     /* Writes that the loaded task will make */
  sqlite3_stmt *pGuard;           /* See txn.c; 0 on newer versions */
};

/* The CODEs of SPEC section 2. */
#define CQ_BAD_ARGUMENT    "bad_argument"
#define CQ_NOT_INITIALISED "not_initialised"
#define CQ_SCHEMA_MISMATCH "schema_mismatch"
#define CQ_CLAIM_LOST      "claim_lost"
#define CQ_NOT_FOUND       "not_found"
#define CQ_CONFLICT        "conflict"
#define CQ_NOT_RECLAIMABLE "not_reclaimable"
#define CQ_TOO_LARGE       "too_large"
#define CQ_READ_ONLY       "read_only"
#define CQ_UNSAFE_PLAN     "unsafe_plan"
#define CQ_NESTED_WRITE    "nested_write"

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
CQ_PRIV i64 claimqNow(CqOp*);     /* op.iNow, read from the VFS at most once */

/* What an argument may be. */
#define CQ_T_ANY   0              /* Any SQLite value */
#define CQ_T_TEXT  1              /* TEXT in valid UTF-8 */
#define CQ_T_INT   2              /* INTEGER, or REAL with integral value */
#define CQ_T_WORD  3              /* One of the words of xWords() */
#define CQ_T_JSON  4              /* TEXT; its content is read later */

struct CqArgDef {
  const char *zName;
  u8 eType;                       /* CQ_T_* */
  u8 mFlag;                       /* CQ_A_* */
  u8 mVerb;                       /* Options of verbs: 1<<CQ_RENEW ... */
  i64 iDefault;                   /* For INT and WORD */
  const char *zDefault;           /* For TEXT and JSON; 0 is NULL */
  i64 iMin, iMax;                 /* Range of INT; iMax of TEXT in bytes */
  const char *const *(*xWords)(void);
};
#define CQ_A_REQUIRED 0x01        /* Must be given, and not as NULL */
#define CQ_A_NULL     0x02        /* Must be given; NULL has a meaning */
#define CQ_A_NOW      0x04        /* This is now_ms: it sets op.iNow */

struct CqVal {
  u8 bGiven;                      /* Given, and not NULL */
  CqText t;                       /* TEXT, JSON, WORD as given or by default */
  i64 i;                          /* INT; number of a WORD */
  sqlite3_value *pVal;            /* As given; 0 if it was not */
};

/* Read one value by its definition; pVal==0 is "not given". */
CQ_PRIV void claimqRead(CqOp*, const CqArgDef*, sqlite3_value *pVal, CqVal*);
/* Read trailing name, value pairs into aOut[], one per definition.  Only
** definitions with a bit of mVerb count (mVerb==0: all of them). */
CQ_PRIV void claimqReadOptions(
  CqOp*, const CqArgDef *aDef, int nDef, int mVerb,
  int nVal, sqlite3_value **apVal, CqVal *aOut
);
/* now + delay_ms, or available_at_ms: the two are alternatives. */
CQ_PRIV i64 claimqDueAt(CqOp*, const CqVal *pAt, const CqVal *pDelay);
CQ_PRIV CqText claimqStr(const char*);    /* A NUL-terminated string */
CQ_PRIV int claimqTextEq(CqText, CqText);
/* The bytes of a TEXT value, as UTF-8 and without a zero at their end. */
CQ_PRIV CqText claimqValueText(CqOp*, sqlite3_value*);
CQ_PRIV CqText claimqTextOrNull(CqOp*, sqlite3_value*);   /* z==0 if NULL */
CQ_PRIV char *claimqTextDup(CqOp*, CqText);  /* To be freed; 0: out of memory */
/* How much of a text an error message shows: "%.*s", claimqShown(t), t.z */
CQ_PRIV int claimqShown(CqText);

struct CqIds {
  i64 *a;
  int n, nAlloc;
  const CqRows *pRows;            /* The rows of these keys, or 0 */
  int iLease;                     /* Where their claim_id, lease_token stand */
};
CQ_PRIV void claimqIdsAdd(CqOp*, CqIds*, i64);
CQ_PRIV void claimqIdsClear(CqIds*);

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
CQ_PRIV CqCell *claimqRowsAdd(CqOp*, CqRows*);        /* nCol NULLs, or 0 */
CQ_PRIV CqCell *claimqRow(const CqRows*, int iRow);
CQ_PRIV void claimqCellInt(CqCell*, i64);
CQ_PRIV void claimqCellText(CqOp*, CqRows*, CqCell*, CqText);
CQ_PRIV void claimqCellValue(CqOp*, CqRows*, CqCell*, sqlite3_value*);
/* The first n columns of the statement's current row, as far as somebody will
** read them; or one, type and bytes as is. */
CQ_PRIV void claimqCellColumns(CqOp*, CqRows*, CqCell*, sqlite3_stmt*, int n);
CQ_PRIV void claimqCellColumn(CqOp*, CqRows*, CqCell*, sqlite3_stmt*, int iCol);
CQ_PRIV void claimqCellResult(const CqCell*, sqlite3_context*);
CQ_PRIV CqText claimqCellGetText(const CqCell*);      /* z==0 unless TEXT */

/**************************************************************************
** Interface to stmt_cache.c: prepared statements and who owns them.
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
};
#define CQ_NPREP 16               /* So many of the latest are remembered */

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
  i64 iOpen;                      /* Cursors opened so far */
  u8 bOpened;                     /* The last call was xOpen */
  int nTemp;                      /* Connections to tables of temp so far */
};

struct CqConn {
  sqlite3 *db;
  int nRef;                       /* Functions and modules that point here */
  u8 bOwned;                      /* A virtual table will empty the cache */
  u8 bChecked;                    /* The schema version was looked at */
  u8 bLockFirst;                  /* The next claim is a restarted one */
  i64 iNextRowid;                 /* For the rows that claim tables deliver */
  CqClaims claims;                /* See replay.c */
  sqlite3_stmt *apStmt[CQ_NSTMT]; /* Idle statements, reset and unbound */
};
CQ_PRIV CqConn *claimqConnNew(sqlite3*);              /* 0 on OOM; one ref */
CQ_PRIV void claimqConnRef(CqConn*);
CQ_PRIV void claimqConnUnref(void*);                  /* Also a destructor */
CQ_PRIV int claimqCacheRegister(CqConn*);             /* module claimq_stmt */

/* Take statement eStmt (CQ_SQL_*), ready to bind; 0 if op has an error.
** Give it back with claimqStmtDone(), which is a no-op for 0. */
CQ_PRIV sqlite3_stmt *claimqStmt(CqOp*, int eStmt);
CQ_PRIV void claimqStmtDone(CqOp*, int eStmt, sqlite3_stmt*);
CQ_PRIV void claimqBindInt(CqOp*, sqlite3_stmt*, int i, i64);
CQ_PRIV void claimqBindText(CqOp*, sqlite3_stmt*, int i, CqText);
CQ_PRIV void claimqBindValue(CqOp*, sqlite3_stmt*, int i, sqlite3_value*);
CQ_PRIV void claimqBindPointer(
  CqOp*, sqlite3_stmt*, int i, void*, const char *zType
);
CQ_PRIV void claimqBindIds(CqOp*, sqlite3_stmt*, int i, const CqIds*);
CQ_PRIV int claimqStep(CqOp*, sqlite3_stmt*);   /* 1: a row; 0: done or error */
CQ_PRIV CqText claimqColumnText(CqOp*, sqlite3_stmt*, int iCol);
/* Step to the end, give back, and return the number of rows changed. */
CQ_PRIV i64 claimqExec(CqOp*, int eStmt, sqlite3_stmt*);
/* Run statement text that is not cached (schema, claim tables in temp). */
CQ_PRIV void claimqExecSql(CqOp*, const char *zSql);
/* How much it has worked so far: VM steps, and rows of full scans. */
CQ_PRIV int claimqStmtSteps(sqlite3_stmt*);
CQ_PRIV int claimqStmtScanned(sqlite3_stmt*);

/**************************************************************************
** Interface to id_list.c: claimq_ids(?), the rows of a bound CqIds.
*/
#define CQ_IDS_TYPE   "claimq-ids"  /* For sqlite3_bind_pointer() */
#define CQ_IDS_MODULE "claimq_ids"
CQ_PRIV int claimqIdListRegister(CqConn*);

/**************************************************************************
** Interface to txn.c: taking the lock, all or nothing.
*/
struct CqTask {
  /* Load rows, decide, materialise the result; set op.nWrite to the number of
  ** writes that xApply will make.  May be called twice (see xForget). */
  void (*xLoad)(CqOp*, void *pCtx);
  /* Write.  Nothing may fail after the last write. */
  void (*xApply)(CqOp*, void *pCtx);
  /* Forget what was loaded: xLoad will be called again.  May be 0; always is
  ** for claim tables, whose statement starts over instead. */
  void (*xForget)(void *pCtx);
};
CQ_PRIV void claimqRun(CqOp*, const CqTask*, void *pCtx);
/* Around what makes indexes inside a savepoint: then a fault can be undone. */
CQ_PRIV sqlite3_stmt *claimqTxnGuard(CqOp*);
CQ_PRIV void claimqTxnUnguard(CqOp*, sqlite3_stmt*);
/* In an xApply of several writes: run CREATE INDEX eStmt, if it is allowed. */
CQ_PRIV void claimqMakeIndex(CqOp*, int eStmt);
/* nested_write if op.bAlone: called first by an xApply of several writes. */
CQ_PRIV void claimqNeedScope(CqOp*, const char *zWhat);

/**************************************************************************
** Interface to schema.c: claimq_init(), and what is wrong when SQL fails.
*/
CQ_PRIV void claimqSchemaInit(CqOp*);
/* Turn "no such table" and the like into not_initialised, schema_mismatch. */
CQ_PRIV void claimqSchemaDiagnose(CqOp*, const char *zSql);
CQ_PRIV void claimqSchemaCheck(CqOp*);    /* Once per connection: version */
CQ_PRIV void claimqCheckWritable(CqOp*);  /* read_only, if main is */

/**************************************************************************
** Interface to the disciplines: session.c and its sisters.
*/
struct CqTableDef {
  const char *zName;              /* As in FROM zName(...) */
  /* Own result columns, separated by blanks, each with its declared type: i
  ** INTEGER, t TEXT, b BLOB, which is any value as it is.  "seq:i payload:b" */
  const char *zCols;
  const char *zOrder;             /* Columns it delivers rows by; '-' desc */
  const CqArgDef *aArg;           /* Arguments: hidden columns */
  int nArg;
  u8 bWrites;                     /* 0: only looks (claimq_peek) */
  u8 bClaimCols;                  /* Followed by the claim's columns */
  /* Claim.  aArg holds nArg values, nLimit is SQL's LIMIT or 2^63-1. */
  void (*xFill)(CqOp*, const CqVal *aArg, i64 nLimit, CqRows*);
};
#define CQ_MAX_ARG 12             /* At most so many arguments */

/* Rows that fell due (see sql/schema.sql): so few a claim may leave unpromoted,
** scanning them is cheap; so many it promotes at most, to bound its cost.  The
** way to the first ready row: so many VM steps are few (about 30 rows).  Rows
** that may be scanned without an index.  A claim of more rows moves them out
** of the way at once: an idle claim that comes next cannot. */
#define CQ_DUE_FEW   64
#define CQ_DUE_MOST  10000
#define CQ_STEPS_FEW 400
#define CQ_SCAN_FEW  1000
#define CQ_STAY_MOST 256

/* The claim's columns, from iFirst on, in every claim table's rows. */
#define CQ_CLAIM_COLS "claim_id:t lease_token:t fencing_token:i owner_id:t " \
  "incarnation_id:t claimed_at_ms:i expires_at_ms:i previous_claim_id:t " \
  "attempts:i"
#define CQ_NCLAIMCOL 9
typedef struct CqLease CqLease;   /* A lease about to be given */
struct CqLease {
  char zClaim[CQ_CLAIM_ID_SZ];
  char zToken[CQ_TOKEN_SZ];
  i64 iHead, iFence, iNow, iExpires;
  CqText owner, incarnation;
  u8 bCells;                      /* aCell is filled */
  CqCell aCell[7];                /* Its cells, the same in all rows */
};

#define CQ_RENEW    0
#define CQ_COMPLETE 1
#define CQ_RELEASE  2
#define CQ_RETRY    3
#define CQ_REJECT   4
#define CQ_GUARD    5

struct CqVerb {
  int eVerb;                      /* CQ_RENEW ... CQ_GUARD */
  CqText claimId, token;
  i64 iHead, iFence;              /* Parsed from claimId; -1 if malformed */
  i64 iTtl;                       /* renew */
  CqText reason;                  /* retry, reject */
  i64 iDelay;                     /* release, retry: delay_ms; -1 not given */
  const CqVal *aOpt;              /* The discipline's own options */
  i64 iResult;                    /* OUT: the number to return */
  const char *zResult;            /* OUT: the word to return, if not 0 */
};

/* A scalar function.  The wrapper in claimq_func.c counts the arguments,
** refuses a read-only database if it writes, and reports op's error. */
struct CqFuncDef {
  const char *zName;
  const char *zUsage;             /* "(session, payload [, option ...])" */
  int nMin, nMax;                 /* Number of arguments; nMax<0: any */
  u8 eKind;                       /* CQ_F_* */
  void (*xFunc)(CqOp*, sqlite3_context*, int, sqlite3_value**);
};
#define CQ_F_PURE   0             /* Deterministic and innocuous */
#define CQ_F_READ   1             /* Looks at the database or the world */
#define CQ_F_WRITE  2             /* Changes it: DIRECTONLY */
#define CQ_F_INSERT 3             /* ... and may set last_insert_rowid() */
#define CQ_F_INIT   4             /* Decides itself whether it must write */

struct CqDiscipline {
  const char *zName;
  const char *zPrefix;            /* Of its claim ids, without the colon */
  const CqTableDef *aTable;       /* Its claim tables */
  int nTable;
  const CqArgDef *aOpt;           /* Options of its verbs (mVerb) */
  int nOpt;
  const CqFuncDef *aFunc;         /* Scalar functions of its own */
  int nFunc;
  void (*xVerb)(CqOp*, CqVerb*);  /* Settle: any of the verbs */
  /* claimq_cancel(): of what type its keys are (0: nothing to cancel), and the
  ** word to return. */
  u8 eCancel;
  const char *(*xCancel)(CqOp*, const CqVal *pKey, int bForce);
};
CQ_PRIV const CqDiscipline *claimqDiscipline(int i);  /* 0 past the last */

CQ_PRIV const CqDiscipline *claimqSessionDiscipline(void);
CQ_PRIV const CqDiscipline *claimqLaneDiscipline(void);
CQ_PRIV const CqDiscipline *claimqOutboxDiscipline(void);
CQ_PRIV const CqDiscipline *claimqContestDiscipline(void);
CQ_PRIV const CqDiscipline *claimqLetterDiscipline(void);

/**************************************************************************
** Interface to lease.c: what all disciplines share in giving and checking
** a lease.
*/
/* Derive claim id, token and expiry.  The texts are kept, not copied. */
CQ_PRIV void claimqLeaseMake(
  CqLease*, const char *zPrefix, i64 iHead, i64 iOldFence, CqText scope,
  CqText owner, CqText incarnation, i64 iNow, i64 iTtl
);
/* Fill the nine claim columns at a[0..8]. */
CQ_PRIV void claimqLeaseCells(
  CqOp*, CqRows*, CqCell *a, CqLease*, CqText previous, i64 nAttempt
);
/* Bind claim_id, lease_token, owner_id, incarnation_id, claimed_at_ms,
** expires_at_ms at iFirst .. iFirst+5. */
CQ_PRIV void claimqLeaseBind(CqOp*, sqlite3_stmt*, int iFirst, const CqLease*);
/* Raise claim_lost for a verdict (CQ_HOLD_*).  other: the claim that has the
** head row now, z==0 if none. */
CQ_PRIV void claimqLeaseLost(CqOp*, int eVerdict, CqText claimId, CqText other);
/* What the claim of a verb holds (CQ_HOLD_*).  Raises claim_lost unless that is
** all of it, or the verb is release, which then has nothing to do. */
CQ_PRIV int claimqLeaseVerdict(
  CqOp*, const CqVerb*, const CqHold*, CqText other
);
/* Run the task of a verb.  guard only loads: it takes no lock. */
CQ_PRIV void claimqVerbRun(CqOp*, CqVerb*, const CqTask*, void *pCtx);
/* renew and complete, the verbs of nearly every claim, in one statement for
** the usual case of one row that the claim holds: 1.  0 if it changed nothing:
** the long way decides, and says why; also if op has an error.  ?1 is the
** head, ?2 and ?3 claim id and token, ?4 the new expiry or now, ?5 pVal. */
CQ_PRIV int claimqVerbFast(CqOp*, CqVerb*, int eRenew, int eComplete,
                           sqlite3_value *pVal);

/**************************************************************************
** Interface to vacuum.c: claimq_vacuum([options]).
*/
CQ_PRIV void claimqVacuumFunc(CqOp*, sqlite3_context*, int, sqlite3_value**);

/**************************************************************************
** Interface to claimq_verb.c: claim-id prefix -> discipline -> settle.
*/
CQ_PRIV const CqFuncDef *claimqVerbFuncs(int *pnFunc);

/**************************************************************************
** Interface to claimq_func.c: the scalar functions.
*/
CQ_PRIV int claimqFuncRegister(CqConn*);

/**************************************************************************
** Interface to vtab/replay.c: one claim per statement.
*/
typedef struct CqAnswer CqAnswer; /* What one list of arguments gave */
struct CqAnswer {
  CqAnswer *pNext;                /* The one before */
  CqAnswer *apKid[2];             /* In the tree, by the next bit of the hash */
  CqAnswer **ppSlot;              /* What points here in the tree */
  const CqTableDef *pDef;         /* The table that gave it */
  CqRows rows;
  CqCell aArg[CQ_MAX_ARG];        /* Arguments, copied; the bytes are in rows */
};
CQ_PRIV CqPrep *claimqPrepNow(CqConn*);               /* From xBestIndex */
CQ_PRIV CqPrep *claimqPrepFind(CqConn*, i64 iPrep);   /* 0: long ago */
CQ_PRIV int claimqPrepRefused(CqOp*, CqPrep*);        /* From xFilter */
CQ_PRIV void claimqUserOpen(CqConn*, CqUser*);
CQ_PRIV void claimqUserEnter(CqOp*, CqUser*, i64 iPrep);
CQ_PRIV void claimqUserClose(CqConn*, CqUser*);
CQ_PRIV CqAnswer *claimqReplayFind(
  CqReplay*, const CqTableDef*, sqlite3_value **apArg
);
CQ_PRIV CqAnswer *claimqReplayBegin(
  CqOp*, CqReplay*, const CqTableDef*, int nCol, sqlite3_value **apArg
);
CQ_PRIV void claimqReplayForget(CqReplay*);

/**************************************************************************
** Interface to vtab/claim_vtab.c: the one claim module.
*/
CQ_PRIV int claimqVtabRegister(CqConn*);
/* CREATE VIRTUAL TABLE temp.* for all claim tables that are not there.  Never
** an error: 1 if all of them are there afterwards. */
CQ_PRIV int claimqVtabAttach(CqConn*);

#endif /* CLAIMQ_INT_H */
