"""A process with its children: its start, the CPU time and the memory that it takes, its end."""

import os
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CPUTime:
    """CPU time in seconds."""

    user: float
    system: float

    @property
    def total(self):
        return self.user + self.system

    def __sub__(self, other):
        return CPUTime(self.user - other.user, self.system - other.system)


@dataclass(frozen=True)
class Memory:
    """Memory in bytes; pages that several processes share are counted once."""

    resident: int
    anonymous: int


class Process:
    """A server under measurement, from its start to its end. A context manager."""

    def __init__(self, command, port, cores, environment=None, errors=subprocess.DEVNULL, enter=None):
        """`enter` is called in the child before the program; by default it only chooses the cores."""
        self.port = port
        self.started = time.perf_counter()
        self.child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
            preexec_fn=enter or (lambda: os.sched_setaffinity(0, cores)))

    def __enter__(self):
        self.wait_until_it_accepts()
        return self

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def wait_until_it_accepts(self):
        """Waits for the listener; gives the connection that it took."""
        while time.perf_counter() - self.started < 10:
            if self.child.poll() is not None:
                raise RuntimeError(f"{self.child.args[0]} ended at once, with status {self.child.returncode}")
            try:
                return socket.create_connection(("127.0.0.1", self.port))
            except ConnectionRefusedError:
                time.sleep(0.0002)
        raise RuntimeError(f"{self.child.args[0]} accepts no connection")

    @property
    def _ids(self):
        """The process and its children."""
        found = [self.child.pid]
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(_fields(stat)[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == self.child.pid:
                found.append(int(stat.parent.name))
        return found

    @property
    def cpu(self):
        """CPU time since the start, of all threads and processes."""
        stats = [_fields(Path(f"/proc/{process}/stat")) for process in self._ids]
        return CPUTime(sum(int(stat[11]) for stat in stats) / TICKS, sum(int(stat[12]) for stat in stats) / TICKS)

    @property
    def memory(self):
        rollups = [_rollup(process) for process in self._ids]
        return Memory(sum(rollup["Pss"] for rollup in rollups), sum(rollup["Pss_Anon"] for rollup in rollups))


def _fields(stat):
    """The fields of /proc/PID/stat behind the program's name, which may hold spaces: state, parent, …"""
    return stat.read_text().rpartition(")")[2].split()


def _rollup(process):
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}


TAKEN = set()


def free_port():
    """A port without a listener, and another one each time: the listener of an earlier one may not have started yet."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        if port not in TAKEN:
            TAKEN.add(port)
            return port
