/*
** core/wait.c: how long claimq_wait() may sleep before it looks again.
**
** A wait is a row of naps.  Before each one claimqPaceNap() says how long it
** may be, and after it claimqPaceWake() says what to do now:
**
**     claimqPaceInit(&pace, msTimeout, msNow, bTold);
**     do{
**       usNap = claimqPaceNap(&pace, bListen, &bDeaf);
**       mWoke = (sleep for usNap);       heard of a write, slept to the end?
**       mDo = claimqPaceWake(&pace, mWoke, msNow);
**       (pulse, aim, probe, look: whatever mDo says)
**       claimqPaceSeen(&pace, eSeen, msNextAt);
**     }while( nothing found && !(mDo & CQ_PACE_OVER) );
**
** To probe is to ask whether anybody has committed since the last probe; it
** costs a microsecond or four.  To look is to ask what the caller wants to
** know; that is done when a probe saw a commit, when a row falls due, and when
** the time is over.
**
** How it works
**
** Most naps end because the operating system reports a write.  It does so when
** bytes are written, and that is before the commit can be seen, by a few
** microseconds, or by as much as the disk takes to sync.  So a write is
** answered by a probe at once, and then by one after each of these naps,
** until the commit is seen:
**
**     20 40 80 160 320 640 640 640 ... (20 ms) 1280 2560 ... 40960 us
**
** A commit that takes long is seen at most 640 us late, or late by as much as
** it took; and what is never committed costs about 40 probes.
**
** Where nobody reports writes (bListen is 0) there are probes after 1, 2, 4
** ... 32, 40, 40 ms.
**
** Commits that do not concern us are answered too: we cannot know before we
** look.  If there are many of them, the probes keep a distance that
** grows to 5 ms, so that waiting costs little whatever the others do.
**
** No nap is longer than 90 ms.  After that time a pulse is due, a statement
** that notices sqlite3_interrupt() and calls the progress handler.  Once a
** second there is a probe although nothing was reported: if a report is
** missing, work is found late, but found.
**
** Time is what the system clock says, which may be set.  Set forward it may
** end the wait early, as it makes rows fall due early.  Set back it must not
** make the wait longer.  So beside the clock the naps are added up, which is
** the least time that has passed, and each time the clock is seen to go back
** the count goes on from there.
*/
#include "claimq_core.h"

#define CQ_NAP_LONGEST  90000     /* us.  A pulse is due after so much */
#define CQ_NAP_SHORTEST 20        /* The first after a write was reported */
#define CQ_NAP_EVEN     640       /* It doubles up to this, stays there, */
#define CQ_AGAIN_EVEN   6         /* ... which is the 6th, */
#define CQ_AGAIN_LAST   35        /* ... to the 35th, and doubles on */
#define CQ_POLL_FIRST   1000      /* Where nobody tells of writes */
#define CQ_POLL_LONGEST 40000
#define CQ_CROWD_WITHIN 4000      /* Commits of others so close are a crowd */
#define CQ_CROWD_FIRST  125
#define CQ_CROWD_LONGEST 5000
#define CQ_BACKSTOP     1000000   /* A probe although nobody reported a write */

/* What a nap is for. */
#define CQ_NAP_LISTEN 0           /* Until the operating system tells */
#define CQ_NAP_POLL   1           /* It will not tell */
#define CQ_NAP_AGAIN  2           /* A write was reported, but no commit */
#define CQ_NAP_CROWD  3           /* Many commits of others: keep a distance */

/*
** Milliseconds as microseconds, at most 2^63-1.
*/
static i64 cqPaceMicro(i64 ms){
  return ms>CQ_I64_MAX/1000 ? CQ_I64_MAX : ms*1000;
}

static i64 cqPaceMin(i64 a, i64 b){
  return a<b ? a : b;
}

/*
** One more; but who waits for years must not count beyond an int.
*/
static int cqPaceCount(int n){
  return n<1000 ? n+1 : n;
}

/*
** iFirst doubled n times, but not above iLongest.
*/
static i64 cqPaceDouble(i64 iFirst, int n, i64 iLongest){
  while( n-->0 && iFirst<iLongest ) iFirst *= 2;
  return cqPaceMin(iFirst, iLongest);
}

