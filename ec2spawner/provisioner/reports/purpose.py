"""What the time of an instance is for at this moment, in the ledger's words."""

from __future__ import annotations

from ...core.ledger.cost_rows import Purpose
from ..model.leases.lease import Lease, LeaseState
from ..state.state import State


def purpose_now(state: State, lease: Lease | None) -> Purpose:
    """Of the instance that the lease holds; of an instance without a lease with None."""
    if lease is None or lease.state is not LeaseState.READY:
        return Purpose.OVERHEAD
    is_idle = state.leases.contact(lease.lease_id).idle_since is not None
    return Purpose.IDLE if is_idle else Purpose.USED
