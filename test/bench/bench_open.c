/*
** bench_open.c: opening a file, loading claimq, and first calls.
**
**     open.*     open the file and read its schema, as every program does that
**                opens it, without the extension
**     first.*    open it, add one job, close it: with claimq, load it as well
**     load, init, submit, claim
**                load claimq into a connection that is open; claimq_init() with
**                nothing to do; the first claimq_submit() and the first claim
**
** Beside claimq's schema, of lanes alone and of everything, stand one table,
** and the schemas of two queues that keep their jobs in SQLite: River (its
** SQLite driver up to migration 6) and Solid Queue 1.1.  These are their
** tables, columns and indexes as their migrations make them, without CHECKs,
** which SQLite would have to read as well.
*/
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BN_NOPEN 41

static const char bnOne[] = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)";

/* A table of River's, its columns and then its indexes. */
#define BN_INDEX(TABLE, N, COLS) \
  "CREATE INDEX " #TABLE "_" #N " ON " #TABLE "(" COLS ");"
static const char bnRiver[] =
  "CREATE TABLE river_migration(line text NOT NULL, version integer NOT NULL,"
  " created_at timestamp NOT NULL, PRIMARY KEY(line, version));"
  "CREATE TABLE river_job(id integer PRIMARY KEY, args blob NOT NULL"
  " DEFAULT '{}', attempt integer NOT NULL DEFAULT 0, attempted_at timestamp,"
  " attempted_by blob, created_at timestamp NOT NULL DEFAULT"
  " CURRENT_TIMESTAMP, errors blob, finalized_at timestamp, kind text NOT"
  " NULL, max_attempts integer NOT NULL, metadata blob NOT NULL DEFAULT '{}',"
  " priority integer NOT NULL DEFAULT 1, queue text NOT NULL DEFAULT"
  " 'default', state text NOT NULL DEFAULT 'available', scheduled_at timestamp"
  " NOT NULL DEFAULT CURRENT_TIMESTAMP, tags blob NOT NULL DEFAULT '[]',"
  " unique_key blob, unique_states integer);"
  BN_INDEX(river_job, 1, "kind")
  BN_INDEX(river_job, 2, "state, finalized_at")
  BN_INDEX(river_job, 3, "state, queue, priority, scheduled_at, id")
  BN_INDEX(river_job, 4, "unique_key")
  "CREATE TABLE river_leader(elected_at timestamp NOT NULL, expires_at"
  " timestamp NOT NULL, leader_id text NOT NULL, name text PRIMARY KEY);"
  "CREATE TABLE river_queue(name text PRIMARY KEY, created_at timestamp NOT"
  " NULL, metadata blob NOT NULL, paused_at timestamp, updated_at timestamp"
  " NOT NULL);"
  "CREATE TABLE river_client(id text PRIMARY KEY, created_at timestamp NOT"
  " NULL, metadata blob NOT NULL, paused_at timestamp, updated_at timestamp);"
  "CREATE TABLE river_client_queue(river_client_id text NOT NULL, name text"
  " NOT NULL, created_at timestamp NOT NULL, max_workers integer NOT NULL,"
  " metadata blob NOT NULL, num_jobs_completed integer NOT NULL,"
  " num_jobs_running integer NOT NULL, updated_at timestamp NOT NULL,"
  " PRIMARY KEY(river_client_id, name));";

/* Of Solid Queue: NAME is without its prefix; all have an id. */
#define BN_SOLID(NAME, COLS) \
  "CREATE TABLE solid_queue_" #NAME "(id integer PRIMARY KEY AUTOINCREMENT" \
  " NOT NULL, created_at datetime(6) NOT NULL, " COLS ");"
#define BN_JOB "job_id bigint NOT NULL REFERENCES solid_queue_jobs(id)"
#define BN_NAMED "queue_name varchar NOT NULL"
#define BN_RANK "priority integer DEFAULT 0 NOT NULL"
#define BN_BY(NAME, N, COLS) BN_INDEX(solid_queue_##NAME, N, COLS)
static const char bnSolid[] =
  BN_SOLID(jobs, BN_NAMED ", class_name varchar NOT NULL, arguments text, "
    BN_RANK ", active_job_id varchar, scheduled_at datetime(6), finished_at"
    " datetime(6), concurrency_key varchar, updated_at datetime(6) NOT NULL")
  BN_BY(jobs, 1, "active_job_id") BN_BY(jobs, 2, "class_name")
  BN_BY(jobs, 3, "finished_at") BN_BY(jobs, 4, "queue_name, finished_at")
  BN_BY(jobs, 5, "scheduled_at, finished_at")
  BN_SOLID(blocked_executions, BN_JOB "," BN_NAMED "," BN_RANK
    ", concurrency_key varchar NOT NULL, expires_at datetime(6) NOT NULL")
  BN_BY(blocked_executions, 1, "concurrency_key, priority, job_id")
  BN_BY(blocked_executions, 2, "expires_at, concurrency_key")
  BN_BY(blocked_executions, 3, "job_id")
  BN_SOLID(claimed_executions, BN_JOB ", process_id bigint")
  BN_BY(claimed_executions, 1, "job_id")
  BN_BY(claimed_executions, 2, "process_id, job_id")
  BN_SOLID(failed_executions, BN_JOB ", error text")
  BN_BY(failed_executions, 1, "job_id")
  BN_SOLID(pauses, BN_NAMED) BN_BY(pauses, 1, "queue_name")
  BN_SOLID(processes, "kind varchar NOT NULL, last_heartbeat_at datetime(6)"
    " NOT NULL, supervisor_id bigint, pid integer NOT NULL, hostname varchar,"
    " metadata text, name varchar NOT NULL")
  BN_BY(processes, 1, "last_heartbeat_at")
  BN_BY(processes, 2, "name, supervisor_id")
  BN_BY(processes, 3, "supervisor_id");
