"""Configurations for tests of options beside each other, and what is found of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ec2spawner.config import (
    JupyterHubOptions,
    Options,
    Problem,
    bundled_prices,
    ineffective,
    priced,
    validate_options,
)

NOW = datetime(2026, 12, 1, tzinfo=UTC)

SPOT = {"display_name": "T4", "gpu": "T4", "market": "spot-only"}
ANY = {"display_name": "T4", "gpu": "T4"}
ON_DEMAND = {"display_name": "T4", "gpu": "T4", "market": "on-demand"}
CPU = {"display_name": "CPU", "slug": "cpu", "vcpus": 4, "memory_gib": 16}
EFS = {"kind": "efs", "file_system": "fs-0a1b2c3d"}
IMAGE = "ami-0a1b2c3d"
CONTAINER = {"container": "quay.io/jupyter/base-notebook:2026-11-16"}
DISCOUNT = {"instance_type": "g4dn.xlarge", "usd_per_hour": 0.3, "count": 2}
QUEUE = "https://sqs.us-east-1.amazonaws.com/123456789012/interruptions"
ROLE = "arn:aws:iam::123456789012:role/rehearsal"
TOPIC = "arn:aws:sns:us-east-1:123456789012:gpu-hub"
POOL = {"profile": "t4", "running": 2}
RUNS = {"at_once": 5}
GROUPS = {"security_groups": ["sg-0a1b2c3d"]}


def options(changed: Mapping[str, Any]) -> Options:
    raw: dict[str, Any] = {"region": "us-east-1", "subnets": ["subnet-1"], "image": IMAGE}
    return validate_options({**raw, **changed}, cleanup_servers=False, environ={})


def found(changed: Mapping[str, Any], **hub: Any) -> list[Problem]:
    """Return the problems that a hub with these options would log at its start."""
    judged, beside = options(changed), JupyterHubOptions(**hub)
    prices = bundled_prices(judged)
    return [*ineffective(judged, beside, NOW), *priced(judged, beside, prices, NOW)]


class Case(NamedTuple):
    """A configuration, and the one finding of it."""

    changed: dict[str, Any]
    """Options of `c.EC2Spawner`."""
    hub: dict[str, Any]
    """JupyterHub's own."""
    option: str
    """Which is named."""
    other: str
    """Words about the option beside it."""
    fix: str


def assert_found(case: Case) -> None:
    [problem] = found(case.changed, **case.hub)
    assert problem.option == f"c.EC2Spawner.{case.option}"
    assert case.other in problem.wrong
    assert case.fix in problem.fix
