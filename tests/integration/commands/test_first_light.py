"""`ec2spawner first-light` against the embedded EC2, with real hubs, agents and notebooks."""

from __future__ import annotations

import asyncio
import json
import signal
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CONFIG, Embedded, until
from tests.integration.commands.admin import Admin

QUICK = (f"--config={CONFIG}", "--idle=10", "--json")


def what_exists(embedded: Embedded) -> dict[str, list[Any]]:
    """All that costs money or is in the way of the next hub, as the account lists it."""
    ec2 = embedded.client()
    reservations = ec2.describe_instances()["Reservations"]
    instances = [each for one in reservations for each in one["Instances"]]
    return {
        "instances": [each for each in instances if each["State"]["Name"] != "terminated"],
        "volumes": ec2.describe_volumes()["Volumes"],
        "templates": ec2.describe_launch_templates()["LaunchTemplates"],
        "interfaces": [
            each
            for each in ec2.describe_network_interfaces()["NetworkInterfaces"]
            if each["Status"] == "available"
        ],
        # moto's own images have snapshots too.
        "snapshots": ec2.describe_snapshots(
            Filters=[{"Name": "tag-key", "Values": ["ec2spawner:hub"]}]
        )["Snapshots"],
    }


async def until_nothing_exists(embedded: Embedded) -> None:
    async def nothing() -> bool:
        return not any((await asyncio.to_thread(what_exists, embedded)).values())

    await until(nothing, 20, "nothing to be left in the account")


async def test_the_journey_holds_and_leaves_nothing_behind(
    embedded: Embedded, admin: Admin, tmp_path: Path
) -> None:
    ended = await admin.types("first-light", "--gpu", f"--output={tmp_path}", *QUICK)
    assert ended.status == 0, ended.output + ended.errors
    report = ended.json
    assert report["passed"]
    assert {step["state"] for step in report["steps"]} == {"ok"}
    assert 0 < report["usd"] < 1
    (start,) = (step for step in report["steps"] if step["name"].endswith("without a GPU"))
    assert "i-" in start["said"]
    assert len(start["said"].splitlines()) > 1, "each step of the start has its time"
    await until_nothing_exists(embedded)
    with zipfile.ZipFile(report["bundle"]) as bundle:
        texts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    assert {"README.txt", "report.json", "calls.jsonl", "jupyterhub.log"} <= texts.keys()
    assert sum(name.startswith("console-") for name in texts) == 2
    calls = [json.loads(line) for line in texts["calls.jsonl"].splitlines()]
    assert {"CreateFleet", "CreateVolume", "AttachVolume"} <= {call["action"] for call in calls}
    secrets = [
        *embedded.credentials.values(),
        embedded.described["control_token"],
        "123456789012",  # moto's account
        *(subnet["CidrBlock"] for subnet in embedded.client().describe_subnets()["Subnets"]),
    ]
    for name, text in texts.items():
        assert not [secret for secret in secrets if secret in text], name
    assert Path(report["bundle"]).stat().st_mode & 0o077 == 0


async def test_an_interrupted_journey_leaves_nothing_behind(
    embedded: Embedded, admin: Admin, tmp_path: Path
) -> None:
    process: list[asyncio.subprocess.Process] = []
    typed = asyncio.create_task(
        admin.types("first-light", f"--output={tmp_path}", *QUICK, on_start=process.append)
    )

    async def started() -> bool:
        return bool(await embedded.instances())

    await until(started, 60, "an instance")
    process[0].send_signal(signal.SIGINT)
    ended = await typed
    assert ended.status == 1, ended.errors
    assert ended.json["failure"] == "it was interrupted"
    assert ended.json["left"] == ""
    await until_nothing_exists(embedded)


async def test_a_failed_step_is_reported_with_its_reason(
    embedded: Embedded, admin: Admin, tmp_path: Path
) -> None:
    everything = {"market": "*", "instance_type": "*", "zone": "*"}
    await embedded.control("capacity", {**everything, "available": 0})
    try:
        ended = await admin.types("first-light", f"--output={tmp_path}", *QUICK)
    finally:
        await embedded.control("capacity", {**everything, "available": None})
    assert ended.status == 1, ended.errors
    assert "sold out" in ended.json["failure"]
    assert [step["state"] for step in ended.json["steps"]][-2:] == ["failed", "ok"]
    assert ended.json["left"] == ""
    await until_nothing_exists(embedded)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--max-usd=0.01", "--max-usd="),
        ("--max-usd=0", "--max-usd=0"),
        ("--idle=1", "--idle=1"),
        ("--output=/nowhere", "--output=/nowhere"),
        ("--EC2Spawner.region=nowhere", "c.EC2Spawner.region"),
    ],
)
async def test_a_wrong_request_starts_nothing(admin: Admin, argument: str, said: str) -> None:
    ended = await admin.types("first-light", *QUICK, argument)
    assert ended.status == 2
    assert said in ended.errors
    assert "Nothing was started" in ended.errors


async def test_a_hub_in_use_is_refused(embedded: Embedded, admin: Admin, tmp_path: Path) -> None:
    ec2 = embedded.client()
    tags = [{"Key": "ec2spawner:hub", "Value": "demo"}]
    volume = ec2.create_volume(
        AvailabilityZone="us-east-1a",
        Size=1,
        VolumeType="gp3",
        TagSpecifications=[{"ResourceType": "volume", "Tags": tags}],
    )["VolumeId"]
    try:
        ended = await admin.types("first-light", f"--output={tmp_path}", *QUICK)
        assert ended.status == 2
        assert volume in ended.errors
        assert [each["VolumeId"] for each in what_exists(embedded)["volumes"]] == [volume]
    finally:
        ec2.delete_volume(VolumeId=volume)
