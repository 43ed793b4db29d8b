/*
** schema.c: claimq_init(), the settings, and finding out what is wrong when a
** statement fails.
**
**     SELECT claimq_init();                  -- 1, the schema version
**     SELECT claimq_init('serial', 1);       -- the same, and a setting
**
** Those objects of sql/schema.sql that are missing are created one by one, in
** one transaction.  A database is claimq's if it has the table claimq_meta with
** a schema version.  Without it tables of claimq's names are somebody else's,
** and nothing is touched.
**
** Each object is compared with the text that it was made by, which SQLite keeps
** as it was given.  An index, trigger or view of claimq's that somebody has
** changed is made again; claimq_check tells of it.
*/
#include "claimq_int.h"

#define CQ_META_NONE   -1         /* There is no claimq_meta */
#define CQ_META_ALIEN  -2         /* There is one, but not ours */

static const char *const *cqClockWords(void){
  static const char *const az[] = { "system", "explicit", 0 };
  return az;
}

/* The options of claimq_init(), in the order of the bits CQ_SET_*. */
static const CqArgDef cqInitOpt[] = {
  { CQ_ARG(INT, "any_session"), .iMax = 1, .bDefault = 1,
    .zDoc = "1: keep what makes claimq(NULL, ...) flat" },
  { CQ_ARG(INT, "serial"), .iMax = 1, .bDefault = 1,
    .zDoc = "1: a session is done by one worker at a time" },
  { CQ_ARG(WORD, "clock"), .xWords = cqClockWords,
    .zDoc = "explicit: every call must give now_ms" },
  { CQ_ARG(INT, "vacuum"), .iMax = 1, .bDefault = 1,
    .zDoc = "1: keep what finds jobs that ended long ago" },
};
CQ_CHECK(InitBits,
    CQ_SET_ANY_SESSION==1<<0 && CQ_SET_SERIAL==1<<1 && CQ_SET_CLOCK==1<<2
 && CQ_SET_VACUUM==1<<3 && CQ_ARRAYSIZE(cqInitOpt)==4);

/*
** Step a statement that the cache does not know: 1 if there is a row.  0 if
** there is none, there is no statement, or op has or gets an error.
*/
static int cqSchemaRow(CqOp *p, sqlite3_stmt *pStmt){
  int rc;
  if( p->rc || pStmt==0 ) return 0;
  rc = sqlite3_step(pStmt);
  if( rc!=SQLITE_ROW && rc!=SQLITE_DONE ) claimqFailRc(p, rc);
  return rc==SQLITE_ROW;
}

static int cqSchemaIs(const CqSchemaObj *pObj, const char *zType){
  return strcmp(pObj->zType, zType)==0;
}

/*
** 1 if zTable is a table or a view of claimq's, which an index or a trigger may
** belong to.
*/
static int cqSchemaOwns(const char *zTable){
  int i;
  for(i=0; i<CQ_NSCHEMA; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    if( (cqSchemaIs(pObj, "table") || cqSchemaIs(pObj, "view"))
     && strcmp(pObj->zName, zTable)==0
    ){
      return 1;
    }
  }
  return 0;
}

/*
** 1 if SQLite keeps zSql for an object that was made by our text: it leaves out
** the name of the schema.  White space does not count: a column that a
** migration has added stands where it should, but on no line of its own.
** Nor do columns that users have added to a table, which are theirs.
*/
static int cqSchemaSame(const CqSchemaObj *pObj, const char *zSql){
  static const char zSpace[] = " \t\r\n";
  const char *z = strstr(pObj->zSql, CQ_SCHEMA ".");
  size_t n;
  assert( z!=0 );
  n = (size_t)(z - pObj->zSql);
  if( strncmp(zSql, pObj->zSql, n)!=0 ) return 0;
  zSql += n;
  z += sizeof(CQ_SCHEMA);
  while( *z && *z==*zSql ){
    z++;
    zSql++;
    z += strspn(z, zSpace);
    zSql += strspn(zSql, zSpace);
  }
  if( cqSchemaIs(pObj, "table") && *z && strlen(zSql)>strlen(z) ){
    return strcmp(&zSql[strlen(zSql)-strlen(z)], z)==0;
  }
  return *z==*zSql;
}

