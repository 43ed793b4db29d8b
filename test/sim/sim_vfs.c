/*
** sim_vfs.c: files in memory, with locks between coroutines, that know what
** was synced.
**
** A file is a node: what a reader sees now, what is on the disk for certain,
** and the writes in between.  A power cut keeps any of these writes, each
** sector of 512 bytes for itself, or none; so SQLite's barriers (xSync) are all
** that orders them.  A name that was created or deleted is so on the disk
** when the directory is synced: by the first sync of a file that was created,
** as in SQLite's VFS for Unix, and by xDelete() if it is asked to.
**
** The memory that connections share in WAL mode belongs to the node.
*/
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "sim.h"

#define SIM_SECTOR  512
#define SIM_NNAME   4
#define SIM_NHANDLE 64
#define SIM_NSHM    16
#define SIM_NLOCK   8             /* SQLITE_SHM_NLOCK */

typedef struct SimWrite SimWrite;
struct SimWrite {
  i64 iOfst;
  int n;                          /* -1: the file is cut at iOfst */
  u8 *a;
};

typedef struct SimBytes SimBytes;
struct SimBytes {
  u8 *a;
  i64 n, nAlloc;
};

typedef struct SimNode SimNode;
struct SimNode {
  SimBytes now, disk;
  SimWrite *aWrite;
  int nWrite, nAlloc;
  u8 bNew;                        /* Its name is not on the disk for certain */
  u8 *apShm[SIM_NSHM];
  u8 *apKept[SIM_NSHM];           /* While a dead connection is cleared away */
  int nShm, nKept;
  SimNode *pNext;
};

typedef struct SimName SimName;
struct SimName {
  char z[64];
  SimNode *pNow, *pDisk;
};

typedef struct SimFile SimFile;
struct SimFile {
  sqlite3_file base;
  SimNode *pNode;
  SimCo *pCo;
  u8 bPrivate;                    /* Nobody else sees it */
  u8 bLog;                        /* Journal or WAL */
  u8 eLock;
  u8 bReserved;                   /* It has RESERVED, or had it on the way up */
  u8 mShared, mExcl;              /* Locks of the shared memory */
};

static SimName aName[SIM_NNAME];
static SimFile *apFile[SIM_NHANDLE];
static SimNode *pAllNodes;

/**************************************************************************
** Bytes
*/

/* Room for n bytes, and zeros up to there. */
static void bytesGrow(SimBytes *p, i64 n){
  if( n>p->nAlloc ){
    p->nAlloc = n*2 + 65536;
    p->a = realloc(p->a, (size_t)p->nAlloc);
  }
  if( n>p->n ){
    memset(&p->a[p->n], 0, (size_t)(n-p->n));
    p->n = n;
  }
}

static void bytesWrite(SimBytes *p, const u8 *a, i64 n, i64 iOfst){
  bytesGrow(p, iOfst+n);
  memcpy(&p->a[iOfst], a, (size_t)n);
}

static void bytesCut(SimBytes *p, i64 n){
  if( n<p->n ) p->n = n;
  else bytesGrow(p, n);
}

/**************************************************************************
** Nodes and names
*/

static SimNode *nodeNew(void){
  SimNode *p = calloc(1, sizeof(*p));
  p->pNext = pAllNodes;
  pAllNodes = p;
  return p;
}

/* All writes are on the disk, or do not matter any more. */
static void nodeForget(SimNode *p){
  int i;
  for(i=0; i<p->nWrite; i++) free(p->aWrite[i].a);
  p->nWrite = 0;
}

static void nodeShmClear(SimNode *p){
  while( p->nShm>0 ) free(p->apShm[--p->nShm]);
}

/* Remember a write until it is synced. */
static void nodeAdd(SimNode *p, const void *a, int n, i64 iOfst){
  SimWrite *pW;
  if( p->nWrite==p->nAlloc ){
    p->nAlloc = p->nAlloc*2 + 16;
    p->aWrite = realloc(p->aWrite, sizeof(SimWrite)*(size_t)p->nAlloc);
  }
  pW = &p->aWrite[p->nWrite++];
  pW->iOfst = iOfst;
  pW->n = n;
  pW->a = 0;
  if( n>0 ){
    pW->a = malloc((size_t)n);
    memcpy(pW->a, a, (size_t)n);
  }
}

/* Everything is on the disk. */
static void nodeSync(SimNode *p){
  int i;
  for(i=0; i<p->nWrite; i++){
    SimWrite *pW = &p->aWrite[i];
    if( pW->n<0 ) bytesCut(&p->disk, pW->iOfst);
    else bytesWrite(&p->disk, pW->a, pW->n, pW->iOfst);
  }
  nodeForget(p);
}

