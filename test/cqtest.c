/*
** cqtest.c: everything that can go wrong, on demand.
**
** A Tcl extension that stands between SQLite and the world.  Load it before
** the sqlite3 package, because an allocator can only be set while SQLite is
** not initialised, and load it -global, so that its sqlite3_close() is the
** one that the sqlite3 package calls:
**
**     load -global build/cqtest.so Cqtest
**     package require sqlite3
**     cq_fault oom 3 transient            the third allocation will fail
**     catch {db eval {SELECT 1}} msg      -> out of memory
**     cq_hits oom                         -> 1
**     cq_fault oom 0                      no more faults
**
** Commands
**
**   cq_fault KIND N ?transient|persistent?
**       The N-th event of that kind from now on fails; persistent: and all
**       after it.  N 0 switches it off.  Resets the hits.  Kinds:
**         oom        an allocation
**         io         a call of the file system that cq_io_filter selects
**         api        a fallible routine called by an extension that was
**                    loaded by cq_api_load
**         interrupt  at a step of a watched database: sqlite3_interrupt()
**         abort      at a step of a watched database: the progress handler
**                    stops the statement that is running, and only that
**         anytime    at an allocation while a database is watched:
**                    sqlite3_interrupt(), as another thread might call it
**         auth       a question to the authorizer of a watched database
**         crash      _exit(77) at a write, sync, truncate or delete
**   cq_hits KIND            how often it struck since it was armed
**   cq_events KIND ?CALLS?  how many events there were since then, armed or
**                           not; of io only CALLS, as in cq_io_filter
**   cq_io_filter KINDS CODE
**       KINDS: list of open read write sync truncate lock delete access shm,
**       or all; CODE: ioerr full busy cantopen
**   cq_crash_torn BOOL      a write that crashes still writes its first half
**   cq_watch DB progress|auth|memory|none
**       Have DB ask us at each step, for each authorization or allocation
**   cq_clock MS|real        what SQLite's clock says (ms since 1970)
**   cq_malloc_count         {allocations bytes} now outstanding
**   cq_open_files           files that SQLite holds open
**   cq_close_errors         sqlite3_close() calls that were refused so far
**   cq_load DB FILE         sqlite3_load_extension()
**   cq_api_load DB FILE     the same, but by hand, with our copy of
**                           sqlite3_api_routines, and from a copy of FILE: one
**                           file serves one SQLite of a process
**   cq_other_load DB FILE   the same, but from FILE itself
**   cq_at_step N SCRIPT     before the N-th sqlite3_step() of what cq_api_load
**                           has loaded; 0: never.  -> how many of those that
**                           were asked for before are still to come
**   cq_api_version N        to what cq_api_load loads we are SQLite N
**                           (3040001); -1: one without a list of its routines
**   cq_vfs_version N        1: our VFS has no xCurrentTimeInt64(); 2: it has;
**                           3: it could have, and has not
**   cq_lookaside_off DB     small allocations, too, come from the allocator;
**                           right after opening
**   cq_ids DB SQL LIST      SQL with the list of integers bound to ?1, as
**                           claimq__ids() takes it -> the integers it gives
**   cq_autocommit DB        1 or 0
**   cq_busy_stmts DB ?GLOB? statements that were begun and not reset, whose
**                           text is like GLOB
**   cq_column_count DB SQL  columns of a statement, without running it
**   cq_limit DB N           sqlite3_limit() of the length of values -> before
**   cq_reset_status DB      what SQLite counts of pages begins at 0
**   cq_leak_stmt DB         forget a statement (to test the harness itself)
**   cq_leak_memory N        lose N bytes (the same, for a leak sanitizer)
**   cq_fork                 0 in the child, its pid in the parent
**   cq_spawn OUTFILE PROGRAM ARG...
**                           start a program, its output into OUTFILE -> pid;
**                           it is killed if we die first
**   cq_kill PID KILL|STOP|CONT|TERM|INT
**   cq_waitpid PID ?MS?     {exit N} or {signal N}, {} if MS have passed
**   cq_alarm MS             a SIGALRM after MS milliseconds, which only ends
**                           what the process sleeps in
**   cq_close_fd N           close() a descriptor, whose ever it is
**   cq_exit N               _exit(): no flushing, no handlers
**
** DB is the name of a command made by the sqlite3 package.
**
** This is test code for one interpreter in one thread; SQLite serialises the
** calls of the allocator itself.
*/
#define _GNU_SOURCE               /* RTLD_NEXT, fork() and friends under c99 */
#define SQLITE_CORE 1             /* sqlite3ext.h: the struct, not the macros */
#include <tcl.h>
#include <sqlite3ext.h>
#include <assert.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
# include <sys/prctl.h>
#endif

#define CQT_EXPORT __attribute__((visibility("default")))

/**************************************************************************
** Faults that count down.
*/
enum {
  CQT_OOM, CQT_IO, CQT_API, CQT_INTERRUPT, CQT_ABORT, CQT_ANYTIME, CQT_AUTH,
  CQT_CRASH, CQT_NFAULT
};
static const char *const cqtFaultNames[] = {
  "oom", "io", "api", "interrupt", "abort", "anytime", "auth", "crash", 0
};

typedef struct CqtFault CqtFault;
struct CqtFault {
  long n;                         /* Strike at the n-th event; 0: never */
  int bPersistent;                /* ... and at all after it */
  long nHit;                      /* How often it struck */
  long nEvent;                    /* Events since it was armed */
};
static CqtFault cqtFault[CQT_NFAULT];

/* Count one event.  Returns 1 if it is to fail. */
static int cqtStrike(int eFault){
  CqtFault *p = &cqtFault[eFault];
  p->nEvent++;
  if( p->n==0 ) return 0;
  if( p->n>1 ){
    p->n--;
    return 0;
  }
  if( !p->bPersistent ) p->n = 0;
  p->nHit++;
  return 1;
}

/**************************************************************************
** The allocator: exact sizes, so that a sanitizer sees one byte too far.
*/
typedef struct CqtBlock CqtBlock;
struct CqtBlock {
  long long n;                    /* Bytes asked for */
  long long unused;               /* Keeps the user's part aligned by 16 */
};
static long cqtAllocs = 0;
static long long cqtBytes = 0;
static sqlite3 *cqtAnytime = 0;   /* The database that CQT_ANYTIME interrupts */

/* Returns NULL when out of memory, really or by fault. */
static void *cqtMalloc(int n){
  CqtBlock *p;
  if( cqtStrike(CQT_OOM) ) return 0;
  if( cqtAnytime && cqtStrike(CQT_ANYTIME) ) sqlite3_interrupt(cqtAnytime);
  p = malloc(sizeof(*p) + (size_t)n);
  if( p==0 ) return 0;
  p->n = n;
  cqtAllocs++;
  cqtBytes += n;
  return &p[1];
}

static void cqtFree(void *pMem){
  CqtBlock *p = (CqtBlock*)pMem;
  if( p==0 ) return;
  p--;
  cqtAllocs--;
  cqtBytes -= p->n;
  free(p);
}

