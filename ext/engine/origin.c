/*
** origin.c: what a dead letter remembers of the work that failed, as JSON:
**
**     {"priority":5,"source_key":"order-7","max_attempts":20, ...}
**
** The names are those of the options of the discipline's put function, so that
** claimq_requeue() can put the work again.  Statements and triggers write an
** origin with the SQL function claimq__origin(); claimqOriginRead() reads it
** back into option values, by the same definitions that read a user's options.
*/
#include "claimq_int.h"

/*
** Write one value as JSON at z.  Returns the end.
*/
static char *cqOriginValue(CqOp *p, sqlite3_value *pVal, char *z){
  switch( sqlite3_value_type(pVal) ){
    case SQLITE_INTEGER:
      return z + claimqI64Text(sqlite3_value_int64(pVal), z);
    case SQLITE_TEXT:
      return claimqJsonWrite(claimqValueText(p, pVal), z);
    case SQLITE_NULL:
      memcpy(z, "null", 4);
      return z+4;
  }
  claimqFail(p, CQ_BAD_ARGUMENT, "an origin has integers and texts only");
  return z;
}

/*
** claimq__origin(name, value, ...) -> {"name":value, ...}, for triggers.  It
** does what json_object() does, which SQLite before 3.41 does not let a trigger
** call where trusted_schema is off.
*/
static void cqOriginFunc(CqOp *p, CqCall *pCall){
  sqlite3_value **apVal = pCall->apVal;
  int nVal = pCall->nVal;
  i64 nByte = 2;
  char *zOut, *z;
  int i;
  if( nVal%2 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "every name needs a value");
  }
  for(i=0; i<nVal; i++){
    nByte += 24;
    if( sqlite3_value_type(apVal[i])==SQLITE_TEXT ){
      nByte += 6*(i64)claimqValueText(p, apVal[i]).n;
    }
  }
  z = zOut = claimqMalloc(p, nByte);
  if( zOut==0 ) return;
  *z++ = '{';
  for(i=0; i<nVal; i++){
    z = cqOriginValue(p, apVal[i], z);
    *z++ = i%2==0 ? ':' : i+1<nVal ? ',' : '}';
  }
  assert( z-zOut<=nByte );
  if( p->rc ) sqlite3_free(zOut);
  else sqlite3_result_text64(pCall->pCtx, zOut, (sqlite3_uint64)(z-zOut),
                             sqlite3_free, SQLITE_UTF8);
}

/*
** The text of the array or object that pJ has just begun to read; z==0 if
** malformed.
*/
static CqText cqOriginInner(CqJson *pJ){
  CqText t;
  int iStart = pJ->i-1, nDepth = pJ->nDepth;
  assert( iStart>=0 && strchr("[{", pJ->in.z[iStart]) );
  t.z = &pJ->in.z[iStart];
  while( t.z && pJ->nDepth>=nDepth ){
    if( claimqJsonNext(pJ)==CQ_JSON_ERROR ) t.z = 0;
  }
  t.n = pJ->i-iStart;
  return t;
}

/*
** Read one member's value, which pJ stands before, as option pDef.  Strings
** are unescaped into *pzBuf, which moves on.  Returns 0 if no option can have
** such a value.
*/
static int cqOriginMember(
  CqOp *p, CqJson *pJ, const CqArgDef *pDef, char **pzBuf, CqVal *pOut
){
  CqText t = {0, 0};
  i64 iVal = 0;
  switch( claimqJsonNext(pJ) ){
    case CQ_JSON_STRING:
      t.z = *pzBuf;
      t.n = claimqJsonText(pJ->tok, *pzBuf);
      if( t.n<0 ) return 0;
      *pzBuf += t.n;
      break;
    case CQ_JSON_NUMBER:
      if( !claimqJsonInt(pJ->tok, &iVal) ) return 0;
      claimqReadPlain(p, pDef, 1, t, iVal, pOut);
      return 1;
    case CQ_JSON_OBJECT:
      if( pDef->eRole!=CQ_ROLE_HEADERS ) return 0;
      t = cqOriginInner(pJ);
      if( t.z==0 ) return 0;
      break;
    case CQ_JSON_ARRAY:
      t = cqOriginInner(pJ);
      if( t.z==0 ) return 0;
      break;
    case CQ_JSON_WORD:            /* null: not given */
      return claimqTextEq(pJ->tok, claimqStr("null"));
    default:
      return 0;
  }
  claimqReadPlain(p, pDef, 0, t, 0, pOut);
  return 1;
}

