"""Scheduled events of EC2: when a server leaves an instance that AWS stops or reboots. Pure.

AWS announces them days or weeks in advance: "Scheduled events for Amazon EC2 instances" in the EC2
User Guide, and `InstanceStatusEvent` of the API reference, read in November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ...wire import ScheduledEventCode
from ..offers.capacity_blocks import TO_LEAVE

REBOOTS: Final = frozenset({"instance-reboot", "system-reboot"})

STOPS: Final = frozenset({"instance-retirement", "instance-stop"})
"""An instance whose root disk is a volume is stopped, a one-time spot instance ends."""

ENDS: Final = REBOOTS | STOPS
"""Events that no kernel outlives. The other one, `system-maintenance`, takes the network or the
power away for a short time."""

REBOOTED_WITHIN: Final = timedelta(hours=1)
"""The agent of an instance that AWS has rebooted calls at most so long after the end of the event:
minutes, unless the hub is not there either."""


@dataclass(frozen=True, slots=True)
class ScheduledEvent:
    """One event of one instance. Instants in UTC."""

    code: ScheduledEventCode
    not_before: datetime
    not_after: datetime | None = None
    """The latest end of the event; None is unknown."""
    is_pending: bool = True
    """False once it is over."""

    @property
    def ends_server(self) -> bool:
        """Whether it will end what runs on the instance."""
        return self.is_pending and self.code in ENDS

    @property
    def left_at(self) -> datetime:
        """By when the server has left the instance."""
        return self.not_before - TO_LEAVE

    def has_rebooted(self, now: datetime) -> bool:
        """Whether it explains that the instance has booted again by `now`."""
        end = max(self.not_after or self.not_before, self.not_before) + REBOOTED_WITHIN
        return self.code in REBOOTS and self.not_before <= now <= end


def next_event(events: Iterable[ScheduledEvent]) -> ScheduledEvent | None:
    """The first that is to come, one that ends the server before all others; None for none."""
    pending = (event for event in events if event.is_pending)
    return min(pending, key=lambda event: (not event.ends_server, event.not_before), default=None)
