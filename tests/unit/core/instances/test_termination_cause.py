"""What a StateReason says of the next instance."""

from __future__ import annotations

import pytest

from ec2spawner.core.instances.termination_cause import Cause, termination_cause


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("Client.InternalError", Cause.REFUSED),
        ("Client.InvalidSnapshot.NotFound", Cause.REFUSED),
        ("Client.VolumeLimitExceeded", Cause.REFUSED),
        ("Client.InvalidKMSKey.InvalidState", Cause.REFUSED),
        ("Client.UserInitiatedShutdown", Cause.OTHER),
        ("Client.InstanceInitiatedShutdown", Cause.OTHER),
        ("Server.InsufficientInstanceCapacity", Cause.CAPACITY),
        ("Server.InternalError", Cause.CAPACITY),
        ("Server.SpotInstanceTermination", Cause.OTHER),
        ("Server.ScheduledStop", Cause.OTHER),
        ("", Cause.OTHER),
    ],
)
def test_the_cause_of_each_code(code: str, cause: Cause) -> None:
    assert termination_cause(code) is cause
