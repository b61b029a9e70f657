"""The ledger's lines of a lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache

from ....core.instances.retention_rules import Kept
from ....core.ledger import lease_costs
from ....core.ledger.amount import Amount, amount_of
from ....core.ledger.cost_rows import HUB, CostRow, Purpose, user_payer
from ....core.ledger.gpu_use import with_gpu_use
from ....core.ledger.lease_costs import HUBS, Account, Course
from .lease import Lease, LeaseState


def payer_of(lease: Lease) -> str:
    """To whom it is charged: its user, unless another payer was chosen."""
    return lease.payer or user_payer(lease.user)


def scopes_of(lease: Lease) -> Sequence[str]:
    """Whose spending the lease is: its user's, its payer's, and the hub's."""
    return scopes_of_cost(lease.user, payer_of(lease))


def account_of(lease: Lease) -> Account:
    """To whom and for what it is charged."""
    return Account(lease.user, lease.server, payer_of(lease), lease.profile)


def account_of_kept(kept: Kept) -> Account:
    """To whom the time of an instance without a lease is charged: to the lease that it outlives,
    whose user may be root there and leave work running. The hub's is what has served nobody."""
    if kept.is_of_pool or kept.is_ahead:
        return HUBS
    return Account(kept.user, kept.server, kept.payer or user_payer(kept.user), kept.profile)


def scopes_of_kept(kept: Kept) -> Sequence[str]:
    """Whose spending that time is."""
    account = account_of_kept(kept)
    return scopes_of_cost(account.user, account.payer)


@lru_cache(8192)
def scopes_of_cost(user: str, payer: str) -> tuple[str, ...]:
    """Whose spending a cost of this user and payer is; the user is empty for what nobody has
    caused."""
    of_user = (user_payer(user),) if user else ()
    of_payer = () if payer in {HUB, user_payer(user)} else (payer,)
    return (*of_user, *of_payer, HUB)


def costs_of(lease: Lease, now: datetime, time_zone: tzinfo) -> tuple[CostRow, ...]:
    """Its lines at `now`, by calendar day of the time zone."""
    course = Course(
        ready_at=lease.ready_at,
        stop_requested_at=lease.stop_requested_at,
        has_ended=lease.state is LeaseState.ENDED,
        idle_spans=lease.idle_spans,
    )
    lines = lease_costs.lease_costs(lease.segments, course, account_of(lease), now, time_zone)
    return with_gpu_use(lines, lease.gpu_use)


def cost_by_purpose(
    lease: Lease, now: datetime, time_zone: tzinfo
) -> Mapping[Purpose, float | None]:
    """What of its cost at `now` was for each purpose, in USD; None where a price is unknown."""
    amounts = dict.fromkeys(Purpose, Amount())
    for row in costs_of(lease, now, time_zone):
        amounts[row.purpose] += amount_of(row)
    return {purpose: amount.usd for purpose, amount in amounts.items()}
