"""The page of one's runs. A frame; its script reads them from the API and refreshes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyterhub.app import JupyterHub
from jupyterhub.handlers.base import BaseHandler
from tornado.web import authenticated

from ...provisioner.runs.runs import Owner
from ...wire.runs import MAX_SHOWN_RUNS
from ..app import service
from ..app.user_account import account_of
from .display_names import display_names

HAS_RUNS = "ec2_has_runs"
"""Of all templates: whether this hub allows runs, so that its pages link to them."""


class RunsPage(BaseHandler):
    """What a user has had run."""

    @authenticated
    async def get(self) -> None:
        """`GET /hub/ec2/runs`."""
        hub = service.current()
        html = await self.render_template(
            "ec2spawner/runs/runs.html",
            # While the hub starts, the API answers why there are none yet.
            has_runs=hub is None or _allows_runs() or self._has_some(),
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


def define(app: JupyterHub) -> None:
    """Let all templates know whether there are runs; the admin's own variables stay."""

    def add(_change: object = None) -> None:
        if HAS_RUNS not in app.template_vars:
            app.template_vars = {**app.template_vars, HAS_RUNS: lambda _user: _allows_runs()}

    app.observe(add, names=["template_vars"])  # the configuration may set it later
    add()


def _allows_runs() -> bool:
    """False until the options are known."""
    hub = service.current()
    return hub is not None and hub.options.runs.at_once > 0


handlers: list[tuple[str, Callable[..., Any]]] = [(r"/ec2/runs", RunsPage)]
