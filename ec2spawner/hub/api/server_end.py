"""Reports to open pages whether their server still runs, and if not, why.

Such a page cannot use its user's cookie: JupyterHub refuses requests from a server's page without
the hub's own XSRF token, so that one user's pages cannot act as another user. So each start puts a
signed address into the server's environment that answers this one question about this one lease.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from tornado.web import HTTPError

from ...provisioner.model.leases.lease import LeaseState
from ...wire import ServerEnd
from ..app import service

ADDRESS = "EC2SPAWNER_END_URL"
"""The environment variable of the server with the address."""


def address(hub_base_url: str, cookie_secret: bytes, lease_id: str) -> str:
    """The path at which the hub answers for this lease."""
    return f"{hub_base_url}api/ec2/ends/{lease_id}?key={_key(cookie_secret, lease_id)}"


class EndHandler(APIHandler):
    """`GET ends/{lease}?key=`: a `ServerEnd`, from memory; 404 also for a wrong key."""

    _accept_cookie_auth = False
    _accept_token_auth = False

    def check_xsrf_cookie(self) -> None:
        """No cookie is accepted here, so none can be forged."""

    async def get(self, lease_id: str) -> None:
        """`ServerEnd` of a lease; 404 for a wrong key, so that ids cannot be probed."""
        key = self.get_query_argument("key", "")
        expected = _key(self.settings["cookie_secret"], lease_id)
        if not hmac.compare_digest(key.encode(), expected.encode()):
            raise HTTPError(404)
        end = _end_of(lease_id)
        if end is None:
            raise HTTPError(404)
        # With subdomains the page has another origin than the hub; the key is the permission.
        self.set_header("Access-Control-Allow-Origin", "*")
        self.set_header("Cache-Control", "no-store")
        self.finish(end.model_dump_json())


def _end_of(lease_id: str) -> ServerEnd | None:
    provisioner = service.current_provisioner()
    if provisioner is None:
        raise HTTPError(503)
    lease = provisioner.remembered(lease_id)
    if lease is None:
        return None
    newest = provisioner.lease_of(lease.user, lease.server)
    is_running = newest is not None and newest.state is LeaseState.READY
    continues = not is_running and provisioner.moves.to_resume(lease.user, lease.server) is not None
    is_over = not is_running and not continues
    return ServerEnd(
        running=is_running,
        continues=continues,
        asleep=is_over and provisioner.sleeping.of(lease.user, lease.server) is not None,
        stop=lease.stop,
        ended_at=lease.ended_at,
    )


def _key(cookie_secret: bytes, lease_id: str) -> str:
    message = f"ec2spawner end of lease {lease_id}".encode()
    return hmac.new(cookie_secret, message, "sha256").hexdigest()


handlers: list[tuple[str, Callable[..., Any]]] = [(r"/api/ec2/ends/([a-z0-9-]{1,80})", EndHandler)]
