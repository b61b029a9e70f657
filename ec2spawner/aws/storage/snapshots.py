"""EBS snapshots: create, list, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC

from ...provisioner.model.cloud.volume import VolumeSnapshot
from ..calls.client import Answer, Client, entries
from ..tags import from_ec2, of_hub, to_ec2

GIB = 1024**3


class Snapshots:
    """EBS snapshots of one region."""

    client: Client

    async def create_snapshot(self, volume_id: str, tags: Mapping[str, str]) -> VolumeSnapshot:
        """One attempt only: CreateSnapshot has no ClientToken, so a repetition may make a second
        one. A snapshot of a lost response is found by its tags."""
        return await self.client.call(
            "create_snapshot",
            _snapshot,
            attempts=1,
            VolumeId=volume_id,
            Description="ec2spawner: a home",
            TagSpecifications=[{"ResourceType": "snapshot", "Tags": to_ec2(tags)}],
        )

    async def list_snapshots(self, hub: str) -> list[VolumeSnapshot]:
        """Every snapshot with the hub's tag. Raises `CloudError` unless complete."""
        found = await self.client.pages(
            "describe_snapshots",
            entries("Snapshots", _snapshot),
            Filters=of_hub(hub),
            OwnerIds=["self"],
        )
        return list({snapshot.snapshot_id: snapshot for snapshot in found}.values())

    async def snapshot_sizes(self, snapshot_ids: Sequence[str]) -> dict[str, int]:
        """Snapshot id -> GiB of its volume, of any account that shares it with this one."""
        # As a filter: an unknown id matches nothing; as a parameter it fails the call.
        wanted = [{"Name": "snapshot-id", "Values": sorted(set(snapshot_ids))}]
        found = await self.client.pages(
            "describe_snapshots", entries("Snapshots", _snapshot), Filters=wanted
        )
        return {snapshot.snapshot_id: snapshot.size_gib for snapshot in found}

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete; one that does not exist is no error."""
        gone = {"InvalidSnapshot.NotFound"}
        await self.client.do("delete_snapshot", ignore=gone, SnapshotId=snapshot_id)


def _snapshot(snapshot: Answer) -> VolumeSnapshot:
    stored = snapshot.get("FullSnapshotSizeInBytes")
    said = str(snapshot.get("Progress", "")).rstrip("%")
    return VolumeSnapshot(
        snapshot_id=snapshot["SnapshotId"],
        volume_id=snapshot.get("VolumeId", ""),
        state=snapshot["State"],
        percent=int(said) if said.isdecimal() else 0,
        started_at=snapshot["StartTime"].astimezone(UTC),
        size_gib=snapshot["VolumeSize"],
        stored_gib=None if stored is None else stored / GIB,
        tags=from_ec2(snapshot),
    )
