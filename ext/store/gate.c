/*
** gate.c: writers that wait for each other instead of sleeping.
**
** A writer that meets SQLite's write lock sleeps 1 to 100 ms and looks again:
** of several workers most sleep while the lock is free, and one of them has bad
** luck for seconds.  So calls of claimq that write in a transaction of their
** own go through a gate.  A call that finds it closed sleeps, and the call that
** opens it wakes one sleeper:
**
**     int bIn = claimqGateEnter(pConn);
**     ...take the lock, write, commit...
**     if( bIn ) claimqGateLeave(pConn, CQ_CALL_OTHER);
**
** and so do the transactions of the packages' workers:
**
**     SELECT claimq__gate(1); BEGIN IMMEDIATE; ...; COMMIT;
**     SELECT claimq__gate(0);
**
** The gate is a hint.  SQLite's own lock decides.  A call that does not get
** through within a short time goes on to SQLite's lock and the user's busy
** timeout, as if there were no gate.  So the gate may be wrong or lost, and
** writers that do not use it only wait longer.
**
** Where it is
**
** In WAL mode all connections to a file share the memory of its -shm.  Its
** bytes 120 to 127 are there only to be locked; their content means nothing to
** SQLite: see WalCkptInfo in its wal.c.  The first four are the gate, the
** others count the calls that got through:
**
**     0                 open
**     CQ_GATE_WAITED    open, and somebody sleeps; see claimqGateLeave()
**     CQ_GATE_GIVEN     open for a call that was woken, and for no other
**     mark              closed by the connection with that mark
**     mark | WAITED     ... and somebody sleeps
**
** There is no gate where there is no such memory (rollback journals, databases
** in memory, locking_mode=EXCLUSIVE), with a VFS that is not SQLite's own, on
** systems other than Linux (a process sleeps on the word by a futex), and with
** -DCLAIMQ_POLL.
**
** Turns
**
** Turns in strict order would make a convoy: each call would wait until the
** next process is awake.  So a call that comes while the gate is open goes
** through, even if others sleep; and a connection that is expected back at once
** leaves the gate open without waking anybody, until its turn has lasted
** CQ_GATE_TURN.  Then it gives the gate to a sleeper.  (Letting one of those
** that wait stay awake for a while and try again and again brings no more jobs,
** longer waits, and a third more processor time.)
**
** A process that dies inside leaves the gate closed.  If nobody got through
** while a call slept for CQ_GATE_NAP, that call tries SQLite's lock, to see
** whether anybody really has it.
*/
#include "claimq_int.h"

#if defined(__linux__) && !defined(CLAIMQ_POLL)
# include <sys/syscall.h>
# if defined(SYS_futex) && defined(__GNUC__)
#  define CQ_GATE 1
# endif
#endif

#ifndef CQ_GATE
CQ_PRIV int claimqGateEnter(CqConn *pConn){
  (void)pConn;
  return 0;
}
CQ_PRIV int claimqGateTurn(CqConn *pConn, int bEnter){
  (void)pConn; (void)bEnter;
  return 0;
}
CQ_PRIV int claimqGateFrames(CqConn *pConn){
  (void)pConn;
  return 0;
}
CQ_PRIV void claimqGateLeave(CqConn *pConn, int eCall){
  (void)pConn; (void)eCall;
}
#else

#include <errno.h>
#include <linux/futex.h>
#include <time.h>
#include <unistd.h>

#define CQ_GATE_WAITED 1u
#define CQ_GATE_GIVEN  2u
#define CQ_GATE_MARK   (~3u)      /* The bits of a mark */
#define CQ_GATE_OFFSET 120        /* In the -shm */
#define CQ_GATE_FRAMES 16         /* There: frames of the WAL, */
#define CQ_GATE_COPIED 96         /* ... and how many the database has */
#define CQ_GATE_REGION 32768      /* SQLite maps it in pieces of this size */

#define CQ_GATE_TURN   1000       /* Microseconds: see above */
#define CQ_GATE_NAP    5000
#define CQ_GATE_MOST   1000000    /* Nobody waits longer */
#define CQ_GATE_SOON   100        /* Back within this: was expected */
#define CQ_GATE_AGAIN  64         /* If there is no gate, each 64th call of a
                                  ** connection asks again */

static i64 cqGateTime(void){
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (i64)t.tv_sec*1000000 + t.tv_nsec/1000;
}

