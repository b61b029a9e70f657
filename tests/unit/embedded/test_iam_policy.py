"""What a policy decides, element by element, as AWS's reference of the policy language says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.embedded.iam import policy
from ec2spawner.embedded.iam.conditions import PolicyError, arns_match, wildcards_match
from ec2spawner.embedded.iam.policy import Access, Policy

VOLUME = "arn:aws:ec2:us-east-1:123456789012:volume/vol-1"
DELETE = "ec2:DeleteVolume"
HUB = "aws:ResourceTag/ec2spawner:hub"


def statement(**changes: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": DELETE, "Resource": VOLUME, **changes}


def read(*statements: Mapping[str, Any]) -> Policy:
    return policy.read({"Version": "2012-10-17", "Statement": list(statements)})


def allows(given: Mapping[str, Any], access: Access) -> bool:
    return read(given).decide(access).allowed


def meets(operator: str, key: str, wanted: Any, *values: str) -> bool:
    """Whether a call in which the key has these values meets the condition."""
    context = {key.lower(): values} if values else {}
    access = Access(DELETE, VOLUME, context)
    return allows(statement(Condition={operator: {key: wanted}}), access)


# --- actions and resources -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "matches"),
    [
        ("ec2:DeleteVolume", True),
        ("EC2:deletevolume", True),
        ("ec2:Delete*", True),
        ("ec2:?eleteVolume", True),
        ("*", True),
        ("ec2:DeleteVolumes", False),
        ("ec2:Delete", False),
        ("ebs:*", False),
    ],
)
def test_actions_match_by_wildcard_and_without_case(action: str, matches: bool) -> None:
    assert allows(statement(Action=action), Access(DELETE, VOLUME)) is matches


@pytest.mark.parametrize(
    ("resource", "matches"),
    [
        ("*", True),
        (VOLUME, True),
        ("arn:aws:ec2:*:*:volume/*", True),
        ("arn:aws:ec2:us-east-1:123456789012:*", True),
        ("arn:aws:ec2:us-east-1:123456789012:VOLUME/*", False),
        ("arn:aws:ec2:us-east-2:123456789012:volume/*", False),
        ("arn:aws:ec2:us-east-1:999999999999:volume/*", False),
        ("arn:aws:ec2:us-east-1:123456789012:snapshot/*", False),
        ("arn:aws:ec2:us-east-1::volume/*", False),
    ],
)
def test_resources_match_part_by_part(resource: str, matches: bool) -> None:
    assert allows(statement(Resource=resource), Access(DELETE, VOLUME)) is matches


def test_an_action_without_resources_needs_a_statement_for_all_of_them() -> None:
    listing = Access("ec2:DescribeVolumes")
    assert not allows(statement(Action="ec2:*", Resource="arn:aws:ec2:*:*:*"), listing)
    assert allows(statement(Action="ec2:*", Resource="*"), listing)


def test_a_denial_counts_before_a_permission() -> None:
    denial = statement(Effect="Deny", Sid="no", Resource="*")
    for order in ([statement(), denial], [denial, statement()]):
        decision = read(*order).decide(Access(DELETE, VOLUME))
        assert not decision.allowed
        assert decision.statement is not None
        assert decision.statement.sid == "no"


def test_what_no_statement_covers_is_denied() -> None:
    decision = read(statement()).decide(Access("ec2:CreateVolume", VOLUME))
    assert (decision.allowed, decision.statement) == (False, None)


# --- conditions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "wanted", "value", "met"),
    [
        ("StringEquals", ["a", "b"], "b", True),
        ("StringEquals", "a", "A", False),
        ("StringEquals", "a*", "ab", False),
        ("StringNotEquals", ["a", "b"], "b", False),
        ("StringNotEquals", ["a", "b"], "c", True),
        ("StringEqualsIgnoreCase", "a", "A", True),
        ("StringNotEqualsIgnoreCase", "a", "A", False),
        ("StringLike", "team-*", "team-7", True),
        ("StringLike", "team-?", "team-77", False),
        ("StringNotLike", "team-*", "team-7", False),
        ("ArnLike", "arn:aws:ec2:*:*:volume/*", VOLUME, True),
        ("ArnEquals", "arn:*:volume/*", VOLUME, False),
        ("ArnNotLike", "arn:aws:ec2:*:*:volume/*", VOLUME, False),
        ("Null", "true", "a", False),
        ("Null", "false", "a", True),
    ],
)
def test_a_condition_on_a_value(operator: str, wanted: Any, value: str, met: bool) -> None:
    assert meets(operator, HUB, wanted, value) is met


@pytest.mark.parametrize(
    ("operator", "met"),
    [
        ("StringEquals", False),
        ("StringLike", False),
        ("StringNotEquals", True),
        ("StringEqualsIfExists", True),
        ("StringNotEqualsIfExists", True),
        ("ForAllValues:StringEquals", True),
        ("ForAnyValue:StringEquals", False),
        ("ForAnyValue:StringNotEquals", False),
    ],
)
def test_a_condition_on_a_key_that_is_absent(operator: str, met: bool) -> None:
    assert meets(operator, HUB, "a") is met


def test_null_is_true_of_a_key_that_is_absent() -> None:
    assert meets("Null", HUB, "true")
    assert not meets("Null", HUB, "false")


@pytest.mark.parametrize(
    ("operator", "values", "met"),
    [
        ("ForAllValues:StringEquals", ("a",), True),
        ("ForAllValues:StringEquals", ("a", "b"), True),
        ("ForAllValues:StringEquals", ("a", "c"), False),
        ("ForAnyValue:StringEquals", ("c", "a"), True),
        ("ForAnyValue:StringEquals", ("c", "d"), False),
        ("ForAllValues:StringNotEquals", ("c", "a"), False),
        ("ForAnyValue:StringNotEquals", ("c", "a"), True),
    ],
)
def test_set_operators_compare_every_value(operator: str, values: Sequence[str], met: bool) -> None:
    assert meets(operator, "aws:TagKeys", ["a", "b"], *values) is met


def test_keys_are_compared_without_case_and_tags_values_with_it() -> None:
    access = Access(DELETE, VOLUME, {"aws:resourcetag/ec2spawner:hub": ("demo",)})
    assert allows(statement(Condition={"StringEquals": {HUB.upper(): "demo"}}), access)
    assert not allows(statement(Condition={"StringEquals": {HUB: "Demo"}}), access)


def test_all_conditions_of_a_statement_must_hold() -> None:
    conditions = {"StringEquals": {HUB: "demo", "aws:RequestedRegion": "us-east-1"}}
    context = {HUB.lower(): ("demo",), "aws:requestedregion": ("us-east-1",)}
    assert allows(statement(Condition=conditions), Access(DELETE, VOLUME, context))
    for key in context:
        rest = {name: value for name, value in context.items() if name != key}
        assert not allows(statement(Condition=conditions), Access(DELETE, VOLUME, rest))


# --- which parts of a statement an access needs ----------------------------------------------


def test_an_access_needs_the_resources_and_values_of_a_statement_that_match_it() -> None:
    """The policy could do without what no access needs."""
    region = "aws:RequestedRegion"
    given = statement(
        Action="ec2:*",
        Resource=["arn:aws:ec2:*:*:snapshot/*", "arn:aws:ec2:*:*:volume/*", "*"],
        Condition={
            "StringEquals": {HUB: ["lab", "demo"]},
            "StringNotEquals": {region: ["eu-west-1"]},
            "Null": {"aws:RequestTag/owner": "true"},
        },
    )
    access = Access(DELETE, VOLUME, {HUB.lower(): ("demo",)})
    decision = read(given).decide(access)
    assert decision.statement is not None
    assert list(decision.statement.parts_for(access)) == [
        DELETE,
        "Resource/1",
        "Resource/2",
        f"Condition/{HUB.lower()}/1",
        "Condition/aws:requesttag/owner/0",
    ]


# --- what is not evaluated is refused --------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (statement(Condition={"NumericLessThan": {HUB: "1"}}), "NumericLessThan"),
        (statement(Condition={"Strings": {HUB: "1"}}), "Strings"),
        (statement(Condition={"StringEquals": {"ec2:VolumeSize": "8"}}), "ec2:volumesize"),
        (statement(Condition={"StringEquals": {"aws:ResourceTag/": "8"}}), "aws:resourcetag/"),
        (statement(Condition={"StringEquals": {"aws:TagKeys": "a"}}), "aws:tagkeys"),
        (statement(Condition={"StringEquals": {HUB: "${aws:username}"}}), "variables"),
        (statement(Condition={"Null": {HUB: "yes"}}), "Null"),
        (statement(Resource="arn:aws:ec2:*:*:volume/${aws:username}"), "variables"),
        (statement(Resource="volume/*"), "volume/*"),
        (statement(Action="DeleteVolume"), "DeleteVolume"),
        (statement(Effect="allow"), "Effect"),
        (statement(NotAction="ec2:*"), "NotAction"),
        (statement(Principal="*"), "Principal"),
        (statement(Action=[]), "[]"),
    ],
)
def test_what_is_not_evaluated_is_refused_by_name(given: dict[str, Any], names: str) -> None:
    with pytest.raises(PolicyError) as refused:
        read(given)
    assert names in str(refused.value)


def test_another_version_of_the_language_is_refused() -> None:
    with pytest.raises(PolicyError):
        policy.read({"Version": "2008-10-17", "Statement": [statement()]})


# --- properties ------------------------------------------------------------------------------

words = st.text(alphabet="ab:/*?", max_size=8)
tag_values = st.dictionaries(
    st.sampled_from(["aws:resourcetag/a", "aws:resourcetag/b"]),
    st.tuples(st.sampled_from(["x", "y"])),
)
operators = st.sampled_from(["StringEquals", "StringLike"])


@given(words, words)
def test_a_text_without_wildcards_matches_only_itself(pattern: str, value: str) -> None:
    literal = pattern.replace("*", "").replace("?", "")
    assert wildcards_match(literal, value) is (literal == value)
    assert wildcards_match("*", value)
    assert wildcards_match(f"{literal}*", literal + value)


@given(st.lists(st.text(alphabet="ab", max_size=3), min_size=6, max_size=6))
def test_wildcards_of_an_arn_match_within_their_part(parts: list[str]) -> None:
    arn = ":".join(parts)
    for number in range(6):
        pattern = ":".join([*parts[:number], "*", *parts[number + 1 :]])
        assert arns_match(pattern, arn)
        assert not arns_match(":".join(parts[:5]), arn)


@given(tag_values, operators, st.sampled_from(["x", "y"]))
def test_a_negated_operator_is_the_opposite(
    context: dict[str, tuple[str, ...]], operator: str, wanted: str
) -> None:
    key = "aws:ResourceTag/a"
    access = Access(DELETE, VOLUME, context)
    negated = operator.replace("String", "StringNot")
    one = allows(statement(Condition={operator: {key: wanted}}), access)
    other = allows(statement(Condition={negated: {key: wanted}}), access)
    assert one is not other


@given(tag_values, st.permutations(["x", "y"]))
def test_neither_order_nor_another_permission_takes_one_away(
    context: dict[str, tuple[str, ...]], order: list[str]
) -> None:
    access = Access(DELETE, VOLUME, context)
    statements = [
        statement(Condition={"StringEquals": {"aws:ResourceTag/a": value}}) for value in order
    ]
    together = read(*statements).decide(access).allowed
    assert together is any(read(each).decide(access).allowed for each in statements)
    assert together is read(*reversed(statements)).decide(access).allowed
    denied = read(*statements, statement(Effect="Deny")).decide(access)
    assert not denied.allowed
