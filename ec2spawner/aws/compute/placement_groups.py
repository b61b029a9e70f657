"""Placement groups of clusters: make, list, delete.

EC2 has no client token for CreatePlacementGroup: its name, unique in the account and region, is
what makes it idempotent. The group that a repetition finds is used only if it has the tags that it
would get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...core.offers.launch_errors import PLACEMENT_GROUP_UNKNOWN
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.cloud.network import PlacementGroup
from ..calls.client import Answer, Client, entries
from ..tags import from_ec2, literal, of_hub, to_ec2
from .new_groups import NewGroups

STRATEGY: Final = "cluster"
"""Close together in one zone; the others spread instances over hardware."""

_EXISTS: Final = "InvalidPlacementGroup.Duplicate"
_USABLE: Final = "available"


class PlacementGroups:
    """Placement groups of one region."""

    client: Client
    new_groups: NewGroups

    async def create_placement_group(self, name: str, tags: Mapping[str, str]) -> None:
        """A placement group that puts its instances close together, in one zone."""
        try:
            await self.client.do("create_placement_group", **placement_group_request(name, tags))
        except CloudError as error:
            if error.code != _EXISTS:
                raise
            await self._check_made_before(name, tags, error)
        self.new_groups.add(name)

    async def list_placement_groups(self, hub: str) -> list[PlacementGroup]:
        """The hub's groups, which EC2 lists on one page. Raises `CloudError`."""
        return await self._placement_groups(of_hub(hub))

    async def delete_placement_group(self, name: str) -> None:
        """Delete; one that does not exist is no error, one that is in use is."""
        await self.client.do(
            "delete_placement_group", ignore={PLACEMENT_GROUP_UNKNOWN}, GroupName=name
        )

    async def _check_made_before(
        self, name: str, tags: Mapping[str, str], error: CloudError
    ) -> None:
        """Raises the refusal if the group by which EC2 refuses another one is somebody else's, and
        a retryable error while it is not listed yet or cannot be used."""
        found = await self._placement_groups([{"Name": "group-name", "Values": [literal(name)]}])
        if found and not tags.items() <= found[0].tags.items():
            raise error
        state = found[0].state if found else "not listed yet"
        if state != _USABLE:
            raise CloudError(error.code, f"{error.message}; it is {state}", retryable=True)

    async def _placement_groups(self, filters: Sequence[Mapping[str, Any]]) -> list[PlacementGroup]:
        return await self.client.call(
            "describe_placement_groups",
            entries("PlacementGroups", _placement_group),
            Filters=filters,
        )


def placement_group_request(name: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """CreatePlacementGroup's parameters."""
    return {
        "GroupName": name,
        "Strategy": STRATEGY,
        "TagSpecifications": [{"ResourceType": "placement-group", "Tags": to_ec2(tags)}],
    }


def _placement_group(group: Answer) -> PlacementGroup:
    return PlacementGroup(group["GroupName"], group.get("State") or "", from_ec2(group))
