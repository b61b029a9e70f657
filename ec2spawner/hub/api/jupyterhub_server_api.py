"""Replaces JupyterHub's REST handlers that create, change, start and stop a server.

JupyterHub does not pass to a spawner's `stop` who requested it and how, which the server's user
should know. And JupyterHub refuses to stop a server that it is still checking after a hub start.
Starts take turns, see `hub.app.event_loop.loop_turns`. And JupyterHub stores what a server is
created or changed with for later starts, without a look at it.

A stop that JupyterHub requests saves the session where idle stops do, whoever asks for it: an
admin, JupyterHub's admin page, an idle culler, a logout that ends servers, a hub that ends with
them. `sleep` in the body of the call chooses; the deletion of a server begins no save.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.apihandlers.users import UserServerAPIHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.spawner import Spawner
from tornado.web import HTTPError

from ...core.profiles.choices import OptionsRefused
from ...provisioner.model.leases.lease import Lease
from ...provisioner.sleeping import CannotSleep
from ...wire import Stop
from ..app import service
from ..app.start_requests import TakesTurns
from ..app.user_account import account_of, lease_of
from ..security.instances_scope import note_start
from ..spawn.user_options import check_lasting
from .strict_body import StrictBody

CHANGED: Final[dict[str, type]] = {"name": str, "display_name": str, "user_options": dict}
"""Fields that a `PATCH` may change, and the types of their values."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks for a stop, and how."""

    kind: str = ""
    """`user` or `service`; empty where JupyterHub stops a server by itself."""
    name: str = ""
    sleep: bool | None = None
    """Whether the session is saved; None for what the idle policy says."""


SLEPT: Final = "You put it to sleep"
"""Why a server ended whose owner has let it sleep on a page of the hub."""

NOBODY: Final = Caller()

_caller: ContextVar[Caller] = ContextVar("caller", default=NOBODY)
"""Tasks that the request starts inherit it."""


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

        400 for what JupyterHub refuses, and for an invalid body (it takes any text as a true
        `remove`), before anything ends. 409 where `sleep` is true and nothing can be saved; only
        `sleep` false ends a save that is under way. No rate refuses to stop a running server: only
        calls that find none are counted.
        """
        if not self._can_stop(user_name, server_name):
            self.count_call(user_name)
        chosen, is_removed = self._wishes()
        self._refuse_early(server_name, is_removed=is_removed)
        if chosen and not is_removed:
            self._check_sleep(user_name, server_name)
        remember_caller(self, False if is_removed else chosen)
        spawner = self._under_check(user_name, server_name)
        if spawner is not None and not await spawner.start_check.cut_short(spawner):
            raise HTTPError(
                503,
                "The hub has had no answer from EC2 since it started, so it cannot stop the server "
                "now. Try again in a minute",
            )
        try:
            await self._end_move(user_name, server_name)
            if chosen is False:
                await self._cut_sleep_short(user_name, server_name)
            await super().delete(user_name, server_name)
        except Exception:
            self._resume_check(spawner)
            raise

    def _wishes(self) -> tuple[bool | None, bool]:
        """`sleep` and `remove` of the body. Raises `HTTPError`."""
        body = self.get_json_body() or {}
        chosen, is_removed = body.get("sleep"), body.get("remove", False)
        if not isinstance(chosen, bool | None):
            raise HTTPError(400, "sleep: must be true or false")
        if not isinstance(is_removed, bool):
            raise HTTPError(400, "remove: must be true or false")
        return chosen, is_removed

    def _refuse_early(self, server_name: str, *, is_removed: bool) -> None:
        """Raises what JupyterHub's own handler does, which would find a save already cut short."""
        if server_name and not self.allow_named_servers:
            raise HTTPError(400, "Named servers are not enabled.")
        if is_removed and not server_name:
            raise HTTPError(400, "Cannot delete the default server")

    def _check_sleep(self, user_name: str, server_name: str) -> None:
        """Raises `HTTPError` (409) for a server whose session cannot be saved now."""
        provisioner, user = service.current_provisioner(), self.find_user(user_name)
        if provisioner is not None and user is not None:
            lease = lease_of(provisioner, user, server_name)
            try:
                provisioner.sleeping.check(lease.lease_id if lease else "")
            except CannotSleep as error:
                raise HTTPError(409, str(error)) from error

    async def _end_move(self, user_name: str, server_name: str) -> None:
        """A server that is moving does not start again after this stop."""
        provisioner = service.current_provisioner()
        user = self.find_user(user_name)
        if provisioner is not None and user is not None:
            account = account_of(provisioner.accounts, user)
            await provisioner.moves.give_up(account, server_name, stop_for(user_name))

    async def _cut_sleep_short(self, user_name: str, server_name: str) -> None:
        """A stop that is under way saves no variables any further."""
        provisioner, user = service.current_provisioner(), self.find_user(user_name)
        if provisioner is not None and user is not None:
            account = account_of(provisioner.accounts, user)
            await provisioner.sleeping.cut_short(account, server_name)

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


def remember_caller(handler: APIHandler, sleep: bool | None) -> None:
    """Have what stops servers in this request know who asks for it, and how."""
    caller = handler.current_user
    _caller.set(Caller(getattr(caller, "kind", ""), getattr(caller, "name", ""), sleep))


def is_asked_for() -> bool:
    """Whether somebody has asked for the stop that is in progress."""
    return bool(_caller.get().kind)


def is_asked_by(owner: str) -> bool:
    """Whether the owner of a server has asked for the stop that is in progress."""
    caller = _caller.get()
    return (caller.kind, caller.name) == ("user", owner)


def stop_for(owner: str, lease: Lease | None = None) -> Stop:
    """The stop that JupyterHub requests, worded for the owner of the server, which runs as this
    lease, if it runs."""
    caller = _caller.get()
    by_policy = lease is not None and lease.idle.then == "sleep"
    sleeps = by_policy if caller.sleep is None else caller.sleep
    stop = _stop_by(caller, owner)
    return stop.model_copy(update={"sleep": "user"}) if sleeps else stop


def _stop_by(caller: Caller, owner: str) -> Stop:
    name = caller.name
    if caller.kind == "service":
        return Stop(reason="hub", message=f"The service {name} asked for it", by=name)
    if caller.kind == "user" and name != owner:
        message = f"{name} asked for it, with an admin's rights"
        return Stop(reason="admin", message=message, by=name)
    return Stop(reason="user", message=SLEPT if caller.sleep else "It was stopped from the hub")
