"""Creating, emptying and removing claimq's tables on a connection of Django's."""
import time

import claimq

_OURS = """SELECT type, name, sql FROM sqlite_schema
 WHERE sql IS NOT NULL AND (name='claimq' OR name GLOB 'claimq_*')
   AND name<>'claimq_meta'
 ORDER BY type='trigger', type='view', type='index', rowid"""


def now_ms():
    return time.time_ns() // 1_000_000


def create(connection):
    """claimq_init(); raises why the extension is not there."""
    connection.ensure_connection()
    with connection.cursor() as cursor:
        if not cursor.execute("SELECT 1 FROM pragma_function_list"
                              " WHERE name='claimq_init'").fetchone():
            claimq.load(connection.connection)
        cursor.execute("SELECT claimq_init()").fetchall()


def drop(connection):
    with connection.cursor() as cursor:
        for kind, name, _ in cursor.execute(_OURS).fetchall():
            if kind in ("table", "view"):
                cursor.execute("DROP %s IF EXISTS %s" % (kind, name))
        cursor.execute("DROP TABLE IF EXISTS claimq_meta")


def empty(connection):
    """No rows, whoever holds them; the tables and the settings stay.  A DELETE
    of what is held is refused, so the tables are made anew."""
    with connection.cursor() as cursor:
        ours = cursor.execute(_OURS).fetchall()
        for kind, name, _ in ours:
            if kind in ("table", "view"):
                cursor.execute("DROP %s %s" % (kind, name))
        for _, _, sql in ours:
            cursor.execute(sql)
