"""claimq top: the queues of a file, live in the terminal.

It is drawn when something has been committed, when a row falls due and when a
lease ends (live.py), and once a second for the sake of the ages, which are
computed from the picture that is there: the database is not asked for that.

The loop sleeps until a key is pressed, the picture changes or the terminal gets
another size; all three arrive as bytes that select() waits for.
"""
import contextlib
import os
import select
import shutil
import signal
import sqlite3
import sys
import threading

from .live import Live, depth, present
from .look import Look, Trouble, now_ms
from .show import ago, clean, span

COLUMNS = ("discipline", "scope", "ready", "held", "delayed", "expired",
           "blocked", "limited", "dead", "oldest", "rate")
WIDTHS = (11, 0, 9, 7, 9, 8, 8, 8, 7, 8, 8)
HELP = """\
  up, down, j, k     move                 s    sort by the next column
  page up, down      by a page            r    reverse the order
  enter              why, for this scope  /    filter; enter ends, esc clears
  tab                scopes or workers    q    quit, or leave this page"""


def main(options):
    if options.sort not in COLUMNS:
        raise Trouble("sort by one of " + ", ".join(COLUMNS))
    if options.once:
        return _once(options)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Trouble("top needs a terminal; --once prints a table")
    try:
        import curses
    except ImportError:
        raise Trouble("this Python has no curses; --once prints a table")
    live = Live(options.file)
    live.watching(1)
    live.start()
    try:
        os.environ.setdefault("ESCDELAY", "25")
        curses.wrapper(lambda screen: _Top(screen, live, options).run())
    finally:
        live.stop()
    return 0


def _once(options):
    live = Live(options.file)
    live.watching(1)
    live.start()
    try:
        number = 0
        while live.picture is None or live.picture["approx"]:
            if live.trouble:
                raise Trouble(live.trouble)
            number = live.changed(number, 1)
        view = View(options)
        for line, _ in view.lines(live.picture, 120, 10000):
            print(line.rstrip())
    finally:
        live.stop()
    return 0


class View:
    """What is to be seen of a picture: lines of text, and what they are."""

    def __init__(self, options):
        self.sort = COLUMNS.index(options.sort)
        self.reverse = COLUMNS[self.sort] not in ("discipline", "scope")
        self.filter = options.filter
        self.what = "scopes"              # or workers
        self.at = 0                       # the line that is chosen
        self.top = 0                      # the first that is shown
        self.rows = []

    def lines(self, picture, width, height):
        """[(text, kind)]; kind: title, head, row, chosen, note."""
        now = now_ms()
        chosen = (self._scopes if self.what == "scopes" else self._workers)
        head, cells = chosen(picture, width, now)
        self.at = max(0, min(self.at, len(self.rows) - 1))
        room = max(1, height - 3)
        self.top = max(0, min(self.top, len(self.rows) - room))
        if self.at < self.top:
            self.top = self.at
        elif self.at >= self.top + room:
            self.top = self.at - room + 1
        yield self._title(picture, now), "title"
        yield head, "head"
        for n in range(self.top, min(len(cells), self.top + room)):
            yield cells[n], "chosen" if n == self.at else "row"
        if not cells:
            yield ("  nothing matches %s" % clean(self.filter) if self.filter
                   else "  there is nothing"), "note"

    def _title(self, picture, now):
        lanes = sum(row["rate"] or 0 for row in picture["scopes"])
        total = picture["totals"]
        age = now - picture["at_ms"]
        parts = ["%d ready" % total["ready"], "%d held" % total["held"],
                 "%d dead" % total["dead"], "%.1f/s" % lanes,
                 _crew(present(picture["workers"], now))]
        if picture["approx"]:
            parts.append("counting")
        elif picture["took_ms"] > 500:
            parts.append("counted %s ago" % span(max(0, age)))
        if self.filter:
            parts.append("filter: " + clean(self.filter))
        return "claimq  " + "  ".join(parts)

    def _scopes(self, picture, width, now):
        def key(row):
            name = COLUMNS[self.sort]
            if name == "oldest":
                at = row["oldest_ready_at_ms"]
                value = 0 if at is None else now - at
            elif name == "rate":
                value = row["rate"] or 0
            else:
                value = row[name]
            return value, depth(row)

        text = self.filter.casefold()
        self.rows = sorted(
            (row for row in picture["scopes"]
             if text in row["scope"].casefold() or text in row["discipline"]),
            key=lambda row: (row["discipline"], row["scope"]))
        self.rows.sort(key=key, reverse=self.reverse)
        rest = max(12, width - sum(WIDTHS) - len(WIDTHS))
        wide = [each or rest for each in WIDTHS]

        def line(cells):
            return " ".join(
                _fit(cell, size, n > 1)
                for n, (cell, size) in enumerate(zip(cells, wide)))

        head = line([name + ("\u2193" if self.reverse else "\u2191")
                     if n == self.sort else name
                     for n, name in enumerate(COLUMNS)])
        more = "+" if picture["approx"] else ""
        return head, [line([
            row["discipline"], clean(row["scope"]),
            *["%d%s" % (row[name], more if row[name] else "")
              for name in COLUMNS[2:9]],
            ago(now, row["oldest_ready_at_ms"]),
            "" if row["rate"] is None else "%.1f/s" % row["rate"]])
            for row in self.rows]

    def _workers(self, picture, width, now):
        text = self.filter.casefold()
        self.rows = [row for row in present(picture["workers"], now)
                     if text in str(row["owner"]).casefold()]
        form = "%-30s %5s %7s %9s %9s  %s"
        head = form % ("worker", "holds", "expired", "until", "seen", "what")
        cells = []
        for row in self.rows:
            name = clean(row["owner"])
            if row["incarnation"]:
                name += " (%s)" % clean(row["incarnation"])
            cells.append(form % (
                _fit(name, 30), row["live"], row["expired"] or "",
                ago(row["until_ms"], now), ago(now, row["seen_ms"]),
                ", ".join("%s %s #%s" % (each["discipline"],
                                         clean(each["scope"]), each["key"])
                          for each in row["holds"])))
        return head, cells


