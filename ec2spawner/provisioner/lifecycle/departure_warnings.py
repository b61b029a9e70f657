"""Warns users whose machine AWS ends or reboots soon, at a time that the hub knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ...core.offers.capacity_blocks import WARNING
from ...wire import AdminMessage
from ..model.leases.lease import Lease, LeaseState
from ..state.departures import BLOCK_ENDS
from ..state.instances.interruptions import AWS_REBOOTS, AWS_STOPS
from ..state.state import State

WORDS: Final = {
    BLOCK_ENDS.message: "AWS reclaims this machine",
    AWS_STOPS.message: "AWS stops this machine soon",
    AWS_REBOOTS.message: "AWS reboots this machine soon",
}
"""Message of the stop that follows -> the beginning of the warning, in one line of
`MAX_MESSAGE_LENGTH` with what follows: pages show it as a message of an admin."""


@dataclass(slots=True)
class DepartureWarnings:
    """Sends one message to the open pages of a server, and another one if the time changes."""

    state: State
    _warned: dict[str, datetime] = field(default_factory=dict)
    """By lease id: of which time its user was warned."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises. A message is not stored: a restarted hub sends it again, with the same id,
        by which a page knows that it has shown it."""
        ready = {lease.lease_id: lease for lease in self.state.leases.open(LeaseState.READY)}
        self._warned = {name: at for name, at in self._warned.items() if name in ready}
        for lease in ready.values():
            at = self.state.departures.left_at(self.state.instances.instance_of(lease))
            if (
                at is not None
                and at - WARNING <= now < at
                and self._warned.get(lease.lease_id) != at
            ):
                self._warned[lease.lease_id] = at
                self._send(lease, at)

    def _send(self, lease: Lease, at: datetime) -> None:
        contact = self.state.leases.contact(lease.lease_id)
        why = self.state.departures.stop_of(self.state.instances.instance_of(lease))
        text = f"The hub: {WORDS[why.message]}. Your server {_what_follows(lease, at)}"
        contact.message = AdminMessage(id=f"leaves-{at.timestamp():.0f}", text=text)
        contact.message_sent_at = self.state.clock.uptime()
        self.state.leases.notify_agent(lease.lease_id)


def _what_follows(lease: Lease, at: datetime) -> str:
    if lease.sleep.after_interruption == "stop":
        return f"is {'saved and ' if lease.sleep.save_seconds else ''}stopped by {at:%H:%M} UTC."
    return f"leaves it by {at:%H:%M} UTC and continues on another one."
