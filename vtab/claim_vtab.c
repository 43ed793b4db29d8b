/*
** claim_vtab.c: the one claim module.
**
** All claim tables are instances of this module; what differs is in their
** CqTableDef.  The methods are thin:
**
**   xConnect    declares result columns, then the arguments as hidden columns
**   xBestIndex  asks claim_plan.c and words its refusals
**   xFilter     reads the arguments and calls the discipline, which claims;
**               with equal arguments it replays
**   xColumn     copies from the buffered rows
**
** No plan may claim twice: an answer is replayed wherever its arguments come
** again in the same execution of a statement.  See replay.c.
**
** A claim must come from a table of the temp schema, because a SELECT from an
** eponymous table opens a read transaction on main first and could then not
** wait for the lock.  The first statement that names a claim table finds the
** eponymous one, and preparing it creates that of the same name in temp; later
** ones find that.  Since 3.51 SQLite then prepares the first one again at once;
** before, it starts over with the new table when it is run.
**
** Inside a transaction that would be too late to wait: what was read stays
** read.  There the lock is taken when the statement is prepared, while nothing
** of main was read.  The table is created when the claim begins, unless the
** statement writes, and the statement starts over.  If the transaction is
** rolled back, all this begins anew.  Where nothing can be created, under
** query_only say, and in a statement that returns rows before it claims, the
** eponymous table serves.
*/
#include "claimq_int.h"

#define CQ_MOVE_LOOK 1000         /* See cqMoveSafe() */
#define CQ_CONNECT_AGAIN 3051001  /* See cqVtabAgain() */

typedef struct CqModule CqModule; /* Client data of one registered module */
struct CqModule {
  CqConn *pConn;
  const CqTableDef *pDef;
};

typedef struct CqCursor CqCursor;
typedef struct CqVtab CqVtab;
struct CqVtab {
  sqlite3_vtab base;
  CqConn *pConn;
  const CqTableDef *pDef;
  u8 bTemp;                       /* In the temp schema; else eponymous */
  int nCol;                       /* Result columns; the arguments follow */
  int aiCol[CQ_MAX_ARG];          /* Column of each argument */
  int aiAlias[CQ_MAX_ARG];        /* Result column of the same name, or -1 */
};

struct CqCursor {
  sqlite3_vtab_cursor base;
  CqUser user;                    /* See replay.c */
  CqAnswer *pNow;                 /* What is being read; 0: nothing */
  int iRow;
};

/**************************************************************************
** Connecting
*/

/*
** What follows the first word of a list of words that are separated by blanks.
*/
static const char *cqColumnNext(const char *z){
  z += strcspn(z, " ");
  return z + strspn(z, " ");
}

/*
** The result column that has the name zName, or -1.  zCols is as in CqTableDef.
*/
static int cqColumnFind(const char *zCols, const char *zName, int nName){
  int iCol = 0;
  const char *z;
  for(z=zCols; *z; z=cqColumnNext(z), iCol++){
    if( strcspn(z, ":")==(size_t)nName && strncmp(z, zName, (size_t)nName)==0 ){
      return iCol;
    }
  }
  return -1;
}

/*
** How many columns there are in a list as CqTableDef has it.
*/
static int cqColumnCount(const char *zCols){
  int n = 0;
  const char *z;
  for(z=zCols; *z; z=cqColumnNext(z)) n++;
  return n;
}

/*
** The declared type of a column, as it follows the name: drivers and other
** engines look at it.
*/
static const char *cqColumnType(char c){
  switch( c ){
    case 'i': return "\" INTEGER,";
    case 't': return "\" TEXT,";
  }
  assert( c=='b' );
  return "\" BLOB,";
}

/*
** Declare the table to SQLite: the result columns, then the arguments.  An
** argument with the name of a result column gets an underscore: it can be
** given by position, or by name through the result column.  Arguments have no
** type: it would change what they are compared with.
*/
static int cqVtabDeclare(
  sqlite3 *db, const CqVtab *p, const char *zCols, char **pzErr
){
  sqlite3_str *pList = sqlite3_str_new(db);
  char *zList, *zSql;
  int i, rc = SQLITE_NOMEM;
  for(; *zCols; zCols=cqColumnNext(zCols)){
    int n = (int)strcspn(zCols, ":");
    sqlite3_str_appendchar(pList, 1, '"');
    sqlite3_str_append(pList, zCols, n);
    sqlite3_str_appendall(pList, cqColumnType(zCols[n+1]));
  }
  for(i=0; i<p->pDef->nArg; i++){
    sqlite3_str_appendchar(pList, 1, '"');
    sqlite3_str_appendall(pList, p->pDef->aArg[i].zName);
    sqlite3_str_appendall(pList, p->aiAlias[i]>=0 ? "_\" HIDDEN,"
                                                  : "\" HIDDEN,");
  }
  if( sqlite3_str_length(pList)>0 ){      /* The last comma */
    sqlite3_str_value(pList)[sqlite3_str_length(pList)-1] = ' ';
  }
  zList = sqlite3_str_finish(pList);
  if( zList==0 ) return SQLITE_NOMEM;
  zSql = sqlite3_mprintf(claimqSql[CQ_SQL_CLAIM_DECLARE].zSql, zList);
  if( zSql ) rc = claimqDeclare(db, zSql, pzErr);
  sqlite3_free(zSql);
  sqlite3_free(zList);
  return rc;
}

