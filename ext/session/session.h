/*
** session.h: what session.c and its sisters know of each other.
*/
#ifndef CLAIMQ_SESSION_H
#define CLAIMQ_SESSION_H
#include "claimq_int.h"

/* Options of claimq_enqueue(); now_ms and request follow. */
typedef enum CqEnqueueOpt {
  CQ_E_SOURCE_KEY, CQ_E_WORK, CQ_E_DELIVERY, CQ_E_SLOT, CQ_E_MERGE, CQ_E_AT,
  CQ_E_DELAY, CQ_E_HEADERS, CQ_E_UNIQUE
} CqEnqueueOpt;

#define CQ_SV_BATCH_IDS 0         /* The option of complete */

/* The columns of the claim table that are its own: the first of SESSION_READY,
** where the last of them has another name. */
#define CQ_S_COLS \
  "enqueue_seq:i batch_id:t session:t source_key:t " \
  "work_class:t delivery_policy:t slot_policy:t merge_key:t " \
  "payload:b headers:t enqueued_at_ms:i available_at_ms:i " \
  "batch_fencing_token:i"
#define CQ_S_FENCE CQ_COL_SESSION_READY_fencing_token
#define CQ_S_NCOL  (CQ_S_FENCE+1)

/* The columns that are read of a batch. */
#define CQ_S(NAME) CQ_COL_SESSION_READY_##NAME
#define CQ_S_NREAD (CQ_S(last_error)+1)
CQ_CHECK(SessionCols, CQ_S(enqueue_seq)==0 && CQ_S_NCOL==13
                   && (int)CQ_COL_SESSION_ROWS_fencing_token==(int)CQ_S_FENCE);

/**************************************************************************
** Interface to session/batch.c: a batch as it was read.
*/
typedef struct CqBatch CqBatch;
struct CqBatch {
  const CqStmt *pStmt;            /* The statement that stands on its row */
  sqlite3_value *apCol[CQ_S_NREAD];
  i64 iSeq;
  CqCand cand;                    /* Words and merge key if it is claimable */
  int eWhy;                       /* CQ_WHY_*: claimable, or why it is not */
  const char *zBad;               /* CQ_WHY_UNKNOWN: the column at fault */
};
/* Read the row that the statement stands on, and judge it.  1 if a stream must
** stop at it: it is claimable, or somebody corrupted it. */
CQ_PRIV int claimqBatchRead(CqOp*, const CqStmt*, CqBatch*);
/* A corrupted batch: an error, or a word in the error log. */
CQ_PRIV void claimqBatchBad(CqOp*, const CqClaim*, const CqBatch*);

/**************************************************************************
** Interface to session/streams.c: the candidates of a claim.
*/
typedef struct CqStreams CqStreams;
struct CqStreams {
  CqStmt ready, due, row;         /* row reads what due only names */
  u8 bReady, bDue;                /* The stream stands on a row, */
  CqBatch readyBatch, dueBatch;   /* this one */
  u8 bFound;                      /* A claimable one was met */
  CqIds *pPassed;                 /* OUT: ready rows before it that are not */
  CqIds *pDue;                    /* OUT: rows of the due stream */
};
#define CQ_STREAMS_TYPE "claimq-streams"  /* For sqlite3_bind_pointer() */
/* session.z==0: of all sessions.  What is met on the way is added to the two
** lists, unless these are 0.  The caller closes, also after errors. */
CQ_PRIV void claimqStreamsOpen(
  CqOp*, CqStreams*, CqText session, CqIds *pPassed, CqIds *pDue
);
CQ_PRIV void claimqStreamsClose(CqOp*, CqStreams*);
CQ_PRIV const CqBatch *claimqStreamsHead(CqOp*, CqStreams*);  /* 0: the end */
CQ_PRIV void claimqStreamsNext(CqOp*, CqStreams*, const CqBatch *pHead);
CQ_PRIV void claimqStreamsRest(CqOp*, CqStreams*);  /* Lists due rows */
CQ_PRIV void claimqStreamsPassed(CqOp*, CqCall*);   /* For the statements */

/**************************************************************************
** Interface to session/look.c: what is known of a session.
*/
#define CQ_NEW_MOST 1000          /* New batches that get ids at once */
#define CQ_WRONG_FEW 16           /* Wrong hints that an idle claim leaves */
CQ_PRIV int claimqSessionKept(CqOp*);     /* Does the database keep that? */
CQ_PRIV int claimqSessionMixed(CqOp*, CqText session);    /* Unusual batches? */
CQ_PRIV void claimqSessionLook(CqOp*, CqText session);    /* It has batches, */
CQ_PRIV void claimqSessionLeft(CqOp*, CqText session);    /* ... or may not */
CQ_PRIV void claimqSessionRaise(CqOp*, CqText session, i64 iFirst);
CQ_PRIV int claimqSessionGone(CqOp*, CqText session);     /* 1: forgotten */
CQ_PRIV void claimqSessionCame(CqOp*, CqText session, int bUsual);
CQ_PRIV void claimqSessionDeleted(CqOp*, CqCall*);
CQ_PRIV void claimqSessionBatchId(CqOp*, CqCall*);

