"""Data in the page cache that is not on a disk yet: dirty pages, in the kernel's words.

A volume that is lost with its instance loses them, and unmounting waits until they are written. By
default the kernel lets them grow to a fifth of the memory: five minutes of writing to a gp3 volume
on an instance with 192 GiB.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

MAX_DIRTY_BYTES: Final = 2**30
"""8 s of writing at a gp3 volume's default throughput of 125 MiB/s."""

BACKGROUND_BYTES: Final = 2**28
"""The kernel begins to write when so much is dirty."""

PROC = Path("/proc")


def bound_dirty_pages(proc: Path = PROC) -> None:
    """Let at most `MAX_DIRTY_BYTES` of this machine be dirty; a lower bound stays. Blocks.

    For all disks together: a bound for one of them (`/sys/class/bdi`) needs Linux 6.2. A failure is
    logged, since the home works without the bound.
    """
    settings = proc / "sys" / "vm"
    try:
        if _bound(proc) <= MAX_DIRTY_BYTES:
            return
        background = int((settings / "dirty_background_bytes").read_text())
        if not 0 < background <= BACKGROUND_BYTES:
            (settings / "dirty_background_bytes").write_text(str(BACKGROUND_BYTES))
        (settings / "dirty_bytes").write_text(str(MAX_DIRTY_BYTES))
    except (OSError, ValueError, KeyError) as error:
        log.error("the page cache of the home is not bounded: %s", error)


def _bound(proc: Path) -> int:
    settings = proc / "sys" / "vm"
    if in_bytes := int((settings / "dirty_bytes").read_text()):
        return in_bytes
    percent = int((settings / "dirty_ratio").read_text())
    return _memory(proc)["MemTotal"] * percent // 100


def dirty_bytes(proc: Path = PROC) -> int:
    """Bytes that this machine has yet to write; 0 if the kernel does not say. Blocks."""
    try:
        memory = _memory(proc)
        return memory["Dirty"] + memory["Writeback"]
    except (OSError, ValueError, KeyError) as error:
        log.warning("unwritten data is not known: %s", error)
        return 0


def _memory(proc: Path) -> dict[str, int]:
    """`/proc/meminfo`, in bytes. Its lines are `Dirty:    128 kB`."""
    lines = (line.split() for line in (proc / "meminfo").read_text().splitlines())
    return {name.rstrip(":"): int(size) * 1024 for name, size, *_ in lines}
