"""JupyterHub does not look up the activity of each route: servers report their users' themselves.

Every five minutes JupyterHub takes the time of last activity from each route of
configurable-http-proxy, with two queries for each on its event loop, and awaits nothing in between:
with a thousand routes, no request is answered for two seconds. Routes of other proxies have no such
time, so JupyterHub does without it. Each server reports its activity every five minutes besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyterhub.proxy import Proxy

ACTIVITY = "last_activity"


def without_activity(proxy_class: type[Proxy]) -> type[Proxy]:
    """The same proxy, whose routes have no time of activity."""

    class WithoutActivity(proxy_class):
        async def get_all_routes(self) -> dict[str, Any]:
            routes = await super().get_all_routes()
            return {spec: _without(route) for spec, route in routes.items()}

    WithoutActivity.__name__ = proxy_class.__name__
    WithoutActivity.__qualname__ = proxy_class.__qualname__
    return WithoutActivity


def _without(route: Mapping[str, Any]) -> dict[str, Any]:
    data = {name: value for name, value in route["data"].items() if name != ACTIVITY}
    return {**route, "data": data}
