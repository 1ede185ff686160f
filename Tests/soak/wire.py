"""A client's connection: TLS, and HTTP/1.1 without any library that would hide what the server sends."""

import errno
import hashlib
import socket
import ssl
import struct
import time
from dataclasses import dataclass

LIMIT = 60


class Lost(Exception):
    """The connection ended before the whole response had arrived."""

    def __init__(self, reason, received, was_idle):
        super().__init__(reason)
        # Whether any byte of the response had arrived.
        self.received = received
        # Whether the server had closed the connection before the request came.
        self.was_idle = was_idle


@dataclass(frozen=True)
class Response:
    status: int
    fields: dict
    content: bytes

    @property
    def closes(self):
        return self.fields.get("connection", "").lower() == "close"

    def __str__(self):
        return f"{self.status} {self.fields} {self.content[:300]!r}"


class Connection:
    """A connection over TLS, with a session of an earlier one or without."""

    def __init__(self, port, context, source="127.0.0.1", session=None):
        self.is_used = False
        # Whether the client takes the response bit by bit.
        self.is_slow = False
        self._rest = b""
        # The number of the error of the last `send`.
        self._error = None
        self._plain = connect(port, source)
        try:
            self._socket = context.wrap_socket(self._plain, server_hostname="localhost", session=session)
        except OSError:
            self._plain.close()
            raise
        self.is_resumed = self._socket.session_reused
        self.certificate = hashlib.sha256(self._socket.getpeercert(True)).hexdigest()

    @property
    def session(self):
        return self._socket.session

    def send(self, data):
        try:
            self._socket.sendall(data)
        except OSError as error:
            # The response may be there all the same: a server that refuses a request does not read all of it.
            self._error = error.errno

    def response(self, method="GET"):
        """Reads one response; raises `Lost`."""
        while True:
            head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            status = int(head[0].split(" ", 2)[1])
            if status >= 200:
                break
        fields = {}
        for line in head[1:]:
            name, _, value = line.partition(":")
            name = name.lower()
            fields[name] = f"{fields[name]}, {value.strip()}" if name in fields else value.strip()
        if method == "HEAD" or status in (204, 304):
            content = b""
        elif fields.get("transfer-encoding") == "chunked":
            content = self._chunks()
        else:
            content = self._exactly(int(fields["content-length"]))
        self.is_used = True
        return Response(status, fields, content)

    def some(self, count):
        """Reads so many bytes, whatever they are."""
        self._rest = self._exactly(count)

    def _more(self, received=True):
        if self.is_slow:
            time.sleep(0.01)
        try:
            part = self._socket.recv(65536)
        except OSError as error:
            raise self._lost(f"{type(error).__name__} {error}", received, error.errno) from error
        if not part:
            raise self._lost("the server closed the connection", received)
        self._rest += part

    def _lost(self, reason, received, number=None):
        # If the server's FIN came before the request, Linux reports the reset that follows the request as EPIPE.
        pending = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return Lost(reason, received or bool(self._rest), errno.EPIPE in (pending, number, self._error))

    def _until(self, end):
        while end not in self._rest:
            self._more(received=False)
        found, _, self._rest = self._rest.partition(end)
        return found

    def _exactly(self, count):
        while len(self._rest) < count:
            self._more()
        found, self._rest = self._rest[:count], self._rest[count:]
        return found

    def _chunks(self):
        content = b""
        while True:
            size = int(self._line().partition(b";")[0], 16)
            if size == 0:
                while self._line():
                    pass
                return content
            content += self._exactly(size)
            self._line()

    def _line(self):
        while b"\r\n" not in self._rest:
            self._more()
        found, _, self._rest = self._rest.partition(b"\r\n")
        return found

    def close(self):
        self._socket.close()

    def reset(self):
        """Ends the connection as a crashed client does."""
        reset(self._socket)


def connect(port, source="127.0.0.1"):
    plain = socket.create_connection(("127.0.0.1", port), timeout=LIMIT, source_address=(source, 0))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def client_context(authority):
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols(["http/1.1"])
    return context
