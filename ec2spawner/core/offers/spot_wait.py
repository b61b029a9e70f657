"""A start that waits for spot instead of buying on demand: ask EC2 again, wait, or end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from ...wire import Market
from .launch_errors import ErrorClass
from .sold_out import Mark

PAUSE: Final = timedelta(seconds=30)
"""Between two launch calls for one waiting start. What EC2 says is sold out is left alone for
longer; this is for answers that say nothing about capacity."""

BOOT_RESERVE: Final = 300.0
"""Seconds of `start_timeout` that are left for the boot when the wait is over: GPU images take
two to four minutes."""

_LASTING: Final = frozenset(
    {ErrorClass.MARKET, ErrorClass.PLAN, ErrorClass.UNUSABLE, ErrorClass.TYPE_IN_ZONE}
)
"""Reasons that no wait of minutes removes: only an admin does, or AWS in months."""


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


def is_in_vain(marks: Sequence[Mark | None]) -> bool:
    """Whether waiting cannot help, by the marks of all offers that a start may buy.

    Without any offer it can: a price limit may be met later.
    """
    return bool(marks) and all(mark is not None and mark.error_class in _LASTING for mark in marks)


def turn(
    wait: Wait | None,
    marks: Sequence[Mark | None],
    asked_at: datetime | None,
    now: datetime,
    *,
    is_verified: bool = True,
) -> Turn:
    """`marks` are of all offers that it may buy; `asked_at` is its last launch call, None where it
    has made none since it began, or since it lost an instance. A start that does not wait always
    asks, and the answer ends it; but while AWS verifies the account, every start waits.

    A start that has not asked yet asks also when its time is over: the hub may have been away, or
    its home was being moved.
    """
    if not is_verified:
        return Turn.END if wait is not None and now >= wait.until else Turn.WAIT
    is_open = any(mark is None for mark in marks)
    if wait is None or (is_open and asked_at is None):
        return Turn.ASK
    if now >= wait.until or is_in_vain(marks):
        return Turn.END
    if not is_open or asked_at is None or abs(now - asked_at) < PAUSE:
        return Turn.WAIT
    return Turn.ASK


def longest_wait(start_timeout: float) -> float:
    """Seconds: JupyterHub cancels a start after `start_timeout`, and a boot must still fit in."""
    return max(start_timeout - BOOT_RESERVE, start_timeout / 2)