/* Of a write that was not synced the sectors that fate picks. */
static void nodeTear(SimNode *p, const SimWrite *pW, int nKeep){
  i64 i = 0;
  while( i<pW->n ){
    i64 n = SIM_SECTOR - (pW->iOfst+i)%SIM_SECTOR;
    if( n>pW->n-i ) n = pW->n-i;
    if( simPick(100)<nKeep ) bytesWrite(&p->disk, &pW->a[i], n, pW->iOfst+i);
    i += n;
  }
}

/* The power fails: what is on the disk afterwards. */
static void nodePower(SimNode *p){
  static const int aKeep[] = {0, 50, 90, 100};
  int nKeep = aKeep[simPick(4)];
  int i;
  for(i=0; i<p->nWrite; i++){
    SimWrite *pW = &p->aWrite[i];
    if( pW->n>=0 ) nodeTear(p, pW, nKeep);
    else if( simPick(100)<nKeep ) bytesCut(&p->disk, pW->iOfst);
  }
  nodeForget(p);
  bytesCut(&p->now, 0);
  bytesWrite(&p->now, p->disk.a, p->disk.n, 0);
}

static SimName *nameFind(const char *z){
  int i;
  for(i=0; i<SIM_NNAME; i++){
    if( strcmp(aName[i].z, z)==0 ) return &aName[i];
  }
  for(i=0; aName[i].z[0]; i++){}
  sqlite3_snprintf(sizeof(aName[i].z), aName[i].z, "%s", z);
  return &aName[i];
}

/* The directory is synced. */
static void namesSync(void){
  int i;
  for(i=0; i<SIM_NNAME; i++) aName[i].pDisk = aName[i].pNow;
  if( !sim.pMode->bWal ) sim.iSure = sim.nOrder;
}

/* No file is left. */
void simVfsClear(void){
  while( pAllNodes ){
    SimNode *p = pAllNodes;
    pAllNodes = p->pNext;
    nodeForget(p);
    nodeShmClear(p);
    free(p->aWrite);
    free(p->now.a);
    free(p->disk.a);
    free(p);
  }
  memset(aName, 0, sizeof(aName));
}

/* A database of these bytes, on the disk. */
void simVfsLoad(const void *a, i64 n){
  SimName *p;
  simVfsClear();
  p = nameFind("sim.db");
  p->pNow = p->pDisk = nodeNew();
  bytesWrite(&p->pNow->now, a, n, 0);
  bytesWrite(&p->pNow->disk, a, n, 0);
}

/* A copy of the database's bytes. */
void *simVfsImage(i64 *pn){
  SimNode *p = nameFind("sim.db")->pNow;
  void *a = malloc((size_t)p->now.n);
  memcpy(a, p->now.a, (size_t)p->now.n);
  *pn = p->now.n;
  return a;
}

/*
** A connection dies: its locks are gone.  What it still does to the memory that
** it shares is taken back by simVfsBuried().
*/
void simVfsKill(SimCo *pCo){
  int i, j;
  pCo->bDead = 1;
  for(i=0; i<SIM_NHANDLE; i++){
    SimFile *p = apFile[i];
    if( p==0 || p->pCo!=pCo ) continue;
    p->eLock = p->bReserved = p->mShared = p->mExcl = 0;
    if( p->pNode->nShm==0 || p->pNode->nKept>0 ) continue;
    p->pNode->nKept = p->pNode->nShm;
    for(j=0; j<p->pNode->nShm; j++){
      p->pNode->apKept[j] = malloc(32768);
      memcpy(p->pNode->apKept[j], p->pNode->apShm[j], 32768);
    }
  }
}

/* The dead connection is closed. */
void simVfsBuried(SimCo *pCo){
  SimNode *p;
  int j;
  for(p=pAllNodes; p; p=p->pNext){
    for(j=0; j<p->nKept; j++){
      memcpy(p->apShm[j], p->apKept[j], 32768);
      free(p->apKept[j]);
    }
    p->nKept = 0;
  }
  pCo->bDead = 0;
}

/* All connections are dead.  What is there when the machine is back? */
void simVfsRestart(int bPower){
  SimNode *p;
  int i;
  for(p=pAllNodes; p; p=p->pNext){
    nodeShmClear(p);
    if( bPower ) nodePower(p);
    nodeSync(p);
  }
  for(i=0; i<SIM_NNAME; i++){
    SimName *pN = &aName[i];
    if( bPower && simOdds(2) ) pN->pNow = pN->pDisk;
    pN->pDisk = pN->pNow;
  }
}

