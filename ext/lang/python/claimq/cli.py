"""The command `claimq`: what is in the queues of a file, and why.

    claimq top app.db                       live, in the terminal
    claimq board app.db                     live, in a browser
    claimq stats app.db                     a line for each scope and partition
    claimq why app.db lane mail             why a claim takes what it takes
    claimq jobs app.db --lane mail          jobs, the newest first
    claimq job app.db 17                    one of them, and what happened to it
    claimq workers app.db                   who holds what
    claimq schedules app.db
    claimq letters app.db --search timeout  dead letters
    claimq check app.db                     what is wrong with the file
    claimq doctor app.db                    and with where and how it is used
    claimq metrics app.db --listen :9840    for Prometheus; without: once

    claimq requeue app.db 17 18             put dead letters back
    claimq discard app.db --scope mail --all
    claimq cancel app.db 4711               end a job that nobody holds
    claimq change app.db 4711 --priority 9  while it waits
    claimq revoke app.db 4711               take a job from its holder
    claimq pause app.db mail                nothing is claimed from this lane
    claimq resume app.db mail               until then
    claimq policy app.db mail lease_ms=60000      what holds for a lane
    claimq vacuum app.db --older-than 7d    remove what has ended

Only the commands of the second part and `board --write` open the file for
writing.

The exit code says how it went, for scripts:

    0   done, or yes: something is claimable, the file is sound, there are
        letters, jobs, workers, schedules
    1   no: nothing is claimable, something is wrong with the file, there are no
        such rows, something could not be changed (the others were)
    2   the command was not understood
    3   the file cannot be read: it does not exist, is no database, has no
        tables of claimq, or is locked
"""
import argparse
import os
import re
import sqlite3
import sys

from . import __version__, commands
from .commands import NO, TROUBLE, YES
from .look import DISCIPLINES, Trouble, number_of

STATES = ("open", "ended", "all", "ready", "delayed", "held", "expired",
          "blocked", "completed", "failed", "cancelled")


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
    each = parser.add_subparsers(dest="command", metavar="COMMAND",
                                 required=True)

    def command(name, text, with_json=True, run=None):
        one = each.add_parser(name, help=text, description=text)
        one.add_argument("file", metavar="FILE", help="a SQLite database")
        if with_json:
            one.add_argument("--json", action="store_true",
                             help="print JSON")
        one.set_defaults(run=run or getattr(commands, name))
        return one

    _live(command)
    _looks(command)
    _letters(command)
    _changes(command)
    return parser


def _live(command):
    one = command("top", "show the queues live, in the terminal", False)
    one.add_argument("--once", action="store_true",
                     help="print it once, without a terminal, and end")
    one.add_argument("--sort", default="ready", help="the column to sort by")
    one.add_argument("--filter", default="", metavar="TEXT",
                     help="only scopes and workers whose name has it")

    one = command("board", "show the queues live, in a browser", False)
    one.add_argument("--port", type=int, default=8437,
                     help="0: any that is free (default: %(default)s)")
    one.add_argument("--listen", default="127.0.0.1", metavar="ADDRESS",
                     help="another address than that of this machine itself:"
                     " whoever can reach it needs the token")
    one.add_argument("--allow-host", action="append", default=[],
                     metavar="NAME", help="a name that browsers may call this"
                     " board by, such as that of a proxy (NAME or NAME:PORT)")
    one.add_argument("--write", action="store_true",
                     help="allow requeue, discard, revoke, cancel, pause and"
                     " resume")


def _looks(command):
    one = command("metrics", "print what is in the queues as OpenMetrics",
                  False)
    one.add_argument("--listen", type=_address, metavar="ADDRESS",
                     help="serve it at http://ADDRESS/metrics, such as"
                     " 127.0.0.1:9840, :9840 or 0.0.0.0, and count what is"
                     " completed, failed, retried and reclaimed from now on")

    one = command("stats", "count what is in each scope and partition")
    one.add_argument("--discipline", choices=DISCIPLINES)
    one.add_argument("--scope")

    one = command("why", "say why a claim takes what it takes")
    one.add_argument("discipline", choices=DISCIPLINES)
    one.add_argument("scope")
    for name in commands.WHY_OPTIONS:
        one.add_argument("--" + name, help="the %s of the claim" % name)

    one = command("jobs", "list jobs, the newest first")
    one.add_argument("--lane")
    one.add_argument("--state", default="open", choices=STATES,
                     help="open: has not ended (default: %(default)s)")
    one.add_argument("--search", metavar="TEXT", help="in lane, last error or"
                     " the beginning of the payload, in any case")
    _page(one)

    one = command("job", "show a job, and what happened to it")
    one.add_argument("id", type=_number, metavar="JOB")

    one = command("workers", "list who holds something or was seen in the last"
                  " minute")
    one.add_argument("--all", action="store_true", help="and all others who"
                     " ended one of the last 500 jobs")
    command("schedules", "list schedules, by name")
    command("check", "say what is wrong with the file: SQLite's"
            " integrity_check, and claimq_check")
    command("doctor", "say what is wrong with where and how the file is used,"
            " and what to do about it")


