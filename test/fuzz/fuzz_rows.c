/*
** fuzz_rows.c: any database.
**
** A database with work in every state is damaged, then claimq is called, and
** so on.  There are two kinds of damage, and an input may have both:
**
**   by SQL     values of wrong types and out of range in every column (the
**              tables are rebuilt without STRICT and NOT NULL for that), rows
**              that are gone, indexes, triggers and tables dropped, views in
**              place of tables, columns added, dropped and renamed, triggers
**              that delete, change or raise while a claim runs, tables and
**              views of temp that have claimq's names, statistics that lie
**   by bytes   the file itself, as a bad disk or an attacker would leave it
**
** What may come out: results, or an error with a message, claimq's or
** SQLite's.  What may not: a crash, a failed assert, a leak, a hang, an open
** transaction that was not open before, a connection that cannot be closed.
*/
#include "fuzz.h"

static FzImage fzStrict, fzLoose;

/* Objects of the image, by name. */
typedef struct FzNames FzNames;
#define FZ_NNAME 400
struct FzNames {
  int n;
  char *az[FZ_NNAME];
};
static FzNames fzTables, fzIndexes, fzTriggers;
static FzNames fzColumns;         /* TABLE.COLUMN, as T"."C */

/* What is called; ?1, ?2: a claim and its token, ?3: an integer. */
static const char *const fzCall[] = {
  "SELECT * FROM claimq('s','w',10,9,'','idle','any',NULL,1000000)",
  "SELECT * FROM claimq('t','w',10,9,'','idle','any',NULL,9000000)",
  "SELECT * FROM claimq('u','w',10,9,'','idle','turn_work',NULL,1000000)",
  "SELECT * FROM claimq(NULL,'w',10,9,'','idle','any',NULL,1000000)",
  "SELECT * FROM claimq(NULL,'w',10,9,'','idle','any',NULL,99000000)",
  "INSERT INTO sink SELECT payload FROM claimq(NULL,'w')",
  "SELECT * FROM claimq_peek('s',9,'idle','any',NULL,1000000)",
  "SELECT * FROM claimq_peek(NULL,9,'idle','any',NULL,99000000)",
  "SELECT claimq_enqueue('s', 1)",
  "SELECT claimq_enqueue('s', 1, 'source_key', 'k')",
  "SELECT claimq_submit('l', 1, 'capabilities', '[\"c\"]')",
  "SELECT claimq_submit('l', 1, 'source_key', 'k')",
  "SELECT claimq_submit('l', 1, 'source_key', 'u', 'unique_for_ms', 9)",
  "SELECT claimq_submit('l', 1, 'after', '[15,16,1]')",
  "SELECT claimq_submit('l', 1, 'after', '[1,9]', 'on_failure', 'run')",
  "SELECT claimq_cancel_flow('f', 'force', 1)",
  "SELECT claimq_cancel(13, 'force', 1), claimq_cancel(1)",
  "SELECT * FROM claimq_flow",
  "SELECT * FROM claimq_check",
  "SELECT * FROM claimq_why('lane', 'l')",
  "INSERT INTO claimq_after VALUES(16, 1)",
  "DELETE FROM claimq_after WHERE job_id=15",
  "SELECT * FROM claimq_lane('l','w',10,9,'','[\"c\",\"d\"]',0,1000000)",
  "SELECT * FROM claimq_lane('l','w',10,9,'','[]',1,1000000)",
  "SELECT * FROM claimq_lane('l','w',10,9,'','[]',3,99000000)",
  "SELECT * FROM claimq_lane('m','w',10,9,'','[\"c\",\"d\"]',0,1000000)",
  "INSERT INTO sink SELECT job_id FROM claimq_lane('l','w')",
  "SELECT * FROM claimq_lane('z','w',10,9,'','[]',0,1000000)",
  "INSERT INTO sink SELECT job_id FROM claimq_lane('z','w')",
  "SELECT claimq_schedule('a', 'every 7 s', 'z', 1, 'catch_up', 'all')",
  "SELECT claimq_schedule('d', '@daily', 'z', 1, 'now_ms', 1000000)",
  "SELECT claimq_unschedule('b')",
  "SELECT claimq_next_at('lane', 'z', 'now_ms', 1000000)",
  "SELECT * FROM claimq_lane('g','w',10,9,'','[\"c\"]',0,1000000)",
  "SELECT * FROM claimq_lane('g','w',10,1,'','[]',0,9900000)",
  "SELECT * FROM claimq_lane('g','w',10,9,'','[]',0,100)",
  "SELECT * FROM claimq_lane('h','w',10,9,'','[]',0,9900000)",
  "SELECT * FROM claimq_lane('h','w',10,9,'','[]',0,100)",
  "SELECT claimq_submit('g', 1, 'group_key', 'new')",
  "SELECT claimq_change(?3, 'lane', 'g', 'group_key', 'g1')",
  "SELECT claimq_policy('g', 'group_max_active', ?3)",
  "SELECT claimq_policy('h', 'group_rate', 1, 'group_per_ms', 9)",
  "SELECT claimq_policy('g', 'max_active', NULL, 'group_max_active', NULL,"
  " 'group_rate', NULL, 'fair', NULL)",
  "UPDATE claimq_policy SET fair=1-fair",
  "DELETE FROM claimq_policy",
  "REPLACE INTO claimq_job(lane, source_key) VALUES('h', 'k1')",
  "REPLACE INTO claimq_job(lane, source_key) VALUES('l', 'u')",
  "UPDATE claimq_job SET group_key='g2' WHERE lane='g'",
  "SELECT claimq_next_at('lane', 'g', 'now_ms', 1000000),"
  " claimq_next_at('lane', 'h', 'now_ms', 1000000)",
  "SELECT * FROM claimq_why('lane', 'g')",
  "SELECT * FROM claimq_why('lane', 'h')",
  "SELECT * FROM claimq_stats WHERE discipline='lane'",
  "SELECT * FROM claimq_why('lane', 'z')",
  "UPDATE claimq_schedule SET enabled=1-enabled",
  "UPDATE claimq_schedule SET spec='* * * * *'",
  "SELECT * FROM claimq_reclaim(?3,'w',10,'',NULL,1000000)",
  "SELECT * FROM claimq_reclaim(7,'w',10,'',0,1000000)",
  "SELECT * FROM claimq_reclaim(7,'w',10,'',5,1000000)",
  "SELECT claimq_grant(?3,'w',10)",
  "SELECT claimq_revoke(?3)",
  "SELECT claimq_cancel(?3,'force',1)",
  "SELECT claimq_cancel(batch_id) FROM claimq_batch",
  "SELECT * FROM claimq_outbox('q','w',10,9,'',NULL,1000000)",
  "SELECT * FROM claimq_outbox('q','w',10,9,'',NULL,99000000)",
  "SELECT * FROM claimq_outbox('q','w',10,9,'',1,1000000)",
  "SELECT claimq_publish('q', 1)",
  "SELECT claimq_publish('q', 1, 'key', 'k')",
  "SELECT claimq_queue('q', 4)",
  "SELECT claimq_queue('p', 4)",
  "SELECT * FROM claimq_contest('live','w',10,'',?3,1000000)",
  "SELECT * FROM claimq_contest('expired','w',10,'',1,1000000)",
  "SELECT * FROM claimq_contest('kept','w',10,'',2,99000000)",
  "SELECT * FROM claimq_contest('new','w',10,'',9,1000000)",
  "SELECT claimq_fence('r', ?3)",
  "SELECT * FROM claimq_dead_letter(NULL,'w',10,9,'',NULL,1000000)",
  "SELECT * FROM claimq_dead_letter(NULL,'w',10,9,'',NULL,99000000)",
  "SELECT * FROM claimq_dead_letter('l','w',10,9,'','lane',1000000)",
  "SELECT claimq_requeue(?3)",
  "SELECT claimq_requeue(?3, 'claim_id', ?1, 'lease_token', ?2)",
  "SELECT claimq_requeue(letter_id, 'now_ms', 99000000) FROM claimq_letter",
  "SELECT claimq_vacuum()",
  "SELECT claimq_vacuum('older_than_ms', 0, 'now_ms', 99000000)",
  "SELECT claimq_vacuum('older_than_ms', 0, 'max', ?3)",
  "SELECT claimq_init()",
  "SELECT claimq_renew(?1, ?2, 10)",
  "SELECT claimq_complete(?1, ?2)",
  "SELECT claimq_complete(?1, ?2, 'processed', 1, 'rejected',"
  " '[{\"seq\":2,\"reason\":\"x\"}]')",
  "SELECT claimq_complete(?1, ?2, 'batch_ids', '[]')",
  "SELECT claimq_release(?1, ?2)",
  "SELECT claimq_release(?1, ?2, 'delay_ms', 10)",
  "SELECT claimq_retry(?1, ?2, 'again')",
  "SELECT claimq_retry(?1, ?2, 'again', 'delay_ms', 10)",
  "SELECT claimq_reject(?1, ?2, 'no')",
  "SELECT claimq_guard(?1, ?2)",
  "SELECT claimq_complete(claim_id, lease_token) FROM claimq_batch",
  "SELECT claimq_reject(claim_id, lease_token, 'no') FROM claimq_job",
  "SELECT claimq_retry(claim_id, lease_token, 'no') FROM claimq_partition",
  "SELECT claimq_complete(claim_id, lease_token) FROM claimq_letter",
  "INSERT INTO claimq_batch(session, payload) VALUES('s', 1)",
  "INSERT INTO claimq_job(lane, payload, capabilities)"
  " VALUES('l', 1, '[\"e\"]')",
  "INSERT INTO claimq_message(queue, payload) VALUES('q', 1)",
  "SELECT * FROM claimq_stmt",
  "SELECT * FROM claimq(NULL,'w',10,9,'','idle','any',1,1000000)",
  "SELECT * FROM claimq('s','w',10,9,'','idle','any',1,1000000,'r-1')",
  "SELECT * FROM claimq_lane('l','w',10,9,'','[]',0,1000000,'r-2')",
  "SELECT * FROM claimq_outbox('q','w',10,9,'',NULL,1000000,'r-3')",
  "SELECT * FROM claimq_contest('l','w',10,'',9,1000000,'r-4')",
  "SELECT * FROM claimq_dead_letter(NULL,'w',10,9,'',NULL,1000000,'r-5')",
  "SELECT claimq_submit('l', 1, 'request', 'r-6')",
  "SELECT claimq_complete(?1, ?2, 'request', 'r-7')",
  "SELECT claimq_change(?3, 'lane', 'm', 'capabilities', '[\"d\"]')",
  "SELECT claimq_change(?3, 'priority', ?3, 'partition', 1)",
  "SELECT claimq_revoke(?1)",
  "SELECT claimq_retry(?1, ?2, 'no', 'progress', ?3, 'error_class', 'x')",
  "SELECT claimq_next_at('session', 's', 'now_ms', ?3)",
  "SELECT claimq_next_at('session', NULL, 'now_ms', 1000000)",
  "SELECT claimq_next_at('lane', 'l', 'now_ms', ?3)",
  "SELECT claimq_next_at('outbox', 'q', 'now_ms', 1000000)",
  "SELECT claimq_next_at('contest', 'live', 'kind', 1, 'now_ms', 1000000)",
  "SELECT claimq_next_at('dead_letter', NULL, 'now_ms', 1000000)",
  "SELECT * FROM claimq_stats",
  "SELECT * FROM claimq_stats WHERE now_ms=?3",
  "SELECT * FROM claimq_check",
  "SELECT * FROM claimq_why WHERE discipline='session' AND scope='s'",
  "SELECT * FROM claimq_why WHERE discipline='lane' AND scope='l'",
  "SELECT * FROM claimq_why WHERE discipline='outbox' AND scope='q'",
  "SELECT claimq_init('any_session', 1, 'serial', 1)",
  "SELECT claimq_init('any_session', 0, 'serial', 0)",
  "SELECT claimq_restored()"
};
#define FZ_NCALL ((int)(sizeof(fzCall)/sizeof(fzCall[0])))

