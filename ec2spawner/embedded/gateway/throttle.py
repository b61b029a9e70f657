"""AWS's token buckets for EC2's API.

Sizes and refill rates as AWS publishes them: "Request throttling for the Amazon EC2 API",
https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html, read in 2026. Each
action has a request bucket of its own, of its category's size; some also have a resource bucket
that is charged by the number of instances they name. Per account and region.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..api.protocol import EC2Error


@dataclass(frozen=True, slots=True)
class Rate:
    """A token bucket as EC2 documents them: its size and its refill in tokens per second."""

    burst: int
    per_second: int


NON_MUTATING = Rate(100, 20)
UNFILTERED = Rate(50, 10)
MUTATING = Rate(50, 5)

REQUESTS: Mapping[str, Rate] = {
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

UNFILTERED_ACTIONS = frozenset(
    (
        "DescribeInstances DescribeInstanceStatus DescribeNetworkInterfaces DescribeSecurityGroups "
        "DescribeSnapshots DescribeSpotInstanceRequests DescribeVolumes"
    ).split()
)
"""Without a filter, ids or pages these draw from a smaller bucket."""

RESOURCES: Mapping[str, Rate] = {
    "RunInstances": Rate(1000, 2),
    "StartInstances": Rate(1000, 2),
    "StopInstances": Rate(1000, 20),
    "TerminateInstances": Rate(1000, 20),
}


@dataclass
class _Bucket:
    rate: Rate
    tokens: float = field(init=False)
    filled_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = float(self.rate.burst)
        self.filled_at = 0.0

    def fill(self, now: float) -> None:
        if self.filled_at:
            gained = (now - self.filled_at) * self.rate.per_second
            self.tokens = min(float(self.rate.burst), self.tokens + gained)
        self.filled_at = now


class Throttle:
    """The buckets of one account and region."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.enabled = True
        self._clock = clock
        self._buckets: dict[tuple[str, Rate], _Bucket] = {}

    def take(self, action: str, parameters: Mapping[str, Any]) -> None:
        """Raises `RequestLimitExceeded` when a bucket lacks the tokens; then none is taken."""
        if not self.enabled:
            return
        charges = [(self._bucket("request", action, _request_rate(action, parameters)), 1)]
        if action in RESOURCES:
            named = _instances(action, parameters)
            charges.append((self._bucket("resource", action, RESOURCES[action]), named))
        if any(bucket.tokens < tokens for bucket, tokens in charges):
            raise EC2Error("RequestLimitExceeded", "Request limit exceeded.")
        for bucket, tokens in charges:
            bucket.tokens -= tokens

    def _bucket(self, kind: str, action: str, rate: Rate) -> _Bucket:
        bucket = self._buckets.setdefault((f"{kind} {action}", rate), _Bucket(rate))
        bucket.fill(self._clock())
        return bucket


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
