"""Scheduled events of the hub's instances, as EC2 described them last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ....core.instances.scheduled_events import ScheduledEvent, next_event
from ...model.cloud.instance import STOPPED, Instance


class ScheduledEvents:
    """By instance. Not stored: EC2 describes them again after a restart."""

    def __init__(self) -> None:
        self._of: Mapping[str, Sequence[ScheduledEvent]] = {}
        self._read_at: datetime | None = None
        self._has_failed = False

    @property
    def is_known(self) -> bool:
        """Whether this process has read them."""
        return self._read_at is not None

    @property
    def is_awaited(self) -> bool:
        """Whether what depends on them waits for the first reading, which has not failed yet."""
        return not self.is_known and not self._has_failed

    def fail(self) -> None:
        """A reading has failed: what was known stays, and nothing waits for the next one."""
        self._has_failed = True

    def learn(self, found: Mapping[str, Sequence[ScheduledEvent]], read_at: datetime) -> None:
        """Replace what was known by a complete reading, asked for at `read_at` (UTC)."""
        self._of, self._read_at = found, read_at

    def next_of(self, instance: Instance | None) -> ScheduledEvent | None:
        """The event of this instance that is to come; None for most.

        One that was stopped starts on another host, of which the reading before says nothing.
        """
        if instance is None or instance.state in STOPPED or self._read_at is None:
            return None
        if instance.launched_at > self._read_at:
            return None
        return next_event(self._of.get(instance.instance_id, ()))

    def left_at(self, instance: Instance | None) -> datetime | None:
        """By when the server on this instance has to leave, UTC; None for most."""
        event = self.next_of(instance)
        return event.left_at if event is not None and event.ends_server else None

    def has_rebooted(self, instance_id: str, now: datetime) -> bool:
        """Whether AWS has rebooted this instance lately, or is about to, as it had announced."""
        return any(event.has_rebooted(now) for event in self._of.get(instance_id, ()))