/*
** xDisconnect and xDestroy.  The table has given away no statement.
*/
static int cqVtabDisconnect(sqlite3_vtab *pVtab){
  CqVtab *p = (CqVtab*)pVtab;
  claimqConnUnref(p->pConn);
  sqlite3_free(p);
  return SQLITE_OK;
}

/*
** Was this table created by CREATE VIRTUAL TABLE, in a database that lasts?  If
** not, it is the eponymous one, which is in main and has the module's name: so
** look into main, where the name stands already, if it is being written.
** Returns an SQLite code.
*/
static int cqVtabStored(
  const CqVtab *p, const char *const *argv, int *pbStored
){
  const char *zName = p->pDef->zName;
  sqlite3 *db = p->pConn->db;
  sqlite3_stmt *pStmt = 0;
  CqOp op;
  int rc;
  *pbStored = !p->bTemp && (sqlite3_stricmp(argv[1], "main")!=0
                            || sqlite3_stricmp(argv[2], zName)!=0);
  if( p->bTemp || *pbStored
   || sqlite3_txn_state(db, "main")!=SQLITE_TXN_WRITE
  ){
    return SQLITE_OK;
  }
  rc = sqlite3_prepare_v2(db, claimqSql[CQ_SQL_SCHEMA_OBJECT].zSql, -1, &pStmt,
                          0);
  if( rc==SQLITE_OK ){
    rc = sqlite3_bind_text(pStmt, CQ_SCHEMA_OBJECT_name, zName, -1,
                           SQLITE_STATIC);
  }
  if( rc==SQLITE_OK ){
    rc = sqlite3_bind_int64(pStmt, CQ_SCHEMA_OBJECT_trigger, 0);
  }
  claimqOpInit(&op, p->pConn);
  claimqFailRc(&op, rc);
  *pbStored = claimqSchemaRow(&op, pStmt);
  sqlite3_finalize(pStmt);
  rc = op.rc;
  claimqOpClear(&op);
  return rc;
}

/* What became of a claim table in temp. */
#define CQ_ATTACH_FAILED 0        /* It cannot be created here */
#define CQ_ATTACH_OLD    1        /* It was there before */
#define CQ_ATTACH_NEW    2        /* It was created */

/*
** CREATE VIRTUAL TABLE IF NOT EXISTS temp.name: CQ_ATTACH_*.  If this fails,
** the caller does without, and another call tries again.
*/
static int cqVtabAttach(CqConn *pConn, const CqTableDef *pDef){
  int nTemp = pConn->claims.nTemp;
  CqOp op;
  char *zSql;
  int bOk;
  claimqOpInit(&op, pConn);
  zSql = sqlite3_mprintf(claimqSql[CQ_SQL_CLAIM_ATTACH].zSql, pDef->zName,
                         pDef->zName);
  if( zSql==0 ) op.rc = SQLITE_NOMEM;
  claimqExecSql(&op, zSql);
  bOk = op.rc==SQLITE_OK;
  sqlite3_free(zSql);
  claimqOpClear(&op);
  if( !bOk ) return CQ_ATTACH_FAILED;
  return pConn->claims.nTemp>nTemp ? CQ_ATTACH_NEW : CQ_ATTACH_OLD;
}

/*
** From xConnect of an eponymous table: 1 if its table of temp is created by
** this, and SQLite is to look for the name once more.  SQLite does so, since
** CQ_CONNECT_AGAIN, if that is the code that xConnect returns: nothing has to
** start over later, and bindings that ask at once where a column comes from
** (sqlx) get the name of a table that SQLite knows.  Not while a statement
** writes: ALTER TABLE reads the triggers that name a claim table, and does not
** repeat it.
*/
static int cqVtabAgain(CqConn *pConn, const CqTableDef *pDef){
  CqOp op;
  int rc;
  if( !pDef->bWrites || sqlite3_libversion_number()<CQ_CONNECT_AGAIN
   || !sqlite3_get_autocommit(pConn->db)
   || claimqStmtWriting(pConn, CQ_MOVE_LOOK)!=0
  ){
    return 0;
  }
  claimqOpInit(&op, pConn);
  claimqCheckWritable(&op);
  rc = op.rc;
  claimqOpClear(&op);
  return rc==SQLITE_OK && cqVtabAttach(pConn, pDef)==CQ_ATTACH_NEW;
}

