"""What moto's copy of EC2's tables says of instance types, and of where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ..api.protocol import EC2Error


@dataclass(frozen=True, slots=True)
class InstanceTypeFacts:
    """Of one instance type in one region."""

    vcpus: int
    architectures: tuple[str, ...]
    is_nitro: bool
    """On the Nitro hypervisor, or bare metal."""
    zones: frozenset[str]
    """Those that have it, sold out or not."""
    in_free_tier: bool
    """Whether an account on the free plan may launch it."""
    max_volumes: int
    """EBS volumes that can be attached, the root volume included."""
    fits_cluster_placement: bool
    """Whether it can be in a placement group of strategy `cluster`."""

    def check_volumes(self, number: int) -> None:
        """Raises `AttachmentLimitExceeded` for more EBS volumes than can be attached."""
        if number > self.max_volumes:
            message = f"The instance type has a limit of {self.max_volumes} attached EBS volumes."
            raise EC2Error("AttachmentLimitExceeded", message)


@cache
def instance_type_facts(instance_type: str, region: str) -> InstanceTypeFacts:
    """Raises `InvalidParameterValue` for an unknown type."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    known = INSTANCE_TYPES.get(instance_type)
    if known is None:
        raise EC2Error(
            "InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType."
        )
    return InstanceTypeFacts(
        vcpus=known["VCpuInfo"]["DefaultVCpus"],
        architectures=tuple(known["ProcessorInfo"]["SupportedArchitectures"]),
        is_nitro=known.get("Hypervisor") != "xen",
        zones=frozenset(_zones_by_type(region).get(instance_type, ())),
        in_free_tier=known["FreeTierEligible"],
        max_volumes=known["EbsInfo"]["MaximumEbsAttachments"],
        fits_cluster_placement="cluster" in known["PlacementGroupInfo"]["SupportedStrategies"],
    )


@cache
def _zones_by_type(region: str) -> Mapping[str, set[str]]:
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

    zones: dict[str, set[str]] = {}
    for offering in INSTANCE_TYPE_OFFERINGS["availability-zone"][region]:
        zones.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    return zones
