"""Offers that EC2 reclaims from one server: its next instance is bought elsewhere.

For this server alone. Its agent reports the notice, and an instance is its user's: what it says
must not make an offer unavailable for others.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from ...core.instances.termination_cause import is_spot_interruption
from ...core.offers.launch_errors import ErrorClass
from ...core.offers.purchase import OfferKey
from ...core.offers.sold_out import MARKED_FOR, Mark
from ...wire import Market
from ..model.leases.lease import Lease
from ..state.state import State

NO_CAPACITY: Final = "InsufficientInstanceCapacity"
"""EC2's code where it has no room."""


class Avoided(NamedTuple):
    """An offer that one server does not buy."""

    key: OfferKey
    mark: Mark


def avoided_by(state: State, lease: Lease, now: datetime) -> Avoided | None:
    """The offer that EC2 reclaims from the server of a waiting lease; None for most."""
    if not lease.continues or lease.taken_over.trigger != "interruption":
        return None
    previous = state.leases.remembered(lease.continues)
    if previous is None or not previous.segments:
        return None
    since, last = lease.requested_at, previous.segments[-1]
    if last.market is not Market.SPOT:
        return None  # its Capacity Block has ended: that says nothing of other capacity
    until = since + MARKED_FOR[ErrorClass.OFFER]
    mark = Mark(ErrorClass.OFFER, NO_CAPACITY, since, until)
    key = OfferKey(last.market, last.instance_type, last.zone)
    return Avoided(key, mark) if mark.holds(now) else None


def is_confirmed_by_aws(state: State, lease: Lease) -> bool:
    """Whether EC2 or EventBridge says that the instance of a lease is reclaimed, not its agent
    alone."""
    instance = state.instances.instance_of(lease)
    if instance is not None and is_spot_interruption(instance.state_reason):
        return True
    if state.leases.get(lease.lease_id) is None:
        return False  # it ended minutes ago, and nothing else is known of it
    return state.leases.contact(lease.lease_id).notices.announced is not None
