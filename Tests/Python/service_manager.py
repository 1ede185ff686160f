"""Runs a server as systemd does: passes it listening sockets, and reads its messages.

usage: service_manager.py [--socket NAME=ADDRESS]... [--notify PATH] [--watchdog MICROSECONDS] PROGRAM ARGUMENT...

ADDRESS is an IPv4 address with a port, or a path, also with a mode as in /run/http.sock,0666. The name may be empty: then LISTEN_FDNAMES is not set if all are.
PATH is a socket's path, or an abstract name with @. Commands come as lines: `restart` ends the program by SIGTERM, waits
for its end, and starts it again; `reload` sends SIGHUP; `stop` ends it. Prints the program's lines, `notify MESSAGE` for
each message, its lines separated by `;`, `started PID`, and `ended STATUS`.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading

parser = argparse.ArgumentParser()
parser.add_argument("--socket", action="append", default=[])
parser.add_argument("--notify")
parser.add_argument("--watchdog")
parser.add_argument("command", nargs=argparse.REMAINDER)
options = parser.parse_args()

lock = threading.Lock()


def say(line):
    with lock:
        print(line, flush=True)


def listening(address):
    if address.startswith("/"):
        path, _, mode = address.partition(",")
        opened = socket.socket(socket.AF_UNIX)
        opened.bind(path)
        if mode:
            os.chmod(path, int(mode, 8))
    else:
        host, port = address.rsplit(":", 1)
        opened = socket.socket()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, int(port)))
    opened.listen(4096)
    return opened


names = [entry.split("=", 1)[0] for entry in options.socket]
sockets = [listening(entry.split("=", 1)[1]) for entry in options.socket]
environment = dict(os.environ)
if options.watchdog:
    environment["WATCHDOG_USEC"] = options.watchdog

if options.notify:
    environment["NOTIFY_SOCKET"] = options.notify
    messages = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    messages.bind("\0" + options.notify[1:] if options.notify.startswith("@") else options.notify)

    def listen():
        while True:
            say("notify " + messages.recv(65536).decode().replace("\n", ";"))

    threading.Thread(target=listen, daemon=True).start()


def start():
    def prepare():
        # Duplicates have no FD_CLOEXEC, and numbers from 3 on; first far away, so that none overwrites another.
        high = [os.dup2(opened.fileno(), 100 + index, inheritable=False) for index, opened in enumerate(sockets)]
        for index, descriptor in enumerate(high):
            os.dup2(descriptor, 3 + index, inheritable=True)

    child = dict(environment)
    arguments = options.command
    if sockets:
        child["LISTEN_FDS"] = str(len(sockets))
        if any(names):
            child["LISTEN_FDNAMES"] = ":".join(names)
        # The shell's process is the program's, so only the shell can know its number.
        arguments = ["sh", "-c", 'LISTEN_PID=$$ WATCHDOG_PID=$$ exec "$0" "$@"', *arguments]
    process = subprocess.Popen(
        arguments, env=child, stdout=subprocess.PIPE, text=True, close_fds=False, preexec_fn=prepare)

    def copy():
        for line in process.stdout:
            say(line.rstrip("\n"))

    threading.Thread(target=copy, daemon=True).start()
    say(f"started {process.pid}")
    return process


def end(process):
    process.send_signal(signal.SIGTERM)
    say(f"ended {process.wait()}")


server = start()
for command in sys.stdin:
    match command.strip():
        case "restart":
            end(server)
            server = start()
        case "reload":
            server.send_signal(signal.SIGHUP)
        case "stop":
            end(server)
            sys.exit(0)
# The test has ended.
server.kill()
