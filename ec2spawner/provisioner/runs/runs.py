"""Runs as users submit, see and cancel them, and as their instances report on them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import Any, Final

from ...core.limits.admission import Refusal
from ...core.limits.words import short_refusal
from ...core.offers.purchase import Offer
from ...core.runs.cost_cap import affordable_usd_per_hour
from ...core.runs.terms import Terms
from ...wire import RunReport, RunSummary, RunWork, Step
from ...wire.runs import RunOutcome
from ..instances.demand import wake_claims_for
from ..limits.admission import Admission, LimitReached
from ..limits.refusals import record_refusal
from ..model.launch_key import launch_key_of
from ..model.leases.home_change import NO_CHANGE, HomeChange
from ..model.leases.lease import Lease, StepEvent
from ..model.leases.run import Run, RunState
from ..offers.market import MarketData
from ..runtime.cooperative_iteration import cooperatively
from ..state.runs import TooManyRuns
from ..state.state import State
from ..store.store import Store
from .due import due_runs
from .result_room import has_room
from .run_end import end_run
from .summary import summary

__all__ = ["NoSuchRun", "Owner", "TooManyRuns", "UserRuns"]

log = logging.getLogger(__name__)

PRICES_PAUSE = timedelta(seconds=5)
"""Before runs with a cost cap are tried again while no prices are known, just after a start."""

LIMIT_PAUSE = timedelta(seconds=60)
"""Before runs that a limit refuses are tried again, unless a lease of its scope ends earlier."""

CANCELLED: Final = "You cancelled it"


class NoSuchRun(Exception):
    """There is none of this number, or it is another user's or another server's."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose runs: a user's or one server's."""

    user: str
    """See `UserAccount.key`."""
    server: str | None = None
    """Name of the user's server whose runs they are; None for those of all servers, deleted ones
    included."""

    def has(self, run: Run) -> bool:
        """Whether it is one of theirs."""
        return run.user == self.user and self.server in {None, run.server}


