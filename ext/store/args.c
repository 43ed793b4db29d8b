/*
** args.c: arguments of claim tables and functions, and options.
**
** All of them are described by the same struct, CqArgDef, and read by the same
** function, claimqRead(), so that a wrong type is reported in the same words
** everywhere:
**
**     claimq: bad_argument: lease_ms must be an integer >= 0, got TEXT 'x'
**
** Some bindings bind every number as REAL, others everything as TEXT.  So where
** an integer is wanted, a REAL with an integral value will do, and so will a
** TEXT that is a decimal integer and nothing else.  Where text is wanted, only
** TEXT will do.
*/
#include "claimq_int.h"

/*
** Describe a value that is not NULL for an error message: "TEXT 'abc'", "5".
** The caller frees; 0 on OOM.
*/
static char *cqDescribe(sqlite3_value *pVal){
  switch( sqlite3_value_type(pVal) ){
    case SQLITE_BLOB:    return sqlite3_mprintf("a BLOB");
    case SQLITE_INTEGER: return sqlite3_mprintf("%lld",
                                  sqlite3_value_int64(pVal));
    case SQLITE_FLOAT:   return sqlite3_mprintf("%!.15g",
                                  sqlite3_value_double(pVal));
  }
  return sqlite3_mprintf("TEXT '%.40s'", sqlite3_value_text(pVal));
}

/*
** Raise bad_argument: "NAME must be WHAT, got VALUE".
*/
static void cqWrong(
  CqOp *p, const CqArgDef *pDef, const char *zWhat, sqlite3_value *pVal
){
  char *zGot = cqDescribe(pVal);
  assert( sqlite3_value_type(pVal)!=SQLITE_NULL );
  if( zGot==0 ) p->rc = SQLITE_NOMEM;
  claimqFail(p, CQ_BAD_ARGUMENT, "%s must be %s, got %s",
             pDef->zName, zWhat, zGot);
  sqlite3_free(zGot);
}

/*
** The words of a list as "a, b or c".  The caller frees; 0 on OOM.
*/
static char *cqWordList(const char *const *azWord){
  char *z = 0;
  int i;
  for(i=0; azWord[i]; i++){
    const char *zSep = i==0 ? "" : azWord[i+1] ? ", " : " or ";
    z = sqlite3_mprintf("%z%s'%s'", z, zSep, azWord[i]);
    if( z==0 ) break;
  }
  return z;
}

/*
** TEXT, JSON and WORD: the bytes.
*/
static void cqReadText(
  CqOp *p, const CqArgDef *pDef, sqlite3_value *pVal, CqVal *pOut
){
  if( sqlite3_value_type(pVal)!=SQLITE_TEXT ){
    cqWrong(p, pDef, pDef->eType==CQ_T_JSON ? "JSON text" : "text", pVal);
    return;
  }
  pOut->t = claimqValueText(p, pVal);
  if( p->rc ) return;
  if( !claimqUtf8Valid(pOut->t.z, pOut->t.n) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "%s is not valid UTF-8", pDef->zName);
  }else if( pDef->eType==CQ_T_TEXT && pDef->iMax && pOut->t.n>pDef->iMax ){
    claimqFail(p, CQ_TOO_LARGE, "%s has %d bytes, the limit is %lld",
               pDef->zName, pOut->t.n, pDef->iMax);
  }
}

/*
** Headers: a JSON object, without the white space around it.
*/
static void cqReadHeaders(CqOp *p, sqlite3_value *pVal, CqVal *pOut){
  static const char zSpace[] = " \t\n\r";
  static const CqArgDef def = { CQ_ARG(JSON, "headers") };
  CqText *pT = &pOut->t;
  if( !claimqJsonObject(*pT) ){
    cqWrong(p, &def, "a JSON object", pVal);
    return;
  }
  while( strchr(zSpace, pT->z[0]) ){ pT->z++; pT->n--; }
  while( strchr(zSpace, pT->z[pT->n-1]) ) pT->n--;
}

/*
** WORD: its number among the words.
*/
static void cqReadWord(
  CqOp *p, const CqArgDef *pDef, sqlite3_value *pVal, CqVal *pOut
){
  assert( pDef->eType==CQ_T_WORD && pDef->xWords );
  cqReadText(p, pDef, pVal, pOut);
  if( p->rc ) return;
  pOut->i = claimqWord(pDef->xWords(), pOut->t);
  if( pOut->i<0 ){
    char *zList = cqWordList(pDef->xWords());
    if( zList==0 ) p->rc = SQLITE_NOMEM;
    else cqWrong(p, pDef, zList, pVal);
    sqlite3_free(zList);
  }
}

