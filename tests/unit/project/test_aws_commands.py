"""What the pages tell an admin to type is what AWS's services and our files take.

The AWS CLI itself pins botocore, and so cannot be installed beside the hub. But its commands are
made from botocore's models, which are here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import botocore.session
import pytest
import yaml
from botocore import xform_name

ROOT = Path(__file__).resolve().parents[3]
SERVICES = {"s3api": "s3"}
"""Of the command line, where its name is not that of the service."""

GLOBAL_OPTIONS = {"region", "query", "output", "profile"}

OF_THE_CLI = {
    "s3 mb": {"region"},
    "s3 cp": {"region"},
    "s3 rb": {"force"},
    "ec2 authorize-security-group-ingress": {"group-id", "protocol", "port", "source-group"},
    "cloudformation deploy": {
        *("stack-name", "template-file", "capabilities", "parameter-overrides"),
    },
}
"""Commands that are not as their call is, with those of their options that the pages use."""


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every `aws ...` in a console block of a page, without the prompt, in words."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^ *```console\n(.*?)^ *```", text, flags=re.M | re.S):
            joined = re.sub(r"\\\n\s*", " ", block)
            for line in joined.splitlines():
                prompt, _, command = line.strip().partition("$ ")
                if not prompt and re.search(r"\baws ", command):
                    for one in split(command):
                        yield f"{page.stem}: {' '.join(one[:3])}", one


def split(command: str) -> Iterator[list[str]]:
    """A command, and before it the one whose output it uses."""
    for inner in re.findall(r"\$\((aws .*?)\)", command):
        yield shlex.split(inner)
    outer = shlex.split(re.sub(r"\$\(aws .*?\)", "ami-0a1b2c3d4e5f60718", command), comments=True)
    if outer[0] == "aws":
        yield outer


def options(words: list[str]) -> set[str]:
    return {word[2:].partition("=")[0] for word in words if word.startswith("--")}


@cache
def session() -> botocore.session.Session:
    return botocore.session.get_session()


ALL = list(commands())


@pytest.mark.parametrize("words", [words for _, words in ALL], ids=[name for name, _ in ALL])
def test_a_command_is_one_of_the_service_and_so_are_its_options(words: list[str]) -> None:
    if words[1] == "--endpoint-url":
        del words[1:3]
    _, service, operation, *rest = words
    own = options(rest) - GLOBAL_OPTIONS
    if f"{service} {operation}" in OF_THE_CLI:
        assert own <= OF_THE_CLI[f"{service} {operation}"]
        return
    model = session().get_service_model(SERVICES.get(service, service))
    operations = {xform_name(name, "-"): name for name in model.operation_names}
    assert operation in operations
    called = model.operation_model(operations[operation])
    shape = called.input_shape
    members = {xform_name(name, "-"): name for name in shape.members}
    assert own <= members.keys()
    # The CLI makes up tokens of its own.
    needed = set(shape.required_members) - set(called.idempotent_members)
    required = {xform_name(name, "-") for name in needed}
    assert required <= own


DEPLOYS = [words for _, words in ALL if words[1:3] == ["cloudformation", "deploy"]]


def given_parameters(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words[words.index("--parameter-overrides") + 1 :])


@pytest.mark.parametrize("words", DEPLOYS, ids=lambda words: " ".join(given_parameters(words)))
def test_a_page_deploys_the_stack_with_parameters_that_it_has(words: list[str]) -> None:
    template = ROOT / words[words.index("--template-file") + 1]
    parameters = yaml.load(template.read_text(), Loader=Tagged)["Parameters"]
    given = given_parameters(words)
    assert given.keys() <= parameters.keys()
    if "WheelBucket" in given:
        given["WheelBucket"] = given["WheelBucket"].lower()
    if "Package" in given:
        given["Package"] = given["Package"].replace("SHA256", "0" * 64)
    for name, value in given.items():
        assert re.fullmatch(parameters[name].get("AllowedPattern", ".*"), value), name


def test_the_page_creates_the_stack_with_all_that_has_no_default() -> None:
    template = yaml.load((ROOT / "configs/aws/stack.yaml").read_text(), Loader=Tagged)
    required = {name for name, each in template["Parameters"].items() if "Default" not in each}
    assert any(required <= given_parameters(words).keys() for words in DEPLOYS)


class Tagged(yaml.SafeLoader):
    """Reads CloudFormation's `!Ref` and the like as plain values."""


def plain(loader: yaml.SafeLoader, _tag: str, node: yaml.Node) -> object:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node)
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node)


Tagged.add_multi_constructor("!", plain)
