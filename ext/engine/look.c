/*
** look.c: looking at a claim without making it: when could it succeed, and why
** would it take what it takes?
**
**     SELECT claimq_next_at('lane', 'mail', 'capabilities', '["gpu"]');
**     SELECT * FROM claimq_why('lane', 'mail') WHERE capabilities='["gpu"]';
**
** The caller of claimq_next_at(), claimq_wait() or claimq_why names a
** discipline, its scope, and those arguments of its claim table that decide
** what may be claimed.  From these a CqClaim is made as claim.c makes it, but
** without an owner; the table's xNextAt or xWhy then looks at it.  The table's
** definitions say which argument is the scope and which are options: CQ_A_NAME,
** CQ_A_LOOK.
*/
#include "claimq_int.h"

/*
** Raise bad_argument with the names of all disciplines that can be looked at.
*/
static void cqLookUnknown(CqOp *p, CqText name, const char *zMore){
  char *zList = sqlite3_mprintf("%s", zMore);
  const CqDiscipline *pD;
  int i;
  for(i=0; zList && (pD = claimqDiscipline(i))!=0; i++){
    if( CQ_HOOK(pD->aTable[0].xNextAt) ){
      zList = sqlite3_mprintf("%z%s'%s'", zList, zList[0] ? ", " : "",
                              pD->zName);
    }
  }
  if( zList==0 ) p->rc = SQLITE_NOMEM;
  claimqFail(p, CQ_BAD_ARGUMENT, "discipline must be one of %s, got '%.*s'",
             zList, claimqShown(name), name.z);
  sqlite3_free(zList);
}

/*
** Begin to look at a claim of the discipline with this name.  zMore: other
** words that would have been valid, for the message; if 'lanes' is one of them,
** it is a claim of any of several lanes.  The caller calls claimqLookDone() if
** it is.
*/
CQ_PRIV void claimqLookBegin(
  CqOp *p, CqLook *pLook, CqText name, const char *zMore
){
  const CqDiscipline *pD;
  int i;
  memset(pLook, 0, sizeof(*pLook));
  assert( p->rc==SQLITE_OK );
  if( claimqTextEq(name, claimqStr("lanes")) && strstr(zMore, "'lanes'") ){
    pLook->bMany = 1;
    name.n--;
  }
  for(i=0; (pD = claimqDiscipline(i))!=0; i++){
    if( CQ_HOOK(pD->aTable[0].xNextAt)
     && claimqTextEq(name, claimqStr(pD->zName))
    ){
      break;
    }
  }
  if( pD==0 ){
    cqLookUnknown(p, name, zMore);
    return;
  }
  assert( pD->aTable[0].nArg<=CQ_MAX_ARG && pD->aTable[0].xWhy );
  pLook->c.pDef = &pD->aTable[0];
  pLook->c.aArg = pLook->aArg;
}

/*
** Read argument i of the claim table; 0: not given.  What a claim requires has
** a default here, unless it is the scope.
*/
static void cqLookRead(CqOp *p, CqLook *pLook, int i, sqlite3_value *pVal){
  CqArgDef def = pLook->c.pDef->aArg[i];
  assert( i>=0 && i<pLook->c.pDef->nArg );
  if( (def.mFlag & CQ_A_NAME)==0 ) def.mFlag = 0;
  if( def.eRole==CQ_ROLE_REQUEST || def.eRole==CQ_ROLE_OWNER ){
    def.eRole = CQ_ROLE_NONE;
  }
  claimqRead(p, &def, pVal, &pLook->aArg[i]);
}

/*
** 1 if argument i of the table is an option here.
*/
CQ_PRIV int claimqLookIsOption(const CqTableDef *pDef, int i, int bNow){
  return (pDef->aArg[i].mFlag & CQ_A_LOOK)!=0
      || (bNow && pDef->aArg[i].eRole==CQ_ROLE_NOW);
}

/*
** Raise bad_argument with the list of valid options.  Frees zWhat, which is by
** sqlite3_mprintf().
*/
static void cqLookBad(CqOp *p, const CqTableDef *pDef, int bNow, char *zWhat){
  char *zList = sqlite3_mprintf("");
  int i;
  for(i=0; i<pDef->nArg && zList; i++){
    if( claimqLookIsOption(pDef, i, bNow) ){
      zList = sqlite3_mprintf("%z%s%s", zList, zList[0] ? ", " : "",
                              pDef->aArg[i].zName);
    }
  }
  if( zList==0 || zWhat==0 ) p->rc = SQLITE_NOMEM;
  claimqFail(p, CQ_BAD_ARGUMENT, "%s; valid options are: %s", zWhat, zList);
  sqlite3_free(zList);
  sqlite3_free(zWhat);
}

