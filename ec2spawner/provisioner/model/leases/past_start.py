"""A start of the last weeks, by which the warm pool is planned."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class PastStart(NamedTuple):
    """When a server was requested, and whose it was."""

    at: datetime
    """UTC."""
    user: str
    server: str
