"""Bad configuration is refused at hub start: the option, what is wrong, and the fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_core import PydanticCustomError
from traitlets import TraitError

from ec2spawner.config import (
    ConfigError,
    HomeBounds,
    HomeConfig,
    IdleConfig,
    Options,
    Profile,
    ProfileOptions,
    SnapshotSchedule,
    UserMaySet,
    WorkingHoursConfig,
    change_options,
    seconds,
    validate_options,
)
from ec2spawner.config.entries.image import DEEP_LEARNING_AMI
from ec2spawner.config.entries.profile import DiskBounds, IdleBounds
from ec2spawner.config.traits import OptionTraits
from ec2spawner.core.idle.policy import in_force
from ec2spawner.wire import IdlePolicy, Market

GOOD: dict[str, Any] = {
    "region": "us-east-1",
    "subnets": ["subnet-0a1b2c3d"],
    "image": "ami-0a1b2c3d",
}


def options(**changed: Any) -> Options:
    return validate_options({**GOOD, **changed}, cleanup_servers=False, environ={})


def refusal(**changed: Any) -> str:
    with pytest.raises(ConfigError) as error:
        options(**changed)
    return str(error.value)


def profiles(*entries: Any) -> dict[str, Any]:
    return {"profile_list": list(entries)}


# --- what works ------------------------------------------------------------------------------


def test_three_options_are_enough() -> None:
    works = options()
    assert [profile.slug for profile in works.profile_list] == ["t4", "a10g", "l40s", "cpu"]
    assert works.idle_policy(works.profile_list[0]) == IdlePolicy(then="sleep")
    assert works.home.kind == "ebs"
    assert all(works.instance_types(profile) for profile in works.profile_list)


def test_the_example_of_the_design() -> None:
    works = options(
        profile_list=[
            {"display_name": "T4, 16 GB", "slug": "t4", "gpu": "T4", "default": True},
            {"display_name": "A10G, 24 GB", "slug": "a10g", "gpu": "a10g", "groups": ["research"]},
            {
                "display_name": "8x A100, 320 GB",
                "slug": "a100x8",
                "instance_types": ["p4d.24xlarge"],
                "market": "on-demand",
                "idle": {"server": "20m"},
            },
            {"display_name": "No GPU", "slug": "cpu", "vcpus": 4, "memory_gib": 16},
        ],
        idle={"server": "1h", "kernel": "2h", "warn": "10m", "user_may_extend": "4h"},
    )
    t4, a10g, a100, _ = works.profile_list
    assert a10g.gpu == "A10G"
    assert a10g.groups == ("research",)
    assert t4.markets == (Market.SPOT, Market.ON_DEMAND)
    assert a100.markets == (Market.ON_DEMAND,)
    assert works.idle_policy(t4).server_seconds == 3600
    assert works.idle_policy(a100) == IdlePolicy(server_seconds=1200, then="sleep")


def test_the_region_of_the_environment() -> None:
    raw = {**GOOD, "region": ""}
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        found = validate_options(raw, cleanup_servers=False, environ={name: "eu-central-1"})
        assert found.region == "eu-central-1"
    assert options(region="us-west-2").region == "us-west-2"


def test_a_slug_is_made_from_the_name() -> None:
    works = options(
        **profiles({"display_name": "T4, 16 GB", "gpu": "T4"}, {"display_name": "演習", "vcpus": 2})
    )
    assert works.profile_list[0].slug == "t4-16-gb"
    assert works.profile_list[1].slug.startswith("x---")


def test_command_line_strings_are_converted() -> None:
    works = options(port="9000", disk_gib="200", boot_timeout="90", idle={"gpu_busy_percent": "3"})
    assert (works.port, works.disk_gib, works.boot_timeout) == (9000, 200, 90.0)
    assert works.idle.gpu_busy_percent == 3.0


def test_a_profile_may_have_its_own_disk() -> None:
    works = options(**profiles({"display_name": "T4", "gpu": "T4", "disk_gib": 300}), disk_gib=80)
    assert works.disk(works.profile_list[0]) == 300
    assert options(disk_gib=80).disk(options().profile_list[0]) == 80


def test_an_instance_type_newer_than_this_version_may_be_named() -> None:
    """EC2 has the last word, see `offers.instance_types`: a new family, a family's new size."""
    named = ["g99.2xlarge", "g4dn.3xlarge", "p5.metal-48xl", "g4dn.xlarge"]
    works = options(**profiles({"display_name": "New", "instance_types": named}))
    assert works.profiles[0].instance_types == tuple(named)
    assert [kind.name for kind in works.instance_types(works.profiles[0])] == ["g4dn.xlarge"]


