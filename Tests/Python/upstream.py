"""An upstream that misbehaves as it is told to, over HTTP/1.1 and HTTP/2 (`h2`, which is not ours).

usage: upstream.py [PORT [CERTIFICATE KEY [STREAMS]]]

PORT 0 is a free one. With a certificate it speaks TLS, and with STREAMS, the most at a time on a connection, HTTP/2 by
ALPN too. Prints `Listening on URL` and `Admin on URL`. What it does with a request stands in the parameter `do` of the
query, or was set for all by `PUT /?do=…` on the admin URL:

    ok             200 and the target in JSON (the default)
    status-N       the status N; 401 without content
    user-401       401 under /v1/me/ and to a Music-User-Token, 200 elsewhere
    hold           answers when told so by `POST /` on the admin URL
    close          closes the connection without an answer
    long           says that the content is longer than it is, and closes
    short          says that it is shorter than it is
    cut            stops within the content, which has no length, and closes (HTTP/2: resets the stream)
    big            ok with 3 MB, as are big-long and big-cut
    refuse         refuses the first request for the target as unprocessed (HTTP/2: REFUSED_STREAM; HTTP/1.1: closes)
    goaway         ok, and says of the connection that it takes no more requests
    break-NAME     breaks the HTTP/2 protocol in place of an answer: `settings`, `hpack`, `continuation`, or closes the
                   connection: `end`. In a query, only for the first request for the target
    headless       the same without SETTINGS at the beginning of a connection
    narrow         ok, on connections that allow 100 bytes of header fields in a request (HTTP/2)
    NAME,NAME      the first for the first request for the target, then the next, then ok
    mute           nothing any more on this connection, no answer, no PING, after the first request for the target (HTTP/2)

`GET /` on the admin URL answers with a JSON object: `connections` so far, `requests` so far, `held` at present, `tokens`
(different ones), `most` streams at a time on one connection, `gone` (requests whose caller went away), `paths`, and
`served`, the same for targets.
"""

import asyncio
import json
import ssl
import sys
from collections import Counter
from urllib.parse import parse_qs, urlsplit

try:
    import h2.config
    import h2.connection
    import h2.errors
    import h2.events
    import h2.exceptions
    import h2.settings
    import hyperframe.frame
except ImportError as error:
    sys.exit(f"{error}; `make test` installs h2 and sets TEST_PYTHON to its interpreter.")


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


VIOLATIONS = {
    "settings": frame(4, 0, 0, b"12345"),
    "hpack": frame(1, 4, 1, b"\xff\xff\xff\xff\xff\x7f"),
    "continuation": frame(1, 0, 1, b"\x88") + frame(9, 0, 1) * 2000,
    "headless": frame(1, 4, 1, b"\x88"),
}


class State:
    behaviour = "ok"
    streams = 0
    connections = requests = held = most = gone = 0
    tokens, refused = set(), set()
    paths, served, steps = Counter(), Counter(), Counter()
    release = asyncio.Event()


def receive(path, token, user):
    """Notes a request, and says what is to be done with it."""
    target = urlsplit(path)
    State.requests += 1
    State.paths[target.path] += 1
    State.tokens.add(token)
    asked = parse_qs(target.query).get("do", [None])[0]
    behaviour = asked or State.behaviour
    if asked and "," in asked:
        behaviours = asked.split(",") + ["ok"]
        behaviour = behaviours[min(State.steps[path], len(behaviours) - 1)]
        State.steps[path] += 1
    elif behaviour in ("refuse", "mute") or asked and asked.startswith("break-"):
        behaviour = "ok" if path in State.refused else behaviour
        State.refused.add(path)
    if behaviour == "user-401":
        behaviour = "status-401" if user or path.startswith("/v1/me/") else "ok"
    return behaviour


def answer(behaviour, path):
    """Status, content, and the length that is said; None for none."""
    State.served[path] += 1
    status = int(behaviour[7:]) if behaviour.startswith("status-") else 200
    content = b"" if status == 401 else json.dumps({"data": [{"href": path}]}).encode()
    if behaviour.startswith("big"):
        content = json.dumps({"data": ["x" * 3_000_000]}).encode()
    length = len(content)
    if behaviour.endswith("long"):
        length *= 2
    if behaviour.endswith("short"):
        length //= 2
    return status, content, None if behaviour.endswith("cut") else length


async def until_released():
    State.held += 1
    try:
        await State.release.wait()
    finally:
        State.held -= 1


# HTTP/1.1