/*
** The argument that the option name means, -1 with an error if there is none.
*/
static int cqLookOption(
  CqOp *p, const CqTableDef *pDef, sqlite3_value *pName, int bNow
){
  CqText name = {0, 0};
  int i;
  if( sqlite3_value_type(pName)==SQLITE_TEXT ) name = claimqValueText(p, pName);
  for(i=0; i<pDef->nArg && name.z; i++){
    if( claimqLookIsOption(pDef, i, bNow)
     && claimqTextEq(name, claimqStr(pDef->aArg[i].zName))
    ){
      return i;
    }
  }
  cqLookBad(p, pDef, bNow, name.z
      ? sqlite3_mprintf("unknown option '%.*s'", claimqShown(name), name.z)
      : sqlite3_mprintf("an option's name must be text"));
  return -1;
}

/*
** Give the scope the value pScope (0: not given), and every other argument its
** default.
*/
static void cqLookScope(CqOp *p, CqLook *pLook, sqlite3_value *pScope){
  const CqTableDef *pDef = pLook->c.pDef;
  int i;
  for(i=0; i<pDef->nArg; i++){
    int bName = (pDef->aArg[i].mFlag & CQ_A_NAME)!=0;
    cqLookRead(p, pLook, i, bName ? pScope : 0);
  }
}

/*
** A JSON array of texts, taken apart: *paText, which the caller frees, is set,
** and the number of texts returned.  zName is the argument's name, zOf says
** what the list contains.  Raises bad_argument.
*/
CQ_PRIV int claimqLookList(
  CqOp *p, const char *zName, const char *zOf, sqlite3_value *pVal,
  CqText **paText
){
  CqArgDef def = { CQ_ARG(JSON, 0), .mFlag = CQ_A_REQUIRED };
  CqText *aText;
  CqVal v;
  CqJson j;
  char *z;
  int e = CQ_JSON_ERROR, n = 0;
  def.zName = zName;
  claimqRead(p, &def, pVal, &v);
  if( p->rc ) return 0;
  aText = claimqMalloc(p, CQ_LOOK_SCOPES*(i64)sizeof(CqText)+v.t.n+1);
  *paText = aText;
  if( aText==0 ) return 0;
  z = (char*)&aText[CQ_LOOK_SCOPES];
  claimqJsonInit(&j, v.t);
  if( claimqJsonNext(&j)==CQ_JSON_ARRAY ){
    while( (e = claimqJsonNext(&j))==CQ_JSON_STRING && n<CQ_LOOK_SCOPES ){
      aText[n].z = z;
      aText[n].n = claimqJsonText(j.tok, z);
      if( aText[n].n<0 ) break;
      z += aText[n++].n;
    }
  }
  if( n==0 || e!=CQ_JSON_CLOSE || claimqJsonNext(&j)!=CQ_JSON_END ){
    claimqFail(p, CQ_BAD_ARGUMENT, "%s must be a JSON array of 1 to %d %s",
               zName, CQ_LOOK_SCOPES, zOf);
  }
  return n;
}

/*
** The rest of a call: apVal[0] is the scope, name, value pairs follow.  bNow:
** now_ms is one of the options.  Raises bad_argument.
*/
CQ_PRIV void claimqLookArgs(
  CqOp *p, CqLook *pLook, int bNow, int nVal, sqlite3_value **apVal
){
  const CqTableDef *pDef = pLook->c.pDef;
  int i;
  if( p->rc ) return;
  if( pLook->bMany ){
    pLook->nScope = claimqLookList(p, "lanes", "names of lanes",
                                   nVal>0 ? apVal[0] : 0, &pLook->aScope);
  }
  cqLookScope(p, pLook, nVal>0 ? apVal[0] : 0);
  for(i=1; i<nVal && p->rc==SQLITE_OK; i+=2){
    int iArg = cqLookOption(p, pDef, apVal[i], bNow);
    if( iArg<0 ) return;
    if( i+1>=nVal ){
      cqLookBad(p, pDef, bNow,
                sqlite3_mprintf("the last option has no value"));
    }else if( pLook->aArg[iArg].pVal ){
      claimqFail(p, CQ_BAD_ARGUMENT, "option %s is given twice",
                 pDef->aArg[iArg].zName);
    }else{
      cqLookRead(p, pLook, iArg, apVal[i+1]);
    }
  }
}

