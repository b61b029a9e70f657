"""JupyterHub's update of activity asks its database for no route."""

from __future__ import annotations

from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.app import JupyterHub
from jupyterhub.proxy import Proxy
from jupyterhub.user import UserDict
from sqlalchemy import event

from ec2spawner.hub.app.event_loop.route_activity import without_activity

ROUTE = {
    "routespec": "/user/ada/",
    "target": "http://10.0.0.1:8888",
    "data": {"user": "ada", "server_name": "", "last_activity": "2026-11-24T09:00:00Z"},
}


class OneRoute(Proxy):
    async def get_all_routes(self) -> dict[str, Any]:
        return {"/user/ada/": ROUTE}

    async def check_routes(self, *_: Any) -> None: ...


@pytest.mark.parametrize("is_without", [True, False])
async def test_users_are_queried_only_where_routes_have_a_time(is_without: bool) -> None:
    """`hub.app.event_loop.route_activity` leans on it: it is a private part of JupyterHub."""
    session = orm.new_session_factory("sqlite:///:memory:")()
    session.add(orm.User(name="ada"))
    session.commit()
    asked: list[str] = []
    event.listen(session.get_bind(), "before_cursor_execute", lambda *each: asked.append(each[2]))
    hub = JupyterHub()
    hub.db, hub.users = session, UserDict(lambda: session, {})
    hub.proxy = without_activity(OneRoute)() if is_without else OneRoute()
    await hub.update_last_activity()
    assert any("FROM users" in statement for statement in asked) != is_without


async def test_routes_are_otherwise_the_same() -> None:
    routes = await without_activity(OneRoute)().get_all_routes()
    assert routes == {
        "/user/ada/": {**ROUTE, "data": {"user": "ada", "server_name": ""}},
    }
    assert "last_activity" in ROUTE["data"]
