"""The availability zones of the hub's subnets: asked once, at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model.cloud.launch import LaunchSpec


@dataclass(slots=True)
class Zones:
    """Which zone each configured subnet is in."""

    by_subnet: Mapping[str, str] = field(default_factory=dict)
    """The zone of each configured subnet; empty before the start."""

    def all(self) -> list[str]:
        """Of all configured subnets, sorted."""
        return sorted({*self.by_subnet.values()})

    def of(self, spec: LaunchSpec) -> frozenset[str]:
        """Those in which a spec may be launched."""
        return frozenset(self.by_subnet[s] for s in spec.subnets if s in self.by_subnet)
