"""`ec2spawner first-light` against the embedded EC2, with real hubs, agents and notebooks."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from rich.console import Console

from ec2spawner.aws.ec2 import EC2Cloud
from ec2spawner.check.hub_config import load
from ec2spawner.first_light.preparation import (
    NotStarted,
    Request,
    check_that_no_server_runs,
    prepare,
)
from ec2spawner.first_light.steps import Steps
from tests.forked_command import Ended
from tests.harness import CONFIG, Embedded, until
from tests.integration.commands.admin import Admin
from tests.nursery import ForkedProcess

pytestmark = pytest.mark.slow(seconds=65)


def what_exists(embedded: Embedded) -> dict[str, list[Any]]:
    """All that costs money or is in the way of the next hub, as the account lists it."""
    ec2 = embedded.client()
    # The account has snapshots and network interfaces of its own.
    of_the_hub = [{"Name": "tag-key", "Values": ["ec2spawner:hub"]}]
    reservations = ec2.describe_instances()["Reservations"]
    instances = [each for one in reservations for each in one["Instances"]]
    return {
        "instances": [each for each in instances if each["State"]["Name"] != "terminated"],
        "volumes": ec2.describe_volumes()["Volumes"],
        "templates": ec2.describe_launch_templates()["LaunchTemplates"],
        "interfaces": ec2.describe_network_interfaces(
            Filters=[*of_the_hub, {"Name": "status", "Values": ["available"]}]
        )["NetworkInterfaces"],
        "snapshots": ec2.describe_snapshots(Filters=of_the_hub)["Snapshots"],
    }


async def until_nothing_exists(embedded: Embedded) -> None:
    """Instances that shut down end within seconds; nothing else may be left."""
    found: dict[str, list[Any]] = {}

    async def nothing() -> bool:
        found.update(await asyncio.to_thread(what_exists, embedded))
        return not any(found.values())

    try:
        await until(nothing, 5, "nothing to be left in the account")
    except AssertionError:
        raise AssertionError(f"left in the account: {found}") from None


async def test_the_journey_holds_and_leaves_nothing_behind(
    embedded: Embedded, admin: Admin, tmp_path: Path
) -> None:
    with embedded.jupyterlab():
        ended = await admin.tries("--gpu", f"--output={tmp_path}")
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
    assert {"README.txt", "report.json", "calls-of-the-hub.jsonl", "jupyterhub.log"} <= texts.keys()
    assert sum(name.startswith("console-") for name in texts) == 2
    calls = [json.loads(line) for line in texts["calls-of-the-hub.jsonl"].splitlines()]
    assert {"CreateFleet", "CreateVolume", "AttachVolume"} <= {call["action"] for call in calls}
    secrets = [
        *embedded.credentials.values(),
        embedded.described["control_token"],
        embedded.client("sts").get_caller_identity()["Account"],
        *(subnet["CidrBlock"] for subnet in embedded.client().describe_subnets()["Subnets"]),
    ]
    for name, text in texts.items():
        assert not [secret for secret in secrets if secret in text], name
    assert Path(report["bundle"]).stat().st_mode & 0o077 == 0


@asynccontextmanager
async def underway(
    embedded: Embedded, admin: Admin, tmp_path: Path
) -> AsyncIterator[tuple[ForkedProcess, asyncio.Task[Ended]]]:
    """A journey that has its first instance."""
    process: list[ForkedProcess] = []
    typed = asyncio.create_task(
        admin.tries(
            f"--output={tmp_path}",
            environment={"XDG_STATE_HOME": str(tmp_path)},
            on_start=process.append,
        )
    )

    async def started() -> bool:
        assert not typed.done(), typed.result()
        return bool(await embedded.instances())

    await until(started, 60, "an instance")
    try:
        yield process[0], typed
    finally:
        await typed


def foreign_volume(embedded: Embedded) -> str:
    """The home of somebody at another hub of the same name."""
    tags = {"ec2spawner:hub": "demo", "ec2spawner:store": "another", "ec2spawner:home": "home-1"}
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    volume = embedded.client().create_volume(
        AvailabilityZone="us-east-1a",
        Size=1,
        VolumeType="gp3",
        TagSpecifications=[{"ResourceType": "volume", "Tags": listed}],
    )
    return str(volume["VolumeId"])


async def test_an_interrupted_journey_deletes_what_it_created_and_nothing_else(
    embedded: Embedded, admin: Admin, tmp_path: Path
) -> None:
    foreign = await asyncio.to_thread(foreign_volume, embedded)
    try:
        async with underway(embedded, admin, tmp_path) as (process, typed):
            process.send_signal(signal.SIGINT)
            ended = await typed
        assert ended.status == 1, ended.errors
        assert ended.json["failure"] == "it was interrupted"
        assert ended.json["left"] == ""
        left = await asyncio.to_thread(what_exists, embedded)
        assert [each["VolumeId"] for each in left.pop("volumes")] == [foreign]
        assert not any(left.values())
        assert list(tmp_path.glob("ec2spawner/first-light/run-*")) == []
    finally:
        await asyncio.to_thread(embedded.client().delete_volume, VolumeId=foreign)


@pytest.mark.long
async def test_the_next_run_deletes_what_a_killed_one_left(
    embedded: Embedded, admin: Admin, tmp_path: Path
) -> None:
    async with underway(embedded, admin, tmp_path) as (process, typed):
        process.send_signal(signal.SIGKILL)
        await typed
    state = {"XDG_STATE_HOME": str(tmp_path)}
    ended = await admin.tries("--max-usd=0.01", environment=state)
    assert ended.status == 2, "its own journey is over the cap"
    await until_nothing_exists(embedded)
    assert list(tmp_path.glob("ec2spawner/first-light/run-*")) == []


@pytest.mark.long
async def test_a_hub_that_dies_is_a_failure_that_leaves_nothing(
    embedded: Embedded, admin: Admin, tmp_path: Path
) -> None:
    async with underway(embedded, admin, tmp_path) as (process, typed):
        (hub,) = (
            each
            for each in psutil.Process(process.pid).children()
            if "jupyterhub_config.py" in " ".join(each.cmdline())
        )
        hub.kill()
        ended = await typed
    assert ended.status == 1
    assert ended.json["failure"]
    assert ended.json["left"] == ""
    await until_nothing_exists(embedded)


@pytest.mark.long
async def test_a_failed_step_is_reported_with_its_reason(
    embedded: Embedded, admin: Admin, tmp_path: Path
) -> None:
    everything = {"market": "*", "instance_type": "*", "zone": "*"}
    await embedded.control("capacity", {**everything, "available": 0})
    try:
        ended = await admin.tries(f"--output={tmp_path}")
    finally:
        await embedded.control("capacity", {**everything, "available": None})
    assert ended.status == 1, ended.errors
    assert "sold out" in ended.json["failure"]
    assert [step["state"] for step in ended.json["steps"]][-2:] == ["failed", "ok"]
    await until_nothing_exists(embedded)


async def test_a_wrong_option_is_named_and_starts_nothing(admin: Admin) -> None:
    ended = await admin.tries("--EC2Spawner.region=nowhere")
    assert ended.status == 2
    assert "c.EC2Spawner.region" in ended.errors
    assert "Nothing was started" in ended.errors


async def test_a_state_folder_that_cannot_be_used_is_a_reason_not_to_start(
    admin: Admin, tmp_path: Path
) -> None:
    no_folder = tmp_path / "file"
    no_folder.touch()
    ended = await admin.tries(environment={"XDG_STATE_HOME": str(no_folder)})
    assert ended.status == 2
    assert str(no_folder) in ended.errors
    assert "XDG_STATE_HOME" in ended.errors


@asynccontextmanager
async def no_quota_for_gpus(embedded: Embedded) -> AsyncIterator[None]:
    """As in a new account."""
    none, any_number = ({"spot": {"g": n}, "on-demand": {"g": n}} for n in (0, None))
    await embedded.control("limits", {"quotas": none})
    try:
        yield
    finally:
        await embedded.control("limits", {"quotas": any_number})


@asynccontextmanager
async def running_server(embedded: Embedded) -> AsyncIterator[str]:
    """An instance that outlived its hub, in every listing; its id."""
    await embedded.control("lag", {"seconds": 0})
    ec2 = embedded.client()
    tags = [{"Key": "ec2spawner:hub", "Value": "demo"}, {"Key": "ec2spawner:store", "Value": "x"}]
    launched = await asyncio.to_thread(
        ec2.run_instances,
        ImageId=embedded.described["image_id"],
        InstanceType="t3.micro",
        SubnetId=embedded.described["subnets"][0],
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    instance_id = launched["Instances"][0]["InstanceId"]
    try:
        yield instance_id
    finally:
        await asyncio.to_thread(ec2.terminate_instances, InstanceIds=[instance_id])
        await embedded.control("lag", {"seconds": None})


@pytest.fixture
def usual(
    embedded: Embedded, admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Request:
    """What the command asks for, without an option."""
    for name, value in embedded.credentials.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EC2SPAWNER_DEMO", json.dumps(admin.demo))
    return Request(load(CONFIG), CONFIG, (), False, 1.0, 10.0, tmp_path, True, False)


@pytest_asyncio.fixture(loop_scope="module")
async def cloud(usual: Request) -> AsyncIterator[EC2Cloud]:
    made = EC2Cloud(usual.config.options.region, usual.config.options.endpoint_url)
    yield made
    await made.close()


async def test_only_the_journeys_own_instances_need_a_quota(
    embedded: Embedded, usual: Request, cloud: EC2Cloud
) -> None:
    steps = Steps(Console(), lambda: 0.0, quiet=True)
    async with no_quota_for_gpus(embedded):
        with pytest.raises(NotStarted, match="L-DB2E81BA"):
            await prepare(replace(usual, gpu=True), cloud, steps)
    states = [(step.name, step.state) for step in steps.done]
    assert states == [("Check the configuration", "ok"), ("Choose instances", "failed")]


async def test_servers_that_run_are_a_reason_not_to_start_at_the_hubs_address(
    embedded: Embedded, usual: Request, cloud: EC2Cloud
) -> None:
    async with running_server(embedded) as instance_id:
        with pytest.raises(NotStarted, match=rf"{instance_id}.*--JupyterHub\.hub_bind_url"):
            await check_that_no_server_runs(usual, cloud)
        await check_that_no_server_runs(replace(usual, has_own_address=True), cloud)


async def test_a_hub_that_runs_at_the_same_address_is_a_reason_not_to_start(admin: Admin) -> None:
    with socket.socket() as hub:
        hub.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hub.bind(("127.0.0.1", admin.api_port))
        hub.listen()
        ended = await admin.tries()
    assert ended.status == 2
    assert "--JupyterHub.hub_bind_url" in ended.errors
