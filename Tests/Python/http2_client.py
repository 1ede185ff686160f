"""A client of HTTP/2 that is not ours: `h2`, against a server with TLS. It ends with a drain of the server.

usage: http2_client.py PORT CERTIFICATE

Prints `ready` when only the drain is left: the caller then sends SIGTERM to the server. Prints `ok` at the end, or says
what is not as it should be, and then exits with 1. `h2` raises an error for whatever violates RFC 9113.
"""

import json
import socket
import ssl
import sys

try:
    import h2.config
    import h2.connection
    import h2.errors
    import h2.events
except ImportError as error:
    sys.exit(f"{error}; `make test` installs h2 and sets TEST_PYTHON to its interpreter.")

# A net only: what is waited for comes within moments, or never.
PATIENCE = 60


class Client:
    def __init__(self, port, certificate):
        context = ssl.create_default_context(cafile=certificate)
        context.set_alpn_protocols(["h2", "http/1.1"])
        self.socket = context.wrap_socket(
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE), server_hostname="localhost")
        expect(self.socket.selected_alpn_protocol() == "h2", "HTTP/2 by ALPN")
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.connection.initiate_connection()
        self.heads, self.contents, self.ended, self.last, self.closed = {}, {}, set(), None, False
        self.flush()

    def flush(self):
        self.socket.sendall(self.connection.data_to_send())

    def send(self, method, path, content=b"", fields=(), authority="localhost"):
        stream = self.connection.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path), *fields]
        self.connection.send_headers(stream, head, end_stream=not content)
        frame = 16_384
        for start in range(0, len(content), frame):
            self.connection.send_data(stream, content[start:start + frame], end_stream=start + frame >= len(content))
        return stream

    def receive(self):
        """Handles what has arrived. A missing end of the connection is an error as well."""
        data = self.socket.recv(65_536)
        if not data:
            self.closed = True
            return
        for event in self.connection.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self.heads[event.stream_id] = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                self.contents[event.stream_id] = self.contents.get(event.stream_id, b"") + event.data
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(event.stream_id)
            elif isinstance(event, h2.events.ConnectionTerminated):
                expect(event.error_code == h2.errors.ErrorCodes.NO_ERROR, f"GOAWAY with {event.error_code}")
                self.last = event.last_stream_id
        self.flush()

    def responses(self, streams):
        self.flush()
        while not self.ended.issuperset(streams):
            self.receive()
            expect(not self.closed, "a connection with open streams stays open")
        return [(int(self.heads[stream][":status"]), self.contents.get(stream, b"")) for stream in streams]


def expect(is_met, what):
    if not is_met:
        sys.exit(f"expected: {what}")


def main():
    client = Client(int(sys.argv[1]), sys.argv[2])
    # As many as the server allows at once.
    tokens = client.responses([client.send("GET", f"/token?ttl={1000 + number}") for number in range(100)])
    expect(all(status == 200 for status, _ in tokens), "100 tokens at once")
    expect(len({json.loads(content)["token"] for _, content in tokens}) == 100, "a token for each lifetime")
    content = json.dumps({"ttl": 600}).encode()
    json_type = [("content-type", "application/json"), ("content-length", str(len(content)))]
    (status, body), = client.responses([client.send("POST", "/token", content, json_type)])
    expect(status == 200 and json.loads(body)["token"], "a token for content")
    (status, body), = client.responses([client.send("HEAD", "/token")])
    expect(status == 200 and body == b"", "HEAD without content")
    (status, body), = client.responses([client.send("GET", "/nothing")])
    expect(status == 404 and json.loads(body)["errors"][0]["code"] == "not_found", "an error of Apple's shape")
    stream = client.send("POST", "/token", fields=[("content-length", "0")])
    client.connection.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
    client.connection.ping(b"12345678")
    expect(client.responses([client.send("GET", "/healthz")])[0][0] == 200, "a request after a reset and a ping")

    # A refusal ends its stream and nothing else (RFC 9113 section 8.1.1): the request right behind it is served.
    long = b"x" * 20_000
    for wanted, method, path, content, authority in (
            (421, "GET", "/token", b"", "stranger.example"), (501, "BREW", "/token", b"", "localhost"),
            (405, "TRACE", "/token", b"", "localhost"), (404, "TRACE", "/nothing", b"", "localhost"),
            (400, "GET", "/%zz", b"", "localhost"), (414, "GET", "/" + "a" * 9000, b"", "localhost"),
            (417, "GET", "/token", b"", "localhost"), (431, "GET", "/token", b"", "localhost"),
            (413, "POST", "/token", long, "localhost")):
        fields = {417: [("expect", "tea")], 431: [("x-pad", "a" * 12_000)] * 4}.get(wanted, [])
        if content:
            fields = [("content-type", "application/json")]
        refused, good = client.send(method, path, content, fields, authority), client.send("GET", "/healthz")
        statuses = [status for status, _ in client.responses([refused, good])]
        expect(statuses == [wanted, 200], f"{wanted} and 200 instead of {statuses}")
        expect(client.last is None and not client.closed, f"no GOAWAY after {wanted}")

    print("ready", flush=True)
    while client.last is None:
        client.receive()
    expect(client.last >= client.connection.highest_outbound_stream_id, "GOAWAY names all streams that were sent")
    while not client.closed:
        client.receive()
    print("ok")


main()
