"""rqlite.py: rqlite nodes that a test starts, kills, cuts off and compares.

    place = Loopback()                      # or Namespaces()
    nodes = Nodes(place, "rqlited", "claimq.so", "build/cluster/run")
    nodes.start()                           # three
    nodes.leader().kill()                   # kill -9
    nodes.stop()

A node is a process with a folder of its own.  Where it runs is the affair of
its place: all on 127.0.0.1, or each in a network namespace, where it can be cut
off from the others.
"""
import ctypes, itertools, json, os, re, shutil, signal, socket, subprocess, time
import urllib.request

from client import CallError, Cluster

PATIENCE = 300  # seconds; nothing is expected to take that long

# Whatever proxy the environment names, it is not for these addresses.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))

# A node does not outlive the process that started it, however that ends.
DIES_WITH_US = (["setpriv", "--pdeathsig", "KILL"]
                if shutil.which("setpriv") else [])


def die_with_parent():
    """The same for a process that was forked, where there is prctl()."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    except (OSError, AttributeError):
        pass


def until(what, condition, patience=PATIENCE, measure=None):
    """Wait until condition() is true, and return what it returned.  While
    measure() changes, things go on, and nobody loses patience."""
    end, last = time.monotonic() + patience, None
    while True:
        if measure and (seen := measure()) != last:
            end, last = time.monotonic() + patience, seen
        try:
            answer = condition()
        except (OSError, ValueError, KeyError) as error:
            answer, why = None, error
        else:
            why = answer
        if answer:
            return answer
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not after {patience} s ({why!r})")
        time.sleep(0.05)


PORTS = itertools.chain(range(20011 + os.getpid() % 997 * 10, 32000),
                        range(10011, 20011))


def free_port():
    """A port where nobody listens.  It is below those that the system gives to
    connections on their way out: one of these could have it when the node that
    was killed is started again."""
    for port in PORTS:
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise RuntimeError("there is no free port")


class Loopback:
    """All nodes on 127.0.0.1, distinguished by their ports."""
    def add(self, number):
        return "127.0.0.1"

    def command(self, number):
        return []


class Namespaces:
    """Each node in a network namespace of its own, joined by a bridge.

    The test itself runs in a namespace (see run.sh), so that nothing here
    touches the network of the machine.  The addresses are of the block that is
    kept for documentation, and there is no route out.  A namespace lives as
    long as the process that holds it.
    """
    def __init__(self):
        self.holders = {}
        self.ip("link", "add", "cq", "type", "bridge")
        self.ip("addr", "add", "192.0.2.254/24", "dev", "cq")
        self.ip("link", "set", "cq", "up")

    def ip(self, *words, of=()):
        subprocess.run([*of, "ip", *words], check=True, capture_output=True,
                       text=True)

    def add(self, number):
        if number not in self.holders:
            self.holders[number] = subprocess.Popen(
                [*DIES_WITH_US, "unshare", "-n", "sleep", "36000"])
            pid = str(self.holders[number].pid)
            mine = os.readlink("/proc/self/ns/net")
            until("a namespace", lambda:
                  os.readlink(f"/proc/{pid}/ns/net") != mine)
            inside = self.command(number)
            self.ip("link", "add", f"cq{number}", "type", "veth", "peer",
                    "name", "eth0", "netns", pid)
            self.ip("link", "set", f"cq{number}", "master", "cq", "up")
            self.ip("addr", "add", f"192.0.2.{number}/24", "dev", "eth0",
                    of=inside)
            self.ip("link", "set", "eth0", "up", of=inside)
            self.ip("link", "set", "lo", "up", of=inside)
        return f"192.0.2.{number}"

    def command(self, number):
        return ["nsenter", "-n", "-t", str(self.holders[number].pid)]

    def cut(self, number):
        self.ip("link", "set", f"cq{number}", "down")

    def heal(self, number):
        self.ip("link", "set", f"cq{number}", "up")

    def close(self):
        for holder in self.holders.values():
            holder.kill()
            holder.wait()
        self.ip("link", "del", "cq")


class Node:
    def __init__(self, place, number, program, extension, folder, options=()):
        self.place, self.number = place, number
        self.folder = os.path.join(folder, f"node{number}")
        address = place.add(number)
        self.http = f"{address}:{free_port()}"
        self.raft = f"{address}:{free_port()}"
        self.program, self.options = program, list(options)
        if extension:
            self.options += ["-extensions-path", extension]
        self.process, self.away = None, False

    def start(self, join=()):
        os.makedirs(self.folder, exist_ok=True)
        command = [*DIES_WITH_US, *self.place.command(self.number),
                   self.program,
                   "-node-id", str(self.number), "-http-addr", self.http,
                   "-raft-addr", self.raft, "-join-attempts",
                   str(2 * PATIENCE), "-join-interval", "500ms", *self.options]
        if join:
            command += ["-join", ",".join(join)]
        with open(self.folder + ".log", "a") as log:
            self.process = subprocess.Popen(
                [*command, os.path.join(self.folder, "data")], stdout=log,
                stderr=log, start_new_session=True)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """As a machine that loses its power: kill -9."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def end(self):
        """As an administrator ends it: SIGTERM."""
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.process = None

    def log(self):
        with open(self.folder + ".log") as log:
            return log.read()

    def get(self, path, data=None, timeout=60):
        """The body of an answer; raises OSError if there is none."""
        url = f"http://{self.http}{path}"
        with DIRECT.open(url, data, timeout) as reply:
            return reply.read()

    def check_alive(self):
        """It runs, unless it was killed on purpose.  Go's own report of a
        crash begins with the reason and is long."""
        if self.process and self.process.poll() is not None:
            log = self.log()
            at = max(log.rfind("\nSIG"), log.rfind("\npanic:"))
            at = at if at >= 0 else max(len(log) - 2000, 0)
            raise RuntimeError(f"node {self.number} has ended:\n"
                               + log[at:at + 2000])

    def ready(self):
        """It knows its leader, and has carried out what is in the log."""
        self.check_alive()
        return b"sync ok" in self.get("/readyz?sync&timeout=5s")

    def status(self):
        return json.loads(self.get("/status"))["store"]

    def ask(self, *statements):
        """The rows of each statement, from this node's own database, whatever
        the others have.  Raises CallError."""
        reply = json.loads(self.get(
            "/db/query?level=none&blob_array", json.dumps(statements).encode()))
        if "error" in reply:
            raise CallError(reply["error"])
        for one in reply["results"]:
            if "error" in one:
                raise CallError(one["error"])
        return [one.get("values", []) for one in reply["results"]]

    def was_sent_snapshot(self, mark=0):
        """Since that place in its log it has been restored from a snapshot
        that was not its own.  (It begins with its own, if it has one.)"""
        log = self.log()[mark:]
        own = re.search(r"(\d+) preexisting snapshots", log)
        return log.count("node restored in") > (own is None or own[1] != "0")


