"""A small quota upstream: how much of it is used, how many requests are refused, and what a modest client gets."""

import asyncio
import hashlib
import json
import math
import os
import random
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field

from . import picture, tools
from .process import Process, free_port
from .report import table
from .servers import Nginx, Ours, Site

GREEDY, MODEST = ("mkts_" + digit * 49 for digit in "01")
GREEDY_CONNECTIONS = 50
WARM_UP = 10
LIMITERS = {"bucket": "bucket", "fixed window": "fixed-window", "sliding window": "sliding-window"}
QUOTAS = [2, 5, 20, 100, 300]


@dataclass(frozen=True)
class Case:
    """An upstream with a quota."""

    limiter: str
    quota: int
    milliseconds: int

    @property
    def seconds(self):
        return (60 if quick() else 300) if self.quota < 20 else 60

    @property
    def recovery(self):
        """The seconds in which a quota that has doubled is to be in use."""
        return 60 if self.quota < 20 else 5

    @property
    def name(self):
        return f"{self.limiter}, {self.quota}/s, {self.milliseconds} ms"

    @property
    def connections(self):
        """Greedy connections: twice as many as keep even the doubled quota busy."""
        return max(GREEDY_CONNECTIONS, 4 * self.quota * self.milliseconds // 1000)

    def limit(self, factor=1):
        return f"{LIMITERS[self.limiter]}:{self.quota * factor}/1s"


@dataclass
class Result:
    """What was seen of one case."""

    case: Case
    alone: float = 0
    used: float = 0
    refused: float = 0
    asked: int = 0
    failed: int = 0
    times: list = field(default_factory=list)
    recovery: float = math.inf
    # For each second: the requests that the upstream admitted and refused, and the responses for each client.
    seconds: list = field(default_factory=list)

    @property
    def slowest(self):
        return percentile(self.times)

    @property
    def bound(self):
        return 3 * self.alone + 2 / self.case.quota

    @property
    def is_met(self):
        return (
            self.used >= 0.9 and self.refused <= 0.02 and self.failed == 0 and self.slowest <= self.bound
            and self.recovery <= self.case.recovery)

    @property
    def cells(self):
        return [
            self.case.name, f"{self.used:.1%}", f"{self.refused:.2%}", f"{self.failed} of {self.asked}",
            f"{self.slowest * 1000:.0f} ms", f"{self.bound * 1000:.0f} ms",
            f"{self.recovery:.1f} s" if self.recovery < math.inf else "never", "yes" if self.is_met else "no"]


class Emulator:
    """Our emulator of Apple Music, with a limit."""

    def __init__(self, binary, credentials, case, limited=True):
        self.port = free_port()
        limit = ["--limit", case.limit()] if limited else []
        command = [
            binary, "sandbox", "--port", str(self.port), "--team-id", "TEAM123456", "--key-id", "BENCH12345",
            "--key-file", credentials.signing_key, "--latency", f"{case.milliseconds}ms", *limit]
        self.process = Process(command, self.port, tools.CORES, dict(os.environ))

    async def counts(self):
        """The requests that the limit has admitted, and those that it has refused."""
        counts = await asyncio.to_thread(self._control)
        return counts["admitted"], counts["limited"]

    async def change(self, limit):
        await asyncio.to_thread(self._control, json.dumps({"limit": limit}).encode())

    def _control(self, body=None):
        url = f"http://127.0.0.1:{self.port}/sandbox/faults"
        with urllib.request.urlopen(urllib.request.Request(url, body, method="PUT" if body else "GET")) as answer:
            return json.loads(answer.read() or "{}")


class Load:
    """A greedy client with many connections and a modest one with one request at a time, of a rate that varies."""

    def __init__(self, port, rate):
        self.port, self.rate = port, rate
        self.answers = {GREEDY: 0, MODEST: 0}
        self.modest = []
        self.under_way = set()
        self.number = 0

    async def greedy(self):
        await asyncio.sleep(random.random() / 100)
        while True:
            status, wait = await self.ask(GREEDY)
            if status != 200:
                await asyncio.sleep(min(wait, 1) + random.random() / 10)

    async def modest_client(self):
        while True:
            await asyncio.sleep(random.uniform(0.5, 1.5) / self.rate)
            request = asyncio.ensure_future(self.modest_request())
            self.under_way.add(request)
            request.add_done_callback(self.under_way.discard)

    async def modest_request(self):
        started = time.perf_counter()
        status, _ = await self.ask(MODEST)
        self.modest.append((started, time.perf_counter() - started, status == 200))

    async def ask(self, key):
        """One request; no two are equal, so none shares another's response."""
        self.number += 1
        path = f"/v1/catalog/us/songs/1200868616?extend=n{self.number}"
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(head.encode())
            answer = await reader.read()
            writer.close()
        except OSError:
            return 0, 1
        lines = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1]) if lines[0] else 0
        wait = next((line.split(":")[1] for line in lines if line.lower().startswith("retry-after:")), "1")
        if status == 200:
            self.answers[key] += 1
        return status, float(wait)


