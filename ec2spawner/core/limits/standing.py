"""How much of a limit is used, and until when: days of spending in, standings out. Pure.

Months, windows and credits are counted in whole calendar days of the hub's time zone, today
included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from ..ledger.amount import Amount
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

    @property
    def left(self) -> int:
        """What is left; never negative."""
        return max(self.limit - self.used, 0)

    @property
    def is_reached(self) -> bool:
        """Whether nothing is left."""
        return self.used >= self.limit

    @property
    def percent(self) -> int:
        """The share that is used, rounded down: 100 only when nothing is left."""
        return 100 * self.used // self.limit if self.limit else 100

    @property
    def threshold(self) -> int:
        """The highest of `PERCENT` that is passed; 0 is none."""
        return max((each for each in PERCENT if self.percent >= each), default=0)


def standings(scope: str, bounds: Bounds, days: Days, today: date) -> tuple[Standing, ...]:
    """How the counted limits of a scope stand today."""
    return tuple(_standings(scope, bounds, days, today))


def _standings(scope: str, bounds: Bounds, days: Days, today: date) -> Iterator[Standing]:
    for kind in COUNTED:
        limit = bounds.limit(kind)
        if limit is not None:
            used = used_on(kind, bounds, days, today)
            yield Standing(scope, kind, limit, used, _renews(kind, bounds, days, today))


def used_on(kind: Kind, bounds: Bounds, days: Days, today: date) -> int:
    """What of a limit is used on that day, in the limit's unit."""
    match kind:
        case Kind.MONTH:
            return sum(spent.nano_usd for day, spent in days.items() if _in_month(day, today))
        case Kind.GPU_HOURS:
            return round(sum(s.gpu_microseconds for d, s in days.items() if _in_month(d, today)))
        case Kind.WINDOW:
            first = today - timedelta(days=(bounds.window_days or 1) - 1)
            return sum(spent.nano_usd for day, spent in days.items() if first <= day <= today)
        case Kind.CREDIT:
            return _used_credit(bounds, days, today)
        case _:
            raise ValueError(f"{kind} is not counted by day")


def _used_credit(bounds: Bounds, days: Days, today: date) -> int:
    """What is missing from a bucket that was full before the first known day. See `fold_credit`."""
    missing = 0
    before: date | None = None
    for day in sorted(day for day in days if day <= today):
        if before is not None:
            missing = max(missing - bounds.refill * (day - before).days, 0)
        missing += days[day].nano_usd
        before = day
    if before is not None:
        missing = max(missing - bounds.refill * (today - before).days, 0)
    return missing


def fold_credit(bounds: Bounds, days: Days, until: date) -> dict[date, Amount]:
    """The days, with all up to `until` as one: on that day is spent what is missing from a credit.

    However long ago a credit was overrun, it is not forgotten with the days: on later days the
    same is missing as with all of them.
    """
    past = {day: amount for day, amount in days.items() if day <= until}
    later = {day: amount for day, amount in days.items() if day > until}
    missing = _used_credit(bounds, past, until)
    unknown = sum(amount.unknown for amount in past.values())
    return {until: Amount(missing, unknown=unknown), **later} if missing or unknown else later


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


def _in_month(day: date, today: date) -> bool:
    return (day.year, day.month) == (today.year, today.month) and day <= today
