/*
** init.c: claimq_init(), and changing the settings.
**
**     SELECT claimq_init();                  -- 1, the schema version
**     SELECT claimq_init('serial', 1);       -- the same, and a setting
**
** The missing objects of sql/schema/ are created one by one, in one
** transaction.  If claimq_meta is missing and something has one of claimq's
** names, nothing is touched.
**
** The tables are divided into features (mksql.tcl says how).  Every database
** has those of lanes, contests and dead letters.  Those of other features come
** when they are first used: a put that lacks some creates them, in its own
** transaction (claimqMakes()); or claimq_init('sessions', 1) does, or
** claimq_init('all', 1).  A feature that is there stays.
**
** An index, trigger or view of claimq's that somebody has changed is made
** again; claimq_check tells of it.  A table that somebody has changed is left
** alone if claimq's statements fit it; preparing them shows whether they do.
** If all tables are as they were made, none is prepared, so every program may
** call claimq_init() when it connects.
*/
#include "claimq_int.h"

static const char *const *cqClockWords(void){
  static const char *const az[] = { "system", "explicit", 0 };
  return az;
}

/* The options of claimq_init(): settings, in the order of the bits CQ_SET_*,
** then what is to be created: 'all', and each feature. */
#define CQ_INIT_NSET 3
static const CqArgDef cqInitOpt[] = {
  { CQ_ARG(INT, "any_session"), .iMax = 1, .bDefault = 1,
    .zDoc = "1: claims of any session cost the same, however many there are" },
  { CQ_ARG(INT, "serial"), .iMax = 1, .bDefault = 1,
    .zDoc = "1: a session is done by one worker at a time" },
  { CQ_ARG(WORD, "clock"), .xWords = cqClockWords,
    .zDoc = "explicit: every call must give now_ms" },
#define CQ_MAKES(NAME, DOC) \
  { CQ_ARG(INT, NAME), .iMax = 1, .bDefault = 1, .zDoc = "1: create " DOC }
  CQ_MAKES("all", "the tables of all features"),
  CQ_MAKES("sessions", "the tables of sessions"),
  CQ_MAKES("outbox", "the tables of the outbox"),
  CQ_MAKES("grants", "the table of grants"),
  CQ_MAKES("flows", "the tables of jobs that wait for others"),
  CQ_MAKES("policies", "the tables of policies and limits"),
  CQ_MAKES("schedules", "the table of schedules"),
  CQ_MAKES("steps", "the tables of durable steps"),
};
CQ_CHECK(InitBits,
    CQ_SET_ANY_SESSION==1<<0 && CQ_SET_SERIAL==1<<1 && CQ_SET_CLOCK==1<<2);
CQ_CHECK(InitMakes, CQ_ARRAYSIZE(cqInitOpt)==CQ_INIT_NSET+CQ_NFEATURE);

#define CQ_M_ALL ((1<<CQ_NFEATURE)-1)

/*
** The features (CQ_M_*) that an option of claimq_init() names.
*/
static int cqInitFeature(int iOpt){
  const char *zName = cqInitOpt[iOpt].zName;
  int i;
  assert( iOpt>=CQ_INIT_NSET );
  if( iOpt==CQ_INIT_NSET ) return CQ_M_ALL;
  for(i=0; strcmp(claimqFeature[i], zName)!=0; i++) assert( i+1<CQ_NFEATURE );
  return 1<<i;
}

/*
** The features that settings need.
*/
static int cqSettingsNeed(int mSettings){
  return (mSettings & (CQ_SET_ANY_SESSION|CQ_SET_SERIAL)) ? CQ_M_SESSIONS : 0;
}

/*
** 1 if table i is not to the letter what we have made.
*/
static int cqTableDiffers(const CqSchemaSeen *pSeen, int i){
  int eState = pSeen->ae[i];
  return (eState==CQ_OBJ_LIKE || eState==CQ_OBJ_CHANGED)
      && claimqSchemaIs(&claimqSchema[i], "table");
}

/*
** 1 if it must be found out whether a statement fits the tables: it names one
** that differs.  If one was changed by more than the columns that users may
** add, then triggers may fail, too, and any statement may fire them.
*/
static int cqSchemaDoubts(const CqSchemaSeen *pSeen, const char *zSql){
  int i;
  for(i=0; i<CQ_NSCHEMA; i++){
    if( cqTableDiffers(pSeen, i)
     && (pSeen->ae[i]==CQ_OBJ_CHANGED
          || claimqSqlNames(zSql, claimqSchema[i].zName))
    ){
      return 1;
    }
  }
  return 0;
}