/*
** xCreate and xConnect.  Returns an SQLite code; the message in *pzErr is
** SQLite's to free.  Raises bad_argument for CREATE VIRTUAL TABLE in a database
** that lasts.  SQLITE_ERROR_RETRY: the statement is prepared once more.
*/
static int cqVtabConnect(
  sqlite3 *db, void *pAux, int argc, const char *const *argv,
  sqlite3_vtab **ppVtab, char **pzErr
){
  CqModule *pModule = (CqModule*)pAux;
  const CqTableDef *pDef = pModule->pDef;
  CqVtab *p = sqlite3_malloc(sizeof(*p));
  char *zCols;
  int i, rc, bStored;
  (void)argc;
  if( p==0 ) return SQLITE_NOMEM;
  memset(p, 0, sizeof(*p));
  p->pConn = pModule->pConn;
  claimqConnRef(p->pConn);
  p->pDef = pDef;
  p->bTemp = sqlite3_stricmp(argv[1], "temp")==0;
  assert( argc>2 );
  rc = cqVtabStored(p, argv, &bStored);
  if( rc ){
    *pzErr = sqlite3_mprintf("%s", sqlite3_errstr(rc));
    cqVtabDisconnect(&p->base);
    return rc;
  }
  if( bStored ){
    *pzErr = sqlite3_mprintf("claimq: " CQ_BAD_ARGUMENT ": %s needs no CREATE "
        "VIRTUAL TABLE: FROM %s(%s, ...)",
        pDef->zName, pDef->zName, pDef->aArg[0].zName);
    cqVtabDisconnect(&p->base);
    return SQLITE_ERROR;
  }
  if( !p->bTemp && cqVtabAgain(p->pConn, pDef) ){
    *pzErr = sqlite3_mprintf("claimq: %s is now in temp: the statement is "
        "prepared again", pDef->zName);     /* For the log */
    cqVtabDisconnect(&p->base);
    return SQLITE_ERROR_RETRY;
  }
  if( p->bTemp ) p->pConn->claims.nTemp++;
  rc = SQLITE_NOMEM;
  zCols = sqlite3_mprintf("%s%s", pDef->zCols,
                          pDef->bClaimCols ? " " CQ_CLAIM_COLS : "");
  if( zCols ){
    p->nCol = cqColumnCount(zCols);
    assert( p->nCol<32 );         /* CqRows.mSkip has a bit for each */
    for(i=0; i<pDef->nArg; i++){
      const char *zName = pDef->aArg[i].zName;
      p->aiCol[i] = p->nCol + i;
      p->aiAlias[i] = cqColumnFind(zCols, zName, (int)strlen(zName));
    }
    rc = cqVtabDeclare(db, p, zCols, pzErr);
    sqlite3_free(zCols);
  }
  if( rc==SQLITE_OK ){
    rc = sqlite3_vtab_config(db, pDef->bWrites ? SQLITE_VTAB_DIRECTONLY
                                               : SQLITE_VTAB_INNOCUOUS);
  }
  if( rc ){
    cqVtabDisconnect(&p->base);
    return rc;
  }
  *ppVtab = &p->base;
  return SQLITE_OK;
}

/**************************************************************************
** Planning
*/

/*
** 1 if ORDER BY term i of pInfo is the i-th column that the table delivers
** its rows by.
*/
static int cqOrderTerm(const CqVtab *p, sqlite3_index_info *pInfo, int i){
  const char *z = p->pDef->zOrder;
  int j, n, bDesc;
  assert( i>=0 && i<pInfo->nOrderBy );
  for(j=0; j<i; j++) z = cqColumnNext(z);
  bDesc = *z=='-';
  z += bDesc;
  n = (int)strcspn(z, " ");
  return n>0
      && cqColumnFind(p->pDef->zCols, z, n)==pInfo->aOrderBy[i].iColumn
      && pInfo->aOrderBy[i].desc==bDesc;
}

/*
** 1 if the table delivers its rows in the order that is asked for.
*/
static int cqOrderDelivered(const CqVtab *p, sqlite3_index_info *pInfo){
  int i;
  for(i=0; i<pInfo->nOrderBy; i++){
    if( !cqOrderTerm(p, pInfo, i) ) return 0;
  }
  return 1;
}

/*
** CqTerm.bConst of a constraint.
*/
static u8 cqTermConst(sqlite3_index_info *pInfo, int i){
  sqlite3_value *pRhs = 0;
  int rc = sqlite3_vtab_rhs_value(pInfo, i, &pRhs);
  switch( pInfo->aConstraint[i].op ){
    case SQLITE_INDEX_CONSTRAINT_ISNULL:
    case SQLITE_INDEX_CONSTRAINT_ISNOTNULL:
      return 1;
    case SQLITE_INDEX_CONSTRAINT_LIMIT:
      return 0;
    case SQLITE_INDEX_CONSTRAINT_OFFSET:
      return rc==SQLITE_OK && sqlite3_value_int64(pRhs)>0;
  }
  return rc==SQLITE_OK || sqlite3_vtab_in(pInfo, i, -1);
}

/*
** 1 if constraint i is an equality of the usual kind with a known value.
*/
static int cqTermEqual(sqlite3_index_info *pInfo, int i){
  return pInfo->aConstraint[i].op==SQLITE_INDEX_CONSTRAINT_EQ
      && pInfo->aConstraint[i].usable
      && sqlite3_stricmp(sqlite3_vtab_collation(pInfo, i), "BINARY")==0;
}

/*
** The argument that has the name of result column iCol, or -1.
*/
static int cqAliasOf(const CqVtab *p, int iCol){
  int i;
  for(i=0; i<p->pDef->nArg; i++){
    if( iCol>=0 && p->aiAlias[i]==iCol ) return i;
  }
  return -1;
}

/*
** A table that only looks: 1 if a constraint on result column iCol, which has
** the name of an argument, is that and nothing else, because NULL means
** something there (any session): SQLite, who would compare the rows with NULL,
** is not to look at it again.
*/
static int cqAliasOnly(const CqVtab *p, int iCol){
  int iArg = cqAliasOf(p, iCol);
  assert( iArg>=0 && !p->pDef->bWrites );
  return (p->pDef->aArg[iArg].mFlag & CQ_A_NULL)!=0;
}

