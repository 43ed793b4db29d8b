/*
** fuzz.h: what the three fuzz targets share.
**
**   fuzz_args.c   bytes -> calls of functions and claim tables with arguments
**                 of every kind
**   fuzz_ops.c    bytes -> a history of operations over all disciplines, with
**                 invariants checked after each step
**   fuzz_rows.c   bytes -> damage to a database, then calls
**
** Each is a libFuzzer target on its own, linked with the amalgamation and with
** SQLite (see the Makefile), and runs one input like this:
**
**     build/fuzz/fuzz_ops FILE
**     FUZZ_TRACE=1 build/fuzz/fuzz_ops FILE     all SQL of it on stderr
**
** An input is decoded byte by byte: fzBelow(&in, n) is a choice among n, and
** when the bytes are used up all choices are 0.  So every input is valid, and
** a small change of the bytes is a small change of what happens.
**
** The same input does the same thing in every run: the clock stands still,
** SQLite's randomness is not random, and every input has a connection of its
** own on a copy of a prepared database (an image).
**
** What is wrong ends in fzDie(), which aborts: libFuzzer then keeps the input.
** Statements are bounded by a count of steps of SQLite's machine, so that what
** hangs is found by counting, on any machine.
*/
#ifndef FUZZ_H
#define FUZZ_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sqlite3.h>
#include "claimq.h"

typedef sqlite3_int64 i64;
typedef unsigned char u8;
#define FZ_I64_MAX ((i64)9223372036854775807LL)
#define FZ_I64_MIN (-FZ_I64_MAX-1)

/* Steps of SQLite's machine that no statement here may need; and the number
** after which one is stopped that may well need more (FzDb.bSoft). */
#define FZ_STEP_MAX  5000000
#define FZ_STEP_SOFT 200000

int LLVMFuzzerTestOneInput(const uint8_t *aData, size_t nData);

/**************************************************************************
** The input
*/
typedef struct FzIn FzIn;
struct FzIn {
  const uint8_t *a;
  size_t n, i;
};
int fzMore(const FzIn*);                  /* 1 if there are bytes left */
int fzByte(FzIn*);                        /* 0 at the end */
int fzBelow(FzIn*, int n);                /* 0 .. n-1 */
i64 fzInt64(FzIn*);                       /* Eight bytes */

/**************************************************************************
** Values: what is bound to a statement.
*/
typedef struct FzVal FzVal;
struct FzVal {
  int eType;                      /* SQLITE_NULL, _INTEGER, _FLOAT, ... */
  i64 i;
  double r;
  const char *z;                  /* TEXT, BLOB: n bytes */
  int n;
  u8 b16;                         /* TEXT: bind it as UTF-16 */
};
FzVal fzNull(void);
FzVal fzInt(i64);
FzVal fzReal(double);
FzVal fzText(const char*);                /* NUL-terminated, not copied */
FzVal fzBytes(int eType, const char*, int n);

/**************************************************************************
** A connection
*/
typedef struct FzDb FzDb;
#define FZ_NCONTENT 32
#define FZ_NCACHE   128
struct FzDb {
  sqlite3 *db;
  i64 nStep;                      /* Steps of the statement that runs */
  u8 bSoft;                       /* Too many steps: stop it, do not die */
  u8 bQuiet;                      /* No trace */
  int rc;                         /* Of the last fzRun() */
  char *zErr;                     /* Its message, by sqlite3_malloc; or 0 */
  i64 nRow;                       /* Its rows */
  u8 bCache;                      /* Keep statements */
  int iSlot;
  sqlite3_stmt *apCache[FZ_NCACHE];
  int nContent;                   /* For fzContent() */
  sqlite3_stmt *apContent[FZ_NCONTENT];
};

/* An image: the bytes of a prepared database. */
typedef struct FzImage FzImage;
struct FzImage {
  unsigned char *a;
  i64 n;
  sqlite3 *db;                    /* For fzBorrow() */
};

/* The clock and randomness stand still from now on.  Call it first. */
void fzSetup(void);
/* Open a connection on a copy of an image (0: an empty database).  Loads the
** extension.  Returns 0 if the database is so damaged that this fails. */
int fzOpen(FzDb*, const FzImage*);
/* Close it; dies unless SQLite agrees. */
void fzClose(FzDb*);
/* The same with a connection that earlier inputs have used, and must leave as
** they found it.  Much cheaper. */
void fzBorrow(FzDb*, FzImage*);
void fzReturn(FzDb*);
int fzUntouched(FzDb*);           /* It has the image yet, byte for byte */
/* Keep the content of the main database as an image. */
FzImage fzSave(FzDb*);
/* A database in which every discipline has work in every state, at time
** FZ_NOW.  zEncoding: "UTF-8" or "UTF-16le". */
FzImage fzPopulate(const char *zEncoding);
#define FZ_NOW 1000000

/* The claims it has (token i belongs to claim i), and its batches. */
typedef struct FzIds FzIds;
#define FZ_MAX_ID 64
struct FzIds {
  int n;
  char *az[FZ_MAX_ID];
};
extern FzIds fzClaims, fzTokens, fzBatches;
void fzLoadIds(FzDb*);

/* Called for each row; stops if it returns 0. */
typedef int (*FzRowFunc)(void*, sqlite3_stmt*);

/* Run one statement with nArg values bound; rc, zErr, nRow tell how it went.
** SQLITE_OK: it ran to its end, or xRow stopped it. */
int fzRun(FzDb*, const char *zSql, int nArg, const FzVal*, FzRowFunc, void*);
/* Statements that cannot fail; the second returns an integer. */
void fzMust(FzDb*, const char *zSql);
i64 fzOne(FzDb*, const char *zSql);

/* A hash of schema and content of main. */
uint64_t fzContent(FzDb*);
/* The same, cheaper: what main is like now; is it still like that? */
typedef struct FzMark FzMark;
#define FZ_MARK_MAX 400000
struct FzMark {
  u8 bBytes;                      /* The mark is the bytes, else the hash */
  uint64_t iContent;
  i64 n;
  unsigned char a[FZ_MARK_MAX];
};
void fzMark(FzDb*, FzMark*);
int fzSame(FzDb*, FzMark*);
/* The CODE of "claimq: CODE: detail" if fzRun() ended so, else 0.  The text
** must be one of the codes in the manual (Errors). */
const char *fzCode(const FzDb*);
/* Dies unless PRAGMA integrity_check is happy. */
void fzIntegrity(FzDb*);

/* Say what is wrong, and abort. */
void fzDie(const char *zFmt, ...);
/* 1 if FUZZ_TRACE is set: statements are printed. */
int fzTracing(void);

#endif /* FUZZ_H */
