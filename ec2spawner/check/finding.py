"""One line of the check: what was checked, what was found, and how to fix it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """The verdict of one line of the report."""

    OK = "ok"
    WARNING = "warning"
    """It works, and somebody should know."""
    UNPROVED = "unproved"
    """It cannot be verified without changing something, or before something else is fixed."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    name: str
    """What was looked at, such as `subnets` or `permission ec2:CreateFleet`."""
    state: State
    said: str
    fix: str = ""
    """What to do about it; never empty where it failed."""

    def as_json(self) -> dict[str, Any]:
        """The keys that `--json` promises."""
        return asdict(self)


def ok(name: str, said: str) -> Finding:
    """Verified."""
    return Finding(name, State.OK, said)


def warning(name: str, said: str, fix: str) -> Finding:
    """It works with a limitation; the last text says what to do."""
    return Finding(name, State.WARNING, said, fix)


def unproved(name: str, said: str, fix: str = "") -> Finding:
    """It cannot be verified without changing something, or before another finding is fixed."""
    return Finding(name, State.UNPROVED, said, fix)


def failed(name: str, said: str, fix: str) -> Finding:
    """Servers would not start; the last text says how to fix it."""
    return Finding(name, State.FAILED, said, fix)
