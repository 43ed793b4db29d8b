/*
** fuzz_common.c: connections, images, statements and checks for the fuzz
** targets.  fuzz.h explains.
*/
#include <stdarg.h>
#include "fuzz.h"

/**************************************************************************
** The input
*/
int fzMore(const FzIn *p){
  return p->i<p->n;
}

int fzByte(FzIn *p){
  return p->i<p->n ? p->a[p->i++] : 0;
}

int fzBelow(FzIn *p, int n){
  return fzByte(p) % n;
}

i64 fzInt64(FzIn *p){
  uint64_t v = 0;
  int i;
  for(i=0; i<8; i++) v = v<<8 | (uint64_t)fzByte(p);
  return (i64)v;
}

/**************************************************************************
** Values
*/
FzVal fzNull(void){
  FzVal v;
  memset(&v, 0, sizeof(v));
  v.eType = SQLITE_NULL;
  return v;
}

FzVal fzInt(i64 i){
  FzVal v = fzNull();
  v.eType = SQLITE_INTEGER;
  v.i = i;
  return v;
}

FzVal fzReal(double r){
  FzVal v = fzNull();
  v.eType = SQLITE_FLOAT;
  v.r = r;
  return v;
}

FzVal fzBytes(int eType, const char *z, int n){
  FzVal v = fzNull();
  v.eType = eType;
  v.z = z;
  v.n = n;
  return v;
}

FzVal fzText(const char *z){
  return z ? fzBytes(SQLITE_TEXT, z, (int)strlen(z)) : fzNull();
}

/* UTF-16 that says the same as ASCII; other bytes become what they become. */
static int fzBind16(sqlite3_stmt *pStmt, int i, const FzVal *p){
  char *z = sqlite3_malloc(p->n*2+2);
  int j;
  if( z==0 ) return SQLITE_NOMEM;
  for(j=0; j<p->n; j++){
    z[2*j] = p->z[j];
    z[2*j+1] = 0;
  }
  return sqlite3_bind_text64(pStmt, i, z, (sqlite3_uint64)p->n*2,
                             sqlite3_free, SQLITE_UTF16LE);
}

static int fzBind(sqlite3_stmt *pStmt, int i, const FzVal *p){
  switch( p->eType ){
    case SQLITE_INTEGER: return sqlite3_bind_int64(pStmt, i, p->i);
    case SQLITE_FLOAT:   return sqlite3_bind_double(pStmt, i, p->r);
    case SQLITE_TEXT:
      if( p->b16 ) return fzBind16(pStmt, i, p);
      return sqlite3_bind_text(pStmt, i, p->z, p->n, SQLITE_TRANSIENT);
    case SQLITE_BLOB:
      if( p->z==0 ) return sqlite3_bind_zeroblob(pStmt, i, p->n);
      return sqlite3_bind_blob(pStmt, i, p->z, p->n, SQLITE_TRANSIENT);
  }
  return sqlite3_bind_null(pStmt, i);
}

/**************************************************************************
** Telling
*/

/* ASAN need not know much of where memory came from; it is slow to ask. */
const char *__asan_default_options(void);
const char *__asan_default_options(void){
  return "malloc_context_size=4:quarantine_size_mb=16:"
         "max_malloc_fill_size=0";
}

void fzDie(const char *zFmt, ...){
  va_list ap;
  fprintf(stderr, "FUZZ: ");
  va_start(ap, zFmt);
  vfprintf(stderr, zFmt, ap);
  va_end(ap);
  fprintf(stderr, "\n");
  abort();
}

int fzTracing(void){
  static int bTrace = -1;
  if( bTrace<0 ) bTrace = getenv("FUZZ_TRACE")!=0;
  return bTrace;
}

static void fzTraceRun(const FzDb *p, sqlite3_stmt *pStmt, const char *zSql){
  char *z = pStmt ? sqlite3_expanded_sql(pStmt) : 0;
  if( p->rc ){
    fprintf(stderr, "%.2000s;  -- rc %d: %s\n", z ? z : zSql, p->rc, p->zErr);
  }else{
    fprintf(stderr, "%.2000s;  -- %lld rows\n", z ? z : zSql, p->nRow);
  }
  sqlite3_free(z);
}

