/*
** fuzz_args.c: any argument, anywhere.
**
** An input is a setting (encoding, transaction, pragmas) and up to 24
** calls.  A call is a function or a claim table of claimq, found by asking
** SQLite, so that a new one is fuzzed as soon as it is there; a shape (plain,
** INSERT ... SELECT, LIMIT, by name); and a list of values: NULL, integers and
** their extremes, reals, text of all kinds, blobs, JSON, the words that claimq
** knows, claim ids and tokens that are good, and what earlier calls returned.
** Where the table of hints knows what an argument is for, it is mostly that,
** so that many calls get past the first argument.
**
** Whatever the call is, it must end with a result, or with an error of
** claimq's ("claimq: CODE: detail") or a known one of SQLite's.  If it raised,
** every table is as before.  The connection is in a transaction after the call
** if and only if it was before.  In the end the database is sound, and can be
** closed.
*/
#include "fuzz.h"

#define FZ_MAX_TARGET 120
#define FZ_MAX_ARG    130
#define FZ_ARENA      200000

typedef struct FzTarget FzTarget;
struct FzTarget {
  char *zName;
  u8 bTable;
  int nArg;                       /* Hidden columns of a table */
  char *azArg[16];
};

static FzImage fzImage[2];        /* UTF-8, UTF-16 */
static FzTarget fzTarget[FZ_MAX_TARGET];
static int fzNTarget = 0;

/*
** What the arguments of a function or table are for:
**   S session  L lane   Q queue   O owner   R reason   C claim id   T its token
**   I integer  N time   M small number      J job id   D letter id  B batch id
**   K kind     Y label  W boundary          A take     X candidates G caps
**   U source   V scope  F schedule          P anything
**   Z options, up to the end
*/
static const struct { const char *zName, *zHint; } fzHint[] = {
  { "claimq", "SOIMOWAMN" }, { "claimq_peek", "SMWAMN" },
  { "claimq_lane", "LOIMOGMN" }, { "claimq_reclaim", "JOIOMN" },
  { "claimq_outbox", "QOIMOMN" }, { "claimq_contest", "YOIOKN" },
  { "claimq_dead_letter", "VOIMOUN" }, { "claimq_enqueue", "SPZ" },
  { "claimq_submit", "LPZ" }, { "claimq_publish", "QPZ" },
  { "claimq_queue", "QM" }, { "claimq_renew", "CTIZ" },
  { "claimq_complete", "CTZ" }, { "claimq_release", "CTZ" },
  { "claimq_retry", "CTRZ" }, { "claimq_reject", "CTRZ" },
  { "claimq_guard", "CTZ" }, { "claimq_cancel", "BZ" },
  { "claimq_revoke", "JZ" }, { "claimq_grant", "JOIZ" },
  { "claimq_requeue", "DZ" }, { "claimq_vacuum", "Z" },
  { "claimq_fence", "YI" }, { "claimq_select", "XWM" },
  { "claimq_select_command", "X" }, { "claimq_capable", "GG" },
  { "claimq_batch_id", "SPNM" }, { "claimq_lease_token", "SOOCN" },
  { "claimq_claim_id", "II" }, { "claimq_sha256", "P" },
  { "claimq_scan_limit", "I" }, { "claimq_owner_id", "O" },
  { "claimq_next_batch", "XM" },
  { "claimq_reject_reason", "XM" }, { "claimq__origin", "RPRP" },
  { "claimq__note", "XP" }, { "claimq_cron_next", "FIM" },
  { "claimq_cancel_flow", "OZ" }, { "claimq_policy", "LZ" },
  { "claimq_change", "JZ" }, { "claimq_resolve", "JPZ" },
  { "claimq_step", "CTOPZ" },
  { "claimq_schedule", "OFLPZ" }, { "claimq_unschedule", "OZ" },
  { "claimq__schedule_sound", "FX" }, { "claimq__alone", "P" },
  { "claimq_init", "" }, { "claimq_version", "" },
};
#define FZ_NHINT ((int)(sizeof(fzHint)/sizeof(fzHint[0])))

