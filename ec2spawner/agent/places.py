"""Where things are mounted: folders that no user can have bent, made and let go.

The agent is root and its users are not to be trusted: nothing here follows a link that they could
have put in its way.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from pathlib import Path

from .command import run

UMOUNT_TRIES = 6


class MountError(Exception):
    """Something cannot be mounted or let go; the message is for people and says why."""


def make_mount_point(root: Path, path: str, home: Path) -> Path:
    """The folder `path` below `root`, made where it is missing. Raises `MountError`.

    No part of it may be a link, or a folder in which somebody else could put one; and it is
    neither in the home nor above it.
    """
    parts = [part for part in path.split("/") if part]
    place = root.joinpath(*parts)
    if (
        not parts
        or ".." in parts
        or place == home
        or home in place.parents
        or place in home.parents
    ):
        raise MountError(f"{path} is no place for a mount")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, part in enumerate(parts, 1):
            make_folder(folder, part, mode=0o755)
            below = open_folder(folder, part, path=path)
            os.close(folder)
            folder = below
            facts = os.fstat(folder)
            if _is_others(facts) and number < len(parts):
                raise MountError(f"{path}: somebody else could replace what is below {part}")
    finally:
        os.close(folder)
    return place


def _is_others(folder: os.stat_result) -> bool:
    """Whether anybody but root, or who we are, may put something into it."""
    return bool(
        folder.st_uid not in {0, os.geteuid()}
        or folder.st_mode & stat.S_IWOTH
        or (folder.st_mode & stat.S_IWGRP and folder.st_gid not in {0, os.getegid()})
    )


def make_folder(parent: int, name: str, mode: int) -> bool:
    """False where there is something of that name already."""
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        return False
    return True


def open_folder(parent: int, name: str, *, path: str) -> int:
    """A descriptor of the folder `name` in `parent`.

    Raises `MountError` where it is a link or no folder; `path` is for its message.
    """
    try:
        return os.open(
            name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent
        )
    except OSError as error:
        raise MountError(f"{path}: {name} is a link or no folder ({error.strerror})") from error


def link_in_place_of(place: Path, target: Path) -> None:
    """`place` becomes a link; what was there is hidden, as a mount would hide it."""
    if place.is_symlink():
        place.unlink()
    elif place.is_dir() and any(place.iterdir()):
        place.rename(place.with_name(f"{place.name}.image"))
    elif place.is_dir():
        place.rmdir()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target, target_is_directory=True)


def _is_mounted(place: Path) -> bool:
    try:
        place.lstat()
    except OSError as error:
        # What was mounted by a program that has died is there still, and answers so.
        return error.errno == errno.ENOTCONN
    return os.path.ismount(place)


async def unmount(place: Path) -> str:
    """Let go of what is mounted there, which writes everything down; nothing there is no error.

    What umount said where it was still in use: then it is flushed, gone from there all the same,
    and what holds it can no longer open anything below it. Else empty.
    """
    if not await asyncio.to_thread(_is_mounted, place):
        return ""
    said = ""
    for attempt in range(UMOUNT_TRIES):
        status, said = await run("umount", "--recursive", str(place))
        if status == 0:
            return ""
        await asyncio.sleep(0.1 * (attempt + 1))
    await asyncio.to_thread(os.sync)
    await run("umount", "--lazy", str(place))
    return said or "umount failed"
