"""When JupyterHub has added the route to a server: its user can be redirected.

JupyterHub checks a server that has started, and adds its route then. There is no hook after that,
so the proxy's `add_user` says it.
"""

from __future__ import annotations

import logging
from typing import Any

from jupyterhub.proxy import Proxy

from . import service

log = logging.getLogger(__name__)


def noting_routes(proxy_class: type[Proxy]) -> type[Proxy]:
    """The same proxy, but the provisioner learns when the route of a server is there."""

    class NotingProxy(proxy_class):
        async def add_user(self, user: Any, server_name: str = "") -> None:
            await super().add_user(user, server_name)
            try:
                _note(user.spawners[server_name])
            except Exception:
                log.exception("When the route of %s was added is not recorded", user.name)

    NotingProxy.__name__ = proxy_class.__name__
    NotingProxy.__qualname__ = proxy_class.__qualname__
    return NotingProxy


def _note(spawner: Any) -> None:
    provisioner = service.current_provisioner()
    lease_id = getattr(spawner, "lease_id", "")
    if provisioner is not None and lease_id:
        provisioner.route_added(lease_id)
