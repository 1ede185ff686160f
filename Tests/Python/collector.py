"""A collector of spans: OTLP over HTTP in JSON, judged by OpenTelemetry's own messages.

Prints its address, then answers control requests on a second one:

    GET  /            the spans that it has taken, and the defects of requests, as JSON
    PUT  /?do=NAME    sets the behaviour of later requests: ok, hang, close, garbage, huge, redirect, partial,
                      status-N, throttle (503 once with Retry-After: 1, then ok), later-N (503 with Retry-After: N)

Arguments: the port (0 for a free one), and a certificate with its key for TLS.
"""

import base64
import json
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

lock = threading.Lock()
never = threading.Event()
state = {"do": "ok", "requests": 0, "attempts": 0, "spans": [], "defects": [], "fields": {}, "resource": {}, "path": ""}

IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def with_base64_ids(value):
    """The document with identifiers as protobuf's JSON has them. As hexadecimal they would parse into wrong bytes."""
    if isinstance(value, list):
        return [with_base64_ids(element) for element in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, member in value.items():
        if key in IDS and isinstance(member, str):
            raw = bytes.fromhex(member)
            if len(raw) != IDS[key] or member != member.lower():
                raise ValueError(f"{key} is {member}")
            result[key] = base64.b64encode(raw).decode()
        else:
            result[key] = with_base64_ids(member)
    return result


def scalar(value):
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None


def take(content):
    # Unknown fields are errors, so a misspelt name does not pass.
    request = Parse(json.dumps(with_base64_ids(json.loads(content))), ExportTraceServiceRequest())
    for resource in request.resource_spans:
        state["resource"] = {a.key: scalar(a.value) for a in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                state["spans"].append({
                    "trace": span.trace_id.hex(), "span": span.span_id.hex(), "parent": span.parent_span_id.hex(),
                    "state": span.trace_state, "flags": span.flags, "name": span.name, "kind": span.kind,
                    "start": str(span.start_time_unix_nano), "end": str(span.end_time_unix_nano),
                    "failed": span.status.code == 2, "scope": scope.scope.name,
                    "attributes": {a.key: scalar(a.value) for a in span.attributes}})


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        with lock:
            state["attempts"] += 1
            do = state["do"]
            if do == "throttle":
                state["do"] = "ok"
        if do == "hang":
            never.wait()
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if do == "close":
            self.close_connection = True
            return
        if do == "garbage":
            self.wfile.write(b"\x00\xff garbage \r\n\r\n" * 64)
            self.close_connection = True
            return
        if do.startswith("status-"):
            return self.reply(int(do[7:]), b"{}")
        if do == "throttle":
            return self.reply(503, b"{}", {"Retry-After": "1"})
        if do.startswith("later-"):
            return self.reply(503, b"{}", {"Retry-After": do[6:]})
        if do == "redirect":
            return self.reply(307, b"", {"Location": f"http://127.0.0.1:{control.server_port}/stolen"})
        with lock:
            state["requests"] += 1
            state["path"] = self.path
            state["fields"] = {name.lower(): value for name, value in self.headers.items()}
            try:
                if self.headers["Content-Type"] != "application/json":
                    raise ValueError(f"Content-Type is {self.headers['Content-Type']}")
                take(content)
            except Exception as error:
                state["defects"].append(repr(error))
        if do == "partial":
            return self.reply(200, b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no"}}')
        if do == "huge":
            return self.reply(200, b"x" * (8 << 20))
        self.reply(200, b"{}")

    def reply(self, status, content, fields={}):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Control(Collector):
    def do_GET(self):
        with lock:
            content = json.dumps(state).encode()
        self.reply(200, content)

    def do_PUT(self):
        with lock:
            state["do"] = parse_qs(urlsplit(self.path).query)["do"][0]
        self.reply(200, b"{}")

    def do_POST(self):
        with lock:
            state["defects"].append("a redirect was followed")
        self.reply(200, b"{}")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", int(sys.argv[1])), Collector)
control = Server(("127.0.0.1", 0), Control)
scheme = "http"
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https"
for one in (server, control):
    threading.Thread(target=one.serve_forever, daemon=True).start()
print(f"Listening on {scheme}://127.0.0.1:{server.server_port}", flush=True)
print(f"Admin on http://127.0.0.1:{control.server_port}", flush=True)
never.wait()
