"""Runs in words: state, progress, place and cost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ..core.text import durations
from ..wire import RunSummary
from ..wire.runs import DELETED_SERVER

OUTCOMES: Final[Mapping[str, str]] = {
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
    "cost-cap": "ended at its cost cap",
    "deadline": "ended at its deadline",
    "limit": "ended by a limit",
}


def state(run: RunSummary) -> str:
    """`queued`, or how it ended."""
    return run.state if run.outcome is None else OUTCOMES[run.outcome]


def progress(run: RunSummary) -> str:
    """`3 of 12 cells`; empty where there are none."""
    return f"{run.cells_done} of {run.cells_total} cells" if run.cells_total else ""


def place(run: RunSummary) -> str:
    """`g5.xlarge eu-west-1a spot`; empty before its first instance."""
    return " ".join(filter(None, (run.instance_type, run.zone, str(run.market or ""))))


def server(run: RunSummary) -> str:
    """`lab`, `lab (deleted)`, or `default server`: that which has sent it."""
    name = run.server.removeprefix(DELETED_SERVER)
    shown = name or "default server"
    return f"{shown} (deleted)" if run.server.startswith(DELETED_SERVER) else shown


def cost(runs: Iterable[RunSummary]) -> str:
    """What they have cost so far together, in USD; `at least` where that of one is unknown."""
    begun = [run for run in runs if run.attempts or run.usd]
    known = [run.usd for run in begun if run.usd is not None]
    if begun and not known:
        return "unknown"
    return f"{'at least ' if len(known) < len(begun) else ''}{sum(known):.4f}"


def since(run: RunSummary, now: datetime) -> str:
    """`12 minutes`: since it was submitted, while it is queued; began; or ended."""
    first = run.ended_at or run.started_at or run.submitted_at
    return durations.approximate(max((now - first).total_seconds(), 0))


@dataclass(frozen=True)
class Group:
    """A run of its own, or the runs of an array by number."""

    runs: Sequence[RunSummary]

    @property
    def number(self) -> str:
        """`12`, or `12-51` of an array."""
        numbers = [run.number for run in self.runs]
        return f"{min(numbers)}-{max(numbers)}" if len(numbers) > 1 else f"{numbers[0]}"

    @property
    def state(self) -> str:
        """Of an array `3 running, 5 queued`."""
        if len(self.runs) == 1:
            return state(self.runs[0])
        counts: dict[str, int] = {}
        for run in self.runs:
            counts[state(run)] = counts.get(state(run), 0) + 1
        return ", ".join(f"{count} {words}" for words, count in counts.items())

    @property
    def progress(self) -> str:
        """Of an array `8 of 40 runs`."""
        if len(self.runs) == 1:
            return progress(self.runs[0])
        ended = sum(run.state == "ended" for run in self.runs)
        return f"{ended} of {len(self.runs)} runs"

    @property
    def place(self) -> str:
        """Of an array the number of instances that it has now."""
        if len(self.runs) == 1:
            return place(self.runs[0])
        count = sum(run.state in ("starting", "running") for run in self.runs)
        return f"{count} instance{'' if count == 1 else 's'}" if count else ""


def grouped(runs: Iterable[RunSummary]) -> Iterator[Group]:
    """Arrays as one, in the order of the newest run of each."""
    by_array: dict[tuple[str, int], list[RunSummary]] = {}
    for run in runs:
        key = ("array", run.array) if run.array else ("run", run.number)
        by_array.setdefault(key, []).append(run)
    for members in by_array.values():
        yield Group(sorted(members, key=lambda run: run.number))