/**************************************************************************
** Interface to session/put.c: claimq_enqueue(), claimq_cancel().
*/
CQ_PRIV void claimqEnqueueCheck(CqOp*, CqPut*);
CQ_PRIV void claimqEnqueueWrite(CqOp*, CqPut*);
/* 'cancelled', 'claimed' or 'missing'; 0: the call is a repeated one. */
CQ_PRIV void claimqSessionCancel(
  CqOp*, const CqVal *pKey, int bForce, sqlite3_context*
);

/**************************************************************************
** Interface to session/names.c: a set of session ids.
*/
typedef struct CqNames CqNames;
struct CqNames {
  CqText *a;                      /* nSlot slots; z==0: free */
  int n, nSlot;                   /* nSlot is a power of two, or 0 */
};
CQ_PRIV int claimqNamesHas(const CqNames*, CqText);
CQ_PRIV void claimqNamesAdd(CqOp*, CqNames*, CqText);     /* A copy */
CQ_PRIV void claimqNamesClear(CqNames*);                  /* Frees it all */

/**************************************************************************
** A claim, or a peek, as any.c and claim.c see it
*/
typedef struct CqSession CqSession;       /* CqClaim.own */
struct CqSession {
  CqText session;                 /* As given, or zSession */
  char *zSession;                 /* Any session: the one that was chosen */
  u8 bAny;                        /* No session was given */
  int eBoundary, eTake;
  int bSerial;                    /* -1: as the database's setting says */
  i64 iKept;                      /* Serial: batches behind this one wait */
  u8 bLease;                      /* The claim is serial, and remembers it */
  u8 bKept;                       /* See look.c, */
  u8 bLook;                       /* ... and the session is looked at */
  u8 bMove;                       /* The rows leave their place in the index */
  CqSelect sel;
  CqIds passed, due;              /* For upkeep: see CqStreams */
  CqNames wrong;                  /* For upkeep: see any.c */
  CqText late;                    /* A session that gives less than is known, */
  i64 iLate;                      /* ... this and what follows; 0: none */
  CqIds fresh;                    /* For upkeep: rows of plain INSERTs */
  u8 bNew;                        /* One of them is taken, and gets this id */
  char zId[CQ_BATCH_ID_SZ];
};
CQ_CHECK(Session, sizeof(CqSession)<=sizeof(CqOwn));

/**************************************************************************
** Interface to session/serial.c: serial claims.
*/
CQ_PRIV int claimqSessionSerial(CqOp*, const CqClaim*);     /* Is it one? */
/* 1 if a live claim holds a batch of the session; else *piKept is set.  piUntil
** may be 0. */
CQ_PRIV int claimqSessionBusy(CqOp*, CqText session, i64 *piKept, i64 *piUntil);

/**************************************************************************
** Interface to session/any.c: choosing a session.
*/
/* 0 if none gives anything, or op has an error. */
CQ_PRIV int claimqSessionAny(CqOp*, CqClaim*, int bSerial);

/**************************************************************************
** Interface to session/claim.c, for the descriptor.
*/
CQ_PRIV void claimqSessionNext(CqOp*, CqClaim*);
CQ_PRIV void claimqSessionTidy(CqOp*, CqClaim*);
CQ_PRIV void claimqSessionStamp(CqOp*, CqClaim*);
CQ_PRIV void claimqSessionDone(CqClaim*);
CQ_PRIV i64 claimqSessionNextAt(CqOp*, CqClaim*);
CQ_PRIV void claimqSessionWhy(CqOp*, CqClaim*, CqWhy*);
CQ_PRIV void claimqSessionRows(CqOp*, CqClaim*, CqText claimId);

/**************************************************************************
** Interface to session/verb.c, for the descriptor.
*/
CQ_PRIV void claimqSessionCheck(CqOp*, CqVerb*);
CQ_PRIV void claimqSessionMembers(CqOp*, CqVerb*, CqStmt *pHead);
CQ_PRIV void claimqSessionDecide(CqOp*, CqVerb*, CqStmt *pHead);
CQ_PRIV void claimqSessionSettle(CqOp*, CqVerb*);
CQ_PRIV void claimqSessionSettled(CqOp*, CqVerb*);
CQ_PRIV void claimqSessionVerbDone(CqVerb*);

#endif /* CLAIMQ_SESSION_H */
