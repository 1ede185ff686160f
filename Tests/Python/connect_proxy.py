"""A proxy that makes tunnels (CONNECT, RFC 9110 section 9.3.6).

usage: connect_proxy.py [STATUS]

Prints `Listening on URL`, and for each request a line with its target and its Proxy-Authorization. With STATUS, it
refuses them all so.
"""

import asyncio
import sys


async def copy(reader, writer):
    try:
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(reader, writer):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in head[1:-2])}
    print(method, target, fields.get("proxy-authorization", "-"), flush=True)
    if len(sys.argv) > 1:
        writer.write(f"HTTP/1.1 {sys.argv[1]} No\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        return writer.close()
    host, port = target.rsplit(":", 1)
    far_reader, far_writer = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(f"Listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
