"""Requests that start a server take turns, see `hub.app.event_loop.loop_turns`, and say why there
is no server where JupyterHub's own database cannot be written."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any, Final

from jupyterhub.handlers.base import BaseHandler
from jupyterhub.slugs import is_valid_safe_slug
from jupyterhub.user import User
from sqlalchemy.exc import DBAPIError
from tornado.web import HTTPError

from ...core.fair_share import share
from ...core.text.durations import in_words
from ..security.instances_scope import has_scope
from . import service
from .spawn_error import DATABASE_FAILS
from .user_account import account_of
from .user_rename import STILL_STARTED, follow_name

TOO_MANY_STARTS: Final = "You have started servers too often lately"

CANCELLED: Final = "The start of this server was cancelled. Start it again when you need it"

NAMES: Final = (
    "it begins with a lower-case letter, and has lower-case letters, digits and single hyphens "
    "between them, 30 at most. Its display name may be any"
)

PENDING_SECONDS: Final = 30.0
"""When to try again, for a user whose servers are starting."""


class TakesTurns(BaseHandler):
    """A handler whose `POST` starts a server.

    It takes its turn before the user is identified, so that nothing is awaited between JupyterHub's
    check that the server does not run and its mark that the server is being started. Who sends
    neither a cookie nor a token starts nothing, and takes no turn of those who do.
    """

    async def prepare(self) -> None:
        """Wait for the turn of a `POST`, then identify the user."""
        running = service.current()
        headers = self.request.headers
        may_start = "Cookie" in headers or "Authorization" in headers
        if running is not None and self.request.method == "POST" and may_start:
            await running.start_turns.take()
        await super().prepare()

    def count_call(self, user_name: str) -> None:
        """Count a call that starts or stops a server of this user, and that its sender may make.
        Raises `HTTPError` (429) where there are too many.

        It counts as that user's, so that a teacher can start and stop the servers of a class.
        """
        running, user, now = service.current(), self.find_user(user_name), time.monotonic()
        if running is None or user is None or has_scope(self):
            return
        limit, account = running.limits.server_calls, account_of(running.accounts, user)
        if not limit.take(account, now):
            seconds = limit.wait_seconds(account, now)
            words = f"Servers of {user_name} are started and stopped too often: try again soon"
            raise too_many(words, seconds)

    async def _check_named_server_request(
        self, user: User, server_name: str, *arguments: Any, **options: Any
    ) -> None:
        """As JupyterHub does it, which names no reason for a refused name."""
        is_new = server_name not in user.orm_spawners
        if self.allow_named_servers and is_new and not is_valid_safe_slug(server_name):
            raise HTTPError(400, f"{server_name[:60]!r} cannot be the name of a server: {NAMES}")
        await super()._check_named_server_request(user, server_name, *arguments, **options)

    async def spawn_single_user(self, user: User, *arguments: Any, **options: Any) -> Any:
        """As JupyterHub does it; 409 if the start is cancelled, 429 if the user starts too many
        servers, 503 if JupyterHub's database fails, as on a full disk."""
        self._require_place(user)
        if not follow_name(user):
            raise HTTPError(409, STILL_STARTED)
        try:
            return await super().spawn_single_user(user, *arguments, **options)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # this request is cancelled, not the start
            if self._finished:
                return None  # the browser is on the page of the start by now, which reports it
            raise HTTPError(409, CANCELLED) from error
        except DBAPIError as error:
            self.db.rollback()
            self.log.error("JupyterHub cannot write to its database: %s", error.orig)
            raise HTTPError(503, DATABASE_FAILS) from error

    def _require_place(self, user: User) -> None:
        """Raises `HTTPError` (429) for a user with too many starts, lately or in progress: with
        servers of many names, one could have all that JupyterHub allows at the same time.

        Admins, and services with their scope, start servers for others.
        """
        running, now = service.current(), time.monotonic()
        if running is None or has_scope(self):
            return
        at_once: int = self.concurrent_spawn_limit
        if at_once:
            own = sum(each.pending == "spawn" for each in user.spawners.values())
            in_all: int = self.users.count_active_users()["spawn_pending"]
            if own and own >= share(at_once, in_all - own):
                words = f"{own} of your servers are starting: wait until one has started"
                raise too_many(words, PENDING_SECONDS)
        limit, account = running.limits.user_starts, account_of(running.accounts, user)
        if not limit.take(account, now):
            seconds = limit.wait_seconds(account, now)
            raise too_many(f"{TOO_MANY_STARTS}: try again in {in_words(seconds)}", seconds)


def too_many(message: str, seconds: float) -> HTTPError:
    """429 with when to try again; JupyterHub adds these headers."""
    error = HTTPError(429, message)
    error.headers = {"Retry-After": str(math.ceil(max(seconds, 1)))}  # type: ignore[attr-defined]
    return error
