"""JupyterHub as the demo runs it.

It refuses a request whose `Host` names another site: a page there could otherwise make its own name
mean 127.0.0.1 ("DNS rebinding"), and its scripts would then be on the hub's own origin.
"""

from __future__ import annotations

import ipaddress
import re
from http import HTTPStatus
from typing import Any

from jupyterhub.app import JupyterHub
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher
from tornado.web import RequestHandler
from traitlets import List, Unicode


class DemoHub(JupyterHub):
    """A JupyterHub that answers only to its own names."""

    allowed_hosts = List(
        Unicode(),
        help="Names in `Host` that are served, beside the loopback addresses and localhost.",
    ).tag(config=True)

    def init_handlers(self) -> None:
        """JupyterHub's handlers, behind one that refuses other host names."""
        super().init_handlers()
        allowed = frozenset({"localhost", *self.allowed_hosts})
        self.handlers.insert(0, (OtherHost(allowed), RefusedHandler))


class OtherHost(Matcher):
    """Matches a request for a host that is not served."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """Arguments for the refusal if `Host` is neither allowed nor an address; else None."""
        host = re.sub(r":\d*$", "", request.host).strip("[]").lower()
        if host in self._allowed:
            return None
        try:
            # An address in `Host` is the one that the browser connected to.
            return None if ipaddress.ip_address(host).is_loopback else {}
        except ValueError:
            return {}


class RefusedHandler(RequestHandler):
    """403 that says how to allow the name."""

    def prepare(self) -> None:
        """Refuse the request before any method is looked up."""
        self.set_status(HTTPStatus.FORBIDDEN)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(
            "This demo is not served under this name. Open the address that `ec2spawner demo` "
            "printed, or start it with --allowed-host and the name.\n"
        )
