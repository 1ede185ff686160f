"""A store of replicas that speaks RESP 3 well enough for their greeting, and then does harm.

usage: hostile_store.py MODE

MODE is one of

    honest      one replica's right replies, for comparison
    garbage     bytes that are no reply
    endless     strings, lines, arrays and messages that never end, another kind on each connection
    types       a value of another type or size in reply to each command
    many        one replica first, and then 100,000,000 of them
    numbers     the number 1 in reply to each command
    swapped     right replies to two commands at a time, the second one's first
    flood       right replies, and messages on the channel as fast as the server takes them
    nothings    the same with empty messages
    silent      no reply
    slow        each right reply 50 ms after its command

Prints its port. Then prints the number of the misdeeds each time it reaches a power of two: replies, parts of endless
ones, or parts of a flood.
"""

import itertools
import queue
import socket
import sys
import threading
import time

MODE = sys.argv[1]
PART = b"a" * 65_536
ENDLESS = [
    (b"$1000000000000\r\n", PART), (b"$1310720\r\n", PART), (b"+", PART), (b"*1000\r\n", b"$65536\r\n" + PART + b"\r\n"),
    (b"", b"*1\r\n"), (b"-", PART), (b":", b"1" * 65_536),
    (b">3\r\n+message\r\n+a\r\n$1310720\r\n", PART),
]
TYPES = [
    b":0\r\n", b":-1\r\n", b":9223372036854775807\r\n", b":-9223372036854775807\r\n", b"+OK\r\n", b"$-1\r\n", b"*-1\r\n",
    b"_\r\n", b"$0\r\n\r\n", b"*0\r\n", b"%1\r\n+a\r\n:1\r\n",
    b"*3\r\n_\r\n_\r\n_\r\n", b"*3\r\n:1\r\n:2\r\n:3\r\n", b"*3\r\n_\r\n:9\r\n:9\r\n", b"*3\r\n+a\r\n:0\r\n:0\r\n",
    b"*3\r\n_\r\n:2\r\n:9223372036854775807\r\n", b"*3\r\n+a\r\n:1\r\n:-9223372036854775807\r\n", b"-ERR no\r\n", b"-\r\n",
    b"*2\r\n:1\r\n:9223372036854775807\r\n", b"$16\r\n" + b"\x7f" * 16 + b"\r\n", b"$16\r\n" + b"\xff" * 16 + b"\r\n",
    b"*4\r\n:0\r\n:1\r\n:4294967295\r\n$-1\r\n", b"*4\r\n:1\r\n:1\r\n:4294967295\r\n$60\r\n" + b"\2" + b"\x7f" * 59 + b"\r\n",
    b"*4\r\n:9999999999999999\r\n:0\r\n:0\r\n$60\r\n" + b"\2" + b"\xff" * 59 + b"\r\n",
    b"*4\r\n:9223372036854775807\r\n:-1\r\n:-1\r\n$0\r\n\r\n", b"*3\r\n:65536\r\n:9223372036854775807\r\n:1\r\n",
    b"$17\r\n" + b"a" * 17 + b"\r\n", b"$1000000\r\n" + b"\0" * 1_000_000 + b"\r\n",
]
lock = threading.Lock()
misdeeds = 0


def count():
    global misdeeds
    with lock:
        misdeeds += 1
        if misdeeds & misdeeds - 1 == 0:
            print(misdeeds, flush=True)


def command(stream):
    """The next command: a list of its words. Raises EOFError at the end."""
    line = stream.readline()
    if not line:
        raise EOFError
    words = []
    for _ in range(int(line[1:])):
        words.append(stream.read(int(stream.readline()[1:]) + 2)[:-2])
    return words


def bulk(content):
    return b"$%d\r\n%b\r\n" % (len(content), content)