/**************************************************************************
** SQLite's view of the world: the same in every run
*/
static int fzClock(sqlite3_vfs *pVfs, sqlite3_int64 *piJulian){
  (void)pVfs;
  *piJulian = 210866760000000LL + FZ_NOW;
  return SQLITE_OK;
}

static int fzRandom(sqlite3_vfs *pVfs, int n, char *z){
  (void)pVfs;
  memset(z, 7, (size_t)n);
  return n;
}

/* No lookaside memory: the sanitizer is to see every byte that claimq reads
** of an argument. */
void fzSetup(void){
  sqlite3_vfs *pVfs;
  sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
  sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  sqlite3_initialize();
  pVfs = sqlite3_vfs_find(0);
  assert( pVfs->iVersion>=2 );
  pVfs->xCurrentTimeInt64 = fzClock;
  pVfs->xRandomness = fzRandom;
  sqlite3_test_control(SQLITE_TESTCTRL_PRNG_RESET);
}

/* Every hundred steps.  Too many: hung. */
static int fzProgress(void *pArg){
  FzDb *p = (FzDb*)pArg;
  p->nStep += 100;
  if( p->bSoft ) return p->nStep>FZ_STEP_SOFT;
  if( p->nStep>FZ_STEP_MAX ) fzDie("hung: more than %d steps", FZ_STEP_MAX);
  return 0;
}

/**************************************************************************
** Connections
*/
static void fzContentClear(FzDb*);
static void fzCacheClear(FzDb*);

/* Put a copy of the image in the place of main.  It may grow. */
static int fzDeserialize(FzDb *p, const FzImage *pImage){
  unsigned char *a = sqlite3_malloc64((sqlite3_uint64)pImage->n);
  if( a==0 ) return SQLITE_NOMEM;
  memcpy(a, pImage->a, (size_t)pImage->n);
  return sqlite3_deserialize(p->db, "main", a, pImage->n, pImage->n,
      SQLITE_DESERIALIZE_FREEONCLOSE|SQLITE_DESERIALIZE_RESIZEABLE);
}

/*
** The database comes before the extension: temp tables would settle the
** encoding.  The extension must load whatever the database is like.
*/
int fzOpen(FzDb *p, const FzImage *pImage){
  char *zErr = 0;
  int rc;
  memset(p, 0, sizeof(*p));
  sqlite3_test_control(SQLITE_TESTCTRL_PRNG_RESET);
  rc = sqlite3_open(":memory:", &p->db);
  if( rc ) fzDie("sqlite3_open: %d", rc);
  sqlite3_progress_handler(p->db, 100, fzProgress, p);
  sqlite3_limit(p->db, SQLITE_LIMIT_LENGTH, 4000000);
  if( pImage && fzDeserialize(p, pImage) ) return 0;
  rc = sqlite3_claimq_init(p->db, &zErr, 0);
  if( rc ) fzDie("loading failed: %d %s", rc, zErr ? zErr : "");
  sqlite3_free(zErr);
  return 1;
}

void fzClose(FzDb *p){
  int rc;
  fzContentClear(p);
  fzCacheClear(p);
  rc = sqlite3_close(p->db);
  if( rc ) fzDie("sqlite3_close: %d %s", rc, sqlite3_errmsg(p->db));
  sqlite3_free(p->zErr);
  memset(p, 0, sizeof(*p));
}

/**************************************************************************
** Opening costs much more than most inputs do.  So a target that leaves its
** connection as it was may borrow one, which gets the image by
** sqlite3_backup(): SQLite knows how to go on from there.  Every so often it
** is a new one, so that closing is tested, too.
*/
#define FZ_BORROW_MAX 50
static sqlite3 *fzSpare = 0;
static int fzNBorrow = 0;
static FzImage *fzSpareImage = 0; /* The image it has, ... */
static FzMark fzSpareMark;        /* ... and what that looks like */
static sqlite3_stmt *fzSpareCache[FZ_NCACHE];

static sqlite3 *fzNewSpare(void){
  sqlite3 *db = 0;
  int rc = sqlite3_open_v2("file:fuzz?vfs=memdb", &db,
      SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE|SQLITE_OPEN_URI, 0);
  if( rc==SQLITE_OK ) rc = sqlite3_claimq_init(db, 0, 0);
  if( rc ) fzDie("opening: %d %s", rc, sqlite3_errmsg(db));
  return db;
}

