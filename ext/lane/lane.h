/*
** lane.h: what lane.c and its sisters know of each other.
*/
#ifndef CLAIMQ_LANE_H
#define CLAIMQ_LANE_H
#include "claimq_int.h"

/**************************************************************************
** Interface to lane.c: arguments, capabilities, the state of a job.
*/

/* Columns of claimq_lane that are its own: the first columns of LANE_HEAD. */
#define CQ_LANE_COLS \
  "job_id:i lane:t partition:i priority:i payload:b " \
  "headers:t capabilities:t attempt_index:i reclaim_count:i " \
  "created_at_ms:i available_at_ms:i progress:b group_key:t"
#define CQ_LANE_NCOL 13

/* Arguments of claimq_lane(). */
#define CQ_LANE_LANE      0
#define CQ_LANE_LEASE     2       /* Of claimq_reclaim(), too */
#define CQ_LANE_CAPS      5
#define CQ_LANE_PARTITION 6
#define CQ_MAX_PARTITION  1024    /* Partitions that a claim may name */

/* Arguments of claimq_reclaim(). */
#define CQ_RECLAIM_JOB    0
#define CQ_RECLAIM_MAX    4

/* Options of claimq_submit(): all before CQ_SUBMIT_N; and of
** claimq_schedule(): all from CQ_SUBMIT_PRIORITY on. */
typedef enum CqSubmitOpt {
  CQ_SUBMIT_KEY, CQ_SUBMIT_AT, CQ_SUBMIT_DELAY, CQ_SUBMIT_AFTER,
  CQ_SUBMIT_ON_FAILURE, CQ_SUBMIT_UNIQUE, CQ_SUBMIT_DUPLICATE,
  CQ_SUBMIT_PRIORITY, CQ_SUBMIT_CAPS, CQ_SUBMIT_ATTEMPTS, CQ_SUBMIT_BACKOFF,
  CQ_SUBMIT_FACTOR, CQ_SUBMIT_BACKOFF_MAX, CQ_SUBMIT_RECLAIMS,
  CQ_SUBMIT_RUNTIME, CQ_SUBMIT_RECLAIM, CQ_SUBMIT_ADMISSION,
  CQ_SUBMIT_PARTITION,
  CQ_SUBMIT_GROUP, CQ_SUBMIT_FLOW,
  CQ_SUBMIT_NAMESPACE, CQ_SUBMIT_TAG, CQ_SUBMIT_HEADERS, CQ_SUBMIT_NOW,
  CQ_SUBMIT_REQUEST, CQ_SUBMIT_N,
  CQ_SCHEDULE_OFFSET = CQ_SUBMIT_N, CQ_SCHEDULE_ZONE, CQ_SCHEDULE_CATCH_UP,
  CQ_SCHEDULE_UNTIL, CQ_SCHEDULE_ENABLED, CQ_SCHEDULE_END
} CqSubmitOpt;
#define CQ_SCHEDULE_FIRST CQ_SUBMIT_PRIORITY
#define CQ_SCHEDULE_NJOB  (CQ_SUBMIT_NOW-CQ_SCHEDULE_FIRST) /* The job's own */

/* Arguments of claimq_schedule(). */
#define CQ_SCHEDULE_NAME    0
#define CQ_SCHEDULE_SPEC    1
#define CQ_SCHEDULE_LANE    2
#define CQ_SCHEDULE_PAYLOAD 3

/* Arguments and options of claimq_grant(). */
#define CQ_GRANT_JOB   0
#define CQ_GRANT_OWNER 1
#define CQ_GRANT_TTL   2
typedef enum CqGrantOpt {
  CQ_GRANT_INCARNATION, CQ_GRANT_LANE, CQ_GRANT_HASH, CQ_GRANT_CAPS,
  CQ_GRANT_ROUTE, CQ_GRANT_ADMISSION, CQ_GRANT_NOW, CQ_GRANT_REQUEST,
  CQ_GRANT_N
} CqGrantOpt;

