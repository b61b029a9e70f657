"""What an admin has set of the warm pool by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...core.pool.targets import Override


@dataclass(frozen=True, slots=True)
class SetByHand:
    """A number that holds instead of the rules', with who has set it."""

    override: Override
    by: str
    """Name of the user or service."""
    at: datetime
    """UTC."""
