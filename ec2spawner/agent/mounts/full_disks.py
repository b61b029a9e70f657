"""Detects full disks, on which nothing can be saved."""

from __future__ import annotations

import os
from pathlib import Path

from ...wire import Code, Sentence, sentence
from ..settings import Settings

FULL_BYTES = 32 * 2**20
"""With less free space than this, saving a notebook with images may fail."""

GIB = 2**30


def full_disks(settings: Settings, home_kind: str) -> list[Sentence]:
    """Which disks are full. Blocks while a disk does not respond."""
    found = []
    home = settings.user.home
    # EFS has no size limit, and a network file system may never respond.
    if home_kind == "ebs" and not home_is_on_system_disk(settings):
        found.append(_why_full(home, "home-full", "home-without-inodes"))
    found.append(_why_full(settings.root, "system-disk-full", "system-disk-without-inodes"))
    return [each for each in found if each is not None]


def _why_full(place: Path, full: Code, without_inodes: Code) -> Sentence | None:
    try:
        disk = os.statvfs(place)
    except OSError:
        return None
    if disk.f_bavail * disk.f_frsize < FULL_BYTES:
        return sentence(full, gib=round(disk.f_blocks * disk.f_frsize / GIB))
    if disk.f_files and not disk.f_favail:
        return sentence(without_inodes)
    return None


def home_is_on_system_disk(settings: Settings) -> bool:
    """Whether the home is on the system disk, or one of them cannot be read."""
    try:
        return settings.user.home.stat().st_dev == settings.root.stat().st_dev
    except OSError:
        return True