/* What main has under the name of one of our objects. */
#define CQ_OBJ_NONE    0          /* Nothing */
#define CQ_OBJ_OURS    1          /* What claimq_init() makes */
#define CQ_OBJ_CHANGED 2          /* That, but somebody has changed it */
#define CQ_OBJ_ALIEN   3          /* Something else */

/*
** CQ_OBJ_*; CQ_OBJ_NONE, too, if op has an error or gets one here.  Does not
** use the cache, which may have to be made anew.
*/
static int cqSchemaState(CqOp *p, const CqSchemaObj *pObj){
  sqlite3_stmt *pStmt = 0;
  int eState = CQ_OBJ_NONE;
  assert( !cqSchemaIs(pObj, "insert") );
  if( p->rc ) return CQ_OBJ_NONE;
  claimqFailRc(p, sqlite3_prepare_v2(p->db,
      claimqSql[CQ_SQL_SCHEMA_OBJECT].zSql, -1, &pStmt, 0));
  if( pStmt ){
    claimqFailRc(p, sqlite3_bind_text(pStmt, CQ_SCHEMA_OBJECT_name,
                                      pObj->zName, -1, SQLITE_STATIC));
    claimqFailRc(p, sqlite3_bind_int(pStmt, CQ_SCHEMA_OBJECT_trigger,
                                     cqSchemaIs(pObj, "trigger")));
  }
  if( cqSchemaRow(p, pStmt) ){
    const char *zType, *zTable, *zSql;
    zType = (const char*)sqlite3_column_text(pStmt, CQ_COL_SCHEMA_OBJECT_type);
    zTable = (const char*)sqlite3_column_text(pStmt,
                                              CQ_COL_SCHEMA_OBJECT_tbl_name);
    zSql = (const char*)sqlite3_column_text(pStmt, CQ_COL_SCHEMA_OBJECT_sql);
    if( zType==0 || zTable==0 || zSql==0 ){
      p->rc = SQLITE_NOMEM;
    }else if( !cqSchemaIs(pObj, zType) || !cqSchemaOwns(zTable) ){
      eState = CQ_OBJ_ALIEN;
    }else{
      eState = cqSchemaSame(pObj, zSql) ? CQ_OBJ_OURS : CQ_OBJ_CHANGED;
    }
  }
  sqlite3_finalize(pStmt);
  return eState;
}

/*
** 1 if main has a claimq_meta, whatever that is.
*/
static int cqMetaThere(CqOp *p){
  assert( strcmp(claimqSchema[0].zName, "claimq_meta")==0 );
  return cqSchemaState(p, &claimqSchema[0])!=CQ_OBJ_NONE;
}

/*
** The schema version in the database, or CQ_META_*.
*/
static i64 cqSchemaVersion(CqOp *p){
  sqlite3_stmt *pStmt = 0;
  i64 iVersion = CQ_META_ALIEN;
  int rc;
  if( !cqMetaThere(p) ) return CQ_META_NONE;
  rc = sqlite3_prepare_v2(p->db, claimqSql[CQ_SQL_META_VERSION].zSql, -1,
                          &pStmt, 0);
  if( rc==SQLITE_ERROR ) return CQ_META_ALIEN;
  claimqFailRc(p, rc);
  if( cqSchemaRow(p, pStmt)
   && sqlite3_column_type(pStmt, CQ_COL_META_VERSION_value)==SQLITE_INTEGER
   && sqlite3_column_int64(pStmt, CQ_COL_META_VERSION_value)>0
  ){
    iVersion = sqlite3_column_int64(pStmt, CQ_COL_META_VERSION_value);
  }
  sqlite3_finalize(pStmt);
  return iVersion;
}

static void cqFailAlien(CqOp *p, const CqSchemaObj *pObj){
  claimqFail(p, CQ_SCHEMA_MISMATCH,
      "main has a %s that is not claimq's: rename it", pObj->zName);
}

