"""claimq doctor: what is wrong with where and how a file is used.

    doctor.examine("app.db")    # [{"state", "what", "found", "cure"}, ...]
    doctor.connection(db)       # the same for a connection of your program

state is `ok`, `note` (you should know), or `bad` (cure it).  claimq check looks
into the file; this looks around it: the Python and the SQLite that read it, the
disk that it is on, its journal, what nobody removes from it, and the tools in
its directory that drop tables which they do not know.

A busy timeout, synchronous and what has been loaded belong to a connection:
nobody sees from outside what a program has set.  So the command says what a
connection has that sets nothing, and connection() what yours has.
"""
import contextlib
import glob
import os
import pathlib
import re
import sqlite3

import claimq

from .look import Look, Trouble, now_ms

OLD = 7 * 86400000        # ms: what ended before that need not be kept,
MANY = 10000              # and more of them than this are too many
TIMEOUT = 1000            # ms: a shorter busy timeout is too short
LOG = 64 << 20            # bytes of a write-ahead log that are too many

# File systems that other machines write to, or whose locks are not SQLite's.
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph",
           "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone",
           "fuse.gcsfuse", "fuse.grpcfuse", "glusterfs", "lustre", "beegfs",
           "ncpfs", "vboxsf", "drvfs", "prl_fs")

# Tools that make the database be like their models, and so drop what they do
# not know: files that show one, what its file says then, what to do.
TOOLS = (
    ("alembic", ("env.py", "*/env.py"), "alembic",
     "autogenerate drops claimq's tables. In %s:\n"
     "from claimq.alembic import include_name\n"
     "and in each context.configure(): include_name=include_name"),
    ("drizzle", ("drizzle.config.*",), "",
     "drizzle-kit push drops claimq's tables, unless it stops at one of its"
     " views: use\ngenerate and migrate (ext/doc/orm.md). In %s:\n"
     "tablesFilter: [\"!claimq*\"]"),
    ("rails", ("Gemfile",), "rails",
     "db:schema:dump puts claimq's tables into schema.rb, and db:schema:load"
     " makes them anew,\nempty and not as claimq has them. In %s:\n"
     "gem \"claimq\""),
    ("prisma", ("schema.prisma", "prisma/schema.prisma"), "sqlite",
     "prisma db push and migrate dev drop claimq's tables. Name them in"
     " prisma.config.ts:\ntables: {external: [...]} (ext/doc/orm.md), and say"
     " so in a comment with the word\nclaimq in %s"),
)


def examine(path, mounts="/proc/self/mounts"):
    found = [*_python(), *_disk(path, mounts), *_tools(path)]
    if any(row["state"] == "bad" and row["what"] in ("python", "extension")
           for row in found):
        return found
    try:
        look = Look(path)
    except Trouble as error:
        cure = "see claimq.connect(), or SELECT claimq_init()"
        if "no such file" in str(error):
            cure = "give the path of the database"
        return found + [_bad("file", str(error), cure)]
    with contextlib.closing(look):
        return (found + [_ok("file", "%d kB, with claimq's tables" % (
            os.path.getsize(path) >> 10))] + _journal(look)
            + _default() + _waste(look))


def connection(db):
    """What is wrong with a connection: of sqlite3, or of what looks like it."""
    def value(sql):
        rows = list(db.execute(sql))
        return rows[0][0] if rows else None

    found = []
    try:
        value("SELECT claimq_version()")
        found.append(_ok("extension", "is loaded"))
    except Exception as error:
        found.append(_bad("extension", "is not loaded: %s" % error,
                          "claimq.load(db), in the hook that opens"
                          " connections"))
    timeout = value("PRAGMA busy_timeout")
    if timeout < TIMEOUT:
        found.append(_bad(
            "busy timeout", "%d ms: as soon as two programs write at once, one"
            " gets \"database is locked\"" % timeout,
            "PRAGMA busy_timeout=5000 on every connection, or the timeout of"
            " your driver"))
    else:
        found.append(_ok("busy timeout", "%d ms" % timeout))
    return found + [_synchronous(value("PRAGMA synchronous"),
                                 value("PRAGMA journal_mode"))]


def _ok(what, found):
    return {"state": "ok", "what": what, "found": found, "cure": None}


def _note(what, found, cure):
    return {"state": "note", "what": what, "found": found, "cure": cure}


def _bad(what, found, cure):
    return {"state": "bad", "what": what, "found": found, "cure": cure}


# -------------------------------------------------------------------------
# Each of these returns a list of findings.

