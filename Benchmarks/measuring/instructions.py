"""Instructions that the server takes for each request, against a kept table. Load of the machine does not change them."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import proxies, tools, upstreams
from .catalog import ALBUM
from .process import free_port
from .report import table
from .servers import Answer, Ours, connect, exchange, request
from .streams import Streams, block

KEPT = Path(__file__).parent.parent / "instructions.json"
# A request that costs more than this, relative to the table, is a defect; one that costs less is a reason to keep new figures.
TOLERANCE = 0.03
REQUESTS = 100
API_KEY = "mkts_QfMVM1OMXGVoW0sPIyFOSAfXlgitBbZJrozoWkIHobR1Y9aUO"
API_KEY_SHA256 = "8acd3657b3aa2a04c559d2e487b2116273fee8dacd6f3cc7f7e754885e5482d9"


def run(directory, binary, credentials):
    """Counts each request. False if one costs more than the table allows. KEEP=1 writes the table instead."""
    program = directory / "program"
    # valgrind stumbles over some compilers' debugging information; the names of functions are enough.
    subprocess.run(["strip", "--strip-debug", "-o", program, binary], check=True)
    counts = {}
    with upstreams.ready(directory, credentials, 1) as upstream:
        ours = Ours(program, credentials, {
            "ACCESS_ANONYMOUS": "{ token: true, catalog: true }", "CATALOG_UPSTREAM": f"http://127.0.0.1:{upstream.port}",
            "ACCESS_CLIENTS": f"[{{ id: 'a', apiKey: {{ sha256: '{API_KEY_SHA256}' }}, catalog: true }}]"})
        for kind, names in ((Plain, PLAIN), (Secure, SECURE), (Streams, MULTIPLEXED)):
            with Counted(ours, directory, kind) as server:
                for name, message in names.items():
                    counts[name] = server.count(message)
        # CI runs no other benchmark, so this shows that nginx can have the fields of the server's responses.
        with ours.start() as server:
            answer = Answer(server.port, ALBUM)
        with proxies.nginx(directory, credentials, upstream.port, answer, upstreams.FIELDS).start():
            pass
    compiler = subprocess.run(
        [tools.find("swift"), "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    if os.environ.get("KEEP", "") not in ("", "0"):
        KEPT.write_text(json.dumps({"compiler": compiler, "requests": counts}, indent=2) + "\n")
    table_of, kept = json.loads(KEPT.read_text()).values()
    changes = {name: count / kept[name] - 1 for name, count in counts.items()}
    print(table(
        ["request", "instructions", "kept", "change", "aim", "met"],
        [[name, f"{count:,}", f"{kept[name]:,}", f"{changes[name]:+.1%}", f"≤ +{TOLERANCE:.0%}",
          "yes" if changes[name] <= TOLERANCE else "no"] for name, count in counts.items()]))
    if compiler != table_of:
        print(f"\nThe kept figures are of another compiler, {table_of}, so they decide nothing here.")
        return True
    if any(change < -TOLERANCE for change in changes.values()):
        print("\nA request has become cheaper: keep the new figures by KEEP=1 make bench-check.")
    return all(change <= TOLERANCE for change in changes.values())


def _token(_):
    return request()


def _api_key(_):
    return f"GET /token HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {API_KEY}\r\n\r\n".encode()


def _fresh(number):
    """A lifetime of its own, so that no token is reused."""
    return request(f"/token?ttl={1000 + number}")


def _hit(_):
    return request(ALBUM)


def _error(_):
    return request("/nothing")


def _token_of_stream(_):
    return block()


def miss(number):
    """A path of its own, so that no response is stored."""
    return request(f"/v1/catalog/us/albums/{1_200_000_000 + number}")


PLAIN = {
    "cached token": _token, "cached token for an API key": _api_key, "fresh signature": _fresh,
    "catalog response from the cache": _hit, "catalog response through the proxy": miss, "error": _error}
SECURE = {"cached token over TLS 1.3": _token}
MULTIPLEXED = {"cached token over HTTP/2": _token_of_stream}


class Plain:
    """A connection that sends one request of HTTP/1.1 at a time."""

    tls = False

    def __init__(self, port):
        self.connection = connect(port, self.tls)

    def exchange(self, message):
        exchange(self.connection, message=message)

    def close(self):
        self.connection.close()


class Secure(Plain):
    """The same over TLS."""

    tls = True


class Counted:
    """Our server under callgrind. A context manager."""

    def __init__(self, ours, directory, kind=Plain):
        self.kind = kind
        self.folder = directory / f"counts-{kind.__name__}"
        self.folder.mkdir()
        self.number = 0
        self.ours = ours
        self.program = str(ours.binary)

    def __enter__(self):
        port = free_port()
        command = [
            tools.find("valgrind"), "--tool=callgrind", f"--callgrind-out-file={self.folder}/count",
            f"--log-file={self.folder}/log", self.program, "serve"]
        environment = self.ours.environment(port, tls=self.kind.tls) | {
            # Hash tables with the same order in each run.
            "SWIFT_DETERMINISTIC_HASHING": "1", "PATH": os.environ["PATH"],
            # callgrind_control looks for the program there.
            "TMPDIR": tempfile.gettempdir()}
        self.child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.connection = self._connected(port)
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.connection.close()
        self.child.terminate()
        self.child.wait(60)

    def _connected(self, port):
        end = time.monotonic() + 120
        while time.monotonic() < end and self.child.poll() is None:
            with contextlib.suppress(ConnectionRefusedError):
                return self.kind(port)
            time.sleep(0.05)
        sys.exit(f"the server under valgrind does not listen; see {self.folder}/log")

    def count(self, message):
        """The program's own instructions for each request, without those of the system's libraries."""
        return _own(self.dump(message), self.program) // REQUESTS

    def dump(self, message):
        """The file with the costs of all functions for `REQUESTS` requests."""
        for number in range(-20, 0):
            self.connection.exchange(message(number))
        self._control("--zero")
        for number in range(REQUESTS):
            self.connection.exchange(message(number))
        self.number += 1
        self._control("--dump")
        return self.folder / f"count.{self.number}"

    def _control(self, command):
        subprocess.run(["callgrind_control", command, str(self.child.pid)], check=True, capture_output=True)


def _own(file, program):
    """The instructions in the functions of `program` (the format is in valgrind's manual, section 6.6)."""
    names, own, total, is_call = {}, False, 0, False
    for line in file.read_text().splitlines():
        key, _, value = line.partition("=")
        if key in ("ob", "cob"):
            # A name is written once, and then known by its number.
            number, _, name = value.partition(" ")
            names.setdefault(number, name)
            own = names[number] == program if key == "ob" else own
        elif line.startswith("calls="):
            is_call = True
        elif line and line[0] in "0123456789+-*":
            # The line after a call has the costs of the called function.
            if own and not is_call:
                total += int(line.split()[1])
            is_call = False
    return total
