"""When a limit will be reached if everything continues as it runs now. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Final

from ..ledger.amount import Amount
from ..ledger.local_days import local_day, midnight
from .bounds import HOUR, Bounds, Kind
from .standing import Days, used_on

HORIZON_DAYS: Final = 7
"""Windows and credits are forecast for a week: every midnight renews a part of them."""


def reached_at(
    kind: Kind, bounds: Bounds, days: Days, rate: int, now: datetime, place: tzinfo
) -> datetime | None:
    """When nothing will be left of a counted limit; None if it renews before, or never is.

    `rate` is what all leases of the scope use in an hour: 1e-9 USD, or microseconds of one GPU.
    """
    limit = bounds.limit(kind)
    if limit is None:
        return None
    today = local_day(now, place)
    used = used_on(kind, bounds, days, today)
    if used >= limit:
        return now
    if rate <= 0:
        return None
    if kind in {Kind.MONTH, Kind.GPU_HOURS}:
        at = now + _lasts(limit - used, rate)
        day = local_day(at, place)
        return at if (day.year, day.month) == (today.year, today.month) else None
    if limit - used > rate * HORIZON_DAYS * 25:
        return None  # what renews only adds to what is left; a day has 25 hours at most
    future, since = dict(days), now
    for _ in range(HORIZON_DAYS):
        left = limit - used_on(kind, bounds, future, today)
        ends = midnight(today + timedelta(days=1), place)
        at = since + _lasts(left, rate)
        if at <= ends:
            return at
        more = Amount(rate * ((ends - since) // timedelta.resolution) // HOUR)
        future[today] = future.get(today, Amount()) + more
        today, since = today + timedelta(days=1), ends
    return None


def _lasts(left: int, rate: int) -> timedelta:
    """A century at most: no calendar has more."""
    return timedelta(microseconds=min(max(left, 0) * HOUR // rate, 876_000 * HOUR))
