"""The instance store as scratch: fast local disks, empty at each start of an instance.

Each disk has its own file system: the first at the path of the lease, the next at that path with
-2, -3 and so on. They are not joined, so no RAID tools are needed. A directory instead of a disk
(the embedded EC2) is linked.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from ..command import run
from ..settings import Settings
from .mount_points import (
    MountError,
    bind,
    link_in_place_of,
    make_folder,
    make_mount_point,
    open_folder,
    unmount,
)

PATTERN = "nvme-Amazon_EC2_NVMe_Instance_Storage_*"
"""Udev's names for disks of the model `Amazon EC2 NVMe Instance Storage`."""

LABEL = "scratch"

IMAGES_OWN = Path("/opt/dlami/nvme")
"""Where AWS's Deep Learning AMIs mount the instance store, with all disks joined."""

README = """\
These files do not last.

This is the instance store: a fast disk of the machine itself. It is empty whenever the machine
starts, and what is on it is gone when your server's machine stops or ends, without a copy
anywhere. Use it for what can be made or fetched again: unpacked data sets, caches, temporary
files. Keep results in your home.
"""


class Scratch:
    """The instance store: each disk formatted as ext4 and owned by the notebook user."""

    def __init__(self, path: str, settings: Settings, images_own: Path = IMAGES_OWN) -> None:
        self.name = f"the scratch disk at {path}"
        self._path = path
        self._settings = settings
        self._images_own = images_own
        self._mounted: list[Path] = []

    @property
    def place(self) -> Path | None:
        """The mount point of the first disk; None without an instance store."""
        return self._mounted[0] if self._mounted else None

    async def mount(self) -> None:
        """Mount all disks of the instance store, if any. Raises `MountError`."""
        disks = await asyncio.to_thread(self._disks)
        if not disks:
            return
        if await asyncio.to_thread(self._images_own.is_mount):
            await self._use_image_mount()
            return
        for number, disk in enumerate(disks, 1):
            path = self._path if number == 1 else f"{self._path}-{number}"
            await self._mount_disk(disk, path)

    def _disks(self) -> list[Path]:
        """The disks. Udev has several links for one disk, and one for each partition."""
        links = self._settings.devices.glob(PATTERN)
        return sorted({link.resolve() for link in links if "-part" not in link.name})

    async def _mount_disk(self, disk: Path, path: str) -> None:
        place = self._settings.root.joinpath(path.lstrip("/"))
        if await asyncio.to_thread(disk.is_dir):
            if not await asyncio.to_thread(place.is_symlink):
                await self._make(path)
                await asyncio.to_thread(link_in_place_of, place, disk)
            await asyncio.to_thread(self._give, disk)
            self._mounted.append(place)
            return
        await self._make_file_system(disk)
        await self._make(path)
        options = "noatime,nodev,nosuid"
        status, output = await run("mount", "-o", options, str(disk), str(place))
        if status != 0:
            raise MountError(output)
        self._mounted.append(place)
        await asyncio.to_thread(self._give, place)

    async def _make_file_system(self, disk: Path) -> None:
        """Unless there is ours, from before a reboot. Anything else is left alone."""
        status, _ = await run("blkid", "-p", str(disk))
        if status == 0:
            _, label = await run("blkid", "-p", "-o", "value", "-s", "LABEL", str(disk))
            if label != LABEL:
                raise MountError(f"{disk.name} is in use by the image")
            return
        if status != 2:
            raise MountError(f"the contents of {disk.name} cannot be read")
        status, output = await run(
            "mkfs.ext4", "-q", "-m", "0", "-L", LABEL, "-E", "nodiscard", str(disk)
        )
        if status != 0:
            raise MountError(f"no file system could be made on {disk.name}: {output}")

    async def _use_image_mount(self) -> None:
        place = await self._make(self._path)
        folder = await asyncio.to_thread(self._open_own)
        try:
            await bind(folder, place)
        finally:
            os.close(folder)
        self._mounted.append(place)
        await asyncio.to_thread(self._give, place)

    def _open_own(self) -> int:
        disks = os.open(self._images_own, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            make_folder(disks, LABEL, mode=0o755)
            return open_folder(disks, LABEL, path=str(self._images_own))
        finally:
            os.close(disks)

    async def _make(self, path: str) -> Path:
        home = self._settings.user.home
        return await asyncio.to_thread(make_mount_point, self._settings.root, path, home)

    def _give(self, folder: Path) -> None:
        """Give the folder to the user, with a README about its lifetime."""
        user = self._settings.user
        if folder.stat().st_uid == user.uid and any(folder.iterdir()):
            return
        with suppress(FileExistsError), (folder / "README.txt").open("x", encoding="utf-8") as file:
            file.write(README)
        if not user.is_agent:
            os.chown(folder, user.uid, user.gid)

    async def release(self) -> None:
        """Raises `MountError` if one was still in use."""
        outputs = [await unmount(place) for place in reversed(self._mounted)]
        if in_use := " ".join(filter(None, outputs)):
            raise MountError(in_use)