/**************************************************************************
** Once
*/
static int fzNameRow(void *pArg, sqlite3_stmt *pStmt){
  FzNames *p = (FzNames*)pArg;
  assert( p->n<FZ_NNAME );
  p->az[p->n++] = sqlite3_mprintf("%s", sqlite3_column_text(pStmt, 0));
  return 1;
}

static void fzNamesOf(FzDb *p, FzNames *pNames, const char *zSql){
  if( fzRun(p, zSql, 0, 0, fzNameRow, pNames) || pNames->n==0 ){
    fzDie("%s: %s", zSql, p->zErr);
  }
}

/* The tables without STRICT and NOT NULL, with what is in them.  An IS NOT
** NULL inside a CHECK stays, written in SQLite's other spelling. */
static void fzLoosen(void){
  FzDb db;
  fzOpen(&db, &fzStrict);
  fzMust(&db, "PRAGMA writable_schema=ON");
  fzMust(&db, "UPDATE sqlite_schema SET sql=replace(replace(replace(replace("
      "sql, ' IS NOT NULL', ' NOTNULL'), ' STRICT, WITHOUT', ' WITHOUT'),"
      " ' STRICT', ''), ' NOT NULL', '')"
      " WHERE type='table' AND name GLOB 'claimq*'");
  fzLoose = fzSave(&db);
  fzClose(&db);
  fzOpen(&db, &fzLoose);
  fzIntegrity(&db);
  fzMust(&db, "SELECT claimq_enqueue('x', 1)");
  if( fzOne(&db, "SELECT count(*) FROM pragma_table_list"
                 " WHERE strict AND name GLOB 'claimq*'") ){
    fzDie("the tables are strict yet");
  }
  fzClose(&db);
}

