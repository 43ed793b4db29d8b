/*
** fuzz_model.h: what must be true of a history (for fuzz_ops.c).
**
** Every piece of work has a number, its payload: the item.  The model knows of
** each item where it must be (waiting in its discipline, dead letter, done)
** and which claim has it, and of each claim whether it still counts and until
** when it is live.  It is plain data without pointers: BEGIN and SAVEPOINT
** keep a copy, ROLLBACK takes it back.
**
** It is not a second claimq: which work a claim ought to choose is not known
** here (tcl/test/oracle_model.tcl is for that).  It knows what no answer may
** ever contradict.
*/
#ifndef FUZZ_MODEL_H
#define FUZZ_MODEL_H

#include "fuzz.h"

#define FZ_NITEM   220            /* Items, at most */
#define FZ_NJOB    400            /* Jobs: a requeued item has a new one */
#define FZ_NAFTER  3              /* Jobs that one waits for, at most */
#define FZ_NSTEP   2              /* Names of steps */
#define FZ_NSCHED  2              /* Schedules, each of a lane of its own */
#define FZ_NTICK   8              /* Jobs that one puts at once, at most */
#define FZ_NCLAIM  120            /* Claims, at most */
#define FZ_NMEMBER 8              /* Items of a claim, at most */
#define FZ_NPART   3              /* Partitions of queue q */
#define FZ_NSUBJ   3              /* Subjects of contests */
#define FZ_NRES    2              /* Resources of claimq_fence() */
#define FZ_NROW    400            /* Keys whose fencing tokens are watched */

/* Kinds of items and claims; the tables of fencing tokens, too. */
enum {
  FZ_SESSION, FZ_LANE, FZ_OUTBOX, FZ_LETTER, FZ_CONTEST, FZ_NKIND
};

/* Where an item is. */
enum { FZ_WAIT, FZ_DEAD, FZ_DONE };

enum { FZ_RENEW, FZ_COMPLETE, FZ_RELEASE, FZ_RETRY, FZ_REJECT, FZ_GUARD };

typedef struct FzItem FzItem;
struct FzItem {
  u8 eKind;                       /* FZ_SESSION, FZ_LANE, FZ_OUTBOX */
  u8 eState;                      /* FZ_WAIT ... */
  u8 iScope;                      /* Session, lane or partition */
  u8 mCaps;                       /* Lanes: capabilities it requires */
  u8 bGrant;                      /* Lanes: reclaimed by grant only */
  u8 bActive;                     /* Lanes: an attempt runs, or hangs */
  u8 eAdmit;                      /* Lanes: what it says, FZ_UNSAID ... */
  u8 bAdmitted;                   /* ... and it has been claimed */
  signed char iKey;               /* Source key, -1 if none */
  short iClaim;                   /* The claim it carries, -1 if none */
  i64 iRow;                       /* Lanes: job id; outbox: seq */
  i64 iRuntime;                   /* Lanes: max_runtime_ms, 0: unsaid */
  i64 aStep[FZ_NSTEP];            /* Values of its steps; 0: none yet */
  char zBatch[72];                /* Sessions: batch id */
};

typedef struct FzClaim FzClaim;
struct FzClaim {
  u8 eKind;                       /* FZ_SESSION ... FZ_CONTEST */
  u8 bOver;                       /* Displaced or settled */
  u8 eSettled;                    /* Lanes: the verb that did it, plus 1 */
  u8 bDead;                       /* Lanes: ... retry, answered 'dead' */
  u8 iScope;                      /* Partition or subject */
  i64 iJob;                       /* Lanes */
  i64 iBegan, iExpires;
  i64 iFirst, nMsg;               /* Outbox: what was delivered */
  int nItem;
  short aItem[FZ_NMEMBER];
  char zId[48];
  char zToken[68];
};

