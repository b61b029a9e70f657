"""Powers the instance off, and repeats that until it works: a running instance costs money.

The command keeps the agent's protection from the OOM killer: where memory is used up, it must work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
"""An agent that still runs after this long repeats the command."""

COMMAND_SECONDS = 60.0
"""For the command itself, which only sends a request to systemd."""

TRIES_BEFORE_FORCE = 2
"""Further tries use `--force`: a service that does not stop can block a shutdown indefinitely."""


async def power_off(command: Sequence[str], retry_after: float = RETRY_SECONDS) -> None:
    """Power off. Does not return: cancel it when the shutdown comes (SIGTERM).

    The command is repeated even after it succeeds: it only sends a request, which may be ignored.
    """
    tries = 0
    while True:
        tries += 1
        await _try(_forced(command) if tries > TRIES_BEFORE_FORCE else tuple(command))
        await asyncio.sleep(retry_after)
        log.error("still running after %d tries to power off", tries)


def _forced(command: Sequence[str]) -> tuple[str, ...]:
    is_systemctl = Path(command[0]).name == "systemctl"
    return (*command, "--force") if is_systemctl else tuple(command)


async def _try(command: Sequence[str]) -> None:
    try:
        process = await asyncio.create_subprocess_exec(*command)
    except OSError as error:
        log.error("%s: %s", command[0], error)
        return
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            if await process.wait() != 0:
                log.error("%s: status %s", command[0], process.returncode)
    except TimeoutError:
        log.error("%s took more than %.0f s", command[0], COMMAND_SECONDS)
        process.kill()
