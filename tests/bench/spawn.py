"""`spawn`: from the click to a server that is ready, beside the naive way.

Two hubs on one embedded EC2 whose instances boot in no time: ours with the demo's configuration,
and one with `naive_spawner`. They start servers in turn, one at a time, each for a user of its
own; everything of a start is gone before the next begins. A start is timed by whoever asked for
it: from the POST to the hub's answer that the server is ready. Nothing is left out, not even the
first start of a hub. Ours mounts a home besides, which the naive way does not have.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.bench_hub import START_TIMEOUT, BenchHub
from tests.bench.figures import Figure, Goal, Result, median, p95, ratio
from tests.bench.loop_monitor import SAMPLE_AFTER, Turn
from tests.bench.machine import describe_machine
from tests.bench.start_story import STEPS, read_milestones, step_seconds
from tests.harness import Embedded, until

STARTS = 20
STARTS_SHORT = 3

SETTLE = 0.5
"""Seconds after `ready` in which calls still belong to the start, such as its tags."""

GOALS = {
    "ratio_to_naive": Goal(0.7),
    "p95_ratio_to_naive": Goal(0.6),
    "loop_stall_max_ms": Goal(50, inclusive=False),
}

WORST = 5
"""Stalls that the table names."""


@dataclass(frozen=True, slots=True)
class Start:
    """One measured start. Epoch seconds."""

    user: str
    clicked: float
    seconds: float
    calls: Counter[str]

    @property
    def ready(self) -> float:
        return self.clicked + self.seconds


@dataclass(slots=True)
class Measured:
    """All that one hub's starts gave."""

    name: str
    starts: list[Start] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    """The loop's turns from the first click on, longest first."""
    steps: list[tuple[float, ...]] = field(default_factory=list)
    """By start: seconds of each of `STEPS`; ours only."""

    @property
    def seconds(self) -> list[float]:
        return [start.seconds for start in self.starts]

    @property
    def calls_per_start(self) -> float:
        return sum(start.calls.total() for start in self.starts) / len(self.starts)

    @property
    def worst_turn(self) -> Turn | None:
        return self.turns[0] if self.turns else None

    @property
    def worst_of_our_code_ms(self) -> float:
        """The longest turn in which this project's code was seen.

        Turns shorter than `SAMPLE_AFTER` are not looked into: where it was seen in none, that is
        what can be said.
        """
        ours = (turn.wall_ms for turn in self.turns if turn.is_ours)
        return max(ours, default=1000 * SAMPLE_AFTER)


def run(starts: int | None, short: bool, console: Console) -> Result:
    """Measure, show a table, and say what was found. Raises `StartFailedError`."""
    machine = describe_machine()
    count = starts or (STARTS_SHORT if short else STARTS)
    with tempfile.TemporaryDirectory(prefix="ec2spawner-bench-") as directory:
        ours, naive = asyncio.run(measure(Path(directory), count, console))
    show(ours, naive, console)
    return Result("spawn", figures_of(ours, naive), GOALS, machine)


async def measure(directory: Path, count: int, console: Console) -> tuple[Measured, Measured]:
    """`count` starts on each hub, in turn."""
    here = Path(__file__).parent
    embedded = Embedded(directory / "embedded", notebook="jupyterlab")
    ours = BenchHub("ours", directory / "ours", embedded, here / "hub_config.py")
    naive = BenchHub("naive", directory / "naive", embedded, here / "naive_hub_config.py")
    hubs = (ours, naive)
    found = {hub.name: Measured(hub.name) for hub in hubs}
    async with AsyncExitStack() as running:
        running.push_async_callback(embedded.stop)
        await embedded.start()
        # The naive spawner sets no tags, so the hub's policy is not for it.
        naive.environment = {**naive.environment, **embedded.admin_credentials}
        for hub in hubs:
            running.push_async_callback(hub.stop)
        await asyncio.gather(*(hub.start() for hub in hubs))
        began = time.time()
        for number in range(count):
            for hub in hubs:
                start = await one_start(hub, embedded, f"{hub.name}-{number:02}")
                found[hub.name].starts.append(start)
                console.print(
                    f"{number + 1:3}/{count} {hub.name:5} {start.seconds:6.2f} s", style="dim"
                )
        ended = time.time()
    for hub in hubs:
        found[hub.name].turns = hub.turns(began, ended)
    milestones = read_milestones(ours.directory / "ec2spawner.sqlite")
    found["ours"].steps = [
        step_seconds(start.clicked, milestones[start.user], start.ready)
        for start in found["ours"].starts
    ]
    return found["ours"], found["naive"]


