"""The instance types that a profile matches, and their description.

Pure: the table of instance types is an argument, so that the bundled table and the response of
DescribeInstanceTypes both serve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from .ebs_volumes import why_no_volumes

MAX_TYPES = 8
"""Instance types of one profile: enough to find spot capacity, few enough to read in a log."""

PRICE_FACTOR = 2.0
"""A match may cost at most this many times the cheapest match, on demand: if the small machine is
sold out, a start must not buy one at four times its price without being asked."""

BURSTABLE = ("t2.", "t3.", "t3a.", "t4g.")
"""Families that bill CPU credits on top of their price, so that the displayed price would be wrong.
They are used only if the admin names them."""


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One EC2 instance type. Memory in MiB, prices in USD/hour; None is unknown."""

    name: str
    """EC2's name, such as `g4dn.xlarge`."""
    vcpus: int
    """Default vCPUs, as quotas count them."""
    memory_mib: int
    gpu: str
    """GPU model as EC2 names it, such as `T4`; empty without a GPU."""
    gpu_count: int
    """0 without a GPU, and for a fraction of one."""
    gpu_memory_mib: int
    """Memory of one GPU; 0 without a GPU."""
    gpu_partition: float
    """Share of a GPU; 1.0 for whole GPUs, 0.0 without one."""
    architecture: str
    """`x86_64` or `arm64`, as in EC2's images."""
    local_disk_gb: int
    """Instance store in GB (10^9 bytes), all disks together."""
    on_demand_usd_per_hour: float | None
    """List price of the bundled table's region."""
    spot_saving_percent: int | None
    """How much cheaper spot is on average, 0 to 100."""
    interruption_band: int | None
    """See `core.offers.purchase.Offer.interruption_band`."""
    max_volumes: int | None = None
    """Number of EBS volumes that EC2 attaches, its own disk included; None is unknown."""

    def why_no_volumes(self, volumes: int) -> str:
        """Why it cannot have so many EBS volumes beside its own disk; empty if it can."""
        return why_no_volumes(self.name, self.max_volumes, volumes)


class Wish(Protocol):
    """The machine that a profile describes; `ec2spawner.config.Profile` is one."""

    @property
    def gpu(self) -> str | None:
        """EC2's name of the GPU model; None for no GPU."""

    @property
    def gpu_count(self) -> int:
        """Exactly this many GPUs."""

    @property
    def min_gpu_memory_gb(self) -> int:
        """At least this much memory per GPU, in GB."""

    @property
    def vcpus(self) -> int:
        """At least this many vCPUs."""

    @property
    def memory_gib(self) -> float:
        """At least this much main memory, in GiB."""

    @property
    def instance_types(self) -> Sequence[str]:
        """These types in this order, and no others; empty to search by the rest."""


class Profile(Wish, Protocol):
    """A wish with a name."""

    @property
    def display_name(self) -> str:
        """The name on the spawn page."""

    @property
    def slug(self) -> str:
        """The profile's id in user options and URLs."""

    @property
    def default(self) -> bool:
        """Whether it is preselected, and used if a user names none."""


P = TypeVar("P", bound=Profile)


# --- machines --------------------------------------------------------------------------------


def resolve(
    wish: Wish,
    instance_types: Mapping[str, InstanceType],
    architecture: str = "x86_64",
    volumes: int = 0,
) -> tuple[InstanceType, ...]:
    """The instance types that match the wish and can have so many EBS volumes beside their own
    disk, cheapest on-demand price first; empty for none.

    Types that the admin names keep the admin's order. Otherwise a GPU wish means whole GPUs of
    exactly this model and count, and a wish without a GPU means machines without one; at most
    `MAX_TYPES`, none dearer than `PRICE_FACTOR` times the cheapest, and none of unknown price
    unless all are.
    """
    if wish.instance_types:
        named = (instance_types.get(name) for name in wish.instance_types)
        return tuple(kind for kind in named if kind and _fits(kind, architecture, volumes))
    matches = [
        kind
        for kind in instance_types.values()
        if _fits(kind, architecture, volumes) and _fulfils(kind, wish)
    ]
    matches.sort(key=_by_price)
    return tuple(_affordable(matches))[:MAX_TYPES]