/* Always moves, so that a pointer kept by mistake is seen.  NULL on failure,
** and the old block stays. */
static void *cqtRealloc(void *pOld, int n){
  void *pNew = cqtMalloc(n);
  if( pNew ){
    long long nOld = ((CqtBlock*)pOld)[-1].n;
    memcpy(pNew, pOld, (size_t)(nOld<n ? nOld : n));
    cqtFree(pOld);
  }
  return pNew;
}

static int cqtSize(void *pMem){
  return pMem ? (int)((CqtBlock*)pMem)[-1].n : 0;
}
static int cqtRoundup(int n){ return n; }
static int cqtMemInit(void *p){ (void)p; return SQLITE_OK; }
static void cqtMemShutdown(void *p){ (void)p; }

static const sqlite3_mem_methods cqtMem = {
  cqtMalloc, cqtFree, cqtRealloc, cqtSize, cqtRoundup,
  cqtMemInit, cqtMemShutdown, 0
};

/**************************************************************************
** The file system: a shim over the default VFS.
*/
enum {
  CQT_OPEN = 1, CQT_READ = 2, CQT_WRITE = 4, CQT_SYNC = 8,
  CQT_TRUNCATE = 16, CQT_LOCK = 32, CQT_DELETE = 64, CQT_ACCESS = 128,
  CQT_SHM = 256
};
static const char *const cqtIoNames[] = {
  "open", "read", "write", "sync", "truncate", "lock", "delete", "access",
  "shm", "all", 0
};
static int cqtIoMask = 0;         /* Calls that count */
static int cqtIoCode = 0;         /* What they answer when struck */
static long cqtIoCalls[9];        /* Calls of each kind since it was armed */
static int cqtTorn = 0;           /* A crashing write writes one half */
static int cqtOpenFiles = 0;
static sqlite3_int64 cqtClock = -1;     /* Fake time, or -1 */
static sqlite3_vfs *cqtVfs = 0;   /* The real one */

#define CQT_UNIX_EPOCH 210866760000000LL /* 1970 in SQLite's milliseconds */

typedef struct CqtFile CqtFile;
struct CqtFile {
  sqlite3_file base;
  sqlite3_file *pReal;            /* Right behind this struct */
  sqlite3_io_methods methods;     /* Ours, with the version of the real one */
};
#define REAL(pFile) (((CqtFile*)(pFile))->pReal)
#define METHOD(pFile) REAL(pFile)->pMethods

/* One call of kind eCall is about to happen: die if it is time to, else
** return SQLITE_OK or the code to fail with. */
static int cqtIo(int eCall){
  int i;
  for(i=0; (1<<i)<eCall; i++){}
  cqtIoCalls[i]++;
  if( (eCall & (CQT_WRITE|CQT_SYNC|CQT_TRUNCATE|CQT_DELETE))
   && cqtStrike(CQT_CRASH)
  ){
    _exit(77);
  }
  if( (eCall & cqtIoMask) && cqtStrike(CQT_IO) ) return cqtIoCode;
  return SQLITE_OK;
}

static int cqtFileClose(sqlite3_file *p){
  cqtOpenFiles--;
  return METHOD(p)->xClose(REAL(p));
}
static int cqtFileRead(sqlite3_file *p, void *z, int n, sqlite3_int64 iOff){
  int rc = cqtIo(CQT_READ);
  return rc ? rc : METHOD(p)->xRead(REAL(p), z, n, iOff);
}
static int cqtFileWrite(
  sqlite3_file *p, const void *z, int n, sqlite3_int64 iOff
){
  int rc;
  if( cqtTorn && cqtFault[CQT_CRASH].n==1 ){
    METHOD(p)->xWrite(REAL(p), z, n/2, iOff);
  }
  rc = cqtIo(CQT_WRITE);
  return rc ? rc : METHOD(p)->xWrite(REAL(p), z, n, iOff);
}
static int cqtFileTruncate(sqlite3_file *p, sqlite3_int64 n){
  int rc = cqtIo(CQT_TRUNCATE);
  return rc ? rc : METHOD(p)->xTruncate(REAL(p), n);
}
/* Counted but not done: no test survives a loss of power anyway, and tests
** should not wait for the disk. */
static int cqtFileSync(sqlite3_file *p, int flags){
  (void)p;
  (void)flags;
  return cqtIo(CQT_SYNC);
}
static int cqtFileSize(sqlite3_file *p, sqlite3_int64 *pn){
  return METHOD(p)->xFileSize(REAL(p), pn);
}
static int cqtFileLock(sqlite3_file *p, int eLock){
  int rc = cqtIo(CQT_LOCK);
  return rc ? rc : METHOD(p)->xLock(REAL(p), eLock);
}
static int cqtFileUnlock(sqlite3_file *p, int eLock){
  return METHOD(p)->xUnlock(REAL(p), eLock);
}
static int cqtFileReserved(sqlite3_file *p, int *pOut){
  return METHOD(p)->xCheckReservedLock(REAL(p), pOut);
}
static int cqtFileControl(sqlite3_file *p, int op, void *pArg){
  return METHOD(p)->xFileControl(REAL(p), op, pArg);
}
static int cqtFileSector(sqlite3_file *p){
  return METHOD(p)->xSectorSize(REAL(p));
}
static int cqtFileDevice(sqlite3_file *p){
  return METHOD(p)->xDeviceCharacteristics(REAL(p));
}
static int cqtShmMap(
  sqlite3_file *p, int iPg, int szPg, int bExtend, void volatile **pp
){
  int rc = cqtIo(CQT_SHM);
  return rc ? rc : METHOD(p)->xShmMap(REAL(p), iPg, szPg, bExtend, pp);
}
/* Giving a lock back cannot fail. */
static int cqtShmLock(sqlite3_file *p, int iOfst, int n, int flags){
  int rc = (flags & SQLITE_SHM_LOCK) ? cqtIo(CQT_LOCK) : SQLITE_OK;
  return rc ? rc : METHOD(p)->xShmLock(REAL(p), iOfst, n, flags);
}
static void cqtShmBarrier(sqlite3_file *p){
  METHOD(p)->xShmBarrier(REAL(p));
}
static int cqtShmUnmap(sqlite3_file *p, int bDelete){
  return METHOD(p)->xShmUnmap(REAL(p), bDelete);
}
static int cqtFetch(sqlite3_file *p, sqlite3_int64 iOff, int n, void **pp){
  return METHOD(p)->xFetch(REAL(p), iOff, n, pp);
}
static int cqtUnfetch(sqlite3_file *p, sqlite3_int64 iOff, void *pPage){
  return METHOD(p)->xUnfetch(REAL(p), iOff, pPage);
}