def test_what_a_user_may_choose() -> None:
    works = options(
        **profiles(
            {
                "display_name": "T4",
                "gpu": "T4",
                "disk_gib": 80,
                "idle": {"server": "30m"},
                "profile_options": {
                    "market": ["on-demand"],
                    "disk_gib": {"min": 50, "max": 500},
                    "idle": {"min": "15m", "max": "4h"},
                },
            }
        )
    )
    t4 = works.profiles[0]
    assert t4.profile_options.disk_gib is not None
    assert (t4.profile_options.disk_gib.min, t4.profile_options.disk_gib.max) == (50, 500)
    assert works.idle_policy(t4).server_seconds == 1800
    chosen = in_force(works.idle_policy(t4, 960))
    assert (chosen.server_seconds, chosen.user_server_seconds) == (960, 960)
    assert in_force(works.idle_policy(t4, 60)).server_seconds == 900, "its bounds hold"


def test_the_hubs_idle_time_may_lie_outside_the_users_bounds() -> None:
    bounds = {"idle": {"min": "15m", "max": "4h"}}
    for usual in ("30s", 0, "1d"):
        works = options(
            idle={"server": usual},
            **profiles({"display_name": "T4", "gpu": "T4", "profile_options": bounds}),
        )
        assert works.idle_policy(works.profiles[0]).server_seconds == seconds(usual)


def test_profiles_and_groups_may_be_functions_of_the_spawner() -> None:
    def everyone(_spawner: object) -> bool:
        return True

    def listed(_spawner: object) -> list[dict[str, Any]]:
        return [{"display_name": "T4", "gpu": "T4"}]

    works = options(profile_list=listed)
    assert works.profile_list is listed
    assert works.profiles == ()
    works = options(**profiles({"display_name": "T4", "gpu": "T4", "groups": everyone}))
    assert works.profiles[0].groups is everyone
    assert OptionTraits(profile_list=listed).profile_list is listed
    with pytest.raises(TraitError, match="a list, or a function of the spawner"):
        OptionTraits(profile_list=5)


def test_values_returned_by_functions_are_checked_like_constants() -> None:
    hub = options(profile_list=lambda _spawner: [])
    changed = change_options(hub, {"profile_list": [{"display_name": "T4", "gpu": "t4"}]})
    assert [profile.gpu for profile in changed.profiles] == ["T4"]
    assert changed.subnets == hub.subnets
    assert change_options(hub, {"profile_list": []}).profiles == (), "nothing for this user"
    bad = [{"display_name": "A", "gpu": "T5"}, {"display_name": "B", "gpu": "T4", "vcpu": 4}]
    with pytest.raises(ConfigError) as refused:
        change_options(hub, {"profile_list": bad, "disk_gib": "big"})
    message = str(refused.value)
    assert 'c.EC2Spawner.profile_list[0].gpu ("A"): EC2 has no GPU called "T5"' in message
    assert 'c.EC2Spawner.profile_list[1].vcpu ("B"): there is no such option' in message
    assert "c.EC2Spawner.disk_gib: must be a whole number" in message
    twice = [{"display_name": "A", "gpu": "T4"}, {"display_name": "a", "gpu": "T4"}]
    with pytest.raises(ConfigError, match="is the slug of"):
        change_options(hub, {"profile_list": twice})
    with pytest.raises(ConfigError, match="must be a list"):
        change_options(hub, {"profile_list": None})


