"""Where the instructions of a catalog miss go, module by module, and which system calls it makes."""

import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from . import load, tools, upstreams
from .catalog import ALBUM
from .instructions import REQUESTS, Counted, miss
from .report import table
from .servers import Ours

# HTTPTypes is a package, and counts as a module of its own.
MODULES = [folder.name for folder in (Path(__file__).parents[2] / "Sources").iterdir()] + ["HTTPTypes"]
CALLS = {
    "malloc": "allocations", "swift_retain": "retains", "swift_release": "releases", "pthread_mutex_lock": "locks"}
SECONDS = 3


def run(directory, binary, credentials):
    """Prints both tables. They have no aim: `check` compares the sum with a kept one."""
    if not subprocess.run(["nm", binary], capture_output=True, text=True).stdout:
        sys.exit("`parts` needs a binary with symbols: swift build -c release --static-swift-stdlib --product "
                 "musickit-token-server, then BINARY=.build/release/musickit-token-server Benchmarks/run parts")
    program = directory / "program"
    subprocess.run(["strip", "--strip-debug", "-o", program, binary], check=True)
    with upstreams.ready(directory, credentials, 1) as upstream:
        settings = {
            "ACCESS_ANONYMOUS": "{ token: true, catalog: true }", "CATALOG_UPSTREAM": f"http://127.0.0.1:{upstream.port}"}
        with Counted(Ours(program, credentials, settings), directory) as server:
            _print(_Profile(server.dump(miss)))
        with Ours(program, credentials, settings | {"CATALOG_CACHE_MAX_BYTES": "0"}).start() as server:
            print(f"\nSystem calls for each, with {load.CONNECTIONS} connections: {_system_calls(server, directory)}.")


def _print(profile):
    costs = profile.by_module()
    total = sum(costs.values())
    print(table(
        ["module", "instructions", "share"],
        [[module, f"{cost / REQUESTS:,.0f}", f"{cost / total:.1%}"]
         for module, cost in costs.most_common() if cost >= total / 200]))
    calls = ", ".join(f"{profile.calls(name) / REQUESTS:.0f} {what}" for name, what in CALLS.items())
    print(f"\nA catalog miss takes {total / REQUESTS:,.0f} instructions, those of libc included: {calls}.")


def _system_calls(server, directory):
    """How many of each kind a request needs."""
    counts = directory / "system-calls"
    tracer = subprocess.Popen(
        [tools.find("strace"), "-f", "-c", "-U", "calls,name", "-o", counts, "-p", str(server.child.pid)],
        stderr=subprocess.PIPE, text=True)
    # It says so when it has attached.
    tracer.stderr.readline()
    requests = load.requests(server, SECONDS, path=ALBUM, script="distinct-paths.lua").count
    tracer.send_signal(signal.SIGINT)
    tracer.communicate(timeout=60)
    found = [(int(calls) / requests, name) for calls, name in re.findall(r"^ *(\d+) (\w+)$", counts.read_text(), re.M)]
    return ", ".join(f"{calls:.2f} {name}" for calls, name in found if calls >= 0.01 and name != "total")


class _Profile:
    """Costs and calls of one callgrind file (the format is in valgrind's manual, section 6.6)."""

    def __init__(self, file):
        self.names, self.own, self.edges, self.counts = {}, Counter(), Counter(), Counter()
        function = called = None
        count = 0
        for line in file.read_text(errors="replace").splitlines():
            key, _, value = line.partition("=")
            if key == "fn":
                function = self._name(value)
            elif key == "cfn":
                called = self._name(value)
            elif key == "calls":
                count = int(value.split()[0])
            elif line and line[0] in "0123456789+-*":
                cost = int(line.split()[1])
                # The line after a call has the costs of the called function.
                if called is None:
                    self.own[function] += cost
                else:
                    self.edges[function, called] += cost
                    self.counts[called] += count
                called = None

    def _name(self, value):
        """A name is written once, and then known by its number."""
        number, _, name = value.partition(" ")
        # Callgrind marks levels of recursion, and glibc versions of symbols.
        return self.names.setdefault(number, re.split(r"['@]", name.rpartition(":")[2])[0])

    def calls(self, name):
        return self.counts[name]

    def by_module(self):
        """The instructions of each module, with its share of what it calls in the runtime, the standard library and libc."""
        callers = defaultdict(Counter)
        for (caller, called), cost in self.edges.items():
            if caller != called:
                callers[called][caller] += cost
        costs = Counter(self.own)
        # Each pass hands the costs one level up; recursion leaves a rest, which is too small to matter.
        for _ in range(60):
            for function in [function for function in costs if not _module(function)]:
                weight = callers[function].total()
                if not weight:
                    continue
                cost = costs.pop(function)
                for caller, share in callers[function].items():
                    costs[caller] += cost * share / weight
        sums = Counter()
        for function, cost in costs.items():
            sums[_module(function) or "no module"] += cost
        return sums


def _module(function):
    """The module of a mangled name: the first that is in it. None for the runtime, the standard library and libc."""
    if not function or not function.startswith("$s"):
        return None
    found = [(function.find(f"{len(module)}{module}"), module) for module in MODULES]
    return min(((place, module) for place, module in found if place >= 0), default=(0, None))[1]
