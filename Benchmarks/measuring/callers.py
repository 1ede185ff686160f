"""Many callers at once, each with an address and a connection of its own."""

import select
import time
from pathlib import Path

from .servers import connect, request


class Callers:
    """So many callers of a server, each of whom has sent one request. A context manager."""

    def __init__(self, port, count, path):
        """`path` makes a caller's path of its number."""
        self.port, self.count, self.path = port, count, path
        self.connections = []

    def __enter__(self):
        for number in range(self.count):
            self.connections.append(connect(self.port, source=f"127.1.{number >> 8}.{number & 255}"))
        for number, connection in enumerate(self.connections):
            connection.sendall(request(self.path(number)))
        return self

    def __exit__(self, *_):
        for connection in self.connections:
            connection.close()

    def answers(self, seconds, between=lambda: None):
        """The status lines that come until everybody has one, or the time is over. Calls `between` meanwhile."""
        poll, end, lines = select.poll(), time.monotonic() + seconds, []
        open_ones = {connection.fileno(): connection for connection in self.connections}
        for descriptor in open_ones:
            poll.register(descriptor, select.POLLIN)
        while open_ones and time.monotonic() < end:
            for descriptor, _ in poll.poll(10):
                poll.unregister(descriptor)
                lines.append(open_ones.pop(descriptor).recv(65536).split(b"\r\n")[0].decode())
            between()
        return lines


def connections_to(port):
    """How many established connections lead to a local port."""
    suffix = f":{port:04X}"
    found = 0
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, _, remote, state = line.split()[:4]
            found += remote.endswith(suffix) and state == "01"
    return found
