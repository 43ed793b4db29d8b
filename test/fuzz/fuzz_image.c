/*
** fuzz_image.c: the database that fuzz_args.c and fuzz_rows.c begin with.
**
** Every discipline has work in every state it can be in: waiting, delayed,
** held by a live claim, held by an expired one, settled in each way, dead.
** The names are short (sessions s, t, u; lane l; queue q; owner w), so that a
** fuzzer meets them again and again.
*/
#include "fuzz.h"

/* A claim, settled at once, is "SELECT verb(...) FROM claim table LIMIT 1". */
#define FZ_CLAIM "claim_id, lease_token"

static const char *const fzSessions[] = {
  "SELECT claimq_enqueue('s', 1, 'slot_policy', 'join', 'now_ms', 1)",
  "SELECT claimq_enqueue('s', 2, 'slot_policy', 'join', 'now_ms', 2)",
  "SELECT claimq_enqueue('s', 3, 'merge_key', 'group:g', 'now_ms', 3)",
  "SELECT claimq_enqueue('s', x'04', 'work_class', 'session_command',"
  " 'now_ms', 4)",
  "SELECT claimq_enqueue('s', 'five', 'source_key', 'k',"
  " 'delivery_policy', 'after_current_turn_commit', 'now_ms', 5)",
  "SELECT claimq_enqueue('t', 6.5, 'delay_ms', 2000000, 'now_ms', 6)",
  "SELECT claimq_enqueue('t', 7, 'slot_policy', 'join', 'now_ms', 7)",
  "SELECT claimq_enqueue('t', 8, 'slot_policy', 'join', 'now_ms', 8)",
  "SELECT claimq_enqueue('u', NULL, 'now_ms', 9)",
  "SELECT claimq_enqueue('u', 10, 'now_ms', 10)",
  "SELECT claimq_enqueue('u', 11, 'now_ms', 11)",
  "SELECT claimq_enqueue('u', 12, 'now_ms', 12)",
  /* Two rows under one live claim; one under an expired one. */
  "SELECT * FROM claimq('t', 'w', 9000000, 9, '', 'idle', 'any', NULL, 900000)",
  "SELECT * FROM claimq('u', 'w', 10, 1, 'i', 'idle', 'any', NULL, 500000)",
  "SELECT claimq_retry(" FZ_CLAIM ", 'r', 'now_ms', 500001)"
  " FROM claimq('u', 'w', 10, 1, '', 'idle', 'any', NULL, 500001) LIMIT 1",
  "SELECT claimq_reject(" FZ_CLAIM ", 'why', 'now_ms', 500002)"
  " FROM claimq('u', 'v', 10, 1, '', 'idle', 'any', NULL, 500002) LIMIT 1",
  0
};

static const char *const fzLanes[] = {
  "SELECT claimq_submit('l', 1, 'now_ms', 1)",
  "SELECT claimq_submit('l', 2, 'priority', 5, 'capabilities', '[\"c\"]',"
  " 'now_ms', 2)",
  "SELECT claimq_submit('l', 3, 'delay_ms', 2000000, 'now_ms', 3)",
  "SELECT claimq_submit('l', 4, 'source_key', 'k', 'flow_id', 'f',"
  " 'namespace', 'n', 'instance_tag', 'g', 'now_ms', 4)",
  "SELECT claimq_submit('l', 5, 'partition', 1, 'now_ms', 5)",
  "SELECT claimq_submit('l', 6, 'partition', 1, 'max_reclaims', 0,"
  " 'now_ms', 6)",
  "SELECT claimq_submit('l', 7, 'partition', 2, 'reclaim', 'grant',"
  " 'now_ms', 7)",
  "SELECT claimq_submit('l', 8, 'partition', 2, 'reclaim', 'grant',"
  " 'now_ms', 8)",
  "SELECT claimq_submit('l', 9, 'partition', 3, 'max_attempts', 1,"
  " 'now_ms', 9)",
  "SELECT claimq_submit('l', 10, 'partition', 3, 'now_ms', 10)",
  "SELECT claimq_submit('l', 11, 'partition', 3, 'now_ms', 11)",
  "SELECT claimq_submit('l', 12, 'partition', 3, 'now_ms', 12)",
  "SELECT claimq_submit('l', 13, 'partition', 4, 'now_ms', 13)",
  "SELECT claimq_submit('m', 14, 'capabilities', '[\"c\",\"d\"]',"
  " 'now_ms', 14)",
  /* 5 and 6 expired, 6 for the last time; 7 and 8 wait for a grant. */
  "SELECT * FROM claimq_lane('l', 'w', 10, 9, '', '[]', 1, 500000)",
  "SELECT * FROM claimq_lane('l', 'w', 10, 9, '', '[]', 2, 500000)",
  "SELECT claimq_grant(7, 'w', 9000000, 'now_ms', 900000)",
  "SELECT claimq_grant(8, 'v', 1, 'now_ms', 900000)",
  "SELECT claimq_revoke(8, 'now_ms', 900000)",
  "SELECT claimq_retry(" FZ_CLAIM ", 'dead', 'now_ms', 500002)"
  " FROM claimq_lane('l', 'w', 10, 1, '', '[]', 3, 500002)",
  "SELECT claimq_complete(" FZ_CLAIM ", 'result', 1, 'now_ms', 500003)"
  " FROM claimq_lane('l', 'w', 10, 1, '', '[]', 3, 500003)",
  "SELECT claimq_retry(" FZ_CLAIM ", 'later', 'now_ms', 500004)"
  " FROM claimq_lane('l', 'w', 10, 1, '', '[]', 3, 500004)",
  "SELECT claimq_cancel(12, 'now_ms', 500005)",
  "SELECT * FROM claimq_lane('l', 'w', 9000000, 1, 'i', '[]', 4, 900000)",
  /* 15 waits for a ready one and one that is held, 16 for that, 17 for all. */
  "SELECT claimq_submit('l', 15, 'partition', 5, 'after', '[1,13]',"
  " 'flow_id', 'f', 'now_ms', 900001)",
  "SELECT claimq_submit('l', 16, 'partition', 5, 'after', '[15]',"
  " 'now_ms', 900002)",
  "SELECT claimq_submit('l', 17, 'partition', 5, 'after', '[15,16,9,10]',"
  " 'on_failure', 'run', 'source_key', 'u', 'unique_for_ms', 9000000,"
  " 'now_ms', 900003)",
  0
};

