"""Stops servers and runs whose user may no longer charge them to their payer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ...core.limits.words import scope_words
from ...wire import Stop
from ..limits.controller import NOTICE
from ..model.leases.lease import LIVE, Lease, LeaseState
from ..state.state import State
from .admin_actions import AdminActions

log = logging.getLogger(__name__)

CHECK_INTERVAL: Final = 60.0
"""Seconds between two checks: each is a query of JupyterHub's database."""

Charge = tuple[str, str]
"""A user and a payer that is not the user."""

LostPayers = Callable[[Collection[Charge]], Set[Charge]]
"""Those of the given ones that the user may no longer make; what is not known is not among them."""


@dataclass(slots=True)
class PayerStops:
    """Ends what is charged to a group or project that its user has left, after a notice.

    A lease has one payer to its end, so it does not continue at another one's cost: its user starts
    it again, and chooses. Workers of a cluster end with their server.
    """

    state: State
    lost_payers: LostPayers
    _lost: dict[Charge, float] = field(default_factory=dict)
    """Uptime at which it was found lost, in seconds. Not by lease: a server that moves gets no
    second notice."""
    _checked_at: float = float("-inf")
    """Uptime of the last check, in seconds."""

    async def reconcile(self, now: datetime) -> None:
        """Judge all payers of what is open; returns once the ends are stored."""
        uptime = self.state.clock.uptime()
        live = (each for each in self.state.leases.open() if each.state in LIVE)
        charged = [each for each in live if each.payer and not each.head]
        if uptime - self._checked_at >= CHECK_INTERVAL:
            self._checked_at = uptime
            charges = {(lease.user, lease.payer) for lease in charged}
            lost = self.lost_payers(charges) if charges else set()
            self._lost = {charge: self._lost.get(charge, uptime) for charge in lost}
            for lease in charged:
                if self._lost.get((lease.user, lease.payer)) == uptime:
                    self._announce(lease, now)
        for lease in charged:
            since = self._lost.get((lease.user, lease.payer))
            if since is not None and (self._waits(lease) or uptime - since >= NOTICE):
                await self._end(lease)

    def _waits(self, lease: Lease) -> bool:
        return lease.state is LeaseState.WAITING and not lease.continues

    def _announce(self, lease: Lease, now: datetime) -> None:
        """In open pages. Guests of the server see it, too, and not who pays."""
        log.info("%r may no longer charge %s: %s ends", lease.user, lease.payer, lease.lease_id)
        stops_at = (now + timedelta(seconds=NOTICE)).astimezone(self.state.settings.time_zone)
        text = (
            f"This server stops at {stops_at:%H:%M %Z}: its payer no longer pays for its owner. "
            "Start it again with another"
        )
        AdminActions(self.state).message(lease, text)

    async def _end(self, lease: Lease) -> None:
        accounts = self.state.accounts
        words = (
            f"It was charged to {scope_words(accounts.scope(lease.payer))}, which no longer pays "
            f"for {accounts.name(lease.user)}. Start it again with another payer"
        )
        reason = "budget" if lease.ready_at else "failed"
        await self.state.end(lease.lease_id, Stop(reason=reason, message=words))
