"""What servers have cost since their users started them, over all instances that they moved to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from ....core.ledger.cost import known_usd, saved_usd, usd
from ....core.ledger.cost_rows import Purpose
from ....core.ledger.session_cost import NOTHING, OnDemand, SessionCost
from ...model.leases.costs import cost_by_purpose
from ...model.leases.lease import OPEN, Lease, LeaseState
from ...model.leases.workers_cost import nano_usd
from ..lease_registry import LeaseRegistry

ANY_ZONE: Final = UTC
"""Amounts by purpose are the same whichever zone their days are of."""


def earlier_cost(leases: LeaseRegistry, lease: Lease, now: datetime) -> SessionCost:
    """What of it the server cost before it continued under this lease.

    The cost of the lease that this one continues changes until its own instance has ended: EC2 may
    not charge it. What was before that is carried along.
    """
    if not lease.taken_over.is_handed_over:
        return NOTHING
    previous = leases.remembered(lease.continues)
    before = lease.taken_over.earlier
    if previous is None or lease.taken_over.is_settled:
        return before
    workers, unknown = nano_usd(previous.cluster, leases.workers_of(previous.lease_id), now)
    own = lease_cost(previous, now)
    return before + replace(own, workers_nano_usd=workers, workers_unknown=unknown)


def settle(leases: LeaseRegistry, ended: Lease, now: datetime) -> None:
    """Carry the cost of an ended lease along in the one that continues it: it will be forgotten."""
    later = leases.successor(ended.lease_id)
    if later is None or later.state not in OPEN or not later.taken_over.is_handed_over:
        return
    earlier = earlier_cost(leases, later, now)
    over = replace(later.taken_over, earlier=earlier, is_settled=True)
    leases.remember(later.lease_id, taken_over=over)


def settle_all(leases: LeaseRegistry, now: datetime) -> None:
    """Settle all leases that ended before this process began, which are only the last ones of their
    servers to it."""
    for lease in list(leases.open()):
        previous = leases.remembered(lease.continues)
        if previous is not None and previous.state is LeaseState.ENDED:
            settle(leases, previous, now)


def lease_cost(lease: Lease, now: datetime, on_demand: OnDemand | None = None) -> SessionCost:
    """The cost of one lease without its workers; `on_demand` by default as the ledger has recorded
    it."""
    segments, split = lease.segments, cost_by_purpose(lease, now, ANY_ZONE)
    listed = {each.instance_type: each.on_demand_usd_per_hour for each in segments}
    return SessionCost(
        since=segments[0].start if segments else lease.requested_at,
        usd=usd(segments, now),
        known_usd=known_usd(segments, now),
        used_usd=split[Purpose.USED],
        idle_usd=split[Purpose.IDLE],
        saved_usd=saved_usd(segments, now, on_demand or listed.get),
    )
