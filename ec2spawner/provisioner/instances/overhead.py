"""What instances cost without a lease: overhead, stored by the write-behind queue.

What an instance runs that is kept after a stop is charged to its user, and so is what was bought
for a start that its user cancelled; all else is the hub's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ...core.instances.retention_rules import Kept
from ...core.ledger.cost_rows import Cause, CostRow, CostSum, Resource
from ...core.ledger.instance_end import FREE, InstanceEnd, close_at_end
from ...core.ledger.lease_costs import HUBS, Account, overhead_costs
from ...core.ledger.rehearsals import KEY, rehearsal_costs
from ...core.ledger.segments import OverheadKey, Segment, overhead_key, with_known_prices
from ...core.ledger.unused_places import UnusedPeriod
from ..model.cloud.instance import GONE, Instance
from ..model.leases.costs import account_of_kept
from ..offers.prices import PriceCache
from ..state.state import State
from ..store.store import Store


@dataclass(slots=True)
class Overhead:
    """Each time is counted once: its key depends on no clock, so recording it again is harmless.

    Recorded again, it is no cheaper for what is not known any more: prices that were known stay.
    """

    state: State
    store: Store
    prices: PriceCache

    async def before_lease(
        self, instance: Instance, start: datetime, end: datetime, kept: Kept | None
    ) -> None:
        """The time that it waited for a lease."""
        segment = _beside_disks(self._segment(instance, start, end), kept)
        key = overhead_key(instance.launched_at, kept.lease_id if kept else "")
        cause = _cause_of(kept) if kept else self._cause(instance)
        account = account_of_kept(kept) if kept else self._account(instance, cause)
        await self.save(segment, key, cause, account)

    async def of_place(self, instance: Instance) -> None:
        """Of an instance that has waited in the pool since its launch, up to now."""
        segment = self._segment(instance, instance.launched_at, self.state.clock.now())
        await self.save(segment, overhead_key(instance.launched_at, ""), Cause.POOL)

    def _cause(self, instance: Instance) -> Cause:
        """Of the time before its first lease. Decided when it is counted: one that another start
        had no use for, and that has filled a place of the pool since, was the pool's."""
        return Cause.POOL if self.state.pool.is_of_pool(instance) else Cause.UNASSIGNED

    def _account(self, instance: Instance, cause: Cause) -> Account:
        """Who pays for the time before its first lease: whoever began the start that it was for."""
        is_unassigned = cause is Cause.UNASSIGNED
        return self.state.abandoned_starts.account_of(instance) if is_unassigned else HUBS

    async def of_retained(self, kept: Kept, instance: Instance, start: datetime) -> None:
        """Of a retained instance that ran without a lease since `start`, up to now."""
        segment = _beside_disks(self._segment(instance, start, self.state.clock.now()), kept)
        key = overhead_key(instance.launched_at, kept.lease_id)
        await self.save(segment, key, _cause_of(kept), account_of_kept(kept))

    async def of_unlisted(self, kept: Kept, start: datetime, end: datetime) -> None:
        """Of a retained instance that EC2 no longer lists: it ran without a lease from `start` to
        `end`, at the price that was stored last. Raises `StoreError`."""
        # EC2 does not say any more when a stopped one was started: the hub's request names it.
        launched_at = kept.launched_at if kept.then == "linger" else start
        key = overhead_key(launched_at, kept.lease_id)
        paid = await self.store.ledger.paid_segments(kept.instance_id, key)
        if paid and end > start:
            segment = _beside_disks(replace(paid[0], start=start, end=end), kept)
            await self.save(segment, key, _cause_of(kept), account_of_kept(kept))

    async def of_disks(
        self, kept: Kept, instance: Instance | None, until: datetime | None = None
    ) -> None:
        """Of an instance that is stopped, for its user or in the warm pool: its disks, which exist
        whether it runs or not, since it was kept and `until` then, by default now. `instance` is
        None for one that EC2 no longer lists; raises `StoreError` then.

        Stored again it is the same: the key names the lease after which it was kept.
        """
        now = until or self.state.clock.now()
        known_usd = kept.disk_usd_per_month
        if instance is None:
            paid = await self.store.ledger.paid_segments(kept.instance_id)
            if not paid:
                return
            segment = replace(paid[0], disk_usd_per_month=known_usd)
        else:
            ended_at = instance.ended_at if instance.state in GONE else None
            now = min(now, ended_at or now)
            segment = self.prices.segment(instance, kept.kept_at)
            if segment.disk_usd_per_month is None:
                segment = replace(segment, disk_usd_per_month=known_usd)
        segment = replace(segment, start=kept.kept_at, end=max(now, kept.kept_at))
        time_zone, resources = self.state.settings.time_zone, (Resource.DISK,)
        costs = overhead_costs(segment, _cause_of(kept), now, time_zone, resources)
        key = f"disks after {kept.lease_id}"
        about = f"{key} of {kept.instance_id}"

        async def store() -> None:
            await self._count_and_store(
                about,
                (kept.instance_id, key),
                costs,
                lambda: self.store.ledger.save_overhead_costs(kept.instance_id, key, costs),
            )

        await self.store.write_behind.now_or_later(about, store)

    async def of_unused_places(self, period: UnusedPeriod, until: datetime) -> None:
        """Of the places of a capacity reservation without an instance, up to `until`. Like disks,
        they have no segment: no time of an instance belongs to them."""
        segment, key = period.segment(until), period.key
        time_zone = self.state.settings.time_zone
        costs = overhead_costs(segment, Cause.RESERVATION, until, time_zone)
        about = f"places of {period.reservation_id} {key}"

        async def store() -> None:
            await self._count_and_store(
                about,
                (period.reservation_id, key),
                costs,
                lambda: self.store.ledger.save_overhead_costs(period.reservation_id, key, costs),
            )

        await self.store.write_behind.now_or_later(about, store)

    async def of_rehearsal(self, segment: Segment, minutes: int, account: Account) -> None:
        """Store what an interruption on purpose costs; 0 minutes for one that AWS refused.
        Raises `StoreError`; then each pass retries."""
        now, key = self.state.clock.now(), (segment.instance_id, KEY)
        costs = rehearsal_costs(segment, minutes, account, now, self.state.settings.time_zone)
        costs = costs if minutes else ()
        about = f"{KEY} of {segment.instance_id}"

        async def store() -> None:
            await self._count_and_store(
                about, key, costs, lambda: self.store.ledger.save_overhead_costs(*key, costs)
            )

        await self.store.write_behind.now(about, store)

    async def of_unleased(self, instances: Sequence[Instance]) -> None:
        """What they have cost since their last lease, or since their launch, up to now."""
        now = self.state.clock.now()
        for instance in instances:
            await self._of_unleased(instance, now)

    async def _of_unleased(self, instance: Instance, until: datetime) -> None:
        """If the store fails, a later pass repeats all of it, reading included: the next listing
        may not show the instance any more."""
        # One that just ended may not be stored yet.
        remembered = self.state.leases.last_served(instance.instance_id)
        about = f"overhead of {instance.instance_id}, without a lease at its end"

        async def save() -> None:
            # Leases of an earlier process are not in memory.
            last = remembered or await self.store.last_served(instance.instance_id)
            follows, start = last or ("", instance.launched_at)
            segment = self._segment(instance, start, until)
            cause = Cause.TERMINATION if follows else self._cause(instance)
            key = overhead_key(instance.launched_at, follows)
            await self._store_now(about, segment, key, cause, self._account(instance, cause))

        await self.store.write_behind.now_or_later(about, save)

    async def refund(self, end: InstanceEnd) -> None:
        """Take back what was stored of an instance for which EC2 charges nothing."""
        key = overhead_key(end.launched_at, "")
        charged: Sequence[CostSum] = ()

        async def store() -> None:
            nonlocal charged
            await self._flush(end.instance_id)
            # A refund that landed without an answer leaves nothing to refund for its repetition.
            charged = await self.store.ledger.charged_overhead(end.instance_id, key) or charged
            refunded = await self.store.ledger.refund_overhead(end.instance_id, key, FREE)
            self.state.spending.refund_overhead(refunded or charged)
            self.state.spending.pending_overhead.changed_in_store(end.instance_id)

        await self.store.write_behind.now_or_later(f"refund of {end.instance_id}", store)

    async def _flush(self, instance_id: str) -> None:
        """Be sure of what is stored of an instance. Raises `StoreError`."""
        for pending in self.state.spending.pending_overhead.all():
            if pending.key[0] == instance_id:
                await self.store.write_behind.flush(pending.subject)

    async def save(self, segment: Segment, key: str, cause: Cause, account: Account = HUBS) -> None:
        """Store time of no lease, with a later pass if that fails: it is paid for already."""
        about = f"overhead of {segment.instance_id} since {key}"
        await self.store.write_behind.now_or_later(
            about, lambda: self._store_now(about, segment, key, cause, account)
        )

    def _segment(self, instance: Instance, start: datetime, end: datetime) -> Segment:
        """Its time, ended when EC2 ended it, or at `end`."""
        address_usd = self.prices.shown_address_usd_per_hour(instance)
        running = replace(self.prices.segment(instance, start), address_usd_per_hour=address_usd)
        ended = self.state.instances.end_of(instance)
        [segment] = close_at_end([running], max(end, start), ended)
        return segment

    async def _store_now(
        self, about: str, segment: Segment, key: str, cause: Cause, account: Account = HUBS
    ) -> None:
        paid = await self.store.ledger.paid_segments(segment.instance_id, key)
        segment = with_known_prices(segment, paid)
        if segment.address_usd_per_hour is None:
            address_usd = self.prices.usual_address_usd_per_hour
            segment = replace(segment, address_usd_per_hour=address_usd)
        time_zone = self.state.settings.time_zone
        costs = overhead_costs(segment, cause, self.state.clock.now(), time_zone, account=account)
        await self._count_and_store(
            about,
            (segment.instance_id, key),
            costs,
            lambda: self.store.ledger.save_overhead(segment, key, costs),
        )

    async def _count_and_store(
        self,
        about: str,
        key: OverheadKey,
        costs: Sequence[CostRow],
        write: Callable[[], Awaitable[Sequence[CostSum]]],
    ) -> None:
        """Count lines from memory until `write` has stored them. Before the store says what they
        replace, they would count twice."""
        spending = self.state.spending
        stored = await self.store.ledger.overhead_costs(*key)
        pending = spending.pending_overhead.begin(about, key, costs, stored)
        replaced = await write()
        # In one step of the event loop: they are in one of both at any moment.
        spending.pending_overhead.end(pending)
        spending.count_overhead(costs, pending.counted_of(replaced))


def _cause_of(kept: Kept) -> Cause:
    return Cause.POOL if kept.is_of_pool or kept.is_ahead else Cause.RETENTION


def _beside_disks(segment: Segment, kept: Kept | None) -> Segment:
    """The segment without what `Overhead.of_disks` charges."""
    is_counted = kept is not None and kept.then == "stop"
    return replace(segment, disk_usd_per_month=0.0) if is_counted else segment
