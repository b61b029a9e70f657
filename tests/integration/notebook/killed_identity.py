"""Loaded into a server by its name, it counts the server's changes of the folder of sleep."""

from __future__ import annotations

from tests.integration.notebook import killed_at
from tests.integration.notebook.owner_identity import OwnerIdentity

assert killed_at.FOLDER


class Identity(OwnerIdentity):
    """The owner."""
