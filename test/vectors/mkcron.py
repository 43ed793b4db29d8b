"""mkcron.py: writes cron.tsv, known answers for ext/core/cron.c.

    python3 -m venv scratch
    scratch/bin/pip install croniter
    scratch/bin/python test/vectors/mkcron.py >test/vectors/cron.tsv

The answers are those of croniter (its version is in the first line of the
file), an implementation that shares nothing with claimq.  It is needed only
here: the tests read the file.  The choice of questions is by chance from a
fixed seed, so that the same croniter writes the same file.

A row is a schedule, an offset in minutes, a time, and two answers: the first
time after it, and the last time up to it; null where croniter finds none
within 50 years.

Left out, because claimq has decided in another way:

  * a range from a value to itself (5-5), and the field's largest value with a
    step (59/2 in minutes, which is 59-59/2): croniter takes them for all
    values of the field;
  * a range that wraps around and has a step (22-3/2): croniter goes on one
    value late after the wrap, so that 22-3/3 is 22 and 2 instead of 22 and 1.
    (A range of days that ends with 7 does not wrap.);
  * one day field that names all its values without being `*`, beside one with
    an asterisk and a step (`1-31` and `*/2`): croniter takes the first for `*`
    there, but nowhere else;
  * a day of month that none of its months has, beside a day of week: the days
    of the week are due, but croniter finds no answer;
  * what claimq does not know: seconds, years, L, W, #, ?, H, R.
"""
import datetime
import json
import random
import sys
from importlib.metadata import version

from croniter import croniter
from croniter.croniter import CroniterBadDateError

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
MS = datetime.timedelta(milliseconds=1)
FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
DAYS = "SUN MON TUE WED THU FRI SAT".split()
NAMES = {3: dict(enumerate(MONTHS, 1)), 4: dict(enumerate(DAYS))}

# Schedules that matter, each asked at all of TIMES.
SPECS = """
* * * * *
0 0 * * *
*/7 * * * *
*/7 */7 */7 */7 */7
59 23 31 12 *
0 0 1 1 *
0 0 29 2 *
30 12 29 2 *
59 23 28 2 *
0 0 29,30,31 * *
0 0 31 * *
0 0 30 * *
0 0 31 4,6,9,11 *
0 0 30 2 *
0 0 31 2 *
0 0 30,31 2 *
0 0 31 2,4 *
0 0 30 2,4 *
59 23 30 4 *
0 12 28-3 * *
0 22-3 * * *
50-10 * * * *
0 0 * NOV-FEB *
0 0 * * FRI-MON
0 0 * * SAT-SUN
0 0 * * 6-7
0 0 * * 7
0 0 * * 0
0 0 * * 0-7
0 0 * * 5-7
0 0 * * 1-7/2
0 0 13 * FRI
0 0 13 * *
0 0 * * FRI
0 0 29 2 MON
0 0 */2 * MON
0 0 1 * */3
0 0 */10 * */3
0 0 1-31 * 1
0 0 1 * 0-6
0 0 *,13 * 5
0 0 13 * *,5
0 0 1,15 * 3
15,45 9-17 * * mon-fri
5/15 * * * *
0 5/6 * * *
0 0 10/7 * *
0 0 * 2/5 *
0 0 * * 2/2
3-57/9 1-23/5 2-30/4 1-12/3 *
00 08 01 01 *
0 0 1 jan,Mar,DEC *
0 0 * feb sun
@hourly
@daily
@midnight
@weekly
@monthly
@yearly
@annually
""".strip().splitlines()

# Local times that matter.
TIMES = """
1899-12-31T23:59 1900-02-28T23:59 1900-03-01T00:00 1969-12-31T23:59
1970-01-01T00:00 1972-02-29T00:00 1999-12-31T23:59 2000-02-28T23:59
2000-02-29T00:00 2000-02-29T23:59 2000-03-01T00:00 2000-12-31T00:00
2023-01-31T00:00 2023-02-28T23:59 2023-04-30T23:59 2024-02-29T12:30
2024-12-31T23:59 2026-02-13T00:00 2026-03-13T00:00 2095-12-31T23:59
2096-02-29T12:00 2099-12-31T23:59 2100-02-28T23:59 2100-03-01T00:00
2103-12-31T23:59
""".split()
OFFSETS = (0, 60, -60, 330, 345, -210, 840, -720, 1439, -1439, 1, -1)


