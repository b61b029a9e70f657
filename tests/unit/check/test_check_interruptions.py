"""What `ec2spawner check` says of a queue of spot events and of rehearsals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ec2spawner.aws.monitoring.spot_event_queue import region_of
from ec2spawner.check.steps.interruptions import check_interruptions


async def found(**options: str) -> list[Any]:
    findings: list[Any] = []
    given = {"interruption_queue": "", "rehearsal_role": "", "region": "us-east-1", **options}
    context: Any = SimpleNamespace(
        options=SimpleNamespace(**given), invalid=lambda topic, *names: None
    )
    await check_interruptions(context, findings)
    return findings


async def test_nothing_is_asked_where_nothing_is_configured() -> None:
    assert await found() == []


def test_the_region_of_a_queue() -> None:
    assert region_of("https://sqs.eu-west-1.amazonaws.com/123456789012/q") == "eu-west-1"
    assert region_of("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/q") == "cn-north-1"
    assert region_of("http://127.0.0.1:4000/123456789012/q") == ""
