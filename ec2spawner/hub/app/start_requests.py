"""Requests that start a server take turns, see `hub.app.loop_turns`."""

from __future__ import annotations

from jupyterhub.handlers.base import BaseHandler

from . import service


class TakesTurns(BaseHandler):
    """A handler whose `POST` starts a server.

    It takes its turn before the user is identified, so that nothing is awaited between JupyterHub's
    check that the server does not run and its mark that the server is being started.
    """

    async def prepare(self) -> None:
        """Wait for the turn of a `POST`, then identify the user."""
        running = service.current()
        if running is not None and self.request.method == "POST":
            await running.start_turns.take()
        await super().prepare()
