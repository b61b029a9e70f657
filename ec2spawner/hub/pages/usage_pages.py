"""The pages about money: a user's own usage, and the instances of all users for admins.

A page is a frame; its script reads the figures from the API and refreshes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyterhub.handlers.base import BaseHandler
from tornado.web import HTTPError, authenticated

from ...config.entries.warm_pool import MAX_RUNNING
from ...wire import MAX_MESSAGE_LENGTH
from ..app import service
from ..security.instances_scope import SCOPE, has_scope
from .display_names import Names, display_names


def names_of(handler: BaseHandler, user: str = "") -> Names:
    """Return the names of this user's servers, or of all."""
    hub = service.current()
    return display_names(handler.db, hub.options if hub else None, user)


class UsagePage(BaseHandler):
    """What a user has used and spent."""

    @authenticated
    async def get(self) -> None:
        """`GET /hub/ec2/usage`."""
        names = names_of(self, self.current_user.name)
        self.finish(await self.render_template("ec2spawner/usage/usage.html", names=names))


class InstancesPage(BaseHandler):
    """What all users run and spend."""

    @authenticated
    async def get(self) -> None:
        """`GET /hub/ec2/instances`: 403 without the scope."""
        if not has_scope(self):
            raise HTTPError(403, f"You need the scope {SCOPE} to see the servers of all users.")
        html = await self.render_template(
            "ec2spawner/usage/instances.html",
            may_stop="delete:servers" in self.parsed_scopes,
            max_message_length=MAX_MESSAGE_LENGTH,
            max_pool=MAX_RUNNING,
            names=names_of(self),
        )
        self.finish(html)


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/ec2/usage", UsagePage),
    (r"/ec2/instances", InstancesPage),
]
