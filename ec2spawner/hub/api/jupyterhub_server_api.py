"""Replaces JupyterHub's REST handlers that create, change, start and stop a server.

JupyterHub does not pass to a spawner's `stop` who requested it, which the server's user should
know. And JupyterHub refuses to stop a server that it is still checking after a hub start. Starts
take turns, see `hub.app.event_loop.loop_turns`. And JupyterHub stores what a server is created or
changed with for later starts, without a look at it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from jupyterhub.apihandlers.users import UserServerAPIHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.spawner import Spawner
from tornado.web import HTTPError

from ...core.profiles.choices import OptionsRefused
from ...wire import Stop
from ..app import service
from ..app.start_requests import TakesTurns
from ..app.user_account import account_of
from ..security.instances_scope import note_start
from ..spawn.user_options import check_lasting
from .strict_body import StrictBody

CHANGED: Final[dict[str, type]] = {"name": str, "display_name": str, "user_options": dict}
"""What a `PATCH` may change, and the types of its values."""

_caller: ContextVar[tuple[str, str]] = ContextVar("caller", default=("", ""))
"""(kind, name) of the caller; tasks that the request starts inherit it."""


class ServerHandler(TakesTurns, UserServerAPIHandler, StrictBody):
    """A server in the REST API."""

    @needs_scope("start:servers")
    async def post(self, user_name: str, server_name: str = "") -> None:
        """Start; 400 while the server is under check after a hub start, 429 for too many calls."""
        self.count_call(user_name)
        if self._under_check(user_name, server_name) is not None:
            raise HTTPError(
                400,
                "The hub was restarted and is checking whether this server still runs. Wait until "
                "that is done, or stop the server first",
            )
        note_start(self)
        await super().post(user_name, server_name)

    @needs_scope("start:servers")
    async def put(self, user_name: str, server_name: str = "") -> None:
        """Create a named server; 400 for options that its start would refuse."""
        self.count_call(user_name)
        await self._check_options(user_name, "", self.get_server_json_body()["user_options"])
        await super().put(user_name, server_name)

    @needs_scope("start:servers")
    async def patch(self, user_name: str, server_name: str = "") -> None:
        """Change a stopped server; 400 for options that its start would refuse."""
        self.count_call(user_name)
        body = self.get_json_body()
        if not body or body.keys() - CHANGED.keys():
            raise HTTPError(400, f"send an object with one or more of {', '.join(CHANGED)}")
        for name, value in body.items():
            if not isinstance(value, CHANGED[name]):
                kind = "a text" if CHANGED[name] is str else "an object"
                raise HTTPError(400, f"{name}: must be {kind}")
        await self._check_options(user_name, server_name, body.get("user_options"))
        await super().patch(user_name, server_name)

    async def _check_options(
        self, user_name: str, server_name: str, user_options: dict[str, Any] | None
    ) -> None:
        """Raises `HTTPError` (400) for options that are to be stored, and `SpawnError`.

        JupyterHub stores them unseen, for every later start that sends none.
        """
        user = self.find_user(user_name)
        if not user_options or user is None or server_name not in user.orm_spawners:
            return
        try:
            await check_lasting(user.spawners[server_name], user_options)
        except OptionsRefused as error:
            raise HTTPError(400, str(error)) from error

    @needs_scope("delete:servers")
    async def delete(self, user_name: str, server_name: str = "") -> None:
        """Stop, remembering the caller; first ends a check, and is 503 if EC2 does not answer.

        400 for an invalid body, before anything ends: JupyterHub takes any text as a true `remove`.
        No rate refuses to stop a running server: only calls that find none are counted.
        """
        if not self._can_stop(user_name, server_name):
            self.count_call(user_name)
        if not isinstance((self.get_json_body() or {}).get("remove", False), bool):
            raise HTTPError(400, "remove: must be true or false")
        caller = self.current_user
        _caller.set((getattr(caller, "kind", ""), getattr(caller, "name", "")))
        await self._end_move(user_name, server_name)
        spawner = self._under_check(user_name, server_name)
        if spawner is not None and not await spawner.start_check.cut_short(spawner):
            raise HTTPError(
                503,
                "The hub has had no answer from EC2 since it started, so it cannot stop the server "
                "now. Try again in a minute",
            )
        try:
            await super().delete(user_name, server_name)
        except Exception:
            self._resume_check(spawner)
            raise

    async def _end_move(self, user_name: str, server_name: str) -> None:
        """A server that is moving does not start again after this stop."""
        provisioner = service.current_provisioner()
        user = self.find_user(user_name)
        if provisioner is not None and user is not None:
            account = account_of(provisioner.accounts, user)
            await provisioner.moves.give_up(account, server_name, stop_for(user_name))

    def _resume_check(self, spawner: Spawner | None) -> None:
        provisioner = service.current_provisioner()
        if spawner is not None and provisioner is not None:
            spawner.start_check.resume(spawner, provisioner)

    def _can_stop(self, user_name: str, server_name: str) -> bool:
        user = self.find_user(user_name)
        if user is None or server_name not in user.spawners:
            return False
        spawner = user.spawners[server_name]
        return bool(spawner.active and spawner.pending != "stop")

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
"""Take precedence over JupyterHub's own handlers of these paths."""


def is_asked_by(owner: str) -> bool:
    """Whether the owner of a server has asked for the stop that is in progress."""
    return _caller.get() == ("user", owner)


def stop_for(owner: str) -> Stop:
    """The stop of a running server that JupyterHub requests, worded for its owner."""
    kind, name = _caller.get()
    if kind == "service":
        return Stop(reason="hub", message=f"The service {name} asked for it", by=name)
    if kind == "user" and name != owner:
        message = f"{name} asked for it, with an admin's rights"
        return Stop(reason="admin", message=message, by=name)
    return Stop(reason="user", message="It was stopped from the hub")