def reply(words):
    """What a store with one replica and no entry replies."""
    name = words[0].upper()
    if name == b"HELLO":
        return b"%1\r\n+server\r\n+redis\r\n"
    if name == b"SUBSCRIBE":
        return b">3\r\n+subscribe\r\n" + bulk(words[1]) + b":1\r\n"
    if name not in (b"EVAL", b"EVALSHA"):
        return b"+PONG\r\n"
    keys = int(words[2])
    arguments = words[3 + keys:]
    if (keys, len(arguments)) == (1, 5):  # a settlement of rates: no debts
        buckets = arguments[4]
        return bulk(b"".join(buckets[at:at + 8] + bytes(8) for at in range(0, len(buckets), 32)))
    if (keys, len(arguments)) == (1, 9):  # a settlement of Apple's quota: this replica leads
        return b"*4\r\n:%d\r\n:1\r\n:1\r\n$0\r\n\r\n" % (time.time() * 1e6)
    if (keys, len(arguments)) == (2, 4):  # a lookup of a response: fetch it
        return b"*3\r\n_\r\n:1\r\n:0\r\n"
    if len(arguments) == 3:  # a strict decision: taken
        return b"*%d\r\n" % (keys + 1) + b":1\r\n" + b":0\r\n" * keys
    return b":1\r\n"


class Connection:
    """One connection of a replica."""

    def __init__(self, accepted, number):
        self.socket, self.number = accepted, number
        self.stream = accepted.makefile("rb")
        self.types = itertools.islice(itertools.cycle(TYPES), number % len(TYPES), None)
        # Replies and a flood are sent by two threads.
        self.lock = threading.Lock()
        self.late, self.is_late = queue.SimpleQueue(), False

    def send(self, content):
        with self.lock:
            self.socket.sendall(content)

    def serve(self):
        try:
            while True:
                words = command(self.stream)
                if words[0] in (b"HELLO", b"SUBSCRIBE", b"SELECT", b"PING"):
                    self.send(reply(words))
                    if words[0] == b"SUBSCRIBE" and MODE in ("flood", "nothings"):
                        start(self.flood, words[1])
                else:
                    self.respond(words)
        except (OSError, EOFError, ValueError, IndexError):
            self.socket.close()

    def respond(self, words):
        """Does what the mode says for a command behind the greeting."""
        if MODE in ("honest", "flood", "nothings"):
            return self.send(reply(words))
        count()
        if MODE == "garbage":
            self.send(bytes(range(256)) * 100)
        elif MODE == "endless":
            begin, part = ENDLESS[self.number % len(ENDLESS)]
            self.send(begin)
            while True:
                self.send(part)
                count()
        elif MODE == "many":
            self.send(b"*2\r\n:%d\r\n*0\r\n" % (1 if misdeeds < 4 else 100_000_000))
        elif MODE == "numbers":
            self.send(b":1\r\n")
        elif MODE == "types":
            self.send(next(self.types))
        elif MODE == "swapped":
            self.send(b"".join([reply(command(self.stream)), reply(words)]))
        elif MODE == "slow":
            if not self.is_late:
                self.is_late = True
                start(self.send_late)
            self.late.put((time.monotonic() + 0.05, reply(words)))

    def send_late(self):
        """Sends replies when they are due, until the connection ends."""
        try:
            while True:
                due, content = self.late.get()
                time.sleep(max(0, due - time.monotonic()))
                self.send(content)
        except OSError:
            pass

    def flood(self, channel):
        """Ends of fetches, debts, news of the quota, and messages of no known kind, as fast as the replica reads them."""
        sender = b"\1sender.."
        contents = [
            b"\3" + sender + b"k" * 16 + b"\0", b"\1" + sender + b"\1" * 8 + b"\xff" * 7 + b"\0",
            b"\2" + sender + b"\1" + b"\x7f" * 60, b"\2" + sender + b"\2" + b"\1" * 60, b"", b"\7\7"]
        messages = b"".join(b">3\r\n" + bulk(b"message") + bulk(channel) + bulk(content) for content in contents)
        part = b">0\r\n" * 4096 if MODE == "nothings" else messages * 64
        try:
            while True:
                self.send(part)
                count()
        except OSError:
            pass


def start(action, *arguments):
    threading.Thread(target=action, args=arguments, daemon=True).start()


def main():
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        print(listener.getsockname()[1], flush=True)
        for number in itertools.count():
            accepted, _ = listener.accept()
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start(Connection(accepted, number).serve)


main()
