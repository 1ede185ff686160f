"""The programs that are measured against, and those that make the load."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

CORES = sorted(os.sched_getaffinity(0))
# The server has its own core, and the load uses the other cores. If the scheduler chose, it would put both on one core
# in one round and on two in the next, and the server's CPU time would vary by a third with the number of wakeups.
SERVER_CORES = CORES[:1]
LOAD_CORES = CORES[1:] or CORES


def find(name):
    """The path of a program; Debian keeps servers where users do not look."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        sys.exit(f"Please install {name}: it is measured against, or makes the load.")
    return path


def start(*command):
    """Starts a program, of which both streams are wanted, beside the server."""
    return subprocess.Popen(
        [find(command[0]), *map(str, command[1:])], stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=lambda: os.sched_setaffinity(0, LOAD_CORES))


def output(*command):
    """What a program prints, on either stream. Raises if it fails."""
    program = start(*command)
    printed, _ = program.communicate()
    if program.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{printed}")
    return printed


def binary():
    """The binary to measure: `BINARY`, or the one that `make release` builds."""
    given = os.environ.get("BINARY")
    if given:
        return Path(given).resolve()
    subprocess.run(["make", "--silent", "release"], cwd=ROOT, check=True)
    return ROOT / ".build" / "release" / "musickit-token-server"
