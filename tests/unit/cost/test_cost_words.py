"""How money and time are written, and what epochs will add up to."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.cost.epochs import Done
from ec2spawner.cost.formatting import MIN, lasted, money, when

amounts = st.floats(0, 1e9)
durations = st.floats(0, 1e8)


@given(amounts)
def test_a_positive_amount_is_never_shown_as_zero(usd: float) -> None:
    digits = re.sub(r"[^1-9]", "", money(usd))
    assert bool(digits) == (usd > 0)
    assert money(usd).isascii()


@given(st.floats(MIN, 1e9))
def test_an_amount_is_right_to_five_percent(usd: float) -> None:
    said = float(money(usd).removeprefix("$"))
    assert said == pytest.approx(usd, rel=0.05)


@given(st.floats(MIN, 1e9), st.floats(MIN, 1e9))
def test_a_larger_amount_is_never_shown_as_smaller(one: float, other: float) -> None:
    less, more = sorted((one, other))
    said = [float(money(usd).removeprefix("$")) for usd in (less, more)]
    assert said == sorted(said)


@pytest.mark.parametrize(
    ("usd", "said"),
    [
        (0, "$0"),
        (1e-9, "less than $0.000001"),
        (0.00021, "$0.00021"),
        (0.0126, "$0.013"),
        (0.19, "$0.19"),
        (24.48, "$24.48"),
        (1130.4, "$1130"),
    ],
)
def test_amounts_as_people_read_them(usd: float, said: str) -> None:
    assert money(usd) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 ms"),
        (0.003, "3 ms"),
        (0.42, "0.42 s"),
        (12.34, "12.3 s"),
        (59.99, "1 min 0 s"),
        (83, "1 min 23 s"),
        (3599.9, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (86399, "1 d 0 h"),
        (273600, "3 d 4 h"),
    ],
)
def test_durations_as_people_read_them(seconds: float, said: str) -> None:
    assert lasted(seconds) == said


@given(durations)
def test_units_of_a_duration_carry_over(seconds: float) -> None:
    parts = {unit: float(n) for n, unit in re.findall(r"([\d.]+) (ms|s|min|h|d)", lasted(seconds))}
    assert parts
    assert parts.get("ms", 0) < 1000
    assert parts.get("s", 0) < 60
    assert parts.get("min", 0) < 60
    assert parts.get("h", 0) < 24


def test_a_time_on_another_day_says_which() -> None:
    now = datetime(2026, 11, 20, 23, 0, tzinfo=UTC)
    assert when(now + timedelta(minutes=5), now) == "23:05 UTC"
    assert when(now + timedelta(hours=2), now) == "21 Nov 01:00 UTC"


# --- the forecast ---

amounts_done = st.lists(st.floats(0, 1e6), min_size=1, max_size=50)


def added(costs: list[float]) -> Done:
    done = Done()
    for each in costs:
        done.add(each)
    return done


@given(st.floats(0, 1e6), st.integers(1, 50), st.integers(0, 50))
def test_equal_epochs_are_forecast_exactly(each: float, number: int, more: int) -> None:
    total = number + more
    assert added([each] * number).forecast(total) == pytest.approx(each * total, rel=1e-9)


@given(amounts_done, st.integers(0, 200))
def test_a_forecast_is_never_below_the_actual_cost(costs: list[float], total: int) -> None:
    done = added(costs)
    assert done.first + done.later == pytest.approx(sum(costs), rel=1e-9)
    assert done.forecast(total) >= done.first + done.later
    if total <= len(costs):
        assert done.forecast(total) == done.first + done.later


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(2, 50))
def test_the_first_epoch_does_not_distort_the_forecast(
    first: float, each: float, total: int
) -> None:
    found = added([first, each]).forecast(total)
    assert found == pytest.approx(first + each * (total - 1), rel=1e-9)


@given(amounts_done, st.integers(0, 100))
def test_each_further_epoch_adds_a_typical_one(costs: list[float], more: int) -> None:
    total = len(costs) + more
    done = added(costs)
    step = done.forecast(total + 1) - done.forecast(total)
    typical = costs[1:] or costs
    assert min(typical) - 1e-6 <= step + 1e-6 * (1 + abs(sum(costs)))
    assert step <= max(typical) + 1e-6 * (1 + abs(sum(costs)))
