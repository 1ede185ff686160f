"""The store of the replicas, and what may happen to it."""

import signal
import socket
from dataclasses import dataclass
from typing import Callable

from . import tools
from .process import Process, free_port


class Store:
    """A redis-server on a port of loopback. A context manager."""

    def __enter__(self):
        self.port = free_port()
        self.start()
        return self

    def __exit__(self, *exception):
        # A stopped process does not end before it continues.
        self.resume()
        self.process.__exit__(*exception)

    def start(self):
        command = [
            tools.find("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = Process(command, self.port, tools.LOAD_CORES)
        self.process.__enter__()

    def kill(self):
        self.process.child.kill()
        self.process.child.wait()

    def stop(self):
        self.process.child.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.child.send_signal(signal.SIGCONT)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def command(self, text):
        """The reply to a command: its first line, or the whole text of a bulk string."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(f"{text}\r\n".encode())
            reply = connection.makefile("rb")
            line = reply.readline()
            if line.startswith(b"-"):
                raise RuntimeError(f"{text}: {line.decode()}")
            return (reply.read(int(line[1:])) if line.startswith(b"$") else line).decode()

    def figures(self):
        """The counters of INFO."""
        lines = (line.partition(":") for line in self.command("INFO stats").splitlines())
        return {name: float(value) for name, _, value in lines if value.replace(".", "", 1).isdigit()}


@dataclass(frozen=True)
class Trouble:
    """What may happen to a store, and how it ends."""

    name: str
    begin: Callable[[Store], object]
    end: Callable[[Store], object] = lambda store: None
    # Whether a replica notices it, and keeps limits of its own.
    is_noticed: bool = True


def fill(store):
    """Leaves no memory for a command that writes."""
    store.command("CONFIG SET maxmemory-policy noeviction")
    store.command("CONFIG SET maxmemory 1")


TROUBLES = [
    Trouble("fine", lambda store: None, is_noticed=False),
    Trouble("stopped by SIGSTOP", Store.stop, Store.resume),
    Trouble("killed, and another one at its address", Store.kill, Store.start),
    Trouble("flushed", lambda store: store.command("FLUSHALL"), is_noticed=False),
    Trouble("out of memory", fill, lambda store: store.command("CONFIG SET maxmemory 0")),
    Trouble(
        "a read-only replica, as in a failover", lambda store: store.command("REPLICAOF 127.0.0.1 1"),
        lambda store: store.command("REPLICAOF NO ONE")),
]
