"""What was saved of a running kernel before: it is kept until a sleep has all of the kernel. Pure,
apart from `Lineage.last`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...sleep.storage import earlier
from ...sleep.storage import folder as folders
from .running_kernels import RunningKernel
from .session_record import SleepingKernel


@dataclass(frozen=True, slots=True)
class Lineage:
    """Of the kernels of one server, by the ids that they have in it."""

    generations: Mapping[str, str] = field(default_factory=dict)
    """`KEY/GENERATION` that was woken in the kernel, or was to be."""
    unrestored: Collection[str] = ()
    """The kernels that run without what was to be woken in them."""
    since: str = ""
    """How the names of generations begin that this server's kernels have saved."""

    def last(self, kernels: Path, kernel_id: str, key: str) -> Path | None:
        """The last complete generation that the values of this kernel are of; None for a kernel
        that was started anew, and has not saved. Blocks."""
        known = self.generations.get(kernel_id, "")
        if known:
            found = earlier.newest(kernels / known)
            if folders.is_complete(found):
                return found
        latest = folders.latest(kernels / key)
        return latest if latest is not None and self.since and latest.name >= self.since else None


def lineage(
    running: Sequence[RunningKernel],
    woken: Sequence[SleepingKernel],
    empty: Sequence[SleepingKernel],
    since: str,
) -> Lineage:
    """Of these kernels, after a waking of `woken`; `empty` are those without their variables."""
    generations = {each.kernel_id: each.generation for each in woken if each.generation}
    unrestored = set()
    for each in empty:
        kernel = runs(each, running)
        if kernel is not None and each.generation:
            generations[kernel.kernel_id] = each.generation
            unrestored.add(kernel.kernel_id)
    return Lineage(generations, unrestored, since)


def runs(sleeping: SleepingKernel, running: Sequence[RunningKernel]) -> RunningKernel | None:
    """The kernel that runs in place of one that slept: its own, or another one of its notebook."""
    place = (sleeping.path, sleeping.name, sleeping.saved.kernel_name)
    for each in running:
        is_there = each.path and (each.path, each.name, each.kernel_name) == place
        if is_there or each.kernel_id == sleeping.kernel_id:
            return each
    return None