def test_group_overrides_are_checked_against_the_bounds() -> None:
    bounds = {"disk_gib": {"min": 50, "max": 500}}
    hub = options(**profiles({"display_name": "T4", "gpu": "T4", "profile_options": bounds}))
    assert change_options(hub, {"disk_gib": 60}).disk(hub.profiles[0]) == 60
    with pytest.raises(ConfigError, match="leaves out the profile's own 20 GiB"):
        change_options(hub, {"disk_gib": 20})


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("1h", 3600.0),
        ("20m", 1200.0),
        ("90s", 90.0),
        ("1d", 86400.0),
        ("1h30m", 5400.0),
        ("1 h 30 m", 5400.0),
        ("0.5h", 1800.0),
        ("45", 45.0),
        (45, 45.0),
        (0, 0.0),
    ],
)
def test_durations(written: str | int, means: float) -> None:
    assert seconds(written) == means


@pytest.mark.parametrize("written", ["3651d", "9" * 400 + "h", 10**10, 10**400, "inf"])
def test_an_overflowing_duration_is_refused(written: str | int) -> None:
    with pytest.raises(PydanticCustomError) as refused:
        seconds(written)
    assert "is longer than 10 years" in str(refused.value)
    assert seconds("3650d") == 3650 * 86400


@given(st.floats(min_value=0, max_value=3650), st.sampled_from("smhd"))
def test_a_duration_may_have_a_unit(number: float, unit: str) -> None:
    text = f"{number:.3f}"
    assert seconds(text + unit) == float(text) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit]


# --- idle ------------------------------------------------------------------------------------


def test_a_profile_changes_only_what_it_names() -> None:
    works = options(
        idle={"server": "2h", "kernel": "3h", "warn": "5m"},
        **profiles({"display_name": "T4", "gpu": "T4", "idle": {"kernel": "1h"}}),
    )
    policy = works.idle_policy(works.profile_list[0])
    assert (policy.server_seconds, policy.kernel_seconds, policy.warn_seconds) == (7200, 3600, 300)


def test_the_warning_always_precedes_the_stop() -> None:
    short = options(idle={"server": "20s"})
    assert in_force(short.idle_policy(short.profile_list[0])).warn_seconds == 10
    hurried = options(**profiles({"display_name": "T4", "gpu": "T4", "idle": {"server": "4m"}}))
    assert in_force(hurried.idle_policy(hurried.profile_list[0])).warn_seconds == 120
    never = options(idle={"server": 0})
    assert in_force(never.idle_policy(never.profile_list[0])).server_seconds == 0


# --- what is refused -------------------------------------------------------------------------


def test_stopping_everyone_at_a_hub_restart_is_refused() -> None:
    with pytest.raises(ConfigError) as error:
        validate_options(GOOD, cleanup_servers=True, environ={})
    assert (
        "c.JupyterHub.cleanup_servers: stopping the hub would stop everyone's server. "
        "Fix: c.JupyterHub.cleanup_servers = False"
    ) in str(error.value)


