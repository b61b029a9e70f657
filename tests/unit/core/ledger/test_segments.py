"""Segments: additive, with the minimum, and unknown where a price is unknown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ec2spawner.core.ledger.cost import saved_usd, usd
from ec2spawner.core.ledger.instance_end import FREE, InstanceEnd, close_at_end
from ec2spawner.core.ledger.segments import (
    Segment,
    close,
    filled_in,
    paid_until,
    reprice,
    until,
    with_known_prices,
)
from ec2spawner.wire import Market

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

seconds = st.integers(0, 10**6)
prices = st.floats(0, 100, allow_nan=False)
instants = st.integers(-(10**6), 10**6).map(lambda s: NOW + timedelta(seconds=s))


def segment(start: float, end: float | None, price: float | None, instance: str = "i-1") -> Segment:
    ends = None if end is None else NOW + timedelta(seconds=end)
    return Segment(instance, Market.SPOT, price, NOW + timedelta(seconds=start), ends, "test")


def priced(usd_per_hour: float) -> Segment:
    """As `reprice` takes new prices."""
    return Segment("i-x", Market.SPOT, usd_per_hour, NOW, source="new")


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
    after = reprice([current], now, priced(price))
    assert usd(after, now) == pytest.approx(before, abs=1e-9)
    assert after[-1].end is None
    assert after[-1].usd_per_hour == price
    assert after[0].start == current.start
    assert all(a.end == b.start for a, b in pairwise(after))
    assert (usd(after, later) or 0) >= 0


@given(running, instants)
def test_the_same_price_is_no_new_segment(current: Segment, now: datetime) -> None:
    assert current.usd_per_hour is not None
    assert reprice([current], now, priced(current.usd_per_hour)) == (current,)


def test_a_price_learned_late_applies_from_the_start() -> None:
    unknown = replace(
        segment(-3600, None, None), disk_usd_per_month=None, address_usd_per_hour=None
    )
    learned = replace(priced(0.25), disk_usd_per_month=72.0, address_usd_per_hour=0.005)
    [known] = reprice([unknown], NOW, learned)
    assert usd([known], NOW) == pytest.approx(0.25 + 0.1 + 0.005)
    assert known.source == "new"
    assert reprice([known], NOW, unknown) == (known,), "what is not known any more stays"


def test_a_price_learned_late_applies_to_all_segments_of_its_instance() -> None:
    """A spot price that changes begins segments before the disk's price is known."""
    started = replace(segment(-600, None, 0.20), disk_usd_per_month=None, address_usd_per_hour=None)
    lost = replace(segment(-900, -700, 0.20, "i-lost"), disk_usd_per_month=None)
    at = NOW - timedelta(minutes=5)
    changed = reprice([lost, started], at, replace(started, usd_per_hour=0.30))
    assert usd(changed, NOW) is None
    learned = replace(changed[-1], disk_usd_per_month=72.0, address_usd_per_hour=0.06)
    other, first, second = reprice(changed, NOW, learned)
    hourly = 0.1 + 0.06
    assert usd([first, second], NOW) == pytest.approx((0.20 + 0.30 + 2 * hourly) / 12)
    assert first == replace(changed[1], disk_usd_per_month=72.0, address_usd_per_hour=0.06)
    assert other == lost, "the disk of another instance"


def test_a_discounts_price_never_applies_to_what_was_before_it() -> None:
    unknown, discounted = segment(-600, None, None), priced(0.30)
    split = reprice([unknown], NOW, discounted, past=unknown)
    assert [each.usd_per_hour for each in split] == [None, 0.30]
    later = NOW + timedelta(minutes=5)
    assert reprice(split, later, discounted, past=unknown) == split
    first, second = reprice(split, later, discounted, past=priced(0.55))
    assert (first.usd_per_hour, second.usd_per_hour) == (0.55, 0.30)
    assert first.end == second.start == NOW


