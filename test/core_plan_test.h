/*
** core_plan_test.h: the part of core_test.c that proves vtab/claim_plan.c.
**
** A table of three arguments (columns 5, 6, 7; the second is also result
** column 2) is asked for a plan for every list of up to two constraints, and
** for lists of three and four from a choice.  The rule is written a second
** time by looking at the whole list at once.
*/

static const int aiPlanCol[] = { 5, 6, 7 };
static const int aiPlanAlias[] = { -1, 2, -1 };

typedef struct CqCase CqCase;     /* One question to the planner */
struct CqCase {
  CqShape shape;
  CqTerm aTerm[4];
  int nTerm;
  int bOrder;
};

/* 1 if term i is a join by the column that has the name of an argument, which
** is given in another way. */
static int cqCaseJoin(const CqCase *p, int i){
  int j, bGiven = 0;
  for(j=0; j<p->nTerm; j++){
    if( p->aTerm[j].eOp!=CQ_OP_EQ ) continue;
    if( p->aTerm[j].iCol==6 ) bGiven = 1;
    if( p->aTerm[j].iCol==2 && p->aTerm[j].bConst ) bGiven = 1;
  }
  return bGiven && p->aTerm[i].iCol==2 && p->aTerm[i].eOp==CQ_OP_EQ
      && !p->aTerm[i].bConst;
}

/* The argument that term i is about, -1 if it is none of the arguments. */
static int cqCaseArg(const CqCase *p, int i){
  switch( p->aTerm[i].iCol ){
    case 5: return 0;
    case 2: return cqCaseJoin(p, i) ? -1 : 1;
    case 6: return 1;
    case 7: return 2;
  }
  return -1;
}

static int cqCaseLimit(const CqCase *p, int i){
  return p->aTerm[i].eOp==CQ_OP_LIMIT || p->aTerm[i].eOp==CQ_OP_OFFSET;
}

/* 1 if some usable (or any) equality before term n names argument iArg. */
static int cqCaseNames(const CqCase *p, int n, int iArg, int bUsable){
  int i;
  for(i=0; i<n; i++){
    if( !cqCaseLimit(p, i) && cqCaseArg(p, i)==iArg
     && (p->aTerm[i].bUsable || !bUsable) ) return 1;
  }
  return 0;
}

/* What is wrong with term i; 0 if nothing is. */
static int cqCaseWrong(const CqCase *p, int i, int *piBad){
  int iArg = cqCaseArg(p, i);
  if( cqCaseLimit(p, i) ) return 0;
  *piBad = iArg<0 ? i : iArg;
  if( iArg<0 ){
    return p->aTerm[i].bUsable && p->aTerm[i].bConst ? CQ_PLAN_FILTER : 0;
  }
  if( p->aTerm[i].eOp!=CQ_OP_EQ ) return CQ_PLAN_ARG_OP;
  return p->aTerm[i].bUsable && cqCaseNames(p, i, iArg, 1) ? CQ_PLAN_TWICE : 0;
}

/* The letters of the plan, and which term each stands for. */
static int cqCaseLetters(const CqCase *p, int *aiTerm, char *z){
  int i, n = 0, bAvoid = 0;
  for(i=0; i<p->nTerm; i++){
    int iArg = cqCaseArg(p, i);
    if( cqCaseLimit(p, i) || !p->aTerm[i].bUsable ) continue;
    if( iArg<0 && bAvoid ) continue;
    if( iArg<0 ) bAvoid = 1;
    aiTerm[n] = i;
    z[n++] = iArg<0 ? '!' : "abc"[iArg];
  }
  for(i=0; i<p->nTerm && !bAvoid; i++){
    if( !cqCaseLimit(p, i) ) continue;
    aiTerm[n] = i;
    z[n++] = p->aTerm[i].eOp==CQ_OP_LIMIT ? 'L' : 'O';
  }
  z[n] = 0;
  return bAvoid;
}

/* 1 if argument iArg may be named where the planner does not see it. */
static int cqCaseMaybe(const CqCase *p, int iArg){
  int i;
  if( p->shape.mRead>>iArg & 1 ) return 1;
  for(i=0; i<3; i++){
    if( cqCaseNames(p, p->nTerm, i, 0) ) return 0;
  }
  return p->shape.mShown>>iArg & 1;
}

/* Argument iBad is the first that is missing. */
static int cqNaiveMissing(const CqCase *p, int iBad, int *piBad){
  int i, bResult = 0;
  for(i=iBad; i<3; i++){
    *piBad = i;
    if( (p->shape.mRequired>>i & 1) && !cqCaseNames(p, p->nTerm, i, 0)
     && !cqCaseMaybe(p, i) ) return CQ_PLAN_MISSING;
  }
  *piBad = iBad;
  for(i=0; i<p->nTerm; i++){
    if( !cqCaseLimit(p, i) && cqCaseArg(p, i)<0 ) bResult = 1;
  }
  return bResult ? CQ_PLAN_RETRY : CQ_PLAN_HIDDEN;
}