/*
** Sleep while the word is iWord, at most us microseconds.  Returns 0 if that
** time is over, or the system cannot do it; else 1.
*/
static int cqGateSleep(u32 *pWord, u32 iWord, i64 us){
  struct { long s; long ns; } t;  /* As the kernel wants it */
  t.s = (long)(us/1000000);
  t.ns = (long)(us%1000000)*1000;
  return syscall(SYS_futex, pWord, FUTEX_WAIT, iWord, &t, 0, 0)==0
      || errno==EAGAIN || errno==EINTR;
}

static void cqGateWake(u32 *pWord){
  syscall(SYS_futex, pWord, FUTEX_WAKE, 1, 0, 0, 0);
}

static int cqGateSwap(u32 *pWord, u32 iOld, u32 iNew){
  return __atomic_compare_exchange_n(pWord, &iOld, iNew, 0, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}

static u32 cqGateLook(u32 *pWord){
  return __atomic_load_n(pWord, __ATOMIC_SEQ_CST);
}

/*
** The file of the database, or of its journal.  That of a WAL is in memory that
** is freed when the mode is left, so its address tells whether it is still the
** same.
*/
static sqlite3_file *cqGateFile(CqConn *pConn, int eWhich){
  sqlite3_file *pFile = 0;
  sqlite3_file_control(pConn->db, CQ_SCHEMA, eWhich, &pFile);
  assert( pFile );
  return pFile;
}

/*
** Does the journal begin like a WAL?  Asking SQLite for the mode would read
** main, before the call itself does.
*/
static int cqGateIsWal(sqlite3_file *pFile){
  static const unsigned char aMagic[] = { 0x37, 0x7f, 0x06 };
  unsigned char a[4];
  return pFile->pMethods
      && pFile->pMethods->xRead(pFile, a, sizeof(a), 0)==SQLITE_OK
      && memcmp(a, aMagic, sizeof(aMagic))==0;
}

/*
** Is the VFS SQLite's own, and the memory of the WAL shared?
*/
static int cqGateShared(CqConn *pConn){
  char *zVfs = 0;
  int bShared;
  CqStmt s;
  CqOp op;
  sqlite3_file_control(pConn->db, CQ_SCHEMA, SQLITE_FCNTL_VFSNAME, &zVfs);
  bShared = zVfs && strcmp(zVfs, "unix")==0;
  sqlite3_free(zVfs);
  if( !bShared ) return 0;
  claimqOpInit(&op, pConn);
  s = claimqStmt(&op, CQ_SQL_TXN_LOCKING);
  bShared = claimqStep(&op, &s) && claimqTextEq(claimqStr("normal"),
      claimqColText(&op, &s, CQ_COL_TXN_LOCKING_locking_mode));
  claimqStmtDone(&op, &s);
  claimqOpClear(&op);
  return bShared;
}

/*
** SQLite opens a WAL when it reads the schema, and reads the schema when it
** prepares a statement: prepare one that many calls need.  Without a WAL that
** might wait for a lock, and the call would wait once more; byte 18 of the file
** is 2 if there is a WAL.
*/
static void cqGateOpen(CqConn *pConn){
  sqlite3_file *pFile = cqGateFile(pConn, SQLITE_FCNTL_FILE_POINTER);
  unsigned char bWal = 0;
  CqStmt s;
  CqOp op;
  if( pFile->pMethods==0
   || pFile->pMethods->xRead(pFile, &bWal, 1, 18) || bWal!=2
  ){
    return;
  }
  claimqOpInit(&op, pConn);
  s = claimqStmt(&op, CQ_SQL_TXN_LOCK);
  claimqStmtDone(&op, &s);
  claimqOpClear(&op);
}

/*
** Is there a gate?  A connection asks at its first call, at the 2nd, the 4th
** and so on, because the mode of the journal may be set after the first.
*/
static int cqGateFind(CqConn *pConn){
  CqGate *pGate = &pConn->gate;
  u32 n = ++pGate->nCall;
  sqlite3_file *pJournal;
  if( (n & (n-1)) && n%CQ_GATE_AGAIN ) return 0;
  if( n==1 ) cqGateOpen(pConn);
  pJournal = cqGateFile(pConn, SQLITE_FCNTL_JOURNAL_POINTER);
  if( !cqGateIsWal(pJournal) || !cqGateShared(pConn) ) return 0;
  pGate->pWal = pJournal;
  sqlite3_randomness(sizeof(pGate->iMark), &pGate->iMark);
  pGate->iMark = (pGate->iMark & CQ_GATE_MARK) | (CQ_GATE_GIVEN<<1);
  return 1;
}

/*
** The word, or 0 if there is no gate.
*/
static u32 *cqGateWord(CqConn *pConn){
  sqlite3_file *pFile = cqGateFile(pConn, SQLITE_FCNTL_JOURNAL_POINTER);
  volatile void *pShm = 0;
  int rc;
  if( pConn->gate.pWal!=pFile ) pConn->gate.pWal = 0;
  if( pConn->gate.pWal==0 && !cqGateFind(pConn) ) return 0;
  pFile = cqGateFile(pConn, SQLITE_FCNTL_FILE_POINTER);
  rc = pFile->pMethods->xShmMap(pFile, 0, CQ_GATE_REGION, 1, &pShm);
  if( rc ) return 0;              /* SQLITE_READONLY: it cannot be written */
  assert( pShm );
  return (u32*)((char*)pShm + CQ_GATE_OFFSET);
}

/*
** Is SQLite's write lock free?  It is the first of the eight locks of a -shm.
** It is tried as a shared lock.  If a connection that shares our cache has it,
** SQLite does not see that an exclusive one is there already, and to undo ours
** would undo both.
*/
static int cqGateFree(CqConn *pConn){
  sqlite3_file *pFile = cqGateFile(pConn, SQLITE_FCNTL_FILE_POINTER);
  const sqlite3_io_methods *pM = pFile->pMethods;
  int rc = pM->xShmLock(pFile, 0, 1, SQLITE_SHM_LOCK|SQLITE_SHM_SHARED);
  if( rc ) return 0;
  pM->xShmLock(pFile, 0, 1, SQLITE_SHM_UNLOCK|SQLITE_SHM_SHARED);
  return 1;
}

/*
** Does another connection share the cache?  Then SQLite divides its memory by
** the number of these connections.
*/
static int cqGateCacheShared(CqConn *pConn){
  int nUsed = 0, nShare = 0, nHigh = 0;
  sqlite3_db_status(pConn->db, SQLITE_DBSTATUS_CACHE_USED, &nUsed, &nHigh, 0);
  sqlite3_db_status(pConn->db, SQLITE_DBSTATUS_CACHE_USED_SHARED, &nShare,
                    &nHigh, 0);
  return nShare!=nUsed;
}

/*
** How long may this call wait, in microseconds?  Not at all if the user has set
** a busy handler, or no busy timeout.
*/
static i64 cqGatePatience(CqConn *pConn){
  i64 us;
  CqOp op;
  claimqOpInit(&op, pConn);
  us = (i64)claimqBusyTimeout(&op)*1000/4;
  claimqOpClear(&op);
  return us<CQ_GATE_MOST ? us : CQ_GATE_MOST;
}

/*
** Close the gate if it is open for this call, which waits: 1.  It is not open
** while its last user is expected back, and a gate that was given is open only
** for the call that was woken.  Otherwise make the word say that somebody
** sleeps: *piSleep.  If another call was faster, the word is not *piSleep, and
** a sleep on it ends at once.
*/
static int cqGateTake(
  const CqGate *pGate, u32 *pWord, int bWoken, u32 *piSleep
){
  u32 iWord = cqGateLook(pWord);
  int bOpen = iWord==0 || (bWoken && iWord==CQ_GATE_GIVEN);
  *piSleep = bOpen ? pGate->iMark | CQ_GATE_WAITED
           : iWord==CQ_GATE_GIVEN ? iWord : iWord | CQ_GATE_WAITED;
  return cqGateSwap(pWord, iWord, *piSleep) & bOpen;
}

/*
** Nobody has opened the gate for a while.  If nobody got through either, and
** nobody has SQLite's lock, then the call that closed it is gone, or the one
** that was expected does not come: close it, 1.
*/
static int cqGateSeize(CqConn *pConn, u32 *pWord, u32 iSeen){
  u32 iWord = cqGateLook(pWord);
  if( cqGateLook(&pWord[1])!=iSeen || !cqGateFree(pConn) ) return 0;
  return cqGateSwap(pWord, iWord, pConn->gate.iMark | CQ_GATE_WAITED);
}

/*
** Wait until this call has closed the gate behind itself: 1.  Returns 0 if that
** takes too long; or at once if the cache is shared: the lock that others wait
** for may be that of a connection with the same cache, and SQLite does not wait
** there either.
*/
static int cqGateWait(CqConn *pConn, u32 *pWord){
  const CqGate *pGate = &pConn->gate;
  i64 us = cqGatePatience(pConn);
  i64 usEnd = cqGateTime() + us;
  int bWoken = 0;
  u32 iSleep;
  if( us<=0 || cqGateCacheShared(pConn) ) return 0;
  while( !cqGateTake(pGate, pWord, bWoken, &iSleep) ){
    u32 iSeen = cqGateLook(&pWord[1]);
    bWoken = cqGateSleep(pWord, iSleep, CQ_GATE_NAP);
    if( !bWoken && cqGateSeize(pConn, pWord, iSeen) ) return 1;
    if( cqGateTime()>usEnd ) return 0;
  }
  return 1;
}

/*
** Before a call that is likely to write.  If it will write in a transaction of
** its own, and gets through in time, the gate is closed behind it: 1.  Returns
** 0 otherwise, and if the connection is inside already.
*/
CQ_PRIV int claimqGateEnter(CqConn *pConn){
  CqGate *pGate = &pConn->gate;
  u32 *pWord;
  if( pGate->pWord || !claimqConnUnread(pConn) ) return 0;
  pWord = cqGateWord(pConn);
  if( pWord==0 ) return 0;
  if( pGate->usLeft ){
    pGate->aSoon[pGate->eCall] = cqGateTime()-pGate->usLeft < CQ_GATE_SOON;
    pGate->usLeft = 0;
  }
  if( !cqGateSwap(pWord, 0, pGate->iMark)
   && !cqGateSwap(pWord, CQ_GATE_WAITED, pGate->iMark | CQ_GATE_WAITED)
  ){
    pGate->usTurn = 0;
    if( !cqGateWait(pConn, pWord) ) return 0;
  }
  __atomic_add_fetch(&pWord[1], 1, __ATOMIC_RELAXED);
  pGate->pWord = pWord;
  return 1;
}

/*
** After such a call, which was of kind eCall: open the gate, and wake somebody,
** unless this connection is expected back soon.
*/
CQ_PRIV void claimqGateLeave(CqConn *pConn, int eCall){
  CqGate *pGate = &pConn->gate;
  u32 *pWord = pGate->pWord, iOld = pGate->iMark | CQ_GATE_WAITED;
  i64 us;
  assert( pWord );
  pGate->pWord = 0;
  if( cqGateSwap(pWord, pGate->iMark, 0) ){
    pGate->usTurn = 0;
    return;
  }
  if( cqGateLook(pWord)!=iOld ) return;   /* Somebody took us for dead */
  us = cqGateTime();
  if( pGate->usTurn==0 ) pGate->usTurn = us;
  pGate->eCall = (u8)eCall;
  pGate->usLeft = us;
  if( pGate->aSoon[eCall] && us-pGate->usTurn<CQ_GATE_TURN ){
    cqGateSwap(pWord, iOld, CQ_GATE_WAITED);
    return;
  }
  cqGateSwap(pWord, iOld, pGate->aSoon[eCall] ? CQ_GATE_GIVEN : 0);
  pGate->usTurn = 0;
  cqGateWake(pWord);
}

/*
** Is the connection still inside?  The mode of the journal may have changed
** since it entered, and the memory may be gone.
*/
static int cqGateInside(CqConn *pConn){
  return pConn->gate.pWord && pConn->gate.pWord==cqGateWord(pConn);
}

/*
** claimq__gate(): before the caller's own transaction, and after it.  Returns 1
** if the connection is inside.
*/
CQ_PRIV int claimqGateTurn(CqConn *pConn, int bEnter){
  CqGate *pGate = &pConn->gate;
  if( bEnter ) return pGate->pWord || claimqGateEnter(pConn);
  if( cqGateInside(pConn) ) claimqGateLeave(pConn, CQ_CALL_OTHER);
  pGate->pWord = 0;
  return 0;
}

/*
** How many frames the WAL has, whoever wrote them, if the connection is inside;
** 0 if the database has all of them, or if the number is not known.
*/
CQ_PRIV int claimqGateFrames(CqConn *pConn){
  const char *pShm = (const char*)pConn->gate.pWord;
  u32 nFrame, nCopied;
  if( !cqGateInside(pConn) ) return 0;
  memcpy(&nFrame, &pShm[CQ_GATE_FRAMES-CQ_GATE_OFFSET], sizeof(u32));
  memcpy(&nCopied, &pShm[CQ_GATE_COPIED-CQ_GATE_OFFSET], sizeof(u32));
  return nFrame>nCopied ? (int)(nFrame & 0x7fffffff) : 0;
}

#endif
