"""How much of a limit is used, and until when: days of spending in, standings out. Pure.

Months, windows and credits are counted in whole calendar days of the hub's time zone, today
included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, NamedTuple

from ..ledger.amount import Amount, add_to_day
from .bounds import Bounds, Kind

PERCENT: Final = (25, 50, 75, 100)
"""Shares of a limit at which users are notified."""

COUNTED: Final = (Kind.MONTH, Kind.WINDOW, Kind.CREDIT, Kind.GPU_HOURS)
"""Limits that are used up by time; the others bind only what runs together."""


Days = Mapping[date, Amount]
"""What one scope has used, by calendar day; a day without any use is left out."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How one limit stands. `limit` and `used` in 1e-9 USD, or in microseconds of one GPU."""

    scope: str
    kind: Kind
    limit: int
    used: int
    renews: date | None = None
    """The first day on which more is left, if nothing else is used; None is never."""
    at_least: bool = False
    """A part has no known price, not even a list price: `used` lacks it."""
    storage: int = 0
    """What of it homes and their snapshots would have used alone."""

    @property
    def is_filled_by_storage(self) -> bool:
        """Whether homes and their snapshots alone use it up: no server can be to blame."""
        return self.kind.is_money and self.storage >= self.limit > 0

    @property
    def left(self) -> int:
        """What is left, at most if `at_least`; never negative."""
        return max(self.limit - self.used, 0)

    @property
    def is_reached(self) -> bool:
        """Whether nothing is left."""
        return self.used >= self.limit

    @property
    def is_exceeded(self) -> bool:
        """Whether more is used than the limit allows."""
        return self.used > self.limit

    @property
    def percent(self) -> int:
        """The share that is used, rounded down: 100 only when nothing is left."""
        return 100 * self.used // self.limit if self.limit else 100

    @property
    def threshold(self) -> int:
        """The highest of `PERCENT` that is passed; 0 is none.

        A limit of what runs together may well be full; it is passed once it is exceeded.
        """
        if self.kind not in COUNTED:
            return 100 if self.is_exceeded else 0
        return max((each for each in PERCENT if self.percent >= each), default=0)


def standings(scope: str, bounds: Bounds, days: Days, today: date) -> tuple[Standing, ...]:
    """How the counted limits of a scope stand today."""
    return tuple(_standings(scope, bounds, days, today))


def standings_at_once(
    scope: str, bounds: Bounds, rate: int, servers: int, unpriced: int
) -> Iterator[Standing]:
    """How the limits of what runs together stand: `servers` servers, which cost `rate` 1e-9 USD an
    hour without the `unpriced` of them whose price is unknown."""
    for kind, used, at_least in ((Kind.RATE, rate, unpriced > 0), (Kind.SERVERS, servers, False)):
        limit = bounds.limit(kind)
        if limit is not None:
            yield Standing(scope, kind, limit, used, at_least=at_least)


def _standings(scope: str, bounds: Bounds, days: Days, today: date) -> Iterator[Standing]:
    for kind in COUNTED:
        limit = bounds.limit(kind)
        if limit is not None:
            used = used_on(kind, bounds, days, today)
            at_least = kind.is_money and _is_lower_bound(kind, bounds, days, today)
            renews = _renews(kind, bounds, days, today)
            storage = used_on(kind, bounds, _storage(days), today) if kind.is_money else 0
            yield Standing(scope, kind, limit, used, renews, at_least, storage)


def _storage(days: Days) -> Days:
    """What homes and their snapshots have used."""
    return {day: Amount(x.storage_nano_usd) for day, x in days.items() if x.storage_nano_usd}


def used_on(kind: Kind, bounds: Bounds, days: Days, today: date) -> int:
    """What of a limit is used on that day, in the limit's unit."""
    match kind:
        case Kind.MONTH | Kind.WINDOW:
            return sum(spent.nano_usd for spent in _counted(kind, bounds, days, today))
        case Kind.GPU_HOURS:
            return round(sum(x.gpu_microseconds for x in _counted(kind, bounds, days, today)))
        case Kind.CREDIT:
            return _bucket(bounds, days, today).missing
        case _:
            raise ValueError(f"{kind} is not counted by day")


