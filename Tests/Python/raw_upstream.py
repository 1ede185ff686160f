"""An HTTP/1.1 upstream that answers with whatever bytes a test has written down.

usage: raw_upstream.py FOLDER

Prints its port, then a line of JSON for each request, once its content is there: `line`, `fields` (a list of pairs),
`length` and `sha256` of the content, which may be chunked. The answer is the bytes of the file in FOLDER that is named
like the last segment of the path, and the connection closes behind it. Without such a file the answer is a list that
names the music user token, and says that everybody may keep it.

No line tells of `/v1/test`, where a server asks about its key if a test takes some seconds to its first request.

Two names are special. `hold` is not read any further than its head until a line comes on standard input. `flood` is
answered by as many bytes as the query says; a line `{"stalled": N}` says that the peer has stopped to take them after N.
"""

import hashlib
import json
import pathlib
import select
import socket
import sys
import threading

FOLDER = pathlib.Path(sys.argv[1])
PART = bytes(65536)
printing = threading.Lock()


def say(facts):
    with printing:
        print(json.dumps(facts), flush=True)


def chunks(stream):
    """The content of a chunked message (RFC 9112 section 7.1), to the end of its trailer section."""
    while size := int(stream.readline().split(b";")[0], 16):
        left = size
        while left:
            part = stream.read(min(left, len(PART)))
            left -= len(part)
            yield part
        stream.readline()
    while stream.readline().strip():
        pass


def content(stream, fields):
    """The parts of a request's content."""
    if "chunked" in fields.get("transfer-encoding", ""):
        yield from chunks(stream)
        return
    left = int(fields.get("content-length", 0))
    while left and (part := stream.read(min(left, len(PART)))):
        left -= len(part)
        yield part


def read_request(stream):
    """The request line and the header section; None at the end of the connection."""
    line = stream.readline().decode("latin-1").strip()
    if not line:
        return None
    pairs = []
    while field := stream.readline().decode("latin-1").strip():
        name, value = field.split(":", 1)
        pairs.append((name.lower(), value.strip()))
    return line, pairs


def flood(connection, count):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % count)
    sent = 0
    connection.setblocking(False)
    while sent < count:
        # That nothing moves for a moment proves no stall; that all of it goes disproves one.
        if not select.select([], [connection], [], 0.5)[1]:
            say({"stalled": sent})
            connection.setblocking(True)
        sent += connection.send(PART[: count - sent])


def serve(connection):
    stream = connection.makefile("rb")
    request = read_request(stream)
    if request is None:
        return
    line, pairs = request
    path, _, query = line.split(" ")[1].partition("?")
    name = path.rsplit("/", 1)[1]
    if name == "hold":
        say({"line": line, "fields": pairs})
        sys.stdin.readline()
    fields = dict(pairs)
    digest, length = hashlib.sha256(), 0
    for part in content(stream, fields):
        digest.update(part)
        length += len(part)
    if path != "/v1/test":
        say({"line": line, "fields": pairs, "length": length, "sha256": digest.hexdigest()})
    if name == "flood":
        flood(connection, int(query))
    elif (FOLDER / name).exists():
        connection.sendall((FOLDER / name).read_bytes())
    else:
        body = json.dumps({"data": [], "user": fields.get("music-user-token")}).encode()
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: public, max-age=300\r\n"
            b'ETag: "same"\r\nConnection: close\r\nContent-Length: %d\r\n\r\n' % len(body) + body
        )


def serve_to_its_end(connection):
    with connection:
        try:
            serve(connection)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except OSError:
            pass  # The peer has seen enough.


listener = socket.create_server(("127.0.0.1", 0), backlog=512)
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve_to_its_end, args=(listener.accept()[0],), daemon=True).start()
