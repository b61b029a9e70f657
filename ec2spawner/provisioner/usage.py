"""What was used and spent: of what has ended from the store, of what runs from memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from itertools import chain

from ..core.ledger.cost_rows import CostRow, CostSum, Dimension, Filter, merge_sums, sum_rows
from ..core.ledger.idle_savings import Savings, savings, total
from ..core.ledger.local_days import midnight
from ..core.limits.standing import next_month
from .model.leases.costs import costs_of
from .model.leases.lease import OPEN, Lease
from .state.state import State
from .store.ledger.cost_totals import dimension_of
from .store.store import Store

PART = timedelta(days=10)
"""What neither totals nor an index answer is read in parts of a longer range. All reads and writes
of the store wait for each other: of a hub with 100,000 leases a year, such a part takes 40 ms."""

IDLE_PART = timedelta(days=30)
"""The same of sessions with idle time, which have a table of their own: 20 to 40 ms."""

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
        self,
        since: date,
        until: date,
        by: Sequence[Dimension],
        only: Filter | None = None,
    ) -> tuple[CostSum, ...]:
        """All costs from `since` to `until`, both days included, by these dimensions; `only`
        limits them to these values."""
        # What ends or is stored during the reads counts from memory, and from there only.
        leases, now = self._not_stored(only), self.state.clock.now()
        # Its keys are left out of all that is read of the store, for the same reason.
        overhead = self.state.spending.pending_overhead.all()
        left_out = [pending.key for pending in overhead]
        # One user's lines have an index.
        is_fast = dimension_of(by, only) is not None or Dimension.USER in (only or {})
        ranges = [(since, until)] if is_fast else _parts(since, until, PART)
        parts = [
            await self.store.ledger.costs(*days, by, only, self._ended(leases), left_out)
            for days in ranges
        ]
        lines = chain(self._lines_of(leases, now), *(pending.costs for pending in overhead))
        counted = (row for row in lines if since <= row.day <= until)
        # A long range has tens of thousands of sums.
        return await asyncio.to_thread(
            lambda: merge_sums(*parts, sum_rows(counted, by, only)),
        )

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

    def _ended(self, leases: Sequence[Lease]) -> list[str]:
        """Of leases that count from memory, the ids of those that the store's next read leaves out.

        The lines of a lease are written only after it has ended in memory, and the store works in
        the order of the calls. So a read that is called while a lease is open finds no lines of it,
        even if the lease ends before the read's turn: its write comes later. What has ended by
        now may have lines, or get them before that read. Call this and the read in one step of the
        event loop.

        Without the open ones the list is short: with the ids of a thousand running servers, each
        query would take a tenth of a second longer.
        """
        known = (self.state.leases.get(each.lease_id) for each in leases)
        return [
            each.lease_id
            for each, by_now in zip(leases, known, strict=True)
            if by_now is None or by_now.state not in OPEN
        ]

    def _lines_of(self, leases: Sequence[Lease], now: datetime) -> Iterator[CostRow]:
        for lease in leases:
            yield from costs_of(lease, lease.ended_at or now, self.time_zone)

    async def idle_savings(
        self, since: date, until: date, in_force: timedelta | None = None
    ) -> Savings:
        """What idle rules saved, of the sessions that ended on these days, both included; replayed
        under `IDLE_LIMITS` and the limit `in_force`, the longest first."""
        now, found = self.state.clock.now(), list[Savings]()
        limits = sorted({*IDLE_LIMITS, *([in_force] if in_force else [])}, reverse=True)
        for first, last in _parts(since, until, IDLE_PART):
            begin, end = midnight(first, self.time_zone), midnight(last + DAY, self.time_zone)
            ended, idle = await self.store.ledger.idle_sessions(begin, end)
            never_idle = ended - len(idle)
            found.append(await asyncio.to_thread(savings, idle, limits, now, never_idle))
        return total(found)


def _parts(since: date, until: date, length: timedelta) -> Iterator[tuple[date, date]]:
    """Yield the first and the last day of each part."""
    while since <= until:
        yield since, min(since + length - DAY, until)
        since += length
