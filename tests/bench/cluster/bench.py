"""`cluster`: workers for a notebook, from the request until they have joined, and after its end.

Three parts, each on an embedded EC2 of its own whose instances boot in no time:

- A server asks for eight workers; the launch calls that EC2 gets are counted. Nothing runs on the
  instances.
- A notebook starts and stops clusters of real Ray workers, again and again. Each worker is timed
  from its request until the hub knows that it has joined. The baseline, in turn with them,
  is Ray alone: `ray start --address` of as many nodes at the same moment on this machine, until
  Ray says that the node runs. What is between the two is the launch, the agent and the hub.
- Servers with workers end in each way in which one can; instances that outlive them are counted.

`results_lost` of DESIGN.md is not measured yet: it needs runs of arrays, which do not exist.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.cluster.joins import Joins, measure_joins
from tests.bench.cluster.launches import launch_calls
from tests.bench.cluster.leaks import leaked_by_end
from tests.bench.figures import Figure, Goal, Result, median, p95, ratio
from tests.bench.machine import describe_machine

MANY_WORKERS = 8

REPETITIONS, REPETITIONS_SHORT = 4, 1

GOALS = {"workers_8_launch_calls": Goal(1), "leaked": Goal(0)}


@dataclass(frozen=True, slots=True)
class Measured:
    launch_calls: int
    joins: Joins
    leaked: Mapping[str, int]
    """By the way in which the server ended."""


def run(starts: int | None, short: bool, console: Console) -> Result:
    """Measure, show a table, and say what was found. `starts` are repetitions of the joins."""
    machine = describe_machine()
    repetitions = starts or (REPETITIONS_SHORT if short else REPETITIONS)
    with tempfile.TemporaryDirectory(prefix="ec2spawner-cluster-") as directory:
        found = asyncio.run(measure(Path(directory), repetitions, console))
    show(found, console)
    return Result("cluster", figures_of(found), GOALS, machine)


async def measure(directory: Path, repetitions: int, console: Console) -> Measured:
    """The three parts, one after the other."""
    calls = await launch_calls(directory / "launches", MANY_WORKERS)
    console.print(f"{MANY_WORKERS} workers: {calls} launch calls", style="dim")
    joins = await measure_joins(directory / "joins", repetitions, console)
    leaked = await leaked_by_end(directory / "leaks", console)
    return Measured(calls, joins, leaked)


def figures_of(found: Measured) -> dict[str, Figure]:
    """The figures by their names in `DESIGN.md`, and some more of the baseline."""
    ours, plain = found.joins.ours, found.joins.plain
    return {
        "workers_8_launch_calls": found.launch_calls,
        "join_p95_s": p95(ours),
        "join_median_s": median(ours),
        "plain_ray_start_p95_s": p95(plain),
        "plain_ray_start_median_s": median(plain),
        "join_p95_ratio_to_plain": ratio(p95(ours), p95(plain)),
        "joins": len(ours),
        "leaked": sum(found.leaked.values()),
    }


# --- for people ---------------------------------------------------------------------------------


def show(found: Measured, console: Console) -> None:
    table = Table("workers that join", "workers", "median s", "p95 s", "max s")
    for name, seconds in (("ours", found.joins.ours), ("plain ray start", found.joins.plain)):
        figures = (median(seconds), p95(seconds), max(seconds))
        table.add_row(name, str(len(seconds)), *(f"{figure:.2f}" for figure in figures))
    console.print(table)
    table = Table("how the server ended", "instances left")
    for name, count in found.leaked.items():
        table.add_row(name, str(count))
    console.print(table)
