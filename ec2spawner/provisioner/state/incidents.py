"""Alarms that a controller has raised in passing, until they are stored.

For what is seen once, such as a disk that was left over. What lasts, such as an idle server, is
found again by the rules.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ...core.alarms.alarm import Alarm

MAX: Final = 1000
"""Of those that wait for the store: beyond it the oldest are dropped."""


class Incidents:
    """In the order in which they were raised."""

    def __init__(self) -> None:
        self._waiting: list[Alarm] = []

    def record(self, alarm: Alarm) -> None:
        """Let the next evaluation of the rules send it."""
        self._waiting.append(alarm)
        del self._waiting[:-MAX]

    def waiting(self) -> tuple[Alarm, ...]:
        """Those that are not stored yet."""
        return tuple(self._waiting)

    def stored(self, alarms: Collection[Alarm]) -> None:
        """These need to be remembered no longer."""
        self._waiting = [each for each in self._waiting if each not in alarms]
