/*
** restore.c: claimq_restored(), which is called once after the database file
** was restored from a backup.
**
**     SELECT claimq_restored();      -- 1
**
** The restored database knows nothing of what was done between the backup and
** the restore, but the rest of the world does: workers, logs and protected
** resources remember job ids, message numbers and fencing tokens that the
** restored database would give out a second time.  So every counter jumps, by
** more than can have been used up since the backup: keys, fencing tokens, and
** the numbers of messages, which have no other gaps.  Claims that were held
** when the backup was made are still held after the restore, under the ids and
** tokens that they have.
**
** One backup may have to be restored twice, and then what was given out after
** the first restore was given out after the backup, too.  So the jump grows
** with the time: a later restore of the same file goes further than the one
** before and all that was used up in between.
*/
#include "claimq_int.h"

#define CQ_RESTORE_JUMP  ((i64)1<<32)     /* More than since any backup */
#define CQ_RESTORE_LATE  ((i64)1<<42)     /* In the year 2109, in ms */

/*
** How far counters jump at a time: 256 further for each millisecond, in which
** no database writes that many rows.  A program whose numbers are doubles can
** count to 2^53: a jump takes a twentieth of that in 2028, an eighth in 2109.
*/
static i64 cqRestoreJump(i64 iNow){
  assert( iNow>=0 );
  return CQ_RESTORE_JUMP + 256*(iNow<CQ_RESTORE_LATE ? iNow : CQ_RESTORE_LATE);
}

/*
** Let every counter jump.  All of them, or none: the task needs many writes.
*/
static void cqRestoreApply(CqOp *p, CqTask *pTask){
  static const int aStmt[] = {
    CQ_SQL_RESTORE_KEYS, CQ_SQL_RESTORE_NEW_KEYS, CQ_SQL_RESTORE_FENCE,
    CQ_SQL_RESTORE_SEQUENCES, CQ_SQL_RESTORE_JOBS, CQ_SQL_RESTORE_LETTERS
  };
  i64 iJump = cqRestoreJump(claimqNow(p));
  static const int aAt[] = { CQ_SQL_RESTORE_EVENT, CQ_SQL_RESTORE_BATCHES };
  int i;
  assert( pTask->eNeed==CQ_NEED_MANY );
  (void)pTask;
  for(i=0; i<CQ_ARRAYSIZE(aStmt); i++){
    CqStmt s = claimqStmt(p, aStmt[i]);
    claimqBindInt(p, &s, CQ_RESTORE_KEYS_jump, iJump);
    claimqExec(p, &s);
  }
  for(i=0; i<CQ_ARRAYSIZE(aAt); i++){
    CqStmt s = claimqStmt(p, aAt[i]);
    claimqBindInt(p, &s, CQ_RESTORE_BATCHES_jump, iJump);
    claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
    claimqExec(p, &s);
  }
  if( claimqSettings(p) & (CQ_SET_ANY_SESSION|CQ_SET_SERIAL) ){
    CqStmt s = claimqStmt(p, CQ_SQL_RESTORE_SESSIONS);
    claimqExec(p, &s);
  }
}

/*
** There is nothing to read but the format, and the clock after that.
*/
static void cqRestoreLoad(CqOp *p, CqTask *pTask){
  claimqConnDoubt(p->pConn);
  claimqNow(p);
  pTask->eNeed = CQ_NEED_MANY;
}

/*
** claimq_restored([option, value]...) -> 1
*/
static void cqRestoredFunc(CqOp *p, CqCall *pCall){
  CqTask task;
  memset(&task, 0, sizeof(task));
  task.xLoad = cqRestoreLoad;
  task.xApply = cqRestoreApply;
  task.iAnswer = 1;
  task.zWhat = "claimq_restored()";
  claimqRun(p, &task);
  claimqTaskResult(p, &task, pCall->pCtx);
}

/*
** The definition of claimq_restored().
*/
CQ_PRIV const CqFuncDef *claimqRestoreFuncs(int *pnFunc){
  static const CqArgDef aOpt[] = { CQ_ARG_NOW, CQ_ARG_REQUEST };
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_restored", .eKind = CQ_F_WRITE, .aOpt = aOpt,
      .nOpt = CQ_ARRAYSIZE(aOpt), .xFunc = cqRestoredFunc,
      .zDoc = "call it once after a restore from a backup" },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
