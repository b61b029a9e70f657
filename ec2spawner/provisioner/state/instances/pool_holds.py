"""What holds up the preparation and the starts of stopped instances of the warm pool."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Final

from ....core.backoff import Backoff
from ...runtime.clock import Clock
from ..pool import Failure

log = logging.getLogger(__name__)

FIRST_HOLD: Final = 300.0
LONGEST_HOLD: Final = 21600.0
"""Seconds after a failure. Each attempt costs a purchase and a boot, or minutes of a user's start,
and most causes last until an admin acts: a missing permission, an image that boots only once."""


class Part(StrEnum):
    """What may fail of an instance that is to wait stopped."""

    STOP = "stop"
    START = "start"
    """It was started again, and its agent did not come up."""


class PoolHolds:
    """By profile, in memory: a restart of the hub tries again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pauses: dict[tuple[str, Part], Backoff] = {}
        self._failures: dict[tuple[str, Part], Failure] = {}

    def failed(self, profile: str, part: Part, why: str) -> None:
        """Hold up what this part would need, longer with each failure. `why` is for admins."""
        key = (profile, part)
        seconds = self._pauses.setdefault(key, Backoff(FIRST_HOLD, LONGEST_HOLD)).next()
        log.warning(
            "Stopped instances of the pool of %s: %s. Again in %.0f s", profile, why, seconds
        )
        again_at = self._clock.uptime() + seconds
        self._failures[key] = Failure(why, self._clock.now(), again_at)

    def works(self, profile: str, part: Part) -> None:
        """The next failure is a first one."""
        self._pauses.pop((profile, part), None)
        self._failures.pop((profile, part), None)

    def failure(self, profile: str) -> Failure | None:
        """Why none is prepared for a profile now; None where nothing holds that up."""
        now = self._clock.uptime()
        found = (self._failures.get((profile, part)) for part in Part)
        return max((x for x in found if x and now < x.again_at), key=_end, default=None)

    def holds_starts(self, profile: str) -> bool:
        """Whether a start that would take a stopped one buys in its stead."""
        found = self._failures.get((profile, Part.START))
        return found is not None and self._clock.uptime() < found.again_at


def _end(failure: Failure) -> float:
    return failure.again_at
