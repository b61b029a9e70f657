"""Interruptions on purpose: what they cost, to whom, and that EC2 did not need the capacity."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ...core.ledger.lease_costs import HUBS
from ...core.ledger.rehearsals import usd_of
from ...core.limits.admission import nano, refusal_by
from ...core.limits.bounds import Kind
from ..instances.overhead import Overhead
from ..limits.accounts import Accounts
from ..limits.admission import LimitReached
from ..model.leases.costs import account_of, scopes_of_cost
from ..model.leases.lease import Lease
from ..offers.market import MarketData
from ..state.state import State
from ..store.store import StoreError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rehearsals:
    """Charges each one before AWS is asked for it. The instance is charged like one that its user
    ends: EC2's free first hour is for what EC2 reclaims."""

    state: State
    market: MarketData
    overhead: Overhead

    def is_rehearsed(self, lease: Lease) -> bool:
        """Whether the instance of a lease was interrupted on purpose, or is being so."""
        return lease.instance_id in self.state.interruptions.rehearsed

    def usd(self, lease: Lease, minutes: int) -> float:
        """What an experiment of so many minutes costs."""
        return usd_of(minutes, lease.segments[-1].zone)

    def check(self, lease: Lease, minutes: int, *, by_owner: bool) -> None:
        """Raise `LimitReached` where nothing is left for it. The owner's counts as the server does,
        an admin's against the hub."""
        account = account_of(lease) if by_owner else HUBS
        needed = nano(self.usd(lease, minutes))
        accounts = Accounts(self.state, self.market)
        for each in accounts.of(scopes_of_cost(account.user, account.payer)):
            for standing in each.standings:
                left = max(standing.left - each.reserved, 0)
                if standing.kind is not Kind.GPU_HOURS and left < needed:
                    refusal = refusal_by(standing, left, needed)
                    displayed = self.state.accounts.displayed_scope(refusal)
                    raise LimitReached(refusal, each.bounds, displayed)

    async def charge(self, lease: Lease, minutes: int, *, by_owner: bool) -> None:
        """Charge it, and remember the instance; returns once that is stored. Raises `LimitReached`
        and `StoreError`: AWS is not to be asked then."""
        self.check(lease, minutes, by_owner=by_owner)
        segment = lease.segments[-1]
        self.state.interruptions.rehearsed.add(segment.instance_id)
        account = account_of(lease) if by_owner else HUBS
        try:
            await self.overhead.of_rehearsal(segment, minutes, account)
        except StoreError:
            await self.take_back(lease)
            raise

    async def take_back(self, lease: Lease) -> None:
        """It costs nothing, and may be asked for again: AWS has refused it, or was not asked."""
        segment = lease.segments[-1]
        self.state.interruptions.rehearsed.discard(segment.instance_id)
        try:
            await self.overhead.of_rehearsal(segment, 0, HUBS)
        except StoreError as error:
            log.warning("That %s is not interrupted is not stored yet: %s", lease.lease_id, error)