/* The same for the values of options. */
static const struct { const char *zName; char cHint; } fzOption[] = {
  { "now_ms", 'N' }, { "delay_ms", 'I' }, { "available_at_ms", 'N' },
  { "source_key", 'O' }, { "work_class", 'A' }, { "delivery_policy", 'E' },
  { "slot_policy", 'E' }, { "merge_key", 'E' }, { "batch_ids", 'X' },
  { "priority", 'I' }, { "capabilities", 'G' }, { "max_attempts", 'M' },
  { "backoff_ms", 'I' }, { "backoff_factor", 'M' }, { "backoff_max_ms", 'I' },
  { "max_reclaims", 'M' }, { "reclaim", 'E' }, { "partition", 'M' },
  { "flow_id", 'O' }, { "namespace", 'O' }, { "instance_tag", 'O' },
  { "after", 'X' }, { "on_failure", 'E' }, { "unique_for_ms", 'I' },
  { "result", 'P' }, { "incarnation", 'O' }, { "lane", 'L' },
  { "capability_hash", 'O' }, { "worker_capabilities", 'G' },
  { "route_snapshot_json", 'X' }, { "admission_summary", 'R' },
  { "force", 'M' }, { "key", 'P' },
  { "payload_type", 'R' }, { "processed", 'M' }, { "rejected", 'X' },
  { "older_than_ms", 'I' }, { "max", 'M' }, { "claim_id", 'C' },
  { "lease_token", 'T' }, { "offset_minutes", 'M' }, { "catch_up", 'E' },
  { "until_at_ms", 'N' }, { "enabled", 'M' }, { "group_key", 'O' },
  { "max_active", 'M' }, { "rate", 'M' }, { "per_ms", 'I' },
  { "group_max_active", 'M' }, { "group_rate", 'M' }, { "group_per_ms", 'I' },
  { "fair", 'M' },
};
#define FZ_NOPTION ((int)(sizeof(fzOption)/sizeof(fzOption[0])))

/* What claimq gives a meaning to: names of options, words, keys. */
static const char *const fzWord[] = {
  "now_ms", "delay_ms", "available_at_ms", "source_key", "work_class",
  "delivery_policy", "slot_policy", "merge_key", "batch_ids", "priority",
  "capabilities", "max_attempts", "backoff_ms", "backoff_factor",
  "backoff_max_ms", "max_reclaims", "reclaim", "partition", "flow_id",
  "namespace", "instance_tag", "result", "incarnation", "lane",
  "capability_hash", "worker_capabilities", "route_snapshot_json",
  "admission_summary", "force", "key", "payload_type",
  "processed", "rejected", "older_than_ms", "max", "claim_id",
  "lease_token", "offset_minutes", "catch_up", "until_at_ms", "enabled",
  "group_key", "max_active", "rate", "per_ms", "group_max_active",
  "group_rate", "group_per_ms", "fair", "after", "on_failure",
  "unique_for_ms", "cancel", "run", "one",
  "all", "none", "turn_work", "session_command", "any", "idle",
  "active_turn_checkpoint", "earliest_safe_boundary",
  "after_current_turn_commit", "exclusive", "join", "never",
  "payload_default", "group:g", "group:", "auto", "grant", "session",
  "outbox", "s", "t", "u", "l", "m", "q", "w", "v", "i", "k", "live",
  "expired", "kept", "r", "", "q/0", "text/plain", "[]", "[\"c\"]",
  "[\"c\",\"d\"]", "[{\"seq\":2,\"reason\":\"x\"}]", "{}", "null", "nope",
  "qwc:1:1", "qjc:1:1", "qpc:1:1", "qsc:1:1", "qdc:1:1", "qwc:", "qwc:0:0",
  "qwc:9223372036854775807:9223372036854775807", "qwc:-1:1", "qwc:01:1",
  "qjc:9223372036854775808:1", "\xc3\xa4", "\xef\xbf\xbf", "\xed\xa0\x80",
  "\xf4\x90\x80\x80", "\xc0\x80", "\xff", "a\tb\"c\\d", "1", "1.0", " 1"
};
#define FZ_NWORD ((int)(sizeof(fzWord)/sizeof(fzWord[0])))

static const i64 fzExtreme[] = {
  0, 1, -1, 255, 256, 1023, 1024, 1025, 65535, 65536, 2147483647,
  2147483648LL, -2147483648LL, 4294967296LL, FZ_NOW, FZ_NOW+1, FZ_NOW-1,
  500010, 4611686018427387904LL, FZ_I64_MAX-1, FZ_I64_MAX, FZ_I64_MIN,
  FZ_I64_MIN+1, -FZ_NOW
};
static const double fzSpecial[] = {
  0.5, -0.0, 1e300, -1e300, 1e-300, 9223372036854775807.0,
  -9223372036854775808.0, 9007199254740993.0, 1000000.0, 1000000.5
};

