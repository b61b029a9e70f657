"""Options that are valid alone, and impossible together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ec2spawner.config import ConfigError, Options, validate_options

EFS = {"kind": "efs", "file_system": "fs-0a1b2c3d"}
IMAGE = "ami-0a1b2c3d"
CONTAINER = {"container": "quay.io/jupyter/base-notebook:2026-11-16"}
RUNS = {"at_once": 5}
GROUPS = {"security_groups": ["sg-0a1b2c3d"]}


def options(changed: Mapping[str, Any]) -> Options:
    raw: dict[str, Any] = {"region": "us-east-1", "subnets": ["subnet-1"], "image": IMAGE}
    return validate_options({**raw, **changed}, cleanup_servers=False, environ={})


IMPOSSIBLE: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "nobody-pays": (
        {"payers": {"user": False}},
        "payers",
        '"user" is False, and no "group" or "project" may pay',
        '"group": ["research"]',
    ),
    "runs-in-containers": (
        {"runs": RUNS, "image": CONTAINER},
        "runs.at_once",
        'c.EC2Spawner.image has a "container"',
        "leave out c.EC2Spawner.runs",
    ),
    "clusters-in-containers": (
        {"clusters": {"max_workers": 2}, "image": CONTAINER, **GROUPS},
        "clusters.max_workers",
        'c.EC2Spawner.image has a "container"',
        "leave out c.EC2Spawner.clusters",
    ),
    "homes-that-root-reads": (
        {"home": EFS, "image": "/aws/service/deeplearning/ami/x86_64/any/latest/ami-id"},
        "home.kind",
        "c.EC2Spawner.image",
        '"kind": "ebs"',
    ),
}
"""Options -> the option that is named, the words about the other one, and the fix."""


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_nobody_could_get_stops_the_hub(case: str) -> None:
    changed, option, other, fix = IMPOSSIBLE[case]
    with pytest.raises(ConfigError) as refused:
        options(changed)
    [problem] = refused.value.problems
    assert problem.option == f"c.EC2Spawner.{option}"
    assert other in problem.wrong
    assert fix in problem.fix
