/*
** core_lease_test.h: the part of core_test.c that proves core/lease.c.
**
** A tiny queue in memory is built on the two functions of core/lease.c, and
** every short history of it is run:
**
**     claim 0*2; tick; claim 1*1; renew 0;
**
** is: owner 0 claims two rows, time passes, owner 1 claims one, and the
** first claim tries to renew.  Beside the queue a ghost keeps a book of every
** claim ever given out, by the manual's one rule of loss; the queue never asks
** it.  After each step queue and ghost must agree.
*/

static void cqTestLive(void){
  i64 a[CQ_NINT];
  int n = cqIntegers(a), i;
  for(i=0; i<n; i++){
    i64 t = a[i];
    cqCheck(!claimqLeaseLive(t, t), "live at its end, %lld", t);
    if( t<CQ_I64_MAX ) cqCheck(claimqLeaseLive(t+1, t), "live at %lld", t);
    if( t>CQ_I64_MIN ) cqCheck(!claimqLeaseLive(t-1, t), "dead at %lld", t);
  }
  cqCheck(claimqLeaseLive(CQ_I64_MAX, CQ_I64_MIN), "live, far apart");
  cqCheck(!claimqLeaseLive(CQ_I64_MIN, CQ_I64_MAX), "dead, far apart");
}

/* The earlier of two times, and of a time and none. */
static void cqTestSooner(void){
  i64 a[CQ_NINT];
  int n = cqIntegers(a), i, j;
  for(i=0; i<n; i++){
    if( a[i]<0 ) continue;
    cqCheck(claimqSooner(a[i], CQ_NO_TIME)==a[i], "%lld or never", a[i]);
    cqCheck(claimqSooner(CQ_NO_TIME, a[i])==a[i], "never or %lld", a[i]);
    for(j=0; j<n; j++){
      if( a[j]<a[i] ) continue;
      cqCheck(claimqSooner(a[i], a[j])==a[i]
           && claimqSooner(a[j], a[i])==a[i], "%lld, %lld", a[i], a[j]);
    }
  }
  cqCheck(claimqSooner(CQ_NO_TIME, CQ_NO_TIME)==CQ_NO_TIME, "never");
}

/* Every small claim; the verdict from sentences, not from an order of ifs. */
static void cqTestVerdict(void){
  CqHold h;
  int bHead;
  memset(&h, 0, sizeof(h));
  for(h.iLast=0; h.iLast<=2; h.iLast++)
  for(h.iFence=-1; h.iFence<=3; h.iFence++)
  for(h.nSize=0; h.nSize<=4; h.nSize++)
  for(h.nRow=0; h.nRow<=5; h.nRow++)
  for(h.nToken=0; h.nToken<=h.nRow; h.nToken++)
  for(bHead=0; bHead<2; bHead++){
    int bAll = h.nRow==h.nSize && h.nToken==h.nSize && h.nSize>0;
    int bNone = h.nRow==0;
    int bWrong = h.nRow>0 && h.nToken==0;
    int bNever = bNone && bHead && !(h.iFence>=1 && h.iFence<=h.iLast);
    int e;
    h.bHead = (u8)bHead;
    e = claimqHoldVerdict(&h);
    cqCheck((e==CQ_HOLD_OK)==bAll
         && (e==CQ_HOLD_UNKNOWN)==(bNone && !bHead)
         && (e==CQ_HOLD_TOKEN)==bWrong
         && (e==CQ_HOLD_NEVER)==bNever
         && (e==CQ_HOLD_DISPLACED)
            ==(!bAll && !bWrong && !bNever && !(bNone && !bHead)),
         "verdict size %d, rows %d, tokens %d, head %d, fence %d of %d: %d",
         (int)h.nSize, (int)h.nRow, (int)h.nToken, bHead, (int)h.iFence,
         (int)h.iLast, e);
  }
}

