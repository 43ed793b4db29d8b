/*
** bench_queue.c: the SQL of each queue on both sides, and what a worker does
** with it: put, take, done.
**
** THE FLOOR.  A narrow table, an index of the free rows alone, and
**
**     claim      BEGIN IMMEDIATE; SELECT the head; UPDATE it; COMMIT
**     complete   DELETE ... WHERE id=? AND until=?
**
** (in a transaction that is open already, without BEGIN and COMMIT).  Of the
** ways that are right when several processes work on one file this is the
** cheapest.  UPDATE ... WHERE id=(SELECT ...) RETURNING is one statement, but
** SQLite collects what it returns in a temporary b-tree: the same time alone,
** up to twice the time in a larger transaction or for a group.  SELECT, then
** UPDATE ... WHERE still free, needs no BEGIN and takes the same time, but all
** workers read the same head and all but one must try again.
**
** The lease (until) is compared when the job is completed, so that a late
** worker does not delete what another holds: that much care one expects.
** Jobs of workers that died are no part of it, nor are tokens, fences,
** attempts, history, events, source keys.
*/
#include "bench.h"
#include <string.h>

static int bnTakeFloor(BnSide *p, int nMax);
static int bnTakeFloorOutbox(BnSide *p, int nMax);
static int bnTakeFloorContest(BnSide *p, int nMax);

const BnQueue benchSession[BN_NSIDE] = {
  {
    .zName = "session",
    .zSchema =
      "CREATE TABLE job("
      "  id INTEGER PRIMARY KEY,"
      "  session TEXT NOT NULL,"
      "  payload TEXT NOT NULL,"
      "  until INTEGER NOT NULL DEFAULT 0);"
      "CREATE INDEX job_free ON job(session) WHERE until=0;",
    .azSql = {
      [BN_PUT] = "INSERT INTO job(session,payload) VALUES(?1,?2)",
      [BN_FILL] = "INSERT INTO job(session,payload)" BN_NUMBERS
        "SELECT " BN_SCOPE "," BN_PAYLOAD " FROM c",
      [BN_TAKE] = "UPDATE job SET until=?2 WHERE id=?1",
      [BN_DONE] = "DELETE FROM job WHERE id=?1 AND until=?2",
      [BN_LOOK] = "SELECT id, payload FROM job"
        " WHERE session=?1 AND until=0 ORDER BY id LIMIT ?2",
      [BN_REST] = "SELECT payload FROM job",
    },
    .bEach = 1,
    .xTake = bnTakeFloor,
  }, {
    .zName = "session",
    .zSchema = "SELECT claimq_init('sessions', 1)",
    .azSql = {
      [BN_PUT] = "SELECT claimq_enqueue(?1,?2)",
      [BN_FILL] = BN_NUMBERS "SELECT count(claimq_enqueue(" BN_SCOPE ","
        BN_PAYLOAD ",'slot_policy','join')) FROM c",
      [BN_TAKE] = "SELECT claim_id, lease_token, payload"
        " FROM claimq(?1,'worker-1',?2,?3)",
      [BN_NEXT] = "SELECT claim_id, lease_token, payload"
        " FROM claimq(?1,'worker-1',?2,?3) WHERE done=?4",
      [BN_DONE] = "SELECT claimq_complete(?1,?2)",
      [BN_REST] = "SELECT payload FROM claimq_batch",
    },
    .xTake = benchTakeClaimq,
  }
};

