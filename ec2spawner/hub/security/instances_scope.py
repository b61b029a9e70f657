"""JupyterHub's permission to see and manage the servers of all users."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

from jupyterhub import roles
from jupyterhub.app import JupyterHub
from jupyterhub.handlers.base import BaseHandler

SCOPE: Final = "custom:ec2spawner:instances"
"""Granted by a role: it shows every user's servers and costs, keeps servers, sends messages and
sets the size of the warm pool, which spends money within its caps and the hub's limits. Stopping a
server needs JupyterHub's own `delete:servers`, as everywhere."""

DEFINITION: Final = {
    "description": (
        "See what all users run and spend, keep their servers, send them messages, and set how "
        "many instances the warm pool keeps running"
    )
}

_start_has_scope: ContextVar[bool] = ContextVar("start_has_scope", default=False)
"""Whether the request that starts a server has the scope; tasks that it starts inherit it."""

_default_roles: Final = roles.get_default_roles
"""JupyterHub's own function: calling `define` twice adds the scope once."""


def define(app: JupyterHub) -> None:
    """Let roles grant the scope, and give it to JupyterHub's own role `admin`.

    An `admin` role of the hub's configuration stays as it is written there. Its scopes may be set
    after this call: ours is added to them.
    """

    def add(_change: object = None) -> None:
        if SCOPE not in app.custom_scopes:
            app.custom_scopes = {SCOPE: DEFINITION, **app.custom_scopes}

    app.observe(add, names=["custom_scopes"])
    add()
    roles.get_default_roles = _default_roles_with_scope


def _default_roles_with_scope() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _default_roles()
    for role in found:
        if role["name"] == "admin":
            role["scopes"].append(SCOPE)
    return found


def note_start(handler: BaseHandler) -> None:
    """Let this request's start do what needs the scope, if its sender has it."""
    _start_has_scope.set(has_scope(handler))


def start_has_scope() -> bool:
    """Whether the start in progress was requested over the REST API by somebody with the scope."""
    return _start_has_scope.get()


def has_scope(handler: BaseHandler) -> bool:
    """Whether the sender of this request, by cookie or token, has the scope."""
    return SCOPE in handler.expanded_scopes