/* Options of claimq_change(). */
typedef enum CqChangeOpt {
  CQ_CHANGE_LANE, CQ_CHANGE_PRIORITY, CQ_CHANGE_CAPS, CQ_CHANGE_PAYLOAD,
  CQ_CHANGE_AT, CQ_CHANGE_DELAY, CQ_CHANGE_ATTEMPTS, CQ_CHANGE_RECLAIMS,
  CQ_CHANGE_RUNTIME,
  CQ_CHANGE_PARTITION, CQ_CHANGE_GROUP, CQ_CHANGE_HEADERS, CQ_CHANGE_NOW,
  CQ_CHANGE_REQUEST, CQ_CHANGE_N
} CqChangeOpt;

/* Options of claimq_cancel_flow(). */
typedef enum CqCancelFlowOpt {
  CQ_CANCEL_FLOW_FORCE, CQ_CANCEL_FLOW_MAX, CQ_CANCEL_FLOW_NOW,
  CQ_CANCEL_FLOW_REQUEST, CQ_CANCEL_FLOW_N
} CqCancelFlowOpt;

/* Options of claimq_policy().  Those before CQ_POLICY_NOW are columns of the
** table claimq_policy, in this order; those before CQ_POLICY_PAUSED are limits,
** which one lane has for itself. */
typedef enum CqPolicyOpt {
  CQ_LIMIT_MAX, CQ_LIMIT_NRATE, CQ_LIMIT_PER, CQ_LIMIT_GROUP_MAX,
  CQ_LIMIT_GROUP_NRATE, CQ_LIMIT_GROUP_PER, CQ_LIMIT_FAIR,
  CQ_POLICY_PAUSED, CQ_POLICY_ATTEMPTS, CQ_POLICY_BACKOFF, CQ_POLICY_FACTOR,
  CQ_POLICY_BACKOFF_MAX, CQ_POLICY_RECLAIMS, CQ_POLICY_RUNTIME,
  CQ_POLICY_LEASE, CQ_POLICY_STRICT, CQ_POLICY_KEEP, CQ_POLICY_KEEP_FAILED,
  CQ_POLICY_EVENTS, CQ_POLICY_RECLAIM, CQ_POLICY_ADMISSION,
  CQ_POLICY_NOW, CQ_POLICY_REQUEST, CQ_POLICY_N
} CqPolicyOpt;

/* What holds for a lane: a[CQ_POLICY_KEEP] is its keep_ms, and so on.  Of what
** nobody has said it is what is built in; limits are not among it. */
typedef struct CqPolicy CqPolicy;
struct CqPolicy { i64 a[CQ_POLICY_NOW]; };

/* Options of the verbs. */
#define CQ_LANE_RESULT   0
#define CQ_LANE_PROGRESS 1
#define CQ_LANE_CLASS    2
#define CQ_LANE_AFTER    3

/* A list of capabilities, taken apart. */
typedef struct CqCaps CqCaps;
struct CqCaps {
  CqText *a;                      /* Sorted; the texts stand behind them */
  int n;
  char *zOut;                     /* Room to join them again */
};
/* Raise bad_argument unless json is a list of capabilities.  Returns the
** number of its elements. */
CQ_PRIV int claimqLaneCapsCheck(CqOp*, const char *zName, CqText json);
/* Check and take apart argument "capabilities".  The caller frees pCaps->a
** with sqlite3_free(), also after an error. */
CQ_PRIV void claimqLaneCaps(CqOp*, CqText json, CqCaps*);
/* The same, and the one way to write that set, which stays as long as
** pCaps->a. */
CQ_PRIV CqText claimqLaneCapsText(CqOp*, CqText json, CqCaps*);