def _fits(kind: InstanceType, architecture: str, volumes: int) -> bool:
    return kind.architecture == architecture and not kind.why_no_volumes(volumes)


def _fulfils(kind: InstanceType, wish: Wish) -> bool:
    enough = kind.vcpus >= wish.vcpus and kind.memory_mib >= wish.memory_gib * 1024
    if wish.gpu:
        return (
            enough
            and kind.gpu.casefold() == wish.gpu.casefold()
            and kind.gpu_count == wish.gpu_count
            and nominal_gb(kind.gpu_memory_mib) >= wish.min_gpu_memory_gb
        )
    return enough and not kind.gpu and not kind.name.startswith(BURSTABLE)


def _by_price(kind: InstanceType) -> tuple[bool, float, int, int, str]:
    price = kind.on_demand_usd_per_hour
    return price is None, price or 0.0, kind.vcpus, kind.memory_mib, kind.name


def _affordable(matches: Sequence[InstanceType]) -> Sequence[InstanceType]:
    cheapest = matches[0].on_demand_usd_per_hour if matches else None
    if cheapest is None:
        return matches
    return [
        kind
        for kind in matches
        if kind.on_demand_usd_per_hour is not None
        and kind.on_demand_usd_per_hour <= PRICE_FACTOR * cheapest
    ]


# --- their description -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a user gets with any of the types: the minimum of each value."""

    gpu_text: str
    """Such as `1 × T4, 16 GB`; empty without a GPU."""
    vcpus: int
    memory_gib: float
    scratch_gb: int
    """Instance store in GB, lost at the stop; 0 for none."""
    gpu_memory_bytes: int = 0
    """Of all GPUs together; 0 without one."""


def describe(types: Sequence[InstanceType]) -> Hardware:
    """The description of a profile's types, of which there must be one at least."""
    least = min(types, key=lambda kind: (kind.gpu_count * kind.gpu_memory_mib, _by_price(kind)))
    return Hardware(
        gpu_text=gpu_text(least),
        vcpus=min(kind.vcpus for kind in types),
        memory_gib=min(kind.memory_mib for kind in types) / 1024,
        scratch_gb=min(kind.local_disk_gb for kind in types),
        # A share of a GPU counts as none.
        gpu_memory_bytes=max(least.gpu_count, 1) * least.gpu_memory_mib * 2**20,
    )


def gpu_text(kind: InstanceType) -> str:
    """`8 × A100, 40 GB each`, `1 × T4, 16 GB`, `1/8 L4, 3 GB`, or empty."""
    if not kind.gpu:
        return ""
    memory = f"{nominal_gb(kind.gpu_memory_mib)} GB"
    if 0 < kind.gpu_partition < 1:
        return f"1/{round(1 / kind.gpu_partition)} {kind.gpu}, {memory}"
    each = " each" if kind.gpu_count > 1 else ""
    return f"{kind.gpu_count} × {kind.gpu}, {memory}{each}"


def nominal_gb(memory_mib: int) -> int:
    """GPU memory in GB, as in the manufacturer's datasheet.

    EC2 gives some models in binary units (T4: 16384 MiB, sold as 16 GB) and some in decimal
    (A10G: 22888 MiB, sold as 24 GB).
    """
    if memory_mib % 1024 == 0:
        return memory_mib // 1024
    return round(memory_mib * 1024 * 1024 / 1e9)


# --- the default -----------------------------------------------------------------------------


def default_profile(profiles: Sequence[P]) -> P | None:
    """The first marked as default, else the first; None without any."""
    marked = (profile for profile in profiles if profile.default)
    return next(marked, profiles[0] if profiles else None)
