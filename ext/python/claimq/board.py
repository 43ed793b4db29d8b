"""claimq board: the queues of a file, live in a browser.

    claimq board app.db
    http://127.0.0.1:8437/?token=...

A small HTTP server of the standard library.  It serves one page with its style
sheet and script, all of which are files of this package; the answers of
/api/..., which are JSON; and /api/live, server-sent events that say that
something has changed, whereupon the page asks again for what it shows.

Who gets in: whoever has the token that is printed at the start.  The first
request brings it and gets a cookie, which is sent by this browser alone, only
from our own pages (SameSite=Strict), and is out of reach of scripts (HttpOnly).
A page elsewhere that has somebody's browser send us something, or that makes a
name of its own point to this address, is refused: Host must be one of our
names, Origin one of our origins, and what changes something must be a POST of
JSON with an Origin.  The content policy lets the page run nothing but its own
script, which makes elements and texts and no HTML.

The database is opened read-only unless --write is given.  A request reads what
it needs in one short transaction, and none is open between two requests.
"""
import contextlib
import hmac
import http.server
import json
import os
import queue
import secrets
import socket
import sqlite3
import sys
import threading
import urllib.parse

import claimq

from . import __version__
from .live import Live, depth, series
from .look import DISCIPLINES, PAGE, Look, Trouble, now_ms, plain

_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "static")
_STATIC = {"/style.css": "text/css", "/page.js": "text/javascript",
           "/icon.svg": "image/svg+xml"}
_POLICY = ("default-src 'none'; script-src 'self'; style-src 'self';"
           " img-src 'self'; connect-src 'self'; base-uri 'none';"
           " form-action 'none'; frame-ancestors 'none';"
           " require-trusted-types-for 'script'; trusted-types 'none'")
