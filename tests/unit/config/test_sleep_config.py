"""What an admin writes about sleeping sessions, and what a lease gets of it."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from ec2spawner.config import (
    ConfigError,
    JupyterHubOptions,
    Options,
    Problem,
    ineffective,
    validate_options,
)
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.hub.spawn.server_options import options_for
from ec2spawner.spawner import EC2Spawner

T4 = {"display_name": "T4", "slug": "t4", "gpu": "T4"}
OTHER = {"display_name": "A10G", "slug": "a10g", "gpu": "A10G"}


def options(**changed: Any) -> Options:
    raw = {"region": "us-east-1", "subnets": ["subnet-1"], "profile_list": [T4]}
    return validate_options({**raw, **changed}, cleanup_servers=False, environ={})


def unsaved(judged: Options) -> tuple[Problem, ...]:
    return ineffective(judged, JupyterHubOptions(), datetime.now(UTC))


def rules(hub: Options) -> SleepRules:
    return hub.sleep_rules_of(hub.profiles[0])


def then(hub: Options) -> str:
    return hub.idle_policy(hub.profiles[0]).then


def test_idle_servers_sleep_and_interrupted_ones_resume_by_default() -> None:
    hub = options()
    assert rules(hub) == SleepRules(300, 50 * 2**30, 30 * 86400, "resume")
    assert then(hub) == "sleep"
    assert unsaved(hub) == ()


def test_every_option_reaches_the_lease() -> None:
    hub = options(
        sleep={"save": "1m", "keep": "7d", "max_disk_gib": 10},
        interruption={"then": "resume-on-demand"},
        idle={"then": "stop"},
    )
    assert rules(hub) == SleepRules(60, 10 * 2**30, 7 * 86400, "resume-on-demand")
    assert then(hub) == "stop"


def test_folders_are_uploaded_to_a_place_below_the_prefix() -> None:
    words = {"upload": "s3://my-results/interrupted"}
    hub = options(interruption=words, instance_profile="notebooks")
    assert rules(hub).upload_to == "s3://my-results/interrupted/"
    assert rules(options()).upload_to == ""


def test_a_profile_changes_what_it_writes() -> None:
    profile = {**T4, "sleep": {"save": "2m"}, "interruption": {"then": "stop"}}
    hub = options(sleep={"keep": "7d", "save": "1m"}, profile_list=[profile])
    assert rules(hub) == SleepRules(120, 50 * 2**30, 7 * 86400, "stop")


async def test_groups_override_sleep_and_interruption() -> None:
    spawner = EC2Spawner(user=SimpleNamespace(name="ann", groups=[SimpleNamespace(name="lab")]))
    override = {"sleep": {"keep": "1d"}, "interruption": {"then": "stop"}}
    spawner.group_overrides = {"1": {"groups": ["lab"], "spawner_override": override}}
    await spawner.apply_group_overrides()
    of_server = await options_for(options(), spawner)
    assert rules(of_server).keep_seconds == 86400
    assert rules(of_server).after_interruption == "stop"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"home": {"kind": "none"}}, "home is of kind"),
        ({"sleep": {"save": 0}}, "save"),
    ],
)
def test_what_can_save_nothing_stops_instead_and_says_so_where_sleep_is_written(
    changed: dict[str, Any], why: str
) -> None:
    silent = options(**changed)
    assert then(silent) == "stop"
    assert rules(silent).save_seconds == 0
    assert unsaved(silent) == (), "a default is no mistake"
    profile = {**T4, "idle": {"then": "sleep"}}
    groups = {"lab": {"then": "sleep"}, "class": {"then": "stop"}}
    written = options(
        **changed, idle={"then": "sleep"}, idle_by_group=groups, profile_list=[profile, OTHER]
    )
    assert then(written) == "stop"
    problems = unsaved(written)
    assert [problem.option for problem in problems] == [
        "c.EC2Spawner.idle",
        'c.EC2Spawner.idle_by_group["lab"]',
        'c.EC2Spawner.profile_list[0].idle ("T4")',
    ]
    assert all(why in problem.wrong and '"then": "stop"' in problem.fix for problem in problems)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sleep": {"save": "2h"}}, r'c\.EC2Spawner\.sleep: 7200 s is long .* "save" 30m or less'),
        ({"sleep": {"keep": 0}}, r"c\.EC2Spawner\.sleep\.keep: must be longer than 0"),
        ({"sleep": {"max_disk_gib": 0}}, r"max_disk_gib: must be at least 1"),
        ({"sleep": {"kept": "1d"}}, r"sleep\.kept: there is no such option.*keep"),
        ({"interruption": {"upload": "results"}}, r"upload: .*s3://my-results/interrupted/"),
        ({"interruption": {"upload": "s3://bucket/../c"}}, r"upload: .* is no place in S3"),
        (
            {"interruption": {"upload": "s3://results"}},
            r"as the role of instances, and these have none.*instance_profile",
        ),
        ({"interruption": {"then": "wait"}}, r"must be 'resume', 'resume-on-demand' or 'stop'"),
        ({"idle": {"then": "hibernate"}}, r"idle\.then: must be 'sleep' or 'stop'"),
    ],
)
def test_a_wrong_word_is_named_with_its_fix(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        options(**changed)
