"""The phases of a start and their durations, from the steps of its story."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from ...wire import Step


@dataclass(frozen=True, slots=True)
class Phase:
    """A period in which a start was at one step. A start that gets another instance goes through
    some steps again: each is a phase of its own."""

    step: Step
    began_at: datetime
    """UTC."""
    ended_at: datetime
    """UTC; never before `began_at`."""
    is_complete: bool = True
    """False where the start ended in it."""

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return (self.ended_at - self.began_at).total_seconds()


def phases(
    steps: Sequence[tuple[Step, datetime]], gave_up_at: datetime | None = None
) -> list[Phase]:
    """The phases that are over, oldest first, from the instants at which steps were reported.

    Reports of one step in a row are one phase. The last step is not over, unless the start ended
    in it at `gave_up_at`. The list only grows as a story gets more steps.
    """
    begun: list[tuple[Step, datetime]] = []
    for step, at in steps:
        if begun and begun[-1][0] is Step.READY:
            break
        if not begun or begun[-1][0] is not step:
            begun.append((step, at))
    found = [
        Phase(step, at, max(following, at))  # the wall clock can be set back
        for (step, at), (_, following) in pairwise(begun)
    ]
    if begun and begun[-1][0] is not Step.READY and gave_up_at is not None:
        step, at = begun[-1]
        found.append(Phase(step, at, max(gave_up_at, at), is_complete=False))
    return found
