"""An HTTP/2 server on a port of loopback, a free one unless said otherwise, with `h2`, which is not ours. Does what the paths of requests ask.

usage: h2_upstream.py [--port N] [--streams N] [--certificate FILE --key FILE]

Prints its port. Ends when standard input does.
"""

import argparse
import asyncio
import ssl
import sys
from urllib.parse import parse_qs, urlsplit

try:
    import h2.config
    import h2.connection
    import h2.errors
    import h2.events
    import h2.exceptions
    import h2.settings
except ImportError as error:
    sys.exit(f"{error}; `make test` installs h2 and sets TEST_PYTHON to its interpreter.")


class Upstream(asyncio.Protocol):
    held = []
    streams = 100

    def connection_made(self, transport):
        self.transport = transport
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self.connection = h2.connection.H2Connection(config)
        self.connection.local_settings = h2.settings.Settings(
            client=False, initial_values={h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self.streams}
        )
        self.paths, self.contents, self.waiting = {}, {}, {}
        self.connection.initiate_connection()
        self.flush()

    def flush(self):
        if data := self.connection.data_to_send():
            self.transport.write(data)

    def data_received(self, data):
        try:
            events = self.connection.receive_data(data)
        except h2.exceptions.ProtocolError:
            self.flush()
            return self.transport.close()
        for event in events:
            self.handle(event)
        for stream in list(self.waiting):
            self.pump(stream)
        self.flush()

    def handle(self, event):
        if isinstance(event, h2.events.RequestReceived):
            headers = dict(event.headers)
            self.paths[event.stream_id] = (headers[":method"], headers[":path"])
            self.last_fields = event.headers
            self.contents[event.stream_id] = b""
            if urlsplit(headers[":path"]).path == "/early":
                self.answer(event.stream_id, 413)
        elif isinstance(event, h2.events.DataReceived):
            self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if event.stream_id in self.contents:
                self.contents[event.stream_id] += event.data
        elif isinstance(event, h2.events.StreamEnded):
            if event.stream_id in self.paths:
                self.serve(event.stream_id, *self.paths.pop(event.stream_id))
        elif isinstance(event, h2.events.StreamReset):
            self.waiting.pop(event.stream_id, None)
            Upstream.held = [one for one in Upstream.held if one != (self, event.stream_id)]

    def answer(self, stream, status=200, content=b"", **fields):
        headers = [(":status", str(status))] + [(name.replace("_", "-"), value) for name, value in fields.items()]
        self.connection.send_headers(stream, headers, end_stream=not content)
        if content:
            self.waiting[stream] = content
            self.pump(stream)

    def pump(self, stream):
        """Sends as much as the windows allow."""
        content = self.waiting[stream]
        while content:
            count = min(
                self.connection.local_flow_control_window(stream),
                self.connection.max_outbound_frame_size,
                len(content),
            )
            if count <= 0:
                break
            self.connection.send_data(stream, content[:count], end_stream=count == len(content))
            content = content[count:]
        if content:
            self.waiting[stream] = content
        else:
            del self.waiting[stream]

    def serve(self, stream, method, target):
        target = urlsplit(target)
        query = {name: int(values[0]) for name, values in parse_qs(target.query).items() if values[0].isdigit()}
        content = self.contents.pop(stream)
        if target.path == "/echo":
            self.answer(stream, 200, content, x_method=method, content_length=str(len(content)))
        elif target.path == "/sent":
            self.answer(stream, 200, "\n".join(f"{name}: {value}" for name, value in self.last_fields).encode())
        elif target.path == "/count":
            self.answer(stream, 200, bytes(index % 251 for index in range(query["bytes"])))
        elif target.path == "/hold":
            Upstream.held.append((self, stream))
        elif target.path == "/held":
            self.answer(stream, 200, str(len(Upstream.held)).encode())
        elif target.path == "/release":
            held, Upstream.held = Upstream.held, []
            for peer, other in held:
                peer.answer(other, 200, b"released")
                peer.flush()
            self.answer(stream, 204)
        elif target.path == "/status":
            self.answer(stream, query["code"])
        elif target.path == "/reset":
            self.connection.reset_stream(stream, query["code"])
        elif target.path == "/half":
            self.connection.send_headers(stream, [(":status", "200"), ("content-length", "100")])
            self.connection.send_data(stream, b"half")
            if query.get("reset"):
                self.connection.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
            elif query.get("end"):
                self.connection.end_stream(stream)
            else:
                self.flush()
                self.transport.abort()
        elif target.path == "/fields":
            self.answer(stream, 200, b"", **{f"x-{number}": "v" * 1000 for number in range(query["count"])})
        elif target.path == "/abort":
            self.transport.abort()
        elif target.path == "/freeze":
            self.transport.pause_reading()
        elif target.path == "/goaway":
            self.goaway(stream, query)
        else:
            self.answer(stream, 200, b"hello", x_path=target.path)

    def goaway(self, stream, query):
        """Takes nothing more. Behind `after`, streams are left out; those before it are answered when released."""
        last = query.get("after", stream)
        if stream <= last:
            self.answer(stream, 204)
        # h2 closes its own state at once, and others are still to be answered: so the frame is written by hand.
        self.flush()
        code = query.get("code", 0)
        payload = last.to_bytes(4, "big") + code.to_bytes(4, "big")
        self.transport.write(len(payload).to_bytes(3, "big") + b"\x07\x00" + bytes(4) + payload)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    arguments = parser.parse_args()
    Upstream.streams = arguments.streams
    context = None
    if arguments.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.certificate, arguments.key)
        context.set_alpn_protocols(["h2"])
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", arguments.port, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