static const sqlite3_io_methods cqtFileMethods = {
  3,                                             /* iVersion */
  cqtFileClose, cqtFileRead, cqtFileWrite, cqtFileTruncate, cqtFileSync,
  cqtFileSize, cqtFileLock, cqtFileUnlock, cqtFileReserved, cqtFileControl,
  cqtFileSector, cqtFileDevice,
  cqtShmMap, cqtShmLock, cqtShmBarrier, cqtShmUnmap,
  cqtFetch, cqtUnfetch
};

/* Open a file; the caller owns it if pFile->pMethods is set. */
static int cqtVfsOpen(
  sqlite3_vfs *pVfs, const char *zName, sqlite3_file *pFile, int flags,
  int *pOut
){
  CqtFile *p = (CqtFile*)pFile;
  int rc = cqtIo(CQT_OPEN);
  (void)pVfs;
  p->base.pMethods = 0;
  if( rc ) return rc;
  p->pReal = (sqlite3_file*)&p[1];
  rc = cqtVfs->xOpen(cqtVfs, zName, p->pReal, flags, pOut);
  if( p->pReal->pMethods ){
    cqtOpenFiles++;
    p->methods = cqtFileMethods;
    p->methods.iVersion = p->pReal->pMethods->iVersion;
    if( p->methods.iVersion>3 ) p->methods.iVersion = 3;
    p->base.pMethods = &p->methods;
  }
  return rc;
}
/* Without the sync of the directory, as in cqtFileSync(). */
static int cqtVfsDelete(sqlite3_vfs *p, const char *zName, int bSyncDir){
  int rc = cqtIo(CQT_DELETE);
  (void)p;
  (void)bSyncDir;
  return rc ? rc : cqtVfs->xDelete(cqtVfs, zName, 0);
}
static int cqtVfsAccess(sqlite3_vfs *p, const char *z, int flags, int *pOut){
  int rc = cqtIo(CQT_ACCESS);
  (void)p;
  return rc ? rc : cqtVfs->xAccess(cqtVfs, z, flags, pOut);
}
static int cqtVfsPath(sqlite3_vfs *p, const char *z, int n, char *zOut){
  (void)p;
  return cqtVfs->xFullPathname(cqtVfs, z, n, zOut);
}
static void *cqtVfsDlOpen(sqlite3_vfs *p, const char *z){
  (void)p;
  return cqtVfs->xDlOpen(cqtVfs, z);
}
static void cqtVfsDlError(sqlite3_vfs *p, int n, char *z){
  (void)p;
  cqtVfs->xDlError(cqtVfs, n, z);
}
static void (*cqtVfsDlSym(sqlite3_vfs *p, void *pLib, const char *z))(void){
  (void)p;
  return cqtVfs->xDlSym(cqtVfs, pLib, z);
}
static void cqtVfsDlClose(sqlite3_vfs *p, void *pLib){
  (void)p;
  cqtVfs->xDlClose(cqtVfs, pLib);
}
static int cqtVfsRandom(sqlite3_vfs *p, int n, char *z){
  (void)p;
  return cqtVfs->xRandomness(cqtVfs, n, z);
}
static int cqtVfsSleep(sqlite3_vfs *p, int n){
  (void)p;
  return cqtVfs->xSleep(cqtVfs, n);
}
static int cqtTime(sqlite3_int64 *pOut){
  if( cqtClock<0 ) return cqtVfs->xCurrentTimeInt64(cqtVfs, pOut);
  *pOut = cqtClock + CQT_UNIX_EPOCH;
  return SQLITE_OK;
}
/* Who asks the one that is not for this version gets a time long ago. */
static int cqtVfsTime64(sqlite3_vfs *p, sqlite3_int64 *pOut){
  *pOut = 0;
  return p->iVersion>=2 ? cqtTime(pOut) : SQLITE_OK;
}
static int cqtVfsTime(sqlite3_vfs *p, double *pOut){
  sqlite3_int64 iNow = 0;
  int rc = p->iVersion==2 ? SQLITE_OK : cqtTime(&iNow);
  *pOut = (double)iNow/86400000.0;
  return rc;
}
static int cqtVfsError(sqlite3_vfs *p, int n, char *z){
  (void)p;
  return cqtVfs->xGetLastError(cqtVfs, n, z);
}

static sqlite3_vfs cqtShim = {
  2, 0, 0, 0, "cqtest", 0,
  cqtVfsOpen, cqtVfsDelete, cqtVfsAccess, cqtVfsPath,
  cqtVfsDlOpen, cqtVfsDlError, cqtVfsDlSym, cqtVfsDlClose,
  cqtVfsRandom, cqtVfsSleep, cqtVfsTime, cqtVfsError, cqtVfsTime64,
  0, 0, 0
};

/* Returns an SQLite error code. */
static int cqtVfsInstall(void){
  cqtVfs = sqlite3_vfs_find(0);
  if( cqtVfs==0 ) return SQLITE_ERROR;
  cqtShim.szOsFile = (int)sizeof(CqtFile) + cqtVfs->szOsFile;
  cqtShim.mxPathname = cqtVfs->mxPathname;
  return sqlite3_vfs_register(&cqtShim, 1);
}

/**************************************************************************
** The routines that SQLite hands to an extension, each able to fail.
*/
static const sqlite3_api_routines *cqtApi = 0;   /* SQLite's own */
static sqlite3_api_routines cqtApiCopy;          /* Ours */

#define FAIL_CODE if( cqtStrike(CQT_API) ) return SQLITE_NOMEM
#define FAIL_NULL if( cqtStrike(CQT_API) ) return 0

