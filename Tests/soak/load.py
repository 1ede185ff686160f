"""The load: clients of all kinds on a few threads, at a bounded rate."""

import random
import threading
import time
import traceback

import wire
from journal import eventually

THREADS = 20
# Connections come from some addresses, so that none of them reaches the rate of invalid credentials.
SOURCES = [f"127.0.0.{number}" for number in range(10, 50)]


class Stopped(Exception):
    """The load has ended."""


class Pace:
    """At most so many requests a second, and no more after a pause."""

    def __init__(self, rate):
        self.interval = 1 / rate
        self.next = 0
        self.lock = threading.Lock()

    def wait(self):
        with self.lock:
            now = time.monotonic()
            turn = max(self.next, now)
            self.next = turn + self.interval
        time.sleep(turn - now)


class Load:
    """Starts, pauses and ends the clients."""

    def __init__(self, port, context, exchanges, judge, truth, rate, seed):
        self.port, self.context = port, context
        self.exchanges, self.judge, self.truth = exchanges, judge, truth
        self.pace = Pace(rate)
        self._change = threading.Condition()
        self._state, self._parked = "running", 0
        # How many connections were made, and how many of them resumed a session.
        self.handshakes, self.resumptions = 0, 0
        self.clients = [Client(self, random.Random(f"{seed}-{index}")) for index in range(THREADS)]

    def start(self):
        for client in self.clients:
            client.thread.start()

    def pause(self):
        """Returns when every client has its response and has closed its connection."""
        with self._change:
            self._state = "paused"
        eventually("all clients pause", lambda: self._parked == THREADS, limit=120)

    def resume(self):
        with self._change:
            self._state = "running"
            self._change.notify_all()

    def stop(self):
        with self._change:
            self._state = "stopped"
            self._change.notify_all()
        for client in self.clients:
            client.thread.join(120)

    def turn(self, client):
        """Waits for the client's turn to send a request."""
        if self._state != "running":
            client.leave()
            with self._change:
                self._parked += 1
                self._change.wait_for(lambda: self._state != "paused")
                self._parked -= 1
                if self._state == "stopped":
                    raise Stopped
        self.pace.wait()


class Client:
    """One thread, which is one client after another."""

    def __init__(self, load, random):
        self.load, self.random = load, random
        self.connection = None
        # The TLS session of the last connection, and the digest of the private key of its certificate.
        self.session = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        visits = [
            self.keeps, self.connects_once, self.resumes, self.pipelines, self.sends_slowly, self.reads_slowly,
            self.gives_up]
        try:
            while True:
                [visit] = self.random.choices(visits, [30, 25, 25, 8, 4, 1, 8])
                try:
                    visit()
                except Refused:
                    continue
                self.leave()
        except Stopped:
            pass
        except Exception:
            self.load.judge.wrong("the load generator failed", traceback.format_exc())

    # Kinds of clients.

    def keeps(self):
        """Keeps its connection."""
        for _ in range(self.random.randint(10, 60)):
            self.exchange()

    def connects_once(self):
        """Makes a full handshake for a request."""
        self.session = None
        self.exchange()

    def resumes(self):
        """Resumes the TLS session of an earlier connection for a request."""
        self.exchange()

    def pipelines(self):
        """Sends several requests at once."""
        requests = [self.ask() for _ in range(self.random.randint(2, 6))]
        # A request after which the server closes is the last one.
        for index, request in enumerate(requests):
            if request.closes:
                requests = requests[:index + 1]
                break
        for _ in requests[1:]:
            self.load.pace.wait()
        self.exchange(requests)

    def sends_slowly(self):
        """Sends its request piece by piece."""
        self.exchange(pieces=6)

    def reads_slowly(self):
        """Takes a long response bit by bit."""
        self.load.turn(self)
        self.open().is_slow = True
        self.exchange([self.load.exchanges.huge(self.random)])

    def gives_up(self):
        """Goes away in the middle of something."""
        judge, request = self.load.judge, self.load.exchanges.any(self.random)
        self.load.turn(self)
        judge.count("abandoned")
        match self.random.randrange(4):
            case 0:
                plain = wire.connect(self.load.port, self.random.choice(SOURCES))
                plain.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
                plain.close()
            case 1:
                self.open().send(request.wire[:len(request.wire) // 2])
                self.connection.reset()
            case 2:
                request = self.load.exchanges.miss(self.random)
                self.open().send(request.wire)
                self.connection.reset()
            case 3:
                request = self.load.exchanges.huge(self.random)
                self.open().send(request.wire)
                try:
                    self.connection.some(300)
                except wire.Lost as lost:
                    judge.lost(request, f"{lost}, before the client gave up")
                self.connection.reset()
        self.connection = None

    # One connection.

    def ask(self):
        return self.load.exchanges.any(self.random)

    def open(self):
        """A new connection, whose certificate is judged."""
        judge, truth, since = self.load.judge, self.load.truth, time.monotonic()
        session, key = self.session or (None, None)
        self.session = None
        source = self.random.choice(SOURCES)
        try:
            self.connection = wire.Connection(self.load.port, self.load.context, source, session)
        except OSError as error:
            judge.wrong("a connection failed", f"after {time.monotonic() - since:.3f} s: {error!r}")
            raise Refused from error
        if self.connection.is_resumed:
            if not truth.ticket_keys.right(key, since):
                judge.wrong("a ticket was accepted after its private key had been replaced")
        else:
            key = truth.certificate_keys.get(self.connection.certificate)
            if not truth.certificates.right(self.connection.certificate, since):
                judge.wrong("a handshake had a replaced certificate", self.connection.certificate)
        self.connection.key = key
        with judge.lock:
            self.load.handshakes += 1
            self.load.resumptions += self.connection.is_resumed
        return self.connection

    def leave(self):
        """Closes the connection, and keeps its session."""
        if self.connection is not None:
            if self.connection.is_used:
                self.session = self.connection.session, self.connection.key
            self.connection.close()
            self.connection = None

    def exchange(self, requests=None, pieces=1):
        """Sends requests, and has their responses judged."""
        self.load.turn(self)
        pending = requests or [self.ask()]
        may_retry = True
        while pending:
            since = time.monotonic()
            try:
                connection = self.connection or self.open()
                was_used = connection.is_used
                self._send(b"".join(request.wire for request in pending), pieces)
                done = 0
                for request in list(pending):
                    response = connection.response(request.method)
                    self.load.judge.take(request, response, since)
                    done += 1
                    pending.pop(0)
                    if response.closes:
                        self.leave()
                        break
                # A server that drains closes after a response: RFC 9112 §9.3.2 lets the client send the rest again.
                if pending:
                    self.load.judge.count("retried", len(pending))
            except wire.Lost as lost:
                connection.close()
                self.connection = None
                # RFC 9112 §9.3.1: a server may close an idle connection at the moment at which a request is sent.
                if was_used and lost.was_idle and not lost.received and done == 0 and may_retry:
                    may_retry = False
                    self.load.judge.count("retried")
                    continue
                self.load.judge.lost(pending[0], f"{lost}; {'used' if was_used else 'new'} connection")
                return
            except Refused:
                return

    def _send(self, data, pieces):
        size = -(-len(data) // pieces)
        for start in range(0, len(data), size):
            if start:
                time.sleep(0.05)
            self.connection.send(data[start:start + size])


class Refused(Exception):
    """The connection failed, and the judge knows it."""
