"""kombu's transport: channels over the store, and how a loop is woken."""
import contextlib
import os
import socket
import threading
import time
import urllib.parse
from queue import Empty

from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments
from kombu.utils.compat import detect_environment

import claimq

from .._patience import log
from ._store import Store, Trouble

_WAIT = 0.5             # seconds
_PAUSE = 0.05
_MANY = 64              # messages at a time, before others have their turn


def _path(client):
    """The file of a broker: kombu has parsed its URL only if it is not the first
    of several."""
    url = urllib.parse.urlsplit(client.hostname or "")
    path = urllib.parse.unquote(url.path)[1:]
    if not url.scheme and client.hostname in (None, "localhost"):
        path = (client.virtual_host or "/").rstrip("/")
    if url.netloc or path in ("", ":memory:"):
        raise ValueError(
            "the broker of claimq is a file: claimq:///app.db, or with its"
            " whole path claimq:////srv/app.db")
    return path


class QoS(virtual.QoS):
    """What is acknowledged is settled at once."""

    def ack(self, delivery_tag):
        self.channel.store.settle(delivery_tag, "complete(?, ?)")
        self._settled(delivery_tag)

    def reject(self, delivery_tag, requeue=False):
        if requeue:
            self.channel.store.settle(delivery_tag, "release(?, ?)")
        else:
            self.channel.store.settle(delivery_tag, "reject(?, ?, ?)",
                                      "rejected by its consumer")
        self._settled(delivery_tag)

    def _settled(self, delivery_tag):
        full = not self.can_consume()
        super().ack(delivery_tag)
        if full and self.channel.connection:
            self.channel.connection.ring()


class Channel(virtual.Channel):
    QoS = QoS
    supports_fanout = True

    def __init__(self, connection, **options):
        super().__init__(connection, **options)
        self._no_ack = set()            # queues whose messages need no ack
        self.store = connection.store

    # Messages

    def _put(self, queue, message, **_):
        self.store.put(queue, message, self._get_message_priority(message))

    def _put_fanout(self, exchange, message, routing_key, **options):
        for queue in {row[2] for row in self.get_table(exchange)}:
            self._put(queue, message, **options)

    def _get(self, queue, timeout=None):
        return self._take(queue, queue in self._no_ack)

    def _take(self, queue, no_ack):
        message = self.store.take(queue, no_ack)
        if message is None:
            raise Empty()
        return message

    def _restore(self, message):
        self.store.settle(message.delivery_tag, "release(?, ?)")

    def _size(self, queue):
        return self.store.size(queue)

    def _purge(self, queue):
        return self.store.purge(queue)

    def basic_get(self, queue, no_ack=False, **_):
        try:
            message = self.Message(self._take(queue, no_ack), channel=self)
        except Empty:
            return None
        if not no_ack:
            self.qos.append(message, message.delivery_tag)
        return message

    def basic_consume(self, queue, no_ack, *arguments, **options):
        (self._no_ack.add if no_ack else self._no_ack.discard)(queue)
        super().basic_consume(queue, no_ack, *arguments, **options)
        self.connection.ring()

    def basic_qos(self, *arguments, **options):
        super().basic_qos(*arguments, **options)
        self.connection.ring()

    def encode_body(self, body, encoding=None):
        """Text stays as it is, so that it can be read in the database."""
        if isinstance(body, str):
            return body, "utf-8"
        return super().encode_body(body, encoding)

    # Queues and exchanges

    def prepare_queue_arguments(self, arguments, **options):
        return to_rabbitmq_queue_arguments(arguments, **options)

    def _new_queue(self, queue, arguments=None, **_):
        expires = (arguments or {}).get("x-expires")
        if expires is not None:
            self.connection.expiring[queue] = int(expires)

    def _queue_bind(self, exchange, routing_key, pattern, queue):
        self.store.bind(exchange, routing_key or "", pattern, queue,
                        self.connection.expiring.get(queue))

    def queue_unbind(self, queue, exchange=None, routing_key="",
                     arguments=None, **options):
        self.store.unbind(exchange, routing_key or "", queue)
        super().queue_unbind(queue, exchange, routing_key, arguments,
                             **options)

    def _delete(self, queue, exchange, routing_key, *_, **__):
        self.store.purge(queue)
        self.store.unbind(exchange, routing_key or "", queue)
        table = super().get_table(exchange)
        table[:] = [row for row in table if row[2] != queue]
        self.connection.expiring.pop(queue, None)

    def get_table(self, exchange):
        """What is bound by any process, or by this one."""
        own = self.state.exchanges.get(exchange, {}).get("table", [])
        rows = self.store.table(exchange)
        return rows + [row for row in own if row not in rows
                       and row[2] not in self.connection.expiring]


