"""What an AWS error means for a user, and what an admin can do about it. Pure."""

from __future__ import annotations

from ...core.offers.launch_errors import (
    FREE_PLAN,
    PENDING_VERIFICATION,
    ErrorClass,
    error_class,
)
from .cloud.cloud import CloudError

KMS_GRANTS = (
    "the KMS key that encrypts the disks must be enabled, and open to the hub's role and, for "
    "spot, to AWSServiceRoleForEC2Spot: `ec2spawner check` reports it as kms-key"
)
VERIFYING = (
    "AWS is still verifying the account, usually for minutes, at most for some hours. Try again "
    "later; if it takes longer, an admin can write to aws-verification@amazon.com"
)
"""The address is that in EC2's message."""

PAID_PLAN = (
    "the account is on AWS's free plan, which has no GPU and only a few small types: change to the "
    "paid plan in the AWS console, Billing and Cost Management, or start a type that `ec2spawner "
    "check` lists as account-plan"
)
LARGER_STORAGE = "ask AWS for a larger quota of disks in Service Quotas, Amazon EBS"

FIXES = (
    ("UnauthorizedOperation", "the hub's role needs the rights in configs/iam-policy.json"),
    ("AccessDenied", "the hub's role needs the rights in configs/iam-policy.json"),
    (
        "AuthFailure.ServiceLinkedRole",
        (
            "spot needs a role in the account, which is made once by `aws iam "
            "create-service-linked-role --aws-service-name spot.amazonaws.com`"
        ),
    ),
    (FREE_PLAN, PAID_PLAN),
    (PENDING_VERIFICATION, VERIFYING),
    ("Blocked", "AWS has blocked the account: ask AWS Support why"),
    (
        "OptInRequired",
        (
            "a new account is not active yet, or the image is a product of AWS Marketplace whose "
            "terms somebody has to accept: look into the AWS console"
        ),
    ),
    ("Client.InternalError", KMS_GRANTS),
    ("Client.InvalidKMSKey", KMS_GRANTS),
    ("InvalidKMSKey", KMS_GRANTS),
    ("KMSKeyNotAccessibleFault", KMS_GRANTS),
    ("NotAuthorizedForKey", KMS_GRANTS),
    ("UnrecognizedKMS", KMS_GRANTS),
    ("Client.VolumeLimitExceeded", LARGER_STORAGE),
    ("Client.InvalidSnapshot", "a snapshot of the image or of data_volumes does not exist"),
    ("AuthFailure", "the hub's AWS credentials are not valid"),
    ("ExpiredToken", "the hub's AWS credentials have expired"),
    ("NoCredentials", "the hub needs an instance role or AWS credentials"),
    ("InvalidAMIID", "c.EC2Spawner.image must mean an image of this region"),
    (
        "InvalidBlockDeviceMapping",
        "c.EC2Spawner.disk_gib must be at least the size of the image's root disk",
    ),
    ("InvalidSubnetID", "c.EC2Spawner.subnets must name subnets of this region"),
    ("InvalidGroup", "c.EC2Spawner.security_groups must name groups of the subnets' VPC"),
    ("InvalidSecurityGroup", "c.EC2Spawner.security_groups must name groups of the subnets' VPC"),
    ("InvalidIamInstanceProfile", "c.EC2Spawner.instance_profile must name one of this account"),
    ("iamInstanceProfile", "c.EC2Spawner.instance_profile must name one of this account"),
    ("InvalidKeyPair", "c.EC2Spawner.key_name must name a key pair of this region"),
    (
        "IdempotentParameterMismatch",
        "another hub may be using this hub's store; starting again may work",
    ),
    ("VolumeLimitExceeded", LARGER_STORAGE),
    (
        "ParamValidationError",
        "the hub's boto3 is older than this version needs; install ec2spawner again with pip",
    ),
)
"""The start of a code, or a parameter that EC2 names in its message, and what to do about it. The
first match applies."""

FIX = "`ec2spawner check` shows what is wrong"

OWN_CODES = frozenset({"ForeignHome"})
"""Codes of this project's own errors, whose messages name the fix themselves."""

MAX_MESSAGE = 250
"""Characters of EC2's own words: a `Stop.message` holds 500."""

AGAIN = "Please try again in a few minutes"


def fix_of(code: str, message: str) -> str:
    """What an admin can do about just this error; empty if unknown."""
    fitting = (fix for start, fix in FIXES if code.startswith(start) or start in message)
    return next(fitting, "")


def describe_error(error: CloudError) -> str:
    """EC2's answer and what to do about it, for a user who waits for the result of the call."""
    if error.code in OWN_CODES:
        return f"{error.message.rstrip('.')}. Please tell an admin"
    said = f"{shortened(error.message)} ({error.code})"
    if error.code == PENDING_VERIFICATION:
        return f"{VERIFYING} ({error.code})"
    if error.retryable or error_class(error.code) in {ErrorClass.BUSY, ErrorClass.OFFER}:
        return f"{said}. {AGAIN}"
    return f"{said}. Please tell an admin: {fix_of(error.code, error.message) or FIX}"


def shortened(message: str) -> str:
    """EC2's message on one line of at most `MAX_MESSAGE` characters.

    The encoded part of an UnauthorizedOperation would leave no room for the fix.
    """
    text = " ".join(message.split())
    return text.rstrip(".") if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 1]}…"
