"""What `ec2spawner check` reads from an account: identity, resources and permissions.

Nothing is changed. Calls that would change something use DryRun, which EC2 always answers with an
error that says whether the call would have been permitted.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from ..provisioner.model.cloud import CloudError, Interface, LaunchRequest, LaunchSpec
from .client import Answer, Client
from .interfaces import list_interfaces
from .launch import fleet_request
from .tags import literal, of_hub, to_ec2
from .templates import Template, list_templates, template_data, template_name
from .volumes import DEVICES

TRIES: Final = 3
"""Connections for one measurement, of which the fastest counts."""

CONNECT_TIMEOUT: Final = 3.0
"""Seconds for one connection, including the DNS look-up."""

MAX_VOLUME_GIB: Final = 16384
"""EBS's limit for a gp3 volume: the size to which the DryRun pretends to grow one."""

TRIAL_DISK_GIB: Final = 8
"""GiB of the volume that the DryRun pretends to create."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The AWS identity of the hub's credentials."""

    account_id: str
    arn: str


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet of the configuration, with its number of free addresses."""

    subnet_id: str
    zone: str
    vpc_id: str
    free_addresses: int


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    """A security group of the configuration."""

    group_id: str
    name: str
    vpc_id: str


@dataclass(frozen=True, slots=True)
class MountTarget:
    """Where instances of a zone mount an EFS file system."""

    zone: str
    vpc_id: str


class Account:
    """Every method raises `CloudError`, except the DryRun methods, which return it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def caller(self) -> Caller:
        """Who the credentials belong to (`sts:GetCallerIdentity`, which needs no permission)."""
        return await self._client.call(
            "get_caller_identity",
            lambda answer: Caller(answer["Account"], answer["Arn"]),
            service="sts",
        )

    async def subnets(self, subnet_ids: Sequence[str]) -> tuple[Subnet, ...]:
        """The subnets with these ids, in EC2's order. Raises `CloudError` if one does not exist."""
        return await self._client.call(
            "describe_subnets", _subnets, SubnetIds=list(dict.fromkeys(subnet_ids))
        )

    async def security_groups(self, group_ids: Sequence[str]) -> tuple[SecurityGroup, ...]:
        """The groups with these ids. Raises `CloudError` if one does not exist."""
        return await self._client.call(
            "describe_security_groups", _security_groups, GroupIds=list(dict.fromkeys(group_ids))
        )

    async def instance_profile(self, name: str) -> str:
        """Its ARN. Raises `CloudError("NoSuchEntity", ...)` if there is none."""
        return await self._client.call(
            "get_instance_profile",
            lambda answer: str(answer["InstanceProfile"]["Arn"]),
            service="iam",
            InstanceProfileName=name.rpartition("/")[2],
        )

    async def key_pair(self, name: str) -> str:
        """Its fingerprint. Raises `CloudError("InvalidKeyPair.NotFound", ...)`."""
        return await self._client.call(
            "describe_key_pairs",
            lambda answer: str(answer["KeyPairs"][0].get("KeyFingerprint", "")),
            KeyNames=[name],
        )

    async def quotas(self) -> Mapping[str, float]:
        """Quota code -> value; for vCPU quotas, the vCPUs that may run at the same time."""
        return dict(
            await self._client.pages(
                "list_service_quotas",
                lambda answer: [(q["QuotaCode"], float(q["Value"])) for q in answer["Quotas"]],
                service="service-quotas",
                ServiceCode="ec2",
            )
        )

    async def templates(self, hub: str) -> Sequence[Template]:
        """The hub's launch templates, of any of its stores."""
        return await list_templates(self._client, of_hub(hub))

    async def interfaces(self, hub: str) -> Sequence[Interface]:
        """The hub's network interfaces, including those of its instances."""
        return await list_interfaces(self._client, hub)

    async def mount_targets(self, file_system: str) -> Sequence[MountTarget]:
        """Of an EFS file system that this region has; none where it does not exist.

        Read from EC2, whose network interfaces carry EFS's description: that needs no permission
        beyond the hub's. Unlike EFS, it cannot distinguish a file system
        without mount targets from none, and neither can be mounted.
        """
        return await self._client.pages(
            "describe_network_interfaces",
            _mount_targets,
            Filters=[
                {
                    "Name": "description",
                    "Values": [f"EFS mount target for {literal(file_system)} (fsmt-*)"],
                }
            ],
        )

    async def zones(self) -> Sequence[str]:
        """The availability zones of the region that the account may use."""
        return await self._client.call(
            "describe_availability_zones",
            lambda answer: sorted(zone["ZoneName"] for zone in answer["AvailabilityZones"]),
            Filters=[
                {"Name": "state", "Values": ["available"]},
                {"Name": "zone-type", "Values": ["availability-zone"]},
            ],
        )

    async def round_trip_ms(self) -> float | None:
        """Milliseconds to the region's EC2 endpoint and back; None if it is unreachable.

        The shortest of a few TCP connections: one round trip each, without a request.
        """
        url = urlsplit(await self._client.endpoint())
        port = url.port or (443 if url.scheme == "https" else 80)
        tries = [await _connect_ms(url.hostname or "", port) for _ in range(TRIES)]
        return min((ms for ms in tries if ms is not None), default=None)

    # --- DryRuns: the error of EC2, None if the call would be permitted ---------------------------

    async def try_fleet(self, request: LaunchRequest, template: str = "") -> CloudError | None:
        """DryRun of a launch from this template, or from the one that the request would create."""
        made = template_name(template_data(request.spec, "/dev/sda1", request.tags))
        return await self._try("create_fleet", **fleet_request(request, template or made))

    async def try_instance(
        self, spec: LaunchSpec, instance_type: str, tags: Mapping[str, str]
    ) -> CloudError | None:
        """EC2 authorizes a fleet's launch as RunInstances, including image, network and role."""
        data = template_data(spec, "/dev/sda1", tags)
        interface = {"DeviceIndex": 0, "SubnetId": spec.subnets[0]}
        if spec.security_groups:
            interface["Groups"] = data.pop("SecurityGroupIds")
        copied = ("ImageId", "IamInstanceProfile", "KeyName", "MetadataOptions", "UserData")
        launch = {key: data[key] for key in copied if key in data}
        if "UserData" in launch:
            launch["UserData"] = spec.user_data  # boto3 encodes this one itself
        return await self._try(
            "run_instances",
            MinCount=1,
            MaxCount=1,
            InstanceType=instance_type,
            NetworkInterfaces=[interface],
            TagSpecifications=_tagged(("instance", "volume", "network-interface"), tags),
            **launch,
        )

    async def try_template(self, spec: LaunchSpec, tags: Mapping[str, str]) -> CloudError | None:
        """DryRun of the launch template that a start with `spec` creates."""
        data = template_data(spec, "/dev/sda1", tags)
        return await self._try(
            "create_launch_template",
            LaunchTemplateName=template_name(data),
            LaunchTemplateData=data,
            TagSpecifications=_tagged(("launch-template",), tags),
        )

    async def try_delete_template(self, template_id: str) -> CloudError | None:
        """DryRun. The template must exist: permission depends on its tags."""
        return await self._try("delete_launch_template", LaunchTemplateId=template_id)

    async def try_reservations(self) -> CloudError | None:
        """DryRun of reading Reserved Instances, a permission that a hub does not need."""
        return await self._try("describe_reserved_instances")

    async def try_volume(self, zone: str, tags: Mapping[str, str]) -> CloudError | None:
        """DryRun of an encrypted gp3 volume in `zone`, as for a new home."""
        return await self._try(
            "create_volume",
            AvailabilityZone=zone,
            Size=TRIAL_DISK_GIB,
            VolumeType="gp3",
            Encrypted=True,
            TagSpecifications=_tagged(("volume",), tags),
        )

    async def try_grow(self, volume_id: str) -> CloudError | None:
        """DryRun of growing a volume to `MAX_VOLUME_GIB`."""
        return await self._try("modify_volume", VolumeId=volume_id, Size=MAX_VOLUME_GIB)

    async def try_snapshot(self, volume_id: str, tags: Mapping[str, str]) -> CloudError | None:
        """DryRun of a snapshot of an existing volume."""
        return await self._try(
            "create_snapshot", VolumeId=volume_id, TagSpecifications=_tagged(("snapshot",), tags)
        )

    async def try_delete_snapshot(self, snapshot_id: str) -> CloudError | None:
        """DryRun. The snapshot must exist: permission depends on its tags."""
        return await self._try("delete_snapshot", SnapshotId=snapshot_id)

    async def try_delete_volume(self, volume_id: str) -> CloudError | None:
        """DryRun. The volume must exist: permission depends on its tags."""
        return await self._try("delete_volume", VolumeId=volume_id)

    async def try_tags(self, resource_id: str, tags: Mapping[str, str]) -> CloudError | None:
        """DryRun of setting `tags` on an existing resource."""
        return await self._try("create_tags", Resources=[resource_id], Tags=to_ec2(tags))

    async def try_terminate(self, instance_id: str) -> CloudError | None:
        """DryRun. The instance must exist: permission depends on its tags."""
        return await self._try("terminate_instances", InstanceIds=[instance_id])

    async def try_stop(self, instance_id: str) -> CloudError | None:
        """DryRun. The instance must exist: permission depends on its tags."""
        return await self._try("stop_instances", InstanceIds=[instance_id])

    async def try_start(self, instance_id: str) -> CloudError | None:
        """DryRun. The instance must exist: permission depends on its tags."""
        return await self._try("start_instances", InstanceIds=[instance_id])

    async def try_attach(self, volume_id: str, instance_id: str) -> CloudError | None:
        """DryRun with an existing volume and instance, at the first device name."""
        return await self._try(
            "attach_volume", VolumeId=volume_id, InstanceId=instance_id, Device=DEVICES[0]
        )

    async def try_detach(self, volume_id: str, instance_id: str) -> CloudError | None:
        """DryRun with an existing volume and instance."""
        return await self._try("detach_volume", VolumeId=volume_id, InstanceId=instance_id)

    async def try_console(self, instance_id: str) -> CloudError | None:
        """DryRun of reading the boot log of an existing instance."""
        return await self._try("get_console_output", InstanceId=instance_id)

    async def try_delete_interface(self, interface_id: str) -> CloudError | None:
        """DryRun. The interface must exist: permission depends on its tags."""
        return await self._try("delete_network_interface", NetworkInterfaceId=interface_id)

    async def _try(self, operation: str, **parameters: Any) -> CloudError | None:
        try:
            await self._client.call(
                operation, lambda _: None, attempts=1, DryRun=True, **parameters
            )
        except CloudError as error:
            return error
        return None


