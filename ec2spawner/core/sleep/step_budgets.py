"""How long each step of a server's end may take. Pure: seconds in, seconds out.

The steps are in the order of what they protect: documents, the user's hook, variables, then the
notebook's end and the home, without which nothing of the former is on the volume.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...wire import SAVE_SECONDS

NOTEBOOK_SECONDS = 10.0
"""From SIGTERM to SIGKILL for the server: Jupyter Server gives its kernels five seconds."""

HOME_SECONDS = 10.0
"""For flushing and unmounting a home whose data has been flushed every few seconds since the
notice: a gp3 volume writes 1.2 GiB in this time at its default 125 MiB/s."""

FLUSH_SECONDS = 600.0
"""For flushing and unmounting a home at any other end, at most. An instance that has much unwritten
data, or a slow way to its volumes, needs minutes: 1 GiB takes 8 s at a gp3 volume's 125 MiB/s, and
four minutes at the 43 Mbit/s to which the smallest instance types fall back."""

RECLAIM_SECONDS = 5.0 + HOME_SECONDS
"""What a notice leaves for the notebook's end and the home: Jupyter Server needs less than five
seconds once its kernels are saved, and is killed after that."""

HOOK_SECONDS = 30.0
"""The most that the user's hook may take, of whatever is left."""

LATEST_SAVE_SECONDS = 45.0
"""Without a word from the hub, saving begins this long before EC2 reclaims the instance.

Later is better for the user, who may work until then, and for the hub, which may have a
replacement by then. 45 s leave 15 s (`RECLAIM_SECONDS`) for the end, 5 s (`SAVE_SECONDS`) for
documents, and 25 s for hook and variables: 3 GiB at the default throughput of a gp3 volume. EC2
announces two minutes, of which polling takes up to two seconds."""


@dataclass(frozen=True, slots=True)
class StepBudgets:
    """Seconds for each step; what a step does not use, the next ones have."""

    documents: float
    session: float
    """For hook and variables together: see `hook_seconds`."""
    notebook: float


def step_budgets(save_seconds: float, reclaimed_in: float = math.inf) -> StepBudgets:
    """The steps of a stop that gives hook and variables `save_seconds`.

    `reclaimed_in`: seconds until EC2 reclaims the instance; infinite without a notice. Then all
    steps, with `HOME_SECONDS` for the home, end by that time; where it is too near for all, each
    step has a share of it.
    """
    if reclaimed_in == math.inf:
        return StepBudgets(SAVE_SECONDS, save_seconds, NOTEBOOK_SECONDS)
    left = max(reclaimed_in, 0.0)
    for_end = min(RECLAIM_SECONDS, left / 3)
    documents = min(SAVE_SECONDS, (left - for_end) / 4)
    session = min(save_seconds, left - for_end - documents)
    return StepBudgets(documents, session, notebook=for_end / 3)


def hook_seconds(session_seconds: float) -> float:
    """How much of the time for hook and variables the hook may take."""
    return min(HOOK_SECONDS, max(session_seconds, 0.0) / 3)


def is_save_due(reclaimed_in: float) -> bool:
    """Whether the agent saves by itself, `reclaimed_in` seconds before EC2 takes the instance."""
    return reclaimed_in <= LATEST_SAVE_SECONDS