/*
** The same from arguments that have been read already, by name: aVal[] are the
** values of the nDef definitions aDef[].  Definitions of other names are passed
** over, unless they were given: then they do not belong to this discipline.
*/
CQ_PRIV void claimqLookNamed(
  CqOp *p, CqLook *pLook, const CqArgDef *aDef, const CqVal *aVal, int nDef,
  sqlite3_value *pScope
){
  const CqTableDef *pDef = pLook->c.pDef;
  int i, j;
  if( p->rc ) return;
  cqLookScope(p, pLook, pScope);
  for(j=0; j<nDef && p->rc==SQLITE_OK; j++){
    if( !aVal[j].bGiven ) continue;
    for(i=0; i<pDef->nArg; i++){
      if( claimqLookIsOption(pDef, i, 1)
       && strcmp(pDef->aArg[i].zName, aDef[j].zName)==0
      ){
        break;
      }
    }
    if( i<pDef->nArg ){
      cqLookRead(p, pLook, i, aVal[j].pVal);
    }else{
      claimqFail(p, CQ_BAD_ARGUMENT, "%s has no %s", pDef->zName,
                 aDef[j].zName);
    }
  }
}

/*
** Get ready to look: 1, or 0 if op has an error or gets one here.  The caller
** calls cqLookForget() in either case.
*/
static int cqLookReady(CqOp *p, CqClaim *pC){
  pC->nMax = pC->nLimit = 1;
  claimqNow(p);
  if( pC->pDef->xArgs ) pC->pDef->xArgs(p, pC);
  return p->rc==SQLITE_OK;
}

/*
** Forget what was loaded for a look; the arguments stay.
*/
static void cqLookForget(CqClaim *pC){
  assert( pC->pRows==0 );
  if( pC->pDef->xDone ) pC->pDef->xDone(pC);
  memset(&pC->own, 0, sizeof(pC->own));
  claimqIdsClear(&pC->ids);
}

/*
** When one claim could succeed, or CQ_NO_TIME.
*/
static i64 cqLookOne(CqOp *p, CqLook *pLook){
  CqClaim *pC = &pLook->c;
  i64 iAt = CQ_NO_TIME;
  if( p->rc ) return iAt;
  if( cqLookReady(p, pC) ) iAt = pC->pDef->xNextAt(p, pC);
  assert( p->rc || iAt==CQ_NO_TIME || iAt>=p->iNow );
  cqLookForget(pC);
  return iAt;
}

/*
** The earliest time at which the claim could succeed, or CQ_NO_TIME.  It may be
** called again and again.
*/
CQ_PRIV i64 claimqLookNextAt(CqOp *p, CqLook *pLook){
  i64 iAt = CQ_NO_TIME;
  int i;
  if( !pLook->bMany ) return cqLookOne(p, pLook);
  if( p->rc ) return iAt;
  assert( pLook->c.pDef->aArg[0].mFlag & CQ_A_NAME );
  for(i=0; i<pLook->nScope && p->rc==SQLITE_OK; i++){
    pLook->aArg[0].t = pLook->aScope[i];
    iAt = claimqSooner(iAt, cqLookOne(p, pLook));
    if( iAt!=CQ_NO_TIME && iAt<=p->iNow ) break;
  }
  return iAt;
}

/*
** Free the memory of the arguments.
*/
CQ_PRIV void claimqLookDone(CqLook *pLook){
  sqlite3_free(pLook->aScope);
  pLook->aScope = 0;
}

/*
** For xNextAt: 1 if the claim would take something now.  The table's own xNext
** says so, so that looking and claiming cannot differ; nobody reads the row.
*/
CQ_PRIV int claimqLookTakes(CqOp *p, CqClaim *pC){
  CqRows rows;
  int bTakes;
  assert( pC->pRows==0 && pC->nMax==1 );
  claimqRowsInit(&rows, CQ_LOOK_COLS);
  rows.mSkip = 0xffffffff;
  pC->pRows = &rows;
  if( p->rc==SQLITE_OK ) pC->pDef->xNext(p, pC);
  bTakes = p->rc==SQLITE_OK && rows.nRow>0;
  claimqRowsClear(&rows);
  pC->pRows = 0;
  return bTakes;
}

