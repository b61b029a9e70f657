"""How many instances should wait: rules, overrides, and caps that always hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.config.working_hours import hours
from ec2spawner.core.pool.forecast import Basis, ComparedDay, Forecast
from ec2spawner.core.pool.rules import Auto, PoolRule, PoolRules
from ec2spawner.core.pool.targets import (
    Conditions,
    Override,
    PoolTarget,
    ReasonCode,
    targets,
)
from ec2spawner.wire import Market

NOW = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)
"""A Tuesday."""
SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND
OFFICE = hours("Mon-Fri 08:30-18:00 UTC")
CHEAP = {("t4", SPOT): 0.2, ("a10g", SPOT): 0.5}


def rule(running: int | Auto = 4, profile: str = "t4", **other: object) -> PoolRule:
    return PoolRule(profile, running, **{"market": SPOT, **other})  # type: ignore[arg-type]


def one(*rules: PoolRule, cap: float | None = None, **conditions: object) -> PoolTarget:
    [found] = targets(PoolRules(rules, cap), Conditions(**conditions), NOW)  # type: ignore[arg-type]
    return found


def codes(target: PoolTarget) -> list[ReasonCode]:
    return [reason.code for reason in target.reasons]


def forecast(running: int) -> Forecast:
    days = (ComparedDay(NOW.date() - timedelta(days=7), running, running, running),)
    return Forecast(running, Basis.SAME_WEEKDAY, days, 0, 240.0)


def test_no_rules_want_nothing() -> None:
    assert targets(PoolRules(), Conditions(), NOW) == ()


def test_a_number_counts_within_its_hours_and_its_lead_before_them() -> None:
    assert codes(one(rule(hours=OFFICE))) == [ReasonCode.OUTSIDE_HOURS]
    assert one(rule(hours=OFFICE)).running == 0
    assert one(rule(hours=OFFICE), leads={"t4": 1799}).running == 0
    assert one(rule(hours=OFFICE), leads={"t4": 1800}).running == 4
    assert one(rule()).running == 4


def test_of_two_rules_for_a_profile_and_market_the_larger_counts() -> None:
    both = rule(2), rule(5)
    assert one(*both).running == 5
    assert one(*reversed(both)).running == 5
    assert one(rule(2), rule(5, hours=OFFICE)).running == 2
    markets = targets(PoolRules((rule(2), rule(5, market=ON_DEMAND))), Conditions(), NOW)
    assert [(each.market, each.running) for each in markets] == [(SPOT, 2), (ON_DEMAND, 5)]


@pytest.mark.parametrize(
    ("expected", "running", "steps"),
    [
        (3, 3, [ReasonCode.FORECAST]),
        (0, 1, [ReasonCode.FORECAST, ReasonCode.RAISED_TO_MIN]),
        (40, 10, [ReasonCode.FORECAST, ReasonCode.CUT_TO_MAX]),
    ],
)
def test_a_forecast_is_used_within_its_bounds(
    expected: int, running: int, steps: list[ReasonCode]
) -> None:
    found = one(rule(Auto(1, 10)), forecasts={"t4": forecast(expected)})
    assert (found.running, codes(found)) == (running, steps)
    assert found.forecast == forecast(expected)


def test_without_history_the_minimum_waits() -> None:
    found = one(rule(Auto(2, 10)))
    assert (found.running, codes(found)) == (2, [ReasonCode.NO_HISTORY, ReasonCode.RAISED_TO_MIN])


# --- overrides ---


def test_an_override_counts_until_its_end_and_not_longer() -> None:
    later = NOW + timedelta(hours=2)
    override = Override("t4", SPOT, 7, later)
    assert one(rule(hours=OFFICE), overrides=[override]).running == 7
    rules, conditions = PoolRules((rule(),)), Conditions(overrides=[override])
    [at_its_end] = targets(rules, conditions, later)
    assert (at_its_end.running, codes(at_its_end)) == (4, [ReasonCode.CONFIGURED])


def test_an_override_may_empty_the_pool_or_name_a_profile_without_a_rule() -> None:
    later = NOW + timedelta(hours=2)
    assert one(rule(), overrides=[Override("t4", SPOT, 0, later)]).running == 0
    rules = PoolRules((rule(),))
    found = targets(rules, Conditions(overrides=[Override("a10g", SPOT, 3, later)]), NOW)
    assert [(each.profile, each.running) for each in found] == [("a10g", 3), ("t4", 4)]


def test_caps_hold_for_an_override_too() -> None:
    override = Override("t4", SPOT, 50, NOW + timedelta(hours=2))
    found = one(rule(usd_per_hour=1.0), overrides=[override], prices=CHEAP)
    assert (found.running, codes(found)) == (
        5,
        [ReasonCode.OVERRIDDEN, ReasonCode.CUT_TO_RULE_CAP],
    )


# --- caps ---


def test_three_times_ten_cents_is_thirty_cents() -> None:
    found = one(rule(9, usd_per_hour=0.3), prices={("t4", SPOT): 0.1})
    assert found.running == 3


def test_nothing_is_bought_at_an_unknown_price_with_a_cap() -> None:
    for capped in (one(rule(usd_per_hour=100.0)), one(rule(), cap=100.0)):
        assert (capped.running, codes(capped)[-1]) == (0, ReasonCode.PRICE_UNKNOWN)
    assert one(rule()).running == 4, "without a cap the price does not matter"


def test_the_last_rule_gives_way_to_the_cap_on_all() -> None:
    """Also where it is the cheaper one: the order does not change with the market."""
    for prices in (CHEAP, {("t4", SPOT): 0.5, ("a10g", SPOT): 0.2}):
        rules = PoolRules((rule(3), rule(9, "a10g")), usd_per_hour=2.0)
        first, last = targets(rules, Conditions(prices=prices), NOW)
        assert first.running == 3
        assert codes(last) == [ReasonCode.CONFIGURED, ReasonCode.CUT_TO_TOTAL_CAP]
        assert last.running == int((2.0 - 3 * prices["t4", SPOT]) / prices["a10g", SPOT] + 1e-9)


def test_what_a_place_may_cost_uses_up_the_cap_exactly() -> None:
    found = one(rule(4, usd_per_hour=1.0), prices=CHEAP)
    assert found.max_usd_per_hour == 0.25
    assert one(rule(4, usd_per_hour=1.0), cap=0.9, prices=CHEAP).max_usd_per_hour == 0.225
    assert one(rule()).max_usd_per_hour is None


def test_a_rule_without_places_pays_for_none_of_another_rule() -> None:
    place = ("a10g", Market.ON_DEMAND)
    rules = [PoolRule(place[0], n, place[1], None, 1.0) for n in (0, 2)]
    conditions = Conditions(prices={place: 0.3})
    [target] = targets(PoolRules(tuple(rules), None), conditions, NOW)
    assert (target.running, target.max_usd_per_hour) == (2, 0.5)


caps = st.none() | st.floats(0.01, 30)
numbers = st.integers(0, 40) | st.builds(
    lambda least, more: Auto(least, least + more), st.integers(0, 9), st.integers(0, 30)
)
places = st.tuples(st.sampled_from(["t4", "a10g", "cpu"]), st.sampled_from(Market))
rules_ = st.builds(
    lambda place, running, when, cap: PoolRule(place[0], running, place[1], when, cap),
    places,
    numbers,
    st.sampled_from([None, OFFICE, hours("Mon-Sun 00:00-24:00 UTC")]),
    caps,
)
overrides = st.builds(
    lambda place, running, minutes: Override(
        place[0], place[1], running, NOW + timedelta(minutes=minutes)
    ),
    places,
    st.integers(0, 60),
    st.integers(-60, 60),
)
conditions_ = st.builds(
    Conditions,
    leads=st.dictionaries(st.sampled_from(["t4", "a10g"]), st.floats(0, 7200)),
    forecasts=st.dictionaries(st.sampled_from(["t4", "a10g"]), st.integers(0, 99).map(forecast)),
    overrides=st.lists(overrides, max_size=3),
    prices=st.dictionaries(places, st.none() | st.floats(0, 5)),
)


@given(st.lists(rules_, max_size=6), caps, conditions_)
def test_no_target_exceeds_a_maximum_or_a_cap(
    rules: list[PoolRule], cap: float | None, conditions: Conditions
) -> None:
    found = targets(PoolRules(tuple(rules), cap), conditions, NOW)
    live = {(each.profile, each.market) for each in conditions.overrides if each.until > NOW}
    assert len({(each.profile, each.market) for each in found}) == len(found)
    for target in found:
        own = [
            each for each in rules if (each.profile, each.market) == (target.profile, target.market)
        ]
        if (target.profile, target.market) not in live:
            assert target.running <= max(
                each.running.max if isinstance(each.running, Auto) else each.running for each in own
            )
        assert target.running == target.reasons[-1].running >= 0
        own_caps = [each.usd_per_hour for each in own]
        if own and None not in own_caps and target.running:
            price = conditions.prices[target.profile, target.market]
            assert target.running * price <= max(own_caps) + 1e-6
            assert target.running * target.max_usd_per_hour <= max(own_caps) + 1e-6
    if cap is not None:
        bought = [each for each in found if each.running]
        paid = [each.running * conditions.prices[each.profile, each.market] for each in bought]
        assert sum(paid) <= cap + 1e-6
        assert sum(each.running * each.max_usd_per_hour for each in bought) <= cap + 1e-6
