"""What hostile peers make a server hold: memory for each connection, in total, and which bound stops it."""

import json
import subprocess
import sys
from dataclasses import dataclass

from . import tools
from .report import table
from .servers import Nginx, Ours, Site

LONG, ENDLESS, HANGING = (f"/v1/catalog/us/albums/{name}" for name in ("long", "endless", "hang"))
BODIES = "`bodyBytes`, `body`"
BUDGET = "`memory`"


@dataclass(frozen=True)
class Kind:
    """Peers of one kind."""

    name: str
    # The name of the kind in hostile_peers.py.
    kind: str
    count: int
    bounds: str
    path: str = "/token"
    tls: bool = False


KINDS = [
    Kind("idle connection", "idle", 4000, "`connectionsPerAddress`, `idle`"),
    Kind("unfinished head of 30 kB", "head", 4000, f"{BUDGET}, `headerBytes`, `headerSection`"),
    Kind("unfinished body of 16 kB", "body", 4000, f"{BUDGET}, {BODIES}"),
    Kind("unfinished POST of 52 bytes", "post", 4000, f"`connectionsPerAddress`, {BODIES}"),
    Kind("unread answers to 100 requests at once", "pipelined", 4000, f"{BUDGET}, `writeProgress`", "/openapi.json"),
    Kind("slow reader of a cached 1 MB", "reader", 1000, f"{BUDGET}, `writeProgress`", LONG),
    Kind("slow reader of an endless answer", "reader", 60, f"{BUDGET}, `catalog.timeouts.whole`", ENDLESS),
    Kind("caller who waits for the upstream", "waiting", 4000, f"{BUDGET}, `catalog.timeouts.whole`", HANGING),
    Kind("unfinished TLS handshake", "handshake", 2000, f"{BUDGET}, `tlsHandshake`", tls=True),
    Kind("idle TLS connection", "tls", 1000, f"{BUDGET}, `connectionsPerAddress`, `idle`", tls=True),
    Kind("slow reader of a cached 1 MB over TLS", "tls-reader", 500, f"{BUDGET}, `writeProgress`", LONG, tls=True),
]


def run(directory, binary, credentials):
    """Measures every kind against both servers, and prints the table."""
    upstream = subprocess.Popen(
        [sys.executable, tools.ROOT / "Tests/Python/hostile_upstream.py"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(upstream.stdout.readline())
        settings = {
            "CATALOG_UPSTREAM": f"http://127.0.0.1:{port}", "ACCESS_ANONYMOUS": "{ token: true, catalog: true }"}
        ours = Ours(binary, credentials, settings)
        theirs = Nginx(directory, credentials, proxy(directory, port))
        rows = [cells(kind, measure(ours, kind), measure(theirs, kind)) for kind in KINDS]
    finally:
        upstream.kill()
        upstream.wait()
    print(table(
        ["N peers, each with", "N", "kept", "kB each", "MB in all", "what bounds it", "nginx: kept", "kB each",
         "MB in all"], rows))
    print("""
Anonymous memory with the peers connected, less that before they came; the kernel's own is not in it. `kept` are the
connections that the server has neither closed nor answered with 503. Names of bounds are below `server.limits`.""")


def proxy(directory, port):
    """nginx with a cache, as it is set up in front of an API."""
    return Site(
        http=f"  proxy_cache_path {directory}/cache keys_zone=catalog:10m max_size=100m;",
        server=f"""
    location / {{
      proxy_pass http://127.0.0.1:{port};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_cache catalog;
      proxy_cache_valid 200 10m;
    }}""", room=2)


def measure(server, kind):
    """How many are kept, and the bytes that they make it hold."""
    with server.start(tls=kind.tls, connections=10_000) as process:
        if kind.path == LONG:
            fetch(process.port, kind)
        before = process.memory.anonymous
        peers = subprocess.Popen(
            [sys.executable, tools.ROOT / "Tests/Python/hostile_peers.py", str(process.port), kind.kind,
             str(kind.count), kind.path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            kept = json.loads(next(filter(str.strip, peers.stdout)))["open"]
            return kept, max(0, process.memory.anonymous - before)
        finally:
            peers.kill()
            peers.wait()


def fetch(port, kind):
    """Has the server keep what the readers ask for."""
    subprocess.run(
        [tools.find("curl"), "-sko", "/dev/null", f"{'https' if kind.tls else 'http'}://127.0.0.1:{port}{kind.path}"],
        check=True)


def cells(kind, ours, theirs):
    figures = [
        [f"{kept:,}", f"{held / max(kept, 1) / 1000:.1f}", f"{held / 1e6:.1f}"] for kept, held in (ours, theirs)]
    return [kind.name, f"{kind.count:,}", *figures[0], kind.bounds, *figures[1]]
