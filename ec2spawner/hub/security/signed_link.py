"""Signs the links that start a server, and checks their signatures.

JupyterHub starts a server at once for `GET /hub/spawn/<user>?opt-profile=...`, wherever the link
comes from: it checks no XSRF token for a page view, so any web site could start an instance at a
user's cost. Here only a link that this hub has signed starts a server, for the server and within
the time that it was made for; any other link opens the spawn page with its choice filled in.

The headers with which browsers report where a link was followed prove nothing: after the login
form, and after a start, JupyterHub redirects to a `next` that any site may have written, and that
request comes from one of the hub's own pages.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from datetime import datetime, timedelta

from jupyterhub.spawner import Spawner
from jupyterhub.utils import url_escape_path, url_path_join
from tornado.httputil import url_concat

VALID_FOR = timedelta(hours=1)
"""Lifetime of a signature. Prices and capacity have changed by then."""

SIGNED = "signed"
"""The query parameter with the signature; not a user option."""


class NotByThisLink(Exception):
    """A link without a valid signature: the page shows its choice, and the user starts it."""

    jupyterhub_message = ""
    """Empty: the spawn page shows information, not an error."""


def start_url(spawner: Spawner, user_options: Mapping[str, str], now: datetime) -> str:
    """The signed link that starts this server with exactly these options."""
    parts = [spawner.hub.base_url, "spawn", spawner.user.escaped_name]
    if spawner.name:
        parts.append(url_escape_path(spawner.name))
    until = str(int((now + VALID_FOR).timestamp()))
    query = {
        **user_options,
        SIGNED: f"{until}-{_signature(spawner, user_options, until)}",
    }
    sent = {f"opt-{name}": value for name, value in query.items()}
    return str(url_concat(url_path_join(*parts), sent))


def is_signed(
    spawner: Spawner, user_options: Mapping[str, object], signed: str, now: datetime
) -> bool:
    """True if `start_url` made this signature for these arguments and it has not expired."""
    until, _, signature = signed.partition("-")
    expected = _signature(spawner, user_options, until)
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        return False
    return now.timestamp() < int(until)


def _signature(spawner: Spawner, user_options: Mapping[str, object], until: str) -> str:
    said = [
        spawner.user.id,
        str(spawner.user.created),
        spawner.name,
        sorted(user_options.items()),
        until,
    ]
    message = b"ec2spawner start link " + json.dumps(said).encode()
    return hmac.new(spawner.user.settings["cookie_secret"], message, "sha256").hexdigest()
