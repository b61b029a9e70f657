"""`ec2spawner first-light`: exit status 0 where every step held and nothing is left, 1 where a step
failed or something is left, 2 where nothing was started."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from ..check.hub_config import ConfigurationBroken, HubConfig, load
from ..terminal import complain
from .cleanup import Waits
from .preparation import NotStarted, Request
from .run import NOT_STARTED, FirstLight
from .run_folder import FolderUnusable, RunFolder

MIN_IDLE: Final = 10.0
MAX_IDLE: Final = 3600.0
"""Seconds: a shorter idle limit ends the server before its first cell, a longer one proves no
more."""


def run_first_light(
    arguments: argparse.Namespace, for_the_hub: Sequence[str], waits: Waits | None = None
) -> int:
    """`ec2spawner first-light`; returns its exit status, see docs/how-to/first-light.md."""
    try:
        request = _request(arguments, for_the_hub)
        folder = RunFolder.create()
    except (NotStarted, FolderUnusable) as error:
        complain("first-light", f"{error}. Nothing was started")
        return NOT_STARTED
    return asyncio.run(_until_a_signal(FirstLight(request, folder, waits or Waits()).run()))


def _request(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> Request:
    if not 0 < arguments.max_usd <= 100:
        raise NotStarted(f"--max-usd={arguments.max_usd:g} is not above 0 and at most 100")
    if not MIN_IDLE <= arguments.idle <= MAX_IDLE:
        raise NotStarted(
            f"--idle={arguments.idle:g} is not between {MIN_IDLE:g} and {MAX_IDLE:g} seconds"
        )
    output = Path(arguments.output)
    if not output.is_dir() or not os.access(output, os.W_OK):
        raise NotStarted(f"--output={output} is no folder that can be written to")
    path = Path(arguments.config)
    try:
        with Console(stderr=True).status("Reading the hub's configuration"):
            config = load(path, for_the_hub)
    except ConfigurationBroken as broken:
        raise NotStarted(_first_words(broken)) from broken
    return Request(
        config,
        path,
        tuple(for_the_hub),
        arguments.gpu,
        arguments.max_usd,
        arguments.idle,
        output,
        arguments.json,
        bool(for_the_hub) and has_own_address(config, path),
    )


def has_own_address(config: HubConfig, path: Path) -> bool:
    """Whether neither port nor API address are those that the file alone has."""
    try:
        of_the_hub = load(path)
    except ConfigurationBroken:
        return False
    return config.bind_port != of_the_hub.bind_port and config.api_url != of_the_hub.api_url


def _first_words(broken: ConfigurationBroken) -> str:
    finding = broken.findings[0]
    return f"{finding.name}: {finding.said}. Fix: {finding.fix}"


async def _until_a_signal(work: Coroutine[Any, Any, int]) -> int:
    """The first signal ends the journey, and what it created is deleted; later ones change
    nothing."""
    task = asyncio.create_task(work)

    def end() -> None:
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, end)
    try:
        return await task
    except asyncio.CancelledError:
        complain("first-light", "interrupted. Nothing was started")
        return NOT_STARTED
