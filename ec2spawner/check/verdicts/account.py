"""The clock, the role for spot instances and the KMS key. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...provisioner.model.cloud.cloud import CloudError
from ..facts.account import SPOT_ROLE
from ..finding import Finding, failed, ok, unproved, warning
from ..repairs.plan import spot_role
from ..topics import Topic
from .refusals import DENIED

MAX_SKEW: Final = 300.0
"""Seconds after which AWS refuses a signature (Signature Version 4)."""

NOTABLE_SKEW: Final = 5.0
"""Seconds from which something keeps no time: NTP is within one, and the header has whole ones."""

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
