"""`python -m ec2spawner.run_executor`: fetch the work, execute it, report, wait for the end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Final

from ..agent_socket import SOCKET
from ..wire import RunWork
from .executor import Executor, execution_of
from .hub_reports import HubRefused, HubReports
from .service import listening

SERVICE_URL: Final = "JUPYTERHUB_SERVICE_URL"
"""Where the agent expects this process to listen: at the private address of the instance."""

NO_AGENT: Final = 2
REFUSED: Final = 3
"""Exit statuses; 0 is that the agent has ended this process."""


async def run() -> int:
    """The exit status, once the agent ends this process, or there is no work."""
    url, socket = os.environ.get(SERVICE_URL), os.environ.get(SOCKET)
    if not url or not socket:
        sys.stderr.write(f"{SERVICE_URL} and {SOCKET} must be set, as the instance's agent does.\n")
        return NO_AGENT
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    hub = HubReports(socket)
    async with listening(url):
        try:
            work = await _unless_stopped(hub, stopped)
        except HubRefused as error:
            sys.stderr.write(f"The hub gave this instance no run: {error}\n")
            return REFUSED
        if work is not None:
            execution, path = execution_of(work, Path.home()), work.path
            del work  # the document is in memory once
            await Executor(execution, path, hub, socket).run(stopped)
            await stopped.wait()
    return 0


async def _unless_stopped(hub: HubReports, stopped: asyncio.Event) -> RunWork | None:
    """The work; None if this process is stopped before the hub has answered. Raises
    `HubRefused`."""
    asking = asyncio.ensure_future(hub.begin())
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        asking.cancel()
        stopping.cancel()


def main() -> None:
    """The entry point."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    sys.exit(asyncio.run(run()))


if __name__ == "__main__":
    main()
