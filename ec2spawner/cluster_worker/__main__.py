"""`python -m ec2spawner.cluster_worker`: join, serve the notebook, leave."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from ..agent_socket import SOCKET
from ..agent_socket.notices import watch_notices
from ..wire import JOIN, ClusterJoin
from .engine import CannotJoin, WorkerEngine
from .engine_python import find_python
from .log_tail import LogTail
from .ray_node import RayNode
from .service import Service
from .torchrun_node import TorchrunNode

SERVICE_URL: Final = "JUPYTERHUB_SERVICE_URL"
"""Where the agent expects this process to listen: at the private address of the instance."""

ENGINES: Final[dict[str, Callable[[ClusterJoin, str, str, LogTail], WorkerEngine]]] = {
    "ray": RayNode,
    "torchrun": TorchrunNode,
}

log = logging.getLogger(__name__)


async def run() -> int:
    """The exit status, once the worker has left or was ended."""
    join = ClusterJoin.model_validate_json(os.environ.pop(JOIN))
    own = urlsplit(os.environ[SERVICE_URL])
    assert own.hostname is not None
    assert own.port is not None
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    tail = LogTail()
    try:
        python = await find_python(join)
        engine = ENGINES[join.engine](join, own.hostname, python, tail)
        await _unless_stopped(engine, stopped)
    except CannotJoin as error:
        sys.stderr.write(f"{error}\n")
        return 3
    service = Service(engine, join.token, tail)
    async with service.listening(own.hostname, own.port):
        return await _until_end(engine, stopped)


async def _unless_stopped(engine: WorkerEngine, stopped: asyncio.Event) -> None:
    """Raises `CannotJoin` if the worker is stopped before it has joined."""
    joining = asyncio.ensure_future(engine.join())
    stopping = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({joining, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not joining.done():
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        await engine.leave()
        raise CannotJoin("The worker was stopped before it had joined.")
    joining.result()


async def _until_end(engine: WorkerEngine, stopped: asyncio.Event) -> int:
    ended = asyncio.ensure_future(engine.wait())
    stopping = asyncio.ensure_future(stopped.wait())
    notices = asyncio.ensure_future(watch_notices(os.environ.get(SOCKET, ""), engine.drain))
    try:
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            sys.stderr.write(f"The engine has ended by itself: {ended.result()}\n")
            return 4
        await engine.leave()
        return 0
    finally:
        for task in (ended, stopping, notices):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(ended, stopping, notices, return_exceptions=True)


def main() -> None:
    """The entry point."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    sys.exit(asyncio.run(run()))


if __name__ == "__main__":
    main()
