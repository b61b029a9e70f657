"""The run of one job of a schedule: submitted once, followed to its end, cancelled.

A job's notebook has a path of its own, by which its run is found again: after a submission that the
hub did not answer, and by another process that continues the job.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from ...core.runs.documents import DocumentError, unpack
from ...wire import RunsAnswer, RunsRequest, RunSubmission, RunSummary
from ..agent_request import HubSilent, ask
from ..errors import RunError, RunRefused

FIRST_PAUSE: Final = 3.0
"""Seconds between the first two questions; each later pause is half as long again."""

MAX_PAUSE: Final = 30.0
"""Seconds. Each answer has up to a thousand runs."""

RETRY_SECONDS: Final = 20.0
"""After a question that was not answered: longer than the agent waits for the hub (15 s), so that
what became of a submission is known to the hub by then."""

MAX_SILENCE: Final = 3600.0
"""Seconds for which a hub that does not answer is asked again, except for the state of a run."""

Asking = Callable[[RunsRequest], RunsAnswer]
Pause = Callable[[float], None]
"""Waits for these seconds. What it raises ends the wait: `JobStopped`, where it is."""

T = TypeVar("T")


class JobStopped(RunError):
    """Its user has stopped or deleted the job."""


def begin(
    submit: Callable[[], RunSubmission],
    path: str,
    *,
    is_resumed: bool,
    pause: Pause,
    asking: Asking = ask,
) -> RunSummary:
    """The job's run, which is submitted unless it was before. `is_resumed`: it may have been.

    Raises `RunError` where the hub refuses it, or does not answer for `MAX_SILENCE`.
    """
    may_exist = is_resumed

    def attempt() -> RunSummary:
        nonlocal may_exist
        found = _run_of(path, asking) if may_exist else None
        if found is not None:
            return found
        may_exist = True
        return asking(RunsRequest(action="submit", submission=submit())).runs[0]

    return _answered(attempt, pause)


def wait(
    number: int, *, show: Callable[[RunSummary], None], pause: Pause, asking: Asking = ask
) -> RunSummary:
    """The run once it has ended; `show` is given it each time before. A silent hub is asked again,
    however long. Raises `RunError` where the hub does not know the run any more."""
    seconds = FIRST_PAUSE
    while True:
        run = _answered(lambda: _numbered(number, asking), pause, math.inf)
        if run.state == "ended":
            return run
        show(run)
        pause(seconds)
        seconds = min(seconds * 1.5, MAX_PAUSE)


def cancel(path: str, *, pause: Pause = time.sleep, asking: Asking = ask) -> None:
    """Cancel the run of this path, if there is one that has not ended. Raises `HubSilent` where the
    hub does not answer for `MAX_SILENCE`."""

    def attempt() -> None:
        run = _run_of(path, asking)
        if run is not None and run.state != "ended":
            with suppress(RunRefused):  # it has ended meanwhile
                asking(RunsRequest(action="cancel", number=run.number))

    _answered(attempt, pause)


def executed(number: int, *, pause: Pause, asking: Asking = ask) -> bytes:
    """The executed notebook of a run. Raises `RunError` where it cannot be read."""
    answer = _answered(lambda: asking(RunsRequest(action="result", number=number)), pause)
    try:
        return unpack(answer.result)
    except DocumentError as error:
        raise RunError(f"The result of run {number} cannot be read: {error}.") from error


def _answered(question: Callable[[], T], pause: Pause, seconds: float = MAX_SILENCE) -> T:
    """Ask until the hub answers. Raises `HubSilent` after so long."""
    until = time.monotonic() + seconds
    while True:
        try:
            return question()
        except HubSilent:
            if time.monotonic() >= until:
                raise
        pause(RETRY_SECONDS)


def _run_of(path: str, asking: Asking) -> RunSummary | None:
    """The newest run of this path."""
    runs = [run for run in asking(RunsRequest()).runs if run.path == path]
    return max(runs, key=lambda run: run.number, default=None)


def _numbered(number: int, asking: Asking) -> RunSummary:
    for run in asking(RunsRequest()).runs:
        if run.number == number:
            return run
    raise RunError(
        f"The hub does not show run {number} any more: see `ec2spawner runs` and the folder runs "
        "of your home."
    )
