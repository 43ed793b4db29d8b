/*
** claim_plan.c: from the constraints of a WHERE clause to a plan and back.
**
** SQLite shows a virtual table the terms of the WHERE clause and asks how it
** would use them.  For a claim table only one way is right:
**
**     FROM claimq('s1','w1') LIMIT 5
**     FROM claimq WHERE session='s1' AND owner='w1' LIMIT 5
**
**   *  equality with an argument is that argument.  Arguments are hidden
**      columns; where a result column has the same name (owner is who asks,
**      and in the result who holds), the name in WHERE is the argument;
**   *  a comparison with a result column would throw claimed rows away.  With
**      a literal or a list: FILTER.  Else it may be a join, which SQLite can
**      evaluate in the other order.  But it asks again only if the first
**      answer is a plan that needs another table, so the answer is one that
**      uses the term, at a forbidding price: AVOID.  If that is the only plan
**      (the term was no join), xFilter refuses.
**   *  LIMIT is honoured when nothing else stands between the table and the
**      caller; if SQLite must sort first, rows would be cut off: LIMIT.  So
**      would an OFFSET that is not 0 (if it is a literal: OFFSET; else xFilter
**      looks).
**
** The plan travels from xBestIndex to xFilter in idxStr, one letter for each
** argv[]: 'a'+i for argument i, 'L' for LIMIT, 'O' for OFFSET, '!' for a term
** that makes xFilter refuse.  The number of the prepare follows (see replay.c):
** "ab17" is claimq(session, owner), prepared as the 17th statement.
**
** Pure: nothing of SQLite is included here.
*/
#include "claimq_core.h"

/*
** 1 if argument iArg is given by position, or by its name and a literal.
*/
static int cqPlanGiven(
  const CqShape *pShape, const CqTerm *aTerm, int nTerm, int iArg
){
  int i;
  for(i=0; i<nTerm; i++){
    if( aTerm[i].eOp==CQ_OP_EQ && (aTerm[i].iCol==pShape->aiCol[iArg]
     || (aTerm[i].iCol==pShape->aiAlias[iArg] && aTerm[i].bConst)) ) return 1;
  }
  return 0;
}

/*
** The argument that term iTerm is about, or -1.  A result column that has the
** name of an argument (lane, owner, partition) stands for it, except in a join
** by that column where the argument is given: claimq('s1','w') AS c JOIN t ON
** t.name=c.session.
*/
static int cqPlanArg(
  const CqShape *pShape, const CqTerm *aTerm, int nTerm, int iTerm
){
  const CqTerm *pTerm = &aTerm[iTerm];
  int i;
  for(i=0; i<pShape->nArg && pTerm->iCol>=0; i++){
    if( pShape->aiCol[i]==pTerm->iCol ) return i;
    if( pShape->aiAlias[i]==pTerm->iCol ){
      int bJoin = pTerm->eOp==CQ_OP_EQ && !pTerm->bConst;
      return bJoin && cqPlanGiven(pShape, aTerm, nTerm, i) ? -1 : i;
    }
  }
  return -1;
}

/*
** Term iTerm becomes the next value of xFilter; c says what it is.
*/
static void cqPlanUse(CqPlan *pPlan, int iTerm, char c){
  assert( pPlan->nTerm<CQ_PLAN_MAX );
  pPlan->aiTerm[pPlan->nTerm] = iTerm;
  pPlan->zPlan[pPlan->nTerm++] = c;
  pPlan->zPlan[pPlan->nTerm] = 0;
}

/*
** A term on a result column.  The first one to avoid is enough.
*/
static int cqPlanResult(
  const CqTerm *pTerm, int iTerm, int *pbAvoid, CqPlan *pPlan
){
  if( !pTerm->bUsable ) return CQ_PLAN_OK;
  pPlan->iBad = iTerm;
  if( pTerm->bConst ) return CQ_PLAN_FILTER;
  if( !*pbAvoid ) cqPlanUse(pPlan, iTerm, '!');
  *pbAvoid = 1;
  return CQ_PLAN_OK;
}

/*
** A term on argument iArg.  *pmSeen has a bit for each argument that some term
** names, usable or not; *pmUsed for those that are used.
*/
static int cqPlanArgument(
  const CqTerm *pTerm, int iTerm, int iArg, u32 *pmSeen, u32 *pmUsed,
  CqPlan *pPlan
){
  assert( iArg>=0 && iArg<=CQ_PLAN_MAX );
  pPlan->iBad = iArg;
  if( pTerm->eOp!=CQ_OP_EQ ) return CQ_PLAN_ARG_OP;
  *pmSeen |= (u32)1<<iArg;
  if( !pTerm->bUsable ) return CQ_PLAN_OK;
  if( *pmUsed & ((u32)1<<iArg) ) return CQ_PLAN_TWICE;
  *pmUsed |= (u32)1<<iArg;
  cqPlanUse(pPlan, iTerm, (char)('a'+iArg));
  return CQ_PLAN_OK;
}

