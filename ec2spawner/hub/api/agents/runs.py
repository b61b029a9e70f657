"""Runs: those of a server, on its owner's behalf, and as the instance of a run reports on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ....core.profiles.choices import OptionsRefused
from ....core.rate_limit import RateLimit
from ....provisioner.model.leases.lease import Lease
from ....provisioner.runs.runs import NoSuchRun, Owner, TooManyRuns
from ....wire import RunReport, RunsAnswer, RunsRequest, RunSummary
from ....wire.runs import (
    MAX_RUN_BODY_BYTES,
    MAX_SHOWN_RUNS,
    MAX_VALUES,
    has_too_many_values,
)
from ...runs.submission import CannotRun, submit
from ...spawn.server_options import ProfileListError
from .calls import LEASE
from .owner import OwnersHandler

SHOWN_UNDELIVERED = 50
"""Of one answer: the server asks again for the others."""


class DocumentsHandler(OwnersHandler):
    """A call with a document of up to some megabytes."""

    MAX_BODY_BYTES = MAX_RUN_BODY_BYTES

    async def check_rate(self, limit: RateLimit, lease: Lease) -> None:
        """End the request with 429 if this lease sends or reads documents too fast: each is a read
        or write of the store."""
        now = time.monotonic()
        if not limit.take(lease.lease_id, now):
            seconds = limit.wait_seconds(lease.lease_id, now)
            await self.refuse_for_now(seconds, "too many documents of runs")


class RunsHandler(DocumentsHandler):
    """`POST leases/{id}/runs`: submit, show, cancel and deliver the runs of a server, and
    no others: everyone with access to that server can make this call."""

    async def call(self, lease: Lease) -> None:
        """Answer a `RunsAnswer`; 409 with the reason where that is refused, 404 for a run that is
        not the server's, 503 without profiles."""
        if has_too_many_values(b"".join(self._chunks)):
            self.refuse(400, f"parameters: have more than {MAX_VALUES} values together")
        request = self.read(RunsRequest)
        self.release_body()
        if not lease.is_server:
            self.refuse(409, "a worker or a run has no runs of its own")
        is_named = request.number is not None or (request.action == "cancel" and request.request_id)
        if request.action in {"cancel", "result", "delivered"} and not is_named:
            self.refuse(400, f"`{request.action}` needs the number of a run")
        try:
            self.answer(200, await self.follow(lease, request))
        except NoSuchRun as error:
            self.refuse(404, str(error))
        except ProfileListError as error:
            self.refuse(503, str(error))
        except (CannotRun, OptionsRefused, TooManyRuns) as error:
            self.refuse(409, str(error))

    async def follow(self, lease: Lease, request: RunsRequest) -> RunsAnswer:
        """Do what is asked. Raises why not."""
        runs, owner, number = self.provisioner.runs, self.owner(lease), request.number or 0
        found: Sequence[RunSummary]
        match request.action:
            case "submit":
                found = await self.submit(lease, owner, request)
            case "list" if request.request_id:
                found = runs.submitted(owner, request.request_id)
            case "cancel" if request.request_id:
                found = await runs.cancel_submitted(owner, request.request_id)
            case "cancel":
                found = await runs.cancel(owner, number, all_of_array=request.array)
            case "result":
                await self.check_rate(self.service.run_results, lease)
                result = await runs.result(owner, number)
                return RunsAnswer(runs=[runs.one(owner, number)], result=result)
            case "undelivered":
                found = runs.undelivered(owner, lease.server, SHOWN_UNDELIVERED)
            case "delivered":
                await runs.deliver(owner, lease.server, number)
                found = [runs.one(owner, number)]
            case "list":
                found = runs.array(owner, number) if number else runs.of_user(owner, MAX_SHOWN_RUNS)
        return RunsAnswer(runs=list(found))

    def owner(self, lease: Lease) -> Owner:
        """Ends the request with 409 if the owner has no account any more."""
        self.owners_spawner(lease)
        return Owner(lease.user, lease.server)

    async def submit(self, lease: Lease, owner: Owner, request: RunsRequest) -> list[RunSummary]:
        """Queue what the owner sends, also while this server starts. Raises why not."""
        if request.submission is None:
            self.refuse(400, "`submit` needs a `submission`")
        spawner = self.owners_spawner(lease)
        await self.check_rate(self.service.run_documents, lease)
        return await submit(
            self.service, self.provisioner, spawner, owner, request.submission, server=lease
        )


class RunHandler(DocumentsHandler):
    """`POST leases/{id}/run`: begin, progress and end, as the instance of a run reports them."""

    async def call(self, lease: Lease) -> None:
        """Answer a `RunWork`; 409 if the run has another instance or has ended, 429 for results
        that come too fast."""
        report = self.read(RunReport)
        self.release_body()
        if not lease.run:
            self.refuse(409, "this lease is of no run")
        self.provisioner.agents.heard(lease.lease_id)
        if report.action == "begin" or (report.action == "progress" and report.result):
            await self.check_rate(self.service.run_documents, lease)
        work = await self.provisioner.runs.report(lease, report)
        if work is None:
            self.refuse(409, "this run has ended, or has another instance")
        self.answer(200, work)


handlers: list[tuple[str, Callable[..., Any]]] = [
    (rf"{LEASE}/runs", RunsHandler),
    (rf"{LEASE}/run", RunHandler),
]
