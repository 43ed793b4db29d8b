/*
** help.c: claimq_help, the table of everything that can be called.
**
**     SELECT argument, type, default_value FROM claimq_help
**      WHERE name='claimq_lane' AND kind='argument';
**     -- lane|text|
**     -- owner|text|
**     -- lease_ms|integer|30000  ...
**
** It is filled from the same definitions that arguments are read by, so it
** cannot be wrong about them.  A row is a function or a table (position 0), one
** of its arguments (position 1, 2, ...) or one of its options, which have no
** position.  What only claimq's own statements call, by names that begin with
** claimq__, is not in it.
*/
#include "claimq_int.h"

#define CQ_HELP_COLS \
  "name:t kind:t position:i argument:t type:t default_value:b " \
  "minimum:i maximum:i words:t doc:t"
#define CQ_HELP_NAME     0
#define CQ_HELP_KIND     1
#define CQ_HELP_POSITION 2
#define CQ_HELP_ARGUMENT 3
#define CQ_HELP_TYPE     4
#define CQ_HELP_DEFAULT  5
#define CQ_HELP_MINIMUM  6
#define CQ_HELP_MAXIMUM  7
#define CQ_HELP_WORDS    8
#define CQ_HELP_DOC      9

/*
** Begin a row.  Returns its cells, 0 on error.
*/
static CqCell *cqHelpRow(
  CqOp *p, CqRows *pRows, const char *zName, const char *zKind, const char *zDoc
){
  CqCell *a = claimqRowsAdd(p, pRows);
  assert( pRows->nCol==CQ_HELP_DOC+1 );
  if( a==0 ) return 0;
  claimqCellText(p, pRows, &a[CQ_HELP_NAME], claimqStr(zName));
  claimqCellText(p, pRows, &a[CQ_HELP_KIND], claimqStr(zKind));
  claimqCellText(p, pRows, &a[CQ_HELP_DOC], claimqStr(zDoc));
  return p->rc ? 0 : a;
}

/*
** The words of a list, with commas between them, into a cell.
*/
static void cqHelpWords(
  CqOp *p, CqRows *pRows, CqCell *pCell, const char *const *azWord
){
  char *z = sqlite3_mprintf("%s", azWord[0]);
  int i;
  for(i=1; z && azWord[i]; i++) z = sqlite3_mprintf("%z,%s", z, azWord[i]);
  if( z==0 ) p->rc = SQLITE_NOMEM;
  else claimqCellText(p, pRows, pCell, claimqStr(z));
  sqlite3_free(z);
}

/* The words for CQ_T_*. */
static const char *const cqHelpType[] = {
  "any", "text", "integer", "word", "json"
};
CQ_CHECK(HelpType, CQ_ARRAYSIZE(cqHelpType)==CQ_T_JSON+1);

/*
** The row of an argument (iPosition>0) or of an option (0).
*/
static void cqHelpArg(
  CqOp *p, CqRows *pRows, const char *zName, const CqArgDef *pDef,
  int iPosition
){
  CqCell *a = cqHelpRow(p, pRows, zName, iPosition ? "argument" : "option",
                        pDef->zDoc);
  assert( (pDef->eType==CQ_T_WORD)==(pDef->xWords!=0) );
  assert( pDef->iMax==0 || pDef->iMin<=pDef->iMax );
  if( a==0 ) return;
  if( iPosition ) claimqCellInt(&a[CQ_HELP_POSITION], iPosition);
  claimqCellText(p, pRows, &a[CQ_HELP_ARGUMENT], claimqStr(pDef->zName));
  claimqCellText(p, pRows, &a[CQ_HELP_TYPE],
                 claimqStr(cqHelpType[pDef->eType]));
  if( pDef->eType==CQ_T_INT ){
    if( pDef->bDefault || pDef->iDefault ){
      claimqCellInt(&a[CQ_HELP_DEFAULT], pDef->iDefault);
    }
    claimqCellInt(&a[CQ_HELP_MINIMUM], pDef->iMin);
    claimqCellInt(&a[CQ_HELP_MAXIMUM], pDef->iMax ? pDef->iMax : CQ_I64_MAX);
  }else if( pDef->eType==CQ_T_WORD ){
    if( (pDef->mFlag & (CQ_A_REQUIRED|CQ_A_NULL))==0 && !pDef->bNoDefault ){
      claimqCellText(p, pRows, &a[CQ_HELP_DEFAULT],
                     claimqStr(pDef->xWords()[pDef->iDefault]));
    }
    cqHelpWords(p, pRows, &a[CQ_HELP_WORDS], pDef->xWords());
  }else{
    claimqCellText(p, pRows, &a[CQ_HELP_DEFAULT], claimqStr(pDef->zDefault));
    if( pDef->iMin ) claimqCellInt(&a[CQ_HELP_MINIMUM], pDef->iMin);
    if( pDef->iMax ) claimqCellInt(&a[CQ_HELP_MAXIMUM], pDef->iMax);
  }
}

