"""Types, sizes and performance of EBS volumes, from the API reference of CreateVolume, 2026."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..api.protocol import EC2Error

DEFAULT_TYPE = "gp2"


@dataclass(frozen=True, slots=True)
class VolumeType:
    """Inclusive bounds of one type; None cannot be chosen."""

    gib: tuple[int, int]
    iops: tuple[int, int] | None = None
    needs_iops: bool = False
    mib_per_second: tuple[int, int] | None = None


TYPES: Mapping[str, VolumeType] = {
    "gp2": VolumeType((1, 16_384)),
    "gp3": VolumeType((1, 65_536), iops=(3_000, 80_000), mib_per_second=(125, 2_000)),
    "io1": VolumeType((4, 16_384), iops=(100, 64_000), needs_iops=True),
    "io2": VolumeType((4, 65_536), iops=(100, 256_000), needs_iops=True),
    "sc1": VolumeType((125, 16_384)),
    "st1": VolumeType((125, 16_384)),
    "standard": VolumeType((1, 1_024)),
}


def check_volume(parameters: Mapping[str, Any]) -> None:
    """CreateVolume's checks that need neither zone nor snapshot. Raises its errors."""
    name = parameters.get("VolumeType") or DEFAULT_TYPE
    kind = TYPES.get(name)
    if kind is None:
        raise EC2Error(
            "UnknownVolumeType", f"Unsupported volume type '{name}' for volume creation."
        )
    size = parameters.get("Size")
    if size is not None:
        check_size(name, size)
    elif not parameters.get("SnapshotId"):
        raise EC2Error("MissingParameter", "The request must contain the parameter size/snapshot")
    _check_chosen("iops", parameters.get("Iops"), kind.iops, name)
    _check_chosen("throughput", parameters.get("Throughput"), kind.mib_per_second, name)
    if kind.needs_iops and parameters.get("Iops") is None:
        raise EC2Error("MissingParameter", "The request must contain the parameter iops")


def check_size(name: str, size_gib: int) -> None:
    """Raises `InvalidParameterValue` for a size out of the bounds of the type, one of `TYPES`."""
    least, most = TYPES[name].gib
    if least <= size_gib <= most:
        return
    bound, side = (
        (f"at least {least}", "above the minimum")
        if size_gib < least
        else (f"at most {most}", "below the maximum")
    )
    raise EC2Error(
        "InvalidParameterValue",
        f"The volume size is invalid for {name} volumes: {size_gib} GiB. {name} volumes must be "
        f"{bound} GiB in size. Please specify a volume size {side} limit.",
    )


def _check_chosen(what: str, chosen: int | None, bounds: tuple[int, int] | None, name: str) -> None:
    if chosen is None:
        return
    if bounds is None:
        raise EC2Error(
            "InvalidParameterCombination",
            f"The parameter {what} is not supported for {name} volumes.",
        )
    least, most = bounds
    if not least <= chosen <= most:
        raise EC2Error(
            "InvalidParameterValue",
            f"Volume {what} of {chosen} is invalid for {name} volumes: {least} to {most}.",
        )
