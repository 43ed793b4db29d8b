"""How the command `claimq` prints things: tables with headings, facts, JSON."""
import datetime
import json
import re
import sys

from .look import plain

# A cell that stands at the right: a number or a span of time, or nothing.
_NUMBER = re.compile(r"(-?\d[\d.]*[a-z]*( ago)?)?")


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


def offset(minutes):
    """What local time is called that is this many minutes east of UTC."""
    if not minutes:
        return "UTC"
    return "UTC%s%02d:%02d" % ("-" if minutes < 0 else "+",
                               *divmod(abs(minutes), 60))


def clock(at_ms, now):
    """A time, and how long ago that was or when it will be."""
    try:
        at = datetime.datetime.fromtimestamp(at_ms / 1000)
    except (OSError, OverflowError, ValueError):
        return str(at_ms)
    how = ("%s ago" % span(now - at_ms) if at_ms <= now
           else "in %s" % span(at_ms - now))
    return "%s (%s)" % (at.strftime("%Y-%m-%d %H:%M:%S"), how)


def clean(value):
    """A value on a line of a terminal: what a payload has in it must not move
    the cursor."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return "x'%s'" % value.hex()
    return "".join(c if c.isprintable() else "\N{MIDDLE DOT}"
                   for c in str(value))


def table(names, rows, last=40):
    """Columns of at most 40 characters, the last of at most `last`."""
    rows = [[clean(value) for value in row] for row in rows]
    right = [all(_NUMBER.fullmatch(cell) for cell in column)
             for column in zip(*rows)] if rows else [False] * len(names)
    wide = [min(40, max(map(len, column)))
            for column in zip(names, *rows)]
    wide[-1] = min(last, max(len(row[-1]) for row in [names, *rows]))
    for row in [names, *rows]:
        cells = [cell if len(cell) <= width else cell[:width - 1] + "\u2026"
                 for cell, width in zip(row, wide)]
        print("  ".join(cell.rjust(width) if side else cell.ljust(width)
                        for cell, width, side in zip(cells, wide, right))
              .rstrip())


def facts(row, now, without=()):
    """A line for each column that is not NULL; times are readable."""
    row = {name: value for name, value in row.items()
           if value is not None and name not in without}
    width = max(map(len, row), default=0)
    for name, value in row.items():
        if name.endswith("_at_ms") and isinstance(value, int):
            value = clock(value, now)
        print("%s  %s" % (name.ljust(width), clean(value)))


def as_json(value):
    json.dump(plain(value), sys.stdout, indent=1, ensure_ascii=False)
    print()
