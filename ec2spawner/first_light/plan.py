"""What the journey starts, and what it may cost at worst. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ..core.pricing.money import digits
from ..core.pricing.resource_prices import (
    ADDRESS_USD_PER_HOUR,
    DISK_USD_PER_GIB_MONTH,
    HOURS_PER_MONTH,
)
from ..core.profiles.profiles import InstanceType, resolve

CPU_SLUG: Final = "first-light-cpu"
GPU_SLUG: Final = "first-light-gpu"

CPU_VCPUS: Final = 2
CPU_MEMORY_GIB: Final = 4.0
"""What JupyterLab and the agent need with room to spare."""

CPU_PROFILE: Final = MappingProxyType(
    {
        "display_name": "First light, no GPU",
        "slug": CPU_SLUG,
        "vcpus": CPU_VCPUS,
        "memory_gib": CPU_MEMORY_GIB,
    }
)
"""What `cpu_leg` chooses from, as an entry of `c.EC2Spawner.profile_list`."""

CPU_SECONDS: Final = 2400.0
"""The longest that instances without a GPU run, without the idle limit: two starts of 15 minutes,
and their stops."""

GPU_SECONDS: Final = 1500.0
"""The longest that a GPU instance runs: one start of 15 minutes, and a cell."""

HOME_GIB: Final = 1

VOLUMES: Final = 1
"""EBS volumes of a server beside the disk of its instance: the home."""


class NothingToStart(Exception):
    """No instance type fits; the message says why, and what to do."""


class OverCap(Exception):
    """The journey could cost more than its cap; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One kind of instance that the journey starts."""

    slug: str
    display_name: str
    instance_types: tuple[str, ...]
    """Cheapest first."""
    usd_per_hour: float
    """The dearest that it may cost, on demand."""
    seconds: float
    """The longest that its instances run, all together."""
    disk_gib: int

    @property
    def usd(self) -> float:
        """What it costs at worst: an estimate."""
        return self.seconds / 3600 * self.hourly_usd

    @property
    def hourly_usd(self) -> float:
        """USD/hour with its disks and a public address."""
        gib = self.disk_gib + HOME_GIB
        disks = gib * DISK_USD_PER_GIB_MONTH / HOURS_PER_MONTH
        return self.usd_per_hour + disks + ADDRESS_USD_PER_HOUR

    def profile(self) -> dict[str, Any]:
        """As an entry of `c.EC2Spawner.profile_list`."""
        return {
            "display_name": self.display_name,
            "slug": self.slug,
            "instance_types": list(self.instance_types),
            "disk_gib": self.disk_gib,
        }


@dataclass(frozen=True, slots=True)
class _Wish:
    gpu: str | None = None
    gpu_count: int = 1
    min_gpu_memory_gb: int = 0
    vcpus: int = 0
    memory_gib: float = 0.0
    instance_types: Sequence[str] = ()


_CPU: Final = _Wish(vcpus=CPU_VCPUS, memory_gib=CPU_MEMORY_GIB)


def candidates(
    types: Mapping[str, InstanceType],
    offered: Mapping[str, frozenset[str]],
    architecture: str,
    models: frozenset[str],
) -> list[str]:
    """Names of the types whose current prices decide; without `models`, those without a GPU.

    `offered` are the zones of each type; `types` may have the prices of another region.
    """
    here = _priced(types, offered)
    without = resolve(_CPU, here, architecture, VOLUMES)
    return sorted({kind.name for kind in (*without, *_single(here, architecture, models))})


def cpu_leg(
    types: Mapping[str, InstanceType],
    offered: Mapping[str, frozenset[str]],
    architecture: str,
    disk_gib: int,
    idle_seconds: float,
) -> Leg:
    """The cheapest instances without a GPU. Raises `NothingToStart`.

    `types` have their on-demand prices; `offered` are the zones of each type.
    """
    found = resolve(_CPU, _priced(types, offered), architecture, VOLUMES)
    seconds = CPU_SECONDS + idle_seconds
    return _leg(CPU_SLUG, str(CPU_PROFILE["display_name"]), found, seconds, disk_gib)


def gpu_leg(
    types: Mapping[str, InstanceType],
    offered: Mapping[str, frozenset[str]],
    architecture: str,
    disk_gib: int,
    models: frozenset[str],
) -> Leg:
    """The cheapest instances with one whole GPU of the `models`. Raises `NothingToStart`."""
    priced = _priced(types, offered)
    single = _single(priced, architecture, models)
    if not single:
        raise NothingToStart(
            "the subnets' zones offer no instance type with one whole GPU. Fix: leave out --gpu, "
            "or configure subnets of other zones"
        )
    cheapest = min(single, key=lambda kind: kind.on_demand_usd_per_hour or 0.0)
    found = resolve(_Wish(gpu=cheapest.gpu), priced, architecture, VOLUMES)
    return _leg(GPU_SLUG, f"First light, {cheapest.gpu}", found, GPU_SECONDS, disk_gib)


def _single(
    types: Mapping[str, InstanceType], architecture: str, models: frozenset[str]
) -> list[InstanceType]:
    """Types with one whole GPU of the models."""
    return [
        kind
        for kind in types.values()
        if kind.architecture == architecture
        and kind.gpu in models
        and kind.gpu_count == 1
        and not kind.why_no_volumes(VOLUMES)
    ]


def _priced(
    types: Mapping[str, InstanceType], offered: Mapping[str, frozenset[str]]
) -> dict[str, InstanceType]:
    """What has no price cannot be held under a cap."""
    return {
        name: kind
        for name, kind in types.items()
        if offered.get(name) and kind.on_demand_usd_per_hour
    }


def _leg(slug: str, name: str, found: Sequence[InstanceType], seconds: float, disk_gib: int) -> Leg:
    if not found:
        raise NothingToStart(
            f"the subnets' zones offer no instance type with {CPU_VCPUS} vCPUs and "
            f"{CPU_MEMORY_GIB:g} GiB whose price is known. Fix: configure subnets of other zones"
        )
    dearest = max(kind.on_demand_usd_per_hour or 0.0 for kind in found)
    return Leg(slug, name, tuple(kind.name for kind in found), dearest, seconds, disk_gib)


def check_cap(legs: Sequence[Leg], cap_usd: float) -> None:
    """Raises `OverCap` where the legs could cost more than the cap."""
    worst = sum(leg.usd for leg in legs)
    if worst <= cap_usd:
        return
    fix = "leave out --gpu, or " if len(legs) > 1 else ""
    raise OverCap(
        f"this could cost ${digits(worst)} (estimate), which is above the cap of "
        f"${digits(cap_usd)}. Fix: {fix}allow more, such as "
        f"--max-usd={worst + 0.05:.1f}"
    )