/*
** LIMIT and OFFSET, once the other terms are placed.
*/
static int cqPlanLimit(
  const CqTerm *aTerm, int nTerm, int bOrder, CqPlan *pPlan
){
  int i;
  for(i=0; i<nTerm; i++){
    if( aTerm[i].eOp==CQ_OP_LIMIT || aTerm[i].eOp==CQ_OP_OFFSET ){
      int bOffset = aTerm[i].eOp==CQ_OP_OFFSET;
      if( bOrder || !aTerm[i].bUsable ) return CQ_PLAN_LIMIT;
      if( bOffset && aTerm[i].bConst ) return CQ_PLAN_OFFSET;
      cqPlanUse(pPlan, i, bOffset ? 'O' : 'L');
    }
  }
  return CQ_PLAN_OK;
}

/*
** Required arguments are not there, although the statement may name them.
** SQLite also asks how one part of an OR could be used, until 3.50 without what
** stands outside of the OR: a condition on result columns may be such a part.
** If nothing at all is shown, it may also be that the arguments are in the OR,
** or that this is a RIGHT JOIN in SQLite 3.40.
**
** An argument that a result column has the name of (mShown) is perhaps named,
** and perhaps only read.  It counts as named if no argument is shown (mSeen).
*/
static int cqPlanMissing(
  const CqShape *pShape, u32 mMissing, u32 mSeen, int bResult, CqPlan *pPlan
){
  u32 mNamed = pShape->mRead | (mSeen ? 0 : pShape->mShown);
  u32 mNowhere = mMissing & ~mNamed;
  int i;
  assert( mMissing!=0 );
  if( mNowhere==0 && bResult ) return CQ_PLAN_RETRY;
  if( mNowhere ) mMissing = mNowhere;
  for(i=0; (mMissing & ((u32)1<<i))==0; i++){}
  pPlan->iBad = i;
  return mNowhere ? CQ_PLAN_MISSING : CQ_PLAN_HIDDEN;
}

/*
** Find out which terms are the arguments of the claim table.  Returns
** CQ_PLAN_OK or CQ_PLAN_AVOID and fills *pPlan, or another CQ_PLAN_* that says
** why there is no plan; pPlan->iBad is then the argument or term at fault.
*/
CQ_PRIV int claimqPlan(
  const CqShape *pShape, const CqTerm *aTerm, int nTerm, int bOrder,
  CqPlan *pPlan
){
  u32 mSeen = 0, mUsed = 0, mMissing;
  int i, bAvoid = 0, bResult = 0, e = CQ_PLAN_OK;
  memset(pPlan, 0, sizeof(*pPlan));
  for(i=0; i<nTerm && e==CQ_PLAN_OK; i++){
    int iArg;
    if( aTerm[i].eOp==CQ_OP_LIMIT || aTerm[i].eOp==CQ_OP_OFFSET ) continue;
    iArg = cqPlanArg(pShape, aTerm, nTerm, i);
    if( iArg<0 ) bResult = 1;
    e = iArg<0 ? cqPlanResult(&aTerm[i], i, &bAvoid, pPlan)
               : cqPlanArgument(&aTerm[i], i, iArg, &mSeen, &mUsed, pPlan);
  }
  if( e ) return e;
  mMissing = pShape->mRequired & ~mSeen;
  if( mMissing ) return cqPlanMissing(pShape, mMissing, mSeen, bResult, pPlan);
  if( mSeen!=mUsed ) return CQ_PLAN_RETRY;
  if( bAvoid ) return CQ_PLAN_AVOID;
  return cqPlanLimit(aTerm, nTerm, bOrder, pPlan);
}

/*
** Which argument value i of xFilter is, by the plan, or a CQ_PLAN_ARGV_*.
*/
CQ_PRIV int claimqPlanArgv(const char *zPlan, int i){
  assert( i>=0 && i<CQ_PLAN_MAX );
  if( zPlan[i]=='L' ) return CQ_PLAN_ARGV_LIMIT;
  if( zPlan[i]=='O' ) return CQ_PLAN_ARGV_OFFSET;
  if( zPlan[i]=='!' ) return CQ_PLAN_ARGV_AVOID;
  return zPlan[i]-'a';
}

/*
** The number of the prepare, which stands behind a plan of nVal values.
*/
CQ_PRIV i64 claimqPlanPrep(const char *zPlan, int nVal){
  const char *z = &zPlan[nVal];
  i64 n = 0;
  assert( z[0] && strspn(z, "0123456789")==strlen(z) );
  while( *z ) n = n*10 + (*z++ - '0');
  return n;
}

CQ_PRIV int claimqPlanBad(const char *zPlan){
  size_t n = strspn(zPlan, "abcdefghijklmnopqrstuvwxyzLO!");
  size_t nDigit = strspn(&zPlan[n], "0123456789");
  return memchr(zPlan, '!', n)!=0 && nDigit>0 && zPlan[n+nDigit]==0;
}
