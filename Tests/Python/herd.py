"""Sends the same request over many connections at once and sums the answers up.

usage: herd.py PORT COUNT TARGET [FIELD…]

Each FIELD is a field line more. Every connection is open, and every request but its last byte is sent, before the first
request is whole. Prints a JSON object: `statuses` (how many of each), `bodies` (how many different ones), `ids` (how many
different X-Request-IDs) and `collapsed` (how many bear a Cache-Status that says so).
"""

import collections
import json
import socket
import sys

port, count, target = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
lines = [f"GET {target} HTTP/1.1", "Host: localhost", "Connection: close", *sys.argv[4:], "", ""]
request = "\r\n".join(lines).encode()

connections = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(count)]
for connection in connections:
    connection.sendall(request[:-1])
for connection in connections:
    connection.sendall(request[-1:])

statuses, bodies, ids, collapsed = collections.Counter(), set(), set(), 0
for connection in connections:
    answer = b""
    while part := connection.recv(65536):
        answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
    statuses[lines[0].split(" ")[1]] += 1
    bodies.add(body)
    ids.add(fields["x-request-id"])
    collapsed += "collapsed" in fields.get("cache-status", "")
print(json.dumps({"statuses": statuses, "bodies": len(bodies), "ids": len(ids), "collapsed": collapsed}))
