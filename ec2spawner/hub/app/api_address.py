"""Where instances reach the hub's API, and which option says so."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from jupyterhub.app import JupyterHub
from jupyterhub.utils import url_path_join

from ...config import Options, Problem
from ...config.values import shown

BIND_URL = "c.JupyterHub.hub_bind_url"
"""Says where the hub listens, which is where instances reach it unless another option differs."""


@dataclass(frozen=True, slots=True)
class ApiAddress:
    """Where instances reach the hub, and which option decided it."""

    url: str
    """Of the hub's API, without a slash at its end."""
    option: str
    """The one that decides about host and port."""


def api_address(app: JupyterHub, options: Options) -> ApiAddress:
    """As the agents of these options are given it."""
    path = api_path(app)
    if options.hub_api_url:
        return ApiAddress(options.hub_api_url.rstrip("/"), "c.EC2Spawner.hub_api_url")
    if of_spawner := app.spawner_class(config=app.config).hub_connect_url:
        return ApiAddress(url_path_join(of_spawner, path), "c.EC2Spawner.hub_connect_url")
    option = "c.JupyterHub.hub_connect_url" if app.hub_connect_url else BIND_URL
    return ApiAddress(app.hub.api_url.rstrip("/"), option)


def api_path(app: JupyterHub) -> str:
    """Path of the hub's API: `/hub/api`, behind `c.JupyterHub.base_url`."""
    return str(urlsplit(app.hub.api_url).path.rstrip("/"))


def problems(app: JupyterHub, options: Options) -> list[Problem]:
    """An address at which no instance finds the hub: every start would fail, after minutes."""
    address, path = api_address(app, options), api_path(app)
    url = urlsplit(address.url)
    found = []
    if not url.path.endswith(path):
        found.append(
            Problem(
                address.option,
                f"{shown(address.url)} does not end with {path}, where the hub's API is, so agents "
                "would not find it",
                f'{address.option} = "{url.scheme}://{url.netloc}{path}"',
            )
        )
    if not options.endpoint_url and is_loopback(url.hostname or ""):
        found.append(
            Problem(
                address.option,
                f"instances cannot reach the hub at {url.hostname}, which on an instance is the "
                "instance itself, so no server could start",
                address_fix(address.option, path),
            )
        )
    return found


def address_fix(option: str, path: str) -> str:
    """What to write instead, for a hub that instances reach at its private address."""
    root = "http://<private address of the hub>:8081"
    return f'{option} = "{root}{path if option.endswith("hub_api_url") else ""}"'


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`; False for names other than `localhost`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def reachable_api_url(own: str, options: Options) -> str:
    """The hub's API as agents reach it; `own` is what JupyterHub gives its servers."""
    return options.hub_api_url.rstrip("/") or own
