"""The store where torchruns meet: `python -m ...engines.rendezvous_store HOST PORT`.

It is torch's own `TCPStore`, in a process that outlives kernels and workers. torchrun would start
it on one of its nodes, and lose it with that worker.
"""

from __future__ import annotations

import signal
import socket
import sys
from typing import Final

STARTED: Final = "The rendezvous store listens"
"""Printed once it does."""


def main() -> None:
    """Serve until the process is ended. Raises `OSError` if the port is in use."""
    host, port = sys.argv[1], int(sys.argv[2])
    from torch.distributed import TCPStore

    # By itself torch listens at every address of the instance, the public one among them.
    listening = socket.create_server((host, port))
    store = TCPStore(
        host, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
    )
    sys.stdout.write(f"{STARTED} at {store.host}:{store.port}\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main()
