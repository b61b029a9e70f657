"""The user's home on an EBS volume.

A block device is mounted. A directory instead (the embedded EC2 simulates volumes as directories)
is linked. A home of kind `none` is the directory in the image.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import stat
from pathlib import Path

from ...wire import HomeMount
from ..command import run
from ..settings import NotebookUser
from .ebs_volume import VolumeError, find_volume
from .mount_points import chown_contents, link_in_place_of, remove_link, unmount

log = logging.getLogger(__name__)

VOLUME_SECONDS = 120.0
"""How long to wait for the volume to appear after the hub has attached it; EC2 takes 2 to 20 s."""

DEVICE_SECONDS = 20.0
"""For opening a device, and for flushing one that is in use after all."""

DEVICE_PAUSES = (0.0, 0.1, 0.4, 1.0)
"""Before each attempt to open it: a program of the system may look at it for a moment."""

BLANK_BYTES = 1024 * 1024
"""A new EBS volume reads as zeros; every file system has data within this range."""

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
        self._is_linked = False
        self._device: Path | None = None
        """What was mounted, or may have been."""

    async def mount(self) -> None:
        """Mount the home of the lease. Raises `HomeError`."""
        try:
            await self._mount()
        except OSError as error:
            raise HomeError(f"the home cannot be used: {error}") from error

    async def _mount(self) -> None:
        if self._kind == "none":
            await asyncio.to_thread(self._use_image_home)
            return
        volume = await self._wait_for_volume()
        if volume.is_dir():
            await asyncio.to_thread(self._link, volume)
        else:
            await self._mount_device(volume)

    async def release(self) -> None:
        """Flush and unmount. The user's processes must have ended.

        Raises `HomeError` if it was still in use, or may be; its data is flushed even then.
        """
        if self._is_linked:
            await self._unlink()
        elif self._device is not None:
            output = await unmount(self._user.home) or await self._why_in_use(self._device)
            if output:
                raise HomeError(f"the home was still in use when it was unmounted: {output}")

    async def _wait_for_volume(self) -> Path:
        try:
            return await find_volume(self._devices, self._volume_id, VOLUME_SECONDS)
        except VolumeError as error:
            raise HomeError(f"the home cannot be mounted: {error}") from error

    # --- a directory -------------------------------------------------------------------------

    def _use_image_home(self) -> None:
        home = self._user.home
        if not home.exists():
            home.mkdir(parents=True, mode=0o700)
            self._fill_new_home(home)
        self._give_to_user(home)

    def _link(self, volume: Path) -> None:
        target = volume.resolve()
        link_in_place_of(self._user.home, target)
        self._is_linked = True
        if not any(target.iterdir()):
            self._fill_new_home(target)
        self._give_to_user(target)

    async def _unlink(self) -> None:
        """Flush, as unmounting does, and remove the link."""
        status, output = await run("sync", "--file-system", str(self._user.home))
        if status != 0:
            raise HomeError(f"the home was not flushed: {output}")
        await asyncio.to_thread(remove_link, self._user.home)
        self._is_linked = False

    # --- a block device ----------------------------------------------------------------------

    async def _why_in_use(self, device: Path) -> str:
        """Why an unmounted device cannot be detached yet; empty if it can be.

        A container of the user may still have it mounted, and a command that was stuck in the
        kernel may still write to it: neither is in this process's list of mounts.
        """
        try:
            async with asyncio.timeout(DEVICE_SECONDS):
                for pause in DEVICE_PAUSES:
                    await asyncio.sleep(pause)
                    if await asyncio.to_thread(_opens_exclusively, device):
                        return ""
        except TimeoutError:
            return f"{device.name} does not respond"
        await run("sync", seconds=DEVICE_SECONDS)
        return "something else still has it mounted, such as a container"

    async def _mount_device(self, device: Path) -> None:
        self._device = device
        home = str(self._user.home)
        is_new = await self._format_if_blank(device)
        status, output = await run("e2fsck", "-p", str(device))
        if status >= 4:
            raise HomeError(f"the home volume {self._volume_id} has errors: {output}")
        await asyncio.to_thread(self._user.home.mkdir, parents=True, exist_ok=True)
        status, output = await run("mount", "-o", "noatime,nodev,nosuid", str(device), home)
        if status != 0:
            raise HomeError(f"the home volume {self._volume_id} cannot be mounted: {output}")
        await self._grow_file_system(device)
        if is_new:
            await asyncio.to_thread(self._fill_new_home, self._user.home)
        await asyncio.to_thread(self._give_to_user, self._user.home)

    async def _grow_file_system(self, device: Path) -> None:
        """Grow the file system if the volume was enlarged; it never shrinks."""
        status, output = await run("resize2fs", str(device))
        if status != 0:
            log.warning("the file system of %s was not grown: %s", self._volume_id, output)

    async def _format_if_blank(self, device: Path) -> bool:
        """Format a volume only if two independent checks find it blank; True if it was."""
        status, output = await run("blkid", "-p", "-o", "value", "-s", "TYPE", str(device))
        if status == 0:
            return False
        if status != 2 or not await asyncio.to_thread(_reads_as_zeros, device):
            raise HomeError(
                f"the home volume {self._volume_id} holds unknown data and is not formatted: "
                f"{output or 'no file system found'}"
            )
        status, output = await run(
            "mkfs.ext4", "-q", "-m", "0", "-L", "home", "-E", "nodiscard", str(device)
        )
        if status != 0:
            raise HomeError(f"no file system could be made on {self._volume_id}: {output}")
        return True

    # --- both --------------------------------------------------------------------------------

    def _fill_new_home(self, home: Path) -> None:
        """Copy the skeleton into a new home, as `useradd` would."""
        lost_and_found = home / "lost+found"
        if lost_and_found.is_dir():
            # It only clutters the file browser, and e2fsck recreates it when needed.
            lost_and_found.rmdir()
        if SKELETON.is_dir():
            shutil.copytree(SKELETON, home, symlinks=True, dirs_exist_ok=True)
        # The top folder of a new file system is 0755, and copying the skeleton copies its mode.
        home.chmod(0o700)
        if not self._user.is_agent:
            chown_contents(home, self._user.uid, self._user.gid)

    def _give_to_user(self, home: Path) -> None:
        """Give the top folder to the user; what is below it already belongs to them."""
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


def _opens_exclusively(device: Path) -> bool:
    """Whether nothing has the device mounted, in any namespace: the kernel lets one user have it
    exclusively (see open(2), O_EXCL)."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno != errno.EBUSY:
            log.warning("%s cannot be opened: %s", device, error)
        return error.errno in {errno.ENOENT, errno.ENXIO}
    return True
