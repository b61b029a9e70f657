"""What was used and spent: of what has ended from the store, of what runs from memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from ..core.ledger.cost_rows import CostSum, Dimension, Filter, merge_sums, sum_rows
from ..core.ledger.idle_savings import Savings, Session, savings
from ..core.ledger.local_days import midnight
from ..core.limits.standing import next_month
from .model.lease import OPEN, Lease
from .model.lease_costs import costs_of
from .state.state import State
from .store.store import Store

PART = timedelta(days=10)
"""A longer range is read in parts. All reads and writes of the store wait for each other: of a hub
with 100,000 leases a year, such a part takes 40 ms, and the whole year nearly a second."""

DAY = timedelta(days=1)

IDLE_LIMITS = tuple(timedelta(minutes=minutes) for minutes in (120, 60, 30, 15, 5))
"""The idle limits that are replayed."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Reads; changes nothing. All `async` methods may raise `StoreError`."""

    state: State
    store: Store

    @property
    def time_zone(self) -> tzinfo:
        """Of the days."""
        return self.state.settings.time_zone

    def today(self) -> date:
        """The calendar day in the hub's time zone."""
        return self.state.spending.today()

    def month_ends(self) -> datetime:
        """When the calendar month ends in the hub's time zone."""
        return midnight(next_month(self.today()), self.time_zone)

    async def past_leases(self, user: str, before: datetime, limit: int) -> tuple[Lease, ...]:
        """The user's last `limit` leases that ended earlier than `before`, the newest first."""
        return await self.store.past_leases(user, before, limit)

    async def costs(
        self, since: date, until: date, by: Sequence[Dimension], only: Filter | None = None
    ) -> tuple[CostSum, ...]:
        """All costs from `since` to `until`, both days included, by these dimensions.

        `only` limits them to these values.
        """
        # What ends or is stored during the reads counts from memory, and from there only.
        leases, now = self._not_stored(only), self.state.clock.now()
        without = [lease.lease_id for lease in leases]
        parts = [await self.store.costs(*part, by, only, without) for part in _parts(since, until)]
        running = await asyncio.to_thread(self._running, leases, now, (since, until), by, only)
        return merge_sums(*parts, running)

    def _not_stored(self, only: Filter | None) -> tuple[Lease, ...]:
        """The leases whose costs the store does not have, or not for certain."""
        users = (only or {}).get(Dimension.USER)
        is_pending = self.store.write_behind.is_pending
        return tuple(
            lease
            for lease in self.state.leases.in_memory()
            if users is None or lease.user in users
            if lease.state in OPEN or is_pending(lease.lease_id)
        )

    def _running(
        self,
        leases: Sequence[Lease],
        now: datetime,
        days: tuple[date, date],
        by: Sequence[Dimension],
        only: Filter | None,
    ) -> tuple[CostSum, ...]:
        first, last = days
        rows = (
            row
            for lease in leases
            for row in costs_of(lease, lease.ended_at or now, self.time_zone)
            if first <= row.day <= last
        )
        return sum_rows(rows, by, only)

    async def idle_savings(self, since: date, until: date) -> Savings:
        """What idle rules saved, of the sessions that ended on these days, both included."""
        sessions: list[Session] = []
        for first, last in _parts(since, until):
            begin, end = midnight(first, self.time_zone), midnight(last + DAY, self.time_zone)
            sessions += await self.store.idle_sessions(begin, end)
        now = min(self.state.clock.now(), midnight(until + DAY, self.time_zone))
        return await asyncio.to_thread(savings, sessions, IDLE_LIMITS, now)


def _parts(since: date, until: date) -> Iterator[tuple[date, date]]:
    """First and last day of each part."""
    while since <= until:
        yield since, min(since + PART - DAY, until)
        since += PART
