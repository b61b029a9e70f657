"""Placement groups, which moto lacks: made, listed, deleted, and launched into.

Codes and messages from EC2's answers and "Error codes for the Amazon EC2 API"; rules from
"Placement strategies for your placement groups" in the EC2 User Guide.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..api.protocol import EC2Error
from ..market.capacity import Offer
from ..market.type_facts import instance_type_facts
from ..read_lag import NO_PLACEMENT_GROUP, ReadLag
from .lifecycle import Lifecycles

STRATEGY: Final = "cluster"
"""The one that is here; EC2 has more."""

MAX_LENGTH: Final = 255
"""ASCII characters of a name."""

MAX_GROUPS: Final = 500
"""Of an account in a region, from "Amazon EC2 service quotas"."""


@dataclass(frozen=True, slots=True)
class PlacementGroup:
    """One that exists; it is available at once."""

    name: str
    group_id: str
    tags: Mapping[str, str]


FILTERS: Final[Mapping[str, Callable[[PlacementGroup], str]]] = {
    "group-name": lambda group: group.name,
    "state": lambda group: "available",
    "strategy": lambda group: STRATEGY,
}
"""Of those that EC2 documents; it has more."""


class PlacementGroups:
    """Answers the actions on placement groups, and judges launches into them."""

    def __init__(self, region: str, account: str, lifecycles: Lifecycles, lag: ReadLag) -> None:
        self._region = region
        self._account = account
        self._lifecycles = lifecycles
        self._lag = lag
        self._groups: dict[str, PlacementGroup] = {}
        """By name."""
        self._launching: Counter[tuple[str, str]] = Counter()
        """Launches under way, by name of the group and zone."""

    # --- the actions ---

    async def create(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """CreatePlacementGroup, of the strategy `cluster`."""
        await self.check_create(parameters)
        given = parameters.get("TagSpecifications") or ()
        tags = {tag["Key"]: tag.get("Value", "") for each in given for tag in each.get("Tags", ())}
        group_id = f"pg-{secrets.token_hex(9)[:17]}"
        group = PlacementGroup(parameters["GroupName"], group_id, tags)
        self._groups[group.name] = group
        self._lag.created(group.group_id)
        return {"PlacementGroup": self._shown(group)}

    async def check_create(self, parameters: Mapping[str, Any]) -> None:
        """Raises EC2's error for a group that cannot be made."""
        name, strategy = parameters.get("GroupName") or "", parameters.get("Strategy") or ""
        for parameter, value in (("GroupName", name), ("Strategy", strategy)):
            if not value:
                message = f"The request must contain the parameter {parameter}"
                raise EC2Error("MissingParameter", message)
        if strategy != STRATEGY:
            message = f"The embedded EC2 has placement groups of strategy {STRATEGY} only."
            raise EC2Error("UnsupportedOperation", message)
        others = parameters.keys() - {"DryRun", "GroupName", "Strategy", "TagSpecifications"}
        if others:
            message = f"The embedded EC2 has no placement groups with {', '.join(sorted(others))}."
            raise EC2Error("UnsupportedOperation", message)
        if len(name) > MAX_LENGTH or not name.isascii():
            message = f"Value ({name}) for parameter groupName is invalid."
            raise EC2Error("InvalidParameterValue", message)
        kinds = {each.get("ResourceType") for each in parameters.get("TagSpecifications") or ()}
        if kinds - {"placement-group"}:
            message = f"'{kinds}' is not a valid taggable resource type for this operation."
            raise EC2Error("InvalidParameterValue", message)
        if name in self._groups:
            message = f"The Placement Group '{name}' already exists."
            raise EC2Error("InvalidPlacementGroup.Duplicate", message)
        if len(self._groups) >= MAX_GROUPS:
            message = "You have reached the limit of placement groups."
            raise EC2Error("PlacementGroupLimitExceeded", message)

    async def delete(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """DeletePlacementGroup, by name."""
        await self.check_delete(parameters)
        self._groups.pop(parameters["GroupName"])
        return {}

    async def check_delete(self, parameters: Mapping[str, Any]) -> None:
        """Raises EC2's error for a group that is not there, or in use."""
        name = parameters.get("GroupName") or ""
        if not name:
            message = "The request must contain the parameter GroupName"
            raise EC2Error("MissingParameter", message)
        self.check_exists(name)
        if self._zones(name):
            message = f"The placement group '{name}' is in use and may not be deleted."
            raise EC2Error("InvalidPlacementGroup.InUse", message)

    async def describe(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """DescribePlacementGroups, which has no pages, by names and by `FILTERS` and tags."""
        names: Sequence[str] = parameters.get("GroupNames") or ()
        for name in names:
            self.check_exists(name)
        found = [
            group
            for group in self._groups.values()
            if not self._lag.hides(group.group_id) and (not names or group.name in names)
        ]
        for asked in parameters.get("Filters") or ():
            value_of = _filter(asked["Name"])
            found = [
                group
                for group in found
                if (value := value_of(group)) is not None
                and any(_matches(pattern, value) for pattern in asked.get("Values") or ())
            ]
        return {"PlacementGroups": [self._shown(group) for group in found]}

    def _shown(self, group: PlacementGroup) -> dict[str, Any]:
        arn = f"arn:aws:ec2:{self._region}:{self._account}:placement-group/{group.name}"
        return {
            "GroupName": group.name,
            "State": "available",
            "Strategy": STRATEGY,
            "GroupId": group.group_id,
            "GroupArn": arn,
            "Tags": [{"Key": key, "Value": value} for key, value in group.tags.items()],
        }

    # --- for launches and their authorization ---

    def tags(self, name: str) -> Mapping[str, str] | None:
        """Of the group; None where there is no such group."""
        group = self._groups.get(name)
        return group.tags if group is not None else None

    def check_exists(self, name: str) -> None:
        """Raises `InvalidPlacementGroup.Unknown`, also for one that this call does not know yet."""
        group = self._groups.get(name)
        if group is None or self._lag.hides(group.group_id):
            message = f"The Placement Group '{name}' is unknown."
            raise EC2Error(NO_PLACEMENT_GROUP, message)

    def check_offer(self, name: str, offer: Offer) -> None:
        """Raises EC2's error for an offer that cannot be in the group: of a type without support
        for it, or in another zone than its instances."""
        if not instance_type_facts(offer.instance_type, self._region).fits_cluster_placement:
            raise EC2Error(
                "InvalidParameterCombination",
                f"Cluster placement groups are not supported by the '{offer.instance_type}' "
                "instance type. Specify a supported instance type or change the placement group "
                "strategy, and try again.",
            )
        if others := self._zones(name) - {offer.zone}:
            raise EC2Error(
                "InvalidPlacementGroup.InUse",
                f"The placement group '{name}' is in use in another availability zone: "
                f"{min(others)}",
            )

    @contextlib.contextmanager
    def launching(self, name: str, offer: Offer) -> Iterator[None]:
        """A launch into the group is under way; without a name, into none."""
        if name:
            self.check_offer(name, offer)
        place = name, offer.zone
        self._launching[place] += 1
        try:
            yield
        finally:
            self._launching[place] -= 1

    def _zones(self, name: str) -> set[str]:
        """Those of the group's instances: one that shuts down is still in it."""
        under_way = {
            zone for (group, zone), number in self._launching.items() if group == name and number
        }
        return under_way | {
            each.offer.zone
            for each in self._lifecycles.all()
            if each.state != "terminated" and each.moto_instance.placement.group_name == name
        }


def _filter(name: str) -> Callable[[PlacementGroup], str | None]:
    if name.startswith("tag:"):
        return lambda group: group.tags.get(name.removeprefix("tag:"))
    if name not in FILTERS:
        message = f"The embedded EC2 does not filter placement groups by {name}."
        raise EC2Error("UnsupportedOperation", message)
    return FILTERS[name]


def _matches(pattern: str, value: str) -> bool:
    """With EC2's wildcards, which a backslash escapes."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"*": ".*", "?": "."}
    regex = "".join(wild.get(part, re.escape(part.removeprefix("\\"))) for part in parts)
    return re.fullmatch(regex, value, re.DOTALL) is not None