#define BN_LANE_FLOOR { \
    .zName = "lane", \
    .zSchema = \
      "CREATE TABLE job(" \
      "  id INTEGER PRIMARY KEY," \
      "  lane TEXT NOT NULL," \
      "  priority INTEGER NOT NULL," \
      "  created INTEGER NOT NULL," \
      "  payload TEXT NOT NULL," \
      "  until INTEGER NOT NULL DEFAULT 0);" \
      "CREATE INDEX job_free ON job(lane, priority DESC, created)" \
      " WHERE until=0;", \
    .azSql = { \
      [BN_PUT] = "INSERT INTO job(lane,priority,created,payload)" \
        " VALUES(?1,0,?3,?2)", \
      [BN_FILL] = "INSERT INTO job(lane,priority,created,payload)" BN_NUMBERS \
        "SELECT " BN_SCOPE ",i%10,?5," BN_PAYLOAD " FROM c", \
      [BN_TAKE] = "UPDATE job SET until=?2 WHERE id=?1", \
      [BN_DONE] = "DELETE FROM job WHERE id=?1 AND until=?2", \
      [BN_LOOK] = "SELECT id, payload FROM job WHERE lane=?1 AND until=0" \
        " ORDER BY priority DESC, created, id LIMIT ?2", \
      [BN_REST] = "SELECT payload FROM job", \
    }, \
    .bEach = 1, \
    .xTake = bnTakeFloor, \
  }
#define BN_LANE_CLAIMQ(SETUP) { \
    .zName = "lane", \
    .zSchema = "SELECT claimq_init();" SETUP, \
    .azSql = { \
      [BN_PUT] = "SELECT claimq_submit(?1,?2)", \
      [BN_FILL] = "INSERT INTO claimq_job(lane,priority,payload)" \
        BN_NUMBERS "SELECT " BN_SCOPE ",i%10," BN_PAYLOAD " FROM c", \
      [BN_TAKE] = "SELECT claim_id, lease_token, payload" \
        " FROM claimq_lane(?1,'worker-1',?2,?3)", \
      [BN_NEXT] = "SELECT claim_id, lease_token, payload" \
        " FROM claimq_lane(?1,'worker-1',?2,?3) WHERE done=?4", \
      [BN_DONE] = "SELECT claimq_complete(?1,?2)", \
      [BN_DONES] = "SELECT claimq_complete(?1)", \
      [BN_REST] = "SELECT payload FROM claimq_job" \
        " WHERE terminal_at_ms IS NULL", \
    }, \
    .bEach = 1, \
    .xTake = benchTakeClaimq, \
  }
const BnQueue benchLane[BN_NSIDE] = { BN_LANE_FLOOR, BN_LANE_CLAIMQ("") };
const BnQueue benchGone[BN_NSIDE] = {
  BN_LANE_FLOOR, BN_LANE_CLAIMQ("SELECT claimq_policy('s','keep_ms',0)")
};

/* By hand, a partition is a row with a cursor, and a relay that knows the
** number of partitions visits them in turn. */
const BnQueue benchOutbox[BN_NSIDE] = {
  {
    .zName = "outbox",
    .zSchema =
      "CREATE TABLE part(id INTEGER PRIMARY KEY, done INTEGER NOT NULL,"
      "  until INTEGER NOT NULL);"
      "CREATE TABLE message(id INTEGER PRIMARY KEY, part INTEGER NOT NULL,"
      "  payload TEXT NOT NULL);"
      "CREATE INDEX message_part ON message(part);"
      "INSERT INTO part VALUES(0,0,0);",
    .azSql = {
      [BN_PUT] = "INSERT INTO message(part,payload) VALUES(0,?2)",
      [BN_FILL] = "INSERT INTO message(part,payload)" BN_NUMBERS
        "SELECT i%?4," BN_PAYLOAD " FROM c",
      [BN_HEAD] = "SELECT done FROM part WHERE id=?1 AND until<=?2",
      [BN_TAKE] = "UPDATE part SET until=?2 WHERE id=?1",
      [BN_READ] = "SELECT id, payload FROM message WHERE part=?1 AND id>?2"
        " ORDER BY id LIMIT ?3",
      [BN_DONE] = "UPDATE part SET until=0, done=?3 WHERE id=?1 AND until=?2",
      [BN_LOOK] = "SELECT id, payload FROM message WHERE part=0 AND id>("
        "SELECT done FROM part WHERE id=0) ORDER BY id LIMIT ?2",
      [BN_REST] = "SELECT payload FROM message, part"
        " WHERE part.id=part AND message.id>done",
    },
    .bParts = 1,
    .xTake = bnTakeFloorOutbox,
  }, {
    .zName = "outbox",
    .zSchema = "SELECT claimq_init(); SELECT claimq_queue('s',1)",
    .azSql = {
      [BN_PUT] = "SELECT claimq_publish(?1,?2)",
      [BN_FILL] = BN_NUMBERS "SELECT count(claimq_publish(?3," BN_PAYLOAD
        ",'partition',i%?4)) FROM c",
      [BN_TAKE] = "SELECT claim_id, lease_token, payload"
        " FROM claimq_outbox(?1,'worker-1',?2,?3)",
      [BN_DONE] = "SELECT claimq_complete(?1,?2)",
      [BN_REST] = "SELECT payload FROM claimq_message AS m"
        " JOIN claimq_partition AS p USING(queue,partition)"
        " WHERE seq>processed_seq OR seq IS NULL",
    },
    .bParts = 1,
    .xTake = benchTakeClaimq,
  }
};

