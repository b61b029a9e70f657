"""What the numbers of NVIDIA's Xid errors mean, which a driver tells of and never takes back. Pure.

From NVIDIA's "XID Errors" and its "Xid Catalog".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

HOLDS = timedelta(hours=1)
"""After this long, an error that is not the machine's is history."""


class Gravity(IntEnum):
    """The higher one hides the lower."""

    PROGRAM = 0
    """A fault of a program, such as a wild pointer, after which the GPU is as good as before:
    NVIDIA's device plugin for Kubernetes lets these pass."""
    CONTAINED = 1
    """A fault of the GPU that it has dealt with by itself."""
    MACHINE = 2
    """A fault of the GPU, or of what it is connected by."""


@dataclass(frozen=True, slots=True)
class Xid:
    """One kind of error."""

    what: str
    """What has happened, for people: the rest of a sentence."""
    gravity: Gravity = Gravity.MACHINE
    then: str = ""
    """What to do, or to know; empty where that depends on who looks after the machine."""


RESTART = "Restart its kernel"


def _program(what: str) -> Xid:
    return Xid(what, Gravity.PROGRAM, RESTART)


XIDS = {
    13: _program("a program on it did something that it may not do"),
    31: _program("a program on it used memory that is not its own"),
    43: _program("a program on it was stopped for an error of its own"),
    45: _program("a program on it was ended"),
    68: _program("its video processor met an error of a program"),
    109: _program("a program on it did not give way to others in time"),
    63: Xid(
        "spare memory takes the place of a failing row", Gravity.CONTAINED, "What runs goes on"
    ),
    94: Xid(
        "memory of one program on it failed, and that program was ended", Gravity.CONTAINED, RESTART
    ),
    48: Xid("its memory failed in two bits at once"),
    61: Xid("its microcontroller has stopped"),
    62: Xid("its microcontroller has stopped"),
    64: Xid("failing memory could not be replaced"),
    74: Xid("its link to other GPUs failed"),
    79: Xid("it fell off the bus"),
    95: Xid("its memory failed beyond repair"),
    119: Xid("its system processor does not answer"),
    120: Xid("its system processor failed"),
}

UNKNOWN = Xid("see NVIDIA's list of Xid errors")
"""One that is not in the list is taken for the machine's."""


def meaning(number: int) -> Xid:
    """What an error means."""
    return XIDS.get(number, UNKNOWN)


def is_history(number: int, at: datetime | None, now: datetime) -> bool:
    """Whether what came at an instant is nothing to be told of any more."""
    passes = meaning(number).gravity < Gravity.MACHINE
    return passes and at is not None and now - at > HOLDS
