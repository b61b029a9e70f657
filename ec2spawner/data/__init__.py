"""Facts that ship with the package; `README.md` beside this file says whence and when."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final, TypeVar

from ..core.partitions import why_prices_are_unknown
from ..core.pricing.resource_prices import (
    ADDRESS_USD_PER_HOUR,
    DISK_USD_PER_GIB_MONTH,
    GP2_USD_PER_GIB_MONTH,
    SNAPSHOT_USD_PER_GIB_MONTH,
    ResourcePrices,
)
from ..core.profiles.profiles import InstanceType

T = TypeVar("T")

PRICES_REGION = "us-east-1"
PRICES_SOURCE = "the bundled price table of 2026-07-20"
DAYS_PER_MONTH: Final = 365.25 / 12

INTERRUPTIONS_DATE: Final = date(2025, 6, 28)
"""Date of `spot_advisor.csv`: how often spot is interrupted, and what it saves."""


def interruptions_source(now: datetime) -> str:
    """Whence the interruption rates are, of when, and how old that is at `now`."""
    return f"the AWS Spot Instance Advisor of {INTERRUPTIONS_DATE}, {_age(now.date())} old"


def _age(today: date) -> str:
    """Such as `17 months`, or `12 days`."""
    days = max((today - INTERRUPTIONS_DATE).days, 0)
    if days < 61:
        return "1 day" if days == 1 else f"{days} days"
    return f"{int(days / DAYS_PER_MONTH)} months"


@cache
def instance_types(region: str = PRICES_REGION) -> Mapping[str, InstanceType]:
    """Every bundled instance type by name, with the spot market's habits in a region.

    The on-demand price is that of `PRICES_REGION` in every region: elsewhere it only says which
    of two types is the dearer one.
    """
    table: dict[str, InstanceType] = {}
    advice = _spot_advice().get(region, {})
    for row in _rows("instance_types.csv"):
        spot = advice.get(row["instance_type"], {})
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
            spot_saving_percent=_optional(spot.get("saving_percent", ""), int),
            interruption_band=_optional(spot.get("interruption_band", ""), int),
        )
    return MappingProxyType(table)


def resource_prices(region: str = PRICES_REGION) -> ResourcePrices:
    """What disks, snapshots and public addresses cost in `PRICES_REGION`. Elsewhere only the price
    of addresses is known, which is the same in every commercial region."""
    if why_prices_are_unknown(region):
        return ResourcePrices()
    if region != PRICES_REGION:
        return ResourcePrices(address_usd_per_hour=ADDRESS_USD_PER_HOUR)
    return ResourcePrices(
        disk_usd_per_gib_month=DISK_USD_PER_GIB_MONTH,
        snapshot_usd_per_gib_month=SNAPSHOT_USD_PER_GIB_MONTH,
        address_usd_per_hour=ADDRESS_USD_PER_HOUR,
        gp2_usd_per_gib_month=GP2_USD_PER_GIB_MONTH,
    )


@cache
def _spot_advice() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Region -> instance type -> what the Spot Instance Advisor says."""
    advice: dict[str, dict[str, Mapping[str, str]]] = {}
    for row in _rows("spot_advisor.csv"):
        advice.setdefault(row["region"], {})[row["instance_type"]] = row
    return advice


@dataclass(frozen=True, slots=True)
class GpuModel:
    """What a GPU can do, by the source in its row. None is unsourced, and so unknown."""

    model: str
    ec2_name: str
    """As DescribeInstanceTypes says it; empty where nobody has seen it say so."""
    memory_gib: float
    bandwidth_gb_s: float | None
    """Of its memory."""
    fp16_tflops: float | None
    """Dense, by its tensor cores."""
    fp32_tflops: float | None
    """By its ordinary cores, not as TF32."""
    pcie_generation: int | None
    pcie_lanes: int | None
    """Of its link to the host; None too where it has another kind of link."""


@cache
def gpu_models() -> tuple[GpuModel, ...]:
    """Every GPU model of the bundled table."""
    return tuple(
        GpuModel(
            model=row["model"],
            ec2_name=row["ec2_gpu_name"],
            memory_gib=float(row["memory_gib"]),
            bandwidth_gb_s=_optional(row["memory_bandwidth_gb_s"], float),
            fp16_tflops=_optional(row["fp16_tensor_tflops_dense"], float),
            fp32_tflops=_optional(row["fp32_tflops"], float),
            pcie_generation=_optional(row["pcie"].partition(" ")[0].removeprefix("gen"), int),
            pcie_lanes=_optional(row["pcie"].partition(" ")[2].removeprefix("x"), int),
        )
        for row in _rows("gpu_models.csv")
    )


@cache
def gpu_model(ec2_name: str, memory_mib: float) -> GpuModel | None:
    """The model that EC2 calls so and that has this memory; None where it is not in the table.

    By memory too, since both A100s share a name. Within 2 %, since EC2 rounds.
    """
    for model in gpu_models():
        same_memory = abs(memory_mib / 1024 / model.memory_gib - 1) < 0.02
        if ec2_name and model.ec2_name == ec2_name and same_memory:
            return model
    return None


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = files(__name__).joinpath(name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())


def _optional(text: str, convert: Callable[[str], T]) -> T | None:
    return convert(text) if text else None
