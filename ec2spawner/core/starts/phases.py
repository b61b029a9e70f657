"""The phases of a start: where its time went, from instants that the hub and the agent measured.

Each phase ends at an instant. Where that is not known, its time counts in the next phase that has
one, so that the phases always add up to the whole start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """The phases of a start, in order."""

    QUEUE = "queue"
    """From the request until the hub began the launch call that brought the instance: batch window,
    limits, a home that moves, offers that are sold out, instances that were lost."""
    BUY = "buy"
    """Until EC2 answered that call: its launch template, the wait for EC2's rate limit, and each
    repetition are part of it."""
    PENDING = "pending"
    """Until the instance ran: a listing showed it, or its kernel started, whichever was first."""
    BOOT = "boot"
    """Until the agent started."""
    AGENT = "agent"
    """Until the agent's first claim arrived at the hub."""
    CLAIM = "claim"
    """Until the hub had verified it and granted the lease."""
    HOME = "home"
    """Until the home was attached and mounted."""
    NOTEBOOK = "notebook"
    """Until the notebook's process was started with its environment."""
    LISTEN = "listen"
    """Until the notebook listened."""
    ROUTE = "route"
    """Until JupyterHub had checked it and added the route: the user can be redirected."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known of a start's course, in seconds after its request; None is unknown.

    Three depend on what the agent says: `running`, `agent_started` and `notebook_started`. They are
    trusted between the hub's own instants around them only.
    """

    asked: float | None = None
    """The hub began the launch call: its launch template and its wait for EC2's rate limit come
    later. Of an instance that waited for a start: the hub considered it."""
    answered: float | None = None
    running: float | None = None
    agent_started: float | None = None
    claimed: float | None = None
    """The first claim arrived."""
    granted: float | None = None
    mounted: float | None = None
    notebook_started: float | None = None
    listening: float | None = None
    routed: float | None = None
    ended: float | None = None
    """The start was given up, or had failed."""
    lost: float = 0.0
    """The last instance was lost then: what counts began afterwards."""


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """One phase of a start. Times in seconds after the request."""

    phase: Phase
    began: float
    ended: float
    """Never before `began`."""
    is_complete: bool = True
    """False where the start ended in it."""

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class StartPhases:
    """Where the time of a start went. Its phases add up to `total`."""

    phases: Sequence[PhaseTime]
    """In order, those that are over. A start on an instance that waited has no boot."""
    current: Phase | None
    """The phase that a start in progress is in; None once it is over."""
    total: float
    """Seconds: from the request to the route, to a notebook that listened where no route followed,
    to the end of a failed start, or to the last known instant of one in progress."""
    lost: float
    """Seconds of `queue` that went into instances that were lost."""


_MARKS: Final[Mapping[Phase, str]] = {
    Phase.QUEUE: "asked",
    Phase.BUY: "answered",
    Phase.PENDING: "running",
    Phase.BOOT: "agent_started",
    Phase.AGENT: "claimed",
    Phase.CLAIM: "granted",
    Phase.HOME: "mounted",
    Phase.NOTEBOOK: "notebook_started",
    Phase.LISTEN: "listening",
    Phase.ROUTE: "routed",
}
"""The mark at which each phase ends."""

_MEASURED_OUTSIDE: Final = frozenset({Phase.PENDING, Phase.BOOT, Phase.NOTEBOOK})
"""Phases whose end the agent reports, or a listing of EC2 shows late."""

_CAN_PRECEDE: Final = frozenset({Phase.BUY, Phase.PENDING, Phase.BOOT, Phase.AGENT})
"""Phases that can be over before a start is requested: its instance was launched for another."""


def start_phases(marks: Marks) -> StartPhases:
    """The phases of a start, from marks in any order and with any of them missing."""
    floor = max(marks.lost, 0.0)
    over_at = marks.ended if marks.routed is None else marks.routed
    ends = _ends(marks, floor, math.inf if over_at is None else max(over_at, floor))
    found: list[PhaseTime] = []
    began = 0.0
    for phase, ended in ends.items():
        found.append(PhaseTime(phase, began, ended))
        began = ended
    following = _following(found[-1].phase if found else None)
    # A server that was ready ends later than its start.
    has_failed = marks.listening is None and marks.routed is None
    if has_failed and over_at is not None and following is not None:
        found.append(PhaseTime(following, began, max(over_at, floor), is_complete=False))
    total = found[-1].ended if found else 0.0
    is_over = marks.routed is not None or marks.ended is not None
    return StartPhases(tuple(found), None if is_over else following, total, min(floor, total))


def _ends(marks: Marks, floor: float, over_at: float) -> Mapping[Phase, float]:
    """When each phase with a known end was over, in order, from `floor` to `over_at`.

    What the hub saw itself comes first: a later instant bounds those before it, because a wall
    clock that was set back must not make a phase negative. The others lie between these.
    """
    marked = {
        phase: mark
        for phase, name in _MARKS.items()
        if (mark := getattr(marks, name)) is not None
        and not (phase in _CAN_PRECEDE and mark < floor)
    }
    latest: dict[Phase, float] = {}
    upper = over_at
    for phase in reversed(Phase):
        if phase in marked and phase not in _MEASURED_OUTSIDE:
            upper = min(max(marked[phase], floor), upper)
        latest[phase] = upper
    ends: dict[Phase, float] = {}
    lower = floor
    for phase in Phase:
        if phase in marked:
            lower = ends[phase] = min(max(marked[phase], lower), latest[phase])
    return ends


def _following(phase: Phase | None) -> Phase | None:
    order = list(Phase)
    place = 0 if phase is None else order.index(phase) + 1
    return order[place] if place < len(order) else None
