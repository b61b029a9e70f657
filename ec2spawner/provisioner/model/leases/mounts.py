"""What a lease's instance mounts besides a home on EBS; the lease carries it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....wire import BucketMount, DataMount, HomeMount
from ..cloud.launch import DATA_DEVICES, LaunchSpec


@dataclass(frozen=True, slots=True)
class Mounts:
    """What an instance mounts besides the launch template's volumes."""

    efs: HomeMount | None = None
    """The home of a lease of that kind."""
    buckets: tuple[BucketMount, ...] = ()
    scratch: str = ""
    """Where the instance store goes; empty leaves it alone."""
    temporary_home: bool = False
    """Its home on EBS is made for this server alone, and deleted once the lease has ended."""


def data_mounts(spec: LaunchSpec, volumes: Mapping[str, str]) -> tuple[DataMount, ...] | None:
    """The data volumes of an instance of this spec, by what is attached to it.

    None while EC2 does not show them all yet.
    """
    wanted = dict(zip(DATA_DEVICES, spec.data_volumes, strict=False))
    if not wanted.keys() <= volumes.keys():
        return None
    return tuple(
        DataMount(volume_id=volumes[device], path=volume.path) for device, volume in wanted.items()
    )