/* What cancel, grant and reclaim must know of a job. */
typedef struct CqLaneState CqLaneState;
struct CqLaneState {
  u8 bTerminal, bActive;
  u8 bLive;                       /* Held by a live claim */
  u8 bAuto;                       /* No grant is needed to reclaim it */
  u8 bWaits;                      /* It waits for a grant that admits it */
  u8 bBlocked, bLate;             /* For other jobs; for its time */
  u8 bUnsaid;                     /* Its lane says whether one admits it */
  i64 nReclaim, nMaxReclaim;
};
/* 1 if the job exists, and what it is; else 0, and *pState is zeroed. */
CQ_PRIV int claimqLaneState(CqOp*, i64 iJob, CqLaneState*);

/**************************************************************************
** Interface to lane/claim.c: choosing and stamping jobs.
*/
/* Jobs that stand together in the index: a bucket of a partition. */
typedef struct CqSet CqSet;
struct CqSet {
  i64 iPartition;
  i64 iHead;                      /* Those of this head; 0: see bucket */
  CqText bucket;                  /* As in claimq_job.bucket; of HEADS the
                                  ** capabilities */
  u8 eKind;                       /* CQ_SET_* */
};
#define CQ_SET_JOBS  0            /* Jobs that a claim may take as they come */
#define CQ_SET_LOOSE 1            /* ... of groups that the lane keeps, which do
                                  ** not stand with these yet */
#define CQ_SET_HEADS 2            /* The heads of such groups */
typedef struct CqSets CqSets;
struct CqSets { CqSet *a; int n, nAlloc; };
CQ_PRIV void claimqSetsAdd(CqOp*, CqSets*, const CqSet*);

/* Jobs that one claim fails at most because nobody can ever claim them. */
#define CQ_INVALID_MOST 1000

/* The claim's own state. */
typedef struct CqLane CqLane;
struct CqLane {
  CqCaps offered;                 /* The worker's capabilities */
  CqIds partitions;               /* Those asked for, in order; none: all */
  CqSets sets;                    /* What the worker may take from */
  char **azText;                  /* Where the texts of sets live */
  int nText;
  CqJobKey *aPick;                /* The best jobs so far, in order */
  int nPick, nPickAlloc;
  CqIds spent;                    /* Met, and reclaimed too often; or their
                                  ** capabilities are no list of any */
  CqIds passed;                   /* Passed over, where these were many */
  CqIds unsaid;                   /* Admitted by a grant: the policy says so,
                                  ** and they do not yet */
  CqSets late;                    /* Sets with many that waited and are due */
  i64 iNow;
  int nDue;                       /* Jobs of this set that waited and are due */
  u8 bFound;                      /* This set has something to give */
  u8 bNew;                        /* All jobs taken are new */
  u8 bSets;                       /* The sets were looked for */
  u8 bLook;                       /* Nothing will be written */
  u8 bScheduled;                  /* Jobs are to be put before any is taken */
  u8 bPut;                        /* They are */
  u8 bPlace;                      /* Jobs are to be placed before */
  u8 bCount;                      /* ... or leases to be counted */
  u8 bPlaced;                     /* They are, as many as one claim places */
  u8 bFree;                       /* Look past the limits of the lane */
  u8 bBack;                       /* Starts that seem to come are to be now */
  struct CqLaneLimit *pLimit;     /* The limits of the lane, 0: none */
  CqPolicy policy;                /* What holds for it beside these */
};
CQ_PRIV void claimqLaneArgs(CqOp*, CqClaim*);
CQ_PRIV void claimqLaneNext(CqOp*, CqClaim*);
CQ_PRIV void claimqLaneTidy(CqOp*, CqClaim*);
CQ_PRIV void claimqLaneStamp(CqOp*, CqClaim*);
/* Stamp pC->ids by a statement like LANE_STAMP; some of them are spent. */
CQ_PRIV void claimqLaneStampList(CqOp*, CqClaim*, const CqIds *pSpent, CqStmt*);
CQ_PRIV void claimqLaneDone(CqClaim*);
CQ_PRIV i64 claimqLaneNextAt(CqOp*, CqClaim*);
CQ_PRIV void claimqLaneWhy(CqOp*, CqClaim*, CqWhy*);        /* lane/why.c */
CQ_PRIV void claimqLaneRows(CqOp*, CqClaim*, CqText claimId);
CQ_PRIV void claimqLaneJudge(CqOp*, CqCall*);      /* claimq__judge() */
/* 1 if jobs of the lane that do not say it need no grant to be taken. */
CQ_PRIV int claimqLaneOpen(CqClaim*);
/* Make the lease of the job that pJob stands on (LANE_HEAD or LANE_JOB), and
** write from a[0] on the job's columns, as they will be once it is claimed, and
** the claim's.  Returns 1 if the job is new: nobody holds it, and it stands
** among the ready ones. */
CQ_PRIV int claimqLaneRow(
  CqOp*, CqClaim*, const CqPolicy*, const CqStmt *pJob, CqCell *a);
