"""Every IAM policy that the project ships: files, templates, the image's recipe, pages.

All have the values of one example: region `us-east-1`, account `123456789012`, hub `small-team`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.unit.project.test_aws_commands import Tagged

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs"

Statement = Mapping[str, Any]

HUB = ("iam-policy.json", "clusters-policy.json", "interruptions-policy.json")
"""Of one role together: what one needs of a resource, another may allow."""

EXAMPLE = {
    "AWS::Partition": "*",
    "AWS::Region": "us-east-1",
    "AWS::AccountId": "123456789012",
    "AWS::StackName": "example",
    "HubName": "small-team",
    "HubSettings": "/ec2spawner/small-team/hub.env",
    "NotebookRole.Arn": "arn:*:iam::123456789012:role/notebooks",
}
"""Parameters and attributes that templates name in their policies."""

IN_PAGES = re.compile(r"```json\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with an identity's permissions."""

    source: str
    """Such as `configs/iam-policy.json` or `configs/aws/stack.yaml HubRole`."""
    statements: Sequence[Statement]


def many(value: str | Sequence[str]) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def shipped() -> list[Policy]:
    """All that give permissions to a role; not those that say who may use a resource."""
    return [*in_files(), *in_templates(), *in_pages()]


def in_files() -> Iterator[Policy]:
    for file in sorted(CONFIGS.glob("*-policy.json")):
        statements = json.loads(file.read_text(encoding="utf-8"))["Statement"]
        yield Policy(str(file.relative_to(ROOT)), statements)


def in_templates() -> Iterator[Policy]:
    for file in sorted((CONFIGS / "aws").glob("*.yaml")):
        document = yaml.load(file.read_text(encoding="utf-8"), Loader=Tagged)
        for name, resource in document.get("Resources", {}).items():
            for statements in _statements(resource):
                if not any("Principal" in each for each in statements):
                    filled = [_filled(each) for each in statements]
                    yield Policy(f"{file.relative_to(ROOT)} {name}", filled)


def in_pages() -> Iterator[Policy]:
    for page in [*sorted((ROOT / "docs").rglob("*.md")), CONFIGS / "README.md"]:
        for block in IN_PAGES.findall(page.read_text(encoding="utf-8")):
            if '"Effect"' in block:
                found = json.loads(block)
                yield Policy(str(page.relative_to(ROOT)), found.get("Statement", [found]))


def managed_policies() -> Iterator[tuple[str, str]]:
    """The roles of templates with what they attach: what is no `!Ref` is none of ours."""
    for file in sorted((CONFIGS / "aws").glob("*.yaml")):
        document = yaml.load(file.read_text(encoding="utf-8"), Loader=Tagged)
        for name, resource in document.get("Resources", {}).items():
            for each in resource.get("Properties", {}).get("ManagedPolicyArns", ()):
                if each not in document["Resources"]:
                    yield name, each


def _statements(value: Any) -> Iterator[list[Statement]]:
    if isinstance(value, dict):
        if "Statement" in value:
            yield value["Statement"]
        else:
            for each in value.values():
                yield from _statements(each)
    elif isinstance(value, list):
        for each in value:
            yield from _statements(each)


def _filled(value: Any) -> Any:
    """A part of a template's policy as CloudFormation fills it in."""
    match value:
        case {"Ref": name}:
            return EXAMPLE[name]
        case {"Fn::Sub": text}:
            return _filled(text)
        case dict():
            return {key: _filled(each) for key, each in value.items()}
        case list():
            return [_filled(each) for each in value]
        case str() if value in EXAMPLE:  # a `!Ref` or a `!GetAtt`
            return EXAMPLE[value]
        case str():
            return re.sub(r"\$\{([\w:.]+)\}", lambda found: EXAMPLE[found[1]], value)
    return value
