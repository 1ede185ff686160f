"""An HTTP/1.1 upstream for tests of memory. Prints its port, and serves until it is ended.

The last segment of a path says what comes: `long…` an answer of 1,000,000 bytes that may be kept, `endless` one without
end, `hang…` nothing at all, anything else a short answer.
"""

import socket
import threading

PART = b"a" * 65_536


def answer(connection, name):
    if name.startswith("hang"):
        connection.recv(1)
    elif name == "endless":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"%x\r\n%b\r\n" % (len(PART), PART))
    else:
        content = b'{"data":"%b"}' % (b"a" * (999_989 if name.startswith("long") else 20))
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=600\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(content), content))


def serve(connection):
    with connection:
        stream = connection.makefile("rb")
        try:
            while line := stream.readline():
                while stream.readline().strip():
                    pass
                path = line.split(b" ")[1].decode("latin-1").partition("?")[0]
                answer(connection, path.rsplit("/", 1)[1])
        except (OSError, IndexError):
            pass


def main():
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


main()