/* The same for job iJob.  pJob is LANE_JOB, and is left ready for the next. */
CQ_PRIV int claimqLaneRowOf(
  CqOp*, CqClaim*, const CqPolicy*, CqStmt *pJob, CqCell *a, i64 iJob);
/* The best jobs of one set, at most nMax, in order: *pa, which stay until the
** next call.  Returns their number. */
CQ_PRIV int claimqLaneBest(CqOp*, CqClaim*, const CqSet*, i64 nMax,
                           const CqJobKey **pa);
/* Jobs of a head that waited become ready, nMost at most -> how many. */
CQ_PRIV i64 claimqHeadPromote(CqOp*, CqClaim*, i64 iHead, i64 nMost);
/* When a job of a set will be claimable that is not now; or CQ_NO_TIME. */
CQ_PRIV i64 claimqLaneLater(CqOp*, CqClaim*, const CqSet*);
/* For sqlite3_bind_pointer(): the CqLane of the claim in progress. */
#define CQ_LANE_TYPE "claimq-lane"
/* 1 if jobs of the set waited and became due. */
CQ_PRIV int claimqLaneWaited(CqOp*, CqClaim*, const CqSet*);
/* Pick these jobs, which are in order. */
CQ_PRIV void claimqLanePicks(CqOp*, CqClaim*, const CqOffer*, int n);
/* Add a row with the job of a claim that was made before, if it still holds:
** the job's columns from iCol on.  Returns the row, 0 if it does not hold. */
CQ_PRIV CqCell *claimqLaneKept(CqOp*, CqClaim*, CqText claimId, int iCol);

/**************************************************************************
** Interface to lane/submit.c: new jobs.
*/
CQ_PRIV void claimqLanePutCheck(CqOp*, CqPut*);
CQ_PRIV void claimqLanePutWrite(CqOp*, CqPut*);
CQ_PRIV void claimqLanePutDone(CqPut*);

/**************************************************************************
** Interface to lane/change.c: changing a job that waits.
*/
CQ_PRIV void claimqLaneChange(CqOp*, CqCall*);
/* Run the statement that changes job iJob, bound, and what follows from it. */
CQ_PRIV void claimqLaneChanged(CqOp*, CqTask*, i64 iJob, CqStmt*);

/**************************************************************************
** Interface to lane/verb.c: what verbs and cancel do to a job.
*/
CQ_PRIV void claimqLaneCheck(CqOp*, CqVerb*);
CQ_PRIV int claimqLaneLost(CqOp*, CqVerb*, int eVerdict, CqStmt *pHead);
CQ_PRIV int claimqLaneExpired(CqOp*, CqVerb*, CqStmt *pHead);
CQ_PRIV void claimqLaneDecide(CqOp*, CqVerb*, CqStmt *pHead);
CQ_PRIV void claimqLaneBind(CqOp*, CqVerb*, CqStmt*);
CQ_PRIV void claimqLaneVerbDone(CqVerb*);
CQ_PRIV i64 claimqLaneCancelAll(CqOp*, const CqIds*);  /* -> how many */
CQ_PRIV void claimqLaneCancel(
  CqOp*, const CqVal *pKey, int bForce, sqlite3_context*
);

