"""What is installed is what was tested: on instances, and as the proxy of the demo."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[3]
LOCKS = [
    "configs/aws/proxy/package-lock.json",
    "labextension/package-lock.json",
    "proxy/package-lock.json",
]


def pinned() -> dict[str, Version]:
    """The versions that come with the package, by canonical name."""
    text = resources.files("ec2spawner.data").joinpath("constraints.txt").read_text("utf-8")
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pins = (line.split("==") for line in lines if line)
    return {canonicalize_name(name): Version(version) for name, version in pins}


def needed(requirement: Requirement, seen: dict[str, Requirement]) -> None:
    """Everything that this needs here, and it."""
    name = canonicalize_name(requirement.name)
    if name in seen:
        return
    seen[name] = requirement
    try:
        wants = distribution(name).requires or []
    except PackageNotFoundError:
        return
    for each in map(Requirement, wants):
        extras = ["", *requirement.extras]
        if each.marker is None or any(each.marker.evaluate({"extra": x}) for x in extras):
            needed(each, seen)


def test_everything_that_an_instance_installs_has_a_tested_version() -> None:
    seen: dict[str, Requirement] = {}
    needed(Requirement("ec2spawner[notebook]"), seen)
    del seen["ec2spawner"]
    assert len(seen) > 80, "with all that a notebook needs"
    assert not sorted(seen.keys() - pinned().keys())


def test_an_instance_installs_them_with_the_oldest_python_that_the_agent_runs_on() -> None:
    """Ubuntu 22.04 has a 3.11.0, Debian 12 a 3.11.2: one version that excludes those would fail
    the installation on each instance."""
    seen: dict[str, Requirement] = {}
    needed(Requirement("ec2spawner[notebook]"), seen)
    asked = {name: distribution(name).metadata["Requires-Python"] or "" for name in seen}
    refused = [name for name, text in asked.items() if "3.11.0" not in SpecifierSet(text)]
    assert not refused


def test_tested_versions_satisfy_the_packages_requirements() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins = pinned()
    asked = [*project["dependencies"], *project["optional-dependencies"]["notebook"]]
    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("lock", LOCKS)
def test_npm_packages_have_a_digest_and_no_registry(lock: str) -> None:
    packages: dict[str, dict[str, Any]] = json.loads((ROOT / lock).read_text("utf-8"))["packages"]
    installed = [each for name, each in packages.items() if name and not each.get("link")]
    assert installed
    for each in installed:
        assert each["integrity"].startswith("sha512-")
        assert "resolved" not in each


def test_github_can_read_its_workflows() -> None:
    for file in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        assert yaml.safe_load(file.read_text())["jobs"], file
