"""Which names users cannot have, and why.

JupyterHub refuses some without a reason, and takes others with which no server starts.
"""

from __future__ import annotations

import unicodedata
from typing import Final
from urllib.parse import unquote

from jupyterhub.app import JupyterHub
from tornado.web import HTTPError

MAX_CHARACTERS: Final = 255
"""Length of JupyterHub's column; SQLite does not enforce it, PostgreSQL fails."""

MAX_SHOWN: Final = 60
"""Characters of a refused name that a message repeats."""


def why_not(name: str) -> str:
    """Why no user can have this name, for people; empty if JupyterHub decides."""
    reason = ""
    if not name:
        reason = "it is empty"
    elif set(unquote(name)) == {"."}:
        reason = "in an address, browsers and proxies take it for a step to another folder"
    elif "/" in name:
        reason = "in an address, a slash begins another name"
    elif name != name.strip():
        reason = "it begins or ends with a space"
    elif any(unicodedata.category(c) in {"Cc", "Cs"} for c in name):
        reason = "it has control characters, which no environment variable and no log can hold"
    elif len(name) > MAX_CHARACTERS:
        reason = f"it has more than {MAX_CHARACTERS} characters"
    return f"{name[:MAX_SHOWN]!r} cannot be the name of a user: {reason}" if reason else ""


async def explain_refused_names(app: JupyterHub) -> None:
    """From now on, answer 400 with the reason wherever JupyterHub validates such a name: where
    admins create or rename users, and where somebody logs in with it. Returns once the hub serves.
    """
    await app._start_future  # before that, the names of the configuration are validated
    validate = app.authenticator.validate_username

    def validate_username(name: str) -> bool:
        if reason := why_not(name):
            raise HTTPError(400, reason)
        return bool(validate(name))

    app.authenticator.validate_username = validate_username