/* Option admission.  A job that is submitted gets what its lane says then; one
** that was inserted goes by what the lane says now.  Of work that was requeued
** nothing is known. */
enum { FZ_UNSAID, FZ_AUTO, FZ_GRANT, FZ_UNKNOWN };

/* How a job has ended. */
enum { FZ_OPEN, FZ_COMPLETED, FZ_FAILED, FZ_CANCELLED };

/* A job, by the order of ids: those it waits for stand before it, unless it was
** given back until they have ended (bRun). */
typedef struct FzJob FzJob;
struct FzJob {
  i64 iJob;
  short iItem;
  u8 eEnd;                        /* FZ_OPEN ... */
  u8 bRun;                        /* It runs also if one has failed */
  u8 bFlow;                       /* It belongs to flow f */
  u8 bSeen;                       /* Met in the table */
  u8 bEvent;                      /* Its end is an event */
  u8 bMayGo;                      /* It need not be kept any longer */
  i64 iEnd;                       /* When it ended */
  u8 nAfter;
  short aAfter[FZ_NAFTER];        /* Jobs it waits for */
};

/* A schedule, of multiples of a period. */
typedef struct FzSched FzSched;
struct FzSched {
  int iSpec;                      /* -1: there is none */
  u8 eCatchUp;                    /* 0 one, 1 all, 2 none */
  u8 mCaps, bGrant, bEnabled;
  i64 iUntil;                     /* FZ_I64_MAX: for ever */
  i64 iNext;                      /* -1: never again */
  i64 iFrom;                      /* The first time is after this one */
  i64 iLast;                      /* The last time that came, -1: none */
};

/* What a lane says, but for its limits. */
typedef struct FzPolicy FzPolicy;
struct FzPolicy {
  u8 bStrict, bQuiet, bAdmission;
  i64 iRuntime;                   /* 0: no limit */
  i64 iKeep, iKeepFailed;         /* -1: for ever */
};

#define FZ_DAY  ((i64)24*3600*1000)

typedef struct FzModel FzModel;
struct FzModel {
  int nItem, nClaim, nJob;
  FzJob aJob[FZ_NJOB];
  FzSched aSched[FZ_NSCHED];
  FzItem aItem[FZ_NITEM];
  FzClaim aClaim[FZ_NCLAIM];
  struct { i64 iLast, iCursor; short iClaim; } aPart[FZ_NPART];
  struct { i64 iKeep; short iClaim; } aSubj[FZ_NSUBJ];
  i64 iFence;                     /* Greatest token of all contests */
  i64 aSeen[FZ_NRES];             /* claimq_fence() */
  FzPolicy aPolicy[2];            /* Of the lanes */
  i64 aRowFence[FZ_NKIND][FZ_NROW];
};

static FzModel fzM;               /* As it must be now */
static i64 fzNow;                 /* now_ms of the next operation */

/* A new item; 0 if there is no more room. */
static FzItem *fzNewItem(int eKind, int iScope, int iKey){
  FzItem *p;
  if( fzM.nItem>=FZ_NITEM ) return 0;
  p = &fzM.aItem[fzM.nItem++];
  memset(p, 0, sizeof(*p));
  p->eKind = (u8)eKind;
  p->iScope = (u8)iScope;
  p->iKey = (signed char)iKey;
  p->iClaim = -1;
  return p;
}

/*
** Does claim i keep others from a row that carries it, at iNow?  Rows of one
** that has lost another row still carry it: if the clock goes back, it does.
*/
static int fzLive(int i, i64 iNow){
  return i>=0 && fzM.aClaim[i].iExpires>iNow;
}

static i64 fzAddSat(i64 a, i64 b){
  return a>FZ_I64_MAX-b ? FZ_I64_MAX : a+b;
}

/* 1 if a claim does not count for a verb: it is over, or its lease has ended in
** a strict lane. */
static int fzLost(const FzClaim *p){
  return p->bOver || (p->eKind==FZ_LANE && p->iExpires<=fzNow
      && fzM.aPolicy[fzM.aItem[p->aItem[0]].iScope].bStrict);
}

