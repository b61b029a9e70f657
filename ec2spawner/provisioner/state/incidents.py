"""Alarms that a controller has raised in passing, until they are stored.

For what is seen once, such as a disk that was left over. What lasts, such as an idle server, is
found again by the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...core.alarms.alarm import Alarm

MAX: Final = 1000
"""Of those that wait for the store, or for a hub without alarms: further ones are dropped."""


class Incidents:
    """In the order in which they were raised, each once: a user can repeat a refused start."""

    def __init__(self) -> None:
        self._waiting: dict[str, Alarm] = {}

    def record(self, alarm: Alarm) -> None:
        """Let the next evaluation of the rules send it."""
        if len(self._waiting) < MAX:
            self._waiting.setdefault(alarm.alarm_id, alarm)

    def waiting(self) -> tuple[Alarm, ...]:
        """Those that are not stored yet."""
        return tuple(self._waiting.values())

    def stored(self, alarms: Iterable[Alarm]) -> None:
        """These need to be remembered no longer."""
        for alarm in alarms:
            self._waiting.pop(alarm.alarm_id, None)
