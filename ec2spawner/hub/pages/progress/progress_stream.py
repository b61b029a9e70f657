"""The progress events of one start, for a browser that connects at any moment of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Final

from ....provisioner.model.leases.lease import Lease, LeaseState
from ....provisioner.provisioner import Provisioner
from ...spawn.home_migration import home_zone_of
from .migration_progress import moving
from .progress import progress_event
from .spot_wait_status import spot_wait_status
from .waking import waking_of

INTERVAL: Final = 5.0
"""Seconds between two progress events while nothing changes: the bar still moves."""


async def progress_of(provisioner: Provisioner, requested: Lease) -> AsyncGenerator[dict[str, Any]]:
    """All events of a start from its beginning, until it has ended."""
    usual = await provisioner.start_durations.of_steps(requested.profile)
    lease: Lease | None = requested
    while lease is not None:
        zone, move = home_zone_of(provisioner, lease), moving(provisioner, lease)
        waiting = None if move else spot_wait_status(provisioner, lease)
        wakes = waking_of(provisioner, lease)
        beside = provisioner.market.prices.beside_spec(lease.spec)
        yield progress_event(lease, usual, provisioner.now(), zone, waiting, move, wakes, beside)
        if lease.state not in {LeaseState.WAITING, LeaseState.STARTING}:
            return
        await provisioner.wait_for_change(lease.lease_id, INTERVAL)
        lease = provisioner.lease(lease.lease_id)
