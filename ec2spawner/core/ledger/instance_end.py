"""How the cost of an instance ends that EC2 ended, and not the hub. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from .segments import Segment, close

FREE_FIRST_HOUR: Final = timedelta(hours=1)
"""A Linux spot instance that EC2 interrupts within an hour of its launch is not charged (EC2's user
guide, *Billing for interrupted Spot Instances*)."""

FREE: Final = "EC2 interrupted it in its first hour, which is free"
"""Source of the price."""


def ends_free(launched_at: datetime, reclaimed_at: datetime) -> bool:
    """Whether EC2 charges nothing for an instance that it reclaims then, unless somebody else
    terminates it before."""
    return reclaimed_at - launched_at < FREE_FIRST_HOUR


@dataclass(frozen=True, slots=True)
class InstanceEnd:
    """What EC2 says of an instance that it shows as ended. Instants in UTC, by EC2's clock."""

    instance_id: str
    launched_at: datetime
    ended_at: datetime | None
    """None where EC2 does not say it."""
    was_interrupted: bool
    """EC2 needed the capacity of this spot instance."""

    @property
    def is_free(self) -> bool:
        """Whether EC2 charges nothing for it. EBS charges for its disks."""
        return (
            self.was_interrupted
            and self.ended_at is not None
            and ends_free(self.launched_at, self.ended_at)
        )


def close_at_end(
    segments: Sequence[Segment], now: datetime, end: InstanceEnd | None
) -> tuple[Segment, ...]:
    """The segments, ended when EC2 ended their instance, or `now`; at no charge for the instance
    where that is free.

    Segments of other instances are left as they are.
    """
    if end is None:
        return close(segments, now)
    ended_at = now if end.ended_at is None else min(end.ended_at, now)
    found = []
    for segment in close(segments, now):
        if segment.instance_id == end.instance_id:
            start = min(segment.start, max(ended_at, end.launched_at))
            ends = max(min(segment.end or now, ended_at), start)
            segment = replace(segment, start=start, end=ends)
            if end.is_free:
                segment = replace(segment, usd_per_hour=0.0, source=FREE)
        found.append(segment)
    return tuple(found)