/*
** A table that only looks: 1 if constraint i, which is on a result column, is
** to be an argument as well.  It is the first equality with the column that
** has the argument's name; SQLite will check the rows again.
*/
static int cqTermPushed(const CqVtab *p, sqlite3_index_info *pInfo, int i){
  int j, iArg = cqAliasOf(p, pInfo->aConstraint[i].iColumn);
  if( iArg<0 ) return 0;
  for(j=0; j<pInfo->nConstraint; j++){
    if( pInfo->aConstraint[j].iColumn==p->aiCol[iArg] ) return 0;
  }
  if( cqAliasOnly(p, pInfo->aConstraint[i].iColumn) ) return 1;
  if( !cqTermEqual(pInfo, i) ) return 0;
  for(j=0; j<pInfo->nConstraint; j++){
    int iCol = pInfo->aConstraint[j].iColumn;
    if( j<i && iCol==p->aiAlias[iArg] && cqTermEqual(pInfo, j) ) return 0;
  }
  return 1;
}

/*
** Translate the constraints for claim_plan.c.  aTerm has room for all.  A table
** that only looks has nothing to lose: SQLite may filter and limit its rows.
*/
static void cqVtabTerms(
  const CqVtab *p, sqlite3_index_info *pInfo, CqTerm *aTerm
){
  int i;
  for(i=0; i<pInfo->nConstraint; i++){
    aTerm[i].iCol = pInfo->aConstraint[i].iColumn;
    aTerm[i].bUsable = pInfo->aConstraint[i].usable!=0;
    aTerm[i].bConst = cqTermConst(pInfo, i);
    switch( pInfo->aConstraint[i].op ){
      case SQLITE_INDEX_CONSTRAINT_EQ:
      case SQLITE_INDEX_CONSTRAINT_IS:
      case SQLITE_INDEX_CONSTRAINT_ISNULL: aTerm[i].eOp = CQ_OP_EQ;     break;
      case SQLITE_INDEX_CONSTRAINT_LIMIT:  aTerm[i].eOp = CQ_OP_LIMIT;  break;
      case SQLITE_INDEX_CONSTRAINT_OFFSET: aTerm[i].eOp = CQ_OP_OFFSET; break;
      default:                             aTerm[i].eOp = CQ_OP_OTHER;  break;
    }
    if( !p->pDef->bWrites && (aTerm[i].iCol<p->nCol     /* LIMIT's is 0 */
         || CQ_NEVER(aTerm[i].eOp==CQ_OP_LIMIT)
         || CQ_NEVER(aTerm[i].eOp==CQ_OP_OFFSET))
     && !cqTermPushed(p, pInfo, i)
    ){
      aTerm[i].bUsable = 0;
      aTerm[i].eOp = CQ_OP_OTHER;
      aTerm[i].iCol = -1;
    }
  }
}

static void cqFailFilter(CqOp *pOp, const CqTableDef *pDef){
  claimqFail(pOp, CQ_UNSAFE_PLAN, "a filter on a result column of %s would "
      "throw claimed rows away: filter after the claim", pDef->zName);
}

static void cqFailOffset(CqOp *pOp, const CqTableDef *pDef){
  claimqFail(pOp, CQ_UNSAFE_PLAN,
      "OFFSET would throw rows away that %s has claimed", pDef->zName);
}

/*
** Word a refusal of claim_plan.c.
*/
static void cqVtabRefuse(CqOp *pOp, const CqVtab *p, int ePlan, int iBad){
  const CqTableDef *pDef = p->pDef;
  assert( ePlan!=CQ_PLAN_OK && ePlan!=CQ_PLAN_AVOID && ePlan!=CQ_PLAN_RETRY );
  switch( ePlan ){
    case CQ_PLAN_MISSING:
      claimqFail(pOp, CQ_BAD_ARGUMENT, "%s is required: FROM %s(%s, ...)",
          pDef->aArg[iBad].zName, pDef->zName, pDef->aArg[0].zName);
      break;
    case CQ_PLAN_HIDDEN:
      claimqFail(pOp, CQ_BAD_ARGUMENT, "%s is required, and SQLite does not "
          "show it in an OR or a RIGHT JOIN: WITH c AS MATERIALIZED "
          "(SELECT * FROM %s(%s, ...))", pDef->aArg[iBad].zName, pDef->zName,
          pDef->aArg[0].zName);
      break;
    case CQ_PLAN_TWICE:
      claimqFail(pOp, CQ_BAD_ARGUMENT, "%s is given twice",
          pDef->aArg[iBad].zName);
      break;
    case CQ_PLAN_ARG_OP:
      claimqFail(pOp, CQ_BAD_ARGUMENT, "%s is an argument of %s and takes "
          "= only", pDef->aArg[iBad].zName, pDef->zName);
      break;
    case CQ_PLAN_FILTER:
      cqFailFilter(pOp, pDef);
      break;
    case CQ_PLAN_OFFSET:
      cqFailOffset(pOp, pDef);
      break;
    default:
      claimqFail(pOp, CQ_UNSAFE_PLAN, "this LIMIT would throw rows away that "
          "%s has claimed: use it without OFFSET and without an ORDER BY of "
          "your own, or give a maximum", pDef->zName);
  }
}

