/*
** store/zoneinfo.c: the zoneinfo files of this system.
**
**     CqZone zone;
**     u8 *aFile = claimqZoneRead(p, claimqStr("Europe/Berlin"), &zone);
**     ...
**     sqlite3_free(aFile);
**
** A zone is a file below a folder: the one that the variable TZDIR names, else
** the first of those in which systems keep them that has it.  core/zone.c knows
** what is in the file.
**
** A file is read each time that it is needed, which is when a schedule is due:
** that takes some 10 us, nothing has to be kept, and an update of the system's
** zoneinfo holds from then on.  Whatever the name, nothing but a regular file
** below the folder is opened.
**
** Apart from gate.c and watch.c, this is the only file that asks the operating
** system itself.  Where there are no files (WASI), or none that zoneinfo is in
** (Windows), no name is a zone.
*/
#include "claimq_int.h"

#if (defined(__unix__) || defined(__APPLE__)) && !defined(__wasi__)
# define CQ_ZONE_FILES 1
# include <sys/types.h>
# include <errno.h>
# include <fcntl.h>
# include <stdlib.h>
# include <sys/stat.h>
# include <unistd.h>
/* glibc hides it from those who ask for C99 and nothing else. */
# if !defined(O_CLOEXEC) && defined(__O_CLOEXEC)
#  define O_CLOEXEC __O_CLOEXEC
# elif !defined(O_CLOEXEC)
#  define O_CLOEXEC 0
# endif
#endif

#define CQ_ZONE_NAME 255          /* Bytes of a name */

/*
** May this be the name of a zone?  It must stay below the folder, and a number
** is an offset.
*/
static int cqZoneNameOk(CqText name){
  i64 i;
  int k;
  if( name.n==0 || name.n>CQ_ZONE_NAME || name.z[0]=='/' ) return 0;
  for(k=0; k<name.n; k++){
    if( name.z[k]==0 || name.z[k]=='\\' ) return 0;
    if( k>0 && name.z[k]=='.' && name.z[k-1]=='.' ) return 0;
  }
  return !claimqI64Parse(name, &i);
}

#ifdef CQ_ZONE_FILES

/*
** The i-th folder to look in; 0 if there is none.
*/
static const char *cqZoneFolder(int i){
  static const char *const az[] = {
    "/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo",
    "/etc/zoneinfo",
  };
  const char *zOwn = getenv("TZDIR");
  if( zOwn && zOwn[0] ) return i==0 ? zOwn : 0;
  return i<CQ_ARRAYSIZE(az) ? az[i] : 0;
}

/*
** Open a regular file and find out how long it is: the descriptor; or -1, and
** *pnByte is the system's error.  What is not a regular file is not opened: to
** open a device may do something.  (One that is put there just then has no
** length, or cannot be read.)
*/
static int cqZoneOpen(const char *zPath, i64 *pnByte){
  struct stat s;
  int fd = -1;
  errno = ENOENT;
  if( stat(zPath, &s)==0 && S_ISREG(s.st_mode) ){
    do{
      fd = open(zPath, O_RDONLY|O_CLOEXEC|O_NONBLOCK|O_NOCTTY);
    }while( fd<0 && errno==EINTR );
  }
  if( fd<0 ){
    *pnByte = errno;
    return -1;
  }
  fstat(fd, &s);                  /* It may have been replaced in between */
  *pnByte = (i64)s.st_size;
  return fd;
}

/*
** Read an open file of nByte bytes and close it.  The caller frees what is
** returned; 0 if there are fewer bytes, or op gets an error.  Where the file is
** on another machine, or a program makes it up, a signal may come before the
** first byte.
*/
static u8 *cqZoneBytes(CqOp *p, int fd, i64 nByte){
  u8 *a = claimqMalloc(p, nByte+1);
  i64 n = 0;
  while( a && n<nByte ){
    ssize_t nGot = read(fd, &a[n], (size_t)(nByte-n));
    if( nGot<0 && errno==EINTR ) continue;
    if( nGot<=0 ) break;
    n += nGot;
  }
  close(fd);
  if( n==nByte ) return a;
  sqlite3_free(a);
  return 0;
}

/*
** No folder has the zone.  Raise bad_argument: is there any folder?
*/
static void cqZoneNone(CqOp *p, CqText name, i64 iError){
  const char *z = 0;
  struct stat s;
  int i;
  for(i=0; (z = cqZoneFolder(i))!=0; i++){
    if( stat(z, &s)==0 && S_ISDIR(s.st_mode) ) break;
  }
  if( z==0 ){
    claimqFail(p, CQ_BAD_ARGUMENT, "timezone '%.*s' cannot be used: this system"
        " has no zoneinfo (there is no folder %s): install it, or set TZDIR",
        claimqShown(name), name.z, cqZoneFolder(0));
  }else if( iError==ENOENT || iError==ENOTDIR ){
    claimqFail(p, CQ_BAD_ARGUMENT, "there is no timezone '%.*s' in %s",
        claimqShown(name), name.z, z);
  }else{
    claimqFail(p, CQ_BAD_ARGUMENT, "timezone '%.*s' cannot be read in %s "
        "(system error %d)", claimqShown(name), name.z, z, (int)iError);
  }
}

/*
** Find the zone and read its file.  Raises bad_argument.
*/
static u8 *cqZoneFind(CqOp *p, CqText name, CqZone *pOut){
  const char *zFolder;
  i64 nByte = ENOENT;
  int i, fd = -1;
  u8 *a = 0;
  for(i=0; fd<0 && (zFolder = cqZoneFolder(i))!=0; i++){
    char *zPath = sqlite3_mprintf("%s/%.*s", zFolder, name.n, name.z);
    if( zPath==0 ){
      p->rc = SQLITE_NOMEM;
      return 0;
    }
    fd = cqZoneOpen(zPath, &nByte);
    sqlite3_free(zPath);
    if( fd<0 && nByte!=ENOENT && nByte!=ENOTDIR ) break;
  }
  if( fd<0 ){
    cqZoneNone(p, name, nByte);
    return 0;
  }
  if( nByte<=CQ_ZONE_MAX ) a = cqZoneBytes(p, fd, nByte);
  else close(fd);
  if( a && claimqZoneParse(a, (int)nByte, pOut) ) return a;
  sqlite3_free(a);
  claimqFail(p, CQ_BAD_ARGUMENT, "timezone '%.*s' is no zoneinfo file that "
      "claimq can read", claimqShown(name), name.z);
  return 0;
}

#else /* Neither files nor folders */

/*
** Raise bad_argument: no name is a zone.
*/
static u8 *cqZoneFind(CqOp *p, CqText name, CqZone *pOut){
  (void)pOut;
  claimqFail(p, CQ_BAD_ARGUMENT, "timezone '%.*s' cannot be used: there is no "
      "zoneinfo where this claimq runs: give offset_minutes",
      claimqShown(name), name.z);
  return 0;
}

#endif

/*
** Read a zone.  Returns the bytes that *pOut points into, which the caller
** frees by sqlite3_free(); 0 if op has an error, or gets bad_argument here.
*/
CQ_PRIV u8 *claimqZoneRead(CqOp *p, CqText name, CqZone *pOut){
  if( p->rc ) return 0;
  if( !cqZoneNameOk(name) ){
    claimqFail(p, CQ_BAD_ARGUMENT, "timezone must be a name such as "
        "Europe/Berlin, without '..', '\\' or a leading '/', got '%.*s'",
        claimqShown(name), name.z);
    return 0;
  }
  return cqZoneFind(p, name, pOut);
}
