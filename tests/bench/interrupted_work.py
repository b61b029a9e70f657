"""Somebody at work on a server that is interrupted: a notebook with variables, a resumable loop
that runs, files, and what of all that is there afterwards."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp

from tests.harness import Hub, until
from tests.jupyter_by_hand import Jupyter, Kernel, printed

POLL_SECONDS = 0.05

NOTEBOOK, LOOP, NOTES, OWNER = "train.ipynb", "loop.ipynb", "notes.txt", "owner.txt"

TYPED = "typed.txt"
"""Open in a page, and not saved."""

EMPTY = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}

WORKING_TIMEOUT = 90.0
"""Seconds from a notice until a cell that uses the variables has run."""

RESUME_TIMEOUT = 20.0
"""Seconds for the loop to run again once its session has woken."""

WORK = """
import collections, datetime, hashlib, math, random
class Run:
    def __init__(self, steps):
        self.steps = steps
run = Run([])
losses = run.steps
counts = collections.Counter()
began = datetime.datetime(2026, 11, 24, 9, 30)
weights = random.Random(7).randbytes(1_000_000)
label = "not yet"
circular = [1]
circular.append(circular)
scaled = lambda n: math.floor(n * 1.5)
"""

CHANGE = """
losses.append({number} / 7)
counts.update(['interruption'])
label = "interruption {number}"
weights = hashlib.sha256(weights).digest() + weights[32:]
"""

READ = """
__import__("json").dumps({
    "run": [type(run) is Run, [x.hex() for x in run.steps]],
    "losses": [losses is run.steps, len(losses)],
    "counts": dict(counts),
    "began": began.isoformat(),
    "weights": hashlib.sha256(weights).hexdigest(),
    "label": label,
    "circular": circular[1] is circular,
    "scaled": scaled(5),
})
"""
"""Its value has each variable as text that two equal ones have in common."""

LOOP_CELL = """
import time
from pathlib import Path
from ec2spawner import checkpoint
steps, run_id = Path.home() / "steps.log", time.time_ns()
for step in checkpoint.resumable(range(10**6), every="1s", restart=True):
    with steps.open("a") as file:
        print(run_id, step, file=file)
    time.sleep(0.05)
"""


@dataclass(slots=True)
class Expected:
    """What must be there after an interruption."""

    variables: dict[str, Any]
    notes: str
    step: int
    """Of the loop; None of it is to be done again but what came after the notice."""
    lines: int
    """Of the loop's log."""
    typed: str = ""
    """In an open page, not saved."""


@dataclass(slots=True)
class Lost:
    """What was not, by its name."""

    variables: list[str] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)
    checkpoints: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Worker:
    """One user with their server, which runs."""

    hub: Hub
    user: str
    http: Jupyter
    kernel: str = ""
    notes: str = ""

    async def begin(self) -> None:
        """Open both notebooks, define the variables, start the loop."""
        await self.save_text(OWNER, self.user)
        await self.define()
        loop = await self._open(LOOP)
        channels = await self.http.execute(loop, LOOP_CELL)
        await self._until_lines(1)
        await channels.close()

    async def _until_lines(self, number: int) -> None:
        """Wait until the loop has done so many steps, on all machines together."""

        async def done() -> bool:
            return self.position()[1] >= number

        await until(done, WORKING_TIMEOUT, f"the loop of {self.user} to run")

    async def define(self) -> None:
        """Run all cells of the notebook."""
        self.kernel = await self._open(NOTEBOOK)
        assert printed(await Kernel(self.http, self.kernel).run(WORK)) == ""

    async def _open(self, path: str) -> str:
        await self._save(path, {"type": "notebook", "format": "json", "content": EMPTY})
        return await self.http.start_notebook(path)

    async def save_text(self, path: str, text: str) -> None:
        await self._save(path, {"type": "file", "format": "text", "content": text})

    async def _save(self, path: str, body: dict[str, Any]) -> None:
        status, said = await self.http.call("PUT", f"api/contents/{path}", json=body)
        assert status in {200, 201}, said

    async def change(self, number: int) -> Expected:
        """Change variables and a file."""
        cell = CHANGE.format(number=number)
        assert printed(await Kernel(self.http, self.kernel).run(cell)) == ""
        self.notes += f"note {number}\n"
        await self.save_text(NOTES, self.notes)
        step, lines = self.position()
        return Expected(await self.read(), self.notes, step, lines)

    async def read(self) -> dict[str, Any]:
        """The variables; empty where a cell that uses them fails."""
        said = await Kernel(self.http, self.kernel).run(READ)
        [value] = [each["data"]["text/plain"] for each in said if each["kind"] == "execute_result"]
        found: dict[str, Any] = json.loads(value.strip("'\""))
        return found

    async def until_working(self, noticed: datetime) -> dict[str, Any]:
        """Wait until the kernel has woken after `noticed`, and run a cell: the variables."""

        async def has_woken() -> bool:
            with suppress(aiohttp.ClientError, AssertionError, ValueError, TimeoutError):
                wake = (await self.http.status())["wake"]
                if wake is None or datetime.fromisoformat(wake["slept_at"]) <= noticed:
                    return False
                mine = [each for each in wake["kernels"] if each["path"] == NOTEBOOK]
                return [each["state"] for each in mine] == ["done"]
            return False

        what = f"the session of {self.user} to wake"
        await until(has_woken, WORKING_TIMEOUT, what, pause=POLL_SECONDS)
        return await self.read()

    async def lost(self, expected: Expected, found: dict[str, Any], address: int) -> Lost:
        """Compare; `address` is what the URL answered to the cookie of before."""
        lost = Lost()
        lost.variables = [x for x in expected.variables if found.get(x) != expected.variables[x]]
        if (self.home / NOTES).read_text() != expected.notes:
            lost.edits.append(NOTES)
        if expected.typed and expected.typed not in (self.home / TYPED).read_text():
            lost.edits.append(TYPED)
        if address != 200:
            lost.addresses.append(f"{address}")
        resumed = await self._resumed_at(expected)
        if resumed is None or resumed <= expected.step:
            lost.checkpoints.append(f"resumed at {resumed}, not after {expected.step}")
        return lost

    @property
    def home(self) -> Path:
        """As a folder of this machine, which is what the embedded EC2's volumes are."""
        volumes = self.hub.embedded.data_dir / "ec2" / "volumes"
        [found] = [x.parent for x in volumes.glob(f"*/{OWNER}") if x.read_text() == self.user]
        return found

    def position(self) -> tuple[int, int]:
        """The loop's last step, and how many it has done, again or for the first time."""
        steps = self._steps()
        return (steps[-1][1], len(steps)) if steps else (-1, 0)

    def _steps(self) -> list[tuple[int, int]]:
        """Which run of the cell has done which step."""
        with suppress(OSError):
            # The last line may be half written.
            lines = (self.home / "steps.log").read_text().split("\n")[:-1]
            return [(int(run), int(step)) for run, step in map(str.split, lines)]
        return []

    async def _resumed_at(self, expected: Expected) -> int | None:
        """The step with which another run of the cell has begun; None if there is none."""
        found: list[int] = []

        async def resumed() -> bool:
            later = self._steps()[expected.lines - 1 :]
            found[:] = [after[1] for before, after in pairwise(later) if after[0] != before[0]]
            return bool(found)

        with suppress(AssertionError):
            await until(resumed, RESUME_TIMEOUT, "the loop to run again")
        return found[0] if found else None
