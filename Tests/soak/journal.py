"""The log of a server: a file of JSON lines, read while the server writes it."""

import json
import time
from collections import Counter


def eventually(what, condition, limit=60):
    """Waits until the condition holds, and returns its value. The limit only ends a wait that would not end."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"after {limit} s this has not happened: {what}")
        time.sleep(0.01)


class Journal:
    """The lines so far: access lines by request ID, and all others."""

    def __init__(self, path):
        self.path = path
        self._file = open(path, "rb")
        self._rest = b""
        # (route, method, status) of each access line by its request ID.
        self.accesses = {}
        self.repeated = []
        # The access lines of the public listener by route, method and status, as the metric counts them.
        self.counts = Counter()
        self.others = []
        # Lines that are no JSON object.
        self.foreign = []

    def read(self):
        """Reads what is new."""
        while part := self._file.read(1 << 20):
            *lines, self._rest = (self._rest + part).split(b"\n")
            for line in lines:
                self._take(line)

    def _take(self, line):
        try:
            entry = json.loads(line)
        except ValueError:
            self.foreign.append(line)
            return
        if entry.get("http.route") == "/metrics":
            # A request of this run's own, on the admin listener.
            return
        if entry.get("message") != "access":
            self.others.append(entry)
            return
        what = (entry["http.route"], entry["http.method"], entry["http.status"])
        if entry["request.id"] in self.accesses:
            self.repeated.append(entry["request.id"])
        self.accesses[entry["request.id"]] = what
        self.counts[what] += 1

    def mark(self):
        """A place in the log, for `wait`."""
        self.read()
        return len(self.others)

    def wait(self, message, since, **fields):
        """Waits for a line after the mark that begins with this message and has these fields."""
        def found():
            self.read()
            return next((
                line for line in self.others[since:]
                if line.get("message", "").startswith(message)
                and all(line.get(name) == value for name, value in fields.items())), None)
        return eventually(f"{self.path.name} has a line “{message}”", found)
