"""Runs: those of a server, on its owner's behalf, and as the instance of a run reports on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from tornado.http1connection import HTTP1Connection
from tornado.iostream import StreamClosedError

from ....core.concurrency_limit import TooManyAtOnce
from ....core.profiles.choices import OptionsRefused
from ....provisioner.model.leases.lease import Lease
from ....provisioner.model.leases.run import Run
from ....provisioner.runs.runs import NoSuchRun, Owner, TooManyRuns
from ....wire import Message, RunReport, RunsAnswer, RunsRequest, RunWork
from ....wire.runs import (
    MAX_RUN_BODY_BYTES,
    MAX_SHOWN_RUNS,
    MAX_VALUES,
    has_too_many_values,
)
from ...runs.answers import runs_json, tokens_of
from ...runs.submission import CannotRun, submit
from ...spawn.server_options import ProfileListError
from .calls import LEASE, share_of
from .owner import OwnersHandler

BUSY_SECONDS = 2.0
"""When to try again, for a user who sends or reads as many documents as may wait."""

SEND_SECONDS = 30.0
"""For an answer with a document. One of 4 MiB, the largest, then needs 1.1 Mbit/s."""

SHOWN_UNDELIVERED = 50
"""Of one answer: the server asks again for the others."""


class DocumentsHandler(OwnersHandler):
    """A call with a document of up to some megabytes."""

    MAX_BODY_BYTES = MAX_RUN_BODY_BYTES

    async def check_rates(self, lease: Lease) -> None:
        """Let the bodies of each user that may be large come one after the other."""
        await super().check_rates(lease)
        if self.may_be_large:
            await self.check_large(lease)
            try:
                await self.wait_turn(self.service.limits.documents_in, lease.user)
            except TooManyAtOnce:
                await self.refuse_for_now(BUSY_SECONDS, "too many documents of runs at once")

    async def check_large(self, lease: Lease) -> None:
        """End the request with 429 if too many large bodies of this kind come."""

    async def answer_document(self, lease: Lease, answer: Callable[[], Awaitable[Message]]) -> None:
        """Send what `answer` returns, which may have megabytes: to each user one after the other,
        and to none that does not read it within `SEND_SECONDS`."""
        try:
            async with self.service.limits.documents_out.turn(lease.user):
                content = (await answer()).model_dump_json().encode()
                self.set_header("Content-Length", len(content))
                self.write(content)
                del content
                with suppress(StreamClosedError):
                    await asyncio.wait_for(self.flush(), SEND_SECONDS)
        except TooManyAtOnce:
            await self.refuse_for_now(BUSY_SECONDS, "too many documents of runs at once")
        except TimeoutError:
            connection = self.request.connection
            assert isinstance(connection, HTTP1Connection)
            connection.stream.close()


class RunsHandler(DocumentsHandler):
    """`POST leases/{id}/runs`: submit, show, cancel and deliver the runs of a server, and
    no others: everyone with access to that server can make this call."""

    async def check_large(self, lease: Lease) -> None:
        """Only a submission is large."""
        await self.check_submissions(lease)

    async def check_submissions(self, lease: Lease) -> None:
        """End the request with 429 for too many submissions."""
        limit, hint = self.service.limits.run_submissions, "too many submissions: send an array"
        await self.check_rate(limit, share_of(lease), hint)

    async def call(self, lease: Lease) -> None:
        """Answer a `RunsAnswer`; 409 with the reason where that is refused, 404 for a run that is
        not the server's, 429 for what is asked too often, 503 without profiles."""
        if has_too_many_values(self.body()):
            self.refuse(400, f"parameters: have more than {MAX_VALUES} values together")
        request = self.read(RunsRequest)
        self.release_body()
        if not lease.is_server:
            self.refuse(409, "a worker or a run has no runs of its own")
        is_named = request.number is not None or (request.action == "cancel" and request.request_id)
        if request.action in {"cancel", "result", "delivered"} and not is_named:
            self.refuse(400, f"`{request.action}` needs the number of a run")
        try:
            if request.action == "result":
                await self.answer_result(lease, request.number or 0)
            else:
                await self.answer_runs(lease, request)
        except NoSuchRun as error:
            self.refuse(404, str(error))
        except ProfileListError as error:
            self.refuse(503, str(error))
        except TooManyAtOnce:
            await self.refuse_for_now(BUSY_SECONDS, "too many calls of this user at once")
        except (CannotRun, OptionsRefused, TooManyRuns) as error:
            self.refuse(409, str(error))

    async def answer_result(self, lease: Lease, number: int) -> None:
        """Send the result of a run. Raises `NoSuchRun`."""
        runs, owner = self.provisioner.runs, self.owner(lease)
        run = runs.one(owner, number)
        too_many = "too many documents of runs"
        await self.check_rate(self.service.limits.run_results, share_of(lease), too_many)

        async def answer() -> RunsAnswer:
            shown = await runs.summaries([run])
            return RunsAnswer(runs=shown, result=await runs.result(owner, number))

        await self.answer_document(lease, answer)

    async def answer_runs(self, lease: Lease, request: RunsRequest) -> None:
        """Do what is asked, and send the runs that it concerns. Raises why not."""
        if is_change := request.action in {"submit", "cancel"}:
            # Before it is done: a client that is refused would have it done again.
            await self.check_length(lease, self.concerned(lease, request))
        found = await self.follow(lease, request)
        if not is_change:
            await self.check_length(lease, len(found))
        limits = self.service.limits
        self.finish(await runs_json(limits, self.provisioner, lease.user, found, {}))

    async def check_length(self, lease: Lease, runs: int) -> None:
        """End the request with 429 for too many long answers."""
        if tokens := tokens_of(runs):
            limit, too_many = self.service.limits.user_calls, "too many long lists of runs"
            await self.check_rate(limit, share_of(lease), too_many, tokens)

    def concerned(self, lease: Lease, request: RunsRequest) -> int:
        """How many runs a change is about. Raises `NoSuchRun`."""
        runs, owner = self.provisioner.runs, self.owner(lease)
        if request.action == "submit":
            return len(request.submission.parameters) if request.submission else 0
        if request.request_id:
            return len(runs.submitted(owner, request.request_id))
        return len(runs.array(owner, request.number or 0)) if request.array else 1

    async def follow(self, lease: Lease, request: RunsRequest) -> Sequence[Run]:
        """Do what is asked. Raises why not."""
        runs, owner, number = self.provisioner.runs, self.owner(lease), request.number or 0
        match request.action:
            case "submit":
                found = await self.submit(lease, owner, request)
            case "list" if request.request_id:
                found = runs.submitted(owner, request.request_id)
            case "cancel" if request.request_id:
                found = await runs.cancel_submitted(owner, request.request_id)
            case "cancel":
                found = await runs.cancel(owner, number, all_of_array=request.array)
            case "undelivered":
                found = runs.undelivered(owner, lease.server, SHOWN_UNDELIVERED)
            case "delivered":
                await runs.deliver(owner, lease.server, number)
                found = [runs.one(owner, number)]
            case "list":
                found = runs.array(owner, number) if number else runs.of_user(owner, MAX_SHOWN_RUNS)
        return found

    def owner(self, lease: Lease) -> Owner:
        """Ends the request with 409 if the owner has no account any more."""
        self.owners_spawner(lease)
        return Owner(lease.user, lease.server)

    async def submit(self, lease: Lease, owner: Owner, request: RunsRequest) -> list[Run]:
        """Queue what the owner sends, also while this server starts. Raises why not."""
        if request.submission is None:
            self.refuse(400, "`submit` needs a `submission`")
        spawner = self.owners_spawner(lease)
        if not self.may_be_large:
            await self.check_submissions(lease)
        return await submit(
            self.service, self.provisioner, spawner, owner, request.submission, server=lease
        )