/*
** For xNextAt: the time in a column; CQ_NO_TIME if that is NULL.
*/
CQ_PRIV i64 claimqColTime(const CqStmt *pS, int iCol){
  i64 iAt = claimqColInt(pS, iCol);
  if( claimqColType(pS, iCol)==SQLITE_NULL ) return CQ_NO_TIME;
  return iAt<0 ? 0 : iAt;
}

/*
** For xNextAt: read all rows of a statement *_LATER.  at_ms and due are times
** at which a row can be taken; of the ready rows only n were read, at most
** CQ_LOOK_ROWS: if these were not all of them, the answer is "soon", which is
** never too late.  Gives the statement back.
*/
CQ_PRIV i64 claimqLookLater(CqOp *p, CqStmt *pS){
  i64 iAt = CQ_NO_TIME;
  while( claimqStep(p, pS) ){
    iAt = claimqSooner(iAt, claimqColTime(pS, CQ_COL_LATER_at_ms));
    iAt = claimqSooner(iAt, claimqColTime(pS, CQ_COL_LATER_due));
    if( claimqColInt(pS, CQ_COL_LATER_n)>=CQ_LOOK_ROWS ){
      iAt = claimqSooner(iAt, claimqAddSat(claimqNow(p), 1));
    }
  }
  claimqStmtDone(p, pS);
  return iAt;
}

/**************************************************************************
** claimq_why
*/

/*
** The rows of claimq_why for the claim into pRows, one for each reason.
*/
CQ_PRIV void claimqLookWhy(CqOp *p, CqLook *pLook, CqRows *pRows){
  CqClaim *pC = &pLook->c;
  CqWhy why;
  if( p->rc ) return;
  memset(&why, 0, sizeof(why));
  why.pRows = pRows;
  if( cqLookReady(p, pC) ) pC->pDef->xWhy(p, pC, &why);
  cqLookForget(pC);
}

#define CQ_WHY_REASON  0          /* Columns of claimq_why */
#define CQ_WHY_N       1
#define CQ_WHY_EXAMPLE 2
#define CQ_WHY_UNTIL   3
#define CQ_WHY_DETAIL  4

/*
** Count one more row of the queue under its reason.  The first one begins the
** row of the reason and is its example: pExample, or iKey if that is 0.  The
** earliest iUntil counts.  Returns the cell for the detail if it was the first
** one, else 0; also 0 if op has an error or gets one here.
*/
CQ_PRIV CqCell *claimqWhyAdd(
  CqOp *p, CqWhy *pWhy, int eWhy, sqlite3_value *pExample, i64 iKey, i64 iUntil
){
  CqRows *pRows = pWhy->pRows;
  int bNew = pWhy->aiRow[eWhy]==0;
  CqCell *a;
  assert( eWhy>=0 && eWhy<=CQ_WHY_UNKNOWN );
  assert( pRows->nCol==CQ_WHY_DETAIL+1 );
  if( p->rc ) return 0;
  a = bNew ? claimqRowsAdd(p, pRows) : claimqRow(pRows, pWhy->aiRow[eWhy]-1);
  if( a==0 ) return 0;
  if( bNew ){
    pWhy->aiRow[eWhy] = pRows->nRow;
    claimqCellText(p, pRows, &a[CQ_WHY_REASON],
                   claimqStr(claimqWhyWords()[eWhy]));
    claimqCellInt(&a[CQ_WHY_N], 0);
    if( pExample ) claimqCellValue(p, pRows, &a[CQ_WHY_EXAMPLE], pExample);
    else claimqCellInt(&a[CQ_WHY_EXAMPLE], iKey);
  }
  assert( p->rc || a[CQ_WHY_N].eType==SQLITE_INTEGER );
  a[CQ_WHY_N].u.i++;
  if( iUntil!=CQ_NO_TIME && (a[CQ_WHY_UNTIL].eType==SQLITE_NULL
       || iUntil<a[CQ_WHY_UNTIL].u.i) ){
    claimqCellInt(&a[CQ_WHY_UNTIL], iUntil);
  }
  return bNew && p->rc==SQLITE_OK ? &a[CQ_WHY_DETAIL] : 0;
}

/*
** When a reason of claimqRowWhy() ends; CQ_NO_TIME if time does not end it.
*/
CQ_PRIV i64 claimqWhyUntil(int eWhy, i64 iAvailable, i64 iExpires){
  if( eWhy==CQ_WHY_HELD ) return iExpires>iAvailable ? iExpires : iAvailable;
  return eWhy==CQ_WHY_DELAYED ? iAvailable : CQ_NO_TIME;
}
