"""How people log in to the demo: with any name, and the one password that its start printed."""

from __future__ import annotations

from secrets import compare_digest
from typing import Any

from jupyterhub.auth import Authenticator
from traitlets import Unicode


class OnePassword(Authenticator):
    """JupyterHub's `SharedPasswordAuthenticator` wants a second password for admins, of 32 letters;
    a demo is one person's.
    """

    password = Unicode(help="The password of every user. If it is empty, all logins fail.").tag(
        config=True
    )

    async def authenticate(self, handler: Any, data: dict[str, str]) -> str | None:
        """The user name if the password matches, compared in constant time; else None."""
        matches = compare_digest(data["password"].encode(), self.password.encode())
        return data["username"] if matches and self.password else None