def _letters(command):
    def which(one):
        one.add_argument("--source", choices=("lane", "session", "outbox"))
        one.add_argument("--scope", help="lane, session, or QUEUE/PARTITION")
        one.add_argument("--search", metavar="TEXT",
                         help="in reason, error class, scope, reference or the"
                         " first 64 kB of the payload, in any case")

    one = command("letters", "list dead letters, the newest first")
    which(one)
    one.add_argument("--status", default="open",
                     choices=("open", "resolved", "discarded", "all"))
    _page(one)
    for name, text in (("requeue", "put dead letters back where they came"
                        " from"),
                       ("discard", "give dead letters up")):
        one = command(name, text)
        one.add_argument("ids", nargs="*", type=_number, metavar="LETTER")
        which(one)
        one.add_argument("--all", action="store_true",
                         help="all open letters that --source, --scope and"
                         " --search choose")


def _changes(command):
    one = command("cancel", "end jobs that nobody holds: they are not run")
    _ids(one)
    one.add_argument("--force", action="store_true",
                     help="and those that are held: who does is too late")

    one = command("change", "change jobs that wait")
    _ids(one)
    one.add_argument("--lane")
    one.add_argument("--priority", type=_number, metavar="N")
    one.add_argument("--payload", metavar="TEXT")
    one.add_argument("--delay", type=_time, dest="delay_ms", metavar="TIME",
                     help="from now, such as 90s, 5m, 2h, 1d; 0: now")
    one.add_argument("--capabilities", metavar="LIST", help="gpu,big or JSON")
    one.add_argument("--partition", type=_number, metavar="N")
    one.add_argument("--group", metavar="KEY")
    one.add_argument("--max-attempts", type=_number, metavar="N")
    one.add_argument("--max-reclaims", type=_number, metavar="N")

    one = command("revoke", "take jobs from their holders: the next claim is"
                  " a new attempt")
    _ids(one)

    one = command("pause", "let nothing be claimed from lanes; what is held is"
                  " finished")
    one.add_argument("lanes", nargs="+", metavar="LANE")
    one = command("resume", "let paused lanes go on")
    one.add_argument("lanes", nargs="+", metavar="LANE")
    one.add_argument("--max-active", type=_number, metavar="N",
                     help="the limit that the lane had before")

    one = command("policy", "show what was said by claimq_policy(), or say it")
    one.add_argument("lane", nargs="?", metavar="LANE",
                     help="of this lane; '*': of every lane that says nothing"
                     " else")
    one.add_argument("given", nargs="*", type=_option, metavar="NAME=VALUE",
                     help="an option of claimq_policy(), such as max_active=5;"
                     " without a value it is not said any more")

    one = command("vacuum", "remove what has ended and need not be kept any"
                  " longer: jobs, events, messages, letters")
    one.add_argument("--older-than", type=_time, metavar="TIME",
                     help="all that ended at least this long ago, such as 12h"
                     " or 7d, whatever the policies say")


def _ids(one):
    one.add_argument("ids", nargs="+", type=_number, metavar="JOB")


def _page(one):
    one.add_argument("--limit", type=_number, default=50, metavar="N")
    one.add_argument("--before", type=_number, metavar="ID",
                     help="only those with a smaller id")


def _number(text):
    try:
        return number_of(text)
    except ValueError:
        raise argparse.ArgumentTypeError("%.40s is no number of 64 bits"
                                         % text) from None


def _option(text):
    """(name, value), as claimq_policy() takes them."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError("%.40s is not NAME=VALUE" % text)
    if re.fullmatch(r"-?\d+", value):
        return name, _number(value)
    return name, value or None


def _address(text):
    from .metrics import address
    try:
        return address(text)
    except ValueError:
        raise argparse.ArgumentTypeError("%.80s is no address: HOST:PORT, HOST"
                                         " or :PORT" % text) from None


def _time(text):
    """Milliseconds."""
    found = re.fullmatch(r"(\d{1,12})(ms|s|m|h|d)|0", text)
    if not found:
        raise argparse.ArgumentTypeError(
            "%.40s is no time: 500ms, 90s, 5m, 2h, 7d" % text)
    return int(found[1] or 0) * {
        "ms": 1, "s": 1000, "m": 60000, "h": 3600000, "d": 86400000,
        None: 1}[found[2]]