/*
** Write the plan where SQLite wants it, to be avoided if there is another.  The
** number of the prepare goes with it.  Returns SQLITE_OK or SQLITE_NOMEM;
** SQLite frees idxStr.
*/
static int cqVtabAccept(
  const CqVtab *p, sqlite3_index_info *pInfo, const CqPlan *pPlan,
  CqPrep *pPrep, int bAvoid
){
  int i;
  assert( (int)strlen(pPlan->zPlan)==pPlan->nTerm );
  assert( pPlan->nTerm<=pInfo->nConstraint );
  pInfo->idxStr = sqlite3_mprintf("%s%lld", pPlan->zPlan, pPrep->iPrep);
  if( pInfo->idxStr==0 ) return SQLITE_NOMEM;
  pInfo->needToFreeIdxStr = 1;
  pPrep->mUsed |= (u32)pInfo->colUsed;
  for(i=0; i<pPlan->nTerm; i++){
    pInfo->aConstraintUsage[pPlan->aiTerm[i]].argvIndex = i+1;
    /* An OFFSET is 0, or xFilter refuses it.  It stays SQLite's: to omit it
    ** would clear the register from which its value is copied (a build of
    ** 3.39.0 with SQLITE_DEBUG then hides the value). */
    pInfo->aConstraintUsage[pPlan->aiTerm[i]].omit = (p->pDef->bWrites
        || pInfo->aConstraint[pPlan->aiTerm[i]].iColumn>=p->nCol
        || cqAliasOnly(p, pInfo->aConstraint[pPlan->aiTerm[i]].iColumn))
        && pInfo->aConstraint[pPlan->aiTerm[i]].op
           !=SQLITE_INDEX_CONSTRAINT_OFFSET;
  }
  pInfo->orderByConsumed = pInfo->nOrderBy>0 && cqOrderDelivered(p, pInfo);
  pInfo->estimatedCost = bAvoid ? 1e99 : 10.0;
  pInfo->estimatedRows = 10;
  return SQLITE_OK;
}

/*
** 1 if the statement reads all result columns and has no conditions, as SELECT
** * does: then it names no argument by reading a column of the same name.
*/
static int cqVtabStar(const CqVtab *p, const sqlite3_index_info *pInfo){
  sqlite3_uint64 mAll = ((sqlite3_uint64)1<<p->nCol) - 1;
  int i;
  for(i=0; i<pInfo->nConstraint; i++){
    if( pInfo->aConstraint[i].op!=SQLITE_INDEX_CONSTRAINT_LIMIT
     && pInfo->aConstraint[i].op!=SQLITE_INDEX_CONSTRAINT_OFFSET ) return 0;
  }
  return (pInfo->colUsed & mAll)==mAll;
}

/*
** What claim_plan.c says of the constraints.
*/
static int cqVtabPlan(
  CqOp *pOp, const CqVtab *p, sqlite3_index_info *pInfo, CqPlan *pPlan
){
  const CqTableDef *pDef = p->pDef;
  CqTerm *aTerm = claimqMalloc(pOp, (pInfo->nConstraint+1)*(i64)sizeof(CqTerm));
  CqShape shape;
  int i, bStar, ePlan;
  if( aTerm==0 ) return CQ_PLAN_RETRY;
  cqVtabTerms(p, pInfo, aTerm);
  shape.nArg = pDef->nArg;
  shape.aiCol = p->aiCol;
  shape.aiAlias = p->aiAlias;
  shape.mRequired = 0;
  shape.mRead = (u32)(pInfo->colUsed>>p->nCol);
  shape.mShown = 0;
  bStar = cqVtabStar(p, pInfo);
  for(i=0; i<pDef->nArg; i++){
    if( !bStar && p->aiAlias[i]>=0 && (pInfo->colUsed>>p->aiAlias[i] & 1) ){
      shape.mShown |= (u32)1<<i;
    }
    if( pDef->aArg[i].mFlag & (CQ_A_REQUIRED|CQ_A_NULL) ){
      shape.mRequired |= (u32)1<<i;
    }
  }
  ePlan = claimqPlan(&shape, aTerm, pInfo->nConstraint,
                     !cqOrderDelivered(p, pInfo), pPlan);
  sqlite3_free(aTerm);
  return ePlan;
}

/*
** Count the tables that have no plan but one to AVOID: such a statement should
** be refused before another of its tables has claimed.  SQLite asks for each
** table with all constraints usable first.
*/
static void cqVtabCountAvoid(
  const CqVtab *p, const sqlite3_index_info *pInfo, CqPrep *pPrep, int bAvoid
){
  int i;
  for(i=0; i<pInfo->nConstraint && pInfo->aConstraint[i].usable; i++){}
  if( i==pInfo->nConstraint ){
    pPrep->bAvoid = (u8)bAvoid;
    pPrep->nAvoid += bAvoid;
    if( bAvoid ) pPrep->pAvoid = p->pDef;
  }else if( !bAvoid ){
    pPrep->nAvoid -= pPrep->bAvoid;
    pPrep->bAvoid = 0;
  }
}

