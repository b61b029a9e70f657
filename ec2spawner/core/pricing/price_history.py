"""Seven days of a price: the line to draw, and in words how steady it has been. Pure.

A price is a step function: each point holds until the next one. Every sequence of points here is
in order of time, oldest first, and every price is above 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

WEEK: Final = timedelta(days=7)
"""How far back steadiness looks, and what is kept of a history."""

STEADY_BAND: Final = 1.05
"""A price is steady while its highest is at most so many times its lowest: the 5 % within which
two offers count as equally dear."""

TREND_CHANGES: Final = 2
"""A single change is a step. A price that rises or falls does so at least so many times."""

_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PricePoint:
    """From `at` (UTC) on, the price is this."""

    at: datetime
    usd_per_hour: float


# --- what was when ---------------------------------------------------------------------------


def price_at(points: Sequence[PricePoint], at: datetime) -> float | None:
    """The price in force at an instant, USD/hour; None before the first point."""
    known = bisect_right(points, at, key=_instant)
    return points[known - 1].usd_per_hour if known else None


def sampled(
    points: Sequence[PricePoint], start: datetime, end: datetime, number: int
) -> tuple[float | None, ...]:
    """The price at `number` instants, evenly apart, the first at `start` and the last at `end`.

    For a small line. None where the price was not known yet; a single one is that of `end`.
    """
    if number <= 1:
        return (price_at(points, end),) * number
    step = (end - start) / (number - 1)
    return (
        *(price_at(points, start + place * step) for place in range(number - 1)),
        price_at(points, end),
    )


def merged(
    old: Sequence[PricePoint], new: Sequence[PricePoint], since: datetime
) -> tuple[PricePoint, ...]:
    """Both histories as one, from the point in force at `since`.

    Where both name an instant, the new one holds. Points that change nothing are left out: EC2
    repeats an unchanged price every day.
    """
    by_instant = {point.at: point for point in (*old, *new)}
    points = sorted(by_instant.values(), key=_instant)
    in_force = max(bisect_right(points, since, key=_instant) - 1, 0)
    kept: list[PricePoint] = []
    for point in points[in_force:]:
        if not kept or kept[-1].usd_per_hour != point.usd_per_hour:
            kept.append(point)
    return tuple(kept)


def _instant(point: PricePoint) -> datetime:
    return point.at


# --- in words --------------------------------------------------------------------------------


class Pace(StrEnum):
    """What a price has been doing lately."""

    STEADY = "steady"
    MOVED = "moved"
    RISING = "rising"
    FALLING = "falling"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Steadiness:
    """What a price has been doing, and since when."""

    kind: Pace
    since: datetime | None = None
    """UTC; since when it has been so, within the last seven days. None for moved and unknown."""
    days: float = 0.0
    """The same as a number of days."""
    percent: int = 0
    """How far the highest price lay above the lowest in these days."""

    @property
    def words(self) -> str:
        """Such as `steady for 6 days`, `moved 14 % this week`; empty when nothing is known."""
        if self.kind is Pace.UNKNOWN:
            return ""
        if self.kind is Pace.MOVED:
            return f"moved {self.percent} % this week"
        return f"{self.kind} for {_duration_words(self.days)}"


def steadiness(points: Sequence[PricePoint], now: datetime) -> Steadiness:
    """What the price has been doing in the seven days before `now`.

    Rising or falling: at least `TREND_CHANGES` changes all in one direction, by more than the
    steady band together, for a day or longer, and the last one less than a day ago. Otherwise
    steady, where it has been within the band for a day or for as long as it is known; otherwise
    it has moved.
    """
    week = _within_week(points, now)
    if not week:
        return Steadiness(Pace.UNKNOWN)
    prices = [point.usd_per_hour for point in week]
    percent = round((max(prices) / min(prices) - 1) * 100)
    trend = _trend(week, now)
    if trend is not None:
        kind = Pace.RISING if prices[-1] > trend.usd_per_hour else Pace.FALLING
        return Steadiness(kind, trend.at, _days(now - trend.at), percent)
    since = _steady_since(week)
    if since == week[0].at or now - since >= _DAY:
        return Steadiness(Pace.STEADY, since, _days(now - since), percent)
    return Steadiness(Pace.MOVED, percent=percent)


def _within_week(points: Sequence[PricePoint], now: datetime) -> tuple[PricePoint, ...]:
    """The changes of the last seven days, beginning with the price that they began with."""
    start = now - WEEK
    known = merged(points[: bisect_right(points, now, key=_instant)], (), start)
    if known and known[0].at < start:
        return (PricePoint(start, known[0].usd_per_hour), *known[1:])
    return known


def _steady_since(points: Sequence[PricePoint]) -> datetime:
    """Since when the price has been within the steady band."""
    low = high = points[-1].usd_per_hour
    since = points[-1].at
    for point in reversed(points):
        low, high = min(low, point.usd_per_hour), max(high, point.usd_per_hour)
        if high > low * STEADY_BAND:
            break
        since = point.at
    return since


def _trend(points: Sequence[PricePoint], now: datetime) -> PricePoint | None:
    """Where the price began to go in the direction of its last change; None without a trend.

    Neighbouring points differ, so each is a change.
    """
    if len(points) <= TREND_CHANGES or now - points[-1].at >= _DAY:
        return None
    rises = points[-1].usd_per_hour > points[-2].usd_per_hour
    first = len(points) - 2
    while first and (points[first].usd_per_hour > points[first - 1].usd_per_hour) is rises:
        first -= 1
    changes = len(points) - 1 - first
    ends = points[first].usd_per_hour, points[-1].usd_per_hour
    # The price went from the first point's when it changed: at the point after it.
    began = points[first + 1].at
    if changes < TREND_CHANGES or max(ends) <= min(ends) * STEADY_BAND or now - began < _DAY:
        return None
    return PricePoint(began, points[first].usd_per_hour)


def _days(duration: timedelta) -> float:
    return duration / _DAY


def _duration_words(days: float) -> str:
    """Rounded down: a price that has been steady for 6.9 days has not been so for 7."""
    if days >= 1:
        return "1 day" if days < 2 else f"{int(days)} days"
    hours = int(days * 24)
    if hours == 0:
        return "less than an hour"
    return "1 hour" if hours == 1 else f"{hours} hours"