/**************************************************************************
** Interface to lane/keep.c: jobs that have ended are forgotten after a while.
*/
/* Does the call that ends job iJob remove what may go? and do it. */
CQ_PRIV int claimqLaneForgets(CqOp*, i64 iJob);
CQ_PRIV void claimqLaneForget(CqOp*);
CQ_PRIV void claimqLaneForgetAfter(CqOp*, const CqTask*, const CqIds*);
/* claimq_policy() says these: a[CQ_POLICY_KEEP] and so on. */
CQ_PRIV void claimqLaneKeeps(CqOp*, CqTask*, const i64 *a);
/* Before jobs end, and afterwards: lanes may want no events. */
CQ_PRIV i64 claimqLaneLastEvent(CqOp*);
CQ_PRIV void claimqLaneNoEvents(CqOp*, i64 iLast);
CQ_PRIV void claimqLaneVacuum(CqOp*, CqVacuum*);

/**************************************************************************
** Interface to lane/end.c: what follows when a claim ends, or a job.
*/
/* A job whose lease counts, or that stands with a group. */
typedef struct CqSlotUse CqSlotUse;
struct CqSlotUse {
  i64 iJob;
  CqText lane;
  i64 iExpires;
  i64 iHead;                      /* 0: it does not stand with a group */
  u8 bSlot;
  i64 iGroup;                     /* ... of this group; 0: of none */
};
/* What a job waits for: one that is new, or that is given back. */
typedef struct CqAfter CqAfter;
struct CqAfter {
  CqIds ids;                      /* All of them */
  i64 iWaits;                     /* The latest that has not ended; 0: none */
  i64 iFailed;                    /* When the latest that failed or was
                                  ** cancelled ended; CQ_NO_TIME: none */
};
/* What a verb has found out about the job. */
typedef struct CqLaneVerb CqLaneVerb;
struct CqLaneVerb {
  int eVerb;                      /* What it does: a retry may be a reject */
  u8 bAwaited;                    /* Others wait for the job */
  u8 bForgets;                    /* Its end removes what may go */
  u8 bGone;                       /* It is completed, and goes at once */
  i64 iEvent;                     /* Later events are not wanted, perhaps; or
                                  ** -1 */
  CqSlotUse slot;                 /* What limits know of it; lane.z is copied */
  CqAfter after;                  /* What it waits for; iWaits is 0: nothing */
  u8 bPolicy;                     /* policy is read */
  CqPolicy policy;
};
CQ_PRIV CqIds claimqLaneOne(i64 *piJob);  /* A list of one, not to be cleared */
/* Before the jobs of a list are written: the attempts of who holds them end
** with an outcome; by being displaced, or because they are spent; by being
** cancelled. */
CQ_PRIV void claimqLaneAttempt(
  CqOp*, const CqIds*, const char *zOutcome, CqText error, CqText eClass);
CQ_PRIV void claimqLaneDisplaced(CqOp*, const CqIds*);
CQ_PRIV void claimqLaneCancelling(CqOp*, const CqIds*);
CQ_PRIV void claimqLaneReleased(CqOp*, const CqIds*);
/* Before, too: those of the list that others wait for. */
CQ_PRIV void claimqLaneAwaited(CqOp*, const CqIds*, CqIds *pOut);
/* Afterwards: dead letters; those who waited. */
CQ_PRIV void claimqLaneLetters(CqOp*, const CqIds*);
CQ_PRIV void claimqLaneOver(CqOp*, const CqIds*, int bFailed);
/* Cancel jobs because of another, as of iAt. */
CQ_PRIV void claimqLaneCancelAfter(CqOp*, const CqIds*, i64 iAt);
CQ_PRIV void claimqLaneSettling(CqOp*, CqVerb*);
CQ_PRIV void claimqLaneSettled(CqOp*, CqVerb*);
CQ_PRIV void claimqLaneDeleted(CqOp*, CqCall*);

