"""Capacity Blocks, as a client meets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.embedded.conftest import Laboratory, until

KIND, BLOCK = "g4dn.xlarge", "capacity-block"
HALF_HOUR, DAY = 1800.0, 86_400.0
TYPE: dict[str, Any] = {"InstanceMarketOptions": {"MarketType": BLOCK}}


def code(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as refused:
        call()
    return refused.value.response["Error"]["Code"]


def block(lab: Laboratory, left: float = DAY - 60, count: int = 1) -> str:
    body = {"instance_type": KIND, "zone": lab.facts.zones[0], "count": count}
    made = lab.control("capacity-blocks", {**body, "begun": 60, "left": left})
    name: str = made["reservation"]
    return name


def target(reservation: str) -> dict[str, Any]:
    wish = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
    return {"CapacityReservationSpecification": wish}


def shown(lab: Laboratory, reservation: str) -> Any:
    found = lab.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])
    return found["CapacityReservations"][0]


def test_a_launch_names_the_block_and_its_market_type(lab: Laboratory) -> None:
    made = block(lab)
    found = shown(lab, made)
    assert (found["ReservationType"], found["State"]) == (BLOCK, "active")
    assert (found["EndDate"] - found["StartDate"]).total_seconds() == pytest.approx(DAY, abs=2)
    wrong = "InvalidParameterCombination"
    assert code(lambda: lab.run(InstanceType=KIND, **target(made))) == wrong
    assert code(lambda: lab.run(InstanceType=KIND, **TYPE)) == wrong
    inside = lab.run(InstanceType=KIND, **TYPE, **target(made))
    instance = lab.instance(inside)
    assert (instance["CapacityReservationId"], instance["InstanceLifecycle"]) == (made, BLOCK)
    full = "InsufficientInstanceCapacity"
    assert code(lambda: lab.run(InstanceType=KIND, **TYPE, **target(made))) == full
    cancel = lab.ec2.cancel_capacity_reservation
    assert code(lambda: cancel(CapacityReservationId=made)) == "UnsupportedOperation"
    lab.ec2.terminate_instances(InstanceIds=[inside])
    lab.wait_for(inside, "terminated")
    until(lambda: shown(lab, made)["AvailableInstanceCount"] == 1)


def test_no_other_launch_takes_its_places_and_it_needs_no_quota(lab: Laboratory) -> None:
    lab.control("limits", {"quotas": {"on-demand": 4}})
    made = block(lab)
    outside = lab.run(InstanceType=KIND)
    assert "CapacityReservationId" not in lab.instance(outside)
    assert code(lambda: lab.run(InstanceType=KIND)) == "VcpuLimitExceeded"
    inside = lab.run(InstanceType=KIND, **TYPE, **target(made))
    for each in (outside, inside):
        lab.ec2.terminate_instances(InstanceIds=[each])
        lab.wait_for(each, "terminated")


def test_the_market_type_is_for_blocks_only(lab: Laboratory) -> None:
    answer = lab.ec2.create_capacity_reservation(
        InstanceType=KIND,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=lab.facts.zones[0],
        InstanceCount=1,
    )
    other = answer["CapacityReservation"]["CapacityReservationId"]
    refused = code(lambda: lab.run(InstanceType=KIND, **TYPE, **target(other)))
    assert refused == "InvalidParameterCombination"
    lab.ec2.cancel_capacity_reservation(CapacityReservationId=other)


def test_its_instances_end_half_an_hour_before_it(lab: Laboratory) -> None:
    made = block(lab, left=HALF_HOUR + 4, count=2)
    inside = lab.run(InstanceType=KIND, **TYPE, **target(made))
    lab.wait_for(inside, "running")
    lab.wait_for(inside, "terminated")
    assert shown(lab, made)["State"] == "active"
    refused = code(lambda: lab.run(InstanceType=KIND, **TYPE, **target(made)))
    assert refused == "InsufficientInstanceCapacity"


def test_a_fleet_and_its_template_agree_on_the_market_type(lab: Laboratory) -> None:
    made = block(lab)
    inside = lab.template(f"into-{made}", **TYPE, **target(made))
    ordinary = lab.template(f"beside-{made}")
    subnets = (lab.facts.subnets[0],)
    wrong = "InvalidParameterCombination"
    assert code(lambda: lab.fleet(inside, 1, "on-demand", (KIND,), subnets)) == wrong
    assert code(lambda: lab.fleet(ordinary, 1, BLOCK, (KIND,), subnets)) == wrong
    answer = lab.fleet(inside, 2, BLOCK, (KIND,), subnets)
    [group] = answer["Instances"]
    assert group["Lifecycle"] == BLOCK
    assert [each["ErrorCode"] for each in answer["Errors"]] == ["InsufficientInstanceCapacity"]
    [launched] = group["InstanceIds"]
    lab.ec2.terminate_instances(InstanceIds=[launched])
    lab.wait_for(launched, "terminated")