/**************************************************************************
** What there is to call
*/
static FzTarget *fzNewTarget(const char *zName, int bTable){
  FzTarget *p = &fzTarget[fzNTarget++];
  assert( fzNTarget<FZ_MAX_TARGET );
  p->zName = sqlite3_mprintf("%s", zName);
  p->bTable = (u8)bTable;
  return p;
}

static int fzFuncRow(void *pArg, sqlite3_stmt *pStmt){
  (void)pArg;
  fzNewTarget((const char*)sqlite3_column_text(pStmt, 0), 0);
  return 1;
}

static int fzArgRow(void *pArg, sqlite3_stmt *pStmt){
  FzTarget *p = (FzTarget*)pArg;
  assert( p->nArg<16 );
  p->azArg[p->nArg++] = sqlite3_mprintf("%s", sqlite3_column_text(pStmt, 0));
  return 1;
}

static int fzTableName(void *pArg, sqlite3_stmt *pStmt){
  (void)pArg;
  fzNewTarget((const char*)sqlite3_column_text(pStmt, 0), 1);
  return 1;
}

/* Once: the images, and what can be called. */
static void fzBegin(void){
  FzDb db;
  int i;
  fzSetup();
  fzImage[0] = fzPopulate("UTF-8");
  fzImage[1] = fzPopulate("UTF-16le");
  fzOpen(&db, &fzImage[0]);
  fzRun(&db, "SELECT DISTINCT name FROM pragma_function_list"
      " WHERE name GLOB 'claimq*' ORDER BY 1", 0, 0, fzFuncRow, 0);
  /* (Not those that would stand in for tables that are there.) */
  fzRun(&db, "SELECT name FROM pragma_module_list WHERE name GLOB 'claimq*'"
      " EXCEPT SELECT name FROM sqlite_schema ORDER BY 1", 0, 0,
      fzTableName, 0);
  for(i=0; i<fzNTarget; i++){
    FzVal v = fzText(fzTarget[i].zName);
    if( fzTarget[i].bTable ){
      fzRun(&db, "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden=1",
            1, &v, fzArgRow, &fzTarget[i]);
    }
  }
  fzLoadIds(&db);
  fzClose(&db);
}

/**************************************************************************
** Values
*/
typedef struct FzArgs FzArgs;
struct FzArgs {
  FzIn in;
  FzDb db;
  u8 bFresh;                      /* db is not borrowed */
  u8 bPragma;                     /* Some are set */
  const char *zBegin;             /* How the transaction began, or 0 */
  int iClaim;                     /* The claim whose token comes next */
  int nArena;
  char zArena[FZ_ARENA];
  char zLast[300];                /* What the last call returned */
  int nLast;
  FzVal aArg[FZ_MAX_ARG];
};

/* Room for n bytes that live as long as the input; 0 if there is no more. */
static char *fzAlloc(FzArgs *p, int n){
  char *z = &p->zArena[p->nArena];
  if( p->nArena+n>FZ_ARENA ) return 0;
  p->nArena += n;
  return z;
}

static FzVal fzRaw(FzArgs *p, int eType){
  int i, n = fzByte(&p->in) % 40;
  char *z = fzAlloc(p, n+1);
  if( z==0 ) return fzNull();
  for(i=0; i<n; i++) z[i] = (char)fzByte(&p->in);
  z[n] = 0;
  return fzBytes(eType, z, n);
}

/* A long text: one unit, again and again. */
static FzVal fzLong(FzArgs *p){
  static const char *const azUnit[] = {
    "x", "\"", "[", "{\"a\":", "\\u0001", "\xe2\x82\xac", "[]", ",", "\xff",
    "\x01", "\n"
  };
  const char *zUnit = azUnit[fzBelow(&p->in, 11)];
  int nUnit = (int)strlen(zUnit);
  int i, n = nUnit*(1<<fzBelow(&p->in, 14));
  char *z = fzAlloc(p, n+1);
  if( z==0 ) return fzNull();
  for(i=0; i<n; i++) z[i] = zUnit[i%nUnit];
  z[n] = 0;
  return fzBytes(SQLITE_TEXT, z, n);
}

