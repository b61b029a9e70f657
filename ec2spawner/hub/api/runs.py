"""Runs for users and their programs: submit, show, cancel, read results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from jupyterhub.user import User
from pydantic import TypeAdapter
from tornado.http1connection import HTTP1Connection
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError

from ...core.concurrency_limit import TooManyAtOnce
from ...core.profiles.choices import OptionsRefused
from ...core.runs.documents import DocumentError, parts, plain_size
from ...core.text.strict_json import WrongBody, check_type, read_model
from ...provisioner.model.leases.run import Run
from ...provisioner.runs.runs import NoSuchRun, Owner, TooManyRuns
from ...provisioner.store.store import StoreError
from ...wire import RunSubmission
from ...wire.runs import (
    MAX_RUN_BODY_BYTES,
    MAX_SHOWN_RUNS,
    MAX_VALUES,
    has_too_many_values,
)
from ..app import service
from ..app.user_account import account_of
from ..runs.answers import runs_json, tokens_of
from ..runs.submission import CannotRun, submit
from ..spawn.server_options import ProfileListError
from .user_call import OWN_SCOPE, TooManyCalls, UserCall, named, running, store_failed

SUBMIT_SCOPE = "servers"
"""Required to submit and cancel: a run is a start of a server. A user's login and own tokens have
it; the token of a server, which everyone with access to that server can read, does not."""

SEND_SECONDS = 300.0
"""For a whole result. One of 64 MiB, the largest, then needs 1.8 Mbit/s."""

BUSY_SECONDS = 5.0
"""When to try again, for a user who reads as many results as may be read at a time."""

_INSTANT: TypeAdapter[datetime] = TypeAdapter(datetime)

NUMBER = r"([0-9]{1,9})"


class RunsApiHandler(UserCall):
    """A call of a user about their own runs."""

    def owner(self, scope: str) -> User:
        """The caller. Raises `HTTPError` (403) without the scope, or for a service."""
        caller = self.current_user
        if not isinstance(caller, User):
            raise HTTPError(403, "a service has no runs: use the token of a user")
        if not self.has_scope(f"{scope}!user={caller.name}"):
            raise HTTPError(403, f"the token needs the scope {scope} for its user")
        return caller

    def whose(self, scope: str) -> Owner:
        """The caller, or `user=`, whose runs an admin sees and cancels. Raises `HTTPError`
        (403) without the scope for that user."""
        name: str = self.get_query_argument("user", "")
        caller = self.current_user
        if not name or (isinstance(caller, User) and caller.name == name):
            return owner_of(self.owner(scope))
        if not self.has_scope(f"{scope}!user={name}"):
            raise HTTPError(403, f"this needs the scope {scope} for that user")
        return Owner(named(self, name))

    def check_length(self, runs: int) -> None:
        """Raises `TooManyCalls` for too many long answers; before anything is done, which a client
        that is refused would have done again."""
        service, _ = running()
        if tokens := tokens_of(runs):
            self.check_rate(service.limits.user_calls, "too many long lists of runs", tokens)

    async def send(self, runs: list[Run], status: int = 200) -> None:
        """Answer these runs."""
        service, provisioner = running()
        others = {"now": _INSTANT.dump_json(provisioner.now()).decode()}
        try:
            answer = await runs_json(service.limits, provisioner, self.caller, runs, others)
        except TooManyAtOnce as error:
            raise TooManyCalls("you are reading other lists of runs", BUSY_SECONDS) from error
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(answer)


class RunListHandler(RunsApiHandler):
    """`/api/ec2/runs`."""

    MAX_BODY_BYTES = MAX_RUN_BODY_BYTES

    async def admit(self) -> None:
        """Check scope and rate of submissions, and let bodies that may be large come one after
        the other."""
        await super().admit()
        hub = service.current()
        if hub is None or self.request.method != "POST" or not self.caller:
            return
        self.owner(SUBMIT_SCOPE)
        hint = "too many submissions: send several parameters as one array"
        self.check_rate(hub.limits.run_submissions, hint)
        if self.may_be_large:
            try:
                await self.wait_turn(hub.limits.documents_in, self.caller)
            except TooManyAtOnce as error:
                raise TooManyCalls("you are sending other documents", BUSY_SECONDS) from error

    async def get(self) -> None:
        """The caller's runs, the newest first; with `user=` those of another."""
        owner, (_, provisioner) = self.whose(OWN_SCOPE), running()
        found = provisioner.runs.of_user(owner, MAX_SHOWN_RUNS)
        self.check_length(len(found))
        await self.send(found)

    async def post(self) -> None:
        """Submit; 201 with the runs that were made, 400 with the field that is wrong, 429 while too
        many wait or run."""
        user, (service, provisioner) = self.owner(SUBMIT_SCOPE), running()
        submission = self.submission()
        self.check_length(len(submission.parameters))
        try:
            spawner, owner = user.spawners[""], owner_of(user)
            added = await submit(service, provisioner, spawner, owner, submission)
        except (CannotRun, OptionsRefused) as error:
            raise HTTPError(400, str(error)) from error
        except TooManyRuns as error:
            raise HTTPError(429, str(error)) from error
        except TooManyAtOnce as error:
            raise TooManyCalls("you are sending other documents", BUSY_SECONDS) from error
        except ProfileListError as error:
            raise HTTPError(503, str(error)) from error
        except StoreError as error:
            raise store_failed(self, error) from error
        await self.send(added, status=201)

    def submission(self) -> RunSubmission:
        """The body. Raises `HTTPError` (400) that names the fields."""
        body = self.body()
        self.release_body()
        if has_too_many_values(body):
            raise HTTPError(400, f"parameters: have more than {MAX_VALUES} values together")
        try:
            check_type(self.request.headers.get("Content-Type"))
            return read_model(RunSubmission, body)
        except WrongBody as error:
            raise HTTPError(400, str(error)) from error