/**************************************************************************
** sqlite3_io_methods
*/

static int fileClose(sqlite3_file *pFile){
  SimFile *p = (SimFile*)pFile;
  int i;
  for(i=0; i<SIM_NHANDLE; i++){
    if( apFile[i]==p ) apFile[i] = 0;
  }
  if( p->bPrivate ){
    free(p->pNode->now.a);
    free(p->pNode);
  }
  return SQLITE_OK;
}

/* Something may happen; is the connection dead? */
static int filePoint(const SimFile *p){
  if( !p->bPrivate ) simPoint();
  return sim.pCo->bDead;
}

static int fileRead(sqlite3_file *pFile, void *a, int n, i64 iOfst){
  SimFile *p = (SimFile*)pFile;
  SimBytes *pB = &p->pNode->now;
  i64 nHave;
  if( filePoint(p) ) return SQLITE_IOERR_READ;
  nHave = pB->n-iOfst;
  if( nHave>=n ){
    memcpy(a, &pB->a[iOfst], (size_t)n);
    return SQLITE_OK;
  }
  if( nHave<0 ) nHave = 0;
  if( nHave ) memcpy(a, &pB->a[iOfst], (size_t)nHave);
  memset((u8*)a+nHave, 0, (size_t)(n-nHave));
  return SQLITE_IOERR_SHORT_READ;
}

/* Does the connection write what others will read?  (With a rollback journal it
** may have RESERVED, write the journal, and give up because others read.) */
static int isLocked(void){
  int i;
  for(i=0; i<SIM_NHANDLE; i++){
    const SimFile *p = apFile[i];
    if( p && p->pCo==sim.pCo
     && (p->eLock>=SQLITE_LOCK_EXCLUSIVE || (p->mExcl & 1)) ) return 1;
  }
  return 0;
}

/* It writes, and so stands behind the one that wrote before. */
static void wrote(void){
  if( sim.pWrote!=sim.pCo ) sim.pCo->iAfter = sim.iWrote;
  sim.pWrote = sim.pCo;
  sim.iWrote = sim.iNow;
}

/* A connection that is killed within a write has written a part of it. */
static int fileWrite(sqlite3_file *pFile, const void *a, int n, i64 iOfst){
  SimFile *p = (SimFile*)pFile;
  u8 bWasDead = sim.pCo->bDead;
  int bDead = filePoint(p);
  int nDone = n;
  if( bWasDead ) return SQLITE_IOERR_WRITE;
  if( bDead ) nDone = simOdds(3) ? simPick(n) : 0;
  if( nDone>0 ){
    bytesWrite(&p->pNode->now, a, nDone, iOfst);
    if( !p->bPrivate ){
      nodeAdd(p->pNode, a, nDone, iOfst);
      if( isLocked() ) wrote();
    }
  }
  return bDead ? SQLITE_IOERR_WRITE : SQLITE_OK;
}

static int fileTruncate(sqlite3_file *pFile, i64 n){
  SimFile *p = (SimFile*)pFile;
  if( filePoint(p) ) return SQLITE_IOERR_TRUNCATE;
  bytesCut(&p->pNode->now, n);
  if( !p->bPrivate ) nodeAdd(p->pNode, 0, -1, n);
  return SQLITE_OK;
}

/* What stands in a WAL that is synced survives. */
static int fileSync(sqlite3_file *pFile, int mFlag){
  SimFile *p = (SimFile*)pFile;
  (void)mFlag;
  if( filePoint(p) ) return SQLITE_IOERR_FSYNC;
  if( p->bPrivate ) return SQLITE_OK;
  nodeSync(p->pNode);
  if( p->pNode->bNew ){
    p->pNode->bNew = 0;
    namesSync();
  }
  if( p->bLog && sim.pMode->bWal ) sim.iSure = sim.nOrder;
  return SQLITE_OK;
}

static int fileSize(sqlite3_file *pFile, i64 *pn){
  SimFile *p = (SimFile*)pFile;
  if( filePoint(p) ) return SQLITE_IOERR_FSTAT;
  *pn = p->pNode->now.n;
  return SQLITE_OK;
}

/* The highest lock that another has. */
static int lockOther(const SimFile *p){
  int i, e = 0;
  for(i=0; i<SIM_NHANDLE; i++){
    const SimFile *q = apFile[i];
    if( q && q!=p && q->pNode==p->pNode && q->eLock>e ) e = q->eLock;
  }
  return e;
}

