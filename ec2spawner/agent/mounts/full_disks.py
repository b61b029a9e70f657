"""Disks that are full: why nothing can be saved, in words for who tries to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..settings import Settings

FULL_BYTES = 32 * 2**20
"""With less than this free, a notebook with its pictures may not be saved."""

GIB = 2**30


def full_disks(settings: Settings, home_kind: str) -> str:
    """Which disks are full and what to do; empty while none is. Reads the disks."""
    return " ".join(_sentences(settings, home_kind))


def _sentences(settings: Settings, home_kind: str) -> Iterator[str]:
    home = settings.user.home
    # EFS has no end, and asking a file system on the network may take for ever.
    if home_kind == "ebs" and not _is_same(home, settings.root) and (why := _why_full(home)):
        yield (
            f"Your home {why}: what you save may be lost. Delete what you do not need, or ask for "
            "a larger home."
        )
    if why := _why_full(settings.root):
        yield (
            f"The machine's own disk {why}. Delete what you do not need outside your home, such "
            "as in /tmp."
        )


def _why_full(place: Path) -> str:
    try:
        disk = os.statvfs(place)
    except OSError:
        return ""
    if disk.f_bavail * disk.f_frsize < FULL_BYTES:
        return f"is full ({disk.f_blocks * disk.f_frsize / GIB:.0f} GiB)"
    if disk.f_files and not disk.f_favail:
        return "has no room for more files, however small"
    return ""


def _is_same(one: Path, other: Path) -> bool:
    """Whether they are on one disk, or one is not there at all."""
    try:
        return one.stat().st_dev == other.stat().st_dev
    except OSError:
        return True
