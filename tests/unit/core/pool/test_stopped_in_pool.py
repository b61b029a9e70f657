"""How many instances of the pool wait stopped: caps pay for disks, and for one being prepared."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.pool.rules import PoolRule, PoolRules
from ec2spawner.core.pool.stopped import NONE, Prices, Stopped, within
from ec2spawner.core.pool.targets import Conditions, Override, PoolTarget, ReasonCode, targets
from ec2spawner.core.pool.words import why
from ec2spawner.wire import Market

NOW = datetime(2026, 11, 23, 9, tzinfo=UTC)
PLACE = ("t4", Market.ON_DEMAND)


def found(
    *rules: PoolRule,
    total: float | None = None,
    price: float | None = 0.5,
    disk: float | None = 0.01,
    overrides: tuple[Override, ...] = (),
    at_rest: int = 0,
) -> PoolTarget:
    conditions = Conditions(
        prices={PLACE: price},
        disk_prices={PLACE: disk},
        overrides=overrides,
        at_rest={PLACE: at_rest},
    )
    [target] = targets(PoolRules(rules, total), conditions, NOW)
    return target


def rule(stopped: int, running: int = 0, usd_per_hour: float | None = None) -> PoolRule:
    return PoolRule("t4", running, Market.ON_DEMAND, usd_per_hour=usd_per_hour, stopped=stopped)


def test_without_a_cap_all_are_prepared_at_once() -> None:
    target = found(rule(5, running=2))
    assert (target.running, target.stopped, target.most_running) == (2, Stopped(5, 5), 7)
    assert target.max_usd_per_hour is None


def test_of_two_rules_each_number_is_the_larger() -> None:
    target = found(rule(5, running=1), rule(2, running=3))
    assert (target.running, target.stopped.number) == (3, 5)


def test_a_cap_pays_for_running_ones_first() -> None:
    assert found(rule(5, running=2, usd_per_hour=1.0)).stopped == NONE
    target = found(rule(5, running=1, usd_per_hour=1.02))
    assert (target.running, target.stopped) == (1, Stopped(3, 1))
    assert target.stopped_reasons[-1].code is ReasonCode.CUT_TO_RULE_CAP
    assert "pays for 3 stopped" in why(target, UTC)[-1]


def test_what_a_cap_leaves_lets_more_be_prepared_at_a_time() -> None:
    assert found(rule(5, usd_per_hour=0.5 + 0.49 + 0.03)).stopped == Stopped(5, 1)
    assert found(rule(5, usd_per_hour=0.5 + 0.49 + 0.04)).stopped == Stopped(5, 2)


def test_an_unknown_price_is_no_stopped_place_under_a_cap() -> None:
    of_disks = found(rule(3, usd_per_hour=9.0), disk=None)
    for target in (of_disks, found(rule(3), total=9.0, price=None)):
        assert target.stopped == NONE
        assert target.reasons[-1].code is ReasonCode.PRICE_UNKNOWN


def test_a_number_by_hand_leaves_stopped_ones_as_they_are() -> None:
    override = Override("t4", Market.ON_DEMAND, 7, datetime(2026, 11, 24, tzinfo=UTC))
    target = found(rule(4, running=1), overrides=(override,))
    assert (target.running, target.stopped.number) == (7, 4)
    target = found(rule(4, running=1), overrides=(replace(override, stopped=2),))
    assert (target.running, target.stopped.number) == (7, 2)
    assert why(target, UTC)[-1] == "An admin has set 2 stopped until 24 November, 00:00 UTC."


def test_a_price_that_rises_ends_nothing_that_the_cap_still_pays_for() -> None:
    capped = rule(5, usd_per_hour=0.6)
    for price in (0.54, 0.59, 1.2):
        target = found(capped, price=price, disk=0.011, at_rest=5)
        assert target.stopped.number == 5
        assert len(target.stopped_reasons) == 1, "nothing was cut"
    assert found(capped, price=1.2, disk=0.011, at_rest=3).stopped == Stopped(3, 0)
    assert found(capped, price=1.2, disk=0.2, at_rest=5).stopped == Stopped(3, 0)
    assert found(capped, price=0.54, disk=0.011).stopped == Stopped(5, 1)


@given(
    st.integers(0, 50),
    st.integers(0, 10**11),
    st.integers(0, 10**10),
    st.integers(0, 10**10),
    st.integers(0, 60),
)
def test_no_cap_is_exceeded_and_none_is_wasted(
    wanted: int, left: int, running: int, stopped: int, at_rest: int
) -> None:
    prices = Prices(max(running, stopped), stopped)
    of_it = within(wanted, left, prices, at_rest)
    assert 0 <= of_it.preparing <= of_it.number <= wanted
    assert of_it.cost(prices) <= left or of_it == NONE
    if of_it.number < wanted:
        more = Stopped(of_it.number + 1, 1)
        assert more.cost(prices) > left
    kept = Stopped(min(wanted, at_rest))
    if kept.cost(prices) <= left:
        assert of_it.number >= kept.number
    if of_it.number > at_rest:
        assert of_it.preparing >= 1


@pytest.mark.parametrize("cap", [0.6, 1.0, 3.0, 10.0])
def test_at_the_highest_price_of_a_place_the_cap_holds(cap: float) -> None:
    target = found(rule(5, running=1, usd_per_hour=cap))
    most = target.max_usd_per_hour
    assert most is not None
    disks = (target.stopped.number - target.stopped.preparing) * 0.01
    assert target.most_running * most + disks <= cap + 1e-9
    assert most >= 0.5 or not target.most_running