static const char *const fzOthers[] = {
  "SELECT claimq_queue('q', 4)",
  "SELECT claimq_publish('q', 1, 'now_ms', 1)",
  "SELECT claimq_publish('q', 2, 'now_ms', 2)",
  "SELECT claimq_publish('q', 3, 'payload_type', 'text/plain', 'now_ms', 3)",
  "SELECT claimq_publish('q', x'04', 'partition', 1, 'now_ms', 4)",
  "SELECT claimq_publish('q', 5, 'partition', 1, 'now_ms', 5)",
  "SELECT claimq_publish('q', 6, 'partition', 2, 'now_ms', 6)",
  "SELECT claimq_publish('q', 7, 'key', 'k', 'now_ms', 7)",
  "SELECT claimq_complete(" FZ_CLAIM ", 'processed', 1, 'rejected',"
  " '[{\"seq\":1,\"reason\":\"bad\"}]', 'now_ms', 500000)"
  " FROM claimq_outbox('q', 'w', 10, 9, '', 0, 500000) LIMIT 1",
  "SELECT * FROM claimq_outbox('q', 'w', 9000000, 9, '', 0, 900000)",
  "SELECT * FROM claimq_outbox('q', 'w', 10, 1, '', 1, 500000)",
  "SELECT claimq_retry(" FZ_CLAIM ", 'r', 'delay_ms', 2000000,"
  " 'now_ms', 500001) FROM claimq_outbox('q', 'w', 10, 1, '', 2, 500001)",
  "SELECT * FROM claimq_contest('live', 'w', 9000000, '', 0, 900000)",
  "SELECT * FROM claimq_contest('expired', 'w', 10, '', 1, 500000)",
  "SELECT claimq_release(" FZ_CLAIM ", 'delay_ms', 2000000, 'now_ms', 500000)"
  " FROM claimq_contest('kept', 'w', 10, '', 2, 500000)",
  "SELECT claimq_fence('r', 5)",
  /* Lane z: due several times, due once, ended, not enabled. */
  "SELECT claimq_schedule('a', 'every 7 s', 'z', 1, 'catch_up', 'all',"
  " 'priority', 3, 'now_ms', 950000)",
  "SELECT claimq_schedule('b', '*/5 * * * *', 'z', 2, 'now_ms', 800000)",
  "SELECT claimq_schedule('c', '@daily', 'z', 3, 'until_at_ms', 1,"
  " 'now_ms', 1)",
  "SELECT claimq_schedule('e', '@hourly', 'z', 4, 'enabled', 0, 'now_ms', 1)",
  "CREATE TABLE sink(x)",
  /* Lane g: groups that take turns, one full, one whose lease has ended, one
  ** that waits for its rate; jobs without a group.  Lane h: full. */
  "SELECT claimq_policy('g', 'max_active', 9, 'group_max_active', 1,"
  " 'group_rate', 2, 'group_per_ms', 3000000, 'fair', 1, 'now_ms', 1)",
  "SELECT claimq_policy('h', 'max_active', 1, 'rate', 3, 'per_ms', 500000,"
  " 'now_ms', 1)",
  "WITH n(i) AS (VALUES(1),(2),(3),(4),(5),(6),(7),(8))"
  " SELECT claimq_submit('g', i, 'group_key', 'g'||(i%3), 'now_ms', i),"
  " claimq_submit('g', i, 'capabilities', '[\"c\"]', 'group_key',"
  " 'g'||(i%2), 'now_ms', i), claimq_submit('g', i, 'now_ms', i),"
  " claimq_submit('h', i, 'source_key', 'k'||i, 'now_ms', i) FROM n",
  "SELECT claimq_complete(" FZ_CLAIM ", 'now_ms', 400001)"
  " FROM claimq_lane('g', 'w', 10, 1, '', '[]', 0, 400000)",
  "SELECT * FROM claimq_lane('g', 'w', 10, 2, '', '[\"c\"]', 0, 500000)",
  "SELECT * FROM claimq_lane('g', 'w', 9000000, 3, '', '[]', 0, 600000)",
  "SELECT * FROM claimq_lane('h', 'w', 9000000, 1, '', '[]', 0, 600000)",
  /* Letters: session u, lane l (9), outbox q/0; and two that are done. */
  "SELECT * FROM claimq_dead_letter(NULL, 'w', 9000000, 1, '', 'session',"
  " 900000)",
  "SELECT * FROM claimq_dead_letter(NULL, 'w', 10, 1, '', 'lane', 500010)",
  "INSERT INTO claimq_letter(source, scope, ref, payload, created_at_ms,"
  " failed_at_ms, status) VALUES('lane', 'l', 99, 1, 1, 2, 'resolved'),"
  " ('outbox', 'q/0', 99, 1, 1, 2, 'discarded'),"
  " ('session', 's', 'qwb:0', 1, 1, 2, 'pending')",
  0
};

