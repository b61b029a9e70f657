"""Links that start a server, and which of them may.

JupyterHub starts a server at once for `GET /hub/spawn/<user>?opt-profile=...`, wherever the link
stands: it asks no page view for its XSRF token, so any site on the web could start a machine at
somebody's cost. Here only a link that this hub has signed starts something, for the server and
within the time that it was made for; any other opens the spawn page with its choice made.

What browsers say of where a link was followed is no proof: after the login form, and after a
start, JupyterHub sends people on to a `next` that any site may have written, and that request
comes from a page of the hub's own.
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
"""Of a signature. Prices and what is sold out have changed by then."""

SIGNED = "signed"
"""The name of a link's signature among its options; no option itself."""


class NotByThisLink(Exception):
    """A link that nobody signed: its choice is shown, and the person starts it."""

    jupyterhub_message = ""
    """No error: the spawn page says it as information."""


def start_url(spawner: Spawner, user_options: Mapping[str, str], now: datetime) -> str:
    """The link that starts this server with these options, and no other."""
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
    """True where `start_url` made a link with this signature for this server and these options."""
    until, _, signature = signed.partition("-")
    expected = _signature(spawner, user_options, until)
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        return False
    return now.timestamp() < int(until)


def _signature(spawner: Spawner, user_options: Mapping[str, object], until: str) -> str:
    said = [spawner.user.name, spawner.name, sorted(user_options.items()), until]
    message = b"ec2spawner start link " + json.dumps(said).encode()
    return hmac.new(spawner.user.settings["cookie_secret"], message, "sha256").hexdigest()
