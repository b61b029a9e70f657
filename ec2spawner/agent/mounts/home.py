"""The user's home: a volume, found by its serial, that becomes a directory of theirs.

A block device is mounted. A directory in its place (the embedded EC2 keeps a volume as a folder)
is linked. A home of kind `none` is the directory that the image has.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import stat
from pathlib import Path

from ...wire import HomeMount
from ..command import run
from ..settings import NotebookUser
from .ebs_volume import VolumeError, find_volume
from .mount_points import give_all_below, link_in_place_of, unmount

log = logging.getLogger(__name__)

VOLUME_SECONDS = 120.0
"""How long to wait for the volume to appear after the hub has attached it; EC2 takes 2 to 20 s."""

BLANK_BYTES = 1024 * 1024
"""A new EBS volume reads as zeros; every file system has written something by here."""

SKELETON = Path("/etc/skel")


class HomeError(Exception):
    """The home cannot be used; the message is for people and says why."""


class Home:
    """The home of one lease. `mount` once, then `release` once."""

    def __init__(self, mount: HomeMount, devices: Path, user: NotebookUser) -> None:
        self._kind = mount.kind
        self._volume_id = mount.volume_id or ""
        self._devices = devices
        self._user = user

    async def mount(self) -> None:
        """Make the user's home what the lease says. Raises `HomeError`."""
        try:
            await self._mount()
        except OSError as error:
            raise HomeError(f"the home cannot be used: {error}") from error

    async def _mount(self) -> None:
        if self._kind == "none":
            await asyncio.to_thread(self._use_the_images_own)
            return
        volume = await self._wait_for_volume()
        if volume.is_dir():
            await asyncio.to_thread(self._link, volume)
        else:
            await self._mount_device(volume)

    async def release(self) -> None:
        """Let go of the volume, which writes everything down. The user's processes must be gone.

        Raises `HomeError` when it is still in use; its data is flushed even then.
        """
        if self._kind == "none":
            return
        if said := await unmount(self._user.home):
            raise HomeError(f"the home was still in use and was detached anyway: {said}")

    async def _wait_for_volume(self) -> Path:
        try:
            return await find_volume(self._devices, self._volume_id, VOLUME_SECONDS)
        except VolumeError as error:
            raise HomeError(f"the home cannot be mounted: {error}") from error

    # --- a directory -------------------------------------------------------------------------

    def _use_the_images_own(self) -> None:
        home = self._user.home
        if not home.exists():
            home.mkdir(parents=True, mode=0o700)
            self._furnish(home)
        self._give_to_user(home)

    def _link(self, volume: Path) -> None:
        target = volume.resolve()
        link_in_place_of(self._user.home, target)
        if not any(target.iterdir()):
            self._furnish(target)
        self._give_to_user(target)

    # --- a block device ----------------------------------------------------------------------

    async def _mount_device(self, device: Path) -> None:
        home = str(self._user.home)
        is_new = await self._make_file_system_where_blank(device)
        status, said = await run("e2fsck", "-p", str(device))
        if status >= 4:
            raise HomeError(f"the home volume {self._volume_id} has errors: {said}")
        await asyncio.to_thread(self._user.home.mkdir, parents=True, exist_ok=True)
        status, said = await run("mount", "-o", "noatime,nodev,nosuid", str(device), home)
        if status != 0:
            raise HomeError(f"the home volume {self._volume_id} cannot be mounted: {said}")
        await self._fill_the_volume(device)
        if is_new:
            await asyncio.to_thread(self._furnish, self._user.home)
        await asyncio.to_thread(self._give_to_user, self._user.home)

    async def _fill_the_volume(self, device: Path) -> None:
        """The file system grows with a volume that was made larger; it never shrinks."""
        status, said = await run("resize2fs", str(device))
        if status != 0:
            log.warning("the file system of %s was not grown: %s", self._volume_id, said)

    async def _make_file_system_where_blank(self, device: Path) -> bool:
        """Only what holds nothing at all is formatted: two independent looks must agree."""
        status, said = await run("blkid", "-p", "-o", "value", "-s", "TYPE", str(device))
        if status == 0:
            return False
        if status != 2 or not await asyncio.to_thread(_reads_as_zeros, device):
            raise HomeError(
                f"the home volume {self._volume_id} holds something that is no file system, "
                f"and is left alone: {said or 'no file system found'}"
            )
        status, said = await run(
            "mkfs.ext4", "-q", "-m", "0", "-L", "home", "-E", "nodiscard", str(device)
        )
        if status != 0:
            raise HomeError(f"no file system could be made on {self._volume_id}: {said}")
        return True

    # --- what both need ----------------------------------------------------------------------

    def _furnish(self, home: Path) -> None:
        """What a new home has on this system, as `useradd` would put it there."""
        lost_and_found = home / "lost+found"
        if lost_and_found.is_dir():
            # Nobody wants to see it in the file browser, and e2fsck makes it again at need.
            lost_and_found.rmdir()
        if SKELETON.is_dir():
            shutil.copytree(SKELETON, home, symlinks=True, dirs_exist_ok=True)
        # A new file system's top folder is 0755, and the skeleton's own mode is copied with it.
        home.chmod(0o700)
        if not self._user.is_agent:
            give_all_below(home, self._user.uid, self._user.gid)

    def _give_to_user(self, home: Path) -> None:
        """The top folder belongs to the user; below it they are its master since long."""
        if not self._user.is_agent:
            folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fchown(folder, self._user.uid, self._user.gid)
            finally:
                os.close(folder)


def _reads_as_zeros(device: Path) -> bool:
    with device.open("rb") as file:
        if not stat.S_ISBLK(os.fstat(file.fileno()).st_mode):
            raise HomeError(f"{device.name} is neither a block device nor a directory")
        beginning = file.read(BLANK_BYTES)
    return len(beginning) == BLANK_BYTES and not any(beginning)
