"""Groups that were made a moment ago, which a launch may not know yet."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from ...core.offers.launch_errors import (
    GROUP_NOT_KNOWN_YET,
    GROUP_UNKNOWN,
    PLACEMENT_GROUP_UNKNOWN,
)
from ...provisioner.model.cloud.launch import FleetResponse

NEW_SECONDS: Final = 20.0
"""For so long a launch may not know a new group, as with launch templates."""

_UNKNOWN: Final = GROUP_UNKNOWN | {PLACEMENT_GROUP_UNKNOWN}


class NewGroups:
    """Security groups and placement groups that this process has made or found."""

    def __init__(self) -> None:
        self._made: dict[str, float] = {}
        """Id, or name of a placement group -> when, on the loop's clock in seconds."""

    def add(self, group: str) -> None:
        """EC2 has just confirmed that it exists."""
        now = asyncio.get_running_loop().time()
        recent = {x: at for x, at in self._made.items() if now - at < NEW_SECONDS}
        self._made = {**recent, group: now}

    def excused(self, answer: FleetResponse, groups: Collection[str]) -> FleetResponse:
        """A launch's answer, in which EC2 may not know a new group of these: asked again, it
        will."""
        now = asyncio.get_running_loop().time()
        if not any(now - self._made.get(each, -NEW_SECONDS) < NEW_SECONDS for each in groups):
            return answer
        errors = (
            replace(each, code=GROUP_NOT_KNOWN_YET) if each.code in _UNKNOWN else each
            for each in answer.errors
        )
        return replace(answer, errors=tuple(errors))
