"""An identity-based policy, read from its JSON, and its decision on one access.

An element that this does not evaluate is refused when the policy is read: if it were skipped, it
would allow what IAM denies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .conditions import Condition, Context, PolicyError, arns_match, wildcards_match

VERSION: Final = "2012-10-17"
ELEMENTS: Final = frozenset({"Sid", "Effect", "Action", "Resource", "Condition"})


@dataclass(frozen=True, slots=True)
class Access:
    """One action on one resource: a call asks for one or several."""

    action: str
    """As IAM names it, such as `ec2:CreateVolume`."""
    resource: str = "*"
    """Its ARN, whose id is `*` before the resource exists; `*` for an action without resources."""
    context: Context = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a policy."""

    sid: str
    allows: bool
    actions: tuple[str, ...]
    """In lower case: IAM ignores their case."""
    resources: tuple[str, ...]
    conditions: tuple[Condition, ...]

    def names(self, action: str) -> bool:
        """Whether the action is one of the statement's."""
        return any(wildcards_match(pattern, action.lower()) for pattern in self.actions)

    def covers(self, access: Access) -> bool:
        """Whether the statement, which names the action, decides about this access."""
        return any(_matches(pattern, access.resource) for pattern in self.resources) and all(
            condition.holds(access.context) for condition in self.conditions
        )

    def parts_for(self, access: Access) -> Iterator[str]:
        """The parts of the statement that this access, which it covers, needs: the action, such as
        `ec2:CreateVolume`, the place of a resource, such as `Resource/0`, and the places of a
        condition's values, such as `Condition/ec2:createaction/2`."""
        yield access.action
        for place, pattern in enumerate(self.resources):
            if _matches(pattern, access.resource):
                yield f"Resource/{place}"
        for condition in self.conditions:
            for place in condition.met_by(access.context):
                yield f"Condition/{condition.key}/{place}"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an access is allowed, and the statement that decided; None if none did."""

    allowed: bool
    statement: Statement | None = None


class Policy:
    """The statements of one or several policies of the same identity."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        """The order of the statements has no effect."""
        # Denials first: the first statement that covers an access decides.
        self.statements = tuple(sorted(statements, key=lambda each: each.allows))
        self._of_action: dict[str, tuple[Statement, ...]] = {}

    def decide(self, access: Access) -> Decision:
        """An explicit denial counts first, then a permission; without either it is denied."""
        if access.action not in self._of_action:
            self._of_action[access.action] = tuple(
                each for each in self.statements if each.names(access.action)
            )
        for each in self._of_action[access.action]:
            if each.covers(access):
                return Decision(each.allows, each)
        return Decision(False)


def read(document: Mapping[str, Any]) -> Policy:
    """A policy from its JSON. Raises `PolicyError` for what is invalid or not evaluated here."""
    if unknown := document.keys() - {"Version", "Statement"}:
        raise PolicyError(f"the element {min(unknown)} is not evaluated here")
    if document.get("Version") != VERSION:
        raise PolicyError(f"the Version must be {VERSION}")
    return Policy([_statement(each) for each in _many(document.get("Statement"))])


def _matches(pattern: str, resource: str) -> bool:
    return pattern == "*" or arns_match(pattern, resource)


def _statement(given: Any) -> Statement:
    if not isinstance(given, Mapping):
        raise PolicyError("a statement is an object")
    if unknown := given.keys() - ELEMENTS:
        raise PolicyError(f"the element {min(unknown)} is not evaluated here")
    if given.get("Effect") not in ("Allow", "Deny"):
        raise PolicyError("Effect is Allow or Deny")
    actions, resources = _texts(given.get("Action")), _texts(given.get("Resource"))
    for action in actions:
        if action != "*" and ":" not in action:
            raise PolicyError(f"an Action is service:Name, not {action}")
    for resource in resources:
        if resource != "*" and resource.count(":") < 5:
            raise PolicyError(f"a Resource is an ARN or *, not {resource}")
        if "${" in resource:
            raise PolicyError(f"policy variables are not evaluated here: {resource}")
    return Statement(
        str(given.get("Sid", "")),
        given["Effect"] == "Allow",
        tuple(action.lower() for action in actions),
        resources,
        tuple(
            Condition(operator, key.lower(), _texts(values))
            for operator, keys in given.get("Condition", {}).items()
            for key, values in keys.items()
        ),
    )


def _many(given: Any) -> Sequence[Any]:
    found = [given] if isinstance(given, Mapping) else given
    if not isinstance(found, list) or not found:
        raise PolicyError("Statement is a list of statements")
    return found


def _texts(given: Any) -> tuple[str, ...]:
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, list) or not found or not all(isinstance(x, str) for x in found):
        raise PolicyError(f"expected a text or a list of texts, not {given!r}")
    return tuple(found)