async def one_start(hub: BenchHub, embedded: Embedded, user: str) -> Start:
    """Time one start, then take its server away and wait until nothing of it runs."""
    await hub.add_user(user)
    before = len(await embedded.control("calls"))
    clicked, began = time.time(), time.perf_counter()
    await hub.click_to_ready(user)
    seconds = time.perf_counter() - began
    await asyncio.sleep(SETTLE)
    calls = (await embedded.control("calls"))[before:]
    await hub.stop_server(user)

    async def nothing_runs() -> bool:
        return not any(i["processes"] for i in await embedded.control("instances"))

    await until(nothing_runs, START_TIMEOUT, f"the instance of {user} to be gone")
    return Start(user, clicked, seconds, Counter(call["action"] for call in calls))


def figures_of(ours: Measured, naive: Measured) -> dict[str, Figure]:
    """The figures by their names in `DESIGN.md`, and some more of the baseline."""
    return {
        "start_median_s": median(ours.seconds),
        "start_p95_s": p95(ours.seconds),
        "naive_median_s": median(naive.seconds),
        "naive_p95_s": p95(naive.seconds),
        "ratio_to_naive": ratio(median(ours.seconds), median(naive.seconds)),
        "p95_ratio_to_naive": ratio(p95(ours.seconds), p95(naive.seconds)),
        "api_calls_per_start": ours.calls_per_start,
        "naive_api_calls_per_start": naive.calls_per_start,
        "loop_stall_max_ms": ours.worst_turn.wall_ms if ours.worst_turn else None,
        "loop_stall_our_code_ms": ours.worst_of_our_code_ms,
        "loop_stall_less_queue_ms": _worst_own(ours.turns),
        "naive_loop_stall_max_ms": naive.worst_turn.wall_ms if naive.worst_turn else None,
        "naive_loop_stall_less_queue_ms": _worst_own(naive.turns),
        "starts": len(ours.starts),
    }


def _worst_own(turns: Sequence[Turn]) -> float | None:
    """The longest turn without what it waited for a core, which is the machine's doing."""
    return max((turn.own_ms for turn in turns), default=None)


# --- for people ---------------------------------------------------------------------------------


def show(ours: Measured, naive: Measured, console: Console) -> None:
    console.print(_starts_table(ours, naive))
    console.print(_steps_table(ours.steps))
    console.print(_calls_table(ours, naive))
    for measured in (ours, naive):
        console.print(_stalls_table(measured))


def _starts_table(ours: Measured, naive: Measured) -> Table:
    table = Table("click to ready", "median s", "p95 s", "min s", "max s")
    for measured in (ours, naive):
        seconds = measured.seconds
        figures = (median(seconds), p95(seconds), min(seconds), max(seconds))
        table.add_row(measured.name, *(f"{figure:.2f}" for figure in figures))
    ratios = (
        ratio(median(ours.seconds), median(naive.seconds)),
        ratio(p95(ours.seconds), p95(naive.seconds)),
    )
    table.add_row("ratio", *("-" if found is None else f"{found:.2f}" for found in ratios))
    return table


def _steps_table(steps: Sequence[tuple[float, ...]]) -> Table:
    table = Table("where a start of ours goes", "median ms", "p95 ms")
    for name, seconds in zip(STEPS, zip(*steps, strict=True), strict=True):
        table.add_row(name, f"{1000 * median(seconds):.0f}", f"{1000 * p95(seconds):.0f}")
    return table


def _calls_table(ours: Measured, naive: Measured) -> Table:
    table = Table("EC2 calls per start", "ours", "naive")
    totals = [sum((start.calls for start in m.starts), Counter[str]()) for m in (ours, naive)]
    for action in sorted(set().union(*totals)):
        shares = (
            total[action] / len(m.starts) for total, m in zip(totals, (ours, naive), strict=True)
        )
        table.add_row(action, *(f"{share:.1f}" for share in shares))
    return table


def _stalls_table(measured: Measured) -> Table:
    table = Table(
        f"worst stalls, {measured.name}",
        "wall ms",
        "CPU ms",
        "queued ms",
        "GC ms",
        title_justify="left",
    )
    for turn in measured.turns[:WORST]:
        figures = (turn.wall_ms, turn.cpu_ms, turn.queued_ms, turn.gc_ms)
        table.add_row(turn.place or "(not seen)", *(f"{figure:.0f}" for figure in figures))
    return table