def quick():
    return os.environ.get("QUICK", "") not in ("", "0")


def percentile(times):
    ordered = sorted(times)
    return ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)] if ordered else 0


def ours(binary, credentials, port):
    clients = ", ".join(
        f'{{ id: "{name}", catalog: true, apiKey: {{ sha256: "{hashlib.sha256(key.encode()).hexdigest()}" }} }}'
        for name, key in (("greedy", GREEDY), ("modest", MODEST)))
    return Ours(binary, credentials, {
        "CATALOG_UPSTREAM": f"http://127.0.0.1:{port}", "CATALOG_CACHE_MAX_BYTES": "0", "ACCESS_ANONYMOUS": "",
        "ACCESS_CLIENTS": f"[{clients}]"}).start(cores=tools.CORES)


def nginx(directory, credentials, port, token, quota):
    """nginx with `limit_req` for the whole team, told the quota that ours has to find."""
    http = f"  limit_req_zone $server_addr zone=team:1m rate={quota}r/s;"
    return Nginx(directory, credentials, Site(f"""
    location / {{
      limit_req zone=team burst={quota};
      proxy_pass http://127.0.0.1:{port};
      proxy_set_header Authorization "Bearer {token}";
    }}""", http)).start(cores=tools.CORES)


async def measure(case, emulator, port, alone=0.0, doubles=True):
    """Loads the server on a port for as long as the case says."""
    result = Result(case, alone)
    # Two fifths of the modest client's equal share. The client must request at most half of that share.
    load = Load(port, case.quota / 2 * 0.4)
    tasks = [asyncio.ensure_future(load.greedy()) for _ in range(case.connections)]
    tasks.append(asyncio.ensure_future(load.modest_client()))
    started = time.perf_counter()
    counts, answers = (0, 0), dict(load.answers)
    first = None
    for second in range(WARM_UP + case.seconds):
        await asyncio.sleep(max(started + second + 1 - time.perf_counter(), 0))
        if second == WARM_UP - 1:
            first = (time.perf_counter(), await emulator.counts())
        now = await emulator.counts()
        result.seconds.append((
            now[0] - counts[0], now[1] - counts[1], load.answers[GREEDY] - answers[GREEDY],
            load.answers[MODEST] - answers[MODEST]))
        counts, answers = now, dict(load.answers)
    end = time.perf_counter()
    admitted, limited = (after - before for after, before in zip(counts, first[1]))
    result.used = admitted / (end - first[0]) / case.quota
    result.refused = limited / max(admitted + limited, 1)
    judged = [sample for sample in load.modest if first[0] <= sample[0] <= end - 5]
    result.asked, result.failed = len(judged), sum(not good for _, _, good in judged)
    result.times = [length for _, length, good in judged if good]
    if doubles:
        result.recovery = await recovery(case, emulator)
    tasks.extend(load.under_way)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return result


