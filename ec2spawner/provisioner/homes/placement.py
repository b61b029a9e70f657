"""Where a server may run: the zones of the hub's subnets, and the one that its home is in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..model.launch_key import launch_key_of
from ..model.leases.lease import Lease, LeaseState
from ..state.state import State


@dataclass(slots=True)
class Placement:
    """Restricts a waiting lease to the zone of its home, if that was created meanwhile."""

    state: State

    async def reconcile(self, now: datetime) -> None:
        """Raises `StoreError`."""
        leases = self.state.leases
        for lease in leases.open(LeaseState.WAITING):
            if changes := placed(self.state, lease):
                await leases.change(lease.lease_id, **changes)


def placed(state: State, lease: Lease) -> dict[str, Any]:
    """Changes of the lease so that it buys in the zone of its home; empty where it does.

    Part of what sends it back to the waiting list: a pass may buy before the next one places it.
    """
    temporary = lease.mounts.temporary_home
    subnets = subnets_for(state, lease.user, lease.server, temporary=temporary)
    if lease.home_kind != "ebs" or not subnets or subnets == lease.spec.subnets:
        return {}
    spec = replace(lease.spec, subnets=subnets)
    return {"spec": spec, "launch_key": launch_key_of(spec)}


def subnets_for(
    state: State, user: str, server: str, *, home_kind: str = "ebs", temporary: bool = False
) -> tuple[str, ...]:
    """The subnets that the server's home allows: all, or those of the home's zone. `temporary`: for
    a start whose home is temporary."""
    homes = state.homes
    zone = homes.zone_of(user, server, temporary=temporary) if home_kind == "ebs" else None
    return subnets_in(state, zone)


def subnets_in(state: State, zone: str | None) -> tuple[str, ...]:
    """The subnets of the hub in this zone; all for None."""
    subnets, by_subnet = state.settings.subnets, state.zones.by_subnet
    if zone is None:
        return subnets
    return tuple(subnet for subnet in subnets if by_subnet.get(subnet) == zone)


def zones_for(state: State, user: str, server: str, *, home_kind: str = "ebs") -> frozenset[str]:
    """The zones that the server's home allows, of those that have a configured subnet."""
    by_subnet = state.zones.by_subnet
    subnets = subnets_for(state, user, server, home_kind=home_kind)
    return frozenset(by_subnet[subnet] for subnet in subnets if subnet in by_subnet)
