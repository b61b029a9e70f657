"""AWS's token buckets for EC2's API: which ones a request draws from, and how much. Pure.

Sizes and refill rates as AWS publishes them: "Request throttling for the Amazon EC2 API",
https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html, read in November 2026. Each
action has a request bucket of its own, of its category's size; some also have a resource bucket
that is charged by the number of instances they name. They are those of an account in a region,
whoever calls. The hub waits by them, and the embedded EC2 throttles by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .rate_limit import Rate

NON_MUTATING: Final = Rate(100, 20)
UNFILTERED: Final = Rate(50, 10)
MUTATING: Final = Rate(50, 5)

REQUESTS: Final[Mapping[str, Rate]] = {
    "RunInstances": Rate(5, 2),
    "StartInstances": Rate(5, 2),
    "TerminateInstances": Rate(100, 5),
    "CreateTags": Rate(100, 10),
    "CreateVolume": Rate(100, 5),
    "DeleteVolume": Rate(100, 5),
    "CreateSnapshot": Rate(100, 5),
    "CreateLaunchTemplateVersion": Rate(100, 5),
    "CreateNetworkInterface": Rate(100, 5),
}
"""Actions with a bucket of their own size."""

UNFILTERED_ACTIONS: Final = frozenset(
    (
        "DescribeInstances DescribeInstanceStatus DescribeNetworkInterfaces DescribeSecurityGroups "
        "DescribeSnapshots DescribeSpotInstanceRequests DescribeVolumes"
    ).split()
)
"""Without a filter, ids or pages these draw from a smaller bucket."""

RESOURCES: Final[Mapping[str, Rate]] = {
    "RunInstances": Rate(1000, 2),
    "StartInstances": Rate(1000, 2),
    "StopInstances": Rate(1000, 20),
    "TerminateInstances": Rate(1000, 20),
}
"""Per instance."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What a request takes from one bucket."""

    bucket: str
    """Its name. No two actions share one."""
    rate: Rate
    tokens: int


def charges(action: str, parameters: Mapping[str, Any]) -> tuple[Charge, ...]:
    """What a request takes: first from its request bucket, then from its resource bucket, where
    the action has one. EC2 takes all or, where one lacks the tokens, refuses the request."""
    rate = _request_rate(action, parameters)
    kind = "unfiltered " if rate is UNFILTERED else ""
    request = Charge(f"{kind}{action}", rate, 1)
    if action not in RESOURCES:
        return (request,)
    instances = _instances(action, parameters)
    return request, Charge(f"instances of {action}", RESOURCES[action], instances)


def _request_rate(action: str, parameters: Mapping[str, Any]) -> Rate:
    if action in REQUESTS:
        return REQUESTS[action]
    if not action.startswith(("Describe", "Get", "List", "Search")):
        return MUTATING
    narrowed = any(name.endswith("Ids") for name in parameters) or any(
        parameters.get(name) for name in ("Filters", "MaxResults", "NextToken")
    )
    return UNFILTERED if action in UNFILTERED_ACTIONS and not narrowed else NON_MUTATING


def _instances(action: str, parameters: Mapping[str, Any]) -> int:
    if action == "RunInstances":
        return int(parameters.get("MaxCount", 1))
    return len(parameters.get("InstanceIds", ()))
