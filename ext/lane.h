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
  "job_id:i lane_id:t partition_key:i priority:i payload:b " \
  "required_capabilities:t attempt_index:i reclaim_count:i " \
  "created_at_ms:i available_at_ms:i progress:b group_key:t"
#define CQ_LANE_NCOL 12

/* Arguments of claimq_lane(). */
#define CQ_LANE_LANE      0
#define CQ_LANE_CAPS      5
#define CQ_LANE_PARTITION 6

/* Arguments of claimq_reclaim(). */
#define CQ_RECLAIM_JOB    0
#define CQ_RECLAIM_MAX    4

/* Options of claimq_submit(): all before CQ_SUBMIT_N; and of
** claimq_schedule(): all from CQ_SUBMIT_PRIORITY on. */
typedef enum CqSubmitOpt {
  CQ_SUBMIT_KEY, CQ_SUBMIT_AT, CQ_SUBMIT_DELAY, CQ_SUBMIT_AFTER,
  CQ_SUBMIT_PRIORITY, CQ_SUBMIT_CAPS, CQ_SUBMIT_ATTEMPTS, CQ_SUBMIT_BACKOFF,
  CQ_SUBMIT_FACTOR, CQ_SUBMIT_BACKOFF_MAX, CQ_SUBMIT_RECLAIMS,
  CQ_SUBMIT_RECLAIM, CQ_SUBMIT_PARTITION, CQ_SUBMIT_GROUP, CQ_SUBMIT_FLOW,
  CQ_SUBMIT_NAMESPACE, CQ_SUBMIT_TAG, CQ_SUBMIT_ON_FAILURE, CQ_SUBMIT_UNIQUE,
  CQ_SUBMIT_NOW, CQ_SUBMIT_REQUEST, CQ_SUBMIT_N,
  CQ_SCHEDULE_OFFSET = CQ_SUBMIT_N, CQ_SCHEDULE_CATCH_UP, CQ_SCHEDULE_UNTIL,
  CQ_SCHEDULE_ENABLED, CQ_SCHEDULE_END
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
  CQ_CHANGE_PARTITION, CQ_CHANGE_GROUP, CQ_CHANGE_NOW, CQ_CHANGE_REQUEST,
  CQ_CHANGE_N
} CqChangeOpt;

/* Options of claimq_cancel_flow(). */
typedef enum CqCancelFlowOpt {
  CQ_CANCEL_FLOW_FORCE, CQ_CANCEL_FLOW_NOW, CQ_CANCEL_FLOW_REQUEST,
  CQ_CANCEL_FLOW_N
} CqCancelFlowOpt;

/* Options of claimq_limit().  Those before CQ_LIMIT_NOW are columns of the
** table claimq_limit, in this order. */
typedef enum CqLimitOpt {
  CQ_LIMIT_MAX, CQ_LIMIT_NRATE, CQ_LIMIT_PER, CQ_LIMIT_GROUP_MAX,
  CQ_LIMIT_GROUP_NRATE, CQ_LIMIT_GROUP_PER, CQ_LIMIT_FAIR, CQ_LIMIT_NOW,
  CQ_LIMIT_REQUEST, CQ_LIMIT_N
} CqLimitOpt;

/* Options of the verbs. */
#define CQ_LANE_RESULT   0
#define CQ_LANE_PROGRESS 1
#define CQ_LANE_CLASS    2

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
  i64 nReclaim, nMaxReclaim;
};
/* 1 if the job exists, and what it is; else 0, and *pState is zeroed. */
CQ_PRIV int claimqLaneState(CqOp*, i64 iJob, CqLaneState*);