/*
** From xBestIndex: an eponymous table cannot wait for the lock.  In autocommit
** create that of temp.  Inside a transaction that has not read main take the
** lock now; if that fails, then so will the claim, in better words, unless
** SQLite has ended the transaction.
*/
static void cqVtabAhead(CqOp *pOp, const CqVtab *p, CqPrep *pPrep){
  if( pOp->rc || p->bTemp ) return;
  if( sqlite3_get_autocommit(pOp->db) ){
    int nTemp = p->pConn->claims.nTemp;
    cqVtabAttach(p->pConn, p->pDef);
    /* It may be there although that was interrupted. */
    if( p->pConn->claims.nTemp>nTemp ) pPrep->bMade = 1;
  }else if( sqlite3_txn_state(pOp->db, CQ_SCHEMA)==SQLITE_TXN_NONE ){
    claimqExecSql(pOp, claimqSql[CQ_SQL_TXN_LOCK].zSql);
    if( !sqlite3_get_autocommit(pOp->db) ) claimqOpReset(pOp);
  }
}

/*
** xBestIndex: collect the constraints and let claim_plan.c decide.  Nothing is
** claimed.  Returns SQLITE_OK with a plan, SQLITE_CONSTRAINT if SQLite is to
** try others, or an error: read_only, unsupported, bad_argument, unsafe_plan.
*/
static int cqVtabBestIndex(sqlite3_vtab *pVtab, sqlite3_index_info *pInfo){
  CqVtab *p = (CqVtab*)pVtab;
  CqPrep *pPrep = claimqPrepNow(p->pConn);
  CqPlan plan;
  CqOp op;
  int ePlan;
  claimqOpInit(&op, p->pConn);
  if( p->pDef->bWrites ){
    claimqCheckWritable(&op);
    cqVtabAhead(&op, p, pPrep);
  }
  ePlan = cqVtabPlan(&op, p, pInfo, &plan);
  if( op.rc ) return claimqOpVtab(&op, pVtab);
  if( ePlan==CQ_PLAN_RETRY ) return SQLITE_CONSTRAINT;
  if( ePlan==CQ_PLAN_OK || ePlan==CQ_PLAN_AVOID ){
    cqVtabCountAvoid(p, pInfo, pPrep, ePlan==CQ_PLAN_AVOID);
    return cqVtabAccept(p, pInfo, &plan, pPrep, ePlan==CQ_PLAN_AVOID);
  }
  cqVtabRefuse(&op, p, ePlan, plan.iBad);
  return claimqOpVtab(&op, pVtab);
}

/**************************************************************************
** Cursors
*/

/*
** xOpen.  The cursor belongs to no execution until it is filtered.
*/
static int cqVtabOpen(sqlite3_vtab *pVtab, sqlite3_vtab_cursor **ppCsr){
  CqConn *pConn = ((CqVtab*)pVtab)->pConn;
  CqCursor *p = sqlite3_malloc(sizeof(*p));
  if( p==0 ) return SQLITE_NOMEM;
  memset(p, 0, sizeof(*p));
  claimqUserOpen(pConn, &p->user);
  *ppCsr = &p->base;
  return SQLITE_OK;
}

/*
** xClose.  What the cursor stood on is freed with its execution: see replay.c.
*/
static int cqVtabClose(sqlite3_vtab_cursor *pCsr){
  CqCursor *p = (CqCursor*)pCsr;
  claimqUserClose(((CqVtab*)pCsr->pVtab)->pConn, &p->user);
  sqlite3_free(p);
  return SQLITE_OK;
}

/*
** Sort argv[] by the plan: apArg[] gets one value for each argument, 0 if it is
** not given.  The return value is the LIMIT.
*/
static i64 cqCursorArgs(
  CqOp *pOp, const CqTableDef *pDef, const char *zPlan, int nVal,
  sqlite3_value **apVal, sqlite3_value **apArg
){
  i64 nLimit = CQ_I64_MAX;
  int i;
  memset(apArg, 0, sizeof(apArg[0])*(size_t)pDef->nArg);
  for(i=0; i<nVal; i++){
    int iArg = claimqPlanArgv(zPlan, i);
    if( iArg>=0 ){
      assert( iArg<pDef->nArg && apArg[iArg]==0 );
      apArg[iArg] = apVal[i];
    }else if( iArg==CQ_PLAN_ARGV_LIMIT ){
      i64 n = sqlite3_value_int64(apVal[i]);
      if( n>=0 ) nLimit = n;
    }else if( iArg==CQ_PLAN_ARGV_AVOID ){
      cqFailFilter(pOp, pDef);
    }else if( sqlite3_value_int64(apVal[i])>0 ){
      cqFailOffset(pOp, pDef);
    }
  }
  return nLimit;
}

