"""What follows when the instance of a run is gone and the run has not ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...wire.runs import RunOutcome
from ..backoff import Backoff

PAUSE: Final = Backoff(first=15.0, longest=600.0, jitter=0.2)
"""Before a run looks for an instance again: what is sold out is marked for three minutes
(`core.offers.sold_out`)."""

MAX_FAILED_STARTS: Final = 5
"""So many starts in a row that got an instance and failed: each costs a boot, and what ended them
will end the next one."""

OUTCOMES: Final[dict[str, RunOutcome]] = {
    "user": "cancelled",
    "admin": "cancelled",
    "budget": "limit",
    "max-age": "limit",
}
"""By `wire.Stop.reason`: ends that are meant. All others are of the instance."""

SCARCE: Final = frozenset({"capacity", "quota"})
"""Reasons of a start that found nothing to buy: nobody has failed, and it costs nothing to wait."""


@dataclass(frozen=True, slots=True)
class Tries:
    """How the attempts of a run have gone."""

    lost: int = 0
    """Instances that were lost while it ran."""
    failed_starts: int = 0
    """Starts in a row that failed before it ran."""
    waits: int = 0
    """Starts in a row that found nothing to buy."""


@dataclass(frozen=True, slots=True)
class After:
    """What becomes of the run."""

    tries: Tries
    outcome: RunOutcome | None = None
    """None: it is queued again."""
    pause_seconds: float = 0.0
    """Before it looks for an instance again."""


def after_attempt(reason: str, *, has_run: bool, tries: Tries, retries: int) -> After:
    """`reason` is that of the lease's stop, `has_run` whether the run had begun on the instance,
    `retries` how many lost instances it survives."""
    if outcome := OUTCOMES.get(reason):
        return After(tries, outcome)
    if has_run:
        lost = Tries(lost=tries.lost + 1)
        return After(lost, None if lost.lost <= retries else "failed")
    if reason in SCARCE:
        waiting = Tries(tries.lost, 0, tries.waits + 1)
        return After(waiting, pause_seconds=PAUSE.pause(waiting.waits))
    failed = Tries(tries.lost, tries.failed_starts + 1)
    if failed.failed_starts >= MAX_FAILED_STARTS:
        return After(failed, "failed")
    return After(failed, pause_seconds=PAUSE.pause(failed.failed_starts))
