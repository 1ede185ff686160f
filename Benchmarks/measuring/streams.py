"""A client of HTTP/2 over TLS that sends one request at a time (RFC 9113)."""

import ssl

from .servers import CLIENT, TOKEN, connect

DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def block(path=TOKEN):
    """The header block of a simple request (RFC 7541 appendix A): GET, https, path, authority; no entry for the table."""
    return b"\x82\x87\x04" + bytes([len(path)]) + path.encode() + b"\x01\x09localhost"


class Streams:
    """A connection. Its requests are header blocks."""

    tls = True

    def __init__(self, port):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = CLIENT.check_hostname, CLIENT.verify_mode
        context.set_alpn_protocols(["h2"])
        self.connection = context.wrap_socket(connect(port))
        self.connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(SETTINGS, 0, 0))
        self.stream = -1
        self.owed = b""
        self.unread = b""

    def exchange(self, message):
        """One request and its whole response. The acknowledgements of the last response go with the next request."""
        self.stream += 2
        self.connection.sendall(self.owed + _frame(HEADERS, END_STREAM | END_HEADERS, self.stream, message))
        self.owed = b""
        while True:
            kind, flags, stream, content = self._frame()
            if kind == SETTINGS and not flags & ACK:
                self.owed += _frame(SETTINGS, ACK, 0)
            if kind == DATA:
                self.owed += _frame(WINDOW_UPDATE, 0, 0, len(content).to_bytes(4, "big"))
                if stream == self.stream and flags & END_STREAM:
                    return

    def close(self):
        self.connection.close()

    def _frame(self):
        while len(self.unread) < 9 or len(self.unread) < 9 + int.from_bytes(self.unread[:3], "big"):
            part = self.connection.recv(65536)
            if not part:
                raise RuntimeError("the server closed the connection")
            self.unread += part
        length, kind, flags = int.from_bytes(self.unread[:3], "big"), self.unread[3], self.unread[4]
        stream, content = int.from_bytes(self.unread[5:9], "big"), self.unread[9:9 + length]
        self.unread = self.unread[9 + length:]
        return kind, flags, stream, content


def _frame(kind, flags, stream, content=b""):
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content
