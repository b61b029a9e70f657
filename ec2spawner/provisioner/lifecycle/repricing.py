"""What a lease pays per hour follows the price of its instance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...core.ledger.segments import reprice
from ..model.lease import LeaseState
from ..offers.prices import PriceCache
from ..state.state import State


@dataclass(slots=True)
class Repricing:
    """Begins a new segment of a lease when the price of its instance has changed."""

    state: State
    prices: PriceCache

    async def reconcile(self, now: datetime) -> None:
        """Raises `StoreError`."""
        leases = self.state.leases
        for lease in leases.open(LeaseState.STARTING, LeaseState.READY):
            instance = self.state.instances.instance_of(lease)
            if instance is None or leases.get(lease.lease_id) is not lease:
                continue
            price = self.prices.price_of(instance)
            if price is None:
                continue
            listed = self.prices.on_demand(instance.instance_type)
            on_demand = listed.usd_per_hour if listed else None
            segments = reprice(lease.segments, now, price.usd_per_hour, price.source, on_demand)
            if segments != lease.segments:
                await leases.change(lease.lease_id, segments=segments)
                leases.notify_agent(lease.lease_id)
