"""Encrypts what a notebook needs to start, so that it can be stored in the database.

The key is derived from JupyterHub's cookie secret: the database alone reveals nothing.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


@dataclass(frozen=True, slots=True)
class NotebookStart:
    """Everything that a notebook server is started with, secrets included."""

    environment: dict[str, str]
    command: list[str]
    api_token: str
    """JupyterHub's token of the server: kept so that every stop can revoke it."""
    base_url: str
    user_options: dict[str, Any] | None = None
    """Those of other hardware, which replace the server's once it runs there; else None."""


class SealBroken(Exception):
    """The cookie secret has changed since, or the sealed text was altered."""


class Seal:
    """Encrypts what a notebook is started with, by a key derived from the cookie secret."""

    def __init__(self, cookie_secret: bytes) -> None:
        derived = HKDF(SHA256(), 32, salt=None, info=b"ec2spawner notebook start").derive(
            cookie_secret
        )
        self._fernet = Fernet(base64.urlsafe_b64encode(derived))

    def close(self, start: NotebookStart) -> str:
        """Encrypt; the result is ASCII."""
        return self._fernet.encrypt(json.dumps(asdict(start)).encode()).decode("ascii")

    def open(self, sealed: str) -> NotebookStart:
        """Raises `SealBroken`."""
        try:
            return NotebookStart(**json.loads(self._fernet.decrypt(sealed.encode("ascii"))))
        except (InvalidToken, UnicodeEncodeError, TypeError, ValueError) as error:
            raise SealBroken("sealed with another cookie secret, or altered") from error
