"""`ec2spawner reap` finds what a hub left behind, deletes it with `--yes`, and spares all else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from ec2spawner.aws import EC2Cloud
from ec2spawner.core.tags import HOME, HUB, INTENT, LEASE, STORE
from ec2spawner.provisioner.model.cloud.launch import LaunchRequest, LaunchSpec
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.store.store import Store
from ec2spawner.wire import Market
from tests.forked_command import Ended
from tests.harness import CONFIG, Embedded
from tests.integration.commands.admin import Admin
from tests.stored import lease

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("known_at_once"),
]

REAP = ("reap", f"--config={CONFIG}", "--json", "--older-than=0")
LONG_AGO = datetime.now(UTC) - timedelta(hours=1)


class Mess:
    """What lies about in the account: by name, the ids of things."""

    def __init__(self, embedded: Embedded, url: str, store_id: str) -> None:
        described = embedded.described
        self.embedded, self.url, self.store_id = embedded, url, store_id
        self.cloud = EC2Cloud(described["region"], described["ec2_endpoint"])
        self.ec2 = embedded.client()
        self.ids: dict[str, str] = {}

    def tags(self, **changes: str) -> dict[str, str]:
        return {HUB: "demo", STORE: self.store_id, INTENT: "spot-x"} | changes

    async def launch(self, name: str, **tags: str) -> None:
        described = self.embedded.described
        spec = LaunchSpec(
            instance_types=("t3.micro",),
            subnets=tuple(described["subnets"]),
            image_id=described["image_id"],
            markets=(Market.ON_DEMAND,),
            disk_gib=75,
        )
        request = LaunchRequest(
            str(uuid4()),
            Market.ON_DEMAND,
            1,
            spec,
            self.tags(**tags),
            (("t3.micro", described["subnets"][0]),),
        )
        answer = await self.cloud.launch(request)
        self.ids[name] = answer.instances[0].instance_id

    def make(self) -> None:
        def specification(kind: str, tags: dict[str, str]) -> list[dict[str, Any]]:
            listed = [{"Key": key, "Value": value} for key, value in tags.items()]
            return [{"ResourceType": kind, "Tags": listed}]

        zone, subnet = (
            self.embedded.described["zones"][0],
            self.embedded.described["subnets"][0],
        )
        for name, tags in {
            "disk": self.tags(),
            "home": self.tags(**{HOME: "home-1"}),
            "disk-of-another-hub": self.tags(**{HUB: "other"}),
        }.items():
            made = self.ec2.create_volume(
                AvailabilityZone=zone, Size=1, TagSpecifications=specification("volume", tags)
            )
            self.ids[name] = made["VolumeId"]
        made = self.ec2.create_network_interface(
            SubnetId=subnet, TagSpecifications=specification("network-interface", self.tags())
        )
        self.ids["interface"] = made["NetworkInterface"]["NetworkInterfaceId"]

    def clear(self, left: set[str]) -> None:
        """Delete what is left, by name."""
        ids = {self.ids[name] for name in left}
        self.ec2.terminate_instances(InstanceIds=[each for each in ids if each.startswith("i-")])
        for each in ids:
            if each.startswith("vol-"):
                self.ec2.delete_volume(VolumeId=each)
            elif each.startswith("eni-"):
                self.ec2.delete_network_interface(NetworkInterfaceId=each)


@pytest_asyncio.fixture(loop_scope="module")
async def mess(admin: Admin, embedded: Embedded) -> AsyncIterator[Mess]:
    """A store, and an account with things of this hub, of a lost store and of another hub."""
    url = f"sqlite:///{admin.directory}/ec2spawner.sqlite"
    store = await Store.open(url, now=LONG_AGO)
    await store.close()
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in embedded.admin_credentials.items():
            patch.setenv(variable, value)
        mess = Mess(embedded, url, store.store_id)
        await mess.launch("surplus")
        await mess.launch("of-lost-store", **{STORE: "lost"})
        await mess.launch("of-another-hub", **{HUB: "other"})
        await mess.launch("of-unknown-lease", **{LEASE: "lease-of-nobody"})
        await asyncio.to_thread(mess.make)
        yield mess
        await asyncio.to_thread(mess.clear, await there(mess))
        await mess.cloud.close()


def found(ended: Ended) -> dict[str, dict[str, Any]]:
    return {thing["id"]: thing for thing in ended.json["things"]}


async def there(mess: Mess) -> set[str]:
    """Names of what still is."""
    instances = {x["instance_id"] for x in await mess.embedded.instances()}
    volumes = await asyncio.to_thread(mess.ec2.describe_volumes)
    interfaces = await asyncio.to_thread(mess.ec2.describe_network_interfaces)
    ids = instances | {x["VolumeId"] for x in volumes["Volumes"]}
    ids |= {x["NetworkInterfaceId"] for x in interfaces["NetworkInterfaces"]}
    return {name for name, each in mess.ids.items() if each in ids}


async def test_without_yes_it_lists_what_would_be_deleted_and_changes_nothing(
    admin: Admin, mess: Mess
) -> None:
    ended = await admin.types(*REAP)
    assert ended.status == 3, ended.errors
    things = found(ended)
    would_end = {name for name, each in mess.ids.items() if things.get(each, {}).get("ends")}
    assert would_end == {"surplus", "disk", "interface"}
    surplus = things[mess.ids["surplus"]]
    assert surplus["why"] == "no lease, launch call or kept server holds it"
    assert surplus["usd_per_hour"] == 0.0104
    assert things[mess.ids["home"]]["why"] == "it is a home"
    assert "another store made it: lost" in things[mess.ids["of-lost-store"]]["why"]
    assert "may be an old copy" in things[mess.ids["of-unknown-lease"]]["why"]
    assert mess.ids["of-another-hub"] not in things
    assert await there(mess) == mess.ids.keys()


async def test_beside_a_running_hub_it_deletes_only_what_no_lease_holds(
    admin: Admin, mess: Mess
) -> None:
    store = await Store.open(mess.url, now=LONG_AGO)
    try:
        await store.save_lease(lease(instance_id=mess.ids["surplus"], state=LeaseState.READY))
        ended = await admin.types(*REAP, "--yes")
        assert ended.status == 0, ended.errors
        assert ended.json["hub_runs"]
        assert set(ended.json["ended"]) == {mess.ids["disk"], mess.ids["interface"]}
        assert "a lease holds it: ada, ready" in found(ended)[mess.ids["surplus"]]["why"]
        over = lease(instance_id=mess.ids["surplus"], state=LeaseState.ENDED)
        await store.save_lease(over)
    finally:
        await store.close()


async def test_resources_of_a_lost_store_are_deleted_only_when_it_is_named(
    admin: Admin, mess: Mess
) -> None:
    ended = await admin.types(*REAP, "--store=lost", "--yes")
    assert ended.status == 0, ended.errors
    assert not ended.json["hub_runs"]
    expected = {"surplus", "disk", "interface", "of-lost-store"}
    assert set(ended.json["ended"]) == {mess.ids[name] for name in expected}
    spared = {"home", "disk-of-another-hub", "of-another-hub", "of-unknown-lease"}
    assert await there(mess) == spared


async def test_a_missing_store_owns_nothing_and_is_not_created(
    admin: Admin, mess: Mess, tmp_path: Path
) -> None:
    nowhere = f"--EC2Spawner.store_url=sqlite:///{tmp_path}/none.sqlite"
    ended = await admin.types(*REAP, "--yes", nowhere)
    assert "does not exist" in ended.json["trouble"]
    assert not any(thing["ends"] for thing in ended.json["things"])
    assert list(tmp_path.iterdir()) == []


async def test_a_partial_listing_deletes_nothing(
    admin: Admin, embedded: Embedded, mess: Mess
) -> None:
    fault = {"action": "DescribeVolumes", "kind": "UnauthorizedOperation", "times": 1}
    await embedded.control("faults", fault)
    ended = await admin.types(*REAP, "--yes")
    assert ended.status == 1
    assert "UnauthorizedOperation" in ended.errors
    assert "Nothing was changed" in ended.errors


async def test_an_unused_option_is_ignored_and_a_misspelt_one_refused(
    admin: Admin, mess: Mess
) -> None:
    ended = await admin.types(
        *REAP, "--EC2Spawner.hub_api_url=http://10.0.0.5:8081", "--EC2Spawner.boot_timeout=-5"
    )
    assert found(ended), ended.errors
    ended = await admin.types(*REAP, "--EC2Spawner.hub_nmae=other")
    assert (ended.status, ended.output) == (2, "")
    assert "did you mean hub_name" in ended.errors
