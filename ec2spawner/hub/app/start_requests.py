"""Requests that start a server take turns, see `hub.app.event_loop.loop_turns`, and say why there
is no server where JupyterHub's own database cannot be written."""

from __future__ import annotations

from typing import Any

from jupyterhub.handlers.base import BaseHandler
from sqlalchemy.exc import DBAPIError
from tornado.web import HTTPError

from . import service
from .spawn_error import DATABASE_FAILS


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

    async def spawn_single_user(self, *arguments: Any, **options: Any) -> Any:
        """As JupyterHub does it; 503 if its database fails, as on a full disk."""
        try:
            return await super().spawn_single_user(*arguments, **options)
        except DBAPIError as error:
            self.db.rollback()
            self.log.error("JupyterHub cannot write to its database: %s", error.orig)
            raise HTTPError(503, DATABASE_FAILS) from error
