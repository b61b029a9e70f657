"""The scope of the pages about all users."""

from __future__ import annotations

import pytest
from jupyterhub import roles
from jupyterhub.app import JupyterHub

from ec2spawner.hub.security.instances_scope import SCOPE, define


def test_a_second_hub_of_the_process_gives_admins_the_scope_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roles, "get_default_roles", roles.get_default_roles)
    for _ in range(2):
        app = JupyterHub()
        define(app)
        assert SCOPE in app.custom_scopes
    granted = {role["name"]: role["scopes"].count(SCOPE) for role in roles.get_default_roles()}
    assert granted.pop("admin") == 1
    assert set(granted.values()) == {0}


def test_scopes_of_the_hubs_configuration_are_added_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """JupyterHub may load them after the spawner class."""
    monkeypatch.setattr(roles, "get_default_roles", roles.get_default_roles)
    app, own = JupyterHub(), {"custom:grades:read": {"description": "Read grades"}}
    define(app)
    app.custom_scopes = own
    assert set(app.custom_scopes) == {SCOPE, *own}
