"""JupyterHub's spawn page; the forms that it sends take turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyterhub.handlers.pages import SpawnHandler

from ..app.start_requests import TakesTurns


class StartPage(TakesTurns, SpawnHandler):
    """`GET` shows the form, `POST` starts the server."""


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/spawn", StartPage),
    (r"/spawn/([^/]+)", StartPage),
    (r"/spawn/([^/]+)/([^/]+)", StartPage),
]
"""Take precedence over JupyterHub's own handlers of these paths."""
