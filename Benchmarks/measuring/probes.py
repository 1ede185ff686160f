"""Health checks, each on a new connection, and a modest client on a kept one: `probes.py HTTP-URL… OPTIONS`.

Every plain URL is asked 20 times a second, whether or not the response before has come, as probes do; one of https five
times a second, because a handshake is a load. `--modest` is the URL of the modest client, which sends 20 requests a
second, one after the other. When standard input ends, prints a JSON object with the times of each, and how late this
program itself was.
"""

import argparse
import json
import os
import socket
import ssl
import sys
import threading
import time

CLIENT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CLIENT.check_hostname, CLIENT.verify_mode = False, ssl.CERT_NONE
PATIENCE = 5


def split(url):
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    return scheme == "https", int(host.partition(":")[2]), "/" + path


def connect(secure, port, address):
    connection = socket.socket()
    connection.settimeout(PATIENCE)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.bind((address, 0))
    connection.connect(("127.0.0.1", port))
    return CLIENT.wrap_socket(connection) if secure else connection


def ask(connection, path):
    """The status of the response, and its content."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = b""
    while True:
        part = connection.recv(65536)
        if not part:
            raise OSError("closed")
        answer += part
        head, whole, body = answer.partition(b"\r\n\r\n")
        length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        if whole and len(body) >= int(length or 0):
            return int(answer[9:12])


class Subject:
    """One URL: the seconds that each request took, and how often it failed."""

    def __init__(self, url, address, keeps):
        self.secure, self.port, self.path = split(url)
        self.address, self.keeps = address, keeps
        self.times, self.failures, self.lateness = [], {}, []
        self.connection = None
        self.pause = 0.2 if self.secure and not keeps else 0.05

    def request(self, due):
        self.lateness.append(time.perf_counter() - due)
        try:
            connection = self.connection or connect(self.secure, self.port, self.address)
            self.connection = None
            status = ask(connection, self.path)
            if self.keeps:
                self.connection = connection
            else:
                connection.close()
            if status != 200:
                self.fail(str(status))
        except OSError as error:
            self.fail("timeout" if isinstance(error, TimeoutError) else "closed")
        # A failure counts with its time as well: one that is fast is still a failure.
        self.times.append(time.perf_counter() - due)

    def fail(self, why):
        self.failures[why] = self.failures.get(why, 0) + 1

    def repeat(self, pause, ended):
        due = time.perf_counter()
        while not ended.wait(max(0, due - time.perf_counter())):
            if self.keeps:
                self.request(due)
                due = max(due + pause, time.perf_counter())
            else:
                threading.Thread(target=self.request, args=(due,), daemon=True).start()
                due += pause


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("urls", nargs="+")
    parser.add_argument("--modest")
    options = parser.parse_args()
    try:
        # Before any load of this machine, because a probe comes from another one.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        pass
    ended = threading.Event()
    subjects = [Subject(url, "127.0.0.9", False) for url in options.urls]
    if options.modest:
        subjects.append(Subject(options.modest, "127.0.0.10", True))
    # Its connection is there before the load.
    for subject in subjects[len(options.urls):]:
        subject.request(time.perf_counter())
    threads = [threading.Thread(target=subject.repeat, args=(subject.pause, ended)) for subject in subjects]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    time.sleep(0.2)
    print(json.dumps({
        "lateness": max(max(subject.lateness) for subject in subjects),
        "subjects": [{"times": subject.times, "failures": subject.failures} for subject in subjects]}), flush=True)


if __name__ == "__main__":
    main()
