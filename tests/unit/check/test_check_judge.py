"""What the check makes of AWS's answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner import data
from ec2spawner.check.facts.account import MountTarget
from ec2spawner.check.facts.network import Rule, SecurityGroup, Subnet
from ec2spawner.check.finding import State
from ec2spawner.check.topics import Topic
from ec2spawner.check.verdicts.files import judge_file_system, judge_shared_homes
from ec2spawner.check.verdicts.image import judge_agent, judge_image
from ec2spawner.check.verdicts.network import judge_security_groups, judge_subnets
from ec2spawner.check.verdicts.permissions import judge_dry_run, judge_metrics, judge_reservations
from ec2spawner.check.verdicts.prices import judge_prices
from ec2spawner.check.verdicts.profiles import Need, judge_quota, judge_types
from ec2spawner.check.verdicts.refusals import refused
from ec2spawner.core.offers.quotas import QUOTAS, ListedQuota
from ec2spawner.core.profiles.profiles import InstanceType
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.image import Image
from ec2spawner.wire import Market

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
A, B = "us-east-1a", "us-east-1b"
T4 = data.instance_types()["g4dn.xlarge"]
BOTH = (Market.SPOT, Market.ON_DEMAND)
ONE = Need("us-east-1")
SPOT_G, ON_DEMAND_G = "L-3819A6DF", "L-DB2E81BA"


def listed(vcpus: Mapping[str, float]) -> list[ListedQuota]:
    """What Service Quotas answers, of the quotas with these codes."""
    names = {quota.code: quota.name for quota in QUOTAS.values()}
    return [ListedQuota(code, names[code], value) for code, value in vcpus.items()]


def subnet(zone: str = A, free: int = 250, vpc: str = "vpc-1") -> Subnet:
    return Subnet(f"subnet-{zone[-1]}", zone, vpc, free)


@pytest.mark.parametrize(
    ("subnets", "state"),
    [
        ([subnet(A), subnet(B)], State.OK),
        ([subnet(A, free=0), subnet(B)], State.WARNING),
        ([subnet(A, free=0), subnet(B, free=0)], State.FAILED),
        ([subnet(A)], State.WARNING),
        ([subnet(A), subnet(B, vpc="vpc-2")], State.FAILED),
    ],
)
def test_subnets(subnets: list[Subnet], state: State) -> None:
    assert judge_subnets(subnets).state is state


def test_a_security_group_of_another_vpc_fails() -> None:
    group = SecurityGroup("sg-1", "notebooks", "vpc-1")
    assert judge_security_groups([group], [subnet()]).state is State.OK
    finding = judge_security_groups([group], [subnet(vpc="vpc-2")])
    assert finding.state is State.FAILED
    assert "sg-1" in finding.said


PORT = 8888
FROM_ITSELF: dict[str, Any] = {"groups": ("sg-1",)}
FROM_ANYWHERE: dict[str, Any] = {"cidrs": ("0.0.0.0/0",)}


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        (Rule("-1", 0, 65535, **FROM_ITSELF), State.WARNING),  # of a VPC's default group
        (Rule("tcp", 0, 65535, **FROM_ITSELF), State.WARNING),
        (Rule("tcp", PORT, PORT + 1, **FROM_ITSELF), State.WARNING),
        (Rule("tcp", PORT, PORT, **FROM_ITSELF), State.OK),
        (Rule("tcp", 22, 22, **FROM_ANYWHERE), State.OK),
        (Rule("udp", 0, 65535, **FROM_ANYWHERE), State.OK),
        (Rule("tcp", 6379, 6379, **FROM_ANYWHERE), State.WARNING),
        (Rule("tcp", 6379, 6379, cidrs=("10.0.0.0/16",)), State.WARNING),  # all of the VPC
        (Rule("tcp", 6379, 6379, cidrs=("10.0.1.128/25",)), State.WARNING),  # some instances
        (Rule("tcp", 0, 65535, cidrs=("10.0.1.5/32",)), State.OK),  # the hub
        (Rule("tcp", 0, 65535, cidrs=("10.0.2.0/24",)), State.OK),
        (Rule("tcp", 0, 65535, groups=("sg-hub",)), State.OK),
    ],
)
def test_instances_that_reach_each_other_matter_where_users_have_clusters(
    rule: Rule, state: State
) -> None:
    group = SecurityGroup("sg-1", "notebooks", "vpc-1", ingress=(rule,))
    subnets = [replace(subnet(), cidr="10.0.1.0/24")]
    assert judge_security_groups([group], subnets, PORT).state is state
    assert judge_security_groups([group], subnets).state is State.OK


@pytest.mark.parametrize(
    ("source", "state"),
    [
        ("::/0", State.WARNING),
        ("2001:db8:1::/56", State.WARNING),  # some instances
        ("2001:db8:2::/56", State.OK),
        ("2001:db8:1::5/128", State.OK),  # the hub
    ],
)
def test_instances_may_reach_each_other_over_ipv6(source: str, state: State) -> None:
    rule = Rule("tcp", 6379, 6379, ipv6_cidrs=(source,))
    group = SecurityGroup("sg-1", "notebooks", "vpc-1", ingress=(rule,))
    dual = replace(subnet(), ipv6_cidrs=("2001:db8:1::/64",))
    assert judge_security_groups([group], [dual], PORT).state is state
    assert judge_security_groups([group], [subnet()], PORT).state is State.OK


@pytest.mark.parametrize(("port", "state"), [(6379, State.UNPROVED), (PORT, State.OK)])
def test_a_prefix_list_may_admit_instances_to_clusters(port: int, state: State) -> None:
    rule = Rule("tcp", port, port, unread=("pl-1",))
    group = SecurityGroup("sg-1", "notebooks", "vpc-1", ingress=(rule,))
    finding = judge_security_groups([group], [subnet()], PORT)
    assert (finding.state, "pl-1" in finding.said) == (state, state is State.UNPROVED)
    assert judge_security_groups([group], [subnet()]).state is State.OK


@pytest.mark.parametrize(
    ("spot", "on_demand", "state"),
    [
        (8, 8, State.OK),
        (4, 4, State.OK),
        (0, 8, State.WARNING),
        (8, 3, State.WARNING),
        (0, 0, State.FAILED),
    ],
)
def test_a_quota_below_one_instance_is_named_as_aws_names_it(
    spot: float, on_demand: float, state: State
) -> None:
    vcpus = listed({SPOT_G: spot, ON_DEMAND_G: on_demand})
    finding = judge_quota("quota", [T4], BOTH, vcpus, ONE)
    assert finding.state is state
    assert (SPOT_G in finding.fix) == (spot < 4)
    assert (ON_DEMAND_G in finding.fix) == (on_demand < 4)


def test_the_number_of_instances_within_the_quota_is_shown() -> None:
    finding = judge_quota("quota", [T4], BOTH, listed({SPOT_G: 11, ON_DEMAND_G: 3}), ONE)
    assert finding.said.startswith("at most 2 of these at once in your account: ")
    assert "spot 2 (11 vCPUs, one g4dn.xlarge needs 4)" in finding.said
    assert "on-demand none (3 vCPUs" in finding.said


def test_the_quota_of_an_unused_market_is_ignored() -> None:
    finding = judge_quota(
        "quota", [T4], (Market.ON_DEMAND,), listed({SPOT_G: 0, ON_DEMAND_G: 4}), ONE
    )
    assert finding.state is State.OK


def test_an_unknown_quota_is_unproved() -> None:
    assert judge_quota("quota", [T4], BOTH, [], ONE).state is State.UNPROVED


def test_types_of_several_quotas_need_room_in_one_of_them() -> None:
    p4 = data.instance_types()["p4d.24xlarge"]
    on_demand_p = "L-417A185B"
    vcpus = {ON_DEMAND_G: 0, on_demand_p: 96}
    finding = judge_quota("quota", [T4, p4], (Market.ON_DEMAND,), listed(vcpus), ONE)
    assert finding.state is State.OK
    assert "one p4d.24xlarge needs 96" in finding.said
    finding = judge_quota(
        "quota", [T4, p4], (Market.ON_DEMAND,), listed({**vcpus, on_demand_p: 95}), ONE
    )
    assert finding.state is State.FAILED


def test_a_quota_of_0_does_not_fail_where_that_of_another_market_is_unknown() -> None:
    assert judge_quota("quota", [T4], BOTH, listed({ON_DEMAND_G: 0}), ONE).state is State.WARNING


@pytest.mark.parametrize(("age_days", "state"), [(3, State.OK), (400, State.WARNING)])
def test_images(age_days: int, state: State) -> None:
    made = NOW - timedelta(days=age_days)
    image = Image("ami-1", "Deep Learning", made, "x86_64", driver="580.1")
    finding = judge_image(image, NOW)
    assert finding.state is state
    for words in ("ami-1", f"{age_days} days old", "NVIDIA driver 580.1"):
        assert words in finding.said


@pytest.mark.parametrize(
    ("code", "retryable", "state"),
    [
        ("DryRunOperation", False, State.OK),
        ("UnauthorizedOperation", False, State.FAILED),
        ("AccessDeniedException", False, State.FAILED),
        ("RequestLimitExceeded", True, State.UNPROVED),
        ("InvalidLaunchTemplateName.NotFoundException", False, State.UNPROVED),
    ],
)
def test_what_a_dry_run_proves(code: str, retryable: bool, state: State) -> None:
    error = CloudError(code, "words", retryable=retryable)
    assert judge_dry_run("ec2:CreateFleet", error).state is state


def test_a_refused_launch_may_lack_pass_role() -> None:
    denied = CloudError("UnauthorizedOperation", "words", retryable=False)
    assert "iam:PassRole" in judge_dry_run("ec2:RunInstances", denied).fix
    assert "iam:PassRole" not in judge_dry_run("ec2:CreateVolume", denied).fix


@pytest.mark.parametrize(
    ("code", "message", "fix", "retryable"),
    [
        ("InvalidParameterCombination.FreeTier", "is not eligible for Free Tier", "paid", False),
        ("PendingVerification", "Your request is being validated", "some hours", True),
        ("Blocked", "Your account is currently blocked", "AWS Support", False),
    ],
)
def test_a_dry_run_that_is_refused_for_the_account_shows_ec2s_message_and_a_fix(
    code: str, message: str, fix: str, retryable: bool
) -> None:
    found = judge_dry_run("ec2:RunInstances", CloudError(code, message, retryable=retryable))
    assert found.state is State.UNPROVED
    assert f"{message} ({code})" in found.said
    assert fix in found.fix


def test_a_hub_works_without_seeing_reserved_instances() -> None:
    denied = CloudError("UnauthorizedOperation", "words", retryable=False)
    assert judge_reservations(denied).state is State.WARNING
    granted = CloudError("DryRunOperation", "words", retryable=False)
    assert judge_reservations(granted).state is State.OK


def test_metrics_are_unproved_where_they_are_configured() -> None:
    assert judge_metrics("") == []
    [found] = judge_metrics("institute")
    assert found.state is State.UNPROVED
    assert "institute" in found.said


def test_an_endpoint_that_ignores_dry_run_fails() -> None:
    assert judge_dry_run("ec2:CreateFleet", None).state is State.FAILED


def test_an_aws_image_needs_a_package_to_install() -> None:
    assert judge_agent(True, "").state is State.FAILED
    assert judge_agent(True, "ec2spawner[notebook]==1.0").state is State.WARNING
    assert judge_agent(False, "").state is State.UNPROVED


def test_types_that_no_zone_has_fail() -> None:
    offered = {"g4dn.xlarge": frozenset({A, B})}
    assert "g4dn.xlarge in 2 zones" in judge_types("profile", "T4", [T4], offered, {}, ()).said
    lacking = judge_types("profile", "T4", [], {}, {}, ())
    assert lacking.state is State.FAILED
    assert "add subnets in other zones" in lacking.fix


@pytest.mark.parametrize(("types", "state"), [([], State.FAILED), ([T4], State.WARNING)])
def test_an_unknown_type_is_not_a_question_of_zones(
    types: list[InstanceType], state: State
) -> None:
    finding = judge_types("profile", "g4nd.xlarge", types, {}, {"g4nd.xlarge": "g4dn.xlarge"}, ())
    assert finding.state is state
    assert "EC2 has no instance type g4nd.xlarge" in finding.said
    assert finding.fix == "did you mean g4dn.xlarge?"


@pytest.mark.parametrize(("types", "state"), [([], State.FAILED), ([T4], State.WARNING)])
def test_a_type_that_cannot_have_the_volumes_says_why(
    types: list[InstanceType], state: State
) -> None:
    why = "EC2 attaches at most 9 EBS volumes to g5.48xlarge, and a server needs 10"
    finding = judge_types("profile", "g5.48xlarge", types, {}, {}, [why])
    assert (finding.state, finding.said) == (state, why)
    assert "put several data sets on one volume" in finding.fix


@pytest.mark.parametrize(
    ("zones", "vpc", "state"),
    [
        ((A, B), "vpc-1", State.OK),
        ((A,), "vpc-1", State.FAILED),
        ((), "vpc-1", State.FAILED),
        ((A, B), "vpc-2", State.FAILED),
    ],
)
def test_a_file_system_needs_a_mount_target_in_each_zone_of_the_vpc(
    zones: tuple[str, ...], vpc: str, state: State
) -> None:
    targets = [MountTarget(zone, vpc) for zone in zones]
    assert judge_file_system("fs-1", targets, [subnet(A), subnet(B)]).state is state


def test_only_an_instance_shows_whether_users_are_root_over_a_shared_file_system() -> None:
    finding = judge_shared_homes("fs-1")
    assert finding.state is State.UNPROVED
    assert "root on an instance can read and change all homes on fs-1" in finding.said
    assert '"kind": "ebs"' in finding.fix


def test_unreadable_list_prices_matter_only_without_a_bundled_table() -> None:
    error = CloudError("AccessDeniedException", "no", retryable=False)
    standing_in = judge_prices(Market.ON_DEMAND, 0, 3, bundled=True, error=error)
    assert standing_in.state is State.WARNING
    assert "pricing:GetProducts" in standing_in.fix
    assert judge_prices(Market.ON_DEMAND, 0, 3, bundled=False, error=error).state is State.FAILED
    assert judge_prices(Market.SPOT, 3, 3, bundled=False).state is State.OK


def test_a_missing_permission_points_to_the_policy() -> None:
    denied = CloudError("UnauthorizedOperation", "encoded", retryable=False)
    assert "iam-policy.json" in refused(Topic.IMAGE, denied, "other").fix
    missing = CloudError("InvalidAMIID.NotFound", "gone", retryable=False)
    assert refused(Topic.IMAGE, missing, "correct the id").fix == "correct the id"
    silent = CloudError("Timeout", "no answer", retryable=True)
    assert "try again" in refused(Topic.IMAGE, silent, "correct the id").fix
