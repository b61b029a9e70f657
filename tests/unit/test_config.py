"""Bad configuration is refused at hub start: the option, what is wrong, and the mend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_core import PydanticCustomError

from ec2spawner.config import (
    ConfigError,
    HomeConfig,
    IdleConfig,
    Options,
    Profile,
    seconds,
    validate_options,
)
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
    assert works.idle_policy(works.profile_list[0]) == IdlePolicy()
    assert works.home.kind == "ebs"
    assert all(works.instance_types(profile) for profile in works.profile_list)


def test_the_designs_own_example() -> None:
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
    assert works.idle_policy(a100) == IdlePolicy(server_seconds=1200)


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


def test_the_command_lines_texts_are_understood() -> None:
    works = options(port="9000", disk_gib="200", boot_timeout="90", idle={"gpu_busy_percent": "3"})
    assert (works.port, works.disk_gib, works.boot_timeout) == (9000, 200, 90.0)
    assert works.idle.gpu_busy_percent == 3.0


def test_a_profile_may_have_its_own_disk() -> None:
    works = options(**profiles({"display_name": "T4", "gpu": "T4", "disk_gib": 300}), disk_gib=80)
    assert works.disk(works.profile_list[0]) == 300
    assert options(disk_gib=80).disk(options().profile_list[0]) == 80


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
def test_a_duration_that_no_clock_can_hold_is_refused(written: str | int) -> None:
    with pytest.raises(PydanticCustomError) as refused:
        seconds(written)
    assert "is longer than 10 years" in str(refused.value)
    assert seconds("3650d") == 3650 * 86400


@given(st.floats(min_value=0, max_value=3650), st.sampled_from("smhd"))
def test_a_duration_with_a_unit_is_so_many_of_it(number: float, unit: str) -> None:
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


def test_the_warning_always_comes_before_the_stop() -> None:
    short = options(idle={"server": "20s"})
    assert short.idle_policy(short.profile_list[0]).warn_seconds == 10
    hurried = options(**profiles({"display_name": "T4", "gpu": "T4", "idle": {"server": "4m"}}))
    assert hurried.idle_policy(hurried.profile_list[0]).warn_seconds == 120
    never = options(idle={"server": 0})
    assert never.idle_policy(never.profile_list[0]).server_seconds == 0


# --- what is refused -------------------------------------------------------------------------


def test_stopping_everyone_at_a_hub_restart_is_refused() -> None:
    with pytest.raises(ConfigError) as error:
        validate_options(GOOD, cleanup_servers=True, environ={})
    assert (
        "c.JupyterHub.cleanup_servers: stopping the hub would stop everyone's server. "
        "Mend: c.JupyterHub.cleanup_servers = False"
    ) in str(error.value)


@pytest.mark.parametrize(
    ("changed", "option", "mend"),
    [
        ({"region": ""}, "c.EC2Spawner.region:", '= "us-east-1"'),
        ({"region": "us-east-1a"}, "c.EC2Spawner.region:", '= "us-east-1"'),
        ({"region": "us-moon-1"}, "c.EC2Spawner.region:", "c.EC2Spawner.identity_certificates"),
        ({"subnets": []}, "c.EC2Spawner.subnets:", 'c.EC2Spawner.subnets = ["subnet-..."]'),
        ({"subnets": "subnet-1"}, "c.EC2Spawner.subnets:", "put it in a list: ['subnet-1']"),
        ({"subnets": ["subnet-1", ""]}, "c.EC2Spawner.subnets[1]:", "subnet-0a1b2c3d"),
        ({"subnets": ["vpc-1"]}, "c.EC2Spawner.subnets[0]:", "subnet-0a1b2c3d"),
        ({"security_groups": ["web"]}, "c.EC2Spawner.security_groups[0]:", "sg-0a1b2c3d"),
        ({"image": ""}, "c.EC2Spawner.image:", 'c.EC2Spawner.image = "ami-..."'),
        ({"image": "ubuntu"}, "c.EC2Spawner.image:", "ami-0a1b2c3d"),
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
        ({"home": {"kind": "s3"}}, "c.EC2Spawner.home.kind: must be 'ebs' or 'none'", "'ebs'"),
        ({"home": {"size_gib": 0}}, "c.EC2Spawner.home.size_gib:", "50"),
        ({"subnet": ["subnet-1"]}, "c.EC2Spawner.subnet:", "did you mean subnets?"),
        ({"identity_certificates": ["/none"]}, "c.EC2Spawner.identity_certificates:", "PEM"),
        ({"profile_list": []}, "c.EC2Spawner.profile_list:", "add a profile"),
        ({"profile_list": ["t4"]}, "c.EC2Spawner.profile_list[0]: must be a dict", "'gpu': 'T4'"),
    ],
)
def test_a_wrong_option_is_named_with_its_mend(
    changed: dict[str, Any], option: str, mend: str
) -> None:
    line = refusal(**changed).splitlines()[1]
    assert line.strip().startswith(option)
    assert mend in line.partition(". Mend: ")[2]


@pytest.mark.parametrize(
    ("profile", "says", "mend"),
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
        ({"instance_types": ["m7g.large"]}, '[0] ("P"): has types that are not x86_64', "leave"),
        ({"instance_types": "g5.xlarge"}, "[0].instance_types", "['g5.xlarge']"),
        ({"instance_types": ["g5.xlarge"], "gpu": "T4"}, '[0] ("P"): names its', "keep"),
        ({"gpu": "T4", "slug": "My T4"}, '[0].slug ("P"): "My T4" is no slug', '"my-t4"'),
        ({"gpu": "T4", "market": "spot"}, '[0].market ("P"): must be', "spot-first"),
        ({"gpu": "T4", "idle": {"server": "-1h"}}, '[0].idle.server ("P")', "20m"),
        ({"gpu": "T4", "groups": "staff"}, '[0].groups ("P")', "['staff']"),
    ],
)
def test_a_wrong_profile_is_named_with_its_mend(
    profile: dict[str, Any], says: str, mend: str
) -> None:
    line = refusal(**profiles({"display_name": "P", **profile})).splitlines()[1]
    assert f"c.EC2Spawner.profile_list{says}" in line
    assert mend in line.partition(". Mend: ")[2]


def test_an_unknown_gpu_is_told_all_that_there_are() -> None:
    message = refusal(**profiles({"display_name": "P", "gpu": "A10"}))
    for model in ("A100", "A10G", "H100", "L4", "L40S", "T4", "V100"):
        assert model in message


def test_a_slug_twice() -> None:
    message = refusal(
        **profiles(
            {"display_name": "T4", "gpu": "T4"}, {"display_name": "t4!", "gpu": "T4", "vcpus": 8}
        )
    )
    assert (
        'c.EC2Spawner.profile_list[1].slug: "t4" is the slug of profile_list[0] already. Mend: '
        'give one of them another, such as "slug": "t4-2"'
    ) in message


def test_all_problems_are_told_at_once() -> None:
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


def test_a_password_in_the_stores_address_is_not_repeated() -> None:
    message = refusal(store_url="mysql://hub:hunter2@db/ec2spawner")
    assert "c.EC2Spawner.store_url" in message
    assert "hunter2" not in message


def test_own_identity_certificates_open_other_regions(tmp_path: Path) -> None:
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
def test_whatever_is_written_is_taken_or_refused_in_words(raw: dict[str, Any]) -> None:
    try:
        validate_options({**GOOD, **raw}, cleanup_servers=False, environ={})
    except ConfigError as refused:
        for line in str(refused).split("\n  c.")[1:]:
            assert line.startswith("EC2Spawner.")
            assert ". Mend: " in line


# --- the reference is generated from the fields ----------------------------------------------


@pytest.mark.parametrize("model", [Options, Profile, IdleConfig, HomeConfig])
def test_every_option_has_help_and_an_example_where_its_default_shows_none(
    model: type[BaseModel],
) -> None:
    for name, field in model.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name
        shows_nothing = field.default in ("", (), None, {}) and name != "description"
        assert field.examples or not shows_nothing or field.is_required(), name
