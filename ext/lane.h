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
  "created_at_ms:i available_at_ms:i progress:b"
#define CQ_LANE_NCOL 11

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
  CQ_SUBMIT_KEY, CQ_SUBMIT_AT, CQ_SUBMIT_DELAY,
  CQ_SUBMIT_PRIORITY, CQ_SUBMIT_CAPS, CQ_SUBMIT_ATTEMPTS, CQ_SUBMIT_BACKOFF,
  CQ_SUBMIT_FACTOR, CQ_SUBMIT_BACKOFF_MAX, CQ_SUBMIT_RECLAIMS,
  CQ_SUBMIT_RECLAIM, CQ_SUBMIT_PARTITION, CQ_SUBMIT_FLOW, CQ_SUBMIT_NAMESPACE,
  CQ_SUBMIT_TAG, CQ_SUBMIT_NOW, CQ_SUBMIT_REQUEST, CQ_SUBMIT_N,
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
  CQ_CHANGE_PARTITION, CQ_CHANGE_NOW, CQ_CHANGE_REQUEST, CQ_CHANGE_N
} CqChangeOpt;

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
CQ_PRIV const char *claimqLaneCancel(CqOp*, const CqVal *pKey, int bForce);

/**************************************************************************
** Interface to lane_grant.c: claimq_grant() and claimq_reclaim().
*/
CQ_PRIV void claimqLaneGrant(CqOp*, CqCall*);
CQ_PRIV void claimqReclaimNext(CqOp*, CqClaim*);
CQ_PRIV void claimqReclaimStamp(CqOp*, CqClaim*);
CQ_PRIV void claimqReclaimRows(CqOp*, CqClaim*, CqText claimId);

/**************************************************************************
** Interface to schedule.c: claimq_schedule() and claimq_unschedule(), and what
** the claims of a lane do for them.
*/
CQ_PRIV const CqDiscipline *claimqLaneDiscipline(void);
CQ_PRIV const char *const *claimqCatchUpWords(void);
CQ_PRIV void claimqSchedule(CqOp*, CqCall*);
CQ_PRIV void claimqUnschedule(CqOp*, CqCall*);
/* 1 if a schedule of the lane is due. */
CQ_PRIV int claimqScheduleDue(CqOp*, CqText lane);
/* Put the jobs that are due, as part of a task that needs CQ_NEED_UNDO. */
CQ_PRIV void claimqSchedulePut(CqOp*, const CqTask*, CqText lane);
/* When a schedule of the lane is due next; CQ_I64_MAX: never. */
CQ_PRIV i64 claimqScheduleNext(CqOp*, CqText lane);
CQ_PRIV void claimqScheduleWhy(CqOp*, CqText lane, CqWhy*);

#endif /* CLAIMQ_LANE_H */
