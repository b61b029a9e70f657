"""Identity, roles, quotas and zones of an account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ...aws.calls.client import Answer, Client, entries
from ...aws.compute.quotas import list_quotas
from ...aws.tags import literal
from ...core.offers.quotas import ListedQuota
from ...provisioner.model.cloud.cloud import CloudError

SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"
"""EC2 creates it with an account's first spot request, where the caller may."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The AWS identity of the hub's credentials."""

    account_id: str
    arn: str


@dataclass(frozen=True, slots=True)
class AccountPlan:
    """The account's plan with AWS: new accounts since July 2025 begin with a free one."""

    is_free: bool
    status: str
    """AWS's word: `NOT_STARTED`, `ACTIVE` or `EXPIRED`."""
    credits_usd: float | None = None
    """Credits that are left; None if AWS does not say."""
    ends_at: datetime | None = None
    """UTC; of a free plan."""


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

    async def instance_profile(self, name: str) -> str:
        """Its ARN. Raises `CloudError("NoSuchEntity", ...)` if there is none."""
        return await self._client.call(
            "get_instance_profile",
            lambda answer: str(answer["InstanceProfile"]["Arn"]),
            service="iam",
            InstanceProfileName=name.rpartition("/")[2],
        )

    async def has_spot_role(self) -> bool:
        """Whether the account has the role with which EC2 launches spot instances."""
        try:
            await self._client.call("get_role", lambda _: None, service="iam", RoleName=SPOT_ROLE)
        except CloudError as error:
            if error.code != "NoSuchEntity":
                raise
            return False
        return True

    async def ebs_key(self) -> str:
        """The KMS key of new volumes that name none: `alias/aws/ebs` is AWS's own."""
        return await self._client.call(
            "get_ebs_default_kms_key_id", lambda answer: str(answer["KmsKeyId"])
        )

    async def key_pair(self, name: str) -> str:
        """Its fingerprint. Raises `CloudError("InvalidKeyPair.NotFound", ...)`."""
        return await self._client.call(
            "describe_key_pairs",
            lambda answer: str(answer["KeyPairs"][0].get("KeyFingerprint", "")),
            KeyNames=[name],
        )

    async def plan(self) -> AccountPlan:
        """The account's plan. Raises `CloudError("ResourceNotFoundException", ...)` for an account
        without one: of an organization, or older than plans."""
        return await self._client.call("get_account_plan_state", _plan, service="freetier")

    async def free_types(self) -> frozenset[str]:
        """Names of the instance types that an account on the free plan may launch."""
        return frozenset(
            await self._client.pages(
                "describe_instance_types",
                entries("InstanceTypes", lambda kind: str(kind["InstanceType"])),
                Filters=[{"Name": "free-tier-eligible", "Values": ["true"]}],
            )
        )

    async def quotas(self) -> Sequence[ListedQuota]:
        """EC2's quotas of the account and region, as Service Quotas lists them."""
        return await list_quotas(self._client)

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

    async def snapshot_state(self, snapshot: str) -> str:
        """EC2's word, such as `completed`. Raises `CloudError("InvalidSnapshot.NotFound", ...)`,
        also for one of another account that is not shared with this one."""
        return await self._client.call(
            "describe_snapshots",
            lambda answer: str(answer["Snapshots"][0]["State"]),
            SnapshotIds=[snapshot],
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


def _plan(answer: Answer) -> AccountPlan:
    credit = answer.get("accountPlanRemainingCredits", {})
    return AccountPlan(
        is_free=answer["accountPlanType"] == "FREE",
        status=answer["accountPlanStatus"],
        credits_usd=float(credit["amount"]) if credit.get("unit") == "USD" else None,
        ends_at=answer.get("accountPlanExpirationDate"),
    )


def _mount_target(interface: Answer) -> MountTarget:
    return MountTarget(interface["AvailabilityZone"], interface["VpcId"])
