"""Powering off, and making sure of it: a machine left on costs money."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

AGAIN_SECONDS = 30.0
"""Whoever is powered off does not live to ask again: what still runs after this was not."""

COMMAND_SECONDS = 60.0
"""For the command itself, which only has to ask systemd."""

ASKED_POLITELY = 2
"""From the next time on by force: a service that does not stop may block a shutdown."""


async def power_off(command: Sequence[str], again_after: float = AGAIN_SECONDS) -> None:
    """Power off. Does not return: cancel it when the shutdown comes (SIGTERM).

    A command that succeeds is not believed. It has only asked, and systemd may not follow.
    """
    times = 0
    while True:
        times += 1
        await _try(_by_force(command) if times > ASKED_POLITELY else tuple(command))
        await asyncio.sleep(again_after)
        log.error("asked %d times to power off, and still on", times)


def _by_force(command: Sequence[str]) -> tuple[str, ...]:
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