static void *cqtApiMalloc(int n){
  FAIL_NULL;
  return cqtApi->malloc(n);
}
static void *cqtApiMalloc64(sqlite3_uint64 n){
  FAIL_NULL;
  return cqtApi->malloc64(n);
}
static void *cqtApiRealloc(void *p, int n){
  FAIL_NULL;
  return cqtApi->realloc(p, n);
}
static void *cqtApiRealloc64(void *p, sqlite3_uint64 n){
  FAIL_NULL;
  return cqtApi->realloc64(p, n);
}
/* A string that could not be made has still used up its %z arguments. */
static char *cqtApiVmprintf(const char *zFmt, va_list ap){
  char *z = cqtApi->vmprintf(zFmt, ap);
  if( z && cqtStrike(CQT_API) ){
    cqtApi->free(z);
    return 0;
  }
  return z;
}
static char *cqtApiMprintf(const char *zFmt, ...){
  va_list ap;
  char *z;
  va_start(ap, zFmt);
  z = cqtApiVmprintf(zFmt, ap);
  va_end(ap);
  return z;
}
static char *cqtApiStrFinish(sqlite3_str *p){
  char *z = cqtApi->str_finish(p);
  if( z && cqtStrike(CQT_API) ){
    cqtApi->free(z);
    return 0;
  }
  return z;
}
static sqlite3_value *cqtApiValueDup(const sqlite3_value *p){
  FAIL_NULL;
  return cqtApi->value_dup(p);
}
/* As SQLite does it, a function that was not made loses its user data. */
static int cqtApiFunction(
  sqlite3 *db, const char *zName, int nArg, int eEnc, void *p,
  void (*xFunc)(sqlite3_context*,int,sqlite3_value**),
  void (*xStep)(sqlite3_context*,int,sqlite3_value**),
  void (*xFinal)(sqlite3_context*), void (*xDestroy)(void*)
){
  if( cqtStrike(CQT_API) ){
    if( xDestroy ) xDestroy(p);
    return SQLITE_NOMEM;
  }
  return cqtApi->create_function_v2(
    db, zName, nArg, eEnc, p, xFunc, xStep, xFinal, xDestroy
  );
}
static int cqtApiModule(
  sqlite3 *db, const char *zName, const sqlite3_module *pMod, void *p,
  void (*xDestroy)(void*)
){
  if( cqtStrike(CQT_API) ){
    if( xDestroy ) xDestroy(p);
    return SQLITE_NOMEM;
  }
  return cqtApi->create_module_v2(db, zName, pMod, p, xDestroy);
}
static int cqtApiPrepare2(
  sqlite3 *db, const char *z, int n, sqlite3_stmt **pp, const char **pzTail
){
  *pp = 0;
  FAIL_CODE;
  return cqtApi->prepare_v2(db, z, n, pp, pzTail);
}
static int cqtApiPrepare3(
  sqlite3 *db, const char *z, int n, unsigned int flags, sqlite3_stmt **pp,
  const char **pzTail
){
  *pp = 0;
  FAIL_CODE;
  return cqtApi->prepare_v3(db, z, n, flags, pp, pzTail);
}
/* The destructor is called in any case. */
static int cqtApiBindPointer(
  sqlite3_stmt *p, int i, void *pPtr, const char *zType, void (*xDel)(void*)
){
  if( cqtStrike(CQT_API) ){
    if( xDel ) xDel(pPtr);
    return SQLITE_NOMEM;
  }
  return cqtApi->bind_pointer(p, i, pPtr, zType, xDel);
}
static int cqtApiRhsValue(sqlite3_index_info *p, int i, sqlite3_value **pp){
  *pp = 0;
  FAIL_CODE;
  return cqtApi->vtab_rhs_value(p, i, pp);
}
/* Running a statement fails once, never for good: then there would be no way
** to roll back, which in SQLite there always is. */
static int cqtApiRunFails(void){
  return !cqtFault[CQT_API].bPersistent && cqtStrike(CQT_API);
}
static int cqtApiExec(
  sqlite3 *db, const char *z, sqlite3_callback x, void *p, char **pzErr
){
  if( pzErr ) *pzErr = 0;
  if( cqtApiRunFails() ) return SQLITE_NOMEM;
  return cqtApi->exec(db, z, x, p, pzErr);
}

/* Something that happens between two steps of the extension: cq_at_step. */
static Tcl_Interp *cqtAtInterp = 0;
static Tcl_Obj *cqtAtScript = 0;
static int cqtAtLeft = 0;
static void cqtAtStep(void){
  Tcl_InterpState state;
  if( cqtAtLeft==0 || --cqtAtLeft>0 ) return;
  state = Tcl_SaveInterpState(cqtAtInterp, TCL_OK);
  if( Tcl_EvalObjEx(cqtAtInterp, cqtAtScript, TCL_EVAL_GLOBAL)!=TCL_OK ){
    Tcl_BackgroundException(cqtAtInterp, TCL_ERROR);
  }
  Tcl_RestoreInterpState(cqtAtInterp, state);
}

static int cqtApiStep(sqlite3_stmt *p){
  cqtAtStep();
  if( cqtApiRunFails() ) return SQLITE_NOMEM;
  return cqtApi->step(p);
}
static int cqtApiDeclare(sqlite3 *db, const char *z){
  FAIL_CODE;
  return cqtApi->declare_vtab(db, z);
}
static int cqtApiVtabConfig(sqlite3 *db, int op, ...){
  va_list ap;
  int bValue;
  FAIL_CODE;
  if( op!=SQLITE_VTAB_CONSTRAINT_SUPPORT ) return cqtApi->vtab_config(db, op);
  va_start(ap, op);
  bValue = va_arg(ap, int);
  va_end(ap);
  return cqtApi->vtab_config(db, op, bValue);
}
static int cqtApiBindInt64(sqlite3_stmt *p, int i, sqlite3_int64 v){
  FAIL_CODE;
  return cqtApi->bind_int64(p, i, v);
}
static int cqtApiBindNull(sqlite3_stmt *p, int i){
  FAIL_CODE;
  return cqtApi->bind_null(p, i);
}
static int cqtApiBindValue(sqlite3_stmt *p, int i, const sqlite3_value *v){
  FAIL_CODE;
  return cqtApi->bind_value(p, i, v);
}
static int cqtApiBindText(
  sqlite3_stmt *p, int i, const char *z, int n, void (*xDel)(void*)
){
  if( cqtStrike(CQT_API) ){
    if( xDel!=SQLITE_STATIC && xDel!=SQLITE_TRANSIENT ) xDel((void*)z);
    return SQLITE_NOMEM;
  }
  return cqtApi->bind_text(p, i, z, n, xDel);
}
static int cqtApiBindText64(
  sqlite3_stmt *p, int i, const char *z, sqlite3_uint64 n,
  void (*xDel)(void*), unsigned char eEnc
){
  if( cqtStrike(CQT_API) ){
    if( xDel!=SQLITE_STATIC && xDel!=SQLITE_TRANSIENT ) xDel((void*)z);
    return SQLITE_NOMEM;
  }
  return cqtApi->bind_text64(p, i, z, n, xDel, eEnc);
}

/* A text of a row that is not UTF-8 yet has no bytes if there is no memory to
** turn it, and then sqlite3_value_text() gives none either. */
static sqlite3_value *cqtApiColumn = 0;    /* The last column that was asked */
static int cqtApiUnturned = 0;             /* ... cannot be turned */
static sqlite3_value *cqtApiColumnValue(sqlite3_stmt *p, int i){
  cqtApiUnturned = 0;
  return cqtApiColumn = cqtApi->column_value(p, i);
}
static int cqtApiValueBytes(sqlite3_value *p){
  if( p==cqtApiColumn && !cqtApiUnturned
   && cqtApi->value_type(p)==SQLITE_TEXT
  ){
    cqtApiUnturned = cqtStrike(CQT_API);
  }
  return p==cqtApiColumn && cqtApiUnturned ? 0 : cqtApi->value_bytes(p);
}
static const unsigned char *cqtApiValueText(sqlite3_value *p){
  return p==cqtApiColumn && cqtApiUnturned ? 0 : cqtApi->value_text(p);
}

static int cqtApiVersion = 0;     /* What we pretend to be; 0: what we are */
static int cqtApiVersionNumber(void){
  return cqtApiVersion ? cqtApiVersion : cqtApi->libversion_number();
}

