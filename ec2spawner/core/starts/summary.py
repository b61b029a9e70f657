"""Many starts in a few numbers: how many, how long, and which phase takes the time."""

from __future__ import annotations

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .outcome import Outcome
from .phases import Phase


@dataclass(frozen=True, slots=True)
class MeasuredStart:
    """A start that is over."""

    lease_id: str
    profile: str
    """The profile's slug."""
    market: str
    """`spot` or `on-demand`; empty where nothing was bought."""
    outcome: Outcome
    total: float
    """Seconds."""
    lost: float
    """Seconds of it that went into instances that were lost."""
    seconds: tuple[float | None, ...]
    """Of each phase, in their order; None for one that it did not have."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Durations in seconds."""

    count: int
    median: float
    p95: float
    sum: float


@dataclass(frozen=True, slots=True)
class GroupOfStarts:
    """The starts of one profile in one market. Durations are of those that were ready."""

    profile: str
    market: str
    outcomes: Mapping[Outcome, int]
    """Only those that occurred."""
    total: Distribution | None
    """None where no start was ready."""
    phases: Mapping[Phase, Distribution]
    """Of the phases that at least one of them had."""
    replaced: int
    """How many of them lost an instance."""

    @property
    def count(self) -> int:
        """How many starts, whatever became of them."""
        return sum(self.outcomes.values())

    def share(self, phase: Phase) -> float:
        """The part of all their time that went into a phase, 0 to 1."""
        found = self.phases.get(phase)
        return found.sum / self.total.sum if found and self.total and self.total.sum else 0.0

    @property
    def dominant(self) -> Phase | None:
        """The phase that takes most of the time; None where no start was ready."""
        return max(self.phases, key=self.share, default=None)


@dataclass(frozen=True, slots=True)
class StartSummary:
    """All starts of a period."""

    groups: Sequence[GroupOfStarts]
    """By profile and market."""
    slowest: Sequence[MeasuredStart]
    """Of those that were ready, the slowest first."""


@dataclass(slots=True)
class _Tally:
    """Eight bytes a duration: 100,000 starts are 9 MB."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    totals: array[float] = field(default_factory=lambda: array("d"))
    phases: tuple[array[float], ...] = field(
        default_factory=lambda: tuple(array("d") for _ in Phase)
    )
    replaced: int = 0


def summary(starts: Iterable[MeasuredStart], slowest: int) -> StartSummary:
    """Of starts in any order, with so many of the slowest."""
    tallies: dict[tuple[str, str], _Tally] = {}
    longest: list[tuple[float, str, MeasuredStart]] = []
    for start in starts:
        key = (start.profile, start.market)
        tally = tallies.get(key)
        if tally is None:
            tally = tallies[key] = _Tally()
        tally.outcomes[start.outcome] += 1
        if start.outcome is not Outcome.READY:
            continue
        tally.totals.append(start.total)
        tally.replaced += start.lost > 0
        for durations, seconds in zip(tally.phases, start.seconds, strict=True):
            if seconds is not None:
                durations.append(seconds)
        if len(longest) < slowest:
            heapq.heappush(longest, (start.total, start.lease_id, start))
        elif longest and start.total > longest[0][0]:
            heapq.heapreplace(longest, (start.total, start.lease_id, start))
    return StartSummary(
        groups=[_group(*key, tally) for key, tally in sorted(tallies.items())],
        slowest=[start for *_, start in sorted(longest, key=lambda each: (-each[0], each[1]))],
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which a share (0 to 1) of ascending values lies, linear between two of them.

    Raises `ValueError` without any value.
    """
    if not ordered:
        raise ValueError("no values")
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _group(profile: str, market: str, tally: _Tally) -> GroupOfStarts:
    phases = {
        phase: found
        for phase, durations in zip(Phase, tally.phases, strict=True)
        if (found := _distribution(durations)) is not None
    }
    outcomes = {each: tally.outcomes[each] for each in Outcome if tally.outcomes[each]}
    total = _distribution(tally.totals)
    return GroupOfStarts(profile, market, outcomes, total, phases, tally.replaced)


def _distribution(durations: Iterable[float]) -> Distribution | None:
    ordered = sorted(durations)
    if not ordered:
        return None
    return Distribution(
        count=len(ordered),
        median=percentile(ordered, 0.5),
        p95=percentile(ordered, 0.95),
        sum=math.fsum(ordered),
    )