/*
** Where there is no claimq_meta: raise schema_mismatch if something else has
** one of our names.  Views of ours do not count, nor do their triggers: they
** stay behind when somebody drops all the tables.
*/
static void cqSchemaFree(CqOp *p){
  int i;
  for(i=0; i<CQ_NSCHEMA && p->rc==SQLITE_OK; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    int eState;
    if( cqSchemaIs(pObj, "insert") ) continue;         /* Names its table */
    eState = cqSchemaState(p, pObj);
    if( eState>CQ_OBJ_OURS || (eState==CQ_OBJ_OURS
         && (cqSchemaIs(pObj, "table") || cqSchemaIs(pObj, "index"))) ){
      cqFailAlien(p, pObj);
    }
  }
}

/*
** Raise schema_mismatch if something is missing that every database has, or
** something else has its name.
*/
static void cqSchemaWhole(CqOp *p){
  int i;
  for(i=0; i<CQ_NSCHEMA && p->rc==SQLITE_OK; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    int eState;
    if( cqSchemaIs(pObj, "insert") || pObj->zOption[0] ) continue;
    eState = cqSchemaState(p, pObj);
    if( eState==CQ_OBJ_ALIEN ) cqFailAlien(p, pObj);
    if( eState==CQ_OBJ_NONE ){
      claimqFail(p, CQ_SCHEMA_MISMATCH,
          "%s is missing: SELECT claimq_init() makes it again", pObj->zName);
    }
  }
}

/*
** Raise what a version other than ours means.
*/
static void cqSchemaVerdict(CqOp *p, i64 iVersion){
  if( p->rc || iVersion==CLAIMQ_SCHEMA_VERSION ) return;
  if( iVersion==CQ_META_NONE ){
    cqSchemaFree(p);
    claimqFail(p, CQ_NOT_INITIALISED,
        "the tables are not there: SELECT claimq_init()");
  }else if( iVersion==CQ_META_ALIEN ){
    cqFailAlien(p, &claimqSchema[0]);
  }else{
    claimqFail(p, CQ_SCHEMA_MISMATCH, iVersion<CLAIMQ_SCHEMA_VERSION
        ? "the tables are of schema version %lld, this claimq %s wants version "
          "%d: SELECT claimq_init() brings them there"
        : "the tables are of schema version %lld, this claimq %s knows version "
          "%d: use the release that made them",
        iVersion, CLAIMQ_VERSION, CLAIMQ_SCHEMA_VERSION);
  }
}

/*
** Before main is read by an operation that will write, inside the user's
** transaction: take the lock, because later it could not be waited for.
*/
static void cqLockFirst(CqOp *p){
  if( p->bWrite && !p->bOwnTxn && !sqlite3_get_autocommit(p->db)
   && sqlite3_txn_state(p->db, CQ_SCHEMA)==SQLITE_TXN_NONE
  ){
    CqStmt lock = claimqStmt(p, CQ_SQL_TXN_LOCK);
    claimqExec(p, &lock);
  }
}

/*
** The settings of the database.  A changed one binds every connection at its
** next call, and yet they need not be read by each: claimq_init() changes the
** schema along with them, so that SQLite prepares all statements anew.  Whoever
** uses a statement that was, or prepares one, forgets what the cache has (see
** stmt.c); an operation that must be sure asks again after it has read.  The
** same holds for the version of the format, which another release may have
** raised: raises schema_mismatch.
*/
CQ_PRIV int claimqSettings(CqOp *p){
  CqConn *pConn = p->pConn;
  const void *z;
  i64 iVersion = 0;
  CqStmt s;
  if( p->rc || pConn->bSettings ) return pConn->mSettings;
  cqLockFirst(p);
  s = claimqStmt(p, CQ_SQL_META_SETTINGS);
  if( claimqStep(p, &s) ){
    pConn->mSettings = (u8)claimqColInt(&s, CQ_COL_META_SETTINGS_value);
    z = sqlite3_value_blob(claimqColValue(&s, CQ_COL_META_SETTINGS_name));
    pConn->bUtf8 = z && memcmp(z, "se", 2)==0;
    iVersion = claimqColInt(&s, CQ_COL_META_SETTINGS_version);
    pConn->bSettings = iVersion==CLAIMQ_SCHEMA_VERSION;
  }
  claimqStmtDone(p, &s);
  if( iVersion!=CLAIMQ_SCHEMA_VERSION ){
    pConn->bChecked = 0;
    claimqSchemaCheck(p);
  }
  return pConn->mSettings;
}

