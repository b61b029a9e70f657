"""What is known of a region, an account and a hub, for one profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from ..check.facts.network import Subnet
from ..config import Profile
from ..core.limits.bounds import Bounds
from ..core.offers.capacity_blocks import has_left
from ..core.offers.quotas import ListedQuota
from ..core.offers.reserved_capacity import CapacityReservation
from ..core.pricing.resource_prices import ResourcePrices
from ..core.profiles.profiles import InstanceType
from ..provisioner.store.read_only import FreshStart
from ..wire import Market


@dataclass(frozen=True, slots=True)
class Wanted:
    """The class."""

    profile: Profile
    users: int
    hours: float
    """Of work, for the cost."""
    at: datetime | None = None
    """When it begins, in the hub's time zone; None is now."""


class Source(StrEnum):
    """What is asked; a failure of one leaves the others."""

    SUBNETS = "subnets"
    TYPES = "instance types"
    QUOTAS = "quotas"
    INSTANCES = "instances"
    SPOT_PRICES = "spot prices"
    ON_DEMAND_PRICES = "on-demand prices"
    PLACEMENT_SCORE = "spot placement score"
    STORE = "store"
    RESERVATIONS = "capacity reservations"


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read. What could not be has its reason in `unread`."""

    region: str
    subnets: Sequence[Subnet] = ()
    types: Sequence[InstanceType] = ()
    """That the profile means and a zone of the subnets offers, best first."""
    offered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Instance type -> zones of the subnets."""
    free_plan_has: frozenset[str] | None = None
    """Types that AWS's free plan has, if the account is on it; None if not, or if unknown."""
    quotas: Sequence[ListedQuota] = ()
    running: Mapping[tuple[Market, str], int] = field(default_factory=dict)
    """This hub's instances now, by market and type."""
    running_types: Mapping[str, InstanceType] = field(default_factory=dict)
    spot: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(type, zone) -> USD/hour now."""
    on_demand: Mapping[str, float] = field(default_factory=dict)
    """Type -> list price, USD/hour."""
    reserved: Sequence[CapacityReservation] = ()
    """Those of `c.EC2Spawner.capacity_reservations`."""
    resources: ResourcePrices = field(default_factory=ResourcePrices)
    placement_score: int | None = None
    """EC2's forecast for so many spot instances at once, 1 to 10."""
    starts: Sequence[FreshStart] = ()
    """Of the profile, on fresh instances, latest first."""
    disk_gib: int = 0
    """Of an instance's own disk."""
    homes_in_zones: bool = False
    """Homes are EBS volumes: one is made or attached for each start."""
    max_servers: int = 0
    """`c.JupyterHub.active_server_limit`; 0 is none."""
    hub_bounds: Bounds = field(default_factory=Bounds)
    """Limits of the whole hub."""
    unread: Mapping[Source, str] = field(default_factory=dict)
    """Source -> why it could not be read."""

    def reserved_for(self, wanted: Wanted, now: datetime) -> Sequence[CapacityReservation]:
        """The reservations that servers of the class can run in until it ends."""
        ends = (wanted.at or now).astimezone(UTC) + timedelta(hours=wanted.hours)
        if Market.ON_DEMAND not in wanted.profile.markets:
            return ()
        names = {kind.name for kind in self.types}
        return [
            each
            for each in self.reserved
            if each.instance_type in names
            and each.zone in self.offered.get(each.instance_type, ())
            and not has_left(each, ends)
        ]

    def reserved_places(self, wanted: Wanted, now: datetime) -> int:
        """Unused places of these reservations now, for at most the whole class."""
        unused = sum(each.available for each in self.reserved_for(wanted, now))
        return min(unused, wanted.users)

    @property
    def public(self) -> bool:
        """Whether an instance may get a public address, which is billed."""
        return any(subnet.public_addresses for subnet in self.subnets)
