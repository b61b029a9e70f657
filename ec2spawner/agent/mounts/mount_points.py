"""Where things are mounted: folders that no user can have bent, made and let go.

The agent is root and its users are not to be trusted: nothing here follows a link that they could
have put in its way.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from pathlib import Path
from typing import Final

from ..command import COMMAND_SECONDS, TIMED_OUT, run

log = logging.getLogger(__name__)

UMOUNT_TRIES: Final = 6

UMOUNT_SECONDS: Final = COMMAND_SECONDS
"""For all tries together: what a machine with much memory has not written yet takes minutes."""

LAZY_SECONDS: Final = 10.0
"""To take a mount out of sight, which waits for nobody."""

MOUNTS = Path("/proc/self/mountinfo")

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
"""How the kernel writes spaces and the like there."""


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


def give_all_below(folder: Path, uid: int, gid: int) -> None:
    """What is in a folder becomes somebody's, links themselves and not where they lead.

    By descriptors: whoever may write there could put a link in place of a folder meanwhile.
    """
    for _, folders, files, opened in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, uid, gid, dir_fd=opened, follow_symlinks=False)


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


def is_mounted(place: Path) -> bool:
    """As the kernel's own list says: to access the place itself could hang, if the file server
    does not answer."""
    real = str(place.parent.resolve() / place.name)
    points = (line.split()[4] for line in MOUNTS.read_text(errors="replace").splitlines())
    return any(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), each) == real for each in points)


async def unmount(place: Path, seconds: float = UMOUNT_SECONDS) -> str:
    """Let go of what is mounted there, which writes everything down; nothing there is no error.

    What umount said where it was still in use, or did not come to an end within `seconds`: then it
    is gone from there anyway, and what holds it can no longer open anything below it. What
    was in use is flushed, what hangs cannot be. Else empty.
    """
    if not await asyncio.to_thread(is_mounted, place):
        return ""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    status, said = 0, ""
    for attempt in range(UMOUNT_TRIES):
        left = max(deadline - loop.time(), 0.0)
        status, said = await run("umount", "--recursive", str(place), seconds=left)
        if status in {0, TIMED_OUT}:
            break
        await asyncio.sleep(0.1 * (attempt + 1))
    if status == 0:
        return ""
    if status == TIMED_OUT:
        log.error("%s: umount hangs since %.0f s; it is let go without it", place, seconds)
    else:
        left = max(deadline - loop.time(), 0.0)
        await run("sync", "--file-system", str(place), seconds=left)
    await run("umount", "--lazy", "--no-canonicalize", str(place), seconds=LAZY_SECONDS)
    return said or "umount failed"