@pytest.mark.parametrize(
    ("changed", "option", "fix"),
    [
        ({"region": ""}, "c.EC2Spawner.region:", '= "us-east-1"'),
        ({"region": "us-east-1a"}, "c.EC2Spawner.region:", '= "us-east-1"'),
        ({"region": "us-moon-1"}, "c.EC2Spawner.region:", "c.EC2Spawner.identity_certificates"),
        ({"subnets": []}, "c.EC2Spawner.subnets:", 'c.EC2Spawner.subnets = ["subnet-..."]'),
        ({"subnets": "subnet-1"}, "c.EC2Spawner.subnets:", "put it in a list: ['subnet-1']"),
        ({"subnets": ["subnet-1", ""]}, "c.EC2Spawner.subnets[1]:", "subnet-0a1b2c3d"),
        ({"subnets": ["vpc-1"]}, "c.EC2Spawner.subnets[0]:", "subnet-0a1b2c3d"),
        ({"security_groups": ["web"]}, "c.EC2Spawner.security_groups[0]:", "sg-0a1b2c3d"),
        (
            {
                "security_groups": [f"sg-0a1b2c3{n}" for n in range(5)],
                "clusters": {"max_workers": 2},
            },
            "c.EC2Spawner.clusters",
            "at most 4",
        ),
        ({"clusters": {"max_workers": 2}}, "c.EC2Spawner.clusters", "security_groups = "),
        ({"image": ""}, "c.EC2Spawner.image: names no image", "leave it out"),
        ({"image": "ubuntu"}, 'c.EC2Spawner.image: "ubuntu" is no image', "ami-0a1b2c3d"),
        ({"image": "ami_1"}, 'c.EC2Spawner.image: "ami_1" is no image', "ami-0a1b2c3d"),
        ({"image": 7}, "c.EC2Spawner.image: must be a dict", "ami-0a1b2c3d"),
        ({"image": "/a b"}, "c.EC2Spawner.image.parameter:", "/my/image"),
        ({"image": "/{arch}/x"}, "c.EC2Spawner.image.parameter:", "{architecture}"),
        ({"image": {}}, "c.EC2Spawner.image: names no image", "leave it out"),
        ({"image": {"container": "No Image"}}, "c.EC2Spawner.image.container:", "sha256"),
        ({"image": {"container": "https://x/y"}}, "c.EC2Spawner.image.container:", "sha256"),
        ({"image": {"nam": "x"}}, "c.EC2Spawner.image.nam:", "did you mean name?"),
        ({"image": {"id": "ami-1", "name": "x"}}, "c.EC2Spawner.image: names an image in", "keep"),
        ({"image": {"name": "x", "owners": []}}, "c.EC2Spawner.image:", '["self"]'),
        ({"image": {"name": "x", "owners": "me"}}, "c.EC2Spawner.image.owners:", "['me']"),
        ({"image": {"name": "x", "owners": ["me"]}}, "c.EC2Spawner.image.owners:", '"self"'),
        ({"endpoint_url": "localhost:5000"}, "c.EC2Spawner.endpoint_url:", "http://"),
        ({"port": 80}, "c.EC2Spawner.port: must be at least 1024", "8888"),
        ({"disk_gib": "big"}, "c.EC2Spawner.disk_gib: must be a whole number", "100"),
        ({"boot_timeout": "-5m"}, 'c.EC2Spawner.boot_timeout: "-5m" is negative', "20m"),
        ({"boot_timeout": 0}, "c.EC2Spawner.boot_timeout: must be longer than 0", "20m"),
        ({"boot_timeout": "soon"}, 'c.EC2Spawner.boot_timeout: "soon" is no duration', "20m"),
        ({"boot_timeout": True}, "c.EC2Spawner.boot_timeout:", "20m"),
        ({"boot_timeout": float("inf")}, "c.EC2Spawner.boot_timeout:", "20m"),
        ({"agent_silent_after": "30s"}, "c.EC2Spawner.agent_silent_after:", '"90s" or longer'),
        ({"hub_lost_after": -1}, "c.EC2Spawner.hub_lost_after: -1 is negative", "20m"),
        ({"idle": {"server": -60}}, "c.EC2Spawner.idle.server: -60 is negative", "20m"),
        ({"idle": {"sever": "1h"}}, "c.EC2Spawner.idle.sever:", "did you mean server?"),
        ({"idle": {"server": "5m", "warn": "10m"}}, "c.EC2Spawner.idle:", "shorter"),
        ({"idle": "1h"}, "c.EC2Spawner.idle: must be a dict", "'server': '1h'"),
        ({"idle": {"gpu_busy_percent": 101}}, "c.EC2Spawner.idle.gpu_busy_percent:", "5"),
        ({"home": {"kind": "s3"}}, "c.EC2Spawner.home.kind: must be 'ebs', 'efs' or", "'ebs'"),
        ({"home": {"size_gib": 0}}, "c.EC2Spawner.home.size_gib:", "50"),
        (
            {"home": {"user_may_choose": {"min": 60, "max": 90}}},
            "c.EC2Spawner.home: user_may_choose leaves out size_gib, 50",
            "widen it",
        ),
        (
            {"home": {"user_may_choose": {"min": 9, "max": 5}}},
            "c.EC2Spawner.home.user_may_choose: its min, 9, is above its max",
            "swap them",
        ),
        (
            {"home": {"snapshots": {"every": "5m"}}},
            "c.EC2Spawner.home.snapshots: a snapshot every 300 s is more than EC2 takes",
            '"every": "1h"',
        ),
        (
            {"home": {"snapshots": {"keeps": 3}}},
            "c.EC2Spawner.home.snapshots.keeps: there is no such option",
            "did you mean keep?",
        ),
        (
            {"home": {"kms_key": "alias/x", "encrypted": False}},
            "c.EC2Spawner.home: kms_key is a key for nothing",
            '"encrypted": True',
        ),
        (
            {"home": {"kind": "none", "named_servers": "copy"}},
            "c.EC2Spawner.home: named_servers copies volumes, and kind none has none",
            '"named_servers": "empty"',
        ),
        ({"subnet": ["subnet-1"]}, "c.EC2Spawner.subnet:", "did you mean subnets?"),
        ({"identity_certificates": ["/none"]}, "c.EC2Spawner.identity_certificates:", "PEM"),
        ({"profile_list": []}, "c.EC2Spawner.profile_list:", "add a profile"),
        ({"profile_list": ["t4"]}, "c.EC2Spawner.profile_list[0]: must be a dict", "'gpu': 'T4'"),
    ],
)
def test_a_wrong_option_is_named_with_its_fix(
    changed: dict[str, Any], option: str, fix: str
) -> None:
    line = refusal(**changed).splitlines()[1]
    assert line.strip().startswith(option)
    assert fix in line.partition(". Fix: ")[2]


