"""Prices by the month, for any part of one. Pure.

EBS bills volumes "in per-second increments, with a 60-second minimum", and a second costs the price
of a GB-month divided by the seconds of the actual month: 86,400 times 28 to 31 (AWS's EBS price
page, pricing examples). Months are AWS's, in UTC. A GB of AWS's is a GiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache

from .exact import instant, microseconds

_HOUR = 3_600_000_000
"""In microseconds."""


def month_rate(units: int, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The parts of a period by AWS's month: (1e-12 USD/hour in that month, start, end).

    `units` is the price in 1e-12 USD/month; instants are microseconds since 1970. The rate of an
    hour is rounded to 1e-12 USD: by less than 1e-9 USD a month.
    """
    while start < end:
        hours, ends = _month_of(start // _HOUR)
        yield (units + hours // 2) // hours, start, min(ends, end)
        start = ends


@lru_cache(4096)
def _month_of(hour: int) -> tuple[int, int]:
    """The hours of the month of an hour since 1970, and when the month ends, in microseconds."""
    at = instant(hour * _HOUR)
    begins = datetime(at.year, at.month, 1, tzinfo=UTC)
    ends = datetime(at.year + at.month // 12, at.month % 12 + 1, 1, tzinfo=UTC)
    return (microseconds(ends) - microseconds(begins)) // _HOUR, microseconds(ends)
