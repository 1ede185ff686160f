"""Stalled clients, no descriptors left, a full disk, jumps of the clock, and an upstream that hangs."""

import base64
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from . import tools
from .contained import Probes, flood
from .quota import Case, Emulator
from .servers import connect
from .verdicts import Verdict, healthy, within_memory

MISS = "/v1/catalog/us/songs/1200868616?extend=nNUMBER"
STALLED = 5000


class Peers:
    """Peers of one kind, which stay until the end. A context manager."""

    def __init__(self, server, kind, count, addresses=4):
        self.command = [
            sys.executable, "-B", tools.ROOT / "Tests/Python/hostile_peers.py", str(server.port), kind, str(count),
            "/token", str(addresses)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # An empty line is a step towards it.
        counts = json.loads(next(filter(str.strip, self.process.stdout)))
        self.open, self.refused = counts["open"], counts["refused"]
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def stalled(name, kind, tls):
    """So many clients that have sent a part of something, and nothing since."""

    def situation(ground):
        title = f"{STALLED:,} stalled clients, {name}"
        with ground.server(tls=tls) as server:
            with Probes(server) as probes, Peers(server, kind, STALLED) as peers:
                time.sleep(ground.seconds)
                seen, late = probes.results()
            yield Verdict(title, "kept, refused", f"{peers.open:,}, {peers.refused:,}")
            yield from healthy(title, seen, late)
            yield from within_memory(title, server)

    return situation


def few_descriptors(ground):
    """More connections than a server with few descriptors can have."""
    name = "2,000 connections, 512 descriptors"
    with ground.server(within=["prlimit", "--nofile=512"]) as server:
        with Probes(server) as probes, Peers(server, "idle", 2000) as peers:
            time.sleep(ground.seconds)
            seen, late = probes.results()
        yield Verdict(
            name, "kept; refused with 503 or closed", f"{peers.open}; {peers.refused}", "every other one refused",
            peers.open + peers.refused == 2000 and peers.open < 512)
        yield from healthy(name, seen, late, with_public=False)
        with Probes(server) as probes:
            time.sleep(1)
            seen, late = probes.results()
        yield from healthy(f"{name}: after they have gone", seen, late)
        yield lines(name, server, 2)


def no_descriptors(ground):
    """A server that has no descriptors left except the few that its admin listener keeps."""
    name = "no descriptors left"
    with ground.server() as server:
        with Probes(server) as probes:
            time.sleep(0.5)
            limit(server, len(glob(f"/proc/{server.child.pid}/fd/*")))
            others = [connect(server.port) for _ in range(50)]
            before = server.cpu.total
            time.sleep(ground.seconds)
            busy = (server.cpu.total - before) / ground.seconds
            seen, _ = probes.results()
        yield from healthy(name, seen, 0, with_public=False)
        yield Verdict(name, "CPU time meanwhile", f"{busy:.1%} of a core", "≤ 5 %", busy <= 0.05)
        for other in others:
            other.close()
        limit(server, 10_000)
        start = time.perf_counter()
        status = get(f"http://127.0.0.1:{server.admin}/healthz")[0]
        seconds = time.perf_counter() - start
        yield Verdict(
            name, "healthz, admin, once there are some", f"{status} after {seconds * 1000:.0f} ms", "200 after ≤ 1 s",
            status == 200 and seconds <= 1)
        yield lines(name, server, 4)


def limit(server, files):
    subprocess.run([tools.find("prlimit"), f"--pid={server.child.pid}", f"--nofile={files}:"], check=True)


def lines(name, server, most):
    logged = [line.get("message", "") for line in server.warnings]
    texts = "; ".join(sorted({text.partition(":")[0] for text in logged}))
    return Verdict(name, "lines in the log", f"{len(logged)}" + (f": {texts}" if logged else ""), f"≤ {most}",
                   len(logged) <= most)


def full_disk(ground):
    """The log and the audit log are on a disk that fills up, and has room again."""
    name = "full disk"
    folder = ground.directory / "disk"
    folder.mkdir()
    script = (
        f"mount -t tmpfs -o size=256k none {folder} && head -c 128k /dev/zero >{folder}/filler && "
        f'exec "$0" "$@" 2>{folder}/server.log')
    with ground.server(
            within=["unshare", "-m", "sh", "-c", script],
            settings={"AUDIT_FILE": f"{folder}/audit.log", "LOG_LEVEL": "info"}) as server:
        with Probes(server) as probes:
            loaded = flood(server, ground.seconds, "--closed", 8, processes=1)
            seen, late = probes.results()
        lost = server.metrics()["musickit_audit_lines_dropped_total"]
        others = {outcome: count for outcome, count in loaded.outcomes.items() if outcome != "200"}
        yield Verdict(
            name, "requests that fail", f"{sum(others.values())} of {len(loaded.served):,}", "none", not others)
        yield Verdict(name, "audit lines lost, and counted", f"{lost:,.0f}", "> 0", lost > 0)
        yield from healthy(name, seen, late)
        audit = f"{folder}/audit.log"
        within(server, f"mount -o remount,size=16m {folder} && : >{audit}")
        # The server tries again every 100 ms, and until then no further line has room.
        within(server, f"timeout 10 sh -c 'until [ -s {audit} ]; do sleep 0.01; done'")
        lost = server.metrics()["musickit_audit_lines_dropped_total"]
        waited = int(within(server, f"grep -c audit {audit}"))
        more = len(flood(server, 1, "--rate", 50, processes=1).served)
        time.sleep(0.5)
        written = int(within(server, f"grep -c audit {audit}")) - waited
        lost = server.metrics()["musickit_audit_lines_dropped_total"] - lost
        yield Verdict(
            name, "with room again: those that waited, and lines of further grants; lost",
            f"{waited:,}, {written} of {more}; {lost:.0f}", "some, all; none",
            waited > 0 and written == more > 0 and lost == 0)


def within(server, script):
    """Runs a script in the server's mount namespace."""
    return subprocess.run(
        [tools.find("nsenter"), "-t", str(server.child.pid), "-m", "sh", "-c", script], check=True, text=True,
        stdout=subprocess.PIPE).stdout


JUMPS = [
    ("an hour ahead", 3600), ("13 hours ahead", 13 * 3600), ("back", 0), ("two hours behind", -7200),
    ("thirty days ahead", 30 * 86_400), ("back", 0),
]


def clock_jumps(ground):
    """The clock jumps both ways, for the server alone; monotonic clocks do not jump."""
    name = "clock jumps"
    library, clock = ground.directory / "wall_clock.so", ground.directory / "clock"
    source = Path(__file__).with_name("wall_clock.c")
    subprocess.run(
        [tools.find("clang"), "-Wall", "-Werror", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
    clock.write_bytes(bytes(8))
    preload = {"LD_PRELOAD": str(library), "WALL_CLOCK_OFFSET": str(clock)}
    with ground.server(preload=preload) as server, open(clock, "r+b", buffering=0) as offsets:
        get(f"{server.url}/token")
        for what, offset in JUMPS:
            offsets.seek(0)
            offsets.write(offset.to_bytes(8, sys.byteorder, signed=True))
            with Probes(server) as probes:
                before = server.cpu.total
                time.sleep(1)
                busy = server.cpu.total - before
                seen, _ = probes.results()
            wrong = [problem for _ in range(5) for problem in problems(get(f"{server.url}/token"), offset)]
            yield Verdict(
                name, f"{what}: tokens", "; ".join(sorted(set(wrong))) or "6 to 12 hours left, issued in the past",
                "right", not wrong)
            slowest = max(max(check.times) for check in seen.values())
            failed = sum(check.failed for check in seen.values())
            yield Verdict(
                name, f"{what}: checks, CPU time", f"≤ {slowest * 1000:.0f} ms, {failed} failed; {busy:.0%} of a core",
                "≤ 100 ms, none; ≤ 25 %", slowest <= 0.1 and failed == 0 and busy <= 0.25)


def problems(response, offset):
    """What is wrong with a token at a time that is so many seconds from the real one."""
    status, content = response
    if status != 200:
        return [f"status {status}"]
    token = json.loads(content)
    payload = token["token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    now = time.time() + offset
    left = claims["exp"] - now
    return [
        *([f"{left / 3600:.1f} hours left"] if not 6 * 3600 - 2 <= left <= 12 * 3600 + 2 else []),
        *(["issued in the future"] if claims["iat"] > now + 1 else [])]


def hanging_upstream(ground):
    """An upstream that stops in the middle of a load, and goes on later."""
    name = "hanging upstream"
    emulator = Emulator(ground.binary, ground.credentials, Case("bucket", 1, 20), limited=False)
    settings = {
        "CATALOG_UPSTREAM": f"http://127.0.0.1:{emulator.port}", "CATALOG_TIMEOUTS_FIRST_BYTE": "2s",
        "CATALOG_TIMEOUTS_WHOLE": "5s"}
    load = ["--path", MISS, "--patience", 20]
    try:
        emulator.process.__enter__()
        with ground.server(settings=settings) as server:
            flood(server, 2, *load, rate=50, processes=1)
            child = emulator.process.child
            child.send_signal(signal.SIGSTOP)
            try:
                with Probes(server) as probes:
                    hung = flood(server, 12, *load, rate=50, processes=1)
                    seen, late = probes.results()
            finally:
                child.send_signal(signal.SIGCONT)
            time.sleep(2)
            after = flood(server, 3, *load, rate=50, processes=1)
            slowest = max(hung.refused, default=0)
            yield Verdict(name, "catalog, at 50/s", hung.mix)
            yield Verdict(
                name, "longest wait for an error", f"{slowest:.1f} s", "≤ 6 s: catalog.timeouts.whole is 5 s",
                0 < slowest <= 6 and not hung.outcomes.keys() - {"502", "503", "504"})
            yield from healthy(name, seen, late)
            served = len(after.served) / max(1, sum(after.outcomes.values()))
            yield Verdict(name, "served, two seconds after it goes on", f"{served:.0%}", "≥ 95 %", served >= 0.95)
    finally:
        emulator.process.__exit__()


def get(url):
    """The status of a response, and its content."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


SITUATIONS = {
    "stalled": stalled("half a head each", "begun", tls=False),
    "stalled-tls": stalled("half a TLS handshake each", "handshake", tls=True),
    "few-descriptors": few_descriptors,
    "no-descriptors": no_descriptors,
    "disk": full_disk,
    "clock": clock_jumps,
    "upstream": hanging_upstream,
}
