"""Facts that ship with the package; `README.md` beside this file says whence and when."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TypeVar

T = TypeVar("T")

PRICES_REGION = "us-east-1"
PRICES_SOURCE = "the bundled price table of 2026-07-20"


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One EC2 instance type. Memory in MiB, prices in USD/hour; None is unknown."""

    name: str
    vcpus: int
    memory_mib: int
    gpu: str
    """GPU model as EC2 names it, or empty."""
    gpu_count: int
    gpu_memory_mib: int
    """Memory of one GPU; 0 without a GPU."""
    gpu_partition: float
    """Share of a GPU; 1.0 for whole GPUs, 0.0 without one."""
    architecture: str
    local_disk_gb: int
    on_demand_usd_per_hour: float | None
    spot_saving_percent: int | None
    interruption_band: int | None


@cache
def instance_types() -> Mapping[str, InstanceType]:
    """Every bundled instance type by name."""
    table: dict[str, InstanceType] = {}
    text = files(__name__).joinpath("instance_types.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        table[row["instance_type"]] = InstanceType(
            name=row["instance_type"],
            vcpus=int(row["vcpus"]),
            memory_mib=int(row["memory_mib"]),
            gpu=row["gpu"],
            gpu_count=int(row["gpu_count"]),
            gpu_memory_mib=int(row["gpu_memory_mib"] or 0),
            gpu_partition=float(row["gpu_partition"] or 0),
            architecture=row["architecture"],
            local_disk_gb=int(row["local_disk_gb"]),
            on_demand_usd_per_hour=_optional(row["on_demand_usd_per_hour"], float),
            spot_saving_percent=_optional(row["spot_saving_percent"], int),
            interruption_band=_optional(row["interruption_band"], int),
        )
    return MappingProxyType(table)


def _optional(text: str, convert: Callable[[str], T]) -> T | None:
    return convert(text) if text else None