/* SHARED, RESERVED, PENDING and EXCLUSIVE as SQLite's VFS for Unix has them. */
static int fileLock(sqlite3_file *pFile, int eLock){
  SimFile *p = (SimFile*)pFile;
  int eOther;
  if( filePoint(p) ) return SQLITE_IOERR_LOCK;
  if( p->eLock>=eLock ) return SQLITE_OK;
  eOther = lockOther(p);
  if( eLock==SQLITE_LOCK_SHARED ){
    if( eOther>=SQLITE_LOCK_PENDING ) return SQLITE_BUSY;
  }else{
    if( eOther>=SQLITE_LOCK_RESERVED ) return SQLITE_BUSY;
    if( eLock==SQLITE_LOCK_EXCLUSIVE && eOther>=SQLITE_LOCK_SHARED ){
      p->eLock = SQLITE_LOCK_PENDING;
      return SQLITE_BUSY;
    }
  }
  p->eLock = (u8)eLock;
  if( eLock==SQLITE_LOCK_RESERVED ) p->bReserved = 1;
  return SQLITE_OK;
}

static int fileUnlock(sqlite3_file *pFile, int eLock){
  SimFile *p = (SimFile*)pFile;
  if( filePoint(p) ) return SQLITE_OK;
  if( p->eLock>eLock ) p->eLock = (u8)eLock;
  if( p->eLock<SQLITE_LOCK_RESERVED ) p->bReserved = 0;
  return SQLITE_OK;
}

/* Who undoes a hot journal goes from SHARED to EXCLUSIVE without RESERVED, by
** which others would take the journal for one that is being written, and read
** what is not undone yet. */
static int fileReserved(sqlite3_file *pFile, int *pb){
  SimFile *p = (SimFile*)pFile;
  int i;
  if( filePoint(p) ) return SQLITE_IOERR_CHECKRESERVEDLOCK;
  *pb = 0;
  for(i=0; i<SIM_NHANDLE; i++){
    const SimFile *q = apFile[i];
    if( q && q->pNode==p->pNode && q->bReserved ) *pb = 1;
  }
  return SQLITE_OK;
}

static int fileControl(sqlite3_file *pFile, int op, void *p){
  (void)pFile; (void)op; (void)p;
  return SQLITE_NOTFOUND;
}

static int fileSector(sqlite3_file *pFile){
  (void)pFile;
  return SIM_SECTOR;
}

