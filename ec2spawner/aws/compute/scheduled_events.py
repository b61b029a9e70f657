"""The scheduled events of instances, from DescribeInstanceStatus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, get_args

from ...core.instances.scheduled_events import ScheduledEvent
from ...wire import ScheduledEventCode
from ..calls.client import Answer, Client

PAGE: Final = 100
"""Instances in a page; hardly any has an event."""

CODES: Final[frozenset[str]] = frozenset(get_args(ScheduledEventCode))

WITH_EVENT: Final = [{"Name": "event.code", "Values": sorted(CODES)}]
"""Running instances of the account with an event: the action has no filter for tags."""

OVER: Final = "[Completed]"
CANCELED: Final = "[Canceled]"
"""Starts of the descriptions of events that are over, or withdrawn: for up to a week they are
still described."""


class ScheduledEvents:
    """The events of one region."""

    client: Client

    async def scheduled_events(self) -> Mapping[str, Sequence[ScheduledEvent]]:
        """Instance id -> its events, without those that AWS has withdrawn. Raises `CloudError`."""
        found = await self.client.pages(
            "describe_instance_status", _statuses, page=PAGE, Filters=WITH_EVENT
        )
        events: defaultdict[str, list[ScheduledEvent]] = defaultdict(list)
        for instance_id, event in found:
            events[instance_id].append(event)
        return dict(events)


def _statuses(answer: Answer) -> Sequence[tuple[str, ScheduledEvent]]:
    return [
        (status["InstanceId"], event)
        for status in answer["InstanceStatuses"]
        for event in _events(status)
    ]


def _events(status: Mapping[str, Any]) -> Iterator[ScheduledEvent]:
    for row in status.get("Events", ()):
        description, begins = row.get("Description", ""), row.get("NotBefore")
        if row.get("Code") not in CODES or begins is None or description.startswith(CANCELED):
            continue
        yield ScheduledEvent(
            code=row["Code"],
            not_before=_utc(begins),
            not_after=_utc(row["NotAfter"]) if row.get("NotAfter") else None,
            is_pending=not description.startswith(OVER),
        )


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