static void fzBeginRows(void){
  FzDb db;
  fzSetup();
  fzStrict = fzPopulate("UTF-8");
  fzLoosen();
  fzOpen(&db, &fzStrict);
  fzLoadIds(&db);
  fzNamesOf(&db, &fzTables, "SELECT name FROM sqlite_schema"
      " WHERE type='table' AND name GLOB 'claimq*'");
  fzNamesOf(&db, &fzIndexes, "SELECT name FROM sqlite_schema"
      " WHERE type='index' AND name GLOB 'claimq*'");
  fzNamesOf(&db, &fzTriggers, "SELECT name FROM sqlite_schema"
      " WHERE type='trigger'");
  fzNamesOf(&db, &fzColumns, "SELECT t.name||'\".\"'||c.name"
      " FROM sqlite_schema AS t, pragma_table_info(t.name) AS c"
      " WHERE t.type='table' AND t.name GLOB 'claimq*'");
  fzClose(&db);
}

/**************************************************************************
** Damage by SQL
*/
typedef struct FzRows FzRows;
struct FzRows {
  FzIn in;
  FzDb db;
  u8 bBytes;                      /* Damaged by bytes: no promises of SQLite */
  int nNew;                       /* Number for new names */
  char zText[600];
};

static const char *fzName(FzRows *p, const FzNames *pNames){
  return pNames->az[fzByte(&p->in) % pNames->n];
}

