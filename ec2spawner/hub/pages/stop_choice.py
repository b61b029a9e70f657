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
    is_saving: bool
    """It is being stopped, and its variables are being saved: that can be cut short."""
    keeps_files: bool
    """The home outlives the instance."""
    workers: int
    """Number of workers of its cluster, which end with it."""


def stop_choice(provisioner: Provisioner, lease_id: str, name: str) -> StopChoice | None:
    """None unless the server is ready, or is being stopped and saves its session."""
    lease = provisioner.lease(lease_id)
    if lease is None:
        return None
    is_saving = lease.saves_session
    if lease.state is not LeaseState.READY and not is_saving:
        return None
    return StopChoice(
        name=name,
        can_sleep=provisioner.sleeping.can_sleep(lease_id),
        is_saving=is_saving,
        keeps_files=lease.home_kind != "none",
        workers=len(provisioner.clusters.workers(lease)),
    )