class RunHandler(RunsApiHandler):
    """`/api/ec2/runs/{number}`."""

    async def get(self, number: str) -> None:
        """The run; with `?array` all of its array."""
        await self.send(self.asked(self.whose(OWN_SCOPE), int(number)))

    async def delete(self, number: str) -> None:
        """Cancel it; with `?array` all of its array."""
        self.refuse_body()
        owner, (_, provisioner) = self.whose(SUBMIT_SCOPE), running()
        caller = self.current_user
        is_own = isinstance(caller, User) and owner_of(caller) == owner
        words = "You cancelled it" if is_own else f"{caller.name} cancelled it"
        self.asked(owner, int(number))
        try:
            found = await provisioner.runs.cancel(
                owner, int(number), words, all_of_array=self.is_for_array()
            )
        except StoreError as error:
            raise store_failed(self, error, "cancelled, but not stored yet") from error
        await self.send(found)

    def asked(self, owner: Owner, number: int) -> list[Run]:
        """The runs that the call is about. Raises `HTTPError`: 404 where there are none, 429 for
        too many long answers."""
        _, provisioner = running()
        runs = provisioner.runs
        try:
            if not self.is_for_array():
                return [runs.one(owner, number)]
            found = runs.array(owner, number)
        except NoSuchRun as error:
            raise HTTPError(404, str(error)) from error
        self.check_length(len(found))
        return found

    def is_for_array(self) -> bool:
        """Whether the number stands for the whole array of that run. Raises `HTTPError` (400)
        for a value, which may mean the opposite."""
        if self.get_query_argument("array", ""):
            raise HTTPError(400, "array: takes no value; leave it out for one run")
        return "array" in self.request.query_arguments


class RunResultHandler(RunsApiHandler):
    """`/api/ec2/runs/{number}/result`."""

    async def get(self, number: str) -> None:
        """The executed notebook, or the log, so far, as a file; 404 while there is none, 429 for
        results that are read too fast or too many at a time."""
        user, (service, _) = self.owner(OWN_SCOPE), running()
        try:
            # Held until the client has the result: what it does not read stays in memory.
            with service.limits.run_results_at_once.hold(self.caller):
                run, packed = await self.result_of(user, int(number))
                self.set_file_headers(run, await asyncio.to_thread(_plain_size, packed))
                await self.send_file(parts(packed))
        except TooManyAtOnce as error:
            hint = "you are reading other results: try again when they are complete"
            raise TooManyCalls(hint, BUSY_SECONDS) from error

    async def result_of(self, user: User, number: int) -> tuple[Run, str]:
        """The run, and its result as it is packed. Raises `HTTPError` with 404, 429 or 503."""
        owner, (service, provisioner) = owner_of(user), running()
        try:
            run = provisioner.runs.one(owner, number)
            hint = "too many results at once: try again soon"
            self.check_rate(service.limits.run_results, hint)
            packed = await provisioner.runs.result(owner, number)
        except NoSuchRun as error:
            raise HTTPError(404, str(error)) from error
        except StoreError as error:
            raise store_failed(self, error) from error
        if not packed:
            raise HTTPError(404, "there is no result of this run yet")
        return run, packed

    def set_file_headers(self, run: Run, size: int) -> None:
        """Describe the file, which has `size` bytes."""
        stem, _, suffix = run.path.rpartition("/")[2].rpartition(".")
        is_notebook = suffix == "ipynb"
        name = f"{stem}-{run.number}.{'ipynb' if is_notebook else 'log'}"
        # Never shown in the hub's origin: what a run has written may contain scripts.
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{quote(name)}")
        self.set_header("Content-Length", size)

    async def send_file(self, pieces: Iterator[bytes]) -> None:
        """Unpack and send as fast as the client reads, and drop a client that takes longer than
        `SEND_SECONDS`."""
        with suppress(StreamClosedError):
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    while piece := await asyncio.to_thread(next, pieces, b""):
                        self.write(piece)
                        await self.flush()
            except TimeoutError:
                connection = self.request.connection
                assert isinstance(connection, HTTP1Connection)
                connection.stream.close()


def owner_of(user: User) -> Owner:
    """Whose runs a user sees. Raises `HubStarting`."""
    _, provisioner = running()
    return Owner(account_of(provisioner.accounts, user))


def _plain_size(packed: str) -> int:
    try:
        return plain_size(packed)
    except DocumentError as error:
        raise HTTPError(404, "the result of this run cannot be read") from error


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/ec2/runs", RunListHandler),
    (rf"/api/ec2/runs/{NUMBER}", RunHandler),
    (rf"/api/ec2/runs/{NUMBER}/result", RunResultHandler),
]
