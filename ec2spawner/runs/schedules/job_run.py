"""The run of one job of a schedule: submitted once, followed to its end, cancelled.

The hub knows it by the id of its submission, which is the job's: so a submission that is repeated,
because the hub did not answer or because another process continues the job, makes no second run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ...core.runs.documents import DocumentError, unpack
from ...wire import RunsAnswer, RunsRequest, RunSubmission, RunSummary
from ..agent_request import HubSilent, ask
from ..errors import RunError

FIRST_PAUSE: Final = 3.0
"""Seconds between the first two questions; each later pause is half as long again."""

MAX_PAUSE: Final = 30.0
"""Seconds."""

RETRY_SECONDS: Final = 20.0
"""After a question that was not answered: longer than the agent waits for the hub (15 s), so that
what became of a submission is known to the hub by then."""

MAX_SILENCE: Final = 3600.0
"""Seconds for which a hub that does not answer is asked again to begin or cancel a run."""

Asking = Callable[[RunsRequest], RunsAnswer]
Pause = Callable[[float], None]
"""Waits for these seconds. What it raises ends the wait: `JobStopped`, where it is."""

T = TypeVar("T")


class JobStopped(RunError):
    """Its user has stopped or deleted the job."""


def begin(
    request_id: str,
    submission: Callable[[], RunSubmission],
    *,
    pause: Pause,
    asking: Asking = ask,
) -> RunSummary:
    """The job's run, which is submitted unless it was before.

    Raises `RunError` where the hub refuses it, or does not answer for `MAX_SILENCE`, and what
    `submission` raises.
    """

    def attempt() -> RunSummary:
        known = asking(RunsRequest(request_id=request_id)).runs
        if known:
            return known[0]
        return asking(RunsRequest(action="submit", submission=submission())).runs[0]

    return _answered(attempt, pause)


def wait(number: int, *, pause: Pause, asking: Asking = ask) -> RunSummary:
    """The run once it has ended. A silent hub is asked again, however long. Raises `RunError` where
    the hub does not know the run any more."""
    seconds, request = FIRST_PAUSE, RunsRequest(number=number)
    while True:
        run = _answered(lambda: asking(request), pause, math.inf).runs[0]
        if run.state == "ended":
            return run
        pause(seconds)
        seconds = min(seconds * 1.5, MAX_PAUSE)


def cancel(
    request_id: str, *, may_arrive: bool, sleep: Pause = time.sleep, asking: Asking = ask
) -> None:
    """Cancel the job's run, if it has one that has not ended. `may_arrive`: a submission was sent
    of which the hub may make a run later. Raises `HubSilent` where the hub does not answer for
    `MAX_SILENCE`."""
    request = RunsRequest(action="cancel", request_id=request_id)
    if not _answered(lambda: asking(request), sleep).runs and may_arrive:
        sleep(RETRY_SECONDS)
        _answered(lambda: asking(request), sleep)


def executed(number: int, *, pause: Pause, asking: Asking = ask) -> bytes:
    """The executed notebook of a run. A silent hub is asked again, however long. Raises `RunError`
    where it cannot be read."""
    request = RunsRequest(action="result", number=number)
    answer = _answered(lambda: asking(request), pause, math.inf)
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
