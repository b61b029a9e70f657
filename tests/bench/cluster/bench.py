"""`cluster`: workers for a notebook, and runs, from the request to the end.

Four parts, each on an embedded EC2 of its own whose instances boot in no time:

- `launches`: a server asks for eight workers; the launch calls that EC2 gets are counted. Nothing
  runs on the instances.
- `joins`: a notebook starts and stops clusters of real Ray workers, again and again. Each worker is
  timed from its request until the hub knows that it has joined. The baseline, in turn with them, is
  Ray alone: `ray start --address` of as many nodes at the same moment on this machine, until Ray
  says that the node runs. What is between the two is the launch, the agent and the hub.
- `leaks`: servers with workers end in each way in which one can; instances that outlive them are
  counted.
- `runs`: an array of 200 runs, 20 at once, while instances are reclaimed and the hub is killed.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.cluster.joins import measure_joins
from tests.bench.cluster.launches import launch_calls
from tests.bench.cluster.leaks import leaked_by_end
from tests.bench.cluster.run_array import measure_array
from tests.bench.figures import Figure, Goal, Result, median, p95, ratio
from tests.bench.machine import describe_machine

MANY_WORKERS = 8

REPETITIONS, REPETITIONS_SHORT = 4, 1

RUNS, RUNS_SHORT = 200, 20

GOALS = {
    "workers_8_launch_calls": Goal(1),
    "leaked": Goal(0),
    "results_lost": Goal(0),
    "runs_table_differs_usd": Goal(0.00001),
    "runs_above_cap_usd": Goal(0),
    "runs_leaked": Goal(0),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One scene; `only` of the command line selects it by its name."""

    name: str
    measure: Callable[[Path, bool, int | None, Console], Coroutine[Any, Any, Mapping[str, Figure]]]
    """Given a directory, whether to be short, `--starts`, and where to show what is found."""


def run(starts: int | None, short: bool, console: Console, only: str = "") -> Result:
    """Measure the parts whose names contain `only`. `starts` are repetitions of the joins."""
    machine, figures = describe_machine(), dict[str, Figure]()
    with tempfile.TemporaryDirectory(prefix="ec2spawner-cluster-") as directory:
        for part in PARTS:
            if only in part.name:
                folder = Path(directory) / part.name
                folder.mkdir()
                figures |= asyncio.run(part.measure(folder, short, starts, console))
    goals = {name: goal for name, goal in GOALS.items() if not only or name in figures}
    return Result("cluster", figures, goals, machine)


async def _launches(
    directory: Path, short: bool, starts: int | None, console: Console
) -> Mapping[str, Figure]:
    calls = await launch_calls(directory, MANY_WORKERS)
    console.print(f"{MANY_WORKERS} workers: {calls} launch calls", style="dim")
    return {"workers_8_launch_calls": calls}


async def _joins(
    directory: Path, short: bool, starts: int | None, console: Console
) -> Mapping[str, Figure]:
    repetitions = starts or (REPETITIONS_SHORT if short else REPETITIONS)
    found = await measure_joins(directory, repetitions, console)
    table = Table("workers that join", "workers", "median s", "p95 s", "max s")
    for name, seconds in (("ours", found.ours), ("plain ray start", found.plain)):
        figures = (median(seconds), p95(seconds), max(seconds))
        table.add_row(name, str(len(seconds)), *(f"{figure:.2f}" for figure in figures))
    console.print(table)
    return {
        "join_p95_s": p95(found.ours),
        "join_median_s": median(found.ours),
        "plain_ray_start_p95_s": p95(found.plain),
        "plain_ray_start_median_s": median(found.plain),
        "join_p95_ratio_to_plain": ratio(p95(found.ours), p95(found.plain)),
        "joins": len(found.ours),
    }


async def _leaks(
    directory: Path, short: bool, starts: int | None, console: Console
) -> Mapping[str, Figure]:
    found = await leaked_by_end(directory, console)
    table = Table("how the server ended", "instances left")
    for name, count in found.items():
        table.add_row(name, str(count))
    console.print(table)
    return {"leaked": sum(found.values())}


async def _runs(
    directory: Path, short: bool, starts: int | None, console: Console
) -> Mapping[str, Figure]:
    found = await measure_array(directory, RUNS_SHORT if short else RUNS, console)
    console.print(f"outcomes of {found.runs} runs: {dict(found.outcomes)}")
    return {
        "runs": found.runs,
        "results_lost": found.results_lost,
        "runs_table_differs_usd": found.table_differs_usd,
        "runs_above_cap_usd": found.above_cap_usd,
        "runs_begun_again": found.begun_again,
        "runs_hub_kills": found.kills,
        "runs_interruptions": found.interruptions,
        "runs_leaked": found.leaked,
    }


PARTS = (
    Part("launches", _launches),
    Part("joins", _joins),
    Part("leaks", _leaks),
    Part("runs", _runs),
)