/*
** An INTEGER, a REAL with an integral value, or a TEXT that is a decimal
** integer: 1 and *pi, else 0.  2^63 is the first REAL that does not fit.
*/
static int cqIntegral(CqOp *p, sqlite3_value *pVal, i64 *pi){
  int eType = sqlite3_value_type(pVal);
  if( eType==SQLITE_INTEGER ){
    *pi = sqlite3_value_int64(pVal);
    return 1;
  }
  if( eType==SQLITE_FLOAT ){
    double r = sqlite3_value_double(pVal);
    if( r>=-9223372036854775808.0 && r<9223372036854775808.0
     && (double)(i64)r==r
    ){
      *pi = (i64)r;
      return 1;
    }
  }
  return eType==SQLITE_TEXT && claimqI64Parse(claimqValueText(p, pVal), pi);
}

/*
** INT: within its range.
*/
static void cqReadInt(
  CqOp *p, const CqArgDef *pDef, sqlite3_value *pVal, CqVal *pOut
){
  i64 iMax = pDef->iMax ? pDef->iMax : CQ_I64_MAX;
  char *zWant;
  assert( pDef->iMin<=iMax );
  if( cqIntegral(p, pVal, &pOut->i) && pOut->i>=pDef->iMin && pOut->i<=iMax ){
    return;
  }
  if( p->rc ) return;
  if( pDef->iMin==CQ_I64_MIN ){
    zWant = sqlite3_mprintf("an integer");
  }else if( pDef->iMax ){
    zWant = sqlite3_mprintf("an integer from %lld to %lld", pDef->iMin, iMax);
  }else{
    zWant = sqlite3_mprintf("an integer >= %lld", pDef->iMin);
  }
  if( zWant==0 ) p->rc = SQLITE_NOMEM;
  else cqWrong(p, pDef, zWant, pVal);
  sqlite3_free(zWant);
}

/*
** The value of an argument that was not given, or given as NULL.  *pOut is
** zeroed.
*/
static void cqDefault(const CqArgDef *pDef, CqVal *pOut){
  assert( !pOut->bGiven && pOut->t.z==0 );
  pOut->i = pDef->iDefault;
  if( pDef->eType==CQ_T_WORD ){
    pOut->t = claimqStr(pDef->xWords()[pDef->iDefault]);
  }else if( pDef->zDefault ){
    pOut->t = claimqStr(pDef->zDefault);
  }
}

/*
** Read one value by its definition; pVal==0 is "not given".  Raises
** bad_argument or too_large.  The bytes of *pOut are the value's own.
*/
CQ_PRIV void claimqRead(
  CqOp *p, const CqArgDef *pDef, sqlite3_value *pVal, CqVal *pOut
){
  memset(pOut, 0, sizeof(*pOut));
  if( p->rc ) return;
  pOut->pVal = pVal;
  if( pVal==0 || (sqlite3_value_type(pVal)==SQLITE_NULL) ){
    if( pDef->mFlag & CQ_A_REQUIRED ){
      claimqFail(p, CQ_BAD_ARGUMENT, "%s is required and may not be NULL",
                 pDef->zName);
    }
    cqDefault(pDef, pOut);
    return;
  }
  pOut->bGiven = 1;
  switch( pDef->eType ){
    case CQ_T_TEXT:
    case CQ_T_JSON: cqReadText(p, pDef, pVal, pOut); break;
    case CQ_T_WORD: cqReadWord(p, pDef, pVal, pOut); break;
    case CQ_T_INT:  cqReadInt(p, pDef, pVal, pOut);  break;
    default:        break;
  }
  if( p->rc ) return;
  if( pDef->eRole==CQ_ROLE_NOW ){
    p->iNow = pOut->i;
    p->bNow = 1;
  }else if( pDef->eRole==CQ_ROLE_HEADERS ){
    cqReadHeaders(p, pVal, pOut);
  }else if( pDef->eRole==CQ_ROLE_REQUEST ){
    claimqRequestBegin(p, pOut->t);
  }
}

/*
** The same for a value that comes from the origin of a dead letter (origin.c).
** bInt: the integer iVal, else the text t.  Raises schema_mismatch if it is not
** of the definition's type: somebody has edited the letter.
*/
CQ_PRIV void claimqReadPlain(
  CqOp *p, const CqArgDef *pDef, int bInt, CqText t, i64 iVal, CqVal *pOut
){
  int bOk = pDef->eType==CQ_T_INT ? bInt : !bInt;
  memset(pOut, 0, sizeof(*pOut));
  assert( p->rc==SQLITE_OK );
  pOut->bGiven = 1;
  pOut->t = t;
  pOut->i = iVal;
  if( pDef->eType==CQ_T_INT ){
    i64 iMax = pDef->iMax ? pDef->iMax : CQ_I64_MAX;
    bOk = bOk && iVal>=pDef->iMin && iVal<=iMax;
  }else if( pDef->eType==CQ_T_WORD ){
    pOut->i = bOk ? claimqWord(pDef->xWords(), t) : -1;
    bOk = pOut->i>=0;
  }
  if( !bOk ){
    claimqFail(p, CQ_SCHEMA_MISMATCH, "the origin of the letter has a %s that "
        "no work can have: repair it", pDef->zName);
  }
}

