/*
** claimq: queues of leased, fenced work in ordinary SQLite tables.
**
** As a loadable extension nothing of this file is needed:
**
**     sqlite> .load ./claimq
**
** To link claimq into a program, compile claimq.c (the amalgamation) with
** -DSQLITE_CORE and register the entry point before the first open:
**
**     sqlite3_auto_extension((void(*)(void))sqlite3_claimq_init);
*/
#ifndef CLAIMQ_H
#define CLAIMQ_H

#define CLAIMQ_VERSION        "0.1.0"
#define CLAIMQ_SCHEMA_VERSION 1          /* What claimq_init() returns */
/* The rules that write to a database: raised whenever they change, so that a
** claimq with older ones leaves it alone. */
#ifndef CLAIMQ_RULES
# define CLAIMQ_RULES 1
#endif
#define CLAIMQ_MIN_SQLITE     3039000    /* Oldest SQLite that is accepted */

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;
struct sqlite3_api_routines;

#if defined(_WIN32)
__declspec(dllexport)
#elif defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int sqlite3_claimq_init(
  struct sqlite3 *db,                      /* The connection to extend */
  char **pzErrMsg,                         /* OUT: message, by sqlite3_malloc */
  const struct sqlite3_api_routines *pApi  /* Ignored under SQLITE_CORE */
);

#ifdef __cplusplus
}
#endif
#endif /* CLAIMQ_H */
