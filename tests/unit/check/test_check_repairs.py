"""What `check --fix` offers, asks and reports."""

from __future__ import annotations

import argparse
import io
import json
import re
from collections.abc import Sequence

import pytest
from rich.console import Console

from ec2spawner import data
from ec2spawner.check import command
from ec2spawner.check.facts.network import HubPlace, Rule, SecurityGroup, Subnet
from ec2spawner.check.repairs.apply import Outcome, Result
from ec2spawner.check.repairs.plan import (
    Repair,
    done_before,
    merged,
    more_vcpus,
    open_port,
    spot_role,
)
from ec2spawner.check.report import as_json, print_outcomes
from ec2spawner.check.verdicts.account import judge_spot_role
from ec2spawner.check.verdicts.ports import judge_hub_port, judge_notebook_port
from ec2spawner.check.verdicts.profiles import Need, judge_quota
from ec2spawner.core.offers.quotas import ListedQuota
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.wire import Market

T4 = data.instance_types()["g4dn.xlarge"]
SPOT = ListedQuota("L-3819A6DF", "All G and VT Spot Instance Requests", 0.0)
ON_DEMAND = ListedQuota("L-DB2E81BA", "Running On-Demand G and VT instances", 8.0)
BOTH = (Market.SPOT, Market.ON_DEMAND)
EVERYTHING = Rule("-1", 0, 65535, ("0.0.0.0/0",))
HUB = HubPlace("10.0.0.5", True, frozenset({"sg-hub"}))


def asked_of_aws(repairs: Sequence[Repair]) -> list[tuple[str, float]]:
    return [(r.parameters["QuotaCode"], r.parameters["DesiredValue"]) for r in repairs]


def test_quotas_are_requested_for_what_the_configuration_needs() -> None:
    one = judge_quota("q", [T4], BOTH, [SPOT, ON_DEMAND], Need("us-east-1"))
    assert asked_of_aws(one.repairs) == [("L-3819A6DF", 4.0)]
    class_of_30 = judge_quota("q", [T4], BOTH, [SPOT, ON_DEMAND], Need("us-east-1", 30))
    assert asked_of_aws(class_of_30.repairs) == [("L-3819A6DF", 120.0), ("L-DB2E81BA", 120.0)]
    assert "active_server_limit is 30" in class_of_30.said
    enough = judge_quota("q", [T4], BOTH[1:], [ON_DEMAND], Need("us-east-1", 2))
    assert enough.repairs == ()


def test_only_the_largest_request_for_a_quota_is_made() -> None:
    requests = [more_vcpus(SPOT, vcpus, "us-east-1") for vcpus in (4, 96, 8)]
    assert asked_of_aws(merged([*requests, *requests])) == [("L-3819A6DF", 96.0)]
    assert len(merged([spot_role(), spot_role(), open_port("sg-1", 8888, "10.0.0.5/32")])) == 2


def test_rules_are_offered_where_the_hubs_groups_are_known() -> None:
    groups, hub_groups = ([SecurityGroup(each, "", "vpc-1")] for each in ("sg-1", "sg-hub"))
    [rule] = judge_notebook_port(groups, HUB, hub_groups, 8888).repairs
    assert rule == open_port("sg-1", 8888, "sg-hub")
    assert judge_notebook_port(groups, HubPlace("192.168.1.5"), (), 8888).repairs == ()
    subnets = [Subnet("subnet-a", "us-east-1a", "vpc-1", 9, "10.0.1.0/24")]
    assert (
        judge_hub_port(hub_groups, groups, subnets, HUB, 8081).repairs == ()
    )  # no way out of sg-1


def hub_with(**names: str) -> tuple[HubPlace, list[SecurityGroup]]:
    """A hub whose interface has these groups, by id without `sg-`."""
    groups = [SecurityGroup(f"sg-{each}", name, "vpc-1") for each, name in names.items()]
    return HubPlace("10.0.0.5", True, frozenset(each.group_id for each in groups)), groups


@pytest.mark.parametrize(
    ("names", "own"),
    [
        ({"a": "default", "b": "hub"}, ["sg-b"]),
        ({"b": "hub", "a": "ssh", "0": "default"}, ["sg-a", "sg-b"]),
        ({"a": "default"}, ["sg-a"]),
    ],
)
def test_of_the_hubs_groups_a_rule_names_one_that_was_made_for_it(
    names: dict[str, str], own: list[str]
) -> None:
    """In a VPC's default group is whatever was launched without one."""
    hub, hub_groups = hub_with(**names)
    notebooks = [SecurityGroup("sg-1", "", "vpc-1", egress=(EVERYTHING,))]
    subnets = [Subnet("subnet-a", "us-east-1a", "vpc-1", 9, "10.0.1.0/24")]
    in_notebooks = judge_notebook_port(notebooks, hub, hub_groups, 8888).repairs
    assert [repair.what for repair in in_notebooks] == [
        open_port("sg-1", 8888, each).what for each in own
    ]
    in_hub = judge_hub_port(hub_groups, notebooks, subnets, hub, 8081).repairs
    assert [repair.what for repair in in_hub] == [
        open_port(each, 8081, "sg-1").what for each in own
    ]
    for alternatives in (in_notebooks, in_hub):
        shared = {repair.one_of for repair in alternatives}
        assert len(shared) == 1
        assert (shared == {""}) is (len(own) == 1)


def test_only_one_of_iams_invalid_inputs_means_that_the_role_is_there() -> None:
    taken = "Service role name AWSServiceRoleForEC2Spot has been taken in this account, please ..."
    assert done_before(CloudError("InvalidInput", taken, retryable=False))
    suffix = "Custom suffix is not allowed for spot.amazonaws.com"
    assert not done_before(CloudError("InvalidInput", suffix, retryable=False))
    assert done_before(CloudError("InvalidPermission.Duplicate", "", retryable=False))


def test_what_is_well_or_unknown_is_not_fixed() -> None:
    assert judge_spot_role(True, []).repairs == ()
    assert judge_spot_role(False, []).repairs == (spot_role(),)


@pytest.mark.parametrize(
    "repair", [spot_role(), more_vcpus(SPOT, 4, "us-east-1"), open_port("sg-1", 8888, "sg-2")]
)
def test_the_command_of_a_refused_fix_is_printed_on_one_line(repair: Repair) -> None:
    console = Console(file=io.StringIO(), width=60)
    print_outcomes([Outcome(repair, Result.DENIED, "AccessDenied: no")], console)
    assert isinstance(console.file, io.StringIO)
    assert repair.command in console.file.getvalue()
    assert re.match(r"aws (iam|ec2|service-quotas) [a-z-]+ --", repair.command)
    fixes = json.loads(as_json([], [Outcome(repair, Result.DENIED, "no")]))["fixes"]
    assert fixes == [
        {"what": repair.what, "result": "denied", "error": "no", "command": repair.command}
    ]


@pytest.mark.parametrize(("typed", "agreed"), [("y\n", True), ("YES\n", True), ("\n", False)])
def test_a_fix_is_made_only_after_a_yes(
    monkeypatch: pytest.MonkeyPatch, typed: str, agreed: bool
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert command._asked(spot_role()) is agreed
    assert command._asked(spot_role()) is False, "nobody answers"


@pytest.mark.parametrize(("fix", "yes", "json"), [(True, False, True), (False, True, False)])
def test_flags_that_make_no_sense_together_are_refused(fix: bool, yes: bool, json: bool) -> None:
    arguments = argparse.Namespace(config="nowhere.py", fix=fix, yes=yes, json=json)
    assert command.run_check(arguments, ()) == 2
