"""How many instances should wait now, from the starts of the last four weeks. Pure.

A place of the pool that is taken is free again after one replacement: the time that a fresh
instance takes to boot. So the pool needs as many places as starts arrive within one replacement.
The forecast takes the busiest such interval around this time of day, of each comparable day: a
class that begins at nine is one busy interval, and an average would hide it. Of these days the
second busiest counts. So neither one exceptional day nor holidays decide, and a course every other
week is still expected.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final

WEEKS: Final = 4
"""How far back starts count: a course that ended last month asks for nothing."""

MIN_DAYS_WITH_EXCEPTION: Final = 3
"""Of fewer comparable days the busiest counts: none can be called exceptional."""

MARGIN: Final = timedelta(minutes=15)
"""Around this time of day: a class begins some minutes earlier or later than last week."""

MIN_SAME_WEEKDAYS: Final = 2
"""With fewer of this weekday known, working days, or days of the weekend, stand in for it."""

SATURDAY: Final = 5


class Basis(StrEnum):
    """Which days a forecast rests on."""

    SAME_WEEKDAY = "same-weekday"
    """The same weekday of the last four weeks."""
    SAME_KIND_OF_DAY = "same-kind-of-day"
    """Working days, or days of the weekend, of the last four weeks: the hub knows too few of this
    weekday yet."""
    NONE = "none"
    """No comparable day is known: a new hub, or its first Saturday. Nothing is forecast."""


@dataclass(frozen=True, slots=True)
class ComparedDay:
    """What an earlier day had around this time of day. A holiday is a day with no starts."""

    day: date
    """In the time zone of the hub."""
    starts: int
    peak: int
    """Starts in the busiest interval as long as one replacement."""
    peak_ahead: int
    """The same without what began before this time of day."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """How many instances should wait, and why."""

    running: int
    basis: Basis
    days: tuple[ComparedDay, ...]
    """Latest first."""
    started_today: int
    """Starts of the last 15 minutes: they have what they expected the pool for."""
    replacement_seconds: float


def forecast(
    starts: Sequence[datetime],
    known_since: datetime,
    now: datetime,
    replacement: float,
    place: tzinfo,
) -> Forecast:
    """How many instances of a profile should wait now.

    `starts` are the instants of its starts of the last four weeks, in ascending order;
    `known_since` is when the hub began to record them. `replacement` is the boot time of a fresh
    instance, in seconds. Weekdays and times of day are those of `place`.
    """
    length = timedelta(seconds=max(replacement, 1.0))
    here = now.astimezone(place)
    basis, earlier = _comparable(here, known_since)
    days = tuple(_compared(starts, each, length) for each in earlier)
    today = _between(starts, now - MARGIN, now)
    behind = _expected([each.peak for each in days]) - len(today)
    ahead = _expected([each.peak_ahead for each in days])
    return Forecast(max(behind, ahead), basis, days, len(today), length.total_seconds())


def _comparable(here: datetime, known_since: datetime) -> tuple[Basis, Sequence[datetime]]:
    """This time of day on the days that count, latest first; `here` is in the hub's time zone."""
    days = [day for day in _earlier(here) if day.astimezone(UTC) - MARGIN >= known_since]
    same = [day for day in days if day.weekday() == here.weekday()]
    if len(same) >= MIN_SAME_WEEKDAYS:
        return Basis.SAME_WEEKDAY, same
    alike = [day for day in days if _is_weekend(day) == _is_weekend(here)]
    return (Basis.SAME_KIND_OF_DAY, alike) if alike else (Basis.NONE, ())


def _earlier(here: datetime) -> Iterator[datetime]:
    # Within one zone, Python subtracts from the time of day.
    return (here - timedelta(days=days) for days in range(1, 7 * WEEKS + 1))


def _is_weekend(day: datetime) -> bool:
    return day.weekday() >= SATURDAY


def _compared(starts: Sequence[datetime], here: datetime, length: timedelta) -> ComparedDay:
    at = here.astimezone(UTC)
    end = at + length + MARGIN
    around, ahead = _between(starts, at - MARGIN, end), _between(starts, at, end)
    return ComparedDay(here.date(), len(around), _peak(around, length), _peak(ahead, length))


def _between(starts: Sequence[datetime], begin: datetime, end: datetime) -> Sequence[datetime]:
    return starts[bisect_left(starts, begin) : bisect_left(starts, end)]


def _peak(starts: Sequence[datetime], length: timedelta) -> int:
    """The largest number of starts in an interval of this length that includes its ends."""
    return max(
        (bisect_right(starts, each + length) - place for place, each in enumerate(starts)),
        default=0,
    )


def _expected(peaks: Sequence[int]) -> int:
    rank = 2 if len(peaks) >= MIN_DAYS_WITH_EXCEPTION else 1
    return sorted(peaks)[-rank] if peaks else 0
