"""Segments at the prices of EC2's history, compared with an account of every second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.instance_end import FREE
from ec2spawner.core.ledger.segments import MINIMUM, Segment
from ec2spawner.core.ledger.spot_prices import after_stored, at_spot_prices
from ec2spawner.core.pricing.price_history import PricePoint, price_at
from ec2spawner.wire import Market

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
END = 600
"""Seconds after noon: now."""


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def spot(start: int, end: int | None, usd: float | None = 1.0, **fields: Any) -> Segment:
    segment = Segment("i-1", Market.SPOT, usd, at(start), None if end is None else at(end))
    return replace(segment, instance_type="g5.xlarge", zone="us-east-1a", **fields)


def priced(segments: Sequence[Segment], *points: tuple[int, float]) -> tuple[Segment, ...]:
    history = tuple(PricePoint(at(seconds), usd) for seconds, usd in points)
    return at_spot_prices(segments, lambda kind, zone: history, "history", at(END))


def parts(segments: Sequence[Segment]) -> list[tuple[float, float | None]]:
    return [((x.start - NOON).total_seconds(), x.usd_per_hour) for x in segments]


def test_a_price_holds_since_ec2_says_and_not_since_it_was_read() -> None:
    read_late = (spot(0, 500), spot(500, None, 10.0))
    assert parts(priced(read_late, (-900, 1.0), (120, 10.0))) == [(0, 1.0), (120, 10.0)]


def test_what_ec2_lists_late_is_corrected() -> None:
    known = priced((spot(0, None),), (-900, 1.0), (300, 2.0))
    again = priced(known, (-900, 1.0), (100, 5.0), (200, 1.0), (300, 2.0))
    assert parts(again) == [(0, 1.0), (100, 5.0), (200, 1.0), (300, 2.0)]


def test_time_before_the_history_keeps_its_price() -> None:
    assert parts(priced((spot(0, None, 3.0),), (100, 1.0))) == [(0, 3.0), (100, 1.0)]
    assert parts(priced((spot(0, None, None),), (100, 1.0))) == [(0, None), (100, 1.0)]


def test_the_first_minute_has_one_price() -> None:
    found = priced((spot(0, None),), (-900, 1.0), (10, 4.0), (30, 5.0))
    assert parts(found) == [(0, 1.0), (60, 5.0)]


def test_what_is_free_or_on_demand_stays() -> None:
    free = spot(0, 300, 0.0, source=FREE)
    on_demand = replace(spot(0, 300), market=Market.ON_DEMAND)
    for segment in (free, on_demand):
        assert priced((segment,), (-900, 2.0), (100, 3.0)) == (segment,)


def test_other_prices_still_begin_a_segment() -> None:
    segments = (spot(0, 200), spot(200, None, address_usd_per_hour=0.005))
    found = priced(segments, (-900, 1.0), (100, 2.0))
    assert parts(found) == [(0, 1.0), (100, 2.0), (200, 2.0)]


changes = st.lists(
    st.tuples(st.integers(-300, END + 100), st.floats(0.1, 9.0)), unique_by=lambda x: x[0]
)
cuts = st.lists(st.integers(1, END - 1), unique=True)


@given(changes, cuts, st.booleans())
def test_every_second_has_its_price_and_a_second_time_changes_nothing(
    points: list[tuple[int, float]], cut: list[int], runs: bool
) -> None:
    points.sort()
    edges = [0, *sorted(cut), END]
    segments = [spot(a, b, 20.0 + a) for a, b in pairwise(edges)]
    if runs:
        segments[-1] = replace(segments[-1], end=None)
    found = priced(segments, *points)
    assert priced(found, *points) == found
    assert found[0].start == NOON
    assert found[-1].end == segments[-1].end
    assert all(a.end == b.start for a, b in pairwise(found))
    history = [PricePoint(at(seconds), usd) for seconds, usd in points]
    for second in range(int(MINIMUM.total_seconds()), END, 7):
        [now] = [x for x in found if x.start <= at(second) < (x.end or at(END))]
        before = next(x for x in reversed(segments) if x.start <= at(second))
        in_force = price_at(history, at(second))
        assert now.usd_per_hour == (before.usd_per_hour if in_force is None else in_force)


def test_before_the_history_the_prices_hold_that_were_stored() -> None:
    free = spot(350, 360, 0.0, source=FREE)
    stored = (spot(0, 100, 3.0), spot(100, 300, None), spot(300, 350, 4.0), free, spot(450, None))
    history = (PricePoint(at(400), 5.0), PricePoint(at(500), 6.0))
    place = ("g5.xlarge", "us-east-1a")
    joined = after_stored(history, stored, place)
    assert [(x.at, x.usd_per_hour) for x in joined[:2]] == [(at(0), 3.0), (at(300), 4.0)]
    assert joined[2:] == history
    assert after_stored(history, stored, ("g5.xlarge", "us-east-1b")) == history
    assert [x.usd_per_hour for x in after_stored((), stored, place)] == [3.0, 4.0, 1.0]
