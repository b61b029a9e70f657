"""`c.EC2Spawner.warm_pool`: what it means, and what is refused with its fix."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.config import ConfigError, Options, validate_options
from ec2spawner.config.traits import OptionTraits
from ec2spawner.core.hours_of_week import Hours
from ec2spawner.core.pool.rules import Auto, PoolRule, PoolRules
from ec2spawner.hub.startup import settings_of
from ec2spawner.wire import Market


def options(warm_pool: Any, **other: Any) -> Options:
    written = {"region": "us-east-1", "subnets": ["subnet-1"], "warm_pool": warm_pool, **other}
    return validate_options(written, cleanup_servers=False)


def pool(*entries: dict[str, Any], **other: Any) -> PoolRules:
    return settings_of(options(list(entries), **other)).pool


def test_there_is_no_pool_by_default() -> None:
    assert pool() == PoolRules()
    assert OptionTraits().warm_pool == []
    assert OptionTraits().warm_pool_usd_per_hour is None


def test_an_entry_becomes_a_rule_in_the_profiles_first_market() -> None:
    entry = {"profile": "t4", "running": 2, "when": "Mon-Fri 08:30-18:00 Europe/Berlin"}
    working_days = Hours((0, 1, 2, 3, 4), 510, 1080, "Europe/Berlin")
    assert pool(entry).rules == (
        PoolRule("t4", 2, Market.SPOT, working_days, profile_name="T4, 16 GB"),
    )
    assert pool({"profile": "t4", "running": 0}).rules[0].hours is None


def test_hours_without_a_time_zone_are_the_hubs() -> None:
    entry = {"profile": "t4", "running": 2, "when": "Sat 08:30-18:00"}
    assert pool(entry).rules[0].hours.timezone == "UTC"
    assert pool(entry, time_zone="Asia/Kolkata").rules[0].hours.timezone == "Asia/Kolkata"


def test_stopped_ones_wait_with_running_ones_or_without() -> None:
    entry = {"profile": "t4", "stopped": 3, "market": "on-demand"}
    assert pool(entry).rules == (
        PoolRule("t4", 0, Market.ON_DEMAND, stopped=3, profile_name="T4, 16 GB"),
    )
    [rule] = pool(entry | {"running": 1}).rules
    assert (rule.running, rule.stopped) == (1, 3)


def test_auto_has_bounds() -> None:
    assert pool({"profile": "t4", "running": "auto", "max": 20}).rules[0].running == Auto(0, 20)
    entry = {"profile": "t4", "running": "auto", "min": 1, "max": 1}
    assert pool(entry).rules[0].running == Auto(1, 1)


def test_homes_are_attached_ahead_to_as_many_as_an_entry_allows() -> None:
    entry = {"profile": "t4", "running": 5}
    assert pool(entry).rules[0].homes_ahead == 0
    assert pool(entry | {"attach_homes_ahead": 5}).rules[0].homes_ahead == 5
    automatic = {"profile": "t4", "running": "auto", "max": 3, "attach_homes_ahead": 3}
    assert pool(automatic).rules[0].homes_ahead == 3


def test_only_homes_on_ebs_can_be_attached_ahead() -> None:
    entry = {"profile": "t4", "running": 1, "attach_homes_ahead": 1}
    with pytest.raises(ConfigError, match=r'\[0\].attach_homes_ahead: homes of kind "none".*"ebs"'):
        options([entry], home={"kind": "none"})


def test_caps_are_usd_per_hour() -> None:
    entry = {"profile": "t4", "running": 2, "usd_per_hour": 1}
    found = pool(entry, warm_pool_usd_per_hour=2.5)
    assert (found.rules[0].usd_per_hour, found.usd_per_hour) == (1, 2.5)


def test_a_market_that_users_may_choose_is_open_to_the_pool() -> None:
    own = {"display_name": "T4", "gpu": "T4", "market": "on-demand"}
    entry = {"profile": "t4", "running": 1, "market": "spot"}
    both = {**own, "profile_options": {"market": ["spot-first"]}}
    assert pool(entry, profile_list=[both]).rules[0].market is Market.SPOT
    assert pool({"profile": "t4", "running": 1}, profile_list=[own]).rules[0].market == "on-demand"
    with pytest.raises(ConfigError, match=r'\[0\].market: no server of "t4".*write "on-demand"'):
        pool(entry, profile_list=[own])


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"running": 2}, r"warm_pool\[0\].profile: is missing"),
        ({"profile": "t4"}, r"warm_pool\[0\]: asks for nothing.*\"running\": 2"),
        ({"profile": "T4", "running": 2}, r'\[0\].profile: no profile has the slug "T4".*mean t4'),
        ({"profile": "t4", "running": -1}, r"\[0\].running: -1 is no number.*0 to 1000"),
        ({"profile": "t4", "running": 1001}, r"\[0\].running: 1001 is no number"),
        ({"profile": "t4", "running": True}, r"\[0\].running: True is no number"),
        ({"profile": "t4", "running": 1.5}, r"\[0\].running: 1.5 is no number"),
        ({"profile": "t4", "running": "many"}, r'\[0\].running: "many" is no number.*"auto"'),
        ({"profile": "t4", "running": "auto"}, r'\[0\]: has no "max".*"max": 20'),
        ({"profile": "t4", "running": "auto", "min": 3, "max": 2}, r"\[0\]: its min, 3, is above"),
        ({"profile": "t4", "running": "auto", "max": 1001}, r"\[0\].max: must be at most 1000"),
        ({"profile": "t4", "running": 2, "max": 3}, r"\[0\]: has bounds, and its running is 2"),
        ({"profile": "t4", "running": 2, "market": "spot-first"}, r"\[0\].market: must be 'spot'"),
        ({"profile": "t4", "running": 2, "when": "Mon-Fri"}, r"\[0\].when: .*are no hours"),
        ({"profile": "t4", "running": 2, "when": "Mon 8-18"}, r'\[0\].when: "8" is no time of day'),
        ({"profile": "t4", "running": 2, "when": "Mon 08:00-18:00 CET+1"}, r"no time zone"),
        ({"profile": "t4", "running": 2, "usd_per_hour": 0}, r"\[0\].usd_per_hour: 0 caps nothing"),
        ({"profile": "t4", "running": 2, "usd_per_hour": "5"}, r'\[0\].usd_per_hour: "5" is no'),
        (
            {"profile": "t4", "running": 1, "attach_homes_ahead": 2},
            r'\[0\]: attaches homes to 2 instances, more than its "running", 1.*ahead": 1 or less',
        ),
        (
            {"profile": "t4", "running": "auto", "max": 1, "attach_homes_ahead": 2},
            r'\[0\]: attaches homes to 2 instances, more than its "max", 1',
        ),
        (
            {"profile": "t4", "running": 1, "attach_homes_ahead": True},
            r"\[0\].attach_homes_ahead: True is no number of homes.*0 to 1000",
        ),
        ({"profile": "t4", "stopped": 1}, r"\[0\].stopped: without a market .*\"on-demand\""),
        ({"profile": "t4", "stopped": 1, "market": "spot"}, r"\[0\]: stops spot .*on-demand"),
        ({"profile": "t4", "stopped": "auto"}, r"\[0\].stopped: no forecast is made"),
        ({"profile": "t4", "stopped": -1}, r"\[0\].stopped: -1 is no number of instances"),
    ],
)
def test_what_cannot_work_is_refused_with_its_option(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        options([entry])


def test_a_total_cap_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="warm_pool_usd_per_hour: -1 caps nothing"):
        options([], warm_pool_usd_per_hour=-1)


def test_a_pool_needs_a_list_of_profiles() -> None:
    entry = {"profile": "t4", "running": 2}
    with pytest.raises(ConfigError, match="warm_pool: needs a list of profiles"):
        options([entry], profile_list=lambda spawner: [])
    assert options([], profile_list=lambda spawner: []).pool_rules == PoolRules()