/*
** 1 if a statement names something of a setting or feature that the database
** does not have: nobody runs it there, or it finds nothing.
*/
static int cqSchemaLacks(const CqSchemaSeen *pSeen, const char *zSql){
  int i;
  for(i=0; i<CQ_NSCHEMA; i++){
    if( pSeen->ae[i]==CQ_OBJ_NONE
     && !claimqSchemaIs(&claimqSchema[i], "insert")
     && claimqSqlNames(zSql, claimqSchema[i].zName)
    ){
      return 1;
    }
  }
  return 0;
}

/*
** Do our statements fit the tables?  Raises schema_mismatch if not.  Those that
** make or drop something are left out: they say nothing of our tables, and an
** authorizer may not allow them.
*/
static void cqSchemaProve(CqOp *p, const CqSchemaSeen *pSeen){
  static const int aSkip[] = {
    CQ_SQL_CACHE_DECLARE, CQ_SQL_IDS_DECLARE, CQ_SQL_SCHEMA_BUMP,
    CQ_SQL_SCHEMA_BUMPED, CQ_SQL_TXN_INIT_LOCK, CQ_SQL_TXN_INIT_UNLOCK,
    CQ_SQL_SCHEMA_COPIED
  };
  int i, j;
  for(i=0; i<CQ_NSCHEMA && !cqTableDiffers(pSeen, i); i++){}
  if( i==CQ_NSCHEMA ) return;                /* As nearly always */
  for(i=0; i<CQ_NSTMT && p->rc==SQLITE_OK; i++){
    const char *zSql = claimqSql[i].zSql;
    if( strchr(zSql, '%') ) continue;        /* A template */
    for(j=0; j<CQ_ARRAYSIZE(aSkip) && aSkip[j]!=i; j++){}
    if( j==CQ_ARRAYSIZE(aSkip) && !cqSchemaLacks(pSeen, zSql)
     && cqSchemaDoubts(pSeen, zSql)
    ){
      claimqSchemaFits(p, zSql);
    }
  }
}

/*
** Write the settings, and make all connections prepare their statements anew.
*/
static void cqSettingsWrite(CqOp *p, int mSettings){
  CqStmt s = claimqStmt(p, CQ_SQL_META_SET);
  assert( mSettings>=0 && mSettings<=0xffff );
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
  assert( mSetting>=1<<CQ_INIT_NSET );
  if( p->rc || (mSettings & mSetting)==mSetting ) return;
  assert( pTask->eNeed==CQ_NEED_MANY );
  memset(&guard, 0, sizeof(guard));
  claimqTxnGuard(p, &guard);
  if( p->rc==SQLITE_OK ) cqSettingsWrite(p, mSettings | mSetting);
  claimqTxnUnguard(p, pTask, &guard);
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
  int mFeature;                   /* CQ_M_*: what is to be there */
  i64 iRules;                     /* The rules that write to it; 0: none yet */
};

/* The first format has none before it: what is for older ones is not in the
** program then.  (test/migrate.test builds the next one.) */
#define CQ_INIT_OLD(P) (CLAIMQ_SCHEMA_VERSION>1 ? (P)->iOld : 0)

/*
** 1 if an object of the schema belongs into a database with these settings and
** features.
*/
static int cqSchemaBelongs(
  const CqSchemaObj *pObj, int mSettings, int mFeature
){
  int i;
  if( (mFeature>>pObj->eFeature & 1)==0 ) return 0;
  if( pObj->zOption[0]==0 ) return 1;
  for(i=0; i<CQ_INIT_NSET; i++){
    if( (mSettings>>i & 1) && strstr(pObj->zOption, cqInitOpt[i].zName) ){
      return 1;
    }
  }
  return 0;
}

