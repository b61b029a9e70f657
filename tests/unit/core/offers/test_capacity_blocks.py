"""What a place of a Capacity Block costs, and until when its servers may use it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.offers import capacity_blocks
from ec2spawner.core.offers.capacity_blocks import MIN_LAUNCH, TO_LEAVE, left_at, may_launch
from ec2spawner.core.offers.reserved_capacity import CapacityReservation, ReservationChoice

BEGIN = datetime(2026, 11, 26, 11, 30, tzinfo=UTC)
DAY = CapacityReservation(
    "cr-0000000a",
    "p5.48xlarge",
    "us-east-1a",
    total=4,
    available=4,
    ends_at=BEGIN + timedelta(days=1),
    tags={"course": "ml"},
    is_block=True,
    begins_at=BEGIN,
)


def test_the_price_is_what_was_paid_by_place_and_hour() -> None:
    assert capacity_blocks.usd_per_hour(DAY, 960.0) == pytest.approx(10.0)
    extended = replace(DAY, ends_at=BEGIN + timedelta(days=2))
    assert capacity_blocks.usd_per_hour(extended, 960.0) == pytest.approx(5.0)


@pytest.mark.parametrize("unknown", [{"begins_at": None}, {"ends_at": None}, {"ends_at": BEGIN}])
def test_without_a_beginning_and_an_end_it_is_unknown(unknown: dict[str, datetime | None]) -> None:
    assert capacity_blocks.usd_per_hour(replace(DAY, **unknown), 960.0) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "minutes"), [("p5.48xlarge", 30), ("trn2u.48xlarge", 60), ("p6e-gb200.36xlarge", 60)]
)
def test_servers_have_left_before_ec2_reclaims_the_instances(kind: str, minutes: int) -> None:
    block = replace(DAY, instance_type=kind)
    reclaimed = BEGIN + timedelta(days=1) - timedelta(minutes=minutes)
    assert capacity_blocks.reclaimed_at(block) == reclaimed
    assert left_at(block) == reclaimed - TO_LEAVE


@given(st.integers(min_value=0, max_value=24 * 60))
def test_what_is_launched_has_its_time(minutes: int) -> None:
    now, leaves = BEGIN + timedelta(minutes=minutes), left_at(DAY)
    assert leaves is not None
    assert may_launch(DAY, now) == (leaves - now > MIN_LAUNCH)


def test_other_reservations_are_never_left() -> None:
    reservation = replace(DAY, is_block=False)
    assert left_at(reservation) is None
    assert may_launch(reservation, BEGIN + timedelta(days=1, minutes=-1))


def test_a_block_is_used_with_its_price_only() -> None:
    for choice in (
        ReservationChoice(frozenset({DAY.reservation_id})),
        ReservationChoice(tags={"course": "ml"}),
    ):
        assert not choice.chooses(DAY)
        assert choice.lacks_price(DAY)
        assert choice.chooses(replace(DAY, is_block=False))
    priced = ReservationChoice(blocks={DAY.reservation_id: 960.0})
    assert priced.is_any
    assert not priced.lacks_price(DAY)
    assert not priced.chooses(replace(DAY, is_block=False)), "it is listed as a block"
    [found] = capacity_blocks.chosen(priced, [DAY, replace(DAY, reservation_id="cr-0000000b")])
    assert found == replace(DAY, usd_per_hour=10.0)