#define CQ_NROW   3
#define CQ_NCLAIM 8
#define CQ_NSTEP  8
#define CQ_TTL    1
typedef struct CqWorld CqWorld;   /* All bytes: may be compared as a block */
struct CqWorld {
  u8 iNow, nRow, nClaim;
  u8 bBack;                       /* Time went back at least once */
  struct CqWorldRow {
    u8 bThere, bClaimed, nFence;
    u8 iHead, iFence, iToken, nSize, iExpires;    /* The claim's stamp */
  } aRow[CQ_NROW];
  struct CqWorldClaim {
    u8 iHead, iFence, iToken, nSize;      /* What its owner knows */
    u8 mRow, iExpires, bLost, bSettled;   /* What only the ghost knows */
  } aClaim[CQ_NCLAIM];
};
enum { CQ_TICK, CQ_BACK, CQ_CLAIM, CQ_CANCEL, CQ_RENEW, CQ_COMPLETE,
       CQ_RELEASE };
typedef struct CqStep CqStep;
struct CqStep {
  int eKind, iWho, n;             /* iWho: an owner, a row or a claim */
};
static CqStep aHistory[CQ_NSTEP];

/* Count what is left of a claim, and judge. */
static int cqWorldVerdict(
  const CqWorld *p, const struct CqWorldClaim *pClaim, int iToken
){
  CqHold h;
  int i;
  memset(&h, 0, sizeof(h));
  h.nSize = pClaim->nSize;
  h.iFence = pClaim->iFence;
  h.iLast = p->aRow[pClaim->iHead].nFence;
  h.bHead = p->aRow[pClaim->iHead].bThere;
  for(i=0; i<p->nRow; i++){
    const struct CqWorldRow *pRow = &p->aRow[i];
    if( !pRow->bThere || !pRow->bClaimed ) continue;
    if( pRow->iHead!=pClaim->iHead || pRow->iFence!=pClaim->iFence ) continue;
    h.nRow++;
    h.nToken += pRow->iToken==iToken;
  }
  return claimqHoldVerdict(&h);
}

/* The ghost: row i leaves whoever had it.  0 if a live claim loses it. */
static int cqWorldDisplace(CqWorld *p, int i){
  int j, bOk = 1;
  for(j=0; j<p->nClaim; j++){
    struct CqWorldClaim *pClaim = &p->aClaim[j];
    if( pClaim->bSettled || (pClaim->mRow>>i & 1)==0 ) continue;
    if( !pClaim->bLost && pClaim->iExpires>p->iNow ) bOk = 0;
    pClaim->bLost = 1;
  }
  return bOk;
}
static int cqWorldFree(const CqWorld *p, int i){
  const struct CqWorldRow *pRow = &p->aRow[i];
  return pRow->bThere
      && !(pRow->bClaimed && claimqLeaseLive(pRow->iExpires, p->iNow));
}

/* Owner iOwner claims up to n rows.  0 if a live claim lost a row by it. */
static int cqWorldClaim(CqWorld *p, int iOwner, int n){
  struct CqWorldClaim c;
  int i, bOk = 1;
  memset(&c, 0, sizeof(c));
  for(i=0; i<p->nRow && c.nSize<n; i++){
    if( !cqWorldFree(p, i) ) continue;
    if( c.nSize==0 ){
      c.iHead = (u8)i;
      c.iFence = (u8)(p->aRow[i].nFence+1);
      c.iToken = (u8)(iOwner*16 + p->iNow);
      c.iExpires = (u8)(p->iNow+CQ_TTL);
    }
    if( !cqWorldDisplace(p, i) ) bOk = 0;
    c.mRow |= (u8)(1<<i);
    c.nSize++;
  }
  for(i=0; i<p->nRow; i++){
    struct CqWorldRow *pRow = &p->aRow[i];
    if( (c.mRow>>i & 1)==0 ) continue;
    pRow->bClaimed = 1;
    pRow->nFence++;
    pRow->iHead = c.iHead;
    pRow->iFence = c.iFence;
    pRow->iToken = c.iToken;
    pRow->nSize = c.nSize;
    pRow->iExpires = c.iExpires;
  }
  if( c.nSize ) p->aClaim[p->nClaim++] = c;
  return bOk;
}