/*
** What is wrong with object i, in a word or two for claimq_check; 0 if nothing
** is.  Without a meaning if op has an error or gets one here.
*/
CQ_PRIV const char *claimqSchemaProblem(
  CqOp *p, const CqSchemaSeen *pSeen, int i
){
  static const char *const azProblem[] = {
    "missing", 0, 0, "changed", "not claimq's"
  };
  const CqSchemaObj *pObj = &claimqSchema[i];
  int mSettings = claimqSettings(p);
  int bWant = cqSchemaBelongs(pObj, mSettings,
      claimqSchemaPresent(pSeen) | cqSettingsNeed(mSettings));
  int eState = pSeen->ae[i];
  if( claimqSchemaIs(pObj, "insert") ) return 0;
  if( eState && eState<CQ_OBJ_CHANGED && claimqSchemaTimed(pObj)
   && pSeen->abGiven[i]!=((mSettings & CQ_SET_CLOCK)!=0)
  ){
    return "changed";
  }
  if( !bWant && eState!=CQ_OBJ_ALIEN ) return eState ? "left over" : 0;
  return azProblem[eState];
}

/* What claimq_init() has to do about an object. */
#define CQ_DO_NOTHING 0
#define CQ_DO_CREATE  1
#define CQ_DO_DROP    2           /* And to create it, if it belongs there */
#define CQ_DO_REFUSE  3
#define CQ_DO_REMAKE  4           /* A table, whose times are to be given, or
                                  ** need not be given any more */

/*
** CQ_DO_*, to bring a database to the new settings and features.  A table that
** was changed is left as it is, if all statements fit it.
*/
static int cqInitTodo(const CqInit *pI, const CqSchemaSeen *pSeen, int i){
  const CqSchemaObj *pObj = &claimqSchema[i];
  int mSettings = pI->mNew;
  int eState = pSeen->ae[i];
  int bWant = cqSchemaBelongs(pObj, mSettings, pI->mFeature);
  if( claimqSchemaIs(pObj, "insert") ) return CQ_DO_NOTHING;
  if( (eState==CQ_OBJ_OURS || eState==CQ_OBJ_LIKE) && claimqSchemaTimed(pObj)
   && pSeen->abGiven[i]!=((mSettings & CQ_SET_CLOCK)!=0)
  ){
    return CQ_DO_REMAKE;
  }
  switch( eState ){
    case CQ_OBJ_NONE:
      return bWant ? CQ_DO_CREATE : CQ_DO_NOTHING;
    case CQ_OBJ_OURS:
    case CQ_OBJ_LIKE:
      return bWant ? CQ_DO_NOTHING : CQ_DO_DROP;
    case CQ_OBJ_CHANGED:
      return claimqSchemaIs(pObj, "table") ? CQ_DO_NOTHING : CQ_DO_DROP;
  }
  return CQ_DO_REFUSE;
}

/*
** 1 if there is nothing to do for the new settings and features.
*/
static int cqInitDone(const CqInit *pI, const CqSchemaSeen *pSeen){
  int i;
  for(i=0; i<CQ_NSCHEMA; i++){
    if( cqInitTodo(pI, pSeen, i) ) return 0;
  }
  return 1;
}

/*
** The settings in the database, 0 if it has none yet.
*/
static int cqInitSettings(CqOp *p, i64 iVersion, i64 *piRules){
  sqlite3_stmt *pStmt = 0;
  int m = 0;
  if( p->rc || iVersion<=0 ) return 0;
  claimqFailRc(p, sqlite3_prepare_v2(p->db,
      claimqSql[CQ_SQL_META_SETTINGS].zSql, -1, &pStmt, 0));
  if( claimqSchemaRow(p, pStmt) ){
    m = sqlite3_column_int(pStmt, CQ_COL_META_SETTINGS_value);
    *piRules = sqlite3_column_int64(pStmt, CQ_COL_META_SETTINGS_rules);
  }
  sqlite3_finalize(pStmt);
  return m;
}

/*
** Look at the database: its version, settings and rules.  Raises what is wrong
** with them.
*/
static void cqInitLook(CqOp *p, CqInit *pI, CqSchemaSeen *pSeen){
  i64 iVersion;
  claimqSchemaLook(p, pSeen);
  iVersion = claimqSchemaVersion(p, pSeen);
  pI->iOld = 0;
  if( iVersion==CQ_META_NONE ){
    claimqSchemaFree(p, pSeen);
  }else if( CQ_OLDER(iVersion) ){
    pI->iOld = iVersion;
  }else{
    claimqSchemaVerdict(p, pSeen, iVersion);
  }
  pI->iRules = 0;
  pI->mOld = pI->mNew = cqInitSettings(p, iVersion, &pI->iRules);
  if( pI->iRules>CLAIMQ_RULES ) claimqFailRules(p, pI->iRules);
}