static FzVal fzBadValue(FzRows *p){
  static const i64 aInt[] = {
    0, 1, -1, 2, 7, 255, 1000000, 9000000, 2147483648LL, FZ_I64_MAX,
    FZ_I64_MIN, FZ_I64_MAX-1, -1000000
  };
  static const char *const azText[] = {
    "", "x", "5", "-1", "1e3", "s", "w", "qwc:1:1", "qjc:5:2", "qpc:1:9",
    "active", "ready", "failed", "pending", "reprocessing", "resolved",
    "session_command", "join", "group:", "grant", "[]", "[\"c\"]", "[",
    "{\"capabilities\":[\"c\",\"priority\":1}", "{\"partition\":99}", "{}",
    "9223372036854775808", "\xff\xfe", "claimq_batch", "retry", "dead",
    "{\"source_key\":5,\"work_class\":null,\"x\":[[1]]}", "complete"
  };
  int n;
  switch( fzBelow(&p->in, 8) ){
    case 0:  return fzNull();
    case 1:
    case 2:  return fzInt(aInt[fzBelow(&p->in, 13)]);
    case 3:  return fzReal(fzByte(&p->in)-100.5);
    case 4:  return fzReal(fzByte(&p->in)&1 ? 9e18 : 1e300);
    case 5:
      n = fzByte(&p->in) % 20;
      return fzBytes(SQLITE_BLOB, "\0\1\2\xff{}[]'\";qwc:1:1    ", n);
    case 6:
      n = 4*fzByte(&p->in);
      memset(p->zText, "x[\"\xff"[fzBelow(&p->in, 4)], sizeof(p->zText));
      return fzBytes(SQLITE_TEXT, p->zText, n<600 ? n : 600);
    default: return fzText(azText[fzBelow(&p->in, 33)]);
  }
}

/* Run SQL made by sqlite3_mprintf(), and free it.  It may fail. */
static void fzTry(FzRows *p, char *zSql, FzVal v){
  fzRun(&p->db, zSql, 1, &v, 0, 0);
  sqlite3_free(zSql);
}

