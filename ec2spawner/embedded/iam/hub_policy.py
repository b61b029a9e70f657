"""The policy in `configs/iam-policy.json`, filled in for a hub of the embedded EC2."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from ..installed_configs import config_file
from . import policy
from .policy import Policy

PLACEHOLDERS: Final = {"region": "us-east-1", "account": "123456789012", "hub": '"small-team"'}
"""What an admin replaces, as `configs/README.md` says."""


def hub_policy(
    region: str, account: str, hub: str, statements: Sequence[Mapping[str, Any]] = ()
) -> Policy:
    """The hub's policy, with the statements that its admin adds.

    Raises `PolicyError` for what is invalid, FileNotFoundError where the policy is not installed.
    """
    document = _filled("iam-policy.json", region, account, hub)
    document["Statement"] += statements
    return policy.read(document)


def cluster_statements(region: str, account: str, hub: str) -> list[dict[str, Any]]:
    """What an admin adds to it for clusters, from `configs/clusters-policy.json`."""
    statements: list[dict[str, Any]] = _filled("clusters-policy.json", region, account, hub)[
        "Statement"
    ]
    return statements


def interruption_statements(region: str, account: str, hub: str) -> list[dict[str, Any]]:
    """What an admin may add to it, from `configs/interruptions-policy.json`."""
    document = _filled("interruptions-policy.json", region, account, hub)
    statements: list[dict[str, Any]] = document["Statement"]
    return statements


def _filled(name: str, region: str, account: str, hub: str) -> dict[str, Any]:
    text = _text(name).replace(PLACEHOLDERS["region"], region)
    text = text.replace(PLACEHOLDERS["account"], account)
    document: dict[str, Any] = json.loads(text.replace(PLACEHOLDERS["hub"], json.dumps(hub)))
    return document


@cache
def _text(name: str) -> str:
    return config_file(name).read_text("utf-8")
