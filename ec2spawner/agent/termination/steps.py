"""Steps with a time limit each, and what became of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import Literal

from ...wire import StepResult

log = logging.getLogger(__name__)

MAX_PROBLEM_CHARS = 300
"""Limits what the user's own process may put into a report, which has 500 characters."""

Outcome = Literal["done", "late", "failed"]


class StepError(Exception):
    """A step has failed for this reason: a sentence for the user."""


class Steps:
    """Takes one step after another. One that fails or is late does not prevent the next."""

    def __init__(self) -> None:
        self._results: list[StepResult] = []
        self._problems: list[str] = []

    async def take(self, name: str, work: Awaitable[bool], seconds: float) -> bool:
        """Do this, cancel it after `seconds`; it returns whether it succeeded, and so does this."""
        began = time.monotonic()
        outcome: Outcome
        detail = ""
        try:
            async with asyncio.timeout(seconds):
                outcome = "done" if await work else "failed"
        except TimeoutError:
            outcome = "late"
        except StepError as error:
            outcome = "failed"
            self._problems.append(str(error)[:MAX_PROBLEM_CHARS])
        except Exception as error:
            log.exception("the step %s failed", name)
            outcome, detail = "failed", repr(error)[:200]
        took = time.monotonic() - began
        self.add(StepResult(step=name, outcome=outcome, seconds=took, detail=detail))
        return outcome == "done"

    def add(self, result: StepResult) -> None:
        """Add a step that another process has taken, as it says."""
        log.info("end: %s", _words(result))
        self._results.append(result)

    @property
    def has_problems(self) -> bool:
        """Whether there is a step whose failure its user should know."""
        return bool(self._problems)

    def summary(self) -> str:
        """For people, in one line: first what could not be saved, then each step."""
        return " ".join([*self._problems, "; ".join(map(_words, self._results))])


def _words(result: StepResult) -> str:
    detail = f" ({result.detail[:80]})" if result.detail else ""
    return f"{result.step[:20]} {result.outcome} after {result.seconds:.1f} s{detail}"
