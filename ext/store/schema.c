/*
** schema.c: which of claimq's tables main has, and finding out what is wrong
** when a statement fails.
**
** A database is claimq's if it has the table claimq_meta with a schema version.
** Without it tables of claimq's names are somebody else's.
**
** Each object is compared with the text that it was made by, which SQLite keeps
** as it was given: one look at sqlite_schema tells the state of all of them.
**
** Not every database has all tables: those of a feature come when it is first
** used (see init.c).  A feature is there if one of its tables is.  For missing
** tables vtab/absent.c has empty ones; but these have no indexes, so a
** statement that names an index must do without it.
**
** The cache of statements (stmt.c) asks here before it prepares its first, and
** when one fails: so nothing here uses the cache.
*/
#include "claimq_int.h"

/*
** Step a statement that the cache does not know: 1 if there is a row.  0 if
** there is none, or op has or gets an error.
*/
CQ_PRIV int claimqSchemaRow(CqOp *p, sqlite3_stmt *pStmt){
  int rc;
  if( p->rc ) return 0;
  rc = sqlite3_step(pStmt);
  if( rc!=SQLITE_ROW && rc!=SQLITE_DONE ) claimqFailRc(p, rc);
  return rc==SQLITE_ROW;
}

CQ_PRIV int claimqSchemaIs(const CqSchemaObj *pObj, const char *zType){
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
    if( (claimqSchemaIs(pObj, "table") || claimqSchemaIs(pObj, "view"))
     && strcmp(pObj->zName, zTable)==0
    ){
      return 1;
    }
  }
  return 0;
}

/*
** The part of an object's text that SQLite keeps and that follows the type: it
** leaves out the name of the schema.  *pn is the length of what comes before.
*/
static const char *cqSchemaBody(const char *zOurs, size_t *pn){
  const char *z = strstr(zOurs, CQ_SCHEMA ".");
  assert( z!=0 );
  *pn = (size_t)(z - zOurs);
  return z + sizeof(CQ_SCHEMA);
}

/*
** 1 if an object is a table with a time that a plain INSERT need not give.
*/
CQ_PRIV int claimqSchemaTimed(const CqSchemaObj *pObj){
  return strstr(pObj->zSql, claimqDefaultNow)!=0;
}

/*
** The text of an object.  A DEFAULT cannot look at the settings: so in a
** database that takes its times from its callers (bGiven) these tables have
** none.  Returns 0 if there is no memory.
*/
CQ_PRIV char *claimqSchemaText(CqOp *p, const CqSchemaObj *pObj, int bGiven){
  const char *z = bGiven ? strstr(pObj->zSql, claimqDefaultNow) : 0;
  char *zText;
  if( p->rc ) return 0;
  if( z==0 ){
    zText = sqlite3_mprintf("%s", pObj->zSql);
  }else{
    assert( z[-1]==' ' );
    zText = sqlite3_mprintf("%.*s%s", (int)(z-1-pObj->zSql), pObj->zSql,
                            &z[strlen(claimqDefaultNow)]);
  }
  if( zText==0 ) p->rc = SQLITE_NOMEM;
  return zText;
}

/*
** How does the text that SQLite keeps for an object compare with ours?  White
** space does not count as a change: a column that a migration has added stands
** where it should, but on no line of its own.  Nor do columns that users have
** added to a table, which are theirs.
*/
static int cqSchemaCompare(
  const CqSchemaObj *pObj, const char *zOurs, const char *zSql
){
  static const char zSpace[] = " \t\r\n";
  size_t n;
  const char *z = cqSchemaBody(zOurs, &n);
  if( strncmp(zSql, zOurs, n)!=0 ) return CQ_OBJ_CHANGED;
  zSql += n;
  if( strcmp(zSql, z)==0 ) return CQ_OBJ_OURS;
  while( *z && *z==*zSql ){
    z++;
    zSql++;
    z += strspn(z, zSpace);
    zSql += strspn(zSql, zSpace);
  }
  n = strlen(z);
  if( claimqSchemaIs(pObj, "table") && n>0 && strlen(zSql)>n ){
    zSql += strlen(zSql) - n;
  }
  return strcmp(zSql, z)==0 ? CQ_OBJ_LIKE : CQ_OBJ_CHANGED;
}