/*
** Write the settings, and make all connections prepare their statements anew.
*/
static void cqSettingsWrite(CqOp *p, int mSettings){
  CqStmt s = claimqStmt(p, CQ_SQL_META_SET);
  assert( mSettings>=0 && mSettings<=0xff );    /* CqConn.mSettings */
  claimqBindInt(p, &s, CQ_META_SET_settings, mSettings);
  claimqExec(p, &s);
  claimqExecSql(p, claimqSql[CQ_SQL_SCHEMA_BUMP].zSql);
  claimqExecSql(p, claimqSql[CQ_SQL_SCHEMA_BUMPED].zSql);
  p->pConn->bSettings = 0;
}

/*
** For xApply: add a setting that claimq_init() knows no option for, unless the
** database has it.  Guarded, so that the task can be undone although all
** statements expire.
*/
CQ_PRIV void claimqSettingsSet(CqOp *p, CqTask *pTask, int mSetting){
  CqStmt guard;
  int mSettings = claimqSettings(p);
  assert( mSetting>=1<<CQ_ARRAYSIZE(cqInitOpt) );
  if( p->rc || (mSettings & mSetting) ) return;
  assert( pTask->eNeed==CQ_NEED_MANY );
  memset(&guard, 0, sizeof(guard));
  claimqTxnGuard(p, &guard);
  if( p->rc==SQLITE_OK ) cqSettingsWrite(p, mSettings | mSetting);
  claimqTxnUnguard(p, pTask, &guard);
}

/*
** Once per connection, before the first statement is prepared.  To read the
** version inside the user's transaction would be to begin it as a reader, who
** cannot wait for the lock any more: an operation that will write locks first.
*/
CQ_PRIV void claimqSchemaCheck(CqOp *p){
  if( p->rc || p->pConn->bChecked ) return;
  cqLockFirst(p);
  cqSchemaVerdict(p, cqSchemaVersion(p));
  if( p->rc==SQLITE_OK ) p->pConn->bChecked = 1;
}

/*
** 1 if SQLite's message says that a statement does not fit the tables; other
** messages (a limit of the connection, say) say something else.
*/
static int cqSchemaUnfit(const char *zMsg){
  static const char *const azMsg[] = {
    "no such column", "no such table", "no such index", "has no column named",
    "no query solution", "may not be modified", 0
  };
  int i;
  for(i=0; azMsg[i]; i++) if( strstr(zMsg, azMsg[i]) ) return 1;
  return 0;
}

/*
** A foreign table under one of our names shows when a statement of ours does
** not fit it: schema_mismatch.
*/
static void cqSchemaFits(CqOp *p, const char *zSql){
  sqlite3_stmt *pStmt = 0;
  int rc;
  if( p->rc ) return;
  rc = sqlite3_prepare_v2(p->db, zSql, -1, &pStmt, 0);
  sqlite3_finalize(pStmt);
  if( rc==SQLITE_ERROR && cqSchemaUnfit(sqlite3_errmsg(p->db)) ){
    claimqFail(p, CQ_SCHEMA_MISMATCH,
        "a table of claimq's name is not claimq's: %s", sqlite3_errmsg(p->db));
  }
  claimqFailRc(p, rc);
}