/* One column of one row, or of all rows. */
static void fzBadColumn(FzRows *p){
  char *zTable = sqlite3_mprintf("%s", fzName(p, &fzColumns));
  char *zCol = strstr(zTable, "\".\"")+3;
  FzVal v;
  int nSkip = fzByte(&p->in);
  zCol[-3] = 0;
  v = fzBadValue(p);
  if( nSkip>=240 ){
    fzTry(p, sqlite3_mprintf("UPDATE main.\"%w\" SET \"%w\"=?1", zTable, zCol),
          v);
  }else{
    fzTry(p, sqlite3_mprintf("UPDATE main.\"%w\" SET \"%w\"=?1 WHERE rowid="
        "(SELECT rowid FROM main.\"%w\" LIMIT 1 OFFSET %d)", zTable, zCol,
        zTable, nSkip%16), v);
  }
  sqlite3_free(zTable);
}

static void fzDropSome(FzRows *p){
  const char *zTable = fzName(p, &fzTables);
  switch( fzBelow(&p->in, 8) ){
    case 0:
      fzTry(p, sqlite3_mprintf("DROP TABLE main.\"%w\"", zTable), fzNull());
      break;
    case 1: case 2:
      fzTry(p, sqlite3_mprintf("DROP INDEX main.\"%w\"",
          fzName(p, &fzIndexes)), fzNull());
      break;
    case 3: case 4:
      fzTry(p, sqlite3_mprintf("DROP TRIGGER main.\"%w\"",
          fzName(p, &fzTriggers)), fzNull());
      break;
    case 5:
      fzTry(p, sqlite3_mprintf("DELETE FROM main.\"%w\"", zTable), fzNull());
      break;
    default:
      fzTry(p, sqlite3_mprintf("DELETE FROM main.\"%w\" WHERE rowid=(SELECT"
          " rowid FROM main.\"%w\" LIMIT 1 OFFSET %d)", zTable, zTable,
          fzBelow(&p->in, 16)), fzNull());
  }
}

/* A trigger that meddles.  What it does may be long: that is no hang. */
static void fzHostileTrigger(FzRows *p){
  static const char *const azWhen[] = { "BEFORE", "AFTER" };
  static const char *const azWhat[] = { "INSERT", "UPDATE", "DELETE" };
  static const char *const azDo[] = {
    "SELECT RAISE(IGNORE)", "SELECT RAISE(ABORT, 'stop')",
    "SELECT RAISE(FAIL, 'fail')", "SELECT RAISE(ROLLBACK, 'all back')",
    "DELETE FROM \"%w\"", "UPDATE \"%w\" SET rowid=rowid+1000",
    "INSERT INTO \"%w\" DEFAULT VALUES", "UPDATE \"%w\" SET claim_id='x'",
    "UPDATE \"%w\" SET fencing_token=9223372036854775807",
    "UPDATE \"%w\" SET expires_at_ms=0, promoted=1",
    "UPDATE \"%w\" SET state='active', lease_token=NULL",
    "UPDATE \"%w\" SET payload=zeroblob(100000)"
  };
  const char *zTable = fzName(p, &fzTables);
  const char *zWhen = azWhen[fzBelow(&p->in, 2)];
  const char *zWhat = azWhat[fzBelow(&p->in, 3)];
  char *zDo = sqlite3_mprintf(azDo[fzBelow(&p->in, 12)],
                              fzName(p, &fzTables));
  p->db.bSoft = 1;
  fzTry(p, sqlite3_mprintf("CREATE %s TRIGGER \"h%d\" %s %s ON main.\"%w\""
      " BEGIN %s; END", fzBelow(&p->in, 4)==3 ? "TEMP" : "", p->nNew++, zWhen,
      zWhat, zTable, zDo), fzNull());
  sqlite3_free(zDo);
}

/* A view in the place of a table; it may take writes by INSTEAD OF. */
static void fzHostileView(FzRows *p){
  const char *zTable = fzName(p, &fzTables);
  int n = p->nNew++;
  fzTry(p, sqlite3_mprintf("ALTER TABLE main.\"%w\" RENAME TO \"x%d\"", zTable,
      n), fzNull());
  fzTry(p, sqlite3_mprintf("CREATE VIEW main.\"%w\" AS SELECT * FROM \"x%d\"",
      zTable, n), fzNull());
  if( fzBelow(&p->in, 2) ){
    fzTry(p, sqlite3_mprintf("CREATE TRIGGER \"v%d\" INSTEAD OF UPDATE ON"
        " \"%w\" BEGIN DELETE FROM \"x%d\"; END", n, zTable, n), fzNull());
  }
}

