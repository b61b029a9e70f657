"""The ledger's lines of a lease."""

from __future__ import annotations

from datetime import datetime, tzinfo

from ...core.ledger import lease_costs
from ...core.ledger.cost_rows import CostRow, user_payer
from ...core.ledger.lease_costs import Account, Course
from .lease import Lease, LeaseState


def payer_of(lease: Lease) -> str:
    """To whom it is charged: its user, unless another payer was chosen."""
    return lease.payer or user_payer(lease.user)


def costs_of(lease: Lease, now: datetime, time_zone: tzinfo) -> tuple[CostRow, ...]:
    """Its lines at `now`, by calendar day of the time zone."""
    course = Course(
        ready_at=lease.ready_at,
        stop_requested_at=lease.stop_requested_at,
        has_ended=lease.state is LeaseState.ENDED,
        idle_spans=lease.idle_spans,
    )
    account = Account(lease.user, lease.server, payer_of(lease), lease.profile)
    return lease_costs.lease_costs(lease.segments, course, account, now, time_zone)
