"""The CloudFormation templates, and their parts that other files own.

As a program it writes them into the templates: `python -m tests.stack_template`.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
STACK = CONFIGS / "aws/stack.yaml"
INTERRUPTIONS = CONFIGS / "aws/interruptions.yaml"

ACCOUNT_VALUES = {
    "us-east-1": "${AWS::Region}",
    "123456789012": "${AWS::AccountId}",
    "small-team": "${HubName}",
    "ec2spawner-rehearsal*": "ec2spawner-rehearsal-${AWS::StackName}",
    "ec2spawner-interruptions*": "ec2spawner-interruptions-${AWS::StackName}",
}
"""What the policies in `configs` have for an example's account, and CloudFormation's own word."""

HUB_VALUES = {
    "HUB_PACKAGE": "${Package}",
    "HUB_NAME": "${HubName}",
    "HUB_REGION": "${AWS::Region}",
    "HUB_SUBNETS": "${Subnets}",
    "HUB_SECURITY_GROUPS": "${NotebookGroup.GroupId}",
    "HUB_INSTANCE_PROFILE": "${Profile}",
    "HUB_ADMIN": "${Admin}",
    "HUB_USERS": "${Users}",
    "HUB_DATA_VOLUME": "${HubData}",
}


def substituted(value: Any) -> Any:
    """A part of the policy, with this stack's values in place of the example's."""
    if isinstance(value, dict):
        return {key: substituted(each) for key, each in value.items()}
    if isinstance(value, list):
        return [substituted(each) for each in value]
    text = value
    for example, own in ACCOUNT_VALUES.items():
        text = text.replace(example, own)
    if text == value:
        return value
    whole = re.fullmatch(r"\$\{([\w:]+)\}", text)
    return {"Ref": whole[1]} if whole else {"Fn::Sub": text}


def policy(name: str) -> str:
    document = substituted(json.loads((CONFIGS / name).read_text()))
    return yaml.safe_dump({"PolicyDocument": document}, sort_keys=False, width=1000)


CLOUD_INIT = CONFIGS / "aws/cloud-init.yaml"

STACK_FILE = """
  - path: /etc/ec2spawner/stack.env
    content: |
      # Where update-hub reads the settings.
      STACK_REGION="${AWS::Region}"
      STACK_SETTINGS="${HubSettings}"
"""
"""Instead of the settings themselves: a change of user-data would stop and start the machine, and
cloud-init would not write it again."""


def settings() -> str:
    """The settings that cloud-init's file has, as the first argument of `Fn::Sub`."""
    [text] = [
        each["content"]
        for each in yaml.safe_load(CLOUD_INIT.read_text())["write_files"]
        if each["path"] == "/etc/ec2spawner/hub.env"
    ]
    text = text.replace("After a change:", "Change the stack, then:")
    for name, value in HUB_VALUES.items():
        text, found = re.subn(rf'^{name}=".*"$', f'{name}="{value}"', text, flags=re.M)
        assert found == 1, name
    return "- |\n" + textwrap.indent(text, "  ")


def user_data() -> str:
    """The rest of cloud-init's file, without its introduction, as the argument of `Fn::Sub`."""
    before, start, rest = CLOUD_INIT.read_text().partition("  - path: /usr/local/sbin/update-hub\n")
    assert before.count("  - path: ") == 1
    text = "#cloud-config\nwrite_files:" + STACK_FILE + (start + rest).replace("${", "${!")
    return "|\n" + textwrap.indent(text, "  ")


PARTS: Mapping[Path, Mapping[str, Callable[[], str]]] = {
    STACK: {
        "configs/sessions-policy.json": lambda: policy("sessions-policy.json"),
        "configs/iam-policy.json": lambda: policy("iam-policy.json"),
        "configs/clusters-policy.json": lambda: policy("clusters-policy.json"),
        "configs/aws/cloud-init.yaml (settings)": settings,
        "configs/aws/cloud-init.yaml (the rest)": user_data,
    },
    INTERRUPTIONS: {
        "configs/interruptions-policy.json": lambda: policy("interruptions-policy.json"),
    },
}


def assembled(file: Path) -> str:
    """The template with its parts as their own files have them now."""
    template = file.read_text()
    for source, part in PARTS[file].items():
        pattern = rf"^( *)# begin: {re.escape(source)}\n.*?^ *# end: {re.escape(source)}\n"
        found = re.search(pattern, template, flags=re.M | re.S)
        assert found, source
        block = f"# begin: {source}\n{part()}# end: {source}\n"
        whole = textwrap.indent(block, found[1])
        template = template[: found.start()] + whole + template[found.end() :]
    return template


if __name__ == "__main__":
    for each in PARTS:
        each.write_text(assembled(each))