static void fzAlter(FzRows *p){
  static const char *const azAdd[] = {
    "AS (abs(-9223372036854775807-1))", "AS (1/0)", "CHECK(0)",
    "NOT NULL DEFAULT 1 CHECK(abs(-9223372036854775807-1))",
    "DEFAULT 'x' UNIQUE", "AS (json('['))"
  };
  char *zTable = sqlite3_mprintf("%s", fzName(p, &fzColumns));
  char *zCol = strstr(zTable, "\".\"")+3;
  zCol[-3] = 0;
  switch( fzBelow(&p->in, 4) ){
    case 0:
      fzTry(p, sqlite3_mprintf("ALTER TABLE main.\"%w\" ADD COLUMN \"c%d\" %s",
          zTable, p->nNew++, azAdd[fzBelow(&p->in, 6)]), fzNull());
      break;
    case 1:
      fzTry(p, sqlite3_mprintf("ALTER TABLE main.\"%w\" DROP COLUMN \"%w\"",
          zTable, zCol), fzNull());
      break;
    case 2:
      fzTry(p, sqlite3_mprintf("ALTER TABLE main.\"%w\" RENAME COLUMN \"%w\""
          " TO \"c%d\"", zTable, zCol, p->nNew++), fzNull());
      break;
    default:
      fzTry(p, sqlite3_mprintf("CREATE UNIQUE INDEX main.\"i%d\" ON"
          " \"%w\"(\"%w\")", p->nNew++, zTable, zCol), fzNull());
  }
  sqlite3_free(zTable);
}

/* Tables of temp come before those of main, where main is not named. */
static void fzShadow(FzRows *p){
  static const char *const azMake[] = {
    "CREATE TEMP TABLE \"%w\"(a, b)",
    "CREATE TEMP VIEW \"%w\" AS SELECT 1 AS x",
    "CREATE TEMP TABLE \"%w\" AS SELECT * FROM main.claimq_batch",
    "CREATE TEMP VIEW \"%w\" AS SELECT * FROM main.claimq_job"
  };
  fzTry(p, sqlite3_mprintf(azMake[fzBelow(&p->in, 4)],
      fzName(p, fzBelow(&p->in, 4)==3 ? &fzIndexes : &fzTables)), fzNull());
}

static void fzSetSomething(FzRows *p){
  static const char *const az[] = {
    "PRAGMA ignore_check_constraints=ON", "PRAGMA recursive_triggers=ON",
    "PRAGMA trusted_schema=OFF", "PRAGMA count_changes=ON",
    "PRAGMA query_only=ON", "PRAGMA query_only=OFF",
    "PRAGMA reverse_unordered_selects=ON", "PRAGMA cell_size_check=ON",
    "PRAGMA defer_foreign_keys=ON", "PRAGMA legacy_alter_table=ON",
    "PRAGMA writable_schema=ON", "PRAGMA temp_store=MEMORY", "ANALYZE",
    "UPDATE sqlite_stat1 SET stat='1000000 1 1 1 1 1'", "REINDEX",
    "UPDATE sqlite_sequence SET seq=9223372036854775807",
    "UPDATE sqlite_sequence SET seq='x'", "DELETE FROM sqlite_sequence",
    "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "RELEASE a",
    "UPDATE claimq_meta SET value=2", "DELETE FROM claimq_meta",
    "UPDATE claimq_meta SET value=9223372036854775807 WHERE name<'d'",
    "UPDATE claimq_meta SET value='x' WHERE name='contest_fence'",
    "DROP TABLE temp.claimq",
    "UPDATE sqlite_schema SET rootpage=3 WHERE name GLOB 'claimq_b*'"
  };
  fzTry(p, sqlite3_mprintf("%s", az[fzBelow(&p->in, 29)]), fzNull());
}