async def serve_http1(reader, writer):
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.decode("latin-1").split("\r\n")
            method, path, _ = lines[0].split(" ")
            fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:-2])}
            await reader.readexactly(int(fields.get("content-length", 0)))
            behaviour = receive(path, fields.get("authorization"), fields.get("music-user-token"))
            if not await answer_http1(reader, writer, behaviour, path, method):
                return
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def answer_http1(reader, writer, behaviour, path, method):
    """Whether the connection goes on."""
    if behaviour in ("close", "refuse"):
        return False
    if behaviour == "hold":
        # Whoever waits for an answer says nothing meanwhile, but goodbye.
        goodbye = asyncio.ensure_future(reader.read(1))
        release = asyncio.ensure_future(until_released())
        await asyncio.wait([goodbye, release], return_when=asyncio.FIRST_COMPLETED)
        if not release.done():
            release.cancel()
            State.gone += 1
            return False
        goodbye.cancel()
        await asyncio.sleep(0)
    status, content, length = answer(behaviour, path)
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\n"
    if length is None:
        head += "Transfer-Encoding: chunked\r\n\r\n"
        content = b"%x\r\n%s" % (len(content), content[: len(content) // 2])
    else:
        head += f"Content-Length: {length}\r\n\r\n"
    writer.write(head.encode() + (b"" if method == "HEAD" else content))
    await writer.drain()
    return length == len(content)


# HTTP/2


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        # Not by assignment, which would count from the acknowledgement but never be said.
        values = {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: State.streams}
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values=values)
        self.requests, self.waiting, self.tasks = {}, {}, set()
        self.is_mute = False

    async def serve(self):
        if State.behaviour == "headless":
            self.writer.write(VIOLATIONS["headless"])
            self.is_mute = True
        self.h2.initiate_connection()
        if State.behaviour == "narrow":
            # In one piece: between two, the client would take the first for all.
            narrow = frame(4, 0, 0, b"\x00\x06" + (100).to_bytes(4, "big"))
            self.writer.write(self.h2.data_to_send() + narrow)
        await self.flush()
        try:
            while received := await self.reader.read(65536):
                if self.is_mute:
                    continue
                for event in self.h2.receive_data(received):
                    self.handle(event)
                self.pump()
                await self.flush()
        except (OSError, h2.exceptions.ProtocolError):
            pass
        finally:
            State.gone += len(self.tasks)
            for task in self.tasks:
                task.cancel()
            self.writer.close()

    async def flush(self):
        if self.is_mute:
            return
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    def handle(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.requests[event.stream_id] = dict(event.headers)
            State.most = max(State.most, self.h2.open_inbound_streams)
        elif isinstance(event, h2.events.DataReceived):
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.respond(event.stream_id, self.requests[event.stream_id])
        elif isinstance(event, h2.events.StreamReset):
            self.waiting.pop(event.stream_id, None)
            request = self.requests.pop(event.stream_id, None)
            if request is not None and "task" in request:
                State.gone += 1
                request["task"].cancel()

    def respond(self, stream, request):
        path = request[":path"]
        behaviour = receive(path, request.get("authorization"), request.get("music-user-token"))
        if behaviour == "close":
            self.writer.transport.abort()
        elif behaviour == "refuse":
            self.h2.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)
        elif behaviour == "break-end":
            self.writer.transport.abort()
        elif behaviour.startswith("break-"):
            self.writer.write(self.h2.data_to_send() + VIOLATIONS[behaviour[6:]])
        elif behaviour == "mute":
            self.is_mute = True
        elif behaviour == "hold":
            task = asyncio.ensure_future(self.respond_later(stream, path))
            request["task"] = task
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        else:
            self.answer(stream, behaviour, path)

    async def respond_later(self, stream, path):
        await until_released()
        self.requests[stream].pop("task")
        self.answer(stream, "ok", path)
        self.pump()
        await self.flush()

    def answer(self, stream, behaviour, path):
        status, content, length = answer(behaviour, path)
        fields = [(":status", str(status)), ("content-type", "application/json")]
        if length is not None:
            fields.append(("content-length", str(length)))
        self.h2.send_headers(stream, fields)
        is_cut = behaviour.endswith("cut")
        self.waiting[stream] = (content[: len(content) // 2] if is_cut else content, is_cut)
        if behaviour == "goaway":
            self.pump()
            self.go_away(stream)

    def go_away(self, stream):
        """GOAWAY by hand: `h2` takes itself for closed once it has sent one, and could not answer what is under way."""
        frame = hyperframe.frame.GoAwayFrame(0, last_stream_id=self.h2.highest_inbound_stream_id, error_code=0)
        self.writer.write(self.h2.data_to_send() + frame.serialize())

    def pump(self):
        for stream, (content, is_cut) in list(self.waiting.items()):
            while content:
                room = self.h2.local_flow_control_window(stream)
                count = min(room, self.h2.max_outbound_frame_size, len(content))
                if count == 0:
                    break
                self.h2.send_data(stream, content[:count])
                content = content[count:]
            self.waiting[stream] = (content, is_cut)
            if content:
                continue
            del self.waiting[stream]
            self.requests.pop(stream, None)
            if is_cut:
                self.h2.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
            else:
                self.h2.end_stream(stream)


async def serve(reader, writer):
    State.connections += 1
    tls = writer.get_extra_info("ssl_object")
    if tls is not None and tls.selected_alpn_protocol() == "h2":
        await Connection(reader, writer).serve()
    else:
        await serve_http1(reader, writer)


# What the test says and asks


async def serve_admin(reader, writer):
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, _ = head.decode().split("\r\n")[0].split(" ")
        if method == "PUT":
            State.behaviour = parse_qs(urlsplit(path).query)["do"][0]
        elif method == "POST":
            State.release.set()
            State.release = asyncio.Event()
        counts = {name: getattr(State, name) for name in ("connections", "requests", "held", "most", "gone")}
        document = counts | {"tokens": len(State.tokens), "paths": State.paths, "served": State.served}
        content = json.dumps(document).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
        await writer.drain()
    finally:
        writer.close()


async def main():
    port, *rest = sys.argv[1:] or ["0"]
    context = None
    if rest:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(rest[0], rest[1])
        State.streams = int(rest[2]) if len(rest) > 2 else 0
        context.set_alpn_protocols(["h2", "http/1.1"] if State.streams else ["http/1.1"])
    server = await asyncio.start_server(serve, "127.0.0.1", int(port), ssl=context, backlog=1024)
    admin = await asyncio.start_server(serve_admin, "127.0.0.1", 0)
    scheme = "https" if context else "http"
    print(f"Listening on {scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    print(f"Admin on http://127.0.0.1:{admin.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
