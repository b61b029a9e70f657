"""Requests that start a server take turns, see `hub.app.event_loop.loop_turns`."""

from __future__ import annotations

from jupyterhub.handlers.base import BaseHandler

from . import service


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
