"""Peers that make a server hold memory: each opens a connection, sends something, and reads nothing.

usage: hostile_peers.py PORT KIND COUNT [PATH [ADDRESSES]]

KIND is one of

    idle        nothing is sent
    begun       the beginning of a request
    head        a header section of 30 kB without its end
    body        a POST to /token with 16 kB of content, all but the last byte
    post        the same with 52 bytes in all
    pipelined   many requests for PATH at once
    reader      one request for PATH
    waiting     one request for PATH with a number behind it, so that no two are the same
    long        the same with a header section of 28 kB
    content     a POST to PATH with 14 kB of content
    handshake   the first message of a TLS handshake
    hello       12 kB of a ClientHello of 16 kB
    tls         a whole TLS handshake
    tls-reader  that, and one request for PATH
    h2-windows  that by HTTP/2, and a hundred requests for PATH, without a window for their responses
    h2-content  that, and a hundred POSTs to PATH with 8 kB of content, all but the last byte
    h2-rest     a whole TLS handshake, and HTTP/2 without a request
    h2-tables   that, and requests for PATH that fill HPACK's table with fields of one byte
    h2-heads    that, and a hundred POSTs to PATH with 28 kB of header fields, which HPACK makes 4 kB for all of them

They come from 127.0.0.2, or in turn from that and the addresses behind it, ADDRESSES in all. When the server has dealt
with what all have sent, prints a JSON object: `open` connections that the server keeps, `refused` ones, which it closed
or answered with 503, and the beginning of one such `refusal`. Then holds them until standard input ends. Before that,
prints an empty line after each step, so that a slow machine differs from a server that hangs.
"""

import json
import resource
import select
import socket
import ssl
import sys
import time

PORT, KIND, COUNT = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
PATH = sys.argv[4] if len(sys.argv) > 4 else "/token"
ADDRESSES = int(sys.argv[5]) if len(sys.argv) > 5 else 1
HEAD = "{} {} HTTP/1.1\r\nHost: localhost\r\n"
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TLS.check_hostname = False
TLS.verify_mode = ssl.CERT_NONE
PROBE = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
PROBE.check_hostname = False
PROBE.verify_mode = ssl.CERT_NONE
IS_HTTP2 = KIND.startswith("h2-")
IS_SECURE = IS_HTTP2 or KIND.startswith("tls") or KIND in ("handshake", "hello")
if IS_HTTP2:
    TLS.set_alpn_protocols(["h2"])


