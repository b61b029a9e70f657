"""Calls of a server's agent on behalf of the server's owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ....provisioner.model.leases.lease import Lease
from ...app.user_account import user_of
from .calls import LeaseHandler

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner


class OwnersHandler(LeaseHandler):
    """A call on the owner's behalf."""

    CALL_TOKENS: ClassVar[int | None] = 1

    def owners_spawner(self, lease: Lease) -> Spawner:
        """Ends the request with 409 if the lease is of no server, or if its owner's account or the
        server itself has been deleted."""
        if not lease.is_server:
            self.refuse(409, "this is the instance of a worker or a run: only a server can do that")
        user = user_of(self.service.accounts, self.users, lease.user)
        if user is None:
            self.refuse(409, "the owner of this server has no account any more")
        if lease.server not in user.orm_spawners:
            self.refuse(409, "this server has been deleted")
        return user.spawners[lease.server]
