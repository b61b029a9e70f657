"""Replays spot availability in virtual time: cost, interruptions and lost minutes by policy.

`python -m tests.bench.traces` writes the table of docs/explanation/spot-policies.md, from synthetic
traces. `python -m tests.bench.traces NAME=FOLDER ...` prints that of recorded ones: JSON files of
https://github.com/skypilot-org/spot-traces, one for each zone of a region.

Times are in minutes. What a person loses is counted, not what a machine waits at night.
"""

from __future__ import annotations

import csv
import json
import math
import random
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "explanation" / "spot-policies.md"
ADVISOR: Final = ROOT / "ec2spawner" / "data" / "spot_advisor.csv"
BEGIN, END = "<!-- replayed: begin -->\n", "<!-- replayed: end -->\n"

Policy = Literal["on-demand", "resume", "resume-on-demand", "stop"]
POLICIES: Final[tuple[Policy, ...]] = ("on-demand", "resume", "resume-on-demand", "stop")

DAY: Final = 24 * 60
BLOCKS: Final = ((540, 620), (650, 750), (810, 940), (970, 1050))
"""A working day: four blocks with pauses of 30, 60 and 30 minutes. Minutes of the day."""
IDLE_LIMIT: Final = 30
"""Of the server: it stops in the long pause and in the evening."""

START: Final = 3.0
"""A start by hand, from the click to JupyterLab, with a GPU image."""
MOVE: Final = 1.0
"""Of a server that continues by itself: its successor was asked for at the notice."""
NOTICED: Final = 2.0
"""Until a person sees that the server is gone, and starts it again."""
WAKE: Final = 0.5
"""Until saved variables are back."""
REDO: Final = 15.0
"""Running a notebook again to where it was, where variables are gone; no more than there was."""

DAYS: Final = 5 * 365
"""Of a synthetic trace: at the advisor's rates a year has few interruptions."""
PEOPLE: Final = 8
TYPES: Final = ("g4dn.xlarge", "g5.xlarge", "g6.xlarge", "g6e.xlarge")
REGION: Final = "us-east-1"
ZONES: Final = 3
OUTAGE: Final = 240.0
"""Mean time for which a synthetic zone is sold out after an interruption. AWS publishes none."""
FREQUENCIES: Final = (0.025, 0.075, 0.125, 0.175, 0.25)
"""Share of instances that are interrupted in a month, by the advisor's band: its middle, but for
the last, which is open."""
MONTH: Final = 730 * 60
SEED: Final = 14


@dataclass(frozen=True, slots=True)
class Zone:
    """When spot is not to be had, as ordered intervals."""

    outages: tuple[tuple[float, float], ...]
    begins: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "begins", tuple(begin for begin, _ in self.outages))

    def is_there(self, at: float) -> bool:
        place = bisect_right(self.begins, at)
        return place == 0 or self.outages[place - 1][1] <= at

    def next_outage(self, at: float) -> float:
        """When an instance that runs now is interrupted; infinity for never."""
        place = bisect_right(self.begins, at)
        return self.begins[place] if place < len(self.begins) else math.inf


@dataclass(frozen=True, slots=True)
class Trace:
    name: str
    zones: tuple[Zone, ...]
    days: int
    spot_price: float
    """As a share of the on-demand price."""


@dataclass(slots=True)
class Result:
    """Of all people and days."""

    hours: float = 0.0
    cost: float = 0.0
    """In hours of the on-demand price."""
    interruptions: int = 0
    lost: float = 0.0
    days: int = 0


@dataclass(slots=True)
class Person:
    """One server, and what its owner loses. `zone` is None on demand."""

    trace: Trace
    policy: Policy
    sleeps: bool
    first_zone: int
    result: Result
    runs: bool = False
    zone: Zone | None = None
    worked: float = 0.0
    """Minutes of work in the variables that are there; or would be, had they been saved."""

    def day(self, begin: float) -> None:
        self.result.days += 1
        for place, (start, end) in enumerate(BLOCKS):
            last = place + 1 == len(BLOCKS)
            pause = DAY if last else BLOCKS[place + 1][0] - end
            if not self.runs:
                # Everyone starts a server in the morning.
                self._begin(begin + start, by_hand=place > 0)
            self._run(begin + start, begin + end, works=True)
            self._run(begin + end, begin + end + min(pause, IDLE_LIMIT), works=False)
            if pause > IDLE_LIMIT:
                self.runs = False

    def _begin(self, at: float, *, by_hand: bool) -> None:
        self.runs = True
        self.zone = None if self.policy == "on-demand" else self._spot(at)
        self.result.lost += START if by_hand else 0.0
        self._restore()

    def _restore(self) -> None:
        """The variables come back, or the notebook is run again."""
        if self.worked:
            self.result.lost += WAKE if self.sleeps else min(REDO, self.worked)
        if not self.sleeps:
            self.worked = min(REDO, self.worked)

    def _run(self, at: float, end: float, *, works: bool) -> None:
        while self.runs and at < end:
            cut = min(self.zone.next_outage(at) if self.zone else math.inf, end)
            price = self.trace.spot_price if self.zone else 1.0
            self.result.hours += (cut - at) / 60
            self.result.cost += price * (cut - at) / 60
            self.worked += cut - at if works else 0.0
            at = cut
            if at < end:
                self._interrupted(at, works=works)

    def _interrupted(self, at: float, *, works: bool) -> None:
        self.result.interruptions += 1
        if self.policy == "stop" and not works:
            self.runs = False  # no one is there to start it again
            return
        self.zone = None if self.policy == "resume-on-demand" else self._spot(at)
        if works:
            self.result.lost += NOTICED + START if self.policy == "stop" else MOVE
        self._restore()

    def _spot(self, at: float) -> Zone | None:
        """The first zone that has it; on demand where none has."""
        zones = self.trace.zones
        order = [zones[(self.first_zone + n) % len(zones)] for n in range(len(zones))]
        return next((zone for zone in order if zone.is_there(at)), None)


