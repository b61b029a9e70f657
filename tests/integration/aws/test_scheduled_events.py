"""The scheduled events that DescribeInstanceStatus describes, and what a hub may ask."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from ec2spawner.aws import EC2Cloud
from ec2spawner.core.ec2_api_limits import NON_MUTATING, charges
from ec2spawner.core.instances.scheduled_events import ScheduledEvent

from .embedded_ec2 import Embedded
from .scripted_ec2 import Reply, ScriptedEC2, ok

AT, END = datetime(2026, 12, 3, 9, tzinfo=UTC), datetime(2026, 12, 3, 11, tzinfo=UTC)
CODES = {
    "instance-reboot",
    "instance-retirement",
    "instance-stop",
    "system-maintenance",
    "system-reboot",
}


def status(instance_id: str, *events: str) -> str:
    return (
        f"<item><instanceId>{instance_id}</instanceId>"
        f"<eventsSet>{''.join(events)}</eventsSet></item>"
    )


def event(code: str, description: str = "", end: datetime | None = END) -> str:
    ends = f"<notAfter>{end:%Y-%m-%dT%H:%M:%S.000Z}</notAfter>" if end else ""
    return (
        f"<item><code>{code}</code><description>{description}</description>"
        f"<notBefore>{AT:%Y-%m-%dT%H:%M:%S.000Z}</notBefore>{ends}</item>"
    )


def page(*statuses: str, token: str = "") -> Reply:
    following = f"<nextToken>{token}</nextToken>" if token else ""
    return ok(f"<instanceStatusSet>{''.join(statuses)}</instanceStatusSet>{following}")


async def test_events_of_all_pages_without_those_that_are_withdrawn(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    over = event("system-reboot", "[Completed] scheduled reboot")
    withdrawn = event("instance-stop", "[Canceled] The instance is running on degraded hardware")
    ec2.will(
        "DescribeInstanceStatus",
        page(status("i-1", event("instance-retirement", end=None), over), token="more"),
        page(status("i-2", withdrawn), status("i-3", event("instance-pause"))),
    )
    assert await cloud.scheduled_events() == {
        "i-1": [
            ScheduledEvent("instance-retirement", AT),
            ScheduledEvent("system-reboot", AT, END, is_pending=False),
        ]
    }
    first, second = ec2.calls
    assert first["Filter.1.Name"] == "event.code"
    assert {first[f"Filter.1.Value.{n}"] for n in range(1, 6)} == CODES
    assert second["NextToken"] == "more"


def test_a_reading_takes_a_token_of_the_larger_bucket() -> None:
    """By its filter: without one it would share 50 tokens, refilled at 10 a second."""
    asked = {"Filters": [{"Name": "event.code", "Values": sorted(CODES)}], "MaxResults": 100}
    [charge] = charges("DescribeInstanceStatus", asked)
    assert (charge.rate, charge.tokens) == (NON_MUTATING, 1)


async def test_the_hubs_policy_allows_it(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in embedded.key_of(f"hub-{uuid4()}").items():
        monkeypatch.setenv(variable, value)
    opened = EC2Cloud(embedded.region, embedded.endpoint)
    try:
        assert isinstance(await opened.scheduled_events(), dict)
    finally:
        await opened.close()