/* One of the verbs.  0 if it did not do what the ghost expects. */
static int cqWorldVerb(CqWorld *p, int eKind, int iClaim){
  struct CqWorldClaim *pClaim = &p->aClaim[iClaim];
  int bHolds = !pClaim->bLost && !pClaim->bSettled;
  int i;
  if( cqWorldVerdict(p, pClaim, pClaim->iToken)!=CQ_HOLD_OK ) return !bHolds;
  for(i=0; i<p->nRow; i++){
    struct CqWorldRow *pRow = &p->aRow[i];
    if( !pRow->bClaimed || pRow->iHead!=pClaim->iHead
     || pRow->iFence!=pClaim->iFence ) continue;
    if( eKind==CQ_RENEW ) pRow->iExpires = (u8)(p->iNow+CQ_TTL);
    if( eKind==CQ_COMPLETE ) pRow->bThere = 0;
    if( eKind!=CQ_RENEW ) pRow->bClaimed = 0;
  }
  if( eKind==CQ_RENEW ){
    pClaim->iExpires = (u8)(p->iNow+CQ_TTL);
  }else{
    pClaim->bSettled = 1;
  }
  return bHolds;
}

/* Do one step.  0 if the ghost objects. */
static int cqWorldStep(CqWorld *p, const CqStep *pStep){
  int i = pStep->iWho;
  switch( pStep->eKind ){
    case CQ_TICK:
      p->iNow++;
      return 1;
    case CQ_BACK:
      p->iNow--;
      p->bBack = 1;
      return 1;
    case CQ_CLAIM:
      return cqWorldClaim(p, i, pStep->n);
    case CQ_CANCEL:
      if( !cqWorldFree(p, i) ) return 1;
      p->aRow[i].bThere = p->aRow[i].bClaimed = 0;
      return cqWorldDisplace(p, i);
    default:
      return cqWorldVerb(p, pStep->eKind, i);
  }
}

/* Every claim that was ever given out is judged as the ghost judges it. */
static const char *cqWorldClaims(const CqWorld *p){
  int i, j;
  for(i=0; i<p->nClaim; i++){
    const struct CqWorldClaim *pClaim = &p->aClaim[i];
    int bHolds = !pClaim->bLost && !pClaim->bSettled;
    int e = cqWorldVerdict(p, pClaim, pClaim->iToken);
    int eWrong = cqWorldVerdict(p, pClaim, pClaim->iToken+1);
    if( bHolds && e!=CQ_HOLD_OK ) return "an undisplaced claim is lost";
    if( !bHolds && e==CQ_HOLD_OK ) return "a displaced claim still holds";
    if( bHolds && eWrong!=CQ_HOLD_TOKEN ) return "a wrong token passes";
    if( e==CQ_HOLD_TOKEN ) return "the right token is refused";
    if( e==CQ_HOLD_NEVER ) return "a claim that was made never was";
    if( (e==CQ_HOLD_UNKNOWN)!=(eWrong==CQ_HOLD_UNKNOWN) ) return "unknown?";
    if( e==CQ_HOLD_UNKNOWN && p->aRow[pClaim->iHead].bThere ) return "unknown";
    for(j=0; j<i; j++){
      if( p->aClaim[j].iHead==pClaim->iHead
       && p->aClaim[j].iFence==pClaim->iFence ) return "claim id given twice";
    }
  }
  return 0;
}

