"""What it means when AWS refuses a call of the check."""

from __future__ import annotations

from ...aws.billing.prices import NOT_PERMITTED
from ...provisioner.model.cloud.cloud import CloudError
from ..finding import Finding, failed
from ..topics import Topic

POLICY = "give the hub's role the policy in configs/iam-policy.json"

DENIED = NOT_PERMITTED
"""EC2, IAM and the JSON services each have a word of their own for it."""

NO_RESPONSE = "check the network between the hub and AWS, and try again"


def refused(topic: Topic, error: CloudError, fix: str, *, name: str = "") -> Finding:
    """A call failed: for want of the permission, for want of an answer, or for what it asked."""
    if error.code in DENIED:
        return failed(topic, f"the hub's role may not look: {error.code}", POLICY, name=name)
    if error.retryable:
        fix = NO_RESPONSE
    return failed(topic, f"{error.code}: {error.message}", fix, name=name)
