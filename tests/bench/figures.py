"""Figures of a bench, the goals they are held against, and the line that says both. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Figure = float | int | None
"""None is unknown, and meets no goal."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which `percent` of the values lie, linear between neighbours.

    numpy's default method. Raises ValueError without values or for a percent outside 0-100.
    """
    if not values:
        raise ValueError("no values")
    if not 0 <= percent <= 100:
        raise ValueError(f"{percent} is no percent")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)


def p95(values: Sequence[float]) -> float:
    return percentile(values, 95)


def ratio(ours: float, other: float) -> float | None:
    """Ours as a share of the other; None where that means nothing."""
    return ours / other if other > 0 else None


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should not exceed; smaller is better in every bench."""

    limit: float
    inclusive: bool = True

    def is_met(self, figure: Figure) -> bool:
        if figure is None:
            return False
        return figure <= self.limit if self.inclusive else figure < self.limit

    def __str__(self) -> str:
        return f"{'<=' if self.inclusive else '<'} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Result:
    """What a bench found."""

    bench: str
    figures: Mapping[str, Figure]
    goals: Mapping[str, Goal]
    machine: Mapping[str, Any]

    @property
    def met(self) -> dict[str, bool]:
        """By figure; a goal without its figure is not met."""
        return {name: goal.is_met(self.figures.get(name)) for name, goal in self.goals.items()}

    def line(self) -> str:
        """One line of JSON, the same names in every run."""
        return json.dumps(
            {
                "bench": self.bench,
                "figures": {name: _rounded(figure) for name, figure in self.figures.items()},
                "goals": {name: str(goal) for name, goal in self.goals.items()},
                "met": self.met,
                "machine": dict(self.machine),
            }
        )


def _rounded(figure: Figure) -> Figure:
    return round(figure, 3) if isinstance(figure, float) else figure