/* When a lease of a claim that began at iBegan ends, if it is to last iTtl from
** now on.  p: the job's item, or 0. */
static i64 fzEnds(const FzItem *p, i64 iBegan, i64 iTtl){
  i64 iEnd = fzAddSat(fzNow, iTtl);
  i64 iMost = p==0 ? 0
            : p->iRuntime ? p->iRuntime : fzM.aPolicy[p->iScope].iRuntime;
  if( iMost && iEnd>fzAddSat(iBegan, iMost) ) iEnd = fzAddSat(iBegan, iMost);
  return iEnd;
}

/* The job is submitted. */
static void fzAdmission(FzItem *p){
  if( p->eAdmit!=FZ_UNSAID ) return;
  p->eAdmit = fzM.aPolicy[p->iScope].bAdmission ? FZ_GRANT : FZ_AUTO;
}

/* 1 if nobody may claim the job for the first time without a grant. */
static int fzNeedsGrant(const FzItem *p){
  return !p->bAdmitted && (p->eAdmit==FZ_GRANT
      || (p->eAdmit==FZ_UNSAID && fzM.aPolicy[p->iScope].bAdmission));
}

/* Item iItem is job iJob from now on. */
static FzJob *fzNewJob(int iItem, i64 iJob){
  FzJob *p = &fzM.aJob[fzM.nJob];
  if( fzM.nJob>=FZ_NJOB ) fzDie("too many jobs");
  if( fzM.nJob>0 && p[-1].iJob>=iJob ) fzDie("job id %lld again", iJob);
  fzM.nJob++;
  memset(p, 0, sizeof(*p));
  p->iJob = iJob;
  p->iItem = (short)iItem;
  fzM.aItem[iItem].iRow = iJob;
  return p;
}

/* The job with this id. */
static FzJob *fzJobOf(i64 iJob){
  int iLow = 0, iHigh = fzM.nJob;
  while( iLow<iHigh ){
    int iMid = (iLow+iHigh)/2;
    if( fzM.aJob[iMid].iJob<iJob ) iLow = iMid+1;
    else iHigh = iMid;
  }
  if( iLow>=fzM.nJob || fzM.aJob[iLow].iJob!=iJob ){
    fzDie("unknown job %lld", iJob);
  }
  return &fzM.aJob[iLow];
}

/* 1 if a job that this one waits for has not ended. */
static int fzBlocked(const FzJob *p){
  int i;
  for(i=0; i<p->nAfter && fzM.aJob[p->aAfter[i]].eEnd!=FZ_OPEN; i++){}
  return i<p->nAfter;
}

/* 1 if a job that this one waits for has failed or was cancelled, and that is
** not all the same to it. */
static int fzDoomed(const FzJob *p){
  int i;
  for(i=0; i<p->nAfter && fzM.aJob[p->aAfter[i]].eEnd<=FZ_COMPLETED; i++){}
  return i<p->nAfter && !p->bRun;
}

/* Claim i is settled: no row carries it any more. */
static void fzOver(int i){
  FzClaim *p;
  int j;
  if( i<0 ) return;
  p = &fzM.aClaim[i];
  p->bOver = 1;
  for(j=0; j<fzM.nItem; j++){
    if( fzM.aItem[j].iClaim==i ) fzM.aItem[j].iClaim = -1;
  }
  if( p->eKind==FZ_OUTBOX ) fzM.aPart[p->iScope].iClaim = -1;
  if( p->eKind==FZ_CONTEST ) fzM.aSubj[p->iScope].iClaim = -1;
}

/* The claim that an item carries loses it, and so is lost as a whole. */
static void fzDisplace(FzItem *p){
  if( p->iClaim>=0 ) fzM.aClaim[p->iClaim].bOver = 1;
  p->iClaim = -1;
}