async def recovery(case, emulator):
    """Doubles the quota, and waits until nine tenths of it are used, over twenty requests or a second."""
    await emulator.change(case.limit(2))
    span = max(20 / case.quota, 1)
    started = time.perf_counter()
    samples = [(0.0, (await emulator.counts())[0])]
    while samples[-1][0] < case.recovery * 2 + span:
        await asyncio.sleep(0.1)
        samples.append((time.perf_counter() - started, (await emulator.counts())[0]))
        begin = next((sample for sample in reversed(samples) if sample[0] <= samples[-1][0] - span), None)
        if begin and samples[-1][1] - begin[1] >= 0.9 * 2 * case.quota * (samples[-1][0] - begin[0]):
            return begin[0]
    return math.inf


async def alone(binary, credentials, milliseconds):
    """The p99 of requests without a limit and without another client."""
    emulator = Emulator(binary, credentials, Case("bucket", 1, milliseconds), limited=False)
    with emulator.process, ours(binary, credentials, emulator.port) as server:
        load = Load(server.port, 1)
        for _ in range(50):
            await load.modest_request()
    return percentile([length for _, length, _ in load.modest])


async def run_case(binary, credentials, case, slowest):
    emulator = Emulator(binary, credentials, case)
    with emulator.process, ours(binary, credentials, emulator.port) as server:
        result = await measure(case, emulator, server.port, slowest)
    print("; ".join(result.cells), flush=True)
    return result


async def run_picture(directory, binary, credentials):
    """The first minute of ours and of nginx, before the same kind of upstream."""
    case = Case("fixed window", 20, 100)
    emulators = [Emulator(binary, credentials, case) for _ in range(2)]
    token = subprocess.run(
        [binary, "mint", "--key-file", credentials.signing_key, "--key-id", "BENCH12345", "--team-id", "TEAM123456"],
        capture_output=True, text=True, check=True).stdout.strip()
    with emulators[0].process, emulators[1].process:
        with ours(binary, credentials, emulators[0].port) as mine:
            with nginx(directory, credentials, emulators[1].port, token, case.quota) as theirs:
                return await asyncio.gather(
                    measure(case, emulators[0], mine.port, doubles=False),
                    measure(case, emulators[1], theirs.port, doubles=False))


class Room:
    """As many cases at a time as send so many requests a second: the machine is not what is measured.

    Every quota doubles in the end, and those that began together do so together.
    """

    def __init__(self, most=640):
        self.left, self.changed = most, asyncio.Condition()

    async def run(self, case, work):
        async with self.changed:
            await self.changed.wait_for(lambda: self.left >= 2 * case.quota)
            self.left -= 2 * case.quota
        try:
            return await work
        finally:
            async with self.changed:
                self.left += 2 * case.quota
                self.changed.notify_all()


def cases():
    latencies = [100] if quick() else [15, 100, 400]
    return [Case(limiter, quota, latency) for quota in QUOTAS for latency in latencies for limiter in LIMITERS]


async def run_all(directory, binary, credentials):
    room = Room()
    print("; ".join(HEADER), flush=True)
    slowest = {latency: await alone(binary, credentials, latency) for latency in {case.milliseconds for case in cases()}}
    results = await asyncio.gather(*(
        room.run(case, run_case(binary, credentials, case, slowest[case.milliseconds])) for case in cases()))
    return results, await run_picture(directory, binary, credentials)


HEADER = [
    "upstream", "quota used", "refused", "modest failures", "modest p99", "may be", "doubled quota in use", "aim met"]


def run(directory, binary, credentials):
    """Measures every case, prints the table, and draws the picture."""
    results, (mine, theirs) = asyncio.run(run_all(directory, binary, credentials))
    print()
    print(table(HEADER, [result.cells for result in results]))
    path = tools.ROOT / "docs/quota.svg"
    path.write_text(picture.draw(mine, theirs, GREEDY_CONNECTIONS))
    for name, result in (("ours", mine), ("nginx", theirs)):
        print(f"{name}: used {result.used:.1%}, refused upstream {result.refused:.2%}, "
              f"modest failures {result.failed} of {result.asked}, p99 {result.slowest * 1000:.0f} ms")
