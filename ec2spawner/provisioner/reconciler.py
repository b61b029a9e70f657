"""The pass: reconciles leases and instances with what the cloud shows.

Level-triggered: a pass reads the waiting list, the last listing and the calls in progress, and does
what is missing; nothing is remembered as a step. The process may be killed between any two lines:
the next pass, or the next process, continues from what is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from .lifecycle.heartbeat import seconds_until_due
from .model import metrics
from .model.cloud.cloud import CloudError
from .runtime.supervise import Supervised
from .state.state import State
from .store.store import StoreError

log = logging.getLogger(__name__)

PASS_INTERVAL = 5.0
"""Maximum seconds between two passes; events and deadlines begin one sooner."""

MIN_WAIT = 0.25
"""Minimum seconds before a pass that only a deadline begins."""


class Controller(Protocol):
    """Compares one desired state with the actual one, and does what is missing."""

    async def reconcile(self, now: datetime) -> None:
        """Its part of a pass at `now`, UTC. A `CloudError` or `StoreError` ends the pass."""


@dataclass(eq=False)
class Reconciler:
    """Runs passes, one after the other: each calls every controller, in order."""

    state: State
    controllers: Sequence[Controller]
    passed_at: float | None = None
    """Uptime at the end of the last pass that succeeded, in seconds."""

    async def run(self) -> None:
        """Run passes until the task is cancelled."""
        while not await self.state.instances.first_listing(timeout=PASS_INTERVAL):
            log.info("Waiting for the first complete listing of instances")
        supervised = Supervised("A reconcile pass")
        while True:
            self.state.pass_wanted.clear()
            pause = PASS_INTERVAL
            with supervised:
                try:
                    with metrics.PASS_SECONDS.time(), metrics.PASSES_FAILED.count_exceptions():
                        await self.reconcile()
                    self.passed_at = self.state.clock.uptime()
                    pause = self._until_next_deadline()
                except (CloudError, StoreError) as error:
                    log.error("Reconciling: %s", error)
            # Not `wait_for`: on Python 3.11 that can swallow a cancellation, here and elsewhere.
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.state.pass_wanted.wait()
            await asyncio.sleep(self.state.settings.batch_window)

    async def reconcile(self) -> None:
        """One pass. Raises `CloudError`, `StoreError`."""
        now = self.state.clock.now()
        for controller in self.controllers:
            await controller.reconcile(now)
            # With thousands of servers each controller takes milliseconds: whoever calls the hub
            # meanwhile waits for one of them, not for all.
            await asyncio.sleep(0)

    async def run_on(self, event: asyncio.Event, controller: Controller) -> None:
        """Besides the passes, let one controller act whenever the event is set.

        For what a user waits for, and what must continue while the store fails the passes.
        """
        supervised = Supervised(type(controller).__name__)
        while True:
            await event.wait()
            event.clear()
            with supervised:
                await controller.reconcile(self.state.clock.now())

    def _until_next_deadline(self) -> float:
        left = seconds_until_due(self.state)
        return min([PASS_INTERVAL, *(max(each, MIN_WAIT) for each in left if each > -1)])