static void fzJsonValue(FzArgs *p, sqlite3_str *pOut, int nDepth);

/* A string, with escapes good and bad. */
static void fzJsonString(FzArgs *p, sqlite3_str *pOut){
  static const char *const azPart[] = {
    "seq", "reason", "work_class", "turn_work", "slot_policy", "join", "c",
    "d", "\\n", "\\u0000", "\\ud83d\\ude00", "\\ud800", "\\x", "\\u12",
    "\xc3\xa4", "\xff", "", "merge_key", "group:g", "session_command"
  };
  int n = fzBelow(&p->in, 3);
  sqlite3_str_appendall(pOut, "\"");
  do{
    sqlite3_str_appendall(pOut, azPart[fzBelow(&p->in, 20)]);
  }while( n-- > 1 );
  if( fzByte(&p->in)<250 ) sqlite3_str_appendall(pOut, "\"");
}

static void fzJsonList(FzArgs *p, sqlite3_str *pOut, int nDepth, int bObject){
  int i, n = fzBelow(&p->in, 4);
  sqlite3_str_appendall(pOut, bObject ? "{" : "[");
  for(i=0; i<n; i++){
    if( i>0 ) sqlite3_str_appendall(pOut, fzByte(&p->in)<250 ? "," : " ");
    if( bObject ){
      fzJsonString(p, pOut);
      sqlite3_str_appendall(pOut, fzByte(&p->in)<250 ? ":" : ",");
    }
    fzJsonValue(p, pOut, nDepth+1);
  }
  if( fzByte(&p->in)<250 ) sqlite3_str_appendall(pOut, bObject ? "}" : "]");
}

static void fzJsonValue(FzArgs *p, sqlite3_str *pOut, int nDepth){
  static const char *const azWord[] = {
    "true", "false", "null", "nul", "1", "2", "-1", "1e5", "1.5", "01",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-",
    "\x01", "[[[[[[[[", "/**/"
  };
  int e = nDepth>6 ? 3 : fzBelow(&p->in, 5);
  switch( e ){
    case 0:
    case 1: fzJsonList(p, pOut, nDepth, e); break;
    case 2: sqlite3_str_appendall(pOut, azWord[fzBelow(&p->in, 17)]); break;
    default: fzJsonString(p, pOut); break;
  }
}

static FzVal fzJson(FzArgs *p){
  sqlite3_str *pOut = sqlite3_str_new(0);
  FzVal v = fzNull();
  int n;
  char *z, *zOut;
  fzJsonList(p, pOut, 0, fzBelow(&p->in, 4)==3);
  n = sqlite3_str_length(pOut);
  z = sqlite3_str_finish(pOut);
  zOut = fzAlloc(p, n+1);
  if( z && zOut ){
    memcpy(zOut, z, (size_t)n+1);
    v = fzBytes(SQLITE_TEXT, zOut, n);
  }
  sqlite3_free(z);
  return v;
}

/* Five fields of a schedule, mostly good ones; now and then more, or fewer. */
static FzVal fzSchedule(FzArgs *p){
  static const char *const azPart[] = {
    "*", "2", "7", "*/2", "1-5", "5-2/2", "5/15", "*,3",   /* For any field */
    "0", "29", "31", "59", "60", "22-3", "FRI-MON", "jan,DEC", "*/0", "1-", ",",
    "@daily", "every", "90", "s", "9223372036854775807", "ms", "\t", "L"
  };
  int i, n = fzBelow(&p->in, 16), nOut = 0;
  char *z = fzAlloc(p, 200);
  if( z==0 ) return fzNull();
  n = n<12 ? 5 : 2*(n-11)-1;
  for(i=0; i<n; i++){
    const char *zPart = azPart[fzBelow(&p->in, fzBelow(&p->in, 4) ? 8 : 27)];
    if( i>0 ) z[nOut++] = ' ';
    memcpy(&z[nOut], zPart, strlen(zPart)+1);
    nOut += (int)strlen(zPart);
  }
  return fzBytes(SQLITE_TEXT, z, nOut);
}

