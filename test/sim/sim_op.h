/*
** sim_op.h: the calls that the connections of a simulation make.
*/
#define OP_OK      0              /* How a call can end */
#define OP_DEAD    1              /* Killed, or something is wrong */
#define OP_LOST    2              /* claim_lost */
#define OP_SLOT    3              /* no_slot */
#define OP_REFUSED 4              /* conflict, not_found, not_reclaimable */

#define OP_COMPLETE 0             /* What opSettle() does */
#define OP_RETRY    1
#define OP_RELEASE  2
#define OP_REJECT   3             /* Not of a contest */
#define OP_FORGET   4

sqlite3_stmt *opBind(SimCo*, const char *zSql, const char *zType, ...);
int opEnd(SimCo*, sqlite3_stmt*);
int opRun(SimCo*, sqlite3_stmt*, i64*);
int opPlain(SimCo*, const char *zSql);

#define OP_DID      1             /* Words that a function answers: done, */
#define OP_CLAIMED  2             /* ... not, because somebody holds the job, */
#define OP_MISSING  3             /* ... or because it has ended */
int opWord(SimCo*, sqlite3_stmt*, int *peWord);

void opClear(void);
void opOpen(SimCo*, int bPlain);
void opClose(SimCo*);
void opPut(SimCo*, int eKind, int bPlain);
SimClaim *opClaim(SimCo*, int eKind, int nLease);
SimClaim *opClaimGranted(SimCo*, int iWork, int nLease);
void opClaimEmpty(SimCo*, int eKind, SimClaim*);
void opClaimRow(SimClaim*, sqlite3_stmt*);
int opRenew(SimCo*, SimClaim*, int nLease);
void opSettle(SimCo*, SimClaim*, int eHow);
int opTogether(SimCo*, SimClaim*);
void opWithin(SimCo*);
void opRevoke(SimCo*);
void opSchedule(SimCo*);
void opUnschedule(SimCo*);
void opRestored(SimCo*);
int opFinish(SimCo*, int eKind);
int opLeft(SimCo*);

/* sim_flow.c, sim_change.c, sim_request.c, sim_wait.c */
int flowSubmit(SimCo*, int iWork, const char *zRequest, i64*);
int opPark(SimCo*, SimClaim*);
void opCancel(SimCo*);
int flowCancel(SimCo*, int iWork, int bForce, const char *zRequest, int*);
void opCancelFlow(SimCo*);
int changeCall(SimCo*, int iChange, const char *zRequest, int*);
void changeHeard(int iChange, int eWord);
void opChange(SimCo*);
void requestPut(SimCo*, int eKind, int iScope);
void requestCancel(SimCo*, int iWork, int bForce);
void requestChange(SimCo*, int iWork, int iChange);
SimClaim *requestClaim(SimCo*, int eKind, int nLease, SimClaim *pDone);
void requestSettle(SimCo*, SimClaim*, int eHow);
int requestRenew(SimCo*, SimClaim*, int nLease);
void requestList(SimCo*, SimClaim*);
SimClaim *opRepeat(SimCo*, int *pnLease);
void opRepeatAll(SimCo*);
void opWait(SimCo*);
void opWaitLane(SimCo*);

/* sim_step.c, sim_grant.c, sim_letter.c, sim_policy.c */
int opStep(SimCo*, SimClaim*, int nLease);
int grantReclaim(int iWork);
int grantAdmission(int iWork);
void opGrant(SimCo*);
void opUngrant(SimCo*);
SimClaim *opReclaim(SimCo*, int nLease);
int opGrantAll(SimCo*);
int opRequeueHeld(SimCo*, SimClaim*);
void opRequeue(SimCo*);
void opResolve(SimCo*);
void opVacuum(SimCo*);
void opPolicy(SimCo*);
void opPolicyOpen(SimCo*);
