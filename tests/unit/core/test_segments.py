"""Segments: additive, with the minimum, and unknown where a price is unknown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.cost import saved_usd, usd
from ec2spawner.core.ledger.instance_end import FREE, InstanceEnd, close_at_end
from ec2spawner.core.ledger.segments import Segment, close, paid_until, reprice, until
from ec2spawner.wire import Market

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

seconds = st.integers(0, 10**6)
prices = st.floats(0, 100, allow_nan=False)
instants = st.integers(-(10**6), 10**6).map(lambda s: NOW + timedelta(seconds=s))


def segment(start: float, end: float | None, price: float | None, instance: str = "i-1") -> Segment:
    ends = None if end is None else NOW + timedelta(seconds=end)
    return Segment(instance, Market.SPOT, price, NOW + timedelta(seconds=start), ends, "test")


running = st.builds(segment, seconds, st.none(), prices)


@given(prices, st.lists(seconds, min_size=2, max_size=8).map(sorted))
def test_a_split_at_the_same_price_costs_the_same(price: float, cuts: list[int]) -> None:
    whole = [segment(cuts[0], cuts[-1], price)]
    parts = [segment(a, b, price) for a, b in pairwise(cuts)]
    assert usd(parts, NOW) == pytest.approx(usd(whole, NOW), abs=1e-6)


@given(st.lists(st.tuples(st.sampled_from(["i-1", "i-2"]), seconds, seconds, prices)))
def test_instances_add_up(drawn: list[tuple[str, int, int, float]]) -> None:
    segments = [segment(min(a, b), max(a, b), price, name) for name, a, b, price in drawn]
    total = sum(
        usd([each for each in segments if each.instance_id == name], NOW) or 0.0
        for name in ("i-1", "i-2")
    )
    assert usd(segments, NOW) == pytest.approx(total, abs=1e-6)


def test_an_hour_costs_the_price_of_an_hour() -> None:
    assert usd([segment(-3600, None, 0.526)], NOW) == pytest.approx(0.526)
    assert usd([], NOW) == 0


def test_the_minimum_charge_of_a_minute_applies_once_for_each_instance() -> None:
    minute = 3.6 / 60
    assert usd([segment(-1, 0, 3.6)], NOW) == pytest.approx(minute)
    assert usd([segment(-20, -10, 3.6), segment(-10, 0, 3.6)], NOW) == pytest.approx(minute)
    two = [segment(-1, 0, 3.6, "i-1"), segment(-1, 0, 3.6, "i-2")]
    assert usd(two, NOW) == pytest.approx(2 * minute)
    assert usd([segment(-61, 0, 3.6)], NOW) == pytest.approx(3.6 * 61 / 3600)


@given(st.floats(0.01, 100), st.lists(st.integers(0, 300), min_size=2, max_size=8).map(sorted))
def test_an_extrapolated_cost_never_falls(price: float, at: list[int]) -> None:
    """What a reader adds to one answer is never more than the next answer says."""
    segments = [segment(0, None, price)]
    for then, later in pairwise(NOW + timedelta(seconds=second) for second in at):
        elapsed = max((later - paid_until(segments, then)).total_seconds(), 0)
        ticked = (usd(segments, then) or 0) + elapsed * price / 3600
        assert ticked == pytest.approx(usd(segments, later), abs=1e-9)


@given(st.lists(running, min_size=1), instants)
def test_one_unknown_price_makes_the_sum_unknown(known: list[Segment], now: datetime) -> None:
    assert usd([*known, segment(0, 60, None, "i-9")], now) is None
    assert usd([segment(0, 60, None, "i-9"), *known], now) is None


@given(st.lists(running), instants)
def test_a_clock_that_jumps_back_never_lowers_the_cost(
    segments: list[Segment], now: datetime
) -> None:
    cost = usd(segments, now)
    assert cost is not None
    assert cost >= 0


@given(running, instants, instants, prices)
def test_a_new_price_does_not_change_past_cost(
    current: Segment, now: datetime, later: datetime, price: float
) -> None:
    before = usd([current], now)
    after = reprice([current], now, price, "new")
    assert usd(after, now) == pytest.approx(before, abs=1e-9)
    assert after[-1].end is None
    assert after[-1].usd_per_hour == price
    assert after[0].start == current.start
    assert all(a.end == b.start for a, b in pairwise(after))
    assert (usd(after, later) or 0) >= 0


@given(running, instants)
def test_the_same_price_is_no_new_segment(current: Segment, now: datetime) -> None:
    assert current.usd_per_hour is not None
    assert reprice([current], now, current.usd_per_hour, "new") == (current,)


def test_a_price_learned_late_applies_from_the_start() -> None:
    [known] = reprice([segment(-3600, None, None)], NOW, 0.25, "EC2")
    assert usd([known], NOW) == pytest.approx(0.25)
    assert known.source == "EC2"


def test_ended_segments_are_not_repriced() -> None:
    ended = segment(-3600, -60, 0.25)
    assert reprice([ended], NOW, 9.0, "new") == (ended,)
    assert reprice([], NOW, 9.0, "new") == ()


@given(st.lists(running, max_size=3), instants, instants)
def test_no_cost_accrues_after_the_close(
    segments: list[Segment], now: datetime, later: datetime
) -> None:
    closed = close(segments, now)
    assert all(each.end is not None and each.end >= each.start for each in closed)
    assert usd(closed, later) == usd(closed, now)
    assert close(closed, later) == closed


def test_closing_again_does_not_move_the_end() -> None:
    ended = segment(-3600, -60, 0.25)
    assert close([ended, replace(ended, end=None)], NOW) == (ended, replace(ended, end=NOW))


drawn_segments = st.lists(
    st.tuples(
        st.sampled_from(["i-1", "i-2"]), st.integers(-(10**6), 0), st.integers(0, 10**6), prices
    ),
    max_size=6,
).map(
    lambda drawn: [
        segment(start, None if lasts > 900_000 else start + lasts, price, name)
        for name, start, lasts, price in drawn
    ]
)


@given(drawn_segments, instants)
def test_what_was_before_an_instant_ends_there(known: list[Segment], instant: datetime) -> None:
    before = until(known, instant)
    assert all(each.end is not None and each.start < instant for each in before)
    assert all(each.end <= max(instant, each.start) for each in before if each.end)
    assert usd(before, NOW + timedelta(days=365)) == usd(before, NOW)
    everything = until(known, NOW + timedelta(days=365))
    assert usd(everything, NOW) == usd(close(known, NOW + timedelta(days=365)), NOW)


# --- what spot has saved ---


@given(drawn_segments, st.floats(0, 100))
def test_savings_plus_cost_equal_the_on_demand_price(
    known: list[Segment], on_demand: float
) -> None:
    saved = saved_usd(known, NOW, lambda instance_type: on_demand)
    full = usd([replace(each, usd_per_hour=on_demand) for each in known], NOW)
    assert saved is not None
    assert saved + (usd(known, NOW) or 0) == pytest.approx(full, abs=1e-6)


def test_each_segment_is_compared_with_its_own_type() -> None:
    small = replace(segment(-7200, -3600, 0.2), instance_type="small")
    large = replace(segment(-3600, 0, 0.5, "i-2"), instance_type="large")
    list_prices = {"small": 0.5, "large": 2.0}
    assert saved_usd([small, large], NOW, list_prices.get) == pytest.approx(0.3 + 1.5)
    assert saved_usd([large, small], NOW, {"small": 0.5}.get) is None
    assert saved_usd([replace(small, usd_per_hour=None)], NOW, list_prices.get) is None


@given(st.floats(0.01, 100), st.lists(seconds, min_size=2, max_size=8).map(sorted))
def test_on_demand_saves_nothing_at_all(price: float, cuts: list[int]) -> None:
    parts = [segment(a, b, price) for a, b in pairwise(cuts)]
    assert saved_usd(parts, NOW, lambda instance_type: price) == 0


# --- instances that EC2 ended ---


@pytest.mark.parametrize(
    ("minutes", "was_interrupted", "expected"),
    [(59, True, 0.0), (61, True, 0.61), (59, False, 0.59), (10, False, 0.10)],
)
def test_the_first_hour_is_free_where_ec2_interrupts(
    minutes: int, was_interrupted: bool, expected: float
) -> None:
    end = InstanceEnd("i-1", NOW, NOW + timedelta(minutes=minutes), was_interrupted)
    later = NOW + timedelta(hours=7)
    closed = close_at_end([segment(0, 60, 0.6), segment(60, None, 0.6)], later, end)
    assert usd(closed, later) == pytest.approx(expected)


def test_the_end_of_one_instance_leaves_the_others_as_they_are() -> None:
    before = segment(-7200, -3600, 1.0, "i-0")
    end = InstanceEnd("i-1", NOW, NOW + timedelta(minutes=5), True)
    first, second = close_at_end([before, segment(0, None, 1.0)], NOW + timedelta(hours=1), end)
    assert first == before
    assert (second.usd_per_hour, second.source) == (0.0, FREE)


@given(drawn_segments, instants, instants, st.none() | instants, st.booleans())
def test_what_ec2_ended_costs_no_more_than_until_now(
    known: list[Segment],
    now: datetime,
    launched_at: datetime,
    ended_at: datetime | None,
    was_interrupted: bool,
) -> None:
    end = InstanceEnd("i-1", launched_at, ended_at, was_interrupted)
    closed = close_at_end(known, now, end)
    assert len(closed) == len(known)
    assert all(each.end is not None and each.end >= each.start for each in closed)
    assert (usd(closed, now) or 0) <= (usd(close(known, now), now) or 0) + 1e-9
