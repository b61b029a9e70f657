"""What it costs to keep a sleeping session."""

from __future__ import annotations

from typing import Final

GIB: Final = 2**30
DAYS_OF_MONTH: Final = 365 / 12


def usd_per_day(size_bytes: int, usd_per_gib_month: float | None) -> float | None:
    """The share of the home's storage that the session takes: an estimate, because a volume is
    paid as a whole, whatever is on it. None where the price is unknown."""
    if usd_per_gib_month is None:
        return None
    return size_bytes / GIB * usd_per_gib_month / DAYS_OF_MONTH