/*
** What is missing, and what is to be changed?  A version is written only with
** a new claimq_meta.  If there is all, is it ours?
*/
static void cqInitLoad(CqOp *p, CqTask *pTask){
  CqInit *pI = (CqInit*)pTask;
  CqSchemaSeen seen;
  int i;
  cqInitLook(p, pI, &seen);
  pI->mFeature = claimqSchemaPresent(&seen);
  for(i=0; i<CQ_ARRAYSIZE(cqInitOpt); i++){
    if( i>=CQ_INIT_NSET ){
      if( pI->aOpt[i].i ) pI->mFeature |= cqInitFeature(i);
    }else if( pI->aOpt[i].pVal ){           /* NULL is the default */
      pI->mNew &= ~(1<<i);
      pI->mNew |= (int)pI->aOpt[i].i<<i;
    }
  }
  pI->mFeature |= cqSettingsNeed(pI->mNew);
  if( p->rc==SQLITE_OK
   && (CQ_INIT_OLD(pI) || pI->mNew!=pI->mOld || pI->iRules<CLAIMQ_RULES
    || !cqInitDone(pI, &seen))
  ){
    pTask->eNeed = CQ_NEED_MANY;
  }else{
    cqSchemaProve(p, &seen);
  }
}

/*
** Create one object.  If it does not fit, the table it belongs to is not ours.
*/
static void cqSchemaCreate(CqOp *p, const CqSchemaObj *pObj, int mSettings){
  char *zSql = claimqSchemaText(p, pObj, (mSettings & CQ_SET_CLOCK)!=0);
  claimqExecSql(p, zSql);
  sqlite3_free(zSql);
  if( p->rc==SQLITE_ERROR && CQ_ALWAYS(p->zErr) && claimqSchemaUnfit(p->zErr) ){
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
  if( zSql==0 ) p->rc = SQLITE_NOMEM;
  claimqExecSql(p, zSql);
  sqlite3_free(zSql);
}

/*
** Drop what goes, the last first: a trigger goes before its view.  Raises
** schema_mismatch if something is in the way.
*/
static void cqInitDrop(CqOp *p, const CqInit *pI, const CqSchemaSeen *pSeen){
  int i;
  for(i=CQ_NSCHEMA-1; i>=0 && p->rc==SQLITE_OK; i--){
    const CqSchemaObj *pObj = &claimqSchema[i];
    int eDo = cqInitTodo(pI, pSeen, i);
    if( eDo==CQ_DO_REFUSE ) claimqFailAlien(p, pObj);
    if( eDo==CQ_DO_DROP ) cqSchemaDrop(p, pObj);
  }
}

/*
** Run a template of sql/store.sql with the name of a table, or with columns and
** the name.
*/
static void cqSchemaRun(CqOp *p, int eStmt, const char *z1, const char *z2,
                        const char *z3){
  char *zSql = sqlite3_mprintf(claimqSql[eStmt].zSql, z1, z2, z3);
  if( zSql==0 ) p->rc = SQLITE_NOMEM;
  claimqExecSql(p, zSql);
  sqlite3_free(zSql);
}

/*
** The first column of the one row that a statement about a table gives, as
** text, which the caller frees; 0 if there is none, or op has an error.
*/
static char *cqSchemaAsk(CqOp *p, int eStmt, const char *zTable){
  CqStmt s = claimqStmt(p, eStmt);
  char *z = 0;
  claimqBindText(p, &s, CQ_SCHEMA_STORED_name, claimqStr(zTable));
  if( claimqStep(p, &s) ){
    CqText t = claimqColText(p, &s, 0);
    if( t.z ) z = claimqTextDup(p, t);
  }
  claimqStmtDone(p, &s);
  return z;
}

/*
** The place in a text behind the words from zWords up to zEnd, which it has,
** though perhaps with other white space.
*/
static const char *cqSchemaAfter(
  const char *z, const char *zWords, const char *zEnd
){
  static const char zSpace[] = " \t\r\n";
  for(; 1; z++){
    const char *zAfter = z, *zText = z, *zWord = zWords;
    assert( *z );
    while( zWord<zEnd && *zText==*zWord ){
      zAfter = &zText[1];
      zText = zAfter + strspn(zAfter, zSpace);
      zWord += 1 + strspn(&zWord[1], zSpace);
    }
    if( zWord>=zEnd ) return zAfter;
  }
}

/*
** The text of a table that is there, columns of users included, with the
** default of its time or without.  The caller frees it.
*/
static char *cqSchemaRetimed(CqOp *p, const CqSchemaObj *pObj, int bGiven){
  char *zOld = cqSchemaAsk(p, CQ_SQL_SCHEMA_STORED, pObj->zName);
  const char *zNow = strstr(pObj->zSql, claimqDefaultNow);
  const char *z, *zLine = zNow;
  char *zNew;
  if( zOld==0 ) return 0;
  if( bGiven ){
    z = strstr(zOld, claimqDefaultNow);
    assert( z );
    zNew = sqlite3_mprintf("%.*s%s", (int)(z-1-zOld), zOld,
                           &z[strlen(claimqDefaultNow)]);
  }else{
    while( zLine[-1]!='\n' ) zLine--;
    while( zLine[0]==' ' ) zLine++;         /* "created_at_ms ... NOT NULL" */
    z = cqSchemaAfter(zOld, zLine, zNow-1);
    zNew = sqlite3_mprintf("%.*s %s%s", (int)(z-zOld), zOld, claimqDefaultNow,
                           z);
  }
  if( zNew==0 ) p->rc = SQLITE_NOMEM;
  sqlite3_free(zOld);
  return zNew;
}

/*
** To drop a table is to delete its rows, for those that refer to them: with
** foreign keys switched on, rows of the user's would go with ours.  Raises
** unsupported.
*/
static void cqSchemaReferred(CqOp *p, const char *zName){
  char *zFrom = cqSchemaAsk(p, CQ_SQL_SCHEMA_REFERRED, zName);
  int bOn = 0;
  sqlite3_db_config(p->db, SQLITE_DBCONFIG_ENABLE_FKEY, -1, &bOn);
  if( bOn && zFrom ){
    claimqFail(p, CQ_UNSUPPORTED, "%s is made anew, and %s refers to it by a "
        "foreign key: PRAGMA foreign_keys=OFF, make this call, and switch them "
        "on again", zName, zFrom);
  }
  sqlite3_free(zFrom);
}

/*
** Nor does a trigger of this connection alone outlive the table, and SQLite
** does not let it be made again here.  Raises unsupported.
*/
static void cqSchemaTemp(CqOp *p, const char *zName){
  char *zTrigger = cqSchemaAsk(p, CQ_SQL_SCHEMA_TEMP, zName);
  if( zTrigger ){
    claimqFail(p, CQ_UNSUPPORTED, "%s is made anew, and the temporary trigger "
        "%s would go: drop it, make this call, and create it again", zName,
        zTrigger);
  }
  sqlite3_free(zTrigger);
}

/* What users have put on a table: the texts of indexes and triggers. */
typedef struct CqTheirs CqTheirs;
struct CqTheirs { char **az; int n, nAlloc; };

/*
** Note them.  The caller runs cqSchemaRestore(), also after an error.
*/
static void cqSchemaTheirs(CqOp *p, const char *zTable, CqTheirs *pT){
  CqStmt s = claimqStmt(p, CQ_SQL_SCHEMA_OTHERS);
  memset(pT, 0, sizeof(*pT));
  claimqBindText(p, &s, CQ_SCHEMA_OTHERS_name, claimqStr(zTable));
  while( claimqStep(p, &s) ){
    char *zType = claimqTextDup(p, claimqColText(p, &s,
                                   CQ_COL_SCHEMA_OTHERS_type));
    char *zName = claimqTextDup(p, claimqColText(p, &s,
                                   CQ_COL_SCHEMA_OTHERS_name));
    if( p->rc==SQLITE_OK && claimqSchemaFind(zType, zName, 0)<0
     && claimqGrow(p, (void**)&pT->az, pT->n, &pT->nAlloc, sizeof(char*))
    ){
      pT->az[pT->n++] = claimqTextDup(p, claimqColText(p, &s,
                                         CQ_COL_SCHEMA_OTHERS_sql));
    }
    sqlite3_free(zType);
    sqlite3_free(zName);
  }
  claimqStmtDone(p, &s);
}

/*
** Make them again, and free the list.
*/
static void cqSchemaRestore(CqOp *p, CqTheirs *pT){
  int i;
  for(i=0; i<pT->n; i++){
    claimqExecSql(p, pT->az[i]);
    sqlite3_free(pT->az[i]);
  }
  sqlite3_free(pT->az);
}

/*
** Make a table anew, whose times are to be given from now on, or need not be.
** Its indexes and triggers go with the old one; ours are created with all that
** is missing, those of users here.  (SQLite drops no table while another
** statement is under way: SQLITE_LOCKED.)
*/
static void cqSchemaRemake(CqOp *p, const CqSchemaObj *pObj, int mSettings){
  const char *zName = pObj->zName;
  char *zSql = cqSchemaRetimed(p, pObj, (mSettings & CQ_SET_CLOCK)!=0);
  char *zCols = cqSchemaAsk(p, CQ_SQL_SCHEMA_COLUMNS, zName);
  char *zSeq = cqSchemaAsk(p, CQ_SQL_SCHEMA_SEQUENCE, zName);
  CqTheirs theirs;
  cqSchemaReferred(p, zName);
  cqSchemaTemp(p, zName);
  cqSchemaTheirs(p, zName, &theirs);
  cqSchemaRun(p, CQ_SQL_SCHEMA_COPY, zCols, zName, 0);
  cqSchemaDrop(p, pObj);
  claimqExecSql(p, zSql);
  cqSchemaRun(p, CQ_SQL_SCHEMA_COPY_BACK, zName, zCols, zCols);
  claimqExecSql(p, claimqSql[CQ_SQL_SCHEMA_COPIED].zSql);
  cqSchemaRestore(p, &theirs);
  if( zSeq ){
    CqStmt s = claimqStmt(p, CQ_SQL_SCHEMA_SEQUENCE_SET);
    claimqBindText(p, &s, CQ_SCHEMA_STORED_name, claimqStr(zName));
    claimqBindText(p, &s, CQ_SCHEMA_STORED_seq, claimqStr(zSeq));
    claimqExec(p, &s);
  }
  sqlite3_free(zSql);
  sqlite3_free(zCols);
  sqlite3_free(zSeq);
}

/*
** Create what is missing for the new settings and features.  Data of a new
** database is inserted with its tables, data of a setting with the table before
** it.
*/
static void cqInitCreate(CqOp *p, const CqInit *pI, CqStmt *pGuard){
  CqSchemaSeen seen;
  int i, bFresh, bMade = 0;
  claimqSchemaLook(p, &seen);
  bFresh = seen.ae[0]==CQ_OBJ_NONE;
  for(i=0; i<CQ_NSCHEMA && p->rc==SQLITE_OK; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    if( !cqSchemaBelongs(pObj, pI->mNew, pI->mFeature) ) continue;
    if( pGuard->pStmt==0 && claimqSchemaIs(pObj, "index") ){
      claimqTxnGuard(p, pGuard);
    }
    if( claimqSchemaIs(pObj, "insert")
        ? (pObj->zOption[0] ? bMade : bFresh)
        : cqInitTodo(pI, &seen, i)==CQ_DO_CREATE ){
      bMade = pObj->zOption[0] && (bMade || claimqSchemaIs(pObj, "table"));
      cqSchemaCreate(p, pObj, pI->mNew);
    }else if( seen.ae[i]==CQ_OBJ_ALIEN ){
      claimqFailAlien(p, pObj);
    }
  }
  if( !p->bOwnTxn ) p->pConn->bMade = 1;
}

/*
** Bring the schema to the new settings, object by object: first what goes (and
** with a view its triggers), then what comes.
*/
static void cqInitObjects(CqOp *p, CqInit *pI, CqStmt *pGuard){
  CqSchemaSeen seen;
  int i;
  claimqSchemaLook(p, &seen);
  cqInitDrop(p, pI, &seen);
  for(i=0; i<CQ_NSCHEMA && p->rc==SQLITE_OK; i++){
    if( cqInitTodo(pI, &seen, i)!=CQ_DO_REMAKE ) continue;
    cqSchemaRemake(p, &claimqSchema[i], pI->mNew);
    claimqTxnUnguard(p, &pI->task, pGuard);
  }
  cqInitCreate(p, pI, pGuard);
}

/*
** Bring the tables of an older release to the format of this one.
*/
static void cqInitMigrate(CqOp *p, const CqInit *pI){
  const CqMigrate *pM;
  if( CQ_INIT_OLD(pI)==0 ) return;
  for(pM=claimqMigrate; pM->iVersion; pM++){
    assert( pM[1].iVersion==0 || pM[1].iVersion>pM->iVersion );
    if( pM->iVersion>pI->iOld ) claimqExecSql(p, pM->zSql);
  }
}

/*
** These are the rules that write to the database from now on.
*/
static void cqInitRules(CqOp *p, const CqInit *pI){
  CqStmt s;
  if( p->rc || pI->iRules>=CLAIMQ_RULES ) return;
  s = claimqStmt(p, CQ_SQL_META_RULES);
  claimqBindInt(p, &s, CQ_META_RULES_rules, CLAIMQ_RULES);
  claimqExec(p, &s);
}

/*
** xMake of a put: create what is missing of its features, and nothing else.
** bChecked keeps the cache from asking for the version meanwhile.
*/
static void cqMakeApply(CqOp *p, CqTask *pTask){
  CqInit init;
  CqSchemaSeen seen;
  CqStmt guard;
  assert( pTask->bInit && !sqlite3_get_autocommit(p->db) );
  memset(&init, 0, sizeof(init));
  memset(&guard, 0, sizeof(guard));
  claimqCheckConfig(p);
  p->pConn->bChecked = 1;
  cqInitLook(p, &init, &seen);
  if( CQ_INIT_OLD(&init) ) claimqSchemaVerdict(p, &seen, init.iOld);
  init.mFeature = pTask->mMake;
  if( seen.ae[0]==CQ_OBJ_NONE ) init.mFeature |= CQ_M_LANES;
  cqInitCreate(p, &init, &guard);
  if( seen.ae[0]==CQ_OBJ_NONE ) cqInitRules(p, &init);
  claimqTxnUnguard(p, pTask, &guard);
  claimqConnDoubt(p->pConn);
  p->pConn->bChecked = 0;
}

/*
** The task is a put that needs these features.  That they are missing is mostly
** found out when it is run; who asks for it here (p is not 0) has nothing to
** undo then.
*/
CQ_PRIV void claimqMakes(CqOp *p, CqTask *pTask, int mFeature){
  pTask->xMake = cqMakeApply;
  pTask->mMake = mFeature;
  if( p ) pTask->bLacks = claimqSchemaAbsent(p, mFeature)!=0;
}

/*
** Bring the database to the format and to the settings that it is to have.  At
** the end all statements must fit the tables.
*/
static void cqInitApply(CqOp *p, CqTask *pTask){
  CqInit *pI = (CqInit*)pTask;
  CqSchemaSeen seen;
  CqStmt guard;
  assert( pTask->bInit && !sqlite3_get_autocommit(p->db) );
  memset(&guard, 0, sizeof(guard));
  cqInitMigrate(p, pI);
  cqInitObjects(p, pI, &guard);
  if( CQ_INIT_OLD(pI) ){
    CqStmt s = claimqStmt(p, CQ_SQL_META_MIGRATED);
    claimqBindInt(p, &s, CQ_META_MIGRATED_version, CLAIMQ_SCHEMA_VERSION);
    claimqExec(p, &s);
  }
  cqInitRules(p, pI);
  if( pI->mNew!=pI->mOld || CQ_INIT_OLD(pI) ) cqSettingsWrite(p, pI->mNew);
  claimqSchemaLook(p, &seen);
  cqSchemaProve(p, &seen);
  claimqTxnUnguard(p, pTask, &guard);
}

/*
** claimq_init([option, value]...) -> schema version.  bChecked keeps the cache
** from asking for the version meanwhile; and afterwards, if there was nothing
** to do that might be rolled back.
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
  p->pConn->bChecked = p->rc==SQLITE_OK && init.task.eNeed==CQ_NEED_NOTHING;
  claimqTaskResult(p, &init.task, pCall->pCtx);
}

/*
** The definition of claimq_init().
*/
CQ_PRIV const CqFuncDef *claimqSchemaFuncs(int *pnFunc){
  static const CqFuncDef aFunc[] = {
    { .zName = "claimq_init", .eKind = CQ_F_INIT, .aOpt = cqInitOpt,
      .nOpt = CQ_ARRAYSIZE(cqInitOpt), .xFunc = cqInitFunc,
      .zDoc = "create the tables that are missing; store settings" },
  };
  *pnFunc = CQ_ARRAYSIZE(aFunc);
  return aFunc;
}
