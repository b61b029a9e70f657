"""A home on EFS: the user's own folder on a file system that all instances share.

The file system is mounted where only root can read, and the user's folder is bind-mounted as the
home. Root on any instance can read and write all of it, so it is mounted for no user who can become
root; and because another image may differ, its contents are untrusted: no link is followed. A
directory instead of the file system (the embedded EC2) is linked.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import ExitStack
from pathlib import Path

from ...core.partitions import dns_suffix
from ...wire import HomeMount
from ..command import TIMED_OUT, run
from ..settings import Settings
from .home import SKELETON, HomeError
from .mount_points import (
    MountError,
    bind,
    chown_contents,
    link_in_place_of,
    make_folder,
    make_read_only,
    open_folder,
    unmount,
)
from .nfs_firewall import keep_users_from_nfs
from .root_access import ways_to_root

MOUNT_SECONDS = 60.0
"""Mounting takes two seconds; a firewall in between drops packets without an error."""

UMOUNT_SECONDS = 60.0
"""A `hard` mount waits indefinitely for a file system that does not respond. What has not been
written within this time is lost, so that the instance can be terminated."""

NFS = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport"
"""What AWS recommends for EFS without its mount helper."""

SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


class EfsHome:
    """The home of one lease. `mount` once, then `release` once."""

    def __init__(self, mount: HomeMount, settings: Settings, region: str) -> None:
        self._mount = mount
        self._settings = settings
        self._user = settings.user
        self._region = region
        self._base = settings.run_dir / "efs"

    async def mount(self) -> None:
        """Mount the home of the lease. Raises `HomeError`."""
        try:
            if self._settings.file_systems is not None:
                await asyncio.to_thread(self._link, self._settings.file_systems)
            else:
                await self._keep_apart()
                await self._mount_file_system()
                await self._bind_folder()
        except (OSError, MountError) as error:
            raise HomeError(f"the home cannot be used: {error}") from error

    async def release(self) -> None:
        """Flush and unmount. The user's processes must have ended.

        Raises `HomeError` if it was still in use; its data is flushed even then.
        """
        if self._settings.file_systems is not None:
            return
        output = await unmount(self._user.home, UMOUNT_SECONDS)
        await unmount(self._base, UMOUNT_SECONDS)
        if output:
            raise HomeError(f"the home was still in use when it was unmounted: {output}")

    async def _keep_apart(self) -> None:
        """Raises `HomeError` if the notebook user could reach other users' homes."""
        if ways := await ways_to_root(self._user):
            raise HomeError(
                f"homes are on EFS, where root on an instance can read those of all users, and the "
                f"notebook user {self._user.name} can become root here: {', '.join(ways)}. It was "
                "not mounted. Please tell an admin: use an image whose notebook user cannot become "
                'root, or homes of kind "ebs"'
            )
        await keep_users_from_nfs()

    # --- the file system ---------------------------------------------------------------------

    async def _mount_file_system(self) -> None:
        await asyncio.to_thread(self._base.mkdir, mode=0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(self._base.chmod, 0o700)
        if missing := self._missing():
            raise HomeError(f"{missing}. Please tell an admin")
        status, output = await run(*self._command(), seconds=MOUNT_SECONDS)
        if status == TIMED_OUT:
            raise HomeError(
                f"{self._mount.file_system} did not answer in {MOUNT_SECONDS:.0f} s: it needs a "
                "mount target in this zone, whose security group lets TCP 2049 in from instances"
            )
        if status != 0:
            raise HomeError(f"{self._mount.file_system} cannot be mounted: {output}")

    def _missing(self) -> str:
        """Name what the image lacks to mount the file system, and where that comes from; empty for
        nothing."""
        if self._mount.tls and shutil.which("mount.efs", path=SYSTEM_PATH) is None:
            return (
                "the image has no amazon-efs-utils, which mounts the home over TLS. Amazon Linux "
                "has the package; for Ubuntu and Debian it is built from github.com/aws/efs-utils. "
                'Install it in the image, or allow plain NFS with "tls": False in c.EC2Spawner.home'
            )
        if shutil.which("mount.nfs4", path=SYSTEM_PATH) is None:
            return (
                "the image has no NFS client (mount.nfs4), which mounts the home: install the "
                "package nfs-common of Ubuntu and Debian, nfs-utils of Amazon Linux, in the image"
            )
        return ""

    def _command(self) -> list[str]:
        mount = self._mount
        if not mount.tls:
            server = f"{mount.file_system}.efs.{self._region}.{dns_suffix(self._region)}:/"
            options = f"{NFS},nodev,nosuid,noatime"
            return ["mount", "-t", "nfs4", "-o", options, server, str(self._base)]
        options = "tls,nodev,nosuid,noatime"
        if mount.iam:
            options += ",iam"
        if mount.access_point:
            options += f",accesspoint={mount.access_point}"
        return ["mount", "-t", "efs", "-o", options, f"{mount.file_system}:/", str(self._base)]

    # --- the user's folder -------------------------------------------------------------------

    async def _bind_folder(self) -> None:
        folder, is_new = await asyncio.to_thread(self._open_home, self._base)
        try:
            await asyncio.to_thread(self._user.home.mkdir, parents=True, exist_ok=True)
            await bind(folder, self._user.home)
        finally:
            os.close(folder)
        if self._mount.read_only:
            await make_read_only(self._user.home)
        elif is_new:
            await self._fill_new_home()

    def _open_home(self, base: Path) -> tuple[int, bool]:
        """A descriptor of the user's own folder, and whether it was just created."""
        *above, own = self._mount.directory.strip("/").split("/")
        if not own or {"", ".", ".."} & {*above, own}:
            raise MountError(f"the lease names no folder: {self._mount.directory!r}")
        with ExitStack() as opened:
            folder = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, folder)
            for part in above:
                make_folder(folder, part, mode=0o711)
                folder = open_folder(folder, part, path=self._mount.directory)
                opened.callback(os.close, folder)
            is_new = make_folder(folder, own, mode=0o700)
            home = open_folder(folder, own, path=self._mount.directory)
        try:
            self._give_to_user(home, is_new)
        except BaseException:
            os.close(home)
            raise
        return home, is_new

    def _give_to_user(self, home: int, is_new: bool) -> None:
        owner = os.fstat(home).st_uid
        if owner == self._user.uid:
            return
        if not is_new and owner != os.geteuid():
            raise MountError(
                f"{self._mount.directory} on {self._mount.file_system} belongs to user {owner}, "
                f"and the notebook user is {self._user.uid}"
            )
        try:
            os.fchown(home, self._user.uid, self._user.gid)
        except PermissionError:
            raise MountError(
                f"new files on {self._mount.file_system} belong to user {owner}: set the access "
                f"point's user to the notebook user, {self._user.uid}, or give the role of "
                "instances elasticfilesystem:ClientRootAccess"
            ) from None

    async def _fill_new_home(self) -> None:
        """Copy the skeleton into a new home, as the user: root writes nothing into a home."""
        if SKELETON.is_dir():
            is_agent = self._user.is_agent
            await run(
                "cp",
                "--recursive",
                "--no-clobber",
                "--no-dereference",
                f"{SKELETON}/.",
                str(self._user.home),
                user=None if is_agent else self._user.uid,
                group=None if is_agent else self._user.gid,
            )

    # --- the embedded EC2: a directory instead of the file system ----------------------------

    def _link(self, file_systems: Path) -> None:
        base = file_systems / self._mount.file_system
        if not base.is_dir():
            raise MountError(
                f"{self._mount.file_system} has no mount target here: its name does not resolve"
            )
        folder = base.joinpath(*self._mount.directory.strip("/").split("/"))
        if base not in folder.resolve().parents:
            raise MountError(f"the lease names no folder: {self._mount.directory!r}")
        for parent in reversed(folder.relative_to(base).parents[:-1]):
            (base / parent).mkdir(mode=0o711, exist_ok=True)
        if not folder.exists():
            folder.mkdir(mode=0o700)
            if SKELETON.is_dir():
                shutil.copytree(SKELETON, folder, symlinks=True, dirs_exist_ok=True)
            folder.chmod(0o700)  # copied from the skeleton, too
        if not self._user.is_agent:
            # User ids differ between simulated instances, not between real ones of one image.
            chown_contents(folder, self._user.uid, self._user.gid)
            os.lchown(folder, self._user.uid, self._user.gid)
        link_in_place_of(self._user.home, folder)
