"""The message that a run has ended, for users who asked for it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ..text.untrusted import visible
from .alarm import Alarm, Kind

WORDS = {
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "was cancelled",
    "cost-cap": "was stopped at its cost cap",
    "deadline": "was stopped at its deadline",
    "limit": "was stopped by a limit",
}
"""By `wire.RunOutcome`."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended."""

    number: int
    array: int
    """Number of the first run of its array; 0 for a run of its own."""
    user: str
    path: str
    outcome: str
    message: str
    usd: float | None
    """What it has cost, an estimate; None where no price is known."""


def runs_ended(runs: Sequence[EndedRun], now: datetime) -> Alarm:
    """A run of its own, or all runs of an array, by number; once."""
    first = runs[0]
    cost = f"Cost so far: {sum(each.usd or 0.0 for each in runs):.2f} USD (estimate)."
    if not first.array:
        title = f"Run {first.number} of {first.user} {WORDS[first.outcome]}: {first.path}"
        body = f"{first.message.rstrip('.')}. {cost}" if first.message else cost
        return _alarm(first.user, f"run {first.number}", title, body, now)
    counts = Counter(each.outcome for each in runs)
    parts = ", ".join(f"{counts[outcome]} {outcome}" for outcome in WORDS if counts[outcome])
    title = f"All {len(runs)} runs of array {first.array} of {first.user} have ended: {first.path}"
    return _alarm(first.user, f"array {first.array}", title, f"{parts}. {cost}", now)


def _alarm(user: str, subject: str, title: str, body: str, now: datetime) -> Alarm:
    return Alarm(Kind.RUN_ENDED, subject, "", visible(title), visible(body), now, user)