def known_regions() -> frozenset[str]:
    """Regions of all partitions that this version of botocore knows; newer ones work too."""
    from botocore.session import get_session

    session = get_session()
    partitions = session.get_available_partitions()
    return frozenset(r for p in partitions for r in session.get_available_regions("ec2", p))


async def _connect_ms(host: str, port: int) -> float | None:
    """Milliseconds of one TCP connection, without the DNS look-up."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            began = loop.time()
            _, writer = await asyncio.open_connection(*found[0][4][:2])
            taken = loop.time() - began
    except (OSError, TimeoutError):
        return None
    writer.close()
    return 1000 * taken


def _subnets(answer: Answer) -> tuple[Subnet, ...]:
    return tuple(
        Subnet(
            subnet["SubnetId"],
            subnet["AvailabilityZone"],
            subnet["VpcId"],
            int(subnet["AvailableIpAddressCount"]),
        )
        for subnet in answer["Subnets"]
    )


def _security_groups(answer: Answer) -> tuple[SecurityGroup, ...]:
    return tuple(
        SecurityGroup(group["GroupId"], group.get("GroupName", ""), group["VpcId"])
        for group in answer["SecurityGroups"]
    )


def _mount_targets(answer: Answer) -> Sequence[MountTarget]:
    return [
        MountTarget(interface["AvailabilityZone"], interface["VpcId"])
        for interface in answer["NetworkInterfaces"]
    ]


def _tagged(kinds: Sequence[str], tags: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": to_ec2(tags)} for kind in kinds]
