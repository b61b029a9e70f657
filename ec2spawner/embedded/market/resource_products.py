"""Products of the price list beside instances: volumes, snapshots, public IPv4 addresses.

As on AWS, a family or group has several products: only the usage type identifies one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...core.pricing.resource_prices import (
    ADDRESS_USD_PER_HOUR,
    DISK_USD_PER_GIB_MONTH,
    GP2_USD_PER_GIB_MONTH,
    SNAPSHOT_USD_PER_GIB_MONTH,
)


class ResourceProduct(NamedTuple):
    """One product in us-east-1; usage types of EC2 have no prefix there, those of VPC have one."""

    family: str
    """AWS's product family; empty where it names none."""
    attributes: Mapping[str, str]
    unit: str
    usd: float
    description: str


def _ebs(family: str, usage: str, unit: str, usd: float, **more: str) -> ResourceProduct:
    attributes = {
        "operation": "",
        "servicecode": "AmazonEC2",
        "servicename": "Amazon Elastic Compute Cloud",
        "usagetype": usage,
        **more,
    }
    return ResourceProduct(family, attributes, unit, usd, f"${usd:g} per {unit} of {usage}")


def _address(usage: str, usd: float, words: str) -> ResourceProduct:
    attributes = {
        "group": "VPCPublicIPv4Address",
        "groupDescription": words,
        "operation": "",
        "servicecode": "AmazonVPC",
        "servicename": "Amazon Virtual Private Cloud",
        "usagetype": f"USE1-PublicIPv4:{usage}",
    }
    return ResourceProduct("", attributes, "Hrs", usd, f"${usd:g} per {words}")


RESOURCE_PRODUCTS = (
    _ebs(
        "Storage",
        "EBS:VolumeUsage.gp3",
        "GB-Mo",
        DISK_USD_PER_GIB_MONTH,
        volumeApiName="gp3",
        volumeType="General Purpose",
    ),
    _ebs(
        "Storage",
        "EBS:VolumeUsage.gp2",
        "GB-Mo",
        GP2_USD_PER_GIB_MONTH,
        volumeApiName="gp2",
        volumeType="General Purpose",
    ),
    _ebs("Storage Snapshot", "EBS:SnapshotUsage", "GB-Mo", SNAPSHOT_USD_PER_GIB_MONTH),
    _ebs("Storage Snapshot", "EBS:SnapshotArchiveStorage", "GB-Mo", 0.0125),
    _address("InUseAddress", ADDRESS_USD_PER_HOUR, "In-use public IPv4 address per hour"),
    _address("IdleAddress", ADDRESS_USD_PER_HOUR, "Idle public IPv4 address per hour"),
    _address("ContiguousBlock", 0.008, "Contiguous block public IPv4 address per hour"),
)
