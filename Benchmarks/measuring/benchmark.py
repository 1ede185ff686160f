"""One run: what is measured, and what is printed of it."""

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

from . import hostile, instructions, load, overload, parts, quota, tools
from .access import Access
from .catalog import Catalog
from .credentials import Credentials
from .growth import Growth
from .handshakes import Handshakes
from .http2 import OverHTTP2
from .report import table
from .scaling import Scaling
from .tokens import Tokens

SUBJECTS = {
    "tokens": Tokens, "http2": OverHTTP2, "handshakes": Handshakes, "catalog": Catalog, "access": Access, "growth": Growth,
    "scaling": Scaling}
# Growth takes as long as all of these.
DEFAULT = ["tokens", "http2", "handshakes", "catalog", "access"]
# These have no rounds and no ratios. Each prints its own table.
TABLES = {"check": instructions.run, "parts": parts.run, "hostile": hostile.run, "quota": quota.run, "overload": overload.run}


def main():
    parser = argparse.ArgumentParser(description="Measures the release binary beside other servers.")
    parser.add_argument(
        "subjects", nargs="*", metavar="SUBJECT",
        help=f"{', '.join([*SUBJECTS, *TABLES])}; the first {len(DEFAULT)} by default")
    subjects = parser.parse_args().subjects or DEFAULT
    if unknown := set(subjects) - {*SUBJECTS, *TABLES}:
        parser.error(f"there is no {' or '.join(sorted(unknown))}")
    raise_limit()
    quick = os.environ.get("QUICK", "") not in ("", "0")
    started = time.perf_counter()
    peers = ("haproxy", "h2o") if {*subjects} & {*SUBJECTS} else ()
    for program in ("nginx", "wrk", "openssl", *(["h2load"] if "http2" in subjects else []),
                    *(["redis-server"] if "scaling" in subjects else []), *peers):
        tools.find(program)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        directory = Path(name)
        binary, credentials = tools.binary(), Credentials(directory)
        # A table with aims says whether all of them are met.
        missed = [
            subject for subject in subjects
            if subject in TABLES and TABLES[subject](directory, binary, credentials) is False]
        subjects = [subject for subject in subjects if subject in SUBJECTS]
        if not subjects:
            return 1 if missed else 0
        comparisons = [SUBJECTS[subject](directory, binary, credentials, quick) for subject in subjects]
        busy = os.getloadavg()[0]
        for comparison in comparisons:
            comparison.run()
    print(table(
        ["work", "ours ÷ theirs", "aim", "met", "ours", "the best other"],
        [row.cells for comparison in comparisons for row in comparison.rows]))
    if costs := [cost for comparison in comparisons for cost in comparison.costs]:
        print()
        print(table(["", "CPU µs each", "user", "system", "per second"], costs))
    print(notes(comparisons, busy, time.perf_counter() - started))
    missed += [row for comparison in comparisons for row in comparison.rows if row.is_met is False]
    print(f"{len(missed)} aims are missed." if missed else "Every aim is met.")
    return 1 if missed else 0


def raise_limit():
    """Room for ten thousand callers, each with a connection of its own behind nginx; less if that is not allowed."""
    for most in (65_536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]):
        try:
            return resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        except (ValueError, OSError):
            continue


def notes(comparisons, busy, seconds):
    """How to read the tables."""
    versions = [
        tools.output("nginx", "-v").partition(": ")[2], tools.output("haproxy", "-v").partition(" - ")[0],
        tools.output("h2o", "--version").splitlines()[0].replace(" version", "")]
    tls = "".join(comparison.tls for comparison in comparisons if isinstance(comparison, Tokens))
    return f"""
Medians of {comparisons[0].rounds} rounds in which the servers take turns, with the least and the most; a ratio is of the
two halves of a round. CPU time is the server's, user and system, of all its threads and processes. One loop against one
worker or thread of {", ".join(version.strip() for version in versions)}, on one core; {load.CONNECTIONS} connections
from another; the same fields and body. Without access logs on either side, unless a row says so.{tls}
{len(tools.CORES)} cores, load average {busy:.1f} at the start, {seconds:.0f} s in all."""
