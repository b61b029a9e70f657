"""What instances cost without a lease: overhead, stored by the write-behind queue.

What an instance runs that is kept after a stop is charged to its user, and so is what was bought
for a start that its user cancelled; all else is the hub's.

What was stored before the prices of its time were read is stored again once they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from ...core.instances.retention_rules import Kept
from ...core.ledger.cost_rows import Cause, CostRow, CostSum, Resource
from ...core.ledger.instance_end import FREE, InstanceEnd
from ...core.ledger.lease_costs import HUBS, Account, overhead_costs
from ...core.ledger.rehearsals import KEY, rehearsal_costs
from ...core.ledger.segments import (
    DISKS_OF_STOPPED,
    OverheadKey,
    Segment,
    overhead_key,
    with_known_prices,
)
from ...core.ledger.unused_places import UnusedPeriod
from ..model.cloud.instance import GONE, Instance
from ..model.leases.costs import account_of_kept
from ..offers.prices import PriceCache
from ..state.state import State
from ..store.store import Store
from .overhead_period import UNKNOWN, Period, Whose, beside_disks, segments_of
from .unpriced_overhead import UnpricedOverhead


@dataclass(slots=True)
class Overhead:
    """Each time is counted once: its key depends on no clock, so recording it again is harmless.

    Recorded again, it is no cheaper for what is not known any more: prices that were known stay.
    """

    state: State
    store: Store
    prices: PriceCache
    unpriced: UnpricedOverhead = field(init=False)
    _latest: dict[OverheadKey, Period] = field(default_factory=dict)
    """Periods that are to be stored under each key, until they are."""

    def __post_init__(self) -> None:
        self.unpriced = UnpricedOverhead(self.state, self.prices)

    async def before_lease(
        self, instance: Instance, start: datetime, end: datetime, kept: Kept | None
    ) -> None:
        """The time that it waited for a lease."""
        key = overhead_key(instance.launched_at, kept.lease_id if kept else "")
        segments = self._segments(instance, start, end, kept)
        whose = _whose_of(kept) if kept else self._whose(instance)
        await self.save(Period(key, segments, whose, instance, kept))

    async def of_place(self, instance: Instance, *, runs_on: bool) -> None:
        """Count an instance that has waited in the pool since its launch, up to now; whether it
        `runs_on` there."""
        segments = self._segments(instance, instance.launched_at, self.state.clock.now())
        key, whose = overhead_key(instance.launched_at, ""), (Cause.POOL, HUBS)
        await self.save(Period(key, segments, whose, instance, runs_on=runs_on))

    async def of_left_place(self, key: str, segments: Sequence[Segment], end: datetime) -> None:
        """Count one whose stored `segments` an earlier process has left without an end, up to its
        `end`."""
        whole = replace(segments[-1], start=segments[0].start, end=max(end, segments[0].start))
        await self.save(Period(key, self.prices.in_force([whole])))

    def _whose(self, instance: Instance) -> Whose:
        """Of the time before its first lease. Decided when it is counted: one that another start
        had no use for, and that has filled a place of the pool since, was the pool's. Else whoever
        began the start that it was for pays."""
        if self.state.pool.is_of_pool(instance):
            return Cause.POOL, HUBS
        return Cause.UNASSIGNED, self.state.abandoned_starts.account_of(instance)

    async def of_retained(self, kept: Kept, instance: Instance, start: datetime) -> None:
        """Of a retained instance that ran without a lease since `start`, up to now."""
        segments = self._segments(instance, start, self.state.clock.now(), kept)
        key = overhead_key(instance.launched_at, kept.lease_id)
        await self.save(Period(key, segments, _whose_of(kept), instance, kept))

    async def of_unlisted(self, kept: Kept, start: datetime, end: datetime) -> None:
        """Of a retained instance that EC2 no longer lists: it ran without a lease from `start` to
        `end`, where the history of prices does not say it at the price that was stored last. Raises
        `StoreError`."""
        # EC2 does not say any more when a stopped one was started: the hub's request names it.
        launched_at = kept.launched_at if kept.then == "linger" else start
        key = overhead_key(launched_at, kept.lease_id)
        paid = await self.store.ledger.paid_segments(kept.instance_id, key)
        if paid and end > start:
            segment = beside_disks(replace(paid[0], start=start, end=end), kept)
            segments = self.prices.in_force([segment])
            await self.save(Period(key, segments, _whose_of(kept), kept=kept))

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
        costs = overhead_costs([segment], _cause_of(kept), now, time_zone, resources)
        key = f"{DISKS_OF_STOPPED}{kept.lease_id}"
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
        costs = overhead_costs([segment], Cause.RESERVATION, until, time_zone)
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
        """Count what they have cost since their last lease or their launch, up to their end or to
        now."""
        now = self.state.clock.now()
        for instance in instances:
            await self._of_unleased(instance, now)

    async def _of_unleased(self, instance: Instance, until: datetime) -> None:
        """If the store fails, a later pass repeats all of it, reading included: the next listing
        may not show the instance any more. What is written has the subject of its key."""
        # One that just ended may not be stored yet.
        remembered = self.state.leases.last_served(instance.instance_id)
        about = f"account of {instance.instance_id}, without a lease at its end"
        has_ended, instance_id = instance.state in GONE, instance.instance_id

        async def save() -> None:
            ledger = self.store.ledger
            # Leases of an earlier process are not in memory.
            last = remembered or await self.store.last_served(instance_id)
            follows, start = last or ("", instance.launched_at)
            key = overhead_key(instance.launched_at, follows)
            stored = await ledger.whose_overhead(instance_id, key)
            if pending := self._latest.get((instance_id, key)):
                stored = pending.whose
            segments = self._segments(instance, max(start, instance.launched_at), until)
            if has_ended and follows and not stored and segments[-1].end == segments[0].start:
                return  # a lease has paid for all of it
            if has_ended and await ledger.has_disks_of_stopped(instance_id):
                return  # it may have been stopped at its end, and `Retention` has counted it
            after_lease = stored or (Cause.TERMINATION, HUBS)
            whose = after_lease if follows else self._whose(instance)
            listed = self.state.instances.listed.get(instance_id)
            if listed is not None and listed.state in GONE and not has_ended:
                return  # its end is stored, or will be
            is_all = has_ended and not follows
            await self.save(Period(key, segments, whose, instance, is_all=is_all))

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

    async def save(self, period: Period) -> None:
        """Store time of no lease, with a later pass if that fails: it is paid for already."""
        before = self._latest.get(period.names)
        if before is not None and period.whose == UNKNOWN:
            period = replace(period, whose=before.whose)
        self._latest[period.names] = period
        await self.store.write_behind.now_or_later(period.about, partial(self._store_now, period))

    def _segments(
        self, instance: Instance, start: datetime, end: datetime, kept: Kept | None = None
    ) -> tuple[Segment, ...]:
        return segments_of(self.state, self.prices, instance, start, end, kept)

    async def _store_now(self, period: Period) -> None:
        """Nothing is written where there is something newer for the key by then."""
        ledger = self.store.ledger
        stored = await ledger.overhead_segments(*period.names)
        paid = await ledger.paid_segments(*period.names)
        readings = self.prices.readings
        address_usd = self.prices.usual_address_usd_per_hour
        in_force = self.prices.in_force(period.segments, stored)
        known = [with_known_prices(paid[0], paid[1:])] if paid else []
        segments = [with_known_prices(each, known) for each in in_force]
        segments = [
            replace(each, address_usd_per_hour=address_usd)
            if each.address_usd_per_hour is None
            else each
            for each in segments
        ]
        whose = period.whose
        if whose == UNKNOWN:
            whose = await ledger.whose_overhead(*period.names) or whose
        if self._latest.get(period.names) is not period:
            return
        now, time_zone = self.state.clock.now(), self.state.settings.time_zone
        costs = overhead_costs(
            segments, whose[0], now, time_zone, account=whose[1], is_all=period.is_all
        )
        if period.runs_on:
            segments[-1] = replace(segments[-1], end=None)
        await self._count_and_store(
            period.about,
            period.names,
            costs,
            lambda: ledger.save_overhead(segments, period.key, costs),
        )
        if self._latest.get(period.names) is period:
            del self._latest[period.names]
            self.unpriced.note(replace(period, whose=whose), readings)

    async def price_again(self) -> None:
        """Store again what was stored before its prices were read, once they are."""
        async for period in self.unpriced.repriced():
            if period.names not in self._latest:  # else a newer write has these prices
                await self.save(period)

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


def _whose_of(kept: Kept) -> Whose:
    return _cause_of(kept), account_of_kept(kept)