class RunHandler(DocumentsHandler):
    """`POST leases/{id}/run`: begin, progress and end, as the instance of a run reports them."""

    CALL_TOKENS = None

    async def check_large(self, lease: Lease) -> None:
        """Large or not, each is a read or write of the store."""
        limits, too_many = self.service.limits, "too many documents of runs"
        await self.check_rate(limits.run_documents, lease.lease_id, too_many)

    async def call(self, lease: Lease) -> None:
        """Answer a `RunWork`; 409 if the run has another instance or has ended, 429 for results
        that come too fast."""
        report = self.read(RunReport)
        self.release_body()
        if not lease.run:
            self.refuse(409, "this lease is of no run")
        self.provisioner.agents.heard(lease.lease_id)
        has_document = report.action == "begin" or (report.action == "progress" and report.result)
        if has_document and not self.may_be_large:
            await self.check_large(lease)

        async def answer() -> RunWork:
            work = await self.provisioner.runs.report(lease, report)
            if work is None:
                self.refuse(409, "this run has ended, or has another instance")
            return work

        if report.action == "begin":
            await self.answer_document(lease, answer)
        else:
            self.answer(200, await answer())


handlers: list[tuple[str, Callable[..., Any]]] = [
    (rf"{LEASE}/runs", RunsHandler),
    (rf"{LEASE}/run", RunHandler),
]
