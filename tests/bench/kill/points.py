"""Where a hub can be killed: names of its moments, what a recorded run had, which to take. Pure.

A moment is a call to AWS or a write to the store, just before it or just after it, as in
`before CreateFleet #1`. A point is a moment of one leg of a hub's life.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

RISKIEST = (
    "before CreateFleet",
    "after CreateFleet",
    "after save intent(open)",
    "before CreateVolume",
    "after CreateVolume",
    "before TerminateInstances",
    "after TerminateInstances",
)
"""Money is spent, made or given back here: a short run has these whatever it leaves out."""

NEITHER = frozenset({"DescribeSpotPriceHistory", "DescribeReservedInstances", "GetProducts"})
"""Prices are read on a clock of their own. They are no part of a start, a stop or a reap, and
which of them falls into one differs from run to run."""


LISTING = "DescribeInstances"
"""While a leg waits for a time to pass, the hub lists and lists."""


@dataclass(frozen=True, slots=True)
class Point:
    leg: str
    moment: str
    """`before` or `after`, what, and a number that counts the same from the leg's beginning."""

    def __str__(self) -> str:
        return f"{self.leg}: {self.moment}"

    @property
    def kind(self) -> str:
        """The moment without its number."""
        return self.moment.rpartition(" #")[0]


def parse_trace(text: str) -> list[Point]:
    """The points of a trace, in their order; a line is a leg, a tab and a moment."""
    points = []
    for line in text.splitlines():
        leg, _, moment = line.partition("\t")
        point = Point(leg, moment)
        if leg and point.kind.partition(" ")[2] not in NEITHER:
            points.append(point)
    return points


def by_leg(points: Iterable[Point]) -> dict[str, list[Point]]:
    """In their order; of listings in a row, while nothing else happens, the first."""
    legs: dict[str, list[Point]] = {}
    waiting: set[str] = set()
    for point in dict.fromkeys(points):
        leg = legs.setdefault(point.leg, [])
        if point.kind.endswith(f" {LISTING}"):
            if point.kind in waiting:
                continue
            waiting.add(point.kind)
        else:
            waiting.clear()
        leg.append(point)
    return legs


def sample(legs: Mapping[str, Sequence[Point]], number: int) -> dict[str, list[Point]]:
    """About `number` points: one of each of the riskiest kinds, and the others evenly.

    A kind that several legs have is taken where the fewest have been: a life dies once in a leg.
    """
    chosen: dict[str, set[Point]] = {leg: set() for leg in legs}
    for kind in RISKIEST:
        alike = [point for points in legs.values() for point in points if point.kind == kind]
        if alike:
            point = min(alike, key=lambda point: len(chosen[point.leg]))
            chosen[point.leg].add(point)
    others = [p for leg, points in legs.items() for p in points if p not in chosen[leg]]
    wanted = min(max(number - sum(map(len, chosen.values())), 0), len(others))
    for place in range(wanted):
        point = others[(2 * place + 1) * len(others) // (2 * wanted)]
        chosen[point.leg].add(point)
    return {leg: [p for p in points if p in chosen[leg]] for leg, points in legs.items()}
