"""What a hub and EC2 do over a span of time: the calls of EC2, and the turns of the hub's loop."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tests.bench.loop_monitor import Turn
from tests.bench.scale.rig.site import Site, by_action


@dataclass(frozen=True, slots=True)
class Observation:
    """A span that is over."""

    seconds: float
    calls: Counter[str]
    """Of EC2, by action."""
    turns: Sequence[Turn]

    @property
    def calls_per_minute(self) -> float:
        return 60 * self.calls.total() / self.seconds

    @property
    def stall_max_ms(self) -> float:
        return max((turn.wall_ms for turn in self.turns), default=0.0)

    @property
    def own_stall_max_ms(self) -> float:
        """Without what turns waited for a core, which is the machine's doing."""
        return max((turn.own_ms for turn in self.turns), default=0.0)


@dataclass(frozen=True, slots=True)
class Observer:
    """A span that has begun."""

    site: Site
    calls_before: int
    began: float
    """Seconds since the epoch."""
    began_monotonic: float

    @classmethod
    async def begin(cls, site: Site) -> Self:
        """From now on."""
        return cls(site, len(await site.calls()), time.time(), time.monotonic())

    @property
    def seconds(self) -> float:
        """Until now."""
        return time.monotonic() - self.began_monotonic

    async def end(self) -> Observation:
        """Until now."""
        seconds = self.seconds
        turns = self.site.hub.turns(self.began, self.began + seconds)
        return Observation(seconds, by_action(await self.site.calls(self.calls_before)), turns)