/*
** The same for all statements, but for those that make or drop something: they
** say nothing of our tables, and an authorizer may not allow them.
*/
static void cqSchemaProve(CqOp *p){
  static const int aSkip[] = {
    CQ_SQL_CACHE_DECLARE, CQ_SQL_IDS_DECLARE, CQ_SQL_SCHEMA_BUMP,
    CQ_SQL_SCHEMA_BUMPED, CQ_SQL_TXN_INIT_LOCK, CQ_SQL_TXN_INIT_UNLOCK
  };
  int i, j;
  for(i=0; i<CQ_NSTMT && p->rc==SQLITE_OK; i++){
    const char *zSql = claimqSql[i].zSql;
    if( strchr(zSql, '%') ) continue;        /* A template */
    for(j=0; j<CQ_ARRAYSIZE(aSkip) && aSkip[j]!=i; j++){}
    if( j==CQ_ARRAYSIZE(aSkip) ) cqSchemaFits(p, zSql);
  }
}

/*
** Statement zSql failed with SQLITE_ERROR.  If the tables are there, complete
** and ours, the fault is elsewhere and SQLite's own message will do.
*/
CQ_PRIV void claimqSchemaDiagnose(CqOp *p, const char *zSql){
  char *zMsg = sqlite3_mprintf("%s", sqlite3_errmsg(p->db));
  assert( p->rc==SQLITE_OK );
  p->pConn->bChecked = 0;
  claimqCheckConfig(p);
  cqSchemaVerdict(p, cqSchemaVersion(p));
  cqSchemaWhole(p);
  cqSchemaFits(p, zSql);
  if( p->rc==SQLITE_OK ){
    p->rc = zMsg ? SQLITE_ERROR : SQLITE_NOMEM;
    p->zErr = zMsg;
    zMsg = 0;
  }
  sqlite3_free(zMsg);
}

/**************************************************************************
** claimq_init([option, value]...) -> schema version
*/
typedef struct CqInit CqInit;
struct CqInit {
  CqTask task;                    /* First */
  const CqVal *aOpt;
  i64 iOld;                       /* The format of an older release, or 0 */
  int mOld, mNew;                 /* The settings before and after */
};

/*
** 1 if an object of the schema belongs into a database with these settings.
*/
static int cqSchemaBelongs(const CqSchemaObj *pObj, int mSettings){
  int i;
  if( pObj->zOption[0]==0 ) return 1;
  for(i=0; i<CQ_ARRAYSIZE(cqInitOpt); i++){
    if( (mSettings>>i & 1) && strstr(pObj->zOption, cqInitOpt[i].zName) ){
      return 1;
    }
  }
  return 0;
}

/*
** What is wrong with an object, in a word or two for claimq_check; 0 if
** nothing is, and if op has an error or gets one here.
*/
CQ_PRIV const char *claimqSchemaProblem(CqOp *p, const CqSchemaObj *pObj){
  static const char *const azProblem[] = {
    "missing", 0, "changed", "not claimq's"
  };
  int bWant = cqSchemaBelongs(pObj, claimqSettings(p));
  int eState;
  if( cqSchemaIs(pObj, "insert") ) return 0;
  eState = cqSchemaState(p, pObj);
  if( p->rc ) return 0;
  if( !bWant && eState!=CQ_OBJ_ALIEN ) return eState ? "left over" : 0;
  return azProblem[eState];
}

/* What claimq_init() has to do about an object. */
#define CQ_DO_NOTHING 0
#define CQ_DO_CREATE  1
#define CQ_DO_DROP    2           /* And to create it, if it belongs there */
#define CQ_DO_REFUSE  3

/*
** CQ_DO_*, to bring a database to these settings; CQ_DO_NOTHING if op has an
** error or gets one here.  A table that was changed is left as it is, if all
** statements fit it.
*/
static int cqInitTodo(CqOp *p, const CqSchemaObj *pObj, int mSettings){
  int bWant = cqSchemaBelongs(pObj, mSettings);
  if( cqSchemaIs(pObj, "insert") ) return CQ_DO_NOTHING;
  switch( cqSchemaState(p, pObj) ){
    case CQ_OBJ_NONE:
      return bWant && p->rc==SQLITE_OK ? CQ_DO_CREATE : CQ_DO_NOTHING;
    case CQ_OBJ_OURS:
      return bWant ? CQ_DO_NOTHING : CQ_DO_DROP;
    case CQ_OBJ_CHANGED:
      return cqSchemaIs(pObj, "table") ? CQ_DO_NOTHING : CQ_DO_DROP;
  }
  return CQ_DO_REFUSE;
}