const BnQueue benchContest[BN_NSIDE] = {
  {
    .zName = "contest",
    .zSchema =
      "CREATE TABLE holder(kind INTEGER NOT NULL, label TEXT NOT NULL,"
      "  owner TEXT NOT NULL, until INTEGER NOT NULL,"
      "  PRIMARY KEY(kind,label)) WITHOUT ROWID;",
    .azSql = {
      [BN_TAKE] = "INSERT INTO holder(kind,label,owner,until)"
        " VALUES(0,?1,'worker-1',?2) ON CONFLICT DO UPDATE SET"
        " owner=excluded.owner, until=excluded.until WHERE until<=?3",
      [BN_DONE] = "DELETE FROM holder"
        " WHERE kind=0 AND label=?1 AND owner='worker-1' AND until=?2",
      [BN_REST] = "SELECT count(*) FROM holder WHERE owner='worker-1'",
    },
    .bNoPayload = 1,
    .xTake = bnTakeFloorContest,
  }, {
    .zName = "contest",
    .zSchema = "SELECT claimq_init()",
    .azSql = {
      [BN_TAKE] = "SELECT claim_id, lease_token, outcome"
        " FROM claimq_contest(?1,'worker-1',?2)",
      [BN_DONE] = "SELECT claimq_release(?1,?2)",
      [BN_REST] = "SELECT count(*) FROM claimq_holder"
        " WHERE owner='worker-1'",
    },
    .bNoPayload = 1,
    .xTake = benchTakeClaimq,
  }
};

/**************************************************************************
** Put
*/

/*
** The scope of the next operation.
*/
static const char *bnScope(BnSide *p){
  if( p->nScope==1 || p->pQueue->bParts ) return p->zScope;
  sqlite3_snprintf(sizeof(p->zScopeBuf), p->zScopeBuf, "%s%d", p->zScope,
                   (int)(p->iScope++ % p->nScope));
  return p->zScopeBuf;
}

i64 benchNewSerials(BnSide *p, i64 n){
  i64 iFirst = p->nSerial;
  p->nSerial += n;
  if( p->nSerial>BN_NSERIAL ) benchDie("more than %d jobs", BN_NSERIAL);
  return iFirst;
}

void benchPut(BnSide *p){
  sqlite3_stmt *pStmt = benchStmt(p, BN_PUT);
  char z[BN_NPAYLOAD];
  benchPayload(benchNewSerials(p, 1), z);
  sqlite3_bind_text(pStmt, 1, p->zScope, -1, SQLITE_STATIC);
  sqlite3_bind_text(pStmt, 2, z, BN_NPAYLOAD, SQLITE_STATIC);
  sqlite3_bind_int64(pStmt, 3, benchNowMs());
  while( benchStep(p, pStmt) ){}
  benchReset(p, pStmt);
}

static void bnFillStmt(BnSide *p, sqlite3_stmt *pStmt, i64 n){
  sqlite3_bind_int64(pStmt, 1, benchNewSerials(p, n));
  sqlite3_bind_int64(pStmt, 2, n);
  sqlite3_bind_text(pStmt, 3, p->zScope, -1, SQLITE_STATIC);
  sqlite3_bind_int(pStmt, 4, p->nScope);
  sqlite3_bind_int64(pStmt, 5, benchNowMs());
  while( benchStep(p, pStmt) ){}
  benchReset(p, pStmt);
}