/**************************************************************************
** Interface to lane_claim.c: choosing and stamping jobs.
*/
/* The claim's own state. */
typedef struct CqLane CqLane;
struct CqLane {
  CqCaps offered;                 /* The worker's capabilities */
  CqIds sets;                     /* Sets that it satisfies, besides set 0 */
  CqJobKey *aPick;                /* The best jobs so far, in order */
  int nPick, nPickAlloc;
  CqIds spent;                    /* Met, and reclaimed too often */
  CqIds passed;                   /* Passed over, where these were many */
  CqIds late;                     /* Sets with many that waited and are due */
  i64 iNow;
  int nDue;                       /* Jobs of this set that waited and are due */
  u8 bFound;                      /* This set has something to give */
  u8 bNew;                        /* All jobs taken are new */
  u8 bGate;                       /* Nobody has looked for schedules yet */
  u8 bScheduled;                  /* Jobs are to be put before any is taken */
  u8 bPut;                        /* They are */
  u8 bFree;                       /* Look past the limits of the lane */
  u8 bBack;                       /* Starts that seem to come are to be now */
  struct CqLaneLimit *pLimit;     /* The limits of the lane, 0: none */
};
CQ_PRIV void claimqLaneArgs(CqOp*, CqClaim*);
CQ_PRIV void claimqLaneNext(CqOp*, CqClaim*);
CQ_PRIV void claimqLaneTidy(CqOp*, CqClaim*);
CQ_PRIV void claimqLaneStamp(CqOp*, CqClaim*);
CQ_PRIV void claimqLaneDone(CqClaim*);
CQ_PRIV i64 claimqLaneNextAt(CqOp*, CqClaim*);
CQ_PRIV void claimqLaneWhy(CqOp*, CqClaim*, CqWhy*);
CQ_PRIV void claimqLaneRows(CqOp*, CqClaim*, CqText claimId);
CQ_PRIV void claimqLaneJudge(CqOp*, CqCall*);      /* claimq_judge() */
/* Make the lease of the job that pJob stands on (LANE_HEAD or LANE_JOB), and
** write from a[0] on the job's columns, as they will be once it is claimed, and
** the claim's.  Returns 1 if the job is new: nobody holds it, and it stands
** among the ready ones. */
CQ_PRIV int claimqLaneRow(CqOp*, CqClaim*, const CqStmt *pJob, CqCell *a);
/* The same for job iJob.  pJob is LANE_JOB, and is left ready for the next. */
CQ_PRIV int claimqLaneRowOf(CqOp*, CqClaim*, CqStmt *pJob, CqCell *a, i64 iJob);
/* The best jobs of one set, at most nMax, in order: *pa, which stay until the
** next call.  Returns their number. */
CQ_PRIV int claimqLaneBest(CqOp*, CqClaim*, i64 iSet, i64 nMax,
                           const CqJobKey **pa);
CQ_PRIV i64 claimqLanePromote(CqOp*, CqClaim*, i64 iSet, i64 nMost);
/* When a job of a set will be claimable that is not now; or CQ_NO_TIME. */
CQ_PRIV i64 claimqLaneLater(CqOp*, CqClaim*, i64 iSet);
/* Pick these jobs, which are in order. */
CQ_PRIV void claimqLanePicks(CqOp*, CqClaim*, const CqOffer*, int n);
/* Add a row with the job of a claim that was made before, if it still holds:
** the job's columns from iCol on.  Returns the row, 0 if it does not hold. */
CQ_PRIV CqCell *claimqLaneKept(CqOp*, CqClaim*, CqText claimId, int iCol);

/**************************************************************************
** Interface to lane_submit.c: new jobs.
*/
CQ_PRIV void claimqLanePutCheck(CqOp*, CqPut*);
CQ_PRIV void claimqLanePutWrite(CqOp*, CqPut*);
CQ_PRIV void claimqLanePutDone(CqPut*);

/**************************************************************************
** Interface to lane_change.c: changing a job that waits.
*/
CQ_PRIV void claimqLaneChange(CqOp*, CqCall*);

/**************************************************************************
** Interface to lane_verb.c: what verbs and cancel do to a job.
*/
CQ_PRIV void claimqLaneCheck(CqOp*, CqVerb*);
CQ_PRIV int claimqLaneLost(CqOp*, CqVerb*, int eVerdict, CqStmt *pHead);
CQ_PRIV void claimqLaneDecide(CqOp*, CqVerb*, CqStmt *pHead);
CQ_PRIV void claimqLaneBind(CqOp*, CqVerb*, CqStmt*);
CQ_PRIV void claimqLaneCancel(
  CqOp*, const CqVal *pKey, int bForce, sqlite3_context*
);

