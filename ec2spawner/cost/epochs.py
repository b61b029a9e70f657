"""`for epoch in cost.epochs(range(10)):` shows what each costs, and a forecast for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TextIO, TypeVar

from . import agent
from .formatting import lasted, money, when
from .interval import Moment, between
from .line import Line, depth

T = TypeVar("T")

NOTEBOOK_PAUSE: Final = 0.5
TERMINAL_PAUSE: Final = 2.0
"""Seconds between two lines at least: shorter epochs are combined."""


def epochs(
    iterable: Iterable[T],
    name: str = "epoch",
    *,
    total: int | None = None,
    quiet: bool = False,
    file: TextIO | None = None,
) -> Iterator[T]:
    """Yield from the iterable, and print after each epoch its cost, the cost so far and a forecast
    of the total.

    `total` is the number of epochs, for an iterable without a length; without either there is no
    forecast. `quiet` prints nothing; `file` is written to in place of the standard output.
    """
    number = _length(iterable) if total is None else total
    return _epochs(iterable, _Report(name, number, None if quiet else Line(file, depth.get())))


@dataclass(slots=True)
class Done:
    """What the finished epochs took, in seconds or USD: only sums, as there may be millions."""

    number: int = 0
    first: float = 0.0
    later: float = 0.0
    """All but the first."""

    def add(self, amount: float) -> None:
        """Count one more iteration that took `amount` (seconds or USD)."""
        if self.number:
            self.later += amount
        else:
            self.first = amount
        self.number += 1

    def left(self, total: int) -> float:
        """What the remaining epochs up to `total` will take.

        The first one is left out of the mean once there is a second: it warms up, compiles and
        fills caches.
        """
        typical = self.later / (self.number - 1) if self.number > 1 else self.first
        return max(total - self.number, 0) * typical

    def forecast(self, total: int) -> float:
        """What all `total` epochs will take; never less than the finished ones."""
        return self.first + self.later + self.left(total)


def _epochs(iterable: Iterable[T], report: _Report) -> Iterator[T]:
    report.begin()
    try:
        for each in iterable:
            report.is_under_way = True
            yield each
            report.is_under_way = False
            report.epoch_ended()
    finally:
        report.end()


class _Report:
    def __init__(self, name: str, total: int | None, line: Line | None) -> None:
        self._name = name
        self._total = total
        self._line = line
        self._seconds = Done()
        self._usd: Done | None = Done()
        """None once the cost of an epoch was unknown."""
        self._shown_at = float("-inf")
        self.is_under_way = False

    def begin(self) -> None:
        self._began = self._last = Moment.now()

    def epoch_ended(self) -> None:
        now = Moment.now()
        spent = between(self._last, now)
        self._last = now
        self._seconds.add(spent.seconds)
        if spent.usd is None:
            self._usd = None
        elif self._usd is not None:
            self._usd.add(spent.usd)
        if self._line is None:
            return
        pause = NOTEBOOK_PAUSE if self._line.is_in_place() else TERMINAL_PAUSE
        if now.at - self._shown_at < pause:
            return
        self._shown_at = now.at
        current = between(self._began, now)
        said = [f"{self._name} {self._place()}: {spent.words()}"]
        if current.usd is not None:
            said.append(f"so far {money(current.usd)}")
        said += self._forecast()
        self._line.show(f"{'; '.join(said)} ({current.remark()})")

    def end(self) -> None:
        """After the last one, or where the loop was left: by `break` or by an exception."""
        if self._line is None:
            return
        spent = between(self._began, Moment.now() if self.is_under_way else self._last)
        done = self._seconds.number
        left = self.is_under_way or (self._total is not None and done < self._total)
        of = f" of {self._total}" if left and self._total is not None else ""
        plural = "" if done == 1 and not of else "s"
        each = ""
        if done > 1 and not self.is_under_way:
            share = lasted(spent.seconds / done) if spent.usd is None else money(spent.usd / done)
            each = f"; {share} each"
        how = f", left in {self._name} {done + 1}" if self.is_under_way else ""
        self._line.show(
            f"{done}{of} {self._name}{plural}: {spent.words()}{how}{each} ({spent.remark()})"
        )

    def _place(self) -> str:
        done = self._seconds.number
        return f"{done} of {self._total}" if self._total is not None else str(done)

    def _forecast(self) -> list[str]:
        """Empty if nothing remains, or the remaining amount is unknown."""
        if self._total is None or self._seconds.number >= self._total:
            return []
        left = self._seconds.left(self._total)
        now = agent.instant(agent.clock())
        ends = when(now + timedelta(seconds=left), now)
        time = f"{lasted(left)} left, until {ends}"
        if self._usd is None:
            return [time]
        return [f"forecast {money(self._usd.forecast(self._total))}", time]


def _length(iterable: Iterable[T]) -> int | None:
    """None where it has none."""
    try:
        return len(iterable)  # type: ignore[arg-type]
    except Exception:  # a user's __len__ may raise anything, as for a streaming dataset
        return None
