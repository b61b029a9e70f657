"""Instances that serve nobody are terminated, and what they cost is the hub's overhead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..model.cloud import Cloud, CloudError, Instance
from ..state.state import State
from .overhead import Overhead

log = logging.getLogger(__name__)


async def terminate(state: State, cloud: Cloud, instance_ids: Collection[str]) -> None:
    """Terminate; a failure is logged and made good by the next pass."""
    if not instance_ids:
        return
    state.terminated_at |= dict.fromkeys(instance_ids, asyncio.get_running_loop().time())
    state.claims.turn_away(instance_ids)
    try:
        await cloud.terminate(list(instance_ids))
    except CloudError as error:
        log.warning("Terminating %s: %s; trying again", ", ".join(instance_ids), error)
    else:
        state.instances.refresh_soon()


@dataclass(slots=True)
class InstanceTermination:
    """Ends what the pass has found dead, surplus or condemned."""

    state: State
    cloud: Cloud
    overhead: Overhead

    async def reconcile(self, now: datetime) -> None:
        state = self.state
        condemned, state.condemned = state.condemned, set()
        await terminate(state, self.cloud, condemned)
        unknown = self._unknown(state.stock.unknown)
        await self.terminate_unleased([*state.stock.dead, *state.stock.surplus, *unknown])

    def _unknown(self, instances: Sequence[Instance]) -> Sequence[Instance]:
        """Of the instances whose lease the store does not hold, those that shall end.

        After a store was lost or restored, JupyterHub asks for the servers on them first.
        """
        if self.state.is_in_recovery_grace():
            return []
        return self.state.admit_ends(instances, "the store does not hold their leases")

    async def terminate_unleased(self, instances: Sequence[Instance]) -> None:
        """Terminate instances that belong to no lease and account for what they cost.

        One that was asked to end a moment ago is left alone: listings lag, and a call that EC2
        refuses is not repeated at the speed of passes.
        """
        state = self.state
        latest = asyncio.get_running_loop().time() - state.settings.busy_interval
        state.terminated_at = {x: at for x, at in state.terminated_at.items() if at > latest}
        instances = [each for each in instances if each.instance_id not in state.terminated_at]
        if not instances:
            return  # most passes: nothing to read from the store
        instance_ids = [instance.instance_id for instance in instances]
        # At once: a claim that comes before the call begins would still get one of them.
        state.claims.turn_away(instance_ids)
        # Beside the call as well: a hub that is killed during it would never tell what they cost.
        await asyncio.gather(
            self.overhead.of_unleased(instances), terminate(state, self.cloud, instance_ids)
        )
        await self.overhead.of_unleased(instances)
