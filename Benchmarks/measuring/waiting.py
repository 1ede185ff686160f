"""A server that lets its callers wait: `waiting.py PORT [SECONDS]`; for ever, without a time."""

import asyncio
import sys

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"data\":[]}"


class Connection(asyncio.Protocol):
    """One request after the other, without content."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.rest = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        *heads, self.rest = (self.rest + data).split(b"\r\n\r\n")
        if self.seconds is not None:
            for _ in heads:
                asyncio.get_running_loop().call_later(self.seconds, self.transport.write, ANSWER)


async def main(port, seconds=""):
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(float(seconds) if seconds else None), "127.0.0.1", int(port), backlog=16_384)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