/*
** 1 if there is nothing to do in a database with these settings.
*/
static int cqInitDone(CqOp *p, int mSettings){
  int i;
  for(i=0; i<CQ_NSCHEMA && p->rc==SQLITE_OK; i++){
    if( cqInitTodo(p, &claimqSchema[i], mSettings) ) return 0;
  }
  return 1;
}

/*
** The settings in the database, 0 if it has none yet.
*/
static int cqInitSettings(CqOp *p, i64 iVersion){
  sqlite3_stmt *pStmt = 0;
  int m = 0;
  if( p->rc || iVersion<=0 ) return 0;
  claimqFailRc(p, sqlite3_prepare_v2(p->db,
      claimqSql[CQ_SQL_META_SETTINGS].zSql, -1, &pStmt, 0));
  if( cqSchemaRow(p, pStmt) ){
    m = sqlite3_column_int(pStmt, CQ_COL_META_SETTINGS_value);
  }
  sqlite3_finalize(pStmt);
  return m;
}

/*
** What is missing, and what is to be changed?  A version is written only with
** a new claimq_meta.  If there is all, is it ours?  (Some milliseconds, once in
** the life of a worker.)
*/
static void cqInitLoad(CqOp *p, CqTask *pTask){
  CqInit *pI = (CqInit*)pTask;
  i64 iVersion = cqSchemaVersion(p);
  int i;
  pI->iOld = 0;
  if( iVersion==CQ_META_NONE ){
    cqSchemaFree(p);
  }else if( iVersion>0 && iVersion<CLAIMQ_SCHEMA_VERSION ){
    pI->iOld = iVersion;
  }else{
    cqSchemaVerdict(p, iVersion);
  }
  pI->mOld = pI->mNew = cqInitSettings(p, iVersion);
  for(i=0; i<CQ_ARRAYSIZE(cqInitOpt); i++){
    if( pI->aOpt[i].pVal ){                 /* NULL is the default */
      pI->mNew &= ~(1<<i);
      pI->mNew |= (int)pI->aOpt[i].i<<i;
    }
  }
  if( p->rc==SQLITE_OK
   && (pI->iOld || pI->mNew!=pI->mOld || !cqInitDone(p, pI->mNew))
  ){
    pTask->eNeed = CQ_NEED_MANY;
  }else{
    cqSchemaProve(p);
  }
}

/*
** Create one object.  If it does not fit, the table it belongs to is not ours.
*/
static void cqSchemaCreate(CqOp *p, const CqSchemaObj *pObj){
  claimqExecSql(p, pObj->zSql);
  if( p->rc==SQLITE_ERROR && p->zErr && cqSchemaUnfit(p->zErr)
   && strncmp(p->zErr, "claimq:", 7)!=0
  ){
    char *zWhy = p->zErr;
    p->zErr = 0;
    p->rc = SQLITE_OK;
    claimqFail(p, CQ_SCHEMA_MISMATCH,
        "a table of claimq's name is not claimq's: %s", zWhy);
    sqlite3_free(zWhy);
  }
}

/*
** Drop an object of a setting that is switched off, or that was changed.
*/
static void cqSchemaDrop(CqOp *p, const CqSchemaObj *pObj){
  char *zSql = sqlite3_mprintf(claimqSql[CQ_SQL_SCHEMA_DROP].zSql,
                               pObj->zType, pObj->zName);
  assert( !cqSchemaIs(pObj, "table") );
  if( zSql==0 && p->rc==SQLITE_OK ) p->rc = SQLITE_NOMEM;
  claimqExecSql(p, zSql);
  sqlite3_free(zSql);
}

