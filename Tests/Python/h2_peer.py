"""Speaks HTTP/2 with `h2`, which is not ours, over standard input, a connected socket.

usage: h2_peer.py server       answers requests as their paths ask, until the other side closes
       h2_peer.py client       sends requests to a server that echoes, and checks what comes back

Exits 0 if all was as it should be; else says on standard error what was not, and exits 1.
"""

import socket
import sys
from urllib.parse import parse_qs, urlsplit

try:
    import h2.config
    import h2.connection
    import h2.errors
    import h2.events
    import h2.settings
except ImportError as error:
    sys.exit(f"{error}; `make test` installs h2 and sets TEST_PYTHON to its interpreter.")


def pattern(count):
    return bytes((index ^ (index >> 8)) & 0xFF for index in range(count))


def check(condition, what):
    if not condition:
        sys.exit(f"h2_peer.py: {what}")


class Peer:
    def __init__(self, is_client):
        self.socket = socket.socket(fileno=0)
        config = h2.config.H2Configuration(client_side=is_client, header_encoding="utf-8")
        self.connection = h2.connection.H2Connection(config)
        self.waiting = {}
        self.connection.initiate_connection()
        self.flush()

    def flush(self):
        self.socket.sendall(self.connection.data_to_send())

    def send(self, stream, content, trailers=None):
        """Sends as much as the windows allow, the rest when they open, and then the trailers."""
        self.waiting[stream] = (content, trailers)
        self.pump()

    def pump(self):
        for stream, (content, trailers) in list(self.waiting.items()):
            while content:
                room = self.connection.local_flow_control_window(stream)
                count = min(room, self.connection.max_outbound_frame_size, len(content))
                if count == 0:
                    break
                self.connection.send_data(stream, content[:count])
                content = content[count:]
            self.waiting[stream] = (content, trailers)
            if content:
                continue
            del self.waiting[stream]
            if trailers:
                self.connection.send_headers(stream, trailers, end_stream=True)
            else:
                self.connection.end_stream(stream)

    def events(self):
        """What arrives, until the other side closes."""
        while received := self.socket.recv(65536):
            for event in self.connection.receive_data(received):
                if isinstance(event, h2.events.DataReceived):
                    self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if isinstance(event, h2.events.StreamReset):
                    self.waiting.pop(event.stream_id, None)
                yield event
            self.pump()
            self.flush()


def serve():
    peer = Peer(is_client=False)
    connection = peer.connection
    requests, contents = {}, {}
    for event in peer.events():
        if isinstance(event, h2.events.RequestReceived):
            requests[event.stream_id] = dict(event.headers)
            contents[event.stream_id] = b""
        elif isinstance(event, h2.events.DataReceived):
            contents[event.stream_id] += event.data
        elif isinstance(event, h2.events.StreamEnded):
            answer(peer, event.stream_id, requests[event.stream_id], contents.pop(event.stream_id))
        elif isinstance(event, h2.events.ConnectionTerminated):
            check(event.error_code == 0, f"GOAWAY with {event.error_code!r}")
    check(requests, "there was no request")


def answer(peer, stream, request, content):
    connection = peer.connection
    target = urlsplit(request[":path"])
    query = {name: values[0] for name, values in parse_qs(target.query).items()}
    if target.path == "/echo":
        length = str(len(content))
        connection.send_headers(stream, [(":status", "200"), ("content-length", length), ("x-was", request[":method"])])
        peer.send(stream, content)
    elif target.path == "/content":
        connection.send_headers(stream, [(":status", "103"), ("link", "</style.css>")])
        connection.send_headers(stream, [(":status", "200"), ("x-" + "n" * 40, "v" * 3000)])
        peer.send(stream, pattern(int(query["count"])), trailers=[("x-trailer", "t")])
    elif target.path == "/reset":
        connection.reset_stream(stream, int(query["code"]))
    elif target.path == "/settings":
        connection.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: int(query["streams"])})
        connection.send_headers(stream, [(":status", "204")], end_stream=True)
    elif target.path == "/goaway":
        connection.send_headers(stream, [(":status", "204")], end_stream=True)
        connection.close_connection(last_stream_id=stream, additional_data=b"goodbye")


def ask():
    peer = Peer(is_client=True)
    connection = peer.connection
    sizes = [0, 1, 100, 16384, 16385, 65535, 65536, 300_000]
    heads, contents, ended = {}, {}, set()
    sent = {}
    for size in sizes:
        stream = connection.get_next_available_stream_id()
        fields = [(":method", "POST"), (":scheme", "https"), (":authority", "a.example"), (":path", f"/{size}")]
        fields += [("content-length", str(size)), ("cookie", "a=b"), ("cookie", "c=d"), ("x-" + "n" * 40, "v" * 3000)]
        connection.send_headers(stream, fields, end_stream=size == 0)
        sent[stream] = pattern(size)
        contents[stream] = b""
        if size:
            peer.send(stream, sent[stream])
    connection.ping(b"12345678")
    peer.flush()
    has_pong = False
    for event in peer.events():
        if isinstance(event, h2.events.ResponseReceived):
            heads[event.stream_id] = dict(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            contents[event.stream_id] += event.data
        elif isinstance(event, h2.events.StreamEnded):
            ended.add(event.stream_id)
        elif isinstance(event, h2.events.PingAckReceived):
            has_pong = event.ping_data == b"12345678"
        elif isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
            check(False, f"{event}")
        if len(ended) == len(sizes) and has_pong:
            break
    for stream, content in sent.items():
        check(stream in ended, f"stream {stream} did not end")
        check(heads[stream][":status"] == "200", f"{heads[stream]}")
        check(contents[stream] == content, f"content of {len(content)} bytes is not as it was sent")
    connection.close_connection()
    peer.flush()
    peer.socket.shutdown(socket.SHUT_WR)


serve() if sys.argv[1] == "server" else ask()
