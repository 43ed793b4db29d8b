/*
** done.c: lists of claims that are completed, all in one transaction.
**
**     SELECT claimq_complete('[["qjc:1:1","7f83..."], ["qjc:2:1","9a1e..."]]');
**     SELECT payload, claim_id, lease_token FROM claimq_lane('mail', 'w')
**     WHERE done = '["qjc:1:1", "7f83..."]';
**
** The second one completes qjc:1:1 and takes the next job: one wait for the
** lock, and one commit, instead of two.  The list is a JSON array of the claim
** id, the lease token and, if there is one, the result; or an array of such
** arrays.  It is read twice: before anything is written, so that a malformed
** list changes nothing, and when its claims are completed.
**
** A result becomes what SQLite's ->> makes of it: numbers as they are, true and
** false 1 and 0, objects and arrays their JSON; and text as it is, all of it.
*/
#include "claimq_int.h"

#define CQ_DONE_RAW (6*CQ_TOKEN_SZ)       /* An id with all of it escaped */

typedef struct CqDoneList CqDoneList;
struct CqDoneList {
  CqJson j;
  u8 bFirst;                      /* No claim was read yet */
  CqText claimId, token;
  CqText result;                  /* As it stands in the list; z==0: none */
  char zId[CQ_DONE_RAW], zToken[CQ_DONE_RAW];
};

/*
** A string of the list, unescaped into zBuf if need be.  A longer one cannot be
** an id, and stays as it is.
*/
static CqText cqDoneListText(CqText raw, char *zBuf){
  int n;
  if( memchr(raw.z, '\\', (size_t)raw.n)==0 ) return raw;
  n = raw.n<=CQ_DONE_RAW ? claimqJsonText(raw, zBuf) : -1;
  if( n<0 ) return raw;
  raw.z = zBuf;
  raw.n = n;
  return raw;
}

/*
** What follows a lease token: the end of its array, or a result.  Returns 1, or
** 0 if it is neither.
*/
static int cqDoneListResult(CqDoneList *p){
  CqJson at = p->j;
  CqText t;
  p->result.z = 0;
  if( claimqJsonNext(&p->j)==CQ_JSON_CLOSE ) return 1;
  p->j = at;
  if( !claimqJsonSkip(&p->j) ) return 0;
  t.z = &at.in.z[at.i];
  t.n = p->j.i-at.i;
  while( strchr(" \t\n\r,", t.z[0]) ){ t.z++; t.n--; }
  if( !claimqTextEq(t, claimqStr("null")) ) p->result = t;
  return claimqJsonNext(&p->j)==CQ_JSON_CLOSE;
}

/*
** Begin to read.  Returns 0 if the list is not an array.
*/
static int cqDoneListBegin(CqDoneList *p, CqText done){
  p->bFirst = 1;
  claimqJsonInit(&p->j, done);
  return claimqJsonNext(&p->j)==CQ_JSON_ARRAY;
}

/*
** The next claim: 1, or 0 at the end, or -1 if the list is malformed.  A list
** that is one claim ends with the text.
*/
static int cqDoneListNext(CqDoneList *p){
  int bFirst = p->bFirst;
  int e = claimqJsonNext(&p->j);
  p->bFirst = 0;
  if( e==CQ_JSON_END ) return 0;
  if( e==CQ_JSON_CLOSE ) return claimqJsonNext(&p->j)==CQ_JSON_END ? 0 : -1;
  if( e==CQ_JSON_ARRAY ) e = claimqJsonNext(&p->j);
  else if( !bFirst ) return -1;
  if( e!=CQ_JSON_STRING ) return -1;
  p->claimId = cqDoneListText(p->j.tok, p->zId);
  if( claimqJsonNext(&p->j)!=CQ_JSON_STRING ) return -1;
  p->token = cqDoneListText(p->j.tok, p->zToken);
  return cqDoneListResult(p) ? 1 : -1;
}

/*
** What is needed to complete the claims of a list: CQ_NEED_NOTHING if it is
** empty.  Raises bad_argument if it is malformed, or has a result that nobody
** keeps.  zWhat names the list in messages.
*/
CQ_PRIV int claimqDoneNeed(CqOp *p, CqText done, const char *zWhat){
  int e = -1, eNeed = CQ_NEED_NOTHING;
  CqDoneList d;
  if( cqDoneListBegin(&d, done) ){
    while( p->rc==SQLITE_OK && (e = cqDoneListNext(&d))>0 ){
      const CqDiscipline *pD;
      CqVerb v;
      v.claimId = d.claimId;
      pD = claimqVerbDiscipline(p, &v);
      if( pD==0 ) break;
      if( d.result.z && claimqVerbResult(pD)<0 ){
        claimqFail(p, CQ_BAD_ARGUMENT, "%s has a result for claim %.*s: only "
            "jobs have results", zWhat, d.claimId.n, d.claimId.z);
      }
      if( pD->xSettle ) eNeed = CQ_NEED_MANY;
      if( eNeed==CQ_NEED_NOTHING ) eNeed = CQ_NEED_UNDO;
    }
  }
  if( e<0 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "%s must be a JSON array of claim id, "
        "lease token and perhaps a result, or an array of these, got TEXT "
        "'%.*s'", zWhat, claimqShown(done), done.z);
  }
  return eNeed;
}

