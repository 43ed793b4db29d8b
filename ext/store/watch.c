/*
** watch.c: being woken when a file is written, by the operating system.
**
** This file, gate.c and zoneinfo.c talk to the operating system themselves.  A
** connection that waits has a CqWatch:
**
**     CqWatch *p = claimqWatchNew("/a/b.db");
**     claimqWatchAim(p, "/a/b.db", "/a/b.db-wal");
**     claimqWatchSleep(p, 90000, 0)      -> CQ_WOKE_TOLD, after 0.3 ms say
**     claimqWatchFree(p);
**
** What is watched
**
** In WAL mode a commit is written to the -wal file, and what is written to the
** database file is a checkpoint, which says nothing new; worse, to look while
** another connection checkpoints may keep it from finishing.  So the -wal is
** watched if it is there, else the database file, where a commit with a
** rollback journal is written under an exclusive lock.  Nobody can delete the
** -wal while this connection has it open, and putting a database into WAL mode
** writes to the database file; so it is enough to aim again after a commit was
** seen, and now and then.  A directory is never watched: that would
** wake us for every file in it.
**
** No descriptor of the database file is ever opened or closed here.  Closing
** one drops all locks that the process has on the file: POSIX locks are so.
**
**     Linux            inotify, which takes a path and needs no descriptor
**     macOS, the BSDs  kqueue, which needs one: for the -wal only, on which
**                      there are no locks.  With a rollback journal: polling
**     all others       polling.  (Windows reports a write only when it flushes
**                      its cache to the disk.)
**
** Polling is also what remains if the file is in memory or on another machine
** (whose writes are not reported here), or if the system has no more
** descriptors to give.  Compile with -DCLAIMQ_POLL to have nothing else.
**
** Processes
**
** After fork() parent and child would share one queue of events, and each
** would take what the other is waiting for.  So the descriptors belong to the
** process that opened them, and another one opens its own.  It does not close
** those it inherited: it may have done so before, and they may be something
** else by now, a database for example.  exec() closes them.
*/
#include "claimq_int.h"

#if defined(CLAIMQ_POLL)
# define CQ_WATCH_POLL 1
#elif defined(__linux__)
# define CQ_WATCH_INOTIFY 1
# include <poll.h>
# include <sys/inotify.h>
# include <sys/vfs.h>
#elif defined(__APPLE__) || defined(__FreeBSD__) || defined(__DragonFly__) \
   || defined(__OpenBSD__) || defined(__NetBSD__)
# define CQ_WATCH_KQUEUE 1
# include <sys/types.h>
# include <fcntl.h>
# include <sys/event.h>
# include <sys/param.h>
# include <sys/stat.h>
# if defined(__NetBSD__)
#  include <sys/statvfs.h>
# else
#  include <sys/mount.h>
# endif
# include <sys/time.h>
#else
# define CQ_WATCH_POLL 1
#endif

#if defined(__unix__) || defined(__APPLE__)
# define CQ_WATCH_UNIX 1
# include <sys/select.h>
# include <sys/time.h>
# include <unistd.h>
#endif

struct CqWatch {
  i64 iProcess;                   /* Who opened the descriptors */
  int fd;                         /* Of inotify or kqueue, or -1 */
  int iDb, iWal;                  /* What is watched, or -1: inotify's numbers;
                                  ** of kqueue a descriptor of the -wal */
  u8 bFar;                        /* On another machine: never reported */
};

/*
** The number of this process, which a child does not share; 0 where there is no
** fork().
*/
static i64 cqWatchProcess(void){
#ifdef CQ_WATCH_UNIX
  return (i64)getpid();
#else
  return 0;
#endif
}

/*
** Sleep.  1 if it was to the end, 0 if a signal came in between.
*/
static int cqWatchNap(i64 us){
#ifdef CQ_WATCH_UNIX
  struct timeval t;
  assert( us>=0 );
  t.tv_sec = (long)(us/1000000);
  t.tv_usec = (int)(us%1000000);
  return select(0, 0, 0, 0, &t)==0;
#else
  sqlite3_sleep((int)((us+999)/1000));
  return 1;
#endif
}

/*
** The descriptors, if there are any, belong to another process or are closed:
** forget them.
*/
static void cqWatchForget(CqWatch *p){
  p->iProcess = cqWatchProcess();
  p->fd = p->iDb = p->iWal = -1;
}

/**************************************************************************
** Linux: inotify
*/
#if defined(CQ_WATCH_INOTIFY)

/*
** Is the file where other machines can write to it?  Then the kernel knows
** only of what is written on this one.  If nothing can be found out, no.
*/
static int cqWatchIsFar(const char *zDb){
  struct statfs st;
  return statfs(zDb, &st)==0 ? claimqPaceIsFar((u32)st.f_type) : 0;
}

