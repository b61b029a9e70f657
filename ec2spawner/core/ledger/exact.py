"""Exact arithmetic of money: integers, so that parts always add up to their sum. Pure.

A price is a whole number of 1e-12 USD/hour, a duration a whole number of microseconds, and their
product a *tick*, of which `TICKS` make 1e-9 USD. AWS states prices with ten decimals at most.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Final

NANO: Final = 1_000_000_000
"""Amounts are stored in 1e-9 USD: 64 bits hold 9 billion USD of them."""

TICKS: Final = 3_600_000_000_000
"""1e-12 USD/hour for one microsecond, in 1e-9 USD: 3,600 s of 1e6 µs each, times 1,000."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@lru_cache(4096)
def price_units(usd_per_hour: float) -> int:
    """The price in 1e-12 USD/hour, as the shortest decimal that means this float."""
    return int((Decimal(repr(float(usd_per_hour))) * 10**12).to_integral_value())


def microseconds(instant: datetime) -> int:
    """Since 1970, UTC."""
    return (instant - _EPOCH) // _MICROSECOND


def instant(since_epoch: int) -> datetime:
    """The instant, in UTC, of so many microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=since_epoch)


def nano(usd: float) -> int:
    """An amount in USD as 1e-9 USD, rounded to the nearest."""
    return int((Decimal(repr(float(usd))) * NANO).to_integral_value())


def usd(nano_usd: int) -> float:
    """An amount of 1e-9 USD in USD."""
    return nano_usd / NANO
