"""How many instances of the pool may wait stopped, and how many run until they can. Pure.

A stopped instance costs its disks. Before, it runs until it is prepared: a cap must pay for that,
too, so it also bounds how many are prepared at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Prices:
    """Of one place, in 1e-9 USD/hour."""

    running: int
    """Of an instance that runs, with its disks and address."""
    stopped: int
    """Of its disks alone."""

    @property
    def preparing(self) -> int:
        """What a stopped place costs more while its instance runs."""
        return max(self.running - self.stopped, 0)


@dataclass(frozen=True, slots=True)
class Stopped:
    """Places of the pool whose instances are stopped."""

    number: int = 0
    preparing: int = 0
    """Of these, how many may run at a time until they are prepared."""

    def cost(self, prices: Prices) -> int:
        """The most that they cost at a time, in 1e-9 USD/hour."""
        return self.number * prices.stopped + self.preparing * prices.preparing


NONE: Final = Stopped()


def within(wanted: int, left: int, prices: Prices, at_rest: int = 0) -> Stopped:
    """As many as `left` pays for, in 1e-9 USD/hour, while at least one of them is prepared.

    What is left then lets more be prepared at a time. Where more are stopped already (`at_rest`)
    than that, and `left` pays for their disks, these stay and none is prepared: a price that rises
    for a while ends nothing that it does not make dearer.
    """
    found = _while_one_is_prepared(wanted, left, prices)
    kept = min(wanted, at_rest)
    if prices.stopped > 0:
        kept = min(kept, max(left, 0) // prices.stopped)
    return Stopped(kept) if kept > found.number else found


def _while_one_is_prepared(wanted: int, left: int, prices: Prices) -> Stopped:
    room = left - prices.preparing
    if wanted <= 0 or room < 0:
        return NONE
    number = min(wanted, room // prices.stopped) if prices.stopped > 0 else wanted
    if number <= 0:
        return NONE
    room -= number * prices.stopped
    more = room // prices.preparing if prices.preparing > 0 else number
    return Stopped(number, min(1 + more, number))
