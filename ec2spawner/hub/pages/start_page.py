"""JupyterHub's spawn page; the forms that it sends take turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyterhub.handlers.pages import SpawnHandler
from jupyterhub.scopes import needs_scope

from ..app.start_requests import TakesTurns


class StartPage(TakesTurns, SpawnHandler):
    """`GET` shows the form, `POST` starts the server."""

    @needs_scope("servers")
    async def _post(self, user_name: str, server_name: str, display_name: str) -> None:
        """As JupyterHub does it; 429 for too many calls."""
        self.count_call(user_name)
        await super()._post(user_name, server_name, display_name)


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/spawn", StartPage),
    (r"/spawn/([^/]+)", StartPage),
    (r"/spawn/([^/]+)/([^/]+)", StartPage),
]
"""Take precedence over JupyterHub's own handlers of these paths."""
