"""Drops packets between an instance and the hub, as its security groups would. Runs on instances.

An instance here has no network of its own, and only root may filter this machine's packets. So
Python's own start-up (`sitecustomize`) changes where its sockets go: what may not be reached is
replaced by a listener whose queue is full, to which the kernel drops each attempt to connect. As on
EC2, a client waits until it gives up; nothing is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import Any

VARIABLE = "EMBEDDED_EC2_NETWORK"
QUEUE_FILLERS = 4
"""Connections that fill a queue of length 0, with some to spare."""

_open_sockets: list[socket.socket] = []
"""What must stay open as long as the process runs."""
_bind, _connect, _connect_ex = socket.socket.bind, socket.socket.connect, socket.socket.connect_ex


class Filter:
    """What this process may reach, and where it can be reached."""

    def __init__(self, rules: dict[str, Any]) -> None:
        self._own, self._hub = rules["address"], rules["hub"]
        self._inbound, self._outbound = rules["inbound"], rules["outbound"]
        self._unfiltered = set(rules["unfiltered"])
        first, second, rest = self._own.split(".", 2)
        self._hidden = f"{first}.{int(second) + 64}.{rest}"
        self._nowhere: tuple[str, int] | None = None
        self._shut_ports: set[int] = set()
        """Where this process has a black hole: a server may bind twice, first to try the port."""

    def listen_at(self, address: Any) -> Any:
        """Where a server that wants this address binds: out of the hub's reach if it is closed."""
        if not self._is_closed_here(address):
            return address
        if address[1] not in self._shut_ports:
            _open_sockets.extend(black_hole((self._own, address[1])))
            self._shut_ports.add(address[1])
        return self._hidden, address[1]

    def connect_to(self, address: Any) -> Any:
        """Where a client that wants this address connects to."""
        if self._is_closed_here(address):
            return self._hidden, address[1]
        if not _is_ipv4(address) or address[0] != self._hub or self._passes(address[1]):
            return address
        if self._nowhere is None:
            made = black_hole((self._hidden, 0))
            _open_sockets.extend(made)
            self._nowhere = made[0].getsockname()
        return self._nowhere

    def _is_closed_here(self, address: Any) -> bool:
        if not _is_ipv4(address) or address[0] != self._own:
            return False
        port = address[1]
        return port != 0 and port not in self._unfiltered and not _within(self._inbound, port)

    def _passes(self, port: int) -> bool:
        return port in self._unfiltered or all(_within(each, port) for each in self._outbound)


def black_hole(address: tuple[str, int]) -> list[socket.socket]:
    """A listener that no attempt to connect reaches, and what fills its queue."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _bind(listener, address)
    listener.listen(0)
    fillers = []
    for _ in range(QUEUE_FILLERS):
        filler = socket.socket()
        filler.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            _connect(filler, listener.getsockname())
        fillers.append(filler)
    return [listener, *fillers]


def _is_ipv4(address: Any) -> bool:
    return isinstance(address, tuple) and len(address) == 2 and isinstance(address[1], int)


def _within(ranges: list[list[int]], port: int) -> bool:
    return any(low <= port <= high for low, high in ranges)


def install(rules: dict[str, Any]) -> None:
    """From now on the sockets of this process are filtered."""
    found = Filter(rules)
    filtered: Any = socket.socket
    filtered.bind = lambda self, address: _bind(self, found.listen_at(address))
    filtered.connect = lambda self, address: _connect(self, found.connect_to(address))
    filtered.connect_ex = lambda self, address: _connect_ex(self, found.connect_to(address))


if __name__ == "sitecustomize":
    install(json.loads(os.environ[VARIABLE]))
