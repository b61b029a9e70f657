"""The AWS actions that the project calls, as its source says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import botocore.session
from botocore import xform_name

PACKAGE = Path(__file__).resolve().parents[1] / "ec2spawner"

CALLERS = frozenset({"do", "call", "pages"})
"""Methods whose first argument is boto3's name of what is called, such as
`client.call("get_parameter", ..., service="ssm")`."""

IAM_PREFIXES = {"monitoring": "cloudwatch"}
"""Name of a service in a signature -> in IAM's actions, where they differ."""

IAM_ACTIONS = {"DeleteMessageBatch": "DeleteMessage", "ListObjectsV2": "ListBucket"}
"""Name of an action in a request -> in IAM, where they differ."""


@dataclass(frozen=True, slots=True, order=True)
class Action:
    """Something that AWS is asked to do."""

    service: str
    """boto3's name of the service."""
    name: str
    """As it stands in a request: `CreateFleet`."""

    @property
    def permission(self) -> str:
        """IAM's name of it."""
        signing_name = _service_model(self.service).signing_name
        prefix = IAM_PREFIXES.get(signing_name, signing_name)
        return f"{prefix}:{IAM_ACTIONS.get(self.name, self.name)}"


@cache
def called_actions() -> frozenset[Action]:
    """All that the hub and its commands call, also with DryRun only."""
    paths = [*PACKAGE.glob("aws/**/*.py"), *PACKAGE.glob("check/**/*.py")]
    return frozenset(action for path in paths for action in _called_in(path))


def _called_in(path: Path) -> Iterator[Action]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        # `pages` hands its own argument on to `call`: that is no constant.
        if not isinstance(node, ast.Call) or not node.args:
            continue
        if not isinstance(node.args[0], ast.Constant):
            continue
        named = str(node.args[0].value)
        if isinstance(node.func, ast.Name) and node.func.id == "DryRun":
            yield Action("ec2", named.removeprefix("ec2:"))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in CALLERS:
            service = _service_of(node)
            yield Action(service, _names_by_method(service)[named])


def _service_of(call: ast.Call) -> str:
    said = [word.value for word in call.keywords if word.arg == "service"]
    return str(said[0].value) if said and isinstance(said[0], ast.Constant) else "ec2"


@cache
def _service_model(service: str) -> botocore.model.ServiceModel:
    return botocore.session.get_session().get_service_model(service)


@cache
def _names_by_method(service: str) -> Mapping[str, str]:
    return {xform_name(name): name for name in _service_model(service).operation_names}