static int fileDevice(sqlite3_file *pFile){
  (void)pFile;
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int shmMap(
  sqlite3_file *pFile, int iRegion, int sz, int bExtend, void volatile **pp
){
  SimNode *p = ((SimFile*)pFile)->pNode;
  *pp = 0;
  if( filePoint((SimFile*)pFile) ) return SQLITE_IOERR_SHMMAP;
  if( iRegion>=SIM_NSHM || sz!=32768 ) return SQLITE_IOERR_SHMSIZE;
  while( p->nShm<=iRegion ){
    if( !bExtend ) return SQLITE_OK;
    p->apShm[p->nShm++] = calloc(1, (size_t)sz);
  }
  *pp = p->apShm[iRegion];
  return SQLITE_OK;
}

/* Shared locks exclude exclusive ones, and these exclude all. */
static int shmLock(sqlite3_file *pFile, int iOfst, int n, int mFlag){
  SimFile *p = (SimFile*)pFile;
  u8 m = (u8)(((1<<n)-1)<<iOfst);
  int i;
  if( filePoint(p) ){
    return (mFlag & SQLITE_SHM_UNLOCK) ? SQLITE_OK : SQLITE_IOERR_SHMLOCK;
  }
  if( mFlag & SQLITE_SHM_UNLOCK ){
    p->mShared &= (u8)~m;
    p->mExcl &= (u8)~m;
    return SQLITE_OK;
  }
  for(i=0; i<SIM_NHANDLE; i++){
    const SimFile *q = apFile[i];
    if( q==0 || q==p || q->pNode!=p->pNode ) continue;
    if( q->mExcl & m ) return SQLITE_BUSY;
    if( (mFlag & SQLITE_SHM_EXCLUSIVE) && (q->mShared & m) ) return SQLITE_BUSY;
  }
  if( mFlag & SQLITE_SHM_EXCLUSIVE ){
    p->mExcl |= m;
  }else{
    p->mShared |= m;
  }
  return SQLITE_OK;
}

static void shmBarrier(sqlite3_file *pFile){
  filePoint((SimFile*)pFile);
}

static int shmUnmap(sqlite3_file *pFile, int bDelete){
  SimFile *p = (SimFile*)pFile;
  int i;
  if( sim.pCo->bDead ) return SQLITE_OK;
  p->mShared = p->mExcl = 0;
  for(i=0; i<SIM_NHANDLE; i++){
    const SimFile *q = apFile[i];
    if( q && q!=p && q->pNode==p->pNode ) bDelete = 0;
  }
  if( bDelete ) nodeShmClear(p->pNode);
  return SQLITE_OK;
}

static const sqlite3_io_methods simMethods = {
  2, fileClose, fileRead, fileWrite, fileTruncate, fileSync, fileSize,
  fileLock, fileUnlock, fileReserved, fileControl, fileSector, fileDevice,
  shmMap, shmLock, shmBarrier, shmUnmap, 0, 0
};

/**************************************************************************
** sqlite3_vfs
*/

static int vfsOpen(
  sqlite3_vfs *pVfs, const char *z, sqlite3_file *pFile, int mFlag, int *pmOut
){
  SimFile *p = (SimFile*)pFile;
  SimName *pN;
  int i;
  (void)pVfs;
  memset(p, 0, sizeof(*p));
  if( z ) simPoint();
  if( sim.pCo->bDead ) return SQLITE_CANTOPEN;
  p->pCo = sim.pCo;
  p->bLog = (mFlag & (SQLITE_OPEN_MAIN_JOURNAL|SQLITE_OPEN_WAL))!=0;
  if( z==0 ){
    p->bPrivate = 1;
    p->pNode = calloc(1, sizeof(SimNode));
  }else{
    pN = nameFind(z);
    if( pN->pNow==0 ){
      if( !(mFlag & SQLITE_OPEN_CREATE) ) return SQLITE_CANTOPEN;
      pN->pNow = nodeNew();
      pN->pNow->bNew = 1;
    }
    p->pNode = pN->pNow;
    for(i=0; apFile[i]; i++){}
    apFile[i] = p;
  }
  p->base.pMethods = &simMethods;
  if( pmOut ) *pmOut = mFlag;
  return SQLITE_OK;
}

static int vfsDelete(sqlite3_vfs *pVfs, const char *z, int bSyncDir){
  SimName *pN;
  (void)pVfs;
  simPoint();
  if( sim.pCo->bDead ) return SQLITE_IOERR_DELETE;
  pN = nameFind(z);
  if( pN->pNow==0 ) return SQLITE_IOERR_DELETE_NOENT;
  pN->pNow = 0;
  if( bSyncDir ) namesSync();
  return SQLITE_OK;
}

static int vfsAccess(sqlite3_vfs *pVfs, const char *z, int mFlag, int *pb){
  SimName *pN;
  (void)pVfs;
  simPoint();
  if( sim.pCo->bDead ) return SQLITE_IOERR_ACCESS;
  pN = nameFind(z);
  *pb = pN->pNow!=0 && (mFlag!=SQLITE_ACCESS_EXISTS || pN->pNow->now.n>0);
  return SQLITE_OK;
}

static int vfsFullPath(sqlite3_vfs *pVfs, const char *z, int n, char *zOut){
  (void)pVfs;
  sqlite3_snprintf(n, zOut, "%s", z);
  return SQLITE_OK;
}

static int vfsRandom(sqlite3_vfs *pVfs, int n, char *a){
  int i;
  (void)pVfs;
  for(i=0; i<n; i++) a[i] = (char)simRandom();
  return n;
}

static int vfsSleep(sqlite3_vfs *pVfs, int us){
  (void)pVfs;
  simPoint();
  simSleep(us);
  return us;
}

static int vfsTime64(sqlite3_vfs *pVfs, i64 *pi){
  (void)pVfs;
  *pi = simMs() + 210866760000000LL;
  return SQLITE_OK;
}

static int vfsTime(sqlite3_vfs *pVfs, double *pr){
  i64 i;
  vfsTime64(pVfs, &i);
  *pr = (double)i/86400000.0;
  return SQLITE_OK;
}

static int vfsError(sqlite3_vfs *pVfs, int n, char *z){
  (void)pVfs; (void)n; (void)z;
  return 0;
}

void simVfsRegister(void){
  static sqlite3_vfs vfs;
  vfs.iVersion = 2;
  vfs.szOsFile = sizeof(SimFile);
  vfs.mxPathname = 60;
  vfs.zName = "sim";
  vfs.xOpen = vfsOpen;
  vfs.xDelete = vfsDelete;
  vfs.xAccess = vfsAccess;
  vfs.xFullPathname = vfsFullPath;
  vfs.xRandomness = vfsRandom;
  vfs.xSleep = vfsSleep;
  vfs.xCurrentTime = vfsTime;
  vfs.xCurrentTimeInt64 = vfsTime64;
  vfs.xGetLastError = vfsError;
  sqlite3_vfs_register(&vfs, 1);
}
