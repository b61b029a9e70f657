"""The condition operators of IAM's policy language, on the keys that the embedded EC2 supplies.

From "IAM JSON policy elements: Condition operators" and "Set operators for multi-valued context
keys", read in 2026. An operator or key that is not here is refused when the policy is read: if it
were skipped, it would allow what IAM denies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

Context = Mapping[str, Sequence[str]]
"""Condition key in lower case -> its values; a key without a value is absent."""

SINGLE_VALUED: Final = frozenset(
    {
        "aws:requestedregion",
        "cloudwatch:namespace",
        "ec2:createaction",
        "ec2:region",
        "iam:awsservicename",
        "iam:passedtoservice",
    }
)
MULTI_VALUED: Final = frozenset({"aws:tagkeys"})
BY_TAG: Final = ("aws:requesttag/", "aws:resourcetag/", "ec2:resourcetag/")
"""What a key begins with that ends in the key of a tag."""

ANY_OF: Final = "ForAnyValue:"
ALL_OF: Final = "ForAllValues:"
ARN_PARTS: Final = 6
"""arn:partition:service:region:account:resource; the last may contain colons."""
IF_EXISTS: Final = "IfExists"

Matches = Callable[[str, str], bool]
"""Whether a value in a policy matches the value of a call."""


class PolicyError(ValueError):
    """The policy is invalid, or uses what is not evaluated here."""


def wildcards_match(pattern: str, value: str) -> bool:
    """`*` is any text, `?` any character."""
    return _compiled(pattern).fullmatch(value) is not None


def arns_match(pattern: str, arn: str) -> bool:
    """Part by part: a wildcard does not reach over a colon, except in the last part."""
    return _compiled_arn(pattern).fullmatch(arn) is not None


OPERATORS: Final[Mapping[str, tuple[Matches, bool]]] = {
    "StringEquals": (lambda wanted, value: wanted == value, True),
    "StringNotEquals": (lambda wanted, value: wanted == value, False),
    "StringEqualsIgnoreCase": (lambda wanted, value: wanted.lower() == value.lower(), True),
    "StringNotEqualsIgnoreCase": (lambda wanted, value: wanted.lower() == value.lower(), False),
    "StringLike": (wildcards_match, True),
    "StringNotLike": (wildcards_match, False),
    "ArnEquals": (arns_match, True),
    "ArnLike": (arns_match, True),
    "ArnNotEquals": (arns_match, False),
    "ArnNotLike": (arns_match, False),
}
"""Operator -> how values match, and whether it wants a match."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One key of one operator in a statement's `Condition`."""

    operator: str
    """With its set operator and `IfExists`, as in the policy."""
    key: str
    """In lower case: IAM ignores the case of keys, and of tags' keys in them."""
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raises `PolicyError`."""
        _check_key(self.key)
        if self.operator == "Null":
            if not set(self.values) <= {"true", "false"}:
                raise PolicyError(f"Null of {self.key} is true or false, not {self.values}")
            return
        if _bare(self.operator) not in OPERATORS:
            raise PolicyError(f"the condition operator {self.operator} is not evaluated here")
        if self.key in MULTI_VALUED and not self.operator.startswith((ANY_OF, ALL_OF)):
            raise PolicyError(f"{self.key} has many values: write {ALL_OF} or {ANY_OF}")
        if unknown := [value for value in self.values if "${" in value]:
            raise PolicyError(f"policy variables are not evaluated here: {unknown[0]}")

    def holds(self, context: Context) -> bool:
        """Whether a call with these condition keys meets it."""
        found = context.get(self.key, ())
        if self.operator == "Null":
            return ("true" if not found else "false") in self.values
        matches, wants_match = OPERATORS[_bare(self.operator)]
        met = [
            any(matches(wanted, value) for wanted in self.values) == wants_match for value in found
        ]
        if not found:
            return self._of_absent(wants_match)
        return any(met) if self.operator.startswith(ANY_OF) else all(met)

    def met_by(self, context: Context) -> Sequence[int]:
        """Which of its values, by their places, a value of a call's key matches."""
        if self.operator == "Null":
            return range(len(self.values))
        matches, _ = OPERATORS[_bare(self.operator)]
        found = context.get(self.key, ())
        return [
            place
            for place, wanted in enumerate(self.values)
            if any(matches(wanted, value) for value in found)
        ]

    def _of_absent(self, wants_match: bool) -> bool:
        if self.operator.endswith(IF_EXISTS) or self.operator.startswith(ALL_OF):
            return True
        return not wants_match and not self.operator.startswith(ANY_OF)


def _check_key(key: str) -> None:
    by_tag = key.startswith(BY_TAG) and key not in BY_TAG
    if not (by_tag or key in SINGLE_VALUED or key in MULTI_VALUED):
        raise PolicyError(f"the condition key {key} is not evaluated here")


def _bare(operator: str) -> str:
    return operator.removeprefix(ANY_OF).removeprefix(ALL_OF).removesuffix(IF_EXISTS)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(_expression(pattern, "."), re.DOTALL)


@lru_cache(maxsize=4096)
def _compiled_arn(pattern: str) -> re.Pattern[str]:
    *parts, last = pattern.split(":", ARN_PARTS - 1)
    if len(parts) < ARN_PARTS - 1:
        return re.compile("(?!)")  # matches nothing
    return re.compile(
        ":".join([*(_expression(part, "[^:]") for part in parts), _expression(last, ".")]),
        re.DOTALL,
    )


def _expression(pattern: str, character: str) -> str:
    """`character` is what a wildcard stands for."""
    return re.escape(pattern).replace(r"\*", f"{character}*").replace(r"\?", character)
