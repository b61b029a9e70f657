"""What the numbers of NVIDIA's Xid errors mean, which a driver reports and never withdraws. Pure.

From NVIDIA's "XID Errors" and its "Xid Catalog".
"""

from __future__ import annotations

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


GRAVITY = {
    # NVIDIA's numbers of what a program may cause.
    **dict.fromkeys((13, 31, 43, 45, 68, 109), Gravity.PROGRAM),
    63: Gravity.CONTAINED,  # spare memory takes the place of a failing row
    94: Gravity.CONTAINED,  # the memory of one program failed, and that program was ended
    **dict.fromkeys((48, 61, 62, 64, 74, 79, 95, 119, 120), Gravity.MACHINE),
}
"""What each stands for is said in `labextension/src/text/xidText.ts`, by the same numbers."""


def gravity(number: int) -> Gravity:
    """How grave an error is; one that is not in the list is taken for the machine's."""
    return GRAVITY.get(number, Gravity.MACHINE)


def is_history(number: int, at: datetime | None, now: datetime) -> bool:
    """Whether an error of this instant is no longer worth reporting."""
    passes = gravity(number) < Gravity.MACHINE
    return passes and at is not None and now - at > HOLDS
