"""Requests at a rate that does not depend on the server's: `flood.py PORT OPTIONS`. Prints a JSON object at the end.

Each arrival takes a connection of its own (`--new`), or a kept one that is free, or else another one. Its time counts
from the moment at which it is due, so a generator that is late hides no delay of the server. With `--closed N` there
are N callers instead, each with its next request after the response to the one before. After `--patience` seconds a
caller gives up.
"""

import argparse
import json
import os
import select
import socket
import ssl
import time
from collections import Counter

# Linux: the kernel picks the port at connect(2), so that many connections may come from one address.
IP_BIND_ADDRESS_NO_PORT = 24
# More than this many callers at once do not come: the generator's descriptors are limited.
MOST = 12_000
RESET_ON_CLOSE = b"\1\0\0\0\0\0\0\0"


class Caller:
    """One connection, and the request on it."""

    __slots__ = ("socket", "due", "opened", "state", "answer", "number")

    def __init__(self, connection, now):
        self.socket, self.opened, self.state, self.answer = connection, now, "connecting", b""


class Flood:
    """The callers, and what they have got."""

    def __init__(self, options):
        self.options = options
        self.poll = select.epoll()
        self.callers, self.idle = {}, []
        self.served, self.refused, self.outcomes = [], [], Counter()
        # When those that were served were due, in seconds after the start.
        self.served_due, self.start = [], 0
        self.number = 0
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        self.with_retry_after = 0
        self.most = 0

    def run(self):
        options = self.options
        self.start = start = now = time.perf_counter()
        end, sent, next_sweep = start + options.seconds, 0, start + 0.5
        while now < end:
            if options.closed:
                while len(self.callers) - len(self.idle) < options.closed:
                    self.arrive(now)
            else:
                # At most so many at once, so that responses are read in between.
                for _ in range(min(64, int((now - start) * options.rate) - sent)):
                    if len(self.callers) < MOST:
                        self.arrive(start + sent / options.rate)
                    sent += 1
            self.handle(0.001)
            now = time.perf_counter()
            if now > next_sweep:
                self.give_up(now)
                next_sweep = now + 0.5
        elapsed = now - start
        counted = sum(self.outcomes.values())
        return {
            "seconds": elapsed, "offered": self.number / elapsed, "outcomes": self.outcomes, "counted": counted,
            "served": self.served, "served_due": self.served_due, "refused": self.refused,
            "with_retry_after": self.with_retry_after,
            "under_way": len(self.callers) - len(self.idle), "connections": self.most}

    def arrive(self, due):
        self.number += 1
        if self.idle and not self.options.new:
            caller = self.callers[self.idle.pop()]
            caller.due = due
            return self.send(caller)
        connection = socket.socket()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        connection.bind((f"127.0.{self.options.network}.{1 + self.number % self.options.addresses}", 0))
        connection.connect_ex(("127.0.0.1", self.options.port))
        caller = Caller(connection, due)
        caller.due = due
        self.callers[connection.fileno()] = caller
        self.most = max(self.most, len(self.callers))
        self.poll.register(connection.fileno(), select.EPOLLOUT)

    def handle(self, seconds):
        for descriptor, _ in self.poll.poll(seconds, 256):
            caller = self.callers.get(descriptor)
            if caller is None:
                continue
            try:
                if caller.state == "connecting":
                    self.connected(caller)
                elif caller.state == "handshake":
                    self.shake_hands(caller)
                else:
                    self.receive(caller)
            except (ssl.SSLWantReadError, BlockingIOError):
                pass
            except OSError:
                self.end(caller, "closed")

    def connected(self, caller):
        error = caller.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error)
        descriptor = caller.socket.fileno()
        self.poll.modify(descriptor, select.EPOLLIN)
        if not self.options.tls:
            return self.send(caller)
        caller.state = "handshake"
        caller.socket = self.tls.wrap_socket(caller.socket, do_handshake_on_connect=False)
        self.shake_hands(caller)

    def shake_hands(self, caller):
        caller.socket.do_handshake()
        self.send(caller)

    def send(self, caller):
        caller.state, caller.answer = "waiting", b""
        path = self.options.path.replace("NUMBER", f"{os.getpid()}x{self.number}")
        close = "Connection: close\r\n" if self.options.new else ""
        try:
            caller.socket.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{close}\r\n".encode())
        except OSError:
            self.end(caller, "closed")

    def receive(self, caller):
        if caller.state != "waiting":
            return self.forget(caller)
        part = caller.socket.recv(65536)
        if not part:
            return self.end(caller, "closed")
        caller.answer += part
        head, whole, body = caller.answer.partition(b"\r\n\r\n")
        if not whole:
            return
        lower = head.lower()
        length = lower.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        if len(body) < int(length or 0):
            return
        status = head[9:12].decode()
        if status == "503" and b"\r\nretry-after:" in lower:
            self.with_retry_after += 1
        self.end(caller, status, keeps=not self.options.new and b"\r\nconnection: close" not in lower)

    def end(self, caller, outcome, keeps=False):
        self.outcomes[outcome] += 1
        (self.served if outcome == "200" else self.refused).append(time.perf_counter() - caller.due)
        if outcome == "200":
            self.served_due.append(caller.due - self.start)
        if keeps:
            caller.state = "idle"
            self.idle.append(caller.socket.fileno())
        else:
            self.forget(caller)

    def forget(self, caller):
        descriptor = caller.socket.fileno()
        if caller.state == "idle":
            self.idle.remove(descriptor)
        self.callers.pop(descriptor, None)
        caller.socket.close()

    def give_up(self, now):
        for caller in [
                caller for caller in self.callers.values()
                if caller.state != "idle" and now - caller.due > self.options.patience]:
            self.end(caller, "gave up")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--closed", type=int)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--patience", type=float, default=2)
    parser.add_argument("--path", default="/token")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--addresses", type=int, default=1)
    parser.add_argument("--network", type=int, default=16)
    print(json.dumps(Flood(parser.parse_args()).run()), flush=True)


if __name__ == "__main__":
    main()
