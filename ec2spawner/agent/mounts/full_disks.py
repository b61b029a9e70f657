"""Detects full disks, on which nothing can be saved."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ...wire import Code, DiskUse, LeaseGrant, Sentence, sentence
from ...wire.telemetry import MAX_DISKS, DiskKind
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


def disk_uses(settings: Settings, grant: LeaseGrant) -> list[DiskUse]:
    """How full the disks of this lease are. Blocks while one does not respond.

    The system disk of a simulated instance is its host's, with which its user has nothing to do.
    """
    root, home = settings.root, settings.user.home
    disks: list[tuple[DiskKind, str, Path, bool]] = [("system", "/", root, True)]
    if grant.home.kind == "ebs":
        disks.append(("home", str(home), home, True))
    disks += [("data", each.path, _inside(root, each.path), False) for each in grant.data]
    if grant.scratch:
        disks.append(("scratch", grant.scratch, _inside(root, grant.scratch), True))
    found: dict[int, DiskUse] = {}
    for kind, path, place, is_writable in disks:
        with suppress(OSError):
            # What could not be mounted is on the system disk.
            if (device := place.stat().st_dev) not in found:
                found[device] = _use(kind, path, place, is_writable)
    is_real = settings.metadata_is_amazon
    return [each for each in found.values() if is_real or each.kind != "system"][:MAX_DISKS]


def _inside(root: Path, path: str) -> Path:
    return root.joinpath(path.lstrip("/"))


def _use(kind: DiskKind, path: str, place: Path, is_writable: bool) -> DiskUse:
    """As `df` computes it: what is reserved for root is neither used nor free. Raises `OSError`."""
    disk = os.statvfs(place)
    return DiskUse(
        kind=kind,
        path=path[:200],
        used_percent=_percent(disk.f_blocks - disk.f_bfree, disk.f_bavail),
        free_bytes=disk.f_bavail * disk.f_frsize,
        inodes_percent=_percent(disk.f_files - disk.f_ffree, disk.f_favail)
        if disk.f_files
        else None,
        is_writable=is_writable,
    )


def _percent(used: int, free: int) -> float:
    return round(100 * used / (used + free), 1) if used + free > 0 else 0.0


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
