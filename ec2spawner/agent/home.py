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

from ..wire import HomeMount
from .settings import NotebookUser

log = logging.getLogger(__name__)

VOLUME_SECONDS = 120.0
"""How long to wait for the volume to appear after the hub has attached it; EC2 takes 2 to 20 s."""

COMMAND_SECONDS = 300.0
"""For one of mkfs, fsck, mount and umount; a check of a large file system takes a while."""

BLANK_BYTES = 1024 * 1024
"""A new EBS volume reads as zeros; every file system has written something by here."""

UMOUNT_TRIES = 6

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
        if self._kind == "none" or not await asyncio.to_thread(os.path.ismount, self._user.home):
            return
        for attempt in range(UMOUNT_TRIES):
            status, said = await _command("umount", "--recursive", str(self._user.home))
            if status == 0:
                return
            await asyncio.sleep(0.1 * (attempt + 1))
        # What holds it can no longer open anything below it, and what was written is flushed.
        await asyncio.to_thread(os.sync)
        await _command("umount", "--lazy", str(self._user.home))
        raise HomeError(f"the home was still in use and was let go all the same: {said}")

    async def _wait_for_volume(self) -> Path:
        if not self._volume_id.startswith("vol-") or not self._volume_id[4:].isalnum():
            raise HomeError(f"the lease names no volume: {self._volume_id!r}")
        serial = self._volume_id.replace("-", "", 1)
        path = self._devices / f"nvme-Amazon_Elastic_Block_Store_{serial}"
        try:
            async with asyncio.timeout(VOLUME_SECONDS):
                # Udev tells nobody who does not listen to it as root, so it is looked for.
                while not await asyncio.to_thread(path.exists):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise HomeError(
                f"the home volume {self._volume_id} did not appear in {VOLUME_SECONDS:.0f} s"
            ) from None
        return path

    # --- a directory -------------------------------------------------------------------------

    def _use_the_images_own(self) -> None:
        home = self._user.home
        if not home.exists():
            home.mkdir(parents=True, mode=0o700)
            self._furnish(home)
        self._give_to_user(home)

    def _link(self, volume: Path) -> None:
        """The home becomes a link; what the image had there is hidden, as a mount would hide it."""
        home, target = self._user.home, volume.resolve()
        if home.is_symlink():
            home.unlink()
        elif home.is_dir() and any(home.iterdir()):
            home.rename(home.with_name(f"{home.name}.image"))
        elif home.is_dir():
            home.rmdir()
        home.parent.mkdir(parents=True, exist_ok=True)
        home.symlink_to(target, target_is_directory=True)
        if not any(target.iterdir()):
            self._furnish(target)
        self._give_to_user(target)

    # --- a block device ----------------------------------------------------------------------

    async def _mount_device(self, device: Path) -> None:
        home = str(self._user.home)
        is_new = await self._make_file_system_where_blank(device)
        status, said = await _command("e2fsck", "-p", str(device))
        if status >= 4:
            raise HomeError(f"the home volume {self._volume_id} has errors: {said}")
        await asyncio.to_thread(self._user.home.mkdir, parents=True, exist_ok=True)
        status, said = await _command("mount", "-o", "noatime,nodev,nosuid", str(device), home)
        if status != 0:
            raise HomeError(f"the home volume {self._volume_id} cannot be mounted: {said}")
        if is_new:
            await asyncio.to_thread(self._furnish, self._user.home)
        await asyncio.to_thread(self._give_to_user, self._user.home)

    async def _make_file_system_where_blank(self, device: Path) -> bool:
        """Only what holds nothing at all is formatted: two independent looks must agree."""
        status, said = await _command("blkid", "-p", "-o", "value", "-s", "TYPE", str(device))
        if status == 0:
            return False
        if status != 2 or not await asyncio.to_thread(_reads_as_zeros, device):
            raise HomeError(
                f"the home volume {self._volume_id} holds something that is no file system, "
                f"and is left alone: {said or 'no file system found'}"
            )
        status, said = await _command(
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
        if not self._user.is_agent:
            for folder, names, files in os.walk(home):
                for name in (*names, *files):
                    os.lchown(Path(folder, name), self._user.uid, self._user.gid)

    def _give_to_user(self, home: Path) -> None:
        """The top folder belongs to the user; below it they are its master since long."""
        if not self._user.is_agent:
            os.chown(home, self._user.uid, self._user.gid)


def _reads_as_zeros(device: Path) -> bool:
    with device.open("rb") as file:
        if not stat.S_ISBLK(os.fstat(file.fileno()).st_mode):
            raise HomeError(f"{device.name} is neither a block device nor a directory")
        beginning = file.read(BLANK_BYTES)
    return len(beginning) == BLANK_BYTES and not any(beginning)


async def _command(*argv: str) -> tuple[int, str]:
    """Exit status and what the command said, both outputs together."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        return 127, str(error)
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            output, _ = await process.communicate()
    except (TimeoutError, asyncio.CancelledError) as error:
        process.kill()
        await process.wait()
        if isinstance(error, asyncio.CancelledError):
            raise
        return 124, f"{argv[0]} took more than {COMMAND_SECONDS:.0f} s"
    return process.returncode or 0, output.decode(errors="replace").strip()[-300:]
