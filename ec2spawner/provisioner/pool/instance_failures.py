"""Instances of the pool that ended before anybody used them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime

from ...core.tags import POOL
from ..model.cloud.instance import GONE, SPOT_TERMINATION, Instance
from ..state.pool import Group
from ..state.state import State
from .targets import is_for

log = logging.getLogger(__name__)

LOST = "{} ended before anybody used it, or its agent never called: the hub's log may say why"


@dataclass(slots=True)
class PoolInstanceFailures:
    """Holds up purchases for a group whose instances do not come up or end by themselves: an image
    that cannot boot would be bought without end. One that EC2 reclaims is replaced at once."""

    state: State
    _before: set[str] = field(default_factory=set)
    """Ids of those bought for the pool that filled places in the last pass."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises."""
        state, stock = self.state, self.state.stock
        here = {each.instance_id: each for each in stock.in_places if POOL in each.tags}
        for instance_id, instance in here.items():
            if state.claims.is_bound(instance_id):
                for group in self._groups(instance):
                    state.pool.works(group)
        used = state.leases.served | {each.instance_id for each in stock.surplus}
        dead = {each.instance_id for each in stock.dead}
        for instance_id in self._before - here.keys() - used:
            listed = state.instances.listed.get(instance_id)
            if listed is not None and (listed.state in GONE or instance_id in dead):
                self._lost(listed)
        self._before = set(here)

    def _lost(self, instance: Instance) -> None:
        is_announced = self.state.interruptions.knows(instance.instance_id)
        if is_announced or instance.state_reason == SPOT_TERMINATION:
            log.info("EC2 reclaims %s, which waited in the pool", instance.instance_id)
            return
        for group in self._groups(instance):
            self.state.pool.failed(group, LOST.format(instance.instance_id))

    def _groups(self, instance: Instance) -> list[Group]:
        groups = [Group(each.profile, each.market) for each in self.state.pool.targets]
        return [group for group in groups if is_for(instance, group)]
