"""What instances cost without a lease: the hub's overhead, stored by the write-behind queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ...core.instances.retention_rules import Kept
from ...core.ledger.cost_rows import Cause
from ...core.ledger.instance_end import FREE, InstanceEnd, close_at_end
from ...core.ledger.lease_costs import overhead_costs
from ...core.ledger.segments import Segment, overhead_key
from ..model.cloud import Instance
from ..model.instance_end import instance_end
from ..offers.prices import PriceCache
from ..state.state import State
from ..store.store import Store


@dataclass(slots=True)
class Overhead:
    """Each time is counted once: its key depends on no clock, so recording it again is harmless."""

    state: State
    store: Store
    prices: PriceCache

    async def before_lease(
        self, instance: Instance, start: datetime, end: datetime, kept: Kept | None
    ) -> None:
        """The time that it waited for a lease."""
        segment = self._segment(instance, start, end)
        key = overhead_key(instance.launched_at, kept.lease_id if kept else "")
        await self.save(segment, key, Cause.RETENTION if kept else Cause.UNASSIGNED)

    async def of_retained(self, kept: Kept, instance: Instance, start: datetime) -> None:
        """Of a retained instance that ran without a lease since `start`, up to now."""
        segment = self._segment(instance, start, self.state.clock.now())
        key = overhead_key(instance.launched_at, kept.lease_id)
        await self.save(segment, key, Cause.RETENTION)

    async def of_unlisted(self, kept: Kept, start: datetime, end: datetime) -> None:
        """Of a retained instance that EC2 no longer lists: it ran without a lease from `start` to
        `end`, at the price that was stored last. Raises `StoreError`."""
        last = await self.store.last_segment(kept.instance_id)
        if last is not None and end > start:
            # EC2 does not say any more when a stopped one was started: the hub's request names it.
            launched_at = kept.launched_at if kept.then == "linger" else start
            segment = replace(last, start=start, end=end)
            await self.save(segment, overhead_key(launched_at, kept.lease_id), Cause.RETENTION)

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

        async def save() -> None:
            # Leases of an earlier process are not in memory.
            last = remembered or await self.store.last_served(instance.instance_id)
            follows, start = last or ("", instance.launched_at)
            segment = self._segment(instance, start, until)
            cause = Cause.TERMINATION if follows else Cause.UNASSIGNED
            await self._store_now(segment, overhead_key(instance.launched_at, follows), cause)

        about = f"overhead of {instance.instance_id}, without a lease at its end"
        await self.store.write_behind.now_or_later(about, save)

    async def refund(self, end: InstanceEnd) -> None:
        """Take back what was stored of an instance for which EC2 charges nothing."""

        async def store() -> None:
            key = overhead_key(end.launched_at, "")
            refunded = await self.store.refund_overhead(end.instance_id, key, FREE)
            self.state.spending.refund_overhead(refunded)

        await self.store.write_behind.now_or_later(f"refund of {end.instance_id}", store)

    async def save(self, segment: Segment, key: str, cause: Cause) -> None:
        """Store time of no lease, with a later pass if that fails: it is paid for already."""
        about = f"overhead of {segment.instance_id} since {key}"
        await self.store.write_behind.now_or_later(
            about, lambda: self._store_now(segment, key, cause)
        )

    def _segment(self, instance: Instance, start: datetime, end: datetime) -> Segment:
        """Its time, ended when EC2 ended it, or at `end`."""
        running = self.prices.segment(instance, start)
        [segment] = close_at_end([running], max(end, start), instance_end(instance))
        return segment

    async def _store_now(self, segment: Segment, key: str, cause: Cause) -> None:
        time_zone = self.state.settings.time_zone
        costs = overhead_costs(segment, cause, self.state.clock.now(), time_zone)
        replaced = await self.store.save_overhead(segment, key, costs)
        self.state.spending.count_overhead(costs, replaced)
