"""The page of one's runs. A frame; its script reads them from the API and refreshes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyterhub.handlers.base import BaseHandler
from tornado.web import authenticated

from ...provisioner.runs.runs import Owner
from ...wire.runs import MAX_SHOWN_RUNS
from ..app import service
from ..app.user_account import account_of
from .display_names import display_names
from .template_vars import allows_runs


class RunsPage(BaseHandler):
    """What a user has had run."""

    @authenticated
    async def get(self) -> None:
        """`GET /hub/ec2/runs`."""
        hub = service.current()
        html = await self.render_template(
            "ec2spawner/runs/runs.html",
            # While the hub starts, the API answers why there are none yet.
            has_runs=hub is None or allows_runs() or self._has_some(),
            contact=hub.options.contact if hub else "",
            max_shown=MAX_SHOWN_RUNS,
            names=display_names(self.db, hub.options if hub else None, self.current_user.name),
        )
        self.finish(html)

    def _has_some(self) -> bool:
        """Also where the hub allows none any more: what runs can be cancelled."""
        provisioner, user = service.current_provisioner(), self.current_user
        if provisioner is None:
            return False
        owner = Owner(account_of(provisioner.accounts, user))
        return bool(provisioner.runs.of_user(owner, limit=1))


handlers: list[tuple[str, Callable[..., Any]]] = [(r"/ec2/runs", RunsPage)]
