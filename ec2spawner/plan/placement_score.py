"""EC2's forecast of whether spot capacity is there."""

from __future__ import annotations

from collections.abc import Sequence

from ..aws.calls.client import Answer, Client


async def placement_score(client: Client, types: Sequence[str], number: int) -> int | None:
    """1 (unlikely) to 10 (likely) for so many spot instances of these types in the region; None
    where EC2 gives none. Raises `CloudError`, also without `ec2:GetSpotPlacementScores`, which the
    hub's policy has no room for."""
    return await client.call(
        "get_spot_placement_scores",
        _best,
        InstanceTypes=list(types),
        TargetCapacity=number,
        TargetCapacityUnitType="units",
        RegionNames=[client.region],
    )


def _best(answer: Answer) -> int | None:
    return max((int(each["Score"]) for each in answer["SpotPlacementScores"]), default=None)
