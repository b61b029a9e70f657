"""Further options that a hub with `internal_ssl` needs, so that instances reach and trust it.

Agents call the hub before they have a certificate, so they use its public address; its own port
accepts no connection without one. Notebooks have a certificate and use that port, whose certificate
they can verify: they trust only JupyterHub's own authorities.
"""

from __future__ import annotations

import socket
from urllib.parse import SplitResult, urlsplit

from jupyterhub.app import JupyterHub

from ...config import Options, Problem

ALWAYS_NAMED = frozenset({"127.0.0.1", "::1", "localhost"})
"""JupyterHub writes these into each hub's certificate, besides the machine's own full name."""


def problems(app: JupyterHub, options: Options) -> list[Problem]:
    """Problems that would prevent every server of this hub from starting, or end them all later."""
    connect = app.spawner_class(config=app.config).hub_connect_url or app.hub.api_url
    own = urlsplit(connect)
    found = [*_own(own, app, options), *_public(options.hub_api_url, own)]
    if app.recreate_internal_certs:
        found.append(
            Problem(
                "c.JupyterHub.recreate_internal_certs",
                "after each restart the hub would not believe its running servers, and end them",
                "c.JupyterHub.recreate_internal_certs = False; to begin anew, stop all servers and "
                f"remove the folder {app.internal_certs_location}",
            )
        )
    return found


def _public(hub_api_url: str, own: SplitResult) -> list[Problem]:
    example = 'c.EC2Spawner.hub_api_url = "https://<public name of the hub>/hub/api"'
    if not hub_api_url:
        wrong = "is needed with c.JupyterHub.internal_ssl: an instance has no certificate yet when "
        wrong += "it calls the hub first"
        return [Problem("c.EC2Spawner.hub_api_url", wrong, example)]
    if urlsplit(hub_api_url).netloc == own.netloc:
        wrong = f"is the hub's own port, {own.netloc}, which with c.JupyterHub.internal_ssl lets "
        wrong += "nobody in without a certificate"
        return [Problem("c.EC2Spawner.hub_api_url", wrong, example)]
    return []


def _own(own: SplitResult, app: JupyterHub, options: Options) -> list[Problem]:
    host = own.hostname or ""
    if host in ALWAYS_NAMED and not options.endpoint_url:
        wrong = f"notebooks cannot reach the hub at {host}, which is their own machine"
        fix = 'c.JupyterHub.hub_ip = "" and c.JupyterHub.hub_connect_url = '
        fix += '"https://<private address of the hub>:8081"'
        return [Problem("c.JupyterHub.hub_connect_url", wrong, fix)]
    if own.scheme != "https":
        wrong = f"{own.geturl()} is not https, which c.JupyterHub.internal_ssl makes of the hub's "
        fix = f'c.JupyterHub.hub_connect_url = "https://{own.netloc}"'
        return [Problem("c.JupyterHub.hub_connect_url", f"{wrong}own port", fix)]
    named = {name.partition(":")[2] for name in app.trusted_alt_names}
    if host in ALWAYS_NAMED | named | {socket.getfqdn()}:
        return []
    kind = "IP" if host.replace(".", "").isdecimal() or ":" in host else "DNS"
    return [
        Problem(
            "c.JupyterHub.trusted_alt_names",
            f"the hub's certificate does not name {host}, at which notebooks reach the hub",
            f'c.JupyterHub.trusted_alt_names = ["{kind}:{host}"]; where the folder '
            f"{app.internal_certs_location} is there already, remove hub-internal from it too",
        )
    ]
