"""What each user has spent today and in this month, from memory at any moment.

Leases in memory are summed at each call. Those that have left it are kept as a sum for each day:
read from the store once, in the background, and added to as leases are forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from ...core.pricing.money import Segment, add_days, midnight, total, usd_between, usd_by_day
from ..model.lease import Lease
from ..runtime.clock import Clock
from ..runtime.task_group import TaskGroup
from ..store.store import Store
from .lease_registry import LeaseRegistry

OVERHEAD_REMEMBERED: Final = timedelta(hours=1)
"""Overhead that grows is counted again within seconds: what was not for so long is final."""

NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Spent:
    """USD of one user over all servers; None is unknown."""

    today: float | None = None
    """Since midnight, UTC."""
    month: float | None = None
    """Since the first of the month."""


class Spending:
    """What users and the hub have spent, in USD."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._begun_at = clock.now()
        self._is_loaded = self._is_reading = False
        self._read_until = _month(self._begun_at)
        self._days: dict[str, dict[date, float | None]] = {}
        """By user: of the leases that have left memory, in this month."""
        self._month = _month(self._begun_at)
        self._forgotten_usd = 0.0
        """Of the leases that have left memory, since this process began."""
        self._counted = 0.0
        self._overhead: dict[tuple[str, str], tuple[float, datetime]] = {}
        """By instance id and key: USD that are counted, and when they were counted last."""
        self.overhead_usd = 0.0
        """Of what belonged to no lease, since this process began, as far as prices are known."""

    def begin(self) -> None:
        """Count from now on: what exists was paid before, even if it is found only later."""
        self._begun_at = self._clock.now()
        self._read_until = _month(self._begun_at)

    def follow(self, tasks: TaskGroup) -> None:
        """Continue to read what is not read yet, and forget what is final."""
        latest = self._clock.now() - OVERHEAD_REMEMBERED
        self._overhead = {key: each for key, each in self._overhead.items() if each[1] > latest}
        if not self._is_loaded and not self._is_reading:
            self._is_reading = True
            tasks.spawn(self._read(), "spending")

    async def _read(self) -> None:
        """What was spent before this process began, once. Other reads and writes of the store come
        between the days; where one fails, the next pass continues."""
        try:
            while self._read_until < self._begun_at:
                until = min(self._read_until + timedelta(days=1), self._begun_at)
                spent = await self._store.spent_by_day(self._read_until, until)
                first = self._month.date()  # another one meanwhile, perhaps
                for user, days in spent.items():
                    of_month = {day: amount for day, amount in days.items() if day >= first}
                    add_days(self._days.setdefault(user, {}), of_month)
                self._read_until = until
            self._is_loaded = True
        finally:
            self._is_reading = False

    def forgotten(self, lease: Lease) -> None:
        """Count an ended lease that leaves memory."""
        now = self._clock.now()
        self._forgotten_usd += self._known_usd(lease, now)
        days = usd_by_day(lease.segments, now, _month(now))
        add_days(self._days.setdefault(lease.user, {}), days)

    def of(self, user: str, registry: LeaseRegistry) -> Spent:
        """What the user has spent; unknown until earlier leases are read from the store."""
        now = self._clock.now()
        self._turn_the_page(_month(now))
        if not self._is_loaded:
            return Spent()
        today, days = midnight(now), self._days.get(user, {})
        ends = today + timedelta(days=1)
        of_memory = [each.segments for each in registry.in_memory() if each.user == user]
        this_day = [usd_between(segments, now, today, ends) for segments in of_memory]
        this_month = [usd_between(segments, now, self._month, ends) for segments in of_memory]
        return Spent(
            today=total([days.get(today.date(), 0.0), *this_day]),
            month=total([*days.values(), *this_month]),
        )

    def since_begin(self, registry: LeaseRegistry) -> float:
        """USD of all leases since this process began, as far as prices are known; never less."""
        now = self._clock.now()
        spent = sum(self._known_usd(each, now) for each in registry.in_memory())
        self._counted = max(self._counted, spent + self._forgotten_usd)
        return self._counted

    def _known_usd(self, lease: Lease, now: datetime) -> float:
        known = [each for each in lease.segments if each.usd_per_hour is not None]
        return usd_between(known, now, self._begun_at, NEVER) or 0.0

    def count_overhead(self, segment: Segment, since: str) -> None:
        """Time of no lease since what `since` names; counted again, it is the same.

        Without EC2's minimum of 60 seconds: mostly a lease has paid that.
        """
        key, now = (segment.instance_id, since), self._clock.now()
        lasted = max((segment.end or now) - segment.start, timedelta())
        spent = lasted / timedelta(hours=1) * (segment.usd_per_hour or 0.0)
        before = self._overhead[key][0] if key in self._overhead else 0.0
        self._overhead[key] = max(spent, before), now
        self.overhead_usd += max(spent - before, 0.0)

    def _turn_the_page(self, month: datetime) -> None:
        if month == self._month:
            return
        self._month, first = month, month.date()
        kept = {
            user: {day: spent for day, spent in days.items() if day >= first}
            for user, days in self._days.items()
        }
        self._days = {user: days for user, days in kept.items() if days}


def _month(instant: datetime) -> datetime:
    return midnight(instant).replace(day=1)
