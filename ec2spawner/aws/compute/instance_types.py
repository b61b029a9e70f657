"""Instance types: the zones that offer them, and their properties."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...core.profiles.profiles import InstanceType
from ..calls.client import Client, entries
from ..tags import literal

OFFERINGS_PAGE: Final = 500
"""Offerings per page, of three short texts each. A region has some 800 types in each zone."""

TYPES_BATCH: Final = 200
"""Types in one request: EC2's limit for the values of a filter."""


class InstanceTypes:
    """The instance types of one region."""

    client: Client

    async def offerings(self, zones: Sequence[str]) -> dict[str, frozenset[str]]:
        """Instance type -> those of the zones that offer it; a type that none offers is absent."""
        if not zones:
            return {}
        found = await self.client.pages(
            "describe_instance_type_offerings",
            entries("InstanceTypeOfferings", lambda row: (row["InstanceType"], row["Location"])),
            page=OFFERINGS_PAGE,
            LocationType="availability-zone",
            Filters=[{"Name": "location", "Values": sorted(set(zones))}],
        )
        zones_of: defaultdict[str, set[str]] = defaultdict(set)
        for instance_type, zone in found:
            zones_of[instance_type].add(zone)
        return {instance_type: frozenset(of) for instance_type, of in zones_of.items()}

    async def describe_types(self, names: Sequence[str]) -> dict[str, InstanceType]:
        """EC2's description of these types, without prices; types that do not exist are absent.

        Requested by filter: by name, a type that does not exist fails the whole call, and the token
        bucket is half as large.
        """
        wanted = sorted(set(names))
        found: list[InstanceType] = []
        for start in range(0, len(wanted), TYPES_BATCH):
            values = [literal(name) for name in wanted[start : start + TYPES_BATCH]]
            found += await self.client.pages(
                "describe_instance_types",
                entries("InstanceTypes", instance_type),
                Filters=[{"Name": "instance-type", "Values": values}],
            )
        return {kind.name: kind for kind in found}


def instance_type(described: Mapping[str, Any]) -> InstanceType:
    """One entry of DescribeInstanceTypes, which has no prices.

    A fraction of a GPU has `gpu_count` 0 there and here; `gpu_partition` says how much it is.
    """
    gpus = described.get("GpuInfo", {}).get("Gpus", ())
    gpu: Mapping[str, Any] = gpus[0] if gpus else {}
    return InstanceType(
        name=described["InstanceType"],
        vcpus=described["VCpuInfo"]["DefaultVCpus"],
        memory_mib=described["MemoryInfo"]["SizeInMiB"],
        gpu=gpu.get("Name", ""),
        gpu_count=gpu.get("Count", 0),
        gpu_memory_mib=gpu.get("MemoryInfo", {}).get("SizeInMiB", 0),
        gpu_partition=gpu.get("GpuPartitionSize", 1.0) if gpu else 0.0,
        architecture=_architecture(described["ProcessorInfo"]["SupportedArchitectures"]),
        local_disk_gb=described.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        on_demand_usd_per_hour=None,
        spot_saving_percent=None,
        interruption_band=None,
        max_volumes=described.get("EbsInfo", {}).get("MaximumEbsAttachments"),
    )


def _architecture(supported: Sequence[str]) -> str:
    """The architecture of the type for current images: old types also run 32-bit ones."""
    return "x86_64" if "x86_64" in supported else supported[0]