/*
** The object that a row of sqlite_schema is about, or -1.  Names of triggers
** are apart from those of tables, views and indexes.  The rows come nearly in
** the order of claimqSchema[]: so begin at iGuess.
*/
CQ_PRIV int claimqSchemaFind(
  const char *zType, const char *zName, int iGuess
){
  int bTrigger = strcmp(zType, "trigger")==0;
  int i, n;
  for(n=0, i=iGuess; n<CQ_NSCHEMA; n++, i++){
    if( i>=CQ_NSCHEMA ) i = 0;
    if( sqlite3_stricmp(claimqSchema[i].zName, zName)==0
     && claimqSchemaIs(&claimqSchema[i], "trigger")==bTrigger
     && !claimqSchemaIs(&claimqSchema[i], "insert")
    ){
      return i;
    }
  }
  return -1;
}

/*
** Compare object i with what SQLite keeps of it, with or without its time.
*/
static void cqSchemaMatch(
  CqOp *p, CqSchemaSeen *pSeen, int i, const char *zSql
){
  const CqSchemaObj *pObj = &claimqSchema[i];
  char *zText = 0;
  if( claimqSchemaTimed(pObj) && strstr(zSql, claimqDefaultNow)==0 ){
    pSeen->abGiven[i] = 1;
    zText = claimqSchemaText(p, pObj, 1);
    if( zText==0 ) return;
  }
  pSeen->ae[i] = (u8)cqSchemaCompare(pObj, zText ? zText : pObj->zSql, zSql);
  sqlite3_free(zText);
}

/*
** Note one row of sqlite_schema.  Returns where to begin to look for the next.
*/
static int cqSchemaSee(
  CqOp *p, CqSchemaSeen *pSeen, sqlite3_stmt *pStmt, int iGuess
){
  const char *zType, *zName, *zTable, *zSql;
  int i;
  zType = (const char*)sqlite3_column_text(pStmt, CQ_COL_SCHEMA_ALL_type);
  zName = (const char*)sqlite3_column_text(pStmt, CQ_COL_SCHEMA_ALL_name);
  zTable = (const char*)sqlite3_column_text(pStmt, CQ_COL_SCHEMA_ALL_tbl_name);
  zSql = (const char*)sqlite3_column_text(pStmt, CQ_COL_SCHEMA_ALL_sql);
  if( zType==0 || zName==0 || zTable==0 || zSql==0 ){
    claimqFailRc(p, SQLITE_NOMEM);
    return iGuess;
  }
  i = claimqSchemaFind(zType, zName, iGuess);
  if( i<0 ) return iGuess;
  cqSchemaMatch(p, pSeen, i, zSql);
  /* What has our text belongs to what that names. */
  if( pSeen->ae[i]!=CQ_OBJ_OURS
   && (!claimqSchemaIs(&claimqSchema[i], zType) || !cqSchemaOwns(zTable))
  ){
    pSeen->ae[i] = CQ_OBJ_ALIEN;
  }
  return i + 1;
}

/*
** Look at the whole schema: *pSeen gets CQ_OBJ_* of each object.  If op has an
** error or gets one here, they are all CQ_OBJ_NONE.  Does not use the cache,
** which may have to be made anew.
*/
CQ_PRIV void claimqSchemaLook(CqOp *p, CqSchemaSeen *pSeen){
  sqlite3_stmt *pStmt = 0;
  int i = 0;
  memset(pSeen, 0, sizeof(*pSeen));
  if( p->rc ) return;
  claimqFailRc(p, sqlite3_prepare_v2(p->db,
      claimqSql[CQ_SQL_SCHEMA_ALL].zSql, -1, &pStmt, 0));
  while( claimqSchemaRow(p, pStmt) ) i = cqSchemaSee(p, pSeen, pStmt, i);
  sqlite3_finalize(pStmt);
  if( p->rc ) memset(pSeen, 0, sizeof(*pSeen));
}

