"""An S3 bucket, mounted with Mountpoint for Amazon S3 and the instance's role."""

from __future__ import annotations

import asyncio

from ...wire import BucketMount
from ..command import NOT_FOUND, run
from ..settings import Settings
from .mount_points import MountError, make_mount_point, unmount

MOUNT_SECONDS = 30.0
"""Mountpoint gets credentials and lists the bucket before it reports success."""


class Bucket:
    """An S3 bucket, mounted with Mountpoint as the role of the instance profile."""

    def __init__(self, mount: BucketMount, settings: Settings) -> None:
        self.name = f"the bucket {mount.bucket} at {mount.path}"
        self._mount = mount
        self._settings = settings
        self._place = settings.root.joinpath(mount.path.lstrip("/"))

    async def mount(self) -> None:
        """Raises `MountError`."""
        home = self._settings.user.home
        await asyncio.to_thread(make_mount_point, self._settings.root, self._mount.path, home)
        status, output = await run(*self._command(), seconds=MOUNT_SECONDS)
        if status == NOT_FOUND:
            raise MountError(
                "the image has no mount-s3: install Mountpoint for Amazon S3 in it. Amazon Linux "
                "has the package mount-s3; for Ubuntu and Debian it is on AWS's own site only"
            )
        if status != 0:
            raise MountError(output or f"mount-s3 ended with status {status}")

    def _command(self) -> list[str]:
        user = self._settings.user
        argv = ["mount-s3", "--allow-other", "--uid", str(user.uid), "--gid", str(user.gid)]
        if self._mount.prefix:
            argv += ["--prefix", self._mount.prefix]
        if self._mount.read_only:
            argv += ["--read-only"]
        else:
            argv += ["--allow-delete", "--allow-overwrite"]
        return [*argv, self._mount.bucket, str(self._place)]

    async def release(self) -> None:
        """Raises `MountError` if it was still in use. Closed files are uploaded before."""
        if output := await unmount(self._place):
            raise MountError(output)