def _python():
    """Can this Python load claimq?"""
    db = claimq._open(":memory:")
    able = hasattr(sqlite3.Connection, "enable_load_extension")
    version, number = sqlite3.sqlite_version, sqlite3.sqlite_version_info
    if type(db).__module__ == "claimq._apsw":
        found = [_ok("python", "cannot load claimq; apsw can, and is used")]
        version = db.execute("SELECT sqlite_version()").fetchall()[0][0]
        number = tuple(map(int, version.split(".")))
    elif not able:
        return [_bad("python", "cannot load extensions",
                     claimq._NO_EXTENSIONS)]
    else:
        found = [_ok("python", "can load extensions")]
    if number < claimq._OLDEST:
        return found + [_bad(
            "sqlite", "this Python has SQLite %s" % version,
            "claimq needs %d.%d or newer: a newer Python, or pip install apsw,"
            " which brings its own and is used then" % claimq._OLDEST)]
    if number[:2] == (3, 45):
        found.append(_note("sqlite", version + " forgets indexes after ANALYZE",
                           "any other version; or no ANALYZE"))
    else:
        found.append(_ok("sqlite", version))
    try:
        claimq.load(db)
        found.append(_ok("extension", "loads: " + claimq.loadable_path()))
    except (sqlite3.Error, OSError) as error:
        found.append(_bad(
            "extension", "%s: %s" % (claimq.loadable_path(), error),
            "install the wheel of this platform again: pip install"
            " --force-reinstall claimq"))
    finally:
        db.close()
    return found


def _disk(path, mounts):
    """Is it a disk of this machine?  Only Linux says, in a file."""
    place = os.path.realpath(path)
    best, kind = "", None
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.split(" ")
                at = re.sub(r"\\([0-7]{3})", lambda found: chr(
                    int(found[1], 8)), words[1])
                inside = place == at or place.startswith(at.rstrip("/") + "/")
                if inside and len(at) >= len(best):
                    best, kind = at, words[2]
    except (OSError, IndexError, ValueError):
        pass
    if kind is None:
        return [_note("disk", "not known here",
                      "make sure that it is a disk of this machine")]
    if kind in NETWORK:
        return [_bad("disk", "%s is on %s: locks are not reliable there, and"
                     " two workers may get one job" % (path, kind),
                     "put the file on a disk of this machine, and let other"
                     " machines ask a service there")]
    return [_ok("disk", kind)]


def _tools(path):
    """What is beside the file, or one directory above."""
    home = pathlib.Path(path).absolute().parent
    found = []
    for name, patterns, word, cure in TOOLS:
        for place in sorted({place for top in (home, home.parent)
                             for pattern in patterns for place in
                             glob.glob(os.path.join(glob.escape(str(top)),
                                                    pattern))}):
            try:
                with open(place, encoding="utf-8", errors="replace") as file:
                    text = file.read(1 << 20)
            except OSError:
                continue
            if word in text:
                found.append(_ok(name, "%s names claimq" % place)
                             if "claimq" in text else
                             _bad(name, place + " does not know claimq's"
                                  " tables", cure % place))
    return found


def _journal(look):
    mode = look.value("PRAGMA journal_mode")
    if mode != "wal":
        return [_bad("journal", "%s: readers and the writer wait for each"
                     " other" % mode, "PRAGMA journal_mode=wal, once: it stays"
                     " in the file")]
    try:
        size = os.path.getsize(look.path + "-wal")
    except OSError:
        size = 0
    if size > LOG:
        return [_bad("journal", "wal, and the log has %d MB" % (size >> 20),
                     "somebody does not end a read transaction: fetch all rows,"
                     " commit; then PRAGMA wal_checkpoint(TRUNCATE)")]
    return [_ok("journal", "wal")]


def _default():
    """What a connection has that sets nothing."""
    db = sqlite3.connect(":memory:", timeout=0)
    try:
        level = db.execute("PRAGMA synchronous").fetchone()[0]
    finally:
        db.close()
    return [_synchronous(level, "wal"),
            _note("busy timeout", "each connection has its own; SQLite's is 0,"
                  " sqlite3's of Python 5 s", "PRAGMA busy_timeout on one of"
                  " yours says which; in Python: from claimq import doctor;"
                  " doctor.connection(db)")]


def _synchronous(level, mode):
    if level == 0 or level == 1 and mode != "wal":
        return _bad("synchronous", "%s with journal %s: a power failure can"
                    " damage the file" % (("OFF", "NORMAL")[level], mode),
                    "PRAGMA synchronous=FULL, or NORMAL in WAL mode")
    if level == 1:
        return _note("synchronous", "NORMAL: after a power failure the last"
                     " commits may be missing, and their ids are given out"
                     " again", "PRAGMA synchronous=FULL; or call"
                     " claimq_restored() after a power failure")
    return _ok("synchronous", "FULL" if level == 2 else "EXTRA")


def _waste(look):
    """What nobody removes."""
    n = look.unpruned(now_ms() - OLD, MANY + 1)
    days = OLD // 86400000
    if n > MANY:
        return [_bad("upkeep", "over %d rows of work that ended more than %d"
                     " days ago" % (MANY, days), "claimq vacuum %s"
                     " --older-than %dd, every day" % (look.path, days))]
    return [_ok("upkeep", "%d rows of work that ended more than %d days ago"
                % (n, days))]
