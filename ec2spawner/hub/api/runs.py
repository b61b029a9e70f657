"""Runs for users and their programs: submit, show, cancel, read results."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.user import User
from pydantic import AwareDatetime, ValidationError
from tornado.http1connection import HTTP1Connection
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError

from ...core.concurrency_limit import TooManyAtOnce
from ...core.profiles.choices import OptionsRefused
from ...core.rate_limit import RateLimit
from ...core.runs.documents import DocumentError, unpack
from ...provisioner.runs.runs import NoSuchRun, Owner, TooManyRuns
from ...provisioner.store.store import StoreError
from ...wire import RunSubmission, RunSummary
from ...wire.runs import (
    MAX_RUN_BODY_BYTES,
    MAX_SHOWN_RUNS,
    MAX_VALUES,
    has_too_many_values,
)
from ..app.user_account import account_of
from ..runs.submission import CannotRun, submit
from ..spawn.server_options import ProfileListError
from .user_call import OWN_SCOPE, Model, named, running, store_failed

SUBMIT_SCOPE = "servers"
"""Required to submit and cancel: a run is a start of a server. A user's login and own tokens have
it; the token of a server, which everyone with access to that server can read, does not."""

PIECE_BYTES = 256 * 1024
"""Of a result that are queued for a client at a time."""

SEND_SECONDS = 300.0
"""For a whole result. One of 64 MiB, the largest, then needs 1.8 Mbit/s."""

BUSY_SECONDS = 5.0
"""When to try again, for a user who reads as many results as may be read at a time."""

NUMBER = r"([0-9]{1,9})"


class RunsModel(Model):
    """Runs of one user."""

    now: AwareDatetime
    runs: tuple[RunSummary, ...]


class TooManyCalls(HTTPError):
    """429 with when to try again."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(429, message)
        self.headers = {"Retry-After": str(math.ceil(max(seconds, 1)))}


class RunsApiHandler(APIHandler):
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

    def check_rate(self, limit: RateLimit, user: User, message: str) -> None:
        """Raises `TooManyCalls` with this message for a user who calls too fast."""
        now = time.monotonic()
        if not limit.take(user.id, now):
            raise TooManyCalls(message, limit.wait_seconds(user.id, now))

    def send(self, now: datetime, runs: list[RunSummary], status: int = 200) -> None:
        """Answer these runs."""
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(RunsModel(now=now, runs=tuple(runs)).model_dump_json())


class RunListHandler(RunsApiHandler):
    """`/api/ec2/runs`."""

    async def get(self) -> None:
        """The caller's runs, the newest first; with `user=` those of another."""
        owner, (_, provisioner) = self.whose(OWN_SCOPE), running()
        self.send(provisioner.now(), provisioner.runs.of_user(owner, MAX_SHOWN_RUNS))

    async def post(self) -> None:
        """Submit; 201 with the runs that were made, 400 with the field that is wrong, 429 while too
        many wait or run."""
        user, (service, provisioner) = self.owner(SUBMIT_SCOPE), running()
        hint = "too many submissions: send several parameters as one array"
        self.check_rate(service.run_submissions, user, hint)
        submission = self.submission()
        try:
            spawner, owner = user.spawners[""], owner_of(user)
            added = await submit(service, provisioner, spawner, owner, submission)
        except (CannotRun, OptionsRefused) as error:
            raise HTTPError(400, str(error)) from error
        except TooManyRuns as error:
            raise HTTPError(429, str(error)) from error
        except ProfileListError as error:
            raise HTTPError(503, str(error)) from error
        except StoreError as error:
            raise store_failed(self, error) from error
        self.send(provisioner.now(), added, status=201)

    def submission(self) -> RunSubmission:
        """The body. Raises `HTTPError` (400) that names the fields."""
        if len(self.request.body) > MAX_RUN_BODY_BYTES:
            raise HTTPError(413, f"a submission may have {MAX_RUN_BODY_BYTES} bytes")
        if has_too_many_values(self.request.body):
            raise HTTPError(400, f"parameters: have more than {MAX_VALUES} values together")
        try:
            return RunSubmission.model_validate_json(self.request.body)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}"
                for each in error.errors(include_input=False, include_url=False)[:5]
            )
            raise HTTPError(400, problems) from error