/*
** n jobs by one statement.
*/
void benchFill(BnSide *p, i64 n){
  if( n==0 || p->pQueue->bNoPayload ) return;
  bnFillStmt(p, benchStmt(p, BN_FILL), n);
}

/*
** The same by another statement than the queue's own.
*/
void benchFillBy(BnSide *p, const char *zSql, i64 n){
  sqlite3_stmt *pStmt = benchPrepare(p, zSql);
  bnFillStmt(p, pStmt, n);
  sqlite3_finalize(pStmt);
}

/**************************************************************************
** Take
*/

/* Remember a row of a claim; iCol is the payload's column. */
static BnClaim *bnHold(BnSide *p, sqlite3_stmt *pStmt, int iCol){
  BnClaim *pClaim = &p->aClaim[p->nClaim++];
  if( p->nClaim>BN_NCLAIM ) benchDie("a claim of too many rows");
  if( p->pQueue->bNoPayload==0 ){
    pClaim->iSerial = benchSerial(sqlite3_column_text(pStmt, iCol),
                                  sqlite3_column_bytes(pStmt, iCol));
  }
  return pClaim;
}

/*
** Write the lease into a row: of a job, or of a partition.
*/
static void bnLeaseFloor(BnSide *p, i64 iKey){
  sqlite3_stmt *pStmt = benchStmt(p, BN_TAKE);
  sqlite3_bind_int64(pStmt, 1, iKey);
  sqlite3_bind_int64(pStmt, 2, p->iUntil);
  benchStep(p, pStmt);
  benchReset(p, pStmt);
}

/*
** Hold the rows (id, payload) of a SELECT.
*/
static void bnHoldFloor(BnSide *p, sqlite3_stmt *pStmt){
  while( benchStep(p, pStmt) ){
    bnHold(p, pStmt, 1)->iKey = sqlite3_column_int64(pStmt, 0);
  }
  benchReset(p, pStmt);
}

static int bnTakeFloor(BnSide *p, int nMax){
  int bTxn = sqlite3_get_autocommit(p->db);
  sqlite3_stmt *pStmt = benchStmt(p, BN_LOOK);
  int i;
  p->iUntil = benchNowMs() + BN_LEASE_MS;
  if( bTxn ) benchRun(p, BN_BEGIN);
  sqlite3_bind_text(pStmt, 1, bnScope(p), -1, SQLITE_STATIC);
  sqlite3_bind_int(pStmt, 2, nMax);
  bnHoldFloor(p, pStmt);
  for(i=0; i<p->nClaim; i++) bnLeaseFloor(p, p->aClaim[i].iKey);
  if( bTxn ) benchRun(p, BN_COMMIT);
  return p->nClaim;
}

/*
** The cursor of a partition that nobody has leased; -1 if there is none.
*/
static i64 bnHeadFloorOutbox(BnSide *p, i64 iPart, i64 iNow){
  sqlite3_stmt *pStmt = benchStmt(p, BN_HEAD);
  i64 iDone = -1;
  sqlite3_bind_int64(pStmt, 1, iPart);
  sqlite3_bind_int64(pStmt, 2, iNow);
  if( benchStep(p, pStmt) ) iDone = sqlite3_column_int64(pStmt, 0);
  benchReset(p, pStmt);
  return iDone;
}

static int bnTakeFloorOutbox(BnSide *p, int nMax){
  int bTxn = sqlite3_get_autocommit(p->db);
  sqlite3_stmt *pStmt = benchStmt(p, BN_READ);
  i64 iNow = benchNowMs();
  i64 iPart = p->iScope % p->nScope;
  i64 iDone;
  p->iUntil = iNow + BN_LEASE_MS;
  if( bTxn ) benchRun(p, BN_BEGIN);
  iDone = bnHeadFloorOutbox(p, iPart, iNow);
  if( iDone>=0 ){
    sqlite3_bind_int64(pStmt, 1, iPart);
    sqlite3_bind_int64(pStmt, 2, iDone);
    sqlite3_bind_int(pStmt, 3, nMax);
    bnHoldFloor(p, pStmt);
    bnLeaseFloor(p, iPart);
  }
  if( bTxn ) benchRun(p, BN_COMMIT);
  return p->nClaim;
}

