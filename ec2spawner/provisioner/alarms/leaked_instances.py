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
    foreign_instance,
    refused_termination,
)
from ...core.ledger.charges import rate
from ...core.tags import STORE
from ..model.cloud import GONE, STOPPED, Instance
from ..offers.prices import PriceCache
from ..state.state import State


@dataclass(frozen=True, slots=True)
class LeakedInstances:
    """Finds them in the last listing, each time again: their alarms have one identity."""

    state: State
    prices: PriceCache

    def alarms(self, now: datetime) -> Iterator[Alarm]:
        """Of each that another store launched, or whose termination EC2 refuses."""
        for instance in self._foreign():
            yield foreign_instance(self._leaked(instance, now), instance.tags.get(STORE, ""), now)
        for instance, seconds, error in self.state.refused_terminations.lasting(REFUSED_FOR):
            yield refused_termination(self._leaked(instance, now), seconds, str(error), now)

    def _foreign(self) -> Iterator[Instance]:
        """Those of another store that have been here for long: a store that was lost and replaced
        serves its servers on, so none that a lease holds or that is kept."""
        state = self.state
        held = {lease.instance_id for lease in state.leases.open()} | state.retained.instance_ids
        for instance in state.instances.listed.values():
            if instance.tags.get(STORE) == state.store_id or instance.state in GONE:
                continue
            if state.instances.seen_seconds(instance.instance_id) < FOREIGN_AFTER:
                continue
            if instance.instance_id not in held:
                yield instance

    def _leaked(self, instance: Instance, now: datetime) -> LeakedInstance:
        segment = self.prices.segment(instance, now)
        if instance.state in STOPPED:  # its disks alone cost
            segment = replace(segment, usd_per_hour=0.0, address_usd_per_hour=0.0)
        return LeakedInstance(
            instance.instance_id, instance.instance_type, instance.zone, rate(segment, now)
        )
