"""Creates and unmounts mount points safely.

The agent is root and users are untrusted: nothing here follows a link that a user could have
created.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from pathlib import Path
from typing import Final

from ...core.sleep.step_budgets import FLUSH_SECONDS
from ..command import TIMED_OUT, run

log = logging.getLogger(__name__)

UMOUNT_TRIES: Final = 6

UMOUNT_SECONDS: Final = FLUSH_SECONDS
"""For all tries together, as long as the hub waits."""

LAZY_SECONDS: Final = 10.0
"""For a lazy unmount, which does not wait for open files."""

MOUNTS = Path("/proc/self/mountinfo")

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
"""How the kernel escapes spaces and similar characters in it."""


class MountError(Exception):
    """A mount or unmount failed; the message is for people and gives the reason."""


def make_mount_point(root: Path, path: str, home: Path) -> Path:
    """The folder `path` below `root`, created if missing. Raises `MountError`.

    No part of it may be a link, or a folder in which other users could create one. It must be
    neither inside the home nor above it.
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
        raise MountError(f"{path} is not a valid mount point")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, part in enumerate(parts, 1):
            make_folder(folder, part, mode=0o755)
            below = open_folder(folder, part, path=path)
            os.close(folder)
            folder = below
            facts = os.fstat(folder)
            if _is_writable_by_others(facts) and number < len(parts):
                raise MountError(f"{path}: other users could replace what is below {part}")
    finally:
        os.close(folder)
    return place


def _is_writable_by_others(folder: os.stat_result) -> bool:
    """Whether users other than root and the agent's may create entries in it."""
    return bool(
        folder.st_uid not in {0, os.geteuid()}
        or folder.st_mode & stat.S_IWOTH
        or (folder.st_mode & stat.S_IWGRP and folder.st_gid not in {0, os.getegid()})
    )


def make_folder(parent: int, name: str, mode: int) -> bool:
    """Create a folder; False if the name exists."""
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        return False
    return True


def open_folder(parent: int, name: str, *, path: str) -> int:
    """A descriptor of the folder `name` in `parent`.

    Raises `MountError` if it is a link or not a folder; `path` is for the message.
    """
    try:
        return os.open(
            name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent
        )
    except OSError as error:
        raise MountError(f"{path}: {name} is a link or not a folder ({error.strerror})") from error


async def bind(folder: int, place: Path) -> None:
    """Bind-mount an open folder at `place`. Raises `MountError`.

    By descriptor: a name could have been replaced by a link.
    """
    argv = ("mount", "--no-canonicalize", "--bind", f"/proc/self/fd/{folder}", str(place))
    status, output = await run(*argv, pass_fds=(folder,))
    if status != 0:
        raise MountError(output)


async def make_read_only(place: Path) -> None:
    """Let nothing be written through the bind mount at `place`. Raises `MountError`."""
    status, output = await run("mount", "-o", "remount,bind,ro", str(place))
    if status != 0:
        raise MountError(output)


def chown_contents(folder: Path, uid: int, gid: int) -> None:
    """Change the owner of everything in a folder; of links themselves, not of their targets.

    By descriptors, because a user who may write there could replace a folder by a link.
    """
    for _, folders, files, opened in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, uid, gid, dir_fd=opened, follow_symlinks=False)


def link_in_place_of(place: Path, target: Path) -> None:
    """Make `place` a link; what was there is renamed, as a mount would hide it."""
    if place.is_symlink():
        place.unlink()
    elif place.is_dir() and any(place.iterdir()):
        place.rename(place.with_name(f"{place.name}.image"))
    elif place.is_dir():
        place.rmdir()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target, target_is_directory=True)


def remove_link(place: Path) -> None:
    """Undo `link_in_place_of`, as unmounting shows what a mount hid."""
    place.unlink()
    hidden = place.with_name(f"{place.name}.image")
    if hidden.is_dir():
        hidden.rename(place)
    else:
        place.mkdir(mode=0o700)


def is_mounted(place: Path) -> bool:
    """Whether the kernel lists it as a mount point. Accessing the place itself could block
    indefinitely if the file server does not respond."""
    real = str(place.parent.resolve() / place.name)
    points = (line.split()[4] for line in MOUNTS.read_text(errors="replace").splitlines())
    return any(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), each) == real for each in points)


async def unmount(place: Path, seconds: float = UMOUNT_SECONDS) -> str:
    """Unmount `place`, which flushes it; does nothing if it is not a mount point.

    Returns an empty string, or umount's output if the mount was still in use or unmounting took
    longer than `seconds`. In that case it is unmounted lazily: open files stay usable, but nothing
    else below it can be opened. A mount in use is flushed before, one that hangs cannot be.
    """
    if not await asyncio.to_thread(is_mounted, place):
        return ""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    status, output = 0, ""
    for attempt in range(UMOUNT_TRIES):
        left = max(deadline - loop.time(), 0.0)
        status, output = await run("umount", "--recursive", str(place), seconds=left)
        if status in {0, TIMED_OUT}:
            break
        await asyncio.sleep(0.1 * (attempt + 1))
    if status == 0:
        return ""
    if status == TIMED_OUT:
        log.error("%s: umount has hung for %.0f s; unmounting lazily", place, seconds)
    else:
        left = max(deadline - loop.time(), 0.0)
        await run("sync", "--file-system", str(place), seconds=left)
    await run("umount", "--lazy", "--no-canonicalize", str(place), seconds=LAZY_SECONDS)
    return output or "umount failed"
