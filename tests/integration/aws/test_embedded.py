"""`EC2Cloud` against the embedded EC2 over real HTTP: what one answer alone cannot show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.calls.client import Timeouts
from ec2spawner.aws.identity import IdentityRefused, pinned_certificates, verify_identity
from ec2spawner.core.tags import HOME, HUB, PAYER, STORE
from ec2spawner.embedded.runtime.identity import IdentitySigner
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import GONE, InstanceState
from ec2spawner.provisioner.model.cloud.launch import (
    DATA_DEVICES,
    DataVolume,
    Launched,
    LaunchRequest,
    LaunchSpec,
)
from ec2spawner.provisioner.model.cloud.volume import VolumeSpec
from ec2spawner.provisioner.model.leases.lease import Home
from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.wire import Market
from tests.bare_state import bare_state
from tests.harness import until
from tests.stored import NOW

from .embedded_ec2 import SMALL, Embedded, running_embedded


@pytest.fixture(scope="module")
def running() -> Iterator[Embedded]:
    with running_embedded() as embedded:
        yield embedded


@pytest.fixture
def embedded(running: Embedded) -> Iterator[Embedded]:
    running.control("limits", token_buckets=False)
    yield running
    for market in ("spot", "on-demand"):
        for zone in ("*", *running.zones):
            running.capacity(market, zone, None)


def client(embedded: Embedded, **timeouts: float) -> EC2Cloud:
    return EC2Cloud(embedded.region, embedded.endpoint, timeouts=Timeouts(**timeouts))


@pytest.fixture
def hub(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> str:
    """A hub of each test's own, with its key: one embedded EC2 serves them all."""
    name = f"hub-{uuid4()}"
    for variable, value in embedded.key_of(name).items():
        monkeypatch.setenv(variable, value)
    return name


@pytest.fixture
async def cloud(embedded: Embedded, hub: str) -> AsyncIterator[EC2Cloud]:
    opened = client(embedded)
    yield opened
    await opened.terminate([one.instance_id for one in await opened.list_instances(hub)])
    await opened.close()


@pytest.fixture
def request_of(embedded: Embedded, hub: str) -> LaunchRequest:
    token = f"spot-{uuid4()}"
    spec = LaunchSpec(
        instance_types=(SMALL,),
        subnets=embedded.subnets,
        image_id=embedded.image_id,
        markets=(Market.SPOT, Market.ON_DEMAND),
        disk_gib=80,
    )
    tags = {"ec2spawner:hub": hub, "ec2spawner:intent": token}
    offers = tuple((SMALL, subnet) for subnet in spec.subnets)
    return LaunchRequest(token, Market.SPOT, 2, spec, tags, offers)


def ids(launched: tuple[Launched, ...]) -> set[str]:
    return {one.instance_id for one in launched}


# --- launches ---


@pytest.mark.parametrize("market", list(Market))
async def test_an_instance_is_found_by_the_tags_of_the_call_that_made_it(
    cloud: EC2Cloud, request_of: LaunchRequest, hub: str, market: Market
) -> None:
    answer = await cloud.launch(replace(request_of, market=market))
    listed = {one.instance_id: one for one in await cloud.list_instances(hub)}
    assert ids(answer.instances) == set(listed)
    for launched in answer.instances:
        instance = listed[launched.instance_id]
        assert instance.market == launched.market == market
        assert instance.zone == launched.zone
        assert instance.instance_type == launched.instance_type == SMALL
        assert instance.tags.items() >= request_of.tags.items()
        assert instance.account_id
    assert await cloud.list_instances("another hub") == []


async def test_a_launch_has_the_key_pair_that_its_hub_names(
    cloud: EC2Cloud, request_of: LaunchRequest, embedded: Embedded, hub: str
) -> None:
    ec2 = embedded.client("ec2")
    ec2.create_key_pair(KeyName=hub)
    spec = replace(request_of.spec, key_name=hub)
    answer = await cloud.launch(replace(request_of, spec=spec, count=1))
    described = ec2.describe_instances(InstanceIds=[*ids(answer.instances)])
    assert described["Reservations"][0]["Instances"][0]["KeyName"] == hub


def found_by(server: str) -> dict[str, str]:
    """The tags of the home of this server of ada's that follow its name."""
    state = bare_state(Settings(hub="hub", region="us-east-1", subnets=()), lambda: NOW)
    return state.homes.found_by(Home("home-1", "ada", server, "ebs", 1, NOW))


