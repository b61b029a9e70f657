"""Shows the progress of runs in a terminal until all have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ...terminal import text
from ...wire import RunsAnswer, RunsRequest, RunSummary
from .. import words
from ..agent_request import HubSilent, ask
from ..errors import RunError
from ..submission import result_path

POLL_SECONDS: Final = 3.0
"""Between two questions; each answer has all runs of an array."""


def follow(
    numbers: Sequence[int],
    console: Console,
    *,
    asking: Callable[[RunsRequest], RunsAnswer] = ask,
    poll_seconds: float = POLL_SECONDS,
) -> list[RunSummary]:
    """These runs of one submission once all have ended, by number. Raises `RunError` where the hub
    does not know one.

    While the hub is silent it asks again. After Ctrl-C the runs continue, which is printed.
    """
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    try:
        with bar:
            task = bar.add_task("", total=None)
            while True:
                runs, silence = _found(numbers, asking)
                if runs:
                    done, total = progress(runs)
                    bar.update(task, completed=done, total=total)
                said = silence or words.Group(runs).state
                bar.update(task, description=text(said).plain)
                if runs and all(run.state == "ended" for run in runs):
                    break
                time.sleep(poll_seconds)
    except KeyboardInterrupt:
        first = numbers[0]
        console.print(text(f"Not cancelled: `ec2spawner runs show {first}` shows how it stands"))
        raise
    for run in runs if len(runs) == 1 else ():
        console.print(text(_ended(run)), soft_wrap=True)
    if len(runs) > 1:
        console.print(text(f"{words.Group(runs).state}; {words.cost(runs)} USD (estimate)"))
    return runs


def progress(runs: Sequence[RunSummary]) -> tuple[int, int | None]:
    """Of one run its cells, of an array its runs; None is unknown."""
    if len(runs) == 1:
        return runs[0].cells_done, runs[0].cells_total or None
    return sum(run.state == "ended" for run in runs), len(runs)


def _found(
    numbers: Sequence[int], asking: Callable[[RunsRequest], RunsAnswer]
) -> tuple[list[RunSummary], str]:
    """The runs, and why there are none now."""
    try:
        answer = asking(RunsRequest(number=numbers[0]))
    except HubSilent:
        return [], "the hub does not answer; runs continue"
    wanted = set(numbers)
    runs = sorted((run for run in answer.runs if run.number in wanted), key=lambda run: run.number)
    if len(runs) < len(wanted):
        raise RunError("The hub shows not all of these runs any more: see `ec2spawner runs`.")
    return runs, ""


def _ended(run: RunSummary) -> str:
    why = f": {run.message}" if run.message else ""
    result = f"; result: ~/{result_path(run.path, run.number)}" if run.has_result else ""
    return f"Run {run.number} {words.state(run)}{why}. {words.cost([run])} USD (estimate){result}"
