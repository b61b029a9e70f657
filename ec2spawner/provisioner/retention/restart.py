"""The call that starts a kept instance again, and what is said where EC2 does not."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from ...core.offers.launch_errors import (
    PENDING_VERIFICATION,
    SOLD_OUT,
    ErrorClass,
    error_class,
)
from ...core.offers.quotas import quota_in_log
from ...wire import Step, Stop
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.instance import InstanceState
from ..model.leases.lease import Lease
from ..offers.offers import Offers
from ..state.state import State
from .disk_protection import DiskProtection
from .restart_failure import (
    BUSY,
    NO_QUOTA_YET,
    NO_ROOM_YET,
    NOT_VERIFIED_YET,
    busy_to_the_end,
    no_quota,
    no_room,
    refused,
)

log = logging.getLogger(__name__)

START_TRIES: Final = 6
"""So often EC2 is asked to start an instance for which it has no room, before its user is notified:
a minute, at the pace of `retention`."""


@dataclass(slots=True)
class RetainedRestarts:
    """Starts stopped instances for the servers that they are retained for."""

    state: State
    cloud: Cloud
    offers: Offers
    disks: DiskProtection
    _no_room: dict[str, int] = field(default_factory=dict)
    """By lease id: how often EC2 had no room for its instance."""
    _unanswered: dict[str, CloudError] = field(default_factory=dict)
    """By lease id: why EC2 did not start its instance when it was asked last, and still may."""

    def forget_ended(self) -> None:
        """Drop what is known of leases that are not in memory any more."""
        self._no_room = {
            each: n for each, n in self._no_room.items() if self.state.leases.get(each)
        }
        self._unanswered = {x: e for x, e in self._unanswered.items() if self.state.leases.get(x)}

    def why_not(self, lease_id: str, instance_id: str) -> str:
        """Why the lease's instance is still stopped, where EC2 was too busy to start it."""
        failure, instance = (
            self._unanswered.get(lease_id),
            self.state.instances.listed.get(instance_id),
        )
        if failure is None or instance is None or instance.state is not InstanceState.STOPPED:
            return ""
        return busy_to_the_end(failure)

    async def start(self, instance_id: str, lease: Lease) -> None:
        """Ask once. What is refused for good ends the lease."""
        times = self.state.leases.times
        try:
            await self.disks.protect(instance_id)
            asked = times.now()
            await self.cloud.start([instance_id])
        except CloudError as error:
            log.warning("Starting %s again: %s", instance_id, error)
            await self._failed(instance_id, lease.lease_id, error)
        else:
            self._unanswered.pop(lease.lease_id, None)
            times.started_again(instance_id, asked)
        self.state.instances.refresh_soon()

    async def _failed(self, instance_id: str, lease_id: str, error: CloudError) -> None:
        if error.code == "IncorrectInstanceState":
            return
        if error.retryable:
            self._unanswered[lease_id] = error
            words = NOT_VERIFIED_YET if error.code == PENDING_VERIFICATION else BUSY
            await self.state.leases.note(lease_id, Step.BOOT, words, instance_id)
        elif error.code in SOLD_OUT:
            await self._has_no_room(instance_id, lease_id, error)
        else:
            await self.state.end(lease_id, Stop(reason="failed", message=refused(error)))

    async def _has_no_room(self, instance_id: str, lease_id: str, error: CloudError) -> None:
        """Others may make some soon: it is the user's end only after some tries."""
        is_quota = error_class(error.code) is ErrorClass.QUOTA
        tries = self._no_room[lease_id] = self._no_room.get(lease_id, 0) + 1
        if tries < START_TRIES:
            words = NO_QUOTA_YET if is_quota else NO_ROOM_YET
            await self.state.leases.note(lease_id, Step.BOOT, words, instance_id)
            return
        instance = self.state.instances.listed.get(instance_id)
        if instance is None:
            return  # gone from the listing meanwhile: a pass finds out whether for good
        self.offers.learn_of_start(instance, error)
        stop = Stop(reason="capacity", message=no_room(error))
        if is_quota:
            place = instance.market, instance.instance_type
            log.error("%s is not started: %s", instance_id, quota_in_log(*place))
            stop = Stop(reason="quota", message=no_quota(*place))
        await self.state.end(lease_id, stop)
