"""Payers, limits and the time zone as an admin writes them."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.config import ConfigError, Options, validate_options
from ec2spawner.core.limits.bounds import AtLimit, Bounds, Kind

PAYERS = {"group": ["research"], "project": {"nlp": {"users": ["ann"], "groups": ["lab"]}}}


def options(**changed: Any) -> Options:
    raw = {"region": "us-east-1", "subnets": ["subnet-1"]}
    return validate_options({**raw, **changed}, cleanup_servers=False, environ={})


def problem(**changed: Any) -> tuple[str, str, str]:
    with pytest.raises(ConfigError) as refused:
        options(**changed)
    [found] = refused.value.problems
    return found.option.removeprefix("c.EC2Spawner."), found.wrong, found.fix


def test_nothing_is_limited_by_default() -> None:
    limits = options().limits.limits()
    assert not limits.bind
    assert limits.grace_seconds == 120
    assert limits.days == 0
    assert limits.of("user:ann") == limits.of("hub") == Bounds()


def test_every_bound_reaches_its_scope() -> None:
    written = {
        "user": {"usd_per_month": 200, "max_run": "12h"},
        "users": {"ann": {"usd_per_month": 500, "at_limit": "warn"}},
        "group": {"research": {"servers": 2, "gpu_hours_per_month": 1.5}},
        "project": {"nlp": {"credit_usd": 100, "credit_usd_per_day": 5}},
        "hub": {"usd_per_window": 800, "window_days": 7, "usd_per_hour": 5},
    }
    limits = options(payers=PAYERS, limits=written).limits.limits()
    assert limits.of("user:ben") == Bounds(usd_per_month=200, max_run_seconds=43200)
    assert limits.of("user:ann") == Bounds(
        usd_per_month=500, max_run_seconds=43200, at_limit=AtLimit.WARN
    )
    research = limits.of("group:research")
    assert (research.limit(Kind.SERVERS), research.limit(Kind.GPU_HOURS)) == (2, 5_400_000_000)
    assert limits.of("project:nlp").refill == 5_000_000_000
    assert limits.of("hub").limit(Kind.WINDOW) == 800_000_000_000
    assert limits.bind
    assert limits.max_run_seconds(["user:ann", "hub"]) == 43200
    assert options(limits={"grace": "10m"}).limits.limits().grace_seconds == 600


def test_a_hubs_at_limit_holds_for_all_that_do_not_override_it() -> None:
    limits = options(
        limits={"at_limit": "warn", "users": {"ann": {"at_limit": "stop"}}}
    ).limits.limits()
    assert limits.of("hub").at_limit is limits.of("user:ben").at_limit is AtLimit.WARN
    assert limits.of("user:ann").at_limit is AtLimit.STOP


def test_a_limit_of_all_can_be_lifted_for_one_user() -> None:
    written = {"user": {"usd_per_month": 200}, "users": {"ann": {"usd_per_month": None}}}
    assert options(limits=written).limits.limits().of("user:ann").usd_per_month is None


@pytest.mark.parametrize(
    ("limits", "option", "in_fix"),
    [
        ({"user": {"usd_per_moth": 1}}, "limits.user.usd_per_moth", "usd_per_month"),
        ({"users": {"ann": {"usd_per_moth": 1}}}, "limits.users.ann.usd_per_moth", "usd_per_month"),
        ({"users": {"ann": {"servers": -1}}}, "limits.users.ann.servers", "2"),
        ({"users": {"ann": {"usd_per_hour": -1}}}, "limits.users.ann.usd_per_hour", "5"),
        ({"hub": {"usd_per_month": float("inf")}}, "limits.hub.usd_per_month", "200"),
        ({"hub": {"usd_per_window": 1}}, "limits.hub", "window_days"),
        ({"hub": {"window_days": 1}}, "limits.hub", "usd_per_window"),
        ({"hub": {"credit_usd_per_day": 1}}, "limits.hub", "credit_usd"),
        ({"hub": {"max_run": "0s"}}, "limits.hub.max_run", "20m"),
        ({"at_limit": "kill"}, "limits.at_limit", "stop"),
        ({"usr": {}}, "limits.usr", "users"),
        ({"group": {"researches": {}}}, "limits.group.researches", "did you mean research?"),
        ({"project": {"npl": {}}}, "limits.project.npl", "did you mean nlp?"),
    ],
)
def test_what_cannot_work_is_refused(limits: object, option: str, in_fix: str) -> None:
    where, _, fix = problem(limits=limits, payers=PAYERS)
    assert where == option
    assert in_fix in fix


@pytest.mark.parametrize(
    ("payers", "option"),
    [
        ({"group": "research"}, "payers.group"),
        ({"group": [""]}, "payers.group[0]"),
        ({"project": {"nlp": {}}}, "payers.project.nlp"),
        ({"project": {"nlp": {"user": ["ann"]}}}, "payers.project.nlp.user"),
        ({"project": {"nlp": {"users": "ann"}}}, "payers.project.nlp.users"),
    ],
)
def test_payers_without_members_are_refused(payers: object, option: str) -> None:
    assert problem(payers=payers)[0] == option


def test_limits_of_an_unknown_payer_say_how_to_add_it() -> None:
    where, _, fix = problem(limits={"group": {"lab": {"servers": 1}}})
    assert (where, fix) == ("limits.group.lab", 'c.EC2Spawner.payers = {"group": ["lab"]}')


def test_a_time_zone_must_exist() -> None:
    assert options(time_zone="Europe/Berlin").time_zone == "Europe/Berlin"
    where, _, fix = problem(time_zone="Europe/Berln")
    assert where == "time_zone"
    assert "Europe/Berlin" in fix


def test_payers_of_a_user() -> None:
    payers = options(payers=PAYERS).payers.payers()
    assert payers.of("ann", "ann", ["research"]) == ("group:research", "project:nlp", "user:ann")
    assert payers.of("ben", "ben", ["lab"]) == ("project:nlp", "user:ben")
    assert payers.of("cem", "cem", []) == ("user:cem",)
    assert options(payers={**PAYERS, "user": False}).payers.payers().of("cem", "cem", []) == ()
