"""Prices: on-demand from the bundled table; spot simulated around real averages, by zone.

A spot price is a function of the offer and the time, so that every start shows the same history.
The real ones behave alike: a few changes a day, zones of one region apart by a factor of two.
"""

from __future__ import annotations

import bisect
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from ...data import instance_types

STEP = timedelta(hours=6)
"""A price changes once in this time, at a minute of its own."""
HISTORY = timedelta(days=90)
"""How far back EC2's price history goes."""
ZONE_SPREAD = 0.35
"""Zones lie apart by this share of the type's average, up and down."""
WALK_SPREAD = 0.12
"""The walk moves by at most this share."""
FLOOR, CEILING = 0.25, 0.98
"""Shares of the on-demand price between which spot prices were found (41 zone prices)."""
WAVES_HOURS = (17.0, 43.0, 163.0)
"""Periods of the waves that make the walk."""


@dataclass(frozen=True, slots=True)
class Change:
    """From `at` on, the price is this."""

    at: datetime
    usd_per_hour: float


class SpotPrices:
    """Spot prices by type and zone, in USD/hour. A type without a known price has none."""

    def __init__(self) -> None:
        self._set: dict[tuple[str, str], list[Change]] = {}

    def set(self, instance_type: str, zone: str, usd_per_hour: float, now: datetime) -> None:
        """From now on the price is this, and walks no more."""
        self._set.setdefault((instance_type, zone), []).append(
            Change(now.replace(microsecond=0), usd_per_hour)
        )

    def price(self, instance_type: str, zone: str, now: datetime) -> float | None:
        """Spot price at `now` in USD/hour; None if the type is not sold in the zone."""
        latest = next(self.history(instance_type, zone, now, now), None)
        return latest.usd_per_hour if latest is not None else None

    def history(
        self, instance_type: str, zone: str, start: datetime, end: datetime
    ) -> Iterator[Change]:
        """Changes from `end` back to the one in force at `start`: the newest first."""
        set_here = self._set.get((instance_type, zone), [])
        known = bisect.bisect_right(set_here, end, key=lambda change: change.at)
        for change in reversed(set_here[:known]):
            yield change
            if change.at <= start:
                return
        if set_here:
            end = min(end, set_here[0].at)
        yield from self._walk(instance_type, zone, start, end)

    def _walk(
        self, instance_type: str, zone: str, start: datetime, end: datetime
    ) -> Iterator[Change]:
        average = _average(instance_type)
        if average is None:
            return
        offset = timedelta(seconds=int(STEP.total_seconds() * _unit("minute", instance_type, zone)))
        step = math.floor((end.timestamp() - offset.total_seconds()) / STEP.total_seconds())
        last: Change | None = None
        while True:
            at = datetime.fromtimestamp(step * STEP.total_seconds(), UTC) + offset
            change = Change(at, self._at_step(instance_type, zone, step, average))
            if last is not None and last.usd_per_hour != change.usd_per_hour:
                yield last
                if last.at <= start:
                    return
            if at <= start:
                yield change
                return
            last = change
            step -= 1

    def _at_step(self, instance_type: str, zone: str, step: int, average: float) -> float:
        on_demand = instance_types()[instance_type].on_demand_usd_per_hour or average
        by_zone = 1 + ZONE_SPREAD * (2 * _unit("zone", instance_type, zone) - 1)
        hours = step * STEP.total_seconds() / 3600
        waves = sum(
            math.sin(2 * math.pi * (hours / period + _unit(str(period), instance_type, zone)))
            for period in WAVES_HOURS
        ) / len(WAVES_HOURS)
        price = average * by_zone * (1 + WALK_SPREAD * waves)
        return round(min(max(price, FLOOR * on_demand), CEILING * on_demand), 4)


class OnDemandPrices:
    """On-demand prices by type, in USD/hour: one for the region."""

    def __init__(self) -> None:
        self._set: dict[str, float] = {}

    def set(self, instance_type: str, usd_per_hour: float) -> None:
        """The type costs this from now on, in USD/hour."""
        self._set[instance_type] = usd_per_hour

    def price(self, instance_type: str) -> float | None:
        """None where the bundled table does not know the type or its price."""
        known = instance_types().get(instance_type)
        listed = known.on_demand_usd_per_hour if known is not None else None
        return self._set.get(instance_type, listed)


def _average(instance_type: str) -> float | None:
    known = instance_types().get(instance_type)
    if known is None or known.on_demand_usd_per_hour is None or known.spot_saving_percent is None:
        return None
    return known.on_demand_usd_per_hour * (1 - known.spot_saving_percent / 100)


@cache
def _unit(*words: str) -> float:
    """A number in [0, 1) that depends on nothing but the words."""
    digest = hashlib.sha256("\0".join(words).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64