/*
** The schema version in the database, which has a claimq_meta, or
** CQ_META_ALIEN.
*/
static i64 cqMetaVersion(CqOp *p){
  sqlite3_stmt *pStmt = 0;
  i64 iVersion = CQ_META_ALIEN;
  int rc;
  assert( p->rc==SQLITE_OK );
  rc = sqlite3_prepare_v2(p->db, claimqSql[CQ_SQL_META_VERSION].zSql, -1,
                          &pStmt, 0);
  if( rc==SQLITE_OK ) rc = sqlite3_step(pStmt);
  if( rc==SQLITE_ROW
   && sqlite3_column_type(pStmt, CQ_COL_META_VERSION_value)==SQLITE_INTEGER
   && sqlite3_column_int64(pStmt, CQ_COL_META_VERSION_value)>0
  ){
    iVersion = sqlite3_column_int64(pStmt, CQ_COL_META_VERSION_value);
  }
  if( rc!=SQLITE_ROW && rc!=SQLITE_DONE && rc!=SQLITE_ERROR ){
    claimqFailRc(p, rc);
  }
  sqlite3_finalize(pStmt);
  return iVersion;
}

/*
** 1 if SQLite knows of a table, in main.  It may have to look again to be
** right; but to ask for one that is not there would write an error to the
** application's log.  0 if op has an error, or gets one here: an error with
** which SQLite has ended the user's transaction (it reads the schema in a
** statement of its own) is not to be taken for a table that is missing.
*/
CQ_PRIV int claimqSchemaHas(CqOp *p, const char *zTable){
  int rc;
  if( p->rc ) return 0;
  rc = sqlite3_table_column_metadata(p->db, CQ_SCHEMA, zTable,
                                     0, 0, 0, 0, 0, 0);
  if( (rc & 0xff)==SQLITE_IOERR || rc==SQLITE_NOMEM ) p->rc = rc;
  return rc==SQLITE_OK;
}

/*
** 1 if an object is a table that every database with its feature has.
*/
static int cqSchemaLeads(const CqSchemaObj *pObj){
  return claimqSchemaIs(pObj, "table") && pObj->zOption[0]==0;
}

/*
** Those of these features that SQLite knows no table of, in main.
*/
CQ_PRIV int claimqSchemaAbsent(CqOp *p, int mFeature){
  int i, m = mFeature;
  for(i=0; i<CQ_NSCHEMA && m; i++){
    int mBit = 1<<claimqSchema[i].eFeature;
    if( (m & mBit) && cqSchemaLeads(&claimqSchema[i])
     && claimqSchemaHas(p, claimqSchema[i].zName)
    ){
      m &= ~mBit;
    }
  }
  return m;
}

/*
** The features of a database that was looked at.
*/
CQ_PRIV int claimqSchemaPresent(const CqSchemaSeen *pSeen){
  int i, m = CQ_M_LANES;
  for(i=0; i<CQ_NSCHEMA; i++){
    if( pSeen->ae[i]!=CQ_OBJ_NONE && cqSchemaLeads(&claimqSchema[i]) ){
      m |= 1<<claimqSchema[i].eFeature;
    }
  }
  return m;
}

/*
** 1 if a statement names this table.
*/
CQ_PRIV int claimqSqlNames(const char *zSql, const char *zTable){
  size_t n = strlen(zTable);
  const char *z;
  for(z=zSql; (z = strstr(z, zTable))!=0; z+=n){
    if( strspn(&z[n], "abcdefghijklmnopqrstuvwxyz_")==0 ) return 1;
  }
  return 0;
}

/*
** The length of "INDEXED BY name", where z begins so and the index belongs to
** one of the features; else 0.
*/
static size_t cqIndexedBy(const char *z, int mFeature){
  static const char zBy[] = "INDEXED BY ";
  size_t n = sizeof(zBy)-1, nName;
  int i;
  if( strncmp(z, zBy, n)!=0 ) return 0;
  nName = strcspn(&z[n], " ,);");
  for(i=0; i<CQ_NSCHEMA; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    if( (mFeature>>pObj->eFeature & 1) && claimqSchemaIs(pObj, "index")
     && strlen(pObj->zName)==nName && memcmp(pObj->zName, &z[n], nName)==0
    ){
      return n+nName;
    }
  }
  return 0;
}

/*
** A statement without the INDEXED BY of these features, which the caller frees;
** 0 if there is no memory.
*/
CQ_PRIV char *claimqSchemaLoose(CqOp *p, const char *zSql, int mFeature){
  char *zOut = claimqMalloc(p, (i64)strlen(zSql)+1);
  char *z = zOut;
  if( zOut==0 ) return 0;
  while( *zSql ){
    size_t n = cqIndexedBy(zSql, mFeature);
    if( n ) zSql += n;
    else *z++ = *zSql++;
  }
  *z = 0;
  return zOut;
}

