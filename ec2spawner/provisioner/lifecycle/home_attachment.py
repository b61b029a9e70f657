"""Brings the home of each lease that has got an instance to that instance."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from ...wire import Step, Stop
from ..homes import volumes
from ..homes.placement import placed
from ..homes.volumes import HomeElsewhere, HomeGone, HomeVolumes
from ..model.cloud.cloud import CloudError
from ..model.cloud.instance import Instance
from ..model.error_hints import AGAIN, describe_error
from ..model.leases.lease import Home, Lease, LeaseState
from ..runtime.task_group import TaskGroup
from ..state.state import State
from ..store.store import StoreError

log = logging.getLogger(__name__)

OPENING = "Opening your home"

STILL_HELD = "The machine that had it last is still being shut down"


@dataclass(slots=True)
class HomeAttachment:
    """Brings the home of each starting lease to its instance, in the background."""

    state: State
    volumes: HomeVolumes
    tasks: TaskGroup
    _begun: set[tuple[str, str | None]] = field(default_factory=set)
    """Lease and instance id: this process is bringing that home there, or has brought it."""

    async def reconcile(self, now: datetime) -> None:
        """See to every home that is waited for, also where an earlier process had begun to."""
        starting = list(self.state.leases.open(LeaseState.STARTING))
        self._begun &= {(lease.lease_id, lease.instance_id) for lease in starting}
        for lease in starting:
            if self.state.is_home_held(lease):
                await self.state.leases.note(lease.lease_id, Step.HOME, OPENING, STILL_HELD)
            elif instance := self.state.instances.instance_of(lease):
                self._begin(lease, instance)

    def _begin(self, lease: Lease, instance: Instance) -> None:
        """Once for each lease and instance."""
        stay = (lease.lease_id, instance.instance_id)
        if self.state.continuations.must_wait(lease):
            return
        if lease.home_kind == "ebs" and stay not in self._begun:
            self._begun.add(stay)
            self.tasks.spawn(self._bring(lease, instance), f"home of {lease.lease_id}")

    async def _bring(self, lease: Lease, instance: Instance) -> None:
        def wanted() -> bool:
            now = self.state.leases.get(lease.lease_id)
            return (
                now is not None
                and now.state is LeaseState.STARTING
                and now.instance_id == instance.instance_id
            )

        try:
            await self.state.leases.note(lease.lease_id, Step.HOME, OPENING)
            home = await self._with_volume(lease, instance.zone, wanted)
            self.state.claims.wake(instance.instance_id)
            home, why_not = await self.volumes.grow(home, lease.home_gib)
            if why_not:
                await self.state.leases.note(lease.lease_id, Step.HOME, OPENING, why_not)
            await self.volumes.attach(lease, instance, wanted)
        except HomeElsewhere as error:
            await self._send_to_other_zone(lease, error, wanted)
        except (CloudError, HomeGone, TimeoutError) as error:
            log.error("Home of %s: %s", lease.lease_id, error)
            if not wanted():
                return  # only the answer was lost: its server is ready, or given up
            stop = Stop(reason="failed", message=_why_no_home(error)[:500])
            await self.state.end(lease.lease_id, stop)
        except StoreError:
            self._begun.discard((lease.lease_id, instance.instance_id))  # the next pass
            raise

    async def _with_volume(self, lease: Lease, zone: str, wanted: Callable[[], bool]) -> Home:
        """Asked for again, with its token, where no answer comes. Raises as `ensure_volume`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + volumes.ATTACH_TIMEOUT
        while True:
            try:
                return await self.volumes.ensure_volume(lease, zone)
            except CloudError as error:
                may_pass = error.retryable or error.code in volumes.MAY_PASS
                late = loop.time() + volumes.ATTACH_PAUSE >= deadline
                if not may_pass or late or not wanted():
                    raise
                log.info("Home of %s cannot be made yet: %s", lease.lease_id, error)
            await asyncio.sleep(volumes.ATTACH_PAUSE)

    async def _send_to_other_zone(
        self, lease: Lease, error: HomeElsewhere, wanted: Callable[[], bool]
    ) -> None:
        """The home turned out to be in another zone: back to the waiting list."""
        if wanted():
            log.warning("%s needs another machine: %s", lease.lease_id, error)
            message = f"Your files are in {error.home.zone}; looking for a machine there"
            await self.state.leases.send_back(lease.lease_id, message, **placed(self.state, lease))
            self.state.wake()


def _why_no_home(error: Exception) -> str:
    if isinstance(error, HomeGone):
        copy = (
            ""
            if error.newest is None
            else (f" There is a snapshot of it, of {error.newest.started_at:%d %B, %H:%M} UTC.")
        )
        return (
            f"The volume with your files, {error.home.volume_id}, was deleted in EC2.{copy} "
            "Please tell an admin"
        )
    reason = describe_error(error) if isinstance(error, CloudError) else f"no answer. {AGAIN}"
    return f"Your home could not be attached: {reason}"
