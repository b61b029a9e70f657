"""The calls that fix a finding, as values. Pure.

Only what is safe and free: nothing that starts, deletes or bills anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...core.offers.quotas import ListedQuota
from ...provisioner.model.cloud.cloud import CloudError

SPOT_SERVICE: Final = "spot.amazonaws.com"

_DONE_BEFORE: Final = frozenset(
    {
        "EntityAlreadyExists",
        "InvalidPermission.Duplicate",
        "ResourceAlreadyExistsException",  # Service Quotas: a request is open
    }
)
"""Codes of errors that mean that a repair has been made already."""

_ROLE_EXISTS: Final = "has been taken in this account"
"""In the message of IAM's InvalidInput, which has other meanings too."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One call to AWS."""

    what: str
    """As a question asks about it, such as `add a rule to sg-1`."""
    service: str
    """boto3's name of the service."""
    operation: str
    """boto3's method name."""
    parameters: Mapping[str, Any]
    command: str
    """The same with the AWS CLI, for someone with more permissions."""
    one_of: str = ""
    """Repairs with the same text here are alternatives: one of them is enough."""

    @property
    def key(self) -> tuple[str, str]:
        """Equal for repairs of the same thing."""
        target = self.parameters.get("QuotaCode") or json.dumps(self.parameters, sort_keys=True)
        return self.operation, str(target)


def spot_role() -> Repair:
    """Creates the role with which EC2 launches spot instances."""
    return Repair(
        "create the service-linked role AWSServiceRoleForEC2Spot, which the account needs once "
        "for spot instances",
        "iam",
        "create_service_linked_role",
        {"AWSServiceName": SPOT_SERVICE},
        f"aws iam create-service-linked-role --aws-service-name {SPOT_SERVICE}",
    )


def more_vcpus(quota: ListedQuota, vcpus: int, region: str) -> Repair:
    """Requests a quota increase, which AWS may take days to answer."""
    return Repair(
        f'request {vcpus} vCPUs instead of {quota.vcpus:g} for the quota "{quota.name}" '
        f"({quota.code}); AWS decides, which can take days",
        "service-quotas",
        "request_service_quota_increase",
        {"ServiceCode": "ec2", "QuotaCode": quota.code, "DesiredValue": float(vcpus)},
        f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code "
        f"{quota.code} --desired-value {vcpus} --region {region}",
    )


def done_before(error: CloudError) -> bool:
    """Whether the error means that the repair has been made already."""
    taken = error.code == "InvalidInput" and _ROLE_EXISTS in error.message
    return taken or error.code in _DONE_BEFORE


def open_port(group: str, port: int, source: str) -> Repair:
    """Adds an inbound TCP rule; `source` is a security group's id or an address with `/32`."""
    is_group = source.startswith("sg-")
    permission: dict[str, Any] = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port}
    note = "ec2spawner check"
    if is_group:
        permission["UserIdGroupPairs"] = [{"GroupId": source, "Description": note}]
    else:
        permission["IpRanges"] = [{"CidrIp": source, "Description": note}]
    option = "--source-group" if is_group else "--cidr"
    return Repair(
        f"add a rule to the security group {group}: TCP {port} from {source}",
        "ec2",
        "authorize_security_group_ingress",
        {"GroupId": group, "IpPermissions": [permission]},
        f"aws ec2 authorize-security-group-ingress --group-id {group} --protocol tcp "
        f"--port {port} {option} {source}",
    )


def merged(repairs: Iterable[Repair]) -> list[Repair]:
    """Each once; of several requests for one quota the largest."""
    found: dict[tuple[str, str], Repair] = {}
    for repair in repairs:
        before = found.get(repair.key)
        if before is None or _desired(repair) > _desired(before):
            found[repair.key] = repair
    return list(found.values())


def _desired(repair: Repair) -> float:
    return float(repair.parameters.get("DesiredValue", 0.0))
