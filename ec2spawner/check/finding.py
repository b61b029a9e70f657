"""One line of the check: what was checked, what was found, and how to fix it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .repairs.plan import Repair
from .topics import Topic


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

    topic: Topic
    state: State
    said: str
    fix: str = ""
    """What to do about it; never empty where it failed."""
    own_name: str = ""
    repairs: tuple[Repair, ...] = ()
    """What `check --fix` would do about it."""

    @property
    def name(self) -> str:
        """What was looked at, such as `subnets` or `permission ec2:CreateFleet`."""
        return self.own_name or self.topic.title

    def as_json(self) -> dict[str, Any]:
        """The keys that `--json` promises."""
        return {
            "code": self.topic.code,
            "name": self.name,
            "state": self.state,
            "said": self.said,
            "fix": self.fix,
        }


def ok(topic: Topic, said: str, *, name: str = "") -> Finding:
    """Verified."""
    return Finding(topic, State.OK, said, "", name)


def warning(
    topic: Topic, said: str, fix: str, *, name: str = "", repairs: Sequence[Repair] = ()
) -> Finding:
    """It works with a limitation; `fix` says what to do."""
    return Finding(topic, State.WARNING, said, fix, name, tuple(repairs))


def unproved(topic: Topic, said: str, fix: str = "", *, name: str = "") -> Finding:
    """It cannot be verified without changing something, or before another finding is fixed."""
    return Finding(topic, State.UNPROVED, said, fix, name)


def failed(
    topic: Topic, said: str, fix: str, *, name: str = "", repairs: Sequence[Repair] = ()
) -> Finding:
    """Servers would not start; `fix` says how to fix it."""
    return Finding(topic, State.FAILED, said, fix, name, tuple(repairs))
