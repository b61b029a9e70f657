"""Instances that cost money for nobody, and that this hub does not end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from ...core.alarms.alarm import Alarm
from ...core.alarms.leaks import (
    FOREIGN_AFTER,
    REFUSED_FOR,
    LeakedInstance,
    copied_instance,
    foreign_instance,
    refused_termination,
)
from ...core.ledger.charges import rate
from ...core.tags import STORE
from ..instances.unleased import foreign
from ..model.cloud.instance import STOPPED, Instance
from ..offers.prices import PriceCache
from ..state.state import State


@dataclass(frozen=True, slots=True)
class LeakedInstances:
    """Finds them in the last listing, each time again: their alarms have one identity."""

    state: State
    prices: PriceCache

    def alarms(self, now: datetime) -> Iterator[Alarm]:
        """Of each that this store did not launch, or whose termination EC2 refuses."""
        for instance in foreign(self.state):
            if self.state.instances.seen_seconds(instance.instance_id) >= FOREIGN_AFTER:
                yield self._foreign(instance, now)
        for instance, seconds, error in self.state.refused_terminations.lasting(REFUSED_FOR):
            yield refused_termination(self._leaked(instance, now), seconds, str(error), now)

    def _foreign(self, instance: Instance, now: datetime) -> Alarm:
        leaked, store_id = self._leaked(instance, now), instance.tags.get(STORE, "")
        if store_id == self.state.store_id:
            return copied_instance(leaked, now)
        return foreign_instance(leaked, store_id, now)

    def _leaked(self, instance: Instance, now: datetime) -> LeakedInstance:
        segment = self.prices.segment(instance, now)
        if instance.state in STOPPED:  # its disks alone cost
            segment = replace(segment, usd_per_hour=0.0, address_usd_per_hour=0.0)
        return LeakedInstance(
            instance.instance_id, instance.instance_type, instance.zone, rate(segment, now)
        )