/*
** Bring the schema to the new settings, object by object: first what goes, then
** what comes.  Raises schema_mismatch if something is in the way.  Data of a
** new database is inserted with its tables, data of a setting when the setting
** is switched on.
*/
static void cqInitObjects(CqOp *p, CqInit *pI, CqStmt *pGuard){
  int bFresh = !cqMetaThere(p);
  int i;
  for(i=CQ_NSCHEMA-1; i>=0 && p->rc==SQLITE_OK; i--){
    const CqSchemaObj *pObj = &claimqSchema[i];
    int eDo = cqInitTodo(p, pObj, pI->mNew);
    if( eDo==CQ_DO_REFUSE ) cqFailAlien(p, pObj);
    if( eDo==CQ_DO_DROP ) cqSchemaDrop(p, pObj);
  }
  for(i=0; i<CQ_NSCHEMA && p->rc==SQLITE_OK; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    if( !cqSchemaBelongs(pObj, pI->mNew) ) continue;
    if( pGuard->pStmt==0 && cqSchemaIs(pObj, "index") ){
      claimqTxnGuard(p, pGuard);
    }
    if( cqSchemaIs(pObj, "insert")
        ? (pObj->zOption[0] ? !cqSchemaBelongs(pObj, pI->mOld) : bFresh)
        : cqInitTodo(p, pObj, pI->mNew)==CQ_DO_CREATE ){
      cqSchemaCreate(p, pObj);
    }
  }
}

/*
** Bring the tables of an older release to the format of this one.
*/
static void cqInitMigrate(CqOp *p, const CqInit *pI){
  const CqMigrate *pM;
  if( pI->iOld==0 ) return;
  for(pM=claimqMigrate; pM->iVersion && p->rc==SQLITE_OK; pM++){
    assert( pM[1].iVersion==0 || pM[1].iVersion>pM->iVersion );
    if( pM->iVersion>pI->iOld ) claimqExecSql(p, pM->zSql);
  }
}

/*
** Bring the database to the format and to the settings that it is to have.  At
** the end all statements must fit the tables.
*/
static void cqInitApply(CqOp *p, CqTask *pTask){
  CqInit *pI = (CqInit*)pTask;
  CqStmt guard;
  assert( pTask->bInit && !sqlite3_get_autocommit(p->db) );
  memset(&guard, 0, sizeof(guard));
  cqInitMigrate(p, pI);
  cqInitObjects(p, pI, &guard);
  if( pI->iOld ){
    CqStmt s = claimqStmt(p, CQ_SQL_META_MIGRATED);
    claimqBindInt(p, &s, CQ_META_MIGRATED_version, CLAIMQ_SCHEMA_VERSION);
    claimqExec(p, &s);
  }
  if( pI->mNew!=pI->mOld || pI->iOld ) cqSettingsWrite(p, pI->mNew);
  cqSchemaProve(p);
  claimqTxnUnguard(p, pTask, &guard);
}

/*
** claimq_init([option, value]...) -> schema version.  bChecked keeps the cache
** from asking for the version meanwhile.
*/
static void cqInitFunc(CqOp *p, CqCall *pCall){
  CqInit init;
  memset(&init, 0, sizeof(init));
  init.task.xLoad = cqInitLoad;
  init.task.xApply = cqInitApply;
  init.task.zWhat = "claimq_init()";
  init.task.bInit = 1;
  init.task.iAnswer = CLAIMQ_SCHEMA_VERSION;
  init.aOpt = pCall->aOpt;
  claimqCheckConfig(p);
  p->pConn->bChecked = 1;
  claimqRun(p, &init.task);
  p->pConn->bChecked = 0;
  claimqTaskResult(p, &init.task, pCall->pCtx);
}

/*
** The definition of claimq_init().
*/
CQ_PRIV const CqFuncDef *claimqSchemaFuncs(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_init", .eKind = CQ_F_INIT, .aOpt = cqInitOpt,
      .nOpt = CQ_ARRAYSIZE(cqInitOpt), .xFunc = cqInitFunc,
      .zDoc = "create the tables that are missing; keep settings" },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
