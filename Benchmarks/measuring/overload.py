"""Beyond capacity: what is served, how soon, what the rest gets, and whether health checks still have a response."""

import os
import re
import sys
from dataclasses import dataclass

from . import tools, troubles
from .contained import CONNECTIONS, Contained, Probes, flood, percentile
from .load import SCRIPTS
from .quota import Case, Emulator
from .report import table
from .verdicts import Verdict, flat, healthy, within_memory

# The flood begins with a burst. A queue is overloaded when its work has been late for a second (`server.limits.burst`), first
# the loop's and then that for Apple. One second later both should be done.
BURST = 3
MISS = "/v1/catalog/us/songs/1200868616?extend=nNUMBER"


@dataclass(frozen=True)
class Shape:
    """A kind of load, and the part of a core that the server has."""

    name: str
    cpu: float
    options: tuple
    tls: bool = False
    # The callers at once with which the server is just busy.
    closed: int = 16
    upstream: bool = False
    # Whether public health checks, which come in by the same way as the load, have to get through it.
    with_public_health: bool = True
    # The most that a refusal may cost, as a part of what the same request costs if it is served.
    refusal: float | None = None
    # How many times the capacity arrive.
    times: int = 10


SHAPES = [
    Shape("new connections", 0.1, ("--new",), with_public_health=False),
    Shape("TLS handshakes", 0.2, ("--new",), tls=True, refusal=0.2),
    Shape("catalog misses, Apple takes 200 ms", 0.2, ("--path", MISS), closed=400, upstream=True),
    Shape("catalog misses, Apple takes 200 ms", 0.2, ("--path", MISS), closed=400, upstream=True, times=3),
]


def run(directory, binary, credentials):
    """Measures every situation, and prints the table. Returns whether every aim is met."""
    quick = os.environ.get("QUICK", "") not in ("", "0")
    chosen = os.environ.get("SITUATIONS", "")
    ground = Ground(directory, binary, credentials, 3 if quick else 8)
    situations = {
        "kept": kept_connections,
        **{name: lambda ground, shape=shape: beyond_capacity(ground, shape) for name, shape in zip(
            ("new", "handshakes", "misses", "few-misses"), SHAPES)},
        **troubles.SITUATIONS,
    }
    # Server and load go before whatever else this machine does.
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    except PermissionError:
        pass
    rows = []
    for number, (name, situation) in enumerate(situations.items(), 1):
        if chosen and name not in chosen.split(","):
            continue
        print(f"[{number}/{len(situations)}] {name}", file=sys.stderr, flush=True)
        rows += situation(ground)
    print(table(["situation", "measured", "seen", "aim", "met"], [row.cells for row in rows]))
    print("""
Times are the median, the 99th percentile and the longest. Health checks come every 50 ms, over TLS every 200 ms, each on a new connection from
an address of its own; so does the client of `token, kept`, 20 times a second on one connection. The server runs in a
control group of 256 MB.""")
    return all(row.is_met is not False for row in rows)


@dataclass(frozen=True)
class Ground:
    """What every situation starts its server with, and for how long it is loaded."""

    directory: object
    binary: object
    credentials: object
    seconds: int

    def server(self, **options):
        return Contained(self.binary, self.credentials, self.directory, **options)


