"""The server in a container of 256 MB, with its admin listener, and the loads and probes around it."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import tools
from .group import Group
from .load import CONNECTIONS, warm_up
from .process import Process, free_port

HERE = Path(__file__).parent
MEGABYTES = 256


class Contained(Process):
    """The release binary with one loop in a control group. A context manager."""

    def __init__(self, binary, credentials, directory, cpu=None, tls=False, settings=None, within=None, preload=None):
        """`within` are the words of a command that runs the server, `preload` are variables for it."""
        self.group = Group(MEGABYTES, cpu)
        self.admin, self.is_secure = free_port(), tls
        port = free_port()
        self.log = directory / f"server-{port}.log"
        environment = {
            "MUSICKIT_TEAM_ID": "TEAM123456",
            "MUSICKIT_KEY_FILE": str(credentials.signing_key),
            "ACCESS_ANONYMOUS": "{ token: true, catalog: true }",
            "SERVER_PORT": str(port),
            "SERVER_LOOPS": "1",
            "ADMIN_PORT": str(self.admin),
            "LOG_LEVEL": "warning",
            "LOG_FORMAT": "json",
            "CATALOG_UPSTREAM": "http://127.0.0.1:1",
        }
        if tls:
            environment["SERVER_TLS_CERTIFICATE_FILE"] = str(credentials.certificate)
            environment["SERVER_TLS_KEY_FILE"] = str(credentials.key)
        self.group.__enter__()
        with open(self.log, "ab") as errors:
            super().__init__(
                [*(within or []), binary, "serve"], port, tools.SERVER_CORES,
                environment | (settings or {}) | (preload or {}), errors=errors, enter=self.group.enter)

    def __enter__(self):
        try:
            return super().__enter__()
        except RuntimeError as error:
            self.__exit__()
            raise RuntimeError(f"{error}:\n{self.log.read_text()}") from None

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.group.__exit__()

    @property
    def url(self):
        return f"{'https' if self.is_secure else 'http'}://127.0.0.1:{self.port}"

    @property
    def warnings(self):
        """The lines of the log."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def metrics(self):
        """The samples of the metrics' page, by name and labels."""
        page = tools.output("curl", "-s", "-m", 10, f"http://127.0.0.1:{self.admin}/metrics")
        return {
            name: float(value) for name, _, value in
            (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))}


def percentile(times, share=0.99):
    """The time in seconds below which this share of the times is; 0 without any."""
    ordered = sorted(times)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


@dataclass
class Seen:
    """The times of one kind of request, and how many of them failed."""

    times: list = field(default_factory=list)
    failures: dict = field(default_factory=dict)

    @property
    def failed(self):
        return sum(self.failures.values())

    def text(self):
        """The median, the 99th percentile and the longest time in milliseconds, and the failures."""
        if not self.times:
            return "–"
        figures = " / ".join(
            f"{seconds * 1000:.{0 if seconds >= 0.01 else 1}f}"
            for seconds in (percentile(self.times, 0.5), percentile(self.times), max(self.times)))
        why = ", ".join(f"{count} {name}" for name, count in sorted(self.failures.items()))
        return f"{figures} ms" + (f"; of {len(self.times)}: {why}" if why else "")


class Probes:
    """Health checks on both listeners, and a modest client, while a load runs. A context manager."""

    NAMES = ("healthz, admin", "readyz, admin", "healthz, public", "readyz, public", "token, kept")

    def __init__(self, server):
        admin = f"http://127.0.0.1:{server.admin}"
        urls = [f"{admin}/healthz", f"{admin}/readyz", f"{server.url}/healthz", f"{server.url}/readyz"]
        self.command = [sys.executable, "-B", HERE / "probes.py", *urls, "--modest", f"{server.url}/token"]

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def results(self):
        """Ends the probes. Gives what each has seen, by name, and the longest delay of the probes' own."""
        printed = json.loads(self.process.communicate("", timeout=60)[0])
        seen = {name: Seen(**subject) for name, subject in zip(self.NAMES, printed["subjects"])}
        return seen, printed["lateness"]


@dataclass
class Flooded:
    """What callers at a rate, or so many at once, have got."""

    seconds: float
    offered: float
    served: list
    # When each of these was due, in seconds after the start.
    served_due: list
    refused: list
    outcomes: dict
    with_retry_after: int
    cpu: float

    @property
    def rate(self):
        """Requests served in a second."""
        return len(self.served) / self.seconds

    def served_of(self, first, last):
        """The times of the requests that were due between these seconds."""
        return [time for time, due in zip(self.served, self.served_due) if first <= due < last]

    @property
    def mix(self):
        return ", ".join(f"{count / self.seconds:,.0f}/s {name}" for name, count in sorted(self.outcomes.items()))


def flood(server, seconds, *options, rate=None, processes=2):
    """Floods the server: at this rate, or as `options` say."""
    each = [] if rate is None else ["--rate", rate / processes]
    before = server.cpu.total
    running = [
        subprocess.Popen(
            [sys.executable, "-B", HERE / "flood.py", str(server.port), "--seconds", str(seconds), "--network",
             str(16 + number), *map(str, each), *map(str, options), *(["--tls"] if server.is_secure else [])],
            stdout=subprocess.PIPE, text=True)
        for number in range(processes)]
    results = [json.loads(process.communicate()[0]) for process in running]
    outcomes = {}
    for result in results:
        for name, count in result["outcomes"].items():
            outcomes[name] = outcomes.get(name, 0) + count
    return Flooded(
        max(result["seconds"] for result in results), sum(result["offered"] for result in results),
        [time for result in results for time in result["served"]],
        [due for result in results for due in result["served_due"]],
        [time for result in results for time in result["refused"]], outcomes,
        sum(result["with_retry_after"] for result in results), server.cpu.total - before)


__all__ = ["CONNECTIONS", "Contained", "Flooded", "Probes", "Seen", "flood", "percentile", "warm_up"]
