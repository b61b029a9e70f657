"""What `ec2spawner check` reads from an account: identity, network, role, quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..aws.client import Answer, Client, entries
from ..aws.tags import literal


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
    """Reads one region of an account. Every method raises `CloudError`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def caller(self) -> Caller:
        """Who the credentials belong to (`sts:GetCallerIdentity`, which needs no permission)."""
        return await self._client.call(
            "get_caller_identity",
            lambda answer: Caller(answer["Account"], answer["Arn"]),
            service="sts",
        )

    async def subnets(self, subnet_ids: Sequence[str]) -> Sequence[Subnet]:
        """The subnets with these ids, in EC2's order. Raises `CloudError` if one does not exist."""
        return await self._client.call(
            "describe_subnets",
            entries("Subnets", _subnet),
            SubnetIds=list(dict.fromkeys(subnet_ids)),
        )

    async def security_groups(self, group_ids: Sequence[str]) -> Sequence[SecurityGroup]:
        """The groups with these ids. Raises `CloudError` if one does not exist."""
        return await self._client.call(
            "describe_security_groups",
            entries("SecurityGroups", _security_group),
            GroupIds=list(dict.fromkeys(group_ids)),
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
                entries("Quotas", lambda quota: (quota["QuotaCode"], float(quota["Value"]))),
                service="service-quotas",
                ServiceCode="ec2",
            )
        )

    async def mount_targets(self, file_system: str) -> Sequence[MountTarget]:
        """Of an EFS file system that this region has; none where it does not exist.

        Read from EC2, whose network interfaces carry EFS's description: that needs no permission
        beyond the hub's. Unlike EFS, it cannot distinguish a file system without mount targets from
        none, and neither can be mounted.
        """
        return await self._client.pages(
            "describe_network_interfaces",
            entries("NetworkInterfaces", _mount_target),
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


def _subnet(subnet: Answer) -> Subnet:
    return Subnet(
        subnet["SubnetId"],
        subnet["AvailabilityZone"],
        subnet["VpcId"],
        int(subnet["AvailableIpAddressCount"]),
    )


def _security_group(group: Answer) -> SecurityGroup:
    return SecurityGroup(group["GroupId"], group.get("GroupName", ""), group["VpcId"])


def _mount_target(interface: Answer) -> MountTarget:
    return MountTarget(interface["AvailabilityZone"], interface["VpcId"])
