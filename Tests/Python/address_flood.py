"""Asks for tokens as ever another client of a proxy, by pipelined requests on four connections.

usage: address_flood.py PORT PID COUNT KIND [FIELD…]

What X-Forwarded-For says is by KIND, for the request number N of COUNT:

    networks    an address of the Nth network of /64, every other time an IPv4 address
    network     the Nth address of one network of /64
    behind      an address that the client made up, and behind it one that stays, as a proxy appends it

Each FIELD is a field line more. Prints a JSON object: `statuses` (how many of each), and the anonymous memory of process
PID in KiB when a tenth of the requests has been answered and when all have: `early`, `late`.
"""

import collections
import json
import re
import socket
import sys

PORT, PID, COUNT, KIND = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
FIELDS = "".join(f"{field}\r\n" for field in sys.argv[5:])
# Few enough that their answers fit into the sockets' buffers: the sender reads only when all of them are sent.
BATCH = 100


def made_up(number):
    return f"100.{64 + (number >> 16 & 63)}.{number >> 8 & 255}.{number & 255}"


def address(number):
    if KIND == "network":
        return f"2001:db8:0:1::{number >> 16:x}:{number & 65535:x}"
    if KIND == "behind":
        return f"{made_up(number)}, 192.0.2.1"
    return made_up(number) if number % 2 else f"2001:db8:{number >> 16:x}:{number & 65535:x}::1"


def memory():
    with open(f"/proc/{PID}/status", encoding="ascii") as file:
        return int(re.search(r"RssAnon:\s+(\d+) kB", file.read()).group(1))


def send(connection, numbers):
    head = "HEAD /token HTTP/1.1\r\nHost: a\r\n"
    requests = (f"{head}X-Forwarded-For: {address(number)}\r\n{FIELDS}\r\n" for number in numbers)
    connection.sendall("".join(requests).encode())


def receive(connection, count):
    """The statuses of so many answers, which have no content."""
    data = b""
    while data.count(b"\r\n\r\n") < count:
        part = connection.recv(262_144)
        if not part:
            sys.exit(f"The connection ended: {data[-300:]}")
        data += part
    return re.findall(rb"^HTTP/1.1 (\d+)", data, re.MULTILINE)


connections = [socket.create_connection(("127.0.0.1", PORT), timeout=60) for _ in range(4)]
statuses, early = collections.Counter(), None
batches = [range(start, min(start + BATCH, COUNT)) for start in range(0, COUNT, BATCH)]
for start in range(0, len(batches), len(connections)):
    pairs = list(zip(connections, batches[start:]))
    for connection, batch in pairs:
        send(connection, batch)
    for connection, batch in pairs:
        statuses.update(status.decode() for status in receive(connection, len(batch)))
    if early is None and sum(statuses.values()) * 10 >= COUNT:
        early = memory()
print(json.dumps({"statuses": statuses, "early": early, "late": memory()}))