static void cqtApiInstall(void){
  sqlite3_api_routines *p = &cqtApiCopy;
  *p = *cqtApi;
  p->malloc = cqtApiMalloc;
  p->malloc64 = cqtApiMalloc64;
  p->realloc = cqtApiRealloc;
  p->realloc64 = cqtApiRealloc64;
  p->mprintf = cqtApiMprintf;
  p->vmprintf = cqtApiVmprintf;
  p->str_finish = cqtApiStrFinish;
  p->value_dup = cqtApiValueDup;
  p->create_function_v2 = cqtApiFunction;
  p->create_module_v2 = cqtApiModule;
  p->prepare_v2 = cqtApiPrepare2;
  p->prepare_v3 = cqtApiPrepare3;
  p->exec = cqtApiExec;
  p->step = cqtApiStep;
  p->declare_vtab = cqtApiDeclare;
  p->vtab_config = cqtApiVtabConfig;
  p->bind_int64 = cqtApiBindInt64;
  p->bind_null = cqtApiBindNull;
  p->bind_value = cqtApiBindValue;
  p->bind_text = cqtApiBindText;
  p->bind_text64 = cqtApiBindText64;
  p->libversion_number = cqtApiVersionNumber;
  p->bind_pointer = cqtApiBindPointer;
  p->column_value = cqtApiColumnValue;
  p->value_bytes = cqtApiValueBytes;
  p->value_text = cqtApiValueText;
  p->vtab_rhs_value = cqtApiRhsValue;
}

/* An auto-extension that does nothing but look at what it is given. */
static int cqtCapture(
  sqlite3 *db, char **pzErr, const sqlite3_api_routines *pApi
){
  (void)db;
  (void)pzErr;
  cqtApi = pApi;
  return SQLITE_OK;
}

/* Returns an SQLite error code. */
static int cqtApiCapture(void){
  sqlite3 *db = 0;
  int rc;
  sqlite3_auto_extension((void(*)(void))cqtCapture);
  rc = sqlite3_open(":memory:", &db);
  sqlite3_close(db);
  sqlite3_cancel_auto_extension((void(*)(void))cqtCapture);
  if( rc==SQLITE_OK && cqtApi==0 ) rc = SQLITE_ERROR;
  if( rc==SQLITE_OK ) cqtApiInstall();
  return rc;
}

/**************************************************************************
** sqlite3_close(), as the sqlite3 package will call it: it ignores the
** answer, we count the bad ones.
*/
typedef int (*CqtCloseFunc)(sqlite3*);
static long cqtCloseErrors = 0;

CQT_EXPORT int sqlite3_close(sqlite3 *db){
  union { void *p; CqtCloseFunc x; } u;
  int rc;
  u.p = dlsym(RTLD_NEXT, "sqlite3_close");
  rc = u.x(db);
  if( rc!=SQLITE_OK ) cqtCloseErrors++;
  return rc;
}

/**************************************************************************
** Tcl commands.
*/
#define CQT_CMD(name) static int name( \
  ClientData cd, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[])

/* TCL_OK if there are nMin to nMax arguments, else TCL_ERROR and a usage. */
static int cqtArgs(
  Tcl_Interp *interp, int objc, Tcl_Obj *const objv[], int nMin, int nMax,
  const char *zUsage
){
  if( objc-1>=nMin && objc-1<=nMax ) return TCL_OK;
  Tcl_WrongNumArgs(interp, 1, objv, zUsage);
  return TCL_ERROR;
}

static int cqtError(Tcl_Interp *interp, const char *zMsg){
  Tcl_SetObjResult(interp, Tcl_NewStringObj(zMsg, -1));
  return TCL_ERROR;
}

static int cqtResult(Tcl_Interp *interp, Tcl_WideInt v){
  Tcl_SetObjResult(interp, Tcl_NewWideIntObj(v));
  return TCL_OK;
}

/* The connection behind a database command: it is the first field of the
** command's data, as SQLite's own test code relies on.  TCL_ERROR if there is
** no such command. */
static int cqtDb(Tcl_Interp *interp, Tcl_Obj *pName, sqlite3 **pDb){
  Tcl_CmdInfo info;
  if( !Tcl_GetCommandInfo(interp, Tcl_GetString(pName), &info) ){
    return cqtError(interp, "no such database");
  }
  *pDb = *(sqlite3**)info.objClientData;
  return TCL_OK;
}

CQT_CMD(cqtFaultCmd){
  static const char *const azMode[] = { "transient", "persistent", 0 };
  int eFault, eMode = 0;
  long n;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 2, 3, "KIND N ?MODE?")
   || Tcl_GetIndexFromObj(interp, objv[1], cqtFaultNames, "fault", 0, &eFault)
   || Tcl_GetLongFromObj(interp, objv[2], &n)
   || (objc>3
       && Tcl_GetIndexFromObj(interp, objv[3], azMode, "mode", 0, &eMode))
  ){
    return TCL_ERROR;
  }
  cqtFault[eFault].n = n;
  cqtFault[eFault].bPersistent = eMode;
  cqtFault[eFault].nHit = 0;
  cqtFault[eFault].nEvent = 0;
  if( eFault==CQT_IO ) memset(cqtIoCalls, 0, sizeof(cqtIoCalls));
  if( eFault==CQT_API ) cqtApiUnturned = 0;   /* Its address may come again */
  return TCL_OK;
}

CQT_CMD(cqtHitsCmd){
  int eFault;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "KIND")
   || Tcl_GetIndexFromObj(interp, objv[1], cqtFaultNames, "fault", 0, &eFault)
  ){
    return TCL_ERROR;
  }
  return cqtResult(interp, cqtFault[eFault].nHit);
}

/* The mask that a list of kinds of calls means, in *pMask. */
static int cqtIoKinds(Tcl_Interp *interp, Tcl_Obj *pList, int *pMask){
  Tcl_Obj **apKind;
  int i, nKind, eKind;
  *pMask = 0;
  if( Tcl_ListObjGetElements(interp, pList, &nKind, &apKind) ) return TCL_ERROR;
  for(i=0; i<nKind; i++){
    if( Tcl_GetIndexFromObj(interp, apKind[i], cqtIoNames, "call", 0, &eKind) ){
      return TCL_ERROR;
    }
    *pMask |= cqtIoNames[eKind+1] ? 1<<eKind : ~0;
  }
  return TCL_OK;
}

CQT_CMD(cqtEventsCmd){
  int eFault, mask, i;
  long n = 0;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 2, "KIND ?CALLS?")
   || Tcl_GetIndexFromObj(interp, objv[1], cqtFaultNames, "fault", 0, &eFault)
  ){
    return TCL_ERROR;
  }
  if( objc<3 ) return cqtResult(interp, cqtFault[eFault].nEvent);
  if( cqtIoKinds(interp, objv[2], &mask) ) return TCL_ERROR;
  for(i=0; i<9; i++){
    if( mask & (1<<i) ) n += cqtIoCalls[i];
  }
  return cqtResult(interp, n);
}

