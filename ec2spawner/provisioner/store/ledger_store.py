"""What was paid: lines of cost, the segments behind them, and idle time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime

from sqlalchemy import Connection, update

from ...core.ledger.cost_rows import Cause, CostRow, CostSum, Dimension, Filter
from ...core.ledger.idle_savings import Session
from ...core.ledger.lease_costs import Account
from ...core.ledger.segments import DISKS_OF_STOPPED, OverheadKey, Segment
from ...core.ledger.storage.held import Counted
from . import queries, tables
from .databases.database_thread import DatabaseThread
from .ledger import cost_queries, idle_queries, storage_costs
from .statements import replace_overhead


class LedgerStore:
    """The ledger; the lines of a lease are written with it, by `Store.save_lease`.

    All methods may raise `StoreError`.
    """

    def __init__(self, database: DatabaseThread) -> None:
        self._database = database

    async def save_overhead(
        self, segments: Sequence[Segment], key: str, costs: Sequence[CostRow] = ()
    ) -> Sequence[CostSum]:
        """Insert segments of one instance that belong to no lease, at least one, or replace those
        with the same `key`.

        With its lines of the ledger; returns the sums of the lines that they replace, by `WHOSE`.
        See `core.ledger.segments.overhead_key`.
        """

        def write(connection: Connection) -> Sequence[CostSum]:
            replace_overhead(connection, segments, key)
            instance_id = segments[0].instance_id
            return cost_queries.replace_overhead_costs(connection, instance_id, key, costs)

        return await self._database.write(write)

    async def save_overhead_costs(
        self, instance_id: str, key: str, costs: Sequence[CostRow]
    ) -> Sequence[CostSum]:
        """The same without a segment: of what outlives the time of an instance, such as the disks
        of a stopped one."""
        return await self._database.write(
            lambda connection: cost_queries.replace_overhead_costs(
                connection, instance_id, key, costs
            )
        )

    async def overhead_costs(self, instance_id: str, key: str) -> Sequence[CostSum]:
        """The sums of the lines that the next `save_overhead` with this key replaces, by
        `WHOSE`."""
        return await self._database.read(
            lambda connection: cost_queries.overhead_costs(connection, instance_id, key)
        )

    async def whose_overhead(self, instance_id: str, key: str) -> tuple[Cause, Account] | None:
        """Why there is overhead with this key, and to whom it is charged; None without any."""
        return await self._database.read(
            lambda connection: cost_queries.whose_overhead(connection, instance_id, key)
        )

    async def has_disks_of_stopped(self, instance_id: str) -> bool:
        """Whether disks of this instance were counted while it was stopped."""
        return await self._database.read(
            lambda connection: cost_queries.has_overhead_named(
                connection, instance_id, DISKS_OF_STOPPED
            )
        )

    async def last_overhead(self, instance_id: str) -> tuple[str, int] | None:
        """The last key of overhead that was stored under an id, in their order, and how many
        microseconds its lines have lasted; None for none."""
        return await self._database.read(
            lambda connection: cost_queries.last_overhead(connection, instance_id)
        )

    async def charged_overhead(self, instance_id: str, boot: str) -> Sequence[CostSum]:
        """What the next `refund_overhead` of this boot returns."""
        return await self._database.read(
            lambda connection: cost_queries.charged_overhead(connection, instance_id, boot)
        )

    async def refund_overhead(self, instance_id: str, boot: str, source: str) -> Sequence[CostSum]:
        """Let all overhead of one boot of an instance cost nothing; `source` is the new source of
        its price.

        `boot` is the `overhead_key` of that boot without a lease. Returns the sums of the lines
        that had cost something, or of which that was unknown, by `WHOSE`; repeated, there are
        none.
        """

        def write(connection: Connection) -> Sequence[CostSum]:
            column = tables.segment_table.c
            connection.execute(
                update(tables.segment_table)
                .where(column.lease_id.is_(None), column.instance_id == instance_id)
                .where(cost_queries.is_of_boot(column.overhead_key, boot))
                .values(usd_per_hour=0.0, source=source)
            )
            return cost_queries.refund_overhead_costs(connection, instance_id, boot)

        return await self._database.write(write)

    async def add_storage(
        self, counted: Counted, prices: storage_costs.Prices
    ) -> Sequence[CostSum]:
        """Add what homes and their snapshots held to the ledger; repeated, it changes nothing.

        Returns what homes have cost on the days that may have changed, by day, user and payer.
        Raises `StoreError` if the period does not follow the last one.
        """
        return await self._database.write(
            lambda connection: storage_costs.add(connection, counted, prices)
        )

    async def overhead(self, since: datetime) -> tuple[Segment, ...]:
        """Segments of no lease that ended after `since` or have not ended, oldest first."""
        return await self._database.read(lambda connection: queries.overhead(connection, since))

    async def running_overhead(self) -> Mapping[OverheadKey, Sequence[Segment]]:
        """Segments of no lease, in their order, by instance and key, where the last one had not
        ended when it was stored."""
        return await self._database.read(cost_queries.running_overhead)

    async def overhead_segments(self, instance_id: str, key: str) -> tuple[Segment, ...]:
        """The segments that the next `save_overhead` with this key replaces, in their order."""
        return await self._database.read(
            lambda connection: cost_queries.overhead_segments(connection, instance_id, key)
        )

    async def leased_since(self, instance_id: str) -> datetime | None:
        """Return when the first lease of an instance began to pay for it; None without any."""
        return await self._database.read(
            lambda connection: cost_queries.leased_since(connection, instance_id)
        )

    async def costs(
        self,
        since: date,
        until: date,
        by: Sequence[Dimension],
        only: Filter | None = None,
        without: Collection[str] = (),
        without_overhead: Collection[OverheadKey] = (),
    ) -> Sequence[CostSum]:
        """What leases that have ended and overhead have cost from `since` to `until`, both days
        included, by these dimensions; see `cost_queries.costs`."""
        chosen = since, until, by, only, without, without_overhead
        return await self._database.read(lambda connection: cost_queries.costs(connection, *chosen))

    async def paid_segments(self, instance_id: str, key: str = "") -> tuple[Segment, ...]:
        """The newest segments of an instance that belong to leases, and that of its overhead with
        this key; the last written first."""
        return await self._database.read(
            lambda connection: queries.paid_segments(connection, instance_id, key)
        )

    async def idle_sessions(
        self, since: datetime, until: datetime
    ) -> tuple[int, Sequence[Session]]:
        """How many sessions ended from `since` on, before `until`, and those with idle time."""
        return await self._database.read(
            lambda connection: idle_queries.idle_sessions(connection, since, until)
        )