static int cqNaivePlan(const CqCase *p, int *aiTerm, char *z, int *piBad){
  int i, e, bRetry = 0;
  for(i=0; i<p->nTerm; i++){
    if( (e = cqCaseWrong(p, i, piBad))!=0 ) return e;
  }
  for(i=0; i<3; i++){
    *piBad = i;
    if( (p->shape.mRequired>>i & 1) && !cqCaseNames(p, p->nTerm, i, 0) ){
      return cqNaiveMissing(p, i, piBad);
    }
    bRetry |= cqCaseNames(p, p->nTerm, i, 0)!=cqCaseNames(p, p->nTerm, i, 1);
  }
  if( bRetry ) return CQ_PLAN_RETRY;
  if( cqCaseLetters(p, aiTerm, z) ) return CQ_PLAN_AVOID;
  for(i=0; i<p->nTerm; i++){
    if( cqCaseLimit(p, i) && (p->bOrder || !p->aTerm[i].bUsable) ){
      return CQ_PLAN_LIMIT;
    }
    if( p->aTerm[i].eOp==CQ_OP_OFFSET && p->aTerm[i].bConst ){
      return CQ_PLAN_OFFSET;
    }
  }
  return CQ_PLAN_OK;
}

/* 1 if the plan is the same by both. */
static int cqCaseOk(const CqCase *p){
  CqPlan plan;
  int aiTerm[CQ_PLAN_MAX], iBad = 0, i;
  char z[CQ_PLAN_MAX+1];
  int e = cqNaivePlan(p, aiTerm, z, &iBad);
  if( claimqPlan(&p->shape, p->aTerm, p->nTerm, p->bOrder, &plan)!=e ) return 0;
  if( e!=CQ_PLAN_OK && e!=CQ_PLAN_AVOID ){
    return e==CQ_PLAN_RETRY || e==CQ_PLAN_LIMIT || e==CQ_PLAN_OFFSET
        || plan.iBad==iBad;
  }
  if( strcmp(plan.zPlan, z)!=0 || plan.nTerm!=(int)strlen(z) ) return 0;
  for(i=0; i<plan.nTerm; i++){
    int iArg = claimqPlanArgv(plan.zPlan, i);
    if( plan.aiTerm[i]!=aiTerm[i] ) return 0;
    if( iArg!=(z[i]=='L' ? CQ_PLAN_ARGV_LIMIT : z[i]=='O' ? CQ_PLAN_ARGV_OFFSET
             : z[i]=='!' ? CQ_PLAN_ARGV_AVOID : z[i]-'a') ) return 0;
  }
  return 1;
}

/* One of the 96 terms there are (iCol of 0..5, operator, usable, const). */
static CqTerm cqCaseTerm(int i){
  static const int aiCol[] = { -1, 0, 2, 5, 6, 7 };
  CqTerm t;
  t.bUsable = (u8)(i & 1);
  t.bConst = (u8)(i>>1 & 1);
  t.eOp = (u8)(i>>2 & 3);
  t.iCol = aiCol[i>>4];
  return t;
}

/* All lists of nTerm terms, every nStep-th; each for all that is required. */
static void cqTestPlanLists(int nTerm, int nStep){
  CqCase c;
  long i, nAll = 1;
  int j, k, bOk = 1;
  for(j=0; j<nTerm; j++) nAll *= 96;
  memset(&c, 0, sizeof(c));
  c.shape.nArg = 3;
  c.shape.aiCol = aiPlanCol;
  c.shape.aiAlias = aiPlanAlias;
  c.nTerm = nTerm;
  for(j=0; j<4; j++) c.aTerm[j] = cqCaseTerm(5);    /* LIMIT, after the end */
  for(i=0; i<nAll; i+=nStep){
    long iRest = i;
    for(j=0; j<nTerm; j++, iRest/=96) c.aTerm[j] = cqCaseTerm((int)(iRest%96));
    for(k=0; k<256; k++){
      c.shape.mRequired = (u32)(k & 7);
      c.bOrder = k>>3 & 1;
      c.shape.mRead = (u32)(k>>4 & 7);
      c.shape.mShown = (u32)(k>>7 & 1)<<1;
      if( !cqCaseOk(&c) ) bOk = 0;
    }
    if( !bOk ) break;
  }
  cqCheck(bOk, "plan of %d terms, list %ld", nTerm, i);
}

/* The number that follows the letters. */
static void cqTestPlanPrep(void){
  cqCheck(claimqPlanPrep("0", 0)==0, "plan number 0");
  cqCheck(claimqPlanPrep("ab17", 2)==17, "plan number 17");
  cqCheck(claimqPlanPrep("baL9", 3)==9, "plan number 9");
  cqCheck(claimqPlanPrep("a!9223372036854775807", 2)==CQ_I64_MAX,
          "plan number 2^63-1");
}

/* Plans that are refused, and what is none of ours. */
static void cqTestPlanBad(void){
  static const struct { const char *z; int bBad; } aCase[] = {
    {"!1", 1}, {"ab!17", 1}, {"a!b9", 1}, {"!!0", 1}, {"lL!0123456789", 1},
    {"ab17", 0}, {"", 0}, {"17", 0}, {"!", 0}, {"ab!", 0}, {"M!1", 0},
    {"!1a", 0}, {"!1!", 0}, {"ab1!", 0}, {"! 1", 0}
  };
  size_t i;
  for(i=0; i<sizeof(aCase)/sizeof(aCase[0]); i++){
    cqCheck(claimqPlanBad(aCase[i].z)==aCase[i].bBad, "plan %s", aCase[i].z);
  }
}

static void cqTestPlan(void){
  cqTestPlanPrep();
  cqTestPlanBad();
  cqTestPlanLists(0, 1);
  cqTestPlanLists(1, 1);
  cqTestPlanLists(2, 1);
  cqTestPlanLists(3, 7);
  cqTestPlanLists(4, 1009);
}
