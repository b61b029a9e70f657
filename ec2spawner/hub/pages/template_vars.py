"""Variables of all templates of the hub, besides JupyterHub's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jupyterhub.app import JupyterHub
from jupyterhub.scopes import check_scope_filter
from jupyterhub.spawner import Spawner

from ..app import service


def allows_runs() -> bool:
    """Whether this hub allows runs, so that its pages link to them; False until that is known."""
    hub = service.current()
    return hub is not None and hub.options.runs.at_once > 0


def may_start(parsed_scopes: Mapping[str, Any], spawner: Spawner) -> bool:
    """Whether a reader with these scopes may start the server, as JupyterHub's spawn page asks."""
    found = parsed_scopes.get("servers")
    return found is not None and bool(check_scope_filter(found, spawner.orm_spawner, "server"))


VARS: Final = {
    "ec2_has_runs": lambda _user: allows_runs(),
    # On pages about a server, `user` is its owner: guests and admins read them, too.
    "ec2_viewer": lambda user: user,
    "ec2_may_start": lambda _user: may_start,
}
"""JupyterHub calls each with the reader."""


def define(app: JupyterHub) -> None:
    """Let all templates know these; the admin's own variables stay."""

    def add(_change: object = None) -> None:
        if not VARS.keys() <= app.template_vars.keys():
            app.template_vars = {**app.template_vars, **VARS}

    app.observe(add, names=["template_vars"])  # the configuration may set it later
    add()