def _is_lower_bound(kind: Kind, bounds: Bounds, days: Days, today: date) -> bool:
    """Whether what is used lacks a part without any known price."""
    if kind is Kind.CREDIT:
        return _bucket(bounds, days, today).gap > 0
    return any(each.uncounted for each in _counted(kind, bounds, days, today))


def _counted(kind: Kind, bounds: Bounds, days: Days, today: date) -> Iterator[Amount]:
    """What was spent on the days that a month or a window counts."""
    first = today.replace(day=1)
    if kind is Kind.WINDOW:
        first = today - timedelta(days=(bounds.window_days or 1) - 1)
    return (spent for day, spent in days.items() if first <= day <= today)


class _Bucket(NamedTuple):
    """A credit at the end of a day, in 1e-9 USD."""

    missing: int
    """What is missing from the whole credit, as far as it has a known price."""
    gap: int
    """What is missing besides, at most: parts without any known price."""


def _bucket(bounds: Bounds, days: Days, today: date) -> _Bucket:
    """A bucket that was full before the first known day. See `fold_credit`.

    Parts without any known price are taken to have used up the whole credit, not more. The refill
    that a full bucket cannot take would have gone to them: that fills the gap again.
    """
    whole = bounds.limit(Kind.CREDIT) or 0
    missing = gap = 0
    before: date | None = None
    for day in sorted({*(day for day in days if day <= today), today}):
        refill = bounds.refill * (day - (before or day)).days
        gap = max(gap - max(refill - missing, 0), 0)
        missing = max(missing - refill, 0)
        spent = days.get(day, Amount())
        missing += spent.nano_usd
        gap = whole if spent.uncounted > 0 else gap
        before = day
    return _Bucket(missing, gap)


def fold_credit(bounds: Bounds, days: Days, until: date) -> dict[date, Amount]:
    """The days, with all up to `until` as one: on that day is spent what is missing from a credit.

    However long ago a credit was overrun, it is not forgotten with the days: on later days the
    same is missing as with all of them, and it is a lower bound for as long. So is what would be
    missing with storage alone.
    """
    past = {day: amount for day, amount in days.items() if day <= until}
    later = {day: amount for day, amount in days.items() if day > until}
    missing, gap = _bucket(bounds, past, until)
    storage = _bucket(bounds, _storage(past), until).missing
    unknown = sum(amount.unknown for amount in past.values())
    uncounted = sum(amount.uncounted for amount in past.values()) if gap else 0
    folded = {until: Amount(missing, unknown=unknown, storage_nano_usd=storage)}
    if uncounted > 0:
        day, spent = _gap_begin(bounds, gap, until)
        add_to_day(folded, day, Amount(spent, uncounted=uncounted))
    return {day: amount for day, amount in {**folded, **later}.items() if amount != Amount()}


def _gap_begin(bounds: Bounds, gap: int, until: date) -> tuple[date, int]:
    """The day on which a part without a price leaves this gap on the day `until`, and what to spend
    with it so that the refill in between fills the gap up to exactly that."""
    filled = (bounds.limit(Kind.CREDIT) or 0) - gap
    if not filled:
        return until, 0
    days = -(-filled // bounds.refill)
    return until - timedelta(days=days), days * bounds.refill - filled


def _renews(kind: Kind, bounds: Bounds, days: Days, today: date) -> date | None:
    match kind:
        case Kind.MONTH | Kind.GPU_HOURS:
            return next_month(today)
        case Kind.WINDOW:
            length = timedelta(days=bounds.window_days or 1)
            in_window = [d for d, s in days.items() if today - length < d <= today and s.nano_usd]
            return min(in_window) + length if in_window else None
        case _:
            return today + timedelta(days=1) if bounds.refill else None


def next_month(day: date) -> date:
    """The first day of the month after that day's."""
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1)
