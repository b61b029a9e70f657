"""The policy in `configs/iam-policy.json`, filled in for a hub of the embedded EC2."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

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
    text = _text().replace(PLACEHOLDERS["region"], region)
    text = text.replace(PLACEHOLDERS["account"], account)
    document = json.loads(text.replace(PLACEHOLDERS["hub"], json.dumps(hub)))
    document["Statement"] += statements
    return policy.read(document)


@cache
def _text() -> str:
    """From the source tree, or as installed."""
    tree = Path(__file__).resolve().parents[3] / "configs/iam-policy.json"
    installed = Path(sys.prefix) / "share/ec2spawner/configs/iam-policy.json"
    return next((p for p in (tree, installed) if p.is_file()), installed).read_text("utf-8")
