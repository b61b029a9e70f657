"""What a lease pays per hour follows the prices of its instance, disks and address."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...core.ledger.segments import reprice
from ..model.leases.lease import LeaseState
from ..offers.prices import PriceCache
from ..runtime.cooperative_iteration import cooperatively
from ..state.state import State


@dataclass(slots=True)
class Repricing:
    """Begins a new segment of a lease when a price of its instance has changed."""

    state: State
    prices: PriceCache

    async def reconcile(self, now: datetime) -> None:
        """Raises `StoreError`."""
        leases = self.state.leases
        running = list(leases.open(LeaseState.STARTING, LeaseState.READY))
        async for lease in cooperatively(running):
            instance = self.state.instances.instance_of(lease)
            if instance is None or leases.get(lease.lease_id) is not lease:
                continue
            prices = past = self.prices.segment(instance, now)
            for segment in lease.segments:
                if segment.usd_per_hour is None and segment.instance_id == lease.instance_id:
                    past = self.prices.segment(instance, segment.start)
                    break
            segments = reprice(lease.segments, now, prices, past)
            if segments != lease.segments:
                await leases.change(lease.lease_id, segments=segments)
                leases.notify_agent(lease.lease_id)
