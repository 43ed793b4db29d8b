/*
** session/look.c: what is known of a session, where the database keeps that
** (settings any_session and serial; see sql/schema/session.sql).
**
**     INSERT INTO claimq_batch(session, payload) VALUES('chat-1', 'hi');
**     SELECT * FROM claimq_session;             -- nothing yet
**     SELECT payload FROM claimq(NULL, 'a');    -- hi: but a claim finds it
**     SELECT * FROM claimq_session;             -- chat-1|...
**
** A call that makes more of a session claimable than its row says looks at the
** session afterwards, in the same task, and writes what has changed; a call
** that makes less claimable leaves that to the next claim that meets the
** session.  Batches that came by a plain INSERT have no batch id yet, and are
** found by an index: the next claim of any session looks at their sessions,
** gives the batches their ids, and writes what is known of the sessions now,
** for at most CQ_NEW_MOST batches.
*/
#include "session.h"

/*
** 1 if the database keeps what is known of its sessions.
*/
CQ_PRIV int claimqSessionKept(CqOp *p){
  return (claimqSettings(p) & (CQ_SET_ANY_SESSION|CQ_SET_SERIAL))!=0;
}

/*
** Run one of the statements that look at a session.  Returns how many rows it
** has changed.
*/
static i64 cqLookExec(CqOp *p, int eStmt, CqText session){
  CqStmt s = claimqStmt(p, eStmt);
  claimqBindText(p, &s, CQ_SESSION_LOOK_session, session);
  return claimqExec(p, &s);
}

/*
** Look at a session that has batches, and write what has changed.
*/
CQ_PRIV void claimqSessionLook(CqOp *p, CqText session){
  cqLookExec(p, CQ_SQL_SESSION_LOOK, session);
}

/*
** Batches of it have gone that it gave already: it gives no more than is known,
** and is forgotten if they were its last.  Returns 1 then.
*/
CQ_PRIV int claimqSessionGone(CqOp *p, CqText session){
  return cqLookExec(p, CQ_SQL_SESSION_FORGET, session)>0;
}

/*
** Look at a session of which batches have gone, perhaps all.
*/
CQ_PRIV void claimqSessionLeft(CqOp *p, CqText session){
  if( !claimqSessionGone(p, session) ) claimqSessionLook(p, session);
}

/*
** The first batch of a session is iFirst, which nothing stands in front of, and
** what is known of it is wrong.  (If no more than that was wrong, this takes a
** quarter of what a look takes.)
*/
CQ_PRIV void claimqSessionRaise(CqOp *p, CqText session, i64 iFirst){
  CqStmt s = claimqStmt(p, CQ_SQL_SESSION_RAISE);
  claimqBindText(p, &s, CQ_SESSION_RAISE_session, session);
  claimqBindCommonInt(p, &s, CQ_P_head, iFirst);
  if( claimqExec(p, &s)==0 ) claimqSessionLook(p, session);
}

/*
** The answer of a statement that asks something of a session: does it have a
** row that is not 0?
*/
static int cqLookAsk(CqOp *p, int eStmt, CqText session){
  CqStmt s = claimqStmt(p, eStmt);
  int bYes;
  claimqBindText(p, &s, CQ_SESSION_LOOK_session, session);
  bYes = claimqStep(p, &s) && claimqColInt(&s, 0)!=0;
  claimqStmtDone(p, &s);
  return bYes;
}

/*
** 1 if the session has batches that are not of the usual kind.
*/
CQ_PRIV int claimqSessionMixed(CqOp *p, CqText session){
  return cqLookAsk(p, CQ_SQL_SESSION_IS_MIXED, session);
}

/*
** A batch has come.  If it is of the usual kind, and can be claimed at once, it
** stands behind what is known.
*/
CQ_PRIV void claimqSessionCame(CqOp *p, CqText session, int bUsual){
  if( !bUsual || !cqLookAsk(p, CQ_SQL_SESSION_HAS_HEAD, session) ){
    claimqSessionLook(p, session);
  }
}

/*
** A batch was deleted, and its steps go with it, unless it has become a dead
** letter.  (One that was claimed where it stood among the ready ones is missed
** by nobody: see sql/schema/session.sql.)  Raises conflict if a claim holds it,
** unless the statement is claimq's own.
*/
CQ_PRIV void claimqSessionDeleted(CqOp *p, CqCall *pCall){
  sqlite3_value **ap = pCall->apVal;
  if( !claimqOwnDelete(p->pConn) ){
    i64 iSeq = sqlite3_value_int64(ap[2]);
    CqStmt there = claimqStmt(p, CQ_SQL_SESSION_UNDELETED);
    claimqBindInt(p, &there, CQ_SESSION_UNDELETED_seq, iSeq);
    claimqCheckDeleted(p, &there, "batch", iSeq);
    if( sqlite3_value_type(ap[1])!=SQLITE_NULL ){
      claimqFail(p, CQ_CONFLICT, "batch %lld is claimed: revoke it before you "
          "delete it", iSeq);
    }
  }
  if( p->rc ) return;
  if( (claimqSettings(p) & CQ_SET_STEPS) && p->pConn->bQuiet<2 ){
    CqStmt s = claimqStmt(p, CQ_SQL_STEP_GONE_BATCH);
    claimqBindInt(p, &s, CQ_STEP_GONE_BATCH_seq, sqlite3_value_int64(ap[2]));
    claimqExec(p, &s);
  }
  if( claimqSessionKept(p) && !p->pConn->bQuiet ){
    CqText session = claimqValueText(p, ap[0]);
    if( sqlite3_value_type(ap[1])!=SQLITE_NULL
     && (sqlite3_value_type(ap[3])==SQLITE_NULL
         || sqlite3_value_int64(ap[3])<0)
    ){
      claimqSessionGone(p, session);
    }else{
      claimqSessionLeft(p, session);
    }
  }
}

/*
** claimq__batch_id(session, source_key, enqueued_at_ms, enqueue_seq): the
** id of a batch as it stands in the table.  NULL of one that was damaged.
*/
CQ_PRIV void claimqSessionBatchId(CqOp *p, CqCall *pCall){
  sqlite3_value **ap = pCall->apVal;
  CqText session, key;
  char zId[CQ_BATCH_ID_SZ];
  i64 iSeq = sqlite3_value_int64(ap[3]);
  if( sqlite3_value_type(ap[0])!=SQLITE_TEXT
   || sqlite3_value_type(ap[2])!=SQLITE_INTEGER
  ){
    return;
  }
  session = claimqValueText(p, ap[0]);
  key = claimqTextOrNull(p, ap[1]);
  if( p->rc || !claimqUtf8Valid(session.z, session.n)
   || (key.z && !claimqUtf8Valid(key.z, key.n))
  ){
    return;
  }
  claimqBatchId(session, key, sqlite3_value_int64(ap[2]), &iSeq, zId);
  sqlite3_result_text(pCall->pCtx, zId, -1, SQLITE_TRANSIENT);
}