static FzVal fzValue(FzArgs *p){
  FzVal v;
  FzIn *pIn = &p->in;
  switch( fzBelow(pIn, 20) ){
    case 0:  return fzNull();
    case 1:  return fzInt((signed char)fzByte(pIn));
    case 2:  return fzInt(fzExtreme[fzBelow(pIn,
                 (int)(sizeof(fzExtreme)/sizeof(fzExtreme[0])))]);
    case 3:  return fzInt(fzInt64(pIn));
    case 4:  return fzReal((double)(signed char)fzByte(pIn));
    case 5:  return fzReal(fzSpecial[fzBelow(pIn,
                 (int)(sizeof(fzSpecial)/sizeof(fzSpecial[0])))]);
    case 6:  return fzReal(fzByte(pIn)&1 ? 1e308*10.0 : -1e308*10.0);
    case 7:  return fzRaw(p, SQLITE_TEXT);
    case 8:  return fzRaw(p, SQLITE_BLOB);
    case 9:  return fzLong(p);
    case 10: return fzBytes(SQLITE_BLOB, 0, 1<<fzBelow(pIn, 18));
    case 11: return fzJson(p);
    case 12: return fzBytes(SQLITE_TEXT, p->zLast, p->nLast);
    case 13:
      v = fzText(fzWord[fzBelow(pIn, FZ_NWORD)]);
      v.b16 = 1;
      return v;
    case 14: return fzText(fzClaims.az[fzBelow(pIn, fzClaims.n)]);
    case 15: return fzText(fzTokens.az[fzBelow(pIn, fzTokens.n)]);
    default: return fzText(fzWord[fzBelow(pIn, FZ_NWORD)]);
  }
}

/* One of some words, which blanks separate; the first of them for 0. */
static FzVal fzPick(FzArgs *p, const char *zWords){
  int n = fzBelow(&p->in, 8);
  const char *z = zWords;
  size_t nByte;
  while( n-- > 0 ){
    z += strcspn(z, " ");
    z = *z ? z+1 : zWords;
  }
  nByte = strcspn(z, " ");
  return fzBytes(SQLITE_TEXT, z, (int)nByte);
}

/* What a hint asks for. */
static FzVal fzHinted(FzArgs *p, char cHint){
  FzIn *pIn = &p->in;
  switch( cHint ){
    case 'S': return fzPick(p, "s t u new");
    case 'L': return fzPick(p, "l m new");
    case 'Q': return fzPick(p, "q new q-");
    case 'O': return fzPick(p, "w v i k");
    case 'R': return fzPick(p, "text/plain why");
    case 'Y': return fzPick(p, "live expired kept r new");
    case 'W': return fzPick(p, "idle active_turn_checkpoint");
    case 'A': return fzPick(p, "turn_work session_command any");
    case 'U': return fzPick(p, "session lane outbox");
    case 'V': return fzPick(p, "u l q/0 s");
    case 'G':
      if( fzBelow(pIn, 3)==2 ) return fzJson(p);
      return fzPick(p, "[] [\"c\"] [\"c\",\"d\"] [\"e\",\"e\"]");
    case 'E': return fzPick(p, "join exclusive auto grant payload_default "
                  "never group:h after_current_turn_commit");
    case 'X': return fzJson(p);
    case 'F': return fzSchedule(p);
    case 'C': return fzText(fzClaims.az[p->iClaim = fzBelow(pIn, fzClaims.n)]);
    case 'T': return fzText(fzTokens.az[p->iClaim]);
    case 'B':
      if( fzByte(pIn)&1 ) return fzInt(fzBelow(pIn, 16));
      return fzText(fzBatches.az[fzBelow(pIn, fzBatches.n)]);
    case 'N': return fzInt(FZ_NOW);
    case 'I': return fzInt(fzExtreme[fzBelow(pIn,
                  (int)(sizeof(fzExtreme)/sizeof(fzExtreme[0])))]);
    case 'M':
    case 'K':
    case 'J':
    case 'D': return fzInt(fzBelow(pIn, 16));
  }
  return fzValue(p);
}

/* A value by its hint, or something else. */
static FzVal fzArgument(FzArgs *p, char cHint){
  return fzByte(&p->in)<210 ? fzHinted(p, cHint) : fzValue(p);
}

/* Name, value pairs into aArg[n] and on; returns the number of arguments. */
static int fzOptions(FzArgs *p, int n){
  int nPair = fzBelow(&p->in, 6);
  while( nPair-- > 0 ){
    int i = fzBelow(&p->in, FZ_NOPTION);
    p->aArg[n++] = fzText(fzOption[i].zName);
    p->aArg[n++] = fzArgument(p, fzOption[i].cHint);
  }
  return n;
}