/*
** The n-th nap after a write was reported, n>=1.
*/
static i64 cqPaceAgain(int n){
  assert( n>=1 );
  if( n<=CQ_AGAIN_LAST ){
    return cqPaceDouble(CQ_NAP_SHORTEST, n-1, CQ_NAP_EVEN);
  }
  return cqPaceDouble(CQ_NAP_EVEN, n-CQ_AGAIN_LAST, CQ_NAP_LONGEST);
}

/*
** Microseconds since claimqPaceInit(): by the clock, and not less than all the
** naps since it was last set back.
*/
static i64 cqPaceElapsed(const CqPace *p){
  i64 us = cqPaceMicro(p->msNow - p->msRef);
  assert( p->msNow>=p->msRef && p->usNaps>=0 && p->usBefore>=0 );
  if( us<p->usNaps ) us = p->usNaps;
  return claimqAddSat(p->usBefore, us);
}

/*
** Begin to wait for up to msTimeout.  A first look has found nothing; what it
** found is passed to claimqPaceSeen().  bTold: something was written before, or
** might have been before anybody listened.  It is probably our own work, and
** seen, so it is answered by the last few naps of the row only.
*/
CQ_PRIV void claimqPaceInit(CqPace *p, i64 msTimeout, i64 msNow, int bTold){
  assert( msTimeout>=0 && msNow>=0 );
  memset(p, 0, sizeof(*p));
  p->usTotal = cqPaceMicro(msTimeout);
  p->msNow = p->msRef = msNow;
  p->msNextAt = CQ_I64_MAX;
  p->usBackstop = CQ_BACKSTOP;
  p->usChange = -1;
  if( bTold ) p->nAgain = CQ_AGAIN_LAST+1;
}

/*
** A probe, or a look, has seen this, and nothing that ends the wait.  msNextAt
** is the time at which that may change without a commit, CQ_I64_MAX if there
** is none.  A locked database is like a write whose commit is not seen yet.
*/
CQ_PRIV void claimqPaceSeen(CqPace *p, int eSeen, i64 msNextAt){
  i64 us = cqPaceElapsed(p);
  assert( eSeen>=CQ_SEEN_SAME && eSeen<=CQ_SEEN_BUSY );
  p->bHold = eSeen==CQ_SEEN_COMMIT;
  if( eSeen==CQ_SEEN_COMMIT ){
    int bCrowd = p->eNap==CQ_NAP_CROWD
              || (p->usChange>=0 && us-p->usChange<CQ_CROWD_WITHIN);
    p->nCrowd = bCrowd ? cqPaceCount(p->nCrowd) : 0;
    p->usChange = us;
    p->nAgain = p->nPoll = p->nEarly = 0;
  }else{
    if( eSeen==CQ_SEEN_BUSY && p->eNap==CQ_NAP_LISTEN ) p->nAgain = 1;
    if( p->bDue ) p->nEarly = cqPaceCount(p->nEarly);
  }
  p->bDue = 0;
  p->msNextAt = msNextAt;
}

/*
** How long until the row that is next falls due?  A time that passed without
** anything falling due was a guess; guesses are trusted less and less.
*/
static i64 cqPaceDue(const CqPace *p){
  i64 usLeast = cqPaceDouble(CQ_POLL_FIRST, p->nEarly-1, CQ_POLL_LONGEST);
  i64 us = 0;
  if( p->msNextAt>p->msNow ) us = cqPaceMicro(p->msNextAt - p->msNow);
  return us>usLeast ? us : usLeast;
}

/*
** The next nap in microseconds, at least 1.  bListen: the operating system
** will tell of writes.  *pbDeaf: sleep to the end of it all the same.
*/
CQ_PRIV i64 claimqPaceNap(CqPace *p, int bListen, int *pbDeaf){
  i64 usElapsed = cqPaceElapsed(p);
  i64 us;
  p->bListen = (u8)(bListen!=0);
  if( p->nAgain>0 ){
    p->eNap = CQ_NAP_AGAIN;
    us = cqPaceAgain(p->nAgain);
  }else if( p->bHold && p->nCrowd>0 ){
    p->eNap = CQ_NAP_CROWD;
    us = cqPaceDouble(CQ_CROWD_FIRST, p->nCrowd-1, CQ_CROWD_LONGEST);
  }else if( bListen ){
    p->eNap = CQ_NAP_LISTEN;
    us = CQ_NAP_LONGEST;
  }else{
    p->eNap = CQ_NAP_POLL;
    us = cqPaceDouble(CQ_POLL_FIRST, p->nPoll, CQ_POLL_LONGEST);
  }
  *pbDeaf = p->eNap==CQ_NAP_CROWD
         || (p->eNap==CQ_NAP_AGAIN && p->nAgain<=CQ_AGAIN_LAST);
  us = cqPaceMin(us, p->usTotal - usElapsed);
  us = cqPaceMin(us, CQ_NAP_LONGEST - (usElapsed - p->usPulse));
  us = cqPaceMin(us, cqPaceDue(p));
  p->usNap = us<1 ? 1 : us;
  assert( p->usNap<=CQ_NAP_LONGEST );
  return p->usNap;
}