/*
** The result that the list stands on, if it is a text, unescaped into memory
** that the caller frees; z==0 if it is none, or has half a surrogate pair.
*/
static CqText cqDoneText(CqOp *p, CqText json){
  CqText raw = {0, 0}, t = {0, 0};
  char *z;
  if( json.z[0]!='"' ) return t;
  raw.z = &json.z[1];
  raw.n = json.n-2;
  z = claimqMalloc(p, (i64)raw.n+1);
  t.n = z ? claimqJsonText(raw, z) : -1;
  if( t.n<0 ){
    sqlite3_free(z);
    t.n = 0;
  }else{
    t.z = z;
  }
  return t;
}

/*
** Complete the claim at which the list stands.  Returns the answer, and raises
** what claimq_complete() does.  bLook: as CqVerb.bLook.
*/
static i64 cqDoneOne(
  CqOp *p, const CqTask *pTask, const CqDoneList *pL, int bLook
){
  i64 nRow = 0;
  CqText value;
  CqVerb v;
  CqStmt s;
  memset(&v, 0, sizeof(v));
  v.claimId = pL->claimId;
  v.token = pL->token;
  v.bLook = (u8)bLook;
  if( pL->result.z==0 ) return claimqVerbComplete(p, pTask, &v, 0);
  value = cqDoneText(p, pL->result);
  s = claimqStmt(p, CQ_SQL_DONE_RESULT);
  claimqBindText(p, &s, CQ_DONE_RESULT_value, value);
  claimqBindText(p, &s, CQ_DONE_RESULT_json, pL->result);
  if( claimqStep(p, &s) ){
    nRow = claimqVerbComplete(p, pTask, &v, sqlite3_column_value(s.pStmt, 0));
  }
  claimqStmtDone(p, &s);
  sqlite3_free((char*)value.z);
  return nRow;
}

/*
** Complete the claims of a list, as part of a task.  Raises claim_lost for the
** first one that is lost.
*/
CQ_PRIV void claimqDoneRun(CqOp *p, const CqTask *pTask, CqText done){
  CqDoneList d;
  cqDoneListBegin(&d, done);
  while( p->rc==SQLITE_OK && cqDoneListNext(&d)>0 ) cqDoneOne(p, pTask, &d, 0);
}

/**************************************************************************
** claimq_complete(claims [, option, value]...) -> one answer for each claim
*/
typedef struct CqDoneCall CqDoneCall;
struct CqDoneCall {
  CqTask task;                    /* First */
  CqText claims;
  u8 bPartial;                    /* A claim that is lost is answered 0 */
  u8 eNeed;                       /* CQ_NEED_* */
};

/*
** Nothing is read: the claims are judged one after the other, each when those
** before it are completed.
*/
static void cqDoneLoad(CqOp *p, CqTask *pTask){
  (void)p;
  pTask->eNeed = ((CqDoneCall*)pTask)->eNeed;
}

/*
** 1 if op has claim_lost.
*/
static int cqDoneLost(const CqOp *p){
  static const char zLost[] = "claimq: " CQ_CLAIM_LOST ":";
  return p->zErr && strncmp(p->zErr, zLost, sizeof(zLost)-1)==0;
}

/*
** Complete them, and put the answers together.  A claim that raises claim_lost
** has written nothing (CqVerb.bLook).
*/
static void cqDoneApply(CqOp *p, CqTask *pTask){
  const CqDoneCall *pD = (const CqDoneCall*)pTask;
  sqlite3_str *pStr = sqlite3_str_new(p->db);
  const char *zSep = "[";
  CqDoneList d;
  cqDoneListBegin(&d, pD->claims);
  while( p->rc==SQLITE_OK && cqDoneListNext(&d)>0 ){
    i64 nRow = cqDoneOne(p, pTask, &d, pD->bPartial);
    if( pD->bPartial && cqDoneLost(p) ){
      claimqOpReset(p);
      nRow = 0;
    }
    sqlite3_str_appendf(pStr, "%s%lld", zSep, nRow);
    zSep = ",";
  }
  sqlite3_str_appendall(pStr, "]");
  sqlite3_free(pTask->zAnswer);
  pTask->zAnswer = claimqStrFinish(p, pStr);
}

/*
** xFunc.  The list is checked before anything is written.
*/
CQ_PRIV void claimqDoneFunc(CqOp *p, CqCall *pCall){
  const CqFuncDef *pDef = pCall->pDef;
  CqVal aOpt[CQ_MAX_OPT];
  CqDoneCall d;
  memset(&d, 0, sizeof(d));
  d.task.xLoad = cqDoneLoad;
  d.task.xApply = cqDoneApply;
  d.task.zWhat = pDef->zName;
  d.task.bSure = 1;
  d.claims = pCall->aArg[0].t;
  claimqOptionDefaults(pDef->aOpt, pDef->nOpt, aOpt);
  claimqReadOptions(p, pDef->aOpt, pDef->nOpt, 0, pCall->nVal-1,
                    &pCall->apVal[1], aOpt);
  claimqRequestCall(p, pCall);
  d.bPartial = (u8)aOpt[0].i;
  d.eNeed = (u8)claimqDoneNeed(p, d.claims, "claims");
  d.task.zWord = "[]";
  if( d.eNeed!=CQ_NEED_NOTHING ){
    d.task.zWord = 0;
    claimqRun(p, &d.task);
  }
  claimqTaskResult(p, &d.task, pCall->pCtx);
}