/*
** The call that creates these features, which the caller frees; 0 if there is
** no memory.
*/
CQ_PRIV char *claimqSchemaCall(int mFeature){
  char *z = sqlite3_mprintf("claimq_init(");
  const char *zSep = "";
  int i;
  for(i=CQ_FEAT_LANES+1; i<CQ_NFEATURE && z; i++){
    if( (mFeature>>i & 1)==0 ) continue;
    z = sqlite3_mprintf("%z%s'%s', 1", z, zSep, claimqFeature[i]);
    zSep = ", ";
  }
  return z ? sqlite3_mprintf("%z)", z) : 0;
}

/*
** Raise not_initialised: tables of these features are needed, and not there.
*/
CQ_PRIV void claimqFailMissing(CqOp *p, int mFeature){
  char *zCall;
  if( p->rc ) return;
  zCall = claimqSchemaCall(mFeature);
  if( zCall==0 ) p->rc = SQLITE_NOMEM;
  claimqFail(p, CQ_NOT_INITIALISED, "the tables are not there: SELECT %s",
             zCall);
  sqlite3_free(zCall);
  p->mMissing |= mFeature;
}

/*
** The schema version in a database that was looked at, or CQ_META_*.
*/
CQ_PRIV i64 claimqSchemaVersion(CqOp *p, const CqSchemaSeen *pSeen){
  assert( strcmp(claimqSchema[0].zName, "claimq_meta")==0 );
  return pSeen->ae[0]==CQ_OBJ_NONE ? CQ_META_NONE : cqMetaVersion(p);
}

CQ_PRIV void claimqFailAlien(CqOp *p, const CqSchemaObj *pObj){
  claimqFail(p, CQ_SCHEMA_MISMATCH,
      "main has a %s that is not claimq's: rename it", pObj->zName);
}

/*
** Where there is no claimq_meta: raise schema_mismatch if something else has
** one of our names.  Views of ours do not count, nor do their triggers: they
** stay behind when somebody drops all the tables.
*/
CQ_PRIV void claimqSchemaFree(CqOp *p, const CqSchemaSeen *pSeen){
  int i;
  for(i=0; i<CQ_NSCHEMA && p->rc==SQLITE_OK; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    if( pSeen->ae[i]>CQ_OBJ_LIKE
     || (pSeen->ae[i]!=CQ_OBJ_NONE && claimqSchemaIs(pObj, "table"))
    ){
      claimqFailAlien(p, pObj);
    }
  }
}

/*
** Raise schema_mismatch if something is missing that every database with these
** features has, or something else has its name.
*/
static void cqSchemaWhole(CqOp *p, const CqSchemaSeen *pSeen){
  int i, mPresent = claimqSchemaPresent(pSeen);
  for(i=0; i<CQ_NSCHEMA && p->rc==SQLITE_OK; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    if( claimqSchemaIs(pObj, "insert") || pObj->zOption[0] ) continue;
    if( (mPresent>>pObj->eFeature & 1)==0 ) continue;
    if( pSeen->ae[i]==CQ_OBJ_ALIEN ) claimqFailAlien(p, pObj);
    if( pSeen->ae[i]==CQ_OBJ_NONE ){
      claimqFail(p, CQ_SCHEMA_MISMATCH,
          "%s is missing: SELECT claimq_init() makes it again", pObj->zName);
    }
  }
}

/*
** Raise what a version other than ours means.
*/
CQ_PRIV void claimqSchemaVerdict(
  CqOp *p, const CqSchemaSeen *pSeen, i64 iVersion
){
  if( p->rc || iVersion==CLAIMQ_SCHEMA_VERSION ) return;
  if( iVersion==CQ_META_NONE ){
    claimqSchemaFree(p, pSeen);
    claimqFailMissing(p, CQ_M_LANES);
  }else if( iVersion==CQ_META_ALIEN ){
    claimqFailAlien(p, &claimqSchema[0]);
  }else{
    claimqFail(p, CQ_SCHEMA_MISMATCH, CQ_OLDER(iVersion)
        ? "the tables are of schema version %lld, this claimq %s wants version "
          "%d: SELECT claimq_init() brings them there"
        : "the tables are of schema version %lld, this claimq %s knows version "
          "%d: use the release that made them",
        iVersion, CLAIMQ_VERSION, CLAIMQ_SCHEMA_VERSION);
  }
}

