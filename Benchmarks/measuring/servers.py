"""How the two servers are started: alike in everything that is not measured."""

import os
import socket
import ssl
from dataclasses import dataclass

from . import tools
from .process import Process, free_port

TOKEN = "/token"


class Ours:
    """The release binary, with one loop unless it is started with more, and with some settings."""

    name = "ours"

    def __init__(self, binary, credentials, settings=None):
        self.binary = binary
        self.credentials = credentials
        self.settings = settings or {}

    def start(self, tls=False, logs=False, connections=1000, cores=tools.SERVER_CORES, loops=1, settings=None):
        """Starts it: with HTTPS, with access lines, for so many connections, with further settings."""
        port = free_port()
        environment = self.environment(port, tls, logs, connections) | {"SERVER_LOOPS": str(loops)}
        return Process([self.binary, "serve"], port, cores, environment | (settings or {}))

    def environment(self, port, tls=False, logs=False, connections=1000):
        """Its settings."""
        environment = {
            "MUSICKIT_TEAM_ID": "TEAM123456",
            "MUSICKIT_KEY_FILE": str(self.credentials.signing_key),
            "ACCESS_ANONYMOUS": "{ token: true }",
            "SERVER_PORT": str(port),
            "SERVER_LOOPS": "1",
            "SERVER_LIMITS_CONNECTIONS": str(connections),
            "SERVER_LIMITS_CONNECTIONS_PER_ADDRESS": str(connections),
            "ADMIN_ENABLED": "false",
            "TOKEN_MAX_TTL": "182d",
            "LOG_LEVEL": "info" if logs else "warning",
        }
        if tls:
            environment["SERVER_TLS_CERTIFICATE_FILE"] = str(self.credentials.certificate)
            environment["SERVER_TLS_KEY_FILE"] = str(self.credentials.key)
        return environment | self.settings


@dataclass(frozen=True)
class Site:
    """What nginx is to do: directives for its `server` block, and for the `http` block around it."""

    server: str
    http: str = ""
    listen: str = ""
    # The number of connections that the server needs for one connection of a caller.
    room: int = 1


class Nginx:
    """nginx, with one worker unless it is started with more."""

    name = "nginx"

    def __init__(self, directory, credentials, site):
        self.directory = directory
        self.credentials = credentials
        self.site = site

    def start(self, tls=False, logs=False, connections=1000, cores=tools.SERVER_CORES, loops=1):
        """Starts it: with HTTPS, with access lines, for so many connections."""
        port = free_port()
        file = self.directory / f"nginx-{port}.conf"
        file.write_text(self._configuration(port, tls, logs, connections, loops))
        with open(self.directory / "nginx.log", "ab") as errors:
            return Process([tools.find("nginx"), "-p", self.directory, "-c", file], port, cores, errors=errors)

    def _configuration(self, port, tls, logs, connections, loops):
        # nginx closes idle connections when only a sixteenth of all is left.
        temporary = "\n".join(
            f"  {kind}_temp_path {self.directory}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        certificate = (
            f"    ssl_certificate {self.credentials.certificate};\n"
            f"    ssl_certificate_key {self.credentials.key};\n"
            "    ssl_protocols TLSv1.2 TLSv1.3;\n") if tls else ""
        return f"""
{"user root;" if os.geteuid() == 0 else ""}
daemon off;
worker_processes {loops};
error_log stderr error;
pid {self.directory}/nginx-{port}.pid;
events {{ worker_connections {connections * self.site.room * 16 // 15 + 16}; }}
http {{
{temporary}
  access_log {"/dev/null combined buffer=64k flush=1s" if logs else "off"};
  server_tokens off;
  keepalive_requests 1000000000;
{self.site.http}
  server {{
    listen 127.0.0.1:{port} backlog=4096 {"ssl http2" if tls else ""} {self.site.listen};
{certificate}
{self.site.server}
  }}
}}
"""


class Answer:
    """What our server says to a request."""

    # The fields that the other servers create themselves.
    _OWN = {"date", "content-type", "content-length", "connection", "server"}

    def __init__(self, port, path=TOKEN, fields={}):
        with connect(port) as connection:
            head, _, body = exchange(connection, message=request(path, fields)).partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert lines[0] == "HTTP/1.1 200 OK", f"{lines[0]} {body.decode()}"
        pairs = [line.split(": ", 1) for line in lines[1:]]
        self.body = body.decode()
        self.fields = {name.lower(): value for name, value in pairs}
        self._extra_fields = [pair for pair in pairs if pair[0].lower() not in self._OWN]

    def extra_fields(self, present=()):
        """The names and values of the fields that a server does not create itself, without `present` (in lower case)."""
        return [(name, value) for name, value in self._extra_fields if name.lower() not in present]

    def added_fields(self):
        """What makes nginx send the same fields."""
        return "\n".join(f"    add_header {name} '{value}';" for name, value in self._extra_fields)


def connect(port, tls=False, source=""):
    """A connection to a local server; closing it resets it, so that no port waits."""
    connection = socket.create_connection(("127.0.0.1", port), source_address=(source, 0) if source else None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    return CLIENT.wrap_socket(connection) if tls else connection


def request(path=TOKEN, fields={}):
    """A request as simple as can be, with these fields."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode()


def exchange(connection, path=TOKEN, message=None):
    """One request, `message` or a simple one, and its whole answer."""
    connection.sendall(message or request(path))
    answer = b""
    while True:
        part = connection.recv(65536)
        if not part:
            raise RuntimeError("the server closed the connection")
        answer += part
        head, end, body = answer.partition(b"\r\n\r\n")
        if not end:
            continue
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        if len(body) >= length:
            return answer


CLIENT = ssl.create_default_context()
CLIENT.check_hostname = False
CLIENT.verify_mode = ssl.CERT_NONE
