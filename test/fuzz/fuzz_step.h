/*
** fuzz_step.h: durable steps, jobs that are given back until others have ended,
** and jobs that are completed from outside (for fuzz_ops.c, a part of it).
**
** What is known of them: the first value of a step wins, and stays with the
** work through retries, reclaims and dead letters, until it is done; a job that
** waits for others so runs however they end; nothing waits for itself.
*/

static const char *const fzStepName[FZ_NSTEP] = { "a", "b" };

/* A claim that counts stored value i under name n, or there was one. */
static void fzStepped(FzClaim *p, int n, i64 i){
  FzItem *pItem = &fzM.aItem[p->aItem[0]];
  if( pItem->aStep[n]==0 ) pItem->aStep[n] = i;
  fzExpect(pItem->aStep[n]);
}

static void fzWorkStep(void){
  int n = fzChoose(FZ_NSTEP), bRenew = fzChoose(3)==2, bRight, bLost;
  i64 iValue = 1+fzChoose(100), iTtl = fzTtl();
  const char *zCode;
  FzClaim *p;
  if( fzM.nClaim==0 ) return;
  p = &fzM.aClaim[fzLastClaim(12)];
  fzBeginArgs();
  fzAdd(fzText(p->zId));
  fzAdd(fzText(fzChoose(8)!=7 ? p->zToken
                              : fzM.aClaim[fzChoose(fzM.nClaim)].zToken));
  bRight = strcmp(fzArg[1].z, p->zToken)==0;
  fzAdd(fzText(fzStepName[n]));
  fzAdd(fzInt(iValue));
  fzOpt("now_ms", fzInt(fzNow));
  if( bRenew ) fzOpt("lease_ms", fzInt(iTtl));
  zCode = fzFunc("claimq_step", " claim_lost bad_argument no_slot ");
  bLost = zCode && strcmp(zCode, "claim_lost")==0;
  if( p->eKind!=FZ_SESSION && p->eKind!=FZ_LANE ){
    if( zCode==0 || bLost ) fzDie("%s has a step", p->zId);
  }else if( !bRight || fzLost(p) ){
    if( !bLost ) fzDie("a step of %s, which is lost", p->zId);
  }else if( zCode && strcmp(zCode, "no_slot")==0 && bRenew
         && p->eKind==FZ_LANE && p->iExpires<=fzNow
  ){
    /* It has expired, and the slot is taken. */
  }else if( zCode ){
    fzDie("claim %s counts, but: %s", p->zId, fzDb.zErr);
  }else{
    fzStepped(p, n, iValue);
    if( bRenew ) p->iExpires = fzEnds(fzRuns(p), p->iBegan, iTtl);
  }
}

/* item, name, value; steps of jobs have the job instead of the item. */
static int fzStepCount;
static void fzStepIs(int iItem, sqlite3_stmt *pStmt){
  int n = strcmp(fzColText(pStmt, 1), fzStepName[1])==0;
  if( fzM.aItem[iItem].aStep[n]!=sqlite3_column_int64(pStmt, 2) ){
    fzDie("a step of item %d has another value", iItem);
  }
  if( fzM.aItem[iItem].eState==FZ_WAIT ) fzStepCount++;
}

static int fzBatchStep(void *pArg, sqlite3_stmt *pStmt){
  (void)pArg;
  fzStepIs(sqlite3_column_int(pStmt, 0), pStmt);
  return 1;
}

static int fzJobStep(void *pArg, sqlite3_stmt *pStmt){
  i64 iJob = sqlite3_column_int64(pStmt, 0);
  int iItem = fzJobOf(iJob)->iItem;
  (void)pArg;
  if( fzM.aItem[iItem].iRow!=iJob ) fzDie("job %lld left steps behind", iJob);
  fzStepIs(iItem, pStmt);
  return 1;
}

/* Work that waits has all its steps. */
static void fzCheckSteps(void){
  int i, j, n = 0;
  fzStepCount = 0;
  fzLook("SELECT b.payload, s.name, s.value FROM claimq_batch_steps AS s,"
         " claimq_batch AS b WHERE b.enqueue_seq=s.enqueue_seq", fzBatchStep);
  fzLook("SELECT job_id, name, value FROM claimq_steps", fzJobStep);
  for(i=0; i<fzM.nItem; i++){
    for(j=0; j<FZ_NSTEP && fzM.aItem[i].eState==FZ_WAIT; j++){
      n += fzM.aItem[i].aStep[j]!=0;
    }
  }
  if( n!=fzStepCount ) fzDie("%d steps, not %d", fzStepCount, n);
}

/* A job that nobody holds is completed from outside. */
static void fzResolve(void){
  FzItem *p = fzSomeItem(FZ_LANE);
  const char *zCode;
  int bLive;
  if( p==0 ) return;
  bLive = p->eState==FZ_WAIT && fzLive(p->iClaim, fzNow);
  fzBeginArgs();
  fzAdd(fzInt(p->iRow));
  fzAdd(fzInt(7));
  fzOpt("now_ms", fzInt(fzNow));
  zCode = fzFunc("claimq_resolve", " conflict not_found ");
  if( zCode ){
    if( strcmp(zCode, "conflict")==0 ? !bLive : fzJobStored(p->iRow) ){
      fzDie("resolve of job %lld: %s", p->iRow, fzDb.zErr);
    }
    return;
  }
  if( bLive ) fzDie("job %lld is held, and was resolved", p->iRow);
  fzExpect(p->eState==FZ_WAIT);
  if( p->eState!=FZ_WAIT ) return;
  fzGone(p, FZ_DONE);
  fzEndJob(p->iRow, FZ_COMPLETED);
}
