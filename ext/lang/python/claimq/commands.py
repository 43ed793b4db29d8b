"""The commands of `claimq`: each takes the options that cli.py has understood,
prints, and returns the exit code."""
import contextlib
import difflib
import json
import sys

from .changes import OPTIONS, Changes, done
from .live import present
from .live import workers as workers_of
from .look import COUNTS, Look, now_ms
from .show import ago, as_json, facts, offset, table

YES, NO, USAGE, TROUBLE = 0, 1, 2, 3
WHOLE = 1 << 20           # characters: nothing is cut
WHY_OPTIONS = ("capabilities", "partition", "boundary", "take", "serial",
               "kind", "source")


def top(options):
    from . import top
    return top.main(options)


def board(options):
    from . import board
    return board.main(options)


def metrics(options):
    from . import metrics
    return metrics.main(options)


def doctor(options):
    from . import doctor
    found = doctor.examine(options.file)
    if options.json:
        as_json(found)
    else:
        for row in found:
            print("%-4s  %s: %s" % (row["state"], row["what"], row["found"]))
            if row["cure"]:
                print("      cure: " + row["cure"].replace("\n", "\n      "))
    return NO if any(row["state"] == "bad" for row in found) else YES


# -------------------------------------------------------------------------
# What only looks

def _look(options):
    return contextlib.closing(Look(options.file))


def _list(rows, options, names, cells, last=40):
    """A table, or JSON; the answer is whether there is anything."""
    if options.json:
        as_json(rows)
    else:
        now = now_ms()
        table(names, [cells(row, now) for row in rows], last)
    return YES if rows else NO


def stats(options):
    with _look(options) as look:
        rows = look.stats(options.discipline, options.scope)
    _list(rows, options, ["discipline", "scope", "partition", *COUNTS,
                          "oldest", "next"],
          lambda row, now: [
              row["discipline"], row["scope"], row["partition"],
              *[row[name] for name in COUNTS],
              ago(now, row["oldest_ready_at_ms"]),
              ago(row["next_at_ms"], now)])
    return YES


def why(options):
    chosen = {name: getattr(options, name) for name in WHY_OPTIONS}
    chosen["capabilities"] = _words(chosen["capabilities"])
    with _look(options) as look:
        rows = look.why(options.discipline, options.scope, **chosen)
        if not rows:
            print("claimq: " + _nothing(look, options.discipline,
                                        options.scope), file=sys.stderr)
    if rows or options.json:
        _list(rows, options, ["reason", "n", "example", "until", "detail"],
              lambda row, now: [row["reason"], row["n"], row["example"],
                                ago(row["until_at_ms"], now), row["detail"]],
              last=WHOLE)
    return YES if any(row["reason"] == "claimable" for row in rows) else NO


def _words(given):
    """gpu,big as JSON."""
    if given is None or given.startswith("["):
        return given
    return json.dumps([word for word in given.split(",") if word])


def _nothing(look, discipline, scope):
    """Why claimq_why has nothing to say of a scope."""
    if look.known(discipline, scope):
        return "%s %s: there is nothing that waits or is held" % (
            discipline, scope)
    near = difflib.get_close_matches(scope, look.names(discipline), 3)
    hint = ": do you mean %s?" % " or ".join(near) if near else ""
    return "there is no %s %s%s" % (discipline, scope, hint)


def check(options):
    with _look(options) as look:
        rows = look.check()
    if options.json or rows:
        _list(rows, options, ["table", "row", "problem"], lambda row, now: [
            row["table_name"], row["row_key"], row["problem"]], last=WHOLE)
    else:
        print("nothing is wrong")
    return NO if rows else YES


def _pages(read, limit, before=None):
    """Rows, page after page; a search may find nothing on some."""
    found = []
    while limit is None or len(found) < limit:
        page = read(before, 500 if limit is None else limit - len(found))
        found += page["rows"]
        before = page["before"]
        if before is None:
            break
    return found


def jobs(options):
    with _look(options) as look:
        rows = _pages(lambda before, limit: look.jobs(
            options.lane, options.state, options.search, before, limit),
            max(1, options.limit), options.before)
    return _list(
        rows, options, ["job", "lane", "state", "age", "until", "attempt",
                        "priority", "owner", "last error", "payload"],
        lambda row, now: [
            row["job_id"], row["lane"], row["kind"],
            ago(now, row["created_at_ms"]),
            ago({"held": row["expires_at_ms"], "delayed":
                 row["available_at_ms"]}.get(row["kind"]), now),
            row["attempt_index"], row["priority"], row["owner"],
            row["last_error"], row["payload"]])