CQT_CMD(cqtIoFilterCmd){
  static const char *const azCode[] = { "ioerr", "full", "busy", "cantopen", 0};
  static const int aCode[] = {
    SQLITE_IOERR, SQLITE_FULL, SQLITE_BUSY, SQLITE_CANTOPEN
  };
  int eCode, mask;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 2, 2, "KINDS CODE")
   || cqtIoKinds(interp, objv[1], &mask)
   || Tcl_GetIndexFromObj(interp, objv[2], azCode, "code", 0, &eCode)
  ){
    return TCL_ERROR;
  }
  cqtIoMask = mask;
  cqtIoCode = aCode[eCode];
  return TCL_OK;
}

CQT_CMD(cqtTornCmd){
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "BOOL") ) return TCL_ERROR;
  return Tcl_GetBooleanFromObj(interp, objv[1], &cqtTorn);
}

static int cqtOnProgress(void *pDb){
  if( cqtStrike(CQT_INTERRUPT) ) sqlite3_interrupt((sqlite3*)pDb);
  return cqtStrike(CQT_ABORT);
}

static int cqtOnAuth(
  void *p, int e, const char *z1, const char *z2, const char *z3,
  const char *z4
){
  (void)p; (void)e; (void)z1; (void)z2; (void)z3; (void)z4;
  return cqtStrike(CQT_AUTH) ? SQLITE_DENY : SQLITE_OK;
}

CQT_CMD(cqtWatchCmd){
  static const char *const azWhat[] = {
    "progress", "auth", "memory", "none", 0
  };
  sqlite3 *db;
  int eWhat;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 2, 2, "DB progress|auth|memory|none")
   || cqtDb(interp, objv[1], &db)
   || Tcl_GetIndexFromObj(interp, objv[2], azWhat, "watch", 0, &eWhat)
  ){
    return TCL_ERROR;
  }
  sqlite3_progress_handler(db, eWhat==0, eWhat==0 ? cqtOnProgress : 0, db);
  sqlite3_set_authorizer(db, eWhat==1 ? cqtOnAuth : 0, 0);
  cqtAnytime = eWhat==2 ? db : 0;
  return TCL_OK;
}

CQT_CMD(cqtClockCmd){
  Tcl_WideInt v = -1;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "MS|real") ) return TCL_ERROR;
  if( strcmp(Tcl_GetString(objv[1]), "real")!=0 ){
    if( Tcl_GetWideIntFromObj(interp, objv[1], &v) ) return TCL_ERROR;
    if( v<0 ) return cqtError(interp, "time before 1970");
  }
  cqtClock = v;
  return TCL_OK;
}

CQT_CMD(cqtAtStepCmd){
  int nLeft = cqtAtLeft;
  int n;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 2, 2, "N SCRIPT")
   || Tcl_GetIntFromObj(interp, objv[1], &n)
  ){
    return TCL_ERROR;
  }
  if( cqtAtScript ) Tcl_DecrRefCount(cqtAtScript);
  cqtAtScript = objv[2];
  Tcl_IncrRefCount(cqtAtScript);
  cqtAtInterp = interp;
  cqtAtLeft = n;
  return cqtResult(interp, nLeft);
}

CQT_CMD(cqtMallocCountCmd){
  Tcl_Obj *ap[2];
  (void)cd;
  if( cqtArgs(interp, objc, objv, 0, 0, "") ) return TCL_ERROR;
  ap[0] = Tcl_NewWideIntObj(cqtAllocs);
  ap[1] = Tcl_NewWideIntObj(cqtBytes);
  Tcl_SetObjResult(interp, Tcl_NewListObj(2, ap));
  return TCL_OK;
}

CQT_CMD(cqtOpenFilesCmd){
  (void)cd;
  if( cqtArgs(interp, objc, objv, 0, 0, "") ) return TCL_ERROR;
  return cqtResult(interp, cqtOpenFiles);
}

CQT_CMD(cqtCloseErrorsCmd){
  (void)cd;
  if( cqtArgs(interp, objc, objv, 0, 0, "") ) return TCL_ERROR;
  return cqtResult(interp, cqtCloseErrors);
}

/* Set the interpreter's result from (rc, zErr), and free zErr. */
static int cqtLoaded(Tcl_Interp *interp, int rc, char *zErr){
  if( rc!=SQLITE_OK && rc!=SQLITE_OK_LOAD_PERMANENTLY ){
    cqtError(interp, zErr ? zErr : sqlite3_errstr(rc));
  }else{
    rc = SQLITE_OK;
  }
  sqlite3_free(zErr);
  return rc==SQLITE_OK ? TCL_OK : TCL_ERROR;
}

CQT_CMD(cqtLoadCmd){
  sqlite3 *db;
  char *zErr = 0;
  int rc;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 2, 2, "DB FILE")
   || cqtDb(interp, objv[1], &db)
  ){
    return TCL_ERROR;
  }
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, (int*)0);
  rc = sqlite3_load_extension(db, Tcl_GetString(objv[2]), 0, &zErr);
  return cqtLoaded(interp, rc, zErr);
}

/* Copy the file to the current directory, once: what stands there is in
** use. */
#define CQT_COPY "./cqtest_copy.so"
static int cqtCopied(Tcl_Interp *interp, Tcl_Obj *pFile){
  Tcl_Obj *pCopy = Tcl_NewStringObj(CQT_COPY, -1);
  int rc = TCL_OK;
  Tcl_IncrRefCount(pCopy);
  if( Tcl_FSAccess(pCopy, F_OK)!=0 && Tcl_FSCopyFile(pFile, pCopy)!=TCL_OK ){
    rc = cqtError(interp, Tcl_PosixError(interp));
  }
  Tcl_DecrRefCount(pCopy);
  return rc;
}

typedef int (*CqtInitFunc)(sqlite3*, char**, const sqlite3_api_routines*);

/* The library stays open: its functions are in use as long as db is.  What
** init put into *pzErr came from our copy of malloc, which is SQLite's.  bCopy
** loads a copy of the file, which has data of its own. */
static int cqtApiLoad(
  Tcl_Interp *interp, int objc, Tcl_Obj *const *objv, int bCopy
){
  union { void *p; CqtInitFunc x; } u;
  sqlite3 *db;
  void *pLib;
  char *zErr = 0;
  int rc;
  if( cqtArgs(interp, objc, objv, 2, 2, "DB FILE")
   || cqtDb(interp, objv[1], &db)
  ){
    return TCL_ERROR;
  }
  if( bCopy && cqtCopied(interp, objv[2]) ) return TCL_ERROR;
  pLib = dlopen(bCopy ? CQT_COPY : Tcl_GetString(objv[2]),
                RTLD_NOW|RTLD_LOCAL);
  u.p = pLib ? dlsym(pLib, "sqlite3_claimq_init") : 0;
  if( u.p==0 ) return cqtError(interp, dlerror());
  rc = u.x(db, &zErr, cqtApiVersion<0 ? 0 : &cqtApiCopy);
  return cqtLoaded(interp, rc, zErr);
}

CQT_CMD(cqtApiLoadCmd){
  (void)cd;
  return cqtApiLoad(interp, objc, objv, 1);
}