_HEADERS = (("Content-Security-Policy", _POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"))
_PAGES = ("/", "/scope", "/job", "/batch", "/message", "/letters", "/letter",
          "/workers", "/schedules")
_BODY = 64 * 1024         # bytes of a POST
_MANY = 500               # letters of one POST
_STREAMS = 32             # pages that are open at a time


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Pool:
    """Connections that nobody uses at the moment."""

    def __init__(self, path, write):
        self.path, self.write = path, write
        self._free = queue.LifoQueue()

    @contextlib.contextmanager
    def look(self):
        try:
            look = self._free.get_nowait()
        except queue.Empty:
            look = Look(self.path, self.write)
        try:
            yield look
        except BaseException:
            look.close()
            raise
        if self._free.qsize() < 4:
            self._free.put(look)
        else:
            look.close()

    def close(self):
        with contextlib.suppress(queue.Empty):
            while True:
                self._free.get_nowait().close()


class Board(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, file, address="127.0.0.1", port=0, write=False,
                 hosts=()):
        self.file, self.write = file, write
        if ":" in address:
            self.address_family = socket.AF_INET6
        super().__init__((address, port), Handler)
        port = self.server_address[1]
        names = {address} if address not in ("0.0.0.0", "::") else set()
        if address in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::"):
            names |= {"127.0.0.1", "localhost", "::1"}
        names |= set(hosts)
        self.hosts = set()
        for name in names:
            if name.count(":") > 1 and not name.startswith("["):
                name = "[%s]" % name
            self.hosts.add(name.lower() if name.rpartition("]")[2].count(":")
                           else "%s:%d" % (name.lower(), port))
        shown = "[%s]" % address if ":" in address else address
        self.url = "http://%s:%d/" % (shown, port)
        self.token = secrets.token_urlsafe(24)
        self.cookie = secrets.token_urlsafe(24)
        self.cookie_name = "claimq_board_%d" % port
        self.live = Live(file)
        self.pool = Pool(file, write)
        self.streams = threading.BoundedSemaphore(_STREAMS)
        self._why = {}
        try:
            self.live.start()
        except BaseException:
            self.server_close()
            raise

    def close(self):
        self.live.stop()
        self.server_close()
        self.pool.close()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    # ---------------------------------------------------------------------
    # The answers.  Each takes the parameters of the request.

    def picture(self):
        number = 0
        while self.live.picture is None and not self.live.stopped:
            if self.live.trouble:
                raise Refused(503, self.live.trouble)
            number = self.live.changed(number, 1)
        return self.live.picture

    def about(self):
        """What every answer brings along."""
        picture = self.picture()
        return {"now_ms": now_ms(), "number": self.live.number,
                "trouble": self.live.trouble,
                "counted": {name: picture[name]
                            for name in ("at_ms", "took_ms", "approx")},
                "dead": picture["totals"]["dead"]}

    def get_start(self, given):
        """What does not change while the board runs."""
        with self.pool.look() as look:
            return {"file": os.path.basename(self.file), "write": self.write,
                    "version": __version__,
                    "schedules": bool(look.columns("claimq_schedule"))}

    def get_overview(self, given):
        """Scopes of the last count, sorted, filtered, cut to a page."""
        picture = self.picture()
        text = given.get("filter", "").casefold()
        sort = given.get("sort", "depth")
        first = int(given.get("first", 0))
        rows = [row for row in picture["scopes"]
                if row["discipline"] != "dead_letter"
                and (text in row["scope"].casefold()
                     or text in row["discipline"])]
        now = now_ms()
        keys = {"depth": depth,
                "scope": lambda row: row["scope"],
                "discipline": lambda row: row["discipline"],
                "oldest": lambda row: now - (row["oldest_ready_at_ms"] or now),
                "rate": lambda row: row["rate"] or 0}
        rows.sort(key=lambda row: (row["scope"], row["discipline"]))
        rows.sort(key=keys.get(sort, lambda row: row.get(sort) or 0),
                  reverse=given.get("down", "1") == "1")
        found = []
        for row in rows[first:first + PAGE]:
            row = dict(row, depth=depth(row))
            row["series"] = series(picture, row["discipline"],
                                   row["scope"])["depth"]
            found.append(row)
        return {"scopes": found, "matching": len(rows),
                "all_scopes": picture["all_scopes"],
                "totals": picture["totals"],
                "rate": sum(row["rate"] or 0 for row in picture["scopes"]),
                "series": series(picture),
                "workers": _short_workers(picture["workers"][:8]),
                "all_workers": len(picture["workers"])}

    def get_workers(self, given):
        picture = self.picture()
        text = given.get("filter", "").casefold()
        first = int(given.get("first", 0))
        rows = [row for row in picture["workers"]
                if text in str(row["owner_id"]).casefold()
                or text in row["incarnation_id"].casefold()]
        return {"workers": rows[first:first + PAGE], "matching": len(rows)}

    def get_scope(self, given):
        discipline, scope = _scope_of(given)
        picture = self.picture()
        counts = [row for row in picture["scopes"]
                  if row["discipline"] == discipline and row["scope"] == scope]
        held = [row for row in picture["held"]
                if row["discipline"] == discipline and row["scope"] == scope]
        with self.pool.look() as look, look.reading():
            # All but lanes are counted as they are now: that is cheap.
            if discipline != "lane":
                rate = counts[0]["rate"] if counts else None
                counts = [dict(row, rate=rate)
                          for row in look.stats(discipline, scope)]
            answer = {
                "counts": counts[0] if counts else None,
                "fresh": discipline != "lane",
                "held": held[:PAGE], "all_held": len(held),
                "series": series(picture, discipline, scope),
                "limits": look.limits(scope) if discipline == "lane" else [],
                "schedules": look.schedules_of(scope)
                if discipline == "lane" else [],
                "blocked": discipline == "lane" and bool(
                    look.columns("claimq_after"))}
            if discipline == "outbox":
                answer["partitions"] = look.partitions(scope)
            if discipline == "contest":
                answer["holder"] = look.holder(scope)
        return answer

    def get_why(self, given):
        """claimq_why of a long lane takes as long as it is long: it is asked
        for again only after twenty times as long as it took."""
        key = _scope_of(given)
        began = now_ms()
        known = self._why.get(key)
        if known and (known[0] == self.live.number
                      or began < known[1] + 20 * known[2]):
            return {"why": known[3], "at_ms": known[1]}
        number = self.live.number
        with self.pool.look() as look:
            rows = look.why_here(*key)
        if len(self._why) > 200:
            self._why.clear()
        self._why[key] = number, began, now_ms() - began, rows
        return {"why": rows, "at_ms": began}

    def get_rows(self, given):
        discipline, scope = _scope_of(given)
        with self.pool.look() as look, look.reading():
            return look.page(discipline, scope, given.get("kind", ""),
                             given.get("after"))

    def get_job(self, given):
        with self.pool.look() as look, look.reading():
            job = look.job(_number(given, "id"))
            if job is None:
                raise Refused(404, "There is no such job.")
            return {"job": job, "attempts": look.attempts(job["job_id"]),
                    "events": look.events(job),
                    "letters": look.letters_of(job),
                    "after": look.waits_for(job["job_id"])}

    def get_batch(self, given):
        with self.pool.look() as look:
            return _found("batch", look.batch(_number(given, "id")))

    def get_message(self, given):
        with self.pool.look() as look:
            return _found("message", look.message(_number(given, "id")))

    def get_letter(self, given):
        with self.pool.look() as look:
            return _found("letter", look.letter(_number(given, "id")))

    def get_letters(self, given):
        status = given.get("status", "open")
        if status not in ("open", "resolved", "discarded", "all"):
            raise Refused(400, "There is no such status.")
        with self.pool.look() as look, look.reading():
            return look.letters(
                status, given.get("source") or None,
                given.get("scope") or None, given.get("search") or None,
                _number(given, "before") if given.get("before") else None)

    def get_schedules(self, given):
        with self.pool.look() as look, look.reading():
            return look.schedules(after=given.get("after"))

    def post_change(self, given):
        """{"do": "requeue", "ids": [17, 18]}"""
        if not self.write:
            raise Refused(403, "This board is read-only: start it with"
                          " --write.")
        what, ids = given.get("do"), given.get("ids")
        if what not in ("requeue", "discard", "revoke", "cancel"):
            raise Refused(400, "There is no such change.")
        if (not isinstance(ids, list) or not 0 < len(ids) <= _MANY
                or not all(type(key) is int for key in ids)):
            raise Refused(400, "ids: a list of 1 to %d numbers." % _MANY)
        with self.pool.look() as look:
            return {"results": getattr(look, what)(ids)}


_ANSWERS = {"/api/" + name[4:]: answer for name, answer in vars(Board).items()
            if name.startswith("get_")}


def _short_workers(workers):
    return [dict(row, holds=row["holds"][:3]) for row in workers]


def _scope_of(given):
    discipline, scope = given.get("d", ""), given.get("s", "")
    if discipline not in DISCIPLINES:
        raise Refused(404, "There is no such discipline.")
    return discipline, scope


def _number(given, name):
    try:
        number = int(given.get(name, ""))
        if abs(number) < 1 << 63:
            return number
    except ValueError:
        pass
    raise Refused(400, "%s must be a number." % name)


def _found(name, row):
    if row is None:
        raise Refused(404, "There is no such %s." % name)
    return {name: row}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "claimq"
    sys_version = ""
    timeout = 30                          # seconds for the next request

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self._handle(self._get)

    def do_POST(self):
        self._handle(self._post)

    def _handle(self, answer):
        try:
            self._check_where()
            answer(urllib.parse.urlsplit(self.path))
        except Refused as error:
            self._refuse(error.status, str(error))
        except (Trouble, sqlite3.Error) as error:
            status = 409 if claimq.code(error) else 503
            self._refuse(status, str(error))
        except ValueError as error:       # a cursor that is none, say
            self._refuse(400, str(error))

    # ---------------------------------------------------------------------
    # Who is it?

    def _check_where(self):
        """Host and Origin: refused before anything else is looked at."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:
            raise Refused(421, "This board does not answer to that name. See"
                          " --allow-host.")
        origins = self.headers.get_all("Origin") or []
        if self.command == "POST" and not origins:
            raise Refused(403, "A change needs an Origin.")
        for origin in origins:
            scheme, _, host = origin.lower().partition("://")
            if (scheme not in ("http", "https")
                    or host != hosts[0].lower() and host not in
                    self.server.hosts):
                raise Refused(403, "A page from elsewhere may not ask.")
        if self.headers.get("Sec-Fetch-Site", "none") not in (
                "none", "same-origin") and (
                self.headers.get("Sec-Fetch-Mode") != "navigate"):
            raise Refused(403, "A page from elsewhere may not ask.")

    def _known(self):
        for line in self.headers.get_all("Cookie") or []:
            for part in line.split(";"):
                name, _, value = part.strip().partition("=")
                if name == self.server.cookie_name and hmac.compare_digest(
                        value.encode("utf-8", "replace"),
                        self.server.cookie.encode()):
                    return True
        return False

    # ---------------------------------------------------------------------

    def _get(self, url):
        given = dict(urllib.parse.parse_qsl(url.query, errors="replace",
                                            max_num_fields=20))
        if url.path == "/" and "token" in given:
            return self._enter(given["token"])
        if not self._known():
            raise Refused(401, "Open the address that claimq board has"
                          " printed: it has the token.")
        if url.path in _PAGES:
            return self._file("page.html", "text/html")
        if url.path in _STATIC:
            return self._file(url.path[1:], _STATIC[url.path])
        if url.path == "/api/live":
            return self._live()
        if url.path not in _ANSWERS:
            raise Refused(404, "There is no such page.")
        found = _ANSWERS[url.path](self.server, given)
        found["about"] = self.server.about()
        self._json(200, found)

    def _post(self, url):
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            size = -1
        if not 0 <= size <= _BODY:
            self.close_connection = True
            raise Refused(413, "That is too much.")
        body = self.rfile.read(size)
        if not self._known():
            raise Refused(401, "Open the address that claimq board has"
                          " printed: it has the token.")
        if self.headers.get_content_type() != "application/json":
            raise Refused(415, "Send JSON.")
        if url.path != "/api/change":
            raise Refused(404, "There is no such page.")
        given = json.loads(body)
        if not isinstance(given, dict):
            raise Refused(400, "Send an object.")
        self._json(200, self.server.post_change(given))

    def _enter(self, token):
        """The token becomes a cookie.  The page that says so leads on by
        itself: a redirect would not be sent the cookie if a page elsewhere
        leads here."""
        if not hmac.compare_digest(token.encode("utf-8", "replace"),
                                   self.server.token.encode()):
            raise Refused(401, "That is not the token. Open the address that"
                          " claimq board has printed.")
        self._send(200, "text/html",
                   b"<!doctype html><meta charset=utf-8><title>claimq</title>"
                   b"<meta http-equiv=refresh content='0;url=/'>"
                   b"<p><a href='/'>claimq board</a>",
                   ("Set-Cookie", "%s=%s; Path=/; HttpOnly; SameSite=Strict"
                    % (self.server.cookie_name, self.server.cookie)))

    def _live(self):
        """Server-sent events: one for each change, and a sign of life."""
        if not self.server.streams.acquire(blocking=False):
            raise Refused(503, "Too many pages are open.")
        live = self.server.live
        live.watching(1)
        self.close_connection = True
        try:
            self._head(200, "text/event-stream", None)
            number = -1
            while not live.stopped:
                newer = live.changed(number, 15)
                data = b": here\n\n"
                if newer != number:
                    data = b"data: %d\n\n" % newer
                self.wfile.write(data)
                self.wfile.flush()
                number = newer
        except OSError:
            pass                          # the page was closed
        finally:
            live.watching(-1)
            self.server.streams.release()

    # ---------------------------------------------------------------------

    def _file(self, name, kind):
        with open(os.path.join(_HERE, name), "rb") as file:
            self._send(200, kind, file.read())

    def _json(self, status, value):
        self._send(status, "application/json",
                   json.dumps(plain(value)).encode())

    def _refuse(self, status, text):
        if status in (401, 403, 421):
            self.close_connection = True
        if self.path.startswith("/api/"):
            self._json(status, {"error": text})
        else:
            self._send(status, "text/plain", text.encode() + b"\n")

    def _send(self, status, kind, body, *more):
        self._head(status, kind, len(body), *more)
        self.wfile.write(body)

    def _head(self, status, kind, size, *more):
        self.send_response(status)
        self.send_header("Content-Type", kind + "; charset=utf-8")
        for name, value in (*_HEADERS, *more):
            self.send_header(name, value)
        if size is not None:
            self.send_header("Content-Length", str(size))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()


def main(options):
    try:
        board = Board(options.file, options.listen, options.port,
                      options.write, options.allow_host)
    except OSError as error:
        raise Trouble("%s port %d: %s; --port 0 takes any that is free"
                      % (options.listen, options.port, error.strerror))
    print("claimq board of %s, %s" % (
        options.file, "may change it" if options.write else "read-only"))
    if options.listen not in ("127.0.0.1", "::1", "localhost"):
        print("claimq: everybody who can reach %s and has the token gets in;"
              " there is no TLS" % options.listen, file=sys.stderr)
    print("%s?token=%s" % (board.url, board.token), flush=True)
    try:
        board.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        board.close()
    return 0
