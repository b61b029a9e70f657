"""The store of a rendezvous: it only listens."""

from __future__ import annotations

import socket


class TCPStore:
    def __init__(
        self, host: str, port: int, is_master: bool, wait_for_workers: bool, master_listen_fd: int
    ) -> None:
        assert is_master
        assert not wait_for_workers
        self._listening = socket.socket(fileno=master_listen_fd)
        assert self._listening.getsockname() == (host, port)
        self.host, self.port = host, port