@pytest.mark.parametrize(
    ("package", "wrong"),
    [
        ("ec2spawner[notebook]", "names no version"),
        ("ec2spawner>=0.1", "names no version"),
        ("ec2spawner==0.*", "names no version"),
        ("ec2spawner @ http://x/a.whl", "is not fetched over HTTPS"),
        ("http://x/a.whl", "is not fetched over HTTPS"),
        ("git+ssh://x/a", "is not fetched over HTTPS"),
        ("s3://bucket/a.whl", "is not fetched over HTTPS"),
        ("https://u:p@x/a.whl", "has a password in its address"),
        ("x\ny==1", "is no package"),
    ],
)
def test_an_agent_package_open_to_tampering_is_refused(package: str, wrong: str) -> None:
    assert wrong in refusal(agent_package=package)


@pytest.mark.parametrize(
    "package",
    [
        "",
        "ec2spawner[notebook]==0.1.0",
        "ec2spawner[notebook] @ https://x/a-0.1.0-py3-none-any.whl#sha256=0123",
        "ec2spawner[notebook] @ file:///opt/a-0.1.0-py3-none-any.whl",
        "/opt/a-0.1.0-py3-none-any.whl[notebook]",
    ],
)
def test_packages_that_instances_may_install(package: str) -> None:
    assert options(agent_package=package).agent_package == package


