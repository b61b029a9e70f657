"""Whether the hub's packets get to a notebook that its agent has reported as ready."""

from __future__ import annotations

import asyncio
import errno
from typing import Final
from urllib.parse import urlsplit

REACH_SECONDS: Final = 8.0
"""For one attempt to connect: Linux repeats a lost packet after 1, 3 and 7 seconds."""

NO_WAY: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT})


class NotebookNotReached(Exception):
    """What the hub sends to the notebook's port is dropped."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            f"Your server is ready, but the hub does not reach it at {host}:{port}: its packets "
            f"are dropped. Please tell an admin: a security group must let the hub in at port "
            f"{port}, and routes and network ACLs must lead there; `ec2spawner check` reports it "
            "as notebook-port. The machine is being released"
        )


async def check_notebook_port(url: str, timeout: float = REACH_SECONDS) -> None:
    """Raises `NotebookNotReached` where connecting takes longer than `timeout` seconds.

    JupyterHub would wait longer, and say only that the server did not respond. A refused
    connection is left to it: the notebook may be about to listen again.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        raise NotebookNotReached(host, port) from None
    except OSError as error:
        if error.errno in NO_WAY:
            raise NotebookNotReached(host, port) from error
        return
    writer.close()
