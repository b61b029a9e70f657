"""What the executor does with a document, whether it is a notebook or a script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ..core.text.untrusted import without_escapes

MAX_MESSAGE: Final = 500
"""Characters."""


class CannotExecute(Exception):
    """Why a document cannot be executed here, in words for its user."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    succeeded: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    cells_done: int = 0
    cells_total: int = 0
    """Code cells; 0 for a script."""
    message: str = ""
    changes: int = 0
    """Grows with every change of the result."""


class Execution(Protocol):
    """One document. `run` once; meanwhile `progress` and `result`; `close` in any case."""

    async def run(self) -> Outcome:
        """Execute it. Raises `CannotExecute`, and `OSError` where the home has no room."""

    def progress(self) -> Progress:
        """As of now."""

    def result(self) -> Callable[[], str]:
        """What there is as of now, as a function that encodes it, for a thread; it returns an empty
        text if there is nothing."""

    async def interrupt(self) -> None:
        """Have what runs end by itself, soon. Never raises."""

    async def close(self) -> None:
        """Leave no process behind. Never raises."""


def in_words(text: str, length: int = MAX_MESSAGE) -> str:
    """Any text in one printable line of bounded length."""
    lines = (without_escapes(each) for each in text[: 20 * length].splitlines())
    line = " ".join(each for each in lines if each)
    return line if len(line) <= length else f"{line[: length - 1]}…"