/* What must hold after every step.  0, or what does not. */
static const char *cqWorldBroken(const CqWorld *pOld, const CqWorld *p){
  int i, j;
  for(i=0; i<p->nRow; i++){
    int nHolder = 0;
    for(j=0; j<p->nClaim; j++){
      const struct CqWorldClaim *pClaim = &p->aClaim[j];
      if( (pClaim->mRow>>i & 1)==0 || pClaim->bLost || pClaim->bSettled ){
        continue;
      }
      nHolder++;
      if( p->aRow[i].iExpires!=pClaim->iExpires ) return "lease out of step";
    }
    if( nHolder>1 ) return "a row has two holders";
    /* A claim that lost one row leaves its stamp on the others.  They were
    ** expired, but a clock that goes back makes them wait once more. */
    if( nHolder==0 && p->aRow[i].bClaimed && !cqWorldFree(p, i)
     && !p->bBack ) return "a row is kept for nobody";
    if( p->aRow[i].nFence<pOld->aRow[i].nFence ) return "a fence went back";
    if( p->aRow[i].bThere && !pOld->aRow[i].bThere ) return "a row came back";
  }
  return cqWorldClaims(p);
}

/* The history so far, for a message.  A static buffer. */
static const char *cqHistory(int n){
  static const char *const azKind[] = {
    "tick", "back", "claim", "cancel", "renew", "complete", "release"
  };
  static char z[400];
  int i, k = 0;
  for(i=0; i<n; i++){
    const CqStep *p = &aHistory[i];
    k += sprintf(&z[k], " %s", azKind[p->eKind]);
    if( p->eKind>=CQ_CLAIM ) k += sprintf(&z[k], " %d", p->iWho);
    if( p->eKind==CQ_CLAIM ) k += sprintf(&z[k], "*%d", p->n);
    z[k++] = ';';
  }
  z[k] = 0;
  return z;
}

/* Run one step in a copy of the world, check, and go on from there. */
static void cqExplore(const CqWorld*, int nOwner, int nStep, int nLeft);
static void cqTryStep(
  const CqWorld *pOld, int nOwner, int nStep, int nLeft,
  int eKind, int iWho, int n
){
  CqWorld w = *pOld;
  CqStep *pStep = &aHistory[nStep];
  const char *zWhy;
  int bLost = eKind>=CQ_RENEW
           && (w.aClaim[iWho].bLost || w.aClaim[iWho].bSettled);
  pStep->eKind = eKind;
  pStep->iWho = iWho;
  pStep->n = n;
  zWhy = cqWorldStep(&w, pStep) ? cqWorldBroken(pOld, &w) : "the step is wrong";
  if( zWhy==0 && bLost && memcmp(&w, pOld, sizeof(w)) ){
    zWhy = "a lost claim changed something";
  }
  cqCheck(zWhy==0, "after%s %s", cqHistory(zWhy ? nStep+1 : 0), zWhy);
  if( zWhy==0 && nLeft>1 ) cqExplore(&w, nOwner, nStep+1, nLeft-1);
}

/* All histories that begin with the nStep steps that led to this world. */
static void cqExplore(const CqWorld *p, int nOwner, int nStep, int nLeft){
  int i, n, e;
  cqTryStep(p, nOwner, nStep, nLeft, CQ_TICK, 0, 0);
  if( p->iNow>0 ) cqTryStep(p, nOwner, nStep, nLeft, CQ_BACK, 0, 0);
  for(i=0; i<nOwner; i++) for(n=1; n<=p->nRow; n++){
    cqTryStep(p, nOwner, nStep, nLeft, CQ_CLAIM, i, n);
  }
  for(i=0; i<p->nRow; i++){
    if( p->aRow[i].bThere ){
      cqTryStep(p, nOwner, nStep, nLeft, CQ_CANCEL, i, 0);
    }
  }
  for(i=0; i<p->nClaim; i++) for(e=CQ_RENEW; e<=CQ_RELEASE; e++){
    cqTryStep(p, nOwner, nStep, nLeft, e, i, 0);
  }
}

static void cqHistories(int nOwner, int nRow, int nStep){
  CqWorld w;
  int i;
  memset(&w, 0, sizeof(w));
  w.nRow = (u8)nRow;
  for(i=0; i<nRow; i++) w.aRow[i].bThere = 1;
  cqExplore(&w, nOwner, 0, nStep);
}

static void cqTestHistories(void){
  cqHistories(2, 2, 6);
  cqHistories(3, 3, 4);
}
