"""A TLS client that shakes hands and does nothing else."""

import socket
import ssl
import time

from .servers import connect, exchange

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def shake_hands(port, version, resumes, seconds):
    """Makes one connection after the other. Gives their number.

    Each ends with close_notify. All resumed ones use one session.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = VERSIONS[version]
    session = _session(context, port) if resumes else None
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        plain = connect(port)
        # The kernel would hold the end of the stream back until the server has acknowledged the end of the handshake.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = context.wrap_socket(plain, session=session)
        if connection.session_reused != resumes:
            raise RuntimeError(f"the handshake was {'full' if resumes else 'resumed'}")
        _end(connection)
        count += 1
    return count


def _session(context, port):
    """A session to resume. With TLS 1.3 it comes after the handshake, and before the first response."""
    with context.wrap_socket(connect(port)) as connection:
        exchange(connection)
        return connection.session


def _end(connection):
    """Sends close_notify and the end of the stream, and waits for the server's end."""
    connection.setblocking(False)
    try:
        connection.unwrap()
    except OSError:
        # It does not wait for the server's close_notify: h2o sends none.
        pass
    connection.settimeout(10)
    try:
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    connection.close()
