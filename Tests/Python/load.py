"""Loads a server that is restarted under it, and counts requests that got lost.

usage: load.py PORT THREADS

A quarter of the threads keep their connection, the others open one for each request. Prints a line with the number of
answers at every hundredth, and at the end of standard input a JSON object: `answered`, `refused` (connections that
nobody accepted: those requests never arrived), `idle` (connections that the server had closed before the request was
sent on them, which RFC 9112 section 9.3.1 lets a client send again), `late` (the same before a connection's first
request) and `lost`, a list of what happened instead.
"""

import errno
import json
import socket
import sys
import threading

PORT = int(sys.argv[1])
lock = threading.Lock()
counts = {"answered": 0, "refused": 0, "idle": 0, "late": 0}
lost = []
stopping = threading.Event()


def count(what):
    with lock:
        counts[what] += 1
        if what == "answered" and counts[what] % 100 == 0:
            print(counts[what], flush=True)


def connect():
    """A connection; None if nobody accepts it."""
    connection = socket.socket()
    connection.settimeout(60)
    try:
        connection.connect(("127.0.0.1", PORT))
        return connection
    except ConnectionRefusedError:
        count("refused")
    except OSError as error:
        # A handshake that the closing listener resets has not been accepted: nothing was sent on it.
        count("refused") if error.errno in (errno.ECONNRESET, errno.ECONNABORTED) else lost.append(f"connect: {error}")
    connection.close()
    return None


def was_idle(connection, error):
    """Whether the server's FIN came before the request: Linux reports the reset that answers it as EPIPE then."""
    pending = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return errno.EPIPE in (pending, getattr(error, "errno", None))


def read_response(connection):
    """The head and the content of one response; None if the connection ends before its first byte."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            if data:
                raise EOFError("the connection ended within a head")
            return None
        data += part
    head, content = data.split(b"\r\n\r\n", 1)
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(content) < length:
        part = connection.recv(65536)
        if not part:
            raise EOFError("the connection ended within the content")
        content += part
    return head, content


def exchange(connection, keeps, is_first):
    """One request; whether the connection can take another."""
    error = None
    try:
        field = b"" if keeps else b"Connection: close\r\n"
        connection.sendall(b"GET /token HTTP/1.1\r\nHost: a\r\n" + field + b"\r\n")
        response = read_response(connection)
    except (OSError, EOFError, StopIteration) as caught:
        response, error = None, caught
    if response is None:
        if was_idle(connection, error):
            count("late" if is_first else "idle")
        else:
            lost.append(f"{'first' if is_first else 'later'} request of a connection: {error or 'no answer'}")
        return False
    head, content = response
    if head.startswith(b"HTTP/1.1 200 ") and json.loads(content)["token"]:
        count("answered")
    else:
        lost.append(head.split(b"\r\n")[0].decode())
    return keeps and b"\r\nConnection: close" not in head


def work(keeps):
    while not stopping.is_set():
        connection = connect()
        if connection is None:
            stopping.wait(0.005)
            continue
        is_first = True
        while exchange(connection, keeps, is_first) and not stopping.is_set():
            is_first = False
        connection.close()


threads = [threading.Thread(target=work, args=(index % 4 == 0,)) for index in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
sys.stdin.read()
stopping.set()
for thread in threads:
    thread.join()
print(json.dumps(counts | {"lost": lost}), flush=True)
