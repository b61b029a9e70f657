"""The alarm of a warm pool that no server uses. Pure."""

from __future__ import annotations

from datetime import datetime

from ..pool.unused import Unused
from ..text.durations import in_words
from ..text.untrusted import visible
from .alarm import Alarm, Kind


def pool_unused(unused: Unused, usd_per_hour: float | None, now: datetime) -> Alarm:
    """Instances that have waited for long; daily, by profile. `usd_per_hour` is what they cost
    together, None where a price is unknown."""
    number = len(unused.instances)
    instances = "an instance" if number == 1 else f"{number} instances"
    cost = (
        "at an unknown price"
        if usd_per_hour is None
        else f"at {usd_per_hour:.2f} USD/hour (estimate)"
    )
    return Alarm(
        Kind.POOL_UNUSED,
        unused.profile,
        now.date().isoformat(),
        f"No server takes {instances} of the warm pool for {visible(unused.profile)}",
        f"They wait {cost}, the longest for {in_words(unused.seconds)}: "
        f"{visible(', '.join(unused.instances[:MAX_NAMED]))}{_more(number)}. The pool is larger "
        "than its use: lower `running`, `stopped` or `max` of this profile in "
        "c.EC2Spawner.warm_pool, or set `when` to the hours at which people start servers.",
        now,
    )


MAX_NAMED = 10
"""Instances that a message names."""


def _more(number: int) -> str:
    return f" and {number - MAX_NAMED} more" if number > MAX_NAMED else ""
