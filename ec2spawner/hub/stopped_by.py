"""Who asked JupyterHub to stop a server: a spawner's `stop` is not told, and its user should be.

JupyterHub's own handler of that call does the work; this one remembers who called.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from jupyterhub.apihandlers.users import UserServerAPIHandler

from ..wire import Stop

_caller: ContextVar[tuple[str, str]] = ContextVar("caller", default=("", ""))
"""(kind, name) of whoever asked; a task that the request begins inherits it."""


class ServerHandler(UserServerAPIHandler):
    """Start and stop of a server in the REST API."""

    async def delete(self, user_name: str, server_name: str = "") -> None:
        caller = self.current_user
        _caller.set((getattr(caller, "kind", ""), getattr(caller, "name", "")))
        await super().delete(user_name, server_name)


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/users/([^/]+)/server", ServerHandler),
    (r"/api/users/([^/]+)/servers/([^/]*)", ServerHandler),
]
"""In the place of JupyterHub's own of these addresses."""


def stop_for(owner: str) -> Stop:
    """The stop of a running server that JupyterHub asks for, in words for its owner."""
    kind, name = _caller.get()
    if kind == "service":
        return Stop(reason="hub", message=f"The service {name} asked for it")
    if kind == "user" and name != owner:
        return Stop(reason="admin", message=f"{name} asked for it, with an admin's rights")
    return Stop(reason="user", message="It was stopped from the hub")
