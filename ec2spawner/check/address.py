"""Whether instances could reach the hub by the name they are told."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlparse

from .finding import Finding, failed, ok, unproved

NAME = "hub address"

PATIENCE = 3.0
"""Seconds for a look-up, and for a connection on this very machine."""


async def judge_address(api_url: str, bind_ip: str, bind_port: int) -> Finding:
    """Resolve the name and connect to it: to the hub, or to a listener that stands in for it.

    Where no hub runs, we listen for a moment where it would, and see whether the name leads here.
    Security groups and routes between subnets are not seen from this machine.
    """
    url = urlparse(api_url)
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    mend = (
        "set c.JupyterHub.hub_connect_url (or c.EC2Spawner.hub_api_url) to an address of this "
        "machine that instances can reach, such as http://10.0.0.5:8081"
    )
    try:
        address = await _resolve(host)
    except (OSError, TimeoutError):
        return failed(NAME, f"{host} has no address", mend)
    where = f"{host}:{port}" if host == address else f"{host}:{port} ({address})"
    if await _answers(address, port):
        return ok(NAME, f"{where} answers")
    try:
        listener = await asyncio.start_server(_hang_up, bind_ip or None, bind_port)
    except OSError as error:
        return unproved(NAME, f"{where} does not answer, and port {bind_port} here: {error}", mend)
    async with listener:
        if port == bind_port and await _answers(address, port):
            return ok(NAME, f"{where} is this machine; the hub is not running")
    if port != bind_port:
        return unproved(NAME, f"{where} does not answer, and may be in front of the hub", mend)
    return failed(NAME, f"{where} does not lead to where the hub listens", mend)


async def _resolve(host: str) -> str:
    """The first address of a name. Raises OSError, TimeoutError."""
    async with asyncio.timeout(PATIENCE):
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return str(found[0][4][0])


async def _answers(address: str, port: int) -> bool:
    try:
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(address, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
