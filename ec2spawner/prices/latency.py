"""The time to a region's EC2 endpoint and back."""

from __future__ import annotations

import asyncio
import socket
from typing import Final
from urllib.parse import urlsplit

from ..aws.calls.client import Client

TRIES: Final = 3
"""Connections for one measurement, of which the fastest counts."""

CONNECT_TIMEOUT: Final = 3.0
"""Seconds for one connection, including the DNS look-up."""


async def round_trip_ms(client: Client) -> float | None:
    """Milliseconds to the region's EC2 endpoint and back; None if it is unreachable.

    The shortest of a few TCP connections: one round trip each, without a request.
    """
    url = urlsplit(await client.endpoint())
    port = url.port or (443 if url.scheme == "https" else 80)
    tries = [await _connect_ms(url.hostname or "", port) for _ in range(TRIES)]
    return min((ms for ms in tries if ms is not None), default=None)


async def _connect_ms(host: str, port: int) -> float | None:
    """Milliseconds of one TCP connection, without the DNS look-up."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            began = loop.time()
            _, writer = await asyncio.open_connection(*found[0][4][:2])
            taken = loop.time() - began
    except (OSError, TimeoutError):
        return None
    writer.close()
    return 1000 * taken
