"""The brake: our own conclusions never end many servers at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..runtime.clock import Clock

log = logging.getLogger(__name__)

BRAKE_COUNT = 3
BRAKE_SHARE = 0.2
BRAKE_WINDOW = 600.0
"""Seconds of uptime. More than max(3, 20 %) of the running servers are never ended by our own
conclusion within the window: a pass that would do so ends none and alerts. A window, because a
simultaneous failure (of a network) is noticed one server at a time."""

ALERT_INTERVAL = 300.0
"""Seconds of uptime between two alerts."""

T = TypeVar("T")


@dataclass(slots=True)
class Brake:
    """Limits how many servers end by our own conclusion within a window."""

    clock: Clock
    _ended_at: list[float] = field(default_factory=list)
    """Uptimes at which it admitted an end, within the window; independent of the wall clock."""
    _alerted_at: float | None = None

    def admit(self, ends: Sequence[T], running: int, why: str) -> Sequence[T]:
        """The same, or nothing if that would end too many of the `running` servers.

        `why` is for the admin.
        """
        if not ends:
            return ends
        now = self.clock.uptime()
        self._ended_at = [at for at in self._ended_at if now - at < BRAKE_WINDOW]
        lately = len(self._ended_at)
        if len(ends) + lately <= max(BRAKE_COUNT, BRAKE_SHARE * (running + lately)):
            self._ended_at += [now] * len(ends)
            return ends
        if self._alerted_at is not None and now - self._alerted_at < ALERT_INTERVAL:
            return []
        self._alerted_at = now
        log.critical(
            "BRAKE: %d servers would be ended after %d lately, %d are running: %s. None is "
            "ended. Look at the region, the hub's tag and the network before you restart the hub.",
            len(ends),
            lately,
            running,
            why,
        )
        return []
