"""What EC2's answers to calls with DryRun prove. Pure."""

from __future__ import annotations

from ...core.offers.launch_errors import PENDING_VERIFICATION
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.error_hints import fix_of, shortened
from ..finding import Finding, State, failed, ok, unproved, warning
from ..topics import Topic
from .refusals import DENIED, POLICY

DRY_RUN = "DryRunOperation"

CREATE_GROUP = "ec2:CreateSecurityGroup"
"""Only hubs with clusters make security groups."""

CREATE_PLACEMENT_GROUP = "ec2:CreatePlacementGroup"
"""Only for clusters of profiles that ask for it."""

POLICY_OF_CLUSTERS = (
    "give the hub's role the policy in configs/clusters-policy.json as well, which clusters need"
)

_OF_CLUSTERS = frozenset({CREATE_GROUP, CREATE_PLACEMENT_GROUP})


def judge_dry_run(action: str, error: CloudError | None) -> Finding:
    """What EC2 answered to a call with DryRun: it always answers with an error."""
    name = f"permission {action}"
    if error is None:
        return failed(
            Topic.PERMISSION,
            "the endpoint did not honour DryRun",
            "use AWS's own endpoint, or one that does, in c.EC2Spawner.endpoint_url",
            name=name,
        )
    if error.code == DRY_RUN:
        return ok(Topic.PERMISSION, "granted", name=name)
    if error.code in DENIED:
        role = "; with an instance profile also iam:PassRole of its role (configs/README.md)"
        fix = POLICY_OF_CLUSTERS if action in _OF_CLUSTERS else POLICY
        return failed(
            Topic.PERMISSION,
            "not granted",
            fix + (role if action == "ec2:RunInstances" else ""),
            name=name,
        )
    if error.retryable and error.code != PENDING_VERIFICATION:
        return unproved(Topic.PERMISSION, f"no answer: {error.code}", "try again", name=name)
    if error.code.startswith("InvalidLaunchTemplate"):
        return unproved(
            Topic.PERMISSION,
            "EC2 looks for the launch template first, which the first start makes",
            name=name,
        )
    said = f"EC2 refused the DryRun for another reason: {shortened(error.message)} ({error.code})"
    return unproved(Topic.PERMISSION, said, fix_of(error.code, error.message), name=name)


def judge_metrics(namespace: str) -> list[Finding]:
    """PutMetricData has no DryRun; nothing to say where no namespace is configured."""
    if not namespace:
        return []
    return [
        unproved(
            Topic.PERMISSION,
            f"for the namespace {namespace}: CloudWatch has no dry run",
            "start the hub: its log says at once if metrics do not reach CloudWatch",
            name="permission cloudwatch:PutMetricData",
        )
    ]


def judge_reservations(error: CloudError | None) -> Finding:
    """DescribeReservedInstances with DryRun: a hub works without it."""
    found = judge_dry_run("ec2:DescribeReservedInstances", error)
    if found.state is not State.FAILED:
        return found
    return warning(
        Topic.PERMISSION,
        f"{found.said}: Reserved Instances are not used first",
        POLICY,
        name=found.name,
    )