/**************************************************************************
** Interface to lane/after.c: jobs that wait for others; flows.
*/
/* Read option after, a JSON array, into a list; the caller clears it. */
CQ_PRIV void claimqLaneAfterRead(CqOp*, CqText json, CqIds*);
/* Look at the jobs of the list.  Raises not_found unless all exist. */
CQ_PRIV void claimqLaneAfterFind(CqOp*, CqAfter*);
/* The new job iJob waits for those of the list. */
CQ_PRIV void claimqLaneAfterWrite(CqOp*, i64 iJob, const CqAfter*, int bRun);
/* A job that exists is to wait for those of the list: look at them, and write
** that down when it is blocked. */
CQ_PRIV void claimqLaneParkFind(CqOp*, i64 iJob, CqAfter*);
CQ_PRIV void claimqLaneParkWrite(CqOp*, i64 iJob, const CqAfter*);
/* What a blocked job waits for, for claimq_why. */
CQ_PRIV void claimqLaneAfterWhy(CqOp*, CqRows*, CqCell*, i64 iJob);
CQ_PRIV void claimqLaneCancelFlow(CqOp*, CqCall*);

/**************************************************************************
** Interface to lane/resolve.c: completing a job from outside.
*/
CQ_PRIV void claimqLaneResolve(CqOp*, CqCall*);

/**************************************************************************
** Interface to lane/grant.c: grants, and claimq_reclaim().
*/
CQ_PRIV void claimqLaneGrant(CqOp*, CqCall*);
CQ_PRIV void claimqLaneUngrant(CqOp*, CqCall*);
CQ_PRIV void claimqReclaimNext(CqOp*, CqClaim*);
CQ_PRIV void claimqReclaimStamp(CqOp*, CqClaim*);
CQ_PRIV void claimqReclaimDone(CqClaim*);
CQ_PRIV void claimqReclaimRows(CqOp*, CqClaim*, CqText claimId);

/**************************************************************************
** Interface to lane/schedule.c: claimq_schedule() and claimq_unschedule(), and
** what the claims of a lane do for them.
*/
CQ_PRIV const CqDiscipline *claimqLaneDiscipline(void);
CQ_PRIV const char *const *claimqCatchUpWords(void);
CQ_PRIV void claimqSchedule(CqOp*, CqCall*);
CQ_PRIV void claimqUnschedule(CqOp*, CqCall*);
/* 1 if a schedule of the lane is due. */
CQ_PRIV int claimqScheduleDue(CqOp*, CqText lane);
/* Put the jobs that are due, as part of a task that needs CQ_NEED_UNDO. */
CQ_PRIV void claimqSchedulePut(CqOp*, const CqTask*, CqText lane);
/* When a schedule of the lane is due next; or CQ_NO_TIME. */
CQ_PRIV i64 claimqScheduleNext(CqOp*, CqText lane);
CQ_PRIV void claimqScheduleWhy(CqOp*, CqText lane, CqWhy*);

/**************************************************************************
** Interface to lane/policy.c: what lanes say of their claims and jobs.
*/
#define CQ_UNSAID CQ_I64_MIN      /* A policy says nothing of this */
/* What holds for a lane: its own policy, else that of every lane, else what is
** built in.  One lookup, and none where claimq_policy() was never called. */
CQ_PRIV void claimqPolicyOf(CqOp*, CqText lane, CqPolicy*);
CQ_PRIV void claimqPolicyNone(CqPolicy*);          /* What is built in */
CQ_PRIV void claimqPolicyRead(const CqStmt*, CqPolicy*);   /* POLICY_ROW */
CQ_PRIV void claimqLanePolicy(CqOp*, CqCall*);     /* claimq_policy() */