static int bnTakeFloorContest(BnSide *p, int nMax){
  sqlite3_stmt *pStmt = benchStmt(p, BN_TAKE);
  i64 iNow = benchNowMs();
  (void)nMax;
  p->iUntil = iNow + BN_LEASE_MS;
  sqlite3_bind_text(pStmt, 1, p->zScope, -1, SQLITE_STATIC);
  sqlite3_bind_int64(pStmt, 2, p->iUntil);
  sqlite3_bind_int64(pStmt, 3, iNow);
  benchStep(p, pStmt);
  benchReset(p, pStmt);
  if( sqlite3_changes(p->db)==1 ) bnHold(p, pStmt, 0);
  return p->nClaim;
}

/*
** Copy a text column.  Returns its length.
*/
static int bnText(sqlite3_stmt *pStmt, int iCol, char *z, int nMax){
  int n = sqlite3_column_bytes(pStmt, iCol);
  if( n>nMax ) benchDie("a text is too long");
  memcpy(z, sqlite3_column_text(pStmt, iCol), (size_t)n);
  return n;
}

/* Rows that share their claim (bEach=0) need its id and token once. */
static int bnTakeClaimq(BnSide *p, sqlite3_stmt *pStmt, int nMax){
  p->nClaim = 0;
  sqlite3_bind_text(pStmt, 1, bnScope(p), -1, SQLITE_STATIC);
  sqlite3_bind_int64(pStmt, 2, BN_LEASE_MS);
  sqlite3_bind_int(pStmt, 3, nMax);
  while( benchStep(p, pStmt) ){
    BnClaim *pClaim = bnHold(p, pStmt, 2);
    if( p->nClaim>1 && p->pQueue->bEach==0 ) continue;
    pClaim->nKey = bnText(pStmt, 0, pClaim->zKey, sizeof(pClaim->zKey));
    pClaim->nProof = bnText(pStmt, 1, pClaim->zProof, sizeof(pClaim->zProof));
  }
  benchReset(p, pStmt);
  return p->nClaim;
}
int benchTakeClaimq(BnSide *p, int nMax){
  return bnTakeClaimq(p, benchStmt(p, BN_TAKE), nMax);
}

/*
** Claim up to nMax rows.  Returns how many; they are in aClaim.
*/
int benchTake(BnSide *p, int nMax){
  p->nClaim = 0;
  return p->pQueue->xTake(p, nMax);
}

/**************************************************************************
** Done
*/
static int bnDoneFloor(BnSide *p, const BnClaim *pClaim){
  sqlite3_stmt *pStmt = benchStmt(p, BN_DONE);
  if( p->pQueue==&benchOutbox[BN_FLOOR] ){
    sqlite3_bind_int64(pStmt, 1, p->iScope++ % p->nScope);
    sqlite3_bind_int64(pStmt, 3, p->aClaim[p->nClaim-1].iKey);
  }else if( p->pQueue->bNoPayload ){
    sqlite3_bind_text(pStmt, 1, p->zScope, -1, SQLITE_STATIC);
  }else{
    sqlite3_bind_int64(pStmt, 1, pClaim->iKey);
  }
  sqlite3_bind_int64(pStmt, 2, p->iUntil);
  benchStep(p, pStmt);
  benchReset(p, pStmt);
  return sqlite3_changes(p->db);
}

static int bnDoneClaimq(BnSide *p, const BnClaim *pClaim){
  sqlite3_stmt *pStmt = benchStmt(p, BN_DONE);
  int nRow = 0;
  sqlite3_bind_text(pStmt, 1, pClaim->zKey, pClaim->nKey, SQLITE_STATIC);
  sqlite3_bind_text(pStmt, 2, pClaim->zProof, pClaim->nProof, SQLITE_STATIC);
  while( benchStep(p, pStmt) ) nRow = sqlite3_column_int(pStmt, 0);
  benchReset(p, pStmt);
  return nRow;
}