static void cqWatchOpen(CqWatch *p){
  p->fd = inotify_init1(IN_NONBLOCK|IN_CLOEXEC);
}

/*
** Watch a file.  Returns its number, the same as before if it is the same
** file, or -1 if there is no such file, or no more can be watched.
*/
static int cqWatchAdd(CqWatch *p, const char *zFile){
  return inotify_add_watch(p->fd, zFile, IN_MODIFY);
}

static void cqWatchRemove(CqWatch *p, int iFile){
  if( iFile>=0 ) inotify_rm_watch(p->fd, iFile);
}

/*
** See claimqWatchAim().
*/
static int cqWatchAim(CqWatch *p, const char *zDb, const char *zWal){
  int iDb = -1;
  int iWal = cqWatchAdd(p, zWal);
  int bNew;
  if( iWal<0 ) iDb = cqWatchAdd(p, zDb);
  bNew = (iWal>=0 && iWal!=p->iWal) || (iDb>=0 && iDb!=p->iDb);
  if( p->iWal!=iWal ) cqWatchRemove(p, p->iWal);
  if( p->iDb!=iDb ) cqWatchRemove(p, p->iDb);
  p->iWal = iWal;
  p->iDb = iDb;
  assert( p->iWal<0 || p->iDb<0 );
  return bNew;
}

/*
** Take the events there are; if there are more than fit, the next sleep is
** short.  1 if one is of what is watched now: it was written to, or is gone, or
** events were lost.  (These belong to file -1, as does what is not watched.)
*/
static int cqWatchDrain(CqWatch *p){
  char aBuf[4096];
  struct inotify_event e;
  int bTold = 0;
  ssize_t i, n = p->fd>=0 ? read(p->fd, aBuf, sizeof(aBuf)) : 0;
  for(i=0; i<n; i+=(ssize_t)(sizeof(e)+e.len)){
    memcpy(&e, &aBuf[i], sizeof(e));      /* The kernel gives whole events */
    if( e.wd==p->iDb || e.wd==p->iWal ) bTold = 1;
  }
  return bTold;
}

/*
** Sleep until something is reported.  poll() counts in milliseconds.  If it
** says that there is no such descriptor, somebody has closed all that he found:
** from now on there is polling, and the next wait opens another.
*/
static int cqWatchListen(CqWatch *p, i64 us){
  struct pollfd fd;
  int n;
  fd.fd = p->fd;
  fd.events = POLLIN;
  fd.revents = 0;
  n = poll(&fd, 1, (int)((us+999)/1000));
  if( n==0 ) return CQ_WOKE_FULL;
  if( n>0 && (fd.revents & POLLIN)==0 ) cqWatchForget(p);
  return cqWatchDrain(p) ? CQ_WOKE_TOLD : 0;
}

static void cqWatchClose(CqWatch *p){
  if( p->fd>=0 ) close(p->fd);
}

/**************************************************************************
** macOS and the BSDs: kqueue
*/
#elif defined(CQ_WATCH_KQUEUE)

/*
** Is the file on another machine?  If nothing can be found out, no.
*/
static int cqWatchIsFar(const char *zDb){
#if defined(__NetBSD__)
  struct statvfs st;
  return statvfs(zDb, &st)==0 && (st.f_flag & ST_LOCAL)==0;
#else
  struct statfs st;
  return statfs(zDb, &st)==0 && (st.f_flags & MNT_LOCAL)==0;
#endif
}

static void cqWatchOpen(CqWatch *p){
  p->fd = kqueue();
  if( p->fd>=0 ) fcntl(p->fd, F_SETFD, FD_CLOEXEC);
}

/*
** 1 if the descriptor is one of the file that has this name now.
*/
static int cqWatchIsSame(int fd, const char *zFile){
  struct stat a, b;
  return fd>=0 && fstat(fd, &a)==0 && stat(zFile, &b)==0
      && a.st_dev==b.st_dev && a.st_ino==b.st_ino;
}

static void cqWatchDrop(CqWatch *p){
  if( p->iWal>=0 ) close(p->iWal);        /* The queue forgets it, too */
  p->iWal = -1;
}

