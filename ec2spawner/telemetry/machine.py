"""CPU, memory, disk and network of the whole instance."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil

MIB = 2**20

RATES_SECONDS = 2.0
"""Interval of reading disk and network counters."""

SPACE_SECONDS = 5.0
"""Interval of reading the free space of the home."""

SPACE_LIMIT_SECONDS = 30.0
"""Older figures are dropped: the file system may be on a server that stopped responding."""

DEVICES_SECONDS = 60.0
"""Interval of listing disks and interfaces."""

ENDLESS_MIB = 2.0**40
"""One exbibyte: EFS reports eight, which means unlimited."""

NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Block devices on top of others or in memory, which would be counted twice."""

Figure = TypeVar("Figure")


class Machine:
    """Figures of the whole instance. Nothing raises: what cannot be read is None."""

    def __init__(
        self, home: Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._space = DiskSpace(home, clock) if home is not None else None
        self._rates = Rates(clock)
        _or_none(psutil.cpu_percent)

    def figures(self) -> dict[str, Any]:
        """Fields of `Telemetry` by name."""
        memory = _or_none(psutil.virtual_memory)
        used, total = self._space.scan() if self._space is not None else (None, None)
        return {
            "cpu_percent": _bounded(_or_none(psutil.cpu_percent), 100.0),
            "cpu_count": os.cpu_count(),
            "memory_used_mib": memory and round((memory.total - memory.available) / MIB, 1),
            "memory_total_mib": memory and round(memory.total / MIB, 1),
            "disk_used_mib": used,
            "disk_total_mib": total,
            **self._rates.scan(),
        }


class Rates:
    """MiB per second of all disks and of all interfaces, between the last two readings."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at = -math.inf
        self._before: dict[str, int] = {}
        self._rates: dict[str, float | None] = {}
        self._devices_at = -math.inf
        self._disks: set[str] = set()
        self._interfaces: set[str] = set()

    def scan(self) -> Mapping[str, float | None]:
        """MiB/s of disks and network since the last reading; None before there are two."""
        now = self._clock()
        elapsed = now - self._at
        if elapsed < RATES_SECONDS - 0.5:
            return self._rates
        if now - self._devices_at >= DEVICES_SECONDS:
            self._devices_at = now
            self._disks, self._interfaces = _disks(), _interfaces()
        bytes_now = self._read()
        self._rates = {
            name: _rate(bytes_now[name] - self._before[name], elapsed)
            for name in bytes_now
            if name in self._before
        }
        self._at, self._before = now, bytes_now
        return self._rates

    def _read(self) -> dict[str, int]:
        found: dict[str, int] = {}
        disks = _or_none(lambda: psutil.disk_io_counters(perdisk=True, nowrap=False))
        if disks:
            ours = [counters for name, counters in disks.items() if name in self._disks]
            found["disk_read_mib_per_s"] = sum(each.read_bytes for each in ours)
            found["disk_write_mib_per_s"] = sum(each.write_bytes for each in ours)
        network = _or_none(lambda: psutil.net_io_counters(pernic=True, nowrap=False))
        if network:
            used = [counters for name, counters in network.items() if name in self._interfaces]
            found["network_in_mib_per_s"] = sum(each.bytes_recv for each in used)
            found["network_out_mib_per_s"] = sum(each.bytes_sent for each in used)
        return found


class DiskSpace:
    """Used and total space of the file system of a path.

    Read in a separate thread, one at a time: a network file system that does not respond blocks
    its callers indefinitely.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._asked_at = -math.inf
        self._thread: threading.Thread | None = None
        self._found: tuple[float, float | None, float | None] = (-math.inf, None, None)
        """(when, used, total)"""

    def scan(self) -> tuple[float | None, float | None]:
        """(used, total) in MiB as of a few seconds ago; None if unknown."""
        now = self._clock()
        is_asking = self._thread is not None and self._thread.is_alive()
        if now - self._asked_at >= SPACE_SECONDS and not is_asking:
            self._asked_at = now
            self._thread = threading.Thread(target=self._ask, name="disk space", daemon=True)
            self._thread.start()
        found_at, used, total = self._found
        return (used, total) if now - found_at <= SPACE_LIMIT_SECONDS else (None, None)

    def _ask(self) -> None:
        try:
            disk = os.statvfs(self._path)
        except OSError:
            return
        used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize / MIB
        # As in `df`: space reserved for root counts neither as used nor as available.
        total = used + disk.f_bavail * disk.f_frsize / MIB
        is_endless = total >= ENDLESS_MIB
        self._found = (
            self._clock(),
            _bounded(round(used, 1)),
            None if is_endless else _bounded(round(total, 1)),
        )


def _disks() -> set[str]:
    places = _or_none(lambda: list(Path("/sys/block").iterdir())) or []
    return {each.name for each in places if not each.name.startswith(NOT_DISKS)}


def _interfaces() -> set[str]:
    """Hardware interfaces; without any, as in a container, all except the loopback."""
    places = _or_none(lambda: list(Path("/sys/class/net").iterdir())) or []
    names = {each.name for each in places if each.name != "lo"}
    return {each.name for each in places if (each / "device").exists()} or names


def _rate(amount: int, elapsed: float) -> float | None:
    """MiB/s; None if a counter has decreased, because a device was removed or a counter reset."""
    return _bounded(round(amount / elapsed / MIB, 3)) if elapsed > 0 else None


def _bounded(figure: float | None, maximum: float = math.inf) -> float | None:
    """The figure, limited to `maximum`; None if it is not finite or negative."""
    if figure is None or not math.isfinite(figure) or figure < 0:
        return None
    return min(figure, maximum)


def _or_none(read: Callable[[], Figure]) -> Figure | None:
    """A reading; None on any error, because `/proc` may contain anything."""
    try:
        return read()
    except Exception:
        return None
