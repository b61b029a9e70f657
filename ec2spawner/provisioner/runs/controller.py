"""Follows the leases of runs: ends what is over, queues again what has lost its instance.

Level-triggered: what a killed hub has left half done is found by the numbers in runs and leases.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ...core.ledger.charges import rate
from ...core.ledger.cost import known_usd
from ...core.runs.attempts import after_attempt
from ...core.runs.cost_cap import is_reached
from ...wire import Stop
from ..model.leases.lease import LIVE, Lease, LeaseState
from ..model.leases.run import Run, RunAttempt, RunState
from ..runtime.cooperative_iteration import cooperatively
from ..runtime.task_group import TaskGroup
from ..state.state import State
from ..store.runs import KEPT
from ..store.store import Store, StoreError
from .run_end import end_run, lease_stop, leave_home

log = logging.getLogger(__name__)

NOT_ITS_LEASE: Final = Stop(reason="hub", message="Its run has another instance, or has ended")

KEPT_OF_USER: Final = 2000
"""Runs of each user that have ended and stay in memory: their pages show them."""

FORGOTTEN_AT_ONCE: Final = 1000
"""Records of runs that one pass deletes."""

TIDY_SECONDS: Final = 3600.0
"""Between two deletions of old documents."""


@dataclass(slots=True)
class RunLeases:
    """Does for each run what is missing; the hub requests leases for those that are due."""

    state: State
    store: Store
    tasks: TaskGroup
    _tidied_at: float | None = None

    async def reconcile(self, now: datetime) -> None:
        """Never raises: a change that cannot be stored yet holds nevertheless."""
        for lease in [x for x in self.state.leases.open() if x.run and x.state in LIVE]:
            run = self.state.runs.get(lease.run)
            if run is None or run.lease_id != lease.lease_id:
                await self.state.end(lease.lease_id, NOT_ITS_LEASE)
        async for run in cooperatively(self.state.runs.open()):
            try:
                await self._see_to(run.number, now)
            except StoreError as error:
                log.error("A change of run %d is not stored yet: %s", run.number, error)
        self._tidy(now)
        await self._forget_records()

    async def _see_to(self, number: int, now: datetime) -> None:
        """As it is by now: others were seen to meanwhile."""
        run = self.state.runs.get(number)
        if run is None:
            return
        if run.state is not RunState.ENDED and run.deadline is not None and run.deadline <= now:
            await end_run(self.state, number, "deadline", "It was not done by its deadline")
            return
        if run.lease_id:
            lease = self.state.leases.get(run.lease_id)
            if lease is None:
                lease = await self.store.stored_lease(run.lease_id)
                if self.state.runs.get(number) != run:
                    return  # it has changed meanwhile: the next pass sees to it
            if lease is not None and lease.state is not LeaseState.ENDED:
                await self._watch(run, lease, now)
                return
            await self._close_attempt(run, lease, now)
        elif run.state is RunState.ENDED and not run.is_cleared:
            await self._clear(run)

    async def _watch(self, run: Run, lease: Lease, now: datetime) -> None:
        if run.state is RunState.ENDED:
            if lease.state in LIVE and self.state.runs.is_stored(run.number):
                await self.state.end(lease.lease_id, lease_stop(run.outcome or "cancelled"))
            return
        if run.max_usd is None or not lease.segments:
            return
        spent = run.spent_usd + (known_usd(lease.segments, now) or 0.0)
        per_hour = rate(lease.segments[-1], now).known_usd_per_hour or 0.0
        if is_reached(run.max_usd, spent, per_hour, self.state.settings.stop_timeout):
            words = f"It would have cost more than its cap of {run.max_usd:g} USD"
            await end_run(self.state, run.number, "cost-cap", words)

    async def _close_attempt(self, run: Run, lease: Lease | None, now: datetime) -> None:
        """Its lease has ended, or was never stored."""
        attempts = run.attempts
        if lease is not None and lease.segments:
            attempts = (*attempts, self._attempt(run, lease))
        if run.state is RunState.ENDED:
            await self.state.runs.change(run.number, lease_id="", attempts=attempts)
            return
        stop = lease.stop if lease is not None and lease.stop else Stop(reason="lost")
        after = after_attempt(stop.reason, has_run=run.begun, tries=run.tries, retries=run.retries)
        why = stop.message.rstrip(". ") or "Its instance is gone"
        if after.outcome is not None:
            changed = self.state.runs.begin_changing(
                run.number, lease_id="", attempts=attempts, tries=after.tries
            )
            await end_run(self.state, run.number, after.outcome, why)
            await changed
            return
        await self.state.runs.change(
            run.number,
            state=RunState.QUEUED,
            lease_id="",
            begun=False,
            attempts=attempts,
            tries=after.tries,
            not_before=now + timedelta(seconds=after.pause_seconds),
            message=f"{why}. It begins again on another instance"[:500],
        )

    def _attempt(self, run: Run, lease: Lease) -> RunAttempt:
        last = lease.segments[-1]
        has_completed = run.outcome in {"succeeded", "failed"}
        return RunAttempt(
            lease_id=lease.lease_id,
            instance_type=last.instance_type,
            zone=last.zone,
            market=last.market,
            usd=known_usd(lease.segments, lease.ended_at or self.state.clock.now()),
            reason="" if has_completed else (lease.stop.reason if lease.stop else "lost"),
        )

    async def _clear(self, run: Run) -> None:
        await leave_home(self.state, run)
        others = [x for x in self.state.runs.of_array(run.array) if x.number != run.number]
        if all(each.is_cleared for each in others):
            await self.store.runs.forget_source(run.source)
            self.state.runs.bytes.source_forgotten(run.source)
        await self.state.runs.change(run.number, is_cleared=True)

    def _tidy(self, now: datetime) -> None:
        uptime = self.state.clock.uptime()
        if self._tidied_at is not None and uptime - self._tidied_at < TIDY_SECONDS:
            return
        self._tidied_at = uptime
        self.state.runs.forget_ended(KEPT_OF_USER, now - KEPT)
        sources = sorted({x.source for x in self.state.runs.open()})
        self.tasks.spawn(self._forget_documents(now, sources), "old documents of runs")

    async def _forget_records(self) -> None:
        """Delete records that memory has forgotten; a killed hub loads and forgets them again."""
        numbers = sorted(self.state.runs.forgotten)[:FORGOTTEN_AT_ONCE]
        if not numbers:
            return
        try:
            await self.store.runs.forget(numbers)
        except StoreError as error:
            log.warning("Records of old runs are not deleted yet: %s", error)
        else:
            self.state.runs.forgotten.difference_update(numbers)

    async def _forget_documents(self, now: datetime, sources: list[int]) -> None:
        try:
            await self.store.runs.forget_documents(now, sources)
        except StoreError as error:
            log.warning("Old documents of runs are not deleted yet: %s", error)
