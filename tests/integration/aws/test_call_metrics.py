"""Calls to AWS are counted by what became of them, and every throttle that was met on the way."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.calls.client import Client
from ec2spawner.provisioner.model.cloud.cloud import CloudError

from .scripted_ec2 import CUT, ScriptedEC2, error, ok

LISTING = "DescribeInstances"


class Counted:
    """What has been counted of an action since this was made."""

    def __init__(self, action: str = LISTING) -> None:
        self._action = action
        self._before = self._now()

    def _now(self) -> dict[str, float]:
        found = {
            outcome: REGISTRY.get_sample_value(
                "ec2spawner_aws_calls_total", {"action": self._action, "outcome": outcome}
            )
            for outcome in ("ok", "throttled", "queued", "refused", "failed")
        }
        for name, of in (("aws_throttles_total", "throttles"), ("aws_call_seconds_count", "timed")):
            found[of] = REGISTRY.get_sample_value(f"ec2spawner_{name}", {"action": self._action})
        return {name: value or 0.0 for name, value in found.items()}

    def since(self) -> dict[str, float]:
        """Without what is unchanged."""
        grown = {name: value - self._before[name] for name, value in self._now().items()}
        return {name: value for name, value in grown.items() if value}


async def test_a_throttled_and_repeated_call_counts_as_one_call_and_two_throttles(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    slow = error("RequestLimitExceeded", status=503)
    ec2.will(LISTING, slow, slow, ok("<reservationSet/>"))
    counted = Counted()
    await cloud.list_instances("class")
    assert counted.since() == {"ok": 1, "throttles": 2, "timed": 1}


@pytest.mark.parametrize(
    ("answer", "outcome", "throttles"),
    [
        (error("RequestLimitExceeded", status=503), "throttled", 3),
        (error("UnauthorizedOperation", status=403), "refused", 0),
        (error("InternalError", status=500), "failed", 0),
        (CUT, "failed", 0),
    ],
)
async def test_failed_calls_are_counted_by_cause(
    cloud: EC2Cloud, ec2: ScriptedEC2, answer: object, outcome: str, throttles: int
) -> None:
    ec2.will(LISTING, answer)  # type: ignore[arg-type]
    counted = Counted()
    with pytest.raises(CloudError):
        await cloud.list_instances("class")
    expected = {outcome: 1, "timed": 1} | ({"throttles": throttles} if throttles else {})
    assert counted.since() == expected


async def test_a_call_whose_turn_would_come_too_late_is_no_throttle(ec2: ScriptedEC2) -> None:
    many = [f"i-{number}" for number in range(500)]
    client = Client("us-east-1", ec2.url)
    ec2.will("StartInstances", error("RequestLimitExceeded", status=503))
    counted = Counted("StartInstances")
    try:
        for _ in range(2):
            with pytest.raises(CloudError) as refused:
                await client.do("start_instances", attempts=1, InstanceIds=many)
    finally:
        await client.close()
    assert len(ec2.calls) == 1, "its bucket is empty then, and gets 2 instances a second"
    assert (refused.value.code, refused.value.retryable) == ("RequestLimitExceeded", True)
    assert counted.since() == {"throttled": 1, "throttles": 1, "queued": 1, "timed": 2}


async def test_an_unknown_aws_profile_is_reported_and_no_call_is_counted(
    cloud: EC2Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    counted = Counted()
    with pytest.raises(CloudError, match="nobody") as refused:
        await cloud.list_instances("class")
    assert (refused.value.code, refused.value.retryable) == ("ProfileNotFound", False)
    assert counted.since() == {}
