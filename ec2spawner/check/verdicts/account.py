"""The clock, the role for spot instances, the account's plan and the KMS key. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final

from ...core.profiles.profiles import InstanceType
from ...provisioner.model.cloud.cloud import CloudError
from ..facts.account import SPOT_ROLE, AccountPlan
from ..finding import Finding, failed, ok, unproved, warning
from ..repairs.plan import spot_role
from ..topics import Topic
from .refusals import DENIED

MAX_SKEW: Final = 300.0
"""Seconds after which AWS refuses a signature (Signature Version 4)."""

NOTABLE_SKEW: Final = 5.0
"""Seconds from which something keeps no time: NTP is within one, and the header has whole ones."""

PAID_PLAN: Final = (
    "change to the paid plan in the AWS console, Billing and Cost Management; credits that are "
    "left stay valid"
)
"""The fix where the account is on AWS's free plan."""

AWS_KEY: Final = "alias/aws/ebs"
"""AWS's own key for EBS, which every service of AWS may use."""


def judge_clock(skew: float | None) -> Finding | None:
    """`skew`: seconds by which this machine is ahead of AWS; None if unknown: no finding then."""
    if skew is None:
        return None
    off = abs(skew)
    said = f"{off:.0f} s {'ahead of' if skew > 0 else 'behind'} AWS's"
    fix = "let chrony or systemd-timesyncd set the clock: timedatectl set-ntp true"
    if off > MAX_SKEW:
        return failed(Topic.CLOCK, f"{said}: AWS refuses signatures of calls beyond 300 s", fix)
    if off > NOTABLE_SKEW:
        return warning(Topic.CLOCK, f"{said}: beyond 300 s AWS refuses every call", fix)
    return ok(Topic.CLOCK, f"within {NOTABLE_SKEW:.0f} s of AWS's")


def judge_spot_role(answer: bool | CloudError, spot_only: Sequence[str]) -> Finding:
    """Whether the account has the role that EC2 needs for spot instances, or why this is unknown.

    `spot_only`: the profiles that cannot fall back on on-demand. EC2 creates the role itself with
    the first spot request of someone who may create it; a hub may not.
    """
    repair = spot_role()
    fix = f"{repair.command}, once for each account"
    if isinstance(answer, CloudError):
        if answer.code in DENIED:
            said = f"whether the account has {SPOT_ROLE} may not be read: {answer.code}"
        else:
            said = f"whether the account has {SPOT_ROLE} is unknown: {answer.code}"
        return unproved(Topic.SPOT_ROLE, said, fix)
    if answer:
        return ok(Topic.SPOT_ROLE, SPOT_ROLE)
    said = f"the account has no {SPOT_ROLE}, so EC2 launches no spot instance"
    if spot_only:
        said = f"{said}: {', '.join(spot_only)} cannot start"
        return failed(Topic.SPOT_ROLE, said, fix, repairs=[repair])
    said = f"{said}: all servers run on demand, which costs more"
    return warning(Topic.SPOT_ROLE, said, fix, repairs=[repair])


def judge_plan(
    answer: AccountPlan | CloudError,
    free_types: Set[str],
    profiles: Mapping[str, Sequence[InstanceType]],
) -> Finding:
    """Whether the account's plan lets EC2 launch what the profiles ask for.

    `free_types` are the types that a free plan may launch, `profiles` those of each profile, by its
    name. EC2's DryRun does not notice it.
    """
    if isinstance(answer, CloudError):
        return _plan_unknown(answer)
    if not answer.is_free:
        return ok(Topic.ACCOUNT_PLAN, f"AWS's paid plan ({answer.status})")
    left = "" if answer.credits_usd is None else f", {answer.credits_usd:.2f} USD of credits left"
    until = "" if answer.ends_at is None else f", until {answer.ends_at:%Y-%m-%d}"
    may = ", ".join(sorted(free_types)) or "no type of this region"
    said = f"AWS's free plan ({answer.status}{left}{until}), which launches only {may}"
    without = [
        name
        for name, types in profiles.items()
        if types and free_types.isdisjoint(kind.name for kind in types)
    ]
    if not without:
        return warning(
            Topic.ACCOUNT_PLAN, f"{said}; AWS closes the account when the plan ends", PAID_PLAN
        )
    said = f'{said}; EC2 refuses others as "not eligible for Free Tier"'
    return failed(Topic.ACCOUNT_PLAN, f"{said}: {', '.join(without)} cannot start", PAID_PLAN)


def _plan_unknown(error: CloudError) -> Finding:
    if error.code == "ResourceNotFoundException":
        said = "none: the account is of an organization, or older than AWS's plans"
        return ok(Topic.ACCOUNT_PLAN, said)
    fix = "look in the AWS console, Billing and Cost Management"
    if error.code in DENIED:
        said = f"whether the account is on AWS's free plan may not be read: {error.code}"
        fix = f"give the hub's role freetier:GetAccountPlanState, or {fix}"
        return unproved(Topic.ACCOUNT_PLAN, said, fix)
    said = f"whether the account is on AWS's free plan is unknown: {error.code}"
    return unproved(Topic.ACCOUNT_PLAN, said, fix)


def judge_kms_key(configured: str, default: str | CloudError, *, spot: bool) -> Finding | None:
    """What a customer's own KMS key needs; None where AWS's key is used.

    `configured`: `kms_key` of homes; `default`: the account's key for new volumes.
    """
    if isinstance(default, CloudError) and not configured:
        said = f"the account's default key for EBS cannot be read: {default.code}"
        return unproved(Topic.KMS_KEY, said, "give the hub's role ec2:GetEbsDefaultKmsKeyId")
    own = [key for key in (configured, default) if isinstance(key, str) and key]
    keys = sorted({key for key in own if not key.endswith(AWS_KEY)})
    if not keys:
        return None
    said = (
        f"volumes are encrypted with {', '.join(keys)}: a key policy that is too narrow "
        "shows only in instances that EC2 terminates at once (Client.InternalError)"
    )
    fix = (
        "let the hub's role use the key: kms:Decrypt, kms:GenerateDataKeyWithoutPlaintext, "
        "kms:ReEncrypt*, kms:DescribeKey, kms:CreateGrant"
    )
    if spot:
        fix = (
            f"{fix}; and grant {SPOT_ROLE} the same operations: aws kms create-grant --key-id "
            "<key> --grantee-principal arn:aws:iam::<account>:role/aws-service-role/"
            f"spot.amazonaws.com/{SPOT_ROLE} --operations Decrypt Encrypt GenerateDataKey "
            "GenerateDataKeyWithoutPlaintext ReEncryptFrom ReEncryptTo CreateGrant DescribeKey"
        )
    return unproved(Topic.KMS_KEY, said, fix)
