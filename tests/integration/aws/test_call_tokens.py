"""Calls stay within EC2's rate limits, and a throttled one is repeated within them too."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import REGISTRY

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.calls import client
from ec2spawner.core.backoff import Backoff

from .embedded_ec2 import Embedded
from .scripted_ec2 import ScriptedEC2, error, ok

DELETE = "DeleteNetworkInterface"
"""EC2's bucket has 50 tokens, and 5 more a second."""


def queued_seconds() -> float:
    labels = {"action": DELETE}
    return REGISTRY.get_sample_value("ec2spawner_aws_queued_seconds_total", labels) or 0.0


async def test_ec2_throttles_none_of_sixty_calls_at_once(
    embedded: Embedded, embedded_cloud: EC2Cloud
) -> None:
    embedded.control("limits", token_buckets=True)
    try:
        ids = [f"eni-{number:017x}" for number in range(60)]
        await asyncio.gather(*map(embedded_cloud.delete_interface, ids))
    finally:
        embedded.control("limits", token_buckets=False)
    outcomes = [c["outcome"] for c in embedded.control("calls") if c["action"] == DELETE]
    assert len(outcomes) == 60
    assert "RequestLimitExceeded" not in outcomes


async def test_a_repetition_after_a_throttle_waits_for_a_token(
    cloud: EC2Cloud, ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "BACKOFF", Backoff(first=0.0))
    ec2.will(DELETE, error("RequestLimitExceeded", status=503), ok())
    before = queued_seconds()
    await cloud.delete_interface("eni-1")
    assert queued_seconds() - before == pytest.approx(0.2, abs=0.15)
    assert len(ec2.calls) == 2