/**************************************************************************
** Calls
*/
static void fzCheckError(FzRows *p, const char *zSql){
  FzDb *pDb = &p->db;
  int rc = pDb->rc & 0xff;
  /* What a trigger of claimq's raises is a constraint for plain SQL. */
  if( rc==SQLITE_CONSTRAINT && (strncmp(zSql, "INSERT INTO c", 13)==0
      || strncmp(zSql, "REPLACE INTO c", 14)==0
      || strncmp(zSql, "UPDATE c", 8)==0 || strncmp(zSql, "DELETE ", 7)==0)
  ){
    return;
  }
  if( rc==SQLITE_OK || fzCode(pDb) ) return;
  if( pDb->zErr==0 || pDb->zErr[0]==0 ) fzDie("%s: %d, no message", zSql, rc);
  if( rc==SQLITE_MISUSE || rc==SQLITE_RANGE || rc==SQLITE_INTERNAL
   || (rc==SQLITE_NOMEM && !p->bBytes)
  ){
    fzDie("%s: %d %s", zSql, pDb->rc, pDb->zErr);
  }
}

static void fzCallSome(FzRows *p){
  const char *zSql = fzCall[fzBelow(&p->in, FZ_NCALL)];
  int bAuto = sqlite3_get_autocommit(p->db.db);
  FzVal a[3];
  int i = fzBelow(&p->in, fzClaims.n);
  a[0] = fzText(fzClaims.az[i]);
  a[1] = fzText(fzTokens.az[i]);
  a[2] = fzInt(fzBelow(&p->in, 16));
  fzRun(&p->db, zSql, 3, a, 0, 0);
  fzCheckError(p, zSql);
  if( bAuto && !sqlite3_get_autocommit(p->db.db) ){
    fzDie("%s left a transaction open", zSql);
  }
}

/**************************************************************************
** Inputs
*/

/* Change some bytes of the image. */
static void fzBadBytes(FzRows *p, FzImage *pImage){
  int n = 1 + fzBelow(&p->in, 30);
  while( n-- > 0 ){
    i64 i = (fzByte(&p->in)<<8 | fzByte(&p->in)) * (i64)pImage->n / 65536;
    int e = fzBelow(&p->in, 4);
    if( e==0 ) pImage->a[i] ^= (unsigned char)(1<<fzBelow(&p->in, 8));
    else if( e==1 ) pImage->a[i] = (unsigned char)fzByte(&p->in);
    else if( e==2 ) pImage->a[i] = 0;
    else memset(&pImage->a[i], fzByte(&p->in), i+8<pImage->n ? 8 : 1);
  }
}

static void fzOpenDamaged(FzRows *p, int m){
  const FzImage *pFrom = m & 1 ? &fzLoose : &fzStrict;
  FzImage image = *pFrom;
  if( (m & 6)!=6 ){
    fzOpen(&p->db, pFrom);
    return;
  }
  image.a = sqlite3_malloc64((sqlite3_uint64)image.n);
  memcpy(image.a, pFrom->a, (size_t)image.n);
  fzBadBytes(p, &image);
  fzOpen(&p->db, &image);
  sqlite3_free(image.a);
  p->bBytes = 1;
  p->db.bSoft = 1;
}

static void fzSomething(FzRows *p){
  switch( fzBelow(&p->in, 24) ){
    case 0: case 1: case 2: case 3: case 4:
    case 5: case 6:              fzBadColumn(p); break;
    case 7: case 8:              fzDropSome(p); break;
    case 9:                      fzHostileTrigger(p); break;
    case 10:                     fzHostileView(p); break;
    case 11:                     fzAlter(p); break;
    case 12:                     fzShadow(p); break;
    case 13:                     fzSetSomething(p); break;
    default:                     fzCallSome(p); break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *aData, size_t nData){
  static FzRows rows;
  FzRows *p = &rows;
  int i, m;
  if( fzStrict.a==0 ) fzBeginRows();
  memset(p, 0, sizeof(*p));
  p->in.a = aData;
  p->in.n = nData;
  m = fzByte(&p->in);
  fzOpenDamaged(p, m);
  if( m & 8 ) sqlite3_db_config(p->db.db, SQLITE_DBCONFIG_DEFENSIVE, 1, 0);
  if( m & 16 ) fzMust(&p->db, "PRAGMA ignore_check_constraints=ON");
  if( m & 32 ) fzMust(&p->db, "PRAGMA trusted_schema=OFF");
  for(i=0; i<60 && fzMore(&p->in); i++) fzSomething(p);
  fzClose(&p->db);
  return 0;
}