@dataclass(frozen=True, slots=True)
class UserRuns:
    """The queue and what is in it."""

    state: State
    store: Store
    market: MarketData
    admission: Admission

    # --- for users ---

    async def submit(self, owner: Owner, new: Sequence[Run], source: str) -> list[Run]:
        """Queue these runs of the owner, which all execute `source`.

        Raises `TooManyRuns` and `StoreError`, and then none is queued.
        """
        return await self.state.runs.add(new, source)

    async def summaries(self, runs: Sequence[Run]) -> list[RunSummary]:
        """These runs as their owner sees them, as of now. Leaves the event loop to others between
        them: a thousand take 50 ms."""
        return [
            summary(self.state, self.state.runs.get(run.number) or run)
            async for run in cooperatively(runs)
        ]

    def submitted(self, owner: Owner, request_id: str) -> list[Run]:
        """The runs of a submission that was made before, by number; none if it was not."""
        runs = self.state.runs.of_request(owner.user, owner.server or "", request_id)
        return [run for run in runs if owner.has(run)]

    def of_user(self, owner: Owner, limit: int) -> list[Run]:
        """The newest first."""
        runs = (run for run in self.state.runs.of_user(owner.user) if owner.has(run))
        return list(islice(runs, limit))

    def undelivered(self, owner: Owner, server: str, limit: int) -> list[Run]:
        """Those whose result belongs into the home of this server, oldest first."""
        runs = (x for x in self.state.runs.undelivered(owner.user, server) if owner.has(x))
        return list(islice(runs, limit))

    def one(self, owner: Owner, number: int) -> Run:
        """Raises `NoSuchRun`."""
        run = self.state.runs.get(number)
        if run is None or not owner.has(run):
            raise NoSuchRun(_no_such_run(owner, number))
        return run

    def array(self, owner: Owner, number: int) -> list[Run]:
        """All runs of the array of this run, by number; only itself without one. Raises
        `NoSuchRun`."""
        run = self.one(owner, number)
        return self.state.runs.of_array(run.array) if run.array else [run]

    async def cancel(
        self,
        owner: Owner,
        number: int,
        words: str = CANCELLED,
        *,
        all_of_array: bool = False,
    ) -> list[Run]:
        """End a run, or all of its array, with these words for its user. Raises `NoSuchRun`,
        `StoreError`."""
        runs = self.array(owner, number) if all_of_array else [self.one(owner, number)]
        return await self._cancel(owner, runs, words)

    async def cancel_submitted(self, owner: Owner, request_id: str) -> list[Run]:
        """End the runs of a submission; none if it was not made. Raises `StoreError`."""
        return await self._cancel(owner, self.submitted(owner, request_id), CANCELLED)

    async def result(self, owner: Owner, number: int) -> str:
        """The executed notebook or the log so far; empty for none. Raises `NoSuchRun`,
        `StoreError`."""
        run = self.one(owner, number)
        return await self.store.runs.document("result", run.number)

    async def deliver(self, owner: Owner, server: str, number: int) -> None:
        """The result is in the home of this server. Raises `NoSuchRun`, `StoreError`."""
        run = self.one(owner, number)
        if run.server == server and run.state is RunState.ENDED and not run.delivered:
            await self.state.runs.change(number, delivered=True)

    async def move(self, user: str, server: str, new: str) -> None:
        """Let the runs of a server be those of another name; see `deleted_server`. Raises
        `StoreError`: it holds nevertheless."""
        await self.state.runs.move(user, server, new)

    async def _cancel(self, owner: Owner, runs: Sequence[Run], words: str) -> list[Run]:
        open_runs = [each.number for each in runs if each.state is not RunState.ENDED]
        await asyncio.gather(*(end_run(self.state, x, "cancelled", words) for x in open_runs))
        return [self.one(owner, each.number) for each in runs]

    # --- for the hub, which requests leases ---

    def not_ended(self) -> list[Run]:
        """By number."""
        return [run for run in self.state.runs.open() if run.state is not RunState.ENDED]

    def due(self) -> list[Run]:
        """The runs to request a lease for now, the first at the front."""
        return due_runs(self.state)

    async def wait_change(self, timeout: float) -> None:
        """Wait until a run may have become due, at most so many seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self.state.runs.changed.wait()
        except TimeoutError:
            return

    async def start(self, number: int, lease: Lease, home: HomeChange = NO_CHANGE) -> None:
        """Let a queued run have this lease and this home, within its cost cap; of any other nothing
        changes.

        If a limit refuses it, it waits with all that have the same terms; if it can afford nothing,
        it ends. Raises `HomeChanged`, and `StoreError`: it holds nevertheless.
        """
        await self.admission.prepare(lease.spec.instance_types)
        run = self.state.runs.get(number)
        if run is None or run.state is not RunState.QUEUED:
            return
        terms, holds = run.terms(self.state.clock.now()), self.state.runs.holds
        if holds.is_held(terms):
            return  # another one was refused meanwhile
        holds.clear(terms)
        if run.max_usd is not None:
            every = self.market.offers.all_for(lease.spec)
            seconds = self.state.settings.stop_timeout
            most = affordable_usd_per_hour(run.max_usd, run.spent_usd, seconds)
            lease = _at_most(lease, most)
            if not self.market.offers.all_for(lease.spec):
                await self._cannot_afford(number, terms, run.max_usd, every)
                return
        try:
            lease = self.admission.admit(lease, records_refusal=False)
        except LimitReached as error:
            self._hold_by_limit(terms, lease, error.refusal)
            return
        now = self.state.clock.now()
        begun = StepEvent(Step.REQUEST, now, "Looking for a machine")
        stored = self.state.begin_changing_home(home)
        self.state.leases.times.requested(lease)
        # Both in memory before anything is awaited, and the run is stored first: a hub that is
        # killed in between finds a lease that was never stored, and queues the run again.
        changed = self.state.runs.begin_changing(
            number,
            state=RunState.STARTED,
            lease_id=lease.lease_id,
            begun=False,
            not_before=None,
            message="",
        )
        added = self.state.leases.begin_adding(replace(lease, run=number, events=(begun,)))
        await asyncio.gather(*map(asyncio.shield, (*stored, changed, added)))
        wake_claims_for(self.state, lease)
        self.state.wake()

    def _hold_by_limit(self, terms: Terms, lease: Lease, refusal: Refusal) -> None:
        """Its refusal is recorded once, however often runs with these terms are tried."""
        if self.state.runs.holds.is_first_refusal(terms, refusal):
            log.info("Run %d of %r waits: %s", lease.run, lease.user, refusal)
            record_refusal(self.state, lease, refusal)
        self.hold(
            terms,
            short_refusal(self.state.accounts.displayed_scope(refusal)),
            LIMIT_PAUSE,
            refusal.scope,
        )

    async def _cannot_afford(
        self, number: int, terms: Terms, max_usd: float, every: Sequence[Offer]
    ) -> None:
        """Just after the hub's start no prices are known: that is no reason to give up."""
        if every and all(each.usd_per_hour is not None for each in every):
            words = f"What is left of its cap of {max_usd:g} USD pays for no instance"
            await end_run(self.state, number, "cost-cap", words)
        else:
            words = "Waits until prices are known, because it has a cost cap"
            self.hold(terms, words, PRICES_PAUSE)

    def hold(self, terms: Terms, message: str, pause: timedelta, scope: str = "") -> None:
        """Let all queued runs with these terms wait for so long, and others have their turn.
        `scope` is that of the limit that refuses them; empty if no limit does."""
        self.state.runs.holds.hold(terms, message, pause, scope)
        self.state.runs.announce()

    def pause(self, number: int, pause: timedelta) -> None:
        """Let one queued run wait for so long."""
        run = self.state.runs.get(number)
        if run is not None and run.state is RunState.QUEUED:
            self.state.runs.remember(number, not_before=self.state.clock.now() + pause)

    async def refuse(self, number: int, message: str) -> None:
        """End a run that cannot start. Raises `StoreError`."""
        if (run := self.state.runs.get(number)) is not None:
            self.state.runs.holds.clear(run.terms(self.state.clock.now()))
        await end_run(self.state, number, "failed", message)

    # --- for the instance of a run ---

    async def report(self, lease: Lease, report: RunReport) -> RunWork | None:
        """What the instance of a run says; None if the run has another one, or has ended.

        Raises `StoreError`, and then the instance shall say it again.
        """
        run = self.state.runs.get(lease.run)
        if run is not None and run.state is RunState.ENDED:
            await self.state.runs.be_stored(run.number)
        run = self._run_on(lease)
        if run is None:
            return None
        if report.action == "begin":
            return await self._begin(lease, run.source)
        progress: dict[str, Any] = {
            "cells_done": min(report.cells_done, report.cells_total),
            "cells_total": report.cells_total,
        }
        keeps = bool(report.result) and await has_room(self.state, self.store, run, report)
        if self._run_on(lease) is None:
            return None
        if report.action == "progress":
            if keeps:
                # Counted before it is stored: the run may end meanwhile.
                self.state.runs.remember(run.number, result_bytes=len(report.result))
                await self.store.runs.save_result(run.number, report.result, self.state.clock.now())
                progress["has_result"] = True
                if self._run_on(lease) is None:
                    return None
            self.state.runs.remember(run.number, message=report.message, begun=True, **progress)
        else:
            self.state.runs.remember(run.number, **progress)
            await self._end(run, report, keeps=keeps)
        return _work(run)

    async def _end(self, run: Run, report: RunReport, *, keeps: bool) -> None:
        outcome: RunOutcome = "succeeded" if report.succeeded else "failed"
        message = report.message
        if report.result and not keeps:
            why = self.state.runs.bytes.why_none(run.user)
            message = f"{message.rstrip('. ')}. Its result was not kept: {why}".removeprefix(". ")
        result = report.result if keeps else ""
        await end_run(self.state, run.number, outcome, message, result)

    def _run_on(self, lease: Lease) -> Run | None:
        """The run that this lease executes, as it is now; None once it has ended, or has another
        lease."""
        run = self.state.runs.get(lease.run)
        if run is None or run.lease_id != lease.lease_id or run.state is RunState.ENDED:
            return None
        return run

    async def _begin(self, lease: Lease, source: int) -> RunWork | None:
        document = await self.store.runs.document("source", source)
        run = self._run_on(lease)
        if run is None:
            return None
        if not run.begun:
            run = await self.state.runs.change(
                run.number,
                begun=True,
                tries=replace(run.tries, failed_starts=0, waits=0),
                started_at=run.started_at or self.state.clock.now(),
                cells_done=0,
                message="",
            )
        return _work(run).model_copy(update={"document": document})


def _no_such_run(owner: Owner, number: int) -> str:
    if owner.server is None:
        return f"you have no run {number}"
    return f"this server has no run {number}: the hub's page of runs has those of all your servers"


def _at_most(lease: Lease, usd_per_hour: float) -> Lease:
    """The same, bought at this price or less."""
    most = min(usd_per_hour, lease.spec.max_usd_per_hour or usd_per_hour)
    spec = replace(lease.spec, max_usd_per_hour=most)
    return replace(lease, spec=spec, launch_key=launch_key_of(spec))


def _work(run: Run) -> RunWork:
    return RunWork(
        number=run.number,
        attempt=run.tries.lost + 1,
        kind=run.kind,
        path=run.path,
        parameters=json.loads(run.parameters),
    )
