"""How a run stands, from what its workers have answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from ..wire import RunStatus


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run has ended."""

    state: Literal["succeeded", "failed", "cancelled"]
    worker: int = 0
    """The number of the worker on which it failed; 0 if it is not that of one."""
    exit_code: int | None = None
    """Of torchrun there, or 0; None if no torchrun has ended by itself."""


def outcome(
    seen: Mapping[int, RunStatus], first: Collection[int], is_cancelled: bool
) -> Outcome | None:
    """None while the run continues, also on no worker: a replacement continues it.

    `seen` is the last answer of each worker that has had the run, by number, without those that
    were lost while it ran there; `first` are those that it was started on.
    """
    if any(each.exit_code is None for each in seen.values()):
        return None
    if is_cancelled:
        return Outcome("cancelled")
    has_succeeded = any(each.exit_code == 0 for each in seen.values())
    for number, each in sorted(seen.items()):
        is_dispensable = has_succeeded and _is_lost(number, each, first)
        if each.exit_code and not each.stopped and not is_dispensable:
            return Outcome("failed", number, each.exit_code)
    return Outcome("succeeded", exit_code=0) if has_succeeded else None


def takes_workers(seen: Mapping[int, RunStatus]) -> bool:
    """Whether the run's rendezvous is open to new workers: no torchrun has ended by itself."""
    return all(each.exit_code is None or each.stopped for each in seen.values())


def _is_lost(number: int, status: RunStatus, first: Collection[int]) -> bool:
    """Whether the others could do without it: torchrun was killed there, or it came after they had
    finished."""
    return (status.exit_code or 0) < 0 or number not in first
