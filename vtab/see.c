/*
** see.c: what is stored, why it is not claimed, and what is wrong with it.
**
**     SELECT scope, partition, ready, held FROM claimq_stats
**      WHERE discipline='lane';
**     -- mail|0|120|4
**
** Tables that only look: claimq_stats, claimq_leases, claimq_why and
** claimq_check.  They know no discipline: each discipline gives statements of
** one shape, or a function, in its descriptor.
*/
#include "claimq_int.h"

/**************************************************************************
** claimq_stats
*/
#define CQ_STATS_COLS \
  "discipline:t scope:t partition:i ready:i delayed:i held:i expired:i " \
  "blocked:i limited:i dead:i oldest_ready_at_ms:i next_at_ms:i"

#define CQ_ST_DISCIPLINE 0        /* Arguments */
#define CQ_ST_SCOPE      1
static const CqArgDef cqStatsArg[] = {
  { CQ_ARG(ANY, "discipline"), 
    .zDoc = "only session, lane, outbox, contest or dead_letter" },
  { CQ_ARG(ANY, "scope"), 
    .zDoc = "only this session, lane, queue, KIND/LABEL or scope of letters" },
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

/*
** The rows of claimq_stats: one statement for each discipline, or for one
** scope of it, unless it adds up its rows itself.
*/
static void cqStatsNext(CqOp *p, CqClaim *pC){
  CqText name = cqStatsText(p, &pC->aArg[CQ_ST_DISCIPLINE]);
  CqText scope = cqStatsText(p, &pC->aArg[CQ_ST_SCOPE]);
  const CqDiscipline *pD;
  int i;
  assert( pC->pRows->nCol==CQ_STATS_NCOL );
  for(i=0; (pD = claimqDiscipline(i))!=0 && p->rc==SQLITE_OK; i++){
    CqStmt s;
    if( name.z && !claimqTextEq(name, claimqStr(pD->zName)) ) continue;
    if( pD->xStats ) pD->xStats(p, scope, pC->pRows);
    if( pD->aStats==0 ) continue;
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

/**************************************************************************
** claimq_leases
*/
#define CQ_LEASES_COLS \
  "discipline:t scope:t key:b claim_id:t owner:t incarnation:t " \
  "claimed_at_ms:i expires_at_ms:i"
#define CQ_LEASES_NCOL 8

/*
** The rows of claimq_leases: one statement for each discipline.
*/
static void cqLeasesNext(CqOp *p, CqClaim *pC){
  const CqDiscipline *pD;
  int i;
  assert( pC->pRows->nCol==CQ_LEASES_NCOL );
  for(i=0; (pD = claimqDiscipline(i))!=0 && p->rc==SQLITE_OK; i++){
    CqText all = {0, 0};
    CqStmt s;
    if( !CQ_HOOK(pD->pLeases) ) continue;
    s = claimqStmt(p, *pD->pLeases);
    claimqBindCommonText(p, &s, CQ_P_owner, all);
    while( claimqStep(p, &s) ){
      CqCell *a = claimqRowsAdd(p, pC->pRows);
      claimqCellColumns(p, pC->pRows, a, &s, CQ_LEASES_NCOL);
    }
    claimqStmtDone(p, &s);
  }
}

/**************************************************************************
** claimq_why
*/
#define CQ_WY_DISCIPLINE 0        /* Arguments */
#define CQ_WY_SCOPE      1
#define CQ_WY_OPTIONS    2        /* From here on, but for now_ms */
static const CqArgDef cqWhyArg[] = {
  { CQ_ARG(TEXT, "discipline"), .mFlag = CQ_A_REQUIRED,
    .zDoc = "session, lane, outbox, contest or dead_letter" },
  { CQ_ARG(ANY, "scope"), 
    .zDoc = "the first argument of the claim table" },
  { CQ_ARG(ANY, "boundary"), .zDoc = "the boundary of a session's claim" },
  { CQ_ARG(ANY, "take"), .zDoc = "what a session's claim takes" },
  { CQ_ARG(ANY, "serial"), .zDoc = "whether a session's claim is serial" },
  { CQ_ARG(ANY, "capabilities"),
    .zDoc = "the capabilities of the worker, of a lane's claim" },
  { CQ_ARG(ANY, "partition"),
    .zDoc = "the partition of a lane's or an outbox's claim" },
  { CQ_ARG(ANY, "kind"), .zDoc = "the kind of a contest's subject" },
  { CQ_ARG(ANY, "source"), .zDoc = "the source of dead letters" },
  CQ_ARG_NOW,
};

/*
** The rows of claimq_why: the claim is made as claimq_wait() makes it, and asks
** its own discipline.
*/
static void cqWhyNext(CqOp *p, CqClaim *pC){
  CqLook look;
  assert( cqWhyArg[CQ_ARRAYSIZE(cqWhyArg)-1].eRole==CQ_ROLE_NOW );
  claimqLookBegin(p, &look, pC->aArg[CQ_WY_DISCIPLINE].t, "");
  claimqLookNamed(p, &look, &cqWhyArg[CQ_WY_OPTIONS], &pC->aArg[CQ_WY_OPTIONS],
      CQ_ARRAYSIZE(cqWhyArg)-1-CQ_WY_OPTIONS, pC->aArg[CQ_WY_SCOPE].pVal);
  claimqLookWhy(p, &look, pC->pRows);
}

/**************************************************************************
** claimq_check
*/
#define CQ_CHECK_NCOL 3

/*
** claimq__sound(value, ...): 1 if each is NULL or a text in valid UTF-8.
*/
static void cqSoundFunc(CqOp *p, CqCall *pCall){
  int i, bSound = 1;
  for(i=0; i<pCall->nVal && bSound && p->rc==SQLITE_OK; i++){
    int eType = sqlite3_value_type(pCall->apVal[i]);
    if( eType==SQLITE_TEXT ){
      CqText t = claimqValueText(p, pCall->apVal[i]);
      bSound = claimqUtf8Valid(t.z, t.n);
    }else{
      bSound = eType==SQLITE_NULL;
    }
  }
  if( p->rc==SQLITE_OK ) sqlite3_result_int(pCall->pCtx, bSound);
}

/*
** claimq__headers_sound(value): 1 if it is NULL or a text that is a JSON
** object.
*/
static void cqHeadersSoundFunc(CqOp *p, CqCall *pCall){
  CqText t = claimqTextOrNull(p, pCall->apVal[0]);
  if( p->rc ) return;
  sqlite3_result_int(pCall->pCtx, t.z ? claimqUtf8Valid(t.z, t.n)
      && claimqJsonObject(t)
      : sqlite3_value_type(pCall->apVal[0])==SQLITE_NULL);
}

/*
** The functions that the statements of claimq_check use.
*/
CQ_PRIV const CqFuncDef *claimqSeeFuncs(int *pnFunc){
  static const CqArgDef any = { CQ_ARG(ANY, "headers") };
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq__sound", .eKind = CQ_F_PURE, .bRest = 1,
      .xFunc = cqSoundFunc },
    { .zName = "claimq__headers_sound", .eKind = CQ_F_PURE, .nMin = 1,
      .aArg = &any, .nArg = 1, .xFunc = cqHeadersSoundFunc },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}

/*
** Report the objects of the schema that are not as claimq_init() makes them.  1
** if there are tables among them, or indexes: then nothing else can be looked
** at.
*/
static int cqCheckSchema(CqOp *p, CqRows *pRows){
  CqSchemaSeen seen;
  int i, bTable = 0;
  claimqSettings(p);              /* Raises not_initialised */
  claimqSchemaLook(p, &seen);
  for(i=0; i<CQ_NSCHEMA && p->rc==SQLITE_OK; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    const char *zProblem = claimqSchemaProblem(p, &seen, i);
    CqCell *a = zProblem ? claimqRowsAdd(p, pRows) : 0;
    if( a==0 ) continue;
    claimqCellText(p, pRows, &a[0], claimqStr("sqlite_schema"));
    claimqCellText(p, pRows, &a[1], claimqStr(pObj->zName));
    claimqCellText(p, pRows, &a[2], claimqStr(zProblem));
    bTable |= strcmp(pObj->zType, "table")==0
           || strcmp(pObj->zType, "index")==0;
  }
  return bTable;
}

/*
** Add the bad rows that a statement finds.
*/
static void cqCheckRun(CqOp *p, CqRows *pRows, int eStmt){
  CqStmt s = claimqStmt(p, eStmt);
  assert( pRows->nCol==CQ_CHECK_NCOL );
  while( claimqStep(p, &s) ){
    CqCell *a = claimqRowsAdd(p, pRows);
    claimqCellColumns(p, pRows, a, &s, CQ_CHECK_NCOL);
  }
  claimqStmtDone(p, &s);
}

/*
** The rows of claimq_check.  If tables are missing or of another shape, that
** is all it says.
*/
static void cqCheckNext(CqOp *p, CqClaim *pC){
  const CqDiscipline *pD;
  int i, j;
  if( cqCheckSchema(p, pC->pRows) ) return;
  cqCheckRun(p, pC->pRows, CQ_SQL_META_CHECK);
  cqCheckRun(p, pC->pRows, CQ_SQL_SEQUENCE_CHECK);
  cqCheckRun(p, pC->pRows, CQ_SQL_REQUEST_CHECK);
  for(i=0; (pD = claimqDiscipline(i))!=0; i++){
    int n = pD->nCheck;
    if( pD->mLastCheck && (claimqSettings(p) & pD->mLastCheck)==0 ) n--;
    for(j=0; j<n && p->rc==SQLITE_OK; j++){
      cqCheckRun(p, pC->pRows, pD->aCheck[j]);
    }
  }
}

/*
** The tables themselves.
*/
CQ_PRIV const CqTableDef *claimqSeeTables(int *pnTable){
  static const CqTableDef aTable[] = {
    { .zName = "claimq_stats", .zCols = CQ_STATS_COLS, .zOrder = "",
      .zDoc = "how many rows each scope and partition has, by state",
      .aArg = cqStatsArg, .nArg = CQ_ARRAYSIZE(cqStatsArg),
      .xNext = cqStatsNext },
    { .zName = "claimq_leases", .zCols = CQ_LEASES_COLS, .zOrder = "",
      .zDoc = "every row that is held, live or expired",
      .xNext = cqLeasesNext },
    { .zName = "claimq_why",
      .zCols = "reason:t n:i example:b until_at_ms:i detail:t", .zOrder = "",
      .zDoc = "what a claim would take, and why not the rest",
      .aArg = cqWhyArg, .nArg = CQ_ARRAYSIZE(cqWhyArg), .xNext = cqWhyNext },
    { .zName = "claimq_check",
      .zCols = "table_name:t row_key:b problem:t", .zOrder = "",
      .zDoc = "what is wrong with the stored state", .xNext = cqCheckNext },
  };
  *pnTable = CQ_ARRAYSIZE(aTable);
  return aTable;
}
