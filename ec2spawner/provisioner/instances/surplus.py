"""Terminates instances that no lease needs; what they cost is the hub's overhead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime

from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.instance import Instance
from ..runtime.task_group import TaskGroup
from ..state.state import State
from .overhead import Overhead

log = logging.getLogger(__name__)


async def terminate(state: State, cloud: Cloud, instance_ids: Collection[str]) -> None:
    """Terminate; a failure is logged, and the next pass retries."""
    if not instance_ids:
        return
    state.terminated_at |= dict.fromkeys(instance_ids, asyncio.get_running_loop().time())
    state.claims.turn_away(instance_ids)
    try:
        await cloud.terminate(list(instance_ids))
    except CloudError as error:
        log.warning("Terminating %s: %s; trying again", ", ".join(instance_ids), error)
        state.refused_terminations.refused(instance_ids, error)
    else:
        state.refused_terminations.accepted(instance_ids)
        state.instances.refresh_soon()


@dataclass(slots=True)
class InstanceTermination:
    """Terminates what the pass has found dead, surplus or condemned.

    In the background: a call may take `aws.calls.client`'s whole timeout, and a pass must not wait.
    """

    state: State
    cloud: Cloud
    overhead: Overhead
    tasks: TaskGroup
    _calling: set[str] = field(default_factory=set)
    """Ids of the instances that a call in progress terminates."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises: the calls are made in the background."""
        state = self.state
        leased = {lease.instance_id for lease in state.leases.open()}
        condemned, state.condemned = state.condemned - leased, set()
        unknown = self._unknown(state.stock.unknown)
        unleased = self._still_unleased([*state.stock.dead, *state.stock.surplus, *unknown])
        unwanted = condemned | {instance.instance_id for instance in unleased}
        if not unwanted:
            return
        # At once: a claim that comes before the call begins would still get one of them.
        state.claims.turn_away(unwanted)
        self._calling |= unwanted
        self.tasks.spawn(self._terminate(unwanted, unleased), f"terminate {len(unwanted)}")

    def _unknown(self, instances: Sequence[Instance]) -> Sequence[Instance]:
        """Of the instances whose lease is not in the store, those to be terminated.

        After a store was lost or restored, JupyterHub asks for the servers on them first.
        """
        if self.state.is_in_recovery_grace():
            return []
        return self.state.admit_ends(instances, "the store does not hold their leases")

    def _still_unleased(self, instances: Sequence[Instance]) -> list[Instance]:
        """Those to be terminated now.

        The pass may have awaited since it took stock: what has got a lease meanwhile serves it.
        An instance whose termination was requested a moment ago is skipped: listings lag, and a
        call that EC2 refuses is not repeated at the speed of passes.
        """
        state = self.state
        latest = asyncio.get_running_loop().time() - state.settings.busy_interval
        state.terminated_at = {x: at for x, at in state.terminated_at.items() if at > latest}
        leased = {lease.instance_id for lease in state.leases.open()}
        skipped = leased | state.terminated_at.keys() | self._calling | state.retained.instance_ids
        return [each for each in instances if each.instance_id not in skipped]

    async def _terminate(self, instance_ids: Set[str], unleased: Sequence[Instance]) -> None:
        """Terminate them and account for what those without a lease cost; `EndedInstances` does it
        again once a listing shows the end, unless the hub is killed meanwhile."""
        try:
            await asyncio.gather(
                self.overhead.of_unleased(unleased),
                terminate(self.state, self.cloud, instance_ids),
            )
        finally:
            self._calling -= instance_ids