static const char bnSolid2[] =
  BN_SOLID(ready_executions, BN_JOB "," BN_NAMED "," BN_RANK)
  BN_BY(ready_executions, 1, "job_id")
  BN_BY(ready_executions, 2, "priority, job_id")
  BN_BY(ready_executions, 3, "queue_name, priority, job_id")
  BN_SOLID(recurring_executions, BN_JOB ", task_key varchar NOT NULL,"
    " run_at datetime(6) NOT NULL")
  BN_BY(recurring_executions, 1, "job_id")
  BN_BY(recurring_executions, 2, "task_key, run_at")
  BN_SOLID(recurring_tasks, "key varchar NOT NULL, schedule varchar NOT NULL,"
    " command varchar(2048), class_name varchar, arguments text, queue_name"
    " varchar, priority integer DEFAULT 0, static boolean DEFAULT 1 NOT NULL,"
    " description text, updated_at datetime(6) NOT NULL")
  BN_BY(recurring_tasks, 1, "key") BN_BY(recurring_tasks, 2, "static")
  BN_SOLID(scheduled_executions, BN_JOB "," BN_NAMED "," BN_RANK
    ", scheduled_at datetime(6) NOT NULL")
  BN_BY(scheduled_executions, 1, "job_id")
  BN_BY(scheduled_executions, 2, "scheduled_at, priority, job_id")
  BN_SOLID(semaphores, "key varchar NOT NULL, value integer DEFAULT 1 NOT"
    " NULL, expires_at datetime(6) NOT NULL, updated_at datetime(6) NOT NULL")
  BN_BY(semaphores, 1, "expires_at") BN_BY(semaphores, 2, "key, value")
  BN_BY(semaphores, 3, "key");

/* A file, and the statement that adds a job. */
#define BN_FILE(SCHEMA, MORE, PUT, CLAIMQ) \
  { .zName = "open", .zSchema = SCHEMA, .bClaimq = CLAIMQ, \
    .azSql = { [BN_PUT] = PUT, [BN_MORE] = MORE } }
#define BN_PUT_SOLID \
  "BEGIN; INSERT INTO solid_queue_jobs(queue_name,class_name,created_at," \
  "updated_at) VALUES('s','J',0,0); INSERT INTO solid_queue_ready_executions(" \
  "job_id,queue_name,created_at) VALUES(last_insert_rowid(),'s',0); COMMIT"
#define BN_SUBMIT "SELECT claimq_submit('s','x')"
static const BnQueue aFile[] = {
  BN_FILE(bnOne, 0, "INSERT INTO t(b) VALUES('x')", 0),
  BN_FILE(bnRiver, 0, "INSERT INTO river_job(kind,max_attempts) VALUES('j',2)",
          0),
  BN_FILE(bnSolid, bnSolid2, BN_PUT_SOLID, 0),
  BN_FILE("SELECT claimq_init()", 0, BN_SUBMIT, 1),
  BN_FILE("SELECT claimq_init('all',1)", 0, BN_SUBMIT, 1)
};

/**************************************************************************
** What is timed
*/

static void bnReopen(BnSide *p){
  if( sqlite3_open(p->zFile, &p->db) ) benchDie("cannot open %s", p->zFile);
}

static void bnSchema(BnSide *p){
  benchExec(p, "SELECT 1 FROM sqlite_schema");
}

static void bnOpenOp(BnSide *p){
  benchAside();
  benchDisconnect(p);
  benchAside();
  bnReopen(p);
  bnSchema(p);
}

static void bnFirstOp(BnSide *p){
  benchAside();
  benchDisconnect(p);
  benchAside();
  bnReopen(p);
  if( benchIsClaimq(p) ) benchLoad(p);
  benchExec(p, p->pQueue->azSql[BN_PUT]);
  benchDisconnect(p);
  benchAside();
  bnReopen(p);
  benchAside();
}

