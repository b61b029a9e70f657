"""Whose turn it is while spot is sold out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.offers.launch_errors import ErrorClass
from ec2spawner.core.offers.sold_out import Mark
from ec2spawner.core.offers.spot_wait import (
    BOOT_RESERVE,
    PAUSE,
    Turn,
    Wait,
    is_in_vain,
    longest_wait,
    turn,
)

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
instants = st.integers(-3600, 3600).map(lambda seconds: NOW + timedelta(seconds=seconds))
waits = st.builds(Wait, until=instants)
LASTING = {ErrorClass.MARKET, ErrorClass.PLAN, ErrorClass.UNUSABLE, ErrorClass.TYPE_IN_ZONE}


def mark(error_class: ErrorClass) -> Mark:
    return Mark(error_class, "Code", NOW, NOW + timedelta(minutes=3))


marks = st.lists(st.none() | st.sampled_from(ErrorClass).map(mark), max_size=4)


@given(waits, marks, st.none() | instants)
def test_a_wait_ends_in_time_and_requests_only_possible_offers(
    wait: Wait, known: list[Mark | None], asked_at: datetime | None
) -> None:
    found = turn(wait, known, asked_at, NOW)
    is_open = None in known
    in_vain = bool(known) and {each and each.error_class for each in known} <= LASTING
    never_asked = is_open and asked_at is None
    assert (found is Turn.END) is ((wait.until <= NOW or in_vain) and not never_asked)
    if found is Turn.ASK:
        assert is_open
        assert asked_at is None or abs(NOW - asked_at) >= PAUSE


@given(marks, st.none() | instants)
def test_without_a_wait_every_call_is_permitted(
    known: list[Mark | None], asked_at: datetime | None
) -> None:
    assert turn(None, known, asked_at, NOW) is Turn.ASK


@given(st.none() | waits, marks, st.none() | instants)
def test_every_start_waits_while_aws_verifies_the_account(
    wait: Wait | None, known: list[Mark | None], asked_at: datetime | None
) -> None:
    found = turn(wait, known, asked_at, NOW, is_verified=False)
    assert found is (Turn.END if wait is not None and wait.until <= NOW else Turn.WAIT)


def test_a_wait_is_in_vain_only_where_no_offer_can_come_back_in_time() -> None:
    role, sold_out = mark(ErrorClass.MARKET), mark(ErrorClass.OFFER)
    assert is_in_vain([role, role])
    assert is_in_vain([mark(ErrorClass.UNUSABLE)])
    assert not is_in_vain([role, sold_out])
    assert not is_in_vain([role, None])
    assert not is_in_vain([]), "a price limit may be met later"


@given(st.floats(1, 1e6))
def test_a_wait_leaves_time_to_boot(start_timeout: float) -> None:
    left = start_timeout - longest_wait(start_timeout)
    assert 0 < left <= BOOT_RESERVE
    assert left == min(BOOT_RESERVE, start_timeout / 2)
