"""The command `claimq`: what is in the queues of a file, and why.

    claimq top app.db                       live, in the terminal
    claimq board app.db                     live, in a browser
    claimq stats app.db                     a line for each scope
    claimq why app.db lane mail             why a claim takes what it takes
    claimq check app.db                     what is wrong with the file
    claimq letters app.db --search timeout  dead letters
    claimq requeue app.db 17 18             put them back
    claimq discard app.db --scope mail --all
    claimq revoke app.db 4711               take a job from who holds it

Only requeue, discard, revoke and `board --write` open the file for writing.

The exit code says how it went, for scripts:

    0   done, or yes: something is claimable, the file is sound, there are
        letters
    1   no: nothing is claimable, something is wrong with the file, there are no
        such letters, something could not be requeued, discarded or revoked
    2   the command was not understood
    3   the file cannot be read: it does not exist, is no database, has no
        tables of claimq, or is locked
"""
import argparse
import json
import os
import sqlite3
import sys

from . import __version__
from .look import COUNTS, DISCIPLINES, Look, Trouble, now_ms, plain

YES, NO, USAGE, TROUBLE = 0, 1, 2, 3
WHY_OPTIONS = ("capabilities", "partition", "boundary", "take", "serial",
               "kind", "source")


def main(arguments=None):
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except Trouble as error:
        print("claimq: %s" % error, file=sys.stderr)
        return TROUBLE
    except sqlite3.Error as error:
        print("claimq: %s: %s" % (options.file, error), file=sys.stderr)
        return NO if "claimq: " in str(error) else TROUBLE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return YES
    except KeyboardInterrupt:
        return YES


def _parser():
    about, _, codes = __doc__.partition("The exit code")
    parser = argparse.ArgumentParser(
        prog="claimq", description=about,
        epilog="The exit code" + codes,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version",
                        version="claimq " + __version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND",
                                     required=True)

    def command(name, run, text, with_json=True):
        one = commands.add_parser(name, help=text, description=text)
        one.add_argument("file", metavar="FILE", help="a SQLite database")
        if with_json:
            one.add_argument("--json", action="store_true",
                             help="print JSON")
        one.set_defaults(run=run)
        return one

    def which_letters(one):
        one.add_argument("--source", choices=("lane", "session", "outbox"))
        one.add_argument("--scope", help="lane, session, or QUEUE/PARTITION")
        one.add_argument("--search", metavar="TEXT",
                         help="in reason, error class, scope, reference or the"
                         " first 64 kB of the payload, in any case")

    one = command("top", _top, "show the queues live, in the terminal", False)
    one.add_argument("--once", action="store_true",
                     help="print it once, without a terminal, and end")
    one.add_argument("--sort", default="ready", help="the column to sort by")
    one.add_argument("--filter", default="", metavar="TEXT",
                     help="only scopes and workers whose name has it")

    one = command("board", _board, "show the queues live, in a browser", False)
    one.add_argument("--port", type=int, default=8437,
                     help="0: any that is free (default: %(default)s)")
    one.add_argument("--listen", default="127.0.0.1", metavar="ADDRESS",
                     help="another address than that of this machine itself:"
                     " whoever can reach it needs the token")
    one.add_argument("--allow-host", action="append", default=[],
                     metavar="NAME", help="a name that browsers may call this"
                     " board by, such as that of a proxy (NAME or NAME:PORT)")
    one.add_argument("--write", action="store_true",
                     help="allow requeue, discard, revoke and cancel")

    one = command("stats", _stats, "count what is in each scope")
    one.add_argument("--discipline", choices=DISCIPLINES)
    one.add_argument("--scope")

    one = command("why", _why, "say why a claim takes what it takes")
    one.add_argument("discipline", choices=DISCIPLINES)
    one.add_argument("scope")
    for name in WHY_OPTIONS:
        one.add_argument("--" + name, help="the %s of the claim" % name)

    command("check", _check, "say what is wrong with the file: SQLite's"
            " integrity_check, and claimq_check")

    one = command("letters", _letters, "list dead letters, the newest first")
    which_letters(one)
    one.add_argument("--status", default="open",
                     choices=("open", "resolved", "discarded", "all"))
    one.add_argument("--limit", type=int, default=50, metavar="N")
    one.add_argument("--before", type=int, metavar="ID",
                     help="only letters with a smaller id")

    for name, text in (("requeue", "put dead letters back where they came"
                        " from"),
                       ("discard", "give dead letters up")):
        one = command(name, _change, text)
        one.add_argument("ids", nargs="*", type=int, metavar="LETTER")
        which_letters(one)
        one.add_argument("--all", action="store_true",
                         help="all open letters that --source, --scope and"
                         " --search choose")
    one = command("revoke", _change, "take jobs from who holds them: the next"
                  " claim is a new attempt")
    one.add_argument("ids", nargs="+", type=int, metavar="JOB")
    return parser


