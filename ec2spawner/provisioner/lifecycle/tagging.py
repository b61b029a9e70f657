"""Tags that follow the leases: whose an instance is, and that it is never to be another's.

Its disks and its network interface, which the bill charges under ids of their own, get the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ...core.names import tag_value
from ...core.tags import LEASE, NAME, PAYER, PROFILE, STORE, USER
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.instance import Instance
from ..model.leases.costs import payer_of
from ..model.leases.lease import Lease, LeaseState
from ..runtime.task_group import TaskGroup
from ..state.state import State

log = logging.getLogger(__name__)

NOT_PERMITTED: Final = "UnauthorizedOperation"


@dataclass(slots=True)
class Tagging:
    """Tags what a listing shows without them, once, or again where that failed."""

    state: State
    cloud: Cloud
    tasks: TaskGroup
    _asked: set[tuple[str, str]] = field(default_factory=set)
    """Instance and lease ids: a listing may still show these without their tags."""
    _tagged_now: set[str] = field(default_factory=set)
    """Ids of instances with a call in progress: another one may be done before it."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises: the calls are made in the background."""
        leases = {
            (lease.instance_id, lease.lease_id): lease
            for lease in self.state.leases.open(LeaseState.STARTING, LeaseState.READY)
            if lease.instance_id
        }
        self._asked &= leases.keys()
        for hold in leases.keys() - self._asked:
            instance = self.state.instances.listed.get(hold[0])
            tags = self._tags(leases[hold])
            if instance is None or hold[0] in self._tagged_now:
                continue
            if not tags.items() <= instance.tags.items():
                self._asked.add(hold)
                self._tagged_now.add(hold[0])
                beside = self._beside(instance)
                self.tasks.spawn(self._tag(hold, beside, tags), f"tags of {hold[0]}")

    def _beside(self, instance: Instance) -> tuple[str, ...]:
        """What its launch made with it. A home has tags of its own, which name its user and not
        the payer of this lease."""
        homes = self.state.homes.volume_ids()
        return tuple(each for each in instance.deleted_with if each not in homes)

    def _tags(self, lease: Lease) -> dict[str, str]:
        lease = self.state.accounts.displayed(lease)
        return {
            STORE: self.state.store_id,
            LEASE: lease.lease_id,
            USER: tag_value(lease.user),
            PAYER: tag_value(payer_of(lease)),
            PROFILE: tag_value(lease.profile),
            NAME: tag_value(f"{lease.user} {lease.server}".strip()),
        }

    async def _tag(
        self, hold: tuple[str, str], beside: Sequence[str], tags: Mapping[str, str]
    ) -> None:
        """All in one call. One resource that it may not tag, such as what somebody attached, must
        not keep the lease's id from the instance, which recovery reads."""
        instance_id = hold[0]
        try:
            try:
                await self.cloud.tag([instance_id, *beside], tags)
            except CloudError as error:
                if error.code != NOT_PERMITTED or not beside:
                    raise
                log.warning("Tagging only %s, without %s: %s", instance_id, beside, error)
                await self.cloud.tag([instance_id], tags)
        except CloudError as error:
            log.warning("Tagging %s: %s; trying again", instance_id, error)
            self._asked.discard(hold)
        finally:
            self._tagged_now.discard(instance_id)
