"""What an admin does to another user's server, besides stopping it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...core.text.untrusted import without_escapes
from ...wire import MAX_MESSAGE_LENGTH, AdminMessage
from ..model.leases.lease import Lease
from ..state.state import State


class MessageRefused(ValueError):
    """The text is empty, or too long to be shown whole."""


@dataclass(frozen=True, slots=True)
class AdminActions:
    """Acts on leases that are ready, and on instances that are kept for a server."""

    state: State

    async def keep(self, lease: Lease, seconds: float, by: str) -> datetime:
        """Let no idleness stop the server for so long, whatever its user may choose. Its user reads
        `by` whom.

        Returns until when, in UTC; never earlier than before. A maximum age still ends the server.
        Raises `StoreError`.
        """
        until = self.state.clock.now() + timedelta(seconds=seconds)
        if lease.extended_until is not None and lease.extended_until >= until:
            return lease.extended_until
        changes = {"extended_until": until, "extended_by": by}
        await self.state.leases.change(lease.lease_id, **changes)
        self.state.leases.notify_agent(lease.lease_id)
        self.state.wake()
        return until

    def message(self, lease: Lease, text: str) -> AdminMessage:
        """Show a message in the user's open pages, in the place of an earlier one.

        Not stored: after a restart of the hub it is withdrawn. Raises `MessageRefused`.
        """
        plain = " ".join(without_escapes(line) for line in text.splitlines()).strip()
        if not plain:
            raise MessageRefused("the message is empty")
        if len(plain) > MAX_MESSAGE_LENGTH:
            raise MessageRefused(f"a message may have {MAX_MESSAGE_LENGTH} characters")
        contact = self.state.leases.contact(lease.lease_id)
        contact.message = message = AdminMessage(id=secrets.token_hex(8), text=plain)
        contact.message_sent_at = self.state.clock.uptime()
        self.state.leases.notify_agent(lease.lease_id)
        return message

    async def release(self, user: str, server: str) -> bool:
        """Terminate the instances that are kept for a server, with their disks; False where there
        are none.

        A start that was requested before may still have them. Raises `StoreError`.
        """
        if not self.state.retained.of_server(user, server):
            return False
        await self.state.retained.give_up(user, server)
        self.state.wake()
        return True
