/*
** restore.c: claimq_restored(), to be called once after the database file was
** restored from a backup.
**
**     SELECT claimq_restored();      -- 1
**
** What was done between the backup and the restore is gone from the database,
** but not from the world: workers, logs and protected resources remember job
** ids, message numbers and fencing tokens that the restored database would give
** out a second time.  So every counter jumps, by more than can have been used
** up since the backup: keys, fencing tokens, and the numbers of messages, which
** have no other gaps.  Claims that were held when the backup was made are still
** held after the restore, under the ids and tokens that they have.
*/
#include "claimq_int.h"

#define CQ_RESTORE_JUMP ((i64)1<<32)

/*
** Let every counter jump.  All of them, or none: the task needs many writes.
*/
static void cqRestoreApply(CqOp *p, CqTask *pTask){
  static const int aStmt[] = {
    CQ_SQL_RESTORE_KEYS, CQ_SQL_RESTORE_NEW_KEYS, CQ_SQL_RESTORE_FENCE,
    CQ_SQL_RESTORE_SEQUENCES, CQ_SQL_RESTORE_JOBS, CQ_SQL_RESTORE_LETTERS
  };
  CqStmt batch;
  int i;
  assert( pTask->eNeed==CQ_NEED_MANY );
  (void)pTask;
  for(i=0; i<CQ_ARRAYSIZE(aStmt); i++){
    CqStmt s = claimqStmt(p, aStmt[i]);
    claimqBindInt(p, &s, CQ_RESTORE_KEYS_jump, CQ_RESTORE_JUMP);
    claimqExec(p, &s);
  }
  batch = claimqStmt(p, CQ_SQL_RESTORE_BATCHES);
  claimqBindInt(p, &batch, CQ_RESTORE_BATCHES_jump, CQ_RESTORE_JUMP);
  claimqBindCommonInt(p, &batch, CQ_P_now, claimqNow(p));
  claimqExec(p, &batch);
}

static void cqRestoreLoad(CqOp *p, CqTask *pTask){
  (void)p;
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
      .zDoc = "to be called once after a restore from a backup" },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
