"""When a loop is saved. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..cost.notice import Notice

AFTER_NOTICE: Final = 30.0
"""Seconds between two checkpoints while the machine is about to end: what the loop does until then
is worth at most this much less."""

SHARE: Final = 4.0
"""Saving takes at most a fifth of the time then, because the home is being flushed as well."""


QUICK: Final = 1.0
"""Seconds for a checkpoint that delays nobody."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The last checkpoint, or where the loop began. In seconds of a monotonic clock."""

    at: float
    took: float = 0.0
    notice: Notice | None = None
    """The notice for which a checkpoint was last made."""


def reason(now: float, saved: Saved, every: float, notice: Notice | None) -> str:
    """Why the loop is saved now: the trigger of a notice, or `schedule`; empty if it is not.

    `every` is the time between two checkpoints, in seconds; 0 is after each step.
    """
    elapsed = now - saved.at
    if notice is None:
        return "schedule" if elapsed >= every else ""
    if not same(notice, saved.notice):
        return notice.trigger
    pause = min(every, max(AFTER_NOTICE, SHARE * saved.took))
    return notice.trigger if elapsed >= pause else ""


def last_reason(now: float, saved: Saved, notice: Notice | None) -> str:
    """Why the loop is saved once more before it makes room for the variables of its session; empty
    where that takes longer than `QUICK`, and than a fifth of the time since the last checkpoint."""
    is_worth_it = saved.took <= QUICK or now - saved.at >= SHARE * saved.took
    return notice.trigger if notice is not None and is_worth_it else ""


def same(one: Notice | None, other: Notice | None) -> bool:
    """Whether both are one notice, whose time may have been corrected meanwhile."""
    if one is None or other is None:
        return one is other
    return (one.trigger, one.id) == (other.trigger, other.id)
