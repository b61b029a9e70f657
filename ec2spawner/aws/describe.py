"""Listings of EC2 resources as this project's values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any

from ..provisioner.model.cloud import CloudError, Instance, InstanceState
from ..wire import Market
from .client import Answer, Client
from .tags import from_ec2, of_hub


async def list_instances(client: Client, hub: str) -> list[Instance]:
    """Every instance with the hub's tag, in any state. Raises `CloudError` unless complete."""
    found = await client.pages("describe_instances", _instances, Filters=of_hub(hub))
    # The list can change between two pages and show an instance on both.
    return list({instance.instance_id: instance for instance in found}.values())


async def zones_of(client: Client, subnets: Sequence[str]) -> dict[str, str]:
    """Subnet id -> availability zone."""
    return dict(
        await client.call(
            "describe_subnets",
            lambda answer: [
                (subnet["SubnetId"], subnet["AvailabilityZone"]) for subnet in answer["Subnets"]
            ],
            SubnetIds=list(subnets),
        )
    )


async def root_device_of(client: Client, image_id: str) -> str:
    """Device name of the image's root disk, such as `/dev/sda1`.

    Raises `CloudError("InvalidAMIID.NotFound", ...)` if there is no such image.
    """
    names = await client.call(
        "describe_images",
        lambda answer: [image.get("RootDeviceName") for image in answer["Images"]],
        ImageIds=[image_id],
        IncludeDeprecated=True,
    )
    if not names or not names[0]:
        message = f"image {image_id} does not exist in this region or has no root device"
        raise CloudError("InvalidAMIID.NotFound", message, retryable=False)
    return str(names[0])


def _instances(answer: Answer) -> Sequence[Instance]:
    return list(_each_instance(answer))


def _each_instance(answer: Answer) -> Iterator[Instance]:
    for reservation in answer["Reservations"]:
        for instance in reservation["Instances"]:
            yield _instance(instance, reservation.get("OwnerId", ""))


def _instance(instance: Mapping[str, Any], account_id: str) -> Instance:
    return Instance(
        instance_id=instance["InstanceId"],
        state=InstanceState(instance["State"]["Name"]),
        instance_type=instance["InstanceType"],
        zone=instance.get("Placement", {}).get("AvailabilityZone", ""),
        market=Market.SPOT if instance.get("InstanceLifecycle") == "spot" else Market.ON_DEMAND,
        launched_at=instance["LaunchTime"].astimezone(UTC),
        private_address=instance.get("PrivateIpAddress") or None,
        state_reason=instance.get("StateReason", {}).get("Code") or "",
        account_id=account_id,
        tags=from_ec2(instance),
        volumes={
            mapping["DeviceName"]: mapping["Ebs"]["VolumeId"]
            for mapping in instance.get("BlockDeviceMappings", ())
            if "VolumeId" in mapping.get("Ebs", {})
        },
    )
