"""In which order variables are saved, how long each may take, how much room there is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

BYTES_PER_SECOND: Final = 100e6
"""What a gp3 volume writes at its default throughput is 125 MiB/s."""
CHILD_SECONDS: Final = 0.2
"""What a variable in a child process costs beyond its size."""
USUAL_LIMIT: Final = 5.0
"""Seconds that a variable in a child may take, where there is time for all that wait."""
SHORTEST_LIMIT: Final = 1.0
RESERVE_BYTES: Final = 256 << 20
RESERVE_SHARE: Final = 0.05
"""Of the disk stays free, or `RESERVE_BYTES` where that is less: a full home stops JupyterLab."""


@dataclass(frozen=True)
class Group:
    """Names that are saved in one file, because they share objects that can change."""

    names: tuple[str, ...]
    size_bytes: int = 0
    """As estimated in memory."""
    in_child: bool = False
    """It may run code of the user's, so a process that may be killed saves it."""
    definition: bool = False
    """Functions and classes only: other variables refer to them."""
    kept: bool = False
    """The user wants it saved before others."""
    runs_code: bool = False
    """Saving it may run code of the user's, here or in a child."""
    in_process: bool = False
    """No child can save it."""
    gpu: bool = False
    plain: bool = True
    """Loading it runs no code of the user's."""


def cost_seconds(group: Group) -> float:
    """How long it is expected to take."""
    return group.size_bytes / BYTES_PER_SECOND + (CHILD_SECONDS if group.in_child else 0.0)


def order(found: Iterable[Group]) -> list[Group]:
    """Definitions, because others need them, then what the user keeps; the cheapest first.

    So most of the names are saved when the time ends, and what fails late delays few.
    """
    return sorted(found, key=lambda g: (not g.definition, not g.kept, cost_seconds(g), g.names))


def merged(groups: Sequence[Group]) -> Group:
    """One group of several."""
    return Group(
        tuple(name for each in groups for name in each.names),
        size_bytes=sum(each.size_bytes for each in groups),
        in_child=any(each.in_child for each in groups),
        definition=all(each.definition for each in groups),
        kept=any(each.kept for each in groups),
        runs_code=any(each.runs_code for each in groups),
        in_process=any(each.in_process for each in groups),
        gpu=any(each.gpu for each in groups),
        plain=all(each.plain for each in groups),
    )


def cycles(needs: Mapping[T, Collection[T]]) -> list[list[T]]:
    """Those that need each other, also by others between them, together; in their first order.

    None of these can be restored before the other.
    """
    left = dict(needs)
    while leaves := [each for each, its in left.items() if left.keys().isdisjoint(its)]:
        for each in leaves:
            del left[each]
    reached = {each: _reached(each, left) for each in left}
    found: list[list[T]] = []
    for each, below in reached.items():
        if each in below and not any(each in others for others in found):
            found.append([other for other in reached if other in below and each in reached[other]])
    return found


def _reached(start: T, needs: Mapping[T, Collection[T]]) -> set[T]:
    found: set[T] = set()
    waiting = [start]
    while waiting:
        new = [each for each in needs[waiting.pop()] if each in needs and each not in found]
        found.update(new)
        waiting += new
    return found


def limit_seconds(group: Group, remaining: float, waiting: int) -> float:
    """How long a child may take for this group.

    `remaining`: seconds until the deadline; `waiting`: how many groups come after this one. One
    that hangs must leave time for them, but a large one gets what its size needs.
    """
    fair = remaining / (waiting + 1)
    usual = max(SHORTEST_LIMIT, min(USUAL_LIMIT, fair))
    return max(0.0, min(remaining, max(usual, 4 * cost_seconds(group))))


def free_bytes(max_bytes: int, used: int, disk_free: int, disk_total: int) -> int:
    """How much may still be written, never less than 0."""
    reserve = min(RESERVE_BYTES, int(disk_total * RESERVE_SHARE))
    return max(0, min(max_bytes - used, disk_free - reserve))


def eager(sizes: Mapping[str, int], eager_bytes: int) -> tuple[list[str], list[str]]:
    """File names by size -> those to restore at once, smallest first, and those for later.

    At once as long as their sum is not above `eager_bytes`: that many seconds a user waits.
    """
    now: list[str] = []
    later: list[str] = []
    total = 0
    for file, size in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        total += size
        (now if total <= eager_bytes else later).append(file)
    return now, later
