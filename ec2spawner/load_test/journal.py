"""What the test has made at the hub, and what of it is still there.

A line is written before the hub is asked for something, and another one once it is gone: whatever
ends the child, the command knows what to remove.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

FILE: Final = "journal.jsonl"

MINIMUM_SECONDS: Final = 60.0
"""EC2 bills each start of an instance for a minute at least."""


class Event(StrEnum):
    """What is about to be made, or is gone."""

    SERVER_REQUESTED = "server-requested"
    SERVER_GONE = "server-gone"
    USER_CREATED = "user-created"
    USER_GONE = "user-gone"


class Journal:
    """Appends to the journal; with no folder it does nothing."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, FILE) if folder else None

    def write(self, user: str, event: Event) -> None:
        """One line, in one write: two processes may append."""
        if self._path is not None:
            line = json.dumps({"at": time.monotonic(), "user": user, "event": event})
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")


@dataclass(slots=True)
class Made:
    """What the test has made. Instants are seconds of the machine's monotonic clock."""

    running: dict[str, float] = field(default_factory=dict)
    """User -> when the server was requested."""
    users: set[str] = field(default_factory=set)
    """Users that did not exist before."""
    ended: list[float] = field(default_factory=list)
    """Seconds for which each server that is gone was there."""

    def server_seconds(self, now: float) -> float:
        """Seconds for which all servers existed until now, each for a minute at least.

        EC2 bills instances, which may run for longer than their servers exist.
        """
        lasted = [*self.ended, *(now - since for since in self.running.values())]
        return sum(max(each, MINIMUM_SECONDS) for each in lasted)


def read(folder: Path) -> Made:
    """The journal so far."""
    path = folder / FILE
    return made(path.read_text("utf-8").splitlines()) if path.exists() else Made()


def made(lines: Iterable[str]) -> Made:
    """What these lines say. A line that was being written at the end of its process is ignored."""
    found = Made()
    for entry in _entries(lines):
        user, at = str(entry["user"]), float(str(entry["at"]))
        match entry["event"]:
            case Event.SERVER_REQUESTED:
                found.running.setdefault(user, at)
            case Event.SERVER_GONE:
                if user in found.running:
                    found.ended.append(at - found.running.pop(user))
            case Event.USER_CREATED:
                found.users.add(user)
            case Event.USER_GONE:
                found.users.discard(user)
    return found


def _entries(lines: Iterable[str]) -> Iterator[Mapping[str, object]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue
