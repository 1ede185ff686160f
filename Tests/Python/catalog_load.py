"""Asks for many different answers of the catalog at a time, and holds each against what was asked for.

usage: catalog_load.py PORT COUNT            COUNT requests at once, on a connection each
       catalog_load.py PORT COUNT forever    COUNT at a time, one after the other, until standard input ends
       catalog_load.py PORT COUNT /PATH      COUNT requests for the same at once
       catalog_load.py PORT COUNT once KEY ADDRESS    as the first, with an API key and from an address of this machine

An answer is right if it is 200 with the target in it, or 429, 502, 503 or 504 with one of our error objects. Prints
`sent` when all of the first requests have been, and a line with the number of answers at every fiftieth that finds
a reader; at the end a
JSON object: `statuses`, and `wrong`, a list of what was not right.
"""

import asyncio
import json
import select
import sys
from collections import Counter

PORT, COUNT = int(sys.argv[1]), int(sys.argv[2])
MODE = sys.argv[3] if len(sys.argv) > 3 else "once"
KEY, ADDRESS = sys.argv[4:6] if len(sys.argv) > 4 else ("", "127.0.0.1")
FIELD = f"X-API-Key: {KEY}\r\n" if KEY else ""
PATIENCE = 120
statuses, wrong = Counter(), []
sent = asyncio.Event()
# Callers at different addresses ask for different things.
counts = Counter(targets=int(ADDRESS.split(".")[-1]) * 1_000_000 if KEY else 0)


def target():
    counts["targets"] += 1
    return MODE if MODE.startswith("/") else f"/v1/catalog/us/songs/{counts['targets']}"


async def ask(reader, writer, path):
    """One request; whether the connection can take another."""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n{FIELD}\r\n".encode())
    counts["sent"] += 1
    if counts["sent"] == COUNT:
        print("sent", flush=True)
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).decode("latin-1")
    fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in head.split("\r\n")[1:-2])}
    content = await asyncio.wait_for(reader.readexactly(int(fields["content-length"])), PATIENCE)
    judge(path, int(head.split(" ")[1]), content)
    return fields.get("connection") != "close"


def judge(path, status, content):
    statuses[status] += 1
    # Left out while nobody reads: to wait for that would stop the load.
    if sum(statuses.values()) % 50 == 0 and select.select([], [sys.stdout], [], 0)[1]:
        print(sum(statuses.values()), flush=True)
    document = json.loads(content)
    if status == 200 and document["data"][0]["href"] == path:
        return
    codes = {429: "upstream_rate_limited", 502: "upstream_error", 503: "overloaded", 504: "upstream_timeout"}
    if status in codes and document["errors"][0]["code"] in (codes[status], "developer_token_rejected"):
        return
    wrong.append(f"{path}: {status} {content[:200]!r}")


async def work(stopping):
    """Asks at least once, and then until it is told to stop."""
    while True:
        path = target()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", PORT, local_addr=(ADDRESS, 0))
            while await ask(reader, writer, path) and not stopping.is_set():
                path = target()
            writer.close()
        except Exception as error:
            wrong.append(f"{path}: {error!r}")
        if stopping.is_set():
            return


async def main():
    stopping = asyncio.Event()
    if MODE == "forever":
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin, lambda: (loop.remove_reader(sys.stdin), stopping.set()))
    else:
        stopping.set()
    await asyncio.gather(*(work(stopping) for _ in range(COUNT)))
    print(json.dumps({"statuses": statuses, "wrong": wrong[:20]}), flush=True)


asyncio.run(main())