/*
** See claimqWatchAim().
*/
static int cqWatchAim(CqWatch *p, const char *zDb, const char *zWal){
#if defined(O_EVTONLY)
  const int mFlag = O_EVTONLY|O_CLOEXEC|O_NONBLOCK;
#else
  const int mFlag = O_RDONLY|O_CLOEXEC|O_NONBLOCK;
#endif
  struct kevent ev;
  (void)zDb;
  if( cqWatchIsSame(p->iWal, zWal) ) return 0;
  cqWatchDrop(p);
  p->iWal = open(zWal, mFlag);
  if( p->iWal<0 ) return 0;
  EV_SET(&ev, p->iWal, EVFILT_VNODE, EV_ADD|EV_CLEAR, NOTE_WRITE|NOTE_EXTEND,
         0, 0);
  if( kevent(p->fd, &ev, 1, 0, 0, 0)!=0 ) cqWatchDrop(p);
  return p->iWal>=0;
}

/*
** Sleep until something is reported, for up to us microseconds.
*/
static int cqWatchListen(CqWatch *p, i64 us){
  struct kevent ev;
  struct timespec t;
  int n;
  t.tv_sec = (time_t)(us/1000000);
  t.tv_nsec = (long)(us%1000000)*1000;
  n = kevent(p->fd, 0, 0, &ev, 1, &t);
  return n>0 ? CQ_WOKE_TOLD : n==0 ? CQ_WOKE_FULL : 0;
}

static int cqWatchDrain(CqWatch *p){
  return p->fd>=0 && cqWatchListen(p, 0)==CQ_WOKE_TOLD;
}

static void cqWatchClose(CqWatch *p){
  cqWatchDrop(p);
  if( p->fd>=0 ) close(p->fd);
}

/**************************************************************************
** Others: polling
*/
#else

static int cqWatchIsFar(const char *zDb){ (void)zDb; return 1; }
static void cqWatchOpen(CqWatch *p){ (void)p; }
static int cqWatchAim(CqWatch *p, const char *zDb, const char *zWal){
  (void)p; (void)zDb; (void)zWal;
  return 0;
}
static int cqWatchListen(CqWatch *p, i64 us){
  (void)p;
  return cqWatchNap(us) ? CQ_WOKE_FULL : 0;
}
static int cqWatchDrain(CqWatch *p){ (void)p; return 0; }
static void cqWatchClose(CqWatch *p){ (void)p; }

#endif

/**************************************************************************
** The interface
*/

/*
** A watch that watches nothing yet; 0 if there is no memory.  zDb: the
** database file, "" or 0 if there is none.
*/
CQ_PRIV CqWatch *claimqWatchNew(const char *zDb){
  CqWatch *p = sqlite3_malloc(sizeof(*p));
  if( p==0 ) return 0;
  memset(p, 0, sizeof(*p));
  cqWatchForget(p);
  p->bFar = CQ_NEVER(zDb==0) || zDb[0]==0 ? 1 : (u8)cqWatchIsFar(zDb);
  return p;
}

/*
** Watch what a commit is written to.  Returns 1 if that is something that was
** not watched before: what was written until now was not reported.  Called at
** the beginning of every wait: by then a child may have inherited p.
**
** zDb==0: the files do not have their names any more.  What is watched is the
** file, not the name, so that it goes on being watched.
*/
CQ_PRIV int claimqWatchAim(CqWatch *p, const char *zDb, const char *zWal){
  if( p->iProcess!=cqWatchProcess() ) cqWatchForget(p);
  if( p->bFar || zDb==0 ) return 0;
  if( p->fd<0 ) cqWatchOpen(p);
  if( p->fd<0 ) return 0;
  assert( zWal!=0 );
  return cqWatchAim(p, zDb, zWal);
}

/*
** Will claimqWatchSleep() hear of writes?
*/
CQ_PRIV int claimqWatchListens(const CqWatch *p){
  assert( p->fd>=0 || (p->iDb<0 && p->iWal<0) );
  return p->fd>=0 && (p->iDb>=0 || p->iWal>=0);
}

/*
** Sleep for us microseconds, or until a write is reported; bDeaf: to the
** end, and tell of it then.  Returns a mask of CQ_WOKE_*, 0 if a signal came.
*/
CQ_PRIV int claimqWatchSleep(CqWatch *p, i64 us, int bDeaf){
  int mWoke;
  assert( us>=0 && p->iProcess==cqWatchProcess() );
  if( !bDeaf && claimqWatchListens(p) ) return cqWatchListen(p, us);
  mWoke = cqWatchNap(us) ? CQ_WOKE_FULL : 0;
  if( cqWatchDrain(p) ) mWoke |= CQ_WOKE_TOLD;
  return mWoke;
}

/*
** Close what this process has opened, and free p, which may be 0.
*/
CQ_PRIV void claimqWatchFree(CqWatch *p){
  if( p==0 ) return;
  if( p->iProcess==cqWatchProcess() ) cqWatchClose(p);
  sqlite3_free(p);
}