class Nodes:
    """A cluster."""
    def __init__(self, place, program, extension, folder, options=()):
        self.place, self.folder = place, folder
        self.program, self.extension = program, extension
        self.options, self.nodes = list(options), []

    def __iter__(self):
        return iter(self.nodes)

    def add(self, options=()):
        """A node more, which is not started."""
        node = Node(self.place, len(self.nodes) + 1, self.program,
                    self.extension, self.folder, [*self.options, *options])
        self.nodes.append(node)
        return node

    def start(self, options=((), (), ())):
        for extra in options:
            self.add(extra)
        for node in self.nodes:
            self.join(node)

    def join(self, node):
        """Start a node.  The first time it joins those that run; later it
        knows them."""
        others = [n.raft for n in self.nodes if n is not node and n.running()]
        node.start([] if os.path.exists(node.folder) else others)
        until(f"node {node.number} ready", node.ready)

    def leader(self):
        """The leader, as the nodes that can be reached agree; waits for it."""
        def find():
            seen = {}
            for node in self.reachable():
                try:
                    raft = node.status()["leader"]["node_id"]
                except (OSError, KeyError):
                    continue
                seen[raft] = seen.get(raft, 0) + 1
            best = max(seen, key=seen.get, default="")
            if best and 2 * seen[best] > len(self.nodes):
                node = self.nodes[int(best) - 1]
                return node if node in self.reachable() else None
        return until("a leader", find)

    def snapshot(self, how="?trailing_logs=1"):
        """Have every node make a snapshot, for any of them may lead next, and
        keep no more of the log than it says."""
        for node in self.reachable():
            until("a snapshot", lambda: node.get(
                "/snapshot" + how, b"") is not None)

    def reachable(self):
        return [n for n in self.nodes if n.running() and not n.away]

    def cut(self, node):
        """Cut a node off from the network."""
        self.place.cut(node.number)
        node.away = True

    def heal(self, node):
        self.place.heal(node.number)
        node.away = False
        until(f"node {node.number} back", node.ready)

    def addresses(self):
        return [node.http for node in self.nodes]

    def cluster(self):
        return Cluster(self.addresses(), timeout=20, patience=PATIENCE)

    def settle(self):
        """Wait until all nodes have carried out the same log, to its end: the
        leader has when it answers a read that is itself in the log."""
        self.cluster().call(["SELECT 1"])

        def same():
            for node in self.nodes:
                node.ready()
            return len({n.status()["fsm_index"] for n in self.nodes}) == 1
        until("all nodes at the same place of the log", same)

    def restart(self, how):
        """End all nodes, by Node.kill or Node.end, and start them again."""
        for node in self.nodes:
            how(node)
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            until(f"node {node.number} ready", node.ready)

    def stop(self):
        for node in self.nodes:
            node.kill()


