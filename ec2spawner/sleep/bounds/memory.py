"""How much memory this process may still use: of the machine, or of its control group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

RESERVE_BYTES: Final = 512 << 20
RESERVE_SHARE: Final = 0.1
"""Of all memory, or `RESERVE_BYTES` where that is more, stays free of what nobody has asked for:
the cells that run next need some, and what is loaded takes more than its file."""

UNKNOWN: Final = 1 << 40


class _Names(NamedTuple):
    """Files of a control group."""

    limit: str
    used: str


V1: Final = _Names("memory.limit_in_bytes", "memory.usage_in_bytes")
V2: Final = _Names("memory.max", "memory.current")


class Memory(NamedTuple):
    """In bytes."""

    available: int
    """Without swapping."""
    total: int

    @property
    def beyond_reserve(self) -> int:
        """What may be used without being asked for; negative where even the reserve is in use."""
        return self.available - max(RESERVE_BYTES, int(self.total * RESERVE_SHARE))


def memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> Memory:
    """As it is now; much if it is not known."""
    found = [_of_machine(proc), *_of_groups(proc, groups)]
    return min(found, key=lambda each: each.available)


def _of_machine(proc: Path) -> Memory:
    """The file has KiB."""
    known = _numbers(proc / "meminfo")
    if "MemAvailable:" not in known or "MemTotal:" not in known:
        return Memory(UNKNOWN, UNKNOWN)
    return Memory(known["MemAvailable:"] << 10, known["MemTotal:"] << 10)


def _of_groups(proc: Path, groups: Path) -> Iterator[Memory]:
    """Of this process's control group and those above it, which a container does not all see."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            top, names = groups, V2
        elif "memory" in controllers.split(","):
            top, names = groups / "memory", V1
        else:
            continue
        own = top / path.lstrip("/")
        for folder in (own, *own.parents):
            if (found := _of_group(folder, names)) is not None:
                yield found
            if folder == top:
                break


def _of_group(folder: Path, names: _Names) -> Memory | None:
    try:
        limit, used = (int(_text(folder / name)) for name in names)
    except ValueError:  # no limit, or not there
        return None
    # What was read of files counts as used, and is given up for what is needed.
    cached = _numbers(folder / "memory.stat").get("inactive_file", 0)
    return Memory(max(0, limit - max(0, used - cached)), limit)


def _numbers(file: Path) -> dict[str, int]:
    """The first number of each line, by its first word."""
    words = (line.split() for line in _text(file).splitlines())
    return {each[0]: int(each[1]) for each in words if len(each) > 1 and each[1].isdigit()}


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, ValueError):
        return ""
