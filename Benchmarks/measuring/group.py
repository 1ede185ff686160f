"""A control group with a limit of memory and, if wanted, one of CPU time, as a container has."""

import os
import sys
from pathlib import Path

from . import tools

ROOT = Path("/sys/fs/cgroup")
# The kernel stops a group that has used its quota until the period ends, so a long period would be in every latency.
# This is the shortest quota, in microseconds.
QUOTA = 1_000


class Group:
    """A control group, of v1 or v2. A context manager."""

    def __init__(self, megabytes, cpu=None):
        """`cpu` is the share of one core; without it there is no limit."""
        name = f"benchmark-{os.getpid()}-{os.urandom(4).hex()}"
        self.is_unified = (ROOT / "cgroup.controllers").exists()
        folders = [ROOT / name] if self.is_unified else [ROOT / kind / name for kind in ("memory", "cpu")]
        self.memory, self.cpu = folders[0], folders[-1]
        self.folders = folders
        self.limit = megabytes << 20
        self.share = cpu

    def __enter__(self):
        try:
            for folder in self.folders:
                folder.mkdir()
            if self.is_unified:
                self._write(self.memory / "memory.max", self.limit)
                if self.share:
                    self._write(self.cpu / "cpu.max", f"{QUOTA} {self._period}")
            else:
                self._write(self.memory / "memory.limit_in_bytes", self.limit)
                if self.share:
                    self._write(self.cpu / "cpu.cfs_period_us", self._period)
                    self._write(self.cpu / "cpu.cfs_quota_us", QUOTA)
        except OSError as error:
            self.__exit__()
            sys.exit(f"Please run this part as root, with the memory and cpu controllers of cgroups: {error}")
        return self

    def __exit__(self, *_):
        for folder in self.folders:
            if folder.exists():
                folder.rmdir()

    def enter(self):
        """Puts the calling process in the group, on the server's core."""
        for folder in self.folders:
            self._write(folder / "cgroup.procs", os.getpid())
        os.sched_setaffinity(0, tools.SERVER_CORES)

    @property
    def peak(self):
        """The most bytes that the group has held, the kernel's for its sockets included."""
        name = "memory.peak" if self.is_unified else "memory.max_usage_in_bytes"
        return int((self.memory / name).read_text())

    @property
    def kills(self):
        """How many processes the kernel has killed for want of memory."""
        name = "memory.events" if self.is_unified else "memory.oom_control"
        return next(
            int(line.split()[1]) for line in (self.memory / name).read_text().splitlines()
            if line.startswith("oom_kill "))

    @property
    def _period(self):
        return int(QUOTA / self.share)

    @staticmethod
    def _write(file, value):
        file.write_text(str(value))
