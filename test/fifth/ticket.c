/*
** ticket.c: a further discipline, small, to prove that one is one .c file, one
** .sql file and one line in claimq_main.c.  test/fifth.test builds claimq with
** it and sells tickets.
**
**     SELECT claimq_print('north', NULL);                        -- 1
**     SELECT ticket_id, claim_id FROM claimq_ticket_claim(...);
**     -- 1|qtc:1:1
**     SELECT claimq_complete('qtc:1:1', :lease_token);           -- sold
*/
#include "claimq_int.h"

static const CqArgDef cqTicketArg[] = {
  { CQ_ARG(TEXT, "booth"), .mFlag = CQ_A_REQUIRED, .eRole = CQ_ROLE_SCOPE },
  CQ_ARG_OWNER,
  CQ_ARG_LEASE,
  CQ_ARG_INCARNATION,
  CQ_ARG_NOW,
};

/*
** Load what comes next, and decide: one ticket, if there is one.
*/
static void cqTicketNext(CqOp *p, CqClaim *pC){
  CqStmt s = claimqStmt(p, CQ_SQL_TICKET_NEXT);
  CqText none = {0, 0};
  claimqBindText(p, &s, CQ_TICKET_NEXT_booth, pC->aArg[0].t);
  claimqBindInt(p, &s, CQ_TICKET_NEXT_now, claimqNow(p));
  if( claimqStep(p, &s) ){
    CqCell *a = claimqRowsAdd(p, pC->pRows);
    claimqCellColumns(p, pC->pRows, a, &s, 2);
    claimqLeaseMake(p, &pC->lease, pC,
        claimqColInt(&s, CQ_COL_TICKET_NEXT_ticket_id),
        claimqColInt(&s, CQ_COL_TICKET_NEXT_fencing_token), pC->aArg[0].t);
    claimqLeaseCells(p, pC->pRows, a ? &a[2] : 0, &pC->lease, none, 0);
  }
  claimqStmtDone(p, &s);
  claimqClaimNeed(pC, 0);
}

static void cqTicketStamp(CqOp *p, CqClaim *pC){
  CqStmt s = claimqStmt(p, CQ_SQL_TICKET_STAMP);
  claimqLeaseBind(p, &s, &pC->lease);
  claimqClaimStamp(p, pC, &s, 1);
}

static void cqTicketCheck(CqOp *p, CqPut *pPut){
  (void)p; (void)pPut;
}

static void cqTicketWrite(CqOp *p, CqPut *pPut){
  CqStmt s = claimqStmt(p, CQ_SQL_TICKET_PRINT);
  claimqBindText(p, &s, CQ_TICKET_PRINT_booth, pPut->scope);
  claimqExec(p, &s);
  pPut->task.iAnswer = sqlite3_last_insert_rowid(p->db);
}

CQ_PRIV const CqDiscipline *claimqTicketDiscipline(void){
  static const CqArgDef putArg[] = {
    { CQ_ARG(TEXT, "booth"), .mFlag = CQ_A_REQUIRED },
    { CQ_ARG(ANY, "payload") },
  };
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_print", .eKind = CQ_F_INSERT, .nMin = 2, .aArg = putArg,
      .nArg = CQ_ARRAYSIZE(putArg), .xFunc = claimqPutRun },
  };
  static const CqTableDef aTable[] = {
    { .zName = "claimq_ticket_claim", .zCols = "ticket_id:i booth:t",
      .zOrder = "ticket_id", .aArg = cqTicketArg,
      .nArg = CQ_ARRAYSIZE(cqTicketArg), .bWrites = 1, .bClaimCols = 1,
      .zPrefix = "qtc", .xNext = cqTicketNext, .xStamp = cqTicketStamp },
  };
  static const CqDiscipline ticket = {
    .zName = "ticket", .zPrefix = "qtc",
    .aTable = aTable, .nTable = CQ_ARRAYSIZE(aTable),
    .aFunc = aFunc, .nFunc = CQ_ARRAYSIZE(aFunc), .pPut = &aFunc[0],
    .eHold = CQ_SQL_TICKET_HOLD,
    .aSettle = CQ_VERBS(CQ_SQL_TICKET_RENEW, CQ_SQL_TICKET_SELL,
        CQ_SQL_TICKET_BACK, CQ_SQL_TICKET_BACK, CQ_SQL_TICKET_SELL,
        CQ_SQL_TICKET_BACK),
    .aFast = CQ_VERBS(-1, -1, -1, -1, -1, -1),
    .xPutCheck = cqTicketCheck, .xPutWrite = cqTicketWrite,
  };
  return &ticket;
}
