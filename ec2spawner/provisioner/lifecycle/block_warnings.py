"""Warns users whose machine is of a Capacity Block that ends soon."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from ...core.offers.capacity_blocks import WARNING
from ...wire import AdminMessage
from ..model.leases.lease import Lease, LeaseState
from ..state.state import State


@dataclass(slots=True)
class BlockWarnings:
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
            at = self.state.blocks.left_at(self.state.instances.instance_of(lease))
            if (
                at is not None
                and at - WARNING <= now < at
                and self._warned.get(lease.lease_id) != at
            ):
                self._warned[lease.lease_id] = at
                self._send(lease, at)

    def _send(self, lease: Lease, at: datetime) -> None:
        contact = self.state.leases.contact(lease.lease_id)
        text = _in_words(lease, at)
        contact.message = AdminMessage(id=f"block-{at.timestamp():.0f}", text=text)
        contact.message_sent_at = self.state.clock.uptime()
        self.state.leases.notify_agent(lease.lease_id)


def _in_words(lease: Lease, at: datetime) -> str:
    """In one line of `MAX_MESSAGE_LENGTH`: pages show it as a message of an admin."""
    follows = (
        f"is {'saved and ' if lease.sleep.save_seconds else ''}stopped by {at:%H:%M} UTC."
        if lease.sleep.after_interruption == "stop"
        else f"leaves it by {at:%H:%M} UTC and continues on another one."
    )
    return f"The hub: AWS takes this machine back. Your server {follows}"
