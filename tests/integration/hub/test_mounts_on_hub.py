"""One server with all that can be mounted: its files follow it into another zone."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import httpx

from tests.harness import Embedded, Hub, demo_config, until

FILE_SYSTEM = "fs-0a1b2c3d4e5f60718"


def make_snapshot(embedded: Embedded, name: str, text: str) -> str:
    """A snapshot with one file on it."""
    ec2 = embedded.client("ec2")
    volume = ec2.create_volume(AvailabilityZone=embedded.described["zones"][0], Size=1)["VolumeId"]
    folder = embedded.data_dir / "ec2" / "volumes" / volume
    (folder / name).write_text(text)
    snapshot: str = ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    ec2.delete_volume(VolumeId=volume)
    return snapshot


def fill_bucket(embedded: Embedded) -> None:
    s3 = embedded.client("s3")
    s3.create_bucket(Bucket="my-data")
    s3.put_object(Bucket="my-data", Key="images/dog.txt", Body=b"a dog")
    s3.put_object(Bucket="my-data", Key="other.txt", Body=b"not below the prefix")
    s3.create_bucket(Bucket="results")


def hub_of(embedded: Embedded, directory: Path, snapshot: str) -> Hub:
    config = demo_config(
        directory,
        f'c.EC2Spawner.home = {{"kind": "efs", "file_system": "{FILE_SYSTEM}"}}',
        'c.EC2Spawner.instance_profile = "notebooks"',
        f'c.EC2Spawner.data_volumes = [{{"snapshot": "{snapshot}", "path": "/data/cats"}}]',
        "c.EC2Spawner.buckets = [",
        '    {"bucket": "my-data", "prefix": "images/", "path": "/data/dogs"},',
        '    {"bucket": "results", "path": "/data/results", "read_only": False},',
        '    {"bucket": "no-such-bucket", "path": "/data/nothing"},',
        "]",
    )
    return Hub(directory, embedded, config=config)


async def only_zone(embedded: Embedded, zone: str) -> None:
    for each in embedded.described["zones"]:
        available = None if each == zone else 0
        order = {"market": "*", "instance_type": "*", "zone": each, "available": available}
        await embedded.control("capacity", order)


async def notebook(hub: Hub, user: str) -> httpx.AsyncClient:
    model = await hub.model(user)
    assert model is not None
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    return httpx.AsyncClient(
        verify=False, base_url=f"{hub.url}{model['url']}", headers=headers, timeout=60
    )


async def root_of_the_instance(embedded: Embedded, zone: str) -> Path:
    """Where the paths of the only instance begin."""
    [running] = await embedded.instances()
    shown = embedded.client("ec2").describe_instances(InstanceIds=[running["instance_id"]])
    assert shown["Reservations"][0]["Instances"][0]["Placement"]["AvailabilityZone"] == zone
    return embedded.data_dir / "ec2" / "instances" / running["instance_id"] / "disk"


def story_of_the_start(hub: Hub) -> str:
    """As it is stored: JupyterHub's own progress of a server that is ready is one line."""
    with contextlib.closing(sqlite3.connect(hub.directory / "ec2spawner.sqlite")) as store:
        rows = store.execute("SELECT message, detail FROM lease_event ORDER BY position")
        return "\n".join(" ".join(row) for row in rows)


async def read(client: httpx.AsyncClient, path: str) -> str:
    reply = await client.get(f"api/contents/{path}")
    assert reply.is_success, reply.text
    text: str = reply.json()["content"]
    return text


async def write(client: httpx.AsyncClient, path: str, text: str) -> bool:
    body = {"type": "file", "format": "text", "content": text}
    return (await client.put(f"api/contents/{path}", json=body)).is_success


async def test_everything_that_can_be_mounted(embedded: Embedded, tmp_path: Path) -> None:
    fill_bucket(embedded)
    await embedded.control("file-systems", {"file_system": FILE_SYSTEM})
    embedded.client("iam").create_instance_profile(InstanceProfileName="notebooks")
    here, there = embedded.described["zones"][:2]
    hub = hub_of(embedded, tmp_path / "hub", make_snapshot(embedded, "cat.txt", "a cat"))
    await hub.start()
    try:
        await only_zone(embedded, here)
        await hub.start_server("ada l.")
        root = await root_of_the_instance(embedded, here)
        # People reach the paths themselves; the notebook's API shows what is below the home.
        [home] = (embedded.data_dir / "ec2" / "file-systems" / FILE_SYSTEM / "homes").iterdir()
        (home / "data").symlink_to(root / "data")
        async with await notebook(hub, "ada l.") as client:
            assert await write(client, "notes.txt", "kept")
            assert await read(client, "data/cats/cat.txt") == "a cat"
            assert await read(client, "data/dogs/dog.txt") == "a dog"
            assert await write(client, "data/results/model.txt", "trained")
            for path in ("data/cats/mine.txt", "data/cats/cat.txt", "data/dogs/mine.txt"):
                written = await write(client, path, "mine")
                assert not written or home.stat().st_uid == os.getuid() == 0
        assert "do not last" in (root / "scratch" / "README.txt").read_text()
        assert not list((root / "data" / "nothing").iterdir())
        assert "The bucket no-such-bucket at /data/nothing is missing" in story_of_the_start(hub)

        async def uploaded() -> bool:
            s3 = embedded.client("s3")
            keys = [
                each["Key"] for each in s3.list_objects_v2(Bucket="results").get("Contents", ())
            ]
            return keys == ["model.txt"]

        await until(uploaded, 10, "what was written to be in the bucket")
        await hub.stop_server("ada l.")

        async def none_left() -> bool:
            listed = await embedded.control("instances")
            return {instance["state"] for instance in listed} <= {"terminated"}

        # One that ends gives its place back, and this must not be in the zone that is sold out.
        await until(none_left, 20, "the first instance to be gone")
        await only_zone(embedded, there)
        await hub.start_server("ada l.")
        await root_of_the_instance(embedded, there)
        async with await notebook(hub, "ada l.") as client:
            assert await read(client, "notes.txt") == "kept"
        await hub.stop_server("ada l.")

        async def no_volume_left() -> bool:
            return not embedded.client("ec2").describe_volumes()["Volumes"]

        await until(no_volume_left, 10, "the data volumes to go with their instances")
    finally:
        await hub.stop()
        print(hub.tail(120))
