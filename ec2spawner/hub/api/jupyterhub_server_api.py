"""JupyterHub's call to start or stop a server, where ours differs.

A spawner's `stop` is not told who asked, which the server's user should know. And JupyterHub
refuses to stop a server that it is still checking after its start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from jupyterhub.apihandlers.users import UserServerAPIHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.spawner import Spawner
from tornado.web import HTTPError

from ...wire import Stop
from ..app import service

_caller: ContextVar[tuple[str, str]] = ContextVar("caller", default=("", ""))
"""(kind, name) of whoever asked; a task that the request begins inherits it."""


class ServerHandler(UserServerAPIHandler):
    """Start and stop of a server in the REST API."""

    @needs_scope("start:servers")
    async def post(self, user_name: str, server_name: str = "") -> None:
        """Start; 400 while the server is under check after a hub start."""
        if self._under_check(user_name, server_name) is not None:
            raise HTTPError(
                400,
                "The hub was restarted and checks whether this server still runs. Wait for that, "
                "or stop the server first",
            )
        await super().post(user_name, server_name)

    @needs_scope("delete:servers")
    async def delete(self, user_name: str, server_name: str = "") -> None:
        """Stop, remembering the caller; first ends a check, and is 503 if EC2 does not answer."""
        caller = self.current_user
        _caller.set((getattr(caller, "kind", ""), getattr(caller, "name", "")))
        spawner = self._under_check(user_name, server_name)
        if spawner is not None and not await spawner.start_check.cut_short(spawner):
            raise HTTPError(
                503,
                "EC2 has not answered the hub since the hub's start, so the server cannot be "
                "stopped now. Try again in a minute",
            )
        try:
            await super().delete(user_name, server_name)
        except Exception:
            self._resume_check(spawner)
            raise

    def _resume_check(self, spawner: Spawner | None) -> None:
        running = service.current()
        if spawner is not None and running is not None and running.provisioner is not None:
            spawner.start_check.resume(spawner, running.provisioner)

    def _under_check(self, user_name: str, server_name: str) -> Spawner | None:
        """The server's spawner while JupyterHub checks it after a hub start."""
        user = self.find_user(user_name)
        if user is None or server_name not in user.spawners:
            return None
        spawner: Spawner = user.spawners[server_name]
        return spawner if spawner._check_pending else None


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/users/([^/]+)/server", ServerHandler),
    (r"/api/users/([^/]+)/servers/([^/]*)", ServerHandler),
]
"""In the place of JupyterHub's own of these addresses."""


def stop_for(owner: str) -> Stop:
    """The stop of a running server that JupyterHub asks for, in words for its owner."""
    kind, name = _caller.get()
    if kind == "service":
        return Stop(reason="hub", message=f"The service {name} asked for it", by=name)
    if kind == "user" and name != owner:
        message = f"{name} asked for it, with an admin's rights"
        return Stop(reason="admin", message=message, by=name)
    return Stop(reason="user", message="It was stopped from the hub")
