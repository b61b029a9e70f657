"""EC2's notice that it takes a spot instance back, which stands in the instance metadata.

AWS gives it two minutes before, as best it can, and recommends to look every 5 seconds. From
"Spot Instance interruption notices" in the EC2 User Guide.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from .imds import Metadata, MetadataError

log = logging.getLogger(__name__)

T = TypeVar("T")

POLL_SECONDS = 5.0

LIFE_CYCLE = "meta-data/instance-life-cycle"
NOTICE = "meta-data/spot/instance-action"
"""There is nothing there (404) until there is a notice."""


class NoNoticeError(ValueError):
    """What stands in the place of a notice is none."""


def parse_notice(text: str) -> datetime:
    """When EC2 takes the machine: `{"action": "terminate", "time": "2026-11-20T12:02:00Z"}`.

    In UTC, whatever the zone that it is written in; without one it is UTC. The action does not
    matter here: to be terminated is what these instances were launched for. Raises `NoNoticeError`.
    """
    try:
        at = datetime.fromisoformat(json.loads(text)["time"])
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise NoNoticeError(f"{text[:200]!r} is no notice: {error!r}") from error


class InterruptionWatch:
    """Looks for the notice while `run` runs, on a spot instance; on any other it never comes.

    `notice` gets the time at which EC2 reclaims the instance, at each check until it is withdrawn,
    and None once if EC2 has withdrawn it. A metadata service that does not answer is no news.
    """

    def __init__(
        self,
        metadata: Metadata,
        notice: Callable[[datetime | None], Awaitable[None]],
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._metadata = metadata
        self._notice = notice
        self._poll_seconds = poll_seconds
        self._at: datetime | None = None
        self._trouble = ""

    async def run(self) -> None:
        """Poll until cancelled. Returns soon if this is no spot instance."""
        while (is_spot := await self._unless_in_trouble(self._is_spot())) is None:
            await asyncio.sleep(self._poll_seconds)
        while is_spot:
            await self._unless_in_trouble(self._check())
            await asyncio.sleep(self._poll_seconds)

    async def _is_spot(self) -> bool:
        return (await self._metadata.find(LIFE_CYCLE) or "").strip() == "spot"

    async def _check(self) -> None:
        text = await self._metadata.find(NOTICE)
        at = None if text is None else parse_notice(text)
        if at is None and self._at is None:
            return
        if at != self._at:
            log.warning("spot notice: %s", f"EC2 takes this machine at {at}" if at else "withdrawn")
        self._at = at
        await self._notice(at)

    async def _unless_in_trouble(self, check: Awaitable[T]) -> T | None:
        """What was found, or None where that cannot be known. Logged once, not at each check."""
        try:
            found = await check
        except (MetadataError, NoNoticeError, OSError) as error:
            if str(error) != self._trouble:
                log.warning("spot notices cannot be seen: %s", error)
            self._trouble = str(error)
            return None
        self._trouble = ""
        return found
