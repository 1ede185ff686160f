"""The kinds of load, each with what it cost the server."""

import multiprocessing
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import tools
from .handshaking import shake_hands
from .process import CPUTime
from .servers import TOKEN, connect, exchange

CONNECTIONS = 64
SCRIPTS = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Sample:
    """So many requests or handshakes in so many seconds, and the server's CPU time for them."""

    count: int
    seconds: float
    cpu: CPUTime

    @property
    def microseconds(self):
        """CPU time of each."""
        return self.cpu.total / self.count * 1e6

    @property
    def user(self):
        return self.cpu.user / self.count * 1e6

    @property
    def system(self):
        return self.cpu.system / self.count * 1e6

    @property
    def rate(self):
        return self.count / self.seconds


def requests(
        server, seconds, tls=False, path=TOKEN, script=None, arguments=(), fields=(), connections=CONNECTIONS):
    """Requests over kept connections with these header fields, as fast as the answers come.

    The arguments are the script's.
    """
    warm_up(server, tls, path)
    options = ["-s", SCRIPTS / script] if script else []
    options += [option for field in fields for option in ("-H", field)]
    url = f"{'https' if tls else 'http'}://127.0.0.1:{server.port}{path}"
    before = server.cpu
    printed = tools.output("wrk", "-t1", f"-c{connections}", f"-d{seconds}s", *options, url, "--", *arguments)
    cpu = server.cpu - before
    check(printed)
    count = re.search(r"(\d+) requests in ", printed)
    rate = re.search(r"Requests/sec: *([\d.]+)", printed)
    return Sample(int(count[1]), int(count[1]) / float(rate[1]), cpu)


def slowest(server, seconds, path=TOKEN, meanwhile=lambda: None):
    """The 99th percentile, in milliseconds, of a steady load, beside which `meanwhile` runs.

    Each connection waits 10 ms after a response, so the server is far from its capacity.
    """
    warm_up(server, path=path)
    program = tools.start(
        "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", SCRIPTS / "pause.lua",
        f"http://127.0.0.1:{server.port}{path}")
    try:
        meanwhile()
    finally:
        printed, _ = program.communicate()
    check(printed)
    number, unit = re.search(r"99% +([\d.]+)(us|ms|s)", printed).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


def check(printed):
    """Raises unless wrk says that every response had a status of 2xx."""
    if "Socket errors" in printed or "Non-2xx" in printed or "requests in" not in printed:
        raise RuntimeError(f"not every request was answered:\n{printed}")


def http2_requests(server, seconds, connections, streams):
    """Requests over HTTP/2 with TLS, with so many streams at once on each connection."""
    warm_up(server, tls=True)
    url = f"https://127.0.0.1:{server.port}{TOKEN}"
    before = server.cpu
    printed = tools.output("h2load", "-t1", f"-c{connections}", f"-m{streams}", f"-D{seconds}", url)
    cpu = server.cpu - before
    count = int(re.search(r"(\d+) succeeded", printed)[1])
    if "Application protocol: h2" not in printed or f"status codes: {count} 2xx, 0 3xx, 0 4xx, 0 5xx" not in printed:
        raise RuntimeError(f"not every request was answered over HTTP/2:\n{printed}")
    return Sample(count, seconds, cpu)


def requests_of_many(server, seconds, connections):
    """Requests without what it costs to open and close the connections: a long run less a short one."""
    short = requests(server, 2, connections=connections)
    time.sleep(0.5)
    long = requests(server, 2 + 2 * seconds, connections=connections)
    return Sample(long.count - short.count, long.seconds - short.seconds, long.cpu - short.cpu)


def handshakes(server, seconds, version, resumes):
    """Connections with a TLS handshake and nothing else, from two clients."""
    warm_up(server, tls=True)
    with multiprocessing.Pool(2, os.sched_setaffinity, (0, tools.LOAD_CORES)) as clients:
        before, start = server.cpu, time.perf_counter()
        counts = clients.starmap(shake_hands, [(server.port, version, resumes, seconds)] * 2)
        elapsed, cpu = time.perf_counter() - start, server.cpu - before
    return Sample(sum(counts), elapsed, cpu)


def idle(server, connections, tls=False):
    """Bytes of server memory for each connection that rests after one request."""
    warm_up(server, tls)
    before = server.memory.resident
    held = []
    try:
        for _ in range(connections):
            held.append(connect(server.port, tls))
            exchange(held[-1])
        time.sleep(0.3)
        return (server.memory.resident - before) / connections
    finally:
        for connection in held:
            connection.close()


def signatures(seconds):
    """Signatures with P-256 in a second of CPU time, by OpenSSL's own benchmark."""
    printed = tools.output("openssl", "speed", "-seconds", seconds, "ecdsap256")
    # The last line has the seconds of one signature and of one verification, then the number of each per second.
    return float(printed.splitlines()[-1].split()[-2])


def warm_up(server, tls=False, path=TOKEN):
    """As many connections at once as the load has, so that first-time costs are not counted."""
    held = [connect(server.port, tls) for _ in range(CONNECTIONS)]
    for connection in held:
        exchange(connection, path)
        connection.close()


def tls_parameters(port):
    """What a handshake with default settings agrees on."""
    command = [tools.find("openssl"), "s_client", "-connect", f"127.0.0.1:{port}", "-brief"]
    printed = subprocess.run(
        command, input="", text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10).stdout
    names = ("Protocol version", "Ciphersuite", "Signature type", "Server Temp Key")
    return ", ".join(
        line.partition(": ")[2].split(",")[0] for line in printed.splitlines() if line.partition(": ")[0] in names)
