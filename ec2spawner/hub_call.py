"""Calls of a hub's API by our commands, with the token of a person or program."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from .core.text.untrusted import visible
from .terminal import complain

TOKEN: Final = "JUPYTERHUB_API_TOKEN"  # noqa: S105 - a variable
API_URL: Final = "JUPYTERHUB_API_URL"
"""In the environment of each server, with the address of the hub's API."""

TIMEOUT: Final = 90.0
"""Seconds for the hub's answer: AWS takes up to half a minute to begin an interruption."""

HUB_API: Final = "/hub/api/"

BELOW_HUB: Final = f"{HUB_API}ec2/"
"""Path of our calls below the hub's own address."""


class HubRefused(Exception):
    """The hub refused, or did not answer; the message says which, for people."""


def token_and_hub(command: str, named: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The token and the hub that a command calls; None after a complaint.

    `named` is the address that was written; on a server of the hub it is known.
    """
    token, hub = environ.get(TOKEN, ""), named or environ.get(API_URL, "")
    if not token:
        complain(command, f"set {TOKEN} to a token of yours: the hub's page Token makes one")
        return None
    if urlsplit(hub).scheme not in ("http", "https"):
        complain(command, "name the hub: --hub=https://hub.example.org")
        return None
    return token, hub


def api_url(hub: str, path: str) -> str:
    """The address of a call below `/hub/api/ec2/`, for a hub's own address or that of its pages or
    API."""
    return f"{_base(hub)}{BELOW_HUB}{path}"


def hub_api_url(hub: str) -> str:
    """The address of JupyterHub's own API, with a slash at its end, for the same addresses."""
    return f"{_base(hub)}{HUB_API}"


def _base(hub: str) -> str:
    return hub.rstrip("/").removesuffix("/api").removesuffix("/hub")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leave a redirect to its caller: urllib would send the token along, to another host, too."""

    def redirect_request(self, *_: Any) -> None:
        """Make no request."""


def call(method: str, url: str, token: str, body: Mapping[str, Any] | None = None) -> Any:
    """The answer's JSON; None where it has none. Raises `HubRefused`, for a redirect, too."""
    text = _answer(method, url, token, body)
    try:
        return json.loads(text) if text else None
    except ValueError as error:
        raise HubRefused(f"{visible(url)} does not answer: {error}") from error


def read(url: str, token: str) -> bytes:
    """What a `GET` is answered with, as it is. Raises `HubRefused`, for a redirect, too."""
    return _answer("GET", url, token, None)


def _answer(method: str, url: str, token: str, body: Mapping[str, Any] | None) -> bytes:
    request = urllib.request.Request(  # noqa: S310 - http or https, see `token_and_hub`
        url,
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"token {token}", "Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        raise HubRefused(_reason(error)) from error
    except (OSError, ValueError) as error:
        raise HubRefused(f"{visible(url)} does not answer: {error}") from error


def _reason(error: urllib.error.HTTPError) -> str:
    if 300 <= error.code < 400 and (location := error.headers.get("Location")):
        return visible(f"{_redirect(urljoin(error.url, location))} (HTTP {error.code})")
    try:
        said = str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError, OSError):
        said = "the hub does not know this call: is it ec2spawner's, and of this version?"
    return visible(f"{said} (HTTP {error.code})")


def _redirect(target: str) -> str:
    base, is_this_call, _ = target.partition(BELOW_HUB)
    if is_this_call:
        return f"the hub redirects to {base}: name that address with --hub"
    # A login's address may have a state or key in its query.
    page = target.partition("?")[0]
    return f"the hub redirects to {page}: check the address in --hub"
