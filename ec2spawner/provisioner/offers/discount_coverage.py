"""Which instances a discount covers, and how many of its places are unused."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ...core.pricing import discounts
from ...core.pricing.discounts import Discount, Running
from ...wire import Market
from ..model.cloud.instance import Instance, InstanceState
from ..state.state import State

log = logging.getLogger(__name__)

BILLED = frozenset({InstanceState.PENDING, InstanceState.RUNNING})
"""States in which an instance takes a place of a discount."""


class Coverage:
    """The configured discounts and the account's reservations, applied to the running instances.

    While a configured discount holds, it replaces the reservations of its type, which most likely
    describe the same purchase. A `count` of 0 therefore leaves the reservations of a type to
    others.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._configured = state.settings.discounts
        self._reservations: Sequence[Discount] = ()
        """As EC2 lists them."""
        self._discounts = self._configured
        """With the reservations, these without the time in which they are replaced."""
        self._reservations_read_at: datetime | None = None
        self._seen: tuple[Sequence[Instance], Sequence[Discount]] = ((), ())
        """What `_covered` and `_left` were computed from."""
        self._covered: Mapping[str, Discount] = {}
        self._left: Sequence[Discount] = ()
        for each in self._configured:
            if each.has_expired(state.clock.now()):
                log.warning("The discount for %s has ended: it is ignored", each.instance_type)

    def learn(self, reservations: Sequence[Discount], read_at: datetime) -> None:
        """The account's reservations as they were at `read_at`, in place of earlier ones."""
        self._reservations = reservations
        self._discounts = (*self._configured, *discounts.beside(self._configured, reservations))
        self._reservations_read_at = read_at

    @property
    def discounts(self) -> Sequence[Discount]:
        """The configured ones, and the account's reservations that none of them replaces now."""
        now = self._state.clock.now()
        replaced = {each.instance_type for each in self._configured if each.holds(now)}
        theirs = (each for each in self._reservations if each.instance_type not in replaced)
        return (*self._configured, *theirs)

    def of(self, instance: Instance) -> Discount | None:
        """The discount that covers the instance now; None if there is none."""
        if not self._concerns(instance.instance_type):
            return None
        self._assign()
        return self._covered.get(instance.instance_id)

    def all_left(self) -> Sequence[Discount]:
        """Every discount with unused places, zonal ones first, with their number as its `count`."""
        if not self._discounts:
            return ()
        self._assign()
        return self._left

    def left(self, instance_type: str, zone: str) -> Sequence[Discount]:
        """The discounts with unused places for this type in this zone, zonal ones first.

        Each discount's `count` is the number of its unused places.
        """
        if not self._concerns(instance_type):
            return ()
        self._assign()
        return tuple(each for each in self._left if each.fits(instance_type, zone))

    def read_at(self, discount: Discount) -> datetime | None:
        """When EC2 listed the discount, UTC; None for a configured one."""
        # Of a discount with unused places, the count is that of these.
        counts = (replace(each, count=discount.count) for each in self._configured)
        return None if discount in counts else self._reservations_read_at

    def _concerns(self, instance_type: str) -> bool:
        return any(each.instance_type == instance_type for each in self._discounts)

    def _assign(self) -> None:
        """Assign the places again if instances or discounts have changed."""
        now = self._state.clock.now()
        holding = tuple(each for each in self._discounts if each.holds(now))
        listed = tuple(self._state.running())
        changed = (listed, holding) != self._seen
        self._seen = listed, holding  # the same objects next time: then they compare at once
        if not changed:
            return
        billed = [
            Running(each.instance_id, each.instance_type, each.zone, each.launched_at)
            for each in listed
            if each.market is Market.ON_DEMAND and each.state in BILLED and not each.in_block
        ]
        self._covered = discounts.covered(holding, billed, now)
        self._left = discounts.left(holding, billed, now)