def kept_connections(ground):
    """2,000 callers on kept connections, each with its next request right after a response; the server has a core."""
    name = "2,000 kept connections"
    with ground.server() as server:
        wrk(server, CONNECTIONS, ground.seconds // 2)
        capacity, full = wrk(server, CONNECTIONS, ground.seconds)
        with Probes(server) as probes:
            # Each caller waits 10 ms between two requests.
            wrk(server, int(0.8 * capacity * 0.0105), ground.seconds, "pause.lua")
            usual, _ = probes.results()
        with Probes(server) as probes:
            rate, busy = wrk(server, 2000, ground.seconds)
            seen, late = probes.results()
        yield Verdict(name, "capacity", f"{capacity:,.0f}/s, {full:.1f} µs of CPU time each")
        yield goodput(name, rate, capacity)
        yield Verdict(name, "CPU time each", f"{busy:.1f} µs", "≤ 1.2× that at capacity", busy <= 1.2 * full)
        yield from healthy(name, seen, late)
        yield flat(name, "token, kept", seen["token, kept"].times, usual["token, kept"].times)
        yield from within_memory(name, server)


def wrk(server, connections, seconds, script=None):
    """Requests for a cached token. Gives the responses in a second, and the microseconds of CPU time for each."""
    before = server.cpu.total
    options = ["-s", SCRIPTS / script] if script else []
    printed = tools.output("wrk", "-t1", f"-c{connections}", f"-d{max(1, seconds)}s", *options, f"{server.url}/token")
    count = int(re.search(r"(\d+) requests in ", printed)[1])
    return float(re.search(r"Requests/sec: *([\d.]+)", printed)[1]), (server.cpu.total - before) / count * 1e6


def beyond_capacity(ground, shape):
    """Callers that come several times as often as the server can serve them, whatever became of those before."""
    name = f"{shape.times} × {shape.name}"
    emulator = Emulator(
        ground.binary, ground.credentials, Case("bucket", 1, 200), limited=False) if shape.upstream else None
    settings = {"CATALOG_UPSTREAM": f"http://127.0.0.1:{emulator.port}"} if emulator else {}
    options = [*shape.options, "--addresses", 8]
    try:
        if emulator:
            emulator.process.__enter__()
        with ground.server(cpu=shape.cpu, tls=shape.tls, settings=settings) as server:
            flood(server, 1, *options, "--closed", shape.closed, processes=1)
            capacity = flood(server, ground.seconds, *options, "--closed", shape.closed, processes=1)
            with Probes(server) as probes:
                usual = flood(server, ground.seconds, *options, rate=0.8 * capacity.rate)
                usual_probes, _ = probes.results()
            with Probes(server) as probes:
                loaded = flood(server, ground.seconds, *options, rate=shape.times * capacity.rate)
                seen, late = probes.results()
            yield Verdict(name, "capacity", f"{capacity.rate:,.0f}/s with {shape.cpu:.0%} of a core")
            yield Verdict(name, "offered, and what became of it", f"{loaded.offered:,.0f}/s; {loaded.mix}")
            yield goodput(name, loaded.rate, capacity.rate)
            yield burst(name, loaded.served_of(0, BURST), usual.served)
            yield flat(name, f"served after {BURST} s", loaded.served_of(BURST, ground.seconds), usual.served)
            yield flat(name, "token, kept", seen["token, kept"].times, usual_probes["token, kept"].times)
            yield from refusals(name, loaded, usual, shape)
            yield from healthy(name, seen, late, shape.with_public_health)
            yield from within_memory(name, server)
            recovered = flood(server, 2, *options, "--closed", shape.closed, processes=1)
            yield Verdict(
                name, "served after it", f"{recovered.rate:,.0f}/s", "≥ 80 % of capacity",
                recovered.rate >= 0.8 * capacity.rate)
    finally:
        if emulator:
            emulator.process.__exit__()


def goodput(name, rate, capacity):
    return Verdict(
        name, "served", f"{rate:,.0f}/s, {rate / capacity:.0%} of capacity", "≥ 80 % of capacity",
        rate >= 0.8 * capacity)


def burst(name, times, usual):
    """Whether what comes with the burst is served within a burst's second more than usual."""
    slow, before = percentile(times), percentile(usual)
    return Verdict(
        name, f"served in the first {BURST} s: 99th percentile", f"{slow * 1000:,.0f} ms", "≤ 1 s + that at 80 %",
        bool(times) and slow <= 1 + before)


def refusals(name, loaded, usual, shape):
    """What callers get that are not served, and what that costs."""
    unavailable = loaded.outcomes.get("503", 0)
    if unavailable:
        yield Verdict(
            name, "503 with Retry-After", f"{loaded.with_retry_after / unavailable:.1%} of all 503", "all of them",
            loaded.with_retry_after == unavailable)
    told = sum(count for outcome, count in loaded.outcomes.items() if outcome != "gave up")
    lost = loaded.outcomes.get("gave up", 0)
    yield Verdict(
        name, "neither served nor refused within 2 s", f"{lost / max(1, told + lost):.1%}",
        "≤ 1 %" if shape.with_public_health else "", lost <= 0.01 * (told + lost) if shape.with_public_health else None)
    refused = told - len(loaded.served)
    if not refused:
        return
    each = usual.cpu / max(1, len(usual.served))
    cost = max(0, loaded.cpu - each * len(loaded.served)) / refused
    yield Verdict(
        name, "CPU time of a refusal", f"{cost * 1e6:.0f} µs; {each * 1e6:.0f} µs if served",
        f"≤ {shape.refusal:.0%}" if shape.refusal else "", cost <= shape.refusal * each if shape.refusal else None)
