"""Starts that do not get ready: the machine ends, never speaks, or speaks and gets nowhere.

Each ends within a documented time, and its user gets the reason, with the last lines of
the machine's boot log where EC2 has one.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from ...core.instances.matching import lease_for
from ...core.instances.termination_cause import Cause, termination_cause
from ...core.tags import POOL
from ...wire import Step, Stop
from ..instances.boot_logs import BootLogs
from ..instances.closed_segments import closed_segments, wait_for_prices
from ..instances.demand import needs
from ..instances.supply import supply_of
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.instance import POWERED_OFF, Instance
from ..model.error_hints import describe_error
from ..model.leases.lease import Lease, LeaseState
from ..offers.avoided_offer import NO_CAPACITY
from ..offers.offers import Offers
from ..offers.prices import PriceCache
from ..retention.restart_failure import stopped_again
from ..runtime.task_group import TaskGroup
from ..state.state import State

log = logging.getLogger(__name__)

SAME_AGAIN: Final = 1
"""A machine that powers itself off before its server is ready is replaced so often: the next one
boots the same image."""

CLOCK_DIFFERENCE: Final = timedelta(minutes=1)
"""By so much the clocks of hub and EC2 may differ: whoever asked later than an instance was
launched did not wait for it."""

STOPPED_GRACE: Final = 120.0
"""Seconds in which a listing may still show an instance as stopped that was started again."""

_WAITED_FOR: Final = {
    Step.HOME: "its home was still being opened",
    Step.NOTEBOOK: "JupyterLab was still starting",
}

_ENDED_EARLY_FIX: Final = "Try again; if it ends so again, an admin should look at the image."


@dataclass(slots=True)
class LostStarts:
    """Gives a start whose instance is gone another one, or ends it."""

    state: State
    failures: StartFailures

    async def reconcile(self, now: datetime) -> None:
        """Never raises: each is replaced or ended in the background."""
        lost, self.state.lost = self.state.lost, {}
        for lease, instance in lost.values():
            self.failures.lost(lease, instance)


@dataclass(slots=True)
class StartTimeouts:
    """Ends starts that have had an instance for longer than `ready_timeout`."""

    state: State
    failures: StartFailures

    async def reconcile(self, now: datetime) -> None:
        """Never raises: each is ended in the background."""
        state, uptime = self.state, self.state.clock.uptime()
        starting = list(state.leases.open(LeaseState.STARTING))
        held_since = {_stay(x): state.held_since.get(_stay(x), uptime) for x in starting}
        # It gets nothing to start with before another instance has released the home.
        waiting = {_stay(x): uptime for x in starting if state.must_wait(x)}
        state.held_since = held_since | waiting
        for lease in starting:
            if state.held_seconds(lease) >= state.settings.ready_timeout:
                self.failures.late(lease)


@dataclass(slots=True)
class SilentInstances:
    """Instances that have not called within `boot_timeout`. Each fails a start that waited for
    it, of the missing ones: nothing else is on its way to those."""

    state: State
    failures: StartFailures

    async def reconcile(self, now: datetime) -> None:
        """Never raises: each start is ended in the background."""
        state = self.state
        for instance in state.stock.silent:
            if POOL in instance.tags:
                continue  # no start was to wait for it
            if state.claims.is_bound(instance.instance_id):
                continue  # it has called since the stock was taken
            waited = [
                need
                for need in needs(state)
                if need.lease_id in state.stock.missing
                and need.requested_at <= instance.launched_at + CLOCK_DIFFERENCE
            ]
            need = lease_for(supply_of(instance), waited)
            if need is not None and (lease := state.leases.get(need.lease_id)):
                self.failures.silent(lease, instance)


@dataclass(slots=True)
class StartFailures:
    """Judges starts that failed, in the background: with the instance's boot log, if there is
    one."""

    state: State
    cloud: Cloud
    boot_logs: BootLogs
    offers: Offers
    prices: PriceCache
    tasks: TaskGroup

    def lost(self, lease: Lease, instance: Instance | None) -> None:
        """The instance that the lease has, or would have had, is gone: another one, or the end.

        One that was retained holds its user's disk, and is not replaced while it is only stopped.
        """
        if lease.on_retained and not self.state.instances.is_gone(lease.instance_id or ""):
            self._judge(lease, self._fail_retained(lease, instance))
            return
        cause = termination_cause(instance.state_reason) if instance is not None else Cause.OTHER
        if instance is not None and cause is Cause.REFUSED:
            self._judge(lease, self._fail_refused(lease, instance))
            return
        if instance is not None and cause is Cause.CAPACITY:
            sold_out = CloudError(NO_CAPACITY, instance.state_message, retryable=False)
            self.offers.learn_of_start(instance, sold_out)
        itself = instance is not None and instance.state_reason == POWERED_OFF
        limit = min(self.state.settings.replacements, SAME_AGAIN) if itself else None
        self._judge(lease, self._replace(lease, instance, limit))

    def late(self, lease: Lease) -> None:
        """It was not ready within `ready_timeout` of getting its instance."""
        self._judge(lease, self._fail_late(lease))

    def silent(self, lease: Lease, instance: Instance) -> None:
        """The instance that it waited for did not call within `boot_timeout`."""
        self._judge(lease, self._fail_silent(lease, instance))

    # --- one judgement ---

    def _judge(self, lease: Lease, work: Coroutine[Any, Any, None]) -> None:
        """In the background: meanwhile nothing else is bought for the lease."""
        if lease.lease_id in self.state.judged:
            work.close()
            return
        self.state.judged.add(lease.lease_id)

        async def judged() -> None:
            try:
                await work
            finally:
                self.state.judged.discard(lease.lease_id)
                self.state.wake()

        self.tasks.spawn(judged(), f"judge {lease.lease_id}")

    async def _replace(self, lease: Lease, instance: Instance | None, limit: int | None) -> None:
        itself = instance is not None and limit is not None
        said = await self.boot_logs.end_of(instance.instance_id) if instance and itself else ""
        if (current := self._unchanged(lease)) is not None:
            limit = self.state.settings.replacements if limit is None else limit
            await self._replace_instance(current, limit, said)

    async def _replace_instance(self, lease: Lease, limit: int, boot_log: str = "") -> None:
        """The instance died before the notebook listened: back to the waiting list.

        `boot_log` is its end, for people.
        """
        await wait_for_prices(self.prices, lease)
        now = self.state.clock.now()
        segments = await closed_segments(self.state, self.cloud, self.prices, lease, now)
        if self.state.leases.get(lease.lease_id) is not lease:
            return  # it has changed since the pass looked; the next one looks again
        if lease.replaced >= limit:
            number = lease.replaced + 1
            ended = "1 instance" if number == 1 else f"{number} instances"
            message = f"{ended} ended before your server was ready. {_ENDED_EARLY_FIX} {boot_log}"
            stop = Stop(reason="failed", message=message.strip()[:500])
            await self.state.end(lease.lease_id, stop)
            return
        log.warning("An instance of %s ended before it was ready", lease.lease_id)
        message = "The instance ended while it was starting; getting another one"
        await self.state.leases.send_back(
            lease.lease_id,
            message,
            boot_log,
            replaced=lease.replaced + 1,
            segments=segments,
        )

    async def _fail_retained(self, lease: Lease, instance: Instance | None) -> None:
        """Its agent says that it shuts down, or a listing shows it stopped."""
        itself = instance is not None and instance.state_reason == POWERED_OFF
        said = await self.boot_logs.end_of(instance.instance_id) if instance and itself else ""
        if self._unchanged(lease) is not None:
            stop = Stop(reason="failed", message=stopped_again(instance, said))
            await self.state.end(lease.lease_id, stop)

    async def _fail_refused(self, lease: Lease, instance: Instance) -> None:
        """EC2 ended it because of the account or the configuration, which another one has too."""
        error = CloudError(instance.state_reason, instance.state_message, retryable=False)
        log.error("EC2 ended %s at once: %s", instance.instance_id, error)
        message = f"EC2 ended your machine right after its launch: {describe_error(error)}"
        if self._unchanged(lease) is not None:
            await self.state.end(lease.lease_id, Stop(reason="failed", message=message[:500]))

    async def _fail_silent(self, lease: Lease, instance: Instance) -> None:
        within = self.state.settings.boot_timeout
        said = await self.boot_logs.end_of(instance.instance_id)
        message = (
            f"The machine {instance.instance_id} did not call the hub within "
            f"{_span(within)} of its start, and is given back. An admin should look at the image, "
            "and at the way to the hub: security groups, network ACLs, routes (`ec2spawner check` "
            f"reports it as hub-port). {said}"
        )
        if self._unchanged(lease) is not None:
            await self.state.end(
                lease.lease_id, Stop(reason="failed", message=message.strip()[:500])
            )

    async def _fail_late(self, lease: Lease) -> None:
        within = self.state.settings.ready_timeout
        said = await self.boot_logs.end_of(lease.instance_id or "")
        steps = [step for step in _WAITED_FOR if step in lease.steps]
        waited_for = _WAITED_FOR[steps[-1]] if steps else "its agent had not begun"
        message = (
            f"Your server was not ready within {_span(within)} of getting its "
            f"machine: {waited_for}. {said}"
        )
        if self._unchanged(lease) is not None:
            await self.state.end(
                lease.lease_id, Stop(reason="failed", message=message.strip()[:500])
            )

    def _unchanged(self, lease: Lease) -> Lease | None:
        """The lease as it is now, where it still waits for what it waited for."""
        now = self.state.leases.get(lease.lease_id)
        if now is None or (now.state, now.instance_id) != (lease.state, lease.instance_id):
            return None
        return now


def _span(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _stay(lease: Lease) -> tuple[str, str | None]:
    return lease.lease_id, lease.instance_id
