"""EBS snapshots: create, list, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC

from ..provisioner.model.cloud import CloudError, VolumeSnapshot
from .client import Answer, Client
from .tags import from_ec2, of_hub, to_ec2

GIB = 1024**3


async def create_snapshot(
    client: Client, volume_id: str, tags: Mapping[str, str]
) -> VolumeSnapshot:
    """One attempt only: CreateSnapshot has no ClientToken, so a repetition may make a second one.
    A snapshot of a lost response is found by its tags."""
    return await client.call(
        "create_snapshot",
        _snapshot,
        attempts=1,
        VolumeId=volume_id,
        Description="ec2spawner: a home",
        TagSpecifications=[{"ResourceType": "snapshot", "Tags": to_ec2(tags)}],
    )


async def list_snapshots(client: Client, hub: str) -> list[VolumeSnapshot]:
    """Every snapshot with the hub's tag. Raises `CloudError` unless complete."""
    found = await client.pages(
        "describe_snapshots", _snapshots, Filters=of_hub(hub), OwnerIds=["self"]
    )
    return list({snapshot.snapshot_id: snapshot for snapshot in found}.values())


async def delete_snapshot(client: Client, snapshot_id: str) -> None:
    """Delete; one that does not exist is no error."""
    try:
        await client.call("delete_snapshot", lambda _: None, SnapshotId=snapshot_id)
    except CloudError as error:
        if error.code != "InvalidSnapshot.NotFound":
            raise


def _snapshots(answer: Answer) -> Sequence[VolumeSnapshot]:
    return [_snapshot(snapshot) for snapshot in answer["Snapshots"]]


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