def element(rng, field):
    """One element of a list: its text."""
    low, high = FIELDS[field]
    a, b = rng.randint(low, high), rng.randint(low, high)
    names = NAMES.get(field, {})

    def word(v):
        if field == 4 and v == 0 and rng.random() < 0.3:
            return "7"
        if v in names and rng.random() < 0.5:
            return rng.choice((str.upper, str.lower, str.title))(names[v])
        return rng.choice(("%d", "%d", "%02d")) % v

    kind = rng.randrange(8)
    if kind < 3:
        return word(a)
    if kind == 3:
        return "*/%d" % rng.randint(1, high + 5)
    if kind == 4 and a < high:
        return "%d/%d" % (a, rng.randint(1, high + 5))
    if a == b:
        return word(a)
    if kind == 5 and a < b:
        return "%d-%d/%d" % (a, b, rng.randint(1, high + 5))
    if kind == 6 and field == 4 and a > 0:
        return "%d-7/%d" % (a, rng.randint(1, 8))
    # Sunday as 7 would be the same day twice in 0-7.
    return "%s-%s" % (word(a), word(b) if a > 0 else "%d" % b)


def spec_by_chance(rng):
    """Five fields, of which some are `*`."""
    out = []
    for field in range(5):
        if rng.random() < (0.35, 0.35, 0.4, 0.6, 0.5)[field]:
            out.append("*")
        else:
            n = rng.choice((1, 1, 1, 2, 3))
            out.append(",".join(element(rng, field) for i in range(n)))
    return rng.choice((" ", " ", " ", "  ", "\t")).join(out)


def left_out(spec):
    """True for the third and the fourth of the differences above."""
    if spec.startswith("@"):
        return False
    fields = spec.split()[2], spec.split()[4]
    if any("*" in f.split(",") for f in fields):
        return False
    days, months, week = croniter.expand(spec)[0][2:5]
    full = (days == ["*"] or len(days) == 31, week == ["*"] or len(week) == 7)
    if any(full) and any("*" in f for f in fields):
        return True
    if days == ["*"]:
        return False
    most = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
    all_months = range(1, 13) if months == ["*"] else months
    return all(min(days) > most.get(m, 31) for m in all_months)


def to_ms(t):
    return None if t is None else (t - EPOCH) // MS


def ask(spec, offset, after):
    """The two answers for a time in ms."""
    zone = datetime.timezone(datetime.timedelta(minutes=offset))
    start = (EPOCH + after * MS).astimezone(zone)

    def answer(method, when):
        it = croniter(spec, when, ret_type=datetime.datetime)
        try:
            return getattr(it, method)()
        except CroniterBadDateError:
            return None

    # get_prev() is strict: half a millisecond makes "before" an "up to".
    return (to_ms(answer("get_next", start)),
            to_ms(answer("get_prev", start + MS / 2)))


def questions(rng):
    for spec in SPECS:
        for i, text in enumerate(TIMES):
            local = datetime.datetime.fromisoformat(text).replace(tzinfo=UTC)
            offset = rng.choice(OFFSETS)
            after = to_ms(local) - offset * 60000
            yield spec, offset, after + (0, -1, 1, 59999, 0)[i % 5]
    while True:
        spec = spec_by_chance(rng)
        for i in range(3):
            after = rng.randint(-70 * 31557600000, 230 * 31557600000)
            yield spec, rng.choice((0, rng.choice(OFFSETS))), after


def main():
    rng = random.Random(20240229)
    print("# Made by mkcron.py with croniter %s" % version("croniter"))
    print("spec\toffset_minutes\tafter_ms\tnext_ms\tlast_ms")
    n = 0
    for spec, offset, after in questions(rng):
        if n == 6000:
            break
        if left_out(spec):
            continue
        n += 1
        row = [spec] + [None if v is None else str(v)
                        for v in (offset, after) + ask(spec, offset, after)]
        print("\t".join(json.dumps(v) for v in row))


if __name__ == "__main__":
    sys.exit(main())