/*
** Complete all that is held, in one call.
*/
static void bnDonesClaimq(BnSide *p){
  sqlite3_stmt *pStmt = benchStmt(p, BN_DONES);
  sqlite3_str *pStr = sqlite3_str_new(p->db);
  char *z;
  int i, n;
  for(i=0; i<p->nClaim; i++){
    const BnClaim *pClaim = &p->aClaim[i];
    sqlite3_str_appendf(pStr, "%s[\"%.*s\",\"%.*s\"]", i ? "," : "[",
        pClaim->nKey, pClaim->zKey, pClaim->nProof, pClaim->zProof);
  }
  sqlite3_str_appendall(pStr, "]");
  n = sqlite3_str_length(pStr);
  z = sqlite3_str_finish(pStr);
  sqlite3_bind_text(pStmt, 1, z, n, SQLITE_STATIC);
  while( benchStep(p, pStmt) ){
    if( sqlite3_column_bytes(pStmt, 0)!=2*p->nClaim+1 ) benchDie("not done");
  }
  benchReset(p, pStmt);
  sqlite3_bind_null(pStmt, 1);
  sqlite3_free(z);
}

/*
** Complete the i-th claim that is held.
*/
static void bnDoneOne(BnSide *p, int i){
  int nWant = !benchIsClaimq(p) || p->pQueue->bEach ? 1 : p->nClaim;
  int n = benchIsClaimq(p) ? bnDoneClaimq(p, &p->aClaim[i])
                           : bnDoneFloor(p, &p->aClaim[i]);
  if( n!=nWant ) benchDie("%d rows done instead of %d", n, nWant);
}

/*
** Complete all that is held, and tick it off.
*/
void benchDone(BnSide *p){
  int bList = p->nClaim>1 && p->pQueue->azSql[BN_DONES]!=0;
  int i;
  if( bList ) bnDonesClaimq(p);
  for(i=0; i<p->nClaim; i++){
    if( !bList && (i==0 || p->pQueue->bEach) ) bnDoneOne(p, i);
    if( p->pQueue->bNoPayload==0 ) benchTick(p, p->aClaim[i].iSerial);
  }
  p->nClaim = 0;
}

/*
** Complete the one row that is held and take the next, in one transaction; by
** hand in one of five statements.  Returns how many rows were taken.
*/
int benchNext(BnSide *p){
  BnClaim *pClaim = &p->aClaim[0];
  i64 iSerial = pClaim->iSerial;
  char zDone[sizeof(pClaim->zKey)+sizeof(pClaim->zProof)+8];
  sqlite3_stmt *pStmt;
  if( !benchIsClaimq(p) ){
    benchRun(p, BN_BEGIN);
    if( bnDoneFloor(p, pClaim)!=1 ) benchDie("not done");
    benchTake(p, 1);
    benchRun(p, BN_COMMIT);
  }else{
    sqlite3_snprintf(sizeof(zDone), zDone, "[\"%.*s\",\"%.*s\"]", pClaim->nKey,
        pClaim->zKey, pClaim->nProof, pClaim->zProof);
    pStmt = benchStmt(p, BN_NEXT);
    sqlite3_bind_text(pStmt, 4, zDone, -1, SQLITE_STATIC);
    bnTakeClaimq(p, pStmt, 1);
    sqlite3_bind_null(pStmt, 4);
  }
  benchTick(p, iSerial);
  return p->nClaim;
}

/*
** A claim where there is nothing: by hand, the SELECT alone.  Returns the
** number of rows, which should be 0.
*/
int benchLook(BnSide *p){
  sqlite3_stmt *pStmt;
  int nRow = 0;
  if( benchIsClaimq(p) ) return benchTake(p, 1);
  pStmt = benchStmt(p, BN_LOOK);
  sqlite3_bind_text(pStmt, 1, p->zScope, -1, SQLITE_STATIC);
  sqlite3_bind_int(pStmt, 2, 1);
  while( benchStep(p, pStmt) ) nRow++;
  benchReset(p, pStmt);
  return nRow;
}
