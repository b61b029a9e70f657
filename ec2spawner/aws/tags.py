"""Tags, between our mappings and EC2's lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

HUB: Final = "ec2spawner:hub"
"""Which hub: what listings are filtered by. The same word as in `provisioner.tags`."""

OF_ONE_CALL: Final = frozenset({"ec2spawner:intent", "Name"})
"""Tags that differ from call to call and so have no place in a launch template."""


def to_ec2(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Sorted, so that equal tags make equal requests."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def from_ec2(resource: Mapping[str, Any]) -> dict[str, str]:
    """The tags of an instance or volume as EC2 describes it."""
    return {tag["Key"]: tag["Value"] for tag in resource.get("Tags", ())}


def of_hub(hub: str) -> Sequence[Mapping[str, Any]]:
    """The filter for everything that carries this hub's tag."""
    # EC2 reads * and ? in a filter's value as wildcards: another hub's servers must not match.
    escaped = hub.replace("\\", "\\\\").replace("*", "\\*").replace("?", "\\?")
    return [{"Name": f"tag:{HUB}", "Values": [escaped]}]
