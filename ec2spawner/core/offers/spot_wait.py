"""A start that waits for spot instead of buying on demand: ask EC2 again, wait, or end. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from ...wire import Market

PAUSE: Final = timedelta(seconds=30)
"""Between two launch calls for one waiting start. What EC2 says is sold out is left alone for
longer; this is for answers that say nothing about capacity."""

BOOT_RESERVE: Final = 300.0
"""Seconds of `start_timeout` that are left for the boot when the wait is over: GPU images take
two to four minutes."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a start has agreed to."""

    until: datetime
    """UTC. After that it ends without an instance."""
    otherwise: tuple[Market, ...] = ()
    """Markets that its profile leaves to its user: bought once the user has agreed to a price."""


class Turn(StrEnum):
    """What a start without an instance does now."""

    ASK = "ask"
    WAIT = "wait"
    END = "end"


def turn(wait: Wait | None, *, is_open: bool, asked_at: datetime | None, now: datetime) -> Turn:
    """`is_open`: something of what it may buy is not known to be sold out; `asked_at` is its last
    launch call, None where it has made none since it began, or since it lost an instance. A start
    that does not wait always asks, and the answer ends it.

    A start that has not asked yet asks also when its time is over: the hub may have been away, or
    its home was being moved.
    """
    if wait is None or (is_open and asked_at is None):
        return Turn.ASK
    if now >= wait.until:
        return Turn.END
    if not is_open or asked_at is None or abs(now - asked_at) < PAUSE:
        return Turn.WAIT
    return Turn.ASK


def longest_wait(start_timeout: float) -> float:
    """Seconds: JupyterHub cancels a start after `start_timeout`, and a boot must still fit in."""
    return max(start_timeout - BOOT_RESERVE, start_timeout / 2)