async def test_the_volume_of_a_renamed_home_gets_its_new_owners_tags(
    cloud: EC2Cloud, embedded: Embedded, hub: str
) -> None:
    tags = {HUB: hub, STORE: "s", HOME: "home-1", **found_by("gpu")}
    made = await cloud.create_volume(f"home-{hub}", embedded.zones[0], VolumeSpec(1), tags)
    await cloud.tag([made.volume_id], found_by("large"))
    [volume] = await cloud.list_volumes(hub)
    assert volume.tags == tags | found_by("large")
    with pytest.raises(CloudError, match="UnauthorizedOperation"):
        await cloud.tag([made.volume_id], {HOME: "home-2"})


async def test_data_volumes_are_listed_with_their_instance_and_deleted_with_it(
    cloud: EC2Cloud, request_of: LaunchRequest, embedded: Embedded, hub: str
) -> None:
    ec2 = embedded.client("ec2")
    volume = ec2.create_volume(AvailabilityZone=embedded.zones[0], Size=1)["VolumeId"]
    snapshot = ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    spec = replace(request_of.spec, data_volumes=(DataVolume(snapshot, "/data"),))
    await cloud.launch(replace(request_of, spec=spec, count=1))
    [instance] = await cloud.list_instances(hub)
    data = instance.volumes[DATA_DEVICES[0]]
    [shown] = ec2.describe_volumes(VolumeIds=[data])["Volumes"]
    assert shown["SnapshotId"] == snapshot
    tags = {tag["Key"]: tag["Value"] for tag in shown["Tags"]}
    assert tags.items() >= request_of.tags.items()
    await cloud.terminate([instance.instance_id])

    async def gone() -> bool:
        return data not in {volume.volume_id for volume in await cloud.list_volumes(hub)}

    await until(gone, 10, "the data volume to go with its instance")


async def test_an_unknown_snapshot_is_a_configuration_error(
    cloud: EC2Cloud, request_of: LaunchRequest
) -> None:
    missing = (DataVolume("snap-0123456789abcdef0", "/data"),)
    answer = await cloud.launch(
        replace(request_of, spec=replace(request_of.spec, data_volumes=missing))
    )
    assert not answer.instances
    assert "InvalidSnapshot.NotFound" in {error.code for error in answer.errors}


async def test_available_capacity_is_launched_and_missing_capacity_is_reported(
    cloud: EC2Cloud, embedded: Embedded, request_of: LaunchRequest
) -> None:
    first, *others = embedded.zones
    embedded.capacity("spot", first, 1)
    for zone in others:
        embedded.capacity("spot", zone, 0)
    answer = await cloud.launch(request_of)
    assert [one.zone for one in answer.instances] == [first]
    codes = {error.zone: error.code for error in answer.errors}
    assert codes.keys() >= set(others)
    having = (await cloud.offerings(embedded.zones))[SMALL]
    assert {codes[zone] for zone in others if zone in having} == {"InsufficientInstanceCapacity"}
    assert {codes[zone] for zone in others if zone not in having} == {"InvalidFleetConfiguration"}


async def test_a_repeated_request_returns_the_same_instances(
    cloud: EC2Cloud, embedded: Embedded, request_of: LaunchRequest, hub: str
) -> None:
    first = await cloud.launch(request_of)
    restarted = client(embedded)
    again = await restarted.launch(request_of)
    await restarted.close()
    assert ids(again.instances) == ids(first.instances)
    assert len(await cloud.list_instances(hub)) == 2


async def test_another_request_under_the_same_token_is_refused(
    cloud: EC2Cloud, request_of: LaunchRequest
) -> None:
    await cloud.launch(request_of)
    with pytest.raises(CloudError, match="IdempotentParameterMismatch") as failed:
        await cloud.launch(replace(request_of, market=Market.ON_DEMAND))
    assert not failed.value.retryable


async def test_a_replay_returns_a_lost_response(
    cloud: EC2Cloud, embedded: Embedded, request_of: LaunchRequest, hub: str
) -> None:
    embedded.fault("CreateFleet", "cut-after")
    with pytest.raises(CloudError) as failed:
        await cloud.launch(request_of)
    assert failed.value.retryable
    answer = await cloud.launch(request_of)
    assert ids(answer.instances) == {one.instance_id for one in await cloud.list_instances(hub)}
    assert len(answer.instances) == 2


