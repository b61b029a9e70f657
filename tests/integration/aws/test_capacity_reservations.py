"""Capacity reservations over real HTTP, with the permissions that the hub's policy gives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from ec2spawner.aws import EC2Cloud
from ec2spawner.core.offers.reserved_capacity import CapacityReservation
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import GONE
from ec2spawner.provisioner.model.cloud.launch import LaunchRequest, LaunchSpec
from ec2spawner.wire import Market

from .embedded_ec2 import SMALL, Embedded
from .scripted_ec2 import ScriptedEC2, ok

UNAUTHORIZED = "UnauthorizedOperation"


@pytest.fixture
def hub(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"hub-{uuid4()}"
    for variable, value in embedded.key_of(name).items():
        monkeypatch.setenv(variable, value)
    return name


@pytest.fixture
async def hubs_cloud(embedded: Embedded, hub: str) -> AsyncIterator[EC2Cloud]:
    opened = EC2Cloud(embedded.region, embedded.endpoint)
    yield opened
    await opened.terminate([one.instance_id for one in await opened.list_instances(hub)])
    await opened.close()


def reserve(embedded: Embedded, count: int = 2, **more: Any) -> str:
    answer = embedded.client("ec2").create_capacity_reservation(
        InstanceType=SMALL,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=embedded.zones[0],
        InstanceCount=count,
        InstanceMatchCriteria="targeted",
        **more,
    )
    made: str = answer["CapacityReservation"]["CapacityReservationId"]
    return made


def request(embedded: Embedded, hub: str, count: int, reservation: str) -> LaunchRequest:
    spec = LaunchSpec(
        instance_types=(SMALL,),
        subnets=embedded.subnets[:1],
        image_id=embedded.image_id,
        markets=(Market.ON_DEMAND,),
        disk_gib=80,
    )
    offers = ((SMALL, embedded.subnets[0]),)
    tags = {"ec2spawner:hub": hub, "ec2spawner:intent": "token"}
    token = str(uuid4())
    return LaunchRequest(
        token, Market.ON_DEMAND, count, spec, tags, offers, reservation=reservation
    )


async def test_a_launch_takes_the_places_of_its_reservation_and_nothing_else(
    embedded: Embedded, hubs_cloud: EC2Cloud, hub: str
) -> None:
    made = reserve(embedded, TagSpecifications=[
        {"ResourceType": "capacity-reservation", "Tags": [{"Key": "course", "Value": "ml"}]}
    ])  # fmt: skip
    answer = await hubs_cloud.launch(request(embedded, hub, 3, made))
    assert len(answer.instances) == 2
    assert [error.code for error in answer.errors] == ["ReservationCapacityExceeded"]
    listed = await hubs_cloud.list_instances(hub)
    assert [each.reservation for each in listed] == [made, made]
    [found] = [x for x in await hubs_cloud.capacity_reservations() if x.reservation_id == made]
    assert found == CapacityReservation(made, SMALL, embedded.zones[0], 2, 0, tags={"course": "ml"})
    elsewhere = await hubs_cloud.launch(request(embedded, hub, 1, ""))
    assert len(elsewhere.instances) == 1, "the same spec from another template"


async def test_a_cancelled_reservation_is_not_listed_and_refused_at_a_launch(
    embedded: Embedded, hubs_cloud: EC2Cloud, hub: str
) -> None:
    made = reserve(embedded)
    embedded.client("ec2").cancel_capacity_reservation(CapacityReservationId=made)
    assert made not in {x.reservation_id for x in await hubs_cloud.capacity_reservations()}
    answer = await hubs_cloud.launch(request(embedded, hub, 1, made))
    assert answer.instances == ()
    assert {each.code for each in answer.errors} == {"InvalidCapacityReservationId.NotFound"}


async def test_the_hub_may_neither_make_nor_cancel_a_reservation(
    embedded: Embedded, hubs_cloud: EC2Cloud
) -> None:
    made = reserve(embedded)
    for operation, parameters in (
        ("cancel_capacity_reservation", {"CapacityReservationId": made}),
        (
            "create_capacity_reservation",
            {"InstanceType": SMALL, "InstancePlatform": "Linux/UNIX", "InstanceCount": 1},
        ),
    ):
        with pytest.raises(CloudError) as refused:
            await hubs_cloud.client.do(operation, **parameters)
        assert refused.value.code == UNAUTHORIZED
    listed = await hubs_cloud.capacity_reservations()
    assert made in {each.reservation_id for each in listed}


async def test_an_instance_that_has_left_is_in_none(
    embedded: Embedded, hubs_cloud: EC2Cloud, hub: str
) -> None:
    made = reserve(embedded, count=1)
    answer = await hubs_cloud.launch(request(embedded, hub, 1, made))
    [launched] = answer.instances
    embedded.client("ec2").cancel_capacity_reservation(CapacityReservationId=made)
    [instance] = await hubs_cloud.list_instances(hub)
    assert instance.instance_id == launched.instance_id
    assert instance.state not in GONE
    assert instance.reservation == ""


async def test_a_launch_into_a_capacity_block(
    embedded: Embedded, hubs_cloud: EC2Cloud, hub: str
) -> None:
    where = {"instance_type": SMALL, "zone": embedded.zones[0], "count": 1}
    made = embedded.control("capacity-blocks", **where, begun=60, left=7200)["reservation"]
    [found] = [x for x in await hubs_cloud.capacity_reservations() if x.reservation_id == made]
    assert (found.is_block, found.total, found.available) == (True, 1, 1)
    assert found.begins_at is not None
    assert found.ends_at is not None
    assert 7200 < (found.ends_at - found.begins_at).total_seconds() < 7300
    as_block = replace(request(embedded, hub, 2, made), is_block=True)
    answer = await hubs_cloud.launch(as_block)
    assert [each.market for each in answer.instances] == [Market.ON_DEMAND]
    assert [error.code for error in answer.errors] == ["InsufficientInstanceCapacity"]
    [instance] = await hubs_cloud.list_instances(hub)
    assert (instance.market, instance.reservation) == (Market.ON_DEMAND, made)
    assert instance.in_block
    without = await hubs_cloud.launch(request(embedded, hub, 1, made))
    assert without.instances == ()
    assert [error.code for error in without.errors] == ["InvalidParameterCombination"]


# --- scripted answers -----------------------------------------------------------------------


def row(name: str, **more: str) -> str:
    fields = {
        "capacityReservationId": name,
        "instanceType": SMALL,
        "instancePlatform": "Linux/UNIX",
        "availabilityZone": "us-east-1a",
        "tenancy": "default",
        "totalInstanceCount": "4",
        "availableInstanceCount": "3",
        "state": "active",
        "instanceMatchCriteria": "open",
        **more,
    }
    inner = "".join(f"<{key}>{value}</{key}>" for key, value in fields.items())
    return f"<item>{inner}</item>"


def rows(*items: str, more: str = "") -> Any:
    return ok(f"<capacityReservationSet>{''.join(items)}</capacityReservationSet>{more}")


async def test_what_instances_of_a_hub_cannot_run_in_is_left_out(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will(
        "DescribeCapacityReservations",
        rows(
            row("cr-a", endDate="2026-12-01T10:00:00.000Z"),
            row("cr-b", instancePlatform="Windows"),
            row("cr-c", tenancy="dedicated"),
            row("cr-d", reservationType="capacity-block"),  # without an end
            row("cr-e", interruptible="true"),
            row("cr-f", outpostArn="arn:aws:outposts:us-east-1:111122223333:outpost/op-1"),
            row("cr-g", placementGroupArn="arn:aws:ec2:us-east-1:111122223333:placement-group/x"),
            row("cr-h", state="expired"),
        ),
    )
    [found] = await cloud.capacity_reservations()
    assert found.reservation_id == "cr-a"
    assert (found.total, found.available) == (4, 3)
    assert found.ends_at == datetime(2026, 12, 1, 10, tzinfo=UTC)


async def test_all_pages_are_read(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will(
        "DescribeCapacityReservations",
        rows(row("cr-a"), more="<nextToken>more</nextToken>"),
        rows(row("cr-b")),
    )
    found = await cloud.capacity_reservations()
    assert [each.reservation_id for each in found] == ["cr-a", "cr-b"]


async def test_a_block_is_listed_with_when_it_is_paid(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    times = {"startDate": "2026-12-01T11:30:00.000Z", "endDate": "2026-12-02T11:30:00.000Z"}
    more = {"reservationType": "capacity-block", "instanceMatchCriteria": "targeted", **times}
    scheduled = row("cr-b", **{**more, "state": "scheduled"})
    ec2.will("DescribeCapacityReservations", rows(row("cr-a", **more), scheduled))
    [found] = await cloud.capacity_reservations()
    assert (found.reservation_id, found.is_block) == ("cr-a", True)
    assert found.begins_at == datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
    assert found.ends_at == datetime(2026, 12, 2, 11, 30, tzinfo=UTC)
