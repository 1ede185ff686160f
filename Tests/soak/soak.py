"""A run from its start to its verdict."""

import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import closing
import samples
import wire
from events import Events
from exchanges import POPULAR, Exchanges
from ground import Ground, Settings, private_pem
from judge import Judge
from load import Load
from processes import Emulator, Process, Store, free_port
from truth import Truth

RATE = 350
# A cycle with a new key takes longer than this.
SECONDS_OF_KEY = 5
# How long a run may take beyond twice its time, before it counts as hanging: a busy machine needs it for the cycles
# without which there is no verdict.
GRACE = 900
EXAMPLES = 2


class Run:
    """The servers, their emulators and their load."""

    def __init__(self, binary, directory, seconds, seed):
        self.directory = directory
        self.ground = Ground(directory, free_port())
        keys = [self.ground.signing_key() for _ in range(20 + seconds // SECONDS_OF_KEY)]
        (directory / "apple").mkdir()
        for key in keys:
            (directory / "apple" / key.file).write_text(private_pem(key.private))
            (directory / "apple" / key.file).chmod(0o600)
        settings = Settings((keys[0],), ("active",), self.ground.certificate(), (self.ground.api_key(),))
        self.truth = Truth(keys[0], settings.rotating[0], settings.certificate, settings.web_ttl)
        self.judge = Judge(self.truth)
        self.ground.write(settings)
        store = Store("store", directory, free_port())
        self.events = Events(self.ground, self.truth, self.judge, binary, keys[1:], settings, store)
        secure = Emulator("apple-h2", binary, directory, keys, free_port(), is_secure=True)
        plain = Emulator("apple-h1", binary, directory, keys[:4], free_port(), is_secure=False)
        # Two that live as long as the run, one for each protocol to Apple Music, and one that is replaced.
        self.survivors = [self.events.start(secure, "survivor-h2"), self.events.start(plain, "survivor-h1")]
        self.events.start(secure, "first")
        exchanges = Exchanges(self.ground, self.truth, self.judge, bodies((secure, plain), keys[0]))
        self.load = Load(
            self.ground.port, wire.client_context(directory / "authority.pem"), exchanges, self.judge, self.truth,
            RATE, seed)
        self.samples = {server: [] for server in self.survivors}
        self.findings, self.pages = [], []
        self.cycles = 0

    def soak(self, seconds):
        """Runs cycles until the time is over, and there are enough of them for a verdict."""
        begin = time.monotonic()
        self.load.start()
        while time.monotonic() - begin < seconds or self.cycles < samples.WARM_UP + samples.FEWEST:
            self.events.cycle()
            self.cycles += 1
            self.load.pause()
            self.look()
            self.load.resume()
            figures = ", ".join(
                f"{server.name} {taken[-1].resident / 1e6:.1f} MB, {len(taken[-1].descriptors)} descriptors"
                for server, taken in self.samples.items())
            print(
                f"cycle {self.cycles:2}, {time.monotonic() - begin:3.0f} s: {len(self.judge.claims):,} responses, "
                f"{len(self.judge.findings) + len(self.findings)} wrong; {figures}", flush=True)
        self.load.stop()
        self.seconds = time.monotonic() - begin

    def look(self):
        """Takes samples of all servers, which are at rest."""
        for server in self.events.servers:
            metrics = samples.at_rest(server)
            self.findings += closing.agreement(server, metrics)
            self.pages.append(metrics.text)
            if server in self.samples:
                taken = self.samples[server]
                like = taken[samples.WARM_UP] if len(taken) > samples.WARM_UP else None
                taken.append(samples.sample(server, like))

    def close(self):
        """Ends the servers, and returns all findings."""
        pages = self.directory / "metrics"
        pages.write_text("\n".join(self.pages))
        for server in list(self.events.servers):
            server.signal(signal.SIGTERM)
            if (status := server.ended()) != 0:
                self.findings.append(f"{server.name}: the exit status is {status}, not 0")
        servers = self.events.servers + self.events.ended
        for server, taken in self.samples.items():
            self.findings += samples.findings(server.name, taken)
        self.findings += closing.accesses(servers, self.judge)
        self.findings += closing.errors(servers, self.events.expected_errors)
        files = sorted(self.ground.audit.parent.iterdir())
        found, self.audited, self.key_events = closing.audit(files, self.judge)
        self.findings += found
        secrets = self.ground.secrets | {token.rpartition(".")[2] for token in self.judge.tokens}
        logs = sorted(self.directory.glob("*.log")) + sorted(self.directory.glob("*.out"))
        self.findings += closing.secrets([*logs, *files, pages], secrets, self.directory)
        self.secrets = len(secrets)
        self.log_bytes = sum(file.stat().st_size for file in [*logs, *files])
        return self.judge.findings + self.findings


def bodies(emulators, key):
    """The contents of the popular resources, from the emulators themselves."""
    found = {target: set() for target in POPULAR}
    for emulator in emulators:
        for target in POPULAR:
            status, content = emulator.request("GET", target, fields={"Authorization": f"Bearer {key.token()}"})
            if status != 200:
                raise RuntimeError(f"{emulator.name} responds to {target} with {status}: {content.decode()}")
            found[target].add(content)
    return found


def report(run):
    """Prints the figures."""
    judge, events, load = run.judge, run.events, run.load
    print(f"\n{len(judge.claims):,} responses in {run.seconds:.0f} s, {len(judge.claims) / run.seconds:.0f} a second; "
          f"{load.handshakes:,} TLS handshakes, {load.resumptions:,} of them resumed; {judge.abandoned:,} clients gave "
          f"up; {judge.retried} requests were sent again after a drain")
    kinds = sorted({kind for kind, _ in judge.counts})
    for kind in kinds:
        statuses = ", ".join(
            f"{count:,} × {status}" for (name, status), count in sorted(judge.counts.items(), key=str) if name == kind)
        print(f"  {kind:34}{statuses}")
    print(f"{run.cycles} cycles; seconds for each: " + ", ".join(
        f"{name} {events.seconds[name] / count:.1f}" for name, count in events.counts.items()))
    print(f"{run.audited:,} audit lines, {dict(run.key_events)}; "
          f"{run.log_bytes / 1e6:.0f} MB of logs without any of {run.secrets:,} secrets")
    for server, taken in run.samples.items():
        first, last = taken[min(samples.WARM_UP, len(taken) - 1)], taken[-1]
        print(f"{server.name:12} resident {first.resident / 1e6:.2f} MB, at last {last.resident / 1e6:.2f}, from third to "
              f"third {samples.growth(taken) / 1e6:+.2f}; "
              f"PSS {first.proportional / 1e6:.2f}, {last.proportional / 1e6:.2f}; "
              f"descriptors {len(first.descriptors)}, {len(last.descriptors)}; threads {len(first.threads)}, "
              f"{len(last.threads)}, and at most {max(s.pool for s in taken)} of Dispatch's pool")


def main(arguments):
    if len(arguments) not in (2, 3):
        print("usage: Tests/soak/run PROGRAM [SECONDS]", file=sys.stderr)
        return 64
    binary, seconds = Path(arguments[1]).resolve(), int(arguments[2]) if len(arguments) == 3 else 300
    seed = int(os.environ.get("SOAK_SEED", random.randrange(10**6)))
    print(f"{binary}, {seconds} s, SOAK_SEED={seed}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    hang = threading.Timer(2 * seconds + GRACE, give_up)
    hang.daemon = True
    hang.start()
    found = None
    try:
        run = Run(binary, directory, seconds, seed)
        run.soak(seconds)
        found = run.close()
        report(run)
    except KeyboardInterrupt:
        found = ["the run was interrupted"]
    except Exception:
        found = (run.judge.findings if "run" in locals() else []) + [traceback.format_exc()]
    finally:
        hang.cancel()
        Process.end_all()
        if found == []:
            shutil.rmtree(directory)
        else:
            print(f"The logs are in {directory}.")
    describe(found)
    flat = "✓ every response was right, and memory, descriptors and threads are flat"
    print(f"{len(found)} findings" if found else flat)
    return 1 if found else 0


def describe(findings):
    """Prints findings, with few examples of each kind."""
    kinds = {}
    for finding in findings:
        kinds.setdefault(finding.partition("\n")[0], []).append(finding)
    for alike in kinds.values():
        for finding in alike[:EXAMPLES]:
            print(f"✗ {finding}")
        if len(alike) > EXAMPLES:
            print(f"      and {len(alike) - EXAMPLES} more of these")


def give_up():
    """Ends a run that hangs."""
    print("✗ the run hangs", flush=True)
    for thread, frame in sys._current_frames().items():
        print(thread, "".join(traceback.format_stack(frame)[-4:]), flush=True)
    Process.end_all()
    os._exit(1)