def _crew(workers):
    """How many there are, and how that is known."""
    holding = sum(1 for row in workers if row["live"])
    expired = sum(1 for row in workers if row["expired"] and not row["live"])
    seen = len(workers) - holding - expired
    parts = ["%d hold" % holding if holding else "",
             "%d expired" % expired if expired else "",
             "%d seen in the last minute" % seen if seen else ""]
    parts = ", ".join(filter(None, parts))
    return "%d workers%s" % (len(workers), " (%s)" % parts if parts else "")


def _fit(text, width, right=False):
    if len(text) > width:
        text = text[:width - 1] + "\u2026"
    return text.rjust(width) if right else text.ljust(width)


class _Top:
    """The terminal: keys, and drawing."""

    def __init__(self, screen, live, options):
        import curses
        self.curses = curses
        self.screen, self.live = screen, live
        self.view = View(options)
        self.picture = live.picture       # the one that is shown
        self.page = None                  # lines of another page, or None
        self.typing = self.ended = False
        self.gone = None                  # why the file cannot be shown
        screen.keypad(True)
        screen.nodelay(True)
        with _quietly(curses.error):
            curses.curs_set(0)
            curses.use_default_colors()

    def run(self):
        read, write = os.pipe()
        os.set_blocking(write, False)

        def tell():
            number = 0
            while not self.ended:
                number = self.live.changed(number, 10)
                with _quietly(OSError):   # full: it will be read, or closed
                    os.write(write, b"c")

        signal.signal(signal.SIGWINCH, lambda *_: None)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        threading.Thread(target=tell, daemon=True).start()
        try:
            self.draw()
            while self.keys():
                ready = select.select([0, read], [], [], 1)[0]
                news = os.read(read, 4096) if read in ready else b""
                self.follow()
                if b"c" in news:
                    self.picture = self.live.picture
                if bytes([signal.SIGWINCH]) in news:
                    size = shutil.get_terminal_size()
                    self.curses.resizeterm(size.lines, size.columns)
                    self.screen.clearok(True)
                self.draw()
        finally:
            signal.set_wakeup_fd(-1)
            self.ended = True
            self.live.stop()

    def follow(self):
        """Another file may have been put in place of the one that is shown."""
        self.gone = None
        if self.live.current():
            return
        try:
            self.live = self.live.successor()
            self.live.watching(1)
            self.page = self.picture = None
        except Trouble as error:
            self.gone = str(error)

    def draw(self):
        height, width = self.screen.getmaxyx()
        bold, reverse = self.curses.A_BOLD, self.curses.A_REVERSE
        style = {"title": bold, "head": reverse, "chosen": bold,
                 "row": 0, "note": 0}
        picture = self.picture
        if self.page is not None:
            lines = [(line, "title" if n == 0 else "row")
                     for n, line in enumerate(self.page)]
        elif picture is None:
            lines = [("claimq  " + (self.live.trouble or "looking"), "title")]
        else:
            lines = list(self.view.lines(picture, width - 2, height))
        self.screen.erase()
        for y, (text, kind) in enumerate(lines[:height - 1]):
            mark = "> " if kind == "chosen" else "  "
            self._put(y, mark + text if kind in ("row", "chosen", "head")
                      else text, width, style[kind])
        bottom = ("filter: %s_" % clean(self.view.filter) if self.typing else
                  self.gone or self.live.trouble
                  or "q quit  s sort  r reverse  / filter  enter why"
                     "  tab workers  ? help")
        self._put(height - 1, bottom, width, self.curses.A_DIM)
        self.screen.refresh()

    def _put(self, y, text, width, style):
        with _quietly(self.curses.error):
            self.screen.addnstr(y, 0, text.ljust(width - 1), width - 1, style)

    def keys(self):
        """What was pressed; False: end."""
        while True:
            try:
                key = self.screen.get_wch()
            except self.curses.error:
                return True
            if self.typing:
                self._type(key)
            elif not self._press(key):
                return False

    def _type(self, key):
        if key in ("\n", "\r", self.curses.KEY_ENTER):
            self.typing = False
        elif key == "\x1b":
            self.typing, self.view.filter = False, ""
        elif key in ("\x7f", "\b", self.curses.KEY_BACKSPACE):
            self.view.filter = self.view.filter[:-1]
        elif isinstance(key, str) and key.isprintable():
            self.view.filter += key

    def _press(self, key):
        curses, view = self.curses, self.view
        page = max(1, self.screen.getmaxyx()[0] - 4)
        steps = {curses.KEY_UP: -1, "k": -1, curses.KEY_DOWN: 1, "j": 1,
                 curses.KEY_PPAGE: -page, curses.KEY_NPAGE: page}
        if key in ("q", "\x1b"):
            if self.page is None:
                return key != "q"
            self.page = None
        elif key == "\x0c":                # control-L: draw all of it
            self.screen.clearok(True)
        elif key == "?":
            self.page = ["claimq top", "", *HELP.split("\n")]
        elif key in ("\n", "\r", curses.KEY_ENTER):
            if self.page is not None:
                self.page = None
            elif view.what == "scopes" and view.rows:
                try:
                    self._why(view.rows[view.at])
                except (Trouble, sqlite3.Error) as error:
                    self.page = ["claimq top", "", clean(error)]
        elif key == "\t":
            view.what = "workers" if view.what == "scopes" else "scopes"
            view.at = view.top = 0
        elif key == "s":
            view.sort = (view.sort + 1) % len(COLUMNS)
            view.reverse = COLUMNS[view.sort] not in ("discipline", "scope")
        elif key == "r":
            view.reverse = not view.reverse
        elif key == "/":
            self.typing = True
        elif key in steps:
            view.at = max(0, view.at + steps[key])
        return True

    def _why(self, row):
        """claimq_why of a scope, as it is now."""
        now = now_ms()
        discipline, scope = row["discipline"], row["scope"]
        page = ["%s %s: why a claim takes what it takes"
                % (discipline, clean(scope)), ""]
        with contextlib.closing(Look(self.live.path)) as look:
            rows = look.why_here(discipline, scope)
        for each in rows:
            page.append("%-17s %8d  %-12s %-10s %s" % (
                each["reason"], each["n"], clean(each["example"]),
                ago(each["until_at_ms"], now), clean(each["detail"])))
        if not rows:
            page.append("there is nothing")
        self.page = page


class _quietly:
    def __init__(self, *errors):
        self.errors = errors

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        return kind is not None and issubclass(kind, self.errors)
