"""Amounts of the day that users have been shown, and what of them turned out not to be charged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, Literal

from ....core.ledger.instance_end import FREE
from ...model.leases.lease import Lease

NOTICEABLE: Final = 0.0005
"""USD. Pages show tenths of a cent."""

Why = Literal["free-hour", "correction"]


@dataclass(frozen=True, slots=True)
class Credit:
    """By how much the amount of a day has fallen since it was shown, in USD."""

    usd: float
    why: Why
    """`free-hour`: AWS does not charge for a spot instance that it reclaims in its first hour.
    `correction`: a price was another one."""
    at: datetime
    """Since when, UTC."""


@dataclass(slots=True)
class _Shown:
    day: date
    usd: float
    credit: Credit | None = None


class ShownToday:
    """By user. In memory only: a hub that begins has shown nothing."""

    def __init__(self) -> None:
        self._shown: dict[str, _Shown] = {}

    def show(
        self, user: str, usd: float | None, day: date, now: datetime, leases: Iterable[Lease]
    ) -> Credit | None:
        """The user is shown that this was spent on the day; by how much it has fallen in all.
        `leases` are theirs in memory, by which a fall is explained."""
        shown = self._shown.get(user)
        if usd is None:
            return shown.credit if shown is not None and shown.day == day else None
        if shown is None or shown.day != day:
            shown = self._shown[user] = _Shown(day, usd)
        fallen = shown.usd - usd
        shown.usd = usd
        if fallen >= NOTICEABLE:
            before = shown.credit.usd if shown.credit else 0.0
            shown.credit = Credit(before + fallen, _why(leases), now)
        return shown.credit

    def forget_before(self, day: date) -> None:
        """Forget users who have been shown nothing since."""
        self._shown = {user: each for user, each in self._shown.items() if each.day >= day}


def _why(leases: Iterable[Lease]) -> Why:
    is_free = any(each.source == FREE for lease in leases for each in lease.segments)
    return "free-hour" if is_free else "correction"
