"""The steps of the journey, as they are printed and reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.status import Status

from .. import terminal
from ..core.pricing.money import digits
from ..core.text.durations import in_words

_MARKS = {"ok": ("✓", "green"), "failed": ("✗", "bold red")}


@dataclass(slots=True)
class Step:
    """One line of the report."""

    name: str
    state: str = "running"
    """`running`, `ok`, `failed` or `stopped`."""
    said: str = ""
    seconds: float = 0.0
    usd: float = 0.0
    """Spent since the journey began, when this step ended: an estimate."""


@dataclass(slots=True)
class Steps:
    """All steps so far; each is printed when it ends, and shown while it runs."""

    console: Console
    spent: Callable[[], float]
    """USD so far."""
    quiet: bool = False
    """Print nothing: the output is for a program."""
    done: list[Step] = field(default_factory=list)
    _status: Status | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time the block; what it raises makes the step fail, and is raised again."""
        step = Step(name)
        self.done.append(step)
        began = time.monotonic()
        self._show(name)
        try:
            yield step
            step.state = "ok"
        except Exception as error:
            step.state, step.said = "failed", str(error)
            raise
        finally:
            if step.state == "running":
                step.state = "stopped"
            step.seconds = round(time.monotonic() - began, 1)
            step.usd = round(self.spent(), 4)
            self._end(step)

    def announce(self, words: str) -> None:
        """What the current step is doing now."""
        if self._status is not None:
            with suppress(OSError):
                self._status.update(terminal.text(f"{self.done[-1].name}: {words}"))

    def say(self, words: str, style: str = "") -> None:
        """Print a line, unless the output is for a program."""
        if not self.quiet:
            # A terminal that was closed must not end what runs: it has resources to delete.
            with suppress(OSError):
                self.console.print(terminal.text(words, style))

    def _show(self, name: str) -> None:
        if self.quiet:
            return
        self._status = self.console.status(terminal.text(name))
        with suppress(OSError):
            self._status.start()

    def _end(self, step: Step) -> None:
        if self.quiet:
            return
        if self._status is not None:
            with suppress(OSError):
                self._status.stop()
        self._status = None
        mark, style = _MARKS.get(step.state, ("-", "yellow"))
        line = terminal.text(f"{mark} ", style).append_text(terminal.text(step.name, "bold"))
        spent = f", ${digits(step.usd)} so far" if step.usd else ""
        line.append_text(terminal.text(f"  {in_words(step.seconds)}{spent}", "dim"))
        with suppress(OSError):
            self.console.print(line)
        for said in step.said.splitlines():
            self.say(f"    {said}")

    def as_json(self) -> list[dict[str, Any]]:
        """Every step: `name`, `state`, `said`, `seconds` and `usd` so far."""
        return [asdict(step) for step in self.done]