CQT_CMD(cqtOtherLoadCmd){
  (void)cd;
  return cqtApiLoad(interp, objc, objv, 0);
}

CQT_CMD(cqtApiVersionCmd){
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "N") ) return TCL_ERROR;
  return Tcl_GetIntFromObj(interp, objv[1], &cqtApiVersion);
}

CQT_CMD(cqtVfsVersionCmd){
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "1|2|3")
   || Tcl_GetIntFromObj(interp, objv[1], &cqtShim.iVersion)
  ){
    return TCL_ERROR;
  }
  cqtShim.xCurrentTimeInt64 = cqtShim.iVersion==3 ? 0 : cqtVfsTime64;
  return TCL_OK;
}

CQT_CMD(cqtLookasideOffCmd){
  sqlite3 *db;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "DB")
   || cqtDb(interp, objv[1], &db)
  ){
    return TCL_ERROR;
  }
  if( sqlite3_db_config(db, SQLITE_DBCONFIG_LOOKASIDE, (void*)0, 0, 0) ){
    return cqtError(interp, "lookaside memory is in use");
  }
  return TCL_OK;
}

/* As CqIds of claimq_int.h. */
typedef struct CqtIds CqtIds;
struct CqtIds {
  sqlite3_int64 a[100];
  struct { sqlite3_int64 *a; int n, nAlloc; } list;
};

/* Run pStmt, all columns of all rows into the interpreter's result. */
static int cqtIntegers(Tcl_Interp *interp, sqlite3_stmt *pStmt){
  Tcl_Obj *pOut = Tcl_NewListObj(0, 0);
  int i, rc;
  while( sqlite3_step(pStmt)==SQLITE_ROW ){
    for(i=0; i<sqlite3_column_count(pStmt); i++){
      Tcl_ListObjAppendElement(interp, pOut,
          Tcl_NewWideIntObj(sqlite3_column_int64(pStmt, i)));
    }
  }
  Tcl_SetObjResult(interp, pOut);
  rc = sqlite3_finalize(pStmt);
  return rc ? cqtError(interp, sqlite3_errstr(rc)) : TCL_OK;
}

CQT_CMD(cqtIdsCmd){
  CqtIds ids;
  sqlite3 *db;
  sqlite3_stmt *pStmt = 0;
  Tcl_Obj **apElem;
  Tcl_WideInt v;
  (void)cd;
  memset(&ids, 0, sizeof(ids));
  ids.list.a = ids.a;
  if( cqtArgs(interp, objc, objv, 3, 3, "DB SQL LIST")
   || cqtDb(interp, objv[1], &db)
   || Tcl_ListObjGetElements(interp, objv[3], &ids.list.nAlloc, &apElem)
  ){
    return TCL_ERROR;
  }
  while( ids.list.n<ids.list.nAlloc && ids.list.n<100 ){
    if( Tcl_GetWideIntFromObj(interp, apElem[ids.list.n], &v) ){
      return TCL_ERROR;
    }
    ids.a[ids.list.n++] = v;
  }
  if( sqlite3_prepare_v2(db, Tcl_GetString(objv[2]), -1, &pStmt, 0) ){
    return cqtError(interp, sqlite3_errmsg(db));
  }
  sqlite3_bind_pointer(pStmt, 1, &ids.list, "claimq-ids", 0);
  return cqtIntegers(interp, pStmt);
}

CQT_CMD(cqtAutocommitCmd){
  sqlite3 *db;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "DB")
   || cqtDb(interp, objv[1], &db)
  ){
    return TCL_ERROR;
  }
  return cqtResult(interp, sqlite3_get_autocommit(db));
}

/* Bytes of memory that the schemas of a connection take. */
CQT_CMD(cqtSchemaUsedCmd){
  sqlite3 *db;
  int n = 0, nMost = 0;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "DB")
   || cqtDb(interp, objv[1], &db)
  ){
    return TCL_ERROR;
  }
  sqlite3_db_status(db, SQLITE_DBSTATUS_SCHEMA_USED, &n, &nMost, 0);
  return cqtResult(interp, n);
}

CQT_CMD(cqtBusyStmtsCmd){
  sqlite3 *db;
  sqlite3_stmt *pStmt = 0;
  int n = 0;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 2, "DB ?GLOB?")
   || cqtDb(interp, objv[1], &db)
  ){
    return TCL_ERROR;
  }
  while( (pStmt = sqlite3_next_stmt(db, pStmt))!=0 ){
    const char *zSql = sqlite3_sql(pStmt);  /* NULL: SQLite's own */
    n += sqlite3_stmt_busy(pStmt) && (objc<3
      || (zSql && Tcl_StringMatch(zSql, Tcl_GetString(objv[2]))));
  }
  return cqtResult(interp, n);
}

CQT_CMD(cqtColumnCountCmd){
  sqlite3 *db;
  sqlite3_stmt *pStmt = 0;
  int n;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 2, 2, "DB SQL")
   || cqtDb(interp, objv[1], &db)
  ){
    return TCL_ERROR;
  }
  if( sqlite3_prepare_v2(db, Tcl_GetString(objv[2]), -1, &pStmt, 0) ){
    return cqtError(interp, sqlite3_errmsg(db));
  }
  n = sqlite3_column_count(pStmt);
  sqlite3_finalize(pStmt);
  return cqtResult(interp, n);
}

CQT_CMD(cqtLimitCmd){
  sqlite3 *db;
  int n;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 2, 2, "DB N")
   || cqtDb(interp, objv[1], &db)
   || Tcl_GetIntFromObj(interp, objv[2], &n)
  ){
    return TCL_ERROR;
  }
  return cqtResult(interp, sqlite3_limit(db, SQLITE_LIMIT_LENGTH, n));
}

CQT_CMD(cqtResetStatusCmd){
  sqlite3 *db;
  int n, nHigh;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "DB")
   || cqtDb(interp, objv[1], &db)
  ){
    return TCL_ERROR;
  }
  sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_WRITE, &n, &nHigh, 1);
  return TCL_OK;
}

CQT_CMD(cqtLeakStmtCmd){
  sqlite3 *db;
  sqlite3_stmt *pStmt = 0;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "DB")
   || cqtDb(interp, objv[1], &db)
  ){
    return TCL_ERROR;
  }
  return sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &pStmt, 0);
}

CQT_CMD(cqtLeakMemoryCmd){
  long n;
  void *volatile p;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "N")
   || Tcl_GetLongFromObj(interp, objv[1], &n)
  ){
    return TCL_ERROR;
  }
  p = malloc((size_t)n);
  p = 0;
  (void)p;
  return TCL_OK;
}

CQT_CMD(cqtForkCmd){
  (void)cd;
  if( cqtArgs(interp, objc, objv, 0, 0, "") ) return TCL_ERROR;
  return cqtResult(interp, fork());
}