/* Arguments without a hint.  Mostly few, sometimes very many: 127 is SQLite's
** limit. */
static int fzValues(FzArgs *p){
  int i, n = fzBelow(&p->in, 16);
  if( n==15 ) n = fzByte(&p->in) % FZ_MAX_ARG;
  for(i=0; i<n; i++) p->aArg[i] = fzValue(p);
  return n;
}

/* The arguments of a call; returns their number.  Those at the end may be left
** out. */
static int fzArguments(FzArgs *p, const FzTarget *pT){
  const char *zHint = 0;
  int i, n = 0, nCut;
  for(i=0; i<FZ_NHINT; i++){
    if( strcmp(fzHint[i].zName, pT->zName)==0 ) zHint = fzHint[i].zHint;
  }
  if( zHint==0 || fzByte(&p->in)>=220 ) return fzValues(p);
  for(i=0; zHint[i] && zHint[i]!='Z'; i++){
    p->aArg[n++] = fzArgument(p, zHint[i]);
  }
  if( zHint[i] ) return fzOptions(p, n);
  nCut = fzBelow(&p->in, 12);
  return nCut<6 ? n : nCut-6<n ? n-(nCut-6) : 0;
}

/**************************************************************************
** Calls
*/
static void fzParams(sqlite3_str *pSql, int iFirst, int n){
  int i;
  for(i=0; i<n; i++){
    sqlite3_str_appendf(pSql, "%s?%d", i ? "," : "", iFirst+i);
  }
}

static void fzFuncSql(FzArgs *p, const FzTarget *pT, int nArg,
                      sqlite3_str *pSql){
  int eShape = fzBelow(&p->in, 8);
  if( eShape==7 ) sqlite3_str_appendall(pSql, "INSERT INTO sink ");
  sqlite3_str_appendf(pSql, "SELECT \"%w\"(", pT->zName);
  fzParams(pSql, 1, nArg);
  sqlite3_str_appendall(pSql, ")");
  if( eShape==6 ){
    sqlite3_str_appendall(pSql, " FROM claimq_meta WHERE name>='a' LIMIT 1");
  }
}

/* By name: the arguments are given to hidden columns that the input picks. */
static void fzNamed(FzArgs *p, const FzTarget *pT, int nArg,
                    sqlite3_str *pSql){
  int i;
  sqlite3_str_appendf(pSql, "SELECT * FROM %s WHERE 1", pT->zName);
  for(i=0; i<nArg && pT->nArg>0; i++){
    sqlite3_str_appendf(pSql, " AND %s=?%d",
        pT->azArg[i<pT->nArg ? i : fzBelow(&p->in, pT->nArg)], i+1);
  }
}

static void fzTableSql(FzArgs *p, const FzTarget *pT, int nArg,
                       sqlite3_str *pSql){
  int eShape = fzBelow(&p->in, 12);
  if( eShape==8 ){
    fzNamed(p, pT, nArg, pSql);
    return;
  }
  if( eShape==9 ){
    sqlite3_str_appendf(pSql, "INSERT INTO sink SELECT count(*) FROM ");
  }else{
    sqlite3_str_appendall(pSql, "SELECT * FROM ");
  }
  sqlite3_str_appendf(pSql, "%s(", pT->zName);
  fzParams(pSql, 1, nArg);
  sqlite3_str_appendall(pSql, ")");
  switch( eShape ){
    case 6:  sqlite3_str_appendall(pSql, " LIMIT 1");                  break;
    case 7:  sqlite3_str_appendall(pSql, " LIMIT 2 OFFSET 1");         break;
    case 10: sqlite3_str_appendall(pSql, " ORDER BY 1 DESC");          break;
    case 11: sqlite3_str_appendall(pSql, " WHERE fencing_token>0");    break;
  }
}

/* Remember the claim id or the result of a call. */
static int fzKeep(void *pArg, sqlite3_stmt *pStmt){
  FzArgs *p = (FzArgs*)pArg;
  int iCol = fzByte(&p->in) % sqlite3_column_count(pStmt);
  const char *z = (const char*)sqlite3_column_text(pStmt, iCol);
  int n = sqlite3_column_bytes(pStmt, iCol);
  p->nLast = n<(int)sizeof(p->zLast) ? n : (int)sizeof(p->zLast)-1;
  if( p->nLast ) memcpy(p->zLast, z, (size_t)p->nLast);
  return 1;
}

