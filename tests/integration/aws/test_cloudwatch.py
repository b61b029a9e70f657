"""A hub's figures reach CloudWatch, in the namespace that its policy allows."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.aws.calls.client import Client
from ec2spawner.aws.monitoring.cloudwatch import Datum, put_metrics
from ec2spawner.hub.app.reporting.cloudwatch import CloudWatchMetrics
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from tests.unit.provisioner.world import World

from .embedded_ec2 import Embedded

README = Path(__file__).resolve().parents[3] / "configs" / "README.md"
NAMESPACE = "ec2spawner"


def statement() -> dict[str, Any]:
    """What the admin adds to the hub's policy."""
    blocks = re.findall(r"```json\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    [found] = [block for block in map(json.loads, blocks) if block["Sid"] == "PublishMetrics"]
    return dict(found)


@pytest.fixture
async def client(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    for name, value in embedded.key_of("demo", statement()).items():
        monkeypatch.setenv(name, value)
    opened = Client(embedded.region, embedded.endpoint)
    yield opened
    await opened.close()


async def test_figures_are_metrics_of_this_hub(
    client: Client, embedded: Embedded, world: World
) -> None:
    await world.ready("ada")
    await world.complete_passes(1)
    await CloudWatchMetrics(client, NAMESPACE, "research", world.provisioner).publish()
    assert embedded.calls("PutMetricData")[-1] == "ok"
    listed = embedded.client("cloudwatch").list_metrics(Namespace=NAMESPACE)["Metrics"]
    found = {
        (metric["MetricName"], *(d["Value"] for d in metric["Dimensions"])) for metric in listed
    }
    assert {
        ("Instances", "research", "running"),
        ("Servers", "research", "ready"),
        ("GPUs", "research", "used"),
        ("UsdPerHour", "research", "used"),
        ("PassAge", "research"),
    } <= found
    assert not [names for names in found if any("ada" in name for name in names)]


async def test_the_policy_allows_one_namespace(client: Client) -> None:
    with pytest.raises(CloudError) as denied:
        await put_metrics(client, "another", [Datum("Servers", 1.0)])
    assert denied.value.code == "AccessDeniedException"


async def test_without_the_statement_the_fix_is_logged_once(
    embedded: Embedded,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in embedded.key_of("demo").items():
        monkeypatch.setenv(name, value)
    client = Client(embedded.region, embedded.endpoint)
    published = CloudWatchMetrics(client, NAMESPACE, "research", world.provisioner)
    for _ in range(3):
        await published.publish()
    await client.close()
    assert caplog.text.count("allow cloudwatch:PutMetricData") == 1


async def test_a_failure_is_logged_once_and_its_end_too(
    client: Client, embedded: Embedded, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    published = CloudWatchMetrics(client, NAMESPACE, "research", world.provisioner)
    embedded.fault("PutMetricData", "http-500", times=2)
    for _ in range(2):
        await published.publish()
    assert caplog.text.count("do not reach CloudWatch") == 1
    await published.publish()
    await published.publish()
    assert caplog.text.count("reach CloudWatch again") == 1
