"""The choice between sleep and stop, for the pages that offer it."""

from __future__ import annotations

from typing import TypedDict

from ...provisioner.model.leases.lease import LeaseState
from ...provisioner.provisioner import Provisioner


class StopChoice(TypedDict):
    """The choice for one server, for a page's script."""

    name: str
    """Name that its user has given it; empty for the default server."""
    can_sleep: bool
    """Its variables can be saved."""
    keeps_files: bool
    """The home outlives the instance."""
    workers: int
    """Those of its cluster, which end with it."""


def stop_choice(provisioner: Provisioner, lease_id: str, name: str) -> StopChoice | None:
    """None unless the server is ready."""
    lease = provisioner.lease(lease_id)
    if lease is None or lease.state is not LeaseState.READY:
        return None
    return StopChoice(
        name=name,
        can_sleep=provisioner.sleeping.can_sleep(lease_id),
        keeps_files=lease.home_kind != "none",
        workers=len(provisioner.clusters.workers(lease)),
    )
