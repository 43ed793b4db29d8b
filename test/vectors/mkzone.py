"""mkzone.py: writes zone.tsv and zoneinfo/, known answers for ext/core/zone.c
and for what ext/core/cron.c makes of it.

    python3 -m venv scratch
    scratch/bin/pip install tzdata
    scratch/bin/python test/vectors/mkzone.py test/vectors

The answers are those of Python's zoneinfo, which shares nothing with claimq.
It and tzdata, whose version is in the first line of zone.tsv, are needed only
here: the tests read what is written, with the files in zoneinfo/ as TZDIR, so
that they do not depend on what a system knows of the future.  (These files are
of the tz database, which is in the public domain.)  The choice of questions is
by chance from a fixed seed: the same tzdata gives the same file.

A row is a zone, a schedule, a time, and three answers: how many seconds clocks
are ahead of UTC then, the first time after it, and the last time up to it.

How the answers are found: each local minute of a day that the schedule names
is turned into moments.  One that the clocks show once is that moment; one that
they show twice is the first, or both if the hour is `*` or has a step; one
that they do not show is the moment at which they were changed.
"""
import datetime
import importlib.metadata
import importlib.resources
import json
import pathlib
import random
import sys
import zoneinfo

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
SECOND = datetime.timedelta(seconds=1)
MINUTE = datetime.timedelta(minutes=1)
DAY = datetime.timedelta(days=1)

# Half an hour, quarters, no changes any more, many, winter as the exception,
# changes at midnight, a day left out, two hours, a week's fourth Thursday plus
# fifty hours, seconds (until 1972), the day before at 22:00.
ZONES = """
Europe/Berlin America/New_York Australia/Lord_Howe Asia/Kathmandu
America/Sao_Paulo Africa/Casablanca Europe/Dublin Asia/Tehran Pacific/Apia
America/St_Johns Antarctica/Troll UTC Asia/Gaza Africa/Monrovia America/Nuuk
""".split()

# minute, hour, days of the month, months, days of the week (0 is Sunday).
SPECS = """
* * * * *|30 * * * *|0 * * * *|*/15 * * * *|7,52 * * * *
30 2 * * *|0 2 * * *|0 3 * * *|30 1 * * *|0 0 * * *|15 0 * * *|59 23 * * *
0,30 0-4 * * *|15 1-3 * * *|*/20 2 * * *|59 1,2 * * *|45 0,1,23 * * *
30 */2 * * *|0 */3 * * *|10 1-5/2 * * *|30 1/6 * * *|0 0-23 * * *
30 2 * * 0|30 2 * 3,10 *|0 0 30 12 *|15 9 * * 1-5|30 1 29 2 *|30 2 1 * *
0 12 13 * 5|45 23 31 * *|5 0 * 4-9 6|0 0 1 1 *|30 2 */7 * *
""".replace("\n", "|").strip("|").split("|")
FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def values(text, low, high):
    out = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            a, b = low, high
        else:
            a = int(first)
            b = int(last) if last else high if step else a
        out.update(range(a, b + 1, int(step or 1)))
    return out


class Spec:
    def __init__(self, text):
        fields = text.split()
        sets = [values(f, *FIELDS[i]) for i, f in enumerate(fields)]
        self.minutes, self.hours = sorted(sets[0]), sorted(sets[1])
        self.days, self.months, self.weekdays = sets[2:]
        self.either = "*" not in (fields[2], fields[4])
        self.both = "*" in fields[1] or "/" in fields[1]

    def due(self, date):
        if date.month not in self.months:
            return False
        found = (date.day in self.days, date.isoweekday() % 7 in self.weekdays)
        return any(found) if self.either else all(found)


def offset_at(zone, utc):
    return utc.astimezone(zone).utcoffset()


def change_between(zone, low, high):
    """The first second after low at which the offset is that at high."""
    low, high = ((t - EPOCH) // SECOND for t in (low, high))
    want = offset_at(zone, EPOCH + high * SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(zone, EPOCH + middle * SECOND) == want:
            high = middle
        else:
            low = middle
    return EPOCH + high * SECOND


def moments(zone, local, both):
    """When a local minute comes: a list, hardly ever of two."""
    found = []
    for fold in (0, 1):
        utc = local.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if utc.astimezone(zone).replace(tzinfo=None) == local:
            found.append(utc)
        elif fold == 1:
            first = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
            found = found or [change_between(zone, utc, first)]
    return sorted(set(found)) if both else found[:1]


def day_moments(zone, spec, date, known):
    key = (date, id(spec))
    if key not in known:
        start = datetime.datetime(date.year, date.month, date.day)
        known[key] = [
            m for h in spec.hours for n in spec.minutes
            for m in moments(zone, start + (h * 60 + n) * MINUTE, spec.both)
        ] if spec.due(date) else []
    return known[key]


def ask(zone, spec, after, known):
    """The next time and the last one.  Clocks are never changed by more than
    a day: what comes two days later cannot be the nearest."""
    out = []
    for step in (1, -1):
        date = after.astimezone(zone).date() - 2 * step * DAY
        best, left = None, 4000
        while left:
            left -= 1
            for m in day_moments(zone, spec, date, known):
                if (m > after) == (step == 1):
                    best = m if best is None else \
                        min(best, m) if step == 1 else max(best, m)
            if best is not None:
                left = min(left, 3)
            date += step * DAY
        out.append(best)
    return out


def changes(zone):
    """All moments from 1900 to 2100 at which the offset changes."""
    out = []
    at = datetime.datetime(1900, 1, 1, tzinfo=UTC)
    while at.year < 2100:
        later = at + DAY / 2
        if offset_at(zone, at) != offset_at(zone, later):
            out.append(change_between(zone, at, later))
        at = later
    return out


def questions(rng, zone, moments_of_change, n):
    for i in range(n):
        spec = rng.choice(SPECS[:-9] if i % 4 else SPECS)
        if moments_of_change and i % 5:
            # The recent ones, and those to come, more often.
            recent = [m for m in moments_of_change if m.year > 1975]
            after = rng.choice(recent if recent and i % 3
                               else moments_of_change)
            after += rng.randint(-300, 300) * MINUTE
            after += rng.choice((0, 0, 1, -1, 59)) * SECOND
        else:
            after = EPOCH + rng.randint(-70 * 31557600, 130 * 31557600) * SECOND
        yield spec, after


def main(folder):
    zoneinfo.reset_tzpath(())                  # tzdata's, not the system's
    rng = random.Random(20260329)
    out = open(folder / "zone.tsv", "w", encoding="utf-8", newline="\n")
    print("# Made by mkzone.py with Python %d.%d and tzdata %s"
          % (sys.version_info[:2] + (importlib.metadata.version("tzdata"),)),
          file=out)
    print("zone\tspec\tafter_ms\toffset_s\tnext_ms\tlast_ms", file=out)
    parsed = {text: Spec(text) for text in SPECS}
    for name in ZONES:
        source = importlib.resources.files("tzdata") / "zoneinfo" / name
        copy = folder / "zoneinfo" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
        zone = zoneinfo.ZoneInfo(name)
        known = {}
        for text, after in questions(rng, zone, changes(zone), 220):
            found = ask(zone, parsed[text], after, known)
            row = [name, text, (after - EPOCH) // SECOND * 1000,
                   offset_at(zone, after) // SECOND]
            row += [(m - EPOCH) // SECOND * 1000 for m in found]
            print("\t".join(json.dumps(str(v)) for v in row), file=out)
    out.close()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
