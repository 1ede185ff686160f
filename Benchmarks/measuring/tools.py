"""The programs that are measured against, and those that make the load."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def find(name):
    """The path of a program; Debian keeps servers where users do not look."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        sys.exit(f"Please install {name}: it is measured against, or makes the load.")
    return path


def output(*command):
    """What a program prints, on either stream. Raises if it fails."""
    done = subprocess.run(
        [find(command[0]), *map(str, command[1:])], stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def binary():
    """The binary to measure: `BINARY`, or the one that `make release` builds."""
    given = os.environ.get("BINARY")
    if given:
        return Path(given).resolve()
    subprocess.run(["make", "--silent", "release"], cwd=ROOT, check=True)
    return ROOT / ".build" / "release" / "musickit-token-server"