def job(options):
    with _look(options) as look, look.reading():
        found = look.story(options.id)
    if found is None:
        print("claimq: there is no job %d" % options.id, file=sys.stderr)
        return NO
    if options.json:
        as_json(found)
        return YES
    now = now_ms()
    facts(dict(found["job"], state=found["job"]["kind"]), now,
          without=("kind", "said", "place", "head_id", "slot", "awaited",
                   "type", "size"))
    if found["attempts"]:
        print()
        table(["attempt", "owner", "began", "ran", "outcome", "error"],
              [[row["attempt_index"], row["owner"],
                ago(now, row["started_at_ms"]) + " ago",
                ago(now if row["ended_at_ms"] is None else row["ended_at_ms"],
                    row["started_at_ms"]),
                row["outcome"] or "running", row["error"]]
               for row in found["attempts"]], last=WHOLE)
    if found["steps"]:
        print()
        table(["step", "stored", "value"],
              [[row["name"], ago(now, row["at_ms"]) + " ago", row["value"]]
               for row in found["steps"]], last=WHOLE)
    for heading, rows in (("waits for", found["after"]["before"]),
                          ("is waited for by", found["after"]["behind"])):
        if rows:
            print()
            table([heading, "lane", "state"],
                  [[row["job_id"], row["lane"], row["state"]]
                   for row in rows])
    if found["letters"]:
        print()
        table(["letter", "status", "requeued as", "reason"],
              [[row["letter_id"], row["status"], row["requeued_as"],
                row["reason"]] for row in found["letters"]], last=WHOLE)
    return YES


def workers(options):
    with _look(options) as look:
        rows = workers_of(look.held(), look.recent_owners(), now_ms())
    if not options.all:
        rows = present(rows, now_ms())
    return _list(
        rows, options, ["worker", "run", "holds", "expired", "until", "seen",
                        "done", "what"],
        lambda row, now: [
            row["owner"], row["incarnation"], row["live"],
            row["expired"], ago(row["until_ms"], now),
            ago(now, row["seen_ms"]), row["done"],
            ", ".join("%s %s #%s" % (one["discipline"], one["scope"],
                                     one["key"]) for one in row["holds"])])


def schedules(options):
    rows, after = [], None
    with _look(options) as look:
        while True:
            page = look.schedules(after)
            rows += page["rows"]
            after = page["after"]
            if after is None:
                break
    return _list(
        rows, options, ["name", "lane", "spec", "clock", "next", "last",
                        "enabled", "payload"],
        lambda row, now: [
            row["name"], row["lane"], row["spec"],
            row["timezone"] or offset(row["offset_minutes"]),
            ago(row["next_at_ms"], now),
            row["last_at_ms"] and ago(now, row["last_at_ms"]) + " ago",
            "yes" if row["enabled"] else "no", row["payload"]])


def _chosen(look, options, status="open", limit=None, before=None):
    return _pages(lambda before, limit: look.letters(
        status, options.source, options.scope, options.search, before, limit),
        limit, before)


def letters(options):
    with _look(options) as look:
        rows = _chosen(look, options, options.status, max(1, options.limit),
                       options.before)
    return _list(
        rows, options, ["letter", "source", "scope", "ref", "status", "failed",
                        "tries", "class", "reason", "payload"],
        lambda row, now: [
            row["letter_id"], row["source"], row["scope"], row["ref"],
            row["status"], ago(now, row["failed_at_ms"]), row["attempts"],
            row["error_class"], row["reason"], row["payload"]])


# -------------------------------------------------------------------------
# What changes something

def _changes(options):
    return contextlib.closing(Changes(options.file))


def _changed(rows, options, name):
    _list(rows, options, [name, "result"], lambda row, now: [
        row["id"], row.get("result", row.get("error"))], last=WHOLE)
    return YES if done(rows) else NO


def requeue(options):
    if bool(options.ids) == options.all:
        print("claimq: name the letters, or say --all", file=sys.stderr)
        return USAGE
    with _changes(options) as db:
        ids = options.ids or [row["letter_id"] for row
                              in reversed(_chosen(db, options))]
        rows = getattr(db, options.command)(ids)
    return _changed(rows, options, "letter")


discard = requeue


def revoke(options):
    with _changes(options) as db:
        return _changed(db.revoke(options.ids), options, "job")


def cancel(options):
    with _changes(options) as db:
        return _changed(db.cancel(options.ids, options.force), options, "job")


def change(options):
    given = {name: getattr(options, name) for name in OPTIONS}
    given["capabilities"] = _words(given["capabilities"])
    given = {name: value for name, value in given.items()
             if value is not None}
    if not given:
        print("claimq: say what to change: --" + ", --".join(
            name.replace("delay_ms", "delay").replace("_", "-")
            for name in OPTIONS), file=sys.stderr)
        return USAGE
    with _changes(options) as db:
        return _changed(db.change(options.ids, **given), options, "job")


def pause(options):
    with _changes(options) as db:
        return _changed(db.pause(options.lanes), options, "lane")


def resume(options):
    with _changes(options) as db:
        return _changed(db.resume(options.lanes, options.max_active), options,
                        "lane")


def policy(options):
    every = options.lane == "*"
    lane = None if every else options.lane
    if options.given:
        with _changes(options) as db:
            rows = db.set_policy(lane, dict(options.given))
        return _changed([dict(row, id=row["id"] or "*") for row in rows],
                        options, "lane")
    with _look(options) as look:
        rows = look.policies(lane, every)
    if options.json:
        as_json(rows)
    else:
        table(["lane", "option", "value"], [
            ["*" if row["lane"] is None else row["lane"], name, value]
            for row in rows for name, value in row.items()
            if name != "lane" and value is not None
            and (name, value) != ("fair", 0)])
    return YES if rows else NO


def vacuum(options):
    with _changes(options) as db:
        for removed in db.vacuum(options.older_than):
            if sys.stderr.isatty():
                print("\r%d rows" % removed, end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if options.json:
        as_json({"removed": removed})
    else:
        print("%d rows were removed" % removed)
    return YES
