"""One HTTP server that is the notebook server of every simulated instance.

Instances have loopback addresses of their own, and the hub's `c.EC2Spawner.port` is the same for
all: one listener on all addresses answers for them, and says on which address it was asked.
"""

from __future__ import annotations

import asyncio
import json

import jupyterhub

BACKLOG = 1024


async def serve(port: int) -> asyncio.Server:
    """Answer every request on this port of every address until the server is closed."""
    return await asyncio.start_server(_answer_all, "0.0.0.0", port, backlog=BACKLOG)


async def _answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    address = writer.get_extra_info("sockname")[0]
    body = json.dumps({"version": "2.0.0", "address": address}).encode()
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        f"X-JupyterHub-Version: {jupyterhub.__version__}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")  # requests have no body
            writer.write(head.encode() + body)
            await writer.drain()
    except (OSError, EOFError):
        writer.close()
    except asyncio.CancelledError:
        writer.close()
        raise
