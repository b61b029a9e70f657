"""Open pages save their documents, and show how their session is saved, before JupyterHub removes
the route to their server.

When a server is stopped, JupyterHub removes its route first and calls `Spawner.stop` after that,
when no page can save any more. There is no hook in between, so such a stop begins in the proxy's
`delete_user`.
"""

from __future__ import annotations

import logging
from typing import Any

from jupyterhub.proxy import Proxy

from ...wire import SAVE_SECONDS
from ..app import service
from .jupyterhub_server_api import stop_for

log = logging.getLogger(__name__)

ROUTE_SECONDS = SAVE_SECONDS + 2.0
"""The longest time that a route stays after a stop has begun, besides the time for saving the
session: the agent learns of the stop at once, waits at most `SAVE_SECONDS`, and reports when the
notebook has ended."""


def saving_before_stop(proxy_class: type[Proxy]) -> type[Proxy]:
    """The same proxy, but it begins the stop of a running server before it removes the route."""

    class SavingProxy(proxy_class):
        async def delete_user(self, user: Any, server_name: str = "") -> None:
            try:
                await _stop_first(user.name, user.spawners[server_name])
            except Exception:
                log.exception("Documents of %s may not have been saved", user.name)
            await super().delete_user(user, server_name)

    SavingProxy.__name__ = proxy_class.__name__
    SavingProxy.__qualname__ = proxy_class.__qualname__
    return SavingProxy


async def _stop_first(owner: str, spawner: Any) -> None:
    """Begin the stop of a running server, and wait until its pages have saved."""
    provisioner = service.current_provisioner()
    lease = provisioner.lease(getattr(spawner, "lease_id", "")) if provisioner else None
    if provisioner is None or lease is None or lease.ready_at is None:
        return
    await provisioner.end(lease.lease_id, stop_for(owner, lease))
    stopped = provisioner.lease(lease.lease_id)
    saving = stopped.stop.save_seconds if stopped and stopped.stop else 0.0
    await provisioner.wait_agent_stopped(lease.lease_id, ROUTE_SECONDS + saving)
