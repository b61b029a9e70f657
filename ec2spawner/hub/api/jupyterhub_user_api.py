"""Replaces JupyterHub's REST handler that creates, renames and deletes a user.

JupyterHub lets a running server keep the old name of a renamed user, takes the name from a user who
is "renamed" to it, and begins to delete a user whom it then cannot delete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyterhub.apihandlers.users import UserAPIHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.user import User
from tornado.web import HTTPError

from ..app import user_rename
from ..app.user_names import why_not
from .jupyterhub_server_api import remember_caller
from .strict_body import StrictBody
from .user_call import running


class UserHandler(UserAPIHandler, StrictBody):
    """A user in the REST API."""

    def get_json_body(self) -> dict[str, Any] | None:
        """The body, without a name that the user already has."""
        body = super().get_json_body()
        if body and [body.get("name")] == self.path_args:
            del body["name"]
        return body

    @needs_scope("admin:users")
    async def post(self, user_name: str) -> None:
        """As JupyterHub does it, which names no reason for a refused name."""
        if reason := why_not(user_name):
            raise HTTPError(400, reason)
        await super().post(user_name)

    @needs_scope("admin:users")
    async def patch(self, user_name: str) -> None:
        """As JupyterHub does it; 409 for another name while servers run."""
        user, body = self.find_user(user_name), self.get_json_body()
        is_rename = user is not None and body is not None and "name" in body
        if is_rename:
            _, provisioner = running()
            if reason := user_rename.why_not(provisioner, user):
                raise HTTPError(409, reason)
        await super().patch(user_name)
        if is_rename:
            user_rename.follow_name(user)

    @needs_scope("delete:users")
    async def delete(self, user_name: str) -> None:
        """As JupyterHub does it, which stops the default server, without saving its session; 409
        while others run or start."""
        if self.get_json_body():
            raise HTTPError(400, "this call takes no body")
        user = self.find_user(user_name)
        if user is not None and (servers := _not_stopped(user)):
            raise HTTPError(
                409, f"{user_name} cannot be deleted while servers run. Stop first: {servers}"
            )
        remember_caller(self, sleep=False)
        await super().delete(user_name)


def _not_stopped(user: User) -> str:
    """The names of the servers that JupyterHub does not stop before it deletes their user."""
    return ", ".join(
        spawner.display_name or name or "the default server"
        for name, spawner in sorted(user.spawners.items())
        if spawner.active and (name or spawner.pending in {"spawn", "check"})
    )


handlers: list[tuple[str, Callable[..., Any]]] = [(r"/api/users/([^/]+)", UserHandler)]
"""Takes precedence over JupyterHub's own handler of this path."""
