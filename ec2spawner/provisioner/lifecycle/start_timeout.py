"""Starts that do not get ready: the machine ends, never speaks, or speaks and gets nowhere.

Each has an end within a documented time, and whoever waits is told why, with the last lines of
the machine's boot log where EC2 has one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence, Set
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from ...core.instances.matching import lease_for
from ...core.text.boot_log import quoted
from ...wire import Step, Stop
from ..instances.inventory import supply_of
from ..model.cloud import Cloud, CloudError, Instance
from ..model.lease import Lease, LeaseState
from ..model.settings import Settings
from ..runtime.uptime_clock import UptimeClock
from ..state.lease_registry import LeaseRegistry
from .start import Start

log = logging.getLogger(__name__)

BOOT_LOG_SECONDS: Final = 8.0
"""Whoever waits is told why within seconds, with the boot log or without it."""

BOOT_LOGS_AT_ONCE: Final = 4
"""A hundred starts may fail together, and the calls to EC2 share one pool of threads."""

POWERED_OFF: Final = "Client.InstanceInitiatedShutdown"
"""EC2's reason where the machine ended by itself: the image or the user-data wanted it so."""

SAME_AGAIN: Final = 1
"""A machine that powers itself off before its server is ready is replaced so often: the next one
boots the same image."""

AT_ONCE: Final = timedelta(minutes=1)
"""By so much the clocks of hub and EC2 may differ: whoever asked later than an instance was
launched did not wait for it."""

STOPPED_GRACE: Final = 120.0
"""Seconds in which a listing may still show an instance as stopped that was started again."""

_WAITED_FOR: Final = {
    Step.HOME: "its home was still being opened",
    Step.NOTEBOOK: "JupyterLab was still starting",
}

Spawn = Callable[[Coroutine[Any, Any, None], str], None]


@dataclass(slots=True)
class StartTimeouts:
    registry: LeaseRegistry
    cloud: Cloud
    starting: Start
    settings: Settings
    uptime: UptimeClock
    spawn_task: Spawn
    fail: Callable[[str, Stop], Coroutine[Any, Any, None]]
    wake: Callable[[], None]
    _since: dict[tuple[str, str | None], float] = field(default_factory=dict)
    """Lease and instance id: since when, in seconds awake, the lease has held it unready."""
    _boot_logs: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(BOOT_LOGS_AT_ONCE)
    )

    def end_what_is_late(self) -> None:
        """A start that has held its machine for `ready_timeout` ends."""
        now = self.uptime()
        starting = list(self.registry.open(LeaseState.STARTING))
        self._since = {_stay(x): self._since.get(_stay(x), now) for x in starting}
        for lease in starting:
            if self.held_seconds(lease) >= self.settings.ready_timeout:
                self._judge(lease, self._fail_late(lease))

    def held_seconds(self, lease: Lease) -> float:
        """For how long, awake, the lease has held its present instance."""
        now = self.uptime()
        return now - self._since.get(_stay(lease), now)

    def ended(self, lease: Lease, instance: Instance | None) -> None:
        """The machine that the lease has, or would have had, is gone: another one, or the end."""
        itself = instance is not None and instance.state_reason == POWERED_OFF
        limit = min(self.settings.replacements, SAME_AGAIN) if itself else None
        self._judge(lease, self._replace(lease, instance, limit))

    def never_spoke(self, instances: Sequence[Instance], missing: Set[str]) -> None:
        """These have not called within `boot_timeout`. Each fails a start that waited for it, of
        the `missing` ones: nothing else is on its way to those."""
        for instance in instances:
            waited = [
                need
                for need in self.starting.needs()
                if need.lease_id in missing and need.requested_at <= instance.launched_at + AT_ONCE
            ]
            need = lease_for(supply_of(instance), waited)
            if need is not None and (lease := self.registry.get(need.lease_id)):
                self._judge(lease, self._fail_silent(lease, instance))

    # --- one judgement ---

    def _judge(self, lease: Lease, work: Coroutine[Any, Any, None]) -> None:
        """In the background: meanwhile nothing else is bought for the lease."""
        if lease.lease_id in self.starting.judged:
            work.close()
            return
        self.starting.judged.add(lease.lease_id)

        async def judged() -> None:
            try:
                await work
            finally:
                self.starting.judged.discard(lease.lease_id)
                self.wake()

        self.spawn_task(judged(), f"judge {lease.lease_id}")

    async def _replace(self, lease: Lease, instance: Instance | None, limit: int | None) -> None:
        itself = instance is not None and limit is not None
        said = await self._boot_log(instance.instance_id) if instance and itself else ""
        if (current := self._unchanged(lease)) is not None:
            limit = self.settings.replacements if limit is None else limit
            await self.starting.replace_instance(current, limit, said)

    async def _fail_silent(self, lease: Lease, instance: Instance) -> None:
        said = await self._boot_log(instance.instance_id)
        message = (
            f"The machine {instance.instance_id} did not call the hub within "
            f"{_span(self.settings.boot_timeout)} of its start, and is given back. An admin should "
            f"look at the image, and at the way from the instances to the hub. {said}"
        )
        if self._unchanged(lease) is not None:
            await self.fail(lease.lease_id, Stop(reason="failed", message=message.strip()[:500]))

    async def _fail_late(self, lease: Lease) -> None:
        said = await self._boot_log(lease.instance_id or "")
        steps = [step for step in _WAITED_FOR if step in lease.steps]
        waited_for = _WAITED_FOR[steps[-1]] if steps else "its agent had not begun"
        message = (
            f"Your server was not ready within {_span(self.settings.ready_timeout)} of getting its "
            f"machine: {waited_for}. {said}"
        )
        if self._unchanged(lease) is not None:
            await self.fail(lease.lease_id, Stop(reason="failed", message=message.strip()[:500]))

    def _unchanged(self, lease: Lease) -> Lease | None:
        """The lease as it is now, where it still waits for what it waited for."""
        now = self.registry.get(lease.lease_id)
        if now is None or (now.state, now.instance_id) != (lease.state, lease.instance_id):
            return None
        return now

    async def _boot_log(self, instance_id: str) -> str:
        """Its end, for people; empty where EC2 has none or does not answer in time."""
        try:
            async with asyncio.timeout(BOOT_LOG_SECONDS), self._boot_logs:
                return quoted(await self.cloud.console_output(instance_id))
        except (CloudError, TimeoutError) as error:
            log.info("The boot log of %s cannot be read: %s", instance_id, error)
            return ""


def _span(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _stay(lease: Lease) -> tuple[str, str | None]:
    return lease.lease_id, lease.instance_id
