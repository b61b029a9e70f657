"""The message about an AWS error names the fix, however long EC2's own message is."""

from __future__ import annotations

import pytest

from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.error_hints import AGAIN, FIX, describe_error


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InsufficientVolumeCapacity"])
def test_transient_errors_suggest_another_try(code: str) -> None:
    said = describe_error(CloudError(code, "Not now.", retryable=code == "RequestLimitExceeded"))
    assert said == f"Not now ({code}). {AGAIN}"


@pytest.mark.parametrize(
    ("code", "message", "fix"),
    [
        ("UnauthorizedOperation", "You may not.", "configs/iam-policy.json"),
        ("AccessDeniedException", "You may not.", "configs/iam-policy.json"),
        ("InvalidParameterValue", "Value (x) for iamInstanceProfile", "c.EC2Spawner.instance_p"),
        ("InvalidParameterCombination.FreeTier", "Not eligible.", "paid plan"),
        ("Blocked", "Your account is currently blocked.", "AWS Support"),
        ("OptInRequired", "You are not subscribed to this service.", "not active yet"),
        ("NobodyHasHeardOfThis", "Something else.", FIX),
    ],
)
def test_refusals_are_for_an_admin(code: str, message: str, fix: str) -> None:
    said = describe_error(CloudError(code, message, retryable=False))
    assert "Please tell an admin: " in said
    assert fix in said
    assert code in said


def test_a_verification_is_no_fault_of_the_configuration() -> None:
    """EC2's own words have 400 characters, of which a user would read the first half."""
    error = CloudError("PendingVerification", "Your request is being validated", retryable=True)
    said = describe_error(error)
    assert "still verifying the account" in said
    assert "some hours" in said
    assert "PendingVerification" in said


def test_a_long_message_leaves_room_for_the_fix() -> None:
    """EC2 adds an encoded part of some 700 characters to an UnauthorizedOperation."""
    long = f"You may not.\n Encoded authorization failure message: {'x' * 900}"
    said = describe_error(CloudError("UnauthorizedOperation", long, retryable=False))
    assert said.endswith("configs/iam-policy.json")
    assert len(said) < 450


def test_our_own_words_stay_whole() -> None:
    said = describe_error(
        CloudError("ForeignHome", f"vol-1 {'y' * 300} restart the hub", retryable=False)
    )
    assert said.endswith("restart the hub. Please tell an admin")