async def test_a_hanging_call_times_out_and_can_be_repeated(
    embedded: Embedded, request_of: LaunchRequest, cloud: EC2Cloud
) -> None:
    impatient = client(embedded, launch_read=0.5)
    embedded.fault("CreateFleet", "hang")
    with pytest.raises(CloudError) as failed:
        await impatient.launch(request_of)
    assert failed.value.retryable
    await impatient.close()
    assert len((await cloud.launch(request_of)).instances) == 2


@pytest.mark.nightly(
    guard="tests/integration/aws/test_launch.py::"
    "test_a_failed_call_is_not_repeated_and_says_whether_a_retry_helps"
)
@pytest.mark.parametrize(
    ("kind", "retryable"),
    [
        ("RequestLimitExceeded", True),
        ("http-500", True),
        ("cut-before", True),
        ("InsufficientInstanceCapacity", False),
        ("UnauthorizedOperation", False),
    ],
)
async def test_a_failed_launch_is_not_repeated_by_the_client(
    cloud: EC2Cloud, embedded: Embedded, request_of: LaunchRequest, kind: str, retryable: bool
) -> None:
    made = len(embedded.calls("CreateFleet"))
    embedded.fault("CreateFleet", kind)
    with pytest.raises(CloudError) as failed:
        await cloud.launch(request_of)
    assert failed.value.retryable is retryable
    assert embedded.calls("CreateFleet")[made:] == [kind]


OTHER_FAULTS = pytest.mark.nightly(
    guard="tests/integration/aws/test_embedded.py::test_a_listing_that_fails_once_is_retried"
)


@pytest.mark.parametrize(
    "kind",
    [
        "RequestLimitExceeded",
        pytest.param("http-500", marks=OTHER_FAULTS),
        pytest.param("cut-after", marks=OTHER_FAULTS),
    ],
)
async def test_a_listing_that_fails_once_is_retried(
    cloud: EC2Cloud, embedded: Embedded, request_of: LaunchRequest, hub: str, kind: str
) -> None:
    await cloud.launch(request_of)
    embedded.fault("DescribeInstances", kind)
    assert len(await cloud.list_instances(hub)) == 2


async def test_a_listing_has_every_page(
    cloud: EC2Cloud, embedded: Embedded, request_of: LaunchRequest, hub: str
) -> None:
    launched = (await cloud.launch(replace(request_of, count=60))).instances
    made = len(embedded.calls("DescribeInstances"))
    assert {one.instance_id for one in await cloud.list_instances(hub)} == ids(launched)
    assert len(embedded.calls("DescribeInstances")) == made + 2


async def test_unknown_instances_do_not_prevent_termination(
    cloud: EC2Cloud, request_of: LaunchRequest, hub: str
) -> None:
    first, second = (await cloud.launch(request_of)).instances
    await cloud.terminate([first.instance_id, "i-0123456789abcdef0"])
    states = {one.instance_id: one.state for one in await cloud.list_instances(hub)}
    assert states.get(first.instance_id, InstanceState.TERMINATED) in GONE
    assert states[second.instance_id] not in GONE


async def test_tags_are_added_to_instances_that_exist(
    cloud: EC2Cloud, request_of: LaunchRequest, hub: str
) -> None:
    (launched,) = (await cloud.launch(replace(request_of, count=1))).instances
    await cloud.tag([launched.instance_id], {"ec2spawner:user": "Ada Lovelace"})
    (instance,) = await cloud.list_instances(hub)
    assert instance.tags["ec2spawner:user"] == "Ada Lovelace"
    assert instance.tags.items() >= request_of.tags.items()


async def test_disks_and_interfaces_are_tagged_with_their_instance_and_a_home_is_not(
    cloud: EC2Cloud, request_of: LaunchRequest, embedded: Embedded, hub: str
) -> None:
    """In one call, as the hub's policy permits."""
    (launched,) = (await cloud.launch(replace(request_of, count=1))).instances
    home = {HUB: hub, STORE: "s", HOME: "home-1", **found_by("")}
    made = await cloud.create_volume(f"home-{hub}", launched.zone, VolumeSpec(1), home)
    await cloud.attach_volume(made.volume_id, launched.instance_id)
    (instance,) = await cloud.list_instances(hub)
    assert made.volume_id in instance.volumes.values()
    assert made.volume_id not in instance.deleted_with
    kinds = sorted(each.partition("-")[0] for each in instance.deleted_with)
    assert kinds == ["eni", "vol"]

    calls = len(embedded.calls("CreateTags"))
    payer = {PAYER: f"group:{hub}"}
    await cloud.tag([launched.instance_id, *instance.deleted_with], payer)
    assert len(embedded.calls("CreateTags")) == calls + 1
    ec2 = embedded.client("ec2")
    filters = [{"Name": "key", "Values": [PAYER]}, {"Name": "value", "Values": [payer[PAYER]]}]
    found = await asyncio.to_thread(ec2.describe_tags, Filters=filters)
    tagged = {each["ResourceId"] for each in found["Tags"]}
    assert tagged == {launched.instance_id, *instance.deleted_with}