/*
** A connection that is open, and has loaded claimq if bLoad.
*/
static void bnFresh(BnSide *p, int bLoad){
  benchAside();
  benchDisconnect(p);
  bnReopen(p);
  bnSchema(p);
  if( bLoad ) benchLoad(p);
  benchAside();
}

static void bnLoadOp(BnSide *p){
  bnFresh(p, 0);
  benchLoad(p);
}

static void bnInitOp(BnSide *p){
  bnFresh(p, 1);
  benchExec(p, "SELECT claimq_init()");
}

static void bnSubmitOp(BnSide *p){
  bnFresh(p, 1);
  benchExec(p, BN_SUBMIT);
}

static void bnClaimOp(BnSide *p){
  bnFresh(p, 1);
  benchExec(p, "SELECT count(*) FROM claimq_lane('s','w',1)");
}

typedef struct BnOpen BnOpen;
struct BnOpen {
  BnWork work;
  int iFile;                      /* In aFile */
};
#define BN_OPEN(KEY, NAME, FUNC, FILE) \
  {{KEY, NAME, 0, BN_DO_OWN, 1, 0, BN_NOPEN, 0, 0, FUNC}, FILE}
static const BnOpen aOpen[] = {
  BN_OPEN("open.one", "open: one table", bnOpenOp, 0),
  BN_OPEN("open.river", "open: River's schema", bnOpenOp, 1),
  BN_OPEN("open.solid", "open: Solid Queue's schema", bnOpenOp, 2),
  BN_OPEN("open.lanes", "open: claimq, lanes", bnOpenOp, 3),
  BN_OPEN("open.all", "open: claimq, everything", bnOpenOp, 4),
  BN_OPEN("first.one", "open, INSERT, close: one table", bnFirstOp, 0),
  BN_OPEN("first.river", "open, INSERT, close: River", bnFirstOp, 1),
  BN_OPEN("first.solid", "open, INSERT, close: Solid Queue", bnFirstOp, 2),
  BN_OPEN("first.lanes", "open, load, submit, close: lanes", bnFirstOp, 3),
  BN_OPEN("first.all", "open, load, submit, close: everything", bnFirstOp, 4),
  BN_OPEN("load", "load claimq", bnLoadOp, 3),
  BN_OPEN("init", "claimq_init() with nothing to do", bnInitOp, 3),
  BN_OPEN("init.all", "... in a file that has everything", bnInitOp, 4),
  BN_OPEN("submit", "the first claimq_submit()", bnSubmitOp, 3),
  BN_OPEN("claim", "the first claim", bnClaimOp, 3),
};

static int bnLess(const void *a, const void *b){
  double x = *(const double*)a, y = *(const double*)b;
  return x<y ? -1 : x>y;
}

/*
** Milliseconds of processor time, without those between calls of benchAside().
*/
static void bnOpenTime(const BnOptions *pOpt, const BnOpen *pOpen, BnSide *p){
  double a[BN_NOPEN];
  int i;
  for(i=0; i<BN_NOPEN; i++){
    double r = benchClock(1), rAside = benchAsideTime();
    pOpen->work.xOwn(p);
    a[i] = (benchClock(1) - r - (benchAsideTime() - rAside)) * 1e3;
  }
  qsort(a, BN_NOPEN, sizeof(a[0]), bnLess);
  if( pOpt->bJson ){
    benchJsonHead(pOpt, "open", &pOpen->work);
    printf("\"param\":{},\"p50\":%.4g,\"least\":%.4g,\"unit\":\"ms\"}\n",
           a[BN_NOPEN/2], a[0]);
  }else{
    printf("%-46s %-6s %8.3f ms  least %8.3f ms\n", pOpen->work.zName,
           pOpt->zPlace, a[BN_NOPEN/2], a[0]);
  }
  fflush(stdout);
}

int benchOpening(const BnOptions *pOpt){
  size_t i;
  for(i=0; i<sizeof(aOpen)/sizeof(aOpen[0]); i++){
    const BnOpen *pOpen = &aOpen[i];
    BnSide *p;
    if( pOpt->zOnly && sqlite3_strglob(pOpt->zOnly, pOpen->work.zKey) ){
      continue;
    }
    p = benchOpen(pOpt, &aFile[pOpen->iFile], 0);
    if( p->pQueue->azSql[BN_MORE] ) benchExec(p, p->pQueue->azSql[BN_MORE]);
    benchExec(p, p->pQueue->azSql[BN_PUT]);
    if( pOpt->bCount ) benchCountSide(&pOpen->work, p, 2, "");
    else bnOpenTime(pOpt, pOpen, p);
    benchClose(p);
  }
  return 0;
}
