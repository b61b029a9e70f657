"""Refuses starts whose limit is used up before they have an instance."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ...core.limits.admission import OfferPrice, refusal_by, reservation
from ...core.limits.bounds import AtLimit, Kind
from ...core.limits.standing import Standing, standings
from ...core.limits.words import stop_words
from ...wire import Stop
from ..instances.inventory import have_instance
from ..model.leases.costs import scopes_of
from ..model.leases.lease import Lease, LeaseState
from ..offers.market import MarketData
from ..state.state import State
from .accounts import Accounts, reserved_seconds
from .refusals import record_refusal

log = logging.getLogger(__name__)

INTERVAL: Final = 5.0
"""Seconds between two checks: each reads what the scopes of all waiting starts have spent."""


@dataclass(slots=True)
class WaitingStarts:
    """Ends starts that still wait for an instance when nothing is left of a limit.

    Their first hour was affordable when they were admitted; since then running servers, or a
    limit that was lowered, have used it up. A start whose instance boots continues, and stops as
    any server does: the instance is paid for, and without its start would be of no use.
    A server that continues on another instance is a running one, see `_ends`.
    """

    state: State
    market: MarketData
    _checked_at: float = field(default=float("-inf"))
    """Uptime of the last check, in seconds."""

    async def reconcile(self, now: datetime) -> None:
        """Judge all scopes with waiting starts."""
        state, uptime = self.state, self.state.clock.uptime()
        if not state.settings.limits.bind or uptime - self._checked_at < INTERVAL:
            return
        if self.market.prices.first_readings.awaited():
            return
        self._checked_at = uptime
        waiting = list(state.leases.open(LeaseState.WAITING))
        used_up = await self._used_up({scope for lease in waiting for scope in scopes_of(lease)})
        if not used_up:
            return
        accounts, have = Accounts(state, self.market), have_instance(state)
        for lease in waiting:
            if lease.lease_id in have:
                continue
            scopes = [scope for scope in scopes_of(lease) if self._ends(lease, scope)]
            found = [x for scope in scopes for x in used_up.get(scope, ())]
            price = accounts.price_of(lease)
            due = [x for x in found if price.gpus or x.kind is not Kind.GPU_HOURS]
            if due and self._still_waits(lease):
                await self._refuse(lease, due[0], price)

    def _ends(self, lease: Lease, scope: str) -> bool:
        """Whether a limit of this scope ends a lease that waits.

        A server that EC2 interrupts begins nothing new: a limit that only warns lets it continue,
        and while it still runs on its old instance, `LimitStops` ends both. A move to other
        hardware is its user's wish, and does not begin.
        """
        if not lease.continues or lease.taken_over.trigger != "interruption":
            return True
        stops = self.state.settings.limits.of(scope).at_limit is AtLimit.STOP
        return stops and not self.state.continuations.must_wait(lease)

    async def _used_up(self, scopes: set[str]) -> Mapping[str, list[Standing]]:
        """By scope, the limits of which nothing is left; scopes without any are left out."""
        state, limits = self.state, self.state.settings.limits
        limited = {scope for scope in scopes if limits.of(scope).days}
        if not limited:
            return {}
        spent, today = await state.spending.by_scope(limited, state.leases), state.spending.today()
        found = {
            scope: [x for x in standings(scope, limits.of(scope), days, today) if x.is_reached]
            for scope, days in spent.items()
        }
        return {scope: reached for scope, reached in found.items() if reached}

    async def _refuse(self, lease: Lease, reached: Standing, price: OfferPrice) -> None:
        log.info("Not starting %s of %r: %s", lease.lease_id, lease.user, reached)
        money, gpu = reservation(price.usd_per_hour or 0.0, price.gpus, reserved_seconds(lease))
        needed = gpu if reached.kind is Kind.GPU_HOURS else money
        record_refusal(self.state, lease, refusal_by(reached, reached.left, needed))
        displayed = self.state.accounts.displayed_scope(reached)
        words = stop_words(displayed, self.state.settings.limits.of(reached.scope))
        await self.state.end(lease.lease_id, Stop(reason="budget", message=words))

    def _still_waits(self, lease: Lease) -> bool:
        current = self.state.leases.get(lease.lease_id)
        return current is not None and current.state is LeaseState.WAITING