/*
** The options that a verb has in the disciplines, of which no two have the
** same.
*/
static void cqHelpVerb(CqOp *p, CqRows *pRows, const CqFuncDef *pDef){
  const CqArgDef *aOpt;
  int i, j, n;
  for(i=-1; (aOpt = claimqVerbOptions(i, &n))!=0; i++){
    for(j=0; j<n; j++){
      if( aOpt[j].mVerb>>pDef->iData & 1 ){
        cqHelpArg(p, pRows, pDef->zName, &aOpt[j], 0);
      }
    }
  }
}

/*
** 1 if two options are the same to who gives them.
*/
static int cqHelpSame(const CqArgDef *pA, const CqArgDef *pB){
  return strcmp(pA->zName, pB->zName)==0 && pA->eType==pB->eType;
}

/*
** The options that decide what a claim would take: what claimq_wait() and
** claimq_next_at() take after the scope.  Those that disciplines have in common
** are listed once.
*/
static void cqHelpLook(CqOp *p, CqRows *pRows, const CqFuncDef *pDef){
  const CqDiscipline *pD, *pOther;
  int i, j, k, m, bSeen;
  for(i=0; (pD = claimqDiscipline(i))!=0; i++){
    const CqTableDef *pTab = &pD->aTable[0];
    for(j=0; CQ_HOOK(pTab->xNextAt) && j<pTab->nArg; j++){
      if( !claimqLookIsOption(pTab, j, pDef->eLook==2) ) continue;
      for(k=bSeen=0; k<i && !bSeen; k++){
        pOther = claimqDiscipline(k);
        for(m=0; m<pOther->aTable[0].nArg && !bSeen; m++){
          bSeen = claimqLookIsOption(&pOther->aTable[0], m, pDef->eLook==2)
               && cqHelpSame(&pOther->aTable[0].aArg[m], &pTab->aArg[j]);
        }
      }
      if( !bSeen ) cqHelpArg(p, pRows, pDef->zName, &pTab->aArg[j], 0);
    }
  }
}

/*
** The rows of a function: itself, its arguments, its options.
*/
static void cqHelpFunc(CqOp *p, CqRows *pRows, const CqFuncDef *pDef){
  CqCell *a;
  int i;
  if( strncmp(pDef->zName, CQ_INTERNAL, sizeof(CQ_INTERNAL)-1)==0
   || pDef->eKind==CQ_F_GUARD ) return;
  a = cqHelpRow(p, pRows, pDef->zName, "function", pDef->zDoc);
  if( a==0 ) return;
  claimqCellInt(&a[CQ_HELP_POSITION], 0);
  for(i=0; i<pDef->nArg; i++){
    cqHelpArg(p, pRows, pDef->zName, &pDef->aArg[i], i+1);
  }
  for(i=0; i<pDef->nOpt; i++){
    cqHelpArg(p, pRows, pDef->zName, &pDef->aOpt[i], 0);
  }
  if( claimqIsVerb(pDef) ) cqHelpVerb(p, pRows, pDef);
  if( pDef->pList ) cqHelpFunc(p, pRows, pDef->pList);
  if( pDef->eLook ) cqHelpLook(p, pRows, pDef);
}

/*
** The rows of a claim table: itself and its arguments.
*/
static void cqHelpTable(CqOp *p, CqRows *pRows, const CqTableDef *pDef){
  CqCell *a = cqHelpRow(p, pRows, pDef->zName, "table", pDef->zDoc);
  int i;
  if( a==0 ) return;
  claimqCellInt(&a[CQ_HELP_POSITION], 0);
  for(i=0; i<pDef->nArg; i++){
    cqHelpArg(p, pRows, pDef->zName, &pDef->aArg[i], i+1);
  }
}

/*
** All rows, from the tables that the code itself is driven by; and that of
** claimq_stmt, which is a table of its own kind.
*/
static void cqHelpNext(CqOp *p, CqClaim *pC){
  static const CqTableDef stmt = { .zName = "claimq_stmt",
    .zDoc = "the statements that claimq runs, and what they cost" };
  const CqFuncDef *aFunc;
  const CqTableDef *aTable;
  int i, j, n;
  for(i=0; (aTable = claimqTableList(i, &n))!=0; i++){
    for(j=0; j<n; j++) cqHelpTable(p, pC->pRows, &aTable[j]);
  }
  cqHelpTable(p, pC->pRows, &stmt);
  for(i=0; (aFunc = claimqFuncList(i, &n))!=0; i++){
    for(j=0; j<n; j++){
      cqHelpFunc(p, pC->pRows, &aFunc[j]);
    }
  }
}

/*
** The table itself.
*/
CQ_PRIV const CqTableDef *claimqHelpTable(int *pnTable){
  static const CqTableDef aTable[] = {
    { .zName = "claimq_help", .zCols = CQ_HELP_COLS, .zOrder = "",
      .zDoc = "everything that can be called", .xNext = cqHelpNext },
  };
  *pnTable = CQ_ARRAYSIZE(aTable);
  return aTable;
}
