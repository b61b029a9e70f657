"""`ec2spawner-agent --hub-api-url URL`: started by user-data when an instance boots."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence

from . import memory_protection
from .agent import Agent
from .agent_lock import AnotherAgentError
from .image_drift import report_drift
from .settings import Settings, SettingsError

log = logging.getLogger(__name__)

MISTAKE = 2
"""Exit status of invalid settings, of an invalid command line, and of a second agent. systemd does
not restart the agent after it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent until its instance powers off; returns its exit status."""
    parser = argparse.ArgumentParser(prog="ec2spawner-agent", description=__doc__)
    parser.add_argument(
        "--hub-api-url", required=True, help="the hub's API: http(s)://host[:port]/hub/api"
    )
    arguments = parser.parse_args(argv)
    memory_protection.close_to_others()
    memory_protection.expendable()  # tries choom(1): on the event loop, that would block it
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        settings = Settings.from_environment(arguments.hub_api_url, os.environ)
    except SettingsError as error:
        log.error("%s", error)
        return MISTAKE
    # Beside the start: it may read from a disk that is still being filled from its snapshot.
    threading.Thread(target=report_drift, name="image drift", daemon=True).start()
    try:
        asyncio.run(_run(Agent(settings)))
    except AnotherAgentError as error:
        log.error("%s", error)
        return MISTAKE
    return 0


async def _run(agent: Agent) -> None:
    """Run the agent until it is done or a signal stops it."""
    task = asyncio.ensure_future(agent.run())
    loop = asyncio.get_running_loop()

    def end() -> None:
        if task.cancelling():
            log.info("another signal: already stopping")
        else:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        await task
    except asyncio.CancelledError:
        log.info("stopped by a signal")


if __name__ == "__main__":
    sys.exit(main())