@pytest.mark.parametrize(
    ("profile", "says", "fix"),
    [
        ({"gpu": "A10"}, '[0].gpu ("P"): EC2 has no GPU called "A10"', "did you mean A10G"),
        ({"gpuu": "T4"}, '[0].gpuu ("P"): there is no such option', "did you mean gpu"),
        ({"gpu": "T4", "gpu_count": 3}, '[0] ("P"): no machine has 3 × T4', "1, 4"),
        ({"gpu": "T4", "min_gpu_memory_gb": 24}, '[0] ("P"): no machine with', "ask for less"),
        ({"gpu": "T4g"}, '[0] ("P"): T4g is not offered with x86_64', "another GPU"),
        ({"vcpus": 4000}, '[0] ("P"): no machine has so many', "ask for less"),
        ({"vcpus": -1}, '[0].vcpus ("P"): must be at least 0', "4"),
        ({}, '[0] ("P"): says nothing about the machine', '"gpu"'),
        ({"vcpus": 4, "gpu_count": 2}, '[0] ("P"): asks for GPUs without', '"gpu": "T4"'),
        ({"instance_types": ["g4dn.xlrge"]}, "[0].instance_types", "did you mean g4dn.xlarge"),
        ({"instance_types": ["g4dn.xlrage"]}, "[0].instance_types", "did you mean g4dn.xlarge"),
        ({"instance_types": ["G5.xlarge"]}, '"G5.xlarge" is no instance type', "g4dn.xlarge"),
        ({"instance_types": ["xlarge"]}, '"xlarge" is no instance type', "g4dn.xlarge"),
        ({"instance_types": ["m7g.large"]}, '[0] ("P"): has types that are not x86_64', "leave"),
        ({"instance_types": "g5.xlarge"}, "[0].instance_types", "['g5.xlarge']"),
        (
            {"instance_types": ["g5.xlarge", "t3.large"], "placement_group": "cluster"},
            '"t3.large"',
            "leave placement_group out",
        ),
        ({"gpu": "T4", "placement_group": "spread"}, "[0].placement_group", "cluster"),
        ({"instance_types": ["g5.xlarge"], "gpu": "T4"}, '[0] ("P"): names its', "keep"),
        ({"gpu": "T4", "slug": "My T4"}, '[0].slug ("P"): "My T4" is no slug', '"my-t4"'),
        ({"gpu": "T4", "market": "spot"}, '[0].market ("P"): must be', "spot-first"),
        ({"gpu": "T4", "idle": {"server": "-1h"}}, '[0].idle.server ("P")', "20m"),
        ({"gpu": "T4", "groups": "staff"}, '[0].groups ("P")', "['staff']"),
        ({"profile_options": {"disc": 9}}, '.disc ("P"): there is no such', "disk_gib"),
        ({"profile_options": {"market": ["spot"]}}, '.market[0] ("P"): must be', "spot-first"),
        ({"profile_options": {"market": "on-demand"}}, '.market ("P")', "['on-demand']"),
        ({"profile_options": {"disk_gib": {"min": 9}}}, '.disk_gib.max ("P"): is missing', "500"),
        (
            {"profile_options": {"disk_gib": {"min": 200, "max": 100}}},
            '.disk_gib ("P"): its min, 200, is above its max, 100',
            "swap",
        ),
        (
            {"profile_options": {"disk_gib": {"min": 200, "max": 300}}},
            '.disk_gib ("P"): 200 to 300 GiB leaves out the profile\'s own 100 GiB',
            "widen it",
        ),
        (
            {"profile_options": {"idle": {"min": 0, "max": "1h"}}},
            '.idle.min ("P"): must be longer than 0',
            "20m",
        ),
        (
            {"idle": {"server": "1h"}, "profile_options": {"idle": {"min": "2h", "max": "3h"}}},
            '.idle ("P"): 7200 s to 10800 s leaves out the profile\'s own 3600 s',
            '"idle": {"server": ...}',
        ),
    ],
)
def test_a_wrong_profile_is_named_with_its_fix(
    profile: dict[str, Any], says: str, fix: str
) -> None:
    machine = {"gpu": "T4"} if "profile_options" in profile else {}
    line = refusal(**profiles({"display_name": "P", **machine, **profile})).splitlines()[1]
    assert line.startswith("  c.EC2Spawner.profile_list[0]")
    assert says in line
    assert fix in line.partition(". Fix: ")[2]


def test_an_unknown_gpu_lists_all_known_ones() -> None:
    message = refusal(**profiles({"display_name": "P", "gpu": "A10"}))
    for model in ("A100", "A10G", "H100", "L4", "L40S", "T4", "V100"):
        assert model in message


def test_duplicate_slugs_are_refused() -> None:
    message = refusal(
        **profiles(
            {"display_name": "T4", "gpu": "T4"}, {"display_name": "t4!", "gpu": "T4", "vcpus": 8}
        )
    )
    assert (
        'c.EC2Spawner.profile_list[1].slug: "t4" is the slug of profile_list[0] already. Fix: '
        'give one of them another, such as "slug": "t4-2"'
    ) in message


