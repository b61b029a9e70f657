"""Calls of a server's agent on behalf of the server's owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....provisioner.model.leases.lease import Lease
from .calls import LeaseHandler

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner


class OwnersHandler(LeaseHandler):
    """A call on the owner's behalf."""

    def owners_spawner(self, lease: Lease) -> Spawner:
        """Ends the request with 409 if the owner has no account any more, or the lease is of no
        server of theirs."""
        user = self.find_user(lease.user)
        if user is None or lease.server not in user.orm_spawners:
            self.refuse(409, "the owner of this server has no account any more")
        return user.spawners[lease.server]
