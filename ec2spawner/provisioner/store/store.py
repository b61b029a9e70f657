"""The provisioner's store: a database of its own, never the hub's.

All work runs in one thread, so that nothing blocks the event loop and writes happen in the order of
the calls. Each write is one transaction: after a crash it is complete or absent.

A cancelled or timed-out await does not stop its write, which happens in its turn, and before
`close`. A caller that must know shields it (`asyncio.shield`) and waits. Each write may be
repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta

from sqlalchemy import Connection, delete, insert, select, update

from ...core.instances.retention_rules import Kept
from ...core.ledger.cost_rows import CostRow, Filter
from ...wire import Step
from ..model.leases.denied_start import DeniedStart
from ..model.leases.lease import Binding, Home, Intent, Lease, Snapshot
from ..model.leases.past_start import PastStart
from ..model.pool_override import SetByHand
from ..model.sleeping_session import SleepingSession
from ..model.user_account import UserAccount
from . import (
    denied_starts,
    pool_overrides,
    queries,
    rows,
    sleeping_sessions,
    start_phases,
    tables,
    user_accounts,
)
from .alarms import AlarmStore
from .cost_backfill import complete_ledger
from .databases.backends import DEFAULT_URL, open_database
from .databases.database import StoreAwayError, StoreError, StoreHeldError
from .databases.database_thread import DatabaseThread
from .ledger import cost_queries, idle_queries
from .ledger_store import LedgerStore
from .migrations import upgrade
from .runs import RunStore
from .statements import replace_of_lease, upsert
from .write_behind import WriteBehindQueue

__all__ = ["KeyAlreadyBound", "Store", "StoreAwayError", "StoreError", "StoreHeldError"]

log = logging.getLogger(__name__)


class KeyAlreadyBound(Exception):
    """The instance is bound to another key: the claim does not come from its agent."""

    def __init__(self, instance_id: str) -> None:
        super().__init__(f"instance {instance_id} is bound to another key")
        self.instance_id = instance_id


class Store:
    """The provisioner's memory. Make one with `Store.open`; all methods may raise `StoreError`."""

    store_id: str
    """Random, made once with the schema; in the tags of all that this store launched."""

    write_behind: WriteBehindQueue
    """Writes that are not stored yet."""

    ledger: LedgerStore
    alarms: AlarmStore
    runs: RunStore

    def __init__(self, url: str, since: datetime) -> None:
        self.write_behind = WriteBehindQueue()
        self._database = open_database(url)
        self._thread = DatabaseThread(self._database)
        self.ledger = LedgerStore(self._thread)
        self.alarms = AlarmStore(self._thread)
        self.runs = RunStore(self._thread)
        self._since = since

    @classmethod
    async def open(
        cls,
        url: str = DEFAULT_URL,
        *,
        recent: timedelta = timedelta(hours=1),
        now: datetime,
        agents_at: str = "",
        moved_from: str = "",
    ) -> Store:
        """Open the store at `url`, make or upgrade its schema, and lock it against a second hub.

        `load` returns answered intents that were created within `recent` before `now`. `agents_at`
        is the host and port at which agents reach this hub: a store of a hub with another address
        is refused as a copy, unless that address is `moved_from`; empty skips this check.
        Raises `StoreHeldError` while another process holds it, `StoreAwayError` while its server
        does not answer, and `StoreError` when the URL is wrong, the database cannot be used, or
        its schema is newer than this code.
        """
        store = cls(url, now - recent)
        try:
            await store._thread.run(lambda: store._open(agents_at, moved_from))
            store._thread.logs_failures = True
        except BaseException:
            await asyncio.shield(store.close())
            raise
        return store

    async def hold(self) -> None:
        """Return if this process still holds the store, and may act on it.

        Raises `StoreError` if another hub has taken it over, or may have. A file is held for as
        long as the process lives, even if it cannot be written.
        """
        await self._thread.run(self._database.hold, writes=False)

    async def load(
        self, costs_since: date = date.max, older_costs: Filter | None = queries.NO_COSTS
    ) -> Snapshot:
        """All that still matters, see `Snapshot`; with the costs from a day on, and those of
        earlier days that the filter `older_costs` allows."""
        return await self._thread.read(
            lambda connection: queries.snapshot(connection, self._since, costs_since, older_costs)
        )

    async def save_lease(
        self, lease: Lease, costs: Sequence[CostRow] = (), given_up: Sequence[Kept] = ()
    ) -> None:
        """Insert or replace the lease with its events and segments; `costs` once it has ended, the
        phases of its start once that is over.

        `given_up` are retained instances that its start gives up: without the lease none is.
        """

        def write(connection: Connection) -> None:
            upsert(connection, tables.lease_table, rows.lease_row(lease))
            replace_of_lease(connection, tables.event_table, lease.lease_id, rows.event_rows(lease))
            replace_of_lease(
                connection,
                tables.segment_table,
                lease.lease_id,
                [rows.segment_row(segment, lease.lease_id) for segment in lease.segments],
            )
            if costs:
                cost_queries.replace_lease_costs(connection, lease.lease_id, costs)
                idle_queries.replace_idle_session(connection, lease, costs)
            start_phases.save(connection, lease)
            for kept in given_up:
                upsert(connection, tables.kept_table, rows.kept_row(kept))

        await self._thread.write(write)

    async def save_intent(self, intent: Intent) -> None:
        """Insert or replace: before the call as open, after it with its answer."""
        await self._thread.write(
            lambda connection: upsert(connection, tables.intent_table, rows.intent_row(intent))
        )

    async def intents(self, client_tokens: Collection[str]) -> tuple[Intent, ...]:
        """The launch calls with these tokens, of any age; unknown tokens are no error."""
        return await self._thread.read(
            lambda connection: queries.intents(connection, client_tokens)
        )

    async def save_binding(self, binding: Binding) -> None:
        """Bind the instance to the key, for good: the first one wins.

        The same key again is no error. Raises `KeyAlreadyBound` for another.
        """

        def write(connection: Connection) -> None:
            column = tables.binding_table.c
            bound: str | None = connection.scalar(
                select(column.key_sha256).where(column.instance_id == binding.instance_id)
            )
            if bound is None:
                connection.execute(insert(tables.binding_table), [rows.binding_row(binding)])
            elif bound != binding.key_sha256:
                raise KeyAlreadyBound(binding.instance_id)

        await self._thread.write(write)

    async def rebind(self, binding: Binding) -> None:
        """Bind the instance to the key of a new boot, in the place of an earlier boot's."""
        await self._thread.write(
            lambda connection: upsert(connection, tables.binding_table, rows.binding_row(binding))
        )

    async def save_kept(self, kept: Kept) -> None:
        """Insert or replace."""
        await self._thread.write(
            lambda connection: upsert(connection, tables.kept_table, rows.kept_row(kept))
        )

    async def forget_kept(self, instance_id: str) -> None:
        """The instance has a lease again, or is gone; one that is not retained is no error."""
        column = tables.kept_table.c.instance_id
        await self._thread.write(
            lambda connection: connection.execute(
                delete(tables.kept_table).where(column == instance_id)
            )
        )

    async def save_home(self, home: Home) -> None:
        """Insert or replace. A volume belongs to one home: a second one is a `StoreError`."""
        await self._thread.write(
            lambda connection: upsert(connection, tables.home_table, rows.home_row(home))
        )

    async def delete_home(self, home_id: str) -> None:
        """Delete the record of a home; one that is not there is no error."""

        def write(connection: Connection) -> None:
            column = tables.home_table.c
            connection.execute(delete(tables.home_table).where(column.home_id == home_id))

        await self._thread.write(write)

    async def last_served(self, instance_id: str) -> tuple[str, datetime] | None:
        """Id and end of the instance's last lease that has ended; None where it served none."""
        return await self._thread.read(
            lambda connection: queries.last_served(connection, instance_id)
        )

    async def past_leases(self, user: str, before: datetime, limit: int) -> tuple[Lease, ...]:
        """The user's last `limit` leases that ended earlier than `before`, the newest first."""
        return await self._thread.read(
            lambda connection: queries.past_leases(connection, user, before, limit)
        )

    async def start_durations(self, profile: str, limit: int = 30) -> Mapping[Step, float]:
        """Median seconds of each step over the profile's last `limit` starts that got ready.

        Starts that lost an instance are excluded: their durations are not typical.
        """
        return await self._thread.read(
            lambda connection: queries.start_durations(connection, profile, limit)
        )

    async def save_denied_starts(self, found: Sequence[DeniedStart]) -> None:
        """Store these refused starts in the place of all earlier ones."""
        await self._thread.write(lambda connection: denied_starts.replace_all(connection, found))

    async def save_sleeping_session(self, session: SleepingSession) -> None:
        """Insert or replace what sleeps of its server."""
        await self._thread.write(lambda connection: sleeping_sessions.save(connection, session))

    async def forget_sleeping_session(self, user: str, server: str) -> None:
        """Delete the record; one that is not there is no error."""
        await self._thread.write(
            lambda connection: sleeping_sessions.forget(connection, user, server)
        )

    async def stored_lease(self, lease_id: str) -> Lease | None:
        """A lease in any state; None for an id that was never stored."""
        return await self._thread.read(lambda connection: queries.one_lease(connection, lease_id))

    async def save_user_accounts(self, accounts: Sequence[UserAccount]) -> None:
        """Insert or replace."""
        await self._thread.write(lambda connection: user_accounts.save(connection, accounts))

    async def user_accounts(self) -> tuple[UserAccount, ...]:
        """All of this store."""
        return await self._thread.read(user_accounts.load)

    # --- the warm pool ---

    async def save_pool_override(self, found: SetByHand) -> None:
        """Insert it, or replace the one of its profile and market; those that had ended by then
        are deleted."""
        await self._thread.write(lambda connection: pool_overrides.save(connection, found))

    async def forget_pool_overrides(self, profile: str) -> None:
        """Of all markets; none is no error."""
        await self._thread.write(lambda connection: pool_overrides.forget(connection, profile))

    async def starts_since(
        self, profiles: Collection[str], since: datetime
    ) -> Mapping[str, Sequence[PastStart]]:
        """By profile, the starts that got ready since then, in the order of their requests."""
        return await self._thread.read(
            lambda connection: pool_overrides.starts_since(connection, profiles, since)
        )

    async def first_start(self) -> datetime | None:
        """When the first server of this store was ready; None for none."""
        return await self._thread.read(pool_overrides.first_start)

    async def close(self) -> None:
        """Finish all work, and release the database. A second call does nothing."""
        await self._thread.close()

    # --- in the thread ---

    def _open(self, agents_at: str, moved_from: str) -> None:
        self._database.open()
        column = tables.store_table.c

        def take_over(connection: Connection) -> int:
            revision = upgrade(connection)
            if revision is not None:
                complete_ledger(connection, int(revision))
            self.store_id, epoch, before = connection.execute(
                select(column.store_id, column.epoch, column.agents_at)
            ).one()
            if before and agents_at and before not in {agents_at, moved_from}:
                raise StoreError(_copied(self._database.name, before, agents_at))
            taken = {"epoch": epoch + 1, "agents_at": agents_at or before}
            connection.execute(update(tables.store_table).values(taken))
            return int(epoch) + 1

        self._database.taken_over(self._database.transaction(take_over, writes=True))


def _copied(name: str, before: str, now: str) -> str:
    return (
        f"{name} is of a hub at {before}, where the agents of its servers look for it, and this "
        f"hub is at {now}. Is it a copy? Then give this hub an empty store: both would act on the "
        "same instances. Has the hub moved for good? Then say so: "
        f'c.EC2Spawner.hub_moved_from = "{before}"'
    )