def same_version(nodes):
    """The claimq_version() that all nodes answer.  Raises RuntimeError if they
    differ, or if one of them has no claimq: it would come up, and say nothing
    until it becomes the leader."""
    seen = {}
    for node in nodes:
        try:
            seen[node.http] = node.ask(["SELECT claimq_version()"])[0][0][0]
        except CallError as error:
            seen[node.http] = str(error)
    if len(set(seen.values())) != 1 or "no such function" in str(seen):
        raise RuntimeError(f"the nodes have not the same claimq: {seen}")
    return seen[nodes[0].http]


#--------------------------------------------------------------------------
# Are nodes equal?

def tables(ask):
    """Every table and index by name, but for the statistics, which PRAGMA
    optimize makes on one node and not on the other."""
    return ask([
        "SELECT type, name, tbl_name, sql FROM sqlite_schema"
        " WHERE tbl_name NOT LIKE 'sqlite_stat%' ORDER BY type, name"])[0]


def content(ask):
    """Everything that is stored, {name: rows}.  ask: Node.ask, or a function
    that asks another database in the same way."""
    out = {"the schema": tables(ask)}
    for kind, name, *_ in out["the schema"]:
        if kind == "table":
            columns, = ask(
                ["SELECT name FROM pragma_table_info(?) ORDER BY cid", name])
            quoted = ", ".join(f'quote("{c}")' for c, in columns)
            order = ", ".join(str(i + 1) for i in range(len(columns)))
            out[name] = ask(
                [f'SELECT {quoted} FROM "{name}" ORDER BY {order}'])[0]
    return out


def differences(one, other):
    """What two results of content() do not have in common, in words."""
    out = []
    for name in sorted({*one, *other}):
        a, b = one.get(name), other.get(name)
        if a != b:
            rows = [r for r in b or [] if r not in (a or [])]
            out.append(f"{name}: {len(a or [])} and {len(b or [])} rows, "
                       f"such as {rows[:1]}")
    return out
