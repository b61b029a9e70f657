"""EBS snapshots: moto's records, folders with the files, and a register that persists.

moto's snapshots are complete at once and empty. Here a snapshot takes time, and contains a copy of
its volume's files as of the call.
"""

from __future__ import annotations

import asyncio
import copy
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ..api import pagination
from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..runtime.instance_runtime import InstanceRuntime

SECONDS = 2.0
"""Seconds from the call until a snapshot is complete. Simulated: EC2 takes minutes to hours."""

MAX_PENDING = 5
"""Pending snapshots of one gp2 or gp3 volume, from "Quotas for Amazon EBS"."""


@dataclass
class _Copy:
    completes_at: float
    """On the clock."""
    stored_bytes: int


class Snapshots:
    """Answers the actions on snapshots."""

    def __init__(
        self,
        moto: Moto,
        runtime: InstanceRuntime,
        register: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._moto = moto
        self._runtime = runtime
        self._register = register
        self._clock = clock
        self._copies: dict[str, _Copy] = {}
        self._lock = asyncio.Lock()

    async def restore(self) -> None:
        """Load the snapshots of the last run. Raises ValueError for a damaged register."""
        if not self._register.exists():
            return
        try:
            saved = json.loads(self._register.read_text())["snapshots"]
        except (ValueError, KeyError) as error:
            raise ValueError(f"{self._register} is damaged: {error}") from error
        await self._moto.run(lambda: self._restore(saved))

    async def create(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """CreateSnapshot: files are copied before it answers; it is pending for `SECONDS`."""
        volume_id = parameters.get("VolumeId", "")
        async with self._lock:
            await self._moto.run(lambda: self._check_room_for(volume_id))
            answer = await self._moto.call("CreateSnapshot", **parameters)
            snapshot_id = answer["SnapshotId"]
            stored = await self._runtime.create_snapshot(volume_id, snapshot_id)
            self._copies[snapshot_id] = _Copy(self._clock() + SECONDS, stored)
            await self._moto.run(lambda: self._freeze(snapshot_id))
            await self._moto.run(self._save)
        return self._as_it_is(answer)

    async def describe(
        self, parameters: Mapping[str, Any], hides: Callable[[str], bool] = lambda _: False
    ) -> dict[str, Any]:
        """DescribeSnapshots, a page at a time, with progress in percent; without the ids that
        `hides` names."""
        page = pagination.asked("DescribeSnapshots", parameters)
        await self._moto.run(self._complete)
        asked = {name: v for name, v in parameters.items() if name in ("Filters", "SnapshotIds")}
        answer = await self._moto.call("DescribeSnapshots", **asked)
        found = answer.get("Snapshots", ())
        shown, token = page.of([each for each in found if not hides(each["SnapshotId"])])
        following = {"NextToken": token} if token else {}
        return {"Snapshots": [self._as_it_is(each) for each in shown], **following}

    async def delete(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """DeleteSnapshot; volumes that were made from it keep their files."""
        snapshot_id = parameters.get("SnapshotId", "")
        async with self._lock:
            await self._moto.call("DeleteSnapshot", SnapshotId=snapshot_id)
            if self._copies.pop(snapshot_id, None) is not None:
                await self._moto.run(self._save)
                await self._runtime.delete_snapshot(snapshot_id)
        return {}

    async def check_source(self, snapshot_id: str, size_gib: int | None) -> None:
        """Raises CreateVolume's errors if a volume cannot be created from it."""
        found = await self.describe({"SnapshotIds": [snapshot_id]})
        snapshot = found["Snapshots"][0]
        if snapshot["State"] != "completed":
            raise EC2Error(
                "IncorrectState", f"Snapshot '{snapshot_id}' is in invalid state - pending"
            )
        if size_gib is not None and size_gib < snapshot["VolumeSize"]:
            raise EC2Error(
                "InvalidParameterValue",
                f"Volume of {size_gib}GiB is smaller than snapshot '{snapshot_id}', "
                f"expect size >= {snapshot['VolumeSize']}GiB",
            )

    def holds(self, snapshot_id: str) -> bool:
        """Whether it has files: moto's own snapshots have none."""
        return snapshot_id in self._copies

    # --- in moto's thread --------------------------------------------------------------------

    def _check_room_for(self, volume_id: str) -> None:
        self._complete()
        pending = [
            snapshot
            for snapshot in self._moto.backend.snapshots.values()
            if snapshot.volume_id == volume_id and snapshot.status == "pending"
        ]
        if len(pending) >= MAX_PENDING:
            raise EC2Error(
                "ConcurrentSnapshotLimitExceeded",
                f"Maximum allowed in-progress snapshots for a single volume: {volume_id}",
            )

    def _freeze(self, snapshot_id: str) -> None:
        """Keep the volume's attributes as of now: the volume may grow."""
        snapshot = self._moto.backend.snapshots[snapshot_id]
        snapshot.volume = copy.copy(snapshot.volume)
        snapshot.status = "pending"

    def _complete(self) -> None:
        now = self._clock()
        for snapshot_id, made in self._copies.items():
            if now >= made.completes_at:
                self._moto.backend.snapshots[snapshot_id].status = "completed"

    def _save(self) -> None:
        backend = self._moto.backend
        saved = [
            {
                "id": snapshot_id,
                "volume": backend.snapshots[snapshot_id].volume.id,
                "size": backend.snapshots[snapshot_id].volume.size,
                "zone": backend.snapshots[snapshot_id].volume.availability_zone,
                "encrypted": backend.snapshots[snapshot_id].encrypted,
                "description": backend.snapshots[snapshot_id].description,
                "started": backend.snapshots[snapshot_id].start_time.isoformat(),
                "tags": dict(backend.tags.get(snapshot_id, {})),
                "stored": made.stored_bytes,
            }
            for snapshot_id, made in sorted(self._copies.items())
        ]
        draft = self._register.with_suffix(".new")
        draft.write_text(json.dumps({"snapshots": saved}, indent=1))
        draft.replace(self._register)

    def _restore(self, snapshots: Sequence[Mapping[str, Any]]) -> None:
        """With their old ids, which no API accepts; their volumes may no longer exist."""
        backend = self._moto.backend
        for saved in snapshots:
            volume = backend.create_volume(
                zone_name=saved["zone"], size=saved["size"], encrypted=saved["encrypted"]
            )
            snapshot = backend.create_snapshot(volume.id, saved["description"])
            del backend.volumes[volume.id], backend.snapshots[snapshot.id]
            volume.id, snapshot.id = saved["volume"], saved["id"]
            snapshot.start_time = datetime.fromisoformat(saved["started"])
            backend.snapshots[snapshot.id] = snapshot
            backend.create_tags([snapshot.id], saved["tags"])
            self._copies[snapshot.id] = _Copy(0.0, saved["stored"])

    # --- as EC2 shows it ---------------------------------------------------------------------

    def _as_it_is(self, snapshot: Mapping[str, Any]) -> dict[str, Any]:
        made = self._copies.get(snapshot["SnapshotId"])
        if made is None:
            return dict(snapshot)
        left = made.completes_at - self._clock()
        done = left <= 0
        percent = 100 if done else max(0, min(99, int(100 * (1 - left / SECONDS))))
        answer = {
            **snapshot,
            "State": "completed" if done else "pending",
            "Progress": f"{percent}%",
        }
        return {**answer, "FullSnapshotSizeInBytes": made.stored_bytes} if done else answer
