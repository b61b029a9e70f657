"""What a price was, when, and in words how steady it has been."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.pricing.price_history import (
    STEADY_BAND,
    WEEK,
    Pace,
    PricePoint,
    merged,
    price_at,
    sampled,
    steadiness,
)

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def ago(**duration: float) -> datetime:
    return NOW - timedelta(**duration)


def history(*points: tuple[float, float]) -> list[PricePoint]:
    """(days ago, price), the oldest first."""
    return [PricePoint(ago(days=days), usd) for days, usd in points]


instants = st.integers(min_value=-20 * 24, max_value=0).map(lambda hours: ago(hours=-hours))
prices = st.floats(min_value=0.01, max_value=50)
histories = st.dictionaries(instants, prices, max_size=30).map(
    lambda by: [PricePoint(at, by[at]) for at in sorted(by)]
)


# --- what was when ---------------------------------------------------------------------------


def test_a_price_holds_until_the_next_one_and_is_unknown_before_the_first() -> None:
    points = history((2, 0.20), (1, 0.30))
    assert price_at(points, ago(days=3)) is None
    assert price_at(points, ago(days=2)) == 0.20
    assert price_at(points, ago(days=1, seconds=1)) == 0.20
    assert price_at(points, ago(days=1)) == price_at(points, NOW) == 0.30
    assert price_at([], NOW) is None


def test_the_line_has_a_gap_for_unknown_prices() -> None:
    points = history((2, 0.20), (1, 0.30))
    assert sampled(points, ago(days=4), NOW, 5) == (None, None, 0.20, 0.30, 0.30)
    assert sampled(points, ago(days=4), ago(days=2), 1) == (0.20,)
    assert sampled(points, ago(days=4), NOW, 0) == ()


@given(histories, instants, instants, st.integers(min_value=2, max_value=60))
def test_the_line_is_the_price_at_even_distances(
    points: list[PricePoint], one: datetime, other: datetime, number: int
) -> None:
    start, end = sorted([one, other])
    line = sampled(points, start, end, number)
    assert len(line) == number
    assert (line[0], line[-1]) == (price_at(points, start), price_at(points, end))
    assert set(line) <= {None, *(point.usd_per_hour for point in points)}


@given(histories, histories, instants, instants)
def test_a_merged_history_equals_both_from_its_start(
    old: list[PricePoint], new: list[PricePoint], since: datetime, at: datetime
) -> None:
    result = merged(old, new, since)
    by_instant = {point.at: point for point in [*old, *new]}
    everything = [by_instant[each] for each in sorted(by_instant)]
    if at >= since:
        assert price_at(result, at) == price_at(everything, at)
    assert list(result) == sorted(result, key=lambda point: point.at)
    assert sum(point.at <= since for point in result) <= 1
    neighbours = pairwise(point.usd_per_hour for point in result)
    assert all(one != following for one, following in neighbours)


@given(histories, histories, instants)
def test_merging_the_same_again_changes_nothing(
    old: list[PricePoint], new: list[PricePoint], since: datetime
) -> None:
    once = merged(old, new, since)
    assert merged(once, (), since) == once
    assert price_at(merged(once, new, since), NOW) == price_at(once, NOW)


# --- in words --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([], ""),
        ([(30, 0.20)], "steady for 7 days"),
        ([(30, 0.30), (6.5, 0.20)], "steady for 6 days"),
        ([(30, 0.30), (1.2, 0.20)], "steady for 1 day"),
        ([(30, 0.20), (5, 0.205), (2, 0.20), (0.5, 0.208)], "steady for 7 days"),
        ([(0.125, 0.20)], "steady for 3 hours"),
        ([(0.05, 0.20)], "steady for 1 hour"),
        ([(0, 0.20)], "steady for less than an hour"),
        ([(30, 0.20), (0.4, 0.228)], "moved 14 % this week"),
        ([(30, 0.20), (3, 0.25), (0.4, 0.21)], "moved 25 % this week"),
        ([(30, 0.20), (8, 9.0), (7.5, 0.20), (0.4, 0.30)], "moved 50 % this week"),
        ([(30, 0.20), (3, 0.22), (2, 0.25), (0.9, 0.29)], "rising for 3 days"),
        ([(30, 0.25), (6, 0.20), (2.9, 0.22), (0.3, 0.24)], "rising for 2 days"),
        ([(30, 0.30), (1.5, 0.25), (0.1, 0.20)], "falling for 1 day"),
        # Up at first, but not any more.
        ([(30, 0.20), (5, 0.22), (4, 0.25), (3, 0.29)], "steady for 3 days"),
        # Up, within a day: too short to speak of a direction.
        ([(30, 0.20), (0.8, 0.22), (0.4, 0.25)], "moved 25 % this week"),
        # Up, by nearly nothing.
        ([(30, 0.200), (3, 0.202), (2, 0.204), (0.5, 0.206)], "steady for 7 days"),
    ],
)
def test_steadiness_in_words(points: list[tuple[float, float]], words: str) -> None:
    assert steadiness(history(*points), NOW).words == words


def test_later_prices_are_not_known_yet() -> None:
    points = history((3, 0.20), (-1, 0.90))
    assert steadiness(points, NOW).words == "steady for 3 days"
    assert steadiness(history((-1, 0.90)), NOW).kind is Pace.UNKNOWN


@given(histories)
def test_the_described_steadiness_is_true(points: list[PricePoint]) -> None:
    said = steadiness(points, NOW)
    assert (said.kind is Pace.UNKNOWN) == (not points)
    if said.since is None:
        return
    assert ago(days=7) <= said.since <= NOW
    assert said.days == (NOW - said.since) / timedelta(days=1)
    inside = [p.usd_per_hour for p in points if p.at > said.since]
    lately = [price_at(points, said.since), *inside]
    known = [price for price in lately if price is not None]
    if said.kind is Pace.STEADY:
        assert max(known) <= min(known) * STEADY_BAND
    if said.kind is Pace.RISING:
        assert known == sorted(known)
    if said.kind is Pace.FALLING:
        assert known == sorted(known, reverse=True)


@given(histories, st.sampled_from([0.25, 2.0, 1024.0]))
def test_only_the_proportions_count(points: list[PricePoint], factor: float) -> None:
    dearer = [PricePoint(point.at, point.usd_per_hour * factor) for point in points]
    assert steadiness(dearer, NOW) == steadiness(points, NOW)


@given(histories, histories)
def test_only_the_last_week_counts(points: list[PricePoint], older: list[PricePoint]) -> None:
    start = NOW - WEEK
    before = [PricePoint(p.at - timedelta(days=30), p.usd_per_hour) for p in older]
    in_force = [PricePoint(start, 0.2)]
    week = [point for point in points if point.at > start]
    assert steadiness([*before, *in_force, *week], NOW) == steadiness([*in_force, *week], NOW)