# --- what else is asked ---


async def test_zones(cloud: EC2Cloud, embedded: Embedded) -> None:
    zones = await cloud.zones_of(embedded.subnets)
    assert sorted(zones.values()) == sorted(embedded.zones)


async def test_an_unknown_subnet_is_a_configuration_error(cloud: EC2Cloud) -> None:
    with pytest.raises(CloudError, match="InvalidSubnetID") as failed:
        await cloud.zones_of(["subnet-0123456789abcdef0"])
    assert not failed.value.retryable


@pytest.mark.nightly(
    guard="tests/integration/aws/test_volumes.py::"
    "test_a_volume_that_another_instance_holds_is_refused"
)
async def test_a_volume_has_one_holder(
    cloud: EC2Cloud, embedded: Embedded, request_of: LaunchRequest, hub: str
) -> None:
    request = replace(request_of, offers=request_of.offers[:1])
    one, other = (await cloud.launch(request)).instances
    token, tags = f"home-{uuid4()}", {"ec2spawner:hub": hub, "ec2spawner:home": "home-1"}
    volume = await cloud.create_volume(token, one.zone, VolumeSpec(20), tags)
    again = await cloud.create_volume(token, one.zone, VolumeSpec(20), tags)
    assert again.volume_id == volume.volume_id

    await cloud.attach_volume(volume.volume_id, one.instance_id)
    await cloud.attach_volume(volume.volume_id, one.instance_id)
    with pytest.raises(CloudError) as failed:
        await cloud.attach_volume(volume.volume_id, other.instance_id)
    assert failed.value.code == "VolumeInUse"
    (listed,) = await homes(cloud, hub)
    assert (listed.attached_to, listed.state, listed.size_gib) == (one.instance_id, "in-use", 20)
    assert listed.tags == tags

    await cloud.detach_volume(volume.volume_id, other.instance_id)  # not its holder: no effect
    assert (await homes(cloud, hub))[0].attached_to == one.instance_id
    await cloud.detach_volume(volume.volume_id, one.instance_id)
    await cloud.detach_volume(volume.volume_id, one.instance_id)
    await cloud.attach_volume(volume.volume_id, other.instance_id)
    assert (await homes(cloud, hub))[0].attached_to == other.instance_id


async def homes(cloud: EC2Cloud, hub: str) -> list[Any]:
    """The hub's volumes without the root disks, which carry its tag too."""
    return [one for one in await cloud.list_volumes(hub) if "ec2spawner:home" in one.tags]


async def test_a_volume_of_another_zone_is_a_configuration_error(
    cloud: EC2Cloud, embedded: Embedded, request_of: LaunchRequest, hub: str
) -> None:
    (launched,) = (await cloud.launch(replace(request_of, count=1))).instances
    elsewhere = next(zone for zone in embedded.zones if zone != launched.zone)
    tags = {"ec2spawner:hub": hub}
    volume = await cloud.create_volume(f"home-{uuid4()}", elsewhere, VolumeSpec(20), tags)
    with pytest.raises(CloudError, match="ZoneMismatch"):
        await cloud.attach_volume(volume.volume_id, launched.instance_id)


# --- identity ---


def test_signatures_of_the_embedded_ec2_verify_only_with_its_certificate(tmp_path: Path) -> None:
    signer = IdentitySigner(tmp_path)
    document = json.dumps(
        {
            "accountId": "123456789012",
            "imageId": "ami-0fa9e1f64142cde17",
            "instanceId": "i-078517ca8a70a1dde",
            "instanceType": "g4dn.xlarge",
            "pendingTime": "2026-11-20T09:25:44Z",
            "privateIp": "127.64.0.9",
            "region": "us-east-1",
        }
    )
    signature = signer.sign(document.encode())
    trusted = pinned_certificates("us-east-1", [signer.certificate_path])
    assert verify_identity(document, signature, trusted).instance_id == "i-078517ca8a70a1dde"
    with pytest.raises(IdentityRefused):
        verify_identity(document, signature, pinned_certificates("us-east-1"))
