"""What was saved last of a server's kernels, as it is stored and shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ...wire import SavedSession

EXPIRY_SHOWN: Final = timedelta(days=30)
"""How long the spawn page says that a session has expired. The record is kept for that."""


@dataclass(frozen=True, slots=True)
class SleepingSession:
    """The summary of a saved session. Its values are in the home, where only its owner reads
    them."""

    user: str
    server: str
    lease_id: str
    """Of the lease that ended with it."""
    session: SavedSession
    """As its agent reported it: `slept_at` is clamped to the hub's clock, nothing else is
    verified."""
    expires_at: datetime
    """UTC. From then on it is not offered, and the owner's next start deletes its files."""
    woken_at: datetime | None = None
    """When a server that woke it became ready; None while it sleeps."""
    expiry_reported: bool = False
    """Whether metrics and events have its expiry: once, although the record is kept longer."""

    @property
    def has_ended(self) -> bool:
        """Whether its end is reported: it was woken, or has expired."""
        return self.woken_at is not None or self.expiry_reported

    @property
    def due_at(self) -> datetime:
        """When its expiry is to be reported, or the record to be forgotten. UTC."""
        return self.expires_at + (EXPIRY_SHOWN if self.expiry_reported else timedelta())

    def as_expired(self) -> SleepingSession:
        """The same once its expiry is reported: without the names of notebooks and variables, which
        nobody needs any more."""
        nothing = self.session.model_copy(update={"kernels": [], "kernel_count": 0})
        return replace(self, session=nothing, expiry_reported=True)
