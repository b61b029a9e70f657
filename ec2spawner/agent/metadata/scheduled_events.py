"""Scheduled events, from the instance metadata: AWS stops, reboots or maintains the instance.

AWS announces them days in advance ("Scheduled events for Amazon EC2 instances" in the EC2 User
Guide), and moves or withdraws some. Here they are shown only: what follows is decided by the hub,
which reads them from EC2 itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, get_args

from ...core.instances.scheduled_events import ScheduledEvent as Scheduled
from ...core.instances.scheduled_events import next_event
from ...wire import ScheduledEvent, ScheduledEventCode
from .imds import Metadata, MetadataError

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 60.0

SCHEDULED: Final = "meta-data/events/maintenance/scheduled"
"""A JSON list of what is to come; empty or 404 without any."""

CODES: Final = frozenset(get_args(ScheduledEventCode))


class NoEventsError(ValueError):
    """The metadata at `SCHEDULED` is no list of events."""


def parse_events(text: str) -> list[Scheduled]:
    """The events in `[{"NotBefore": "21 Jan 2019 09:00:43 GMT", "Code": "system-reboot", …}]`.

    Events with other codes are left out. Raises `NoEventsError`.
    """
    try:
        return [
            Scheduled(row["Code"], _instant(row["NotBefore"]))
            for row in json.loads(text or "[]")
            if row["Code"] in CODES
        ]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise NoEventsError(f"invalid events {text[:200]!r}: {error!r}") from error


def _instant(text: str) -> datetime:
    """`21 Jan 2019 09:00:43 GMT`, whatever the locale."""
    at = parsedate_to_datetime(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


class ScheduledEventWatch:
    """Calls `changed` with the next event, and with None once it is withdrawn or over."""

    def __init__(
        self,
        metadata: Metadata,
        changed: Callable[[ScheduledEvent | None], None],
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._metadata = metadata
        self._changed = changed
        self._poll_seconds = poll_seconds
        self._event: ScheduledEvent | None = None
        self._last_error = ""

    async def run(self) -> None:
        """Poll until cancelled. An error of the metadata service changes nothing."""
        while True:
            try:
                await self._poll()
                self._last_error = ""
            except (MetadataError, NoEventsError, OSError) as error:
                if str(error) != self._last_error:
                    log.warning("scheduled events cannot be read: %s", error)
                self._last_error = str(error)
            await asyncio.sleep(self._poll_seconds)

    async def _poll(self) -> None:
        found = next_event(parse_events(await self._metadata.find(SCHEDULED) or ""))
        event = None
        if found is not None:
            event = ScheduledEvent(code=found.code, not_before=found.not_before)
        if event != self._event:
            said = f"{event.code} from {event.not_before} on" if event else "none any more"
            log.warning("scheduled event: %s", said)
            self._event = event
            self._changed(event)
