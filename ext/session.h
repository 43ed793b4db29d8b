/*
** session.h: what session.c and its sisters know of each other.
*/
#ifndef CLAIMQ_SESSION_H
#define CLAIMQ_SESSION_H
#include "claimq_int.h"

/* Options of claimq_enqueue(); now_ms and request follow. */
typedef enum CqEnqueueOpt {
  CQ_E_SOURCE_KEY, CQ_E_WORK, CQ_E_DELIVERY, CQ_E_SLOT, CQ_E_MERGE, CQ_E_AT,
  CQ_E_DELAY
} CqEnqueueOpt;

/**************************************************************************
** Interface to session_put.c: claimq_enqueue(), claimq_cancel().
*/
CQ_PRIV void claimqEnqueueCheck(CqOp*, CqPut*);
CQ_PRIV void claimqEnqueueWrite(CqOp*, CqPut*);
/* 'cancelled', 'claimed' or 'missing'; 0: the call is a repeated one. */
CQ_PRIV void claimqSessionCancel(
  CqOp*, const CqVal *pKey, int bForce, sqlite3_context*
);

/**************************************************************************
** Interface to session_names.c: a set of session ids.
*/
typedef struct CqNames CqNames;
struct CqNames {
  CqText *a;                      /* nSlot slots; z==0: free */
  int n, nSlot;                   /* nSlot is a power of two, or 0 */
};
CQ_PRIV int claimqNamesHas(const CqNames*, CqText);
CQ_PRIV void claimqNamesAdd(CqOp*, CqNames*, CqText);     /* A copy */
CQ_PRIV void claimqNamesClear(CqNames*);                  /* Frees it all */

#endif /* CLAIMQ_SESSION_H */