/* In the child: become the program azArg[0].  Does not return. */
static void cqtBecome(const char *zOut, char **azArg){
  int fdIn = open("/dev/null", O_RDONLY);
  int fdOut = open(zOut, O_WRONLY|O_CREAT|O_APPEND, 0644);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if( fdIn>=0 && fdOut>=0
   && dup2(fdIn, 0)>=0 && dup2(fdOut, 1)>=0 && dup2(fdOut, 2)>=0
  ){
    execvp(azArg[0], azArg);
  }
  _exit(127);
}

CQT_CMD(cqtSpawnCmd){
  char *azArg[20];
  int i;
  pid_t pid;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 2, 20, "OUTFILE PROGRAM ARG...") ){
    return TCL_ERROR;
  }
  for(i=2; i<objc; i++) azArg[i-2] = Tcl_GetString(objv[i]);
  azArg[i-2] = 0;
  pid = fork();
  if( pid==0 ) cqtBecome(Tcl_GetString(objv[1]), azArg);
  return cqtResult(interp, pid);
}

CQT_CMD(cqtKillCmd){
  static const char *const azSig[] = { "KILL","STOP","CONT","TERM","INT", 0 };
  static const int aSig[] = { SIGKILL, SIGSTOP, SIGCONT, SIGTERM, SIGINT };
  long pid;
  int eSig;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 2, 2, "PID SIGNAL")
   || Tcl_GetLongFromObj(interp, objv[1], &pid)
   || Tcl_GetIndexFromObj(interp, objv[2], azSig, "signal", 0, &eSig)
  ){
    return TCL_ERROR;
  }
  if( pid<=0 || kill((pid_t)pid, aSig[eSig])<0 ){
    return cqtError(interp, "no such process");
  }
  return TCL_OK;
}

/* Like waitpid(), but gives up after nMs milliseconds (nMs<0: never) and
** then returns 0. */
static pid_t cqtWait(pid_t pid, int *pStatus, long nMs){
  pid_t got = waitpid(pid, pStatus, nMs<0 ? 0 : WNOHANG);
  while( got==0 && nMs-- > 0 ){
    usleep(1000);
    got = waitpid(pid, pStatus, WNOHANG);
  }
  return got;
}

CQT_CMD(cqtWaitpidCmd){
  long pid, nMs = -1;
  int status = 0;
  pid_t got;
  Tcl_Obj *ap[2];
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 2, "PID ?MS?")
   || Tcl_GetLongFromObj(interp, objv[1], &pid)
   || (objc>2 && Tcl_GetLongFromObj(interp, objv[2], &nMs))
  ){
    return TCL_ERROR;
  }
  got = cqtWait((pid_t)pid, &status, nMs);
  if( got==0 ) return TCL_OK;
  if( got<0 ) return cqtError(interp, "no such child");
  ap[0] = Tcl_NewStringObj(WIFEXITED(status) ? "exit" : "signal", -1);
  ap[1] = Tcl_NewIntObj(
    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status)
  );
  Tcl_SetObjResult(interp, Tcl_NewListObj(2, ap));
  return TCL_OK;
}

static void cqtOnAlarm(int iSignal){ (void)iSignal; }

CQT_CMD(cqtAlarmCmd){
  struct sigaction act;
  struct itimerval t = {{0, 0}, {0, 0}};
  int ms;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "MS")
   || Tcl_GetIntFromObj(interp, objv[1], &ms)
  ){
    return TCL_ERROR;
  }
  memset(&act, 0, sizeof(act));
  act.sa_handler = cqtOnAlarm;
  sigaction(SIGALRM, &act, 0);
  t.it_value.tv_sec = ms/1000;
  t.it_value.tv_usec = ms%1000*1000;
  setitimer(ITIMER_REAL, &t, 0);
  return TCL_OK;
}

CQT_CMD(cqtCloseFdCmd){
  int fd;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "N")
   || Tcl_GetIntFromObj(interp, objv[1], &fd)
  ){
    return TCL_ERROR;
  }
  return close(fd) ? cqtError(interp, "no such descriptor") : TCL_OK;
}

CQT_CMD(cqtExitCmd){
  int rc;
  (void)cd;
  if( cqtArgs(interp, objc, objv, 1, 1, "N")
   || Tcl_GetIntFromObj(interp, objv[1], &rc)
  ){
    return TCL_ERROR;
  }
  _exit(rc);
}

static const struct { const char *zName; Tcl_ObjCmdProc *xCmd; } cqtCmds[] = {
  { "cq_fault", cqtFaultCmd },
  { "cq_hits", cqtHitsCmd },
  { "cq_events", cqtEventsCmd },
  { "cq_io_filter", cqtIoFilterCmd },
  { "cq_crash_torn", cqtTornCmd },
  { "cq_watch", cqtWatchCmd },
  { "cq_clock", cqtClockCmd },
  { "cq_malloc_count", cqtMallocCountCmd },
  { "cq_open_files", cqtOpenFilesCmd },
  { "cq_close_errors", cqtCloseErrorsCmd },
  { "cq_load", cqtLoadCmd },
  { "cq_api_load", cqtApiLoadCmd },
  { "cq_other_load", cqtOtherLoadCmd },
  { "cq_at_step", cqtAtStepCmd },
  { "cq_api_version", cqtApiVersionCmd },
  { "cq_vfs_version", cqtVfsVersionCmd },
  { "cq_lookaside_off", cqtLookasideOffCmd },
  { "cq_ids", cqtIdsCmd },
  { "cq_autocommit", cqtAutocommitCmd },
  { "cq_busy_stmts", cqtBusyStmtsCmd },
  { "cq_schema_used", cqtSchemaUsedCmd },
  { "cq_column_count", cqtColumnCountCmd },
  { "cq_limit", cqtLimitCmd },
  { "cq_reset_status", cqtResetStatusCmd },
  { "cq_leak_stmt", cqtLeakStmtCmd },
  { "cq_leak_memory", cqtLeakMemoryCmd },
  { "cq_fork", cqtForkCmd },
  { "cq_spawn", cqtSpawnCmd },
  { "cq_kill", cqtKillCmd },
  { "cq_waitpid", cqtWaitpidCmd },
  { "cq_alarm", cqtAlarmCmd },
  { "cq_close_fd", cqtCloseFdCmd },
  { "cq_exit", cqtExitCmd }
};

/* Set up SQLite, then make the commands.  Returns TCL_ERROR if SQLite was
** initialised before. */
CQT_EXPORT int Cqtest_Init(Tcl_Interp *interp){
  size_t i;
  if( Tcl_InitStubs(interp, "8.6-", 0)==0 ) return TCL_ERROR;
  if( sqlite3_config(SQLITE_CONFIG_MALLOC, &cqtMem)
   || sqlite3_initialize()
   || cqtVfsInstall()
   || cqtApiCapture()
  ){
    return cqtError(interp, "load cqtest before the sqlite3 package");
  }
  for(i=0; i<sizeof(cqtCmds)/sizeof(cqtCmds[0]); i++){
    Tcl_CreateObjCommand(interp, cqtCmds[i].zName, cqtCmds[i].xCmd, 0, 0);
  }
  return TCL_OK;
}
