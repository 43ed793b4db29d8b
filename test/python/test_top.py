"""claimq top, in a pseudo-terminal."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

import claimq
from support import LIMIT, Case, HOUR, run

ESCAPE = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>78])|[\x0e\x0f]")


class Terminal:
    """A program in a terminal of 100 columns; `seen` is what it wrote."""

    def __init__(self, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "vt100"
            os.environ["LANG"] = os.environ["LC_ALL"] = "C.UTF-8"
            os.execv(command[0], command)
        self.size(30, 130)
        self.seen = ""

    def size(self, lines, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", lines, columns, 0, 0))

    def send(self, keys):
        self.seen = ""
        os.write(self.fd, keys.encode())

    def _read(self):
        """False: the program has ended."""
        if select.select([self.fd], [], [], 0.2)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return False
            if not data:
                return False
            self.seen += ESCAPE.sub(" ", data.decode("utf-8", "replace"))
        return True

    def wait(self, *words):
        """Until all of these have been written since the last send()."""
        until = time.monotonic() + LIMIT
        while not all(re.search(word, self.seen) for word in words):
            if not self._read() or time.monotonic() > until:
                raise AssertionError("%r: %r" % (words, self.seen[-1500:]))

    def end(self):
        until = time.monotonic() + LIMIT
        while self._read() and time.monotonic() < until:
            pass
        os.close(self.fd)
        return os.waitpid(self.pid, 0)[1]

    def kill(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


class Tests(Case):
    def top(self, *options):
        terminal = Terminal(sys.executable, "-m", "claimq", "top", self.path,
                            *options)
        self.addCleanup(terminal.kill)
        return terminal

    def test_live(self):
        """A new scope is drawn without a key, because it was committed."""
        self.submit("mail", "a")
        top = self.top("--sort", "scope")
        top.wait("claimq", "1 ready", "mail")
        top.seen = ""
        self.submit("zebra", "b", "delay_ms", HOUR)
        top.wait("zebra")
        top.send("q")
        self.assertEqual(top.end(), 0)

    def test_keys(self):
        """Sorting, filtering, why, workers, help."""
        for n in range(3):
            self.submit("mail", n)
        self.submit("images", 1, "capabilities", '["gpu"]')
        self.claim("mail", "worker-a")
        top = self.top("--sort", "scope")
        top.wait("mail", "images")
        top.send("s\x0c")
        top.wait("ready\u2193")
        top.send("r\x0c")
        top.wait("ready\u2191")
        top.send("/IMAG\n\x0c")
        top.wait("filter: IMAG", "images")
        self.assertNotIn("mail", top.seen.rpartition("claimq ")[2])
        top.send("\n\x0c")
        top.wait("lane images: why", "capability", "gpu")
        top.send("q/\x1b\x0c")
        top.wait("mail")
        top.send("\t\x0c")
        top.wait("worker-a", "lane mail #1", r"5\dm|1h")
        top.send("?\x0c")
        top.wait("sort by the next column")
        top.send("qq")
        self.assertEqual(top.end(), 0)

    def test_replaced(self):
        """Another file at the path is what is shown from then on."""
        self.submit("apple", "a")
        top = self.top("--sort", "scope")
        top.wait("1 ready", "apple")
        self.db.close()
        for end in ("-wal", "-shm"):
            if os.path.exists(self.path + end):
                os.remove(self.path + end)
        os.rename(self.path, self.path + ".old")
        top.wait("no such file")
        newer = claimq.connect(self.path + ".new")
        newer.execute("SELECT claimq_submit('zebra', 'z')").fetchall()
        newer.close()
        os.rename(self.path + ".new", self.path)
        top.wait("zebra")
        top.send("\n\x0c")
        top.wait("lane zebra: why", "claimable")
        top.send("qq")
        self.assertEqual(top.end(), 0)

    def test_size(self):
        """Another size is drawn anew."""
        self.submit("mail", "a")
        top = self.top()
        top.wait("1 ready", "mail")
        top.seen = ""
        top.size(20, 80)
        top.wait("1 ready", "mail")
        top.send("q")
        self.assertEqual(top.end(), 0)


if __name__ == "__main__":
    run(Tests)