def hello():
    """The first message of a TLS handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = TLS.wrap_bio(incoming, outgoing)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def frame(kind, flags, stream, content=b""):
    """A frame of HTTP/2 (RFC 9113 §4.1)."""
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def streams():
    """The bytes of a client of HTTP/2 with a hundred streams (RFC 7541 appendix A, §6.1, §6.2)."""
    path = b"\x04" + bytes([len(PATH)]) + PATH.encode()
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    if KIND == "h2-rest":
        return preface + frame(4, 0, 0)
    if KIND == "h2-tables":
        fields = b"".join(b"\x40\x01" + bytes([97 + number % 26]) + b"\x00" for number in range(80))
        requests = [frame(1, 5, 2 * number + 1, b"\x82\x87" + path + b"\x01\x09localhost" + fields) for number in range(2)]
        return preface + frame(4, 0, 0) + b"".join(requests)
    sent = preface + frame(4, 0, 0, bytes([0, 4, 0, 0, 0, 0]))
    for number in range(100):
        block = (b"\x82" if KIND == "h2-windows" else b"\x83") + b"\x87" + path + b"\x01\x09localhost"
        if KIND == "h2-heads":
            # A field of 4000 bytes, and then the uses of its entry in the table.
            block += (b"\x40\x01x\x7f\xa1\x1e" + b"a" * 4000 if number == 0 else b"") + b"\xbe" * 6
        sent += frame(1, 5 if KIND == "h2-windows" else 4, 2 * number + 1, block)
        if KIND == "h2-content":
            sent += frame(0, 0, 2 * number + 1, b" " * 8000)
    return sent


def message(number):
    if IS_HTTP2:
        return streams()
    get = HEAD.format("GET", PATH)
    if KIND == "begun":
        return get
    if KIND == "head":
        return get + "".join(f"X-{line}: {'a' * 1000}\r\n" for line in range(29))
    if KIND == "body":
        return HEAD.format("POST", "/token") + "Content-Length: 16000\r\n\r\n" + " " * 15_999
    if KIND == "post":
        return "POST /token HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"
    if KIND == "pipelined":
        return (get + "\r\n") * 100
    if KIND == "long":
        return HEAD.format("GET", f"{PATH}{number}") + f"X-Padding: {'a' * 14_000}\r\n" * 2 + "\r\n"
    if KIND == "content":
        return HEAD.format("POST", PATH) + "Content-Length: 14000\r\n\r\n" + " " * 14_000
    if KIND == "waiting":
        return HEAD.format("GET", f"{PATH}{number}") + "\r\n"
    return get + "\r\n" if KIND in ("reader", "tls-reader") else ""


def send(connection, data):
    """What the server takes of it within a moment: one that does not read is not waited for."""
    data = memoryview(data)
    connection.setblocking(False)
    while data:
        try:
            data = data[connection.send(data):]
        except BlockingIOError:
            if not select.select([], [connection], [], 0.2 if KIND != "pipelined" else 0)[1]:
                return
    connection.setblocking(True)


def connect(number):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    # The port is chosen by connect: one that bind takes is free for no other server's peers until it has timed out.
    connection.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT, which Python 3.11 does not name.
    connection.bind((f"127.0.0.{2 + number % ADDRESSES}", 0))
    connection.connect(("127.0.0.1", PORT))
    try:
        if KIND.startswith("tls") or IS_HTTP2:
            connection = TLS.wrap_socket(connection)
        data = FIRST if KIND == "handshake" else HALF if KIND == "hello" else message(number)
        send(connection, data if isinstance(data, bytes) else data.encode())
    except OSError:
        pass
    return connection


def refusal(connection):
    """What the server said before it closed the connection, or its 503. None if it keeps the connection."""
    try:
        connection.setblocking(False)
        while IS_HTTP2:
            if not connection.recv(65536):
                return "closed"
        is_secure = isinstance(connection, ssl.SSLSocket)
        said = connection.recv(1000) if is_secure else connection.recv(1000, socket.MSG_PEEK)
        return said.decode("latin-1") or "closed" if said[9:12] in (b"503", b"") else None
    except (ssl.SSLWantReadError, BlockingIOError):
        return None
    except OSError as error:
        return str(error)


def settle():
    """Lets the server deal with everything: with as many requests as make it likely that every loop gets some of them.

    A loop takes connections in their order, so what answers these has dealt with those before. They come from another
    address, which holds nothing; where even that is refused, the server is busy refusing, and has dealt with the rest.
    """
    for _ in range(32):
        try:
            with socket.create_connection(("127.0.0.1", PORT), timeout=60) as connection:
                probe = PROBE.wrap_socket(connection) if IS_SECURE else connection
                probe.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                while probe.recv(4096):
                    pass
        except OSError:
            pass
        print(flush=True)
    # What waits for work or for the upstream takes a few turns more.
    time.sleep(0.2)


HALF = b"\x16\x03\x01\x30\x00\x01\x00\x3f\x00\x03\x03" + bytes(12_282)
FIRST = hello()
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
connections = []
for number in range(COUNT):
    try:
        connections.append(connect(number))
    except OSError:
        pass
    print(flush=True)
refusals = None
while True:
    before = refusals
    settle()
    refusals = [said for said in map(refusal, connections) if said]
    # On a busy machine the server may not have come to all of them: it has when one more look finds nothing new.
    if before is not None and len(refusals) == len(before):
        break
refused = COUNT - len(connections) + len(refusals)
print(json.dumps({"open": COUNT - refused, "refused": refused, "refusal": (refusals or [""])[-1]}), flush=True)
sys.stdin.read()