/*
** Once per connection, before the first statement is prepared: has main our
** tables?
*/
CQ_PRIV void claimqSchemaCheck(CqOp *p){
  CqSchemaSeen seen;
  assert( !p->pConn->bChecked );
  if( p->rc ) return;
  if( !claimqSchemaHas(p, claimqSchema[0].zName)
   || cqMetaVersion(p)!=CLAIMQ_SCHEMA_VERSION
  ){
    claimqSchemaLook(p, &seen);
    claimqSchemaVerdict(p, &seen, claimqSchemaVersion(p, &seen));
  }
  if( p->rc==SQLITE_OK ) p->pConn->bChecked = 1;
}

/*
** 1 if SQLite's message says that a statement does not fit the tables; other
** messages (a limit of the connection, say) say something else.
*/
CQ_PRIV int claimqSchemaUnfit(const char *zMsg){
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
CQ_PRIV void claimqSchemaFits(CqOp *p, const char *zSql){
  sqlite3_stmt *pStmt = 0;
  int rc;
  if( p->rc ) return;
  rc = sqlite3_prepare_v2(p->db, zSql, -1, &pStmt, 0);
  sqlite3_finalize(pStmt);
  if( rc==SQLITE_ERROR && claimqSchemaUnfit(sqlite3_errmsg(p->db)) ){
    claimqFail(p, CQ_SCHEMA_MISMATCH,
        "a table of claimq's name is not claimq's: %s", sqlite3_errmsg(p->db));
  }
  claimqFailRc(p, rc);
}

/*
** Raise unsupported if triggers or views are switched off: what they do would
** be missing.
*/
CQ_PRIV void claimqCheckConfig(CqOp *p){
  int bTrigger = 1, bView = 1;
  if( p->rc ) return;
  sqlite3_db_config(p->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, -1, &bTrigger);
  sqlite3_db_config(p->db, SQLITE_DBCONFIG_ENABLE_VIEW, -1, &bView);
  if( !bTrigger || !bView ){
    claimqFail(p, CQ_UNSUPPORTED, "%s are switched off on this connection "
        "(SQLITE_DBCONFIG_ENABLE_%s), and claimq's tables need theirs: switch "
        "them on", bTrigger ? "views" : "triggers",
        bTrigger ? "VIEW" : "TRIGGER");
  }
}

/*
** Raise not_initialised if a statement names a table of a feature that is not
** there: it cannot do without.
*/
static void cqSchemaNeeds(
  CqOp *p, const CqSchemaSeen *pSeen, const char *zSql
){
  int i, mPresent = claimqSchemaPresent(pSeen), m = 0;
  for(i=0; i<CQ_NSCHEMA; i++){
    const CqSchemaObj *pObj = &claimqSchema[i];
    if( (mPresent>>pObj->eFeature & 1)==0 && claimqSchemaIs(pObj, "table")
     && claimqSqlNames(zSql, pObj->zName)
    ){
      m |= 1<<pObj->eFeature;
    }
  }
  if( m ) claimqFailMissing(p, m);
}

/*
** Statement zSql failed with SQLITE_ERROR.  If the tables are there, complete
** and ours, the fault is elsewhere and SQLite's own message will do.
*/
CQ_PRIV void claimqSchemaDiagnose(CqOp *p, const char *zSql){
  char *zMsg = sqlite3_mprintf("%s", sqlite3_errmsg(p->db));
  CqSchemaSeen seen;
  assert( p->rc==SQLITE_OK );
  p->pConn->bChecked = 0;
  claimqCheckConfig(p);
  claimqSchemaLook(p, &seen);
  claimqSchemaVerdict(p, &seen, claimqSchemaVersion(p, &seen));
  cqSchemaWhole(p, &seen);
  cqSchemaNeeds(p, &seen, zSql);
  claimqSchemaFits(p, zSql);
  if( p->rc==SQLITE_OK ){
    p->rc = zMsg ? SQLITE_ERROR : SQLITE_NOMEM;
    p->zErr = zMsg;
    zMsg = 0;
  }
  sqlite3_free(zMsg);
}
