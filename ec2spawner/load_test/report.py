"""What the samples of a test say: times of each step, failures by their message. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from pydantic import BaseModel

from .samples import Sample, Step

MAX_MESSAGES = 20
"""Different failures that are listed; the others are counted together."""


class Times(BaseModel):
    """Of what succeeded, in seconds; null where nothing did."""

    count: int
    failures: int
    median_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    max_s: float | None = None


class Failure(BaseModel):
    """A message, and how often it was the reason."""

    step: str
    message: str
    count: int


class Report(BaseModel):
    """All of it, as `--json` prints it."""

    users: int
    steps: dict[str, Times]
    health: Times
    failures: list[Failure]
    estimated_usd: float | None
    """About what the instances have cost while servers existed, at the most expensive offer and
    without disks; null if the hub says no price. Retained, replaced and pool instances are not
    included."""
    driver_busy: bool
    """Whether the users' own process needed more than 90 % of a core for a while."""
    ended_by: str
    """Why the test ended before its users did; empty if it did not."""
    left: dict[str, str]
    """User -> why the server could not be stopped."""

    @property
    def is_clean(self) -> bool:
        """Whether everybody did everything, and nothing is left."""
        return not (self.failures or self.ended_by or self.left)


def times(seconds: Sequence[float], failures: int) -> Times:
    """Percentiles are of the nearest rank: each is a time that was measured."""
    ordered = sorted(seconds)
    if not ordered:
        return Times(count=0, failures=failures)

    def percentile(share: float) -> float:
        return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 4)

    return Times(
        count=len(ordered),
        failures=failures,
        median_s=percentile(0.5),
        p95_s=percentile(0.95),
        p99_s=percentile(0.99),
        max_s=percentile(1.0),
    )


def steps(samples: Sequence[Sample]) -> dict[str, Times]:
    """Times by step, in the order in which a user does them; steps of which there are none are
    left out."""
    found = {}
    for step in Step:
        of_step = [sample for sample in samples if sample.step is step]
        if of_step:
            well = [sample.seconds for sample in of_step if not sample.error]
            found[str(step)] = times(well, len(of_step) - len(well))
    return found


def failures(samples: Sequence[Sample]) -> list[Failure]:
    """The most frequent first."""
    counted = Counter((sample.step, sample.error) for sample in samples if sample.error)
    ranked = counted.most_common()
    listed = [
        Failure(step=step, message=message, count=count)
        for (step, message), count in ranked[:MAX_MESSAGES]
    ]
    others = sum(count for _, count in ranked[MAX_MESSAGES:])
    if others:
        listed.append(Failure(step="", message="other messages", count=others))
    return listed
