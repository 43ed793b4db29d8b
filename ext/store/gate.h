/*
** gate.h: the gate for writers.  See gate.c.
*/
#ifndef CLAIMQ_GATE_H
#define CLAIMQ_GATE_H

/* What a call was. */
#define CQ_CALL_CLAIM 0
#define CQ_CALL_OTHER 1

/* What a connection knows of the gate. */
typedef struct CqGate CqGate;
struct CqGate {
  sqlite3_file *pWal;             /* There is a gate with this journal; or 0 */
  u32 *pWord;                     /* The gate, closed by this call; or 0 */
  u32 iMark;                      /* What this connection closes it with */
  u32 nCall;                      /* Calls that found none */
  i64 usTurn;                     /* When others began to wait; or 0 */
  i64 usLeft;                     /* When the last call left others waiting */
  u8 eCall;                       /* ... and what it was: CQ_CALL_* */
  u8 aSoon[2];                    /* After such a call the next comes soon */
  u8 bTook;                       /* The last claim took something */
};

/* Before a call that is likely to write, and after it if that was 1. */
CQ_PRIV int claimqGateEnter(CqConn*);
CQ_PRIV void claimqGateLeave(CqConn*, int eCall);

/* The same around a transaction of the caller's: claimq__gate(). */
CQ_PRIV int claimqGateTurn(CqConn*, int bEnter);

/* Frames of the WAL; 0: the database has them all, or nobody knows. */
CQ_PRIV int claimqGateFrames(CqConn*);

#endif