/* Job iJob was claimed or ended anew: no verb can be repeated on it. */
static void fzForgetSettled(i64 iJob){
  int i;
  for(i=0; i<fzM.nClaim; i++){
    if( fzM.aClaim[i].iJob==iJob ) fzM.aClaim[i].eSettled = 0;
  }
}

/* A job ends: with an event, unless its lane wants none, or keeps no job that
** is completed. */
static void fzEnd(FzJob *p, int eEnd){
  const FzPolicy *pP = &fzM.aPolicy[fzM.aItem[p->iItem].iScope];
  p->eEnd = (u8)eEnd;
  p->iEnd = fzNow;
  p->bEvent = !pP->bQuiet && (eEnd!=FZ_COMPLETED || pP->iKeep!=0);
}

/* Jobs whose predecessors have failed are cancelled, in their order: those
** behind them, too.  Nobody can hold one. */
static void fzCascade(void){
  int i;
  for(i=0; i<fzM.nJob; i++){
    FzJob *p = &fzM.aJob[i];
    if( p->eEnd!=FZ_OPEN || !fzDoomed(p) ) continue;
    if( fzM.aItem[p->iItem].iClaim>=0 ) fzDie("job %lld began", p->iJob);
    fzEnd(p, FZ_CANCELLED);
    fzM.aItem[p->iItem].eState = FZ_DONE;
  }
}

/* A job has ended: it never comes back. */
static void fzEndJob(i64 iJob, int eEnd){
  FzJob *p = fzJobOf(iJob);
  if( p->eEnd!=FZ_OPEN ) fzDie("job %lld ends again", iJob);
  fzEnd(p, eEnd);
  fzCascade();
}

/* A claim id that is known and not over must not be given a second time. */
static FzClaim *fzNewClaim(
  int eKind, int iScope, const char *zId, const char *zToken, i64 iExpires
){
  FzClaim *p = &fzM.aClaim[fzM.nClaim];
  int i;
  for(i=0; i<fzM.nClaim; i++){
    if( strcmp(fzM.aClaim[i].zId, zId)==0 ) fzDie("claim id %s again", zId);
  }
  memset(p, 0, sizeof(*p));
  p->eKind = (u8)eKind;
  p->iScope = (u8)iScope;
  p->iBegan = fzNow;
  p->iExpires = iExpires;
  snprintf(p->zId, sizeof(p->zId), "%s", zId);
  snprintf(p->zToken, sizeof(p->zToken), "%s", zToken);
  fzM.nClaim++;
  return p;
}

/*
** The newest claim gets item i, at iNow.  No row may be under two live claims.
*/
static void fzTake(int i, i64 iNow){
  FzClaim *p = &fzM.aClaim[fzM.nClaim-1];
  FzItem *pItem;
  if( i<0 || i>=fzM.nItem ) fzDie("claimed an item that does not exist");
  pItem = &fzM.aItem[i];
  if( fzLive(pItem->iClaim, iNow) ){
    fzDie("item %d is under two live claims: %s and %s", i,
          fzM.aClaim[pItem->iClaim].zId, p->zId);
  }
  fzDisplace(pItem);
  pItem->iClaim = (short)(fzM.nClaim-1);
  if( p->nItem>=FZ_NMEMBER ) fzDie("claim %s has too many rows", p->zId);
  p->aItem[p->nItem++] = (short)i;
}

/* Item p is taken out of the claim that has it, which goes on without it. */
static void fzShrink(FzItem *p){
  FzClaim *pClaim = &fzM.aClaim[p->iClaim];
  int i, j = 0, iItem = (int)(p-fzM.aItem);
  for(i=0; i<pClaim->nItem; i++){
    if( pClaim->aItem[i]!=iItem ) pClaim->aItem[j++] = pClaim->aItem[i];
  }
  pClaim->nItem = j;
  p->iClaim = -1;
  if( j==0 ) pClaim->bOver = 1;
}

#endif /* FUZZ_MODEL_H */
