"""When the hourly price of a server is not the one that its user last saw. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from ...wire import Market
from .charges import rate
from .segments import Segment

SAME: Final = 1.05
"""Two prices that differ by less are the same to a person: offers are ordered in such steps."""

RISE: Final = 1.25
"""A price that rises during a session is news by this factor against what was last said."""

SETTLED: Final = timedelta(hours=1)
"""A price that has held for so long is what the user knows: the next rise is measured by it. A
shorter fall is not, or a price that goes up and down would be reported again and again."""


@dataclass(frozen=True, slots=True)
class HourlyPrice:
    """What a server costs in an hour, with disks and address, in USD."""

    usd_per_hour: float
    market: Market


@dataclass(frozen=True, slots=True)
class PriceChange:
    """A difference to report to the user of a server."""

    why: Literal["start", "move", "rise"]
    """`start`: against what was asked for first. `move`: against the instance before. `rise`: the
    price of this instance has risen."""
    at: datetime
    """UTC."""
    before: HourlyPrice
    now: HourlyPrice


def price_of(segment: Segment) -> HourlyPrice | None:
    """What a segment costs; None while a part of that is unknown."""
    usd = rate(segment, segment.start).usd_per_hour
    return None if usd is None else HourlyPrice(usd, segment.market)


def differs(before: HourlyPrice, now: HourlyPrice) -> bool:
    """Whether a person would call it another price."""
    low, high = sorted((before.usd_per_hour, now.usd_per_hour))
    return before.market is not now.market or high > low * SAME


def latest_change(
    segments: Sequence[Segment],
    *,
    left: HourlyPrice | None = None,
    asked: HourlyPrice | None = None,
) -> PriceChange | None:
    """The last difference to report to the user of a server; None if there is none.

    `left` is what it cost on the instance that it has left, `asked` what was asked for first, as
    the page showed it before the start. A change is not reported while the price is again
    what it was before it; afterwards it is the same change, not another.
    """
    found: PriceChange | None = None
    said: HourlyPrice | None = None
    last: HourlyPrice | None = None
    instance_id = ""
    for segment in segments:
        now = price_of(segment)
        if now is None:
            continue
        last = now
        if said is None or segment.instance_id != instance_id:
            instance_id, said, found = segment.instance_id, now, None
            if left is not None and differs(left, now):
                found = PriceChange("move", segment.start, left, now)
            elif asked is not None and differs(asked, now):
                found = PriceChange("start", segment.start, asked, now)
        elif now.usd_per_hour >= said.usd_per_hour * RISE:
            found, said = PriceChange("rise", segment.start, said, now), now
        if now.usd_per_hour < said.usd_per_hour and _lasted(segment) >= SETTLED:
            said = now
    return None if found and last and _is_back(found, last) else found


def _is_back(change: PriceChange, now: HourlyPrice) -> bool:
    """Whether the price is again what it was before the change, or has passed it."""
    was, became = change.before.usd_per_hour, change.now.usd_per_hour
    if change.before.market is not now.market:
        return False
    has_passed = now.usd_per_hour <= was if became > was else now.usd_per_hour >= was
    return has_passed or not differs(change.before, now)


def _lasted(segment: Segment) -> timedelta:
    """How long it has lasted; no time yet while it runs."""
    return (segment.end or segment.start) - segment.start
