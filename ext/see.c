/*
** see.c: what there is, why it is not claimed, and what is wrong with it.
**
**     SELECT scope, ready, held, oldest_ready_at_ms FROM claimq_stats
**      WHERE discipline='lane';
**     -- mail|120|4|1700000000000
**
** Three tables that only look.  They know no discipline: each gives statements
** of one shape, or a function, in its descriptor.
*/
#include "claimq_int.h"

/**************************************************************************
** claimq_stats
*/
#define CQ_STATS_COLS \
  "discipline:t scope:t ready:i delayed:i held:i expired:i blocked:i " \
  "limited:i dead:i oldest_ready_at_ms:i next_at_ms:i"
#define CQ_STATS_NCOL 11

#define CQ_ST_DISCIPLINE 0        /* Arguments */
#define CQ_ST_SCOPE      1
static const CqArgDef cqStatsArg[] = {
  { CQ_ARG(ANY, "discipline"), .zDoc = "only this discipline" },
  { CQ_ARG(ANY, "scope"), .zDoc = "only this scope" },
  CQ_ARG_NOW,
};

/*
** The text of an argument; z==0: it was not given.  A number is compared as
** SQL compares it with a column of texts.
*/
static CqText cqStatsText(CqOp *p, const CqVal *pVal){
  CqText none = {0, 0};
  return pVal->bGiven ? claimqValueText(p, pVal->pVal) : none;
}

static void cqStatsNext(CqOp *p, CqClaim *pC){
  CqText name = cqStatsText(p, &pC->aArg[CQ_ST_DISCIPLINE]);
  CqText scope = cqStatsText(p, &pC->aArg[CQ_ST_SCOPE]);
  const CqDiscipline *pD;
  int i;
  for(i=0; (pD = claimqDiscipline(i))!=0 && p->rc==SQLITE_OK; i++){
    CqStmt s;
    if( name.z && !claimqTextEq(name, claimqStr(pD->zName)) ) continue;
    s = claimqStmt(p, pD->aStats[scope.z!=0]);
    if( scope.z ) claimqBindText(p, &s, CQ_STATS_scope, scope);
    claimqBindCommonInt(p, &s, CQ_P_now, claimqNow(p));
    while( claimqStep(p, &s) ){
      CqCell *a = claimqRowsAdd(p, pC->pRows);
      claimqCellColumns(p, pC->pRows, a, &s, CQ_STATS_NCOL);
    }
    claimqStmtDone(p, &s);
  }
}

/*
** The tables themselves.
*/
CQ_PRIV const CqTableDef *claimqSeeTables(int *pnTable){
  static const CqTableDef aTable[] = {
    { .zName = "claimq_stats", .zCols = CQ_STATS_COLS, .zOrder = "",
      .zDoc = "how much there is, of which kind",
      .aArg = cqStatsArg, .nArg = CQ_ARRAYSIZE(cqStatsArg),
      .xNext = cqStatsNext },
  };
  *pnTable = CQ_ARRAYSIZE(aTable);
  return aTable;
}
