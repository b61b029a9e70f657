"""Stores how long leases have waited for their agents, for the next process of the hub."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ..instances.listing import AGENT_SILENCE
from ..model.leases.lease import Lease, LeaseState
from ..runtime.cooperative_iteration import cooperatively
from ..state.state import State
from ..state.waits import wait_limit

STORED_EVERY: Final = 30.0
"""Seconds of a wait that a restart of the hub may forget: each time is a write to the store. Longer
than a new hub with a thousand servers needs until it has answered all of them, and than most starts
last."""


AWAITED: Final = (LeaseState.STARTING, LeaseState.READY, LeaseState.ENDING)


@dataclass(slots=True)
class StoredWaits:
    """Stores for each lease whose agent is awaited how long that has lasted."""

    state: State

    async def reconcile(self, now: datetime) -> None:
        """Never raises: a pass that follows stores it."""
        open_ids = [x.lease_id for x in self.state.leases.open(*AWAITED)]
        async for lease_id in cooperatively(open_ids):
            lease = self.state.leases.get(lease_id)
            if lease is None:
                continue
            lasted = min(self._lasted(lease), wait_limit(lease, self.state.settings))
            if lasted - lease.waited >= STORED_EVERY:
                self.state.leases.remember(lease_id, waited=lasted)

    def _lasted(self, lease: Lease) -> float:
        """Seconds; 0 for a server whose agent this process has heard lately."""
        if lease.state is LeaseState.STARTING:
            return self.state.held_seconds(lease)
        if lease.state is LeaseState.ENDING:
            return self.state.stopping_seconds(lease)
        contact = self.state.leases.contact(lease.lease_id)
        silent = 0.0 if contact.heard_at is None else self.state.clock.uptime() - contact.heard_at
        return silent if silent > AGENT_SILENCE or not contact.heartbeats else 0.0