/**************************************************************************
** Options: trailing name, value pairs
*/

static int cqOptionCounts(const CqArgDef *pDef, int mVerb){
  return mVerb==0 || (pDef->mVerb & mVerb)!=0;
}

/*
** Raise bad_argument with the list of valid option names.
*/
static void cqBadOption(
  CqOp *p, const CqArgDef *aDef, int nDef, int mVerb, const char *zWhat
){
  char *zList = sqlite3_mprintf("");
  int i;
  for(i=0; i<nDef && zList; i++){
    if( cqOptionCounts(&aDef[i], mVerb) ){
      zList = sqlite3_mprintf("%z%s%s", zList, zList[0] ? ", " : "",
                              aDef[i].zName);
    }
  }
  if( zList==0 ) p->rc = SQLITE_NOMEM;
  claimqFail(p, CQ_BAD_ARGUMENT, "%s; valid options are: %s", zWhat, zList);
  sqlite3_free(zList);
}

/*
** The definition that the option name pName means, or -1 with an error.
*/
static int cqFindOption(
  CqOp *p, const CqArgDef *aDef, int nDef, int mVerb, sqlite3_value *pName
){
  int i;
  CqText name = {0, 0};
  char *zWhat;
  if( sqlite3_value_type(pName)==SQLITE_TEXT ){
    name = claimqValueText(p, pName);
  }
  for(i=0; i<nDef && name.z; i++){
    if( cqOptionCounts(&aDef[i], mVerb)
     && claimqTextEq(claimqStr(aDef[i].zName), name)
    ){
      return i;
    }
  }
  zWhat = name.z
     ? sqlite3_mprintf("unknown option '%.*s'", claimqShown(name), name.z)
     : sqlite3_mprintf("an option's name must be text");
  if( zWhat==0 ) p->rc = SQLITE_NOMEM;
  cqBadOption(p, aDef, nDef, mVerb, zWhat);
  sqlite3_free(zWhat);
  return -1;
}

/*
** The values of options that are not given: aOut[] has one for each of the nDef
** definitions.  Its texts are constants.
*/
CQ_PRIV void claimqOptionDefaults(
  const CqArgDef *aDef, int nDef, CqVal *aOut
){
  int i;
  memset(aOut, 0, (size_t)nDef*sizeof(*aOut));
  for(i=0; i<nDef; i++){
    assert( (aDef[i].mFlag & CQ_A_REQUIRED)==0 );
    cqDefault(&aDef[i], &aOut[i]);
  }
}

/*
** Read trailing name, value pairs into aOut[], which has one for each of the
** nDef definitions, with its default.  Raises bad_argument or too_large.
*/
CQ_PRIV void claimqReadOptions(
  CqOp *p, const CqArgDef *aDef, int nDef, int mVerb,
  int nVal, sqlite3_value **apVal, CqVal *aOut
){
  int i;
  for(i=0; i<nVal && p->rc==SQLITE_OK; i+=2){
    int iDef = cqFindOption(p, aDef, nDef, mVerb, apVal[i]);
    if( iDef<0 ) break;
    if( i+1>=nVal ){
      cqBadOption(p, aDef, nDef, mVerb, "the last option has no value");
    }else if( aOut[iDef].pVal ){
      claimqFail(p, CQ_BAD_ARGUMENT, "option %s is given twice",
                 aDef[iDef].zName);
    }else{
      claimqRead(p, &aDef[iDef], apVal[i+1], &aOut[iDef]);
    }
  }
}

/*
** Raise bad_argument if available_at_ms and delay_ms are both given.
*/
CQ_PRIV void claimqDueCheck(CqOp *p, const CqVal *pAt, const CqVal *pDelay){
  if( pAt->bGiven && pDelay->bGiven ){
    claimqFail(p, CQ_BAD_ARGUMENT,
               "give available_at_ms or delay_ms, not both");
  }
}

/*
** When work is available: available_at_ms, or now + delay_ms.  As claimqClock()
** it is to be called when the time may be looked at.
*/
CQ_PRIV i64 claimqDueAt(CqOp *p, const CqVal *pAt, const CqVal *pDelay){
  assert( p->rc || !pAt->bGiven || !pDelay->bGiven );
  if( p->rc ) return 0;           /* The values may be wrong ones */
  if( pAt->bGiven ) return pAt->i;
  return claimqAddSat(claimqClock(p), pDelay->bGiven ? pDelay->i : 0);
}