/*
** Read an origin into aOut[], one value for each of the nDef options; an option
** that it does not name gets its default, and names that are not options are
** passed over.  zBuf has origin.n bytes and must stay as long as aOut[].  An
** origin with z==0 names nothing.  Returns 0 if it is malformed; op may have an
** error for a value that is out of range.
*/
CQ_PRIV int claimqOriginRead(
  CqOp *p, CqText origin, const CqArgDef *aDef, int nDef, char *zBuf,
  CqVal *aOut
){
  CqJson j;
  int e = CQ_JSON_ERROR, i;
  for(i=0; i<nDef; i++) claimqRead(p, &aDef[i], 0, &aOut[i]);
  assert( p->rc==SQLITE_OK );
  if( origin.z==0 ) return 1;
  claimqJsonInit(&j, origin);
  if( claimqJsonNext(&j)!=CQ_JSON_OBJECT ) return 0;
  while( p->rc==SQLITE_OK && (e = claimqJsonNext(&j))==CQ_JSON_KEY ){
    for(i=0; i<nDef && !claimqJsonEq(j.tok, claimqStr(aDef[i].zName)); i++){}
    if( i<nDef ? !cqOriginMember(p, &j, &aDef[i], &zBuf, &aOut[i])
               : !claimqJsonSkip(&j) ){
      return 0;
    }
  }
  return p->rc || (e==CQ_JSON_CLOSE && claimqJsonNext(&j)==CQ_JSON_END);
}

/*
** Write the options that were given, of nDef, as an origin.  (A JSON option was
** checked by whoever calls this.)  Returns the bytes of *pOut, which the caller
** frees, or 0 if op has an error or gets one here.
*/
CQ_PRIV char *claimqOriginWrite(
  CqOp *p, const CqArgDef *aDef, int nDef, const CqVal *aVal, CqText *pOut
){
  i64 nByte = 3;
  char *zOut, *z;
  int i;
  for(i=0; i<nDef && p->rc==SQLITE_OK; i++){
    if( aVal[i].bGiven ){
      nByte += (i64)strlen(aDef[i].zName) + 6*(i64)aVal[i].t.n + 30;
    }
  }
  z = zOut = claimqMalloc(p, nByte);
  if( zOut==0 ) return 0;
  *z++ = '{';
  for(i=0; i<nDef; i++){
    if( !aVal[i].bGiven ) continue;
    if( z>&zOut[1] ) *z++ = ',';
    z = claimqJsonWrite(claimqStr(aDef[i].zName), z);
    *z++ = ':';
    if( aDef[i].eType==CQ_T_INT ){
      z += claimqI64Text(aVal[i].i, z);
    }else if( aDef[i].eType==CQ_T_JSON ){
      memcpy(z, aVal[i].t.z, (size_t)aVal[i].t.n);
      z += aVal[i].t.n;
    }else{
      z = claimqJsonWrite(aVal[i].t, z);
    }
  }
  *z++ = '}';
  assert( z-zOut<=nByte );
  pOut->z = zOut;
  pOut->n = (int)(z-zOut);
  return zOut;
}

/*
** The function that triggers use to write an origin.
*/
CQ_PRIV const CqFuncDef *claimqOriginFuncs(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq__origin", .eKind = CQ_F_PURE, .nMin = 2, .bRest = 1,
      .xFunc = cqOriginFunc, .zDoc = "for triggers of claimq's own" },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
