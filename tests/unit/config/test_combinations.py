"""Options that are impossible together, and those that only look like it."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.config import ConfigError
from tests.unit.config.combined import (
    ANY,
    CONTAINER,
    DISCOUNT,
    EFS,
    GROUPS,
    ON_DEMAND,
    POOL,
    QUEUE,
    RUNS,
    SPOT,
    TOPIC,
    found,
    options,
)

IMPOSSIBLE: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "nobody-pays": (
        {"payers": {"user": False}},
        "payers",
        '"user" is False, and no "group" or "project" may pay',
        '"group": ["research"]',
    ),
    "runs-in-containers": (
        {"runs": RUNS, "image": CONTAINER},
        "runs.at_once",
        'c.EC2Spawner.image has a "container"',
        "leave out c.EC2Spawner.runs",
    ),
    "clusters-in-containers": (
        {"clusters": {"max_workers": 2}, "image": CONTAINER, **GROUPS},
        "clusters.max_workers",
        'c.EC2Spawner.image has a "container"',
        "leave out c.EC2Spawner.clusters",
    ),
    "homes-that-root-reads": (
        {"home": EFS, "image": "/aws/service/deeplearning/ami/x86_64/any/latest/ami-id"},
        "home.kind",
        "c.EC2Spawner.image",
        '"kind": "ebs"',
    ),
}
"""Options -> the option that is named, the words about the other one, and the fix."""

FINE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": ({}, {"start_timeout": 900, "allow_named_servers": False, "max_servers": 1}),
    "a small home": ({"home": {"size_gib": 20}}, {}),
    "a session within the largest home": (
        {
            "home": {"user_may_choose": {"min": 20, "max": 500}},
            "sleep": {"max_disk_gib": 200},
        },
        {},
    ),
    "sessions on EFS": ({"home": EFS, "sleep": {"max_disk_gib": 200}}, {}),
    "copies for named servers": (
        {"home": {"named_servers": "copy"}},
        {"allow_named_servers": True},
    ),
    "a stop of what users may buy on demand": (
        {
            "after_stop": "stop",
            "profile_list": [SPOT | {"profile_options": {"market": ["on-demand"]}}],
        },
        {},
    ),
    "profiles that a function decides": (
        {
            "after_stop": "stop",
            "interruption_queue": QUEUE,
            "profile_list": lambda spawner: [],
            "discounts": [DISCOUNT],
        },
        {},
    ),
    "an end of blocks": (
        {
            "interruption": {"then": "stop"},
            "profile_list": [ON_DEMAND],
            "capacity_reservations": {"blocks": [{"id": "cr-0a1b2c3d", "upfront_usd": 1}]},
            "limits": {"hub": {"usd_per_hour": 0.01}},
        },
        {},
    ),
    "a discount that begins later": (
        {"discounts": [DISCOUNT | {"since": "2027-01-01", "until": "2027-06-01"}]},
        {},
    ),
    "reservations that are left to others": (
        {"discounts": [{"instance_type": "p5.48xlarge", "usd_per_hour": 99, "count": 0}]},
        {},
    ),
    "a cheap start by a discount": (
        {
            "discounts": [DISCOUNT],
            "profile_list": [ON_DEMAND],
            "limits": {"hub": {"usd_per_hour": 0.4}},
        },
        {},
    ),
    "reservations for runs": (
        {"capacity_reservations": {"tags": {"a": "b"}}, "after_stop": "stop", "runs": RUNS},
        {},
    ),
    "more at some hours": (
        {"warm_pool": [POOL, POOL | {"running": 5, "when": "Mon-Fri 08:00-18:00"}]},
        {},
    ),
    "pools of two markets": ({"warm_pool": [POOL, POOL | {"market": "on-demand"}]}, {}),
    "a cap that one instance fits": ({"warm_pool": [POOL], "warm_pool_usd_per_hour": 0.6}, {}),
    "a pool that is off": (
        {"warm_pool": [POOL | {"running": 0}], "warm_pool_usd_per_hour": 0.01},
        {},
    ),
    "priorities of who pays": (
        {
            "runs": RUNS | {"priorities": {"group:lab": 1, "project:nlp": 2, "user:ann": 3}},
            "payers": {"group": ["lab"], "project": {"nlp": {"users": ["ann"]}}},
        },
        {},
    ),
    "a user with more servers than others": (
        {
            "clusters": {"max_workers": 8},
            "limits": {"user": {"servers": 2}, "users": {"ann": {"servers": 9}}},
            **GROUPS,
        },
        {},
    ),
    "a hub that only warns": (
        {
            "limits": {
                "user": {"usd_per_month": 200},
                "hub": {"usd_per_month": 100, "at_limit": "warn"},
            }
        },
        {},
    ),
    "nobody but ann": (
        {"limits": {"user": {"servers": 0}, "users": {"ann": {"servers": 2}}}},
        {},
    ),
    "a user who may start nothing": ({"limits": {"users": {"ann": {"usd_per_month": 0}}}}, {}),
    "a limit below an hour, of servers that run for minutes": (
        {
            "limits": {"user": {"usd_per_month": 0.3, "max_run": "30m"}},
            "idle": {"server": "20m"},
            "profile_list": [ON_DEMAND],
        },
        {},
    ),
    "a limit where prices are unknown": (
        {"region": "eu-central-1", "limits": {"hub": {"usd_per_hour": 0.01}}},
        {},
    ),
    "a limit below on-demand, with spot": (
        {"limits": {"user": {"usd_per_hour": 0.3}}, "profile_list": [ANY]},
        {},
    ),
    "idle times that a function decides": (
        {
            "idle": {"server": "12h", "max_age": "8h"},
            "idle_hook": lambda spawner, policy: None,
            "limits": {"user": {"usd_per_month": 0.01}},
            "idle_by_group": {"lab": {"server": "3h"}},
            "profile_list": [ANY | {"idle": {"server": "20m"}}],
        },
        {},
    ),
    "the default idle time beside a short run": ({"limits": {"hub": {"max_run": "30m"}}}, {}),
    "an extension of working hours": (
        {
            "idle": {
                "server": 0,
                "user_may_extend": "4h",
                "working_hours": {"when": "Mon-Fri 08:00-18:00 UTC", "server": "1h"},
            }
        },
        {},
    ),
    "an age above that of a limit": (
        {"idle": {"max_age": "8h"}, "limits": {"user": {"max_run": "2h"}}},
        {},
    ),
    "alarms": ({"alarms": [TOPIC]}, {}),
}
"""Options that look alike, and that have an effect."""


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_nobody_could_get_stops_the_hub(case: str) -> None:
    changed, option, other, fix = IMPOSSIBLE[case]
    with pytest.raises(ConfigError) as refused:
        options(changed)
    [problem] = refused.value.problems
    assert problem.option == f"c.EC2Spawner.{option}"
    assert other in problem.wrong
    assert fix in problem.fix


@pytest.mark.parametrize("case", FINE)
def test_what_has_an_effect_is_no_finding(case: str) -> None:
    changed, hub = FINE[case]
    assert found(changed, **hub) == []
