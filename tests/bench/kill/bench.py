"""`kill`: the hub dies by SIGKILL at every call to AWS and every write to its store.

The moments are found, not listed: one life of a hub is recorded through all `LEGS` of a server,
then each of its moments becomes a point. A fresh hub lives up to the point, kills itself there,
and is started again with the same data. After two reconcile passes it is held against the
embedded EC2: no instance without a lease, no volume but homes, no interface, every file in every
home, a bystander's server that answers through the proxy as before, and the server that it was
about ready, or gone and able to start again. A life has a death in each of its legs.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.bench.bench_hub import StartFailedError
from tests.bench.figures import Figure, Goal, Result
from tests.bench.kill.checks import KINDS
from tests.bench.kill.killable_hub import KillableHub
from tests.bench.kill.legs import ANN, BOB, LEGS, SHORT_LEGS
from tests.bench.kill.life import Life, Outcome
from tests.bench.kill.points import Point, by_leg, sample
from tests.bench.machine import describe_machine
from tests.harness import Embedded
from tests.nursery import Nursery

SHORT_POINTS = 10

HUBS = 3
"""Lives at once: half of each is waiting."""

LIVES_PER_EC2 = 8
"""An embedded EC2 is renewed after so many: ended instances stay in its listings for a while."""

TRIES = 3
"""A point that the hub did not come by is tried so often: which listing falls into a leg differs
from run to run."""

FAILED_LOGS = Path(tempfile.gettempdir()) / "ec2spawner-kill-failed"
"""Where the logs of hubs are kept that failed."""

GOALS = dict.fromkeys(KINDS, Goal(0))


@dataclass(slots=True)
class Findings:
    outcomes: dict[Point, Outcome] = field(default_factory=dict)
    tries: Counter[Point] = field(default_factory=Counter)

    @property
    def killed(self) -> int:
        return sum(1 for outcome in self.outcomes.values() if outcome.died)

    @property
    def failed(self) -> dict[Point, Outcome]:
        return {point: found for point, found in self.outcomes.items() if found.problems}

    def counts(self) -> dict[str, int]:
        """By kind of problem: at how many points it was met."""
        met = Counter(
            kind for found in self.failed.values() for kind in {p.kind for p in found.problems}
        )
        return {kind: met[kind] for kind in KINDS}


class Work:
    """The points still to be met, handed out a life at a time."""

    def __init__(self, legs: Mapping[str, Sequence[Point]], findings: Findings) -> None:
        self._queues = {leg: deque(points) for leg, points in legs.items()}
        self._findings = findings
        self._under_way = 0

    def next_life(self) -> list[Point]:
        """A point of each leg that has one left."""
        points = [queue.popleft() for queue in self._queues.values() if queue]
        self._under_way += len(points)
        return points

    @property
    def is_done(self) -> bool:
        return not self._under_way and not any(self._queues.values())

    def done(self, point: Point, outcome: Outcome | None) -> bool:
        """True where the point is settled; None means that its leg was not lived."""
        self._under_way -= 1
        if outcome is not None:
            self._findings.tries[point] += 1
            tried_enough = self._findings.tries[point] >= TRIES
            if outcome.died or outcome.problems or tried_enough:
                self._findings.outcomes[point] = outcome
                return True
        self._queues[point.leg].append(point)
        return False


def run(
    hubs: int | None, short: bool, console: Console, *, only: str = "", listing: bool = False
) -> Result:
    """Kill at every point, or those with `only` in their names; or just list them.

    Raises `StartFailedError` where the recorded life, in which nothing is killed, has problems.
    """
    machine = describe_machine()
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="ec2spawner-kill-") as directory:
        bench = Bench(Path(directory), console, hubs or HUBS, short)
        legs = asyncio.run(bench.measure(findings, only, listing))
    if listing:
        show_points(legs, console)
    else:
        show(legs, findings, console)
    return Result("kill", figures_of(findings), GOALS, machine)


class Bench:
    def __init__(self, directory: Path, console: Console, hubs: int, short: bool) -> None:
        self._directory = directory
        self._console = console
        self._hubs = hubs
        self._short = short
        self._legs = SHORT_LEGS if short else LEGS
        self._lives = 0
        self._ec2s = 0

    async def measure(self, findings: Findings, only: str, listing: bool) -> dict[str, list[Point]]:
        """Record, then kill; the points by leg."""
        async with AsyncExitStack() as running:
            first = await self._new_ec2(running)
            self._nursery = Nursery("jupyterhub", self._directory / "nursery.log")
            running.callback(self._nursery.stop)
            legs = await self._record(first)
            if self._short:
                legs = sample(legs, SHORT_POINTS)
            legs = {leg: [p for p in points if only in str(p)] for leg, points in legs.items()}
            if listing:
                return legs
            with self._progress() as progress:
                bar = progress.add_task("killed", total=sum(map(len, legs.values())))
                work = Work(legs, findings)
                async with asyncio.TaskGroup() as group:
                    for number in range(self._hubs):
                        ec2 = first if number == 0 else None
                        group.create_task(
                            self._keep_killing(work, lambda: progress.advance(bar), ec2)
                        )
        return legs

    async def _record(self, embedded: Embedded) -> dict[str, list[Point]]:
        hub = self._new_hub(embedded)
        try:
            await hub.begin(ANN, BOB)
            life = Life(hub)
            for leg in self._legs:
                outcome = await life.live(leg)
                if outcome.problems:
                    text = "\n".join(problem.text for problem in outcome.problems)
                    raise StartFailedError(f"{leg.name}, with nothing killed: {text}\n{hub.tail()}")
            return by_leg(hub.points())
        finally:
            await hub.stop()

    async def _keep_killing(
        self, work: Work, advance: Callable[[], None], embedded: Embedded | None
    ) -> None:
        while not work.is_done:
            async with AsyncExitStack() as running:
                ec2 = embedded or await self._new_ec2(running)
                embedded = None
                for _ in range(LIVES_PER_EC2):
                    points = work.next_life()
                    if not points:
                        break
                    await self._one_life(ec2, points, work, advance)
            if not work.is_done:
                await asyncio.sleep(0.2)

    async def _one_life(
        self, embedded: Embedded, points: list[Point], work: Work, advance: Callable[[], None]
    ) -> None:
        """A death in each leg that has a point; the first failure ends it, and its hub with it."""
        left = {point.leg: point for point in points}
        hub = self._new_hub(embedded)
        try:
            await hub.begin(ANN, BOB)
            life = Life(hub)
            for leg in self._legs:
                if (point := left.pop(leg.name, None)) is None:
                    continue
                outcome = await life.live(leg, point.moment)
                if work.done(point, outcome):
                    advance()
                if outcome.problems:
                    self._report(point, outcome, hub)
                    break
        finally:
            await hub.stop()
            for point in left.values():
                work.done(point, None)

    def _new_hub(self, embedded: Embedded) -> KillableHub:
        self._lives += 1
        name = f"hub-{self._lives}"
        return KillableHub(name, self._directory / name, embedded, self._nursery)

    async def _new_ec2(self, running: AsyncExitStack) -> Embedded:
        self._ec2s += 1
        embedded = Embedded(self._directory / f"ec2-{self._ec2s}", boot_seconds=0)
        running.push_async_callback(embedded.stop)
        return await embedded.start()

    def _report(self, point: Point, outcome: Outcome, hub: KillableHub) -> None:
        why = "; ".join(problem.text for problem in outcome.problems)
        FAILED_LOGS.mkdir(exist_ok=True)
        log = FAILED_LOGS / f"{str(point).replace(' ', '-').replace(':', '')}.log"
        shutil.copyfile(hub.log, log)
        self._console.print(f"[red]failed[/] {point}: {why} (log: {log})", highlight=False)

    def _progress(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
        )


def figures_of(findings: Findings) -> dict[str, Figure]:
    settled = [found for found in findings.outcomes.values() if found.died and not found.problems]
    return {
        "points": len(findings.outcomes),
        "killed": findings.killed,
        "not_reached": len(findings.outcomes) - findings.killed,
        **findings.counts(),
        "settled_max_s": max((found.seconds for found in settled), default=None),
    }


# --- for people ---------------------------------------------------------------------------------


def show(legs: Mapping[str, Sequence[Point]], findings: Findings, console: Console) -> None:
    table = Table("leg", "points", "killed", "failed")
    for leg, points in legs.items():
        found = [findings.outcomes[point] for point in points if point in findings.outcomes]
        killed = sum(1 for outcome in found if outcome.died)
        failed = sum(1 for outcome in found if outcome.problems)
        table.add_row(leg, str(len(points)), str(killed), str(failed))
    console.print(table)
    for point, outcome in findings.outcomes.items():
        if not outcome.died and not outcome.problems:
            console.print(f"not reached: {point}", style="dim", highlight=False)
    for point, outcome in findings.failed.items():
        for problem in outcome.problems:
            console.print(f"{problem.kind}: {point}: {problem.text}", highlight=False)


def show_points(legs: Mapping[str, Sequence[Point]], console: Console) -> None:
    for points in legs.values():
        for point in points:
            console.print(str(point), highlight=False)
