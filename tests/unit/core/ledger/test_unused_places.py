"""What unused places of a capacity reservation cost: used and unused add up to its price."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.cost_rows import Cause
from ec2spawner.core.ledger.lease_costs import overhead_costs
from ec2spawner.core.ledger.unused_places import (
    LONGEST,
    MAX_ABSENCE,
    MAX_GAP,
    Places,
    UnusedPeriod,
    counted_until,
    priced,
    resumes,
)
from ec2spawner.core.offers.reserved_capacity import CapacityReservation

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TWO = priced(2, 0.526, 1.0, ())
PERIOD = UnusedPeriod("cr-1", "g4dn.xlarge", "us-east-1a", NOW, TWO)
HOUR = timedelta(hours=1)


@given(
    st.integers(0, 20),
    st.sampled_from([0.526, 1.006]),
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from([0.2, 0.4])), max_size=3),
)
def test_each_place_costs_a_discounts_rate_while_one_is_left_and_else_the_list_price(
    count: int, listed: float, agreed: list[tuple[int, float]]
) -> None:
    rates = [rate for number, rate in agreed for _ in range(number)]
    each = [rates[place] if place < len(rates) else listed for place in range(count)]
    found = priced(count, listed, 4.0, agreed)
    assert found.usd_per_hour == pytest.approx(sum(each))
    assert found.on_demand_usd_per_hour == pytest.approx(count * listed)
    assert found.gpus == count * 4.0


def test_an_unknown_list_price_is_unknown_unless_nothing_needs_it() -> None:
    assert priced(1, None, 1.0, ()).usd_per_hour is None
    assert priced(0, None, 1.0, ()).usd_per_hour == 0.0
    covered = priced(2, None, 1.0, [(2, 0.3)])
    assert covered.usd_per_hour == pytest.approx(0.6)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_unused_places_are_between_none_and_all(
    total: int, available: int, then: int, now: int
) -> None:
    reservation = CapacityReservation("cr-1", "g4dn.xlarge", "us-east-1a", total, available)
    found = reservation.unused(then, now)
    assert 0 <= found <= total
    if available <= total and then == now:
        assert found == available


def test_a_period_is_a_line_of_the_hubs_overhead() -> None:
    [line] = overhead_costs([PERIOD.segment(NOW + HOUR)], Cause.RESERVATION, NOW + HOUR, UTC)
    assert (line.payer, line.cause, line.market) == ("hub", "unused-reservation", "on-demand")
    assert line.nano_usd == line.on_demand_nano_usd == 1_052_000_000
    assert line.gpus == 2.0


def test_a_period_lasts_until_its_places_or_their_price_change() -> None:
    later = NOW + HOUR
    assert PERIOD.followed_by(TWO, later) is PERIOD
    for places in (priced(1, 0.526, 1.0, ()), priced(2, 0.6, 1.0, ())):
        assert PERIOD.followed_by(places, later) == replace(PERIOD, since=later, places=places)


def test_a_period_of_a_day_is_followed_by_another_one() -> None:
    assert PERIOD.followed_by(TWO, NOW + LONGEST - HOUR) is PERIOD
    assert PERIOD.followed_by(TWO, NOW + LONGEST).since == NOW + LONGEST


def test_a_price_that_is_learned_late_is_that_of_the_whole_period() -> None:
    unknown = replace(PERIOD, places=Places(2, None, None, 2.0))
    assert unknown.followed_by(TWO, NOW + HOUR) == PERIOD
    assert unknown.followed_by(unknown.places, NOW + HOUR) is unknown


@given(st.datetimes(timezones=st.just(UTC)), st.integers(0, 10**12))
def test_the_end_of_a_period_is_known_from_what_is_stored(since: datetime, lasted: int) -> None:
    key = replace(PERIOD, since=since).key
    try:
        end = since + timedelta(microseconds=lasted)
    except OverflowError:
        return
    assert counted_until(key, lasted) == end


@given(*[st.datetimes(timezones=st.just(UTC))] * 2)
def test_keys_are_in_order_of_time(one: datetime, other: datetime) -> None:
    keys = [replace(PERIOD, since=each).key for each in (one, other)]
    assert (keys[0] < keys[1]) == (one < other)


def test_time_without_a_hub_is_counted_up_to_a_week() -> None:
    assert resumes(None, None, NOW) == NOW
    for counted in (NOW - HOUR, NOW - MAX_GAP):
        for ran_until in (None, counted - HOUR, counted, counted + MAX_ABSENCE):
            assert resumes(counted, ran_until, NOW) == counted
    assert resumes(NOW - MAX_GAP - HOUR, None, NOW) == NOW
    assert resumes(NOW + HOUR, None, NOW) == NOW, "the clock was set back"


def test_time_in_which_a_hub_ran_without_the_reservation_is_not_counted() -> None:
    counted = NOW - HOUR
    assert resumes(counted, NOW, NOW) == NOW
    assert resumes(counted, counted + MAX_ABSENCE + timedelta(seconds=1), NOW) == NOW