/* Errors that are SQLite's own and allowed here. */
static int fzKnown(const FzDb *p){
  static const char *const azKnown[] = {
    "string or blob too big", "too many arguments on ", "no query solution",
    "no such column: fencing_token", "bind on a busy prepared statement", 0
  };
  int i;
  for(i=0; azKnown[i]; i++){
    if( strncmp(p->zErr, azKnown[i], strlen(azKnown[i]))==0 ) return 1;
  }
  return 0;
}

static void fzCall(FzArgs *p){
  static FzMark mark;
  FzDb *pDb = &p->db;
  const FzTarget *pT = &fzTarget[fzBelow(&p->in, fzNTarget)];
  int nArg = fzArguments(p, pT);
  int bAuto = sqlite3_get_autocommit(pDb->db);
  sqlite3_str *pSql = sqlite3_str_new(0);
  char *zSql;
  int rc;
  if( pT->bTable ) fzTableSql(p, pT, nArg, pSql);
  else fzFuncSql(p, pT, nArg, pSql);
  zSql = sqlite3_str_finish(pSql);
  fzMark(pDb, &mark);
  rc = fzRun(pDb, zSql, nArg, p->aArg, fzKeep, p);
  if( rc && fzCode(pDb)==0 && !fzKnown(pDb) ){
    fzDie("%s: %d %s", zSql, rc, pDb->zErr);
  }
  if( sqlite3_get_autocommit(pDb->db)!=bAuto ) fzDie("%s: transaction", zSql);
  if( rc && !fzSame(pDb, &mark) ) fzDie("%s raised and changed", zSql);
  sqlite3_free(zSql);
}

/* The setting of the calls, and back.  An encoding cannot be changed, so a
** database in UTF-16 needs a connection of its own. */
static void fzSetting(FzArgs *p){
  static const char *const azBegin[] = {
    0, 0, "BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT a"
  };
  int m = fzByte(&p->in);
  p->bFresh = (m & 7)==7;
  if( p->bFresh ) fzOpen(&p->db, &fzImage[1]);
  else fzBorrow(&p->db, &fzImage[0]);
  p->bPragma = (m & (8|16|32))!=0;
  if( m & 8 ) fzMust(&p->db, "PRAGMA trusted_schema=OFF");
  if( m & 16 ) fzMust(&p->db, "PRAGMA recursive_triggers=ON");
  if( m & 32 ) fzMust(&p->db, "PRAGMA reverse_unordered_selects=ON");
  if( m & 64 ) sqlite3_limit(p->db.db, SQLITE_LIMIT_LENGTH, 5000);
  if( m & 128 ) sqlite3_db_config(p->db.db, SQLITE_DBCONFIG_DEFENSIVE, 1, 0);
  p->zBegin = azBegin[fzBelow(&p->in, 5)];
  if( p->zBegin ) fzMust(&p->db, p->zBegin);
}

static void fzUnset(FzArgs *p){
  if( !sqlite3_get_autocommit(p->db.db) ) fzMust(&p->db, "COMMIT");
  sqlite3_limit(p->db.db, SQLITE_LIMIT_LENGTH, 4000000);
  sqlite3_db_config(p->db.db, SQLITE_DBCONFIG_DEFENSIVE, 0, 0);
  if( p->bPragma ){
    fzMust(&p->db, "PRAGMA trusted_schema=ON");
    fzMust(&p->db, "PRAGMA recursive_triggers=OFF");
    fzMust(&p->db, "PRAGMA reverse_unordered_selects=OFF");
  }
  if( p->bFresh || !fzUntouched(&p->db) ) fzIntegrity(&p->db);
  if( p->bFresh ) fzClose(&p->db);
  else fzReturn(&p->db);
}

int LLVMFuzzerTestOneInput(const uint8_t *aData, size_t nData){
  static FzArgs args;
  FzArgs *p = &args;
  int i;
  if( fzNTarget==0 ) fzBegin();
  memset(p, 0, offsetof(FzArgs, zArena));
  p->nLast = 0;
  p->in.a = aData;
  p->in.n = nData;
  fzSetting(p);
  for(i=0; i<24 && fzMore(&p->in); i++) fzCall(p);
  fzUnset(p);
  return 0;
}