def test_what_is_wrong_with_a_security_group_is_reported_once() -> None:
    message = refusal(security_groups=["web"], clusters={"max_workers": 2})
    assert "c.EC2Spawner.security_groups[0]:" in message
    assert "c.EC2Spawner.clusters" not in message


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        validate_options(
            {"subnets": [], "boot_timeout": -1, "idle": {"kernel": "x"}, "image": ""},
            cleanup_servers=True,
            environ={},
        )
    for name in (
        "JupyterHub.cleanup_servers",
        "EC2Spawner.region",
        "EC2Spawner.subnets",
        "EC2Spawner.image",
        "EC2Spawner.boot_timeout",
        "EC2Spawner.idle.kernel",
    ):
        assert str(error.value).count(f"c.{name}:") == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://hub:hunter2@db/ec2spawner", "no address of a SQLite file or a PostgreSQL"),
        ("postgresql+asyncpg://hub:hunter2@db/ec2spawner", "a driver"),
        ("postgresql://hub:hunter2@db", "names no database"),
        ("postgresql://hub@db/ec2spawner?password=hunter2", "among its parameters"),
        ("postgresql://hub:hunter2@db:port/ec2spawner", "is no URL"),
    ],
)
def test_an_invalid_store_url_is_refused_with_a_valid_example(url: str, said: str) -> None:
    message = refusal(store_url=url)
    assert "c.EC2Spawner.store_url" in message
    assert said in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////srv/jupyterhub/ec2spawner.sqlite",
        "postgresql://hub:hunter2@db.example.org:5432/ec2spawner?sslmode=verify-full",
        "postgresql+psycopg:///ec2spawner",
    ],
)
def test_a_store_is_a_file_or_a_postgresql_database(url: str) -> None:
    assert options(store_url=url).store_url == url


def test_configured_identity_certificates_enable_other_regions(tmp_path: Path) -> None:
    certificate = tmp_path / "embedded.pem"
    certificate.write_text("-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n")
    assert options(region="us-moon-1", identity_certificates=[str(certificate)])
    certificate.write_text("no certificate")
    assert "holds no certificate" in refusal(identity_certificates=[str(certificate)])


@given(
    st.dictionaries(
        st.sampled_from(sorted(Options.model_fields)),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        ),
    )
)
def test_any_value_is_accepted_or_refused_with_a_message(raw: dict[str, Any]) -> None:
    try:
        validate_options({**GOOD, **raw}, cleanup_servers=False, environ={})
    except ConfigError as refused:
        for line in str(refused).split("\n  c.")[1:]:
            assert line.startswith("EC2Spawner.")
            assert ". Fix: " in line


# --- the reference is generated from the fields ----------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        Options,
        Profile,
        ProfileOptions,
        DiskBounds,
        IdleBounds,
        IdleConfig,
        UserMaySet,
        WorkingHoursConfig,
        HomeConfig,
        HomeBounds,
        SnapshotSchedule,
    ],
)
def test_every_option_has_help_and_an_example_where_its_default_shows_none(
    model: type[BaseModel],
) -> None:
    for name, field in model.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name
        shows_nothing = field.default in ("", (), None, {}) and name != "description"
        assert field.examples or not shows_nothing or field.is_required(), name


def test_a_container_image_without_an_ami_runs_on_the_deep_learning_ami() -> None:
    digest = f"registry.example.org:5000/lab/torch:1.2@sha256:{'0' * 64}"
    image = options(image={"container": digest}).image
    assert (image.container, image.parameter) == (digest, DEEP_LEARNING_AMI)
    image = options(image={"id": "ami-0a1b2c3d", "container": "lab"}).image
    assert (image.container, image.id, image.parameter) == ("lab", "ami-0a1b2c3d", "")


@pytest.mark.parametrize("name", ["AWS/EC2", "my hub", ":hub", "x" * 256])
def test_a_namespace_that_cloudwatch_refuses(name: str) -> None:
    said = refusal(cloudwatch_namespace=name)
    assert "cloudwatch_namespace" in said
    assert 'c.EC2Spawner.cloudwatch_namespace = "ec2spawner"' in said


@pytest.mark.parametrize("name", ["", "ec2spawner", "Institute/GPU-Hub_1"])
def test_a_namespace_of_ones_own(name: str) -> None:
    assert options(cloudwatch_namespace=name).cloudwatch_namespace == name