/*
** Claim: a new answer.  0 if op has an error or gets one here.
**
** The columns that no cursor of the statement reads are not copied, which saves
** 5 % of a session claim.
*/
static CqAnswer *cqCursorClaim(
  CqOp *pOp, CqCursor *p, sqlite3_value **apArg, i64 nLimit
){
  CqVtab *pTab = (CqVtab*)p->base.pVtab;
  const CqTableDef *pDef = pTab->pDef;
  const CqPrep *pPrep = claimqPrepFind(pOp->pConn, p->user.pReplay->iPrep);
  sqlite3_int64 iLast = sqlite3_last_insert_rowid(pOp->db);
  CqVal aArg[CQ_MAX_ARG];
  CqAnswer *pNew;
  int i;
  pNew = claimqReplayBegin(pOp, p->user.pReplay, pDef, pTab->nCol, apArg);
  for(i=0; i<pDef->nArg; i++){
    claimqRead(pOp, &pDef->aArg[i], apArg[i], &aArg[i]);
  }
  if( pOp->rc==SQLITE_OK ){
    /* It does something even if it claims nothing.  (done is the last.) */
    pNew->bActed = pDef->bWrites
                && CQ_HOOK(pDef->aArg[i-1].eRole==CQ_ROLE_DONE)
                && aArg[i-1].bGiven;
    pNew->rows.mSkip = pPrep ? ~pPrep->mUsed : 0;
    pNew->rows.iRowid = pOp->pConn->iNextRowid;
    claimqClaim(pOp, pDef, aArg, nLimit, &pNew->rows);
    /* To start over would be to claim again what was claimed before. */
    assert( pOp->rc!=SQLITE_SCHEMA || pNew->pNext==0 );
    pOp->pConn->iNextRowid += pNew->rows.nRow;
  }
  claimqRequestEnd(pOp);
  if( sqlite3_last_insert_rowid(pOp->db)!=iLast ){
    sqlite3_set_last_insert_rowid(pOp->db, iLast);
  }
  if( pOp->rc==SQLITE_OK ) return pNew;
  if( pNew ) claimqReplayForget(&pOp->pConn->claims, p->user.pReplay);
  return 0;
}

/*
** 1 if SQLite may start the statement over: it has claimed nothing yet, does
** not hold the lock already and, inside a transaction, writes nothing that
** would then be written twice.
*/
static int cqMoveSafe(CqOp *pOp, const CqReplay *pReplay){
  if( claimqReplayActed(pReplay) ) return 0;
  if( sqlite3_get_autocommit(pOp->db) ){
    return sqlite3_txn_state(pOp->db, CQ_SCHEMA)!=SQLITE_TXN_WRITE;
  }
  return claimqStmtWriting(pOp->pConn, CQ_MOVE_LOOK)==0;
}

/*
** From xFilter of an eponymous table: if that of temp is there, or can be made
** now, let SQLite start the statement over with it.  (Creating a table makes
** SQLite prepare all statements again that are run afterwards; one that goes on
** could open no other table.)  A statement that has returned rows goes on as it
** is: these would come twice.
*/
static void cqVtabMove(CqOp *pOp, const CqVtab *p, CqPrep *pPrep){
  int bAuto = sqlite3_get_autocommit(pOp->db);
  int bMade = pPrep==0 || pPrep->bMade;
  int eAttach;
  if( !claimqPrepFresh(pOp->pConn, pPrep) ) return;
  eAttach = cqVtabAttach(p->pConn, p->pDef);
  if( !bAuto && sqlite3_get_autocommit(pOp->db) ){
    /* SQLite has ended the transaction, because memory ran out, say. */
    pOp->rc = SQLITE_ABORT_ROLLBACK;
  }else if( eAttach==CQ_ATTACH_NEW || (eAttach==CQ_ATTACH_OLD && bMade) ){
    pOp->rc = SQLITE_SCHEMA;
  }
}

/*
** From xFilter of an eponymous table in autocommit: if that of temp was there
** when the statement was prepared, then this one is asked for, by the name of a
** schema.
*/
static void cqVtabNamed(CqOp *pOp, const CqVtab *p, const CqPrep *pPrep){
  const char *zName = p->pDef->zName;
  if( pOp->rc || pPrep==0 || pPrep->bMade || !sqlite3_get_autocommit(pOp->db)
   || sqlite3_table_column_metadata(pOp->db, "temp", zName, 0, 0, 0, 0, 0, 0)
  ){
    return;
  }
  claimqFail(pOp, CQ_BAD_ARGUMENT, "%s cannot wait for a lock if a schema is "
      "named: write FROM %s(%s, ...)", zName, zName, p->pDef->aArg[0].zName);
}

/*
** From xFilter, before a claim.  A statement that will be refused is refused
** now: when it was started over, nobody could see that.  A table of temp starts
** over as well if another one of the statement will, or what it claims now
** would be lost then.
*/
static void cqVtabBefore(CqOp *pOp, const CqVtab *p, const CqReplay *pReplay){
  CqPrep *pPrep = claimqPrepFind(pOp->pConn, pReplay->iPrep);
  if( pPrep && pPrep->nAvoid && claimqPrepRefused(pOp, pPrep) ){
    cqFailFilter(pOp, pPrep->pAvoid);
  }
  if( pOp->rc || !p->pDef->bWrites ) return;
  if( p->bTemp && (pPrep==0 || !pPrep->bMade) ) return;
  if( !cqMoveSafe(pOp, pReplay) ) return;
  if( !p->bTemp ){
    cqVtabMove(pOp, p, pPrep);
    cqVtabNamed(pOp, p, pPrep);
  }else if( claimqPrepFresh(pOp->pConn, pPrep) ){
    pOp->rc = SQLITE_SCHEMA;
  }
}

