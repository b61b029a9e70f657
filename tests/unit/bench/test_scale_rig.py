"""The rig of the bench `scale`: its boots, its EC2, its HTTP client, and what it computes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.bench.loop_monitor import Turn
from tests.bench.scale.rig import notebooks
from tests.bench.scale.rig.boot_times import FLOOR, MEAN_SECONDS, BootTimes
from tests.bench.scale.rig.canned_ec2 import CannedEC2
from tests.bench.scale.rig.canned_resources import CannedInstance
from tests.bench.scale.rig.http_client import Connection, NoResponseError
from tests.bench.scale.rig.hub_process import Window, turn_percentile
from tests.bench.scale.starts import run_instances_seconds
from tests.harness import free_ports

DESCRIBED = {
    "subnets": ["subnet-a", "subnet-b"],
    "zones": ["us-east-1a", "us-east-1b"],
    "image_id": "ami-0a1b2c3d",
    "account": "111122223333",
    "ec2_endpoint": "http://127.0.0.1:9",
    "aws_access_key_id": "testing",
    "aws_secret_access_key": "testing",
}


@asynccontextmanager
async def canned() -> AsyncIterator[tuple[CannedEC2, Any, list[CannedInstance]]]:
    """A canned EC2, a real client of it, and what has been launched."""
    launched: list[CannedInstance] = []
    ec2 = CannedEC2(DESCRIBED, launched.append)
    stop = ec2.listen()
    client = await asyncio.to_thread(
        lambda: boto3.client(
            "ec2",
            endpoint_url=ec2.url,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
    )
    try:
        yield ec2, client, launched
    finally:
        stop()


def fleet(count: int, token: str, hub: str = "demo") -> dict[str, Any]:
    tags = [{"Key": "ec2spawner:hub", "Value": hub}]
    return {
        "Type": "instant",
        "ClientToken": token,
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": "spot",
        },
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "template", "Version": "1"},
                "Overrides": [{"InstanceType": "g4dn.xlarge", "SubnetId": "subnet-b"}],
            }
        ],
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")
        ],
    }


def of_hub(hub: str) -> list[dict[str, Any]]:
    return [{"Name": "tag:ec2spawner:hub", "Values": [hub]}]


def test_boots_have_the_published_mean() -> None:
    chance, boots = random.Random(1), BootTimes(0.5)
    drawn = [boots.floor + boots.draw_excess(chance) for _ in range(20_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(0.5 * MEAN_SECONDS, rel=0.02)
    assert min(drawn) >= 0.5 * MEAN_SECONDS * FLOOR


def test_boots_of_scale_0_take_no_time() -> None:
    boots = BootTimes(0)
    assert boots.floor == boots.draw_excess(random.Random(1)) == 0


async def test_pages_of_instances_are_complete_and_of_one_hub() -> None:
    async with canned() as (_, client, launched):
        await asyncio.to_thread(client.create_fleet, **fleet(120, "one"))
        await asyncio.to_thread(client.create_fleet, **fleet(7, "two", hub="other"))

        def pages() -> list[list[str]]:
            shown = client.get_paginator("describe_instances").paginate(
                Filters=of_hub("demo"), PaginationConfig={"PageSize": 50}
            )
            return [
                [i["InstanceId"] for r in page["Reservations"] for i in r["Instances"]]
                for page in shown
            ]

        found = await asyncio.to_thread(pages)
    assert [len(page) for page in found] == [50, 50, 20]
    assert [x for page in found for x in page] == [each.instance_id for each in launched[:120]]


async def test_a_repeated_client_token_launches_once() -> None:
    async with canned() as (ec2, client, launched):
        answers = [
            await asyncio.to_thread(client.create_fleet, **fleet(3, "same")) for _ in range(2)
        ]
        assert answers[0]["Instances"] == answers[1]["Instances"]
        assert len(launched) == 3
        assert [call["action"] for call in ec2.calls] == ["CreateFleet"] * 2


async def test_a_volume_has_one_instance_and_outlives_it() -> None:
    async with canned() as (ec2, client, launched):
        await asyncio.to_thread(client.create_fleet, **fleet(2, "one"))
        first, second = launched
        volume = await asyncio.to_thread(
            client.create_volume, AvailabilityZone="us-east-1b", Size=10, VolumeType="gp3"
        )
        attach = {"VolumeId": volume["VolumeId"], "Device": "/dev/sdf"}
        with pytest.raises(ClientError, match="IncorrectInstanceState"):
            await asyncio.to_thread(client.attach_volume, **attach, InstanceId=first.instance_id)
        ec2.run(first)
        ec2.run(second)
        await asyncio.to_thread(client.attach_volume, **attach, InstanceId=first.instance_id)
        with pytest.raises(ClientError, match="VolumeInUse"):
            await asyncio.to_thread(client.attach_volume, **attach, InstanceId=second.instance_id)
        [shown] = await asyncio.to_thread(_instance, client, first.instance_id)
        assert [m["DeviceName"] for m in shown["BlockDeviceMappings"]] == ["/dev/sda1", "/dev/sdf"]
        await asyncio.to_thread(client.terminate_instances, InstanceIds=[first.instance_id])
        ec2._terminated(first)
        [left] = (await asyncio.to_thread(client.describe_volumes, VolumeIds=[volume["VolumeId"]]))[
            "Volumes"
        ]
        assert (left["State"], left["Attachments"]) == ("available", [])
        assert first.root_volume not in ec2.volumes


def _instance(client: Any, instance_id: str) -> list[dict[str, Any]]:
    answer = client.describe_instances(InstanceIds=[instance_id])
    return [i for r in answer["Reservations"] for i in r["Instances"]]


async def test_a_filter_that_it_does_not_know_is_refused() -> None:
    async with canned() as (_, client, _launched):
        await asyncio.to_thread(client.create_fleet, **fleet(1, "one"))
        with pytest.raises(ClientError, match="The filter 'dns-name' is invalid"):
            await asyncio.to_thread(
                client.describe_instances, Filters=[{"Name": "dns-name", "Values": ["x"]}]
            )


def test_one_launch_call_each_takes_as_long_as_the_bucket_says() -> None:
    """5 at once, then 2 a second: "Request throttling for the Amazon EC2 API"."""
    assert run_instances_seconds(100) == pytest.approx(47.5, abs=0.05)
    assert run_instances_seconds(5) == 0


def test_only_turns_of_the_window_count() -> None:
    turns = [
        Turn(at, wall, 0, 0, 0, ()) for at, wall in ((9, 99.0), (10, 2.0), (19, 4.0), (21, 99.0))
    ]
    window = Window(began=10, seconds=10, cpu_seconds=1.5)
    assert turn_percentile(turns, window, 50) == 3.0
    assert window.cpu_percent == 15
    assert turn_percentile([], window, 99) == 1.0


async def _answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As a server that closes a kept connection without having said so."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    writer.close()


async def test_a_connection_that_the_server_has_closed_is_opened_again() -> None:
    [port] = free_ports(1)
    connection = Connection("127.0.0.1", port)
    async with await asyncio.start_server(_answer_once, "127.0.0.1", port):
        for _ in range(2):
            assert (await connection.request("GET", "/")).json() == {}
    connection.close()
    with pytest.raises(NoResponseError):
        await connection.request("GET", "/", timeout=5)


async def test_a_notebook_says_on_which_address_it_was_asked() -> None:
    [port] = free_ports(1)
    async with await notebooks.serve(port):
        for address in ("127.200.0.7", "127.200.1.8"):
            connection = Connection(address, port)
            response = await connection.request("GET", "/user/ada/api")
            assert response.json()["address"] == address
            connection.close()