static void fzRestore(sqlite3 *db, FzImage *pImage){
  sqlite3_backup *pBackup;
  if( pImage->db==0 ){
    FzDb x;
    memset(&x, 0, sizeof(x));
    if( sqlite3_open(":memory:", &x.db) || fzDeserialize(&x, pImage) ){
      fzDie("opening an image");
    }
    pImage->db = x.db;
  }
  pBackup = sqlite3_backup_init(db, "main", pImage->db, "main");
  if( pBackup==0 ) fzDie("backup: %s", sqlite3_errmsg(db));
  sqlite3_backup_step(pBackup, -1);
  if( sqlite3_backup_finish(pBackup) ) fzDie("backup");
}

int fzUntouched(FzDb *p){
  i64 n = 0;
  const unsigned char *a = sqlite3_serialize(p->db, "main", &n,
                                             SQLITE_SERIALIZE_NOCOPY);
  assert( sqlite3_get_autocommit(p->db) && a );
  return n==fzSpareMark.n && memcmp(a, fzSpareMark.a, (size_t)n)==0;
}

void fzBorrow(FzDb *p, FzImage *pImage){
  memset(p, 0, sizeof(*p));
  if( fzSpare==0 ){
    fzSpare = fzNewSpare();
    fzSpareImage = 0;
  }
  p->db = fzSpare;
  p->bCache = 1;
  memcpy(p->apCache, fzSpareCache, sizeof(fzSpareCache));
  if( fzSpareImage!=pImage || !fzUntouched(p) ){
    fzRestore(p->db, pImage);
    fzMark(p, &fzSpareMark);
    fzSpareImage = pImage;
  }
  sqlite3_test_control(SQLITE_TESTCTRL_PRNG_RESET);
  sqlite3_progress_handler(p->db, 100, fzProgress, p);
  sqlite3_limit(p->db, SQLITE_LIMIT_LENGTH, 4000000);
}

void fzReturn(FzDb *p){
  if( ++fzNBorrow>=FZ_BORROW_MAX ){
    fzNBorrow = 0;
    fzSpare = 0;
    memset(fzSpareCache, 0, sizeof(fzSpareCache));
    fzClose(p);
  }else{
    sqlite3_progress_handler(p->db, 0, 0, 0);
    fzContentClear(p);
    memcpy(fzSpareCache, p->apCache, sizeof(fzSpareCache));
    sqlite3_free(p->zErr);
    memset(p, 0, sizeof(*p));
  }
}

FzImage fzSave(FzDb *p){
  FzImage image;
  image.db = 0;
  image.a = sqlite3_serialize(p->db, "main", &image.n, 0);
  if( image.a==0 ) fzDie("sqlite3_serialize");
  return image;
}

/**************************************************************************
** Statements
*/

/* FNV-1a */
static void fzHash(uint64_t *pHash, const void *pData, int n){
  const unsigned char *a = pData;
  int i;
  for(i=0; i<n; i++) *pHash = (*pHash ^ a[i]) * 1099511628211ULL;
}