/*
** Position the cursor on the answer to its arguments, which is replayed or
** claimed.  A LIMIT bounds what is claimed, not what is replayed: SQLite itself
** stops reading there.
*/
static int cqVtabFilter(
  sqlite3_vtab_cursor *pCsr, int idxNum, const char *idxStr,
  int nVal, sqlite3_value **apVal
){
  CqCursor *p = (CqCursor*)pCsr;
  CqVtab *pTab = (CqVtab*)pCsr->pVtab;
  sqlite3_value *apArg[CQ_MAX_ARG];
  i64 nLimit;
  CqOp op;
  (void)idxNum;
  claimqOpInit(&op, pTab->pConn);
  op.bFilter = 1;
  op.bWrite = pTab->pDef->bWrites;
  p->iRow = 0;
  p->pNow = 0;
  claimqUserEnter(&op, &p->user, claimqPlanPrep(idxStr, nVal));
  nLimit = cqCursorArgs(&op, pTab->pDef, idxStr, nVal, apVal, apArg);
  if( op.rc ) return claimqOpVtab(&op, &pTab->base);
  p->pNow = claimqReplayFind(p->user.pReplay, pTab->pDef, apArg);
  if( p->pNow==0 ){
    cqVtabBefore(&op, pTab, p->user.pReplay);
    p->pNow = cqCursorClaim(&op, p, apArg, nLimit);
  }
  if( p->pNow && p->pNow->rows.nRow==0 ) p->pNow = 0;    /* It will not stay */
  return claimqOpVtab(&op, &pTab->base);
}

static int cqVtabNext(sqlite3_vtab_cursor *pCsr){
  ((CqCursor*)pCsr)->iRow++;
  return SQLITE_OK;
}

static int cqVtabEof(sqlite3_vtab_cursor *pCsr){
  CqCursor *p = (CqCursor*)pCsr;
  return p->pNow==0 || p->iRow>=p->pNow->rows.nRow;
}

/*
** Hidden columns read back as they were given.
*/
static int cqVtabColumn(
  sqlite3_vtab_cursor *pCsr, sqlite3_context *pCtx, int iCol
){
  CqAnswer *p = ((CqCursor*)pCsr)->pNow;
  assert( p!=0 && iCol>=0 && iCol<p->rows.nCol+p->pDef->nArg );
  if( iCol<p->rows.nCol ){
    CqCell *a = claimqRow(&p->rows, ((CqCursor*)pCsr)->iRow);
    claimqCellResult(&a[iCol], pCtx);
  }else{
    claimqCellResult(&p->aArg[iCol-p->rows.nCol], pCtx);
  }
  return SQLITE_OK;
}

static int cqVtabRowid(sqlite3_vtab_cursor *pCsr, sqlite3_int64 *piRowid){
  CqCursor *p = (CqCursor*)pCsr;
  assert( p->pNow && p->iRow<p->pNow->rows.nRow );
  *piRowid = p->pNow->rows.iRowid + p->iRow;
  return SQLITE_OK;
}

/**************************************************************************
** Registration
*/

static void cqModuleFree(void *pArg){
  CqModule *p = (CqModule*)pArg;
  claimqConnUnref(p->pConn);
  sqlite3_free(p);
}

/*
** Register the module of a table.  Returns an SQLite code.  xCreate==xConnect:
** eponymous, and good for CREATE VIRTUAL TABLE as well.
*/
static int cqModuleAdd(CqConn *pConn, const CqTableDef *pDef){
  static const sqlite3_module module = {
    .iVersion    = 0,
    .xCreate     = cqVtabConnect,
    .xConnect    = cqVtabConnect,
    .xBestIndex  = cqVtabBestIndex,
    .xDisconnect = cqVtabDisconnect,
    .xDestroy    = cqVtabDisconnect,
    .xOpen       = cqVtabOpen,
    .xClose      = cqVtabClose,
    .xFilter     = cqVtabFilter,
    .xNext       = cqVtabNext,
    .xEof        = cqVtabEof,
    .xColumn     = cqVtabColumn,
    .xRowid      = cqVtabRowid,
  };
  CqModule *p = sqlite3_malloc(sizeof(*p));
  if( p==0 ) return SQLITE_NOMEM;
  assert( pDef->nArg<=CQ_MAX_ARG && pDef->nArg+2<=CQ_PLAN_MAX );
  p->pConn = pConn;
  p->pDef = pDef;
  claimqConnRef(pConn);
  return sqlite3_create_module_v2(pConn->db, pDef->zName, &module, p,
                                  cqModuleFree);
}

/*
** The i-th list of tables: those of claimq itself, then of each discipline.
*/
CQ_PRIV const CqTableDef *claimqTableList(int i, int *pnTable){
  static const CqTableDef *(*const axList[])(int*) = {
    claimqHelpTable, claimqSeeTables,
  };
  const CqDiscipline *pD;
  if( i<CQ_ARRAYSIZE(axList) ) return axList[i](pnTable);
  pD = claimqDiscipline(i-CQ_ARRAYSIZE(axList));
  if( pD==0 ) return 0;
  *pnTable = pD->nTable;
  return pD->aTable;
}

/*
** Register the modules of all claim tables.  Returns an SQLite code.
*/
CQ_PRIV int claimqVtabRegister(CqConn *pConn){
  const CqTableDef *aTable;
  int i, j, n, rc = SQLITE_OK;
  for(i=0; (aTable = claimqTableList(i, &n))!=0; i++){
    for(j=0; j<n && rc==SQLITE_OK; j++) rc = cqModuleAdd(pConn, &aTable[j]);
  }
  return rc;
}
