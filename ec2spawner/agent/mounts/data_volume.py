"""A shared data set: a read-only volume, created from a snapshot at the instance's launch.

A directory instead of a device (the embedded EC2 simulates volumes as directories) is linked.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from ...wire import DataMount
from ..command import run
from ..settings import Settings
from .ebs_volume import VolumeError, find_volume
from .mount_points import MountError, link_in_place_of, make_mount_point, unmount

VOLUME_SECONDS = 30.0
"""The volume is attached before the instance boots; udev may take a moment."""

WITHOUT_REPLAY = {
    "ext3": ",noload",
    "ext4": ",noload",
    "xfs": ",norecovery,nouuid",
    "btrfs": ",rescue=nologreplay",
}
"""Options that skip the journal of a snapshot of a mounted file system: replaying it writes."""


class DataVolume:
    """A volume made from a snapshot, mounted read-only without replaying its journal."""

    def __init__(self, mount: DataMount, settings: Settings) -> None:
        self.name = f"the data at {mount.path}"
        self._mount = mount
        self._settings = settings
        self._place = settings.root.joinpath(mount.path.lstrip("/"))

    async def mount(self) -> None:
        """Raises `MountError`."""
        try:
            device = await find_volume(
                self._settings.devices, self._mount.volume_id, VOLUME_SECONDS
            )
        except VolumeError as error:
            raise MountError(str(error)) from error
        if await asyncio.to_thread(self._place.is_symlink) and device.is_dir():
            return  # linked for an earlier lease of this instance
        home = self._settings.user.home
        place = await asyncio.to_thread(
            make_mount_point, self._settings.root, self._mount.path, home
        )
        if device.is_dir():
            await asyncio.to_thread(link_in_place_of, place, device.resolve())
        else:
            await self._mount_device(device, place)

    async def _mount_device(self, device: Path, place: Path) -> None:
        _, kind = await run("blkid", "-p", "-o", "value", "-s", "TYPE", str(device))
        if not kind:
            raise MountError(
                f"the snapshot of {self._mount.volume_id} holds no file system; partitions are "
                "not supported"
            )
        options = f"ro,nosuid,nodev,noatime{WITHOUT_REPLAY.get(kind, '')}"
        status, output = await run("mount", "-t", kind, "-o", options, str(device), str(place))
        if status != 0:
            raise MountError(output)

    async def release(self) -> None:
        """Raises `MountError` if it was still in use."""
        if output := await unmount(self._place):
            raise MountError(output)
