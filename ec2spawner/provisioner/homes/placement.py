"""Where a server may run: the zones of the hub's subnets, and the one that its home is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model.cloud import Cloud, LaunchSpec
from ..model.settings import Settings
from .volumes import Homes


@dataclass(slots=True)
class Placement:
    """The zones in which a lease can start: those of its subnets, its home and its types."""

    cloud: Cloud
    settings: Settings
    homes: Homes
    by_subnet: Mapping[str, str] = field(default_factory=dict)
    """The zone of each configured subnet; empty until `load`."""

    async def load(self) -> None:
        """Ask EC2 for the zones. Raises `CloudError`."""
        self.by_subnet = dict(await self.cloud.zones_of(self.settings.subnets))

    def zones(self) -> list[str]:
        """The availability zones of the configured subnets."""
        return sorted({*self.by_subnet.values()})

    def zones_of(self, spec: LaunchSpec) -> frozenset[str]:
        """Zones of the spec's subnets; unknown subnets have none."""
        return frozenset(self.by_subnet[s] for s in spec.subnets if s in self.by_subnet)

    def subnets_for(self, user: str, server: str, *, home_kind: str = "ebs") -> tuple[str, ...]:
        """The subnets that the server's home allows: all, or those of the home's zone."""
        zone = self.homes.zone_of(user, server) if home_kind == "ebs" else None
        if zone is None:
            return self.settings.subnets
        return tuple(s for s in self.settings.subnets if self.by_subnet.get(s) == zone)

    def zones_for(self, user: str, server: str, *, home_kind: str = "ebs") -> frozenset[str]:
        """The zones that the server's home allows, of those that have a configured subnet."""
        subnets = self.subnets_for(user, server, home_kind=home_kind)
        return frozenset(self.by_subnet[subnet] for subnet in subnets if subnet in self.by_subnet)
