"""The ledger's lines of a lease."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo

from ...core.ledger import lease_costs
from ...core.ledger.amount import Amount, amount_of
from ...core.ledger.cost_rows import CostRow, Purpose, user_payer
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


def cost_by_purpose(
    lease: Lease, now: datetime, time_zone: tzinfo
) -> Mapping[Purpose, float | None]:
    """What of its cost at `now` was for each purpose, in USD; None where a price is unknown."""
    amounts = dict.fromkeys(Purpose, Amount())
    for row in costs_of(lease, now, time_zone):
        amounts[row.purpose] += amount_of(row)
    return {purpose: amount.usd for purpose, amount in amounts.items()}
