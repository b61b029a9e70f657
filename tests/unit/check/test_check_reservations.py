"""What the check says of the capacity reservations of a configuration."""

from __future__ import annotations

from dataclasses import replace

from ec2spawner.check.finding import State
from ec2spawner.check.verdicts.reservations import judge_capacity_reservations
from ec2spawner.core.offers.reserved_capacity import CapacityReservation, ReservationChoice

A = "us-east-1a"
ID = "cr-0000000a"
RESERVED = CapacityReservation(ID, "g5.xlarge", A, total=4, available=3, tags={"course": "ml"})
BY_ID = ReservationChoice(frozenset({ID}))
USABLE = {"g5.xlarge": [A]}


def test_a_usable_reservation_is_shown_with_its_places() -> None:
    [found] = judge_capacity_reservations(BY_ID, [RESERVED], USABLE)
    assert (found.state, found.said) == (
        State.OK,
        f"{ID}: 4 g5.xlarge in {A}, 3 of them unused now",
    )


def test_an_id_that_is_not_listed_is_a_warning() -> None:
    other = replace(RESERVED, reservation_id="cr-0000000b")
    [found] = judge_capacity_reservations(BY_ID, [other], USABLE)
    assert found.state is State.WARNING
    assert found.said.startswith(ID)
    assert "c.EC2Spawner.capacity_reservations" in found.fix


def test_tags_that_no_reservation_has_are_a_warning() -> None:
    by_tag = ReservationChoice(tags={"course": "art"})
    [found] = judge_capacity_reservations(by_tag, [RESERVED], USABLE)
    assert found.state is State.WARNING
    by_tag = ReservationChoice(tags={"course": "ml"})
    [found] = judge_capacity_reservations(by_tag, [RESERVED], USABLE)
    assert found.state is State.OK


def test_a_type_or_a_zone_that_no_server_can_use_is_a_warning_with_the_fix() -> None:
    [found] = judge_capacity_reservations(BY_ID, [RESERVED], {})
    assert (found.state, "g5.xlarge" in found.fix) == (State.WARNING, True)
    [found] = judge_capacity_reservations(BY_ID, [RESERVED], {"g5.xlarge": ["us-east-1b"]})
    assert (found.state, found.fix) == (
        State.WARNING,
        f"add a subnet in {A} to c.EC2Spawner.subnets",
    )


def test_a_capacity_block_without_its_price_is_a_warning_with_the_fix() -> None:
    block = replace(RESERVED, is_block=True)
    [found] = judge_capacity_reservations(BY_ID, [block], USABLE)
    assert (found.state, "`blocks`" in found.fix) == (State.WARNING, True)
    priced = ReservationChoice(blocks={ID: 960.0})
    [found] = judge_capacity_reservations(priced, [block], USABLE)
    assert found.state is State.OK
    [found] = judge_capacity_reservations(priced, [RESERVED], USABLE)
    assert (found.state, found.said.startswith(ID)) == (State.WARNING, True)