/*
** Take notice of the time.
*/
static void cqPaceClock(CqPace *p, int bFull, i64 msNow){
  if( bFull ) p->usNaps = claimqAddSat(p->usNaps, p->usNap);
  if( msNow<p->msNow ){
    p->usBefore = cqPaceElapsed(p);
    p->msRef = msNow;
    p->usNaps = 0;
  }
  p->msNow = msNow;
}

/*
** What the nap that has ended says about writes: is there to be a probe?  Not
** if somebody would have reported a write and did not; but one that was
** reported may be committed by now.
*/
static int cqPaceTold(CqPace *p, int bTold){
  if( p->eNap==CQ_NAP_POLL ) p->nPoll = cqPaceCount(p->nPoll);
  if( p->eNap==CQ_NAP_AGAIN ){
    p->nAgain = cqPaceAgain(p->nAgain+1)<CQ_NAP_LONGEST ? p->nAgain+1 : 0;
  }
  if( bTold ){
    if( p->nAgain==0 || p->nAgain>CQ_AGAIN_LAST ) p->nAgain = 1;
    else if( p->nAgain>CQ_AGAIN_EVEN ) p->nAgain = CQ_AGAIN_EVEN;
  }
  return bTold || !p->bListen || p->eNap==CQ_NAP_AGAIN;
}

/*
** The nap is over.  mWoke: CQ_WOKE_*.  Returns what to do, CQ_PACE_*.
*/
CQ_PRIV int claimqPaceWake(CqPace *p, int mWoke, i64 msNow){
  int mDo = cqPaceTold(p, (mWoke & CQ_WOKE_TOLD)!=0) ? CQ_PACE_PROBE : 0;
  i64 us;
  assert( msNow>=0 && p->usNap>0 );
  cqPaceClock(p, (mWoke & CQ_WOKE_FULL)!=0, msNow);
  us = cqPaceElapsed(p);
  if( us-p->usPulse>=CQ_NAP_LONGEST ){
    mDo |= CQ_PACE_PULSE;
    p->usPulse = us;
  }
  if( us>=p->usBackstop ){
    mDo |= CQ_PACE_AIM|CQ_PACE_PROBE;
    p->usBackstop = claimqAddSat(us, CQ_BACKSTOP);
  }
  if( msNow>=p->msNextAt ){
    mDo |= CQ_PACE_LOOK;
    p->bDue = 1;
  }
  if( us>=p->usTotal ) mDo |= CQ_PACE_LOOK|CQ_PACE_OVER;
  return mDo;
}

/*
** Can other machines write to a file system of this type, a number of Linux's
** statfs(2)?  Then the kernel of this one does not report it.
*/
CQ_PRIV int claimqPaceIsFar(u32 iType){
  static const u32 aFar[] = {
    0x00006969,                   /* NFS */
    0x0000517b, 0xff534d42, 0xfe534d42,   /* SMB, CIFS, SMB 2 */
    0x65735546,                   /* FUSE: sshfs and the like */
    0x01021997,                   /* 9P: a folder of a virtual machine's host */
    0x00c36400,                   /* Ceph */
    0x5346414f, 0x6b414653,       /* AFS */
    0x73757245,                   /* Coda */
    0x01161970, 0x7461636f,       /* GFS2, OCFS2: disks with several hosts */
    0x0bd00bd0,                   /* Lustre */
    0x786f4256,                   /* VirtualBox */
    0x0000564c                    /* NCP */
  };
  int i;
  for(i=0; i<CQ_ARRAYSIZE(aFar); i++){
    if( iType==aFar[i] ) return 1;
  }
  return 0;
}