FzImage fzPopulate(const char *zEncoding){
  const char *const *const aazSql[] = { fzSessions, fzLanes, fzOthers };
  FzImage image;
  FzDb db;
  char *zSql;
  int i, j;
  memset(&db, 0, sizeof(db));
  if( sqlite3_open(":memory:", &db.db) ) fzDie("open");
  zSql = sqlite3_mprintf("PRAGMA encoding='%s'", zEncoding);
  fzMust(&db, zSql);
  sqlite3_free(zSql);
  fzMust(&db, "PRAGMA page_size=512");
  if( sqlite3_claimq_init(db.db, 0, 0) ) fzDie("loading failed");
  fzMust(&db, "SELECT claimq_init('all', 1)");
  for(i=0; i<3; i++){
    for(j=0; aazSql[i][j]; j++) fzMust(&db, aazSql[i][j]);
  }
  fzIntegrity(&db);
  image = fzSave(&db);
  fzClose(&db);
  return image;
}

/**************************************************************************
** The claims of the image
*/
FzIds fzClaims, fzTokens, fzBatches;

static int fzIdRow(void *pArg, sqlite3_stmt *pStmt){
  FzIds *p = (FzIds*)pArg;
  assert( p->n<FZ_MAX_ID );
  p->az[p->n++] = sqlite3_mprintf("%s", sqlite3_column_text(pStmt, 0));
  return 1;
}

/* Claims that hold, then claims of jobs that are settled. */
void fzLoadIds(FzDb *pDb){
  static const char *const azTable[] = {
    "batch", "job", "partition", "holder", "letter", 0
  };
  FzIds *const apIds[] = { &fzClaims, &fzTokens };
  static const char *const azCol[] = { "claim_id", "lease_token" };
  static const char *const azOld[] = { "settled_claim_id", "settled_token" };
  int i, j;
  for(j=0; j<2; j++){
    char *z;
    for(i=0; azTable[i]; i++){
      z = sqlite3_mprintf("SELECT %s FROM claimq_%s WHERE claim_id NOT NULL"
          " ORDER BY rowid", azCol[j], azTable[i]);
      fzRun(pDb, z, 0, 0, fzIdRow, apIds[j]);
      sqlite3_free(z);
    }
    z = sqlite3_mprintf("SELECT %s FROM claimq_job"
        " WHERE settled_claim_id NOT NULL ORDER BY rowid", azOld[j]);
    fzRun(pDb, z, 0, 0, fzIdRow, apIds[j]);
    sqlite3_free(z);
  }
  fzRun(pDb, "SELECT batch_id FROM claimq_batch", 0, 0, fzIdRow, &fzBatches);
  if( fzClaims.n<10 || fzTokens.n!=fzClaims.n || fzBatches.n==0 ){
    fzDie("no claims: %s", pDb->zErr);
  }
}
