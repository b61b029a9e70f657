"""The clock, the spot role, KMS keys, buckets, the image's system, and what it all may cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ec2spawner import data
from ec2spawner.check.facts.account import AccountPlan
from ec2spawner.check.facts.buckets import Bucket
from ec2spawner.check.finding import State
from ec2spawner.check.verdicts.account import (
    judge_clock,
    judge_kms_key,
    judge_plan,
    judge_spot_role,
)
from ec2spawner.check.verdicts.costs import ProfilePrice, judge_idle_hour, judge_worst_month
from ec2spawner.check.verdicts.files import judge_bucket, judge_snapshot
from ec2spawner.check.verdicts.image import judge_driver, judge_system
from ec2spawner.core.instances.gpu_drivers import driver_of_image
from ec2spawner.core.instances.image_systems import image_system
from ec2spawner.core.profiles.profiles import InstanceType
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.image import Image
from ec2spawner.wire import Market

DENIED = CloudError("AccessDenied", "no", retryable=False)
BASE = "Deep Learning Base {} Nvidia Driver GPU AMI (Ubuntu 24.04) 20261101"
TYPES = data.instance_types()
T4, CPU = TYPES["g4dn.xlarge"], TYPES["m5.xlarge"]
V100 = replace(T4, name="p3.2xlarge", gpu="V100")
EIGHTH_OF_L4 = TYPES["g6f.large"]
PRICE = ProfilePrice("T4", {Market.SPOT: 0.2, Market.ON_DEMAND: 0.526}, 0.752, 3600.0, 0)


@pytest.mark.parametrize(
    ("skew", "state"),
    [(0.9, State.OK), (-4.0, State.OK), (20.0, State.WARNING), (-301.0, State.FAILED)],
)
def test_aws_refuses_signatures_of_a_wrong_clock(skew: float, state: State) -> None:
    finding = judge_clock(skew)
    assert finding is not None
    assert finding.state is state


def test_an_unknown_clock_is_no_finding() -> None:
    assert judge_clock(None) is None


def test_a_missing_spot_role_fails_only_profiles_without_on_demand() -> None:
    assert judge_spot_role(True, ["T4"]).state is State.OK
    assert judge_spot_role(False, []).state is State.WARNING
    failed = judge_spot_role(False, ["T4"])
    assert failed.state is State.FAILED
    assert "aws iam create-service-linked-role" in failed.fix
    assert judge_spot_role(DENIED, ["T4"]).state is State.UNPROVED


FREE = AccountPlan(True, "ACTIVE", 97.4, datetime(2027, 1, 5, tzinfo=UTC))
FREE_TYPES = frozenset({"t3.micro", "m7i-flex.large"})


def test_a_free_plan_fails_the_profiles_of_which_it_has_no_type() -> None:
    small = replace(CPU, name="m7i-flex.large")
    profiles = {"T4": [T4], "No GPU": [CPU, small], "nowhere": []}
    found = judge_plan(FREE, FREE_TYPES, profiles)
    assert found.state is State.FAILED
    assert "free plan (ACTIVE, 97.40 USD of credits left, until 2027-01-05)" in found.said
    assert "launches only m7i-flex.large, t3.micro" in found.said
    assert 'refuses others as "not eligible for Free Tier": T4 cannot start' in found.said
    assert "paid plan" in found.fix
    suffices = judge_plan(FREE, FREE_TYPES, {"No GPU": [small]})
    assert suffices.state is State.WARNING
    assert "closes the account" in suffices.said


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        (AccountPlan(False, "ACTIVE", 0.0), State.OK, "paid plan"),
        (CloudError("ResourceNotFoundException", "no", retryable=False), State.OK, "organization"),
        (DENIED, State.UNPROVED, "may not be read"),
        (CloudError("Timeout", "no", retryable=True), State.UNPROVED, "is unknown: Timeout"),
    ],
)
def test_another_plan_or_an_unknown_one_fails_nothing(
    answer: AccountPlan | CloudError, state: State, said: str
) -> None:
    found = judge_plan(answer, frozenset(), {"T4": [T4]})
    assert found.state is state
    assert said in found.said
    assert state is State.OK or found.fix


def test_a_key_of_ones_own_needs_grants_and_awss_none() -> None:
    assert judge_kms_key("", "alias/aws/ebs", spot=True) is None
    own = judge_kms_key("", "arn:aws:kms:us-east-1:1:key/k", spot=True)
    assert own is not None
    assert own.state is State.UNPROVED
    assert "create-grant" in own.fix
    on_demand = judge_kms_key("alias/homes", "alias/aws/ebs", spot=False)
    assert on_demand is not None
    assert "create-grant" not in on_demand.fix
    unread = judge_kms_key("", DENIED, spot=True)
    assert unread is not None
    assert unread.state is State.UNPROVED


@pytest.mark.parametrize(
    ("bucket", "state"),
    [
        (Bucket("data", 403, "us-east-1"), State.OK),
        (Bucket("data", 200, "us-east-1"), State.OK),
        (Bucket("data", 301, "eu-west-1"), State.WARNING),
        (Bucket("data", 404), State.FAILED),
        (Bucket("data", 0), State.UNPROVED),
    ],
)
def test_buckets(bucket: Bucket, state: State) -> None:
    assert judge_bucket(bucket, "us-east-1").state is state


@pytest.mark.parametrize(
    ("said", "state"),
    [("completed", State.OK), ("pending", State.FAILED), ("error", State.FAILED)],
)
def test_a_data_volume_needs_a_completed_snapshot(said: str, state: State) -> None:
    assert judge_snapshot("snap-0a1b2c3d", said, None).state is state


@pytest.mark.parametrize(
    ("name", "installs", "state"),
    [
        ("(Ubuntu 24.04)", True, State.OK),
        ("(Ubuntu 22.04)", True, State.WARNING),
        ("(Ubuntu 22.04)", False, State.OK),
        ("(Amazon Linux 2023)", True, State.WARNING),
        ("(Amazon Linux 2)", True, State.FAILED),
        ("notebooks-42", True, State.UNPROVED),
        ("notebooks-42", False, State.OK),
    ],
)
def test_what_an_image_brings_matters_where_ec2spawner_is_installed_at_boot(
    name: str, installs: bool, state: State
) -> None:
    assert judge_system(image_system(name), name, installs_at_boot=installs).state is state


@pytest.mark.parametrize(
    ("name", "driver", "types", "state"),
    [
        (BASE.format("OSS"), "595.91.07", [T4], State.OK),
        (BASE.format("OSS"), "595.91.07", [V100], State.FAILED),
        (BASE.format("Proprietary"), "570.133.20", [V100], State.OK),
        (BASE.format("OSS"), "595.91.07", [T4, V100], State.WARNING),
        (BASE.format("OSS"), "", [T4], State.UNPROVED),
        (BASE.format("OSS"), "", [V100], State.FAILED),
        (BASE.format("OSS"), "", [T4, EIGHTH_OF_L4], State.WARNING),
        (BASE.format("OSS"), "595.91.07", [EIGHTH_OF_L4], State.FAILED),
        ("notebooks-42", "570.172.08-grid", [EIGHTH_OF_L4], State.OK),
        ("notebooks-42", "", [EIGHTH_OF_L4], State.UNPROVED),
    ],
)
def test_a_gpu_needs_a_driver_that_supports_it(
    name: str, driver: str, types: list[InstanceType], state: State
) -> None:
    found = judge_driver(Image("ami-1", name, driver=driver), {"P": types})
    assert found is not None
    assert found.state is state


def test_our_recipes_tag_says_which_kernel_modules_an_image_has() -> None:
    for driver, modules in (("595.91.07-open", "open"), ("550.163.01-proprietary", "proprietary")):
        assert driver_of_image(driver, "mine").modules == modules
    assert driver_of_image("595.91.07", "mine").modules is None


def test_without_gpus_no_driver_is_needed() -> None:
    assert judge_driver(Image("ami-1"), {"P": [CPU], "none": []}) is None


def test_an_idle_hour_costs_what_its_markets_ask() -> None:
    finding = judge_idle_hour(PRICE, public_address=False)
    assert finding.state is State.OK
    assert "estimate USD 0.20 spot, USD 0.53 on-demand" in finding.said
    assert "after 1 hour" in finding.said
    public = replace(PRICE, cheapest={Market.SPOT: 0.208})
    assert "USD 0.21 spot" in judge_idle_hour(public, public_address=True).said
    large_disk = judge_idle_hour(replace(PRICE, disk_gib=500), public_address=False).said
    assert "USD 0.25 spot, USD 0.58 on-demand, with its disk of 500 GiB" in large_disk
    never = replace(PRICE, idle_stop_seconds=None)
    assert judge_idle_hour(never, public_address=False).state is State.WARNING
    unknown = replace(PRICE, cheapest={})
    assert judge_idle_hour(unknown, public_address=False).state is State.UNPROVED


def test_the_worst_month_is_the_limit_times_the_dearest_server() -> None:
    cheap = replace(PRICE, profile="CPU", dearest=0.1)
    finding = judge_worst_month([cheap, PRICE], 10, public_address=False)
    assert finding.state is State.OK
    assert "estimate USD 5,490" in finding.said
    unlimited = judge_worst_month([cheap, PRICE], 0, public_address=False)
    assert unlimited.state is State.WARNING
    assert "no limit" in unlimited.said
    assert "c.JupyterHub.active_server_limit" in unlimited.fix
    unknown = judge_worst_month([replace(PRICE, dearest=None)], 10, public_address=False)
    assert unknown.state is State.UNPROVED
