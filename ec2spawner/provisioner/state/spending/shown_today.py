"""Amounts of the day that users have been shown, and what of them turned out not to be charged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final, Literal

from ....core.ledger import exact
from ....core.ledger.cost import known_nano_usd
from ....core.ledger.instance_end import FREE
from ....core.ledger.segments import Segment, until
from ...model.leases.lease import Lease

NOTICEABLE: Final = 0.0005
"""USD. Pages show tenths of a cent."""

Why = Literal["free-hour", "earlier-end", "correction"]


@dataclass(frozen=True, slots=True)
class Credit:
    """How much less than was shown a day costs for one reason, in USD."""

    usd: float
    why: Why
    """`free-hour`: AWS does not charge for a spot instance that it reclaims in its first hour.
    `earlier-end`: an instance had ended before this was known. `correction`: a price was another
    one."""
    at: datetime
    """Since when, UTC."""


@dataclass(slots=True)
class _Shown:
    """What one user was shown last."""

    day: date
    usd: float
    at: datetime
    segments: dict[str, tuple[Segment, ...]]
    """By id of each lease in memory."""
    credits: dict[Why, Credit] = field(default_factory=dict)


class ShownToday:
    """Remembers what each user has been shown. In memory only: a hub that begins has shown
    nothing."""

    def __init__(self) -> None:
        self._shown: dict[str, _Shown] = {}

    def show(
        self, user: str, usd: float | None, day: date, now: datetime, leases: Iterable[Lease]
    ) -> Sequence[Credit]:
        """The user is shown that this was spent on the day; by how much it has fallen in all, and
        why. `leases` are theirs in memory, by which a fall is explained."""
        before = self._shown.get(user)
        if before is not None and before.day != day:
            before = None
        if usd is None:
            return tuple(before.credits.values()) if before is not None else ()
        shown = _Shown(day, usd, now, {each.lease_id: each.segments for each in leases})
        self._shown[user] = shown
        if before is None:
            return ()
        shown.credits = before.credits
        if (fallen := before.usd - usd) >= NOTICEABLE:
            for why, share in _shares(before, shown).items():
                known = shown.credits.get(why)
                amount = fallen * share + (known.usd if known is not None else 0.0)
                shown.credits[why] = Credit(amount, why, now)
        return tuple(shown.credits.values())

    def forget_before(self, day: date) -> None:
        """Forget users who have been shown nothing since."""
        self._shown = {user: each for user, each in self._shown.items() if each.day >= day}


def _shares(before: _Shown, now: _Shown) -> dict[Why, float]:
    """Shares of the reasons in a fall, by the leases that have changed; in all 1."""
    lowered: Counter[Why] = Counter()
    for lease_id, segments in now.segments.items():
        old = before.segments.get(lease_id, segments)
        if old is not segments:
            lowered.update(_lowered(old, segments, before.at))
    found = {why: usd for why, usd in lowered.items() if usd >= NOTICEABLE}
    total = sum(found.values())
    return {why: usd / total for why, usd in found.items()} if found else {"correction": 1.0}


def _lowered(
    old: Sequence[Segment], new: Sequence[Segment], shown_at: datetime
) -> dict[Why, float]:
    """By how much each reason has lowered what a lease had cost when it was shown, in USD."""
    if _is_free(new) and not _is_free(old):
        return {"free-hour": _usd(old, shown_at) - _usd(new, shown_at)}
    ended_at = new[-1].end if new else None
    by_end = 0.0
    if ended_at is not None and ended_at < shown_at:
        by_end = _usd(old, shown_at) - _usd(until(old, ended_at), shown_at)
    whole = _usd(old, shown_at) - _usd(until(new, shown_at), shown_at)
    return {"earlier-end": by_end, "correction": whole - by_end}


def _is_free(segments: Iterable[Segment]) -> bool:
    return any(each.source == FREE for each in segments)


def _usd(segments: Iterable[Segment], now: datetime) -> float:
    return exact.usd(known_nano_usd(segments, now)[0])
