"""The statistics behind the benches: figures that are wrong would be believed."""

from __future__ import annotations

import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.figures import Goal, Result, median, p95, percentile, ratio

SECONDS = st.lists(st.floats(0, 1e4, allow_nan=False), min_size=1, max_size=50)


def test_percentiles_of_twenty_starts() -> None:
    starts = [float(number) for number in range(20, 0, -1)]
    assert median(starts) == 10.5
    assert p95(starts) == pytest.approx(19.05)


def test_single_start_is_its_own_percentile() -> None:
    assert median([3.0]) == p95([3.0]) == 3.0


def test_no_values_and_no_percent_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
    with pytest.raises(ValueError, match="percent"):
        percentile([1.0], 101)


@given(SECONDS)
def test_median_is_that_of_the_standard_library(values: list[float]) -> None:
    assert median(values) == pytest.approx(statistics.median(values))


@given(SECONDS, st.floats(0, 100), st.floats(0, 100))
def test_percentiles_are_ordered_and_within_the_values(
    values: list[float], one: float, other: float
) -> None:
    low, high = sorted((one, other))
    within = 1e-9 * max(values)
    assert min(values) - within <= percentile(values, low) <= percentile(values, high) + within
    assert percentile(values, high) <= max(values) + within


def test_ratio_to_zero_is_unknown() -> None:
    assert ratio(1.0, 4.0) == 0.25
    assert ratio(1.0, 0.0) is None


@pytest.mark.parametrize(
    ("goal", "figure", "met"),
    [
        (Goal(0.7), 0.7, True),
        (Goal(0.7), 0.71, False),
        (Goal(50, inclusive=False), 50, False),
        (Goal(50, inclusive=False), 49.9, True),
        (Goal(50), None, False),
    ],
)
def test_goal(goal: Goal, figure: float | None, met: bool) -> None:
    assert goal.is_met(figure) is met


def test_a_line_has_the_measured_and_the_wanted_value() -> None:
    result = Result(
        "spawn",
        {"ratio": 0.4321987, "stall_ms": None, "starts": 20},
        {"ratio": Goal(0.7), "stall_ms": Goal(50, inclusive=False), "absent": Goal(1)},
        {"cpus": 2},
    )
    line = result.line()
    assert "\n" not in line
    assert json.loads(line) == {
        "bench": "spawn",
        "figures": {"ratio": 0.432, "stall_ms": None, "starts": 20},
        "goals": {"ratio": "<= 0.7", "stall_ms": "< 50", "absent": "<= 1"},
        "met": {"ratio": True, "stall_ms": False, "absent": False},
        "machine": {"cpus": 2},
    }