/**************************************************************************
** Interface to lane/limit.c: limits of lanes.
*/
typedef struct CqLaneLimit CqLaneLimit;
struct CqLaneLimit {
  CqText lane;                    /* The caller's */
  CqLimit own, group;             /* Of the lane, of each group */
  u8 bLimits;                     /* There are any; else it is only paused */
  u8 bPaused;
  u8 bGroups, bFair;
  u8 bSlots;                      /* Leases are counted ... */
  u8 bCounted;                    /* ... and all of them have a slot */
  u8 bBack;                       /* Claims began later than now; rates ask */
  i64 nBegun;                     /* Claims so far */
  i64 iLast;                      /* None of them began later */
  i64 iTurn;                      /* The last turn taken */
  i64 iKeyless;                   /* ... by jobs without a group */
  i64 iFairFrom;                  /* Turns up to this one do not count */
  i64 iOpens;                     /* The first of the closed groups that were
                                  ** met opens then */
  CqRoom room;                    /* What the lane lets begin */
  CqText from;                    /* Groups from this one on are to be looked
                                  ** at again; z==0: none */
  struct CqGroupUse *aGroup;      /* Groups that were looked at */
  int nGroup, nGroupAlloc;
  int *aHash, nHash;              /* Where they are, by their keys */
  struct CqNewGroup *aNew;        /* Groups that are not in the table yet: a
                                  ** hash by their keys */
  int nNew, nNewHash;
  struct CqHeadUse *aHead;        /* Heads that have something to give */
  int nHead, nHeadAlloc;
  CqOffer *aOffer;                /* What it is */
  int nOffer, nOfferAlloc;
  int nPicked;                    /* The first are the jobs picked, in order,
                                  ** and all stand with their groups */
  i64 *aTurn;                     /* Turns of the jobs picked */
  CqIds late, wrong;              /* Heads to put in order */
  CqIds loose;                    /* Picked jobs that do not stand with their
                                  ** groups yet */
  CqSets empty;                   /* Heads that had nothing to give */
  struct CqBusy *pBusy;           /* Of whoever looks at all jobs: busy.c */
};
/* The policy of a lane, and its limits, 0 if it has none. */
CQ_PRIV CqLaneLimit *claimqLimitOfLane(CqOp*, CqText lane, CqPolicy*);
CQ_PRIV void claimqLimitFree(CqLaneLimit*);
CQ_PRIV void claimqLimitClock(CqOp*, CqLaneLimit*);
/* What the lane (0) or a group lets begin of nWant claims. */
CQ_PRIV void claimqLimitRoomOf(
  CqOp*, const CqLaneLimit*, i64 iGroup, CqText key, i64 nWant, CqRoom*);
/* What the lane and group iGroup of it let begin; the group is remembered. */
CQ_PRIV void claimqLimitJob(
  CqOp*, CqLaneLimit*, i64 iGroup, CqText key, CqRoom*);
/* A job and its limits, for claimq_reclaim(): the limits of its lane, 0 if
** there are none, and *pRoom; and the policy of its lane. */
CQ_PRIV CqLaneLimit *claimqLimitOfJob(CqOp*, i64 iJob, CqRoom*, CqPolicy*);
/* For xNext: load the limits, and lower nMax to what they let begin. */
CQ_PRIV void claimqLimitBegin(CqOp*, CqClaim*);
/* The clock has gone back: what began later than now began now. */
CQ_PRIV void claimqLimitBack(CqOp*, CqLaneLimit*, CqText lane);
/* Give everything that is held a slot. */
CQ_PRIV void claimqLimitCount(CqOp*, CqLaneLimit*);
CQ_PRIV void claimqLimitList(CqOp*, int eStmt, const CqIds*);
/* The first nTaken jobs of a list were taken, the others failed. */
CQ_PRIV void claimqLimitTaken(
  CqOp*, CqTask*, CqLaneLimit*, const CqIds*, int nTaken, const i64 *aTurn);
