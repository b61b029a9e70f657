"""On-Demand Capacity Reservations, as a client meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.embedded.conftest import Laboratory, until

KIND, PLATFORM = "g4dn.xlarge", "Linux/UNIX"


def code(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as refused:
        call()
    return refused.value.response["Error"]["Code"]


@pytest.fixture
def reserve(lab: Laboratory) -> Iterator[Callable[..., str]]:
    """Makes reservations of two instances in the first zone; their ids. They end with the test."""
    made: list[str] = []

    def create(**more: Any) -> str:
        answer = lab.ec2.create_capacity_reservation(
            **{
                "InstanceType": KIND,
                "InstancePlatform": PLATFORM,
                "AvailabilityZone": lab.facts.zones[0],
                "InstanceCount": 2,
                **more,
            }
        )
        made.append(answer["CapacityReservation"]["CapacityReservationId"])
        return made[-1]

    yield create
    for each in made:
        if shown(lab, each)["State"] == "active":
            lab.ec2.cancel_capacity_reservation(CapacityReservationId=each)


def shown(lab: Laboratory, reservation: str) -> Any:
    found = lab.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])
    return found["CapacityReservations"][0]


def available(lab: Laboratory, reservation: str) -> int:
    count: int = shown(lab, reservation)["AvailableInstanceCount"]
    return count


def run(lab: Laboratory, target: str = "", preference: str = "", **more: Any) -> str:
    wish: dict[str, Any] = {"CapacityReservationPreference": preference} if preference else {}
    if target:
        wish["CapacityReservationTarget"] = {"CapacityReservationId": target}
    if wish:
        more["CapacityReservationSpecification"] = wish
    return lab.run(InstanceType=KIND, **more)


def terminate(lab: Laboratory, instance_id: str) -> None:
    lab.ec2.terminate_instances(InstanceIds=[instance_id])
    lab.wait_for(instance_id, "terminated")


def test_a_reservation_is_shown_as_it_was_made(
    lab: Laboratory, reserve: Callable[..., str]
) -> None:
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "course", "Value": "ml"}]}]
    made = reserve(
        EndDate=end,
        EndDateType="limited",
        InstanceMatchCriteria="targeted",
        TagSpecifications=tags,
    )
    found = shown(lab, made)
    assert (found["State"], found["InstanceType"], found["EndDate"]) == ("active", KIND, end)
    assert (found["TotalInstanceCount"], found["AvailableInstanceCount"]) == (2, 2)
    assert (found["InstanceMatchCriteria"], found["EndDateType"]) == ("targeted", "limited")
    assert found["Tags"] == [{"Key": "course", "Value": "ml"}]


def test_reservations_are_filtered_and_paged(lab: Laboratory, reserve: Callable[..., str]) -> None:
    first, second = reserve(), reserve(InstanceMatchCriteria="targeted")
    filters = [{"Name": "instance-match-criteria", "Values": ["targeted"]}]
    active = {"Name": "state", "Values": ["active"]}
    found = lab.ec2.describe_capacity_reservations(Filters=[*filters, active])
    assert [x["CapacityReservationId"] for x in found["CapacityReservations"]] == [second]
    pages = lab.ec2.get_paginator("describe_capacity_reservations").paginate(
        Filters=[active], PaginationConfig={"PageSize": 1}
    )
    ids = [each["CapacityReservationId"] for page in pages for each in page["CapacityReservations"]]
    assert ids == [first, second]
    wrong = [{"Name": "colour", "Values": ["red"]}]
    assert code(lambda: lab.ec2.describe_capacity_reservations(Filters=wrong)) == (
        "InvalidParameterValue"
    )


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"InstanceType": ""}, "MissingParameter"),
        ({"InstanceCount": 0}, "InvalidParameterValue"),
        ({"InstanceType": "p99.large"}, "InvalidParameterValue"),
        ({"AvailabilityZone": "us-east-1z"}, "Unsupported"),
        ({"AvailabilityZone": "eu-west-1a"}, "InvalidParameterValue"),
        ({"EndDateType": "limited"}, "InvalidParameterCombination"),
        ({"EndDate": datetime(2036, 1, 1, tzinfo=UTC)}, "InvalidParameterCombination"),
        (
            {"EndDate": datetime(2020, 1, 1, tzinfo=UTC), "EndDateType": "limited"},
            "InvalidParameterValue",
        ),
        ({"InstanceMatchCriteria": "closed"}, "InvalidParameterValue"),
        ({"InstancePlatform": "Windows"}, "UnsupportedOperation"),
    ],
)
def test_what_ec2_refuses_is_refused(
    lab: Laboratory, reserve: Callable[..., str], more: dict[str, Any], expected: str
) -> None:
    assert code(lambda: reserve(**more)) == expected


def test_ids_are_checked(lab: Laboratory) -> None:
    describe = lab.ec2.describe_capacity_reservations
    unknown = "cr-00000000000000000"
    malformed = "InvalidCapacityReservationId.Malformed"
    assert code(lambda: describe(CapacityReservationIds=["cr-x"])) == malformed
    gone = "InvalidCapacityReservationId.NotFound"
    assert code(lambda: describe(CapacityReservationIds=[unknown])) == gone
    assert code(lambda: run(lab, unknown)) == gone


def test_its_capacity_is_set_aside(lab: Laboratory, reserve: Callable[..., str]) -> None:
    zone = lab.facts.zones[0]
    lab.control(
        "capacity",
        {"market": "on-demand", "instance_type": KIND, "zone": zone, "available": 3},
    )
    made = reserve(InstanceMatchCriteria="targeted")
    first = run(lab)
    assert code(lambda: run(lab)) == "InsufficientInstanceCapacity", "the other two are reserved"
    assert code(reserve) == "InsufficientInstanceCapacity"
    second = run(lab, made)
    lab.ec2.cancel_capacity_reservation(CapacityReservationId=made)
    third = run(lab)
    assert code(lambda: run(lab)) == "InsufficientInstanceCapacity", "the second one runs on"
    for each in (first, second, third):
        terminate(lab, each)
    for each in [run(lab) for _ in range(3)]:
        terminate(lab, each)


def test_it_counts_against_the_quota_and_its_instances_do_not(
    lab: Laboratory, reserve: Callable[..., str]
) -> None:
    lab.control("limits", {"quotas": {"on-demand": 12}})
    made = reserve(InstanceMatchCriteria="targeted")  # 2 x 4 vCPUs
    assert code(reserve) == "VcpuLimitExceeded"
    first, second, third = run(lab, made), run(lab, made), run(lab)
    assert code(lambda: run(lab)) == "VcpuLimitExceeded"
    for each in (first, second, third):
        terminate(lab, each)


def test_a_targeted_one_takes_launches_that_name_it_and_no_more_than_it_has(
    lab: Laboratory, reserve: Callable[..., str]
) -> None:
    made = reserve(InstanceMatchCriteria="targeted")
    other = run(lab)
    assert "CapacityReservationId" not in lab.instance(other)
    inside = [run(lab, made), run(lab, made, "capacity-reservations-only")]
    assert {lab.instance(each)["CapacityReservationId"] for each in inside} == {made}
    assert available(lab, made) == 0
    assert code(lambda: run(lab, made)) == "ReservationCapacityExceeded"
    terminate(lab, inside[0])
    until(lambda: available(lab, made) == 1)
    for each in (other, inside[1]):
        terminate(lab, each)


def test_an_open_one_takes_any_launch_that_fits(
    lab: Laboratory, reserve: Callable[..., str]
) -> None:
    made = reserve(InstanceCount=1)
    outside = run(lab, preference="none")
    first, second = run(lab), run(lab)
    found = [lab.instance(each).get("CapacityReservationId") for each in (outside, first, second)]
    assert found == [None, made, None]
    only = "capacity-reservations-only"
    assert code(lambda: run(lab, preference=only)) == "ReservationCapacityExceeded"
    for each in (outside, first, second):
        terminate(lab, each)


@pytest.mark.parametrize(
    ("preference", "more", "expected"),
    [
        ("open", {}, "InvalidParameterCombination"),
        ("none", {}, "InvalidParameterCombination"),
        ("", {"InstanceMarketOptions": {"MarketType": "spot"}}, "InvalidParameterCombination"),
        ("", {"InstanceType": "g5.xlarge"}, "InvalidParameterValue"),
    ],
)
def test_what_does_not_go_with_a_target_is_refused(
    lab: Laboratory,
    reserve: Callable[..., str],
    preference: str,
    more: dict[str, Any],
    expected: str,
) -> None:
    wish: dict[str, Any] = {"CapacityReservationTarget": {"CapacityReservationId": reserve()}}
    if preference:
        wish["CapacityReservationPreference"] = preference
    launch = {"InstanceType": KIND, "CapacityReservationSpecification": wish, **more}
    assert code(lambda: lab.run(**launch)) == expected


def test_a_fleet_whose_template_targets_one_launches_only_there(
    lab: Laboratory, reserve: Callable[..., str]
) -> None:
    made = reserve(InstanceMatchCriteria="targeted")
    template = lab.template(
        f"targets-{made}",
        CapacityReservationSpecification={
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": made},
        },
    )
    answer = lab.fleet(template, 3, "on-demand", (KIND,), (lab.facts.subnets[0],))
    ids = [each for group in answer["Instances"] for each in group["InstanceIds"]]
    assert len(ids) == 2
    assert [each["ErrorCode"] for each in answer["Errors"]] == ["ReservationCapacityExceeded"]
    assert {lab.instance(each)["CapacityReservationId"] for each in ids} == {made}
    for each in ids:
        terminate(lab, each)


def test_a_stopped_instance_gives_its_place_back_and_starts_there_only(
    lab: Laboratory, reserve: Callable[..., str]
) -> None:
    made = reserve(InstanceMatchCriteria="targeted", InstanceCount=1)
    first = run(lab, made)
    lab.wait_for(first, "running")
    lab.ec2.stop_instances(InstanceIds=[first])
    lab.wait_for(first, "stopped")
    assert available(lab, made) == 1
    assert "CapacityReservationId" not in lab.instance(first)
    second = run(lab, made)
    start = lab.ec2.start_instances
    assert code(lambda: start(InstanceIds=[first])) == "ReservationCapacityExceeded"
    terminate(lab, second)
    until(lambda: available(lab, made) == 1)
    start(InstanceIds=[first])
    assert lab.instance(first)["CapacityReservationId"] == made
    terminate(lab, first)


def test_its_instances_outlive_it(lab: Laboratory, reserve: Callable[..., str]) -> None:
    made = reserve(InstanceMatchCriteria="targeted")
    inside = run(lab, made)
    lab.wait_for(inside, "running")
    lab.ec2.cancel_capacity_reservation(CapacityReservationId=made)
    assert lab.state(inside) == "running"
    assert "CapacityReservationId" not in lab.instance(inside)
    assert (shown(lab, made)["State"], available(lab, made)) == ("cancelled", 0)
    assert code(lambda: run(lab, made)) == "InvalidCapacityReservationId.NotFound"
    cancel = lab.ec2.cancel_capacity_reservation
    assert code(lambda: cancel(CapacityReservationId=made)) == "InvalidCapacityReservationState"
    terminate(lab, inside)


def test_it_expires_at_its_end(lab: Laboratory, reserve: Callable[..., str]) -> None:
    end = datetime.now(UTC) + timedelta(seconds=2)
    made = reserve(EndDate=end, EndDateType="limited")
    until(lambda: shown(lab, made)["State"] == "expired")
    assert datetime.now(UTC) >= end.replace(microsecond=0)
    assert available(lab, made) == 0


def test_a_repeated_call_with_its_token_makes_one(
    lab: Laboratory, reserve: Callable[..., str]
) -> None:
    first = reserve(ClientToken="the same")
    assert reserve(ClientToken="the same") == first
