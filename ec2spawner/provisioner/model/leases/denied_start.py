"""A start that a limit refused, as it is stored and shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ....core.limits.admission import Refusal

KEPT: Final = timedelta(days=1)
"""How long a refused start is remembered: it is news, not history."""


@dataclass(frozen=True, slots=True)
class DeniedStart:
    """A request that was refused."""

    at: datetime
    """UTC."""
    lease_id: str
    user: str
    server: str
    profile_name: str
    refusal: Refusal
