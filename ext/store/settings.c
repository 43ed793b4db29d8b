/*
** settings.c: the settings of the database, as the connection knows them.
*/
#include "claimq_int.h"

/*
** Rules that this claimq does not know write to the database.
*/
CQ_PRIV void claimqFailRules(CqOp *p, i64 iRules){
  claimqFail(p, CQ_SCHEMA_MISMATCH, "a newer claimq writes to this database, "
      "by rules %lld; claimq %s knows those up to %d: use the newer one",
      iRules, CLAIMQ_VERSION, CLAIMQ_RULES);
}

/*
** The settings of the database.  A changed one binds every connection at its
** next call, and yet they need not be read by each: claimq_init() changes the
** schema along with them, so that SQLite prepares all statements anew.  Whoever
** uses a statement that was, or prepares one, forgets what the cache has (see
** stmt.c); an operation that must be sure asks again after it has read.  The
** same holds for the version of the format, which another release may have
** raised: raises schema_mismatch.  So does who may write, where a newer release
** with other rules does.
*/
CQ_PRIV int claimqSettings(CqOp *p){
  CqConn *pConn = p->pConn;
  const void *z;
  i64 iVersion = 0, iRules = 0;
  CqStmt s;
  if( p->rc || pConn->bSettings ) return pConn->mSettings;
  claimqLockFirst(p);
  s = claimqStmt(p, CQ_SQL_META_SETTINGS);
  if( claimqStep(p, &s) ){
    pConn->mSettings = (int)claimqColInt(&s, CQ_COL_META_SETTINGS_value);
    z = sqlite3_value_blob(claimqColValue(&s, CQ_COL_META_SETTINGS_name));
    pConn->bUtf8 = CQ_ALWAYS(z) && memcmp(z, "se", 2)==0;
    iVersion = claimqColInt(&s, CQ_COL_META_SETTINGS_version);
    iRules = claimqColInt(&s, CQ_COL_META_SETTINGS_rules);
    pConn->bSettings = iVersion==CLAIMQ_SCHEMA_VERSION
                    && iRules<=CLAIMQ_RULES;
  }
  claimqStmtDone(p, &s);
  if( iRules>CLAIMQ_RULES && (p->bWrite || p->bWrote) ){
    claimqFailRules(p, iRules);
  }
  if( iVersion!=CLAIMQ_SCHEMA_VERSION ){
    pConn->bChecked = 0;
    claimqSchemaCheck(p);
  }
  return pConn->mSettings;
}

/*
** claimqClock(), and raises clock_required where the database wants the time to
** be given.  That reads the settings: to be called where main may be read.
*/
CQ_PRIV i64 claimqNow(CqOp *p){
  claimqClock(p);
  if( p->bClock && p->rc==SQLITE_OK && (claimqSettings(p) & CQ_SET_CLOCK) ){
    claimqFailClock(p);
  }
  return p->iNow;
}