def test_a_disk_or_an_address_that_changes_begins_a_segment() -> None:
    running = replace(segment(-3600, None, 0.25), disk_usd_per_month=72.0)
    for changed in (
        replace(running, disk_usd_per_month=144.0),
        replace(running, address_usd_per_hour=0.005),
    ):
        before, after = reprice([running], NOW, changed)
        assert before == replace(running, end=NOW)
        assert after == replace(changed, start=NOW)


def test_an_address_that_the_first_listing_lacks_costs_from_the_beginning() -> None:
    changed = segment(-20, None, 0.25)
    first = replace(changed, end=changed.start, start=changed.start - timedelta(seconds=10))
    other = replace(first, instance_id="i-before")
    with_address = replace(changed, address_usd_per_hour=0.005)
    for running in ([changed], [other, first, changed]):
        found = reprice(running, NOW, with_address)
        assert [each.start for each in found] == [each.start for each in running]
        same = [each.instance_id == changed.instance_id for each in running]
        assert [each.address_usd_per_hour for each in found] == [0.005 * each for each in same]


def test_ended_segments_are_not_repriced() -> None:
    ended = segment(-3600, -60, 0.25)
    assert reprice([ended], NOW, priced(9.0)) == (ended,)
    assert reprice([], NOW, priced(9.0)) == ()


FOUR_PRICES = (
    "usd_per_hour",
    "on_demand_usd_per_hour",
    "disk_usd_per_month",
    "address_usd_per_hour",
)

any_prices = st.builds(
    lambda drawn: replace(priced(0), **dict(zip(FOUR_PRICES, drawn, strict=True))),
    st.tuples(*(st.none() | prices for _ in FOUR_PRICES)),
)


@given(any_prices, st.lists(any_prices, max_size=4))
def test_a_price_is_that_of_the_first_that_knows_it(
    current: Segment, before: list[Segment]
) -> None:
    found = with_known_prices(current, before)
    for name in FOUR_PRICES:
        known = [getattr(each, name) for each in (current, *before)]
        assert getattr(found, name) == next((x for x in known if x is not None), None)
    assert (found.start, found.end) == (current.start, current.end)


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
    unread = replace(small, disk_usd_per_month=None, address_usd_per_hour=None)
    assert saved_usd([unread], NOW, list_prices.get) == pytest.approx(0.3), "it costs the same"


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


def test_the_free_first_hour_is_that_of_the_instance() -> None:
    """EC2 waives the instance; its volume and its address existed."""
    with_disk = replace(segment(0, None, 1.0), disk_usd_per_month=72.0, address_usd_per_hour=0.005)
    end = InstanceEnd("i-1", NOW, NOW + timedelta(minutes=30), True)
    closed = close_at_end([with_disk], NOW + timedelta(hours=1), end)
    assert usd(closed, NOW) == pytest.approx((72 / 720 + 0.005) / 2)


@given(drawn_segments, instants, instants, st.none() | instants, st.booleans())
@example([segment(0, 0, 1.0), segment(0, 1, 0.0)], NOW, NOW, None, False)
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
    # What an earlier end takes off the first minute costs the first price instead of a later one.
    minimum = max((each.usd_per_hour or 0 for each in known), default=0) / 60
    assert (usd(closed, now) or 0) <= (usd(close(known, now), now) or 0) + minimum + 1e-9


@pytest.mark.parametrize(
    "price",
    ["usd_per_hour", "on_demand_usd_per_hour", "disk_usd_per_month", "address_usd_per_hour"],
)
def test_one_unknown_price_is_filled_in_where_all_others_are_known(price: str) -> None:
    running = segment(0, None, 1.0)
    prices = replace(
        running, on_demand_usd_per_hour=3.0, disk_usd_per_month=72.0, address_usd_per_hour=0.005
    )
    unknown = replace(prices, **{price: None})
    assert filled_in([unknown], prices) == (prices,)