# -------------------------------------------------------------------------
# The commands

def _top(options):
    from . import top
    return top.main(options)


def _board(options):
    from . import board
    return board.main(options)


def _stats(options):
    rows = Look(options.file).stats(options.discipline, options.scope)
    if options.json:
        return _json(rows)
    now = now_ms()
    _table(["discipline", "scope", *COUNTS, "oldest", "next"],
           [[row["discipline"], row["scope"], *[row[name] for name in COUNTS],
             ago(now, row["oldest_ready_at_ms"]), ago(row["next_at_ms"], now)]
            for row in rows])
    return YES


def _why(options):
    chosen = {name: getattr(options, name) for name in WHY_OPTIONS}
    given = chosen["capabilities"]
    if given is not None and not given.startswith("["):
        chosen["capabilities"] = json.dumps(
            [word for word in given.split(",") if word])
    rows = Look(options.file).why(options.discipline, options.scope, **chosen)
    if options.json:
        _json(rows)
    else:
        now = now_ms()
        _table(["reason", "n", "example", "until", "detail"],
               [[row["reason"], row["n"], row["example"],
                 ago(row["until_at_ms"], now), row["detail"]] for row in rows])
    return YES if any(row["reason"] == "claimable" for row in rows) else NO


def _check(options):
    rows = Look(options.file).check()
    if options.json:
        _json(rows)
    elif rows:
        _table(["table", "row", "problem"],
               [[row["table_name"], row["row_key"], row["problem"]]
                for row in rows])
    else:
        print("nothing is wrong")
    return NO if rows else YES


def _chosen(look, options, status="open", limit=None, before=None):
    """Letters, page after page; a search may find nothing on some."""
    found = []
    while limit is None or len(found) < limit:
        page = look.letters(status, options.source, options.scope,
                            options.search, before,
                            500 if limit is None else limit - len(found))
        found += page["rows"]
        before = page["before"]
        if before is None:
            break
    return found


def _letters(options):
    rows = _chosen(Look(options.file), options, options.status,
                   max(1, options.limit), options.before)
    if options.json:
        _json(rows)
    else:
        now = now_ms()
        _table(["letter", "source", "scope", "ref", "status", "failed",
                "tries", "class", "reason", "payload"],
               [[row["letter_id"], row["source"], row["scope"], row["ref"],
                 row["status"], ago(now, row["failed_at_ms"]),
                 row["attempts"], row["error_class"], row["reason"],
                 row["payload"]] for row in rows])
    return YES if rows else NO


def _change(options):
    ids = options.ids
    if options.command != "revoke":
        if bool(ids) == options.all:
            print("claimq: name the letters, or say --all", file=sys.stderr)
            return USAGE
    look = Look(options.file, write=True, timeout=30)
    if options.command != "revoke" and options.all:
        ids = [row["letter_id"] for row in reversed(_chosen(look, options))]
    rows = getattr(look, options.command)(ids)
    if options.json:
        _json(rows)
    else:
        for row in rows:
            print(row["id"], row.get("result", row.get("error")))
    done = [row for row in rows
            if "result" in row and row["result"] != "no_active_lease"]
    return YES if len(done) == len(rows) else NO


# -------------------------------------------------------------------------
# What is printed

def ago(later, earlier):
    """The time between two times, short; "" if one is not known."""
    if later is None or earlier is None:
        return ""
    return span(later - earlier)


def span(ms):
    sign, seconds = ("-" if ms < 0 else ""), abs(ms) / 1000
    if seconds < 10:
        return "%s%.1fs" % (sign, seconds)
    for size, name in ((60, "s"), (60, "m"), (24, "h")):
        if seconds < size * 2 and name != "s" or seconds < size:
            return "%s%d%s" % (sign, seconds, name)
        seconds /= size
    return "%s%dd" % (sign, seconds)


def clean(value):
    """A value on a line of a terminal: what a payload has in it must not move
    the cursor."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return "x'%s'" % value.hex()
    return "".join(c if c.isprintable() else "\N{MIDDLE DOT}"
                   for c in str(value))


def _table(names, rows):
    rows = [[clean(value) for value in row] for row in rows]
    right = [all(cell[:1].isdigit() or cell[:1] in "-" for cell in column)
             for column in zip(*rows)] if rows else [False] * len(names)
    wide = [min(40, max(map(len, column)))
            for column in zip(names, *rows)]
    for row in [names, *rows]:
        cells = [cell if len(cell) <= width else cell[:width - 1] + "\u2026"
                 for cell, width in zip(row, wide)]
        print("  ".join(cell.rjust(width) if side else cell.ljust(width)
                        for cell, width, side in zip(cells, wide, right))
              .rstrip())


def _json(rows):
    json.dump(plain(rows), sys.stdout, indent=1, ensure_ascii=False)
    print()
    return YES
