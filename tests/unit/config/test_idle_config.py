"""Idle rules as an admin writes them: for the hub, groups, profiles, and by a function."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.config import ConfigError, IdleConfig, Options, validate_options
from ec2spawner.core.idle.policy import bounded, in_force
from ec2spawner.hub.spawn import idle_policy
from ec2spawner.hub.spawn.idle_policy import policy_of
from ec2spawner.hub.spawn.server_options import options_for, options_for_page
from ec2spawner.spawner import EC2Spawner
from ec2spawner.wire import IdlePolicy, WorkingHours
from tests.user_accounts import bare_accounts, fake_user

OFFICE = {"when": "Mon-Fri 08:00-18:00 Europe/Berlin", "server": "3h"}
T4 = {"display_name": "T4", "slug": "t4", "gpu": "T4"}


def options(**changed: Any) -> Options:
    raw = {"region": "us-east-1", "subnets": ["subnet-1"], "profile_list": [T4]}
    return validate_options({**raw, **changed}, cleanup_servers=False, environ={})


def spawner_of(*groups: str) -> EC2Spawner:
    return EC2Spawner(user=fake_user("ann", *groups))


def provisioner_of(hub: Options) -> Any:
    """What is asked of the provisioner with these options."""
    settings = SimpleNamespace(limits=hub.limits.limits())
    return SimpleNamespace(accounts=bare_accounts(), settings=settings)


async def policy(
    hub: Options, *groups: str, profile: dict[str, Any] | None = None, chosen: float | None = None
) -> IdlePolicy:
    """What holds for a user of these groups."""
    hub = hub if profile is None else hub.model_copy(update={"profile_list": of_profile(profile)})
    spawner = spawner_of(*groups)
    of_server = await options_for(hub, spawner)
    first = of_server.profiles[0]
    return in_force(await policy_of(of_server, provisioner_of(hub), spawner, first, chosen))


def of_profile(changes: dict[str, Any]) -> Any:
    return options(profile_list=[{**T4, **changes}]).profile_list


# --- words -----------------------------------------------------------------------------------


def test_every_option_reaches_the_policy() -> None:
    words = {
        "server": "2h",
        "kernel": 0,
        "warn": "5m",
        "user_may_extend": "1h",
        "max_age": "2d",
        "then": "sleep",
        "gpu_busy_percent": 1,
        "cpu_busy_percent": 2,
        "busy_without_work": "12h",
        "working_hours": OFFICE,
        "user_may_set": {"server": ["15m", "8h"]},
    }
    assert options(idle=words).idle.policy() == IdlePolicy(
        server_seconds=7200,
        kernel_seconds=0,
        warn_seconds=300,
        user_may_extend_seconds=3600,
        max_age_seconds=172800,
        then="sleep",
        gpu_busy_percent=1,
        cpu_busy_percent=2,
        silent_kernel_seconds=43200,
        working_hours=WorkingHours(
            days=[0, 1, 2, 3, 4],
            from_minute=480,
            to_minute=1080,
            timezone="Europe/Berlin",
            server_seconds=10800,
        ),
        user_server_min_seconds=900,
        user_server_max_seconds=28800,
    )
    assert options().idle.policy() == IdlePolicy(then="sleep") == IdleConfig().policy()


@pytest.mark.parametrize(
    ("idle", "option", "says", "fix"),
    [
        (
            {"working_hours": {**OFFICE, "when": "Mo-Fr 8-18"}},
            "working_hours.when",
            "no hours",
            "Mon-Fri",
        ),
        (
            {"working_hours": {**OFFICE, "when": "Mo-Fri 08:00-18:00 UTC"}},
            "working_hours.when",
            '"Mo" is no day',
            "Mon, Tue",
        ),
        (
            {"working_hours": {**OFFICE, "when": "Mon 8:00-25:00 UTC"}},
            "working_hours.when",
            '"25:00" is no time',
            '"08:00"',
        ),
        (
            {"working_hours": {**OFFICE, "when": "Mon 8:00-8:00 UTC"}},
            "working_hours.when",
            "begins where it ends",
            '"00:00-24:00"',
        ),
        (
            {"working_hours": {**OFFICE, "when": "Mon 8:00-9:00 Europe/Berln"}},
            "working_hours.when",
            "no time zone",
            "Europe/Berlin",
        ),
        ({"working_hours": {"when": OFFICE["when"]}}, "working_hours.server", "is missing", "3h"),
        ({"working_hours": "Mon"}, "working_hours", "must be a dict", "Europe/Berlin"),
        ({"user_may_set": {"server": "8h"}}, "user_may_set.server", "not a list", "list"),
        ({"user_may_set": {"server": ["8h"]}}, "user_may_set.server", "no pair", '["15m", "8h"]'),
        ({"user_may_set": {"server": ["8h", "1h"]}}, "user_may_set", "above its second", "swap"),
        ({"user_may_set": {"server": [0, "1h"]}}, "user_may_set.server[0]", "longer than 0", "20m"),
        (
            {"user_may_set": {"server": [1, 2], "kernel": 1}},
            "user_may_set.kernel",
            "no such",
            "server",
        ),
    ],
)
def test_a_refusal_names_option_and_fix(
    idle: dict[str, Any], option: str, says: str, fix: str
) -> None:
    for where, raw in (
        ("idle", {"idle": idle}),
        ("idle_by_group.research", {"idle_by_group": {"research": idle}}),
    ):
        with pytest.raises(ConfigError) as refused:
            options(**raw)
        first, after = str(refused.value.problems[0]).split(". Fix: ", 1)
        assert first.startswith(f"c.EC2Spawner.{where}.{option}: ")
        assert says in first
        assert fix in after


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"idle_by_group": ["research"]}, "c.EC2Spawner.idle_by_group: must be a dict"),
        ({"idle_by_group": {"r": "1h"}}, "c.EC2Spawner.idle_by_group.r: must be a dict"),
        ({"idle_by_group": {"r": {"sever": 1}}}, "did you mean server?"),
        ({"idle_hook": "by_role"}, "c.EC2Spawner.idle_hook: must be a function"),
    ],
)
def test_invalid_groups_and_functions_are_refused(raw: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        options(**raw)
    assert says in str(refused.value)


# --- the order of the sources ------------------------------------------------------------


async def test_group_profile_and_function_come_after_the_hub_in_this_order() -> None:
    def hook(spawner: Any, words: dict[str, Any]) -> dict[str, Any]:
        assert spawner.user.name == "ann"
        return {"server": words["server"] / 2}

    hub = options(
        idle={"server": "1h", "kernel": "9h"},
        idle_by_group={"research": {"server": "2h"}, "long": {"server": "8h", "max_age": "2d"}},
        idle_hook=hook,
    )
    of_profile = {"idle": {"server": "20m"}}
    assert (await policy(hub)).server_seconds == 1800
    assert (await policy(hub, "research", "other")).server_seconds == 3600
    # As the admin lists them, not as the user is in them.
    both = await policy(hub, "long", "research")
    assert (both.server_seconds, both.max_age_seconds) == (4 * 3600, 2 * 86400)
    assert both.kernel_seconds == 9 * 3600
    assert (await policy(hub, "long", profile=of_profile)).server_seconds == 600


async def test_a_page_shows_the_group_overrides() -> None:
    hub = options(idle_by_group={"research": {"server": "2h"}})
    seen = await options_for_page(hub, spawner_of("research"))
    assert seen.idle_policy(seen.profiles[0]).server_seconds == 7200
    assert hub.idle.server == 3600, "the hub's own stay"


async def test_server_without_hours_applies_at_all_hours() -> None:
    hub = options(
        idle={"server": "1h", "working_hours": OFFICE},
        idle_by_group={"short": {"server": "10m"}, "kernels": {"kernel": 0}},
    )
    assert (await policy(hub, "short")).working_hours is None
    assert (await policy(hub, "kernels")).working_hours is not None
    own = {"idle": {"server": "10m", "working_hours": {**OFFICE, "server": "30m"}}}
    hours = (await policy(hub, profile=own)).working_hours
    assert hours is not None
    assert hours.server_seconds == 1800
    assert (await policy(hub, profile={"idle": {"working_hours": None}})).working_hours is None


async def later(_spawner: Any, words: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(0)
    assert words["working_hours"] == {**OFFICE, "server": 10800}
    return {**words, "max_age": "1d"}


async def test_a_function_may_be_async_and_return_its_argument() -> None:
    found = await policy(options(idle={"working_hours": OFFICE}, idle_hook=later))
    assert found.max_age_seconds == 86400
    assert found.working_hours is not None


async def never(_spawner: Any, _words: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(3600)
    return {"server": 0}


def broken(_spawner: Any, _words: dict[str, Any]) -> dict[str, Any]:
    raise LookupError("no such role")


@pytest.mark.parametrize(
    ("hook", "logged"),
    [
        (broken, "c.EC2Spawner.idle_hook failed"),
        (never, "c.EC2Spawner.idle_hook did not answer within 0.05 s"),
        (lambda _s, _w: {"sever": "1h"}, "did you mean server?"),
        (lambda _s, _w: {"server": "soon"}, '"soon" is no duration'),
        (lambda _s, _w: 3600, "must be a dict"),
    ],
)
async def test_a_function_that_fails_changes_nothing_and_is_logged(
    hook: Any,
    logged: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(idle_policy, "HOOK_TIMEOUT", 0.05)
    with caplog.at_level(logging.ERROR):
        found = await policy(options(idle={"server": "2h"}, idle_hook=hook))
    assert found == in_force(IdlePolicy(server_seconds=7200, then="sleep"))
    assert logged in caplog.text


# --- limits ----------------------------------------------------------------------------------


async def test_the_shortest_of_max_age_and_the_limits_of_a_run_holds() -> None:
    limits = {
        "user": {"max_run": "12h"},
        "group": {"lab": {"max_run": "2h"}},
        "hub": {"max_run": "3d"},
    }
    hub = options(limits=limits, payers={"group": ["lab"]}, idle={"max_age": "6h"})
    spawner, asked = spawner_of("lab"), provisioner_of(hub)
    ages = [
        (await policy_of(each, asked, spawner, each.profiles[0], None, payer)).max_age_seconds
        for each in (hub, hub.model_copy(update={"idle": IdleConfig()}))
        for payer in ("", "group:lab")
    ]
    assert ages == [6 * 3600, 2 * 3600, 12 * 3600, 2 * 3600]


# --- what its user chose ---------------------------------------------------------------------


async def test_a_choice_holds_at_all_hours_within_the_bounds_and_max_age() -> None:
    hub = options(
        idle={"working_hours": OFFICE, "user_may_set": {"server": ["15m", "8h"]}},
        idle_by_group={"class": {"max_age": "2h"}},
    )
    for asked, gets in ((1800, 1800), (60, 900), (86400, 8 * 3600)):
        found = await policy(hub, chosen=asked)
        assert (found.server_seconds, found.user_server_seconds) == (gets, gets)
        assert found.working_hours is None
    assert (await policy(hub, "class", chosen=86400)).server_seconds == 7200


async def test_a_choice_is_ignored_without_bounds() -> None:
    found = await policy(options(idle={"server": "2h"}), chosen=600)
    assert (found.server_seconds, found.user_server_seconds) == (7200, None)


async def test_a_profile_overrides_the_bounds_of_a_later_choice() -> None:
    opens = {"profile_options": {"idle": {"min": "30m", "max": "4h"}}}
    found = await policy(options(), profile=opens, chosen=86400)
    assert found.server_seconds == 4 * 3600
    wider = options(idle={"user_may_set": {"server": ["1m", "1h"]}})
    for asked, gets in ((30, 60), (86400, 4 * 3600)):
        assert (await policy(wider, profile=opens, chosen=asked)).server_seconds == gets


durations = st.sampled_from([0.0, 1.0, 60.0, 600.0, 3600.0, 86400.0])
policies = st.builds(
    IdlePolicy,
    server_seconds=durations,
    warn_seconds=durations,
    max_age_seconds=durations,
    working_hours=st.none()
    | st.just(options(idle={"working_hours": OFFICE}).idle.policy().working_hours),
    user_server_min_seconds=durations,
    user_server_max_seconds=durations,
    user_server_seconds=st.none() | durations,
)


@given(policies, st.floats(0.1, 10**7))
def test_a_choice_is_always_within_its_bounds(policy: IdlePolicy, asked: float) -> None:
    gets = bounded(policy, asked)
    assert (gets is None) == (policy.user_server_max_seconds == 0)
    if gets is not None:
        assert gets <= policy.user_server_max_seconds
        assert not policy.max_age_seconds or gets <= policy.max_age_seconds
        assert bounded(policy, gets) == gets
    held = in_force(policy)
    assert in_force(held) == held
    assert held.max_age_seconds == policy.max_age_seconds
    limits = [held.server_seconds]
    limits += [held.working_hours.server_seconds] if held.working_hours else []
    assert all(held.warn_seconds < limit for limit in limits if limit)
