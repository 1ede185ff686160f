"""A relay that delays what it carries.

usage: relay.py PORT MILLISECONDS

Prints the port that it listens on. Every connection is carried on to PORT of 127.0.0.1, and each byte, and each end, is
handed on so many milliseconds after it came, in both directions. While nothing listens on PORT it tries again: a client
sees a server that is restarted as one that is slow to accept. Ends at the end of its standard input.
"""

import asyncio
import sys

PORT = int(sys.argv[1])
DELAY = int(sys.argv[2]) / 1000


async def carry(reader, writer):
    """Hands on what comes, later, and then the end."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data = await reader.read(65536)
        except OSError:
            data = b""
        if not data:
            break
        loop.call_later(DELAY, lambda part=data: writer.is_closing() or writer.write(part))
    await asyncio.sleep(DELAY)
    if not writer.is_closing():
        writer.write_eof()


async def connect():
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", PORT)
        except OSError:
            await asyncio.sleep(0.01)


async def serve(reader, writer):
    server_reader, server_writer = await connect()
    await asyncio.gather(carry(reader, server_writer), carry(server_reader, writer), return_exceptions=True)
    writer.close()
    server_writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
