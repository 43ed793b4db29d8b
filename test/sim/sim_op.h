/*
** sim_op.h: the calls that the connections of a simulation make.
*/
#define OP_COMPLETE 0             /* What opSettle() does */
#define OP_RETRY    1
#define OP_RELEASE  2
#define OP_REJECT   3             /* Jobs only */
#define OP_FORGET   4

void opClear(void);
void opOpen(SimCo*, int bPlain);
void opClose(SimCo*);
void opPut(SimCo*, int eKind, int bPlain);
SimClaim *opClaim(SimCo*, int eKind, int nLease);
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