typedef struct CqSlots CqSlots;
struct CqSlots { CqSlotUse *a; int n; };
/* It is given back or has ended (-1), or its lease ends at iUntil. */
CQ_PRIV void claimqLimitChanged(CqOp*, const CqSlotUse*, i64 iUntil);
/* The same for a list: before the jobs are written, and afterwards. */
CQ_PRIV void claimqSlotsOf(CqOp*, const CqIds*, CqSlots*);
CQ_PRIV void claimqSlotsChanged(CqOp*, CqSlots*);
CQ_PRIV void claimqSlotsGone(CqOp*, CqSlots*);
CQ_PRIV void claimqLimitStampBind(CqOp*, CqStmt*, const CqLaneLimit*);
CQ_PRIV void claimqSlotsFree(CqSlots*);
/* Raise conflict if the claim of a job that has expired may not be renewed,
** because others have taken its slot. */
CQ_PRIV void claimqLimitRenew(CqOp*, i64 iJob);
CQ_PRIV void claimqLimitOpens(CqOp*, CqCall*);     /* claimq__opens() */

/**************************************************************************
** Interface to lane/group.c: groups that are limited, or take turns.
*/
#define CQ_PLACE_MOST 1000        /* Jobs that one claim places; groups that it
                                  ** looks at again */
CQ_PRIV void claimqGroupFree(CqLaneLimit*);
CQ_PRIV const CqRoom *claimqGroupRoom(
  CqOp*, CqLaneLimit*, i64 iGroup, CqText key);
/* Pick jobs in a lane that keeps groups. */
CQ_PRIV void claimqLimitChoose(CqOp*, CqClaim*);
CQ_PRIV void claimqLimitTidy(CqOp*, CqClaim*);
/* When the claim will find something that it does not now; or CQ_NO_TIME. */
CQ_PRIV i64 claimqLimitLater(CqOp*, CqClaim*);
/* When a group, or the lane (0), lets a claim begin; -1: now. */
CQ_PRIV i64 claimqGroupOpens(CqOp*, const CqLaneLimit*, i64 iGroup, CqText key);
/* Look again: at groups and all of their heads; at heads. */
/* (The limits may be 0: then they are read if they matter.) */
CQ_PRIV void claimqGroupsLook(CqOp*, CqLaneLimit*, const CqIds*);
CQ_PRIV void claimqHeadsSee(CqOp*, CqLaneLimit*, const CqIds*);
CQ_PRIV void claimqGroupTook(
  CqOp*, CqLaneLimit*, i64 iGroup, i64 iHead, i64 iTurn, int bTook,
  CqIds *pGroups, CqIds *pHeads);
CQ_PRIV void claimqGroupChanged(CqOp*, const CqSlotUse*);
/* The group and the head of the i-th job that was chosen. */
CQ_PRIV i64 claimqGroupPicked(const CqLaneLimit*, int i, i64 *piHead);
/* Look again at the heads that the jobs of a list stand with. */
CQ_PRIV void claimqGroupSee(CqOp*, const CqIds*);
/* Let jobs stand with their groups: those of a list; some of a claim's. */
CQ_PRIV void claimqGroupStand(CqOp*, const CqIds*);
CQ_PRIV void claimqGroupPlace(CqOp*, const CqIds*);
CQ_PRIV void claimqGroupPlaceSome(CqOp*, CqClaim*);
CQ_PRIV void claimqGroupLookSome(CqOp*, CqLaneLimit*);

/**************************************************************************
** Interface to lane/busy.c: limits, for whoever looks at all jobs of a lane;
** and to lane/stats.c: claimq_stats.
*/
typedef struct CqBusy CqBusy;
#define CQ_KIND_WAITS   0         /* LANE_STATS_KIND, LANE_WHY_KIND */
#define CQ_KIND_ACTIVE  1
#define CQ_KIND_BLOCKED 2
#define CQ_KIND_ENDED   3         /* ... of the one */
#define CQ_KIND_GRANT   3         /* ... of the other */
#define CQ_KIND_UNSAID  4         /* It waits, or its lane asks for a grant */
/* What the lane and the group of a key (z==0: none) let begin. */
CQ_PRIV void claimqLimitSee(CqOp*, CqLaneLimit*, CqText key, CqRoom*);
CQ_PRIV void claimqBusyFree(CqBusy*);
CQ_PRIV void claimqLaneStats(CqOp*, CqText scope, CqRows*);

#endif /* CLAIMQ_LANE_H */