class Transport(virtual.Transport):
    """Options of the transport: visibility_timeout, the lease in seconds, which
    is renewed while a message is held; timeout, seconds to wait for a lock."""
    Channel = Channel
    implements = virtual.Transport.implements.extend(
        asynchronous=True, heartbeats=False,
        exchange_type=frozenset(["direct", "topic", "fanout"]))
    can_parse_url = True
    driver_type = driver_name = "claimq"
    connection_errors = virtual.Transport.connection_errors + (Trouble,)

    def __init__(self, client, **options):
        super().__init__(client, **options)
        self.expiring = {}              # queues that do: their ms
        self._alarm = None
        options = client.transport_options
        self.store = Store(os.path.abspath(_path(client)),
                           int(float(options.get("visibility_timeout", 30))
                               * 1000),
                           float(options.get("timeout", 30)))

    @classmethod
    def as_uri(cls, uri, include_password=False, mask="**"):
        return uri or "claimq://"

    def driver_version(self):
        return claimq.__version__

    def establish_connection(self):
        self.store.open()
        return super().establish_connection()

    def close_connection(self, connection):
        if self._alarm:
            self._alarm.close()
            self._alarm = None
        try:
            super().close_connection(connection)
        finally:
            self.store.close()

    def drain_events(self, connection, timeout=None):
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self.touch()
            try:
                return self.cycle.get(self._deliver)
            except Empty:
                left = _WAIT if end is None else end - time.monotonic()
                if left <= 0 or not self._wait(min(left, _WAIT)):
                    raise socket.timeout() from None

    def _wait(self, seconds):
        """False if all that may be held is held: until the caller acknowledges
        something, to wait is of no use."""
        lanes = self.lanes()
        if not lanes:
            time.sleep(min(seconds, _PAUSE))
            return not any(channel._consumers for channel in self.channels)
        if detect_environment() == "default":
            self.store.wait(int(seconds * 1000) + 1, lanes)
        elif not self.store.wait(0, lanes):     # others have our thread, too
            time.sleep(min(seconds, _PAUSE))
        return True

    def lanes(self):
        """Those from which something may be taken now."""
        return sorted({queue for channel in [*self.channels]
                       if channel._consumers and channel.qos.can_consume()
                       for queue in [*channel._active_queues]})

    def touch(self):
        """Queues that expire when nobody uses them are used."""
        self.store.touch({queue: ms for queue, ms in [*self.expiring.items()]
                          if queue in self._callbacks})

    # In an event loop

    def register_with_event_loop(self, connection, loop):
        self._alarm = self._alarm or Alarm(self)
        self._alarm.register(loop)

    def ring(self):
        """There may be something to take that there was not."""
        if self._alarm:
            self._alarm.ring()

    def deliver_some(self):
        try:
            for _ in range(_MANY):
                self.cycle.get(self._deliver)
        except Empty:
            pass


class Alarm:
    """A thread that waits for messages, and wakes the loop through a pipe."""

    def __init__(self, transport):
        self._transport, self._closed, self._loop = transport, False, None
        self._awaited, self._more = threading.Event(), threading.Event()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._awaited.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def register(self, loop):
        self._loop = loop
        loop.add_reader(self._read, self._on_readable)

    def ring(self):
        self._more.set()
        with contextlib.suppress(BlockingIOError):      # it is loud enough
            os.write(self._write, b"x")

    def close(self):
        self._closed = True
        self._awaited.set()
        self._more.set()
        self._thread.join()
        if self._loop:
            self._loop.remove_reader(self._read)
        os.close(self._read)
        os.close(self._write)

    def _on_readable(self):
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)
        self._transport.deliver_some()
        self._awaited.set()

    def _run(self):
        while not self._closed:
            self._awaited.wait()
            try:
                self._transport.touch()
                lanes = self._transport.lanes()
                if lanes:
                    found = self._transport.store.wait(int(_WAIT * 1000), lanes)
                else:
                    found = False
                    self._more.wait(_WAIT)
                    self._more.clear()
            except Exception as error:  # the loop meets it, too
                log.warning("waiting for messages: %s", error)
                time.sleep(_WAIT)
                found = True
            if found and not self._closed:
                self._awaited.clear()
                self.ring()
