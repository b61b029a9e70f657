"""The alarm of a disk that is nearly full. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ...wire import DiskUse
from ..text.untrusted import visible
from .alarm import Alarm, AlarmRules, Kind
from .server_rules import server_name

NEARLY_FULL: Final = 90.0
"""Percent: users are warned from here on, admins from `AlarmRules.disk_used` on."""

MIN_FREE_BYTES: Final = {"system": 2 * 2**30}
"""With more free space a disk is not nearly full, whatever its percentage: an image may fill most
of a system disk on which nothing grows."""

DEFAULT_MIN_FREE_BYTES: Final = 10 * 2**30

_WHAT_TO_DO = {
    "home": "Nothing can be saved in a full home. Ask the user to delete files, or offer a larger "
    "home for the next start.",
    "system": "The user's programs, or what the image writes, fill the disk of the instance. The "
    "next start has a new one; a larger one is `disk_gib` of the profile.",
    "scratch": "It is empty at the next start. Ask the user to delete files there.",
    "data": "Ask the user to delete files there.",
}


@dataclass(frozen=True, slots=True)
class ServerDisks:
    """The disks of a ready server, as its agent last described them."""

    lease_id: str
    user: str
    server: str
    """As in `GpuServer`."""
    disks: Sequence[DiskUse]


def disks_nearly_full(found: ServerDisks, rules: AlarmRules, now: datetime) -> list[Alarm]:
    """One alarm a day for each kind of disk that can be written and is nearly full."""
    alarms: dict[str, Alarm] = {}
    for disk in found.disks:
        if is_nearly_full(disk, rules.disk_used) and disk.kind not in alarms:
            alarms[disk.kind] = _alarm(found, disk, now)
    return list(alarms.values())


def is_nearly_full(disk: DiskUse, percent: float = NEARLY_FULL) -> bool:
    """Whether a disk lacks space or inodes, or soon will."""
    return lacks_space(disk, percent) or lacks_inodes(disk, percent)


def lacks_space(disk: DiskUse, percent: float = NEARLY_FULL) -> bool:
    """Whether `percent` of the space of a disk that can be written is used, and little is left."""
    enough = MIN_FREE_BYTES.get(disk.kind, DEFAULT_MIN_FREE_BYTES)
    return disk.is_writable and disk.used_percent >= percent and disk.free_bytes < enough


def lacks_inodes(disk: DiskUse, percent: float = NEARLY_FULL) -> bool:
    """Whether `percent` of the inodes of a disk that can be written are used."""
    return disk.is_writable and (disk.inodes_percent or 0.0) >= percent


def fullness(disk: DiskUse) -> float:
    """Percent of what it lacks first: of its space or of its inodes."""
    return max(disk.used_percent, disk.inodes_percent or 0.0)


def _alarm(found: ServerDisks, disk: DiskUse, now: datetime) -> Alarm:
    name = server_name(found.user, found.server)
    which = {"home": "home", "system": "system disk"}.get(disk.kind, f"disk {visible(disk.path)}")
    inodes = "unknown" if disk.inodes_percent is None else f"{disk.inodes_percent:.0f} %"
    return Alarm(
        Kind.FULL_DISK,
        f"{found.lease_id}/{disk.kind}",
        now.date().isoformat(),
        f"The {which} of {name} is {fullness(disk):.0f} % full",
        f"Of its space {disk.used_percent:.0f} % is used, of its inodes {inodes}. "
        f"{_WHAT_TO_DO[disk.kind]}",
        now,
        found.user,
    )
