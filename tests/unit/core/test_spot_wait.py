"""Whose turn it is while spot is sold out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.offers.spot_wait import BOOT_RESERVE, PAUSE, Turn, Wait, longest_wait, turn

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
instants = st.integers(-3600, 3600).map(lambda seconds: NOW + timedelta(seconds=seconds))
waits = st.builds(Wait, until=instants)


@given(waits, st.booleans(), st.none() | instants)
def test_a_wait_ends_in_time_and_requests_only_possible_offers(
    wait: Wait, is_open: bool, asked_at: datetime | None
) -> None:
    found = turn(wait, is_open=is_open, asked_at=asked_at, now=NOW)
    never_asked = is_open and asked_at is None
    assert (found is Turn.END) is (wait.until <= NOW and not never_asked)
    if found is Turn.ASK:
        assert is_open
        assert asked_at is None or abs(NOW - asked_at) >= PAUSE


@given(st.booleans(), st.none() | instants)
def test_without_a_wait_every_call_is_permitted(is_open: bool, asked_at: datetime | None) -> None:
    assert turn(None, is_open=is_open, asked_at=asked_at, now=NOW) is Turn.ASK


@given(st.floats(1, 1e6))
def test_a_wait_leaves_time_to_boot(start_timeout: float) -> None:
    left = start_timeout - longest_wait(start_timeout)
    assert 0 < left <= BOOT_RESERVE
    assert left == min(BOOT_RESERVE, start_timeout / 2)
