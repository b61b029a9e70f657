"""The progress of a home that moves to another zone, as the progress page shows it."""

from __future__ import annotations

from dataclasses import dataclass

from ....core.homes.zone_migration import estimate
from ....provisioner.model.leases.lease import Lease
from ....provisioner.provisioner import Provisioner
from ...spawn.home_migration import duration_text


@dataclass(frozen=True, slots=True)
class Moving:
    """A home that is being copied to another zone."""

    zone: str
    """The destination."""
    percent: int
    """Of the snapshot, 0–100, as EC2 reports it."""
    takes: str = ""
    """The estimated duration, in words."""

    @property
    def advice(self) -> str:
        """What the user can do meanwhile."""
        return (
            "You can wait, or close this page and come back. If you cancel, the copy continues, "
            f"and a later start finds your files in {self.zone}."
        )


def moving(provisioner: Provisioner, lease: Lease) -> Moving | None:
    """The move that this start waits for, or None."""
    home = provisioner.homes.of(lease.user, lease.server) if lease.home_kind == "ebs" else None
    if home is None or home.move is None or home.move.volume_id is not None:
        return None
    newest = provisioner.homes.newest_snapshot(home)
    takes = estimate(home.size_gib, newest.stored_gib if newest else None)
    return Moving(
        zone=home.move.zone,
        percent=provisioner.homes.percent_moved(home.move.move_id),
        takes=f"estimated at {duration_text(takes)}",
    )
