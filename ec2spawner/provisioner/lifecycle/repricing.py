"""What a lease pays per hour follows the prices of its instance, disks and address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import is_

from ...core.ledger.segments import Segment, reprice
from ...core.pricing.price_history import PricePoint
from ..model.cloud.instance import Instance
from ..model.leases.lease import Lease, LeaseState
from ..offers.prices import PriceCache
from ..runtime.cooperative_iteration import cooperatively
from ..state.state import State


@dataclass(slots=True)
class Repricing:
    """Begins a new segment of a lease where a price of its instance has changed.

    A spot price changes when EC2's history says so, which is read later: also of a lease that has
    ended meanwhile, until it is forgotten.
    """

    state: State
    prices: PriceCache
    _seen: dict[str, tuple[Sequence[Segment], Sequence[Sequence[PricePoint]]]] = field(
        default_factory=dict
    )
    """By lease id: the segments that have the prices of these histories, one for each place."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises. A crash may lose what it changes: EC2's history says it again."""
        leases = self.state.leases
        # Also of what no profile names any more, and of what no lease has.
        self.prices.want({each.instance_type for each in self.state.instances.listed.values()})
        self._seen = {x: seen for x, seen in self._seen.items() if leases.get(x) is not None}
        async for lease in cooperatively(leases.in_memory()):
            if leases.get(lease.lease_id) is not lease:
                continue
            segments = self._segments(lease, now)
            if segments != lease.segments:
                leases.remember(lease.lease_id, segments=segments)
                leases.notify_agent(lease.lease_id)

    def _segments(self, lease: Lease, now: datetime) -> tuple[Segment, ...]:
        instance = self.state.instances.instance_of(lease)
        if lease.state is LeaseState.ENDED:
            return self._in_force(lease.lease_id, lease.segments)
        if instance is None or lease.state not in {LeaseState.STARTING, LeaseState.READY}:
            return lease.segments
        return self._current(lease, instance, now)

    def _current(self, lease: Lease, instance: Instance, now: datetime) -> tuple[Segment, ...]:
        prices = past = self.prices.segment(instance, now)
        segments = self._in_force(lease.lease_id, lease.segments)
        for segment in segments:
            if segment.usd_per_hour is None and segment.instance_id == lease.instance_id:
                past = self.prices.segment(instance, segment.start)
                break
        return reprice(segments, now, prices, past)

    def _in_force(self, lease_id: str, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        """The segments themselves where neither they nor the histories of their places are others
        than in the last pass: most are so, and each pass asks for every lease. A lease whose
        instance was replaced has several places."""
        if not segments:
            return segments
        places = dict.fromkeys((each.instance_type, each.zone) for each in segments)
        points = [self.prices.history(*place) for place in places]
        known = self._seen.get(lease_id)
        if known is not None and known[0] is segments and all(map(is_, known[1], points)):
            return segments
        found = self.prices.in_force(segments)
        current = segments if found == segments else found
        self._seen[lease_id] = current, points
        return current