def replay(trace: Trace, policy: Policy, *, sleeps: bool) -> Result:
    """What all people together pay and lose."""
    result = Result()
    for number in range(PEOPLE):
        person = Person(trace, policy, sleeps, number % len(trace.zones), result)
        for day in range(trace.days):
            person.day(float(day * DAY))
    return result


# --- traces ---


def synthetic() -> Iterator[Trace]:
    """Of five years, from AWS's Spot Instance Advisor: interruptions at its rate, in each zone."""
    with ADVISOR.open(newline="") as file:
        rows = {
            row["instance_type"]: row for row in csv.DictReader(file) if row["region"] == REGION
        }
    for name in TYPES:
        row, chance = rows[name], random.Random(f"{SEED} {name}")
        often = FREQUENCIES[int(row["interruption_band"])]
        between = MONTH / -math.log1p(-often)
        zones = tuple(Zone(tuple(_outages(chance, between))) for _ in range(ZONES))
        price = 1 - int(row["saving_percent"]) / 100
        yield Trace(f"{name} (synthetic)", zones, DAYS, price)


def _outages(chance: random.Random, between: float) -> Iterator[tuple[float, float]]:
    at = chance.expovariate(1 / between)
    while at < DAYS * DAY:
        end = at + chance.expovariate(1 / OUTAGE)
        yield at, end
        at = end + chance.expovariate(1 / between)


def recorded(name: str, folder: Path, spot_price: float) -> Trace:
    """Of JSON files with `metadata.gap_seconds` and `data`: how many instances could be had."""
    zones, days = [], DAYS
    for file in sorted(folder.glob("*.json")):
        found = json.loads(file.read_text())
        gap, counts = found["metadata"]["gap_seconds"] / 60, found["data"]
        days = min(days, int(gap * len(counts) / DAY))
        zones.append(Zone(tuple(_gaps(counts, gap))))
    return Trace(name, tuple(zones), days, spot_price)


def _gaps(counts: Sequence[int], gap: float) -> Iterator[tuple[float, float]]:
    begin: float | None = None
    for place, count in enumerate([*counts, 1]):
        if not count and begin is None:
            begin = place * gap
        elif count and begin is not None:
            yield begin, place * gap
            begin = None


# --- the table ---


def table(traces: Sequence[Trace]) -> str:
    """Markdown: a row for each policy of each trace."""
    lines = [
        (
            "| | after an interruption | cost, % of on-demand | interruptions in 100 h "
            "| lost min a day | with sleep |"
        ),
        "|---|---|---|---|---|---|",
    ]
    for trace in traces:
        for policy in POLICIES:
            plain, asleep = (replay(trace, policy, sleeps=sleeps) for sleeps in (False, True))
            label = "(on demand: none)" if policy == "on-demand" else f"`{policy}`"
            often = 100 * plain.interruptions / plain.hours
            lines.append(
                f"| {trace.name} | {label} | {100 * plain.cost / plain.hours:.0f} | {often:.2f} "
                f"| {plain.lost / plain.days:.1f} | {asleep.lost / asleep.days:.1f} |"
            )
    return "\n".join(lines) + "\n"


def page_with(text: str, made: str) -> str:
    """The page with this table between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def main(arguments: Sequence[str]) -> None:
    if not arguments:
        PAGE.write_text(page_with(PAGE.read_text(), table(list(synthetic()))))
        return
    found = []
    for each in arguments:
        name, _, folder = each.partition("=")
        name, _, price = name.partition("@")
        found.append(recorded(name, Path(folder), float(price or 0.38)))
    sys.stdout.write(table(found))


if __name__ == "__main__":
    main(sys.argv[1:])