class RunHandler(RunsApiHandler):
    """`/api/ec2/runs/{number}`."""

    async def get(self, number: str) -> None:
        """The run; with `?array` all of its array."""
        owner, (_, provisioner) = self.whose(OWN_SCOPE), running()
        runs = provisioner.runs
        try:
            if self.is_for_array():
                found = runs.array(owner, int(number))
            else:
                found = [runs.one(owner, int(number))]
        except NoSuchRun as error:
            raise HTTPError(404, str(error)) from error
        self.send(provisioner.now(), found)

    async def delete(self, number: str) -> None:
        """Cancel it; with `?array` all of its array."""
        owner, (_, provisioner) = self.whose(SUBMIT_SCOPE), running()
        caller = self.current_user
        is_own = isinstance(caller, User) and owner_of(caller) == owner
        words = "You cancelled it" if is_own else f"{caller.name} cancelled it"
        try:
            found = await provisioner.runs.cancel(
                owner, int(number), words, all_of_array=self.is_for_array()
            )
        except NoSuchRun as error:
            raise HTTPError(404, str(error)) from error
        except StoreError as error:
            raise store_failed(self, error, "cancelled, but not stored yet") from error
        self.send(provisioner.now(), found)

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
            with service.run_results_at_once.hold(user.id):
                run, plain = await self.result_of(user, int(number))
                self.set_file_headers(run, len(plain))
                await self.send_file(plain)
        except TooManyAtOnce as error:
            hint = "you are reading other results: try again when they are complete"
            raise TooManyCalls(hint, BUSY_SECONDS) from error

    async def result_of(self, user: User, number: int) -> tuple[RunSummary, bytes]:
        """The run, and its result unpacked. Raises `HTTPError` with 404, 429 or 503."""
        owner, (service, provisioner) = owner_of(user), running()
        try:
            run = provisioner.runs.one(owner, number)
            self.check_rate(service.run_results, user, "too many results at once: try again soon")
            packed = await provisioner.runs.result(owner, number)
        except NoSuchRun as error:
            raise HTTPError(404, str(error)) from error
        except StoreError as error:
            raise store_failed(self, error) from error
        if not packed:
            raise HTTPError(404, "there is no result of this run yet")
        return run, await asyncio.to_thread(_unpacked, packed)

    def set_file_headers(self, run: RunSummary, size: int) -> None:
        """Describe the file, which has `size` bytes."""
        stem, _, suffix = run.path.rpartition("/")[2].rpartition(".")
        is_notebook = suffix == "ipynb"
        name = f"{stem}-{run.number}.{'ipynb' if is_notebook else 'log'}"
        # Never shown in the hub's origin: what a run has written may contain scripts.
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{quote(name)}")
        self.set_header("Content-Length", size)

    async def send_file(self, plain: bytes) -> None:
        """Send as fast as the client reads, and drop a client that takes longer than
        `SEND_SECONDS`."""
        with suppress(StreamClosedError):
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    for begin in range(0, len(plain), PIECE_BYTES):
                        self.write(plain[begin : begin + PIECE_BYTES])
                        await self.flush()
                        # What the socket takes at once is flushed without a turn for others.
                        await asyncio.sleep(0)
            except TimeoutError:
                connection = self.request.connection
                assert isinstance(connection, HTTP1Connection)
                connection.stream.close()


def owner_of(user: User) -> Owner:
    """Whose runs a user sees. Raises `HubStarting`."""
    _, provisioner = running()
    return Owner(account_of(provisioner.accounts, user))


def _unpacked(packed: str) -> bytes:
    try:
        return unpack(packed)
    except DocumentError as error:
        raise HTTPError(404, "the result of this run cannot be read") from error


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/ec2/runs", RunListHandler),
    (rf"/api/ec2/runs/{NUMBER}", RunHandler),
    (rf"/api/ec2/runs/{NUMBER}/result", RunResultHandler),
]
