"""What waits stopped in the warm pool: what is being started, and what shall end."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final

from ...runtime.clock import Clock
from .pool_holds import PoolHolds

LISTING_LAG: Final = 60.0
"""Seconds after EC2 has accepted a start for which a listing that shows the instance stopped is
taken for an old one."""

PAUSE: Final = 60.0
"""Seconds after a refused start until the same instance is tried again."""


class PoolStarts:
    """By instance id, and in memory: that a start was asked for is stored with the instance
    (`Kept.asked_at`), and another process finds out from listings what became of it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._starting: dict[str, float] = {}
        """Uptime until which the instance counts as one that runs, whatever is listed."""
        self._boots_since: dict[str, float] = {}
        """Uptime since which its agent is awaited."""
        self._not_before: dict[str, float] = {}
        """Uptime until which EC2 is not asked again."""
        self.holds = PoolHolds(clock)
        self.unwanted: Mapping[str, str] = {}
        """Why these are to be terminated, as of the last pass."""

    def begin(self, instance_id: str) -> None:
        """EC2 is being asked to start it."""
        self._starting[instance_id] = math.inf
        self._boots_since[instance_id] = self._clock.uptime()

    def accepted(self, instance_id: str) -> None:
        """EC2 starts it."""
        self._starting[instance_id] = self._clock.uptime() + LISTING_LAG

    def failed(self, instance_id: str) -> None:
        """EC2 does not start it, or has not said so."""
        self._starting.pop(instance_id, None)
        self._not_before[instance_id] = self._clock.uptime() + PAUSE

    def stops(self, instance_id: str) -> None:
        """No start has taken it, and it is stopped again."""
        self._starting.pop(instance_id, None)

    def is_starting(self, instance_id: str) -> bool:
        """Whether it counts as one that runs although listings show it stopped."""
        return self._clock.uptime() < self._starting.get(instance_id, -math.inf)

    def may_start(self, instance_id: str) -> bool:
        """Whether EC2 may be asked to start it."""
        now = self._clock.uptime()
        is_paused = now < self._not_before.get(instance_id, -math.inf)
        return not (is_paused or instance_id in self.unwanted or self.is_starting(instance_id))

    def boot_seconds(self, instance_id: str) -> float:
        """Uptime since its start was asked for, or since this process first asks about it."""
        now = self._clock.uptime()
        return now - self._boots_since.setdefault(instance_id, now)

    def forget_others(self, here: Collection[str]) -> None:
        """Drop what is known of instances that are not in the pool any more."""
        for known in (self._starting, self._boots_since, self._not_before):
            for instance_id in known.keys() - set(here):
                del known[instance_id]
