"""Spot interruption notices and rebalance recommendations, from the instance metadata.

AWS gives them two minutes in advance, on a best-effort basis, and recommends polling every 5
seconds ("Spot Instance interruption notices" in the EC2 User Guide). A rebalance recommendation
("EC2 instance rebalance recommendations") may come earlier or not at all, and ends nothing.
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

POLL_SECONDS = 2.0

LIFE_CYCLE = "meta-data/instance-life-cycle"
NOTICE = "meta-data/spot/instance-action"
"""404 until there is a notice."""


RECOMMENDATION = "meta-data/events/recommendations/rebalance"
"""404 until there is a recommendation."""


class NoNoticeError(ValueError):
    """The metadata at `NOTICE` or `RECOMMENDATION` is none."""


def parse_notice(text: str) -> datetime:
    """When EC2 reclaims the instance: `{"action": "terminate", "time": "2026-11-20T12:02:00Z"}`.

    The result is in UTC; a time without a zone is UTC. The action is ignored: these instances are
    launched to be terminated. Raises `NoNoticeError`.
    """
    return _time_in(text, "time")


def parse_recommendation(text: str) -> datetime:
    """When EC2 made it: `{"noticeTime": "2026-11-20T11:50:00Z"}`. Raises `NoNoticeError`."""
    return _time_in(text, "noticeTime")


def _time_in(text: str, key: str) -> datetime:
    try:
        at = datetime.fromisoformat(json.loads(text)[key])
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise NoNoticeError(f"invalid notice {text[:200]!r}: {error!r}") from error


class InterruptionWatch:
    """Polls for the notice while `run` runs, on a spot instance only.

    Each poll that finds a notice calls `notice` with its time; once after EC2 has withdrawn it,
    `notice` is called with None. An error of the metadata service changes nothing. `recommended` is
    called with the time of a rebalance recommendation when there is one, and with None when it is
    withdrawn.
    """

    def __init__(
        self,
        metadata: Metadata,
        notice: Callable[[datetime | None], Awaitable[None]],
        poll_seconds: float = POLL_SECONDS,
        *,
        recommended: Callable[[datetime | None], None] | None = None,
    ) -> None:
        self._metadata = metadata
        self._notice = notice
        self._poll_seconds = poll_seconds
        self._recommended = recommended
        self._at: datetime | None = None
        self._recommended_at: datetime | None = None
        self._last_error = ""

    async def run(self) -> None:
        """Poll until cancelled. Returns at once on an on-demand instance."""
        while (is_spot := await self._or_none(self._is_spot())) is None:
            await asyncio.sleep(self._poll_seconds)
        while is_spot:
            await self._or_none(self._poll())
            if self._recommended is not None:
                await self._or_none(self._poll_recommendation(self._recommended))
            await asyncio.sleep(self._poll_seconds)

    async def _is_spot(self) -> bool:
        return (await self._metadata.find(LIFE_CYCLE) or "").strip() == "spot"

    async def _poll(self) -> None:
        text = await self._metadata.find(NOTICE)
        at = None if text is None else parse_notice(text)
        if at is None and self._at is None:
            return
        if at != self._at:
            log.warning("spot notice: %s", f"EC2 reclaims it at {at}" if at else "withdrawn")
        self._at = at
        await self._notice(at)

    async def _poll_recommendation(self, recommended: Callable[[datetime | None], None]) -> None:
        text = await self._metadata.find(RECOMMENDATION)
        at = None if text is None else parse_recommendation(text)
        if at != self._recommended_at:
            log.warning("rebalance recommendation: %s", at or "withdrawn")
            self._recommended_at = at
            recommended(at)

    async def _or_none(self, poll: Awaitable[T]) -> T | None:
        """The result, or None on an error, which is logged once and not at each poll."""
        try:
            found = await poll
        except (MetadataError, NoNoticeError, OSError) as error:
            if str(error) != self._last_error:
                log.warning("spot notices cannot be read: %s", error)
            self._last_error = str(error)
            return None
        self._last_error = ""
        return found
