"""Conversion of tags between mappings and EC2's lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..core.tags import HUB, STORE

OF_EVERY_LAUNCH: Final = frozenset({HUB, STORE})
"""What all launches of a hub have in common, and so a launch template may say: with the launch
key in it, two profiles that differ in their types or zones alone would need two templates."""


def to_ec2(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Sorted, so that equal tags make equal requests."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def from_ec2(resource: Mapping[str, Any]) -> dict[str, str]:
    """The tags of an instance or volume as EC2 describes it."""
    return {tag["Key"]: tag["Value"] for tag in resource.get("Tags", ())}


def of_hub(hub: str) -> Sequence[Mapping[str, Any]]:
    """The filter for everything that carries this hub's tag."""
    return [{"Name": f"tag:{HUB}", "Values": [literal(hub)]}]


def of_store(hub: str, store_id: str) -> Sequence[Mapping[str, Any]]:
    """The filter for everything of this hub that this store made."""
    return [*of_hub(hub), {"Name": f"tag:{STORE}", "Values": [literal(store_id)]}]


def literal(value: str) -> str:
    """Escape * and ?, EC2's wildcards in a filter: another hub's resources must not match."""
    return value.replace("\\", "\\\\").replace("*", "\\*").replace("?", "\\?")
