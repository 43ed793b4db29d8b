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
import hmac
import http.server
import json
import os
import secrets
import select
import socket
import sqlite3
import sys
import threading
import urllib.parse

import claimq

from .answers import Answers, Refused
from .look import Trouble, plain

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
_STREAMS = 32             # pages that are open at a time
_STRANGERS = 32           # connections that have not shown the token
_ALIVE = 15               # seconds between two signs of life of a stream


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
        self.ended = False
        self._turn = threading.Lock()     # from one file to the next
        self._lock = threading.Lock()     # of what follows
        self._strangers = {}              # connections, the oldest first
        self._streams = set()
        try:
            self._answers = Answers(file, write)
        except BaseException:
            self.server_close()
            raise

    def close(self):
        self.ended = True
        self._answers.close()
        self.server_close()

    @property
    def live(self):
        return self._answers.live

    def answers(self):
        """The answers about the file that is there now.  Every request asks:
        another may have been put in its place."""
        with self._turn:
            if not self._answers.current():
                self._answers = self._answers.successor()
            return self._answers

    # ---------------------------------------------------------------------
    # Connections.  Each has a thread, so those of strangers are counted: one
    # too many ends the oldest of them, which most likely says nothing.

    def process_request(self, request, client_address):
        with self._lock:
            self._strangers[request] = True
            if len(self._strangers) > _STRANGERS:
                _hang_up(next(iter(self._strangers)))
                del self._strangers[next(iter(self._strangers))]
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self.welcome(request)
        super().shutdown_request(request)

    def welcome(self, request):
        """Its requests have brought the token: it is no stranger."""
        with self._lock:
            self._strangers.pop(request, None)

    def open_stream(self, request):
        """False: there are too many.  Pages that were closed do not count."""
        with self._lock:
            if len(self._streams) >= _STREAMS:
                for stream in [*filter(_closed, self._streams)]:
                    _hang_up(stream)
                    self._streams.remove(stream)
            if len(self._streams) >= _STREAMS:
                return False
            self._streams.add(request)
            return True

    def end_stream(self, request):
        with self._lock:
            self._streams.discard(request)

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def _hang_up(connection):
    """The thread that reads from it gets an end, and ends."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _closed(connection):
    """Has the other side hung up?"""
    try:
        return bool(select.select([connection], [], [], 0)[0]) and (
            not connection.recv(1, socket.MSG_PEEK))
    except (OSError, ValueError):
        return True


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
        except (ValueError, OverflowError, RecursionError) as error:
            self._refuse(400, str(error)) # a cursor that is none, say

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
                    self.server.welcome(self.connection)
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
        found = url.path.startswith("/api/") and self.server.answers().get(
            url.path[5:], given)
        if not found:
            raise Refused(404, "There is no such page.")
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
        self._json(200, self.server.answers().change(given))

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
        if not self.server.open_stream(self.connection):
            raise Refused(503, "Too many pages are open.")
        self.close_connection = True
        try:
            self._head(200, "text/event-stream", None)
            self._follow()
        except OSError:
            pass                          # the page was closed
        finally:
            self.server.end_stream(self.connection)

    def _follow(self):
        number = -1
        while not self.server.ended:
            live = self.server.live       # of this file, then of the next
            live.watching(1)
            try:
                while not live.stopped:
                    newer = live.changed(number, _ALIVE)
                    data = b": here\n\n"
                    if newer != number:
                        data = b"data: %d\n\n" % newer
                    self.wfile.write(data)
                    self.wfile.flush()
                    number = newer
            finally:
                live.watching(-1)

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
