"""The instance store as scratch: fast disks of the machine, empty at each start of an instance.

Each disk is a file system of its own: the first at the path that the lease names, the next ones
at that path with -2, -3 and so on. Nothing joins them, so nothing has to be installed for it. A
directory in place of a disk (the embedded EC2) is linked.
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
"""Where AWS's Deep Learning AMIs put the instance store themselves, all disks joined."""

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
        """Where the first disk is; None on a machine without one."""
        return self._mounted[0] if self._mounted else None

    async def mount(self) -> None:
        """Mount what disks there are; none is no error. Raises `MountError`."""
        disks = await asyncio.to_thread(self._disks)
        if not disks:
            return
        if await asyncio.to_thread(self._images_own.is_mount):
            await self._use_the_images_own()
            return
        for number, disk in enumerate(disks, 1):
            path = self._path if number == 1 else f"{self._path}-{number}"
            await self._mount_disk(disk, path)

    def _disks(self) -> list[Path]:
        """Udev has several names for one disk, and one for each partition."""
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
        status, said = await run("mount", "-o", options, str(disk), str(place))
        if status != 0:
            raise MountError(said)
        self._mounted.append(place)
        await asyncio.to_thread(self._give, place)

    async def _make_file_system(self, disk: Path) -> None:
        """Unless there is ours, from before a reboot. Anything else is left alone."""
        status, _ = await run("blkid", "-p", str(disk))
        if status == 0:
            _, label = await run("blkid", "-p", "-o", "value", "-s", "LABEL", str(disk))
            if label != LABEL:
                raise MountError(f"{disk.name} is in use by something of the image's own")
            return
        if status != 2:
            raise MountError(f"the content of {disk.name} is unknown")
        status, said = await run(
            "mkfs.ext4", "-q", "-m", "0", "-L", LABEL, "-E", "nodiscard", str(disk)
        )
        if status != 0:
            raise MountError(f"no file system could be made on {disk.name}: {said}")

    async def _use_the_images_own(self) -> None:
        place = await self._make(self._path)
        folder = await asyncio.to_thread(self._open_own)
        try:
            # By its descriptor: where users may write, a name could have become a link.
            status, said = await run(
                "mount",
                "--no-canonicalize",
                "--bind",
                f"/proc/self/fd/{folder}",
                str(place),
                pass_fds=(folder,),
            )
        finally:
            os.close(folder)
        if status != 0:
            raise MountError(said)
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
        """To the user, with a word of warning, while nobody else can write there."""
        user = self._settings.user
        if folder.stat().st_uid == user.uid and any(folder.iterdir()):
            return
        with suppress(FileExistsError), (folder / "README.txt").open("x", encoding="utf-8") as file:
            file.write(README)
        if not user.is_agent:
            os.chown(folder, user.uid, user.gid)

    async def release(self) -> None:
        """Raises `MountError` when one was still in use."""
        said = [await unmount(place) for place in reversed(self._mounted)]
        if in_use := " ".join(filter(None, said)):
            raise MountError(in_use)
