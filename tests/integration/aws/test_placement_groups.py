"""The placement group of a cluster: calls that can be repeated, and launches into it."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.compute import new_groups
from ec2spawner.core.offers.launch_errors import GROUP_NOT_KNOWN_YET
from ec2spawner.core.tags import HUB, LEASE, STORE
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import InstanceState
from ec2spawner.provisioner.model.cloud.launch import FleetResponse, LaunchRequest, LaunchSpec
from ec2spawner.provisioner.model.cloud.network import PlacementGroup
from ec2spawner.wire import Market
from tests.harness import until

from .embedded_ec2 import Embedded
from .scripted_ec2 import Reply, ScriptedEC2, error, ok

TAGS = {HUB: "class", STORE: "store-1", LEASE: "lease-1"}
MADE = ok("<placementGroup><groupName>cluster</groupName></placementGroup>")
DUPLICATE = error("InvalidPlacementGroup.Duplicate", "exists")
UNKNOWN = error("InvalidPlacementGroup.Unknown", "is unknown")
IN_USE = error("InvalidPlacementGroup.InUse", "is in use")

LARGE = "m5.large"
"""A type that can be in such a group."""


def shown(state: str = "available", **tags: str) -> Reply:
    items = "".join(
        f"<item><key>ec2spawner:{key}</key><value>{value}</value></item>"
        for key, value in tags.items()
    )
    return ok(
        "<placementGroupSet><item><groupName>cluster</groupName>"
        f"<state>{state}</state><tagSet>{items}</tagSet></item></placementGroupSet>"
    )


OURS = {"hub": "class", "store": "store-1", "lease": "lease-1"}


async def test_a_group_is_made_with_its_strategy_and_tags(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("CreatePlacementGroup", MADE)
    await cloud.create_placement_group("cluster", TAGS)
    [made] = ec2.calls
    assert {
        "GroupName": "cluster",
        "Strategy": "cluster",
        "TagSpecification.1.ResourceType": "placement-group",
    }.items() <= made.items()
    assert {
        made[f"TagSpecification.1.Tag.{n}.Key"]: made[f"TagSpecification.1.Tag.{n}.Value"]
        for n in (1, 2, 3)
    } == TAGS


async def test_a_repetition_finds_the_group_of_the_first_call(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("CreatePlacementGroup", DUPLICATE)
    ec2.will("DescribePlacementGroups", shown(**OURS))
    await cloud.create_placement_group("cluster", TAGS)


@pytest.mark.parametrize(
    ("found", "retryable"),
    [
        (shown(**{**OURS, "store": "another"}), False),
        (ok("<placementGroupSet/>"), True),
        (shown("deleting", **OURS), True),
        (shown("pending", **OURS), True),
    ],
    ids=["somebody-elses", "not-listed-yet", "being-deleted", "being-made"],
)
async def test_a_group_of_that_name_that_cannot_be_used(
    cloud: EC2Cloud, ec2: ScriptedEC2, found: Reply, retryable: bool
) -> None:
    ec2.will("CreatePlacementGroup", DUPLICATE)
    ec2.will("DescribePlacementGroups", found)
    with pytest.raises(CloudError) as refused:
        await cloud.create_placement_group("cluster", TAGS)
    assert refused.value.code == "InvalidPlacementGroup.Duplicate"
    assert refused.value.retryable is retryable


async def test_deleted_already_is_no_error_and_in_use_is(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DeletePlacementGroup", UNKNOWN, IN_USE)
    await cloud.delete_placement_group("cluster")
    with pytest.raises(CloudError) as refused:
        await cloud.delete_placement_group("cluster")
    assert (refused.value.code, refused.value.retryable) == ("InvalidPlacementGroup.InUse", False)


async def test_the_hubs_groups_are_listed_by_its_tag(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DescribePlacementGroups", shown(hub="class"))
    assert await cloud.list_placement_groups("class") == [
        PlacementGroup("cluster", "available", {HUB: "class"})
    ]
    [call] = ec2.calls
    assert call["Filter.1.Name"] == f"tag:{HUB}"


# --- over the embedded EC2, with the hub's own permissions -----------------------------------


def request(embedded: Embedded, hub: str, group: str, count: int = 2) -> LaunchRequest:
    subnet = embedded.subnets[0]
    spec = LaunchSpec(
        (LARGE,), (subnet,), embedded.image_id, (Market.ON_DEMAND,), 75, placement_group=group
    )
    tags = {HUB: hub, STORE: "s"}
    return LaunchRequest(str(uuid4()), Market.ON_DEMAND, count, spec, tags, ((LARGE, subnet),))


async def test_the_life_of_a_group(real: EC2Cloud, embedded: Embedded, hub: str) -> None:
    name, tags = f"cluster-{uuid4()}", {**TAGS, HUB: hub}
    await real.create_placement_group(name, tags)
    await real.create_placement_group(name, tags)
    assert await real.list_placement_groups(hub) == [PlacementGroup(name, "available", tags)]

    answer: FleetResponse = await real.launch(request(embedded, hub, name))
    assert (len(answer.instances), answer.errors) == (2, ())
    workers = {each.instance_id for each in answer.instances}
    filters = [{"Name": "placement-group-name", "Values": [name]}]
    listed = embedded.client("ec2").describe_instances(Filters=filters)["Reservations"]
    found = [instance for each in listed for instance in each["Instances"]]
    assert {each["InstanceId"] for each in found} == workers
    assert {each["Placement"]["GroupName"] for each in found} == {name}

    with pytest.raises(CloudError) as refused:
        await real.delete_placement_group(name)
    assert refused.value.code == "InvalidPlacementGroup.InUse"
    await real.terminate(sorted(workers))

    async def ended() -> bool:
        listed = await real.list_instances(hub)
        return {each.state for each in listed} <= {InstanceState.TERMINATED}

    await until(ended, 20, "both ended")
    await real.delete_placement_group(name)
    await real.delete_placement_group(name)
    assert await real.list_placement_groups(hub) == []


async def test_open_reservations_are_left_to_servers(
    real: EC2Cloud, embedded: Embedded, hub: str
) -> None:
    ec2 = embedded.client("ec2")
    made = ec2.create_capacity_reservation(
        InstanceType=LARGE,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=embedded.zones[0],
        InstanceCount=1,
    )["CapacityReservation"]["CapacityReservationId"]
    name = f"cluster-{uuid4()}"
    await real.create_placement_group(name, {**TAGS, HUB: hub})
    answer = await real.launch(request(embedded, hub, name, 1))
    [worker] = [each.instance_id for each in answer.instances]
    [[instance]] = [
        each["Instances"] for each in ec2.describe_instances(InstanceIds=[worker])["Reservations"]
    ]
    assert "CapacityReservationId" not in instance
    await real.terminate([worker])
    ec2.cancel_capacity_reservation(CapacityReservationId=made)


async def test_a_launch_that_does_not_know_a_new_group_is_asked_again(
    real: EC2Cloud, embedded: Embedded, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"cluster-{uuid4()}"
    await real.create_placement_group(name, {**TAGS, HUB: hub})
    embedded.client("ec2").delete_placement_group(GroupName=name)
    asked = request(embedded, hub, name)
    answer = await real.launch(asked)
    assert [each.code for each in answer.errors] == [GROUP_NOT_KNOWN_YET]

    monkeypatch.setattr(new_groups, "NEW_SECONDS", 0.0)
    later = await real.launch(replace(asked, client_token=str(uuid4())))
    assert [each.code for each in later.errors] == ["InvalidPlacementGroup.Unknown"]


async def test_another_hubs_group_is_not_used(real: EC2Cloud, embedded: Embedded, hub: str) -> None:
    theirs = f"theirs-{uuid4()}"
    embedded.client("ec2").create_placement_group(GroupName=theirs, Strategy="cluster")
    for refused_call in (
        real.delete_placement_group(theirs),
        real.create_placement_group("new", {HUB: "another"}),
        real.launch(request(embedded, hub, theirs)),
    ):
        with pytest.raises(CloudError) as refused:
            await refused_call
        assert refused.value.code == "UnauthorizedOperation"
    with pytest.raises(CloudError) as refused:
        await real.create_placement_group(theirs, {HUB: hub})
    assert refused.value.code == "InvalidPlacementGroup.Duplicate"
    embedded.client("ec2").delete_placement_group(GroupName=theirs)