/**************************************************************************
** Interface to lane_after.c: jobs that wait for others; flows.
*/
/* Read option after, a JSON array, into a list; the caller clears it. */
CQ_PRIV void claimqLaneAfterRead(CqOp*, CqText json, CqIds*);
/* Raise not_found unless all jobs of the list exist. */
CQ_PRIV void claimqLaneAfterFind(CqOp*, const CqIds*);
/* The new job iJob waits for those of the list. */
CQ_PRIV void claimqLaneAfterWrite(CqOp*, i64 iJob, const CqIds*);
/* Its source key is taken until then. */
CQ_PRIV void claimqLaneAfterUnique(
  CqOp*, i64 iJob, CqText lane, CqText key, i64 iUntil);
/* What a blocked job waits for, for claimq_why. */
CQ_PRIV void claimqLaneAfterWhy(CqOp*, CqRows*, CqCell*, i64 iJob);
CQ_PRIV void claimqLaneCancelFlow(CqOp*, CqCall*);

/**************************************************************************
** Interface to lane_grant.c: claimq_grant() and claimq_reclaim().
*/
CQ_PRIV void claimqLaneGrant(CqOp*, CqCall*);
CQ_PRIV void claimqReclaimNext(CqOp*, CqClaim*);
CQ_PRIV void claimqReclaimStamp(CqOp*, CqClaim*);
CQ_PRIV void claimqReclaimRows(CqOp*, CqClaim*, CqText claimId);

/**************************************************************************
** Interface to lane_schedule.c: claimq_schedule() and claimq_unschedule(), and
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
** Interface to lane_limit.c: limits of lanes, groups that take turns.
*/
typedef struct CqLaneLimit CqLaneLimit;
struct CqLaneLimit {
  CqText lane;                    /* The caller's */
  CqLimit own, group;             /* Of the lane, of each group */
  u8 bGroups, bFair;
  u8 bBack;                       /* Claims began later than now; rates ask */
  i64 nBegun;                     /* Claims so far */
  i64 iLast;                      /* None of them began later */
  i64 iTurn;                      /* The last turn taken */
  i64 iKeyless;                   /* ... by jobs without a group */
  i64 iOpens;                     /* The first of the closed groups that were
                                  ** met opens then */
  CqRoom room;                    /* What the lane lets begin */
  struct CqGroupUse *aGroup;      /* Groups that were looked at */
  int nGroup, nGroupAlloc;
  int *aHash, nHash;              /* Where they are, by their keys */
  struct CqHeadUse *aHead;        /* Heads that have something to give */
  int nHead, nHeadAlloc;
  CqOffer *aOffer;                /* What it is */
  int nOffer, nOfferAlloc;
  i64 *aTurn;                     /* Turns of the jobs picked */
  CqIds late, wrong;              /* Heads to put in order */
  CqIds empty;                    /* Their sets, if they had nothing to give */
};
CQ_PRIV void claimqLimitFree(CqLaneLimit*);
/* What the lane and group iGroup of it let begin; the group is remembered. */
CQ_PRIV void claimqLimitJob(CqOp*, CqLaneLimit*, i64 iGroup, CqRoom*);
/* A job and its limits, for claimq_reclaim(): the limits of its lane, 0 if
** there are none, and *pRoom. */
CQ_PRIV CqLaneLimit *claimqLimitOfJob(CqOp*, i64 iJob, CqRoom*);
/* For xNext: load the limits, and lower nMax to what they let begin. */
CQ_PRIV void claimqLimitBegin(CqOp*, CqClaim*);
/* Pick jobs in a lane that keeps groups. */
CQ_PRIV void claimqLimitChoose(CqOp*, CqClaim*);
CQ_PRIV void claimqLimitTidy(CqOp*, CqClaim*);
/* The clock has gone back: what began later than now began now, in the lane of
** a claim, or of a job. */
CQ_PRIV void claimqLimitBack(CqOp*, CqClaim*);
CQ_PRIV void claimqLimitBackOfJob(CqOp*, i64 iJob);
/* When the heads of a set will have something to give; or CQ_NO_TIME. */
CQ_PRIV i64 claimqLimitLater(CqOp*, CqClaim*, i64 iSet);
/* Raise conflict if the claim of a job that has expired may not be renewed,
** because others have taken its slot. */
CQ_PRIV void claimqLimitRenew(CqOp*, i64 iJob);
CQ_PRIV void claimqLaneLimit(CqOp*, CqCall*);      /* claimq_limit() */

#endif /* CLAIMQ_LANE_H */