/* Step to the end, or until xRow has enough. */
static int fzSteps(
  FzDb *p, sqlite3_stmt *pStmt, FzRowFunc xRow, void *pArg
){
  int rc;
  while( (rc = sqlite3_step(pStmt))==SQLITE_ROW ){
    p->nRow++;
    if( xRow && !xRow(pArg, pStmt) ) return SQLITE_OK;
    if( p->nRow>100000 ) fzDie("a statement without end");
  }
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

/*
** Prepare a statement, or take it from the cache, where fzDone() puts it back.
** Most time goes into preparing the same few.
*/
static sqlite3_stmt *fzPrepare(FzDb *p, const char *zSql, int *pRc){
  sqlite3_stmt *pStmt = 0;
  uint64_t iHash = 1;
  *pRc = SQLITE_OK;
  fzHash(&iHash, zSql, (int)strlen(zSql));
  p->iSlot = (int)(iHash % FZ_NCACHE);
  if( p->bCache && p->apCache[p->iSlot]
   && strcmp(sqlite3_sql(p->apCache[p->iSlot]), zSql)==0
  ){
    pStmt = p->apCache[p->iSlot];
    p->apCache[p->iSlot] = 0;
  }else{
    *pRc = sqlite3_prepare_v2(p->db, zSql, -1, &pStmt, 0);
  }
  return pStmt;
}

static void fzDone(FzDb *p, int iSlot, sqlite3_stmt *pStmt){
  if( p->bCache && pStmt ){
    sqlite3_reset(pStmt);
    sqlite3_clear_bindings(pStmt);
    sqlite3_finalize(p->apCache[iSlot]);
    p->apCache[iSlot] = pStmt;
  }else{
    sqlite3_finalize(pStmt);
  }
}

static void fzCacheClear(FzDb *p){
  int i;
  for(i=0; i<FZ_NCACHE; i++){
    sqlite3_finalize(p->apCache[i]);
    p->apCache[i] = 0;
  }
}

int fzRun(
  FzDb *p, const char *zSql, int nArg, const FzVal *aArg,
  FzRowFunc xRow, void *pArg
){
  sqlite3_stmt *pStmt;
  int i, rc, iSlot;
  sqlite3_free(p->zErr);
  p->zErr = 0;
  p->nRow = 0;
  p->nStep = 0;
  pStmt = fzPrepare(p, zSql, &rc);
  iSlot = p->iSlot;
  if( rc==SQLITE_OK && nArg>sqlite3_bind_parameter_count(pStmt) ){
    nArg = sqlite3_bind_parameter_count(pStmt);
  }
  for(i=0; i<nArg && rc==SQLITE_OK; i++) rc = fzBind(pStmt, i+1, &aArg[i]);
  if( rc==SQLITE_OK ) rc = fzSteps(p, pStmt, xRow, pArg);
  p->rc = rc;
  if( rc ) p->zErr = sqlite3_mprintf("%s", sqlite3_errmsg(p->db));
  if( fzTracing() && !p->bQuiet ) fzTraceRun(p, pStmt, zSql);
  fzDone(p, iSlot, pStmt);
  return rc;
}

void fzMust(FzDb *p, const char *zSql){
  int rc = fzRun(p, zSql, 0, 0, 0, 0);
  if( rc ) fzDie("%s: %d %s", zSql, rc, p->zErr);
}

static int fzOneRow(void *pArg, sqlite3_stmt *pStmt){
  *(i64*)pArg = sqlite3_column_int64(pStmt, 0);
  return 0;
}

i64 fzOne(FzDb *p, const char *zSql){
  i64 i = 0;
  int rc = fzRun(p, zSql, 0, 0, fzOneRow, &i);
  if( rc ) fzDie("%s: %d %s", zSql, rc, p->zErr);
  return i;
}

/**************************************************************************
** Checks
*/
/* Type and bytes of all columns. */
static int fzHashRow(void *pArg, sqlite3_stmt *pStmt){
  int i, nCol = sqlite3_column_count(pStmt);
  for(i=0; i<nCol; i++){
    int eType = sqlite3_column_type(pStmt, i);
    fzHash(pArg, &eType, 1);
    if( eType==SQLITE_INTEGER ){
      i64 v = sqlite3_column_int64(pStmt, i);
      fzHash(pArg, &v, sizeof(v));
    }else if( eType!=SQLITE_NULL ){
      const void *a = sqlite3_column_blob(pStmt, i);
      fzHash(pArg, a, sqlite3_column_bytes(pStmt, i));
    }
  }
  return 1;
}

/* The statements that read everything; the first is the schema itself.  That
** an AUTOINCREMENT stands at 0 is nothing: SQLite writes it when a trigger that
** would insert a row is not even run. */
static int fzTableRow(void *pArg, sqlite3_stmt *pStmt){
  FzDb *p = (FzDb*)pArg;
  const char *zTable = (const char*)sqlite3_column_text(pStmt, 0);
  char *z = sqlite3_mprintf("SELECT * FROM main.\"%w\"%s", zTable,
      strcmp(zTable, "sqlite_sequence")==0 ? " WHERE seq ORDER BY name" : "");
  assert( p->nContent<FZ_NCONTENT );
  if( sqlite3_prepare_v2(p->db, z, -1, &p->apContent[p->nContent++], 0) ){
    fzDie("%s: %s", z, sqlite3_errmsg(p->db));
  }
  sqlite3_free(z);
  return 1;
}

static void fzContentClear(FzDb *p){
  while( p->nContent>0 ) sqlite3_finalize(p->apContent[--p->nContent]);
}

/* The set of tables must not change meanwhile. */
uint64_t fzContent(FzDb *p){
  uint64_t iHash = 14695981039346656037ULL;
  int nLimit = sqlite3_limit(p->db, SQLITE_LIMIT_LENGTH, 4000000);
  int i;
  if( p->nContent==0 ){
    int bQuiet = p->bQuiet;
    p->bQuiet = 1;
    fzRun(p, "SELECT 'sqlite_schema' UNION ALL SELECT name"
        " FROM main.sqlite_schema WHERE type='table'", 0, 0, fzTableRow, p);
    p->bQuiet = (u8)bQuiet;
  }
  for(i=0; i<p->nContent; i++){
    sqlite3_stmt *pStmt = p->apContent[i];
    while( sqlite3_step(pStmt)==SQLITE_ROW ) fzHashRow(&iHash, pStmt);
    if( sqlite3_reset(pStmt) ) fzDie("content: %s", sqlite3_errmsg(p->db));
  }
  sqlite3_limit(p->db, SQLITE_LIMIT_LENGTH, nLimit);
  return iHash;
}

/* Outside a transaction the bytes of the database tell, most of the time. */
void fzMark(FzDb *p, FzMark *pMark){
  const unsigned char *a;
  i64 n = 0;
  pMark->bBytes = 0;
  if( sqlite3_get_autocommit(p->db)==0 ){
    pMark->iContent = fzContent(p);
    return;
  }
  a = sqlite3_serialize(p->db, "main", &n, SQLITE_SERIALIZE_NOCOPY);
  if( a==0 || n>FZ_MARK_MAX ){
    pMark->iContent = fzContent(p);
  }else{
    pMark->bBytes = 1;
    pMark->n = n;
    memcpy(pMark->a, a, (size_t)n);
  }
}

/* The content that a mark of bytes stands for. */
static uint64_t fzMarkContent(FzMark *pMark){
  FzImage image;
  FzDb db;
  uint64_t iContent;
  image.db = 0;
  image.a = pMark->a;
  image.n = pMark->n;
  if( !fzOpen(&db, &image) ) fzDie("a mark cannot be opened");
  iContent = fzContent(&db);
  fzClose(&db);
  return iContent;
}

int fzSame(FzDb *p, FzMark *pMark){
  if( pMark->bBytes ){
    i64 n = 0;
    const unsigned char *a = sqlite3_serialize(p->db, "main", &n,
                                               SQLITE_SERIALIZE_NOCOPY);
    if( a && n==pMark->n && memcmp(a, pMark->a, (size_t)n)==0 ) return 1;
    pMark->iContent = fzMarkContent(pMark);
    pMark->bBytes = 0;
  }
  return fzContent(p)==pMark->iContent;
}

const char *fzCode(const FzDb *p){
  static const char *const azCode[] = {
    "bad_argument", "not_initialised", "schema_mismatch", "claim_lost",
    "not_found", "conflict", "no_slot", "request_reused", "not_reclaimable",
    "too_large", "read_only", "unsafe_plan", "nested_write", "in_transaction",
    "clock_required", "unsupported", 0
  };
  int i;
  if( p->rc==SQLITE_OK || p->zErr==0 || strncmp(p->zErr, "claimq: ", 8) ){
    return 0;
  }
  for(i=0; azCode[i]; i++){
    size_t n = strlen(azCode[i]);
    if( strncmp(&p->zErr[8], azCode[i], n)==0
     && strncmp(&p->zErr[8+n], ": ", 2)==0 && p->zErr[10+n]
    ){
      if( p->rc!=SQLITE_ERROR ) fzDie("code %d with: %s", p->rc, p->zErr);
      return azCode[i];
    }
  }
  fzDie("no error of claimq's: %s", p->zErr);
  return 0;
}

static int fzIntegrityRow(void *pArg, sqlite3_stmt *pStmt){
  const char *z = (const char*)sqlite3_column_text(pStmt, 0);
  (void)pArg;
  if( z==0 || strcmp(z, "ok") ) fzDie("integrity_check: %s", z ? z : "NULL");
  return 1;
}

void fzIntegrity(FzDb *p){
  if( fzRun(p, "PRAGMA integrity_check", 0, 0, fzIntegrityRow, 0) ){
    fzDie("integrity_check: %d %s", p->rc, p->zErr);
  }
}
