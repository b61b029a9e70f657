"""Ports that stay reserved for processes that this one starts."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

LOOPBACK: Final = "127.0.0.1"


def reserve(host: str = LOOPBACK, port: int = 0) -> socket.socket:
    """Reserve a TCP port until the returned socket is closed; any free one by default.

    The socket is bound and never listens. As long as it exists, Linux gives its port neither to an
    outgoing connection nor to a process that asks for any free port, while a process that names the
    port and sets SO_REUSEADDR, as node, tornado and asyncio do, can listen on it. Raises `OSError`
    if another process listens on `port`.
    """
    held = socket.socket()
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, port))
    except BaseException:
        held.close()
        raise
    return held


def port_of(held: socket.socket) -> int:
    """The port that a socket of `reserve` holds."""
    port: int = held.getsockname()[1]
    return port


@contextmanager
def reserved_ports(number: int, host: str = LOOPBACK) -> Iterator[Sequence[int]]:
    """Hold as many different ports until the block is left."""
    with ExitStack() as held:
        yield [port_of(held.enter_context(reserve(host))) for _ in range(number)]
