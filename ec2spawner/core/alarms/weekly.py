"""When the weekly summary is due, and which days it is about. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from ..ledger.local_days import local_day

DAY: Final = timedelta(days=1)
WEEK_DAYS: Final = 7

LATE: Final = DAY
"""A hub that was down when a summary was due sends it for so long after; later it is no news."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A time of the week, in the hub's time zone."""

    weekday: int
    """0 is Monday."""
    minute: int
    """After midnight."""

    def latest_due(self, now: datetime, place: tzinfo) -> datetime:
        """The last instant at or before `now` at which it was this time there, UTC."""
        today = local_day(now, place)
        day = today - DAY * ((today.weekday() - self.weekday) % WEEK_DAYS)
        due = self._instant(day, place)
        return due if due <= now else self._instant(day - DAY * WEEK_DAYS, place)

    def _instant(self, day: date, place: tzinfo) -> datetime:
        at = time(self.minute // 60, self.minute % 60)
        return datetime.combine(day, at, place).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Week:
    """Seven calendar days, both ends included."""

    first: date
    last: date

    @classmethod
    def before(cls, due: datetime, place: tzinfo) -> Week:
        """The last seven days that were over at `due`."""
        today = local_day(due, place)
        return cls(today - DAY * WEEK_DAYS, today - DAY)

    @property
    def previous(self) -> Week:
        """The seven days before."""
        return Week(self.first - DAY * WEEK_DAYS, self.first - DAY)
