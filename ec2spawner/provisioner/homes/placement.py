"""Where a server may run: the zones of the hub's subnets, and the one that its home is in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from ..model.launch_key import launch_key_of
from ..model.lease import LeaseState
from ..state.state import State


@dataclass(slots=True)
class Placement:
    """Restricts a waiting lease to the zone of its home, if that was created meanwhile."""

    state: State

    async def reconcile(self, now: datetime) -> None:
        """Raises `StoreError`."""
        leases = self.state.leases
        for lease in leases.open(LeaseState.WAITING):
            subnets = self.subnets_for(lease.user, lease.server)
            if lease.home_kind != "ebs" or not subnets or subnets == lease.spec.subnets:
                continue
            spec = replace(lease.spec, subnets=subnets)
            await leases.change(lease.lease_id, spec=spec, launch_key=launch_key_of(spec))

    def subnets_for(self, user: str, server: str, *, home_kind: str = "ebs") -> tuple[str, ...]:
        """The subnets that the server's home allows: all, or those of the home's zone."""
        subnets, by_subnet = self.state.settings.subnets, self.state.zones.by_subnet
        zone = self.state.homes.zone_of(user, server) if home_kind == "ebs" else None
        if zone is None:
            return subnets
        return tuple(subnet for subnet in subnets if by_subnet.get(subnet) == zone)

    def zones_for(self, user: str, server: str, *, home_kind: str = "ebs") -> frozenset[str]:
        """The zones that the server's home allows, of those that have a configured subnet."""
        by_subnet = self.state.zones.by_subnet
        subnets = self.subnets_for(user, server, home_kind=home_kind)
        return frozenset(by_subnet[subnet] for subnet in subnets if subnet in by_subnet)
